"""The scenarios of Apache Kafka: findings that others have published, each with the setting that ends it.

One partition holds all that is written, and faults hit its leader. docs/real.md names the source of each.
"""

from typing import Final

from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.targets import Target
from jepsen_like.port.scenario import NamedScenario, Shows, Trial
from jepsen_like.systems.apache_kafka.mode import FLUSH_MESSAGES
from jepsen_like.systems.kafka.control import TOPIC
from jepsen_like.systems.kafka.load import LOG_WORKLOAD
from jepsen_like.systems.kafka.processes import scope_of
from jepsen_like.systems.kafka.scenarios import ONE_PARTITION, TWO_COPIES, TWO_HOLDERS
from jepsen_like.systems.kafka.settings import ACKS, ALL, ELIGIBLE, UNCLEAN

PARTITION: Final = scope_of(TOPIC, 0)
DOWN_S: Final = 7.0
"""Longer than a session and an election: the other replica has led before the old leader is back."""


def _of_leader(number: int, kind: str, at_s: float, hold_s: float, *, overlaps: int = 0) -> Fault:
    """A fault of the partition's leader. By this seed clients reach a leader that is parted from the others."""
    return Fault(number, kind, Target.LEADER, at_s=at_s, hold_s=hold_s, seed=2, overlaps=overlaps, scope=PARTITION)


KILL_BEHIND_A_CUT: Final = (_of_leader(1, "partition", 4.0, 3.0), _of_leader(2, "kill", 5.5, DOWN_S, overlaps=1))
"""The leader is cut off, goes on serving clients, and dies before another one is elected."""
KILL_OF_THE_LAST: Final = (_of_leader(1, "shrink-isr", 4.0, 3.0), _of_leader(2, "kill", 7.0, DOWN_S, overlaps=1))
POWER_OF_THE_LAST: Final = (_of_leader(1, "shrink-isr", 4.0, 3.0), _of_leader(2, "power", 7.0, DOWN_S, overlaps=1))
"""The leader alone is in sync when it loses its power; the other replica is whole, and comes back first."""
POWER_OF_ALL: Final = (Fault(1, "power", Target.ALL, at_s=6.0, hold_s=1.0, seed=1),)


def _story(name: str, story: str, *trials: Trial) -> NamedScenario:
    return NamedScenario(name=name, story=story, workload=LOG_WORKLOAD, duration_s=20.0, trials=trials)


def _trial(setting: str, faults: tuple[Fault, ...], shows: Shows, *others: str) -> Trial:
    given = (setting,) if "=" in setting else ()
    return Trial(name=setting, settings=(ONE_PARTITION, *others, *given), faults=faults, shows=shows)


SCENARIOS: Final = (
    _story(
        "apache-acks1-leader-killed",
        "The leader is cut off from the other brokers, and killed. With acks=1 it has acknowledged alone what the next leader lacks. "
        "With acks=all and two replicas in sync that was never acknowledged.",
        _trial(f"{ACKS}=1", KILL_BEHIND_A_CUT, Shows.LOSS, TWO_HOLDERS),
        _trial(f"{ACKS}={ALL}", KILL_BEHIND_A_CUT, Shows.NO_LOSS, TWO_HOLDERS),
    ),
    _story(
        "apache-unclean-election",
        "The leader is the last replica in sync, and is killed. By an unclean election the replica that is behind leads, as Jepsen reported "
        "of 0.8, and what it lacks is gone. Without it the partition waits for its leader.",
        _trial(f"{UNCLEAN}=true", KILL_OF_THE_LAST, Shows.LOSS, *TWO_COPIES),
        _trial(f"{UNCLEAN}=false", KILL_OF_THE_LAST, Shows.NO_LOSS, *TWO_COPIES),
    ),
    _story(
        "apache-last-replica",
        "The leader is the last replica in sync, and loses its power. Before eligible leader replicas it alone may lead when it is back, with "
        "what was flushed, and the other replica forgets what it holds (KIP-966). With them the other one leads.",
        _trial(f"{ELIGIBLE}=0", POWER_OF_THE_LAST, Shows.LOSS, *TWO_COPIES, TWO_HOLDERS),
        _trial(f"{ELIGIBLE}=1", POWER_OF_THE_LAST, Shows.NO_LOSS, *TWO_COPIES, TWO_HOLDERS),
    ),
    _story(
        "apache-power-cut",
        "The power of all brokers fails at once. By default Kafka leaves flushes to the operating system, so what it had acknowledged is gone "
        "from every replica. Where each record is flushed when it is written, nothing is.",
        _trial("default flushes", POWER_OF_ALL, Shows.LOSS, TWO_HOLDERS),
        _trial(f"{FLUSH_MESSAGES}=1", POWER_OF_ALL, Shows.NO_LOSS, TWO_HOLDERS),
    ),
)
