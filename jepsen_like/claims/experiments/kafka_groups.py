"""Kafka: the coordinator of a group and the topic of its positions: on one broker, lost, repaired, and with three copies."""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from jepsen_like.claims.experiment import ClaimDesk, Experiment
from jepsen_like.claims.experiments.kafka_acks import AFTER_S, RATE, RTO_S_MAX, WARM_S
from jepsen_like.claims.judgement import NEVER, Part, at_least, at_most, exactly, expect
from jepsen_like.claims.recordings import Recording, judge, open_scene
from jepsen_like.systems.kafka.stage.inspection import (
    OFFSETS,
    commit,
    coordinator,
    delete_logs,
    partition_of_group,
    position_of,
    reassign,
    until_coordinated,
    values_in,
)
from jepsen_like.systems.kafka.stage.quorum import demote, promote
from jepsen_like.systems.kafka.stage.stage import PlacedTopic, Stage

GROUPS: Final = tuple(f"readers-{number}" for number in range(5))
TOPIC: Final = "data"
POSITION: Final = 42
PARTITIONS: Final = 50
REPAIRED_WITHIN_S: Final = 60.0
HOLD_S: Final = 2.0
SETTINGS: Final = (f"offsets.topic.num.partitions={PARTITIONS}", "offsets.topic.replication.factor=1")

Values = dict[str, float | str]


async def _all_groups(do: Callable[[str], Awaitable[bool]]) -> int:
    """Returns for how many groups something could be done."""
    return sum([await do(group) for group in GROUPS])


async def _positions(stage: Stage) -> dict[str, int | None]:
    return {group: await position_of(stage, group, TOPIC) for group in GROUPS}


async def _until_committed(stage: Stage) -> float:
    """Commit the position of every group, once that is possible. Returns how long it took."""

    async def is_done() -> bool:
        return await _all_groups(lambda group: commit(stage, group, TOPIC, POSITION)) == len(GROUPS)

    return await stage.until("the positions of all groups committed", is_done, within_s=REPAIRED_WITHIN_S)


async def _until_known(stage: Stage) -> dict[str, int | None]:
    """Returns the positions of all groups, once each has an answer."""

    async def is_known() -> bool:
        return None not in (await _positions(stage)).values()

    await stage.until("the positions of all groups", is_known, within_s=REPAIRED_WITHIN_S)
    return await _positions(stage)


async def _on_first(stage: Stage) -> int:
    """Returns how many partitions of the offsets topic lie on a single broker, the one that has most."""
    states = (await stage.states(OFFSETS)).values()
    counts = [sum(node in state.replica_nodes for state in states) for node in stage.brokers]
    return max(counts)


async def _create_early(stage: Stage, found: Values) -> int:
    """Have the first group come while one broker is there; the others join it later. Returns that broker."""
    first = await stage.controller()
    others = [node for node in stage.brokers if node != first]
    await demote(stage, *others)
    away = await stage.kill(*others)

    async def is_alone() -> bool:
        return (await stage.control.view()).brokers == {first}

    await stage.until("one broker alone", is_alone)
    await until_coordinated(stage, GROUPS[0])
    await stage.end(away)
    await stage.until("all brokers serve", stage.control.is_serving)
    await promote(stage, *others)
    await trio.sleep(AFTER_S)
    found["offsets_partitions"] = len(await stage.states(OFFSETS))
    found["offsets_partitions_on_the_first_broker_with_three_there"] = await _on_first(stage)
    return first


async def _lose_it(stage: Stage, found: Values, first: int) -> None:
    """Kill the broker that has all of the offsets topic, delete its logs, and let it come back."""
    await _until_committed(stage)
    killed = await stage.kill(first)
    others = [node for node in stage.brokers if node != first]
    await stage.until_led(TOPIC, others)
    served = 0
    ends = trio.current_time() + HOLD_S
    while trio.current_time() < ends:
        served += await _all_groups(lambda group: commit(stage, group, TOPIC, POSITION))
        await trio.sleep(0.1)
    found["commits_with_one_copy_while_its_broker_was_dead"] = served
    leader = await stage.leader(TOPIC)
    found["records_read_without_a_group_meanwhile"] = len(await values_in(stage, leader, TOPIC))
    await stage.end(killed)
    before = await _until_known(stage)
    found["positions_kept_by_the_restart"] = sum(position == POSITION for position in before.values())
    killed = await stage.kill(first)
    found["logs_deleted"] = await delete_logs(stage, first, OFFSETS)
    await stage.end(killed)
    after = await _until_known(stage)
    found["positions_lost_by_deleting"] = sum(position != POSITION for position in after.values())


