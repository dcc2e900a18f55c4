"""Measures the cost of a history that Spark reads, compared with tasks that read the part files themselves.

    python benchmarks/check_reading.py [--operations 30000000] [--repeats 3] [--out FILE]

A history of 1,000 registers is read, and checked, in one application in turn: by tasks over paths; as a DataFrame whose rows go to
Python (`mapInArrow`); and as one whose rows are brought together by object first, as the check of a URL does. Reading alone counts
rows. Prints a line of JSON: seconds of each way, the least of its repeats, and its ratio to tasks over paths.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import check_scale
import pyarrow as pa
from check_scale import ReadTask, write_history

from jepsen_like.bench.figures import describe, machine
from jepsen_like.check.frames import TASKS_MIN, read_frames
from jepsen_like.check.library import check_frames_of_run
from jepsen_like.checker.checking import HISTORY, check_run
from jepsen_like.checker.engine.spark import SparkEngine
from jepsen_like.checker.rows.columns import OF_REGISTERS
from jepsen_like.checker.rows.gather import LIMITS, chunks_of, with_sizes
from jepsen_like.checker.verdict import Engine, Model, Verdict

OBJECTS = 1000


def count_rows(batches: Iterable[Any]) -> Iterator[Any]:
    """Yields the number of rows of a partition."""
    yield pa.RecordBatch.from_pydict({"rows": pa.array([sum(batch.num_rows for batch in batches)], pa.int64())})


def ways(run: Path, engine: SparkEngine) -> dict[str, Callable[[], int | Verdict]]:
    """Each way to read, or to check: returns the number of rows, or the verdict."""

    def read_by_tasks() -> int:
        chunks = chunks_of(with_sizes(sorted((run / HISTORY).rglob("*.parquet"))), LIMITS.piece)
        return sum(engine.run([ReadTask(chunk, OF_REGISTERS) for chunk in chunks]))

    def read_by_spark(*, together: bool) -> int:
        rows = engine.session.read.parquet(str(run / HISTORY)).select(*OF_REGISTERS)
        rows = rows.repartition(TASKS_MIN, "object") if together else rows
        return sum(row.rows for row in rows.mapInArrow(count_rows, "rows bigint").collect())

    return {
        "read, tasks over paths": read_by_tasks,
        "read, mapInArrow": lambda: read_by_spark(together=False),
        "read, shuffled by object": lambda: read_by_spark(together=True),
        "check, tasks over paths": lambda: check_run(run, Model.REGISTER, Engine.SPARK, worker=engine),
        "check, a URL": lambda: check_frames_of_run(read_frames(engine.session, f"file://{run}"), Model.REGISTER),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure reading by tasks beside reading by Spark.")
    parser.add_argument("--operations", type=int, default=30_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="check-reading-") as place:
        run = Path(place)
        write_history(run, Model.REGISTER, arguments.operations, OBJECTS, None)
        os.sync()
        with SparkEngine(modules=[Path(check_scale.__file__)]) as engine:
            took: dict[str, list[float]] = {}
            for _ in range(arguments.repeats):
                for name, way in ways(run, engine).items():
                    began = time.monotonic()
                    found = way()
                    took.setdefault(name, []).append(time.monotonic() - began)
                    assert found == arguments.operations if isinstance(found, int) else found.valid is True
    least = {name: min(each) for name, each in took.items()}
    base = {name: least[name] for name in least if name.endswith("tasks over paths")}
    line = {
        "operations": arguments.operations,
        "objects": OBJECTS,
        "repeats": arguments.repeats,
        "seconds": {name: round(seconds, 2) for name, seconds in least.items()},
        "times_the_tasks": {
            name: round(seconds / base[f"{name.partition(',')[0]}, tasks over paths"], 2)
            for name, seconds in least.items()
        },
        "load": round(os.getloadavg()[0], 1),
        "machine": describe(machine(Path(tempfile.gettempdir()))),
    }
    sys.stdout.write(json.dumps(line) + "\n")
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(line, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
