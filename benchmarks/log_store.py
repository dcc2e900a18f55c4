"""Many logs in one process: how long they take to open and to flush, and what they hold.

    python benchmarks/log_store.py [--logs 1000] [--directory DIR]

Makes so many logs with one small record each, closes the store and opens all of them again (warm: the page cache has them),
then writes to each of them and flushes all in one round. Prints a table of what was measured and its bound, and exits with
status 0 only where every bound holds. The bounds are those of 1,000 logs, whatever `--logs` is.
"""

import argparse
import os
import resource
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import attrs

from log.batch import StoredBatch
from log.config import StoreConfig
from log.disk import RealDisk
from log.store import LogStore

RECORD = b"r" * 100
ROUNDS = 5
OPEN_FILES_MAX = 1_200


@attrs.frozen
class Line:
    """One row of the table."""

    name: str
    measured: float
    bound: float
    unit: str

    @property
    def holds(self) -> bool:
        return self.measured < self.bound

    def __str__(self) -> str:
        verdict = "ok" if self.holds else "FAILED"
        return f"{self.name:<44} {self.measured:>10.3f} {self.bound:>10.0f} {self.unit:<12} {verdict}"


def descriptors() -> int:
    """Those of this process."""
    return len(os.listdir("/proc/self/fd"))


def allocated_mb(directory: Path) -> float:
    """Returns the space that files and directories take of the disk, as `du` counts it, in MB."""
    paths = [directory, *directory.rglob("*")]
    return sum(path.lstat().st_blocks * 512 for path in paths) / 1e6


def append_to_all(store: LogStore, now_ms: int) -> None:
    """One record to each log."""
    for name in store.names():
        log = store.log(name)
        batch = StoredBatch.of(RECORD, base_offset=log.end_offset, epoch=1, timestamp_ms=now_ms)
        log.append([batch])


def measure(directory: Path, logs: int) -> list[Line]:
    """The table. The directory is removed before and after."""
    shutil.rmtree(directory, ignore_errors=True)
    config = StoreConfig(open_files_max=OPEN_FILES_MAX)
    store = LogStore.open(RealDisk(), str(directory), config)
    store.create_all(f"topic-{at // 16}-{at % 16}" for at in range(logs))
    append_to_all(store, 1)
    store.flush()
    disk_mb = allocated_mb(directory)
    store.close()

    begun = time.perf_counter()
    store = LogStore.open(RealDisk(), str(directory), config)
    failed = store.open_all()
    open_s = time.perf_counter() - begun
    assert not failed, failed
    assert all(store.log(name).end_offset == 1 for name in store.names())

    rounds, held = [], descriptors()
    for now_ms in range(2, 2 + ROUNDS):
        append_to_all(store, now_ms)
        held = max(held, descriptors())
        begun = time.perf_counter()
        store.flush()
        rounds.append(time.perf_counter() - begun)
        held = max(held, descriptors())
    assert all(store.log(name).durable_offset == 1 + ROUNDS for name in store.names())
    store.close()
    shutil.rmtree(directory)
    return [
        Line(f"{logs} logs opened, warm", open_s, 2, "s"),
        Line(f"descriptors with {logs} logs in use", held, 1_500, "descriptors"),
        Line(f"disk of {logs} logs of one record", disk_mb, 100, "MB"),
        Line(f"a round of {logs} dirty logs, slowest of {ROUNDS}", max(rounds), 1, "s"),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--logs", type=int, default=1_000)
    parser.add_argument("--directory", type=Path, default=Path("runs/log_store"), help="on the disk to be measured")
    options = parser.parse_args(arguments)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    lines = measure(options.directory, options.logs)
    print(f"{'':<44} {'measured':>10} {'below':>10}")
    for line in lines:
        print(line)
    for line in lines:
        if not line.holds:
            print(f"failed: {line.name}: {line.measured:.3f} {line.unit}, not below {line.bound:.0f}", file=sys.stderr)
    return 0 if all(line.holds for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
