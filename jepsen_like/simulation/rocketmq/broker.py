"""One broker of a simulated group: the real copy of the commit log, on the real store, with the real tables.

Under them the world has a disk in memory with its thread, a clock and connections. A round is that of `Broker`: the
copy has what arrived, then stores the round's puts, ends waits, pushes and dispatches; housekeeping follows; the disk
begins to flush. A broker can be killed, lose its power, stand still and start again with what its disk has.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, overload

import attrs

from jepsen_like.simulation.kernel.sockets import Endpoint, Segment, Socket
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.rocketmq.held import HeldLog, LossKind
from jepsen_like.simulation.rocketmq.links import SimulatedLinks
from jepsen_like.simulation.rocketmq.process import BEGIN_MS, QUEUES, BrokerProcess
from jepsen_like.simulation.rocketmq.stores import (
    DIRECTORY,
    damage_log,
    damage_notes,
    remove_part,
    remove_tables,
    small_store,
)
from jepsen_like.simulation.rocketmq.swarm import RocketmqKnobs
from log.memory_disk import MemoryDisk
from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.delays import DelayedMessages
from rocketmq_compat.broker.fixed_roles import has_other_copies, recover_copy
from rocketmq_compat.broker.housekeeping import Housekeeping
from rocketmq_compat.broker.puts import PutOutcome, StoredMessages
from rocketmq_compat.broker.replicated_log import ReplicatedLog
from rocketmq_compat.broker.tables import BrokerTables, load_tables, offset_snapshot
from rocketmq_compat.broker.tables_of_pair import TablesOfPair
from rocketmq_compat.consumers.offsets import OffsetKey
from rocketmq_compat.records import encode_record
from rocketmq_compat.remoting.bodies import ConsumerOffsetSerializeWrapper
from rocketmq_compat.replication.core import CommitLogReplica
from rocketmq_compat.replication.effects import Effect
from rocketmq_compat.replication.events import DivergenceDiscarded, Event, LogStartMoved, TablesCopied
from rocketmq_compat.replication.model import (
    INCARNATION_MAX,
    MASTER_ID,
    LogReach,
    RecoveredCopy,
    ReplicationConfig,
    RoleName,
)
from rocketmq_compat.replication.slave import Slave
from rocketmq_compat.storage.broker_store import COMMIT_LOG_NAME, MessageStore
from rocketmq_compat.storage.checkpoints import BrokerCheckpoints, CheckpointName
from rocketmq_compat.storage.copy_notes import COPY_NAME

if TYPE_CHECKING:
    from jepsen_like.simulation.rocketmq.world import RocketmqWorld

TOPIC = "T"
GROUP = "g"
NEVER_MS = 3_600_000


@attrs.define(eq=False)
class WaitingPut:
    """A message that is not answered yet."""

    body: bytes
    record_bytes: int
    wait: bool
    done: Callable[[PutOutcome], None]


class WatchedOrders(Sequence[Effect]):
    """The orders of one decision; the world looks on as they are carried out one after the other."""

    def __init__(self, broker: "GroupBroker", event: Event | None, effects: Sequence[Effect]) -> None:
        self._broker = broker
        self._event = event
        self._effects = effects

    def __len__(self) -> int:
        return len(self._effects)

    @overload
    def __getitem__(self, at: int) -> Effect: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Effect]: ...
    def __getitem__(self, at: int | slice) -> Effect | Sequence[Effect]:
        return self._effects[at]

    def __iter__(self) -> Iterator[Effect]:
        for effect in self._effects:
            yield effect
            self._broker.on_carried_out(self._event, effect)


class WatchedReplica(CommitLogReplica):
    """The decider; the world looks on."""

    def __init__(
        self,
        broker: "GroupBroker",
        config: ReplicationConfig,
        role: RoleName,
        recovered: RecoveredCopy,
        incarnation: int,
    ) -> None:
        super().__init__(config, role, recovered, incarnation)
        self._broker = broker

    def begin(self, now: float) -> Sequence[Effect]:
        """See `CommitLogReplica`."""
        return self._broker.on_decided(None, super().begin(now))

    def step(self, now: float, event: Event) -> Sequence[Effect]:
        """See `CommitLogReplica`."""
        return self._broker.on_decided(event, super().step(now, event))


class GroupBroker(BrokerProcess):
    """One broker; it is the connections' host to its links."""

    def __init__(self, world: "RocketmqWorld", knobs: RocketmqKnobs, node: int) -> None:
        super().__init__(world, knobs, node)
        self.held = HeldLog()
        self.loss: LossKind | None = None
        """The fault that may have taken bytes from the disk since this process ended."""
        self.boots = 0
        """The number of times that power was lost."""
        self.lacks_tables = False
        """True from the loss of its tables to the end of its doubt."""
        self.waiting: dict[int, WaitingPut] = {}
        self.context: Context
        self.replica: CommitLogReplica
        self.copy: ReplicatedLog
        self.links: SimulatedLinks
        self._world = world
        self._last_put = 0
        self._round_due = self._ends_round = False

    # ---------------------------------------------------------------- life and death

    @property
    def listens(self) -> bool:
        """See `LinksHost`. True if this process lives, and was started as a master."""
        return self.up and self.replica.is_master

    @property
    def is_designated(self) -> bool:
        """True if it is the master that the operator wants."""
        return self.listens and self._world.master == self.node

    @property
    def store(self) -> MessageStore:
        """The store of this process, or of its last one."""
        return self.context.store

    @property
    def role(self) -> str:
        """See `BrokerProcess`."""
        return "master" if self.listens else "slave"

    @property
    def is_sure(self) -> bool:
        """True if this process lives, and does not doubt its log."""
        return self.up and self.replica.log.doubt is None

    def start(self) -> None:
        """A process begins with its disk, in the role that the operator gave; the world judges what recovery raises."""
        knobs = self.knobs
        self.begin_life()
        self.waiting.clear()
        is_noted = self.lives > 1 and self.loss is None and not self._round_due
        self._round_due = self._ends_round = False
        config = knobs.config(self.node, is_master=self._world.master == self.node)
        store = MessageStore.open(
            self.disk, DIRECTORY, small_store(knobs.segment_bytes), repairs=partial(has_other_copies, config)
        )
        wrong = self.held.reopen(store.log, LossKind.DAMAGE if store.cut is not None else self.loss)
        if wrong is None and is_noted and store.cut is None:
            found = LogReach(store.log.last_epoch, store.log.end_offset)
            if store.copy.found_reach != found:
                wrong = f"a start finds {found}, and the note of {store.copy.found_reach}"
        if wrong is not None:
            self._world.report("Q12", self.node, wrong)
        self.loss, self.held.promises = None, self.held.promised
        self._open_copy(store, config)
        self.take(self.copy.begin)
        self.later(knobs.heartbeat_s, self._copy_tables)

    def _open_copy(self, store: MessageStore, config: ReplicationConfig) -> None:
        knobs = self.knobs
        flush_ms = round(knobs.writeback_s * 1000) or NEVER_MS
        properties = [f"flushIntervalCommitLog={flush_ms}", "flushConsumerOffsetInterval=300"]
        self.context = context = self.context_of(store, properties)
        delays = DelayedMessages(context, load_tables(context))
        files = BrokerTables(context, self, lambda: delays.offsets)
        recovered = recover_copy(
            store, config, boot=f"boot {self.boots}", lost_tables=context.lost_tables, tell=context.tell
        )
        self._world.audits.on_recovered(self, recovered)
        incarnation = stream(knobs.seed, f"incarnation/{self.process}").randint(1, INCARNATION_MAX)
        role: RoleName = "master" if config.broker_id == MASTER_ID else "slave"
        self.replica = WatchedReplica(self, config, role, recovered, incarnation)
        self.links = SimulatedLinks(self, self.rng, knobs.rot)
        self.copy = ReplicatedLog(
            context, self.replica, self, self.links, lambda runs: None, TablesOfPair(context, files, delays)
        )
        self._housekeeping = Housekeeping(context, files, self, self._on_trimmed)

    def _copy_tables(self) -> None:
        """A slave asks its master for offsets now and then; one in doubt refuses."""
        self.later(self.knobs.heartbeat_s, self._copy_tables)
        role = self.replica.role
        if isinstance(role, Slave) and role.is_welcome:
            found = self._world.offsets_of_master()
            if found is not None:
                self.context.offsets.follow(found)
                self.copy.step(TablesCopied())

    def kill(self) -> None:
        """The process is gone; its system closes its connections, and keeps what it wrote."""
        self.links.sockets.close_all()
        super().kill()

    def cut_power(self) -> None:
        """Everything volatile is gone, and so may be whatever was not synced."""
        self.boots += 1
        self.loss = self.loss or LossKind.POWER
        super().cut_power()

    def lose_disk(self) -> None:
        """The machine gets another disk."""
        self.loss, self.lacks_tables = LossKind.WIPE, True
        self.disk = MemoryDisk(stream(self.knobs.seed, f"disk/{self.node}/{self.lives}"))

    def lose_part_of_disk(self, rng: random.Random) -> str:
        """A directory or a file is gone, or all of it. Returns what."""
        what = rng.choice(("everything", "everything", "log", "notes", "tables"))
        match what:
            case "everything":
                self.lose_disk()
            case "log":
                self.loss = LossKind.WIPE
                remove_part(self.disk, COMMIT_LOG_NAME)
            case "notes":
                self.loss = self.loss or LossKind.POWER
                remove_part(self.disk, COPY_NAME)
            case _:
                self.lacks_tables = True
                remove_tables(self.disk)
        return what

    def damage_disk(self, rng: random.Random) -> str:
        """Some of what is here cannot be read any more. Returns what it is."""
        what = rng.choice(("log", "log", "log", "notes", "tables", "log and notes"))
        if "log" in what:
            self.loss = LossKind.DAMAGE
            damage_log(self.disk, rng)
        if "notes" in what:
            self.loss = self.loss or LossKind.POWER
            damage_notes(self.disk)
        if "tables" in what:
            self.lacks_tables = True
            remove_tables(self.disk)
        return what

    def crash(self, error: Exception) -> None:
        """See `SimulatedProcess`."""
        self._world.on_crashed(self, error)

    def on_told(self, event: str, fields: dict[str, object]) -> None:
        """See `BrokerProcess`: the world sees orders."""

    # ---------------------------------------------------------------- rounds

    @property
    def deadline(self) -> float:
        """See `SimulatedProcess`."""
        return float("inf") if self._round_due else min(self.copy.deadline, self._housekeeping.deadline)

    def end_round(self) -> None:
        """End the round now, or a little later, with all that arrives until then."""
        if self.knobs.round_s and not self._ends_round:
            if not self._round_due:
                self._round_due = True
                self.later(self.knobs.round_s * self.rng.random(), self._let_round_end)
            return
        self._round_due = self._ends_round = False
        now = self.reading()
        self.copy.tick(now)
        self._housekeeping.tick(now)
        self.held.look(self.store.log)
        self.links.flush()
        self.held.promised = self.held.promises
        self.copy.flush_if_due(now)
        self.count_idle()
        self._world.on_round_end(self)

    def _let_round_end(self) -> None:
        self._ends_round = True

    # ---------------------------------------------------------------- the copy

    def on_decided(self, event: Event | None, effects: Sequence[Effect]) -> Sequence[Effect]:
        """The decider returns these orders."""
        self._world.on_stepped(self, event, effects)
        return WatchedOrders(self, event, effects)

    def on_carried_out(self, event: Event | None, effect: Effect) -> None:
        """The copy has carried out this order."""
        self.held.look(self.store.log, LossKind.OPERATOR if isinstance(event, DivergenceDiscarded) else LossKind.RESET)
        self._world.on_effect(self, event, effect)

    def trim(self, offset: int) -> None:
        """Retention lets the log begin at `offset`, or before, as far as the last checkpoint allows."""
        before, start = self.store.log.start_offset, self.store.trim(offset)
        if start > before:
            self._on_trimmed(start)

    def _on_trimmed(self, start: int) -> None:
        self.held.note_trim(start)
        self.held.look(self.store.log)
        self.copy.step(LogStartMoved(start))

    # ---------------------------------------------------------------- clients

    def put(self, body: bytes, wait: bool, done: Callable[[PutOutcome], None]) -> None:
        """A client sends a message."""
        self._last_put += 1
        record = encode_record(
            topic=TOPIC,
            body=body,
            properties="",
            queue_id=self._last_put % QUEUES,
            born_ms=BEGIN_MS,
            born_host=self.context.store_host,
            store_ms=self.wall_ms(),
            store_host=self.context.store_host,
        )
        self.waiting[self._last_put] = WaitingPut(body, len(record), wait, done)
        self.copy.put([record], partial(self._on_put_ended, self._last_put), wait=wait)

    def _on_put_ended(self, number: int, outcome: PutOutcome) -> None:
        put = self.waiting.pop(number)
        if isinstance(outcome, StoredMessages):
            self._consume(number % QUEUES, outcome.queue_offsets[0] + 1)
        self.held.look(self.store.log)
        self._world.audits.on_put_ended(self, put, outcome)
        put.done(outcome)

    def _consume(self, queue: int, offset: int) -> None:
        """A consumer commits that it has this message."""
        offsets, key = self.context.offsets, (GROUP, TOPIC, queue)
        if (offsets.get(key) or 0) < offset:
            offsets.commit(self.wall_ms(), key, offset, queue_end=offset)

    def consume(self, queue: int, share: float) -> None:
        """A consumer reads from somewhere in a queue."""
        seen = self.store.queue((TOPIC, queue))
        if seen is not None:
            offset = seen[0] + int(share * (seen[1] - seen[0]))
            self._world.audits.on_consumed(self, offset, self.store.read((TOPIC, queue), offset))

    def durable_offsets(self) -> Mapping[OffsetKey, int]:
        """Returns the offsets that a power cut would leave."""
        found = BrokerCheckpoints(self.disk.durable_copy(), DIRECTORY).read(CheckpointName.CONSUMER_OFFSETS)
        return offset_snapshot(ConsumerOffsetSerializeWrapper.of(dict(found.content))).offsets

    # ---------------------------------------------------------------- the network

    def transmit(self, to: int, segment: Segment) -> None:
        """See `SocketHost`."""
        self._world.transmit(self.node, to, segment)

    def new_connection(self) -> int:
        """See `SocketHost`."""
        return self._world.new_connection()

    def accept(self, socket: Socket) -> Endpoint | None:
        """See `SocketHost`."""
        return self.links.accept(socket) if self.listens else None

    @property
    def master(self) -> int:
        """See `LinksHost`."""
        return self._world.master

    def report(self, event: Event) -> None:
        """See `LinksHost`."""
        if self.up:
            self.copy.step(event)

    def receive(self, sender: int, segment: Segment) -> None:
        """A segment arrives."""
        if self.up:
            self.links.sockets.receive(sender, segment)
