"""A master and its slaves with disks and connections in memory, around the real decider and the real codec.

A connection is ordered, as in TCP: the parcels on a link arrive in their order, or the connection ends. Offsets count
bytes; an append is text, so that logs can be read and compared.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import assert_never

import attrs
import crc32c

from log.values import frozen
from raft.net.errors import WireError
from rocketmq_compat.replication.acks import SendStatus
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
from rocketmq_compat.replication.epochs import EpochTable
from rocketmq_compat.replication.events import (
    CommitLogFlushed,
    Connected,
    DeadlineReached,
    Event,
    HaConnectionClosed,
    Pushed,
    PutMessages,
    Received,
)
from rocketmq_compat.replication.ha_codec import decode, encode, ha_decoder
from rocketmq_compat.replication.messages import HaMessage, Push, Tables
from rocketmq_compat.replication.model import CopyDoubt, LogReach, MasterEpoch, RecoveredCopy, ReplicationConfig

Link = tuple[int, int]


@attrs.define
class Disk:
    """A commit log: the bytes from `start`, the ends of its appends, its epochs, and notes about its past."""

    start: int = 0
    data: bytearray = attrs.field(factory=bytearray)
    ends: list[int] = attrs.field(factory=list)
    epochs: list[MasterEpoch] = attrs.field(factory=list)
    durable_end: int = 0
    doubt: CopyDoubt | None = None
    slaves: set[int] = attrs.field(factory=set)
    tables: set[str] = attrs.field(factory=set)

    @property
    def end(self) -> int:
        """The position of the next byte."""
        return self.start + len(self.data)

    def append(self, epoch: int, payload: bytes) -> None:
        """One append, in the page cache."""
        if not self.epochs or self.epochs[-1].epoch != epoch:
            self.epochs.append(MasterEpoch(epoch, self.end))
        self.data += payload
        self.ends.append(self.end)

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`."""
        return bytes(self.data[max(start - self.start, 0) : max(end - self.start, 0)])

    def push_end(self, offset: int, end_max: int, bytes_max: int) -> int:
        """The end of the whole appends from `offset` that fit, one at least."""
        ends = [end for end in self.ends if offset < end <= end_max] or [end_max]
        return max([end for end in ends if end - offset <= bytes_max], default=ends[0])

    def truncate(self, end: int) -> None:
        """Everything from `end` on is gone."""
        del self.data[max(end - self.start, 0) :]
        self.ends = [each for each in self.ends if each <= end]
        self.epochs = [each for each in self.epochs if each.start < end]
        self.durable_end = min(self.durable_end, self.end)

    def reset(self, start: int) -> None:
        """The log is empty and begins at `start`."""
        self.start, self.durable_end = start, start
        self.data.clear()
        self.ends.clear()
        self.epochs.clear()

    def trim(self, start: int) -> None:
        """The log begins at `start`."""
        del self.data[: start - self.start]
        self.start = start
        table = EpochTable(self.epochs)
        table.trim(start)
        self.epochs = list(table.entries())
        self.durable_end = max(self.durable_end, start)


@frozen
class Parcel:
    """On a link: a connection begins (`opens`), was made (`opened`), ends (`closes`), or carries bytes."""

    connection: int
    what: str
    data: bytes = b""
    message: str = ""


@attrs.define
class Node:
    """A broker. `names` are its connections by the replica's own number, both ways."""

    number: int
    config: ReplicationConfig
    disk: Disk = attrs.field(factory=Disk)
    replica: CommitLogReplica | None = None
    is_master: bool = False
    peers: dict[int, int] = attrs.field(factory=dict)
    """The node at the other end of each connection."""
    names: dict[int, int] = attrs.field(factory=dict)
    dials: dict[int, int] = attrs.field(factory=dict)


def _ignore(node: int, effect: Effect) -> None:
    pass


