"""Appends, reads, cuts, states, flushes and refusals of a log that nothing happens to."""

import random

import attrs
import pytest

from log.config import LogConfig
from log.errors import CorruptLog, DirectoryLocked, IndexOutOfRange, NoSpace, OffsetOutOfRange, StorageFailed
from log.frame import HEADER_BYTES, Frame, FrameKind, decode_header
from log.memory_disk import MemoryDisk, PowerLoss
from tests.log.frames import DIRECTORY, SMALL, content, entries, frame, frames, memory_disk, numbers, open_log, size_of


def test_an_empty_log_holds_nothing() -> None:
    log = open_log(memory_disk())
    assert (log.first_index, log.last_index, log.last_epoch, log.end_offset, log.end) == (0, 0, 0, 0, 0)
    assert log.state is None
    assert log.read(1, 100) == []
    assert list(log.epochs) == []


def test_what_was_appended_is_read_back() -> None:
    log = open_log(memory_disk())
    written = [frame(1, span=3), frame(2, offset=3, span=0), frame(3, 2, offset=3, span=1, payload=b"")]
    assert log.append(written) == size_of(*written) == log.end
    assert log.read(1, 10_000) == written
    assert (log.first_index, log.last_index, log.last_epoch, log.end_offset) == (1, 3, 2, 4)


def test_one_append_is_one_write() -> None:
    disk = memory_disk()
    log = open_log(disk)
    before = disk.calls
    log.append(frames(1, 50))
    assert disk.calls == before + 1


@pytest.mark.parametrize(
    ("first", "bytes_max", "last", "expected"),
    [
        pytest.param(1, 10_000, None, [1, 2, 3, 4, 5], id="everything"),
        pytest.param(1, 100, None, [1], id="one frame that fits"),
        pytest.param(3, 0, None, [3], id="at least one"),
        pytest.param(2, 299, None, [2, 3], id="what fits"),
        pytest.param(2, 300, None, [2, 3, 4], id="exactly what fits"),
        pytest.param(2, 10_000, 3, [2, 3], id="up to the last asked for"),
        pytest.param(5, 10_000, 9, [5], id="up to the last there is"),
        pytest.param(6, 10_000, None, [], id="behind the last"),
        pytest.param(4, 10_000, 3, [], id="nothing between"),
    ],
)
def test_a_read_takes_what_was_asked_and_fits(
    first: int, bytes_max: int, last: int | None, expected: list[int]
) -> None:
    log = open_log(memory_disk())
    log.append(frames(1, 5, size=100 - HEADER_BYTES))
    assert [each.index for each in log.read(first, bytes_max, last)] == expected


def test_an_index_below_the_first_cannot_be_read() -> None:
    log = open_log(memory_disk())
    log.append([frame(1)])
    with pytest.raises(IndexOutOfRange):
        log.read(0, 100)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param([frame(4)], id="a gap"),
        pytest.param([frame(0, offset=0)], id="index 0"),
        pytest.param([frame(3), frame(3)], id="twice the same index"),
        pytest.param([frame(3), frame(5)], id="a gap inside"),
        pytest.param([frame(3, 1)], id="an older epoch"),
        pytest.param([frame(3, 3), frame(4, 2)], id="an older epoch inside"),
        pytest.param([frame(3, 2, offset=7)], id="an offset that does not follow"),
        pytest.param([frame(2, 2, offset=7)], id="a replacement whose offset does not follow"),
        pytest.param([frame(2, 0)], id="a replacement older than what it follows"),
        pytest.param(
            [Frame.of(b"", index=3, epoch=2, base_offset=2, span=1, kind=FrameKind.CONTROL)],
            id="a control frame with offsets",
        ),
        pytest.param(
            [Frame.of(b"", index=3, epoch=2, base_offset=2, span=0, kind=FrameKind.STATE)], id="the log's own kind"
        ),
    ],
)
def test_frames_that_do_not_follow_are_refused_and_nothing_is_written(wrong: list[Frame]) -> None:
    log = open_log(memory_disk())
    log.append([frame(1), frame(2, 2)])
    end = log.end
    with pytest.raises(ValueError, match="does not follow"):
        log.append(wrong)
    assert log.end == end
    assert numbers(log) == [(1, 1), (2, 2)]
    log.append([frame(3, 2)])


