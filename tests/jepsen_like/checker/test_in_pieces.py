"""Registers checked piece by piece are judged as those checked as a whole are, and so is one of any size."""

import pytest

from tests.jepsen_like.checker.in_pieces import all_compared

HISTORIES = 120


@pytest.mark.timeout(300)
def test_registers_in_pieces_are_judged_as_whole_ones() -> None:
    tally = all_compared(HISTORIES, seed=1, processes=2)
    assert tally.differences == ()
    assert tally.undecided == 0
    assert 0.3 <= tally.violated / HISTORIES <= 0.7
    assert tally.witnesses > HISTORIES / 4
