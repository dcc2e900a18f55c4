"""The requests of brokers to the controller: commands and heartbeats."""

from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_node import ControllerNode
from kafka_compat.controller.commands import may_send
from kafka_compat.protocol.apis.controller import (
    BROKER_HEARTBEAT,
    CONTROLLER_COMMAND,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    ControllerCommandRequest,
    ControllerCommandResponse,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.net.errors import WireError
from raft.net.handlers import serves


class ClusterRequests:
    """The handlers of one broker."""

    def __init__(self, context: Context, node: ControllerNode) -> None:
        self._context = context
        self._node = node

    @serves(CONTROLLER_COMMAND.key)
    def command(self, call: ClientCall) -> None:
        """Commit a command of another broker, if this one is the controller."""
        request: ControllerCommandRequest = call.request
        if request.cluster_id != self._context.cluster_id:
            call.answer(ControllerCommandResponse(error_code=KafkaErrorCode.INVALID_REQUEST))
            return
        context, member = self._context, call.caller.member
        if not context.knows_members:
            context.controller.propose(request.command, call.answer)
        elif member is None:
            call.answer(ControllerCommandResponse(error_code=KafkaErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        elif not may_send(member, request.command):
            raise WireError(f"broker {member} sends a command that is not its own")
        else:
            context.controller.propose(request.command, call.answer)

    @serves(BROKER_HEARTBEAT.key)
    def heartbeat(self, call: ClientCall) -> None:
        """Take a broker's heartbeat."""
        request: BrokerHeartbeatRequest = call.request
        if self._context.may_speak_for(call, request.broker_id):
            self._node.heartbeat(call.connection, request, call.answer)
        else:
            call.answer(BrokerHeartbeatResponse(error_code=KafkaErrorCode.CLUSTER_AUTHORIZATION_FAILED))
