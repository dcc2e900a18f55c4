"""The data that a node's simulated disk would give back if power were lost now: read by an independent hand.

The audits do not ask the product what is durable; they read the synced bytes, and frame headers, by themselves. Only
bytes that are new since the last look are parsed: synced frames never change, their number only grows.

A log that was trimmed is read from its start. Trimmed entries count as durable if their witness, read here too, names
the place in the committed log where they ended; otherwise none of them does.

Damage that a node has not met yet is read as if it were not there, because the node takes its log so, too: `mended`.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import attrs
import msgpack
from crc32c import crc32c

from jepsen_like.simulation.raft.record import LedgerEntry
from log.memory_disk import MemoryDisk
from raft.model import NO_INDEX, NO_TERM, Entry, LogIndex, NodeId, Position, Term

_HEADER = struct.Struct("<4sBBBBQQQQQQQIIII")
_CHECKED_BYTES = _HEADER.size - 4
_MAGIC = b"QLOG"

_START = struct.Struct("<4sB3xQQQQQQII")
_START_MAGIC = b"QLST"

EMPTY = Position(NO_INDEX, NO_TERM)
STATE = 3
START_NAME = "start"


@attrs.frozen
class Flip:
    """A bit of a file that was inverted behind the node's back."""

    path: str
    bit: int


class WholeFrame(NamedTuple):
    """A frame in a segment: where it begins there, its size with the header, and the header's fields."""

    at: int
    size: int
    kind: int
    epoch: int
    log_index: int
    end_offset: int
    durable_end: int
    payload: bytes
    payload_crc: int


def whole_frames(content: bytes, base: int, start: int = 0) -> Iterator[WholeFrame]:
    """Frame after frame of the segment at address `base`, up to the end or the first one that is not whole."""
    at = start
    while at + _HEADER.size <= len(content):
        fields = _HEADER.unpack_from(content, at)
        magic, _, kind, _, _, _, address, epoch, index, offset, _, durable_end, span, size, payload_crc, header_crc = (
            fields
        )
        body = at + _HEADER.size
        if (
            magic != _MAGIC
            or address != base + at
            or body + size > len(content)
            or crc32c(memoryview(content)[at : at + _CHECKED_BYTES]) != header_crc
        ):
            return
        payload = content[body : body + size]
        if crc32c(payload) != payload_crc:
            return
        yield WholeFrame(at, _HEADER.size + size, kind, epoch, index, offset + span, durable_end, payload, payload_crc)
        at = body + size


@attrs.frozen
class DurableStart:
    """The start of a log: its first segment's address, the trimmed part's end, and that part's snapshot."""

    base: int = 0
    position: Position = EMPTY
    offset: int = 0
    applied: Position = EMPTY
    snapshot: bytes = b""

    @property
    def index(self) -> LogIndex:
        """The last index that left."""
        return self.position.index


NEVER_TRIMMED = DurableStart()


def read_start(content: bytes) -> DurableStart:
    """Returns the log-start checkpoint; that of a log that was never trimmed if there is none that is whole."""
    if len(content) < _START.size:
        return NEVER_TRIMMED
    magic, _, _, base, index, term, offset, size, payload_crc, head_crc = _START.unpack_from(content)
    payload = content[_START.size :]
    whole = magic == _START_MAGIC and len(payload) == size
    if not whole or crc32c(content[: _START.size - 4]) != head_crc or crc32c(payload) != payload_crc:
        return NEVER_TRIMMED
    if not index:
        # What left had all been replaced: nothing is gone, so a snapshot has nothing to stand for.
        return DurableStart(base)
    _, applied_index, applied_term, snapshot = msgpack.unpackb(payload)
    applied = Position(LogIndex(applied_index), Term(applied_term))
    return DurableStart(base, Position(LogIndex(index), Term(term)), offset, applied, snapshot)


@attrs.frozen
class Stored:
    """One entry on a disk: its term, the CRC-32C of its data, and the offset after its last record."""

    term: Term
    crc: int
    end_offset: int


