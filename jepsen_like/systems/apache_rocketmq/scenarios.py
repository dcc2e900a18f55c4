"""The scenarios of Apache RocketMQ: findings that others have published, each with what ends it."""

from typing import Final

from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.targets import Target
from jepsen_like.port.scenario import NamedScenario, Shows, Trial
from jepsen_like.systems.apache_rocketmq.mode import ALL_ACK, FLUSH, IN_SYNC, MIN_IN_SYNC, UNCLEAN, VERSION
from jepsen_like.systems.apache_rocketmq.promises import ApacheReplication
from jepsen_like.systems.rocketmq.client_settings import GROUP_WORKLOAD
from rocketmq_compat.config_keys import ASYNC_FLUSH, SYNC_FLUSH

POWER_OF_MASTER: Final = (Fault(1, "power", Target.LEADER, at_s=8.0, hold_s=1.0, seed=1),)
MASTER_CUT_OFF: Final = (Fault(1, "partition", Target.LEADER, at_s=6.0, hold_s=16.0, seed=2),)
"""The master and the controller next to it. By this seed clients reach it all the while, and another one is elected meanwhile."""
MASTER_GONE: Final = (Fault(1, "half-open", Target.LEADER, at_s=27.0, hold_s=17.0, seed=1),)
"""For brokers, controllers and clients. By then slaves have copied positions since they began to lag."""
MASTER_GONE_FOR_LONG: Final = (Fault(1, "half-open", Target.LEADER, at_s=20.0, hold_s=26.0, seed=1),)
PATIENT: Final = (f"{ALL_ACK}=true", "controllerHeartBeatTimeoutMills=15000")
"""No member is there before and after the election, for none stays so long. So the new master alone tells where the group was."""
SLOW_COPIES: Final = (f"{VERSION}=5.1.4", "haFlowControlEnable=true", "maxHaTransferByteInSecond=7000")
"""A slave copies a third of what clients send, so it leaves the SyncStateSet. Positions it copies every 12 s as always."""


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


def _with_controller(
    setting: str, faults: tuple[Fault, ...], shows: Shows, *others: str, unnamed: tuple[str, ...] = ()
) -> Trial:
    return Trial(
        name=", ".join((ApacheReplication.CONTROLLER.value, setting, *others)),
        replication=ApacheReplication.CONTROLLER.value,
        settings=(setting, *others, *unnamed),
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
        name="apache-rocketmq-isolated-master",
        story=(
            "A master is cut off from the other brokers and from their controllers, and clients still reach it. By default it acknowledges "
            "alone what the next master lacks. It does so, too, where all in the SyncStateSet must have a message: its own set is itself by "
            "then. Where two must be in the set, only messages that wait right then are lost. Where two copies are asked for, whatever the set is, nothing is."
        ),
        workload="log",
        duration_s=40.0,
        trials=(
            _with_controller(f"{ALL_ACK}=false", MASTER_CUT_OFF, Shows.LOSS),
            _with_controller(f"{ALL_ACK}=true", MASTER_CUT_OFF, Shows.BROKEN),
            _with_controller(f"{ALL_ACK}=true", MASTER_CUT_OFF, Shows.BROKEN, f"{MIN_IN_SYNC}=2"),
            _with_controller(f"{IN_SYNC}=2", MASTER_CUT_OFF, Shows.NO_LOSS),
        ),
    ),
    NamedScenario(
        name="apache-rocketmq-unclean-election",
        story=(
            "Slaves lag so far that the master is alone in its SyncStateSet, and it disappears. By an unclean election a slave leads, whose log ends "
            "before the group's position. What it lacks is lost, as the setting allows. What it takes next, up to that position, is passed over. "
            "Without that setting the group waits for its master."
        ),
        workload=GROUP_WORKLOAD,
        duration_s=46.0,
        rate=40.0,
        trials=(
            _with_controller(f"{UNCLEAN}=true", MASTER_GONE, Shows.BROKEN, unnamed=SLOW_COPIES),
            _with_controller(f"{UNCLEAN}=false", MASTER_GONE, Shows.NO_LOSS, unnamed=SLOW_COPIES),
        ),
    ),
    NamedScenario(
        name="apache-rocketmq-positions",
        story=(
            "The master disappears, and another one leads. In 5.5.0 slaves cannot read the positions of groups that their master sends, once one has "
            "pulled. So the group begins again at the beginning, and not where it was a few seconds ago."
        ),
        workload=GROUP_WORKLOAD,
        duration_s=49.0,
        rate=100.0,
        trials=(
            _with_controller(f"{VERSION}=5.5.0", MASTER_GONE_FOR_LONG, Shows.BROKEN, unnamed=PATIENT),
            _with_controller(f"{VERSION}=5.1.4", MASTER_GONE_FOR_LONG, Shows.NO_LOSS, unnamed=PATIENT),
        ),
    ),
)
