"""`quorumlog claims` lists, runs and judges; a wrong figure is a contradiction, and a cluster that does not come up leaves no verdict."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.verdict import Engine
from jepsen_like.claims import command, results
from jepsen_like.claims.command import carry_out, status_of
from jepsen_like.claims.experiment import ClaimDesk, DidNotRun, Experiment, fault, plan_of
from jepsen_like.claims.judgement import NEVER, Part, Value, at_least, exactly, expect
from jepsen_like.claims.results import ExperimentOutcome, join_outcomes, judge_claims, last_rows
from jepsen_like.cli import ExitStatus, execute
from jepsen_like.report.claims import render_claims
from jepsen_like.run.command import write_json

EXPECTS = (
    expect("C24", "rto_s", at_least(0.01)),
    expect("C24", "lost", exactly(0)),
    expect("C25", "lost", exactly(0)),
    expect("C25", "rto_of_a_pair_s", at_least(5), Part.EXCEPTION, condition="a leader is elected"),
)


def experiment(conduct: Callable[[ClaimDesk], None], question: str = "") -> Experiment:
    return Experiment(
        name="planted", story="A leader is killed.", seconds=1, expects=EXPECTS, conduct=conduct, question=question
    )


def note(**values: Value) -> Callable[[ClaimDesk], None]:
    def conduct(desk: ClaimDesk) -> None:
        for name, value in values.items():
            desk.measure(name, value)

    return conduct


@pytest.fixture
def desk(tmp_path: Path) -> ClaimDesk:
    return ClaimDesk(tmp_path, Engine.LOCAL, LocalEngine(), say=lambda line: None)


def rows_of(desk: ClaimDesk, conduct: Callable[[ClaimDesk], None]) -> dict[str, dict[str, Any]]:
    outcome = carry_out(experiment(conduct), desk)
    return {row["id"]: row for row in judge_claims(["C24", "C25", "C44"], [outcome])}


def test_right_figures_agree(desk: ClaimDesk) -> None:
    rows = rows_of(desk, note(rto_s=0.3, lost=0, rto_of_a_pair_s=9.0))
    assert [row["verdict"] for row in rows.values()] == ["holds", "holds if", "not an experiment"]
    assert status_of(list(rows.values())) is ExitStatus.VALID


def test_a_wrong_figure_contradicts(desk: ClaimDesk) -> None:
    rows = rows_of(desk, note(rto_s=0.3, lost=7, rto_of_a_pair_s=9.0))
    assert (rows["C24"]["verdict"], rows["C24"]["agrees"]) == ("false", False)
    assert status_of(list(rows.values())) is ExitStatus.VIOLATION


def test_an_exception_that_was_not_seen_contradicts(desk: ClaimDesk) -> None:
    rows = rows_of(desk, note(rto_s=0.3, lost=0, rto_of_a_pair_s=0.2))
    assert (rows["C25"]["verdict"], rows["C25"]["agrees"]) == ("holds", False)


def test_a_cluster_that_does_not_come_up_leaves_what_was_measured_before(desk: ClaimDesk) -> None:
    def conduct(desk: ClaimDesk) -> None:
        note(rto_s=0.3, lost=0)(desk)
        raise DidNotRun("a pair did not come up: no port")

    rows = rows_of(desk, conduct)
    assert rows["C24"]["verdict"] == "holds"
    assert (rows["C25"]["verdict"], rows["C25"]["reason"]) == ("no verdict", "a pair did not come up: no port")
    assert status_of(list(rows.values())) is ExitStatus.UNKNOWN


def test_the_page_shows_a_contradiction_in_red_and_leads_to_runs(tmp_path: Path, desk: ClaimDesk) -> None:
    (tmp_path / "001-one").mkdir()
    (tmp_path / "001-one" / "report.html").write_text("")

    def conduct(desk: ClaimDesk) -> None:
        desk.measure("lost", 7, "records", tmp_path / "001-one")
        desk.measure("rto_s", 0.3, "s", tmp_path / "002-copied-without-its-runs")
        desk.answer("Seven records were lost.")
        desk.table("By mode", ["mode", "lost"], [["raft", "7"]])

    outcome = carry_out(experiment(conduct, question="What is lost?"), desk)
    machine = {"cpu": "one", "cores": 1, "memory": "1 GB", "kernel": "one"}
    told = {"command": "quorumlog claims run C24", "machine": machine, "quick": True, "seconds": 1.0}
    told |= {"experiments": [outcome.as_json()], "claims": judge_claims(["C24", "C25"], [outcome])}
    write_json(tmp_path / "claims.json", told)
    page = render_claims(tmp_path).read_text()
    assert 'class="word violated">false' in page
    assert 'class="missed">lost: 7 records' in page
    assert 'href="001-one/report.html"' in page
    assert 'href="002' not in page
    asked = (tmp_path / "planted.html").read_text()
    assert "Seven records were lost." in asked
    assert last_rows(tmp_path.parent)["C24"]["verdict"] == "false"


def test_the_list_names_every_claim_and_its_last_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "COMMITTED", tmp_path / "none")
    assert execute(["claims", "--out", str(tmp_path), "--json"]) == ExitStatus.VALID
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 94
    assert {row["verdict"] for row in rows} == {"not run yet", "not an experiment"}


@pytest.mark.parametrize("arguments", [["C99"], [], ["C24", "--all"]])
def test_an_unknown_claim_or_none_starts_nothing(arguments: list[str], tmp_path: Path) -> None:
    assert execute(["claims", "run", *arguments, "--out", str(tmp_path)]) == ExitStatus.USAGE
    assert not list(tmp_path.iterdir())


def test_results_are_judged_again_together_and_the_last_whole_one_of_an_experiment_counts(
    tmp_path: Path, desk: ClaimDesk
) -> None:
    planted = experiment(note(lost=0))
    places = []
    recorded: tuple[dict[str, float], ...] = ({"rto_s": 0.3, "lost": 7}, {"rto_s": NEVER, "lost": 0}, {"rto_s": 0.4})
    for number, figures in enumerate(recorded, 1):
        place = tmp_path / str(number)
        (place / "001-one").mkdir(parents=True)

        def conduct(desk: ClaimDesk, figures: dict[str, float] = figures, place: Path = place) -> None:
            desk.directory = place
            for name, value in figures.items():
                desk.measure(name, value, "", place / "001-one")
            if "lost" not in figures:
                raise DidNotRun("the second run did not come up")

        outcome = carry_out(experiment(conduct), desk)
        write_json(place / "claims.json", {"command": f"run {number}", "experiments": [outcome.as_json()]})
        places.append(place)
    outcomes, documents = join_outcomes(places, tmp_path / "joined", [planted])
    assert [document["command"] for document in documents] == ["run 1", "run 2", "run 3"]
    (outcome,) = outcomes
    assert {name: figure.value for name, figure in outcome.figures.items()} == {"rto_s": NEVER, "lost": 0}
    assert outcome.figures["lost"].runs == ("../2/001-one",)
    (row,) = judge_claims(["C24"], outcomes)
    assert row["verdict"] == "holds"


@pytest.mark.cluster
def test_a_claim_is_tried_on_a_real_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def conduct(desk: ClaimDesk) -> None:
        plan = plan_of("raft", faults=(fault(1, "kill", 0.4, 0.5),), duration_s=1.2, rate=100.0)
        shown = desk.run("the leader killed", plan)
        assert desk.run("the same again", plan) is shown
        desk.measure("rto_s", shown.rto_s(), "s", shown)
        desk.measure("lost", shown.lost, "records", shown)

    monkeypatch.setattr(command, "experiments_of", lambda claims: (experiment(conduct),))
    assert execute(["claims", "run", "C24", "--quick", "--out", str(tmp_path)]) == ExitStatus.VALID
    printed = capsys.readouterr()
    assert "C24  holds" in printed.out
    (directory,) = (each for each in tmp_path.iterdir() if not each.is_symlink())
    assert (directory / "001-the-leader-killed" / "report.html").is_file()
    assert not (directory / "002-the-same-again").exists()


def test_outcomes_are_plain_values() -> None:
    json.dumps(ExperimentOutcome(experiment=experiment(note(lost=0))).as_json(), allow_nan=False)
