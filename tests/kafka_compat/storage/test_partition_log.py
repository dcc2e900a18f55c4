"""The log of a partition: the bytes that an append changes, the results of reads, and the state after a restart."""

import random
from collections.abc import Callable

import attrs
import pytest

from kafka_compat.markers import Marker, encode_marker
from kafka_compat.protocol.batch_header import CHECKED_AT, check_batch, encode_batch_header, read_batch_header
from kafka_compat.records import encode_records
from kafka_compat.storage.broker_store import BrokerStore
from kafka_compat.storage.partition_log import SNAPSHOT_EVERY_BYTES, PartitionLog
from kafka_compat.storage.producer_snapshots import KeptProducers, replay_into
from log.errors import CorruptLog, NoSpace, OffsetOutOfRange, StorageFailed
from log.memory_disk import MemoryDisk
from tests.crashes import FATES, Fate, kill, lose_unsynced
from tests.kafka_compat.storage.partition_model import (
    PARTITION,
    at,
    batch,
    memory_disk,
    new_log,
    open_broker,
    places,
    read_all,
    reopen,
)


def filled_store(disk: MemoryDisk, count: int = 20, *, per_batch: int = 3) -> tuple[BrokerStore, PartitionLog]:
    """A durable log of several segments; each batch is 10 ms younger, and each fifth one of a new epoch."""
    store, log = new_log(disk)
    for number in range(count):
        times = [1000 + 10 * number + each for each in range(per_batch)]
        log.append_as_leader(
            [batch(per_batch, size=200, times=times, producer=(7, 0, number * per_batch))], number // 5
        )
    store.flush()
    return store, log


def fill(disk: MemoryDisk) -> PartitionLog:
    return filled_store(disk)[1]


# ---------------------------------------------------------------- append


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_leader_writes_offset_and_epoch_and_no_other_byte(kind: Callable[[bytes], bytes]) -> None:
    _, log = new_log(memory_disk())
    sent = [batch(3, mark="a"), batch(2, mark="b")]
    assert log.append_as_leader([kind(each) for each in sent], 4) == (0, 5)
    assert log.append_as_leader([kind(sent[0])], 6) == (5, 8)
    assert read_all(log) == [at(sent[0], 0, 4), at(sent[1], 3, 4), at(sent[0], 5, 6)]
    for found, before in zip(read_all(log), [*sent, sent[0]], strict=True):
        check_batch(found)
        assert found[CHECKED_AT:] == before[CHECKED_AT:]
    assert log.epochs == [(4, 0), (6, 5)]
    assert log.end_of_epoch(5) == (4, 5)


def test_the_buffer_of_an_append_may_be_used_again() -> None:
    _, log = new_log(memory_disk())
    buffer = bytearray(batch(1, mark="a"))
    log.append_as_leader([buffer], 0)
    buffer[:] = bytes(len(buffer))
    assert read_all(log) == [at(batch(1, mark="a"), 0, 0)]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_follower_keeps_every_byte_and_may_have_gaps(kind: Callable[[bytes], bytes]) -> None:
    _, log = new_log(memory_disk())
    sent = [at(batch(3), 10, 2), at(batch(1), 20, 5)]
    assert log.append_as_follower([kind(each) for each in sent]) == (10, 21)
    assert read_all(log) == sent
    assert log.epochs == [(2, 10), (5, 20)]
    assert log.append_as_follower([]) == (21, 21)


