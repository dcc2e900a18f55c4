"""One page about two systems under the same load and faults: their figures side by side, and which differ by more than is tolerated.

The directory of such a pair holds a JSON file about both, and a run directory for each system.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from jepsen_like.record.behaviour import ENDS, RECOVERY, REDELIVERY, Value
from jepsen_like.record.beside import TOLERANCES
from jepsen_like.report.findings import read_told
from jepsen_like.report.page import fill

BESIDE: Final = "beside.json"
SHARES: Final = (ENDS, REDELIVERY)
BROKEN: Final = {"kind": "violated", "word": "Violated", "sign": "✗", "headline": "A promise was broken"}
UNDECIDED: Final = {"kind": "unknown", "word": "Unknown", "sign": "?", "headline": "A run could not be decided"}
APART: Final = {
    "kind": "allowed",
    "word": "Apart",
    "sign": "!",
    "headline": "Both kept their promises, and they differ",
}
ALIKE: Final = {"kind": "valid", "word": "Alike", "sign": "✓", "headline": "Both kept their promises, and are alike"}


def render_beside(directory: Path) -> Path:
    """Write a pair's `report.html` and return its path. Raises `UnreadableRun` if its file is missing."""
    told = read_told(directory / BESIDE)
    page = fill(
        "beside.html.jinja",
        verdict=sum_up(told),
        runs=told["runs"],
        command=told["command"],
        differences=told["differences"],
        aspects=[
            {"name": aspect, "tolerance": TOLERANCES[aspect].words, "rows": [_show(row) for row in rows]}
            for aspect, rows in itertools.groupby(told["rows"], key=lambda row: str(row["aspect"]))
        ],
        directory=directory.resolve().name,
    )
    path = directory / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def sum_up(told: Mapping[str, Any]) -> Mapping[str, str]:
    """The banner: a broken promise, then what could not be decided, then differences."""
    verdicts = [run["valid"] for run in told["runs"]]
    if False in verdicts:
        return BROKEN
    if None in verdicts:
        return UNDECIDED
    return APART if told["differences"] else ALIKE


def _show(row: Mapping[str, Any]) -> dict[str, Any]:
    words = {name: word_of(row["aspect"], row[name]) for name in ("first", "beside")}
    return {"name": row["name"], "differs": row["differs"], **words}


def word_of(aspect: str, value: Value) -> str:
    """Returns a figure as people read it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "never" if aspect == RECOVERY else "-"
    if aspect in SHARES:
        return f"{value:.1%}"
    if aspect == RECOVERY:
        return f"{value:.2f} s"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def lines_of(told: Mapping[str, Any]) -> list[str]:
    """The same as lines for a terminal; a figure that differs has a mark."""
    first, beside = (run["system"] for run in told["runs"])
    rows: list[tuple[str, ...]] = [("", "", first, beside)]
    for row in told["rows"]:
        name = f"{row['aspect']}: {row['name']}"
        rows.append(
            ("!" if row["differs"] else "", name, *(word_of(row["aspect"], row[of]) for of in ("first", "beside")))
        )
    return _align(rows)


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def describe_difference(row: Mapping[str, Any], systems: Sequence[str]) -> str:
    """Returns one difference in words, with what would be tolerated."""
    aspect = row["aspect"]
    values = zip(systems, (word_of(aspect, row[name]) for name in ("first", "beside")), strict=True)
    told = ", ".join(f"{system} {value}" for system, value in values)
    return f"{aspect}, {row['name']}: {told} (tolerated: {TOLERANCES[aspect].words})"
