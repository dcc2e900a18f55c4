"""The requests that are sent to both kinds of broker for a comparison.

Each API has valid, unknown, out-of-range and contradictory values. The brokers are in the same state: topic `compared`
of two partitions, replicas 1, 2, 3 and 2, 3, 1; three records in partition 0; group `kept` without members, with an
offset for partition 0.
"""

import gzip
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from kafka_compat.protocol.apis.create_partitions import (
    CREATE_PARTITIONS,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafka_compat.protocol.apis.create_topics import (
    CREATE_TOPICS,
    CreateTopic,
    CreateTopicAssignment,
    CreateTopicConfig,
    CreateTopicsRequest,
)
from kafka_compat.protocol.apis.delete_groups import DELETE_GROUPS, DeleteGroupsRequest
from kafka_compat.protocol.apis.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafka_compat.protocol.apis.delete_topics import DELETE_TOPICS, DeleteTopic, DeleteTopicsRequest
from kafka_compat.protocol.apis.describe_cluster import DESCRIBE_CLUSTER, DescribeClusterRequest
from kafka_compat.protocol.apis.describe_configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafka_compat.protocol.apis.describe_groups import DESCRIBE_GROUPS, DescribeGroupsRequest
from kafka_compat.protocol.apis.describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribeLogDirsRequest,
    DescribeLogDirsRequestTopic,
)
from kafka_compat.protocol.apis.describe_topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS,
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
)
from kafka_compat.protocol.apis.elect_leaders import ELECT_LEADERS, ElectLeadersRequest, ElectLeadersTopic
from kafka_compat.protocol.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from kafka_compat.protocol.apis.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from kafka_compat.protocol.apis.heartbeat import HEARTBEAT, HeartbeatRequest
from kafka_compat.protocol.apis.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from kafka_compat.protocol.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from kafka_compat.protocol.apis.join_group import JOIN_GROUP, JoinGroupProtocol, JoinGroupRequest
from kafka_compat.protocol.apis.leave_group import LEAVE_GROUP, LeaveGroupMember, LeaveGroupRequest
from kafka_compat.protocol.apis.list_groups import LIST_GROUPS, ListGroupsRequest
from kafka_compat.protocol.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafka_compat.protocol.apis.metadata import METADATA, MetadataRequest, MetadataRequestTopic
from kafka_compat.protocol.apis.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
)
from kafka_compat.protocol.apis.offset_delete import (
    OFFSET_DELETE,
    OffsetDeletePartition,
    OffsetDeleteRequest,
    OffsetDeleteTopic,
)
from kafka_compat.protocol.apis.offset_fetch import OFFSET_FETCH, OffsetFetchGroup, OffsetFetchRequest, OffsetFetchTopic
from kafka_compat.protocol.apis.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafka_compat.protocol.apis.partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)
from kafka_compat.protocol.apis.produce import PRODUCE, ProducePartition, ProduceRequest, ProduceTopic
from kafka_compat.protocol.apis.sync_group import SYNC_GROUP, SyncGroupRequest
from kafka_compat.protocol.batch_header import HEADER_BYTES, BatchHeader, encode_batch_header
from kafka_compat.protocol.schema import NO_UUID
from kafka_compat.records import encode_records, encode_varint
from log.values import evolve

TOPIC = "compared"
GROUP = "kept"
NO_SUCH_ID = b"no such topic id"
BASE_MS = time.time_ns() // 10**6 - 60_000
"""Young enough for records to be kept."""


@attrs.frozen
class Place:
    """The values that a request needs about its brokers."""

    topic_id: bytes
    version: int
    name: str
    """Not used by another request."""


@attrs.frozen
class Step:
    """One request.

    `of_group` goes to the coordinator of `kept`, all others to broker 1, which leads partition 0 of `compared`.
    """

    api: Api[Any, Any]
    what: str
    request: Callable[[Place], Any]
    of_group: bool = False
    first: int = 0
    """The first version for which it makes sense."""


def steps() -> Iterator[Step]:
    """Yields every request."""
    yield from cluster_steps()
    yield from described_steps()
    yield from produce_steps()
    yield from fetch_steps()
    yield from log_steps()
    yield from group_steps()
    yield from list_steps()
    yield from offset_steps()
    yield from join_steps()
    yield from topic_steps()
    yield from partition_steps()
    yield from move_steps()
    yield from config_steps()
    yield from produce_steps(last=True)


# ---------------------------------------------------------------- the cluster


