"""The driver, without Trio: a core and a log on an imagined disk, flushes that end when the test ends them."""

import random
from collections.abc import Mapping, Sequence

import attrs
import crc32c
import msgpack
import pytest

from log.config import LogConfig
from log.flush import Flush
from log.frame import Pieces
from log.memory_disk import MemoryDisk, PowerLoss
from log.policy import FlushPolicy
from log.segmented_log import SegmentedLog
from raft.batching import JOIN_ROUNDS_MAX, PIPELINE_S
from raft.config import MIB, RaftConfig
from raft.core import RaftCore
from raft.driver import LATE_ROUNDS_MAX, LATE_S, DriverConfig, RaftDriver
from raft.effects import RoleName
from raft.environment import Environment
from raft.errors import Busy, InvalidRequest, NotLeader, OutcomeUnknown, RaftError, ShuttingDown, StorageFull
from raft.membership import Configuration
from raft.messages import AppendAccepted, AppendEntries, Message, PreVoteReply, RequestPreVote, RequestVote, VoteReply
from raft.model import Batch, Entry, EntryKind, LogIndex, NodeId, Offset, Term
from raft.net.decoder import LARGE_BYTES
from raft.notices import event_of
from raft.record_batch import pack_batch
from raft.register import RegisterMachine
from raft.roles import Leader
from raft.snapshot_work import WorkBeside, at_once
from raft.state_machine import StateMachine
from raft.storage import RaftStorage

ME, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


@attrs.define
class Outcomes:
    """A caller that notes its outcomes by request id."""

    seen: dict[int, object] = attrs.field(factory=dict)

    def on_appended(self, request_id: int, base_offset: int, span: int, term: int) -> None:
        self._note(request_id, (base_offset, span, term))

    def on_applied(self, request_id: int, index: int, result: bytes) -> None:
        self._note(request_id, msgpack.unpackb(result))

    def on_readable(self, request_id: int) -> None:
        self._note(request_id, "readable")

    def on_refused(self, request_id: int, error: RaftError) -> None:
        self._note(request_id, type(error))

    def _note(self, request_id: int, outcome: object) -> None:
        assert request_id not in self.seen, "a request is answered once"
        self.seen[request_id] = outcome


