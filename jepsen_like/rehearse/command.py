"""`quorumlog rehearse`: loses a city on real clusters, seed by seed, and prints one table of what that cost."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import click
import trio

from jepsen_like.checker.checking import check_run, engine_of
from jepsen_like.checker.verdict import Model, Verdict
from jepsen_like.cli import EnvironmentMissing, ExitStatus, first_cause
from jepsen_like.operate.tables import table_lines
from jepsen_like.port.registry import system_named
from jepsen_like.rehearse.rehearsal import RehearsalFailed, RehearsalPlan, rehearse
from jepsen_like.report.rehearsal import REHEARSAL, render_rehearsal
from jepsen_like.run.command import QUICK_HELP, RUNS, engine_for, new_run_directory, write_json
from jepsen_like.run.options import MILLISECONDS, directory_option

DELAYS_MS: Final = (30.0, 100.0)
SHOWN_MAX: Final = 5
VERDICTS: Final = {True: "valid", False: "INVALID", None: "unknown"}
TIMES: Final = ("rto_machine_s", "rto_s", "read_s", "back_s")


@click.command("rehearse")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="The first seed.")
@click.option("--times", type=click.IntRange(1), default=1, show_default=True, help="Rehearse with so many seeds.")
@click.option(
    "--delay",
    "delays",
    type=MILLISECONDS,
    multiple=True,
    default=DELAYS_MS,
    show_default=True,
    metavar="MS",
    help="From one city to the other, one way. May be repeated: seeds take them in turn.",
)
@click.option("--nodes", type=click.IntRange(1, 9), default=3, show_default=True, help="Brokers of each city.")
@click.option(
    "--rate", type=click.FloatRange(1), default=200.0, show_default=True, help="Records a second, of all producers."
)
@click.option(
    "--diverged",
    type=click.Choice(["keep", "recreate"]),
    default="keep",
    show_default=True,
    help="What the returned city alone has: leave it, or delete its topic.",
)
@click.option("--unsafe-no-fence", is_flag=True, help="Leave the link open at the switch, to see what flows over it.")
@directory_option("--out", RUNS, "Directory in which the rehearsals get theirs.")
@click.option("--quick", is_flag=True, help=QUICK_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print an object for each rehearsal instead of the table.")
def rehearse_city_lost(
    *,
    seed: int,
    times: int,
    delays: Sequence[float],
    nodes: int,
    rate: float,
    diverged: str,
    unsafe_no_fence: bool,
    out: Path,
    quick: bool,
    as_json: bool,
) -> ExitStatus:
    """Lose a city under load, switch to the other one, let the lost one return, and switch back.

    Two Kafka clusters are started, with a mirror between them, producers and two groups of confluent-kafka. One history has all of
    it, and one verdict. Exit status 0 if the loss was the mirror's lag and nothing else went wrong, 1 if a promise was broken, 3 if that is not
    decided.
    """
    if (lack := system_named("kafka").lacking()) is not None:
        raise EnvironmentMissing(lack)
    engine = engine_for(quick=quick)
    plans = [
        RehearsalPlan(
            seed=number,
            delay_s=delays[number % len(delays)] / 1e3,
            nodes=nodes,
            rate=rate,
            fences=not unsafe_no_fence,
            recreates=diverged == "recreate",
        )
        for number in range(seed, seed + times)
    ]
    played = [
        (plan, directory, _play(plan, directory)) for plan in plans for directory in [new_run_directory(out, plan.seed)]
    ]
    rows, verdicts = list[dict[str, Any]](), list[bool | None]()
    with engine_of(engine) as worker:
        for plan, directory, figures in played:
            if figures is None:
                verdicts.append(None)
                continue
            verdict = check_run(directory, Model.MIRRORED, engine, worker=worker)
            rows.append(row_of(plan, verdict, figures))
            verdicts.append(verdict.valid)
            told = {**rows[-1], "directory": str(directory), "result": verdict.as_json()}
            write_json(directory / REHEARSAL, {**told, "down_ns": figures["down_ns"]})
            click.echo(f"report: {render_rehearsal(directory)}", err=True)
            for line in lines_of(verdict):
                click.echo(f"{directory}: {line}", err=True)
            if as_json:
                click.echo(json.dumps(told, separators=(",", ":")))
    if rows and not as_json:
        for line in table_lines(rows):
            click.echo(line)
    return status_of(verdicts)


def _play(plan: RehearsalPlan, directory: Path) -> dict[str, Any] | None:
    """Returns the measured times of a rehearsal; None if a step did not happen, which is said on stderr."""
    try:
        return trio.run(rehearse, plan, directory)
    except (BaseExceptionGroup, RehearsalFailed) as error:
        cause = first_cause(error)
        if not isinstance(cause, RehearsalFailed):
            raise
        click.echo(f"{directory}: seed {plan.seed} did not come about: {cause}", err=True)
        return None


def row_of(plan: RehearsalPlan, verdict: Verdict, figures: dict[str, Any]) -> dict[str, Any]:
    """Returns the figures of a rehearsal: what the switches cost, and how long they took."""
    assert verdict.mirror is not None, "every history of two clusters has figures"
    costs = {name: count for name, count in attrs.asdict(verdict.mirror).items() if name != "switches"}
    spans = {name: round(figures[name], 2) if name in figures else None for name in TIMES}
    return {
        "seed": plan.seed,
        "delay_ms": round(plan.delay_s * 1e3),
        **costs,
        **spans,
        "verdict": VERDICTS[verdict.valid],
    }


def lines_of(verdict: Verdict) -> list[str]:
    """Returns what an operator should know besides the figures."""
    lines = [loss.says for loss in verdict.losses]
    lines += [violation.sentence for violation in verdict.violations[:SHOWN_MAX]]
    return [*lines, *verdict.reasons, *verdict.not_tested]


def status_of(verdicts: Sequence[bool | None]) -> ExitStatus:
    """Returns the worst of all."""
    if False in verdicts:
        return ExitStatus.VIOLATION
    return ExitStatus.UNKNOWN if None in verdicts else ExitStatus.VALID
