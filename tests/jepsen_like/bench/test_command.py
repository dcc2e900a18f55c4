"""The whole command in short: real nodes, ours alone, every kind of line it can say."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peers import command
from jepsen_like.bench import figures, grown, measurement, systems
from jepsen_like.bench.command_options import ending_as_by_ctrl_c
from jepsen_like.bench.conversation import LOADS
from jepsen_like.bench.figures import Failover, Throughput
from jepsen_like.bench.grown import measure_grown
from jepsen_like.bench.limits import DISK, ECHO, IN_PLACE
from jepsen_like.bench.own_cluster import DURABLE, QuorumlogCluster
from jepsen_like.bench.processes import until
from jepsen_like.bench.sections import RaftMeasurement
from jepsen_like.cli import ExitStatus, execute

pytestmark = pytest.mark.cluster
PEERS = str(command.peers.name)
"""The subcommand that a clone adds."""


def children() -> set[int]:
    """The processes that this one has started and not reaped."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


@pytest.mark.campaign
@pytest.mark.timeout(180)
def test_a_short_run_measures_ours_and_the_limits_and_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    output, data, before = tmp_path / "out" / "raft.json", tmp_path / "data", children()
    arguments = ["bench", PEERS, "--only", "throughput,failover", "--systems", "quorumlog,etcd", "--repeats", "1"]
    arguments += ["--seconds", "0.1", "--kills", "1", "--pauses", "1"]
    assert execute([*arguments, "--directory", str(data), "--output", str(output)]) == ExitStatus.VALID
    said = capsys.readouterr()
    assert "durable appends" in said.out or "durable records/s" in said.out
    assert "etcd not measured: `apt-get install etcd-server`" in said.err
    found = figures.load(output)
    loads = {load.key for load in LOADS}
    for system in ("quorumlog", DISK, IN_PLACE, ECHO):
        rows = [figure for figure in found.figures if isinstance(figure, Throughput) and figure.system == system]
        assert {row.load for row in rows} == loads
        assert all(row.requests_s > 0 and 0 < row.p50_ms <= row.p99_ms for row in rows)
    faults = [figure for figure in found.figures if isinstance(figure, Failover)]
    assert [(figure.fault, len(figure.seconds)) for figure in faults] == [("kill", 1), ("pause", 1)]
    assert {one.section for one in found.not_measured} == {"throughput", "failover"}
    assert list(data.iterdir()) == []
    assert children() == before


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(each, marks=pytest.mark.campaign) for each in (signal.SIGHUP, signal.SIGINT))],
)
def test_asked_to_end_it_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jepsen_like.cli", "bench", "raft", "--only", "failover"]
    command += ["--systems", "quorumlog", "--directory", str(tmp_path)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # these tests may be run by `nohup`
    ) as measuring:
        until(lambda: len(list(tmp_path.glob("bench-*/*/*/data/*.log"))) == 3, "data of three nodes")
        measuring.send_signal(number)
        _, said = measuring.communicate(timeout=60)
    assert (measuring.returncode, said.strip()) == (ExitStatus.INTERRUPTED, "quorumlog: interrupted")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_its_caller_had_it_ignore_does_not_end_it(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with ending_as_by_ctrl_c():
            signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.timeout(120)
def test_a_loss_of_ours_is_a_violation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QuorumlogCluster, "count_written", lambda cluster: 0)
    monkeypatch.setattr(systems, "COUNTED_WITHIN_S", 0.1)
    arguments = ["bench", "raft", "--only", "failover", "--systems", "quorumlog", "--kills", "1", "--pauses", "0"]
    assert execute([*arguments, "--directory", str(tmp_path / "data")]) == ExitStatus.VIOLATION
    # Each node has a write under way when the next leader answers: one at least is acknowledged.
    assert re.search(r"\b[1-9] records were acknowledged, 0 are there", capsys.readouterr().err)
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.timeout(120)
def test_memory_and_restarts_are_of_the_log_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grown, "SLICE_S", 0.1)
    told: list[str] = []
    with DURABLE.cluster(tmp_path / "cluster") as cluster:
        assert isinstance(cluster, QuorumlogCluster)
        sizes = {"appends": 1_000, "log_bytes": 2**18}
        memory, restart = measure_grown(cluster, "quorumlog", "r1", **sizes, restarts=1, told=told.append)
    assert isinstance(memory, figures.Memory)
    assert memory.appends >= 1_000
    assert len(memory.before) == len(memory.after) == 3
    assert isinstance(restart, figures.RestartFigure)
    assert restart.log_bytes >= 2**18
    assert 0 < restart.serving_s[0] <= restart.caught_up_s[0]
    assert told


