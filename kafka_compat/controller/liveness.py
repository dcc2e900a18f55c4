"""Decides which brokers are alive, at the leader of the raft group alone, and proposes to fence or unfence them.

The log holds the consequences of heartbeats, never the heartbeats. Brokers send them to every other broker, not to the
controller alone, so that a new controller knows which of them ended before its election. All others get one full
session from that moment, as it may have been too busy to read. The decider reads the image of its own machine and never
changes it. A proposal takes effect when its command comes back through the log, and is repeated until then.

Rules (BrokerHeartbeatManager of KRaft):

- A broker that has applied its own registration is unfenced.
- A broker that is silent for a session is fenced.
- A broker that shuts down first gives up its leaderships and ISRs. It may end once it leads no partition and all active
  brokers have applied that.
- Two rules are ours. A broker whose heartbeat connection ends is fenced without waiting for the session, since the
  connections of a killed process close at once.
- A leader is fenced before its session ends if it is missed: it is silent here for `silence_timeout`, and every broker
  that follows it in sync has reported since that its fetches hang. So a late heartbeat alone fences no one, and neither
  does a broken link, as two brokers at least have to miss it. A new controller waits until no answer of the one before
  confirms the leader any more (`confirmed_s`).
"""

import math
from typing import assert_never

from attrs import define, field

from kafka_compat.controller.commands import (
    BeginShutdown,
    Command,
    ElectionType,
    ElectLeaders,
    FenceBroker,
    UnfenceBroker,
)
from kafka_compat.controller.image import ClusterImage
from kafka_compat.controller.reasons import BROKER, MISSED
from kafka_compat.model import BrokerRegistration
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen

ELECTIONS_MAX = 1_000
"""Partitions in one preferred election of the rebalance (MAX_ELECTIONS_PER_IMBALANCE)."""
UNKNOWN_INDEX = -1


@frozen
class LivenessSettings:
    """Times are in seconds."""

    session_timeout: float = 9.0
    """broker.session.timeout.ms."""
    silence_timeout: float = 3.0
    """broker.silence.timeout.ms."""
    retry_interval: float = 1.0
    """After so long a proposal that has had no effect is made again."""
    fence_on_close: bool = True
    """If true, the end of its connection fences a broker at once."""
    balance_interval: float | None = 300.0
    """leader.imbalance.check.interval.seconds; None disables balancing, as without auto.leader.rebalance.enable."""
    unclean_default: bool = False
    """unclean.leader.election.enable of the controller, which the commands carry."""
    eligible: bool = True
    """eligible.leader.replicas.version of the controller is 1, which the commands carry."""


def confirmed_s(session_timeout: float, silence_timeout: float) -> float:
    """Returns how long, in seconds, an answered heartbeat confirms a broker: no controller fences it earlier."""
    return silence_timeout * 2 / 3 if silence_timeout < session_timeout else session_timeout


# -------------------------------------------------------------------- events


@frozen
class ControllerElected:
    """This node leads the raft group, and its machine has applied everything from before."""


@frozen
class ControllerResigned:
    """This node no longer leads, and proposes nothing until it leads again. It still notes heartbeats."""


@frozen
class BrokerHeartbeat:
    """A broker reports that it is alive. Answered at once by `AnswerHeartbeat` with the same token."""

    token: int
    connection: int
    """The connection that it came by: any number, unique among open connections."""
    broker: int
    epoch: int
    applied_index: int
    """The index of the last command its machine has applied."""
    wants_fence: bool = False
    """It is not ready to serve yet."""
    wants_shutdown: bool = False
    silent: tuple[int, ...] = ()
    """The leaders that leave its fetches unanswered."""


@frozen
class HeartbeatConnectionClosed:
    """A connection by which heartbeats came has ended."""

    connection: int


@frozen
class LivenessDue:
    """Time passed; due when `ControllerLiveness.deadline` is reached, harmless at any other time."""

    held_up_at: float = -math.inf
    """The time at which this process was held up last: it may not have read all that came before."""


