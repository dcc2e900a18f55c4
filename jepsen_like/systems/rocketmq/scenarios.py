"""The scenarios of RocketMQ's system: the cost and the benefit of each way to replicate, under the same faults."""

from typing import Final

from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.targets import Target
from jepsen_like.port.scenario import NamedScenario, Shows, Trial
from jepsen_like.systems.rocketmq.promises import RocketReplication

KILLED: Final = (
    Fault(1, "kill", Target.LEADER, at_s=2.0, hold_s=1.5, seed=1),
    Fault(2, "kill", Target.ALL, at_s=5.0, hold_s=1.0, seed=2),
)
LOST_BEHIND_A_CUT: Final = (
    Fault(1, "partition", Target.LEADER, at_s=2.0, hold_s=1.2, seed=5),
    Fault(2, "promote-by-hand", Target.LEADER, at_s=2.8, hold_s=1.0, seed=2, overlaps=1),
)
"""The slaves are cut off, and the master is lost before they are back."""
POWER_OF_MASTER: Final = (Fault(1, "power", Target.LEADER, at_s=3.0, hold_s=1.0, seed=1),)
ONE_OF_TWO_KILLED: Final = (Fault(1, "kill", Target.LEADER, at_s=3.0, hold_s=3.0, seed=1, scope="broker-a"),)
ONE_THEN_TWO_KILLED: Final = (
    Fault(1, "kill", Target.LEADER, at_s=2.0, hold_s=3.0, seed=1),
    Fault(2, "kill", Target.MAJORITY, at_s=8.0, hold_s=3.0, seed=2),
)
WIPED_BEHIND_A_CUT: Final = (
    Fault(1, "partition", Target.LEADER, at_s=3.0, hold_s=3.0, seed=5),
    Fault(2, "wipe-master", Target.LEADER, at_s=5.7, hold_s=1.5, seed=2, overlaps=1),
)
"""The slaves are cut off for long enough to give up their connections, with what is on its way, and come back to an
empty master.
"""
WIPED: Final = (Fault(1, "wipe-master", Target.LEADER, at_s=7.0, hold_s=1.0, seed=2),)
"""The new log of the master stays shorter than those of its slaves."""
MASTER_DAMAGED: Final = (Fault(1, "damage", Target.ALL, at_s=3.0, hold_s=1.0, seed=423),)
"""SIGTERM to one after the other, to the first broker last; a bit of its newest segment flips; they are started in the
same order.
"""
COMMIT_LOG_GONE: Final = (Fault(1, "vanish", Target.ALL, at_s=3.0, hold_s=1.0, seed=33),)
"""SIGKILL to all at once; the commit log of the first broker is gone; all are started at once."""
MASTER_DOWN: Final = (Fault(1, "kill", Target.LEADER, at_s=8.0, hold_s=45.0, seed=1),)
"""The C++ client reads routes every 30 s; so it has read them for sure in the second half of this time."""
ONE_OF_TWO_DOWN: Final = (Fault(1, "kill", Target.LEADER, at_s=5.0, hold_s=35.0, seed=1),)
"""The C++ client reads routes some 30 s and 60 s after its start: while the master is away, and after it is back."""
OURS: Final = ("client=own",)
"""A client that notices at once what has become of a master: what brokers keep does not depend on it."""
PAIRS: Final = (RocketReplication.ASYNC_SLAVE, RocketReplication.SYNC_SLAVE)
SAFE: Final = (RocketReplication.SYNC_SLAVE, RocketReplication.RAFT)

