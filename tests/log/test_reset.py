"""A log is reset: entirely or not at all, and never without its newest state."""

import contextlib
import os
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from log import mark as marks
from log import start
from log.disk import RealDisk
from log.errors import CorruptLog, IndexOutOfRange, NoSpace, OffsetOutOfRange, StorageFailed
from log.frame import HEADER_BYTES, Address, Frame, checksum
from log.index import LogTail
from log.mark import Mark, MarkFile
from log.memory_disk import MemoryDisk, PowerLoss
from log.salvage import Floor
from log.segmented_log import SegmentedLog
from log.start import Start
from tests.crashes import TURNS, kill
from tests.examples import TIMES
from tests.log.frames import (
    DIRECTORY,
    LOG_ID,
    SMALL,
    content,
    entries,
    frame,
    frames,
    memory_disk,
    numbers,
    open_log,
    size_of,
)
from tests.log.model import Moment, moment_of

BEFORE = LogTail(1_000, 2, 5_000)
MARK = f"{DIRECTORY}/{marks.NAME}"
START = f"{DIRECTORY}/{start.NAME}"


def names(disk: MemoryDisk, suffix: str) -> list[str]:
    return [path for path in disk.paths() if path.endswith(suffix)]


def after_before(count: int, epoch: int = 2) -> list[Frame]:
    first = BEFORE.last_index + 1
    return [frame(index, epoch, offset=BEFORE.end_offset + index - first) for index in range(first, first + count)]


def nothing(log: SegmentedLog) -> None:
    """A log that was just made."""


def only_a_state(log: SegmentedLog) -> None:
    log.save_state(b"vote")
    log.flush()


def much(log: SegmentedLog) -> None:
    """Sealed and proven, sealed and unproven, unflushed, trimmed and not trimmed yet, spare files: all that a log can have."""
    log.save_state(b"old vote")
    for epoch in range(1, 5):
        for _ in range(2):
            log.append(frames(log.last_index + 1, log.last_index + 10, epoch, size=120))
            log.flush()
    log.trim(60, b"left")
    log.flush()
    log.append(frames(log.last_index + 1, log.last_index + 40, 8, size=120))
    log.flush()
    log.trim(120, b"left, too")
    log.append(frames(log.last_index + 1, log.last_index + 30, 9, size=120))
    log.append(frames(log.last_index + 1, log.last_index + 30, 9, size=120))
    log.save_state(b"new vote")
    assert log._unproven
    assert log._retiring


def an_empty_segment(log: SegmentedLog) -> None:
    """The newest one was begun, and nothing was written to it."""
    log.append(frames(1, 30, 9, size=120))
    log.flush()
    log.reserve(100)
    assert log._active.base == log.end > 0


def a_large_state(log: SegmentedLog) -> None:
    """Too long for the durable-end checkpoint, and for a segment."""
    log.append(frames(1, 5, 3))
    log.save_state(bytes(6_000))
    log.flush()


def after_reset(log: SegmentedLog) -> None:
    much(log)
    log.reset(LogTail(500, 12, 900), b"the first time")


Life = Callable[[SegmentedLog], None]
LIVES: list[Life] = [nothing, only_a_state, much, an_empty_segment, a_large_state, after_reset]
every_life = pytest.mark.parametrize("life", LIVES)


def run_life(life: Life, seed: int = 0) -> tuple[MemoryDisk, SegmentedLog]:
    disk = memory_disk(seed)
    log = open_log(disk)
    life(log)
    return disk, log


def lives_on(log: SegmentedLog, disk: MemoryDisk) -> None:
    """It takes frames after its end, of any later epoch, and keeps them; it can be trimmed; it can be reset again."""
    epoch, first = log.last_epoch + 1, log.last_index + 1
    written = [frame(first + at, epoch, offset=log.end_offset + at, payload=bytes(120)) for at in range(50)]
    for each in written:
        log.append([each])
        log.flush()
    assert content(log)[-50:] == entries(written)
    log.trim(first + 45, b"trimmed")
    log.flush()
    assert moment_of(open_log(disk.durable_copy())) == moment_of(log)
    log.reset(LogTail(first + 10, 1, 7), b"again")
    assert moment_of(open_log(disk.durable_copy())) == moment_of(log)


