"""Segments leave at the old end, their files are used again at the new one, and frames of both uses are never confused."""

import contextlib
import gc
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from log import start
from log.config import LogConfig
from log.disk import RealDisk
from log.errors import CorruptLog, IndexOutOfRange, NoSpace, OffsetOutOfRange, StorageFailed
from log.flush import Flush
from log.frame import HEADER_BYTES
from log.index import LogTail
from log.memory_disk import MemoryDisk, PowerLoss
from log.retirement import RETIRED_PER_FLUSH_MAX
from log.segmented_log import RESERVE_SLACK_BYTES, SegmentedLog
from log.start import Start
from tests.crashes import kill
from tests.examples import TIMES
from tests.log.frames import DIRECTORY, LOG_ID, SMALL, content, entries, frame, frames, memory_disk, numbers, open_log
from tests.log.model import moment_of

START = f"{DIRECTORY}/{start.NAME}"


def fill_log(disk: MemoryDisk, last: int, *, config: LogConfig = SMALL, size: int = 120) -> SegmentedLog:
    """Appends frames of 200 bytes, flushed in tens, about twenty to a segment; returns the log."""
    log = open_log(disk, config)
    for first in range(log.last_index + 1, last, 10):
        log.append(frames(first, first + 9, size=size))
        log.flush()
    return log


def names(disk: MemoryDisk, suffix: str) -> list[str]:
    return [path for path in disk.paths() if path.endswith(suffix)]


def test_whole_segments_below_an_index_leave() -> None:
    disk = memory_disk()
    log = fill_log(disk, 200)
    before = content(log)
    first = log.trim(75)
    assert 50 < first <= 75
    assert (log.first_index, log.start_offset, log.last_index) == (first, first - 1, 200)
    assert content(log) == before[first - 1 :]
    assert log.find_offset(first - 1) == first
    assert [(each.epoch, each.first_index, each.base_offset) for each in log.epochs] == [(1, first, first - 1)]
    for call in (lambda: log.read(first - 1, 1), lambda: log.epoch_at(first - 2), lambda: log.truncate(first - 2)):
        with pytest.raises(IndexOutOfRange):
            call()
    with pytest.raises(OffsetOutOfRange):
        log.find_offset(first - 2)


def test_the_files_go_with_the_next_flush_and_a_few_are_kept() -> None:
    disk = memory_disk()
    log = fill_log(disk, 200)
    segments, indexes = names(disk, ".log"), names(disk, ".index")
    log.trim(190)
    assert (names(disk, ".log"), log.sealed_pending) == (segments, True)
    log.flush()
    assert not log.sealed_pending
    assert names(disk, ".log") == segments[-1:] or len(names(disk, ".log")) == 2
    assert len(names(disk, ".spare")) == SMALL.spare_files_max
    assert len(names(disk, ".index")) == len(names(disk, ".log")) - 1 < len(indexes)


def test_a_few_files_go_with_one_flush_and_where_the_log_begins_is_put_down_once() -> None:
    """A caller that waits for that flush does not wait until the files of a whole log are removed."""
    disk = memory_disk()
    log = fill_log(disk, 800)
    log.trim(790, b"what left")
    written, gone = 0, []
    while log.retiring:
        assert log.sealed_pending
        before = len(names(disk, ".log"))
        calls = calls_of(disk)
        log.flush()
        disk.before_call = None
        written += calls.count(("rename", f"{START}.next"))
        gone.append(before - len(names(disk, ".log")))
        for after in (disk.durable_copy(), disk.after_crash(random.Random(len(gone)))):
            assert moment_of(open_log(after)) == moment_of(log)
    assert (written, max(gone), min(gone[:-1])) == (1, RETIRED_PER_FLUSH_MAX, RETIRED_PER_FLUSH_MAX)
    assert sum(gone) > 3 * RETIRED_PER_FLUSH_MAX
    assert not log.sealed_pending
    assert len(names(disk, ".log")) == len(names(disk, ".index")) + 1 < 4


def test_what_left_before_goes_though_there_is_no_room_to_say_what_left_since() -> None:
    disk = memory_disk()
    log = fill_log(disk, 400)
    first = log.trim(300, b"what left")
    log.flush()
    before = len(names(disk, ".log"))
    disk.capacity_bytes = disk.used_bytes() + 100
    log.trim(390, bytes(100_000))
    log.flush()
    assert len(names(disk, ".log")) < before
    assert open_log(disk.durable_copy()).first_index == first
    assert (log.retiring, log.sealed_pending) == (True, False)
    disk.capacity_bytes = None
    log.retry_retiring()
    log.flush()
    assert open_log(disk.durable_copy()).first_index == log.first_index > first


