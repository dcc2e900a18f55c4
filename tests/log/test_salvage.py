"""A damaged log is cut, and remembers how far it had reached; or it is refused. Whatever happens meanwhile."""

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log import mark as marks
from log import start as start_file
from log.errors import CorruptLog, StorageFailed
from log.frame import HEADER_BYTES, encode_header
from log.mark import Mark, MarkFile
from log.memory_disk import MemoryDisk
from log.salvage import Floor
from log.segmented_log import RESERVE_SLACK_BYTES, SegmentedLog
from tests.crashes import FATES, TURNS, Fate, calls_before, kill, lose_unsynced
from tests.examples import examples
from tests.log.frames import (
    DIRECTORY,
    LOG_ID,
    SMALL,
    Entry,
    content,
    frame,
    frames,
    memory_disk,
    numbers,
    open_log,
    size_of,
)
from tests.log.model import moment_of

FIRST = f"{DIRECTORY}/{0:020d}.log"
START = f"{DIRECTORY}/{start_file.NAME}"
MARK = f"{DIRECTORY}/{marks.NAME}"


def amend_state(state: bytes | None, floor: Floor) -> bytes:
    """Returns a state that contains the one before, and the floor."""
    told = b"none" if state is None else state.split(b" floor")[0]
    return told + b" floor %d@%d" % (floor.index, floor.epoch)


def repair(disk: MemoryDisk) -> SegmentedLog:
    return SegmentedLog.open(disk, DIRECTORY, SMALL, log_id=LOG_ID, amend=amend_state)


def evidence(disk: MemoryDisk) -> list[str]:
    return [path.rpartition("/")[2] for path in disk.paths() if path.endswith(".damaged")]


def segments(disk: MemoryDisk) -> list[str]:
    return [path for path in disk.paths() if path.endswith(".log")]


def base(path: str) -> int:
    return int(path.removesuffix(".log").rpartition("/")[2])


def without_sidecars(disk: MemoryDisk) -> None:
    """Damage in a closed segment is then met at the next start, not when it is read."""
    for path in [path for path in disk.paths() if path.endswith(".index")]:
        disk.remove(path)
    disk.sync_directory(DIRECTORY)


def grow_log(disk: MemoryDisk, last: int = 130) -> SegmentedLog:
    """Returns a log of several segments, flushed often, with states and a cut."""
    log = open_log(disk)
    log.save_state(b"vote 1")
    for first in range(1, last, 10):
        log.append(frames(first, first + 9, 1 + first // 50))
        log.flush()
        if first % 30 == 1:
            log.append(frames(first + 5, first + 9, 1 + first // 50))
            log.save_state(b"vote %d" % first)
    log.flush()
    return log


def test_damage_in_the_middle_is_cut_and_the_state_remembers_how_far_the_log_had_reached() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.save_state(b"vote")
    log.append([frame(1), frame(2, 4), frame(3, 4)])
    end = log.flush()
    start = HEADER_BYTES + len(b"vote") + size_of(frame(1))
    disk.flip_bit(FIRST, (start + HEADER_BYTES) * 8)
    repaired = repair(kill(disk))
    assert numbers(repaired) == [(1, 1)]
    assert repaired.state == b"vote floor 3@4"
    outcome = repaired.recovery.repaired
    assert outcome is not None
    assert (outcome.cut_from, outcome.cut_to, outcome.floor) == (start, end, Floor(4, 3))
    repaired.append([frame(2, 5)])
    repaired.flush()


@pytest.mark.parametrize("byte", [0, 30, HEADER_BYTES, HEADER_BYTES + 2])
def test_damage_in_the_last_frame_is_told_from_a_torn_tail(byte: int) -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1), frame(2)])
    log.flush()
    disk.flip_bit(FIRST, (size_of(frame(1)) + byte) * 8)
    repaired = repair(kill(disk))
    assert (numbers(repaired), repaired.state) == ([(1, 1)], b"none floor 2@1")


@pytest.mark.parametrize("byte", [0, 30, HEADER_BYTES, HEADER_BYTES + 2])
def test_the_newest_state_outlives_its_own_frame(byte: int) -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1)])
    log.save_state(b"old vote")
    start = log.flush()
    log.save_state(b"new vote")
    log.flush()
    disk.flip_bit(FIRST, (start + byte) * 8)
    repaired = repair(kill(disk))
    assert (numbers(repaired), repaired.state) == ([(1, 1)], b"new vote floor 1@1")


