"""The map of offsets: exact within a run, the end of the run before in a gap, and void where a topic was made again."""

from jepsen_like.mirror import offset_map
from jepsen_like.mirror.kept import KeptLink, Point, decode_links, encode_point, map_of
from jepsen_like.mirror.offset_map import OffsetMap, RecordRun

AT = ("t", 0)


def test_a_position_in_a_run_is_exact_and_one_between_runs_is_the_earlier_end() -> None:
    known = OffsetMap.of([RecordRun(20, 9, 2), RecordRun(10, 3, 4)])
    assert [known.translate(offset) for offset in (9, 10, 13, 14, 19, 20, 21, 22, 99)] == [0, 3, 6, 7, 7, 9, 10, 11, 11]


def test_runs_that_touch_on_both_sides_are_one() -> None:
    assert OffsetMap.of([RecordRun(0, 0, 2), RecordRun(2, 2, 2), RecordRun(4, 5, 1)]).runs == (
        RecordRun(0, 0, 4),
        RecordRun(4, 5, 1),
    )


def test_a_map_with_too_many_runs_gets_coarser_and_skips_nothing() -> None:
    known, count = OffsetMap(), offset_map.RUNS_MAX + 5
    for number in range(count):
        known.add(RecordRun(3 * number, 2 * number, 1))
    assert len(known.runs) < offset_map.RUNS_MAX
    assert known.runs[0] == RecordRun(0, 0, 1)
    assert all(known.translate(3 * number) <= 2 * number for number in range(0, count, 97))
    assert known.translate(3 * (count - 1)) == 2 * (count - 1)


def test_a_topic_that_was_made_again_voids_what_both_directions_knew_of_it() -> None:
    there, back = KeptLink(), KeptLink()
    there.points[AT] = [Point(1, 10, (RecordRun(0, 500, 10),))]
    back.points[AT] = [Point(3, 0, (RecordRun(0, 0, 0),), begins=True, is_fresh=True)]
    assert map_of(AT, there, back).runs == (RecordRun(0, 0, 0),)
    assert map_of(AT, back, there).translate(505) == 0


def test_many_runs_of_a_transaction_are_thinned_and_end_the_same() -> None:
    runs = tuple(RecordRun(2 * number, number, 1) for number in range(10_001))
    record = encode_point("l", AT, Point(1, 20_001, runs))
    (point,) = decode_links([record])["l"].points[AT]
    assert len(point.runs) < 2_010
    assert point.runs[-1] == runs[-1]
    known = OffsetMap.of(point.runs)
    assert all(known.translate(2 * number) <= number for number in range(0, 10_001, 13))
