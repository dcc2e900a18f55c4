"""Delayed messages: each is delivered once it is due, in the order of its level, and none is passed over."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketmq_compat.consumers.delays import (
    DEFAULT_LEVELS,
    RETRY_S,
    BadDelayLevels,
    DelayLevels,
    DelaySchedule,
    delivered_to,
)
from tests.examples import examples

LEVELS = DelayLevels.parse("1s 5s 1m")


def test_the_levels_are_rocketmqs() -> None:
    levels = DelayLevels.parse(DEFAULT_LEVELS)
    assert levels.highest == 18
    assert levels.delay_ms(1) == 1_000
    assert levels.delay_ms(3) == 10_000
    assert levels.delay_ms(5) == 60_000
    assert levels.delay_ms(17) == 3_600_000
    assert levels.delay_ms(18) == 7_200_000
    assert DelayLevels.parse("1d").delay_ms(1) == 86_400_000


@pytest.mark.parametrize("text", ["", "1", "s", "1x", "1s,5s", "-1s", "1.5s", "1s " * 2_000, "9999999999s", "١s"])
def test_a_list_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadDelayLevels, match="messageDelayLevel"):
        DelayLevels.parse(text)


def test_there_are_at_most_a_thousand_levels() -> None:
    assert DelayLevels.parse("1s " * 1_000).highest == 1_000
    with pytest.raises(BadDelayLevels):
        DelayLevels.parse("1s " * 1_001)


@pytest.mark.parametrize(("text", "level"), [("1", 1), ("003", 3), ("123456789", 3), ("1234567890", 0)])
def test_a_level_is_a_number_of_up_to_nine_digits(text: str, level: int) -> None:
    assert LEVELS.level_of({"DELAY": text}) == level
    real = delivered_to({"REAL_TOPIC": "T", "REAL_QID": text})
    assert (real is None) == (level == 0)


def test_a_delayed_message_waits_in_the_queue_of_its_level() -> None:
    place = LEVELS.place("T", 3, {"DELAY": "2", "TAGS": "A"})
    assert place is not None
    assert (place.topic, place.queue_id, place.level) == ("SCHEDULE_TOPIC_XXXX", 1, 2)
    assert place.properties == {"DELAY": "2", "TAGS": "A", "REAL_TOPIC": "T", "REAL_QID": "3"}
    assert delivered_to(place.properties) == ("T", 3, {"TAGS": "A", "REAL_TOPIC": "T", "REAL_QID": "3"})


def test_a_level_that_is_too_high_is_the_highest() -> None:
    place = LEVELS.place("T", 0, {"DELAY": "99"})
    assert place is not None
    assert place.level == 3
    assert place.properties["DELAY"] == "3"


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "99999999999", "²"])
def test_a_message_without_a_level_does_not_wait(text: str) -> None:
    assert LEVELS.place("T", 0, {"DELAY": text}) is None


@given(st.dictionaries(st.sampled_from(["REAL_TOPIC", "REAL_QID", "DELAY"]), st.text(max_size=12)))
def test_a_record_that_names_no_real_place_is_not_delivered_anywhere(properties: dict[str, str]) -> None:
    found = delivered_to(properties)
    assert found is None or (found[0] == properties["REAL_TOPIC"] and found[1] == int(properties["REAL_QID"]))


class DelayMachine(RuleBasedStateMachine):
    """`stored` has, for each level, when each of its messages was stored; `delivered` how many were."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_000
        self.stored: dict[int, list[int]] = {1: [], 2: [], 3: []}
        self.delivered = {1: 0, 2: 0, 3: 0}
        self.failed_until = {1: 0, 2: 0, 3: 0}
        self.schedule = DelaySchedule.starting_at(LEVELS, {})

    @rule(level=st.integers(1, 3), count=st.integers(1, 3))
    def store(self, level: int, count: int) -> None:
        self.stored[level] += [self.now_ms] * count
        self.schedule.bounds(level, 0, len(self.stored[level]))

    @rule()
    def look(self) -> None:
        for level, offset in self.schedule.to_look_at():
            assert offset == self.delivered[level]
            self.schedule.looked_at(self.now_ms, level, offset, self.stored[level][offset])

    @rule(passed_ms=st.sampled_from([100, 1_000, 5_000, 60_000]))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule(fails=st.booleans())
    def deliver(self, fails: bool) -> None:
        self.look()
        due = self.schedule.due(self.now_ms)
        expected = {
            (level, self.delivered[level])
            for level, stored in self.stored.items()
            if self.delivered[level] < len(stored)
            and self.now_ms >= max(stored[self.delivered[level]] + LEVELS.delay_ms(level), self.failed_until[level])
        }
        assert set(due) == expected
        for level, offset in due:
            self.schedule.on_started(level, offset)
        assert not self.schedule.due(self.now_ms)
        for level, offset in due:
            if fails:
                self.schedule.on_failed(self.now_ms, level, offset)
                self.failed_until[level] = self.now_ms + round(RETRY_S * 1000)
            else:
                self.schedule.on_delivered(level, offset)
                self.delivered[level] += 1
                self.failed_until[level] = 0

    @rule()
    def restart(self) -> None:
        self.schedule = DelaySchedule.starting_at(LEVELS, self.schedule.offsets)
        for level, stored in self.stored.items():
            self.schedule.bounds(level, 0, len(stored))
        self.failed_until = dict.fromkeys(self.failed_until, 0)

    @invariant()
    def its_deadline_is_that_of_the_first(self) -> None:
        self.look()
        waiting = [
            max(stored[self.delivered[level]] + LEVELS.delay_ms(level), self.failed_until[level])
            for level, stored in self.stored.items()
            if self.delivered[level] < len(stored)
        ]
        assert self.schedule.deadline_ms() == min(waiting, default=math.inf)
        assert self.schedule.offsets == self.delivered


