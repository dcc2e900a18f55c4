"""Rows that belong together, brought together, however many there are.

A task checks whole objects, and holds all of their rows in memory; a bucket of a long history is more than that. So its part
files are read in *chunks*. Each chunk's rows are sorted out by *group* (some objects whose rows fit into one task) into one
file, a record batch for each group; the task of a group then reads its batch of every file. What a census of the objects
returns, and what the driver holds, is bounded by the number of groups and chunks.

The files lie in the scratch directory next to the history, which all tasks reach. Spark's own shuffle would carry the same
bytes twice more, from Python into the JVM and back.
"""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import NEEDED, Columns, Ints
from jepsen_like.checker.rows.processes import NO_SPANS, ProcessSpans, find_malformed, refuse_malformed, require_made
from jepsen_like.checker.rows.segments import count_values
from jepsen_like.checker.rows.tasks import Gathered, of_model
from jepsen_like.checker.search import SearchBounds
from jepsen_like.checker.verdict import OF_PARTITIONS, Model
from jepsen_like.history.files import appearing, part_rows, read_dump_part, read_part, time_span
from jepsen_like.history.ops import DUMP_COLUMNS, NEVER

SLOTS: Final = 1024
"""Small objects are counted, and grouped, by a hash of their number."""
HEAVY_SHARE: Final = 1000
"""Objects that have more than this part of the rows of a chunk are counted by themselves."""
TIMED: Final = SearchBounds(clock=time.process_time)
"""The bounds of a search in a process of its own."""


@attrs.frozen
class Limits:
    """The rows that one process holds in memory at once, up to 450 bytes each, and what its searches may cost."""

    direct: int = 1 << 23
    """A history of logs with no more rows than this is checked part file by part file, as it lies."""
    task: int = 1 << 20
    """The rows of a group, if it has more than one object."""
    chunk: int = 1 << 21
    """Rows that are sorted out at once."""
    piece: int = 1 << 19
    """Rows of registers that are reduced, or sorted out, at once."""
    whole: int = 1 << 19
    """Rows of a register that is checked with all of its rows at once, where no smaller part of them decides it."""
    object: int = 3 << 20
    """Rows of an object of which all must be looked at together, with its final records: a partition, a queue of elements, a set, a
    key, an object of a user's class. One that has more is undecided. 4 << 20 took 1.1 to 1.6 GiB where nothing was wrong, and 1.8 where
    everything was."""
    reduced_share: int = 1000
    """A register that has at least this part of the rows of a large bucket is reduced piece by piece."""
    search: SearchBounds = TIMED
    """The bounds of the searches of each task."""


LIMITS: Final = Limits()


@attrs.frozen
class PartSlice:
    """Some row groups of a part file."""

    path: Path
    groups: tuple[int, ...]


Chunk = tuple[PartSlice, ...]


def with_sizes(parts: Iterable[Path]) -> list[tuple[Path, tuple[int, ...]]]:
    """Returns part files with the rows in each of their row groups. Raises `UnreadableHistory`."""
    return [(path, part_rows(path)) for path in parts]


def rows_in(parts: Iterable[tuple[Path, tuple[int, ...]]]) -> int:
    """Returns how many rows these part files have."""
    return sum(sum(rows) for _, rows in parts)


def chunks_of(parts: Iterable[tuple[Path, tuple[int, ...]]], rows_max: int) -> list[Chunk]:
    """Returns the same rows in the same order, cut into chunks of about so many; a row group stays whole."""
    chunks: list[Chunk] = []
    chunk: list[PartSlice] = []
    held = 0
    for path, of_groups in parts:
        for number, rows in enumerate(of_groups):
            if chunk and held + rows > rows_max:
                chunks.append(tuple(chunk))
                chunk, held = [], 0
            if chunk and chunk[-1].path == path:
                chunk[-1] = attrs.evolve(chunk[-1], groups=(*chunk[-1].groups, number))
            else:
                chunk.append(PartSlice(path, (number,)))
            held += rows
    return [*chunks, tuple(chunk)] if chunk else chunks


