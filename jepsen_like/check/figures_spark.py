"""The figures of a history that is too large for one process, by aggregations of Spark over its Parquet files.

The figures are defined in `record`, once for both sizes; Spark only counts what they are made of. The values are the same to the last digit.
Only the columns that are needed are read. What comes back to the driver are counts: a value of a rank is found exactly by two of them, one of values in coarse classes (`1 << CLASS_BITS` ns), and one
of the values within the class that has it. For the times between two writes, a window over the writes of each slice of time gives
each write the one before it; the driver adds those at the borders of slices.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
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
Counts = list[tuple[int, int]]
"""Values, or their classes, in order, and how many there are of each."""


def measure(context: SparkContext, history: Path, faults: Sequence[FaultRecord], load_ended_ns: int) -> Measured:
    """The figures of a history on disk. `load_ended_ns` is when the clients were told to stop; 0: with the last operation."""
    session = SparkSession(context).newSession()  # with settings of its own
    session.conf.set("spark.sql.shuffle.partitions", PARTS_PER_SLOT * context.defaultParallelism)
    reader = session.read.schema(COLUMNS).option("pathGlobFilter", "part-*.parquet")
    rows = reader.parquet(history.resolve().as_uri())
    operations = _operations(rows)
    told = _look_at(operations, faults)
    origin = told.began or 0
    pairs = _pairs(operations, told, origin)
    of_clients = None
    if has_both(told.by_clients, told.writes_by_clients, told.writes_tried):
        of_client = operations.where(fn.col("node") == NONE)
        own = _look_at(of_client, faults)
        of_clients = _recoveries(faults, own, _pairs(of_client, own, origin))
    return Measured(
        origin_ns=origin,
        attempted=rows.where(_is_write()).count(),
        recoveries=_recoveries(faults, told, pairs),
        of_clients=of_clients,
        availability=_availability(pairs, told.first_write, origin, load_ended_ns or told.last_begin or origin),
        latency_ms=_latency_ms(operations, told.answered),
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


def _look_at(operations: DataFrame, faults: Sequence[FaultRecord]) -> Row:
    """Returns what one look at all operations shows: counts, and moments that are None where there is none.

    For each fault: when a write was acknowledged that was asked for after it, and how many were just before it.
    """
    ok, by_client, t_inv, t_ret = _is_acknowledged(), fn.col("node") == NONE, fn.col("t_inv"), fn.col("t_ret")
    acknowledged = ok & _is_write()
    wanted = {
        "began": fn.min(t_inv),
        "last_begin": fn.max(t_inv),
        "answered": fn.count(fn.when(ok, 1)),
        "last_answer": fn.max(fn.when(ok, t_ret)),
        "by_clients": fn.count(fn.when(by_client, 1)),
        "writes_tried": fn.count(fn.when(_is_write(), 1)),
        "writes_by_clients": fn.count(fn.when(_is_write() & by_client, 1)),
        "writes": fn.count(fn.when(acknowledged, 1)),
        "first_write": fn.min(fn.when(acknowledged, t_ret)),
        "last_write": fn.max(fn.when(acknowledged, t_ret)),
    }
    for at, fault in enumerate(faults):
        soon = (t_ret > int(fault.begun_ns - BEFORE_S * S)) & (t_ret <= fault.begun_ns)
        wanted[f"success_{at}"] = fn.min(fn.when(acknowledged & (t_inv > fault.injected_ns), t_ret))
        wanted[f"before_{at}"] = fn.count(fn.when(acknowledged & soon, 1))
    (row,) = operations.agg(*(value.alias(name) for name, value in wanted.items())).collect()
    return row


def _latency_ms(operations: DataFrame, answered: int) -> dict[str, float | None]:
    """See `Attempts.latency_ms`."""
    if not answered:
        return {"p50": None, "p99": None}
    latency = (fn.col("t_ret") - fn.col("t_inv")).alias("value")
    places = [share * (answered - 1) for share in (0.5, 0.99)]
    ranks = [min(int(place) + by, answered - 1) for place in places for by in (0, 1)]
    found = _values_at(operations.where(_is_acknowledged()).select(latency), ranks)
    p50, p99 = map(_between, found[::2], found[1::2], (place % 1 for place in places))
    return {"p50": milliseconds(p50), "p99": milliseconds(p99)}


def _between(low: int, high: int, part: float) -> float:
    # As numpy does it, so that both round alike.
    return low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part)


def _values_at(values: DataFrame, ranks: Sequence[int]) -> list[int]:
    """Returns the values (column `value`) of these ranks, from 0."""
    of_class = fn.shiftright("value", CLASS_BITS)
    classes, found = _count(values, of_class), []
    for number, within in (_find_rank(classes, rank) for rank in ranks):
        found.append(_find_rank(_count(values.where(of_class == number), fn.col("value")), within)[0])
    return found


def _count(values: DataFrame, key: Column) -> Counts:
    return sorted((row[0], row[1]) for row in values.groupBy(key).count().collect())


def _find_rank(counts: Counts, rank: int) -> tuple[int, int]:
    """Returns which value has a rank, and its rank among those that are equal."""
    for value, count in counts:
        if rank < count:
            return value, rank
        rank -= count
    raise ValueError(f"no value of a rank that is {rank} too high")


def _pairs(operations: DataFrame, told: Row, origin: int) -> DataFrame | None:
    """Returns when each acknowledged write but the first was acknowledged (`t`), and the one before it (`before`); None without any."""
    if not told.writes:
        return None
    width = max(1, (told.last_write - origin + 1) * SLICE_ROWS // told.writes)
    number = fn.floor((fn.col("t_ret") - origin) / width).alias("slice")
    sliced = operations.where(_is_acknowledged() & _is_write()).select(fn.col("t_ret").alias("t"), number)
    ends = sliced.groupBy("slice").agg(fn.min("t").alias("first"), fn.max("t").alias("last")).orderBy("slice").collect()
    before = fn.lag("t").over(Window.partitionBy("slice").orderBy("t")).alias("before")
    pairs = sliced.select("t", before).where(fn.col("before").isNotNull())
    borders = [(other["first"], one["last"]) for one, other in itertools.pairwise(ends)]
    session = operations.sparkSession
    return pairs.union(session.createDataFrame(borders, "t long, before long")) if borders else pairs


def _availability(
    pairs: DataFrame | None, first_write: int | None, begin_ns: int, end_ns: int
) -> dict[str, float | None]:
    """See `recovery_time.availability`."""
    end_ns = max(begin_ns, end_ns)
    if pairs is None or first_write is None or first_write > end_ns:
        whole, gap_s = end_ns - begin_ns, down_gap_s(None)
        return availability_of([whole] if whole / 1e9 >= gap_s else [], whole, gap_s)
    within = pairs.where(fn.col("t") <= end_ns)
    gaps = within.select((fn.col("t") - fn.col("before")).alias("value"))
    count, last = within.agg(fn.count("t"), fn.max("t")).collect()[0]
    median = sum(_values_at(gaps, [(count - 1) // 2, count // 2])) / 2 if count else None
    gap_s = down_gap_s(median)
    at_ends = [first_write - begin_ns, end_ns - (last if count else first_write)]
    down = [gap for gap in at_ends if gap / 1e9 >= gap_s]
    down += [row["value"] for row in gaps.where(fn.col("value") / 1e9 >= gap_s).collect()]
    return availability_of(down, end_ns - begin_ns, gap_s)


def _recoveries(faults: Sequence[FaultRecord], told: Row, pairs: DataFrame | None) -> tuple[ServiceRecovery, ...]:
    t, before = fn.col("t"), fn.col("before")
    longest: Sequence[int | None] = [None] * len(faults)
    if faults and pairs is not None:
        around = [(t > fault.begun_ns) & (before <= fault.ended_ns) for fault in faults]
        longest = pairs.agg(*(fn.max(fn.when(these, t - before)) for these in around)).collect()[0]
    return tuple(
        recover(
            fault,
            WritesAround(
                first_success_ns=told[f"success_{at}"],
                longest_gap_ns=longest[at] if told.writes and told.last_write > fault.ended_ns else None,
                acked_before=told[f"before_{at}"],
                last_ns=told.last_write,
            ),
        )
        for at, fault in enumerate(faults)
    )