@attrs.define
class DurableLog:
    """Term, vote and entries as synced; `entries[i - 1]` is of index i, be it gone; `votes`: by term, ever durable."""

    directory: str
    ledger: Sequence[LedgerEntry] = ()
    mended: Sequence[Flip] = ()
    written: bool = False
    """True if all counts that was written, and would outlive the process, but not the power."""
    term: Term = NO_TERM
    vote: NodeId | None = None
    directory_id: int = 0
    votes: dict[Term, NodeId] = attrs.field(factory=dict)
    entries: list[Stored] = attrs.field(factory=list)
    position: Position = EMPTY
    start: DurableStart = NEVER_TRIMMED
    _witness: bytes = b""
    _segment: int = 0
    """The address of the segment that is being read; segments are named by it."""
    _read: int = 0
    """The number of its bytes that have been read."""

    def has(self, entry: Entry) -> bool:
        """Returns True if this very entry is durable at its index."""
        if entry.index > len(self.entries):
            return False
        stored = self.entries[entry.index - 1]
        return stored.term == entry.term and stored.crc == entry.batch.crc

    def holds(self, position: Position) -> bool:
        """Returns True if an entry of this index and term is durable."""
        return position.index <= len(self.entries) and self.entries[position.index - 1].term == position.term

    def refresh(self, disk: MemoryDisk) -> None:
        """Read what has become durable since the last time."""
        witness = self._file(disk, START_NAME)
        if witness != self._witness:
            self._witness = witness
            self._begin_at(read_start(witness))
        while True:
            self._read_segment(self._content(disk, self._segment))
            following = self._segment + self._read
            if self._read == 0 or not self._content(disk, following):
                break
            self._segment, self._read = following, 0
        self.position = Position(LogIndex(len(self.entries)), self.entries[-1].term if self.entries else Term(0))

    def _begin_at(self, start: DurableStart) -> None:
        if start.base > self._segment:
            # It was reset to a snapshot, or unread frames left as well: only what the disk has from there on counts.
            self.entries, self.term, self.vote, self.directory_id = [], NO_TERM, None, 0
            self._segment, self._read = start.base, 0
        self.entries[: start.index] = self._entries_before(start)
        self.start = start

    def _entries_before(self, start: DurableStart) -> list[Stored]:
        """Returns the entries before `start`: the committed entries, if they end where it begins."""
        left = [
            Stored(known.entry.term, known.entry.batch.crc, known.entry.end_offset)
            for known in self.ledger[: start.index]
        ]
        end = (left[-1].term, left[-1].end_offset) if left else (NO_TERM, 0)
        if len(left) == start.index and end == (start.position.term, start.offset):
            return left
        return [Stored(start.position.term, -1, start.offset)] * start.index

    def _content(self, disk: MemoryDisk, base: int) -> bytes:
        # The first segment of a log that is reset gets its name only when the log-start checkpoint is durable.
        return self._file(disk, f"{base:020d}.log") or (
            self._file(disk, f"{base:020d}.reset") if base == self.start.base else b""
        )

    def _file(self, disk: MemoryDisk, name: str) -> bytes:
        path = f"{self.directory}/{name}"
        content = disk.written_content(path) if self.written else disk.durable_content(path)
        flips = [flip.bit for flip in self.mended if flip.path == path and flip.bit < len(content) * 8]
        if not flips:
            return content
        mended = bytearray(content)
        for bit in flips:
            mended[bit // 8] ^= 1 << bit % 8
        return bytes(mended)

    def _read_segment(self, content: bytes) -> None:
        for frame in whole_frames(content, self._segment, self._read):
            self._take(frame)
            self._read = frame.at + frame.size

    def _take(self, frame: WholeFrame) -> None:
        match frame.kind:
            case 1 | 2:
                del self.entries[frame.log_index - 1 :]
                self.entries.append(Stored(Term(frame.epoch), frame.payload_crc, frame.end_offset))
            case 3:
                version, term, vote, *rest = msgpack.unpackb(frame.payload)
                self.directory_id = rest[2] if version == 3 else 0
                self.term, self.vote = Term(term), None if vote is None else NodeId(vote)
                if self.vote is not None:
                    self.votes[self.term] = self.vote
            case _:
                del self.entries[frame.log_index :]
