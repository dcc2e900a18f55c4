"""Clusters that a test can break: what they do to nodes and network, in every face, and that nothing is left behind."""

import asyncio
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio

from jepsen_like.cluster.authority import Authority, certify
from jepsen_like.systems.tls_of import certificates_in
from jepsen_like.testing import aio, cluster, sync
from jepsen_like.testing.breakable import BreakableCluster
from jepsen_like.testing.cluster import LocalCluster, ProcessCluster
from jepsen_like.testing.faulty import WaitedTooLong
from log.errors import StorageFailed
from raft.client import Client, Connection, Unreachable
from raft.errors import OutcomeUnknown, ProtocolError, RaftError
from raft.net import watched_files
from raft.net.dialing import dial
from raft.net.tls_socket import TlsSocket
from raft.settings import WrongSetting

Open = Callable[[], AbstractAsyncContextManager[BreakableCluster]]
BOTH = pytest.mark.parametrize(
    "open_",
    [LocalCluster.open, pytest.param(ProcessCluster.open, marks=pytest.mark.cluster)],
    ids=["local", "processes"],
)
MOSTLY_LOCAL = pytest.mark.parametrize(
    "open_",
    [LocalCluster.open, pytest.param(ProcessCluster.open, marks=[pytest.mark.cluster, pytest.mark.campaign])],
    ids=["local", "processes"],
)
"""Processes come to the same code on this path: other tests start some, too."""


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    threads, descriptors = set(threading.enumerate()), set(os.listdir("/proc/self/fd"))
    yield
    assert set(threading.enumerate()) <= threads
    assert set(os.listdir("/proc/self/fd")) <= descriptors


async def another_leader(cluster: BreakableCluster, old: int) -> int:
    with trio.fail_after(60):
        while (leader := await cluster.wait_for_leader()) == old:  # noqa: ASYNC110 - nodes know nothing of tests
            await trio.sleep(0.005)
    return leader


@MOSTLY_LOCAL
async def test_a_majority_goes_on_without_a_killed_leader_which_catches_up_when_it_is_started(open_: Open) -> None:
    async with open_() as cluster, cluster.client() as client:
        await client.append([b"one"])
        leader = await cluster.wait_for_leader()
        await cluster.kill(leader)
        assert await cluster.status(leader) is None
        await client.append([b"two"])
        await cluster.start(leader)
        verdict = await cluster.check()
        assert (verdict.valid, verdict.acknowledged, verdict.committed) == (True, 2, 2)
        assert [await cluster.fetch_committed(node) for node in cluster.nodes] == [[b"one", b"two"]] * 3
        assert f"n{leader}  killed" in cluster.story()


