"""Prints replays, campaigns, small worlds and searches of any model, for the command line."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from jepsen_like.simulation.kernel.campaign import BLOCK_SEEDS, JUDGED_SEEDS_MIN, Block, play_all
from jepsen_like.simulation.kernel.explorer import Explored
from jepsen_like.simulation.kernel.findings import SeedResult
from jepsen_like.simulation.kernel.model import SystemModel
from jepsen_like.simulation.kernel.scenario import Scenario
from jepsen_like.simulation.kernel.shrink import ShrinkOutcome, shrink
from jepsen_like.simulation.kernel.tracing import Trace, header

VALID = 0
VIOLATION = 1
PROGRESS_EVERY_S = 5.0
PROGRESS_EVERY_S_TERMINAL = 0.5


@attrs.frozen
class ChosenSystem:
    """A model and the words that choose it: in a result line (`level core`), and as options of a command."""

    model: SystemModel[Any]
    words: str
    option: str
    """` --system NAME`, or nothing for the model that is simulated by default."""
    level: str

    @property
    def options(self) -> str:
        """The options with which `sim --seeds` and `replay SEED` make the same worlds."""
        return f"{self.option} --level {self.level}"


def run_replay(chosen: ChosenSystem, world: int | Scenario[Any], *, quiet: bool) -> int:
    """Print one line for each event, then what was found, and the hash of the trace last."""
    model = chosen.model
    name = f"seed {world} {chosen.words}" if isinstance(world, int) else f"scenario {chosen.words}"
    trace = Trace(_ignore if quiet else click.echo)
    if not quiet:
        click.echo(header(model.columns))
    knobs = model.draw(world) if isinstance(world, int) else world.knobs
    result = model.world(knobs, observer=trace.event).run()
    for violation in result.violations:
        click.echo(f"{name}: {violation}")
    verdict = f"{len(result.violations)} violations" if result.violations else "no violation"
    click.echo(f"{name}: {verdict}, {result.steps} steps, {trace.lines} events, trace {trace.hash}")
    return VIOLATION if result.violations else VALID


def run_shrinker(chosen: ChosenSystem, world: int | Scenario[Any], keep: Path | None) -> int:
    """Print the reduced world, and by how much it was reduced. Returns exit status 1, as for any world that fails."""
    if keep is not None and not os.access(keep.absolute().parent, os.W_OK):
        raise click.UsageError(f"--keep: {keep.parent} is not a directory that can be written to")
    model = chosen.model
    if isinstance(world, int):
        violations = model.play(world).violations
        if not violations:
            click.echo(f"seed {world} breaks no promise: there is nothing to make small")
            return VALID
        world = Scenario(violations[0].oracle, model.draw(world))
    try:
        shrunk = shrink(model, world, on_progress=_tell_smaller)
    except ValueError as error:
        click.echo(str(error))
        return VALID
    _clear_line()
    before, after = shrunk.before, shrunk.after
    text = f"# {after.violation}\n{model.scenarios.write(shrunk.scenario)}"
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
        click.echo(f"# replay with: quorumlog replay {keep}{chosen.option}")
    return VIOLATION


def _tell_smaller(smaller: ShrinkOutcome[Any], reruns: int) -> None:
    if sys.stderr.isatty():
        faults = len(smaller.knobs.faults)
        click.echo(f"\r{smaller.steps:>7,} steps, {faults:>3} faults, {reruns:>6,} re-runs", err=True, nl=False)


def _ignore(line: str) -> None:
    pass


def run_explorer(chosen: ChosenSystem, scope: Any, seconds_max: float, as_json: bool) -> int:
    """Search, a line for each level; what was seen, and whether that was everything."""
    click.echo(f"scope {scope}, for at most {seconds_max / 60:g} minutes", err=as_json)
    explored = chosen.model.explorer(scope).explore(
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
        click.echo(f"reproduce with: quorumlog sim{chosen.option} --explore --scope {scope}", err=as_json)
    if as_json:
        click.echo(json.dumps({"valid": found is None, "scope": attrs.asdict(scope), **attrs.asdict(explored)}))
    return VALID if found is None else VIOLATION


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


@attrs.define
class Campaign:
    """One `sim` command: progress on stderr, totals on stdout."""

    chosen: ChosenSystem
    seeds: range
    jobs: int
    as_json: bool
    in_zones: bool = False
    """Only the seeds whose worlds stand in zones."""
    whole: Block = attrs.field(init=False)
    _began: float = attrs.field(factory=time.monotonic)
    _told_at: float = attrs.field(factory=time.monotonic)
    _shortfalls: list[str] = attrs.field(factory=list)
    _played: Sequence[int] = ()

    def run(self) -> int:
        """Play the seeds, block by block."""
        model = self.chosen.model
        self._played = [seed for seed in self.seeds if model.draw(seed).zones] if self.in_zones else self.seeds
        if not self._played:
            raise click.BadParameter(
                f"no world of {self.seeds.start}:{self.seeds.stop} stands in zones", param_hint="--seeds"
            )
        block, self.whole = Block(self._played[0], model.floors), Block(self._played[0], model.floors)
        with contextlib.closing(play_all(model, self._played, self.jobs)) as results:
            for result in results:
                block.add(result)
                self.whole.add(result)
                if result.violations:
                    self._close_progress()
                    return self._print_failure(result)
                self._tell_progress()
                if block.seeds == BLOCK_SEEDS:
                    self._close_block(block)
                    block = Block(result.seed + 1, model.floors)
        if block.seeds:
            self._close_block(block)
        if self.whole.seeds > BLOCK_SEEDS:
            self._hold_to_floors(self.whole)
        return self._print_end()

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
        left_s = (len(self._played) - self.whole.seeds) / rate
        line = f"{self.whole.seeds:,} of {len(self._played):,} seeds, {rate:.0f} seeds/s, about {left_s:.0f} s left"
        click.echo(f"\r{line:<70}" if terminal else line, err=True, nl=not terminal)

    def _close_progress(self) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{'':<70}\r", err=True, nl=False)

    def _close_block(self, block: Block) -> None:
        self._close_progress()
        missed = self._hold_to_floors(block)
        self._say(
            f"seeds {block.first_seed}:{block.end_seed}, {block.counts['steps']:,} steps, {block.counts['committed_entries']:,} entries"
        )
        for name in block.floors:
            floor = f"floor {block.floor(name):>9,}" if block.floor(name) else ""
            tail = "  MISSED" if name in missed else ""
            self._say(f"  {name.replace('_', ' '):<22} {block.counts[name]:>12,}  {floor}{tail}".rstrip())
        if block.seeds < JUDGED_SEEDS_MIN:
            self._say(f"  (floors are judged from {JUDGED_SEEDS_MIN} seeds on)")

    def _hold_to_floors(self, block: Block) -> set[str]:
        """Hold the counts of a block against the floors. Returns the names of counts that are too low."""
        shortfalls = block.shortfalls()
        self._shortfalls += [f"seeds {block.first_seed}:{block.end_seed}: {short}" for short in shortfalls]
        return {short.name for short in shortfalls}

    # ---------------------------------------------------------------- ends

    def _print_failure(self, result: SeedResult) -> int:
        command = f"quorumlog replay {result.seed}{self.chosen.options}"
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

    def _print_end(self) -> int:
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
        zones = " --zones" if self.in_zones else ""
        return f"quorumlog sim --seeds {self.seeds.start}:{self.seeds.stop}{self.chosen.options}{zones}"

    def _print_json(self, **fields: object) -> None:
        if not self.as_json:
            return
        line = {
            **fields,
            "system": self.chosen.model.name,
            "level": self.chosen.level,
            "seeds": [self.seeds.start, self.seeds.stop],
            "seeds_done": self.whole.seeds,
            "elapsed_s": round(self._elapsed_s, 3),
            "totals": dict(sorted(self.whole.counts.items())),
        }
        click.echo(json.dumps(line))
