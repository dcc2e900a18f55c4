"""Faults of machines do what they say to real nodes, show it from outside, and are undone."""

import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from jepsen_like.cluster import preload, volumes
from jepsen_like.cluster.cluster import Cluster
from jepsen_like.cluster.machine import Need
from jepsen_like.cluster.preload import Word
from jepsen_like.nemesis.disks import DiskError, DiskFull, DiskShort, DiskSlow
from jepsen_like.nemesis.kind import NemesisKind, Seen
from jepsen_like.nemesis.machines import ClockDrift, ClockJump, ClockKind, Power
from jepsen_like.nemesis.targets import ResolvedTarget
from jepsen_like.record import evidence
from jepsen_like.systems.raft.system import RaftSystem
from jepsen_like.systems.secret_of import secret_in
from raft.client import Client
from raft.errors import RaftError
from tests.jepsen_like.raft_clusters import open_raft_cluster, settle_cluster

pytestmark = pytest.mark.cluster
only_root = pytest.mark.skipif(volumes.lacking() is not None, reason=volumes.lacking() or "")
needs_compiler = pytest.mark.skipif(preload.compiler() is None, reason="needs a C compiler")

SEED = 5
RECORD = b"x" * 100
STORED = 40
HEALED = re.compile(
    r"n\d healed: ((told the wall time [+-]0\.000 s off, )?told a time (1\.0\d|0\.9\d) times as fast|[a-z ]+: 0)"
)


@asynccontextmanager
async def nodes(
    directory: Path, needs: Sequence[Need] = (), settings: Sequence[str] = ()
) -> AsyncIterator[tuple[Cluster, Client]]:
    async with open_raft_cluster(directory / "nodes", nodes=3, needs=frozenset(needs), settings=settings) as cluster:
        assert await cluster.leader(within_s=60) is not None
        addresses = [f"{host}:{port}" for host, port in cluster.client_addresses.values()]
        async with Client(addresses, "test", secret=secret_in(cluster.access.secret)) as client:
            for _ in range(STORED):
                await client.append([RECORD])
            yield cluster, client


async def under_load(
    cluster: Cluster, client: Client, kind: NemesisKind, nodes: Sequence[int], hold_s: float = 0.3
) -> Seen:
    """Returns the evidence of a fault under appends, once appends succeed again: a slow flush outlives its cause."""
    hit = ResolvedTarget(tuple(nodes), seed=SEED)

    async def append() -> None:
        while True:
            await append_one()

    async def append_one() -> bool:
        await trio.sleep(0.001)
        with contextlib.suppress(RaftError):
            await client.append([RECORD])
            return True
        return False

    async with trio.open_nursery() as nursery:
        nursery.start_soon(append)
        seen = await kind.inject(cluster, hit)
        seen |= await kind.hold(cluster, hit, hold_s)
        healed = await kind.undo(cluster, hit)
        nursery.cancel_scope.cancel()
    for node in nodes:
        assert evidence.RUNS.match(healed[str(node)]), healed
        assert HEALED.fullmatch(healed[f"{'clock' if isinstance(kind, ClockKind) else 'disk'} of {node}"]), healed
    if isinstance(kind, ClockJump):  # the leader asks for the wall time at every append, a follower seldom
        assert any("told the wall time" in text for text in healed.values()), healed
    assert await settle_cluster(cluster) >= STORED
    with trio.fail_after(60):
        while not await append_one():
            pass
    return seen


@only_root
@pytest.mark.parametrize(
    ("flush", "left"), [("before-ack", STORED), pytest.param("none", 0, marks=pytest.mark.campaign)]
)
async def test_a_power_cut_of_all_nodes_takes_what_no_flush_has_secured_and_nothing_else(
    flush: str, left: int, tmp_path: Path
) -> None:
    async with nodes(tmp_path, [Need.POWER], [f"flush={flush}"]) as (cluster, _):
        hit = ResolvedTarget((1, 2, 3))
        seen = await Power().inject(cluster, hit)
        assert all("dead, its files held" in said for said in seen.values())
        healed = await Power().undo(cluster, hit)
        assert all("bytes were left" in said for said in healed.values())
        assert await settle_cluster(cluster) == left
        assert cluster.unasked_ends == []
        # After one that was called off the nodes come back, too.
        with trio.CancelScope() as called_off:
            called_off.cancel()
            await Power().inject(cluster, hit)
        await Power().undo(cluster, hit)
        assert await settle_cluster(cluster) == left
        assert cluster.unasked_ends == []
    # What lay on the volumes can be looked at afterwards.
    assert sorted((tmp_path / "nodes" / "1" / "data").glob("*.log"))


@only_root
@needs_compiler
async def test_a_power_cut_tells_a_disk_that_lied_about_its_flushes(tmp_path: Path) -> None:
    async with nodes(tmp_path, [Need.POWER, Need.LIBRARY]) as (cluster, client):
        for process in cluster.nodes.values():
            assert process.machine.page is not None
            process.machine.page.lie_about_syncs(True)
        for _ in range(STORED):
            await client.append([RECORD])
        hit = ResolvedTarget((1, 2, 3))
        await Power().inject(cluster, hit)
        await Power().undo(cluster, hit)
        assert STORED <= await settle_cluster(cluster) < 2 * STORED


@needs_compiler
async def test_clocks_go_wrong_for_the_nodes_that_are_hit_and_only_while_it_holds(tmp_path: Path) -> None:
    async with nodes(tmp_path, [Need.LIBRARY]) as (cluster, client):
        seen = await under_load(cluster, client, ClockJump(), [1, 2, 3])
        assert len([said for said in seen.values() if "asked the time" in said]) == 3
        seen = await under_load(cluster, client, ClockDrift(), [1, 2])
        rates = {node: seen[node].split()[3] for node in ("1", "2")}
        for node, rate in rates.items():
            told = float(seen[f"clock of {node}"].rpartition(": ")[2].split()[0])
            assert told == pytest.approx(float(rate), rel=0.05)
        for process in cluster.nodes.values():
            page = process.machine.page
            assert page is not None
            assert (page[Word.WALL_OFFSET_NS], page[Word.STROBE_PERIOD_NS], page.is_drifting) == (0, 0, False)
        assert cluster.unasked_ends == []


@needs_compiler
async def test_disks_fail_and_a_node_that_acknowledged_a_record_has_it(tmp_path: Path) -> None:
    async with nodes(tmp_path, [Need.LIBRARY], RaftSystem.fault_settings[DiskFull.name]) as (cluster, client):
        for kind, hit, words in (
            (DiskSlow(), [1, 2, 3], "flushes delayed: "),
            (DiskShort(), [1, 2, 3], "writes cut short: "),
            (DiskFull(), [1, 2, 3], "calls that found no room: "),
        ):
            seen = await under_load(cluster, client, kind, hit)
            counts = [int(said.rpartition(words)[2].replace(",", "")) for said in seen.values() if words in said]
            assert len(counts) == 3, seen
            assert max(counts) > 0, seen
        seen = await under_load(cluster, client, DiskError(), [2])
        assert seen["2"].endswith("it ended itself with status 4"), seen
        assert cluster.unasked_ends == []
