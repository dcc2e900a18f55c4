"""ListOffsets (2): finds offsets by time, or by the special times -1 (end), -2 (start), -3 (newest record) and on."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, array, int8, int16, int32, int64, string


class ListOffsetsPartition(Message):
    """The time to look for, in ms since 1970, or one of the special values."""

    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1)
    timestamp: int = int64()


class ListOffsetsTopic(Message):
    """The partitions of one topic."""

    name: str = string()
    partitions: tuple[ListOffsetsPartition, ...] = array(ListOffsetsPartition)


class ListOffsetsRequest(Message):
    """Finds offsets. `replica_id` is -1 for clients."""

    replica_id: int = int32()
    isolation_level: int = int8("2+", default=0)
    topics: tuple[ListOffsetsTopic, ...] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+", default=0)


class ListOffsetsPartitionResponse(Message):
    """The first offset at or after the time, and its time; -1 and -1 if there is none."""

    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Message):
    """The partitions of one topic."""

    name: str = string()
    partitions: tuple[ListOffsetsPartitionResponse, ...] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Message):
    """The offsets that were found."""

    throttle_time_ms: int = int32("2+", default=0)
    topics: tuple[ListOffsetsTopicResponse, ...] = array(ListOffsetsTopicResponse)


LIST_OFFSETS = Api.of(2, "ListOffsets", ListOffsetsRequest, ListOffsetsResponse, versions="1-11", flexible="6+")
