"""Finding frames: a sparse index of the whole log in memory, and one of each segment for its sidecar file.

`SparseIndex` is the logical view: strictly ascending indexes, each with its base offset and the address of its frame. It
holds few frames, but always the right ones. Rules that everything else leans on:

- the first frame of every segment is in it, and so is the first frame after every cut;
- a cut drops every entry from the cut on;
- hence, between two neighbouring entries, the frames that live are the ones that follow the first entry on disk, and a
  reader that counts its way up to the index of the next entry goes on at that entry's address.

`SegmentIndex` is the physical view: what one segment says about the log, in the order of its frames, cuts included. It is
a function of the segment's frames alone, so that a rebuilt sidecar equals the lost one byte for byte. Applying the segment
indexes of a log one after the other to an empty `SparseIndex` and `EpochCache` gives the state after the last of them.
"""

import enum
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

import attrs

from log.epoch_cache import EpochCache
from log.frame import Address, Buffer, Header, Kind, checksum


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
        """The index at `slot` and the address of its frame."""
        return self._indexes[slot], Address(self._addresses[slot])

    def index_at(self, slot: int) -> int | None:
        """The index at `slot`, None behind the last."""
        return self._indexes[slot] if slot < len(self._indexes) else None

    def first(self) -> tuple[int, int]:
        """The first index and its base offset; (0, 0) for an empty log."""
        return (self._indexes[0], self._offsets[0]) if self._indexes else (0, 0)

    def add(self, index: int, base_offset: int, address: int) -> None:
        """Note a frame that comes after everything noted before."""
        self._indexes.append(index)
        self._offsets.append(base_offset)
        self._addresses.append(address)

    def extend(self, indexes: "array[int]", offsets: "array[int]", addresses: "array[int]") -> None:
        """Note many frames that come after everything noted before."""
        self._indexes.extend(indexes)
        self._offsets.extend(offsets)
        self._addresses.extend(addresses)

    def cut(self, index: int) -> None:
        """Everything from `index` on is gone."""
        keep = bisect_left(self._indexes, index)
        del self._indexes[keep:]
        del self._offsets[keep:]
        del self._addresses[keep:]

    def slot_of_index(self, index: int) -> int:
        """The last entry not above `index`; the caller made sure that there is one."""
        return bisect_right(self._indexes, index) - 1

    def slot_of_offset(self, offset: int) -> int:
        """The last entry that begins at or before `offset`; -1 if none does."""
        return bisect_right(self._offsets, offset) - 1


class _Mark(enum.IntEnum):
    FRAME = 0
    CUT = 1


@attrs.frozen
class Tail:
    """Where a log ends after some frame: the last index (0 = none), its epoch, and the next offset."""

    last_index: int = 0
    last_epoch: int = 0
    end_offset: int = 0

    def objection(self, header: Header) -> str | None:
        """Why a frame with this header cannot follow here; None if it can."""
        if self._precedes(header):
            return None
        named = f"index {header.log_index}, epoch {header.epoch}, offset {header.base_offset}"
        return f"the frame ({named}) does not follow index {self.last_index}"

    def _precedes(self, header: Header) -> bool:
        index, last = header.log_index, self.last_index
        match Kind(header.kind):
            case Kind.RECORDS | Kind.CONTROL:
                return 1 <= index <= last + 1 and (index != last + 1 or self._continues(header))
            case Kind.STATE:
                return Tail(index, header.epoch, header.base_offset) == self
            case Kind.TRUNCATE:
                return index <= last

    def _continues(self, header: Header) -> bool:
        return self.last_index == 0 or (header.base_offset == self.end_offset and header.epoch >= self.last_epoch)


NO_STATE: Final = 2**64 - 1
_MAGIC = b"QLIX"
_VERSION = 1
_LAYOUT = struct.Struct("<4sBxxxQQQQQQQII")


class DamagedIndex(Exception):
    """The sidecar is not a whole index of the segment it is named for."""


