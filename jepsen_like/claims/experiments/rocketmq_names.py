"""RocketMQ's name servers and brokers: which operations stop when one part alone is dead."""

from typing import Final

from jepsen_like.claims.experiment import ClaimDesk, Experiment, aim, fault
from jepsen_like.claims.experiments.rocketmq_pairs import ASYNC, HOLD_S, KILLED, pair
from jepsen_like.claims.judgement import Part, at_least, at_most, exactly, expect
from jepsen_like.nemesis.targets import Target
from jepsen_like.port.zones import ZonePlan

THREE_ZONES: Final = ZonePlan.of("3")
"""One name server in each."""
ONE_BY_ONE: Final = (
    fault(1, "kill", 1.0, 1.5, Target.ENTRANCE, seed=1),
    fault(2, "kill", 3.5, 1.5, Target.ENTRANCE, seed=4),
    fault(3, "kill", 6.0, 1.5, Target.ENTRANCE, seed=2),
    fault(4, "kill", 8.5, 3.0, Target.ENTRANCES),
)


NAMES_KILLED: Final = pair(ASYNC, faults=ONE_BY_ONE, nodes=3, zones=THREE_ZONES, duration_s=13.0)


def kill_names(desk: ClaimDesk) -> None:
    """Three name servers are killed one at a time, then all at once; then the single parts of a pair."""
    shown = desk.run("name servers killed one by one, then all", NAMES_KILLED)
    desk.measure("rto_of_sends_without_a_name_server_s", max(shown.rto_s(number) for number in (1, 2, 3)), "s", shown)
    desk.measure("rto_of_sends_without_any_name_server_s", shown.rto_s(4), "s", shown)
    desk.measure("lost_without_name_servers", shown.lost, "records", shown)
    slave = desk.run("async pair, slave killed", pair(ASYNC, faults=(aim(1, "kill", 1.5, HOLD_S, [2], 2),)))
    desk.measure("rto_of_sends_without_the_slave_s", slave.rto_s(), "s", slave)
    killed = desk.run("async-slave pair, master killed", pair(ASYNC, faults=KILLED))
    desk.measure("rto_of_sends_without_the_only_master_s", killed.rto_s(), "s", killed)


EXPERIMENTS: Final = (
    Experiment(
        name="rocketmq-weakest-part",
        story="Name servers are killed one at a time and all at once, then a slave, then the only master.",
        seconds=40,
        expects=(
            expect("C01", "rto_of_sends_without_a_name_server_s", at_most(1.0)),
            expect("C01 Q002", "rto_of_sends_without_any_name_server_s", at_most(1.0)),
            expect("C01", "rto_of_sends_without_the_slave_s", at_most(1.0)),
            expect("C01", "rto_of_sends_without_the_only_master_s", at_least(HOLD_S)),
            expect("C01 Q002", "lost_without_name_servers", exactly(0)),
            expect("C01", "rto_of_sends_without_the_only_master_s", part=Part.PRICE),
        ),
        conduct=kill_names,
    ),
)
