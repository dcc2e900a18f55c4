"""Maps groups to partitions of `__consumer_offsets`, and splits and joins requests about several groups.

The coordinator of a group is the leader of partition `abs(hash) mod count`. The hash is Java's hash of a string, and
abs of the least number is 0 (Kafka's `Utils.abs`).
"""

from collections.abc import Iterable, Mapping
from typing import assert_never

from kafka_compat.coordinator.answers import FETCH_GROUPS_VERSION
from kafka_compat.coordinator.effects import GroupResponse
from kafka_compat.coordinator.events import GroupRequest
from kafka_compat.protocol.apis.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafka_compat.protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_compat.protocol.apis.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafka_compat.protocol.apis.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_compat.protocol.apis.heartbeat import HeartbeatRequest
from kafka_compat.protocol.apis.join_group import JoinGroupRequest
from kafka_compat.protocol.apis.leave_group import LeaveGroupRequest
from kafka_compat.protocol.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_compat.protocol.apis.offset_commit import OffsetCommitRequest
from kafka_compat.protocol.apis.offset_delete import OffsetDeleteRequest
from kafka_compat.protocol.apis.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafka_compat.protocol.apis.sync_group import SyncGroupRequest
from kafka_compat.protocol.apis.transactions import TxnOffsetCommitRequest
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import evolve


def java_string_hash(text: str) -> int:
    """Returns Java's `String.hashCode`, signed: over UTF-16 code units, modulo 2**32."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_of(group_id: str, partition_count: int) -> int:
    """Returns the partition of the offsets topic that holds this group."""
    value = java_string_hash(group_id)
    return (0 if value == -(2**31) else abs(value)) % partition_count


def split_request(
    request: GroupRequest, version: int, partition_count: int, led: Iterable[int]
) -> Mapping[int, GroupRequest]:
    """Returns the part of a request that each partition of the offsets topic answers, by partition.

    ListGroups goes to the partitions in `led`, which this broker leads; every other request goes to the partitions of
    the groups that it names. Empty if the request names no group.
    """
    match request:
        case ListGroupsRequest():
            return dict.fromkeys(led, request)
        case DescribeGroupsRequest(groups=groups):
            return {
                partition: DescribeGroupsRequest(
                    groups=tuple(names), include_authorized_operations=request.include_authorized_operations
                )
                for partition, names in _by_partition(groups, partition_count).items()
            }
        case ConsumerGroupDescribeRequest(group_ids=groups):
            return {
                partition: evolve(request, group_ids=tuple(names))
                for partition, names in _by_partition(groups, partition_count).items()
            }
        case DeleteGroupsRequest(groups_names=groups):
            return {
                partition: DeleteGroupsRequest(groups_names=tuple(names))
                for partition, names in _by_partition(groups, partition_count).items()
            }
        case OffsetFetchRequest(groups=fetched) if version >= FETCH_GROUPS_VERSION:
            by_id = _by_partition([group.group_id for group in fetched], partition_count)
            return {
                partition: OffsetFetchRequest(
                    groups=tuple(group for group in fetched if group.group_id in names),
                    require_stable=request.require_stable,
                )
                for partition, names in by_id.items()
            }
        case (
            JoinGroupRequest()
            | SyncGroupRequest()
            | HeartbeatRequest()
            | LeaveGroupRequest()
            | OffsetCommitRequest()
            | TxnOffsetCommitRequest()
            | OffsetFetchRequest()
            | OffsetDeleteRequest()
            | ConsumerGroupHeartbeatRequest()
        ):
            return {partition_of(request.group_id, partition_count): request}
        case _:
            assert_never(request)


def join_responses(request: GroupRequest, responses: Iterable[GroupResponse]) -> GroupResponse:
    """Returns one response, joined from the responses to the parts of a request, in any order.

    An error of ListGroups stands for all of it, except NOT_COORDINATOR, which only means that a partition has no groups
    here. Raises `ValueError` if there is no response to a request that is never split.
    """
    parts = list(responses)
    match request:
        case ListGroupsRequest():
            listed = [part for part in parts if isinstance(part, ListGroupsResponse)]
            errors = [part.error_code for part in listed]
            refusals = [error for error in errors if error not in (KafkaErrorCode.NONE, KafkaErrorCode.NOT_COORDINATOR)]
            if refusals:
                return ListGroupsResponse(error_code=refusals[0], groups=())
            return ListGroupsResponse(error_code=0, groups=tuple(group for part in listed for group in part.groups))
        case DescribeGroupsRequest():
            described = [part for part in parts if isinstance(part, DescribeGroupsResponse)]
            return DescribeGroupsResponse(groups=tuple(group for part in described for group in part.groups))
        case ConsumerGroupDescribeRequest():
            consumers = [part for part in parts if isinstance(part, ConsumerGroupDescribeResponse)]
            return ConsumerGroupDescribeResponse(groups=tuple(group for part in consumers for group in part.groups))
        case DeleteGroupsRequest():
            deleted = [part for part in parts if isinstance(part, DeleteGroupsResponse)]
            return DeleteGroupsResponse(results=tuple(result for part in deleted for result in part.results))
        case OffsetFetchRequest() if len(parts) != 1:
            fetched = [part for part in parts if isinstance(part, OffsetFetchResponse)]
            return OffsetFetchResponse(groups=tuple(group for part in fetched for group in part.groups))
        case _:
            if len(parts) != 1:
                raise ValueError(f"{len(parts)} responses to one {type(request).__name__}")
            return parts[0]


def _by_partition(groups: Iterable[str], partition_count: int) -> dict[int, dict[str, None]]:
    """Group ids by partition, each once, in the order of the request."""
    found: dict[int, dict[str, None]] = {}
    for group in groups:
        found.setdefault(partition_of(group, partition_count), {})[group] = None
    return found
