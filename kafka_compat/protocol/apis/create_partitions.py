"""CreatePartitions (37): raises the number of partitions of topics."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import INT32, Message, array, boolean, int16, int32, string


class CreatePartitionsAssignment(Message):
    """The brokers of one new partition."""

    broker_ids: tuple[int, ...] = array(INT32)


class CreatePartitionsTopic(Message):
    """The number of partitions that a topic shall have; null assignments leave the placement to the broker."""

    name: str = string()
    count: int = int32()
    assignments: tuple[CreatePartitionsAssignment, ...] | None = array(CreatePartitionsAssignment, nullable="0+")


class CreatePartitionsRequest(Message):
    """Adds partitions, or only checks whether that could be done."""

    topics: tuple[CreatePartitionsTopic, ...] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopicResult(Message):
    """The outcome for one topic."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class CreatePartitionsResponse(Message):
    """The outcome for each topic."""

    throttle_time_ms: int = int32(default=0)
    results: tuple[CreatePartitionsTopicResult, ...] = array(CreatePartitionsTopicResult)


CREATE_PARTITIONS = Api.of(
    37, "CreatePartitions", CreatePartitionsRequest, CreatePartitionsResponse, versions="0-3", flexible="2+"
)
