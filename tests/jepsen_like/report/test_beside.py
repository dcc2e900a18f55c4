"""The page of two systems names what differs, shows every figure of both, and leads to both reports."""

import json
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.record.behaviour import ENDS, OFFSETS, RECOVERY, Value
from jepsen_like.report.beside import BESIDE, describe_difference, lines_of, render_beside, word_of
from jepsen_like.report.findings import UnreadableRun
from tests.jepsen_like.report.test_report import strip_tags

ROWS = [
    {"aspect": ENDS, "name": "write ok", "first": 0.9, "beside": 0.984, "differs": True},
    {"aspect": RECOVERY, "name": "1 kill leader", "first": 2.5, "beside": None, "differs": False},
]


def tell(*valid: bool | None, **changes: Any) -> dict[str, Any]:
    systems = ("kafka", "apache-kafka")
    runs = [{"system": name, "directory": name, "valid": each} for name, each in zip(systems, valid, strict=True)]
    differences = [describe_difference(row, systems) for row in ROWS if row["differs"]]
    return {"command": "quorumlog run", "runs": runs, "rows": ROWS, "differences": differences, **changes}


@pytest.mark.parametrize(
    ("valid", "changes", "headline"),
    [
        ((True, False), {}, "A promise was broken"),
        ((True, None), {}, "A run could not be decided"),
        ((True, True), {}, "Both kept their promises, and they differ"),
        ((True, True), {"differences": []}, "Both kept their promises, and are alike"),
    ],
)
def test_the_worst_comes_first(tmp_path: Path, valid: tuple[bool | None, ...], changes: Any, headline: str) -> None:
    (tmp_path / BESIDE).write_text(json.dumps(tell(*valid, **changes)))
    page = render_beside(tmp_path).read_text()
    assert headline in strip_tags(page)
    assert 'href="apache-kafka/report.html"' in page


def test_a_difference_is_named_with_both_figures_and_its_tolerance(tmp_path: Path) -> None:
    (tmp_path / BESIDE).write_text(json.dumps(tell(True, True)))
    text = strip_tags(render_beside(tmp_path).read_text())
    assert "ends, write ok: kafka 90.0%, apache-kafka 98.4% (tolerated: 5% of the action" in text
    assert "2.50 s" in text
    assert [line.split() for line in lines_of(tell(True, True))][1:] == [
        ["!", "ends:", "write", "ok", "90.0%", "98.4%"],
        ["recovery:", "1", "kill", "leader", "2.50", "s", "never"],
    ]


@pytest.mark.parametrize(
    ("aspect", "value", "words"),
    [(OFFSETS, 1234.0, "1,234"), (OFFSETS, None, "-"), (OFFSETS, 0.25, "0.25"), (RECOVERY, "not done", "not done")],
)
def test_a_figure_is_read_by_people(aspect: str, value: Value, words: str) -> None:
    assert word_of(aspect, value) == words


def test_a_directory_of_no_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRun):
        render_beside(tmp_path)