@every_life
def test_a_log_begins_anew_behind_what_it_never_held(life: Life) -> None:
    disk, log = run_life(life)
    state, end = log.state, log.end
    log.reset(BEFORE, b"a snapshot")
    assert (log.first_index, log.last_index, log.last_epoch) == (0, 1_000, 2)
    assert (log.start_offset, log.end_offset, log.epoch_at(1_000)) == (5_000, 5_000, 2)
    assert (log.state, list(log.epochs), log.sealed_pending) == (state, [], False)
    assert (log.start, log.start_payload()) == (Start(log.start.base, BEFORE), b"a snapshot")
    assert end < log.start.base <= log.end == log.durable_end
    for call in (
        lambda: log.read(1_000, 1),
        lambda: log.epoch_at(999),
        lambda: log.truncate(999),
        lambda: log.trim(1_000),
    ):
        with pytest.raises(IndexOutOfRange):
            call()
    with pytest.raises(OffsetOutOfRange):
        log.find_offset(4_999)
    assert log.read(1_001, 1) == []
    lives_on(log, disk)


@every_life
def test_a_log_that_began_anew_is_found_again(life: Life) -> None:
    disk, log = run_life(life)
    log.reset(BEFORE, b"a snapshot")
    expected = moment_of(log)
    for after in (disk.durable_copy(), kill(disk)):
        again = open_log(after)
        assert (moment_of(again), again.start, again.end) == (expected, log.start, log.end)
        lives_on(again, after)
    log.append(after_before(20))
    log.save_state(b"newer vote")
    log.close()
    again = open_log(disk)
    assert (numbers(again)[0], numbers(again)[-1], again.state) == ((1_001, 2), (1_020, 2), b"newer vote")


def test_the_sidecar_of_the_first_segment_is_the_one_that_its_frames_give() -> None:
    disk, log = run_life(only_a_state)
    log.reset(BEFORE, b"")
    for each in frames(1_001, 1_100, 2, size=1_000):
        log.append([attrs.evolve(each, base_offset=each.base_offset + 4_000)])
    log.close()
    stored = {path: disk.content(path) for path in names(disk, ".index")}
    for path in stored:
        disk.remove(path)
    assert open_log(disk).recovery.indexes_rebuilt == len(stored) > 0
    assert {path: disk.content(path) for path in stored} == stored


def test_what_follows_must_follow_what_the_log_began_behind() -> None:
    _, log = run_life(much)
    log.reset(BEFORE, b"")
    for wrong in (frame(1_000, 2, offset=4_999), frame(1_001, 1, offset=5_000), frame(1_001, 2), frame(1, 2)):
        with pytest.raises(ValueError, match="does not follow"):
            log.append([wrong])
    log.append(after_before(3))
    log.truncate(1_000)
    assert (log.first_index, log.last_index, log.end_offset) == (0, 1_000, 5_000)
    log.append(after_before(3, epoch=3))
    assert numbers(log) == [(1_001, 3), (1_002, 3), (1_003, 3)]
    assert log.find_offset(5_001) == 1_002


def test_a_log_can_be_reset_to_its_very_beginning() -> None:
    disk, log = run_life(much)
    log.reset(LogTail(), b"")
    assert (log.first_index, log.last_index, log.end_offset, log.state) == (0, 0, 0, b"new vote")
    log.append(frames(1, 30, 1))
    log.flush()
    assert moment_of(open_log(disk.durable_copy())) == moment_of(log)


@every_life
def test_nothing_is_left_of_what_was_forgotten_but_spare_files(life: Life) -> None:
    disk, log = run_life(life)
    spares = names(disk, ".spare")
    log.reset(BEFORE, b"")
    assert names(disk, ".log") == [f"{DIRECTORY}/{log.start.base:020d}.log"]
    assert names(disk, ".index") == names(disk, ".reset") == names(disk, ".tmp") == []
    assert names(disk, ".spare") == spares
    assert log._lookup._indexes == {}
    assert len(log._segments) == 1


