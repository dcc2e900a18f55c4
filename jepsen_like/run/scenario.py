"""`quorumlog scenario`: a story that a system has by name, on real clusters, and one page that compares its trials.

A directory of its own under `--out` holds a whole run directory for each trial, `scenario.json` and the page.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from jepsen_like.cli import EnvironmentMissing, ExitStatus
from jepsen_like.nemesis.kind import Here
from jepsen_like.port.port import System
from jepsen_like.port.registry import SYSTEMS, system_named
from jepsen_like.port.scenario import NamedScenario, Shows, Trial
from jepsen_like.record.results import RecoveryTimes, RunResults, count
from jepsen_like.report.comparison import render_comparison
from jepsen_like.run.command import (
    QUICK_HELP,
    RUNS,
    allow_descriptors,
    engine_for,
    execute_run,
    new_run_directory,
    summary,
    validate,
    write_json,
)
from jepsen_like.run.draws import excuse, redrawn, row_of, table
from jepsen_like.run.exercise import RunPlan
from jepsen_like.run.options import choose, directory_option

SEED: Final = 1
DRAWS_MAX: Final = 1000
DRAWS: Final = "draws.md"
"""The table of draws, next to the page."""
TAKES_OVER_S: Final = 6.0
"""Another coordinator has a group again within so much: a session of its broker, the state read back, and all members joined."""


def scenarios() -> dict[str, tuple[System, NamedScenario]]:
    """Every scenario by its name, with its system."""
    found = {}
    for system in map(system_named, SYSTEMS):
        for scenario in system.scenarios:
            assert scenario.name not in found, scenario.name
            found[scenario.name] = (system, scenario)
    return found


@click.command()
@click.argument("name", required=False)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=SEED,
    show_default=True,
    help="Seed of the load; the faults are those of the scenario.",
)
@directory_option("--out", RUNS, "Directory in which the scenario's directory is made.")
@click.option("--trial", "only", multiple=True, metavar="NAME", help="Only this trial; may be repeated.")
@click.option(
    "--draws",
    type=click.IntRange(1, DRAWS_MAX),
    default=None,
    metavar="N",
    help="Run every trial so many times, with other draws of what its faults do, and print a table of them.",
)
@click.option("--quick", is_flag=True, help=QUICK_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print scenario.json as one line, last on stdout.")
def scenario(
    *, name: str | None, seed: int, out: Path, only: tuple[str, ...], draws: int | None, quick: bool, as_json: bool
) -> ExitStatus:
    """Show what a setting costs: run the scenario NAME on real clusters, and compare them on one page. Without NAME list them.

    Exit status 0 if every promise was kept and the scenario came about, 1 if a promise was broken, 3 if a check could not decide or the
    scenario did not come about.
    """
    known = scenarios()
    if name is None:
        for system, story in known.values():
            click.echo(
                f"{story.name}  ({system.name}; {', '.join(trial.name for trial in story.trials)})\n    {story.story}"
            )
        return ExitStatus.VALID
    if name not in known:
        raise click.UsageError(f"no scenario {name!r}; there are {', '.join(known)}")
    system, story = known[name]
    if (lack := system.lacking()) is not None:
        raise EnvironmentMissing(lack)
    trials = chosen_trials(story, only)
    if draws is not None:
        trials = [redrawn(trial, seed, number) for trial in trials for number in range(1, draws + 1)]
    engine = engine_for(quick=quick)
    command = reproduction(story, only, seed, draws=draws, quick=quick)
    plans = [plan_trial(system, story, trial, seed) for trial in trials]
    modes = [validate(plan) for plan in plans]
    for plan in plans:
        allow_descriptors(plan)
    directory = new_run_directory(out, seed)
    rows: list[dict[str, Any]] = []
    drawn: list[tuple[str, ...]] = []
    for number, (trial, plan, mode) in enumerate(zip(trials, plans, modes, strict=True), 1):
        place = directory / str(number)
        place.mkdir()
        results = execute_run(plan, mode, place, command, engine)
        rows.append(judge(trial, place.name, results))
        drawn.append(row_of((number - 1) % (draws or 1) + 1, rows[-1], place, results))
        for line in [trial.name, *summary(results, place / "report.html")]:
            click.echo(line, err=as_json)
        if results.is_interrupted:
            break
    if draws is not None:
        rows = excuse(rows)
    told = {"name": story.name, "system": system.name, "story": story.story, "command": command, "trials": rows}
    write_json(directory / "scenario.json", told)
    page = render_comparison(directory)
    if draws is not None:
        (directory / DRAWS).write_text("\n".join(lines := table(drawn)) + "\n")
        for line in lines:
            click.echo(line, err=as_json)
    return print_scenario(told, page, as_json=as_json)


def chosen_trials(story: NamedScenario, only: Sequence[str]) -> list[Trial]:
    """The named trials, or all. Raises `UsageError` for an unknown name."""
    names = [trial.name for trial in story.trials]
    if unknown := [name for name in only if name not in names]:
        raise click.UsageError(f"--trial: no {unknown[0]!r} in {story.name}; there are {', '.join(names)}")
    return [trial for trial in story.trials if not only or trial.name in only]


def plan_trial(system: System, story: NamedScenario, trial: Trial, seed: int) -> RunPlan:
    """The run of a trial. Raises `EnvironmentMissing` for a fault that cannot be done here."""
    kinds = tuple(dict.fromkeys(fault.kind for fault in trial.faults))
    return RunPlan(
        system=system.name,
        replication=trial.replication or system.replications[0],
        nodes=trial.nodes or story.nodes,
        zones=trial.zones,
        duration_s=story.duration_s,
        rate=story.rate,
        concurrency=story.concurrency,
        kinds=choose(kinds, Here(trial.nodes or story.nodes, zones=trial.zones.count), system.refused),
        network=system.networks[0],
        workload=trial.workload or story.workload,
        settings=trial.settings,
        seed=seed,
        planned=trial.faults,
    )


def reproduction(story: NamedScenario, only: Sequence[str], seed: int, *, draws: int | None = None, quick: bool) -> str:
    """The command that does the same again."""
    words = ["quorumlog", "scenario", story.name, "--seed", str(seed)]
    for trial in only:
        words += ["--trial", trial]
    words += ["--draws", str(draws)] if draws is not None else []
    words += ["--quick"] if quick else []
    return shlex.join(words)


# -------------------------------------------------------------------- what came of it


def judge(trial: Trial, directory: str, results: RunResults) -> dict[str, Any]:
    """A trial as scenario.json has it: its verdict, what it was to show, and why that did not come about, if so."""
    down_s = max((fault["end_s"] - fault["begin_s"] for fault in results.faults), default=0.0)
    return {
        "name": trial.name,
        "directory": directory,
        "valid": results.valid,
        "acked": results.acked,
        "lost": results.lost_acked,
        "lost_allowed": count(results.lost_allowed),
        "stalls": results.stalls,
        "silences": results.silences,
        "shows": trial.shows.value,
        "missing": not_broken(trial, results)
        or missing(trial.shows, results, down_s, min((fault.hold_s for fault in trial.faults), default=0.0)),
    }


def not_broken(trial: Trial, results: RunResults) -> str | None:
    """Why the trial was not what was planned; None if each of its faults was carried out."""
    withheld = len(trial.faults) - len(results.faults)
    return f"{withheld} of {len(trial.faults)} faults were not carried out" if withheld > 0 else None


def missing(shows: Shows, results: RunResults, down_s: float, held_s: float) -> str | None:
    """Why a trial has not shown what it was to show; None if it has.

    `down_s`: how long its longest fault held, all undone; `held_s`: for how long each held at least, before that began.
    """
    match shows:
        case Shows.LOSS:
            return None if count(results.lost_allowed) else "no loss that the mode allows was found"
        case Shows.NO_LOSS:
            return missing_records(results)
        case Shows.BROKEN:
            return None if results.valid is False else "every promise was kept"
        case Shows.SCOPE_STOPS_ALONE:
            return missing_records(results) or missing_of_scopes(results.silences or {}, down_s)
        case Shows.MAJORITY_COUNTS:
            return missing_records(results) or missing_of_majority(
                (results.rto or RecoveryTimes()).faults or (), held_s
            )
        case Shows.ZONE_SURVIVED | Shows.STOPS_WITH_ZONE | Shows.LOST_WITH_ZONE:
            return missing_of_zone(shows, results, down_s, held_s)
        case Shows.GROUPS_STALL | Shows.GROUPS_GO_ON:
            return missing_of_groups(shows, results.stalls or {}, down_s)
        case Shows.CONSUMERS_GO_ON | Shows.CONSUMERS_WAIT:
            return missing_of_consumers(shows, results.under_faults or (), down_s)
        case Shows.WRITES_WAIT_IN_ORDER | Shows.WRITES_GO_ON_OUT_OF_ORDER:
            return missing_of_order(shows, results)


def missing_records(results: RunResults) -> str | None:
    """Why it is not true that nothing was lost."""
    return f"{results.lost_acked:,} records were lost" if results.lost_acked else None


def missing_of_zone(shows: Shows, results: RunResults, down_s: float, held_s: float) -> str | None:
    """The same of a zone that was down for `down_s` in all, and for `held_s` before its end was begun."""
    (first, *_) = (results.rto or RecoveryTimes()).faults or ({},)
    back_s = first.get("s")
    if shows is Shows.LOST_WITH_ZONE and not count(results.lost_allowed):
        return "no loss that the mode allows was found"
    if shows is not Shows.LOST_WITH_ZONE and results.lost_acked:
        return missing_records(results)
    if shows is Shows.ZONE_SURVIVED:
        return (
            None
            if back_s is not None and back_s < held_s
            else f"no write was acknowledged while the zone was down ({down_s:.1f} s)"
        )
    return (
        None
        if back_s is None or back_s >= held_s
        else f"a write was acknowledged {back_s:.1f} s after the zone went down"
    )


def missing_of_scopes(silences: Mapping[str, Any], down_s: float) -> str | None:
    """The same of scopes, of which one has no leader while a broker is down for `down_s`."""
    scopes: dict[str, float | None] = silences["scopes_s"]
    for name, silent_s in scopes.items():
        if silent_s is None:
            return f"nothing of {name} was ever acknowledged"
    (longest_s, longest), *others = sorted(((silent_s or 0.0, name) for name, silent_s in scopes.items()), reverse=True)
    goes_on_s = down_s / 2
    if longest_s < 0.9 * down_s:
        return f"{longest} stopped for {longest_s:.1f} s only, the broker was down for {down_s:.1f} s"
    for silent_s, name in others:
        if silent_s >= goes_on_s:
            return f"{name} stopped too, for {silent_s:.1f} s"
    return f"nothing was acknowledged for {silences['all_s']:.1f} s" if silences["all_s"] >= goes_on_s else None


def missing_of_majority(recoveries: Sequence[Mapping[str, Any]], held_s: float) -> str | None:
    """The same of a group of three, of which first one is down and then two; one of these may serve before the other is back."""
    one, two = recoveries
    if one["s"] is None or one["s"] >= one["hold_s"]:
        return "nothing was acknowledged while one was down"
    if two["s"] is not None and two["s"] < held_s:
        return "a record was acknowledged while two were down"
    return None if two["recovered"] else "nothing was acknowledged after two had been down"


def missing_of_groups(shows: Shows, stalls: Mapping[str, Any], down_s: float) -> str | None:
    """The same of groups and plain reads; the broker was down for `down_s`."""
    limit_s = min(TAKES_OVER_S, down_s)
    if stalls["reads_s"] is None or stalls["reads_s"] >= limit_s:
        return f"plain reads stalled for {stalls['reads_s']} s"
    for group, stalled_s in stalls["groups_s"].items():
        if stalled_s is None:
            return f"the group {group} never committed anything"
        if shows is Shows.GROUPS_STALL and stalled_s < 0.9 * down_s:
            return f"the group {group} stalled for {stalled_s:.1f} s only, the broker was down for {down_s:.1f} s"
        if shows is Shows.GROUPS_GO_ON and stalled_s >= limit_s:
            return f"the group {group} stalled for {stalled_s:.1f} s"
    return None


def missing_of_consumers(shows: Shows, under_faults: Sequence[Mapping[str, Any]], down_s: float) -> str | None:
    """The same of consumers that are pushed to; the master was down for `down_s`."""
    fault = max(under_faults, key=lambda one: float(one["hold_s"]), default=None)
    if fault is None or not fault["left"]:
        return "nothing was left to be given when the master went down"
    late = fault["given_late"]
    if shows is Shows.CONSUMERS_GO_ON and not late:
        return f"nothing was given in the second half of the {down_s:.0f} s that the master was down"
    if shows is Shows.CONSUMERS_WAIT and late:
        return f"{late:,} messages were given in the second half of the {down_s:.0f} s that the master was down"
    return None


def missing_of_order(shows: Shows, results: RunResults) -> str | None:
    """The same of keys, of which some have their queue where the master is down."""
    fault = max(results.under_faults or (), key=lambda one: float(one["hold_s"]))
    inverted = sum(one["count"] for one in (results.tolerated or ()) if one["check"] == "key_order")
    waited, keys = fault["keys_waiting"], fault["keys"]
    if shows is Shows.WRITES_WAIT_IN_ORDER:
        if not 0 < waited < keys:
            return f"{waited} of {keys} keys were not acknowledged while the master was down"
        return f"{inverted:,} messages of a key were given out of order" if inverted else None
    if waited:
        return f"{waited} of {keys} keys were not acknowledged while the master was down"
    return None if inverted else "every key kept its order"


def status_of(trials: Sequence[dict[str, Any]]) -> ExitStatus:
    """The worst of all trials; one that has not shown what it was to show decides nothing."""
    unexpected = [trial["valid"] for trial in trials if not was_to_break(trial)]
    if False in unexpected:
        return ExitStatus.VIOLATION
    if None in unexpected or any(trial["missing"] for trial in trials):
        return ExitStatus.UNKNOWN
    return ExitStatus.VALID


def was_to_break(trial: Mapping[str, Any]) -> bool:
    """Returns True if the trial is about a promise that is broken, which is no surprise then."""
    return bool(trial["shows"] == Shows.BROKEN.value)


def print_scenario(told: dict[str, Any], page: Path, *, as_json: bool) -> ExitStatus:
    """Say how it went, last of all the command that does it again if it failed; the exit status."""
    status = status_of(told["trials"])
    for trial in told["trials"]:
        verdict = {True: "valid", False: "INVALID", None: "unknown"}[trial["valid"]]
        came = f"did not come about: {trial['missing']}" if trial["missing"] else trial["shows"]
        click.echo(f"{trial['name']}: {verdict}   lost {trial['lost']:,} of {trial['acked']:,}   {came}", err=as_json)
    click.echo(f"report: {page}", err=as_json)
    if status is not ExitStatus.VALID:
        click.echo(told["command"], err=as_json)
    if as_json:
        click.echo(json.dumps(told, separators=(",", ":")))
    return status
