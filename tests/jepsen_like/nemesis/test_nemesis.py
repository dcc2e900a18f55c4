"""Every fault is seen from outside while it holds, and gone afterwards."""

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trio

from jepsen_like.cluster.cluster import Cluster, open_cluster
from jepsen_like.nemesis import budget
from jepsen_like.nemesis.kind import Withheld
from jepsen_like.nemesis.nemesis import PEACE_S, FaultNews, Nemesis
from jepsen_like.nemesis.processes import Kill
from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.targets import Target
from tests.jepsen_like.raft_clusters import open_raft_cluster, settle_cluster
from tests.jepsen_like.systems.toy import ToySystem

pytestmark = pytest.mark.cluster

FAULTS = [
    ("kill", Target.LEADER),
    ("partition", Target.ONE_WAY),
    ("pause", Target.LEADER),
    ("kill", Target.MAJORITY),
    ("partition", Target.LEADER),
    ("pause", Target.ALL),
    ("partition", Target.HALVES),
    ("partition", Target.BRIDGE),
    ("restart", Target.LEADER),
]
HOLD_S = 0.2


def open_toy_cluster(directory: Path) -> AbstractAsyncContextManager[Cluster]:
    """Opens a cluster that is up sooner than one of raft; its first node always leads."""
    system = ToySystem()
    mode = system.configure((), system.replications[0])
    return open_cluster(directory, system, mode, nodes=3, cluster_id="test")


async def test_every_kind_of_fault_is_seen_and_undone(tmp_path: Path) -> None:
    faults = [
        Fault(number, *what, at_s=number / 1000, hold_s=HOLD_S, seed=number) for number, what in enumerate(FAULTS)
    ]
    news: list[FaultNews] = []
    async with open_raft_cluster(tmp_path / "nodes", nodes=3) as cluster:
        nemesis = Nemesis(cluster, faults, tmp_path / "nemesis.jsonl", news.append)
        await nemesis.run()
        await nemesis.heal()
        assert await settle_cluster(cluster) == 0
        assert cluster.unasked_ends == []
    rows = rows_of(tmp_path)
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


async def test_a_link_may_be_cut_while_a_node_is_killed_but_no_two_links_at_once(tmp_path: Path) -> None:
    intents = [("kill", Target.ONE), ("partition", Target.LEADER), ("partition", Target.HALVES)]
    faults = [Fault(number, *what, number / 1000, HOLD_S, 1) for number, what in enumerate(intents, 1)]
    async with open_raft_cluster(tmp_path / "nodes", nodes=3) as cluster:
        nemesis = Nemesis(cluster, faults, tmp_path / "nemesis.jsonl")
        await nemesis.run()
        await nemesis.heal()
    kill, first, second, _ = rows_of(tmp_path)
    assert first["begun_ns"] < kill["ended_ns"]
    assert kill["begun_ns"] < first["ended_ns"]
    assert second["begun_ns"] - first["ended_ns"] >= PEACE_S * 1e9
    assert second["waited_s"] >= HOLD_S


async def test_a_fault_within_another_waits_until_that_one_holds(tmp_path: Path) -> None:
    faults = [
        Fault(1, "partition", Target.LEADER, 0.05, HOLD_S, 1),
        Fault(2, "kill", Target.ONE, 0.0, HOLD_S, 1, overlaps=1),
    ]
    async with open_toy_cluster(tmp_path / "nodes") as cluster:
        nemesis = Nemesis(cluster, faults, tmp_path / "nemesis.jsonl")
        await nemesis.run()
        await nemesis.heal()
    kill, cut = sorted(rows_of(tmp_path)[:2], key=lambda row: str(row["kind"]))
    assert cut["injected_ns"] <= kill["begun_ns"] < cut["ended_ns"]


async def test_what_was_broken_when_a_run_ended_early_is_mended_and_recorded(tmp_path: Path) -> None:
    async with open_toy_cluster(tmp_path / "nodes") as cluster:
        fault = Fault(1, "pause", Target.LEADER, 0.0, hold_s=60.0, seed=1)
        with trio.CancelScope() as scope:
            nemesis = Nemesis(cluster, [fault], tmp_path / "nemesis.jsonl", lambda news: scope.cancel())
            await nemesis.run()
        await nemesis.heal()
        assert [record.kind for record in nemesis.records] == ["pause"]
        assert await settle_cluster(cluster) == 0
    pause, heal = rows_of(tmp_path)
    assert seen_as_intended(pause)
    assert heal["kind"] == "heal"


class Forgets(Kill):
    """As if a killed node had lost its disk; it has not, so it catches up at once when it comes back."""

    name: ClassVar[str] = "forgets"
    damages: ClassVar[bool] = True


async def test_damage_waits_for_the_damaged_and_never_takes_a_majority(tmp_path: Path) -> None:
    intents = [Target.LEADER, Target.ONE, Target.MAJORITY]
    faults = [Fault(number, "forgets", target, number / 1000, HOLD_S, 1) for number, target in enumerate(intents, 1)]
    async with open_raft_cluster(tmp_path / "nodes", nodes=3) as cluster:
        nemesis = Nemesis(cluster, faults, tmp_path / "nemesis.jsonl", kinds={"forgets": Forgets()})
        await nemesis.run()
        assert len(nemesis.records) == 2
        sound = next(node for node in (1, 2, 3) if node not in nemesis.budget.behind)
        await nemesis.budget.room_for(cluster, [sound])
        assert nemesis.budget.behind == frozenset()
        await nemesis.heal()
    first, second, third, _ = rows_of(tmp_path)
    assert (first["withheld"], second["withheld"]) == (None, None)
    assert second["begun_ns"] > first["ended_ns"]
    assert third["withheld"] == "damage to 2 nodes is more than the mode can spare (1)"


async def test_a_node_that_never_catches_up_is_the_last_to_be_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_toy_cluster(tmp_path / "nodes") as cluster:
        account = budget.DamageBudget(lambda nodes: 1, [(1, 2, 3)])
        await cluster.kill([3])
        account.charge([3])
        with monkeypatch.context() as impatient:
            impatient.setattr(budget, "CATCH_UP_WITHIN_S", 0.3)
            with pytest.raises(Withheld, match="n3 had not caught up"):
                await account.room_for(cluster, [1])
        await cluster.restart([3])
        await account.room_for(cluster, [1])
        assert await cluster.wait_until_caught_up([1, 2, 3], within_s=60)
        assert account.behind == frozenset()


def rows_of(directory: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (directory / "nemesis.jsonl").read_text().splitlines()]
    return sorted(rows, key=lambda row: int(row["id"]))


def seen_as_intended(row: dict[str, object]) -> bool:
    observed, nodes, links = row["observed"], row["nodes"], row["links"]
    assert isinstance(observed, dict)
    assert isinstance(nodes, list)
    assert isinstance(links, list)
    match row["kind"]:
        case "pause":
            return bool(nodes) and all(observed[str(node)].endswith("state T") for node in nodes)
        case "kill" | "restart":
            return bool(nodes) and all(observed[str(node)].endswith("dead") for node in nodes)
        case "partition":
            return (
                bool(links)
                and all(observed[link].startswith(f"cut {link}") for link in links)
                and all(": 0 bytes passed" in said for said in observed.values())
            )
        case _:
            return False
