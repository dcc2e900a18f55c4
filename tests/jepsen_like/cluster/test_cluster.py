"""The questions that a cluster asks for the faults, with a control that answers as told."""

from types import SimpleNamespace
from typing import Any, cast

import trio

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.port.observations import LEADER, Reports
from jepsen_like.port.port import Leadership, Scope


async def find_leaders(*answers: dict[Scope, Leadership]) -> list[tuple[int, str, int, str]]:
    """Returns node, role, epoch and scope of what a cluster notes while its leaders are found as often as answered."""
    left = list(answers)

    async def leaders() -> dict[Scope, Leadership]:
        return left.pop(0)

    async def leader_of(scope: Scope) -> Leadership | None:
        return left.pop(0).get(scope)

    control: Any = SimpleNamespace(leaders=leaders, leader_of=leader_of)
    system: Any = SimpleNamespace(control=lambda *about: control)
    site: Any = SimpleNamespace(clients={}, direct={})
    none = cast("Any", None)
    async with trio.open_nursery() as nursery:
        reports = Reports()
        cluster = Cluster(none, system, none, (), {}, {}, site, nursery, reports, none)
        while left:
            await cluster.leaders(within_s=5)
            if left:
                await cluster.leader_of("log", within_s=5)
    return [(each.node, each.role, each.term, each.scope) for each in reports.roles]


async def test_a_leaders_own_word_is_kept_once_before_a_fault_silences_it() -> None:
    first, next_one = ({"log": Leadership(node, 5 + node, is_own_word=True)} for node in (1, 2))
    assert await find_leaders(first, first, {}, next_one, next_one) == [(1, LEADER, 6, "log"), (2, LEADER, 7, "log")]


async def test_what_others_say_of_a_leader_proves_nothing() -> None:
    assert await find_leaders({"log": Leadership(1, 5)}, {"log": Leadership(1, 5)}) == []
