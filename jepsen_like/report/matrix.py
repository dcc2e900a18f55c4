"""One page about a matrix: every way to replicate under every fault in one table, and a picture of their trades.

A directory of a matrix holds `matrix.json` and a run directory for each cell, whose own page tells the rest.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from jepsen_like.report import matrix_words
from jepsen_like.report.canvas import Scale, element, round_off, seconds, ticks
from jepsen_like.report.findings import read_told
from jepsen_like.report.index import index_runs, render_index
from jepsen_like.report.matrix_words import BROKEN, CALM, KEPT, LOST, NOT_DONE, UNDECIDED
from jepsen_like.report.page import fill

MATRIX: Final = "matrix.json"
FACES: Final[Mapping[str, tuple[str, str, str]]] = {
    BROKEN: ("violated", "✗", "A promise was broken"),
    UNDECIDED: ("unknown", "?", "A cell could not be decided"),
    LOST: ("allowed", "!", "Every promise was kept, and what modes allow was lost"),
    KEPT: ("valid", "✓", "Every promise was kept, and nothing was lost"),
    NOT_DONE: ("unknown", "?", "Nothing was run"),
}
"""By the worst cell: how the banner looks, its sign and its headline. The worst comes first."""
WIDTH, HEIGHT = 1100.0, 380.0
LEFT, RIGHT, TOP, BOTTOM = 70.0, 30.0, 20.0, 50.0
RADIUS_MIN, RADIUS_MAX = 11.0, 30.0


def render_matrix(directory: Path) -> Path:
    """Write a matrix's `matrix.html` and return its path. Raises `UnreadableRun` if it has no matrix.json."""
    told = read_told(directory / MATRIX)
    kinds = {matrix_words.kind_of(row) for row in told["cells"]}
    kind, sign, headline = next(face for of, face in FACES.items() if of in kinds or of == NOT_DONE)
    present = list(dict.fromkeys(row["column"] for row in told["cells"]))
    stories = {column["name"]: column["story"] for column in told["columns"]}
    text = fill(
        "matrix.html.jinja",
        kind=kind,
        sign=sign,
        headline=headline,
        answers=told["answers"],
        command=told["command"],
        machine=told["machine"],
        quick=told["quick"],
        directory=directory.resolve().name,
        columns=[{"name": name, "story": stories[name]} for name in present],
        rows=[_row(told, number, way) for number, way in enumerate(matrix_words.ways_of(told), 1)],
        common=", ".join(matrix_words.common(told)),
        chart=chart(told),
        index=render_index(directory).name if any(index_runs(directory)) else "",
    )
    path = directory / "matrix.html"
    path.write_text(text, encoding="utf-8")
    return path


def _row(told: Mapping[str, Any], number: int, way: str) -> dict[str, Any]:
    waits = {each["name"]: each["waits"] for each in told["ways"]}
    cells = [_cell(row) for row in told["cells"] if row["way"] == way]
    return {"number": number, "name": way, "waits": waits[way], "cells": cells}


def _cell(row: Mapping[str, Any]) -> dict[str, str]:
    kind = matrix_words.kind_of(row)
    if kind == NOT_DONE:
        return {"kind": kind, "head": "not done", "lines": row["reason"], "report": "", "why": ""}
    figures = f"{row['rate_s']:,.0f} acked/s"
    if row["column"] == CALM:
        p50, p99 = (f"{value:.1f} ms" if value is not None else "-" for value in (row["p50_ms"], row["p99_ms"]))
        figures = f"p50 {p50}, p99 {p99}"
        head = f"{row['rate_s']:,.0f} acked/s" if kind == KEPT else matrix_words.verdict(row)
    else:
        head, figures = matrix_words.verdict(row), f"RTO {matrix_words.away(row)}, {figures}"
    why = row["why"] if kind in (BROKEN, UNDECIDED) else ""
    return {"kind": kind, "head": head, "lines": figures, "report": row["report"], "why": why}


# -------------------------------------------------------------------- the picture


def chart(told: Mapping[str, Any]) -> Markup | None:
    """Speed to the right, time without service upwards, size as the loss; None without enough cells."""
    faults = matrix_words.common(told)
    points = []
    for number, way in enumerate(matrix_words.ways_of(told), 1):
        calm = matrix_words.cells_that_ran(told, way).get(CALM)
        away_s = matrix_words.away_s(told, way, faults)
        if calm is not None and away_s is not None:
            points.append((number, way, float(calm["rate_s"]), away_s, matrix_words.lost_of(told, way)))
    if not points:
        return None
    fastest, longest = max(each[2] for each in points), max(each[3] for each in points)
    most = max(each[4] for each in points)
    across = Scale(0.0, max(fastest * 1.1, 1.0), LEFT, WIDTH - RIGHT)
    upwards = Scale(0.0, max(longest * 1.15, 1.0), HEIGHT - BOTTOM, TOP)
    drawn = [*_axes(across, upwards)]
    for number, way, rate, away_s, lost in sorted(points, key=lambda point: -point[4]):
        radius = RADIUS_MIN + (RADIUS_MAX - RADIUS_MIN) * math.sqrt(lost / most) if most else RADIUS_MIN
        kinds = {matrix_words.kind_of(row) for row in matrix_words.cells_that_ran(told, way).values()}
        tone = next((kind for kind in (BROKEN, UNDECIDED) if kind in kinds), LOST if lost else KEPT)
        said = f"{way}: {rate:,.0f} acked/s, {seconds(away_s)} without service, {lost:,} lost"
        x, y = across(rate), upwards(away_s)
        circle = element("circle", element("title", said), cx=x, cy=y, r=radius)
        label = element("text", str(number), x=x, y=y + 4.5, text_anchor="middle")
        drawn.append(element("g", circle, label, class_=f"mode {tone}"))
    return element("svg", *drawn, viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", role="img", aria_label="speed, outage and loss")


def _axes(across: Scale, upwards: Scale) -> list[Markup]:
    drawn = []
    for value in ticks(across.high, 8):
        x = across(value)
        drawn.append(element("line", class_="grid", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM))
        drawn.append(
            element("text", round_off(value), class_="tick", x=x, y=HEIGHT - BOTTOM + 16, text_anchor="middle")
        )
    for value in ticks(upwards.high, 6):
        y = upwards(value)
        drawn.append(element("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
        drawn.append(element("text", f"{value:g} s", class_="tick", x=LEFT - 8, y=y + 4, text_anchor="end"))
    drawn.append(
        element("text", "acknowledged records per second without a fault →", class_="panel", x=LEFT, y=HEIGHT - 12)
    )
    drawn.append(element("text", "↑ without service under faults", class_="panel", x=LEFT + 6, y=TOP + 10))
    return drawn
