"""The key index: finds the messages with a key, newest first (RocketMQ's `IndexService`).

An entry is 24 bytes: the hash of topic and key, the previous entry of the same slot, physical offset and store time.
Entries are collected in memory, in a *table*; a full one becomes a file. There are at most `tables_max` of them: with
more, the oldest goes, and so does a table whose messages left the commit log. When the index is closed the last table
becomes a file, too; the next start reads it, and goes on with it.

    <directory>/<physical offset at which it begins>      slots, then entries, little-endian

All of it is derived from the commit log: entries outside of files are found again by reading the log. Two keys may have
one hash, and the content of a file is not checked, so the caller checks each message that is found.
"""

import contextlib
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import attrs
from attrs.validators import gt

from log.disk import Disk, replace_file
from log.errors import CorruptLog
from log.file_pool import FilePool, PooledFile

_ENTRY: Final = struct.Struct("<IIQQ")
_SLOT: Final = struct.Struct("<I")
_SLOTS: Final = 1 << 16


@attrs.frozen(kw_only=True)
class KeyIndexConfig:
    """The bounds of a key index. Raises `ValueError` if one is not positive."""

    entries_max: int = attrs.field(default=1 << 17, validator=gt(0))
    """A table with so many entries becomes a file, of 3.3 MB by default."""
    span_bytes_max: int = attrs.field(default=256 << 20, validator=gt(0))
    """And so does one that covers so many bytes of the commit log, so that a restart reads no more of them again."""
    tables_max: int = attrs.field(default=300, validator=gt(0))
    """The number of files that are kept: with the other defaults one GB at most."""


@attrs.frozen
class TableFile:
    """A table in a file, for the messages from the physical offset `start` up to `end`, exclusive. Times in ms."""

    start: int
    end: int
    count: int
    oldest_ms: int
    newest_ms: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.start:020}"


