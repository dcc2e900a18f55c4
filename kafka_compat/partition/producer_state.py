"""Idempotent producers of one partition (KIP-98 without transactions): they detect batches that were already appended.

Each producer id keeps its epoch and its last five batches, because a client has at most five requests in flight. Leader
and followers have the same state, because both record every batch of the log. A truncation or a restart makes the state
from the log again: `replay` takes the newest stored snapshot at or below the log's end, and all batches behind it.
"""

from collections.abc import Iterable

import attrs

from kafka_compat.partition.model import BatchInfo, ProducerSnapshot, SequenceRange
from kafka_compat.protocol.error_codes import KafkaErrorCode

BATCHES_KEPT = 5
SEQUENCE_MAX = 2**31 - 1
"""The sequence number after it is 0."""


def last_sequence(base_sequence: int, offset_count: int) -> int:
    """Returns the sequence number of a batch's last record; they wrap around within a batch, too."""
    return (base_sequence + offset_count - 1) & SEQUENCE_MAX


@attrs.define
class _Producer:
    epoch: int
    batches: list[SequenceRange]
    appended_at: float


class ProducerStates:
    """The producers by id, the one that was idle longest first. At most `producers_max`."""

    __slots__ = ("_producers", "_producers_max")

    def __init__(self, producers_max: int) -> None:
        self._producers: dict[int, _Producer] = {}
        self._producers_max = producers_max

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, batch: BatchInfo) -> SequenceRange | KafkaErrorCode:
        """Returns NONE if the leader may append this batch, the error if not, or a duplicate's earlier range.

        For an unknown producer (a new one, or one that expired) any sequence is accepted.
        """
        if batch.producer_id < 0:
            return KafkaErrorCode.NONE
        first = batch.base_sequence
        if batch.producer_epoch < 0 or not 0 <= first <= SEQUENCE_MAX:
            return KafkaErrorCode.INVALID_RECORD
        known = self._producers.get(batch.producer_id)
        if known is None:
            return KafkaErrorCode.NONE
        if batch.producer_epoch != known.epoch:
            if batch.producer_epoch < known.epoch:
                return KafkaErrorCode.INVALID_PRODUCER_EPOCH
            return KafkaErrorCode.NONE if first == 0 else KafkaErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if first == (known.batches[-1].last_sequence + 1) & SEQUENCE_MAX:
            return KafkaErrorCode.NONE
        last = last_sequence(first, batch.offset_count)
        for kept in known.batches:
            if kept.first_sequence == first and kept.last_sequence == last:
                return kept
        return KafkaErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def record(self, batch: BatchInfo, base_offset: int, now: float) -> None:
        """Record a batch that is in the log at `base_offset`, without a check."""
        if batch.producer_id < 0:
            return
        count, first = batch.offset_count, batch.base_sequence
        appended = SequenceRange(first, last_sequence(first, count), base_offset, base_offset + count)
        known = self._producers.pop(batch.producer_id, None)
        if known is None:
            known = _Producer(batch.producer_epoch, [appended], now)
            if len(self._producers) >= self._producers_max:
                del self._producers[next(iter(self._producers))]
        elif known.epoch != batch.producer_epoch:
            known.epoch = batch.producer_epoch
            known.batches = [appended]
        else:
            known.batches.append(appended)
            if len(known.batches) > BATCHES_KEPT:
                del known.batches[0]
        known.appended_at = now
        self._producers[batch.producer_id] = known

    def expire(self, now: float, expiry_s: float) -> None:
        """Forget producers without an append for longer than `expiry_s`."""
        while self._producers:
            producer_id, producer = next(iter(self._producers.items()))
            if now - producer.appended_at <= expiry_s:
                return
            del self._producers[producer_id]

    def snapshot(self, now: float) -> tuple[ProducerSnapshot, ...]:
        """Returns the state as plain data, with the longest idle producer first.

        Store it with the log end that it belongs to.
        """
        return tuple(
            ProducerSnapshot(producer_id, producer.epoch, tuple(producer.batches), max(0.0, now - producer.appended_at))
            for producer_id, producer in self._producers.items()
        )

    def restore(self, producers: Iterable[ProducerSnapshot], now: float) -> None:
        """Replace the state by an earlier result of `snapshot`. Raises `ValueError` for a producer without batches."""
        self._producers.clear()
        by_idleness = sorted(producers, key=lambda producer: -producer.idle_s)
        for producer in by_idleness[-self._producers_max :]:
            if not producer.batches:
                raise ValueError(f"producer {producer.producer_id} without batches")
            self._producers[producer.producer_id] = _Producer(
                producer.epoch, list(producer.batches[-BATCHES_KEPT:]), now - producer.idle_s
            )


def replay(
    snapshot: Iterable[ProducerSnapshot], batches: Iterable[BatchInfo], producers_max: int = 100_000
) -> tuple[ProducerSnapshot, ...]:
    """Returns the producers after `snapshot` and the batches that follow it in the log, with their base offsets.

    The result suits `RecoveredReplica.producers` and `Truncated.producers`. Producers of the batches count as if they
    had just appended.
    """
    states = ProducerStates(producers_max)
    states.restore(snapshot, 0.0)
    for batch in batches:
        states.record(batch, batch.base_offset, 0.0)
    return states.snapshot(0.0)
