"""Recovery cuts torn tails, reports damage, rebuilds indexes and keeps everything durable."""

import random
from collections.abc import Callable

import attrs
import pytest

from log import mark
from log.config import LogConfig
from log.errors import CorruptLog, NoSpace, StorageFailed
from log.frame import HEADER_BYTES, FrameKind, encode_header
from log.memory_disk import MemoryDisk, PowerLoss
from log.segmented_log import SegmentedLog
from tests.crashes import kill
from tests.log.frames import (
    DIRECTORY,
    LOG_ID,
    SMALL,
    Entry,
    content,
    entries,
    frame,
    frames,
    memory_disk,
    numbers,
    open_log,
    size_of,
)

FIRST = f"{DIRECTORY}/{0:020d}.log"
MARK = f"{DIRECTORY}/{mark.NAME}"


def grow_log(disk: MemoryDisk, last: int = 200) -> SegmentedLog:
    """Returns a log of several segments with cuts, states and epochs, flushed often."""
    log = open_log(disk)
    log.save_state(b"vote 1")
    for first in range(1, last, 10):
        log.append(frames(first, first + 9, 1 + first // 50))
        log.flush()
        if first % 30 == 1:
            log.append(frames(first + 5, first + 9, 1 + first // 50))
    log.truncate(last - 8)
    log.save_state(b"vote 2")
    log.append(frames(last - 7, last, 1 + last // 50))
    log.flush()
    return log


def segments(disk: MemoryDisk) -> list[str]:
    return [path for path in disk.paths() if path.endswith(".log")]


def sidecars(disk: MemoryDisk) -> dict[str, bytes]:
    return {path: disk.content(path) for path in disk.paths() if path.endswith(".index")}


def tear(disk: MemoryDisk, path: str, size: int) -> None:
    """Cut a file behind the log's back."""
    file = disk.open(path, create=False)
    file.cut(size)
    file.sync()


def overwrite(disk: MemoryDisk, path: str, position: int, stored: bytes) -> None:
    file = disk.open(path, create=False)
    file.write_at(position, [stored])
    file.sync()


def test_a_new_directory_is_an_empty_log_and_nothing_to_report() -> None:
    report = open_log(memory_disk()).recovery
    assert (report.torn_at, report.torn_bytes_cut, report.segments_scanned, report.indexes_rebuilt) == (None, 0, 0, 0)


def test_after_a_clean_close_only_the_newest_segment_is_read() -> None:
    disk = memory_disk()
    log = grow_log(disk)
    before, state = content(log), log.state
    log.close()
    reopened = open_log(disk)
    report = reopened.recovery
    assert (content(reopened), reopened.state) == (before, state) == (content(reopened), b"vote 2")
    assert len(segments(disk)) > 3
    assert (report.segments_scanned, report.indexes_rebuilt, report.bytes_rewritten) == (1, 0, 0)


@pytest.mark.parametrize("kept", range(size_of(frame(2)) + 1))
def test_a_torn_tail_is_cut_and_reported(kept: int) -> None:
    disk = memory_disk()
    log = open_log(disk)
    durable_end = log.append([frame(1)])
    log.flush()
    end = log.append([frame(2)])
    tear(disk, FIRST, durable_end + kept)
    reopened = open_log(kill(disk))
    whole = durable_end + kept == end
    assert numbers(reopened) == ([(1, 1), (2, 1)] if whole else [(1, 1)])
    torn = disk.content(FIRST)[durable_end:].rstrip(b"\0")
    assert reopened.recovery.torn_bytes_cut == (0 if whole else len(torn))
    assert reopened.recovery.torn_at == (durable_end if kept and not whole else None)
    assert reopened.end == reopened.durable_end == (end if whole else durable_end)
    reopened.append([frame(reopened.last_index + 1, 9)])
    reopened.close()


def test_a_lost_write_takes_the_whole_ones_behind_it_along() -> None:
    disk = memory_disk()
    log = open_log(disk)
    durable_end = log.append([frame(1)])
    log.flush()
    second = log.append([frame(2)])
    log.append([frame(3)])
    overwrite(disk, FIRST, durable_end, bytes(second - durable_end))
    reopened = open_log(kill(disk))
    assert numbers(reopened) == [(1, 1)]
    assert reopened.recovery.torn_reason == "zeros where a frame should begin"
    assert reopened.recovery.torn_bytes_cut == log.end - durable_end


def test_a_torn_tail_takes_the_segments_behind_it_along() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append(frames(1, 10))
    durable_end = log.flush()
    for first in range(11, 200, 10):
        log.append(frames(first, first + 9))
    behind = len(segments(disk)) - 1
    assert behind > 2
    overwrite(disk, FIRST, durable_end + 5, b"torn")
    after = kill(disk)
    reopened = open_log(after)
    assert reopened.last_index == 10
    assert reopened.recovery.segments_removed == behind
    assert segments(after) == [FIRST]


def test_a_segment_whose_name_was_lost_takes_the_later_ones_along() -> None:
    disk = memory_disk()
    log = open_log(disk)
    for first in range(1, 200, 10):
        log.append(frames(first, first + 9))
    lost = segments(disk)[1]
    disk.remove(lost)
    after = kill(disk)
    reopened = open_log(after)
    assert reopened.end == int(lost[-24:-4])
    assert content(reopened) == content(log)[: reopened.last_index]
    assert segments(after) == [FIRST]


def test_a_sealed_segment_that_is_written_again_outgrows_its_index() -> None:
    """The name of the segment behind it was lost, so it is the newest again, and its sidecar contains an old size."""
    disk = memory_disk()
    log = open_log(disk)
    log.append(frames(1, 58))
    log.append(frames(59, 120))
    flush = log.begin_flush()
    log.append(frames(121, 130))
    flush.run()
    log.end_flush(flush)
    stale = sidecars(disk)
    disk.remove(segments(disk)[1])
    disk.remove(MARK)
    disk = kill(disk)
    log = open_log(disk, LogConfig(segment_bytes_max=10_000, index_interval_bytes=512))
    assert (log.last_index, log.recovery.segments_removed) == (58, 1)
    for index in range(59, 151):
        log.append(frames(index, index))
    before = content(log)
    after = kill(disk)
    assert sidecars(after) == stale
    reopened = open_log(after)
    assert (content(reopened), reopened.recovery.indexes_rebuilt) == (before, 1)
    log.flush()
    assert sidecars(after) == sidecars(disk) != stale


def test_an_index_that_grew_in_two_lives_equals_a_rebuilt_one() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append(frames(1, 30))
    log.close()
    log = open_log(disk)
    for index in range(31, 90):
        log.append(frames(index, index))
    log.close()
    written = sidecars(disk)
    for path in written:
        disk.remove(path)
    open_log(disk)
    assert sidecars(disk) == written != {}


def test_damage_below_the_recorded_durable_end_is_never_cut() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1), frame(2, 4), frame(3, 4)])
    log.flush()
    log.append([frame(4, 4)])
    disk.flip_bit(FIRST, (size_of(frame(1)) + HEADER_BYTES) * 8)
    after = kill(disk)
    before = {path: after.content(path) for path in after.paths()}
    with pytest.raises(CorruptLog, match=r"damaged at byte 83 \(index 2, epoch 4, offset 1\)") as caught:
        open_log(after)
    damage = caught.value
    assert (damage.file, damage.position, damage.index, damage.epoch, damage.base_offset) == (FIRST, 83, 2, 4, 1)
    assert {path: after.content(path) for path in before} == before


def test_a_damaged_header_hides_its_frame_but_not_the_damage() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1), frame(2)])
    log.flush()
    log.append([frame(3)])
    disk.flip_bit(FIRST, (size_of(frame(1)) + 40) * 8)
    with pytest.raises(CorruptLog, match="checksum of the frame header") as caught:
        open_log(kill(disk))
    assert (caught.value.position, caught.value.index) == (size_of(frame(1)), None)


