"""ElectLeaders (43): asks the controller to elect the preferred leader, or one out of sync (type 1, KIP-460)."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import INT32, Message, array, int8, int16, int32, string


class ElectLeadersTopic(Message):
    """The partitions of one topic."""

    topic: str = string()
    partitions: tuple[int, ...] = array(INT32)


class ElectLeadersRequest(Message):
    """Asks for elections; null means all partitions."""

    election_type: int = int8("1+", default=0)
    topic_partitions: tuple[ElectLeadersTopic, ...] | None = array(ElectLeadersTopic, nullable="0+")
    timeout_ms: int = int32(default=60000)


class ElectLeadersPartitionResult(Message):
    """The outcome for one partition."""

    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class ElectLeadersTopicResult(Message):
    """The partitions of one topic."""

    topic: str = string()
    partition_result: tuple[ElectLeadersPartitionResult, ...] = array(ElectLeadersPartitionResult)


class ElectLeadersResponse(Message):
    """The outcome for each partition."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16("1+", default=0)
    replica_election_results: tuple[ElectLeadersTopicResult, ...] = array(ElectLeadersTopicResult)


ELECT_LEADERS = Api.of(43, "ElectLeaders", ElectLeadersRequest, ElectLeadersResponse, versions="0-2", flexible="2+")
