"""The additions of a raft cluster to `faulty`: questions to its nodes, and a check of its promises.

`check` repairs everything and then holds the cluster to what it promised: see `ledger`. Appends of clients made by
`client()` count; of other clients, what the nodes reported as committed when they were brought down.
"""

import contextlib
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import trio

from jepsen_like.port.wires import Wires
from jepsen_like.systems.tls_of import certificates_in
from jepsen_like.testing.faulty import PATIENCE_S, POLL_S, FaultyCluster, WaitedTooLong
from jepsen_like.testing.ledger import Ledger, LedgerVerdict
from log.frame import HEADER_BYTES
from raft.client import Client, OnAttempt, ignore_attempt
from raft.errors import ProtocolError, RaftError, RecordsTrimmed
from raft.results import Appended, Records
from raft.settings import NodeSettings
from raft.trust import Secret, SecretSource

PROBE_WITHIN_S = 0.25
"""A node that reports to lead answers a linearizable read within this time."""


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


class WitnessedClient(Client):
    """A client whose acknowledged appends are written down."""

    def __init__(
        self, addresses: Sequence[str], cluster_id: str, secret: SecretSource | None, ledger: Ledger, **options: Any
    ) -> None:
        super().__init__(addresses, cluster_id, secret=secret, **options)
        self._ledger = ledger

    async def append(self, records: Sequence[bytes], *, on_attempt: OnAttempt = ignore_attempt) -> Appended:
        """See `Client.append`."""
        self._ledger.unknown_bytes += (sent := sum(map(len, records)) + HEADER_BYTES)
        appended = await super().append(records, on_attempt=on_attempt)
        self._ledger.unknown_bytes -= sent
        self._ledger.on_appended(appended.base_offset, records)
        return appended


class BreakableCluster(FaultyCluster):
    """The common part of both kinds. Nodes are named by their ids, 1 to n; `ValueError` for any other."""

    def __init__(
        self,
        cluster_id: str,
        secret: Secret | None,
        nodes: Iterable[int],
        addresses: Sequence[str],
        wires: Wires,
        settings: NodeSettings,
    ) -> None:
        """Use `open`."""
        super().__init__(cluster_id, nodes, addresses, wires)
        self.secret = secret
        """The secret that clients must know."""
        self.ledger = Ledger(retention=settings.retention)
        self._noted: dict[int, int] = {}

    # ---------------------------------------------------------------- clients

    def client(self, *, deadline_s: float = 10.0, connect_timeout_s: float = 1.0) -> Client:
        """Returns a client of this cluster; `check` looks for everything that is acknowledged to it."""
        return WitnessedClient(
            self.addresses,
            self.cluster_id,
            self.secret,
            self.ledger,
            deadline_s=deadline_s,
            connect_timeout_s=connect_timeout_s,
            tls=certificates_in(self.tls),
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
        """Returns a leader that a majority follows, by a linearizable read. Raises `WaitedTooLong` without one."""
        with trio.move_on_after(within_s):
            while True:
                leader = await self.leader()
                if leader is not None:
                    with trio.move_on_after(PROBE_WITHIN_S), contextlib.suppress(RaftError):
                        await self._probe(leader)
                        return leader
                await trio.sleep(POLL_S)
        raise WaitedTooLong(f"no node leads a majority within {within_s:g} s")

    async def fetch_committed(self, node: int) -> list[bytes]:
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
        """Returns True if this node is known to hold just these records, but for one entry a term: no commands."""
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


def _term_of(status: dict[str, object]) -> tuple[int, bool]:
    return _number(status["term"]), status["role"] == "leader"


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