def test_a_frame_copied_into_a_payload_is_no_proof_of_durability() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1)])
    durable_end = log.flush()
    log.append([frame(2)])
    stored = disk.content(FIRST)[durable_end:]
    log.append([frame(3, payload=b"garbage" + stored)])
    disk.flip_bit(FIRST, (log.end - 1) * 8)
    reopened = open_log(kill(disk))
    assert numbers(reopened) == [(1, 1), (2, 1)]


def test_only_the_durable_end_checkpoint_tells_damage_in_the_last_flush_from_a_torn_tail() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1), frame(2)])
    log.flush()
    disk.flip_bit(FIRST, (log.end - 1) * 8)
    with pytest.raises(CorruptLog):
        open_log(kill(disk))
    disk.remove(MARK)
    assert numbers(open_log(kill(disk))) == [(1, 1)]


def test_a_damaged_durable_end_checkpoint_is_reported_and_does_no_harm() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1)])
    log.close()
    disk.flip_bit(MARK, 77)
    reopened = open_log(disk)
    assert reopened.recovery.mark_damaged
    assert numbers(reopened) == [(1, 1)]


def _lose_first(disk: MemoryDisk) -> None:
    disk.remove(FIRST)


def _lose_middle(disk: MemoryDisk) -> None:
    disk.remove(segments(disk)[2])