def cluster_steps() -> Iterator[Step]:
    """ApiVersions and Metadata."""
    for name, number in (("librdkafka", "2.6.0"), ("!!", "1"), ("a", ""), ("a-", "1"), ("a.b-c", "1_0")):
        yield Step(
            API_VERSIONS,
            f"software {name} {number}",
            lambda place, name=name, number=number: ApiVersionsRequest(  # type: ignore[misc]
                client_software_name=name, client_software_version=number
            ),
            first=3,
        )

    def metadata(*topics: MetadataRequestTopic, flags: bool = False) -> Callable[[Place], MetadataRequest]:
        return lambda place: MetadataRequest(
            topics=tuple(
                evolve(topic, topic_id=place.topic_id) if topic.topic_id == b"known" else topic for topic in topics
            ),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=flags,
            include_topic_authorized_operations=flags,
        )

    known = MetadataRequestTopic(name=TOPIC)
    yield Step(METADATA, "a topic", metadata(known))
    yield Step(METADATA, "with operations", metadata(known, flags=True), first=8)
    yield Step(METADATA, "named twice", metadata(known, known))
    yield Step(METADATA, "unknown", metadata(MetadataRequestTopic(name="nowhere"), flags=True))
    yield Step(METADATA, "a bad name", metadata(MetadataRequestTopic(name="a b")))
    yield Step(METADATA, "an empty name", metadata(MetadataRequestTopic(name="")))
    yield Step(METADATA, "no topics", metadata(), first=1)
    yield Step(METADATA, "by id", metadata(MetadataRequestTopic(name=None, topic_id=b"known")), first=12)
    yield Step(
        METADATA, "by unknown id", metadata(MetadataRequestTopic(name=None, topic_id=NO_SUCH_ID), flags=True), first=12
    )