def trimmed_to_what_replaced(disk: MemoryDisk, *, before: int) -> tuple[SegmentedLog, int]:
    """A log whose first segment begins with frames that a cut in it replaced; what those had followed has left.

    They are the state, and `before` entries in front of the cut. Returns the address of the cut, too.
    """
    log = open_log(disk)
    log.save_state(b"vote")
    log.append(frames(1, 50))
    log.flush()
    assert (len(segments(disk)), log.segment_facts()[-1].first_index) == (1, 1)
    log.append(frames(51, 50 + before, size=10))
    cut = log.truncate(20) - HEADER_BYTES
    log.append(frames(21, 60, 2))
    log.flush()
    log.trim(21, b"what left")
    log.flush()
    assert (log.first_index, log.start.before.last_index) == (21, 20)
    return log, cut


@pytest.mark.parametrize("before", [0, 1, 9])
@pytest.mark.parametrize("byte", [0, 30])
def test_what_the_first_segment_of_a_trimmed_log_replaced_does_not_come_back(before: int, byte: int) -> None:
    """Without the cut they would follow what has left: they go, too, and the log holds nothing behind where it begins."""
    disk = memory_disk()
    log, cut = trimmed_to_what_replaced(disk, before=before)
    start, (path,) = log.start, [each for each in segments(disk) if base(each) == log.start.base]
    disk.flip_bit(path, (cut - base(path) + byte) * 8)
    without_sidecars(disk)
    disk = kill(disk)
    repair(disk)
    for after in (kill(disk), disk.durable_copy()):
        repaired = open_log(after)
        assert (repaired.first_index, repaired.last_index, repaired.last_epoch) == (0, 20, 1)
        assert (repaired.start, repaired.start_payload()) == (start, b"what left")
        assert (content(repaired), list(repaired.epochs)) == ([], [])
        assert repaired.state == b"vote floor 60@2"
        repaired.append(frames(21, 22, 3))
        repaired.flush()
        assert numbers(open_log(kill(after))) == [(21, 3), (22, 3)]


def test_a_trimmed_log_keeps_what_stands_in_front_of_the_damage_once_it_goes_on_where_it_begins() -> None:
    disk = memory_disk()
    log, cut = trimmed_to_what_replaced(disk, before=3)
    path = next(each for each in segments(disk) if base(each) == log.start.base)
    disk.flip_bit(path, (cut + HEADER_BYTES + size_of(*frames(21, 30, 2)) - base(path)) * 8)
    without_sidecars(disk)
    repaired = repair(kill(disk))
    assert numbers(repaired) == [(index, 2) for index in range(21, 31)]
    assert repaired.state == b"vote floor 60@2"


def test_a_cut_to_where_a_trimmed_log_begins_does_not_hold_what_another_one_replaced() -> None:
    """Of two cuts the first kept the entry that the second replaced: with the second gone, that entry is not there."""
    disk = memory_disk()
    log = open_log(disk)
    log.append(frames(1, 50))
    log.flush()
    log.append(frames(51, 52, size=10))
    cut = log.truncate(21)
    log.append(frames(22, 25, 2))
    log.truncate(20)
    log.append(frames(21, 60, 3))
    log.flush()
    log.trim(21, b"what left")
    log.flush()
    path = next(each for each in segments(disk) if base(each) == log.start.base)
    assert log.start.before.last_index == 20
    disk.flip_bit(path, (cut - base(path)) * 8)
    without_sidecars(disk)
    repaired = repair(kill(disk))
    assert (repaired.first_index, repaired.last_index, content(repaired)) == (0, 20, [])
    assert (repaired.start, repaired.state) == (log.start, b"none floor 60@3")


