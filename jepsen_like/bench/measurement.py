"""The common part of every system's measurement: its document and file, its temporary directory, its failures.

A failed measurement is a line with its reason and never ends the rest; missing acknowledged records in ours do.
"""

import os
import random
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import attrs

from jepsen_like.bench.display import Display
from jepsen_like.bench.figures import Document, Failover, Figures, NotMeasured, Run, Throughput, machine, middle, save
from jepsen_like.bench.systems import Contender, RecordsMissing
from jepsen_like.cli import EnvironmentMissing


class Plan(Protocol):
    """The plan of a measurement, as asked for."""

    @property
    def repeats(self) -> int:
        """Of throughput."""

    @property
    def seed(self) -> int:
        """Draws the order and the times of faults."""

    @property
    def sections(self) -> Sequence[str]:
        """The sections to measure."""

    @property
    def output(self) -> Path | None:
        """The file for the figures."""

    def arguments(self) -> str:
        """The flags that say the same."""


@attrs.frozen
class Turn:
    """A system in a repeat of throughput, in one of its modes if it has several."""

    system: str
    title: str
    take_loads: Callable[[Path], Figures]
    """From a directory to figures that lack their repeat and run."""
    mode: str = ""


PlanT = TypeVar("PlanT", bound=Plan)


class Measurement(ABC, Generic[PlanT]):
    """One run. `document` holds its findings after those of `earlier`: `ValueError` if that is of another machine."""

    ours: Collection[str]
    """The keys of the systems whose losses end everything."""
    failures: tuple[type[Exception], ...]
    """The errors that are a line about one system."""

    def __init__(self, plan: PlanT, directory: Path, earlier: Document | None, display: Display) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._plan = plan
        self._directory = directory
        self._display = display
        self._earlier = earlier
        run = Run(
            id=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
            arguments=plan.arguments(),
            load_average=round(os.getloadavg()[0], 2),
        )
        self._run = run.id
        self._found = Document(machine(directory), [run])
        self._home = Path()
        """The directory of the systems' data while they are measured."""
        self.document = self._merge()

    def run(self) -> None:
        """Measure everything.

        Raises `RecordsMissing` if a system of ours lost acknowledged records, `EnvironmentMissing` if the file cannot
        be written.
        """
        self._display.steps(self._steps())
        self._home = Path(tempfile.mkdtemp(prefix="bench-", dir=self._directory))
        try:
            self._measure()
        finally:
            shutil.rmtree(self._home, ignore_errors=True)

    @abstractmethod
    def _steps(self) -> float:
        """Steps of the bar, each of about the same length."""

    @abstractmethod
    def _measure(self) -> None:
        """The sections of the plan, each followed by `_keep`."""

    @abstractmethod
    def _describe(self, figure: Throughput) -> str:
        """The results of one load in a line, behind the names of system and load."""

    def _interleave(self, turns: Sequence[Turn]) -> None:
        """Measure throughput: in every repeat all take their turn, in another order each time."""
        order, shuffled, repeats = random.Random(self._plan.seed), list(turns), self._plan.repeats
        for repeat in range(repeats):
            order.shuffle(shuffled)
            for turn in shuffled:
                words = ", ".join(filter(None, (turn.title, turn.mode)))
                self._display.phase(f"throughput, repeat {repeat + 1} of {repeats}: {words}")
                os.sync()  # what the one before has left to the operating system is not this one's burden
                try:
                    with closing(turn.take_loads(self._home / turn.system)) as figures:
                        for figure in figures:
                            self._take(attrs.evolve(figure, repeat=repeat, run=self._run))
                except self.failures as error:
                    when = ", ".join(filter(None, (turn.mode, f"in repeat {repeat + 1}")))
                    self._note_failure("throughput", turn.system, error, when)
            self._keep()

    def _take(self, figure: Throughput) -> None:
        self._found.figures.append(figure)
        self._display.step()
        self._display.line(f"{figure.system:<14} {figure.load:<22} {self._describe(figure)}")

    def _fail_over(self, system: Contender, faults: Sequence[str], outages: Generator[tuple[str, float]]) -> None:
        """Note how long each fault on the leader has kept clients waiting, seconds."""
        took: dict[str, list[float]] = {fault: [] for fault in faults}
        try:
            with closing(outages):
                for number, (fault, seconds) in enumerate(outages, start=1):
                    took[fault].append(seconds)
                    self._display.phase(f"failover: {system.title}, {number} of {len(faults)}, {fault} {seconds:.3f} s")
                    self._display.step()
        except self.failures as error:
            self._note_failure("failover", system.key, error, f"after {sum(map(len, took.values()))} faults")
        for fault, found in took.items():
            if found:
                self._found.figures.append(Failover(system.key, fault, self._run, found))
                self._display.line(
                    f"{system.key:<14} {fault} x {len(found)}: median {middle(found):.3f} s, max {max(found):.3f} s"
                )

    def _merge(self) -> Document:
        return self._found if self._earlier is None else self._earlier.replace(self._found)

    def _keep(self) -> None:
        """Write what was found so far."""
        self.document = self._merge()
        if self._plan.output is not None:
            try:
                save(self.document, self._plan.output)
            except OSError as error:
                raise EnvironmentMissing(
                    f"--output: {self._plan.output} cannot be written any more: {error.strerror or error}; it holds what was"
                    " saved before, and the tables above what was measured; make room and run the rest with --only"
                ) from error

    def _takes_part(self, system: Contender, sections: Sequence[str]) -> bool:
        """Returns True if a system is on this machine; it is noted, and each section gets a line if it is not."""
        self._found.systems[system.key] = about = {"title": system.title, "promise": system.promise, "version": ""}
        mend = system.missing()
        if mend:
            for section in sections:
                self._give_up(section, system.key, f"`{mend}`")
            return False
        about["version"] = system.version()
        return True

    def _give_up(self, section: str, system: str, why: str) -> None:
        self._found.not_measured.append(NotMeasured(section, system, self._run, why))
        self._display.line(f"{section}: {system} not measured: {why}")

    def _note_failure(self, section: str, system: str, error: Exception, when: str) -> None:
        """Another's failure is a line; a loss of ours ends everything."""
        if isinstance(error, RecordsMissing) and system in self.ours:
            raise error
        self._give_up(section, system, f"{when}: {error}")