class World:
    """Node 1 is the master at first, the others are slaves."""

    def __init__(
        self,
        config: ReplicationConfig,
        slave_config: ReplicationConfig,
        slaves: int,
        hear: Callable[[int, Effect], None] = _ignore,
    ) -> None:
        self.now = 0.0
        self.master = 1
        self.token = 0
        self.cut: set[Link] = set()
        self.links: dict[Link, deque[Parcel]] = {}
        self.texts: dict[int, bytes] = {}
        self.answers: dict[int, AnswerPut | RefusePut] = {}
        self.flushes = True
        """If true, a record that needs a flush is flushed at once."""
        self._hear = hear
        self._connection = 0
        self.incarnations: Iterator[int] = (2**start for start in itertools.count())
        """Sums of different powers differ, so no two starts have the same epoch."""
        self._configs = {number: config if number == 1 else slave_config for number in range(1, slaves + 2)}
        self.nodes = {number: Node(number, config) for number in self._configs}

    def begin(self) -> None:
        """Start all."""
        for number in self.nodes:
            self.start(number)

    # ------------------------------------------------------------ lives

    def start(self, number: int) -> None:
        """A process begins with what is on its disk, in the role that it has now."""
        node = self.nodes[number]
        node.is_master = number == self.master
        broker_id = 0 if node.is_master else number
        node.config = attrs.evolve(self._configs[number], broker_id=broker_id)
        disk = node.disk
        node.replica = CommitLogReplica(
            node.config,
            "master" if node.is_master else "slave",
            RecoveredCopy(
                disk.start, disk.end, disk.durable_end, tuple(disk.epochs), disk.doubt, frozenset(disk.slaves)
            ),
            next(self.incarnations),
        )
        self._carry_out(node, list(node.replica.begin(self.now)))

    def stop(self, number: int, *, power: bool = False, keep: int | None = None) -> None:
        """Stop a process.

        A kill closes its connections; a loss of power gives no sign, and leaves `keep` of the unflushed bytes.
        """
        node = self.nodes[number]
        node.replica = None
        if power:
            node.disk.truncate(max(node.disk.durable_end, node.disk.durable_end if keep is None else keep))
            node.disk.durable_end = node.disk.end
            node.disk.doubt = CopyDoubt()
        else:
            for connection, peer in node.peers.items():
                self._post(number, peer, Parcel(connection, "closes"))
        node.peers.clear()
        node.names.clear()
        node.dials.clear()

    def wipe(self, number: int) -> None:
        """A disk is lost."""
        self.nodes[number].disk = Disk(doubt=CopyDoubt(lacks_tables=True))

    def shorten(self, number: int, end: int) -> None:
        """A log was damaged behind `end`, and is cut there; it is known how far it had come."""
        disk = self.nodes[number].disk
        floor = LogReach(disk.epochs[-1].epoch if disk.epochs else 0, disk.end)
        disk.truncate(end)
        disk.doubt = CopyDoubt(floor)

    # ------------------------------------------------------------ what happens

    def put(self, number: int, text: str, *, wait: bool = True) -> int:
        """A client sends a record. Returns its token."""
        self.token += 1
        data = text.encode()
        self.texts[self.token] = data
        self.step(number, PutMessages(self.token, len(data), data, wait))
        return self.token

    def step(self, number: int, event: Event) -> None:
        """A replica takes a fact."""
        node = self.nodes[number]
        assert node.replica is not None, f"node {number} is down"
        self._carry_out(node, list(node.replica.step(self.now, event)))

    def flush(self, number: int) -> None:
        """Everything on this disk is durable."""
        disk = self.nodes[number].disk
        disk.durable_end = disk.end
        if self.nodes[number].replica is not None:
            self.step(number, CommitLogFlushed(disk.end))

    def pass_time(self, seconds: float) -> None:
        """Time passes; what is due in it happens, nothing arrives."""
        until = self.now + seconds
        while True:
            due = [(node.replica.deadline, node.number) for node in self.nodes.values() if node.replica is not None]
            at, number = min(due, default=(until + 1, 0))
            if at > until:
                break
            self.now = max(self.now, at)
            self.step(number, DeadlineReached())
        self.now = until

    # ------------------------------------------------------------ the wire

    def _post(self, source: int, target: int, parcel: Parcel) -> None:
        if (source, target) not in self.cut:
            self.links.setdefault((source, target), deque()).append(parcel)

    def say(self, source: int, connection: int, message: HaMessage) -> None:
        """Put a message on a connection, also one that the replica has not ordered."""
        node = self.nodes[source]
        data = b"".join(encode(message))
        self._post(source, node.peers[connection], Parcel(connection, "carries", data, type(message).__name__))

    def deliver(self, source: int, target: int) -> bool:
        """The first parcel of a link arrives. Returns whether there was one."""
        queue = self.links.get((source, target))
        if not queue or (source, target) in self.cut:
            return False
        self._arrive(source, target, queue.popleft())
        return True

    def _arrive(self, source: int, target: int, parcel: Parcel) -> None:
        node, connection = self.nodes[target], parcel.connection
        match parcel.what:
            case "opens" if node.replica is not None and node.is_master:
                node.peers[connection] = source
                node.names[connection] = connection
                self._post(target, source, Parcel(connection, "opened"))
                self.step(target, Connected(connection))
            case _ if node.replica is None or connection not in node.peers:
                if parcel.what != "closes":
                    self._post(target, source, Parcel(connection, "closes"))
            case "opened":
                self.step(target, Connected(node.dials[connection]))
            case "closes":
                self._forget(node, connection)
                self.step(target, HaConnectionClosed(node.dials.get(connection, connection)))
            case "carries":
                self._carry(node, connection, parcel.data)
            case _:
                raise AssertionError(parcel)

    def _carry(self, node: Node, connection: int, data: bytes) -> None:
        decoder = ha_decoder()
        frames = decoder.feed(data)
        name = node.dials.get(connection, connection)
        try:
            if decoder.failure is not None:
                raise decoder.failure
            messages = [decode(frame) for frame in frames]
        except WireError:
            self._post(node.number, node.peers[connection], Parcel(connection, "closes"))
            self._forget(node, connection)
            self.step(node.number, HaConnectionClosed(name))
            return
        for message in messages:
            self.step(node.number, Received(name, message))

    def _forget(self, node: Node, connection: int) -> None:
        node.peers.pop(connection, None)
        node.names = {name: each for name, each in node.names.items() if each != connection}

    def stabilize(self, rounds: int = 10_000) -> None:
        """Everything arrives, and is flushed if it needs to be, until nothing is left to arrive."""
        for _ in range(rounds):
            if self.flushes:
                for node in self.nodes.values():
                    if node.replica is not None and node.config.sync_flush and node.disk.durable_end < node.disk.end:
                        self.flush(node.number)
            delivered = [self.deliver(*link) for link in list(self.links)]
            if not any(delivered):
                return
        raise AssertionError("messages without end")

    # ------------------------------------------------------------ orders

    def _carry_out(self, node: Node, effects: list[Effect]) -> None:
        events: list[Event] = []
        for effect in effects:
            self._hear(node.number, effect)
            self._one(node, effect, events)
        for event in events:
            self.step(node.number, event)

    def _one(self, node: Node, effect: Effect, events: list[Event]) -> None:
        disk = node.disk
        match effect:
            case AppendMessages():
                assert isinstance(effect.payload, bytes)
                assert effect.offset == disk.end
                disk.append(effect.epoch, effect.payload)
            case AppendPushed():
                assert effect.offset == disk.end
                disk.append(effect.epoch, bytes(effect.payload))
            case TruncateCommitLog(end=end):
                disk.truncate(end)
            case ResetCommitLog(start=start):
                disk.reset(start)
            case AnswerPut() | RefusePut():
                assert effect.token not in self.answers, f"{effect} comes after another answer"
                self.answers[effect.token] = effect
                self.on_answered(node, effect)
            case Dial(connection=name):
                self._connection += 1
                node.names[name] = self._connection
                node.dials[self._connection] = name
                node.peers[self._connection] = self.master
                self._post(node.number, self.master, Parcel(self._connection, "opens"))
            case SendMessage(connection=name, message=message):
                self.say(node.number, node.names[name], message)
            case PushLog():
                connection = node.names[effect.connection]
                end = disk.push_end(effect.offset, effect.end_max, node.config.push_bytes_max)
                data = disk.read(effect.offset, end)
                push = Push(effect.offset, effect.epoch, effect.confirm_offset, crc32c.crc32c(data), data)
                self.say(node.number, connection, push)
                events.append(Pushed(effect.connection, end))
            case CloseHaConnection(connection=name):
                if name in node.names:
                    connection = node.names[name]
                    self._post(node.number, node.peers[connection], Parcel(connection, "closes"))
                    self._forget(node, connection)
            case NoteSlave(slave_id=slave_id):
                disk.slaves.add(slave_id)
            case SendTables(connection=name):
                self.say(node.number, node.names[name], Tables("".join(sorted(disk.tables)).encode()))
            case AdoptTables(payload=payload):
                disk.tables |= set(bytes(payload).decode())
            case DoubtBegan(doubt=doubt):
                disk.doubt = doubt
            case DoubtEnded():
                disk.doubt = None
                disk.durable_end = disk.end
            case DivergenceFound() | DivergenceEnded() | ConfirmOffsetMoved() | CopyBackBegan():
                pass
            case _:
                assert_never(effect)

    def on_answered(self, node: Node, answer: AnswerPut | RefusePut) -> None:
        """For audits: a client is answered."""

    def has(self, number: int, offset: int, data: bytes, *, durable: bool = False) -> bool:
        """Returns True if a disk has these bytes at this offset."""
        disk = self.nodes[number].disk
        end = offset + len(data)
        return disk.read(offset, end) == data and (not durable or disk.durable_end >= end) and disk.start <= offset


def status(answer: AnswerPut | RefusePut | None) -> SendStatus | None:
    """Returns the status of an answer, or None without one, or for a refusal."""
    return answer.status if isinstance(answer, AnswerPut) else None
