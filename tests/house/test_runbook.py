"""The runbook is true: its commands run in its order, on the nodes of the README and on a cluster of brokers."""

import json
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, chdir
from pathlib import Path
from typing import IO, Any

import pytest

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.cluster.ports import ReservedPorts
from jepsen_like.testing.kafka.sync import LocalKafka
from raft.net.certificates import TlsFiles, client_context
from raft.secret_file import read_secret
from tests.house.test_documents import blocks

PAGE = "docs/operations.md"
QUICK = ["--set=heartbeat_s=0.05", "--set=election_timeout_s_min=0.25", "--set=election_timeout_s_max=0.5"]
OFTEN = ["--set=registerNameServerPeriod=1000", "--set=haReconnectInterval=50"]
WHOLE_WITHIN_S = 60.0
KAFKA = [block for block in blocks(PAGE, "sh") if "9092" in block]
ROCKETMQ = [block for block in blocks(PAGE, "sh") if "9876" in block]


def test_the_steps_that_replace_secret_and_authority_run_as_their_pages_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (secret,) = (block for block in blocks("docs/security.md", "sh") if "--add" in block)
    assert execute(["secret", "cluster.secret"]) == ExitStatus.VALID
    before = read_secret("cluster.secret").now()
    for line in secret.splitlines():
        assert line.startswith("#") or execute(shlex.split(line)[1:]) == ExitStatus.VALID, line
    assert read_secret("cluster.secret").now().text != before.text
    (authority,) = (block for block in blocks("docs/tls.md", "sh") if "both.pem" in block)
    assert execute(["ca", "certs"]) == ExitStatus.VALID
    made, joined = (line for line in authority.splitlines() if not line.startswith("#"))
    assert execute(shlex.split(made)[1:]) == ExitStatus.VALID
    subprocess.run(joined, shell=True, check=True, cwd=tmp_path)
    assert len(client_context(TlsFiles(authority="both.pem")).get_ca_certs()) == 2


class Operator:
    """Carries out the blocks of the page: a line that starts a node, or moves or copies its directory, stops it first.

    `status` waits for a leader, and at the end of a block until no node lacks anything, as the page asks for.
    """

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self.nodes: dict[str, subprocess.Popen[str]] = {}
        self.shown = ""
        """The output of the newest command."""
        self._directories: dict[str, str] = {}
        self._capsys = capsys
        self._readers: dict[str, threading.Thread] = {}

    def carry_out(self, block: str) -> None:
        lines = block.splitlines()
        for number, line in enumerate(lines, 1):
            match shlex.split(line):
                case ["quorumlog", "node", "--id", node, *rest]:
                    self.stop(node)
                    self._start(node, ["raft.node", "--id", node, *rest, *QUICK], "started")
                case ["python", "-m", "rocketmq_compat.process", "nameserver", *rest]:
                    self._start("names", ["rocketmq_compat.process", "nameserver", *rest], "listening")
                case ["python", "-m", "rocketmq_compat.process", "broker", *rest]:
                    self.stop(name := rest[rest.index("--config") + 1])
                    self._start(name, ["rocketmq_compat.process", "broker", *rest, *OFTEN], "listening")
                case [("mv" | "cp") as program, *flags, source, target]:
                    for node in [node for node, directory in self._directories.items() if directory == source]:
                        self.stop(node)
                    subprocess.run([program, *flags, source, target], cwd=self.directory, check=True)
                case ["quorumlog", "status", *rest]:
                    self._wait_until(["status", *rest], is_whole if number == len(lines) else lambda rows: True)
                case ["quorumlog", "brokers", *rest]:
                    self._wait_until(["brokers", *rest], are_level)
                case ["quorumlog", *words]:
                    with chdir(self.directory):
                        assert execute(words) == ExitStatus.VALID, line
                    self.shown = self._capsys.readouterr().out
                case _:
                    pytest.fail(f"no operator knows {line}")

    def _start(self, node: str, words: list[str], event: str) -> None:
        command = [sys.executable, "-m", *words]
        running = subprocess.Popen(command, cwd=self.directory, stdout=subprocess.PIPE, text=True)
        self.nodes[node] = running
        self._directories[node] = words[words.index("--data") + 1] if "--data" in words else ""
        assert running.stdout is not None
        assert any(json.loads(line)["event"] == event for line in running.stdout), f"{node} does not start"
        self._readers[node] = threading.Thread(target=drain, args=(running.stdout,), daemon=True)
        self._readers[node].start()

    def stop(self, node: str) -> None:
        running = self.nodes.pop(node, None)
        if running is not None:
            self._directories.pop(node)
            running.send_signal(signal.SIGTERM)
            running.wait(timeout=30)
            self._readers.pop(node).join()
            assert running.returncode == 0

    def stop_all(self) -> None:
        for node in list(self.nodes):
            self.stop(node)

    def _wait_until(self, words: list[str], suffices: Callable[[list[dict[str, Any]]], bool]) -> None:
        deadline = time.monotonic() + WHOLE_WITHIN_S
        while True:
            status = execute([*words, "--json"])
            rows = [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]
            if status == ExitStatus.VALID and suffices(rows):
                return
            assert time.monotonic() < deadline, f"quorumlog {shlex.join(words)}: {rows}"


