"""A copy knows what it had: all brokers of a calm cluster stop and start in drawn orders, and some of their disks suffer meanwhile."""

from collections import Counter

import attrs
import pytest

from jepsen_like.simulation.kafka.model import KAFKA
from jepsen_like.simulation.kafka.swarm import KAFKA_CALM, KafkaKnobs
from jepsen_like.simulation.kernel.findings import SeedResult
from jepsen_like.simulation.kernel.swarm import FaultKind, PlannedFault
from tests.examples import examples

pytestmark = pytest.mark.simulation


def world(seed: int, *, eligible: bool = True) -> KafkaKnobs:
    """One client writes; all brokers stop and start twice."""
    return attrs.evolve(
        KAFKA_CALM,
        seed=seed,
        safety_s=6.0,
        clients=1,
        readers=1,
        min_isr=1 + seed % 2,
        eligible=eligible,
        before_ack=seed % 3 == 0,
        faults=(PlannedFault(1.0, FaultKind.STOPS, "fault/0"), PlannedFault(3.5, FaultKind.STOPS, "fault/1")),
    )


def play_seeds(*, eligible: bool) -> list[SeedResult]:
    return [KAFKA.world(world(seed, eligible=eligible)).run() for seed in range(examples(8))]


def test_in_any_order_of_stops_damage_and_starts_the_best_copy_leads_and_every_partition_serves_again() -> None:
    totals: Counter[str] = Counter()
    for seed, result in enumerate(play_seeds(eligible=True)):
        assert result.violations == (), (seed, result.violations)
        totals.update(result.counts)
    for name in ("stops", "damages", "vanishes", "suspects", "eligible_elections", "compared_elections", "log_reports"):
        assert totals[name] > 0, name


def test_without_eligible_replicas_the_same_orders_lose_what_sound_copies_have_and_the_audit_names_them() -> None:
    found = Counter(violation.oracle for result in play_seeds(eligible=False) for violation in result.violations)
    assert found["K1"] + found["K11"] > 0
    assert set(found) <= {"K1", "K2", "K3", "K6", "K11"}, found
