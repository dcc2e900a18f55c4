"""DeleteGroups (42): deletes groups that have no members, with their offsets."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import STRING, Message, array, int16, int32, string


class DeleteGroupsRequest(Message):
    """Deletes groups."""

    groups_names: tuple[str, ...] = array(STRING)


class DeleteGroupResult(Message):
    """The outcome for one group."""

    group_id: str = string()
    error_code: int = int16()


class DeleteGroupsResponse(Message):
    """The outcome for each group."""

    throttle_time_ms: int = int32(default=0)
    results: tuple[DeleteGroupResult, ...] = array(DeleteGroupResult)


DELETE_GROUPS = Api.of(42, "DeleteGroups", DeleteGroupsRequest, DeleteGroupsResponse, versions="0-2", flexible="2+")
