"""All partitions of a broker: names and topic ids, what is offline, the checkpoint, and what a failing disk may leave."""

import random
import re
from pathlib import Path

import pytest

from kafka_compat.model import TopicPartition
from kafka_compat.storage.broker_store import BrokerStore
from kafka_compat.storage.checkpoints import ForeignDirectory
from log.config import StoreConfig
from log.disk import RealDisk
from log.errors import CorruptLog, DirectoryLocked, LogError, NoSpace, StorageFailed, UnknownLog
from log.memory_disk import MemoryDisk
from tests.kafka_compat.storage.partition_model import (
    DIRECTORY,
    FATES,
    OTHER_ID,
    PARTITION,
    TOPIC_ID,
    Fate,
    all_lost,
    at,
    batch,
    held,
    killed,
    memory_disk,
    new_log,
    open_broker,
)

SECOND = TopicPartition("orders", 1)
DASHED = TopicPartition("a-1.b_c", 12)


def three_logs(disk: MemoryDisk) -> BrokerStore:
    store = open_broker(disk)
    store.create({PARTITION: TOPIC_ID, SECOND: TOPIC_ID, DASHED: OTHER_ID})
    for number, log in enumerate(store.logs.values()):
        for _ in range(10 + number):
            log.append_as_leader([batch(size=1000)], 1)
    store.flush()
    return store


def damaged(disk: MemoryDisk, name: str, file: str = "00000000000000000000.log") -> None:
    disk.flip_bit(f"{DIRECTORY}/logs/{name}/{file}", 8 * 90)


# ---------------------------------------------------------------- partitions


def test_partitions_are_found_again_with_their_topic_ids(tmp_path: Path) -> None:
    config = StoreConfig(threads=4)
    store = BrokerStore.open(RealDisk(), str(tmp_path), cluster_id="c", broker_id=2, config=config)
    store.open_all()
    wanted = {TopicPartition(f"topic.{at}", at): bytes([at]) * 16 for at in range(20)}
    store.create(wanted)
    for each in wanted:
        store.log(each).append_as_leader([batch(each.partition + 1)], 0)
    store.close(broker_epoch=77)
    again = BrokerStore.open(RealDisk(), str(tmp_path), cluster_id="c", broker_id=2, config=config)
    again.open_all()
    assert {each: again.topic_id(each) for each in again.logs} == wanted
    assert [again.log(each).end_offset for each in sorted(wanted)] == [each.partition + 1 for each in sorted(wanted)]
    assert (again.clean_epoch, again.offline, again.unknown) == (77, {}, {})
    again.close()


def test_making_a_partition_again_keeps_its_log() -> None:
    store, log = new_log(memory_disk())
    log.append_as_leader([batch()], 0)
    store.create({PARTITION: TOPIC_ID, SECOND: TOPIC_ID})
    assert store.log(PARTITION) is log
    assert log.end_offset == 1
    assert store.has(SECOND, TOPIC_ID)
    assert not store.has(SECOND, OTHER_ID)


def test_a_topic_made_again_under_its_name_never_gets_the_old_log() -> None:
    disk = memory_disk()
    store = three_logs(disk)
    store.write_high_watermarks({PARTITION: 9})
    store.create({PARTITION: OTHER_ID})
    assert (store.log(PARTITION).end_offset, store.topic_id(PARTITION)) == (0, OTHER_ID)
    again = open_broker(all_lost(disk, 0))
    assert (again.log(PARTITION).end_offset, again.topic_id(PARTITION)) == (0, OTHER_ID)
    again.log(PARTITION).append_as_leader([batch(20)], 0)
    assert again.high_watermark(PARTITION) == 0


def test_strays_are_the_logs_of_other_topics_or_of_none() -> None:
    store = three_logs(memory_disk())
    assert store.strays({PARTITION: TOPIC_ID, SECOND: TOPIC_ID, DASHED: OTHER_ID}) == []
    assert store.strays({PARTITION: OTHER_ID, SECOND: TOPIC_ID}) == sorted([PARTITION, DASHED])


