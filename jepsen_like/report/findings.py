"""Reads what a run left behind, as values the page can be drawn from.

Reads `results.json`, `test.json` and `nemesis.jsonl` of a run directory. A missing file or one that is not what it
should be is an `UnreadableRun` that names the file; a missing field reads as "not measured", so that the report of an
interrupted or older run still opens. Times are seconds since the load began.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from jepsen_like.record.results import CheckResult, RunResults, count

FINAL_LOG = -1
"""The process number of what is no client's operation: what a node held at the end."""
LOST = "lost"
VALUES_MAX = 8
"""Values of an operation that a picture shows."""


@attrs.define
class UnreadableRun(Exception):
    """The directory does not hold a finished run; the message names the file and the reason."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@attrs.frozen
class Series:
    """The load over time in buckets of equal width: rates per second, latencies in milliseconds (None: no answer)."""

    t_s: tuple[float, ...]
    ok_s: tuple[float, ...]
    fail_s: tuple[float, ...]
    info_s: tuple[float, ...]
    p50_ms: tuple[float | None, ...]
    p99_ms: tuple[float | None, ...]
    lost_s: tuple[float, ...] = attrs.field()
    """The part of `ok_s` whose records were lost later."""

    @lost_s.default
    def _nothing_lost(self) -> tuple[float, ...]:
        return (0.0,) * len(self.t_s)

    @property
    def kept_s(self) -> tuple[float, ...]:
        """The part of `ok_s` of which nothing was lost."""
        return tuple(max(ok - lost, 0.0) for ok, lost in zip(self.ok_s, self.lost_s, strict=True))

    @property
    def lost_spans(self) -> tuple[tuple[float, float], ...]:
        """Returns when what was acknowledged was lost later, in part at least: from, to; in order."""
        spans: list[tuple[float, float]] = []
        for t, lost in zip(self.t_s, self.lost_s, strict=True):
            if lost > 0:
                begin = spans.pop()[0] if spans and spans[-1][1] >= t - self.bucket_s / 2 else t
                spans.append((begin, t + self.bucket_s))
        return tuple(spans)

    @property
    def bucket_s(self) -> float:
        """The width of a bucket."""
        return self.t_s[1] - self.t_s[0] if len(self.t_s) > 1 else 1.0

    def thin(self, buckets_max: int) -> "Series":
        """At most `buckets_max` wider buckets: rates averaged, p50 averaged, p99 the worst (no peak disappears)."""
        step = math.ceil(len(self.t_s) / buckets_max) if self.t_s else 1
        if step <= 1:
            return self
        starts = range(0, len(self.t_s), step)

        def mean(values: Sequence[float]) -> tuple[float, ...]:
            return tuple(sum(part) / len(part) for at in starts if (part := values[at : at + step]))

        def known_at(values: Sequence[float | None], at: int) -> list[float]:
            return [value for value in values[at : at + step] if value is not None]

        return Series(
            t_s=tuple(self.t_s[at] for at in starts),
            ok_s=mean(self.ok_s),
            fail_s=mean(self.fail_s),
            info_s=mean(self.info_s),
            p50_ms=tuple(sum(p) / len(p) if (p := known_at(self.p50_ms, at)) else None for at in starts),
            p99_ms=tuple(max(p) if (p := known_at(self.p99_ms, at)) else None for at in starts),
            lost_s=mean(self.lost_s),
        )


@attrs.frozen
class ShownFault:
    """One thing that was broken, from when to when (None: until the end), and how long the service took to return."""

    id: int
    kind: str
    target: str
    nodes: tuple[int, ...]
    begin_s: float
    end_s: float | None
    leader: int | None = None
    """The node that led when it was planned."""
    rto_s: float | None = None
    """Seconds until an operation that began after the fault was acknowledged; None: not measured."""
    gap_s: float | None = None
    """The longest time without an acknowledged write around it."""
    acked_before: int | None = None
    """Writes acknowledged in the second before it: with none, the recovery time means nothing."""
    recovered: bool = True
    """True if a write was acknowledged after its end; true of a run that does not say."""
    observed: tuple[str, ...] = ()
    """The evidence of it from outside: a dead pid, a stopped process, a cut link."""

    @property
    def title(self) -> str:
        """Returns what it did, to whom: `kill n2 (leader)`."""
        return " ".join(part for part in (self.kind, self.whom) if part)

    @property
    def hit_leader(self) -> bool:
        """Returns True if it struck the node that led."""
        return self.target == "leader" or (len(self.nodes) == 1 and self.leader in self.nodes)

    @property
    def whom(self) -> str:
        """The nodes, and the target by which they were chosen unless that only repeats them."""
        names = ", ".join(f"n{node}" for node in self.nodes)
        chosen_by_name = self.target in ("", names, ",".join(str(node) for node in self.nodes))
        return names if chosen_by_name else f"{names} ({self.target})" if names else self.target


@attrs.frozen
class RoleChange:
    """From `at_s` on, this node had this role in this term."""

    node: int
    at_s: float
    role: str
    term: int


@attrs.frozen
class ShownElection:
    """A leader was elected."""

    at_s: float
    term: int
    leader: int
    took_s: float | None


@attrs.frozen
class ShownOp:
    """One operation of a witness. `t_ret_s` is None while its outcome is unknown. -1 stands for "no value"."""

    f: str
    type: str
    process: int | None
    node: int | None
    t_inv_s: float
    t_ret_s: float | None
    a: int | str | None = None
    b: int | str | None = None
    seen: int | str | None = None
    offset: int | None = None
    epoch: int | None = None
    words: str = ""
    """The operation in words, where its fields do not tell it."""


@attrs.frozen
class ShownViolation:
    """A broken promise: one sentence and the few operations that prove it."""

    check: str
    object: str
    sentence: str
    ops: tuple[ShownOp, ...]

    @property
    def culprit(self) -> ShownOp | None:
        """The operation that cannot be: of a loss the acknowledged one that is gone, else the last to begin."""
        clients = [op for op in self.ops if op.process != FINAL_LOG]
        if self.check == LOST:
            return next((op for op in clients if op.type == "ok"), None)
        return clients[-1] if clients else self.ops[-1] if self.ops else None

    @property
    def offset(self) -> int | None:
        """The place of the log that it is about; None if its operations name none."""
        return next((op.offset for op in self.ops if op.offset is not None and op.offset >= 0), None)


@attrs.frozen
class ShownCheck:
    """One property: True holds, False is violated, None could not be decided."""

    name: str
    valid: bool | None
    count: int
    notes: tuple[str, ...] = ()
    """Why it could not be decided, or examples of what was found."""
    is_tolerated: bool = False
    """True if something was found that the mode allows, because of a fault or a setting."""


@attrs.frozen
class RunFindings:
    """Everything the page shows."""

    valid: bool | None
    results: RunResults
    test: Mapping[str, Any]
    series: Series
    faults: tuple[ShownFault, ...]
    roles: tuple[RoleChange, ...]
    elections: tuple[ShownElection, ...]
    violations: tuple[ShownViolation, ...]
    checks: tuple[ShownCheck, ...]

    @property
    def nodes(self) -> tuple[int, ...]:
        """Every node that was ever named, in order."""
        named = {change.node for change in self.roles} | {node for fault in self.faults for node in fault.nodes}
        count = self.test.get("nodes")
        return tuple(sorted(named | set(range(1, count + 1) if isinstance(count, int) else ())))

    @property
    def zones(self) -> dict[str, tuple[int, ...]]:
        """The members of each zone, by name; none of a run without zones."""
        zones = self.test.get("zones") or {}
        return {str(name): tuple(map(int, members)) for name, members in dict(zones.get("members") or {}).items()}

    @property
    def is_loss_allowed(self) -> bool:
        """Returns True if something acknowledged was lost, all of it as the mode allows."""
        allowed = count(self.results.lost_allowed)
        return allowed > 0 and allowed == self.results.lost_acked

    def blame(self, violation: ShownViolation) -> ShownFault | None:
        """The fault that most likely made it: of a loss the next one after the acknowledgement, else the last before it."""
        culprit = violation.culprit
        if culprit is None:
            return None
        ended_s = culprit.t_inv_s if culprit.t_ret_s is None else culprit.t_ret_s
        if violation.check == LOST:
            later = [fault for fault in self.faults if fault.end_s is None or fault.end_s >= ended_s]
            return min(later, key=lambda fault: fault.begin_s, default=None)
        return max(
            (fault for fault in self.faults if fault.begin_s <= ended_s), key=lambda fault: fault.begin_s, default=None
        )

    @property
    def end_s(self) -> float:
        """Returns when the picture ends: after the last thing that was measured."""
        moments = [1.0, *(fault.end_s or fault.begin_s for fault in self.faults)]
        moments += [change.at_s for change in self.roles]
        if self.series.t_s:
            moments.append(self.series.t_s[-1] + self.series.bucket_s)
        return max(moments)


def read_findings(run_directory: Path) -> RunFindings:
    """Read a run directory. Raises `UnreadableRun` if it does not hold a finished run."""
    if not run_directory.is_dir():
        raise UnreadableRun(run_directory, "no such directory")
    results = read_object(run_directory / "results.json", "the run did not finish, or this is not a run directory")
    test = read_object(run_directory / "test.json", "this is not a run directory")
    nemesis = {row.get("id"): row for row in read_rows(run_directory / "nemesis.jsonl")}
    try:
        return findings(results, test, nemesis)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UnreadableRun(run_directory / "results.json", f"not what a run writes: {error!r}") from error


def read_told(path: Path) -> Any:
    """Returns what a scenario or a matrix wrote of itself. Raises `UnreadableRun`."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UnreadableRun(path, str(error)) from error


