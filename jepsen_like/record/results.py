"""results.json as a value: everything that was found and measured of a run, for its page, its terminal and its comparisons.

`RunResults.as_json` has the members of the file in their order. `RunResults.of_json` reads it, and also files of older versions,
which lack some members; it raises what a wrong shape raises.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import attrs

Row = Mapping[str, Any]
"""A row of results.json that is shown, or compared, as it is."""
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@attrs.frozen
class CheckResult:
    """The result of one check: True holds, False is violated, None could not be decided."""

    valid: bool | None
    count: int = 0
    examples: tuple[str, ...] = ()
    reason: str | None = None

    @classmethod
    def of_json(cls, row: Row) -> "CheckResult":
        """Returns the check of a row of results.json."""
        return cls(row.get("valid"), int(row.get("count") or 0), tuple(row.get("examples") or ()), row.get("reason"))

    def as_json(self) -> dict[str, Any]:
        """Returns a row of results.json."""
        row: dict[str, Any] = {"valid": self.valid, "count": self.count, "examples": list(self.examples)}
        return row if self.reason is None else {**row, "reason": self.reason}


@attrs.frozen
class OperationCounts:
    """The number of operations that ended in each way."""

    ok: int = 0
    fail: int = 0
    info: int = 0

    @classmethod
    def of_json(cls, row: Row) -> "OperationCounts":
        """Returns the counts of results.json."""
        return cls(*(int(row.get(name) or 0) for name in ("ok", "fail", "info")))

    @property
    def total(self) -> int:
        """Returns how many operations there were."""
        return self.ok + self.fail + self.info


@attrs.frozen
class RecoveryTimes:
    """The longest recovery and the longest gap of all faults, in seconds; None if a fault was not recovered from."""

    max: float | None = None
    gap_max: float | None = None
    unrecovered: int = 0
    faults: tuple[Row, ...] | None = None
    """One row for each fault; None where only the longest are known."""

    @classmethod
    def of_json(cls, row: Row) -> "RecoveryTimes":
        """Returns the times of results.json."""
        faults = tuple(row["faults"]) if row.get("faults") is not None else None
        return cls(row.get("max"), row.get("gap_max"), int(row.get("unrecovered") or 0), faults)

    def as_json(self) -> dict[str, Any]:
        """Returns a member of results.json."""
        row: dict[str, Any] = {"max": self.max, "gap_max": self.gap_max, "unrecovered": self.unrecovered}
        return row if self.faults is None else {**row, "faults": list(self.faults)}


@attrs.frozen
class RecoveryPoint:
    """The loss of a run: how many records, and how far back it reaches in seconds."""

    records: int | None = None
    s: float | None = None


@attrs.frozen
class Given:
    """The messages that consumers were given, and how often one was given again."""

    messages: int = 0
    again: int = 0


@attrs.frozen
class LongestTurn:
    """The longest turn of a node's loop that no fault overlaps."""

    node: int
    at_s: float
    ms: float
    processor_ms: float
    cause: str
    count: int


@attrs.frozen
class Retained:
    """The number of times that logs were trimmed, and of snapshots that were installed."""

    trims: int = 0
    snapshots: int = 0


