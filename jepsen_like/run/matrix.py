"""`quorumlog matrix`: every way to replicate under every fault, on real clusters, in one table and on one page.

A directory of its own under `--out` holds a whole run directory for each cell, `matrix.json` and the page. What was
done is written after each cell, so that an end in the middle keeps it.
"""

import json
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jepsen_like.bench import figures
from jepsen_like.checker.checking import engine_of
from jepsen_like.checker.engine.job import TaskRunner
from jepsen_like.checker.verdict import Engine
from jepsen_like.cli import EnvironmentMissing, ExitStatus
from jepsen_like.record.results import RecoveryTimes, RunResults, count
from jepsen_like.report import matrix_words
from jepsen_like.report.findings import UnreadableRun, read_told
from jepsen_like.report.matrix import MATRIX, render_matrix
from jepsen_like.run.command import (
    QUICK_HELP,
    REPORT,
    RUNS,
    allow_descriptors,
    engine_for,
    execute_run,
    new_run_directory,
    reproduction,
    validate,
    write_json,
)
from jepsen_like.run.matrix_plan import COLUMNS, OURS, PEACE_S, WAYS, Cell, cells, planned_s
from jepsen_like.run.options import directory_option

SEED: Final = 1
ALL: Final = "all"
NOT_RUN: Final = "not run yet"
FAILED: Final = "did not"
"""The reason of a cell begins so if it was to run and shows nothing."""
STYLES: Final = {
    matrix_words.KEPT: "green",
    matrix_words.LOST: "yellow",
    matrix_words.BROKEN: "bold red",
    matrix_words.UNDECIDED: "magenta",
    matrix_words.NOT_DONE: "dim",
}


