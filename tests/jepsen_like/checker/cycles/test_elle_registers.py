"""The cases that Elle's tests of rw-register are about, as histories of ours: the verdicts agree, or the test tells why not."""

from pathlib import Path

import pytest

from jepsen_like.checker.cycles.levels import Level
from tests.jepsen_like.checker.cycles.histories import REGISTER, at_once, count_found, in_turn, judge_lines

RU, RC, SI = Level.READ_UNCOMMITTED, Level.READ_COMMITTED, Level.SNAPSHOT_ISOLATION
SER, STRICT = Level.SERIALIZABLE, Level.STRICT_SERIALIZABLE
SESSION = Level.STRONG_SESSION_SERIALIZABLE


@pytest.mark.parametrize(
    ("texts", "level", "found"),
    [
        (["wx1", "rx1", "ry_wy2rx1"], SER, {}),
        (["wx1!", "rx1"], RC, {"aborted_read": 1}),
        (["wx1wx2", "rx1", "wy1", "ry1"], RU, {}),
        (["wx1wx2", "rx1"], RC, {"intermediate_read": 1}),
        (["wx1wx2", "rx_", "rx2"], SER, {}),
        (["wx1ry1", "wy1rx1"], RU, {}),
        (["wx1ry1", "wy1rx1"], RC, {"g1c": 1}),
        (["wx1ry1", "wy1rx1"], SER, {"g1c": 1}),
        (["wx1", "wx2", "rx1rx2"], SER, {"internal": 1}),
        (["wx1", "rx1wx2rx1"], SER, {"internal": 1}),
        (["ry2wx1", "wy2", "wy3wx4rx4"], SER, {}),
        # The first state comes before all that was written.
        (["rx_ry1", "wy1wx2"], SER, {"g_single": 1}),
        # A transaction that reads 1 and writes 2 puts 2 behind 1. Elle assumes so on request (wfr-keys).
        (["ry1wx1wy2", "rx1ry1", "wy1"], SER, {"g_single": 1}),
        (["wx0", "rx0wx1", "rx0wx2"], SER, {"lost_update": 1, "g2": 1}),
        # Both read the first state of one register and write the other one.
        (["rx_wy2", "ry_wx2"], SI, {}),
        (["rx_wy2", "ry_wx2"], SER, {"g2": 1}),
    ],
)
def test_a_case_of_elles(texts: list[str], level: Level, found: dict[str, int], tmp_path: Path) -> None:
    assert count_found(tmp_path, at_once(*texts, model=REGISTER), level, REGISTER) == found


def test_write_skew_is_no_cycle_of_what_was_read(tmp_path: Path) -> None:
    texts = ["wx0wy0", "rx0ry0wx1", "rx0ry0wy1"]
    assert count_found(tmp_path, at_once(*texts, model=REGISTER), RC, REGISTER) == {}
    assert count_found(tmp_path, at_once(*texts, model=REGISTER), SER, REGISTER) == {"g2": 1}


@pytest.mark.parametrize(
    ("rows", "level", "found"),
    [
        # Elle does not find this one yet, as its test notes.
        ([(0, "wx1"), (0, "rx2")], STRICT, {"phantom": 1}),
        ([(0, "wx1"), (1, "wx2"), (2, "rx1")], SER, {}),
        ([(0, "wx1"), (1, "wx2"), (2, "rx1")], STRICT, {"cyclic_versions": 1}),
        ([(0, "wx1"), (0, "wx2"), (0, "rx1")], SESSION, {"cyclic_versions": 1}),
        ([(0, "wx1"), (1, "wx2"), (2, "rx2")], STRICT, {}),
    ],
)
def test_versions_follow_the_order_that_the_level_keeps(
    rows: list[tuple[int, str]], level: Level, found: dict[str, int], tmp_path: Path
) -> None:
    assert count_found(tmp_path, in_turn(*rows, model=REGISTER), level, REGISTER) == found


def test_a_cycle_of_writes_shows_once_their_order_does(tmp_path: Path) -> None:
    texts = ["wx1wy2", "wx2wy1"]
    assert judge_lines(tmp_path, at_once(*texts, model=REGISTER), RU, REGISTER).valid is None
    writes = at_once(*texts, model=REGISTER)
    reads = in_turn((0, "rx2"), (1, "ry2"), model=REGISTER)
    # Each process wrote one value of a register and read the other one afterwards.
    assert count_found(tmp_path, [*writes, *reads], SESSION, REGISTER) == {"g0": 1}
