"""CreateTopics (19): creates topics. -1 partitions or replicas means the broker's default (from version 4, KIP-464)."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import INT32, NO_UUID, Message, array, boolean, int8, int16, int32, string, uuid


class CreateTopicAssignment(Message):
    """The brokers of one partition, the preferred leader first."""

    partition_index: int = int32()
    broker_ids: tuple[int, ...] = array(INT32)


class CreateTopicConfig(Message):
    """A setting of the topic."""

    name: str = string()
    value: str | None = string(nullable="0+")


class CreateTopic(Message):
    """A topic to create; with assignments both numbers are -1."""

    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: tuple[CreateTopicAssignment, ...] = array(CreateTopicAssignment)
    configs: tuple[CreateTopicConfig, ...] = array(CreateTopicConfig)


class CreateTopicsRequest(Message):
    """Creates topics, or only checks whether they could be."""

    topics: tuple[CreateTopic, ...] = array(CreateTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean(default=False)


class CreatedTopicConfig(Message):
    """A setting as it is in force."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()


class CreateTopicResult(Message):
    """The outcome for one topic."""

    name: str = string()
    topic_id: bytes = uuid("7+", default=NO_UUID)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    configs: tuple[CreatedTopicConfig, ...] | None = array(CreatedTopicConfig, "5+", nullable="0+", default=())
    topic_config_error_code: int = int16("5+", default=0, tag=0)


class CreateTopicsResponse(Message):
    """The outcome for each topic."""

    throttle_time_ms: int = int32(default=0)
    topics: tuple[CreateTopicResult, ...] = array(CreateTopicResult)


CREATE_TOPICS = Api.of(19, "CreateTopics", CreateTopicsRequest, CreateTopicsResponse, versions="2-7", flexible="5+")