def test_wrong_usage_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["bench", "raft", "--only", "speed"]) == ExitStatus.USAGE
    other = tmp_path / "package.json"
    other.write_text(json.dumps({"format": 99}))
    assert execute(["bench", "raft", "--output", str(other)]) == ExitStatus.USAGE
    assert "cannot be added to" in capsys.readouterr().err
    assert other.read_text() == json.dumps({"format": 99})


def test_nothing_measured_is_said_without_an_empty_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", PEERS, "--only", "restart", "--systems", "etcd", "--directory", str(tmp_path)]
    assert execute(arguments) == ExitStatus.VALID
    said = capsys.readouterr().out
    assert said.startswith("Nothing was measured: ")
    assert "Answers" not in said


def test_figures_of_another_machine_are_not_added_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "raft.json"
    figures.save(figures.Document({**figures.machine(tmp_path), "cores": "4096"}), output)
    arguments = ["bench", "raft", "--directory", str(tmp_path / "data"), "--output", str(output)]
    assert execute(arguments) == ExitStatus.USAGE
    assert "of another machine, name another file" in capsys.readouterr().err
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize(
    "wrong", [{"machine": []}, {"machine": {}}, {"machine": {"cores": "2"}}, {"systems": []}, {"format": 99}], ids=str
)
def test_a_file_of_another_form_is_not_added_to(
    wrong: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "raft.json"
    figures.save(figures.Document(figures.machine(tmp_path / "data")), output)
    output.write_text(json.dumps({**json.loads(output.read_text()), **wrong}))
    arguments = ["bench", "raft", "--directory", str(tmp_path / "data"), "--output", str(output)]
    assert execute(arguments) == ExitStatus.USAGE
    assert "cannot be added to: it does not hold figures of this format" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--directory", "--output"])
@pytest.mark.parametrize("place", ["/proc/none/figures", "/proc/figures", "file/figures"])
def test_a_place_that_cannot_be_written_to_is_said_before_anything_is_measured(
    option: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: RaftMeasurement) -> None:
        raise AssertionError("measured")

    monkeypatch.setattr(RaftMeasurement, "run", fail)
    (tmp_path / "file").touch()
    arguments = ["bench", "raft", "--directory", str(tmp_path / "data"), option, str(tmp_path / place)]
    assert execute(arguments) == ExitStatus.ENVIRONMENT
    told = capsys.readouterr().err
    assert told.startswith(f"quorumlog: {option}: ")
    assert "cannot be written to" in told
    assert len(told.splitlines()) == 1


def test_figures_that_find_no_room_are_shown_and_the_file_is_left_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk filled up while it was measured."""

    def full(document: figures.Document, path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def keep_memory(one: RaftMeasurement) -> None:
        memory = figures.Memory("quorumlog", "now", 12_345, before=(1, 1, 1), after=(2, 2, 2))
        one._found.figures.append(memory)
        one._keep()

    output = tmp_path / "raft.json"
    figures.save(figures.Document(figures.machine(tmp_path)), output)
    before = output.read_text()
    monkeypatch.setattr(measurement, "save", full)
    monkeypatch.setattr(RaftMeasurement, "run", keep_memory)
    arguments = ["bench", "raft", "--directory", str(tmp_path / "data"), "--output", str(output)]
    assert execute(arguments) == ExitStatus.ENVIRONMENT
    told = capsys.readouterr()
    assert "No space left on device" in told.err.splitlines()[-1]
    assert "make room" in told.err.splitlines()[-1]
    assert "after 12,345 appends" in told.out
    assert output.read_text() == before


def test_figures_replace_what_they_are_written_to_and_nothing_else(tmp_path: Path) -> None:
    document = figures.Document(figures.machine(tmp_path))
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "raft.part").write_text("mine")
    (tmp_path / "raft.json").symlink_to(Path("kept") / "raft.json")
    (tmp_path / "raft.part").write_text("mine")
    for _ in range(2):
        figures.save(document, tmp_path / "raft.json")
        assert (tmp_path / "raft.json").is_symlink()
        assert figures.load(tmp_path / "kept" / "raft.json") == document
    for place in (tmp_path, tmp_path / "kept"):
        assert sorted(path.name for path in place.glob("raft.*")) == ["raft.json", "raft.part"]
        assert (place / "raft.part").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 3