@BOTH
async def test_a_killed_leader_does_not_shut_down_in_order(open_: Open) -> None:
    async with open_() as cluster, cluster.client() as client:
        leader = await cluster.wait_for_leader()
        await client.append([b"one"])
        await cluster.pause(*set(cluster.nodes) - {leader})

        async def append() -> None:
            with pytest.raises(OutcomeUnknown, match=r"connection to .* broke"):
                await client.append([b"two"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            with trio.fail_after(60):
                while (status := await cluster.status(leader)) and status["last_index"] == status["commit_index"]:  # noqa: ASYNC110
                    await trio.sleep(0.005)
            await cluster.kill(leader)


@MOSTLY_LOCAL
async def test_a_stopped_node_comes_back_with_what_it_had(open_: Open) -> None:
    async with open_() as cluster, cluster.client() as client:
        await client.append([b"one"])
        await cluster.stop(1, 2, 3)
        assert await cluster.leader() is None
        with pytest.raises(WaitedTooLong):
            await cluster.wait_for_leader(within_s=0.05)
        await cluster.start()
        await cluster.wait_for_leader()
        assert [batch.records() for batch in (await client.read(0)).batches] == [[b"one"]]


@BOTH
async def test_a_paused_leader_is_replaced_and_finds_its_place_when_it_goes_on(open_: Open) -> None:
    async with open_() as cluster:
        leader = await cluster.wait_for_leader()
        await cluster.pause(leader)
        await another_leader(cluster, leader)
        async with cluster.client() as client:
            await client.append([b"meanwhile"])
        await cluster.resume()
        assert (await cluster.check()).valid
        assert await cluster.fetch_committed(leader) == [b"meanwhile"]


@BOTH
async def test_an_isolated_leader_acknowledges_nothing_and_another_is_elected(open_: Open) -> None:
    async with open_() as cluster:
        leader = await cluster.wait_for_leader()
        await cluster.isolate(leader)
        async with Client(
            [cluster.addresses[leader - 1]], cluster.cluster_id, deadline_s=0.1, secret=cluster.secret
        ) as stranded:
            with pytest.raises(RaftError):
                await stranded.append([b"nobody hears"])
        await another_leader(cluster, leader)
        async with cluster.client() as client:
            await client.append([b"heard"])
        await cluster.heal()
        verdict = await cluster.check()
        assert (verdict.valid, verdict.acknowledged) == (True, 1)


async def test_nodes_that_are_parted_elect_no_leader_and_serve_again_when_healed() -> None:
    async with LocalCluster.open() as cluster, cluster.client(deadline_s=0.8) as client:
        await cluster.partition([1], [2], [3])
        with pytest.raises(RaftError):
            await client.append([b"one"])
        await cluster.heal()
        await cluster.wait_for_leader()
        await client.append([b"two"])


async def test_a_cut_between_clients_and_the_leader_alone_leaves_it_leading() -> None:
    async with LocalCluster.open() as cluster:
        leader = await cluster.wait_for_leader()
        await cluster.cut_clients(leader)
        async with cluster.client(deadline_s=0.3, connect_timeout_s=0.05) as client:
            with pytest.raises(RaftError):
                await client.append([b"one"])
        assert await cluster.wait_for_leader() == leader


async def test_a_one_way_cut_silences_one_node_for_another() -> None:
    async with LocalCluster.open() as cluster:
        leader = await cluster.wait_for_leader()
        for other in set(cluster.nodes) - {leader}:
            await cluster.cut_one_way(leader, other)
        assert await another_leader(cluster, leader) != leader


async def test_what_was_flushed_survives_a_power_cut_of_all_nodes() -> None:
    async with LocalCluster.open() as cluster:
        async with cluster.client() as client:
            await client.append([b"one", b"two"])
        await cluster.crash(1, 2, 3)
        verdict = await cluster.check()
        assert (verdict.valid, verdict.committed) == (True, 2)


async def test_what_was_acknowledged_without_a_flush_is_found_lost_after_a_power_cut_of_all_nodes() -> None:
    async with LocalCluster.open(settings=["flush=none"]) as cluster:
        async with cluster.client() as client:
            await client.append([b"one"])
        await cluster.crash(1, 2, 3)
        verdict = await cluster.check()
        assert not verdict.valid
        assert "b'one', is lost" in str(verdict)


async def test_what_a_client_of_its_own_was_told_counts_when_its_node_goes_down() -> None:
    async with LocalCluster.open(settings=["flush=none"]) as cluster:
        async with Client(cluster.addresses, cluster.cluster_id, secret=cluster.secret) as client:
            await client.append([b"one"])
        await cluster.crash(1, 2, 3)
        assert not (await cluster.check()).valid


async def test_a_power_cut_is_silent_until_the_node_is_back() -> None:
    async with LocalCluster.open() as cluster, cluster.client(deadline_s=0.1) as client:
        await client.append([b"one"])
        leader = await cluster.wait_for_leader()
        await cluster.crash(leader)
        with pytest.raises(OutcomeUnknown, match="did not answer"):
            await client.append([b"two"])
        await another_leader(cluster, leader)
        await cluster.start(leader)
        assert (await cluster.check()).valid


async def test_a_cut_outlives_kill_and_start_of_its_nodes() -> None:
    async with LocalCluster.open() as cluster:
        leader = await cluster.wait_for_leader()
        await cluster.isolate(leader)
        await cluster.kill(leader)
        await cluster.start(leader)
        new = await another_leader(cluster, leader)
        status = await cluster.status(leader)
        assert status is not None
        assert status["leader"] != new
        assert (await cluster.check()).valid


async def test_a_node_whose_disk_fails_is_an_event_and_the_others_go_on() -> None:
    async with LocalCluster.open() as cluster, cluster.client() as client:
        await client.append([b"one"])
        (follower, *_) = set(cluster.nodes) - {await cluster.wait_for_leader()}
        disk = cluster.disk(follower)
        disk.failing = True
        await client.append([b"two"])
        with trio.fail_after(60):
            while await cluster.status(follower) is not None:  # noqa: ASYNC110 - nodes know nothing of tests
                await trio.sleep(0.005)
        assert "failed reason=StorageFailed" in cluster.story()
        disk.failing = False
        assert (await cluster.check()).valid


async def test_a_node_cannot_be_started_on_a_disk_that_fails() -> None:
    async with LocalCluster.open() as cluster:
        await cluster.kill(1)
        cluster.disk(1).failing = True
        with pytest.raises(StorageFailed):
            await cluster.start(1)
        assert await cluster.status(1) is None
        cluster.disk(1).failing = False
        assert (await cluster.check()).valid


@MOSTLY_LOCAL
async def test_a_fault_that_would_hit_no_node_is_refused_and_changes_nothing(open_: Open) -> None:
    async with open_() as cluster:
        calls: list[Callable[..., Awaitable[object]]] = [
            cluster.start,
            cluster.stop,
            cluster.kill,
            cluster.pause,
            cluster.resume,
            cluster.isolate,
            cluster.cut_clients,
            cluster.status,
            cluster.fetch_committed,
        ]
        for call in calls:
            for nobody in (4, 0, None):
                with pytest.raises(ValueError, match=rf"^there is no node {nobody}; there are 1 to 3$"):
                    await call(nobody)
        for cut in (cluster.cut, cluster.cut_one_way):
            with pytest.raises(ValueError, match="there is no node 9"):
                await cut(1, 9)
            with pytest.raises(ValueError, match="node 2 cannot be cut off from itself"):
                await cut(2, 2)
        with pytest.raises(ValueError, match="node 2 cannot be cut off from itself"):
            await cluster.partition([1, 2], [2, 3])
        assert not cluster._cut
        assert not cluster._cut_clients
        assert (await cluster.check()).valid


@MOSTLY_LOCAL
async def test_a_node_that_is_down_cannot_be_paused(open_: Open) -> None:
    async with open_() as cluster:
        await cluster.kill(1)
        await cluster.pause(1)
        assert "paused" not in [event.event for event in cluster.events()]
        assert (await cluster.check()).valid


async def test_a_setting_that_cannot_be_is_refused_before_anything_starts() -> None:
    with pytest.raises(WrongSetting, match="no setting"):
        async with LocalCluster.open(settings=["flsh=none"]):
            pass


@pytest.mark.cluster
async def test_processes_leave_their_traces_where_they_are_told_to(tmp_path: Path) -> None:
    async with ProcessCluster.open(nodes=1, directory=tmp_path) as cluster:
        assert "role=leader" in cluster.story()
    assert (tmp_path / "1" / "events.jsonl").is_file()


@pytest.mark.parametrize("face", [aio, sync], ids=["asyncio", "plain"])
@pytest.mark.parametrize("original", [LocalCluster, ProcessCluster])
def test_every_face_has_the_same_calls(face: object, original: type) -> None:
    mirror = getattr(face, original.__name__)
    for name in {*vars(BreakableCluster), *vars(original)} - {"tell", "directory"}:
        if not name.startswith("_"):
            here, there = getattr(mirror, name), getattr(original, name)
            assert inspect.signature(here).parameters.keys() == inspect.signature(there).parameters.keys(), name


def test_plain_python_breaks_a_cluster_with_the_same_calls() -> None:
    with sync.LocalCluster.open(nodes=3) as cluster, cluster.client() as client:
        client.append([b"one"])
        leader = cluster.wait_for_leader()
        cluster.kill(leader)
        client.append([b"two"])
        assert cluster.status(leader) is None
        cluster.start(leader)
        verdict = cluster.check()
        assert (verdict.valid, verdict.acknowledged) == (True, 2)
        assert cluster.fetch_committed(leader) == [b"one", b"two"]
        assert "killed" in cluster.story()


def test_asyncio_breaks_a_cluster_with_the_same_calls() -> None:
    async def main() -> None:
        async with aio.LocalCluster.open(nodes=3) as cluster, cluster.client() as client:
            await client.append([b"one"])
            leader = await cluster.wait_for_leader()
            await cluster.crash(*cluster.nodes)
            await cluster.start()
            await cluster.wait_for_leader()
            await client.append([b"two"])
            assert (await cluster.check()).valid
            assert await cluster.fetch_committed(leader) == [b"one", b"two"]

    asyncio.run(main())


def test_importing_the_clusters_brings_nothing_of_the_checker() -> None:
    import subprocess
    import sys

    code = f"import sys, {cluster.__name__}, jepsen_like.testing.plugin; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pyspark", "pandas", "pyarrow", "numpy", "hypothesis", "jinja2"} & set(loaded)


@pytest.mark.parametrize(
    "open_",
    [LocalCluster.open, pytest.param(ProcessCluster.open, marks=pytest.mark.cluster)],
    ids=["local", "processes"],
)
async def test_a_cluster_with_tls_survives_its_leader_and_serves_nobody_in_plain_text(
    open_: Callable[..., AbstractAsyncContextManager[BreakableCluster]],
) -> None:
    async with open_(tls=True) as cluster, cluster.client() as client:
        await client.append([b"one"])
        await cluster.kill(await cluster.wait_for_leader())
        await client.append([b"two"])
        host, _, port = cluster.addresses[(await cluster.wait_for_leader()) - 1].rpartition(":")
        with pytest.raises((Unreachable, ProtocolError)):
            await Connection.connect(host, int(port), cluster.cluster_id, secret=cluster.secret)
        assert (await cluster.check()).valid
        assert "TLS: the other side speaks plain text, and this side TLS" in cluster.story(1000)


async def test_certificates_are_rotated_under_load_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_files, "LOOK_EVERY_S", 0.0)
    async with LocalCluster.open(tls=True) as cluster, cluster.client() as client:
        assert cluster.tls is not None
        authority = Authority.at(cluster.tls.authority.parent)
        before = await serials(cluster)
        for number in range(6):
            await client.append([b"%d" % number])
            if number % 2:
                certify(authority.directory, cluster.nodes)
                await cluster.kill(leader := await cluster.wait_for_leader())
                await cluster.start(leader)
        after = await serials(cluster)
        assert before.keys() == after.keys()
        assert not set(before.values()) & set(after.values())
        verdict = await cluster.check()
        assert (verdict.valid, verdict.acknowledged) == (True, 6)


async def serials(cluster: BreakableCluster) -> dict[str, str]:
    """Returns the number of the certificate that each node shows to a new connection, by address."""
    found: dict[str, str] = {}
    for address in cluster.addresses:
        host, _, port = address.rpartition(":")
        dialled = await dial(host, int(port), certificates_in(cluster.tls))
        assert isinstance(dialled, TlsSocket)
        shown = dialled.stream.certificate
        assert shown is not None
        found[address] = str(shown["serialNumber"])
        dialled.close()
    return found
