"""Every fault is seen from outside while it holds, and gone afterwards."""

import json
from pathlib import Path

import pytest

from jepsen_like.cluster.cluster import open_cluster
from jepsen_like.nemesis.nemesis import FaultNews, Nemesis
from jepsen_like.nemesis.schedule import Fault, FaultKind, Target

pytestmark = pytest.mark.cluster

FAULTS = [
    (FaultKind.KILL, Target.LEADER),
    (FaultKind.PARTITION, Target.ONE_WAY),
    (FaultKind.PAUSE, Target.LEADER),
    (FaultKind.KILL, Target.MAJORITY),
    (FaultKind.PARTITION, Target.LEADER),
    (FaultKind.PAUSE, Target.ALL),
    (FaultKind.PARTITION, Target.HALVES),
    (FaultKind.PARTITION, Target.BRIDGE),
    (FaultKind.RESTART, Target.LEADER),
]
HOLD_S = 0.2


async def test_every_kind_of_fault_is_seen_and_undone(tmp_path: Path) -> None:
    faults = [Fault(number, *what, at_s=0.0, hold_s=HOLD_S, seed=number) for number, what in enumerate(FAULTS)]
    news: list[FaultNews] = []
    async with open_cluster(tmp_path / "nodes", nodes=3, cluster_id="test") as cluster:
        nemesis = Nemesis(cluster, faults, tmp_path / "nemesis.jsonl", news.append)
        await nemesis.run()
        await nemesis.heal()
        assert await cluster.agreed_end(within_s=20) == 0
        assert cluster.unasked_ends == []
    rows = [json.loads(line) for line in (tmp_path / "nemesis.jsonl").read_text().splitlines()]
    assert [(row["kind"], row["target"]) for row in rows] == [*FAULTS, ("heal", "all")]
    assert len(news) == 2 * len(faults)
    for row in rows[:-1]:
        assert row["intended_ns"] <= row["begun_ns"] <= row["injected_ns"]
        assert row["ended_ns"] - row["injected_ns"] >= HOLD_S * 1e9
        assert seen_as_intended(row), row
        if row["target"] == Target.LEADER:
            assert row["nodes"] == [row["leader"]]
    for said in rows[-1]["healed"].values():
        assert said.split()[-1] in ("S", "R", "D")


def seen_as_intended(row: dict[str, object]) -> bool:
    observed, nodes, links = row["observed"], row["nodes"], row["links"]
    assert isinstance(observed, dict)
    assert isinstance(nodes, list)
    assert isinstance(links, list)
    match FaultKind(str(row["kind"])):
        case FaultKind.PAUSE:
            return bool(nodes) and all(observed[str(node)].endswith("state T") for node in nodes)
        case FaultKind.KILL | FaultKind.RESTART:
            return bool(nodes) and all(observed[str(node)].endswith("dead") for node in nodes)
        case FaultKind.PARTITION:
            return (
                bool(links)
                and all(observed[link].startswith(f"cut {link}") for link in links)
                and all(": 0 bytes passed" in said for said in observed.values())
            )
