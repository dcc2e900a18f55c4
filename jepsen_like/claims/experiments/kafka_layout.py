"""Kafka: how topics lie on brokers, what followers do, and which replica leads after a death."""

import itertools
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from jepsen_like.claims.experiment import ClaimDesk, Experiment, plan_of
from jepsen_like.claims.experiments.kafka_acks import RATE, RTO_S_MAX, WARM_S
from jepsen_like.claims.judgement import Part, at_least, at_most, between, exactly, expect
from jepsen_like.claims.recordings import Recording, Scene, gaps_by_partition, judge, open_scene
from jepsen_like.cluster.cluster import open_cluster
from jepsen_like.run.exercise import RunPlan
from jepsen_like.systems.kafka.stage.acts import Act
from jepsen_like.systems.kafka.stage.inspection import (
    OFFSETS,
    bytes_from,
    coordinator,
    default_of,
    fetch_frame_bytes,
    files_of,
    log_directories,
    partition_of_group,
    until_coordinated,
    values_in,
)
from jepsen_like.systems.kafka.stage.probe import Delivery
from jepsen_like.systems.kafka.stage.stage import PlacedTopic, Stage

BROKERS: Final = 3
GROUPS: Final = 40
ORDERS: Final = tuple(itertools.permutations(range(1, BROKERS + 1)))
RECORDS: Final = 50
SEGMENT_BYTES: Final = 65536
LED_WITHIN_S: Final = 30.0

Values = dict[str, float | str]


def inversions(values: Sequence[int]) -> int:
    """Counts the places at which a smaller value follows."""
    return sum(one > two for one, two in itertools.pairwise(values))


def first_in_sync(assignment: Sequence[int], in_sync: Sequence[int], dead: int) -> int:
    """Returns the first replica in the order of the assignment that is in sync and alive; -1 without any."""
    return next((each for each in assignment if each in in_sync and each != dead), -1)


def spread_of(copies: Mapping[int, Sequence[int]], brokers: Sequence[int]) -> int:
    """Returns by how many replicas the fullest broker and the emptiest one differ."""
    count = Counter(broker for replicas in copies.values() for broker in replicas)
    return max(count[broker] for broker in brokers) - min(count[broker] for broker in brokers)


# -------------------------------------------------------------------- topics on brokers


async def _place(stage: Stage, found: Values) -> None:
    await stage.create(PlacedTopic(name="three", partitions=3, copies=3))
    states = await stage.states("three")
    found["followers_of_each_leader"] = ", ".join(
        str(len([each for each in state.replica_nodes if each != state.leader_id])) for state in states.values()
    )
    found["replicas_of_3_partitions_with_factor_3"] = sum(len(state.replica_nodes) for state in states.values())
    found["brokers_with_two_replicas_of_one_partition"] = sum(
        len(state.replica_nodes) - len(set(state.replica_nodes)) for state in states.values()
    )
    directories = await log_directories(stage, "three")
    found["log_directories_of_one_replica"] = max(max(each.values()) for each in directories.values())
    plans = [
        PlacedTopic(name=f"spread-{count}-{copies}", partitions=count, copies=copies)
        for count in (1, 4, 6, 7)
        for copies in (1, 2)
    ]
    await stage.create(*plans)
    spreads = []
    for plan in plans:
        copies = {number: tuple(state.replica_nodes) for number, state in (await stage.states(plan.name)).items()}
        spreads.append(spread_of(copies, stage.brokers))
    found["most_replicas_that_two_brokers_differ_by"] = max(spreads)
    states_now = (await stage.control.view()).partitions
    found["topics_on_one_broker"] = len({name.topic for name, state in states_now.items() if 1 in state.replica_nodes})
    (code,) = await stage.try_to_create([PlacedTopic(name="too-many", partitions=1, copies=BROKERS + 1)])
    found["error_of_more_copies_than_brokers"] = code


