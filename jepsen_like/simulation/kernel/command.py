"""`quorumlog sim` and `quorumlog replay`: the simulator from the command line."""

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
import click

from jepsen_like.simulation.kernel.campaign import BLOCK_SEEDS, FLOORS, JUDGED_SEEDS_MIN, Block, play_all
from jepsen_like.simulation.kernel.findings import SeedResult
from jepsen_like.simulation.kernel.scenario import Scenario, read, write
from jepsen_like.simulation.kernel.shrink import ShrinkOutcome, shrink
from jepsen_like.simulation.raft.explorer import Explored, RaftExplorer, Scope
from jepsen_like.simulation.raft.swarm import draw
from jepsen_like.simulation.raft.tracing import HEADER, Trace
from jepsen_like.simulation.raft.world import RaftWorld

VALID = 0
VIOLATION = 1
PROGRESS_EVERY_S = 5.0
PROGRESS_EVERY_S_TERMINAL = 0.5
SEEDS_END_MAX = 1 << 63
LOGS = re.compile(r"[\d./]+")
SCOPE_MAX = {"nodes": 5, "timeouts": 9, "entries": 9, "crashes": 9, "heartbeats": 9, "damages": 9, "trims": 9}


class SeedRange(click.ParamType[range]):
    """`A:B`, half open."""

    name = "A:B"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """The range; a usage error unless 0 <= A < B."""
        if isinstance(value, range):
            return value
        first, colon, end = str(value).partition(":")
        if not (colon and first.isdecimal() and end.isdecimal() and int(first) < int(end) <= SEEDS_END_MAX):
            self.fail(f"{value!r} is not a range of seeds; write FIRST:END, for example 0:1000", param, ctx)
        return range(int(first), int(end))


class ScopeType(click.ParamType[Scope]):
    """`nodes=3,timeouts=2,entries=1,crashes=1,logs=1.2/1/1`; what is left out keeps its default."""

    name = "NAME=N,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Scope:
        """The scope; a usage error for an unknown name or a number that makes no sense."""
        if isinstance(value, Scope):
            return value
        numbers: dict[str, int] = {}
        logs: tuple[tuple[int, ...], ...] = ()
        for part in str(value).split(","):
            name, equals, number = part.partition("=")
            if name == "logs" and LOGS.fullmatch(number):
                logs = tuple(tuple(int(term) for term in log.split(".") if term) for log in number.split("/"))
            elif equals and number.isdecimal() and int(number) <= SCOPE_MAX.get(name, -1):
                numbers[name] = int(number)
            else:
                bounds = ", ".join(f"{known} up to {most}" for known, most in SCOPE_MAX.items())
                self.fail(
                    f"{part!r} bounds nothing; there are {bounds}, and logs=1.2/1/1 for the terms in each node's first log",
                    param,
                    ctx,
                )
        scope = Scope(**numbers, logs=logs)
        if not scope.nodes or len(logs) not in (0, scope.nodes) or any(list(log) != sorted(log) for log in logs):
            self.fail("there must be a node, and as many logs as nodes, each with terms that do not fall", param, ctx)
        return scope


def refuse_ignored(mode: str, *, given: bool, needed_by: Sequence[str], ruled_out: Sequence[str]) -> None:
    """`UsageError` for an option on the command line that would be ignored, with or without the option `mode`."""
    context = click.get_current_context()
    for name in ruled_out if given else needed_by:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} does not go with {mode}" if given else f"--{name} needs {mode}", context)


LEVEL = click.option(
    "--level",
    type=click.Choice(["core"]),
    default="core",
    show_default=True,
    help="What is simulated: core = RaftCore, outbox, storage and log under virtual time.",
)


