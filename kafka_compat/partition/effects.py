"""What to do: the orders that come out of `PartitionReplica.step`, to be carried out at once and in the order given.

What the replica knows of its log includes every order of the step already: `AppendBatches`, `ResetLog` and `MoveLogStart` succeed, or the
shell takes the partition offline. Only a truncation is reported back (`Truncated`), because producers are read from the log again.
"""

import enum

from kafka_compat.partition.model import NO_OFFSET, BatchInfo, EpochEnd
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen


@frozen
class AppendBatches:
    """Append these batches to the log; they begin at `base_offset` (a follower's may have gaps, where the leader's were compacted).

    A leader's batch gets `base_offset` and `leader_epoch` written into its header. A follower's stay as they are: `leader_epoch` is
    NO_EPOCH then. With `flush=before-ack` they are flushed soon, which `Flushed` reports.
    """

    base_offset: int
    leader_epoch: int
    batches: tuple[BatchInfo, ...]
    payload: object


@frozen
class TruncateLog:
    """Remove every batch that reaches above `end`, and report `Truncated`. Until then nothing is appended or fetched.

    `end` may be the log's end: then there is nothing to remove.
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
    """The next fetch to broker `leader` asks for this partition with these values; see `FollowerFetch` for their meaning.

    Replaces an earlier `FetchFrom`, whose answer is not needed any more.
    """

    leader: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start: int


@frozen
class StopFetching:
    """No fetch asks for this partition, until the next `FetchFrom`."""


@frozen
class SendAlterPartition:
    """Ask the controller for this ISR (AlterPartition, KIP-497): compare and set on both epochs. One is under way at any time.

    `isr` has (broker id, broker epoch) pairs (KIP-903); the epoch is NO_EPOCH where it is not known. Answered by
    `AlterPartitionAnswered(request)`; a repetition has the same number.
    """

    request: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    recovering: bool
    keeps_eligible: bool = False
    """Nothing is acknowledged without those that are, or become, eligible. False: it goes on with this ISR alone (KIP-966)."""


@frozen
class AnswerProduce:
    """The outcome of a `Produce`.

    `base_offset` is where the batch lies; after an error it is NO_OFFSET if the batch was certainly not appended. An error with an
    offset means that it was appended, and may or may not be committed: unknown. On the wire Kafka sends -1 with any error.
    """

    token: int
    error: KafkaErrorCode
    base_offset: int
    log_start: int


@frozen
class CloseConnection:
    """A produce with acks=0 was refused, and there is no answer that could say so: end the connection that sent it."""

    token: int
    error: KafkaErrorCode


@frozen
class AnswerFetch:
    """Answer a fetch with the batches from `start` up to `end` (exclusive, always the end of a batch), as many as its byte limits allow.

    `start == end` is an empty answer. With an error, or a diverging epoch, nothing is read. `high_watermark` and `log_start` are those
    of this replica; NO_OFFSET if it does not lead. A follower needs them with OFFSET_OUT_OF_RANGE, too.
    """

    token: int
    error: KafkaErrorCode
    start: int
    end: int
    high_watermark: int
    log_start: int
    diverging: EpochEnd | None = None


@frozen
class AnswerEpochEnd:
    """The answer to `EpochEndAsked`; epoch and end are -1 after an error."""

    token: int
    error: KafkaErrorCode
    epoch: int
    end_offset: int


@frozen
class AnswerLatestOffset:
    """The answer to `LatestOffsetAsked`: the high watermark, the log start, and the leader epoch of the last offset below `offset`.

    OFFSET_NOT_AVAILABLE if a new leader cannot know the high watermark yet (`log_start` is valid with it).
    """

    token: int
    error: KafkaErrorCode
    offset: int
    log_start: int
    leader_epoch: int


@frozen
class AnswerLogStart:
    """The answer to a `LogStartDue` with a token: where this replica's log begins now (DeleteRecords' low watermark)."""

    token: int
    error: KafkaErrorCode
    log_start: int


@frozen
class HighWatermarkMoved:
    """The high watermark is another one: to be checkpointed every few seconds. On a follower it may also fall."""

    high_watermark: int


class PartitionRole(enum.Enum):
    """What a replica does: `OFFLINE` before the first metadata and after its removal."""

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
    """A broker sent what no correct leader sends; it changed nothing. For the log, and the connection may be closed."""

    broker: int
    reason: str


Effect = (
    AppendBatches
    | AnswerProduce
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
)