def test_no_file_of_what_was_forgotten_stays_open(tmp_path: Path) -> None:
    log = open_log(RealDisk(), directory=str(tmp_path))
    opened = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        for _ in range(10):
            log.append(frames(log.last_index + 1, log.last_index + 30, log.last_epoch, size=120))
            log.flush()
        log.append(frames(log.last_index + 1, log.last_index + 30, log.last_epoch, size=120))
        log.append(frames(log.last_index + 1, log.last_index + 30, log.last_epoch, size=120))
        log.read(log.first_index, 1 << 20)
        log.reset(LogTail(log.last_index, log.last_epoch, log.last_index), b"")
        assert len(os.listdir("/proc/self/fd")) == opened
    log.close()


def test_the_page_cache_is_not_asked_about_files_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, log = run_life(much)
    asked: list[str] = []
    log.reset(BEFORE, b"")
    monkeypatch.setattr(disk, "drop_cache", asked.append)
    for each in after_before(200):
        log.append([attrs.evolve(each, payload=bytes(1_000), payload_crc=checksum(bytes(1_000)))])
        log.flush()
    assert asked
    assert all(int(path[-24:-4]) >= log.start.base for path in asked)


def test_a_large_payload_is_not_copied(tmp_path: Path) -> None:
    log = open_log(RealDisk(), directory=str(tmp_path))
    payload = bytes(1 << 24)
    tracemalloc.start()
    try:
        log.reset(BEFORE, payload)
        assert tracemalloc.get_traced_memory()[1] < len(payload) // 8
    finally:
        tracemalloc.stop()
    log.close()
    log = open_log(RealDisk(), directory=str(tmp_path))
    assert log.start_payload() == payload
    log.close()


def test_no_log_begins_anew_while_a_flush_is_under_way() -> None:
    disk, log = run_life(much)
    flush = log.begin_flush()
    calls = disk.calls
    with pytest.raises(AssertionError, match="a flush is under way"):
        log.reset(BEFORE, b"")
    assert disk.calls == calls
    flush.run()
    log.end_flush(flush)
    log.reset(BEFORE, b"")


def test_room_for_states_is_reserved_in_the_new_log_too() -> None:
    disk, log = run_life(much)
    log.reset(BEFORE, b"")
    disk.capacity_bytes = disk.used_bytes()
    log.save_state(b"newest vote")
    log.flush()
    assert open_log(disk.durable_copy()).state == b"newest vote"


# -------------------------------------------------------------------- crashes


def _fates(disk: MemoryDisk, n: int) -> list[MemoryDisk]:
    crashes = [disk.after_crash(random.Random(n), loss=loss) for loss in (None, *PowerLoss)]
    return [kill(disk, n), disk.durable_copy(), *crashes]


@every_life
def test_wherever_a_crash_comes_the_log_is_as_it_was_or_is_reset(life: Life) -> None:
    """At every call to the disk: and the log that is left works, whatever files of the other one are next to it.

    That it works is tried after one kind of crash at each call, in turn, and in the campaign after every kind.
    """
    left: list[set[bool]] = []
    for n in range(1, 1_000):
        disk, log = run_life(life, n + 6)  # a name whose sync fails is durable or not: here both are seen
        log.flush()
        old = moment_of(log)
        new = _after_reset(old)
        disk.fail_call(n)
        try:
            log.reset(BEFORE, b"a snapshot")
        except StorageFailed:
            left.append(set())
            for at, after in enumerate(_fates(disk, n)):
                again = open_log(after)
                seen = moment_of(again)
                assert seen in (old, new), n
                assert moment_of(open_log(after.durable_copy())) == seen
                assert names(after, ".reset") == []
                left[-1].add(seen == new)
                if at == n % 7 or TIMES > 1:
                    lives_on(again, after)
        else:
            disk.fail_call(1_000_000)
            assert [moment_of(open_log(after)) for after in _fates(disk, n)] == [new] * 7
            break
    kept, open_yet = left.count({False}), left.count({False, True})
    assert kept > 5
    assert open_yet >= 1
    assert left == [{False}] * kept + [{False, True}] * open_yet + [{True}] * (len(left) - kept - open_yet)
    assert len(left) > kept + open_yet + 5


