"""Kafka: what an acknowledgement is worth when the leader dies, by acks, by copies and by the way of sending."""

from typing import Final

import trio

from jepsen_like.claims.experiment import ClaimDesk, Experiment
from jepsen_like.claims.judgement import Part, at_least, at_most, between, exactly, expect
from jepsen_like.claims.recordings import Recording, Scene, judge, open_scene
from jepsen_like.systems.kafka.mode import ISR
from jepsen_like.systems.kafka.stage.acts import Act
from jepsen_like.systems.kafka.stage.acts import between as ways
from jepsen_like.systems.kafka.stage.probe import Delivery
from jepsen_like.systems.kafka.stage.stage import PlacedTopic
from jepsen_like.systems.kafka.system import KafkaAdapter

BROKERS: Final = 5
CUT_S: Final = 1.0
"""Shorter than a session and the time of lag, so that followers stay in sync while they copy nothing."""
WARM_S: Final = 1.0
AFTER_S: Final = 1.0
RTO_S_MAX: Final = 8.0
"""A session of 2 s, an election and a client's look for the leader, with room for a busy machine."""
RATE: Final = 50.0
ACKS: Final = ("0", "1", "all")


async def not_controlling(scene: Scene, count: int) -> list[int]:
    """Returns brokers that do not lead the controllers, so that a fault hits one thing at a time."""
    controller = await scene.stage.controller()
    return [broker for broker in scene.stage.brokers if broker != controller][:count]


# -------------------------------------------------------------------- the leader dies behind a cut


async def _kill_leader(desk: ClaimDesk) -> tuple[dict[str, Recording], Act, Act, dict[str, str]]:
    async with open_scene(desk, "acks", brokers=BROKERS) as scene:
        stage = scene.stage
        placed = await not_controlling(scene, 3)
        leader, *followers = placed
        names = [f"acks-{acks}" for acks in ACKS] + [f"sent-{each.value.replace(' ', '-')}" for each in Delivery]
        configs = {"min.insync.replicas": "2"}
        await stage.create(*(PlacedTopic(name=name, placed=[placed], configs=configs) for name in names))
        recordings = {}
        for acks in ACKS:
            name = f"acks-{acks}"
            recordings[name] = scene.record(f"leader killed {name}", name, f"acks={acks}", "min.insync.replicas=2")
            scene.load(recordings[name], acks=acks, rate=RATE)
        for each in Delivery:
            name = f"sent-{each.value.replace(' ', '-')}"
            recordings[name] = scene.record(f"leader killed {name}", name, "acks=all", "min.insync.replicas=2")
            scene.load(recordings[name], delivery=each, rate=RATE / 4, clients=4, answers_lost=20)
        await trio.sleep(WARM_S)
        before = await stage.state("acks-all")
        cut = stage.cut(ways([leader], followers))
        await trio.sleep(CUT_S)
        killed = await stage.kill(leader)
        await stage.end(cut)
        for name in names:
            await stage.until_led(name, followers)
        after = await stage.state("acks-all")
        await trio.sleep(AFTER_S)
        await stage.end(killed)
        await scene.keep(*recordings.values())
        assert before is not None
        assert after is not None
        was_in_sync = after.leader_id in before.isr_nodes and after.leader_id != before.leader_id
        return recordings, cut, killed, {"new_leader": "was in sync" if was_in_sync else "was not in sync"}


def kill_leader(desk: ClaimDesk) -> None:
    """Cut the leader off from its followers for a second, kill it, and let a follower lead."""
    recordings, cut, killed, words = trio.run(_kill_leader, desk)
    kept = {name: judge(desk, recording) for name, recording in recordings.items()}
    none, one, every = (kept[f"acks-{acks}"] for acks in ACKS)
    desk.measure("forgotten_with_acks_0", none.unseen, "records", none.directory)
    desk.measure("lost_with_acks_1", one.lost, "records", one.directory)
    desk.measure("lost_with_acks_all", every.lost, "records", every.directory)
    during = (cut.injected_ns, killed.begun_ns)
    desk.measure("acknowledged_by_the_leader_alone_with_acks_1", one.acked_between(*during), "writes", one.directory)
    desk.measure(
        "acknowledged_by_the_leader_alone_with_acks_all", every.acked_between(*during), "writes", every.directory
    )
    desk.measure("wait_of_acks_all", every.gap_s(cut.begun_ns, killed.ended_ns), "s", every.directory)
    desk.measure("rto_s", every.rto_s(killed.begun_ns), "s", every.directory)
    desk.measure("new_leader", words["new_leader"], "", every.directory)
    default = KafkaAdapter().configure((), ISR).settings["acks"]
    desk.measure("acks_by_default", str(default))
    for each in Delivery:
        shown = kept[f"sent-{each.value.replace(' ', '-')}"]
        name = each.value.replace(" ", "_")
        desk.measure(f"missing_with_{name}", shown.missing, "records", shown.directory)
        desk.measure(f"twice_with_{name}", shown.again, "records", shown.directory)