class Rig:
    """One driver of a group of one or three. The clock stands still unless moved."""

    def __init__(
        self,
        voters: int = 1,
        config: DriverConfig | None = None,
        disk: MemoryDisk | None = None,
        segment_bytes: int = 1 << 20,
        state_machine: StateMachine | None = None,
        work_beside: WorkBeside = at_once,
    ) -> None:
        self.now = 0.0
        self.wall_ms = 0
        self.disk = disk or MemoryDisk(random.Random(1))
        self.sent: list[tuple[NodeId, Message]] = []
        self.left = 0
        self.told: list[str] = []
        self.flushes: list[Flush] = []
        self.more = False
        self.caller = Outcomes()
        self.storage = RaftStorage(
            SegmentedLog.open(
                self.disk, "node", LogConfig(segment_bytes_max=segment_bytes, zero_ahead_bytes=0), log_id=1
            )
        )
        hard_state, view = self.storage.restore()
        self.core = RaftCore(
            node_id=ME,
            configuration=Configuration(frozenset(map(NodeId, range(1, voters + 1)))),
            config=RaftConfig(),
            log=view,
            hard_state=hard_state,
            rng=random.Random(1),
            now=0.0,
            founded=True,
        )
        self.driver = RaftDriver(
            core=self.core,
            storage=self.storage,
            state_machine=state_machine or RegisterMachine(),
            environment=Environment(
                transport=self,
                has_more=lambda: self.more,
                clock=lambda: self.now,
                wall_clock_ms=lambda: self.wall_ms,
                addresses={TWO: "two:1"},
                notify=lambda notice: self.told.append(event_of(notice)[0]),
                work_beside=work_beside,
            ),
            config=config or DriverConfig(),
        )

    def send(self, to: NodeId, message: Message) -> None:
        self.sent.append((to, message))

    def connect(self, peers: Sequence[NodeId], addresses: Mapping[NodeId, str], *, alone: bool) -> None:
        """See `Transport`: all are there."""

    def push(self) -> None:
        self.left = len(self.sent)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def draw(self) -> int:
        """A request id that was not used before."""
        return max(self.caller.seen, default=0) + 1

    def pump(self) -> None:
        self.driver.pump()
        flush = self.driver.begin_flush()
        if flush is not None:
            self.flushes.append(flush)

    def end_flush(self) -> None:
        self.flushes.pop(0).run()
        self.driver.on_flushed()
        self.pump()

    def settle(self) -> None:
        """Rounds, until nothing is left to be done."""
        self.pump()
        while self.flushes or self.driver.has_postponed:
            if self.flushes:
                self.end_flush()
            else:
                self.pump()

    def receive(self, sender: NodeId, message: Message) -> None:
        self.driver.deliver(sender, message)
        self.pump()

    def lead(self) -> "Rig":
        """Win an election."""
        self.now = self.core.deadline
        self.settle()
        for peer in self.core.configuration.peers(ME):
            self.receive(peer, PreVoteReply(Term(self.core.term + 1), granted=True))
            self.settle()
            self.receive(peer, VoteReply(self.core.term, granted=True))
            self.settle()
            break
        assert isinstance(self.core.role, Leader)
        return self

    def accept(self, peer: NodeId = TWO) -> None:
        """A follower acknowledges everything."""
        last = self.core.log.last_index
        assert isinstance(self.core.role, Leader)
        self.receive(peer, AppendAccepted(self.core.term, last, last, self.core.role.round))

    def append(self, request_id: int, *records: bytes) -> None:
        self.driver.append(self.caller, request_id, pack_batch(records), len(records))

    def apply(self, request_id: int, *command: object) -> None:
        self.driver.apply(self.caller, request_id, msgpack.packb(command))

    def messages(self, kind: type[Message]) -> list[Message]:
        return [message for _, message in self.sent if type(message) is kind]


def entry(index: int, data: bytes, term: int = 1) -> Entry:
    batch = Batch(EntryKind.RECORDS, 1, 0, data, crc32c.crc32c(data))
    return Entry(LogIndex(index), Term(term), Offset(index - 1), batch)


def heartbeat(*entries: Entry, term: int = 1, prev: int = 0, round_: int = 1) -> AppendEntries:
    prev_term = Term(1) if prev else Term(0)
    return AppendEntries(Term(term), LogIndex(prev), prev_term, LogIndex(0), round_, entries)


def test_a_vote_leaves_only_when_it_is_durable() -> None:
    rig = Rig(3)
    rig.receive(TWO, RequestVote(Term(1), LogIndex(0), Term(0)))
    assert rig.messages(VoteReply) == []
    rig.end_flush()
    assert rig.sent == [(TWO, VoteReply(Term(1), granted=True))]


def test_a_follower_acknowledges_only_what_a_flush_that_began_later_has_covered() -> None:
    rig = Rig(3)
    rig.receive(TWO, heartbeat(entry(1, b"a")))
    rig.receive(TWO, heartbeat(entry(2, b"b"), prev=1))
    assert rig.messages(AppendAccepted) == []
    rig.end_flush()
    assert [message.match_index for message in rig.messages(AppendAccepted)] == [1]  # type: ignore[union-attr]
    rig.end_flush()
    assert [message.match_index for message in rig.messages(AppendAccepted)] == [1, 2]  # type: ignore[union-attr]


def test_what_is_not_committed_yet_is_shown_to_nobody_however_much_of_it_is_here() -> None:
    rig = Rig(3)
    rig.receive(TWO, heartbeat(entry(1, b"a"), entry(2, b"b"), entry(3, b"c")))
    rig.settle()
    for commit_index in range(4):
        rig.receive(TWO, AppendEntries(Term(1), LogIndex(3), Term(1), LogIndex(commit_index), 2, ()))
        assert rig.driver.committed_end == commit_index
        assert [batch.data for batch in rig.driver.read_committed(0, 1000)] == [b"a", b"b", b"c"][:commit_index]


