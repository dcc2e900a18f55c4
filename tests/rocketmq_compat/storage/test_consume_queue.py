"""Consume queues: where their units are, what a queue costs, and what is not theirs."""

import itertools
from pathlib import Path

import pytest

from log.config import StoreConfig
from log.disk import RealDisk
from log.file_pool import FilePool
from rocketmq_compat.storage.broker_store import GetMessageStatus, MessageStore, MessageStoreConfig
from rocketmq_compat.storage.consume_queue import ConsumeQueues, write_units
from rocketmq_compat.storage.derived import DerivedConfig
from rocketmq_compat.storage.dispatch import UNIT, QueueRun
from tests.crashes import kill, lose_unsynced
from tests.rocketmq_compat.storage.records import DIRECTORY, memory_disk, record
from tests.rocketmq_compat.storage.stores import QUEUE, SMALL_STORE, append, append_each, open_messages, queues_of

FILES = f"{DIRECTORY}/consumequeue/Orders"


def run_of(first: int, count: int, *, physical: int = 0) -> QueueRun:
    run = QueueRun(QUEUE, first)
    for at in range(count):
        run.units += UNIT.pack(physical + 100 * at, 100, at)
    run.next = first + count
    return run


def test_units_lie_in_files_as_rocketmq_has_them() -> None:
    """Physical offset, size and tag hash, 20 bytes each, in files of as many units as are set (here 8)."""
    disk = memory_disk()
    store = open_messages(disk)
    found = append(store, count=19)
    store.close()
    content = [disk.content(f"{FILES}/0-{first:020}") for first in (0, 8, 16)]
    assert [len(each) for each in content] == [160, 160, 60]
    units = list(UNIT.iter_unpack(b"".join(content)))
    assert [physical for physical, *_ in units] == found.physical_offsets
    ends = [*itertools.accumulate(size for _, size, _ in units)]
    assert ends[-1] == found.end
    assert sorted(path for path in disk.paths() if "/consumequeue/" in path) == [
        f"{FILES}/0-{first:020}" for first in (0, 8, 16)
    ]


def test_a_dispatch_costs_no_call_to_the_disk_and_neither_does_reading_what_is_new() -> None:
    disk = memory_disk()
    store = open_messages(disk)
    append(store, count=5)
    before = disk.calls
    store.dispatch()
    queue = store.derived.queues.get(QUEUE)
    assert queue is not None
    assert len(queue.units(0, 5)) == 100
    assert queue.min_offset(0) == 0
    assert disk.calls == before


def test_an_idle_queue_costs_no_call_when_it_is_opened_and_no_open_file() -> None:
    disk = memory_disk()
    store = open_messages(disk)
    queues = 3000
    store.append([record(f"T{at // 10}", at % 10) for at in range(queues)], epoch=1)
    store.dispatch()
    store.close()
    calls: list[str] = []
    disk.before_call = lambda operation, path: calls.append(path)
    again = open_messages(disk)
    disk.before_call = None
    assert len(again.derived.queues) == queues
    assert not [path for path in calls if path.startswith(f"{DIRECTORY}/consumequeue/T") and "-" in path]
    for at in range(0, queues, 7):
        assert again.read((f"T{at // 10}", at % 10), 0).status == GetMessageStatus.FOUND
    pool = again.derived.queues.pool
    assert 0 < pool.open_files <= SMALL_STORE.derived.open_files_max
    again.close_idle()
    again.close_idle()
    assert pool.open_files == 0


def test_a_checkpoint_writes_the_files_of_many_queues_side_by_side(tmp_path: Path) -> None:
    config = MessageStoreConfig(
        log=StoreConfig(segment_bytes_max=1 << 20, threads=1), derived=DerivedConfig(units_per_file=4, threads=8)
    )
    store = MessageStore.open(RealDisk(), str(tmp_path / "broker"), config)
    for _ in range(3):
        store.append([record(f"T{at % 7}", at % 3) for at in range(100)], epoch=1)
        store.dispatch()
        store.flush()
        store.derived.save()
    before = queues_of(store)
    store.abandon()
    again = MessageStore.open(RealDisk(), str(tmp_path / "broker"), config)
    assert again.derived.report.rebuilt is None
    assert queues_of(again) == before
    again.close()


def test_what_is_no_unit_of_a_queue_is_removed_when_the_store_is_opened() -> None:
    disk = memory_disk()
    store = open_messages(disk)
    append(store, count=10)
    store.close()
    stray = [
        f"{FILES}/0-{800:020}",
        f"{FILES}/7-{0:020}",
        f"{DIRECTORY}/index/x",
        f"{DIRECTORY}/consumequeue/Other/0-0",
    ]
    disk.make_directory(f"{DIRECTORY}/consumequeue/Other")
    for path in stray:
        disk.open(path, create=True)
    before = open_messages(disk)
    assert not set(stray) & set(disk.paths())
    assert f"{FILES}/0-{8:020}" in disk.paths()
    assert before.queue(QUEUE) == (0, 10)