def test_a_trimmed_log_that_lost_where_it_begins_is_refused_though_nothing_vouches_for_more() -> None:
    """The beginning of a log is noted once its first entry is durable: that entry was no torn tail."""
    disk = memory_disk()
    log, cut = trimmed_to_what_replaced(disk, before=2)
    path = next(each for each in segments(disk) if base(each) == log.start.base)
    for each in segments(disk):
        if base(each) > base(path):
            disk.remove(each)
    with contextlib.closing(disk.open(path, create=False)) as file:
        file.cut(cut - base(path))
    disk.remove(MARK)
    without_sidecars(disk)
    for find in (open_log, repair):
        with pytest.raises(CorruptLog, match="index 21"):
            find(kill(disk))


def test_a_log_of_which_nothing_is_left_but_the_durable_end_checkpoint_still_has_its_floor() -> None:
    disk = memory_disk()
    grow_log(disk)
    for path in segments(disk):
        disk.remove(path)
    repaired = repair(kill(disk))
    assert (repaired.last_index, repaired.state) == (0, b"vote 121 floor 130@3")
    repaired.append([frame(1)])
    repaired.flush()
    assert numbers(repaired) == [(1, 1)]


def test_without_a_checkpoint_that_is_new_enough_a_state_that_may_be_hidden_is_refused() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.save_state(b"old vote")
    log.append([frame(1)])
    start = log.flush()
    log.save_state(b"new vote")
    end = log.flush()
    log.append([frame(2)])
    log.append([frame(3)])
    log.flush()
    log.append([frame(4)])
    disk.remove(MARK)
    disk.flip_bit(FIRST, (start + 30) * 8)
    assert end > start
    before = {path: disk.content(path) for path in segments(disk)}
    after = kill(disk)
    with pytest.raises(CorruptLog, match="a newer state of this node may be among what is lost"):
        repair(after)
    assert {path: after.content(path) for path in before} == before
    assert not evidence(after)


def test_a_state_whose_only_copy_is_damaged_is_refused() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.save_state(b"vote")
    log.append([frame(1)])
    log.flush()
    log.append([frame(2)])
    log.flush()
    disk.remove(MARK)
    disk.flip_bit(FIRST, (HEADER_BYTES + 1) * 8)
    with pytest.raises(CorruptLog, match="the newest state of this node is lost"):
        repair(kill(disk))


def test_where_the_durable_log_ended_must_be_known() -> None:
    """The sidecar vouches for a segment of which the last header is gone; no other file records which entry that was."""
    disk = memory_disk()
    log = open_log(disk)
    log.append(frames(1, 60))
    log.append(frames(61, 70))
    log.flush()
    sealed, newest = segments(disk)
    disk.remove(newest)
    disk.remove(MARK)
    disk.flip_bit(sealed, (len(disk.content(sealed)) - size_of(frames(60, 60)[0]) + 30) * 8)
    disk.flip_bit(sealed.replace(".log", ".index"), 30 * 8)
    copy = kill(disk)
    assert open_log(copy).last_index == 59  # nothing vouches for more
    disk.flip_bit(sealed.replace(".log", ".index"), 30 * 8)
    tail = disk.open(sealed, create=False)
    tail.cut(tail.size() - 1)
    with pytest.raises(CorruptLog, match="where the durable log ended is not known either"):
        repair(kill(disk))


def test_a_stretch_that_cannot_be_read_hides_nothing_that_the_checkpoint_holds() -> None:
    """It begins in the last durable frame and ends in one that was never acknowledged."""
    disk = memory_disk()
    log = open_log(disk)
    log.save_state(b"vote")
    log.append(frames(1, 5))
    end = log.flush()
    log.append([frame(6)])
    log.append([frame(7)])
    for position in range(end - size_of(*frames(5, 5)), end + 10):
        disk.flip_bit(FIRST, position * 8)
    repaired = repair(kill(disk))
    assert (numbers(repaired)[-1], repaired.state) == ((4, 1), b"vote floor 7@1")


