"""The state of a copy as a start finds it on the disk."""

from random import Random

import attrs

from log.memory_disk import MemoryDisk
from rocketmq_compat.broker.fixed_roles import recover_copy
from rocketmq_compat.records import encode_host, encode_record
from rocketmq_compat.replication.model import RecoveredCopy, ReplicationConfig
from rocketmq_compat.storage.broker_store import COMMIT_LOG_NAME, MessageStore

DIRECTORY = "broker"
CONFIG = ReplicationConfig(sync_flush=True)
HOST = encode_host("127.0.0.1", 1)


def record(body: bytes) -> bytes:
    return encode_record(
        topic="T", body=body, properties="", queue_id=0, born_ms=1, born_host=HOST, store_ms=1, store_host=HOST
    )


def recover(store: MessageStore, boot: str) -> RecoveredCopy:
    return recover_copy(store, CONFIG, boot=boot, lost_tables=(), tell=lambda event, **fields: None)


def test_a_log_that_was_cut_for_damage_is_in_doubt_even_if_the_note_of_its_reach_is_older_than_what_is_gone() -> None:
    disk = MemoryDisk(Random(1))
    store = MessageStore.open(disk, DIRECTORY)
    recover(store, "first boot")
    store.copy.change(
        lambda notes: attrs.evolve(notes, doubt=None)
    )  # a new disk is in doubt until copies were compared
    store.copy.note_reach(1, store.append([record(b"noted")], epoch=1).end)
    store.flush()
    store.append([record(b"acknowledged")], epoch=1)
    store.flush()
    (segment,) = [path for path in disk.paths() if COMMIT_LOG_NAME in path and b"acknowledged" in disk.content(path)]
    disk.flip_bit(segment, 8 * disk.content(segment).index(b"acknowledged"))
    again = MessageStore.open(disk.after_kill(Random(2)), DIRECTORY, repairs=lambda notes: True)
    assert again.cut is not None
    doubt = recover(again, "second boot").doubt
    assert doubt is not None
    assert not doubt.is_flushed
