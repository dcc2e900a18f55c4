"""The common part of every system's measurement: its document and file, its temporary directory, its failures.

A failed measurement is a line with its reason and never ends the rest; missing acknowledged records in ours do.
"""

import os
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from jepsen_like.bench.display import Display
from jepsen_like.bench.figures import Document, NotMeasured, Run, machine, save
from jepsen_like.bench.systems import RecordsMissing
from jepsen_like.cli import EnvironmentMissing


class Plan(Protocol):
    """The plan of a measurement, as asked for."""

    @property
    def sections(self) -> Sequence[str]:
        """The sections to measure."""

    @property
    def output(self) -> Path | None:
        """The file for the figures."""

    def arguments(self) -> str:
        """The flags that say the same."""


class Contender(Protocol):
    """A system that is measured."""

    @property
    def key(self) -> str:
        """Its name in figures and flags."""

    @property
    def title(self) -> str:
        """Its name in tables."""

    @property
    def promise(self) -> str:
        """The meaning of an acknowledgement."""

    @property
    def missing(self) -> "Told":
        """Returns the command that brings what this machine lacks; empty if nothing."""

    @property
    def version(self) -> "Told":
        """Returns its version."""


class Told(Protocol):
    """A call that returns a text."""

    def __call__(self) -> str:
        """Returns it."""


PlanT = TypeVar("PlanT", bound=Plan)


class Measurement(ABC, Generic[PlanT]):
    """One run. `document` holds what it found, and what an earlier one had found for the same file.

    `ValueError` if `earlier` is of another machine.
    """

    ours: Collection[str]
    """The keys of the systems whose losses end everything."""

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
        self.document = self._merged()

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

    def _merged(self) -> Document:
        return self._found if self._earlier is None else self._earlier.replace(self._found)

    def _keep(self) -> None:
        """Write what was found so far."""
        self.document = self._merged()
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

    def _failed(self, section: str, system: str, error: Exception, when: str) -> None:
        """Another's failure is a line; a loss of ours ends everything."""
        if isinstance(error, RecordsMissing) and system in self.ours:
            raise error
        self._give_up(section, system, f"{when}: {error}")
