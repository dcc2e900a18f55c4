"""The checker agrees with the definition of linearizability, and its witnesses prove what they claim."""

import pytest

from jepsen_like.checker.verdict import Model
from tests.jepsen_like.checker.differential import SEEDS_APART, all_compared, compare_histories, maps_compared
from tests.jepsen_like.checker.elements.element_differential import TRUTHS

HISTORIES = 600
OF_MAPS = 60


@pytest.mark.timeout(600)
def test_small_histories_agree_with_the_definition() -> None:
    tallies = all_compared(HISTORIES, seed=1, processes=1)
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
    together = all_compared(100, seed=7, processes=2)
    assert together == {
        model: compare_histories(model, tally.histories, 7 * SEEDS_APART) for model, tally in together.items()
    }
    assert together[Model.LOG] != compare_histories(Model.LOG, together[Model.LOG].histories, 8 * SEEDS_APART)


def test_what_is_read_from_operation_maps_agrees_with_the_definitions() -> None:
    for model, tally in maps_compared(TRUTHS, OF_MAPS, seed=1, processes=1).items():
        assert tally.histories == OF_MAPS
        assert tally.differences == (), model
        assert tally.undecided == 0
        assert 0.2 <= tally.invalid / OF_MAPS <= 0.6, model
        assert tally.unknown / OF_MAPS > 0.25, model
        assert tally.repeated / OF_MAPS > 0.15, model
