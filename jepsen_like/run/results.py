"""results.json: the checker's verdict together with what only the run itself knows.

Times in it are seconds since the first operation of the history, on the one monotonic clock; the first election lies before
that and has a negative time. A verdict is about the promise of the mode that ran (`promises`): a loss that it allows does
not make a run invalid; a node that ended by itself, an answer that made no sense, or a healed cluster that does not come
to agree does, even if the history is valid. One that does not prove that it was a test at all (`evidence`) is undecided.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from jepsen_like.checker.columns import begins_operation
from jepsen_like.checker.verdict import Check
from jepsen_like.cluster.observations import RoleSeen, StartSeen
from jepsen_like.history.files import HistoryReader, read_dump, read_part
from jepsen_like.history.ops import NEVER, NONE, Action, Outcome
from jepsen_like.nemesis.kind import Reach
from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.nemesis.table import KINDS
from jepsen_like.run import evidence
from jepsen_like.run.recovery_time import ServiceRecovery, Writes, availability, elections, recovery, touches_leader

BUCKET_S = 0.25
WRITES = (Action.APPEND, Action.WRITE, Action.CAS, Action.SEND)
EXAMPLES_MAX = 5

DUMP = "dump.parquet"

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@attrs.frozen
class Attempts:
    """The operations of a history, one entry each (a batch of records is one operation), in no order."""

    f: Ints
    outcome: Ints
    t_inv: Ints
    t_ret: Ints
    process: Ints
    records: Ints
    """How many rows of the history each one is: the records appended or read, one for anything else."""
    is_lost: Bools = attrs.field()
    """Which of them are acknowledged appends of a record that the final logs lack."""

    by_client: Bools = attrs.field()
    """Which of them do not tell which node was asked: those of a client that finds its way by itself."""

    is_queue: bool = False
    """Whether these are the messages of a queue, of which a producer has many under way."""

    @is_lost.default
    def _nothing_lost(self) -> Bools:
        return np.zeros(len(self.f), np.bool_)

    @by_client.default
    def _none_by_client(self) -> Bools:
        return np.zeros(len(self.f), np.bool_)

    @classmethod
    def read(cls, history: Path) -> "Attempts":
        """From the files of a run, with the dump of the final logs in the same directory if there is one.

        Raises `UnreadableHistory` if there is no history.
        """
        names = ("object", "process", "f", "type", "a", "offset", "t_inv", "t_ret", "node")
        parts: list[list[Ints]] = []
        for path in HistoryReader.open(history).files():
            table = read_part(path, names)
            columns = [np.asarray(table.column(name).to_numpy()).astype(np.int64) for name in names]
            parts.append(columns)
        obj, process, f, outcome, value, offset, t_inv, t_ret, node = (
            [np.concatenate(of) for of in zip(*parts, strict=True)] if parts else [np.empty(0, np.int64)] * 9
        )
        sends = np.flatnonzero(f == Action.SEND)
        if is_queue := len(sends) > 0:  # all else there is the consumers'
            obj, process, f, outcome, value, offset, t_inv, t_ret, node = (
                of[sends] for of in (obj, process, f, outcome, value, offset, t_inv, t_ret, node)
            )
        first = np.arange(len(f)) if is_queue else np.flatnonzero(begins_operation(process, t_inv, t_ret))
        records = np.diff(first, append=len(f))
        appended = np.isin(f, (Action.APPEND, Action.SEND)) & (outcome == Outcome.OK)
        lost = _lost(history.with_name(DUMP), obj, np.where(appended, offset, NONE), value)
        of_operation = np.logical_or.reduceat(lost, first) if len(first) else lost
        return cls(
            f[first],
            outcome[first],
            t_inv[first],
            t_ret[first],
            process[first],
            records,
            of_operation,
            node[first] == NONE,
            is_queue,
        )

    @property
    def origin_ns(self) -> int:
        """When the first operation began; 0 for none."""
        return int(self.t_inv.min()) if len(self.t_inv) else 0

    def acknowledged_writes(self, *, only: Bools | None = None) -> Writes:
        """What recovery times are measured by; `only` these of them."""
        chosen = (self.outcome == Outcome.OK) & np.isin(self.f, WRITES)
        if only is not None:
            chosen &= only
        return Writes.of(self.t_inv[chosen], self.t_ret[chosen])

    def attempted(self) -> int:
        """Records that were to be appended, writes and swaps that were tried: what `acked` is a part of."""
        return int(self.records[np.isin(self.f, WRITES)].sum())

    def latency_ms(self) -> dict[str, float | None]:
        """Percentiles over all operations that were answered."""
        ok = self.outcome == Outcome.OK
        return percentiles((self.t_ret[ok] - self.t_inv[ok]) / 1e6)

    def throughput_ops_s(self) -> float:
        """Answered operations per second, from the first begin to the last answer."""
        answered = self.t_ret[self.outcome == Outcome.OK]
        span_s = (int(answered.max()) - self.origin_ns) / 1e9 if len(answered) else 0.0
        return round(len(answered) / span_s, 1) if span_s > 0 else 0.0

    def series(self) -> dict[str, list[Any]]:
        """Rates per second and latencies over time. An unknown outcome counts where it began, the others where they ended.

        `lost_s` is the part of `ok_s` whose records were lost later.
        """
        when = (np.where(self.t_ret >= NEVER, self.t_inv, self.t_ret) - self.origin_ns) / 1e9
        bucket = (when / BUCKET_S).astype(np.int64)
        count = int(bucket.max()) + 1 if len(bucket) else 0
        rates = {
            name: (np.bincount(bucket[self.outcome == outcome], minlength=count) / BUCKET_S).tolist()
            for name, outcome in (("ok_s", Outcome.OK), ("fail_s", Outcome.FAIL), ("info_s", Outcome.INFO))
        }
        rates["lost_s"] = (np.bincount(bucket[self.is_lost], minlength=count) / BUCKET_S).tolist()
        ok = self.outcome == Outcome.OK
        order = np.argsort(bucket[ok], kind="stable")
        sorted_buckets, latencies = bucket[ok][order], ((self.t_ret[ok] - self.t_inv[ok]) / 1e6)[order]
        borders = np.searchsorted(sorted_buckets, np.arange(count + 1))
        both = [percentiles(latencies[low:high]) for low, high in itertools.pairwise(borders)]
        return {
            "t_s": [round(number * BUCKET_S, 2) for number in range(count)],
            **rates,
            "p50_ms": [each["p50"] for each in both],
            "p99_ms": [each["p99"] for each in both],
        }


def _lost(dump: Path, obj: Ints, offset: Ints, value: Ints) -> Bools:
    """Which acknowledged records, at an `offset` that is not negative, the final logs lack; none without a dump."""
    lost = np.zeros(len(offset), np.bool_)
    table = read_dump(dump) if dump.is_dir() else None
    if table is None:
        return lost
    objects, places, values = (
        np.asarray(table.column(name).to_numpy()).astype(np.int64) for name in ("object", "offset", "a")
    )
    for one in np.unique(obj).tolist():
        mine, held = obj == one, objects == one
        lost[mine] = _lost_of_log(places[held], values[held], offset[mine], value[mine])
    return lost


def _lost_of_log(places: Ints, values: Ints, offset: Ints, value: Ints) -> Bools:
    content = np.full(int(places.max(initial=NONE)) + 1, NONE, np.int64)
    content[places] = values
    within = (offset >= 0) & (offset < len(content))
    there = content[np.where(within, offset, 0)] if len(content) else np.full(len(offset), NONE, np.int64)
    # Where no log holds anything, a record has left by its rule of retention; holes are judged by the checker.
    is_there = within & ((there == value) | (there == NONE))
    return np.asarray((offset >= 0) & ~is_there)


def percentiles(latencies_ms: npt.NDArray[np.float64]) -> dict[str, float | None]:
    """p50 and p99; None for no latencies."""
    if not len(latencies_ms):
        return {"p50": None, "p99": None}
    p50, p99 = np.percentile(latencies_ms, (50, 99))
    return {"p50": round(float(p50), 3), "p99": round(float(p99), 3)}


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
    known = measured(attempts, observed)
    return {
        **verdict,
        "valid": valid,
        "attempted": attempts.attempted(),
        "unknown": unknown,
        "not_tested": not_tested(verdict, observed),
        "checks": checks,
        **known,
        "rpo": {"records": int(verdict["lost_acked"]), "s": rpo_s(verdict, known["faults"])},
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


def measured(attempts: Attempts, observed: Observed) -> dict[str, Any]:
    """Recovery, speed and the picture of the run over time."""
    origin = attempts.origin_ns
    writes = attempts.acknowledged_writes()
    recoveries = [recovery(fault, writes) for fault in observed.faults]
    return {
        "elections": [
            {"at_s": since(each.t_ns, origin), "term": each.term, "leader": each.node, "took_s": each.took_s}
            for each in elections(observed.roles, observed.faults)
        ],
        "rto_s": {**worst(recoveries), "faults": [each.as_json() for each in recoveries]},
        **_as_clients_saw(attempts, observed),
        "availability": availability(writes, origin, observed.load_ended_ns or int(attempts.t_inv.max(initial=origin))),
        "latency_ms": attempts.latency_ms(),
        "throughput_ops_s": attempts.throughput_ops_s(),
        "series": attempts.series(),
        "faults": [
            {
                "id": fault.id,
                "kind": fault.kind,
                "target": fault.target,
                "nodes": list(fault.nodes),
                "begin_s": since(fault.begun_ns, origin),
                "end_s": since(fault.ended_ns, origin),
            }
            for fault in observed.faults
        ],
        "roles": [
            {"node": role.node, "at_s": since(role.t_ns, origin), "role": role.role, "term": role.term}
            for role in observed.roles
        ],
    }


def _as_clients_saw(attempts: Attempts, observed: Observed) -> dict[str, Any]:
    """Recovery by the writes of clients that find their way by themselves, where there are others to tell when the nodes served."""
    is_both = attempts.by_client.any() and not attempts.by_client[np.isin(attempts.f, WRITES)].all()
    if not is_both:
        return {}
    writes = attempts.acknowledged_writes(only=attempts.by_client)
    return {"rto_client_s": worst([recovery(fault, writes) for fault in observed.faults])}


def worst(recoveries: Sequence[ServiceRecovery]) -> dict[str, float | int | None]:
    """Returns the longest recovery and the longest gap of all faults, None for both if there is a fault that nothing recovered from."""
    unrecovered = sum(not each.has_recovered for each in recoveries)
    known = () if unrecovered else recoveries
    return {
        "max": max((each.first_success_s for each in known if each.first_success_s is not None), default=None),
        "gap_max": max((each.longest_gap_s for each in known if each.longest_gap_s is not None), default=None),
        "unrecovered": unrecovered,
    }


def rpo_s(verdict: Mapping[str, Any], faults: Sequence[Mapping[str, Any]]) -> float:
    """Returns how far back loss reaches, in seconds; 0 for none.

    What is allowed counts from its acknowledgement to the fault that cost it. Of what nothing allows, the few records that
    are shown count, to the fault that came next; nothing if they were acknowledged while a fault held.
    """
    spans = [float(loss["reach_s"]) for loss in verdict["lost_allowed"]]
    for violation in verdict["violations"]:
        acked_s = violation["ops"][0]["t_ret_s"] if violation["check"] == Check.LOST and violation["ops"] else None
        if acked_s is not None:
            spans += _to_its_fault_s(acked_s, faults)
    return round(max(spans, default=0.0), 4)


def _to_its_fault_s(acked_s: float, faults: Sequence[Mapping[str, Any]]) -> list[float]:
    """From a moment to the next fault that held then or began later; empty without one."""
    spans = [max(0.0, fault["begin_s"] - acked_s) for fault in faults if fault["end_s"] >= acked_s]
    return [min(spans)] if spans else []


def since(t_ns: int, origin_ns: int) -> float:
    """A moment in seconds from the first operation."""
    return round((t_ns - origin_ns) / 1e9, 4)
