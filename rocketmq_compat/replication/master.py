"""A replica that is the master: it appends records, pushes its log to slaves, and answers when a promise holds.

Rules, with their sources:

- Every start begins a new epoch at the log's end, which is recorded at once. In doubt about its log, a master first
  copies back the records of slaves (`copy_back`).
- A slave whose log is a beginning of this one is pushed the rest. If a slave's log goes on where this one ends, the
  master copies the rest back, as long as it has appended nothing since the start.
- A slave with any other log is refused. While it is refused, this master takes no records: two masters have each
  written records that the other one lacks. Taking the slave back, or `LossAccepted`, ends that.
- With `haDivergence=rocketmq` the logs are not compared (DefaultHAConnection): pushes wait until the log has passed the
  slave's end, and go on there, behind other bytes.
- An empty log, or one that ends before this one begins, is reset to this log's start.
- A report counts on the connection on which everything below it was pushed; a larger one closes it (#3015, #3016).
- Each slave counts once, by its newest connection: a handshake that comes late on an older one changes nothing. Only a
  broker that shook hands is a slave.
- Slaves are pushed unflushed records, too, as in RocketMQ: the master waits for flush and copies at the same time.
"""

import math
from collections.abc import Iterable
from typing import assert_never

import attrs
import crc32c

from rocketmq_compat.replication import acks
from rocketmq_compat.replication.acks import PutRefusal, PutWaits, SendStatus, WaitingPut
from rocketmq_compat.replication.copy_back import CopyBack, Source
from rocketmq_compat.replication.copy_log import CopyLog
from rocketmq_compat.replication.effects import (
    AdoptTables,
    AnswerPut,
    AppendMessages,
    AppendPushed,
    CloseHaConnection,
    CopyBackBegan,
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
)
from rocketmq_compat.replication.epochs import EpochTable, History, agreed_end
from rocketmq_compat.replication.events import PutMessages
from rocketmq_compat.replication.messages import (
    FetchBack,
    FromSlave,
    Handshake,
    HandshakeRefused,
    Heartbeat,
    Payload,
    Push,
    Report,
    Tables,
    TablesWanted,
    Welcome,
)
from rocketmq_compat.replication.model import (
    MASTER_ID,
    NO_EPOCH,
    CopyDoubt,
    LogReach,
    ReplicationConfig,
    ReplicationError,
)
from rocketmq_compat.replication.progress import SlaveProgress

OK = SendStatus.SEND_OK
DIVERGENCES_MAX = 64
"""So many slaves with other histories are remembered; others are refused, too, but not counted."""


