"""Zones are placed as their rule demands, and what reads them sees the same places."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jepsen_like.port.port import Member, Mode, ProcessPlan
from jepsen_like.port.wires import CLIENTS
from jepsen_like.port.zones import NO_ZONES, NOWHERE, OUTSIDE, Placement, WrongZones, ZoneMap, ZonePlan
from jepsen_like.systems.kafka.mode import KafkaMode
from jepsen_like.systems.kafka.processes import broker_command
from jepsen_like.systems.rocketmq.system import RocketMqSystem

THREE = (1, 2, 3)


def process_plan(mode: Mode, **changes: Any) -> ProcessPlan:
    """The plan of node 1 of three."""
    addresses = {node: ("127.0.0.1", 1000 + node) for node in THREE}
    plan = ProcessPlan(
        member=Member(1, "broker"),
        cluster_id="test",
        listen=addresses[1],
        data=Path("data"),
        peers=addresses,
        advertised=addresses,
        mode=mode,
    )
    return attrs.evolve(plan, **changes)


def settle(text: str, *groups: Sequence[int], others: Sequence[int] = (), **more: Any) -> ZoneMap:
    """Zones as `--zones` plans them, of these groups and other members."""
    return ZonePlan.of(text, **more).settle(groups or [THREE], others)


@pytest.mark.parametrize(
    ("text", "groups", "members"),
    [
        ("3", [THREE], {"a": (1,), "b": (2,), "c": (3,)}),
        ("2+1", [THREE], {"a": (1, 3), "b": (2,)}),
        ("3+0", [THREE], {"a": THREE, "b": ()}),
        ("3", [(1, 2, 3, 4, 5)], {"a": (1, 4), "b": (2, 5), "c": (3,)}),
        ("2", [(1, 2), (3, 4)], {"a": (1, 4), "b": (2, 3)}),
        ("2+2", [(1, 2), (3, 4)], {"a": (1, 4), "b": (2, 3)}),
    ],
)
def test_copies_are_spread_and_so_are_first_members(text: str, groups: list[tuple[int, ...]], members: object) -> None:
    zones = settle(text, *groups)
    assert {name: zones.members(name) for name in zones.names} == members


@given(st.integers(2, 9), st.lists(st.integers(1, 7), min_size=1, max_size=5))
def test_a_group_stands_in_as_many_zones_as_it_can_and_zones_are_even(count: int, sizes: list[int]) -> None:
    groups: list[tuple[int, ...]] = []
    first = 1
    for size in sizes:
        groups.append(tuple(range(first, first + size)))
        first += size
    zones = settle(str(count), *groups)
    together = settle(str(count), *groups, placement=Placement.TOGETHER)
    filled = [len(zones.members(name)) for name in zones.names]
    assert max(filled) - min(filled) <= 1
    assert sorted(zones.of) == sorted(together.of) == list(range(1, first))
    if len(groups) == 1:
        assert zones.find_misplaced({"group": groups[0]}) == []
    for group in groups:
        assert together.find_misplaced({"group": group}) == []


def test_the_rule_of_placement_finds_copies_that_break_it() -> None:
    spread = settle("3", (1, 2, 3, 4, 5, 6))
    assert spread.find_misplaced({"even": (1, 2, 3), "two": (4, 5)}) == []
    (told,) = spread.find_misplaced({"orders-0": (1, 4, 2)})
    assert told == "the copies of orders-0 stand in 2 zones (n1 in a, n4 in a, n2 in b); spread demands 3"
    together = settle("3", placement=Placement.TOGETHER)
    assert together.find_misplaced({"log": THREE}) == []
    assert settle("2+1").find_misplaced({"log": THREE}) == []
    assert settle("2", (1, 2), (3, 4), placement=Placement.TOGETHER).find_misplaced({"pair": (1, 3)})
    assert NOWHERE.find_misplaced({"log": THREE}) == []


def test_the_border_of_a_zone_is_crossed_by_its_members_and_by_clients() -> None:
    zones = settle("2+1", others=(4,))  # a: 1, 3 and 4; b: 2
    pairs, clients = zones.border((2,))
    assert set(pairs) == {(2, 1), (1, 2), (2, 3), (3, 2), (2, 4), (4, 2)}
    assert clients == (2,)
    assert zones.whole((3,)) == (1, 3, 4)
    inside = settle("2+1", others=(4,), clients="b")
    assert inside.border((2,)) == (pairs, (1, 3, 4))
    assert inside.border((1, 3, 4))[1] == (1, 3, 4)


def test_lines_lead_between_zones_alone_and_are_shared_by_direction() -> None:
    zones = settle("2+1", delay_s=0.002, bytes_per_s=1000.0, clients="b")
    ways = {frozenset(route.ways) for route in zones.routes()}
    assert ways == {
        frozenset({(1, 2), (3, 2), (1, CLIENTS), (3, CLIENTS)}),
        frozenset({(2, 1), (2, 3), (CLIENTS, 1), (CLIENTS, 3)}),
    }
    assert {(route.delay_s, route.bytes_per_s) for route in zones.routes()} == {(0.002, 1000.0)}
    assert settle("3").routes() == ()
    assert len(settle("3", delay_s=0.001).routes()) == 12
    assert settle("3").clients == OUTSIDE


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1", "2 to 9 zones"),
        ("10", "2 to 9 zones"),
        ("x", "neither a number"),
        ("2+", "neither"),
        ("2+2", "places for 4"),
    ],
)
def test_zones_that_make_no_sense_are_refused(text: str, why: str) -> None:
    with pytest.raises(WrongZones, match=why):
        settle(text)


def test_a_group_that_fits_into_no_zone_is_not_placed_together() -> None:
    with pytest.raises(WrongZones, match="no zone has room for all of n1, n2, n3"):
        settle("2+1", placement=Placement.TOGETHER)
    with pytest.raises(WrongZones, match="clients cannot stand in 'd'"):
        ZonePlan.of("3", clients="d")


def test_a_cluster_without_zones_stands_nowhere() -> None:
    assert NO_ZONES.settle([THREE]) == NOWHERE
    assert NOWHERE.zone_of(1) == ""
    assert NOWHERE.routes() == ()


def test_a_broker_of_kafka_has_its_zone_as_its_rack() -> None:
    mode = KafkaMode.of([])
    assert "broker.rack=b" in broker_command(process_plan(mode, zone="b"))
    assert not [word for word in broker_command(process_plan(mode)) if "rack" in word]


def test_every_zone_of_rocketmq_has_a_name_server_that_brokers_and_clients_know() -> None:
    system = RocketMqSystem()
    members = system.members_in_zones(2, 3)
    assert [member.id for member in members if not member.holds_data] == [3, 4, 5]
    mode = system.configure((), "sync-slave").on(2)
    advertised = {member.id: ("127.0.0.1", 1000 + member.id) for member in members}
    plan = process_plan(mode, advertised=advertised, peers=advertised, member=members[-1])
    assert "namesrvAddr=127.0.0.1:1003;127.0.0.1:1004;127.0.0.1:1005" in system.command(plan)
    names = {node: address for node, address in advertised.items() if node > 2}
    assert system.address_line(names) == "namesrvAddr=127.0.0.1:1003;127.0.0.1:1004;127.0.0.1:1005"