def test_an_append_is_answered_only_when_it_is_durable() -> None:
    rig = Rig().lead()
    rig.append(1, b"a", b"b")
    rig.pump()
    assert rig.caller.seen == {}
    rig.end_flush()
    assert rig.caller.seen == {1: (0, 2, 1)}
    assert rig.storage.log.durable_end == rig.storage.log.end


def test_what_a_leader_sends_has_left_when_its_own_disk_is_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(3).lead()
    rig.accept()
    before = len(rig.messages(AppendEntries))
    left: list[int] = []
    monkeypatch.setattr(rig.storage, "persist", lambda order: left.append(rig.left))
    rig.append(1, b"a")
    rig.driver.pump()
    assert len(rig.messages(AppendEntries)) == before + 1
    assert left == [len(rig.sent)]


def test_a_follower_that_stood_still_hears_all_that_was_said_before_it_looks_at_the_clock() -> None:
    rig = Rig(3)
    rig.receive(TWO, heartbeat(entry(1, b"a")))
    rig.now = rig.core.deadline + 2 * LATE_S
    rig.more = True
    rig.pump()
    assert rig.messages(RequestPreVote) == []
    rig.more = False
    rig.receive(TWO, heartbeat())
    assert rig.messages(RequestPreVote) == [], "the leader has been there all the time"
    assert rig.core.leader == TWO


def test_a_follower_that_is_kept_busy_looks_at_the_clock_in_the_end() -> None:
    rig = Rig(3)
    rig.receive(TWO, heartbeat(entry(1, b"a")))
    rig.now = rig.core.deadline + 2 * LATE_S
    rig.more = True
    for _ in range(LATE_ROUNDS_MAX):
        rig.pump()
        assert rig.messages(RequestPreVote) == []
    rig.pump()
    assert len(rig.messages(RequestPreVote)) == 2


def test_a_leader_that_is_late_does_not_let_the_others_wait_for_its_heartbeat() -> None:
    rig = Rig(3).lead()
    rig.now = rig.core.deadline + 2 * LATE_S
    rig.more = True
    rig.sent.clear()
    rig.pump()
    assert rig.messages(AppendEntries)


def test_appends_that_wait_for_the_disk_become_one_entry_and_get_their_own_offsets() -> None:
    rig = Rig().lead()
    rig.append(1, b"a")
    rig.pump()
    for request_id in (2, 3, 4):
        rig.append(request_id, b"x", b"y")
        rig.pump()
    before = rig.core.log.last_index
    rig.end_flush()
    rig.settle()
    assert rig.core.log.last_index == before + 1
    assert rig.caller.seen == {1: (0, 1, 1), 2: (1, 2, 1), 3: (3, 2, 1), 4: (5, 2, 1)}
    batches = rig.driver.read_committed(1, 1000)
    assert [batch.records() for batch in batches] == [[b"x", b"y"] * 3]


def test_while_an_entry_is_under_way_the_next_waits_for_it_but_not_for_long() -> None:
    rig = Rig(3).lead()
    rig.accept()
    rig.append(1, b"a")
    rig.settle()
    under_way = rig.core.log.last_index
    rig.append(2, b"b")
    rig.append(3, b"c")
    rig.settle()
    assert rig.core.log.last_index == under_way
    assert rig.driver.deadline == PIPELINE_S + rig.now, "a slow network is not waited for"
    rig.now = rig.driver.deadline
    rig.settle()
    assert rig.core.log.last_index == under_way + 1, "both left as one"
    rig.append(4, b"d")
    rig.accept()
    rig.settle()
    assert rig.caller.seen == {1: (0, 1, 1), 2: (1, 1, 1), 3: (2, 1, 1)}
    rig.accept()
    assert rig.caller.seen[4] == (3, 1, 1)


