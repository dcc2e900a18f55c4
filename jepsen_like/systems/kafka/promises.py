"""The promises of Kafka's ISR replication, for every combination of settings and faults: allowed losses, and recovery.

The table contains what the protocol promises, not what usually happens. These settings decide:

- `acks`: 0 promises nothing; 1 is acknowledged when the leader has it; all when every member of the ISR has it.
- `min.insync.replicas`: with 1 the leader alone may be the whole ISR, so one lost disk may cost everything. With more
  an acknowledged record has as many holders. `wipe` waits until another holder is in the ISR in such a mode.
- `eligible.leader.replicas.version`: with 1 (KIP-966) a broker that finds its disk damaged, or data missing on it,
  leads only after the others were asked what they have. So a record stays as long as one sound disk has it, in
  whichever order brokers stop and start. With 0 the ISR may be a broker that has lost its disk, and all others truncate
  to its log.
- `unclean.leader.election.enable`: a replica out of the ISR may lead, and all others truncate to its log.
- `flush`: with page-cache a power cut takes from a replica what the operating system had not written.
"""

import enum
import itertools
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from jepsen_like.checker.allowance import Allowance
from jepsen_like.history.ops import NEVER
from jepsen_like.nemesis.contents import CONTENT_KINDS
from jepsen_like.nemesis.kind import Reach
from jepsen_like.port.port import FaultSeen
from jepsen_like.systems.kafka.settings import ELIGIBLE
from jepsen_like.systems.losses import describe_losses, harms_of
from kafka_compat.config_keys import BEFORE_ACK, PAGE_CACHE


class MayLose(enum.IntEnum):
    """Which acknowledged records a fault may cost; a greater one contains the smaller."""

    NOTHING = 0
    UNREPLICATED = 1
    HELD_ALONE = 2
    UNFLUSHED = 3
    OUT_OF_SYNC = 4
    EVERYTHING = 5

    def __str__(self) -> str:
        return _WORDS[self]


_WORDS: Final[Mapping[MayLose, str]] = {
    MayLose.NOTHING: "nothing",
    MayLose.UNREPLICATED: "what the leader had acknowledged and the next leader had not copied yet",
    MayLose.HELD_ALONE: "what the broker whose disk was touched had acknowledged without the others",
    MayLose.UNFLUSHED: "what no flush had secured on the last replica in sync",
    MayLose.OUT_OF_SYNC: "what a leader from outside of the ISR had not copied",
    MayLose.EVERYTHING: "all that the last replica in sync held",
}

_AFTER_ELECTION: Final = (
    "once the controller has moved the leaders to another member of the ISR; with a majority down, once it is back"
)
_AFTER_SESSION: Final = "after the session timeout and an election; with a majority stopped, once it is back"
_SLOWLY: Final = "all the time, slowly; a replica that is too late leaves the ISR"
_WHERE_TOGETHER: Final = (
    "where the controller's majority and a member of the ISR are together: after the session timeout; elsewhere not"
)
SERVES: Final[Mapping[str, str]] = {
    "kill": _AFTER_ELECTION,
    "pause": _AFTER_SESSION,
    "restart": _AFTER_ELECTION,
    **dict.fromkeys(("partition", "zone-cut"), _WHERE_TOGETHER),
    "flapping": "now and then; for good with the last cut: after an election at most",
    **dict.fromkeys(("slow", "throttle", "zone-slow"), _SLOWLY),
    "half-open": _AFTER_SESSION,
    "reset": "after new connections, or an election if the leader's session ends",
    **dict.fromkeys(("loss", "duplicate", "reorder", "corrupt"), _SLOWLY),
    **dict.fromkeys(("power", "zone-down"), _AFTER_ELECTION),
    "clock-jump": "throughout: nothing is decided by a wall clock",
    "clock-drift": "throughout, or after an election: timeouts are as long as their clocks say",
    "disk-slow": "throughout; a leader whose flushes hang serves as fast as they end",
    "disk-short": "throughout: a write that was cut short is continued",
    **dict.fromkeys(("damage", "vanish", "wipe"), _AFTER_ELECTION),
    "shrink-isr": "after the ISR has shrunk to the leader, where min.insync.replicas allows that; else once a follower is back",
    "rotate": "throughout: new connections prove themselves by the new keys, and open ones go on",
}
"""The time at which partitions are written again, by kind of fault; a missing kind cannot be injected here."""
LEADER_ACKS, ALL_ACKS, NO_ACKS = "1", "all", "0"
UNFLUSHED_HARMS: Final = harms_of(Reach.UNFLUSHED, SERVES)
DISK_HARMS: Final = harms_of(Reach.DISK, SERVES)
ISR_CHECKS: Final = 1.5
"""A replica leaves the ISR when it has been behind for the lag time, which is looked at every half of it."""
NOTICED_S: Final = 2.0
"""Replicas may believe an outdated state for this long after the end of a fault, beyond a session timeout."""


