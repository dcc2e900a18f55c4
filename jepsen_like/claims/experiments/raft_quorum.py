"""Raft groups that lose members: how many they survive, for how long they are away, and what they lose."""

from typing import Final

from jepsen_like.claims.experiment import ClaimDesk, Experiment, fault, plan_of
from jepsen_like.claims.judgement import Part, at_most, between, exactly, expect
from jepsen_like.nemesis.targets import Target
from jepsen_like.run.exercise import RunPlan

SIZES: Final = (3, 5, 7)
ELECTION_S_MAX: Final = 2.0
"""Two of the longest election timeouts, and the first write after it, with room for a busy machine."""


def plan_kill(nodes: int, target: Target) -> RunPlan:
    """The plan of a group of which some are killed for 2.5 s."""
    return plan_of("raft", faults=(fault(1, "kill", 1.5, 2.5, target),), nodes=nodes, duration_s=5.5)


def minorities_and_majorities(desk: ClaimDesk) -> None:
    """Kill (n-1)/2 of n, and one more."""
    for nodes in SIZES:
        fewer, more = (
            desk.run(f"raft of {nodes}, a {which} killed", plan_kill(nodes, which))
            for which in (Target.MINORITY, Target.MAJORITY)
        )
        desk.measure(f"served_by_{nodes}_without_a_minority", fewer.serves_during(), "", fewer)
        desk.measure(f"served_by_{nodes}_without_a_majority", more.serves_during(), "", more)
        desk.measure(f"lost_by_{nodes}", fewer.lost + more.lost, "records", fewer, more)


def leader_killed(desk: ClaimDesk) -> None:
    """Kill the leader of three."""
    shown = desk.run("raft of 3, the leader killed", plan_kill(3, Target.LEADER))
    desk.measure("rto_s", shown.rto_s(), "s", shown)
    desk.measure("lost", shown.lost, "records", shown)


EXPERIMENTS: Final = (
    Experiment(
        name="raft-quorum",
        story="Groups of 3, 5 and 7 lose as many nodes as they may, and one more.",
        seconds=60,
        expects=(
            *(expect("C21", f"served_by_{nodes}_without_a_minority", exactly(1)) for nodes in SIZES),
            *(expect("C21", f"served_by_{nodes}_without_a_majority", exactly(0)) for nodes in SIZES),
            *(expect("C21", f"lost_by_{nodes}", exactly(0)) for nodes in SIZES),
            expect("C88", "served_by_3_without_a_minority", exactly(1)),
            expect("C88", "served_by_3_without_a_majority", exactly(0)),
        ),
        conduct=minorities_and_majorities,
    ),
    Experiment(
        name="raft-leader-killed",
        story="The leader of a group of three is killed under load.",
        seconds=10,
        expects=(
            expect("C24 C27 C88", "rto_s", between(0.01, ELECTION_S_MAX)),
            expect("C24 C27", "lost", exactly(0)),
            expect("C27", "rto_s", at_most(ELECTION_S_MAX), Part.PRICE),
        ),
        conduct=leader_killed,
    ),
)
