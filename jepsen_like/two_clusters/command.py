"""`quorumlog two-topics`: one topic in each of two Kafka clusters, one cluster is lost and comes back, in one table.

A directory of its own under `--out` holds the history of each trial, `two-topics.json` and the page.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import trio

from jepsen_like.cli import EnvironmentMissing, ExitStatus, first_cause
from jepsen_like.cluster.process import NodeDidNotStart
from jepsen_like.port.port import NotServing
from jepsen_like.port.registry import system_named
from jepsen_like.report.experiment import ExperimentPage, FigureTable, render_experiment
from jepsen_like.run.command import RUNS, new_run_directory, write_json
from jepsen_like.run.options import directory_option
from jepsen_like.two_clusters.plan import TRIALS, TwoTopicsTrial

TWO_TOPICS: Final = "two-topics.json"
HEAD: Final = (
    *("producers, consumers", "acked", "calm", "longest wait", "lost", "late"),
    *("reordered", "given twice", "doubles held back", "dropped", "compensated", "stale keys"),
)
STORY: Final = "A topic stands in each of two clusters. One is killed while its consumer lags, and comes back four seconds later with what no one had read."
NOTE: Final = (
    "Calm and longest wait: from a call to its acknowledgement, before the loss and after it; the latter is the RTO. Lost: acknowledged and never read, "
    "the RPO. Late: given more than a second after it was sent. Reordered: given after a newer message of its key. Doubles: read again, "
    "and held back. Stale keys: the last message that the application was given is not the newest one."
)


@click.command("two-topics")
@click.option("--trial", "only", multiple=True, metavar="NAME", help="Only this trial; may be repeated.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Names clusters and the directory.")
@directory_option("--out", RUNS, "Directory in which that of the experiment is made.")
@click.option("--json", "as_json", is_flag=True, help="Print two-topics.json as one line, last on stdout.")
def two_topics(*, only: tuple[str, ...], seed: int, out: Path, as_json: bool) -> ExitStatus:
    """Lose one of two clusters that have a topic each, and show what producers wait for and consumers get, for each policy.

    Exit status 0 if each trial showed what its policy states, 3 if one did not.
    """
    trials = chosen_trials(only)
    if (lack := system_named("kafka").lacking()) is not None:
        raise EnvironmentMissing(lack)
    directory = new_run_directory(out, seed)
    command = shlex.join(["quorumlog", "two-topics", *(f"--trial={name}" for name in only), f"--seed={seed}"])
    rows = measure_two_topics(trials, directory, seed=seed, say=lambda line: click.echo(line, err=as_json))
    told = {"command": command, "trials": rows}
    write_json(directory / TWO_TOPICS, told)
    page = page_of(told)
    for line in [*page.tables[0].lines(), *page.missing, f"report: {render_experiment(directory, page)}"]:
        click.echo(line, err=as_json)
    if as_json:
        click.echo(json.dumps(told, separators=(",", ":")))
    return ExitStatus.UNKNOWN if page.missing else ExitStatus.VALID


def chosen_trials(only: Sequence[str]) -> list[TwoTopicsTrial]:
    """The named trials, or all. Raises `UsageError` for a name that there is not."""
    names = [trial.name for trial in TRIALS]
    if unknown := [name for name in only if name not in names]:
        raise click.UsageError(f"--trial: no {unknown[0]!r}; there are {'; '.join(names)}")
    return [trial for trial in TRIALS if not only or trial.name in only]


def measure_two_topics(
    trials: Sequence[TwoTopicsTrial], directory: Path, *, seed: int = 1, say: Callable[[str], None] = click.echo
) -> list[dict[str, Any]]:
    """Carry out trials one after the other, each in a directory of its own. Returns their figures, as two-topics.json has them.

    Raises `EnvironmentMissing` if a cluster does not come up.
    """
    from jepsen_like.two_clusters.trial import run_trial  # its clients are an extra

    rows = []
    for number, trial in enumerate(trials, 1):
        place = directory / str(number)
        place.mkdir()
        try:
            found = trio.run(partial(run_trial, trial, place, seed=seed))
        except* (NotServing, NodeDidNotStart) as group:
            raise EnvironmentMissing(f"{trial.name}: {first_cause(group)}") from None
        rows.append(found.row() | {"directory": place.name})
        say(
            f"{trial.name}: {rows[-1]['missing'] or 'as stated'}   longest wait {found.wait_ms:.0f} ms   lost {found.lost}"
        )
    return rows


def page_of(told: Mapping[str, Any]) -> ExperimentPage:
    """Returns the page of two-topics.json."""
    missing = [f"{row['name']}: {row['missing']}" for row in told["trials"] if row["missing"]]
    return ExperimentPage(
        name="two topics in two clusters",
        headline="A trial did not show what it states" if missing else "Producers move on after one failed attempt",
        story=STORY,
        command=told["command"],
        tables=[FigureTable(title="Each policy", head=HEAD, rows=[_cells(row) for row in told["trials"]], note=NOTE)],
        missing=missing,
    )


def _cells(row: Mapping[str, Any]) -> list[str]:
    counts = ("lost", "late", "reordered", "given_twice", "doubles", "dropped", "compensated", "stale")
    times = [f"{row[name]:.0f} ms" for name in ("calm_ms", "wait_ms")]
    return [row["name"], f"{row['acked']:,}", *times, *(f"{row[name]:,}" for name in counts)]
