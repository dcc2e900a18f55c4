"""The controller of this process: `ControllerLiveness` while it leads the brokers' raft group, and the heartbeat."""

from collections.abc import Callable
from typing import Any

from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import MAX_INDEX
from kafka_compat.controller.commands import encode_command
from kafka_compat.controller.liveness import (
    AnswerHeartbeat,
    BrokerHeartbeat,
    ControllerElected,
    ControllerLiveness,
    ControllerResigned,
    HeartbeatConnectionClosed,
    LivenessDue,
    LivenessEvent,
    LivenessSettings,
)
from kafka_compat.protocol.apis.controller import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.net.connection import SocketConnection
from raft.net.errors import WireError
from raft.subscription import CommittedEntry, LeaderChanged

NEVER = float("inf")
OWN_CONNECTION = 0
"""Stands for the heartbeats of this process itself, which come by no connection."""


class ControllerNode:
    """Carries out the decisions of `ControllerLiveness`."""

    def __init__(self, context: Context, tell: Callable[[str, str], None]) -> None:
        settings = context.settings
        interval_s = settings.number("leader.imbalance.check.interval.seconds")
        self._context = context
        self._tell = tell
        self._liveness = ControllerLiveness(
            context.image,
            LivenessSettings(
                session_timeout=settings.seconds("broker.session.timeout.ms"),
                silence_timeout=context.silence_s,
                balance_interval=interval_s if settings.flag("auto.leader.rebalance.enable") else None,
                unclean_default=context.unclean_default,
                eligible=context.eligible,
            ),
            own=context.broker_id,
        )
        self._answers: dict[int, Callable[[BrokerHeartbeatResponse], None]] = {}
        self._last_token = 0
        self._connections: dict[SocketConnection[Any], int] = {}
        self._last_connection = OWN_CONNECTION
        self._leadership: LeaderChanged | None = None
        self._elected_at: int | None = None
        """The first entry of this node's leadership that is committed, until it is applied."""
        self.leads = False
        self.last_index: Callable[[], int] = lambda: MAX_INDEX
        """The index of the last entry in this node's log."""
        self.deadline = NEVER
        """The time at which `tick` is due."""

    # ---------------------------------------------------------------- the leadership of the raft group

    def leader_changed(self, news: LeaderChanged) -> bool:
        """Another node leads the group, or none. Returns True if this one has stopped being the controller by it."""
        was_controller = self.leads
        self._leadership, self._elected_at = news, None
        if was_controller:
            self.on_resigned()
        return was_controller

    def note_committed(self, entry: CommittedEntry) -> None:
        """Take note of an entry of the group's log."""
        leadership = self._leadership
        leads_group = leadership is not None and leadership.leader == self._context.broker_id
        if leads_group and not self.leads and leadership is not None and entry.term == leadership.term:
            self._elected_at = self._elected_at or entry.index

    @property
    def is_catching_up(self) -> bool:
        """True while this node leads, and has not applied everything from before its leadership."""
        return self._elected_at is not None

    def note_applied(self, index: int) -> bool:
        """All up to `index` is applied. Returns True if this node becomes the controller by it, lacking nothing."""
        if self._elected_at is None or index < self._elected_at:
            return False
        self._elected_at = None
        self.on_elected()
        return True

    # ---------------------------------------------------------------- events

    def on_elected(self) -> None:
        """Begin to act as the controller: this node leads, and has applied everything from before."""
        self.leads = True
        self._step(ControllerElected())

    def on_resigned(self) -> None:
        """Stop acting as the controller."""
        self.leads = False
        self._step(ControllerResigned())

    def heartbeat(
        self,
        connection: SocketConnection[Any] | None,
        request: BrokerHeartbeatRequest,
        done: Callable[[BrokerHeartbeatResponse], None],
    ) -> None:
        """Take a broker's heartbeat; with `connection` None it comes from this process.

        Raises `WireError` if the broker has applied what is not there.
        """
        if request.cluster_id != self._context.cluster_id:
            done(BrokerHeartbeatResponse(error_code=KafkaErrorCode.INVALID_REQUEST))
            return
        if self.leads and connection is not None and request.applied_index > self.last_index():
            raise WireError(f"broker {request.broker_id} has applied {request.applied_index}, which is not in the log")
        self._last_token += 1
        self._answers[self._last_token] = done
        self._step(
            BrokerHeartbeat(
                token=self._last_token,
                connection=OWN_CONNECTION if connection is None else self._number(connection),
                broker=request.broker_id,
                epoch=request.broker_epoch,
                applied_index=request.applied_index,
                wants_shutdown=request.wants_shutdown,
                silent=tuple(self._context.image.brokers.keys() & request.silent),
            )
        )

    def connection_closed(self, connection: SocketConnection[Any]) -> None:
        """Note that a connection has ended.

        If it carried heartbeats and the broker closed it, the broker's process has ended. A connection that this
        process closed, or that broke on its way, proves no end: its broker has the rest of its session.
        """
        number = self._connections.pop(connection, None)
        if number is not None and connection.ended_by_peer:
            self._step(HeartbeatConnectionClosed(number))

    def _number(self, connection: SocketConnection[Any]) -> int:
        number = self._connections.get(connection)
        if number is None:
            self._last_connection += 1
            number = self._connections[connection] = self._last_connection
        return number

    # ---------------------------------------------------------------- time

    def image_changed(self) -> None:
        """Note that other brokers may be in the image, whose silence counts."""
        due = self._liveness.deadline
        self.deadline = NEVER if due is None else due

    def tick(self, now: float) -> None:
        """To be called once a round."""
        if now >= self.deadline:
            self._step(LivenessDue(self._context.held_up()))

    def _step(self, event: LivenessEvent) -> None:
        for effect in self._liveness.step(self._context.clock(), event):
            if isinstance(effect, AnswerHeartbeat):
                self._answers.pop(effect.token)(
                    BrokerHeartbeatResponse(
                        error_code=effect.error,
                        is_caught_up=effect.is_caught_up,
                        is_fenced=effect.fenced,
                        should_shut_down=effect.should_shut_down,
                    )
                )
            else:
                self._tell(type(effect.command).__name__, effect.reason)
                self._context.controller.propose(encode_command(effect.command), lambda response: None)
        self.image_changed()
