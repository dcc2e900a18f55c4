"""What a node's simulated disk would give back if power were lost now: read by an independent hand.

The audits do not ask the product what is durable; they read the synced bytes themselves, with a reading of the frame
header of their own. Only what is new since the last look is parsed: synced frames never change, their number only grows.
"""

import struct

import attrs
import msgpack
from crc32c import crc32c

from log.memory_disk import MemoryDisk
from raft.model import NO_INDEX, NO_TERM, Entry, LogIndex, NodeId, Position, Term

_HEADER = struct.Struct("<4sBBBBQQQQQQQIIII")
_CHECKED_BYTES = _HEADER.size - 4
_MAGIC = b"QLOG"

EMPTY = Position(NO_INDEX, NO_TERM)


@attrs.frozen
class Stored:
    """One entry on a disk: its term, the CRC-32C of its data, and the offset after its last record."""

    term: Term
    crc: int
    end_offset: int


@attrs.define
class DurableLog:
    """Term, vote and entries as the synced bytes have them; `entries[i - 1]` is that of index i.

    `votes` has every vote that was ever durable, by term.
    """

    directory: str
    term: Term = NO_TERM
    vote: NodeId | None = None
    votes: dict[Term, NodeId] = attrs.field(factory=dict)
    entries: list[Stored] = attrs.field(factory=list)
    position: Position = EMPTY
    _segment: int = 0
    """The address of the segment that is being read; segments are named by it."""
    _read: int = 0
    """How many bytes of it have been read."""

    def has(self, entry: Entry) -> bool:
        """Whether this very entry is durable at its index."""
        if entry.index > len(self.entries):
            return False
        stored = self.entries[entry.index - 1]
        return stored.term == entry.term and stored.crc == entry.batch.crc

    def holds(self, position: Position) -> bool:
        """Whether an entry of this index and term is durable."""
        return position.index <= len(self.entries) and self.entries[position.index - 1].term == position.term

    def refresh(self, disk: MemoryDisk) -> None:
        """Read what has become durable since the last time."""
        while True:
            self._read_segment(disk.durable_content(f"{self.directory}/{self._segment:020d}.log"))
            following = self._segment + self._read
            if self._read == 0 or not disk.durable_content(f"{self.directory}/{following:020d}.log"):
                break
            self._segment, self._read = following, 0
        self.position = Position(LogIndex(len(self.entries)), self.entries[-1].term if self.entries else Term(0))

    def _read_segment(self, content: bytes) -> None:
        """Take frame after frame up to the end or the first one that is not whole."""
        at = self._read
        while at + _HEADER.size <= len(content):
            fields = _HEADER.unpack_from(content, at)
            magic, _, kind, _, _, _, address, epoch, index, base_offset, _, _, span, size, payload_crc, header_crc = (
                fields
            )
            body = at + _HEADER.size
            if (
                magic != _MAGIC
                or address != self._segment + at
                or body + size > len(content)
                or crc32c(memoryview(content)[at : at + _CHECKED_BYTES]) != header_crc
            ):
                break
            payload = content[body : body + size]
            if crc32c(payload) != payload_crc:
                break
            self._take(kind, index, payload, Stored(Term(epoch), payload_crc, base_offset + span))
            at = body + size
        self._read = at

    def _take(self, kind: int, index: int, payload: bytes, stored: Stored) -> None:
        match kind:
            case 1 | 2:
                del self.entries[index - 1 :]
                self.entries.append(stored)
            case 3:
                _, term, vote = msgpack.unpackb(payload)
                self.term, self.vote = Term(term), None if vote is None else NodeId(vote)
                if self.vote is not None:
                    self.votes[self.term] = self.vote
            case _:
                del self.entries[index:]
