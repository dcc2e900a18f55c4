"""The notes of a broker about the past of its copy (the file `copy`): a start finds by them what it has lost meanwhile.

A missing commit log looks like one that never existed, and a log that has lost its last file like one that ends before.
So the broker notes, outside of the log, the reach of its log (after every round, without a sync: exact after a kill),
and, durably,

- which slaves it has taken as a master, and which raft group it belongs to;
- that it is running, and on which boot of the machine: a process that ended without a stop has lost nothing while the
  machine runs;
- a doubt about its copy, with the end that it has to reach to be sure again (`CopyDoubt`).

    offset  bytes
         0   4096  notes: sequence, size, CRC-32C, JSON; the slot with the greater sequence counts
      4096   4096  the other slot
      8192    512  reach of the log: sequence, epoch, end, CRC-32C
      8704    512  the other slot

The file gets its full size when it is created, so that a full disk cannot prevent a note.
"""

import json
import struct
from collections.abc import Callable
from typing import Final, Self

import attrs

from log.disk import Disk, File
from log.errors import CorruptLog
from log.frame import checksum
from rocketmq_compat.replication.model import CopyDoubt, LogReach

COPY_NAME: Final = "copy"
SLAVES_MAX: Final = 256
"""Of a broker; ids of further slaves are not noted."""
_NOTES_BYTES: Final = 4096
_REACH_BYTES: Final = 512
_REACH_AT: Final = 2 * _NOTES_BYTES
FILE_BYTES: Final = 2 * _NOTES_BYTES + 2 * _REACH_BYTES
_NOTES: Final = struct.Struct("<QII")
_REACH: Final = struct.Struct("<QQQ")
_CRC_BYTES: Final = 4


@attrs.frozen(kw_only=True)
class CopyNotes:
    """The durable notes; the defaults belong to a broker that has noted nothing."""

    boot: str = ""
    """On which boot of the machine the broker last ran."""
    is_running: bool = False
    """True if it has not stopped in order since."""
    flushes: bool = False
    """True if acknowledged records had been flushed (`flushDiskType`)."""
    doubt: CopyDoubt | None = None
    slaves: frozenset[int] = frozenset()
    group: str | None = None
    """The raft group whose records the commit log holds."""
    tables: frozenset[str] = frozenset()
    """The files of topics, groups and offsets that have been written."""

    def encode(self) -> bytes:
        """Returns JSON."""
        content = attrs.asdict(self, recurse=False)
        content["slaves"] = sorted(self.slaves)[:SLAVES_MAX]
        content["tables"] = sorted(self.tables)
        content["doubt"] = None
        if self.doubt is not None:
            floor = self.doubt.floor
            reach = None if floor is None else [floor.epoch, floor.end]
            content["doubt"] = [reach, self.doubt.lacks_tables, self.doubt.is_flushed]
        return json.dumps(content).encode()

    @classmethod
    def decode(cls, encoded: bytes) -> Self | None:
        """Returns the notes, or None if the bytes are not notes."""
        try:
            content = json.loads(encoded)
            doubt = content.pop("doubt")
            slaves = frozenset(map(int, content.pop("slaves")))
            tables = frozenset(map(str, content.pop("tables")))
            if doubt is not None:
                floor, lacks_tables, is_flushed = doubt
                floor = None if floor is None else LogReach(*map(int, floor))
                doubt = CopyDoubt(floor, bool(lacks_tables), bool(is_flushed))
            return cls(doubt=doubt, slaves=slaves, tables=tables, **content)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None


