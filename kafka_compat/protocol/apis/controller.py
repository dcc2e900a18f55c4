"""Between brokers: commands and heartbeats for the controller.

ApiVersions omits them, and Kafka's own protocol has no such APIs. The controller is the leader of the brokers' raft
group. A command is opaque here (`kafka_compat.controller.commands`). It is answered after it is committed and applied.
"""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import INT32, Message, array, boolean, int16, int32, int64, octets, string


class ControllerCommandRequest(Message):
    """A command to commit. A broker that is not the controller refuses it with NOT_CONTROLLER."""

    cluster_id: str = string()
    command: bytes = octets()


class ControllerCommandResponse(Message):
    """The result of the command and the index at which it was committed.

    After NOT_CONTROLLER and THROTTLING_QUOTA_EXCEEDED it was not committed. After REQUEST_TIMED_OUT that is unknown.
    """

    error_code: int = int16()
    index: int = int64(default=0)
    result: bytes = octets(default=b"")


class BrokerHeartbeatRequest(Message):
    """A broker is alive and has applied the metadata up to `applied_index`.

    The fields are those of Kafka's BrokerHeartbeat (63), but for `silent`: the leaders for whose answers to fetches it
    has waited too long.
    """

    cluster_id: str = string()
    broker_id: int = int32()
    broker_epoch: int = int64()
    applied_index: int = int64()
    wants_shutdown: bool = boolean(default=False)
    silent: tuple[int, ...] = array(INT32, default=(), tag=0)


class BrokerHeartbeatResponse(Message):
    """The controller's view of the broker."""

    error_code: int = int16()
    is_caught_up: bool = boolean(default=False)
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean(default=False)


CONTROLLER_COMMAND = Api.of(
    20001, "ControllerCommand", ControllerCommandRequest, ControllerCommandResponse, versions="0", flexible="0+"
)
BROKER_HEARTBEAT = Api.of(
    20002, "BrokerHeartbeat", BrokerHeartbeatRequest, BrokerHeartbeatResponse, versions="0", flexible="0+"
)