@click.command()
@click.option("--seeds", type=SeedRange(), default="0:1000", show_default=True, help="Half-open range of seeds.")
@LEVEL
@click.option("--jobs", type=click.IntRange(1, 1024), default=None, help="Processes; default: one for each core.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one line of JSON, last on stdout.")
@click.option("--explore", is_flag=True, help="Instead of seeds: every state that a small group can reach.")
@click.option("--scope", type=ScopeType(), default="nodes=3", help="With --explore: how much may happen in it.")
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), default=15.0, show_default=True, help="With --explore."
)
def sim(seeds: range, level: str, jobs: int | None, as_json: bool, explore: bool, scope: Scope, minutes: float) -> int:
    """Simulate whole clusters, one for each seed, and stop at the first violation.

    Each 1,000 seeds must also reach a floor for everything that should have happened in them (and all together for what is rare), so
    that an idle simulator fails. Exit status 1 for a violation or a missed floor.

    With --explore, search every order of events in a small scope (default: 3 nodes, 2 timeouts, 1 entry, 1 crash; from empty
    logs and from logs that have parted), breadth first, until all states are seen or the time is over; a violation is
    printed with the shortest way to it.
    """
    refuse_ignored("--explore", given=explore, needed_by=("scope", "minutes"), ruled_out=("seeds", "level", "jobs"))
    if explore:
        return run_explorer(scope, 60 * minutes, as_json)
    campaign = Campaign(seeds, level, jobs or available_cores(), as_json)
    return campaign.run()


class SeedOrScenario(click.ParamType[int | Scenario]):
    """A seed, or the file of a scenario."""

    name = "SEED|FILE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | Scenario:
        """The seed or what the file describes; a usage error if it is neither."""
        if isinstance(value, int | Scenario):
            return value
        if str(value).isdecimal() and int(str(value)) <= SEEDS_END_MAX:
            return int(str(value))
        try:
            return read(Path(str(value)).read_text())
        except OSError:
            self.fail(f"{value!r} is neither a seed nor a file that can be read", param, ctx)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.argument("world", type=SeedOrScenario(), metavar="SEED|FILE")
@LEVEL
@click.option("--quiet", is_flag=True, help="Only the verdict and the hash of the trace.")
@click.option(
    "--shrink", "small", is_flag=True, help="Instead: make a failing world small, and print it as a scenario."
)
@click.option(
    "--keep", type=click.Path(dir_okay=False, path_type=Path), help="With --shrink: write the scenario there."
)
def replay(world: int | Scenario, level: str, quiet: bool, small: bool, keep: Path | None) -> int:
    """Replay one seed or one scenario, one line for each event, and print the hash of the trace last.

    The same seed gives the same trace in every process.

    With --shrink, take away faults, messages, requests, clients and nodes as long as the same promise is broken. What is left
    is a short text that `replay` takes in place of a seed.
    """
    refuse_ignored("--shrink", given=small, needed_by=("keep",), ruled_out=("quiet",))
    if small:
        return run_shrinker(world, keep)
    name = f"seed {world} level {level}" if isinstance(world, int) else f"scenario level {level}"
    trace = Trace(_ignore if quiet else click.echo)
    if not quiet:
        click.echo(HEADER)
    knobs = draw(world) if isinstance(world, int) else world.knobs
    result = RaftWorld(knobs, observer=trace.event).run()
    for violation in result.violations:
        click.echo(f"{name}: {violation}")
    verdict = f"{len(result.violations)} violations" if result.violations else "no violation"
    click.echo(f"{name}: {verdict}, {result.steps} steps, {trace.lines} events, trace {trace.hash}")
    return VIOLATION if result.violations else VALID


def run_shrinker(world: int | Scenario, keep: Path | None) -> int:
    """Print the small world, and what became of the large one; exit status 1, as for any world that fails."""
    if keep is not None and not os.access(keep.absolute().parent, os.W_OK):
        raise click.UsageError(f"--keep: {keep.parent} is not a directory that can be written to")
    if isinstance(world, int):
        knobs = draw(world)
        violations = RaftWorld(knobs).run().violations
        if not violations:
            click.echo(f"seed {world} breaks no promise: there is nothing to make small")
            return VALID
        world = Scenario(violations[0].oracle, knobs)
    try:
        shrunk = shrink(world, on_progress=_tell_smaller)
    except ValueError as error:
        click.echo(str(error))
        return VALID
    _clear_line()
    before, after = shrunk.before, shrunk.after
    text = f"# {after.violation}\n{write(shrunk.scenario)}"
    click.echo(text, nl=False)
    for what, old, new in (
        ("steps", before.steps, after.steps),
        ("faults", len(before.knobs.faults), len(after.knobs.faults)),
        ("messages", len(before.messages), len(after.messages)),
        ("nodes", before.knobs.nodes, after.knobs.nodes),
    ):
        click.echo(f"# {what} {old:,} -> {new:,}")
    click.echo(f"# {shrunk.reruns:,} re-runs")
    if keep is not None:
        keep.write_text(text)
        click.echo(f"# replay with: quorumlog replay {keep}")
    return VIOLATION


