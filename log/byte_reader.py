"""Reading ranges of bytes from a log whose batches take one offset for each byte of their payload.

A range costs what is read of it: the batch that holds it is found in the index, and ranges that lie close behind each
other are taken from one read. A batch of which all is wanted, and any of up to `CHECKED_BYTES`, is read whole and
checked against its CRC.
"""

from collections.abc import Callable, Iterator
from typing import Final

from log.errors import CorruptLog
from log.frame import HEADER_BYTES, Header, checksum
from log.segment import Window
from log.store_recovery import StoreSegment

CHECKED_BYTES: Final = 1 << 16
AHEAD_BYTES: Final = 1 << 15
"""The bytes of one read, and the distance behind the last range in which the next needs no index."""

Place = tuple[StoreSegment, Window, int, Header]
"""A batch: its segment, a view of that, the position of its frame, and its header."""


class ByteReader:
    """Reads ranges of one log, best in ascending order; made by `StoreLog.byte_reader`.

    Not to be used once the log has changed.
    """

    __slots__ = ("_damage", "_payload", "_place", "_places", "_walk")

    def __init__(
        self,
        walk: Callable[[int, int], Iterator[Place]],
        damage: Callable[[StoreSegment, int, str, Header], CorruptLog],
    ) -> None:
        """Use `StoreLog.byte_reader`."""
        self._walk = walk
        self._damage = damage
        self._places: Iterator[Place] = iter(())
        self._place: Place | None = None
        self._payload: memoryview | None = None

    def read(self, offset: int, size: int) -> memoryview | None:
        """Returns `size` bytes from `offset` on; None if the log does not hold all of them.

        The view keeps what was read alive; it is a copy only across batches. Raises `CorruptLog` for damage.
        """
        first = self._part(offset, size)
        if first is None or len(first) == size:
            return first
        parts = [first]
        left = size - len(first)
        while left > 0:
            part = self._part(offset + size - left, left)
            if part is None:
                return None
            parts.append(part)
            left -= len(part)
        return memoryview(b"".join(parts))

    def _part(self, offset: int, size: int) -> memoryview | None:
        """The bytes of a range up to the end of the batch in which it begins."""
        place = self._seek(offset)
        if place is None:
            return None
        segment, window, position, header = place
        begin = offset - header.base_offset
        size = min(size, header.payload_bytes - begin)
        if header.payload_bytes <= CHECKED_BYTES or size == header.payload_bytes:
            if self._payload is None:
                self._payload = window.at(position + HEADER_BYTES, header.payload_bytes)
                if checksum(self._payload) != header.payload_crc:
                    raise self._damage(segment, position, "the checksum of the payload does not match", header)
            return self._payload[begin : begin + size]
        part = window.at(position + HEADER_BYTES + begin, size)
        if len(part) != size:
            raise self._damage(segment, position, "the file ends inside the frame", header)
        return part

    def _seek(self, offset: int) -> Place | None:
        """The batch that holds `offset`; None if there is none."""
        place = self._place
        if place is None or not place[3].base_offset <= offset < place[3].end_offset + AHEAD_BYTES:
            self._places = self._walk(offset, AHEAD_BYTES)
            place = None
        while place is None or place[3].end_offset <= offset:
            place = next(self._places, None)
            self._payload = None
            if place is None:
                break
        self._place = place
        return place if place is not None and place[3].base_offset <= offset else None
