"""The commit log: physical offsets, single records inside of batches, epochs, and what a crash may leave."""

import random

import pytest

from log.batch import StoredBatch
from log.byte_reader import AHEAD_BYTES, CHECKED_BYTES
from log.config import StoreConfig
from log.errors import CorruptLog, NoSpace, OffsetOutOfRange, StorageFailed
from rocketmq_compat.storage.commit_log import CommitLog
from rocketmq_compat.storage.recent_batches import RecentBatches
from tests.crashes import FATES, Fate, kill, lose_unsynced
from tests.rocketmq_compat.storage.records import content, from_disk, memory_disk, new_commit_log, record, reopen

LARGE = StoreConfig(segment_bytes_max=1 << 20, index_interval_bytes=4096, open_files_max=4, threads=1)


def fill(log: CommitLog, count: int = 30, *, epoch: int = 1, body: int = 200) -> list[tuple[int, bytes]]:
    """Append batches of one to three records. Returns each record with its physical offset."""
    records: list[tuple[int, bytes]] = []
    for number in range(count):
        first, at = len(records), log.end_offset
        for part in range(1 + number % 3):
            records.append((at, record(body=b"%d.%d" % (number, part) + bytes(body), physical=at)))
            at += len(records[-1][1])
        joined = b"".join(each for _, each in records[first:])
        assert log.append([joined], epoch=epoch, timestamp_ms=1000 + number) == at
    return records


def bytes_at(log: CommitLog, offset: int) -> bytes | None:
    found = log.record_at(offset)
    return bytes(found) if found is not None else None


def test_offsets_count_bytes() -> None:
    log = new_commit_log(memory_disk())
    assert log.append([b"abc", bytearray(b"defg")], epoch=1, timestamp_ms=5) == 7
    assert log.append([memoryview(b"hi")], epoch=1, timestamp_ms=6) == 9
    assert [(each.base_offset, bytes(each.payload)) for each in log.read(0, 1 << 20)] == [
        (0, b"abc"),
        (3, b"defg"),
        (7, b"hi"),
    ]
    assert (log.start_offset, log.end_offset, log.durable_offset) == (0, 9, 0)
    assert log.flush() == log.durable_offset == 9
    with pytest.raises(ValueError, match="does not follow"):
        log.append([b""], epoch=1, timestamp_ms=0)
    with pytest.raises(ValueError, match="does not follow"):
        log.append([b"x"], epoch=0, timestamp_ms=0)
    assert log.end_offset == 9


def test_any_range_of_bytes_is_read_as_it_lies_there() -> None:
    log = new_commit_log(memory_disk())
    fill(log)
    whole = content(log)
    rng = random.Random(1)
    for reader in (log.byte_reader(), from_disk(log).byte_reader()):
        for _ in range(500):
            start = rng.randint(0, len(whole) - 1)
            size = rng.choice([1, 20, 300, 3000])
            found = reader.read(start, size)
            if start + size <= len(whole):
                assert found is not None
                assert bytes(found) == whole[start : start + size]
            else:
                assert found is None
        assert reader.read(len(whole), 1) is None


def test_what_was_appended_last_is_read_without_the_disk() -> None:
    disk = memory_disk()
    log = new_commit_log(disk)
    records = fill(log)
    before = disk.calls
    for at, stored in records:
        assert bytes_at(log, at) == stored
    assert disk.calls == before
    log.truncate(records[30][0])
    assert log.byte_reader().read(log.end_offset, 1) is None
    assert bytes_at(log, records[-1][0]) is None
    log.append([b"x" * 500], epoch=2, timestamp_ms=0)
    found = log.byte_reader().read(log.end_offset - 500, 500)
    assert found is not None
    assert bytes(found) == b"x" * 500
    assert bytes_at(log, records[5][0]) == records[5][1]


