"""Metrics, health and readiness over HTTP: taken when they are asked for, by a thread that cannot hold up the loop."""

import random
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from jepsen_like.testing.cluster import LocalCluster
from log.memory_disk import MemoryDisk
from raft import metrics, metrics_server
from raft.group import RaftGroup
from raft.metrics import COMMITTED_END, EVENTS, ROLE, Figure, MetricsUnavailable, all_metrics, raft_figures
from raft.metrics_server import metrics_served
from raft.net.listener import bind
from raft.node import node
from raft.process import EventWriter, MetricsAddressType, ServerProcess
from tests.ports import free_ports


@attrs.define
class Fake:
    """A server with one figure."""

    why: str | None = None
    asked: int = 0

    def figures(self) -> Iterable[Figure]:
        self.asked += 1
        return [COMMITTED_END(7), EVENTS(2, 'a "quoted"\nname')]

    def obstacle(self) -> str | None:
        return self.why


async def get(address: tuple[str, int], path: str, method: str = "GET") -> tuple[int, str]:
    def fetch() -> tuple[int, str]:
        request = urllib.request.Request(f"http://{address[0]}:{address[1]}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await trio.to_thread.run_sync(fetch)


def samples(text: str) -> dict[str, float]:
    return {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}


async def test_figures_are_taken_when_they_are_asked_for() -> None:
    fake = Fake()
    async with metrics_served(("127.0.0.1", 0), fake) as address:
        assert fake.asked == 0
        status, text = await get(address, "/metrics")
        assert (status, fake.asked) == (200, 1)
        found = samples(text)
        assert (found["quorumlog_raft_committed_end"], found["quorumlog_ready"]) == (7, 1)
        assert found["quorumlog_events_total"] == 2
        assert "process_resident_memory_bytes" in found


async def test_readiness_has_its_reason_and_health_does_not_need_it() -> None:
    fake = Fake("no leader is known")
    async with metrics_served(("127.0.0.1", 0), fake) as address:
        assert await get(address, "/readyz") == (503, "no leader is known\n")
        assert await get(address, "/healthz") == (200, "ok\n")
        fake.why = None
        assert await get(address, "/readyz") == (200, "ok\n")
        assert (await get(address, "/other"))[0] == 404
        assert (await get(address, "/metrics", "POST"))[0] == 405
        assert fake.asked == 0


async def test_a_loop_that_stands_still_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "TAKES_TURNS_WITHIN_S", 0.05)
    async with metrics_served(("127.0.0.1", 0), Fake()) as address:
        with socket.create_connection(address) as client:
            client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            answer = b""
            while chunk := client.recv(4096):  # blocks the loop, as a very long turn does
                answer += chunk
        assert answer.startswith(b"HTTP/1.0 503")


async def test_a_silent_client_is_left_and_the_next_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server._Handler, "timeout", 0.05)
    async with metrics_served(("127.0.0.1", 0), Fake()) as address:
        with socket.create_connection(address), socket.create_connection(address) as second:
            second.sendall(b"\xff\x00 nonsense\r\n\r\n")
            assert (await get(address, "/healthz"))[0] == 200


async def test_a_port_that_is_taken_is_an_error_of_its_own() -> None:
    with bind("127.0.0.1", 0) as taken, pytest.raises(MetricsUnavailable, match="cannot serve metrics on"):
        async with metrics_served(taken.getsockname(), Fake()):
            pass


async def test_a_process_reports_before_during_and_after_the_life_of_its_server() -> None:
    tell = EventWriter()
    process = ServerProcess(name="node", listen=("127.0.0.1", 1), directory="d", tell=tell)
    assert process.obstacle() == "the node has not started"
    tell("connection_refused", peer="x", reason="y")
    names = {figure.metric.name: figure.value for figure in process.figures()}
    assert names["quorumlog_connections_refused_total"] == 1
    process.observed = Fake("late")
    assert process.obstacle() == "late"


@asynccontextmanager
async def lonely() -> AsyncIterator[RaftGroup]:
    (port,) = free_ports(1)
    disk = MemoryDisk(random.Random(1))
    async with RaftGroup.open(
        node_id=1,
        members={1: ("127.0.0.1", port)},
        directory="d",
        cluster_id="c",
        disk=disk,
        notify=lambda notice: None,
    ) as group:
        await group.wait_for_leader(10)
        yield group


async def test_a_node_has_every_figure_and_they_move() -> None:
    async with lonely() as group:
        assert group.obstacle() is None
        before = {(f.metric.name, f.labels): f.value for f in group.figures()}
        await group.append([b"x"] * 5)
        after = {(f.metric.name, f.labels): f.value for f in group.figures()}
        grown = {name for (name, _), value in after.items() if value > before.get((name, ()), 0)}
        assert after["quorumlog_raft_committed_end", ()] == 5
        assert after[ROLE.name, ("leader",)] == 1
        assert sum(value for (name, _), value in after.items() if name == ROLE.name) == 1
        assert {"quorumlog_raft_commit_index", "quorumlog_raft_durable_index"} <= grown
        assert after["quorumlog_flushes_total", ("raft",)] > before["quorumlog_flushes_total", ("raft",)]
        assert after["quorumlog_flush_seconds_total", ("raft",)] > 0
        assert after["quorumlog_raft_elections_total", ()] >= 1


async def test_bytes_are_those_of_open_and_of_closed_connections() -> None:
    async with LocalCluster.open() as cluster:
        leader = await cluster.wait_for_leader()
        reactor = cluster._running[leader].group._member.reactor
        before = reactor.traffic()
        async with cluster.client() as client:
            await client.append([b"x" * 100_000])
        with trio.fail_after(10):
            while reactor.traffic().connections > before.connections:  # noqa: ASYNC110 - only the loop knows
                await trio.sleep(0.01)
        after = reactor.traffic()
        assert after.received_bytes - before.received_bytes > 100_000, "the client's, which has left"
        assert after.sent_bytes - before.sent_bytes > 100_000, "to the followers"


def test_addresses_for_metrics_are_on_loopback_unless_a_host_is_named() -> None:
    kind = MetricsAddressType()
    assert kind.convert("9100", None, None) == ("127.0.0.1", 9100)
    assert kind.convert(":9100", None, None) == ("127.0.0.1", 9100)
    assert kind.convert("0.0.0.0:9100", None, None) == ("0.0.0.0", 9100)


def test_without_the_package_the_flag_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = CliRunner().invoke(node, ["--id=1", "--cluster-id=c", "--listen=127.0.0.1:1", "--data=d", "--metrics=9100"])
    assert done.exit_code == 2
    assert "pip install 'quorumlog[prometheus]'" in done.output.replace("\n", " ")


def test_the_status_of_a_group_has_what_the_figures_need() -> None:
    status = dict.fromkeys(("term", "leader", "commit_index", "last_index", "durable_index", "applied_index"), 0)
    figures = raft_figures({**status, "start_offset": 0, "committed_end": 0, "role": "candidate", "unheard": [2]})
    assert {figure.metric for figure in figures} <= set(all_metrics(vars(metrics)))
