"""Kafka: the controller, which elects leaders: it dies, it is cut off, it is missing, and it is only one."""

import random
import time
from collections.abc import Sequence
from typing import Final

import attrs
import trio

from jepsen_like.claims.experiment import ClaimDesk, Experiment
from jepsen_like.claims.experiments.kafka_acks import AFTER_S, RATE, RTO_S_MAX, WARM_S
from jepsen_like.claims.judgement import Part, at_least, at_most, between, exactly, expect
from jepsen_like.claims.recordings import Recording, Scene, judge, open_scene
from jepsen_like.port.port import NotServing
from jepsen_like.systems.kafka.stage.acts import Act
from jepsen_like.systems.kafka.stage.inspection import OFFSETS, until_coordinated
from jepsen_like.systems.kafka.stage.quorum import demote, hand_over, quorum
from jepsen_like.systems.kafka.stage.stage import PlacedTopic, Stage
from jepsen_like.systems.kafka.wire import NoAnswer

BROKERS: Final = 5
ROUNDS: Final = 2
HOLD_S: Final = 3.0
SCHEDULES: Final = 1000
NO_LEADER: Final = -1

Values = dict[str, float | str]


# -------------------------------------------------------------------- two recipes, as a model


def by_sequence(arrivals: Sequence[int], dead: int) -> int:
    """Returns who leads after a death where the smallest sequential node leads: the one that came first of those that live."""
    return next(each for each in arrivals if each != dead)


def by_first_creator(delays: Sequence[tuple[float, int]], dead: int) -> int:
    """Returns who leads where all that live try to create one node: the one that is fastest this time."""
    return min((delay, each) for delay, each in delays if each != dead)[1]


def share_of_differences(seed: int, brokers: int, schedules: int) -> float:
    """Returns in which share of drawn schedules the two recipes choose different leaders."""
    rng = random.Random(f"recipes {seed}")
    differ = 0
    for _ in range(schedules):
        arrivals = rng.sample(range(1, brokers + 1), brokers)
        delays = [(rng.random(), each) for each in arrivals]
        dead = rng.choice(arrivals)
        differ += by_sequence(arrivals, dead) != by_first_creator(delays, dead)
    return round(differ / schedules, 3)


# -------------------------------------------------------------------- it dies, and stands still


async def _kill_it(stage: Stage, found: Values) -> None:
    """Have a topic created, kill the controller at once, and create the next one; the youngest broker takes over in the end."""
    made: list[str] = []
    rto_s = 0.0
    youngest = 0
    for number in range(ROUNDS):
        controller = await stage.controller()
        name = f"made-before-death-{number}"
        codes = await stage.try_to_create([PlacedTopic(name=name, copies=3)])
        killed = await stage.kill(controller)
        made += [name] if not any(codes) else []
        began = trio.current_time()
        name = f"made-after-death-{number}"
        codes = await stage.try_to_create([PlacedTopic(name=name, copies=3)])
        rto_s = max(rto_s, trio.current_time() - began)
        made += [name] if not any(codes) else []
        await stage.end(killed)
        await stage.until("all brokers serve", stage.control.is_serving)
        youngest = controller
    await hand_over(stage, youngest)
    found["controller_is_the_broker_that_came_last"] = int(await _takes_over(stage, youngest))
    paused_ns = await _stop_it(stage, found, made)
    known = {name.topic for name in (await stage.control.view()).partitions}
    found["created_topics_that_are_missing"] = len(set(made) - known)
    found["topics_created"] = len(made)
    found["create_rto_s_after_a_death"] = round(rto_s, 2)
    found["create_rto_s_after_a_pause"] = round(paused_ns / 1e9, 2)


async def _takes_over(stage: Stage, broker: int) -> bool:
    """Returns True if this broker becomes the controller within a moment."""

    async def leads() -> bool:
        return await _leader_of(stage, broker) == broker

    try:
        await stage.until("the broker leads", leads, within_s=HOLD_S)
    except NotServing:
        return False
    return True