def test_new_requests_of_clients_just_answered_join_the_next_entry() -> None:
    rig = Rig(3).lead()
    rig.accept()
    rig.append(1, b"a")
    rig.settle()
    rig.append(2, b"b")
    last = rig.core.log.last_index
    rig.accept()
    assert rig.caller.seen == {1: (0, 1, 1)}
    assert rig.core.log.last_index == last
    came = range(3, 3 + JOIN_ROUNDS_MAX)
    for request_id in came:
        assert rig.driver.has_postponed, "a request came, so others may"
        assert rig.core.log.last_index == last
        rig.append(request_id, b"again")
        rig.pump()
    assert rig.core.log.last_index == last + 1, "the wait is bounded, and all were appended as one entry"
    rig.settle()
    rig.accept()
    assert rig.caller.seen == {1: (0, 1, 1), 2: (1, 1, 1)} | {each: (each - 1, 1, 1) for each in came}


def test_an_entry_waits_no_longer_when_two_rounds_brought_nobody() -> None:
    rig = Rig(3).lead()
    rig.accept()
    rig.append(1, b"a")
    rig.settle()
    rig.append(2, b"b")
    last = rig.core.log.last_index
    rig.accept()
    rig.pump()
    assert rig.core.log.last_index == last
    rig.pump()
    assert rig.core.log.last_index == last + 1


def test_a_client_alone_is_not_kept_waiting() -> None:
    rig = Rig(3).lead()
    rig.accept()
    rig.append(1, b"a")
    rig.settle()
    last = rig.core.log.last_index
    rig.accept()
    rig.append(2, b"b")
    rig.pump()
    assert rig.core.log.last_index == last + 1


def test_entries_stay_below_the_bound_of_a_batch_and_a_large_one_stays_whole() -> None:
    rig = Rig(config=DriverConfig(batch_bytes_max=100)).lead()
    for request_id in range(6):
        rig.append(request_id, b"x" * 40)
    rig.append(6, b"x" * 400)
    rig.settle()
    assert [batch.span for batch in rig.driver.read_committed(0, 10_000)] == [2, 2, 2, 1]


def test_half_of_the_bound_waits_for_nothing_and_what_is_behind_it_waits_on() -> None:
    rig = Rig(3, config=DriverConfig(batch_bytes_max=100)).lead()
    rig.accept()
    rig.append(0, b"x" * 10)
    rig.pump()
    last = rig.core.log.last_index
    rig.append(1, b"x" * 40)
    rig.pump()
    assert rig.core.log.last_index == last
    for request_id in (2, 3):
        rig.append(request_id, b"x" * 40)
    rig.pump()
    assert rig.core.log.last_index == last + 1
    assert [entry.batch.span for entry in rig.core.log.cached_entries(last, 1000) or ()][1:] == [2]


def show_pace(rig: Rig, took_s: float) -> None:
    """A large append is committed within `took_s`."""
    rig.append(rig.draw(), b"x" * MIB)
    rig.pump()
    rig.pass_time(took_s)
    rig.end_flush()
    rig.accept()


