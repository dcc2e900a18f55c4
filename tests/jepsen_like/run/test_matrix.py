"""The matrix has a cell or a reason for every mode under every fault, and nothing that lost a record looks as if it had kept all."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.cli import ExitStatus
from jepsen_like.run.command import validate
from jepsen_like.run.matrix import carry_out_all, command_of, status_of
from jepsen_like.run.matrix_plan import CALM, COLUMNS, WAYS, cells
from tests.jepsen_like.report.test_matrix import row


def test_every_mode_has_a_run_or_a_reason_under_every_fault() -> None:
    every = list(cells(frozenset(), 1, quick=True))
    assert [(cell.way.name, cell.column.name) for cell in every] == [
        (way.name, column.name) for way in WAYS for column in COLUMNS
    ]
    for cell in every:
        if cell.reason is None:
            validate(cell.plan)
            assert all(fault.at_s + fault.hold_s < cell.plan.duration_s for fault in cell.plan.faults()), cell.words
        else:
            assert len(cell.reason.split()) > 3
    done = {(cell.way.system, cell.column.name) for cell in every if cell.reason is None}
    assert {(way.system, name) for way in WAYS for name in (CALM, "kill", "pause", "partition")} <= done


def test_faults_of_a_column_begin_at_the_same_times_in_every_mode() -> None:
    for column in COLUMNS:
        shared = [tuple(fault.at_s for fault in column.faults(way))[:1] for way in WAYS]
        assert len(set(shared)) == 1, column.name
    loads = {(cell.plan.seed, cell.plan.rate, cell.column.name) for cell in cells(frozenset(), 7, quick=False)}
    assert len(loads) == len(COLUMNS)


def test_rows_and_columns_are_chosen_by_name() -> None:
    (one,) = cells(frozenset(["kill", "kafka, acks=1"]), 1, quick=True)
    assert one.words == "kafka, acks=1 · kill"
    assert len(list(cells(frozenset(["kill"]), 1, quick=True))) == len(WAYS)
    again = command_of(frozenset(["kill", "kafka, acks=1"]), 3, quick=True)
    assert again == "quorumlog matrix --seed 3 --only 'kafka, acks=1' --only kill --quick"


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, ExitStatus.VALID),
        ({"lost": 9, "lost_allowed": 9}, ExitStatus.VALID),
        ({"reason": "wipe: a voter would vote once more"}, ExitStatus.VALID),
        ({"reason": "did not start: no node was elected"}, ExitStatus.UNKNOWN),
        ({"valid": None}, ExitStatus.UNKNOWN),
        ({"valid": False, "lost": 1}, ExitStatus.VIOLATION),
    ],
)
def test_a_matrix_ends_as_its_worst_cell(changes: dict[str, Any], status: ExitStatus) -> None:
    assert status_of([row("raft", "kill"), row("raft", "pause", **changes)]) is status


def test_what_was_done_is_kept_when_a_run_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    todo = list(cells(frozenset(["kill"]), 1, quick=True))[:3]
    ends = iter([row(todo[0].way.name, "kill"), {**row(todo[1].way.name, "kill"), "reason": "interrupted"}])
    monkeypatch.setattr("jepsen_like.run.matrix.carry_out", lambda *_: next(ends))
    told: dict[str, Any] = {"cells": [{}, {}, {"reason": "not run yet"}]}
    assert carry_out_all(todo, told, tmp_path, None, None) is False  # type: ignore[arg-type]
    kept = json.loads((tmp_path / "matrix.json").read_text())["cells"]
    assert [each["reason"] for each in kept] == [None, "interrupted", "not run yet"]


@pytest.mark.campaign
@pytest.mark.cluster
def test_a_cell_runs_on_a_real_cluster_and_leads_to_its_report(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jepsen_like.cli", "matrix", "--only", "raft, before-ack", "--only", "kill"]
    ended = subprocess.run(
        [*command, "--quick", "--json", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == ExitStatus.VALID, ended.stderr
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told == json.loads((tmp_path / "latest" / "matrix.json").read_text())
    (cell,) = told["cells"]
    assert (cell["valid"], cell["lost"]) == (True, 0)
    assert cell["rto_s"] > 0
    assert (tmp_path / "latest" / cell["report"]).is_file()
    page = (tmp_path / "latest" / "matrix.html").read_text()
    assert f'href="{cell["report"]}"' in page
    assert 'href="index.html"' in page
    assert f'href="{cell["report"]}"' in (tmp_path / "latest" / "index.html").read_text()