def _after_reset(old: Moment) -> Moment:
    start = type(old.start)(BEFORE.last_index, BEFORE.last_epoch, BEFORE.end_offset, b"a snapshot")
    return Moment((), old.state, BEFORE.end_offset, start)


def test_a_state_that_no_flush_had_reached_is_durable_behind_the_reset() -> None:
    disk, log = run_life(much)
    assert open_log(disk.durable_copy()).state == b"old vote"
    log.reset(BEFORE, b"")
    assert open_log(disk.durable_copy()).state == b"new vote"


@pytest.mark.parametrize("loss", [None, *PowerLoss])
def test_before_it_is_done_what_was_not_flushed_may_be_lost_as_ever(loss: PowerLoss | None) -> None:
    """But the newest state is one that was saved, and none that is older than the last flush."""
    states = set()
    for n in range(1, 60):
        disk, log = run_life(much, n)
        disk.fail_call(n)
        with contextlib.suppress(StorageFailed):
            log.reset(BEFORE, b"")
        again = open_log(disk.after_crash(random.Random(n), loss=loss))
        anew = again.last_index == BEFORE.last_index
        assert again.state in ([b"new vote"] if anew else [b"old vote", b"new vote"])
        states.add((anew, again.state))
    assert (True, b"new vote") in states
    assert len(states) > 1


