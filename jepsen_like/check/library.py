"""A check from a program that has a session of Spark already: `jepsen_like.check_history`."""

import json
import tempfile
from pathlib import Path
from typing import Any

import attrs

from jepsen_like.check.frames import Frames, check_frames, of_frame, read_frames
from jepsen_like.check.inputs import as_run
from jepsen_like.check.jepsen_maps import Names
from jepsen_like.check.runs import NoModel, allowances_at, model_of
from jepsen_like.checker.checking import check_run
from jepsen_like.checker.engine.job import TaskRunner
from jepsen_like.checker.verdict import Engine, Model, Verdict
from jepsen_like.record.recorded import read_recorded

VIOLATIONS = "check string, object bigint, sentence string, operations array<string>"


@attrs.frozen
class CheckReport:
    """The verdict of a check, and its violations as rows."""

    verdict: Verdict
    violations: Any
    """A DataFrame with a row for each violation that is told: check, object, sentence, operations (each as JSON)."""


def check_history(session: Any, history: Any, model: Model | str | None = None) -> CheckReport:
    """Check a history in a `SparkSession` of the caller's, classic or of Connect, which is not stopped.

    `history` is a path that all workers reach, a URL that Spark reads (`file:`, `hdfs:`, `s3a:`), or a DataFrame with the columns
    of a history whose rows come as they were recorded. `model` may be left out for a run directory. Raises `UnreadableHistory`,
    and `EnvironmentMissing` for what the cluster lacks.
    """
    chosen, names = Model(model) if model is not None else None, Names()
    engine = engine_in(session)
    if isinstance(history, str | Path) and "://" not in str(history) and not str(history).startswith("file:"):
        verdict = _of_path(Path(history), chosen, engine, names)
    else:
        frames = read_frames(session, history) if isinstance(history, str) else of_frame(history)
        verdict = check_frames_of_run(frames, chosen)
    return CheckReport(verdict, session.createDataFrame(_rows(verdict, names), VIOLATIONS))


def engine_in(session: Any) -> TaskRunner:
    """Returns an engine in a session of Spark."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        from jepsen_like.checker.engine.connect import ConnectEngine

        return ConnectEngine(session)
    from jepsen_like.checker.engine.context import ContextEngine

    return ContextEngine(session.sparkContext)


def check_frames_of_run(frames: Frames, model: Model | None) -> Verdict:
    """Check a history that Spark reads, with what its run wrote down of itself. Raises what `check` does."""
    with tempfile.TemporaryDirectory(prefix="quorumlog-check-") as scratch:
        frames.copy_recorded(Path(scratch))
        model = model or read_recorded(Path(scratch)).model
        if model is None:
            raise NoModel(frames.name, "no test.json tells what its objects are; a model is needed")
        if not frames.is_run:
            return check_frames(attrs.evolve(frames, recorded={}), model)
        allowances = allowances_at(Path(scratch), frames.name, frames.began_ns())
    return check_frames(frames, model, allowances)


def _of_path(path: Path, model: Model | None, engine: TaskRunner, names: Names) -> Verdict:
    model = model or model_of(path)
    with as_run(path, model, names, alone=engine.alone) as directory:
        return check_run(directory, model, Engine.SPARK, worker=engine, allowances=allowances_at(directory, path))


def _rows(verdict: Verdict, names: Names) -> list[tuple[str, int, str, list[str]]]:
    """Sentences and operations have values as they were given; an object is the number that the verdict has."""
    origin = verdict.findings.t_first
    told = [one.as_json(origin) for one in verdict.violations]
    return [
        (
            one["check"],
            one["object"],
            names.in_words(one["sentence"]),
            [json.dumps(names.in_json(op)) for op in one["ops"]],
        )
        for one in told
    ]
