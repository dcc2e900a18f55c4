"""Group commit: who waits for which sync, and what each policy lets be acknowledged."""

import random
import threading
from pathlib import Path

import pytest
import trio
import trio.testing

from log.disk import RealDisk, StorageFailed
from log.flusher import FlushPolicy, GroupFlusher
from log.memory_disk import MemoryDisk
from log.segmented_log import Address, LogConfig
from tests.log.frames import SMALL, content, frame, frames, memory_disk, open_log

THREAD_S = 0.03
"""Real time after which the mock clock may jump: a flush in its thread is not visible to it."""


class SlowDisk(MemoryDisk):
    """Its syncs wait until they are let through, one at a time."""

    def __init__(self) -> None:
        super().__init__(random.Random(0))
        self.let_through = threading.Semaphore(0)
        self.slow = False
        self.before_call = self._wait

    def _wait(self, operation: str, path: str) -> None:
        if self.slow and operation == "sync":
            assert self.let_through.acquire(timeout=10)


async def test_many_waiters_ride_on_one_sync(tmp_path: Path) -> None:
    log = open_log(RealDisk(), LogConfig(), directory=str(tmp_path))
    flusher = GroupFlusher(log)

    async def append_and_wait() -> None:
        index = log.last_index + 1
        end = log.append([frame(index)])
        flusher.appended()
        await flusher.wait(end)
        assert log.durable_end >= end

    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        async with trio.open_nursery() as clients:
            for _ in range(500):
                clients.start_soon(append_and_wait)
        assert flusher.flushes < 20
        nursery.cancel_scope.cancel()
    assert log.durable_end == log.end
    log.close()
    assert len(content(open_log(RealDisk(), directory=str(tmp_path)))) == 500


async def test_what_is_appended_during_a_flush_waits_for_the_next_one() -> None:
    disk = SlowDisk()
    log = open_log(disk, LogConfig())
    acknowledged: list[Address] = []
    flusher = GroupFlusher(log, on_acknowledged=acknowledged.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        disk.slow = True
        first = log.append([frame(1)])
        flusher.appended()
        await trio.testing.wait_all_tasks_blocked()
        second = log.append(frames(2, 10))
        flusher.appended()
        assert (flusher.acknowledged_end, acknowledged) == (0, [])
        disk.let_through.release()
        await flusher.wait(first)
        assert (log.durable_end, acknowledged) == (first, [first])
        disk.let_through.release()
        await flusher.wait(second)
        assert acknowledged == [first, second]
        nursery.cancel_scope.cancel()


async def test_a_flush_that_has_begun_is_finished_though_its_task_is_cancelled() -> None:
    disk = SlowDisk()
    log = open_log(disk, LogConfig())
    flusher = GroupFlusher(log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        disk.slow = True
        end = log.append([frame(1)])
        flusher.appended()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        disk.let_through.release()
    assert log.durable_end == end
    disk.slow = False
    log.append([frame(2)])
    assert log.flush() == log.end


async def test_a_cancellation_on_the_way_to_a_flush_leaves_no_flush_half_begun() -> None:
    log = open_log(memory_disk(), LogConfig())
    flusher = GroupFlusher(log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        await trio.testing.wait_all_tasks_blocked()
        log.append([frame(1)])
        flusher.appended()
        nursery.cancel_scope.cancel()
    assert log.flush() == log.end


async def test_a_failed_flush_ends_the_task_and_every_waiter() -> None:
    disk = memory_disk()
    log = open_log(disk, LogConfig())
    flusher = GroupFlusher(log)
    failures: list[StorageFailed] = []

    async def wait(end: Address) -> None:
        try:
            await flusher.wait(end)
        except StorageFailed as failed:
            failures.append(failed)

    with pytest.RaisesGroup(StorageFailed):
        async with trio.open_nursery() as nursery:
            end = log.append([frame(1)])
            async with trio.open_nursery() as waiters:
                for _ in range(3):
                    waiters.start_soon(wait, end)
                await trio.testing.wait_all_tasks_blocked()
                disk.failing = True
                flusher.appended()
                nursery.start_soon(flusher.run)
    assert len(failures) == 3
    with pytest.raises(StorageFailed):
        await flusher.wait(end)
    assert flusher.acknowledged_end == 0


async def test_by_interval_the_acknowledgement_is_at_once_and_the_flush_follows(
    autojump_clock: trio.testing.MockClock,
) -> None:
    autojump_clock.autojump_threshold = THREAD_S
    log = open_log(memory_disk(), LogConfig())
    acknowledged: list[Address] = []
    flusher = GroupFlusher(log, policy=FlushPolicy.INTERVAL, interval_s=0.5, on_acknowledged=acknowledged.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        await trio.testing.wait_all_tasks_blocked()
        for index in range(1, 9):
            end = log.append([frame(index)])
            flusher.appended()
            await flusher.wait(end)
            assert (log.durable_end, acknowledged[-1]) == (0, end)
            await trio.sleep(0.05)
        await trio.sleep(0.2)
        assert (flusher.flushes, log.durable_end) == (1, log.end)
        await trio.sleep(5)
        assert flusher.flushes == 1
        log.append([frame(9)])
        flusher.appended()
        await flusher.drain()
        assert log.durable_end == log.end
        nursery.cancel_scope.cancel()


async def test_without_flushing_only_sealed_segments_are_synced(autojump_clock: trio.testing.MockClock) -> None:
    autojump_clock.autojump_threshold = THREAD_S
    disk = memory_disk()
    log = open_log(disk, SMALL)
    flusher = GroupFlusher(log, policy=FlushPolicy.NONE)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        end = log.append([frame(1)])
        flusher.appended()
        await flusher.wait(end)
        await trio.sleep(10)
        assert (log.durable_end, flusher.flushes) == (0, 0)
        log.append(frames(2, 60))
        end = log.append([frame(61)])
        flusher.appended()
        await flusher.wait(end)
        await trio.sleep(10)
        assert not log.sealed_pending
        assert [path for path in disk.paths() if path.endswith(".index")]
        log.append([frame(62)])
        await flusher.drain()
        assert log.durable_end == log.end
        nursery.cancel_scope.cancel()


def test_an_interval_is_longer_than_nothing() -> None:
    with pytest.raises(ValueError, match="interval_s > 0"):
        GroupFlusher(open_log(memory_disk()), interval_s=0)