def test_a_flush_that_retired_segments_waits_for_no_garbage_collection() -> None:
    log = fill_log(memory_disk(), 200)
    log.trim(190)
    gc.collect()
    gc.disable()
    try:
        before = _flushes()
        log.flush()
        assert _flushes() == before
    finally:
        gc.enable()


def _flushes() -> int:
    return sum(type(each) is Flush for each in gc.get_objects())


def test_a_trimmed_log_is_found_again() -> None:
    disk = memory_disk()
    log = fill_log(disk, 200)
    log.append(frames(201, 210, 4, size=120))
    log.save_state(b"vote")
    log.trim(150)
    log.flush()
    expected = moment_of(log)
    assert moment_of(open_log(disk.durable_copy())) == expected
    log.close()
    reopened = open_log(disk)
    assert moment_of(reopened) == expected
    assert (reopened.recovery.segments_scanned, names(disk, ".spare")) == (1, [])


def test_what_follows_the_last_that_left_must_still_follow_it() -> None:
    disk = memory_disk()
    log = fill_log(disk, 100)
    first = log.trim(70)
    log.flush()
    log.close()
    log = open_log(disk)
    with pytest.raises(ValueError, match="does not follow"):
        log.append([frame(first - 1)])
    with pytest.raises(ValueError, match="does not follow"):
        log.append([frame(first, 0)])
    log.truncate(first - 1)
    assert (log.first_index, log.last_index, log.start_offset, log.end_offset) == (0, first - 1, first - 1, first - 1)
    log.append([frame(first, 5)])
    log.close()
    assert numbers(open_log(disk)) == [(first, 5)]


def test_the_segment_that_is_written_to_and_unproven_ones_stay() -> None:
    log = open_log(memory_disk())
    log.append(frames(1, 50, size=120))
    log.append(frames(51, 90, size=120))
    assert log.trim(90) == 1
    log.flush()
    assert log.trim(90) == 51


@pytest.mark.parametrize("index", [0, 201])
def test_a_log_cannot_be_trimmed_to_what_it_does_not_hold(index: int) -> None:
    log = fill_log(memory_disk(), 200)
    with pytest.raises(IndexOutOfRange):
        log.trim(index)


def test_an_empty_log_cannot_be_trimmed() -> None:
    log = fill_log(memory_disk(), 200)
    first = log.trim(100)
    log.truncate(first - 1)
    for index in (1, first - 1, first):
        with pytest.raises(IndexOutOfRange):
            log.trim(index)


def test_trimming_below_the_first_index_changes_nothing() -> None:
    log = fill_log(memory_disk(), 200)
    first = log.trim(100)
    assert log.trim(1) == first


def test_a_new_segment_takes_the_file_of_a_retired_one() -> None:
    disk = memory_disk()
    log = fill_log(disk, 60)
    log.trim(60)
    log.flush()
    spare = names(disk, ".spare")[-1]
    former = disk.content(spare)
    stored = disk.content(_roll(log, disk, 120))
    assert spare not in disk.paths()
    assert len(stored) == len(former)
    assert stored[-200:] == former[-200:]
    assert content(log) == entries(frames(log.first_index, log.last_index, size=120))


def _roll(log: SegmentedLog, disk: MemoryDisk, size: int) -> str:
    """Append until a recycled file is written to; returns its path."""
    segments = len(names(disk, ".log"))
    while len(names(disk, ".log")) == segments:
        log.append(frames(log.last_index + 1, log.last_index + 1, size=size))
    return names(disk, ".log")[-1]


@pytest.mark.parametrize("zero_ahead_bytes", [0, 1024])
@pytest.mark.parametrize("size", [120, 40, 200])
def test_the_end_in_a_recycled_file_is_found_exactly(size: int, zero_ahead_bytes: int) -> None:
    """With 120 bytes as before, a frame of the former life begins exactly at each new end."""
    config = LogConfig(segment_bytes_max=4096, index_interval_bytes=512, zero_ahead_bytes=zero_ahead_bytes)
    disk = memory_disk()
    log = fill_log(disk, 60, config=config)
    log.trim(60)
    log.flush()
    _roll(log, disk, size)
    for _ in range(12):
        after = kill(disk)
        reopened = open_log(after)
        assert (content(reopened), reopened.recovery.torn_at) == (content(log), None)
        assert (
            reopened.end
            == log.end
            == int(names(after, ".log")[-1][-24:-4]) + len(after.content(names(after, ".log")[-1]))
        )
        log.append(frames(log.last_index + 1, log.last_index + 1, size=size))
        log.flush()


