"""What happened: the facts that go into `PartitionReplica.step`.

A `token` is a number that the shell gives a request; the effect that answers it carries it back. A token is not used again while
its request waits. `payload` is whatever the shell wants to find again in `AppendBatches` (the bytes of the batches): never looked at.
"""

from collections.abc import Mapping

from kafka_compat.model import NO_EPOCH, BrokerRegistration, PartitionState
from kafka_compat.partition.model import NO_OFFSET, BatchInfo, EpochEnd, PartitionConfig, ProducerSnapshot
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen


@frozen
class Produce:
    """A client (or the group coordinator) wants one batch appended; its bytes were checked (`check_batch`).

    `acks` is 0, 1 or -1 (all). Answered by one `AnswerProduce`; with acks=0 by nothing, or by `CloseConnection` if it is refused.
    After `timeout_s` an append that is not yet replicated is answered with REQUEST_TIMED_OUT: its outcome is unknown.
    """

    token: int
    acks: int
    batch: BatchInfo
    timeout_s: float
    payload: object = None


@frozen
class FollowerFetch:
    """A replica asks this leader for what follows `fetch_offset`, which promises that it has everything below (Fetch, KIP-903).

    `leader_epoch` is the epoch that the follower believes in, `last_fetched_epoch` that of its last batch (NO_EPOCH if its log is
    empty), `broker_epoch` that of its registration, `log_start` its log's. Answered by one `AnswerFetch`: at once if `min_bytes`
    are there, else at the latest after `max_wait_s`.
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
    """A consumer asks for what follows `fetch_offset`, up to the high watermark. Answered by one `AnswerFetch`, as above.

    `leader_epoch` and `last_fetched_epoch` are NO_EPOCH where the client gives none; then nothing is compared (KIP-320).
    Both isolation levels read the same, because there are no transactions.
    """

    token: int
    fetch_offset: int
    max_wait_s: float
    min_bytes: int = 1
    leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH


@frozen
class FetchWaitOver:
    """Answer this fetch now, with what there is: another partition of the same request has data, or the client has gone.

    A token that waits no more is ignored.
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
    """ListOffsets: what may consumers read? Answered by one `AnswerLatestOffset`, at once; that holds the log start, too.

    `leader_epoch` as in `EpochEndAsked`.
    """

    token: int
    leader_epoch: int = NO_EPOCH


@frozen
class FetchAnswered:
    """The leader's answer to the fetch that `FetchFrom` ordered, or that none came.

    Every `FetchFrom` is answered by one `FetchAnswered`, unless a later `FetchFrom` or `StopFetching` has replaced it (a late answer
    is harmless). `leader_epoch` and `fetch_offset` are those of the *request*: they tell a late answer from the present one.
    `error` is the leader's code for this partition, or of the whole response; NETWORK_EXCEPTION if the request failed.
    `high_watermark` and `log_start` are the leader's, NO_OFFSET where it states none; `log_start` matters for OFFSET_OUT_OF_RANGE, too.
    `batches` lie behind each other in `payload`, whole, with base offset and leader epoch from their headers.
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
    """That of the request, too: a log may have grown to the same end again, with other batches. None is not compared."""


@frozen
class AlterPartitionAnswered:
    """The controller's answer to `SendAlterPartition` number `request`.

    `error` is NONE with the new `state`, or the code; any code without a certain meaning (REQUEST_TIMED_OUT, NETWORK_EXCEPTION, NOT_CONTROLLER,
    UNKNOWN_SERVER_ERROR...) leaves it unknown whether it was applied.
    """

    request: int
    error: KafkaErrorCode
    state: PartitionState | None = None


@frozen
class PartitionStateChanged:
    """The controller's committed word on this partition, from the metadata image; older states than the known one are ignored.

    The shell reports none before the image holds the registration of this very process: an earlier state may name this broker as
    the leader for what it was before it restarted.
    """

    state: PartitionState


@frozen
class BrokersChanged:
    """The brokers of the metadata image by id; all of them, every time. The mapping is kept, and must not change afterwards."""

    brokers: Mapping[int, BrokerRegistration]


@frozen
class PartitionConfigChanged:
    """The settings of the topic or of the broker changed. `flush` stays as it was at the start."""

    config: PartitionConfig


@frozen
class PartitionRemoved:
    """The topic was deleted, or this broker is no replica of it any more: everything that waits is answered, nothing is done after."""


@frozen
class Flushed:
    """Everything below `end` of the log as it is now survives a loss of power.

    A flush that began before a truncation must not be reported for what was appended in the place of what it wrote.
    """

    end: int


@frozen
class Truncated:
    """`TruncateLog` was carried out; the log now ends at `end`, at or below the ordered offset because batches stay whole.

    `producers` is the state of the idempotent producers at that end (`producer_state.replayed`: the newest snapshot at or below `end`,
    and the batches between); None if no batch was removed.
    """

    end: int
    producers: tuple[ProducerSnapshot, ...] | None


@frozen
class LogStartDue:
    """Retention, or DeleteRecords with a `token`, wants the log to begin at `offset`.

    Retention is limited to the high watermark. DeleteRecords is answered by one `AnswerLogStart`; NO_OFFSET stands for the high
    watermark, and an offset above it is refused with OFFSET_OUT_OF_RANGE.
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
