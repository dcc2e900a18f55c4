"""The orders that `GroupCoordinator.step` returns. Carry them out in their order."""

from typing import TypeAlias

from kafka_compat.coordinator.events import Record
from kafka_compat.protocol.apis.consumer_group_describe import ConsumerGroupDescribeResponse
from kafka_compat.protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_compat.protocol.apis.delete_groups import DeleteGroupsResponse
from kafka_compat.protocol.apis.describe_groups import DescribeGroupsResponse
from kafka_compat.protocol.apis.heartbeat import HeartbeatResponse
from kafka_compat.protocol.apis.join_group import JoinGroupResponse
from kafka_compat.protocol.apis.leave_group import LeaveGroupResponse
from kafka_compat.protocol.apis.list_groups import ListGroupsResponse
from kafka_compat.protocol.apis.offset_commit import OffsetCommitResponse
from kafka_compat.protocol.apis.offset_delete import OffsetDeleteResponse
from kafka_compat.protocol.apis.offset_fetch import OffsetFetchResponse
from kafka_compat.protocol.apis.sync_group import SyncGroupResponse
from kafka_compat.protocol.apis.transactions import TxnOffsetCommitResponse
from log.values import frozen

GroupResponse: TypeAlias = (
    JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | OffsetCommitResponse
    | TxnOffsetCommitResponse
    | OffsetFetchResponse
    | OffsetDeleteResponse
    | DescribeGroupsResponse
    | ListGroupsResponse
    | DeleteGroupsResponse
    | ConsumerGroupHeartbeatResponse
    | ConsumerGroupDescribeResponse
)
"""The responses of a coordinator, as the protocol encodes them."""


@frozen
class GroupAnswer:
    """Send this response to the request that has the token, encoded in the request's version."""

    token: int
    response: GroupResponse


@frozen
class AppendRecords:
    """Append these records to the partition in one batch with acks=all, then report `Written` or `WriteFailed`.

    Write ids grow by one from 1. Writes must be appended in their order; several may be on their way at once.
    """

    write_id: int
    records: tuple[Record, ...]
    producer: tuple[int, int] = (-1, -1)
    """The id and epoch of the producer to whose transaction they belong; -1 without a transaction."""
    guard: int = 0
    """For a transaction: the guard that its verification gave."""


CoordinatorEffect: TypeAlias = GroupAnswer | AppendRecords
