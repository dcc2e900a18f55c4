"""Records as a broker stores them, and small stores on a disk in memory."""

import random
import struct
import zlib
from collections.abc import Mapping

from log.config import StoreConfig
from log.disk import Disk
from log.memory_disk import MemoryDisk
from log.store import LogStore
from rocketmq_compat.record_layout import BORN_HOST_V6, MAGIC_V1, MAGIC_V2, STORE_HOST_V6
from rocketmq_compat.storage.commit_log import CommitLog

DIRECTORY = "data/broker"
SMALL = StoreConfig(segment_bytes_max=4096, index_interval_bytes=512, open_files_max=4, threads=1)


def memory_disk(seed: int = 0) -> MemoryDisk:
    return MemoryDisk(random.Random(seed))


def record(
    topic: str = "Orders",
    queue_id: int = 0,
    *,
    body: bytes = b"",
    properties: Mapping[str, str] | str | None = None,
    queue_offset: int = 0,
    physical: int = 0,
    flags: int = 0,
    store_ms: int = 1000,
    magic: int = MAGIC_V1,
) -> bytes:
    """A stored record, written field by field as reference 3.4 has them."""
    text = (
        properties
        if isinstance(properties, str)
        else "".join(f"{name}\1{value}\2" for name, value in (properties or {}).items())
    )
    name, encoded = topic.encode(), text.encode()
    born = (bytes(16) if flags & BORN_HOST_V6 else bytes(4)) + struct.pack(">i", 4711)
    stored = (bytes(16) if flags & STORE_HOST_V6 else b"\x7f\0\0\1") + struct.pack(">i", 10911)
    rest = b"".join(
        [
            struct.pack(">IiiqqI", zlib.crc32(body) & 0x7FFFFFFF, queue_id, 0, queue_offset, physical, flags),
            struct.pack(">q", 900),
            born,
            struct.pack(">q", store_ms),
            stored,
            struct.pack(">iqi", 0, 0, len(body)),
            body,
            struct.pack(">H" if magic == MAGIC_V2 else ">B", len(name)),
            name,
            struct.pack(">H", len(encoded)),
            encoded,
        ]
    )
    return struct.pack(">II", 8 + len(rest), magic) + rest


def new_commit_log(disk: Disk, config: StoreConfig = SMALL) -> CommitLog:
    return CommitLog(LogStore.open(disk, DIRECTORY, config).create("commitlog"))


def reopen(disk: Disk, config: StoreConfig = SMALL) -> CommitLog:
    """The commit log of a disk after a restart."""
    return CommitLog(LogStore.open(disk, DIRECTORY, config).log("commitlog"))


def from_disk(log: CommitLog) -> CommitLog:
    """The same log without what it has in memory, so that reads are read from the disk."""
    return CommitLog(log.store_log)


def content(log: CommitLog) -> bytes:
    """All bytes that may be read."""
    return b"".join(bytes(each.payload) for each in log.read(log.start_offset, 1 << 30))
