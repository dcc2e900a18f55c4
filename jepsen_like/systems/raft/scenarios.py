"""The scenarios of the raft system: the zones in which the nodes of a group stand."""

from typing import Final

from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.targets import Target
from jepsen_like.port.scenario import NamedScenario, Shows, Trial
from jepsen_like.port.zones import Placement, ZonePlan

LEADERS_ZONE_DOWN: Final = (Fault(1, "zone-down", Target.LEADER, at_s=3.0, hold_s=5.0, seed=1),)
LARGER_ZONE_DOWN: Final = (Fault(1, "zone-down", Target.ZONE, at_s=3.0, hold_s=5.0, seed=1),)
"""The seed draws the first node, and so its zone."""
TOGETHER: Final = ZonePlan.of("3", placement=Placement.TOGETHER)

SCENARIOS: Final = (
    NamedScenario(
        name="raft-zone-down",
        story=(
            "The power of a whole zone fails. Where each node stands in another zone, the other two elect a leader and go on. Where a majority "
            "stands in the zone, nothing is acknowledged until it is back, and what was flushed before its acknowledgement is there."
        ),
        workload="log",
        duration_s=12.0,
        trials=(
            Trial(
                name="zones=3", settings=(), zones=ZonePlan.of("3"), faults=LEADERS_ZONE_DOWN, shows=Shows.ZONE_SURVIVED
            ),
            Trial(
                name="zones=2+1",
                settings=(),
                zones=ZonePlan.of("2+1"),
                faults=LARGER_ZONE_DOWN,
                shows=Shows.STOPS_WITH_ZONE,
            ),
            Trial(
                name="placement=together",
                settings=(),
                zones=TOGETHER,
                faults=LEADERS_ZONE_DOWN,
                shows=Shows.STOPS_WITH_ZONE,
            ),
            Trial(
                name="placement=together, flush=none",
                settings=("flush=none",),
                zones=TOGETHER,
                faults=LEADERS_ZONE_DOWN,
                shows=Shows.LOST_WITH_ZONE,
            ),
        ),
    ),
)
