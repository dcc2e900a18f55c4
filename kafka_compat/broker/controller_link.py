"""Sends commands to the controller, the leader of the brokers' raft group, which may be this process or another.

A command goes to the known leader. If it was certainly not committed (no leader, a broker that no longer leads, no
connection) it is sent again until its time is up. Otherwise its outcome is unknown. A result is handed out once this
broker has applied its command, or its time is up: a client that knows of a new topic finds it here. The controller
refuses a command that no longer applies (epochs, names that exist), so a caller that understands this may send it again.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import attrs

from kafka_compat.broker.peers import Peer, PeerFailed
from kafka_compat.controller.answers import fits
from kafka_compat.controller.commands import Command, CommandResult, decode_result, encode_command
from kafka_compat.protocol.api import Api
from kafka_compat.protocol.apis.controller import (
    BROKER_HEARTBEAT,
    CONTROLLER_COMMAND,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    ControllerCommandRequest,
    ControllerCommandResponse,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.errors import InvalidRequest, RaftError
from raft.net.errors import WireError
from raft.results import Applied

COMMAND_TIMEOUT_S = 5.0
"""The time that a broker waits for the answer to one request to the controller."""
RETRY_S = 0.05
MAX_INDEX = 2**63 - 1


class CommandGroup(Protocol):
    """The raft group of the controllers: a `RaftGroup`."""

    def propose(self, command: bytes, done: Callable[[Applied | RaftError], None]) -> None:
        """See `RaftGroup.propose`."""


@attrs.frozen
class CommandFailed:
    """A command has no result. `definite`: it has certainly not been carried out."""

    reason: str
    definite: bool

    @property
    def error(self) -> KafkaErrorCode:
        """The error for clients: NOT_CONTROLLER, to try again, or REQUEST_TIMED_OUT for an unknown outcome."""
        return KafkaErrorCode.NOT_CONTROLLER if self.definite else KafkaErrorCode.REQUEST_TIMED_OUT


CommandDone = Callable[[CommandResult | CommandFailed], None]


@attrs.define
class _Waiting:
    asked: Command
    command: bytes
    done: CommandDone
    deadline: float
    not_before: float = 0.0
    at_once: bool = False


@attrs.define
class _Unapplied:
    """A result that this broker's image does not have yet."""

    index: int
    deadline: float
    done: CommandDone
    result: CommandResult


