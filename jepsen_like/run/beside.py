"""`quorumlog run --beside SYSTEM`: the same seed of load and faults on two systems, and their behaviour side by side."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from jepsen_like.checker.verdict import Engine
from jepsen_like.cli import ExitStatus
from jepsen_like.port.port import System
from jepsen_like.record.behaviour import read_behaviour
from jepsen_like.record.beside import compare
from jepsen_like.record.results import RunResults
from jepsen_like.report.beside import BESIDE, describe_difference, lines_of, render_beside
from jepsen_like.run.command import (
    REPORT,
    allow_descriptors,
    execute_run,
    new_run_directory,
    reproduction,
    settings_for,
    summary,
    validate,
    write_json,
)
from jepsen_like.run.exercise import RunPlan
from jepsen_like.run.options import one_of


def run_both(
    plan: RunPlan, systems: Sequence[System], words: Sequence[str], out: Path, engine: Engine, *, as_json: bool
) -> ExitStatus:
    """Run `plan` on each system, in a directory with its name; compare, draw and print. Returns the status.

    `words` are the settings as they were given. Raises `UsageError` for a plan that cannot be carried out on one of them.
    """
    if systems[0].name == systems[1].name:
        raise click.UsageError(f"--beside takes another system than --system {systems[0].name}")
    plans = [plan_for(plan, system, systems, words) for system in systems]
    modes = [validate(each) for each in plans]
    for each in plans:
        allow_descriptors(each)
    quick = engine is Engine.LOCAL
    again = reproduction(attrs.evolve(plan, settings=tuple(words)), quick=quick)
    command = f"{again} --beside {systems[1].name}"
    directory = new_run_directory(out, plan.seed)
    done: list[RunResults] = []
    for each, mode in zip(plans, modes, strict=True):
        place = directory / each.system
        place.mkdir()
        done.append(execute_run(each, mode, place, reproduction(each, quick=quick), engine))
        for line in [each.system, *summary(done[-1], place / REPORT)]:
            click.echo(line, err=as_json)
        if done[-1].is_interrupted:
            return ExitStatus.UNKNOWN
    told = tell(plans, done, directory, command)
    write_json(directory / BESIDE, told)
    page = render_beside(directory)
    for line in [*lines_of(told), *(f"differs: {each}" for each in told["differences"]), f"report: {page}"]:
        click.echo(line, err=as_json)
    status = status_of(told)
    if status is not ExitStatus.VALID:
        click.echo(command, err=as_json)
    if as_json:
        click.echo(json.dumps(told, separators=(",", ":")))
    return status


def plan_for(plan: RunPlan, system: System, systems: Sequence[System], words: Sequence[str]) -> RunPlan:
    """Returns the plan of one of the systems. Raises `UsageError` if it lacks the replication or the workload."""
    own = settings_for_one(system, systems, words)
    chosen = plan.replication if plan.replication != systems[0].replications[0] else None  # the first of each
    replication = system.replicates_like.get(plan.replication, chosen)
    return attrs.evolve(
        plan,
        system=system.name,
        replication=one_of("--replication", replication, system.replications),
        workload=one_of("--workload", plan.workload, tuple(system.workloads)),
        settings=(*settings_for(system, plan.kinds, own), *own),
    )


def tell(plans: Sequence[RunPlan], done: Sequence[RunResults], directory: Path, command: str) -> dict[str, Any]:
    """Returns what is known of the pair: both runs, their figures, and the differences in words."""
    systems = [plan.system for plan in plans]
    first, beside = (read_behaviour(directory / system, results) for system, results in zip(systems, done, strict=True))
    rows = [attrs.asdict(row) for row in compare(first, beside)]
    return {
        "command": command,
        "seed": plans[0].seed,
        "runs": [
            {"system": system, "directory": system, "valid": results.valid}
            for system, results in zip(systems, done, strict=True)
        ],
        "rows": rows,
        "differences": [describe_difference(row, systems) for row in rows if row["differs"]],
    }


def status_of(told: dict[str, Any]) -> ExitStatus:
    """A broken promise, then what could not be decided, then differences beyond what is tolerated."""
    verdicts = [run["valid"] for run in told["runs"]]
    if False in verdicts:
        return ExitStatus.VIOLATION
    if None in verdicts:
        return ExitStatus.UNKNOWN
    return ExitStatus.VIOLATION if told["differences"] else ExitStatus.VALID


def settings_for_one(system: System, systems: Sequence[System], words: Sequence[str]) -> tuple[str, ...]:
    """Returns the settings of one of the systems: those of all, and those that begin with its name and a colon."""
    names = {each.name for each in systems}
    found = []
    for word in words:
        owner, _, setting = word.partition(":")
        if owner not in names:
            found.append(word)
        elif owner == system.name:
            found.append(setting)
    return tuple(found)
