"""The facts that go into `PartitionReplica.step`.

A `token` is a number that the shell gives a request, and that the answering effect carries back. The shell uses a token
again only after its request is answered. `payload` is opaque to the replica and returns in `AppendBatches`: the bytes
of the batches.
"""

from collections.abc import Mapping

from kafka_compat.model import NO_EPOCH, BrokerRegistration, PartitionState
from kafka_compat.partition.model import (
    NO_OFFSET,
    NO_TRANSACTIONS,
    BatchInfo,
    EpochEnd,
    PartitionConfig,
    ProducerSnapshot,
    TransactionsSnapshot,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen


@frozen
class Produce:
    """A client (or a coordinator) asks to append one batch, whose bytes have passed `check_batch`.

    `acks` is 0, 1 or -1 (all). One `AnswerProduce` answers. With acks=0 only a refusal is answered, by
    `CloseConnection`. After `timeout_s` an append that is not yet replicated is answered with REQUEST_TIMED_OUT: its
    outcome is unknown.
    """

    token: int
    acks: int
    batch: BatchInfo
    timeout_s: float
    payload: object = None
    guard: int = 0
    """The guard that `AnswerVerification` gave to the first batch of a transaction."""
    transaction_version: int = 0
    """Of a marker: 2 if its epoch is above that of the batches which it ends (KIP-890)."""


@frozen
class VerificationAsked:
    """A batch of a transaction is to be appended, and the log has no open transaction of its producer.

    One `AnswerVerification` answers at once. The shell then asks the coordinator of the transaction (KIP-890).
    """

    token: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


@frozen
class FollowerFetch:
    """A replica fetches from `fetch_offset`, and so promises that it has everything below (Fetch, KIP-903).

    `leader_epoch` is the epoch that the follower believes in. `last_fetched_epoch` is the epoch of its last batch, or
    NO_EPOCH if its log is empty. `broker_epoch` comes from its registration, and `log_start` from its log. One
    `AnswerFetch` answers: at once if `min_bytes` are there, otherwise after `max_wait_s` at the latest.
    """

    token: int
    replica: int
    broker_epoch: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start: int
    max_wait_s: float
    min_bytes: int = 1


@frozen
class ConsumerFetch:
    """A consumer fetches from `fetch_offset`, up to the high watermark. One `AnswerFetch` answers, as for a follower.

    `leader_epoch` and `last_fetched_epoch` are NO_EPOCH if the client sends none; the leader then compares nothing
    (KIP-320). With `read_committed` it reads up to the last stable offset.
    """

    token: int
    fetch_offset: int
    max_wait_s: float
    min_bytes: int = 1
    leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    read_committed: bool = False
    follower_answers: bool = False
    """True if a follower may answer, as clients of Fetch 11 and later expect (KIP-392)."""


@frozen
class FetchWaitOver:
    """Answer this fetch now: another partition of the request has data, or the client has disconnected.

    The leader ignores a token that no longer waits.
    """

    token: int


@frozen
class EpochEndAsked:
    """OffsetsForLeaderEpoch: where does `epoch` end in the leader's log? Answered by one `AnswerEpochEnd`, at once.

    `leader_epoch` is the epoch that the client believes in; NO_EPOCH is not compared.
    """

    token: int
    leader_epoch: int
    epoch: int


@frozen
class LatestOffsetAsked:
    """ListOffsets asks for the end of what consumers may read.

    One `AnswerLatestOffset` answers at once; it also holds the log start. `leader_epoch` is as in `EpochEndAsked`. With
    `read_committed` the end is the last stable offset.
    """

    token: int
    leader_epoch: int = NO_EPOCH
    read_committed: bool = False


@frozen
class FetchAnswered:
    """The leader's answer to the fetch that `FetchFrom` ordered, or the failure of that fetch.

    Every `FetchFrom` is answered by one `FetchAnswered`, unless a later `FetchFrom` or `StopFetching` has replaced it
    (a late answer is harmless). `leader_epoch` and `fetch_offset` repeat the *request*, and distinguish a late answer
    from the present one. `error` is the leader's code for this partition or for the whole response; NETWORK_EXCEPTION
    if the request failed. `high_watermark` and `log_start` are the leader's, NO_OFFSET if it sends none; `log_start`
    matters for OFFSET_OUT_OF_RANGE, too. `payload` holds the `batches` whole and in order, with base offset and leader
    epoch in their headers.
    """

    leader_epoch: int
    fetch_offset: int
    error: KafkaErrorCode = KafkaErrorCode.NONE
    high_watermark: int = NO_OFFSET
    log_start: int = NO_OFFSET
    diverging: EpochEnd | None = None
    batches: tuple[BatchInfo, ...] = ()
    payload: object = None
    last_fetched_epoch: int | None = None
    """The epoch of the request.

    It detects a log that was truncated and has grown to the same end again. None skips the comparison.
    """


@frozen
class AlterPartitionAnswered:
    """The controller's answer to `SendAlterPartition` number `request`.

    `error` is NONE with the new `state`, or the code. A code without a definite meaning (REQUEST_TIMED_OUT,
    NETWORK_EXCEPTION, NOT_CONTROLLER, UNKNOWN_SERVER_ERROR...) leaves it unknown whether the change was applied.
    """

    request: int
    error: KafkaErrorCode
    state: PartitionState | None = None


@frozen
class PartitionStateChanged:
    """The controller's committed state of this partition, from the metadata image.

    The replica ignores states older than the one it knows. The shell reports states only after the image holds the
    registration of this very process. An earlier state may name this broker as leader for its last process.
    """

    state: PartitionState


@frozen
class BrokersChanged:
    """All brokers of the metadata image, by id. The replica keeps the mapping, which must not change afterwards."""

    brokers: Mapping[int, BrokerRegistration]


@frozen
class PartitionConfigChanged:
    """The settings of the topic or of the broker changed. `flush` stays as it was at the start."""

    config: PartitionConfig


@frozen
class PartitionRemoved:
    """The topic was deleted, or with `moved` this broker is no longer a replica.

    The replica answers all requests that wait, and then stays offline.
    """

    moved: bool = False


@frozen
class Flushed:
    """Everything below `end` of the present log survives a loss of power.

    A flush that began before a truncation must not be reported for later appends at the same offsets.
    """

    end: int


@frozen
class Truncated:
    """The shell has carried out `TruncateLog`. The log now ends at `end`.

    Batches stay whole, so `end` may be below the ordered offset. `producers` is the state of the idempotent producers
    at that end, made from the newest snapshot at or below `end` and the batches between (`producer_state.replay`). It
    is None if the truncation removed no batch. `transactions` are those up to that end.
    """

    end: int
    producers: tuple[ProducerSnapshot, ...] | None
    transactions: TransactionsSnapshot = NO_TRANSACTIONS


@frozen
class LogStartDue:
    """Retention, or DeleteRecords with a `token`, asks for a log that begins at `offset`.

    Retention is limited to the high watermark. One `AnswerLogStart` answers DeleteRecords. NO_OFFSET stands for the
    high watermark; an offset above it is refused with OFFSET_OUT_OF_RANGE.
    """

    offset: int
    token: int | None = None


@frozen
class ProducerExpiryDue:
    """Idempotent producers that were idle for `producer_expiry_s` may be forgotten; sent every few minutes."""


@frozen
class TimePassed:
    """Time passed; due whenever `PartitionReplica.deadline` is reached, harmless at any other time."""


Event = (
    Produce
    | VerificationAsked
    | FollowerFetch
    | ConsumerFetch
    | FetchAnswered
    | Flushed
    | TimePassed
    | FetchWaitOver
    | EpochEndAsked
    | LatestOffsetAsked
    | AlterPartitionAnswered
    | PartitionStateChanged
    | BrokersChanged
    | PartitionConfigChanged
    | PartitionRemoved
    | Truncated
    | LogStartDue
    | ProducerExpiryDue
)
