"""`quorumlog capacity`: how many brokers a load needs so that the loss of a zone overloads none, measured on real Kafka brokers.

A directory of its own under `--out` holds the history of each trial, `capacity.json` and the page.
"""

import json
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import trio

from jepsen_like.capacity.page import page_of
from jepsen_like.capacity.plan import ZONES_MAX, ZONES_MIN, CapacityTrial, Limit, plan_trials
from jepsen_like.capacity.trial import run_trial
from jepsen_like.cli import EnvironmentMissing, ExitStatus, first_cause
from jepsen_like.cluster.process import NodeDidNotStart
from jepsen_like.port.port import NotServing
from jepsen_like.port.registry import system_named
from jepsen_like.report.experiment import render_experiment
from jepsen_like.run.command import RUNS, new_run_directory, write_json
from jepsen_like.run.options import directory_option

CAPACITY: Final = "capacity.json"
REQUESTS_S: Final = 40.0
RECORD_BYTES: Final = 100
KIB: Final = 1024


@click.command()
@click.option(
    "--zones",
    "zones",
    multiple=True,
    type=click.IntRange(ZONES_MIN, ZONES_MAX),
    metavar="N",
    help="The number of zones; may be repeated.  [default: 2, 3 and 4]",
)
@click.option("--trial", "only", multiple=True, metavar="A+B", help="Only zones of these sizes; may be repeated.")
@click.option(
    "--requests",
    type=click.FloatRange(min=1, max=1000),
    default=REQUESTS_S,
    show_default=True,
    help="The capacity of a broker: requests a second.",
)
@click.option(
    "--bytes",
    "kib",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="KIB",
    help="Its capacity in KiB a second; 0: as much as there is.",
)
@click.option(
    "--record-bytes", type=click.IntRange(20, 65536), default=RECORD_BYTES, show_default=True, help="Of each message."
)
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Names the cluster and the directory."
)
@directory_option("--out", RUNS, "Directory in which that of the measurement is made.")
@click.option("--json", "as_json", is_flag=True, help="Print capacity.json as one line, last on stdout.")
def capacity(
    *,
    zones: tuple[int, ...],
    only: tuple[str, ...],
    requests: float,
    kib: float,
    record_bytes: int,
    seed: int,
    out: Path,
    as_json: bool,
) -> ExitStatus:
    """Show how many brokers a load needs so that the loss of a zone overloads none: M·N/(N-1) of them in N zones, one fewer, and as many in uneven zones.

    Exit status 0 if each trial showed that, 3 if one did not.
    """
    trials = chosen_trials(zones or range(ZONES_MIN, ZONES_MAX + 1), only)
    if (lack := system_named("kafka").lacking()) is not None:
        raise EnvironmentMissing(lack)
    words = ["quorumlog", "capacity", *(f"--zones={count}" for count in zones), *(f"--trial={name}" for name in only)]
    words += [f"--requests={requests:g}", f"--bytes={kib:g}", f"--record-bytes={record_bytes}", f"--seed={seed}"]
    directory = new_run_directory(out, seed)
    limit = Limit(requests_per_s=requests, bytes_per_s=kib * KIB)
    told = measure_capacity(
        trials, limit, directory, record_bytes=record_bytes, seed=seed, say=lambda line: click.echo(line, err=as_json)
    )
    told = {"command": shlex.join(words), **told}
    write_json(directory / CAPACITY, told)
    page = page_of(told)
    for line in [*page.tables[0].lines(), *page.missing, f"report: {render_experiment(directory, page)}"]:
        click.echo(line, err=as_json)
    if as_json:
        click.echo(json.dumps(told, separators=(",", ":")))
    return ExitStatus.UNKNOWN if page.missing else ExitStatus.VALID


def chosen_trials(zones: Sequence[int], only: Sequence[str]) -> list[CapacityTrial]:
    """The named trials, or all. Raises `UsageError` for a name that there is not."""
    trials = plan_trials(zones)
    if unknown := [name for name in only if name not in {trial.name for trial in trials}]:
        raise click.UsageError(f"--trial: no {unknown[0]!r}; there are {', '.join(trial.name for trial in trials)}")
    return [trial for trial in trials if not only or trial.name in only]


def measure_capacity(
    trials: Sequence[CapacityTrial],
    limit: Limit,
    directory: Path,
    *,
    record_bytes: int = RECORD_BYTES,
    seed: int = 1,
    say: Callable[[str], None] = click.echo,
) -> dict[str, Any]:
    """Carry out trials one after the other, each in a directory of its own. Returns their figures, as capacity.json has them.

    Raises `EnvironmentMissing` if brokers do not come up.
    """
    rows = []
    for number, trial in enumerate(trials, 1):
        place = directory / str(number)
        place.mkdir()
        try:
            found = trio.run(partial(run_trial, trial, limit, place, record_bytes=record_bytes, seed=seed))
        except* (NotServing, NodeDidNotStart) as group:
            raise EnvironmentMissing(f"zones of {trial.name}: {first_cause(group)}") from None
        rows.append(found.row() | {"directory": place.name})
        say(f"{trial.name}: {rows[-1]['missing'] or 'as the rule says'}   {found.worth:.2f} of {trial.left} left")
    return {"limit": {"requests_s": limit.requests_per_s, "bytes_s": limit.bytes_per_s}, "trials": rows}