# -------------------------------------------------------------------- one copy and three


async def _copies(desk: ClaimDesk) -> tuple[dict[str, Recording], dict[str, Act]]:
    async with open_scene(desk, "copies", brokers=3) as scene:
        stage = scene.stage
        (victim,) = await not_controlling(scene, 1)
        placed = {"1": [victim], "3": [victim, *(each for each in stage.brokers if each != victim)]}
        recordings: dict[str, Recording] = {}
        acts: dict[str, Act] = {}
        for what in ("kill", "wipe"):
            names = {copies: f"{what}-{copies}" for copies in placed}
            configs = {"min.insync.replicas": "1"}
            await stage.create(
                *(PlacedTopic(name=name, placed=[placed[copies]], configs=configs) for copies, name in names.items())
            )
            own = [scene.record(f"{what}, copies {copies}", name, "acks=all") for copies, name in names.items()]
            for recording in own:
                scene.load(recording, rate=RATE)
            await trio.sleep(WARM_S)
            act = await (stage.kill(victim) if what == "kill" else stage.wipe(victim))
            await stage.until_led(names["3"], placed["3"][1:])
            await trio.sleep(AFTER_S)
            await stage.end(act)
            await stage.until_led(names["1"], [victim])
            await trio.sleep(AFTER_S)
            await scene.keep(*own)
            recordings |= {recording.topic: recording for recording in own}
            acts[what] = act
        return recordings, acts


def copies(desk: ClaimDesk) -> None:
    """Kill a broker with its topics of one copy and of three, first with its disk, then without."""
    recordings, acts = trio.run(_copies, desk)
    kept = {name: judge(desk, recording) for name, recording in recordings.items()}
    for what, act in acts.items():
        held_s = (act.undone_ns - act.begun_ns) / 1e9
        for count, word in (("1", "one_copy"), ("3", "three_copies")):
            shown = kept[f"{what}-{count}"]
            rto_s = shown.rto_s(act.begun_ns)
            desk.measure(f"lost_with_{word}_{what}", shown.lost, "records", shown.directory)
            desk.measure(f"rto_s_with_{word}_{what}", rto_s, "s", shown.directory)
            desk.measure(f"served_during_the_outage_with_{word}_{what}", int(rto_s < held_s), "", shown.directory)
    before = kept["wipe-1"].acked_between(0, acts["wipe"].begun_ns)
    share = kept["wipe-1"].lost / max(1, before)
    desk.measure("share_lost_with_one_copy_wipe", round(share, 3), "", kept["wipe-1"].directory)


EXPERIMENTS: Final = (
    Experiment(
        name="kafka-acks",
        story="The followers of a leader are cut off for a second, then the leader is killed; a topic for each way to acknowledge and to send.",
        seconds=30,
        expects=(
            expect("C63", "forgotten_with_acks_0", at_least(1)),
            expect("C64", "lost_with_acks_1", at_least(1)),
            expect("C64", "acks_by_default", exactly("all"), Part.TODAY),
            expect("C65", "acknowledged_by_the_leader_alone_with_acks_all", exactly(0)),
            expect("C65", "wait_of_acks_all", at_least(CUT_S)),
            expect("C15 C34 C65 C91", "lost_with_acks_all", exactly(0)),
            expect("C15 C34 C91", "new_leader", exactly("was in sync")),
            expect("C15 C34", "rto_s", between(0.01, RTO_S_MAX)),
            expect("C64 C63", "lost_with_acks_1", at_least(0), Part.PRICE),
            expect("C20", "missing_with_no_retries", at_least(1)),
            expect("C20", "twice_with_retries", at_least(1)),
            expect("C20", "missing_with_retries", exactly(0)),
            expect("C20", "missing_with_idempotent", exactly(0)),
            expect("C20", "twice_with_idempotent", exactly(0)),
        ),
        conduct=kill_leader,
    ),
    Experiment(
        name="kafka-copies",
        story="A broker is killed, first with its disk, then without; its topics have one copy and three.",
        seconds=30,
        expects=(
            expect("C02 C03", "lost_with_one_copy_kill", exactly(0)),
            expect("C02 C03", "share_lost_with_one_copy_wipe", at_least(0.99)),
            expect("C02", "lost_with_three_copies_kill", exactly(0)),
            expect("C02", "lost_with_three_copies_wipe", exactly(0)),
            expect("C01 C02", "served_during_the_outage_with_three_copies_kill", exactly(1)),
            expect("C02", "rto_s_with_three_copies_wipe", at_most(RTO_S_MAX)),
            expect("C01 C03", "served_during_the_outage_with_one_copy_kill", exactly(0)),
            expect("C02", "rto_s_with_three_copies_kill", at_most(RTO_S_MAX), Part.PRICE),
        ),
        conduct=copies,
    ),
)