def described_steps() -> Iterator[Step]:
    """DescribeCluster, DescribeTopicPartitions, InitProducerId."""
    for flags in (False, True):
        yield Step(
            DESCRIBE_CLUSTER,
            f"operations {flags}",
            lambda place, flags=flags: DescribeClusterRequest(include_cluster_authorized_operations=flags),  # type: ignore[misc]
        )
    yield Step(
        DESCRIBE_CLUSTER,
        "fenced ones too",
        lambda place: DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True),
        first=2,
    )
    for kind in (2, 3):
        yield Step(
            DESCRIBE_CLUSTER,
            f"endpoints of type {kind}",
            lambda place, kind=kind: DescribeClusterRequest(  # type: ignore[misc]
                include_cluster_authorized_operations=True, endpoint_type=kind
            ),
            first=1,
        )

    def describe(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Callable[[Place], Any]:
        place_of = (
            None if cursor is None else DescribeTopicPartitionsCursor(topic_name=cursor[0], partition_index=cursor[1])
        )
        return lambda place: DescribeTopicPartitionsRequest(
            topics=tuple(DescribeTopicPartitionsRequestTopic(name=each) for each in names),
            response_partition_limit=limit,
            cursor=place_of,
        )

    yield Step(DESCRIBE_TOPIC_PARTITIONS, "a topic", describe(TOPIC))
    yield Step(DESCRIBE_TOPIC_PARTITIONS, "in parts", describe(TOPIC, limit=1))
    yield Step(DESCRIBE_TOPIC_PARTITIONS, "the second part", describe(TOPIC, cursor=(TOPIC, 1)))
    yield Step(DESCRIBE_TOPIC_PARTITIONS, "a cursor behind", describe(TOPIC, cursor=(TOPIC, 9)))
    yield Step(DESCRIBE_TOPIC_PARTITIONS, "unknown", describe("nowhere", "a b", TOPIC))
    for transaction in (None, "", "t"):
        yield Step(
            INIT_PRODUCER_ID,
            f"transactional id {transaction!r}",
            lambda place, transaction=transaction: InitProducerIdRequest(  # type: ignore[misc]
                transactional_id=transaction, transaction_timeout_ms=1000
            ),
        )


# ---------------------------------------------------------------- Produce


def _batch(body: bytes, **changes: int) -> bytes:
    fields: dict[str, int] = {
        "attributes": 0, "last_offset_delta": 0, "base_timestamp": BASE_MS, "max_timestamp": BASE_MS,
        "producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "count": 1,
    } | changes  # fmt: skip
    header = BatchHeader(base_offset=0, length=0, leader_epoch=-1, magic=2, crc=0, **fields)
    return encode_batch_header(header, body) + body


def produce_steps(*, last: bool = False) -> Iterator[Step]:
    """Batches of every kind, right and wrong; `last` those after which the offsets differ."""
    body = encode_records([(b"k", b"v")], BASE_MS)[HEADER_BYTES:]
    two = encode_records([(b"k", b"v")] * 2, BASE_MS)[HEADER_BYTES:]
    good = _batch(body)
    batches = {
        "a batch": good,
        "the newest time too large": _batch(body, max_timestamp=BASE_MS + 9),
        "a CRC that is wrong": good[:17] + bytes(4) + good[21:],
        "no records": _batch(b"", count=0, last_offset_delta=-1),
        "a delta too large": _batch(two, count=2, last_offset_delta=5),
        "a control batch": _batch(body, attributes=0x20),
        "a transactional batch": _batch(body, attributes=0x10, producer_id=5, producer_epoch=0, base_sequence=0),
        "a producer without a sequence": _batch(body, producer_id=5, producer_epoch=0),
        "a count too large": _batch(body, count=3, last_offset_delta=2),
        "a count too small": _batch(two),
        "no record": _batch(b"\xff" * 40),
        "a record too long": _batch(encode_varint(200) + body[1:]),
        "no gzip": _batch(body, attributes=1),
        "no snappy": _batch(body, attributes=2),
        "no lz4": _batch(body, attributes=3),
        "no zstd": _batch(body, attributes=4),
        "an unknown codec": _batch(body, attributes=5),
        "two in a gzip, one counted": _batch(gzip.compress(two), attributes=1),
        "two batches": good + good,
        "a time far ahead": _batch(body, base_timestamp=2**52, max_timestamp=2**52),
        "a time below 0": _batch(body, base_timestamp=-5, max_timestamp=-5),
        "magic 1": good[:16] + b"\1" + good[17:],
        "nothing": b"",
        "bytes": b"bytes that are no batch" * 5,
        "too large": _batch(encode_records([(None, bytes(1_100_000))], BASE_MS)[HEADER_BYTES:]),
    }

    def produce(content: bytes, **changes: Any) -> Callable[[Place], ProduceRequest]:
        given: dict[str, Any] = {"topic": TOPIC, "index": 0, "acks": -1} | changes

        def request(place: Place) -> ProduceRequest:
            topic_id = place.topic_id if given["topic"] == TOPIC else NO_SUCH_ID
            partition = ProducePartition(index=given["index"], records=content)
            return ProduceRequest(
                transactional_id=given.get("transaction"),
                acks=given["acks"],
                timeout_ms=10_000,
                topic_data=(ProduceTopic(name=given["topic"], topic_id=topic_id, partition_data=(partition,)),),
            )

        return request

    if last:
        # Apache takes it, so what follows would have other offsets.
        yield Step(PRODUCE, "a stamped batch", produce(_batch(body, attributes=8)))
        return
    yield Step(PRODUCE, "acks 1", produce(good, acks=1))
    for what, content in batches.items():
        yield Step(PRODUCE, what, produce(content))
    yield Step(PRODUCE, "an unknown topic", produce(good, topic="nowhere"))
    yield Step(PRODUCE, "an unknown partition", produce(good, index=7))
    yield Step(PRODUCE, "a partition of another leader", produce(good, index=1))
    yield Step(PRODUCE, "acks 2", produce(good, acks=2))


# ---------------------------------------------------------------- Fetch and offsets


def fetch_steps() -> Iterator[Step]:
    """Yields the fetches: of readable and unreadable positions."""

    def fetch(
        offset: int = 0, *, topic: str = TOPIC, partition: int = 0, **changes: int
    ) -> Callable[[Place], FetchRequest]:
        def request(place: Place) -> FetchRequest:
            one = FetchPartition(
                partition=partition,
                fetch_offset=offset,
                partition_max_bytes=changes.get("partition_max_bytes", 1 << 20),
                current_leader_epoch=changes.get("leader_epoch", -1),
                last_fetched_epoch=changes.get("last_epoch", -1),
            )
            topic_id = place.topic_id if topic == TOPIC else NO_SUCH_ID
            return FetchRequest(
                max_wait_ms=1,
                min_bytes=1,
                max_bytes=changes.get("max_bytes", 1 << 20),
                session_id=changes.get("session_id", 0),
                session_epoch=changes.get("session_epoch", -1),
                isolation_level=changes.get("isolation", 0),
                topics=(FetchTopic(topic=topic, topic_id=topic_id, partitions=(one,)),),
            )

        return request

    yield Step(FETCH, "from 0", fetch())
    yield Step(FETCH, "from 1", fetch(1))
    yield Step(FETCH, "committed alone", fetch(isolation=1))
    yield Step(FETCH, "one byte", fetch(max_bytes=1, partition_max_bytes=1))
    yield Step(FETCH, "behind the end", fetch(10_000))
    yield Step(FETCH, "before the start", fetch(-5))
    yield Step(FETCH, "an unknown topic", fetch(topic="nowhere"))
    yield Step(FETCH, "an unknown partition", fetch(partition=7))
    yield Step(FETCH, "of another leader", fetch(partition=1))
    yield Step(FETCH, "a leader epoch to come", fetch(leader_epoch=9), first=9)
    yield Step(FETCH, "a last epoch to come", fetch(3, last_epoch=9), first=12)
    yield Step(FETCH, "an unknown session", fetch(session_id=77, session_epoch=5), first=7)
    yield Step(FETCH, "a new session", fetch(session_epoch=0), first=7)


def log_steps() -> Iterator[Step]:
    """ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeLogDirs."""

    def offsets(timestamp: int, *, topic: str = TOPIC, partition: int = 0, epoch: int = -1) -> Callable[[Place], Any]:
        one = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
        return lambda place: ListOffsetsRequest(
            replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(one,)),), timeout_ms=1000
        )

    first_version = {-3: 7, -4: 8, -5: 9, -6: 11}
    for timestamp in (-1, -2, -3, -4, -5, -6, 0, BASE_MS, BASE_MS + 10**9):
        first = first_version.get(timestamp, 1)
        yield Step(LIST_OFFSETS, f"time {timestamp}", offsets(timestamp), first=first)
    yield Step(LIST_OFFSETS, "a time that means nothing", offsets(-7), first=11)
    yield Step(LIST_OFFSETS, "a time of later versions", offsets(-6), first=8)
    yield Step(LIST_OFFSETS, "an unknown topic", offsets(-1, topic="nowhere"))
    yield Step(LIST_OFFSETS, "an unknown partition", offsets(-1, partition=7))
    yield Step(LIST_OFFSETS, "of another leader", offsets(-1, partition=1))
    yield Step(LIST_OFFSETS, "a leader epoch to come", offsets(-1, epoch=9), first=4)

    def end(epoch: int, *, topic: str = TOPIC, partition: int = 0, current: int = -1) -> Callable[[Place], Any]:
        one = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
        return lambda place: OffsetForLeaderEpochRequest(
            replica_id=-1, topics=(OffsetForLeaderTopic(topic=topic, partitions=(one,)),)
        )

    for epoch in (-1, 0, 7):
        yield Step(OFFSET_FOR_LEADER_EPOCH, f"epoch {epoch}", end(epoch))
    yield Step(OFFSET_FOR_LEADER_EPOCH, "a current epoch to come", end(0, current=9))
    yield Step(OFFSET_FOR_LEADER_EPOCH, "an unknown topic", end(0, topic="nowhere"))
    yield Step(OFFSET_FOR_LEADER_EPOCH, "an unknown partition", end(0, partition=7))
    yield Step(OFFSET_FOR_LEADER_EPOCH, "of another leader", end(0, partition=1))

    def delete(offset: int, *, topic: str = TOPIC, partition: int = 0) -> Callable[[Place], Any]:
        one = DeleteRecordsPartition(partition_index=partition, offset=offset)
        return lambda place: DeleteRecordsRequest(
            topics=(DeleteRecordsTopic(name=topic, partitions=(one,)),), timeout_ms=5000
        )

    yield Step(DELETE_RECORDS, "nothing", delete(0))
    yield Step(DELETE_RECORDS, "too much", delete(10_000))
    yield Step(DELETE_RECORDS, "an offset that means nothing", delete(-5))
    yield Step(DELETE_RECORDS, "an unknown topic", delete(0, topic="nowhere"))
    yield Step(DELETE_RECORDS, "an unknown partition", delete(0, partition=7))
    yield Step(DELETE_RECORDS, "of another leader", delete(0, partition=1))
    yield Step(DELETE_RECORDS, "of the offsets topic", delete(0, topic="__consumer_offsets"))
    yield Step(
        DESCRIBE_LOG_DIRS,
        "a topic",
        lambda place: DescribeLogDirsRequest(
            topics=(
                DescribeLogDirsRequestTopic(topic=TOPIC, partitions=(0, 1, 7)),
                DescribeLogDirsRequestTopic(topic="nowhere", partitions=(0,)),
            )
        ),
    )


