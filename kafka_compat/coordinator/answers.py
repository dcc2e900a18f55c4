"""Responses that refuse: the one error of a request, in the place where each API and version has it."""

from typing import assert_never

from kafka_compat.coordinator.effects import GroupResponse
from kafka_compat.coordinator.events import GroupRequest
from kafka_compat.protocol.apis.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)
from kafka_compat.protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_compat.protocol.apis.delete_groups import DeleteGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kafka_compat.protocol.apis.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kafka_compat.protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_compat.protocol.apis.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_compat.protocol.apis.leave_group import (
    LeaveGroupMember,
    LeaveGroupMemberResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
)
from kafka_compat.protocol.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_compat.protocol.apis.offset_commit import (
    OffsetCommitPartitionResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopicResponse,
)
from kafka_compat.protocol.apis.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafka_compat.protocol.apis.offset_fetch import (
    OffsetFetchGroupResponse,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopicResponse,
)
from kafka_compat.protocol.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_compat.protocol.apis.transactions import (
    TxnOffsetCommitPartitionResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitTopicResponse,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode

NULL_PROTOCOL_VERSION = 7
"""From this version of JoinGroup a missing protocol is null; before, it is empty."""
LEAVE_LIST_VERSION = 3
"""From this version on, LeaveGroup has a list of members, each with its own error."""
FETCH_ERROR_VERSION = 2
FETCH_GROUPS_VERSION = 8
NO_OFFSET = -1


def error_response(version: int, request: GroupRequest, error: KafkaErrorCode) -> GroupResponse:
    """Returns the response with this error for every part of the request.

    The shell uses it, too: with NOT_COORDINATOR or COORDINATOR_NOT_AVAILABLE if it has no coordinator to ask.
    """
    match request:
        case JoinGroupRequest(member_id=member_id):
            return join_error(version, member_id, error)
        case SyncGroupRequest():
            return SyncGroupResponse(error_code=error, assignment=b"")
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=error)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=error)
        case OffsetCommitRequest():
            return commit_response(request, error)
        case TxnOffsetCommitRequest():
            return transaction_commit_response(request, error)
        case OffsetFetchRequest():
            return _fetch_error(version, request, error)
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=error, topics=())
        case DescribeGroupsRequest(groups=groups):
            return DescribeGroupsResponse(groups=tuple(described_error(group, error) for group in groups))
        case ListGroupsRequest():
            return ListGroupsResponse(error_code=error, groups=())
        case DeleteGroupsRequest(groups_names=groups):
            return DeleteGroupsResponse(
                results=tuple(DeleteGroupResult(group_id=group, error_code=error) for group in groups)
            )
        case ConsumerGroupHeartbeatRequest():
            return ConsumerGroupHeartbeatResponse(error_code=error)
        case ConsumerGroupDescribeRequest(group_ids=groups):
            described = (DescribedConsumerGroup(group_id=group, error_code=error) for group in groups)
            return ConsumerGroupDescribeResponse(groups=tuple(described))
        case _:
            assert_never(request)


def join_error(version: int, member_id: str, error: KafkaErrorCode) -> JoinGroupResponse:
    """Returns a JoinGroup response without a generation."""
    return JoinGroupResponse(
        error_code=error,
        protocol_name=None if version >= NULL_PROTOCOL_VERSION else "",
        leader="",
        member_id=member_id,
        members=(),
    )


def leave_response(version: int, members: tuple[tuple[LeaveGroupMember, KafkaErrorCode], ...]) -> LeaveGroupResponse:
    """Returns the outcome for each member that was to leave."""
    if version < LEAVE_LIST_VERSION:
        return LeaveGroupResponse(error_code=members[0][1])
    return LeaveGroupResponse(
        error_code=KafkaErrorCode.NONE,
        members=tuple(
            LeaveGroupMemberResponse(
                member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error
            )
            for member, error in members
        ),
    )


def commit_response(
    request: OffsetCommitRequest, error: KafkaErrorCode, metadata_max: int | None = None
) -> OffsetCommitResponse:
    """Returns the same error for each partition, except OFFSET_METADATA_TOO_LARGE if its metadata exceeds the bound."""
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitTopicResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitPartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=_commit_error(partition.committed_metadata, error, metadata_max),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def transaction_commit_response(
    request: TxnOffsetCommitRequest, error: KafkaErrorCode, metadata_max: int | None = None
) -> TxnOffsetCommitResponse:
    """Returns the error of each partition, as `commit_response` does."""
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitTopicResponse(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitPartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=_commit_error(partition.committed_metadata, error, metadata_max),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _commit_error(metadata: str | None, error: KafkaErrorCode, metadata_max: int | None) -> KafkaErrorCode:
    too_large = metadata_max is not None and metadata is not None and len(metadata) > metadata_max
    return KafkaErrorCode.OFFSET_METADATA_TOO_LARGE if too_large else error


def described_error(group: str, error: KafkaErrorCode, text: str | None = None, state: str = "") -> DescribedGroup:
    """Returns the description of an unknown group."""
    return DescribedGroup(
        error_code=error,
        error_message=text,
        group_id=group,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=(),
    )


def _fetch_error(version: int, request: OffsetFetchRequest, error: KafkaErrorCode) -> OffsetFetchResponse:
    if version >= FETCH_GROUPS_VERSION:
        return OffsetFetchResponse(
            groups=tuple(
                OffsetFetchGroupResponse(group_id=group.group_id, topics=(), error_code=error)
                for group in request.groups
            )
        )
    if version >= FETCH_ERROR_VERSION:
        return OffsetFetchResponse(error_code=error)
    return OffsetFetchResponse(
        topics=tuple(
            OffsetFetchTopicResponse(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchPartitionResponse(
                        partition_index=partition, committed_offset=NO_OFFSET, metadata="", error_code=error
                    )
                    for partition in topic.partition_indexes
                ),
            )
            for topic in request.topics or ()
        )
    )
