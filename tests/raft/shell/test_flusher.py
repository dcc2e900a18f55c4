"""Flushes that run concurrently with the loop: durable when they are reported, by the kernel or by the thread, and not before."""

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jepsen_like.cluster.volumes import Volume
from log.config import LogConfig
from log.disk import RealDisk
from log.errors import StorageFailed
from log.flush import Flush
from log.segmented_log import SegmentedLog
from raft import kernel_sync
from raft.flusher import Flusher
from raft.kernel_sync import KernelSync
from raft.net.reactor import Reactor
from tests.log.frames import LOG_ID, frame, open_log

WITHIN_S = 30.0


def has_kernel_sync() -> bool:
    done_fd = os.eventfd(0)
    kernel = KernelSync.open(done_fd)
    os.close(done_fd)
    if kernel is not None:
        kernel.close()
    return kernel is not None


needs_kernel = pytest.mark.skipif(not has_kernel_sync(), reason="the kernel offers no asynchronous fdatasync here")


class Bench:
    """A log on a real disk, and a flusher on a reactor. `ran` counts the flushes that were run by a thread."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = SegmentedLog.open(RealDisk(), str(directory), LogConfig(), log_id=LOG_ID)
        self.reactor = Reactor()
        self.ended = 0
        self.ran = 0
        self.flusher = Flusher(self.reactor, self._on_done)
        run = Flush.run

        def count(flush: Flush) -> None:
            self.ran += 1
            run(flush)

        monkeypatch.setattr(Flush, "run", count)
        self.append_and_flush()
        assert (self.ran, self.ended) == (1, 1), "the first has a new name to make durable"
        self.ran = self.ended = 0

    def _on_done(self) -> None:
        self.ended += 1

    def append(self) -> None:
        index = self.log.last_index + 1
        self.log.append([frame(index, payload=b"%d" % index * 100)])

    def submit(self) -> Flush:
        """Append something, and submit its flush."""
        self.append()
        flush = self.log.begin_flush()
        self.flusher.submit(flush)
        return flush

    def append_and_flush(self) -> None:
        flush = self.submit()
        self.wait()
        self.log.end_flush(flush)

    def wait(self) -> None:
        """Rounds, until a flush has ended."""
        before = self.ended
        while self.ended == before:
            assert self.reactor.round(WITHIN_S), "a flush ends in time"

    def read_mark(self) -> int:
        newest = self.log._mark.newest
        return 0 if newest is None else newest.durable_end

    def close(self) -> None:
        self.flusher.close()
        self.reactor.close()
        self.log.close()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with closing(Bench(tmp_path / "log", monkeypatch)) as bench:
        yield bench


@needs_kernel
def test_a_flush_of_one_file_needs_no_thread(bench: Bench) -> None:
    for _ in range(20):
        bench.append_and_flush()
    assert (bench.ran, bench.ended) == (0, 20)
    assert bench.log.durable_end == bench.log.end == bench.read_mark()


@needs_kernel
def test_what_comes_behind_a_sync_waits_for_it(bench: Bench) -> None:
    before = bench.read_mark()
    flush = bench.submit()
    assert (flush.done, bench.read_mark()) == (False, before), (
        "the checkpoint records nothing that may not be durable yet"
    )
    bench.wait()
    assert (flush.done, bench.read_mark()) == (True, bench.log.end)
    assert bench.log.end_flush(flush) == bench.log.end


@needs_kernel
def test_the_loop_writes_zeros_ahead_and_never_syncs_itself(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    monkeypatch.setattr(os, "fsync", synced.append)
    segment = bench.log._active
    segment.zeroed = segment.size
    bench.append_and_flush()
    assert segment.zeroed > segment.size + bench.log.config.zero_ahead_bytes // 2
    assert synced == []


@needs_kernel
def test_a_signal_does_not_end_the_wait_for_a_sync(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    call, signals = kernel_sync._syscall, iter([errno.EINTR, errno.EINTR])

    def interrupt_call(number: int, *arguments: int) -> int:
        if arguments[1:3] == (1, 1) and (code := next(signals, 0)):
            ctypes.set_errno(code)
            return -1
        result: int = call(number, *arguments)
        return result

    monkeypatch.setattr(kernel_sync, "_syscall", interrupt_call)
    bench.append_and_flush()
    assert next(signals, None) is None
    assert bench.log.durable_end == bench.log.end == bench.read_mark()


@needs_kernel
def test_a_sync_of_which_nobody_can_tell_ends_the_log(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    flush = bench.submit()
    monkeypatch.setattr(kernel_sync, "_syscall", lambda *arguments: ctypes.set_errno(errno.EPERM) or -1)
    with pytest.raises(StorageFailed, match="sync"):
        bench.wait()
    assert not flush.done
    monkeypatch.undo()
    spare = list(kernel_sync._spare)
    bench.flusher.close()
    assert kernel_sync._spare == spare, "something may be under way in this one"


@needs_kernel
def test_a_context_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_sync, "_spare", [])
    done_fd = os.eventfd(0)
    first = KernelSync.open(done_fd)
    assert first is not None
    with monkeypatch.context() as no_more:
        no_more.setattr(kernel_sync, "_syscall", lambda *arguments: -1)
        assert KernelSync.open(done_fd) is None, "it is in use"
        first.close()
        second = KernelSync.open(done_fd)
        assert second is not None
    file = os.memfd_create("synced in no time")
    assert second.begin(file)
    assert second.end() == 0
    os.close(file)
    os.close(done_fd)
    second.close()


@needs_kernel
def test_what_is_appended_while_the_kernel_syncs_is_not_called_durable(bench: Bench) -> None:
    flush = bench.submit()
    first = bench.log.end
    bench.append()
    bench.wait()
    assert bench.log.end_flush(flush) == first < bench.log.end


def test_a_flush_of_more_than_one_file_goes_to_the_thread(bench: Bench) -> None:
    bench.append()
    bench.log._roll(reserve_bytes=0)
    bench.append_and_flush()
    assert bench.ran == 1
    assert bench.log.durable_end == bench.log.end


def test_a_file_that_was_cut_goes_to_the_thread_which_knows_how_to_sync_its_size(bench: Bench) -> None:
    file = bench.log._active.file
    assert file is not None
    file.cut(file.size())
    bench.append_and_flush()
    assert bench.ran == 1
    bench.append_and_flush()
    assert bench.ran == 1 + (not has_kernel_sync())


def test_where_the_kernel_takes_nothing_the_thread_does_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KernelSync, "begin", lambda self, descriptor: False)
    bench.append_and_flush()
    assert bench.ran == 1
    assert bench.log.durable_end == bench.log.end == bench.read_mark()


def test_where_the_kernel_has_no_such_thing_the_thread_does_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_sync, "_syscall", lambda *arguments: -1)
    with closing(Bench(tmp_path / "log", monkeypatch)) as bench:
        bench.append_and_flush()
        assert bench.ran == 1
        assert bench.log.durable_end == bench.log.end == bench.read_mark()


def test_a_machine_whose_calls_are_unknown_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_sync, "NUMBERS", {})
    assert KernelSync.open(0) is None


@needs_kernel
def test_who_closes_waits_for_the_flush_under_way(bench: Bench) -> None:
    flush = bench.submit()
    bench.flusher.close()
    assert flush.done
    assert bench.log.end_flush(flush) == bench.log.end


@needs_kernel
@pytest.mark.parametrize("wait", [Bench.wait, lambda bench: bench.flusher.close()])
def test_a_sync_that_failed_in_the_kernel_ends_the_log(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, wait: Callable[[Bench], None]
) -> None:
    end = KernelSync.end
    monkeypatch.setattr(KernelSync, "end", lambda self: end(self) or errno.EIO)
    before = bench.read_mark()
    flush = bench.submit()
    with pytest.raises(StorageFailed, match="sync"):
        wait(bench)
    assert (flush.done, bench.ended, bench.read_mark()) == (False, 0, before)
    with pytest.raises(StorageFailed):
        bench.append()


@needs_kernel
def test_what_cannot_be_synced_is_refused_at_once() -> None:
    done_fd = os.eventfd(0, os.EFD_NONBLOCK)
    kernel = KernelSync.open(done_fd)
    assert kernel is not None
    read_end, write_end = os.pipe()
    assert not kernel.begin(write_end)
    os.close(read_end)
    os.close(write_end)
    assert not kernel.begin(write_end), "a descriptor that cannot be synced"
    assert not kernel.begin(-1), "none at all"
    kernel.close()
    with pytest.raises(BlockingIOError):
        os.eventfd_read(done_fd)
    os.close(done_fd)


@needs_kernel
def test_the_kernel_says_what_a_sync_came_to(volume: Volume) -> None:
    done_fd = os.eventfd(0, os.EFD_NONBLOCK)
    kernel = KernelSync.open(done_fd)
    assert kernel is not None
    with (volume.path / "file").open("wb", buffering=0) as file:
        file.write(b"kept")
        assert kernel.begin(file.fileno())
        assert kernel.end() == 0
        file.write(b"lost")
        volume.cut_power()
        assert kernel.begin(file.fileno())
        assert kernel.end() == errno.EIO
    kernel.close()
    os.close(done_fd)


@needs_kernel
def test_what_the_kernel_has_synced_survives_a_power_cut_and_what_it_was_not_asked_for_is_gone(
    volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = volume.path / "log"
    bench = Bench(directory, monkeypatch)
    for _ in range(5):
        bench.append_and_flush()
    assert bench.ran == 0
    kept = bench.log.last_index
    bench.append()
    volume.cut_power()
    flush = bench.log.begin_flush()
    bench.flusher.submit(flush)
    with pytest.raises(StorageFailed):
        bench.wait()
    assert (flush.done, bench.ended - 5) == (False, 0)
    bench.close()
    volume.unmount()
    volume.mount()
    with closing(open_log(RealDisk(), directory=str(directory))) as reopened:
        assert reopened.last_index == kept
