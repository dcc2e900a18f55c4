"""Idempotent and transactional producers of one partition (KIP-98): they detect batches that were already appended.

Each producer id keeps its epoch and its last five batches, because a client has at most five requests in flight. Its
transactions are in `transactions`; a marker may raise its epoch, which fences what came before (KIP-360, KIP-890). Leader
and followers have the same state, because both record every batch of the log. A truncation or a restart makes the state
from the log again: `replay` takes the newest stored snapshot at or below the log's end, and all batches behind it.
"""

from collections.abc import Iterable, Iterator

import attrs

from kafka_compat.model import NO_EPOCH
from kafka_compat.partition.model import (
    NO_PRODUCER,
    NO_TRANSACTIONS,
    BatchInfo,
    BatchKind,
    ProducerSnapshot,
    SequenceRange,
    TransactionsSnapshot,
)
from kafka_compat.partition.transactions import Transactions
from kafka_compat.protocol.error_codes import KafkaErrorCode

BATCHES_KEPT = 5
SEQUENCE_MAX = 2**31 - 1
"""The sequence number after it is 0."""
RAISED_EPOCH_VERSION = 2
"""From this `transaction.version` on a marker has an epoch above that of its transaction (KIP-890)."""
NONE = KafkaErrorCode.NONE


def last_sequence(base_sequence: int, offset_count: int) -> int:
    """Returns the sequence number of a batch's last record; they wrap around within a batch, too."""
    return (base_sequence + offset_count - 1) & SEQUENCE_MAX


@attrs.define
class _Producer:
    epoch: int
    batches: list[SequenceRange]
    appended_at: float
    coordinator_epoch: int = NO_EPOCH


