"""Clusters from whose logs records leave: what left is not missing, and a node that lagged is reset to a snapshot."""

import asyncio
from typing import Any

import msgpack
import pytest
import trio

from jepsen_like.testing import aio, sync
from jepsen_like.testing.cluster import LocalCluster
from log.retention import Retention
from raft.errors import ProtocolError, RecordsTrimmed

SETTINGS = ("retention_bytes=65536", "segment_bytes_max=65536")
RECORDS = [b"%03d" % number + b"." * 8000 for number in range(60)]


def write(key: str, value: int) -> bytes:
    packed: bytes = msgpack.packb(["w", key, value])
    return packed


READ: bytes = msgpack.packb(["r", "jobs"])


def snapshots(events: Any, node: int) -> int:
    return sum(event.event == "snapshot_installed" and event.node == node for event in events)


async def test_a_node_that_missed_what_has_left_is_reset_to_a_snapshot_and_agrees_with_the_others() -> None:
    async with LocalCluster.open(settings=SETTINGS) as cluster, cluster.client() as client:
        first = await cluster.wait_for_leader()
        late = next(node for node in cluster.nodes if node != first)
        await client.append(RECORDS[:2])
        await client.apply(write("jobs", 1))
        await cluster.stop(late)
        await client.apply(write("jobs", 2))
        for record in RECORDS[2:]:
            await client.append([record])
        await client.apply(write("jobs", 3))
        await cluster.start(late)
        verdict = await cluster.check()
        assert verdict.valid, verdict
        assert verdict.expired > 0
        assert f"{verdict.expired} have left it" in str(verdict)
        assert snapshots(cluster.events(), late) >= 1
        for node in cluster.nodes:
            held = await cluster.fetch_committed(node)
            assert 0 < len(held) < len(RECORDS)
            assert held == RECORDS[-len(held) :]
        # Only as the leader does it have to answer from a state of its own.
        with trio.fail_after(60):
            while (leader := await cluster.wait_for_leader()) != late:
                await cluster.kill(leader)
                await cluster.wait_for_leader()
                await cluster.start(leader)
        assert msgpack.unpackb((await client.query(READ)).result) == 3


@pytest.mark.raft_cluster(settings=SETTINGS)
def test_the_fixture_does_not_miss_what_has_left(raft_cluster: sync.LocalCluster) -> None:
    with raft_cluster.client() as client:
        for record in RECORDS:
            client.append([record])
        with pytest.raises(RecordsTrimmed) as caught:
            client.read(0)
        assert client.read(caught.value.start_offset).batches
    verdict = raft_cluster.check()
    assert (verdict.valid, verdict.acknowledged) == (True, len(RECORDS))
    assert verdict.expired > 0


def test_asyncio_reads_on_from_where_a_log_begins() -> None:
    async def main() -> None:
        async with aio.LocalCluster.open(settings=SETTINGS) as cluster, cluster.client() as client:
            for record in RECORDS[:40]:
                await client.append([record])
            with pytest.raises(RecordsTrimmed) as caught:
                await client.read(0)
            assert (await client.read(caught.value.start_offset)).batches
            assert (await cluster.check()).expired > 0

    asyncio.run(main())


async def test_without_a_retention_nothing_leaves_and_all_is_looked_for() -> None:
    async with LocalCluster.open(settings=SETTINGS[1:]) as cluster, cluster.client() as client:
        for record in RECORDS[:40]:
            await client.append([record])
        verdict = await cluster.check()
        assert (verdict.valid, verdict.expired, verdict.committed) == (True, 0, 40)


async def test_a_log_that_begins_no_later_than_the_place_it_refused_ends_the_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with LocalCluster.open() as cluster, cluster.client() as client:
        await client.append([b"x"])

        async def refuse(node: int, offset: int) -> Any:
            raise RecordsTrimmed(offset)

        monkeypatch.setattr(cluster, "_read", refuse)
        with trio.fail_after(5), pytest.raises(ProtocolError, match="node 1 answers a read at 0: the records before"):
            await cluster.fetch_committed(1)


async def test_a_cluster_whose_logs_let_go_too_much_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retention, "first_index", lambda self, segments, now_ms: segments[-1].first_index)
    settings = ("retention_bytes=262144", "segment_bytes_max=65536")
    async with LocalCluster.open(settings=settings) as cluster, cluster.client() as client:
        for record in RECORDS:
            await client.append([record])
        verdict = await cluster.check()
        assert not verdict.valid
        assert "of what its retention keeps" in str(verdict)
    monkeypatch.undo()
    async with LocalCluster.open(settings=settings) as cluster, cluster.client() as client:
        for record in RECORDS:
            await client.append([record])
        assert (await cluster.check()).valid