def _lose_last(disk: MemoryDisk) -> None:
    disk.remove(segments(disk)[-1])


def _lose_all(disk: MemoryDisk) -> None:
    for path in segments(disk):
        disk.remove(path)


def _shorten_sealed(disk: MemoryDisk) -> None:
    tear(disk, segments(disk)[1], 100)


def _shorten_last(disk: MemoryDisk) -> None:
    tear(disk, segments(disk)[-1], 0)


def _swap(disk: MemoryDisk) -> None:
    first, second, *_ = segments(disk)
    overwrite(disk, second, 0, disk.content(first)[:500])


@pytest.mark.parametrize(
    "harm", [_lose_first, _lose_middle, _lose_last, _lose_all, _shorten_sealed, _shorten_last, _swap]
)
def test_durable_bytes_that_are_gone_are_missed(harm: Callable[[MemoryDisk], None]) -> None:
    disk = memory_disk()
    grow_log(disk).close()
    harm(disk)
    with pytest.raises(CorruptLog):
        content(open_log(kill(disk)))


def test_a_sidecar_vouches_for_its_segment_when_nothing_behind_it_is_left() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append(frames(1, 60))
    log.append(frames(61, 70))
    log.flush()
    sealed, newest = segments(disk)
    disk.remove(newest)
    disk.remove(MARK)
    assert open_log(kill(disk)).last_index == 60
    tear(disk, sealed, len(disk.content(sealed)) - 5)
    with pytest.raises(CorruptLog, match="the file ends inside the frame"):
        open_log(kill(disk))
    disk.remove(sealed)
    with pytest.raises(CorruptLog, match="the segment is missing"):
        open_log(kill(disk))


def test_a_sync_that_lied_is_found_out() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1)])
    log.flush()
    disk.lying_sync = True
    log.append([frame(2)])
    log.flush()
    disk.lying_sync = False
    log.append([frame(3)])
    position = size_of(frame(1))
    log.flush()
    overwrite(disk, FIRST, position, bytes(size_of(frame(2))))
    with pytest.raises(CorruptLog, match="zeros where a frame should begin"):
        open_log(kill(disk))


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize(
    ("kind", "index", "epoch", "offset"),
    [
        pytest.param(FrameKind.RECORDS, 63, 1, 61, id="a gap in the index"),
        pytest.param(FrameKind.RECORDS, 62, 1, 60, id="an offset again"),
        pytest.param(FrameKind.RECORDS, 62, 0, 61, id="an older epoch"),
        pytest.param(FrameKind.RECORDS, 0, 1, 0, id="index 0"),
        pytest.param(FrameKind.STATE, 60, 1, 60, id="a state of another time"),
        pytest.param(FrameKind.TRUNCATE, 62, 1, 62, id="a cut behind the end"),
    ],
)
@pytest.mark.parametrize("rolled", [True, False])
def test_a_whole_frame_that_does_not_follow_is_as_bad_as_a_torn_one(
    rolled: bool, kind: FrameKind, index: int, epoch: int, offset: int, durable: bool
) -> None:
    disk = memory_disk()
    log = open_log(disk)
    end = log.append(frames(1, 61))
    address = end + HEADER_BYTES
    header = encode_header(kind, 0, LOG_ID, end, epoch, index, offset, 0, 0, 0, 0, 0)
    witness = encode_header(kind, 0, LOG_ID, address, 0, 0, 0, 0, address if durable else 0, 0, 0, 0)
    path = f"{DIRECTORY}/{end:020d}.log" if rolled else FIRST
    disk.open(path, create=True).write_at(0 if rolled else end, [header, witness])
    if durable:
        with pytest.raises(CorruptLog, match="does not follow index 61"):
            open_log(kill(disk))
    else:
        reopened = open_log(kill(disk))
        assert (reopened.last_index, reopened.recovery.torn_bytes_cut) == (61, len(header + witness))