def test_a_former_frame_exactly_at_the_new_end_is_neither_a_frame_nor_damage() -> None:
    """Even when the zeros behind the end never reached the disk."""
    disk = memory_disk()
    log = fill_log(disk, 60)
    log.trim(60)
    log.flush()
    former = disk.content(names(disk, ".spare")[-1])
    path = _roll(log, disk, 120)
    log.flush()
    position = log.end - int(path[-24:-4])
    assert former[position : position + 4] == b"QLOG"
    file = disk.open(path, create=False)
    file.write_at(position, [former[position:]])
    reopened = open_log(kill(disk))
    assert content(reopened) == content(log)
    assert reopened.recovery.torn_at == log.end


def test_damage_in_a_recycled_file_is_never_taken_for_its_former_life() -> None:
    disk = memory_disk()
    log = fill_log(disk, 60)
    log.trim(60)
    log.flush()
    former = disk.content(names(disk, ".spare")[-1])
    path = _roll(log, disk, 120)
    log.append(frames(log.last_index + 1, log.last_index + 5, size=120))
    log.flush()
    after = kill(disk)
    file = after.open(path, create=False)
    file.write_at(200, [former[200:400]])
    with pytest.raises(CorruptLog, match="was written for address"):
        open_log(after)


def test_a_rename_that_a_power_cut_took_back_leaves_nothing_to_be_met_again() -> None:
    """New frames lie in a file with the name of a spare one: it must not come back at the same address."""
    taken_back = 0
    for seed in range(200):
        disk = memory_disk(seed)
        log = fill_log(disk, 60)
        log.trim(60)
        log.flush()
        spares = names(disk, ".spare")
        _roll(log, disk, 120)
        log.append(frames(log.last_index + 1, log.last_index + 3, size=120))
        after = disk.after_crash(random.Random(seed))
        taken_back += names(after, ".spare") == spares
        again = open_log(after)
        assert names(after, ".spare") == []
        assert content(again) == content(log)[: len(content(again))]
        again.trim(again.last_index)
        again.flush()
        second = frames(again.last_index + 1, again.last_index + 1, 9, size=120)
        again.append(second)
        assert content(open_log(kill(after)))[-1] == entries(second)[0]
    assert taken_back > 20


def test_any_names_may_be_left_of_segments_that_were_retired() -> None:
    left = set()
    for seed in range(100):
        disk = memory_disk(seed)
        log = fill_log(disk, 200)
        log.trim(150)
        log.flush()
        expected = moment_of(log)
        after = disk.after_crash(random.Random(seed))
        left.add(len(names(after, ".log")))
        assert moment_of(open_log(after)) == expected
        assert moment_of(open_log(kill(after))) == expected
    assert len(left) > 2


def test_a_trim_that_no_flush_carried_out_is_as_if_it_never_was() -> None:
    disk = memory_disk()
    log = fill_log(disk, 200)
    before = moment_of(log)
    log.trim(150)
    assert moment_of(open_log(kill(disk))) == before


def test_a_trim_waits_until_what_it_leaves_is_durable() -> None:
    """Segments left because newer frames replaced what they hold; so those must be durable first."""
    for loss in PowerLoss:
        disk = memory_disk()
        log = fill_log(disk, 100)
        log.append(frames(60, 61, 2, size=120))
        first = log.trim(60)
        survivor = open_log(disk.after_crash(random.Random(3), loss=loss))
        assert survivor.first_index == 1
        assert survivor.last_index in (61, 100)
        log.flush()
        assert open_log(disk.durable_copy()).first_index == first


def test_on_a_full_disk_a_trim_waits_for_room() -> None:
    disk = memory_disk()
    log = fill_log(disk, 200)
    segments = names(disk, ".log")
    used = disk.used_bytes()
    disk.capacity_bytes = used + 500
    first = log.trim(150, bytes(1_000))
    log.flush()
    assert (names(disk, ".log"), log.retiring) == (segments, True)
    assert disk.used_bytes() == used
    disk.capacity_bytes = None
    log.retry_retiring()
    log.flush()
    assert (len(names(disk, ".log")) < len(segments), log.retiring) == (True, False)
    assert open_log(disk.durable_copy()).first_index == first


