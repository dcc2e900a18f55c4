"""JoinGroup (11): makes the sender a member of a group, and answers when all members have joined."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, array, boolean, int16, int32, octets, string


class JoinGroupProtocol(Message):
    """A way to assign partitions that the member supports, with its subscription in that way's format."""

    name: str = string()
    metadata: bytes = octets()


class JoinGroupRequest(Message):
    """Joins a group. An empty member id asks for one (from version 4: error 79 and the id, KIP-394)."""

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="0+", default=None)
    protocol_type: str = string()
    protocols: tuple[JoinGroupProtocol, ...] = array(JoinGroupProtocol)
    reason: str | None = string("8+", nullable="0+", default=None)


class JoinGroupMember(Message):
    """A member with its subscription; only the group's leader receives them."""

    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="0+", default=None)
    metadata: bytes = octets()


class JoinGroupResponse(Message):
    """The new generation and its leader."""

    throttle_time_ms: int = int32("2+", default=0)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="0+", default=None)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+", default=False)
    member_id: str = string()
    members: tuple[JoinGroupMember, ...] = array(JoinGroupMember)


JOIN_GROUP = Api.of(11, "JoinGroup", JoinGroupRequest, JoinGroupResponse, versions="0-9", flexible="6+")
