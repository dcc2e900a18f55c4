"""FindCoordinator (10): finds the coordinator of a group or a transactional id.

One key up to version 3, several from 4.
"""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import STRING, Message, array, int8, int16, int32, string


class FindCoordinatorRequest(Message):
    """Asks for coordinators. `key_type` 0 is a group, 1 a transactional id, 2 a share group."""

    key: str = string("0-3", default="")
    key_type: int = int8("1+", default=0)
    coordinator_keys: tuple[str, ...] = array(STRING, "4+", default=())


class FoundCoordinator(Message):
    """The coordinator of one key, from version 4."""

    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class FindCoordinatorResponse(Message):
    """The coordinator, up to version 3, or `coordinators` from 4."""

    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16("0-3", default=0)
    error_message: str | None = string("1-3", nullable="0+", default=None)
    node_id: int = int32("0-3", default=0)
    host: str = string("0-3", default="")
    port: int = int32("0-3", default=0)
    coordinators: tuple[FoundCoordinator, ...] = array(FoundCoordinator, "4+", default=())


FIND_COORDINATOR = Api.of(
    10, "FindCoordinator", FindCoordinatorRequest, FindCoordinatorResponse, versions="0-6", flexible="3+"
)
