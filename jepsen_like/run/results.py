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
from jepsen_like.port.zones import NOWHERE, ZoneMap
from jepsen_like.record import evidence
from jepsen_like.record.attempts import Attempts
from jepsen_like.record.figures import measure, rpo_s, since
from jepsen_like.record.recovery_time import elections, touches_leader
from jepsen_like.record.results import CheckResult, LongestTurn, RecoveryPoint, RecoveryTimes, Retained, RunResults

EXAMPLES_MAX = 5


@attrs.frozen
class Expected:
    """The things that a run has to show: without one of them it was no test of what it is about."""

    to_strike: Mapping[str, Sequence[str]] = {}
    """Scopes by a name for them: faults have to hit a leader of one of each."""
    served: Mapping[str, int] = {}
    """By words for it, the number of times that nodes did what the run is about: once at least."""
    recovers_in_s: float = 0.0
    """The time that this system may take to serve again, beyond that which each kind of fault is given."""


@attrs.frozen(kw_only=True)
class Observed:
    """The facts about a run that its history does not hold."""

    faults: Sequence[FaultRecord]
    roles: Sequence[RoleSeen]
    unasked_ends: Sequence[str]
    """Nodes that ended by themselves, one line each."""
    nonsense: Sequence[str]
    """Answers that did not answer what was asked."""
    not_recovered: str | None
    """The reason why the healed cluster did not come to agree and serve; None if it did."""
    is_interrupted: bool
    nodes: Sequence[int] = ()
    kinds: Sequence[str] = ()
    """The kinds of faults that were asked for."""
    starts: Sequence[StartSeen] = ()
    """Every time that a node's log began later."""
    turns: Sequence[TurnSeen] = ()
    """The long turns of the nodes' loops."""
    load_ended_ns: int = 0
    """The moment when the clients were told to stop; 0: with the last operation."""
    last_acked: int = 0
    """The number of acknowledged records or values that were written when all was healed: they show service, and test no promise."""
    counted: Mapping[Outcome, int] = {}
    """The number of operations that ended in each way, as they ended."""
    expected: Expected = Expected()
    latency_from_intended_ms: Mapping[str, float | None] | None = None
    """Open loop: percentiles that count from when an operation was due, not from when a client was free to send it."""


NOTHING_ACKNOWLEDGED = "nothing was acknowledged, so no promise was put to the test"


def fail_for(reasons: Sequence[str]) -> CheckResult:
    """Returns a check of the run itself, which is valid without reasons."""
    return CheckResult(not reasons, len(reasons), tuple(reasons[:EXAMPLES_MAX]))


def build_results(
    verdict: Mapping[str, Any], attempts: Attempts, observed: Observed, zones: ZoneMap = NOWHERE
) -> RunResults:
    """Returns the results of a run; `verdict` is the checker's part, as `Verdict.as_json` has it."""
    of_checker = RunResults.of_json(verdict)
    doubts = doubts_about(attempts, observed, zones)
    recovered = fail_for([observed.not_recovered] if observed.not_recovered is not None else [])
    if recovered.valid is False and not evidence.is_all_undone(observed.faults):
        recovered = attrs.evolve(recovered, valid=None)  # it may be the harness that kept the cluster from recovering
    checks = {
        **of_checker.checks,
        "nodes": fail_for(observed.unasked_ends),
        "answers": fail_for(observed.nonsense),
        "recovered": recovered,
        "evidence": evidence.check(doubts, _tell_shown(observed)),
    }
    valid = False if any(check.valid is False for check in checks.values()) else of_checker.valid
    unknown = list(of_checker.unknown)
    if valid and of_checker.acked <= observed.last_acked:
        valid = None
        unknown.append(NOTHING_ACKNOWLEDGED)
    if valid and doubts:
        valid = None
        unknown += doubts[: evidence.DOUBTS_MAX]
    results = measure_run(of_checker, attempts, observed)
    return attrs.evolve(
        results,
        valid=valid,
        unknown=tuple(unknown),
        not_tested=tuple(not_tested(of_checker, observed)),
        checks=checks,
        rpo=RecoveryPoint(of_checker.lost_acked, rpo_s(verdict, results.faults)),
        retention=_count_trims(of_checker, observed),
        is_interrupted=observed.is_interrupted,
        latency_from_intended_ms=observed.latency_from_intended_ms,
    )


