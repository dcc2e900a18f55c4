"""Shared parts of the tests of a broker's logs: small batches that name themselves, and a small store on a disk in
memory.
"""

import random

import attrs

from kafka_compat.model import TopicPartition
from kafka_compat.protocol.batch_header import BatchHeader, assigned_start, encode_batch_header, read_batch_header
from kafka_compat.records import encode_records
from kafka_compat.storage.broker_store import BrokerStore
from kafka_compat.storage.partition_log import PartitionLog
from log.config import StoreConfig
from log.disk import Disk
from log.memory_disk import MemoryDisk

DIRECTORY = "data/broker"
PARTITION = TopicPartition("orders", 0)
TOPIC_ID = b"T" * 16
OTHER_ID = b"U" * 16
SMALL = StoreConfig(segment_bytes_max=1 << 20, index_interval_bytes=512, open_files_max=4, threads=1)
SEGMENT_BYTES = 4096


def memory_disk(seed: int = 0) -> MemoryDisk:
    return MemoryDisk(random.Random(seed))


def open_broker(
    disk: Disk,
    *,
    config: StoreConfig = SMALL,
    segment_bytes: int = SEGMENT_BYTES,
    boot: str = "boot",
    flushed: bool = True,
) -> BrokerStore:
    store = BrokerStore.open(
        disk, DIRECTORY, cluster_id="cluster", broker_id=1, config=config, boot=boot, flushed=flushed
    )
    store.open_all(segment_bytes)
    return store


def new_log(disk: Disk, **settings: int) -> tuple[BrokerStore, PartitionLog]:
    store = open_broker(disk, **settings)  # type: ignore[arg-type]  # only segment_bytes is given
    store.create({PARTITION: TOPIC_ID})
    return store, store.log(PARTITION)


def reopen(disk: Disk) -> PartitionLog:
    """The log of a disk after a restart."""
    return open_broker(disk).log(PARTITION)


def batch(
    count: int = 1,
    *,
    mark: str = "",
    size: int = 50,
    times: int | list[int] = 1000,
    producer: tuple[int, int, int] | None = None,
) -> bytes:
    """A batch as a producer sends it; `producer` is id, epoch and first sequence."""
    content = encode_records([(b"k%d" % at, mark.encode().ljust(size, b".")) for at in range(count)], times)
    if producer is None:
        return content
    header = read_batch_header(content)
    with_producer = attrs.evolve(header, producer_id=producer[0], producer_epoch=producer[1], base_sequence=producer[2])
    return encode_batch_header(with_producer, content[61:]) + content[61:]


def at(content: bytes, offset: int, epoch: int) -> bytes:
    """The batch as it lies in the log."""
    return assigned_start(read_batch_header(content).length, offset, epoch) + content[16:]


def read_all(log: PartitionLog) -> list[bytes]:
    """All batches of a log."""
    return [bytes(each) for each in log.read(log.start_offset, 1 << 30)]


def places(log: PartitionLog) -> list[tuple[int, int]]:
    """Base and end offset of each batch of a log."""
    headers: list[BatchHeader] = list(log.headers())
    return [(each.base_offset, each.end_offset) for each in headers]
