"""What every mode promises under every fault, as data: which acknowledged records may be lost, and how soon it serves again.

A verdict is about the promise of the mode that ran: a loss that its row allows, and that a fault of the run explains, is
reported and attributed; any other loss is a violation. The table says what is promised, not what usually happens.
"""

import enum
from collections.abc import Iterable, Sequence

import attrs

from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.nemesis.schedule import FaultKind
from log.flusher import FlushPolicy


class Replication(enum.StrEnum):
    """How copies are made, as `--replication` names it."""

    RAFT = "raft"


class Loss(enum.StrEnum):
    """Which acknowledged records a fault may cost."""

    NOTHING = "nothing"
    UNFLUSHED_TAIL = "what a majority had not flushed yet"


class Harm(enum.StrEnum):
    """What is done to a cluster. The first four are what `run` does; a power cut loses what no flush has reached."""

    KILL = FaultKind.KILL.value
    PAUSE = FaultKind.PAUSE.value
    PARTITION = FaultKind.PARTITION.value
    RESTART = FaultKind.RESTART.value
    POWER_CUT = "power-cut"


@attrs.frozen
class Promise:
    """One row: a mode under a fault that is undone in the end, however many nodes it hits."""

    replication: Replication
    flush: FlushPolicy
    harm: Harm
    may_lose: Loss
    serves: str
    """When it serves again, or still does, in words."""


_SERVES = {
    Harm.KILL: "a minority: after an election; more: once a majority is back",
    Harm.PAUSE: "a minority: after an election timeout and an election; more: once a majority is back",
    Harm.PARTITION: "where a majority is together: after an election timeout and an election; elsewhere not",
    Harm.RESTART: "a minority: after an election; more: once a majority is back",
    Harm.POWER_CUT: "a minority: after an election; more: once a majority is back",
}


def _raft(flush: FlushPolicy, harm: Harm) -> Promise:
    # A killed process leaves its writes with the operating system: only a power cut reaches what no flush has secured.
    loses = harm is Harm.POWER_CUT and flush is not FlushPolicy.BEFORE_ACK
    return Promise(Replication.RAFT, flush, harm, Loss.UNFLUSHED_TAIL if loses else Loss.NOTHING, _SERVES[harm])


PROMISES: tuple[Promise, ...] = tuple(_raft(flush, harm) for flush in FlushPolicy for harm in Harm)


def promise_of(replication: Replication, flush: FlushPolicy, harm: Harm) -> Promise:
    """The row of a mode under a fault."""
    for row in PROMISES:
        if (row.replication, row.flush, row.harm) == (replication, flush, harm):
            return row
    raise KeyError(f"nothing is promised for {replication} with flush {flush.value} under {harm}")


def describe(replication: Replication, flush: FlushPolicy, harms: Iterable[Harm]) -> str:
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
        promise = promise_of(replication, flush, Harm(fault.kind))
        in_window = fault.begun_ns - window_ns <= record.acked_ns <= fault.injected_ns
        if promise.may_lose is not Loss.NOTHING and in_window:
            return Attribution(record, fault, promise)
    return Attribution(record, None, None)
