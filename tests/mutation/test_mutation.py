"""The mutator makes the changes that it names, every known equivalent still fits, and a mutation is noticed where it was put."""

import pytest

from tests.mutation import trial
from tests.mutation.__main__ import Score, equivalents, mutations_of
from tests.mutation.modules import SUBJECTS, Subject, by_module
from tests.mutation.mutator import mutations
from tests.mutation.trial import End, Outcome

SOURCE = '''
LIMIT = 3

def most(values, floor=1):
    """Not "left" alone, nor 7."""
    assert len(values) < 9, "too many"
    best = max(values) + 1
    if best >= floor and not values[0]:
        return best
    return None
'''


def test_each_mutation_changes_one_place() -> None:
    made = {(each.before, each.after) for each in mutations("module", SOURCE)}
    assert ("LIMIT = 3", "LIMIT = (4)") in made
    assert ("best = max(values) + 1", "best = min(values) + 1") in made
    assert ("best = max(values) + 1", "best = ((max(values)) - (1))") in made
    assert ("if best >= floor and not values[0]:", "if (best > floor) and not values[0]:") in made
    assert ("return best", "return None") in made
    assert ("def most(values, floor=1):", "def most(values, floor=(2)):") in made
    assert not any("assert" in before or "Not" in before for before, _ in made)


def test_what_happens_at_import_is_not_in_a_body() -> None:
    in_body = {each.before: each.is_in_body for each in mutations("module", SOURCE)}
    assert not in_body["LIMIT = 3"]
    assert not in_body["def most(values, floor=1):"]
    assert in_body["return best"]


def test_only_named_functions_are_mutated() -> None:
    made = mutations("module", SOURCE + "\ndef other():\n    return 5\n", ["other"])
    assert {each.before for each in made} == {"return 5"}


@pytest.mark.campaign
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.module)
def test_every_mutation_compiles_and_every_named_function_is_there(subject: Subject) -> None:
    made = mutations_of(subject)
    for mutation in made:
        compile(mutation.source, mutation.module, "exec")
    named = set(subject.functions)
    assert named <= {each.function for each in made}


def test_every_known_equivalent_still_fits_the_source() -> None:
    made = {module: mutations_of(by_module(module)) for module in {each.module for each in equivalents()}}
    for each in equivalents():
        assert each.reason
        assert any(each.is_(mutation) for mutation in made[each.module]), each


@pytest.mark.campaign
def test_a_mutation_is_noticed_and_the_source_as_it_stands_is_not() -> None:
    subject = by_module("quorum")
    assert trial.warm_up(subject) is None
    wrong = next(each for each in mutations_of(subject) if "// 2" in each.before and "- " in each.after)
    (found,) = trial.outcomes([(subject, wrong)], jobs=1)
    assert found.end is End.KILLED


def test_a_score_is_of_what_is_not_equivalent() -> None:
    first, second = mutations("module", SOURCE)[:2]
    score = Score("module")
    score.add(Outcome(first, End.KILLED, 0.1), ())
    score.add(Outcome(second, End.SURVIVED, 0.1), ())
    assert score.share == 0.5
