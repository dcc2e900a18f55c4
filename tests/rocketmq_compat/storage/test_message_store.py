"""The messages of a broker: results of appends and reads, and the traces of a failing disk."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from log.disk import RealDisk
from log.errors import CorruptLog, DirectoryLocked, NoSpace, StorageFailed
from log.memory_disk import MemoryDisk
from rocketmq_compat.record_layout import java_hash
from rocketmq_compat.storage.broker_store import GetMessageStatus, MessageStore, MessageStoreConfig
from rocketmq_compat.storage.dispatch import UNIT, BadRecord, QueueKey, assign, key_hash
from tests.crashes import FATES, TURNS, Fate, calls_before, cut_power, kill, lose_unsynced
from tests.rocketmq_compat.storage.records import DIRECTORY, memory_disk, record
from tests.rocketmq_compat.storage.stores import (
    QUEUE,
    append,
    append_each,
    entries_of,
    open_messages,
    queues_of,
    rebuilt,
)

OTHER = ("Orders", 1)
ODD, EVEN = java_hash("odd"), java_hash("evn")


def bodies(store: MessageStore, key: QueueKey = QUEUE) -> list[bytes]:
    """The records of a queue, read in small steps."""
    found: list[bytes] = []
    offset = (store.queue(key) or (0, 0))[0]
    while (read := store.read(key, offset, count_max=3)).next_offset > offset:
        found += map(bytes, read.records)
        offset = read.next_offset
    return found


def save(store: MessageStore) -> None:
    store.flush()
    store.derived.save()


# ---------------------------------------------------------------- append


def test_an_append_states_where_each_record_went() -> None:
    store = open_messages(memory_disk())
    sent = [record("A"), record("B", 3, body=b"x"), record("A")]
    found = store.append(sent, epoch=1)
    assert found.queue_offsets == [0, 0, 1]
    assert found.physical_offsets == [0, len(sent[0]), len(sent[0]) + len(sent[1])]
    assert found.end == store.log.end_offset == sum(map(len, sent))
    assert store.append([record("A")], epoch=1).queue_offsets == [2]
    assert [store.next_offset(each) for each in (("A", 0), ("B", 3), ("C", 0))] == [3, 1, 0]
    assert store.append([], epoch=1).end == store.log.end_offset


def test_messages_are_seen_once_they_are_dispatched_and_not_before() -> None:
    store = open_messages(memory_disk())
    for _ in range(3):
        store.append([record("A"), record("A")], epoch=1)
    assert store.read(("A", 0), 0).status == GetMessageStatus.NO_MATCHED_LOGIC_QUEUE
    each = store.log.end_offset // 3
    runs = store.dispatch(2 * each + 1)
    assert [(run.key, run.first, run.next) for run in runs] == [(("A", 0), 0, 2), (("A", 0), 2, 4)]
    assert store.queue(("A", 0)) == (0, 4)
    assert store.dispatch(2 * each) == []
    assert [(run.first, run.next) for run in store.dispatch()] == [(4, 6)]
    assert store.dispatch() == []


def test_what_waits_to_be_dispatched_is_bounded_and_found_again_in_the_log() -> None:
    store = open_messages(memory_disk())
    for _ in range(40):
        store.append([record("A", body=bytes(500))], epoch=1)
    assert store.next_offset(("A", 0)) == 40
    assert sum(run.next - run.first for run in store.dispatch()) == 40
    assert store.queue(("A", 0)) == (0, 40)


def test_a_long_append_is_one_write_of_batches_that_are_checked_whole() -> None:
    disk = memory_disk()
    store = open_messages(disk, MessageStoreConfig())
    before = disk.calls
    records = [record("A", body=bytes(size)) for size in [10_000] * 20 + [100_000, 10]]
    store.append(records, epoch=1)
    assert disk.calls == before + 1
    batches = store.log.read(0, 1 << 30)
    assert [len(each.payload) <= 65536 for each in batches] == [True] * 4 + [False, True]
    assert batches[4].span == len(records[20])


def test_what_is_no_record_is_refused_and_changes_nothing() -> None:
    store = open_messages(memory_disk())
    append(store, count=3)
    end = store.log.end_offset
    for wrong in ([record("a b")], [record("A"), b"no record"], [record("A")[:-1]], [bytes(200)], [record("A", -1)]):
        with pytest.raises(BadRecord):
            store.append(wrong, epoch=1)
    with pytest.raises(ValueError, match="does not follow"):
        store.append([record("A")], epoch=0)
    content = bytes(assign([record("A")], end + 1, lambda key: 0).payload)
    for offset in (end, end + 1):
        with pytest.raises(ValueError, match=r"no record|do not follow"):
            store.append_assigned(content, offset=offset, epoch=1)
    with pytest.raises(ValueError, match="do not follow"):
        store.append_copy(content, offset=end + 1, epoch=1)
    assert store.log.end_offset == end
    assert store.next_offset(("A", 0)) == 0
    assert store.dispatch() == []


def test_a_copy_is_split_into_batches_that_are_checked_whole_unless_it_must_stay_one() -> None:
    records = [record("A", body=bytes(size)) for size in [20_000] * 4 + [100_000, 10, 10]]
    payload = bytes(assign(records, 0, lambda key: 0).payload)
    spans = []
    for atomic in (False, True):
        store = open_messages(memory_disk())
        append_bytes = store.append_assigned if atomic else store.append_copy
        assert append_bytes(payload, offset=0, epoch=1) == len(payload)
        store.dispatch()
        spans.append([each.span for each in store.log.read(0, 1 << 30)])
        assert b"".join(bodies(store, ("A", 0))) == payload
    sizes = [len(each) for each in records]
    assert spans == [[sum(sizes[:3]), sizes[3], sizes[4], sum(sizes[5:])], [len(payload)]]


def test_a_truncation_cuts_at_any_record() -> None:
    for atomic in (False, True):
        disk = memory_disk()
        store = open_messages(disk)
        for _ in range(5):
            found = assign([record(*QUEUE, body=bytes(300))] * 4, store.log.end_offset, store.next_offset)
            append_bytes = store.append_assigned if atomic else store.append_copy
            append_bytes(bytes(found.payload), offset=found.found.start, epoch=2)
        store.dispatch()
        store.flush()
        whole = bodies(store)
        ends = [sum(map(len, whole[:count])) for count in range(len(whole) + 1)]
        for count in (20, 19, 16, 14, 9, 0):
            assert store.truncate(ends[count]) == ends[count]
            for opened in (store, open_messages(lose_unsynced(disk, 0))):
                assert (opened.log.end_offset, bodies(opened)) == (ends[count], whole[:count])
                assert opened.log.last_epoch == (2 if count else 0)
            if count:
                with pytest.raises(BadRecord):
                    store.truncate(ends[count] - 1)
        assert append(store).queue_offsets == [0]


def test_a_slave_has_the_same_queues_and_continues_them_as_a_master() -> None:
    master, slave = open_messages(memory_disk(1)), open_messages(memory_disk(2))
    for number in range(30):
        append(master, ("T", number % 3), 1 + number % 4, epoch=1 + number // 10)
    while slave.log.end_offset < master.log.end_offset:
        offset = slave.log.end_offset
        for batch in master.log.read(offset, 2000):
            slave.append_copy(bytes(batch.payload), offset=batch.base_offset, epoch=batch.epoch)
            slave.dispatch()
    assert queues_of(slave) == queues_of(master)
    assert entries_of(slave) == entries_of(master)
    assert slave.log.epochs == master.log.epochs
    assert append(slave, ("T", 0), 2, epoch=9).queue_offsets == append(master, ("T", 0), 2, epoch=9).queue_offsets


def test_a_copy_that_begins_later_has_the_queue_offsets_of_the_records() -> None:
    store = open_messages(memory_disk())
    append(store, count=3)
    store.reset(10_000)
    assert store.queue(QUEUE) is None
    content = bytes(assign([record(*QUEUE), record(*QUEUE)], 10_000, lambda key: 500).payload)
    store.append_copy(content, offset=10_000, epoch=1)
    store.dispatch()
    assert store.queue(QUEUE) == (500, 502)
    assert append(store).queue_offsets == [502]
    assert len(bodies(store)) == 3
    assert store.derived.strange_runs == 0


def test_what_a_copy_holds_that_is_no_record_is_kept_and_never_seen() -> None:
    """A slave that goes on behind other bytes than its master's may begin inside of a record."""
    disk = memory_disk()
    store = open_messages(disk)
    append(store, count=3)
    first = store.log.end_offset
    lost = bytes(assign([record(*QUEUE, body=bytes(400))] * 3, first - 7, lambda key: 3).payload)[7:]
    store.append_copy(lost, offset=first, epoch=2)
    end = store.log.end_offset
    assert end == first + len(lost)
    assert store.dispatch() == []
    following = bytes(assign([record(*QUEUE)] * 2, end, lambda key: 6).payload)
    store.append_copy(following, offset=end, epoch=2)
    store.dispatch()
    for found in (store, open_messages(kill(disk, 0)), rebuilt(kill(disk, 0))):
        assert found.queue(QUEUE) == (0, 8)
        assert b"".join(bodies(found)[3:]) == following
        assert b"".join(bytes(each.payload) for each in found.log.read(first, 1 << 20)) == lost + following
        assert found.log.record_at(first) is None
    assert store.truncate(first + 100) == first + 100
    assert open_messages(lose_unsynced(disk, 0)).log.end_offset == first + 100
    assert append(store, epoch=3).physical_offsets == [first + 100]


