"""DescribeGroups (15): state, members and assignments of groups."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import STRING, Message, array, boolean, int16, int32, octets, string


class DescribeGroupsRequest(Message):
    """Asks about groups."""

    groups: tuple[str, ...] = array(STRING)
    include_authorized_operations: bool = boolean("3+", default=False)


class DescribedGroupMember(Message):
    """A member, its subscription and its assignment, both opaque."""

    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = octets()
    member_assignment: bytes = octets()


class DescribedGroup(Message):
    """A group. An unknown one is in state Dead; from version 6 it has error 69."""

    error_code: int = int16()
    error_message: str | None = string("6+", nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: tuple[DescribedGroupMember, ...] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-(2**31))


class DescribeGroupsResponse(Message):
    """The groups that were asked about."""

    throttle_time_ms: int = int32("1+", default=0)
    groups: tuple[DescribedGroup, ...] = array(DescribedGroup)


DESCRIBE_GROUPS = Api.of(
    15, "DescribeGroups", DescribeGroupsRequest, DescribeGroupsResponse, versions="0-6", flexible="5+"
)
