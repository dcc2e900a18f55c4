"""Requests and answers: one row per attempt, in columns, written while the load runs.

The layout on disk; the values and columns are in `history.ops`.

- Rows of one object lie in one bucket (`bucket=<k>/`), in part files that are closed while the load runs. A part file
  appears under its name only when it is complete, so a crash loses the newest seconds and nothing else. Rows are
  written in the order they ended: the parts of one hot log are its time segments.
- The writer holds a bounded number of rows, whatever the length of the run.

pyarrow is imported when a file is touched.
"""

import contextlib
import functools
import json
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import attrs
from attrs.validators import ge, instance_of

from jepsen_like.history.kinds import HEAD_BYTES, PARQUET, kind_of
from jepsen_like.history.ops import COLUMNS, DUMP_COLUMNS, NEVER, NONE, Action, ErrorCode, Op, Outcome

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

FORMAT_VERSION: Final = 7
FORMATS_READ: Final = ("1", "2", "3", "4", "5", "6", "7")
"""Version 2 has reads of what had left the log (`ErrorCode.TRIMMED`), version 3 dumps of several objects, version 4
queues, version 5 queues of elements, sets and lists, version 6 transactions, version 7 mirrors of two clusters.
"""
BUCKETS: Final = 8
PART_ROWS_MAX: Final = 32768
PART_SECONDS_MAX: Final = 5.0
PARTS_IN_FLIGHT_MAX: Final = 2 * BUCKETS
KEPT: Final = "kept.json"
FINAL_LOGS: Final = "final_logs"
"""In test.json: how many nodes leave a final log, if a system does not promise that all of them hold the same."""


PATH_CHARS_MAX: Final = 500
REASON_CHARS_MAX: Final = 1400
"""Of a longer reason the middle is left out, so that an error stays a line that can be read."""


@attrs.define
class UnreadableHistory(Exception):
    """The path, or the URL, does not hold a history; the message names the file and the reason."""

    path: Path | str
    reason: str

    def __str__(self) -> str:
        path, reason = str(self.path), self.reason
        if len(reason) > REASON_CHARS_MAX:
            reason = f"{reason[: REASON_CHARS_MAX - 200]} ... {reason[-150:]}"
        return f"{path if len(path) <= PATH_CHARS_MAX else f'...{path[-PATH_CHARS_MAX:]}'}: {reason}"


def no_parquet(path: Path, error: Exception) -> UnreadableHistory:
    """Returns the error for a file that should be of Parquet, with what it is instead if that can be seen."""
    head = b""
    with contextlib.suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                head = file.read(HEAD_BYTES)
    return UnreadableHistory(
        path, (None if head.startswith(PARQUET) else kind_of(head)) or f"not a readable Parquet file ({error})"
    )


