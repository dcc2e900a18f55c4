"""Compaction keeps the newest record of each key and all offsets. A failure leaves the log as before or after."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_compat.markers import Marker, encode_marker
from kafka_compat.partition.model import AbortedTransaction
from kafka_compat.protocol.batch_header import check_batch, encode_batch_header, read_batch_header
from kafka_compat.records import KafkaRecord, encode_records, read_records
from kafka_compat.storage import compaction as module
from kafka_compat.storage.broker_store import BrokerStore
from kafka_compat.storage.compaction import Compaction, Compactor
from kafka_compat.storage.partition_log import PartitionLog
from log.errors import NoSpace, StorageFailed
from log.memory_disk import MemoryDisk
from tests.crashes import FATES, Fate, lose_unsynced
from tests.kafka_compat.storage.partition_model import (
    PARTITION,
    memory_disk,
    new_log,
    open_broker,
    places,
    read_all,
    reopen,
)

HOUR_MS = 3_600_000
Pair = tuple[bytes | None, bytes | None]


def records_of(log: PartitionLog) -> list[KafkaRecord]:
    return [each for content in read_all(log) for each in read_records(content)]


def table_of(log: PartitionLog) -> dict[bytes | None, bytes | None]:
    """Returns a coordinator's table after it has loaded the log, without deletions."""
    table = {each.key: each.value for each in records_of(log)}
    return {key: value for key, value in table.items() if value is not None}


