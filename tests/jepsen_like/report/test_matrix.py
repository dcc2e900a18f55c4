"""The page of a matrix: each cell in the colour of what was lost, the reasons of those not done, and who is ahead in what."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.report.findings import UnreadableRun
from jepsen_like.report.matrix import render_matrix
from jepsen_like.report.matrix_words import BROKEN, KEPT, LOST, NOT_DONE, UNDECIDED, answers, cell_words, kind_of
from tests.jepsen_like.report.test_report import strip_tags

MACHINE = {"cpu": "A processor", "cores": "2", "memory": "8 GiB", "kernel": "Linux 6", "disk": "a disk", "python": "3"}


def row(way: str, column: str, **changes: Any) -> dict[str, Any]:
    return {
        "way": way,
        "column": column,
        "reason": None,
        "directory": "01",
        "report": "01/report.html",
        "valid": True,
        "why": "",
        "acked": 2000,
        "lost": 0,
        "lost_allowed": 0,
        "rto_s": 1.25,
        "unrecovered": 0,
        "down_s": 1.0,
        "rate_s": 400.0,
        "p50_ms": 1.5,
        "p99_ms": 9.0,
        **changes,
    }


def make_document(*rows: dict[str, Any]) -> dict[str, Any]:
    return {
        "command": "quorumlog matrix --seed 1",
        "machine": MACHINE,
        "quick": True,
        "seed": 1,
        "ways": [{"name": name, "system": "raft", "waits": f"the disks of {name}"} for name in ("safe", "fast")],
        "columns": [{"name": name, "story": f"What {name} does."} for name in ("none", "kill", "wipe")],
        "cells": list(rows),
        "answers": answers({"cells": list(rows)}),
    }


ROWS = (
    row("safe", "none", rate_s=1000.0),
    row("safe", "kill", down_s=0.5),
    row("safe", "wipe", reason="wipe: a voter would vote once more"),
    row("fast", "none", rate_s=3000.0),
    row("fast", "kill", lost=358, lost_allowed=358, down_s=2.0),
    row("fast", "wipe", lost=12, lost_allowed=12, down_s=0.1),
)


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({}, KEPT, "kept all, 1.25 s"),
        ({"lost": 358, "lost_allowed": 358}, LOST, "lost 358, 1.25 s"),
        ({"valid": False, "lost": 3}, BROKEN, "BROKEN, lost 3, 1.25 s"),
        ({"valid": False}, BROKEN, "BROKEN, lost 0, 1.25 s"),
        ({"valid": None, "unrecovered": 1, "rto_s": None}, UNDECIDED, "undecided, never back"),
        ({"reason": "no power here"}, NOT_DONE, "not done"),
        ({"column": "none"}, KEPT, "400/s"),
        ({"column": "none", "lost": 2}, LOST, "400/s lost 2"),
    ],
)
def test_only_a_cell_that_kept_all_looks_so(changes: dict[str, Any], kind: str, words: str) -> None:
    cell = {**row("safe", "kill"), **changes}
    assert (kind_of(cell), cell_words(cell)) == (kind, words)


def test_no_mode_is_called_ahead_in_all_that_is_not() -> None:
    assert answers({"cells": ROWS}) == [
        "Fastest: fast, 3,000 acknowledged records per second without a fault.",
        "Shortest without service: safe, 0.50 s in all under kill.",
        "Kept all in every cell that ran: safe.",
        "No mode is ahead in all three at once.",
    ]
    best = [*ROWS[:3], row("fast", "none", rate_s=900.0), *ROWS[4:]]
    assert answers({"cells": best})[-1] == "Ahead in all three at once: safe."
    away = [row("safe", "none"), row("safe", "kill", unrecovered=1, rto_s=None), *ROWS[3:]]
    assert answers({"cells": away})[1] == "Shortest without service: fast, 2.00 s in all under kill."
    down = [row("safe", "none"), row("safe", "kill", valid=False, lost=0), *ROWS[3:]]
    assert answers({"cells": down})[2] == "Kept all in every cell that ran: none."
    assert "cannot be told" in answers({"cells": ROWS[:1]})[0]


def test_every_cell_is_a_link_in_its_colour_or_has_a_reason(tmp_path: Path) -> None:
    (tmp_path / "matrix.json").write_text(json.dumps(make_document(*ROWS)))
    page = render_matrix(tmp_path).read_text()
    cells = re.findall(r'<td class="(\w+)">(<a href="01/report.html"|<div)', page)
    assert [kind for kind, _ in cells] == ["valid", "valid", "absent", "valid", "allowed", "allowed"]
    assert [link.startswith("<a") for _, link in cells] == [True, True, False, True, True, True]
    text = strip_tags(page)
    assert "what modes allow was lost" in text
    assert "a voter would vote once more" in text
    assert "No mode is ahead in all three at once." in text
    assert "What kill does." in text
    assert page.count('<g class="mode ') == 2
    assert '<g class="mode allowed"><circle' in page


@pytest.mark.parametrize(
    ("changes", "headline"),
    [
        ({"valid": False}, "A promise was broken"),
        ({"valid": None}, "A cell could not be decided"),
        ({}, "nothing was lost"),
    ],
)
def test_the_banner_is_the_worst_of_all_cells(tmp_path: Path, changes: dict[str, Any], headline: str) -> None:
    (tmp_path / "matrix.json").write_text(
        json.dumps(make_document(row("safe", "none"), row("safe", "kill", **changes)))
    )
    assert headline in strip_tags(render_matrix(tmp_path).read_text())


def test_a_matrix_without_its_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRun, match=r"matrix\.json"):
        render_matrix(tmp_path)
