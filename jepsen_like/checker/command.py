"""`quorumlog check`: a history or a run directory in, a verdict out."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from jepsen_like.checker.checking import HISTORY, check_run, engine_of
from jepsen_like.checker.inputs import as_run
from jepsen_like.checker.jepsen_maps import Names
from jepsen_like.checker.verdict import Engine, Model, Verdict
from jepsen_like.cli import ExitStatus
from jepsen_like.history.files import HistoryReader, UnreadableHistory
from jepsen_like.run.allowed import allowances_of_run

SPARK_ROWS_MIN: Final = 10_000_000
"""So many rows this process still checks in less time than Spark on two cores, which were busy: 27 s and 57 s, of which 21 s
were the start (`benchmarks/results/check_scale.json`). Where Spark overtakes it has not been measured."""
SHOWN_MAX: Final = 10
STATUS: Final = {True: ExitStatus.VALID, False: ExitStatus.VIOLATION, None: ExitStatus.UNKNOWN}
WORD: Final = {True: "true", False: "false", None: "unknown"}


@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--model",
    type=click.Choice([one.value for one in Model]),
    required=True,
    help="What the objects of the history are.",
)
@click.option(
    "--engine",
    type=click.Choice([one.value for one in Engine]),
    help="spark: workers scheduled by Spark. local: this process, without Java. By default local, but spark for more than "
    f"{SPARK_ROWS_MIN:,} rows or with --master.",
)
@click.option("--master", metavar="URL", help="A Spark master, such as spark://host:7077; by default this machine.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print everything found as one line of JSON, before the last line."
)
def check(path: Path, model: str, engine: str | None, master: str | None, as_json: bool) -> ExitStatus:
    """Check a history against a model; the last line is PATH<TAB>true|false|unknown.

    PATH is a run directory, a history of ours (Parquet), or a file of Jepsen's operation maps as JSON lines or EDN,
    one map {type: invoke|ok|fail|info, f, value, process, time, index} per event, in the order they happened:

    \b
    register  write v             ok v
              read nil            ok v          (nil: never written)
              cas [old new]       ok [old new]    (fail without error: another value was there)
              several registers: every value is [key value], of a cas [key [old new]]
    log       append v            ok [offset v]
              read offset         ok [offset v] (v nil: nothing there yet), or several such pairs
              tail nil            ok n          (the committed end)

    A queue (partitions, producers, consumers, groups) is checked from a history of ours only, with the final read of each
    partition and the final logs of its replicas where it has them.

    What the history cannot show is named before that, such as losses in a log without final logs; one in which
    nothing is known to have happened is unknown.

    Ends with 0 if valid, 1 if a violation was found, 3 if it could not be decided, 2 if PATH is no history, 4 if
    something is missing on this machine.
    """
    if master is not None and engine == Engine.LOCAL.value:
        raise click.UsageError("--master needs --engine spark, or none")
    names = Names()
    try:
        verdict = checked(path, Model(model), Engine(engine) if engine else None, master, names)
    except UnreadableHistory as error:
        raise click.UsageError(str(error)) from error
    for line in summary(verdict):
        click.echo(names.in_words(line))
    if as_json:
        click.echo(json.dumps(names.in_json(verdict.as_json())))
    click.echo(f"{path}\t{WORD[verdict.valid]}")
    return STATUS[verdict.valid]


def checked(path: Path, model: Model, engine: Engine | None, master: str | None, names: Names) -> Verdict:
    """Returns the verdict on whatever `path` is. Raises `UnreadableHistory` if it is no history.

    `engine` None: the one that takes less time. `names` gets to know what the numbers in it stand for.
    """
    with as_run(path, model, names) as directory:
        try:
            allowances = allowances_of_run(directory)
        except ValueError as error:
            raise UnreadableHistory(path, str(error)) from error
        if engine is None:
            is_large = HistoryReader.open(directory / HISTORY).rows() > SPARK_ROWS_MIN
            engine = Engine.SPARK if is_large or master is not None else Engine.LOCAL
        with engine_of(engine, master) as worker:
            return check_run(directory, model, engine, worker=worker, allowances=allowances)


def summary(verdict: Verdict) -> Iterator[str]:
    """Returns what was found, for people."""
    found = verdict.findings
    total = found.ok + found.fail + found.info
    thing = "partition" if verdict.model is Model.QUEUE else verdict.model.value
    objects = f"{found.objects:,} {thing}{'s' * (found.objects != 1)}"
    yield f"{total:,} operations ({found.info:,} of unknown outcome) on {objects}"
    for violation in verdict.violations[:SHOWN_MAX]:
        yield f"{violation.check}: {violation.sentence}"
    hidden = sum(found.counts.values()) - min(len(verdict.violations), SHOWN_MAX)
    if hidden:
        yield f"... and {hidden} more violations"
    if found.expired:
        yield f"{found.expired:,} of {found.acked:,} acknowledged records have left the logs, as their retention allows"
    for loss in verdict.losses:
        yield f"lost, as the mode of the run allows: {loss.says}"
    for reason in verdict.reasons[:SHOWN_MAX]:
        yield f"undecided: {reason}"
    for line in verdict.not_tested:
        yield f"not tested: {line}"
