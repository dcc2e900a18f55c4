"""One simulated node: the real driver, core, storage and log, on a disk, a clock and a network of the simulator.

A round is that of a node's loop: messages and requests have arrived; the driver decides, sends, writes, applies and
answers; the disk begins to flush. One flush at a time covers all that was written before it and takes virtual time. A
machine can lose power (even amid this), be killed or stopped, stand still and restart, with what `MemoryDisk` kept.

The machine carries nothing out. It is the transport, the callers and the flush thread of its driver, and it looks on:
`WatchedCore` shows each step of the core to the world before the driver obeys it.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import attrs

from jepsen_like.simulation.kernel.disks import PowerFailed, failing_after
from jepsen_like.simulation.kernel.findings import NODE_ERRORS
from jepsen_like.simulation.kernel.process import SimulatedProcess
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.raft.holdings import LOG_DIRECTORY, LOG_ID, Holdings
from jepsen_like.simulation.raft.record import Replica
from jepsen_like.simulation.raft.swarm import RaftKnobs
from log.config import LogConfig
from log.errors import LogError, StorageError
from log.flush import Flush
from log.memory_disk import MemoryDisk
from log.retention import Retention
from raft.core import RaftCore
from raft.driver import DriverConfig, RaftDriver
from raft.effects import Commit, Effect, LoadEntries, Persist
from raft.environment import Environment
from raft.errors import ProtocolError, RaftError
from raft.events import Event, Overslept, Receive
from raft.membership import Configuration
from raft.messages import InstallSnapshot, Message
from raft.model import NO_INDEX, Entry, LogIndex, LogStart, NodeId, Term
from raft.notices import DiskStalled, LogTrimmed, NoSpaceLeft, Notice, SnapshotInstalled
from raft.roles import Leader
from raft.storage import RaftStorage
from raft.subscription import Subscription

if TYPE_CHECKING:
    from jepsen_like.simulation.raft.world import RaftWorld

BEGIN_MS = 1_600_000_000_000
"""A true wall clock shows this when a world begins."""
INBOX_MAX = 2000
"""At most this many things pile up at a node; more messages are lost, as full socket buffers lose them."""


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
    """A flush under way: it covers what was written before `mark`."""

    flush: Flush
    mark: int
    is_begun: bool
    """True if only its sync is slow, as where the kernel syncs: its first step is done by then."""

    def run_rest(self, disk: MemoryDisk) -> None:
        """Carry out all that is left of it."""
        with disk.issued_before(self.mark):
            if not self.is_begun:
                self.flush.run()
                return
            self.flush.steps[1]()
        self.flush.finish(0)


class BeforeStep(NamedTuple):
    """A node's state just before a step."""

    term: Term
    vote: NodeId | None
    commit_index: LogIndex
    led: bool


class WatchedCore(RaftCore):
    """The core; its machine looks on."""

    def __init__(self, machine: "SimulatedMachine", **parts: Any) -> None:
        super().__init__(**parts)
        self._machine = machine

    def step(self, now: float, event: Event) -> list[Effect]:
        """See `RaftCore`."""
        before = BeforeStep(self.term, self.vote, self.commit_index, isinstance(self.role, Leader))
        effects = super().step(now, event)
        self._machine.on_step(before, event, effects)
        return effects


class WatchedRegisters(Replica):
    """The state machine; its machine looks on."""

    def __init__(self, machine: "SimulatedMachine", filler_bytes: int) -> None:
        super().__init__(filler_bytes)
        self._machine = machine

    def apply(self, index: int, command: bytes) -> bytes:
        """See `StateMachine`."""
        self._machine.on_command(index, command)
        return super().apply(index, command)


