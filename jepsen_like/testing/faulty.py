"""The abilities of every cluster of a test, whatever its nodes: to be cut, healed, stopped, started, and to report.

The network is TCP on loopback through fault proxies. Clients get their ports (`addresses`), and nodes report them to
clients. A cut lets nothing through and notifies neither side; on `heal` what waited arrives.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import Any

import attrs

from jepsen_like.port.port import TlsPaths
from jepsen_like.port.wires import CLEAR, CUT, Condition, Pair, Wires
from jepsen_like.port.zones import NO_ZONES, NOWHERE, ZoneMap, ZonePlan

POLL_S = 0.005
PATIENCE_S = 10.0


@attrs.frozen
class NodeEvent:
    """Something that a node reported, or that was done to it; `at_s` counts from the cluster's start."""

    at_s: float
    node: int
    event: str
    fields: dict[str, Any]

    def __str__(self) -> str:
        told = " ".join(f"{name}={value}" for name, value in self.fields.items())
        return f"{self.at_s:8.3f}  n{self.node}  {self.event} {told}".rstrip()


@attrs.define
class WaitedTooLong(Exception):
    """The cluster did not reach in time what was waited for."""

    what: str

    def __str__(self) -> str:
        return self.what


def zones_planned(zones: str, delay_s: float) -> ZonePlan:
    """Returns the plan for `zones`, as `quorumlog run --zones` takes them; of none for an empty text. Raises `WrongZones`."""
    return ZonePlan.of(zones, delay_s=delay_s) if zones else NO_ZONES


