"""SyncGroup (14): the group's leader gives out the assignments; each member receives its own."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, array, int16, int32, octets, string


class SyncGroupAssignment(Message):
    """The assignment that the group's leader gives to one member."""

    member_id: str = string()
    assignment: bytes = octets()


class SyncGroupRequest(Message):
    """Asks for the own assignment; the group's leader sends all of them."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="0+", default=None)
    protocol_type: str | None = string("5+", nullable="0+", default=None)
    protocol_name: str | None = string("5+", nullable="0+", default=None)
    assignments: tuple[SyncGroupAssignment, ...] = array(SyncGroupAssignment)


class SyncGroupResponse(Message):
    """The member's assignment."""

    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="0+", default=None)
    protocol_name: str | None = string("5+", nullable="0+", default=None)
    assignment: bytes = octets()


SYNC_GROUP = Api.of(14, "SyncGroup", SyncGroupRequest, SyncGroupResponse, versions="0-5", flexible="4+")
