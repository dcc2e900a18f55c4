"""The brokers of one protocol under measurement, ours and Apache's: the flags, the plan, and the order of the sections.

Both kinds of broker take part in every repeat, in another order each time, started afresh; then come the faults.
"""

from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import attrs
import click

from jepsen_like.bench.broker_tables import OURS, THEIRS, BrokerTables
from jepsen_like.bench.command_options import (
    BenchNames,
    CommandT,
    conduct,
    decorator_of,
    directory_option,
    output_option,
)
from jepsen_like.bench.failover import KILL, PAUSE
from jepsen_like.bench.figures import Figures, Throughput
from jepsen_like.bench.measurement import Measurement, Turn
from jepsen_like.bench.systems import Contender
from jepsen_like.cli import ExitStatus

SystemT = TypeVar("SystemT", bound=Contender)


class BrokerDriver(Protocol):
    """A started cluster under load."""

    def warm_up(self, seconds: float) -> None:
        """Put load on it before the first measurement."""

    def figure(self, load: Any) -> Throughput:
        """Returns the figure of one load on a new topic, without system, repeat and run.

        Raises `RecordsMissing` if the topic holds less than was acknowledged.
        """


Drive = Callable[[Path], AbstractContextManager[BrokerDriver]]
"""Starts a cluster in a directory."""


@attrs.frozen(kw_only=True)
class BrokerPlan(Generic[SystemT]):
    """The plan of a measurement, as asked for."""

    sections: Sequence[str]
    systems: Sequence[SystemT]
    modes: Sequence[str] = ()
    """Of throughput; empty where there is one."""
    repeats: int
    seconds: float
    kills: int
    pauses: int
    seed: int
    output: Path | None

    def arguments(self) -> str:
        """The flags that say the same."""
        names = f"--only {','.join(self.sections)} --systems {','.join(system.key for system in self.systems)}"
        names += f" --modes {','.join(self.modes)}" if self.modes else ""
        counts = f"--repeats {self.repeats} --seconds {self.seconds:g} --kills {self.kills} --pauses {self.pauses}"
        return f"{names} {counts} --seed {self.seed}"


class BrokerBench(Measurement[BrokerPlan[SystemT]], Generic[SystemT]):
    """A measurement of our brokers and Apache's."""

    ours = (OURS,)
    loads: Sequence[Any]
    unit: str
    """The word for a record."""

    @abstractmethod
    def _turns(self, systems: Sequence[SystemT]) -> Sequence[Turn]:
        """Throughput of each system, in each of its modes."""

    @abstractmethod
    def _fault(self, system: SystemT, faults: Sequence[str]) -> Generator[tuple[str, float]]:
        """Yields each fault on a leader with the seconds that clients waited."""

    def _sections(self) -> Mapping[str, tuple[Callable[[SystemT], None], int]]:
        """The sections after throughput: how a system is measured, and in how many steps."""
        return {"failover": (self._fail_over_each, len(self._faults()))}

    def _steps(self) -> float:
        plan = self._plan
        systems = [system for system in plan.systems if not system.missing()]
        steps = plan.repeats * len(self.loads) * len(self._turns(systems)) if "throughput" in plan.sections else 0
        return steps + len(systems) * sum(
            steps for section, (_, steps) in self._sections().items() if section in plan.sections
        )

    def _measure(self) -> None:
        plan = self._plan
        systems = [system for system in plan.systems if self._takes_part(system, plan.sections)]
        if "throughput" in plan.sections:
            self._throughput(systems)
        for section, (measure, _) in self._sections().items():
            if section in plan.sections:
                for system in systems:
                    measure(system)
                self._keep()

    def _throughput(self, systems: Sequence[SystemT]) -> None:
        self._interleave(self._turns(systems))

    def _turn(self, system: SystemT, drive: Drive, mode: str = "") -> Turn:
        return Turn(system.key, system.title, partial(self._take_loads, system, drive, mode), mode)

    def _take_loads(self, system: SystemT, drive: Drive, mode: str, home: Path) -> Figures:
        title = f"{system.title}, {mode}" if mode else system.title
        with drive(home) as driver:
            driver.warm_up(system.warm_up_s)
            for load in self.loads:
                self._display.phase(f"{title}: {load.title}")
                yield attrs.evolve(driver.figure(load), system=system.key)

    def _describe(self, figure: Throughput) -> str:
        return (
            f"{figure.records_s:>9,.0f} {self.unit}s/s, {figure.bytes_s / 1e6:>7,.1f} MB/s, p50 {figure.p50_ms:.2f} ms, "
            f"p99 {figure.p99_ms:.2f} ms, {figure.system_us or 0:.1f} us of CPU a {self.unit}"
        )

    def _faults(self) -> Sequence[str]:
        return [KILL] * self._plan.kills + [PAUSE] * self._plan.pauses

    def _fail_over_each(self, system: SystemT) -> None:
        self._fail_over(system, self._faults(), self._fault(system, self._faults()))


def broker_options(
    sections: tuple[str, ...],
    *modes: Callable[[Any], Any],
    seconds: float,
    kills: tuple[int, str],
    pauses: tuple[int, str],
) -> Callable[[CommandT], CommandT]:
    """Returns a decorator with the flags of a command; `kills` and `pauses` are defaults and help."""
    option = partial(click.option, show_default=True)
    options: Sequence[Callable[[Any], Any]] = (
        option("--only", type=BenchNames(sections), default=",".join(sections), help="The sections."),
        option("--systems", type=BenchNames((OURS, THEIRS)), default=f"{OURS},{THEIRS}", help="Who takes part."),
        *modes,
        option("--repeats", type=click.IntRange(1), default=3, help="Of throughput."),
        option("--seconds", type=click.FloatRange(0.1), default=seconds, help="Of each load in each repeat."),
        option("--kills", type=click.IntRange(0), default=kills[0], help=kills[1]),
        option("--pauses", type=click.IntRange(0), default=pauses[0], help=pauses[1]),
        option("--seed", type=int, default=1, help="Draws the order and the times of faults."),
        directory_option,
        output_option,
    )
    return decorator_of(options)


def measure_brokers(
    kind: type[BrokerBench[SystemT]], systems: Mapping[str, SystemT], tables: BrokerTables, flags: Mapping[str, Any]
) -> ExitStatus:
    """Measure as the flags of `broker_options` say. Returns the status of the command."""
    plan = BrokerPlan(
        sections=flags["only"],
        systems=[systems[key] for key in flags["systems"]],
        modes=flags.get("modes", ()),
        **{name: flags[name] for name in ("repeats", "seconds", "kills", "pauses", "seed", "output")},
    )
    return conduct(kind, plan, flags["directory"], tables=tables.tables, remarks=tables.remarks)
