"""The addresses of the nodes of a run: as they see each other, as clients see them, and as the harness does."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

import attrs
import trio

from jepsen_like.cluster.fault_network import FaultNetwork, anywhere, beside
from jepsen_like.cluster.ports import LOOPBACK, ReservedPorts
from jepsen_like.port.wires import Address, Pair, Wires
from jepsen_like.port.zones import NOWHERE, ZoneMap


def _nothing() -> None:
    """A node lives where the harness does."""


ANY_HOST = "0.0.0.0"


@attrs.frozen
class ClientDoors:
    """The doors through which clients enter: where it listens for them, and the addresses that nodes give them.

    Node n is at port `port` + n - 1, and given as `advertised_port` + n - 1. Port 0 stands for any that is free; no
    advertised host or port for those at which it listens.
    """

    host: str = LOOPBACK
    port: int = 0
    advertised_host: str = ""
    advertised_port: int = 0

    def listen(self, node: int) -> Address:
        """Returns where to listen for a node's clients."""
        return self.host, self.port + node - 1 if self.port else 0

    def from_here(self, port: int) -> Address:
        """Returns how this machine reaches the door at a port."""
        return LOOPBACK if self.host == ANY_HOST else self.host, port

    def advertise(self, node: int, port: int) -> Address:
        """Returns the address that clients are given for a node, whose door is at `port`."""
        given = self.advertised_port + node - 1 if self.advertised_port else port
        return self.advertised_host or self.host, given


@attrs.frozen(kw_only=True)
class FurtherPorts:
    """One more port of every node, for other nodes and for the harness; what the addresses mean is as in `Site`."""

    listen: Mapping[int, Address]
    peers: Mapping[Pair, Address]
    direct: Mapping[int, Address]


@attrs.frozen(kw_only=True)
class Site:
    """Addresses by node id; only `direct` leads past the faults."""

    wires: Wires
    listen: Mapping[int, Address]
    peers: Mapping[Pair, Address]
    """The address at which the first of a pair dials the second."""
    clients: Mapping[int, Address]
    """They lead clients on this machine to each node."""
    advertised: Mapping[int, Address]
    """They are given to clients: the same, unless these are elsewhere."""
    direct: Mapping[int, Address]
    """For the harness: STATUS and dumps."""
    through: Mapping[Pair, Address]
    """For the harness: how it reaches the second of a pair by the ways between both, with what faults make of them."""
    further: Mapping[str, FurtherPorts] = {}
    """By name."""
    zones: ZoneMap = NOWHERE
    enter: Mapping[int, Callable[[], None]] = {}
    """The first step of a node's process, which puts it where it belongs: runs between fork and exec."""

    def entrance(self, node: int) -> Callable[[], None]:
        """Returns the step to take between fork and exec."""
        return self.enter.get(node, _nothing)


ON_LOOPBACK = ClientDoors()


@asynccontextmanager
async def open_proxies(
    nodes: Iterable[int], doors: ClientDoors = ON_LOOPBACK, further_ports: Iterable[str] = ()
) -> AsyncIterator[Site]:
    """Loopback, with a fault proxy for every way. No port is left behind. Raises `CannotListen`."""
    ids, names = tuple(nodes), tuple(further_ports)
    with ReservedPorts(len(ids) * (1 + len(names))) as reserved:
        ports = iter(reserved.ports)
        direct, *others = [{node: (LOOPBACK, next(ports)) for node in ids} for _ in range(1 + len(names))]
        further = dict(zip(names, others, strict=True))
        # With one port a process is told the way to each other one; with several, hosts stand for the ways.
        place = beside if names else anywhere
        network = FaultNetwork(direct, {node: doors.listen(node) for node in ids}, further, place)
        peers = {pair: link.address for pair, link in network.between.items()}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(network.serve)
            try:
                yield Site(
                    wires=network,
                    listen=direct,
                    peers=peers,
                    clients={node: doors.from_here(link.port) for node, link in network.clients.items()},
                    advertised={node: doors.advertise(node, link.port) for node, link in network.clients.items()},
                    direct=direct,
                    through=peers,
                    further={
                        name: FurtherPorts(
                            listen=addresses,
                            peers={pair: link.address for pair, link in network.further[name].items()},
                            direct=addresses,
                        )
                        for name, addresses in further.items()
                    },
                )
            finally:
                nursery.cancel_scope.cancel()
