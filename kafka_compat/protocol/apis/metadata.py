"""Metadata (3): brokers, topics, partitions and their leaders.

A null `topics` requests all topics; in version 0 an empty one does.
"""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import INT32, NO_UUID, Message, array, boolean, int16, int32, string, uuid


class MetadataRequestTopic(Message):
    """A topic, by name, or from version 10 by id with a null name."""

    topic_id: bytes = uuid("10+", default=NO_UUID)
    name: str | None = string(nullable="10+")


class MetadataRequest(Message):
    """Asks about topics."""

    topics: tuple[MetadataRequestTopic, ...] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10", default=False)
    include_topic_authorized_operations: bool = boolean("8+", default=False)


class MetadataBroker(Message):
    """A broker and its address."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="0+", default=None)


class MetadataPartition(Message):
    """The leader and replicas of a partition; leader -1 means that there is none."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1)
    replica_nodes: tuple[int, ...] = array(INT32)
    isr_nodes: tuple[int, ...] = array(INT32)
    offline_replicas: tuple[int, ...] = array(INT32, "5+", default=())


class MetadataTopic(Message):
    """A topic, or why it is not known."""

    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid("10+", default=NO_UUID)
    is_internal: bool = boolean("1+", default=False)
    partitions: tuple[MetadataPartition, ...] = array(MetadataPartition)
    topic_authorized_operations: int = int32("8+", default=-(2**31))


class MetadataResponse(Message):
    """Brokers and topics. Authorized operations are the least number when they were not asked for."""

    throttle_time_ms: int = int32("3+", default=0)
    brokers: tuple[MetadataBroker, ...] = array(MetadataBroker)
    cluster_id: str | None = string("2+", nullable="0+", default=None)
    controller_id: int = int32("1+", default=-1)
    topics: tuple[MetadataTopic, ...] = array(MetadataTopic)
    cluster_authorized_operations: int = int32("8-10", default=-(2**31))
    error_code: int = int16("13+", default=0)


METADATA = Api.of(3, "Metadata", MetadataRequest, MetadataResponse, versions="0-13", flexible="9+")