class FaultyCluster(ABC):
    """Nodes and the network between them. Nodes are named by their ids, 1 to n; `ValueError` for any other."""

    def __init__(self, cluster_id: str, nodes: Iterable[int], addresses: Sequence[str], wires: Wires) -> None:
        """Use `open`."""
        self.cluster_id = cluster_id
        self.nodes = tuple(nodes)
        self.addresses = list(addresses)
        """The addresses at which clients reach the nodes: "host:port", behind the faults."""
        self.tls: TlsPaths | None = None
        """The files with which clients connect, if the cluster speaks TLS."""
        self._events: list[NodeEvent] = []
        self._wires = wires
        self._cut: frozenset[Pair] = frozenset()
        self._cut_clients: frozenset[int] = frozenset()
        self._without_power: set[int] = set()
        self._began = time.monotonic()
        self.zones = NOWHERE
        """The zones in which the nodes stand."""

    def zone(self, name: str) -> tuple[int, ...]:
        """Returns the nodes in a zone, to be killed or isolated together: `a`, `b`, ... Raises `ValueError` for another name."""
        if name not in self.zones.names:
            raise ValueError(f"there is no zone {name!r}; there are {', '.join(self.zones.names) or 'none'}")
        return self.zones.members(name)

    def _stand(self, zones: ZoneMap) -> None:
        """Stand in these zones, as far apart as they are."""
        self.zones = zones
        self._wires.lay(zones.routes())

    # ---------------------------------------------------------------- nodes

    @abstractmethod
    async def start(self, *nodes: int) -> None:
        """Start these nodes, on the disks they left behind; all that are down if none is named."""

    @abstractmethod
    async def stop(self, *nodes: int) -> None:
        """Stop these nodes cleanly."""

    @abstractmethod
    async def kill(self, *nodes: int) -> None:
        """End these nodes as `kill -9` does: no shutdown, connections break, what was written stays written."""

    @abstractmethod
    async def pause(self, *nodes: int) -> None:
        """Let these nodes stand still as `kill -STOP` does, until `resume` or `heal`; those that are down stay down."""

    @abstractmethod
    async def resume(self, *nodes: int) -> None:
        """Let these nodes go on; all that are paused if none is named."""

    async def _note(self, node: int) -> None:
        """Ask a node what is to be known of it before it is brought down."""
        return

    # ---------------------------------------------------------------- the network

    async def cut(self, one: int, other: int) -> None:
        """Let nothing pass between two nodes."""
        self._cut_more({(one, other), (other, one)})

    async def cut_one_way(self, sender: int, receiver: int) -> None:
        """Let nothing pass from the first to the second."""
        self._cut_more({(sender, receiver)})

    async def cut_clients(self, *nodes: int) -> None:
        """Let nothing pass between any client and these nodes."""
        self._cut_more(set(), nodes)

    async def isolate(self, *nodes: int) -> None:
        """Cut these nodes off from all other nodes and from clients; among themselves they stay connected."""
        self._cut_more({pair for pair in self._pairs() if (pair[0] in nodes) != (pair[1] in nodes)}, nodes)

    async def partition(self, *groups: Sequence[int]) -> None:
        """Let nothing pass between nodes of different groups; clients reach them all."""
        apart = [(one, other) for ones, others in combinations(groups, 2) for one in ones for other in others]
        self._cut_more({pair for one, other in apart for pair in ((one, other), (other, one))})

    async def heal(self) -> None:
        """Open every way and let paused nodes go on; nodes that are down stay down."""
        self._open_ways()
        await self.resume()

    def _open_ways(self) -> None:
        self._impose(CLEAR, self._cut, self._cut_clients)
        self._cut, self._cut_clients = frozenset(), frozenset()
        for node in self._without_power:
            self._impose(CUT, self._all_ways_of(node), (node,))

    def _require(self, *nodes: int) -> None:
        """Raises `ValueError` for an unknown node: a fault without a target would test nothing."""
        for node in nodes:
            if node not in self.nodes:
                raise ValueError(f"there is no node {node}; there are {self.nodes[0]} to {self.nodes[-1]}")

    def _cut_more(self, pairs: Collection[Pair], clients: Collection[int] = ()) -> None:
        self._require(*(node for pair in pairs for node in pair), *clients)
        for one, other in pairs:
            if one == other:
                raise ValueError(f"node {one} cannot be cut off from itself")
        self._cut |= frozenset(pairs)
        self._cut_clients |= frozenset(clients)
        self._impose(CUT, pairs, clients)

    def _impose(self, condition: Condition, pairs: Iterable[Pair], clients: Iterable[int]) -> None:
        self._wires.impose(condition, sorted(pairs), sorted(clients))

    def _pairs(self) -> list[Pair]:
        return [(one, other) for one in self.nodes for other in self.nodes if one != other]

    def _all_ways_of(self, node: int) -> set[Pair]:
        return {pair for pair in self._pairs() if node in pair}

    def _ways_of(self, node: int) -> tuple[set[Pair], set[int]]:
        """The ways to and from a node that neither a cut nor another node's lack of power has taken already."""
        dark = self._without_power - {node}
        pairs = {pair for pair in self._pairs() if node in pair and dark.isdisjoint(pair)}
        return pairs - self._cut, {node} - self._cut_clients

    # ---------------------------------------------------------------- nodes that end within this process

    def _go_dark(self, *nodes: int) -> None:
        """Let nothing that these nodes still send get out: within this process they can only end in order."""
        for node in nodes:
            self._impose(CUT, *self._ways_of(node))

    def _lose_power(self, node: int) -> None:
        """The node has lost power: peers receive nothing, not even a connection's end, until `_regain_power`."""
        self._without_power.add(node)

    def _regain_power(self, node: int) -> None:
        if node in self._without_power:
            self._without_power.discard(node)
            self._break_connections(node)

    def _break_connections(self, node: int) -> None:
        """Break a node's connections, as the kernel does when a process has ended or a connection is unknown."""
        self._wires.reset(sorted(self._all_ways_of(node)), (node,))  # also where a cut holds what it sent as it ended
        self._impose(CLEAR, *self._ways_of(node))

    # ---------------------------------------------------------------- what happened

    def tell(self, node: int, event: str, **fields: object) -> None:
        """Write down an event."""
        self._events.append(NodeEvent(time.monotonic() - self._began, node, event, fields))

    def events(self) -> list[NodeEvent]:
        """Everything so far, oldest first."""
        return list(self._events)

    def story(self, last: int = 40) -> str:
        """The last events, a line each."""
        return "\n".join(map(str, self.events()[-last:]))