def test_a_push_is_of_whole_batches_and_read_without_the_disk() -> None:
    disk = memory_disk()
    log = new_commit_log(disk)
    fill(log)
    whole, rng = content(log), random.Random(1)
    starts = [each.base_offset for each in log.read(0, 1 << 30)]
    calls = disk.calls
    for _ in range(300):
        start, bytes_max = rng.choice(starts), rng.choice([1, 300, 700, 3000])
        ends = [each for each in (*starts, log.end_offset) if each > start]
        end_max = rng.choice(ends)
        end = max([each for each in ends if each <= min(end_max, start + bytes_max)], default=ends[0])
        assert b"".join(log.read_payloads(start, bytes_max, end_max)) == whole[start:end]
    assert disk.calls == calls
    inside = starts[5] + 10
    assert b"".join(log.read_payloads(inside, 1, log.end_offset)) == whole[inside : starts[6]]
    assert log.read_payloads(starts[5], 1000, starts[6] - 1) == []
    assert b"".join(from_disk(log).read_payloads(0, 1, log.end_offset)) == whole[: starts[1]]


def test_what_is_kept_in_memory_is_bounded() -> None:
    recent = RecentBatches(1000)
    for at in range(0, 50_000, 100):
        recent.add(at, memoryview((b"%d" % at).ljust(100)))
        assert recent.size_bytes <= 1000
    assert recent.size_bytes >= 500
    found = recent.read(49_900, 5)
    assert found is not None
    assert bytes(found) == b"49900"
    assert recent.read(49_900, 101) is recent.read(50_000, 1) is recent.read(0, 1) is None
    recent.add(50_000, memoryview(bytes(5000)))
    assert recent.size_bytes == 0
    assert recent.read(50_000, 1) is None


def test_one_record_is_read_without_its_neighbours() -> None:
    """Of a batch that is too long to be checked as a whole, only the record's own bytes are read."""
    disk = memory_disk()
    log = new_commit_log(disk, LARGE)
    payload, places = bytearray(), []
    while len(payload) < 8 * CHECKED_BYTES:
        places.append((len(payload), record(body=bytes(5000), physical=len(payload))))
        payload += places[-1][1]
    log.append([payload], epoch=1, timestamp_ms=0)
    for at, stored in places:
        assert bytes_at(log, at) == stored
    log = from_disk(log)
    read: list[int] = []
    plain = type(disk.open("data/x", create=True)).read_at

    def count(file: object, position: int, size: int) -> bytes:
        read.append(size)
        return plain(file, position, size)  # type: ignore[arg-type]  # the file of the disk in memory

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("log.memory_disk.MemoryFile.read_at", count)
        assert bytes_at(log, places[50][0]) == places[50][1]
    assert 0 < sum(read) <= 4 * AHEAD_BYTES


def test_a_record_is_found_where_it_begins_and_nowhere_else() -> None:
    disk = memory_disk()
    log = new_commit_log(disk)
    records = dict(fill(log))
    log.flush()
    for found in (log, reopen(lose_unsynced(disk, 0))):
        for at in range(-1, found.end_offset + 200, 7):
            assert bytes_at(found, at) == records.get(at)
        for at, stored in records.items():
            assert bytes_at(found, at) == stored


def test_damage_is_reported_and_never_returned() -> None:
    disk = memory_disk()
    log = new_commit_log(disk)
    records = fill(log)
    log.flush()
    log = from_disk(log)
    path = next(each for each in disk.paths() if each.endswith("00.log"))
    disk.flip_bit(path, 8 * 300)
    with pytest.raises(CorruptLog, match="checksum"):
        log.record_at(records[0][0])
    with pytest.raises(CorruptLog, match="checksum"):
        log.byte_reader().read(0, 1)
    assert bytes_at(log, records[-1][0]) == records[-1][1]


def test_another_copy_has_the_same_bytes_and_epochs() -> None:
    master, slave = new_commit_log(memory_disk()), new_commit_log(memory_disk())
    fill(master, 20, epoch=3)
    fill(master, 20, epoch=5)
    while slave.end_offset < master.end_offset:
        for batch in master.read(slave.end_offset, 1000):
            assert isinstance(batch.payload, memoryview)
            slave.append([batch.payload], epoch=batch.epoch, timestamp_ms=batch.timestamp_ms)
    assert content(slave) == content(master)
    assert slave.epochs == master.epochs
    assert [each[0] for each in slave.epochs] == [3, 5]
    assert slave.end_of_epoch(4) == (3, slave.epochs[1][1])
    assert [each.newest_ms for each in slave.segment_facts()] == [each.newest_ms for each in master.segment_facts()]


