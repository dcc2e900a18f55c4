"""Plans `quorumlog matrix`: every way to replicate under every fault, as a plan for each cell or the reason why there is none. Pure.

All rows keep three copies of each record and are given the same load and the same faults at the same times. A fault of its own shows little,
because followers that are near hold all that is acknowledged. So the followers are cut off from the leader first: for about a second, which no
replica in sync is given up for, or for as long as a leader needs to go on without them where its mode allows that.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import attrs

from jepsen_like.nemesis.kind import Here
from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.table import KINDS, kinds_named
from jepsen_like.nemesis.targets import Target
from jepsen_like.port.registry import system_named
from jepsen_like.run.exercise import RunPlan

RATE: Final = 400.0
"""Operations per second under faults, below what every mode takes, so that a record lost is a moment lost alike."""
CONCURRENCY: Final = 10
CALM: Final = "none"
"""The column without a fault, in which clients are as fast as they are answered."""
PEACE_S: Final = 4.0
"""The time by which the load of each cell is longer if it need not be quick."""
COPIES: Final = 3
BY_HAND: Final = "promote-by-hand"
SEED_OF_FAULTS: Final = 2
"""With it a leader that is cut off from its followers goes on serving clients."""
SEED_OF_DAMAGE: Final = 45
"""With it the bit flips in what is acknowledged."""


@attrs.frozen(kw_only=True)
class ModeRow:
    """A row: a way to replicate."""

    name: str
    system: str
    replication: str
    settings: tuple[str, ...]
    """`name=value`, as after `--set`."""
    waits: str
    """The event that an acknowledgement waits for, in words."""
    nodes: int = COPIES
    cuts_followers: str = "partition"
    """The kind of fault that keeps followers away for long."""
    loses_disk: str = "wipe"
    """The kind of fault that takes the leader's disk."""

    def plan(self, column: "Column", seed: int, *, quick: bool) -> RunPlan:
        """The run of a cell, whether it can be carried out here or not."""
        faults = column.faults(self)
        system = system_named(self.system)
        return RunPlan(
            system=self.system,
            replication=self.replication,
            nodes=COPIES if column.only_copies else self.nodes,
            duration_s=column.duration_s + (0.0 if quick else PEACE_S),
            rate=0.0 if column.name == CALM else RATE,
            concurrency=CONCURRENCY,
            kinds=tuple(dict.fromkeys(fault.kind for fault in faults)),
            workload=next(iter(system.workloads)),
            settings=self.settings,
            seed=seed,
            network=system.networks[0],
            planned=faults,
        )


@attrs.frozen(kw_only=True)
class Column:
    """A fault. `story` is one sentence: what is done, and what for."""

    name: str
    story: str
    duration_s: float
    faults: Callable[[ModeRow], tuple[Fault, ...]]
    only_copies: bool = False
    """True if each node has to have a copy, or the fault may miss."""


def _fault(number: int, kind: str, at_s: float, hold_s: float, target: Target = Target.LEADER) -> Fault:
    return Fault(number, kind, target, at_s=at_s, hold_s=hold_s, seed=SEED_OF_FAULTS, overlaps=number - 1)


def _followers_cut(way: ModeRow) -> Fault:
    # That kind first waits for the ISR to shrink, which takes as long.
    return _fault(1, way.cuts_followers, 1.0, 1.5 if way.cuts_followers == "shrink-isr" else 3.0)


def _powerless(way: ModeRow) -> tuple[Fault, ...]:
    cut = _fault(1, "power", 2.5, 1.0, Target.ALL)
    return (cut, Fault(2, BY_HAND, Target.LEADER, 5.5, 1.0, SEED_OF_FAULTS)) if way.loses_disk == BY_HAND else (cut,)


