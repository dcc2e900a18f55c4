"""The driver: feeds the core with what happens, carries out what it orders, and answers callers.

`pump` does all but the flush, synchronously and to the end; nothing else touches the core. It runs once for each round:

1. messages, finished flushes and broken links, in the order they came (`raft.inbox`);
2. the tick, if it is due. A node that was paused or busy first processes the messages that arrived meanwhile, in as
   many rounds as that takes, lest its own delay be mistaken for a leader's silence. The core learns of long delays;
3. waiting reads, as one read (`raft.pending_reads`); waiting commands and appends, each as few entries (`raft.batching`);
4. committed entries go to the state machine (`raft.applier`), then to subscribers (`raft.subscription`), a bounded
   portion at a time;
5. applied entries that the retention rule does not keep leave the log (`raft.trimming`).

Messages are sent before anything is written, at the latest now. Then, if anything was written and no flush is under
way, one begins (`begin_flush`; `raft.flush_schedule`). It runs concurrently with the loop.

Bounds: `pending_bytes_max` for appends and commands not yet proposed (then `Busy`); the core bounds what waits for
commit; messages wait for nothing, since every pump takes all. A full disk refuses a proposal before it is made and
drops incoming entries before the core sees them; the leader then steps down in favour of a node with room. A failed
write or flush is raised to the caller; a leader whose flush exceeds `flush_stall_s` steps down.
"""

import math
from collections.abc import Callable
from typing import assert_never

import attrs
import msgpack

from log.errors import NoSpace
from log.flush import Flush
from log.policy import FlushPolicy
from log.retention import KEEP_ALL, Retention
from raft.applier import APPLY_BYTES, Applier
from raft.batching import Batcher, Proposal, join_data
from raft.core import RaftCore
from raft.effects import (
    Answer,
    Commit,
    Committed,
    Effect,
    HandedOver,
    LoadEntries,
    MembersChanged,
    Persist,
    ReadReady,
    ReadRejected,
    Refusal,
    Rejected,
    RoleChanged,
    Send,
    Unknown,
)
from raft.environment import Environment
from raft.errors import Busy, InvalidRequest, NotLeader, OutcomeUnknown, RaftError, ShuttingDown, StorageFull
from raft.events import (
    ChangeMembers,
    Disconnected,
    Event,
    Loaded,
    Overslept,
    Persisted,
    Propose,
    ReadRequest,
    StepDown,
    Tick,
    TransferLeadership,
    Trimmed,
)
from raft.flush_schedule import FlushSchedule
from raft.full_disk import FullDisk
from raft.inbox import Inbox
from raft.membership import Change
from raft.messages import Message
from raft.model import Batch, EntryKind, LogIndex, LogStart, NodeId, Offset, Token
from raft.notices import DiskStalled, LogTrimmed, SnapshotInstalled, StandingLearned
from raft.outbox import Outbox
from raft.pending_changes import Outcome, PendingChanges
from raft.pending_reads import PendingReads
from raft.requests import Caller, Request, refuse
from raft.results import RecordBatch
from raft.roles import Leader
from raft.state_machine import StateMachine
from raft.storage import RaftStorage, entries_bytes
from raft.subscription import Subscription, Subscriptions
from raft.trimming import TRIM_EVERY_S, Trimmer

CONFIGURATION_BYTES = 64 * 1024
"""Room for the entry of a configuration, and for what the hard state keeps of it."""
LATE_S = 0.02
LATE_ROUNDS_MAX = 64
"""For how many rounds at most a tick that is more than `LATE_S` late waits for the messages that arrived meanwhile."""


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
    apply_bytes: int = APPLY_BYTES
    """One round gives this much of the log to the state machine."""
    retention: Retention = KEEP_ALL
    trim_every_s: float = TRIM_EVERY_S
    """The retention rule is applied this often, and each time that the log has grown by a file."""
    result_bytes_max: int = 2**62
    """The largest result of a command or a query."""
    skipped: frozenset[int] = frozenset()
    """The indexes whose commands have no effect, by an operator's decision."""
    snapshot_bytes_max: int = 256 * 1024 * 1024
    """A larger snapshot is not taken, and nothing leaves the log; nor is one of a leader accepted."""