async def _ask_follower(stage: Stage, found: Values) -> None:
    """Ask a follower to write and to read."""
    state = await stage.state("three")
    assert state is not None
    follower = next(each for each in state.replica_nodes if each != state.leader_id)
    found["error_of_a_write_at_a_follower"] = await stage.write_at(follower, "three")
    found["error_of_a_read_at_a_follower"] = (await stage.read(follower, "three")).error_code


async def _find_coordinators(stage: Stage, found: Values) -> None:
    found["offsets_topic_before_the_first_group"] = len(await stage.states(OFFSETS))
    await until_coordinated(stage, "group-0")
    await stage.until_whole(OFFSETS)
    states = await stage.states(OFFSETS)
    found["offsets_partitions"] = len(states)
    found["copies_of_offsets_by_default"] = default_of("offsets.topic.replication.factor")
    agreed = 0
    for number in range(GROUPS):
        group = f"group-{number}"
        agreed += await coordinator(stage, group) == states[partition_of_group(group, len(states))].leader_id
    found["groups_coordinated_by_the_leader_of_their_hash"] = agreed


# -------------------------------------------------------------------- segments, fetches, order


async def _segments(scene: Scene, found: Values) -> None:
    """Fill a partition until it has several segments."""
    stage = scene.stage
    await stage.create(PlacedTopic(name="rolled", placed=[(1, 2, 3)], configs={"segment.bytes": "16384"}))
    recording = scene.record("segments", "rolled", "acks=all")
    probe = scene.load(recording, records=20, record_bytes=256, rate=RATE)
    await trio.sleep(WARM_S)
    await scene.stop(probe)
    await scene.keep(recording)
    found["segments_of_a_partition"] = sum(path.suffix == ".log" for path in files_of(stage, 3, "rolled"))


async def _fetches(scene: Scene, found: Values) -> Recording:
    """Bound the number of fetches by the bytes that followers send, as if each were the smallest there is."""
    stage = scene.stage
    await stage.create(PlacedTopic(name="fetched", placed=[(1, 2, 3)]))
    recording = scene.record("fetches", "fetched", "acks=all")
    before = bytes_from(stage, 2, 1)
    probe = scene.load(recording, records=RECORDS, clients=2, rate=RATE)
    await trio.sleep(2 * WARM_S)
    await scene.stop(probe)
    asked = bytes_from(stage, 2, 1) - before
    found["fetches_per_record_at_most"] = round(asked / fetch_frame_bytes() / max(1, probe.acked), 3)
    return recording


async def _order(scene: Scene, found: Values) -> Recording:
    """Write one sequence to two partitions, and read them as a consumer does."""
    stage = scene.stage
    await stage.create(PlacedTopic(name="order", placed=[(1, 2, 3), (2, 3, 1)]))
    recording = scene.record("order", "order", "acks=all", partitions=2)
    for partition in range(2):
        scene.load(recording, partition=partition, rate=2 * RATE, delivery=Delivery.AGAIN)
    await trio.sleep(WARM_S)
    killed = await stage.kill(3)
    await trio.sleep(WARM_S)
    await stage.end(killed)
    await scene.stop()
    read = [
        await values_in(stage, await stage.leader("order", partition), "order", partition) for partition in range(2)
    ]
    found["inversions_inside_a_partition"] = sum(map(inversions, read))
    taken = [value for pair in itertools.zip_longest(*read) for value in pair if value is not None]
    found["inversions_between_partitions"] = inversions(taken)
    return recording


# -------------------------------------------------------------------- who leads after a death


@attrs.define
class Deaths:
    """The observations while each broker died in turn."""

    elections: int = 0
    by_rule: int = 0
    first: Act | None = None
    led_by_first: tuple[int, ...] = ()