# ---------------------------------------------------------------- groups


def group_steps() -> Iterator[Step]:
    """Finding, joining, describing and deleting groups."""
    for key, kind in ((GROUP, 0), ("", 0), ("t", 1), ("x", 2), ("x", 7)):
        yield Step(
            FIND_COORDINATOR,
            f"key {key!r} of type {kind}",
            lambda place, key=key, kind=kind: FindCoordinatorRequest(  # type: ignore[misc]
                key=key if place.version < 4 else "",
                key_type=kind,
                coordinator_keys=(key,) if place.version >= 4 else (),
            ),
            first=1 if kind else 0,
        )

    for group in (GROUP, "nowhere", ""):
        yield Step(
            SYNC_GROUP,
            f"nobody of {group!r}",
            lambda place, group=group: SyncGroupRequest(  # type: ignore[misc]
                group_id=group,
                generation_id=1,
                member_id="nobody",
                protocol_type="consumer",
                protocol_name="range",
                assignments=(),
            ),
            of_group=True,
        )
        yield Step(
            HEARTBEAT,
            f"nobody of {group!r}",
            lambda place, group=group: HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody"),  # type: ignore[misc]
            of_group=True,
        )
        yield Step(
            LEAVE_GROUP,
            f"nobody of {group!r}",
            lambda place, group=group: LeaveGroupRequest(  # type: ignore[misc]
                group_id=group,
                member_id="nobody" if place.version < 3 else "",
                members=(LeaveGroupMember(member_id="nobody"),) if place.version >= 3 else (),
            ),
            of_group=True,
        )
    yield Step(
        DESCRIBE_GROUPS,
        "kept and unknown",
        lambda place: DescribeGroupsRequest(groups=(GROUP, "nowhere", "")),
        of_group=True,
    )
    yield Step(
        DESCRIBE_GROUPS,
        "with operations",
        lambda place: DescribeGroupsRequest(groups=(GROUP, "nowhere"), include_authorized_operations=True),
        of_group=True,
        first=3,
    )
    yield Step(DELETE_GROUPS, "unknown", lambda place: DeleteGroupsRequest(groups_names=("nowhere",)), of_group=True)


