"""Finding frames in a log of many segments, with little memory.

Each segment knows the first index that lives in it and that index's offset; a segment that holds nothing any more has
those of the next one. Living frames ascend in address as they do in index, because a frame that is replaced takes
everything after it along. So a binary search over the segments finds the one that holds an index or an offset, and the
segment's own sparse index goes on from there. Those of the newest segments are kept; older ones are read from their
sidecars when needed, and the least recently used are dropped. A sidecar that is missing or damaged by then is replaced
by reading the segment.
"""

import contextlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator

from log.disk import Disk, read_file
from log.errors import CorruptLog, StorageError
from log.frame import HEADER_BYTES, Address, DamagedFrame, ForeignFrame, Header, decode_header
from log.index import DamagedIndex, SegmentIndex, SparseIndex
from log.retention import SegmentFacts
from log.scan import scan
from log.segment import OpenSegments, Segment, Window, cut_segments, index_name

INDEXES_MAX = 8
"""Sparse indexes of older segments that are kept in memory."""


class Lookup:
    """The segments of one log, oldest first, and the way to their frames. Positions are bytes in a segment's file."""

    def __init__(
        self, disk: Disk, directory: str, segments: list[Segment], *, log_id: int, interval_bytes: int, files_max: int
    ) -> None:
        self.segments = segments
        self.open = OpenSegments(disk, files_max)
        self._disk = disk
        self._directory = directory
        self._log_id = log_id
        self._interval_bytes = interval_bytes
        self._indexes: OrderedDict[Address, SparseIndex] = OrderedDict()

    def cut(self, index: int, offset: int) -> None:
        """Remove everything from `index` on; the next frame begins with `offset`."""
        cut_segments(self.segments, index, offset)
        live = self.segments[-1].live
        if live is not None:
            live.cut(index)

    def forget(self, count: int) -> list[Segment]:
        """Remove the oldest `count` segments. Returns them, closed."""
        gone = self.segments[:count]
        del self.segments[:count]
        for segment in gone:
            self.open.close(segment)
            self._indexes.pop(segment.base, None)
        return gone

    def holding(self, index: int) -> int:
        """Returns the place in `segments` of the one that holds `index`, which the log must hold."""
        return bisect_right(self.segments, index, key=lambda each: each.first_index) - 1

    def facts(self) -> list[SegmentFacts]:
        """Returns what a retention rule needs of each segment, oldest first."""
        return [
            SegmentFacts(
                each.first_index, each.size, each.index.newest_ms if each.index is not None else each.newest_ms
            )
            for each in self.segments
        ]

    def leaving(self, first_index: int, durable_end: int) -> int:
        """Returns how many segments lie wholly below `first_index`, and leave nothing behind that is not durable."""
        count = self.holding(first_index) if self.segments and first_index >= self.segments[0].first_index else 0
        while count and (self.segments[count - 1].index is not None or self.segments[count].base > durable_end):
            count -= 1
        return count

    def index_before_offset(self, offset: int, last_index: int) -> int:
        """Returns an index at or shortly before the one that holds `offset`, which the log must hold."""
        at = bisect_right(self.segments, offset, key=lambda each: each.first_offset) - 1
        segment = self.segments[at]
        sparse = self._living(segment)
        slot = sparse.slot_of_offset(offset, self._index_end(at, last_index))
        return max(sparse[slot][0], segment.first_index)

    def bytes_between(self, first_index: int, last_index: int, bytes_max: int) -> int:
        """Returns how many bytes to read at once for these frames; only an estimate where cuts lie between them."""
        at = self.holding(first_index)
        if at != self.holding(last_index):
            return bytes_max
        segment = self.segments[at]
        sparse = self._living(segment)
        slot = sparse.slot_of_index(last_index) + 1
        begin = sparse[sparse.slot_of_index(first_index)][1]
        end = sparse[slot][1] if slot < len(sparse) else segment.end
        return min(bytes_max, end - begin) if end > begin else bytes_max

    def headers(
        self, first_index: int, last_index: int, chunk_bytes: int
    ) -> Iterator[tuple[Header, Window, Segment, int]]:
        """Yields the living frames from `first_index` to the log's `last_index`: header, window on the file, segment
        and position in it.

        Walks from the nearest entry of a sparse index and follows its rules: where the next entry is reached, its
        address is where the log goes on. Raises `CorruptLog` for damage.
        """
        for at in range(self.holding(first_index), len(self.segments)):
            segment = self.segments[at]
            index_end = self._index_end(at, last_index)
            if segment.first_index < index_end:
                yield from self._headers_in(segment, max(first_index, segment.first_index), index_end, chunk_bytes)

    def damage(self, segment: Segment, position: int, reason: str, header: Header | None = None) -> CorruptLog:
        """Returns the error to raise.

        Removes the segment's sidecar, so that the next recovery reads the segment and finds the damage.
        """
        with contextlib.suppress(StorageError):
            self._disk.remove(f"{self._directory}/{index_name(segment.base)}")
        named = (header.log_index, header.epoch, header.base_offset) if header is not None else (None, None, None)
        return CorruptLog(segment.path, position, reason, *named)

    def _headers_in(
        self, segment: Segment, first_index: int, index_end: int, chunk_bytes: int
    ) -> Iterator[tuple[Header, Window, Segment, int]]:
        sparse = self._living(segment)
        slot = sparse.slot_of_index(first_index)
        index, address = sparse[slot]
        next_index = sparse.index_at(slot + 1)
        window = Window(self.open.file(segment), segment.size, chunk_bytes)
        while index < index_end:
            if index == next_index:
                slot += 1
                address = sparse[slot][1]
                next_index = sparse.index_at(slot + 1)
            position = address - segment.base
            try:
                header = decode_header(window.at(position, HEADER_BYTES), 0, log_id=self._log_id, address=address)
            except (DamagedFrame, ForeignFrame) as damage:
                raise self.damage(segment, position, damage.reason) from None
            address = Address(address + header.frame_bytes)
            if not header.indexed:
                continue
            if header.log_index != index:
                raise self.damage(segment, position, f"index {index} should be here", header)
            if index >= first_index:
                yield header, window, segment, position
            index += 1

    def _index_end(self, at: int, last_index: int) -> int:
        return self.segments[at + 1].first_index if at + 1 < len(self.segments) else last_index + 1

    def _living(self, segment: Segment) -> SparseIndex:
        if segment.live is not None:
            return segment.live
        sparse = self._indexes.get(segment.base)
        if sparse is None:
            sparse = self._indexes[segment.base] = self._load(segment).living()
            if len(self._indexes) > INDEXES_MAX:
                self._indexes.popitem(last=False)
        else:
            self._indexes.move_to_end(segment.base)
        return sparse

    def _load(self, segment: Segment) -> SegmentIndex:
        path = f"{self._directory}/{index_name(segment.base)}"
        content = read_file(self._disk, path)
        if content is not None:
            with contextlib.suppress(DamagedIndex):
                index, segment_bytes = SegmentIndex.decode(
                    content, log_id=self._log_id, base=segment.base, interval_bytes=self._interval_bytes
                )
                if segment_bytes == segment.size:
                    return index
        scanned = scan(segment, self.open.file(segment), log_id=self._log_id, interval_bytes=self._interval_bytes)
        if scanned.damage is not None:
            raise self.damage(segment, scanned.valid_bytes, scanned.damage.reason, scanned.damage.header)
        return scanned.index