def test_a_closed_segment_that_becomes_the_newest_is_read_before_it_is_believed() -> None:
    """Those behind it, of which nothing was promised, are missing: what its sidecar vouches for is damaged, not torn."""
    disk = memory_disk()
    log = open_log(disk)
    log.save_state(b"vote")
    log.append(frames(1, 60))
    log.reserve(100)  # the next segment begins
    log.flush()
    log.append(frames(61, 61, size=2 * RESERVE_SLACK_BYTES))
    log.append(frames(62, 62))
    first, second, _ = segments(disk)
    disk.flip_bit(first, 2000 * 8)
    disk.remove(second)
    before = kill(disk)
    paths = before.paths()
    with pytest.raises(CorruptLog):
        open_log(before)
    assert before.paths() == paths
    repaired = repair(before)
    assert repaired.recovery.repaired is not None
    assert repaired.state == b"vote floor 62@1"
    assert 0 < repaired.last_index < 60


def test_another_logs_directory_is_not_repaired() -> None:
    disk = memory_disk()
    open_log(disk).append([frame(1)])
    after = kill(disk)
    with pytest.raises(CorruptLog, match="belongs to log 7, not to log 8"):
        SegmentedLog.open(after, DIRECTORY, SMALL, log_id=8, amend=amend_state)


def test_whole_frames_that_contradict_each_other_are_not_repaired() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append(frames(1, 10))
    log.flush()
    position = size_of(*frames(1, 10))
    file = disk.open(FIRST, create=False)
    file.write_at(position, [encode_header(1, 0, LOG_ID, position, 1, 13, 12, 0, position, 0, 0, 0)])
    file.write_at(position + 80, [encode_header(1, 0, LOG_ID, position + 80, 1, 14, 12, 0, position + 80, 0, 0, 0)])
    with pytest.raises(CorruptLog, match="does not follow"):
        repair(kill(disk))


def test_what_was_cut_is_kept_until_the_next_repair() -> None:
    disk = memory_disk()
    grow_log(disk).close()
    first, second, *rest = segments(disk)
    stored = disk.content(second)
    disk.flip_bit(second, 300 * 8)
    without_sidecars(disk)
    disk = kill(disk)
    repaired = repair(disk).recovery.repaired
    assert repaired is not None
    position = repaired.cut_from - base(second)
    kept = evidence(disk)
    assert kept == [f"{repaired.cut_from:020d}.damaged", *(f"{base(path):020d}.damaged" for path in rest)]
    assert len(disk.content(f"{DIRECTORY}/{kept[0]}")) == len(stored) - position
    disk.flip_bit(first, 300 * 8)
    without_sidecars(disk)
    disk = kill(disk)
    assert repair(disk).recovery.repaired is not None
    assert [name for name in evidence(disk) if name in kept] == []


def test_damage_that_a_reader_meets_is_found_by_the_next_start() -> None:
    disk = memory_disk()
    grow_log(disk)
    sealed = segments(disk)[1]
    disk.flip_bit(sealed, 300 * 8)
    disk = kill(disk)
    log = repair(disk)
    assert log.recovery.repaired is None
    with pytest.raises(CorruptLog):
        content(log)
    log = repair(kill(disk))
    assert log.recovery.repaired is not None
    assert log.state == b"vote 121 floor 130@3"


def test_a_repair_without_room_for_the_evidence_goes_on_without() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append(frames(1, 30))
    log.flush()
    log.close()
    disk.flip_bit(FIRST, 300 * 8)
    disk = kill(disk)
    disk.capacity_bytes = disk.used_bytes() + 300
    repaired = repair(disk)
    assert repaired.state == b"none floor 30@1"
    assert not evidence(disk)


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("place", ["first", "middle", "last", "missing", "beginning"])
def test_whichever_call_of_a_repair_fails_the_next_start_ends_with_the_same_log(place: str, fate: Fate) -> None:
    """A crash at every call to the disk, as a kill and as a power cut: nothing is lost that one repair would have kept."""
    disk = memory_disk()
    log, cut = trimmed_to_what_replaced(disk, before=3) if place == "beginning" else (grow_log(disk), 0)
    log.close()
    paths = segments(disk)
    match place:
        case "beginning":
            disk.flip_bit(paths[0], (cut - base(paths[0])) * 8)
        case "first":
            disk.flip_bit(paths[0], 1000 * 8)
        case "middle":
            disk.flip_bit(paths[1], 30 * 8)
        case "last":
            disk.flip_bit(paths[-1], (len(disk.content(paths[-1])) - 1) * 8)
        case _:
            disk.remove(paths[1])
            disk.sync_directory(DIRECTORY)
    without_sidecars(disk)
    expected = repair(kill(disk))
    assert expected.recovery.repaired is not None
    failures = 0
    for n in calls_before(fate):
        trial = kill(disk, n)
        trial.fail_call(n)
        try:
            log = repair(trial)
        except StorageFailed:
            failures += 1
            after = fate(trial, n)
            log = repair(after)
            assert (content(log), log.state) == (content(expected), expected.state), n
            assert log.end == log.durable_end == expected.end
            survivor = open_log(lose_unsynced(after, n))
            assert (content(survivor), survivor.state) == (content(expected), expected.state), n
        else:
            trial.fail_call(1_000_000)
            assert (content(log), log.state) == (content(expected), expected.state)
            break
    assert failures > 25 // TURNS