def test_appending_nothing_writes_nothing() -> None:
    log = open_log(memory_disk())
    assert log.append([]) == 0


@pytest.mark.parametrize("at", [1, 2, 7, 60, 99, 100])
def test_a_frame_at_or_below_the_last_index_replaces_everything_from_there_on(at: int) -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append(frames(1, 50))
    log.append(frames(51, 100, 2))
    log.append(frames(at, at + 1, 3))
    expected = [(i, 1 if i <= 50 else 2) for i in range(1, at)] + [(at, 3), (at + 1, 3)]
    assert numbers(log) == expected
    assert log.epochs.at(at - 1) == (expected[at - 2][1] if at > 1 else 0)
    log.close()
    assert numbers(open_log(disk)) == expected


def test_reads_are_right_after_cuts_upon_cuts() -> None:
    log = open_log(memory_disk())
    log.append(frames(1, 90))
    for epoch, (first, last) in enumerate([(60, 95), (30, 80), (50, 70), (50, 71), (3, 40), (38, 60)], start=2):
        log.append(frames(first, last, epoch))
    expected = [(1, 1), (2, 1), *((i, 6) for i in range(3, 38)), *((i, 7) for i in range(38, 61))]
    assert numbers(log) == expected
    for index, epoch in expected:
        (read,) = log.read(index, 1)
        assert (read.index, read.epoch, log.epoch_at(index), log.find_offset(index - 1)) == (index, epoch, epoch, index)


@pytest.mark.parametrize("last", [0, 1, 39, 40, 41, 79])
def test_truncate_cuts_everything_above(last: int) -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append(frames(1, 40))
    log.append(frames(41, 80, 2))
    end = log.end
    assert log.truncate(last) == log.end == end + HEADER_BYTES
    expected = [(i, 1 if i <= 40 else 2) for i in range(1, last + 1)]
    assert numbers(log) == expected
    assert (log.last_index, log.end_offset, log.last_epoch) == (last, last, 0 if not last else expected[-1][1])
    log.append([frame(last + 1, 9)])
    log.close()
    assert numbers(open_log(disk)) == [*expected, (last + 1, 9)]


def test_truncating_to_the_last_index_writes_nothing() -> None:
    log = open_log(memory_disk())
    log.append(frames(1, 3))
    end = log.end
    assert log.truncate(3) == end


@pytest.mark.parametrize("last", [-1, 4])
def test_what_is_not_there_cannot_be_kept(last: int) -> None:
    log = open_log(memory_disk())
    log.append(frames(1, 3))
    with pytest.raises(IndexOutOfRange):
        log.truncate(last)


def test_the_newest_state_outlives_cuts_before_it_and_rolls_behind_it() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append(frames(1, 10))
    log.save_state(b"first")
    log.truncate(2)
    log.save_state(b"second")
    log.append(frames(2, 3, 5))
    for first in range(4, 400, 20):
        log.append(frames(first, first + 19, 5))
    assert len([path for path in disk.paths() if path.endswith(".log")]) > 2
    assert log.state == b"second"
    log.close()
    reopened = open_log(disk)
    assert reopened.state == b"second"
    assert reopened.recovery.segments_scanned == 1


def test_every_new_segment_begins_with_the_newest_state() -> None:
    disk = memory_disk()
    log = open_log(disk)
    for index in range(1, 1_000, 120):
        log.append(frames(index, index + 9))
        log.save_state(b"vote at %d" % (index + 9))
        log.append(frames(index + 10, index + 59))
        log.append(frames(index + 60, index + 119))
    _, *rolled = [disk.content(path) for path in disk.paths() if path.endswith(".log")]
    assert len(rolled) > 5
    for stored in rolled:
        header = decode_header(memoryview(stored), 0, log_id=7, address=int.from_bytes(stored[16:24], "little"))
        assert header.kind == FrameKind.STATE
        assert stored[HEADER_BYTES : header.frame_bytes] == b"vote at %d" % ((header.log_index - 10) // 120 * 120 + 10)


def test_an_old_frame_is_never_taken_for_the_new_one_of_the_same_index_and_epoch() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(index, payload=b"old") for index in range(1, 5)])
    log.truncate(2)
    log.append([frame(3, payload=b"cut and new"), frame(4, payload=b"old")])
    log.append([frame(4, payload=b"replaced")])
    expected = [b"old", b"old", b"cut and new", b"replaced"]
    assert [payload for *_, payload in content(log)] == expected
    log.close()
    assert [payload for *_, payload in content(open_log(disk))] == expected