async def _stop_it(stage: Stage, found: Values, made: list[str]) -> int:
    """Stop the controller, create a topic, and let the old one go on. Returns how long that took."""
    old = await stage.controller()
    before = await quorum(stage, old)
    paused = await stage.pause(old)
    codes = await stage.try_to_create([PlacedTopic(name="made-meanwhile", copies=3)])
    took_ns = time.monotonic_ns() - paused.begun_ns
    made += ["made-meanwhile"] if not any(codes) else []
    await stage.end(paused)

    async def is_fenced() -> bool:
        try:
            said = await quorum(stage, old)
        except NoAnswer:
            return False
        return said.leader != old and said.epoch > before.epoch

    await stage.until("the old controller names another", is_fenced)
    said = {await _leader_of(stage, node) for node in stage.alive} - {NO_LEADER}
    found["controllers_named_after_the_old_one_is_back"] = len(said)
    return took_ns


# -------------------------------------------------------------------- it is cut off, and leads partitions


@attrs.define
class CutOff:
    """The observations while the controller, which leads partitions too, was cut off from all other brokers."""

    cut: Act
    elected_s: float = 0.0
    led_s: float = 0.0
    elected_ns: int = 0
    both_believe: int = 0
    accepted: int = 0
    metadata_grew: int = 0


async def _cut_it_off(scene: Scene, names: Sequence[str]) -> tuple[list[Recording], CutOff]:
    stage = scene.stage
    old = await stage.controller()
    others = [node for node in stage.brokers if node != old]
    placed = [old, *others[:2]]
    await stage.create(
        *(PlacedTopic(name=name, placed=[placed], configs={"min.insync.replicas": "2"}) for name in names)
    )
    recordings = []
    for name, acks in zip(names, ("1", "all"), strict=True):
        recording = scene.record(f"leader cut off acks {acks}", name, f"acks={acks}", "min.insync.replicas=2")
        recordings.append(recording)
        scene.load(recording, acks=acks, rate=RATE)
        scene.load(recording, acks=acks, rate=RATE, pinned=old)
    await trio.sleep(WARM_S)
    before = await quorum(stage, others[0])
    seen = CutOff(stage.isolate(old))

    async def is_elected() -> bool:
        said = [await _leader_of(stage, node) for node in others]
        return any(each in others for each in said)

    seen.elected_s = await stage.until("another controller", is_elected)
    for name in names:
        await stage.until_led(name, others)
    seen.elected_ns = time.monotonic_ns()
    seen.led_s = (seen.elected_ns - seen.cut.begun_ns) / 1e9
    new = await stage.state(names[0])
    assert new is not None
    ends = trio.current_time() + HOLD_S
    is_healed = False
    while trio.current_time() < ends or not is_healed:
        if trio.current_time() >= ends:
            await stage.end(seen.cut)
            is_healed, ends = True, trio.current_time() + AFTER_S
        own = await _believes(stage, old, names[0])
        seen.both_believe += own == old and not is_healed
        state = await stage.state(names[0])
        if state is not None:
            seen.accepted += frozenset(state.isr_nodes) == {old} or state.leader_epoch < new.leader_epoch
        await trio.sleep(0.1)
    seen.metadata_grew = (await quorum(stage, others[0])).committed - before.committed
    return recordings, seen


async def _leader_of(stage: Stage, node: int) -> int:
    try:
        return (await quorum(stage, node)).leader
    except NoAnswer:
        return -1


async def _believes(stage: Stage, node: int, topic: str) -> int:
    """Returns whom one broker takes for the leader."""
    try:
        return await stage.leader_by(node, topic)
    except NoAnswer:
        return -1


# -------------------------------------------------------------------- it is only one, and dies


async def _take_it_away(scene: Scene, found: Values) -> tuple[list[Recording], Act]:
    """Leave one controller, kill it, then kill a leader; another leader lives."""
    stage = scene.stage
    controller = await stage.controller()
    others = [node for node in stage.brokers if node != controller]
    leader, *followers = others[:3]
    plans = {"its-leader-dies": [leader, *followers], "its-leader-lives": [others[3], followers[1]]}
    await stage.create(*(PlacedTopic(name=name, placed=[placed]) for name, placed in plans.items()))
    recordings = [scene.record(f"no controller {name}", name, "acks=1") for name in plans]
    for recording in recordings:
        scene.load(recording, acks="1", rate=RATE)
    with_quorum = await stage.kill(leader)
    found["failover_s_with_controllers"] = round(await stage.until_led("its-leader-dies", followers), 2)
    await stage.end(with_quorum)
    await stage.until_whole("its-leader-dies")
    await demote(stage, *others)
    leader = await stage.leader("its-leader-dies")
    first = await stage.kill(controller)
    second = await stage.kill(leader)
    state = await stage.state("its-leader-dies")
    found["replicas_in_sync_that_live"] = len([each for each in state.isr_nodes if each in stage.alive]) if state else 0
    await trio.sleep(HOLD_S)
    found["led_by_a_replica_without_a_controller"] = int(await stage.leader("its-leader-dies") in stage.alive)
    found["created_without_a_controller"] = int(await _creates(stage))
    second.injected_ns = time.monotonic_ns()
    await stage.end(first)
    found["failover_s_once_the_controller_is_back"] = round(
        await stage.until_led("its-leader-dies", [each for each in stage.brokers if each != leader]), 2
    )
    await trio.sleep(AFTER_S)
    await stage.end(second)
    return recordings, second


