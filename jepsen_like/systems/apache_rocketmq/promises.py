"""The promises of Apache RocketMQ by its settings, after its own documentation: the rows of `PROMISES` name the source.

A run is held to these. A loss that a row allows is reported and attributed, and any other loss is a finding. What is not
in a row is promised: that a synchronous flush keeps everything, and a synchronous copy what a slave has.
"""

import enum
from typing import Final

import attrs

from jepsen_like.systems.rocketmq.promises import UNFLUSHED_HARMS, CopyLoss, CopyRule


class ApacheReplication(enum.StrEnum):
    """The ways to replicate, as `--replication` names them."""

    DLEDGER = "dledger"
    SYNC_SLAVE = "sync-slave"
    ASYNC_SLAVE = "async-slave"
    CONTROLLER = "controller"


GIVEN_ROLES: Final = (ApacheReplication.SYNC_SLAVE, ApacheReplication.ASYNC_SLAVE)


@attrs.frozen(kw_only=True)
class LossPromise:
    """One row: a loss that is allowed."""

    loss: CopyLoss
    groups: tuple[ApacheReplication, ...]
    """The ways to replicate of which it is true."""
    may_lose: str
    """In words."""
    source: str


_DOCS: Final = "github.com/apache/rocketmq, docs/en"
PROMISES: Final = (
    LossPromise(
        loss=CopyLoss.UNFLUSHED,
        groups=(ApacheReplication.DLEDGER,),
        may_lose="what a majority had in its page caches alone, once a majority has lost its power",
        source="github.com/openmessaging/dledger, DLedgerConfig: a thread flushes every 10 ms (flushFileInterval), and no acknowledgement "
        "waits for it; RocketMQ's DLedgerCommitLog does not read flushDiskType",
    ),
    LossPromise(
        loss=CopyLoss.UNFLUSHED,
        groups=GIVEN_ROLES,
        may_lose="what no flush had secured on the master, once that has lost its power",
        source=f"{_DOCS}/operation.md, 1.2: an asynchronous flush loses a little, a synchronous one nothing; Feature.md says the same",
    ),
    LossPromise(
        loss=CopyLoss.UNCOPIED,
        groups=GIVEN_ROLES,
        may_lose="what the slave that was promoted had not copied",
        source=f"{_DOCS}/operation.md, 1.3: a little may be lost with the master's disk; QuorumACK.md, Compatibility: with "
        "inSyncReplicas=1, its default, a synchronous master replicates asynchronously",
    ),
    LossPromise(
        loss=CopyLoss.UNFLUSHED,
        groups=(ApacheReplication.CONTROLLER,),
        may_lose="what page caches alone had, once the power of a broker has failed",
        source=f"{_DOCS}/controller/design.md, Replication protocol: a slave reports the end of its log, and that counts; no flush is part of it",
    ),
    LossPromise(
        loss=CopyLoss.UNCOPIED,
        groups=(ApacheReplication.CONTROLLER,),
        may_lose="what the next master had not copied",
        source=f"{_DOCS}/controller/deploy.md: allAckInSyncStateSet=true ensures that no message is lost, and is not the default; "
        "enableElectUncleanMaster=true may lose messages",
    ),
)
REWINDS: Final = (
    "apache-rocketmq: a master writes the positions of groups every 5 s, and the others copy them every 10 s, in a group that elects, too "
    "(https://github.com/apache/rocketmq/issues/7790)"
)
_AFTER_ELECTION: Final = "in a group that elects after an election, which takes some 10 s, where a majority is together"
_BACK: Final = f"once the master is back; {_AFTER_ELECTION}"
_SLOWLY: Final = "all the time, slowly; if heartbeats are late, after an election"
SERVES: Final = {
    **dict.fromkeys(("kill", "pause", "restart", "power", "zone-down", "half-open", "reset"), _BACK),
    **dict.fromkeys(("partition", "zone-cut"), f"once the master is reached again; {_AFTER_ELECTION}"),
    "flapping": "now and then; for good with the last cut: after an election at most",
    **dict.fromkeys(("slow", "zone-slow", "throttle", "loss", "duplicate", "reorder", "corrupt"), _SLOWLY),
    "disk-slow": "throughout; where a master flushes first, as slowly as it flushes",
    "promote-by-hand": "once an operator has let a slave lead",
}
"""The time at which messages are taken again, or that they always are, by kind of fault."""


def may_lose(loss: CopyLoss, replication: ApacheReplication) -> str:
    """Returns the loss that a row allows, in words. Raises `StopIteration` where no row does."""
    return next(row.may_lose for row in PROMISES if row.loss is loss and replication in row.groups)


@attrs.frozen(kw_only=True)
class ControllerRule(CopyRule):
    """The rule of a group whose master a controller chooses: any fault may bring another master, if it takes long enough."""

    waits_for_all: bool
    """True if an acknowledgement waits for all from which a master may be chosen."""

    def may_lose(self, harm: str) -> CopyLoss:
        """By kind of fault. Raises `KeyError` for one that is not done to this system."""
        SERVES[harm]
        if harm in UNFLUSHED_HARMS:
            return CopyLoss.UNFLUSHED
        return CopyLoss.NOTHING if self.waits_for_all else CopyLoss.UNCOPIED