class CopyFile:
    """The file of one broker.

    `found` holds the notes at the time of opening, None if they were missing or damaged; `found_reach` likewise.
    """

    def __init__(self, file: File) -> None:
        """Use `open`."""
        self._file = file
        self._notes_sequence = self._reach_sequence = 0
        self.found = self._read_notes()
        self.found_reach = self._read_reach()
        self.notes = self.found or CopyNotes()
        self._reach = self.found_reach

    @classmethod
    def open(cls, disk: Disk, directory: str) -> Self:
        """Returns the file of a broker's directory, created if it is missing.

        Raises `NoSpace` or `StorageFailed` if the disk refuses.
        """
        file = disk.open(f"{directory}/{COPY_NAME}", create=True)
        try:
            if file.size() < FILE_BYTES:
                file.write_at(file.size(), [bytes(FILE_BYTES - file.size())])
                file.sync()
            disk.sync_directory(directory)
            return cls(file)
        except BaseException:
            file.close()
            raise

    def _read_notes(self) -> CopyNotes | None:
        found = None
        for slot in range(2):
            content = self._file.read_at(slot * _NOTES_BYTES, _NOTES_BYTES)
            sequence, size, crc = _NOTES.unpack_from(content)
            encoded = content[_NOTES.size : _NOTES.size + size]
            if sequence > self._notes_sequence and checksum(encoded) == crc:
                notes = CopyNotes.decode(encoded)
                if notes is not None:
                    self._notes_sequence, found = sequence, notes
        return found

    def _read_reach(self) -> LogReach | None:
        found = None
        for slot in range(2):
            content = self._file.read_at(_REACH_AT + slot * _REACH_BYTES, _REACH.size + _CRC_BYTES)
            fields = content[: _REACH.size]
            sequence, epoch, end = _REACH.unpack(fields)
            if sequence > self._reach_sequence and checksum(fields) == int.from_bytes(content[_REACH.size :], "little"):
                self._reach_sequence, found = sequence, LogReach(epoch, end)
        return found

    def change(self, change: Callable[[CopyNotes], CopyNotes]) -> None:
        """Note something else, durably. Raises `StorageFailed` if the disk fails."""
        notes = change(self.notes)
        if notes == self.notes and self.found is not None:
            return
        encoded = notes.encode()
        self._notes_sequence += 1
        head = _NOTES.pack(self._notes_sequence, len(encoded), checksum(encoded))
        self._file.write_at(self._notes_sequence % 2 * _NOTES_BYTES, [head + encoded])
        self._file.sync()
        self.notes = self.found = notes

    def note_reach(self, epoch: int, end: int) -> None:
        """Note the reach of the log in the page cache, before it is published.

        Cheap if it is known. Raises `StorageFailed` if the disk fails.
        """
        noted = self._reach
        if noted is not None and noted.end == end and noted.epoch == epoch:
            return
        self._reach_sequence += 1
        fields = _REACH.pack(self._reach_sequence, epoch, end)
        content = fields + checksum(fields).to_bytes(_CRC_BYTES, "little")
        self._file.write_at(_REACH_AT + self._reach_sequence % 2 * _REACH_BYTES, [content])
        self._reach = LogReach(epoch, end)

    def close(self) -> None:
        """Release the file."""
        self._file.close()


def doubt_of(
    file: CopyFile, *, boot: str, reach: LogReach, cut: CorruptLog | None, lacks_tables: bool
) -> CopyDoubt | None:
    """Returns the doubt about a copy at its start, or None if it has lost nothing.

    `boot` is the machine's present boot, `reach` the reach of the log, and `cut` the damage for which it was cut or
    reset, if it was.
    """
    lost_power = file.found is not None and file.found.is_running and file.found.boot != boot
    notes, before = file.found, file.found_reach
    if notes is None:
        # Another disk, or one that has lost its notes: who knows what else, or if its tables were whole again.
        return CopyDoubt(None, lacks_tables=True)
    floors: list[LogReach | None] = []
    if notes.doubt is not None:
        lacks_tables |= notes.doubt.lacks_tables
        if not notes.doubt.is_flushed:
            floors.append(notes.doubt.floor)
    if before is None:
        floors.append(None)
    elif reach < before or cut is not None:
        # The note is not synced: after a loss of power it may be older than the log was.
        floors.append(None if lost_power else max(reach, before))
    if lost_power and not notes.flushes:
        floors.append(None)  # what was not flushed is gone, and perhaps the note of it, too
    if floors or lacks_tables:
        known = [each for each in floors if each is not None]
        return CopyDoubt(max(known, default=reach) if len(known) == len(floors) else None, lacks_tables)
    is_flushed = lost_power or (notes.doubt is not None and notes.doubt.is_flushed)
    return CopyDoubt(is_flushed=True) if is_flushed else None