def test_a_copy_may_begin_inside_of_a_batch() -> None:
    log = new_commit_log(memory_disk())
    log.append([b"abcdef"], epoch=2, timestamp_ms=9)
    log.append([b"gh"], epoch=2, timestamp_ms=9)
    first, second = log.read(2, 1 << 20)
    assert first == StoredBatch.of(memoryview(b"cdef"), base_offset=2, span=4, epoch=2, timestamp_ms=9)
    assert (second.base_offset, bytes(second.payload)) == (6, b"gh")
    assert [each.base_offset for each in log.read(0, 1 << 20, 7)] == [0]
    assert log.read(6, 1 << 20, 7) == log.read(8, 1) == []
    with pytest.raises(OffsetOutOfRange):
        log.read(9, 1)


def test_a_truncation_cuts_whole_batches_and_a_trim_keeps_whole_ones() -> None:
    disk = memory_disk()
    log = new_commit_log(disk)
    records = fill(log)
    starts = [each.base_offset for each in log.read(0, 1 << 20)]
    inside = records[20][0] + 10
    batch = max(each for each in starts if each <= inside)
    assert log.trim(inside) == log.start_offset == batch
    assert log.trim(0) == batch
    assert log.truncate(log.end_offset + 5) == log.end_offset
    last = starts[-1]
    assert log.truncate(last + 1) == log.end_offset == last
    with pytest.raises(OffsetOutOfRange):
        log.truncate(batch - 1)
    log.flush()
    again = reopen(lose_unsynced(disk, 0))
    assert (again.start_offset, again.end_offset) == (batch, last)
    assert again.trim(last) == last
    assert bytes_at(again, batch) is None
    again.reset(10_000)
    assert (again.start_offset, again.end_offset, again.last_epoch) == (10_000, 10_000, 0)


def test_what_is_appended_survives_a_kill_at_once_and_a_power_cut_after_a_flush() -> None:
    for seed in range(20):
        disk = memory_disk(seed)
        log = new_commit_log(disk)
        fill(log, 10)
        kept = log.flush()
        fill(log, 10, epoch=2)
        whole = content(log)
        again = reopen(kill(disk, seed))
        assert (content(again), again.epochs) == (whole, log.epochs)
        cut = reopen(disk.after_crash(random.Random(seed)))
        assert kept <= cut.end_offset <= len(whole)
        assert content(cut) == whole[: cut.end_offset]


@pytest.mark.parametrize("fate", FATES)
def test_whichever_disk_call_fails_what_was_acknowledged_stays(fate: Fate) -> None:
    """Each append is flushed before it is acknowledged; a kill also keeps unflushed appends."""
    failures = 0
    for n in range(1, 400):
        disk = memory_disk(n)
        log = new_commit_log(disk)
        appended = flushed = 0
        disk.fail_call(n)
        try:
            for number in range(12):
                log.append(
                    [record(body=bytes(700), physical=log.end_offset)], epoch=1 + number // 4, timestamp_ms=number
                )
                appended = log.end_offset
                flushed = log.flush()
        except StorageFailed:
            failures += 1
            again = reopen(fate(disk, n))
            assert again.end_offset >= (appended if fate is kill else flushed)
            again.append([b"more"], epoch=9, timestamp_ms=0)
        else:
            break
    assert failures > 20


def test_a_full_disk_changes_nothing() -> None:
    disk = memory_disk()
    log = new_commit_log(disk)
    fill(log, 5)
    before = content(log)
    disk.capacity_bytes = disk.used_bytes() + 100
    with pytest.raises(NoSpace):
        log.append([bytes(500)], epoch=1, timestamp_ms=0)
    assert content(log) == before
    disk.capacity_bytes = None
    assert log.append([b"x"], epoch=1, timestamp_ms=0) == len(before) + 1
