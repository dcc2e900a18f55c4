"""Two cities with a mirror, and zones that are sized for a loss: read from `quorumlog rehearse` and `quorumlog capacity`."""

from pathlib import Path
from typing import Any, Final

from jepsen_like.claims.experiment import ClaimDesk, DidNotRun, Experiment, plan_of
from jepsen_like.claims.judgement import Part, at_least, at_most, between, exactly, expect
from jepsen_like.port.zones import ZonePlan

DELAYS_MS: Final = (30, 100)
"""From one city to the other, one way."""
PEOPLE_S: Final = 60.0
"""A machine that needs less than this leaves the minutes of a recovery to people."""
ATTEMPT_MS: Final = 300
"""The producers of two topics give an attempt up after so long."""
SLACK_MS: Final = 300
ONE_PARTITION: Final = "num.partitions=1"


def rehearse(desk: ClaimDesk) -> None:
    """Lose a city, switch, let it return and switch back; once with a fence, and once with the link left open."""
    place, (told, *_) = desk.command("city lost", "rehearse", "--quick", "--seed", str(desk.seed), "--delay", "30")
    for name in ("lost", "lag", "foreign", "skipped", "read_again", "doubled"):
        desk.measure(name, int(told[name]), "records", place)
    desk.measure("lost_that_was_no_lag", abs(int(told["lost"]) - int(told["lag"])), "records", place)
    desk.measure("rto_of_the_machine_s", float(told["rto_machine_s"]), "s", place)
    desk.measure("decision_of_people_s", round(float(told["rto_s"]) - float(told["rto_machine_s"]), 2), "s", place)
    trap, (left_open, *_) = desk.command(
        "city lost, link left open",
        "rehearse",
        "--quick",
        "--seed",
        str(desk.seed),
        "--delay",
        "30",
        "--unsafe-no-fence",
    )
    desk.measure("foreign_with_an_open_link", int(left_open["foreign"]), "records", trap)


def copy_over_a_delay(desk: ClaimDesk) -> None:
    """The same writes with replicas as far apart as cities, and with replicas in one place and a mirror behind."""
    near = desk.run("replicas in one city", plan_of("kafka", ONE_PARTITION, rate=100.0, duration_s=5.0))
    desk.measure("p50_with_a_mirror_ms", near.latency_ms(), "ms", near)
    for delay_ms in DELAYS_MS:
        zones = ZonePlan.of("3", delay_s=delay_ms / 1e3, clients="a")
        plan = plan_of("kafka", ONE_PARTITION, "min.insync.replicas=2", rate=100.0, duration_s=6.0, zones=zones)
        far = desk.run(f"replicas in cities {delay_ms} ms apart", plan)
        desk.measure(f"p50_at_{delay_ms}_ms", far.latency_ms(), "ms", far)


def size_zones(desk: ClaimDesk) -> None:
    """Hold brokers to a stated capacity, and lose the largest zone at full load."""
    place, (told, *_) = desk.command("capacity of zones", "capacity", "--seed", str(desk.seed))
    trials: dict[str, Any] = {trial["name"]: trial for trial in told["trials"]}
    for name, trial in trials.items():
        desk.measure(f"overloaded_in_{name.replace('+', '_')}", len(trial["overloaded"]), "brokers", _of(place, trial))
    off = max(abs(float(trial["off"])) for trial in trials.values())
    desk.measure("largest_difference_from_the_formula", off, "", place)
    if not {"2+2+2", "2+2+1", "4+1+1"} <= set(trials):
        raise DidNotRun(f"{place.name}: zones of three are missing")


def _of(place: Path, trial: Any) -> Path:
    return place / str(trial["directory"])


