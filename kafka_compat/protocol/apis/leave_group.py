"""LeaveGroup (13): removes members from a group: the sender up to version 2, a list from 3."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, array, int16, int32, string


class LeaveGroupMember(Message):
    """A member that leaves, by its id or its instance id."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+", default=None)
    reason: str | None = string("5+", nullable="0+", default=None)


class LeaveGroupRequest(Message):
    """Removes members from a group."""

    group_id: str = string()
    member_id: str = string("0-2", default="")
    members: tuple[LeaveGroupMember, ...] = array(LeaveGroupMember, "3+", default=())


class LeaveGroupMemberResponse(Message):
    """The outcome for one member."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+")
    error_code: int = int16()


class LeaveGroupResponse(Message):
    """The outcome for each member."""

    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16()
    members: tuple[LeaveGroupMemberResponse, ...] = array(LeaveGroupMemberResponse, "3+", default=())


LEAVE_GROUP = Api.of(13, "LeaveGroup", LeaveGroupRequest, LeaveGroupResponse, versions="0-5", flexible="4+")