def test_an_empty_state_is_a_state() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.save_state(b"")
    log.close()
    assert open_log(disk).state == b""


def test_offsets_are_found_whatever_frames_hold_them() -> None:
    log = open_log(memory_disk())
    written, offset = [], 10
    for index in range(1, 200):
        span = (index * 7) % 4
        written.append(frame(index, offset=offset, span=span))
        offset += span
    log.append(written)
    assert (log.start_offset, log.end_offset) == (10, offset)
    holders = {o: each.index for each in written for o in range(each.base_offset, each.end_offset)}
    assert {o: log.find_offset(o) for o in range(10, offset)} == holders
    for outside in (9, offset):
        with pytest.raises(OffsetOutOfRange):
            log.find_offset(outside)


def test_epochs_are_known_for_every_index() -> None:
    log = open_log(memory_disk())
    log.append([*frames(1, 3, 2), *frames(4, 5, 7)])
    assert [log.epoch_at(index) for index in range(6)] == [0, 2, 2, 2, 7, 7]
    assert [(start.epoch, start.first_index, start.base_offset) for start in log.epochs] == [(2, 1, 0), (7, 4, 3)]
    with pytest.raises(IndexOutOfRange):
        log.epoch_at(6)


def test_every_frame_records_the_durable_end_known_when_it_was_written() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1)])
    durable_end = log.flush()
    log.append([frame(2)])
    stored = disk.content(f"{DIRECTORY}/{0:020d}.log")
    assert int.from_bytes(stored[durable_end + 56 : durable_end + 64], "little") == durable_end > 0


def test_payloads_are_views_and_not_copies() -> None:
    log = open_log(memory_disk())
    log.append(frames(1, 3))
    payloads = [each.payload for each in log.read(1, 10_000)]
    assert {type(payload) for payload in payloads} == {memoryview}
    assert len({id(payload.obj) for payload in payloads if isinstance(payload, memoryview)}) == 1


def test_frames_larger_than_a_segment_and_any_buffer_are_kept() -> None:
    disk = memory_disk()
    log = open_log(disk)
    written = [
        frame(index, payload=bytes([index]) * size) for index, size in enumerate([9_000, 3, 1_000_000, 5_000], 1)
    ]
    for each in written:
        log.append([each])
    assert entries(log.read(1, 1)) == entries(written[:1])
    assert content(log) == entries(written)
    log.close()
    assert content(open_log(disk)) == entries(written)


def test_a_flush_covers_what_was_appended_before_it_began_and_no_more() -> None:
    disk = memory_disk()
    log = open_log(disk)
    first = log.append([frame(1)])
    flush = log.begin_flush()
    mark = disk.mark()
    for index in range(2, 301):
        log.append([frame(index)])
    with disk.issued_before(mark):
        flush.run()
    assert log.durable_end == 0
    assert log.end_flush(flush) == log.durable_end == first
    assert numbers(open_log(disk.durable_copy())) == [(1, 1)]
    assert log.flush() == log.end
    assert len(numbers(open_log(disk.durable_copy()))) == 300


def test_only_one_flush_is_under_way() -> None:
    log = open_log(memory_disk())
    log.append([frame(1)])
    flush = log.begin_flush()
    with pytest.raises(AssertionError, match="under way"):
        log.begin_flush()
    with pytest.raises(AssertionError, match="is not done"):
        log.end_flush(flush)


def test_a_log_is_open_once() -> None:
    disk = memory_disk()
    log = open_log(disk)
    with pytest.raises(DirectoryLocked, match="this process has"):
        open_log(disk)
    log.close()
    open_log(disk)


