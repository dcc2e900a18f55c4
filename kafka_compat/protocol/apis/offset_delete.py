"""OffsetDelete (47): deletes committed offsets of a group for topics that it does not subscribe to. Never flexible."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import array, int16, int32, message, string


@message
class OffsetDeletePartition:
    """A partition whose offset is deleted."""

    partition_index: int = int32()


@message
class OffsetDeleteTopic:
    """The partitions of one topic."""

    name: str = string()
    partitions: tuple[OffsetDeletePartition, ...] = array(OffsetDeletePartition)


@message
class OffsetDeleteRequest:
    """Deletes offsets."""

    group_id: str = string()
    topics: tuple[OffsetDeleteTopic, ...] = array(OffsetDeleteTopic)


@message
class OffsetDeletePartitionResponse:
    """The outcome for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


@message
class OffsetDeleteTopicResponse:
    """The partitions of one topic."""

    name: str = string()
    partitions: tuple[OffsetDeletePartitionResponse, ...] = array(OffsetDeletePartitionResponse)


@message
class OffsetDeleteResponse:
    """The outcome for the group and for each partition."""

    error_code: int = int16()
    throttle_time_ms: int = int32(default=0)
    topics: tuple[OffsetDeleteTopicResponse, ...] = array(OffsetDeleteTopicResponse)


OFFSET_DELETE = Api.of(47, "OffsetDelete", OffsetDeleteRequest, OffsetDeleteResponse, versions="0")