def test_queue_offsets_that_do_not_follow_are_counted_and_never_hide_what_follows() -> None:
    """As after a slave went on behind other bytes than it holds (`haDivergence=rocketmq`)."""
    store = open_messages(memory_disk())
    append(store, count=3)

    def copy(offset: int) -> None:
        end = store.log.end_offset
        content = bytes(assign([record(*QUEUE)] * 2, end, lambda key: offset).payload)
        store.append_copy(content, offset=end, epoch=1)
        store.dispatch()

    copy(2)
    assert (store.queue(QUEUE), len(bodies(store)), store.derived.strange_runs) == ((0, 4), 4, 1)
    copy(9)
    assert (store.queue(QUEUE), len(bodies(store)), store.derived.strange_runs) == ((0, 11), 6, 2)
    assert store.read(QUEUE, 4, count_max=5).status == GetMessageStatus.NO_MATCHED_MESSAGE
    assert store.offset_at_time(QUEUE, 2000) == 11
    copy(99)
    assert (store.queue(QUEUE), len(bodies(store)), store.derived.strange_runs) == ((99, 101), 2, 3)
    save(store)
    append(store, count=20)
    save(store)
    assert store.queue(QUEUE) == (99, 121)
    assert len(bodies(store)) == 22


# ---------------------------------------------------------------- read