def drain(output: IO[str]) -> None:
    """Reads what a process prints, so that it never waits for a reader."""
    with output:
        output.read()


def is_whole(rows: list[dict[str, Any]]) -> bool:
    """Returns True if all nodes answer, without a note, and are as far as each other."""
    lacking = [row for row in rows if "error" in row or row["unheard"] or row["floor_index"]]
    return not lacking and len({row["committed_end"] for row in rows}) == 1


def are_level(rows: list[dict[str, Any]]) -> bool:
    """Returns True if a master and its slave answer, without a note, and the slave lacks nothing."""
    roles = sorted(row["role"] for row in rows)
    return roles == ["slave", "sync_master"] and all(row["note"] is None and row["behind"] == 0 for row in rows)


@pytest.mark.campaign
@pytest.mark.cluster
def test_the_runbook_for_raft_groups_can_be_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (begin,) = [block for block in blocks("README.md", "sh") if "quorumlog node" in block]
    page = [block for block in blocks(PAGE, "sh") if block not in (*KAFKA, *ROCKETMQ)]
    named = sorted(set(re.findall(r"\b40\d\d\b", "".join(page))))
    operator = Operator(tmp_path, capsys)
    with ReservedPorts(len(named)) as free, ExitStack() as stack:
        stack.callback(operator.stop_all)
        for block in [begin, *page]:
            for port, other in zip(named, free.ports, strict=True):  # the reader's ports may be taken here
                block = block.replace(port, str(other))
            operator.carry_out(block)
    assert "a record of the operator" in operator.shown
    assert "before the copy" in operator.shown


@pytest.mark.campaign
@pytest.mark.cluster
def test_the_runbook_for_rocketmq_can_be_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    operator = Operator(tmp_path, capsys)
    files = blocks(PAGE, "properties")
    named = sorted(set(re.findall(r":(9876|109\d\d)\b", "".join(ROCKETMQ))))
    with ReservedPorts(len(named)) as free, ExitStack() as stack:
        stack.callback(operator.stop_all)

        def here(text: str) -> str:
            for port, other in zip(named, free.ports, strict=True):  # the reader's ports may be taken here
                text = text.replace(f":{port}", f":{other}")
            return text

        for file in files:
            (tmp_path / file.splitlines()[0].removeprefix("# ")).write_text(here(file))
        for block in ROCKETMQ:
            operator.carry_out(here(block))
    assert "orders" in operator.shown or "queue" in operator.shown


def test_the_runbook_for_kafka_can_be_followed(capsys: pytest.CaptureFixture[str]) -> None:
    with LocalKafka.open() as kafka:
        for block in KAFKA:
            for line in block.replace("127.0.0.1:9092", kafka.bootstrap_servers).splitlines():
                program, *words = shlex.split(line)
                assert (program, execute(words)) == ("quorumlog", ExitStatus.VALID), line
    assert "under replicated" in capsys.readouterr().out
