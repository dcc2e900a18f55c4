"""Every state, by any order of events, of a master and a slave with a few records, power losses and promotions.

Both are the real copies. A record is one byte, a connection is what is on its way in each direction. Time stands still,
but for a slave that waits to dial: nothing is late, and nothing is silent.
"""

import copy
from collections.abc import Iterator
from typing import Any

import attrs
import crc32c

from jepsen_like.simulation.kernel.explorer import BrokenPromise, Explorer
from rocketmq_compat.replication.acks import SendStatus
from rocketmq_compat.replication.core import CommitLogReplica
from rocketmq_compat.replication.effects import (
    AnswerPut,
    AppendMessages,
    AppendPushed,
    CloseHaConnection,
    Dial,
    DoubtBegan,
    DoubtEnded,
    Effect,
    NoteSlave,
    PushLog,
    ResetCommitLog,
    SendMessage,
    TruncateCommitLog,
)
from rocketmq_compat.replication.events import (
    CommitLogFlushed,
    Connected,
    DeadlineReached,
    DivergenceDiscarded,
    Event,
    HaConnectionClosed,
    Pushed,
    PutMessages,
    Received,
)
from rocketmq_compat.replication.master import Master
from rocketmq_compat.replication.messages import HaMessage, Push, Welcome
from rocketmq_compat.replication.model import CopyDoubt, MasterEpoch, RecoveredCopy, ReplicationConfig
from rocketmq_compat.replication.slave import Slave

Action = tuple[Any, ...]
NEVER_S = 1e9


@attrs.frozen
class RocketmqScope:
    """The bounds of a search."""

    records: int = 2
    cuts: int = 1
    """Losses of power, each with any part of what was not flushed."""
    promotions: int = 1

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in attrs.asdict(self).items())


def read_rocketmq_scope(text: str) -> RocketmqScope:
    """Returns the scope of `records=N,cuts=N,promotions=N`. Raises `ValueError` for another text."""
    values: dict[str, int] = {}
    for word in text.split(","):
        name, equals, value = word.partition("=")
        if name not in attrs.fields_dict(RocketmqScope) or not equals or not value.isdecimal():
            raise ValueError(f"{word!r} is not one of records=N, cuts=N, promotions=N")
        values[name] = int(value)
    return RocketmqScope(**values)


@attrs.frozen
class SmallDisk:
    """A log of bytes from 0; `held`: each (offset, byte) ever there; `doubt`, `slaves`: a disk's notes of its past."""

    data: bytes = b""
    durable_end: int = 0
    epochs: tuple[MasterEpoch, ...] = ()
    held: frozenset[tuple[int, int]] = frozenset()
    doubt: CopyDoubt | None = None
    slaves: frozenset[int] = frozenset()

    def append(self, epoch: int, payload: bytes) -> "SmallDisk":
        """Returns the log with these bytes behind it."""
        end = len(self.data)
        begins = () if self.epochs and self.epochs[-1].epoch == epoch else (MasterEpoch(epoch, end),)
        held = self.held | {(end + at, byte) for at, byte in enumerate(payload)}
        return attrs.evolve(self, data=self.data + payload, epochs=self.epochs + begins, held=held)

    def cut(self, end: int) -> "SmallDisk":
        """Returns the log up to `end`."""
        epochs = tuple(each for each in self.epochs if each.start < end)
        return attrs.evolve(self, data=self.data[:end], durable_end=min(self.durable_end, end), epochs=epochs)


@attrs.frozen
class Pair:
    """One state: nodes 0 and 1, of which `master` is the master. `replicas` are copied before they take an event."""

    replicas: tuple[CommitLogReplica, CommitLogReplica]
    disks: tuple[SmallDisk, SmallDisk] = (SmallDisk(), SmallDisk())
    master: int = 0
    dialed: int = 0
    """The slave's connection, 0 without one; the master knows it by the same number."""
    to_slave: tuple[HaMessage | None, ...] = ()
    """None ends the connection."""
    to_master: tuple[HaMessage | None, ...] = ()
    written: int = 0
    starts: int = 2
    cuts: int = 0
    promotions: int = 0


