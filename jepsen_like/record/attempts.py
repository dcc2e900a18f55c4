"""The operations of a history, and what is counted and timed of them: latencies, rates, acknowledged writes.

A batch of records is one operation. Everything is in memory, 72 bytes for each row of the history: `check.figures_spark` has the same
figures of a history that is too large for that.
"""

import itertools
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from jepsen_like.checker.rows.columns import begins_operation
from jepsen_like.history.files import HistoryReader, read_dump
from jepsen_like.history.ops import NEVER, NONE, Action, Outcome
from jepsen_like.record.recovery_time import Writes

BUCKET_S: Final = 0.25
WRITES: Final = (Action.APPEND, Action.WRITE, Action.CAS, Action.SEND, Action.ENQUEUE)
DUMP: Final = "dump.parquet"
NS_OF_MS: Final = 1e6

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


NONE_OF_THEM: Final[Any] = attrs.Factory(lambda attempts: np.zeros(len(attempts.f), np.bool_), takes_self=True)


@attrs.frozen
class Attempts:
    """The operations of a history, one entry each (a batch of records is one operation), in no order."""

    f: Ints
    outcome: Ints
    t_inv: Ints
    t_ret: Ints
    process: Ints
    records: Ints
    """The number of rows of the history that each one is: the records appended or read, one for anything else."""
    is_lost: Bools = NONE_OF_THEM
    """Which of them are acknowledged appends of a record that the final logs lack."""

    by_client: Bools = NONE_OF_THEM
    """Which of them do not tell which node was asked: those of a client that finds its way by itself."""

    is_queue: bool = False
    """True if these are the messages of a queue, of which a producer has many under way."""

    @classmethod
    def read(cls, history: Path) -> "Attempts":
        """From a run's history, and the dump next to it, if any. Raises `UnreadableHistory` if there is no history."""
        names = ("object", "process", "f", "type", "a", "offset", "t_inv", "t_ret", "node")
        columns = HistoryReader.open(history).columns(names)
        sends = np.flatnonzero(columns[names.index("f")] == Action.SEND)
        if is_queue := len(sends) > 0:  # all else there is the consumers'
            columns = [column[sends] for column in columns]
        obj, process, f, outcome, value, offset, t_inv, t_ret, node = columns
        first = np.arange(len(f)) if is_queue else np.flatnonzero(begins_operation(process, t_inv, t_ret))
        records = np.diff(first, append=len(f))
        appended = np.isin(f, (Action.APPEND, Action.SEND)) & (outcome == Outcome.OK)
        lost = _find_lost(history.with_name(DUMP), obj, np.where(appended, offset, NONE), value)
        of_operation = np.logical_or.reduceat(lost, first) if len(first) else lost
        return cls(
            f[first],
            outcome[first],
            t_inv[first],
            t_ret[first],
            process[first],
            records,
            of_operation,
            node[first] == NONE,
            is_queue,
        )

    @property
    def origin_ns(self) -> int:
        """Returns when the first operation began; 0 for none."""
        return int(self.t_inv.min()) if len(self.t_inv) else 0

    def acknowledged_writes(self, *, only: Bools | None = None) -> Writes:
        """Returns what recovery times are measured by; `only` these of them."""
        chosen = (self.outcome == Outcome.OK) & np.isin(self.f, WRITES)
        if only is not None:
            chosen &= only
        return Writes.of(self.t_inv[chosen], self.t_ret[chosen])

    def count_attempted(self) -> int:
        """Records that were to be appended, writes and swaps that were tried: what `acked` is a part of."""
        return int(self.records[np.isin(self.f, WRITES)].sum())

    def latency_ms(self) -> dict[str, float | None]:
        """Percentiles over all operations that were answered."""
        ok = self.outcome == Outcome.OK
        return percentiles(self.t_ret[ok] - self.t_inv[ok], unit=NS_OF_MS)

    def throughput_ops_s(self) -> float:
        """Returns answered operations per second, from the first begin to the last answer."""
        answered = self.t_ret[self.outcome == Outcome.OK]
        return throughput_ops_s(len(answered), int(answered.max()) - self.origin_ns if len(answered) else 0)

    def series(self) -> dict[str, list[Any]]:
        """Rates per second and latencies over time, by end, unknown ones by begin. `lost_s`: of `ok_s`, lost later."""
        when = (np.where(self.t_ret >= NEVER, self.t_inv, self.t_ret) - self.origin_ns) / 1e9
        bucket = (when / BUCKET_S).astype(np.int64)
        count = int(bucket.max()) + 1 if len(bucket) else 0
        rates = {
            name: (np.bincount(bucket[self.outcome == outcome], minlength=count) / BUCKET_S).tolist()
            for name, outcome in (("ok_s", Outcome.OK), ("fail_s", Outcome.FAIL), ("info_s", Outcome.INFO))
        }
        rates["lost_s"] = (np.bincount(bucket[self.is_lost], minlength=count) / BUCKET_S).tolist()
        ok = self.outcome == Outcome.OK
        order = np.argsort(bucket[ok], kind="stable")
        sorted_buckets, latencies = bucket[ok][order], (self.t_ret[ok] - self.t_inv[ok])[order]
        borders = np.searchsorted(sorted_buckets, np.arange(count + 1))
        both = [percentiles(latencies[low:high], unit=NS_OF_MS) for low, high in itertools.pairwise(borders)]
        return {
            "t_s": [round(number * BUCKET_S, 2) for number in range(count)],
            **rates,
            "p50_ms": [each["p50"] for each in both],
            "p99_ms": [each["p99"] for each in both],
        }


def throughput_ops_s(answered: int, span_ns: int) -> float:
    """Returns answered operations per second of the time from the first begin to the last answer."""
    return round(answered / (span_ns / 1e9), 1) if span_ns > 0 else 0.0


def milliseconds(latency: float, *, unit: float = NS_OF_MS) -> float:
    """Returns a latency in milliseconds, of which each is `unit`."""
    return round(float(latency) / unit, 3)


def _find_lost(dump: Path, obj: Ints, offset: Ints, value: Ints) -> Bools:
    """Which acknowledged records, at an `offset` that is not negative, the final logs lack; none without a dump."""
    lost = np.zeros(len(offset), np.bool_)
    table = read_dump(dump) if dump.is_dir() else None
    if table is None:
        return lost
    objects, places, values = (
        np.asarray(table.column(name).to_numpy()).astype(np.int64) for name in ("object", "offset", "a")
    )
    for number in np.unique(obj).tolist():
        mine, held = obj == number, objects == number
        lost[mine] = _lost_of_log(places[held], values[held], offset[mine], value[mine])
    return lost


def _lost_of_log(places: Ints, values: Ints, offset: Ints, value: Ints) -> Bools:
    content = np.full(int(places.max(initial=NONE)) + 1, NONE, np.int64)
    content[places] = values
    within = (offset >= 0) & (offset < len(content))
    there = content[np.where(within, offset, 0)] if len(content) else np.full(len(offset), NONE, np.int64)
    # Where no log holds anything, a record has left by its rule of retention; holes are judged by the checker.
    is_there = within & ((there == value) | (there == NONE))
    return np.asarray((offset >= 0) & ~is_there)


def percentiles(latencies: npt.NDArray[np.float64] | Ints, *, unit: float = 1.0) -> dict[str, float | None]:
    """p50 and p99 in milliseconds, of which each is `unit`; None for no latencies."""
    if not len(latencies):
        return {"p50": None, "p99": None}
    p50, p99 = np.percentile(latencies, (50, 99))
    return {"p50": milliseconds(p50, unit=unit), "p99": milliseconds(p99, unit=unit)}
