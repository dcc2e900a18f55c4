"""Snapshots of producers: what is kept of a batch, and that a damaged file is never taken for one."""

import itertools

import msgpack
import pytest

from kafka_compat.protocol.batch_header import BatchHeader
from kafka_compat.storage.producer_snapshots import (
    SNAPSHOTS_MAX,
    KeptProducers,
    ProducerSnapshots,
    decode_producers,
    encode_producers,
    replay_into,
)
from log.frame import checksum
from log.memory_disk import MemoryDisk
from tests.kafka_compat.storage.partition_model import memory_disk

STATES = KeptProducers(
    {7: (2, ((0, 4, 9, 1000), (5, 5, 10, 1001))), 2**40: (0, ())}, {7: 3}, {7: 9}, [(3, 5)], [(7, 3, 5)]
)
NOTHING = KeptProducers()


def header(offset: int, count: int, producer: int, epoch: int, sequence: int, time: int = 5) -> BatchHeader:
    return BatchHeader(offset, 0, 0, 2, 0, 0, count - 1, time, time, producer, epoch, sequence, count)


def replay(producers: KeptProducers, *headers: BatchHeader) -> None:
    replay_into(producers, ((each, b"") for each in headers))


def snapshots() -> tuple[MemoryDisk, ProducerSnapshots]:
    disk = memory_disk()
    disk.make_directory("log")
    return disk, ProducerSnapshots(disk, "log")


def test_the_last_five_batches_of_an_epoch_are_kept() -> None:
    producers = KeptProducers()
    replay(producers, *(header(each * 2, 2, 7, 1, each * 2) for each in range(7)))
    assert producers.by_id == {7: (1, tuple((at, at + 1, at + 1, 5) for at in (4, 6, 8, 10, 12)))}
    replay(
        producers, header(14, 3, 7, 2, 0, 9), header(17, 1, -1, -1, -1), header(17, 1, 9, 0, -1), header(18, 1, 8, 0, 3)
    )
    assert producers.by_id == {7: (2, ((0, 2, 16, 9),)), 8: (0, ((3, 3, 18, 5),))}


def test_sequences_go_on_at_zero_after_the_greatest() -> None:
    producers = KeptProducers()
    replay(producers, header(0, 1, 1, 0, 2**31 - 1), header(1, 4, 2, 0, 2**31 - 2))
    assert [each[1][0][:2] for each in producers.by_id.values()] == [(2**31 - 1, 2**31 - 1), (2**31 - 2, 1)]


def test_what_is_written_is_read() -> None:
    for states in (NOTHING, STATES):
        assert decode_producers(encode_producers(states)) == states
    disk, kept = snapshots()
    kept.write(11, STATES)
    assert kept.newest() == (11, STATES)
    assert ProducerSnapshots(disk, "log").newest() == (11, STATES)


def test_a_snapshot_of_an_earlier_release_has_no_transactions() -> None:
    content: bytes = msgpack.packb([1, STATES.by_id])
    assert decode_producers(content + checksum(content).to_bytes(4, "little")) == KeptProducers(STATES.by_id)


def test_no_damage_is_taken_for_a_snapshot() -> None:
    content = encode_producers(STATES)
    for end in range(len(content)):
        assert decode_producers(content[:end]) is None
    for at, bit in itertools.product(range(len(content)), range(8)):
        assert decode_producers(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]) is None


@pytest.mark.parametrize("bit", [0, 40, 100])
def test_an_older_snapshot_is_taken_when_the_newest_is_damaged(bit: int) -> None:
    disk, kept = snapshots()
    kept.write(11, STATES)
    kept.write(20, NOTHING)
    disk.flip_bit(f"log/{20:020}.producers", bit % 40)
    assert kept.newest() == (11, STATES)
    disk.flip_bit(f"log/{11:020}.producers", bit)
    assert kept.newest() is None


def test_only_the_newest_snapshots_stay() -> None:
    disk, kept = snapshots()
    for offset in (5, 9, 9, 30, 41):
        kept.write(offset, STATES)
    assert kept.offsets == [30, 41] == ProducerSnapshots(disk, "log").offsets
    assert len(disk.paths()) == SNAPSHOTS_MAX


def test_other_files_are_left_alone() -> None:
    disk, _ = snapshots()
    for name in ("x.producers", "manifest", "٣.producers", f"{7:020}.log"):
        disk.open(f"log/{name}", create=True).close()
    kept = ProducerSnapshots(disk, "log")
    assert (kept.offsets, kept.newest()) == ([], None)
    kept.remove_after(-1)
    assert len(disk.paths()) == 4


def test_a_snapshot_that_left_does_not_come_back_once_the_log_is_cut() -> None:
    """Its name is still on the disk until the directory is synced."""
    disk, kept = snapshots()
    kept.write(5, NOTHING)
    kept.write(6, STATES)
    disk.sync_directory("log")
    for offset in (8, 9):
        kept.write(offset, NOTHING)
    kept.remove_after(7)
    found = ProducerSnapshots(disk.durable_copy(), "log")
    assert found.offsets == []
    kept.write(3, NOTHING)
    disk.sync_directory("log")
    for offset in (4, 5):
        kept.write(offset, NOTHING)
    after_kill = ProducerSnapshots(disk, "log")
    after_kill.remove_after(5)
    assert 3 not in ProducerSnapshots(disk.durable_copy(), "log").offsets


def test_an_opened_log_costs_no_sync_of_its_directory() -> None:
    disk, kept = snapshots()
    kept.write(5, NOTHING)
    seen: list[str] = []
    disk.before_call = lambda operation, path: seen.append(operation)
    ProducerSnapshots(disk, "log").remove_after(5, cutting=False)
    assert seen == ["list"]
    ProducerSnapshots(disk, "log").remove_after(4, cutting=False)
    assert seen[1:] == ["list", "remove", "sync directory"]
