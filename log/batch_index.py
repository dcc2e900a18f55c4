"""Finding batches in one segment of a store's log, by offset and by time.

About one batch in `interval_bytes` has an entry: its first offset, its position, and the newest timestamp of the
batches before it in the segment. The last is what makes a search by time possible although timestamps need not ascend:
they do as running maxima. A sealed segment carries its index behind its last frame, as a *footer* with a checksum; one
that is missing or damaged is replaced by reading the frame headers.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import Self

from log.frame import Buffer, checksum

_MAGIC = b"QLBI"
_LAYOUT = struct.Struct("<4sIQQ")


class BatchIndex:
    """Grows batch by batch, in the order of the bytes. Positions in bytes from the segment's beginning."""

    __slots__ = ("_before", "_interval", "_newest", "_next", "_offsets", "_positions", "newest_ms")

    def __init__(self, interval_bytes: int) -> None:
        self._interval = interval_bytes
        self._next = 0
        self._offsets = array("Q")
        self._positions = array("Q")
        self._before = array("Q")
        self._newest: tuple[int, int] | None = None
        """Offset and position of the batch noted last, where the readers of a log that grows are."""
        self.newest_ms = 0
        """The newest timestamp noted; 0 = none."""

    def note(self, base_offset: int, timestamp_ms: int, position: int) -> None:
        """Add a batch that follows all those added before."""
        if position >= self._next:
            self._offsets.append(base_offset)
            self._positions.append(position)
            self._before.append(self.newest_ms)
            self._next = position + self._interval
        self._newest = base_offset, position
        if timestamp_ms > self.newest_ms:
            self.newest_ms = timestamp_ms

    def near_offset(self, offset: int) -> int:
        """Returns a position at or shortly before that of the batch that holds `offset`."""
        newest = self._newest
        if newest is not None and offset >= newest[0]:
            return newest[1]
        slot = bisect_right(self._offsets, offset) - 1
        return self._positions[slot] if slot > 0 else 0

    def near_time(self, timestamp_ms: int) -> int:
        """Returns a position at or shortly before that of the first batch that is not older than `timestamp_ms`."""
        slot = bisect_left(self._before, timestamp_ms) - 1
        return self._positions[slot] if slot > 0 else 0

    def encode(self, segment_bytes: int) -> bytes:
        """Returns the footer of a segment whose frames end at `segment_bytes`; little-endian, as all on the disk."""
        columns = b"".join(
            struct.pack(f"<{len(each)}Q", *each) for each in (self._offsets, self._positions, self._before)
        )
        content = _LAYOUT.pack(_MAGIC, len(self._offsets), segment_bytes, self.newest_ms) + columns
        return content + checksum(content).to_bytes(4, "little")

    @classmethod
    def decode(cls, content: Buffer, segment_bytes: int, interval_bytes: int) -> Self | None:
        """Returns the index in a footer; None unless it is whole and belongs to a segment of `segment_bytes`."""
        if len(content) < _LAYOUT.size + 4:
            return None
        magic, count, size, newest_ms = _LAYOUT.unpack_from(content)
        end = _LAYOUT.size + 24 * count
        if (magic, size) != (_MAGIC, segment_bytes) or len(content) != end + 4:
            return None
        view = memoryview(content)
        if checksum(view[:end]) != int.from_bytes(view[end:], "little"):
            return None
        index = cls(interval_bytes)
        index.newest_ms = newest_ms
        columns = (index._offsets, index._positions, index._before)
        for at, column in enumerate(columns):
            column.extend(struct.unpack_from(f"<{count}Q", view, _LAYOUT.size + 8 * count * at))
        return index
