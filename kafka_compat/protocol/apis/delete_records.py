"""DeleteRecords (21): deletes the records of partitions below an offset; -1 is the high watermark."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, array, int16, int32, int64, string


class DeleteRecordsPartition(Message):
    """Deletes the records below `offset`."""

    partition_index: int = int32()
    offset: int = int64()


class DeleteRecordsTopic(Message):
    """The partitions of one topic."""

    name: str = string()
    partitions: tuple[DeleteRecordsPartition, ...] = array(DeleteRecordsPartition)


class DeleteRecordsRequest(Message):
    """Deletes the beginning of partitions."""

    topics: tuple[DeleteRecordsTopic, ...] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


class DeleteRecordsPartitionResult(Message):
    """The present start of the partition."""

    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


class DeleteRecordsTopicResult(Message):
    """The partitions of one topic."""

    name: str = string()
    partitions: tuple[DeleteRecordsPartitionResult, ...] = array(DeleteRecordsPartitionResult)


class DeleteRecordsResponse(Message):
    """The outcome for each partition."""

    throttle_time_ms: int = int32(default=0)
    topics: tuple[DeleteRecordsTopicResult, ...] = array(DeleteRecordsTopicResult)


DELETE_RECORDS = Api.of(21, "DeleteRecords", DeleteRecordsRequest, DeleteRecordsResponse, versions="0-2", flexible="2+")
