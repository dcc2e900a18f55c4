"""results.json: the checker's verdict together with what only the run itself knows.

Times in it are seconds since the first operation of the history, on the one monotonic clock; the first election lies before
that and has a negative time. A verdict is about the promise of the mode that ran (`promises`): a loss that it allows does
not make a run invalid; a node that ended by itself, an answer that made no sense, or a healed cluster that does not come
to agree does, even if the history is valid. One that does not prove that it was a test at all (`evidence`) is undecided.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from jepsen_like.history.ops import Outcome
from jepsen_like.nemesis.kind import Reach
from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.nemesis.table import KINDS
from jepsen_like.port.observations import RoleSeen, StartSeen, TurnSeen
from jepsen_like.record import evidence
from jepsen_like.record.attempts import Attempts
from jepsen_like.record.figures import measured, rpo_of, since
from jepsen_like.record.recovery_time import elections, touches_leader

EXAMPLES_MAX = 5


@attrs.frozen(kw_only=True)
class Observed:
    """What is known of a run in addition to its history."""

    faults: Sequence[FaultRecord]
    roles: Sequence[RoleSeen]
    unasked_ends: Sequence[str]
    """Nodes that ended by themselves, one line each."""
    nonsense: Sequence[str]
    """Answers that did not answer what was asked."""
    not_recovered: str | None
    """Why the healed cluster did not come to agree and serve; None if it did."""
    is_interrupted: bool
    nodes: Sequence[int] = ()
    kinds: Sequence[str] = ()
    """The kinds of faults that were asked for."""
    starts: Sequence[StartSeen] = ()
    """Every time that a node's log began later."""
    turns: Sequence[TurnSeen] = ()
    """The long turns of the nodes' loops."""
    load_ended_ns: int = 0
    """When the clients were told to stop; 0: with the last operation."""
    last_acked: int = 0
    """How many acknowledged records or values were written when all was healed: they show service, and test no promise."""
    counted: Mapping[Outcome, int] = {}
    """How many operations ended in which way, as they ended."""
    latency_from_intended_ms: Mapping[str, float | None] | None = None
    """Open loop: percentiles that count from when an operation was due, not from when a client was free to send it."""


NOTHING_ACKNOWLEDGED = "nothing was acknowledged, so no promise was put to the test"


def failure(reasons: Sequence[str]) -> dict[str, Any]:
    """A check of the run itself: valid without reasons."""
    return {"valid": not reasons, "count": len(reasons), "examples": list(reasons[:EXAMPLES_MAX])}


def merged(verdict: Mapping[str, Any], attempts: Attempts, observed: Observed) -> dict[str, Any]:
    """Returns the whole of results.json; `verdict` is the checker's part."""
    checks = {
        **verdict["checks"],
        "nodes": failure(observed.unasked_ends),
        "answers": failure(observed.nonsense),
        "recovered": failure([observed.not_recovered] if observed.not_recovered is not None else []),
        "evidence": evidence.row(doubts := doubts_about(attempts, observed)),
    }
    if checks["recovered"]["valid"] is False and not evidence.is_all_undone(observed.faults):
        checks["recovered"]["valid"] = None  # it may be the harness that kept the cluster from recovering
    valid = False if any(check["valid"] is False for check in checks.values()) else verdict["valid"]
    unknown = list(verdict["unknown"])
    if valid and verdict["acked"] <= observed.last_acked:
        valid = None
        unknown.append(NOTHING_ACKNOWLEDGED)
    if valid and doubts:
        valid = None
        unknown += doubts[: evidence.DOUBTS_MAX]
    known = measured_of(attempts, observed)
    return {
        **verdict,
        "valid": valid,
        "unknown": unknown,
        "not_tested": not_tested(verdict, observed),
        "checks": checks,
        **known,
        "rpo": rpo_of(verdict, known["faults"]),
        **_retained(verdict, observed),
        "is_interrupted": observed.is_interrupted,
        **(
            {"latency_from_intended_ms": observed.latency_from_intended_ms}
            if observed.latency_from_intended_ms is not None
            else {}
        ),
    }


def _retained(verdict: Mapping[str, Any], observed: Observed) -> dict[str, Any]:
    """What left the logs, where something did."""
    if not (observed.starts or verdict.get("expired")):
        return {}
    snapshots = sum(start.is_snapshot for start in observed.starts)
    return {"retention": {"trims": len(observed.starts) - snapshots, "snapshots": snapshots}}


def doubts_about(attempts: Attempts, observed: Observed) -> list[str]:
    """What of this run is not proved, so that its verdict would be worth nothing."""
    kinds = () if observed.is_interrupted else observed.kinds
    happened = {fault.kind for fault in observed.faults}
    is_too_soon = observed.is_interrupted and bool(observed.kinds) and happened.isdisjoint(observed.kinds)
    return [
        *evidence.of_faults(observed.faults, observed.roles, observed.nodes, kinds),
        *([f"interrupted before any {' or '.join(observed.kinds)}, which had been asked for"] if is_too_soon else []),
        *evidence.of_service(observed.faults, attempts.acknowledged_writes()),
        *evidence.of_history(attempts, observed.counted, may_overlap=attempts.is_queue),
    ]


def not_tested(verdict: Mapping[str, Any], observed: Observed) -> list[str]:
    """What a valid verdict does not speak of, one line each: first what the run did not do, then what the history lacks."""
    faults = observed.faults
    happened = {fault.kind for fault in faults}
    lines = [] if faults else ["faults: none"]
    if not any(KINDS[kind].reach is Reach.UNFLUSHED for kind in happened if kind in KINDS):
        lines.append("durability: not tested, no power fault")
    if not any(touches_leader(fault) for fault in faults):
        lines.append("elections: not tested, no leader was hit")
    lines += [f"{kind}: not tested, it did not happen" for kind in observed.kinds if kind not in happened]
    return list(dict.fromkeys([*lines, *verdict.get("not_tested", ())]))


def measured_of(attempts: Attempts, observed: Observed) -> dict[str, Any]:
    """Recovery, speed and the picture of the run over time."""
    origin = attempts.origin_ns
    return {
        "elections": [
            {"at_s": since(each.t_ns, origin), "term": each.term, "leader": each.node, "took_s": each.took_s}
            for each in elections(observed.roles, observed.faults)
        ],
        "longest_turn": _longest_turn(observed, origin),
        **measured(attempts, observed.faults, observed.load_ended_ns).as_json(),
        "series": attempts.series(),
        "roles": [
            {"node": role.node, "at_s": since(role.t_ns, origin), "role": role.role, "term": role.term}
            for role in observed.roles
        ],
    }


def _longest_turn(observed: Observed, origin_ns: int) -> dict[str, Any] | None:
    """Returns the longest turn of a node's loop that no fault overlaps; None if none was long enough to be reported.

    A fault stops or slows processes, so a turn next to one shows the fault.
    """
    own = [each for each in observed.turns if not any(_beside(each, fault) for fault in observed.faults)]
    if not own:
        return None
    longest = max(own, key=lambda each: each.turn.ms)
    turn = longest.turn
    return {
        "node": longest.node,
        "at_s": since(longest.t_ns, origin_ns),
        "ms": turn.ms,
        "processor_ms": turn.processor_ms,
        "cause": turn.cause,
        "count": len(own),
    }


def _beside(seen: TurnSeen, fault: FaultRecord) -> bool:
    return fault.begun_ns <= seen.t_ns and seen.t_ns - seen.turn.ms * 1_000_000 <= fault.ended_ns