class SimulatedMachine(SimulatedProcess):
    """One node and everything that belongs to it alone.

    `commit_index` and `entries` are the log as the core has ordered it, kept apart so that core and storage can be
    checked; `durable` is what the disk would give back. Both are whole: what has left is the committed log's beginning.
    """

    ERRORS: ClassVar[tuple[type[Exception], ...]] = (*NODE_ERRORS, RaftError, PowerFailed)

    def __init__(self, world: "RaftWorld", knobs: RaftKnobs, node_id: NodeId, voters: Sequence[NodeId]) -> None:
        super().__init__(world, node_id)
        self.node_id = node_id
        self.core: RaftCore | None = None
        self.storage: RaftStorage | None = None
        self.driver: RaftDriver | None = None
        self.counts: Counter[str] = Counter()
        self.held = Holdings(
            MemoryDisk(stream(knobs.seed, f"disk/{node_id}")),
            world.record,
            self.counts,
            acknowledges_written=knobs.driver.flush_every_s > 0,
        )
        self.entries: list[Entry] = []
        self.commit_index = NO_INDEX
        self.replica = WatchedRegisters(self, knobs.snapshot_bytes)
        self.loses_directory = False
        """True if its directory is gone when it starts again."""
        self.was_member = False
        """True if it knows that it had a past, though it has lost it."""
        self.traps = Traps()
        self.flush: RunningFlush | None = None
        self._world = world
        self._knobs = knobs
        self._configuration = Configuration(voters)
        self._flush_rng = stream(knobs.seed, f"flush/{node_id}")
        self._crash_rng = stream(knobs.seed, f"crash/{node_id}")
        self._wall_skew_ms = stream(knobs.seed, f"wall/{node_id}").choice((0, -3000, 7000))
        self._applied_seen = NO_INDEX
        self._resets = 0
        self._busy_until = 0.0
        self._has_planned = False

    # ---------------------------------------------------------------- life and death

    def start(self) -> None:
        """Come up from whatever the disk holds. What recovery raises is for the world to judge."""
        assert self.core is None
        self.begin_life()
        self._busy_until, self._has_planned = 0.0, False
        self.held.note_start()
        # Room is reserved in small steps, so that a full disk is noticed at once.
        config = LogConfig(segment_bytes_max=self._knobs.segment_bytes_max, reserve_chunk_bytes=1)
        self.storage = RaftStorage.open(self.held.disk, LOG_DIRECTORY, config, log_id=LOG_ID)
        recovery = self.storage.log.recovery
        self.counts["torn_tails"] += recovery.torn_bytes_cut > 0
        self.held.note_opened(repaired=recovery.repaired is not None)
        hard_state, view = self.storage.restore(self._knobs.raft.cache_bytes_max)
        self.commit_index = view.start.index
        self.core = WatchedCore(
            self,
            node_id=self.node_id,
            configuration=self._configuration,
            config=self._knobs.raft,
            log=view,
            hard_state=hard_state,
            rng=stream(self._knobs.seed, f"core/{self.node_id}/{self.lives}"),
            now=self.reading(),
            was_member=self.was_member,
        )
        self.held.note_guard(self.core)
        self.held.note_synced()
        self._world.on_restarted(self)
        self.held.note_mended(self.core)
        self.replica, self._applied_seen = WatchedRegisters(self, self._knobs.snapshot_bytes), NO_INDEX
        self.counts["trimmed_restarts"] += view.start.index > 0
        self.driver = self._open_driver(self.core, self.storage)
        self.take(self._begin)

    def _open_driver(self, core: RaftCore, storage: RaftStorage) -> RaftDriver:
        knobs = self._knobs
        return RaftDriver(
            core=core,
            storage=storage,
            state_machine=self.replica,
            environment=Environment(
                transport=self,
                has_more=lambda: bool(self._inbox),
                clock=self.reading,
                wall_clock_ms=lambda: BEGIN_MS + self._wall_skew_ms + int(self._world.now * 1000),
                notify=self._notify,
            ),
            config=DriverConfig(
                flush_policy=knobs.driver.flush_policy,
                flush_interval_s=knobs.driver.flush_every_s,
                flush_stall_s=knobs.driver.flush_stall_s,
                batch_bytes_max=knobs.driver.batch_bytes_max,
                pending_bytes_max=knobs.driver.pending_bytes_max,
                retention=Retention(bytes_max=knobs.retention_bytes),
                apply_bytes=knobs.driver.apply_bytes,
                trim_every_s=knobs.driver.trim_every_s,
            ),
        )

    def _begin(self) -> None:
        assert self.driver is not None
        if self._knobs.driver.subscribes:
            self.driver.subscribe(Subscription(lambda delivered: self._world.on_delivered(self, delivered)))

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
        self.held.lose_all(MemoryDisk(stream(self._knobs.seed, f"disk/{self.node_id}/{self.lives}")))
        self.entries = []

    def meet_rot(self) -> None:
        """Read all that is stored, so that damage that no read has met yet is found."""
        if self.held.spoilt and self.storage is not None:
            try:
                self.stored_entries()
            except LogError as error:
                self._world.on_died(self, error)

    def stored_entries(self) -> tuple[Entry, ...]:
        """All that its log holds, from the disk."""
        assert self.core is not None
        assert self.storage is not None
        return self.storage.entries(LogIndex(self.core.log.start.index + 1), 1 << 40)

    def cut_power(self) -> None:
        """Everything volatile is gone, and so may be whatever was not synced, in any part."""
        self.held.end(self.entries, complete=False)
        self._halt()
        self.held.lose_power(self._crash_rng)

    def kill(self, *, in_step: bool = False) -> None:
        """The process is gone; what it wrote stays in the page cache, synced or not."""
        self.held.end(self.entries, complete=not in_step)
        self._halt()
        self.held.outlive(self._crash_rng)

    def stop(self) -> None:
        """Have the process answer all who wait, as one does that is asked to end; `kill` follows."""
        if self.driver is not None and not self.paused:
            self.counts["stops"] += 1
            self.driver.close()

    def calm(self, flush_s: float) -> None:
        """Stand on firm ground again: no trap, a true clock, fsyncs of at most about `flush_s`."""
        self.traps = Traps()
        self.held.mend()
        self.slowness = min(1.0, flush_s / self._knobs.flush_s)
        self.clock.steady(self._world.now)
        if self.paused:
            self.wake(timers_first=True)
        else:
            self.clock_jumped()

    def give_up_start(self) -> None:
        """The disk would not let it come up: it is down, and what its last life left still counts."""
        self._halt()
        self.held.outlive(self._crash_rng)

    def _halt(self) -> None:
        self.end_life()
        self.core = self.storage = self.driver = self.flush = None
        self.traps = Traps()

    def pause(self) -> None:
        """Stand still: what arrives piles up, timers go stale, an fsync under way still ends."""
        self.paused = True

    def wake(self, *, timers_first: bool) -> None:
        """Go on: with what piled up, or with a round in which nothing of it was read yet."""
        self.paused = False
        process = self.process
        self.counts["held_by_pauses"] += len(self._inbox)
        if timers_first or not self._inbox:
            super().take(self.serve_deadline)
        self._next_turn(process)

    # ---------------------------------------------------------------- rounds

    def take(self, action: Callable[..., None], *arguments: object) -> None:
        """See `SimulatedProcess`; during a round it waits for the next one, with all that has come before it."""
        if not self.up or not (self.paused or self._inbox or self._world.now < self._busy_until):
            super().take(action, *arguments)
            return
        self._inbox.append((action, arguments))
        if not self.paused:
            self._plan_turn()

    def _plan_turn(self) -> None:
        if not self._has_planned:
            self._has_planned = True
            self._world.schedule(max(self._world.now, self._busy_until), self._next_turn, self.process)

    def _next_turn(self, process: int) -> None:
        if not self.lives_as(process) or self.paused:
            return
        self._has_planned = False
        taken, self._inbox = self._inbox[: self._knobs.driver.reads_max], self._inbox[self._knobs.driver.reads_max :]
        if taken:
            super().take(self._take_all, taken)
        if self._inbox and self.lives_as(process):
            self._plan_turn()

    def _take_all(self, taken: Sequence[tuple[Callable[..., None], tuple[object, ...]]]) -> None:
        self.counts["taken_together"] += len(taken) > 1
        for action, arguments in taken:
            action(*arguments)

    @property
    def deadline(self) -> float:
        """See `SimulatedProcess`."""
        assert self.driver is not None
        return float("-inf") if self.driver.has_postponed else self.driver.deadline

    def end_round(self) -> None:
        """See `SimulatedProcess`."""
        driver = self.driver
        assert driver is not None
        driver.pump()
        if (flush := driver.begin_flush()) is not None:
            self._begin_flush(flush)
        self._busy_until = self._world.now + self._knobs.driver.round_s
        self.held.note_mended(driver.core)
        self.counts["ticks_waited"] += bool(self._inbox) and driver.core.deadline <= self.reading()
        if driver.applied_index != self._applied_seen:
            self._applied_seen = driver.applied_index
            self._world.on_applied(self)

    def crash(self, error: Exception) -> None:
        """See `SimulatedProcess`."""
        if isinstance(error, PowerFailed):
            self.counts["cuts_in_reset"] += self.held.disk.before_call is not None
            self._world.sprung(self)
        else:
            self._world.on_died(self, error)

    def apply_all(self) -> None:
        """Give everything that is committed to the state machine."""
        assert self.core is not None
        assert self.driver is not None
        while self.driver.applied_index < self.core.commit_index:
            self.end_round()

    def receive(self, sender: NodeId, message: Message) -> None:
        """A message arrives."""
        if len(self._inbox) < INBOX_MAX:
            self.take(self._receive, sender, message)

    def _receive(self, sender: NodeId, message: Message) -> None:
        assert self.driver is not None
        is_last_part = isinstance(message, InstallSnapshot) and not message.bytes_left
        self.counts["snapshots_dropped"] += is_last_part and self.flush is not None
        try:
            self.driver.deliver(sender, message)
        except ProtocolError as error:
            self._world.on_objection(self, sender, error)

    def lose_connection(self, peer: NodeId) -> None:
        """A connection from or to this peer broke."""
        self.take(self._lose_connection, peer)

    def _lose_connection(self, peer: NodeId) -> None:
        assert self.driver is not None
        self.driver.on_disconnected(peer)

    def jump_clock(self, seconds: float) -> None:
        """Let the clock jump forward; deadlines may then lie in the past."""
        before = self.reading()
        self.clock.jump(seconds)
        if self.core is not None:
            self.counts["timers_overtaken"] += before < self.core.deadline <= self.reading()
            self.clock_jumped()

    # ---------------------------------------------------------------- what the driver does, looked at

    def on_step(self, before: BeforeStep, event: Event, effects: Sequence[Effect]) -> None:
        """The core has decided, and the driver has not obeyed yet."""
        world, core = self._world, self.core
        assert core is not None
        self.held.note_guard(core)
        world.on_decided(self, before)
        is_reset = False
        for effect in effects:
            match effect:
                case Persist(entries=entries, start=start):
                    if entries:
                        world.on_appended(self, entries)
                        del self.entries[entries[0].index - 1 :]
                        self.entries.extend(entries)
                    if start is not None:
                        is_reset = True
                        self._expect_reset(start)
                case Commit(commit_index=index):
                    world.on_committed(self, index)
                    self.commit_index = index
                case LoadEntries():
                    self.counts["loads"] += 1
                case _:
                    pass
        match event:
            case Overslept():
                self.counts["overslept"] += 1
            case Receive(message=InstallSnapshot(bytes_left=0)):
                self.counts["snapshots_installed" if is_reset else "snapshots_ignored"] += 1
            case Receive(message=InstallSnapshot()):
                self.counts["snapshot_parts"] += 1
            case _:
                pass
        world.on_stepped(self, before, event, effects)

    def on_command(self, index: int, command: bytes) -> None:
        """The driver is about to have a command applied."""
        self._world.on_command(self, index, command)

    def _expect_reset(self, start: LogStart) -> None:
        """The log is about to be replaced by one that begins at `start`; now and then power fails meanwhile."""
        self._resets += 1
        self.entries = [known.entry for known in self._world.record.ledger[: start.index]]
        rng = stream(self._knobs.seed, f"reset/{self.node_id}/{self._resets}")
        if rng.random() < self._knobs.reset_crash:
            self.held.disk.before_call = failing_after(rng.randrange(24))

    def _notify(self, notice: Notice) -> None:
        assert self.core is not None
        match notice:
            case SnapshotInstalled():
                self.held.disk.before_call = None
                self.held.note_synced()
                self._world.on_trimmed(self, self.core.log.start)
            case LogTrimmed():
                self.counts["trims"] += 1
                self._world.on_trimmed(self, self.core.log.start)
            case NoSpaceLeft():
                self.counts["disk_full"] += 1
            case DiskStalled():
                self.counts["disks_stalled"] += 1
            case _:
                pass

    def send(self, to: NodeId, message: Message) -> None:
        """See `Transport`; power may fail right behind it."""
        self._world.on_sent(self, to, message)
        trap = self.traps.after_send
        if trap is not None and isinstance(message, trap):
            self.counts["cuts_after_send"] += 1
            raise PowerFailed

    def connect(self, peers: Sequence[NodeId], addresses: Mapping[NodeId, str], *, alone: bool) -> None:
        """See `Transport`: it dials the members that it knows."""

    def dials(self, peer: NodeId) -> bool:
        """Returns True if it knows where this peer is, from its settings or its log."""
        known = () if self.core is None else self.core.membership.known
        return peer in self._configuration.nodes or any(peer in entry.configuration.nodes for entry in known)

    def push(self) -> None:
        """See `Transport`: all has left already."""

    # ---------------------------------------------------------------- its callers

    def on_appended(self, request_id: int, base_offset: int, span: int, term: int) -> None:
        """See `Caller`."""
        self._world.on_acknowledged(self, request_id, base_offset, span, term)
        self._spring_after_answer()

    def on_applied(self, request_id: int, index: int, result: bytes) -> None:
        """See `Caller`."""
        self._world.on_command_done(self, request_id, index, result)
        self._spring_after_answer()

    def _spring_after_answer(self) -> None:
        if self.traps.after_answer:
            self.counts["cuts_after_answer"] += 1
            raise PowerFailed

    def on_readable(self, request_id: int) -> None:
        """See `Caller`."""
        self._world.on_readable(self, request_id)

    def on_refused(self, request_id: int, error: RaftError) -> None:
        """See `Caller`."""
        self._world.on_refused(self, request_id, error)

    # ---------------------------------------------------------------- the disk

    def _begin_flush(self, flush: Flush) -> None:
        """Let a flush take its time, as the thread or the kernel would carry it out."""
        in_kernel = flush.lone is not None and self._flush_rng.random() < 0.5
        if in_kernel:
            flush.steps[0]()
        self.flush = running = RunningFlush(flush, self.held.disk.mark(), in_kernel)
        knobs = self._knobs
        usual = knobs.flush_s * (0.5 + self._flush_rng.expovariate(1.0) * knobs.flush_s_spread)
        took = usual * self.slowness
        self.counts["slow_flushes"] += took > usual
        now = self._world.now
        self._world.schedule(now + took, self._disk_synced, self.process, running)
        if flush.retiring and knobs.trim_crash and self._flush_rng.random() < knobs.trim_crash:
            self.traps.in_flush = self._flush_rng.random()
        if self.traps.in_flush is not None:
            self._world.schedule(now + took * self.traps.in_flush, self._spring_in_flush, self.process, running)

    def _spring_in_flush(self, process: int, running: RunningFlush) -> None:
        """Power fails in the middle: some of the flush's calls may have come through, the last of them in part."""
        if not self.lives_as(process):
            return
        usual = (0, 0, 1, 2, 4, 7)
        allowed = self._crash_rng.randrange(24) if running.flush.retiring else self._crash_rng.choice(usual)
        with contextlib.suppress(PowerFailed, StorageError):
            self.held.disk.before_call = failing_after(allowed)
            running.run_rest(self.held.disk)
        self._world.sprung(self)

    def _disk_synced(self, process: int, running: RunningFlush) -> None:
        """The device is done; the process learns it a little later, or when it wakes."""
        if not self.lives_as(process):
            return
        try:
            running.run_rest(self.held.disk)
        except NODE_ERRORS as error:
            self._world.on_died(self, error)
            return
        self.held.note_synced()
        self._world.on_synced(self)
        self.later(self._knobs.handoff_s, self._flush_ended)

    def _flush_ended(self) -> None:
        assert self.driver is not None
        self.flush = None
        self.driver.on_flushed()
