"""Fetch (1): reads record batches, for consumers and followers. Sessions from version 7 (KIP-227), topic ids from 13.

A follower sends its replica id and epoch (tagged from version 15) and the epoch of its last record (from 12). A leader
whose log differs answers with `diverging_epoch`, and the follower truncates (KIP-595).
"""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.common import LeaderIdAndEpoch, NodeEndpoint
from kafka_compat.protocol.schema import (
    INT32,
    NO_UUID,
    Message,
    array,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    submessage,
    uuid,
)
from raft.net.decoder import Buffer


class FetchReplicaState(Message):
    """The follower that fetches, and the epoch of its registration; -1 for consumers."""

    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


class FetchPartition(Message):
    """The position to read from. A follower's fetch offset acknowledges all below it. An epoch of -1 is unknown."""

    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", default=NO_UUID, tag=0)
    high_watermark: int = int64("18+", default=2**63 - 1, tag=1)


class FetchTopic(Message):
    """The partitions of one topic."""

    topic: str = string("4-12", default="")
    topic_id: bytes = uuid("13+", default=NO_UUID)
    partitions: tuple[FetchPartition, ...] = array(FetchPartition)


class FetchForgottenTopic(Message):
    """Partitions to drop from the session."""

    topic: str = string("7-12", default="")
    topic_id: bytes = uuid("13+", default=NO_UUID)
    partitions: tuple[int, ...] = array(INT32)


class FetchRequest(Message):
    """Reads batches, waiting for `min_bytes` up to `max_wait_ms`. Session id 0 and epoch -1 mean no session."""

    replica_id: int = int32("4-14", default=-1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2**31 - 1)
    isolation_level: int = int8(default=0)
    session_id: int = int32("7+", default=0)
    session_epoch: int = int32("7+", default=-1)
    topics: tuple[FetchTopic, ...] = array(FetchTopic)
    forgotten_topics_data: tuple[FetchForgottenTopic, ...] = array(FetchForgottenTopic, "7+", default=())
    rack_id: str = string("11+", default="")
    cluster_id: str | None = string("12+", nullable="0+", default=None, tag=0)
    replica_state: FetchReplicaState = submessage(FetchReplicaState, "15+", default=FetchReplicaState(), tag=1)


class FetchDivergingEpoch(Message):
    """The largest epoch of the leader's log up to the requested one, and its end; -1 unless the logs differ."""

    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class FetchSnapshotId(Message):
    """The snapshot to continue from; used by the metadata log of Kafka, never here."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class FetchAbortedTransaction(Message):
    """A transaction of the returned range that was aborted."""

    producer_id: int = int64()
    first_offset: int = int64()


class FetchPartitionResponse(Message):
    """The batches of one partition, as the log holds them, whole."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1)
    aborted_transactions: tuple[FetchAbortedTransaction, ...] | None = array(FetchAbortedTransaction, nullable="0+")
    preferred_read_replica: int = int32("11+", default=-1)
    records: Buffer | tuple[Buffer, ...] | None = records(nullable="0+")
    """To be sent, they may be in pieces; received, they are one view of the frame."""
    diverging_epoch: FetchDivergingEpoch = submessage(FetchDivergingEpoch, "12+", default=FetchDivergingEpoch(), tag=0)
    current_leader: LeaderIdAndEpoch = submessage(LeaderIdAndEpoch, "12+", default=LeaderIdAndEpoch(), tag=1)
    snapshot_id: FetchSnapshotId = submessage(FetchSnapshotId, "12+", default=FetchSnapshotId(), tag=2)


class FetchTopicResponse(Message):
    """The partitions of one topic."""

    topic: str = string("4-12", default="")
    topic_id: bytes = uuid("13+", default=NO_UUID)
    partitions: tuple[FetchPartitionResponse, ...] = array(FetchPartitionResponse)


class FetchResponse(Message):
    """The batches that were read. With a session only partitions that have changed are present."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16("7+", default=0)
    session_id: int = int32("7+", default=0)
    responses: tuple[FetchTopicResponse, ...] = array(FetchTopicResponse)
    node_endpoints: tuple[NodeEndpoint, ...] = array(NodeEndpoint, "16+", default=(), tag=0)


FETCH = Api.of(1, "Fetch", FetchRequest, FetchResponse, versions="4-18", flexible="12+")
