"""A small share of the worlds of each system has zones, drawn apart, and loses a whole one."""

from collections.abc import Callable

import pytest

from jepsen_like.simulation.kafka.swarm import draw_kafka
from jepsen_like.simulation.kafka.world import KafkaWorld
from jepsen_like.simulation.kernel.swarm import ZONE_FAULTS, FaultKind, Knobs, PlannedFault
from jepsen_like.simulation.raft.swarm import draw
from jepsen_like.simulation.rocketmq.swarm import draw_rocketmq

DRAWS = [draw, draw_kafka, draw_rocketmq]
SEEDS = range(300)


@pytest.mark.parametrize("knobs_of", DRAWS)
def test_one_of_ten_worlds_has_zones_and_a_fault_of_one(knobs_of: Callable[[int], Knobs]) -> None:
    drawn = [knobs_of(seed) for seed in SEEDS]
    in_zones = [knobs for knobs in drawn if knobs.zones]
    assert 0.05 < len(in_zones) / len(drawn) < 0.15
    for knobs in drawn:
        struck = [fault for fault in knobs.faults if fault.kind in ZONE_FAULTS]
        assert bool(struck) == bool(knobs.zones)
        assert list(knobs.faults) == sorted(knobs.faults, key=lambda fault: fault.at_s)
        assert knobs.zones <= knobs.nodes
        others = [fault for fault in knobs.faults if fault not in struck]
        assert [fault.name for fault in others] == [f"fault/{number}" for number in range(len(others))]


def test_all_brokers_of_a_zone_lose_their_power_at_once_and_no_other() -> None:
    seed = next(seed for seed in SEEDS if draw_kafka(seed).zones == 2 and draw_kafka(seed).nodes > 2)
    world = KafkaWorld(draw_kafka(seed))
    world.begin()
    world.nemesis.strike(PlannedFault(0.0, FaultKind.ZONE_DOWN, "zone/0"))
    down = {broker.node for broker in world.brokers.values() if not broker.up}
    zones = {world.knobs.zone_of(node) for node in down}
    assert len(zones) == 1
    assert down == {node for node in world.brokers if world.knobs.zone_of(node) in zones}
    assert world.counts["power_cuts"] == len(down)


def test_brokers_stand_in_racks_and_new_replicas_in_as_many_as_there_are() -> None:
    for seed in [seed for seed in SEEDS if draw_kafka(seed).zones][:5]:
        world = KafkaWorld(draw_kafka(seed))
        world.begin()
        assert {each.rack for each in world.audits.image.brokers.values()} == {
            world.knobs.rack_of(node) for node in world.brokers
        }
        for truth in world.audits.truths.values():
            used = {world.knobs.rack_of(node) for node in truth.state.replicas}
            assert len(used) == min(len(truth.state.replicas), world.knobs.zones)
