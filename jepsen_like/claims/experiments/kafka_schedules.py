"""Kafka under a thousand schedules of kills, cuts and power loss: who is elected, and what is lost. Played by the simulator."""

import json
import os
from collections import Counter
from typing import Final

from jepsen_like.claims.experiment import ClaimDesk, Experiment
from jepsen_like.claims.judgement import Part, at_least, exactly, expect
from jepsen_like.simulation.kafka.model import KAFKA
from jepsen_like.simulation.kernel.campaign import play_all

SCHEDULES: Final = 1000
LOST: Final = "K2"
"""The audit that no acknowledged record is lost."""
ELECTED: Final = "K4"
"""The audit that a leader was in the ISR or eligible, or that its topic allows others."""


def play(desk: ClaimDesk) -> None:
    """Play the schedules that belong to the seed, and count elections and broken promises."""
    counts: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    played = 0
    for result in play_all(KAFKA, range(desk.seed * SCHEDULES, (desk.seed + 1) * SCHEDULES), os.cpu_count() or 1):
        played += 1
        counts.update(result.counts)
        broken.update(each.oracle for each in result.violations)
    directory = desk.new_directory("simulated schedules")
    (directory / "counts.json").write_text(json.dumps({"counts": counts, "broken": broken}, indent=2, sort_keys=True))
    desk.measure("schedules", played, "", directory)
    desk.measure("schedules_with_a_broken_promise", broken.total(), "", directory)
    desk.measure("schedules_that_lost_an_acknowledged_record", broken[LOST], "", directory)
    desk.measure("schedules_with_a_leader_against_the_rule", broken[ELECTED], "", directory)
    desk.measure("leaders_from_the_set", counts["elections"], "", directory)
    desk.measure("leaders_from_the_eligible", counts["eligible_elections"], "", directory)
    desk.measure("leaders_by_permission", counts["unclean_elections"], "", directory)


EXPERIMENTS: Final = (
    Experiment(
        name="kafka-schedules",
        story="A thousand simulated clusters of the real brokers' code; each is killed, cut and without power at times of its own.",
        seconds=180,
        expects=(
            expect("C15 C34", "schedules", exactly(SCHEDULES)),
            expect("C15 C34", "schedules_with_a_broken_promise", exactly(0)),
            expect("C15", "schedules_with_a_leader_against_the_rule", exactly(0)),
            expect("C15 C34", "schedules_that_lost_an_acknowledged_record", exactly(0)),
            expect("C15", "leaders_from_the_set", at_least(SCHEDULES)),
            expect("C15", "leaders_from_the_eligible", at_least(0), Part.PRICE),
        ),
        conduct=play,
    ),
)
