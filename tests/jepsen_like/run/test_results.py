"""results.json contains what happened: of the history, of the nodes, and of nothing else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from jepsen_like.history.files import DumpWriter, HistoryWriter, KeepRule
from jepsen_like.history.ops import Action, Op, Outcome
from jepsen_like.port.observations import RoleSeen, StartSeen, TurnReported, TurnSeen
from jepsen_like.record.attempts import Attempts
from jepsen_like.record.results import LongestTurn
from jepsen_like.report.page import longest_turn
from jepsen_like.run.results import Expected, Observed, build_results
from tests.jepsen_like.record.test_recovery_time import a_fault

S = 1_000_000_000
MS = 1_000_000
QUIET = Observed(faults=(), roles=(), unasked_ends=(), nonsense=(), not_recovered=None, is_interrupted=False)


def results_of(verdict: Mapping[str, Any], found: Attempts, observed: Observed) -> dict[str, Any]:
    """results.json of a run."""
    return build_results(verdict, found, observed).as_json()


def attempts(directory: Path) -> Attempts:
    """Ten appends in the first second, one of four records; a refusal and an unknown outcome in the next."""
    with HistoryWriter(directory) as history:
        for number in range(10):
            begun = 100 * S + number * 100 * MS
            values = range(10 * number, 10 * number + (4 if number == 5 else 1))
            history.record_batch(
                Op(f=Action.APPEND, type=Outcome.OK, t_inv=begun, t_ret=begun + (number + 1) * MS, process=number % 3),
                list(values),
            )
        history.record(Op(f=Action.READ, type=Outcome.FAIL, t_inv=101 * S, t_ret=101 * S + MS, process=1))
        history.record(Op(f=Action.APPEND, type=Outcome.INFO, t_inv=101 * S, process=2))
    return Attempts.read(directory)


def test_a_batch_is_one_operation(tmp_path: Path) -> None:
    found = attempts(tmp_path)
    assert len(found.f) == 12
    assert len(found.acknowledged_writes().t_ret) == 10
    assert found.origin_ns == 100 * S


def test_what_was_attempted_counts_records_of_appends_whatever_became_of_them(tmp_path: Path) -> None:
    found = attempts(tmp_path)
    assert sorted(found.records.tolist()) == [1] * 11 + [4]
    assert found.count_attempted() == 14
    assert results_of(a_verdict(), found, QUIET)["attempted"] == 14


def test_latency_and_throughput_are_of_what_was_answered(tmp_path: Path) -> None:
    found = attempts(tmp_path)
    assert found.latency_ms() == {"p50": 5.5, "p99": 9.91}
    assert found.throughput_ops_s() == pytest.approx(10 / 0.91, abs=0.1)


def test_the_series_counts_every_operation_once(tmp_path: Path) -> None:
    series = attempts(tmp_path).series()
    assert series["t_s"] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert [sum(series[name]) / 4 for name in ("ok_s", "fail_s", "info_s")] == [10, 1, 1]
    assert series["ok_s"] == [12.0, 8.0, 12.0, 8.0, 0.0]
    assert (series["p50_ms"][0], series["p50_ms"][4]) == (2.0, None)


def test_an_empty_history_has_no_numbers(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path):
        pass
    found = Attempts.read(tmp_path)
    assert found.throughput_ops_s() == 0.0
    assert found.latency_ms() == {"p50": None, "p99": None}
    assert found.series()["t_s"] == []


def a_verdict(*, valid: bool | None = True, lost: int = 0, stale: int = 0, acked: int = 10) -> dict[str, Any]:
    def check(count: int) -> dict[str, Any]:
        return {"valid": False if count else valid, "count": count, "examples": []}

    checks = {"linearizable": check(lost + stale), "lost": check(lost), "stale": check(stale)}
    return {
        "valid": False if lost + stale else valid,
        "checks": checks,
        "lost_acked": lost,
        "lost_allowed": [],
        "lost_unexplained": lost,
        "violations": [],
        "acked": acked,
        "unknown": [],
    }


def test_the_verdict_of_the_history_stands(tmp_path: Path) -> None:
    found = attempts(tmp_path)
    for valid in (True, None):
        assert results_of(a_verdict(valid=valid), found, QUIET)["valid"] is valid
    assert results_of(a_verdict(stale=1), found, QUIET)["valid"] is False


def test_a_run_that_acknowledged_nothing_proves_nothing(tmp_path: Path) -> None:
    results = results_of(a_verdict(acked=0), attempts(tmp_path), QUIET)
    assert results["valid"] is None
    assert "nothing was acknowledged" in results["unknown"][0]
    assert results_of(a_verdict(acked=0, stale=1), attempts(tmp_path), QUIET)["valid"] is False


def test_a_run_that_never_did_what_it_is_about_proves_nothing(tmp_path: Path) -> None:
    for times, valid in ((0, None), (3, True)):
        observed = attrs.evolve(QUIET, expected=Expected(served={"reads of followers": times}))
        results = results_of(a_verdict(), attempts(tmp_path / str(times)), observed)
        assert results["valid"] is valid
        assert "reads of followers" in str(results["unknown"] or results["checks"]["evidence"])


@pytest.mark.parametrize(
    ("observed", "check"),
    [
        (attrs.evolve(QUIET, unasked_ends=("node 1 ended",)), "nodes"),
        (attrs.evolve(QUIET, nonsense=("node 2 answered a read with a tail",)), "answers"),
        (attrs.evolve(QUIET, not_recovered="they do not agree"), "recovered"),
        (attrs.evolve(QUIET, not_recovered=""), "recovered"),
    ],
)
def test_a_failure_that_no_history_shows_makes_a_run_invalid(observed: Observed, check: str, tmp_path: Path) -> None:
    results = results_of(a_verdict(), attempts(tmp_path), observed)
    assert results["valid"] is False
    assert [name for name, each in results["checks"].items() if each["valid"] is False] == [check]


def test_an_allowed_loss_is_measured_back_from_the_fault_that_cost_it(tmp_path: Path) -> None:
    allowed = [{"records": 2, "reach_s": 0.25}, {"records": 1, "reach_s": 0.75}]
    verdict = {**a_verdict(), "lost_acked": 3, "lost_allowed": allowed, "lost_unexplained": 0}
    results = results_of(verdict, attempts(tmp_path), QUIET)
    assert results["valid"] is True
    assert (results["lost_allowed"], results["lost_unexplained"]) == (allowed, 0)
    assert results["rpo"] == {"records": 3, "s": 0.75}


def test_an_allowed_loss_excuses_nothing_else(tmp_path: Path) -> None:
    found = attempts(tmp_path)
    allowed = {"lost_acked": 3, "lost_allowed": [{"records": 3, "reach_s": 0.1}], "lost_unexplained": 0}
    assert results_of({**a_verdict(stale=1), **allowed}, found, QUIET)["valid"] is False
    crashed = attrs.evolve(QUIET, unasked_ends=("node 1 ended",))
    assert results_of({**a_verdict(), **allowed}, found, crashed)["valid"] is False


def test_a_loss_that_nothing_allows_is_measured_back_from_the_next_fault(tmp_path: Path) -> None:
    faults = (a_fault(101, 103), a_fault(110, 112))
    lost = [{"check": "lost", "ops": [{"t_ret_s": acked_s}]} for acked_s in (0.4, 9.9, 50.0)]
    lost.append({"check": "stale", "ops": [{"t_ret_s": 0.1}]})
    verdict = {**a_verdict(lost=3), "violations": lost}
    results = results_of(verdict, attempts(tmp_path), attrs.evolve(QUIET, faults=faults))
    assert results["rpo"] == {"records": 3, "s": 0.6}


def test_a_loss_from_within_a_fault_is_not_measured_to_the_next_one(tmp_path: Path) -> None:
    faults = (a_fault(101, 103), a_fault(110, 112))
    verdict = {**a_verdict(lost=1), "violations": [{"check": "lost", "ops": [{"t_ret_s": 2.0}]}]}
    results = results_of(verdict, attempts(tmp_path), attrs.evolve(QUIET, faults=faults))
    assert results["rpo"] == {"records": 1, "s": 0.0}


def test_a_fault_that_nothing_recovered_from_is_not_hidden_by_the_others(tmp_path: Path) -> None:
    found = attempts(tmp_path)
    one = results_of(a_verdict(), found, attrs.evolve(QUIET, faults=(a_fault(100.45, 100.65),)))["rto_s"]
    assert (one["max"], one["gap_max"], one["unrecovered"]) == (0.056, 0.101, 0)
    both = results_of(a_verdict(), found, attrs.evolve(QUIET, faults=(a_fault(100.45, 100.65), a_fault(100.7, 102))))
    assert (both["rto_s"]["max"], both["rto_s"]["gap_max"], both["rto_s"]["unrecovered"]) == (None, None, 1)
    assert [row["recovered"] for row in both["rto_s"]["faults"]] == [True, False]


def test_what_was_written_when_all_was_healed_puts_no_promise_to_the_test(tmp_path: Path) -> None:
    found = attempts(tmp_path)
    assert results_of(a_verdict(acked=1), found, attrs.evolve(QUIET, last_acked=1))["valid"] is None
    assert results_of(a_verdict(acked=2), found, attrs.evolve(QUIET, last_acked=1))["valid"] is True


def test_times_count_from_the_first_operation(tmp_path: Path) -> None:
    roles = (RoleSeen(1, 99 * S, "leader", 1), RoleSeen(2, int(100.7 * S), "leader", 2))
    observed = attrs.evolve(QUIET, faults=(a_fault(100.5, 102),), roles=roles)
    results = results_of(a_verdict(), attempts(tmp_path), observed)
    assert [(row["at_s"], row["took_s"]) for row in results["elections"]] == [(-1.0, None), (0.7, 0.2)]
    assert (results["faults"][0]["begin_s"], results["faults"][0]["end_s"]) == (0.5, 2.0)
    assert results["rto_s"]["faults"][0]["acked_before"] == 5


def test_the_longest_turn_of_a_loop_is_the_one_that_no_fault_explains(tmp_path: Path) -> None:
    found = attempts(tmp_path)
    assert results_of(a_verdict(), found, QUIET)["longest_turn"] is None
    turns = (
        TurnSeen(1, int(100.3 * S), TurnReported(150, 140, "applying")),
        TurnSeen(2, int(101.5 * S), TurnReported(900, 2, "paused")),
        TurnSeen(3, 103 * S, TurnReported(120, 1, "sending")),
    )
    observed = attrs.evolve(QUIET, faults=(a_fault(100.5, 102),), turns=turns)
    results = results_of(a_verdict(), found, observed)
    assert results["longest_turn"] == {
        "node": 1, "at_s": 0.3, "ms": 150, "processor_ms": 140, "cause": "applying", "count": 2
    }  # fmt: skip
    assert longest_turn(LongestTurn(**results["longest_turn"])).tone == "warn"
    assert longest_turn(None).figure == "< 100 ms"


def test_what_left_the_logs_is_told_where_something_did(tmp_path: Path) -> None:
    starts = (StartSeen(1, 5, is_snapshot=False), StartSeen(2, 5, is_snapshot=True), StartSeen(1, 9, is_snapshot=False))
    observed = attrs.evolve(QUIET, starts=starts)
    results = results_of({**a_verdict(), "expired": 9}, attempts(tmp_path), observed)
    assert (results["valid"], results["retention"]) == (True, {"trims": 2, "snapshots": 1})
    assert "retention" not in results_of(a_verdict(), attempts(tmp_path / "again"), QUIET)


def test_the_acknowledged_are_split_in_kept_and_lost(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "history.parquet") as history:
        for number, values in enumerate(([7], [8, 9], [10], [11])):
            begun = 100 * S + number * 100 * MS
            told = Op(
                f=Action.APPEND, type=Outcome.OK, t_inv=begun, t_ret=begun + MS, process=1, offset=(0, 1, 3, 4)[number]
            )
            history.record_batch(told, values)
        history.record(Op(f=Action.READ, type=Outcome.OK, t_inv=101 * S, t_ret=101 * S + MS, process=1, offset=2, a=9))
    assert not Attempts.read(tmp_path / "history.parquet").is_lost.any()
    with DumpWriter(tmp_path / "dump.parquet") as dump:
        dump.begin(1, 0)
        dump.record(1, 0, 1, [7, 8])
        dump.begin(2, 0)
        dump.record(2, 0, 1, [7, 8, 12, 10])
    found = Attempts.read(tmp_path / "history.parquet")
    assert found.is_lost.tolist() == [False, True, False, True, False]
    assert [rate / 4 for rate in found.series()["lost_s"]] == [1, 1, 0, 0, 0]


def test_what_left_by_its_rule_is_not_among_the_lost(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "history.parquet") as history:
        for number in range(3):
            history.record(
                Op(
                    f=Action.APPEND,
                    type=Outcome.OK,
                    t_inv=S * number,
                    t_ret=S * number + 1,
                    process=1,
                    offset=number,
                    a=number,
                )
            )
    with DumpWriter(tmp_path / "dump.parquet", rule=KeepRule(retention_bytes=1)) as dump:
        dump.begin(1, 1)
        dump.record(1, 1, 1, [1])
    assert Attempts.read(tmp_path / "history.parquet").is_lost.tolist() == [False, False, True]
