"""RocketMQ's raft groups (DLedger mode) next to its pairs, and several pairs next to one."""

from typing import Any, Final

from jepsen_like.claims.experiment import ClaimDesk, Experiment, fault
from jepsen_like.claims.experiments.rocketmq_pairs import ASYNC, RAFT, pair
from jepsen_like.claims.judgement import Part, at_least, at_most, between, exactly, expect
from jepsen_like.nemesis.targets import Target
from jepsen_like.run.exercise import RunPlan

ONE_THEN_TWO: Final = (fault(1, "kill", 1.5, 2.5), fault(2, "kill", 6.0, 2.5, Target.MAJORITY, seed=2))
POWERLESS: Final = (fault(1, "power", 2.0, 1.0, Target.ALL),)
PAUSED: Final = (fault(1, "pause", 1.5, 12.0),)
DEAD_PAIR_S: Final = 3.0
DEAD_PAIR: Final = (fault(1, "kill", 1.5, DEAD_PAIR_S, scope="broker-a"),)


def plan_powerless(ack: str) -> RunPlan:
    """The plan of a group without power; at this rate there is something that no flush has secured at any moment."""
    return pair(RAFT, f"ack={ack}", faults=POWERLESS, nodes=3, rate=800.0)


def lose_one_then_two(desk: ClaimDesk) -> None:
    """A group of three loses its master, then two members, then the power of all."""
    shown = desk.run("raft group, one killed, then two", pair(RAFT, faults=ONE_THEN_TWO, nodes=3, duration_s=11.0))
    desk.measure("rto_after_one_s", shown.rto_s(1), "s", shown)
    desk.measure("served_without_one", shown.serves_during(1), "", shown)
    desk.measure("served_without_two", shown.serves_during(2), "", shown)
    desk.measure("lost", shown.lost, "records", shown)
    desk.measure("elections", len(shown.results.elections), "", shown)
    silent = desk.run("raft group, master paused", pair(RAFT, faults=PAUSED, nodes=3, duration_s=15.0))
    desk.measure("rto_after_a_pause_s", silent.rto_s(), "s", silent)
    desk.measure("lost_by_a_pause", silent.lost, "records", silent)
    for name, ack in (("durable", "durable"), ("page_cache", "page-cache")):
        powerless = desk.run(f"raft group, ack={ack}, without power", plan_powerless(ack))
        desk.measure(f"{name}_lost_by_power", powerless.lost, "records", powerless)


def compare_rates(desk: ClaimDesk) -> None:
    """Clients send as fast as they are answered to an asynchronous pair, and to a raft group."""
    calm: dict[str, Any] = {"rate": 0.0, "duration_s": 4.0, "nodes": 3}
    alone, group = (
        desk.run("async pair, no fault", pair(ASYNC, **calm)),
        desk.run("raft group, no fault", pair(RAFT, **calm)),
    )
    desk.measure("rate_of_group_to_async", round(group.rate_s / alone.rate_s, 3), "x", group, alone)
    desk.measure("async_rate", alone.rate_s, "records/s", alone)
    desk.measure("group_rate", group.rate_s, "records/s", group)


def kill_one_of_two(desk: ClaimDesk) -> None:
    """Two pairs, and the master of one is killed."""
    shown = desk.run("two pairs, one master killed", pair(ASYNC, "pairs=2", faults=DEAD_PAIR, nodes=4, duration_s=6.5))
    silences = shown.results.silences or {"scopes_s": {}, "all_s": None}
    frozen, other = silences["scopes_s"]["broker-a"], silences["scopes_s"]["broker-b"]
    desk.measure("dead_pair_silent_s", frozen or 0.0, "s", shown)
    desk.measure("other_pair_silent_s", other or 0.0, "s", shown)
    desk.measure("all_silent_s", silences["all_s"] or 0.0, "s", shown)
    desk.measure("lost", shown.lost, "records", shown)


EXPERIMENTS: Final = (
    Experiment(
        name="rocketmq-raft-group",
        story="A raft group of three loses its master, then two members; its master stands still; all lose their power.",
        seconds=70,
        expects=(
            expect("C86 C88", "served_without_one", exactly(1)),
            expect("C88", "served_without_two", exactly(0)),
            expect("C88", "rto_after_one_s", between(0.01, 2.5)),
            expect("C86 C87", "lost", exactly(0)),
            expect("C86 C87", "lost_by_a_pause", exactly(0)),
            expect("C86", "elections", at_least(1)),
            expect("C25", "lost_by_a_pause", exactly(0)),
            expect("C25 C88", "rto_after_a_pause_s", part=Part.PRICE),
            expect("C69", "durable_lost_by_power", exactly(0)),
            expect(
                "C69",
                "page_cache_lost_by_power",
                at_least(1),
                Part.EXCEPTION,
                condition="copies are flushed before the acknowledgement",
            ),
        ),
        conduct=lose_one_then_two,
    ),
    Experiment(
        name="rocketmq-rates",
        story="Closed loops of clients: an asynchronous pair next to a raft group, each of three brokers.",
        seconds=25,
        expects=(
            expect("C88 C83", "rate_of_group_to_async", between(0.2, 1.0)),
            expect("C88", "async_rate", part=Part.PRICE),
            expect("C88", "group_rate", part=Part.PRICE),
        ),
        conduct=compare_rates,
    ),
    Experiment(
        name="rocketmq-two-pairs",
        story="The master of one of two pairs is killed.",
        seconds=18,
        expects=(
            expect("C84", "dead_pair_silent_s", at_least(0.9 * DEAD_PAIR_S)),
            expect("C84", "other_pair_silent_s", at_most(DEAD_PAIR_S / 2)),
            expect("C84", "all_silent_s", at_most(DEAD_PAIR_S / 2)),
            expect("C84", "lost", exactly(0)),
        ),
        conduct=kill_one_of_two,
    ),
)
