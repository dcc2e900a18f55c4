"""Pulls that wait: each is answered once, by the first message that it wants or at its deadline, and never later."""

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketmq_compat.consumers.subscriptions import parse_subscription
from rocketmq_compat.consumers.waiting import HeldPull, HeldPulls
from rocketmq_compat.record_layout import java_hash
from tests.examples import examples

QUEUES = st.tuples(st.sampled_from(["T", "U"]), st.integers(0, 1))
EXPRESSIONS = st.sampled_from(["*", "A", "A || B"])
HELD_MAX = 6


class WaitingMachine(RuleBasedStateMachine):
    """`held` has the pulls that should be there; `ends` where each queue ends."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.tokens = 0
        self.pulls = HeldPulls(held_max=HELD_MAX, queue_held_max=4)
        self.held: dict[int, HeldPull] = {}
        self.ends: dict[tuple[str, int], int] = {}

    @rule(queue=QUEUES, ahead=st.integers(0, 2), wait_s=st.integers(1, 20), expression=EXPRESSIONS)
    def hold(self, queue: tuple[str, int], ahead: int, wait_s: int, expression: str) -> None:
        self.tokens += 1
        pull = HeldPull(
            self.tokens,
            queue,
            self.ends.get(queue, 0) + ahead,
            self.now + wait_s,
            parse_subscription(queue[0], expression),
        )
        room = len(self.held) < HELD_MAX and sum(each.queue == queue for each in self.held.values()) < 4
        assert self.pulls.hold(pull) == room
        if room:
            self.held[pull.token] = pull

    @rule(queue=QUEUES, tags=st.lists(st.sampled_from(["A", "B", "C", None]), min_size=1, max_size=3))
    def arrive(self, queue: tuple[str, int], tags: list[str | None]) -> None:
        self.ends[queue] = end = self.ends.get(queue, 0) + len(tags)
        hashes = [0 if tag is None else java_hash(tag) for tag in tags]
        woken = self.pulls.on_arrived(queue, end, hashes)
        expected = {
            token: pull
            for token, pull in self.held.items()
            if pull.queue == queue and pull.offset < end and any(map(pull.subscription.matches, tags))
        }
        assert {pull.token: pull for pull in woken} == expected
        self.held = {token: pull for token, pull in self.held.items() if token not in expected}

    @rule(seconds=st.integers(1, 10))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        expired = self.pulls.expire(self.now)
        assert [pull.deadline for pull in expired] == sorted(pull.deadline for pull in expired)
        assert {pull.token for pull in expired} == {t for t, pull in self.held.items() if pull.deadline <= self.now}
        self.held = {token: pull for token, pull in self.held.items() if pull.deadline > self.now}

    @rule(token=st.integers(1, 30))
    def forget(self, token: int) -> None:
        self.pulls.forget(token)
        self.held.pop(token, None)

    @invariant()
    def none_is_lost(self) -> None:
        assert len(self.pulls) == len(self.held)
        assert self.pulls.deadline <= min((pull.deadline for pull in self.held.values()), default=math.inf)


TestWaitingMachine = WaitingMachine.TestCase
TestWaitingMachine.settings = settings(max_examples=examples(48), stateful_step_count=30, deadline=None)


def test_pulls_are_bounded_for_each_queue_and_for_all() -> None:
    pulls = HeldPulls(held_max=3, queue_held_max=2)
    wants_all = parse_subscription("T", "*")
    queues = [("T", 0), ("T", 0), ("T", 0), ("T", 1), ("T", 2)]
    held = [pulls.hold(HeldPull(token, queue, 0, 1.0, wants_all)) for token, queue in enumerate(queues)]
    assert held == [True, True, False, True, False]


def test_pulls_that_are_woken_leave_no_growing_trace() -> None:
    pulls = HeldPulls()
    wants_all = parse_subscription("T", "*")
    for token in range(1_000):
        assert pulls.hold(HeldPull(token, ("T", 0), token, 100.0, wants_all))
        assert len(pulls.on_arrived(("T", 0), token + 1, [0])) == 1
    assert len(pulls._deadlines) < 100


@pytest.mark.parametrize("others", [10, 10_000])
def test_an_arrival_looks_at_the_pulls_of_its_queue_alone(others: int) -> None:
    pulls = HeldPulls()
    wants_all = parse_subscription("T", "*")
    looked_at: list[int] = []

    class Watched(HeldPull):
        @property
        def offset(self) -> int:
            looked_at.append(self.token)
            return 0

        @offset.setter
        def offset(self, value: int) -> None:
            pass

    for token in range(others):
        assert pulls.hold(Watched(token, ("U", token), 0, 100.0, wants_all))
    assert pulls.hold(HeldPull(others, ("T", 0), 0, 100.0, wants_all))
    assert [pull.token for pull in pulls.on_arrived(("T", 0), 1, [0])] == [others]
    assert not looked_at
