"""One replica's knowledge of its log: ends, high watermark, leader epochs and producers. The shell has the bytes."""

from collections.abc import Mapping

import attrs

from kafka_compat.model import BrokerRegistration
from kafka_compat.partition.byte_window import ByteWindow
from kafka_compat.partition.effects import Effect, HighWatermarkMoved, MoveLogStart
from kafka_compat.partition.leader_epochs import LeaderEpochs
from kafka_compat.partition.model import (
    BatchInfo,
    PartitionConfig,
    PartitionError,
    ProducerSnapshot,
    RecoveredReplica,
    TransactionsSnapshot,
)
from kafka_compat.partition.producer_state import ProducerStates


@attrs.define
class ReplicaLog:
    """The facts of one log.

    `log_start <= high_watermark <= log_end`, and `flushed_end <= log_end`; ends are exclusive.
    """

    log_start: int
    log_end: int
    flushed_end: int
    high_watermark: int
    epochs: LeaderEpochs
    producers: ProducerStates
    window: ByteWindow
    before_ack: bool
    """True if only flushed records count as this replica's copy."""

    @classmethod
    def of(cls, recovered: RecoveredReplica, config: PartitionConfig, now: float) -> "ReplicaLog":
        """Returns the log that a restart found. Raises `ValueError` if its ends are not in order."""
        start, end = recovered.log_start, recovered.log_end
        if not 0 <= start <= end:
            raise ValueError(f"a log from {start} to {end}")
        producers = ProducerStates(config.producers_max)
        producers.restore(recovered.producers, now, recovered.transactions)
        return cls(
            log_start=start,
            log_end=end,
            flushed_end=min(recovered.durable_end, end),
            high_watermark=min(max(recovered.high_watermark, start), end),
            epochs=LeaderEpochs(recovered.leader_epochs),
            producers=producers,
            window=ByteWindow(end),
            before_ack=config.flush == "before-ack",
        )

    @property
    def own_end(self) -> int:
        """The end of the records that this replica may promise to hold."""
        return self.flushed_end if self.before_ack else self.log_end

    @property
    def is_flushed(self) -> bool:
        """True if everything in the log may be promised."""
        return not self.before_ack or self.flushed_end >= self.log_end

    @property
    def last_stable_offset(self) -> int:
        """The end of what readers of committed transactions may see: all below is decided and committed (KIP-98)."""
        first = self.producers.transactions.first_undecided(self.high_watermark)
        return self.high_watermark if first is None else max(min(first, self.high_watermark), self.log_start)

    def record_append(self, batch: BatchInfo, base_offset: int, now: float) -> None:
        """Record one more batch of the log; the caller records its leader epoch."""
        self.producers.record(batch, base_offset, now)
        if batch.kind:
            self.producers.transactions.forget_committed(self.high_watermark)
        self.log_end = base_offset + batch.offset_count
        self.window.append(self.log_end, batch.size)

    def record_truncation(
        self, end: int, producers: tuple[ProducerSnapshot, ...] | None, transactions: TransactionsSnapshot, now: float
    ) -> None:
        """Record a truncation to `end`.

        Raises `PartitionError` if producers are missing although batches were removed.
        """
        if end < self.log_end:
            if producers is None:
                raise PartitionError(f"truncated from {self.log_end} to {end}, and no producers were read again")
            self.producers.restore(producers, now, transactions)
            self.window.reset(end)
        self.epochs.truncate(end)
        self.log_end = end
        self.flushed_end = min(self.flushed_end, end)

    def reset(self, start: int, out: list[Effect]) -> None:
        """Empty the log and let it begin at `start`, with the high watermark (KAFKA-9491)."""
        self.epochs.clear()
        self.producers.restore((), 0.0)
        self.window.reset(start)
        self.log_start = self.log_end = self.flushed_end = start
        self.set_high_watermark(start, out)

    def set_high_watermark(self, offset: int, out: list[Effect]) -> bool:
        """Set the high watermark to `offset`, limited to the log. Returns True if it moved."""
        offset = max(self.log_start, min(offset, self.log_end))
        if offset == self.high_watermark:
            return False
        self.high_watermark = offset
        out.append(HighWatermarkMoved(offset))
        return True

    def move_start(self, offset: int, out: list[Effect]) -> None:
        """Move the log start forward to `offset`, at most to the high watermark."""
        offset = min(offset, self.high_watermark)
        if offset > self.log_start:
            self.log_start = offset
            self.epochs.trim(offset)
            self.producers.transactions.trim(offset)
            out.append(MoveLogStart(offset))


@attrs.define
class ReplicaContext:
    """The values that a replica shares with each of its roles."""

    broker_id: int
    config: PartitionConfig
    log: ReplicaLog
    brokers: Mapping[int, BrokerRegistration]

    def broker_epoch(self, broker_id: int) -> int | None:
        """Returns the registered epoch of a broker, or None."""
        registration = self.brokers.get(broker_id)
        return None if registration is None else registration.epoch
