"""The requests of brokers to the controller: commands, heartbeats, and producer ids, which brokers take in blocks."""

from collections import deque

from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import CommandFailed
from kafka_compat.broker.controller_node import ControllerNode
from kafka_compat.controller.commands import AllocateProducerIds, CommandResult, ProducerIdsAllocated, may_send
from kafka_compat.protocol.apis.controller import (
    BROKER_HEARTBEAT,
    CONTROLLER_COMMAND,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    ControllerCommandRequest,
    ControllerCommandResponse,
)
from kafka_compat.protocol.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.net.errors import WireError
from raft.net.handlers import serves

PRODUCERS_WAITING_MAX = 10_000
NO_PRODUCER = -1


class ClusterRequests:
    """The handlers of one broker."""

    def __init__(self, context: Context, node: ControllerNode) -> None:
        self._context = context
        self._node = node
        self._next_id = 0
        self._ids_end = 0
        self._waiting: deque[ClientCall] = deque()
        """Producers that wait for the next block of ids."""

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

    # ---------------------------------------------------------------- producer ids

    @serves(INIT_PRODUCER_ID.key)
    def init_producer_id(self, call: ClientCall) -> None:
        """Answer with a new producer id, whatever id the client has had."""
        request: InitProducerIdRequest = call.request
        if request.transactional_id is not None:
            # As FindCoordinator is answered: on this error every client fails at once instead of asking again.
            call.answer(_build_refusal(KafkaErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        elif len(self._waiting) >= PRODUCERS_WAITING_MAX:
            call.answer(_build_refusal(KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        elif self._next_id < self._ids_end:
            self._give(call)
        else:
            self._waiting.append(call)
            if len(self._waiting) == 1:
                self._refill()

    def _give(self, call: ClientCall) -> None:
        call.answer(InitProducerIdResponse(error_code=KafkaErrorCode.NONE, producer_id=self._next_id, producer_epoch=0))
        self._next_id += 1

    def _refill(self) -> None:
        context = self._context
        context.controller.send(AllocateProducerIds(context.broker_id, context.broker_epoch), self._on_refilled)

    def _on_refilled(self, result: CommandResult | CommandFailed) -> None:
        if isinstance(result, ProducerIdsAllocated) and result.error is KafkaErrorCode.NONE:
            self._next_id, self._ids_end = result.first, result.first + result.count
            while self._waiting and self._next_id < self._ids_end:
                self._give(self._waiting.popleft())
            if self._waiting:
                self._refill()
            return
        while self._waiting:
            # Clients try again; a block that was taken without an answer is never used.
            self._waiting.popleft().answer(_build_refusal(KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS))


def _build_refusal(error: KafkaErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER, producer_epoch=-1)
