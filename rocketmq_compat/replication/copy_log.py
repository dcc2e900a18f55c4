"""A replica's knowledge of its commit log: ends, epochs, confirm offset. The shell has the bytes."""

import attrs

from rocketmq_compat.replication.effects import ConfirmOffsetMoved, Effect
from rocketmq_compat.replication.epochs import EpochTable
from rocketmq_compat.replication.model import CopyDoubt, LogReach, RecoveredCopy


@attrs.define
class CopyLog:
    """The facts of one log: `log_start <= log_end`, `flushed_end <= log_end`, `confirm_offset <= log_end`."""

    log_start: int
    log_end: int
    flushed_end: int
    epochs: EpochTable
    sync_flush: bool
    confirm_offset: int
    doubt: CopyDoubt | None = None
    """Set while this copy may lack records that it had."""

    @classmethod
    def of(cls, recovered: RecoveredCopy, sync_flush: bool) -> "CopyLog":
        """Returns the log that a restart found, with nothing confirmed yet.

        Raises `ValueError` if its ends are not in order.
        """
        start, end = recovered.log_start, recovered.log_end
        if not 0 <= start <= end:
            raise ValueError(f"a log from {start} to {end}")
        durable_end = max(start, min(recovered.durable_end, end))
        return cls(start, end, durable_end, EpochTable(recovered.epochs), sync_flush, start, recovered.doubt)

    @property
    def reach(self) -> LogReach:
        """The reach of this log. An epoch that has written nothing yet does not count."""
        return LogReach(self.epochs.at(self.log_end - 1) if self.log_end > self.log_start else 0, self.log_end)

    @property
    def has_floor(self) -> bool:
        """True if this copy is in doubt, and yet has come again as far as it ever was."""
        doubt = self.doubt
        return doubt is not None and doubt.floor is not None and self.reach >= doubt.floor

    def append(self, epoch: int, size: int) -> int:
        """`size` bytes of another copy follow, of this epoch or of the newest one here. Returns the epoch."""
        epoch = max(epoch, self.epochs.last)
        self.epochs.assign(epoch, self.log_end)
        self.log_end += size
        return epoch

    @property
    def own_end(self) -> int:
        """The end of the part that counts as copied here, by the flush setting."""
        return self.flushed_end if self.sync_flush else self.log_end

    def confirm(self, offset: int, out: list[Effect]) -> None:
        """Confirm the part of this log below `offset`; confirmed parts remain confirmed."""
        offset = min(offset, self.log_end)
        if offset > self.confirm_offset:
            self.confirm_offset = offset
            out.append(ConfirmOffsetMoved(offset))

    def truncate(self, end: int) -> None:
        """Cut the log at `end`; flushed and confirmed ends are limited to it."""
        self.epochs.truncate(end)
        self.log_end = end
        self.flushed_end = min(self.flushed_end, end)
        self.confirm_offset = min(self.confirm_offset, end)

    def reset(self, start: int) -> None:
        """Empty the log and let it begin at `start`."""
        self.epochs.truncate(0)
        self.log_start = self.log_end = self.flushed_end = self.confirm_offset = start

    def trim(self, log_start: int) -> None:
        """Move the start of the log forward to `log_start`, within the log."""
        log_start = min(log_start, self.log_end)
        if log_start > self.log_start:
            self.log_start = log_start
            self.epochs.trim(log_start)
            self.flushed_end = max(self.flushed_end, log_start)
            self.confirm_offset = max(self.confirm_offset, log_start)
