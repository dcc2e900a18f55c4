"""What the faults of a recorded run were allowed to cost, from what the run has written down."""

import json
from pathlib import Path

import attrs

from jepsen_like.checker.allowance import Allowance
from jepsen_like.nemesis.table import KINDS
from jepsen_like.systems.registry import system_named

OLDEST_SYSTEM = "raft"
"""The system of a run whose test.json names none."""


@attrs.frozen
class _FaultRead:
    """A row of `nemesis.jsonl`, as far as it matters here."""

    id: int
    kind: str
    nodes: tuple[int, ...]
    begun_ns: int
    injected_ns: int


def allowances_of_run(directory: Path) -> tuple[Allowance, ...]:
    """The same from what a run has written down; none for a directory that is not of a run, or of an older one.

    `ValueError` if what tells of its faults is damaged, or of its mode is missing: nobody knows what it was allowed to lose.
    """
    plan, happened = directory / "test.json", directory / "nemesis.jsonl"
    if not happened.exists():
        return ()
    try:
        test = json.loads(plan.read_text())
        rows = [json.loads(line) for line in happened.read_text().splitlines()]
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{plan.name} or {happened.name} is missing or damaged ({error}), so nobody knows what the run was allowed to lose; "
            "name the history in it to hold that alone against a mode that loses nothing"
        ) from error
    try:
        faults = [
            _FaultRead(row["id"], row["kind"], tuple(row["nodes"]), row["begun_ns"], row["injected_ns"])
            for row in rows
            if row["kind"] in KINDS and not row.get("withheld")
        ]
        return system_named(test.get("system", OLDEST_SYSTEM)).mode_of(test).allowances(faults)
    except (KeyError, TypeError):
        return ()