class RocketmqExplorer(Explorer[Pair, Action]):
    """The search of one scope."""

    def __init__(self, scope: RocketmqScope) -> None:
        super().__init__()
        self.scope = scope

    # ---------------------------------------------------------------- lives

    @staticmethod
    def _replica(node: int, disk: SmallDisk, start: int, *, is_master: bool) -> CommitLogReplica:
        config = ReplicationConfig(
            broker_id=0 if is_master else node + 1,
            sync_master=True,
            slave_timeout_s=NEVER_S,
            heartbeat_s=NEVER_S,
            silence_s_max=NEVER_S,
            push_bytes_max=1,
        )
        recovered = RecoveredCopy(0, len(disk.data), disk.durable_end, disk.epochs, disk.doubt, disk.slaves)
        return CommitLogReplica(config, "master" if is_master else "slave", recovered, 2**start)

    def _start(self, state: Pair, node: int) -> Pair:
        """A process of this node begins; the connection is gone, and the other end is told if it lives."""
        replica = self._replica(node, state.disks[node], state.starts, is_master=node == state.master)
        replicas = [*state.replicas]
        replicas[node] = replica
        other, connection = 1 - node, state.dialed
        state = attrs.evolve(
            state, replicas=(replicas[0], replicas[1]), starts=state.starts + 1, dialed=0, to_slave=(), to_master=()
        )
        if connection:
            state = self._step(state, other, HaConnectionClosed(connection))
        return self._carry_out(state, node, list(replica.begin(float(state.starts))))

    def starts(self) -> list[Pair]:
        """See `Explorer`."""
        empty = SmallDisk()
        first = self._replica(0, empty, 0, is_master=True), self._replica(1, empty, 1, is_master=False)
        state = Pair(first)
        for node in (0, 1):
            state = self._carry_out(state, node, list(state.replicas[node].begin(0.0)))
        return [state]

    # ---------------------------------------------------------------- what may happen

    def possible(self, state: Pair) -> Iterator[Action]:
        """See `Explorer`."""
        slave = state.replicas[1 - state.master].role
        if state.written < self.scope.records:
            yield ("put",)
        if state.to_slave:
            yield ("to slave",)
        if state.to_master:
            yield ("to master",)
        if isinstance(slave, Slave) and slave.connection is None:
            yield ("dial",)
        if isinstance(slave, Slave) and slave.diverges_at is not None:
            yield ("discard",)
        for node in (0, 1):
            disk = state.disks[node]
            if disk.durable_end < len(disk.data):
                yield ("flush", node)
            if state.cuts < self.scope.cuts:
                for kept in range(disk.durable_end, len(disk.data) + 1):
                    yield ("cut", node, kept)
                if disk.durable_end:
                    yield ("cut", node, 0)
        if state.promotions < self.scope.promotions:
            yield ("promote",)

    def after(self, state: Pair, action: Action) -> Pair:
        """See `Explorer`."""
        master, slave = state.master, 1 - state.master
        match action:
            case ("put",):
                number = state.written + 1
                state = attrs.evolve(state, written=number)
                return self._step(state, master, PutMessages(number, 1, bytes([number])))
            case ("to slave",):
                message = state.to_slave[0]
                state = attrs.evolve(state, to_slave=state.to_slave[1:])
                return self._arrives(state, slave, message)
            case ("to master",):
                message = state.to_master[0]
                state = attrs.evolve(state, to_master=state.to_master[1:])
                return self._arrives(state, master, message)
            case ("dial",):
                return self._step(state, slave, DeadlineReached())
            case ("discard",):
                return self._step(state, slave, DivergenceDiscarded())
            case ("flush", node):
                state = self._with_disk(
                    state, node, attrs.evolve(state.disks[node], durable_end=len(state.disks[node].data))
                )
                return self._step(state, node, CommitLogFlushed(len(state.disks[node].data)))
            case ("cut", node, kept):
                disk = state.disks[node].cut(kept)
                disk = attrs.evolve(
                    disk, durable_end=kept, doubt=CopyDoubt(), slaves=disk.slaves if kept else frozenset()
                )
                state = self._with_disk(state, node, disk)
                return self._start(attrs.evolve(state, cuts=state.cuts + 1), node)
            case ("promote",):
                state = attrs.evolve(
                    state, promotions=state.promotions + 1, master=slave, dialed=0, to_slave=(), to_master=()
                )
                return self._start(self._start(state, slave), master)
            case _:
                raise AssertionError(f"no such action: {action}")

    def _arrives(self, state: Pair, node: int, message: HaMessage | None) -> Pair:
        connection = state.dialed
        if message is not None:
            return self._step(state, node, Received(connection, message))
        state = attrs.evolve(state, dialed=0, to_slave=(), to_master=())
        return self._step(state, node, HaConnectionClosed(connection))

    # ---------------------------------------------------------------- steps

    @staticmethod
    def _with_disk(state: Pair, node: int, disk: SmallDisk) -> Pair:
        disks = [*state.disks]
        disks[node] = disk
        return attrs.evolve(state, disks=(disks[0], disks[1]))

    def _step(self, state: Pair, node: int, event: Event) -> Pair:
        """Let a copy take an event, and carry out what it orders."""
        replica = copy.deepcopy(state.replicas[node])
        now = replica.deadline if isinstance(event, DeadlineReached) else 0.0
        try:
            effects = list(replica.step(now, event))
        except AssertionError as error:
            raise BrokenPromise(f"invariant: {error}") from error
        replicas = [*state.replicas]
        replicas[node] = replica
        return self._carry_out(attrs.evolve(state, replicas=(replicas[0], replicas[1])), node, effects)

    def _carry_out(self, state: Pair, node: int, effects: list[Effect]) -> Pair:
        follow: list[tuple[int, Event]] = []
        for effect in effects:
            disk = state.disks[node]
            match effect:
                case AppendMessages(epoch=epoch, payload=payload):
                    assert isinstance(payload, bytes), "a record is a byte"
                    state = self._with_disk(state, node, disk.append(epoch, payload))
                case AppendPushed(epoch=epoch, payload=payload):
                    state = self._with_disk(state, node, disk.append(epoch, bytes(payload)))
                    if node != state.master:
                        self._check_copy(state)
                case TruncateCommitLog(end=end) | ResetCommitLog(start=end):
                    state = self._with_disk(state, node, disk.cut(end))
                case NoteSlave(slave_id=slave_id):
                    state = self._with_disk(state, node, attrs.evolve(disk, slaves=disk.slaves | {slave_id}))
                case DoubtBegan(doubt=doubt):
                    state = self._with_disk(state, node, attrs.evolve(disk, doubt=doubt))
                case DoubtEnded():
                    state = self._with_disk(state, node, attrs.evolve(disk, doubt=None, durable_end=len(disk.data)))
                case AnswerPut():
                    self._check_answer(state, effect)
                case Dial(connection=connection):
                    state = attrs.evolve(state, dialed=connection, to_slave=(), to_master=())
                    follow += [(state.master, Connected(connection)), (node, Connected(connection))]
                case SendMessage(message=message):
                    if isinstance(message, Welcome):
                        self._check_copy(state)
                    state = self._send(state, node, effect.connection, message)
                case CloseHaConnection(connection=connection):
                    state = self._send(state, node, connection, None)
                case PushLog():
                    end = min(effect.end_max, effect.offset + 1)
                    data = disk.data[effect.offset : end]
                    push = Push(effect.offset, effect.epoch, effect.confirm_offset, crc32c.crc32c(data), data)
                    state = self._send(state, node, effect.connection, push)
                    follow.append((node, Pushed(effect.connection, end)))
                case _:
                    pass
        for each, event in follow:
            state = self._step(state, each, event)
        return state

    @staticmethod
    def _send(state: Pair, node: int, connection: int, message: HaMessage | None) -> Pair:
        if connection != state.dialed:
            return state
        if node == state.master:
            return attrs.evolve(
                state, to_slave=(*state.to_slave, message), to_master=() if message is None else state.to_master
            )
        return attrs.evolve(
            state, to_master=(*state.to_master, message), to_slave=() if message is None else state.to_slave
        )

    # ---------------------------------------------------------------- promises

    @staticmethod
    def _check_copy(state: Pair) -> None:
        """Q2, Q3: who is welcome, or is pushed to, has a beginning of the master's log."""
        log, copied = state.disks[state.master].data, state.disks[1 - state.master].data
        if not log.startswith(copied):
            raise BrokenPromise(f"Q2 copy: the slave has {list(copied)}, and its master {list(log)}")

    @staticmethod
    def _check_answer(state: Pair, answer: AnswerPut) -> None:
        """Q1: what is acknowledged is on both disks, or was until power was lost."""
        byte = (answer.offset, answer.token)
        lacking = [node for node in (0, 1) if byte not in state.disks[node].held]
        if lacking and answer.status is SendStatus.SEND_OK:
            raise BrokenPromise(
                f"Q1 acknowledgement: record {answer.token} at {answer.offset} was never on node {lacking}"
            )

    # ---------------------------------------------------------------- states

    @staticmethod
    def _facts(replica: CommitLogReplica) -> tuple[Any, ...]:
        log, role = replica.log, replica.role
        facts = (log.log_end, log.flushed_end, log.confirm_offset, log.epochs.entries(), log.doubt)
        if isinstance(role, Master):
            slaves = tuple((each.slave_id, each.pushed_end, each.reported_end) for each in role.connections.values())
            return (*facts, slaves, role.is_blocked, role.waits.deadline, role.waits.first_end(2))
        return (*facts, role.is_connected, role.is_welcome, role.connection is None, role.diverges_at)

    def key(self, state: Pair) -> int:
        """See `Explorer`."""
        plain = attrs.astuple(attrs.evolve(state, dialed=bool(state.dialed)), recurse=False)
        facts = tuple(self._facts(replica) for replica in state.replicas)
        return hash((facts, repr(plain[1:3]), repr(plain[4:6]), plain[3], plain[6:]))

    def words(self, action: Action) -> str:
        """See `Explorer`."""
        return " ".join(map(str, action))
