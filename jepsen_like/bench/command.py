"""`quorumlog bench raft`: measures the replicated log, its peers and the limits of the machine in one run.

Nothing is installed and nothing is left behind: a peer that is not here becomes a line with the command that brings it, and
data lies in a directory of its own, on the disk that is measured, until its system has stopped, also when it is asked to end.
"""

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from jepsen_like.bench.display import Display
from jepsen_like.bench.figures import SECTIONS, Document, load
from jepsen_like.bench.sections import SYSTEMS, BenchPlan, Measurement
from jepsen_like.bench.systems import RecordsMissing
from jepsen_like.cli import EnvironmentMissing, ExitStatus


class _Names(click.ParamType[tuple[str, ...]]):
    """Some of a few names, with commas between."""

    name = "NAME,..."

    def __init__(self, known: tuple[str, ...]) -> None:
        self.known = known

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        named = [part.strip() for part in str(value).split(",") if part.strip()]
        unknown = [part for part in named if part not in self.known]
        if unknown or not named:
            self.fail(f"{', '.join(unknown) or 'nothing'} is not among {', '.join(self.known)}", param, ctx)
        return tuple(part for part in self.known if part in named)


@click.group()
def bench() -> None:
    """Measure throughput, latency and failover of a system, of comparable systems and of this machine's disk and network."""


@bench.command()
@click.option(
    "--only", type=_Names(SECTIONS), default=",".join(SECTIONS), show_default=True, help="The sections to measure."
)
@click.option(
    "--systems", type=_Names(tuple(SYSTEMS)), default=",".join(SYSTEMS), show_default=True, help="Who takes part."
)
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="Of throughput and of restarts.")
@click.option(
    "--seconds", type=click.FloatRange(0.1), default=2.0, show_default=True, help="Of each load in each repeat."
)
@click.option(
    "--kills",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="Of our leader; a third of it of each peer's.",
)
@click.option("--pauses", type=click.IntRange(0), default=20, show_default=True, help="Likewise.")
@click.option(
    "--minutes", type=click.FloatRange(0.05), default=10.0, show_default=True, help="Of full load beside other work."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Draws the times between faults.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Where data goes meanwhile: the disk that is measured.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A JSON file for the figures; what it has already of other sections or systems, from this machine, stays.",
)
@click.pass_context
def raft(
    context: click.Context,
    only: tuple[str, ...],
    systems: tuple[str, ...],
    repeats: int,
    seconds: float,
    kills: int,
    pauses: int,
    minutes: float,
    seed: int,
    directory: Path,
    output: Path | None,
) -> ExitStatus:
    """Compare three nodes of the replicated log with PySyncObj, etcd, ZooKeeper and NATS JetStream, with their own defaults.

    Ends with 0 whatever the figures are: aims that are missed are said, and are no broken promise. An acknowledged record
    that is missing is one.
    """
    plan = BenchPlan(
        sections=only,
        systems=tuple(SYSTEMS[key] for key in systems),
        repeats=repeats,
        seconds=seconds,
        kills=kills,
        pauses=pauses,
        minutes=minutes,
        seed=seed,
        output=output,
    )
    before = earlier(output)
    make_writable("--directory", directory)
    if output is not None:
        make_writable("--output", output.resolve().parent)
    with Display() as display:
        try:
            measurement = Measurement(plan, directory, before, display)
        except ValueError as error:
            raise click.UsageError(f"--output {output} cannot be added to: {error}") from None
        try:
            with ending_as_by_ctrl_c():
                measurement.run()
        except RecordsMissing as lost:
            display.line(f"quorumlog lost what it acknowledged: {lost}")
            return ExitStatus.VIOLATION
        except EnvironmentMissing:
            display.tables(measurement.document)
            raise
        display.tables(measurement.document)
    return ExitStatus.VALID


def earlier(output: Path | None) -> Document | None:
    """Returns the document in the output file, or None. Raises `UsageError` if the file is something else."""
    try:
        return None if output is None or not output.exists() else load(output)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise click.UsageError(f"--output {output} cannot be added to: {error}") from None


@contextmanager
def ending_as_by_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind as Ctrl-C does, once, unless they are ignored (`nohup`)."""
    taken = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]

    def unwind(number: int, frame: FrameType | None) -> None:
        for each in taken:  # who is asked again is at it
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    for each in taken:
        signal.signal(each, unwind)
    try:
        yield
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)


def make_writable(option: str, directory: Path) -> None:
    """Make a directory if need be and a file in it for a moment. Raises `EnvironmentMissing` if that fails."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise EnvironmentMissing(
            f"{option}: {directory} cannot be written to: {error.strerror or error}; choose another"
        ) from error
