"""A cluster for clients of one's own: up, broken from another process, healed, ended; with the toy system and with raft."""

import contextlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.cluster.process import process_state
from jepsen_like.run.fault_desk import ask, short_address
from tests.jepsen_like.systems.test_toy import REGISTERED, ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(90)]
LINE_WITHIN_S = 40.0


def start_command(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", REGISTERED, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@contextlib.contextmanager
def up(data: Path, system: str, nodes: int = 3, *words: str) -> Iterator[dict[int, tuple[str, int]]]:
    """A cluster that is up, as the addresses in its one line; ended by Ctrl-C."""
    running = start_command("up", "--system", system, "--nodes", str(nodes), "--data", str(data), *words)
    try:
        assert running.stdout is not None
        readable, _, _ = select.select([running.stdout], [], [], LINE_WITHIN_S)
        line = running.stdout.readline().strip() if readable else ""
        name, _, addresses = line.partition("=")
        assert name == "nodes", (line, running.poll())
        split = [address.rpartition(":") for address in addresses.split(",")]
        yield {node: (host, int(port)) for node, (host, _, port) in enumerate(split, start=1)}
        running.send_signal(signal.SIGINT)
        rest, told = running.communicate(timeout=30)
        assert rest == ""
        assert running.returncode == ExitStatus.VALID, told
        assert "Traceback" not in told
    finally:
        running.kill()
        running.wait()


def fault(data: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Gives the command in this process, which is another one than the cluster's."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = execute(["fault", *words, "--data", str(data)])
    return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())


def toy_answers(address: tuple[str, int]) -> bool:
    with contextlib.suppress(OSError, ValueError), socket.create_connection(address, timeout=1) as client:
        client.sendall(b'{"do": "metadata"}\n')
        return bool(json.loads(client.makefile().readline()))
    return False


def pids(data: Path) -> dict[int, int]:
    told = ask(data, {"do": "status"})["told"]
    words = [line.split() for line in told if " pid " in line]
    return {int(name[1:-1]): int(pid) for name, _, pid, *_ in words}


def test_the_cluster_is_broken_and_healed_from_another_terminal(tmp_path: Path) -> None:
    data = tmp_path / ("deep" * 20) / "up"
    with up(data, "toy") as addresses:
        assert all(toy_answers(address) for address in addresses.values())
        before = pids(data)
        killed = fault(data, "kill", "--target", "leader")
        assert killed.returncode == ExitStatus.VALID, killed.stderr
        assert f"n1: pid {before[1]} dead" in killed.stdout
        assert not toy_answers(addresses[1])
        paused = fault(data, "pause", "--node", "3")
        assert f"n3: pid {before[3]} state T" in paused.stdout
        healed = fault(data, "heal")
        assert "healed: kill of n1, pause of n3" in healed.stdout
        assert process_state(before[3]) != "T"
        assert pids(data)[1] != before[1]
        assert all(toy_answers(address) for address in addresses.values())
    assert [process_state(pid) for pid in before.values()] == [None] * 3
    with up(data, "toy") as addresses:  # again, on the same data
        assert toy_answers(addresses[2])


def test_a_fault_with_a_time_heals_by_itself(
    toy_up: Path, toy_cluster: tuple[Path, dict[int, tuple[str, int]]]
) -> None:
    assert fault(toy_up, "partition", "--node", "1", "--hold", "0.4").returncode == ExitStatus.VALID
    deadline = time.monotonic() + 20
    while any("holds:" in line for line in ask(toy_up, {"do": "status"})["told"]):
        assert time.monotonic() < deadline
        os.sched_yield()
    assert toy_answers(toy_cluster[1][1])


def test_a_wiped_node_begins_with_nothing(toy_up: Path) -> None:
    log = toy_up / "nodes/2/data/00.log"
    assert log.exists()
    assert "bytes removed" in fault(toy_up, "wipe", "--node", "2").stdout
    assert not list(log.parent.iterdir())
    fault(toy_up, "heal")
    assert log.exists()


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"do": "fault", "kind": "kil"}, "no fault 'kil'"),
        ({"do": "fault", "kind": "kill", "nodes": [9]}, "no node 9"),
        ({"do": "fault", "kind": "kill", "target": "halves"}, "a kill has no target halves"),
        ({"do": "fault", "kind": "kill", "scope": "elsewhere"}, "'elsewhere' has no leader"),
        ({"do": "fault", "kind": "power"}, "start it with quorumlog up --faults power"),
        ({"do": "fault", "kind": "rotate", "nodes": [1]}, "a rotate concerns all nodes"),
        ({"do": "fault", "kind": "rotate", "target": "one"}, "a rotate has no target one; there are all"),
        ({"do": "fault", "kind": "rotate"}, "neither a secret nor certificates"),
        ({"do": "fault", "kind": "partition", "nodes": [1, 2, 3]}, "has no other side"),
        ({"do": "fault", "nodes": "x"}, "not a fault"),
        ({"do": "fault", "kind": "kill", "hold_s": "nan"}, "cannot hold for nan s"),
        ({"do": "fault", "kind": "kill", "hold_s": -1}, "cannot hold for -1 s"),
        ({"do": "fault", "kind": "kill", "hold_s": 1e999}, "cannot hold for inf s"),
        ({"do": "fault", "kind": "kill", "nodes": [1e999]}, "not a fault"),
        ({"do": "fault", "kind": "kill", "nodes": 7}, "not a fault"),
        ({"do": "fault", "kind": ["kill"], "target": {}}, "no fault"),
        ({"do": ["fault"]}, "no request ['fault']"),
        ({"do": "dance"}, "no request 'dance'"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(toy_up: Path, request_: dict[str, Any], words: str) -> None:
    before = pids(toy_up)
    assert words in ask(toy_up, request_)["error"]
    assert pids(toy_up) == before


@pytest.mark.parametrize("line", [b"[" * 60_000, b"\xff\xfe", b"null", b'"do"', b"{" * 10, b'{"do": 1e999}'])
def test_a_line_that_is_no_request_is_refused_and_ends_nothing(toy_up: Path, line: bytes) -> None:
    before = pids(toy_up)
    with short_address(toy_up) as address, socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(address)
        client.sendall(line + b"\n")
        assert b'"error"' in client.makefile("rb").readline()
    assert pids(toy_up) == before


@pytest.fixture(scope="module")
def toy_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[int, tuple[str, int]]]]:
    data = tmp_path_factory.mktemp("up") / "data"
    with up(data, "toy") as addresses:
        yield data, addresses


