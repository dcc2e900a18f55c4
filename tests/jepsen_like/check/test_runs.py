"""`quorumlog check` of several paths: each verdict as if it were alone, and figures that are those of the run."""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from jepsen_like.check import figures_spark
from jepsen_like.check import runs as many
from jepsen_like.check.runs import COMPARED
from jepsen_like.check.tables import FIGURES, NAMES, VERDICT, VIOLATIONS
from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.engine.spark import SparkEngine
from jepsen_like.checker.verdict import Engine
from jepsen_like.cli import ExitStatus, execute
from jepsen_like.history.files import HistoryWriter
from jepsen_like.history.ops import NEVER, NONE, Action, Op, Outcome
from jepsen_like.nemesis.nemesis import HEAL
from jepsen_like.record.recorded import read_recorded
from tests.jepsen_like.check.test_command import check, run_directory
from tests.jepsen_like.record.test_recovery_time import S, a_fault

NO_HISTORY = "not a history: it holds neither history.parquet nor bucket=<k> directories"


def a_run(place: Path, **kinds: Any) -> Path:
    """A run of a log by test.json, which states its model."""
    run = run_directory(place, **kinds)
    (run / "test.json").write_text(json.dumps({"system": "raft", "workload": "log", "nodes": 3}))
    return run


def test_the_worst_of_several_decides_and_each_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = a_run(tmp_path / "good"), a_run(tmp_path / "bad", final=99)
    (tmp_path / "empty").mkdir()
    empty = tmp_path / "empty"
    open_ = a_run(tmp_path / "open", records=0, final=0)
    lines: list[str] = []
    for paths, worst in (
        ((good, good), ExitStatus.VALID),
        ((good, open_), ExitStatus.UNKNOWN),
        ((open_, empty, good), ExitStatus.USAGE),
        ((good, bad, empty, open_), ExitStatus.VIOLATION),
    ):
        status, lines, err = check(capsys, *paths)
        words = {good: "true", bad: "false", empty: "unknown", open_: "unknown"}
        assert (status, err) == (worst, "")
        assert lines[-len(paths) :] == [f"{path}\t{words[path]}" for path in paths]
    assert any(line.startswith("bad: lost: log 0: the append of 100") for line in lines)
    assert f"{empty}: {NO_HISTORY}" in lines


def test_json_has_a_line_for_each_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [a_run(tmp_path / "good"), a_run(tmp_path / "bad", final=99)]
    _, lines, _ = check(capsys, *paths, "--json")
    found = [json.loads(line) for line in lines[:-2]]
    assert [(row["path"], row["run"], row["valid"]) for row in found] == [
        (str(paths[0]), "good", True),
        (str(paths[1]), "bad", False),
    ]
    assert [row["lost_acked"] for row in found] == [0, 1]


def test_a_bug_of_the_check_is_not_told_as_one_of_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_error(*_: Any, **__: Any) -> None:
        raise ValueError("zero-size array")

    monkeypatch.setattr("jepsen_like.check.runs.check_run", raise_error)
    with pytest.raises(ValueError, match="zero-size array"):
        execute(["check", str(run_directory(tmp_path)), "--model", "log", "--engine", "local"])


def test_a_model_is_needed_only_where_no_run_tells_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = a_run(tmp_path / "run")
    for path in (run, run / "history.parquet"):
        status, lines, _ = check(capsys, path)
        assert (status, lines[-1]) == (ExitStatus.VALID, f"{path}\ttrue")
    (part,) = (run / "history.parquet").glob("bucket=*/part-0-000000.parquet")
    status, lines, err = check(capsys, run, part)
    assert (status, lines) == (ExitStatus.USAGE, [])
    assert f"{part}: no test.json tells what its objects are; --model is needed" in err


def test_a_run_of_a_system_that_is_not_installed_states_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_directory(tmp_path)
    (run / "test.json").write_text(json.dumps({"system": "toy", "workload": "log", "nodes": 3}))
    status, lines, err = check(capsys, run)
    assert (status, lines) == (ExitStatus.USAGE, [])
    assert "its test.json names the system 'toy', which no package here has; --model is needed, one of log, " in err


@pytest.mark.spark
def test_spark_finds_the_same_of_several(tmp_path: Path, spark: SparkEngine) -> None:
    paths = [a_run(tmp_path / "good"), a_run(tmp_path / "bad", final=99), tmp_path]
    here = [one.as_json() for one in many.judge_all(paths, None, Engine.SPARK, LocalEngine())]
    assert [one.as_json() for one in many.judge_all(paths, None, Engine.SPARK, spark)] == here


def with_faults(place: Path) -> Path:
    """A log under two faults, of which the second ends the load; some of its clients tell which node they asked, some do not."""
    chance, now = random.Random(5), 3 * S
    faults = [a_fault(5.0, 6.5), a_fault(9.0, 11.0)]
    with HistoryWriter(place / "history.parquet", part_rows_max=200) as history:
        for process in range(1200):
            now += chance.randrange(1, 12 * 10**6)
            op = Op(
                f=chance.choice((Action.APPEND, Action.APPEND, Action.READ)),
                type=Outcome.OK if chance.random() < 0.9 else chance.choice((Outcome.FAIL, Outcome.INFO)),
                process=process,
                node=chance.choice((NONE, 1, 2, 3)),
                a=3 * process,
                t_inv=now,
                t_ret=now + chance.randrange(1, 40 * 10**6),
            )
            if any(fault.begun_ns < now < fault.ended_ns for fault in faults):
                op = attrs.evolve(op, type=Outcome.INFO, t_ret=NEVER)
            history.record_batch(op, [3 * process + at for at in range(chance.choice((1, 1, 3)))])
    ended = attrs.evolve(faults[-1], kind=HEAL, intended_ns=11 * S, begun_ns=12 * S)
    (place / "nemesis.jsonl").write_text("".join(f"{json.dumps(fault.row())}\n" for fault in (*faults, ended)))
    (place / "test.json").write_text(json.dumps({"system": "raft", "workload": "log", "nodes": 3}))
    return place


