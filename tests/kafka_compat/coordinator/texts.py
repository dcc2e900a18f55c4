"""Responses of the coordinator as one line of a script."""

from typing import assert_never

from kafka_compat.coordinator.effects import GroupResponse
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
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.kafka_compat.coordinator.consumer_words import assignment_text, heartbeat_text, members_text


def error(code: int) -> str:
    return "ok" if code == 0 else KafkaErrorCode(code).name


def response_text(response: GroupResponse) -> str:
    match response:
        case JoinGroupResponse():
            members = " ".join(each.member_id for each in response.members)
            skip = " skip" if response.skip_assignment else ""
            if response.error_code:
                return f"join {error(response.error_code)} id={response.member_id}"
            return (
                f"joined id={response.member_id} gen={response.generation_id} {response.protocol_name}"
                f" leader={response.leader} [{members}]{skip}"
            )
        case SyncGroupResponse():
            return f"sync {error(response.error_code)} {assignment_text(response.assignment)}".rstrip()
        case HeartbeatResponse():
            return f"beat {error(response.error_code)}"
        case LeaveGroupResponse():
            members = " ".join(
                f"{member.member_id or member.group_instance_id}={error(member.error_code)}"
                for member in response.members
            )
            return f"left {error(response.error_code)} {members}".rstrip()
        case DescribeGroupsResponse():
            return "; ".join(
                f"{group.group_id} {error(group.error_code)} {group.group_state} {group.protocol_data} "
                + " ".join(
                    f"{member.member_id}={assignment_text(member.member_assignment)}" for member in group.members
                )
                for group in response.groups
            ).rstrip()
        case ListGroupsResponse():
            groups = " ".join(f"{each.group_id}={each.group_state}" for each in response.groups)
            return f"listed {error(response.error_code)} {groups}".rstrip()
        case DeleteGroupsResponse():
            return "deleted " + " ".join(f"{each.group_id}={error(each.error_code)}" for each in response.results)
        case ConsumerGroupHeartbeatResponse():
            return heartbeat_text(response)
        case ConsumerGroupDescribeResponse():
            return members_text(response)
        case OffsetCommitResponse() | TxnOffsetCommitResponse() | OffsetFetchResponse() | OffsetDeleteResponse():
            return offsets_text(response)
        case _:
            assert_never(response)


def offsets_text(
    response: OffsetCommitResponse | TxnOffsetCommitResponse | OffsetFetchResponse | OffsetDeleteResponse,
) -> str:
    match response:
        case OffsetCommitResponse() | TxnOffsetCommitResponse():
            return "commit " + " ".join(
                f"{topic.name}/{partition.partition_index}={error(partition.error_code)}"
                for topic in response.topics
                for partition in topic.partitions
            )
        case OffsetDeleteResponse():
            parts = " ".join(
                f"{topic.name}/{partition.partition_index}={error(partition.error_code)}"
                for topic in response.topics
                for partition in topic.partitions
            )
            return f"forgot {error(response.error_code)} {parts}".rstrip()
        case OffsetFetchResponse():
            return (
                "fetched "
                + "; ".join(
                    f"{error(group.error_code)} "
                    + " ".join(
                        f"{topic.name}/{partition.partition_index}={partition.committed_offset}"
                        f"{'@' + str(partition.committed_leader_epoch) if partition.committed_leader_epoch >= 0 else ''}"
                        f"{':' + partition.metadata if partition.metadata else ''}"
                        f"{' ' + error(partition.error_code) if partition.error_code else ''}"
                        for topic in group.topics
                        for partition in topic.partitions
                    )
                    for group in response.groups
                )
            ).rstrip()
        case _:
            assert_never(response)
