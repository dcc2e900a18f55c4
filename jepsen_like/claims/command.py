"""`quorumlog claims`: what is said about replicated queues, each as an experiment whose outcome is read from recorded histories.

A directory of its own under `--out` holds the runs, `claims.json` and the pages. It is written after each experiment, so that an end in
the middle keeps what was done.
"""

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jepsen_like.bench import figures
from jepsen_like.checker.checking import engine_of
from jepsen_like.claims.catalogue import catalogue
from jepsen_like.claims.experiment import ClaimDesk, DidNotRun, Experiment
from jepsen_like.claims.judgement import Worth
from jepsen_like.claims.registry import EXPERIMENTS, experiments_of
from jepsen_like.claims.results import ExperimentOutcome, join_outcomes, judge_claims, last_rows
from jepsen_like.cli import ExitStatus
from jepsen_like.report.claims import CLAIMS, render_claims
from jepsen_like.run.command import QUICK_HELP, RUNS, engine_for, new_run_directory, write_json
from jepsen_like.run.options import directory_option

SEED: Final = 1
STYLES: Final = {
    Worth.HOLDS: "green",
    Worth.HOLDS_IF: "yellow",
    Worth.OUTDATED: "cyan",
    Worth.FALSE: "magenta",
    Worth.NONE: "bold red",
    Worth.NO_EXPERIMENT: "dim",
}


