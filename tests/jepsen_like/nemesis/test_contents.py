"""Nodes of which a disk was touched while they were down mend it, in whichever order they stopped and start."""

import random
from pathlib import Path

import pytest

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.cluster.process import NodeProcess
from jepsen_like.nemesis.contents import ContentKind, DamagedFiles, Vanished
from jepsen_like.nemesis.kind import Withheld
from jepsen_like.nemesis.stops import Order, Stops
from jepsen_like.nemesis.targets import ResolvedTarget, Target
from jepsen_like.record.evidence import GONE_FIRST, RUNS, TOUCHED_INDEED
from jepsen_like.systems.secret_of import secret_in
from raft.client import Client
from tests.jepsen_like.raft_clusters import open_raft_cluster, settle_cluster

pytestmark = pytest.mark.cluster

RECORD = b"x" * 10_000
STORED = 30
SMALL_SEGMENTS = ("segment_bytes_max=65536",)


def draw_target(kind: ContentKind, order: Order) -> ResolvedTarget:
    """Draws a hit of all nodes in this order, quickly started, each disk in its turn."""
    for seed in range(1000):
        hit = kind.select(random.Random(seed), Target.ALL, (1, 2, 3), 1)
        stops = Stops.draw(hit.nodes, hit.seed)
        if stops.order is order and stops.gap_s == 0.1:
            return hit
    raise AssertionError(order)


@pytest.mark.campaign
@pytest.mark.parametrize("kind", [DamagedFiles(), Vanished()], ids=lambda kind: kind.name)
async def test_a_disk_is_mended_after_stops_in_every_order(tmp_path: Path, kind: ContentKind) -> None:
    async with open_raft_cluster(tmp_path / "nodes", nodes=3, settings=SMALL_SEGMENTS) as cluster:
        assert await cluster.leader(within_s=60) is not None
        addresses = [f"{host}:{port}" for host, port in cluster.client_addresses.values()]
        async with Client(addresses, "test", secret=secret_in(cluster.access.secret)) as client:
            for _ in range(STORED):
                await client.append([RECORD])
        for order in Order:
            hit = draw_target(kind, order)
            seen = await kind.inject(cluster, hit)
            assert all(GONE_FIRST.match(seen[str(node)]) for node in hit.nodes), seen
            (harmed,) = hit.damaged
            assert TOUCHED_INDEED.match(seen[f"disk of {harmed}"]), seen
            assert [what for what in seen if what.startswith("disk of")] == [f"disk of {harmed}"]
            healed = await kind.undo(cluster, hit)
            assert all(RUNS.match(healed[str(node)]) for node in hit.nodes), healed
            assert await settle_cluster(cluster) == STORED
        assert cluster.unasked_ends == []


class Bare(Vanished):
    def finds(self, cluster: Cluster, process: NodeProcess) -> bool:
        return False


async def test_a_fault_that_would_find_nothing_is_withheld_before_anything_is_stopped(tmp_path: Path) -> None:
    async with open_raft_cluster(tmp_path / "nodes", nodes=3) as cluster:
        pids = [process.pid for process in cluster.nodes.values()]
        with pytest.raises(Withheld, match="had nothing yet"):
            await Bare().inject(cluster, ResolvedTarget((1, 2, 3), seed=1, harmed=(2,)))
        assert [process.pid for process in cluster.nodes.values() if process.is_running] == pids