def test_a_closed_log_refuses_everything() -> None:
    log = open_log(memory_disk())
    log.close()
    log.close()
    for call in (lambda: log.append([frame(1)]), log.begin_flush, lambda: log.read(1, 1), lambda: log.reserve(1)):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_after_a_failed_write_every_call_fails_and_none_reaches_the_disk() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1)])
    disk.fail_call(1)
    with pytest.raises(StorageFailed):
        log.append([frame(2)])
    calls = disk.calls
    for call in (
        lambda: log.append([frame(2)]),
        lambda: log.save_state(b"x"),
        lambda: log.truncate(0),
        lambda: log.reserve(1),
        lambda: log.read(1, 1),
        lambda: log.find_offset(0),
        log.flush,
    ):
        with pytest.raises(StorageFailed):
            call()
    log.close()
    assert disk.calls == calls


def test_after_a_failed_sync_nothing_is_durable_that_was_not() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1)])
    durable_end = log.flush()
    log.append([frame(2)])
    flush = log.begin_flush()
    disk.fail_call(1)
    with pytest.raises(StorageFailed):
        flush.run()
    with pytest.raises(StorageFailed):
        log.end_flush(flush)
    assert log.durable_end == durable_end
    assert isinstance(log.failed, StorageFailed)


def test_reserve_refuses_before_anything_is_written_and_the_log_goes_on() -> None:
    disk = memory_disk(capacity_bytes=100_000)
    log = open_log(disk)
    log.append(frames(1, 10))
    log.reserve(1_000)
    stored = disk.content(f"{DIRECTORY}/{0:020d}.log")
    with pytest.raises(NoSpace):
        log.reserve(90_000)
    assert disk.content(f"{DIRECTORY}/{0:020d}.log") == stored
    log.append([frame(11, payload=bytes(900))])
    log.save_state(b"a vote fits into the slack")
    log.flush()
    assert log.last_index == 11


def test_what_was_reserved_can_be_written_on_a_full_disk() -> None:
    disk = memory_disk(capacity_bytes=200_000)
    log = open_log(disk)
    index = 0
    refused = 0
    for _ in range(300):
        written = frames(index + 1, index + 3, size=500)
        try:
            log.reserve(size_of(*written))
        except NoSpace:
            refused += 1
            log.save_state(b"vote")
        else:
            log.append(written)
            index += 3
        log.flush()
    assert refused > 100
    assert log.last_index == index > 100
    log.flush()
    log.close()
    assert open_log(disk).last_index == index


def test_a_full_disk_met_in_the_middle_of_a_write_leaves_the_log_as_it_was() -> None:
    disk = memory_disk(capacity_bytes=2_000)
    log = open_log(disk)
    log.append([frame(1)])
    with pytest.raises(NoSpace):
        log.append(frames(2, 20, size=100))
    assert numbers(log) == [(1, 1)]
    disk.capacity_bytes = None
    log.append([frame(2, 2)])
    log.flush()
    log.close()
    assert numbers(open_log(disk)) == [(1, 1), (2, 2)]


def test_what_was_reserved_before_a_refused_write_is_reserved_again() -> None:
    disk = memory_disk(capacity_bytes=200_000)
    log = open_log(disk)
    log.reserve(1_000)
    with pytest.raises(NoSpace):
        log.append([frame(1, payload=bytes(300_000))])
    log.reserve(1_000)
    disk.capacity_bytes = disk.used_bytes()
    log.append([frame(1, payload=bytes(900))])
    assert log.last_index == 1


def test_nothing_of_a_write_that_met_a_full_disk_turns_up_after_a_power_cut() -> None:
    """The refused frames have the right length and follow the one that was written in their place."""
    for seed in range(300):
        disk = memory_disk(seed, capacity_bytes=2_000)
        log = open_log(disk)
        log.append([frame(1)])
        log.flush()
        with pytest.raises(NoSpace):
            log.append([frame(index, payload=b"refused") for index in range(2, 30)])
        log.append([frame(2, payload=b"written")])
        survivors = content(open_log(disk.after_crash(random.Random(seed), loss=PowerLoss.KEEP_SUBSET)))
        assert survivors in (entries([frame(1)]), entries([frame(1), frame(2, payload=b"written")])), seed


def test_few_files_are_open_however_many_segments_there_are() -> None:
    disk = memory_disk()
    log = open_log(disk)
    for index in range(1, 400):
        log.append(frames(index, index, size=200))
        if index % 20 == 0:
            log.flush()
    log.flush()
    assert len(content(log)) == 399
    opened = [segment for segment in log._segments if segment.file is not None]
    assert len(log._segments) > 10
    assert len(opened) <= SMALL.open_files_max + 1