def test_a_deleted_partition_is_gone_at_once_and_for_good() -> None:
    disk = memory_disk()
    store = three_logs(disk)
    store.log(SECOND).write_snapshot({})
    store.delete(SECOND)
    for found in (store, open_broker(all_lost(disk, 0))):
        assert set(found.logs) == {PARTITION, DASHED}
        assert found.topic_id(SECOND) is None
        with pytest.raises(UnknownLog):
            found.log(SECOND)
        with pytest.raises(UnknownLog):
            found.delete(SECOND)
    assert not [path for path in disk.paths() if "orders-1" in path]


@pytest.mark.parametrize("topic", ["", "a/b", "..", "x" * 254])
def test_a_name_that_is_no_topic_is_refused(topic: str) -> None:
    store = open_broker(memory_disk())
    if topic in ("", ".."):
        store.create({TopicPartition(topic, 0): TOPIC_ID})  # "-0" and "..-0" lead nowhere else
        return
    with pytest.raises(ValueError, match="no name of a log"):
        store.create({TopicPartition(topic, 0): TOPIC_ID})


def test_the_longest_topic_of_kafka_has_room() -> None:
    disk = memory_disk()
    longest = TopicPartition("x" * 249, 99_999)
    open_broker(disk).create({longest: TOPIC_ID})
    assert set(open_broker(all_lost(disk, 0)).logs) == {longest}


# ---------------------------------------------------------------- what is offline


def test_a_damaged_log_is_offline_and_the_others_go_on() -> None:
    disk = memory_disk()
    three_logs(disk)
    disk = all_lost(disk, 0)
    path = min(
        each for each in disk.paths() if each.startswith(f"{DIRECTORY}/logs/orders-1/") and each.endswith("manifest")
    )
    disk.flip_bit(path, 100)
    store = open_broker(disk)
    assert set(store.logs) == {PARTITION, DASHED}
    assert set(store.offline) == {SECOND}
    assert store.has(SECOND, TOPIC_ID)
    with pytest.raises(CorruptLog, match="orders-1"):
        store.log(SECOND)
    assert len(held(store.log(DASHED))) == 12
    store.create({SECOND: TOPIC_ID})
    assert set(store.offline) == {SECOND}
    store.delete(SECOND)
    store.create({SECOND: TOPIC_ID})
    assert store.log(SECOND).end_offset == 0


def test_damage_that_the_producers_need_puts_only_that_log_offline() -> None:
    """The batches behind the newest snapshot are read when a log is opened."""
    disk = memory_disk()
    three_logs(disk)
    disk = all_lost(disk, 0)
    damaged(disk, "orders-0")
    store = open_broker(disk)
    assert set(store.offline) == {PARTITION}
    assert set(store.logs) == {SECOND, DASHED}


@pytest.mark.parametrize("bit", [0, 37, 8 * 20])
def test_a_log_that_nobody_knows_the_topic_of_is_offline_and_is_not_overwritten(bit: int) -> None:
    disk = memory_disk()
    three_logs(disk)
    disk = all_lost(disk, 0)
    disk.flip_bit(f"{DIRECTORY}/logs/a-1.b_c-12/partition", bit)
    store = open_broker(disk)
    assert set(store.offline) == {DASHED}
    assert store.topic_id(DASHED) is None
    with pytest.raises(CorruptLog, match="which topic the log belongs to is missing or damaged"):
        store.create({DASHED: OTHER_ID})
    assert f"{DIRECTORY}/logs/a-1.b_c-12/manifest" in disk.paths()
    store.delete(DASHED)
    store.create({DASHED: OTHER_ID})
    assert store.log(DASHED).end_offset == 0