@attrs.frozen(kw_only=True)
class RunResults:
    """Everything that was found and measured of a run. Its fields are in the order of the file."""

    valid: bool | None = None
    model: str | None = None
    engine: str | None = None
    checks: Mapping[str, CheckResult] = NOTHING
    ops: OperationCounts = OperationCounts()
    objects: Row = NOTHING
    unknown: tuple[str, ...] = ()
    """The reasons of a verdict that could not be decided."""
    not_tested: tuple[str, ...] = ()
    acked: int = 0
    lost_acked: int = 0
    expired: int = 0
    unseen: int | None = None
    recovered: int | None = None
    lost_allowed: tuple[Any, ...] = ()
    """The losses that the mode allows, a row each."""
    lost_unexplained: int = 0
    duplicated: int | None = None
    given: Given | None = None
    tolerated: tuple[Row, ...] | None = None
    lost: tuple[Any, ...] = ()
    violations: tuple[Row, ...] = ()
    elections: tuple[Row, ...] = ()
    longest_turn: LongestTurn | None = None
    attempted: int = 0
    rto: RecoveryTimes | None = None
    rto_client: RecoveryTimes | None = None
    availability: Mapping[str, float | None] = NOTHING
    latency_ms: Mapping[str, float | None] = NOTHING
    throughput_ops_s: float | None = None
    faults: tuple[Row, ...] = ()
    series: Mapping[str, Sequence[float | None]] = NOTHING
    roles: tuple[Row, ...] = ()
    rpo: RecoveryPoint = RecoveryPoint()
    retention: Retained | None = None
    is_interrupted: bool = False
    latency_from_intended_ms: Mapping[str, float | None] | None = None
    stalls: Row | None = None
    under_faults: tuple[Row, ...] | None = None
    client: str | None = None
    silences: Row | None = None
    promise: str | None = None
    repro: Any = None
    """The command that makes the run again."""
    measures_turns: bool = True
    """False for a run of a version that did not measure the turns of its nodes; it is no member of the file."""

    @classmethod
    def of_json(cls, document: Row) -> "RunResults":
        """Returns the results that a document holds; raises what a wrong shape raises."""
        given = {MEMBER_OF.get(name, name): value for name, value in document.items() if value is not None}
        fields = {
            name: READERS[name](value) if name in READERS else value for name, value in given.items() if name in FIELDS
        }
        return cls(**fields, measures_turns="longest_turn" in document)

    def as_json(self) -> dict[str, Any]:
        """Returns the content of results.json."""
        document: dict[str, Any] = {}
        for name in FIELDS:
            value = getattr(self, name)
            if value is not None or name in ALWAYS:
                document[FIELD_OF.get(name, name)] = _as_json(value)
        return document


FIELDS: Final = tuple(field.name for field in attrs.fields(RunResults) if field.name != "measures_turns")
FIELD_OF: Final = {"rto": "rto_s", "rto_client": "rto_client_s"}
"""The members of the file whose fields have other names."""
MEMBER_OF: Final = {member: field for field, member in FIELD_OF.items()}
ALWAYS: Final = frozenset({"valid", "model", "engine", "duplicated", "longest_turn", "rto", "throughput_ops_s"})
"""The members that the file has even where there is nothing to state."""


def count(value: Any) -> int:
    """Returns a number, or the number of a list's members, or of its counted members."""
    if isinstance(value, list | tuple):
        return sum(int(row.get("records") or row.get("count") or 1) if isinstance(row, Mapping) else 1 for row in value)
    return int(value or 0)


def _read_rows(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()


def _read_turn(value: Row) -> LongestTurn:
    return LongestTurn(**{field.name: value.get(field.name) for field in attrs.fields(LongestTurn)})  # type: ignore[arg-type]


READERS: Final[Mapping[str, Any]] = {
    "checks": lambda value: {name: CheckResult.of_json(row) for name, row in value.items()},
    "ops": OperationCounts.of_json,
    **dict.fromkeys(("acked", "lost_acked", "expired", "unseen", "recovered", "duplicated", "attempted"), count),
    **dict.fromkeys(
        ("unknown", "not_tested", "lost_allowed", "tolerated", "lost", "violations", "elections", "faults", "roles"),
        _read_rows,
    ),
    "under_faults": _read_rows,
    "given": lambda value: Given(int(value["messages"]), int(value["again"])),
    "longest_turn": _read_turn,
    "rto": RecoveryTimes.of_json,
    "rto_client": RecoveryTimes.of_json,
    "rpo": lambda value: RecoveryPoint(value.get("records"), value.get("s")),
    "retention": lambda value: Retained(int(value.get("trims") or 0), int(value.get("snapshots") or 0)),
    "is_interrupted": bool,
}
"""Readers of the members whose fields are values of their own."""


def _as_json(value: Any) -> Any:
    match value:
        case CheckResult() | RecoveryTimes():
            return value.as_json()
        case tuple():
            return list(value)
        case Mapping():
            return {name: _as_json(each) if isinstance(each, CheckResult) else each for name, each in value.items()}
        case _ if attrs.has(type(value)):
            return attrs.asdict(value)
        case _:
            return value