async def _repair(stage: Stage, found: Values) -> None:
    """Move the offsets topic to three copies, online."""
    await _until_committed(stage)
    placed = {
        number: tuple(stage.brokers[(number + step) % len(stage.brokers)] for step in range(3))
        for number in await stage.states(OFFSETS)
    }
    found["error_of_the_reassignment"] = await reassign(stage, OFFSETS, placed)
    began = trio.current_time()

    async def is_moved() -> bool:
        states = await stage.states(OFFSETS)
        return all(set(state.isr_nodes) == set(placed[number]) for number, state in states.items())

    await stage.until("three copies of the offsets topic", is_moved, within_s=REPAIRED_WITHIN_S)
    found["seconds_of_the_repair"] = round(trio.current_time() - began, 1)
    after = await _until_known(stage)
    found["positions_lost_by_reassigning"] = sum(position != POSITION for position in after.values())


async def _move(stage: Stage, found: Values) -> None:
    """Kill a coordinator whose partition has three copies."""
    victim = await coordinator(stage, GROUPS[0])
    killed = await stage.kill(victim)
    began = trio.current_time()

    async def is_served() -> bool:
        return await commit(stage, GROUPS[0], TOPIC, POSITION + 1)

    try:
        rto_s = await stage.until("a commit at another coordinator", is_served)
    finally:
        found["seconds_until_another_coordinator"] = round(trio.current_time() - began, 2)
    new = await coordinator(stage, GROUPS[0])
    states = await stage.states(OFFSETS)
    led = states[partition_of_group(GROUPS[0], len(states))].leader_id
    found["new_coordinator"] = "the new leader of its partition" if new == led != victim else f"broker {new}"
    found["coordinators_of_all_groups_are_leaders_of_their_partitions"] = sum(
        [
            await coordinator(stage, group) == states[partition_of_group(group, len(states))].leader_id
            for group in GROUPS
        ]
    )
    after = await _until_known(stage)
    found["positions_lost_by_the_move"] = sum(position not in (POSITION, POSITION + 1) for position in after.values())
    found["group_rto_s"] = round(rto_s, 2) if rto_s < NEVER else NEVER
    await stage.end(killed)


async def _groups(desk: ClaimDesk) -> tuple[Values, Recording]:
    found: Values = {}
    async with open_scene(desk, "groups", brokers=3, settings=SETTINGS) as scene:
        stage = scene.stage
        first = await _create_early(stage, found)
        await stage.create(PlacedTopic(name=TOPIC, placed=[stage.brokers], configs={"min.insync.replicas": "2"}))
        recording = scene.record("groups data", TOPIC, "acks=all", "min.insync.replicas=2")
        probe = scene.load(recording, rate=RATE)
        await trio.sleep(WARM_S)
        await _lose_it(stage, found, first)
        await scene.stop(probe)
        await _repair(stage, found)
        await _move(stage, found)
        await scene.keep(recording)
        return found, recording


def groups(desk: ClaimDesk) -> None:
    """Have all positions on one broker, kill it, delete its logs, repair by reassignment, and kill a coordinator."""
    found, recording = trio.run(_groups, desk)
    data = judge(desk, recording)
    for name, value in found.items():
        desk.measure(name, value, "s" if name.endswith("_s") or name.startswith("seconds") else "", data.directory)
    desk.measure("lost_data", data.lost, "records", data.directory)


EXPERIMENTS: Final = (
    Experiment(
        name="kafka-groups",
        story="All positions of groups lie on one broker; it dies, loses their logs, and is repaired by a reassignment; then a coordinator dies.",
        seconds=45,
        expects=(
            expect("C54 C55", "offsets_partitions", exactly(PARTITIONS)),
            expect("C55", "offsets_partitions_on_the_first_broker_with_three_there", exactly(PARTITIONS)),
            expect("C53 C01", "commits_with_one_copy_while_its_broker_was_dead", exactly(0)),
            expect("C53 C01", "records_read_without_a_group_meanwhile", at_least(1)),
            expect("C53", "positions_kept_by_the_restart", exactly(len(GROUPS))),
            expect("C53", "group_rto_s", at_most(2 * RTO_S_MAX)),
            expect("C32", "group_rto_s", at_most(2 * RTO_S_MAX), Part.INSTEAD),
            expect("C56", "error_of_the_reassignment", exactly(0)),
            expect("C56", "positions_lost_by_reassigning", exactly(0)),
            expect(
                "C56",
                "positions_lost_by_deleting",
                exactly(len(GROUPS)),
                Part.EXCEPTION,
                condition="all positions may go: deleting loses them, and a reassignment to three copies loses none",
            ),
            expect("C56", "seconds_of_the_repair", at_least(0), Part.PRICE),
            expect("C32", "new_coordinator", exactly("elected apart from its partition")),
            expect("C32", "new_coordinator", exactly("the new leader of its partition"), Part.INSTEAD),
            expect(
                "C32", "coordinators_of_all_groups_are_leaders_of_their_partitions", exactly(len(GROUPS)), Part.INSTEAD
            ),
            expect("C31", "coordinators_of_all_groups_are_leaders_of_their_partitions", exactly(len(GROUPS))),
            expect("C53 C56", "lost_data", exactly(0)),
            expect("C32", "positions_lost_by_the_move", exactly(0), Part.PRICE),
        ),
        conduct=groups,
    ),
)
