"""Registers this process as a broker, then sends its heartbeats until the controller lets it end.

One heartbeat is under way at a time. The next follows a pause after its answer, or after the interval without one. The
pause is short while the controller has not unfenced this broker, and while it wants to shut down; news of another
controller end it.
"""

from collections.abc import Callable

from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import CommandFailed
from kafka_compat.broker.controller_node import ControllerNode
from kafka_compat.broker.reporter import Tell
from kafka_compat.controller.commands import CommandResult, RegisterBroker, Registered
from kafka_compat.controller.liveness import confirmed_s
from kafka_compat.model import NO_EPOCH
from kafka_compat.protocol.apis.controller import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kafka_compat.protocol.error_codes import KafkaErrorCode

REGISTRATION_RETRY_S = 0.05
FENCED_HEARTBEAT_S = 0.02
"""Between heartbeats until the controller has unfenced this broker."""
SHUTDOWN_HEARTBEAT_S = 0.02
BEATS_IN_SILENCE = 3
"""Heartbeats in the time after which a leader is missed, at least: one may be late, or lost with its connection."""
NEVER = float("inf")


class Registration:
    """The registration of one process, named by `incarnation`. `tick` is to be called once a round."""

    def __init__(
        self,
        context: Context,
        node: ControllerNode,
        *,
        incarnation: bytes,
        is_ready: Callable[[], bool],
        on_may_end: Callable[[], None],
        tell: Tell,
        silent: Callable[[], tuple[int, ...]] = tuple,
    ) -> None:
        """`is_ready` returns True once the controller knows which logs may lack something: only then this broker may be
        unfenced. `on_may_end` is called when the controller consents to the shutdown. `silent` returns the leaders that leave
        this broker's fetches unanswered.
        """
        self.incarnation = incarnation
        self.wants_shutdown = False
        self._context = context
        self._node = node
        self._is_ready = is_ready
        self._on_may_end = on_may_end
        self._tell = tell
        self._silent = silent
        self.deadline = 0.0
        """The time of the next registration, the next heartbeat, or the end of the wait for an answer."""
        self._registered = self._refusal_told = self._ended = False
        self._epoch = NO_EPOCH
        """The epoch of the registration, as the controller answered it."""
        self._beats = 0
        self._awaits_answer = self._hurries = False

    def tick(self, now: float) -> None:
        """Send what is due."""
        while self.deadline <= now:
            if not self._registered:
                self._register()
            elif self._awaits_answer:
                self._pause(None)
            elif self._is_superseded:
                self._register()
            else:
                self._beat(now)

    def resume(self) -> None:
        """Take note that this process stood still: its session may have ended meanwhile, until a heartbeat is answered."""
        if self._registered:
            self._context.controller.confirmed_until = -NEVER
        self.hurry()

    def hurry(self) -> None:
        """Send the next heartbeat with the answer to the present one: a new controller, or a wish to shut down."""
        self._hurries = True
        if self._registered and not self._awaits_answer and not self._ended:
            self.deadline = 0.0

    def report(self) -> None:
        """Send a heartbeat now, whether the one before is answered or not: it names the silent leaders."""
        if self._registered and not self._ended:
            self._awaits_answer = False
            self.deadline = 0.0

    # ---------------------------------------------------------------- registration

    @property
    def _is_superseded(self) -> bool:
        """True if an earlier process was registered late, before this broker has seen its own registration."""
        own = self._context.image.brokers.get(self._context.broker_id)
        return self._context.broker_epoch < 0 and own is not None and own.epoch > self._epoch

    def _register(self) -> None:
        context = self._context
        self._registered = False
        host, port = context.address
        command = RegisterBroker(
            context.broker_id,
            self.incarnation,
            host,
            port,
            context.settings.text("broker.rack"),
            context.unclean_default,
            context.eligible,
            context.endpoints,
        )
        self.deadline = NEVER
        context.controller.send(command, self._on_registered)

    def _on_registered(self, result: CommandResult | CommandFailed) -> None:
        if isinstance(result, Registered) and result.error is KafkaErrorCode.NONE:
            self._registered, self._epoch = True, result.epoch
            self.deadline = 0.0
            return
        if not self._refusal_told and isinstance(result, Registered):
            self._refusal_told = True
            self._tell("registration_refused", reason=result.message)
        self.deadline = self._context.clock() + REGISTRATION_RETRY_S

    # ---------------------------------------------------------------- heartbeats

    @property
    def _interval_s(self) -> float:
        settings, silence_s = self._context.settings, self._context.silence_s
        interval_s = settings.seconds("broker.heartbeat.interval.ms")
        if silence_s >= settings.seconds("broker.session.timeout.ms"):
            return interval_s
        return min(interval_s, silence_s / BEATS_IN_SILENCE)

    def _beat(self, now: float) -> None:
        """Report to all brokers that this one is alive.

        The connection stays open while an answer is late: closing it would fence this broker.
        """
        context = self._context
        # Who has applied nothing is not unfenced.
        applied = context.image.index if self._is_ready() else -1
        self._beats += 1
        number, silent = self._beats, self._silent()
        self._awaits_answer, self._hurries = True, False
        self.deadline = now + self._interval_s

        def on_answer(answer: BrokerHeartbeatResponse) -> None:
            if self._awaits_answer and self._beats == number:
                self._confirm(answer, now)
                self._pause(answer)

        context.controller.heartbeat(
            context.broker_epoch,
            applied,
            on_answer,
            wants_shutdown=self.wants_shutdown,
            silent=silent,
            timeout_s=context.settings.seconds("broker.session.timeout.ms"),
        )
        if self._node.leads:
            own = BrokerHeartbeatRequest(
                cluster_id=context.cluster_id,
                broker_id=context.broker_id,
                broker_epoch=context.broker_epoch,
                applied_index=applied,
                wants_shutdown=self.wants_shutdown,
                silent=silent,
            )
            self._node.heartbeat(None, own, on_answer)

    def _confirm(self, answer: BrokerHeartbeatResponse, sent: float) -> None:
        """Learn from the answer to a heartbeat how long no other broker takes over what this one leads."""
        is_served = not answer.error_code and not answer.is_fenced
        session_s = self._context.settings.seconds("broker.session.timeout.ms")
        surely_s = confirmed_s(session_s, self._context.silence_s)
        self._context.controller.confirmed_until = sent + surely_s if is_served else -NEVER

    def _pause(self, answer: BrokerHeartbeatResponse | None) -> None:
        """Wait before the next heartbeat; `answer` is None if there was none in time."""
        self._awaits_answer = False
        pause_s = self._interval_s
        if answer is None or answer.error_code or answer.is_fenced:
            pause_s = min(FENCED_HEARTBEAT_S, pause_s)
        if self.wants_shutdown:
            pause_s = SHUTDOWN_HEARTBEAT_S
            if answer is not None and not answer.error_code and answer.should_shut_down:
                self._ended = True
                self.deadline = NEVER
                self._on_may_end()
                return
        self.deadline = 0.0 if self._hurries else self._context.clock() + pause_s