def test_another_logs_directory_is_refused_and_not_cut() -> None:
    disk = memory_disk()
    open_log(disk).append([frame(1)])
    after = kill(disk)
    stored = after.content(FIRST)
    with pytest.raises(CorruptLog, match="belongs to log 7, not to log 8"):
        open_log(after, log_id=8)
    assert after.content(FIRST) == stored
    assert numbers(open_log(after)) == [(1, 1)]


def test_what_the_cache_shows_after_a_failed_sync_is_written_again_before_it_is_trusted() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append(frames(1, 20))
    log.flush()
    log.append(frames(21, 40))
    flush = log.begin_flush()
    disk.fail_call(1)
    with pytest.raises(StorageFailed):
        flush.run()
    reopened = open_log(kill(disk))
    assert reopened.recovery.bytes_rewritten > 0
    promised, end = content(reopened), reopened.durable_end
    cut_off = reopened._disk
    assert isinstance(cut_off, MemoryDisk)
    survivor = open_log(cut_off.after_crash(random.Random(3), loss=PowerLoss.LOSE_ALL))
    assert (content(survivor), survivor.end) == (promised, end)


def _remove(disk: MemoryDisk, path: str) -> None:
    disk.remove(path)


def _flip(disk: MemoryDisk, path: str) -> None:
    disk.flip_bit(path, 301)


def _empty(disk: MemoryDisk, path: str) -> None:
    tear(disk, path, 0)


@pytest.mark.parametrize("harm", [_remove, _flip, _empty])
def test_a_lost_or_damaged_index_is_rebuilt_byte_for_byte(harm: Callable[[MemoryDisk, str], None]) -> None:
    disk = memory_disk()
    log = grow_log(disk, 400)
    before = content(log)
    log.close()
    written = sidecars(disk)
    assert len(written) > 5
    for path in written:
        harm(disk, path)
    reopened = open_log(disk)
    assert reopened.recovery.indexes_rebuilt == len(written)
    assert sidecars(disk) == written
    assert content(reopened) == before


def test_a_full_disk_does_not_keep_an_index_from_being_missed() -> None:
    disk = memory_disk()
    log = open_log(disk)
    for first in range(1, 200, 10):
        log.append(frames(first, first + 9))
    disk.capacity_bytes = disk.used_bytes()
    log.flush()
    assert log.durable_end == log.end
    assert sidecars(disk) == {}
    disk.capacity_bytes = None
    before = content(log)
    log.close()
    reopened = open_log(disk)
    assert reopened.recovery.indexes_rebuilt == len(sidecars(disk)) > 2
    assert content(reopened) == before


def test_what_an_interrupted_replacement_left_is_cleared_away() -> None:
    disk = memory_disk()
    grow_log(disk).close()
    for name in ("identity.tmp", f"{0:020d}.index.tmp", f"{77:020d}.index"):
        disk.open(f"{DIRECTORY}/{name}", create=True).write_at(0, [b"half"])
    open_log(disk)
    assert not [path for path in disk.paths() if path.endswith("tmp") or "077" in path]


def test_a_segment_that_a_full_disk_took_back_may_reappear_after_a_power_cut() -> None:
    reappeared = 0
    for seed in range(60):
        disk = memory_disk(seed)
        log = open_log(disk)
        log.reserve(2_000)
        log.append(frames(1, 40, size=100))
        log.flush()
        disk.capacity_bytes = disk.used_bytes() + 100
        with pytest.raises(NoSpace):
            log.reserve(3_000)
        log.save_state(b"vote")
        after = disk.after_crash(random.Random(seed))
        after.capacity_bytes = None
        names = segments(after)
        again = open_log(after)
        assert content(again) == entries(frames(1, 40, size=100))
        if len(names) > 1 and again.state == b"vote":
            reappeared += 1
            assert segments(after) == [FIRST]
            again.append([frame(41)])
            again.flush()
            assert numbers(open_log(after.durable_copy()))[-1] == (41, 1)
    assert reappeared


def outcome(disk: MemoryDisk) -> list[Entry] | None:
    """Returns the visible state of the log; None if opening it raises `CorruptLog`."""
    try:
        log = open_log(disk)
        read = content(log)
        for index, epoch, base_offset, span, _ in read:
            assert log.epoch_at(index) == epoch
            assert span == 0 or log.find_offset(base_offset) == index
        return [*read, (0, log.last_epoch, log.end_offset, 0, log.state or b"")]
    except CorruptLog:
        return None


