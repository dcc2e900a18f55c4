"""OffsetForLeaderEpoch (23): finds the end of an epoch in the leader's log.

A reader compares it with its own log to find a divergence (KIP-101, KIP-320).
"""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, array, int16, int32, int64, string


class OffsetForLeaderPartition(Message):
    """The epoch whose end is asked for."""

    partition: int = int32()
    current_leader_epoch: int = int32(default=-1)
    leader_epoch: int = int32()


class OffsetForLeaderTopic(Message):
    """The partitions of one topic."""

    topic: str = string()
    partitions: tuple[OffsetForLeaderPartition, ...] = array(OffsetForLeaderPartition)


class OffsetForLeaderEpochRequest(Message):
    """Asks where epochs end. `replica_id` is -1 for consumers, -2 for debugging."""

    replica_id: int = int32("3+", default=-2)
    topics: tuple[OffsetForLeaderTopic, ...] = array(OffsetForLeaderTopic)


class OffsetForLeaderPartitionResult(Message):
    """The largest epoch that is not above the asked one, and its end, exclusive; -1 if it is not known."""

    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class OffsetForLeaderTopicResult(Message):
    """The partitions of one topic."""

    topic: str = string()
    partitions: tuple[OffsetForLeaderPartitionResult, ...] = array(OffsetForLeaderPartitionResult)


class OffsetForLeaderEpochResponse(Message):
    """The ends of the epochs."""

    throttle_time_ms: int = int32(default=0)
    topics: tuple[OffsetForLeaderTopicResult, ...] = array(OffsetForLeaderTopicResult)


OFFSET_FOR_LEADER_EPOCH = Api.of(
    23, "OffsetForLeaderEpoch", OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, versions="2-4", flexible="4+"
)
