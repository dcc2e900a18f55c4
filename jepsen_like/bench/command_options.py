"""The common parts of a benchmark's commands: flags, the file of an earlier run, the measurement, and a clean end."""

import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import click

from jepsen_like.bench.display import Display
from jepsen_like.bench.figures import Document, DocumentTable, load
from jepsen_like.bench.measurement import Measurement, PlanT
from jepsen_like.bench.systems import RecordsMissing
from jepsen_like.cli import EnvironmentMissing, ExitStatus

CommandT = TypeVar("CommandT", bound=Callable[..., object])


class BenchNames(click.ParamType[tuple[str, ...]]):
    """Some of a few names, with commas between."""

    name = "NAME,..."

    def __init__(self, known: tuple[str, ...]) -> None:
        self.known = known

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """See `click.ParamType`."""
        if isinstance(value, tuple):
            return value
        named = [part.strip() for part in str(value).split(",") if part.strip()]
        unknown = [part for part in named if part not in self.known]
        if unknown or not named:
            self.fail(f"{', '.join(unknown) or 'nothing'} is not among {', '.join(self.known)}", param, ctx)
        return tuple(part for part in self.known if part in named)


directory_option = click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Where data goes meanwhile: the disk that is measured.",
)
output_option = click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A JSON file for the figures; what it has already of other sections or systems, from this machine, stays.",
)


def decorator_of(options: Sequence[Callable[[Any], Any]]) -> Callable[[CommandT], CommandT]:
    """Returns a decorator that gives a command these options, in this order."""

    def decorate(command: CommandT) -> CommandT:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def earlier(output: Path | None) -> Document | None:
    """Returns the document in the output file, or None. Raises `UsageError` if the file is something else."""
    try:
        return None if output is None or not output.exists() else load(output)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise click.UsageError(f"--output {output} cannot be added to: {error}") from None


def conduct(
    kind: Callable[[PlanT, Path, Document | None, Display], Measurement[PlanT]],
    plan: PlanT,
    directory: Path,
    *,
    tables: Callable[[Document], Iterable[DocumentTable]],
    remarks: Callable[[Document], Iterable[str]],
) -> ExitStatus:
    """Measure what was asked for and show it, also if it ends early for want of room.

    Returns the status of the command. Raises `UsageError` for an output file of something else, and
    `EnvironmentMissing` if a place cannot be written to.
    """
    before = earlier(plan.output)
    make_writable("--directory", directory)
    if plan.output is not None:
        make_writable("--output", plan.output.resolve().parent)
    with Display() as display:
        try:
            measurement = kind(plan, directory, before, display)
        except ValueError as error:
            raise click.UsageError(f"--output {plan.output} cannot be added to: {error}") from None
        try:
            with ending_as_by_ctrl_c():
                measurement.run()
        except RecordsMissing as lost:
            display.line(f"quorumlog lost what it acknowledged: {lost}")
            return ExitStatus.VIOLATION
        except EnvironmentMissing:
            display.tables(tables(measurement.document), remarks(measurement.document))
            raise
        if not measurement.document.figures:
            click.echo(
                "Nothing was measured: none of these systems takes part in these sections, or none could be run."
            )
        display.tables(tables(measurement.document), remarks(measurement.document))
    return ExitStatus.VALID


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
