"""Produce (0): appends record batches to partitions. By topic name up to version 12, by topic id from 13.

It is listed from version 0, although 3 is the first that is served: librdkafka compresses nothing if the list begins
higher (KAFKA-18659). Requests with `acks` 0 have no response.
"""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.common import LeaderIdAndEpoch, NodeEndpoint
from kafka_compat.protocol.schema import NO_UUID, Message, array, int16, int32, int64, records, string, submessage, uuid
from raft.net.decoder import Buffer


class ProducePartition(Message):
    """The batches for one partition: one batch of format 2 in all versions that are served."""

    index: int = int32()
    records: Buffer | None = records(nullable="0+")


class ProduceTopic(Message):
    """The partitions of one topic."""

    name: str = string("3-12", default="")
    topic_id: bytes = uuid("13+", default=NO_UUID)
    partition_data: tuple[ProducePartition, ...] = array(ProducePartition)


class ProduceRequest(Message):
    """Appends batches. `acks` is 0, 1 or -1 (all in-sync replicas); an unknown outcome is possible once it was sent."""

    transactional_id: str | None = string(nullable="0+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: tuple[ProduceTopic, ...] = array(ProduceTopic)


class ProduceRecordError(Message):
    """A record that made its batch invalid, by its place in the batch."""

    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="0+", default=None)


class ProducePartitionResponse(Message):
    """The offset of one appended batch, or the reason for its refusal.

    `log_append_time_ms` is -1 unless the broker stamps records.
    """

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: tuple[ProduceRecordError, ...] = array(ProduceRecordError, "8+", default=())
    error_message: str | None = string("8+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = submessage(LeaderIdAndEpoch, "10+", default=LeaderIdAndEpoch(), tag=0)


class ProduceTopicResponse(Message):
    """The partitions of one topic."""

    name: str = string("3-12", default="")
    topic_id: bytes = uuid("13+", default=NO_UUID)
    partition_responses: tuple[ProducePartitionResponse, ...] = array(ProducePartitionResponse)


class ProduceResponse(Message):
    """The outcome for each partition."""

    responses: tuple[ProduceTopicResponse, ...] = array(ProduceTopicResponse)
    throttle_time_ms: int = int32(default=0)
    node_endpoints: tuple[NodeEndpoint, ...] = array(NodeEndpoint, "10+", default=(), tag=0)


PRODUCE = Api.of(0, "Produce", ProduceRequest, ProduceResponse, versions="3-13", flexible="9+", advertised_min=0)