def read_object(path: Path, when_missing: str) -> dict[str, Any]:
    """A JSON object from a file."""
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError:
        raise UnreadableRun(path, f"missing: {when_missing}") from None
    except (OSError, ValueError) as error:
        raise UnreadableRun(path, f"cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise UnreadableRun(path, "is not a JSON object")
    return value


def read_rows(path: Path) -> list[dict[str, Any]]:
    """JSON objects, one a line; none when the file is missing (a run without faults)."""
    try:
        lines = path.read_text().splitlines()
        return [row for line in lines if line.strip() and isinstance(row := json.loads(line), dict)]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise UnreadableRun(path, f"cannot be read: {error}") from error


def findings(
    document: Mapping[str, Any], test: Mapping[str, Any], nemesis: Mapping[Any, Mapping[str, Any]]
) -> RunFindings:
    """Build the values; raises what a wrong shape raises."""
    results = RunResults.of_json(document)
    rto = {row.get("id"): row for row in (results.rto.faults if results.rto is not None else None) or ()}
    raw = results.series
    t_s = tuple(float(t or 0.0) for t in raw.get("t_s") or ())

    def rates(name: str) -> tuple[float, ...]:
        values = tuple(float(value or 0.0) for value in raw.get(name) or ())
        return values or (0.0,) * len(t_s)

    def latencies(name: str) -> tuple[float | None, ...]:
        values = tuple(None if value is None else float(value) for value in raw.get(name) or ())
        return values or (None,) * len(t_s)

    ok, fail, info, lost = map(rates, ("ok_s", "fail_s", "info_s", "lost_s"))
    series = Series(t_s, ok, fail, info, latencies("p50_ms"), latencies("p99_ms"), lost)
    if any(len(column) != len(t_s) for column in attrs.astuple(series, recurse=False)):
        raise ValueError("the columns of `series` differ in length")
    return RunFindings(
        valid=results.valid,
        results=results,
        test=test,
        series=series,
        faults=tuple(
            fault_of(row, rto.get(row.get("id"), {}), nemesis.get(row.get("id"), {})) for row in results.faults
        ),
        roles=tuple(
            sorted(
                (
                    RoleChange(int(row["node"]), float(row["at_s"]), str(row["role"]), int(row["term"]))
                    for row in results.roles
                ),
                key=lambda change: change.at_s,
            )
        ),
        elections=tuple(
            ShownElection(float(row["at_s"]), int(row["term"]), int(row["leader"]), number(row.get("took_s")))
            for row in results.elections
        ),
        violations=tuple(violation_of(row) for row in results.violations),
        checks=tuple(
            ShownCheck(
                name,
                check.valid,
                check.count,
                notes_of(check),
                any(row["check"] == name for row in results.tolerated or ()),
            )
            for name, check in results.checks.items()
        ),
    )


def notes_of(check: CheckResult) -> tuple[str, ...]:
    """Returns the notes of a check in addition to its verdict."""
    return tuple(str(note) for note in (check.reason, *check.examples) if note)


def number(value: Any) -> float | None:
    """A float, or None for None."""
    return None if value is None else float(value)


def whole(value: Any) -> int | None:
    """An int, or None for None."""
    return None if value is None else int(value)


def words_of(op: Mapping[str, Any]) -> str:
    """Returns an operation with several values, or of a model of its own, in words; nothing for any other."""
    if "call" in op:
        return str(op["call"])
    return f"{op['f']} [{' '.join(map(str, op['values'][:VALUES_MAX]))}]" if "values" in op else ""


def fault_of(row: Mapping[str, Any], rto: Mapping[str, Any], seen: Mapping[str, Any]) -> ShownFault:
    """One fault from its row in the results, its recovery time and its row in the nemesis' diary."""
    observed = seen.get("observed") or {}
    return ShownFault(
        id=int(row["id"]),
        kind=str(row["kind"]),
        target=str(row.get("target") or ""),
        nodes=tuple(int(node) for node in row.get("nodes") or ()),
        begin_s=float(row["begin_s"]),
        end_s=number(row.get("end_s")),
        leader=whole(seen.get("leader")),
        rto_s=number(rto.get("s")),
        gap_s=number(rto.get("gap_s")),
        acked_before=whole(rto.get("acked_before")),
        recovered=rto.get("recovered") is not False,
        observed=tuple(f"n{name}: {what}" if str(name).isdigit() else str(what) for name, what in observed.items()),
    )


def violation_of(row: Mapping[str, Any]) -> ShownViolation:
    """One violation with its operations in the order of their start."""
    ops = (
        ShownOp(
            f=str(op["f"]),
            type=str(op["type"]),
            t_inv_s=float(op["t_inv_s"]),
            t_ret_s=None if op["type"] == "info" else number(op.get("t_ret_s")),
            **{name: whole(op.get(name)) for name in ("process", "node", "offset", "epoch")},
            **{name: op.get(name) for name in ("a", "b", "seen")},
            words=words_of(op),
        )
        for op in row.get("ops") or ()
    )
    return ShownViolation(
        check=str(row.get("check") or ""),
        object=str(row.get("object", "")),
        sentence=str(row.get("sentence") or ""),
        ops=tuple(sorted(ops, key=lambda op: op.t_inv_s)),
    )