class ProducerStates:
    """The producers by id, the one that was idle longest first. At most `producers_max`."""

    __slots__ = ("_producers", "_producers_max", "transactions")

    def __init__(self, producers_max: int) -> None:
        self.transactions = Transactions()
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
            if batch.kind and first == NO_PRODUCER:
                return self._check_unnumbered(batch)
            return KafkaErrorCode.INVALID_RECORD
        known = self._producers.get(batch.producer_id)
        if known is None:
            return KafkaErrorCode.NONE
        if batch.producer_epoch != known.epoch:
            if batch.producer_epoch < known.epoch:
                return KafkaErrorCode.INVALID_PRODUCER_EPOCH
            return KafkaErrorCode.NONE if first == 0 else KafkaErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        expected = (known.batches[-1].last_sequence + 1) & SEQUENCE_MAX if known.batches else 0
        if first == expected:
            return KafkaErrorCode.NONE
        last = last_sequence(first, batch.offset_count)
        for kept in known.batches:
            if kept.first_sequence == first and kept.last_sequence == last:
                return kept
        return KafkaErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def _check_unnumbered(self, batch: BatchInfo) -> KafkaErrorCode:
        """Offsets in a transaction have no sequence number, since their group coordinator writes each once."""
        known = self._producers.get(batch.producer_id)
        if batch.kind is BatchKind.TRANSACTIONAL and known is not None and batch.producer_epoch < known.epoch:
            return KafkaErrorCode.INVALID_PRODUCER_EPOCH
        return NONE

    def last_offsets(self) -> dict[int, int]:
        """Returns by producer id the last offset of its last batch with a sequence number."""
        return {each: known.batches[-1].end_offset - 1 for each, known in self._producers.items() if known.batches}

    # ------------------------------------------------------------ transactions

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Returns True if the producer has an open transaction here, in this epoch."""
        if producer_id not in self.transactions.open:
            return False
        known = self._producers.get(producer_id)
        return known is not None and known.epoch == epoch

    def ask(self, producer_id: int, epoch: int, sequence: int) -> int:
        """Returns the guard of a question to the coordinator; 0 if the transaction is open, so that none is needed."""
        return 0 if self.is_open(producer_id, epoch) else self.transactions.ask(producer_id, epoch, sequence)

    def check_transaction(self, batch: BatchInfo, guard: int, version: int, *, verifies: bool) -> KafkaErrorCode:
        """Returns NONE if the part that a batch plays in a transaction allows it, or the reason to refuse it.

        The batch has passed `check`. `version` is the `transaction.version` of a marker.
        """
        known = self._producers.get(batch.producer_id)
        if batch.kind is not BatchKind.TRANSACTIONAL:
            return NONE if known is None else self._check_marker(batch, known, version)
        if self.is_open(batch.producer_id, batch.producer_epoch):
            return NONE
        if verifies and not self.transactions.is_verified(batch.producer_id, batch.producer_epoch, guard):
            return KafkaErrorCode.INVALID_TXN_STATE
        lowest = self.transactions.lowest_sequence(batch.producer_id)
        if known is None and lowest is not None and batch.base_sequence != lowest:
            return KafkaErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # an earlier batch was refused meanwhile
        return NONE

    def hanging(self, now: float, after_s: float) -> Iterator[tuple[int, int, int, float]]:
        """Yields id, epoch, first offset and idle time of producers whose transaction is open without a batch for long."""
        for producer_id, first_offset in self.transactions.open.items():
            known = self._producers.get(producer_id)
            if known is not None and now - known.appended_at > after_s:
                yield producer_id, known.epoch, first_offset, now - known.appended_at

    def _check_marker(self, marker: BatchInfo, known: _Producer, version: int) -> KafkaErrorCode:
        if marker.coordinator_epoch < known.coordinator_epoch:
            return KafkaErrorCode.TRANSACTION_COORDINATOR_FENCED
        if marker.producer_epoch < known.epoch:
            return KafkaErrorCode.INVALID_PRODUCER_EPOCH
        is_late = version >= RAISED_EPOCH_VERSION and marker.producer_epoch == known.epoch
        if is_late and marker.producer_id in self.transactions.open:
            return KafkaErrorCode.INVALID_PRODUCER_EPOCH  # it would end the producer's next transaction
        return NONE

    def _record_marker(self, marker: BatchInfo, offset: int, now: float) -> None:
        self.transactions.end(marker.producer_id, marker.kind, offset)
        known = self._producers.pop(marker.producer_id, None)
        if known is None:
            self._make_room()
            known = _Producer(marker.producer_epoch, [], now)
        elif marker.producer_epoch != known.epoch:
            known.epoch, known.batches = marker.producer_epoch, []
        known.coordinator_epoch = marker.coordinator_epoch
        known.appended_at = now
        self._producers[marker.producer_id] = known

    # ------------------------------------------------------------ what is in the log

    def record(self, batch: BatchInfo, base_offset: int, now: float) -> None:
        """Record a batch that is in the log at `base_offset`, without a check."""
        if batch.producer_id < 0:
            return
        if batch.kind:
            if batch.kind is not BatchKind.TRANSACTIONAL:
                self._record_marker(batch, base_offset, now)
                return
            self.transactions.begin(batch.producer_id, base_offset)
            if batch.base_sequence == NO_PRODUCER:
                self._record_unnumbered(batch, now)
                return
        count, first = batch.offset_count, batch.base_sequence
        appended = SequenceRange(first, last_sequence(first, count), base_offset, base_offset + count)
        known = self._producers.pop(batch.producer_id, None)
        if known is None:
            known = _Producer(batch.producer_epoch, [appended], now)
            self._make_room()
        elif known.epoch != batch.producer_epoch:
            known.epoch = batch.producer_epoch
            known.batches = [appended]
        else:
            known.batches.append(appended)
            if len(known.batches) > BATCHES_KEPT:
                del known.batches[0]
        known.appended_at = now
        self._producers[batch.producer_id] = known

    def _record_unnumbered(self, batch: BatchInfo, now: float) -> None:
        known = self._producers.pop(batch.producer_id, None)
        if known is None:
            self._make_room()
            known = _Producer(batch.producer_epoch, [], now)
        elif known.epoch != batch.producer_epoch:
            known.epoch, known.batches = batch.producer_epoch, []
        known.appended_at = now
        self._producers[batch.producer_id] = known

    def _make_room(self) -> None:
        """Forget the producer that was idle longest, unless its transaction is open, if there are too many."""
        if len(self._producers) < self._producers_max:
            return
        for producer_id in self._producers:
            if producer_id not in self.transactions.open:
                del self._producers[producer_id]
                return

    def expire(self, now: float, expiry_s: float) -> None:
        """Forget producers without an append for longer than `expiry_s`, and without an open transaction."""
        late = []
        for producer_id, producer in self._producers.items():
            if now - producer.appended_at <= expiry_s:
                break
            if producer_id not in self.transactions.open:
                late.append(producer_id)
        for producer_id in late:
            del self._producers[producer_id]

    def snapshot(self, now: float) -> tuple[ProducerSnapshot, ...]:
        """Returns the state as plain data, with the longest idle producer first.

        Store it with the log end that it belongs to.
        """
        return tuple(
            ProducerSnapshot(
                producer_id,
                producer.epoch,
                tuple(producer.batches),
                max(0.0, now - producer.appended_at),
                producer.coordinator_epoch,
            )
            for producer_id, producer in self._producers.items()
        )

    def restore(
        self, producers: Iterable[ProducerSnapshot], now: float, transactions: TransactionsSnapshot = NO_TRANSACTIONS
    ) -> None:
        """Replace the state by an earlier result of `snapshot`, with the transactions of the same log end."""
        self.transactions.restore(transactions)
        self._producers.clear()
        by_idleness = sorted(producers, key=lambda producer: -producer.idle_s)
        for producer in by_idleness[-self._producers_max :]:
            self._producers[producer.producer_id] = _Producer(
                producer.epoch,
                list(producer.batches[-BATCHES_KEPT:]),
                now - producer.idle_s,
                producer.coordinator_epoch,
            )


def replay(
    snapshot: Iterable[ProducerSnapshot],
    batches: Iterable[BatchInfo],
    producers_max: int = 100_000,
    transactions: TransactionsSnapshot = NO_TRANSACTIONS,
) -> tuple[tuple[ProducerSnapshot, ...], TransactionsSnapshot]:
    """Returns producers and transactions after a snapshot of both and the batches that follow it in the log.

    The batches have their base offsets. The results suit `RecoveredReplica` and `Truncated`. Producers of the batches
    count as if they had just appended.
    """
    states = ProducerStates(producers_max)
    states.restore(snapshot, 0.0, transactions)
    for batch in batches:
        states.record(batch, batch.base_offset, 0.0)
    return states.snapshot(0.0), states.transactions.snapshot()