def test_a_read_states_why_it_found_nothing() -> None:
    disk = memory_disk()
    store = open_messages(disk)
    append(store, count=5)
    append_each(store, OTHER, 20, size=900)
    save(store)
    store.trim(store.log.end_offset - 2000)
    cases = [
        (("Nothing", 0), 0, GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, 0),
        (("Orders", 7), 5, GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, 0),
        (OTHER, 0, GetMessageStatus.OFFSET_TOO_SMALL, 0),
        (OTHER, 20, GetMessageStatus.OFFSET_OVERFLOW_ONE, 20),
        (OTHER, 21, GetMessageStatus.OFFSET_OVERFLOW_BADLY, 20),
        (QUEUE, 4, GetMessageStatus.OFFSET_TOO_SMALL, 5),
        (QUEUE, 5, GetMessageStatus.OFFSET_OVERFLOW_ONE, 5),
    ]
    first = (store.queue(OTHER) or (0, 0))[0]
    assert 0 < first < 20
    for key, offset, status, next_offset in cases:
        found = store.read(key, offset)
        assert (found.status, found.next_offset) == (status, next_offset or (first if key == OTHER else 0))
        assert found.records == ()
    assert store.read(OTHER, first).min_offset == first
    assert store.read(OTHER, first).max_offset == 20


def test_a_read_is_bounded_by_count_and_bytes_but_returns_at_least_one_message() -> None:
    store = open_messages(memory_disk())
    append(store, count=10, size=100)
    size = len(store.read(QUEUE, 0, count_max=1).records[0])
    for bytes_max, count_max, count in [
        (1 << 20, 32, 10),
        (1 << 20, 4, 4),
        (3 * size, 9, 3),
        (3 * size - 1, 9, 2),
        (0, 9, 1),
    ]:
        found = store.read(QUEUE, 0, bytes_max=bytes_max, count_max=count_max)
        assert (len(found.records), found.next_offset) == (count, count)
        assert found.physical_end == count * size
    assert store.read(QUEUE, 7).next_offset == 10