class ControllerLink:
    """Commands and heartbeats of one broker. `pump` is to be called once a round."""

    def __init__(
        self,
        cluster_id: str,
        broker_id: int,
        peers: Mapping[int, Peer],
        heartbeat_peers: Mapping[int, Peer],
        clock: Callable[[], float],
        *,
        command_timeout_s: float = COMMAND_TIMEOUT_S,
    ) -> None:
        self.leader: int | None = None
        """The broker whose process is the controller, to this broker's knowledge."""
        self.group: CommandGroup | None = None
        """Set once it is open."""
        self.status: Callable[[], Mapping[str, Any]] = dict
        """Returns the status of that group, as `RaftGroup.status`."""
        self.applied: Callable[[], int] = lambda: MAX_INDEX
        """The index of the last command that this broker has applied."""
        self.confirmed_until = float("inf")
        """No other broker leads before this time what this one leads, counted from the newest heartbeat that was answered.

        Before the first answer it leads nothing.
        """
        self._cluster_id = cluster_id
        self._broker_id = broker_id
        self._peers = peers
        self._heartbeat_peers = heartbeat_peers
        """Separate connections for heartbeats.

        A late answer to a command closes its connection, which must not look like the end of this process.
        """
        self._clock = clock
        self._command_timeout_s = command_timeout_s
        self._waiting: list[_Waiting] = []
        self._unapplied: list[_Unapplied] = []

    def ask(self, api: Api[Any, Any], version: int, request: object, done: Callable[[Any | PeerFailed], None]) -> None:
        """Ask the broker that leads, if it is another one that is known."""
        peer = None if self.leader is None else self._peers.get(self.leader)
        if peer is None:
            done(PeerFailed("no controller is known", was_sent=False))
        else:
            peer.call(api, version, request, done, timeout_s=self._command_timeout_s)

    def send(
        self, command: Command, done: CommandDone, *, timeout_s: float | None = None, at_once: bool = False
    ) -> None:
        """Have a command carried out; `done` is called once, in the loop, with its result or a `CommandFailed`.

        With `at_once` the result need not be in this broker's image yet.
        """
        within_s = self._command_timeout_s if timeout_s is None else timeout_s
        self._try(_Waiting(command, encode_command(command), done, self._clock() + within_s, at_once=at_once))

    def leader_changed(self, leader: int | None) -> None:
        """Take the new leader of the raft group, or None while it is unknown."""
        self.leader = leader
        if leader is not None:
            for command in self._waiting:
                command.not_before = 0.0

    @property
    def deadline(self) -> float:
        """The time at which `pump` is due; infinite if no call waits."""
        if not self._unapplied and not self._waiting:
            return math.inf
        due = [each.deadline for each in self._unapplied] + [each.deadline for each in self._waiting]
        if self.leader is not None:  # nothing can be sent before there is one, which `leader_changed` tells
            due += [each.not_before for each in self._waiting]
        return min(due)

    def pump(self, now: float) -> None:
        """Send commands that wait for a leader, end those past their deadline, and hand out applied results."""
        if self._unapplied:
            self._give_out(now)
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for command in waiting:
            if now >= command.deadline:
                command.done(CommandFailed("no controller answered in time", definite=True))
            elif now >= command.not_before and self.leader is not None:
                self._try(command)
            else:
                self._waiting.append(command)

    def _give_out(self, now: float) -> None:
        applied = self.applied()
        ready = [each for each in self._unapplied if each.index <= applied or each.deadline <= now]
        if ready:
            self._unapplied = [each for each in self._unapplied if each.index > applied and each.deadline > now]
        for command in ready:
            command.done(command.result)

    def propose(self, command: bytes, done: Callable[[ControllerCommandResponse], None]) -> None:
        """Propose a command in this process, if it is the controller.

        `done` gets the answer for the broker that asked.
        """

        def on_outcome(outcome: Applied | RaftError) -> None:
            if isinstance(outcome, Applied):
                done(ControllerCommandResponse(error_code=0, index=outcome.index, result=outcome.result))
            else:
                done(ControllerCommandResponse(error_code=_error_of(outcome)))

        if self.group is None:
            done(ControllerCommandResponse(error_code=KafkaErrorCode.NOT_CONTROLLER))
            return
        try:
            self.group.propose(command, on_outcome)
        except RaftError as error:
            on_outcome(error)

    def _try(self, waiting: _Waiting) -> None:
        leader = self.leader
        if leader is None or (leader != self._broker_id and leader not in self._peers):
            self._again(waiting)
        elif leader == self._broker_id:
            self.propose(waiting.command, lambda response: self._on_response(waiting, response))
        else:
            self._peers[leader].call(
                CONTROLLER_COMMAND,
                0,
                ControllerCommandRequest(cluster_id=self._cluster_id, command=waiting.command),
                lambda response: self._on_response(waiting, response),
                timeout_s=max(waiting.deadline - self._clock(), RETRY_S),
            )

    def _on_response(self, waiting: _Waiting, response: ControllerCommandResponse | PeerFailed) -> None:
        if isinstance(response, PeerFailed):
            if response.was_sent:
                waiting.done(CommandFailed(f"the controller did not answer: {response.reason}", definite=False))
            else:
                self._again(waiting)
        elif response.error_code == KafkaErrorCode.NONE:
            result = _result_of(waiting, response)
            if waiting.at_once or response.index <= self.applied():
                waiting.done(result)
            else:
                self._unapplied.append(_Unapplied(response.index, waiting.deadline, waiting.done, result))
        elif response.error_code in (KafkaErrorCode.NOT_CONTROLLER, KafkaErrorCode.THROTTLING_QUOTA_EXCEEDED):
            self._again(waiting)
        else:
            definite = response.error_code in _REFUSED
            waiting.done(CommandFailed(f"the controller answered with error {response.error_code}", definite=definite))

    def _again(self, waiting: _Waiting) -> None:
        waiting.not_before = self._clock() + RETRY_S
        self._waiting.append(waiting)

    def heartbeat(
        self,
        broker_epoch: int,
        applied_index: int,
        done: Callable[[BrokerHeartbeatResponse], None],
        *,
        wants_shutdown: bool,
        silent: tuple[int, ...] = (),
        timeout_s: float,
    ) -> None:
        """Send a heartbeat to every other broker; `done` gets the controller's answer, if one comes.

        All brokers note it, so that any of them knows who is alive if it becomes the controller. A connection whose
        answers are later than `timeout_s` is closed; pass the length of the session, after which no answer matters.
        """
        request = BrokerHeartbeatRequest(
            cluster_id=self._cluster_id,
            broker_id=self._broker_id,
            broker_epoch=broker_epoch,
            applied_index=applied_index,
            wants_shutdown=wants_shutdown,
            silent=silent,
        )

        def on_response(broker: int, response: BrokerHeartbeatResponse | PeerFailed) -> None:
            if isinstance(response, PeerFailed) or response.error_code == KafkaErrorCode.NOT_CONTROLLER:
                return
            if self.leader in (None, broker):  # another one is not asked, whatever it answers
                done(response)

        for broker, peer in self._heartbeat_peers.items():
            peer.call(BROKER_HEARTBEAT, 0, request, partial(on_response, broker), timeout_s=timeout_s)


def _result_of(waiting: _Waiting, response: ControllerCommandResponse) -> CommandResult:
    """Returns the result in an answer.

    Raises `WireError` if no correct controller answers the command so. The command has ended then, with an unknown
    outcome, and the link of the one who answered ends.
    """
    with suppress(InvalidRequest):
        result = decode_result(response.result)
        if fits(waiting.asked, result):
            return result
    reason = f"no controller answers a {type(waiting.asked).__name__} so"
    waiting.done(CommandFailed(reason, definite=False))
    raise WireError(reason)


_REFUSED = (KafkaErrorCode.INVALID_REQUEST, KafkaErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _error_of(error: RaftError) -> KafkaErrorCode:
    if isinstance(error, InvalidRequest):
        return KafkaErrorCode.INVALID_REQUEST
    return KafkaErrorCode.NOT_CONTROLLER if error.definite else KafkaErrorCode.REQUEST_TIMED_OUT