def columns_of(chunk: Chunk, names: Sequence[str] = NEEDED) -> Columns:
    """Returns the rows of a chunk. Raises `UnreadableHistory`."""
    import pyarrow as pa

    return Columns.of_table(pa.concat_tables([read_part(one.path, names, groups=one.groups) for one in chunk]))


def slot_of(objects: Ints, slots: int = SLOTS) -> Ints:
    """Returns a hash of each object, below `slots`; another one than that of the buckets."""
    mixed = (objects.astype(np.uint64) * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(40)
    return (mixed % np.uint64(slots)).astype(np.int64)


@attrs.frozen(eq=False)
class Census:
    """The number of rows of a chunk that are about each object."""

    slots: Ints
    heavy: Ints
    """Objects with a good part of the rows, and how many; all others are counted in `slots`."""
    rows: Ints
    begin: int = NEVER
    """The moment when the first operation of the chunk began, if that was asked for, and the last known end or begin of one."""
    end: int = -NEVER


def count_heavy(censuses: Iterable[Census]) -> dict[int, int]:
    """Returns the rows of each object that any of them counted by itself."""
    heavy: dict[int, int] = {}
    for census in censuses:
        for obj, rows in zip(census.heavy.tolist(), census.rows.tolist(), strict=True):
            heavy[obj] = heavy.get(obj, 0) + rows
    return heavy


@attrs.frozen
class CensusTask:
    """Count the rows of a chunk by object."""

    chunk: Chunk
    timed: bool = False
    """True if times are asked for."""

    def execute(self) -> Census:
        """See `Task`."""
        parts = [read_part(one.path, ("object",), groups=one.groups).column("object").to_numpy() for one in self.chunk]
        objects, rows = count_values(np.concatenate(parts))
        heavy = rows * HEAVY_SHARE > int(rows.sum())
        slots = np.bincount(slot_of(objects[~heavy]), weights=rows[~heavy], minlength=SLOTS)
        begin, end = NEVER, -NEVER
        for part in self.chunk if self.timed else ():
            first, last = time_span(part.path, part.groups)
            begin, end = min(begin, first), max(end, last)
        return Census(slots.astype(np.int64), objects[heavy], rows[heavy], begin, end)


@attrs.frozen(eq=False)
class Grouping:
    """Which group the rows of an object belong to."""

    slots: Ints
    heavy: Ints
    """Objects that are not grouped by their slot, sorted, and the group of each."""
    heavy_groups: Ints
    heavy_rows: Ints
    """Of each of them."""
    rows: Ints
    """Of each group, about."""

    @classmethod
    def of(cls, censuses: Sequence[Census], rows_max: int) -> "Grouping":
        """Returns groups of no more than `rows_max` rows each, but of at least one object."""
        slots = np.sum([np.zeros(SLOTS, np.int64), *(census.slots for census in censuses)], axis=0)
        heavy = count_heavy(censuses)
        objects = np.array(sorted(heavy), np.int64)
        groups, sizes = [], [0]
        for rows in [*slots.tolist(), *(heavy[obj] for obj in objects.tolist())]:
            if sizes[-1] and sizes[-1] + rows > rows_max:
                sizes.append(0)
            groups.append(len(sizes) - 1)
            sizes[-1] += rows
        of_heavy = np.array([heavy[obj] for obj in objects.tolist()], np.int64)
        of_groups = np.array(groups[SLOTS:], np.int64)
        return cls(np.array(groups[:SLOTS]), objects, of_groups, of_heavy, np.array(sizes, np.int64))

    @property
    def groups(self) -> int:
        """Returns how many there are."""
        return len(self.rows)

    def alone_in(self, group: int) -> int | None:
        """Returns the object that a group is about, if it is one that was counted by itself."""
        of_group = np.flatnonzero(self.heavy_groups == group)
        if len(of_group) != 1 or self.heavy_rows[of_group[0]] != self.rows[group]:
            return None
        return int(self.heavy[of_group[0]])

    def group_of(self, objects: Ints) -> Ints:
        """Returns the group of each."""
        group = self.slots[slot_of(objects)]
        if len(self.heavy):
            at = np.minimum(np.searchsorted(self.heavy, objects), len(self.heavy) - 1)
            group = np.where(self.heavy[at] == objects, self.heavy_groups[at], group)
        return group


@attrs.frozen
class SortTask:
    """Sort the rows of a chunk out by group, into `file`."""

    chunk: Chunk
    model: Model
    division: Grouping
    file: Path

    def execute(self) -> ProcessSpans:
        """See `Task`: when the processes of the chunk were at work."""
        path = self.chunk[0].path
        rows, spans = of_model(columns_of(self.chunk), path, self.model), NO_SPANS
        if self.model in OF_PARTITIONS:
            refuse_malformed(path, find_malformed(rows))
        else:
            spans = require_made(rows, path)
        group = self.division.group_of(rows.object)
        write_groups({name: getattr(rows, name) for name in NEEDED}, group, self.division.groups, self.file)
        return spans


@attrs.frozen
class MeetingTask:
    """Look for operations of one process at the same time, in two chunks of a bucket."""

    chunks: tuple[Chunk, Chunk]
    processes: Ints

    def execute(self) -> None:
        """See `Task`; raises `UnreadableHistory` if there are any."""
        found = []
        for chunk in self.chunks:
            rows = columns_of(chunk)
            found.append(rows.where(np.isin(rows.process, self.processes)))
        require_made(Columns.join(found), self.chunks[0][0].path)


@attrs.frozen
class SortDumpTask:
    """Sort the records of final logs out by group, into `file`; those of a bucket without rows are left out."""

    parts: tuple[Path, ...]
    divisions: tuple[Grouping | None, ...]
    """By bucket."""
    file: Path

    def execute(self) -> None:
        """See `Task`."""
        import pyarrow as pa

        table = pa.concat_tables([read_dump_part(path) for path in self.parts])
        columns = {name: table.column(name).to_numpy() for name, _ in DUMP_COLUMNS}
        bucket = bucket_numbers(columns["object"], len(self.divisions))
        group = np.full(len(bucket), -1, np.int64)
        begin = 0
        for number, division in enumerate(self.divisions):
            if division is not None:
                mine = bucket == number
                group[mine] = begin + division.group_of(columns["object"][mine])
                begin += division.groups
        kept = np.flatnonzero(group >= 0)
        write_groups({name: of_all[kept] for name, of_all in columns.items()}, group[kept], begin, self.file)


def bucket_numbers(objects: Ints, buckets: int) -> Ints:
    """Returns the bucket of each object: `bucket_of`, of many."""
    mixed = (objects.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    return (mixed % np.uint64(buckets)).astype(np.int64)


def write_array(values: Any, file: Path) -> None:
    """Write an array as a file of numpy."""
    with appearing(file) as unfinished, unfinished.open("wb") as sink:
        np.save(sink, values, allow_pickle=False)


def write_arrow(columns: dict[str, Any], file: Path) -> None:
    """Write an Arrow file of one record batch."""
    import pyarrow as pa

    batch = pa.RecordBatch.from_pydict({name: pa.array(column) for name, column in columns.items()})
    with (
        appearing(file) as unfinished,
        pa.OSFile(str(unfinished), "wb") as sink,
        pa.ipc.new_file(sink, batch.schema) as writer,
    ):
        writer.write_batch(batch)


def write_groups(columns: dict[str, Any], group: Ints, groups: int, file: Path) -> None:
    """Write an Arrow file with a record batch for each group; rows of one group keep their order."""
    import pyarrow as pa

    narrow = group.astype(np.int16) if groups < np.iinfo(np.int16).max else group
    # Of two bytes numpy sorts by counting, many times faster.
    order = np.argsort(narrow, kind="stable")
    begins = np.searchsorted(narrow[order], np.arange(groups + 1))
    arrays = {name: pa.array(column[order]) for name, column in columns.items()}
    batch = pa.RecordBatch.from_pydict(arrays)
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1), use_threads=False)
    with (
        appearing(file) as unfinished,
        pa.OSFile(str(unfinished), "wb") as sink,
        pa.ipc.new_file(sink, batch.schema, options=options) as writer,
    ):
        for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
            writer.write_batch(batch.slice(begin, end - begin))


def batches_of(files: Sequence[Path], number: int) -> tuple[Gathered, ...]:
    """Returns where the rows of a group lie."""
    return tuple(Gathered(file, number) for file in files)