def _tell_shown(observed: Observed) -> str | None:
    """Returns how often what had to happen did, faults that hit whom they had to first; None where nothing was named."""
    struck = evidence.count_struck(observed.faults, observed.roles, observed.expected.to_strike)
    told = [f"struck: {', '.join(f'{name} {count:,} times' for name, count in struck.items())}"] if struck else []
    told += (f"{what}: {times:,}" for what, times in observed.expected.served.items())
    return "   ".join(told) or None


def _count_trims(verdict: RunResults, observed: Observed) -> Retained | None:
    """Returns how often logs were trimmed; None where nothing left them."""
    if not (observed.starts or verdict.expired):
        return None
    snapshots = sum(start.is_snapshot for start in observed.starts)
    return Retained(trims=len(observed.starts) - snapshots, snapshots=snapshots)


def doubts_about(attempts: Attempts, observed: Observed, zones: ZoneMap = NOWHERE) -> list[str]:
    """Returns what of this run is not proved, so that its verdict would be worth nothing."""
    kinds = () if observed.is_interrupted else observed.kinds
    happened = {fault.kind for fault in observed.faults}
    is_too_soon = observed.is_interrupted and bool(observed.kinds) and happened.isdisjoint(observed.kinds)
    return [
        *evidence.of_faults(observed.faults, observed.roles, observed.nodes, kinds, zones),
        *evidence.of_struck(observed.faults, observed.roles, observed.expected.to_strike if kinds else {}),
        *evidence.of_served(observed.expected.served),
        *([f"interrupted before any {' or '.join(observed.kinds)}, which had been asked for"] if is_too_soon else []),
        *evidence.of_service(observed.faults, attempts.acknowledged_writes(), observed.expected.recovers_in_s),
        *evidence.of_history(attempts, observed.counted, may_overlap=attempts.is_queue),
    ]


def not_tested(verdict: RunResults, observed: Observed) -> list[str]:
    """Returns the limits of a valid verdict, one line each: first what the run did not do, then what the history lacks."""
    faults = observed.faults
    happened = {fault.kind for fault in faults}
    lines = [] if faults else ["faults: none"]
    if not any(KINDS[kind].reach is Reach.UNFLUSHED for kind in happened if kind in KINDS):
        lines.append("durability: not tested, no power fault")
    if not any(touches_leader(fault) for fault in faults):
        lines.append("elections: not tested, no leader was hit")
    lines += [f"{kind}: not tested, it did not happen" for kind in observed.kinds if kind not in happened]
    return list(dict.fromkeys([*lines, *verdict.not_tested]))


def measure_run(verdict: RunResults, attempts: Attempts, observed: Observed) -> RunResults:
    """Returns the results with recovery, speed and the picture of the run over time."""
    origin = attempts.origin_ns
    found = measure(attempts, observed.faults, observed.load_ended_ns)
    figures = found.as_json()
    of_clients = figures.get("rto_client_s")
    return attrs.evolve(
        verdict,
        elections=tuple(
            {"at_s": since(each.t_ns, origin), "term": each.term, "leader": each.node, "took_s": each.took_s}
            for each in elections(observed.roles, observed.faults)
        ),
        longest_turn=_longest_turn(observed, origin),
        attempted=found.attempted,
        rto=RecoveryTimes.of_json(figures["rto_s"]),
        rto_client=RecoveryTimes.of_json(of_clients) if of_clients is not None else None,
        availability=figures["availability"],
        latency_ms=figures["latency_ms"],
        throughput_ops_s=found.throughput_ops_s,
        faults=tuple(figures["faults"]),
        series=attempts.series(),
        roles=tuple(
            {"node": role.node, "at_s": since(role.t_ns, origin), "role": role.role, "term": role.term}
            for role in observed.roles
        ),
    )


def _longest_turn(observed: Observed, origin_ns: int) -> LongestTurn | None:
    """Returns the longest turn of a node's loop that no fault overlaps; None if none was long enough to be reported.

    A fault stops or slows processes, so a turn next to one shows the fault.
    """
    own = [each for each in observed.turns if not any(_beside(each, fault) for fault in observed.faults)]
    if not own:
        return None
    longest = max(own, key=lambda each: each.turn.ms)
    at_s = since(longest.t_ns, origin_ns)
    return LongestTurn(node=longest.node, at_s=at_s, count=len(own), **attrs.asdict(longest.turn))


def _beside(seen: TurnSeen, fault: FaultRecord) -> bool:
    return fault.begun_ns <= seen.t_ns and seen.t_ns - seen.turn.ms * 1_000_000 <= fault.ended_ns
