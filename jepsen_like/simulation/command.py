"""`quorumlog sim` and `quorumlog replay`: the simulator from the command line, and the systems that it knows."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from jepsen_like.simulation.kafka.model import KAFKA
from jepsen_like.simulation.kernel.command import Campaign, ChosenSystem, run_explorer, run_replay, run_shrinker
from jepsen_like.simulation.kernel.model import SystemModel
from jepsen_like.simulation.raft.model import RAFT
from jepsen_like.simulation.rocketmq.model import ROCKETMQ

MODELS: Mapping[str, SystemModel[Any]] = {model.name: model for model in (RAFT, KAFKA, ROCKETMQ)}
"""Every system that can be simulated, by the name that `--system` takes."""
SEEDS_END_MAX = 1 << 63


class SeedRange(click.ParamType[range]):
    """`A:B`, half open."""

    name = "A:B"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """Returns the range. Raises a usage error unless 0 <= A < B."""
        if isinstance(value, range):
            return value
        first, colon, end = str(value).partition(":")
        if not (colon and first.isdecimal() and end.isdecimal() and int(first) < int(end) <= SEEDS_END_MAX):
            self.fail(f"{value!r} is not a range of seeds; write FIRST:END, for example 0:1000", param, ctx)
        return range(int(first), int(end))


def refuse_ignored(mode: str, *, given: bool, needed_by: Sequence[str], ruled_out: Sequence[str]) -> None:
    """Raises `UsageError` for a given option that would be ignored, with or without the option `mode`."""
    context = click.get_current_context()
    for name in ruled_out if given else needed_by:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} does not go with {mode}" if given else f"--{name} needs {mode}", context)


def choose(system: str, level: str) -> ChosenSystem:
    """The model of that name, and how to ask for it again."""
    is_default = system == RAFT.name
    words = f"level {level}" if is_default else f"system {system} level {level}"
    return ChosenSystem(MODELS[system], words, "" if is_default else f" --system {system}", level)


SYSTEM = click.option(
    "--system", type=click.Choice(list(MODELS)), default=RAFT.name, show_default=True, help="System to simulate."
)
LEVEL = click.option(
    "--level",
    type=click.Choice(["core"]),
    default="core",
    show_default=True,
    help="How much of it: core = RaftCore, outbox, storage and log under virtual time.",
)


@click.command()
@click.option("--seeds", type=SeedRange(), default="0:1000", show_default=True, help="Half-open range of seeds.")
@SYSTEM
@LEVEL
@click.option(
    "--jobs", type=click.IntRange(1, 1024), default=None, help="Number of processes; default: one for each core."
)
@click.option("--zones", is_flag=True, help="Only the worlds that stand in zones, one seed of ten.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one line of JSON, last on stdout.")
@click.option(
    "--explore", is_flag=True, help="Search every reachable state of a small group instead of simulating seeds."
)
@click.option(
    "--scope",
    metavar="NAME=N,...",
    help="With --explore: how many of each event may happen, for example timeouts=1,entries=1,crashes=0.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    default=15.0,
    show_default=True,
    help="With --explore: stop after this time.",
)
def sim(
    seeds: range,
    system: str,
    level: str,
    jobs: int | None,
    zones: bool,
    as_json: bool,
    explore: bool,
    scope: str | None,
    minutes: float,
) -> int:
    """Simulate whole clusters, one for each seed, and stop at the first violation.

    Events such as elections, crashes and lost messages are counted. Each 1,000 seeds must reach a minimum of every
    event (rare events: all seeds together), so that a simulator in which nothing happens fails. Exit status 1 for a
    violation or a missed minimum.

    With --explore, search every order of events in a small scope (of raft by default: 3 nodes, 2 timeouts, 1 entry, 1
    crash; from empty logs and from logs that diverge), breadth first, until all states are visited or the time is over.
    A violation is printed with the shortest sequence of events that leads to it.
    """
    refuse_ignored(
        "--explore", given=explore, needed_by=("scope", "minutes"), ruled_out=("seeds", "level", "jobs", "zones")
    )
    chosen = choose(system, level)
    if not explore:
        return Campaign(chosen, seeds, jobs or available_cores(), as_json, zones).run()
    try:
        searched = chosen.model.read_scope(scope or chosen.model.scope)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--scope") from error
    return run_explorer(chosen, searched, 60 * minutes, as_json)


class SeedOrScenario(click.ParamType[int | str]):
    """A seed, or the file of a scenario."""

    name = "SEED|FILE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Returns the seed, or the text of the file. Raises a usage error if it is neither."""
        if isinstance(value, int):
            return value
        if str(value).isdecimal() and int(str(value)) <= SEEDS_END_MAX:
            return int(str(value))
        try:
            return Path(str(value)).read_text()
        except (OSError, UnicodeDecodeError):
            self.fail(f"{value!r} is neither a seed nor a file that can be read", param, ctx)


@click.command()
@click.argument("world", type=SeedOrScenario(), metavar="SEED|FILE")
@SYSTEM
@LEVEL
@click.option("--quiet", is_flag=True, help="Print only the verdict and the hash of the trace.")
@click.option(
    "--shrink", "small", is_flag=True, help="Reduce a failing simulation to a small one, and print it as a scenario."
)
@click.option(
    "--keep", type=click.Path(dir_okay=False, path_type=Path), help="With --shrink: write the scenario to this file."
)
def replay(world: int | str, system: str, level: str, quiet: bool, small: bool, keep: Path | None) -> int:
    """Replay one seed or one scenario, one line for each event, and print the hash of the trace last.

    The same seed gives the same trace in every process.

    With --shrink, remove faults, messages, requests, clients and nodes as long as the same promise is broken. The
    result is a short text that `replay` accepts in place of a seed.
    """
    refuse_ignored("--shrink", given=small, needed_by=("keep",), ruled_out=("quiet",))
    chosen = choose(system, level)
    try:
        played = world if isinstance(world, int) else chosen.model.scenarios.read(world)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="SEED|FILE") from error
    if small:
        return run_shrinker(chosen, played, keep)
    return run_replay(chosen, played, quiet=quiet)


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


__all__: Sequence[str] = ["replay", "sim"]