def lose_one_of_two_topics(desk: ClaimDesk) -> None:
    """A topic in each of two clusters: one is lost while its consumer lags, and comes back."""
    place, (told, *_) = desk.command("two topics", "two-topics", "--seed", str(desk.seed))
    trials: dict[str, Any] = {trial["name"]: trial for trial in told["trials"]}

    def take(name: str, trial: str, field: str, unit: str) -> None:
        if trial not in trials:
            raise DidNotRun(f"{place.name}: there is no trial {trial!r}")
        desk.measure(name, trials[trial][field], unit, _of(place, trials[trial]))

    take("wait_when_alternating_ms", "alternate, replay", "wait_ms", "ms")
    take("wait_when_hedging_ms", "hedge at once, replay", "wait_ms", "ms")
    take("refused", "alternate, replay", "failed", "messages")
    take("late_of_the_lost_side", "alternate, replay", "late", "messages")
    take("lost_of_the_lost_side", "alternate, replay", "lost", "messages")
    take("lost_with_its_disk", "alternate, lost for good", "lost", "messages")
    take("given_twice", "alternate, replay", "given_twice", "messages")
    take("reordered_by_replay", "alternate, replay", "reordered", "messages")
    take("dropped", "alternate, drop by epoch", "dropped", "messages")
    take("stale_keys_when_dropping", "alternate, drop by epoch", "stale", "keys")
    take("compensated", "alternate, compensate", "compensated", "messages")
    take("reordered_when_compensating", "alternate, compensate", "reordered", "messages")


EXPERIMENTS: Final = (
    Experiment(
        name="two-topics",
        story="A topic stands in each of two clusters; one cluster is lost while its consumer lags, and comes back.",
        seconds=150,
        expects=(
            expect("C45", "wait_when_alternating_ms", at_most(ATTEMPT_MS + SLACK_MS)),
            expect("C45", "refused", exactly(0)),
            expect(
                "C45",
                "wait_when_alternating_ms",
                at_least(ATTEMPT_MS),
                Part.EXCEPTION,
                condition="producers hedge; others wait for one failed attempt",
            ),
            expect("C45", "wait_when_hedging_ms", part=Part.PRICE),
            expect("C46", "late_of_the_lost_side", at_least(1)),
            expect("C46", "lost_of_the_lost_side", exactly(0)),
            expect("C46", "lost_with_its_disk", part=Part.PRICE),
            expect("C47", "given_twice", exactly(0)),
            expect("C47", "reordered_by_replay", at_least(1)),
            expect("C48", "dropped", at_least(1)),
            expect("C48", "stale_keys_when_dropping", exactly(0)),
            expect("C48", "compensated", at_least(1)),
            expect("C48", "reordered_when_compensating", exactly(0)),
        ),
        conduct=lose_one_of_two_topics,
    ),
    Experiment(
        name="city-lost",
        story="A city is lost under load, an operator switches to the other one, the lost one returns, and all go back.",
        seconds=150,
        expects=(
            expect("C50", "lost_that_was_no_lag", exactly(0)),
            expect("C50", "skipped", exactly(0)),
            expect("C50", "read_again", part=Part.PRICE),
            expect("C50", "lag", part=Part.PRICE),
            expect("C51 C26", "decision_of_people_s", at_least(0.1)),
            expect("C51", "rto_of_the_machine_s", at_least(0.1)),
            expect(
                "C26",
                "rto_of_the_machine_s",
                at_most(PEOPLE_S),
                Part.EXCEPTION,
                condition="people decide; the machine's part takes seconds",
            ),
            expect("C52", "foreign", exactly(0)),
            expect("C52", "foreign_with_an_open_link", at_least(1)),
        ),
        conduct=rehearse,
    ),
    Experiment(
        name="far-replicas",
        story="Replicas stand 30 and 100 ms apart, or in one city with a mirror behind.",
        seconds=45,
        expects=(
            *(expect("C49", f"p50_at_{delay_ms}_ms", at_least(2 * delay_ms)) for delay_ms in DELAYS_MS),
            expect(
                "C49",
                "p50_with_a_mirror_ms",
                at_most(2 * DELAYS_MS[0]),
                Part.EXCEPTION,
                condition="copies are made before the acknowledgement; a mirror delays no write",
            ),
        ),
        conduct=copy_over_a_delay,
    ),
    Experiment(
        name="zones-sized",
        story="Brokers of a stated capacity stand in 2, 3 and 4 zones, and the largest zone is lost at full load.",
        seconds=250,
        expects=(
            *(expect("C37", f"overloaded_in_{name}", exactly(0)) for name in ("2_2", "2_2_2", "2_2_2_2")),
            *(expect("C37", f"overloaded_in_{name}", at_least(1)) for name in ("2_1", "2_2_1", "2_2_2_1")),
            expect("C37", "largest_difference_from_the_formula", between(0, 0.1)),
            expect("C38", "overloaded_in_4_1_1", at_least(1)),
            expect("C38", "overloaded_in_2_2_2", exactly(0)),
        ),
        conduct=size_zones,
    ),
)
