"""ConsumerGroupDescribe (69): state, members, and present and target assignments of groups by KIP-848."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import (
    INT32,
    STRING,
    Message,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    submessage,
    uuid,
)


class ConsumerGroupDescribeRequest(Message):
    """Asks about groups."""

    group_ids: tuple[str, ...] = array(STRING)
    include_authorized_operations: bool = boolean()


class DescribedTopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: tuple[int, ...] = array(INT32)


class DescribedAssignment(Message):
    """The partitions of a member."""

    topic_partitions: tuple[DescribedTopicPartitions, ...] = array(DescribedTopicPartitions)


class DescribedConsumer(Message):
    """A member; `member_type` is 1 for one by KIP-848."""

    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: tuple[str, ...] = array(STRING)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: DescribedAssignment = submessage(DescribedAssignment)
    target_assignment: DescribedAssignment = submessage(DescribedAssignment)
    member_type: int = int8("1+", default=-1)


class DescribedConsumerGroup(Message):
    """A group."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string(default="")
    group_epoch: int = int32(default=0)
    assignment_epoch: int = int32(default=0)
    assignor_name: str = string(default="")
    members: tuple[DescribedConsumer, ...] = array(DescribedConsumer, default=())
    authorized_operations: int = int32(default=-(2**31))


class ConsumerGroupDescribeResponse(Message):
    """The groups that were asked about."""

    throttle_time_ms: int = int32(default=0)
    groups: tuple[DescribedConsumerGroup, ...] = array(DescribedConsumerGroup)


CONSUMER_GROUP_DESCRIBE = Api.of(
    69,
    "ConsumerGroupDescribe",
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    versions="0-1",
    flexible="0+",
)
