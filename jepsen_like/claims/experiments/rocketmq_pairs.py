"""RocketMQ's masters and slaves, whose roles are given: what a pair keeps, and when it serves, as its members fail."""

from typing import Any, Final

from jepsen_like.claims.experiment import ClaimDesk, Experiment, aim, fault, plan_of
from jepsen_like.claims.judgement import Part, at_least, at_most, exactly, expect
from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.targets import Target
from jepsen_like.run.exercise import RunPlan
from jepsen_like.systems.rocketmq.promises import RocketReplication

ASYNC, SYNC, RAFT = RocketReplication.ASYNC_SLAVE, RocketReplication.SYNC_SLAVE, RocketReplication.RAFT
OURS: Final = "client=own"
"""A client that reads routes every second, so that an outage of seconds shows what brokers do."""
HOLD_S: Final = 2.5
KILLED: Final = (fault(1, "kill", 1.5, HOLD_S),)
POWERLESS: Final = (fault(1, "power", 2.0, 1.0, Target.ALL),)
POWER_OF_MASTER: Final = (fault(1, "power", 2.0, 1.0),)
LOST: Final = (fault(1, "partition", 1.5, 8.0, seed=5), fault(2, "promote-by-hand", 2.3, 1.0, seed=2, overlaps=1))
"""The slaves are cut off, and the master is lost with its disk 0.8 s later; an operator lets one of them lead. The cut outlasts that: brokers
that start again answer no one, and a way to them would seem to be cut still."""
PEACE_S: Final = 1.5
"""The load goes on for so long after the last fault."""
FLUSHED_EVERY_S: Final = 0.5
"""`flushIntervalCommitLog`, by default."""


def pair(way: RocketReplication, *settings: str, faults: tuple[Fault, ...] = (), **changes: Any) -> RunPlan:
    """The plan of a master with one slave, or of what `changes` ask for."""
    ends_s = max((each.at_s + each.hold_s for each in faults), default=4.0)
    changes = {"nodes": 2, "duration_s": ends_s + PEACE_S, **changes}
    return plan_of("rocketmq", OURS, *settings, faults=faults, replication=way.value, **changes)


def lose_masters(desk: ClaimDesk) -> None:
    """One pair: its master is killed, without power, or lost with its disk."""
    for way in (ASYNC, SYNC):
        name = "async" if way is ASYNC else "sync"
        killed = desk.run(f"{way.value} pair, master killed", pair(way, faults=KILLED))
        desk.measure(f"{name}_serves_without_master", killed.serves_during(), "", killed)
        desk.measure(f"{name}_rto_after_kill_s", killed.rto_s(), "s", killed)
        desk.measure(f"{name}_lost_by_kill", killed.lost, "records", killed)
        powerless = desk.run(f"{way.value} pair, both without power", pair(way, faults=POWERLESS))
        desk.measure(f"{name}_lost_by_power", powerless.lost, "records", powerless)
        desk.measure(f"{name}_power_reaches_back_s", powerless.results.rpo.s or 0.0, "s", powerless)
        lost = desk.run(f"{way.value} pair, master lost", pair(way, faults=LOST))
        desk.measure(f"{name}_lost_with_disk", lost.lost, "records", lost)
        desk.measure(f"{name}_disk_reaches_back_s", lost.results.rpo.s or 0.0, "s", lost)
    flushed = desk.run(
        "async pair, flushed, both without power", pair(ASYNC, "flushDiskType=SYNC_FLUSH", faults=POWERLESS)
    )
    desk.measure("flushed_lost_by_power", flushed.lost, "records", flushed)
    tail = desk.run(
        "sync pair, haDivergence=rocketmq, master without power",
        pair(SYNC, "haDivergence=rocketmq", faults=POWER_OF_MASTER),
    )
    desk.measure("sync_lost_by_power_of_master", tail.lost, "records", tail)
    compared = desk.run("sync pair, master without power", pair(SYNC, faults=POWER_OF_MASTER))
    desk.measure("compared_lost_by_power_of_master", compared.lost, "records", compared)


def freeze_slaves(desk: ClaimDesk) -> None:
    """One pair whose slave stands still for 4 s."""
    frozen = (aim(1, "pause", 1.0, 4.0, [2], 2),)
    for name, way, settings in (
        ("async", ASYNC, ()),
        ("sync_4x", SYNC, ()),
        ("sync_5x_defaults", SYNC, ("replicationFlavor=5.x",)),
    ):
        shown = desk.run(f"{name.replace('_', ' ')}, slave frozen", pair(way, *settings, faults=frozen, duration_s=6.0))
        desk.measure(f"{name}_serves_with_frozen_slave", shown.serves_during(), "", shown)
        desk.measure(f"{name}_rto_with_frozen_slave_s", shown.rto_s(), "s", shown)


