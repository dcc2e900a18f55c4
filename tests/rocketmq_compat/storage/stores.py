"""Small message stores on a disk in memory, and what they hold as plain values."""

import attrs

from log.disk import Disk
from log.memory_disk import MemoryDisk
from rocketmq_compat.storage.broker_store import AppendedMessages, MessageStore, MessageStoreConfig
from rocketmq_compat.storage.derived import DerivedConfig
from rocketmq_compat.storage.dispatch import UNIT, QueueKey
from rocketmq_compat.storage.key_index import KeyIndexConfig
from tests.rocketmq_compat.storage.records import DIRECTORY, SMALL, record

SMALL_INDEX = KeyIndexConfig(entries_max=16, span_bytes_max=8192, tables_max=100)
SMALL_STORE = MessageStoreConfig(
    log=SMALL,
    derived=DerivedConfig(units_per_file=8, save_every_bytes=3000, open_files_max=4, threads=1, index=SMALL_INDEX),
    undispatched_bytes_max=4096,
)
QUEUE = ("Orders", 0)


def open_messages(disk: Disk, config: MessageStoreConfig = SMALL_STORE) -> MessageStore:
    return MessageStore.open(disk, DIRECTORY, config)


def append(
    store: MessageStore, key: QueueKey = QUEUE, count: int = 1, *, size: int = 100, epoch: int = 1, store_ms: int = 1000
) -> AppendedMessages:
    """Append messages to one queue and dispatch them.

    The place in this call decides their tags (`evn` or `odd`) and keys.
    """
    records = [
        record(
            *key,
            body=bytes(size),
            properties={"TAGS": "odd" if at % 2 else "evn", "KEYS": f"k{at}"},
            store_ms=store_ms + at,
        )
        for at in range(count)
    ]
    found = store.append(records, epoch=epoch)
    store.dispatch()
    return found


def append_each(store: MessageStore, key: QueueKey, count: int, *, size: int = 100) -> None:
    """Append messages in a batch each."""
    for _ in range(count):
        append(store, key, size=size)


@attrs.frozen
class QueueContent:
    """A queue as it is found: first and next offset, and the units between."""

    first: int
    next: int
    units: tuple[tuple[int, int, int], ...]


def queues_of(store: MessageStore) -> dict[QueueKey, QueueContent]:
    """All queues, through the face that reads use."""
    found: dict[QueueKey, QueueContent] = {}
    for queue in store.derived.queues:
        first = queue.min_offset(store.log.start_offset)
        units, offset = b"", first
        while offset < queue.next:
            units += queue.units(offset, queue.next - offset)
            offset = first + len(units) // UNIT.size
        found[queue.key] = QueueContent(first, queue.next, tuple(UNIT.iter_unpack(units)))
    return found


def entries_of(store: MessageStore) -> dict[int, list[int]]:
    """All entries of the key index whose messages are in the log: physical offsets by hash, newest first."""
    walks = list(store.derived.walks(store.log.start_offset, store.log.end_offset))
    return {
        key: [place for place in store.derived.index.find(key, 0, 1 << 63) if place >= store.log.start_offset]
        for key in {key for found in walks for key, *_ in found.keys}
    }


def rebuilt(disk: MemoryDisk) -> MessageStore:
    """Returns the store of this disk with all derived data made again from the commit log."""
    for path in disk.paths():
        if path == f"{DIRECTORY}/dispatched" or path.startswith((f"{DIRECTORY}/consumequeue/", f"{DIRECTORY}/index/")):
            disk.remove(path)
    store = open_messages(disk)
    assert store.derived.report.rebuilt is not None or store.log.start_offset == store.log.end_offset
    return store
