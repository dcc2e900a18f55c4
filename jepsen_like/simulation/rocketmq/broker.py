"""One broker of a simulated group: its life, its disk, and the shell around its copy of the commit log."""

import random
from collections.abc import Callable, Sequence
from typing import Protocol, assert_never

import attrs
import crc32c

from jepsen_like.simulation.kernel.findings import NODE_ERRORS
from jepsen_like.simulation.kernel.process import SimulatedProcess
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.rocketmq.disk import LossKind, SimulatedCommitLog
from jepsen_like.simulation.rocketmq.sockets import SimulatedSockets, Socket, StreamSegment
from jepsen_like.simulation.rocketmq.swarm import RocketmqKnobs
from raft.net.errors import WireError
from rocketmq_compat.replication.core import CommitLogReplica
from rocketmq_compat.replication.effects import (
    AdoptTables,
    AnswerPut,
    AppendMessages,
    AppendPushed,
    CloseHaConnection,
    ConfirmOffsetMoved,
    CopyBackBegan,
    Dial,
    DivergenceEnded,
    DivergenceFound,
    DoubtBegan,
    DoubtEnded,
    Effect,
    NoteSlave,
    PushLog,
    RefusePut,
    ResetCommitLog,
    SendMessage,
    SendTables,
    TruncateCommitLog,
)
from rocketmq_compat.replication.events import (
    CommitLogFlushed,
    Connected,
    DeadlineReached,
    DivergenceDiscarded,
    Event,
    HaConnectionClosed,
    LogStartMoved,
    Pushed,
    PutMessages,
    Received,
    TablesCopied,
)
from rocketmq_compat.replication.ha_codec import decode, encode
from rocketmq_compat.replication.messages import HaMessage, Push, Tables
from rocketmq_compat.replication.model import INCARNATION_MAX, CopyDoubt, ReplicationError, RoleName
from rocketmq_compat.replication.slave import Slave
from rocketmq_compat.storage.copy_notes import CopyFile, CopyNotes

PutOutcome = AnswerPut | RefusePut
Done = Callable[[PutOutcome], None]


class GroupWorld(Protocol):
    """The world as a broker sees it."""

    now: float
    master: int

    def schedule(self, at: float, action: Callable[..., None], *arguments: object) -> None:
        """Call `action(*arguments)` at time `at`."""

    def transmit(self, sender: int, to: int, segment: StreamSegment) -> None:
        """Put a segment on the wire."""

    def new_connection(self) -> int:
        """The number of a connection that is to be made."""

    def on_stepped(self, broker: "GroupBroker", event: Event | None, effects: Sequence[Effect]) -> None:
        """A copy has decided, and nothing is carried out yet; without an event it has begun."""

    def on_effect(self, broker: "GroupBroker", event: Event | None, effect: Effect) -> None:
        """An order of that decision was carried out."""

    def tables_of_master(self) -> int | None:
        """Returns the tables that the master answers a slave that asks for them; None if it does not."""

    def on_crashed(self, broker: "GroupBroker", error: Exception) -> None:
        """A broker died of its own assertions, or of a bug."""


@attrs.define(eq=False)
class WaitingClient:
    """A put that is not answered yet."""

    record: bytes
    wait: bool
    put_at: float
    """By the broker's own clock."""
    done: Done


