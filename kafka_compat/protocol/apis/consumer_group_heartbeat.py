"""ConsumerGroupHeartbeat (68): members of groups by KIP-848 join, stay and leave."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import INT32, STRING, Message, array, int16, int32, string, submessage, uuid


class ConsumerGroupHeartbeatTopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: tuple[int, ...] = array(INT32)


class ConsumerGroupHeartbeatRequest(Message):
    """A member's heartbeat; fields without a change since the last one are null."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: tuple[str, ...] | None = array(STRING, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: tuple[ConsumerGroupHeartbeatTopicPartitions, ...] | None = array(
        ConsumerGroupHeartbeatTopicPartitions, nullable="0+", default=None
    )


class ConsumerGroupHeartbeatAssignment(Message):
    """The partitions that a member is to read."""

    topic_partitions: tuple[ConsumerGroupHeartbeatTopicPartitions, ...] = array(ConsumerGroupHeartbeatTopicPartitions)


class ConsumerGroupHeartbeatResponse(Message):
    """The member's epoch, and its assignment if that has changed or was asked for."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32(default=0)
    heartbeat_interval_ms: int = int32(default=0)
    assignment: ConsumerGroupHeartbeatAssignment | None = submessage(
        ConsumerGroupHeartbeatAssignment, nullable="0+", default=None
    )


CONSUMER_GROUP_HEARTBEAT = Api.of(
    68,
    "ConsumerGroupHeartbeat",
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    versions="0-1",
    flexible="0+",
)
