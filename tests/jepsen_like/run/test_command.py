"""The main job on real processes: what it leaves, how it ends, and that it always ends tidily."""

import contextlib
import io
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from jepsen_like.checker.verdict import Engine
from jepsen_like.cli import ExitStatus, execute
from jepsen_like.cluster import namespaces, volumes
from jepsen_like.cluster.process import process_state
from jepsen_like.history.files import HistoryReader, HistoryWriter
from jepsen_like.history.ops import Action, Op, Outcome
from jepsen_like.nemesis.kind import Here
from jepsen_like.nemesis.table import usable
from jepsen_like.port.registry import system_named
from jepsen_like.port.wires import Network
from jepsen_like.record.results import RunResults
from jepsen_like.run.command import check_results, colour, print_summary, summary, validate
from jepsen_like.run.exercise import RunPlan
from jepsen_like.run.options import choose, unless_given
from jepsen_like.systems.raft.system import RaftSystem
from tests.jepsen_like.run.test_results import QUIET

RUN = [sys.executable, "-m", "jepsen_like.cli", "run", "--quick"]
AT_A_RATE = ["--rate", "100"]
"""A load that leaves most of the machine to other tests."""
MANY_CLIENTS = 60
CHECKS_OF_THE_RUN = {"nodes", "answers", "recovered", "evidence"}


@pytest.fixture(scope="module")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("runs")
    arguments = ["--nodes", "3", "--duration", "9", "--seed", "11", "--out", str(out), "--json", *AT_A_RATE]
    # Elections are as short as the faults of so short a run.
    arguments += ["--set", "election_timeout_s_min=0.5", "--set", "election_timeout_s_max=1.0"]
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        assert execute(["run", "--quick", *arguments]) == ExitStatus.VALID
    return out, json.loads(shown.getvalue().splitlines()[-1])


@pytest.mark.cluster
def test_a_short_run_hits_a_leader_with_every_kind_and_serves_before_and_after(
    short_run: tuple[Path, dict[str, Any]],
) -> None:
    out, results = short_run
    rows = [json.loads(line) for line in (out / "latest" / "nemesis.jsonl").read_text().splitlines()]
    said = {
        row["kind"]: row["observed"] for row in rows if row["target"] == "leader" and row["nodes"] == [row["leader"]]
    }
    assert all(text.endswith("dead") for text in said["kill"].values())
    assert all(text.endswith("state T") for text in said["pause"].values())
    assert all(text.startswith("cut ") and ": 0 bytes passed" in text for text in said["partition"].values())
    assert len(said["partition"]) >= 4
    for fault in results["rto_s"]["faults"]:
        assert fault["acked_before"] > 0, fault
        assert fault["s"] is not None, fault


@pytest.mark.cluster
def test_a_short_run_is_valid_and_its_results_are_whole(short_run: tuple[Path, dict[str, Any]]) -> None:
    _, results = short_run
    assert results["valid"] is True
    assert set(results["checks"]) > CHECKS_OF_THE_RUN
    assert results["acked"] > 500
    assert (results["lost_acked"], results["lost_allowed"], results["lost_unexplained"]) == (0, [], 0)
    assert results["duplicated"] == 0
    ops = results["ops"]
    assert ops["info"] < 0.05 * sum(ops.values())
    assert len(results["elections"]) >= 3
    assert len(results["faults"]) == 3
    series = results["series"]
    assert len({len(column) for column in series.values()}) == 1
    assert results["rpo"] == {"records": 0, "s": 0.0}


@pytest.mark.cluster
def test_a_run_leaves_what_is_needed_to_look_at_it_again(short_run: tuple[Path, dict[str, Any]]) -> None:
    out, results = short_run
    directory = out / "latest"
    assert (out / "latest").is_symlink()
    assert json.loads((directory / "results.json").read_text()) == results
    test = json.loads((directory / "test.json").read_text())
    assert (test["seed"], test["nodes"], test["settings"]["flush"]) == (11, 3, "before-ack")
    assert (directory / "report.html").stat().st_size > 10_000
    assert list((directory / "history.parquet").glob("bucket=*/part-*.parquet"))
    assert list((directory / "dump.parquet").glob("*.parquet"))
    for node in (1, 2, 3):
        events = (directory / "nodes" / str(node) / "events.jsonl").read_text().splitlines()
        assert json.loads(events[0])["event"] == "started"
    assert shlex.split(results["repro"])[:2] == ["quorumlog", "run"]
    assert "--seed 11" in results["repro"]


