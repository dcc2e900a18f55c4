"""The page about claims: a row for each with its verdict, its condition, its price and its figures, every figure leading to its runs.

A directory of claims holds `claims.json` and a run directory for each run. A question has a page of its own, of the same file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from jepsen_like.report.findings import read_told
from jepsen_like.report.page import fill

CLAIMS: Final = "claims.json"
PAGE: Final = "claims.html"
NO_VERDICT: Final = "no verdict"
NOT_ONE: Final = "not an experiment"
HEAD: Final = ("claim", "what it states", "verdict", "measured")
FIGURES_SHOWN: Final = 4
"""A table in a document has so many figures of a claim; its page has all."""
KINDS: Final[Mapping[str, str]] = {
    "holds": "valid",
    "holds if": "allowed",
    "outdated": "dated",
    "false": "refuted",
    NO_VERDICT: "violated",
    NOT_ONE: "absent",
}
"""The look of a verdict where it is as expected; every other one is red."""


def render_claims(directory: Path) -> Path:
    """Write `claims.html`, and a page for each question that was asked; returns the first. Raises `UnreadableRun`."""
    told = read_told(directory / CLAIMS)
    asked = [one for one in told["experiments"] if one["question"] and one["tables"]]
    for one in asked:
        _write(directory / question_page(one), "question.html.jinja", question(one, told, directory))
    text = {
        "kind": _kind_of_all(told["claims"]),
        "headline": headline(told["claims"]),
        "answers": answers(told["claims"]),
        "rows": [_row(row, told, directory) for row in told["claims"]],
        "questions": [{"title": one["question"], "page": question_page(one)} for one in asked],
        "experiments": told["experiments"],
        **_common(told, directory),
    }
    return _write(directory / PAGE, "claims.html.jinja", text)


def _write(path: Path, template: str, values: Mapping[str, Any]) -> Path:
    path.write_text(fill(template, **values), encoding="utf-8")
    return path


def _common(told: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    return {
        "command": told["command"],
        "machine": told["machine"],
        "quick": told["quick"],
        "minutes": f"{told['seconds'] / 60:.0f}" if told["seconds"] >= 60 else "less than 1",
        "directory": directory.resolve().name,
    }


# -------------------------------------------------------------------- all claims


def count_verdicts(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Returns how many claims have each verdict."""
    return {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in KINDS}


def contradictions(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the ids of claims whose verdict is another than the expected one, without a written reason."""
    return [row["id"] for row in rows if not row["agrees"] and row["verdict"] != NO_VERDICT]


def headline(rows: Sequence[Mapping[str, Any]]) -> str:
    """All verdicts in one line."""
    found = count_verdicts(rows)
    told = [f"{found[verdict]} {_plural(verdict, found[verdict])}" for verdict in KINDS if found[verdict]]
    return ", ".join(told) or "Nothing was tried"


def _plural(verdict: str, number: int) -> str:
    if number == 1:
        return {"holds if": "holds on a condition", NO_VERDICT: "without a verdict"}.get(verdict, verdict)
    return {
        "holds": "hold",
        "holds if": "hold on a condition",
        NO_VERDICT: "without a verdict",
        "outdated": "are outdated",
        "false": "are false",
        NOT_ONE: "are not experiments",
    }.get(verdict, verdict)


def answers(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The sentences below the headline."""
    lines = []
    if wrong := contradictions(rows):
        lines.append(f"Another verdict than expected: {', '.join(wrong)}.")
    if silent := [row["id"] for row in rows if row["verdict"] == NO_VERDICT]:
        lines.append(f"No verdict yet: {', '.join(silent)}.")
    if explained := [row["id"] for row in rows if row["because"]]:
        lines.append(f"Another verdict than expected, with its reason: {', '.join(explained)}.")
    return lines or ["Every verdict is as expected."]


def words_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """A claim as a row of `HEAD`: its figures that decide, the first few, each once."""
    verdict = f"{row['verdict']} {row['condition']}".rstrip()
    told = [f"{label_of(figure)} {figure['words']}" for figure in row["figures"] if figure["part"] != "price"]
    measured = list(dict.fromkeys(told))
    more = f"; {len(measured) - FIGURES_SHOWN} more" if len(measured) > FIGURES_SHOWN else ""
    why = row["because"] or row["reason"]
    return (
        row["id"],
        row["says"],
        verdict if row["agrees"] else f"**{verdict}**",
        "; ".join([*measured[:FIGURES_SHOWN]]) + more + (f" {why}" if why else ""),
    )


def _kind_of_all(rows: Sequence[Mapping[str, Any]]) -> str:
    if contradictions(rows):
        return "violated"
    return "unknown" if any(row["verdict"] == NO_VERDICT for row in rows) else "valid"


def _row(row: Mapping[str, Any], told: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    runs = list(dict.fromkeys(run for figure in row["figures"] for run in figure["runs"]))
    stories = {one["name"]: one["story"] for one in told["experiments"]}
    return {
        **row,
        "kind": KINDS[row["verdict"]] if row["agrees"] else "violated",
        "sources": " ".join(row["articles"]),
        "stories": [stories[name] for name in row["experiments"]],
        "figures": [{**figure, "label": label_of(figure)} for figure in row["figures"]],
        "runs": [link_of(run, directory) for run in runs],
    }


def label_of(figure: Mapping[str, Any]) -> str:
    """The name of a figure in words, without the unit that its value has."""
    *words, last = figure["name"].split("_")
    return " ".join(words if words and figure["words"].endswith(f" {last}") else [*words, last])


def link_of(run: str, directory: Path) -> dict[str, str]:
    """The name of a run, and its report where there is one; results that were copied somewhere have none."""
    for name in ("report.html", "index.html"):
        if run and (directory / run / name).is_file():
            return {"name": run, "report": f"{run}/{name}"}
    return {"name": run, "report": ""}


# -------------------------------------------------------------------- one question


def question_page(one: Mapping[str, Any]) -> str:
    """The file of a question's page."""
    return f"{one['name']}.html"


def question(one: Mapping[str, Any], told: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Returns the values of a question's page: the answers, and tables whose cells lead to their runs."""
    rows = [row for row in told["claims"] if row["id"] in one["claims"] and row["id"].startswith("Q")]
    tables = [table for table in one["tables"] if "title" in table]
    return {
        "question": one["question"],
        "story": one["story"],
        "kind": _kind_of_all(rows),
        "answers": [table["answer"] for table in one["tables"] if "answer" in table],
        "unmet": [
            f"{label_of(figure)} is {figure['words']}, expected {figure['expected']}"
            for row in rows
            for figure in row["figures"]
            if not figure["met"]
        ],
        "reason": one["reason"],
        "tables": [
            {
                **table,
                "rows": [[{**cell, **link_of(cell["run"], directory)} for cell in cells] for cells in table["rows"]],
            }
            for table in tables
        ],
        **_common(told, directory),
    }