def test_what_does_not_follow_the_log_is_refused_and_changes_nothing() -> None:
    _, log = new_log(memory_disk())
    log.append_as_follower([at(batch(3), 10, 2)])
    before = read_all(log)
    whole = batch()
    for wrong in (
        [at(whole, 12, 2)],
        [at(whole, 13, 1)],
        [at(whole, 13, -1)],
        [at(whole, 13, 2), at(whole, 13, 2)],
        [at(whole, 13, 2)[:-1]],
        [at(whole, 13, 2) + b"-"],
        [at(whole, 13, 2)[:60]],
        [b""],
    ):
        with pytest.raises(ValueError, match=r"does not follow|not one batch"):
            log.append_as_follower(wrong)
    for bad in ([whole[:-1]], [whole[:60]], [b""], [whole + whole], [whole[:16] + b"\1" + whole[17:]]):
        with pytest.raises(ValueError, match="not one batch"):
            log.append_as_leader(bad, 2)
    with pytest.raises(ValueError, match="does not follow"):
        log.append_as_leader([whole], 1)
    negative = attrs.evolve(read_batch_header(whole), last_offset_delta=-1)
    with pytest.raises(ValueError, match="not one batch"):
        log.append_as_leader([encode_batch_header(negative, whole[61:]) + whole[61:]], 2)
    assert read_all(log) == before
    assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 13, 2)


def test_changes_are_counted_when_something_leaves_the_log() -> None:
    store, log = filled_store(memory_disk())
    counts = [log.changes]
    for call in (
        lambda: log.append_as_leader([batch()], 9),
        store.flush,
        lambda: log.trim(0),
        lambda: log.trim(4),
        lambda: log.trim(4),
        lambda: log.truncate(99),
        lambda: log.truncate(30),
        lambda: log.reset(30),
    ):
        call()
        counts.append(log.changes)
    assert counts == [0, 0, 0, 0, 1, 1, 1, 2, 3]


def test_epoch_zero_is_an_epoch_and_none_is_minus_one() -> None:
    _, log = new_log(memory_disk())
    assert (log.last_epoch, log.epochs, log.end_of_epoch(0)) == (-1, [], None)
    log.append_as_leader([batch()], 0)
    assert (log.last_epoch, log.epochs, log.end_of_epoch(7)) == (0, [(0, 0)], (0, 1))


def test_segments_end_before_they_would_be_longer() -> None:
    disk = memory_disk()
    log = fill(disk)
    facts = log.store_log.segment_facts()
    assert len(facts) > 3
    assert all(2000 < each.size_bytes <= 4096 for each in facts[:-1])
    log.segment_bytes = 1 << 20
    for _ in range(20):
        log.append_as_leader([batch(size=1000)], 9)
    assert len(log.store_log.segment_facts()) == len(facts)
    again = reopen(disk.after_kill(random.Random(0)))
    again.append_as_leader([batch(size=1000)], 9)
    assert len(again.store_log.segment_facts()) == len(facts) + 1


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    disk = memory_disk()
    log = fill(disk)
    before = read_all(log)
    disk.capacity_bytes = disk.used_bytes() + 100
    with pytest.raises(NoSpace):
        log.append_as_leader([batch(size=1000)], 9)
    assert read_all(log) == before
    log.write_snapshot(KeptProducers(dict.fromkeys(range(100), (0, ((0, 0, 0, 0),)))))
    assert read_all(log) == before
    disk.capacity_bytes = None
    log.append_as_leader([batch(size=1000)], 9)
    assert len(read_all(log)) == len(before) + 1


# ---------------------------------------------------------------- read


def test_a_read_begins_with_the_batch_that_holds_the_offset_and_keeps_to_its_bounds() -> None:
    log = fill(memory_disk())
    everything = read_all(log)
    size = len(everything[0]) + 80
    assert [bytes(each) for each in log.read(4, 1)] == everything[1:2]
    assert [bytes(each) for each in log.read(3, 3 * size)] == everything[1:4]
    assert [bytes(each) for each in log.read(0, 1 << 20, 9)] == everything[:3]
    assert [bytes(each) for each in log.read(0, 1 << 20, 8)] == everything[:2]
    assert log.read(0, 1 << 20, 2) == []
    assert log.read(9, 1 << 20, 9) == []
    assert log.read(60, 1 << 20) == []
    for outside in (-1, 61):
        with pytest.raises(OffsetOutOfRange):
            log.read(outside, 1)