def _tell_smaller(smaller: ShrinkOutcome, reruns: int) -> None:
    if sys.stderr.isatty():
        faults = len(smaller.knobs.faults)
        click.echo(f"\r{smaller.steps:>7,} steps, {faults:>3} faults, {reruns:>6,} re-runs", err=True, nl=False)


def _ignore(line: str) -> None:
    pass


def run_explorer(scope: Scope, seconds_max: float, as_json: bool) -> int:
    """Search, a line for each level; what was seen, and whether that was everything."""
    click.echo(f"scope {scope_words(scope)}, for at most {seconds_max / 60:g} minutes", err=as_json)
    explored = RaftExplorer(scope).explore(
        seconds_max=seconds_max,
        on_level=lambda level: _tell_level(level, as_json),
        on_progress=lambda level: _tell_inside_level(level, seconds_max),
    )
    _clear_line()
    click.echo(
        f"{explored.states:,} distinct states, {explored.transitions:,} transitions, depth {explored.depth}, "
        f"{'the scope is exhausted' if explored.exhausted else 'the scope is not exhausted'}, {explored.seconds:.1f} s, "
        f"{explored.states / max(explored.seconds, 1e-3):,.0f} states/s",
        err=as_json,
    )
    found = explored.found
    if found is not None:
        for step, action in enumerate(found.path, start=1):
            click.echo(f"{step:>4}  {action}", err=as_json)
        click.echo(found.sentence, err=as_json)
        click.echo(f"reproduce with: quorumlog sim --explore --scope {scope_words(scope)}", err=as_json)
    if as_json:
        click.echo(json.dumps({"valid": found is None, "scope": attrs.asdict(scope), **attrs.asdict(explored)}))
    return VALID if found is None else VIOLATION


def scope_words(scope: Scope) -> str:
    """The scope as `--scope` takes it."""
    numbers = ",".join(f"{name}={getattr(scope, name)}" for name in SCOPE_MAX)
    logs = "/".join(".".join(map(str, log)) for log in scope.logs)
    return f"{numbers},logs={logs}" if logs else numbers


def _tell_level(explored: Explored, as_json: bool) -> None:
    _clear_line()
    click.echo(_level(explored), err=as_json)


def _tell_inside_level(explored: Explored, seconds_max: float) -> None:
    if sys.stderr.isatty():
        left_s = max(0.0, seconds_max - explored.seconds)
        click.echo(f"\r{_level(explored)}  at most {left_s:.0f} s left", err=True, nl=False)


def _level(explored: Explored) -> str:
    rate = explored.states / max(explored.seconds, 1e-3)
    return (
        f"depth {explored.depth:>3}  {explored.states:>12,} states  {explored.transitions:>12,} transitions  "
        f"{explored.seconds:>7.1f} s  {rate:>8,.0f} states/s"
    )


def _clear_line() -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{'':<100}\r", err=True, nl=False)


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


