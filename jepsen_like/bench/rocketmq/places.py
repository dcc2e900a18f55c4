"""The addresses and roles of a cluster's processes, and the properties that both systems know for them."""

from collections.abc import Mapping, Sequence

import attrs

from jepsen_like.bench.rocketmq.loads import BrokerLayout
from jepsen_like.cluster.ports import LOOPBACK, ReservedPorts

PORTS_OF_BROKER = 3
VIP_PORT_DISTANCE = 2
"""Brokers also listen at the port of clients less two."""


@attrs.frozen
class NameServerPlace:
    """The name server's."""

    port: int


@attrs.frozen
class BrokerPlace:
    """One broker's. A slave has an id that is not 0, and finds its master by the name server."""

    title: str
    name: str
    broker_id: int
    port: int
    ha_port: int
    group_port: int
    """Of DLedger, where that has a port of its own."""
    nameserver: int
    member: str = ""
    """Of a raft group."""

    @property
    def is_slave(self) -> bool:
        """True if its role is fixed as one."""
        return self.broker_id != 0

    def properties(self, mode: Mapping[str, str], group: Sequence["BrokerPlace"]) -> dict[str, str]:
        """Those that both systems have by the same names."""
        found = {
            "brokerName": self.name,
            "brokerId": f"{self.broker_id}",
            "namesrvAddr": f"{LOOPBACK}:{self.nameserver}",
        }
        if self.is_slave:
            return {**found, "brokerRole": "SLAVE"}
        if group:
            found |= {"enableDLegerCommitLog": "true", "dLegerGroup": self.name, "dLegerSelfId": self.member}
        return {**found, **mode}


@attrs.frozen
class Places:
    """All of a cluster. `group` are the brokers if they are one raft group."""

    nameserver: NameServerPlace
    brokers: Sequence[BrokerPlace]
    group: Sequence[BrokerPlace]

    @classmethod
    def of(cls, layout: BrokerLayout, ports: Sequence[int]) -> "Places":
        """From as many ports as `reserved_ports` reserves."""
        nameserver, *left = ports
        groups = [left[at : at + PORTS_OF_BROKER] for at in range(0, len(left), PORTS_OF_BROKER)]
        brokers = []
        for number, (port, ha_port, group_port) in enumerate(groups):
            if layout is BrokerLayout.GROUP:
                place = BrokerPlace(
                    f"broker-n{number}", "broker-a", 0, port, ha_port, group_port, nameserver, member=f"n{number}"
                )
            else:
                name, broker_id = "ab"[number // 2], number % 2
                title = f"broker-{name}-{broker_id}"
                place = BrokerPlace(title, f"broker-{name}", broker_id, port, ha_port, group_port, nameserver)
            brokers.append(place)
        return cls(NameServerPlace(nameserver), brokers, brokers if layout is BrokerLayout.GROUP else ())

    @property
    def masters(self) -> Sequence[int]:
        """The masters of fixed roles, as places among the brokers."""
        return [number for number, each in enumerate(self.brokers) if not self.group and not each.is_slave]


def reserved_ports(layout: BrokerLayout) -> ReservedPorts:
    """Returns ports for a layout, of which none lies where a broker listens besides."""
    brokers = {BrokerLayout.PAIR: 2, BrokerLayout.TWO_PAIRS: 4, BrokerLayout.GROUP: 3}[layout]
    while True:
        reserved = ReservedPorts(1 + PORTS_OF_BROKER * brokers)
        if not any(port - VIP_PORT_DISTANCE in reserved.ports for port in reserved.ports):
            return reserved
        reserved.close()
