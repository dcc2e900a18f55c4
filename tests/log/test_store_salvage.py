"""Repair of a damaged log of a store: what precedes the damage stays, what is cut off is kept, and a crash in between changes nothing."""

from collections.abc import Callable

import pytest

from log.disk import write_file
from log.errors import CorruptLog, StorageFailed, UnknownLog
from log.memory_disk import MemoryDisk
from log.store import LogStore
from log.store_log import StoreLog
from tests.crashes import FATES, TURNS, Fate, calls_before, cut_power, kill, lose_unsynced
from tests.log.store_model import DIRECTORY, Entry, batch, content, memory_disk, moment_of, offsets, open_store
from tests.log.test_store_failing_calls import TRIES

PLACE = f"{DIRECTORY}/logs/a/"
Damage = Callable[[MemoryDisk], None]


def grow_log(seed: int = 0, *, trimmed: int = 0) -> tuple[MemoryDisk, list[Entry]]:
    """Returns the disk of a killed process, and the content of its log: some sealed segments and an open one, all durable."""
    disk = memory_disk(seed)
    store = open_store(disk)
    log = store.create("a")
    for at in range(30):
        log.append([batch(at * 2, 1 + at // 10, timestamp_ms=at, size=700)])
        if at % 4 == 3:
            store.flush()
    if trimmed:
        log.trim(trimmed)
    store.flush()
    held = content(log)
    return kill(disk, seed), held


def segments(disk: MemoryDisk) -> list[str]:
    return [path for path in disk.paths() if path.startswith(PLACE) and path.endswith(".log")]


def expect_corruption(disk: MemoryDisk) -> LogStore:
    store = open_store(disk)
    with pytest.raises(CorruptLog):
        store.log("a")
    return store


def repair_log(disk: MemoryDisk) -> StoreLog:
    """Returns the log after its repair."""
    store = expect_corruption(disk)
    store.repair("a")
    return store.log("a")


def flip_bit(at: int, byte: int) -> Damage:
    """Returns a damage that flips a bit in the segment with this number."""
    return lambda disk: disk.flip_bit(segments(disk)[at], 8 * byte + 3)


def remove_file(name: str) -> Damage:
    """Returns a damage that removes a file durably."""

    def damage(disk: MemoryDisk) -> None:
        disk.remove(PLACE + name)
        disk.sync_directory(PLACE.removesuffix("/"))

    return damage


# ---------------------------------------------------------------- what stays, and what is kept aside


@pytest.mark.parametrize("at", [0, 1, 3, -1])
@pytest.mark.parametrize("byte", [0, 40, 85, 800, 1600])
def test_what_precedes_the_damage_stays_and_the_log_goes_on_behind_it(at: int, byte: int) -> None:
    disk, held = grow_log()
    path = segments(disk)[at]
    before = disk.content(path)
    flip_bit(at, byte)(disk)
    store = expect_corruption(disk) if at == -1 else open_store(disk)
    if at != -1:
        # A sealed segment is only read when it is asked for.
        with pytest.raises(CorruptLog):
            content(store.log("a"))
        store.log("a").note_damage()
        store.close()
        store = expect_corruption(disk)
    done = store.repair("a")
    log = store.log("a")
    kept = content(log)
    assert kept == held[: len(kept)]
    assert len(kept) < len(held)
    assert done.end_offset == log.end_offset
    assert done.reason is not None
    assert log.end_offset >= (kept[-1][0] + 1 if kept else 0)
    log.append([batch(log.end_offset, 9)])
    log.flush()
    again = open_store(lose_unsynced(disk, 1)).log("a")
    assert moment_of(again) == moment_of(log)
    # Every byte is still there, in a file that was set aside or behind the end of the segment that was cut.
    damaged = bytearray(before)
    damaged[byte] ^= 1 << 3
    name = path.removesuffix(".log")
    found = disk.content(path) if path in disk.paths() else disk.content(f"{name}.damaged")
    assert found[: len(damaged)] == bytes(damaged)


def test_all_that_precedes_a_damaged_byte_is_kept() -> None:
    disk, held = grow_log()
    flip_bit(2, 85)(disk)
    store = open_store(disk)
    first = store.log("a").segment_facts()[2].first_index
    store.log("a").note_damage()
    store.close()
    log = repair_log(disk)
    assert log.end_offset == first
    assert content(log) == [each for each in held if each[0] < first]
    assert [path for path in disk.paths() if path.endswith(".damaged")]


@pytest.mark.parametrize("is_open", [False, True], ids=["sealed", "open"])
def test_a_compacted_log_ends_with_the_last_batch_before_the_damage(*, is_open: bool) -> None:
    disk, _ = grow_log()
    store = open_store(disk)
    log = store.log("a")
    run = log.sealed[1:] if is_open else log.sealed[1:3]
    log.replace(run, [])
    store.flush()
    left = [each for each in content(log) if each[0] < run[0].first_offset]
    flip_bit(1, 85)(disk)
    log.note_damage()
    store.close()
    log = repair_log(disk)
    assert content(log) == left
    assert log.end_offset == left[-1][0] + 1 < run[-1].first_offset


@pytest.mark.parametrize("name", ["manifest", "00000000000000000000.log", "last"])
def test_a_log_that_lost_a_file_is_a_prefix_of_what_it_was(name: str) -> None:
    disk, held = grow_log()
    if name == "last":
        name = segments(disk)[-1].removeprefix(PLACE)
    remove_file(name)(disk)
    log = repair_log(disk)
    kept = content(log)
    assert kept == held[: len(kept)]
    assert (len(kept) == 0) is (name != segments(grow_log()[0])[-1].removeprefix(PLACE))
    log.append([batch(log.end_offset, 9)])
    log.flush()
    assert offsets(open_store(lose_unsynced(disk, 0)).log("a")) == offsets(log)


def test_a_log_that_was_reset_takes_any_epoch_and_no_old_frame_for_its_own() -> None:
    disk, _ = grow_log()
    disk.flip_bit(f"{PLACE}manifest", 100)
    log = repair_log(disk)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 0, 0)
    log.append([batch(0, 1), batch(7, 1)])
    log.flush()
    assert offsets(open_store(lose_unsynced(disk, 0)).log("a")) == [0, 7]


def test_a_manifest_from_a_backup_is_no_log_to_go_on_with() -> None:
    disk, _ = grow_log()
    older = disk.content(f"{PLACE}manifest")
    store = open_store(disk)
    store.log("a").truncate(21)
    store.close()
    write_file(disk, f"{PLACE}manifest", [older])
    log = repair_log(disk)
    assert log.end_offset == 0


def test_a_trimmed_log_keeps_its_start() -> None:
    disk, held = grow_log(trimmed=33)
    flip_bit(-1, 10)(disk)
    log = repair_log(disk)
    assert log.start_offset == 33
    assert content(log) == held[: len(content(log))]
    disk, _ = grow_log(trimmed=33)
    for path in segments(disk):
        disk.remove(path)
    log = repair_log(disk)
    assert (log.start_offset, log.end_offset, offsets(log)) == (33, 33, [])


def test_what_had_been_cut_before_the_damage_does_not_come_back() -> None:
    disk, held = grow_log()
    store = open_store(disk)
    log = store.log("a")
    log.truncate(31)
    log.append([batch(40, 5, size=700)])
    store.flush()
    held = content(log)
    disk = kill(disk, 0)
    flip_bit(-1, 90)(disk)
    log = repair_log(disk)
    assert content(log) == held[:-1]


def test_a_log_that_was_suspected_and_is_whole_stays_as_it_was() -> None:
    disk, held = grow_log()
    store = open_store(disk)
    store.log("a").note_damage()
    store.close()
    store = expect_corruption(disk)
    assert store.repair("a").reason is None
    log = store.log("a")
    assert content(log) == held
    assert store.repair("a").reason is None
    with pytest.raises(ValueError, match="closed"):
        content(log)
    assert content(store.log("a")) == held
    with pytest.raises(UnknownLog):
        store.repair("b")


def test_what_was_cut_off_is_kept_until_the_next_repair() -> None:
    disk, _ = grow_log()
    remove_file("manifest")(disk)
    first = open_store(disk)
    aside = first.repair("a").set_aside
    assert len(aside) > 3
    first.log("a").append([batch(0)])
    first.close()
    assert all(PLACE + each in disk.paths() for each in aside)
    remove_file("manifest")(disk)
    again = open_store(disk).repair("a").set_aside
    assert again
    assert not {*again} & {*aside}


def test_a_lost_checkpoint_is_reported() -> None:
    disk, _ = grow_log()
    assert not open_store(disk).log("a").recovery.mark_damaged
    disk, _ = grow_log()
    remove_file("durable")(disk)
    assert open_store(disk).log("a").recovery.mark_damaged


def test_a_newest_segment_that_is_missing_after_a_power_cut_is_reported() -> None:
    """The checkpoint that a power cut took back does not know of it any more."""
    disk, _ = grow_log()
    disk = lose_unsynced(disk, 0)
    disk.remove(segments(disk)[-1])
    assert open_store(disk).log("a").recovery.segment_missing
    assert not open_store(grow_log()[0]).log("a").recovery.segment_missing


# ---------------------------------------------------------------- a disk that fails meanwhile


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize(
    "damage",
    [flip_bit(-1, 40), remove_file("manifest"), remove_file("00000000000000000000.log")],
    ids=["flipped", "no manifest", "no first segment"],
)
def test_whichever_call_of_a_repair_fails_the_next_one_ends_with_the_same_log(fate: Fate, damage: Damage) -> None:
    disk, _ = grow_log()
    damage(disk)
    expected = moment_of(repair_log(disk))
    failures = 0
    for n in calls_before(fate):
        for seed in range(TRIES if fate is cut_power else 1):
            disk, _ = grow_log(n * TRIES + seed)
            damage(disk)
            store = expect_corruption(disk)
            disk.fail_call(n)
            try:
                store.repair("a")
            except StorageFailed:
                failures += 1
            else:
                disk.fail_call(1 << 60)
                assert moment_of(store.log("a")) == expected
                assert failures > 10 // TURNS
                return
            found = fate(disk, n * TRIES + seed)
            again = open_store(found)
            try:
                log = again.log("a")
            except CorruptLog:
                again.repair("a")
                log = again.log("a")
            assert moment_of(log) == expected
            assert moment_of(open_store(lose_unsynced(found, n)).log("a")) == expected
            assert any(each.endswith(".damaged") for each in found.paths())
    raise AssertionError("the repair never ended")