def test_only_messages_with_a_wanted_tag_are_returned_and_the_others_are_passed() -> None:
    store = open_messages(memory_disk())
    append(store, count=10)
    found = store.read(QUEUE, 0, tags={ODD})
    assert (len(found.records), found.next_offset, found.status) == (5, 10, GetMessageStatus.FOUND)
    assert all(b"TAGS\1odd" in bytes(each) for each in found.records)
    found = store.read(QUEUE, 0, tags={ODD}, count_max=2)
    assert (len(found.records), found.next_offset) == (2, 5)
    assert len(store.read(QUEUE, 0, tags={ODD, EVEN}).records) == 10
    found = store.read(QUEUE, 3, tags={17})
    assert (found.status, found.next_offset, found.records) == (GetMessageStatus.NO_MATCHED_MESSAGE, 10, [])


def test_a_read_with_a_filter_looks_at_a_bounded_number_of_messages() -> None:
    store = open_messages(memory_disk(), MessageStoreConfig())
    append(store, count=1000, size=0)
    found = store.read(QUEUE, 0, tags={17})
    assert (found.status, found.next_offset) == (GetMessageStatus.NO_MATCHED_MESSAGE, 800)


def test_messages_are_found_by_key_newest_first_within_a_range_of_times() -> None:
    disk = memory_disk()
    store = open_messages(disk)
    for number in range(30):
        append(store, ("T", number % 2), 3, store_ms=1000 * number)
        if number % 7 == 6:
            save(store)
    assert store.derived.index.files
    for opened in (store, open_messages(kill(disk, 0))):
        found = [bytes(one) for one in opened.lookup("T", "k1", count_max=100)]
        times = [int.from_bytes(one[56:64], "big") for one in found]
        assert times == [1000 * number + 1 for number in reversed(range(30))]
        assert len(opened.lookup("T", "k1", count_max=4)) == 4
        some = opened.lookup("T", "k1", begin_ms=5001, end_ms=8001)
        assert [int.from_bytes(one[56:64], "big") for one in some] == [8001, 7001, 6001, 5001]
        assert opened.lookup("T", "k9") == opened.lookup("U", "k1") == []


def test_a_key_with_the_hash_of_another_finds_nothing() -> None:
    store = open_messages(memory_disk())
    append(store, ("T", 0), 1)
    wanted = key_hash("T", b"k0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rocketmq_compat.storage.broker_store.key_hash", lambda topic, name: wanted)
        assert len(store.lookup("T", "k0")) == 1
        assert store.lookup("T", "other") == store.lookup("U", "k0") == []


def test_an_offset_is_found_by_store_time() -> None:
    disk = memory_disk()
    store = open_messages(disk)
    append(store, OTHER, 50, store_ms=0)
    append(store, count=20, store_ms=5000)
    append(store, count=20, store_ms=9000)
    save(store)
    for opened in (store, open_messages(lose_unsynced(disk, 0))):
        cases = {0: 0, 5000: 0, 5001: 1, 5019: 19, 5020: 20, 9000: 20, 9019: 39, 9020: 40}
        assert {time: opened.offset_at_time(QUEUE, time) for time in cases} == cases
        assert opened.offset_at_time(("Nothing", 0), 5) == 0
        assert [opened.store_time(QUEUE, offset) for offset in (-1, 0, 39, 40)] == [None, 5000, 9019, None]


def test_a_queue_that_leads_to_no_record_is_damage_and_is_reported() -> None:
    disk = memory_disk()
    store = open_messages(disk)
    append(store, count=8)
    save(store)
    path = f"{DIRECTORY}/consumequeue/Orders/0-{0:020}"
    content = disk.content(path)
    assert len(content) == 8 * UNIT.size
    for bit in (8 * 7, 8 * 11 + 7, 8 * 0 + 1):
        disk.flip_bit(path, bit)
        with pytest.raises(CorruptLog, match="queue 0 of Orders has its message 0 there"):
            store.read(QUEUE, 0)
        disk.flip_bit(path, bit)
    assert len(bodies(store)) == 8
    disk.open(path, create=False).cut(100)
    with pytest.raises(CorruptLog, match="ends early"):
        store.read(QUEUE, 7)
    assert len(bodies(rebuilt(kill(disk, 0)))) == 8


# ---------------------------------------------------------------- what leaves


