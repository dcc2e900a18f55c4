"""The scenarios of the Kafka system: the cost and the benefit of each setting, under the same faults.

In each of them one partition holds all that is written, so that its leader is the one that is hit. The seeds of the
faults are such that a leader that is parted from its followers goes on serving clients.
"""

from typing import Final

from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.targets import Target
from jepsen_like.port.scenario import NamedScenario, Shows, Trial
from jepsen_like.port.zones import Placement, ZonePlan
from jepsen_like.systems.kafka.load import GROUPS_WORKLOAD, LOG_WORKLOAD
from jepsen_like.systems.kafka.processes import scope_of
from jepsen_like.systems.kafka.settings import ELIGIBLE

ONE_PARTITION: Final = "num.partitions=1"
TWO_COPIES: Final = ("default.replication.factor=2", "replica.lag.time.max.ms=1000")
"""With three brokers one can be cut off while the controllers keep their majority, and it leaves the ISR soon."""
OFFSETS_TOPIC: Final = scope_of("__consumer_offsets", 0)

KILL_BEHIND_A_CUT: Final = (
    Fault(1, "partition", Target.LEADER, at_s=2.0, hold_s=1.1, seed=2),
    Fault(2, "kill", Target.LEADER, at_s=2.9, hold_s=3.0, seed=2, overlaps=1),
)
"""The followers are cut off for less than it takes to leave the ISR, and the leader dies before they are back."""
KILLS: Final = (
    Fault(1, "kill", Target.LEADER, at_s=1.5, hold_s=1.5, seed=1),
    Fault(2, "kill", Target.LEADER, at_s=4.5, hold_s=1.5, seed=2),
    Fault(3, "kill", Target.ALL, at_s=7.5, hold_s=1.0, seed=3),
)
KILL_OF_THE_LAST: Final = (
    Fault(1, "shrink-isr", Target.LEADER, at_s=1.0, hold_s=2.5, seed=1),
    Fault(2, "kill", Target.LEADER, at_s=4.0, hold_s=6.0, seed=2, overlaps=1),
)
"""The ISR is the leader alone when it dies, and the follower comes back before it does."""
WIPE_OF_THE_LAST: Final = (
    Fault(1, "shrink-isr", Target.LEADER, at_s=1.0, hold_s=3.0, seed=1),
    Fault(2, "wipe", Target.LEADER, at_s=4.0, hold_s=1.0, seed=2, overlaps=1),
)
POWER_CUT: Final = (Fault(1, "power", Target.ALL, at_s=4.0, hold_s=1.0, seed=1),)
LAST_STOPPED_DAMAGED: Final = (Fault(1, "damage", Target.ALL, at_s=3.0, hold_s=1.0, seed=45),)
"""SIGTERM to each in turn; a bit of the last one's newest segment flips; they start in the same order."""
ALL_KILLED_COPY_GONE: Final = (Fault(1, "vanish", Target.ALL, at_s=3.0, hold_s=1.0, seed=12),)
"""SIGKILL to all at once; the directory of the partition is gone from one; all are started at once."""
LEADERS_ZONE_DOWN: Final = (Fault(1, "zone-down", Target.LEADER, at_s=3.0, hold_s=6.0, seed=1),)
TOGETHER: Final = ZonePlan.of("3", placement=Placement.TOGETHER)
TWO_HOLDERS: Final = "min.insync.replicas=2"


def _loss(name: str, story: str, duration_s: float, *trials: Trial) -> NamedScenario:
    return NamedScenario(name=name, story=story, workload=LOG_WORKLOAD, duration_s=duration_s, trials=trials)


def _trial(setting: str, faults: tuple[Fault, ...], shows: Shows, *others: str) -> Trial:
    """One partition, and the setting by which this trial differs."""
    return Trial(name=setting, settings=(ONE_PARTITION, *others, setting), faults=faults, shows=shows)


def _in_zones(name: str, zones: ZonePlan, shows: Shows, *settings: str) -> Trial:
    """The power of the zone in which the leader stands fails."""
    given = (ONE_PARTITION, TWO_HOLDERS, "acks=all", *settings)
    return Trial(name=name, settings=given, zones=zones, faults=LEADERS_ZONE_DOWN, shows=shows)