@attrs.define
class Campaign:
    """One `sim` command: progress on stderr, totals on stdout."""

    seeds: range
    level: str
    jobs: int
    as_json: bool
    whole: Block = attrs.field(init=False)
    _began: float = attrs.field(factory=time.monotonic)
    _told_at: float = attrs.field(factory=time.monotonic)
    _shortfalls: list[str] = attrs.field(factory=list)

    def run(self) -> int:
        """Play the seeds, block by block."""
        block, self.whole = Block(self.seeds[0]), Block(self.seeds[0])
        with contextlib.closing(play_all(self.seeds, self.jobs)) as results:
            for result in results:
                block.add(result)
                self.whole.add(result)
                if result.violations:
                    self._close_progress()
                    return self._failed(result)
                self._tell_progress()
                if block.seeds == BLOCK_SEEDS:
                    self._close_block(block)
                    block = Block(result.seed + 1)
        if block.seeds:
            self._close_block(block)
        if self.whole.seeds > BLOCK_SEEDS:
            self._hold_to_floors(self.whole)
        return self._finished()

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began

    # ---------------------------------------------------------------- saying

    def _say(self, text: str) -> None:
        click.echo(text, err=self.as_json)

    def _tell_progress(self) -> None:
        terminal = sys.stderr.isatty()
        if time.monotonic() - self._told_at < (PROGRESS_EVERY_S_TERMINAL if terminal else PROGRESS_EVERY_S):
            return
        self._told_at = time.monotonic()
        rate = self.whole.seeds / self._elapsed_s
        left_s = (len(self.seeds) - self.whole.seeds) / rate
        line = f"{self.whole.seeds:,} of {len(self.seeds):,} seeds, {rate:.0f} seeds/s, about {left_s:.0f} s left"
        click.echo(f"\r{line:<70}" if terminal else line, err=True, nl=not terminal)

    def _close_progress(self) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{'':<70}\r", err=True, nl=False)

    def _close_block(self, block: Block) -> None:
        self._close_progress()
        missed = self._hold_to_floors(block)
        end = block.first_seed + block.seeds
        self._say(
            f"seeds {block.first_seed}:{end}, {block.counts['steps']:,} steps, {block.counts['committed_entries']:,} entries"
        )
        for name in FLOORS:
            floor = f"floor {block.floor(name):>9,}" if block.floor(name) else ""
            tail = "  MISSED" if name in missed else ""
            self._say(f"  {name.replace('_', ' '):<22} {block.counts[name]:>12,}  {floor}{tail}".rstrip())
        if block.seeds < JUDGED_SEEDS_MIN:
            self._say(f"  (floors are judged from {JUDGED_SEEDS_MIN} seeds on)")

    def _hold_to_floors(self, block: Block) -> set[str]:
        """What it has too little of."""
        shortfalls = block.shortfalls()
        end = block.first_seed + block.seeds
        self._shortfalls += [f"seeds {block.first_seed}:{end}: {short}" for short in shortfalls]
        return {short.name for short in shortfalls}

    # ---------------------------------------------------------------- ends

    def _failed(self, result: SeedResult) -> int:
        command = f"quorumlog replay {result.seed} --level {self.level}"
        for violation in result.violations:
            self._say(f"seed {result.seed}: {violation}")
        self._print_json(
            valid=False,
            seed=result.seed,
            violations=[attrs.asdict(violation) for violation in result.violations],
            command=command,
        )
        self._say(f"make it small with: {command} --shrink")
        self._say(f"reproduce with: {command}")
        return VIOLATION

    def _finished(self) -> int:
        rate = self.whole.seeds / self._elapsed_s
        clean = f"{self.whole.seeds:,} seeds clean in {self._elapsed_s:.1f} s ({rate:.1f} seeds/s, {self.jobs} job{'s' * (self.jobs != 1)})"
        self._say(clean)
        for shortfall in self._shortfalls:
            self._say(f"floor missed: {shortfall}")
        self._print_json(valid=not self._shortfalls, violations=[], shortfalls=self._shortfalls)
        if not self._shortfalls:
            return VALID
        self._say(f"reproduce with: {self._own_command()}")
        return VIOLATION

    def _own_command(self) -> str:
        return f"quorumlog sim --seeds {self.seeds.start}:{self.seeds.stop} --level {self.level}"

    def _print_json(self, **fields: object) -> None:
        if not self.as_json:
            return
        line = {
            **fields,
            "level": self.level,
            "seeds": [self.seeds.start, self.seeds.stop],
            "seeds_done": self.whole.seeds,
            "elapsed_s": round(self._elapsed_s, 3),
            "totals": dict(sorted(self.whole.counts.items())),
        }
        click.echo(json.dumps(line))


__all__: Sequence[str] = ["replay", "sim"]
