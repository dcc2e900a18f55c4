"""Which brokers a cluster of a test has, and which of them an operator has started as masters."""

import string
from collections.abc import Mapping
from typing import Final

import attrs

from jepsen_like.port.port import WrongMode
from jepsen_like.systems.rocketmq.mode import QUEUES, RocketMode
from jepsen_like.systems.rocketmq.promises import RocketReplication
from rocketmq_compat.config_keys import SLAVE

MASTER_ID: Final = 0
GROUPS_MAX: Final = len(string.ascii_lowercase)
QUICK: Final[Mapping[str, object]] = {
    "haHousekeepingInterval": 3000,
    "haReconnectInterval": 50,
    "haSendHeartbeatInterval": 200,
    "registerNameServerPeriod": 200,
    "slaveTimeout": 1000,
}
"""Properties with which a broker notices soon what has changed; a test's own come over them."""
ALWAYS: Final[Mapping[str, object]] = {"slaveReadEnable": True}
"""Every copy has to show what it holds."""
OF_NAME_SERVER: Final = ("brokerChannelExpiredTime=3000", "scanNotActiveBrokerInterval=200")


@attrs.define
class BrokerGroups:
    """Brokers 1 to n: group by group, each a master and its slaves; the name server comes after the last one."""

    mode: RocketMode
    _ids: dict[str, dict[int, int]]
    """By name of the group: broker ids by node."""

    @classmethod
    def of(cls, *, pairs: int, slaves: int, sync: bool, properties: Mapping[str, object]) -> "BrokerGroups":
        """Raises `WrongMode` for properties unknown or fixed by the cluster, `ValueError` for impossible numbers."""
        if not 1 <= pairs <= GROUPS_MAX or slaves < 0:
            raise ValueError(
                f"a cluster has 1 to {GROUPS_MAX} masters, and none or more slaves for each: not {pairs}, {slaves}"
            )
        for name in (QUEUES, *ALWAYS):
            if name in properties:
                raise WrongMode(
                    f"{name} is not for a cluster of a test: each copy is read in the end, and topics have their own queues"
                )
        given = {**QUICK, **properties, **ALWAYS}
        words = [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in given.items()]
        replication = RocketReplication.SYNC_SLAVE if sync else RocketReplication.ASYNC_SLAVE
        size = slaves + 1
        ids = {
            f"broker-{string.ascii_lowercase[group]}": {group * size + each + 1: each for each in range(size)}
            for group in range(pairs)
        }
        return cls(RocketMode.of(words, replication).on(pairs * size), ids)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that masters share with their slaves."""
        return tuple(self._ids)

    @property
    def brokers(self) -> tuple[int, ...]:
        """All brokers of all groups."""
        return tuple(node for ids in self._ids.values() for node in ids)

    def all(self) -> list[tuple[int, ...]]:
        """The brokers of each group."""
        return [tuple(ids) for ids in self._ids.values()]

    @property
    def name_server(self) -> int:
        """The node that is no broker."""
        return max(self.brokers) + 1

    @property
    def nodes(self) -> tuple[int, ...]:
        """The brokers, and the name server."""
        return (*self.brokers, self.name_server)

    def members(self, name: str) -> tuple[int, ...]:
        """Returns the brokers of this name. Raises `ValueError` if there are none."""
        if name not in self._ids:
            raise ValueError(f"there is no broker {name!r}; there are {', '.join(self.names)}")
        return tuple(self._ids[name])

    def name_of(self, broker: int) -> str:
        """Returns the name of the broker's group. Raises `ValueError` for a node that is no broker."""
        for name, ids in self._ids.items():
            if broker in ids:
                return name
        raise ValueError(f"node {broker} is no broker; brokers are {', '.join(map(str, self.brokers))}")

    def id_of(self, broker: int) -> int:
        """Returns `brokerId`, 0 for a master."""
        return self._ids[self.name_of(broker)][broker]

    def node_of(self, name: str, broker_id: int) -> int:
        """Returns the broker with this id in its group."""
        return next(node for node, each in self._ids[name].items() if each == broker_id)

    def master_of(self, name: str) -> int:
        """Returns the broker that an operator has made the group's master. Raises `ValueError` for an unknown name."""
        self.members(name)
        return self.node_of(name, MASTER_ID)

    def promote(self, broker: int) -> int:
        """Swap this slave with its master at their next start. Returns the former; raises `ValueError` for a master."""
        ids = self._ids[self.name_of(broker)]
        if ids[broker] == MASTER_ID:
            raise ValueError(f"broker {broker} is the master already")
        former = self.master_of(self.name_of(broker))
        ids[former], ids[broker] = ids[broker], MASTER_ID
        return former

    def words(self, broker: int) -> list[str]:
        """Returns the properties of a broker at its next start, as `name=value`, but for addresses."""
        broker_id = self.id_of(broker)
        role = SLAVE if broker_id != MASTER_ID else self.mode.master_role
        name = self.name_of(broker)
        words = [f"brokerName={name}", f"brokerId={broker_id}", f"brokerRole={role}"]
        return [f"totalReplicas={len(self.members(name))}", *self.mode.given, *words]