def bucket_of(obj: int, buckets: int) -> int:
    """The bucket of an object: a multiplicative hash, so that neighbouring keys spread."""
    return (((obj * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF) >> 32) % buckets


@functools.cache
def schema(columns: tuple[tuple[str, str], ...] = COLUMNS) -> Any:
    """The pyarrow schema of a history (or, given `DUMP_COLUMNS`, of a dump)."""
    import pyarrow as pa

    types = {"q": pa.int64(), "i": pa.int32(), "h": pa.int16(), "b": pa.int8()}
    fields = [pa.field(name, types[code], nullable=False) for name, code in columns]
    return pa.schema(fields, metadata={"quorumlog.format": str(FORMAT_VERSION)})


class Rows:
    """Rows being gathered, one plain array per column (91 bytes per row of a history)."""

    def __init__(self, columns: tuple[tuple[str, str], ...]) -> None:
        self.columns = columns
        self.arrays = [array(code) for _, code in columns]

    def __len__(self) -> int:
        return len(self.arrays[0])

    def table(self) -> Any:
        """The same rows as a pyarrow table, without a copy."""
        import pyarrow as pa

        of = schema(self.columns)
        arrays = [
            pa.Array.from_buffers(field.type, len(values), [None, pa.py_buffer(values)])
            for field, values in zip(of, self.arrays, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=of)


def write_part(table: Any, path: Path) -> None:
    """Write one Parquet file so that `path` names either nothing or the whole of it."""
    import pyarrow.parquet as pq

    with appearing(path) as unfinished:
        pq.write_table(table, unfinished, compression="zstd", compression_level=1)


@contextlib.contextmanager
def appearing(file: Path) -> Iterator[Path]:
    """Give a path to write to; the file appears whole, however often and by however many processes it is written."""
    unfinished = file.with_name(f".{file.name}.{os.urandom(16).hex()}")
    try:
        yield unfinished
        os.replace(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)


class HistoryWriter:
    """Records operations into `directory` (a run's `history.parquet/`) in bounded memory. One thread records.

    Parts are compressed and written by one thread of its own, so that the loop that drives the load does not wait for
    the disk; when the disk falls `PARTS_IN_FLIGHT_MAX` parts behind, recording waits. A part ends after `part_rows_max`
    rows or when its oldest row is `part_seconds_max` older than the newest (in the history's own time). `name` tells
    several writers of one history apart.
    """

    def __init__(
        self,
        directory: Path,
        *,
        buckets: int = BUCKETS,
        part_rows_max: int = PART_ROWS_MAX,
        part_seconds_max: float = PART_SECONDS_MAX,
        name: str = "0",
    ) -> None:
        self.directory = directory
        self.recorded = 0
        """Rows taken so far."""
        self._name = name
        self._part_rows_max = part_rows_max
        self._part_ns_max = int(part_seconds_max * 1e9)
        self._gathering = [Rows(COLUMNS) for _ in range(buckets)]
        self._parts = 0
        self._flush_due = 0
        self._in_flight: list[Future[None]] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="history")
        for bucket in range(buckets):
            (directory / f"bucket={bucket}").mkdir(parents=True, exist_ok=True)

    def record(self, op: Op) -> None:
        """Take one attempt. Raises the `OSError` of an earlier part that could not be written."""
        self.record_batch(op, (op.a,))

    def record_batch(self, op: Op, values: Sequence[int]) -> None:
        """Take one attempt that carried several records: `op` describes the first, `values` are all their ids."""
        bucket = bucket_of(op.object, len(self._gathering))
        rows = self._gathering[bucket]
        placed = op.offset != NONE
        count = len(values)
        for position, value in enumerate(values):
            offset = op.offset + position if placed else NONE
            row = (
                op.object, op.process, op.attempt, op.parent_op, op.f, op.type, op.err, value, op.b, op.seen,
                offset, op.epoch, count, op.t_inv, op.t_ret, op.node,
            )  # fmt: skip
            for values_of_column, value_of_row in zip(rows.arrays, row, strict=True):
                values_of_column.append(value_of_row)
        self._advance(bucket, count, op)

    def record_rows(self, op: Op, values: Sequence[int], offsets: Sequence[int]) -> None:
        """Take many records of one operation on one object: row i has `values[i]` at `offsets[i]`, `op` the rest.

        Nothing is done per record; arrays of 64-bit integers are taken fastest. Raises `ValueError` for unequal
        lengths, and the `OSError` of an earlier part that could not be written.
        """
        count = len(values)
        if count != len(offsets):
            raise ValueError(f"{count} values at {len(offsets)} offsets")
        if not count:
            return
        bucket = bucket_of(op.object, len(self._gathering))
        rows = self._gathering[bucket]
        for (name, code), column in zip(COLUMNS, rows.arrays, strict=True):
            match name:
                case "a":
                    column.extend(values)
                case "offset":
                    column.extend(offsets)
                case "count":
                    column.extend(array(code, (count,)) * count)
                case _:
                    column.extend(array(code, (getattr(op, name),)) * count)
        self._advance(bucket, count, op)

    def _advance(self, bucket: int, count: int, op: Op) -> None:
        """Close what is full, or too old."""
        self.recorded += count
        if len(self._gathering[bucket]) >= self._part_rows_max:
            self._close_part(bucket)
        now = op.t_inv if op.t_ret == NEVER else op.t_ret
        if self._flush_due == 0:
            self._flush_due = now + self._part_ns_max
        elif now >= self._flush_due:
            self._flush_due = now + self._part_ns_max
            self.flush()

    def flush(self) -> None:
        """Close every part that has rows: what was recorded so far becomes readable soon (after `close`, surely)."""
        for bucket, rows in enumerate(self._gathering):
            if len(rows):
                self._close_part(bucket)

    def _close_part(self, bucket: int) -> None:
        rows = self._gathering[bucket]
        self._gathering[bucket] = Rows(COLUMNS)
        path = self.directory / f"bucket={bucket}" / f"part-{self._name}-{self._parts:06d}.parquet"
        self._parts += 1
        while self._in_flight and (self._in_flight[0].done() or len(self._in_flight) >= PARTS_IN_FLIGHT_MAX):
            self._in_flight.pop(0).result()
        self._in_flight.append(self._thread.submit(lambda: write_part(rows.table(), path)))

    def close(self) -> None:
        """Write what is left; afterwards the history is whole. Raises `OSError` if any part could not be written."""
        try:
            self.flush()
            for part in self._in_flight:
                part.result()
        finally:
            self._in_flight.clear()
            self._thread.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@attrs.frozen(kw_only=True)
class KeepRule:
    """The part of its log that a node must keep by its settings; without a rule all of it."""

    retention_bytes: int = attrs.field(default=0, validator=[instance_of(int), ge(0)])
    retention_s: float = attrs.field(default=0.0, validator=[instance_of((int, float)), ge(0)])
    frame_bytes: int = attrs.field(default=80, validator=[instance_of(int), ge(0)])
    """The bytes that each append takes in a file besides its records."""
    segment_bytes_max: int = attrs.field(default=0, validator=[instance_of(int), ge(0)])
    """The size of its files: each begins with a little that is no record."""
    judges_age: bool = attrs.field(default=True, validator=instance_of(bool))
    """True if it is known by how much the clocks were wrong that tell a record's age."""
    starts_stay: bool = attrs.field(default=True, validator=instance_of(bool))
    """True if no fault could undo that records have left: where a log began once, it never begins earlier."""

    @property
    def may_expire(self) -> bool:
        """True if anything may leave a log."""
        return self.retention_bytes > 0 or self.retention_s > 0


@attrs.frozen
class Kept:
    """Of one object: where each node's log began and ended when dumped, the bytes of its records, and its rule."""

    rule: KeepRule
    dumped_ns: int
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    bytes_kept: Mapping[int, int]


class DumpWriter:
    """Writes the final log of every node into `directory` (a run's `dump.parquet/`), committed records only.

    A node's rows have no gaps from its log's begin (`begin`; 0 if unknown) to its end; one that could not be dumped has
    none. `kept.json` next to them has where each began and ended; it comes last and whole: rows without it are part of
    a dump. Left by an exception it removes what it wrote: half a log would look like a loss.
    """

    def __init__(self, directory: Path, *, rule: KeepRule = KeepRule(), part_rows_max: int = 1 << 18) -> None:
        self.directory = directory
        self._rule = rule
        self.starts: dict[tuple[int, int], int] = {}
        """The offset at which the log of each object begins on each node, by (object, node)."""
        self.dumped_ns = 0
        """The time at which the last of them was read to its end."""
        self._ends: dict[tuple[int, int], int] = {}
        self._bytes_kept: dict[tuple[int, int], int] = {}
        self._part_rows_max = part_rows_max
        self._rows = Rows(DUMP_COLUMNS)
        self._parts = 0
        directory.mkdir(parents=True, exist_ok=True)
        (directory / KEPT).unlink(missing_ok=True)  # of a former dump, about other rows

    def begin(self, node: int, offset: int, obj: int = 0) -> None:
        """The log of `obj` begins here on this node; what was recorded below has left it since, and does not count."""
        self.starts[obj, node] = self._ends[obj, node] = offset
        self._bytes_kept[obj, node] = 0

    def record(self, node: int, offset: int, epoch: int, values: Iterable[int], *, size: int = 0, obj: int = 0) -> None:
        """Take consecutive `values` (ids) of one node and epoch, from `offset` on; `size` is their bytes of a log."""
        ids = array("q", values)
        self._ends[obj, node] = offset + len(ids)
        self._bytes_kept[obj, node] = self._bytes_kept.get((obj, node), 0) + size
        objects, nodes, offsets, epochs, all_ids = self._rows.arrays
        objects.extend(array("q", [obj]) * len(ids))
        nodes.extend(array("h", [node]) * len(ids))
        offsets.extend(range(offset, offset + len(ids)))
        epochs.extend(array("i", [epoch]) * len(ids))
        all_ids.extend(ids)
        if len(self._rows) >= self._part_rows_max:
            self._close_part()

    def _close_part(self) -> None:
        write_part(self._rows.table(), self.directory / f"part-{self._parts:06d}.parquet")
        self._rows = Rows(DUMP_COLUMNS)
        self._parts += 1

    def close(self) -> None:
        """Write what is left. A dump of no records at all is one part without rows."""
        if len(self._rows) or not self._parts:
            self._close_part()
        if self.starts:
            objects: dict[str, dict[str, dict[str, int]]] = {}
            for (obj, node), start in self.starts.items():
                of_log = {"start": start, "end": self._ends[obj, node], "bytes": self._bytes_kept[obj, node]}
                objects.setdefault(str(obj), {})[str(node)] = of_log
            kept = {"rule": attrs.asdict(self._rule), "dumped_ns": self.dumped_ns, "objects": objects}
            with appearing(self.directory / KEPT) as unfinished:
                unfinished.write_text(json.dumps(kept) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        for part in self.directory.glob("part-*.parquet"):
            part.unlink()
        (self.directory / KEPT).unlink(missing_ok=True)


@attrs.frozen
class HistoryReader:
    """A history on disk: what is complete of it. `parts[k]` are the part files of bucket k in the order written.

    An object lies in the bucket that `bucket_of` names for as many buckets as there are `parts`.
    """

    directory: Path
    parts: tuple[tuple[Path, ...], ...]

    @classmethod
    def open(cls, directory: Path) -> "HistoryReader":
        """Find the part files. Raises `UnreadableHistory` if there is no bucket at all."""
        buckets = [path for path in directory.glob("bucket=*") if path.name.partition("=")[2].isdecimal()]
        if not buckets:
            raise UnreadableHistory(
                directory, "not a history: it holds neither history.parquet nor bucket=<k> directories"
            )
        found = {int(path.name.partition("=")[2]): tuple(sorted(path.glob("part-*.parquet"))) for path in buckets}
        return cls(directory, tuple(found.get(number, ()) for number in range(_buckets_of(found))))

    def files(self) -> tuple[Path, ...]:
        """Every part file, bucket by bucket."""
        return tuple(path for bucket in self.parts for path in bucket)

    def columns(self, names: Sequence[str]) -> "list[npt.NDArray[np.int64]]":
        """Returns these columns of all rows, bucket by bucket. Raises `UnreadableHistory`."""
        import numpy as np

        tables = [read_part(path, names) for path in self.files()]
        empty = np.empty(0, np.int64)
        return [np.concatenate([empty, *(table.column(name).to_numpy() for table in tables)]) for name in names]

    def rows(self) -> int:
        """Returns the number of rows. Raises `UnreadableHistory` for a part that cannot be read."""
        return sum(sum(part_rows(path)) for path in self.files())

    def began_ns(self) -> int:
        """Returns when the first message sent, or else operation, began; 0 for none. Raises `UnreadableHistory`."""
        first, first_send = NEVER, NEVER
        for path in self.files():
            table = read_part(path, ("f", "t_inv"))
            f, t_inv = (table.column(name).to_numpy() for name in ("f", "t_inv"))
            first = min(first, int(t_inv.min(initial=NEVER)))
            first_send = min(first_send, int(t_inv[f == Action.SEND].min(initial=NEVER)))
        began = first_send if first_send < NEVER else first
        return began if began < NEVER else 0

    def ops(self) -> Iterator[Op]:
        """Every operation, part by part. For small histories and for tests: a Python object per row."""
        for path in self.files():
            yield from ops_of(read_part(path))


def _buckets_of(found: Mapping[int, Sequence[Path]]) -> int:
    """Returns a history's number of buckets: empty directories may be missing, since many copies leave them out.

    Raises `UnreadableHistory` for a part that cannot be read.
    """
    least = max(found) + 1
    if least == len(found) and least in (1, BUCKETS):
        return least
    first = {number: parts[0] for number, parts in found.items() if parts}
    objects = {number: read_part(path, ("object",)).column("object").unique() for number, path in first.items()}
    pairs = [(number, obj) for number, of_bucket in objects.items() for obj in of_bucket.to_pylist()]
    counts = sorted(range(least, max(least, BUCKETS) + 1), key=lambda count: count != BUCKETS)
    return next((count for count in counts if all(bucket_of(obj, count) == number for number, obj in pairs)), least)


def _metadata_of(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_metadata(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise no_parquet(path, error) from error


def part_rows(path: Path) -> tuple[int, ...]:
    """Returns the number of rows in each row group of a part file. Raises `UnreadableHistory` if it cannot be read."""
    found = _metadata_of(path)
    return tuple(found.row_group(number).num_rows for number in range(found.num_row_groups))


def limits_of(path: Path, columns: Sequence[str]) -> list[dict[str, tuple[int, int]]]:
    """Returns for each row group of a part file the least and greatest values of these columns, as far as stated.

    Raises `UnreadableHistory` if it cannot be read.
    """
    metadata = _metadata_of(path)
    names = metadata.schema.names
    found: list[dict[str, tuple[int, int]]] = []
    for number in range(metadata.num_row_groups):
        group, of_group = metadata.row_group(number), dict[str, tuple[int, int]]()
        for name in columns:
            statistics = group.column(names.index(name)).statistics if name in names else None
            if statistics is not None and statistics.has_min_max:
                of_group[name] = (statistics.min, statistics.max)
        found.append(of_group)
    return found


def time_span(path: Path, groups: Sequence[int]) -> tuple[int, int]:
    """Returns when the first operation of some row groups of a part file began, and the last time in them.

    What never ended counts as it began. Raises `UnreadableHistory`.
    """
    begin, end = NEVER, -NEVER
    limits = limits_of(path, ("t_inv", "t_ret"))
    for group in groups:
        of = limits[group]
        if len(of) == 2 and of["t_inv"][1] < NEVER and of["t_ret"][1] < NEVER:
            begin, end = min(begin, of["t_inv"][0]), max(end, of["t_inv"][1], of["t_ret"][1])
            continue
        table = read_part(path, ("t_inv", "t_ret"), groups=(group,))
        t_inv, t_ret = (table.column(name).to_numpy() for name in ("t_inv", "t_ret"))
        known = t_ret[t_ret < NEVER]
        begin = min(begin, int(t_inv.min(initial=NEVER)))
        end = max(end, int(known.max(initial=-NEVER)), int(t_inv.max(initial=-NEVER)))
    return begin, end


def read_part(
    path: Path,
    columns: Sequence[str] | None = None,
    *,
    of: tuple[tuple[str, str], ...] = COLUMNS,
    groups: Sequence[int] | None = None,
) -> Any:
    """Returns a part file as a pyarrow table, by default all of it. Raises `UnreadableHistory` for another file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, memory_map=True) as file:
            named = list(columns) if columns is not None else None
            chosen = range(file.num_row_groups) if groups is None else groups
            table = file.read_row_groups(list(chosen), columns=named, use_threads=False)
    except (OSError, pa.ArrowInvalid) as error:
        raise no_parquet(path, error) from error
    version = (table.schema.metadata or {}).get(b"quorumlog.format", b"none").decode()
    if version not in FORMATS_READ:
        raise UnreadableHistory(
            path, f"format version {version}; this program reads {', '.join(FORMATS_READ[:-1])} and {FORMATS_READ[-1]}"
        )
    wanted = tuple(pair for pair in of if columns is None or pair[0] in columns)
    if table.schema.names != [name for name, _ in wanted] or table.schema.types != schema(wanted).types:
        raise UnreadableHistory(path, f"its columns are {table.schema.names}, not those of a history")
    missing = [name for name in table.schema.names if table.column(name).null_count]
    if missing:
        raise UnreadableHistory(path, f"has rows without a value in column {missing[0]}")
    return table


def read_dump(directory: Path) -> Any:
    """Returns a whole dump as one pyarrow table, or None without one; before version 3 it has object 0 only."""
    import pyarrow as pa

    files = dump_parts(directory)
    if not files:
        return None
    return pa.concat_tables([read_dump_part(path) for path in files]).combine_chunks()


def dump_parts(directory: Path) -> tuple[Path, ...]:
    """Returns the part files of a dump; none if there is no such directory."""
    return tuple(sorted(directory.glob("part-*.parquet")))


def read_dump_part(path: Path) -> Any:
    """Returns one part file of a dump as a pyarrow table. Raises `UnreadableHistory`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with contextlib.suppress(OSError, pa.ArrowInvalid):  # reported below
        if (pq.read_schema(path).metadata or {}).get(b"quorumlog.format") in (b"1", b"2"):
            table = read_part(path, of=DUMP_COLUMNS[1:])
            return table.add_column(0, schema(DUMP_COLUMNS[:1]).field(0), pa.array([0] * table.num_rows, pa.int64()))
    return read_part(path, of=DUMP_COLUMNS)


def read_kept(directory: Path) -> dict[int, Kept] | None:
    """Returns where logs begin and end, by object, from `kept.json`; None without it: an old or partial dump."""
    try:
        found = json.loads((directory / KEPT).read_text())
        objects = found["objects"] if "objects" in found else {"0": found["nodes"]}
        return {int(obj): _kept_of(found, nodes) for obj, nodes in objects.items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableHistory(directory / KEPT, f"does not say where logs begin ({error!r})") from error


def _kept_of(found: Mapping[str, Any], of_nodes: Mapping[str, Any]) -> Kept:
    nodes = {int(node): tuple(of[name] for name in ("start", "end", "bytes")) for node, of in of_nodes.items()}
    numbers = [found["dumped_ns"], *nodes, *(number for of in nodes.values() for number in of)]
    if any(type(number) is not int or not 0 <= number < NEVER for number in numbers):
        raise ValueError("what should be a number of something is none")
    if any(end < start for start, end, _ in nodes.values()):
        raise ValueError("a log ends before it begins")
    starts, ends, sizes = ({node: of[at] for node, of in nodes.items()} for at in range(3))
    return Kept(KeepRule(**found["rule"]), found["dumped_ns"], starts, ends, sizes)


def ops_of(table: Any) -> Iterator[Op]:
    """The rows of a table with all columns as values."""
    for row in table.to_pylist():
        row["f"] = Action(row["f"])
        row["type"] = Outcome(row["type"])
        row["err"] = ErrorCode(row["err"])
        yield Op(**row)


def table_of(ops: Iterable[Op]) -> Any:
    """Operations as one table. For small histories and for tests."""
    rows = Rows(COLUMNS)
    for op in ops:
        for values, (name, _) in zip(rows.arrays, COLUMNS, strict=True):
            values.append(getattr(op, name))
    return rows.table()
