"""A rule of retention trims what it names and keeps the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.retention import Retention, SegmentFacts
from tests.log.frames import SMALL, frame, memory_disk, open_log

SEGMENTS = [
    SegmentFacts(1, 100, 1_000),
    SegmentFacts(11, 100, 5_000),
    SegmentFacts(21, 100, 3_000),
    SegmentFacts(31, 40, 9_000),
]


@pytest.mark.parametrize(
    ("rule", "first_index"),
    [
        pytest.param(Retention(), 1, id="no bound"),
        pytest.param(Retention(bytes_max=340), 1, id="all of it fits"),
        pytest.param(Retention(bytes_max=241), 1, id="the others alone are too few"),
        pytest.param(Retention(bytes_max=240), 11, id="the others are just enough"),
        pytest.param(Retention(bytes_max=0), 31, id="the last always stays"),
        pytest.param(Retention(age_ms_max=10_000), 1, id="nothing is old"),
        pytest.param(Retention(age_ms_max=8_999), 11, id="the first is old"),
        pytest.param(Retention(age_ms_max=6_000), 11, id="an older one behind a younger one waits for it"),
        pytest.param(Retention(age_ms_max=0), 31, id="everything is old"),
        pytest.param(Retention(bytes_max=240, age_ms_max=4_999), 31, id="the stricter one decides"),
    ],
)
def test_segments_leave_oldest_first_while_a_bound_is_exceeded(rule: Retention, first_index: int) -> None:
    assert rule.first_index(SEGMENTS, now_ms=10_000) == first_index


@pytest.mark.parametrize("stamp", [None, 10**15])
def test_a_segment_without_a_stamp_or_with_one_of_the_future_stops_nothing(stamp: int | None) -> None:
    odd = SegmentFacts(1, 9, stamp)
    rule = Retention(age_ms_max=5_000)
    assert rule.first_index([odd, SegmentFacts(2, 9, 1_000), *SEGMENTS[3:]], now_ms=10_000) == 31
    assert rule.first_index([odd, SegmentFacts(2, 9, 6_000), *SEGMENTS[3:]], now_ms=10_000) == 1
    assert rule.first_index([odd, SegmentFacts(2, 9, None), SegmentFacts(3, 9, 0)], now_ms=10_000) == 1


SIZES_AND_STAMPS = st.tuples(st.integers(0, 5), st.none() | st.integers(0, 12))


@given(
    drawn=st.lists(SIZES_AND_STAMPS, min_size=1, max_size=8),
    bytes_max=st.none() | st.integers(0, 20),
    age_ms_max=st.none() | st.integers(0, 8),
)
def test_the_rule_is_what_it_says(
    drawn: list[tuple[int, int | None]], bytes_max: int | None, age_ms_max: int | None
) -> None:
    """The first segment stays that is neither dispensable nor old, by its own timestamp or else by the next valid one."""
    now_ms = 10
    segments = [SegmentFacts(first, size, newest_ms) for first, (size, newest_ms) in enumerate(drawn, start=1)]

    def is_dispensable(at: int) -> bool:
        return bytes_max is not None and sum(each.size_bytes for each in segments[at + 1 :]) >= bytes_max

    def is_old(at: int) -> bool:
        stamps = [each.newest_ms for each in segments[at:-1] if each.newest_ms is not None and each.newest_ms <= now_ms]
        return age_ms_max is not None and bool(stamps) and now_ms - stamps[0] > age_ms_max

    stays = [at for at in range(len(segments) - 1) if not is_dispensable(at) and not is_old(at)]
    rule = Retention(bytes_max=bytes_max, age_ms_max=age_ms_max)
    assert rule.first_index(segments, now_ms) == segments[min(stays, default=-1)].first_index


@pytest.mark.parametrize("wrong", [{"bytes_max": -1}, {"age_ms_max": -1}])
def test_bounds_below_nothing_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be >= 0"):
        Retention(**wrong)


def test_a_log_tells_the_facts_of_its_segments_before_and_after_a_restart() -> None:
    disk = memory_disk()
    log = open_log(disk)
    for index in range(1, 100):
        log.append([frame(index, payload=bytes(200))])
    log.flush()
    facts = log.segment_facts()
    assert [each.newest_ms for each in facts] == [5] * len(facts)
    assert facts[0] == SegmentFacts(1, 4200, 5)
    assert log.trim(Retention(bytes_max=SMALL.segment_bytes_max).first_index(facts, 0)) == facts[-2].first_index
    facts = log.segment_facts()
    log.close()
    assert open_log(disk).segment_facts() == facts
