"""All partitions of a broker: names and topic ids, offline logs, the checkpoint, and the traces of a failing disk."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_compat.model import TopicPartition
from kafka_compat.storage.broker_store import BrokerStore
from kafka_compat.storage.checkpoints import ForeignDirectory
from kafka_compat.storage.producer_snapshots import KeptProducers
from kafka_compat.storage.run_record import Stage
from log.config import StoreConfig
from log.disk import RealDisk, write_file
from log.errors import CorruptLog, DirectoryLocked, LogError, NoSpace, StorageFailed, UnknownLog
from log.memory_disk import MemoryDisk
from tests.crashes import FATES, TURNS, Fate, calls_before, kill, lose_unsynced
from tests.examples import examples
from tests.kafka_compat.storage.partition_model import (
    DIRECTORY,
    OTHER_ID,
    PARTITION,
    TOPIC_ID,
    at,
    batch,
    memory_disk,
    new_log,
    open_broker,
    read_all,
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


def damage(disk: MemoryDisk, name: str, file: str = "00000000000000000000.log") -> None:
    disk.flip_bit(f"{DIRECTORY}/logs/{name}/{file}", 8 * 90)


# ---------------------------------------------------------------- partitions


def test_partitions_are_found_again_with_their_topic_ids(tmp_path: Path) -> None:
    config = StoreConfig(threads=4)
    store = BrokerStore.open(RealDisk(), str(tmp_path), cluster_id="c", broker_id=2, config=config)
    store.open_all()
    wanted = {TopicPartition(f"topic.{at}", at): bytes([at]) * 16 for at in range(20)}
    store.create(wanted)
    for partition in wanted:
        store.log(partition).append_as_leader([batch(partition.partition + 1)], 0)
    store.close()
    again = BrokerStore.open(RealDisk(), str(tmp_path), cluster_id="c", broker_id=2, config=config)
    again.open_all()
    assert {each: again.topic_id(each) for each in again.logs} == wanted
    assert [again.log(each).end_offset for each in sorted(wanted)] == [each.partition + 1 for each in sorted(wanted)]
    assert (again.damages, again.offline) == ([], {})
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
    again = open_broker(lose_unsynced(disk, 0))
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
    store.log(SECOND).write_snapshot(KeptProducers())
    store.delete(SECOND)
    for found in (store, open_broker(lose_unsynced(disk, 0))):
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
    assert set(open_broker(lose_unsynced(disk, 0)).logs) == {longest}


# ---------------------------------------------------------------- damage


def doubts(store: BrokerStore) -> dict[TopicPartition, str | None]:
    """Returns the reason why each copy is doubtful."""
    ids = {PARTITION: TOPIC_ID, SECOND: TOPIC_ID, DASHED: OTHER_ID}
    return {each: store.doubt_of(each, topic_id) for each, topic_id in ids.items()}


def find_doubted(store: BrokerStore) -> set[TopicPartition]:
    return {each for each, reason in doubts(store).items() if reason is not None}


@pytest.mark.parametrize("bit", [8 * 10, 8 * 90, 8 * 1500])
def test_a_damaged_log_is_cut_and_doubtful_and_the_others_are_whole(bit: int) -> None:
    disk = memory_disk()
    before = {each: read_all(log) for each, log in three_logs(disk).logs.items()}
    disk = kill(disk, 0)
    disk.flip_bit(f"{DIRECTORY}/logs/orders-1/00000000000000000000.log", bit)
    store = open_broker(disk)
    found = {each: read_all(log) for each, log in store.logs.items()}
    assert found.pop(SECOND) == before.pop(SECOND)[: bit // 8 // 1100]
    assert found == before
    assert find_doubted(store) == {SECOND}
    assert [(each.partition, each.name) for each in store.damages] == [(SECOND, "orders-1")]
    store.log(SECOND).append_as_leader([batch()], 9)
    store.flush()
    again = open_broker(kill(disk, 1))
    assert again.log(SECOND).end_offset == store.log(SECOND).end_offset
    assert (again.damages, find_doubted(again)) == ([], {SECOND})


@pytest.mark.parametrize("file", ["manifest", "durable", "partition", "00000000000000000000.log", "*"])
@pytest.mark.parametrize("flips", [False, True])
def test_a_partition_of_which_a_file_is_missing_or_damaged_is_doubtful(file: str, flips: bool) -> None:
    disk = memory_disk()
    three_logs(disk)
    disk = kill(disk, 0)
    place = f"{DIRECTORY}/logs/a-1.b_c-12"
    for path in [each for each in disk.paths() if each.startswith(f"{place}/") and file in ("*", each.split("/")[-1])]:
        disk.flip_bit(path, 8 * 9) if flips else disk.remove(path)
    store = open_broker(disk)
    assert find_doubted(store) == {DASHED}
    store.doubt({DASHED: (OTHER_ID, "noted")})
    store.create({DASHED: OTHER_ID})
    store.log(DASHED).append_as_leader([batch()], 9)
    store.flush()
    again = open_broker(kill(disk, 1))
    assert find_doubted(again) == {DASHED}
    assert read_all(again.log(DASHED)) == read_all(store.log(DASHED))
    again.doubts_known()
    last = open_broker(kill(disk, 2).after_kill(random.Random(1)))
    assert last.offline == {}


def test_damage_that_is_read_is_repaired_by_the_next_start() -> None:
    disk = memory_disk()
    store = three_logs(disk)
    store.log(SECOND).roll()
    store.flush()
    store.close()
    store = open_broker(disk)
    damage(disk, "orders-1")
    with pytest.raises(CorruptLog) as raised:
        read_all(store.log(SECOND))
    assert store.note_damage(raised.value) == SECOND
    assert store.note_damage(CorruptLog("data/metadata/x.log", 0, "other")) is None
    store.close()
    again = open_broker(disk)
    assert find_doubted(again) == {SECOND}
    assert read_all(again.log(SECOND)) == []
    assert len(again.damages) == 1


@pytest.mark.parametrize("bit", [0, 37, 8 * 20])
def test_a_log_of_which_no_file_states_the_topic_is_set_aside_when_a_partition_of_its_name_is_made(bit: int) -> None:
    disk = memory_disk()
    three_logs(disk)
    disk = kill(disk, 0)
    place = f"{DIRECTORY}/logs/a-1.b_c-12"
    content = disk.content(f"{place}/00000000000000000000.log")
    disk.flip_bit(f"{place}/partition", bit)
    store = open_broker(disk)
    assert DASHED not in store.logs
    assert store.topic_id(DASHED) is None
    assert find_doubted(store) == {DASHED}
    store.create({DASHED: OTHER_ID})
    assert store.log(DASHED).end_offset == 0
    assert disk.content(f"{place}/00000000000000000000.damaged").startswith(content[:1000])
    assert set(open_broker(kill(disk, 0)).logs) == {PARTITION, SECOND, DASHED}


def test_a_damaged_log_of_no_partitions_name_stays_where_it_is() -> None:
    disk = memory_disk()
    store = three_logs(disk)
    store._store.create("stranger").append([])
    store._store.log("stranger").reset(5)
    again = open_broker(lose_unsynced(disk, 0))
    assert [(each.name, each.partition) for each in again.damages] == [("stranger", None)]
    assert set(again.logs) == {PARTITION, SECOND, DASHED}
    assert any("stranger" in path for path in disk.paths())


def test_a_log_that_ends_before_its_own_high_watermark_is_doubtful() -> None:
    disk = memory_disk()
    store = three_logs(disk)
    store.write_high_watermarks({PARTITION: 10, SECOND: 12, DASHED: 5})
    assert find_doubted(open_broker(kill(disk, 0))) == {SECOND}


@pytest.mark.parametrize("name", ["broker", "run", "high-watermarks"])
@pytest.mark.parametrize("flips", [False, True])
def test_without_one_of_its_own_files_a_broker_starts_and_trusts_no_copy(name: str, flips: bool) -> None:
    disk = memory_disk()
    store = three_logs(disk)
    store.serves_as(5)
    store.close()
    path = f"{DIRECTORY}/{name}"
    disk.flip_bit(path, 8 * 3) if flips else disk.remove(path)
    again = open_broker(disk)
    assert find_doubted(again) == {PARTITION, SECOND, DASHED}
    assert {each: log.end_offset for each, log in again.logs.items()} == {PARTITION: 10, SECOND: 11, DASHED: 12}
    assert find_doubted(open_broker(kill(disk, 0))) == {PARTITION, SECOND, DASHED}
    again.doubts_known()
    assert find_doubted(open_broker(kill(disk, 0))) == set()


def test_a_directory_that_is_new_has_no_doubts_of_its_own() -> None:
    disk = memory_disk()
    store = open_broker(disk)
    assert store.is_new
    assert store.doubt_of(PARTITION, TOPIC_ID) == "its log is missing"
    store.create({PARTITION: TOPIC_ID})
    assert store.doubt_of(PARTITION, TOPIC_ID) is None
    assert not open_broker(kill(disk, 0)).is_new


@pytest.mark.parametrize(
    ("flushed", "boot", "closes", "all_are"),
    [
        (True, "second", False, False),
        (False, "first", False, False),
        (False, "second", False, True),
        (False, "", False, True),
        (False, "second", True, False),
    ],
)
def test_what_was_not_flushed_is_doubtful_after_another_boot(
    flushed: bool, boot: str, closes: bool, all_are: bool
) -> None:
    disk = memory_disk()
    store = open_broker(disk, boot="first", flushed=flushed)
    store.create({PARTITION: TOPIC_ID, SECOND: TOPIC_ID, DASHED: OTHER_ID})
    if closes:
        store.close()
    else:
        disk = kill(disk, 0)
    # The setting counts that held for the process that wrote.
    again = open_broker(disk, boot=boot, flushed=True)
    assert find_doubted(again) == ({PARTITION, SECOND, DASHED} if all_are else set())


def change(disk: MemoryDisk, path: str, how: str, at: float) -> None:
    """Change one file behind the back of its owner; `at` is a place in it, from 0 to 1."""
    size = len(disk.content(path))
    place = min(int(at * size), size - 1)
    if how == "flip":
        disk.flip_bit(path, 8 * place + place % 8)
    elif how == "remove":
        disk.remove(path)
        disk.sync_directory(path.rpartition("/")[0])
    else:
        content = disk.content(path)
        write_file(disk, path, [content[:place] + (bytes(size - place) if how == "zeros" else b"")])


@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_no_change_of_any_file_goes_unnoticed_if_a_record_is_gone(data: st.DataObject) -> None:
    """All records were flushed, and the process killed.

    Then some files, mostly of one log, are damaged, cut, zeroed or gone.
    """
    disk = memory_disk(data.draw(st.integers(0, 1000)))
    store = three_logs(disk)
    store.log(SECOND).truncate(7)
    store.log(SECOND).append_as_leader([batch(size=900)], 2)
    store.log(DASHED).trim(5)
    store.flush()
    store.write_high_watermarks({PARTITION: 3})
    store.doubts_known()
    ids = {PARTITION: TOPIC_ID, SECOND: TOPIC_ID, DASHED: OTHER_ID}
    before = {each: read_all(store.log(each)) for each in ids}
    disk = kill(disk, 0)
    place = data.draw(st.sampled_from(["", "logs/orders-0/", "logs/orders-1/", "logs/a-1.b_c-12/"]))
    for _ in range(data.draw(st.integers(1, 3))):
        files = [each for each in disk.paths() if each.startswith(f"{DIRECTORY}/{place}") and disk.content(each)]
        path = data.draw(st.sampled_from(files))
        change(disk, path, data.draw(st.sampled_from(["flip", "remove", "cut", "zeros"])), data.draw(st.floats(0, 1)))
    again = open_broker(disk)
    for partition in ids:
        log = again.logs.get(partition)
        found: list[bytes] = []
        if log is not None:
            try:
                found = read_all(log)
            except CorruptLog as error:
                assert again.note_damage(error) == partition  # noqa: PT017 - met as it is read
        assert found == before[partition][: len(found)] or again.log(partition).start_offset == 0
        assert len(found) == len(before[partition]) or again.doubt_of(partition, ids[partition]) is not None
    again.create(ids)
    for partition in ids:
        again.log(partition).append_as_leader([batch()], 99)
    again.flush()
    assert open_broker(kill(disk, 1)).offline == {}


@pytest.mark.parametrize("fate", FATES)
def test_whichever_call_of_a_repair_fails_no_doubt_is_lost(fate: Fate) -> None:
    """With a torn end, a missing log and a damaged one; each copy is doubtful until the controller knows."""
    failures = 0
    for n in calls_before(fate):
        disk = memory_disk(n)
        store = three_logs(disk)
        store.write_high_watermarks({PARTITION: 10})
        store.doubts_known()
        disk = kill(disk, n)
        damage(disk, "orders-1")
        disk.flip_bit(f"{DIRECTORY}/logs/a-1.b_c-12/manifest", 100)
        disk.fail_call(n)
        again = None
        try:
            again = open_broker(disk)
            again.doubt(dict.fromkeys((PARTITION, SECOND), (TOPIC_ID, "noted")))
        except LogError:
            pass
        if not disk.failed_as_asked:
            assert again is not None
            assert find_doubted(again) == {PARTITION, SECOND, DASHED}
            break
        failures += 1
        found = open_broker(fate(disk, n))
        assert {SECOND, DASHED} <= find_doubted(found)
        assert found.offline == {}
        assert {SECOND, DASHED} <= find_doubted(open_broker(fate(disk, n + 1)))
    assert failures > 40 // TURNS


def test_a_full_disk_leaves_no_record_that_would_be_believed() -> None:
    disk = memory_disk()
    store = three_logs(disk)
    store.close()

    def refuse(operation: str, path: str) -> None:
        if operation == "write" and path.endswith("/run.tmp"):
            raise NoSpace(operation, path)

    disk.before_call = refuse
    again = open_broker(disk)
    assert find_doubted(again) == set()
    again.close()
    disk.before_call = None
    assert find_doubted(open_broker(disk)) == {PARTITION, SECOND, DASHED}


def test_a_log_whose_disk_failed_is_offline_and_the_end_is_not_clean() -> None:
    disk = memory_disk()
    store = three_logs(disk)

    def fail(operation: str, path: str) -> None:
        if operation == "sync" and "orders-1" in path:
            raise StorageFailed(operation, path, "Input/output error")

    for log in store.logs.values():
        log.append_as_leader([batch()], 1)
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
    store.close()
    previous = open_broker(disk).previous
    assert previous is not None
    assert previous.stage is Stage.RUNNING


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


@pytest.mark.parametrize("fate", FATES)
def test_only_an_end_by_close_is_clean_and_only_once(fate: Fate) -> None:
    disk = memory_disk()
    store = open_broker(disk)
    assert store.previous is None
    assert store.broker_epoch == -1
    store.serves_as(31)
    store.close()
    stages: list[Stage] = []
    for _ in range(2):
        disk = fate(disk, 0)
        store = open_broker(disk)
        assert store.previous is not None
        assert store.broker_epoch == store.previous.broker_epoch == 31
        stages.append(store.previous.stage)
    assert stages == [Stage.CLEAN, Stage.RUNNING]


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
    disk = kill(disk, 0)
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
    store.close(producers={SECOND: KeptProducers({9: (1, ((0, 1, 2, 3),))})}, high_watermarks={SECOND: 7})
    again = open_broker(fate(disk, 2))
    assert again.high_watermark(SECOND) == 7
    assert again.previous is not None
    assert again.previous.stage is Stage.CLEAN
    if fate is kill:
        assert again.log(SECOND).take_producers().by_id == {9: (1, ((0, 1, 2, 3),))}


# ---------------------------------------------------------------- a disk that fails


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("exists", [False, True])
def test_a_partition_is_made_whole_or_not_at_all(fate: Fate, exists: bool) -> None:
    ends: list[str] = []
    for n in calls_before(fate):
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
        assert again.damages == []
        for partition in (PARTITION, SECOND, DASHED):
            log = again.logs.get(partition)
            old = log is not None and again.topic_id(partition) == TOPIC_ID
            assert log is None or read_all(log) == ([at(batch(), 0, 0)] if old else [])
        ends.append(repr(sorted(again.logs)))
        again.create(wanted)
        assert all(again.topic_id(each) == topic_id for each, topic_id in wanted.items())
        assert all(again.log(each).end_offset == 0 for each in wanted)
    assert len(ends) > 15 // TURNS
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
        assert set(open_broker(lose_unsynced(disk, 0)).logs) == {PARTITION, SECOND}
    assert failures > 5


@pytest.mark.parametrize("fate", FATES)
def test_whichever_call_of_a_start_fails_the_next_start_finds_everything(fate: Fate) -> None:
    failures = 0
    for n in calls_before(fate):
        disk = memory_disk(n)
        store = three_logs(disk)
        expected = {each: read_all(log) for each, log in store.logs.items()}
        disk = kill(disk, n)
        disk.fail_call(n)
        try:
            again = open_broker(disk)
        except LogError:
            again = None
        if not disk.failed_as_asked:
            break
        failures += 1
        if again is not None:
            assert {each: read_all(log) for each, log in again.logs.items()}.items() <= expected.items()
        found = open_broker(fate(disk, n))
        assert {each: read_all(log) for each, log in found.logs.items()} == expected
        assert found.offline == {}
    assert failures > 20 // TURNS


def test_the_outcome_of_a_power_cut_is_drawn_from_its_seed() -> None:
    disk = memory_disk()
    three_logs(disk)
    again = [open_broker(disk.after_crash(random.Random(5))).log(DASHED).end_offset for _ in range(2)]
    assert again == [12, 12]