def test_what_a_crash_left_behind_the_checkpoint_in_a_file_is_written_again() -> None:
    disk = memory_disk()
    store = open_messages(disk)
    append(store, count=5)
    store.flush()
    store.derived.save()
    path = f"{FILES}/0-{0:020}"
    disk.open(path, create=False).write_at(100, [b"\xff" * 60])
    again = open_messages(kill(disk, 0))
    assert again.queue(QUEUE) == (0, 5)
    append(again, count=3)
    assert len(again.read(QUEUE, 0).records) == 8
    again.close()


def test_older_units_are_read_from_files_and_newer_ones_from_memory_in_one_read() -> None:
    store = open_messages(memory_disk())
    append_each(store, QUEUE, 20)
    store.flush()
    store.derived.save()
    append_each(store, QUEUE, 10)
    queue = store.derived.queues.get(QUEUE)
    assert queue is not None
    assert (queue.saved, queue.next) == (20, 30)
    found = store.read(QUEUE, 3, count_max=32)
    assert (len(found.records), found.next_offset) == (27, 30)


def test_files_whose_messages_are_gone_go_with_the_next_checkpoint() -> None:
    disk = memory_disk()
    store = open_messages(disk)
    append_each(store, QUEUE, 40, size=900)
    store.flush()
    store.derived.save()
    store.trim(store.log.end_offset - 12_000)
    first = store.queue(QUEUE)
    assert first is not None
    assert [path for path in disk.paths() if path.startswith(f"{FILES}/")] == [
        f"{FILES}/0-{at:020}" for at in range(0, 40, 8)
    ]
    store.derived.save()
    kept = [f"{FILES}/0-{at:020}" for at in range(first[0] // 8 * 8, 40, 8)]
    assert [path for path in disk.paths() if path.startswith(f"{FILES}/")] == kept
    assert 1 < len(kept) < 5
    assert queues_of(open_messages(lose_unsynced(disk, 0))) == queues_of(store)


@pytest.mark.parametrize("saved", [False, True])
def test_a_queue_goes_on_behind_a_gap_and_where_units_repeat_and_begins_again_behind_a_long_one(saved: bool) -> None:
    disk = memory_disk()
    queues = ConsumeQueues(disk, FilePool(disk, 4), "queues", 4)

    def save() -> None:
        changed, gone = queues.take_changed()
        write_units(disk, [part for each in changed for part in each.to_write(each.next)], 1)
        for path in gone:
            disk.remove(path)
        for queue in changed:
            queue.note_saved(queue.next)

    def content() -> tuple[int, list[int]]:
        queue = queues.get(QUEUE)
        assert queue is not None
        return queue.first, [queue.place(at) for at in range(queue.first, queue.next)]

    steps = [
        (run_of(5, 2), 0, (5, [0, 100])),
        (run_of(7, 1, physical=200), 0, (5, [0, 100, 200])),
        (run_of(6, 3, physical=900), 1, (5, [0, 100, 200, 1100])),
        (run_of(5, 2, physical=900), 1, (5, [0, 100, 200, 1100])),
        (run_of(11, 1, physical=1500), 1, (5, [0, 100, 200, 1100, 1500, 1500, 1500])),
        (run_of(20, 2, physical=2000), 1, (20, [2000, 2100])),
        (run_of(22, 1, physical=2200), 0, (20, [2000, 2100, 2200])),
    ]
    for run, strange, expected in steps:
        assert queues.extend([run]) == strange
        assert content() == expected
        if saved:
            save()
            assert content() == expected
    if saved:
        assert [path for path in disk.paths() if path.startswith("queues/")] == [f"queues/Orders/0-{20:020}"]


@pytest.mark.parametrize("first", [3, 29, 31, 40])
def test_a_queue_without_messages_begins_where_the_log_states(first: int) -> None:
    """As on a slave that was reset, and ended before it had forgotten its queues."""
    disk = memory_disk()
    queues = ConsumeQueues(disk, FilePool(disk, 4), "queues", 4)
    queues.load([(*QUEUE, 30, 30)])
    assert queues.extend([run_of(first, 2)]) == 1
    queue = queues.get(QUEUE)
    assert queue is not None
    assert (queue.min_offset(0), queue.next, queue.place(first + 1)) == (first, first + 2, 100)


@pytest.mark.parametrize(("first", "again"), [(0, 50), (30, 5)])
def test_a_queue_that_begins_again_while_a_checkpoint_is_written_keeps_its_units(first: int, again: int) -> None:
    disk = memory_disk()
    queues = ConsumeQueues(disk, FilePool(disk, 4), "queues", 4)
    if first:
        queues.load([(*QUEUE, first, first)])
        queues.note_changed(queues, [])
    else:
        queues.extend([run_of(0, 3)])
    ((queue,), _) = queues.take_changed()
    parts = queue.to_write(queue.next)
    end = queue.next
    queues.extend([run_of(again, 2)])
    write_units(disk, parts, 1)
    queue.note_saved(end)
    assert (queue.first, queue.next, queue.saved) == (again, again + 2, again)
    assert [queue.place(at) for at in range(again, again + 2)] == [0, 100]