def parse_names(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
    """The rows and columns that were asked for. Raises `BadParameter` for a name that there is not."""
    known = [*(way.name for way in WAYS), *(column.name for column in COLUMNS)]
    if unknown := [value for value in values if value not in known]:
        raise click.BadParameter(f"no {unknown[0]!r}; there are {'; '.join(known)}")
    return frozenset(values)


def parse_systems(context: click.Context, parameter: click.Parameter, value: str | None) -> frozenset[str]:
    """The systems that were asked for. Raises `BadParameter` for one that has no row."""
    if value is None:
        return OURS
    known = dict.fromkeys(way.system for way in WAYS)
    asked = known if value == ALL else value.split(",")
    if unknown := [name for name in asked if name not in known]:
        raise click.BadParameter(f"no {unknown[0]!r}; there are {ALL}, {', '.join(known)}")
    return frozenset(asked)


@click.command()
@click.option(
    "--systems",
    metavar="NAMES",
    callback=parse_systems,
    help=f"Only rows of these, with commas between, or {ALL}.  [default: {','.join(sorted(OURS))}]",
)
@click.option(
    "--seed", type=click.IntRange(0), default=SEED, show_default=True, help="Seed of the load; the faults are fixed."
)
@directory_option("--out", RUNS, "Directory in which the matrix's directory is made.")
@click.option(
    "--only",
    "only",
    multiple=True,
    metavar="NAME",
    callback=parse_names,
    help="Only this row or column; may be repeated.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Keep the cells of this matrix's directory that ran, and add to it those that are missing.",
)
@click.option("--quick", is_flag=True, help=f"{QUICK_HELP} Each load is {PEACE_S:g} s shorter.")
@click.option("--json", "as_json", is_flag=True, help="Print matrix.json as one line, last on stdout.")
def matrix(
    *,
    systems: frozenset[str],
    seed: int,
    out: Path,
    only: frozenset[str],
    resume: Path | None,
    quick: bool,
    as_json: bool,
) -> ExitStatus:
    """Show what each way to replicate costs and keeps: each mode of each system under each fault, in one table and on
    one page.

    Exit status 0 if every promise was kept, 1 if one was broken, 3 if a check could not decide or a cluster did not
    start.
    """
    todo = list(cells(only, systems, seed, quick=quick))
    engine = engine_for(quick=quick)
    command = command_of(only, systems, seed, quick=quick)
    directory = new_run_directory(out, seed) if resume is None else resume
    told = begin(todo, directory, command, seed, quick=quick)
    if resume is not None:
        keep_what_ran(told, resume)
    is_interrupted = False
    try:
        with ExitStack() as stack:
            # One for all, at the lowest priority: it idles while clusters are measured.
            worker = stack.enter_context(engine_of(engine, gentle=True))
            is_interrupted = not carry_out_all(todo, told, directory, engine, worker)
    except KeyboardInterrupt:
        is_interrupted = True
    for row in told["cells"]:
        row["reason"] = "interrupted" if row["reason"] == NOT_RUN else row["reason"]
    return print_matrix(told, directory, is_interrupted=is_interrupted, as_json=as_json)


def begin(todo: Sequence[Cell], directory: Path, command: str, seed: int, *, quick: bool) -> dict[str, Any]:
    """A matrix of which nothing has run yet, as matrix.json has it."""
    return {
        "command": command,
        "machine": figures.machine(directory),
        "quick": quick,
        "seed": seed,
        "ways": [{"name": each.name, "system": each.system, "waits": each.waits} for each in WAYS],
        "columns": [{"name": each.name, "story": each.story} for each in COLUMNS],
        "cells": [absent(cell, cell.reason or NOT_RUN) for cell in todo],
    }


def keep_what_ran(told: dict[str, Any], directory: Path) -> None:
    """Take the cells over that ran already. Raises `UsageError` if they were given another load or another machine."""
    try:
        before = read_told(directory / MATRIX)
    except UnreadableRun as error:
        raise click.UsageError(f"--resume: {error}") from error
    for what in ("seed", "quick", "machine"):
        if before[what] != told[what]:
            raise click.UsageError(f"--resume: cells would not compare: {what} was {before[what]}, and is {told[what]}")
    ways, columns = [way.name for way in WAYS], [column.name for column in COLUMNS]
    for row in before["cells"]:
        if row["way"] not in ways or row["column"] not in columns:
            raise click.UsageError(f"--resume: of another version of quorumlog: {row['way']} · {row['column']}")
    ran = [row for row in before["cells"] if row["reason"] is None]
    rows = {place_of(row): row for row in (*before["cells"], *told["cells"], *ran)}
    told["cells"] = sorted(rows.values(), key=lambda row: (ways.index(row["way"]), columns.index(row["column"])))


def place_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """The row and the column of a cell of matrix.json."""
    return row["way"], row["column"]


def command_of(only: frozenset[str], systems: frozenset[str], seed: int, *, quick: bool) -> str:
    """The command that does the same again."""
    words = ["quorumlog", "matrix", "--seed", str(seed)]
    if systems != OURS:
        words += ["--systems", ALL if systems == {way.system for way in WAYS} else ",".join(sorted(systems))]
    for name in sorted(only):
        words += ["--only", name]
    return shlex.join([*words, "--quick"] if quick else words)


def carry_out_all(
    todo: Sequence[Cell], told: dict[str, Any], directory: Path, engine: Engine, worker: TaskRunner
) -> bool:
    """Run cell after cell into the rows of `told`. Returns whether none was interrupted."""
    places = {place_of(row): place for place, row in enumerate(told["cells"]) if row["reason"] == NOT_RUN}
    missing = [cell for cell in todo if cell.place in places]
    left_s, began, done_s = sum(map(planned_s, missing)), time.monotonic(), 0.0
    for number, cell in enumerate(missing):
        pace = (time.monotonic() - began) / done_s if done_s else 1.0
        place = f"[{number + 1}/{len(missing)}] {cell.words}"
        click.echo(f"{place}   about {max(1, round(left_s * pace / 60))} min left", err=True)
        told["cells"][places[cell.place]] = row = carry_out(cell, directory, engine, worker)
        left_s, done_s = left_s - planned_s(cell), done_s + planned_s(cell)
        click.echo(f"    {matrix_words.cell_line(row)}", err=True)
        write_json(directory / MATRIX, told)
        if row["reason"] == "interrupted":
            return False
    return True


def carry_out(cell: Cell, directory: Path, engine: Engine, worker: TaskRunner) -> dict[str, Any]:
    """One cell, in a directory of its own, which an interrupted run may have left."""
    place = directory / cell.directory
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    try:
        mode = validate(cell.plan)
        allow_descriptors(cell.plan)
        again = reproduction(cell.plan, quick=engine is Engine.LOCAL)
        results = execute_run(cell.plan, mode, place, again, engine, worker=worker, quiet=True)
    except (EnvironmentMissing, click.UsageError) as error:
        return absent(cell, f"{FAILED} start: {error.format_message()}")
    if results.is_interrupted:
        return absent(cell, "interrupted")
    planned, done = len(cell.plan.planned or ()), len(results.faults)
    if done < planned:
        return absent(cell, f"{FAILED} do what it is for: {planned - done} of {planned} faults had to be left out")
    return judge(cell, results)


def absent(cell: Cell, reason: str) -> dict[str, Any]:
    """A cell without a run, as matrix.json has it."""
    return {"way": cell.way.name, "column": cell.column.name, "reason": reason}


def judge(cell: Cell, results: RunResults) -> dict[str, Any]:
    """A cell as matrix.json has it. `rate_s` counts acknowledged records per second of load; times are in seconds."""
    rto = results.rto or RecoveryTimes()
    broken = [
        f"{name}: {check.examples[0]}"
        for name, check in results.checks.items()
        if check.valid is False and check.examples
    ]
    return {
        "way": cell.way.name,
        "column": cell.column.name,
        "reason": None,
        "directory": cell.directory,
        "report": f"{cell.directory}/{REPORT}",
        "valid": results.valid,
        "why": (broken or list(results.unknown) or [""])[0],
        "acked": results.acked,
        "lost": results.lost_acked,
        "lost_allowed": count(results.lost_allowed),
        "rto_s": rto.max,
        "unrecovered": rto.unrecovered,
        "down_s": results.availability["down_s"],
        "rate_s": round(results.acked / cell.plan.duration_s, 1),
        "p50_ms": results.latency_ms["p50"],
        "p99_ms": results.latency_ms["p99"],
    }


# -------------------------------------------------------------------- what came of it


def status_of(rows: Sequence[dict[str, Any]]) -> ExitStatus:
    """The worst of all cells; one that was to run and did not decides nothing."""
    ran = [row for row in rows if row["reason"] is None]
    if any(row["valid"] is False for row in ran):
        return ExitStatus.VIOLATION
    failed = any(str(row["reason"]).startswith(FAILED) for row in rows)
    return ExitStatus.UNKNOWN if failed or not ran or any(row["valid"] is None for row in ran) else ExitStatus.VALID


def table_of(told: dict[str, Any]) -> Table:
    """For a terminal."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    present = list(dict.fromkeys(row["column"] for row in told["cells"]))
    for name in ("", *present):
        table.add_column(name)
    for way in dict.fromkeys(row["way"] for row in told["cells"]):
        rows = [row for row in told["cells"] if row["way"] == way]
        table.add_row(
            Text(way, style="bold"),
            *(Text(matrix_words.cell_words(row), style=STYLES[matrix_words.kind_of(row)]) for row in rows),
        )
    return table


def print_matrix(told: dict[str, Any], directory: Path, *, is_interrupted: bool, as_json: bool) -> ExitStatus:
    """Write the page, and say how it went; the exit status."""
    told["answers"] = matrix_words.answers(told)
    write_json(directory / MATRIX, told)
    page = render_matrix(directory)
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    console.print(table_of(told))
    for line in [*matrix_words.reasons(told), *told["answers"], f"page: {page}"]:
        click.echo(line, err=as_json)
    if as_json:
        click.echo(json.dumps(told, separators=(",", ":")))
    return ExitStatus.INTERRUPTED if is_interrupted else status_of(told["cells"])
