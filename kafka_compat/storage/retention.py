"""Retention: ends segments by age, and finds those that may go, by `segment.ms`, `retention.ms` and `retention.bytes`.

Only whole segments go, oldest first, and only below the high watermark. Each replica looks at its own log, as in Kafka.
The replica orders a move of the start, and `PartitionLog.trim` carries it out.
"""

from kafka_compat.config import TopicSettings
from kafka_compat.storage.partition_log import PartitionLog
from log.retention import Retention


def roll_if_due(log: PartitionLog, settings: TopicSettings, high_watermark: int, now_ms: int) -> bool:
    """End the newest segment if its first batch is older than `segment.ms`, or all of it may go.

    Returns True if it ended. Times in the future, and batches without one, count as young.
    """
    active = log.store_log.segment_facts()[-1]
    first_offset = max(active.first_index, log.start_offset)
    if not active.size_bytes or first_offset >= log.end_offset:
        return False
    started_ms = next(log.headers(first_offset)).max_timestamp
    lasts_ms = min(settings.segment_ms, settings.compaction.max_lag_ms) if settings.compacted else settings.segment_ms
    too_old = 0 < started_ms < now_ms - lasts_ms
    newest_ms = active.newest_ms or 0
    expired = (
        settings.deletes
        and settings.retention_ms is not None
        and high_watermark >= log.end_offset
        and 0 < newest_ms < now_ms - settings.retention_ms
    )
    if too_old or expired:
        log.roll()
    return too_old or expired


def start_to_keep(log: PartitionLog, settings: TopicSettings, high_watermark: int, now_ms: int) -> int:
    """Returns the start that the log should have by its retention: its present start, or the start of a later segment.

    Without `cleanup.policy=delete` no record leaves by age or size.
    """
    facts = log.store_log.segment_facts()
    rule = Retention(bytes_max=settings.retention_bytes, age_ms_max=settings.retention_ms)
    if not settings.deletes:
        return log.start_offset
    wanted = min(rule.first_index(facts, now_ms), high_watermark)
    return max([log.start_offset, *(each.first_index for each in facts if each.first_index <= wanted)])
