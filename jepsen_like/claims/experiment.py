"""Defines experiments: clusters that each runs, figures that it takes of them, and what claims expect of these.

`conduct` drives real runs through a `ClaimDesk`. Every figure is read from what the checker and the recorder found in a recorded history.
A run that is planned twice is carried out once, so that experiments share clusters and load.
"""

import itertools
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import click

from jepsen_like.checker.engine.job import TaskRunner
from jepsen_like.checker.verdict import Engine
from jepsen_like.claims.judgement import NEVER, Expect, Figure, Value
from jepsen_like.cli import EnvironmentMissing
from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.targets import Target, processes
from jepsen_like.port.registry import system_named
from jepsen_like.record.results import RecoveryTimes, RunResults, count
from jepsen_like.run.command import allow_descriptors, execute_run, reproduction, validate
from jepsen_like.run.exercise import RunPlan

RATE: Final = 200.0
CONCURRENCY: Final = 8
DURATION_S: Final = 6.0
COMMAND_WITHIN_S: Final = 900.0
DOUBT: Final = "fault "
"""An undecided run that begins a reason with this has done something else than it was to do."""


@attrs.define
class DidNotRun(Exception):
    """A run that gave nothing to measure; the text gives the reason."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.frozen
class DoneRun:
    """A run that was carried out. `place` is its directory, relative to that of all results."""

    place: str
    directory: Path
    plan: RunPlan
    results: RunResults

    @property
    def acked(self) -> int:
        """Acknowledged records, those after the end of all faults included."""
        return self.results.acked

    @property
    def lost(self) -> int:
        """Acknowledged records that are in no final log, whether the mode allows it or not: the RPO in records."""
        return self.results.lost_acked

    @property
    def lost_allowed(self) -> int:
        """Of these the records that the mode may lose under these faults."""
        return count(self.results.lost_allowed)

    @property
    def rate_s(self) -> float:
        """Acknowledged records per second of load."""
        return self.results.acked / self.plan.duration_s

    def fault(self, number: int = 1) -> Mapping[str, Any]:
        """The recovery from the fault with this number, as `rto_s` of results.json. Raises `DidNotRun` if it did not happen."""
        rows = (self.results.rto or RecoveryTimes()).faults or ()
        row = next((row for row in rows if row["id"] == number), None)
        if row is None:
            raise DidNotRun(f"{self.place}: fault {number} was not carried out")
        return row

    def rto_s(self, number: int = 1) -> float:
        """From the begin of a fault to the answer of the first write asked for after it; `NEVER` without any."""
        value = self.fault(number)["s"]
        return NEVER if value is None else float(value)

    def serves_during(self, number: int = 1) -> int:
        """Returns 1 if a write that was asked for after a fault was acknowledged before its end began, else 0."""
        held_s = next(fault.hold_s for fault in self.plan.faults() if fault.id == number)
        return int(self.rto_s(number) < held_s)

    def gap_s(self, number: int = 1) -> float:
        """The longest time without an acknowledged write around a fault."""
        value = self.fault(number)["gap_s"]
        return NEVER if value is None else float(value)

    def latency_ms(self, percentile: str = "p50") -> float:
        """Over all answered operations: `p50` or `p99`."""
        value = self.results.latency_ms[percentile]
        return math.nan if value is None else float(value)


@attrs.define
class ClaimDesk:
    """The place where experiments are carried out: it makes runs, keeps them, and notes figures."""

    directory: Path
    engine: Engine
    worker: TaskRunner
    seed: int = 1
    quick: bool = True
    say: Callable[[str], None] = click.echo
    figures: dict[str, Figure] = attrs.field(factory=dict)
    """Of the experiment under way, by name."""
    tables: list[dict[str, Any]] = attrs.field(factory=list)
    """Of the experiment under way: what its own page shows."""
    _made: dict[RunPlan, DoneRun | DidNotRun] = attrs.field(factory=dict)
    _commands: dict[tuple[str, ...], tuple[Path, list[dict[str, Any]]]] = attrs.field(factory=dict)

    def run(self, name: str, plan: RunPlan) -> DoneRun:
        """Carry a plan out, once; `name` is what people read. Raises `DidNotRun`, and `KeyboardInterrupt`."""
        plan = attrs.evolve(plan, seed=self.seed)
        if plan not in self._made:
            began = time.monotonic()
            self._made[plan] = self._carry_out(name, plan)
            self.say(f"    {name}: {_tell(self._made[plan])}   {time.monotonic() - began:.0f} s")
        made = self._made[plan]
        if isinstance(made, DidNotRun):
            raise made
        return made

    def _carry_out(self, name: str, plan: RunPlan) -> DoneRun | DidNotRun:
        directory = self.new_directory(name)
        try:
            if (lack := system_named(plan.system).lacking()) is not None:
                return DidNotRun(f"{name}: {lack}")
            mode = validate(plan)
            allow_descriptors(plan)
            again = reproduction(plan, quick=self.engine is Engine.LOCAL)
            results = execute_run(plan, mode, directory, again, self.engine, worker=self.worker, quiet=True)
        except (EnvironmentMissing, click.UsageError) as error:
            return DidNotRun(f"{name} did not come up: {error.format_message()}")
        if results.is_interrupted:
            raise KeyboardInterrupt
        if doubts := [doubt for doubt in results.unknown if doubt.startswith(DOUBT)]:
            return DidNotRun(f"{name} ({directory.name}) was not what was planned: {doubts[0]}")
        if results.valid is False:
            broken = [
                f"{check}: {found.examples[0]}" for check, found in results.checks.items() if found.valid is False
            ]
            return DidNotRun(f"{name} ({directory.name}) broke a promise: {broken[0] if broken else 'see its report'}")
        return DoneRun(directory.name, directory, plan, results)

    def command(self, name: str, *words: str) -> tuple[Path, list[dict[str, Any]]]:
        """Carry another command of quorumlog out, once, which takes `--out` and prints JSON.

        Returns its directory and the objects that it printed. Raises `DidNotRun` if it printed none.
        """
        if words not in self._commands:
            began = time.monotonic()
            self._commands[words] = self._command(name, words)
            self.say(f"    {name}: quorumlog {' '.join(words)}   {time.monotonic() - began:.0f} s")
        return self._commands[words]

    def _command(self, name: str, words: Sequence[str]) -> tuple[Path, list[dict[str, Any]]]:
        directory = self.new_directory(name)
        argv = [sys.executable, "-m", "jepsen_like.cli", *words, "--json", "--out", str(directory)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=COMMAND_WITHIN_S)
        (directory / "stderr").write_text(done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if not rows:
            told = [line.strip(" |+-") for line in done.stderr.splitlines() if line.strip(" |+-")]
            raise DidNotRun(f"{name}: {told[-1] if told else f'it ended with status {done.returncode}'}")
        made = sorted(each for each in directory.iterdir() if each.is_dir() and not each.is_symlink())
        return (made[-1] if made else directory), rows

    def new_directory(self, name: str) -> Path:
        """Make a directory among the results, for a run or for what stands for one."""
        number = sum(1 for each in self.directory.iterdir() if each.is_dir()) + 1
        words = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
        directory = self.directory / f"{number:03d}-{'-'.join(filter(None, words.split('-')))}"
        directory.mkdir()
        return directory

    def measure(self, name: str, value: Value, unit: str = "", *runs: "DoneRun | Path") -> None:
        """Note a figure, and the runs that it comes from."""
        places = tuple(
            run.place if isinstance(run, DoneRun) else run.relative_to(self.directory).as_posix() for run in runs
        )
        assert name not in self.figures, name
        self.figures[name] = Figure(name=name, value=value, unit=unit, runs=places)

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> None:
        """Add a table to the experiment's own page. A cell is a text, or a pair of a text and the run that it comes from."""
        cells = [[_cell(each) for each in row] for row in rows]
        self.tables.append({"title": title, "head": list(head), "rows": cells, "note": note})

    def answer(self, text: str) -> None:
        """Add a sentence to the answers at the top of the experiment's own page."""
        self.tables.append({"answer": text})


