"""`python -m tests.mutants run [NAME ...]` and `python -m tests.mutants replay NAME`: put deliberate bugs on trial.

`run` prints for each bug the oracle expected, the oracle that killed it and how many seeds, verdicts or runs that took; with `--happy` it
first shows that the happy-path tests stay green with the bug in place. Exit status 1 if a bug survives, is killed only by
a crash, or breaks the happy path. `replay` plays the seed that kills a bug, one line for each event.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import click

from tests.mutants.catalogue import ALL, by_name
from tests.mutants.judges import ALONE
from tests.mutants.mutant import ROOT, Mutant, install
from tests.mutants.plugin_name import PLUGIN, VARIABLE


@attrs.frozen
class Verdict:
    """The fate of one mutant."""

    mutant: Mutant
    killed_by: str | None
    tried: int
    """Seeds, verdicts or runs until it was killed."""
    seed: int | None
    sentence: str
    seconds: float
    happy: bool | None
    """True if the happy path stayed green; None if that was not asked."""

    @property
    def good(self) -> bool:
        """Killed by an oracle, invisible on the happy path."""
        return self.killed_by is not None and self.happy is not False


def try_mutant(mutant: Mutant, seeds: int, *, happy: bool = False) -> Verdict:
    """Put one bug on trial in a process of its own."""
    green = stays_green(mutant) if happy else None
    command = [sys.executable, "-m", "tests.mutants.trial", mutant.name, "0", str(seeds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise click.ClickException(f"the trial of {mutant.name} broke: {done.stderr.strip()[-600:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return Verdict(
        mutant, found["killed_by"], found["tried"], found["seed"], found["sentence"], found["seconds"], green
    )


@attrs.frozen
class Sighting:
    """The result of the exhaustive search for one mutant: distinct states seen, and the broken promise if there was one."""

    states: int
    sentence: str | None
    steps: int | None
    """Counts the events that lead there."""


def search_mutant(mutant: Mutant) -> Sighting:
    """Search the first scope of `quorumlog sim --explore` with the bug in place, in a process of its own."""
    command = [sys.executable, "-m", "tests.mutants.trial", mutant.name, "explore"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise click.ClickException(f"the search of {mutant.name} broke: {done.stderr.strip()[-600:]}")
    return Sighting(**json.loads(done.stdout.splitlines()[-1]))


def stays_green(mutant: Mutant) -> bool:
    """Returns True if the happy-path tests pass with the bug in place."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--assert=plain",
        "-p",
        PLUGIN,
        "-p",
        "no:cacheprovider",
        *mutant.happy,
    ]
    environment = {**os.environ, VARIABLE: mutant.name}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.returncode == 0


def choose_mutants(names: Sequence[str]) -> Sequence[Mutant]:
    """Returns the named mutants, or all; raises a usage error for an unknown name."""
    try:
        return [by_name(name) for name in names] or list(ALL)
    except KeyError as unknown:
        known = ", ".join(mutant.name for mutant in ALL)
        raise click.UsageError(f"no mutant named {unknown}; there are {known}") from None


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Deliberate bugs on trial."""


@cli.command()
@click.argument("names", nargs=-1)
@click.option("--seeds", type=click.IntRange(1), default=1500, show_default=True, help="Give up after this many.")
@click.option("--happy", is_flag=True, help="Also run the happy-path tests with each bug in place.")
@click.option("--jobs", type=click.IntRange(1), default=len(os.sched_getaffinity(0)), show_default=True)
def run(names: Sequence[str], seeds: int, happy: bool, jobs: int) -> None:
    """Try the named bugs, or all of them."""
    mutants = choose_mutants(names)
    click.echo(HEADER)
    survivors: list[str] = []
    for verdict in verdicts(mutants, seeds, jobs, happy=happy):
        click.echo(line(verdict))
        if not verdict.good:
            survivors.append(verdict.mutant.name)
    searched = [mutant for mutant in mutants if mutant.explored]
    with ThreadPoolExecutor(jobs) as pool:
        for mutant, seen in zip(searched, pool.map(search_mutant, searched), strict=True):
            what = f"{seen.sentence}, after {seen.steps} events" if seen.sentence else "SURVIVED"
            click.echo(f"{mutant.name:<46} searched: {seen.states:>9,} distinct states to {what}")
            if not seen.sentence and mutant.name not in survivors:
                survivors.append(mutant.name)
    click.echo(f"{len(mutants) - len(survivors)} of {len(mutants)} killed by an oracle")
    for name in survivors:
        click.echo(f"not good: {name}")
    if survivors:
        raise click.exceptions.Exit(1)


HEADER = f"{'bug':<46} {'file':<34} {'judge':<10} {'expected':<22} {'killed by':<12} {'tried':>6} {'s':>6}  what it is"


def verdicts(mutants: Sequence[Mutant], seeds: int, jobs: int, *, happy: bool) -> Iterator[Verdict]:
    """In the order of the catalogue, but those whose judge measures real time last, one at a time."""
    crowd = [mutant for mutant in mutants if mutant.judge not in ALONE]
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda mutant: try_mutant(mutant, seeds, happy=happy), crowd)
    for mutant in mutants:
        if mutant.judge in ALONE:
            yield try_mutant(mutant, seeds, happy=happy)


def line(verdict: Verdict) -> str:
    """A row of the table."""
    mutant = verdict.mutant
    file = mutant.module.replace(".", "/") + ".py"
    killer = verdict.killed_by or "SURVIVED"
    expected = "|".join(mutant.oracles)
    green = {True: "", False: "  (HAPPY PATH RED)", None: ""}[verdict.happy]
    return (
        f"{mutant.name:<46} {file:<34} {mutant.judge:<10} {expected:<22} {killer:<12} {verdict.tried:>6} "
        f"{verdict.seconds:>6.1f}  {mutant.bug}{green}"
    )


@cli.command()
@click.argument("name")
@click.option("--seed", type=click.IntRange(0), default=None, help="Which seed; default: the first that kills it.")
@click.option("--seeds", type=click.IntRange(1), default=1500, show_default=True, help="Look for it in this many.")
def replay(name: str, seed: int | None, seeds: int) -> None:
    """Play the seed that kills a bug, one line for each event, up to the violation."""
    (mutant,) = choose_mutants([name])
    if mutant.judge != "simulation":
        verdict = try_mutant(mutant, seeds)
        click.echo(f"{name}: {verdict.sentence or 'survived'}")
        raise click.exceptions.Exit(0 if verdict.killed_by is None else 1)
    if seed is None:
        verdict = try_mutant(mutant, seeds)
        if verdict.seed is None:
            raise click.ClickException(f"{name} survives {seeds} seeds")
        seed = verdict.seed
    install(mutant)
    from jepsen_like.simulation.command import replay as replay_seed  # after the bug is in place

    raise click.exceptions.Exit(replay_seed.main([str(seed)], standalone_mode=False))


if __name__ == "__main__":
    cli()
