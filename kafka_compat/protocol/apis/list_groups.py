"""ListGroups (16): the groups that a broker coordinates, filtered by state (from version 4) and type (from 5)."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import STRING, Message, array, int16, int32, string


class ListGroupsRequest(Message):
    """Asks for all groups; an empty filter lets all pass."""

    states_filter: tuple[str, ...] = array(STRING, "4+", default=())
    types_filter: tuple[str, ...] = array(STRING, "5+", default=())


class ListedGroup(Message):
    """A group of this broker."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+", default="")
    group_type: str = string("5+", default="")


class ListGroupsResponse(Message):
    """The groups of this broker."""

    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16()
    groups: tuple[ListedGroup, ...] = array(ListedGroup)


LIST_GROUPS = Api.of(16, "ListGroups", ListGroupsRequest, ListGroupsResponse, versions="0-5", flexible="3+")