class GroupBroker(SimulatedProcess):
    """One broker of the group."""

    ERRORS = (*NODE_ERRORS, ReplicationError)

    def __init__(self, world: GroupWorld, knobs: RocketmqKnobs, node: int) -> None:
        super().__init__(world, node)
        self.disk = SimulatedCommitLog()
        self.began_without_tables = False
        self.waiting: dict[int, WaitingClient] = {}
        self.dials: dict[int, int] = {}
        """The number of its `Dial` by the number of a connection."""
        self._world = world
        self._knobs = knobs
        self._rng: random.Random = stream(knobs.seed, f"broker/{node}")
        self._last_token = 0
        self._clear()

    def _clear(self) -> None:
        self.config = self._knobs.config(self.node, is_master=self._world.master == self.node)
        self.copy: CopyFile | None = None
        self.replica: CommitLogReplica | None = None
        self.sockets = SimulatedSockets(self, self._transmit)
        self.waiting.clear()
        self.dials.clear()
        self._is_flushing = False

    # ---------------------------------------------------------------- life and death

    @property
    def listens(self) -> bool:
        """See `SocketHost`."""
        return self.replica is not None and self.replica.is_master

    @property
    def is_master(self) -> bool:
        """True if this process lives, and was started as a master."""
        return self.up and self.listens

    def start(self) -> None:
        """A process begins, with what is on the disk, in the role that the operator has given this broker."""
        self.begin_life()
        self._clear()
        role: RoleName = "master" if self._world.master == self.node else "slave"
        incarnation = stream(self._knobs.seed, f"incarnation/{self.process}").randint(1, INCARNATION_MAX)
        copy = self.copy = CopyFile(self.disk.page)
        self.began_without_tables = self.disk.has_lost_tables
        recovered = self.disk.recover(copy)
        self.replica = CommitLogReplica(self.config, role, recovered, incarnation)
        boot, flushes = self.disk.boot, self.config.sync_flush
        copy.change(
            lambda notes: attrs.evolve(notes, boot=boot, is_running=True, flushes=flushes, doubt=recovered.doubt)
        )
        copy.note_reach(self.disk.reach)
        self.take(self._begin)
        self.later(self._knobs.heartbeat_s, self._copy_tables)
        if self._knobs.writeback_s:
            self.later(self._knobs.writeback_s, self._write_back)

    @property
    def is_designated(self) -> bool:
        """True if it is the master that the operator wants."""
        return self.is_master and self._world.master == self.node

    @property
    def is_sure(self) -> bool:
        """True if this process lives, and does not doubt its log."""
        return self.up and self.replica is not None and self.replica.log.doubt is None

    def _copy_tables(self) -> None:
        """A slave asks its master for topics and offsets now and then; one in doubt refuses."""
        self.later(self._knobs.heartbeat_s, self._copy_tables)
        replica = self.replica
        if replica is not None and isinstance(replica.role, Slave) and replica.role.is_welcome:
            found = self._world.tables_of_master()
            if found is not None:
                self.disk.tables = max(self.disk.tables, found)
                self.step(TablesCopied())

    def _begin(self) -> None:
        assert self.replica is not None, "a process begins with its copy"
        effects = self.replica.begin(self.reading())
        self._world.on_stepped(self, None, effects)
        self._carry_out(None, effects)
        self._flush_soon()

    def stop(self, *, closes: bool) -> None:
        """The process is gone, whatever it was doing; its connections are closed only if the machine is still there to
        do it.
        """
        if closes:
            self.sockets.close_all()
        self.end_life()
        self._clear()

    @property
    def deadline(self) -> float:
        """See `SimulatedProcess`."""
        return self.replica.deadline if self.replica is not None else float("inf")

    def serve_deadline(self) -> None:
        """See `SimulatedProcess`."""
        self.step(DeadlineReached())

    def end_round(self) -> None:
        """See `SimulatedProcess`: everything was carried out by the step that ordered it."""

    def crash(self, error: Exception) -> None:
        """See `SimulatedProcess`."""
        self._world.on_crashed(self, error)

    # ---------------------------------------------------------------- the disk

    def _flush_soon(self) -> None:
        if self.config.sync_flush and not self._is_flushing and self.disk.durable_end < self.disk.end:
            self._is_flushing = True
            seconds = self._knobs.flush_s * self.slowness * (0.5 + self._rng.expovariate(1.0))
            self.later(seconds, self._on_flushed, self.disk.end, self.disk.changes)

    def _on_flushed(self, end: int, changes: int) -> None:
        self._is_flushing = False
        if changes == self.disk.changes:
            self.disk.durable_end = max(self.disk.durable_end, end)
            self.step(CommitLogFlushed(end))
        self._flush_soon()

    def _write_back(self) -> None:
        self.disk.flush()
        self.step(CommitLogFlushed(self.disk.end))
        self.later(self._knobs.writeback_s, self._write_back)

    def trim(self, offset: int) -> None:
        """Retention lets the log begin at `offset`."""
        if self.disk.start < offset <= self.disk.end:
            self.disk.trim(offset)
            self.step(LogStartMoved(offset))

    # ---------------------------------------------------------------- events

    def put(self, record: bytes, wait: bool, done: Done) -> None:
        """A client sends a record."""
        self._last_token += 1
        self.waiting[self._last_token] = WaitingClient(record, wait, self.reading(), done)
        self.step(PutMessages(self._last_token, len(record), record, wait))

    def _transmit(self, to: int, segment: StreamSegment) -> None:
        self._world.transmit(self.node, to, segment)

    def receive(self, sender: int, segment: StreamSegment) -> None:
        """A segment arrives."""
        self.sockets.receive(sender, segment)

    def on_accepted(self, connection: int) -> None:
        """See `SocketHost`."""
        self.step(Connected(connection))

    def on_established(self, connection: int) -> None:
        """See `SocketHost`."""
        self.step(Connected(self.dials[connection]))

    def on_arrived(self, socket: Socket, data: bytes) -> None:
        """See `SocketHost`: bytes that are no message end the connection."""
        name = self.dials.get(socket.connection, socket.connection)
        try:
            messages = [_copy_bytes(decode(frame)) for frame in socket.decoder.feed(data)]
            if socket.decoder.failure is not None:
                raise socket.decoder.failure
        except WireError:
            self.sockets.close(socket.connection)
            self.step(HaConnectionClosed(name))
            return
        for message in messages:
            self.step(Received(name, message))

    def on_ended(self, connection: int) -> None:
        """See `SocketHost`."""
        self.step(HaConnectionClosed(self.dials.get(connection, connection)))

    def step(self, event: Event) -> None:
        """The copy takes a fact, and what it orders is carried out."""
        if self.replica is None:
            return
        effects = self.replica.step(self.reading(), event)
        self._world.on_stepped(self, event, effects)
        process = self.process
        self._carry_out(event, effects)
        if self.copy is not None and self.process == process:
            self.copy.note_reach(self.disk.reach)

    def say(self, connection: int, message: HaMessage) -> None:
        """Put a message on a connection, also one that the copy has not ordered."""
        self.sockets.send(connection, b"".join(encode(message)))

    # ---------------------------------------------------------------- orders

    def _carry_out(self, event: Event | None, effects: Sequence[Effect]) -> None:
        process = self.process
        for effect in effects:
            self._one(effect, LossKind.OPERATOR if isinstance(event, DivergenceDiscarded) else LossKind.RESET)
            self._world.on_effect(self, event, effect)
            if isinstance(effect, AnswerPut | RefusePut):
                self.waiting.pop(effect.token).done(effect)
            if self.process != process or not self.up:
                return

    def _one(self, effect: Effect, kind: LossKind) -> None:
        disk = self.disk
        match effect:
            case AppendMessages():
                assert isinstance(effect.payload, bytes), "a record is bytes"
                disk.append(effect.epoch, effect.payload)
                self._flush_soon()
            case AppendPushed():
                disk.append(effect.epoch, bytes(effect.payload))
                self._flush_soon()
            case TruncateCommitLog(end=end):
                disk.truncate(end, kind)
            case ResetCommitLog(start=start):
                disk.reset(start, kind)
            case AnswerPut(offset=offset):
                disk.tables = max(
                    disk.tables, offset
                )  # a consumer commits it; the client learns of it when the audits have looked
            case RefusePut():
                pass
            case Dial(connection=name):
                connection = self._world.new_connection()
                self.dials[connection] = name
                self.sockets.dial(connection, self._world.master)
            case SendMessage(connection=name, message=message):
                self.say(self._connection(name), message)
            case PushLog():
                self.later(self._knobs.read_s * self._rng.random(), self._push, effect)
            case CloseHaConnection(connection=name):
                self.sockets.close(self._connection(name))
            case NoteSlave(slave_id=slave_id):
                self._note(lambda notes: attrs.evolve(notes, slaves=notes.slaves | {slave_id}))
            case SendTables(connection=name):
                self.say(self._connection(name), Tables(b"%d" % disk.tables))
            case AdoptTables(payload=payload):
                disk.tables = max(disk.tables, int(bytes(payload)))
            case DoubtBegan(floor=floor):
                self._note(lambda notes: attrs.evolve(notes, doubt=CopyDoubt(floor)))
            case DoubtEnded():
                disk.flush()
                disk.has_lost_tables = False
                self._note(lambda notes: attrs.evolve(notes, doubt=None))
            case DivergenceFound() | DivergenceEnded() | ConfirmOffsetMoved() | CopyBackBegan():
                pass
            case _:
                assert_never(effect)

    def _note(self, change: Callable[[CopyNotes], CopyNotes]) -> None:
        assert self.copy is not None, "a process that lives has its notes"
        self.copy.change(change)

    def _connection(self, name: int) -> int:
        if self.listens:
            return name
        return next((connection for connection, dial in self.dials.items() if dial == name), 0)

    def _push(self, order: PushLog) -> None:
        """Read and send; what has left the log meanwhile cannot be sent."""
        disk, name = self.disk, order.connection
        connection = self._connection(name)
        if connection not in self.sockets.open:
            return
        if order.offset < disk.start:
            self.sockets.close(connection)
            self.step(HaConnectionClosed(name))
            return
        end = disk.push_end(order.offset, order.end_max, self.config.push_bytes_max)
        data = disk.read(order.offset, end)
        crc = crc32c.crc32c(data)
        if self._knobs.rot and self._rng.random() < self._knobs.rot:
            data = data[:-1] + bytes([data[-1] ^ 1])
        self.say(connection, Push(order.offset, order.epoch, order.confirm_offset, crc, data))
        self.step(Pushed(name, end))


def _copy_bytes(message: HaMessage) -> HaMessage:
    """The message with bytes of its own, which look the same in every trace."""
    return attrs.evolve(message, payload=bytes(message.payload)) if isinstance(message, Push) else message