LivenessEvent = ControllerElected | ControllerResigned | BrokerHeartbeat | HeartbeatConnectionClosed | LivenessDue

# -------------------------------------------------------------------- effects


@frozen
class AnswerHeartbeat:
    """The answer to a heartbeat. NOT_CONTROLLER, BROKER_ID_NOT_REGISTERED and STALE_BROKER_EPOCH are the errors."""

    token: int
    error: KafkaErrorCode = KafkaErrorCode.NONE
    fenced: bool = True
    should_shut_down: bool = False
    """The controlled shutdown is complete: the process may end."""
    is_caught_up: bool = False
    """True if it has applied as much as this controller."""


@frozen
class ProposeCommand:
    """Propose this command to the raft group. The outcome is read from the image; a failure needs no report."""

    command: Command
    reason: str
    """For people."""


LivenessEffect = AnswerHeartbeat | ProposeCommand

# -------------------------------------------------------------------- the decider


@define
class _Contact:
    """The knowledge of one broker process, from its heartbeats."""

    epoch: int
    time: float
    connection: int | None = None
    applied_index: int = UNKNOWN_INDEX
    silent: tuple[int, ...] = ()
    closed: bool = False
    """True once its connection has ended, which stands for the end of its session."""
    heard: float = field(init=False)
    """The time of its last heartbeat, while `time` is when its session began."""

    def __attrs_post_init__(self) -> None:
        self.heard = self.time


@frozen
class _Proposal:
    command: Command
    time: float


