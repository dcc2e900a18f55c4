"""What every cluster of a test can do, whatever its nodes are: be asked, cut, healed and held to its promises.

The network is TCP on loopback through fault proxies, whose ports are those that clients get (`addresses`) and that nodes
tell them. A cut lets nothing through and notifies neither side; on `heal` what waited arrives.

`check` repairs everything and then holds the cluster to what it promised: see `ledger`. Appends of clients made by
`client()` count; of other clients, what the nodes reported as committed when they were brought down.
"""

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import Any

import attrs
import trio

from jepsen_like.cluster.wires import CLEAR, CUT, Condition, Pair, Wires
from jepsen_like.testing.ledger import Ledger, LedgerVerdict
from log.frame import HEADER_BYTES
from raft.client import Client, OnAttempt, ignore_attempt
from raft.client_codec import Appended, Records
from raft.errors import ProtocolError, RaftError, RecordsTrimmed
from raft.settings import NodeSettings

POLL_S = 0.005
PROBE_WITHIN_S = 0.25
"""How long a node that reports to lead may take to answer a linearizable read."""
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
class _Part:
    """A part of a log: its records from the offset `first` on."""

    first: int
    records: list[bytes] = attrs.field(factory=list)
    entries: int = 0
    """Entries that were read for them."""

    @property
    def end(self) -> int:
        return self.first + len(self.records)


@attrs.define
class WaitedTooLong(Exception):
    """The cluster did not reach in time what was waited for."""

    what: str

    def __str__(self) -> str:
        return self.what


class WitnessedClient(Client):
    """A client whose acknowledged appends are written down."""

    def __init__(self, addresses: Sequence[str], cluster_id: str, ledger: Ledger, **options: float) -> None:
        super().__init__(addresses, cluster_id, **options)
        self._ledger = ledger

    async def append(self, records: Sequence[bytes], *, on_attempt: OnAttempt = ignore_attempt) -> Appended:
        """See `Client.append`."""
        self._ledger.unknown_bytes += (sent := sum(map(len, records)) + HEADER_BYTES)
        appended = await super().append(records, on_attempt=on_attempt)
        self._ledger.unknown_bytes -= sent
        self._ledger.on_appended(appended.base_offset, records)
        return appended


