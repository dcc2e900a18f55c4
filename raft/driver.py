"""The driver: feeds the core with what happens, carries out what it orders, and answers callers.

`pump` does all but the flush, synchronously and to the end; nothing else touches the core. It runs once for each round:

1. messages, finished flushes and broken links, in the order they came;
2. the tick, if it is due. A node that was paused or busy first processes the messages that arrived meanwhile, in as
   many rounds as that takes, lest its own delay be mistaken for a leader's silence. The core learns of long delays;
3. waiting reads, as one read; waiting commands and appends, each as few entries;
4. committed entries go to the state machine, then to subscribers, a bounded portion at a time;
5. applied entries that the retention rule does not keep leave the log.

Messages are sent before anything is written, at the latest now. Then, if anything was written and no flush is under
way, one begins (`begin_flush`; group commit). It runs concurrently with the loop.

Appends that arrive while the disk is busy, or an entry is under way, wait and then leave as one entry: one frame, one
CRC, one message a peer. Half an entry waits for nothing more. Clients that have just been answered often send again at
once, so an entry waits for their requests, too: for the round that begins when the answers have been sent, and for one
to three more, most if each brings requests (`has_postponed`). So fast clients share entries, and both rules save a
third of all processor time at 64 connections. A commit that takes longer than `PIPELINE_S` is not waited for.

A message to a peer is one frame, and heartbeats and their answers wait behind it until it has been sent. So an entry is
joined beyond `append_bytes_max` only as far as the last large one shows that the group commits it in the time of one
heartbeat (`_note_pace`). Otherwise leaders would lose their followers on links of a few megabytes a second.

Rules of the flush: with `before-ack` a write counts when a flush that began after it has ended. With `interval` and
`none` it counts once the operating system has it: a node that loses power can lose what it acknowledged.

Bounds: `pending_bytes_max` for appends and commands not yet proposed (then `Busy`); the core bounds what waits for
commit; messages wait for nothing, since every pump takes all. A full disk refuses a proposal before it is made and
drops incoming entries before the core sees them; the leader then steps down in favour of a node with room. A failed
write or flush is raised to the caller; a leader whose flush exceeds `flush_stall_s` steps down.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, assert_never

import attrs
import crc32c
import msgpack

from log.errors import NoSpace
from log.flush import Flush
from log.frame import Payload, Pieces, buffers_of
from log.policy import FlushPolicy
from log.retention import KEEP_ALL, Retention
from log.values import frozen
from raft.core import RaftCore
from raft.effects import (
    Answer,
    Commit,
    Committed,
    Effect,
    LoadEntries,
    Persist,
    ReadReady,
    ReadRejected,
    Refusal,
    Rejected,
    RoleChanged,
    Send,
    Unknown,
)
from raft.errors import (
    Busy,
    InvalidRequest,
    InvalidResult,
    NotLeader,
    OutcomeUnknown,
    ProtocolError,
    RaftError,
    RecordsTrimmed,
    ShuttingDown,
    SnapshotDiverged,
    StorageFull,
    WrongStateMachine,
)
from raft.events import (
    Disconnected,
    Event,
    Loaded,
    Overslept,
    Persisted,
    Propose,
    ReadRequest,
    Receive,
    StepDown,
    Tick,
    Trimmed,
)
from raft.messages import AppendEntries, InstallSnapshot, Message
from raft.model import (
    NO_INDEX,
    NO_POSITION,
    Batch,
    Entry,
    EntryKind,
    LogIndex,
    LogStart,
    NodeId,
    Offset,
    Position,
    Token,
)
from raft.net.crc import join_crcs
from raft.net.decoder import LARGE_BYTES
from raft.net.turns import TurnMeter
from raft.notices import (
    DiskStalled,
    LogTrimmed,
    NoSpaceLeft,
    Notify,
    SnapshotInstalled,
    SnapshotTooLarge,
    StandingLearned,
)
from raft.outbox import Outbox
from raft.results import RecordBatch
from raft.roles import Leader
from raft.snapshot_work import SnapshotWork, WorkBeside, at_once
from raft.state_machine import SnapshotMachine, StateMachine
from raft.storage import RaftStorage, StorageFlush, entries_bytes
from raft.subscription import Subscription

PIPELINE_S = 0.002
"""The next entry waits this long for the commit of the one before it: a slower network has room for both."""
JOIN_ROUNDS_MAX = 4
"""For how many rounds an entry waits for new requests of the clients that were just answered."""
EMPTY_ROUND = 2
"""A round without a new request counts as this many of them."""
APPLY_BYTES = 1024 * 1024
"""One pump gives this much of the log to the state machine; the rest waits for the next."""

TRIM_EVERY_S = 1.0
"""The retention rule is applied this often, in addition to each time that the log has grown by a file."""
FIRST_SNAPSHOT_BYTES = 1024 * 1024
"""Room kept on the disk for the first snapshot, so that a disk that this log has filled can still be trimmed."""
TOO_LARGE_S = 60.0
"""After a snapshot that was too large the next one waits this long: the state hardly shrinks within a moment."""

LATE_S = 0.02
LATE_ROUNDS_MAX = 64
"""For how many rounds at most a tick that is more than `LATE_S` late waits for the messages that arrived meanwhile."""


class Caller(Protocol):
    """The maker of a request. One of these methods is called, once, for each request id; none may call `pump`."""

    def on_appended(self, request_id: int, base_offset: int, span: int, term: int) -> None:
        """The records are committed from `base_offset` on."""

    def on_applied(self, request_id: int, index: int, result: bytes) -> None:
        """The command is committed at `index` and was applied."""

    def on_readable(self, request_id: int) -> None:
        """A read may be served from the present state of the driver."""

    def on_refused(self, request_id: int, error: RaftError) -> None:
        """The request failed; unless `error.definite` it may have taken effect."""


class Transport(Protocol):
    """Takes messages to peers; may lose any."""

    def send(self, to: NodeId, message: Message) -> None:
        """Queue a message, which is sent when the pump has ended, or at the next `push`."""

    def push(self) -> None:
        """Send what is queued now, because what follows takes time."""


@attrs.frozen(kw_only=True)
class DriverConfig:
    """Bounds in bytes, times in seconds."""

    flush_policy: FlushPolicy = FlushPolicy.BEFORE_ACK
    flush_interval_s: float = 0.05
    """With the policy `interval`: how long a write may wait for its flush."""
    flush_stall_s: float = 5.0
    """A leader whose flush takes longer steps down."""
    batch_bytes_max: int = 3 * 1024 * 1024
    """Appends are joined into entries of at most this size, on a slow network of at most `append_bytes_max`; a single
    larger one stays whole. Half of it waits for nothing more."""
    pending_bytes_max: int = 32 * 1024 * 1024
    """Appends and commands that wait to be proposed; above, `Busy`."""
    retention: Retention = KEEP_ALL
    result_bytes_max: int = 2**62
    """The largest result of a command or a query."""
    snapshot_bytes_max: int = 256 * 1024 * 1024
    """A larger snapshot is not taken, and nothing leaves the log; nor is one of a leader accepted."""


@frozen
class _Request:
    """An append or a command that waits to be proposed. `data` goes into the entry, `crc` is its CRC-32C if known."""

    caller: Caller
    request_id: int
    span: int
    data: bytes | memoryview
    crc: int | None = None

    def checksum(self) -> int:
        """The CRC-32C of `data`."""
        return crc32c.crc32c(self.data) if self.crc is None else self.crc


@frozen
class _ReadRequest:
    caller: Caller
    request_id: int
    after_apply: bool


@frozen
class _Proposal:
    """One entry that was proposed, and the requests in it."""

    kind: EntryKind
    requests: list[_Request]
    size: int
    proposed_at: float


class RaftDriver:
    """Drives one core. All methods are for the thread of the loop.

    `submit` has a flush carried out elsewhere, and `on_flushed` must be called when it is done. `has_more` returns
    whether a socket is ready, so that the next round would receive at once. `turns` measures the loop's turns.
    """

    def __init__(
        self,
        *,
        core: RaftCore,
        storage: RaftStorage,
        transport: Transport,
        state_machine: StateMachine,
        submit: Callable[[Flush], None],
        has_more: Callable[[], bool],
        clock: Callable[[], float],
        wall_clock_ms: Callable[[], int],
        addresses: Mapping[NodeId, str],
        config: DriverConfig,
        notify: Notify,
        turns: TurnMeter | None = None,
        work_beside: WorkBeside = at_once,
    ) -> None:
        self.core = core
        self.storage = storage
        self.config = config
        self.committed_end = core.log.start.offset
        """The end of the records known to be committed, exclusive."""
        self.applied_index = NO_INDEX
        self._transport = transport
        self._state_machine = state_machine
        self._submit = submit
        self._has_more = has_more
        self._clock = clock
        self._wall_clock_ms = wall_clock_ms
        self._addresses = addresses
        self._notify = notify
        self._turns = turns or TurnMeter()
        bound = config.snapshot_bytes_max
        self._snapshots = SnapshotWork(storage, work_beside, clock, bound, self._note_trim, self._too_large)
        self.abandon_snapshots = self._snapshots.abandon
        self._outbox = Outbox()
        self._inbox: deque[Event] = deque()
        self._inbox_bytes = 0
        self._flush: StorageFlush | None = None
        self._flush_begun = 0.0
        self._flush_due: float | None = None
        self._appends: deque[_Request] = deque()
        self._commands: deque[_Request] = deque()
        self._pending_bytes = 0
        self._proposals: dict[Token, _Proposal] = {}
        self._applying: dict[LogIndex, list[_Request]] = {}
        self._reads: list[_ReadRequest] = []
        self._reads_asked: dict[Token, list[_ReadRequest]] = {}
        self._reads_applying: deque[tuple[LogIndex, _ReadRequest]] = deque()
        self._last_token = 0
        self._now = self._proposed_at = 0.0
        self._batch_bytes_min = min(core.config.append_bytes_max, config.batch_bytes_max)
        self._batch_bytes_max = self._batch_bytes_min
        """The bound of a batch, according to how fast the group commits."""
        self._rounds_to_wait = 0
        self._arrived = 0
        self._rounds_late = 0
        self._closing = False
        self._subscriptions: list[Subscription] = []
        self._delivers_more = False
        self._restored = NO_POSITION
        """The position that the state machine was restored to, until it is known to be committed here; then (0, 0)."""
        self._trim_at: float = 0
        self._trim_due = -math.inf
        self._has_trimmed = False
        if core.log.start.index:
            self._restore(core.log.start)
        self._trims = config.retention != KEEP_ALL
        if self._trims:
            storage.log.keep_room(FIRST_SNAPSHOT_BYTES)  # later ones find room by the size of the last

    # ---------------------------------------------------------------- what comes from outside

    def append(
        self, caller: Caller, request_id: int, records: bytes | memoryview, span: int, crc: int | None = None
    ) -> None:
        """Append a batch of `span` records, for `caller`. `records` is a checked batch, `crc` its CRC-32C if known."""
        self._enqueue(self._appends, _Request(caller, request_id, span, records, crc))

    def apply(self, caller: Caller, request_id: int, command: bytes) -> None:
        """Append a command and apply it once it is committed, for `caller`."""
        try:
            self._state_machine.check(command, read_only=False)
        except InvalidRequest as error:
            caller.on_refused(request_id, error)
            return
        packed: bytes = msgpack.packb(command)
        self._enqueue(self._commands, _Request(caller, request_id, 0, packed))

    def _enqueue(self, queue: deque[_Request], request: _Request) -> None:
        if self._closing:
            request.caller.on_refused(request.request_id, ShuttingDown())
        elif self._pending_bytes >= self.config.pending_bytes_max:
            request.caller.on_refused(request.request_id, Busy("too many bytes wait to be proposed"))
        else:
            self._pending_bytes += len(request.data)
            queue.append(request)

    def read(self, caller: Caller, request_id: int, *, after_apply: bool = False) -> None:
        """Call `caller.readable` once everything committed before now is known here (and, if asked, applied)."""
        if self._closing:
            caller.on_refused(request_id, ShuttingDown())
        else:
            self._reads.append(_ReadRequest(caller, request_id, after_apply))

    def query(self, command: bytes) -> bytes:
        """Returns the state machine's answer from what has been applied. Raises `InvalidRequest` for an invalid query,
        `InvalidResult` for an answer that is none."""
        answer = self._state_machine.query(command)
        return checked_result(answer, self.config.result_bytes_max, "the query had no effect")

    def check_query(self, command: bytes) -> None:
        """Raises `InvalidRequest` if `command` is no query."""
        self._state_machine.check(command, read_only=True)

    def read_committed(self, offset: int, bytes_max: int) -> list[RecordBatch]:
        """Returns committed entries with records, from the one that holds `offset` on: about `bytes_max` bytes, or one.

        Raises `RecordsTrimmed` if it has left the log, `ShuttingDown` once the driver is closed.
        """
        if self._closing:
            raise ShuttingDown
        start_offset = self.core.log.start.offset
        if offset < start_offset:
            raise RecordsTrimmed(start_offset)
        if offset >= self.committed_end:
            return []
        index = self.storage.find_index(Offset(offset))
        entries = self.storage.entries(index, bytes_max, self.core.commit_index)
        return [
            RecordBatch(entry.base_offset, entry.term, entry.batch.span, bytes(entry.batch.data))
            for entry in entries
            if entry.batch.span
        ]

    def deliver(self, sender: NodeId, message: Message) -> None:
        """A message came from a peer. Raises `ProtocolError` if no correct peer can have sent it."""
        if (objection := self.core.objection(message)) is not None:
            raise ProtocolError(objection)
        if isinstance(message, AppendEntries) and message.entries:
            needed = entries_bytes(entry.batch for entry in message.entries)
        elif isinstance(message, InstallSnapshot):
            if not isinstance(self._state_machine, SnapshotMachine):
                raise WrongStateMachine(self.storage.log.directory, type(self._state_machine).__name__)
            if message.total > self.config.snapshot_bytes_max:
                self._notify(SnapshotTooLarge(message.total, self.config.snapshot_bytes_max))
                return
            if message.bytes_left:
                self._inbox.append(Receive(sender, message))  # kept in memory until the last part is there
                return
            if self._flush is not None or self._snapshots.is_busy:
                return  # a log is reset only while neither is under way; the leader will send the part again
            staged = self._snapshots.installing(message, self.core)
            if staged is None:
                return  # it is being written; the part that comes again will find it
            message = staged
            needed = message.total
        else:
            self._inbox.append(Receive(sender, message))
            return
        # Nothing is written before the next pump, so this message needs room in addition to those that came before it.
        try:
            self.storage.reserve(self._inbox_bytes + needed)
        except NoSpace as error:
            self._notify(NoSpaceLeft(str(error)))
            return
        self._inbox_bytes += needed
        self._inbox.append(Receive(sender, message))

    def on_disconnected(self, peer: NodeId) -> None:
        """A connection from or to this peer broke."""
        self._inbox.append(Disconnected(peer))

    def subscribe(self, subscription: Subscription) -> None:
        """Deliver committed entries to `subscription`, from its position on, until it is closed."""
        self._subscriptions.append(subscription)
        self._delivers_more = True

    def on_flushed(self) -> None:
        """The flush that was submitted has ended, without an error."""
        assert self._flush is not None, "a flush ended that was not begun"
        flush, self._flush = self._flush, None
        durable = self.storage.end_flush(flush)
        # A flush takes few files away: the rest goes with the next.
        self._has_trimmed |= self.storage.log.retiring and self.storage.log.sealed_pending
        if self.config.flush_policy is FlushPolicy.BEFORE_ACK:
            self._inbox.append(Persisted(durable))

    @property
    def deadline(self) -> float:
        """The time at which `pump` must be called even if nothing has happened, on the driver's clock in seconds."""
        if self._applies_more or self._delivers_more or self._snapshots.draws:
            return -math.inf
        if self._proposals and (self._appends or self._commands) and not self._waits_for_disk:
            return min(self.core.deadline, self._proposed_at + PIPELINE_S)
        return self.core.deadline if self._flush_due is None else min(self.core.deadline, self._flush_due)

    def status(self) -> dict[str, object]:
        """Returns what a STATUS reply contains."""
        core = self.core
        return {
            "node": core.node_id,
            "role": core.role_name.value,
            "term": core.term,
            "leader": core.leader or 0,
            "commit_index": core.commit_index,
            "last_index": core.log.last_index,
            "durable_index": core.log.durable_index,
            "floor_index": core.floor.index,
            "unheard": [] if core.recall is None else list(core.recall.missing),
            "committed_end": self.committed_end,
            "start_offset": core.log.start.offset,
            "end_offset": core.log.end_offset,
            "applied_index": self.applied_index,
            "voters": sorted(core.configuration.voters),
            **self._turns.figures(),
        }

    @property
    def has_postponed(self) -> bool:
        """True if requests wait only for the round after the answers just given have been sent."""
        return self._rounds_to_wait > 0 and bool(self._appends or self._commands)

    # ---------------------------------------------------------------- the loop body

    def pump(self) -> None:
        """Do everything that can be done now."""
        now = self._now = self._clock()
        self._note_arrived()
        receives_first = self._receives_first(now)
        while True:
            self._drain_inbox(now)
            self._step_down_if_stalled(now)
            if now >= self.core.deadline and not receives_first:
                if now > self.core.deadline + self.core.config.heartbeat_s:
                    self._step(now, Overslept())
                self._step(now, Tick())
            if self._reads:
                self._ask_reads(now)
            if self._may_propose:
                self._propose_all(now, self._commands, EntryKind.COMMANDS)
                self._propose_all(now, self._appends, EntryKind.RECORDS)
            if self._applies_more:
                self._turns.lap("raft: deciding and sending")
                self._apply_committed()
                self._turns.lap("raft: applying commands")
            # An answer can set free the next request of a caller that had too many under way.
            if not (self._inbox or self._reads or ((self._appends or self._commands) and self._may_propose)):
                break
        if self._subscriptions:
            self._deliver_committed()
            self._turns.lap("raft: delivering what is committed")
        if self._trims and (now >= self._trim_due or self.storage.log.end >= self._trim_at):
            self._trim(now)
            self._turns.lap("raft: trimming the log")
        if self._snapshots.draws:
            self._snapshots.draw()
            self._turns.lap("raft: taking a snapshot")

    def _note_arrived(self) -> None:
        """Count the round since the last `pump`; one that brought requests lets the next entry wait longer for more."""
        before, self._arrived = self._arrived, len(self._appends)
        if self._rounds_to_wait:
            self._rounds_to_wait = max(0, self._rounds_to_wait - (1 if self._arrived > before else EMPTY_ROUND))

    def _receives_first(self, now: float) -> bool:
        """Returns True if the tick waits, because this node is late and has not read all that arrived meanwhile.

        A leader's tick does not wait, because its followers wait for heartbeats.
        """
        is_late = now > self.core.deadline + LATE_S and not isinstance(self.core.role, Leader)
        if is_late and self._rounds_late < LATE_ROUNDS_MAX and self._has_more():
            self._rounds_late += 1
            return True
        self._rounds_late = 0
        return False

    def _drain_inbox(self, now: float) -> None:
        inbox = self._inbox
        while inbox:
            self._step(now, inbox.popleft())
        self._inbox_bytes = 0

    def _step_down_if_stalled(self, now: float) -> None:
        """Step down if a flush hangs: with heartbeats alone the followers would keep a leader that commits nothing."""
        if (
            self._flush is not None
            and now - self._flush_begun > self.config.flush_stall_s
            and isinstance(self.core.role, Leader)
        ):
            self._notify(DiskStalled(round(now - self._flush_begun, 3)))
            self._step(now, StepDown())

    def _step(self, now: float, event: Event) -> None:
        core, was_blank = self.core, self.core.recall is not None
        for effect in core.step(now, event):
            self._carry_out(effect)
        if was_blank and core.recall is None and core.term:
            self._notify(StandingLearned(core.term, core.floor))
        if type(event) is Persisted:
            for send in self._outbox.release(event.write_id, self.core.term):
                self._transport.send(send.to, send.message)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send(to=to, message=message):
                if not self._outbox.hold(effect):
                    self._transport.send(to, message)
            case Persist(write_id=write_id):
                self._transport.push()
                self._turns.lap("raft: deciding and sending")
                if effect.start is not None:
                    self._restore(effect.start)  # first: a machine that cannot must not cost this node its log
                    self._turns.lap("raft: restoring the state machine")
                self.storage.persist(effect)
                self._turns.lap("raft: writing the log")
                if effect.start is not None:
                    self._notify(SnapshotInstalled(effect.start.index, effect.start.offset, self.applied_index))
                if self.config.flush_policy is not FlushPolicy.BEFORE_ACK:
                    self._inbox.append(Persisted(write_id))
            case Answer(token=token, outcome=outcome):
                self._answer(self._proposals.pop(token), outcome)
            case Commit(commit_index=commit_index):
                self.committed_end = self._end_offset_of(commit_index)
                self._check_restored(commit_index)
            case LoadEntries(peer=peer):
                self._inbox.append(Loaded(peer, self.storage.load(effect)))
                self._turns.lap("raft: reading the log for a follower")
            case ReadReady(token=token, read_index=read_index):
                self._release_reads(self._reads_asked.pop(token), read_index)
            case ReadRejected(token=token, leader_hint=leader_hint):
                for read in self._reads_asked.pop(token):
                    read.caller.on_refused(read.request_id, self._not_leader(leader_hint))
            case RoleChanged():
                self._batch_bytes_max = self._batch_bytes_min  # each leader measures the pace of its own term
                self._notify(effect)
            case _:
                assert_never(effect)

    def _end_offset_of(self, index: LogIndex) -> Offset:
        log = self.core.log
        if index == log.last_index:
            return log.end_offset
        if index == log.start.index:
            return log.start.offset
        entries = log.cached_entries(index, 0) or self.storage.entries(index, 0, index)
        return entries[0].end_offset

    # ---------------------------------------------------------------- proposals

    @property
    def _may_propose(self) -> bool:
        """True if the waiting requests may be proposed now."""
        if self._waits_for_nothing:
            return True
        if self._waits_for_disk:
            return False
        if self._proposals:
            return self._now >= self._proposed_at + PIPELINE_S
        return self._rounds_to_wait == 0

    @property
    def _waits_for_nothing(self) -> bool:
        """True if the waiting requests fill half an entry, or will only be refused because this node does not lead."""
        return self._pending_bytes >= self._batch_bytes_max // 2 or not isinstance(self.core.role, Leader)

    @property
    def _waits_for_disk(self) -> bool:
        """True if the next entry waits for the flush under way, as it does if acknowledgements do."""
        return self._flush is not None and self.config.flush_policy is FlushPolicy.BEFORE_ACK

    def _propose_all(self, now: float, queue: deque[_Request], kind: EntryKind) -> None:
        """Propose the waiting requests in as few entries as the bound of a batch allows; a small rest waits."""
        while queue:
            requests = self._take_batch(queue)
            batch = self._join(requests, kind)
            try:
                if isinstance(self.core.role, Leader):
                    self.storage.reserve(entries_bytes((batch,)))
            except NoSpace as error:
                self._refuse(requests, StorageFull(str(error)))
                self._notify(NoSpaceLeft(str(error)))
                self._step(now, StepDown())
                continue
            self._proposed_at = now
            token = self._draw_token()
            self._proposals[token] = _Proposal(kind, requests, len(batch.data), now)
            self._step(now, Propose(token, batch))
            if not self._waits_for_nothing:
                break

    def _join(self, requests: list[_Request], kind: EntryKind) -> Batch:
        data, crc = _join_data(requests)
        span = sum([request.span for request in requests])
        return Batch(kind, span, self._wall_clock_ms(), data, crc)

    def _take_batch(self, queue: deque[_Request]) -> list[_Request]:
        if self._pending_bytes <= self._batch_bytes_max:
            requests = list(queue)
            queue.clear()
            self._pending_bytes -= sum([len(request.data) for request in requests])
            return requests
        requests = [queue.popleft()]
        size = len(requests[0].data)
        while queue and size + len(queue[0].data) <= self._batch_bytes_max:
            request = queue.popleft()
            size += len(request.data)
            requests.append(request)
        self._pending_bytes -= size
        return requests

    def _draw_token(self) -> Token:
        self._last_token += 1
        return Token(self._last_token)

    def _answer(self, proposal: _Proposal, outcome: Committed | Rejected | Unknown) -> None:
        match outcome:
            case Committed(index=index, term=term, base_offset=base_offset):
                self._note_pace(proposal)
                if proposal.kind is EntryKind.COMMANDS:
                    self._applying[index] = proposal.requests
                    return
                if len(proposal.requests) > 1 or self._appends:
                    self._rounds_to_wait = JOIN_ROUNDS_MAX
                offset: int = base_offset
                for request in proposal.requests:
                    request.caller.on_appended(request.request_id, offset, request.span, term)
                    offset += request.span
            case Rejected(reason=reason, leader_hint=leader_hint):
                self._refuse(proposal.requests, self._refusal(reason, leader_hint))
            case Unknown():
                self._refuse(proposal.requests, OutcomeUnknown("the leadership moved while the request was in flight"))
            case _:
                assert_never(outcome)

    def _note_pace(self, proposal: _Proposal) -> None:
        """Bound the next entry by how many bytes the group commits in a heartbeat's time, if this one is large."""
        if proposal.size < self._batch_bytes_min // 2:
            return
        pace_bytes = self.config.batch_bytes_max
        if took := self._now - proposal.proposed_at:
            pace_bytes = min(pace_bytes, int(proposal.size * self.core.config.heartbeat_s / took))
        self._batch_bytes_max = max(self._batch_bytes_min, pace_bytes)

    @staticmethod
    def _refuse(requests: list[_Request], error: RaftError) -> None:
        for request in requests:
            request.caller.on_refused(request.request_id, error)

    def _refusal(self, reason: Refusal, leader_hint: NodeId | None) -> RaftError:
        match reason:
            case Refusal.NOT_LEADER:
                return self._not_leader(leader_hint)
            case Refusal.BUSY:
                return Busy()
            case _:
                assert_never(reason)

    def _not_leader(self, leader: NodeId | None) -> NotLeader:
        # A node that has just stepped down knows no other leader.
        if leader is None or leader == self.core.node_id:
            return NotLeader()
        return NotLeader(leader, self._addresses.get(leader))

    # ---------------------------------------------------------------- reads

    def _ask_reads(self, now: float) -> None:
        """Request all waiting reads under one token, so that they share one round of heartbeats."""
        token = self._draw_token()
        self._reads_asked[token], self._reads = self._reads, []
        self._step(now, ReadRequest(token))

    def _release_reads(self, reads: list[_ReadRequest], read_index: LogIndex) -> None:
        for read in reads:
            if read.after_apply and self.applied_index < read_index:
                self._reads_applying.append((read_index, read))
            else:
                read.caller.on_readable(read.request_id)

    # ---------------------------------------------------------------- applying

    @property
    def _applies_more(self) -> bool:
        return self.applied_index < self.core.commit_index

    def _apply_committed(self) -> None:
        first = LogIndex(self.applied_index + 1)
        commit_index = self.core.commit_index
        entries = self.core.log.cached_entries(first, APPLY_BYTES)
        if entries is None:
            entries = self.storage.entries(first, APPLY_BYTES, commit_index)
        for entry in entries:
            if entry.index > commit_index:
                break
            if entry.batch.kind is EntryKind.COMMANDS:
                self._apply_entry(entry)
            self.applied_index = entry.index
        self._release_applied()

    def _release_applied(self) -> None:
        while self._reads_applying and self._reads_applying[0][0] <= self.applied_index:
            _, read = self._reads_applying.popleft()
            read.caller.on_readable(read.request_id)

    def _apply_entry(self, entry: Entry) -> None:
        """Apply the entry's commands in order, and answer the callers that proposed them on this node."""
        waiting = iter(self._applying.pop(entry.index, ()))
        for command in _unpack_commands(entry.batch.data):
            request = next(waiting, None)
            try:
                returned = self._state_machine.apply(entry.index, command)
                done = f"the command is committed and applied at index {entry.index}"
                result = checked_result(returned, self.config.result_bytes_max, done)
            except (InvalidRequest, InvalidResult) as error:
                if request is not None:
                    request.caller.on_refused(request.request_id, error)
            else:
                if request is not None:
                    request.caller.on_applied(request.request_id, entry.index, result)

    def _deliver_committed(self) -> None:
        self._subscriptions = [each for each in self._subscriptions if not each.is_closed]
        for subscription in tuple(self._subscriptions):
            subscription.advance(self.core, self.storage)
        self._delivers_more = any(each.lacks(self.core) for each in self._subscriptions)

    # ---------------------------------------------------------------- snapshots

    def _restore(self, start: LogStart) -> None:
        """Restore the state machine from the snapshot in `start`."""
        assert isinstance(self._state_machine, SnapshotMachine), "who asked for this has seen to it"
        self._state_machine.restore(start.snapshot)
        self._restored = start.applied
        self.applied_index = start.applied.index
        for index in [index for index in self._applying if index <= self.applied_index]:
            lost = OutcomeUnknown("the command is committed, but a snapshot took the place of its result")
            self._refuse(self._applying.pop(index), lost)
        self._release_applied()

    def _check_restored(self, commit_index: LogIndex) -> None:
        """Check that the last entry in the snapshot is the committed one; else the machines would diverge unseen."""
        restored = self._restored
        if restored is NO_POSITION:
            return
        reached = LogIndex(min(commit_index, restored.index))
        term = self.core.log.term_at(reached)
        # Terms never fall along a log: a newer one before that place is proof enough, and comes before any answer.
        if term > restored.term or (reached == restored.index and term != restored.term):
            raise SnapshotDiverged(restored.index, restored.term, reached, term)
        if reached == restored.index:
            self._restored = NO_POSITION

    def _trim(self, now: float) -> None:
        """Trim by the retention rule: whole files, whose entries are all committed, durable and applied here."""
        storage, core, machine = self.storage, self.core, self._state_machine
        self._trim_due = now + TRIM_EVERY_S
        self._trim_at = storage.log.end + storage.log.config.segment_bytes_max
        if storage.log.retiring:
            storage.log.retry_retiring()  # the disk was full; there may be room for the log-start checkpoint now
            self._has_trimmed = True
        if self._restored != NO_POSITION or not isinstance(machine, SnapshotMachine) or self._snapshots.is_busy:
            return
        last_index = LogIndex(min(self.applied_index, core.log.durable_index))
        first_index = storage.first_kept(self.config.retention, core.log.start, last_index, self._wall_clock_ms())
        if first_index is None:
            return
        snapshot = machine.snapshot()
        self._turns.lap("raft: taking a snapshot")
        if snapshot is not None:
            applied = Position(self.applied_index, core.log.term_at(self.applied_index))
            self._snapshots.store(first_index, applied, snapshot)

    def _too_large(self, size: int) -> None:
        self._notify(SnapshotTooLarge(size, self.config.snapshot_bytes_max))
        self._trim_due, self._trim_at = self._now + TOO_LARGE_S, math.inf

    def _note_trim(self, start: LogStart) -> None:
        self._has_trimmed = True
        self._step(self._now, Trimmed(start))
        self._notify(LogTrimmed(start.index, start.offset))

    # ---------------------------------------------------------------- the disk

    def begin_flush(self) -> None:
        """Begin a flush if one is due. Must be called after the messages of `pump` have been sent."""
        if self._flush is not None or not (self._has_trimmed or (not self.storage.is_durable and self._is_flush_due())):
            return
        self._has_trimmed = False  # what left the log leaves the disk with this flush
        self._flush_due = None
        self._flush = self.storage.begin_flush()
        self._flush_begun = self._clock()
        self._submit(self._flush.flush)

    def _is_flush_due(self) -> bool:
        """Returns True if what was written should be flushed now."""
        match self.config.flush_policy:
            case FlushPolicy.BEFORE_ACK:
                return True
            case FlushPolicy.INTERVAL:
                if self._flush_due is None:
                    self._flush_due = self._clock() + self.config.flush_interval_s
                return self._clock() >= self._flush_due
            case FlushPolicy.NONE:
                # A sealed segment keeps its file open, and its index in memory, until a flush has proved it.
                return self.storage.log.sealed_pending
            case _:
                assert_never(self.config.flush_policy)

    def close(self) -> None:
        """Accept nothing more, and answer all callers that wait: with a definite error, or with `OutcomeUnknown`."""
        self._closing = True
        for request in (*self._appends, *self._commands):
            request.caller.on_refused(request.request_id, ShuttingDown())
        self._appends.clear()
        self._commands.clear()
        in_flight = [*(proposal.requests for proposal in self._proposals.values()), *self._applying.values()]
        for requests in in_flight:
            self._refuse(requests, OutcomeUnknown("the node was stopped while the request was in flight"))
        self._proposals.clear()
        self._applying.clear()
        reads = [read for asked in self._reads_asked.values() for read in asked]
        for read in (*self._reads, *reads, *(read for _, read in self._reads_applying)):
            read.caller.on_refused(read.request_id, ShuttingDown())
        self._reads.clear()
        self._reads_asked.clear()
        self._reads_applying.clear()

    def settle_flush(self) -> None:
        """Process a flush that has ended without a call of `on_flushed`; for closing, when the driver has no thread."""
        if self._flush is not None and self._flush.done:
            flush, self._flush = self._flush, None
            self.storage.end_flush(flush)


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


def _join_data(requests: list[_Request]) -> tuple[Payload, int]:
    """Returns the joined data of the requests, and its CRC-32C. Large data is neither copied nor read again."""
    if len(requests) == 1:
        return requests[0].data, requests[0].checksum()
    buffers = [request.data for request in requests]
    if sum(map(len, buffers)) < LARGE_BYTES * len(buffers):
        data = b"".join(buffers)
        return data, crc32c.crc32c(data)
    crc = 0
    for request in requests:
        crc = join_crcs(crc, request.checksum(), len(request.data))
    return Pieces(buffers), crc


def _unpack_commands(data: Payload) -> Iterator[bytes]:
    """Yields the commands of an entry, which are msgpack binaries end to end."""
    unpacker = msgpack.Unpacker(max_buffer_size=max(len(data), 1), max_array_len=0, max_map_len=0, max_ext_len=0)
    for buffer in buffers_of(data):
        unpacker.feed(buffer)
    return iter(unpacker)
