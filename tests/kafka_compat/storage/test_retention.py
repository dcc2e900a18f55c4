"""Retention: which segments may go, and when a segment ends because of its age."""

from typing import Any

import attrs
import pytest

from kafka_compat.config import Settings, TopicSettings
from kafka_compat.storage.broker_store import BrokerStore
from kafka_compat.storage.partition_log import PartitionLog
from kafka_compat.storage.retention import roll_if_due, start_to_keep
from tests.crashes import lose_unsynced
from tests.kafka_compat.storage.partition_model import batch, memory_disk, new_log, places, reopen

KEEP_ALL = attrs.evolve(Settings().topic({}), retention_ms=None)
DAY_MS = 86_400_000


def settings(**changes: Any) -> TopicSettings:
    return attrs.evolve(KEEP_ALL, **changes)


def log_of(*segments: list[int]) -> tuple[BrokerStore, PartitionLog]:
    """A log with a batch of one record at each of these times, in segments; the last one is open."""
    store, log = new_log(memory_disk())
    for at, times in enumerate(segments):
        if at:
            log.roll()
        for time in times:
            log.append_as_leader([batch(times=time, size=920)], 0)
    store.flush()
    return store, log


BATCH_BYTES = 80 + len(batch(size=920))


def test_what_is_older_than_the_retention_goes_in_whole_segments() -> None:
    _, log = log_of([100, 200], [300, 400], [500], [600])
    cases = [(300, 0), (301, 2), (500, 2), (501, 4), (601, 5), (9999, 5)]
    found = [start_to_keep(log, settings(retention_ms=100), 6, now_ms) for now_ms in (300, 301, 500, 501, 601, 9999)]
    assert found == [start for _, start in cases]
    assert start_to_keep(log, settings(), 6, 1 << 50) == 0


def test_nothing_above_the_high_watermark_goes() -> None:
    _, log = log_of([100, 200], [300, 400], [500], [600])
    starts = [start_to_keep(log, settings(retention_ms=0), high_watermark, 9999) for high_watermark in range(7)]
    assert starts == [0, 0, 2, 2, 4, 5, 5]
    assert start_to_keep(log, settings(retention_bytes=0), 3, 9999) == 2


@pytest.mark.parametrize(("batches_kept", "start"), [(7, 0), (6, 0), (5, 0), (4, 2), (3, 2), (2, 4), (1, 5), (0, 5)])
def test_segments_go_while_the_others_hold_enough(batches_kept: int, start: int) -> None:
    _, log = log_of([100, 200], [300, 400], [500], [600])
    assert start_to_keep(log, settings(retention_bytes=batches_kept * BATCH_BYTES), 6, 700) == start


def test_the_start_never_moves_back_and_the_move_survives() -> None:
    store, log = log_of([100, 200], [300, 400], [500], [600])
    log.trim(3)
    assert start_to_keep(log, settings(), 6, 9999) == 3
    assert start_to_keep(log, settings(retention_ms=0), 3, 9999) == 3
    log.trim(start_to_keep(log, settings(retention_ms=0), 6, 9999))
    store.flush()
    assert places(reopen(lose_unsynced(store._disk, 0))) == [(5, 6)]  # type: ignore[arg-type]


def test_a_clock_that_was_fast_does_not_keep_a_segment_for_ever() -> None:
    _, log = log_of([100, 1 << 40], [200], [300])
    assert start_to_keep(log, settings(retention_ms=50), 4, 250) == 0
    assert start_to_keep(log, settings(retention_ms=50), 4, 251) == 3


def test_a_compacted_topic_loses_nothing_by_age_or_size() -> None:
    _, log = log_of([100, 200], [300, 400], [500])
    compacted = settings(retention_ms=0, retention_bytes=0, segment_ms=10 * DAY_MS, compacted=True, deletes=False)
    assert start_to_keep(log, compacted, 5, 9999) == 0
    assert not roll_if_due(log, compacted, 5, 9999)


def test_a_segment_ends_when_its_first_batch_is_old() -> None:
    _, log = log_of([100, 200], [1000, 5000])
    for now_ms in (999, 1000, 1050, 1100):
        assert not roll_if_due(log, settings(segment_ms=100), 4, now_ms)
    assert roll_if_due(log, settings(segment_ms=100), 4, 1101)
    assert len(log.store_log.segment_facts()) == 3
    assert not roll_if_due(log, settings(segment_ms=100), 4, 1 << 50)


def test_the_newest_segment_goes_too_once_all_of_it_is_old_and_replicated() -> None:
    _, log = log_of([100], [200, 150])
    keep = settings(retention_ms=100)
    assert not roll_if_due(log, keep, 3, 300)
    assert not roll_if_due(log, keep, 2, 301)
    assert roll_if_due(log, keep, 3, 301)
    assert start_to_keep(log, keep, 3, 301) == 3
    log.trim(3)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (3, 3, 0)
    assert not roll_if_due(log, keep, 3, 999)


def test_batches_without_a_time_do_not_end_a_segment() -> None:
    _, log = log_of([-1, -1])
    assert not roll_if_due(log, settings(segment_ms=1, retention_ms=1), 2, 1 << 50)


def test_a_segment_of_which_all_was_deleted_does_not_end() -> None:
    _, log = log_of([100, 200])
    log.trim(2)
    assert not roll_if_due(log, settings(segment_ms=1, retention_ms=1), 2, 1 << 50)
