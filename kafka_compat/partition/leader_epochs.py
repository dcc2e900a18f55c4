"""The leader epoch cache: it maps each part of a log to the leader epoch that wrote it (KIP-101, KIP-279).

It has one entry for each epoch that began in the log, even if the epoch wrote nothing: a new leader records its epoch
at its log end.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from kafka_compat.model import NO_EPOCH
from kafka_compat.partition.model import NO_OFFSET, EpochBegin, EpochEnd

UNKNOWN_END = EpochEnd(NO_EPOCH, NO_OFFSET)


class LeaderEpochs:
    """The epochs of one log, in order; epochs and start offsets both grow from entry to entry.

    `last` is the newest epoch, NO_EPOCH if there is none.
    """

    __slots__ = ("_epochs", "_starts", "last")

    def __init__(self, entries: Iterable[EpochBegin] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.last = NO_EPOCH
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    def entries(self) -> tuple[EpochBegin, ...]:
        """Returns the cache as plain data, to be stored or compared."""
        return tuple(map(EpochBegin, self._epochs, self._starts))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Begin `epoch` at `start_offset`, unless it is known already.

        Epochs that wrote nothing before that offset leave the cache. Raises `ValueError` for an epoch below the last
        one.
        """
        if epoch == self.last:
            return
        if epoch < self.last:
            raise ValueError(f"leader epoch {epoch} after {self.last}")
        self.truncate(start_offset)
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.last = epoch

    def truncate(self, end: int) -> None:
        """Remove the epochs that begin at `end` or later, even one at the log's own end (KAFKA-10706)."""
        keep = bisect_left(self._starts, end)
        del self._epochs[keep:]
        del self._starts[keep:]
        self.last = self._epochs[-1] if self._epochs else NO_EPOCH

    def trim(self, log_start: int) -> None:
        """Remove the epochs that end at or before `log_start`; the first remaining one begins there."""
        first = bisect_right(self._starts, log_start) - 1
        if first >= 0:
            del self._epochs[:first]
            del self._starts[:first]
            self._starts[0] = log_start

    def clear(self) -> None:
        """Remove all epochs after the log was dropped."""
        self.truncate(NO_OFFSET)

    def end_of(self, epoch: int, log_end: int) -> EpochEnd:
        """Returns the largest known epoch not above `epoch`, and its end: the start of the next epoch, or the log end.

        An epoch before all known ones ends where the first of them begins. Returns UNKNOWN_END for an empty cache, and
        for NO_EPOCH.
        """
        if epoch < 0 or not self._epochs:
            return UNKNOWN_END
        following = bisect_right(self._epochs, epoch)
        if following == 0:
            return EpochEnd(epoch, self._starts[0])
        end = self._starts[following] if following < len(self._starts) else log_end
        return EpochEnd(self._epochs[following - 1], end)

    def epoch_below(self, offset: int) -> int:
        """Returns the epoch of the last record before `offset`; NO_EPOCH if none is known."""
        at = bisect_left(self._starts, offset) - 1
        return self._epochs[at] if at >= 0 else NO_EPOCH