def _cell(each: Any) -> dict[str, str]:
    text, run = each if isinstance(each, tuple) else (each, None)
    place = run.name if isinstance(run, Path) else run.place if run is not None else ""
    return {"text": str(text), "run": place}


def _tell(made: DoneRun | DidNotRun) -> str:
    if isinstance(made, DidNotRun):
        return f"no figures ({made.reason})"
    rto = made.results.rto or RecoveryTimes()
    away = "never back" if rto.unrecovered else "-" if rto.max is None else f"{rto.max:.2f} s"
    return f"acked {made.acked:,}   lost {made.lost:,}   RTO {away}"


@attrs.frozen(kw_only=True)
class Experiment:
    """Some clusters, and what they decide. `seconds` is about what it takes with `--quick`."""

    name: str
    story: str
    """One sentence: what is done."""
    seconds: float
    expects: tuple[Expect, ...]
    conduct: Callable[[ClaimDesk], None]
    question: str = ""
    """The title of a page of its own, which `ClaimDesk.table` and `ClaimDesk.answer` fill; empty: without one."""

    @property
    def claims(self) -> tuple[str, ...]:
        """The ids of the claims that it has a part in."""
        return tuple(dict.fromkeys(claim for one in self.expects for claim in one.claims))


# -------------------------------------------------------------------- plans


def plan_of(system: str, *settings: str, faults: Sequence[Fault] = (), **changes: Any) -> RunPlan:
    """The plan of a run: `RunPlan` with defaults that fit an experiment; `changes` are fields of it."""
    adapter = system_named(system)
    base = RunPlan(
        system=system,
        replication=adapter.replications[0],
        nodes=3,
        duration_s=DURATION_S,
        rate=RATE,
        concurrency=CONCURRENCY,
        kinds=tuple(dict.fromkeys(fault.kind for fault in faults)),
        workload=next(iter(adapter.workloads)),
        settings=settings,
        seed=1,
        planned=tuple(faults),
    )
    return attrs.evolve(base, **changes)


def aim(number: int, kind: str, at_s: float, hold_s: float, nodes: Sequence[int], of: int) -> Fault:
    """A planned fault of processes that hits exactly these of the nodes 1 to `of`, any of which may lead; in a system with one scope.

    Raises `ValueError` for a number of nodes that no target means.
    """
    everyone = range(1, of + 1)
    minority = max(1, (of - 1) // 2)
    targets = {of: Target.ALL, of - (of - 1) // 2: Target.MAJORITY, minority: Target.MINORITY, 1: Target.ONE}
    if len(nodes) not in targets:
        raise ValueError(f"no target means {len(nodes)} of {of} nodes")
    for seed in itertools.count():
        found = Fault(number, kind, targets[len(nodes)], at_s=at_s, hold_s=hold_s, seed=seed)
        if sorted(processes(found.rng(), found.target, everyone, 1)) == sorted(nodes):
            return found
    raise AssertionError("every draw comes")


def fault(number: int, kind: str, at_s: float, hold_s: float, target: Target = Target.LEADER, **changes: Any) -> Fault:
    """A planned fault; the seed can be given by name, as `overlaps` and `scope` can."""
    return attrs.evolve(Fault(number, kind, target, at_s=at_s, hold_s=hold_s, seed=number), **changes)
