"""The facts that go into `GroupCoordinator.step`.

`now`, the other argument of a step, is monotonic and in seconds. `time_ms` in an event is the wall clock, in
milliseconds since 1970: it is written into records, which outlive the process.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from kafka_compat.coordinator.consumer_group import KnownTopic
from kafka_compat.protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_compat.protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_compat.protocol.apis.delete_groups import DeleteGroupsRequest
from kafka_compat.protocol.apis.describe_groups import DescribeGroupsRequest
from kafka_compat.protocol.apis.heartbeat import HeartbeatRequest
from kafka_compat.protocol.apis.join_group import JoinGroupRequest
from kafka_compat.protocol.apis.leave_group import LeaveGroupRequest
from kafka_compat.protocol.apis.list_groups import ListGroupsRequest
from kafka_compat.protocol.apis.offset_commit import OffsetCommitRequest
from kafka_compat.protocol.apis.offset_delete import OffsetDeleteRequest
from kafka_compat.protocol.apis.offset_fetch import OffsetFetchRequest
from kafka_compat.protocol.apis.sync_group import SyncGroupRequest
from kafka_compat.protocol.apis.transactions import TxnOffsetCommitRequest
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen

GroupRequest: TypeAlias = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | TxnOffsetCommitRequest
    | OffsetFetchRequest
    | OffsetDeleteRequest
    | DescribeGroupsRequest
    | ListGroupsRequest
    | DeleteGroupsRequest
    | ConsumerGroupHeartbeatRequest
    | ConsumerGroupDescribeRequest
)
"""The requests that a coordinator answers, as the protocol decodes them."""

Record: TypeAlias = tuple[bytes, bytes | None]
"""Key and value of one record of `__consumer_offsets`; a value of None is a tombstone."""


NO_PRODUCER = -1


@frozen
class GroupRequestArrived:
    """A client's request. One `GroupAnswer` with the same token answers it, perhaps much later.

    Requests about several groups (OffsetFetch from version 8, DescribeGroups, DeleteGroups, ListGroups) are split among
    the partitions first, and the answers joined: `partitioning.split_request` and `partitioning.join_responses`. In
    OffsetCommit and OffsetFetch from version 10 the shell fills in the `name` of each topic by its `topic_id`, and
    leaves out unknown topics. The answer carries both back. An OffsetFetch of all topics finds only names.
    """

    token: int
    version: int
    """The version of the request's API: it decides a few rules, and which fields of the answer are looked at."""
    request: GroupRequest
    time_ms: int
    client_id: str | None = ""
    """The client id in the header of the request; None counts as empty."""
    client_host: str = ""
    """The client's address, as DescribeGroups shows it (Kafka writes `/127.0.0.1`)."""
    member_suffix: str = ""
    """A new UUID as text. A new member's id is its client id or instance id, `-`, and this; by KIP-848, this alone."""
    guard: int = 0
    """TxnOffsetCommit only: the guard that the verification of its transaction gave (KIP-890)."""
    may_describe: Callable[[str], bool] | None = None
    """Returns True for topics that the caller may describe; None if that is all. Only those match its expressions."""


@frozen
class Written:
    """The write, and each earlier one that was not refused, is below the high watermark of the partition (acks=all)."""

    write_id: int


@frozen
class WriteFailed:
    """The write was refused or has an unknown outcome. The error is the one that a producer with acks=all would get.

    After REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND the records are in the log and may still be committed:
    they count from the next `Written` on. All other errors mean that nothing was appended. Report them before a later
    write is reported as written.
    """

    write_id: int
    error: KafkaErrorCode


@frozen
class RecordsLoaded:
    """The next records of the partition, in the order of the log. Comes any number of times before `LoadFinished`.

    Records of a transaction have its producer, and count from its marker on, if that commits.
    """

    records: tuple[Record, ...]
    producer_id: int = NO_PRODUCER


@frozen
class TransactionEnded:
    """A marker is committed in this partition: the offsets in the producer's transaction count now, or never.

    Comes also while the log is loaded, in its order. Report it after the `Written` of writes before the marker.
    """

    producer_id: int
    commits: bool


@frozen
class LoadFinished:
    """All records up to the high watermark have been given: the coordinator serves from now on."""

    time_ms: int


@frozen
class TopicsRemoved:
    """These topics no longer exist, by the controller's metadata: the offsets committed for them are deleted."""

    topics: tuple[str, ...]


@frozen
class TopicsKnown:
    """The topics of the cluster by name, which groups by KIP-848 assign; comes before a request that needs them."""

    topics: Mapping[str, KnownTopic]


@frozen
class Resigned:
    """This broker no longer leads the partition. Every waiting request is answered, and the coordinator has ended."""


@frozen
class GroupTimePassed:
    """Time passed; due whenever `GroupCoordinator.deadline` is reached, harmless at any other time."""

    time_ms: int


CoordinatorEvent: TypeAlias = (
    GroupRequestArrived
    | Written
    | WriteFailed
    | RecordsLoaded
    | TransactionEnded
    | LoadFinished
    | TopicsRemoved
    | TopicsKnown
    | Resigned
    | GroupTimePassed
)
