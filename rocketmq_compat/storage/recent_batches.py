"""The newest bytes of the log, in memory: consumers that keep up are served from the buffers that were written. Pure.

Batches follow each other without a gap. Once there are more than `bytes_max`, the older half goes.
"""

import itertools
from bisect import bisect_right
from typing import Final

RECENT_BYTES_MAX: Final = 8 << 20


class RecentBatches:
    """The newest batches of a commit log."""

    __slots__ = ("_bytes_max", "_offsets", "_views", "size_bytes")

    def __init__(self, bytes_max: int = RECENT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self.size_bytes = 0
        """The total size of the batches."""
        self._offsets: list[int] = []
        self._views: list[memoryview] = []

    def add(self, offset: int, view: memoryview) -> None:
        """Add the batch at this physical offset, the end of the log before it. Its bytes must not change any more."""
        self._offsets.append(offset)
        self._views.append(view)
        self.size_bytes += len(view)
        if self.size_bytes > self._bytes_max:
            gone = 0
            while self.size_bytes > self._bytes_max // 2:
                self.size_bytes -= len(self._views[gone])
                gone += 1
            del self._offsets[:gone], self._views[:gone]

    def read(self, offset: int, size: int) -> memoryview | None:
        """Returns `size` bytes at this physical offset, or None unless one batch here holds them."""
        at = bisect_right(self._offsets, offset) - 1
        if at < 0:
            return None
        begin = offset - self._offsets[at]
        found = self._views[at][begin : begin + size]
        return found if len(found) == size else None

    def read_batches(self, offset: int, bytes_max: int, end: int) -> list[memoryview]:
        """Returns the batches from the one that begins at this physical offset to the last that ends by `end`.

        They have at most `bytes_max` bytes in all, or are one. Empty if no batch here begins there.
        """
        offsets = self._offsets
        at = bisect_right(offsets, offset) - 1
        found: list[memoryview] = []
        if at < 0 or offsets[at] != offset:
            return found
        last = min(end, offset + bytes_max)
        for view in itertools.islice(self._views, at, None):
            offset += len(view)
            if offset > last and (found or offset > end):
                break
            found.append(view)
        return found

    def clear(self) -> None:
        """Forget all, because the log was cut."""
        self._offsets.clear()
        self._views.clear()
        self.size_bytes = 0
