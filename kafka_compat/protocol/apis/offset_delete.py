"""OffsetDelete (47): deletes committed offsets of a group for topics that it does not subscribe to. Never flexible."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, array, int16, int32, string


class OffsetDeletePartition(Message):
    """A partition whose offset is deleted."""

    partition_index: int = int32()


class OffsetDeleteTopic(Message):
    """The partitions of one topic."""

    name: str = string()
    partitions: tuple[OffsetDeletePartition, ...] = array(OffsetDeletePartition)


class OffsetDeleteRequest(Message):
    """Deletes offsets."""

    group_id: str = string()
    topics: tuple[OffsetDeleteTopic, ...] = array(OffsetDeleteTopic)


class OffsetDeletePartitionResponse(Message):
    """The outcome for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


class OffsetDeleteTopicResponse(Message):
    """The partitions of one topic."""

    name: str = string()
    partitions: tuple[OffsetDeletePartitionResponse, ...] = array(OffsetDeletePartitionResponse)


class OffsetDeleteResponse(Message):
    """The outcome for the group and for each partition."""

    error_code: int = int16()
    throttle_time_ms: int = int32(default=0)
    topics: tuple[OffsetDeleteTopicResponse, ...] = array(OffsetDeleteTopicResponse)


OFFSET_DELETE = Api.of(47, "OffsetDelete", OffsetDeleteRequest, OffsetDeleteResponse, versions="0")
