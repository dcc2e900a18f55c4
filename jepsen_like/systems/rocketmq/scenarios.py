"""The scenarios of RocketMQ's system: the cost and the benefit of each way to replicate, under the same faults."""

from typing import Final

import attrs

from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.targets import Target
from jepsen_like.port.scenario import NamedScenario, Shows, Trial
from jepsen_like.port.zones import Placement, ZonePlan
from jepsen_like.systems.rocketmq.client_settings import LOG_WORKLOAD
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
"""The slaves are cut off until they give up connections and what is on its way; the master comes back empty."""
WIPED: Final = (Fault(1, "wipe-master", Target.LEADER, at_s=7.0, hold_s=1.0, seed=2),)
"""The new log of the master stays shorter than those of its slaves."""
MASTER_DAMAGED: Final = (Fault(1, "damage", Target.ALL, at_s=3.0, hold_s=1.0, seed=423),)
"""SIGTERM to each in turn, to the first last; a bit of its newest segment flips; they start in the same order."""
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


def _scenario(name: str, duration_s: float, story: str, *trials: Trial, nodes: int = 3) -> NamedScenario:
    return NamedScenario(
        name=name, story=story, workload=LOG_WORKLOAD, duration_s=duration_s, trials=trials, nodes=nodes
    )


def _trial(way: RocketReplication, faults: tuple[Fault, ...], shows: Shows, *settings: str) -> Trial:
    return Trial(name=way.value, replication=way.value, settings=(*OURS, *settings), faults=faults, shows=shows)


def _diverges(name: str, faults: tuple[Fault, ...], shows: Shows, divergence: str = "rocketmq") -> Trial:
    """A pair with this `haDivergence`."""
    setting = f"haDivergence={divergence}"
    return attrs.evolve(_trial(RocketReplication.SYNC_SLAVE, faults, shows, setting), name=f"{name}{setting}")


def _lags(faults: tuple[Fault, ...]) -> tuple[Trial, ...]:
    """An asynchronous master loses what slaves lacked; a synchronous one acknowledged nothing that they lacked."""
    return tuple(_trial(way, faults, shows) for way, shows in zip(PAIRS, (Shows.LOSS, Shows.NO_LOSS), strict=True))


def _in_zones(name: str, way: RocketReplication, nodes: int, zones: ZonePlan, shows: Shows) -> Trial:
    """The power of the zone in which the master stands fails."""
    fault = Fault(1, "zone-down", Target.LEADER, at_s=3.0, hold_s=6.0, seed=1)
    return attrs.evolve(_trial(way, (fault,), shows), name=f"{way.value}, {name}", nodes=nodes, zones=zones)


SCENARIOS: Final = (
    _scenario(
        "master-killed",
        8.0,
        "The master is killed with SIGKILL, then all brokers at once. With given roles its queues take nothing while it is away; then it "
        "has all that it had acknowledged, since the operating system kept what was written. A raft group elects another master.",
        *(_trial(way, KILLED, Shows.NO_LOSS) for way in RocketReplication),
    ),
    _scenario(
        "master-lost",
        9.0,
        "The slaves lag behind a cut when the master is lost with its disk, and an operator promotes the slave that holds the most. "
        "An asynchronous master had acknowledged what no slave has; a synchronous one had not.",
        *_lags(LOST_BEHIND_A_CUT),
    ),
    _scenario(
        "master-lost-its-tail",
        11.0,
        "A power cut takes from the master what it had not flushed, although its slaves have it. RocketMQ's master goes on behind other "
        "bytes than theirs, and what it had acknowledged is gone. Ours takes nothing until it has copied back what its slaves have.",
        _diverges("", POWER_OF_MASTER, Shows.LOSS),
        _diverges("", POWER_OF_MASTER, Shows.NO_LOSS, "refuse"),
    ),
    _scenario(
        "pair-killed",
        9.0,
        "Two pairs of brokers, and producers whose topic lies on both. The master of one is killed with SIGKILL and started again. Its queues "
        "take nothing meanwhile; the producers send to the other pair, and come back.",
        *(_trial(way, ONE_OF_TWO_KILLED, Shows.SCOPE_STOPS_ALONE, "pairs=2") for way in PAIRS),
        nodes=4,
    ),
    _scenario(
        "group-loses-two",
        14.0,
        "A raft group of three, as DLedger's. With its master dead the other two elect one and go on. With two dead nothing is acknowledged "
        "until one of them is back, and nothing is lost.",
        _trial(RocketReplication.RAFT, ONE_THEN_TWO_KILLED, Shows.MAJORITY_COUNTS),
    ),
    _scenario(
        "rocketmq-zone-down",
        13.0,
        "The power of the zone in which the master stands fails. A raft group in three zones elects a master in another one. A pair has no other "
        "master, wherever its slave stands: its queues wait for the zone. Where master and slave stand in one zone, what neither had flushed is "
        "gone with it.",
        _in_zones("zones=3", RocketReplication.RAFT, 3, ZonePlan.of("3"), Shows.ZONE_SURVIVED),
        _in_zones("zones=2", RocketReplication.SYNC_SLAVE, 2, ZonePlan.of("2"), Shows.STOPS_WITH_ZONE),
        _in_zones(
            "placement=together",
            RocketReplication.SYNC_SLAVE,
            2,
            ZonePlan.of("2", placement=Placement.TOGETHER),
            Shows.LOST_WITH_ZONE,
        ),
    ),
    _scenario(
        "master-wiped",
        11.0,
        "The master loses its disk and is started again, empty, as an automatic restart does. Ours takes nothing until it has copied back what "
        "its slaves hold, or an operator promotes one. An asynchronous master had acknowledged what no slave has; a synchronous one had not. "
        "RocketMQ's answers SEND_OK, since its slaves report more than it has, for what none of them has.",
        *_lags(WIPED_BEHIND_A_CUT),
        _diverges("sync-slave, ", WIPED, Shows.LOSS),
    ),
    _scenario(
        "master-damaged",
        12.0,
        "All brokers are stopped in turn, the first one last, and a bit of its commit log flips. A master cuts the log before the damage, and takes "
        "nothing until it has copied back what its slaves hold. A raft group elects another master, and the log is repaired from that.",
        *(_trial(way, MASTER_DAMAGED, Shows.NO_LOSS) for way in SAFE),
    ),
    _scenario(
        "all-killed-commit-log-gone",
        12.0,
        "All brokers are killed at once, and the commit log of the first one, the master of a pair, is gone. Ours copies back what its slaves hold "
        "before it takes anything. RocketMQ's begins at 0 again, and what it had acknowledged is gone.",
        *(_trial(way, COMMIT_LOG_GONE, Shows.NO_LOSS) for way in SAFE),
        _diverges("sync-slave, ", COMMIT_LOG_GONE, Shows.LOSS),
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
            for order, shows in (("pinned", Shows.WRITES_WAIT_IN_ORDER), ("rehashed", Shows.WRITES_GO_ON_OUT_OF_ORDER))
        ),
    ),
)
