"""Kafka in three zones: one is lost, with copies spread or together, one zone or two before the acknowledgement, clients inside or outside."""

import time
from typing import Final

import trio

from jepsen_like.claims.experiment import ClaimDesk, Experiment
from jepsen_like.claims.experiments.kafka_acks import AFTER_S, RATE, RTO_S_MAX, WARM_S
from jepsen_like.claims.judgement import Part, at_least, at_most, exactly, expect
from jepsen_like.claims.recordings import Recording, judge, open_scene
from jepsen_like.port.zones import ZonePlan
from jepsen_like.systems.kafka.stage.acts import Act
from jepsen_like.systems.kafka.stage.acts import between as ways
from jepsen_like.systems.kafka.stage.stage import PlacedTopic

BROKERS: Final = 6
ZONES: Final = ZonePlan.of("3")
CUT_S: Final = 0.8
HOLD_S: Final = 3.0
RESTART_S: Final = 1.5
"""Clients that died with their zone are started elsewhere after this time."""
SPREAD, TOGETHER, NEAR, FAR, INSIDE = "spread", "together", "one-zone-acks", "two-zones-ack", "clients-inside"

Values = dict[str, float | str]


async def _zones(desk: ClaimDesk) -> tuple[Values, dict[str, Recording], Act, int]:
    found: Values = {}
    async with open_scene(desk, "zones", brokers=BROKERS, zones=ZONES) as scene:
        stage, stand = scene.stage, scene.stage.cluster.zones
        await stage.create(PlacedTopic(name=SPREAD, copies=3))
        state = await stage.state(SPREAD)
        assert state is not None
        placed = list(state.replica_nodes)
        found["zones_of_the_copies_by_default"] = len({stand.zone_of(node) for node in placed})
        lost = stand.members(stand.zone_of(state.leader_id))
        outside = [node for node in stage.brokers if node not in lost]
        two = {"min.insync.replicas": "2"}
        await stage.create(
            PlacedTopic(name=TOGETHER, placed=[lost]),
            PlacedTopic(name=NEAR, placed=[placed]),
            PlacedTopic(name=FAR, placed=[placed], configs=two),
            PlacedTopic(name=INSIDE, placed=[placed]),
        )
        recordings = {
            name: scene.record(f"zone lost {name}", name, f"acks={acks}", *([f"min.insync.replicas={least}"]))
            for name, acks, least in (
                (SPREAD, "all", 1),
                (TOGETHER, "all", 1),
                (NEAR, "1", 1),
                (FAR, "all", 2),
                (INSIDE, "all", 1),
            )
        }
        probes = {
            name: scene.load(recording, acks="1" if name == NEAR else "all", rate=RATE)
            for name, recording in recordings.items()
        }
        await trio.sleep(WARM_S)
        cut = stage.cut(ways(lost, outside))
        await trio.sleep(CUT_S)
        probes[INSIDE].stop()  # its clients die with the zone
        killed = await stage.kill(*lost)
        await stage.end(cut)
        await stage.until_led(SPREAD, outside)
        await trio.sleep(RESTART_S)
        await scene.stop(probes[INSIDE])
        restarted_ns = time.monotonic_ns()
        scene.load(recordings[INSIDE], rate=RATE)
        await trio.sleep(HOLD_S - RESTART_S)
        await stage.end(killed)
        await stage.until_led(TOGETHER, lost)
        await trio.sleep(AFTER_S)
        await scene.keep(*recordings.values())
        return found, recordings, killed, restarted_ns


def zones(desk: ClaimDesk) -> None:
    """Cut the leader's zone off for a moment, then lose it whole, and let it come back."""
    found, recordings, killed, restarted_ns = trio.run(_zones, desk)
    kept = {name: judge(desk, recording) for name, recording in recordings.items()}
    for name, value in found.items():
        desk.measure(name, value, "", kept[SPREAD].directory)
    away_s = (killed.undone_ns - killed.begun_ns) / 1e9
    desk.measure("zone_away_s", round(away_s, 2), "s", kept[SPREAD].directory)
    for name, words in ((SPREAD, "spread_copies"), (TOGETHER, "copies_together"), (INSIDE, "clients_in_the_lost_zone")):
        rto_s = kept[name].rto_s(killed.begun_ns)
        desk.measure(f"rto_s_of_{words}", rto_s, "s", kept[name].directory)
        desk.measure(f"served_without_the_zone_{words}", int(rto_s < away_s), "", kept[name].directory)
    restart_s = (restarted_ns - killed.begun_ns) / 1e9
    desk.measure("clients_started_elsewhere_after_s", round(restart_s, 2), "s", kept[INSIDE].directory)
    unused_s = kept[INSIDE].rto_s(killed.begun_ns) - kept[SPREAD].rto_s(killed.begun_ns)
    desk.measure("seconds_the_service_was_up_and_unused", round(unused_s, 2), "s", kept[INSIDE].directory)
    desk.measure("lost_with_one_zone_before_the_ack", kept[NEAR].lost, "records", kept[NEAR].directory)
    desk.measure("lost_with_two_zones_before_the_ack", kept[FAR].lost, "records", kept[FAR].directory)
    desk.measure("lost_of_spread_copies", kept[SPREAD].lost, "records", kept[SPREAD].directory)


EXPERIMENTS: Final = (
    Experiment(
        name="kafka-zones",
        story="Six brokers stand in three zones; the leader's zone is cut off for a moment and then lost.",
        seconds=40,
        expects=(
            expect("C39", "zones_of_the_copies_by_default", exactly(3)),
            expect("C39", "served_without_the_zone_spread_copies", exactly(1)),
            expect("C39", "served_without_the_zone_copies_together", exactly(0)),
            expect("C39 C36", "lost_of_spread_copies", exactly(0)),
            expect("C36 C39", "rto_s_of_spread_copies", at_most(RTO_S_MAX)),
            expect("C40", "served_without_the_zone_spread_copies", exactly(1)),
            expect("C40", "seconds_the_service_was_up_and_unused", at_least(0.5)),
            expect("C40", "rto_s_of_clients_in_the_lost_zone", at_least(RESTART_S)),
            expect("C40", "clients_started_elsewhere_after_s", at_least(0), Part.PRICE),
            expect("C41", "lost_with_one_zone_before_the_ack", at_least(1)),
            expect("C41", "lost_with_two_zones_before_the_ack", exactly(0)),
        ),
        conduct=zones,
    ),
)