def list_steps() -> Iterator[Step]:
    """ListGroups, with filters."""
    for states, types in (
        ((), ()),
        (("Empty",), ()),
        (("Stable",), ()),
        (("empty",), ("Classic",)),
        (("no state",), ()),
        ((), ("no type",)),
    ):
        yield Step(
            LIST_GROUPS,
            f"states {states}, types {types}",
            lambda place, states=states, types=types: ListGroupsRequest(states_filter=states, types_filter=types),  # type: ignore[misc]
            of_group=True,
            first=5 if types else 4 if states else 0,
        )


def join_steps() -> Iterator[Step]:
    """Yields JoinGroup requests.

    They come after the lists of groups, because Apache's brokers keep a group even of refused members.
    """

    def join(group: str | None = None, **changes: Any) -> Callable[[Place], JoinGroupRequest]:
        given: dict[str, Any] = {
            "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": "", "protocol_type": "consumer",
            "protocols": (JoinGroupProtocol(name="range", metadata=b""),),
        } | changes  # fmt: skip
        return lambda place: JoinGroupRequest(group_id=place.name if group is None else group, **given)

    yield Step(JOIN_GROUP, "a new member", join(), of_group=True, first=4)
    yield Step(JOIN_GROUP, "an unknown member", join(member_id="nobody"), of_group=True)
    yield Step(JOIN_GROUP, "an unknown member of a group that is kept", join(GROUP, member_id="nobody"), of_group=True)
    yield Step(
        JOIN_GROUP, "an unknown instance", join(member_id="nobody", group_instance_id="i"), of_group=True, first=5
    )
    yield Step(JOIN_GROUP, "an empty group", join(""), of_group=True)
    yield Step(JOIN_GROUP, "a short session", join(session_timeout_ms=1), of_group=True)
    yield Step(JOIN_GROUP, "a long session", join(session_timeout_ms=2**31 - 1), of_group=True)
    yield Step(JOIN_GROUP, "no protocols", join(protocols=()), of_group=True)
    yield Step(JOIN_GROUP, "no type", join(protocol_type=""), of_group=True)