COLUMNS: Final = (
    Column(
        name=CALM,
        story="Nothing is broken, and ten clients send as fast as they are answered: what the mode itself costs.",
        duration_s=5.0,
        faults=lambda way: (),
    ),
    Column(
        name="kill",
        story=(
            "The leader is cut off from its followers, killed 0.9 s later, and started again after 2.5 s: what only the leader had is away "
            "when the next one begins."
        ),
        duration_s=7.0,
        faults=lambda way: (_fault(1, "partition", 1.5, 1.1), _fault(2, "kill", 2.4, 2.5)),
    ),
    Column(
        name="pause",
        story=(
            "The followers are cut off for 3 s (of Kafka's until the ISR is the leader alone); then whoever leads is paused for 4 s, and the "
            "followers come back before it does: a mode elects one that is behind, waits, or had stopped before."
        ),
        duration_s=9.5,
        faults=lambda way: (_followers_cut(way), _fault(2, "pause", 3.5, 4.0)),
    ),
    Column(
        name="partition",
        story=(
            "The leader is cut off from all others for 4 s, but not from the clients: they are served by it, by another leader, or by none; what "
            "it went on to acknowledge may be dropped when the cut ends."
        ),
        duration_s=8.0,
        faults=lambda way: (_fault(1, "partition", 1.5, 4.0),),
    ),
    Column(
        name="wipe",
        story=(
            "The followers are cut off as for the pause, and then the leader loses its disk: what it acknowledged alone is nowhere any more. "
            "Of RocketMQ's fixed roles an operator lets the slave lead that holds the most."
        ),
        duration_s=8.5,
        faults=lambda way: (_followers_cut(way), _fault(2, way.loses_disk, 3.5, 1.0)),
    ),
    Column(
        name="damage",
        story=(
            "All nodes are stopped in turn, a bit flips in the log of the one that stopped last, and all start again: a mode asks the others "
            "first, or begins with what the damaged log has left."
        ),
        duration_s=11.0,
        faults=lambda way: (Fault(1, "damage", Target.ALL, at_s=3.0, hold_s=1.0, seed=SEED_OF_DAMAGE),),
        only_copies=True,
    ),
    Column(
        name="power",
        story=(
            "All nodes lose their power at once for 1 s, and with it what no flush had secured; a cut of the leader alone would leave it to the "
            "others. Of RocketMQ's fixed roles an operator lets the slave lead that holds the most, since the master may have lost more than they."
        ),
        duration_s=8.0,
        faults=_powerless,
    ),
)
_ISR: Final = ("num.partitions=1", "replica.lag.time.max.ms=1000")
_ONE_QUEUE: Final = ("queues=1", "client=own")
"""Clients of our own see a new master at once; RocketMQ's look for it every 30 s, which would be all that a cell shows."""


_KAFKA: Final = (
    ("acks=1", "the memory of the leader", ("acks=1",)),
    ("acks=all min.insync=1", "the memory of the ISR, be it the leader alone", ("min.insync.replicas=1",)),
    ("acks=all min.insync=2", "the memory of the ISR, of two at least", ("min.insync.replicas=2",)),
    (
        "acks=all min.insync=2 no ELR",
        "the memory of the ISR, of two at least; without eligible leader replicas",
        ("min.insync.replicas=2", "eligible.leader.replicas.version=0"),
    ),
    (
        "acks=all unclean",
        "the memory of the ISR; a replica outside of it may lead",
        ("min.insync.replicas=1", "unclean.leader.election.enable=true"),
    ),
)
"""Each mode of Kafka: its name, the event that it waits for, and its settings."""


def _raft(name: str, waits: str, *settings: str) -> ModeRow:
    return ModeRow(name=name, system="raft", replication="raft", settings=settings, waits=waits)


def _kafka(system: str) -> Iterator[ModeRow]:
    """Our own brokers and Apache's have the same modes."""
    for name, waits, settings in _KAFKA:
        # Two of five brokers can be cut off, and the controllers of the others still are a majority.
        yield ModeRow(
            name=f"{system}, {name}",
            system=system,
            replication="isr",
            settings=(*_ISR, *settings),
            waits=waits,
            nodes=5,
            cuts_followers="shrink-isr",
        )


def _foreign(name: str, system: str, replication: str, waits: str, *settings: str, loses_disk: str = "wipe") -> ModeRow:
    return ModeRow(
        name=name, system=system, replication=replication, settings=settings, waits=waits, loses_disk=loses_disk
    )


def _rocketmq(name: str, replication: str, waits: str, *settings: str, loses_disk: str = BY_HAND) -> ModeRow:
    return ModeRow(
        name=name,
        system="rocketmq",
        replication=replication,
        settings=(*_ONE_QUEUE, *settings),
        waits=waits,
        loses_disk=loses_disk,
    )


