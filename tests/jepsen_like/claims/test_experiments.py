"""Experiments read the right figures of runs, and their faults hit whom they are to hit."""

import itertools
import random
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.verdict import Engine
from jepsen_like.claims.experiment import ClaimDesk, DidNotRun, DoneRun, Experiment, aim
from jepsen_like.claims.experiments.modes import WAYS_SHOWN, ModeFigures, count_best
from jepsen_like.claims.experiments.raft_elections import count_overlaps, count_shared_terms
from jepsen_like.claims.experiments.raft_zones import zone_of
from jepsen_like.claims.registry import EXPERIMENTS
from jepsen_like.history.files import UnreadableHistory
from jepsen_like.nemesis.targets import processes
from jepsen_like.nemesis.zones import ZoneDown
from jepsen_like.record.results import RecoveryTimes, RunResults
from jepsen_like.run.command import validate
from jepsen_like.run.exercise import RunPlan
from jepsen_like.run.matrix_plan import WAYS


def role(node: int, at_s: float, name: str, term: int = 1) -> dict[str, Any]:
    return {"node": node, "at_s": at_s, "role": name, "term": term}


@pytest.mark.parametrize("of", [2, 3, 5])
def test_an_aimed_fault_hits_exactly_the_nodes_it_names(of: int) -> None:
    everyone = range(1, of + 1)
    for size in {1, of, of - (of - 1) // 2}:
        for nodes in itertools.combinations(everyone, size):
            fault = aim(1, "kill", 1.0, 1.0, nodes, of)
            assert sorted(processes(fault.rng(), fault.target, everyone, 1)) == list(nodes)


def test_no_target_means_three_of_four_but_one() -> None:
    with pytest.raises(ValueError, match="no target means 4 of 5"):
        aim(1, "kill", 1.0, 1.0, [1, 2, 3, 4], 5)


@pytest.mark.parametrize("node", [1, 2, 3])
def test_the_zone_of_a_node_is_the_one_that_goes_down(node: int) -> None:
    fault = zone_of(node)
    assert ZoneDown().select(random.Random(fault.seed), fault.target, [1, 2, 3], 1).nodes == (node,)


def test_two_leaders_of_one_term_are_counted() -> None:
    apart = [role(1, 0.0, "leader", 1), role(2, 1.0, "leader", 2)]
    assert count_shared_terms(apart) == 0
    assert count_shared_terms([*apart, role(3, 2.0, "leader", 2)]) == 1


def test_leaders_overlap_until_the_first_reports_that_it_leads_no_more() -> None:
    follows = [role(1, 0.0, "leader", 1), role(1, 0.5, "follower", 1), role(2, 1.0, "leader", 2)]
    assert count_overlaps(follows) == 0
    late = [role(1, 0.0, "leader", 1), role(1, 1.5, "follower", 1), role(2, 1.0, "leader", 2)]
    assert count_overlaps(late) == 1


def row(rate_s: float, away_s: float, lost: int, system: str = "one") -> ModeFigures:
    return ModeFigures(system=system, rate_s=rate_s, away_s=away_s, lost=lost)


@pytest.mark.parametrize(
    ("rows", "best"),
    [
        ([row(900, 8.0, 0), row(300, 2.0, 0)], 0),
        ([row(900, 2.0, 5), row(300, 2.0, 0)], 0),
        ([row(900, 2.0, 0), row(300, 2.0, 0)], 1),
        ([row(900, 2.0, 0), row(890, 2.0, 0)], 2),
        ([row(900, 2.0, 9), row(300, 8.0, 0), row(5000, 0.0, 0, "other")], 0),
    ],
)
def test_a_way_is_best_if_it_is_best_of_its_system_in_everything(rows: list[ModeFigures], best: int) -> None:
    assert count_best({str(number): each for number, each in enumerate(rows)}, "one") == best


def test_ways_of_each_system_are_compared() -> None:
    systems = [way.system for way in WAYS_SHOWN]
    assert [systems.count(name) for name in ("raft", "rocketmq", "kafka")] == [2, 4, 2]
    assert set(WAYS_SHOWN) <= set(WAYS)


class PlanningDesk(ClaimDesk):
    """It carries nothing out: it looks at plans, and answers each with a run of which nothing is recorded."""

    def run(self, name: str, plan: RunPlan) -> DoneRun:
        """Raises `UsageError` for a plan that cannot be carried out."""
        validate(plan)
        faults = tuple({"id": each.id, "s": 0.1, "gap_s": 0.1, "hold_s": each.hold_s} for each in plan.faults())
        of_consumers = tuple({"id": each.id, "left": 1, "given_late": 1, "keys_waiting": 0} for each in plan.faults())
        found = RunResults(
            valid=True,
            acked=100,
            rto=RecoveryTimes(0.1, 0.1, faults=faults),
            latency_ms={"p50": 1.0, "p99": 2.0},
            availability={"down_s": 0.1},
            silences={"scopes_s": {"broker-a": 1.0, "broker-b": 1.0}, "all_s": 0.1},
            elections=({"took_s": 0.1},),
            under_faults=of_consumers,
        )
        return DoneRun(name, self.directory, plan, found)

    def command(self, name: str, *words: str) -> tuple[Path, list[dict[str, Any]]]:
        """Raises `DidNotRun`: other commands are not planned here."""
        raise DidNotRun(name)


ON_STAGES = re.compile(r"\.(?:kafka_\w+|equal_to_dledger)$")
"""The modules whose experiments start clusters of their own."""


@pytest.mark.parametrize(
    "experiment", [one for one in EXPERIMENTS if not ON_STAGES.search(one.conduct.__module__)], ids=lambda one: one.name
)
def test_every_plan_of_an_experiment_can_be_carried_out(experiment: Experiment, tmp_path: Path) -> None:
    desk = PlanningDesk(tmp_path, Engine.LOCAL, LocalEngine())
    with suppress(UnreadableHistory, DidNotRun):  # which is read once a run was carried out
        experiment.conduct(desk)
    expected = {one.figure for one in experiment.expects}
    assert not set(desk.figures) or expected & set(desk.figures)
