"""The promises of RocketMQ's three ways to replicate under every fault: allowed losses, and recovery of a broker group.

The table contains what the protocol promises, not what usually happens. These settings decide:

- `async-slave`: acknowledged when the master has it; slaves follow. `sync-slave`: when a slave has it, too; with no
  slave near, the answer (10, 11 or 12) promises no more than `async-slave`. Roles never change: while the master is
  away, nothing is written to its queues, and it comes back with all that its disk has.
- `raft`: acknowledged when a majority has it; the group elects another master.
- `flushDiskType` of a master with slaves, `ack` of a raft group: they decide whether its copies count once they are
  flushed. If not, a power cut takes what the operating system had not written.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from jepsen_like.checker.allowance import Allowance
from jepsen_like.history.ops import NEVER, NONE
from jepsen_like.nemesis.contents import CONTENT_KINDS
from jepsen_like.nemesis.kind import Reach
from jepsen_like.port.port import FaultSeen
from jepsen_like.systems.losses import describe_losses, harms_of
from jepsen_like.systems.rocketmq.division import Division


class RocketReplication(enum.StrEnum):
    """The ways to replicate, as `--replication` names them."""

    ASYNC_SLAVE = "async-slave"
    SYNC_SLAVE = "sync-slave"
    RAFT = "raft"


class CopyLoss(enum.IntEnum):
    """Which acknowledged records a fault may cost."""

    NOTHING = 0
    HELD_ALONE = 1
    UNCOPIED = 2
    UNCOMPARED = 3
    UNFLUSHED = 4

    def __str__(self) -> str:
        return _WORDS[self]


_WORDS: Final[Mapping[CopyLoss, str]] = {
    CopyLoss.NOTHING: "nothing",
    CopyLoss.HELD_ALONE: "what the master whose disk was touched had acknowledged and no slave had copied",
    CopyLoss.UNCOPIED: "what the slave that was promoted had not copied",
    CopyLoss.UNCOMPARED: "what a master with an empty disk acknowledged because its slaves reported more than it had",
    CopyLoss.UNFLUSHED: "what no flush had secured on the master",
}
_BACK: Final = "once the master is back; in a raft group after an election"
_REACHED: Final = "once the master is reached again; in a raft group after an election, where a majority is together"
_COMPARED: Final = "once the master has copied back what its slaves hold; in a raft group once a majority is back"
_SLOWLY: Final = "all the time, slowly"
SERVES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("kill", "pause", "restart"), _BACK),
    **dict.fromkeys(("partition", "zone-cut"), _REACHED),
    "flapping": "now and then; for good with the last cut",
    **dict.fromkeys(("slow", "throttle", "zone-slow"), _SLOWLY),
    "half-open": _REACHED,
    "reset": "after new connections; in a raft group after an election at most",
    **dict.fromkeys(("loss", "duplicate", "reorder", "corrupt"), _SLOWLY),
    **dict.fromkeys(("power", "zone-down"), _BACK),
    "promote-by-hand": "once an operator has let a slave lead",
    "wipe-master": "once it has copied back what its slaves have, or an operator has let one lead; with haDivergence=rocketmq at once, without "
    "what was there",
    **dict.fromkeys(("damage", "vanish"), _COMPARED),
    "disk-slow": "throughout; a broker whose flushes hang serves as fast as they end",
    "disk-short": "throughout: a write that was cut short is continued",
    "rotate": "throughout: new connections prove themselves by the new keys, and open ones go on",
}
"""The time at which records are taken again, by kind of fault; a missing kind cannot be injected here."""
UNFLUSHED_HARMS: Final = harms_of(Reach.UNFLUSHED, SERVES)

WIPES_MASTER: Final = "wipe-master"
DISK_HARMS: Final = harms_of(Reach.DISK, SERVES)
COPIED_EVERY_S: Final = 10.0
"""A slave copies its master's positions of groups this often."""
COMMITTED_EVERY_S: Final = 5.0
"""Clients commit this often, and brokers write the commits this often."""
CLIENT_LEASE_S: Final = 60.0
"""So long a client may believe in locks that its master has forgotten: 30 s since it asked, and the request."""


