"""The epoch table: maps each part of the commit log to the start of a master that wrote it.

Every start of a master begins an epoch at the end of its log: the last one that this log knows, and a random number on
top. So an epoch begins once, even if two copies of a log both become masters, or a disk is lost. (epoch, offset) names
a byte: two logs hold the same byte at one offset in the same epoch. Where their epochs differ, so do their bytes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from log.values import frozen
from rocketmq_compat.replication.model import NO_EPOCH, MasterEpoch


class EpochTable:
    """The epochs of one log, in order; epochs and starts both grow. `last` is the newest epoch, or NO_EPOCH."""

    __slots__ = ("_epochs", "_starts", "last")

    def __init__(self, entries: Iterable[MasterEpoch] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.last = NO_EPOCH
        for entry in entries:
            self.assign(entry.epoch, entry.start)

    def entries(self) -> tuple[MasterEpoch, ...]:
        """Returns the table as plain data."""
        return tuple(map(MasterEpoch, self._epochs, self._starts))

    def assign(self, epoch: int, start: int) -> None:
        """Begin `epoch` at `start`, unless it is the last one already. Epochs that wrote nothing before `start` leave.

        Raises `ValueError` for an epoch below the last one.
        """
        if epoch == self.last:
            return
        if epoch < self.last:
            raise ValueError(f"epoch {epoch} after {self.last}")
        self.truncate(start)
        self._epochs.append(epoch)
        self._starts.append(start)
        self.last = epoch

    def truncate(self, end: int) -> None:
        """Remove the epochs that begin at `end` or later."""
        keep = bisect_left(self._starts, end)
        del self._epochs[keep:], self._starts[keep:]
        self.last = self._epochs[-1] if self._epochs else NO_EPOCH

    def trim(self, log_start: int) -> None:
        """Remove the epochs that end at or before `log_start`; the first remaining one begins there."""
        first = bisect_right(self._starts, log_start) - 1
        if first >= 0:
            del self._epochs[:first], self._starts[:first]
            self._starts[0] = log_start

    def at(self, offset: int) -> int:
        """Returns the epoch that wrote the byte at `offset`, or will; NO_EPOCH before the first."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else NO_EPOCH

    def first_after(self, epoch: int) -> int | None:
        """Returns the start of the first epoch above `epoch`, or None."""
        index = bisect_right(self._epochs, epoch)
        return self._starts[index] if index < len(self._starts) else None

    def next_start(self, offset: int, log_end: int) -> int:
        """Returns where the epoch of the byte at `offset` ends."""
        index = bisect_right(self._starts, offset)
        return self._starts[index] if index < len(self._starts) else log_end


@frozen
class History:
    """A log from `start` to `end` with its epochs."""

    start: int
    end: int
    epochs: EpochTable

    @classmethod
    def of(cls, log_start: int, log_end: int, entries: Sequence[MasterEpoch]) -> "History":
        """Returns the history in a message, which omits the part before its first epoch."""
        return cls(entries[0].start if entries else log_start, log_end, EpochTable(entries))


def agreed_end(one: History, other: History) -> int:
    """Returns the end of the common part of two logs: the first offset at which their epochs differ, or the lesser end.

    Below the later of both starts, bytes cannot be compared. But epochs grow along a log: an epoch there that is later
    than the first epoch of the other log does not belong to the other log's history.
    """
    early, late = (one, other) if one.start <= other.start else (other, one)
    first_epoch = late.epochs.at(late.start)
    foreign = early.epochs.first_after(first_epoch)
    if first_epoch != NO_EPOCH and foreign is not None and foreign < late.start:
        return foreign
    end = min(one.end, other.end)
    offset = max(one.start, other.start)
    while offset < end:
        if one.epochs.at(offset) != other.epochs.at(offset):
            return offset
        offset = min(one.epochs.next_start(offset, one.end), other.epochs.next_start(offset, other.end))
    return end