def test_a_damaged_log_of_no_partitions_name_stays_where_it_is() -> None:
    disk = memory_disk()
    store = three_logs(disk)
    store._store.create("stranger").append([])
    store._store.log("stranger").reset(5)
    again = open_broker(all_lost(disk, 0))
    assert list(again.unknown) == ["stranger"]
    assert set(again.logs) == {PARTITION, SECOND, DASHED}
    assert any("stranger" in path for path in disk.paths())


def test_a_log_whose_disk_failed_is_offline_and_the_end_is_not_clean() -> None:
    disk = memory_disk()
    store = three_logs(disk)

    def fail(operation: str, path: str) -> None:
        if operation == "sync" and "orders-1" in path:
            raise StorageFailed(operation, path, "Input/output error")

    for each in store.logs.values():
        each.append_as_leader([batch()], 1)
    disk.before_call = fail
    done = store.begin_round()
    with pytest.raises(StorageFailed):
        done.run()
    store.end_round(done)
    assert store.note_failures() == [SECOND]
    assert store.note_failures() == []
    assert set(store.logs) == {PARTITION, DASHED}
    with pytest.raises(StorageFailed):
        store.log(SECOND)
    assert store.log(DASHED).durable_offset == 13
    disk.before_call = None
    store.close(broker_epoch=4)
    assert open_broker(disk).clean_epoch is None


# ---------------------------------------------------------------- the broker's own files


def test_a_directory_belongs_to_one_broker_of_one_cluster() -> None:
    disk = memory_disk()
    open_broker(disk).close()
    for cluster_id, broker_id in (("cluster", 2), ("other", 1)):
        with pytest.raises(ForeignDirectory, match=re.escape("belongs to broker 1 of cluster 'cluster'")):
            BrokerStore.open(disk, DIRECTORY, cluster_id=cluster_id, broker_id=broker_id)
    store = open_broker(disk)
    with pytest.raises(DirectoryLocked):
        open_broker(disk)
    store.close()
    disk.flip_bit(f"{DIRECTORY}/broker", 9)
    with pytest.raises(ForeignDirectory, match="'broker' is damaged"):
        open_broker(disk)


@pytest.mark.parametrize("fate", FATES)
def test_only_an_end_by_close_is_clean_and_only_once(fate: Fate) -> None:
    disk = memory_disk()
    store = open_broker(disk)
    assert store.clean_epoch is None
    store.close(broker_epoch=31)
    disk = fate(disk, 0)
    assert open_broker(disk).clean_epoch == 31
    assert open_broker(fate(disk, 0)).clean_epoch is None


@pytest.mark.parametrize("fate", FATES)
def test_high_watermarks_survive_within_what_the_log_holds(fate: Fate) -> None:
    disk = memory_disk()
    store = three_logs(disk)
    store.write_high_watermarks({PARTITION: 4, SECOND: 8, DASHED: 99, TopicPartition("gone", 0): 5})
    store.log(SECOND).trim(9)
    store.flush()
    again = open_broker(fate(disk, 0))
    assert [again.high_watermark(each) for each in (PARTITION, SECOND, DASHED)] == [4, 9, 12]


@pytest.mark.parametrize("bit", range(0, 300, 7))
def test_a_damaged_checkpoint_is_the_same_as_none(bit: int) -> None:
    disk = memory_disk()
    store = three_logs(disk)
    store.write_high_watermarks({PARTITION: 4})
    store.log(SECOND).trim(2)
    store.flush()
    disk = killed(disk, 0)
    disk.flip_bit(f"{DIRECTORY}/high-watermarks", bit % (8 * len(disk.content(f"{DIRECTORY}/high-watermarks"))))
    again = open_broker(disk)
    assert [again.high_watermark(each) for each in (PARTITION, SECOND)] == [0, 2]


