"""The promises of raft by flush policy and fault: the records it may lose, and the time until it serves.

A verdict is about the promise of the mode that ran: a loss that its row allows, and that a fault of the run explains,
is reported and attributed (`checker.forgiveness`); any other loss is a violation. The table contains what is promised,
not what usually happens.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from jepsen_like.checker.allowance import Allowance
from jepsen_like.history.ops import NEVER
from jepsen_like.nemesis.disks import SLOW_SYNCS_S, DiskSlow
from jepsen_like.nemesis.kind import Reach
from jepsen_like.nemesis.table import KINDS
from jepsen_like.port.port import FaultSeen
from log.policy import FlushPolicy


class Replication(enum.StrEnum):
    """The ways to make copies, as `--replication` names them."""

    RAFT = "raft"


class Loss(enum.StrEnum):
    """Which acknowledged records a fault may cost."""

    NOTHING = "nothing"
    UNFLUSHED_TAIL = "what a majority had not flushed yet"


@attrs.frozen
class Harm:
    """The harm to a cluster: its reach, and the time at which the group serves again, or that it still does, in words."""

    name: str
    reach: Reach
    serves: str


FLUSH_TAKES_S_MAX: Final = 1.0
"""The flush of an interval may take this long: until it has ended, its writes are not secured."""
POWER_CUT = "power-cut"
_AFTER_ELECTION: Final = "a minority: after an election; more: once a majority is back"
_AFTER_TIMEOUT: Final = "a minority: after an election timeout and an election; more: once a majority is back"
_SLOWLY: Final = "all the time, slowly; if a leader's heartbeats are late, after an election"
_WHERE_TOGETHER: Final = "where a majority is together: after an election timeout and an election; elsewhere not"
SERVES: Final[Mapping[str, str]] = {
    "kill": _AFTER_ELECTION,
    "pause": _AFTER_TIMEOUT,
    "restart": _AFTER_ELECTION,
    "partition": _WHERE_TOGETHER,
    "flapping": "now and then; for good with the last cut: after an election at most",
    **dict.fromkeys(("slow", "zone-slow"), "all the time, slowly"),
    "zone-cut": _WHERE_TOGETHER,
    "throttle": _SLOWLY,
    "half-open": _AFTER_TIMEOUT,
    "reset": "after a new connection, or an election if it is the leader's",
    **dict.fromkeys(("loss", "duplicate", "reorder", "corrupt"), _SLOWLY),
    **dict.fromkeys(("power", "zone-down"), _AFTER_ELECTION),
    "clock-jump": "throughout: nothing is decided by a wall clock",
    "clock-drift": "throughout, or after an election: timeouts are as long as their clocks say",
    "disk-slow": "throughout, as fast as the disks of a majority; after an election if the leader's hangs",
    "disk-short": "throughout: a write that was cut short is continued",
    "disk-full": "where a majority has room: after a handover; elsewhere it refuses until there is room",
    **dict.fromkeys(("disk-error", "damage", "vanish"), _AFTER_ELECTION),
    "rotate": "throughout: new connections prove themselves by the new keys, and open ones go on",
}
"""The time at which the group serves again, or that it never stops, by kind; a missing kind does not happen."""
HARMS: Mapping[str, Harm] = {
    **{kind.name: Harm(kind.name, kind.reach, SERVES[kind.name]) for kind in KINDS.values() if kind.name in SERVES},
    POWER_CUT: Harm(POWER_CUT, Reach.UNFLUSHED, _AFTER_ELECTION),
}
"""Every kind of fault of `run`, and the power cuts of `sim`."""


@attrs.frozen
class Promise:
    """One row: a mode under a fault that is undone in the end, however many nodes it hits."""

    replication: Replication
    flush: FlushPolicy
    harm: str
    may_lose: Loss
    serves: str
    """The time at which it serves again, or that it still does, in words."""


def _raft(flush: FlushPolicy, harm: Harm) -> Promise:
    # A killed process leaves its writes with the operating system, whole: few faults reach what no flush has secured.
    loses = harm.reach is not Reach.NOTHING and flush is not FlushPolicy.BEFORE_ACK
    return Promise(Replication.RAFT, flush, harm.name, Loss.UNFLUSHED_TAIL if loses else Loss.NOTHING, harm.serves)


PROMISES: tuple[Promise, ...] = tuple(_raft(flush, harm) for flush in FlushPolicy for harm in HARMS.values())


def promise_of(replication: Replication, flush: FlushPolicy, harm: str) -> Promise:
    """The row of a mode under a fault."""
    for row in PROMISES:
        if (row.replication, row.flush, row.harm) == (replication, flush, harm):
            return row
    raise KeyError(f"nothing is promised for {replication} with flush {flush.value} under {harm}")


def describe(replication: Replication, flush: FlushPolicy, harms: Iterable[str]) -> str:
    """The promise of a run in one sentence."""
    rows = [promise_of(replication, flush, harm) for harm in harms]
    losing = [row for row in rows if row.may_lose is not Loss.NOTHING]
    if not losing:
        return "nothing that was acknowledged is lost by any of these faults"
    return "; ".join(f"under {row.harm}, {row.may_lose} may be lost" for row in losing) + "; nothing else"


def may_lose(replication: Replication, flush: FlushPolicy, harms: Iterable[str]) -> bool:
    """Returns True if any of these may cost acknowledged records."""
    return any(promise_of(replication, flush, harm).may_lose is not Loss.NOTHING for harm in harms)


def allowances(
    faults: Iterable[FaultSeen], replication: Replication, flush: FlushPolicy, flush_interval_s: float
) -> tuple[Allowance, ...]:
    """The faults that may have cost records which this mode had acknowledged, and how far back each may reach."""
    found = []
    seen = tuple(faults)
    for fault in seen:
        promise = promise_of(replication, flush, fault.kind)
        if promise.may_lose is Loss.NOTHING:
            continue
        reach_ns = round((flush_interval_s + _secured_within_s(fault, seen)) * 1e9)
        found.append(
            Allowance(
                fault=fault.id,
                kind=fault.kind,
                promise=f"{replication}, flush={flush.value}: {promise.may_lose} may be lost",
                since_ns=fault.begun_ns - reach_ns if flush is FlushPolicy.INTERVAL else -NEVER,
                begun_ns=fault.begun_ns,
                injected_ns=fault.injected_ns,
            )
        )
    return tuple(found)


def _secured_within_s(fault: FaultSeen, faults: Iterable[FaultSeen]) -> float:
    """Returns how long before `fault` a due flush may be unfinished. On a slow disk it waits for the one before it."""
    was_slow = any(other.kind == DiskSlow.name and other.begun_ns < fault.begun_ns for other in faults)
    return FLUSH_TAKES_S_MAX + (2 * max(SLOW_SYNCS_S) if was_slow else 0.0)
