"""Fail the n-th call to the disk of each change to a store, for n = 1 until it goes through untouched; then restart and look."""

import itertools
from collections.abc import Callable

import attrs
import pytest

from log.errors import NoSpace, StorageFailed
from log.memory_disk import MemoryDisk
from log.store import LogStore
from log.store_log import StoreLog
from tests.crashes import FATES, TURNS, Fate, calls_before, cut_power, lose_unsynced
from tests.examples import TIMES
from tests.log.store_model import DIRECTORY, Moment, batch, entry, memory_disk, moment_of, offsets, open_store

TRIES = 8 if TIMES > 1 else 3
"""Power cuts at the same moment, which take different things."""


def begin(seed: int) -> tuple[MemoryDisk, LogStore, StoreLog]:
    """A log of about ten segments, all of them durable."""
    disk = memory_disk(seed)
    store = open_store(disk)
    log = store.create("a")
    for at in range(40):
        log.append([batch(at * 2, 1 + at // 10, timestamp_ms=at, size=1000)])
    store.flush()
    return disk, store, log


def replace(log: StoreLog, disk: MemoryDisk, *, keep: Callable[[int], bool]) -> None:
    """Rewrite the third to the seventh segment, but for some batches."""
    run = log.sealed[2:7]
    following = log.sealed[7].first_offset
    kept = [each for each in log.read(run[0].first_offset, 1 << 30, following) if keep(each.base_offset)]
    log.replace(run, kept)


def each_failure(fate: Fate, change: Callable[[LogStore, StoreLog, MemoryDisk], None], *, failures_min: int) -> None:
    """Whichever call fails, the log is found as it was before or after, and as it is found it stays."""
    disk, store, log = begin(0)
    before = moment_of(log)
    change(store, log, disk)
    after = moment_of(log)
    assert before != after
    seen: list[Moment] = []
    for n in calls_before(fate):
        disk, store, log = begin(n)
        disk.fail_call(n)
        try:
            change(store, log, disk)
        except StorageFailed:
            assert disk.failed_as_asked
        else:
            break
        for seed in range(TRIES if fate is cut_power else 1):
            found = fate(disk, n * TRIES + seed)
            moment = moment_of(open_store(found).log("a"))
            assert moment in (before, after)
            assert moment_of(open_store(lose_unsynced(found, n)).log("a")) == moment
            seen.append(moment)
    assert len(seen) >= failures_min // TURNS
    assert seen[0] == before
    disk.fail_call(1 << 60)
    assert moment_of(open_store(fate(disk, 0)).log("a")) == after


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("keeps_every", [2, 100], ids=["half", "none"])
def test_segments_are_replaced_all_at_once(fate: Fate, keeps_every: int) -> None:
    def keep(offset: int) -> bool:
        return offset % (2 * keeps_every) == 2

    disk, _, log = begin(0)
    held, run, following = offsets(log), log.sealed[2:7], log.sealed[7].first_offset
    replace(log, disk, keep=keep)
    assert offsets(log) == [at for at in held if not run[0].first_offset <= at < following or keep(at)]
    assert not {each.name for each in run} & {path.rpartition("/")[2] for path in disk.paths()}
    each_failure(fate, lambda store, log, disk: replace(log, disk, keep=keep), failures_min=20)


@pytest.mark.parametrize("fate", FATES)
def test_a_log_is_cut_all_at_once(fate: Fate) -> None:
    each_failure(fate, lambda store, log, disk: _void(log.truncate(25)), failures_min=8)


@pytest.mark.parametrize("fate", FATES)
def test_a_log_is_reset_all_at_once(fate: Fate) -> None:
    each_failure(fate, lambda store, log, disk: log.reset(1000), failures_min=8)


@pytest.mark.parametrize("fate", FATES)
def test_segments_leave_all_at_once(fate: Fate) -> None:
    def change(store: LogStore, log: StoreLog, disk: MemoryDisk) -> None:
        log.trim(33)
        store.flush()

    each_failure(fate, change, failures_min=8)


@pytest.mark.parametrize("fate", FATES)
def test_a_log_is_made_and_deleted_all_at_once(fate: Fate) -> None:
    there: list[bool] = []
    for n in range(1, 200):
        disk, store, log = begin(n)
        held = moment_of(log)
        disk.fail_call(n)
        try:
            store.delete("a")
        except StorageFailed:
            again = open_store(fate(disk, n))
            there.append(again.names() == ["a"])
            if there[-1]:
                assert moment_of(again.log("a")) == held
            else:
                assert again.names() == []
                again.create("a").append([batch(3)])
                again.flush()
                assert offsets(again.log("a")) == [3]
        else:
            break
    assert len(there) > 10
    assert there[0]
    assert not there[-1]


def _void(result: object) -> None:
    assert result is not None


def test_a_replacement_that_was_overtaken_is_refused_and_leaves_nothing() -> None:
    disk, _, log = begin(0)
    replacement = log.begin_replacement(log.sealed[0:3])
    replacement.write([])
    replacement.finish()
    log.truncate(4)
    before = moment_of(log)
    with pytest.raises(ValueError, match="does not hold these segments"):
        log.end_replacement(replacement)
    assert moment_of(log) == before
    with pytest.raises(ValueError, match="does not hold these segments"):
        log.begin_replacement([attrs.evolve(log.sealed[0], generation=7)])
    assert not [path for path in disk.paths() if "-" in path.rpartition("/")[2]]


def test_a_replacement_keeps_to_the_offsets_of_what_it_replaces() -> None:
    _, _, log = begin(0)
    run = log.sealed[2:4]
    replacement = log.begin_replacement(run)
    for wrong in (batch(run[0].first_offset - 2), batch(log.sealed[4].first_offset), batch(1 << 30)):
        with pytest.raises(ValueError, match=r"does not follow|lies behind"):
            replacement.write([wrong])
    replacement.write([batch(run[0].first_offset, 2)])
    with pytest.raises(ValueError, match="does not follow"):
        replacement.write([batch(run[0].first_offset, 2)])


def test_a_replacement_that_finds_no_room_leaves_the_log_as_it_was() -> None:
    disk, _, log = begin(0)
    before = moment_of(log)
    for room in (0, 1_000, 5_000):
        disk.capacity_bytes = disk.used_bytes() + room
        run = log.sealed[2:7]
        with pytest.raises(NoSpace):
            log.replace(run, log.read(run[0].first_offset, 1 << 30, log.sealed[7].first_offset))
        assert moment_of(log) == before
        assert disk.used_bytes() <= disk.capacity_bytes
    disk.capacity_bytes = None
    replace(log, disk, keep=lambda at: at % 4 == 0)
    assert len(offsets(log)) < len(before.entries)


def test_what_was_replaced_is_found_by_time_and_may_be_replaced_again() -> None:
    disk, _, log = begin(0)
    replace(log, disk, keep=lambda at: at % 4 == 0)
    once = moment_of(log)
    made = [each for each in log.sealed if each.generation]
    assert made
    log.replace(made, log.read(made[0].first_offset, 1))
    assert len(moment_of(log).entries) < len(once.entries)
    assert {entry(each) for each in log.read(0, 1 << 30)} < set(once.entries)
    reopened = open_store(lose_unsynced(disk, 0)).log("a")
    assert moment_of(reopened) == moment_of(log)
    assert [each.generation for each in reopened.sealed] == [each.generation for each in log.sealed]
    assert DIRECTORY in disk.paths()[0]


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("change", [lambda log: log.flush(), lambda log: log.truncate(15)], ids=["flush", "cut"])
def test_what_seals_segments_names_no_file_that_a_power_cut_may_take(
    fate: Fate, change: Callable[[StoreLog], int]
) -> None:
    """Segments that were begun since the last flush are in the first manifest that comes after them."""
    failures = 0
    for n, again in itertools.product(calls_before(fate), range(TRIES if fate is cut_power else 1)):
        disk = memory_disk(n * TRIES + again)
        store = open_store(disk)
        log = store.create("a")
        log.append([batch(0, size=1000)])
        store.flush()
        for at in range(1, 20):
            log.append([batch(at, size=1000)])
        disk.fail_call(n)
        try:
            change(log)
        except StorageFailed:
            found = offsets(open_store(fate(disk, n * TRIES + again)).log("a"))
            assert found == list(range(len(found)))
            assert found
            failures += 1
        else:
            break
    assert failures > 10 // TURNS