@pytest.mark.parametrize("ask", [SegmentedLog.retry_retiring, lambda log: log.trim(1)])
def test_what_waits_for_room_is_tried_again_only_when_asked_for(ask: Callable[[SegmentedLog], None]) -> None:
    disk = memory_disk()
    log = fill_log(disk, 200)
    disk.capacity_bytes = disk.used_bytes() + 500
    log.trim(150, bytes(1_000))
    log.flush()
    log.save_state(b"vote")
    opened = calls_of(disk)
    assert (log.retiring, log.sealed_pending, log.begin_flush().lone is not None) == (True, False, True)
    log._flushing = None
    log.flush()
    assert ("open", f"{START}.next") not in opened
    ask(log)
    assert (log.retiring, log.sealed_pending) == (True, True)
    log.flush()
    assert ("open", f"{START}.next") in opened
    assert log.retiring


def calls_of(disk: MemoryDisk) -> list[tuple[str, str]]:
    """The calls from now on."""
    calls: list[tuple[str, str]] = []
    disk.before_call = lambda operation, path: calls.append((operation, path))
    return calls


LARGE = LogConfig(segment_bytes_max=1 << 18, reserve_chunk_bytes=1 << 16, zero_ahead_bytes=1 << 14, spare_files_max=2)


def fill_up(log: SegmentedLog) -> None:
    """Until nothing can be reserved."""
    with contextlib.suppress(NoSpace):
        while True:
            following = frames(log.last_index + 1, log.last_index + 10, size=2_000)
            log.reserve(2 * HEADER_BYTES + sum(HEADER_BYTES + len(each.payload) for each in following))
            log.append(following)
            log.flush()


