"""Compaction keeps the newest record of each key and all offsets. A failure leaves the log as before or after."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_compat.compression import compress
from kafka_compat.config import CompactionRule
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
from tests.crashes import FATES, TURNS, Fate, calls_before, lose_unsynced
from tests.kafka_compat.storage.compaction_world import play
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
RULE = CompactionRule(delete_retention_ms=HOUR_MS)
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


def test_a_deletion_stays_for_its_time_from_when_a_pass_found_it() -> None:
    """Its record may be older: a reader who has seen what it deletes has `delete.retention.ms` to come to it."""
    disk = memory_disk()
    store, log = new_log(disk)
    for pairs in ([(b"a", b"1" * 900)], [(b"b", b"1" * 900), (b"a", None)], [(b"c", b"1" * 900)]):
        log.append_as_leader([encode_records(pairs, [1000 + at for at in range(len(pairs))])], 0)
    log.roll()
    log.append_as_leader([encode_records([(b"d", b"1")], 1000)], 0)
    store.flush()
    found_ms = 50 * HOUR_MS
    compaction = compact(log, now_ms=found_ms)
    left = [(b"b", 1, 1000), (b"a", 2, 1001), (b"c", 3, 1000), (b"d", 4, 1000)]
    assert compaction.next_deletion_ms == found_ms + HOUR_MS
    for now_ms in (found_ms + 1, found_ms + HOUR_MS):
        assert [(each.key, each.offset, each.timestamp_ms) for each in records_of(log)] == left
        assert [read_batch_header(each).delete_horizon_ms for each in read_all(log)] == [found_ms + HOUR_MS, None, None]
        assert compact(log, now_ms=now_ms).removed == 0
    log = reopen(lose_unsynced(disk, 0))
    assert log.find_time(1001) == (2, 1001)
    assert compact(log, now_ms=found_ms + HOUR_MS + 1).next_deletion_ms is None
    del left[1]
    assert [(each.key, each.offset, each.timestamp_ms) for each in records_of(log)] == left
    assert [read_batch_header(each).delete_horizon_ms for each in read_all(log)] == [None, None, None]


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_what_stays_of_a_compressed_batch_is_compressed(codec: int) -> None:
    store, log = new_log(memory_disk())
    plain = encode_records([(b"key%d" % (at % 400), b"v" * 100) for at in range(500)], 1000)
    body = bytes(compress(codec, plain[61:], 1))
    log.append_as_leader(
        [encode_batch_header(attrs.evolve(read_batch_header(plain), attributes=codec), body) + body], 0
    )
    log.roll()
    log.append_as_leader([encode_records([(b"d", b"1")], 1000)], 0)
    store.flush()
    assert compact(log).removed == 100
    (content, _) = read_all(log)
    assert read_batch_header(content).compression == codec
    assert len(content) < len(plain) / 5
    assert [each.offset for each in read_records(content)] == list(range(100, 500))


def test_the_last_batch_of_a_producer_stays_without_its_records() -> None:
    """A new copy of the log would else refuse the producer's next batch as out of order."""
    store, log = new_log(memory_disk())
    for sequence, key in enumerate((b"a", b"b")):
        plain = encode_records([(key, b"v" * 900)], 1000 + sequence)
        header = attrs.evolve(read_batch_header(plain), producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.append_as_leader([encode_batch_header(header, plain[61:]) + plain[61:]], 0)
    log.append_as_leader([encode_records([(b"b", b"v")], 500)], 0)
    log.roll()
    log.append_as_leader([encode_records([(b"d", b"1")], 900)], 0)
    store.flush()
    compaction = Compaction(log, log.end_offset, 0, HOUR_MS, producers={7: 1})
    compaction.run()
    assert [(each.key, each.offset) for each in records_of(log)] == [(b"a", 0), (b"b", 2), (b"d", 3)]
    _, copy = new_log(memory_disk())
    copy.append_as_follower([each.tobytes() for each in log.read(0, 1 << 20)])
    for found in (log, copy):
        assert [read_batch_header(each).count for each in read_all(found)] == [1, 0, 1, 1]
        assert found.producers_on_disk().by_id[7][1][-1][:3] == (1, 1, 1)
        assert found.find_newest_time() == (0, 1000)
        assert found.find_time(1001) is None
    log.append_as_leader([encode_records([(b"a", b"v")], 500)], 0)
    log.roll()
    store.flush()
    Compaction(log, log.end_offset, 0, HOUR_MS).run()
    assert [read_batch_header(each).base_offset for each in read_all(log)] == [2, 3, 4]


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


def test_more_keys_than_fit_are_compacted_in_several_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK_BYTES", 100_000)
    compactor = Compactor()
    store, log = new_log(memory_disk())
    for at in range(400):
        log.append_as_leader([encode_records([(b"k%d" % (at % 50), bytes(900))], at)], 0)
    log.roll()
    log.append_as_leader([encode_records([(b"other", b"")], 400)], 0)
    store.flush()
    reached = []
    rule = attrs.evolve(RULE, dirty_ratio=0.0)
    while (compaction := compactor.begin(log, rule, high_watermark=log.end_offset, now_ms=0)) is not None:
        compaction.keys_bytes_max = 1
        compaction.run()
        assert compaction.done
        reached.append(compaction.clean_offset)
    assert 50 < reached[0] < 150
    assert len(reached) >= 4
    assert reached[-1] == 400
    assert len(records_of(log)) == 51
    assert set(table_of(log)) == {b"other", *(b"k%d" % at for at in range(50))}


def test_what_is_written_anew_after_a_cut_is_looked_at_again() -> None:
    compactor = Compactor()
    store, log = fill(memory_disk())
    assert begin(compactor, log) is not None
    log.truncate(40)
    for at in range(20):
        log.append_as_leader([encode_records([(b"key%d" % (at % 7), b"new" + bytes(400))], at)], 5)
    log.roll()
    log.append_as_leader([encode_records([(b"other", b"")], 400)], 5)
    store.flush()
    again = begin(compactor, log)
    assert again is not None
    assert len(records_of(log)) == 8


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
            work()
        steps.close()
        assert (read_all(log), disk.paths()) == (before, paths)
        assert compact(log).done


def test_a_pass_can_be_given_up_while_another_thread_writes_for_it() -> None:
    disk = memory_disk()
    _, log = fill(disk, keys=60)
    before, paths = read_all(log), disk.paths()
    steps = Compaction(log, log.end_offset, 0, HOUR_MS).steps()
    for _ in range(2):
        next(steps)()
    work = next(steps)
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
    for n in calls_before(fate):
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
    assert len(seen) > 15 // TURNS
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
    compaction = compactor.begin(log, RULE, high_watermark=log.end_offset, now_ms=now_ms)
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


@pytest.mark.parametrize("ratio", [0.0, 0.3, 0.5, 0.8, 1.0])
def test_a_pass_is_due_with_a_greater_share_that_none_has_looked_at(ratio: float) -> None:
    compactor, rule = Compactor(), attrs.evolve(RULE, dirty_ratio=ratio)
    store, log = new_log(memory_disk())
    for at in range(40):
        log.append_as_leader([encode_records([(b"k%d" % at, bytes(900))], at)], 0)
        log.roll()
        store.flush()
        sealed = [each.size_bytes for each in log.store_log.sealed]
        clean = max((each.clean_offset for each in compactor._passes.values()), default=0)
        dirty = sum(sealed[clean:])
        compaction = compactor.begin(log, rule, high_watermark=log.end_offset, now_ms=0)
        assert (compaction is not None) == (bool(dirty) and dirty > ratio * sum(sealed))
        if compaction is not None:
            compaction.run()


def test_a_segment_with_a_young_record_is_not_looked_at() -> None:
    store, log = new_log(memory_disk())
    for time_ms in (1000, 2000, 3000, 1000, 4000):
        log.append_as_leader([encode_records([(b"k", b"1")], time_ms)], 0)
        log.roll()
    store.flush()
    rule = attrs.evolve(RULE, min_lag_ms=HOUR_MS)
    left = []
    for now_ms in (1000, 1999, 2000, 3000, 4000, 5000):
        compaction = Compactor().begin(log, rule, high_watermark=log.end_offset, now_ms=HOUR_MS + now_ms)
        if compaction is not None:
            compaction.run()
        left.append([each.offset for each in records_of(log)])
    # The first is removed for the second, which is old enough as well; the last segment is the newest record's.
    assert left == [[0, 1, 2, 3, 4]] * 2 + [[1, 2, 3, 4], [3, 4], [4], [4]]


def test_an_old_record_makes_a_pass_due_by_itself() -> None:
    compactor, rule = Compactor(), attrs.evolve(RULE, dirty_ratio=1.0, max_lag_ms=HOUR_MS)
    store, log = new_log(memory_disk())
    for time_ms in (1000, 2000):
        log.append_as_leader([encode_records([(b"k", b"1")], time_ms)], 0)
        log.roll()
    store.flush()
    assert compactor.begin(log, rule, high_watermark=log.end_offset, now_ms=HOUR_MS + 1000) is None
    compaction = compactor.begin(log, rule, high_watermark=log.end_offset, now_ms=HOUR_MS + 1001)
    assert compaction is not None
    compaction.run()
    assert [each.offset for each in records_of(log)] == [1]
    assert compactor.begin(log, rule, high_watermark=log.end_offset, now_ms=9 * HOUR_MS) is None


def test_a_deletion_that_became_old_is_worth_a_pass() -> None:
    compactor = Compactor()
    store, log = new_log(memory_disk())
    for pair in [(b"a", b"1" * 900), (b"a", None), (b"b", b"1" * 900)]:
        log.append_as_leader([encode_records([pair], 1000)], 0)
    log.roll()
    log.append_as_leader([encode_records([(b"d", b"1")], 1000)], 0)
    store.flush()
    first = begin(compactor, log, 5000)
    assert first is not None
    assert first.next_deletion_ms == HOUR_MS + 5000
    assert begin(compactor, log, HOUR_MS + 5000) is None
    later = begin(compactor, log, HOUR_MS + 5001)
    assert later is not None
    assert (later.removed, later.next_deletion_ms) == (1, None)
    assert begin(compactor, log, 9 * HOUR_MS) is None


def test_what_ended_something_stays_while_a_replica_may_lack_it() -> None:
    compactor = Compactor()
    store, log = new_log(memory_disk())
    for pair in [(b"a", b"1" * 900), (b"a", None), (b"b", b"1" * 900)]:
        log.append_as_leader([encode_records([pair], 1000)], 0)
    transact(log, 7, [(b"c", b"1")], commits=True, time_ms=1000)
    transact(log, 8, [(b"c", b"2" * 900)], commits=True, time_ms=1000)
    log.roll()
    log.append_as_leader([encode_records([(b"d", b"1")], 1000)], 0)
    store.flush()
    assert begin(compactor, log, 5000) is not None
    after_ms = 2 * HOUR_MS
    end = log.end_offset
    due = compactor.begin(log, RULE, high_watermark=end, now_ms=after_ms, may_end_deletions=False)
    assert due is None, "it would change nothing"
    held = Compaction(log, end, after_ms, HOUR_MS, may_end_deletions=False)
    held.run()
    assert held.removed == 0
    assert held.next_deletion_ms is not None
    later = begin(compactor, log, after_ms)
    assert later is not None
    assert later.removed == 2, "the deletion and the marker of producer 7"


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
    assert Compactor().begin(log, RULE, high_watermark=1, now_ms=0) is None
    assert begin(Compactor(), log) is not None
    assert len(records_of(log)) == 1


def test_a_pass_that_was_given_up_is_begun_again() -> None:
    compactor = Compactor()
    _, log = fill(memory_disk())
    for _ in range(2):
        compaction = compactor.begin(log, RULE, high_watermark=log.end_offset, now_ms=0)
        assert compaction is not None
        assert not compaction.done
    compactor.forget(log.name)
    assert begin(compactor, log) is not None
    assert open_broker(memory_disk()).logs == {}


# ---------------------------------------------------------------- everything at random


def test_compaction_keeps_its_promises_for_any_log_and_any_rule() -> None:
    played = [play(seed) for seed in range(40)]
    assert sum(each.passes for each in played) > 120
    assert sum(each.removed for each in played) > 2_000
    assert sum(bool(each.looked_at) and bool(each.aborted) for each in played) > 20


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
    assert young.next_deletion_ms == HOUR_MS
    Compaction(log, log.end_offset, HOUR_MS + 1, HOUR_MS).run()
    assert [each[0] for each in left_of(log)] == [3, 4, 5, 6, 7, 8]
    assert (log.producers_on_disk().open, log.producers_on_disk().aborted) == ({}, [])