class BreakableCluster(ABC):
    """What both kinds have in common. Nodes are named by their ids, 1 to n; `ValueError` for any other."""

    def __init__(
        self, cluster_id: str, nodes: Iterable[int], addresses: Sequence[str], wires: Wires, settings: NodeSettings
    ) -> None:
        """Use `open`."""
        self.cluster_id = cluster_id
        self.nodes = tuple(nodes)
        self.addresses = list(addresses)
        """Where clients reach the nodes: "host:port", behind the faults."""
        self._events: list[NodeEvent] = []
        self.ledger = Ledger(retention=settings.retention)
        self._wires = wires
        self._cut: frozenset[Pair] = frozenset()
        self._cut_clients: frozenset[int] = frozenset()
        self._noted: dict[int, int] = {}
        self._began = time.monotonic()

    # ---------------------------------------------------------------- clients

    def client(self, *, deadline_s: float = 10.0, connect_timeout_s: float = 1.0) -> Client:
        """Returns a client of this cluster; `check` looks for everything that is acknowledged to it."""
        return WitnessedClient(
            self.addresses, self.cluster_id, self.ledger, deadline_s=deadline_s, connect_timeout_s=connect_timeout_s
        )

    # ---------------------------------------------------------------- what the nodes report

    @abstractmethod
    async def status(self, node: int) -> dict[str, object] | None:
        """Returns what the node knows of itself; None if it is down or, being a process, does not answer."""

    @abstractmethod
    async def _read(self, node: int, offset: int) -> Records:
        """Committed entries as this very node has them, whatever is cut."""

    @abstractmethod
    async def _probe(self, node: int) -> None:
        """A linearizable read: succeeds on a leader that a majority follows."""

    async def leader(self) -> int | None:
        """Returns the node that leads in the highest term that any node knows; it may be cut off or paused."""
        seen = [status for node in self.nodes if (status := await self.status(node)) is not None]
        newest = max(seen, key=_term_of, default=None)
        return _number(newest["node"]) if newest is not None and newest["role"] == "leader" else None

    async def wait_for_leader(self, *, within_s: float = PATIENCE_S) -> int:
        """Returns a leader that a majority follows, checked by a linearizable read. Raises `WaitedTooLong` if there is none in time."""
        with trio.move_on_after(within_s):
            while True:
                leader = await self.leader()
                if leader is not None:
                    with trio.move_on_after(PROBE_WITHIN_S), contextlib.suppress(RaftError):
                        await self._probe(leader)
                        return leader
                await trio.sleep(POLL_S)
        raise WaitedTooLong(f"no node leads a majority within {within_s:g} s")

    async def committed(self, node: int) -> list[bytes]:
        """The records that this node knows to be committed, by offset from the first that its log still holds.

        That is 0, unless its settings let records leave: then it is `start_offset` of its status.
        """
        self._require(node)
        found = _Part(0)
        await self._collect(node, found)
        return found.records

    async def _collect(self, node: int, found: "_Part") -> None:
        """Add the committed records from the end of `found` on, as they come; what has left the log is not in it."""
        status = await self.status(node)
        end = _number(status["committed_end"]) if status is not None else 0
        while found.end < end:
            try:
                batches = (await self._read(node, found.end)).batches
            except RecordsTrimmed as error:
                if error.start_offset <= found.end:
                    raise ProtocolError(f"node {node} answers a read at {found.end}: {error}") from None
                found.first, found.records, found.entries = error.start_offset, [], 0
                continue
            for batch in batches:
                found.entries += 1
                found.records += batch.records()[max(0, found.end - batch.base_offset) :]

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

    def _require(self, *nodes: int) -> None:
        """Raises `ValueError` for a node that is not one of this cluster: a fault without a target would test nothing."""
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

    def _ways_of(self, node: int) -> tuple[set[Pair], set[int]]:
        """The ways to and from a node that no cut has taken already."""
        return {pair for pair in self._pairs() if node in pair} - self._cut, {node} - self._cut_clients

    # ---------------------------------------------------------------- promises

    async def check(self, *, within_s: float = 2 * PATIENCE_S) -> LedgerVerdict:
        """Heal and start everything, wait until all nodes agree, and hold them to what was promised.

        Call it when no client writes any more. Raises `WaitedTooLong` if they do not agree in time.
        """
        for node in self.nodes:
            await self._note(node)
        await self.heal()
        await self.start()
        with trio.move_on_after(within_s) as waiting:
            leader = await self.wait_for_leader(within_s=within_s)
            while len({status["commit_index"] if status else None for status in await self._statuses()}) > 1:  # noqa: ASYNC110
                await trio.sleep(POLL_S)
        if waiting.cancelled_caught:
            raise WaitedTooLong(f"the nodes do not agree {within_s:g} s after everything was healed")
        self.tell(leader, "checked")
        for status in await self._statuses():
            self.ledger.on_end(_number(status["committed_end"]) if status is not None else 0)
        logs = {node: _Part(0) for node in self.nodes}
        for node, log in logs.items():
            await self._collect(node, log)
        of_records = {node for node, log in logs.items() if await self._holds_little_else(node, log)}
        return self.ledger.verdict(
            {node: log.records for node, log in logs.items()},
            {node: log.first for node, log in logs.items()},
            of_records=of_records,
        )

    async def _holds_little_else(self, node: int, log: _Part) -> bool:
        """Whether what this node still holds is known to be these records, but for an entry for each term: no commands."""
        said = [
            event for event in self.events() if event.node == node and event.fields.get("start_offset") == log.first
        ]
        status = await self.status(node)
        if not said or status is None:
            return False
        entries = _number(status["commit_index"]) - _number(said[-1].fields["start_index"])
        return entries - log.entries <= _number(status["term"])

    async def _statuses(self) -> list[dict[str, object] | None]:
        return [await self.status(node) for node in self.nodes]

    async def _note(self, node: int) -> None:
        """Record what the node reports as committed, while it can still be asked."""
        found = _Part(self._noted.get(node, 0))
        with trio.move_on_after(PROBE_WITHIN_S), contextlib.suppress(RaftError):
            await self._collect(node, found)
        if found.records or not found.first:
            self.ledger.on_end(found.end)
        self.ledger.on_committed(node, found.first, found.records)
        self._noted[node] = found.end

    def tell(self, node: int, event: str, **fields: object) -> None:
        """Write down an event."""
        self._events.append(NodeEvent(time.monotonic() - self._began, node, event, fields))

    def events(self) -> list[NodeEvent]:
        """Everything so far, oldest first."""
        return list(self._events)

    def story(self, last: int = 40) -> str:
        """The last events, a line each."""
        return "\n".join(map(str, self.events()[-last:]))


def _term_of(status: dict[str, object]) -> tuple[int, bool]:
    return _number(status["term"]), status["role"] == "leader"


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