def test_headers_are_those_of_the_batches_between() -> None:
    log = fill(memory_disk())
    assert places(log) == [(each * 3, each * 3 + 3) for each in range(20)]
    assert [each.base_offset for each in log.headers(7, 13)] == [6, 9, 12]
    assert [each.base_offset for each in log.headers(58)] == [57]
    assert list(log.headers(60)) == []
    assert len(list(log.headers(0, 1 << 60))) == 20
    log.trim(10)
    assert [each.base_offset for each in log.headers(0, 13)] == [9, 12]


def test_damage_is_found_when_it_is_read() -> None:
    disk = memory_disk()
    log = fill(disk)
    path = next(each for each in disk.paths() if each.endswith(".log"))
    disk.flip_bit(path, 8 * 300)
    with pytest.raises(CorruptLog):
        log.read(0, 1)
    assert len(log.read(log.store_log.segment_facts()[1].first_index, 1)) == 1


# ---------------------------------------------------------------- truncate, reset, trim


@pytest.mark.parametrize(
    ("offset", "end"), [(60, 60), (59, 57), (57, 57), (31, 30), (30, 30), (1, 0), (0, 0), (99, 60)]
)
def test_a_truncation_removes_whole_batches_and_their_epochs(offset: int, end: int) -> None:
    disk = memory_disk()
    log = fill(disk)
    before = read_all(log)
    assert log.truncate(offset) == end
    for found in (log, reopen(disk.after_crash(random.Random(1), loss=None))):
        assert found.end_offset == end
        assert read_all(found) == before[: end // 3]
        assert found.epochs == [(epoch, epoch * 15) for epoch in range(4) if epoch * 15 < end]


def test_a_truncation_before_the_start_leaves_an_empty_log_that_goes_on_there() -> None:
    disk = memory_disk()
    log = fill(disk)
    log.trim(40)
    assert log.truncate(20) == 20
    for found in (log, reopen(lose_unsynced(disk, 0))):
        assert (found.start_offset, found.end_offset, found.epochs) == (20, 20, [])
    log.append_as_leader([batch()], 1)
    assert places(log) == [(20, 21)]


def test_a_reset_log_goes_on_where_it_was_told_with_any_epoch() -> None:
    disk = memory_disk()
    log = fill(disk)
    log.reset(1000)
    for found in (reopen(lose_unsynced(disk, 0)), log):
        assert (found.start_offset, found.end_offset, found.last_epoch, found.durable_offset) == (1000, 1000, -1, 1000)
        assert found.append_as_leader([batch(2)], 0) == (1000, 1002)


@pytest.mark.parametrize("offset", [1, 3, 31, 59, 60])
@pytest.mark.parametrize("fate", FATES)
def test_the_start_moves_to_the_very_offset_and_stays_there(offset: int, fate: Fate) -> None:
    disk = memory_disk()
    store, log = filled_store(disk)
    assert log.trim(offset) == offset
    store.flush()
    for found in (log, reopen(fate(disk, 0))):
        assert (found.start_offset, found.end_offset) == (offset, 60)
        assert [start for start, _ in places(found)] == [start for start in range(0, 60, 3) if start + 3 > offset]
        with pytest.raises(OffsetOutOfRange):
            found.read(offset - 1, 1)
        epochs = [(epoch, max(epoch * 15, offset)) for epoch in range(4) if epoch * 15 + 15 > offset]
        assert found.epochs == (epochs or [(3, 60)])


# ---------------------------------------------------------------- by time


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        (-5, (0, 1000)),
        (0, (0, 1000)),
        (1000, (0, 1000)),
        (1001, (1, 1001)),
        (1003, (3, 1010)),
        (1192, (59, 1192)),
        (1193, None),
    ],
)
def test_a_record_is_found_by_its_time(since: int, expected: tuple[int, int] | None) -> None:
    disk = memory_disk()
    assert fill(disk).find_time(since) == expected
    assert reopen(lose_unsynced(disk, 0)).find_time(since) == expected


def test_records_before_the_start_are_not_found_by_time() -> None:
    _, log = new_log(memory_disk())
    log.append_as_leader([batch(3, times=[10, 30, 20]), batch(2, times=[15, 25])], 0)
    log.trim(1)
    assert log.find_time(0) == (1, 30)
    log.trim(2)
    assert log.find_time(0) == (2, 20)
    assert log.find_time(21) == (4, 25)
    assert log.find_time(26) is None
    assert log.find_newest_time() == (4, 25)


