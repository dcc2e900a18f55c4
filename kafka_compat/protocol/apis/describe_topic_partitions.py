"""DescribeTopicPartitions (75): topics and partitions in parts, with the replicas eligible to lead (KIP-966)."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import INT32, Message, array, boolean, int16, int32, string, submessage, uuid


class DescribeTopicPartitionsRequestTopic(Message):
    """A topic, by name."""

    name: str = string()


class DescribeTopicPartitionsCursor(Message):
    """The position at which the next part begins."""

    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsRequest(Message):
    """Asks for a part; no topics mean all."""

    topics: tuple[DescribeTopicPartitionsRequestTopic, ...] = array(DescribeTopicPartitionsRequestTopic)
    response_partition_limit: int = int32(default=2000)
    cursor: DescribeTopicPartitionsCursor | None = submessage(
        DescribeTopicPartitionsCursor, nullable="0+", default=None
    )


class DescribedTopicPartition(Message):
    """A partition, its replicas, and the eligible leader replicas outside of the ISR."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: tuple[int, ...] = array(INT32)
    isr_nodes: tuple[int, ...] = array(INT32)
    eligible_leader_replicas: tuple[int, ...] | None = array(INT32, nullable="0+", default=None)
    last_known_elr: tuple[int, ...] | None = array(INT32, nullable="0+", default=None)
    offline_replicas: tuple[int, ...] = array(INT32)


class DescribedTopic(Message):
    """A topic, or why it is not known."""

    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid()
    is_internal: bool = boolean(default=False)
    partitions: tuple[DescribedTopicPartition, ...] = array(DescribedTopicPartition)
    topic_authorized_operations: int = int32(default=-(2**31))


class DescribeTopicPartitionsResponse(Message):
    """A part; a null cursor means that it was the last."""

    throttle_time_ms: int = int32(default=0)
    topics: tuple[DescribedTopic, ...] = array(DescribedTopic)
    next_cursor: DescribeTopicPartitionsCursor | None = submessage(
        DescribeTopicPartitionsCursor, nullable="0+", default=None
    )


DESCRIBE_TOPIC_PARTITIONS = Api.of(
    75,
    "DescribeTopicPartitions",
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    versions="0",
    flexible="0+",
)
