"""Ctrl-C while a log waits for its disk: it is unknown then what the disk holds, so nothing is synced again."""

import pytest

from log.errors import StorageFailed
from log.flush import Flush
from log.memory_disk import MemoryDisk
from log.segmented_log import SegmentedLog
from tests.log.frames import frame, frames, memory_disk, numbers, open_log


def interrupt_call(disk: MemoryDisk, n: int) -> list[str]:
    """Ctrl-C meets the n-th call from now, which is not made any more; returns where its name will be found."""
    left = iter(range(1, n))
    interrupted: list[str] = []

    def hook(operation: str, path: str) -> None:
        if next(left, None) is None:
            disk.before_call = None
            interrupted.append(operation)
            raise KeyboardInterrupt(n)

    disk.before_call = hook
    return interrupted


def busy_log(disk: MemoryDisk) -> SegmentedLog:
    """Its next flush has everything to do that a flush can have."""
    log = open_log(disk)
    for first in (1, 101):
        log.append(frames(first, first + 99))
        log.flush()
    for index in range(201, 400):
        log.append([frame(index)])
    log.trim(150)
    return log


def require_failed(disk: MemoryDisk, log: SegmentedLog, flush: Flush) -> None:
    """It refuses every call, closes without a call to the disk, and releases its directory."""
    calls = disk.calls
    assert isinstance(log.failed, StorageFailed)
    for call in (log.flush, lambda: log.append([frame(400)]), lambda: log.end_flush(flush)):
        with pytest.raises(StorageFailed, match="interrupted by KeyboardInterrupt"):
            call()
    log.close()
    assert disk.calls == calls
    open_log(disk)


def test_wherever_a_flush_is_interrupted_the_log_has_failed_and_nothing_is_synced_again() -> None:
    """Names, sealed segments with sidecars, the active one, the durable-end checkpoint, segments that leave: every call of a flush."""
    interrupted: list[str] = []
    for n in range(1, 1_000):
        disk = memory_disk()
        log = busy_log(disk)
        durable_end = log.durable_end
        flush = log.begin_flush()
        operation = interrupt_call(disk, n)
        try:
            flush.run()
        except KeyboardInterrupt:
            interrupted += operation
            require_failed(disk, log, flush)
            assert log.durable_end == durable_end
        else:
            break
    assert {"sync directory", "sync", "write", "cut", "remove", "rename"} <= set(interrupted)


def test_what_interrupts_a_flush_climbs_out_of_it_as_it_is() -> None:
    log = busy_log(disk := memory_disk())
    interrupt_call(disk, 3)
    with pytest.raises(KeyboardInterrupt) as caught:
        log.flush()
    assert (caught.value.args, caught.value.__cause__, caught.value.__context__) == ((3,), None, None)


@pytest.mark.parametrize("runs", [False, True])
def test_a_log_whose_flush_was_begun_and_never_ended_is_closed_without_another_one(runs: bool) -> None:
    """An interrupt may come between any two lines of the code that carries out the flush."""
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1)])
    flush = log.begin_flush()
    if runs:
        flush.run()
    calls = disk.calls
    log.close()
    assert disk.calls == calls
    assert numbers(open_log(disk)) == [(1, 1)]


def test_an_interrupt_while_a_write_that_met_a_full_disk_is_taken_back_ends_the_log() -> None:
    """Part of that write may still be there: later frames must not come before it."""
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1)])
    log.flush()
    disk.capacity_bytes = disk.used_bytes()
    # Before it: the write, and the cut.
    operation = interrupt_call(disk, 3)
    with pytest.raises(KeyboardInterrupt):
        log.append(frames(2, 100))
    assert operation == ["sync"]
    assert isinstance(log.failed, StorageFailed)
    calls = disk.calls
    log.close()
    assert disk.calls == calls
