"""A scenario many times over: the same trials with other draws of what its faults do, and one table of what came of each.

What a fault names stays: its target and its time. Its seed is drawn, and with it the order of stops and starts, the signal, the node
whose disk is touched and the file; of the kinds that touch a disk the kind is drawn, too.
"""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from jepsen_like.nemesis.contents import CONTENT_KINDS
from jepsen_like.nemesis.nemesis import HEAL, FaultRecord
from jepsen_like.port.scenario import Shows, Trial
from jepsen_like.record.results import RecoveryTimes, RunResults

COLUMNS = ("draw", "trial", "what was done", "acknowledged", "lost", "served after")


def redrawn(trial: Trial, seed: int, number: int) -> Trial:
    """Returns the trial of one draw; the same seed and number draw the same."""
    rng = random.Random(f"draw {seed} {number}")
    faults = tuple(
        attrs.evolve(
            fault,
            kind=rng.choice(CONTENT_KINDS) if fault.kind in CONTENT_KINDS else fault.kind,
            seed=rng.getrandbits(32),
        )
        for fault in trial.faults
    )
    return attrs.evolve(trial, faults=faults)


def excuse(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows of all draws. A trial that is to show a loss has shown it if any draw of it has."""
    shown = {row["name"] for row in rows if row["shows"] == Shows.LOSS.value and not row["missing"]}
    return [{**row, "missing": None} if row["name"] in shown and row["lost"] == 0 else row for row in rows]


def row_of(number: int, row: dict[str, Any], directory: Path, results: RunResults) -> tuple[str, ...]:
    """One line of the table; `row` as scenario.json has it, and the run itself in `directory`."""
    return (
        str(number),
        str(row["name"]),
        "; ".join(describe_fault(fault) for fault in faults_of(directory)) or "nothing",
        f"{row['acked']:,}",
        f"{row['lost']:,}",
        ", ".join(map(served_after, (results.rto or RecoveryTimes()).faults or ())) or "-",
    )


def faults_of(directory: Path) -> list[FaultRecord]:
    """The faults that a run has recorded."""
    rows = [json.loads(line) for line in (directory / "nemesis.jsonl").read_text().splitlines()]
    return [FaultRecord.of_row(row) for row in rows if row["kind"] != HEAL]


def describe_fault(fault: FaultRecord) -> str:
    """Returns what a fault did, in words: stops and starts, and what was seen of the disks."""
    if fault.withheld:
        return f"{fault.kind} withheld: {fault.withheld}"
    touched = [fault.observed[str(node)].partition("; ")[2] for node in fault.harmed if str(node) in fault.observed]
    names = ", ".join(f"n{node}" for node in fault.harmed or fault.nodes)
    order = fault.observed.get("order", "")
    return f"{fault.kind} of {names}: {'; '.join([*touched, order] if order else touched) or fault.target}"


def served_after(recovery: Mapping[str, Any]) -> str:
    """Returns how long after the end of a fault a write was acknowledged that began after it was complete."""
    if recovery["s"] is None or not recovery["recovered"]:
        return "never"
    return f"{max(0.0, recovery['s'] - recovery['hold_s']):.1f} s"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of the table, for a terminal and for a document alike."""
    widths = [max(len(row[column]) for row in (COLUMNS, *rows)) for column in range(len(COLUMNS))]
    lines = [" | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in (COLUMNS, *rows)]
    ruler = " | ".join("-" * width for width in widths)
    return [f"| {line} |" for line in (lines[0], ruler, *lines[1:])]
