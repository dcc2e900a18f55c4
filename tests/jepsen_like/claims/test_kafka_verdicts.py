"""Each verdict of Kafka's experiments hangs on its figures: those of a real run are accepted, and a wrong one changes what is said."""

import json
import math
from pathlib import Path

import pytest

from jepsen_like.claims import registry
from jepsen_like.claims.catalogue import catalogue
from jepsen_like.claims.experiment import Experiment
from jepsen_like.claims.experiments import kafka_controller, kafka_layout
from jepsen_like.claims.experiments.kafka_wrong_answers import rejections
from jepsen_like.claims.judgement import Bound, Expect, Figure, Part, Value, judge

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in registry.EXPERIMENTS
    if ".kafka_" in one.conduct.__module__ or one.name == "equal-to-dledger"
}
MEASURED: dict[str, dict[str, Value]] = {
    name: {figure: math.inf if value == "never" else value for figure, value in figures.items()}
    for name, figures in json.loads(Path(__file__).with_name("kafka_figures.json").read_text()).items()
}
"""The figures of one run on a quiet machine."""
EXPECTATIONS = [
    (experiment.name, claim, expectation)
    for experiment in EXPERIMENTS.values()
    for expectation in experiment.expects
    if expectation.part is not Part.PRICE
    for claim in expectation.claims
]


def gather(claim: str, planted: dict[str, Value] | None = None) -> tuple[list[Expect], dict[str, Figure]]:
    """A claim's expectations and figures of all experiments, apart by name; `planted` stands in place of what was measured."""
    expectations, figures = [], {}
    for name, experiment in EXPERIMENTS.items():
        own = [one for one in experiment.expects if claim in one.claims]
        for one in own:
            key = f"{name}/{one.figure}"
            value = MEASURED[name][one.figure]
            figures[key] = Figure(name=key, value=(planted or {}).get(key, value))
            expectations.append(
                Expect(claims=one.claims, figure=key, bound=one.bound, part=one.part, condition=one.condition)
            )
    return expectations, figures


def wrong_for(bound: Bound) -> Value:
    """A value outside of a bound."""
    if bound.text is not None:
        return f"not {bound.text}"
    return bound.low - 1 if bound.low > -math.inf else bound.high + 1


def test_every_figure_that_is_expected_was_measured() -> None:
    for name, experiment in EXPERIMENTS.items():
        assert {one.figure for one in experiment.expects} <= MEASURED[name].keys()


@pytest.mark.parametrize("claim", sorted({claim for _, claim, _ in EXPECTATIONS}))
def test_the_figures_of_a_real_run_give_the_expected_verdict(claim: str) -> None:
    judgement = judge(*gather(claim))
    missed = [(one.figure.name, one.figure.value) for one in judgement.judged if not one.is_met]
    assert judgement.verdict in catalogue()[claim].expected, (judgement.verdict, missed)


@pytest.mark.parametrize(("name", "claim", "expectation"), EXPECTATIONS)
def test_a_wrong_figure_changes_what_is_said(name: str, claim: str, expectation: Expect) -> None:
    right = judge(*gather(claim))
    wrong: Value = wrong_for(expectation.bound)
    if not expectation.bound.is_met(
        MEASURED[name][expectation.figure]
    ):  # of a claim that is false: plant that it is true
        bound = expectation.bound
        wrong = bound.text if bound.text is not None else bound.low if bound.low > -math.inf else bound.high
    planted = judge(*gather(claim, {f"{name}/{expectation.figure}": wrong}))
    assert planted.verdict is not right.verdict or planted.condition != right.condition, (
        f"{wrong!r} is taken like the figure"
    )


# -------------------------------------------------------------------- what figures are made of


@pytest.mark.parametrize(
    ("assignment", "in_sync", "dead", "leads"),
    [((2, 1, 3), (1, 2, 3), 2, 1), ((2, 3, 1), (1, 2), 2, 1), ((3, 1, 2), (3,), 3, -1), ((1, 2, 3), (2, 1, 3), 3, 1)],
)
def test_the_first_in_the_order_of_the_assignment_leads(
    assignment: tuple[int, ...], in_sync: tuple[int, ...], dead: int, leads: int
) -> None:
    assert kafka_layout.first_in_sync(assignment, in_sync, dead) == leads


def test_inversions_are_places_at_which_a_smaller_value_follows() -> None:
    assert kafka_layout.inversions([1, 2, 5, 3, 4, 1]) == 2
    assert kafka_layout.inversions([1, 2, 3]) == 0


def test_the_spread_counts_brokers_that_hold_nothing() -> None:
    assert kafka_layout.spread_of({0: (1, 2), 1: (2, 1)}, (1, 2, 3)) == 2
    assert kafka_layout.spread_of({0: (1, 2), 1: (3, 1), 2: (2, 3)}, (1, 2, 3)) == 0


def test_the_two_recipes_of_an_election_choose_by_other_things() -> None:
    assert kafka_controller.by_sequence([3, 1, 2], dead=3) == 1
    assert kafka_controller.by_first_creator([(0.2, 1), (0.1, 2), (0.0, 3)], dead=3) == 2
    assert kafka_controller.share_of_differences(1, 5, 500) == pytest.approx(0.75, abs=0.08)


@pytest.mark.parametrize(
    ("with_one_dead", "with_two_dead", "lost", "reasons"),
    [
        (10, 10, 0, ()),
        (0, 0, 0, ("one death stops it",)),
        (10, 0, 0, ("two deaths stop it",)),
        (10, 10, 3, ("it loses 3 acknowledged records",)),
        (10, 0, 3, ("two deaths stop it", "it loses 3 acknowledged records")),
    ],
)
def test_settings_are_rejected_by_what_they_did(
    with_one_dead: int, with_two_dead: int, lost: int, reasons: tuple[str, ...]
) -> None:
    assert rejections(with_one_dead, with_two_dead, lost) == reasons
