"""A process registers until it is taken, and sends one heartbeat at a time, in haste when there is reason for it."""

from typing import Any

import pytest

from kafka_compat.broker.controller_link import CommandFailed
from kafka_compat.broker.registration import (
    FENCED_HEARTBEAT_S,
    REGISTRATION_RETRY_S,
    SHUTDOWN_HEARTBEAT_S,
    Registration,
)
from kafka_compat.broker.requests.groups import GroupApiRequests
from kafka_compat.controller.commands import Registered
from kafka_compat.model import OFFSETS_TOPIC
from kafka_compat.protocol.apis.controller import BrokerHeartbeatResponse
from kafka_compat.protocol.apis.offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchTopic
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import evolve
from tests.kafka_compat.broker.world import ask, world

INTERVAL_S = 2.0
SESSION_S = 9.0
NEVER = float("inf")
SERVED = BrokerHeartbeatResponse(error_code=0, is_caught_up=True, is_fenced=False, should_shut_down=False)
FENCED = evolve(SERVED, is_fenced=True)
MAY_END = evolve(SERVED, should_shut_down=True)


class Node:
    """Stands for a controller in another process."""

    leads = False


class Conversation:
    """One registration; what it sends is noted, and answered by the test."""

    def __init__(self, context: Any) -> None:
        self.now = 100.0
        self.commands: list[Any] = []
        self.beats: list[tuple[int, Any]] = []
        self.ended: list[float] = []
        self.told: list[str] = []
        self.is_ready = True
        self.silent: tuple[int, ...] = ()
        self.reported: list[tuple[int, ...]] = []
        self.context = context
        context.clock = lambda: self.now
        context.controller.send = lambda command, done: self.commands.append(done)
        context.controller.heartbeat = self.take_heartbeat
        self.registration = Registration(
            context,
            Node(),  # type: ignore[arg-type]
            incarnation=bytes(16),
            is_ready=lambda: self.is_ready,
            on_may_end=lambda: self.ended.append(self.now),
            tell=lambda event, **fields: self.told.append(event),
            silent=lambda: self.silent,
        )

    def take_heartbeat(self, epoch: int, applied: int, done: Any, *, silent: tuple[int, ...], **_: Any) -> None:
        self.beats.append((applied, done))
        self.reported.append(silent)

    def wait(self) -> float:
        """Go on to the next deadline, and tick. Returns the time that it took."""
        due = max(self.registration.deadline, self.now)
        assert due < NEVER, "nothing is due"
        passed, self.now = due - self.now, due
        self.registration.tick(self.now)
        return passed

    def register(self) -> None:
        self.wait()
        self.commands[-1](Registered(7))
        self.wait()

    def answer(self, response: BrokerHeartbeatResponse) -> None:
        self.beats[-1][1](response)


@pytest.fixture
def conversation() -> Any:
    with world("broker.heartbeat.interval.ms=2000", "broker.silence.timeout.ms=9000") as broker:
        yield Conversation(broker.context)


def test_a_refused_registration_is_tried_again_and_told_once(conversation: Conversation) -> None:
    conversation.wait()
    for _ in range(2):
        conversation.commands[-1](
            Registered(error=KafkaErrorCode.DUPLICATE_BROKER_REGISTRATION, message="another one lives")
        )
        assert conversation.wait() == pytest.approx(REGISTRATION_RETRY_S)
    conversation.commands[-1](CommandFailed("no controller", definite=True))
    assert conversation.wait() == pytest.approx(REGISTRATION_RETRY_S)
    assert (len(conversation.commands), conversation.told) == (4, ["registration_refused"])
    assert conversation.registration.deadline == NEVER, "the controller's answer comes first"
    assert conversation.beats == []


def test_the_next_heartbeat_follows_the_answer_after_the_interval(conversation: Conversation) -> None:
    conversation.register()
    conversation.now += 0.3
    conversation.answer(SERVED)
    assert conversation.wait() == pytest.approx(INTERVAL_S)
    assert len(conversation.beats) == 2


@pytest.mark.parametrize("response", [FENCED, BrokerHeartbeatResponse(error_code=KafkaErrorCode.STALE_BROKER_EPOCH)])
def test_a_broker_that_is_not_served_asks_again_soon(
    conversation: Conversation, response: BrokerHeartbeatResponse
) -> None:
    conversation.register()
    conversation.answer(response)
    assert conversation.wait() == pytest.approx(FENCED_HEARTBEAT_S)


def test_without_an_answer_the_next_heartbeat_follows_the_interval_and_a_late_answer_counts_for_nothing(
    conversation: Conversation,
) -> None:
    conversation.register()
    late = conversation.beats[-1][1]
    assert conversation.wait() == pytest.approx(INTERVAL_S)
    assert conversation.wait() == pytest.approx(FENCED_HEARTBEAT_S)
    late(MAY_END)
    assert len(conversation.beats) == 2
    assert conversation.registration.deadline == pytest.approx(conversation.now + INTERVAL_S)


