"""What a rule of retention lets go, and what it keeps."""

import pytest

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


def test_a_segment_of_unknown_age_stays() -> None:
    assert Retention(age_ms_max=0).first_index([SegmentFacts(1, 9, None), *SEGMENTS], now_ms=10_000) == 1


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
