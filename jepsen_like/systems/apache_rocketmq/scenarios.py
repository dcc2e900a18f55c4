"""The scenarios of Apache RocketMQ: findings that others have published, each with what ends it."""

from typing import Final

from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.targets import Target
from jepsen_like.port.scenario import NamedScenario, Shows, Trial
from jepsen_like.systems.apache_rocketmq.mode import FLUSH, IN_SYNC
from jepsen_like.systems.apache_rocketmq.promises import ApacheReplication
from rocketmq_compat.config_keys import ASYNC_FLUSH, SYNC_FLUSH

POWER_OF_MASTER: Final = (Fault(1, "power", Target.LEADER, at_s=8.0, hold_s=1.0, seed=1),)


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
)
