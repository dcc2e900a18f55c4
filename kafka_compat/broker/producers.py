"""Producers and transactions in the two forms they have: as a decider knows them, and as they are kept on the disk."""

from collections.abc import Iterable

from kafka_compat.model import NO_EPOCH
from kafka_compat.partition.model import AbortedTransaction, ProducerSnapshot, SequenceRange, TransactionsSnapshot
from kafka_compat.storage.producer_snapshots import KeptProducers

SEQUENCES = 1 << 31


def snapshots_of(kept: KeptProducers, now_ms: int) -> tuple[ProducerSnapshot, ...]:
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
            kept.coordinator_epochs.get(producer_id, NO_EPOCH),
        )
        for producer_id, (epoch, batches) in kept.by_id.items()
    )


def transactions_of(kept: KeptProducers) -> TransactionsSnapshot:
    """Returns the transactions with which a decider begins."""
    return TransactionsSnapshot(
        tuple(kept.open.items()), tuple(kept.ending), tuple(AbortedTransaction(*each) for each in kept.aborted)
    )


def kept_of(producers: Iterable[ProducerSnapshot], transactions: TransactionsSnapshot, now_ms: int) -> KeptProducers:
    """Returns the form of the snapshots on disk."""
    by_id: dict[int, tuple[int, tuple[tuple[int, int, int, int], ...]]] = {}
    coordinator_epochs: dict[int, int] = {}
    for producer in producers:
        time_ms = now_ms - int(producer.idle_s * 1000)
        by_id[producer.producer_id] = (
            producer.epoch,
            tuple(
                (batch.first_sequence, batch.last_sequence, batch.end_offset - 1, time_ms) for batch in producer.batches
            ),
        )
        if producer.coordinator_epoch != NO_EPOCH:
            coordinator_epochs[producer.producer_id] = producer.coordinator_epoch
    return KeptProducers(
        by_id,
        coordinator_epochs,
        dict(transactions.open),
        list(transactions.ending),
        [(each.producer_id, each.first_offset, each.last_offset) for each in transactions.aborted],
    )
