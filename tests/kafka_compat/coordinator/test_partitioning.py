"""The coordinator of a group, and requests that several coordinators answer."""

from typing import Any

import pytest

from kafka_compat.coordinator.answers import error_response
from kafka_compat.coordinator.events import GroupRequest
from kafka_compat.coordinator.partitioning import java_string_hash, join_responses, partition_of, split_request
from kafka_compat.protocol.api import Api
from kafka_compat.protocol.apis.delete_groups import DELETE_GROUPS, DeleteGroupsRequest
from kafka_compat.protocol.apis.describe_groups import DESCRIBE_GROUPS, DescribeGroupsRequest
from kafka_compat.protocol.apis.heartbeat import HEARTBEAT, HeartbeatRequest
from kafka_compat.protocol.apis.join_group import JOIN_GROUP, JoinGroupRequest
from kafka_compat.protocol.apis.leave_group import LEAVE_GROUP, LeaveGroupMember, LeaveGroupRequest
from kafka_compat.protocol.apis.list_groups import LIST_GROUPS, ListedGroup, ListGroupsRequest, ListGroupsResponse
from kafka_compat.protocol.apis.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
)
from kafka_compat.protocol.apis.offset_delete import OFFSET_DELETE, OffsetDeleteRequest
from kafka_compat.protocol.apis.offset_fetch import OFFSET_FETCH, OffsetFetchGroup, OffsetFetchRequest, OffsetFetchTopic
from kafka_compat.protocol.apis.sync_group import SYNC_GROUP, SyncGroupRequest
from kafka_compat.protocol.error_codes import KafkaErrorCode


@pytest.mark.parametrize(
    ("text", "value"),
    # By Java: "…".hashCode(); the last is outside of the basic plane, two code units.
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("\U0001f600", 1772899)],
)
def test_the_hash_is_javas(text: str, value: int) -> None:
    assert java_string_hash(text) == value


def test_a_negative_hash_has_a_partition_and_the_least_one_is_the_first() -> None:
    assert partition_of("polygenelubricants", 50) == 0
    assert {partition_of(f"group-{number}", 50) for number in range(2000)} == set(range(50))


REQUESTS: list[tuple[GroupRequest, Api[Any, Any]]] = [
    (JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="m", protocol_type="", protocols=()), JOIN_GROUP),
    (SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=()), SYNC_GROUP),
    (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), HEARTBEAT),
    (LeaveGroupRequest(group_id="g", members=(LeaveGroupMember(member_id="m"),)), LEAVE_GROUP),
    (
        OffsetCommitRequest(
            group_id="g",
            member_id="",
            topics=(
                OffsetCommitTopic(
                    name="t",
                    partitions=(OffsetCommitPartition(partition_index=1, committed_offset=2, committed_metadata=None),),
                ),
            ),
        ),
        OFFSET_COMMIT,
    ),
    (
        OffsetFetchRequest(
            group_id="g",
            topics=(OffsetFetchTopic(name="t", partition_indexes=(1,)),),
            groups=(OffsetFetchGroup(group_id="g", topics=None),),
        ),
        OFFSET_FETCH,
    ),
    (OffsetDeleteRequest(group_id="g", topics=()), OFFSET_DELETE),
    (DescribeGroupsRequest(groups=("g",)), DESCRIBE_GROUPS),
    (ListGroupsRequest(), LIST_GROUPS),
    (DeleteGroupsRequest(groups_names=("g",)), DELETE_GROUPS),
]


@pytest.mark.parametrize(("request_", "api"), REQUESTS, ids=lambda each: type(each).__name__)
def test_a_refusal_can_be_encoded_in_every_version_and_shows_its_error(
    request_: GroupRequest, api: Api[Any, Any]
) -> None:
    for version in api.versions:
        response = error_response(version, request_, KafkaErrorCode.NOT_COORDINATOR)
        body = b"".join(api.encode_response(version, 1, response))[4:]
        _, decoded = api.decode_response(body, version)
        assert "error_code=16" in repr(decoded), version


def test_requests_about_several_groups_are_split_and_their_answers_joined() -> None:
    groups = tuple(f"group-{number}" for number in range(9))
    for request in (
        DescribeGroupsRequest(groups=groups, include_authorized_operations=True),
        DeleteGroupsRequest(groups_names=groups),
        OffsetFetchRequest(
            groups=tuple(OffsetFetchGroup(group_id=group, topics=None) for group in groups), require_stable=True
        ),
    ):
        parts = split_request(request, 9, 3, ())
        assert set(parts) == {0, 1, 2}
        answers = [error_response(9, part, KafkaErrorCode.NOT_COORDINATOR) for part in parts.values()]
        joined = repr(join_responses(request, answers))
        assert all(joined.count(f"'{group}'") == 1 for group in groups)
        for partition, part in parts.items():
            assert all(partition_of(group, 3) == partition for group in groups if f"'{group}'" in repr(part))


def test_a_request_about_one_group_goes_to_its_partition_as_it_is() -> None:
    request = HeartbeatRequest(group_id="group-1", generation_id=1, member_id="m")
    assert split_request(request, 4, 50, ()) == {partition_of("group-1", 50): request}
    old = OffsetFetchRequest(group_id="group-1", topics=None)
    assert split_request(old, 7, 50, ()) == {partition_of("group-1", 50): old}
    with pytest.raises(ValueError, match="2 responses to one HeartbeatRequest"):
        join_responses(request, [error_response(4, request, KafkaErrorCode.NONE)] * 2)


def test_a_list_of_groups_is_whole_or_an_error() -> None:
    request = ListGroupsRequest()
    assert split_request(request, 5, 50, (3, 4)) == {3: request, 4: request}
    some = ListGroupsResponse(error_code=0, groups=(ListedGroup(group_id="g", protocol_type="consumer"),))
    moved = error_response(5, request, KafkaErrorCode.NOT_COORDINATOR)
    loading = error_response(5, request, KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert join_responses(request, [some, moved]) == some
    assert join_responses(request, [some, loading]) == loading
    assert join_responses(request, []) == ListGroupsResponse(error_code=0, groups=())


def test_no_groups_are_answered_without_a_coordinator() -> None:
    for request in (DescribeGroupsRequest(groups=()), OffsetFetchRequest(groups=())):
        assert split_request(request, 9, 50, ()) == {}
        assert "groups=()" in repr(join_responses(request, ()))
