"""The orders that `PartitionReplica.step` returns. The shell carries them out at once and in the order given.

The replica already counts every order of the step as done: `AppendBatches`, `ResetLog` and `MoveLogStart` succeed, or
the shell takes the partition offline. Only a truncation is reported back (`Truncated`), because it reads the producers
from the log again.
"""

import enum

from kafka_compat.partition.model import NO_OFFSET, BatchInfo, EpochEnd
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen


@frozen
class AppendBatches:
    """Append these batches to the log. They begin at `base_offset`.

    The batches of a follower may have gaps, where compaction removed records from the leader's log. A leader's batch
    gets `base_offset` and `leader_epoch` written into its header. A follower's batches stay as they are, and
    `leader_epoch` is NO_EPOCH. With `flush=before-ack` the shell flushes them soon and reports `Flushed`.
    """

    base_offset: int
    leader_epoch: int
    batches: tuple[BatchInfo, ...]
    payload: object


@frozen
class TruncateLog:
    """Remove every batch that reaches above `end`, and report `Truncated`. Appends and fetches wait until then.

    `end` may be the log's end: then no batch is removed.
    """

    end: int


@frozen
class ResetLog:
    """Drop the whole log; it then is empty and begins at `start`. Producers and leader epochs are forgotten."""

    start: int


@frozen
class MoveLogStart:
    """The log begins at `log_start` from now on; whole segments below may be deleted."""

    log_start: int


@frozen
class FetchFrom:
    """Include this partition in the next fetch to broker `leader`, with these values; `FollowerFetch` explains them.

    Replaces an earlier `FetchFrom`, whose answer is no longer needed.
    """

    leader: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start: int


@frozen
class StopFetching:
    """Leave this partition out of fetches until the next `FetchFrom`."""


@frozen
class SendAlterPartition:
    """Ask the controller for this ISR (AlterPartition, KIP-497). The request compares both epochs and sets the ISR.

    At most one request is under way at any time. `isr` has (broker id, broker epoch) pairs (KIP-903); an unknown epoch
    is NO_EPOCH. `AlterPartitionAnswered(request)` answers; a repetition has the same number.
    """

    request: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    recovering: bool
    keeps_eligible: bool = False
    """If true, acknowledgements also wait for the replicas that are, or become, eligible.

    If false, the ISR goes on alone (KIP-966).
    """


@frozen
class AnswerProduce:
    """The outcome of a `Produce`.

    `base_offset` is the position of the batch. After an error, NO_OFFSET means that the batch was certainly not
    appended. An error with an offset means an unknown outcome: the batch was appended and may become committed. On the
    wire Kafka sends -1 with any error.
    """

    token: int
    error: KafkaErrorCode
    base_offset: int
    log_start: int


@frozen
class AnswerVerification:
    """The answer to `VerificationAsked`: the guard to give to `Produce` once the coordinator has agreed.

    A guard of 0 means that there is nothing to ask. With an error the batch cannot be appended here.
    """

    token: int
    error: KafkaErrorCode
    guard: int


@frozen
class CloseConnection:
    """A produce with acks=0 was refused, and there is no answer that could say so: end the connection that sent it."""

    token: int
    error: KafkaErrorCode


@frozen
class AnswerFetch:
    """Answer a fetch with batches from `start` up to `end`, as many as its byte limits allow.

    `end` is exclusive and ends a batch. `start == end` is an empty answer. With an error or a diverging epoch the shell
    reads nothing. `high_watermark` and `log_start` describe this replica; they are NO_OFFSET if it does not lead. A
    follower needs them with OFFSET_OUT_OF_RANGE, too. `last_stable` is the end of what is decided.
    """

    token: int
    error: KafkaErrorCode
    start: int
    end: int
    high_watermark: int
    log_start: int
    diverging: EpochEnd | None = None
    last_stable: int = NO_OFFSET


@frozen
class AnswerEpochEnd:
    """The answer to `EpochEndAsked`; epoch and end are -1 after an error."""

    token: int
    error: KafkaErrorCode
    epoch: int
    end_offset: int


@frozen
class AnswerLatestOffset:
    """The answer to `LatestOffsetAsked`: what consumers may read up to, the log start, and the epoch before `offset`.

    The error is OFFSET_NOT_AVAILABLE if a new leader cannot know the high watermark yet; `log_start` is valid with it.
    """

    token: int
    error: KafkaErrorCode
    offset: int
    log_start: int
    leader_epoch: int


@frozen
class AnswerLogStart:
    """The answer to a `LogStartDue` with a token: the start of this replica's log (DeleteRecords' low watermark)."""

    token: int
    error: KafkaErrorCode
    log_start: int


@frozen
class HighWatermarkMoved:
    """The high watermark has changed. The shell checkpoints it every few seconds. On a follower it may also fall."""

    high_watermark: int


class PartitionRole(enum.Enum):
    """The role of a replica: `OFFLINE` before the first metadata and after its removal."""

    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline"


@frozen
class PartitionRoleChanged:
    """News for the shell, people and coordinators: role, leader (NO_LEADER if there is none) or leader epoch changed.

    With `LEADER` everything in the log, up to `log_end`, may be read for a coordinator's state.
    """

    role: PartitionRole
    leader: int
    leader_epoch: int
    log_end: int = NO_OFFSET


@frozen
class RefusePeer:
    """A broker sent a message that no correct leader sends, without effect.

    It is for the log, and the connection may be closed.
    """

    broker: int
    reason: str


@frozen
class TransactionHangs:
    """A transaction is open for longer than any coordinator leaves it open, and holds back readers of committed records.

    It is news for operators, who may end it by WriteTxnMarkers.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    idle_s: float


Effect = (
    AppendBatches
    | AnswerProduce
    | AnswerVerification
    | AnswerFetch
    | FetchFrom
    | HighWatermarkMoved
    | TruncateLog
    | ResetLog
    | MoveLogStart
    | StopFetching
    | SendAlterPartition
    | CloseConnection
    | AnswerEpochEnd
    | AnswerLatestOffset
    | AnswerLogStart
    | PartitionRoleChanged
    | RefusePeer
    | TransactionHangs
)