def test_batches_without_a_time_are_older_than_any_time() -> None:
    _, log = new_log(memory_disk())
    log.append_as_leader([batch(times=-1), batch(times=5)], 0)
    assert log.find_time(0) == (1, 5)
    assert log.find_time(-1) == (0, -1)
    assert log.find_newest_time() == (1, 5)


def test_the_record_with_the_greatest_time_is_the_first_of_them() -> None:
    disk = memory_disk()
    store, log = new_log(disk)
    assert log.find_newest_time() is None
    for times in ([10, 50, 20], [50, 50, 10], [40, 30, 20]):
        log.append_as_leader([batch(3, times=times, size=800)], 0)
    assert log.find_newest_time() == (1, 50)
    store.flush()
    assert reopen(lose_unsynced(disk, 0)).find_newest_time() == (1, 50)
    log.trim(2)
    assert log.find_newest_time() == (3, 50)
    log.trim(6)
    assert log.find_newest_time() == (6, 40)
    log.trim(7)
    assert log.find_newest_time() == (7, 30)
    log.trim(9)
    assert log.find_newest_time() is None


# ---------------------------------------------------------------- producers


def replay(log: PartitionLog) -> KeptProducers:
    producers = KeptProducers()
    replay_into(producers, log.walk())
    return producers


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("taken_at", [(), (7,), (7, 13), (3, 7, 13, 20)])
def test_producers_are_known_after_a_restart_with_and_without_snapshots(taken_at: tuple[int, ...], fate: Fate) -> None:
    disk = memory_disk()
    store, log = new_log(disk)
    for number in range(20):
        log.append_as_leader([batch(3, times=number, producer=(number % 3, number // 12, number))], 0)
        if number + 1 in taken_at:
            log.write_snapshot(replay(log))
    expected = replay(log)
    store.flush()
    found = reopen(fate(disk, 3))
    assert found.take_producers() == expected
    assert found.take_producers() == KeptProducers()
    assert {each: epoch for each, (epoch, _) in expected.by_id.items()} == {0: 1, 1: 1, 2: 1}


@pytest.mark.parametrize("taken_at", [(), (1,), (2, 4), (6,)])
def test_transactions_are_known_after_a_restart_with_and_without_snapshots(taken_at: tuple[int, ...]) -> None:
    disk = memory_disk()
    _, log = new_log(disk)
    contents = [
        encode_records([(None, b"7")], 1, producer=(7, 0)),
        encode_records([(None, b"8")], 1, producer=(8, 3)),
        encode_marker(Marker(7, 0, False, 4), 1),
        encode_records([(None, b"7")], 1, producer=(7, 0)),
        encode_marker(Marker(8, 4, True, 5), 1),
        encode_marker(Marker(9, 0, True, 5), 1),
    ]
    for number, content in enumerate(contents):
        log.append_as_leader([content], 0)
        if number + 1 in taken_at:
            log.write_snapshot(log.producers_on_disk())
    found = reopen(kill(disk, 3)).take_producers()
    assert found == replay(log)
    assert found.open == {7: 3}
    assert found.aborted == [(7, 0, 2)]
    assert found.ending == [(0, 2), (1, 4)]
    assert found.coordinator_epochs == {7: 4, 8: 5, 9: 5}
    assert {each: epoch for each, (epoch, _) in found.by_id.items()} == {7: 0, 8: 4, 9: 0}
    log.truncate(2)
    assert log.producers_on_disk().open == {7: 0, 8: 1}
    assert log.producers_on_disk().aborted == []


def test_a_snapshot_is_taken_for_what_lies_before_it() -> None:
    """Else a restart would gain nothing by it."""
    disk = memory_disk()
    _, log = new_log(disk)
    log.append_as_leader([batch(producer=(1, 0, 0))], 0)
    log.write_snapshot(KeptProducers({5: (9, ((1, 2, 3, 4),))}))
    log.append_as_leader([batch(2, times=7, producer=(1, 0, 1))], 0)
    found = reopen(kill(disk, 0))
    assert found.take_producers().by_id == {5: (9, ((1, 2, 3, 4),)), 1: (0, ((1, 2, 2, 7),))}


def test_a_snapshot_is_due_when_a_segment_ends_and_after_many_bytes() -> None:
    _, log = new_log(memory_disk())
    due = []
    while len(log.store_log.segment_facts()) < 3:
        log.append_as_leader([batch(size=900)], 0)
        due.append(log.snapshot_due)
        if log.snapshot_due:
            log.write_snapshot(KeptProducers())
            assert not log.snapshot_due
    assert due == [*[False] * 3, True, *[False] * 2, True]
    log.segment_bytes = 1 << 30
    large = batch(size=SNAPSHOT_EVERY_BYTES // 4)
    for expected in (False, False, False, True):
        log.append_as_leader([large], 0)
        assert log.snapshot_due is expected


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("reset", [False, True])
def test_a_snapshot_is_not_taken_for_the_state_of_what_follows_a_truncation(fate: Fate, reset: bool) -> None:
    disk = memory_disk()
    store, log = new_log(disk)
    for number in range(4):
        log.append_as_leader([batch(producer=(1, 0, number))], 0)
        log.write_snapshot(replay(log))
    store.flush()
    disk = kill(disk, 0)
    store = open_broker(disk)
    log = store.log(PARTITION)
    if reset:
        log.reset(1)
    else:
        log.truncate(1)
    for number in range(6):
        log.append_as_leader([batch(producer=(2, 0, number))], 1)
    store.flush()
    expected = replay(log)
    assert reopen(fate(disk, 0)).take_producers() == expected


# ---------------------------------------------------------------- a disk that fails


def state(log: PartitionLog) -> tuple[object, ...]:
    return log.start_offset, log.end_offset, tuple(read_all(log)), tuple(log.epochs), repr(log.take_producers())


CHANGES: dict[str, Callable[[BrokerStore, PartitionLog], object]] = {
    "truncate": lambda store, log: log.truncate(31),
    "reset": lambda store, log: log.reset(500),
    "below": lambda store, log: log.truncate(2),
    "trim": lambda store, log: (log.trim(32), log.store_log.flush()),
}


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("name", CHANGES)
def test_whichever_call_fails_the_log_is_found_as_before_or_after(name: str, fate: Fate) -> None:
    def begin(seed: int) -> tuple[MemoryDisk, BrokerStore, PartitionLog]:
        disk = memory_disk(seed)
        store, log = filled_store(disk)
        log.trim(4)
        log.write_snapshot(replay(log))
        store.flush()
        return disk, store, log

    disk, store, log = begin(0)
    before = state(reopen(lose_unsynced(disk, 0)))
    CHANGES[name](store, log)
    after = state(reopen(lose_unsynced(disk, 0)))
    assert before[:2] != after[:2]
    seen = []
    for n in range(1, 200):
        disk, store, log = begin(n)
        disk.fail_call(n)
        try:
            CHANGES[name](store, log)
        except StorageFailed:
            seen.append(state(reopen(fate(disk, n))))
            assert seen[-1] in (before, after)
        else:
            break
    assert len(seen) > 6
    assert seen[0] == before


@pytest.mark.parametrize("fate", FATES)
def test_what_was_flushed_survives_an_append_that_fails(fate: Fate) -> None:
    failures = 0
    for n in range(1, 20):
        disk = memory_disk(n)
        store, log = filled_store(disk)
        before = read_all(log)
        disk.fail_call(n)
        try:
            for _ in range(5):
                log.append_as_leader([batch(size=2000)], 9)
            store.flush()
        except StorageFailed:
            failures += 1
            found = read_all(reopen(fate(disk, n)))
            assert found[: len(before)] == before
            with pytest.raises(StorageFailed):
                log.read(0, 1)
            with pytest.raises(StorageFailed):
                log.append_as_leader([batch()], 9)
            assert log.failed is not None
    assert failures > 10
