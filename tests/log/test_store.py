"""A store of many logs: names, the lock, descriptors, room, rounds, and what each log can be asked."""

import itertools
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from log.batch_index import BatchIndex
from log.config import StoreConfig
from log.disk import RealDisk
from log.errors import CorruptLog, DirectoryLocked, LogExists, NoSpace, OffsetOutOfRange, StorageFailed, UnknownLog
from log.frame import HEADER_BYTES
from log.memory_disk import MemoryDisk, PowerLoss
from log.retention import Retention
from log.store import NAME_BYTES_MAX, LogStore
from log.store_log import RESERVE_CHUNK_BYTES, StoreLog
from tests.log.store_model import DIRECTORY, SMALL, batch, content, memory_disk, moment_of, offsets, open_store

ROOMY = attrs.evolve(SMALL, open_files_max=100)


def fill_log(store: LogStore, name: str, count: int, *, size: int = 1000, step: int = 1) -> StoreLog:
    """Returns a new log with so many batches, `step` offsets apart, each 10 ms younger than the one before."""
    log = store.create(name)
    for at in range(count):
        log.append([batch(at * step, 1 + at // 10, timestamp_ms=1000 + 10 * at, size=size)])
    store.flush()
    return log


# ---------------------------------------------------------------- names and the directory


@pytest.mark.parametrize("name", ["a", "orders-0", "%RETRY%group", "a.b_c|d", "..a", "x" * NAME_BYTES_MAX])
def test_a_log_is_made_under_its_name_and_found_again(tmp_path: Path, name: str) -> None:
    store = open_store(RealDisk(), directory=str(tmp_path))
    store.create(name).append([batch(0)])
    store.close()
    again = open_store(RealDisk(), directory=str(tmp_path))
    assert again.names() == [name]
    assert offsets(again.log(name)) == [0]
    again.close()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../a", "/a", "a b", "a\0", "ä", "a\n", "x" * (NAME_BYTES_MAX + 1)]
)
def test_a_name_that_could_leave_the_directory_is_refused(name: str) -> None:
    store = open_store(memory_disk())
    with pytest.raises(ValueError, match="no name of a log"):
        store.create(name)
    with pytest.raises(UnknownLog):
        store.log(name)
    with pytest.raises(UnknownLog):
        store.delete(name)
    assert store.names() == []


def test_a_log_is_made_once_and_deleted_once() -> None:
    store = open_store(memory_disk())
    store.create("b")
    store.create("a")
    assert store.names() == ["a", "b"]
    with pytest.raises(LogExists):
        store.create("a")
    log = store.log("a")
    store.delete("a")
    assert store.names() == ["b"]
    with pytest.raises(UnknownLog):
        store.delete("a")
    with pytest.raises(ValueError, match="closed"):
        log.append([batch(0)])


def test_several_logs_are_made_side_by_side_or_none_if_a_name_is_refused(tmp_path: Path) -> None:
    store = LogStore.open(RealDisk(), str(tmp_path), StoreConfig(threads=4))
    names = [f"log-{at:02}" for at in range(30)]
    store.create_all([*names, names[0]])
    assert store.names() == names
    with pytest.raises(LogExists):
        store.create_all(["new", names[3]])
    with pytest.raises(ValueError, match="no name"):
        store.create_all(["new", ".."])
    store.close()
    again = LogStore.open(RealDisk(), str(tmp_path))
    assert again.names() == names
    assert again.open_all() == {}
    again.close()


def test_a_name_is_free_again_once_its_log_is_deleted() -> None:
    disk = memory_disk()
    store = open_store(disk)
    fill_log(store, "a", 20)
    store.delete("a")
    assert [path for path in disk.paths() if "/logs/" in path] == []
    log = store.create("a")
    assert (log.start_offset, log.end_offset, content(log)) == (0, 0, [])
    log.append([batch(5, 9)])
    store.flush()
    survivor = open_store(disk.after_crash(random.Random(0), loss=PowerLoss.LOSE_ALL))
    assert offsets(survivor.log("a")) == [5]


def test_one_lock_keeps_the_whole_store_to_one_owner() -> None:
    disk = memory_disk()
    store = open_store(disk)
    store.create("a")
    with pytest.raises(DirectoryLocked):
        open_store(disk)
    store.close()
    open_store(disk).log("a")


def test_a_damaged_log_concerns_no_other_and_can_be_deleted() -> None:
    disk = memory_disk()
    store = open_store(disk)
    fill_log(store, "a", 3)
    fill_log(store, "b", 3)
    disk.flip_bit(f"{DIRECTORY}/logs/a/{0:020d}.log", 100 * 8)
    again = open_store(disk.after_kill(random.Random(0)))
    assert list(again.open_all()) == ["a"]
    with pytest.raises(CorruptLog):
        again.log("a")
    assert offsets(again.log("b")) == [0, 1, 2]
    again.delete("a")
    assert again.names() == ["b"]


# ---------------------------------------------------------------- what is missing is noticed


@pytest.mark.parametrize("gone", ["manifest", "sealed", "open", "all-but-mark"])
def test_a_file_that_is_missing_is_damage_and_no_empty_log(gone: str) -> None:
    disk = memory_disk()
    store = open_store(disk)
    fill_log(store, "a", 10)
    store.close()
    segments = [path for path in disk.paths() if path.endswith(".log")]
    assert len(segments) > 2
    for path in {
        "manifest": [f"{DIRECTORY}/logs/a/manifest"],
        "sealed": segments[:1],
        "open": segments[-1:],
        "all-but-mark": segments,
    }[gone]:
        disk.remove(path)
    again = open_store(disk)
    assert again.names() == ["a"]
    with pytest.raises(CorruptLog):
        again.log("a")


def test_a_manifest_from_a_backup_is_not_taken_for_the_newest() -> None:
    disk = memory_disk()
    store = open_store(disk)
    log = fill_log(store, "a", 2)
    path = f"{DIRECTORY}/logs/a/manifest"
    old = disk.content(path)
    log.truncate(1)
    store.close()
    file = disk.open(path, create=False)
    file.cut(0)
    file.write_at(0, [old])
    file.close()
    with pytest.raises(CorruptLog, match="older"):
        open_store(disk).log("a")


# ---------------------------------------------------------------- descriptors, room, opening


def test_the_budget_of_descriptors_holds_however_many_logs_are_in_use(tmp_path: Path) -> None:
    config = StoreConfig(segment_bytes_max=4096, open_files_max=6, threads=2)
    before = len(os.listdir("/proc/self/fd"))
    store = LogStore.open(RealDisk(), str(tmp_path), config)
    logs = [store.create(f"log-{at}") for at in range(40)]
    most = 0
    for at in range(12):
        for log in logs:
            log.append([batch(at, size=1000)])
            most = max(most, store.open_files)
        store.flush()
        for log in logs:
            assert offsets(log) == list(range(at + 1))
            most = max(most, store.open_files)
    assert 1 < most <= 6
    assert len(os.listdir("/proc/self/fd")) - before <= 6 + 1  # the lock
    store.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_idle_log_holds_no_descriptor_and_what_it_was_written_is_synced_before() -> None:
    """The system reports the error of a write-back to the descriptors that are open then."""
    disk = memory_disk()
    store = open_store(disk)
    log = store.create("a")
    log.append([batch(0)])
    calls: list[tuple[str, str]] = []
    disk.before_call = lambda operation, path: calls.append((operation, path))
    for name in "bcdef":
        store.create(name).append([batch(0)])
    assert log._active.file.file is None
    assert ("sync", f"{DIRECTORY}/logs/a/{0:020d}.log") in calls
    assert store.open_files <= SMALL.open_files_max
    assert log.durable_offset == 0


def test_logs_that_are_not_used_for_a_while_hold_no_descriptor() -> None:
    disk = memory_disk()
    store = open_store(disk, ROOMY)
    for name in "abc":
        fill_log(store, name, 10)
    store.log("c").append([batch(10, 9)])
    assert store.open_files > 5
    store.close_idle()
    moment_of(store.log("b"))
    store.close_idle()
    assert 1 < store.open_files < 8
    store.close_idle()
    assert store.open_files == 1, "the file that waits for a sync"
    store.flush()
    store.close_idle()
    store.close_idle()
    assert store.open_files == 0
    assert [len(offsets(store.log(name))) for name in "abc"] == [10, 10, 11]


def test_a_file_whose_sync_failed_as_it_was_closed_fails_its_log_and_no_other() -> None:
    disk = memory_disk()
    store = open_store(disk)
    victim = store.create("a")
    victim.append([batch(0)])

    def fail(operation: str, path: str) -> None:
        if operation == "sync" and path.endswith(".log") and "/a/" in path:
            raise StorageFailed(operation, path, "Input/output error")

    disk.before_call = fail
    for name in "bcdef":
        store.create(name).append([batch(0)])
    disk.before_call = None
    with pytest.raises(StorageFailed):
        store.flush()
    assert victim.failed is not None
    assert all(store.log(name).durable_offset == 1 for name in "bcdef")
    assert victim.durable_offset == 0


def test_a_small_log_takes_at_most_64_kib_of_the_disk(tmp_path: Path) -> None:
    store = LogStore.open(RealDisk(), str(tmp_path))
    log = store.create("a")
    for at in range(10):
        log.append([batch(at, size=1000)])
        store.flush()
    store.close()
    store = LogStore.open(RealDisk(), str(tmp_path))
    store.log("a").append([batch(10)])
    store.flush()
    directory = tmp_path / "logs" / "a"
    taken = sum(path.stat().st_blocks * 512 for path in [directory, *directory.iterdir()])
    assert 0 < taken <= 64 * 1024
    store.close()


def test_logs_are_opened_side_by_side_and_only_when_they_are_asked_for(tmp_path: Path) -> None:
    store = LogStore.open(RealDisk(), str(tmp_path), StoreConfig(threads=4))
    for at in range(50):
        store.create(f"log-{at}").append([batch(at)])
    store.close()
    again = LogStore.open(RealDisk(), str(tmp_path), StoreConfig(threads=4))
    assert again.open_files == 0
    assert again.open_all() == {}
    assert [offsets(again.log(f"log-{at}")) for at in range(50)] == [[at] for at in range(50)]
    again.close()


def test_opening_what_was_closed_costs_no_sync() -> None:
    disk = memory_disk()
    store = open_store(disk)
    fill_log(store, "a", 30)
    store.create("empty").append([batch(0)])
    store.close()
    calls: list[str] = []
    again = open_store(disk)
    disk.before_call = lambda operation, path: calls.append(operation)
    assert again.open_all() == {}
    assert calls
    assert not {"sync", "sync directory", "write"} & set(calls)


def test_what_was_killed_before_a_flush_is_written_again_before_it_counts() -> None:
    disk = memory_disk()
    store = open_store(disk)
    log = fill_log(store, "a", 3)
    log.append([batch(3), batch(4)])
    killed = disk.after_kill(random.Random(0))
    found = open_store(killed).log("a")
    assert found.recovery.bytes_rewritten == 2 * 180
    assert found.durable_offset == 5
    assert offsets(open_store(killed.after_crash(random.Random(0), loss=PowerLoss.LOSE_ALL)).log("a")) == [
        0,
        1,
        2,
        3,
        4,
    ]


@pytest.mark.parametrize("in_new_segment", [False, True])
def test_a_torn_tail_is_cut_and_reported_and_nothing_of_it_comes_back(in_new_segment: bool) -> None:
    """Frames of the same size: one that was lost lies where the next new one would end."""
    torn_logs = 0
    for seed in range(60):
        disk = memory_disk(seed)
        store = open_store(disk)
        log = fill_log(store, "a", 2)
        if in_new_segment:
            log.roll()
        for at in range(2, 8):
            log.append([batch(at, mark="lost ", size=300)])
        torn = disk.after_crash(random.Random(seed), loss=PowerLoss.KEEP_SUBSET)
        reopened = open_store(torn)
        found = reopened.log("a")
        held = offsets(found)
        assert held == list(range(len(held)))
        torn_logs += found.recovery.torn_at is not None
        found.append([batch(len(held), mark="new ", size=300)])
        reopened.flush()
        for after in (torn.after_crash(random.Random(seed)), torn.after_kill(random.Random(seed))):
            assert moment_of(open_store(after).log("a")) == moment_of(found)
    assert torn_logs > 20


def test_what_a_full_disk_refused_never_turns_up() -> None:
    for seed in range(60):
        disk = memory_disk(seed)
        store = open_store(disk)
        log = fill_log(store, "a", 2, size=300)
        disk.capacity_bytes = disk.used_bytes() + 300 * (seed % 5)
        with pytest.raises(NoSpace):
            log.append([batch(at, mark="refused ", size=300) for at in range(2, 9)])
        disk.capacity_bytes = None
        log.append([batch(2, mark="new ", size=300)])
        after = open_store(disk.after_crash(random.Random(seed), loss=PowerLoss.KEEP_SUBSET)).log("a")
        assert content(after) in (content(log)[:2], content(log))


# ---------------------------------------------------------------- rounds


def test_a_round_makes_durable_what_there_was_when_it_began() -> None:
    disk = memory_disk()
    store = open_store(disk, ROOMY)
    a, b = store.create("a"), store.create("b")
    a.append([batch(0)])
    b.append([batch(0)])
    done = store.begin_round()
    a.append([batch(1)])
    done.run()
    store.end_round(done)
    assert (a.durable_offset, b.durable_offset) == (1, 1)
    assert store.is_dirty
    store.flush()
    assert a.durable_offset == 2
    assert not store.is_dirty


def test_a_log_that_fails_in_a_round_leaves_the_others_durable() -> None:
    disk = memory_disk()
    store = open_store(disk, ROOMY)
    logs = [store.create(name) for name in "abc"]
    for log in logs:
        log.append([batch(0)])

    def fail(operation: str, path: str) -> None:
        if operation == "sync" and "/b/" in path:
            raise StorageFailed(operation, path, "Input/output error")

    disk.before_call = fail
    with pytest.raises(StorageFailed):
        store.flush()
    assert [log.durable_offset for log in logs] == [1, 0, 1]
    with pytest.raises(StorageFailed):
        logs[1].append([batch(1)])
    logs[0].append([batch(1)])
    store.flush()
    assert logs[0].durable_offset == 2
    assert not store.is_dirty


def test_a_log_that_is_deleted_before_its_round_runs_is_left_out() -> None:
    disk = memory_disk()
    store = open_store(disk)
    for name in "ab":
        store.create(name).append([batch(0)])
    done = store.begin_round()
    store.delete("a")
    new = store.create("a")
    new.append([batch(7)])
    done.run()
    store.end_round(done)
    assert (store.log("b").durable_offset, new.durable_offset) == (1, 0)
    survivor = open_store(disk.durable_copy())
    assert (offsets(survivor.log("a")), offsets(survivor.log("b"))) == ([], [0])


@pytest.mark.parametrize("change", ["delete", "truncate", "reset"])
def test_a_change_waits_for_the_part_of_the_round_that_runs(change: str) -> None:
    disk = memory_disk()
    store = open_store(disk, ROOMY)
    log = store.create("a")
    log.append([batch(at) for at in range(4)])
    syncing, go_on, order = threading.Event(), threading.Event(), []

    def wait(operation: str, path: str) -> None:
        if operation == "sync" and path.endswith(".log") and not syncing.is_set():
            syncing.set()
            assert go_on.wait(20)
            order.append("synced")

    disk.before_call = wait
    done = store.begin_round()
    runner = threading.Thread(target=done.run)
    runner.start()
    assert syncing.wait(20)

    def carry_out() -> None:
        match change:
            case "delete":
                store.delete("a")
            case "truncate":
                log.truncate(2)
            case _:
                log.reset(9)
        order.append("changed")

    changer = threading.Thread(target=carry_out)
    changer.start()
    go_on.set()
    changer.join(20)
    runner.join(20)
    store.end_round(done)
    assert order == ["synced", "changed"]
    survivor = open_store(disk.durable_copy())
    if change == "delete":
        assert survivor.names() == []
    else:
        assert moment_of(survivor.log("a")) == moment_of(log)
        assert log.end_offset == log.durable_offset == {"truncate": 2, "reset": 9}[change]


def test_appends_and_reads_go_on_during_a_round_in_threads(tmp_path: Path) -> None:
    store = LogStore.open(RealDisk(), str(tmp_path), StoreConfig(segment_bytes_max=4096, open_files_max=8, threads=4))
    logs = [store.create(f"log-{at}") for at in range(20)]
    for at in range(0, 60, 2):
        for log in logs:
            log.append([batch(at, size=200)])
        done = store.begin_round()
        runner = threading.Thread(target=done.run)
        runner.start()
        for log in logs:
            log.append([batch(at + 1, size=200)])
            assert offsets(log)[-2:] == [at, at + 1]
        runner.join(60)
        store.end_round(done)
        assert all(log.durable_offset >= at + 1 for log in logs)
    held = [content(log) for log in logs]
    store.close()
    again = LogStore.open(RealDisk(), str(tmp_path))
    assert [content(again.log(f"log-{at}")) for at in range(20)] == held
    again.close()


WRITER = """
import sys
from log.batch import StoredBatch
from log.config import StoreConfig
from log.disk import RealDisk
from log.store import LogStore

store = LogStore.open(RealDisk(), sys.argv[1], StoreConfig(segment_bytes_max=4096, open_files_max=12, threads=4))
names = [f"log-{at}" for at in range(20)]
store.create_all(names)
for at in range(1_000_000):
    for name in names:
        store.log(name).append([StoredBatch.of(b"r" * 600, base_offset=at, epoch=1, timestamp_ms=at)])
    store.flush()
    print(at, flush=True)
    for name in names:
        log = store.log(name)
        if at % 7 == 6 and len(log.sealed) > 2:
            log.replace(log.sealed[:2], log.read(log.start_offset, 1))
        if at % 11 == 10:
            log.trim(log.end_offset - 40 if log.end_offset > 40 else 0)
"""


def test_a_process_that_is_killed_at_any_moment_leaves_what_it_had_flushed(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    flushed = [int(line) for line in itertools.islice(process.stdout, 45)]
    process.kill()
    flushed += [int(line) for line in process.stdout]
    process.wait(60)
    process.stdout.close()
    store = LogStore.open(RealDisk(), str(tmp_path))
    assert store.open_all() == {}
    for name in store.names():
        log = store.log(name)
        held = moment_of(log)
        assert log.end_offset in (flushed[-1] + 1, flushed[-1] + 2)
        assert [entry[0] for entry in held.entries][-10:] == list(range(log.end_offset - 10, log.end_offset))
    store.close()


# ---------------------------------------------------------------- offsets, epochs, times


def test_gaps_between_batches_are_allowed_and_reads_go_on_behind_them() -> None:
    disk = memory_disk()
    log = fill_log(open_store(disk), "a", 30, step=10)
    for found in (log, open_store(disk.after_kill(random.Random(0))).log("a")):
        assert offsets(found) == list(range(0, 300, 10))
        assert [each.base_offset for each in found.read(101, 1)] == [110]
        assert [each.base_offset for each in found.read(110, 1)] == [110]
        assert found.read(291, 1) == [] == found.read(found.end_offset, 1)
        assert [each.base_offset for each in found.read(95, 10_000, 121)] == [100, 110, 120]


@pytest.mark.parametrize(
    ("wrong", "why"), [(batch(4, 5), "backwards"), (batch(9, 4), "an older epoch"), (batch(9, 5, span=0), "no offset")]
)
def test_a_batch_that_does_not_follow_is_refused_and_nothing_is_written(wrong: object, why: str) -> None:
    log = open_store(memory_disk()).create("a")
    log.append([batch(0, 5, span=5)])
    before = moment_of(log)
    with pytest.raises(ValueError, match="does not follow"):
        log.append([batch(5, 5), wrong])  # type: ignore[list-item]
    assert moment_of(log) == before, why


def test_what_the_log_does_not_hold_cannot_be_read() -> None:
    store = open_store(memory_disk())
    log = fill_log(store, "a", 10)
    log.trim(3)
    for offset in (2, 11):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 1)
    with pytest.raises(OffsetOutOfRange):
        log.trim(11)
    with pytest.raises(OffsetOutOfRange):
        log.truncate(2)


def test_the_first_offset_of_a_time_is_found_though_times_do_not_ascend() -> None:
    disk = memory_disk()
    store = open_store(disk)
    log = store.create("a")
    times = [50, 10, 70, 20, 60, 90, 30, 80, 40, 100] * 5
    for offset, time in enumerate(times):
        log.append([batch(offset, timestamp_ms=time + offset // 10 * 100, size=700)])
    store.flush()
    stamps = [time + offset // 10 * 100 for offset, time in enumerate(times)]
    for found in (log, open_store(disk.after_kill(random.Random(0))).log("a")):
        for wanted in range(0, 520, 5):
            following = [offset for offset, stamp in enumerate(stamps) if stamp >= wanted]
            assert found.find_time(wanted) == (following[0] if following else None)
    log.trim(22)
    assert log.find_time(0) == 22


def test_an_index_that_is_damaged_is_read_from_the_frames_again() -> None:
    disk = memory_disk()
    log = fill_log(open_store(disk), "a", 30)
    before = moment_of(log)
    damaged = disk.after_kill(random.Random(0))
    for sealed in log.sealed:
        path = f"{DIRECTORY}/logs/a/{sealed.name}"
        assert len(damaged.content(path)) > sealed.size_bytes
        damaged.flip_bit(path, sealed.size_bytes * 8 + 40)
    assert moment_of(open_store(damaged).log("a")) == before


def test_where_an_epoch_ends() -> None:
    log = fill_log(open_store(memory_disk()), "a", 35, step=2)
    assert [log.end_of_epoch(epoch) for epoch in range(6)] == [None, (1, 20), (2, 40), (3, 60), (4, 69), (4, 69)]
    log.truncate(45)
    assert [log.end_of_epoch(epoch) for epoch in (2, 3, 4)] == [(2, 40), (3, 45), (3, 45)]
    log.trim(30)
    assert [log.end_of_epoch(epoch) for epoch in (1, 2, 3)] == [None, (2, 40), (3, 45)]


# ---------------------------------------------------------------- cutting, trimming, retention


def test_a_cut_within_a_batch_takes_it_whole() -> None:
    log = open_store(memory_disk()).create("a")
    log.append([batch(0, span=10), batch(10, span=10), batch(20, span=10)])
    assert log.truncate(15) == 10
    log.append([batch(10, 2)])
    assert [(each.base_offset, each.epoch) for each in log.read(0, 10_000)] == [(0, 1), (10, 2)]


def test_a_cut_is_durable_when_it_returns() -> None:
    disk = memory_disk()
    log = fill_log(open_store(disk), "a", 30)
    log.append([batch(30, 9)])
    assert log.truncate(11) == 11
    assert log.durable_offset == 11
    survivor = open_store(disk.durable_copy()).log("a")
    assert moment_of(survivor) == moment_of(log)
    assert offsets(survivor) == list(range(11))


def test_a_cut_makes_durable_what_it_leaves() -> None:
    disk = memory_disk()
    log = open_store(disk).create("a")
    log.append([batch(at) for at in range(5)])
    assert log.truncate(3) == log.durable_offset == 3
    assert offsets(open_store(disk.durable_copy()).log("a")) == [0, 1, 2]


@pytest.mark.parametrize(
    ("rule", "start"),
    [
        (Retention(bytes_max=10_000), 18),
        (Retention(age_ms_max=100), 18),
        (Retention(bytes_max=0), 27),
        (Retention(), 0),
    ],
)
def test_segments_leave_by_bytes_and_by_age(rule: Retention, start: int) -> None:
    disk = memory_disk()
    store = open_store(disk)
    log = fill_log(store, "a", 30)
    used = disk.used_bytes()
    kept = log.retain(rule, 1000 + 10 * 29 + 5)
    assert kept == log.start_offset
    assert abs(kept - start) <= 4
    store.flush()
    assert (disk.used_bytes() < used - 1000 * (kept - 4)) if kept else disk.used_bytes() >= used
    assert moment_of(open_store(disk.durable_copy()).log("a")) == moment_of(log)


def test_a_trim_becomes_durable_with_a_flush_and_files_go_only_then() -> None:
    disk = memory_disk()
    store = open_store(disk)
    log = fill_log(store, "a", 30)
    files = [path for path in disk.paths() if path.endswith(".log")]
    log.trim(20)
    assert [path for path in disk.paths() if path.endswith(".log")] == files
    assert open_store(disk.durable_copy()).log("a").start_offset == 0
    store.flush()
    assert len([path for path in disk.paths() if path.endswith(".log")]) < len(files) - 3
    assert open_store(disk.durable_copy()).log("a").start_offset == 20


def test_a_full_disk_refuses_appends_and_can_be_trimmed() -> None:
    disk = memory_disk()
    store = open_store(disk)
    log = fill_log(store, "a", 30)
    before = moment_of(log)
    disk.capacity_bytes = disk.used_bytes()
    with pytest.raises(NoSpace):
        log.append([batch(30, 9, size=5000)])
    assert moment_of(log) == before
    with pytest.raises(NoSpace):
        log.truncate(5)
    assert moment_of(log) == before
    log.trim(25)
    store.flush()
    assert disk.used_bytes() < disk.capacity_bytes - 10_000
    assert open_store(disk.durable_copy()).log("a").start_offset == 25
    log.append([batch(30, 9, size=2000)])
    store.flush()
    assert offsets(open_store(disk.durable_copy()).log("a")) == list(range(25, 31))


@pytest.mark.parametrize("is_same", [False, True], ids=["new segment", "same segment"])
def test_what_was_reserved_takes_the_next_append_on_a_full_disk(is_same: bool) -> None:
    disk = memory_disk()
    store = open_store(disk)
    log = fill_log(store, "a", 1, size=100 if is_same else SMALL.segment_bytes_max)
    before = moment_of(log)
    wanted = batch(1, 9, size=2000)
    log.reserve(HEADER_BYTES + len(wanted.payload))
    assert moment_of(log) == before
    disk.capacity_bytes = disk.used_bytes()
    log.append([wanted])
    assert offsets(log) == [0, 1]


def test_room_that_is_not_there_is_refused_and_the_log_holds_what_it_held() -> None:
    disk = memory_disk()
    store = open_store(disk)
    log = fill_log(store, "a", 3)
    before = moment_of(log)
    disk.capacity_bytes = disk.used_bytes() + 500
    with pytest.raises(NoSpace):
        log.reserve(1000)
    assert moment_of(log) == before
    log.reserve(400)
    disk.capacity_bytes += 1000
    log.reserve(1000)
    log.append([batch(3, 9, size=900)])


def test_reserved_room_is_released_with_the_segment() -> None:
    disk = memory_disk()
    store = open_store(disk)
    log = fill_log(store, "a", 3)
    before = disk.used_bytes()
    log.reserve(1000)
    assert disk.used_bytes() > before + RESERVE_CHUNK_BYTES
    log.roll()
    store.flush()
    assert disk.used_bytes() < before + 2000


@pytest.mark.parametrize("change", [lambda log: log.flush(), lambda log: log.truncate(1)], ids=["flush", "cut"])
def test_a_sync_that_meets_a_full_disk_ends_the_log(change: Callable[[StoreLog], int]) -> None:
    """Room for what was written is found only now by some file systems, and what they dropped stays lost."""
    disk = memory_disk()
    log = open_store(disk).create("a")
    log.append([batch(0), batch(1)])

    def refuse(operation: str, path: str) -> None:
        if operation == "sync" and path.endswith(".log"):
            raise NoSpace(operation, path)

    disk.before_call = refuse
    with pytest.raises(StorageFailed):
        change(log)
    disk.before_call = None
    with pytest.raises(StorageFailed):
        log.append([batch(2)])
    assert log.durable_offset == 0


def test_after_a_reset_the_log_goes_on_elsewhere_with_any_epoch() -> None:
    disk: MemoryDisk = memory_disk()
    store = open_store(disk)
    log = fill_log(store, "a", 30)
    log.reset(100)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (100, 100, 0)
    log.append([batch(105, 1)])
    store.flush()
    survivor = open_store(disk.durable_copy()).log("a")
    assert (survivor.start_offset, offsets(survivor)) == (100, [105])


def test_who_reads_at_the_end_of_a_growing_log_begins_with_the_newest_batch() -> None:
    """Followers do so for each batch; the sparse index alone would lead them over all batches since its last entry."""
    index = BatchIndex(interval_bytes=4096)
    for number in range(20):
        index.note(10 * number, 0, 200 * number)
        assert index.near_offset(10 * number + 3) == 200 * number
    assert index.near_offset(185) <= 200 * 18
    assert index.near_offset(0) == 0
    again = BatchIndex.decode(index.encode(4000), 4000, 4096)
    assert again is not None
    assert again.near_offset(193) <= 200 * 19, "what a footer does not hold is found all the same"
