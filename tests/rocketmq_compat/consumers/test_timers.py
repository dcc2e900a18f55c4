"""Timer messages: each is delivered at its time, in any order of arrival, and the schedule's lasting state
skips none.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketmq_compat.consumers.delays import RETRY_S, DelayLevels, delivered_to
from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.consumers.timers import (
    UNDER_WAY_MAX,
    WAITING_MAX,
    TimerRule,
    TimerSchedule,
    TimerState,
    due_ms_of,
    waiting_place,
)
from rocketmq_compat.remoting.codes import ResponseCode
from tests.examples import examples

NOW = 1_000_000
DAY_MS = 24 * 3600 * 1000
RULE = TimerRule(is_enabled=True, delay_ms_max=3 * DAY_MS)


def place_message(
    properties: dict[str, str], *, waiting: int = 0, rule: TimerRule = RULE
) -> tuple[str, int | None] | None:
    place = waiting_place(DelayLevels.parse("1s 5s"), rule, NOW, "T", 3, properties, waiting=waiting)
    return None if place is None else (place.topic, due_ms_of(place.properties))


@pytest.mark.parametrize(
    ("properties", "due_ms"),
    [
        ({"TIMER_DELAY_MS": "6000"}, NOW + 6000),
        ({"TIMER_DELAY_SEC": "6"}, NOW + 6000),
        ({"TIMER_DELIVER_MS": str(NOW + 1)}, NOW + 1),
        ({"TIMER_DELAY_MS": "5", "TIMER_DELAY_SEC": "7"}, NOW + 7000),
        ({"TIMER_DELIVER_MS": str(NOW + 9), "TIMER_DELAY_MS": "+5"}, NOW + 5),
        ({"TIMER_DELAY_MS": str(3 * DAY_MS)}, NOW + 3 * DAY_MS),
    ],
)
def test_a_message_with_a_time_waits_in_the_timer_topic(properties: dict[str, str], due_ms: int) -> None:
    assert place_message(properties) == ("rmq_sys_wheel_timer", due_ms)


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"TIMER_DELAY_MS": "0"},
        {"TIMER_DELAY_SEC": "-5"},
        {"TIMER_DELIVER_MS": str(NOW)},
        {"TIMER_DELIVER_MS": "-9000000000000000000"},
        {"TIMER_DELAY_MS": "5000", "TIMER_OUT_MS": "17"},
    ],
)
def test_a_message_that_is_due_or_has_waited_does_not_wait(properties: dict[str, str]) -> None:
    assert place_message(properties) is None


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"TIMER_DELAY_MS": str(3 * DAY_MS + 1)}, ResponseCode.MESSAGE_ILLEGAL),
        ({"TIMER_DELIVER_MS": "9" * 19}, ResponseCode.MESSAGE_ILLEGAL),
        *(
            ({"TIMER_DELAY_SEC": text}, ResponseCode.MESSAGE_ILLEGAL)
            for text in ("", "soon", "1.5", "٣", "9" * 20, " 7", "1_000")
        ),
        ({"TIMER_DEL_UNIQKEY": "k", "TIMER_DELAY_MS": "5"}, ResponseCode.MESSAGE_ILLEGAL),
        ({"TIMER_DEL_UNIQKEY": "k"}, ResponseCode.MESSAGE_ILLEGAL),
    ],
)
def test_a_time_that_cannot_be_kept_is_refused(properties: dict[str, str], code: ResponseCode) -> None:
    with pytest.raises(RequestRefused) as refused:
        place_message(properties)
    assert refused.value.code == code


def test_timers_are_refused_when_they_are_disabled_and_when_too_many_wait() -> None:
    with pytest.raises(RequestRefused, match="timerWheelEnable is false"):
        place_message({"TIMER_DELAY_MS": "5"}, rule=TimerRule(is_enabled=False, delay_ms_max=5))
    with pytest.raises(RequestRefused, match="flow control"):
        place_message({"TIMER_DELAY_MS": "5"}, waiting=WAITING_MAX)
    assert place_message({"TIMER_DELAY_MS": "5"}, waiting=WAITING_MAX - 1) is not None


def test_a_delay_level_comes_before_a_time() -> None:
    place = waiting_place(
        DelayLevels.parse("1s 5s"), RULE, NOW, "T", 3, {"DELAY": "2", "TIMER_DELAY_MS": "5", "TAGS": "A"}, waiting=0
    )
    assert place is not None
    assert (place.topic, place.queue_id) == ("SCHEDULE_TOPIC_XXXX", 1)
    assert delivered_to(place.properties) == ("T", 3, {"TAGS": "A", "REAL_TOPIC": "T", "REAL_QID": "3"})


def test_what_is_delivered_names_its_time_so_that_it_does_not_wait_again_when_it_is_sent_back() -> None:
    place = waiting_place(DelayLevels.parse("1s"), RULE, NOW, "T", 3, {"TIMER_DELAY_MS": "5"}, waiting=0)
    assert place is not None
    real = delivered_to(place.properties)
    assert real is not None
    assert real[:2] == ("T", 3)
    assert place_message(dict(real[2])) is None


def test_the_state_lasts_among_the_offsets_of_levels() -> None:
    state = TimerState(5, 7, 3)
    assert TimerState.among({1: 9, 18: 4, **state.as_offsets()}) == state
    assert not TimerState().as_offsets()
    assert TimerState.among({1: 9, -1: -4}) == TimerState()


def read_all(schedule: TimerSchedule, times: list[int]) -> None:
    while (offset := schedule.to_read()) is not None:
        schedule.read(offset, times[offset])


def test_the_state_stands_still_until_all_of_the_queue_was_read() -> None:
    schedule = TimerSchedule.starting_at(TimerState(), 0, 2)
    schedule.read(0, 10)
    assert schedule.take_due(50) == [0]
    schedule.on_delivered(0)
    assert schedule.decide() == TimerState(), "message 1 may have been due before"
    schedule.read(1, 5)
    assert schedule.decide() == TimerState(4, 2, 1)
    assert schedule.take_due(50) == [1]
    schedule.on_delivered(1)
    assert schedule.decide() == TimerState(10, 2, 2)


def test_a_message_that_comes_after_its_time_is_delivered_and_lost_by_no_crash() -> None:
    schedule = TimerSchedule.starting_at(TimerState(100, 1, 1), 0, 1)
    schedule.bounds(0, 2)
    read_all(schedule, [0, 50])
    assert schedule.take_due(200) == [1]
    assert schedule.decide() == TimerState(100, 1, 1), "not decided before it is stored"
    again = TimerSchedule.starting_at(schedule.decide(), 0, 2)
    read_all(again, [0, 50])
    assert again.take_due(200) == [1]
    again.on_delivered(1)
    assert again.decide() == TimerState(100, 2, 2)


def test_messages_that_have_left_are_passed_over_and_cut_ones_come_again() -> None:
    schedule = TimerSchedule.starting_at(TimerState(), 0, 4)
    read_all(schedule, [10, 20, 30, 40])
    schedule.bounds(2, 4)
    assert schedule.take_due(100) == [2, 3]
    schedule.bounds(2, 3)
    schedule.on_delivered(3)
    schedule.on_delivered(2)
    schedule.bounds(2, 4)
    read_all(schedule, [0, 0, 0, 15])
    assert schedule.take_due(100) == [3], "another message has this offset now"


def test_so_many_are_under_way_at_most_and_one_that_failed_comes_again_later() -> None:
    schedule = TimerSchedule.starting_at(TimerState(), 0, UNDER_WAY_MAX + 1)
    read_all(schedule, [10] * (UNDER_WAY_MAX + 1))
    assert len(schedule.take_due(10)) == UNDER_WAY_MAX
    assert not schedule.take_due(10)
    assert schedule.deadline_ms() == float("inf")
    schedule.on_failed(10, 0)
    assert schedule.deadline_ms() == 10 + RETRY_S * 1000
    assert schedule.take_due(round(10 + RETRY_S * 1000)) == [0]
    schedule.on_delivered(1)
    assert schedule.take_due(10) == [UNDER_WAY_MAX]


class TimerMachine(RuleBasedStateMachine):
    """`times` has the due time of each message of the queue, `given` its number of deliveries; crashes go back to a
    lasting state.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1000
        self.times: list[int] = []
        self.given: list[int] = []
        self.kept = TimerState()
        self.decided: set[int] = set()
        self.schedule = TimerSchedule.starting_at(self.kept, 0, 0)

    @rule(delays=st.lists(st.integers(-50, 400), min_size=1, max_size=5))
    def store(self, delays: list[int]) -> None:
        self.times += [self.now_ms + delay for delay in delays]
        self.given += [0] * len(delays)
        self.schedule.bounds(0, len(self.times))

    @rule(count=st.integers(1, 4))
    def read(self, count: int) -> None:
        for _ in range(count):
            offset = self.schedule.to_read()
            if offset is not None:
                self.schedule.read(offset, self.times[offset])

    @rule(passed_ms=st.integers(0, 200))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        taken = self.schedule.take_due(self.now_ms)
        for offset in data.draw(st.permutations(taken)):
            assert self.times[offset] <= self.now_ms, "never before its time"
            assert offset not in self.decided, "never again once that is decided"
            if data.draw(st.booleans()):
                self.given[offset] += 1
                self.schedule.on_delivered(offset)
            else:
                self.schedule.on_failed(self.now_ms - round(RETRY_S * 1000), offset)

    @rule()
    def keep(self) -> None:
        before, self.kept = self.kept, self.schedule.decide()
        assert self.kept.decided_ms >= before.decided_ms
        assert self.kept.waits_from >= before.waits_from
        self.decided = {
            offset
            for offset, due_ms in enumerate(self.times)
            if offset < self.kept.waits_from or (offset < self.kept.decided_end and due_ms <= self.kept.decided_ms)
        }

    @rule()
    def crash(self) -> None:
        self.schedule = TimerSchedule.starting_at(self.kept, 0, len(self.times))

    @invariant()
    def what_is_decided_was_delivered(self) -> None:
        assert all(self.given[offset] for offset in self.decided)

    def teardown(self) -> None:
        self.now_ms = max([self.now_ms, *self.times])
        read_all(self.schedule, self.times)
        while taken := self.schedule.take_due(self.now_ms):
            for offset in taken:
                self.given[offset] += 1
                self.schedule.on_delivered(offset)
        assert all(self.given)
        state = self.schedule.decide()
        assert self.schedule.waits_from is None or state.waits_from == self.kept.waits_from


TestTimerMachine = TimerMachine.TestCase
TestTimerMachine.settings = settings(max_examples=examples(90), stateful_step_count=40, deadline=None)
