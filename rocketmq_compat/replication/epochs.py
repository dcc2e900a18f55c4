"""The epoch table: maps each part of the commit log to the start of a master that wrote it.

Every start of a master begins an epoch at the end of its log: the last one that this log knows, and a random number on
top. So an epoch begins once, even if two copies of a log both become masters, or a disk is lost. (epoch, offset) names
a byte: two logs hold the same byte at one offset in the same epoch. Where their epochs differ, so do their bytes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from log.epochs import Epochs
from log.values import frozen
from rocketmq_compat.replication.model import NO_EPOCH, MasterEpoch


class EpochTable(Epochs):
    """The epochs of one log, by the physical offsets where they begin."""

    __slots__ = ()
    NONE = NO_EPOCH

    def __init__(self, entries: Iterable[MasterEpoch] = ()) -> None:
        super().__init__((entry.epoch, entry.start) for entry in entries)

    def entries(self) -> tuple[MasterEpoch, ...]:
        """Returns the table as plain data."""
        return tuple(map(MasterEpoch, self._epochs, self._starts))

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