async def _creates(stage: Stage) -> bool:
    """Returns True if a topic can be created now."""
    with trio.move_on_after(1.0):
        return not any(await stage.try_to_create([PlacedTopic(name="made-without", copies=1)]))
    return False


async def _kill_three(scene: Scene) -> tuple[Recording, Act]:
    """Kill three of five brokers; the one controller is none of them."""
    stage = scene.stage
    controller = await stage.controller()
    victims = [node for node in stage.brokers if node != controller][:3]
    placed = [*victims, *(node for node in stage.brokers if node not in victims)]
    await stage.create(PlacedTopic(name="five", placed=[placed], configs={"min.insync.replicas": "1"}))
    recording = scene.record("three of five dead", "five", "acks=all")
    scene.load(recording, rate=RATE)
    await trio.sleep(WARM_S)
    killed = await stage.kill(*victims)
    await stage.until_in_sync("five", [node for node in placed if node not in victims])
    killed.injected_ns = time.monotonic_ns()
    await trio.sleep(2 * WARM_S)
    await stage.end(killed)
    return recording, killed


async def _controller(desk: ClaimDesk) -> tuple[Values, list[Recording], CutOff, list[Recording], Act, Recording, Act]:
    found: Values = {}
    async with open_scene(desk, "controller", brokers=BROKERS) as scene:
        stage = scene.stage
        found["voters_of_the_metadata_log"] = len((await quorum(stage, await stage.controller())).voters)
        await until_coordinated(stage, "some-group")
        found["partitions_of_the_topic_of_offsets"] = len(await stage.states(OFFSETS))
        await _kill_it(stage, found)
        cut, seen = await _cut_it_off(scene, ("deposed-1", "deposed-all"))
        await scene.keep(*cut)
        missing, killed = await _take_it_away(scene, found)
        await scene.keep(*missing)
        five, died = await _kill_three(scene)
        await scene.keep(five)
        return found, cut, seen, missing, killed, five, died


def controller(desk: ClaimDesk) -> None:
    """Kill the controller, stop it, cut it off, leave only one and kill that, then kill three of five brokers."""
    found, cut, seen, missing, killed, five, died = trio.run(_controller, desk)
    one, every = (judge(desk, recording) for recording in cut)
    dies, lives = (judge(desk, recording) for recording in missing)
    served = judge(desk, five)
    for name, value in found.items():
        desk.measure(name, value, "s" if name.endswith("_s") or "_s_" in name else "", dies.directory)
    share = share_of_differences(desk.seed, BROKERS, SCHEDULES)
    desk.measure("share_of_modelled_deaths_where_the_recipes_differ", share)
    during = (seen.elected_ns, seen.cut.ended_ns)
    desk.measure("looks_at_which_two_brokers_believed_to_lead", seen.both_believe, "", one.directory)
    desk.measure("lost_of_what_the_old_leader_acknowledged_acks_1", one.lost, "records", one.directory)
    desk.measure("lost_acks_all", every.lost, "records", every.directory)
    desk.measure(
        "written_while_the_old_leader_was_cut_off_acks_all", every.acked_between(*during), "writes", every.directory
    )
    desk.measure("changes_of_the_old_leader_that_were_accepted", seen.accepted, "", every.directory)
    desk.measure("entries_of_the_metadata_log_for_the_change", seen.metadata_grew, "", every.directory)
    desk.measure("new_controller_after_s", round(seen.elected_s, 2), "s", every.directory)
    desk.measure("new_leader_after_s", round(seen.led_s, 2), "s", every.directory)
    desk.measure("controller_before_leaders", int(seen.elected_s <= seen.led_s), "", every.directory)
    desk.measure("rto_s_of_the_cut", every.rto_s(seen.cut.begun_ns), "s", every.directory)
    without = (killed.begun_ns, killed.injected_ns)
    desk.measure(
        "written_without_a_controller_where_the_leader_lives", lives.acked_between(*without), "writes", lives.directory
    )
    desk.measure(
        "written_without_a_controller_where_the_leader_is_dead", dies.acked_between(*without), "writes", dies.directory
    )
    desk.measure(
        "written_with_two_of_five_brokers",
        served.acked_between(died.injected_ns, died.ended_ns),
        "writes",
        served.directory,
    )
    desk.measure("lost_with_two_of_five_brokers", served.lost, "records", served.directory)
    desk.measure("rto_s_of_three_of_five_dead", served.rto_s(died.begun_ns), "s", served.directory)


