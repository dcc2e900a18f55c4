"""The broker's copy of the commit log: carries out the orders of `CommitLogReplica`, and reports the results to it.

All writing goes through here. The puts of a round are one put to the decider, so that they share one write and one push
to each slave. The disk reserves room for them before the decider takes them; if it is full they are refused, and the
decider never learns of them. The decider then orders the append, and answers when the promise holds. With SYNC_FLUSH a
flush begins whenever there is something to flush, otherwise every `flushIntervalCommitLog`. Flushes run in the disk
thread.

This module writes the notes for the next start (`copy_notes`). It notes the end of the log after every round, before it
is published. It notes durably and at once a new slave, and the beginning and end of a doubt about this copy. While a
master is in doubt, clients are refused (`when_sure`).

Any other order that cannot be carried out ends the broker, because the decider already counts on it: a failed disk, or
a full disk of a slave.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, assert_never

import attrs
import crc32c

from log.errors import NoSpace
from log.frame import Buffer
from rocketmq_compat.broker.context import Context, DiskWork
from rocketmq_compat.broker.full_disk import FullDiskNotes
from rocketmq_compat.broker.put_groups import PutGroup, PutGroups
from rocketmq_compat.broker.puts import PutDone
from rocketmq_compat.broker.tables import Saved
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.headers.divergence import LogDivergence, divergences_text
from rocketmq_compat.remoting.session import Handler, RemotingCall
from rocketmq_compat.replication.acks import PutRefusal
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
    DeadlineReached,
    Event,
    HaConnectionClosed,
    Pushed,
    PutMessages,
    Received,
)
from rocketmq_compat.replication.ha_codec import FRAME_BYTES_MAX
from rocketmq_compat.replication.master import Master
from rocketmq_compat.replication.messages import HaMessage, Push, Tables
from rocketmq_compat.replication.model import MASTER_ID, CopyDoubt
from rocketmq_compat.storage.dispatch import BadRecord, QueueRun

SLAVE_LACKS: Final = "this slave has not copied yet all that its master has"
"""The doubt that a slave reports: as a master it would wait for another copy."""


class HaLinks(Protocol):
    """The connections to the other copies, by the decider's numbers."""

    def dial(self, connection: int) -> None:
        """Connect to the master."""

    def send(self, connection: int, message: HaMessage) -> None:
        """Send a message, behind all earlier ones; ignored if the connection has closed."""

    def close(self, connection: int, reason: str) -> None:
        """Close a connection."""


TABLES_SENT_MAX: Final = FRAME_BYTES_MAX - 1024
SERVED_IN_DOUBT: Final = frozenset(
    {
        RequestCode.DECIDE_DIVERGENCE,
        RequestCode.PROVE_MEMBERSHIP,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.UPDATE_BROKER_CONFIG,
    }
)
"""The requests of operators."""
UNANSWERED_IN_DOUBT: Final = frozenset({RequestCode.QUERY_CONSUMER_OFFSET})
"""Old clients take any refusal as a new group, and begin at the end or the beginning.

A lost connection makes them ask again.
"""
ENDS_GATHERING: Final = frozenset({RequestCode.DELETE_TOPIC_IN_BROKER})
"""Messages that came before such a request are stored before it is carried out."""
NOTE_AGAIN_S: Final = 1.0
PUSHED_BYTES_A_ROUND: Final = 256 * 1024
"""The bytes read from the log for slaves in one turn: a slave that lacks much may be pushed MiB after MiB at once."""


class CopiedTables(Protocol):
    """Topics, groups and offsets, which are not in the log."""

    def payload(self) -> bytes:
        """Returns them for a master that has lost its own."""

    def adopt(self, payload: bytes) -> None:
        """Add the tables of a slave. Raises `BadBody` for malformed ones."""

    def save(self, done: Saved) -> None:
        """Make them last; `done` is called with None when they do, or with the reason if they do not."""


@attrs.define
class _Due:
    """The times of what is put off: a flush, and a second attempt to note the end of a doubt, which lacked room."""

    flush: float = math.inf
    note: float = math.inf


