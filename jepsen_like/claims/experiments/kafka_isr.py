"""Kafka: the set of replicas in sync, as it shrinks to one, as it waits for a slow member, and as a silent one leaves it."""

import time
from typing import Final

import attrs
import trio

from jepsen_like.claims.experiment import ClaimDesk, Experiment
from jepsen_like.claims.experiments.kafka_acks import AFTER_S, BROKERS, RATE, RTO_S_MAX, WARM_S, not_controlling
from jepsen_like.claims.judgement import NEVER, Part, at_least, at_most, between, exactly, expect
from jepsen_like.claims.recordings import Recording, Scene, judge, open_scene
from jepsen_like.systems.kafka.stage.acts import Act
from jepsen_like.systems.kafka.stage.acts import between as ways
from jepsen_like.systems.kafka.stage.stage import PlacedTopic, Stage

HOLD_S: Final = 3.0
"""A partition that has no leader for so long, with all that could elect one, waits."""
NO_LEADER: Final = -1

# -------------------------------------------------------------------- down to the last one


@attrs.define
class LastOne:
    """The observations while the set in sync shrank to its leader and the leader died."""

    sizes: list[int]
    listed: str = ""
    """The set once its last member is dead."""
    alone: tuple[int, int] = (0, 0)
    """The time in which the leader was alone in sync."""
    one_down: tuple[int, int] = (0, 0)
    """The time in which one follower was down and had left the set."""
    read_alone: int = 0
    died_ns: int = 0
    back_ns: int = 0
    clean_led_while_away: int = 0
    unclean_led_s: float = NEVER
    gone_led_before: int = 0
    gone_led_after: int = 0


