"""The matrix has a cell or a reason for every mode under every fault, and nothing that lost a record looks as if it had kept all."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.verdict import Engine
from jepsen_like.cli import ExitStatus
from jepsen_like.record.results import RunResults
from jepsen_like.run.command import validate, write_json
from jepsen_like.run.matrix import (
    begin,
    carry_out,
    carry_out_all,
    command_of,
    keep_what_ran,
    matrix,
    parse_systems,
    place_of,
    status_of,
)
from jepsen_like.run.matrix_plan import CALM, COLUMNS, COPIES, OURS, WAYS, Cell, cells
from tests.jepsen_like.report.test_matrix import row

CONTEXT, OPTION = click.Context(matrix), matrix.params[0]


def test_every_mode_has_a_run_or_a_reason_under_every_fault() -> None:
    every = list(cells(frozenset(), OURS, 1, quick=True))
    assert [(cell.way.name, cell.column.name) for cell in every] == [
        (way.name, column.name) for way in WAYS if way.system in OURS for column in COLUMNS
    ]
    for cell in every:
        if cell.reason is None:
            validate(cell.plan)
            assert all(fault.at_s + fault.hold_s < cell.plan.duration_s for fault in cell.plan.faults()), cell.words
        else:
            assert len(cell.reason.split()) > 3
    done = {(cell.way.system, cell.column.name) for cell in every if cell.reason is None}
    assert {
        (way.system, name) for way in WAYS if way.system in OURS for name in (CALM, "kill", "pause", "partition")
    } <= done


def test_faults_of_a_column_begin_at_the_same_times_in_every_mode() -> None:
    for column in COLUMNS:
        shared = [tuple(fault.at_s for fault in column.faults(way))[:1] for way in WAYS]
        assert len(set(shared)) == 1, column.name
    loads = {(cell.plan.seed, cell.plan.rate, cell.column.name) for cell in cells(frozenset(), OURS, 7, quick=False)}
    assert len(loads) == len(COLUMNS)


def test_rows_and_columns_are_chosen_by_name() -> None:
    (one,) = cells(frozenset(["kill", "kafka, acks=1"]), OURS, 1, quick=True)
    assert one.words == "kafka, acks=1 · kill"
    assert {cell.way.system for cell in cells(frozenset(["kill"]), OURS, 1, quick=True)} == OURS
    (real,) = {cell.way.system for cell in cells(frozenset(), frozenset(["nats"]), 1, quick=True)}
    assert real == "nats"
    again = command_of(frozenset(["kill", "kafka, acks=1"]), OURS, 3, quick=True)
    assert again == "quorumlog matrix --seed 3 --only 'kafka, acks=1' --only kill --quick"
    again = command_of(frozenset(), parse_systems(CONTEXT, OPTION, "etcd,nats"), 3, quick=False)
    assert again == "quorumlog matrix --seed 3 --systems etcd,nats"
    assert command_of(frozenset(), parse_systems(CONTEXT, OPTION, "all"), 3, quick=False).endswith("--systems all")


def test_systems_without_a_row_are_refused_by_name() -> None:
    with pytest.raises(click.BadParameter, match="no 'redis'; there are all, raft"):
        parse_systems(CONTEXT, OPTION, "raft,redis")


def test_each_cell_has_a_directory_of_its_own() -> None:
    every = list(cells(frozenset(), frozenset(way.system for way in WAYS), 1, quick=True))
    assert len({cell.directory for cell in every}) == len(every)
    assert all(re.fullmatch(r"[\w.=-]+", cell.directory) for cell in every)


def test_a_matrix_goes_on_with_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka, nats = "kafka, acks=1", "nats, sync_interval=2m"
    told = begin(list(cells(frozenset([kafka]), OURS, 1, quick=True)), tmp_path, "first", 1, quick=True)
    told["cells"][1] = row(kafka, "kill")
    told["cells"][2] |= {"reason": "interrupted"}
    write_json(tmp_path / "matrix.json", told)
    todo = [cell for name in (nats, kafka) for cell in cells(frozenset([name, "kill", "pause"]), OURS, 1, quick=True)]
    again = begin(todo, tmp_path, "second", 1, quick=True)
    keep_what_ran(again, tmp_path)
    done: list[tuple[str, str]] = []

    def carry_out(cell: Cell, *_: object) -> dict[str, Any]:
        done.append(cell.place)
        return row(*cell.place)

    monkeypatch.setattr("jepsen_like.run.matrix.carry_out", carry_out)
    assert carry_out_all(todo, again, tmp_path, Engine.LOCAL, LocalEngine()) is True
    assert [place for place in done if place[0] == kafka] == [(kafka, "pause")]
    assert [place_of(each) for each in again["cells"] if each["reason"] is None] == [
        *((kafka, name) for name in ("kill", "pause")),
        *(place for place in done if place[0] == nats),
    ]


def test_a_matrix_with_a_row_that_there_is_no_longer_is_not_gone_on_with(tmp_path: Path) -> None:
    write_json(
        tmp_path / "matrix.json", begin([], tmp_path, "first", 1, quick=True) | {"cells": [row("paxos", "kill")]}
    )
    with pytest.raises(click.UsageError, match="of another version of quorumlog: paxos · kill"):
        keep_what_ran(begin([], tmp_path, "second", 1, quick=True), tmp_path)


def test_a_matrix_of_another_seed_is_not_gone_on_with(tmp_path: Path) -> None:
    write_json(tmp_path / "matrix.json", begin([], tmp_path, "first", 1, quick=True))
    with pytest.raises(click.UsageError, match="seed was 1, and is 2"):
        keep_what_ran(begin([], tmp_path, "second", 2, quick=True), tmp_path)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, ExitStatus.VALID),
        ({"lost": 9, "lost_allowed": 9}, ExitStatus.VALID),
        ({"reason": "wipe: a voter would vote once more"}, ExitStatus.VALID),
        ({"reason": "did not start: no node was elected"}, ExitStatus.UNKNOWN),
        ({"reason": "did not do what it is for: 1 of 2 faults had to be left out"}, ExitStatus.UNKNOWN),
        ({"valid": None}, ExitStatus.UNKNOWN),
        ({"valid": False, "lost": 1}, ExitStatus.VIOLATION),
    ],
)
def test_a_matrix_ends_as_its_worst_cell(changes: dict[str, Any], status: ExitStatus) -> None:
    assert status_of([row("raft", "kill"), row("raft", "pause", **changes)]) is status


def test_what_was_done_is_kept_when_a_run_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    todo = list(cells(frozenset(["kill"]), OURS, 1, quick=True))[:3]
    ends = iter([row(todo[0].way.name, "kill"), {**row(todo[1].way.name, "kill"), "reason": "interrupted"}])
    monkeypatch.setattr("jepsen_like.run.matrix.carry_out", lambda *_: next(ends))
    told = begin(todo, tmp_path, "command", 1, quick=True)
    assert carry_out_all(todo, told, tmp_path, Engine.LOCAL, LocalEngine()) is False
    kept = json.loads((tmp_path / "matrix.json").read_text())["cells"]
    assert [each["reason"] for each in kept] == [None, "interrupted", "not run yet"]


def test_a_cell_whose_fault_was_withheld_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell,) = cells(frozenset(["kafka, acks=1", "kill"]), OURS, 1, quick=True)
    struck = tuple({"id": number} for number, _ in enumerate(cell.plan.planned or ()))
    monkeypatch.setattr("jepsen_like.run.matrix.judge", lambda *_: row(*cell.place))
    for faults, reason in ((struck, None), (struck[:1], "did not do what it is for: 1 of 2 faults had to be left out")):
        results = RunResults(valid=True, faults=faults)
        monkeypatch.setattr("jepsen_like.run.matrix.execute_run", lambda *_, told=results, **__: told)
        assert carry_out(cell, tmp_path, Engine.LOCAL, LocalEngine())["reason"] == reason


def test_faults_of_damage_find_a_copy_on_every_node() -> None:
    for cell in cells(frozenset(["damage"]), OURS, 1, quick=True):
        assert cell.plan.nodes == COPIES


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