class KeyTable:
    """Entries in memory, for the messages from the physical offset `start` up to `end`, exclusive."""

    __slots__ = ("_entries", "_slots", "count", "end", "newest_ms", "oldest_ms", "saved_end", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = self.saved_end = start
        """The entries of messages before `saved_end` are in a file."""
        self.count = 0
        self.oldest_ms = self.newest_ms = 0
        self._slots = array("I", bytes(4 * _SLOTS))
        self._entries = bytearray()

    def add(self, keys: Iterable[tuple[int, int, int]], end: int) -> None:
        """Add entries (hash, physical offset, store time) up to the physical offset `end`."""
        slots, entries, count = self._slots, self._entries, self.count
        for key, physical, store_ms in keys:
            slot = key % _SLOTS
            entries += _ENTRY.pack(key, slots[slot], physical, store_ms)
            count += 1
            slots[slot] = count
            if not self.newest_ms:
                self.oldest_ms = self.newest_ms = store_ms
            elif store_ms > self.newest_ms:
                self.newest_ms = store_ms
            elif store_ms < self.oldest_ms:
                self.oldest_ms = store_ms
        self.count, self.end = count, end

    def find(self, key: int) -> Iterator[tuple[int, int]]:
        """Yields physical offset and store time of the entries of a hash, newest first."""
        return _chain(key, self._slots[key % _SLOTS], lambda at: _ENTRY.unpack_from(self._entries, at * _ENTRY.size))

    def before(self, physical: int) -> "KeyTable":
        """Returns the table without the entries of messages that lie at this physical offset or behind it."""
        left = KeyTable(self.start)
        left.saved_end = self.saved_end
        rows = _ENTRY.iter_unpack(self._entries)
        left.add([(key, place, store_ms) for key, _, place, store_ms in rows if place < physical], physical)
        return left

    @classmethod
    def read(cls, file: TableFile, content: bytes) -> "KeyTable | None":
        """Returns the table in this file, or None unless all of it is there."""
        rows = content[_SLOTS * _SLOT.size :]
        if len(rows) < file.count * _ENTRY.size:
            return None
        table = cls(file.start)
        entries = _ENTRY.iter_unpack(rows[: file.count * _ENTRY.size])
        table.add([(key, place, store_ms) for key, _, place, store_ms in entries], file.end)
        table.saved_end = file.end
        return table

    def content(self) -> Sequence[bytes]:
        """Returns the content of the file that it becomes."""
        return [struct.pack(f"<{_SLOTS}I", *self._slots), bytes(self._entries)]


def _chain(key: int, at: int, read: Callable[[int], tuple[int, ...]]) -> Iterator[tuple[int, int]]:
    """Yields the entries of one slot with this key, from entry `at`, the newest, counted from 1."""
    while at > 0:
        found, before, physical, store_ms = read(at - 1)
        if found == key:
            yield physical, store_ms
        if before >= at:
            return  # damage: an entry follows those before it
        at = before


class KeyIndex:
    """The key index of a broker. One thread owns it; only `write_table` may be called in another one."""

    def __init__(self, disk: Disk, pool: FilePool, directory: str, config: KeyIndexConfig) -> None:
        """Begin with an empty index. Raises `StorageFailed` if the disk fails."""
        self.directory = directory
        self._disk = disk
        self._pool = pool
        self._config = config
        self._files: list[TableFile] = []
        self._full: list[KeyTable] = []
        self._table = KeyTable(0)
        self._readers: dict[TableFile, PooledFile] = {}
        self._gone: list[str] = []
        disk.make_directory(directory)

    def load(self, files: Iterable[TableFile], end: int) -> None:
        """Load a checkpoint: the files, oldest first, and the physical offset up to which they hold all entries."""
        self._close_readers()
        self._files, self._full, self._table, self._gone = list(files), [], KeyTable(end), []

    def go_on(self) -> None:
        """Read the last table if it is not full, to go on with it. Call it after `load`, if all files are there."""
        last, end = self._files[-1] if self._files else None, self._table.end
        if last is not None and last.end == end and last.count < self._config.entries_max:
            with contextlib.closing(self._disk.open(f"{self.directory}/{last.name}", create=False)) as file:
                self._table = KeyTable.read(last, file.read_at(0, file.size())) or self._table

    def end_table(self) -> None:
        """Let the last table become a file with the next checkpoint, because the index will be closed."""
        if self._table.saved_end < self._table.end and self._table.count:
            self._full.append(self._table)
            self._table = KeyTable(self._table.end)

    @property
    def end(self) -> int:
        """The physical offset before which the index has the entries of all messages, except dropped ones."""
        return self._table.end

    @property
    def files(self) -> Sequence[TableFile]:
        """The tables that are in files, oldest first."""
        return tuple(self._files)

    def add(self, keys: Sequence[tuple[int, int, int]], end: int) -> None:
        """Add the entries (hash, physical offset, store time) of the messages from `end` of before up to this one."""
        table, config = self._table, self._config
        table.add(keys, end)
        if table.count >= config.entries_max or (table.count and end - table.start >= config.span_bytes_max):
            self._full.append(table)
            self._table = KeyTable(end)

    def find(self, key: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Yields physical offsets of messages that may have the key of this hash, stored in this time, newest first.

        The index must not change meanwhile. Raises `CorruptLog` if a file is too short.
        """
        tables: list[KeyTable] = [self._table, *reversed(self._full)]
        for table in tables:
            yield from (place for place, store_ms in table.find(key) if begin_ms <= store_ms <= end_ms)
        in_memory = {each.start for each in tables}
        for file in reversed(self._files):
            if file.start not in in_memory and file.newest_ms >= begin_ms and file.oldest_ms <= end_ms:
                found = self._find_in_file(file, key)
                yield from (place for place, store_ms in found if begin_ms <= store_ms <= end_ms)

    def cut(self, physical: int) -> int:
        """Remove the entries of messages at or behind this physical offset. Returns the new `end`, which may be lower.

        Entries from there on must be added again, because files never change.
        """
        kept = [each for each in self._files if each.end <= physical]
        if len(kept) < len(self._files):
            table = KeyTable(min(physical, self._files[len(kept)].start))
            self._files, self._full, self._table = kept, [], table
            self._close_readers()
        elif physical < self._table.end:
            tables = [each for each in [*self._full, self._table] if each.start < physical]
            table = tables.pop().before(physical) if tables else KeyTable(physical)
            self._full, self._table = tables, table
        return self._table.end

    def trim(self, start: int) -> None:
        """Let go of the files whose messages all lie before this physical offset; see `take_gone`."""
        self._keep([each for each in self._files if each.end > start])

    # Writing to files

    def to_save(self, physical: int) -> list[KeyTable]:
        """Returns the full tables, oldest first, of messages before this physical offset only."""
        return [each for each in self._full if each.end <= physical]

    def saved_end(self, tables: Sequence[KeyTable], physical: int) -> int:
        """Returns the end of the entries in files once these tables are in files; at most `physical`."""
        left = next(each for each in [*self._full, self._table] if each not in tables)
        return physical if left is self._table and not left.count else min(left.saved_end, physical)

    def files_with(self, tables: Sequence[KeyTable]) -> list[TableFile]:
        """Returns the files that there are once these tables are in files, oldest first."""
        made = [TableFile(each.start, each.end, each.count, each.oldest_ms, each.newest_ms) for each in tables]
        kept = [each for each in self._files if not made or each.start < made[0].start]
        return [*kept, *made][-self._config.tables_max :]

    def note_saved(self, tables: Sequence[KeyTable]) -> None:
        """These tables are in files, and a checkpoint names them."""
        self._keep(self.files_with(tables))
        self._full = [each for each in self._full if each not in tables]

    def take_gone(self) -> list[str]:
        """Returns the paths of files that are useless once a checkpoint names `files_with` alone, and forgets them."""
        again = {f"{self.directory}/{each.start:020}" for each in [*self._full, self._table]}
        gone, self._gone = [each for each in self._gone if each not in again], []
        return gone

    def note_gone(self, paths: Iterable[str]) -> None:
        """Take back paths from `take_gone` that were not removed."""
        self._gone += paths

    def write_table(self, table: KeyTable) -> None:
        """Write a table to its file, durably. Raises `NoSpace` or `StorageFailed`; the call may be repeated."""
        replace_file(self._disk, self.directory, f"{table.start:020}", *table.content())

    def remove_unknown(self) -> list[str]:
        """Remove the files that no table is in. Returns the paths of files that should be there and are not."""
        known = {each.name for each in self._files}
        found = self._disk.list_directory(self.directory)
        for name in found:
            if name not in known:
                self._disk.remove(f"{self.directory}/{name}")
        return [f"{self.directory}/{name}" for name in sorted(known.difference(found))]

    # How it is done

    def _keep(self, files: Sequence[TableFile]) -> None:
        names = {each.name for each in files}
        for file in self._files:
            if file.name not in names:
                self._gone.append(f"{self.directory}/{file.name}")
            if file not in files and file in self._readers:
                self._readers.pop(file).close()
        self._files = list(files)

    def _close_readers(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _find_in_file(self, file: TableFile, key: int) -> Iterator[tuple[int, int]]:
        reader = self._readers.get(file)
        if reader is None:
            reader = self._readers[file] = self._pool.file(f"{self.directory}/{file.name}")

        def read(layout: struct.Struct, position: int) -> tuple[int, ...]:
            found = reader.read_at(position, layout.size)
            if len(found) != layout.size:
                raise CorruptLog(reader.path, position, "the key index ends early")
            return layout.unpack(found)

        (newest,) = read(_SLOT, key % _SLOTS * _SLOT.size)
        return _chain(key, newest, lambda at: read(_ENTRY, _SLOTS * _SLOT.size + at * _ENTRY.size))
