"""Retention of the commit log, by age and by bytes, and the log after a trim."""

import pytest

from log.memory_disk import MemoryDisk
from rocketmq_compat.storage.broker_store import MessageStore
from rocketmq_compat.storage.retention import CommitLogRetention, start_to_keep
from tests.crashes import lose_unsynced
from tests.rocketmq_compat.storage.records import memory_disk
from tests.rocketmq_compat.storage.stores import QUEUE, append, open_messages

HOUR_MS = 3_600_000


def store_of(*hours: int, disk: MemoryDisk | None = None) -> tuple[MessageStore, list[int]]:
    """Returns a store with a segment for each of these store hours, and the starts of the segments."""
    store, starts = open_messages(disk or memory_disk()), list[int]()
    for hour in hours:
        store.log.roll()
        starts.append(store.log.end_offset)
        append(store, count=2, size=1000, store_ms=hour * HOUR_MS)
    store.flush()
    store.derived.save()
    return store, starts


def test_segments_go_once_their_newest_message_is_older_than_the_reserved_time() -> None:
    store, starts = store_of(100, 101, 102, 103)
    rule = CommitLogRetention(hours_max=2)
    kept = [start_to_keep(store.log, rule, hour * HOUR_MS + 1) for hour in (101, 102, 103, 104, 200)]
    assert kept == [starts[0], starts[0], starts[1], starts[2], starts[3]]
    assert start_to_keep(store.log, CommitLogRetention(), 175 * HOUR_MS) == starts[3]
    assert start_to_keep(store.log, CommitLogRetention(hours_max=None), 10_000 * HOUR_MS) == 0


def test_segments_go_while_the_others_hold_enough_bytes() -> None:
    store, starts = store_of(100, 101, 102, 103)
    size = store.log.segment_facts()[0].size_bytes
    kept = [
        start_to_keep(store.log, CommitLogRetention(hours_max=None, bytes_max=bytes_max), 0)
        for bytes_max in (4 * size, 3 * size, 3 * size - 1, size, 0)
    ]
    assert kept == [starts[0], starts[1], starts[1], starts[3], starts[3]]


def test_a_time_in_the_future_does_not_keep_what_lies_before_it() -> None:
    store, starts = store_of(100, 900, 101, 102)
    assert start_to_keep(store.log, CommitLogRetention(hours_max=2), 104 * HOUR_MS) == starts[3]


def test_what_is_trimmed_by_the_rule_stays_gone() -> None:
    disk = memory_disk()
    store, starts = store_of(100, 101, 102, 103, disk=disk)
    rule = CommitLogRetention(hours_max=2)
    assert store.retain(rule, 104 * HOUR_MS + 1) == store.log.start_offset == starts[2]
    assert store.queue(QUEUE) == (4, 8)
    assert store.retain(rule, 103 * HOUR_MS) == starts[2]
    store.flush()
    store.derived.save()
    assert len(store.log.segment_facts()) == 2
    again = open_messages(lose_unsynced(disk, 0))
    assert (again.log.start_offset, again.queue(QUEUE)) == (starts[2], (4, 8))


def test_nothing_is_trimmed_before_a_checkpoint_covers_it() -> None:
    store, starts = store_of(100, 101)
    for hour in (102, 103):
        store.log.roll()
        append(store, count=2, size=1000, store_ms=hour * HOUR_MS)
    store.flush()
    assert start_to_keep(store.log, CommitLogRetention(hours_max=1), 900 * HOUR_MS) > store.derived.saved > starts[1]
    assert store.retain(CommitLogRetention(hours_max=1), 900 * HOUR_MS) == store.derived.saved


@pytest.mark.parametrize(("hours_max", "bytes_max"), [(0, None), (-1, None), (None, -1)])
def test_a_bound_that_cannot_be_meant_is_refused(hours_max: int | None, bytes_max: int | None) -> None:
    with pytest.raises(ValueError, match="what is kept"):
        CommitLogRetention(hours_max=hours_max, bytes_max=bytes_max)
