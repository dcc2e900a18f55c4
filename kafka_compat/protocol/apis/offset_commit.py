"""OffsetCommit (8): stores the offsets of a group. By topic name up to version 9, by topic id in 10."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import NO_UUID, Message, array, int16, int32, int64, string, uuid


class OffsetCommitPartition(Message):
    """The offset to store, which is the offset of the next record to read."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1)
    committed_metadata: str | None = string(nullable="0+")


class OffsetCommitTopic(Message):
    """The partitions of one topic."""

    name: str = string("2-9", default="")
    topic_id: bytes = uuid("10+", default=NO_UUID)
    partitions: tuple[OffsetCommitPartition, ...] = array(OffsetCommitPartition)


class OffsetCommitRequest(Message):
    """Stores offsets. A generation of -1 and no member id mean that the group has no members."""

    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("7+", nullable="0+", default=None)
    retention_time_ms: int = int64("2-4", default=-1)
    topics: tuple[OffsetCommitTopic, ...] = array(OffsetCommitTopic)


class OffsetCommitPartitionResponse(Message):
    """The outcome for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


class OffsetCommitTopicResponse(Message):
    """The partitions of one topic."""

    name: str = string("2-9", default="")
    topic_id: bytes = uuid("10+", default=NO_UUID)
    partitions: tuple[OffsetCommitPartitionResponse, ...] = array(OffsetCommitPartitionResponse)


class OffsetCommitResponse(Message):
    """The outcome for each partition."""

    throttle_time_ms: int = int32("3+", default=0)
    topics: tuple[OffsetCommitTopicResponse, ...] = array(OffsetCommitTopicResponse)


OFFSET_COMMIT = Api.of(8, "OffsetCommit", OffsetCommitRequest, OffsetCommitResponse, versions="2-10", flexible="8+")
