"""The index of a directory has every run of it, in the colour of what was lost, and all that two of them are compared by."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.report.findings import UnreadableRun
from jepsen_like.report.index import COLUMNS, render_index
from tests.jepsen_like.report.made_up_runs import made_up_run


def change_run(run: Path, settings: dict[str, Any] | None = None, **results: Any) -> Path:
    """Changes the results of the run, and its settings."""
    for name, more in (("results.json", results), ("test.json", {"settings": settings} if settings else {})):
        told = json.loads((run / name).read_text())
        (run / name).write_text(json.dumps({**told, **more}))
    return run


@pytest.fixture
def page(tmp_path: Path) -> str:
    """Of one run of each kind, one of them in a matrix, and a link to the latest."""
    made_up_run(tmp_path / "1-valid")
    allowed = [{"records": 5, "promise": "raft, flush=none: x"}]
    lossy = made_up_run(tmp_path / "2-matrix" / "01")
    change_run(lossy, {"flush": "none"}, lost_acked=5, lost_allowed=allowed)
    lost = {"lost": {"valid": False, "count": 2, "examples": ["<b>log 0</b>: the append of 5 is lost"]}}
    change_run(made_up_run(tmp_path / "3-violated"), valid=False, lost_acked=2, checks=lost)
    change_run(made_up_run(tmp_path / "4-open"), valid=None, unknown=["no kill hit a leader"])
    (made_up_run(tmp_path / "5-ended") / "results.json").unlink()
    (tmp_path / "latest").symlink_to("5-ended")
    (tmp_path / "1-valid" / "report.html").touch()
    return render_index(tmp_path).read_text()


def rows(page: str) -> dict[str, list[str]]:
    """The cells of each row, by the run's name."""
    (body,) = re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL)
    found = [
        re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)[1:] for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL)
    ]
    return {re.sub(r"<.*?>", "", cells[0]): cells for cells in found}


def test_every_run_has_a_row_and_what_was_lost_is_never_green(page: str) -> None:
    kinds = dict(re.findall(r'data-kind="(\w+)" data-name="([^"]+)"', page))
    assert len(rows(page)) == 5
    assert {name: kind for kind, name in re.findall(r'data-kind="(\w+)" data-name="([^"]+)"', page)} == {
        "1-valid": "valid",
        "2-matrix/01": "allowed",
        "3-violated": "violated",
        "4-open": "unknown",
        "5-ended": "unknown",
    }
    assert set(kinds) == {"valid", "allowed", "violated", "unknown"}
    assert all(len(cells) == len(COLUMNS) for cells in rows(page).values())
    assert [cells[6] for cells in rows(page).values()] == ["", "0", "2", "5", "0"]
    assert '<header class="verdict violated">' in page


def test_a_row_leads_to_its_report_where_there_is_one(page: str) -> None:
    assert rows(page)["1-valid"][0] == '<a href="1-valid/report.html">1-valid</a>'
    assert rows(page)["4-open"][0] == "4-open"


def test_the_page_has_what_two_runs_are_compared_by(page: str) -> None:
    (told,) = re.findall(r'<script type="application/json" id="told">(.*?)</script>', page, re.DOTALL)
    by_name = {run["name"]: run["told"] for run in json.loads(unescape(told))}
    assert by_name["2-matrix/01"]["settings"]["flush"] == "none"
    assert by_name["1-valid"]["settings"]["flush"] == "before-ack"
    assert list(by_name["1-valid"]["verdict"])[:3] == ["verdict", "acked", "lost"]
    assert by_name["3-violated"]["verdict"]["lost"] == "2"
    assert by_name["3-violated"]["verdict"]["why lost"] == "<b>log 0</b>: the append of 5 is lost"
    assert "served again after" in by_name["1-valid"]["faults"]["1"]
    assert "the run did not finish" in by_name["5-ended"]["verdict"]["why"]


def test_the_page_stands_alone_and_takes_nothing_for_markup(page: str) -> None:
    assert "<b>log 0" not in page
    assert re.findall(r'(?:src|href)="(?!\d-)[^"]*"', page) == []


def test_a_directory_without_runs_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnreadableRun):
        render_index(tmp_path)
    assert execute(["report", "--index", str(tmp_path)]) == ExitStatus.USAGE
    assert "holds no run directories" in capsys.readouterr().err