async def _kill_each(scene: Scene) -> tuple[Recording, Deaths]:
    """Silence a broker, then kill the others in turn; six partitions have their replicas in the six orders there are."""
    stage, seen = scene.stage, Deaths()
    await stage.create(PlacedTopic(name="orders", placed=ORDERS))
    recording = scene.record("each broker dies", "orders", "acks=1", partitions=len(ORDERS))
    controller = await stage.controller()
    victims = sorted(stage.brokers, key=lambda broker: broker == controller)
    for number, victim in enumerate(victims):
        before = await stage.states("orders")
        if number == 0:
            seen.led_by_first = tuple(at for at, state in before.items() if state.leader_id == victim)
            for partition in before:
                scene.load(recording, partition=partition, acks="1", rate=RATE / 2)
            await trio.sleep(WARM_S)
        act = await (stage.pause(victim) if number == 0 else stage.kill(victim))
        others = [broker for broker in stage.brokers if broker != victim]
        for partition, state in before.items():
            if state.leader_id == victim:
                await stage.until_led("orders", others, partition)
        after = await stage.states("orders")
        for partition, state in before.items():
            if state.leader_id == victim:
                seen.elections += 1
                expected = first_in_sync(ORDERS[partition], state.isr_nodes, victim)
                seen.by_rule += after[partition].leader_id == expected
        if number == 0:
            await trio.sleep(WARM_S)
            await scene.stop()
            seen.first = act
            act.injected_ns = time.monotonic_ns()
        await stage.end(act)
        await stage.until_whole("orders")
    return recording, seen


async def _layout(desk: ClaimDesk) -> tuple[Values, list[Recording], Recording, Deaths]:
    found: Values = {}
    async with open_scene(desk, "layout", brokers=BROKERS, settings=("offsets.topic.num.partitions=50",)) as scene:
        await _place(scene.stage, found)
        await _ask_follower(scene.stage, found)
        await _find_coordinators(scene.stage, found)
        kept = [await _fetches(scene, found), await _order(scene, found)]
        died, seen = await _kill_each(scene)
        await scene.keep(*kept, died)
        await _segments(scene, found)
        return found, kept, died, seen


def layout(desk: ClaimDesk) -> None:
    """Create topics, look where they lie, ask followers, fill segments, and kill each broker once."""
    found, recordings, died, seen = trio.run(_layout, desk)
    runs = [judge(desk, recording).directory for recording in recordings]
    for name, value in found.items():
        desk.measure(name, value, "", *runs)
    shown = judge(desk, died)
    desk.measure("elections", seen.elections, "", shown.directory)
    desk.measure(
        "elections_by_the_order_of_the_assignment", round(seen.by_rule / max(1, seen.elections), 3), "", shown.directory
    )
    assert seen.first is not None
    paused = gaps_by_partition(shown.directory, seen.first.begun_ns, seen.first.injected_ns)
    led = [paused[partition] for partition in seen.led_by_first]
    others = [gap for partition, gap in paused.items() if partition not in seen.led_by_first]
    desk.measure("pause_s_of_partitions_that_the_dead_broker_led", min(led), "s", shown.directory)
    desk.measure("pause_s_of_all_other_partitions", max(others), "s", shown.directory)
    desk.measure("share_of_the_pause_in_all_other_partitions", round(max(others) / min(led), 2), "", shown.directory)


# -------------------------------------------------------------------- one log for all queues


def one_log(desk: ClaimDesk) -> None:
    """Look at the other way: a broker that has one log for all its queues."""
    shown = desk.run("rocketmq, four queues", plan_of("rocketmq", "queues=4", duration_s=3.0))
    logs = [path for path in shown.directory.glob("nodes/*/**/commitlog/logs/*") if path.is_dir()]
    brokers = {path.relative_to(shown.directory / "nodes").parts[0] for path in logs}
    desk.measure("logs_of_a_broker_with_four_queues", len(logs) / max(1, len(brokers)), "", shown)


# -------------------------------------------------------------------- indexes taken away


def take_indexes_away(desk: ClaimDesk) -> None:
    """Fill segments of a log, delete the indexes next to them while all nodes are down, and start the nodes again."""
    done = desk.run(
        "raft, small segments", plan_of("raft", f"segment_bytes_max={SEGMENT_BYTES}", duration_s=3.0, rate=0.0)
    )
    again = desk.new_directory("indexes taken away")
    shutil.copytree(done.directory / "nodes", again / "nodes")
    before = {path.relative_to(again): path.read_bytes() for path in again.rglob("*.index")}
    for name in before:
        (again / name).unlink()
    trio.run(_start_again, again / "nodes", done.plan)
    rebuilt = sum((again / name).exists() and (again / name).read_bytes() == held for name, held in before.items())
    kinds = {path.suffix for path in (done.directory / "nodes").rglob("0*") if path.is_file()}
    desk.measure("files_of_a_segment", " ".join(sorted(kinds & {".log", ".index", ".timeindex"})), "", done)
    desk.measure("indexes_taken_away", len(before), "", done)
    desk.measure("share_of_indexes_rebuilt_byte_for_byte", round(rebuilt / max(1, len(before)), 3), "", done)