def _eligible_or_not(faults: tuple[Fault, ...]) -> tuple[Trial, ...]:
    return (
        _trial(f"{ELIGIBLE}=1", faults, Shows.NO_LOSS, TWO_HOLDERS),
        _trial(f"{ELIGIBLE}=0", faults, Shows.LOSS, TWO_HOLDERS),
    )


SCENARIOS: Final = (
    _loss(
        "acks1-leader-killed",
        "A leader whose followers lag is killed. With acks=1 the next leader lacks what only the old one had; with acks=all that was "
        "never acknowledged.",
        9.0,
        _trial("acks=1", KILL_BEHIND_A_CUT, Shows.LOSS),
        _trial("acks=all", KILL_BEHIND_A_CUT, Shows.NO_LOSS),
    ),
    _loss(
        "last-isr-member-wiped",
        "The ISR has shrunk to the leader when its disk is replaced by an empty one. It is the only one that may lead, and all that it "
        "had acknowledged is gone.",
        9.0,
        _trial("min.insync.replicas=1", WIPE_OF_THE_LAST, Shows.LOSS, *TWO_COPIES),
    ),
    _loss(
        "unclean-election",
        "The ISR has shrunk to the leader, and the leader dies. With unclean elections the follower that is behind leads, and what it "
        "lacks is gone; without them the partition waits for its leader.",
        12.0,
        _trial("unclean.leader.election.enable=true", KILL_OF_THE_LAST, Shows.LOSS, *TWO_COPIES),
        _trial("unclean.leader.election.enable=false", KILL_OF_THE_LAST, Shows.NO_LOSS, *TWO_COPIES),
    ),
    _loss(
        "clean-election",
        "Leaders are killed with SIGKILL, then all brokers at once. What is acknowledged with acks=all is with every member of the ISR, "
        "and only those are elected.",
        11.0,
        _trial("min.insync.replicas=1", KILLS, Shows.NO_LOSS),
        _trial("min.insync.replicas=2", KILLS, Shows.NO_LOSS),
    ),
    _loss(
        "power-cut",
        "All brokers lose their power at once. What was acknowledged out of the page cache of each of them is gone; what every member "
        "of the ISR had flushed before the acknowledgement is not.",
        8.0,
        _trial("flush=page-cache", POWER_CUT, Shows.LOSS),
        _trial("flush=before-ack", POWER_CUT, Shows.NO_LOSS),
    ),
    _loss(
        "last-stopped-damaged",
        "All brokers are stopped in turn, which leaves the last one alone in the ISR, and a bit of its log flips. Without eligible leader "
        "replicas it leads with what is left, and the others forget what they have. With them the others are asked first.",
        14.0,
        *_eligible_or_not(LAST_STOPPED_DAMAGED),
    ),
    _loss(
        "all-killed-copy-gone",
        "All brokers are killed at once, so that their sessions end together, and the partition's directory is gone from one disk. Without "
        "eligible leader replicas the ISR shrinks to any one of them, and that may be the empty one. With them the others are asked first.",
        14.0,
        *_eligible_or_not(ALL_KILLED_COPY_GONE),
    ),
    _loss(
        "kafka-zone-down",
        "The power of the zone in which the leader stands fails. Where each replica stands in another zone, a replica of another zone leads. "
        "Where all stand in one, nothing is acknowledged until it is back, and what no flush had secured is gone.",
        13.0,
        _in_zones("zones=3", ZonePlan.of("3"), Shows.ZONE_SURVIVED),
        _in_zones("placement=together", TOGETHER, Shows.LOST_WITH_ZONE),
        _in_zones("placement=together, flush=before-ack", TOGETHER, Shows.STOPS_WITH_ZONE, "flush=before-ack"),
    ),
    NamedScenario(
        name="offsets-topic-one-replica",
        story=(
            "The broker that leads the offsets topic is killed. Where that topic has one replica every group stands still until the "
            "broker is back, although all data can be read; with three another broker takes the groups over."
        ),
        workload=GROUPS_WORKLOAD,
        duration_s=16.0,
        trials=tuple(
            Trial(
                name=f"offsets.topic.replication.factor={factor}",
                settings=("offsets.topic.num.partitions=1", f"offsets.topic.replication.factor={factor}"),
                faults=(Fault(1, "kill", Target.LEADER, at_s=4.0, hold_s=8.0, seed=1, scope=OFFSETS_TOPIC),),
                shows=shows,
            )
            for factor, shows in ((1, Shows.GROUPS_STALL), (3, Shows.GROUPS_GO_ON))
        ),
    ),
)
