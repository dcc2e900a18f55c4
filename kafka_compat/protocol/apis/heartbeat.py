"""Heartbeat (12): keeps a member in its group, and reports a rebalance of the group to it."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, int16, int32, string


class HeartbeatRequest(Message):
    """The member is there."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="0+", default=None)


class HeartbeatResponse(Message):
    """The answer to a member; error 27 means that it must join again."""

    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16()


HEARTBEAT = Api.of(12, "Heartbeat", HeartbeatRequest, HeartbeatResponse, versions="0-4", flexible="4+")
