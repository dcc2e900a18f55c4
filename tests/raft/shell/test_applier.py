"""The applier alone: committed entries, the state machine, and those who wait for both. A core without a driver commits."""

import math
import random

import attrs
import crc32c
import msgpack
import pytest

from log.config import LogConfig
from log.errors import NoSpace
from log.memory_disk import MemoryDisk
from log.segmented_log import SegmentedLog
from raft.applier import NO_ROOM_S, Applier
from raft.config import RaftConfig
from raft.core import RaftCore
from raft.effects import Persist
from raft.errors import (
    InvalidRequest,
    InvalidResult,
    OutcomeUnknown,
    RaftError,
    RecordsTrimmed,
    SnapshotDiverged,
    WrongStateMachine,
)
from raft.events import Receive
from raft.membership import Configuration
from raft.messages import AppendEntries
from raft.model import Batch, Entry, EntryKind, LogIndex, LogStart, NodeId, Offset, Position, Term, Token
from raft.pending_reads import PendingReads
from raft.requests import Request
from raft.state_machine import StateMachine
from raft.storage import RaftStorage

LEADER = NodeId(2)


@attrs.define
class Tape:
    """A state machine that notes what it applies. A command is its own result, unless it is a word of power."""

    applied: list[tuple[int, bytes]] = attrs.field(factory=list)
    room: int | None = None
    """The number of commands that there is room for; None for any."""

    def check(self, command: bytes, *, read_only: bool) -> None:
        if command == b"nonsense":
            raise InvalidRequest("nonsense")

    def apply(self, index: int, command: bytes) -> bytes:
        if self.room is not None and len(self.applied) >= self.room:
            raise NoSpace("write", "tape")
        self.applied.append((index, command))
        if command == b"refuse":
            raise InvalidRequest("it has no effect")
        return command if command != b"none" else None  # type: ignore[return-value]

    def query(self, command: bytes) -> bytes:
        return b"%d" % len(self.applied)

    def snapshot(self) -> bytes:
        return b"%d" % len(self.applied)

    def restore(self, snapshot: bytes) -> None:
        self.applied = [(0, b"")] * int(snapshot)


@attrs.define
class Answers:
    """A caller that notes its answers in order."""

    given: list[tuple[int, object]] = attrs.field(factory=list)

    def on_appended(self, request_id: int, base_offset: int, span: int, term: int) -> None:
        self.given.append((request_id, "appended"))

    def on_applied(self, request_id: int, index: int, result: bytes) -> None:
        self.given.append((request_id, (index, result)))

    def on_readable(self, request_id: int) -> None:
        self.given.append((request_id, "readable"))

    def on_refused(self, request_id: int, error: RaftError) -> None:
        self.given.append((request_id, type(error)))


class Follower:
    """A core with a leader, a log, and the applier behind them."""

    def __init__(
        self, machine: StateMachine | None = None, *, apply_bytes: int = 1 << 20, result_bytes_max: int = 100
    ) -> None:
        self.tape = Tape()
        self.answers = Answers()
        config = LogConfig(zero_ahead_bytes=0)
        self.storage = RaftStorage(SegmentedLog.open(MemoryDisk(random.Random(1)), "node", config, log_id=1))
        hard_state, view = self.storage.restore()
        self.core = RaftCore(
            node_id=NodeId(1),
            configuration=Configuration(frozenset(map(NodeId, (1, 2, 3)))),
            config=RaftConfig(),
            log=view,
            hard_state=hard_state,
            rng=random.Random(1),
            now=0.0,
            founded=True,
        )
        self.reads = PendingReads()
        self.applier = Applier(
            self.core,
            self.storage,
            machine or self.tape,
            self.reads,
            apply_bytes=apply_bytes,
            result_bytes_max=result_bytes_max,
        )

    def commit(self, *commands: bytes, term: int = 1) -> LogIndex:
        """The leader appends one entry of commands and commits it. Returns its index."""
        return self._hear((self._entry_of(commands, term),), term, self.core.log.last_index + 1)

    def append(self, *commands: bytes) -> None:
        """The leader appends one entry of commands, and does not commit it yet."""
        self._hear((self._entry_of(commands, 1),), 1, self.core.commit_index)

    def _entry_of(self, commands: tuple[bytes, ...], term: int) -> Entry:
        last = self.core.log.last_index
        data = b"".join(map(msgpack.packb, commands))
        batch = Batch(EntryKind.COMMANDS, 0, 0, data, crc32c.crc32c(data))
        return Entry(LogIndex(last + 1), Term(term), self.core.log.end_offset, batch)

    def commit_records(self, *records: bytes, term: int = 1) -> LogIndex:
        data = b"".join(records)
        batch = Batch(EntryKind.RECORDS, len(records), 0, data, crc32c.crc32c(data))
        entry = Entry(LogIndex(self.core.log.last_index + 1), Term(term), self.core.log.end_offset, batch)
        return self._hear((entry,), term, self.core.log.last_index + 1)

    def _hear(self, entries: tuple[Entry, ...], term: int, committed: int) -> LogIndex:
        last, commit_index = self.core.log.last_index, LogIndex(committed)
        message = AppendEntries(Term(term), last, self.core.log.term_at(last), commit_index, 1, entries)
        for effect in self.core.step(0.0, Receive(LEADER, message)):
            if isinstance(effect, Persist):
                self.storage.persist(effect)
        assert self.core.commit_index == commit_index
        self.applier.note_committed(commit_index)
        return commit_index

    def expect(self, index: LogIndex, *request_ids: int) -> None:
        self.applier.expect(index, [Request(self.answers, request_id, 0, b"") for request_id in request_ids])

    def read(self, request_id: int, read_index: int) -> None:
        """A read that wants to see what was applied up to `read_index`."""
        self.reads.add(self.answers, request_id, after_apply=True)
        self.reads.ask(Token(request_id))
        self.reads.confirm(Token(request_id), LogIndex(read_index), self.applier.applied_index)