TOPICS: Final = {
    "clean-min-1": {"min.insync.replicas": "1"},
    "clean-min-2": {"min.insync.replicas": "2"},
    "unclean-min-1": {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
    "gone": {"min.insync.replicas": "1"},
}


async def _shrink(desk: ClaimDesk) -> tuple[dict[str, Recording], LastOne]:
    async with open_scene(
        desk, "last in sync", brokers=BROKERS, settings=("eligible.leader.replicas.version=0",)
    ) as scene:
        stage = scene.stage
        placed = await not_controlling(scene, 3)
        leader, stale, fresh = placed
        await stage.create(
            *(PlacedTopic(name=name, placed=[placed], configs=configs) for name, configs in TOPICS.items())
        )
        recordings = {
            name: scene.record(
                f"last in sync {name}", name, "acks=all", *(f"{key}={value}" for key, value in configs.items())
            )
            for name, configs in TOPICS.items()
        }
        for recording in recordings.values():
            scene.load(recording, rate=RATE)
        await trio.sleep(WARM_S)
        seen = LastOne(sizes=[await _size(stage)])
        first = await stage.kill(stale)
        await stage.until_in_sync("clean-min-1", [leader, fresh])
        seen.sizes.append(await _size(stage))
        begun_ns = time.monotonic_ns()
        await trio.sleep(WARM_S)
        seen.one_down = (begun_ns, time.monotonic_ns())
        second = await stage.kill(fresh)
        for name in TOPICS:
            await stage.until_in_sync(name, [leader])
        seen.sizes.append(await _size(stage))
        begun_ns = time.monotonic_ns()
        await trio.sleep(WARM_S)
        seen.read_alone = (await stage.read(leader, "clean-min-2")).high_watermark
        seen.alone = (begun_ns, time.monotonic_ns())
        third = await stage.kill(leader)
        seen.died_ns = third.begun_ns
        await stage.end(first)  # the stale one is the first to be back
        await stage.end(second)
        await _watch(stage, seen, leader)
        await stage.end(third)
        seen.back_ns = third.undone_ns
        await stage.until_led("clean-min-1", [leader])
        await trio.sleep(AFTER_S)
        await scene.keep(*recordings.values())
        return recordings, seen


async def _size(stage: Stage) -> int:
    state = await stage.state("clean-min-1")
    return 0 if state is None else len(state.isr_nodes)


async def _watch(stage: Stage, seen: LastOne, leader: int) -> None:
    """Look who leads while the last one in sync is away."""
    seen.unclean_led_s = await stage.until_led("unclean-min-1", [each for each in stage.brokers if each != leader])
    ends = trio.current_time() + HOLD_S
    while trio.current_time() < ends:
        seen.clean_led_while_away += await stage.leader("clean-min-1") not in (NO_LEADER, leader)
        seen.gone_led_before += await stage.leader("gone") not in (NO_LEADER, leader)
        await trio.sleep(0.1)
    state = await stage.state("clean-min-1")
    if state is not None:
        seen.listed = "the last one" if tuple(state.isr_nodes) == (leader,) else f"brokers {state.isr_nodes}"
    await stage.elect_unclean("gone")
    seen.gone_led_after = int(await stage.leader("gone") not in (NO_LEADER, leader))


def down_to_the_last(desk: ClaimDesk) -> None:
    """Kill two followers, then the leader; start the followers, the staler first, and the leader last."""
    recordings, seen = trio.run(_shrink, desk)
    kept = {name: judge(desk, recording) for name, recording in recordings.items()}
    clean, strict, unclean, gone = (kept[name] for name in TOPICS)
    desk.measure("members_in_sync", ", ".join(map(str, seen.sizes)), "", clean.directory)
    desk.measure("set_in_sync_after_its_last_member_died", seen.listed, "", clean.directory)
    for shown, word in ((clean, "1"), (strict, "2")):
        desk.measure(
            f"written_with_one_of_three_down_min_{word}", shown.acked_between(*seen.one_down), "writes", shown.directory
        )
        desk.measure(
            f"written_with_two_of_three_down_min_{word}", shown.acked_between(*seen.alone), "writes", shown.directory
        )
        desk.measure(f"lost_clean_min_{word}", shown.lost, "records", shown.directory)
    desk.measure(
        "refused_with_two_of_three_down_min_2", strict.refused_between(*seen.alone), "writes", strict.directory
    )
    desk.measure("readable_with_two_of_three_down_min_2", seen.read_alone, "records", strict.directory)
    desk.measure("lost_unclean", unclean.lost, "records", unclean.directory)
    desk.measure(
        "times_a_clean_partition_was_led_without_its_last_member", seen.clean_led_while_away, "", clean.directory
    )
    away_s = (seen.back_ns - seen.died_ns) / 1e9
    desk.measure("rto_s_clean", clean.rto_s(seen.died_ns), "s", clean.directory)
    desk.measure("rto_s_unclean", unclean.rto_s(seen.died_ns), "s", unclean.directory)
    desk.measure("clean_is_back_before_its_last_member", int(clean.rto_s(seen.died_ns) < away_s), "", clean.directory)
    desk.measure(
        "unclean_is_back_before_the_last_member", int(unclean.rto_s(seen.died_ns) < away_s), "", unclean.directory
    )
    desk.measure("led_with_all_in_sync_gone", seen.gone_led_before, "", gone.directory)
    desk.measure("led_after_an_unclean_election_by_hand", seen.gone_led_after, "", gone.directory)
    desk.measure("lost_after_an_unclean_election_by_hand", gone.lost, "records", gone.directory)


# -------------------------------------------------------------------- slow and silent followers

LAG_MS: Final = 2000
SLOW_S: Final = 0.25
"""One way: a round trip of 500 ms, within the time of lag."""
TOO_SLOW_S: Final = 2.0
"""One way: a round trip beyond the time of lag."""
ZONE_MS: Final = (1, 2, 5)
PHASE_S: Final = 1.5


@attrs.define
class SlowFollower:
    """The observations of a slow follower, and of a silent one."""

    phases: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    lag: int = 0
    beyond: int = 0
    """Samples in which a member in sync ended before the high watermark."""
    samples: int = 0
    create_s: float = NEVER
    evicted_s: float = NEVER
    silent_s: float = NEVER
    back_s: float = NEVER
    paused: Act | None = None
    shrunk_ns: int = 0


async def _follow(desk: ClaimDesk) -> tuple[dict[str, Recording], SlowFollower]:
    async with open_scene(desk, "slow follower", brokers=3, settings=(f"replica.lag.time.max.ms={LAG_MS}",)) as scene:
        stage, seen = scene.stage, SlowFollower()
        controller = await stage.controller()
        follower = next(each for each in stage.brokers if each != controller)
        leader = controller
        placed = [leader, follower, next(each for each in stage.brokers if each not in (leader, follower))]
        configs = {"wait": {"min.insync.replicas": "1"}, "strict": {"min.insync.replicas": "3"}}
        await stage.create(*(PlacedTopic(name=name, placed=[placed], configs=each) for name, each in configs.items()))
        recordings = {
            name: scene.record(
                f"slow follower {name}", name, "acks=all", f"min.insync.replicas={each['min.insync.replicas']}"
            )
            for name, each in configs.items()
        }
        scene.load(recordings["wait"], rate=RATE, within_s=6.0)
        await trio.sleep(0.5)
        await _phase(seen, "near", PHASE_S)
        for delay_ms in ZONE_MS:
            act = stage.slow(ways(stage.brokers, stage.brokers), delay_ms / 1e3)
            await trio.sleep(0.2)
            await _phase(seen, f"{delay_ms} ms", PHASE_S)
            await stage.end(act)
        await _slow_one(scene, seen, placed)
        await stage.until_whole(*configs)
        scene.load(recordings["strict"], rate=RATE)
        await trio.sleep(0.5)
        seen.paused = await stage.pause(follower)
        seen.silent_s = await stage.until_in_sync("wait", [each for each in placed if each != follower])
        seen.shrunk_ns = time.monotonic_ns()
        await stage.until_in_sync("strict", [each for each in placed if each != follower])
        await _phase(seen, "shrunk", PHASE_S)
        await stage.end(seen.paused)
        seen.back_s = await stage.until_in_sync("wait", placed)
        await scene.keep(*recordings.values())
        return recordings, seen


async def _phase(seen: SlowFollower, name: str, length_s: float) -> None:
    begun_ns = time.monotonic_ns()
    await trio.sleep(length_s)
    seen.phases[name] = (begun_ns, time.monotonic_ns())


async def _slow_one(scene: Scene, seen: SlowFollower, placed: list[int]) -> None:
    """SlowFollower one follower down within the time of lag, then beyond it."""
    stage, (leader, follower, _) = scene.stage, placed
    others = [each for each in stage.brokers if each != follower]
    act = stage.slow(ways([follower], others), SLOW_S)
    await trio.sleep(2 * SLOW_S)
    begun_ns = time.monotonic_ns()
    for _ in range(12):
        await _sample(stage, seen, leader, follower)
        await trio.sleep(0.1)
    began = trio.current_time()
    await stage.try_to_create([PlacedTopic(name="made-meanwhile", placed=[[leader]])])
    seen.create_s = trio.current_time() - began
    await trio.sleep(4 * SLOW_S)
    seen.phases["slow"] = (begun_ns, time.monotonic_ns())
    await stage.end(act)
    act = stage.slow(ways([leader], [follower]), TOO_SLOW_S)
    seen.evicted_s = await stage.until_in_sync("wait", [each for each in placed if each != follower])
    await _phase(seen, "evicted", PHASE_S)
    await stage.end(act)


async def _sample(stage: Stage, seen: SlowFollower, leader: int, follower: int) -> None:
    """Compare the end of a follower, read last, with the leader's, read first."""
    state = await stage.state("wait")
    at_leader = await stage.read(leader, "wait", 0)
    name = stage.name_of("wait")
    led = await stage.control.ends(leader, [name])
    followed = await stage.control.ends(follower, [name])
    if state is None or follower not in state.isr_nodes or led is None or followed is None:
        return
    seen.samples += 1
    seen.lag = max(seen.lag, led[name] - followed[name])
    seen.beyond += followed[name] < at_leader.high_watermark


def slow_and_silent(desk: ClaimDesk) -> None:
    """Lay zones between brokers, slow one follower down, and stop one; writes wait for all in sync meanwhile."""
    recordings, seen = trio.run(_follow, desk)
    kept = {name: judge(desk, recording) for name, recording in recordings.items()}
    wait, strict = kept["wait"], kept["strict"]
    p50 = {name: wait.p50_ms(*phase) for name, phase in seen.phases.items()}
    for name, value in p50.items():
        desk.measure(f"p50_ms_{name.replace(' ', '_')}", value, "ms", wait.directory)
    for delay_ms in ZONE_MS:
        rise = (p50[f"{delay_ms} ms"] - p50["near"]) / (2 * delay_ms)
        desk.measure(f"rise_in_round_trips_of_{2 * delay_ms}_ms", round(rise, 2), "", wait.directory)
    desk.measure("create_topic_s_with_a_slow_member_of_the_quorum", round(seen.create_s, 3), "s", wait.directory)
    desk.measure("lag_of_a_member_in_sync", seen.lag, "records", wait.directory)
    desk.measure("samples_with_a_member_in_sync_below_the_high_watermark", seen.beyond, "", wait.directory)
    desk.measure("samples", seen.samples, "", wait.directory)
    desk.measure("too_slow_follower_out_after_s", round(seen.evicted_s, 2), "s", wait.directory)
    desk.measure("silent_follower_out_after_s", round(seen.silent_s, 2), "s", wait.directory)
    desk.measure("silent_follower_in_again_after_s", round(seen.back_s, 2), "s", wait.directory)
    assert seen.paused is not None
    stalled = wait.gap_s(seen.paused.begun_ns, seen.phases["shrunk"][1])
    desk.measure("stall_s_with_a_silent_follower", stalled, "s", wait.directory)
    shrunk = seen.phases["shrunk"]
    desk.measure("written_after_the_set_shrank_min_1", wait.acked_between(*shrunk), "writes", wait.directory)
    desk.measure("written_after_the_set_shrank_min_3", strict.acked_between(*shrunk), "writes", strict.directory)
    desk.measure(
        "lost_with_slow_and_silent_followers", wait.lost + strict.lost, "records", wait.directory, strict.directory
    )


EXPERIMENTS: Final = (
    Experiment(
        name="kafka-last-in-sync",
        story="Two of three replicas are killed, then the leader that is alone in sync; the stale ones are back first.",
        seconds=45,
        expects=(
            expect(
                "C90",
                "members_in_sync",
                exactly("3, 2, 1"),
                Part.EXCEPTION,
                condition="the set shrinks and grows by itself; only its least size is configured",
            ),
            expect("C90 C66 C67", "written_with_two_of_three_down_min_1", at_least(1)),
            expect("C90 C66", "written_with_two_of_three_down_min_2", exactly(0)),
            expect("C66", "refused_with_two_of_three_down_min_2", at_least(1)),
            expect("C66", "lost_unclean", at_least(1)),
            expect("C66", "lost_clean_min_2", exactly(0)),
            expect("C67", "written_with_one_of_three_down_min_1", at_least(1)),
            expect("C67", "written_with_one_of_three_down_min_2", at_least(1)),
            expect(
                "C67",
                "written_with_two_of_three_down_min_2",
                exactly(0),
                Part.EXCEPTION,
                condition="min.insync.replicas of the copies are left; with fewer only reads go on",
            ),
            expect("C67", "readable_with_two_of_three_down_min_2", at_least(1), Part.PRICE),
            expect(
                "C16",
                "set_in_sync_after_its_last_member_died",
                exactly("the last one"),
                Part.EXCEPTION,
                condition='"empty" is read as "its last member is dead": it stays listed',
            ),
            expect("C16 C17 C91", "lost_unclean", at_least(1)),
            expect("C16 C17 C91", "unclean_is_back_before_the_last_member", exactly(1)),
            expect("C16 C17 C91", "lost_clean_min_1", exactly(0)),
            expect("C16 C17 C91", "clean_is_back_before_its_last_member", exactly(0)),
            expect("C16 C17 C18 C91", "times_a_clean_partition_was_led_without_its_last_member", exactly(0)),
            expect("C18", "led_with_all_in_sync_gone", exactly(0)),
            expect("C18", "led_after_an_unclean_election_by_hand", exactly(1)),
            expect("C18", "lost_after_an_unclean_election_by_hand", at_least(1), Part.PRICE),
        ),
        conduct=down_to_the_last,
    ),
    Experiment(
        name="kafka-slow-follower",
        story="Brokers stand 1, 2 and 5 ms apart, then one follower is slow, too slow, and silent.",
        seconds=50,
        expects=(
            expect("C42", "rise_in_round_trips_of_10_ms", between(0.5, 3.0)),
            expect("C42", "p50_ms_5_ms", at_least(8)),
            expect("C42", "p50_ms_near", at_least(0), Part.PRICE),
            expect("C19", "p50_ms_slow", at_least(300)),
            expect("C19", "p50_ms_evicted", at_most(200)),
            expect("C19", "create_topic_s_with_a_slow_member_of_the_quorum", at_most(2 * SLOW_S)),
            expect(
                "C13",
                "lag_of_a_member_in_sync",
                at_least(1),
                Part.EXCEPTION,
                condition="what is in sync may lag for the time of replica.lag.time.max.ms; all hold the same up to the high watermark alone",
            ),
            expect("C13", "samples_with_a_member_in_sync_below_the_high_watermark", exactly(0)),
            expect("C13", "samples", at_least(3)),
            expect("C59", "silent_follower_out_after_s", between(0.2, LAG_MS / 1e3 + RTO_S_MAX)),
            expect("C59", "silent_follower_in_again_after_s", at_most(20)),
            expect("C33", "written_after_the_set_shrank_min_1", at_least(1)),
            expect(
                "C33",
                "stall_s_with_a_silent_follower",
                at_least(0.3),
                Part.EXCEPTION,
                condition="one waits until it has left the set in sync",
            ),
            expect(
                "C33",
                "written_after_the_set_shrank_min_3",
                exactly(0),
                Part.EXCEPTION,
                condition="the set is not below min.insync.replicas without it",
            ),
            expect("C13 C59 C65", "lost_with_slow_and_silent_followers", exactly(0)),
        ),
        conduct=slow_and_silent,
    ),
)