SCENARIOS: Final = (
    NamedScenario(
        name="master-killed",
        story=(
            "The master is killed with SIGKILL, then all brokers at once. With given roles its queues take nothing while it is away; then it "
            "has all that it had acknowledged, since the operating system kept what was written. A raft group elects another master."
        ),
        workload="log",
        duration_s=8.0,
        trials=tuple(
            Trial(name=each.value, replication=each.value, settings=OURS, faults=KILLED, shows=Shows.NO_LOSS)
            for each in RocketReplication
        ),
    ),
    NamedScenario(
        name="master-lost",
        story=(
            "The slaves lag behind a cut when the master is lost with its disk, and an operator promotes the slave that holds the most. "
            "An asynchronous master had acknowledged what no slave has; a synchronous one had not."
        ),
        workload="log",
        duration_s=9.0,
        trials=tuple(
            Trial(name=each.value, replication=each.value, settings=OURS, faults=LOST_BEHIND_A_CUT, shows=shows)
            for each, shows in zip(PAIRS, (Shows.LOSS, Shows.NO_LOSS), strict=True)
        ),
    ),
    NamedScenario(
        name="master-lost-its-tail",
        story=(
            "A power cut takes from the master what it had not flushed, although its slaves have it. RocketMQ's master goes on behind other "
            "bytes than theirs, and what it had acknowledged is gone. Ours takes nothing until it has copied back what its slaves have."
        ),
        workload="log",
        duration_s=11.0,
        trials=(
            Trial(
                name="haDivergence=rocketmq",
                replication=RocketReplication.SYNC_SLAVE,
                settings=(*OURS, "haDivergence=rocketmq"),
                faults=POWER_OF_MASTER,
                shows=Shows.LOSS,
            ),
            Trial(
                name="haDivergence=refuse",
                replication=RocketReplication.SYNC_SLAVE,
                settings=(*OURS, "haDivergence=refuse"),
                faults=POWER_OF_MASTER,
                shows=Shows.NO_LOSS,
            ),
        ),
    ),
    NamedScenario(
        name="pair-killed",
        story=(
            "Two pairs of brokers, and producers whose topic lies on both. The master of one is killed with SIGKILL and started again. Its queues "
            "take nothing meanwhile; the producers send to the other pair, and come back."
        ),
        workload="log",
        duration_s=9.0,
        nodes=4,
        trials=tuple(
            Trial(
                name=each.value,
                replication=each.value,
                settings=(*OURS, "pairs=2"),
                faults=ONE_OF_TWO_KILLED,
                shows=Shows.SCOPE_STOPS_ALONE,
            )
            for each in PAIRS
        ),
    ),
    NamedScenario(
        name="group-loses-two",
        story=(
            "A raft group of three, as DLedger's. With its master dead the other two elect one and go on. With two dead nothing is acknowledged "
            "until one of them is back, and nothing is lost."
        ),
        workload="log",
        duration_s=14.0,
        trials=(
            Trial(
                name=RocketReplication.RAFT.value,
                replication=RocketReplication.RAFT,
                settings=OURS,
                faults=ONE_THEN_TWO_KILLED,
                shows=Shows.MAJORITY_COUNTS,
            ),
        ),
    ),
    NamedScenario(
        name="master-wiped",
        story=(
            "The master loses its disk and is started again, empty, as an automatic restart does. Ours takes nothing until it has copied back what "
            "its slaves hold, or an operator promotes one. An asynchronous master had acknowledged what no slave has; a synchronous one had not. "
            "RocketMQ's answers SEND_OK, since its slaves report more than it has, for what none of them has."
        ),
        workload="log",
        duration_s=11.0,
        trials=(
            *(
                Trial(name=each.value, replication=each.value, settings=OURS, faults=WIPED_BEHIND_A_CUT, shows=shows)
                for each, shows in zip(PAIRS, (Shows.LOSS, Shows.NO_LOSS), strict=True)
            ),
            Trial(
                name="sync-slave, haDivergence=rocketmq",
                replication=RocketReplication.SYNC_SLAVE,
                settings=(*OURS, "haDivergence=rocketmq"),
                faults=WIPED,
                shows=Shows.LOSS,
            ),
        ),
    ),
    NamedScenario(
        name="master-damaged",
        story=(
            "All brokers are stopped in turn, the first one last, and a bit of its commit log flips. A master cuts the log before the damage, and takes "
            "nothing until it has copied back what its slaves hold. A raft group elects another master, and the log is repaired from that."
        ),
        workload="log",
        duration_s=12.0,
        trials=tuple(
            Trial(name=each.value, replication=each.value, settings=OURS, faults=MASTER_DAMAGED, shows=Shows.NO_LOSS)
            for each in SAFE
        ),
    ),
    NamedScenario(
        name="all-killed-commit-log-gone",
        story=(
            "All brokers are killed at once, and the commit log of the first one, the master of a pair, is gone. Ours copies back what its slaves hold "
            "before it takes anything. RocketMQ's begins at 0 again, and what it had acknowledged is gone."
        ),
        workload="log",
        duration_s=12.0,
        trials=(
            *(
                Trial(
                    name=each.value, replication=each.value, settings=OURS, faults=COMMIT_LOG_GONE, shows=Shows.NO_LOSS
                )
                for each in SAFE
            ),
            Trial(
                name="sync-slave, haDivergence=rocketmq",
                replication=RocketReplication.SYNC_SLAVE,
                settings=(*OURS, "haDivergence=rocketmq"),
                faults=COMMIT_LOG_GONE,
                shows=Shows.LOSS,
            ),
        ),
    ),
    NamedScenario(
        name="consumers-move-to-slave",
        story=(
            "The master is killed for half a minute and more, while its consumers have not consumed all. Concurrent ones go on with what the "
            "slave has, once their client has read the route again. Ordered ones need locks, which only a master gives, and wait."
        ),
        workload="group",
        duration_s=60.0,
        nodes=2,
        rate=300.0,
        trials=tuple(
            Trial(
                name=name,
                replication=RocketReplication.ASYNC_SLAVE,
                workload=workload,
                settings=(f"consume_ms={consume_ms}",),
                faults=MASTER_DOWN,
                shows=shows,
            )
            for name, workload, consume_ms, shows in (
                ("concurrent", "group", 60, Shows.CONSUMERS_GO_ON),
                ("ordered", "order", 15, Shows.CONSUMERS_WAIT),
            )
        ),
    ),
    NamedScenario(
        name="order-or-availability",
        story=(
            "One of two masters is killed. With pinned queues the keys of its queues wait until it is back, and keep their order. Without, they "
            "go to the queues of the other master, and back when it is there again, where they overtake what waits behind them."
        ),
        workload="order",
        duration_s=78.0,
        nodes=4,
        rate=200.0,
        trials=tuple(
            Trial(
                name=f"order={order}",
                replication=RocketReplication.ASYNC_SLAVE,
                settings=(f"order={order}", "pairs=2", "consume_ms=30"),
                faults=ONE_OF_TWO_DOWN,
                shows=shows,
            )
            for order, shows in (
                ("pinned", Shows.WRITES_WAIT_IN_ORDER),
                ("rehashed", Shows.WRITES_GO_ON_OUT_OF_ORDER),
            )
        ),
    ),
)
