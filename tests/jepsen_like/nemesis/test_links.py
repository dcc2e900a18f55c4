"""Every fault of links is proved by what its ways show, hits the leader, and leaves nothing behind."""

import random
import re
from pathlib import Path

import pytest
import trio

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.nemesis.kind import Here
from jepsen_like.nemesis.links import Around, LinkKind
from jepsen_like.nemesis.nemesis import FaultRecord, Nemesis
from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.table import KINDS, usable
from jepsen_like.nemesis.targets import Target
from jepsen_like.nemesis.zones import InZone
from jepsen_like.port.wires import CUT
from jepsen_like.systems.secret_of import secret_in
from raft.client import Client
from raft.errors import OutcomeUnknown, RaftError
from tests.jepsen_like.raft_clusters import open_raft_cluster, settle_cluster

NODES = 3
LINK_KINDS = {name: kind for name, kind in KINDS.items() if isinstance(kind, LinkKind)}
WITHOUT_ISR = "shrink-isr"
"""A raft group has no in-sync replicas to shrink; this one is tried with Kafka's brokers."""
OF_STREAMS = [name for name in usable(Here(NODES)) if name in LINK_KINDS and name != WITHOUT_ISR]
AROUND = [name for name, kind in LINK_KINDS.items() if isinstance(kind, Around) and not isinstance(kind, InZone)]
HOLD_S = 1.5
SHOWS = {
    "partition": r"^cut \d>\d: 0 bytes passed",
    "flapping": r"^cut \d>\d: \d+ bytes passed .* broken \d+ times",
    "slow": r"^slow by \d+ to \d+ ms (client|\d)>\d: \d+ bytes passed .* [1-9]\d* bytes delayed, [1-9]\d* bytes held at most",
    "throttle": r"^throttled to \d+ KiB/s (client|\d)>\d: \d+ bytes passed .* [1-9]\d* bytes delayed",
    "half-open": r"^half-open, (refusing|hanging) (client|\d)>\d: 0 bytes passed",
    "reset": r"^reset (client|\d)>\d: \d+ bytes passed .* [1-9]\d* connections reset",
}


async def append_for_ever(cluster: Cluster, done: list[int]) -> None:
    addresses = [f"{host}:{port}" for host, port in cluster.client_addresses.values()]
    async with Client(addresses, cluster.cluster_id, secret=secret_in(cluster.access.secret)) as client:
        while True:
            try:
                with trio.fail_after(1):
                    done.append((await client.append([b"x" * 500])).base_offset)
            except (OutcomeUnknown, RaftError, trio.TooSlowError):
                await trio.sleep(0.01)


def shows(record: FaultRecord) -> str:
    """Returns the evidence of the busiest way between nodes: some ways are quiet in any fault."""
    said = [text for way, text in record.observed.items() if way in record.links]
    assert len(said) == len(record.links) > 0
    return next((text for text in said if re.search(SHOWS[record.kind], text)), said[0])


@pytest.mark.campaign
async def test_every_fault_of_streams_is_shown_by_its_ways_and_leaves_none_behind(tmp_path: Path) -> None:
    assert set(OF_STREAMS) == set(SHOWS)
    faults = [
        Fault(number, kind, Target.LEADER, number / 1000, HOLD_S, number) for number, kind in enumerate(OF_STREAMS)
    ]
    done: list[int] = []
    async with open_raft_cluster(tmp_path / "nodes", nodes=NODES) as cluster:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(append_for_ever, cluster, done)
            nemesis = Nemesis(cluster, faults, tmp_path / "nemesis.jsonl")
            await nemesis.run()
            nursery.cancel_scope.cancel()
        await nemesis.heal()
        assert cluster.network.evidence() == []
        assert await settle_cluster(cluster) >= len(done) > 0
        assert cluster.unasked_ends == []
    assert [record.kind for record in nemesis.records] == OF_STREAMS
    for record in nemesis.records:
        assert record.nodes == (record.leader,)
        assert re.search(SHOWS[record.kind], shows(record)), record
        assert [record.healed[way] for way in record.links] == [f"carried {way} and back" for way in record.links]


async def test_a_way_that_is_not_healed_carries_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_raft_cluster(tmp_path / "nodes", nodes=NODES) as cluster:
        whole = {"1>2": "carried 1>2 and back", "2>3": "carried 2>3 and back", "client>1": "carried client>1 and back"}
        assert await cluster.try_ways([(1, 2), (2, 3)], [1]) == whole
        with monkeypatch.context() as impatient:
            impatient.setattr("jepsen_like.cluster.cluster.CARRIES_WITHIN_S", 3.0)
            cluster.network.impose(CUT, [(2, 1)])
            found = await cluster.try_ways([(1, 2), (2, 3)], [1])
        assert found.pop("1>2").startswith("not carried: n")
        assert found == {way: text for way, text in whole.items() if way != "1>2"}
        cluster.network.heal()
        assert await cluster.try_ways([(1, 2), (2, 3)], [1]) == whole
        await cluster.kill([2])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.restart, [2])
            while not cluster.nodes[2].is_running:
                await trio.lowlevel.checkpoint()
            assert not cluster.nodes[2].is_ready
            assert await cluster.try_ways([(1, 2), (2, 3)], [1]) == whole
        await cluster.pause([2])
        found = await cluster.try_ways([(1, 2)], [1])
        assert re.fullmatch(r"not carried: n2 could not be asked: pid \d+ state T", found["1>2"])


@pytest.mark.parametrize("name", AROUND)
@pytest.mark.parametrize("target", [Target.LEADER, Target.ONE, Target.MINORITY, Target.ALL])
def test_a_fault_around_a_node_is_about_all_its_ways_and_its_clients(name: str, target: Target) -> None:
    nodes = range(1, 6)
    for seed in range(50):
        hit = KINDS[name].select(random.Random(seed), target, tuple(nodes), 4)
        assert hit.clients == hit.nodes
        assert set(hit.pairs) == {
            (one, other) for one in nodes for other in nodes if one != other and {one, other} & set(hit.nodes)
        }
