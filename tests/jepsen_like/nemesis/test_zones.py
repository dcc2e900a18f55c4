"""A fault of a zone hits all that stands in it, with its clients, and every way out of it; a run without that proves nothing."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from jepsen_like.nemesis.kind import Here, Withheld
from jepsen_like.nemesis.nemesis import FaultRecord, Nemesis, copies_seen
from jepsen_like.nemesis.table import KINDS
from jepsen_like.nemesis.targets import ResolvedTarget, Target
from jepsen_like.nemesis.zones import GONE, ZoneDown
from jepsen_like.port.observations import RoleSeen
from jepsen_like.port.zones import NOWHERE, ZoneMap, ZonePlan
from jepsen_like.record import evidence
from tests.jepsen_like.record.test_recovery_time import a_fault
from tests.jepsen_like.run.test_results import S

NODES = (1, 2, 3)
NAMES = (4, 5)
ZONES = ZonePlan.of("2+1").settle([NODES], NAMES)
"""a: 1, 3 and 4; b: 2 and 5."""
OUT_OF_B = (*(f"{one}>{other}" for one, other in ZONES.border((2,))[0]), "client>2", "client>5")


def cluster_in(zones: ZoneMap) -> Any:
    """As far as a fault has to know it before it begins."""
    return SimpleNamespace(zones=zones, nodes=dict.fromkeys((*NODES, *NAMES)), targets=NODES)


async def hit(kind: str, target: Target, *, leader: int = 2, seed: int = 1, zones: ZoneMap = ZONES) -> ResolvedTarget:
    """Whom a fault hits."""
    selected = KINDS[kind].select(random.Random(seed), target, NODES, leader)
    return await KINDS[kind].locate(cluster_in(zones), "", selected)


async def test_all_that_stands_in_the_leaders_zone_is_hit_name_servers_too() -> None:
    assert (await hit("zone-down", Target.LEADER)).nodes == (2, 5)
    assert (await hit("zone-down", Target.LEADER, leader=3)).nodes == (1, 3, 4)


@pytest.mark.parametrize("kind", ["zone-down", "zone-cut", "zone-slow", "kill", "pause", "restart", "power"])
async def test_any_zone_is_a_target_of_zones_processes_and_power(kind: str) -> None:
    assert KINDS[kind].takes_zones
    found = {(await hit(kind, Target.ZONE, seed=seed)).nodes for seed in range(20)}
    assert found == {(1, 3, 4), (2, 5)}


async def test_a_fault_of_a_zone_is_about_every_way_out_of_it() -> None:
    for kind in ("zone-down", "zone-cut", "zone-slow"):
        assert set((await hit(kind, Target.LEADER)).links) == set(OUT_OF_B)


async def test_clients_share_the_fate_of_their_zone() -> None:
    in_b = ZonePlan.of("2+1", clients="b").settle([NODES], NAMES)
    for kind in ("zone-down", "zone-cut"):
        assert (await hit(kind, Target.LEADER, zones=in_b)).clients == (1, 3, 4)
        assert (await hit(kind, Target.LEADER)).clients == (2, 5)


async def test_a_zone_goes_without_a_word_and_its_network_is_back_before_its_machines() -> None:
    done: list[object] = []

    async def cut_power(nodes: tuple[int, ...]) -> None:
        done.append(nodes)

    async def restart(nodes: tuple[int, ...]) -> None:
        done.append("started")

    async def try_ways(pairs: object, clients: tuple[int, ...]) -> dict[str, str]:
        return {f"client>{node}": "carried" for node in clients}

    process = SimpleNamespace(
        is_running=True, observe=lambda: "pid 7 dead", machine=SimpleNamespace(written_bytes=lambda: 5)
    )
    wires = SimpleNamespace(
        impose=lambda condition, pairs, clients: done.append((condition, clients)), heal=lambda: done.append("healed")
    )
    cluster: Any = SimpleNamespace(
        nodes={2: process}, network=wires, cut_power=cut_power, restart=restart, try_ways=try_ways
    )
    target = ResolvedTarget((2,), ((2, 1),), clients=(1, 3))
    assert await ZoneDown().inject(cluster, target) == {"2": "pid 7 dead, its files held 5 bytes"}
    assert (await ZoneDown().undo(cluster, target))["client>3"] == "carried"
    assert done == [(GONE, (1, 3)), (2,), "healed", "started"]


async def test_the_most_copies_of_one_scope_in_a_zone_are_noted(tmp_path: Path) -> None:
    held = {"log-0": (1, 2, 3), "log-1": (4, 1, 2), "log-2": (2, 3, 4)}

    async def leaders() -> dict[str, int]:
        return dict.fromkeys(held, 1)

    async def copies(scope: str) -> tuple[int, ...]:
        return held[scope]

    cluster: Any = SimpleNamespace(
        control=SimpleNamespace(leaders=leaders, copies=copies),
        mode=SimpleNamespace(spare=lambda nodes: 1, groups=lambda nodes: [nodes]),
        targets=(1, 2, 3, 4),
    )
    nemesis = Nemesis(cluster, [], tmp_path / "nemesis.jsonl")
    assert copies_seen(await nemesis._count_copies((1, 4))) == 2
    assert copies_seen(await nemesis._count_copies((3,))) == 1
    assert copies_seen({}) == 0


async def test_a_fault_of_a_zone_needs_zones() -> None:
    for kind in ("zone-down", "zone-cut", "zone-slow"):
        assert KINDS[kind].lacks(Here(3)) == "needs a cluster with zones; add --zones 3"
        with pytest.raises(Withheld, match="no zones"):
            await hit(kind, Target.LEADER, zones=NOWHERE)
    assert KINDS["zone-cut"].lacks(Here(3, zones=2)) is None


# -------------------------------------------------------------------- what proves it


def doubts(kind: str = "zone-cut", **changes: Any) -> list[str]:
    """Of a fault of zone b, in which the leader stands, unless changed."""
    nodes = changes.get("nodes", (2, 5))
    links = changes.get("links", OUT_OF_B)
    whole = {str(node): "pid 78 state S" for node in nodes} | {way: f"carried {way} and back" for way in links}
    seen = {way: f"cut {way}: 0 bytes passed in 2.0 s" for way in links}
    if kind == "zone-down":
        seen = {way: f"half-open, hanging {way}: 0 bytes passed in 2.0 s" for way in links}
        seen |= {str(node): "pid 77 dead, its files held 1,234 bytes" for node in nodes}
    fault: FaultRecord = attrs.evolve(
        a_fault(5, 8), kind=kind, leader=2, nodes=nodes, links=links, observed=seen, healed=whole
    )
    fault = attrs.evolve(fault, **changes)
    return evidence.of_faults([fault], (RoleSeen(2, 1 * S, "leader", 1),), NODES, [kind], ZONES)


def test_a_zone_is_proved_to_be_hit_as_a_whole() -> None:
    assert doubts("zone-cut") == []
    assert doubts("zone-down") == []
    assert "n5 of zone b went on" in doubts("zone-down", nodes=(2,))[0]
    assert "it hit zones a, b, not one" in doubts("zone-down", nodes=(1, 2, 3, 4, 5))[0]
    assert "n2 led in another zone" in doubts("zone-down", nodes=(1, 3, 4))[0]
    assert (
        "n2 was not gone with its power" in doubts("zone-down", observed={"5": "pid 1 dead, its files held 0 bytes"})[0]
    )


def test_every_way_out_of_a_zone_is_proved_to_be_cut() -> None:
    left = tuple(way for way in OUT_OF_B if way != "client>5")
    assert "client>5 leads out of zone b and was left" in doubts(links=left)[0]
    leaky = {way: f"cut {way}: {0 if way != '3>2' else 7} bytes passed in 2.0 s" for way in OUT_OF_B}
    assert "3>2 was not cut" in doubts(observed=leaky)[0]


def test_a_killed_zone_is_proved_like_one_without_power() -> None:
    seen = {"2": "pid 77 dead", "5": "pid 78 dead"}
    assert doubts("kill", target="zone", links=(), observed=seen) == ["no kill hit a leader"]
    (told, _) = doubts("kill", target="zone", nodes=(2,), links=(), observed=seen)
    assert "n5 of zone b went on" in told
