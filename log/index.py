"""Finding frames in one segment, and what a segment contributes to the whole log; both are kept in a sidecar file.

`SegmentIndex` is the physical view: the segment's frames and cuts, in their order. It is a function of the segment's
frames alone, so that a rebuilt sidecar equals the lost one byte for byte.

`Summary` is what the log must know of a segment that is not read: the sidecar's head, with a checksum of its own. The
summaries of a log, one after the other, determine which segment holds which indexes, and every epoch.

`SparseIndex` is the logical view of one segment: strictly ascending indexes, each with its base offset and the address
of its frame. It holds few frames, but always the right ones. Rules that everything else leans on:

- the first living frame of a segment is in it, and so is the first frame after every cut;
- a cut drops every entry from the cut on; a cut in a later segment is not noted here: it follows from that segment's
  first index;
- hence, between two neighbouring entries, the frames that live are the ones that follow the first entry on disk, and a
  reader that counts its way up to the index of the next entry goes on at that entry's address.
"""

import enum
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

import attrs

from log.epoch_cache import EpochCache, EpochStart
from log.frame import Address, Buffer, FrameKind, Header, checksum


class SparseIndex:
    """Some frames of a log: (index, base offset, address), ascending in all but the address, which cuts let jump."""

    __slots__ = ("_addresses", "_indexes", "_offsets")

    def __init__(self) -> None:
        self._indexes = array("Q")
        self._offsets = array("Q")
        self._addresses = array("Q")

    def __len__(self) -> int:
        return len(self._indexes)

    def __getitem__(self, slot: int) -> tuple[int, Address]:
        """Returns the index at `slot` and the address of its frame."""
        return self._indexes[slot], Address(self._addresses[slot])

    def index_at(self, slot: int) -> int | None:
        """Returns the index at `slot`, None after the last."""
        return self._indexes[slot] if slot < len(self._indexes) else None

    def add(self, index: int, base_offset: int, address: int) -> None:
        """Add a frame that follows all those added before."""
        self._indexes.append(index)
        self._offsets.append(base_offset)
        self._addresses.append(address)

    def extend(self, indexes: "array[int]", offsets: "array[int]", addresses: "array[int]") -> None:
        """Add many frames that follow all those added before."""
        self._indexes.extend(indexes)
        self._offsets.extend(offsets)
        self._addresses.extend(addresses)

    def cut(self, index: int) -> None:
        """Remove everything from `index` on."""
        keep = bisect_left(self._indexes, index)
        del self._indexes[keep:]
        del self._offsets[keep:]
        del self._addresses[keep:]

    def slot_of_index(self, index: int) -> int:
        """Returns the slot of the last entry not above `index`; there must be one."""
        return bisect_right(self._indexes, index) - 1

    def slot_of_offset(self, offset: int, index_end: int) -> int:
        """Returns the slot of the last entry below `index_end` that begins at or before `offset`; there must be one."""
        return bisect_right(self._offsets, offset, hi=bisect_left(self._indexes, index_end)) - 1


class _Mark(enum.IntEnum):
    FRAME = 0
    CUT = 1


@attrs.frozen
class LogTail:
    """The end of a log after some frame: the last index (0 = none), its epoch, and the next offset."""

    last_index: int = 0
    last_epoch: int = 0
    end_offset: int = 0

    def objection(self, header: Header) -> str | None:
        """Returns why a frame with this header cannot follow here, or None if it can."""
        if self._precedes(header):
            return None
        named = f"index {header.log_index}, epoch {header.epoch}, offset {header.base_offset}"
        return f"the frame ({named}) does not follow index {self.last_index}"

    def _precedes(self, header: Header) -> bool:
        index, last = header.log_index, self.last_index
        match FrameKind(header.kind):
            case FrameKind.RECORDS | FrameKind.CONTROL:
                return 1 <= index <= last + 1 and (index != last + 1 or self._continues(header))
            case FrameKind.STATE:
                return LogTail(index, header.epoch, header.base_offset) == self
            case FrameKind.TRUNCATE:
                return index <= last

    def _continues(self, header: Header) -> bool:
        return self.last_index == 0 or (header.base_offset == self.end_offset and header.epoch >= self.last_epoch)