EXPERIMENTS: Final = (
    Experiment(
        name="kafka-controller",
        story="The controller dies, stands still and is cut off; then it is the only one and dies; then three of five brokers die.",
        seconds=60,
        expects=(
            expect("C28 C30", "created_topics_that_are_missing", exactly(0)),
            expect("C28 C30", "topics_created", exactly(2 * ROUNDS + 1)),
            expect(
                "C28",
                "partitions_of_the_topic_of_offsets",
                at_least(1),
                Part.EXCEPTION,
                condition="positions of consumers are not counted as control data: they are records of a topic",
            ),
            expect("C30", "create_rto_s_after_a_death", at_most(RTO_S_MAX)),
            expect("C30", "create_rto_s_after_a_pause", at_most(RTO_S_MAX)),
            expect("C30", "controllers_named_after_the_old_one_is_back", exactly(1)),
            expect("C29", "controller_is_the_broker_that_came_last", exactly(0)),
            expect("C29", "controller_is_the_broker_that_came_last", exactly(1), Part.INSTEAD),
            expect("C29", "share_of_modelled_deaths_where_the_recipes_differ", at_least(0.3), Part.INSTEAD),
            expect("C14", "changes_of_the_old_leader_that_were_accepted", exactly(0)),
            expect("C14", "entries_of_the_metadata_log_for_the_change", at_least(1), Part.TODAY),
            expect("C14", "voters_of_the_metadata_log", at_least(3), Part.TODAY),
            expect("C62", "lost_acks_all", exactly(0)),
            expect("C62", "written_while_the_old_leader_was_cut_off_acks_all", at_least(1)),
            expect(
                "C62",
                "looks_at_which_two_brokers_believed_to_lead",
                at_least(1),
                Part.EXCEPTION,
                condition="two may believe to lead for a while, and epochs refuse the old one",
            ),
            expect(
                "C62",
                "lost_of_what_the_old_leader_acknowledged_acks_1",
                at_least(1),
                Part.EXCEPTION,
                condition="the acknowledgement waits for another replica: with acks=1 the old leader's writes are truncated",
            ),
            expect("C36", "lost_acks_all", exactly(0)),
            expect("C36", "controller_before_leaders", exactly(1)),
            expect("C36", "rto_s_of_the_cut", between(0.1, 2 * RTO_S_MAX)),
            expect("C60", "led_by_a_replica_without_a_controller", exactly(1)),
            expect("C60", "led_by_a_replica_without_a_controller", exactly(0), Part.INSTEAD),
            expect("C60", "replicas_in_sync_that_live", at_least(1), Part.INSTEAD),
            expect("C60", "failover_s_once_the_controller_is_back", at_most(RTO_S_MAX), Part.INSTEAD),
            expect("C73", "led_by_a_replica_without_a_controller", exactly(0)),
            expect("C73", "failover_s_with_controllers", at_most(RTO_S_MAX)),
            expect("C01", "created_without_a_controller", exactly(0)),
            expect("C01", "written_without_a_controller_where_the_leader_lives", at_least(1)),
            expect("C01", "written_without_a_controller_where_the_leader_is_dead", exactly(0)),
            expect("C68", "written_with_two_of_five_brokers", exactly(0)),
            expect("C68", "written_with_two_of_five_brokers", at_least(1), Part.INSTEAD),
            expect("C68", "lost_with_two_of_five_brokers", exactly(0), Part.INSTEAD),
        ),
        conduct=controller,
    ),
)
