"""A replica that is a slave: it dials its master, appends the pushed records, and reports the end of its log.

Rules, with their sources:

- A push continues this log exactly, of no older epoch (unless nothing is compared, `haDivergence=rocketmq`), with the
  checksum of its bytes. Otherwise the connection is closed, and dialed again after a while
  (DefaultHAClient.dispatchReadRequest, without epoch and checksum).
- With SYNC_FLUSH only flushed records are reported, else all records in the page cache.
- A log with bytes is never dropped because of a master, unless the master's log begins behind its end.
- Only an operator's decision gives up bytes that the master lacks. A master that has lost them may fetch them.
- A slave in doubt about its log (`CopyDoubt`) follows as any other. It is sure again when it has come as far as it ever
  was, or has all records of a master that was sure of its own log. An operator may have started the slave as a master
  before.
- It is never promoted by itself: an operator starts it as a master.
"""

import math
from typing import assert_never

import attrs
import crc32c

from rocketmq_compat.replication.copy_log import CopyLog
from rocketmq_compat.replication.effects import (
    AppendPushed,
    CloseHaConnection,
    Dial,
    DoubtEnded,
    Effect,
    PushLog,
    ResetCommitLog,
    SendMessage,
    SendTables,
    TruncateCommitLog,
)
from rocketmq_compat.replication.messages import (
    FetchBack,
    FromMaster,
    Handshake,
    HandshakeRefused,
    Heartbeat,
    Push,
    Report,
    TablesWanted,
    Welcome,
)
from rocketmq_compat.replication.model import EPOCHS_MAX, ReplicationConfig


