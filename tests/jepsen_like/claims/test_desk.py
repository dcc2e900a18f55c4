"""A desk carries a plan out once, keeps figures apart by name, and takes no run for what it was not."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.verdict import Engine
from jepsen_like.claims import experiment
from jepsen_like.claims.experiment import ClaimDesk, DidNotRun, DoneRun, fault, plan_of
from jepsen_like.claims.judgement import NEVER
from jepsen_like.record.results import CheckResult, RecoveryTimes, RunResults

KILL = fault(1, "kill", 1.0, 2.0)
PLAN = plan_of("raft", faults=(KILL,), duration_s=4.0)


def results(first_s: float | None = 0.3, **changes: Any) -> RunResults:
    rto = RecoveryTimes(first_s, first_s, faults=({"id": 1, "s": first_s, "gap_s": first_s, "hold_s": 2.4},))
    return attrs.evolve(RunResults(valid=True, acked=800, rto=rto), **changes)


@pytest.fixture
def coming(monkeypatch: pytest.MonkeyPatch) -> list[RunResults]:
    """Returns the results of the next runs, in order."""
    found: list[RunResults] = []
    monkeypatch.setattr(experiment, "execute_run", lambda *arguments, **named: found.pop(0))
    return found


@pytest.fixture
def desk(tmp_path: Path) -> ClaimDesk:
    return ClaimDesk(tmp_path, Engine.LOCAL, LocalEngine(), seed=7, say=lambda line: None)


def test_the_same_plan_is_carried_out_once(desk: ClaimDesk, coming: list[RunResults]) -> None:
    coming += [results(), results(acked=1)]
    first = desk.run("one", PLAN)
    assert desk.run("the same by another name", PLAN) is first
    assert first.plan.seed == 7
    assert desk.run("another", attrs.evolve(PLAN, nodes=5)).acked == 1
    assert [each.name for each in sorted(desk.directory.iterdir())] == ["001-one", "002-another"]


def test_a_run_that_broke_a_promise_gives_no_figures(desk: ClaimDesk, coming: list[RunResults]) -> None:
    coming.append(results(valid=False, checks={"lost": CheckResult(False, 1, ("record 9 is gone",))}))
    for _ in range(2):  # it is not tried again
        with pytest.raises(DidNotRun, match="broke a promise: lost: record 9 is gone"):
            desk.run("one", PLAN)


def test_a_run_whose_fault_missed_gives_no_figures(desk: ClaimDesk, coming: list[RunResults]) -> None:
    coming.append(results(valid=None, unknown=("fault 1 (kill one): n1 was not gone: pid 1 state S",)))
    with pytest.raises(DidNotRun, match="was not what was planned"):
        desk.run("one", PLAN)


def test_a_run_that_hit_no_leader_on_purpose_gives_figures(desk: ClaimDesk, coming: list[RunResults]) -> None:
    coming.append(results(valid=None, unknown=("no kill hit a leader",)))
    assert desk.run("one", PLAN).acked == 800


@pytest.mark.parametrize(("first_s", "serves"), [(0.3, 1), (2.1, 0), (None, 0)])
def test_service_during_a_fault_is_a_write_before_its_end_begins(first_s: float | None, serves: int) -> None:
    run = DoneRun("one", Path(), PLAN, results(first_s))
    assert run.serves_during() == serves
    assert run.rto_s() == (NEVER if first_s is None else first_s)


def test_a_fault_that_did_not_happen_has_no_recovery() -> None:
    with pytest.raises(DidNotRun, match="fault 2 was not carried out"):
        DoneRun("one", Path(), PLAN, results()).rto_s(2)