NO_STATE: Final = 2**64 - 1
_NONE: Final = 2**64 - 1
_MAGIC = b"QLIX"
_VERSION = 2
_LAYOUT_1 = struct.Struct("<4sBxxxQQQQQQQII")
_LAYOUT = struct.Struct("<4sBxxxQQQQQQQQQQIII")
_EPOCH = struct.Struct("<QQQ")
SUMMARY_BYTES_READ = 4096
"""The first read of a sidecar: its whole head, unless it lists very many epochs."""


class DamagedIndex(Exception):
    """The sidecar is not a whole index of the segment it is named for."""


@attrs.frozen(kw_only=True)
class Summary:
    """The facts about one segment that the log must know. Sizes and positions in bytes.

    `lowest` is the lowest index that the segment writes or cuts from, with its offset: older segments lose whatever
    they hold from there on. `epochs` are the epochs of its living frames. `newest_ms` is their greatest timestamp.
    """

    segment_bytes: int
    tail: LogTail
    state_position: int | None
    lowest: tuple[int, int] | None
    newest_ms: int | None
    epochs: tuple[EpochStart, ...]


class SegmentIndex:
    """The index of one segment; grows frame by frame, in the order of the bytes.

    `last_index`, `last_epoch` and `end_offset` are the log's tail after the newest frame. Positions are bytes from the
    segment's beginning.
    """

    __slots__ = (
        "_interval",
        "_marks",
        "_next_mark",
        "base",
        "base_offsets",
        "cuts",
        "end_offset",
        "epochs",
        "indexes",
        "last_epoch",
        "last_index",
        "newest_ms",
        "positions",
        "state_position",
    )

    def __init__(self, base: int, interval_bytes: int) -> None:
        self.base = base
        self._interval = interval_bytes
        self._next_mark = 0
        self._marks = array("B")
        self.indexes = array("Q")
        self.epochs = array("Q")
        self.base_offsets = array("Q")
        self.positions = array("Q")
        self.cuts = 0
        self.last_index = 0
        self.last_epoch = 0
        self.end_offset = 0
        self.state_position: int | None = None
        self.newest_ms: int | None = None

    @property
    def tail(self) -> LogTail:
        """The end of the log after the newest frame of this segment."""
        return LogTail(self.last_index, self.last_epoch, self.end_offset)

    def note_indexed(
        self, index: int, epoch: int, base_offset: int, span: int, timestamp_ms: int, position: int
    ) -> bool:
        """Add a RECORDS or CONTROL frame. Returns whether it got an entry of its own (see the rules above)."""
        if self.newest_ms is None or timestamp_ms > self.newest_ms:
            self.newest_ms = timestamp_ms
        marked = position >= self._next_mark or index != self.last_index + 1 or epoch != self.last_epoch
        if marked:
            if index <= self.last_index and self.indexes:
                self.cuts += 1
            self._add(_Mark.FRAME, index, epoch, base_offset, position)
            self._next_mark = position + self._interval
        self.last_index = index
        self.last_epoch = epoch
        self.end_offset = base_offset + span
        return marked

    def note_state(self, tail: LogTail, position: int) -> None:
        """Add a STATE frame."""
        self._take(tail)
        self.state_position = position

    def note_truncate(self, tail: LogTail, position: int) -> None:
        """Add a TRUNCATE frame; the next frame is the first after a cut, whatever its index."""
        self._take(tail)
        self._add(_Mark.CUT, tail.last_index + 1, tail.last_epoch, tail.end_offset, position)
        self._next_mark = 0
        self.cuts += 1

    def note(self, header: Header, position: int) -> None:
        """Add any frame, by its header."""
        match FrameKind(header.kind):
            case FrameKind.RECORDS | FrameKind.CONTROL:
                self.note_indexed(
                    header.log_index, header.epoch, header.base_offset, header.span, header.timestamp_ms, position
                )
            case FrameKind.STATE:
                self.note_state(LogTail(header.log_index, header.epoch, header.base_offset), position)
            case FrameKind.TRUNCATE:
                self.note_truncate(LogTail(header.log_index, header.epoch, header.base_offset), position)

    def living(self) -> SparseIndex:
        """Returns the logical view: the frames that remain after the segment's own cuts."""
        sparse = SparseIndex()
        if not self.cuts:
            sparse.extend(self.indexes, self.base_offsets, array("Q", [self.base + at for at in self.positions]))
            return sparse
        for mark, index, base_offset, position in zip(
            self._marks, self.indexes, self.base_offsets, self.positions, strict=True
        ):
            sparse.cut(index)
            if mark == _Mark.FRAME:
                sparse.add(index, base_offset, self.base + position)
        return sparse

    def summary(self, segment_bytes: int) -> Summary:
        """Returns what the log must know of this segment, which is `segment_bytes` long."""
        lowest: tuple[int, int] | None = None
        epochs = EpochCache()
        for mark, index, epoch, base_offset in zip(
            self._marks, self.indexes, self.epochs, self.base_offsets, strict=True
        ):
            if lowest is None or index <= lowest[0]:
                lowest = (index, base_offset)
            if self.cuts:
                epochs.cut(index)
            if mark == _Mark.FRAME:
                epochs.note(epoch, index, base_offset)
        return Summary(
            segment_bytes=segment_bytes,
            tail=self.tail,
            state_position=self.state_position,
            lowest=lowest,
            newest_ms=self.newest_ms,
            epochs=tuple(epochs),
        )

    def _take(self, tail: LogTail) -> None:
        self.last_index = tail.last_index
        self.last_epoch = tail.last_epoch
        self.end_offset = tail.end_offset

    def _add(self, mark: _Mark, index: int, epoch: int, base_offset: int, position: int) -> None:
        self._marks.append(mark)
        self.indexes.append(index)
        self.epochs.append(epoch)
        self.base_offsets.append(base_offset)
        self.positions.append(position)

    def encode(self, *, log_id: int, segment_bytes: int) -> bytes:
        """Returns the content of the sidecar file: summary and columns, each with its CRC-32C; little-endian."""
        summary = self.summary(segment_bytes)
        lowest = summary.lowest if summary.lowest is not None else (_NONE, 0)
        head = _LAYOUT.pack(
            _MAGIC,
            _VERSION,
            log_id,
            self.base,
            segment_bytes,
            self.last_index,
            self.last_epoch,
            self.end_offset,
            NO_STATE if self.state_position is None else self.state_position,
            *lowest,
            _NONE if self.newest_ms is None else self.newest_ms,
            len(self.indexes),
            self.cuts,
            len(summary.epochs),
        )
        head += b"".join([_EPOCH.pack(each.epoch, each.first_index, each.base_offset) for each in summary.epochs])
        columns = [self.indexes, self.epochs, self.base_offsets, self.positions]
        body = b"".join([*map(_little_endian, columns), self._marks.tobytes()])
        return head + checksum(head).to_bytes(4, "little") + body + checksum(body).to_bytes(4, "little")

    @classmethod
    def decode(cls, content: bytes, *, log_id: int, base: int, interval_bytes: int) -> tuple["SegmentIndex", int]:
        """Returns the index and the size in bytes of the segment it was written for.

        Raises `DamagedIndex` unless it is whole and belongs to this segment and log.
        """
        index = cls(base, interval_bytes)
        if content[4:5] == b"\1":
            segment_bytes, count, body = index._decode_head_1(content, log_id)
        else:
            summary, head_bytes, count, index.cuts = _decode_head(content, log_id, base)
            segment_bytes, body = summary.segment_bytes, memoryview(content)[head_bytes:]
            index._take(summary.tail)
            index.state_position = summary.state_position
            index.newest_ms = summary.newest_ms
            if len(body) < 4 or checksum(body[:-4]) != int.from_bytes(body[-4:], "little"):
                raise DamagedIndex
        if len(body) != count * 33 + 4:
            raise DamagedIndex
        columns = [_from_little_endian(body[at * 8 * count : (at + 1) * 8 * count]) for at in range(4)]
        index.indexes, index.epochs, index.base_offsets, index.positions = columns
        index._marks = array("B", bytes(body[4 * 8 * count : -4]))
        return index, segment_bytes

    def _decode_head_1(self, content: bytes, log_id: int) -> tuple[int, int, memoryview]:
        """The first version had one checksum, and no summary."""
        if len(content) < _LAYOUT_1.size + 4 or checksum(content[:-4]) != int.from_bytes(content[-4:], "little"):
            raise DamagedIndex
        magic, _, owner, base, segment_bytes, *tail, state, count, cuts = _LAYOUT_1.unpack_from(content)
        if (magic, owner, base) != (_MAGIC, log_id, self.base):
            raise DamagedIndex
        self._take(LogTail(*tail))
        self.state_position = None if state == NO_STATE else state
        self.cuts = cuts
        return segment_bytes, count, memoryview(content)[_LAYOUT_1.size :]