@pytest.mark.parametrize("capacity", range(4_000_000, 4_300_000, 90_000 if TIMES == 1 else 30_000))
@pytest.mark.parametrize("restarts", [False, True])
def test_a_log_that_filled_its_disk_can_let_segments_leave_for_ever(capacity: int, restarts: bool) -> None:
    """Whatever room was left at the end, and however large the payload, if it grows no faster than by half."""
    disk = memory_disk(capacity_bytes=capacity)
    log = open_log(disk, LARGE)
    log.keep_room(200_000)
    payload_bytes = 200_000
    for _ in range(8):
        fill_up(log)
        if restarts:
            disk = disk.after_crash(random.Random(capacity))
            log = open_log(disk, LARGE)
            log.keep_room(200_000)
        before = log.last_index
        first = log.trim(log.first_index + (log.last_index - log.first_index) // 2, bytes(payload_bytes))
        log.flush()
        assert not log.retiring
        assert open_log(disk.durable_copy()).first_index == first
        fill_up(log)
        assert log.last_index > before
        payload_bytes = payload_bytes * 5 // 4 if payload_bytes < 500_000 else 200_000


def test_files_kept_to_be_used_again_are_given_up_for_what_is_put_down() -> None:
    disk = memory_disk()
    log = fill_log(disk, 200)
    log.trim(100)
    log.flush()
    assert len(names(disk, ".spare")) == 2
    disk.capacity_bytes = disk.used_bytes() + 200
    first = log.trim(180, bytes(8_000))
    log.flush()
    assert not log.retiring
    assert open_log(disk.durable_copy()).first_index == first


def test_files_kept_to_be_used_again_are_given_up_for_what_is_appended() -> None:
    disk = memory_disk()
    log = fill_log(disk, 200)
    log.trim(100)
    log.flush()
    log.reserve(0)
    assert len(names(disk, ".spare")) == 2
    free = log._active.reserved - log._active.size - RESERVE_SLACK_BYTES
    disk.capacity_bytes = disk.used_bytes() + 100
    log.reserve(free + 4_100)
    assert len(names(disk, ".spare")) == 1
    with pytest.raises(NoSpace):
        log.reserve(free + 20_000)


def test_a_full_disk_once_the_log_start_is_renamed_ends_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is unknown then which checkpoint a crash leaves."""
    for operation in ("rename", "sync directory"):
        disk = memory_disk()
        log = fill_log(disk, 200)
        log.trim(150, b"what left")

        def is_full(called: str, path: str, refused: str = operation) -> None:
            if called == refused and path in (DIRECTORY, f"{START}.next"):
                raise NoSpace(called, path)

        disk.before_call = is_full
        with pytest.raises(StorageFailed):
            log.flush()
        assert log.failed is not None


def _lose_first(disk: MemoryDisk) -> None:
    disk.remove(names(disk, ".log")[0])


def _lose_all(disk: MemoryDisk) -> None:
    for path in names(disk, ".log"):
        disk.remove(path)


def _damage_start(disk: MemoryDisk) -> None:
    disk.flip_bit(START, 100)


def _lose_start(disk: MemoryDisk) -> None:
    disk.remove(START)


@pytest.mark.parametrize("harm", [_lose_first, _lose_all, _damage_start, _lose_start])
def test_a_segment_that_is_missing_and_was_not_retired_is_damage(harm: Callable[[MemoryDisk], None]) -> None:
    disk = memory_disk()
    log = fill_log(disk, 200)
    log.trim(100)
    log.close()
    harm(disk)
    with pytest.raises(CorruptLog):
        open_log(disk)


@pytest.mark.parametrize("payload", [b"", b"what left"])
def test_no_bit_of_where_a_log_begins_may_change(payload: bytes) -> None:
    disk = memory_disk()
    log = fill_log(disk, 100)
    log.trim(70, payload)
    log.close()
    for bit in range(len(disk.content(START)) * 8):
        after = kill(disk)
        after.flip_bit(START, bit)
        with pytest.raises(CorruptLog, match=f"{START}.*only `start` is damaged"):
            open_log(after)


@pytest.mark.parametrize("change", [-70, -10, -1, 1])
def test_where_a_log_begins_is_as_long_as_it_says(change: int) -> None:
    disk = memory_disk()
    log = fill_log(disk, 100)
    log.trim(70, b"what left")
    log.close()
    file = disk.open(START, create=False)
    file.cut(file.size() + change)
    with pytest.raises(CorruptLog):
        open_log(disk)


def test_a_trim_tells_what_left_the_log() -> None:
    disk = memory_disk()
    log = fill_log(disk, 200)
    first = log.trim(100, b"up to 100")
    assert log.start == Start(log.start.base, LogTail(first - 1, 1, first - 1), b"up to 100")
    assert names(disk, f"/{start.NAME}") == []
    assert log.start_payload() == b"up to 100"
    log.flush()
    assert open_log(disk.durable_copy()).start == log.start == Start(log.start.base, LogTail(first - 1, 1, first - 1))
    assert open_log(disk.durable_copy()).start_payload() == log.start_payload() == b"up to 100"
    log.trim(first, b"nothing left")
    log.trim(first - 1, b"nothing left")
    assert log.start_payload() == b"up to 100"
    log.flush()
    assert open_log(disk.durable_copy()).start == log.start
    log.trim(180)
    log.flush()
    assert open_log(disk.durable_copy()).start_payload() == log.start_payload() == b""
    assert repr(Start(payload=bytes(1 << 26))).endswith("payload=<67108864 bytes>)")


def test_a_payload_is_held_until_it_is_durable_and_no_longer(tmp_path: Path) -> None:
    """The owner has it, too."""
    log = open_log(RealDisk(), directory=str(tmp_path))
    for first in range(1, 200, 20):
        log.append(frames(first, first + 19, size=120))
        log.flush()
    tracemalloc.start()
    try:
        log.trim(60, bytes(1 << 24))
        flush = log.begin_flush()
        flush.run()
        log.trim(100, b"and more")
        log.end_flush(flush)
        assert log.start_payload() == b"and more"
        log.flush()
        log.trim(150, bytes(1 << 24))
        assert len(log.start_payload()) == 1 << 24
        log.close()
        log = open_log(RealDisk(), directory=str(tmp_path))
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
        assert len(log.start_payload()) == 1 << 24
    finally:
        tracemalloc.stop()
    log.close()


def test_a_large_payload_is_held_once_and_written_and_read_without_a_copy(tmp_path: Path) -> None:
    log = open_log(RealDisk(), directory=str(tmp_path))
    for first in (1, 51):
        log.append(frames(first, first + 49, size=120))
        log.flush()
    payload = bytes(1 << 24)
    tracemalloc.start()
    try:
        log.trim(60, payload)
        log.close()
        assert tracemalloc.get_traced_memory()[1] < len(payload) // 2
        tracemalloc.reset_peak()
        log = open_log(RealDisk(), directory=str(tmp_path))
        assert tracemalloc.get_traced_memory()[1] < len(payload) * 3 // 2
    finally:
        tracemalloc.stop()
    assert log.start_payload() == payload
    log.close()


def test_names_go_only_when_what_they_held_is_told() -> None:
    """The power is cut at every call of the flush: the payload goes with the segments, and nothing of the one without the other."""
    found = set()
    for n in range(1, 1_000):
        disk = memory_disk(n)
        log = fill_log(disk, 200)
        old = moment_of(log)
        log.trim(100, b"what left")
        new = moment_of(log)
        disk.fail_call(n)
        with contextlib.suppress(StorageFailed):
            log.flush()
            break
        for loss in (None, *PowerLoss):
            after = disk.after_crash(random.Random(n), loss=loss)
            fewer = len(names(after, ".log")) < len(names(disk, ".log"))
            seen = moment_of(open_log(after))
            assert seen in ([new] if fewer else [old, new])
            found.add(seen == new)
    assert found == {False, True}


def test_another_logs_start_is_refused() -> None:
    disk = memory_disk()
    disk.make_directory(DIRECTORY)
    written = Start(before=LogTail(5, 2, 9))
    start.prepare(disk, DIRECTORY, written, log_id=LOG_ID + 1)
    start.commit(disk, DIRECTORY)
    with pytest.raises(CorruptLog, match="another log"):
        start.read(disk, DIRECTORY, log_id=LOG_ID)
    assert start.read(disk, DIRECTORY, log_id=LOG_ID + 1) == written


def test_a_recycled_file_that_a_full_disk_took_back_does_no_harm() -> None:
    reappeared = 0
    for seed in range(60):
        disk = memory_disk(seed)
        log = fill_log(disk, 60)
        log.trim(60)
        log.flush()
        while log.end - int(names(disk, ".log")[-1][-24:-4]) < SMALL.segment_bytes_max:
            log.append(frames(log.last_index + 1, log.last_index + 1, size=120))
        log.flush()
        disk.capacity_bytes = disk.used_bytes()
        with pytest.raises(NoSpace):
            log.reserve(5_000)
        log.save_state(b"vote") if log.state is None and log.end - log.durable_end else None
        before = moment_of(log)
        after = disk.after_crash(random.Random(seed))
        after.capacity_bytes = None
        reappeared += len(names(after, ".log")) > len(names(disk, ".log"))
        again = open_log(after)
        assert moment_of(again) == before
        again.append(frames(again.last_index + 1, again.last_index + 30, 3, size=120))
        again.flush()
        assert numbers(open_log(after.durable_copy()))[-1][1] == 3
    assert reappeared


def test_a_log_that_is_trimmed_for_ever_keeps_few_files_and_little_memory() -> None:
    disk = memory_disk()
    log = open_log(disk)
    for first in range(1, 5_000, 10):
        log.append(frames(first, first + 9, size=120))
        log.flush()
        log.trim(log.last_index)
    log.flush()
    assert len(disk.paths()) < 12
    assert len(log._segments) <= 3
    assert log._lookup._indexes == {}
    assert HEADER_BYTES * 10 < disk.used_bytes() < 40_000


@pytest.mark.parametrize("damaged_at", [0, 2_000])
def test_a_trimmed_log_that_is_damaged_can_be_repaired(damaged_at: int) -> None:
    disk = memory_disk()
    log = fill_log(disk, 200)
    log.save_state(b"vote")
    first = log.trim(100)
    log.close()
    path = names(disk, ".log")[0]
    disk.flip_bit(path, damaged_at * 8 + 100)
    with pytest.raises(CorruptLog):
        content(open_log(disk))
    disk = kill(disk)
    repaired = SegmentedLog.open(disk, DIRECTORY, SMALL, log_id=LOG_ID, amend=lambda state, floor: b"amended")
    assert (repaired.state, repaired.last_index) == (b"amended", first - 1 + damaged_at // 200)
    assert content(repaired) == entries(frames(first, repaired.last_index, size=120))
    repaired.append(frames(repaired.last_index + 1, repaired.last_index + 40, 2, size=120))
    repaired.close()
    assert moment_of(open_log(disk)).last_index == first + 39 + damaged_at // 200
