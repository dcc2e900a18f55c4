"""Raft groups in zones: which zones may be lost."""

from typing import Final

from jepsen_like.claims.experiment import ClaimDesk, Experiment, fault, plan_of
from jepsen_like.claims.judgement import exactly, expect
from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.targets import Target
from jepsen_like.port.zones import ZonePlan

HOLD_S: Final = 4.0


def zone_of(node: int, nodes: int = 3) -> Fault:
    """The loss of the zone in which a node stands."""
    everyone = range(1, nodes + 1)
    seed = next(seed for seed in range(1000) if fault(1, "zone-down", 0, 0, seed=seed).rng().choice(everyone) == node)
    return fault(1, "zone-down", 1.5, HOLD_S, Target.ZONE, seed=seed)


def lose_zones(desk: ClaimDesk) -> None:
    """Lose each of three zones, and each of two."""
    for zones, nodes in (("3", (1, 2, 3)), ("2+1", (1, 2))):
        for node in nodes:
            plan = plan_of("raft", faults=(zone_of(node),), zones=ZonePlan.of(zones), duration_s=7.5)
            shown = desk.run(f"raft in zones {zones}, that of n{node} down", plan)
            name = zones.replace("+", "_and_")
            desk.measure(f"zones_{name}_serve_without_that_of_n{node}", shown.serves_during(), "", shown)
            desk.measure(f"zones_{name}_lost_with_that_of_n{node}", shown.lost, "records", shown)


EXPERIMENTS: Final = (
    Experiment(
        name="raft-zones",
        story="A group of three stands in three zones, or in two, and each zone loses its power.",
        seconds=75,
        expects=(
            *(expect("C35", f"zones_3_serve_without_that_of_n{node}", exactly(1)) for node in (1, 2, 3)),
            *(expect("C35", f"zones_3_lost_with_that_of_n{node}", exactly(0)) for node in (1, 2, 3)),
            expect("C35", "zones_2_and_1_serve_without_that_of_n1", exactly(0)),
            expect("C35", "zones_2_and_1_serve_without_that_of_n2", exactly(1)),
        ),
        conduct=lose_zones,
    ),
)