async def _start_again(nodes: Path, plan: RunPlan) -> None:
    opening = open_cluster(nodes, plan.of_system(), plan.mode(), nodes=plan.nodes, cluster_id=plan.cluster_id)
    async with opening as cluster:
        await cluster.leader(within_s=LED_WITHIN_S)


EXPERIMENTS: Final = (
    Experiment(
        name="kafka-layout",
        story="Topics are created and looked at, a follower is asked, indexes are taken away, and each of three brokers dies once.",
        seconds=45,
        expects=(
            expect("C04", "log_directories_of_one_replica", exactly(1)),
            expect("C04", "topics_on_one_broker", at_least(2)),
            expect("C07", "followers_of_each_leader", exactly("2, 2, 2")),
            expect("C08", "replicas_of_3_partitions_with_factor_3", exactly(9)),
            expect("C08 C11", "brokers_with_two_replicas_of_one_partition", exactly(0)),
            expect("C11", "most_replicas_that_two_brokers_differ_by", at_most(1)),
            expect("C11", "error_of_more_copies_than_brokers", exactly(38)),
            expect("C09", "error_of_a_write_at_a_follower", exactly(6)),
            expect("C09", "error_of_a_read_at_a_follower", exactly(0), Part.TODAY),
            expect("C31 C54", "offsets_partitions", exactly(50)),
            expect("C31", "groups_coordinated_by_the_leader_of_their_hash", exactly(GROUPS)),
            expect("C54", "offsets_topic_before_the_first_group", exactly(0)),
            expect(
                "C54",
                "copies_of_offsets_by_default",
                exactly("3"),
                Part.EXCEPTION,
                condition="the sample configuration is used, which sets one; the default in the code is three",
            ),
            expect("C06", "segments_of_a_partition", at_least(3)),
            expect("C10", "fetches_per_record_at_most", at_most(0.5)),
            expect("C05", "inversions_inside_a_partition", exactly(0)),
            expect("C05", "inversions_between_partitions", at_least(1)),
            expect("C61 C15", "elections_by_the_order_of_the_assignment", exactly(1)),
            expect("C61", "elections", at_least(len(ORDERS))),
            expect("C89", "pause_s_of_partitions_that_the_dead_broker_led", between(0.05, RTO_S_MAX)),
            expect("C89", "share_of_the_pause_in_all_other_partitions", at_most(0.6)),
        ),
        conduct=layout,
    ),
    Experiment(
        name="indexes-taken-away",
        story="A log of small segments loses all its index files while it is closed.",
        seconds=15,
        expects=(
            expect("C06", "files_of_a_segment", exactly(".index .log")),
            expect("C06", "indexes_taken_away", at_least(3)),
            expect(
                "C06",
                "share_of_indexes_rebuilt_byte_for_byte",
                exactly(1),
                Part.EXCEPTION,
                condition="an index is taken as derived: a lost one is rebuilt byte for byte, some logs keep it inside of the segment, and "
                "Apache's has a third file, the index by time",
            ),
        ),
        conduct=take_indexes_away,
    ),
    Experiment(
        name="one-log-for-all-queues",
        story="A broker of RocketMQ takes messages for four queues.",
        seconds=12,
        expects=(
            expect(
                "C04",
                "logs_of_a_broker_with_four_queues",
                exactly(1),
                Part.EXCEPTION,
                condition="each partition has a log of its own; where all queues share one log, as in RocketMQ, it may span disks",
            ),
        ),
        conduct=one_log,
    ),
)