OURS: Final = frozenset({"raft", "rocketmq", "kafka"})
"""The systems of a matrix for which none are named."""
WAYS: Final = (
    _raft("raft, before-ack", "the disks of a majority", "flush=before-ack"),
    _raft("raft, page cache", "the memory of a majority", "flush=none"),
    _rocketmq("rocketmq, async-slave", "async-slave", "the memory of the master"),
    _rocketmq("rocketmq, sync-slave", "sync-slave", "the memory of the master and of a slave"),
    _rocketmq("rocketmq, DLedger durable", "raft", "the disks of a majority", "ack=durable", loses_disk="wipe"),
    _rocketmq("rocketmq, DLedger page cache", "raft", "the memory of a majority", "ack=page-cache", loses_disk="wipe"),
    *_kafka("kafka"),
    *_kafka("apache-kafka"),
    _foreign(
        "apache-rocketmq, async-slave",
        "apache-rocketmq",
        "async-slave",
        "the memory of the master",
        "queues=1",
        loses_disk=BY_HAND,
    ),
    _foreign(
        "apache-rocketmq, sync-slave",
        "apache-rocketmq",
        "sync-slave",
        "the memory of the master and of a slave",
        *("queues=1", "inSyncReplicas=2"),
        loses_disk=BY_HAND,
    ),
    _foreign("apache-rocketmq, DLedger", "apache-rocketmq", "dledger", "the memory of a majority", "queues=1"),
    _foreign("nats, sync_interval=2m", "nats", "jetstream", "the memory of a majority", "sync_interval=2m"),
    _foreign("nats, sync_interval=always", "nats", "jetstream", "the disks of a majority", "sync_interval=always"),
    _foreign("etcd", "etcd", "raft", "the disks of a majority"),
    _foreign("zookeeper", "zookeeper", "zab", "the disks of a majority"),
    _foreign("rabbitmq, quorum", "rabbitmq", "queue", "the disks of a majority", "queue_type=quorum"),
    _foreign(
        "rabbitmq, mirrored", "rabbitmq", "queue", "the disks of all mirrors that are left", "queue_type=mirrored"
    ),
)


@attrs.frozen
class Cell:
    """One run of the matrix, or the `reason` why there is none."""

    way: ModeRow
    column: Column
    plan: RunPlan
    reason: str | None

    @property
    def words(self) -> str:
        """Which one it is."""
        return f"{self.way.name} · {self.column.name}"

    @property
    def place(self) -> tuple[str, str]:
        """Its row and its column."""
        return self.way.name, self.column.name

    @property
    def directory(self) -> str:
        """The name of its run directory, the same in every matrix."""
        row = "-".join(re.findall(r"[\w.=]+", self.way.name))
        return f"{row}-{self.column.name}"


def cells(names: frozenset[str], systems: frozenset[str], seed: int, *, quick: bool) -> Iterator[Cell]:
    """The cells whose row or column is named, row by row; with both named, those in which they meet.

    If no row is named, there are the rows of these systems; if no column is named, there are all.
    """
    ways = [way for way in WAYS if way.name in names] or [way for way in WAYS if way.system in systems]
    columns = [column for column in COLUMNS if column.name in names] or COLUMNS
    for way in ways:
        for column in columns:
            plan = way.plan(column, seed, quick=quick)
            yield Cell(way, column, plan, why_not(plan))


def why_not(plan: RunPlan) -> str | None:
    """Why this run cannot be carried out here, in one line; None if it can."""
    system, here = plan.of_system(), Here(plan.nodes, plan.network)
    refused: Mapping[str, str] = system.refused
    for kind in plan.kinds:
        if kind in refused:
            return f"{kind}: {refused[kind]}"
        if (lack := KINDS[kind].lacks(here)) is not None:
            return f"{kind}: {lack}"
    if (lack := system.lacking()) is not None:
        return lack
    return plan.mode().refusal(plan.model, plan.kinds)


def planned_s(of: Cell) -> float:
    """Returns how long a cell takes about, but for its check: the load, the start and the end of a cluster."""
    return 0.0 if of.reason else of.plan.duration_s + sum(kind.takes_down for kind in kinds_named(of.plan.kinds)) + 4.0
