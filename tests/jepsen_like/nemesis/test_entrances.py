"""Faults of the processes that hold no data: one or all of them are hit, and never a node with records."""

import random
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from jepsen_like.nemesis.kind import Withheld
from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.nemesis.table import KINDS
from jepsen_like.nemesis.targets import ResolvedTarget, Target
from jepsen_like.port.port import Member
from jepsen_like.record.evidence import of_faults

NODES = (1, 2)
NAMES = (3, 4, 5)
KILLED = FaultRecord(
    id=1,
    kind="kill",
    target="entrances",
    nodes=NAMES,
    links=(),
    leader=1,
    term=1,
    intended_ns=0,
    begun_ns=0,
    injected_ns=1,
    ended_ns=9,
    observed={str(node): f"pid {node} dead" for node in (*NODES, *NAMES)},
    healed={str(node): f"pid {node} state S" for node in (*NODES, *NAMES)},
)


async def hit(target: Target, seed: int = 1, names: tuple[int, ...] = NAMES) -> ResolvedTarget:
    members = [
        *(Member(node, "broker") for node in NODES),
        *(Member(node, "names", holds_data=False) for node in names),
    ]
    cluster: Any = SimpleNamespace(members={member.id: member for member in members}, targets=NODES)
    selected = KINDS["kill"].select(random.Random(seed), target, NODES, 1)
    return await KINDS["kill"].locate(cluster, "", selected)


async def test_one_entrance_is_drawn_and_all_are_all() -> None:
    assert {(await hit(Target.ENTRANCE, seed)).nodes for seed in range(20)} == {(3,), (4,), (5,)}
    assert (await hit(Target.ENTRANCES)).nodes == NAMES


async def test_a_cluster_whose_processes_all_hold_data_has_no_entrance() -> None:
    with pytest.raises(Withheld, match="every process of this cluster holds data"):
        await hit(Target.ENTRANCE, names=())


@pytest.mark.parametrize(
    ("target", "nodes", "is_right"),
    [("entrances", NAMES, True), ("entrance", (4,), True), ("entrance", (3, 4), False), ("entrances", (1, 3), False)],
)
def test_a_fault_of_entrances_is_proved_to_have_hit_them_alone(
    target: str, nodes: tuple[int, ...], is_right: bool
) -> None:
    doubts = of_faults([attrs.evolve(KILLED, target=target, nodes=nodes)], (), NODES, ())
    assert (not doubts) is is_right