def offset_steps() -> Iterator[Step]:
    """Offsets of groups."""

    def commit(group: str = GROUP, *, topic: str = TOPIC, partition: int = 0, **changes: Any) -> Callable[[Place], Any]:
        def request(place: Place) -> OffsetCommitRequest:
            one = OffsetCommitPartition(
                partition_index=partition, committed_offset=2, committed_metadata=changes.get("metadata", "noted")
            )
            topic_id = place.topic_id if topic == TOPIC else NO_SUCH_ID
            return OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=changes.get("generation", -1),
                member_id=changes.get("member", ""),
                topics=(OffsetCommitTopic(name=topic, topic_id=topic_id, partitions=(one,)),),
            )

        return request

    yield Step(OFFSET_COMMIT, "an offset", commit(), of_group=True)
    yield Step(OFFSET_COMMIT, "by nobody", commit(member="nobody", generation=1), of_group=True)
    yield Step(OFFSET_COMMIT, "in a generation", commit(generation=1), of_group=True)
    yield Step(OFFSET_COMMIT, "of an empty group", commit(""), of_group=True)
    yield Step(OFFSET_COMMIT, "an unknown topic", commit(topic="nowhere"), of_group=True)
    yield Step(OFFSET_COMMIT, "an unknown partition", commit(partition=7), of_group=True)
    yield Step(OFFSET_COMMIT, "a long text", commit(metadata="x" * 5000), of_group=True)

    def fetch(group: str, partitions: Sequence[int] | None, topic: str = TOPIC) -> Callable[[Place], Any]:
        def request(place: Place) -> OffsetFetchRequest:
            topic_id = place.topic_id if topic == TOPIC else NO_SUCH_ID
            if place.version < 8:
                named = (
                    None if partitions is None else (OffsetFetchTopic(name=topic, partition_indexes=tuple(partitions)),)
                )
                return OffsetFetchRequest(group_id=group, topics=named)
            asked = (
                None
                if partitions is None
                else (OffsetFetchTopic(name=topic, topic_id=topic_id, partition_indexes=tuple(partitions)),)
            )
            return OffsetFetchRequest(groups=(OffsetFetchGroup(group_id=group, topics=asked),))

        return request

    yield Step(OFFSET_FETCH, "known and not", fetch(GROUP, (0, 1, 7)), of_group=True)
    yield Step(OFFSET_FETCH, "all", fetch(GROUP, None), of_group=True, first=2)
    yield Step(OFFSET_FETCH, "an unknown topic", fetch(GROUP, (0,), "nowhere"), of_group=True)
    yield Step(OFFSET_FETCH, "of an unknown group", fetch("nowhere", (0,)), of_group=True)
    yield Step(OFFSET_FETCH, "all of an unknown group", fetch("nowhere", None), of_group=True, first=2)

    def delete(group: str, topic: str, partition: int) -> Callable[[Place], Any]:
        one = OffsetDeletePartition(partition_index=partition)
        return lambda place: OffsetDeleteRequest(
            group_id=group, topics=(OffsetDeleteTopic(name=topic, partitions=(one,)),)
        )

    yield Step(OFFSET_DELETE, "none", delete(GROUP, TOPIC, 1), of_group=True)
    yield Step(OFFSET_DELETE, "of an unknown topic", delete(GROUP, "nowhere", 0), of_group=True)
    yield Step(OFFSET_DELETE, "of an unknown group", delete("nowhere", TOPIC, 0), of_group=True)


# ---------------------------------------------------------------- topics and settings


def topic_steps() -> Iterator[Step]:
    """CreateTopics."""

    def create(
        name: str | None = None, partitions: int = 1, replicas: int = 1, **changes: Any
    ) -> Callable[[Place], Any]:
        def request(place: Place) -> CreateTopicsRequest:
            topic = CreateTopic(
                name=place.name if name is None else name,
                num_partitions=partitions,
                replication_factor=replicas,
                assignments=changes.get("assignments", ()),
                configs=tuple(
                    CreateTopicConfig(name=key, value=value) for key, value in changes.get("configs", {}).items()
                ),
            )
            return CreateTopicsRequest(
                topics=(topic,) * changes.get("times", 1), timeout_ms=10_000, validate_only=changes.get("only", False)
            )

        return request

    def assign(*brokers: tuple[int, ...], first: int = 0) -> tuple[CreateTopicAssignment, ...]:
        return tuple(
            CreateTopicAssignment(partition_index=first + at, broker_ids=replicas)
            for at, replicas in enumerate(brokers)
        )

    yield Step(CREATE_TOPICS, "a topic", create(partitions=2, replicas=3, configs={"retention.ms": "5000"}))
    yield Step(CREATE_TOPICS, "looked at alone", create(partitions=2, replicas=3, only=True))
    yield Step(CREATE_TOPICS, "defaults", create(partitions=-1, replicas=-1, only=True), first=4)
    yield Step(CREATE_TOPICS, "there already", create(TOPIC))
    yield Step(CREATE_TOPICS, "there already, looked at", create(TOPIC, only=True))
    yield Step(CREATE_TOPICS, "twice", create(times=2))
    for name in ("a b", "", ".", "x" * 250, "com.pared", "__consumer_offsets"):
        yield Step(CREATE_TOPICS, f"name {name[:20]!r}", create(name, only=True))
    for partitions in (0, -2, 3_000_000):
        yield Step(CREATE_TOPICS, f"{partitions} partitions", create(partitions=partitions, only=True))
    for replicas in (0, -2, 4):
        yield Step(CREATE_TOPICS, f"{replicas} replicas", create(replicas=replicas, only=True))
    for key, value in (
        ("no.such", "1"),
        ("retention.ms", "x"),
        ("retention.ms", "-2"),
        ("segment.bytes", "1"),
        ("cleanup.policy", "x"),
        ("retention.ms", None),
    ):
        yield Step(CREATE_TOPICS, f"{key}={value}", create(configs={key: value}, only=True))
    for what, assignments in {
        "assigned": assign((1, 2), (2, 3)),
        "assigned unevenly": assign((1, 2), (2,)),
        "assigned twice to a broker": assign((1, 1)),
        "assigned to an unknown broker": assign((1, 9)),
        "assigned to none": assign(()),
        "assigned from 1 on": assign((1,), first=1),
    }.items():
        yield Step(CREATE_TOPICS, what, create(partitions=-1, replicas=-1, assignments=assignments, only=True))
    yield Step(
        CREATE_TOPICS, "assigned and counted", create(partitions=1, replicas=1, assignments=assign((1,)), only=True)
    )