@pytest.mark.campaign
@pytest.mark.spark
def test_spark_measures_what_is_measured_in_memory(
    tmp_path: Path, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures_spark, "SLICE_ROWS", 200)
    monkeypatch.setattr(many, "SMALL_ROWS_MAX", 100)  # it is a large one
    directory = with_faults(tmp_path)
    run = read_recorded(directory)
    here = many.figures_of(directory, run, LocalEngine())
    assert many.figures_of(directory, run, spark) == here
    first, second = here["rto_s"]["faults"]
    assert (first["recovered"], second["recovered"], here["rto_client_s"]["unrecovered"]) == (True, False, 1)
    assert 0.5 < here["availability"]["share"] < 0.9


@pytest.mark.spark
def test_spark_reads_the_tables_of_a_check(
    tmp_path: Path, spark: SparkEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    paths = [a_run(tmp_path / "good"), a_run(tmp_path / "bad", final=98), tmp_path / "empty"]
    place = tmp_path / "runs" / "2"
    assert check(capsys, *paths, "--out", place)[0] == ExitStatus.VIOLATION
    session = SparkSession(spark.context)
    tables = {name: session.read.parquet(str(place / f"{name}.parquet")) for name in NAMES}
    verdicts = tables[VERDICT].select("run", "system", "valid", "acked", "lost_acked", "violations", "unreadable")
    assert [tuple(row) for row in verdicts.collect()] == [
        ("good", "raft", True, 100, 0, 0, None),
        ("bad", "raft", False, 100, 2, 2, None),
        (str(paths[2]), None, None, None, None, None, f"{paths[2]}: {NO_HISTORY}"),
    ]
    lost = tables[VIOLATIONS].selectExpr("run", "check", "object", "ops[0].offset").collect()
    assert [tuple(row) for row in lost] == [("bad", "lost", "0", 98), ("bad", "lost", "0", 99)]
    per_run = tables[FIGURES].where("figure = 'throughput' and unit = 'operations/s' and fault is null and value > 0")
    assert sorted(row.run for row in per_run.collect()) == ["bad", "good"]
    figures = tables[FIGURES]  # as docs/runs.md asks
    figures.where("figure = 'rto'").groupBy("kind").agg({"value": "max"}).show()
    assert "max(value)" in capsys.readouterr().out


@pytest.fixture(
    scope="module",
    params=[
        ("raft",),
        pytest.param(("raft", "kafka"), marks=pytest.mark.campaign),
        pytest.param(("raft", "rocketmq"), marks=pytest.mark.campaign),
    ],
    ids=" and ".join,
)
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A short run of each of these systems, at the same time; of one alone, the run and its copy."""
    systems: tuple[str, ...] = request.param
    place = tmp_path_factory.mktemp("runs")
    options = ["--duration", "3", "--rate", "100", "--nemesis", "kill"]
    words = {
        system: ["run", "--quick", *options, "--seed", "3", "--system", system, "--out", str(place / system)]
        for system in systems
    }
    if len(systems) == 1:
        assert execute(words[systems[0]]) == ExitStatus.VALID
        run = (place / systems[0] / "latest").resolve()
        return {systems[0]: run, "its copy": Path(shutil.copytree(run, place / "copy" / run.name))}
    command = [sys.executable, "-m", "jepsen_like.cli"]
    running = [subprocess.Popen([*command, *words[system]], stderr=subprocess.DEVNULL) for system in systems]
    assert [one.wait(timeout=100) for one in running] == [ExitStatus.VALID] * len(systems)
    return {system: (place / system / "latest").resolve() for system in systems}


@pytest.mark.cluster
def test_what_is_found_again_of_real_runs_is_what_they_said(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines, err = check(capsys, *runs.values(), "--json")
    assert (status, err) == (ExitStatus.VALID, "")
    for line, run in zip(lines, runs.values(), strict=False):
        found, said = json.loads(line), json.loads((run / "results.json").read_text())
        assert {name: found.get(name) for name in COMPARED} == {name: said.get(name) for name in COMPARED}
        assert found["differs"] == []
        assert found["rto_s"]["max"] > 0


@pytest.mark.cluster
def test_a_run_and_its_check_write_the_same_tables(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run in runs.values():
        assert check(capsys, run, "--out", tmp_path)[0] == ExitStatus.VALID
        for name in (VIOLATIONS, FIGURES):
            written, again = (pq.read_table(place / f"{name}.parquet").to_pylist() for place in (run, tmp_path))
            assert again == [{**row, "path": str(run)} for row in written]


@pytest.mark.cluster
def test_results_that_were_changed_are_told(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    original, other = runs.values()
    changed = shutil.copytree(original, tmp_path / "changed")
    said = json.loads((changed / "results.json").read_text())
    right = {name: said[name] for name in ("acked", "valid")}
    said["acked"], said["valid"], said["availability"]["share"] = right["acked"] + 1, False, 0.5
    said["checks"]["lost"]["count"] = 7
    (changed / "results.json").write_text(json.dumps(said))
    assert execute(["check", str(other), str(changed)]) == ExitStatus.VALID
    told = [line for line in capsys.readouterr().out.splitlines() if "its results.json differs" in line]
    assert [line.partition("differs: ")[2].partition(" is ")[0] for line in told] == [
        "acked",
        "availability",
        "check lost",
        "valid",
    ]
    assert f"changed: its results.json differs: acked is {right['acked'] + 1}, not {right['acked']}" in told
