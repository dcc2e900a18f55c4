"""DescribeQuorum (55): the raft group of the controllers, as its leader knows it (KIP-595, KIP-836, KIP-853)."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import NO_UUID, Message, array, int16, int32, int64, string, uint16, uuid

METADATA_TOPIC = "__cluster_metadata"
"""The name that the log of the group has in requests; its partition is 0."""


class QuorumPartition(Message):
    """A partition that is asked for."""

    partition_index: int = int32()


class QuorumTopic(Message):
    """A topic that is asked for."""

    topic_name: str = string()
    partitions: tuple[QuorumPartition, ...] = array(QuorumPartition)


class DescribeQuorumRequest(Message):
    """Asks for the group."""

    topics: tuple[QuorumTopic, ...] = array(QuorumTopic)


class QuorumReplica(Message):
    """One member. Times are of the wall clock in ms, -1 if unknown."""

    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+", default=NO_UUID)
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1)
    last_caught_up_timestamp: int = int64("1+", default=-1)


class DescribedQuorumPartition(Message):
    """The group."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", default=None)
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    high_watermark: int = int64(default=-1)
    current_voters: tuple[QuorumReplica, ...] = array(QuorumReplica, default=())
    observers: tuple[QuorumReplica, ...] = array(QuorumReplica, default=())


class DescribedQuorumTopic(Message):
    """The log that was asked for."""

    topic_name: str = string()
    partitions: tuple[DescribedQuorumPartition, ...] = array(DescribedQuorumPartition)


class QuorumListener(Message):
    """An address of a member."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class QuorumNode(Message):
    """The addresses of a member."""

    node_id: int = int32()
    listeners: tuple[QuorumListener, ...] = array(QuorumListener)


class DescribeQuorumResponse(Message):
    """The group, and where its members are."""

    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", default=None)
    topics: tuple[DescribedQuorumTopic, ...] = array(DescribedQuorumTopic, default=())
    nodes: tuple[QuorumNode, ...] = array(QuorumNode, "2+", default=())


DESCRIBE_QUORUM = Api.of(
    55, "DescribeQuorum", DescribeQuorumRequest, DescribeQuorumResponse, versions="0-2", flexible="0+"
)