def fill(disk: MemoryDisk, *, keys: int = 7, batches: int = 30) -> tuple[BrokerStore, PartitionLog]:
    """Returns a durable log of several segments, with a batch per second: each key is written often, and some are
    deleted.
    """
    store, log = new_log(disk)
    rng = random.Random(1)
    for at in range(batches):
        pairs: list[Pair] = []
        for _ in range(4):
            value = None if rng.random() < 0.2 else b"%d" % at + bytes(150)
            pairs.append((b"key%d" % rng.randrange(keys), value))
        log.append_as_leader([encode_records(pairs, 1000 * at)], at // 10)
    store.flush()
    return store, log


def compact(
    log: PartitionLog, *, high_watermark: int | None = None, now_ms: int = 0, keep_ms: int = HOUR_MS
) -> Compaction:
    end = log.end_offset if high_watermark is None else high_watermark
    compaction = Compaction(log, end, now_ms, keep_ms)
    compaction.run()
    return compaction


def test_the_newest_record_of_each_key_stays_where_it_was() -> None:
    disk = memory_disk()
    _, log = fill(disk)
    before, table = records_of(log), table_of(log)
    size, sealed_end = log.size_bytes, log.store_log.segment_facts()[-1].first_index
    newest = {each.key: each.offset for each in before}
    compaction = compact(log)
    assert compaction.done
    expected = [each for each in before if newest[each.key] == each.offset or each.offset >= sealed_end]
    for found in (log, reopen(lose_unsynced(disk, 0))):
        assert records_of(found) == expected
        assert table_of(found) == table
        assert found.size_bytes < size / 2
        assert (found.start_offset, found.end_offset) == (0, 120)
    assert compaction.removed == len(before) - len(expected)
    for content in read_all(log):
        assert read_batch_header(content).last_offset_delta == 3
        assert len(list(read_records(content))) == read_batch_header(content).count
    assert all(end - start == 4 for start, end in places(log))


def test_what_is_written_anew_has_a_right_checksum_and_its_own_epoch() -> None:
    _, log = fill(memory_disk())
    epochs = log.epochs
    compact(log)
    for content in read_all(log):
        header = read_batch_header(content)
        whole = attrs.evolve(header, last_offset_delta=header.count - 1)
        assert encode_batch_header(header, content[61:]) == content[:61]
        check_batch(encode_batch_header(whole, content[61:]) + content[61:])
        assert header.leader_epoch == header.base_offset // 40
        assert header.max_timestamp == header.base_offset // 4 * 1000
    assert log.epochs == epochs


def test_a_log_goes_on_and_is_compacted_again() -> None:
    disk = memory_disk()
    store, log = fill(disk)
    compact(log)
    for at in range(20):
        log.append_as_leader([encode_records([(b"key%d" % (at % 7), b"new" + bytes(400))], at)], 5)
    store.flush()
    table = table_of(log)
    assert compact(log).removed > 0
    assert table_of(log) == table
    assert compact(log).removed == 0
    assert table_of(reopen(lose_unsynced(disk, 0))) == table


@pytest.mark.parametrize("high_watermark", range(0, 121, 7))
def test_nothing_above_the_high_watermark_counts_or_leaves(high_watermark: int) -> None:
    _, log = fill(memory_disk())
    before = records_of(log)
    newest = {each.key: each.offset for each in before if each.offset < high_watermark}
    compact(log, high_watermark=high_watermark)
    after = records_of(log)
    assert [each for each in after if each.offset >= high_watermark] == [
        record for record in before if record.offset >= high_watermark
    ]
    assert {each.key: each.offset for each in after if each.offset < high_watermark} == newest


def test_a_record_leaves_for_none_that_a_power_cut_could_take() -> None:
    disk = memory_disk()
    store, log = fill(disk)
    log.roll()
    log.append_as_leader([encode_records([(b"other", b"x")], 0)], 5)
    store.flush()
    durable = table_of(log)
    log.append_as_leader([encode_records([(b"key%d" % number, b"newer") for number in range(7)], 0)], 5)
    assert compact(log).removed > 0
    assert table_of(reopen(lose_unsynced(disk, 0))) == durable


def test_segments_that_reach_above_the_high_watermark_are_not_written_again() -> None:
    _, log = fill(memory_disk())
    facts = log.store_log.segment_facts()
    assert compact(log, high_watermark=facts[3].first_index + 1).removed > 0
    sealed = log.store_log.sealed
    assert [each.first_offset for each in sealed if not each.generation] == [each.first_index for each in facts[3:-1]]


@pytest.mark.parametrize(("now_ms", "gone"), [(0, False), (5 * HOUR_MS, True)])
def test_a_deletion_stays_for_its_time_and_leaves_with_what_it_deleted(now_ms: int, gone: bool) -> None:
    store, log = new_log(memory_disk())
    for pair in [(b"a", b"1" * 900), (b"b", b"1" * 900), (b"a", None), (b"c", b"1" * 900)]:
        log.append_as_leader([encode_records([pair], 1000)], 0)
    log.roll()
    log.append_as_leader([encode_records([(b"d", b"1")], 1000)], 0)
    store.flush()
    compaction = compact(log, now_ms=now_ms)
    kept = [(each.key, each.offset) for each in records_of(log)]
    assert kept == [(b"b", 1), *([] if gone else [(b"a", 2)]), (b"c", 3), (b"d", 4)]
    assert compaction.oldest_deletion_ms == (None if gone else 1000)


def test_what_cannot_be_read_stays_as_it_is() -> None:
    store, log = new_log(memory_disk())
    plain = encode_records([(b"a", b"1" * 900)], 1000)
    header = read_batch_header(plain)
    odd = [
        encode_batch_header(attrs.evolve(header, attributes=attributes), plain[61:]) + plain[61:]
        for attributes in (2, 4, 1, 1 << 5)
    ]
    log.append_as_leader([*odd, plain, plain, encode_records([(None, b"x")], 1)], 0)
    log.roll()
    log.append_as_leader([plain], 0)
    store.flush()
    before = read_all(log)
    assert compact(log).removed == 2
    assert read_all(log) == [*before[:4], before[6], before[7]]


def test_what_was_trimmed_within_a_segment_does_not_come_back() -> None:
    disk = memory_disk()
    store, log = fill(disk)
    log.trim(6)
    store.flush()
    table = table_of(log)
    compact(log)
    assert log.start_offset == 6
    assert table_of(reopen(lose_unsynced(disk, 0))) == table


def test_more_keys_than_fit_are_compacted_as_far_as_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK_BYTES", 100_000)
    store, log = new_log(memory_disk())
    for at in range(400):
        log.append_as_leader([encode_records([(b"k%d" % (at % 50), bytes(900))], at)], 0)
    store.flush()
    compaction = Compaction(log, log.end_offset, 0, HOUR_MS, keys_max=1)
    compaction.run()
    assert compaction.done
    assert 0 < compaction.removed < 100
    assert 50 < compaction.clean_offset < 150
    assert len(records_of(log)) == 400 - compaction.removed
    assert set(table_of(log)) == {b"k%d" % at for at in range(50)}


@given(
    pairs=st.lists(
        st.tuples(st.sampled_from([b"a", b"b", b"c", None]), st.none() | st.just(b"v" * 500)), min_size=1, max_size=60
    ),
    high_watermark=st.integers(0, 60),
    trim=st.integers(0, 60),
)
def test_what_a_reader_makes_of_the_log_stays_the_same(pairs: list[Pair], high_watermark: int, trim: int) -> None:
    store, log = new_log(memory_disk())
    for at, pair in enumerate(pairs):
        log.append_as_leader([encode_records([pair], at)], 0)
    log.trim(min(trim, log.end_offset))
    store.flush()
    table, end = table_of(log), log.end_offset
    for now_ms in (0, 10 * HOUR_MS):
        compact(log, high_watermark=min(high_watermark, end), now_ms=now_ms)
        assert {key: value for key, value in table_of(log).items() if key} == {
            key: value for key, value in table.items() if key
        }
        assert log.end_offset == end


# ---------------------------------------------------------------- what comes in between


def changed_between(change: Callable[[PartitionLog], object]) -> None:
    steps_done = 0
    for stop_at in range(100):
        disk = memory_disk()
        store, log = fill(disk, batches=60)
        compaction = Compaction(log, log.end_offset, 0, HOUR_MS)
        expected = None
        steps = compaction.steps()
        for at, work in enumerate(steps):
            if work is not None:
                work()
            if at == stop_at:
                change(log)
                expected = read_all(log)
        if expected is None:
            break
        steps_done += 1
        assert read_all(log) == expected
        assert not compaction.done
        store.flush()
        assert read_all(reopen(lose_unsynced(disk, 0))) == expected
        assert not [path for path in disk.paths() if "-" in path.rpartition("/")[2] and path.endswith(".log")]
    assert steps_done >= 10


@pytest.mark.parametrize(
    "change",
    [lambda log: log.truncate(50), lambda log: log.reset(9), lambda log: log.trim(50), lambda log: log.trim(1)],
    ids=["truncate", "reset", "trim", "trim inside"],
)
def test_a_log_that_loses_something_meanwhile_is_left_alone(
    change: Callable[[PartitionLog], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK_BYTES", 10_000)
    changed_between(change)


def test_appends_and_flushes_between_the_steps_are_kept() -> None:
    disk = memory_disk()
    store, log = fill(disk)
    table = table_of(log)
    compaction = Compaction(log, log.end_offset, 0, HOUR_MS)
    for at, work in enumerate(compaction.steps()):
        if work is not None:
            work()
        log.append_as_leader([encode_records([(b"later%d" % at, bytes(3000))], 0)], 7)
        table[b"later%d" % at] = bytes(3000)
        store.flush()
    assert compaction.done
    assert compaction.removed > 0
    assert table_of(log) == table == table_of(reopen(lose_unsynced(disk, 0)))


def test_a_pass_that_is_given_up_leaves_nothing_behind() -> None:
    for stop_at in range(4):
        disk = memory_disk()
        _, log = fill(disk)
        before, paths = read_all(log), disk.paths()
        steps = Compaction(log, log.end_offset, 0, HOUR_MS).steps()
        for _ in range(stop_at + 1):
            work = next(steps)
            if work is not None:
                work()
        steps.close()
        assert (read_all(log), disk.paths()) == (before, paths)
        assert compact(log).done


def test_a_pass_can_be_given_up_while_another_thread_writes_for_it() -> None:
    disk = memory_disk()
    _, log = fill(disk, keys=60)
    before, paths = read_all(log), disk.paths()
    steps = Compaction(log, log.end_offset, 0, HOUR_MS).steps()
    work = next(each for each in steps if each is not None)
    begun, go_on = threading.Event(), threading.Event()

    def wait(operation: str, path: str) -> None:
        if operation == "write":
            begun.set()
            assert go_on.wait(10)

    disk.before_call = wait
    with ThreadPoolExecutor(2) as threads:
        writing = threads.submit(work)
        assert begun.wait(10)
        closing = threads.submit(steps.close)
        assert not closing.done()
        go_on.set()
        assert (writing.result(30), closing.result(30)) == (None, None)
    assert (read_all(log), disk.paths()) == (before, paths)
    work()
    assert (read_all(log), disk.paths()) == (before, paths)


# ---------------------------------------------------------------- a disk that fails


@pytest.mark.parametrize("fate", FATES)
def test_whichever_call_fails_the_log_is_found_as_before_or_after(fate: Fate) -> None:
    disk = memory_disk()
    _, log = fill(disk)
    before = read_all(log)
    compact(log)
    after = read_all(log)
    seen = []
    for n in range(1, 200):
        disk = memory_disk(n)
        _, log = fill(disk)
        disk.fail_call(n)
        try:
            compact(log)
        except StorageFailed:
            seen.append(read_all(reopen(fate(disk, n))))
            assert seen[-1] in (before, after)
        else:
            break
    assert len(seen) > 15
    assert seen[0] == before


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    failures = 0
    for room in range(0, 20_000, 1000):
        disk = memory_disk()
        _, log = fill(disk, keys=60)
        before = read_all(log)
        disk.capacity_bytes = disk.used_bytes() + room
        try:
            compact(log)
        except NoSpace:
            failures += 1
            assert read_all(log) == before
            disk.capacity_bytes = None
            assert compact(log).done
    assert failures > 2


# ---------------------------------------------------------------- when it is worth it


def begin(compactor: Compactor, log: PartitionLog, now_ms: int = 0) -> Compaction | None:
    compaction = compactor.begin(log, high_watermark=log.end_offset, now_ms=now_ms, delete_retention_ms=HOUR_MS)
    if compaction is not None:
        compaction.run()
    return compaction


def test_a_log_is_compacted_again_once_half_of_it_is_new_or_a_deletion_may_go() -> None:
    compactor = Compactor()
    store, log = fill(memory_disk())
    assert begin(compactor, log) is not None
    assert begin(compactor, log) is None
    log.append_as_leader([encode_records([(b"key1", b"x")], 0)], 5)
    store.flush()
    assert begin(compactor, log) is None
    for at in range(30):
        log.append_as_leader([encode_records([(b"key1", bytes(900))], at)], 5)
    store.flush()
    assert begin(compactor, log) is not None
    assert begin(compactor, log) is None
    store.create({PARTITION: b"V" * 16})
    log = store.log(PARTITION)
    for _ in range(2):
        log.append_as_leader([encode_records([(b"key1", b"x")], 0)], 5)
        log.roll()
    store.flush()
    assert begin(compactor, log) is not None


def test_a_deletion_that_became_old_is_worth_a_pass() -> None:
    compactor = Compactor()
    store, log = new_log(memory_disk())
    for pair in [(b"a", b"1" * 900), (b"a", None), (b"b", b"1" * 900), (b"c", None)]:
        log.append_as_leader([encode_records([pair], 1000 if pair[0] == b"a" else 2000)], 0)
    log.roll()
    log.append_as_leader([encode_records([(b"d", b"1")], 1000)], 0)
    store.flush()
    first = begin(compactor, log, HOUR_MS)
    assert first is not None
    assert first.oldest_deletion_ms == 1000
    assert begin(compactor, log, HOUR_MS + 1000) is None
    later = begin(compactor, log, HOUR_MS + 1001)
    assert later is not None
    assert (later.removed, later.oldest_deletion_ms) == (1, 2000)
    assert begin(compactor, log, HOUR_MS + 2000) is None
    assert begin(compactor, log, HOUR_MS + 2001) is not None
    assert begin(compactor, log, HOUR_MS + 2001) is None


def test_a_log_without_a_sealed_segment_is_worth_no_pass() -> None:
    """Else a host that takes one log at a time would never come to the next one."""
    store, log = new_log(memory_disk())
    log.append_as_leader([encode_records([(b"a", b"1"), (b"a", b"2")], 0)], 0)
    store.flush()
    assert begin(Compactor(), log) is None
    assert compact(log).done
    log.roll()
    log.append_as_leader([encode_records([(b"a", b"1")], 0)], 0)
    assert begin(Compactor(), log) is None
    store.flush()
    assert Compactor().begin(log, high_watermark=1, now_ms=0, delete_retention_ms=0) is None
    assert begin(Compactor(), log) is not None
    assert len(records_of(log)) == 1


def test_a_pass_that_was_given_up_is_begun_again() -> None:
    compactor = Compactor()
    _, log = fill(memory_disk())
    for _ in range(2):
        compaction = compactor.begin(log, high_watermark=log.end_offset, now_ms=0, delete_retention_ms=HOUR_MS)
        assert compaction is not None
        assert not compaction.done
    compactor.forget(log.name)
    assert begin(compactor, log) is not None
    assert open_broker(memory_disk()).logs == {}


# ---------------------------------------------------------------- transactions


def transact(log: PartitionLog, producer: int, pairs: list[Pair], commits: bool | None, time_ms: int = 0) -> None:
    """A batch of a producer's transaction, and unless `commits` is None its end, in a segment of their own."""
    log.append_as_leader([encode_records(pairs, time_ms, producer=(producer, 0))], 0)
    if commits is not None:
        log.append_as_leader([encode_marker(Marker(producer, 0, commits, 0), time_ms)], 0)
    log.roll()


def left_of(log: PartitionLog) -> list[tuple[int, int, str]]:
    """Offset, producer and content of each batch."""
    headers = ((read_batch_header(each), each) for each in read_all(log))
    return [
        (
            header.base_offset,
            header.producer_id,
            "marker" if header.is_control else str(next(iter(read_records(each))).value),
        )
        for header, each in headers
    ]


def test_what_was_aborted_takes_no_ones_place_and_leaves() -> None:
    store, log = new_log(memory_disk())
    transact(log, 7, [(b"k", b"committed")], True)
    transact(log, 7, [(b"k", b"aborted"), (b"l", b"aborted")], False)
    transact(log, 8, [(b"other", b"last")], True)
    store.flush()
    compaction = Compaction(log, log.end_offset, 0, HOUR_MS, aborted=(AbortedTransaction(7, 2, 4),))
    compaction.run()
    assert left_of(log) == [
        (0, 7, "b'committed'"),
        (1, 7, "marker"),
        (4, 7, "marker"),
        (5, 8, "b'last'"),
        (6, 8, "marker"),
    ]
    assert log.producers_on_disk().open == {}


def test_a_marker_leaves_with_the_last_record_of_its_transaction_once_it_is_old() -> None:
    """Before that, a restart would find the transaction open."""
    store, log = new_log(memory_disk())
    transact(log, 7, [(b"k", b"1"), (b"l", b"1")], True)
    transact(log, 7, [(b"k", b"2")], True)
    transact(log, 8, [(b"l", b"3")], True)
    transact(log, 9, [(b"other", b"4")], True)
    store.flush()
    young = Compaction(log, log.end_offset, HOUR_MS, HOUR_MS)
    young.run()
    assert [each[0] for each in left_of(log)] == [2, 3, 4, 5, 6, 7, 8]
    assert young.oldest_deletion_ms == 0
    Compaction(log, log.end_offset, HOUR_MS + 1, HOUR_MS).run()
    assert [each[0] for each in left_of(log)] == [3, 4, 5, 6, 7, 8]
    assert (log.producers_on_disk().open, log.producers_on_disk().aborted) == ({}, [])