@settings(max_examples=examples(90), deadline=None)
@given(seed=st.integers(0, 2**32), data=st.data())
def test_no_flipped_bit_of_a_killed_log_makes_it_forget(seed: int, data: st.DataObject) -> None:
    """After a kill the durable-end checkpoint is exact: any one bit is repaired, the state is the newest, the floor the log's end."""
    disk = memory_disk(seed)
    log = grow_log(disk, data.draw(st.sampled_from([5, 40, 130])))
    for epoch in range(10, 10 + data.draw(st.integers(0, 3))):
        replace_and_trim(log, epoch, data)
    before, end, state = content(log), (log.last_epoch, log.last_index), log.state
    # Where the log begins is refused if it is damaged, and not repaired.
    path = data.draw(st.sampled_from([path for path in disk.paths() if START not in path]))
    if not (size := len(disk.content(path))):
        return
    disk.flip_bit(path, data.draw(st.integers(0, size * 8 - 1)))
    disk = kill(disk)
    for _ in range(2):
        log = repair(disk)
        try:
            held = content(log)
        except CorruptLog:
            disk = kill(disk)
            continue
        break
    else:
        raise AssertionError("damage that was met is found by the next start")
    if log.recovery.repaired is None:
        assert (held, log.state) == (before, state)
    else:
        floor = log.recovery.repaired.floor
        assert (floor.epoch, floor.index) == end
        assert log.state == amend_state(state, floor)
        assert all(_was_written(each) for each in held)
        assert moment_of(log).last_index == log.last_index


def replace_and_trim(log: SegmentedLog, epoch: int, data: st.DataObject) -> None:
    """The end of the log is replaced, how far back and with how much is drawn, and its beginning leaves."""
    if not log.first_index:
        return
    first = data.draw(st.integers(log.first_index, log.last_index + 1))
    if data.draw(st.booleans()):
        log.truncate(first - 1)
    log.append(frames(first, first + data.draw(st.integers(0, 60)), epoch))
    log.flush()
    log.trim(data.draw(st.integers(log.first_index, log.last_index)), b"what left")
    log.flush()


def _was_written(entry: Entry) -> bool:
    index, epoch, *_, payload = entry
    return payload.startswith(f"{index}@{epoch}".encode())


# -------------------------------------------------------------------- the durable-end checkpoint


def read_mark(disk: MemoryDisk) -> tuple[Mark | None, bool]:
    file = MarkFile.open(disk, DIRECTORY, log_id=LOG_ID)
    return file.newest, file.damaged


def test_the_checkpoint_is_exact_after_a_kill_and_never_ahead_after_a_power_cut() -> None:
    for seed in range(100):
        disk = memory_disk(seed)
        log = open_log(disk)
        log.save_state(b"vote")
        durable = [0]
        for first in range(1, 60, 5):
            log.append(frames(first, first + 4))
            durable.append(log.flush())
        log.append(frames(61, 61))
        assert read_mark(kill(disk))[0] == Mark.of(log.durable_end, 60, 1, b"vote")
        found, _ = read_mark(disk.after_crash(random.Random(seed)))
        assert found is None or found.durable_end in durable