class RaftDriver:
    """Drives one core. All methods are for the thread of the loop."""

    def __init__(
        self,
        *,
        core: RaftCore,
        storage: RaftStorage,
        state_machine: StateMachine,
        environment: Environment,
        config: DriverConfig,
    ) -> None:
        self.core = core
        self._storage = storage
        self._environment = environment
        self._batcher = Batcher(
            batch_bytes_min=min(core.config.append_bytes_max, config.batch_bytes_max),
            batch_bytes_max=config.batch_bytes_max,
            pending_bytes_max=config.pending_bytes_max,
            heartbeat_s=core.config.heartbeat_s,
        )
        self._reads = PendingReads()
        self._changes = PendingChanges()
        self._flushes = FlushSchedule(
            storage,
            environment.clock,
            policy=config.flush_policy,
            interval_s=config.flush_interval_s,
            stall_s=config.flush_stall_s,
        )
        self._applier = Applier(
            core,
            storage,
            state_machine,
            self._reads,
            apply_bytes=config.apply_bytes,
            result_bytes_max=config.result_bytes_max,
            skipped=config.skipped,
        )
        self._subscriptions = Subscriptions(core, storage)
        self._trimmer = Trimmer(
            core,
            storage,
            self._applier,
            self._flushes,
            environment,
            self._note_trimmed,
            retention=config.retention,
            snapshot_bytes_max=config.snapshot_bytes_max,
            every_s=config.trim_every_s,
        )
        full_disk = FullDisk(storage, environment.notify)
        self._inbox = Inbox(core, self._applier, self._trimmer.snapshots, self._flushes, full_disk, environment)
        self._outbox = Outbox()
        self._now = 0.0
        self._rounds_late = 0
        self._closing = False

    # ---------------------------------------------------------------- what comes from outside

    def append(
        self, caller: Caller, request_id: int, records: bytes | memoryview, span: int, crc: int | None = None
    ) -> None:
        """Append a batch of `span` records, for `caller`. `records` is a checked batch, `crc` its CRC-32C if known."""
        if self._closing or self._batcher.is_full:
            self._refuse_to_wait(caller, request_id)
        else:
            self._batcher.add_append(Request(caller, request_id, span, records, crc))

    def apply(self, caller: Caller, request_id: int, command: bytes) -> None:
        """Append a command and apply it once it is committed, for `caller`."""
        try:
            self._applier.check(command, read_only=False)
        except InvalidRequest as error:
            caller.on_refused(request_id, error)
            return
        if self._closing or self._batcher.is_full:
            self._refuse_to_wait(caller, request_id)
        else:
            self._batcher.add_command(Request(caller, request_id, 0, msgpack.packb(command)))

    def change_members(self, caller: Caller, request_id: int, change: Change) -> None:
        """Change the members of the group, for `caller`; answered as a command is, with an empty result."""
        self._request_change(caller, request_id, lambda token: ChangeMembers(token, change))

    def transfer_leadership(self, caller: Caller, request_id: int, target: NodeId) -> None:
        """Have `target` lead in place of this node; answered as `change_members`."""
        self._request_change(caller, request_id, lambda token: TransferLeadership(token, target))

    def _request_change(self, caller: Caller, request_id: int, event_of: Callable[[Token], Event]) -> None:
        if self._closing:
            caller.on_refused(request_id, ShuttingDown())
            return
        try:
            self._storage.reserve(CONFIGURATION_BYTES)
        except NoSpace as error:
            caller.on_refused(request_id, StorageFull(str(error)))
            return
        token = self._draw_token()
        self._changes.add(token, caller, request_id)
        self._inbox.events.append(event_of(token))

    def _refuse_to_wait(self, caller: Caller, request_id: int) -> None:
        refusal = ShuttingDown() if self._closing else Busy("too many bytes wait to be proposed")
        caller.on_refused(request_id, refusal)

    def read(self, caller: Caller, request_id: int, *, after_apply: bool = False) -> None:
        """Call `caller.on_readable` once everything committed before now is known here (and, if asked, applied)."""
        if self._closing:
            caller.on_refused(request_id, ShuttingDown())
        else:
            self._reads.add(caller, request_id, after_apply=after_apply)

    def query(self, command: bytes) -> bytes:
        """Returns the state machine's answer from what has been applied.

        Raises `InvalidRequest` for an invalid query, `InvalidResult` for an answer that is none.
        """
        return self._applier.query(command)

    def check_query(self, command: bytes) -> None:
        """Raises `InvalidRequest` if `command` is no query."""
        self._applier.check(command, read_only=True)

    def read_committed(self, offset: int, bytes_max: int) -> list[RecordBatch]:
        """Returns committed entries with records, from the one that holds `offset` on: about `bytes_max` bytes, or one.

        Raises `RecordsTrimmed` if it has left the log, `ShuttingDown` once the driver is closed.
        """
        if self._closing:
            raise ShuttingDown
        return self._applier.read_committed(offset, bytes_max)

    def deliver(self, sender: NodeId, message: Message) -> None:
        """A message came from a peer. Raises `ProtocolError` if no correct peer can have sent it."""
        self._inbox.deliver(sender, message)

    def on_disconnected(self, peer: NodeId) -> None:
        """A connection from or to this peer broke."""
        self._inbox.events.append(Disconnected(peer))

    def subscribe(self, subscription: Subscription) -> None:
        """Deliver committed entries to `subscription`, from its position on, until it is closed."""
        self._subscriptions.add(subscription)

    def on_flushed(self) -> None:
        """The flush that `begin_flush` returned has ended, without an error."""
        before = self._flushes.counted
        self._flushes.end()
        if (counted := self._flushes.counted) > before:
            self._inbox.events.append(Persisted(counted))

    # ---------------------------------------------------------------- what one may ask

    @property
    def committed_end(self) -> Offset:
        """The end of the records known to be committed, exclusive."""
        return self._applier.committed_end

    @property
    def applied_index(self) -> LogIndex:
        """The last entry that the state machine has."""
        return self._applier.applied_index

    @property
    def deadline(self) -> float:
        """The time at which `pump` must be called even if nothing has happened, on the driver's clock in seconds."""
        if self._subscriptions.has_more or self._trimmer.snapshots.draws:
            return -math.inf
        deadline = min(self._tick_due, self._flushes.due, self._applier.due)
        if self._batcher.waiting and not self._flushes.delays_entries:
            deadline = min(deadline, self._batcher.deadline)
        return deadline

    @property
    def has_postponed(self) -> bool:
        """True if requests wait only for the round after the answers just given have been sent."""
        return self._batcher.has_postponed

    @property
    def waiting_bytes(self) -> int:
        """The bytes of requests that wait to become an entry."""
        return self._batcher.pending_bytes

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
            "learners": sorted(core.configuration.learners),
            "outgoing": sorted(core.configuration.outgoing),
            "directory_id": core.directory_id,
            "addresses": {str(node): address for node, address in core.configuration.addresses.items()},
            "directory_ids": {str(node): number for node, number in core.configuration.directory_ids.items()},
            "followers": self._followers(),
            "lacks": self._applier.lacks,
            "assigned": self._applier.assigned,
            **self._environment.turns.figures(),
        }

    def _followers(self) -> dict[str, dict[str, object]]:
        """Returns what a leader knows of each other node, by id; nothing on any other node."""
        role, now = self.core.role, self._environment.clock()
        progress = role.progress if isinstance(role, Leader) else {}
        return {
            str(node): {
                "match_index": each.match_index,
                "snapshot_bytes": each.snapshot_offset if each.installing else 0,
                "silent_s": round(max(0.0, now - each.contact_at), 3),
            }
            for node, each in sorted(progress.items())
        }

    # ---------------------------------------------------------------- the loop body

    def pump(self) -> None:
        """Do everything that can be done now."""
        now = self._now = self._environment.clock()
        inbox, reads, batcher, applier = self._inbox, self._reads, self._batcher, self._applier
        batcher.begin_round()
        receives_first = now >= self.core.role.deadline and self._receives_first(now)
        while True:
            while inbox.events:
                self._step(now, inbox.take())
            if now > self._flushes.stalls_at:
                self._step_down_if_leader(now)
            if now >= self.core.role.deadline and not receives_first:
                self._tick_if_due(now)
            if reads.new:
                self._ask_reads(now)
            if batcher.waiting and self._may_propose(now):
                self._propose_all(now, EntryKind.COMMANDS)
                self._propose_all(now, EntryKind.RECORDS)
            if applier.due <= now:
                self._environment.turns.lap("raft: deciding and sending")
                try:
                    applier.apply_portion(now)
                except NoSpace as error:
                    inbox.full_disk.note(error, now)
                self._environment.turns.lap("raft: applying commands")
            # An answer can set free the next request of a caller that had too many under way.
            if not (inbox.events or reads.new or (batcher.waiting and self._may_propose(now))):
                break
        if self._subscriptions.open:
            self._subscriptions.deliver()
            self._environment.turns.lap("raft: delivering what is committed")
        self._trimmer.tick(now)

    def _tick_if_due(self, now: float) -> None:
        if now >= self._tick_due and (self._leads or self._inbox.full_disk.may_stand(now)):
            if now > self._tick_due + self.core.config.heartbeat_s:
                self._step(now, Overslept())
            self._step(now, Tick())

    def _receives_first(self, now: float) -> bool:
        """Returns True if the tick waits, because this node is late and has not read all that arrived meanwhile.

        A leader's tick does not wait, because its followers wait for heartbeats.
        """
        is_late = now > self.core.deadline + LATE_S and not self._leads
        if is_late and self._rounds_late < LATE_ROUNDS_MAX and self._environment.has_more():
            self._rounds_late += 1
            return True
        self._rounds_late = 0
        return False

    @property
    def _tick_due(self) -> float:
        return self.core.deadline if self._leads else max(self.core.deadline, self._inbox.full_disk.stands_from)

    @property
    def _leads(self) -> bool:
        return isinstance(self.core.role, Leader)

    def _step_down_if_leader(self, now: float) -> None:
        """Step down as a flush hangs: with heartbeats alone the followers would keep a leader that commits nothing."""
        if self._leads:
            self._environment.notify(DiskStalled(round(self._flushes.age(now), 3)))
            self._step(now, StepDown())

    def _step(self, now: float, event: Event) -> None:
        core, was_blank = self.core, self.core.recall is not None
        for effect in core.step(now, event):
            self._carry_out(effect)
        if was_blank and core.recall is None and core.term:
            self._environment.notify(StandingLearned(core.term, core.floor))
        if type(event) is Persisted:
            for send in self._outbox.release(event.write_id, core.term):
                self._environment.transport.send(send.to, send.message)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send(to=to, message=message):
                if not self._outbox.hold(effect):
                    self._environment.transport.send(to, message)
            case Persist():
                self._persist(effect)
            case Answer(token=token, outcome=outcome):
                if token in self._changes:
                    self._changes.answer(token, outcome, self._not_leader(self.core.leader))
                else:
                    self._answer(self._batcher.end(token), outcome)
            case Commit(commit_index=commit_index):
                self._applier.note_committed(commit_index)
            case LoadEntries(peer=peer):
                self._inbox.events.append(Loaded(peer, self._storage.load(effect)))
                self._environment.turns.lap("raft: reading the log for a follower")
            case ReadReady(token=token, read_index=read_index):
                self._reads.confirm(token, read_index, self._applier.applied_index)
            case ReadRejected(token=token, leader_hint=leader_hint):
                self._reads.reject(token, self._not_leader(leader_hint))
            case RoleChanged():
                self._batcher.forget_pace()
                self._environment.notify(effect)
            case MembersChanged(configuration=configuration, is_settled=is_settled):
                others = configuration.others(self.core.node_id)
                self._environment.transport.connect(others, configuration.addresses, alone=is_settled)
                self._environment.notify(effect)
            case _:
                assert_never(effect)

    def _persist(self, order: Persist) -> None:
        turns, start = self._environment.turns, order.start
        self._environment.transport.push()
        turns.lap("raft: deciding and sending")
        if start is not None:
            self._applier.restore(start)  # first: a machine that cannot must not cost this node its log
            turns.lap("raft: restoring the state machine")
        self._storage.persist(order)
        turns.lap("raft: writing the log")
        if start is not None:
            self._environment.notify(SnapshotInstalled(start.index, start.offset, self._applier.applied_index))
        if (counted := self._flushes.counted) >= order.write_id:
            self._inbox.events.append(Persisted(counted))

    def _note_trimmed(self, start: LogStart) -> None:
        self._step(self._now, Trimmed(start))
        self._environment.notify(LogTrimmed(start.index, start.offset))

    # ---------------------------------------------------------------- proposals and reads

    def _may_propose(self, now: float) -> bool:
        return self._batcher.is_due(now, leads=self._leads, disk_is_busy=self._flushes.delays_entries)

    def _propose_all(self, now: float, kind: EntryKind) -> None:
        """Propose the waiting requests in as few entries as the bound of a batch allows; a small rest waits."""
        while requests := self._batcher.take(kind):
            batch = self._join(kind, requests)
            try:
                if self._leads:
                    self._inbox.full_disk.reserve(entries_bytes((batch,)), now)
            except NoSpace as error:
                refuse(requests, StorageFull(str(error)))
                if self.core.configuration.peers(self.core.node_id) and self._inbox.full_disk.may_hand_over(now):
                    self._step(now, StepDown(patience_s=self.core.config.election_timeout_s_max))
                continue
            token = self._draw_token()
            self._batcher.begin(token, Proposal(kind, requests, len(batch.data), now))
            self._step(now, Propose(token, batch))
            if self._leads and not self._batcher.fills_half:
                break

    def _join(self, kind: EntryKind, requests: list[Request]) -> Batch:
        data, crc = join_data(requests)
        span = sum([request.span for request in requests])
        return Batch(kind, span, self._environment.wall_clock_ms(), data, crc)

    def _ask_reads(self, now: float) -> None:
        """Request all waiting reads under one token, so that they share one round of heartbeats."""
        token = self._draw_token()
        self._reads.ask(token)
        self._step(now, ReadRequest(token))

    def _draw_token(self) -> Token:
        return self._changes.draw_token()

    def _answer(self, proposal: Proposal, outcome: Outcome) -> None:
        match outcome:
            case Committed(index=index, term=term, base_offset=base_offset):
                self._batcher.note_committed(proposal, self._now)
                if proposal.kind is EntryKind.COMMANDS:
                    self._applier.expect(index, proposal.requests)
                    return
                offset: int = base_offset
                for request in proposal.requests:
                    request.caller.on_appended(request.request_id, offset, request.span, term)
                    offset += request.span
            case Rejected(reason=reason, leader_hint=leader_hint):
                refuse(proposal.requests, self._refusal(reason, leader_hint))
            case Unknown():
                refuse(proposal.requests, OutcomeUnknown("the leadership moved while the request was in flight"))
            case HandedOver():
                raise AssertionError("the answer to a transfer of the leadership")
            case _:
                assert_never(outcome)

    def _refusal(self, reason: Refusal, leader_hint: NodeId | None) -> RaftError:
        return self._not_leader(leader_hint) if reason is Refusal.NOT_LEADER else Busy()

    def _not_leader(self, leader: NodeId | None) -> NotLeader:
        # A node that has just stepped down knows no other leader.
        if leader is None or leader == self.core.node_id:
            return NotLeader()
        known = self._environment.addresses.get(leader) or self.core.configuration.addresses.get(leader)
        return NotLeader(leader, known)

    # ---------------------------------------------------------------- the disk, and the end

    def begin_flush(self) -> Flush | None:
        """Returns the flush that begins now, if one is due; to be called after the messages of `pump` have been sent.

        It is carried out outside of the loop, and then `on_flushed` is called.
        """
        return self._flushes.begin_if_due()

    def abandon_snapshots(self) -> None:
        """The node ends: a snapshot that is being written is of no use any more."""
        self._trimmer.snapshots.abandon()

    def close(self) -> None:
        """Accept nothing more, and answer all callers that wait: with a definite error, or with `OutcomeUnknown`."""
        self._closing = True
        waiting, under_way = self._batcher.clear()
        refuse(waiting, ShuttingDown())
        unknown = OutcomeUnknown("the node was stopped while the request was in flight")
        refuse(under_way, unknown)
        self._applier.refuse_all(unknown)
        self._changes.refuse_all(unknown)
        self._reads.refuse_all(ShuttingDown())

    def settle_flush(self) -> None:
        """Process a flush that has ended without a call of `on_flushed`; for closing, when the driver has no thread."""
        self._flushes.settle()