@attrs.frozen
class CopyRule:
    """The settings that decide about losses."""

    replication: RocketReplication
    is_durable: bool
    """True if a copy counts once it is flushed."""
    compares: bool = True
    """True if a slave that holds what its master lacks is refused."""

    def may_lose(self, harm: str) -> CopyLoss:
        """By kind of fault. Raises `KeyError` for one that is not done to this system."""
        SERVES[harm]
        if harm in CONTENT_KINDS and self.replication is not RocketReplication.RAFT and not self.compares:
            return CopyLoss.UNCOMPARED
        if harm in CONTENT_KINDS:
            is_alone = self.replication is RocketReplication.ASYNC_SLAVE
            return CopyLoss.HELD_ALONE if is_alone else CopyLoss.NOTHING
        if harm in DISK_HARMS and self.replication is RocketReplication.ASYNC_SLAVE:
            return CopyLoss.UNCOPIED
        if harm == WIPES_MASTER and not self.compares:
            return CopyLoss.UNCOMPARED
        return CopyLoss.UNFLUSHED if harm in UNFLUSHED_HARMS and not self.is_durable else CopyLoss.NOTHING

    def setting(self, loss: CopyLoss) -> str:
        """Returns the name of the setting that allows a loss."""
        if loss in (CopyLoss.UNCOPIED, CopyLoss.HELD_ALONE):
            return "brokerRole=ASYNC_MASTER"
        if loss is CopyLoss.UNCOMPARED:
            return "haDivergence=rocketmq"
        if self.replication is RocketReplication.RAFT:
            return f"ack={'durable' if self.is_durable else 'page-cache'}"
        return f"flushDiskType={'SYNC_FLUSH' if self.is_durable else 'ASYNC_FLUSH'}"


def describe(rule: CopyRule, harms: Iterable[str]) -> str:
    """The promise of a run in one sentence."""
    return describe_losses({harm: rule.may_lose(harm) for harm in harms})


def losses_allowed(faults: Iterable[FaultSeen], rule: CopyRule, groups: Division, queues: int) -> tuple[Allowance, ...]:
    """The faults that may have cost acknowledged records of the groups they hit, of so many `queues` each.

    In a raft group a power cut of less than a majority costs nothing. Readers of a master that was wiped find nothing,
    also where nothing is lost.

    A power cut may take more from a master than from its slaves. Until one of those connects and shows it, an
    asynchronous master goes on behind another beginning than theirs; an operator who lets a slave lead then drops what
    it acknowledged since the cut, wherever that lay.
    """
    is_raft = rule.replication is RocketReplication.RAFT
    enough = groups.size // 2 + 1 if is_raft else 1
    found = []
    forked_ns = NEVER
    for fault in sorted(faults, key=lambda fault: fault.begun_ns):
        loss = rule.may_lose(fault.kind)
        is_touched = fault.kind in CONTENT_KINDS
        brokers = [node for node in (fault.harmed if is_touched else fault.nodes) if node <= groups.nodes]
        hit = Counter(map(groups.number_of, brokers))
        objects = {obj for number in hit if hit[number] >= enough for obj in groups.objects(number, queues)}
        is_wiped = fault.kind == WIPES_MASTER or (is_touched and loss is CopyLoss.UNCOMPARED)
        if fault.kind in UNFLUSHED_HARMS and not rule.is_durable:
            forked_ns = min(forked_ns, fault.begun_ns)
        is_forked = loss is CopyLoss.UNCOPIED and forked_ns < fault.begun_ns
        if (loss is not CopyLoss.NOTHING or is_wiped) and objects:
            found.append(
                Allowance(
                    fault=fault.id,
                    kind=fault.kind,
                    promise=f"{rule.replication}, {rule.setting(loss)}: {loss} may be lost",
                    # When a fault that touches a disk begins, the others hold everything.
                    since_ns=fault.begun_ns if loss is CopyLoss.HELD_ALONE else -NEVER,
                    begun_ns=forked_ns if is_forked else fault.injected_ns if is_touched else fault.begun_ns,
                    injected_ns=max(fault.injected_ns, fault.ended_ns),
                    objects=frozenset(objects),
                    may_cost_read=True,
                    may_cost_commits=True,
                    may_cost_records=loss is not CopyLoss.NOTHING,
                    other_log=is_wiped or is_forked,
                )
            )
    return tuple(found)


def groups_disturbed(
    faults: Iterable[FaultSeen], rule: CopyRule, groups: Division, queues: int
) -> tuple[Allowance, ...]:
    """Returns the allowances for groups: positions are written and copied now and then, locks are in memory alone."""
    is_raft = rule.replication is RocketReplication.RAFT
    promise = "locks of queues are in a master's memory" + (
        "" if is_raft else f", and positions are written every 5 s and copied every {COPIED_EVERY_S:g} s"
    )
    return tuple(
        Allowance(
            fault=fault.id,
            kind=fault.kind,
            promise=promise,
            since_ns=-NEVER,
            begun_ns=fault.begun_ns,
            injected_ns=max(fault.injected_ns, fault.ended_ns),
            objects=frozenset(obj for node in fault.nodes for obj in groups.objects(groups.number_of(node), queues))
            or None,
            may_cost_records=False,
            rewinds_ns=NONE if is_raft else round((COPIED_EVERY_S + COMMITTED_EVERY_S) * 1e9),
            unlocks_ns=round(CLIENT_LEASE_S * 1e9),
        )
        for fault in faults
    )