class ReplicatedLog:
    """The decider with its hands: one for a broker."""

    def __init__(
        self,
        context: Context,
        decider: CommitLogReplica,
        disk: DiskWork,
        links: HaLinks,
        on_dispatched: Callable[[list[QueueRun]], None],
        tables: CopiedTables,
    ) -> None:
        """`on_dispatched` is called once a round with the runs that have become visible to consumers."""
        self._tables = tables
        self._context = context
        self._store = context.store
        self._decider = decider
        self._disk = disk
        self._links = links
        self._on_dispatched = on_dispatched
        self._full_disk = FullDiskNotes(context)
        self._puts = PutGroups()
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._flushing = False
        self._pushes: deque[PushLog] = deque()
        """The ordered pushes that are left for the next round."""
        self._pushed_bytes = 0
        """Of this round."""
        self._due = _Due()

    # ---------------------------------------------------------------- what others ask for

    @property
    def deadline(self) -> float:
        """The time at which `tick` is due."""
        if self._pushes or self._puts.are_waiting:
            return 0.0
        return min(self._decider.deadline, self._due.note, self._due.flush if not self._flushing else math.inf)

    @property
    def slaves(self) -> Mapping[int, int]:
        """The reported ends of each slave that this master has taken, by broker id; empty for a slave."""
        role = self._decider.role
        return {each.slave_id: each.reported_end for each in role.slaves} if isinstance(role, Master) else {}

    def facts(self) -> Mapping[str, object]:
        """Returns facts about other copies, for operators: where logs diverge.

        A master adds the slaves that it has taken and the slaves whose logs diverge, as broker ids with commas between
        them.
        """
        role = self._decider.role
        doubt = self.objection or ("" if self._decider.log.doubt is None else SLAVE_LACKS)
        divergences = {"divergences": divergences_text(self.divergences), "doubt": doubt}
        if not isinstance(role, Master):
            return divergences
        return {"slaves": _join_ids(self.slaves), "divergedSlaves": _join_ids(role.divergences), **divergences}

    @property
    def divergences(self) -> tuple[LogDivergence, ...]:
        """The divergent ends of slaves, by broker id: a master returns all that it has seen, and a slave its own."""
        role, config, log = self._decider.role, self._decider.config, self._decider.log
        if isinstance(role, Master):
            found = sorted(role.divergences.items())
            own = () if log.doubt is None else (self._lacking(log.doubt, log.log_end),)
            return (*own, *(LogDivergence(slave_id, each.agreed_end, each.slave_end) for slave_id, each in found))
        if role.diverges_at is None:
            return ()
        return (LogDivergence(config.broker_id, max(role.diverges_at, log.log_start), log.log_end),)

    @staticmethod
    def _lacking(doubt: CopyDoubt, end: int) -> LogDivergence:
        """Returns the loss that a master may have suffered, under its own id."""
        return LogDivergence(MASTER_ID, end, end if doubt.floor is None else max(end, doubt.floor.end))

    @property
    def objection(self) -> str | None:
        """The reason why this master refuses clients: it may lack records that it had.

        None if it serves, and for a slave.
        """
        role = self._decider.role
        return role.copy_back.objection if isinstance(role, Master) and role.is_in_doubt else None

    @property
    def is_copying_back(self) -> bool:
        """True if a slave is giving this master its missing records."""
        role = self._decider.role
        return isinstance(role, Master) and role.copy_back.source is not None

    def when_sure(self, code: int, handler: Handler) -> Handler:
        """Returns a handler of this request that refuses clients while this master is in doubt."""
        if code in SERVED_IN_DOUBT:
            return handler
        ends_gathering = code in ENDS_GATHERING

        def serve(call: RemotingCall) -> None:
            if ends_gathering:
                self._store_gathered()
            objection = self.objection
            if objection is None:
                handler(call)
            elif code in UNANSWERED_IN_DOUBT:
                call.connection.close(objection)
            else:
                call.refuse(ResponseCode.SERVICE_NOT_AVAILABLE, objection)

        return serve

    @property
    def epoch(self) -> int:
        """The newest epoch in the log: a master's own."""
        return self._decider.log.epochs.last

    @property
    def confirmed(self) -> int:
        """The end of the confirmed log, as the master reported it to this slave."""
        return self._decider.log.confirm_offset

    def begin(self) -> None:
        """Carry out the first orders."""
        self._note_reach()
        self._carry_out(self._decider.begin(self._context.clock()))
        self._work()

    def put(self, records: Sequence[bytes], done: PutDone, *, wait: bool = True) -> None:
        """Store records (see `MessagePort`), together with the other puts of this round.

        Without `wait` the answer waits neither for the flush nor for slaves (the property WAIT of a message).
        """
        self._puts.gather(records, done, wait=wait)
        if not self._puts.is_gathering:
            self._store_gathered()

    def _store_gathered(self) -> None:
        for event in self._puts.take_all():
            self.step(event)

    def step(self, event: Event) -> None:
        """Report a fact, and carry out its consequences."""
        self._events.append(event)
        if not self._is_stepping:
            self._work()

    def tick(self, now: float) -> None:
        """Once a round: store its puts, end waits whose time is over, push the log, and dispatch to consumers."""
        self._puts.is_gathering = False
        if self._puts.are_waiting:
            self._store_gathered()
        self._report_flushed()
        if self._decider.deadline <= now:
            self.step(DeadlineReached())
            self._report_flushed()
        if self._due.note <= now:
            self._note_sure()
        self._pushed_bytes = 0
        while self._pushes and self._pushed_bytes < PUSHED_BYTES_A_ROUND:
            self._push(self._pushes.popleft())
            self._work()
        self._note_reach()
        runs = self._store.dispatch()
        if runs:
            self._on_dispatched(runs)

    def _report_flushed(self) -> None:
        """Report what else has become durable: by a cut, or the deletion of a topic, or the end of a doubt."""
        durable_end = self._store.log.durable_offset
        if durable_end > self._decider.log.flushed_end:
            self.step(CommitLogFlushed(durable_end))

    def _note_reach(self) -> None:
        log = self._store.log
        self._store.copy.note_reach(log.last_epoch, log.end_offset)

    def flush_if_due(self, now: float) -> None:
        """Once a round, after urgent bytes have left: begin a flush if it is due."""
        self._puts.is_gathering = True
        if self._flushing:
            return
        if not self._store.is_dirty:
            self._due.flush = math.inf  # the end of a doubt, or a deletion, has flushed it meanwhile
        elif self._decider.config.sync_flush or self._due.flush <= now:
            self._begin_flush()
        elif self._due.flush == math.inf:
            self._due.flush = now + self._context.properties.seconds("flushIntervalCommitLog")

    # ---------------------------------------------------------------- the work

    def _work(self) -> None:
        self._is_stepping = True
        now = self._context.clock()
        try:
            while self._events:
                event = self._events.popleft()
                if self._has_room(event):
                    self._carry_out(self._decider.step(now, event))
        finally:
            self._is_stepping = False

    def _has_room(self, event: Event) -> bool:
        """Reserve room for what an event may append. Returns False if the decider must not see it."""
        match event:
            case PutMessages():
                return self._may_put(event)
            case Received(connection=connection, message=Push(payload=payload)):
                return self._may_take(connection, len(payload))
            case _:
                return True

    def _may_take(self, connection: int, size: int) -> bool:
        """Without room for a push its connection ends: after the next dial it is sent again."""
        try:
            self._store.reserve_bytes(size)
        except NoSpace as error:
            self._full_disk.note(error)
            self._links.close(connection, "there is no room for its push")
            self._events.append(HaConnectionClosed(connection))
            return False
        return True

    def _may_put(self, event: PutMessages) -> bool:
        """Reserve room for a group of puts, behind all that is in the log now.

        Returns False if the decider must not see the group: the disk is full, or a record is malformed.
        """
        group = event.payload
        assert isinstance(group, PutGroup), "puts come as a group"
        try:
            group.messages = self._store.assign(group.records)
            self._store.reserve(group.messages)
        except NoSpace as error:
            self._full_disk.note(error)
            group.refuse(PutRefusal.SERVICE_NOT_AVAILABLE, f"the broker's disk is full: {error}")
            return False
        except BadRecord as error:
            if len(group.puts) == 1:
                group.refuse(ResponseCode.MESSAGE_ILLEGAL, f"the message is illegal: {error}")
            else:  # each by itself: the others are stored
                for put in group.puts:
                    self.step(self._puts.join([put]))
            return False
        self._puts.open(event.token, group)
        return True

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case AppendMessages(epoch=epoch, payload=group):
                    assert isinstance(group, PutGroup), "a group is given back as it was given"
                    self._store.append_messages(group.messages, epoch=epoch)
                case AnswerPut(token=token, status=status):
                    self._puts.close(token).answer(status)
                case ConfirmOffsetMoved():
                    pass  # consumers see what is stored, as RocketMQ's do
                case PushLog():
                    self._push(effect)
                case AppendPushed(offset=offset, epoch=epoch, payload=pushed):
                    self._store.append_copy(pushed, offset=offset, epoch=epoch)
                case SendMessage(connection=connection, message=message):
                    self._links.send(connection, message)
                case RefusePut(token=token, code=code, reason=reason):
                    self._puts.close(token).refuse(code, reason)
                case TruncateCommitLog(end=end):
                    self._store.truncate(end)
                case ResetCommitLog(start=start):
                    self._store.reset(start)
                case Dial(connection=connection):
                    self._links.dial(connection)
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
                case NoteSlave(slave_id=slave_id):
                    self._store.copy.change(lambda notes: attrs.evolve(notes, slaves=notes.slaves | {slave_id}))
                case DoubtBegan(floor=floor, doubt=doubt):
                    self._store.copy.change(lambda notes: attrs.evolve(notes, doubt=doubt))
                    self._context.tell("copy_in_doubt", log_end=self._store.log.end_offset, floor=floor.end)
                case CopyBackBegan():
                    self._context.tell("copy_back_began", slave=effect.slave_id, start=effect.start, end=effect.end)
                case SendTables(connection=connection):
                    payload = self._tables.payload()
                    if len(payload) > TABLES_SENT_MAX:
                        self._links.close(connection, f"tables of {len(payload)} bytes")
                        self._events.append(HaConnectionClosed(connection))
                    else:
                        self._links.send(connection, Tables(payload))
                case AdoptTables(payload=payload):
                    self._adopt(payload)
                case DoubtEnded():
                    self._end_doubt(effect)
                case _:
                    assert_never(effect)

    def _adopt(self, payload: Buffer) -> None:
        self._store.dispatch()  # else delay offsets would seem to be beyond the ends of their queues, and be cut
        try:
            self._tables.adopt(bytes(payload))
        except BadBody as error:
            self._context.tell("tables_refused", reason=str(error))

    def _end_doubt(self, news: DoubtEnded) -> None:
        """Make the records that were copied back durable, and then note the end of the doubt."""
        self._store.flush()
        self._note_sure()
        self._context.tell("copy_is_sure", end=news.end, missing_bytes=news.missing_bytes)
        if isinstance(self._decider.role, Master):
            self._context.tell("role", role="master", epoch=self.epoch, broker=self._context.broker_name)

    def _note_sure(self) -> None:
        """Note the end of a doubt once the tables will last, again and again without room for them."""
        self._due.note = math.inf

        def on_saved(failure: str | None) -> None:
            if failure is not None:
                self._due.note = self._context.clock() + NOTE_AGAIN_S
            elif self._decider.log.doubt is None:
                self._store.copy.change(lambda notes: attrs.evolve(notes, doubt=None))

        self._tables.save(on_saved)

    def _push(self, order: PushLog) -> None:
        if self._pushed_bytes >= PUSHED_BYTES_A_ROUND:
            self._pushes.append(order)
            return
        if order.offset < self._store.log.start_offset:  # it has left since the order
            self._links.close(order.connection, "the log was trimmed")
            self._events.append(HaConnectionClosed(order.connection))
            return
        config = self._decider.config
        payload = b"".join(self._store.log.read_payloads(order.offset, config.push_bytes_max, order.end_max))
        message = Push(order.offset, order.epoch, order.confirm_offset, crc32c.crc32c(payload), payload)
        self._links.send(order.connection, message)
        self._pushed_bytes += len(payload)
        self._events.append(Pushed(order.connection, order.offset + len(payload)))

    # ---------------------------------------------------------------- flushes

    def _begin_flush(self) -> None:
        self._flushing = True
        self._due.flush = math.inf
        flush = self._store.begin_flush()

        def on_flushed(error: BaseException | None) -> None:
            self._flushing = False
            if error is not None:
                raise error
            self.step(CommitLogFlushed(self._store.end_flush(flush)))

        self._disk.submit(flush.run, on_flushed)


def _join_ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, sorted(ids)))
