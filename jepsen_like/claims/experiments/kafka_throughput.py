"""Kafka: what more partitions bring, and what more copies cost."""

import itertools
import time
from typing import Final

import attrs
import trio

from jepsen_like.claims.experiment import ClaimDesk, Experiment
from jepsen_like.claims.judgement import Part, at_least, at_most, between, exactly, expect
from jepsen_like.claims.recordings import Recording, Scene, judge, open_scene
from jepsen_like.systems.kafka.stage.inspection import log_bytes
from jepsen_like.systems.kafka.stage.stage import PlacedTopic

BROKERS: Final = 5
PARTITIONS: Final = (1, 3, 5)
COPIES: Final = (1, 2, 3, 5)
CAPACITY: Final = 256 * 1024
"""Each broker takes so many bytes a second from clients: so brokers limit, and not the machine they share."""
BETWEEN: Final = 256 * 1024
"""Each broker sends so many bytes a second to all others together."""
RECORD_BYTES: Final = 1000
RECORDS: Final = 10
LOAD_S: Final = 2.5
RAMP_S: Final = 0.5
FULL_RATE: Final = 1e6
"""A pace that no client reaches: each sends again at once."""


@attrs.frozen
class Loaded:
    """One topic under load: the time in which it was measured, and the bytes that brokers keep of it."""

    recording: Recording
    begun_ns: int
    ended_ns: int
    bytes_kept: int
    idle: int
    """Brokers that lead nothing of it."""


async def _load(scene: Scene, plan: PlacedTopic, words: str, partitions: int) -> Loaded:
    """Load each partition by two clients."""
    stage = scene.stage
    await stage.create(plan)
    recording = scene.record(words, plan.name, "acks=all", partitions=partitions)
    for partition in range(partitions):
        scene.load(
            recording,
            partition=partition,
            clients=2,
            records=RECORDS,
            record_bytes=RECORD_BYTES,
            rate=FULL_RATE,
            within_s=5.0,
        )
    await trio.sleep(RAMP_S)
    begun_ns = time.monotonic_ns()
    await trio.sleep(LOAD_S)
    ended_ns = time.monotonic_ns()
    await scene.stop()
    leaders = {state.leader_id for state in (await stage.states(plan.name)).values()}
    await stage.until_even(plan.name)
    kept = await log_bytes(stage, plan.name)
    return Loaded(recording, begun_ns, ended_ns, sum(kept.values()), len(stage.brokers) - len(leaders))


async def _throughput(desk: ClaimDesk) -> tuple[dict[int, Loaded], dict[int, Loaded]]:
    async with open_scene(desk, "throughput", brokers=BROKERS) as scene:
        stage = scene.stage
        by_partitions, by_copies = {}, {}
        narrow = stage.throttle((), CAPACITY, clients=stage.brokers)
        for count in PARTITIONS:
            plan = PlacedTopic(name=f"partitions-{count}", partitions=count, copies=1)
            by_partitions[count] = await _load(scene, plan, f"partitions {count}", count)
        await stage.end(narrow)
        stage.bound_sending(BETWEEN)
        for count in COPIES:
            placed = [[1 + (number + step) % BROKERS for step in range(count)] for number in range(BROKERS)]
            plan = PlacedTopic(name=f"copies-{count}", placed=placed)
            by_copies[count] = await _load(scene, plan, f"copies {count}", BROKERS)
        await scene.keep(*(each.recording for each in (*by_copies.values(), *by_partitions.values())))
        return by_partitions, by_copies


def throughput(desk: ClaimDesk) -> None:
    """Load topics of one to five partitions on brokers with a bounded network, and of one to five copies without bound."""
    by_partitions, by_copies = trio.run(_throughput, desk)
    rates = {}
    for count, loaded in by_partitions.items():
        shown = judge(desk, loaded.recording)
        rates[count] = shown.rate_s(loaded.begun_ns, loaded.ended_ns)
        desk.measure(f"records_s_with_{count}_partitions", rates[count], "/s", shown.directory)
        desk.measure(f"idle_brokers_with_{count}_partitions", loaded.idle, "", shown.directory)
    desk.measure("rate_of_1_partition_by_5", round(rates[1] / rates[5], 3))
    desk.measure("rate_of_3_partitions_by_5", round(rates[3] / rates[5], 3))
    speeds, kept = {}, {}
    for count, loaded in by_copies.items():
        shown = judge(desk, loaded.recording)
        speeds[count] = shown.rate_s(loaded.begun_ns, loaded.ended_ns)
        kept[count] = loaded.bytes_kept / max(1, shown.acked)
        desk.measure(f"records_s_with_{count}_copies", speeds[count], "/s", shown.directory)
    for count in COPIES[1:]:
        desk.measure(f"bytes_of_{count}_copies_by_one", round(kept[count] / kept[1], 2))
        desk.measure(f"rate_of_{count}_copies_by_one", round(speeds[count] / speeds[1], 2))
    slower = sum(speeds[more] < speeds[fewer] * 1.1 for fewer, more in itertools.pairwise(COPIES))
    desk.measure("steps_to_more_copies_that_were_no_faster", slower)


EXPERIMENTS: Final = (
    Experiment(
        name="kafka-throughput",
        story="Five brokers take all they can, for topics of 1 to 5 partitions and of 1 to 5 copies.",
        seconds=55,
        expects=(
            expect("C12", "idle_brokers_with_3_partitions", exactly(BROKERS - 3)),
            expect("C12", "idle_brokers_with_5_partitions", exactly(0)),
            expect("C12", "rate_of_1_partition_by_5", at_most(0.35)),
            expect("C12", "rate_of_3_partitions_by_5", between(0.4, 0.8)),
            *(
                expect("C58", f"bytes_of_{count}_copies_by_one", between(0.85 * count, 1.15 * count))
                for count in COPIES[1:]
            ),
            expect("C58", "steps_to_more_copies_that_were_no_faster", exactly(len(COPIES) - 1)),
            expect("C58", "rate_of_5_copies_by_one", at_most(0.9)),
            expect("C58", "rate_of_3_copies_by_one", at_least(0), Part.PRICE),
        ),
        conduct=throughput,
    ),
)
