"""Idempotent producers in the two forms they have: as a decider knows them, and as they are kept on the disk."""

from collections.abc import Iterable

from kafka_compat.partition.model import ProducerSnapshot, SequenceRange
from kafka_compat.storage.producer_snapshots import ProducerStates

SEQUENCES = 1 << 31


def snapshots_of(kept: ProducerStates, now_ms: int) -> tuple[ProducerSnapshot, ...]:
    """Returns the snapshots with which a decider begins.

    The time of a batch is the time of its newest record, ms since 1970.
    """
    return tuple(
        ProducerSnapshot(
            producer_id,
            epoch,
            tuple(
                SequenceRange(first, last, last_offset - (last - first) % SEQUENCES, last_offset + 1)
                for first, last, last_offset, _ in batches
            ),
            max(now_ms - max((each[3] for each in batches), default=now_ms), 0) / 1000,
        )
        for producer_id, (epoch, batches) in kept.items()
    )


def kept_of(producers: Iterable[ProducerSnapshot], now_ms: int) -> ProducerStates:
    """Returns the form of the snapshots on disk."""
    return {
        producer.producer_id: (
            producer.epoch,
            tuple(
                (batch.first_sequence, batch.last_sequence, batch.end_offset - 1, now_ms - int(producer.idle_s * 1000))
                for batch in producer.batches
            ),
        )
        for producer in producers
    }