@attrs.frozen
class IsrRule:
    """The settings that decide about losses."""

    acks: str
    """As `settings.ACKS`: 0, 1 or all."""
    several: bool
    """True if `min.insync.replicas` is more than 1."""
    unclean: bool
    flush: str
    is_eligible: bool = True
    """True if eligible leader replicas are on."""
    flush_setting: str = attrs.field(default="", eq=False)
    """The setting behind `flush`, where the system has another one."""

    def named_for(self, loss: MayLose, harm: str = "") -> str:
        """The settings by name, last the one that allows such a loss to this kind of fault."""
        least = "min.insync.replicas>1" if self.several else "min.insync.replicas=1"
        if harm in CONTENT_KINDS and not self.is_eligible:
            return f"acks={self.acks}, {least}, {ELIGIBLE}=0"
        if loss is MayLose.HELD_ALONE:
            loss = MayLose.EVERYTHING
        words = {
            MayLose.UNFLUSHED: self.flush_setting or f"flush={self.flush}",
            MayLose.OUT_OF_SYNC: f"unclean.leader.election.enable={str(self.unclean).lower()}",
            MayLose.EVERYTHING: least,
            MayLose.UNREPLICATED: f"acks={self.acks}",
        }
        if loss is MayLose.EVERYTHING and self.acks != ALL_ACKS:
            loss = MayLose.UNREPLICATED
        return ", ".join([*(word for of, word in words.items() if of is not loss), words[loss]])


@attrs.frozen
class IsrPromise:
    """One row: a combination of settings under a fault that is undone in the end."""

    rule: IsrRule
    harm: str
    may_lose: MayLose
    serves: str


def _loss(rule: IsrRule, harm: str) -> MayLose:
    losses = [MayLose.NOTHING]
    if harm in CONTENT_KINDS:
        holds_alone = rule.acks != ALL_ACKS or not rule.several
        losses.append(MayLose.HELD_ALONE if holds_alone else MayLose.NOTHING)
        losses.append(MayLose.NOTHING if rule.is_eligible else MayLose.EVERYTHING)
    if rule.acks != ALL_ACKS:  # any fault may end a leadership, if only by making heartbeats late
        losses.append(MayLose.UNREPLICATED)
    if harm in UNFLUSHED_HARMS and rule.flush != BEFORE_ACK:
        losses.append(MayLose.UNFLUSHED)
    if rule.unclean:
        losses.append(MayLose.OUT_OF_SYNC)
    if harm in DISK_HARMS and not (rule.acks == ALL_ACKS and rule.several):
        losses.append(MayLose.EVERYTHING)
    return max(losses)


RULES: Final = tuple(
    IsrRule(acks, several, unclean, flush, is_eligible)
    for acks, several, unclean, flush, is_eligible in itertools.product(
        (NO_ACKS, LEADER_ACKS, ALL_ACKS), (False, True), (False, True), (PAGE_CACHE, BEFORE_ACK), (True, False)
    )
)
ISR_PROMISES: Final[Mapping[tuple[IsrRule, str], IsrPromise]] = {
    (rule, harm): IsrPromise(rule, harm, _loss(rule, harm), serves) for rule in RULES for harm, serves in SERVES.items()
}


def describe(rule: IsrRule, harms: Iterable[str]) -> str:
    """The promise of a run in one sentence."""
    if rule.acks == NO_ACKS:
        return "nothing: with acks=0 nothing is acknowledged"
    return describe_losses({harm: ISR_PROMISES[rule, harm].may_lose for harm in harms})


def losses_allowed(
    faults: Iterable[FaultSeen], rule: IsrRule, *, min_isr: int, lag_s: float, session_s: float
) -> tuple[Allowance, ...]:
    """The faults of a run that may have cost acknowledged records, and how far back each may reach.

    A power cut of fewer copies than `min_isr` costs nothing unless another fault had shrunk the ISR before.
    """
    seen = sorted(faults, key=lambda fault: fault.begun_ns)
    found = []
    for fault in seen:
        loss = ISR_PROMISES[rule, fault.kind].may_lose
        others = any(
            other is not fault and _ns(fault.begun_ns, -(lag_s + session_s)) < other.ended_ns and other.begun_ns < fault.ended_ns
            for other in seen
        )  # fmt: skip
        is_spared = (fault.copies or len(fault.nodes)) < (min_isr if rule.acks == ALL_ACKS else 1) and not others
        if loss is MayLose.NOTHING or (loss is MayLose.UNFLUSHED and is_spared):
            continue
        reaches_back = loss not in (MayLose.UNREPLICATED, MayLose.HELD_ALONE)
        lags_s = 0.0 if rule.acks == ALL_ACKS else ISR_CHECKS * lag_s + NOTICED_S
        found.append(
            Allowance(
                fault=fault.id,
                kind=fault.kind,
                promise=f"isr, {rule.named_for(loss, fault.kind)}: {loss} may be lost",
                # When a fault that touches a disk begins, the others hold all but what lags where the leader
                # acknowledges alone.
                since_ns=-NEVER if reaches_back else _ns(fault.begun_ns, -lags_s),
                # A disk is touched when all that are stopped before it have stopped; until then the log goes on.
                begun_ns=fault.injected_ns if fault.kind in CONTENT_KINDS else fault.begun_ns,
                # A leader that was cut off goes on acknowledging until it learns that another one was elected.
                injected_ns=_ns(max(fault.injected_ns, fault.ended_ns), session_s + NOTICED_S),
                # What consumers read is with every member of the ISR, and so are commits of groups.
                may_cost_read=loss is not MayLose.UNREPLICATED,
                may_cost_commits=loss is not MayLose.UNREPLICATED,
            )
        )
    return tuple(found)


def _ns(moment_ns: int, later_s: float) -> int:
    return moment_ns + round(later_s * 1e9)