def test_the_index_in_memory_is_sparse() -> None:
    log = open_log(memory_disk(), LogConfig())
    for first in range(1, 10_000, 100):
        log.append(frames(first, first + 99))
    live = log._segments[-1].live
    assert live is not None
    assert log.end / len(live) >= 4096


def test_damage_met_by_a_reader_names_the_frame() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1), frame(2, 4, payload=b"precious")])
    disk.flip_bit(f"{DIRECTORY}/{0:020d}.log", (size_of(frame(1)) + HEADER_BYTES) * 8)
    with pytest.raises(CorruptLog, match="checksum of the payload") as caught:
        log.read(1, 1000)
    damage = caught.value
    assert (damage.position, damage.index, damage.epoch, damage.base_offset) == (size_of(frame(1)), 2, 4, 1)
    assert entries(log.read(1, 1000, last_index=1)) == entries([frame(1)])


@pytest.mark.parametrize(
    "setting", ["segment_bytes_max", "index_interval_bytes", "reserve_chunk_bytes", "open_files_max"]
)
def test_settings_that_make_no_sense_are_refused(setting: str) -> None:
    with pytest.raises(ValueError, match=setting):
        LogConfig(**{setting: 0})


LARGE = 64 * 1024


class CoolDisk(MemoryDisk):
    """Records which files were dropped from the page cache, and that they were durable then."""

    def __init__(self) -> None:
        super().__init__(random.Random(0))
        self.dropped: list[str] = []

    def drop_cache(self, path: str) -> None:
        assert self.durable_content(path) == self.content(path)
        self.dropped.append(path)


def test_the_page_cache_is_told_to_forget_all_but_the_newest_segments_once_they_are_durable() -> None:
    disk = CoolDisk()
    log = open_log(disk)
    for first in range(1, 400, 10):
        log.append(frames(first, first + 9, size=120))
        log.flush()
    log.flush()
    segments = [path for path in disk.paths() if path.endswith(".log")]
    assert disk.dropped == segments[: -1 - SMALL.cached_segments_max]
    assert len(content(log)) == 400


def test_a_flush_is_lone_if_it_syncs_one_file_and_nothing_else() -> None:
    disk = CoolDisk()
    log = open_log(disk, attrs.evolve(SMALL, segment_bytes_max=2 * LARGE))

    def is_lone() -> bool:
        flush = log.begin_flush()
        flush.run()
        log.end_flush(flush)
        return flush.lone is log._active

    def append(size: int) -> None:
        log.append(frames(log.last_index + 1, log.last_index + 1, size=size))

    append(10)
    assert not is_lone(), "the name of the first file was new"
    assert not is_lone(), "nothing to do"
    append(LARGE - HEADER_BYTES)
    assert is_lone()
    append(LARGE)
    assert is_lone()
    log.reserve(100)
    assert not is_lone(), "a filled segment, and a new name"
    append(10)
    assert is_lone()
    for _ in range(SMALL.cached_segments_max + 2):
        append(2 * LARGE)
        log.reserve(100)
        assert not is_lone()
    append(10)
    assert not is_lone(), "an old segment that the page cache may forget"
    assert disk.dropped
    append(10)
    assert is_lone()
    assert log.trim(log.last_index) > 1
    assert not is_lone(), "a segment to retire"
    append(10)
    assert is_lone()


@pytest.mark.parametrize("zero_ahead_bytes", [0, SMALL.zero_ahead_bytes])
def test_writes_that_meet_a_full_disk_again_and_again_leave_nothing(zero_ahead_bytes: int) -> None:
    config = attrs.evolve(SMALL, zero_ahead_bytes=zero_ahead_bytes)
    disk = memory_disk(capacity_bytes=2_000)
    log = open_log(disk, config)
    log.append([frame(1)])
    log.flush()
    for _ in range(3):
        with pytest.raises(NoSpace):
            log.append(frames(2, 40))
        assert numbers(open_log(disk.after_kill(random.Random(1)), config)) == [(1, 1)]
    disk.capacity_bytes = None
    log.append([frame(2, 2)])
    log.flush()
    log.close()
    assert numbers(open_log(disk, config)) == [(1, 1), (2, 2)]