def partition_steps() -> Iterator[Step]:
    """DeleteTopics, CreatePartitions, ElectLeaders."""

    def delete(name: str) -> Callable[[Place], DeleteTopicsRequest]:
        return lambda place: DeleteTopicsRequest(
            topics=(DeleteTopic(name=name, topic_id=NO_UUID),) if place.version >= 6 else (),
            topic_names=(name,) if place.version < 6 else (),
            timeout_ms=5000,
        )

    yield Step(DELETE_TOPICS, "unknown", delete("nowhere"))
    yield Step(DELETE_TOPICS, "an empty name", delete(""))
    yield Step(
        DELETE_TOPICS,
        "by unknown id",
        lambda place: DeleteTopicsRequest(topics=(DeleteTopic(name=None, topic_id=NO_SUCH_ID),), timeout_ms=5000),
        first=6,
    )

    def more(
        count: int, name: str = TOPIC, *assignments: tuple[int, ...]
    ) -> Callable[[Place], CreatePartitionsRequest]:
        given = tuple(CreatePartitionsAssignment(broker_ids=each) for each in assignments) or None
        return lambda place: CreatePartitionsRequest(
            topics=(CreatePartitionsTopic(name=name, count=count, assignments=given),),
            timeout_ms=5000,
            validate_only=True,
        )

    for count in (1, 2, 3, 0, -1):
        yield Step(CREATE_PARTITIONS, f"{count} in all", more(count))
    yield Step(CREATE_PARTITIONS, "of an unknown topic", more(3, "nowhere"))
    yield Step(CREATE_PARTITIONS, "assigned", more(3, TOPIC, (1, 2, 3)))
    yield Step(CREATE_PARTITIONS, "assigned too few", more(4, TOPIC, (1, 2, 3)))
    yield Step(CREATE_PARTITIONS, "assigned to an unknown broker", more(3, TOPIC, (1, 2, 9)))
    yield Step(CREATE_PARTITIONS, "assigned other replicas", more(3, TOPIC, (1, 2)))

    def elect(kind: int, topic: str = TOPIC, partition: int = 0) -> Callable[[Place], ElectLeadersRequest]:
        return lambda place: ElectLeadersRequest(
            election_type=kind if place.version else 0,
            topic_partitions=(ElectLeadersTopic(topic=topic, partitions=(partition,)),),
            timeout_ms=5000,
        )

    yield Step(ELECT_LEADERS, "preferred", elect(0))
    yield Step(ELECT_LEADERS, "unclean", elect(1), first=1)
    yield Step(ELECT_LEADERS, "a kind that is none", elect(7), first=1)
    yield Step(ELECT_LEADERS, "of an unknown topic", elect(0, "nowhere"))
    yield Step(ELECT_LEADERS, "of an unknown partition", elect(0, TOPIC, 7))


def move_steps() -> Iterator[Step]:
    """AlterPartitionReassignments and ListPartitionReassignments."""

    def move(
        replicas: tuple[int, ...] | None, topic: str = TOPIC, partition: int = 0, *, resizes: bool = True
    ) -> Callable[[Place], AlterPartitionReassignmentsRequest]:
        wanted = ReassignablePartition(partition_index=partition, replicas=replicas)
        return lambda place: AlterPartitionReassignmentsRequest(
            timeout_ms=5000,
            allow_replication_factor_change=resizes or place.version < 1,
            topics=(ReassignableTopic(name=topic, partitions=(wanted,)),),
        )

    yield Step(ALTER_PARTITION_REASSIGNMENTS, "a cancel of nothing", move(None))
    yield Step(ALTER_PARTITION_REASSIGNMENTS, "to an unknown broker", move((1, 2, 9)))
    yield Step(ALTER_PARTITION_REASSIGNMENTS, "to one broker twice", move((1, 1)))
    yield Step(ALTER_PARTITION_REASSIGNMENTS, "to none", move(()))
    yield Step(ALTER_PARTITION_REASSIGNMENTS, "of an unknown topic", move((1, 2), "nowhere"))
    yield Step(ALTER_PARTITION_REASSIGNMENTS, "of an unknown partition", move((1, 2), TOPIC, 7))
    yield Step(ALTER_PARTITION_REASSIGNMENTS, "to fewer, of the same number", move((1,), resizes=False), first=1)

    def list_some(*topics: tuple[str, int]) -> Callable[[Place], ListPartitionReassignmentsRequest]:
        asked = tuple(ListPartitionReassignmentsTopics(name=name, partition_indexes=(at,)) for name, at in topics)
        return lambda place: ListPartitionReassignmentsRequest(topics=asked or None)

    yield Step(LIST_PARTITION_REASSIGNMENTS, "all", list_some())
    yield Step(LIST_PARTITION_REASSIGNMENTS, "some", list_some((TOPIC, 0), (TOPIC, 7), ("nowhere", 0)))