def test_no_flipped_bit_below_the_durable_end_is_silently_lost() -> None:
    """After a clean close everything is below it: every answer is the right one, or reports damage."""
    disk = memory_disk()
    grow_log(disk).close()
    right = outcome(kill(disk))
    assert right is not None
    places = [(path, bit) for path in disk.paths() for bit in range(len(disk.content(path)) * 8)]
    rng = random.Random(11)
    found = 0
    for path, bit in rng.sample(places, 600):
        after = kill(disk)
        after.flip_bit(path, bit)
        seen = outcome(after)
        assert seen in (None, right), f"bit {bit} of {path}"
        found += seen is None
    assert found > 350


def test_every_flipped_bit_of_a_durable_frame_is_found_without_a_clean_close() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1), frame(2)])
    start, end = size_of(frame(1)), log.flush()
    log.append([frame(3)])
    for bit in range(start * 8, end * 8):
        after = kill(disk)
        after.flip_bit(FIRST, bit)
        assert outcome(after) is None, f"bit {bit}"


def test_frames_that_were_read_equal_those_that_were_written_after_any_power_cut() -> None:
    written = frames(1, 30, size=300)
    for seed in range(200):
        disk = memory_disk(seed)
        log = open_log(disk)
        log.append(written[:10])
        log.flush()
        for each in written[10:]:
            log.append([each])
        survivors = content(open_log(disk.after_crash(random.Random(seed))))
        assert len(survivors) >= 10
        assert survivors == entries(written[: len(survivors)])


def test_zeros_written_ahead_are_no_torn_tail() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1)])
    log.flush()
    end = log.append([frame(2)])
    assert len(disk.content(FIRST)) > end
    after = kill(disk)
    reopened = open_log(after)
    assert (numbers(reopened), reopened.recovery.torn_at) == ([(1, 1), (2, 1)], None)
    assert len(after.content(FIRST)) == end


def test_zeros_in_the_place_of_durable_frames_are_damage() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1), frame(2)])
    log.close()
    overwrite(disk, FIRST, size_of(frame(1)), bytes(5_000))
    with pytest.raises(CorruptLog, match="zeros where a frame should begin"):
        open_log(kill(disk))


def test_zeros_behind_a_segment_that_was_left_but_not_sealed_are_no_hole() -> None:
    disk = memory_disk()
    log = open_log(disk, LogConfig(segment_bytes_max=6_000, index_interval_bytes=512, zero_ahead_bytes=8_192))
    for first in range(1, 200, 5):
        log.append(frames(first, first + 4))
        if first in (1, 91, 96):
            log.flush()
    left = [path for path in segments(disk)[:-1] if not any(disk.content(path)[-HEADER_BYTES:])]
    assert left
    reopened = open_log(kill(disk))
    assert (content(reopened), reopened.recovery.torn_at) == (content(log), None)


def test_a_frame_of_another_place_and_another_log_is_only_torn() -> None:
    """A payload may carry anything, and a recycled file may show any part of a payload where the log ends."""
    disk = memory_disk()
    log = open_log(disk)
    end = log.append([frame(1)])
    log.close()
    stored = encode_header(FrameKind.RECORDS, 0, LOG_ID + 1, end + 1, 1, 2, 1, 0, 0, 1, 0, 0)
    overwrite(disk, FIRST, end, stored)
    reopened = open_log(kill(disk))
    assert (numbers(reopened), reopened.recovery.torn_at) == ([(1, 1)], end)


@pytest.mark.parametrize("seed", range(6))
def test_a_cut_whose_sync_failed_is_made_again(seed: int) -> None:
    """A torn frame and a whole one behind it; what is written in their place has the length of the torn one."""
    config = attrs.evolve(SMALL, zero_ahead_bytes=0)
    disk = memory_disk()
    log = open_log(disk, config)
    log.append([frame(1)])
    log.flush()
    log.append([frame(2, payload=b"torn"), frame(3)])
    torn = disk.after_crash(random.Random(seed), loss=PowerLoss.KEEP_ALL)
    torn.flip_bit(FIRST, (size_of(frame(1)) + HEADER_BYTES) * 8)

    def fail(operation: str, path: str) -> None:
        if operation == "sync" and path == FIRST:
            torn.fail_call(0)

    torn.before_call = fail
    with pytest.raises(StorageFailed):
        open_log(torn, config)
    again = torn.after_kill(random.Random(seed))
    log = open_log(again, config)
    log.append([frame(2, payload=b"next")])
    log.flush()
    found = open_log(again.after_crash(random.Random(seed), loss=PowerLoss.LOSE_ALL), config)
    assert content(found) == entries([frame(1), frame(2, payload=b"next")])