def travel_together(rig: Rig) -> list[int]:
    """Returns the number of appends in each entry for six that wait together, of which two fit one message to a peer."""
    last = rig.core.log.last_index
    first = rig.draw()
    for request_id in range(first, first + 6):
        rig.append(request_id, b"x" * (MIB // 2 - 100))
    rig.pump()
    return [entry.batch.span for entry in rig.core.log.cached_entries(LogIndex(last + 1), 1 << 30) or ()]


@pytest.mark.parametrize(("took_s", "spans"), [(0, [6]), (0.01, [6]), (0.05, [4]), (0.1, [2, 2, 2]), (0.4, [2, 2, 2])])
def test_entries_are_as_large_as_the_group_commits_in_the_time_of_a_heartbeat(took_s: float, spans: list[int]) -> None:
    assert RaftConfig().heartbeat_s == 0.1
    rig = Rig(3).lead()
    rig.accept()
    show_pace(rig, took_s)
    assert travel_together(rig) == spans


def test_as_long_as_nothing_large_has_been_committed_in_this_reign_entries_fit_one_message() -> None:
    rig = Rig(3).lead()
    rig.accept()
    assert travel_together(rig) == [2, 2, 2]
    rig.settle()
    rig.accept()
    assert travel_together(rig) == [6]
    rig.settle()
    rig.accept()
    rig.receive(TWO, heartbeat(term=rig.core.term + 1))
    rig.settle()
    rig.lead().accept()
    assert travel_together(rig) == [2, 2, 2]


def test_what_is_small_says_nothing_about_the_pace() -> None:
    rig = Rig(3).lead()
    rig.accept()
    rig.append(1, b"x")
    rig.settle()
    rig.accept()
    assert travel_together(rig) == [2, 2, 2]


@pytest.mark.parametrize("size", [LARGE_BYTES - 100, LARGE_BYTES, 5 * LARGE_BYTES])
@pytest.mark.parametrize("is_known", [True, False])
def test_large_appends_leave_together_uncopied_and_are_read_as_they_were(size: int, is_known: bool) -> None:
    rig = Rig().lead()
    batches = [pack_batch([bytes([request_id]) * size]) for request_id in range(3)]
    for request_id, batch in enumerate(batches):
        crc = crc32c.crc32c(batch) if is_known else None
        rig.driver.append(rig.caller, request_id, memoryview(batch), 1, crc)
    rig.pump()
    (entry,) = rig.core.log.cached_entries(rig.core.log.last_index, 0) or ()
    is_spared = size >= LARGE_BYTES
    assert isinstance(entry.batch.data, Pieces) == is_spared
    assert entry.batch.crc == crc32c.crc32c(b"".join(batches))
    rig.settle()
    (read,) = rig.driver.read_committed(0, 10)
    assert (read.span, read.data) == (3, b"".join(batches))
    (written,) = rig.storage.entries(entry.index, 0)
    assert written.batch.data == b"".join(batches)


def test_what_waits_above_the_bound_is_refused_as_busy() -> None:
    rig = Rig(config=DriverConfig(pending_bytes_max=10)).lead()
    rig.append(1, b"x" * 20)
    rig.append(2, b"y")
    assert rig.caller.seen == {2: Busy}
    rig.settle()
    assert rig.caller.seen[1] == (0, 1, 1)


@pytest.mark.parametrize("batch_bytes_max", [1 << 20, 30])
def test_what_has_been_proposed_takes_no_room_from_what_comes(batch_bytes_max: int) -> None:
    rig = Rig(config=DriverConfig(pending_bytes_max=100, batch_bytes_max=batch_bytes_max)).lead()
    for request_id in range(0, 20, 2):
        rig.append(request_id, b"x" * 20)
        rig.append(request_id + 1, b"x" * 20)
        rig.settle()
    assert rig.caller.seen == {each: (each, 1, 1) for each in range(20)}


def test_a_node_that_wakes_late_hears_its_leader_before_it_counts_the_silence() -> None:
    rig = Rig(3)
    rig.receive(TWO, heartbeat())
    rig.now = rig.core.deadline + 5
    rig.receive(TWO, heartbeat(round_=2))
    assert rig.core.leader == TWO
    assert rig.messages(RequestPreVote) == []
    rig.now = rig.core.deadline
    rig.pump()
    assert rig.core.role_name is RoleName.PRE_CANDIDATE


def test_a_full_disk_refuses_an_append_for_certain_and_hands_leadership_over() -> None:
    disk = MemoryDisk(random.Random(1), capacity_bytes=1 << 20)
    rig = Rig(3, disk=disk, config=DriverConfig(batch_bytes_max=1 << 20)).lead()
    rig.accept()
    last_index = rig.core.log.last_index
    rig.append(1, b"x" * (1 << 20))
    rig.append(2, b"y")
    rig.settle()
    assert rig.caller.seen == {1: StorageFull, 2: NotLeader}
    assert rig.core.log.last_index == last_index
    assert rig.core.role_name is RoleName.FOLLOWER
    assert "storage_full" in rig.told


def test_a_full_disk_drops_incoming_entries_but_not_heartbeats_or_votes() -> None:
    disk = MemoryDisk(random.Random(1), capacity_bytes=256 * 1024)
    rig = Rig(3, disk=disk)
    rig.receive(TWO, heartbeat(entry(1, b"x" * 300_000)))
    rig.settle()
    assert rig.core.log.last_index == 0
    rig.receive(TWO, heartbeat())
    rig.settle()
    assert rig.core.leader == TWO
    assert len(rig.messages(AppendAccepted)) == 1


def test_messages_that_arrive_together_need_room_together() -> None:
    disk = MemoryDisk(random.Random(1))
    rig = Rig(3, disk=disk)
    rig.receive(TWO, heartbeat())
    rig.settle()
    disk.capacity_bytes = disk.used_bytes() + 300_000
    rig.driver.deliver(TWO, heartbeat(entry(1, b"x" * 800_000)))
    rig.driver.deliver(TWO, heartbeat(entry(2, b"x" * 800_000), prev=1))
    rig.settle()
    assert rig.core.log.last_index == 1
    assert rig.told.count("storage_full") == 1
    disk.capacity_bytes = None
    rig.receive(TWO, heartbeat(entry(2, b"x" * 800_000), prev=1))
    assert rig.core.log.last_index == 2


def test_a_leader_whose_disk_hangs_hands_leadership_over_and_answers_those_who_wait() -> None:
    rig = Rig(3).lead()
    rig.accept()
    rig.append(1, b"on its way to a disk that hangs")
    rig.pump()
    rig.append(2, b"waits for that disk")
    begun = rig.now
    while rig.core.role_name is RoleName.LEADER:
        rig.now = rig.driver.deadline
        rig.pump()
        durable = rig.core.log.durable_index
        if isinstance(rig.core.role, Leader):
            rig.receive(TWO, AppendAccepted(rig.core.term, durable, durable, rig.core.role.round))
    assert 5 < rig.now - begun < 6
    assert rig.caller.seen == {1: OutcomeUnknown, 2: NotLeader}
    assert "disk_stalled" in rig.told


def test_a_follower_redirects_at_once_though_its_disk_is_busy() -> None:
    rig = Rig(3)
    rig.receive(TWO, heartbeat(entry(1, b"a")))
    assert len(rig.flushes) == 1
    rig.append(1, b"x")
    rig.pump()
    assert rig.caller.seen == {1: NotLeader}


def test_with_the_interval_policy_an_append_counts_at_once_and_the_flush_follows_in_time() -> None:
    rig = Rig(config=DriverConfig(flush_policy=FlushPolicy.INTERVAL, flush_interval_s=0.05)).lead()
    rig.now += 1
    rig.settle()
    rig.append(1, b"a")
    rig.pump()
    assert rig.caller.seen == {1: (0, 1, 1)}
    assert rig.flushes == []
    assert rig.driver.deadline <= rig.now + 0.05
    rig.now += 0.05
    rig.pump()
    assert len(rig.flushes) == 1


@pytest.mark.parametrize("policy", [FlushPolicy.INTERVAL, FlushPolicy.NONE])
def test_what_counts_without_a_flush_does_not_wait_for_one(policy: FlushPolicy) -> None:
    config = DriverConfig(flush_policy=policy, flush_interval_s=0)
    rig = Rig(config=config, segment_bytes=4096).lead()
    while not rig.flushes:
        rig.append(rig.draw(), bytes(1000))
        rig.pump()
    rig.append(99, b"while the disk is busy")
    rig.pump()
    assert isinstance(rig.caller.seen[99], tuple), "it is answered"
    assert len(rig.flushes) == 1


@pytest.mark.parametrize("policy", FlushPolicy)
def test_a_vote_leaves_once_it_is_durable_whatever_the_policy(policy: FlushPolicy) -> None:
    rig = Rig(3, config=DriverConfig(flush_policy=policy))
    rig.receive(TWO, RequestVote(Term(1), LogIndex(0), Term(0)))
    assert rig.messages(VoteReply) == []
    rig.receive(TWO, heartbeat(entry(1, b"behind the vote")))
    assert rig.messages(AppendAccepted) == [], "the term that it is of is not durable either"
    rig.settle()
    assert rig.messages(VoteReply) == [VoteReply(Term(1), granted=True)]
    assert rig.messages(AppendAccepted) == [AppendAccepted(Term(1), LogIndex(1), LogIndex(1), 1)]
    rig.storage.close()
    again = Rig(3, disk=rig.disk.after_crash(random.Random(1), loss=PowerLoss.LOSE_ALL))
    assert (again.core.term, again.core.vote) == (1, TWO)


def test_without_flushes_an_append_counts_at_once() -> None:
    rig = Rig(config=DriverConfig(flush_policy=FlushPolicy.NONE)).lead()
    rig.append(1, b"a")
    rig.pump()
    assert rig.caller.seen == {1: (0, 1, 1)}
    assert rig.flushes == []


def test_without_flushes_sealed_segments_are_proved_nevertheless() -> None:
    rig = Rig(config=DriverConfig(flush_policy=FlushPolicy.NONE), segment_bytes=4096).lead()
    for request_id in range(40):
        rig.append(request_id, b"x" * 1000)
        rig.settle()
        assert not rig.storage.log.sealed_pending
    assert sum(path.endswith(".index") for path in rig.disk.paths()) > 5


def test_waiting_reads_share_one_round_of_heartbeats() -> None:
    rig = Rig(3).lead()
    rig.accept()
    rig.sent.clear()
    for request_id in range(1, 6):
        rig.driver.read(rig.caller, request_id)
    rig.pump()
    assert len(rig.messages(AppendEntries)) == 2
    assert rig.caller.seen == {}
    rig.accept(THREE)
    assert rig.caller.seen == dict.fromkeys(range(1, 6), "readable")


def test_a_read_on_a_follower_is_refused() -> None:
    rig = Rig(3)
    rig.driver.read(rig.caller, 1)
    rig.pump()
    assert rig.caller.seen == {1: NotLeader}


def test_commands_are_applied_in_order_and_answered_one_by_one() -> None:
    rig = Rig().lead()
    rig.apply(1, "w", "k", 1)
    rig.apply(2, "c", "k", 1, 2)
    rig.apply(3, "c", "k", 1, 3)
    rig.apply(4, "nonsense")
    rig.driver.read(rig.caller, 5, after_apply=True)
    rig.settle()
    assert rig.caller.seen == {1: None, 2: [True, 1], 3: [False, 2], 4: InvalidRequest, 5: "readable"}


def test_a_restart_applies_the_log_again_a_portion_at_a_time() -> None:
    rig = Rig().lead()
    for turn in range(5):
        rig.append(2 * turn, b"x" * 500_000)
        rig.apply(2 * turn + 1, "w", "k", turn)
        rig.settle()
    rig.storage.close()
    again = Rig(disk=rig.disk).lead()
    while again.driver.applied_index < again.core.commit_index:
        # Less than any time, not the present one, because the caller that compares has read the clock before.
        assert again.driver.deadline < again.now, "there is more to do"
        before = again.driver.applied_index
        again.pump()
        assert 0 < again.driver.applied_index - before < 9
    assert msgpack.unpackb(again.driver.query(msgpack.packb(["r", "k"]))) == 4
    assert again.driver.committed_end == 5


def test_closing_tells_everybody_what_is_known() -> None:
    rig = Rig(3).lead()
    rig.accept()
    rig.append(1, b"in flight")
    rig.apply(2, "w", 1, 1)
    rig.pump()
    rig.append(3, b"waits for the disk")
    rig.driver.read(rig.caller, 4)
    rig.driver.close()
    rig.append(5, b"too late")
    assert rig.caller.seen == {1: OutcomeUnknown, 2: OutcomeUnknown, 3: ShuttingDown, 4: ShuttingDown, 5: ShuttingDown}


def test_a_deposed_leader_leaves_its_appends_unknown_and_names_no_wrong_leader() -> None:
    rig = Rig(3).lead()
    rig.accept()
    rig.append(1, b"x")
    rig.pump()
    rig.receive(TWO, heartbeat(term=9))
    rig.append(2, b"y")
    rig.settle()
    assert rig.caller.seen == {1: OutcomeUnknown, 2: NotLeader}


def test_an_error_of_the_disk_climbs_out_of_the_flush() -> None:
    rig = Rig().lead()
    rig.append(1, b"x")
    rig.pump()
    rig.disk.fail_call(1)
    with pytest.raises(Exception, match="failed"):
        rig.flushes.pop(0).run()
    assert rig.caller.seen == {}
