"""Fail the n-th call to the disk, for n = 1 until a run goes through untouched; then restart and look."""

import contextlib

import pytest

from log.errors import StorageFailed
from log.index import LogTail
from log.memory_disk import MemoryDisk
from log.segmented_log import SegmentedLog
from tests.crashes import FATES, TURNS, Fate, calls_before, cut_power, kill, lose_unsynced
from tests.log.frames import frames, memory_disk, open_log
from tests.log.model import Model, moment_of, trim_both


class Run:
    """One run of a log: open, append, flush, roll, trim, reset, cut, flush, close; records how far it got."""

    def __init__(self, disk: MemoryDisk, model: Model) -> None:
        self.disk = disk
        self.model = model
        self.log: SegmentedLog | None = None
        self.reading = False

    def live(self) -> None:
        self.log = log = open_log(self.disk)
        epoch = log.last_epoch + 1
        self._save(b"vote %d" % epoch)
        for _ in range(3):
            last = log.last_index
            self._reserve(3_000)
            self._append(last + 1, last + 4, epoch, 100)
            self._append(last + 3, last + 30, epoch, 100)
            self._flush()
            trim_both(log, self.model, max(log.first_index, log.last_index - 30), b"#%d" % log.end)
        self._save(b"new vote %d" % epoch)
        self._reset(LogTail(log.last_index + 100, epoch - 1, log.end_offset + 100), b"#%d" % log.end)
        self._append(log.last_index + 1, log.last_index + 30, epoch, 100)
        self._truncate(log.last_index - 5)
        self._append(log.last_index + 1, log.last_index + 30, epoch, 100)
        self._append(log.last_index + 1, log.last_index + 2, epoch, 5)
        self._flush()
        self.reading = True
        log.read(log.first_index, 100_000)
        log.find_offset(log.start_offset)
        self.reading = False
        log.close()

    # The model first: a call that fails may have done all of it, a part of it, or nothing.

    def _save(self, state: bytes) -> None:
        self.model.save_state(state)
        self._log.save_state(state)

    def _append(self, first: int, last: int, epoch: int, size: int) -> None:
        written = frames(first, last, epoch, size=size)
        self.model.append(written)
        self._log.append(written)

    def _truncate(self, last_index: int) -> None:
        self.model.truncate(last_index)
        self._log.truncate(last_index)

    def _reset(self, before: LogTail, payload: bytes) -> None:
        self.model.begin_reset(before, payload)
        self._log.reset(before, payload)
        self.model.end_reset()

    def _reserve(self, size: int) -> None:
        self._log.reserve(size)

    def _flush(self) -> None:
        so_far = self.model.so_far
        self._log.flush()
        self.model.mark_flushed(so_far)

    @property
    def _log(self) -> SegmentedLog:
        assert self.log is not None
        return self.log


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("lives", [1, 2])
def test_whichever_call_fails_what_was_flushed_survives(fate: Fate, lives: int) -> None:
    """The failure hits the last of `lives`, so with two of them recovery too."""
    failures = 0
    disk, model = memory_disk(), Model()
    for n in calls_before(fate):
        disk, model = memory_disk(n), Model()
        for _ in range(lives - 1):
            Run(disk, model).live()
            model.mark_flushed(model.so_far)
            disk = kill(disk, n)
        disk.fail_call(n)
        run = Run(disk, model)
        with contextlib.suppress(StorageFailed):
            run.live()
            break
        failures += 1
        model.accept_survivor(moment_of(open_log(fate(disk, n))))
        if run.log is not None:
            run.log.close()
    assert failures > 40 // TURNS
    assert moment_of(open_log(lose_unsynced(disk, 0))) == model.now


def test_whichever_call_of_a_recovery_fails_the_next_recovery_finds_the_same() -> None:
    """Torn bytes, unproven bytes, lost indexes: everything that recovery mends."""
    failures = 0
    for n in range(1, 1_000):
        disk, model = memory_disk(), Model()
        run = Run(disk, model)
        with contextlib.suppress(StorageFailed):
            disk.fail_call(70)
            run.live()
        disk = cut_power(disk, 2)
        expected = moment_of(open_log(kill(disk, 1)))
        disk.fail_call(n)
        try:
            log = open_log(disk)
        except StorageFailed:
            failures += 1
            seen = moment_of(open_log(kill(disk, n)))
            assert seen == expected
            assert model.may_be_left(moment_of(open_log(cut_power(disk, n))))
        else:
            disk.fail_call(1_000_000)
            assert moment_of(log) == expected
            break
    assert failures > 10


def test_every_failed_write_or_sync_ends_the_log() -> None:
    ended = 0
    for n in range(1, 1_000):
        disk, model = memory_disk(), Model()
        calls: list[str] = []
        disk.before_call = lambda operation, path, calls=calls: calls.append(operation)
        disk.fail_call(n)
        run = Run(disk, model)
        try:
            run.live()
        except StorageFailed:
            log = run.log
            if log is not None and calls[-1] not in {"read", "stat", "list", "exists"} and not run.reading:
                ended += 1
                assert isinstance(log.failed, StorageFailed), calls[-1]
                made = disk.calls
                log.close()
                assert disk.calls == made
        else:
            break
    assert ended > 30