def _decode_head(content: bytes, log_id: int, base: int) -> tuple[Summary, int, int, int]:
    """The summary, the bytes that it takes, the count of marks and of cuts."""
    if len(content) < _LAYOUT.size:
        raise DamagedIndex
    fields = _LAYOUT.unpack_from(content)
    magic, version, owner, found_base, segment_bytes, last_index, last_epoch, end_offset, state, *rest = fields
    lowest_index, lowest_offset, newest_ms, count, cuts, epoch_count = rest
    end = _LAYOUT.size + epoch_count * _EPOCH.size
    if len(content) < end + 4 or checksum(content[:end]) != int.from_bytes(content[end : end + 4], "little"):
        raise DamagedIndex
    if (magic, version, owner, found_base) != (_MAGIC, _VERSION, log_id, base):
        raise DamagedIndex
    summary = Summary(
        segment_bytes=segment_bytes,
        tail=LogTail(last_index, last_epoch, end_offset),
        state_position=None if state == NO_STATE else state,
        lowest=None if lowest_index == _NONE else (lowest_index, lowest_offset),
        newest_ms=None if newest_ms == _NONE else newest_ms,
        epochs=tuple(EpochStart(*_EPOCH.unpack_from(content, at)) for at in range(_LAYOUT.size, end, _EPOCH.size)),
    )
    return summary, end + 4, count, cuts


def summary_bytes(content: bytes) -> int:
    """Returns how many bytes of a sidecar `decode_summary` needs, from its first `SUMMARY_BYTES_READ` bytes."""
    if content[4:5] == b"\1":
        return sys.maxsize
    if len(content) < _LAYOUT.size:
        return 0
    epoch_count: int = _LAYOUT.unpack_from(content)[-1]
    return _LAYOUT.size + epoch_count * _EPOCH.size + 4


def decode_summary(content: bytes, *, log_id: int, base: int) -> Summary:
    """Returns the summary at the beginning of a sidecar.

    Raises `DamagedIndex` unless it is whole and belongs to this segment and log.
    """
    if content[4:5] == b"\1":
        index, segment_bytes = SegmentIndex.decode(content, log_id=log_id, base=base, interval_bytes=1)
        return index.summary(segment_bytes)
    return _decode_head(content, log_id, base)[0]


def _little_endian(column: "array[int]") -> bytes:
    if sys.byteorder == "big":
        column = array("Q", column)
        column.byteswap()
    return column.tobytes()


def _from_little_endian(content: Buffer) -> "array[int]":
    column = array("Q")
    column.frombytes(bytes(content))
    if sys.byteorder == "big":
        column.byteswap()
    return column
