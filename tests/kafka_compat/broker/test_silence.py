"""A follower that waits too long for its leader's answer reports it, and takes it back; a process held up accuses no one."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from kafka_compat.broker.fetcher import FetchPosition
from kafka_compat.broker.following import Following
from kafka_compat.model import TopicPartition
from kafka_compat.protocol.apis.fetch import FetchResponse
from raft.net.running_clock import PULSE_S, RunningClock
from tests.kafka_compat.broker.test_fetcher import ID, SESSION, Leader
from tests.kafka_compat.broker.world import world

WAIT_S = 0.5
"""replica.fetch.wait.max.ms"""
PATIENCE_S = 2.0
PARTITION = TopicPartition("t", 0)


@attrs.define
class Follower:
    """Broker 1, which follows broker 2."""

    context: Any
    following: Following
    leader: Leader
    news: list[tuple[int, ...]] = attrs.field(factory=list)

    def pass_time(self, seconds: float) -> None:
        self.context.now += seconds
        self.following.pump(self.context.now)


@pytest.fixture
def follower() -> Iterator[Follower]:
    with world() as made:
        leader, context = Leader(), made.context
        following = Following(context, {2: leader}, lambda: SimpleNamespace(hosted={}))  # type: ignore[arg-type, return-value]
        follower = Follower(made, following, leader)
        following.on_silence = lambda: follower.news.append(following.silent)
        following.fetch(2, PARTITION, FetchPosition(ID, 0, 0, -1, 0))
        following.pump(made.now)
        yield follower


def test_a_follower_reports_an_overdue_answer_once_and_takes_it_back(follower: Follower) -> None:
    assert follower.following.deadline == pytest.approx(follower.context.now + WAIT_S + PATIENCE_S)
    follower.pass_time(WAIT_S + PATIENCE_S - 0.001)
    assert follower.news == []
    follower.pass_time(0.001)
    assert follower.news == [(2,)]
    assert follower.following.deadline == float("inf"), "there is nothing more to report"
    follower.pass_time(5)
    assert follower.news == [(2,)]
    follower.leader.waiting.pop(0)[1](FetchResponse(session_id=SESSION, responses=()))
    follower.pass_time(0)
    assert follower.news == [(2,), ()]


def test_who_was_held_up_waits_anew(follower: Follower) -> None:
    follower.context.now += WAIT_S + PATIENCE_S
    held_up_at = follower.context.now
    follower.context.context.held_up = lambda: held_up_at
    follower.pass_time(0)
    assert (follower.news, follower.following.deadline) == ([], held_up_at + PATIENCE_S)
    follower.pass_time(PATIENCE_S)
    assert follower.news == [(2,)]


@pytest.mark.parametrize(("late_s", "is_held_up"), [(0.2, False), (0.3, True), (5.0, True)])
def test_a_clock_that_is_read_late_was_held_up(late_s: float, is_held_up: bool) -> None:
    now = 10.0
    clock = RunningClock(lambda: now)
    now += PULSE_S + late_s
    reading = clock()
    assert clock.held_up_at == (reading if is_held_up else float("-inf"))
