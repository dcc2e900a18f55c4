"""The messages between simulated brokers, and the news of the raft group.

Requests carry the process that asks, so that answers reach the same process.
"""

from jepsen_like.simulation.kafka.disk import SimulatedBatch
from kafka_compat.controller.commands import CommandResult
from kafka_compat.model import TopicPartition
from kafka_compat.partition.events import FetchAnswered, FollowerFetch
from kafka_compat.partition.model import EpochEnd
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen


@frozen
class ReplicaFetch:
    """A follower asks for one partition. `ticket` is the number of the order, `process` the incarnation that waits."""

    process: int
    ticket: int
    partition: TopicPartition
    topic_id: bytes
    fetch: FollowerFetch


@frozen
class ReplicaFetched:
    """The leader's answer, with the batches that it read."""

    process: int
    ticket: int
    partition: TopicPartition
    error: KafkaErrorCode
    high_watermark: int
    log_start: int
    diverging: EpochEnd | None
    batches: tuple[SimulatedBatch, ...]

    def event(self, leader_epoch: int, fetch_offset: int, last_fetched_epoch: int) -> FetchAnswered:
        """Returns the fact for the follower that sent a fetch with these values."""
        return FetchAnswered(
            leader_epoch,
            fetch_offset,
            self.error,
            self.high_watermark,
            self.log_start,
            self.diverging,
            tuple([batch.info for batch in self.batches]),
            self.batches,
            last_fetched_epoch,
        )


@frozen
class CommandAsked:
    """A command of a broker, for the controller."""

    process: int
    ticket: int
    command: bytes


@frozen
class CommandAnswered:
    """The controller's answer: a result, or NOT_CONTROLLER (nothing happened), or REQUEST_TIMED_OUT (unknown)."""

    process: int
    ticket: int
    error: KafkaErrorCode
    result: CommandResult | None = None


@frozen
class AliveTold:
    """A broker's heartbeat."""

    process: int
    broker_epoch: int
    applied_index: int
    wants_shutdown: bool


@frozen
class AliveAnswered:
    """The controller's answer to a heartbeat."""

    process: int
    error: KafkaErrorCode
    fenced: bool
    should_shut_down: bool


@frozen
class ConnectionEnded:
    """The operating system of a broker that was killed closes the connections of this process."""

    process: int


@frozen
class CommittedTold:
    """The raft group's leader tells its term and up to where the log of commands is committed."""

    term: int
    leader: int
    commit: int


BrokerMessage = (
    ReplicaFetch
    | ReplicaFetched
    | CommandAsked
    | CommandAnswered
    | AliveTold
    | AliveAnswered
    | ConnectionEnded
    | CommittedTold
)
