"""The members of a raft group by the command line, on real processes: each end has its status, reason and next command."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs
import pytest

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.cluster.ports import ReservedPorts

pytestmark = pytest.mark.cluster

QUICK = ["--set=heartbeat_s=0.05", "--set=election_timeout_s_min=0.25", "--set=election_timeout_s_max=0.5"]
Run = Callable[..., tuple[int, list[dict[str, object]], str]]


@attrs.define
class Nodes:
    """Processes of one group: 1, 2 and 3 begin it."""

    directory: Path
    ports: Sequence[int]
    running: dict[int, "subprocess.Popen[str]"] = attrs.field(factory=dict)

    def address(self, node: int) -> str:
        return f"127.0.0.1:{self.ports[node]}"

    def start(self, *nodes: int, joins: bool = False) -> None:
        members = (1, 2, 3)
        for node in nodes:
            peers = [f"--peer={other}={self.address(other)}" for other in members if other != node]
            flags = ["--id", str(node), "--listen", self.address(node), "--data", str(self.directory / str(node))]
            more = ["--joins"] if joins else []
            command = [sys.executable, "-m", "raft.node", "--cluster-id", "c", *flags, *peers, *more, *QUICK]
            self.running[node] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for node in nodes:
            lines = self.running[node].stdout
            assert lines is not None
            assert any(json.loads(line)["event"] == "started" for line in lines)

    def kill(self, node: int) -> None:
        running = self.running.pop(node)
        running.kill()
        running.communicate()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with ReservedPorts(7) as free:
        made = Nodes(tmp_path_factory.mktemp("nodes"), free.ports)
        try:
            made.start(1, 2, 3)
            made.start(4, joins=True)
            yield made
        finally:
            for node in list(made.running):
                made.kill(node)


@pytest.fixture
def run(nodes: Nodes, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command. Returns its status, its rows, and what it prints besides."""

    def call(*words: str, within_s: float = 20) -> tuple[int, list[dict[str, object]], str]:
        cluster = ",".join(nodes.address(node) for node in nodes.running)
        status = execute([*words, "--json", "--cluster", cluster, "--cluster-id", "c", "--within", str(within_s)])
        shown = capsys.readouterr()
        return status, [json.loads(line) for line in shown.out.splitlines()], shown.err

    return call


def kinds(rows: list[dict[str, object]]) -> dict[object, object]:
    return {row["node"]: row["member"] for row in rows}


VOTERS = {1: "voter", 2: "voter", 3: "voter"}


def test_a_request_that_does_not_fit_changes_nothing_and_names_the_next_command(run: Run, nodes: Nodes) -> None:
    for words, reason in (
        (("member", "add", "5"), "node 5 is no member yet: give its address, as 5=HOST:PORT"),
        (("member", "add", f"5={nodes.address(4)}"), "node 4 answers"),
        (("member", "add", f"5={nodes.address(5)}"), "start it there: quorumlog node --id 5 --joins"),
        (("member", "replace", "7", f"4={nodes.address(4)}"), "node 7 is no member, those are 1, 2, 3"),
        (("transfer", "4"), "node 4 is no voter; see who is there: quorumlog member list --cluster"),
    ):
        status, rows, complaint = run(*words)
        assert (status, rows) == (ExitStatus.NOT_DONE, []), words
        assert reason in complaint
    assert run("member", "replace", "2", "2")[0] == ExitStatus.USAGE
    status, rows, _ = run("member", "list")
    assert (status, kinds(rows)) == (ExitStatus.VALID, VOTERS)
    assert {row["address"] for row in rows} == {nodes.address(node) for node in (1, 2, 3)}


def test_the_node_that_is_asked_for_leads(run: Run) -> None:
    for node in (3, 2, 2):
        status, rows, _ = run("transfer", str(node))
        assert status == ExitStatus.VALID
        assert [row["node"] for row in rows if row["leads"]] == [node]


def test_a_voter_becomes_a_learner_and_a_voter_again(run: Run) -> None:
    for _ in range(2):
        status, rows, _ = run("member", "demote", "2")
        assert (status, kinds(rows)) == (ExitStatus.VALID, {**VOTERS, 2: "learner"})
    status, rows, _ = run("member", "add", "2")
    assert (status, kinds(rows)) == (ExitStatus.VALID, VOTERS)


def test_a_node_is_replaced_by_one_that_has_caught_up_and_each_command_may_be_repeated(run: Run, nodes: Nodes) -> None:
    assert run("append", *(f"record {number}" for number in range(50)))[0] == ExitStatus.VALID
    new = f"4={nodes.address(4)}"
    for _ in range(2):
        status, rows, _ = run("member", "add", new, "--learner")
        assert (status, kinds(rows)) == (ExitStatus.VALID, {**VOTERS, 4: "learner"})
    for number in range(2):
        status, rows, said = run("member", "replace", "1", new)
        assert (status, kinds(rows)) == (ExitStatus.VALID, {2: "voter", 3: "voter", 4: "voter"})
        assert ("node 1 has left the group: stop it" in said) == (number == 0)
    nodes.kill(1)
    assert [row["record"] for row in run("read", "--count", "1")[1]] == ["record 0"]
    status, rows, said = run("member", "remove", "1")
    assert (status, kinds(rows)) == (ExitStatus.VALID, {2: "voter", 3: "voter", 4: "voter"})
    assert "node 1 is no member" in said


def test_a_node_that_does_not_catch_up_stays_a_learner_and_is_named(run: Run, nodes: Nodes) -> None:
    nodes.start(5, joins=True)
    assert run("member", "add", f"5={nodes.address(5)}", "--learner")[0] == ExitStatus.VALID
    nodes.kill(5)
    assert run("append", *(f"more {number}" for number in range(50)))[0] == ExitStatus.VALID
    status, rows, complaint = run("member", "add", "5", within_s=3)
    assert (status, rows) == (ExitStatus.NOT_DONE, [])
    assert "it gets no further, and stays a learner: start node 5 if it is not up" in complaint
    assert "then go on: quorumlog member add 5 --cluster" in complaint
    nodes.start(5, joins=True)
    status, rows, said = run("member", "add", "5")
    assert (status, kinds(rows)[5]) == (ExitStatus.VALID, "voter")
    assert "node 5 has " in said or "node 5 has not answered" in said
    status, rows, _ = run("member", "remove", "5")
    assert (status, 5 in kinds(rows)) == (ExitStatus.VALID, False)


def test_a_voter_that_lost_its_directory_is_counted_again_once_it_has_the_log(run: Run, nodes: Nodes) -> None:
    assert run("transfer", "4")[0] == ExitStatus.VALID  # node 3 does not know node 4 by its settings
    nodes.kill(3)
    shutil.rmtree(nodes.directory / "3")
    nodes.start(3)
    status, rows, said = run("member", "add", "3")
    assert (status, kinds(rows)) == (ExitStatus.VALID, {2: "voter", 3: "voter", 4: "voter"}), said
    assert "node 3 is a voter\n" in said


def test_without_a_leader_nothing_is_changed_and_the_nodes_to_start_are_counted(run: Run, nodes: Nodes) -> None:
    nodes.kill(2)
    nodes.kill(3)
    for words in (("member", "remove", "4"), ("transfer", "4"), ("member", "list")):
        status, rows, complaint = run(*words, within_s=0.3)
        assert (status, rows) == (ExitStatus.NOT_DONE, [])
        assert "no node leads" in complaint
