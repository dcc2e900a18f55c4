"""Node processes: started by a command, stopped by signals, killed without mercy."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from click.testing import CliRunner

from log.config import LogConfig
from raft.client import Client, Connection
from raft.errors import RaftError
from raft.node import node as node_command
from tests.ports import free_ports
from tests.raft.shell.nodes import CLUSTER_ID

ROOT = Path(__file__).parents[3]


@attrs.define
class NodeProcess:
    """A started node; its events are read as they come."""

    process: "subprocess.Popen[str]"
    events: list[dict[str, Any]] = attrs.field(factory=list)

    def wait_for(self, event: str) -> dict[str, Any]:
        """The next event of this name."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))
            if self.events[-1]["event"] == event:
                return self.events[-1]
        raise AssertionError(f"the node ended without {event}: {self.events}")

    def end(self) -> tuple[int, str]:
        """Wait for the end: exit status and stderr."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.events += map(json.loads, self.process.stdout)
        error = self.process.stderr.read()
        return self.process.wait(10), error


def flags(node_id: int, ports: dict[int, int], directory: Path, *more: str) -> list[str]:
    peers = [f"--peer={peer}=127.0.0.1:{port}" for peer, port in ports.items() if peer != node_id]
    return [
        f"--id={node_id}",
        f"--cluster-id={CLUSTER_ID}",
        f"--listen=127.0.0.1:{ports[node_id]}",
        f"--data={directory / str(node_id)}",
        *peers,
        *more,
    ]


@contextmanager
def node_process(arguments: list[str]) -> Iterator[NodeProcess]:
    command = [sys.executable, "-m", "raft.node", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield NodeProcess(process)
        finally:
            process.kill()


def test_sigterm_stops_a_node_cleanly(tmp_path: Path) -> None:
    ports = {1: free_ports(1)[0]}
    with node_process(flags(1, ports, tmp_path)) as node:
        started = node.wait_for("started")
        assert started["address"] == f"127.0.0.1:{ports[1]}"
        assert started["t_ns"] < time.monotonic_ns()
        role = node.wait_for("role")
        assert role.keys() == {"t_ns", "time", "event", "role", "term", "leader"}
        while role["role"] != "leader":  # later it changes no role, so that nothing comes between the last two events
            role = node.wait_for("role")
        node.process.send_signal(signal.SIGTERM)
        assert node.end() == (0, "")
        assert [event["event"] for event in node.events[-2:]] == ["stopping", "stopped"]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        pytest.param(["--set", "hartbeat_s=1"], "did you mean heartbeat_s", id="an unknown setting"),
        pytest.param(["--set", "heartbeat_s=soon"], "heartbeat_s is a number", id="a wrong value"),
        pytest.param(["--bogus"], "No such option", id="an unknown flag"),
        pytest.param(["--peer=2"], "not of the form ID=HOST:PORT", id="a peer without an address"),
        pytest.param(["--peer=2=127.0.0.1:99999"], "not of the form HOST:PORT", id="a port out of range"),
        pytest.param(["--peer=1=127.0.0.1:1"], "which is this node itself", id="itself as a peer"),
        pytest.param(["--peer=2=h:1", "--peer=2=h:2"], "names node 2 twice", id="a peer twice"),
        pytest.param(["--peer=2=127.0.0.1:1"], "for node 2, where node 1 is", id="a peer where it listens itself"),
        pytest.param(["--peer=2=h:1", "--peer=3=h:1"], "for node 3, where node 2 is", id="two peers at one place"),
        pytest.param(["--advertise=7=h:1"], "for which there is no --peer", id="an address of a stranger"),
        pytest.param(["--cluster-id="], "--cluster-id has 1 to", id="an empty cluster id"),
        pytest.param(["--listen=0.0.0.0:1"], "Run: quorumlog secret FILE", id="beyond loopback without a secret"),
        pytest.param(["--secret-file=none"], "cannot read the secret in none", id="a secret that is not there"),
        pytest.param(["--tls-certificate=none.pem"], "none.pem: No such file", id="a certificate that is not there"),
        pytest.param(["--tls-authority=ca.pem"], "go with --tls-certificate", id="an authority alone"),
        pytest.param(["--state-machine=abacus"], "'abacus' is not 'register'", id="an unknown state machine"),
    ],
)
def test_a_wrong_command_line_is_named_in_one_line(tmp_path: Path, more: list[str], line: str) -> None:
    result = CliRunner().invoke(node_command, [*flags(1, {1: 1}, tmp_path), *more])
    assert result.exit_code == 2
    assert line in result.output
    assert not (tmp_path / "1").exists()


def test_the_process_ends_with_the_status_of_its_command(tmp_path: Path) -> None:
    with node_process(["--bogus"]) as node:
        status, error = node.end()
    assert status == 2
    assert "No such option" in error
    assert "Traceback" not in error


def expect_refusal(arguments: list[str], line: str) -> None:
    with node_process(arguments) as node:
        status, error = node.end()
    assert status == 4, error
    assert line in error
    assert len(error.splitlines()) == 1
    assert node.events[-1]["event"] == "failed"
    assert line in node.events[-1]["reason"]


def test_a_busy_port_is_refused_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        expect_refusal(flags(1, {1: port}, tmp_path), f"cannot listen on 127.0.0.1:{port}: Address already in use")


def test_a_directory_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    expect_refusal(flags(1, {1: free_ports(1)[0]}, tmp_path / "file"), f"cannot use --data {tmp_path}/file/1")


def test_a_node_whose_reader_went_away_serves_on_and_stops_when_asked(tmp_path: Path) -> None:
    ports = {1: free_ports(1)[0]}
    with node_process(flags(1, ports, tmp_path)) as node:
        node.wait_for("started")
        assert node.process.stdout is not None
        node.process.stdout.close()
        with socket.create_connection(("127.0.0.1", ports[1])) as connection:
            connection.sendall(b"nonsense whose end is to be told")
            assert connection.recv(4096)
        node.process.terminate()
        assert node.process.wait(10) == 0


def test_a_node_whose_reader_stands_still_serves_on_and_says_later_what_it_could_not_say(tmp_path: Path) -> None:
    ports = {1: free_ports(1)[0]}
    with node_process(flags(1, ports, tmp_path)) as node:
        node.wait_for("started")
        assert node.process.stdout is not None
        fcntl.fcntl(node.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        for _ in range(100):  # each is an event, and 4 KiB hold but a few
            with socket.create_connection(("127.0.0.1", ports[1])) as connection:
                connection.sendall(b"nonsense whose end is to be told")
                connection.settimeout(20)
                assert connection.recv(4096)
        told = len(os.read(node.process.stdout.fileno(), 1 << 16).splitlines())
        assert told < 100
        node.process.terminate()
        status, _ = node.end()
        assert status == 0
        dropped = sum(event.get("dropped", 0) for event in node.events)
        assert dropped > 0
        assert dropped + told + len(node.events) >= 100


def test_a_node_whose_output_goes_to_a_full_disk_serves_on(tmp_path: Path) -> None:
    ports = {1: free_ports(1)[0]}
    command = [sys.executable, "-m", "raft.node", *flags(1, ports, tmp_path)]
    with (
        Path("/dev/full").open("w") as full,
        subprocess.Popen(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True) as process,
    ):
        try:
            trio.run(serves, ports[1])
        finally:
            process.terminate()


async def serves(port: int) -> None:
    with trio.fail_after(60):
        async with Client([f"127.0.0.1:{port}"], CLUSTER_ID) as client:
            assert await append_until_acknowledged(client, b"x") == 0


@pytest.mark.campaign
def test_a_locked_directory_is_refused_in_one_line(tmp_path: Path) -> None:
    first, second = free_ports(2)
    with node_process(flags(1, {1: first}, tmp_path)) as node:
        node.wait_for("started")
        expect_refusal(flags(1, {1: second}, tmp_path), "is locked")


@pytest.mark.campaign
def test_a_directory_of_another_node_is_refused_in_one_line(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    with node_process(flags(1, {1: port}, tmp_path)) as node:
        node.wait_for("started")
        node.process.terminate()
        node.end()
    (tmp_path / "1").rename(tmp_path / "2")
    expect_refusal(flags(2, {2: port}, tmp_path), "belongs to node 1 of cluster 'test'")


def test_a_directory_that_lost_its_log_is_refused_in_one_line(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    with node_process(flags(1, {1: port}, tmp_path)) as node:
        node.wait_for("role")
        node.process.terminate()
        node.end()
    for path in (tmp_path / "1").iterdir():
        if path.name != "identity.json":
            path.unlink()
    expect_refusal(flags(1, {1: port}, tmp_path), "the checkpoint of its durable end (`durable`) is missing")


async def test_damage_below_what_was_durable_is_refused_in_one_line(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    with node_process(flags(1, {1: port}, tmp_path)) as node:
        node.wait_for("started")
        async with Client([f"127.0.0.1:{port}"], CLUSTER_ID) as client:
            for _ in range(3):
                await client.append([b"x" * 100])
        node.process.terminate()
        node.end()
    (segment,) = (tmp_path / "1").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[content.index(b"x" * 100) + 7] ^= 1
    segment.write_bytes(content)
    assert len(content) < LogConfig().segment_bytes_max
    expect_refusal(flags(1, {1: port}, tmp_path), "is damaged at byte")


def test_a_node_that_was_not_told_of_its_peers_again_is_refused_in_one_line(tmp_path: Path) -> None:
    ports = dict(enumerate(free_ports(3), 1))
    with node_process(flags(1, ports, tmp_path)) as node:
        node.wait_for("started")
        node.process.terminate()
        node.end()
    expect_refusal(
        flags(1, {1: ports[1]}, tmp_path), "is made of nodes 1, 2, 3, not of 1, and has not changed its members"
    )


@pytest.mark.cluster
async def test_what_three_processes_acknowledged_outlives_kill_9_of_each_leader(tmp_path: Path) -> None:
    ports = dict(enumerate(free_ports(3), 1))
    addresses = [f"127.0.0.1:{port}" for port in ports.values()]
    acknowledged: dict[int, bytes] = {}
    with trio.fail_after(120), ExitStack() as stack:
        nodes = {node_id: stack.enter_context(node_process(flags(node_id, ports, tmp_path))) for node_id in ports}
        for node in nodes.values():
            node.wait_for("started")
        async with Client(addresses, CLUSTER_ID) as client:
            for turn in range(3):
                for number in range(20):
                    record = f"{turn}.{number}".encode()
                    appended = await append_until_acknowledged(client, record)
                    acknowledged[appended] = record
                leader = await leader_of(addresses)
                nodes[leader].process.kill()
                nodes[leader].end()
                acknowledged[await append_until_acknowledged(client, b"after")] = b"after"
                nodes[leader] = stack.enter_context(node_process(flags(leader, ports, tmp_path)))
                nodes[leader].wait_for("started")
            end = (await client.tail()).committed_end
            found: list[bytes] = []
            while len(found) < end:
                for batch in (await client.read(len(found))).batches:
                    found += batch.records()
        assert {offset: found[offset] for offset in acknowledged} == acknowledged


async def append_until_acknowledged(client: Client, record: bytes) -> int:
    """Append, again after an unknown outcome too: this test asks only for what was acknowledged."""
    while True:
        try:
            return (await client.append([record])).base_offset
        except RaftError:
            continue


async def leader_of(addresses: list[str]) -> int:
    while True:
        for address in addresses:
            host, _, port = address.rpartition(":")
            try:
                async with Connection.open(host, int(port), CLUSTER_ID) as connection:
                    status = await connection.status()
            except RaftError:
                continue
            if status["role"] == "leader":
                node = status["node"]
                assert isinstance(node, int)
                return node
        await trio.sleep(0.01)


def flip(directory: Path, place: str) -> None:
    """Damage one bit of a record, in the log of a node that was killed."""
    segments = sorted(directory.glob("*.log"))
    assert len(segments) > 1
    path = segments[0] if place == "a closed segment" else segments[-1]
    content = bytearray(path.read_bytes())
    at = content.rindex(b"record ") if place == "the last frame" else content.index(b"record ")
    content[at + 3] ^= 8
    path.write_bytes(content)


@pytest.mark.cluster
@pytest.mark.parametrize(
    "place",
    [
        *(pytest.param(each, marks=pytest.mark.campaign) for each in ("the last frame", "the middle")),
        "a closed segment",
    ],
)
async def test_a_damaged_follower_repairs_itself_and_is_as_good_as_before(tmp_path: Path, place: str) -> None:
    ports = dict(enumerate(free_ports(3), 1))
    addresses = {node_id: f"127.0.0.1:{port}" for node_id, port in ports.items()}
    acknowledged: dict[int, bytes] = {}
    with trio.fail_after(60), ExitStack() as stack:

        def start(node_id: int) -> NodeProcess:
            arguments = flags(node_id, ports, tmp_path, "--set=segment_bytes_max=65536")
            return stack.enter_context(node_process(arguments))

        nodes = {node_id: start(node_id) for node_id in ports}
        for node in nodes.values():
            node.wait_for("started")
        async with Client(list(addresses.values()), CLUSTER_ID) as client:
            for number in range(100):
                record = f"record {number}".encode().ljust(4000)
                acknowledged[await append_until_acknowledged(client, record)] = record
            leader = await leader_of(list(addresses.values()))
            damaged, other = (node_id for node_id in ports if node_id != leader)
            end = (await status_of(addresses[leader]))["last_index"]
            await reach_index(addresses[damaged], end)
            nodes[damaged].process.kill()
            nodes[damaged].end()
            flip(tmp_path / str(damaged), place)
            nodes[damaged] = start(damaged)
            if place == "a closed segment":
                # Only the state machine reads it; then the node ends, and reports where the damage is.
                assert nodes[damaged].wait_for("failed")["reason"].endswith("fetches it from the others")
                assert nodes[damaged].end()[0] == 4
                nodes[damaged] = start(damaged)
            repaired = nodes[damaged].wait_for("repaired")
            assert 0 < repaired["cut_from"] < repaired["cut_to"]
            assert repaired["floor"]["index"] == end
            nodes[damaged].wait_for("started")
            await reach_index(addresses[damaged], end)
            nodes[other].process.kill()
            nodes[other].end()
            found: list[bytes] = []
            while len(found) <= max(acknowledged):
                for batch in (await client.read(len(found))).batches:
                    found += batch.records()
            await append_until_acknowledged(client, b"after")
        assert {offset: found[offset] for offset in acknowledged} == acknowledged


async def status_of(address: str) -> dict[str, Any]:
    host, _, port = address.rpartition(":")
    async with Connection.open(host, int(port), CLUSTER_ID) as connection:
        return await connection.status()


async def reach_index(address: str, index: int) -> None:
    """Waits until a node holds everything up to `index` durably, and misses nothing."""
    while True:
        status = await status_of(address)
        if status["durable_index"] >= index and status["floor_index"] == 0:
            return
        await trio.sleep(0.01)