def count_copies(desk: ClaimDesk) -> None:
    """A master with two slaves waits for one, two or three copies, and members die."""
    one_slave, both = aim(1, "kill", 1.5, HOLD_S, [2], 3), aim(1, "kill", 1.5, HOLD_S, [2, 3], 3)
    of_five = ("replicationFlavor=5.x",)
    for copies, way, settings in (
        (1, ASYNC, ()),
        (2, SYNC, (*of_five, "inSyncReplicas=2")),
        (3, SYNC, (*of_five, "inSyncReplicas=3")),
    ):
        for dead, hit in ((1, one_slave), (2, both)):
            if copies == 3 and dead == 2:  # one death has stopped it already
                continue
            shown = desk.run(
                f"{copies} of 3 copies, {dead} slaves killed", pair(way, *settings, faults=(hit,), nodes=3)
            )
            desk.measure(f"served_waiting_for_{copies}_with_{dead}_dead", shown.serves_during(), "", shown)
            desk.measure(f"rto_waiting_for_{copies}_with_{dead}_dead_s", shown.rto_s(), "s", shown)
            desk.measure(f"lost_waiting_for_{copies}_with_{dead}_dead", shown.lost, "records", shown)
    for name, way in (("1", ASYNC), ("2", SYNC)):
        lost = desk.run(f"{name} of 3 copies, master lost", pair(way, faults=LOST, nodes=3))
        desk.measure(f"lost_waiting_for_{name}_with_master_lost", lost.lost, "records", lost)


EXPERIMENTS: Final = (
    Experiment(
        name="rocketmq-master-lost",
        story="The master of one pair is killed, loses its power, or is lost with its disk, behind a cut to its slave.",
        seconds=120,
        expects=(
            *(expect("C80 C83", f"{name}_serves_without_master", exactly(0)) for name in ("async", "sync")),
            *(expect("C80", f"{name}_rto_after_kill_s", at_least(HOLD_S)) for name in ("async", "sync")),
            *(expect("C80 C82", f"{name}_lost_by_kill", exactly(0)) for name in ("async", "sync")),
            expect("C79", "async_lost_by_kill", exactly(0)),
            expect("C43", "async_lost_with_disk", at_least(1)),
            expect(
                "C79",
                "async_lost_by_power",
                at_least(1),
                Part.EXCEPTION,
                condition="the master's cache and disk survive",
            ),
            expect(
                "C79",
                "async_lost_with_disk",
                at_least(1),
                Part.EXCEPTION,
                condition="the master's cache and disk survive",
            ),
            expect("C79", "async_power_reaches_back_s", at_most(3 * FLUSHED_EVERY_S)),
            expect("C79", "async_disk_reaches_back_s", part=Part.PRICE),
            expect("C69", "flushed_lost_by_power", exactly(0)),
            expect("C69", "sync_lost_with_disk", exactly(0)),
            expect(
                "C69",
                "sync_lost_by_power",
                at_least(1),
                Part.EXCEPTION,
                condition="copies are flushed before the acknowledgement",
            ),
            expect("C82", "compared_lost_by_power_of_master", exactly(0)),
            expect(
                "C82",
                "sync_lost_by_power_of_master",
                at_least(1),
                Part.EXCEPTION,
                condition="the master comes back with its whole log, or copies it back",
            ),
            expect(
                "C25",
                "async_rto_after_kill_s",
                at_least(HOLD_S),
                Part.EXCEPTION,
                condition="a leader is elected, with short timeouts",
            ),
        ),
        conduct=lose_masters,
    ),
    Experiment(
        name="rocketmq-frozen-slave",
        story="The slave of a pair stands still for 4 s, while clients send.",
        seconds=45,
        expects=(
            expect("C78", "async_serves_with_frozen_slave", exactly(1)),
            expect("C78", "sync_4x_rto_with_frozen_slave_s", at_least(3.0)),
            expect(
                "C78",
                "sync_5x_defaults_serves_with_frozen_slave",
                exactly(1),
                Part.EXCEPTION,
                condition="inSyncReplicas asks for two copies, as 4.x did",
            ),
        ),
        conduct=freeze_slaves,
    ),
    Experiment(
        name="rocketmq-copies",
        story="A master with two slaves waits for one, two or three copies; slaves are killed, and the master is lost with its disk.",
        seconds=100,
        expects=(
            expect("C75", "served_waiting_for_3_with_1_dead", exactly(0)),
            expect("C75", "rto_waiting_for_3_with_1_dead_s", at_least(HOLD_S)),
            expect("C75", "lost_waiting_for_3_with_1_dead", exactly(0)),
            expect("C76", "served_waiting_for_2_with_1_dead", exactly(1)),
            expect("C76", "served_waiting_for_2_with_2_dead", exactly(0)),
            expect("C76", "served_waiting_for_1_with_2_dead", exactly(1)),
            expect("C76", "lost_waiting_for_2_with_master_lost", exactly(0)),
            expect("C76", "lost_waiting_for_1_with_master_lost", at_least(1)),
        ),
        conduct=count_copies,
    ),
)