@every_life
def test_wherever_a_recovery_of_an_interrupted_reset_is_interrupted_the_next_one_finds_the_same(life: Life) -> None:
    """The first crash at every call from the log-start checkpoint on, the second at every call of the recovery.

    After each first crash the disk is of one kind, in turn, and every third call fails; in the campaign it is of every kind, and all fail.
    """
    interrupted = 0
    for first in range(1, 100):
        disk, log = run_life(life)
        log.flush()
        old = moment_of(log)
        disk.fail_call(first)
        with contextlib.suppress(StorageFailed):
            log.reset(BEFORE, b"a snapshot")
            break
        kinds = (kill(disk), disk.after_crash(random.Random(first)), disk.durable_copy())
        for crashed in kinds if TIMES > 1 else kinds[first % 3 :][:1]:
            expected = moment_of(open_log(kill(crashed)))
            assert expected in (old, _after_reset(old))
            for second in range(1 + first // TURNS % TURNS, 200, TURNS):
                trial = kill(crashed, second)
                trial.fail_call(second)
                with contextlib.suppress(StorageFailed):
                    open_log(trial)
                    break
                interrupted += 1
                after = (kill(trial), trial.durable_copy(), trial.after_crash(random.Random(second)))[
                    second // TURNS % 3
                ]
                seen = moment_of(open_log(after))
                # A killed process may leave a log-start checkpoint that no sync covers, so recovery must sync it first.
                unread = START in crashed.paths() and trial.durable_content(START) != crashed.content(START)
                assert seen == expected or (unread and seen == old)
    assert interrupted > (200 if TIMES > 1 else 20)


def test_a_process_that_is_killed_before_the_log_start_is_durable_leaves_one_log_or_the_other_for_good() -> None:
    """Every later start reads what the next one reads, whatever power cuts come."""
    for n in range(1, 100):
        disk, log = run_life(much)
        disk.fail_call(n)
        with contextlib.suppress(StorageFailed):
            log.reset(BEFORE, b"")
            break
        after = kill(disk)
        seen = moment_of(open_log(after))
        for loss in PowerLoss:
            assert moment_of(open_log(after.after_crash(random.Random(n), loss=loss))) == seen


def interrupting(disk: MemoryDisk, n: int, error: BaseException) -> list[str]:
    """The n-th call from now is not made, and raises this; returns where its name will be found."""
    left = iter(range(1, n))
    interrupted: list[str] = []

    def hook(operation: str, path: str) -> None:
        if next(left, None) is None:
            disk.before_call = None
            interrupted.append(operation)
            raise error

    disk.before_call = hook
    return interrupted


def test_wherever_a_reset_is_interrupted_the_log_has_failed() -> None:
    """Ctrl-C at every call: it is unknown then which log the disk holds."""
    operations: set[str] = set()
    for n in range(1, 1_000):
        disk, log = run_life(much)
        log.flush()
        old = moment_of(log)
        interrupted = interrupting(disk, n, KeyboardInterrupt())
        try:
            log.reset(BEFORE, b"a snapshot")
        except KeyboardInterrupt:
            operations.update(interrupted)
            if log.start_payload() == b"a snapshot" and log.failed is None:
                break  # only room was to be reserved
            assert isinstance(log.failed, StorageFailed)
            with pytest.raises(StorageFailed, match="interrupted by KeyboardInterrupt"):
                log.reset(BEFORE, b"")
            calls = disk.calls
            log.close()
            assert disk.calls == calls
            assert moment_of(open_log(disk)) in (old, _after_reset(old))
    assert {"open", "write", "cut", "sync", "sync directory", "rename", "remove"} <= operations


# -------------------------------------------------------------------- a full disk


@every_life
def test_on_a_full_disk_the_log_stays_as_it_is(life: Life) -> None:
    """At every amount of room that is too little, as far as the quick tests try them."""
    refused = 0
    for room in range(0, 20_000, 300 if TIMES == 1 else 100):
        disk, log = run_life(life)
        log.reserve(0)
        reserved, paths, used = log._active.reserved, disk.paths(), disk.used_bytes()
        before, before_a_kill = moment_of(log), moment_of(open_log(kill(disk)))
        # As full as can be with what the active segment has reserved.
        disk.capacity_bytes = used + room
        try:
            log.reset(BEFORE, bytes(reserved + 3_000))
        except NoSpace:
            refused += 1
        else:
            assert log.start_payload() == bytes(reserved + 3_000)
            break
        assert (moment_of(log), log.failed, log._active.reserved) == (before, None, reserved)
        assert (disk.paths(), disk.used_bytes()) == (paths, used)
        assert moment_of(open_log(kill(disk))) == before_a_kill
        log.save_state(b"a vote that room was reserved for")
        log.flush()
        disk.capacity_bytes = None
        lives_on(log, disk)
    assert refused > (3 if TIMES == 1 else 10)


def test_room_that_was_only_reserved_is_used() -> None:
    disk, log = run_life(much)
    log.reserve(0)
    disk.capacity_bytes = disk.used_bytes()
    log.reset(BEFORE, b"a snapshot")
    assert log.start_payload() == b"a snapshot"
    assert log._active.reserved > 60_000


def test_a_full_disk_at_the_last_moment_leaves_the_log_as_it_is_or_ends_it() -> None:
    """No call is known to need room, and any may raise `NoSpace`."""
    outcomes = []
    for n in range(1, 1_000):
        disk, log = run_life(much)
        log.flush()
        old = moment_of(log)
        interrupted = interrupting(disk, n, NoSpace("write", "file"))
        try:
            log.reset(BEFORE, b"a snapshot")
        except NoSpace:
            outcomes.append("stays")
            assert (moment_of(log), log.failed) == (old, None)
            lives_on(log, disk)
        except StorageFailed:
            outcomes.append("ends")
            for after in _fates(disk, n):
                assert moment_of(open_log(after)) in (old, _after_reset(old))
        else:
            if not interrupted:
                break
            # Nothing but the room for states is not there yet.
            assert moment_of(log) == _after_reset(old)
            outcomes.append("has begun anew")
    order = ["stays", "ends", "has begun anew"]
    assert outcomes == sorted(outcomes, key=order.index)
    assert set(outcomes) == set(order)


# -------------------------------------------------------------------- damage


def between(operation: str, occurrence: int, life: Life = much) -> MemoryDisk:
    """The disk of a node that was killed during a reset, before this call."""
    disk, log = run_life(life)
    seen: list[str] = []

    def hook(called: str, path: str) -> None:
        seen.append(called)
        if seen.count(operation) == occurrence:
            disk.before_call = None
            raise KeyboardInterrupt

    disk.before_call = hook
    with pytest.raises(KeyboardInterrupt):
        log.reset(BEFORE, b"a snapshot")
    return kill(disk)


def test_the_new_segment_has_its_other_name_until_both_checkpoints_are_durable() -> None:
    disk = between("rename", 2)
    assert len(names(disk, ".reset")) == 1
    assert start.read(disk, DIRECTORY, log_id=LOG_ID).before == BEFORE
    marked = MarkFile.open(disk, DIRECTORY, log_id=LOG_ID).newest
    (path,) = names(disk, ".reset")
    end = Address(int(path[-26:-6]) + len(disk.content(path)))
    assert marked == Mark.of(end, BEFORE.last_index, BEFORE.last_epoch, b"new vote")


@pytest.mark.parametrize("occurrence", [1, 2])
def test_a_segment_without_its_name_that_is_damaged_is_never_cut(occurrence: int) -> None:
    """Only its other name shows that all of it was durable; the state in it is nowhere else."""
    disk = between("rename", occurrence)
    (path,) = names(disk, ".reset")
    size = len(disk.content(path))
    anew = occurrence == 2
    for bit in range(size * 8):
        after = kill(disk)
        after.flip_bit(path, bit)
        if anew:
            with pytest.raises(CorruptLog, match=r"\.reset"):
                repair(after)
    assert size == HEADER_BYTES + len(b"new vote")
    if not anew:
        assert open_log(disk).state == b"new vote"


def test_a_new_segment_whose_log_start_was_never_written_is_removed() -> None:
    disk = between("rename", 1)
    assert names(disk, ".reset") != []
    log = open_log(disk)
    assert (log.last_index, names(disk, ".reset"), names(disk, ".tmp")) == (180, [], [])


def test_a_file_that_would_take_the_place_of_the_first_segment_is_removed() -> None:
    disk, log = run_life(much)
    log.reset(BEFORE, b"")
    log.append(after_before(5))
    expected = moment_of(log)
    log.close()
    disk.open(names(disk, ".log")[0].replace(".log", ".reset"), create=True).close()
    assert moment_of(open_log(disk)) == expected
    assert names(disk, ".reset") == []


def test_the_state_in_a_new_segment_is_never_taken_for_the_torn_tail_of_a_write() -> None:
    """It is kept with and without a durable-end checkpoint that covers it: after a crash of the reset, and of the recovery."""
    harmed = 0
    for first in range(1, 1_000):
        disk, log = run_life(only_a_state)
        disk.fail_call(first)
        with contextlib.suppress(StorageFailed):
            log.reset(BEFORE, b"")
            break
        for crashed in (kill(disk), disk.after_crash(random.Random(first))):
            harmed += _is_refused_with_its_state_damaged(crashed)
            for second in range(1, 1_000):
                trial = kill(crashed)
                trial.fail_call(second)
                with contextlib.suppress(StorageFailed):
                    open_log(trial)
                    break
                harmed += _is_refused_with_its_state_damaged(trial.durable_copy())
    assert harmed > 200


def _is_refused_with_its_state_damaged(disk: MemoryDisk) -> bool:
    after = kill(disk)
    base = start.read(after, DIRECTORY, log_id=LOG_ID).base
    segments = [path for path in after.paths() if path.startswith(f"{DIRECTORY}/{base:020d}.")]
    if not base:
        return False
    (path,) = segments
    after.flip_bit(path, 30 * 8)
    with pytest.raises(CorruptLog):
        open_log(after)
    return True


@every_life
@pytest.mark.parametrize("sync_loses_mark", [False, True])
def test_a_first_segment_that_is_missing_is_damage(life: Life, *, sync_loses_mark: bool) -> None:
    """Even if there never was a state, and no durable-end checkpoint."""
    disk, log = run_life(life)
    log.reset(BEFORE, b"")
    log.close()
    (path,) = names(disk, ".log")
    disk.remove(path)
    if sync_loses_mark:
        disk.remove(MARK)
    with pytest.raises(CorruptLog, match="the segment is missing"):
        open_log(disk)


def amend_state(state: bytes | None, floor: Floor) -> bytes:
    return b"%s floor %d@%d" % (state or b"none", floor.index, floor.epoch)


def repair(disk: MemoryDisk) -> SegmentedLog:
    return SegmentedLog.open(disk, DIRECTORY, SMALL, log_id=LOG_ID, amend=amend_state)


def anew(count: int, life: Life = much) -> MemoryDisk:
    """A log that was reset and has taken so many frames since."""
    disk, log = run_life(life)
    log.reset(BEFORE, b"a snapshot")
    log.append(after_before(count))
    log.close()
    return disk


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("byte", [0, 30, HEADER_BYTES + 2])
def test_a_log_that_began_anew_and_lost_its_first_frame_is_repaired(count: int, byte: int) -> None:
    disk = anew(count)
    disk.flip_bit(names(disk, ".log")[0], byte * 8)
    with pytest.raises(CorruptLog):
        open_log(kill(disk))
    log = repair(disk)
    assert log.state == b"new vote floor %d@2" % (1_000 + count)
    assert (log.first_index, log.last_index, log.last_epoch, log.end_offset) == (0, 1_000, 2, 5_000)
    assert (log.start, log.start_payload()) == (Start(log.start.base, BEFORE), b"a snapshot")
    log.append(after_before(7, epoch=4))
    log.flush()
    assert moment_of(open_log(disk.durable_copy())) == moment_of(log)


@pytest.mark.parametrize("life", [much, nothing])
def test_frames_behind_the_start_that_are_damaged_are_cut(life: Life) -> None:
    disk = anew(5, life)
    (path,) = names(disk, ".log")
    behind = size_of(*after_before(5)[2:])
    disk.flip_bit(path, (int(open_log(kill(disk)).end) - int(path[-24:-4]) - behind + 30) * 8)
    log = repair(disk)
    state = b"none" if life is nothing else b"new vote"
    assert (numbers(log), log.state) == ([(1_001, 2), (1_002, 2)], state + b" floor 1005@2")
    assert log.start_payload() == b"a snapshot"


@pytest.mark.parametrize("count", [0, 5])
def test_a_log_that_began_anew_and_lost_its_only_segment_is_repaired(count: int) -> None:
    disk = anew(count)
    disk.remove(names(disk, ".log")[0])
    log = repair(disk)
    assert (log.last_index, log.state) == (1_000, b"new vote floor %d@2" % (1_000 + count))
    assert moment_of(open_log(disk.durable_copy())) == moment_of(log)


def test_a_state_that_is_too_long_for_the_checkpoint_and_damaged_is_refused() -> None:
    disk = anew(0, a_large_state)
    disk.flip_bit(names(disk, ".log")[0], (HEADER_BYTES + 5_000) * 8)
    with pytest.raises(CorruptLog, match="the newest state of this node is lost"):
        repair(disk)


def test_no_slot_of_the_durable_end_checkpoint_is_of_the_log_before_the_reset() -> None:
    """It reached epoch 9; a floor of that epoch would be none of this log's."""
    for slot in range(2):
        disk = anew(0)
        disk.flip_bit(MARK, (slot * marks.SLOT_BYTES + 20) * 8)
        disk.flip_bit(names(disk, ".log")[0], 30 * 8)
        assert repair(disk).state == b"new vote floor 1000@2"


@pytest.mark.parametrize("count", [0, 5])
@pytest.mark.parametrize("missing", [False, True])
def test_whichever_call_of_a_repair_fails_the_next_start_ends_with_the_same_log(count: int, *, missing: bool) -> None:
    disk = anew(count)
    (path,) = names(disk, ".log")
    if missing:
        disk.remove(path)
        disk.sync_directory(DIRECTORY)
    else:
        disk.flip_bit(path, 30 * 8)
    expected = moment_of(repair(kill(disk)))
    failures = 0
    for n in range(1, 1_000):
        trial = kill(disk, n)
        trial.fail_call(n)
        with contextlib.suppress(StorageFailed):
            repair(trial)
            break
        failures += 1
        for after in _fates(trial, n):
            assert moment_of(repair(after)) == expected, n
            assert moment_of(open_log(after.durable_copy())) == expected, n
    assert failures > 25