def test_a_trim_moves_the_first_offsets_and_removes_files() -> None:
    disk = memory_disk()
    store = open_messages(disk)
    for number in range(30):
        append(store, ("T", number % 2), 2, size=700)
    append(store, ("Rare", 0))
    save(store)
    before = [path for path in disk.paths() if "/consumequeue/T/" in path]
    half = store.log.end_offset // 2
    start = store.trim(half)
    assert half - 4096 < start <= half
    expected = queues_of(rebuilt(kill(disk, 0)))
    save(store)
    after = [path for path in disk.paths() if "/consumequeue/T/" in path]
    assert set(after) < set(before)
    again = open_messages(lose_unsynced(disk, 0))
    assert queues_of(store) == queues_of(again) == queues_of(rebuilt(kill(disk, 0)))
    assert expected.keys() == queues_of(store).keys()
    assert store.lookup("T", "k1", count_max=99) != []


def test_a_queue_whose_messages_are_all_gone_never_gives_their_offsets_again() -> None:
    disk = memory_disk()
    store = open_messages(disk)
    append(store, count=7)
    append_each(store, OTHER, 30, size=900)
    save(store)
    store.trim(store.log.end_offset - 3000)
    save(store)
    for opened in (store, open_messages(lose_unsynced(disk, 1)), open_messages(kill(disk, 2))):
        assert opened.queue(QUEUE) == (7, 7)
        assert append(opened).queue_offsets == [7]
        assert opened.queue(QUEUE) == (7, 8)
        assert len(bodies(opened)) == 1


def test_nothing_is_trimmed_that_no_checkpoint_covers() -> None:
    store = open_messages(memory_disk())
    append_each(store, QUEUE, 30, size=900)
    store.flush()
    assert store.trim(store.log.end_offset) == 0
    store.derived.save()
    assert store.trim(store.log.end_offset) == store.log.end_offset


def test_a_deleted_topic_stays_deleted_and_begins_again_at_zero() -> None:
    disk = memory_disk()
    store = open_messages(disk)
    append(store, count=20)
    append(store, ("Orders-2", 0), 3)
    save(store)
    append(store, count=5)
    store.delete_topic("Orders")
    for opened in (store, open_messages(lose_unsynced(disk, 1))):
        assert opened.queue(QUEUE) is None
        assert len(bodies(opened, ("Orders-2", 0))) == 3
    assert not [path for path in disk.paths() if "/consumequeue/Orders/" in path]
    assert append(store, count=2).queue_offsets == [0, 1]
    save(store)
    assert len(bodies(open_messages(lose_unsynced(disk, 1)))) == 2


# ---------------------------------------------------------------- opening


def test_a_store_that_was_closed_reads_nothing_again() -> None:
    disk = memory_disk()
    store = open_messages(disk)
    append(store, count=40)
    before = queues_of(store)
    store.close()
    store.close()
    again = open_messages(disk)
    assert (again.derived.report.rebuilt, again.derived.report.bytes_read) == (None, 0)
    assert queues_of(again) == before
    with pytest.raises(DirectoryLocked):
        open_messages(disk)


@pytest.mark.parametrize("damage", ["missing", "damaged", "blank"])
def test_without_its_checkpoint_everything_is_derived_again_and_that_is_reported(damage: str) -> None:
    disk = memory_disk()
    store = open_messages(disk)
    append_each(store, QUEUE, 40, size=300)
    save(store)
    before, entries = queues_of(store), entries_of(store)
    path = f"{DIRECTORY}/dispatched"
    disk = lose_unsynced(disk, 0)
    if damage == "missing":
        disk.remove(path)
    elif damage == "damaged":
        disk.flip_bit(path, 50)
    else:
        disk.open(path, create=False).cut(0)
    again = open_messages(disk)
    assert path in (again.derived.report.rebuilt or "")
    assert again.derived.report.bytes_read == store.log.end_offset
    assert (queues_of(again), entries_of(again)) == (before, entries)


@pytest.mark.parametrize("place", ["consumequeue/T/0-", "index/"])
def test_a_file_of_what_is_derived_that_is_missing_is_named_and_derived_again(place: str) -> None:
    disk = memory_disk()
    store = open_messages(disk)
    append_each(store, ("Old", 0), 5)
    append_each(store, ("T", 0), 30, size=900)
    save(store)
    store.trim(store.log.end_offset - 10_000)
    store.close()
    whole = open_messages(kill(disk, 0))
    before, entries = queues_of(whole), entries_of(whole)
    path = max(each for each in disk.paths() if each.startswith(f"{DIRECTORY}/{place}"))
    disk.remove(path)
    again = open_messages(kill(disk, 0))
    assert again.derived.report.rebuilt == f"{path} is missing"
    assert (queues_of(again), entries_of(again)) == (before, entries)
    assert append(again, ("Old", 0)).queue_offsets == [5]