@click.group(invoke_without_command=True)
@directory_option("--out", RUNS, "Directory in which results are looked for.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def claims(context: click.Context, *, out: Path, as_json: bool) -> ExitStatus | None:
    """List what is claimed about replicated queues, with the last verdict of each; `run` tries them.

    The verdict is that of the newest results in --out, else of those that come with the source.
    """
    if context.invoked_subcommand is not None:
        return None
    rows = last_rows(out)
    listed = [_list_row(claim_id, rows.get(claim_id)) for claim_id in catalogue()]
    if as_json:
        click.echo(json.dumps(listed, separators=(",", ":")))
        return ExitStatus.VALID
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("claim", "source", "verdict", "expected", "cost", "what it states"):
        table.add_column(name, justify="right" if name == "cost" else "left")
    for row in listed:
        table.add_row(
            row["id"],
            " ".join(row["articles"]),
            _verdict_text(row["verdict"], agrees=row["agrees"]),
            ", ".join(row["expected"]),
            f"{row['seconds']:.0f} s" if row["seconds"] else "-",
            row["says"],
        )
    Console(highlight=False).print(table)
    return ExitStatus.VALID


def _list_row(claim_id: str, row: Mapping[str, Any] | None) -> dict[str, Any]:
    claim = catalogue()[claim_id]
    planned_s = sum(one.seconds for one in experiments_of([claim_id]))
    not_one = bool(claim.not_an_experiment)
    return {
        "id": claim.id,
        "articles": list(claim.articles),
        "says": claim.says,
        "expected": list(map(str, claim.expected)),
        "verdict": row["verdict"] if row else str(Worth.NO_EXPERIMENT) if not_one else "not run yet",
        "agrees": row["agrees"] if row else True,
        "seconds": row["seconds"] if row and row["seconds"] else planned_s,
    }


def _verdict_text(verdict: str, *, agrees: bool) -> Text:
    style = STYLES.get(Worth(verdict), "") if verdict in list(Worth) else "dim"
    return Text(verdict, style=style if agrees else "bold red")


def parse_claims(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """The ids that were asked for. Raises `BadParameter` for one that there is not."""
    ids = tuple(dict.fromkeys(value.upper() for value in values))
    if unknown := [each for each in ids if each not in catalogue()]:
        raise click.BadParameter(f"no claim {unknown[0]!r}; quorumlog claims lists them")
    return ids


@claims.command("run")
@click.argument("ids", nargs=-1, callback=parse_claims, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="Every claim and both questions.")
@click.option("--seed", type=click.IntRange(0), default=SEED, show_default=True, help="Seed of the load.")
@directory_option("--out", RUNS, "Directory in which the directory of the results is made.")
@click.option("--quick", is_flag=True, help=QUICK_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print claims.json as one line, last on stdout.")
def run(*, ids: tuple[str, ...], everything: bool, seed: int, out: Path, quick: bool, as_json: bool) -> ExitStatus:
    """Try claims on real clusters, and draw one page on which every row leads to its runs.

    Exit status 0 if every verdict is as expected or its difference is explained, 1 if one contradicts, 3 if one has no verdict.
    """
    if bool(ids) == everything:
        raise click.UsageError("name claims, as in C21 C24, or give --all")
    chosen = tuple(catalogue()) if everything else ids
    todo = experiments_of(chosen)
    engine = engine_for(quick=quick)
    directory = new_run_directory(out, seed)
    told: dict[str, Any] = {
        "command": _command_of(ids, seed, quick=quick),
        "machine": figures.machine(directory),
        "quick": quick,
        "seed": seed,
    }
    began = time.monotonic()
    outcomes: list[ExperimentOutcome] = []
    is_interrupted = False
    try:
        with engine_of(engine, gentle=True) as worker:
            desk = ClaimDesk(directory, engine, worker, seed, quick, lambda line: click.echo(line, err=True))
            for number, experiment in enumerate(todo, 1):
                left_s = _left_s(todo[number - 1 :], outcomes)
                place = f"[{number}/{len(todo)}] {experiment.name}"
                click.echo(f"{place}   about {max(1, round(left_s / 60))} min left", err=True)
                outcomes.append(carry_out(experiment, desk))
                told |= _tell(chosen, outcomes, time.monotonic() - began)
                write_json(directory / CLAIMS, told)
    except KeyboardInterrupt:
        is_interrupted = True
    told |= _tell(chosen, outcomes, time.monotonic() - began)
    status = finish(told, directory, as_json=as_json)
    return ExitStatus.INTERRUPTED if is_interrupted else status


@claims.command("judge")
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
@directory_option("--out", RUNS, "Directory in which the directory of the page is made.")
@click.option("--json", "as_json", is_flag=True, help="Print claims.json as one line, last on stdout.")
def judge_again(*, directories: tuple[Path, ...], out: Path, as_json: bool) -> ExitStatus:
    """Judge recorded figures again, of all results in DIRECTORIES together; of an experiment in several the last whole one counts.

    Nothing is run. Exit status as of `run`.
    """
    place = new_run_directory(out, SEED)
    outcomes, documents = join_outcomes(directories, place, EXPERIMENTS)
    last = documents[-1]
    told: dict[str, Any] = {
        "command": " && ".join(dict.fromkeys(document["command"] for document in documents)),
        "machine": last["machine"],
        "quick": any(document["quick"] for document in documents),
        "seed": last["seed"],
        **_tell(tuple(catalogue()), outcomes, sum(outcome.seconds for outcome in outcomes)),
    }
    return finish(told, place, as_json=as_json)


def finish(told: dict[str, Any], directory: Path, *, as_json: bool) -> ExitStatus:
    """Write the file and the page, and print what came of each claim."""
    write_json(directory / CLAIMS, told)
    _print(told["claims"], render_claims(directory), as_json=as_json)
    if as_json:
        click.echo(json.dumps(told, separators=(",", ":")))
    return status_of(told["claims"])


def _command_of(ids: Sequence[str], seed: int, *, quick: bool) -> str:
    words = ["quorumlog", "claims", "run", *(ids or ("--all",)), "--seed", str(seed)]
    return shlex.join([*words, "--quick"] if quick else words)


def _left_s(todo: Sequence[Experiment], outcomes: Sequence[ExperimentOutcome]) -> float:
    planned_s = sum(outcome.experiment.seconds for outcome in outcomes)
    pace = sum(outcome.seconds for outcome in outcomes) / planned_s if planned_s else 1.0
    return pace * sum(experiment.seconds for experiment in todo)


def _tell(chosen: Sequence[str], outcomes: Sequence[ExperimentOutcome], seconds: float) -> dict[str, Any]:
    return {
        "seconds": round(seconds, 1),
        "experiments": [outcome.as_json() for outcome in outcomes],
        "claims": judge_claims(chosen, outcomes),
    }


def carry_out(experiment: Experiment, desk: ClaimDesk) -> ExperimentOutcome:
    """Carry one experiment out; a run that gave nothing to measure leaves the figures that were taken before it."""
    began = time.monotonic()
    desk.figures, desk.tables = {}, []
    reason = ""
    try:
        experiment.conduct(desk)
    except DidNotRun as error:
        reason = str(error)
    return ExperimentOutcome(
        experiment=experiment, figures=desk.figures, tables=desk.tables, seconds=time.monotonic() - began, reason=reason
    )


def status_of(rows: Sequence[Mapping[str, Any]]) -> ExitStatus:
    """The worst of all claims."""
    decided = [row for row in rows if row["verdict"] != Worth.NONE]
    if not all(row["agrees"] for row in decided):
        return ExitStatus.VIOLATION
    return ExitStatus.VALID if len(decided) == len(rows) else ExitStatus.UNKNOWN


def _print(rows: Sequence[Mapping[str, Any]], page: Path, *, as_json: bool) -> None:
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    for row in rows:
        line = Text(f"{row['id']}  ")
        line.append(_verdict_text(row["verdict"], agrees=row["agrees"]))
        line.append(f" {row['condition']}" if row["condition"] else "")
        line.append(f"   {row['says']}")
        console.print(line)
        if not row["agrees"] and row["verdict"] != Worth.NONE:
            for one in row["figures"]:
                if not one["met"]:
                    console.print(f"      {one['name'].replace('_', ' ')}: {one['words']}, expected {one['expected']}")
        for more in (row["reason"], row["because"]):
            if more:
                console.print(f"      {more}")
    console.print(f"page: {page}")
