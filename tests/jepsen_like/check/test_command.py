"""`quorumlog check` prints the verdict as its last word, and its exit status agrees."""

import contextlib
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from jepsen_like.check import stages
from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.verdict import Engine
from jepsen_like.cli import ExitStatus, execute
from jepsen_like.history.files import DumpWriter, HistoryWriter
from jepsen_like.history.ops import NEVER, Action, Op, Outcome


def append(value: int, outcome: Outcome = Outcome.OK) -> Op:
    return Op(f=Action.APPEND, type=outcome, a=value, offset=value - 1, t_inv=value * 10, t_ret=value * 10 + 5)


def run_directory(place: Path, records: int = 100, *, final: int = 100, nodes: int = 3, dumped: int = 3) -> Path:
    with HistoryWriter(place / "history.parquet", part_rows_max=30) as history:
        for value in range(1, records + 1):
            history.record(append(value))
    with DumpWriter(place / "dump.parquet") as dump:
        for node in range(1, dumped + 1):
            dump.record(node, 0, 1, range(1, final + 1))
    (place / "test.json").write_text(json.dumps({"nodes": nodes}))
    return place


def check(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, list[str], str]:
    """Its status, its lines and its complaints. A stage that took long is not told: on a busy machine any may."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "PLAIN_S", math.inf)
        status = execute(["check", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


def test_a_valid_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_directory(tmp_path)
    status, lines, err = check(capsys, run, "--model", "log", "--engine", "local")
    assert (status, lines[-1], err) == (ExitStatus.VALID, f"{run}\ttrue", "")
    assert lines[0] == "100 operations (0 of unknown outcome) on 1 log"


@pytest.mark.parametrize("with_a_power_cut", [False, True])
def test_an_operation_is_counted_once_however_many_records_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], with_a_power_cut: bool
) -> None:
    batch = Op(f=Action.APPEND, type=Outcome.OK, offset=0, t_inv=10, t_ret=15, process=1)
    with HistoryWriter(tmp_path / "history.parquet") as history:
        history.record_batch(batch, [1, 2, 3])
        history.record_batch(attrs.evolve(batch, f=Action.READ, t_inv=20, t_ret=25), [1, 2, 3])
        history.record_batch(attrs.evolve(batch, type=Outcome.INFO, offset=-1, t_inv=30, t_ret=NEVER), [4, 5])
        history.record_batch(attrs.evolve(batch, type=Outcome.FAIL, offset=-1, t_inv=30, t_ret=35, process=2), [6, 7])
    with DumpWriter(tmp_path / "dump.parquet") as dump:
        dump.record(1, 0, 1, [1, 2, 3])
    settings = {"flush": "none", "flush_interval_s": 0.05}
    test = {"nodes": 1, "replication": "raft", "settings": settings}
    (tmp_path / "test.json").write_text(json.dumps(test))
    cut = {"id": 1, "kind": "power", "begun_ns": 50, "injected_ns": 60}
    (tmp_path / "nemesis.jsonl").write_text(json.dumps(cut) if with_a_power_cut else "")
    status, lines, _ = check(capsys, tmp_path, "--model", "log", "--engine", "local", "--json")
    assert (status, lines[0]) == (ExitStatus.VALID, "4 operations (1 of unknown outcome) on 1 log")
    results = json.loads(lines[1])
    assert (results["ops"], results["acked"]) == ({"ok": 2, "fail": 1, "info": 1}, 3)


def test_a_violated_run_says_which_and_as_json_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_directory(tmp_path, final=99)
    status, lines, _ = check(capsys, run, "--model", "log", "--engine", "local", "--json")
    sentence = "log 0: the append of 100 at offset 99 by process 0 was acknowledged, but the final logs end at 99"
    assert (status, lines[-1]) == (ExitStatus.VIOLATION, f"{run}\tfalse")
    assert f"lost: {sentence}" in lines
    results = json.loads(lines[-2])
    assert results["valid"] is False
    assert results["checks"]["lost"] == {"valid": False, "count": 1, "examples": [sentence]}
    assert results["checks"]["linearizable"]["count"] == 1
    assert results["checks"]["phantom"] == {"valid": True, "count": 0, "examples": []}
    assert (results["acked"], results["lost_acked"], results["lost_unexplained"], results["duplicated"]) == (
        100,
        1,
        1,
        0,
    )
    assert results["objects"] == {"ok": 0, "violated": 1, "unknown": 0}
    (violation,) = results["violations"]
    assert violation["ops"][0] == {
        "f": "append",
        "type": "ok",
        "a": 100,
        "b": -1,
        "seen": -1,
        "offset": 99,
        "epoch": -1,
        "process": 0,
        "node": -1,
        "t_inv_s": 9.9e-7,
        "t_ret_s": 9.95e-7,
    }


def test_too_few_final_logs_leave_losses_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_directory(tmp_path, nodes=5, dumped=2)
    status, lines, _ = check(capsys, run, "--model", "log", "--engine", "local")
    assert (status, lines[-1]) == (ExitStatus.UNKNOWN, f"{run}\tunknown")
    assert lines[1] == "undecided: object 0: only 2 of 5 nodes left a final log, so that losses cannot be ruled out"


def test_a_violation_is_found_even_with_too_few_final_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_directory(tmp_path, final=90, nodes=5, dumped=2)
    status, lines, _ = check(capsys, run, "--model", "log", "--engine", "local", "--json")
    assert status == ExitStatus.VIOLATION
    assert json.loads(lines[-2])["objects"] == {"ok": 0, "violated": 1, "unknown": 0}


def test_an_empty_file_holds_no_operations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path := tmp_path / "history.edn").touch()
    status, lines, err = check(capsys, path, "--model", "register", "--engine", "local", "--json")
    assert (status, err, lines[1]) == (ExitStatus.UNKNOWN, "", "undecided: the history holds no operations")
    assert json.loads(lines[3])["objects"] == {"ok": 0, "violated": 0, "unknown": 0}


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.INFO])
def test_what_happened_for_nobody_proves_nothing(
    outcome: Outcome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with HistoryWriter(tmp_path / "history.parquet") as history:
        history.record(attrs.evolve(append(1, outcome), offset=-1))
    with DumpWriter(tmp_path / "dump.parquet") as dump:
        dump.begin(1, 0)
    status, lines, _ = check(capsys, tmp_path, "--model", "log", "--engine", "local", "--json")
    assert (status, lines[-1]) == (ExitStatus.UNKNOWN, f"{tmp_path}\tunknown")
    assert "undecided: no operation of the history is known to have happened, so nothing was tested" in lines
    assert json.loads(lines[-2])["not_tested"] == ["loss: nothing was acknowledged"]


def test_without_final_logs_a_verdict_does_not_speak_of_losses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_directory(tmp_path)
    shutil.rmtree(run / "dump.parquet")
    (run / "test.json").unlink()
    status, lines, _ = check(capsys, run, "--model", "log", "--engine", "local", "--json")
    assert (status, lines[-1]) == (ExitStatus.VALID, f"{run}\ttrue")
    assert "not tested: loss: the history has no final logs" in lines
    assert json.loads(lines[-2])["not_tested"] == ["loss: the history has no final logs"]
    assert json.loads(lines[-2])["checks"]["lost"]["valid"] is None


@pytest.mark.parametrize("read_again", [False, True])
def test_a_register_whose_last_change_was_never_read_is_named(
    read_again: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with HistoryWriter(tmp_path / "history.parquet") as history:
        history.record(Op(f=Action.WRITE, type=Outcome.OK, a=1, t_inv=1, t_ret=2))
        history.record(Op(f=Action.READ, type=Outcome.OK, a=1, t_inv=3, t_ret=4))
        history.record(Op(f=Action.WRITE, type=Outcome.OK, a=2, t_inv=5, t_ret=6))
        if read_again:
            history.record(Op(f=Action.READ, type=Outcome.OK, a=2, t_inv=7, t_ret=8))
    status, lines, _ = check(capsys, tmp_path, "--model", "register", "--engine", "local", "--json")
    assert status == ExitStatus.VALID
    said = [] if read_again else ["loss: the last acknowledged change of 1 of 1 registers was never read"]
    assert json.loads(lines[-2])["not_tested"] == said


def test_no_operations_prove_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_directory(tmp_path, records=0, final=0)
    status, lines, _ = check(capsys, run, "--model", "log", "--engine", "local")
    assert (status, lines[-1]) == (ExitStatus.UNKNOWN, f"{run}\tunknown")


def test_a_history_alone_and_a_single_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_directory(tmp_path, records=20)
    shutil.rmtree(run / "dump.parquet")
    (part,) = run.glob("history.parquet/bucket=*/*.parquet")
    for path in (run / "history.parquet", part):
        status, lines, _ = check(capsys, path, "--model", "log", "--engine", "local", "--json")
        assert (status, lines[-1]) == (ExitStatus.VALID, f"{path}\ttrue")
        assert json.loads(lines[-2])["checks"]["lost"]["valid"] is None, "without final logs it is unknown"


def test_operation_maps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.edn"
    path.write_text(
        "{:process 0 :type :invoke :f :write :value 1}\n{:process 0 :type :ok :f :write :value 1}\n"
        "{:process 0 :type :invoke :f :read :value nil}\n{:process 0 :type :ok :f :read :value nil}\n"
    )
    status, lines, _ = check(capsys, path, "--model", "register", "--engine", "local")
    assert (status, lines[-1]) == (ExitStatus.VIOLATION, f"{path}\tfalse")
    assert lines[1].startswith("stale: register 0: the write of 1 by process 0 had ended before the read of nothing")


def maps(*rows: tuple[int, str, str, Any]) -> str:
    return "\n".join(json.dumps({"process": p, "type": t, "f": f, "value": v}) for p, t, f, v in rows)


def test_a_register_and_its_values_are_told_as_they_were_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(
        maps(
            (0, "invoke", "write", ["left", 'an "apple"']),
            (0, "ok", "write", ["left", 'an "apple"']),
            (1, "invoke", "read", ["left", None]),
            (1, "ok", "read", ["left", -5]),
        )
    )
    status, lines, _ = check(capsys, path, "--model", "register", "--engine", "local", "--json")
    sentence = 'register "left": read of -5 by process 1, but no client ever wrote -5'
    assert (status, lines[1]) == (ExitStatus.VIOLATION, f"phantom: {sentence}")
    (violation,) = json.loads(lines[2])["violations"]
    assert (violation["object"], violation["sentence"], violation["ops"][0]["a"]) == ("left", sentence, -5)


def test_the_values_of_a_log_are_told_as_they_were_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(
        maps(
            (0, "invoke", "append", "a"),
            (0, "ok", "append", [0, "a"]),
            (1, "invoke", "append", "b"),
            (1, "ok", "append", [0, "b"]),
        )
    )
    status, lines, _ = check(capsys, path, "--model", "log", "--engine", "local")
    assert status == ExitStatus.VIOLATION
    assert any(line.startswith('divergent_offset: log 0: offset 0 holds two values: "') for line in lines), lines


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(["--model", "stack"], "'stack' is not one of 'log', 'register', 'queue', ", id="unknown model"),
        pytest.param([], "no test.json tells what its objects are; --model is needed", id="no model"),
        pytest.param(["--model", "register", "--engine", "local"], "holds append operations", id="wrong model"),
        pytest.param(["--model", "log", "--engine", "local", "--master", "local"], "--master needs", id="master"),
    ],
)
def test_a_wrong_command_line_gives_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    status, out, err = check(capsys, run_directory(tmp_path), *arguments)
    assert (status, out) == (ExitStatus.USAGE, [])
    assert complaint in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("rows_min", "master", "expected"),
    [
        (2, (), "spark"),
        (1 << 20, (), "local"),
        (1 << 20, ("--master", "local[1]"), "spark"),
        (1 << 20, ("--ui",), "spark"),
    ],
)
def test_without_a_choice_the_size_of_the_history_and_a_master_decide_who_checks(
    rows_min: int, master: tuple[str, ...], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    @contextlib.contextmanager
    def record_engine(engine: Engine, master: str | None = None, *, ui: bool = False) -> Iterator[LocalEngine]:
        started.append(engine.value)
        yield LocalEngine()

    monkeypatch.setattr("jepsen_like.check.command.engine_of", record_engine)
    monkeypatch.setattr("jepsen_like.check.command.SPARK_ROWS_MIN", rows_min)
    assert execute(["check", str(run_directory(tmp_path)), "--model", "log", *master]) == ExitStatus.VALID
    assert started == [expected]


def test_what_is_no_history_gives_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for path, complaint in (
        (tmp_path, "not a history"),
        (tmp_path / "notes.txt", "neither JSON"),
        (tmp_path / "x", "exist"),
    ):
        status, out, err = check(capsys, path, "--model", "log", "--engine", "local")
        assert (status, out) == (ExitStatus.USAGE, [])
        assert complaint in err
        assert err.count("\n") == 1


def test_a_damaged_dump_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_directory(tmp_path)
    with DumpWriter(run / "dump.parquet") as dump:
        dump.record(1, 0, 1, [1, 2])
        dump.record(1, 1, 1, [2, 3])
    status, _, err = check(capsys, run, "--model", "log", "--engine", "local")
    assert status == ExitStatus.USAGE
    assert "node 1 has two records at one offset" in err