def test_a_new_controller_is_asked_at_once(conversation: Conversation) -> None:
    conversation.register()
    conversation.registration.hurry()  # while the answer is awaited
    conversation.answer(SERVED)
    assert conversation.wait() == 0
    conversation.answer(SERVED)
    conversation.registration.hurry()
    assert conversation.wait() == 0
    assert len(conversation.beats) == 3


def test_who_has_doubts_to_report_has_applied_nothing(conversation: Conversation) -> None:
    conversation.is_ready = False
    conversation.register()
    assert conversation.beats[-1][0] == -1
    conversation.is_ready = True
    conversation.answer(FENCED)
    conversation.wait()
    assert conversation.beats[-1][0] >= 0


def test_a_shutdown_is_asked_for_often_until_there_is_leave(conversation: Conversation) -> None:
    conversation.register()
    conversation.answer(SERVED)
    conversation.registration.wants_shutdown = True
    conversation.registration.hurry()
    assert conversation.wait() == 0
    conversation.answer(SERVED)
    assert conversation.wait() == pytest.approx(SHUTDOWN_HEARTBEAT_S)
    assert conversation.ended == []
    conversation.answer(MAY_END)
    assert (conversation.ended, conversation.registration.deadline) == ([conversation.now], NEVER)


def test_a_process_registers_again_if_an_earlier_one_was_registered_after_it(conversation: Conversation) -> None:
    """It has not seen its own registration yet: from then on it would end instead."""
    conversation.context.broker_epoch = -1
    conversation.wait()
    conversation.commands[-1](Registered(7))
    conversation.context.image.brokers[1] = evolve(conversation.context.image.brokers[1], epoch=8, fenced=True)
    conversation.wait()
    assert (len(conversation.commands), len(conversation.beats)) == (2, 0)
    conversation.commands[-1](Registered(9))
    conversation.wait()
    assert (len(conversation.commands), len(conversation.beats)) == (2, 1)


def test_leadership_is_confirmed_for_a_session_from_the_heartbeat_that_was_answered(conversation: Conversation) -> None:
    conversation.register()
    sent = conversation.now
    conversation.now += 0.3
    conversation.answer(SERVED)
    conversation.now = sent + SESSION_S
    assert conversation.context.is_confirmed()
    conversation.now += 0.001
    assert not conversation.context.is_confirmed()


@pytest.mark.parametrize("response", [FENCED, BrokerHeartbeatResponse(error_code=KafkaErrorCode.STALE_BROKER_EPOCH)])
def test_leadership_is_not_confirmed_once_the_broker_is_fenced_or_stood_still(
    conversation: Conversation, response: BrokerHeartbeatResponse
) -> None:
    conversation.register()
    conversation.answer(response)
    assert not conversation.context.is_confirmed()
    conversation.wait()
    conversation.answer(SERVED)
    assert conversation.context.is_confirmed()
    conversation.registration.resume()
    assert not conversation.context.is_confirmed()


def test_an_unconfirmed_coordinator_gives_transactions_no_positions() -> None:
    """They would go on from a commit that another coordinator has replaced."""
    with world() as made:
        made.topic(OFFSETS_TOPIC)
        made.pump()
        made.coordinators.groups.pump(made.now)
        groups = GroupApiRequests(made.context, made.coordinators.groups, None)  # type: ignore[arg-type]
        topics = (OffsetFetchTopic(name="t", partition_indexes=(0,)),)
        plain = OffsetFetchRequest(group_id="g", topics=topics)
        stable = evolve(plain, require_stable=True)
        for request, confirmed_until, error in (
            (stable, made.now, KafkaErrorCode.NONE),
            (stable, made.now - 1, KafkaErrorCode.NOT_COORDINATOR),
            (plain, made.now - 1, KafkaErrorCode.NONE),
        ):
            made.context.controller.confirmed_until = confirmed_until
            asked = ask(groups.offset_fetch, OFFSET_FETCH, 7, request)
            assert asked.answer.error_code == error


def test_heartbeats_come_three_times_in_the_time_after_which_a_leader_is_missed() -> None:
    with world("broker.heartbeat.interval.ms=2000", "broker.silence.timeout.ms=3000") as broker:
        conversation = Conversation(broker.context)
        conversation.register()
        sent = conversation.now
        conversation.answer(SERVED)
        assert conversation.wait() == pytest.approx(1.0)
        conversation.now = sent + 2.0
        assert conversation.context.is_confirmed(), "no controller fences it within 2 s"
        conversation.now += 0.001
        assert not conversation.context.is_confirmed()


def test_news_of_a_silent_leader_waits_for_no_answer(conversation: Conversation) -> None:
    """The controller that owes the answer may be the silent one."""
    conversation.register()
    unanswered = conversation.beats[-1][1]
    conversation.now += 0.5
    conversation.silent = (3,)
    conversation.registration.report()
    assert conversation.wait() == 0
    assert conversation.reported == [(), (3,)]
    unanswered(FENCED)
    assert conversation.context.controller.confirmed_until == NEVER, "a late answer counts for nothing"
