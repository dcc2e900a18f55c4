"""The leader epoch cache: it maps each part of a log to the leader epoch that wrote it (KIP-101, KIP-279).

It has one entry for each epoch that began in the log, even if the epoch wrote nothing: a new leader records its own.
"""

from bisect import bisect_right
from collections.abc import Iterable

from kafka_compat.model import NO_EPOCH
from kafka_compat.partition.model import NO_OFFSET, EpochBegin, EpochEnd
from log.epochs import Epochs

UNKNOWN_END = EpochEnd(NO_EPOCH, NO_OFFSET)


class LeaderEpochs(Epochs):
    """The epochs of one log, by the offsets where they begin."""

    __slots__ = ()
    NONE = NO_EPOCH

    def __init__(self, entries: Iterable[EpochBegin] = ()) -> None:
        super().__init__((entry.epoch, entry.start_offset) for entry in entries)

    def entries(self) -> tuple[EpochBegin, ...]:
        """Returns the cache as plain data, to be stored or compared."""
        return tuple(map(EpochBegin, self._epochs, self._starts))

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
        return self.at(offset - 1)