def config_steps() -> Iterator[Step]:
    """DescribeConfigs and IncrementalAlterConfigs."""
    topic, broker = 2, 4

    def describe(kind: int, name: str, *keys: str, every: bool = False) -> Callable[[Place], DescribeConfigsRequest]:
        asked = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None if every else keys
        )
        return lambda place: DescribeConfigsRequest(resources=(asked,), include_synonyms=True)

    yield Step(DESCRIBE_CONFIGS, "a topic", describe(topic, TOPIC, every=True))
    yield Step(DESCRIBE_CONFIGS, "some of a topic", describe(topic, TOPIC, "retention.ms", "no.such"))
    yield Step(DESCRIBE_CONFIGS, "none of a topic", describe(topic, TOPIC))
    yield Step(DESCRIBE_CONFIGS, "an unknown topic", describe(topic, "nowhere", every=True))
    yield Step(DESCRIBE_CONFIGS, "a bad name", describe(topic, "a b", every=True))
    some = ("log.retention.hours", "log.retention.ms", "min.insync.replicas", "num.partitions", "log.roll.ms")
    yield Step(DESCRIBE_CONFIGS, "some of a broker", describe(broker, "1", *some))
    yield Step(DESCRIBE_CONFIGS, "of all brokers", describe(broker, "", *some))
    yield Step(DESCRIBE_CONFIGS, "another broker", describe(broker, "2", *some))
    yield Step(DESCRIBE_CONFIGS, "a broker that is none", describe(broker, "x", *some))
    yield Step(DESCRIBE_CONFIGS, "another kind", describe(3, "x", every=True))

    def alter(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Callable[[Place], Any]:
        resource = IncrementalAlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=tuple(
                IncrementalAlterConfig(name=key, config_operation=operation, value=value)
                for key, operation, value in changes
            ),
        )
        return lambda place: IncrementalAlterConfigsRequest(resources=(resource,), validate_only=True)

    yield Step(INCREMENTAL_ALTER_CONFIGS, "set", alter(topic, TOPIC, ("retention.ms", 0, "5000")))
    yield Step(INCREMENTAL_ALTER_CONFIGS, "delete", alter(topic, TOPIC, ("retention.ms", 1, None)))
    yield Step(INCREMENTAL_ALTER_CONFIGS, "append", alter(topic, TOPIC, ("cleanup.policy", 2, "delete")))
    yield Step(INCREMENTAL_ALTER_CONFIGS, "append to a number", alter(topic, TOPIC, ("retention.ms", 2, "1")))
    yield Step(INCREMENTAL_ALTER_CONFIGS, "set to null", alter(topic, TOPIC, ("retention.ms", 0, None)))
    yield Step(INCREMENTAL_ALTER_CONFIGS, "twice", alter(topic, TOPIC, *[("retention.ms", 0, "5000")] * 2))
    yield Step(INCREMENTAL_ALTER_CONFIGS, "an unknown setting", alter(topic, TOPIC, ("no.such", 0, "1")))
    yield Step(INCREMENTAL_ALTER_CONFIGS, "delete an unknown setting", alter(topic, TOPIC, ("no.such", 1, None)))
    yield Step(INCREMENTAL_ALTER_CONFIGS, "no number", alter(topic, TOPIC, ("retention.ms", 0, "x")))
    yield Step(INCREMENTAL_ALTER_CONFIGS, "an operation that is none", alter(topic, TOPIC, ("retention.ms", 9, "1")))
    yield Step(INCREMENTAL_ALTER_CONFIGS, "an unknown topic", alter(topic, "nowhere", ("retention.ms", 0, "5000")))
    yield Step(INCREMENTAL_ALTER_CONFIGS, "of a broker", alter(broker, "1", ("log.retention.ms", 0, "5000")))
    yield Step(INCREMENTAL_ALTER_CONFIGS, "of all brokers", alter(broker, "", ("log.retention.ms", 0, "5000")))
    yield Step(INCREMENTAL_ALTER_CONFIGS, "read only", alter(broker, "1", ("num.partitions", 0, "5")))
    yield Step(INCREMENTAL_ALTER_CONFIGS, "a broker that is none", alter(broker, "x", ("log.retention.ms", 0, "5000")))
    yield Step(INCREMENTAL_ALTER_CONFIGS, "another kind", alter(3, "x", ("log.retention.ms", 0, "5000")))