def test_a_full_disk_keeps_the_checkpoint_before() -> None:
    disk = memory_disk()
    store = three_logs(disk)
    store.write_high_watermarks({PARTITION: 4})
    disk.capacity_bytes = disk.used_bytes()
    with pytest.raises(NoSpace):
        store.write_high_watermarks({PARTITION: 5})
    store.close()
    disk.capacity_bytes = None
    assert open_broker(disk).high_watermark(PARTITION) == 4


@pytest.mark.parametrize("fate", FATES)
def test_a_clean_close_leaves_nothing_to_find_out(fate: Fate) -> None:
    disk = memory_disk()
    store = three_logs(disk)
    store.close(broker_epoch=3, producers={SECOND: {9: (1, ((0, 1, 2, 3),))}}, high_watermarks={SECOND: 7})
    again = open_broker(fate(disk, 2))
    assert again.high_watermark(SECOND) == 7
    assert again.clean_epoch == 3
    if fate is killed:
        assert again.log(SECOND).take_producers() == {9: (1, ((0, 1, 2, 3),))}


# ---------------------------------------------------------------- a disk that fails


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("exists", [False, True])
def test_a_partition_is_made_whole_or_not_at_all(fate: Fate, exists: bool) -> None:
    ends: list[str] = []
    for n in range(1, 200):
        disk = memory_disk(n)
        store = open_broker(disk)
        store.create({PARTITION: TOPIC_ID})
        store.log(PARTITION).append_as_leader([batch()], 0)
        store.flush()
        wanted = {(PARTITION if exists else SECOND): OTHER_ID, DASHED: OTHER_ID}
        disk.fail_call(n)
        try:
            store.create(wanted)
        except StorageFailed:
            pass
        else:
            break
        again = open_broker(fate(disk, n))
        assert again.offline == {}
        assert again.unknown == {}
        for each in (PARTITION, SECOND, DASHED):
            log = again.logs.get(each)
            old = log is not None and again.topic_id(each) == TOPIC_ID
            assert log is None or held(log) == ([at(batch(), 0, 0)] if old else [])
        ends.append(repr(sorted(again.logs)))
        again.create(wanted)
        assert all(again.topic_id(each) == topic_id for each, topic_id in wanted.items())
        assert all(again.log(each).end_offset == 0 for each in wanted)
    assert len(ends) > 15
    assert len(set(ends)) >= 2


def test_a_call_that_failed_for_lack_of_room_may_be_repeated() -> None:
    failures = 0
    for room in range(0, 6000, 150):
        disk = memory_disk(room)
        store = open_broker(disk)
        disk.capacity_bytes = disk.used_bytes() + room
        try:
            store.create({PARTITION: TOPIC_ID, SECOND: TOPIC_ID})
        except NoSpace:
            failures += 1
        disk.capacity_bytes = None
        store.create({PARTITION: TOPIC_ID, SECOND: TOPIC_ID})
        assert set(open_broker(all_lost(disk, 0)).logs) == {PARTITION, SECOND}
    assert failures > 5


@pytest.mark.parametrize("fate", FATES)
def test_whichever_call_of_a_start_fails_the_next_start_finds_everything(fate: Fate) -> None:
    failures = 0
    for n in range(1, 300):
        disk = memory_disk(n)
        store = three_logs(disk)
        expected = {each: held(log) for each, log in store.logs.items()}
        disk = killed(disk, n)
        disk.fail_call(n)
        try:
            again = open_broker(disk)
        except LogError:
            again = None
        if not disk.failed_as_asked:
            break
        failures += 1
        if again is not None:
            assert {each: held(log) for each, log in again.logs.items()}.items() <= expected.items()
        found = open_broker(fate(disk, n))
        assert {each: held(log) for each, log in found.logs.items()} == expected
        assert found.offline == {}
    assert failures > 20


def test_the_outcome_of_a_power_cut_is_drawn_from_its_seed() -> None:
    disk = memory_disk()
    three_logs(disk)
    again = [open_broker(disk.after_crash(random.Random(5))).log(DASHED).end_offset for _ in range(2)]
    assert again == [12, 12]