@define
class ControllerLiveness:
    """The decider. `image` belongs to the machine on this node; the caller updates it before each step."""

    image: ClusterImage
    settings: LivenessSettings = field(factory=LivenessSettings)
    own: int | None = None
    """The broker of this node."""
    _controller: bool = False
    _elected_at: float = -math.inf
    _held_up_at: float = -math.inf
    _contacts: dict[int, _Contact] = field(factory=dict)
    _proposals: dict[int, _Proposal] = field(factory=dict)
    """The last proposal for each broker."""
    _shutdowns: dict[int, tuple[int, int]] = field(factory=dict)
    """By broker that shuts down, its epoch and an index at which it led nothing and was in no ISR with others."""
    _next_balance: float | None = None

    @property
    def deadline(self) -> float | None:
        """The time at which `LivenessDue` is due next, or None without a deadline."""
        if not self._controller:
            return None
        due = self._next_balance
        brokers = self.image.brokers
        for broker, contact in self._contacts.items():
            known = brokers.get(broker)
            if known is not None and not known.fenced and known.epoch == contact.epoch:
                time = self._fence_time(contact, broker)
                due = time if due is None else min(due, time)
        return due

    def step(self, now: float, event: LivenessEvent) -> list[LivenessEffect]:
        """Returns the effects of `event`, in order. `now` is in seconds and never falls."""
        match event:
            case ControllerElected():
                self._begin(now)
                return []
            case ControllerResigned():
                self._end()
                return []
            case BrokerHeartbeat():
                return self._heartbeat(now, event)
            case HeartbeatConnectionClosed():
                return self._on_closed(now, event.connection)
            case LivenessDue():
                self._held_up_at = event.held_up_at
                return self._due(now)
            case _:
                assert_never(event)

    def _begin(self, now: float) -> None:
        self._end()
        self._controller = True
        self._elected_at = now
        before, self._contacts = self._contacts, {}
        for broker in self.image.brokers.values():
            if broker.fenced:
                continue
            known = before.get(broker.id)
            if known is None or known.epoch != broker.epoch:
                known = _Contact(broker.epoch, now)
            elif not known.closed:
                known.time = now
            self._contacts[broker.id] = known
        if self.settings.balance_interval is not None:
            self._next_balance = now + self.settings.balance_interval

    def _end(self) -> None:
        self._controller = False
        self._next_balance = None
        for held in (self._proposals, self._shutdowns):
            held.clear()

    # ---------------------------------------------------------------- heartbeats

    def _heartbeat(self, now: float, heartbeat: BrokerHeartbeat) -> list[LivenessEffect]:
        contact = _Contact(heartbeat.epoch, now, heartbeat.connection, heartbeat.applied_index, heartbeat.silent)
        if not self._controller:
            self._contacts[heartbeat.broker] = contact
            return [AnswerHeartbeat(heartbeat.token, KafkaErrorCode.NOT_CONTROLLER)]
        registration = self.image.brokers.get(heartbeat.broker)
        if registration is None:
            return [AnswerHeartbeat(heartbeat.token, KafkaErrorCode.BROKER_ID_NOT_REGISTERED)]
        if registration.epoch != heartbeat.epoch:
            return [AnswerHeartbeat(heartbeat.token, KafkaErrorCode.STALE_BROKER_EPOCH)]
        self._contacts[heartbeat.broker] = contact
        command, reason, shut_down = self._decide_command(registration, heartbeat)
        answer = AnswerHeartbeat(
            heartbeat.token,
            fenced=registration.fenced,
            should_shut_down=shut_down,
            is_caught_up=heartbeat.applied_index >= self.image.index,
        )
        proposed = self._propose(now, heartbeat.broker, command, reason) if command is not None else []
        return [*proposed, answer]

    def _decide_command(
        self, registration: BrokerRegistration, heartbeat: BrokerHeartbeat
    ) -> tuple[Command | None, str, bool]:
        """Returns the command that this heartbeat calls for with its reason, and whether the process may end."""
        broker, epoch, unclean = registration.id, registration.epoch, self.settings.unclean_default
        eligible = self.settings.eligible
        if registration.fenced:
            if heartbeat.wants_shutdown:
                return None, "", True
            if heartbeat.wants_fence or registration.shutting_down or heartbeat.applied_index < epoch:
                return None, "", False
            return UnfenceBroker(broker, epoch, unclean), "it has applied its registration", False
        if heartbeat.wants_shutdown:
            if registration.shutting_down:
                ended = self._shutdown_complete(registration)
            else:
                ended = heartbeat.wants_fence or self.image.leaderships(broker) == 0
            if ended:
                return FenceBroker(broker, epoch, unclean, eligible), "its controlled shutdown is complete", True
            if not registration.shutting_down:
                return BeginShutdown(broker, epoch, unclean, eligible), "it wants to shut down", False
        elif heartbeat.wants_fence:
            return FenceBroker(broker, epoch, unclean, eligible), "it wants to be fenced", False
        return None, "", False

    def _shutdown_complete(self, registration: BrokerRegistration) -> bool:
        """Returns True if a broker leads no partition any more, and all active brokers have learned the new leaders."""
        epoch, index = self._shutdowns.get(registration.id, (UNKNOWN_INDEX, UNKNOWN_INDEX))
        if epoch != registration.epoch:
            # The command was applied at this index or before.
            index = self.image.index
            self._shutdowns[registration.id] = registration.epoch, index
        return self.image.leaderships(registration.id) == 0 and index <= self._lowest_active_index()

    def _lowest_active_index(self) -> float:
        return min(
            (self._applied_by(broker) for broker in self.image.brokers.values() if broker.active), default=float("inf")
        )

    def _applied_by(self, registration: BrokerRegistration) -> int:
        contact = self._contacts.get(registration.id)
        return contact.applied_index if contact is not None and contact.epoch == registration.epoch else UNKNOWN_INDEX

    # ---------------------------------------------------------------- silence and time

    def _on_closed(self, now: float, connection: int) -> list[LivenessEffect]:
        effects: list[LivenessEffect] = []
        for broker, contact in sorted(self._contacts.items()):
            if contact.connection != connection:
                continue
            contact.connection = None
            if self.settings.fence_on_close:
                # As if its session had expired, so that the proposal is repeated until it has its effect.
                contact.time = min(contact.time, now - self.settings.session_timeout)
                contact.closed = True
                if self._controller and self._serving(broker):
                    effects += self._fence(now, broker, contact)
        return effects

    def _due(self, now: float) -> list[LivenessEffect]:
        if not self._controller:
            return []
        effects: list[LivenessEffect] = []
        for broker, registration in sorted(self.image.brokers.items()):
            contact = self._contacts.get(broker)
            if registration.fenced:
                continue
            if contact is None or contact.epoch != registration.epoch:
                self._contacts[broker] = _Contact(registration.epoch, now)
            elif self._fence_time(contact, broker) <= now:
                effects += self._fence(now, broker, contact)
        return effects + self._balance(now)

    def _serving(self, broker: int) -> bool:
        """Returns True if the heartbeats of a broker come from the process that is registered and not fenced."""
        registration = self.image.brokers.get(broker)
        return (
            registration is not None and not registration.fenced and registration.epoch == self._contacts[broker].epoch
        )

    def _fence_time(self, contact: _Contact, broker: int) -> float:
        """Returns the time at which to propose to fence a broker, if it stays silent."""
        expired = contact.time + self.settings.session_timeout
        if self._is_missed(contact, broker):
            expired = min(expired, self._missed_at(contact))
        proposal = self._proposals.get(broker)
        if (
            proposal is not None
            and isinstance(proposal.command, FenceBroker)
            and proposal.command.epoch == contact.epoch
        ):
            return max(expired, proposal.time + self.settings.retry_interval)
        return expired

    def _is_missed(self, contact: _Contact, broker: int) -> bool:
        """Returns True if all that follow a leader in sync have reported its silence since its last heartbeat here.

        Not if this node's broker alone follows it: what one broker sees may be due to its link.
        """
        if self.settings.silence_timeout >= self.settings.session_timeout:
            return False
        if not any(broker in each.silent for each in self._contacts.values()):
            return False
        followers = self.image.followers(broker)
        return bool(followers - {self.own}) and all(
            (witness := self._contacts.get(follower)) is not None
            and broker in witness.silent
            and witness.heard > contact.heard
            for follower in followers
        )

    def _missed_at(self, contact: _Contact) -> float:
        """Returns the time at which a leader that is missed has been silent for long enough."""
        session, silence = self.settings.session_timeout, self.settings.silence_timeout
        return max(max(contact.heard, self._held_up_at) + silence, self._elected_at + confirmed_s(session, silence))

    def _fence(self, now: float, broker: int, contact: _Contact) -> list[LivenessEffect]:
        command = FenceBroker(broker, contact.epoch, self.settings.unclean_default, self.settings.eligible)
        if contact.closed:
            reason = "its connection has ended"
        elif now < contact.time + self.settings.session_timeout:
            reason = MISSED
        else:
            reason = f"no heartbeat for {self.settings.session_timeout:g} s"
        return self._propose(now, broker, command, reason)

    def _propose(self, now: float, broker: int, command: Command, reason: str) -> list[LivenessEffect]:
        """Propose a command, unless it is the one that was proposed last, a short time ago."""
        last = self._proposals.get(broker)
        if last is not None and last.command == command and now < last.time + self.settings.retry_interval:
            return []
        self._proposals[broker] = _Proposal(command, now)
        return [ProposeCommand(command, f"{BROKER}{broker}: {reason}")]

    def _balance(self, now: float) -> list[LivenessEffect]:
        if self._next_balance is None or now < self._next_balance:
            return []
        assert self.settings.balance_interval is not None
        partitions = self.image.balanceable()
        more = len(partitions) > ELECTIONS_MAX
        self._next_balance = now + (self.settings.retry_interval if more else self.settings.balance_interval)
        if not partitions:
            return []
        command = ElectLeaders(ElectionType.PREFERRED, tuple(partitions[:ELECTIONS_MAX]))
        return [ProposeCommand(command, f"{len(partitions)} partitions are not led by their preferred replica")]
