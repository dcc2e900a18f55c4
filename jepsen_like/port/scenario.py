"""Stories that a system has by name: a few clusters, what is done to each of them at which second, and what that is to show.

A scenario is told to compare: its trials differ in one setting, so that the setting explains what differs in the end. What a trial
promises is decided as in any run, by its mode; `shows` is in addition what the story is about, so that a trial in which that did
not come about is not taken for one in which it did.
"""

import enum

import attrs

from jepsen_like.nemesis.schedule import Fault
from jepsen_like.port.zones import NO_ZONES, ZonePlan


class Shows(enum.Enum):
    """The effects that a trial can show, in words."""

    LOSS = "acknowledged records are lost, as the mode allows"
    NO_LOSS = "nothing that was acknowledged is lost"
    BROKEN = "a promise is broken, as others have reported of this release"
    GROUPS_STALL = "no group commits anything while the broker is down, and plain reads go on"
    SCOPE_STOPS_ALONE = "what the killed broker leads stops until it is back, the rest goes on, and nothing that was acknowledged is lost"
    MAJORITY_COUNTS = "acknowledged with one down, not with two, and nothing that was acknowledged is lost"
    GROUPS_GO_ON = "groups and plain reads go on while the broker is down"
    CONSUMERS_GO_ON = "consumers are given messages while the master is down"
    CONSUMERS_WAIT = "consumers are given nothing until the master is back"
    ZONE_SURVIVED = "the rest serves while the zone is down, and nothing that was acknowledged is lost"
    STOPS_WITH_ZONE = "nothing is acknowledged until the zone is back, and nothing that was acknowledged is lost"
    LOST_WITH_ZONE = (
        "nothing is acknowledged until the zone is back, and acknowledged records are lost, as the mode allows"
    )
    WRITES_WAIT_IN_ORDER = "keys wait for their master, and every key keeps its order"
    WRITES_GO_ON_OUT_OF_ORDER = "keys go to other queues while their master is down, and some lose their order"


@attrs.frozen(kw_only=True)
class Trial:
    """One cluster of a scenario."""

    name: str
    """The setting, with its value, that sets the trial apart from the others."""
    settings: tuple[str, ...]
    """`name=value`, as after `--set`."""
    faults: tuple[Fault, ...]
    shows: Shows
    replication: str = ""
    """As `--replication` names it; empty: the system's first."""
    workload: str = ""
    """As `--workload` names it; empty: that of the scenario."""
    zones: ZonePlan = NO_ZONES
    nodes: int = 0
    """The number of nodes; 0: that of the scenario."""


@attrs.frozen(kw_only=True)
class NamedScenario:
    """A story. `rate` in operations per second over all clients; its trials run one after the other."""

    name: str
    story: str
    """In one sentence: what is done, and what comes of it."""
    workload: str
    duration_s: float
    trials: tuple[Trial, ...]
    nodes: int = 3
    rate: float = 400.0
    concurrency: int = 10
