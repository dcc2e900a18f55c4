"""A log's memory and the reads of a restart stay bounded as the log grows."""

import random
import tracemalloc
from pathlib import Path

from log.config import LogConfig
from log.disk import RealDisk
from log.index import SUMMARY_BYTES_READ
from log.memory_disk import MemoryDisk
from log.segmented_log import SegmentedLog
from tests.log.frames import DIRECTORY, LOG_ID, frames, open_log

CONFIG = LogConfig(segment_bytes_max=64 * 1024, index_interval_bytes=512)


def grow(log: SegmentedLog, count: int) -> int:
    """Append so many frames of 200 bytes, read here and there, and tell what is allocated."""
    for first in range(log.last_index + 1, log.last_index + count, 500):
        log.append(frames(first, first + 499, size=120))
        log.flush()
        log.read(1 + first * 7 % log.last_index, 1_000)
        log.find_offset(first * 13 % log.end_offset)
    return tracemalloc.get_traced_memory()[0]


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """Only the names and ends of segments do: the sparse index of these frames would take 24 bytes for every third."""
    log = open_log(RealDisk(), CONFIG, directory=str(tmp_path))
    tracemalloc.start()
    try:
        before = grow(log, 14_000)
        grown = grow(log, 40_000) - before
    finally:
        tracemalloc.stop()
    assert len(log._segments) > 100
    assert grown < 1_000 * len(log._segments) < 40_000 / 3 * 24
    log.close()


def test_a_restart_reads_the_newest_segment_and_the_heads_of_the_older_indexes() -> None:
    disk = MemoryDisk(random.Random(0))
    log = open_log(disk, CONFIG)
    for first in range(1, 10_000, 500):
        log.append(frames(first, first + 499, size=120))
        log.flush()
    log.save_state(b"vote")
    log.flush()
    after = disk.after_kill(random.Random(0))
    newest = [path for path in after.paths() if path.endswith(".log")][-1]
    reads: dict[str, int] = {}

    def count(operation: str, path: str) -> None:
        if operation == "read":
            reads[path] = reads.get(path, 0) + 1

    after.before_call = count
    reopened = SegmentedLog.open(after, DIRECTORY, CONFIG, log_id=LOG_ID)
    assert len(reopened._segments) > 20
    assert [path for path in reads if path.endswith(".log")] == [newest]
    assert {reads[path] for path in reads if path.endswith(".index")} == {1}
    assert max(len(after.content(path)) for path in reads if path.endswith(".index")) > SUMMARY_BYTES_READ