@pytest.fixture
def toy_up(toy_cluster: tuple[Path, dict[int, tuple[str, int]]]) -> Path:
    return toy_cluster[0]


def test_where_no_cluster_is_up_the_command_that_starts_it_is_named(tmp_path: Path) -> None:
    ended = fault(tmp_path / "none", "kill")
    assert ended.returncode == ExitStatus.ENVIRONMENT
    assert "run: quorumlog up --data" in ended.stderr


@pytest.mark.campaign
def test_a_kind_that_a_system_does_not_take_is_refused_with_the_reason(tmp_path: Path) -> None:
    with up(tmp_path / "up", "raft"):
        ended = fault(tmp_path / "up", "wipe")
        assert ended.returncode == ExitStatus.UNKNOWN
        assert "wipe is not done to raft: a voter without its log" in ended.stderr
        taken = start_command("up", "--system", "raft", "--nodes", "3", "--data", str(tmp_path / "up"))
        _, told = taken.communicate(timeout=30)
        assert taken.returncode == ExitStatus.ENVIRONMENT
        assert "is up in" in told


def test_the_directory_of_another_cluster_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter").write_text("dear")
    assert execute(["up", "--system", "raft", "--data", str(tmp_path)]) == ExitStatus.ENVIRONMENT
    assert "holds something else" in capsys.readouterr().err