@attrs.define
class Slave:
    """One start of a slave. Every method adds its orders to `out`.

    At most one of two is set: `connection` is being made or used, or the next is due at `retry_at`. `is_welcome` is
    true after the master's answer. `diverges_at` is where the master found a divergence, until an operator decides.
    """

    config: ReplicationConfig
    log: CopyLog
    dials: int = 0
    connection: int | None = None
    is_connected: bool = False
    is_welcome: bool = False
    retry_at: float = math.inf
    heard_at: float = 0.0
    sent_at: float = 0.0
    reported_end: int = 0
    diverges_at: int | None = None
    sure_end: int | None = None
    """The end of the log of a master that was sure of it, on this connection."""
    has_tables: bool = True
    is_lending: bool = False
    """True while a `PushLog` for the master is ordered, and `Pushed` has not been reported."""

    def __attrs_post_init__(self) -> None:
        """Take the state of the disk at the restart."""
        if self.config.divergence == "rocketmq":
            self.log.doubt = None
        self.has_tables = self.log.doubt is None or not self.log.doubt.lacks_tables

    @property
    def deadline(self) -> float:
        """The time at which `time_passed` is due."""
        if self.connection is None:
            return self.retry_at
        silence = self.heard_at + self.config.silence_s_max
        return min(silence, self.sent_at + self.config.heartbeat_s) if self.is_welcome else silence

    def dial(self, now: float, out: list[Effect]) -> None:
        """Begin a new connection."""
        self.dials += 1
        self.connection = self.dials
        self.is_connected = self.is_welcome = self.is_lending = False
        self.sure_end = None
        self.retry_at = math.inf
        self.heard_at = self.sent_at = now
        out.append(Dial(self.connection))

    def on_connected(self, connection: int, now: float, out: list[Effect]) -> None:
        """Send the handshake, with this broker's identity and the history of its log."""
        if connection != self.connection or self.is_connected:
            return
        self.is_connected = True
        self.heard_at = self.sent_at = now
        log, config = self.log, self.config
        epochs = log.epochs.entries()[-EPOCHS_MAX:]
        checks = config.divergence == "refuse"
        shake = Handshake(config.broker_name, config.broker_id, checks, log.log_start, log.log_end, epochs)
        out.append(SendMessage(connection, shake))

    def on_received(self, connection: int, message: FromMaster, now: float, out: list[Effect]) -> None:
        """Take a message of the master."""
        if connection != self.connection or not self.is_connected:
            return
        self.heard_at = now
        match message:
            case HandshakeRefused(reason=reason, agreed_end=agreed):
                if 0 <= agreed <= self.log.log_end:  # an operator may have this log cut there
                    self.diverges_at = agreed
                self._give_up(f"refused: {reason}", now, out)
            case Welcome() if self.is_welcome:
                self._give_up("a second welcome", now, out)
            case Welcome():
                self._welcome(message, now, out)
            case Push() | Heartbeat() if not self.is_welcome:
                self._give_up("a push before a welcome", now, out)
            case Push():
                self._on_pushed(message, now, out)
            case Heartbeat(confirm_offset=confirm):
                self.log.confirm(confirm, out)
                self._note_sure(confirm, out, is_sure=message.is_sure)
            case FetchBack():
                self._lend(message, now, out)
            case TablesWanted():
                out.append(SendTables(connection))
            case _:
                assert_never(message)

    def _welcome(self, message: Welcome, now: float, out: list[Effect]) -> None:
        log, start = self.log, message.push_from
        if start != log.log_end:
            if log.log_start < log.log_end and start < log.log_end:
                self._give_up(f"the master would push from {start} into a log that ends at {log.log_end}", now, out)
                return
            log.reset(start)
            out.append(ResetCommitLog(start))
        self.is_welcome = True
        self.diverges_at = None
        log.confirm(message.confirm_offset, out)
        self._note_sure(message.confirm_offset, out, is_sure=message.is_sure)
        self._report(now, out)

    def _lend(self, fetch: FetchBack, now: float, out: list[Effect]) -> None:
        """Push the part of this log that the master asks for."""
        log = self.log
        is_here = log.log_start <= fetch.offset < fetch.end <= log.log_end
        if self.is_welcome or self.is_lending or not is_here:
            self._give_up(f"a fetch from {fetch.offset} to {fetch.end} that cannot be served", now, out)
            return
        assert self.connection is not None, "who fetches has a connection"
        self.is_lending = True
        end_max = min(fetch.end, log.epochs.next_start(fetch.offset, log.log_end))
        epoch = log.epochs.at(fetch.offset)
        out.append(PushLog(self.connection, fetch.offset, end_max, epoch, log.confirm_offset))

    def on_lent(self, connection: int, now: float) -> None:
        """Note that a push to the master is on its way."""
        if connection == self.connection:
            self.is_lending = False
            self.sent_at = now

    def _note_sure(self, end: int, out: list[Effect], *, is_sure: bool) -> None:
        if is_sure and self.sure_end is None:
            self.sure_end = end
        self._settle(out)

    def tables_copied(self, out: list[Effect]) -> None:
        """Note that topics, groups and offsets were copied from the master."""
        self.has_tables = True
        self._settle(out)

    def _settle(self, out: list[Effect]) -> None:
        """End a doubt once the copy is complete."""
        log = self.log
        has_all = log.has_floor or (self.is_welcome and self.sure_end is not None and log.log_end >= self.sure_end)
        if log.doubt is not None and self.has_tables and has_all:
            floor = log.doubt.floor
            missing_bytes = 0 if floor is None or log.has_floor else max(0, floor.end - log.log_end)
            log.doubt = None
            out.append(DoubtEnded(log.log_end, missing_bytes))

    def _on_pushed(self, push: Push, now: float, out: list[Effect]) -> None:
        log = self.log
        objection = None
        if push.offset != log.log_end:
            objection = f"a push at {push.offset} into a log that ends at {log.log_end}"
        elif push.epoch < log.epochs.last and self.config.divergence == "refuse":
            objection = f"a push of epoch {push.epoch} after {log.epochs.last}"
        elif crc32c.crc32c(push.payload) != push.crc:
            objection = f"the checksum of the push at {push.offset} is wrong"
        if objection is not None:
            self._give_up(objection, now, out)
            return
        epoch = log.append(push.epoch, len(push.payload))
        out.append(AppendPushed(push.offset, epoch, push.payload))
        log.confirm(push.confirm_offset, out)
        self._settle(out)
        if not log.sync_flush:
            self._report(now, out)

    def on_flushed(self, now: float, out: list[Effect]) -> None:
        """Report the flushed end."""
        if self.is_welcome:
            self._report(now, out)

    def _report(self, now: float, out: list[Effect]) -> None:
        assert self.connection is not None, "only a welcome slave reports"
        self.reported_end = self.log.own_end
        self.sent_at = now
        out.append(SendMessage(self.connection, Report(self.reported_end)))

    def _give_up(self, reason: str, now: float, out: list[Effect]) -> None:
        assert self.connection is not None, "there is a connection to give up"
        out.append(CloseHaConnection(self.connection, reason))
        self._pause(now)

    def _pause(self, now: float) -> None:
        self.connection = None
        self.is_connected = self.is_welcome = False
        self.retry_at = now + self.config.reconnect_s

    def on_closed(self, connection: int, now: float) -> None:
        """Dial again later, after a connection ended or could not be made."""
        if connection == self.connection:
            self._pause(now)

    def divergence_discarded(self, now: float, out: list[Effect]) -> None:
        """Give up the records that the master lacks, and dial at once."""
        end = self.diverges_at
        if end is None:
            return
        self.diverges_at = None
        if end < self.log.log_start:
            self.log.reset(end)
            out.append(ResetCommitLog(end))
        else:
            self.log.truncate(end)
            out.append(TruncateCommitLog(end))
        if self.connection is not None:
            out.append(CloseHaConnection(self.connection, "an operator has cut this log"))
        self.dial(now, out)

    def time_passed(self, now: float, out: list[Effect]) -> None:
        """Dial again, end a silent connection, or keep it alive."""
        if self.connection is None:
            if self.retry_at <= now:
                self.dial(now, out)
        elif self.heard_at + self.config.silence_s_max <= now:
            self._give_up("silent for too long", now, out)
        elif self.is_welcome and self.sent_at + self.config.heartbeat_s <= now:
            self._report(now, out)