def test_a_log_that_ends_before_its_checkpoint_is_refused_until_the_operator_decides() -> None:
    """A disk that lied about a sync, or lost a file: without the checkpoint that would not be known."""
    disk = memory_disk()
    store = open_messages(disk)
    append_each(store, QUEUE, 5)
    store.flush()
    lost = store.log.end_offset
    earlier = kill(disk, 0)
    append_each(store, QUEUE, 5)
    save(store)
    found = kill(disk, 0)
    for path in [each for each in found.paths() if "/commitlog/" in each]:
        file = found.open(path, create=False)
        file.cut(0)
        file.write_at(0, [earlier.content(path)])
    with pytest.raises(CorruptLog, match=f"byte {lost}.*durable up to {store.log.end_offset}"):
        open_messages(found)
    found = kill(found, 0)
    found.remove(f"{DIRECTORY}/dispatched")
    assert len(bodies(open_messages(found))) == 5


def test_damage_in_the_commit_log_is_never_dispatched() -> None:
    disk = memory_disk()
    store = open_messages(disk)
    append_each(store, QUEUE, 20, size=900)
    save(store)
    disk.remove(f"{DIRECTORY}/dispatched")
    segment = min(path for path in disk.paths() if path.endswith(".log"))
    disk.flip_bit(segment, 8 * 500)
    with pytest.raises(CorruptLog, match="checksum"):
        open_messages(kill(disk, 0))
    disk.flip_bit(segment, 8 * 500)
    assert len(bodies(open_messages(kill(disk, 0)))) == 20


def test_a_store_on_a_real_disk_is_found_again(tmp_path: Path) -> None:
    config = MessageStoreConfig()
    store = MessageStore.open(RealDisk(), str(tmp_path / "broker"), config)
    for number in range(20):
        append(store, (f"T{number % 5}", number % 3), 10)
    saving = store.begin_save()
    flush = store.begin_flush()
    flush.run()
    saving.run()
    store.end_flush(flush)
    store.end_save(saving)
    store.derived.save()
    append(store, ("T0", 0), 5)
    before, entries = queues_of(store), entries_of(store)
    store.close()
    again = MessageStore.open(RealDisk(), str(tmp_path / "broker"), config)
    assert (queues_of(again), entries_of(again)) == (before, entries)
    again.close()


def test_the_checkpoint_of_a_log_that_was_reset_is_never_taken_for_one_of_what_came_after() -> None:
    disk = memory_disk()
    store = open_messages(disk)
    append_each(store, QUEUE, 10)
    save(store)
    for back in (store.log.end_offset + 5, 7):
        store.derived.begin_reset(back)
        store.log.reset(back)
        disk = kill(disk, 0)
        store = open_messages(disk)
        append_each(store, QUEUE, 10)
        store.flush()
        disk = kill(disk, 0)
        store = open_messages(disk)
        assert len(bodies(store)) == 10


# ---------------------------------------------------------------- failing disks


def begin(seed: int) -> tuple[MemoryDisk, MessageStore]:
    """A store with a checkpoint, and more behind it."""
    disk = memory_disk(seed)
    store = open_messages(disk)
    for number in range(12):
        append(store, ("T", number % 2), 3, size=300)
    save(store)
    append(store, ("T", 0), 3)
    return disk, store


