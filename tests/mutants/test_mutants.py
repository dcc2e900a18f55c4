"""Deliberate bugs are killed by oracles: the quick ones here, all of them by `python -m tests.mutants run --happy`."""

import pytest

from tests.mutants.__main__ import search_mutant, stays_green, try_mutant
from tests.mutants.catalogue import ALL, by_name
from tests.mutants.mutant import LINES_MAX, Mutant, MutantMisplaced

pytestmark = pytest.mark.simulation

QUICK = ["votes-twice", "checker-ignores-time", "kafka-acknowledges-at-once", "rocketmq-no-epochs-compared"]
QUICK_SEEDS = 120


@pytest.mark.parametrize("name", QUICK)
def test_an_oracle_kills_the_bug(name: str) -> None:
    verdict = try_mutant(by_name(name), QUICK_SEEDS)
    assert verdict.killed_by is not None, f"{name} survived {verdict.tried} seeds"
    assert verdict.killed_by in verdict.mutant.oracles or verdict.killed_by[0] in "IAB", verdict


@pytest.mark.campaign
@pytest.mark.parametrize("mutant", [mutant for mutant in ALL if mutant.explored], ids=lambda mutant: mutant.name)
def test_the_exhaustive_search_finds_the_bug_in_its_first_scope(mutant: Mutant) -> None:
    seen = search_mutant(mutant)
    assert seen.sentence is not None, f"{mutant.name} survived {seen.states} states"
    assert not seen.sentence.startswith("invariant"), seen


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["ack-before-fsync", "checker-ignores-time"])
def test_the_happy_path_stays_green_with_the_bug_in_place(name: str) -> None:
    assert stays_green(by_name(name))


def test_every_bug_still_fits_the_source_and_is_small() -> None:
    for mutant in ALL:
        source = mutant.path.read_text()
        changed = mutant.apply(source)
        assert changed != source, mutant.name
        compile(changed, mutant.name, "exec")
        assert mutant.lines_changed() <= LINES_MAX, mutant.name


def test_a_bug_whose_place_has_moved_is_an_error() -> None:
    mutant = ALL[0]
    with pytest.raises(MutantMisplaced, match="0 times"):
        mutant.apply("something else")


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in ALL}) == len(ALL)
