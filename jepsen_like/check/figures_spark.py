"""The figures of a history that is too large for one process, by aggregations of Spark over its Parquet files.

The figures are defined in `record`, once for both sizes; Spark only counts what they are made of. The values are the same to the last digit.
Only the columns that are needed are read. What comes back to the driver are counts: a percentile is found exactly by two of them, one of values in coarse classes (`1 << CLASS_BITS` ns), and one
of the values within the class that has it. For the times between two writes, a window over the writes of each slice of time gives
each write the one before it; the driver joins the slices.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as fn
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType, StructField, StructType

from jepsen_like.history.ops import NONE, Action, Outcome
from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.record.attempts import WRITES, milliseconds, throughput_ops_s
from jepsen_like.record.figures import Measured, has_both
from jepsen_like.record.recovery_time import (
    BEFORE_S,
    ServiceRecovery,
    WritesAround,
    availability_of,
    down_gap_s,
    recover,
)

CLASS_BITS: Final = 16
SLICE_ROWS: Final = 500_000
"""About how many writes one window sorts."""
PARTS_PER_SLOT: Final = 2
S: Final = 1_000_000_000
COLUMNS: Final = StructType(
    [
        StructField("process", IntegerType()),
        StructField("f", ByteType()),
        StructField("type", ByteType()),
        StructField("count", IntegerType()),
        StructField("t_inv", LongType()),
        StructField("t_ret", LongType()),
        StructField("node", ShortType()),
    ]
)
Counts = Mapping[int, int]


def measure(context: SparkContext, history: Path, faults: Sequence[FaultRecord], load_ended_ns: int) -> Measured:
    """The figures of a history on disk. `load_ended_ns` is when the clients were told to stop; 0: with the last operation."""
    session = SparkSession(context).newSession()  # with settings of its own
    session.conf.set("spark.sql.shuffle.partitions", PARTS_PER_SLOT * context.defaultParallelism)
    reader = session.read.schema(COLUMNS).option("pathGlobFilter", "part-*.parquet")
    rows = reader.parquet(history.resolve().as_uri())
    operations = _operations(rows)
    told = _Told.of(operations, faults)
    origin = told.first or 0
    ends = [told.percentile(operations, share) for share in (0.5, 0.99)] if told.answered else None
    writes = operations.where(_is_acknowledged() & _is_write())
    paces = _Paces.of(writes, told.writes, origin, told.last_write, faults)
    of_clients = None
    if has_both(told.by_clients, told.writes_by_clients, told.writes_tried):
        mine = writes.where(fn.col("node") == NONE)
        own = _Told.of(operations.where(fn.col("node") == NONE), faults)
        gaps = _Paces.of(mine, own.writes, origin, own.last_write, faults)
        of_clients = tuple(_recoveries(faults, own, gaps))
    return Measured(
        origin_ns=origin,
        attempted=rows.where(_is_write()).count(),
        recoveries=tuple(_recoveries(faults, told, paces)),
        of_clients=of_clients,
        availability=paces.availability(origin, load_ended_ns or told.last_begin or origin),
        latency_ms={
            name: milliseconds(value) if value is not None else None
            for name, value in zip(("p50", "p99"), ends or (None, None), strict=True)
        },
        throughput_ops_s=throughput_ops_s(told.answered, told.last_answer - origin if told.answered else 0),
    )


def _is_acknowledged() -> Column:
    return fn.col("type") == int(Outcome.OK)


def _is_write() -> Column:
    return fn.col("f").isin([int(f) for f in WRITES])


def _operations(rows: DataFrame) -> DataFrame:
    """One row for each operation: of a queue the messages that were sent, else a batch of records as one."""
    names = ("f", "type", "t_inv", "t_ret", "node")
    sends = rows.where(fn.col("f") == int(Action.SEND))
    if not sends.isEmpty():
        return sends.select(*names)
    one_by_one = rows.where(fn.col("count") <= 1).select(*names)
    batches = rows.where(fn.col("count") > 1).groupBy("process", "t_inv", "t_ret")
    return one_by_one.unionByName(
        batches.agg(*(fn.min(name).alias(name) for name in ("f", "type", "node"))), True
    ).select(*names)


@attrs.frozen(kw_only=True)
class _Told:
    """The figures that one look at all operations shows."""

    first: int | None
    """The moment when the first operation began, and the last."""
    last_begin: int | None
    answered: int
    last_answer: int
    by_clients: int
    writes_tried: int
    writes_by_clients: int
    writes: int
    """Acknowledged ones, and when the last of them was."""
    last_write: int | None
    latencies: Counts
    """The number of those that were answered, by class of their latency."""
    first_success: tuple[int | None, ...]
    """For each fault: when a write was acknowledged that was asked for after it."""
    acked_before: tuple[int, ...]

    @classmethod
    def of(cls, operations: DataFrame, faults: Sequence[FaultRecord]) -> "_Told":
        ok, by_client, t_inv, t_ret = _is_acknowledged(), fn.col("node") == NONE, fn.col("t_inv"), fn.col("t_ret")
        acknowledged = ok & _is_write()
        wanted = [
            fn.min(t_inv).alias("first"),
            fn.max(t_inv).alias("last_begin"),
            fn.count(fn.when(ok, 1)).alias("answered"),
            fn.max(fn.when(ok, t_ret)).alias("last_answer"),
            fn.count(fn.when(by_client, 1)).alias("by_clients"),
            fn.count(fn.when(_is_write(), 1)).alias("writes_tried"),
            fn.count(fn.when(_is_write() & by_client, 1)).alias("writes_by_clients"),
            fn.count(fn.when(acknowledged, 1)).alias("writes"),
            fn.max(fn.when(acknowledged, t_ret)).alias("last_write"),
        ]
        for at, fault in enumerate(faults):
            soon = (t_ret > int(fault.begun_ns - BEFORE_S * S)) & (t_ret <= fault.begun_ns)
            wanted.append(fn.min(fn.when(acknowledged & (t_inv > fault.injected_ns), t_ret)).alias(f"success_{at}"))
            wanted.append(fn.count(fn.when(acknowledged & soon, 1)).alias(f"before_{at}"))
        latency = fn.when(ok, fn.shiftright(t_ret - t_inv, CLASS_BITS)).alias("latency")
        found = operations.groupBy(latency).agg(*wanted).collect()

        def total(name: str) -> int:
            return sum(row[name] for row in found)

        def extreme(choose: Callable[[list[int]], int], name: str) -> int | None:
            known = [row[name] for row in found if row[name] is not None]
            return choose(known) if known else None

        numbers = range(len(faults))
        return cls(
            first=extreme(min, "first"),
            last_begin=extreme(max, "last_begin"),
            last_answer=extreme(max, "last_answer") or 0,
            last_write=extreme(max, "last_write"),
            latencies={row["latency"]: row["answered"] for row in found if row["latency"] is not None},
            first_success=tuple(extreme(min, f"success_{at}") for at in numbers),
            acked_before=tuple(total(f"before_{at}") for at in numbers),
            **{name: total(name) for name in ("answered", "by_clients", "writes_tried", "writes_by_clients", "writes")},
        )

    def percentile(self, operations: DataFrame, share: float) -> float:
        """The latency in ns below which so large a share of those answered is, between two of them by their distance."""
        place = share * (self.answered - 1)
        latency = fn.col("t_ret") - fn.col("t_inv")
        answered = operations.where(_is_acknowledged()).select(latency.alias("value"))
        low, high = (
            _value_at(answered, self.latencies, rank) for rank in (int(place), min(int(place) + 1, self.answered - 1))
        )
        part = place - int(place)
        # As numpy does it, so that both round alike.
        return low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part)


def _value_at(values: DataFrame, classes: Counts, rank: int) -> int:
    """The value (column `value`) of this rank, from 0; `classes` counts them by class."""
    passed = 0
    for of_class, count in sorted(classes.items()):
        if passed + count > rank:
            inside = values.where(fn.shiftright("value", CLASS_BITS) == of_class).groupBy("value").count().collect()
            return _class_of_rank({row["value"]: row["count"] for row in inside}, rank - passed)
        passed += count
    raise ValueError(f"no value of rank {rank} among {passed}")


def _class_of_rank(counts: Counts, rank: int) -> int:
    passed = 0
    for value, count in sorted(counts.items()):
        passed += count
        if passed > rank:
            return value
    raise ValueError(f"no value of rank {rank} among {passed}")


@attrs.frozen(kw_only=True)
class _Paces:
    """The times between two acknowledged writes that follow each other."""

    pairs: DataFrame | None
    """Within a slice of time: when a write was acknowledged (`t`), and the one before it (`before`)."""
    borders: tuple[tuple[int, int], ...]
    """From the last write of a slice to the first of the next one."""
    first: int | None
    last: int | None
    longest: tuple[int | None, ...]
    """Around each fault, in ns."""

    @classmethod
    def of(cls, writes: DataFrame, count: int, first: int, last: int | None, faults: Sequence[FaultRecord]) -> "_Paces":
        if last is None:
            return cls(pairs=None, borders=(), first=None, last=None, longest=(None,) * len(faults))
        width = max(1, (last - first + 1) * SLICE_ROWS // count)
        number = fn.floor((fn.col("t_ret") - first) / width).alias("slice")
        sliced = writes.select(fn.col("t_ret").alias("t"), number)
        ends = (
            sliced.groupBy("slice")
            .agg(fn.min("t").alias("first"), fn.max("t").alias("last"))
            .orderBy("slice")
            .collect()
        )
        borders = tuple((one["last"], other["first"]) for one, other in itertools.pairwise(ends))
        before = fn.lag("t").over(Window.partitionBy("slice").orderBy("t")).alias("before")
        pairs = sliced.select("t", before).where(fn.col("before").isNotNull())
        longest: list[int | None] = [None] * len(faults)
        if faults:
            around = [(fn.col("t") > fault.begun_ns) & (fn.col("before") <= fault.ended_ns) for fault in faults]
            wanted = [fn.max(fn.when(these, fn.col("t") - fn.col("before"))) for these in around]
            (row,) = pairs.agg(*wanted).collect()
            for at, fault in enumerate(faults):
                joined = [t - since for since, t in borders if t > fault.begun_ns and since <= fault.ended_ns]
                known = [*([row[at]] if row[at] is not None else []), *joined]
                longest[at] = max(known) if known and last > fault.ended_ns else None
        return cls(pairs=pairs, borders=borders, first=ends[0]["first"], last=ends[-1]["last"], longest=tuple(longest))

    def availability(self, begin_ns: int, end_ns: int) -> dict[str, float | None]:
        """See `recovery_time.availability`."""
        end_ns = max(begin_ns, end_ns)
        joined = [t - since for since, t in self.borders if t <= end_ns]
        gaps: DataFrame | None = None
        classes: dict[int, int] = {}
        if self.pairs is not None:
            value = (fn.col("t") - fn.col("before")).alias("value")
            gaps = self.pairs.where(fn.col("t") <= end_ns).select(value)
            counted = gaps.groupBy(fn.shiftright("value", CLASS_BITS).alias("class")).count().collect()
            classes = {row["class"]: row["count"] for row in counted}
        inside = sum(classes.values()) + len(joined)
        gap_s = down_gap_s(_median(gaps, classes, joined, inside) if gaps is not None and inside else None)
        at_borders = [end_ns - begin_ns]
        if self.first is not None and self.first <= end_ns:
            at_borders = [self.first - begin_ns, end_ns - self._last_until(end_ns)]
        down = [gap for gap in (*at_borders, *joined) if gap / 1e9 >= gap_s]
        if gaps is not None:
            down += [row["value"] for row in gaps.where(fn.col("value") / 1e9 >= gap_s).collect()]
        return availability_of(down, end_ns - begin_ns, gap_s)

    def _last_until(self, end_ns: int) -> int:
        assert self.pairs is not None
        assert self.first is not None
        (row,) = self.pairs.where(fn.col("t") <= end_ns).agg(fn.max("t")).collect()
        known = [
            self.first,
            *(t for _, t in self.borders if t <= end_ns),
            *(since for since, _ in self.borders if since <= end_ns),
        ]
        return max([*known, row[0]] if row[0] is not None else known)


def _median(gaps: DataFrame, classes: Counts, joined: Sequence[int], count: int) -> float:
    """The median of the gaps within slices and between them."""
    merged = dict(classes)
    for gap in joined:
        merged[gap >> CLASS_BITS] = merged.get(gap >> CLASS_BITS, 0) + 1
    both = gaps.sparkSession.createDataFrame([(gap,) for gap in joined], "value long").union(gaps) if joined else gaps
    low, high = (_value_at(both, merged, rank) for rank in ((count - 1) // 2, count // 2))
    return (low + high) / 2


def _recoveries(faults: Sequence[FaultRecord], told: _Told, paces: _Paces) -> Iterator[ServiceRecovery]:
    for at, fault in enumerate(faults):
        around = WritesAround(
            first_success_ns=told.first_success[at],
            longest_gap_ns=paces.longest[at],
            acked_before=told.acked_before[at],
            last_ns=told.last_write,
        )
        yield recover(fault, around)
