"""The page of a scenario: all its trials in one table, and the worst of them in its banner."""

import json
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.report.comparison import render_comparison
from jepsen_like.report.findings import UnreadableRun
from tests.jepsen_like.report.made_up_runs import change_results, made_up_run
from tests.jepsen_like.report.test_queue_report import history_written, queue_run, states_written
from tests.jepsen_like.report.test_report import strip_tags

LOSS = {"records": 12, "begin_s": 3.0, "end_s": 4.0, "sentence": "12 acknowledged records at offsets 1 to 12"}


def row(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "name": f"acks={number}",
        "directory": str(number),
        "valid": True,
        "acked": 60_803,
        "lost": 0,
        "lost_allowed": 0,
        "stalls": None,
        "silences": None,
        "shows": "nothing is lost",
        "missing": None,
        **changes,
    }


def scenario(directory: Path, *rows: dict[str, Any]) -> Path:
    told = {"name": "kills", "system": "kafka", "story": "Leaders are killed.", "command": "quorumlog scenario kills"}
    (directory / "scenario.json").write_text(json.dumps({**told, "trials": rows}))
    return directory


def test_trials_stand_in_one_table_and_below_each_other(tmp_path: Path) -> None:
    made_up_run(tmp_path / "1")
    made_up_run(tmp_path / "2", seed=9)
    page = render_comparison(scenario(tmp_path, row(1), row(2))).read_text()
    text = strip_tags(page)
    assert "Every promise was kept" in text
    assert "quorumlog scenario kills" in text
    for number in (1, 2):
        assert f'href="#trial-{number}"' in page
        assert f'id="trial-{number}"' in page
        assert f'href="{number}/report.html"' in page
    ids = [part.split('"')[0] for part in page.split('id="')[1:]]
    assert len(ids) == len(set(ids)), "a picture would take its hatching from another one"


@pytest.mark.parametrize(
    ("changes", "headline"),
    [
        ({"valid": False, "missing": "no loss"}, "A promise was broken"),
        ({"valid": None}, "The scenario did not come about"),
        ({"missing": "no loss was found"}, "The scenario did not come about"),
        ({"lost": 12, "lost_allowed": 12}, "Every promise was kept, and what a mode allows was lost"),
    ],
)
def test_the_banner_is_the_worst_of_all_trials(tmp_path: Path, changes: dict[str, Any], headline: str) -> None:
    made_up_run(tmp_path / "1")
    change_results(made_up_run(tmp_path / "2"), valid=changes.get("valid", True))
    text = strip_tags(render_comparison(scenario(tmp_path, row(1), row(2, **changes))).read_text())
    assert headline in text
    assert ("did not come about: " in text) is bool(changes.get("missing"))


def test_groups_are_shown_with_how_long_they_stood_still(tmp_path: Path) -> None:
    run = queue_run(tmp_path / "1")
    history_written(run)
    states_written(run)
    stalls = {"groups_s": {"billing": 8.5, "auditors": None}, "reads_s": 0.05}
    text = strip_tags(render_comparison(scenario(tmp_path, row(1, stalls=stalls))).read_text())
    assert "billing 8.50 s, auditors always" in text
    assert "50.0 ms" in text
    assert "Group billing" in text


def test_a_scenario_without_its_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRun, match=r"scenario\.json"):
        render_comparison(tmp_path)