class SegmentIndex:
    """What one segment says about the log; grows frame by frame, in the order of the bytes.

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

    @property
    def tail(self) -> Tail:
        """Where the log ends after the newest frame of this segment."""
        return Tail(self.last_index, self.last_epoch, self.end_offset)

    def note_indexed(self, index: int, epoch: int, base_offset: int, span: int, position: int) -> bool:
        """A RECORDS or CONTROL frame; True if it must be found in the index: see the rules above."""
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

    def note_state(self, tail: Tail, position: int) -> None:
        """A STATE frame."""
        self._take(tail)
        self.state_position = position

    def note_truncate(self, tail: Tail, position: int) -> None:
        """A TRUNCATE frame; the next frame is the first after a cut, whatever its index."""
        self._take(tail)
        self._add(_Mark.CUT, tail.last_index + 1, tail.last_epoch, tail.end_offset, position)
        self._next_mark = 0
        self.cuts += 1

    def note(self, header: Header, position: int) -> None:
        """Any frame, by its header."""
        match Kind(header.kind):
            case Kind.RECORDS | Kind.CONTROL:
                self.note_indexed(header.log_index, header.epoch, header.base_offset, header.span, position)
            case Kind.STATE:
                self.note_state(Tail(header.log_index, header.epoch, header.base_offset), position)
            case Kind.TRUNCATE:
                self.note_truncate(Tail(header.log_index, header.epoch, header.base_offset), position)

    def apply_to(self, sparse: SparseIndex, epochs: EpochCache) -> None:
        """Let the log's indexes see what this segment says."""
        if not self.indexes:
            return
        if not self.cuts:
            sparse.cut(self.indexes[0])
            sparse.extend(self.indexes, self.base_offsets, array("Q", [self.base + at for at in self.positions]))
            self._apply_epochs(epochs)
            return
        for mark, index, epoch, base_offset, position in zip(
            self._marks, self.indexes, self.epochs, self.base_offsets, self.positions, strict=True
        ):
            sparse.cut(index)
            epochs.cut(index)
            if mark == _Mark.FRAME:
                sparse.add(index, base_offset, self.base + position)
                epochs.note(epoch, index, base_offset)

    def _apply_epochs(self, epochs: EpochCache) -> None:
        epochs.cut(self.indexes[0])
        known = -1
        for slot, epoch in enumerate(self.epochs):
            if epoch != known:
                epochs.note(epoch, self.indexes[slot], self.base_offsets[slot])
                known = epoch

    def _take(self, tail: Tail) -> None:
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
        """The sidecar file: fixed fields, the columns, then the CRC-32C of all of it; little-endian."""
        state = NO_STATE if self.state_position is None else self.state_position
        fields = _LAYOUT.pack(
            _MAGIC,
            _VERSION,
            log_id,
            self.base,
            segment_bytes,
            self.last_index,
            self.last_epoch,
            self.end_offset,
            state,
            len(self.indexes),
            self.cuts,
        )
        columns = [self.indexes, self.epochs, self.base_offsets, self.positions]
        content = b"".join([fields, *map(_little_endian, columns), self._marks.tobytes()])
        return content + checksum(content).to_bytes(4, "little")

    @classmethod
    def decode(cls, content: bytes, *, log_id: int, base: int, interval_bytes: int) -> tuple["SegmentIndex", int]:
        """The index and the size in bytes of the segment it was written for; `DamagedIndex` unless whole and ours."""
        if len(content) < _LAYOUT.size + 4 or checksum(content[:-4]) != int.from_bytes(content[-4:], "little"):
            raise DamagedIndex
        fields = _LAYOUT.unpack_from(content)
        magic, version, owner, found_base, segment_bytes, *tail, state, count, cuts = fields
        if (magic, version, owner, found_base) != (_MAGIC, _VERSION, log_id, base):
            raise DamagedIndex
        if len(content) != _LAYOUT.size + count * 33 + 4:
            raise DamagedIndex
        index = cls(base, interval_bytes)
        view = memoryview(content)[_LAYOUT.size : -4]
        columns = [_from_little_endian(view[at * 8 * count : (at + 1) * 8 * count]) for at in range(4)]
        index.indexes, index.epochs, index.base_offsets, index.positions = columns
        index._marks = array("B", bytes(view[4 * 8 * count :]))
        index._take(Tail(*tail))
        index.state_position = None if state == NO_STATE else state
        index.cuts = cuts
        return index, segment_bytes


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
