"""Counts the bytes between two offsets in the newest part of a log.

Fetches with `min_bytes` above 1 wait for this number.
"""

from bisect import bisect_left

APPENDS_KEPT = 1024


class ByteWindow:
    """The sizes of the last `APPENDS_KEPT` batches (at least), as running totals.

    An offset within a batch counts as the batch's beginning, because a fetch returns whole batches.
    """

    __slots__ = ("_ends", "_totals")

    def __init__(self, log_end: int) -> None:
        self._ends = [log_end]
        self._totals = [0]

    def append(self, end: int, size: int) -> None:
        """Add a batch of `size` bytes that ends at offset `end`."""
        self._ends.append(end)
        self._totals.append(self._totals[-1] + size)
        if len(self._ends) > 2 * APPENDS_KEPT:
            del self._ends[:-APPENDS_KEPT]
            del self._totals[:-APPENDS_KEPT]

    def reset(self, log_end: int) -> None:
        """Forget all sizes after a truncation or a reset to `log_end`."""
        self._ends = [log_end]
        self._totals = [0]

    def holds(self, start: int, end: int, size: int) -> bool:
        """Returns True if at least `size` bytes lie between two offsets, or if that range begins before the window."""
        if start < self._ends[0]:
            return True
        first = bisect_left(self._ends, start)
        if first < len(self._ends) and self._ends[first] > start:
            first -= 1
        last = min(bisect_left(self._ends, end), len(self._ends) - 1)
        return self._totals[last] - self._totals[min(first, last)] >= size
