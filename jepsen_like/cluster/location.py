"""The addresses of the nodes of a run: as they see each other, as clients see them, and as the harness does."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

import attrs
import trio

from jepsen_like.cluster.fault_network import FaultNetwork
from jepsen_like.cluster.ports import LOOPBACK, ReservedPorts
from jepsen_like.port.wires import Address, Pair, Wires


def _nothing() -> None:
    """A node lives where the harness does."""


@attrs.frozen(kw_only=True)
class Site:
    """Addresses by node id; only `direct` leads past the faults."""

    wires: Wires
    listen: Mapping[int, Address]
    peers: Mapping[Pair, Address]
    """The address at which the first of a pair dials the second."""
    clients: Mapping[int, Address]
    direct: Mapping[int, Address]
    """For the harness: STATUS and dumps."""
    through: Mapping[Pair, Address]
    """For the harness: how it reaches the second of a pair by the ways between both, with what faults make of them."""
    enter: Mapping[int, Callable[[], None]] = {}
    """The first step of a node's process, which puts it where it belongs: runs between fork and exec."""

    def entrance(self, node: int) -> Callable[[], None]:
        """Returns the step to take between fork and exec."""
        return self.enter.get(node, _nothing)


@asynccontextmanager
async def open_proxies(nodes: Iterable[int]) -> AsyncIterator[Site]:
    """Loopback, with a fault proxy for every way. No port is left behind."""
    ids = tuple(nodes)
    with ReservedPorts(len(ids)) as reserved:
        direct = {node: (LOOPBACK, port) for node, port in zip(ids, reserved.ports, strict=True)}
        network = FaultNetwork(direct)
        peers = {pair: (LOOPBACK, link.port) for pair, link in network.between.items()}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(network.serve)
            try:
                yield Site(
                    wires=network,
                    listen=direct,
                    peers=peers,
                    clients={node: (LOOPBACK, link.port) for node, link in network.clients.items()},
                    direct=direct,
                    through=peers,
                )
            finally:
                nursery.cancel_scope.cancel()