@pytest.fixture(scope="module")
def interrupted_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run that was interrupted, of many clients where few descriptors are customary."""
    out = tmp_path_factory.mktemp("interrupted")
    arguments = ["--nodes", "3", "--duration", "20", "--seed", "1", "--out", str(out), "--workload", "register"]
    arguments += ["--concurrency", str(MANY_CLIENTS), *AT_A_RATE]
    with subprocess.Popen(
        [*RUN, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096)),
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if "nemesis" in line:  # the first fault: some load has gone before it
                break
        running.send_signal(signal.SIGINT)
        stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == ExitStatus.VALID, stderr
    assert "report.html" in stdout
    assert "VALID, interrupted   acked" in stdout
    return out / "latest"


@pytest.mark.cluster
def test_interrupted_it_stops_its_nodes_and_still_reports(interrupted_run: Path) -> None:
    results = json.loads((interrupted_run / "results.json").read_text())
    assert results["is_interrupted"] is True
    assert results["acked"] > 0
    for pid in pids_of(interrupted_run):
        assert process_state(pid) is None


@pytest.mark.cluster
def test_interrupted_in_its_check_it_says_how_to_check_what_it_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    arguments = ["run", "--quick", "--duration", "1", "--nemesis", "none", "--workload", "register", *AT_A_RATE]
    with monkeypatch.context() as patched:
        patched.setattr("jepsen_like.run.command.check_results", interrupt)
        assert execute([*arguments, "--out", str(tmp_path)]) == ExitStatus.INTERRUPTED
    said = capsys.readouterr().err
    command = said[said.index("quorumlog check") :].splitlines()[0]
    assert execute(shlex.split(command)[1:]) == ExitStatus.VALID


@pytest.mark.cluster
def test_many_clients_are_served_where_few_descriptors_are_customary(interrupted_run: Path) -> None:
    history = HistoryReader.open(interrupted_run / "history.parquet")
    assert len({op.process for op in history.ops() if op.type is Outcome.OK}) > MANY_CLIENTS // 2


def test_more_clients_than_there_may_be_descriptors_are_refused_in_one_line(tmp_path: Path) -> None:
    ended = subprocess.run(
        [*RUN, "--concurrency", str(MANY_CLIENTS), "--out", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 512)),
    )
    assert ended.returncode == ExitStatus.USAGE, ended.stderr
    assert "60 clients of 3 nodes take up to 1,244 descriptors, of which this process may have 512" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def pids_of(directory: Path) -> list[int]:
    healed = json.loads((directory / "nemesis.jsonl").read_text().splitlines()[-1])["healed"]
    return [int(text.split()[1]) for text in healed.values()]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--nemesis", "kill,flood"], "no fault 'flood'; there are kill, "),
        (["--nemesis", "kill,partitoin"], "no fault 'partitoin'; did you mean 'partition'?"),
        (["--nemesis", ""], "no fault ''; there are kill, "),
        (["--nemesis", "kill,"], "no fault ''; there are kill, "),
        (["--nemesis", "none,kill"], "'none' cannot be combined with other faults"),
        (["--nemesis", "all,kill"], "'all' cannot be combined with other faults"),
        (["--duration", "inf"], "inf is not a finite number of seconds"),
        (["--duration", "nan"], "nan"),
        (["--rate", "inf"], "inf is not a finite number of operations"),
        (["--nemesis", "partition", "--nodes", "1"], "a partition needs at least 2 nodes"),
        (["--duration", "3"], "3 kinds of faults need at least 9 s"),
        (["--set", "flush=never"], "before-ack | interval | none"),
        (["--set", "fluhs=none"], "did you mean flush"),
        (["--set", "election_timeout_s_min=5"], "election_timeout_s_max"),
        (["--system", "carrier-pigeon"], "raft"),
        (["--workload", "bank"], "log"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused_in_one_line(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["run", "--quick", "--out", str(tmp_path / "runs"), *arguments]) == ExitStatus.USAGE
    told = capsys.readouterr().err
    assert complaint in told
    assert len(told.splitlines()) == 1
    assert not (tmp_path / "runs").exists(), "a refused plan left a directory"


@pytest.mark.parametrize("words", [("run",), ("matrix",), ("scenario", "power-cut")])
def test_a_check_on_spark_that_cannot_be_is_known_before_the_run(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert execute([*words, "--out", str(tmp_path / "runs")]) == ExitStatus.ENVIRONMENT
    (line,) = capsys.readouterr().err.splitlines()
    assert "needs the package pyspark" in line
    assert "add --quick" in line
    assert "pip install 'quorumlog[spark]'" in line
    assert not (tmp_path / "runs").exists(), "a run that cannot be judged left a directory"


@pytest.mark.parametrize("kind", ["loss", "duplicate", "reorder", "corrupt"])
def test_a_fault_of_packets_says_what_it_needs(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "--quick", "--out", str(tmp_path / "runs"), "--nemesis", f"kill,{kind}"]
    assert execute(arguments) == ExitStatus.ENVIRONMENT
    assert f"--nemesis {kind}: {kind} is about packets" in (told := capsys.readouterr().err)
    assert "as root, use --network namespaces" in told
    assert len(told.splitlines()) == 1


def test_without_the_rights_there_is_no_network_of_namespaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces, "lacking", lambda: "needs root (a new network namespace: not permitted)")
    arguments = ["run", "--quick", "--out", str(tmp_path / "runs"), "--network", "namespaces"]
    assert execute(arguments) == ExitStatus.ENVIRONMENT
    assert capsys.readouterr().err.startswith("quorumlog: --network namespaces: needs root")


def test_a_system_runs_in_a_network_that_can_cut_all_of_its_links(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RaftSystem, "networks", (Network.NAMESPACES,))
    monkeypatch.setattr(namespaces, "lacking", lambda: "needs root")
    arguments = ["run", "--quick", "--nemesis", "kill", "--out", str(tmp_path / "runs")]
    assert execute(arguments) == ExitStatus.ENVIRONMENT
    assert capsys.readouterr().err.startswith("quorumlog: --network namespaces: needs root")
    assert execute([*arguments, "--network", "proxies"]) == ExitStatus.USAGE
    assert "links of raft can be cut in namespaces alone" in capsys.readouterr().err


def test_all_means_what_works_here() -> None:
    of_streams, of_packets = (usable(Here(3, network)) for network in Network)
    assert set(of_packets) - set(of_streams) == {"loss", "duplicate", "reorder", "corrupt"}
    assert choose(("all",), Here(3)) == of_streams
    assert {"kill", "pause", "restart", "partition", "flapping", "slow", "throttle", "half-open", "reset"} <= set(
        of_streams
    )
    assert "partition" not in usable(Here(1))


def test_a_power_cut_without_root_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    arguments = ["run", "--quick", "--nemesis", "power", "--out", str(tmp_path / "runs")]
    assert execute(arguments) == ExitStatus.ENVIRONMENT
    told = capsys.readouterr().err
    assert "--nemesis power: a power cut needs a file system of its own, which only root can mount; run as root" in told
    assert len(told.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(volumes.lacking() is not None, reason=volumes.lacking() or "")
def test_what_a_lossy_mode_leaves_of_registers_cannot_be_judged_and_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", "--quick", "--nemesis", "power", "--workload", "register", "--out", str(tmp_path / "runs")]
    assert execute([*arguments, "--set", "flush=interval"]) == ExitStatus.USAGE
    assert "use --workload log" in capsys.readouterr().err


@pytest.mark.parametrize("rule", ["retention_bytes=65536", "retention_s=1"])
def test_what_a_lossy_mode_leaves_of_logs_that_let_records_go_is_refused(rule: str) -> None:
    plan = a_plan("power", "flush=interval", rule)
    with pytest.raises(click.UsageError, match="use flush=before-ack, or no retention"):
        validate(plan)
    for settings in (("flush=before-ack", rule), ("flush=interval",)):
        validate(a_plan("power", *settings))
    validate(a_plan("kill", "flush=interval", rule))


def a_plan(kind: str, *settings: str) -> RunPlan:
    return RunPlan(
        system="raft",
        replication="raft",
        nodes=3,
        duration_s=9.0,
        rate=0,
        concurrency=3,
        kinds=(kind,),
        workload="log",
        settings=settings,
        seed=1,
    )


def test_a_recording_in_which_a_process_does_two_things_at_once_decides_nothing(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "history.parquet") as history:
        for value in (1, 2):
            history.record(
                Op(
                    f=Action.APPEND,
                    type=Outcome.OK,
                    process=0,
                    a=value,
                    offset=value - 1,
                    epoch=1,
                    t_inv=value,
                    t_ret=value + 5,
                )
            )
    plan = a_plan("kill")
    results = check_results(plan, plan.mode(), tmp_path, QUIET, Engine.LOCAL).as_json()
    assert results["valid"] is None
    assert "two operations under way at once" in results["unknown"][0]
    assert results["checks"]["evidence"]["valid"] is None


def test_where_a_log_begins_is_held_against_a_node_unless_a_fault_can_undo_it() -> None:
    assert [a_plan(kind).mode().keep_rule([kind]).starts_stay for kind in ("kill", "power", "damage")] == [
        True,
        False,
        False,
    ]
    assert a_plan("kill", "retention_bytes=65536").mode().keep_rule(["kill"]).may_expire


def test_a_directory_that_cannot_be_made_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert execute(["run", "--quick", "--out", str(tmp_path / "file" / "runs")]) == ExitStatus.ENVIRONMENT
    assert "choose another with --out" in capsys.readouterr().err


def test_a_directory_called_latest_is_named_and_nothing_is_left_next_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "latest").mkdir()
    assert execute(["run", "--quick", "--out", str(tmp_path)]) == ExitStatus.ENVIRONMENT
    told = capsys.readouterr().err
    assert f"cannot make {tmp_path / 'latest'} a link to the run: Is a directory" in told
    assert len(told.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "latest"]


def test_a_file_called_latest_stays_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "latest").write_text("mine")
    assert execute(["run", "--quick", "--out", str(tmp_path)]) == ExitStatus.ENVIRONMENT
    told = capsys.readouterr().err
    assert (
        f"cannot make {tmp_path / 'latest'} a link to the run: File exists; rename or remove {tmp_path / 'latest'}"
        in told
    )
    assert len(told.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "latest"]
    assert (tmp_path / "latest").read_text() == "mine"


def make_results(valid: bool | None, **more: object) -> RunResults:
    document = {
        "valid": valid,
        "acked": 5,
        "lost_acked": 1,
        "duplicated": 0,
        "ops": {"ok": 1, "fail": 2, "info": 3},
        "rto_s": {"max": None},
        "rpo": {"records": 1},
        "lost_allowed": [],
        "latency_ms": {"p50": None, "p99": 2.0},
        "throughput_ops_s": 1.0,
        "faults": [],
        "is_interrupted": False,
        "checks": {"lost": {"valid": valid, "count": 1, "examples": ["value 7 is gone"]}},
        "unknown": ["object 0: too hard"] if valid is None else [],
    }
    return RunResults.of_json({**document, **more})


def test_a_service_that_never_came_back_is_said_in_the_summary() -> None:
    lines = summary(make_results(True, rto_s={"max": None, "unrecovered": 2}), Path("r.html"))
    assert "no write was acknowledged any more after 2 of the faults" in lines
    assert not any("any more" in line for line in summary(make_results(True), Path("r.html")))


def test_an_allowed_loss_is_in_the_verdict_and_never_green() -> None:
    promise = "raft, flush=none: what a majority had not flushed yet may be lost"
    loss = [{"records": 1, "promise": promise, "says": "1 acknowledged record"}]
    results = make_results(True, lost_allowed=loss)
    first = summary(results, Path("r.html"))[0]
    assert first.startswith(
        "VALID for this mode, but 1 of 5 acknowledged records were lost, as flush=none allows   acked 5   lost 1"
    )
    assert colour(results) == "bold yellow"
    assert colour(make_results(True, lost_acked=0)) == "bold green"
    assert (colour(make_results(None)), colour(make_results(False))) == ("bold yellow", "bold red")


def test_the_summary_names_what_was_not_tested_and_how_much_of_the_time_it_served() -> None:
    lines = ["durability: not tested, no power fault", "elections: not tested, no leader was hit"]
    up = {"share": 0.93, "down_s": 2.1, "longest_s": 1.48, "gap_s": 0.25}
    first, second, *_ = summary(make_results(True, not_tested=lines, availability=up), Path("r.html"))
    assert first.endswith(
        "unknown 3   durability: not tested, no power fault   elections: not tested, no leader was hit"
    )
    assert "available 93.00 %, 2.10 s without an acknowledged write" in second


def test_what_has_left_is_reported_next_to_what_is_lost() -> None:
    assert "expired" not in summary(make_results(True), Path("r.html"))[0]
    assert "lost 1   expired 1,234   duplicated 0" in summary(make_results(True, expired=1234), Path("r.html"))[0]


@pytest.mark.parametrize(
    ("valid", "status"), [(True, ExitStatus.VALID), (False, ExitStatus.VIOLATION), (None, ExitStatus.UNKNOWN)]
)
@pytest.mark.parametrize("as_json", [False, True])
def test_the_last_line_of_a_failing_run_repeats_it(
    valid: bool | None, status: ExitStatus, as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert print_summary(make_results(valid), Path("r.html"), "quorumlog run --seed 3", as_json=as_json) == status
    told = capsys.readouterr()
    lines = (told.err if as_json else told.out).splitlines()
    assert (lines[-1] == "quorumlog run --seed 3") == (valid is not True)
    assert any("value 7 is gone" in line for line in lines) == (valid is not True)
    if as_json:
        assert json.loads(told.out) == make_results(valid).as_json()


RETENTION = ["--set", "retention_bytes=1024", "--set", "segment_bytes_max=65536"]
"""Hardly more than one file, of some hundred appends: far less than what comes in the two seconds that a node is down."""


@pytest.mark.cluster
def test_records_leave_during_a_run_and_a_node_that_missed_them_is_reset_to_a_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--duration", "7", "--rate", "400", "--nemesis", "kill", "--seed", "5", *RETENTION]
    arguments += ["--out", str(tmp_path), "--json"]
    assert execute(["run", "--quick", *arguments]) == ExitStatus.VALID
    shown = capsys.readouterr()
    results = json.loads(shown.out.splitlines()[-1])
    assert (results["lost_acked"], results["lost_unexplained"]) == (0, 0)
    assert 0 < results["expired"] < results["acked"], shown.err
    assert results["retention"]["trims"] > 0
    assert results["retention"]["snapshots"] >= 1, shown.err
    assert "was reset to a snapshot" in shown.err
    assert f"expired {results['expired']:,}" in shown.err
    # A check of the run's directory gives the same verdict as the run.
    check = ["check", str(tmp_path / "latest"), "--model", "log", "--json", "--engine", "local"]
    assert execute(check) == ExitStatus.VALID
    assert json.loads(capsys.readouterr().out.splitlines()[-2])["expired"] == results["expired"]


@pytest.mark.campaign
@pytest.mark.cluster
def test_registers_outlive_the_commands_that_made_them(tmp_path: Path) -> None:
    arguments = ["--workload", "register", "--duration", "10", "--concurrency", "24", "--nemesis", "kill,pause"]
    arguments += ["--seed", "5", *RETENTION, "--out", str(tmp_path), "--json"]
    ended = subprocess.run([*RUN, *arguments], capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == ExitStatus.VALID, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["retention"]["trims"] > 0


def test_a_standing_cluster_of_kafka_has_its_documented_times_unless_others_are_given() -> None:
    standing = system_named("kafka").standing_settings
    assert "broker.session.timeout.ms=9000" in standing
    given = ("broker.session.timeout.ms = 2000",)
    assert set(standing) - set(unless_given(standing, given)) == {"broker.session.timeout.ms=9000"}