class Master:
    """One start of a master. Every method adds its orders to `out`."""

    __slots__ = (
        "_config",
        "_incarnation",
        "_log",
        "accepts_loss",
        "connections",
        "copy_back",
        "divergences",
        "epoch",
        "slaves",
        "waits",
    )

    def __init__(
        self, config: ReplicationConfig, log: CopyLog, incarnation: int, slaves: frozenset[int] = frozenset()
    ) -> None:
        self._config = config
        self._log = log
        self._incarnation = incarnation
        self.epoch = NO_EPOCH
        """The master's epoch; NO_EPOCH while this copy is in doubt."""
        if config.divergence == "rocketmq":
            log.doubt = None
        self.copy_back = CopyBack(log, config.slaves_expected, set(slaves), config.silence_s_max)
        self.connections: dict[int, SlaveProgress] = {}
        self.slaves: list[SlaveProgress] = []
        """The connections of slaves that were welcomed, one a slave."""
        self.divergences: dict[int, DivergenceFound] = {}
        """By slave, where its log is known to leave this one."""
        self.accepts_loss = False
        self.waits = PutWaits()
        if log.doubt is None:
            self._begin_epoch()

    def _begin_epoch(self) -> None:
        log = self._log
        self.epoch = log.epochs.last + self._incarnation
        log.epochs.assign(self.epoch, log.log_end)

    def begin(self, now: float, out: list[Effect]) -> None:
        """Begin: settle the doubt if there is one, begin an epoch, and confirm."""
        self.copy_back.begin(now)
        self._settle(now, out)
        self._confirm(out)

    @property
    def is_blocked(self) -> bool:
        """True if it takes no records: an operator has to decide which log counts, or this log may be short."""
        return self._log.doubt is not None or (bool(self.divergences) and not self.accepts_loss)

    @property
    def is_in_doubt(self) -> bool:
        """True if this copy may lack records that it had."""
        return self._log.doubt is not None

    @property
    def deadline(self) -> float:
        """The time at which `time_passed` is due."""
        due = math.inf
        silence_s_max, heartbeat_s = self._config.silence_s_max, self._config.heartbeat_s
        for slave in self.connections.values():
            due = min(due, slave.heard_at + silence_s_max)
            if slave.is_taken:
                due = min(due, slave.sent_at + heartbeat_s)
        if self._log.doubt is not None and self.copy_back.source is None:
            due = min(due, self.copy_back.waits_until)
        return min(due, self.waits.deadline)

    # ------------------------------------------------------------ records of clients

    def _refusal(self, event: PutMessages) -> RefusePut | None:
        """Returns the refusal of these records, or None if they may be appended now."""
        if self.is_blocked:
            return RefusePut(event.token, PutRefusal.SERVICE_NOT_AVAILABLE, self._objection())
        config = self._config
        if event.wait and config.flavor == "5.x" and config.auto_in_sync_replicas:
            in_sync = self._in_sync()
            copies = acks.copies_needed(config, in_sync)
            if copies > in_sync:
                reason = f"in-sync replicas not enough: {in_sync} of {copies}"
                return RefusePut(event.token, PutRefusal.SYSTEM_ERROR, reason)
        return None

    def _in_sync(self) -> int:
        return acks.in_sync_copies(self._config, self._log.log_end, [each.reported_end for each in self.slaves])

    def put(self, event: PutMessages, now: float, out: list[Effect]) -> None:
        """Append records, unless something speaks against it, and answer when their promise holds."""
        if event.size <= 0:
            raise ReplicationError(f"records of {event.size} bytes")
        refusal = self._refusal(event)
        if refusal is not None:
            out.append(refusal)
            return
        config, log, slaves = self._config, self._log, self.slaves
        reports = [each.reported_end for each in slaves]
        copies = acks.copies_needed(config, acks.in_sync_copies(config, log.log_end, reports))
        offset = log.log_end
        log.log_end += event.size
        out.append(AppendMessages(offset, self.epoch, event.size, event.payload))
        flush = None if config.sync_flush and event.wait else OK
        stored = WaitingPut(event.token, offset, log.log_end, flush, self._copies_status(event, copies, reports))
        if stored.status is not None:
            out.append(AnswerPut(stored.token, stored.status, offset))
        else:
            self.waits.add(stored, now + config.sync_flush_timeout_s, copies, now + config.slave_timeout_s)
        for slave in slaves:
            self._push(slave, out)
        self._confirm(out)

    def _copies_status(self, event: PutMessages, copies: int, reports: list[int]) -> SendStatus | None:
        if copies <= 1 or not event.wait:
            return OK
        log_end = self._log.log_end
        if acks.copied_end(log_end, reports, copies) >= log_end:  # only where nothing is compared: as RocketMQ does
            return OK
        if self._config.flavor == "4.x" and not acks.is_slave_available(self._config, log_end, reports):
            return SendStatus.SLAVE_NOT_AVAILABLE
        return None

    def _objection(self) -> str:
        if self.is_in_doubt:
            return self.copy_back.objection
        found = max(self.divergences.values(), key=lambda each: each.lost_bytes)
        return (
            f"the log of slave {found.slave_id} leaves this master's at offset {found.agreed_end} and goes on for {found.lost_bytes} bytes: "
            "an operator must decide which of both counts"
        )

    def on_flushed(self, out: list[Effect]) -> None:
        """Answer records that waited for this flush, and confirm."""
        _answer(self.waits.take_flushed(self._log.flushed_end), out)
        self._confirm(out)

    def _on_reported(self, out: list[Effect]) -> None:
        reports = [each.reported_end for each in self.slaves]
        for copies in self.waits.copies_awaited:
            end = acks.copied_end(self._log.log_end, reports, copies)
            _answer(self.waits.take_copied(copies, end), out)
        self._confirm(out)

    def _confirm(self, out: list[Effect]) -> None:
        """Confirm the records that are on as many copies as they need now, and flushed here if they must be."""
        log = self._log
        reports = [each.reported_end for each in self.slaves]
        copies = acks.copies_needed(self._config, acks.in_sync_copies(self._config, log.log_end, reports))
        log.confirm(min(log.own_end, acks.copied_end(log.log_end, reports, copies)), out)

    # ------------------------------------------------------------ slaves

    def on_connected(self, connection: int, now: float) -> None:
        """Note an accepted connection, whose handshake is still to come."""
        self.connections[connection] = SlaveProgress(connection, now, now)

    def on_received(self, connection: int, message: FromSlave, now: float, out: list[Effect]) -> None:
        """Take a message of a slave, the first one or a later one."""
        slave = self.connections.get(connection)
        if slave is None:
            return
        slave.heard_at = now
        match message:
            case Handshake() if slave.is_taken or self.copy_back.reads_from(connection):
                self._close(slave, "a second handshake", out)
            case Handshake():
                self._handshake(slave, message, now, out)
            case Report() if not slave.is_taken:
                self._close(slave, "a report before a handshake", out)
            case Report(end=end) if end > slave.pushed_end:
                self._close(slave, f"reports {end}, and was pushed up to {slave.pushed_end}", out)
            case Report(end=end) if end < slave.reported_end:
                self._close(slave, f"reports {end} after {slave.reported_end}", out)
            case Report(end=end):
                slave.reported_end = end
                self._on_reported(out)
                self._push(slave, out)
            case Push():
                self._on_fetched(slave, message, now, out)
            case Tables(payload=payload):
                self._tables_came(slave, payload, now, out)
            case _:
                assert_never(message)

    def _handshake(self, slave: SlaveProgress, shake: Handshake, now: float, out: list[Effect]) -> None:
        objection = self._objection_to(shake)
        if objection is not None:
            self._refuse(slave, HandshakeRefused(objection), out)
            return
        source = self.copy_back.source
        lends = source.connection if source is not None and source.slave_id == shake.slave_id else None
        for other in [
            each for each in self.connections.values() if each.slave_id == shake.slave_id or each.connection == lends
        ]:
            if other.connection > slave.connection:
                self._close(slave, "the slave has a newer connection", out)
                return
            self._close(other, "the slave has a newer connection", out)
        log = self._log
        checks = self._config.divergence == "refuse"
        agreed = self._agreed_end(shake) if checks else shake.log_end
        if shake.log_end > agreed and shake.log_start < shake.log_end:
            if agreed == log.log_end and not self._has_appended:
                self._fetch_from(slave, shake, out)
                return
            if agreed == log.log_start > shake.log_start:
                agreed = shake.log_start  # none of what both hold agrees, and what has left this log cannot be compared
            self._on_diverged(slave, DivergenceFound(shake.slave_id, agreed, shake.log_end, not self.accepts_loss), out)
            return
        is_anew = shake.log_start == shake.log_end or shake.log_end < log.log_start
        self._welcome(slave, shake.slave_id, log.log_start if is_anew else shake.log_end, now, out)

    def _welcome(self, slave: SlaveProgress, slave_id: int, push_from: int, now: float, out: list[Effect]) -> None:
        if self.divergences.pop(slave_id, None) is not None:
            out.append(DivergenceEnded(slave_id))
        if slave_id not in self.copy_back.slaves and self._config.divergence == "refuse":
            self.copy_back.slaves.add(slave_id)
            out.append(NoteSlave(slave_id))
        slave.slave_id = slave_id
        slave.push_from = slave.pushed_end = push_from
        slave.sent_at = now
        self.slaves.append(slave)
        is_sure = not self.is_in_doubt
        out.append(SendMessage(slave.connection, Welcome(push_from, self._log.confirm_offset, is_sure)))
        self._on_compared(slave, now, out)
        self._push(slave, out)

    def _objection_to(self, shake: Handshake) -> str | None:
        config = self._config
        if shake.broker_name != config.broker_name:
            return f"this is {config.broker_name}, not {shake.broker_name}"
        if shake.slave_id == MASTER_ID:
            return "broker id 0 is the master's"
        if shake.checks_divergence != (config.divergence == "refuse"):
            return f"haDivergence is {config.divergence} here, and not there"
        return None

    def _agreed_end(self, shake: Handshake) -> int:
        log = self._log
        written = EpochTable(each for each in log.epochs.entries() if each.start < log.log_end)
        own = History(log.log_start, log.log_end, log.epochs if self._has_appended else written)
        return agreed_end(own, History.of(shake.log_start, shake.log_end, shake.epochs))

    def _on_diverged(self, slave: SlaveProgress, found: DivergenceFound, out: list[Effect]) -> None:
        known = self.divergences
        is_room = found.slave_id in known or len(known) < DIVERGENCES_MAX  # one alone stops this master
        if is_room and known.get(found.slave_id) != found:
            known[found.slave_id] = found
            out.append(found)
        reason = f"from offset {found.agreed_end} on, {found.lost_bytes} bytes are not the master's"
        self._refuse(slave, HandshakeRefused(reason, found.agreed_end), out)

    def _refuse(self, slave: SlaveProgress, refusal: HandshakeRefused, out: list[Effect]) -> None:
        out.append(SendMessage(slave.connection, refusal))
        self._close(slave, refusal.reason, out)

    def _close(self, slave: SlaveProgress, reason: str, out: list[Effect]) -> None:
        self.on_closed(slave.connection)
        out.append(CloseHaConnection(slave.connection, reason))

    def on_closed(self, connection: int) -> None:
        """Forget a connection that ended.

        Records that waited for its slave wait for another connection or another slave.
        """
        slave = self.connections.pop(connection, None)
        if slave is not None and slave.is_taken:
            self.slaves.remove(slave)
        self.copy_back.on_closed(connection)

    def loss_accepted(self, out: list[Effect]) -> None:
        """Take records from now on, in spite of diverging slaves, which stay refused."""
        if self.copy_back.source is not None:
            return
        self.accepts_loss = True
        if self.is_in_doubt:
            self._end_doubt(out)

    # ------------------------------------------------------------ what this copy lacks

    @property
    def _has_appended(self) -> bool:
        """Returns True if the log has records of this start."""
        return self.epoch != NO_EPOCH and self._log.reach.epoch == self.epoch

    def _fetch_from(self, slave: SlaveProgress, shake: Handshake, out: list[Effect]) -> None:
        """Copy back the slave's records behind the end of this log."""
        log, copy_back = self._log, self.copy_back
        if copy_back.source is not None:
            busy = f"this master copies back what slave {copy_back.source.slave_id} has: come again"
            self._refuse(slave, HandshakeRefused(busy), out)
            return
        copy_back.source = Source(slave.connection, shake.slave_id, shake.log_end)
        copy_back.compared.discard(shake.slave_id)
        self._doubt_up_to(LogReach(shake.epochs[-1].epoch if shake.epochs else NO_EPOCH, shake.log_end), out)
        if shake.slave_id not in copy_back.slaves:
            copy_back.slaves.add(shake.slave_id)
            out.append(NoteSlave(shake.slave_id))
        start = max(log.log_end, shake.log_start)
        if start != log.log_end:  # what lies between has left the slave by age
            log.reset(start)
            out.append(ResetCommitLog(start))
        out.append(CopyBackBegan(shake.slave_id, start, shake.log_end))
        out.append(SendMessage(slave.connection, FetchBack(start, shake.log_end)))

    def _doubt_up_to(self, seen: LogReach, out: list[Effect]) -> None:
        """Be sure no earlier than with all that another copy has shown, also if its connection breaks meanwhile."""
        log = self._log
        if log.doubt is None:
            log.doubt = CopyDoubt(seen)
            log.epochs.truncate(log.log_end)
            self.epoch = NO_EPOCH
        elif log.doubt.floor is not None and log.doubt.floor < seen:
            log.doubt = attrs.evolve(log.doubt, floor=seen)
        else:
            return
        out.append(DoubtBegan(seen, log.doubt))

    def _on_fetched(self, slave: SlaveProgress, push: Push, now: float, out: list[Effect]) -> None:
        log, source = self._log, self.copy_back.source
        objection = None
        if source is None or source.connection != slave.connection:
            objection = "a push that was not asked for"
        elif push.offset != log.log_end or push.offset + len(push.payload) > source.end:
            objection = f"a push at {push.offset}, of {len(push.payload)} bytes, into a log that ends at {log.log_end}"
        elif push.epoch < log.epochs.last:
            objection = f"a push of epoch {push.epoch} after {log.epochs.last}"
        elif crc32c.crc32c(push.payload) != push.crc:
            objection = f"the checksum of the push at {push.offset} is wrong"
        if objection is not None or source is None:
            self._close(slave, objection or "", out)
            return
        epoch = log.append(push.epoch, len(push.payload))
        out.append(AppendPushed(push.offset, epoch, push.payload))
        if log.log_end < source.end:
            out.append(SendMessage(slave.connection, FetchBack(log.log_end, source.end)))
        else:
            self.copy_back.source = None
            self._welcome(slave, source.slave_id, log.log_end, now, out)
        for other in self.slaves:
            self._push(other, out)
        self._confirm(out)

    def _on_compared(self, slave: SlaveProgress, now: float, out: list[Effect]) -> None:
        """Note a slave whose log has nothing that this one lacks, also for a doubt that begins later."""
        doubt = self._log.doubt
        if doubt is not None and doubt.lacks_tables and slave.slave_id not in self.copy_back.compared:
            slave.owes_tables = True
            out.append(SendMessage(slave.connection, TablesWanted()))
            return
        self.copy_back.compared.add(slave.slave_id)
        self._settle(now, out)

    def _tables_came(self, slave: SlaveProgress, payload: Payload, now: float, out: list[Effect]) -> None:
        if not slave.owes_tables:
            # The greater of two offsets counts, so unasked ones could move consumers past their messages.
            self._close(slave, "tables that were not asked for", out)
            return
        slave.owes_tables = False
        if self._log.doubt is None:
            return
        out.append(AdoptTables(payload))
        self.copy_back.compared.add(slave.slave_id)
        self._settle(now, out)

    def _settle(self, now: float, out: list[Effect]) -> None:
        if self.copy_back.is_settled(now):
            self._end_doubt(out)

    def _end_doubt(self, out: list[Effect]) -> None:
        """Begin an epoch, and take records."""
        log = self._log
        floor = log.doubt.floor if log.doubt is not None else None
        missing_bytes = 0 if floor is None or log.has_floor else max(0, floor.end - log.log_end)
        log.doubt = None
        out.append(DoubtEnded(log.log_end, missing_bytes))
        self._begin_epoch()
        out += [SendMessage(slave.connection, Heartbeat(log.confirm_offset)) for slave in self.slaves]

    # ------------------------------------------------------------ pushes

    def _push(self, slave: SlaveProgress, out: list[Effect]) -> None:
        log, start = self._log, slave.pushed_end
        if slave.is_pushing or start >= log.log_end:
            return
        if slave.unreported_bytes >= self._config.push_window_bytes:
            return
        if start < log.log_start:
            self._close(slave, f"what follows {start} has left this log", out)
            return
        slave.is_pushing = True
        end_max = log.epochs.next_start(start, log.log_end)
        out.append(PushLog(slave.connection, start, end_max, log.epochs.at(start), log.confirm_offset))

    def on_pushed(self, connection: int, end: int, now: float, out: list[Effect]) -> None:
        """Note that a push is on its way. Raises `ReplicationError` unless it is the ordered one."""
        slave = self.connections.get(connection)
        if slave is None:
            return
        if not slave.is_pushing or not slave.pushed_end < end <= self._log.log_end:
            raise ReplicationError(f"a push up to {end} on connection {connection} was not ordered")
        slave.is_pushing = False
        slave.pushed_end = end
        slave.sent_at = now
        self._push(slave, out)

    def time_passed(self, now: float, out: list[Effect]) -> None:
        """End waits and silent connections, and keep the others alive."""
        _answer(self.waits.take_expired(now), out)
        config = self._config
        for slave in list(self.connections.values()):
            if slave.heard_at + config.silence_s_max <= now:
                self._close(slave, "silent for too long", out)
            elif slave.is_taken and slave.sent_at + config.heartbeat_s <= now:
                slave.sent_at = now
                out.append(SendMessage(slave.connection, Heartbeat(self._log.confirm_offset, not self.is_in_doubt)))
        self._settle(now, out)  # the slave that it copied back from may be gone now


def _answer(puts: Iterable[WaitingPut], out: list[Effect]) -> None:
    for put in puts:
        assert put.status is not None, "a put is answered when it is decided"
        out.append(AnswerPut(put.token, put.status, put.offset))
