"""The scenarios of Apache RocketMQ: findings that others have published, each with what ends it."""

from typing import Final

from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.targets import Target
from jepsen_like.port.scenario import NamedScenario, Shows, Trial
from jepsen_like.systems.apache_rocketmq.mode import FLUSH, IN_SYNC
from jepsen_like.systems.apache_rocketmq.promises import ApacheReplication
from rocketmq_compat.config_keys import ASYNC_FLUSH, SYNC_FLUSH

POWER_OF_MASTER: Final = (Fault(1, "power", Target.LEADER, at_s=8.0, hold_s=1.0, seed=1),)
LOST_BEHIND_A_CUT: Final = (
    Fault(1, "partition", Target.LEADER, at_s=6.0, hold_s=4.0, seed=5),
    Fault(2, "promote-by-hand", Target.LEADER, at_s=8.0, hold_s=1.0, seed=2, overlaps=1),
)
"""The slaves are cut off, and the master is lost before they are back."""
POWER_OF_ALL: Final = (
    Fault(1, "disk-slow", Target.ALL, at_s=4.0, hold_s=9.0, seed=95),
    Fault(2, "power", Target.ALL, at_s=10.0, hold_s=1.0, seed=1, overlaps=1),
)
"""Every flush takes two seconds longer."""


def _trial(
    replication: ApacheReplication, flush: str, faults: tuple[Fault, ...], shows: Shows, *settings: str
) -> Trial:
    words = (f"{FLUSH}={flush}", *settings)
    return Trial(
        name=f"{replication.value}, {words[0]}",
        replication=replication.value,
        settings=words,
        faults=faults,
        shows=shows,
    )


SCENARIOS: Final = (
    NamedScenario(
        name="apache-rocketmq-master-power",
        story=(
            "The power of a synchronous master fails, and two page caches had each message: its own, and a slave's. The master stays the "
            "master, so what it had not flushed is gone, although its slaves have it. Where it flushes first, nothing is lost."
        ),
        workload="log",
        duration_s=30.0,
        trials=(
            _trial(ApacheReplication.SYNC_SLAVE, ASYNC_FLUSH, POWER_OF_MASTER, Shows.LOSS, f"{IN_SYNC}=2"),
            _trial(ApacheReplication.SYNC_SLAVE, SYNC_FLUSH, POWER_OF_MASTER, Shows.NO_LOSS, f"{IN_SYNC}=2"),
        ),
    ),
    NamedScenario(
        name="apache-rocketmq-power-of-all",
        story=(
            "Disks flush slowly, and the power of all brokers fails at once. A DLedger group acknowledges what a majority has in its page "
            "caches, whatever flushDiskType says, and loses that. A synchronous master that flushes first loses nothing."
        ),
        workload="log",
        duration_s=40.0,
        trials=(
            _trial(ApacheReplication.DLEDGER, SYNC_FLUSH, POWER_OF_ALL, Shows.LOSS),
            _trial(ApacheReplication.SYNC_SLAVE, SYNC_FLUSH, POWER_OF_ALL, Shows.NO_LOSS, f"{IN_SYNC}=2"),
        ),
    ),
    NamedScenario(
        name="apache-rocketmq-double-write",
        story=(
            "The slaves lag behind a cut when the master is lost with its disk, and an operator promotes the one that holds the most. "
            "Release 5 has a synchronous master count copies, and by default one is enough: its own. So it has acknowledged what no slave "
            "has; with inSyncReplicas=2 it has not."
        ),
        workload="log",
        duration_s=40.0,
        trials=tuple(
            Trial(
                name=f"{IN_SYNC}={copies}",
                replication=ApacheReplication.SYNC_SLAVE.value,
                settings=(f"{IN_SYNC}={copies}",),
                faults=LOST_BEHIND_A_CUT,
                shows=shows,
            )
            for copies, shows in ((1, Shows.LOSS), (2, Shows.NO_LOSS))
        ),
    ),
)
