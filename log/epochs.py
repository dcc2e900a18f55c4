"""The epochs of a log with one writer at a time: where each of them begins."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import ClassVar


class Epochs:
    """The epochs of one log, in order; epochs and starts both grow from entry to entry.

    `last` is the newest epoch, `NONE` if there is none.
    """

    __slots__ = ("_epochs", "_starts", "last")
    NONE: ClassVar[int] = 0

    def __init__(self, begins: Iterable[tuple[int, int]] = ()) -> None:
        """`begins` are pairs of an epoch and its start."""
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.last = self.NONE
        for epoch, start in begins:
            self.assign(epoch, start)

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
        """Remove the epochs that begin at `end` or later, even one at the log's own end (KAFKA-10706)."""
        keep = bisect_left(self._starts, end)
        del self._epochs[keep:], self._starts[keep:]
        self.last = self._epochs[-1] if self._epochs else self.NONE

    def trim(self, log_start: int) -> None:
        """Remove the epochs that end at or before `log_start`; the first remaining one begins there."""
        first = bisect_right(self._starts, log_start) - 1
        if first >= 0:
            del self._epochs[:first], self._starts[:first]
            self._starts[0] = log_start

    def at(self, offset: int) -> int:
        """Returns the epoch that wrote at `offset`, or will; `NONE` before the first."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else self.NONE
