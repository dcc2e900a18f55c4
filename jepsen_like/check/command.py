"""`quorumlog check`: histories and run directories in, verdicts out."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import click

from jepsen_like.check.ci import write_junit, write_sarif
from jepsen_like.check.map_files import STDIN
from jepsen_like.check.pages import write_pages
from jepsen_like.check.runs import Judged, NoModel, judge, judge_all, model_of, rows_about
from jepsen_like.check.stages import Stages
from jepsen_like.check.summary import WORD, notes, print_table, summary
from jepsen_like.check.tables import write_tables
from jepsen_like.checker.checking import engine_of, spark_engine_of
from jepsen_like.checker.cycles.levels import STRICT, TRANSACTIONAL, HeldTo, Level
from jepsen_like.checker.elements.user_model import AnyModel, UserModel
from jepsen_like.checker.engine.job import TaskRunner
from jepsen_like.checker.verdict import Engine, Model
from jepsen_like.cli import ExitStatus
from jepsen_like.history.files import UnreadableHistory

SPARK_ROWS_MIN: Final = 25_000_000
"""So many rows this process checks in as much time as Spark on two cores, of which 3.4 s are its start: 10^7 rows take 3.6 s
here and 5.7 s there, 3 * 10^7 take 10.4 s and 10.1 s (`benchmarks/results/check_scale.json`)."""
STATUS: Final = {True: ExitStatus.VALID, False: ExitStatus.VIOLATION, None: ExitStatus.UNKNOWN}
WORST_FIRST: Final = (ExitStatus.VIOLATION, ExitStatus.USAGE, ExitStatus.UNKNOWN, ExitStatus.VALID)
"""A check of several paths ends with the first of these that one of them would end with alone."""


@attrs.frozen(kw_only=True)
class CheckOptions:
    """The options of `quorumlog check`, as they were given."""

    paths: tuple[Path | str, ...]
    model: str | None
    model_class: str | None
    consistency: str | None
    engine: str | None
    master: str | None
    out: Path | None
    connect: str | None
    ui: bool
    as_json: bool
    html: Path | None
    junit: Path | None
    sarif: Path | None

    @property
    def writes(self) -> bool:
        """Returns True if anything is written besides the lines."""
        return any(where is not None for where in (self.out, self.html, self.junit, self.sarif))


class PathOrUrl(click.Path):
    """A path that exists, or the URL of a history that Spark reads."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """See `click.Path`."""
        return value if "://" in str(value) else super().convert(value, parameter, context)


@click.command()
@click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=PathOrUrl(exists=True, allow_dash=True, path_type=Path)
)
@click.option(
    "--model",
    type=click.Choice([one.value for one in Model if one is not Model.CUSTOM]),
    help="What the objects of the histories are; needed where no test.json of a run tells it.",
)
@click.option(
    "--model-class",
    metavar="MODULE:CLASS",
    help="A model of yours instead: a Python class with initial and step(state, op); see docs/checking.md.",
)
@click.option(
    "--consistency",
    type=click.Choice([one.value for one in Level]),
    help="The level that transactions (list-append, rw-register) are held to; by default strict-serializable.",
)
@click.option(
    "--engine",
    type=click.Choice([one.value for one in Engine]),
    help="spark: workers scheduled by Spark. local: this process, without Java. By default local, but spark for more than "
    f"{SPARK_ROWS_MIN:,} rows or with --master.",
)
@click.option("--master", metavar="URL", help="A Spark master, such as spark://host:7077; by default this machine.")
@click.option("--connect", metavar="URL", help="A Spark Connect server, such as sc://host:15002.")
@click.option("--ui", is_flag=True, help="Serve Spark's page about its jobs while it runs, and print where.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the tables verdict.parquet, violations.parquet and figures.parquet into this directory.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write a page about each PATH into this directory, with its faults where they are known.",
)
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write JUnit's XML: a suite for each PATH, a case for each check.",
)
@click.option(
    "--sarif", type=click.Path(path_type=Path, dir_okay=False), help="Write SARIF 2.1.0: a result for each violation."
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print everything found, a line of JSON for each PATH, before the last lines.",
)
def check(**given: Any) -> ExitStatus:
    """Check histories; the last lines are PATH<TAB>true|false|unknown, one for each PATH.

    PATH is a run directory, a history of ours (Parquet), the URL of one that Spark reads (file:, hdfs:, s3a:), or Jepsen's
    operation maps: a file of JSON or EDN, - for stdin, or a directory of its store. One map
    {type: invoke|ok|fail|info, f, value, process, time, index} per event, in the order they happened:

    \b
    register  write v             ok v
              read nil            ok v          (nil: never written)
              cas [old new]       ok [old new]    (fail without error: another value was there)
              several registers: every value is [key value], of a cas [key [old new]]
    log       append v            ok [offset v]
              read offset         ok [offset v] (v nil: nothing there yet), or several such pairs
              tail nil            ok n          (the committed end)
    unordered-queue, fifo-queue (each element at most once), total-queue (at least once)
              enqueue v           ok v
              dequeue nil         ok v          (nil, or fail with the error empty: nothing was there)
              drain nil           ok [v ...]    (all that there was)
    set, linearizable-set (no read is stale)
              add v               ok v
              read nil            ok [v ...]
    key-value (the value of a key is a list)
              append [k v]        ok [k v]
              put [k [v ...]]     ok [k [v ...]]
              get [k nil]         ok [k [v ...]]
    list-append, rw-register (transactions of several operations)
              txn [[append k v] [r k nil] ...]    ok [[append k v] [r k [v ...]] ...]
              txn [[w k v] [r k nil] ...]         ok [[w k v] [r k v] ...]
    kafka     send, poll, txn, assign, subscribe of Jepsen's workload for Kafka, or a line of JSON for each record that was
              produced, delivered or committed

    Of several queues or sets, too, every value is [key value]. docs/checking.md defines each model.

    The model queue (partitions, producers, consumers, groups) is checked from a history of ours only, with the final read of each
    partition and the final logs of its replicas where it has them.

    What the history cannot show is named before that, such as losses in a log without final logs; one in which
    nothing is known to have happened is unknown.

    Several are judged in one application and shown in one table, with what was measured of each run, found again from its history
    and its faults; where its results.json states something else, that is told.

    Ends with 0 if valid, 1 if a violation was found, 3 if it could not be decided, 2 if PATH is no history, 4 if
    something is missing on this machine. Of several: the first of 1, 2, 3 and 0 that one of them has; one that is no history
    is unknown, and keeps no other from being judged.
    """
    return check_paths(CheckOptions(**given))


def check_paths(options: CheckOptions) -> ExitStatus:
    """Check the histories that the options name, and print what was found; returns how the check ends."""
    refuse_misfits(options)
    master = options.master or options.connect
    chosen = chosen_model(options.model, options.model_class, options.consistency)
    for url in (path for path in options.paths if isinstance(path, str)):
        if len(options.paths) > 1 or options.writes or options.ui or options.engine == Engine.LOCAL.value:
            raise click.UsageError(
                f"{url} is a URL: Spark reads it, alone, and without --out, --html, --junit, --sarif or --ui"
            )
        if isinstance(chosen, UserModel | HeldTo):
            raise click.UsageError(
                "--model-class and transactions are judged from operation maps, which Spark does not read"
            )
        return check_url(url, chosen, master, as_json=options.as_json)
    places = [path for path in options.paths if isinstance(path, Path)]
    if chosen is None:
        require_models(places)
    who = Engine(options.engine) if options.engine else engine_for(sum(map(rows_about, places)), master, ui=options.ui)
    with start_engine(who, master, ui=options.ui) as worker:
        draws, measures = options.html is not None, options.out is not None
        found = (
            [judge(places[0], chosen, who, worker, measures=measures, draws=draws)]
            if len(places) == 1
            else list(judge_all(places, chosen, who, worker, draws=draws))
        )
    return report_all(places, found, options)


@contextlib.contextmanager
def start_engine(engine: Engine, master: str | None, *, ui: bool) -> Iterator[TaskRunner]:
    """Start an engine whose stages are shown, and end it afterwards."""
    with engine_of(engine, master, ui=ui) as running, Stages() as stages:
        if ui:
            context = getattr(running, "context", None)
            click.echo(f"Spark's page: {context.uiWebUrl if context else None}", err=True)
        yield stages.through(running)


def refuse_misfits(options: CheckOptions) -> None:
    """Raises `UsageError` for options that do not go together."""
    if options.master is not None and options.connect is not None:
        raise click.UsageError("--master and --connect name two applications")
    if options.connect is not None and not options.connect.startswith("sc://"):
        raise click.UsageError(f"--connect takes a URL such as sc://host:15002, not {options.connect}")
    if options.engine == Engine.LOCAL.value and (options.master or options.connect or options.ui):
        option = "--master" if options.master else "--connect" if options.connect else "--ui"
        raise click.UsageError(f"{option} needs --engine spark, or none")
    if options.connect is not None and options.ui:
        raise click.UsageError("--ui: a Spark Connect server has a page of its own")
    if STDIN in options.paths and len(options.paths) > 1:
        raise click.UsageError("stdin (-) is checked alone")


def chosen_model(model: str | None, model_class: str | None, consistency: str | None = None) -> AnyModel | None:
    """Returns what the options name, if anything. Raises `UsageError`."""
    chosen = Model(model) if model else None
    if chosen in TRANSACTIONAL:
        return HeldTo(chosen, Level(consistency) if consistency else STRICT)
    if consistency is not None:
        names = " or ".join(one.value for one in TRANSACTIONAL)
        raise click.UsageError(f"--consistency needs --model {names}")
    if model_class is None:
        return chosen
    if chosen is not None:
        raise click.UsageError("--model and --model-class name two models")
    try:
        return UserModel.of(model_class)
    except ValueError as error:
        raise click.UsageError(f"--model-class {error}") from error


def require_models(paths: Sequence[Path]) -> None:
    """Raises `UsageError` for a history of which nothing tells the model; what is no history is told later."""
    for path in paths:
        try:
            model_of(path)
        except NoModel as error:
            raise click.UsageError(str(error)) from error
        except UnreadableHistory:
            continue


def check_url(url: str, model: Model | None, master: str | None, *, as_json: bool) -> ExitStatus:
    """Check what Spark reads at a URL."""
    from jepsen_like.check.frames import read_frames
    from jepsen_like.check.library import check_frames_of_run

    with spark_engine_of(master) as worker:
        try:
            verdict = check_frames_of_run(read_frames(worker.session, url), model)
        except UnreadableHistory as error:
            raise click.UsageError(str(error)) from error
    told = verdict.as_json()
    return tell(Judged(path=url, valid=verdict.valid, verdict=told, summary=tuple(summary(verdict))), as_json=as_json)


def tell(found: Judged, *, as_json: bool) -> ExitStatus:
    """Print everything that was found of one path; returns how the check ends."""
    for line in found.summary:
        click.echo(line)
    if as_json:
        click.echo(json.dumps(found.verdict))
    click.echo(f"{found.path}\t{WORD[found.valid]}")
    return status_of(found)


def write_files(found: Sequence[Judged], options: CheckOptions) -> None:
    """Write what the options ask for besides the lines. Raises `UsageError` where it cannot be written."""
    try:
        if options.out is not None:
            write_tables(options.out, [one.as_json() for one in found])
        if options.junit is not None:
            write_junit(options.junit, found)
        if options.sarif is not None:
            write_sarif(options.sarif, found)
        if options.html is not None:
            for page in write_pages(options.html, found):
                click.echo(f"page: {page}", err=True)
    except OSError as error:
        raise click.UsageError(f"cannot write: {error}") from error


def report_all(paths: Sequence[Path], found: Sequence[Judged], options: CheckOptions) -> ExitStatus:
    """Write and print what was found of each path; returns how the check ends."""
    as_json = options.as_json
    write_files(found, options)
    if len(found) == 1 and found[0].unreadable is not None:
        raise click.UsageError(found[0].unreadable)
    if len(found) == 1:
        return tell(found[0], as_json=as_json)
    if as_json:
        for judged in found:
            click.echo(json.dumps(judged.as_json()))
    else:
        print_table(found)
    for line in notes(found):
        click.echo(line, err=as_json)
    for path, judged in zip(paths, found, strict=True):
        click.echo(f"{path}\t{WORD[judged.valid]}")
    ends = {status_of(one) for one in found}
    return next(status for status in WORST_FIRST if status in ends)


def status_of(one: Judged) -> ExitStatus:
    """Returns how a check of this path alone would end."""
    return STATUS[one.valid] if one.unreadable is None else ExitStatus.USAGE


def engine_for(rows: int, master: str | None, *, ui: bool = False) -> Engine:
    """The engine that takes less time for so many rows, or the one that has what was asked for."""
    return Engine.SPARK if rows > SPARK_ROWS_MIN or master is not None or ui else Engine.LOCAL
