"""What every mode promises under every fault, as data: which acknowledged records may be lost, and how soon it serves again.

A verdict is about the promise of the mode that ran: a loss that its row allows, and that a fault of the run explains, is
reported and attributed; any other loss is a violation. The table says what is promised, not what usually happens.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence

import attrs

from jepsen_like.nemesis.kind import Reach
from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.nemesis.table import KINDS
from log.flusher import FlushPolicy


class Replication(enum.StrEnum):
    """How copies are made, as `--replication` names it."""

    RAFT = "raft"


class Loss(enum.StrEnum):
    """Which acknowledged records a fault may cost."""

    NOTHING = "nothing"
    UNFLUSHED_TAIL = "what a majority had not flushed yet"


@attrs.frozen
class Harm:
    """What is done to a cluster: how far it can reach, and when the group serves again, or still does, in words."""

    name: str
    reach: Reach
    serves: str


POWER_CUT = "power-cut"
HARMS: Mapping[str, Harm] = {
    **{kind.name: Harm(kind.name, kind.reach, kind.serves) for kind in KINDS.values()},
    POWER_CUT: Harm(POWER_CUT, Reach.UNFLUSHED, "a minority: after an election; more: once a majority is back"),
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
    """When it serves again, or still does, in words."""


def _raft(flush: FlushPolicy, harm: Harm) -> Promise:
    # A killed process leaves its writes with the operating system: few faults reach what no flush has secured.
    loses = harm.reach is Reach.UNFLUSHED and flush is not FlushPolicy.BEFORE_ACK
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


@attrs.frozen
class LostRecord:
    """An acknowledged record that the final logs lack; `acked_ns` on the monotonic clock."""

    value: int
    acked_ns: int


@attrs.frozen
class Attribution:
    """A lost record with the fault that explains it and the promise that allows it; both None if nothing does."""

    record: LostRecord
    fault: FaultRecord | None
    promise: Promise | None


def attribute(
    lost: Sequence[LostRecord],
    faults: Sequence[FaultRecord],
    replication: Replication,
    flush: FlushPolicy,
    window_s: float,
) -> list[Attribution]:
    """Say for each lost record which fault, at most `window_s` after its acknowledgement, may have cost it."""
    return [_explained(record, faults, replication, flush, round(window_s * 1e9)) for record in lost]


def _explained(
    record: LostRecord, faults: Sequence[FaultRecord], replication: Replication, flush: FlushPolicy, window_ns: int
) -> Attribution:
    for fault in faults:
        promise = promise_of(replication, flush, fault.kind)
        in_window = fault.begun_ns - window_ns <= record.acked_ns <= fault.injected_ns
        if promise.may_lose is not Loss.NOTHING and in_window:
            return Attribution(record, fault, promise)
    return Attribution(record, None, None)
