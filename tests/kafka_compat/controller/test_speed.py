"""A command costs as much as its change: its cost grows no faster than the cluster.

The tests compare CPU times as ratios, each the least of several runs.
"""

import time

from attrs import frozen

from kafka_compat.controller.commands import (
    CreateTopics,
    FenceBroker,
    NewTopic,
    TopicsCreated,
    UnfenceBroker,
    encode_command,
)
from kafka_compat.controller.machine import MetadataMachine
from tests.kafka_compat.controller.world import World, uuid

FEW, MANY = 100, 1_000
PARTITIONS = 3


@frozen
class Costs:
    """CPU seconds in a cluster of so many topics."""

    fence: float
    unfence: float
    snapshot: float


def test_in_ten_times_as_many_topics_no_command_costs_more_than_its_change() -> None:
    few, many = least_costs(FEW), least_costs(MANY)
    growth = MANY / FEW
    assert many.fence < 3 * growth * few.fence, "a fence visits each partition of its broker once"
    assert many.snapshot < 3 * growth * few.snapshot
    assert many.unfence < many.fence / 20, "unfencing looks at partitions without leader alone"


def least_costs(topics: int) -> Costs:
    costs = [costs_of(topics) for _ in range(3)]
    return Costs(
        min(each.fence for each in costs), min(each.unfence for each in costs), min(each.snapshot for each in costs)
    )


def costs_of(topics: int) -> Costs:
    world = World()
    world.start(1, 2, 3)
    named = [NewTopic(f"topic-{number}", uuid(number + 1), PARTITIONS, 3) for number in range(topics)]
    world.do(CreateTopics(tuple(named), 7), TopicsCreated)
    world.machine.drain_changes()
    fence = time_command(world, encode_command(FenceBroker(1, world.epoch(1))))
    (delta,) = world.machine.drain_changes()
    assert len(delta.partitions) == PARTITIONS * topics
    assert world.machine.image.leaderships(1) == 0
    unfence = time_command(world, encode_command(UnfenceBroker(1, world.epoch(1))))
    begun = time.process_time()
    MetadataMachine().restore(world.machine.snapshot())
    return Costs(fence, unfence, time.process_time() - begun)


def time_command(world: World, command: bytes) -> float:
    begun = time.process_time()
    world.apply(command)
    return time.process_time() - begun
