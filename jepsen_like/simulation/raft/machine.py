"""One simulated node: the real core, outbox, storage and log on a simulated disk, with a clock of its own.

It carries effects out in the order given, as the driver does: a `Persist` goes into the log at once, one flush at a
time covers everything written before it began and takes virtual time, a message leaves when its write is durable, what
is committed is applied to a small state machine, and what the rule of retention does not keep leaves the log. A machine
can lose power (also in the middle of all this), be killed, stand still and restart; what it knew is then gone, and what
it gets back is what `MemoryDisk` kept.
"""

import contextlib
import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, assert_never

import attrs

from jepsen_like.simulation.kernel.clock import SimulatedClock
from jepsen_like.simulation.kernel.disks import PowerFailed, failing_after
from jepsen_like.simulation.kernel.findings import NODE_ERRORS
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.raft.durable import START_NAME, DurableLog
from jepsen_like.simulation.raft.record import ClusterRecord, Replica, as_recent
from jepsen_like.simulation.raft.rot import Rot, RotKind, base_of, spoil
from jepsen_like.simulation.raft.swarm import RaftKnobs
from log.disk import NoSpace
from log.errors import LogError, StorageError, StorageFailed
from log.frame import HEADER_BYTES
from log.memory_disk import MemoryDisk
from log.retention import Retention
from log.segmented_log import LogConfig, SegmentedLog
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
from raft.events import Event, Loaded, Overslept, Persisted, Propose, Receive, StepDown, Tick, Trimmed
from raft.membership import Configuration
from raft.messages import AppendEntries, InstallSnapshot, Message
from raft.model import NO_INDEX, NO_POSITION, Entry, LogIndex, LogStart, NodeId, Position, Term, Token, WriteId
from raft.outbox import Outbox
from raft.roles import Leader
from raft.storage import RaftStorage, StorageFlush

LOG_DIRECTORY = "log"
LOG_ID = 1
ROUNDING_S = 1e-9
"""A clock's rounding may cost this much; without this allowance a timer could be found early without end."""
NEVER = 1 << 62
INBOX_MAX = 2000
"""At most this many messages pile up at a paused node; more are lost, as full socket buffers lose them."""


@attrs.define
class Traps:
    """Crash points that are set and not yet sprung."""

    in_flush: float | None = None
    """Cut power at this fraction of the next flush."""
    after_send: type[Message] | None = None
    """Cut power right after the next message of this class is on the wire."""
    after_answer: bool = False
    """Cut power right after the next client learns that its write is committed."""


@attrs.frozen
class RunningFlush:
    """An fsync under way: it covers what was written before `mark`."""

    flush: StorageFlush
    mark: int


@attrs.frozen
class Legacy:
    """The remains of a dead machine: its durable data, its log as it had ordered it, and whether all of that was
    written.
    """

    durable: DurableLog
    entries: list[Entry]
    complete: bool
    """True after a plain kill: the page cache then gives everything back."""


class BeforeStep(NamedTuple):
    """A node's state just before a step."""

    term: Term
    vote: NodeId | None
    commit_index: LogIndex
    led: bool


class Surroundings(Protocol):
    """The world as a machine in it sees it."""

    now: float
    record: ClusterRecord

    def schedule(self, at: float, action: Callable[..., None], *arguments: object) -> None:
        """Call `action(*arguments)` at time `at`."""

    def on_appended(self, machine: "SimulatedMachine", entries: Sequence[Entry]) -> None:
        """`machine` is about to put `entries` into its log."""

    def on_sent(self, machine: "SimulatedMachine", send: Send) -> None:
        """`machine` puts a message on the wire, now."""

    def on_committed(self, machine: "SimulatedMachine", index: LogIndex) -> None:
        """`machine` considers everything up to `index` committed."""

    def on_trimmed(self, machine: "SimulatedMachine", start: LogStart) -> None:
        """The log of `machine` begins at `start` from now on."""

    def on_applied(self, machine: "SimulatedMachine") -> None:
        """The state machine of `machine` was given more, or restored."""

    def on_answered(self, machine: "SimulatedMachine", token: Token, outcome: Committed | Rejected | Unknown) -> None:
        """The client behind `token` learns the outcome of its proposal, now."""

    def read_answered(self, machine: "SimulatedMachine", token: Token, read_index: LogIndex | None) -> None:
        """The client behind `token` may read at `read_index`; None if it was refused."""

    def on_decided(self, machine: "SimulatedMachine", before: BeforeStep) -> None:
        """`machine` has taken one step, whose effects are still to be carried out: it may lose its power among them."""

    def on_stepped(
        self, machine: "SimulatedMachine", before: BeforeStep, event: Event, effects: Sequence[Effect]
    ) -> None:
        """`machine` has taken one step and carried out its effects."""

    def on_restarted(self, machine: "SimulatedMachine") -> None:
        """`machine` has come up from its disk."""

    def on_synced(self, machine: "SimulatedMachine") -> None:
        """An fsync of `machine` has ended: more of its log is durable."""

    def on_died(self, machine: "SimulatedMachine", error: Exception) -> None:
        """`machine` raised and ends."""

    def sprung(self, machine: "SimulatedMachine") -> None:
        """A crash point of `machine` was reached: cut its power, now."""


