"""The nouns of one partition: batches, epochs, producers, settings, and the state recovered from disk.

Offsets count records from 0. An `end` is exclusive: the first offset after. Sizes in bytes, times in monotonic seconds.
"""

import enum
from typing import Literal

import attrs

from kafka_compat.model import NO_EPOCH
from log.values import frozen

NO_OFFSET = -1
NO_PRODUCER = -1
"""The producer id, producer epoch and base sequence of a batch without an idempotent producer."""

FlushSetting = Literal["page-cache", "before-ack"]
"""Decides when a replica's copy counts: as soon as the operating system has it (as in Kafka), or once it is durable."""


class PartitionError(Exception):
    """The shell gave an event that contradicts its orders, such as `Truncated` while nothing is being truncated.

    This is a mistake in the shell. The replica's state is unchanged, but the shell's view of it is wrong.
    """


class BatchKind(enum.IntEnum):
    """The part of a batch in transactions: none, records of one, or the marker that ends one. Only PLAIN is false."""

    PLAIN = 0
    TRANSACTIONAL = 1
    COMMIT = 2
    ABORT = 3


@frozen
class BatchInfo:
    """The fields of a batch header; the records stay opaque, but for those of a marker.

    `offset_count` is the last offset delta + 1: the number of offsets (and sequence numbers) that the batch takes. For
    a batch read from a log, `base_offset` and `leader_epoch` come from its header. A client's batch has neither yet.
    """

    offset_count: int
    size: int
    producer_id: int = NO_PRODUCER
    producer_epoch: int = NO_PRODUCER
    base_sequence: int = NO_PRODUCER
    base_offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    kind: BatchKind = BatchKind.PLAIN
    coordinator_epoch: int = NO_EPOCH
    """The epoch of the coordinator that wrote a marker."""

    @property
    def end_offset(self) -> int:
        """The first offset after the batch."""
        return self.base_offset + self.offset_count


@frozen
class EpochEnd:
    """A leader epoch and its end in a log (exclusive).

    It answers OffsetsForLeaderEpoch and describes a diverging epoch (KIP-595). Both are -1 if the log knows no epoch.
    """

    epoch: int
    end_offset: int


@frozen
class EpochBegin:
    """`epoch` begins at `start_offset`: one entry of the leader epoch cache (KIP-101)."""

    epoch: int
    start_offset: int


@frozen
class ComparedLog:
    """The reach of a log without a leader, as reported for an election that compares logs.

    `leader_epoch` is the newest epoch that the replica has taken up. `last_epoch` is the newest that began in its log,
    or NO_EPOCH.
    """

    leader_epoch: int
    last_epoch: int
    end_offset: int


@frozen
class SequenceRange:
    """One batch of an idempotent producer: its first and last sequence number, both inclusive, and its offsets."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    end_offset: int


@frozen
class ProducerSnapshot:
    """The state of one idempotent producer as plain data: at most five batches, the oldest first.

    It has none if only markers of its epoch are known. `idle_s` is the time since its last batch was appended; a
    restored producer expires as much earlier. `coordinator_epoch` is that of its newest marker.
    """

    producer_id: int
    epoch: int
    batches: tuple[SequenceRange, ...]
    idle_s: float = 0.0
    coordinator_epoch: int = NO_EPOCH


@frozen
class AbortedTransaction:
    """The records of one producer from `first_offset` up to the marker at `last_offset` do not count."""

    producer_id: int
    first_offset: int
    last_offset: int


@frozen
class TransactionsSnapshot:
    """The transactions of a log as plain data.

    `open` has the producer id and the first offset of each that is open. `ending` has the first offset and the marker's
    offset of each whose marker may not be committed. `aborted` is in the order of the markers.
    """

    open: tuple[tuple[int, int], ...] = ()
    ending: tuple[tuple[int, int], ...] = ()
    aborted: tuple[AbortedTransaction, ...] = ()


NO_TRANSACTIONS = TransactionsSnapshot()


@attrs.frozen
class PartitionConfig:
    """The settings of one partition, from its topic and broker; the names in brackets are Kafka's.

    Raises `ValueError` for a setting that is out of range.
    """

    min_insync_replicas: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    """[min.insync.replicas] Effective is at most the number of replicas."""
    replica_lag_time_s: float = attrs.field(default=30.0, validator=attrs.validators.gt(0))
    """[replica.lag.time.max.ms] A follower that has lagged for longer leaves the ISR.

    The leader checks twice in that time.
    """
    flush: FlushSetting = attrs.field(
        default="page-cache", validator=attrs.validators.in_(("page-cache", "before-ack"))
    )
    strict_min_isr: bool = True
    """The high watermark stands still while the committed ISR is smaller than the effective min ISR (KAFKA-15583)."""
    eligible_leaders: bool = True
    """[eligible.leader.replicas.version] True: the high watermark stands while others are eligible (KIP-966)."""
    max_message_bytes: int = attrs.field(default=1_048_588, validator=attrs.validators.ge(0))
    """[max.message.bytes] The largest batch that a client may append."""
    producer_expiry_s: float = attrs.field(default=86_400.0, validator=attrs.validators.gt(0))
    """[producer.id.expiration.ms] After so long without a batch an idempotent producer is forgotten."""
    producers_max: int = attrs.field(default=100_000, validator=attrs.validators.ge(1))
    """The producers that are remembered; one more makes the one that was idle longest forgotten."""
    verifies_transactions: bool = True
    """[transaction.partition.verification.enable] A transaction's first batch is verified with its coordinator (KIP-890)."""
    hanging_after_s: float = 1_200.0
    """A transaction without a batch for so long hangs; above [transaction.max.timeout.ms]."""
    fetch_backoff_s: float = attrs.field(default=1.0, validator=attrs.validators.gt(0))
    """[replica.fetch.backoff.ms] The pause of a follower after an error."""
    alter_partition_backoff_s: float = attrs.field(default=0.05, validator=attrs.validators.gt(0))
    """The pause before an AlterPartition of unknown outcome is repeated, and after one that was refused."""


@attrs.frozen
class RecoveredReplica:
    """The state of one replica that a restart found on disk; the defaults are an empty log.

    `high_watermark` is the checkpoint; the replica limits it to the log. `durable_end` is the end of the part that
    survives a loss of power. `producers` describes the whole log: the last snapshot plus the batches behind it
    (`producer_state.replay`).
    """

    log_start: int = 0
    log_end: int = 0
    durable_end: int = 0
    high_watermark: int = 0
    leader_epochs: tuple[EpochBegin, ...] = ()
    producers: tuple[ProducerSnapshot, ...] = ()
    transactions: TransactionsSnapshot = NO_TRANSACTIONS