def snapshot_at(index: int, term: int = 1, commands: int = 7) -> LogStart:
    position = Position(LogIndex(index), Term(term))
    return LogStart(position, Offset(0), position, b"%d" % commands)


def test_each_command_is_applied_once_in_order_and_its_caller_gets_its_own_result() -> None:
    node = Follower()
    node.expect(node.commit(b"a", b"b"), 1, 2)
    node.expect(node.commit(b"c"), 3)
    while node.applier.due <= 0.0:
        node.applier.apply_portion(0.0)
    assert node.tape.applied == [(1, b"a"), (1, b"b"), (2, b"c")]
    assert node.answers.given == [(1, (1, b"a")), (2, (1, b"b")), (3, (2, b"c"))]
    assert node.applier.applied_index == 2


def test_commands_of_other_nodes_are_applied_and_answered_to_no_one() -> None:
    node = Follower()
    node.commit(b"a")
    node.applier.apply_portion(0.0)
    assert (node.tape.applied, node.answers.given) == ([(1, b"a")], [])


def test_a_command_without_effect_or_with_an_impossible_result_is_refused_and_the_next_is_applied() -> None:
    node = Follower(result_bytes_max=5)
    node.expect(node.commit(b"refuse", b"none", b"too long", b"fits"), 1, 2, 3, 4)
    node.applier.apply_portion(0.0)
    assert node.answers.given == [(1, InvalidRequest), (2, InvalidResult), (3, InvalidResult), (4, (1, b"fits"))]


def test_what_is_not_committed_is_neither_applied_nor_read() -> None:
    node = Follower()
    node.commit(b"a")
    node.append(b"b")
    node.applier.apply_portion(0.0)
    assert node.tape.applied == [(1, b"a")]
    assert node.applier.due == math.inf
    node = Follower()
    assert node.applier.read_committed(0, 100) == []
    node.commit_records(b"a", b"b")
    assert node.applier.committed_end == 2
    assert [batch.data for batch in node.applier.read_committed(1, 100)] == [b"ab"]
    assert node.applier.read_committed(2, 100) == []


def test_a_portion_bounds_what_one_round_applies() -> None:
    node = Follower(apply_bytes=1)
    for _ in range(3):
        node.commit(b"a")
    for applied in (1, 2, 3):
        assert node.applier.due <= 0.0
        node.applier.apply_portion(0.0)
        assert node.applier.applied_index == applied
    assert node.applier.due == math.inf


def test_a_machine_without_room_is_asked_again_later_and_no_command_is_applied_twice_or_left_out() -> None:
    node = Follower()
    node.expect(node.commit(b"a", b"b", b"c"), 1, 2, 3)
    node.expect(node.commit(b"d"), 4)
    node.read(5, 2)
    node.tape.room = 2
    for now in (0.0, NO_ROOM_S, 2 * NO_ROOM_S):
        assert node.applier.due <= now
        with pytest.raises(NoSpace):
            node.applier.apply_portion(now)
        assert node.applier.due == now + NO_ROOM_S
        assert node.answers.given == [(1, (1, b"a")), (2, (1, b"b"))]
    node.tape.room = None
    node.applier.apply_portion(3 * NO_ROOM_S)
    assert node.tape.applied == [(1, b"a"), (1, b"b"), (1, b"c"), (2, b"d")]
    assert node.answers.given[2:] == [(3, (1, b"c")), (4, (2, b"d")), (5, "readable")]
    assert node.applier.due == math.inf


