"""AlterPartitionReassignments (45) and ListPartitionReassignments (46): which replicas a partition has (KIP-455, KIP-860)."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import INT32, Message, array, boolean, int16, int32, string


class ReassignablePartition(Message):
    """The replicas that a partition is to have, the preferred leader first; null cancels what is under way."""

    partition_index: int = int32()
    replicas: tuple[int, ...] | None = array(INT32, nullable="0+", default=None)


class ReassignableTopic(Message):
    """The partitions of one topic."""

    name: str = string()
    partitions: tuple[ReassignablePartition, ...] = array(ReassignablePartition)


class AlterPartitionReassignmentsRequest(Message):
    """Asks for other replicas."""

    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: tuple[ReassignableTopic, ...] = array(ReassignableTopic)


class ReassignablePartitionResponse(Message):
    """The outcome for one partition: it is accepted, and goes on from here."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class ReassignableTopicResponse(Message):
    """The partitions of one topic."""

    name: str = string()
    partitions: tuple[ReassignablePartitionResponse, ...] = array(ReassignablePartitionResponse)


class AlterPartitionReassignmentsResponse(Message):
    """The outcome for each partition."""

    throttle_time_ms: int = int32(default=0)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    responses: tuple[ReassignableTopicResponse, ...] = array(ReassignableTopicResponse)


class ListPartitionReassignmentsTopics(Message):
    """The partitions of one topic that the caller asks about."""

    name: str = string()
    partition_indexes: tuple[int, ...] = array(INT32)


class ListPartitionReassignmentsRequest(Message):
    """Asks which partitions are moving; null means all."""

    timeout_ms: int = int32(default=60000)
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = array(
        ListPartitionReassignmentsTopics, nullable="0+", default=None
    )


class OngoingPartitionReassignment(Message):
    """One partition that is moving."""

    partition_index: int = int32()
    replicas: tuple[int, ...] = array(INT32)
    adding_replicas: tuple[int, ...] = array(INT32)
    removing_replicas: tuple[int, ...] = array(INT32)


class OngoingTopicReassignment(Message):
    """The moving partitions of one topic."""

    name: str = string()
    partitions: tuple[OngoingPartitionReassignment, ...] = array(OngoingPartitionReassignment)


class ListPartitionReassignmentsResponse(Message):
    """The partitions that are moving; what the request names and does not move is left out."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    topics: tuple[OngoingTopicReassignment, ...] = array(OngoingTopicReassignment)


ALTER_PARTITION_REASSIGNMENTS = Api.of(
    45,
    "AlterPartitionReassignments",
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    versions="0-1",
    flexible="0+",
)
LIST_PARTITION_REASSIGNMENTS = Api.of(
    46,
    "ListPartitionReassignments",
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    versions="0",
    flexible="0+",
)
