"""The broker's copy of the commit log: carries out what `CommitLogReplica` orders, and reports to it what happened.

All writing goes through here. A put is appended just before the decider takes it, because the disk may be full: it is refused then, and the
decider never knew of it. Its outcome comes when the decider answers. With SYNC_FLUSH a flush begins whenever there is something to
flush, otherwise every `flushIntervalCommitLog`; it runs in the disk thread.

Any other order that cannot be carried out ends the broker, because the decider has counted on it already: a failed disk, or a full disk of
a slave.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, assert_never

import attrs
import crc32c

from log.errors import NoSpace
from log.frame import buffers_of
from raft.disk_thread import DiskThread
from rocketmq_compat.broker.context import BrokerContext
from rocketmq_compat.broker.puts import NotStored, PutDone, StoredMessages
from rocketmq_compat.remoting.headers.divergence import LogDivergence, divergences_text
from rocketmq_compat.replication.acks import PutRefusal
from rocketmq_compat.replication.core import CommitLogReplica
from rocketmq_compat.replication.effects import (
    AnswerPut,
    AppendMessages,
    AppendPushed,
    CloseHaConnection,
    ConfirmOffsetMoved,
    Dial,
    DivergenceEnded,
    DivergenceFound,
    Effect,
    PushLog,
    RefusePut,
    ResetCommitLog,
    SendMessage,
    TruncateCommitLog,
)
from rocketmq_compat.replication.events import (
    CommitLogFlushed,
    DeadlineReached,
    Event,
    HaConnectionClosed,
    Pushed,
    PutMessages,
)
from rocketmq_compat.replication.master import Master
from rocketmq_compat.replication.messages import HaMessage, Push
from rocketmq_compat.storage.broker_store import AppendedMessages
from rocketmq_compat.storage.dispatch import QueueRun


class HaLinks(Protocol):
    """The connections to the other copies, by the decider's numbers."""

    def dial(self, connection: int) -> None:
        """Connect to the master."""

    def send(self, connection: int, message: HaMessage) -> None:
        """Send a message, behind all earlier ones; ignored if the connection has closed."""

    def close(self, connection: int, reason: str) -> None:
        """Close a connection."""


PUSHED_BYTES_A_ROUND: Final = 256 * 1024
"""Read from the log for slaves before others have their turn: a slave that lacks much may be pushed MiB after MiB at once."""


@attrs.define(eq=False)
class _Put:
    records: Sequence[bytes]
    done: PutDone
    appended: AppendedMessages | None = None


