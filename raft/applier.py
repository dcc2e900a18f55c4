"""Applier: committed entries reach the state machine, and their results the callers that wait for them.

Entries are applied in order and once a run, a portion of the log at a time. Only commands matter to the machine; their
callers are those that proposed them on this node. After a restart the machine begins with the log's snapshot, if it has
one: until the group is known to have committed the last entry in it, nothing is built upon it (`is_proven`).
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Final

import msgpack

from log.errors import NoSpace
from log.frame import Payload, buffers_of
from raft.core import RaftCore
from raft.errors import (
    InvalidRequest,
    InvalidResult,
    OutcomeUnknown,
    RaftError,
    RecordsTrimmed,
    SnapshotDiverged,
    StateMachineFailed,
    WrongStateMachine,
)
from raft.model import NO_INDEX, NO_POSITION, Entry, EntryKind, LogIndex, LogStart, Offset, Position
from raft.pending_reads import PendingReads
from raft.requests import Request, refuse
from raft.results import RecordBatch
from raft.state_machine import AssigningMachine, CheckedMachine, PartialMachine, SnapshotMachine, StateMachine
from raft.storage import RaftStorage

NO_ROOM_S: Final = 1.0
"""A machine without room is asked again after this time."""
APPLY_BYTES = 1024 * 1024
"""One round gives this much of the log to the state machine; the rest waits for the next."""


class Applier:
    """The committed end of one node's log, and the state machine that follows it.

    `reads` are served as the machine reaches their read index.
    """

    def __init__(
        self,
        core: RaftCore,
        storage: RaftStorage,
        machine: StateMachine,
        reads: PendingReads,
        *,
        apply_bytes: int = APPLY_BYTES,
        result_bytes_max: int = 2**62,
        skipped: frozenset[int] = frozenset(),
    ) -> None:
        self.applied_index = NO_INDEX
        self.committed_end = core.log.start.offset
        """The end of the records known to be committed, exclusive."""
        self._core = core
        self._storage = storage
        self._machine = machine
        self._reads = reads
        self._apply_bytes = apply_bytes
        self._result_bytes_max = result_bytes_max
        self._skipped = skipped
        self._done_of_next = 0
        """The commands of the next entry that are applied already."""
        self._no_room_until = -math.inf
        """The time from which the machine is asked again."""
        self._waiting: dict[LogIndex, list[Request]] = {}
        """The commands of entries that are committed here and not applied yet."""
        self._restored = NO_POSITION
        """The position that the machine was restored to, until it is known to be committed here; then (0, 0)."""
        if core.log.start.index:
            self.restore(core.log.start)

    # ---------------------------------------------------------------- what callers ask

    def check(self, command: bytes, *, read_only: bool) -> None:
        """Raises `InvalidRequest` if `command` is no command, or no query if `read_only`."""
        self._machine.check(command, read_only=read_only)

    def query(self, command: bytes) -> bytes:
        """Returns the machine's answer from what has been applied.

        Raises `InvalidRequest` for an invalid query, `InvalidResult` for an answer that is none.
        """
        return checked_result(self._machine.query(command), self._result_bytes_max, "the query had no effect")

    def read_committed(self, offset: int, bytes_max: int) -> list[RecordBatch]:
        """Returns committed entries with records, from the one that holds `offset` on: about `bytes_max` bytes, or one.

        Raises `RecordsTrimmed` if it has left the log.
        """
        start_offset = self._core.log.start.offset
        if offset < start_offset:
            raise RecordsTrimmed(start_offset)
        if offset >= self.committed_end:
            return []
        index = self._storage.find_index(Offset(offset))
        entries = self._storage.entries(index, bytes_max, self._core.commit_index)
        return [
            RecordBatch(entry.base_offset, entry.term, entry.batch.span, bytes(entry.batch.data))
            for entry in entries
            if entry.batch.span
        ]

    @property
    def lacks(self) -> str:
        """Names the content that the machine is still to fetch from other members; empty if it has all."""
        return self._machine.lacks if isinstance(self._machine, PartialMachine) else ""

    @property
    def assigned(self) -> dict[str, str]:
        """Names by member what it keeps besides the log."""
        machine = self._machine
        named = machine.assigned if isinstance(machine, AssigningMachine) else {}
        return {str(member): what for member, what in named.items()}

    # ---------------------------------------------------------------- applying

    def note_committed(self, commit_index: LogIndex) -> None:
        """Everything up to `commit_index` is committed. Raises `SnapshotDiverged` if the machine knows otherwise."""
        self.committed_end = self._end_offset_of(commit_index)
        self._check_restored(commit_index)

    def _end_offset_of(self, index: LogIndex) -> Offset:
        log = self._core.log
        if index == log.last_index:
            return log.end_offset
        if index == log.start.index:
            return log.start.offset
        entries = log.cached_entries(index, 0) or self._storage.entries(index, 0, index)
        return entries[0].end_offset

    def offset_before(self, index: LogIndex) -> Offset:
        """Returns the end of the records before the entry at `index`, which may be the one behind the last."""
        known = self._core.log.offset_before(index)
        return self._storage.entries(index, 0, index)[0].base_offset if known is None else known

    def expect(self, index: LogIndex, requests: list[Request]) -> None:
        """The commands of the committed entry at `index` are these requests, which wait for their results."""
        self._waiting[index] = requests

    @property
    def due(self) -> float:
        """The time at which committed entries are to be applied; infinite if there are none."""
        return self._no_room_until if self.applied_index < self._core.commit_index else math.inf

    def apply_portion(self, now: float) -> None:
        """Apply the next committed entries, and serve the reads that waited for them.

        Raises `NoSpace` if the machine has no room for the next command: it is `due` again a little later.
        """
        try:
            self._apply_entries()
        except NoSpace:
            self._no_room_until = now + NO_ROOM_S
            raise
        finally:
            self._reads.release(self.applied_index)

    def _apply_entries(self) -> None:
        first, commit_index = LogIndex(self.applied_index + 1), self._core.commit_index
        entries = self._core.log.cached_entries(first, self._apply_bytes)
        if entries is None:
            entries = self._storage.entries(first, self._apply_bytes, commit_index)
        for entry in entries:
            if entry.index > commit_index:
                break
            if entry.batch.kind is EntryKind.COMMANDS:
                self._apply(entry)
            self.applied_index = entry.index

    def _apply(self, entry: Entry) -> None:
        """Apply the entry's commands in order, and answer the callers that proposed them on this node.

        Raises `StateMachineFailed` for any error of the machine but `InvalidRequest`, and `NoSpace`.
        """
        waiting = deque(self._waiting.pop(entry.index, ()))
        for command in islice(_unpack_commands(entry.batch.data), self._done_of_next, None):
            request = waiting[0] if waiting else None
            try:
                returned = self._ask_machine(entry.index, command)
                done = f"the command is committed and applied at index {entry.index}"
                result = checked_result(returned, self._result_bytes_max, done)
            except NoSpace:
                if waiting:
                    self._waiting[entry.index] = list(waiting)
                raise
            except (InvalidRequest, InvalidResult) as error:
                if request is not None:
                    request.caller.on_refused(request.request_id, error)
            else:
                if request is not None:
                    request.caller.on_applied(request.request_id, entry.index, result)
            if waiting:
                waiting.popleft()
            self._done_of_next += 1
        self._done_of_next = 0

    def _ask_machine(self, index: LogIndex, command: bytes) -> Any:
        if index in self._skipped:
            raise InvalidRequest(f"by the setting skip_commands the command at index {index} has no effect")
        try:
            return self._machine.apply(index, command)
        except (InvalidRequest, NoSpace):
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise StateMachineFailed(index, type(self._machine).__name__, reason) from error

    def refuse_all(self, error: RaftError) -> None:
        """Answer the callers of commands that are committed and not applied."""
        waiting, self._waiting = self._waiting, {}
        for requests in waiting.values():
            refuse(requests, error)

    # ---------------------------------------------------------------- snapshots

    @property
    def is_proven(self) -> bool:
        """True unless the machine was restored to a position that is not known to be committed here."""
        return self._restored == NO_POSITION

    @property
    def takes_snapshots(self) -> bool:
        """True if the machine can be taken as a snapshot, and be restored from one."""
        return isinstance(self._machine, SnapshotMachine)

    def require_snapshots(self) -> None:
        """Raises `WrongStateMachine` if the machine cannot be restored from a snapshot."""
        if not self.takes_snapshots:
            raise WrongStateMachine(self._storage.log.directory, type(self._machine).__name__)

    def snapshot_problem(self, snapshot: bytes) -> str | None:
        """Returns why the machine cannot be restored from these bytes, or None if it can, or cannot tell."""
        if isinstance(self._machine, CheckedMachine):
            try:
                self._machine.check_snapshot(snapshot)
            except Exception as error:  # noqa: BLE001 - whatever it is, `restore` would raise it
                return f"{type(error).__name__}: {error}"
        return None

    def snapshot(self) -> tuple[Position, bytes | Iterable[bytes] | None]:
        """Returns a snapshot of the machine, None if there can be none yet, and the position that it stands for."""
        assert isinstance(self._machine, SnapshotMachine), "who asks for a snapshot has seen to it"
        snapshot = self._machine.snapshot()
        return Position(self.applied_index, self._core.log.term_at(self.applied_index)), snapshot

    def restore(self, start: LogStart) -> None:
        """Restore the machine from the snapshot in `start`."""
        assert isinstance(self._machine, SnapshotMachine), "who asked for this has seen to it"
        self._machine.restore(start.snapshot)
        self._done_of_next = 0
        self._restored = start.applied
        self.applied_index = start.applied.index
        for index in [index for index in self._waiting if index <= self.applied_index]:
            lost = OutcomeUnknown("the command is committed, but a snapshot took the place of its result")
            refuse(self._waiting.pop(index), lost)
        self._reads.release(self.applied_index)

    def _check_restored(self, commit_index: LogIndex) -> None:
        """Check that the last entry in the snapshot is the committed one; else the machines would diverge unseen."""
        restored = self._restored
        if restored is NO_POSITION:
            return
        reached = LogIndex(min(commit_index, restored.index))
        term = self._core.log.term_at(reached)
        # Terms never fall along a log: a newer one before that place is proof enough, and comes before any answer.
        if term > restored.term or (reached == restored.index and term != restored.term):
            raise SnapshotDiverged(restored.index, restored.term, reached, term)
        if reached == restored.index:
            self._restored = NO_POSITION


def checked_result(result: object, bytes_max: int, done: str) -> bytes:
    """Returns a state machine's result as bytes. Raises `InvalidResult`, with what is `done`, unless it fits."""
    if type(result) is not bytes:
        if not isinstance(result, bytes | bytearray | memoryview):
            kind = "None" if result is None else f"a value of type {type(result).__name__}"
            raise InvalidResult(f"{done}, but the state machine returned {kind} for its result, not bytes")
        result = bytes(result)
    if len(result) > bytes_max:
        raise InvalidResult(f"{done}, but its result of {len(result)} bytes is over the bound of {bytes_max}")
    return result


def _unpack_commands(data: Payload) -> Iterator[bytes]:
    """Yields the commands of an entry, which are msgpack binaries end to end.

    Anything else ends the entry, and has no effect on any member: only a broken leader sends it.
    """
    unpacker = msgpack.Unpacker(max_buffer_size=max(len(data), 1), max_array_len=0, max_map_len=0, max_ext_len=0)
    for buffer in buffers_of(data):
        unpacker.feed(buffer)
    with suppress(ValueError, msgpack.UnpackException):
        for command in unpacker:
            if type(command) is not bytes:
                return
            yield command
