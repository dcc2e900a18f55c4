"""The checker agrees with the definition of linearizability, and its witnesses prove what they claim."""

import pytest

from jepsen_like.checker.verdict import Model
from tests.jepsen_like.checker.differential import all_compared

HISTORIES = 10_000


@pytest.mark.timeout(600)
def test_small_histories_agree_with_the_definition() -> None:
    tallies = all_compared(HISTORIES, seed=1, processes=2)
    assert sum(tally.histories for tally in tallies.values()) == HISTORIES
    for model, tally in tallies.items():
        assert tally.differences == (), model
        assert tally.undecided == 0
        assert 0.3 <= tally.invalid / tally.histories <= 0.7
        assert tally.overlapping / tally.histories > 0.5
        assert tally.unknown / tally.histories > 0.25
        assert tally.repeated / tally.histories > 0.2
        assert tally.witnesses > HISTORIES / 100


def test_a_seed_gives_the_same_histories_again() -> None:
    assert all_compared(200, seed=7, processes=1) == all_compared(200, seed=7, processes=2)
    assert all_compared(200, seed=7, processes=1)[Model.LOG] != all_compared(200, seed=8, processes=1)[Model.LOG]