class SimulatedMachine:
    """One node and everything that belongs to it alone.

    `commit_index` and `entries` are the log as the core has ordered it, kept apart from core and storage so that both
    can be checked against it; `durable` is what the disk would give back. Both are whole: what has left the log is the
    committed log's beginning. `incarnation` counts restarts: what was scheduled for an older incarnation does not
    happen.
    """

    def __init__(self, world: Surroundings, knobs: RaftKnobs, node_id: NodeId, voters: Sequence[NodeId]) -> None:
        self.node_id = node_id
        self.incarnation = 0
        self.core: RaftCore | None = None
        self.storage: RaftStorage | None = None
        self.log: SegmentedLog | None = None
        self.disk = MemoryDisk(stream(knobs.seed, f"disk/{node_id}"))
        self.durable = DurableLog(LOG_DIRECTORY, world.record.ledger)
        self.entries: list[Entry] = []
        self.commit_index = NO_INDEX
        self.replica = Replica()
        self.applied_index = NO_INDEX
        self.legacy: Legacy | None = None
        self.rot: Rot | None = None
        """The entries that damage took from it, until it holds as much again."""
        self.vanished: DurableLog | None = None
        """The contents of its directory when it vanished, until its log has reached its floor again."""
        self.guard: Position | None = None
        """After that: the floor below which it votes for none; None as long as it remembers nothing and has no vote at
        all.
        """
        self.came_up_spoilt = False
        """True if its disk had damage that no read had met when it came up last: only that is repaired."""
        self.lives = 1
        """One more than how often it has lost what it held."""
        self.loses_directory = False
        """True if its directory is gone when it starts again."""
        self.was_member = False
        """True if it knows that it had a past, though it has lost it."""
        self.outbox = Outbox()
        self.clock = SimulatedClock()
        self.traps = Traps()
        self.paused = False
        self.slowness = 1.0
        self.load_s = knobs.load_s
        self.counts: Counter[str] = Counter()
        self.flush: RunningFlush | None = None
        self._world = world
        self._knobs = knobs
        self._configuration = Configuration(voters)
        self._flush_rng = stream(knobs.seed, f"flush/{node_id}")
        self._crash_rng = stream(knobs.seed, f"crash/{node_id}")
        self._past_votes: dict[Term, NodeId] = {}
        self._inbox: deque[Callable[[], None]] = deque()
        self._dirty = False
        self._durable_stale = True
        self._tick_at = float("inf")
        self._retention = Retention(bytes_max=knobs.retention_bytes)
        self._restored = NO_POSITION
        self._has_trimmed = False
        self._trim_at = 0
        self._trim_due = float("-inf")
        self._resets = 0

    @property
    def up(self) -> bool:
        """True if the process runs; one that stands still does."""
        return self.core is not None

    # ---------------------------------------------------------------- life and death

    def start(self) -> None:
        """Come up from whatever the disk holds. What recovery raises is for the world to judge."""
        assert self.core is None
        self.incarnation += 1
        self.came_up_spoilt = self.spoilt
        if self.rot is not None and self.spoilt and self.legacy is not None:
            self.rot.held = self.legacy.durable
        # Room is reserved in small steps, so that a full disk is noticed at once.
        config = LogConfig(segment_bytes_max=self._knobs.segment_bytes_max, reserve_chunk_bytes=1)
        self.storage = RaftStorage.open(self.disk, LOG_DIRECTORY, config, log_id=LOG_ID)
        self.log = self.storage.log
        self.counts["torn_tails"] += self.log.recovery.torn_bytes_cut > 0
        self._note_repair(repaired=self.log.recovery.repaired is not None)
        hard_state, view = self.storage.restore(self._knobs.raft.cache_bytes_max)
        self.outbox = Outbox()
        self.commit_index = view.start.index
        self.core = RaftCore(
            node_id=self.node_id,
            configuration=self._configuration,
            config=self._knobs.raft,
            log=view,
            hard_state=hard_state,
            rng=stream(self._knobs.seed, f"core/{self.node_id}/{self.incarnation}"),
            now=self.clock.at(self._world.now),
            was_member=self.was_member,
        )
        self._note_guard(self.core)
        self._durable_stale = True
        self._world.on_restarted(self)
        self.replica = Replica()
        self.applied_index, self._restored = NO_INDEX, NO_POSITION
        self._trim_at, self._trim_due, self._has_trimmed = 0, float("-inf"), False
        if view.start.index:
            self.counts["trimmed_restarts"] += 1
            self._restore(view.start)
        self._note_rot_gone()
        self._note_caught_up()
        self._schedule_tick()

    def set_aside(self) -> None:
        """Its log is so damaged that it begins blank, but knows why."""
        self._lose()
        self.was_member = True

    def vanish(self) -> None:
        """The directory of this dead machine is gone, with its disk."""
        self.counts["directories_vanished"] += 1
        self.was_member = False
        self._lose()

    def _lose(self) -> None:
        self.lives += 1
        self._past_votes.update(self.durable_log().votes)
        self.vanished, self.guard, self.rot, self.legacy = self.durable_log(), None, None, None
        self.disk = MemoryDisk(stream(self._knobs.seed, f"disk/{self.node_id}/{self.incarnation}"))
        self.entries = []
        self._forget_durable()

    @property
    def is_blank(self) -> bool:
        """True if it has lost its directory, and not learned yet what it must not go back behind."""
        return self.vanished is not None and self.guard is None

    def voted_for(self, candidate: NodeId, term: Term) -> bool:
        """Returns True if it has voted so, durably, in this life or in one that it has forgotten."""
        return candidate in (self.durable_log().votes.get(term), self._past_votes.get(term))

    def _note_guard(self, core: RaftCore) -> None:
        """Keep what guards the promises of a machine that lost its directory, for as long as its log does not."""
        if self.vanished is None:
            return
        if core.recall is not None:
            self.guard = None
        elif core.floor != NO_POSITION:
            self.guard = core.floor
        elif self.guard is None:
            self.guard = NO_POSITION  # there was nothing to take over
        elif as_recent(self.durable_log().position, self.guard):
            self.vanished = self.guard = None
            self.counts["vanished_caught_up"] += 1

    def _note_repair(self, *, repaired: bool) -> None:
        if repaired:
            self.counts["repairs"] += 1
        if self.rot is not None and self.spoilt:
            if repaired:
                self.rot.found = True
                self._forget_durable()
            else:
                self.rot.held = None

    def _note_caught_up(self) -> None:
        """Forget the damage once the machine holds as much again: it can then lose it again.

        Its floor must be left, too: it may be higher than what was durable, for a node cannot know whether whole frames
        behind the last flush that it knows of were.
        """
        held, core = self.held_before, self.core
        if held is None or core is None or core.floor != NO_POSITION:
            return
        if as_recent(self.durable_log().position, held):
            self.rot = None
            self.counts["caught_up"] += 1

    @property
    def spoilt(self) -> bool:
        """True if its disk has damage that was not repaired yet; what it has lost by an earlier one is no excuse for
        more.
        """
        return self.rot is not None and not self.rot.found

    @property
    def start_spoilt(self) -> bool:
        """True if the witness of where its log begins is damaged: what had left the log is known from nothing else."""
        return self.rot is not None and self.spoilt and self.rot.flip.path == f"{LOG_DIRECTORY}/{START_NAME}"

    @property
    def held_before(self) -> Position | None:
        """The end of its durable log before damage cut it, as long as it holds less; else None."""
        rot = self.rot
        return rot.held.position if rot is not None and rot.found and rot.held is not None else None

    def vouches_for(self, entry: Entry) -> bool:
        """Returns True if this entry is durable here, or was until damage took it and its place is still guarded."""
        if self.durable_log().has(entry):
            return True
        if self.vanished is not None and self.vanished.has(entry):
            return self.guard is None or as_recent(self.guard, Position(entry.index, entry.term))
        return self.rot is not None and self.rot.held is not None and self.rot.held.has(entry)

    def spoil(self, kind: RotKind, rng: random.Random) -> bool:
        """Let a bit of the disk of this dead machine rot; false if it has nothing of that kind."""
        flip = spoil(self.disk, LOG_DIRECTORY, LOG_ID, kind, rng)
        if flip is None:
            return False
        self.counts["rots"] += 1
        if kind in (RotKind.INDEX, RotKind.MARK):
            return True  # nothing is lost with them
        self.rot = Rot(flip)
        self._forget_durable()
        return True

    def meet_rot(self) -> None:
        """Read all that is stored, so that damage that no read has met yet is found."""
        if self.spoilt and self.storage is not None:
            try:
                self.stored_entries()
            except LogError as error:
                self._world.on_died(self, error)

    def stored_entries(self) -> tuple[Entry, ...]:
        """All that its log holds, from the disk."""
        assert self.core is not None
        assert self.storage is not None
        return self.storage.entries(LogIndex(self.core.log.start.index + 1), 1 << 40)

    def _note_rot_gone(self) -> None:
        """Damage that no read has met has left with the segment that it was in."""
        rot = self.rot
        if rot is None or not self.spoilt or not rot.flip.path.endswith(".log"):
            return
        if base_of(rot.flip.path) < self.durable_log().start.base:
            self.rot = None
            self.counts["rot_left"] += 1
            self._forget_durable()

    def _forget_durable(self) -> None:
        """Read the disk again when its content is needed."""
        unmet = [self.rot.flip] if self.rot is not None and self.spoilt else []
        self._past_votes.update(self.durable.votes)
        ledger = self._world.record.ledger
        self.durable = DurableLog(LOG_DIRECTORY, ledger, mended=unmet, votes=dict(self._past_votes))
        self._durable_stale = True

    def cut_power(self) -> None:
        """Everything volatile is gone, and so may be whatever was not synced, in any part."""
        self.legacy = Legacy(self.durable_log(), self.entries, complete=False)
        self._halt()
        self.disk = self.disk.after_crash(self._crash_rng)
        self._forget_durable()

    def kill(self, *, in_step: bool = False) -> None:
        """The process is gone; what it wrote stays in the page cache, synced or not."""
        self.legacy = Legacy(self.durable_log(), self.entries, complete=not in_step)
        self._halt()
        self.disk = self.disk.after_kill(self._crash_rng)
        self._forget_durable()

    def durable_log(self) -> DurableLog:
        """Returns the data that its disk would give back if power were lost now."""
        if self._durable_stale:
            self._durable_stale = False
            self.durable.refresh(self.disk)
        return self.durable

    def make_room(self) -> None:
        """Its disk is not full any more."""
        self.disk.capacity_bytes = None

    def disk_refused(self, error: Exception) -> bool:
        """Returns True if this error is the work of a fault that was set on its disk."""
        match error:
            case NoSpace():
                return self.disk.capacity_bytes is not None
            case StorageFailed():
                return self.disk.failed_as_asked
            case _:
                return False

    def mend_disk(self) -> None:
        """No call of its disk is going to fail."""
        self.disk.fail_call(NEVER)

    def segments(self) -> int:
        """Returns the number of segment files of its log."""
        return sum(path.endswith(".log") for path in self.disk.paths())

    def calm(self, flush_s: float) -> None:
        """Stand on firm ground again: no trap, a true clock, fsyncs and loads of at most about `flush_s`."""
        self.traps = Traps()
        self.make_room()
        self.mend_disk()
        self.slowness = min(1.0, flush_s / self._knobs.flush_s)
        self.load_s = min(self.load_s, flush_s)
        self.clock.steady(self._world.now)
        if self.core is not None:
            if self.paused:
                self.resume(timers_first=True)
            else:
                self._tick_at = float("inf")
                self._schedule_tick()

    def give_up_start(self) -> None:
        """The disk would not let it come up: it is down, and what its last life left still counts."""
        self._halt()
        self.disk = self.disk.after_kill(self._crash_rng)
        self._forget_durable()

    def _halt(self) -> None:
        self.incarnation += 1
        self.core = self.storage = self.log = self.flush = None
        self._inbox.clear()
        self.traps = Traps()
        self.paused = self._dirty = False
        self._tick_at = float("inf")

    def pause(self) -> None:
        """Stand still: events pile up, timers go stale, an fsync under way still ends."""
        self.paused = True

    def resume(self, *, timers_first: bool) -> None:
        """Go on: with the stale timers, or with what piled up."""
        self.paused = False
        inbox, self._inbox = self._inbox, deque()
        self.counts["held_by_pauses"] += len(inbox)
        incarnation = self.incarnation
        if timers_first:
            self.step(Tick())
        while inbox and self.incarnation == incarnation:
            inbox.popleft()()
        if self.incarnation == incarnation:
            self._schedule_tick()

    # ---------------------------------------------------------------- events

    def deliver(self, event: Event) -> None:
        """Take an event, or keep it for later while standing still. A node that is down loses it."""
        if self.core is None:
            return
        if not self.paused:
            self.step(event)
        elif len(self._inbox) < INBOX_MAX:
            self._inbox.append(lambda: self.step(event))

    def step(self, event: Event) -> None:
        """One step of the core, its effects carried out in order."""
        core, storage = self.core, self.storage
        assert core is not None
        assert storage is not None
        incarnation = self.incarnation
        before = BeforeStep(core.term, core.vote, core.commit_index, isinstance(core.role, Leader))
        effects: Sequence[Effect] = ()
        try:
            if not self._has_room(storage, event):
                return
            if isinstance(event, Receive):  # no message is forged here
                assert (objection := core.objection(event.message)) is None, objection
            effects = core.step(self.clock.at(self._world.now), event)
            self._note_guard(core)
            self._world.on_decided(self, before)
            for effect in effects:
                if isinstance(effect, Persist) and effect.entries:
                    # First of all, since a leader's messages speak of what it has not written yet.
                    self._world.on_appended(self, effect.entries)
            for effect in effects:
                self._carry_out(storage, effect)
                if self.incarnation != incarnation:
                    return
            if isinstance(event, Receive) and isinstance(event.message, InstallSnapshot):
                self._count_part(event.message, effects)
            if isinstance(event, Persisted):
                released = self._release(event.write_id)
                if self.incarnation != incarnation:
                    return
                effects = [*effects, *released]
        except NODE_ERRORS as error:
            self._world.on_died(self, error)
            return
        self._world.on_stepped(self, before, event, effects)
        if self.incarnation == incarnation and self._knobs.retention_bytes is not None:
            self._settle(storage)
        if self.incarnation == incarnation:
            self._start_flush()
            self._schedule_tick()

    def _count_part(self, message: InstallSnapshot, effects: Sequence[Effect]) -> None:
        if message.bytes_left:
            self.counts["snapshot_parts"] += 1
            return
        is_reset = any(isinstance(effect, Persist) and effect.start is not None for effect in effects)
        self.counts["snapshots_installed" if is_reset else "snapshots_ignored"] += 1

    def _has_room(self, storage: RaftStorage, event: Event) -> bool:
        """Reserve room before the core gets an event: what would not fit is refused or dropped, nothing is written."""
        token: Token | None = None
        match event:
            case Propose(token=token, batch=batch):
                needed = len(batch.data) + HEADER_BYTES
            case Receive(message=AppendEntries(entries=entries)) if entries:
                needed = sum(len(entry.batch.data) + HEADER_BYTES for entry in entries)
            case Receive(message=InstallSnapshot(bytes_left=0) as message):
                if self.flush is not None:
                    self.counts["snapshots_dropped"] += 1
                    return False
                needed = message.total
            case _:
                return True
        try:
            storage.reserve(needed)
        except NoSpace:
            self.counts["disk_full"] += 1
            if token is not None:
                self._world.on_answered(self, token, Rejected(Refusal.BUSY, None))
                self.step(StepDown())
            return False
        return True

    def _carry_out(self, storage: RaftStorage, effect: Effect) -> None:
        match effect:
            case Persist(entries=entries, start=start):
                if entries:
                    del self.entries[entries[0].index - 1 :]
                    self.entries.extend(entries)
                self._dirty = True
                if start is not None:
                    self._reset_to_snapshot(storage, effect, start)
                else:
                    storage.persist(effect)
            case Send():
                if not self.outbox.hold(effect):
                    self._transmit(effect)
            case Commit(commit_index=index):
                self._world.on_committed(self, index)
                self.commit_index = index
                self._check_restored(index)
            case Answer(token=token, outcome=outcome):
                self._world.on_answered(self, token, outcome)
                if self.traps.after_answer and isinstance(outcome, Committed):
                    self.counts["cuts_after_answer"] += 1
                    self._world.sprung(self)
            case LoadEntries():
                self._load(storage, effect)
            case ReadReady(token=token, read_index=read_index):
                self._world.read_answered(self, token, read_index)
            case ReadRejected(token=token):
                self._world.read_answered(self, token, None)
            case RoleChanged():
                pass
            case _:
                assert_never(effect)

    def _release(self, durable: WriteId) -> list[Send]:
        """Send what waited for this write; stops short if power is cut meanwhile."""
        core, incarnation = self.core, self.incarnation
        assert core is not None
        released: list[Send] = []
        for send in self.outbox.release(durable, core.term):
            self._transmit(send)
            if incarnation != self.incarnation:
                break
            released.append(Send(send.to, send.message))
        return released

    def _transmit(self, send: Send) -> None:
        self._world.on_sent(self, send)
        trap = self.traps.after_send
        if trap is not None and isinstance(send.message, trap):
            self.counts["cuts_after_send"] += 1
            self._world.sprung(self)

    def _load(self, storage: RaftStorage, load: LoadEntries) -> None:
        """Read now, deliver it later: by then the log may have changed."""
        self.counts["loads"] += 1
        loaded = Loaded(load.peer, storage.load(load))
        self._world.schedule(self._world.now + self.load_s, self._on_loaded, self.incarnation, loaded)

    def _on_loaded(self, incarnation: int, loaded: Loaded) -> None:
        if incarnation == self.incarnation:
            self.deliver(loaded)

    # ---------------------------------------------------------------- what leaves the log

    def _reset_to_snapshot(self, storage: RaftStorage, persist: Persist, start: LogStart) -> None:
        """The log is replaced by one that begins at `start`; now and then power fails meanwhile."""
        self._resets += 1
        self.entries = [known.entry for known in self._world.record.ledger[: start.index]]
        self._durable_stale = True
        rng = stream(self._knobs.seed, f"reset/{self.node_id}/{self._resets}")
        if rng.random() < self._knobs.reset_crash:
            self.disk.before_call = failing_after(rng.randrange(24))
        try:
            storage.persist(persist)
        except PowerFailed:
            self.counts["cuts_in_reset"] += 1
            self._world.sprung(self)
            return
        self.disk.before_call = None
        self._world.on_trimmed(self, start)
        self._restore(start)
        self._note_rot_gone()

    def _restore(self, start: LogStart) -> None:
        self.replica.restore(start.snapshot)
        self.applied_index, self._restored = start.applied.index, start.applied
        self._world.on_applied(self)

    def _check_restored(self, commit_index: LogIndex) -> None:
        restored = self._restored
        if restored == NO_POSITION:
            return
        assert self.core is not None
        reached = LogIndex(min(commit_index, restored.index))
        term = self.core.log.term_at(reached)
        assert term <= restored.term, "the group has gone on without an entry that a snapshot knows"
        if reached == restored.index:
            assert term == restored.term, "the group has another entry than a snapshot knows"
            self._restored = NO_POSITION

    def _settle(self, storage: RaftStorage) -> None:
        """Apply, then trim, as the driver does when it has done all else."""
        try:
            self._apply(storage)
            self._trim(storage)
        except NODE_ERRORS as error:
            self._world.on_died(self, error)

    def _apply(self, storage: RaftStorage) -> None:
        core = self.core
        assert core is not None
        if self.applied_index >= core.commit_index:
            return
        first, bytes_max = LogIndex(self.applied_index + 1), self._knobs.apply_bytes
        entries = core.log.cached_entries(first, bytes_max) or storage.entries(first, bytes_max, core.commit_index)
        for entry in entries:
            if entry.index > core.commit_index:
                break
            self.replica.apply(entry)
            self.applied_index = entry.index
        self._world.on_applied(self)

    def apply_all(self) -> None:
        """Give everything that is committed to the state machine."""
        assert self.core is not None
        assert self.storage is not None
        while self.applied_index < self.core.commit_index:
            self._apply(self.storage)

    def _trim(self, storage: RaftStorage) -> None:
        """Let leave what the rule does not keep, if it is durable and applied; gone from the disk with the next
        flush.
        """
        core, log, now = self.core, storage.log, self._world.now
        assert core is not None
        if now < self._trim_due and log.end < self._trim_at:
            return
        self._trim_due = now + self._knobs.trim_every_s
        self._trim_at = log.end + log.config.segment_bytes_max
        if log.retiring:
            log.retry_retiring()
            self._has_trimmed = True
        if self._restored != NO_POSITION:
            return
        last_index = LogIndex(min(self.applied_index, core.log.durable_index))
        first_index = storage.first_kept(self._retention, core.log.start, last_index, 0)
        if first_index is None:
            return
        self.durable_log()  # while votes of old can still be read
        applied = Position(self.applied_index, core.log.term_at(self.applied_index))
        start = storage.trim(first_index, applied, self.replica.snapshot(self._knobs.snapshot_bytes))
        if start is not None:
            self.counts["trims"] += 1
            self._has_trimmed = True
            self._world.on_trimmed(self, start)
            self.step(Trimmed(start))

    # ---------------------------------------------------------------- the disk

    def _start_flush(self) -> None:
        """Begin an fsync of everything written so far, unless one is under way or nothing is new."""
        if self.flush is not None or not (self._dirty or self._has_trimmed) or self.storage is None:
            return
        self._dirty = self._has_trimmed = False
        self.flush = running = RunningFlush(self.storage.begin_flush(), self.disk.mark())
        knobs = self._knobs
        usual = knobs.flush_s * (0.5 + self._flush_rng.expovariate(1.0) * knobs.flush_s_spread)
        took = usual * self.slowness
        self.counts["slow_flushes"] += took > usual
        now = self._world.now
        self._world.schedule(now + took, self._disk_synced, self.incarnation, running)
        if self.traps.in_flush is not None:
            self._world.schedule(now + took * self.traps.in_flush, self._spring_in_flush, self.incarnation, running)

    def _spring_in_flush(self, incarnation: int, running: RunningFlush) -> None:
        """Power fails in the middle: some of the flush's calls may have come through, the last of them in part."""
        if incarnation != self.incarnation:
            return
        allowed = self._crash_rng.choice((0, 0, 1, 2, 4, 7))
        with contextlib.suppress(PowerFailed, StorageError), self.disk.issued_before(running.mark):
            self.disk.before_call = failing_after(allowed)
            running.flush.run()
        self._durable_stale = True
        self._world.sprung(self)

    def _disk_synced(self, incarnation: int, running: RunningFlush) -> None:
        """The device is done; the process learns it a little later, or when it wakes."""
        if incarnation != self.incarnation:
            return
        try:
            with self.disk.issued_before(running.mark):
                running.flush.run()
        except NODE_ERRORS as error:
            self._world.on_died(self, error)
            return
        self._durable_stale = True
        self._world.on_synced(self)
        self._world.schedule(self._world.now + self._knobs.handoff_s, self._flush_ended, incarnation, running)

    def _flush_ended(self, incarnation: int, running: RunningFlush) -> None:
        if incarnation != self.incarnation:
            return
        if self.paused:
            self._inbox.append(lambda: self._flush_ended(incarnation, running))
            return
        assert self.storage is not None
        self.flush = None
        self.step(Persisted(self.storage.end_flush(running.flush)))
        self._note_caught_up()
        self._note_rot_gone()

    # ---------------------------------------------------------------- time

    def _schedule_tick(self) -> None:
        """See to it that a `Tick` comes at the core's deadline; an earlier one that is scheduled will move itself."""
        assert self.core is not None
        due = max(self.clock.when(self.core.deadline), self._world.now)
        if due < self._tick_at:
            self._tick_at = due
            self._world.schedule(due, self._tick, self.incarnation, due)

    def _tick(self, incarnation: int, at: float) -> None:
        if incarnation != self.incarnation or at != self._tick_at:
            return
        self._tick_at = float("inf")
        if self.paused:
            return
        assert self.core is not None
        early = self.core.deadline - self.clock.at(self._world.now)
        if early > ROUNDING_S:
            self._schedule_tick()
            return
        if early > 0:
            self.clock.jump(early)
        if -early > self.core.config.heartbeat_s:
            self.counts["overslept"] += 1
            self.step(Overslept())
        if self.incarnation == incarnation:
            self.step(Tick())

    def jump_clock(self, seconds: float) -> None:
        """Let the clock jump forward; deadlines may then lie in the past."""
        before = self.clock.at(self._world.now)
        self.clock.jump(seconds)
        if self.core is not None:
            self.counts["timers_overtaken"] += before < self.core.deadline <= self.clock.at(self._world.now)
            self._tick_at = float("inf")
            self._schedule_tick()