TestDelayMachine = DelayMachine.TestCase
TestDelayMachine.settings = settings(max_examples=examples(36), stateful_step_count=30, deadline=None)


def test_the_deadline_follows_each_change() -> None:
    """It is kept between the rounds that ask for it."""
    schedule = DelaySchedule.starting_at(LEVELS, {})
    assert schedule.deadline_ms() == math.inf
    schedule.bounds(1, 0, 2)
    assert schedule.deadline_ms() == math.inf
    schedule.looked_at(100, 1, 0, 100)
    assert schedule.deadline_ms() == 1_100
    schedule.on_started(1, 0)
    assert schedule.deadline_ms() == math.inf
    schedule.on_failed(1_100, 1, 0)
    assert schedule.deadline_ms() == 1_100 + 1_000 * RETRY_S
    schedule.on_delivered(1, 0)
    assert schedule.deadline_ms() == math.inf
    schedule.looked_at(1_200, 1, 1, 200)
    assert schedule.deadline_ms() == 1_200
    schedule.bounds(1, 2, 2)
    assert schedule.deadline_ms() == math.inf


def test_messages_that_have_left_the_queue_are_passed_over_and_truncated_ones_come_again() -> None:
    schedule = DelaySchedule.starting_at(LEVELS, {1: 5})
    schedule.bounds(1, 7, 9)
    assert schedule.to_look_at() == [(1, 7)]
    schedule.on_delivered(1, 7)
    schedule.on_delivered(1, 8)
    schedule.bounds(1, 7, 8)
    assert schedule.offsets[1] == 8
    schedule.bounds(1, 7, 10)
    assert schedule.to_look_at() == [(1, 8)]


def test_a_clock_that_was_set_back_makes_no_message_wait_longer_than_its_level() -> None:
    schedule = DelaySchedule.starting_at(LEVELS, {})
    schedule.bounds(1, 0, 1)
    schedule.looked_at(1_000, 1, 0, stored_ms=500_000)
    assert schedule.due(1_000) == [(1, 0)]


def test_a_clock_that_is_set_back_while_a_message_waits_makes_it_wait_no_longer_than_its_level() -> None:
    schedule = DelaySchedule.starting_at(LEVELS, {})
    schedule.bounds(1, 0, 1)
    schedule.looked_at(9_000_000, 1, 0, stored_ms=9_000_000)
    assert schedule.due(9_000_500) == []
    assert schedule.due(1_000) == []
    assert schedule.deadline_ms() == 2_000
    assert schedule.due(2_000) == [(1, 0)]


def test_a_clock_that_is_set_back_makes_a_failed_delivery_wait_no_longer_than_its_pause() -> None:
    schedule = DelaySchedule.starting_at(LEVELS, {})
    schedule.bounds(1, 0, 1)
    schedule.looked_at(9_000_000, 1, 0, stored_ms=8_000_000)
    assert schedule.due(9_000_000) == [(1, 0)]
    schedule.on_started(1, 0)
    schedule.on_failed(9_000_000, 1, 0)
    assert schedule.due(1_000) == []
    assert schedule.due(1_000 + round(RETRY_S * 1000)) == [(1, 0)]