def middle(store: MessageStore) -> int:
    """The physical offset of some record that is not the first of its batch."""
    places = [place for found in store.derived.walks(0, store.log.end_offset // 2) for place in found.physical_offsets]
    return places[-1]


def trim(store: MessageStore) -> None:
    store.trim(store.log.end_offset // 2)
    save(store)


CHANGES: dict[str, Callable[[MessageStore], object]] = {
    "save": save,
    "truncate": lambda store: store.truncate(middle(store)),
    "reset": lambda store: store.reset(99_999),
    "reset back": lambda store: store.reset(7),
    "trim": trim,
    "delete": lambda store: store.delete_topic("T"),
    "close": MessageStore.close,
}


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("name", CHANGES)
def test_whichever_disk_call_fails_queues_and_index_are_those_of_the_log(name: str, fate: Fate) -> None:
    failures = 0
    for n in calls_before(fate):
        disk, store = begin(n)
        flushed = store.log.durable_offset
        disk.fail_call(n)
        with contextlib.suppress(StorageFailed):
            CHANGES[name](store)
        if not disk.failed_as_asked:
            break
        failures += 1
        for seed in range(4 if fate is cut_power else 1):
            found = fate(disk, 4 * n + seed)
            twin = kill(found, 0)
            again = open_messages(found)
            log = again.log
            if name in ("save", "trim", "close", "delete"):
                assert log.end_offset >= flushed
            if name != "delete":  # the messages are still in the log
                twin_store = rebuilt(twin)
                twin_store.trim(log.start_offset)
                if twin_store.log.start_offset == log.start_offset:
                    full = {key: each for key, each in queues_of(twin_store).items() if each.units}
                    assert {key: each for key, each in queues_of(again).items() if each.units} == full
                    assert entries_of(again) == entries_of(twin_store)
            append(again, ("T", 0), 1, epoch=5)
            save(again)
    assert failures > 5 // TURNS


@pytest.mark.parametrize("fate", FATES)
def test_no_acknowledged_message_is_lost_whichever_disk_call_fails(fate: Fate) -> None:
    """After a kill none that was appended (ASYNC_FLUSH), after a power cut none that was flushed (SYNC_FLUSH)."""
    failures = 0
    for n in calls_before(fate):
        disk = memory_disk(n)
        appended: dict[int, int] = {}
        flushed: dict[int, int] = {}
        disk.fail_call(n)
        try:
            store = open_messages(disk)
            for number in range(12):
                found = append(store, size=700, store_ms=number)
                appended[found.queue_offsets[0]] = number
                store.flush()
                flushed = dict(appended)
                if number % 3 == 2:
                    store.derived.save()
        except StorageFailed:
            failures += 1
            again = open_messages(fate(disk, n))
            kept = appended if fate is kill else flushed
            for offset, number in kept.items():
                assert again.store_time(QUEUE, offset) == number
                assert again.read(QUEUE, offset, count_max=1).status == GetMessageStatus.FOUND
            assert append(again, epoch=3).queue_offsets[0] >= len(kept)
        else:
            break
    assert failures > 50 // TURNS


def test_a_start_acts_on_no_checkpoint_that_a_power_cut_may_take_back() -> None:
    """The process was killed between the rename of the checkpoint and its sync; the next start removes files that it
    does not name.
    """
    for seed in range(40):
        disk = memory_disk(seed)
        store = open_messages(disk)
        append(store, count=10)
        save(store)
        disk.before_call = _fail_at(disk, "sync directory", DIRECTORY)
        with pytest.raises(StorageFailed):
            store.truncate(0)
        disk = kill(disk, seed)
        open_messages(disk)
        again = open_messages(cut_power(disk, seed))
        assert (again.queue(QUEUE), len(bodies(again))) == ((0, 10), 10)


def _fail_at(disk: MemoryDisk, wanted: str, path: str) -> Callable[[str, str], None]:
    def before_call(operation: str, at: str) -> None:
        disk.failing = (operation, at) == (wanted, path)

    return before_call


def test_a_full_disk_refuses_and_nothing_is_changed() -> None:
    disk = memory_disk()
    store = open_messages(disk)
    append(store, count=10, size=300)
    before, entries, end = queues_of(store), entries_of(store), store.log.end_offset
    store.flush()
    disk.capacity_bytes = disk.used_bytes()
    with pytest.raises(NoSpace):
        append(store, size=900)
    with pytest.raises(NoSpace):
        store.derived.save()
    with pytest.raises(NoSpace):
        store.truncate(end // 2)
    store.dispatch()
    assert (queues_of(store), entries_of(store), store.log.end_offset) == (before, entries, end)
    disk.capacity_bytes = None
    assert append(store).queue_offsets == [10]
    save(store)
    assert queues_of(open_messages(lose_unsynced(disk, 0))) == queues_of(store)


def test_a_checkpoint_that_is_overtaken_by_a_truncation_does_no_harm() -> None:
    disk, store = begin(0)
    store.flush()
    saving = store.begin_save()
    store.truncate(middle(store))
    saving.run()
    store.end_save(saving)
    before = queues_of(store)
    append(store, ("T", 1), 2, epoch=2)
    again = open_messages(kill(disk, 0))
    assert queues_of(again) == queues_of(store) != before
    assert queues_of(rebuilt(kill(disk, 0))) == queues_of(store)