def test_a_torn_checkpoint_leaves_the_one_before_it() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1)])
    first = log.flush()
    log.append([frame(2)])
    log.flush()
    newest = max((0, 1), key=lambda slot: disk.content(MARK)[slot * marks.SLOT_BYTES + 16])
    disk.flip_bit(MARK, (newest * marks.SLOT_BYTES + 20) * 8)
    found, damaged = read_mark(disk)
    assert damaged
    assert found is not None
    assert found.durable_end == first


def test_a_state_that_is_too_long_for_the_checkpoint_is_in_its_frame_alone() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.save_state(bytes(marks.STATE_BYTES_MAX + 1))
    log.append([frame(1), frame(2)])
    log.flush()
    found, _ = read_mark(kill(disk))
    assert found is not None
    assert (found.state, found.state_kept) == (None, False)
    disk.flip_bit(FIRST, (log.end - 1) * 8)
    state = repair(kill(disk)).state
    assert state == bytes(marks.STATE_BYTES_MAX + 1) + b" floor 2@1"


def test_a_checkpoint_takes_no_room_on_a_full_disk() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1)])
    disk.capacity_bytes = disk.used_bytes()
    log.flush()
    found, _ = read_mark(disk)
    assert found is not None
    assert found.durable_end == log.durable_end


def test_another_logs_checkpoint_is_ignored() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.append([frame(1)])
    log.flush()
    assert MarkFile.open(disk, DIRECTORY, log_id=8).newest is None


class Killed(BaseException):
    """The process ends here."""


def test_the_floor_of_a_repair_is_in_the_checkpoint_whatever_a_power_cut_takes() -> None:
    disk = memory_disk()
    log = grow_log(disk)
    log.close()
    disk.flip_bit(segments(disk)[1], 300 * 8)
    without_sidecars(disk)
    disk = kill(disk)
    repaired = repair(disk)
    assert repaired.state == b"vote 121 floor 130@3"
    path = segments(disk)[-1]
    disk = lose_unsynced(disk, 1)
    disk.flip_bit(path, (repaired.end - 10 - base(path)) * 8)
    again = repair(disk)
    assert again.recovery.repaired is not None
    assert again.state is not None
    assert again.state.startswith(b"vote 121 floor ")
    assert again.recovery.repaired.floor >= Floor(1, repaired.last_index)


def test_a_plan_that_a_kill_left_without_a_sync_does_not_outlive_its_work() -> None:
    """Killed before the plan's name was durable; the next start, which carries it out, loses its power at any call."""
    disk = memory_disk()
    grow_log(disk).close()
    disk.flip_bit(segments(disk)[-1], 30 * 8)
    expected = repair(kill(disk))
    planned = kill(disk)

    def die(operation: str, path: str) -> None:
        if operation == "sync directory" and planned.exists(f"{DIRECTORY}/repair"):
            planned.before_call = None
            raise Killed

    planned.before_call = die
    with pytest.raises(Killed):
        repair(planned)
    failures = 0
    for n in range(1, 1_000):
        for seed in range(n % TURNS, 6, TURNS):
            trial = kill(planned, seed)
            trial.fail_call(n)
            try:
                repair(trial)
            except StorageFailed:
                failures += 1
                log = repair(trial.after_crash(random.Random(seed)))
                assert (content(log), log.state) == (content(expected), expected.state), (n, seed)
            else:
                assert failures > 100 // TURNS
                return


def test_a_file_that_was_never_used_does_not_hide_the_segment_that_is_to_be_cut() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.save_state(b"vote")
    log.append(frames(1, 3))
    unused = log.end
    log.append(frames(4, 7))
    log.flush()
    log.append([frame(8)])
    log.flush()
    disk.flip_bit(FIRST, (unused + size_of(*frames(4, 4)) + 2) * 8)
    crashed = kill(disk)
    crashed.open(f"{DIRECTORY}/{unused:020d}.log", create=True).close()
    crashed.sync_directory(DIRECTORY)
    repaired = repair(crashed)
    assert numbers(repaired) == [(index, 1) for index in range(1, 5)]
    assert repaired.state == b"vote floor 8@1"
