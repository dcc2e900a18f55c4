"""Measures the time of a check and the memory of its processes, at sizes that no one process could hold.

    python benchmarks/check_scale.py --operations 100000000 --model register [--objects 1000] [--planted] [--engine local]

Writes a valid history as part files (one violation in it with `--planted`), checks it in a process of its own on an engine
that has started and done one small job, and prints a line of JSON: seconds, rows per second, seconds of the start of the JVM
and of each stage (`CensusTask` counts objects, the others read and run the kernels), seconds of a job that only reads the same
columns once, and the greatest resident memory of one process of each kind (VmHWM: driver, JVM, worker). With `--out FILE` the
line is added to the measurements in FILE. The history is deleted unless `--keep DIR` names a place for it. Status 0 only where the verdict is right and no process held 2 GiB.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from jepsen_like.bench.figures import describe, machine
from jepsen_like.checker.checking import HISTORY, check_run, engine_of
from jepsen_like.checker.register.tasks import RegistersTask
from jepsen_like.checker.rows.columns import NEEDED, OF_REGISTERS, Columns
from jepsen_like.checker.rows.gather import LIMITS, Chunk, bucket_numbers, chunks_of, columns_of, with_sizes
from jepsen_like.checker.rows.tasks import Task
from jepsen_like.checker.search import SearchBounds
from jepsen_like.checker.verdict import Engine, Model
from jepsen_like.history.files import BUCKETS, schema, write_part
from jepsen_like.history.ops import COLUMNS, NEVER, NONE, Action, Outcome

PART_ROWS = 1 << 17
PARTS_AT_ONCE = 16
STEP_NS = 1000
CULPRIT = 10**8
"""The process of the operation that is wrong."""
FOREIGN = 10**15
"""A value that no operation wrote."""
MEMORY_MIB_MAX = 2048
KINDS = {"java": "jvm", "pyspark": "worker"}


def rows_of(model: Model, index: Any, objects: int, wrong: int | None, clients: int = 4) -> dict[str, Any]:
    """The operations of these numbers: number i is the (i // objects)-th of object i % objects, and takes effect at moment i.

    A register is written, read, swapped and read; a log, or a partition of a queue, gets a record that is then read, there by one
    consumer; one append, or send, in 32 has an unknown outcome.
    About `clients` operations of each object are under way at once.
    """
    count = len(index)
    rows: dict[str, Any] = {name: np.full(count, NONE, np.int64) for name, _ in COLUMNS}
    turn = index // objects
    rows["object"], rows["count"][:], rows["node"][:] = index % objects, 1, 1
    rows["attempt"][:] = rows["err"][:] = 0
    reach = clients * objects * STEP_NS // 2
    rows["t_inv"] = index * STEP_NS + reach - (index * 7919) % reach
    rows["t_ret"] = index * STEP_NS + reach + (index * 6007) % reach
    rows["process"] = index % (clients * objects + 1)
    rows["type"][:] = Outcome.OK
    if model is Model.REGISTER:
        value = 1 + turn - turn % 4
        swap = turn % 4 == 2
        rows["f"] = np.where(turn % 4 == 0, Action.WRITE, np.where(swap, Action.CAS, Action.READ)).astype(np.int64)
        rows["a"] = np.where(turn % 4 == 3, value + 1, value)
        rows["b"], rows["seen"] = np.where(swap, value + 1, NONE), np.where(swap, value, NONE)
    else:
        append = turn % 2 == 0
        write, read = (Action.SEND, Action.POLL) if model is Model.QUEUE else (Action.APPEND, Action.READ)
        rows["f"] = np.where(append, write, read).astype(np.int64)
        if model is Model.QUEUE:
            rows["process"] = np.where(append, rows["process"], clients * objects + 1 + rows["object"])
        unknown = append & (turn % 64 == 62)
        rows["type"] = np.where(unknown, Outcome.INFO, Outcome.OK).astype(np.int64)
        rows["t_ret"] = np.where(unknown, NEVER, rows["t_ret"])
        rows["offset"] = np.where(unknown, NONE, turn // 2)
        rows["a"] = 1 + index - np.where(append, 0, objects)
        rows["epoch"] = np.where(unknown, NONE, 1)
    if wrong is not None:
        at = index == wrong
        rows["process"][at] = CULPRIT
        rows["a"][at] = rows["a"][at] - 40 if model is Model.REGISTER else FOREIGN
    return rows


def write_parts(
    run: Path, model: Model, operations: int, objects: int, wrong: int | None, bucket: int, numbers: range
) -> None:
    """Write these part files of a bucket."""
    mine = np.flatnonzero(bucket_numbers(np.arange(objects), BUCKETS) == bucket)
    turns = max(1, PART_ROWS // len(mine))
    types = dict(zip(schema().names, schema().types, strict=True))
    for number in numbers:
        index = ((np.arange(number * turns, (number + 1) * turns) * objects)[:, None] + mine).ravel()
        rows = rows_of(model, index[index < operations], objects, wrong)
        arrays = [pa.array(rows[name].astype(types[name].to_pandas_dtype())) for name in types]
        path = run / HISTORY / f"bucket={bucket}" / f"part-0-{number:06d}.parquet"
        write_part(pa.Table.from_arrays(arrays, schema=schema()), path)


def write_history(run: Path, model: Model, operations: int, objects: int, wrong: int | None) -> None:
    """Write a history of so many operations."""
    sizes = np.bincount(bucket_numbers(np.arange(objects), BUCKETS), minlength=BUCKETS).tolist()
    work = []
    for bucket, mine in enumerate(sizes):
        (run / HISTORY / f"bucket={bucket}").mkdir(parents=True)
        parts = -(-operations // objects // max(1, PART_ROWS // mine)) if mine else 0
        work += [
            (run, model, operations, objects, wrong, bucket, range(begin, min(parts, begin + PARTS_AT_ONCE)))
            for begin in range(0, parts, PARTS_AT_ONCE)
        ]
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        pool.starmap(write_parts, work, chunksize=1)


class Staged:
    """An engine that notes how long tasks of each kind take."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.alone = engine.alone
        self.stages: dict[str, float] = {}

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """See `TaskRunner`."""
        began = time.monotonic()
        results: list[Any] = self._engine.run(tasks)
        if tasks:
            name = type(tasks[0]).__name__
            self.stages[name] = round(self.stages.get(name, 0) + time.monotonic() - began, 2)
        return results


@attrs.frozen
class ReadTask:
    """Read what a check of these rows reads, and nothing else."""

    chunk: Chunk
    names: tuple[str, ...]

    def execute(self) -> int:
        """Returns the number of rows."""
        return len(columns_of(self.chunk, self.names))


def check_in_here(run: Path, model: Model, engine: Engine) -> None:
    """Check, and print what was measured as JSON."""
    began = time.monotonic()
    with engine_of(engine) as worker:
        started = time.monotonic()
        worker.run([RegistersTask((Columns.of_ops(()),), SearchBounds())] * 2)
        staged = Staged(worker)
        warm = time.monotonic()
        verdict = check_run(run, model, engine, worker=staged)
        ended = time.monotonic()
        chunks = chunks_of(with_sizes(sorted((run / HISTORY).rglob("*.parquet"))), LIMITS.piece)
        worker.run([ReadTask(chunk, OF_REGISTERS if model is Model.REGISTER else NEEDED) for chunk in chunks])
        read = time.monotonic()
    measured = {
        "start_s": round(started - began, 2),
        "first_job_s": round(warm - started, 2),
        "check_s": round(ended - warm, 2),
        "stages_s": staged.stages,
        "read_alone_s": round(read - ended, 2),
        "valid": verdict.valid,
        "violations": len(verdict.violations),
        "culprit_named": any(op.process == CULPRIT for one in verdict.violations for op in one.ops),
        "sentence": verdict.violations[0].sentence if verdict.violations else None,
    }
    sys.stdout.write(json.dumps(measured) + "\n")


def family(root: int) -> list[int]:
    """A process and all that came from it."""
    parents: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents.setdefault(int(fields[1]), []).append(int(place.parent.name))
    found = [root]
    for one in found:
        found += parents.get(one, [])
    return found


def note_memory(root: int, peaks: dict[str, int]) -> None:
    """Take the greatest resident memory that a process of each kind has had, in MiB."""
    for pid in family(root):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        if "VmHWM:" in status:
            kind = next((kind for sign, kind in KINDS.items() if sign in words), "driver")
            mib = int(status.partition("VmHWM:")[2].split()[0]) >> 10
            peaks[kind] = max(peaks.get(kind, 0), mib)


def prepare_history(run: Path, arguments: argparse.Namespace) -> float:
    """Write the history that is asked for unless it lies there; returns the seconds that this took, once."""
    model = Model(arguments.model)
    # A read in the last third, of a value that had been replaced long before.
    turn = 4 * (arguments.operations // arguments.objects // 6) + 3
    wrong = turn * arguments.objects + 1 % arguments.objects if arguments.planted else None
    what = {name: getattr(arguments, name) for name in ("model", "operations", "objects", "planted")}
    note = run / "written.json"
    if note.exists():
        before = json.loads(note.read_text())
        if {name: before[name] for name in what} != what:
            raise SystemExit(f"{run} holds another history: {before}")
        return float(before["write_s"])
    began = time.monotonic()
    write_history(run, model, arguments.operations, arguments.objects, wrong)
    seconds = round(time.monotonic() - began, 1)
    note.write_text(json.dumps({**what, "write_s": seconds}))
    return seconds


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Write a history and check it; it is deleted unless it is to be kept."""
    with contextlib.ExitStack() as stack:
        if arguments.keep is None:
            temporary = tempfile.TemporaryDirectory(prefix="check-scale-", dir=arguments.directory)
            run = Path(stack.enter_context(temporary))
        else:
            run = arguments.keep
        wrote = prepare_history(run, arguments)
        if arguments.only_write:
            return {"write_s": wrote, "status": 0}
        os.sync()  # so that what the check writes does not wait for the history
        size = sum(path.stat().st_size for path in run.rglob("*.parquet"))
        words = [sys.executable, __file__, "--model", arguments.model, "--engine", arguments.engine, "--run", str(run)]
        peaks: dict[str, int] = {}
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as checking:
            while checking.poll() is None:
                note_memory(checking.pid, peaks)
                time.sleep(0.1)
            assert checking.stdout is not None
            found = json.loads(checking.stdout.read().splitlines()[-1]) if checking.returncode == 0 else {}
    return {
        "model": arguments.model,
        "operations": arguments.operations,
        "objects": arguments.objects,
        "planted": arguments.planted,
        "engine": arguments.engine,
        "write_s": wrote,
        "history_mb": size // 1_000_000,
        **found,
        "rows_per_s": round(arguments.operations / found["check_s"]) if found else 0,
        "peak_mib": peaks,
        "status": checking.returncode,
        "load": round(os.getloadavg()[0], 1),
        "machine": describe(machine(run.absolute())),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the check of large histories.")
    parser.add_argument("--operations", type=int, default=10_000_000)
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--model", choices=["log", "register", "queue"], default="register")
    parser.add_argument("--engine", choices=["spark", "local"], default="spark")
    parser.add_argument("--planted", action="store_true")
    parser.add_argument(
        "--directory", type=Path, help="Where the history is written, by default the temporary directory."
    )
    parser.add_argument("--keep", type=Path, help="Write the history here unless it lies here already, and leave it.")
    parser.add_argument("--only-write", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run is not None:
        check_in_here(arguments.run, Model(arguments.model), Engine(arguments.engine))
        return 0
    line = measure(arguments)
    sys.stdout.write(json.dumps(line) + "\n")
    if arguments.only_write:
        return 0
    if arguments.out is not None:
        before = json.loads(arguments.out.read_text()) if arguments.out.exists() else []
        arguments.out.write_text(json.dumps([*before, line], indent=1) + "\n")
    right = line["status"] == 0 and line["valid"] is not arguments.planted
    right = right and line["culprit_named"] is arguments.planted
    return 0 if right and max(line["peak_mib"].values()) < MEMORY_MIB_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