def test_commands_that_wait_for_room_are_refused_once_when_the_node_ends() -> None:
    node = Follower()
    node.expect(node.commit(b"a", b"b"), 1, 2)
    node.tape.room = 1
    with pytest.raises(NoSpace):
        node.applier.apply_portion(0.0)
    node.applier.refuse_all(OutcomeUnknown())
    assert node.answers.given == [(1, (1, b"a")), (2, OutcomeUnknown)]


def test_a_read_is_served_when_the_machine_has_reached_its_index_and_not_before() -> None:
    node = Follower(apply_bytes=1)
    node.commit(b"a")
    node.commit(b"b")
    node.read(1, 1)
    node.read(2, 2)
    node.applier.apply_portion(0.0)
    assert node.answers.given == [(1, "readable")]
    node.applier.apply_portion(0.0)
    assert node.answers.given == [(1, "readable"), (2, "readable")]
    node.read(3, 2)
    assert node.answers.given[-1] == (3, "readable")


def test_a_query_sees_what_was_applied_and_its_result_is_bounded() -> None:
    node = Follower(result_bytes_max=1)
    for _ in range(9):
        node.commit(b"a")
    while node.applier.due <= 0.0:
        node.applier.apply_portion(0.0)
    assert node.applier.query(b"") == b"9"
    node.commit(b"a")
    node.applier.apply_portion(0.0)
    with pytest.raises(InvalidResult):
        node.applier.query(b"")
    with pytest.raises(InvalidRequest):
        node.applier.check(b"nonsense", read_only=False)


def test_a_snapshot_stands_for_what_was_applied_not_for_what_is_committed() -> None:
    node = Follower(apply_bytes=1)
    node.commit(b"a")
    node.commit(b"b")
    node.applier.apply_portion(0.0)
    assert node.applier.snapshot() == (Position(LogIndex(1), Term(1)), b"1")


def test_a_restored_machine_leaves_the_results_it_skipped_unknown_and_serves_the_reads() -> None:
    node = Follower()
    node.expect(node.commit(b"a"), 1)
    node.read(2, 1)
    node.applier.restore(snapshot_at(1))
    assert node.answers.given == [(1, OutcomeUnknown), (2, "readable")]
    assert (node.applier.applied_index, node.applier.query(b"")) == (1, b"7")
    assert node.applier.due == math.inf


def test_a_restored_machine_is_proven_once_its_last_entry_is_known_to_be_committed() -> None:
    node = Follower()
    seen = [node.applier.is_proven]
    node.applier.restore(snapshot_at(2))
    for command in (b"a", b"b"):
        node.commit(command)
        seen.append(node.applier.is_proven)
    assert seen == [True, False, True]


def test_a_group_that_goes_on_without_an_entry_of_the_snapshot_is_found_before_any_answer() -> None:
    node = Follower()
    node.applier.restore(snapshot_at(2, term=1))
    with pytest.raises(SnapshotDiverged):
        node.commit(b"of a later term, at 1", term=2)
    assert node.answers.given == []


def test_a_machine_without_snapshots_is_refused_by_name() -> None:
    class Plain:
        def check(self, command: bytes, *, read_only: bool) -> None:
            """Everything is a command."""

        def apply(self, index: int, command: bytes) -> bytes:
            return b""

        def query(self, command: bytes) -> bytes:
            return b""

    Follower().applier.require_snapshots()
    node = Follower(Plain())
    assert not node.applier.takes_snapshots
    with pytest.raises(WrongStateMachine, match="Plain"):
        node.applier.require_snapshots()


def test_a_read_below_the_start_of_the_log_is_refused_with_where_it_begins() -> None:
    node = Follower()
    node.core.log.reset(LogStart(Position(LogIndex(5), Term(1)), Offset(9)))
    with pytest.raises(RecordsTrimmed) as caught:
        node.applier.read_committed(8, 100)
    assert caught.value.start_offset == 9


def test_at_the_end_every_command_that_waits_is_answered_once() -> None:
    node = Follower()
    node.expect(node.commit(b"a"), 1)
    node.expect(node.commit(b"b"), 2)
    node.applier.refuse_all(OutcomeUnknown("the node stops"))
    assert node.answers.given == [(1, OutcomeUnknown), (2, OutcomeUnknown)]
    node.applier.apply_portion(0.0)
    assert len(node.answers.given) == 2