class ReplicatedLog:
    """The decider with its hands: one for a broker."""

    def __init__(
        self,
        context: BrokerContext,
        decider: CommitLogReplica,
        disk: DiskThread,
        links: HaLinks,
        on_dispatched: Callable[[list[QueueRun]], None],
    ) -> None:
        """`on_dispatched` is called once a round with what consumers can see from then on."""
        self._context = context
        self._store = context.store
        self._decider = decider
        self._disk = disk
        self._links = links
        self._on_dispatched = on_dispatched
        self._puts: dict[int, _Put] = {}
        self._last_token = 0
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._flushing = False
        self._pushes: deque[PushLog] = deque()
        """Those that are ordered, and left for the next round."""
        self._pushed_bytes = 0
        """Of this round."""
        self._cuts = 0
        """How often the log was cut: a flush that began before tells nothing about what was appended since."""
        self._flush_every_s = context.properties.seconds("flushIntervalCommitLog")
        self._flush_due = math.inf

    # ---------------------------------------------------------------- what others ask for

    @property
    def deadline(self) -> float:
        """When `tick` is due."""
        if self._pushes:
            return 0.0
        return min(self._decider.deadline, self._flush_due if not self._flushing else math.inf)

    @property
    def slaves(self) -> Mapping[int, int]:
        """What each slave that this master has taken has reported: ends, by broker id; empty for a slave."""
        role = self._decider.role
        return {each.slave_id: each.reported_end for each in role.slaves} if isinstance(role, Master) else {}

    def facts(self) -> Mapping[str, object]:
        """Returns what is known of other copies, as operators are told: where logs diverge, and of a master which slaves it has taken, and
        whose logs leave its own.

        The ids of the brokers, with commas between them.
        """
        role, divergences = self._decider.role, {"divergences": divergences_text(self.divergences)}
        if not isinstance(role, Master):
            return divergences
        return {"slaves": _listed(self.slaves), "divergedSlaves": _listed(role.divergences), **divergences}

    @property
    def divergences(self) -> tuple[LogDivergence, ...]:
        """What slaves hold that their master does not have, by broker id: all that a master has seen, and of a slave its own."""
        role, config, log = self._decider.role, self._decider.config, self._decider.log
        if isinstance(role, Master):
            found = sorted(role.divergences.items())
            return tuple(LogDivergence(slave_id, each.agreed_end, each.slave_end) for slave_id, each in found)
        if role.diverges_at is None:
            return ()
        return (LogDivergence(config.broker_id, max(role.diverges_at, log.log_start), log.log_end),)

    @property
    def epoch(self) -> int:
        """The newest epoch in the log: a master's own."""
        return self._decider.log.epochs.last

    @property
    def confirmed(self) -> int:
        """Up to where the log is confirmed, as a slave: by what the master has told."""
        return self._decider.log.confirm_offset

    def begin(self) -> None:
        """Carry out the first orders."""
        self._carry_out(self._decider.begin(self._context.clock()))
        self._work()

    def put(self, records: Sequence[bytes], done: PutDone, *, wait: bool = True) -> None:
        """See `MessagePort`. Without `wait` neither flush nor slaves are waited for (the property WAIT of a message)."""
        self._last_token += 1
        self.step(PutMessages(self._last_token, sum(map(len, records)), _Put(records, done), wait))

    def step(self, event: Event) -> None:
        """Report a fact, and carry out what follows from it."""
        self._events.append(event)
        if not self._is_stepping:
            self._work()

    def tick(self, now: float) -> None:
        """Once a round: waits that are over, and what consumers can see now."""
        if self._decider.deadline <= now:
            self.step(DeadlineReached())
        self._pushed_bytes = 0
        while self._pushes and self._pushed_bytes < PUSHED_BYTES_A_ROUND:
            self._push(self._pushes.popleft())
            self._work()
        runs = self._store.dispatch()
        if runs:
            self._on_dispatched(runs)

    def flush_if_due(self, now: float) -> None:
        """Once a round, when what is urgent has left: begin a flush."""
        if self._flushing or not self._store.is_dirty:
            return
        if self._decider.config.sync_flush or self._flush_due <= now:
            self._begin_flush()
        elif self._flush_due == math.inf:
            self._flush_due = now + self._flush_every_s

    # ---------------------------------------------------------------- the work

    def _work(self) -> None:
        self._is_stepping = True
        try:
            while self._events:
                event = self._events.popleft()
                if not isinstance(event, PutMessages) or self._append(event):
                    self._carry_out(self._decider.step(self._context.clock(), event))
        finally:
            self._is_stepping = False

    def _append(self, event: PutMessages) -> bool:
        """Append the records of a put that the decider is going to take. Returns whether it may know of the put: not on a full disk."""
        put = event.payload
        assert isinstance(put, _Put), "a put is given back as it was given"
        role = self._decider.role
        if isinstance(role, Master) and self._decider.refusal(event) is None:
            try:
                put.appended = self._store.append(put.records, epoch=role.epoch)
            except NoSpace as error:
                put.done(NotStored(PutRefusal.SERVICE_NOT_AVAILABLE, f"the broker's disk is full: {error}"))
                return False
        self._puts[event.token] = put
        return True

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case AppendMessages(offset=offset, size=size, payload=payload):
                    assert isinstance(payload, _Put), "a put is given back as it was given"
                    assert payload.appended is not None, "it was appended before the decider knew of it"
                    assert payload.appended.end == offset + size, "the decider and the log differ"
                case AnswerPut(token=token, status=status):
                    put = self._puts.pop(token)
                    assert put.appended is not None, "only what was appended is answered"
                    put.done(StoredMessages(status, put.appended.physical_offsets, put.appended.queue_offsets))
                case RefusePut(token=token, code=code, reason=reason):
                    self._puts.pop(token).done(NotStored(code, reason))
                case AppendPushed(offset=offset, epoch=epoch, payload=pushed):
                    self._store.append_copy(pushed, offset=offset, epoch=epoch)
                case TruncateCommitLog(end=end):
                    self._cuts += 1
                    self._store.truncate(end)
                case ResetCommitLog(start=start):
                    self._cuts += 1
                    self._store.reset(start)
                case Dial(connection=connection):
                    self._links.dial(connection)
                case SendMessage(connection=connection, message=message):
                    self._links.send(connection, message)
                case PushLog():
                    self._push(effect)
                case CloseHaConnection(connection=connection, reason=reason):
                    self._links.close(connection, reason)
                    self._context.tell("ha_connection_closed", connection=connection, reason=reason)
                case DivergenceFound():
                    self._context.tell(
                        "divergence",
                        slave=effect.slave_id,
                        agreed_end=effect.agreed_end,
                        slave_end=effect.slave_end,
                        lost_bytes=effect.lost_bytes,
                        blocks=effect.blocks,
                    )
                case DivergenceEnded(slave_id=slave_id):
                    self._context.tell("divergence_ended", slave=slave_id)
                case ConfirmOffsetMoved():
                    pass  # consumers see what is stored, as RocketMQ's do
                case _:
                    assert_never(effect)

    def _push(self, order: PushLog) -> None:
        if self._pushed_bytes >= PUSHED_BYTES_A_ROUND:
            self._pushes.append(order)
            return
        if order.offset < self._store.log.start_offset:  # it has left since the order
            self._links.close(order.connection, "the log was trimmed")
            self._events.append(HaConnectionClosed(order.connection))
            return
        batches = self._store.log.read(order.offset, self._decider.config.push_bytes_max, order.end_max)
        payload = b"".join(buffer for each in batches for buffer in buffers_of(each.payload))
        message = Push(order.offset, order.epoch, order.confirm_offset, crc32c.crc32c(payload), payload)
        self._links.send(order.connection, message)
        self._pushed_bytes += len(payload)
        self._events.append(Pushed(order.connection, order.offset + len(payload)))

    # ---------------------------------------------------------------- flushes

    def _begin_flush(self) -> None:
        self._flushing = True
        self._flush_due = math.inf
        flush = self._store.begin_flush()
        cuts = self._cuts

        def done(error: BaseException | None) -> None:
            self._flushing = False
            if error is not None:
                raise error
            durable_end = self._store.end_flush(flush)
            if cuts == self._cuts:
                self.step(CommitLogFlushed(durable_end))

        self._disk.submit(flush.run, done)


def _listed(ids: Iterable[int]) -> str:
    return ",".join(map(str, sorted(ids)))
