"""The scenarios of RabbitMQ: findings that others have published, each with what ends it."""

from typing import Final

from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.targets import Target
from jepsen_like.port.scenario import NamedScenario, Shows, Trial

NOTICED: Final = "net_ticktime=4"
"""Nodes notice by then that they do not see each other."""
LEADER_APART: Final = (Fault(1, "partition", Target.LEADER, at_s=8.0, hold_s=14.0, seed=1),)


def _trial(name: str, shows: Shows) -> Trial:
    return Trial(name=name, settings=(*name.split(", "), NOTICED), faults=LEADER_APART, shows=shows)


SCENARIOS: Final = (
    NamedScenario(
        name="rabbitmq-partition",
        story=(
            "The node that leads a queue is cut off from the others. Of a classic queue with mirrors both sides go on alone, and what "
            "the side that gives way had confirmed is lost, as Jepsen reported; a quorum queue needs a majority, and loses nothing."
        ),
        workload="queue",
        duration_s=45.0,
        trials=(
            _trial("queue_type=mirrored, cluster_partition_handling=autoheal", Shows.LOSS),
            _trial("queue_type=quorum, cluster_partition_handling=autoheal", Shows.NO_LOSS),
        ),
    ),
)
