"""Many runs judged in one application: a small one is one task as a whole, a large one is divided into tasks, one after the other.

What comes back of each is bounded: its verdict, its figures, and where these are not those of its `results.json`. One that cannot be
read keeps no other from being judged.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from jepsen_like.check.inputs import as_run, maps_in
from jepsen_like.check.jepsen_maps import Names
from jepsen_like.check.map_files import STDIN
from jepsen_like.check.nemesis_maps import faults_in
from jepsen_like.check.summary import summary
from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.checking import HISTORY, check_run
from jepsen_like.checker.elements.user_model import AnyModel
from jepsen_like.checker.engine.job import TaskRunner
from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.rows.gather import LIMITS
from jepsen_like.checker.verdict import Engine, Model
from jepsen_like.history.files import HistoryReader, UnreadableHistory, part_rows
from jepsen_like.port.registry import system_names
from jepsen_like.record.allowed import allowances_of_run
from jepsen_like.record.attempts import Attempts
from jepsen_like.record.figures import measure, rpo_of
from jepsen_like.record.recorded import Recorded, read_recorded

RESULTS: Final = "results.json"
SMALL_ROWS_MAX: Final = LIMITS.task
"""A run with more rows than one task may hold is divided."""
DRAWN_ROWS_MAX: Final = 1 << 25
"""The load over time is drawn of histories of no more rows than this, in memory."""
MAP_BYTES: Final = 40
"""About what an operation map takes in a file."""
COMPARED: Final = (
    "acked",
    "lost_acked",
    "lost_unexplained",
    "expired",
    "duplicated",
    "ops",
    "objects",
    "attempted",
    "rto_s",
    "rto_client_s",
    "availability",
    "latency_ms",
    "throughput_ops_s",
    "rpo",
    "faults",
)
"""The members of results.json that a check finds again."""
NEAR: Final = 1e-9
"""Sums of the same numbers in another order may differ so much."""


class NoModel(UnreadableHistory):
    """A history of which nothing tells what its objects are."""


@attrs.frozen(kw_only=True)
class Judged:
    """The verdict about one path, with its figures, after the check."""

    path: str
    valid: bool | None = None
    unreadable: str | None = None
    """Why it could not be judged."""
    test: Mapping[str, Any] = {}
    """The content of test.json, which was decided before the run; empty for a history that is no run's."""
    verdict: Mapping[str, Any] = {}
    """As `Verdict.as_json` has it, with objects and values as they were given."""
    figures: Mapping[str, Any] = {}
    """As `Measured.as_json` has them, and `rpo`."""
    series: Mapping[str, Any] = {}
    """The load over time, for a page; empty if none is drawn."""
    summary: tuple[str, ...] = ()
    """The findings in lines for people."""
    differs: tuple[str, ...] = ()
    """The place where results.json states something else, a line each."""
    beyond: tuple[str, ...] = ()
    """The complaints of results.json against the run that no history shows, a line each."""

    @property
    def run(self) -> str:
        """The name of the run, or where a history lies that is no run's."""
        return Path(self.path).resolve().name if self.test else self.path

    def as_json(self) -> dict[str, Any]:
        """One line of `quorumlog check --json`, and what the tables are made of."""
        return {
            "path": self.path,
            "run": self.run,
            "valid": self.valid,
            "unreadable": self.unreadable,
            "test": dict(self.test),
            "differs": list(self.differs),
            "beyond": list(self.beyond),
            **self.verdict,
            **self.figures,
        }


@attrs.frozen
class RunTask:
    """Judge one path as a whole; it has no more than `SMALL_ROWS_MAX` rows."""

    path: Path
    model: AnyModel | None
    engine: Engine
    """The engine that the verdict names, which is the caller's."""
    rows: int
    draws: bool = False

    def execute(self) -> Judged:
        """See `Task`."""
        return judge(self.path, self.model, self.engine, LocalEngine(), draws=self.draws)


def judge_all(
    paths: Sequence[Path], model: AnyModel | None, engine: Engine, worker: TaskRunner, *, draws: bool = False
) -> Iterator[Judged]:
    """Returns what is found of each path, in order. `model` is that of all; None: each run's own. `draws`: for a page of each."""
    sizes = [rows_about(path) for path in paths]
    tasks = [
        RunTask(path, model, engine, rows, draws)
        for path, rows in zip(paths, sizes, strict=True)
        if rows <= SMALL_ROWS_MAX
    ]
    small = iter(worker.run(tasks))
    for path, rows in zip(paths, sizes, strict=True):
        yield next(small) if rows <= SMALL_ROWS_MAX else judge(path, model, engine, worker, draws=draws)


def judge(
    path: Path,
    model: AnyModel | None,
    engine: Engine,
    worker: TaskRunner,
    *,
    measures: bool = True,
    draws: bool = False,
) -> Judged:
    """Check one path, and find its figures if it `measures`, and its load over time if it `draws`."""
    names, series, measures = Names(), dict[str, Any](), measures or draws
    try:
        run = read_recorded(run_of(path))
        if draws and not run.faults and (maps := _maps_at(path)) is not None:
            run = attrs.evolve(run, faults=faults_in(maps))
        model = model or model_of(path)
        with as_run(path, model, names, alone=worker.alone) as directory:
            allowances = allowances_at(directory, path)
            verdict = check_run(directory, model, engine, worker=worker, allowances=allowances)
            found = figures_of(directory, run, worker) if measures else {}
            if draws and HistoryReader.open(directory / HISTORY).rows() <= DRAWN_ROWS_MAX:
                series = Attempts.read(directory / HISTORY).series()
    except UnreadableHistory as error:
        return Judged(path=str(path), unreadable=str(error))
    told = names.in_json(verdict.as_json())
    figures = {**found, "rpo": rpo_of(told, found["faults"])} if measures else {}
    differs, beyond = compared_with_results(path, run, {**told, **figures}) if measures else ((), ())
    return Judged(
        path=str(path),
        valid=verdict.valid,
        test=run.test,
        verdict=told,
        figures=figures,
        series=series,
        summary=tuple(names.in_words(line) for line in summary(verdict)),
        differs=differs,
        beyond=beyond,
    )


def _maps_at(path: Path) -> Path | None:
    """Returns the file of maps at a path, if it is one; None for stdin, which can be read once only."""
    if path == STDIN or path.suffix == ".parquet":
        return None
    return maps_in(path) if path.is_dir() else path


def allowances_at(directory: Path, path: Path | str, began_ns: int | None = None) -> tuple[Allowance, ...]:
    """Returns what the faults of a run may lose. Raises `UnreadableHistory`, which names `path`; see `allowances_of_run`."""
    try:
        return allowances_of_run(directory, began_ns)
    except ValueError as error:
        raise UnreadableHistory(path, str(error)) from error


def figures_of(directory: Path, run: Recorded, worker: TaskRunner) -> dict[str, Any]:
    """Returns what is measured of a run directory: of a large one by Spark, where Spark is there, else in memory."""
    history, load_ended_ns = directory / HISTORY, run.load_ended_ns or 0
    context = getattr(worker, "context", None)  # a client of Connect has none
    if context is None or HistoryReader.open(history).rows() <= SMALL_ROWS_MAX:
        found = measure(Attempts.read(history), run.faults, load_ended_ns).as_json()
    else:
        from jepsen_like.check import figures_spark

        found = figures_spark.measure(context, history, run.faults, load_ended_ns).as_json()
    if run.test and run.load_ended_ns is None:
        found["availability"] = {}  # of a version that did not write down when its load ended
    return found


def run_of(path: Path) -> Path:
    """The run directory that a path belongs to: itself, or what its history lies in."""
    return path.absolute().parent if path.name == HISTORY else path


def model_of(path: Path) -> Model:
    """Returns what checks the workload of the run at a path. Raises `NoModel` where nothing tells, `UnreadableHistory` if it is no history."""
    if path != STDIN and not path.is_file() and maps_in(path) is None:
        HistoryReader.open(path / HISTORY if (path / HISTORY).is_dir() else path)
    recorded = read_recorded(run_of(path))
    if recorded.model is None:
        raise NoModel(
            path, f"{_lacking_model(recorded)}; --model is needed, one of {', '.join(model.value for model in Model)}"
        )
    return recorded.model


def _lacking_model(recorded: Recorded) -> str:
    """Returns why a run does not state its model."""
    system = recorded.test.get("system")
    if system is None or system in system_names():
        return "no test.json tells what its objects are"
    return f"its test.json names the system {system!r}, which no package here has"


def rows_about(path: Path) -> int:
    """Returns how many rows a path has, or about how many it will have; 0 for what is no history, and for stdin, of which that is not known."""
    if path == STDIN:
        return 0
    try:
        maps = maps_in(path) if path.is_dir() else path
        if maps is None:
            return HistoryReader.open(path / HISTORY if (path / HISTORY).is_dir() else path).rows()
        return sum(part_rows(maps)) if maps.suffix == ".parquet" else maps.stat().st_size // MAP_BYTES
    except UnreadableHistory:
        return 0


# -------------------------------------------------------------------- results.json


def compared_with_results(
    path: Path, run: Recorded, found: Mapping[str, Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns where results.json states something else than was found, and what else it holds against the run; nothing without it."""
    if not (path / RESULTS).is_file():
        return (), ()
    try:
        said = json.loads((path / RESULTS).read_text())
        if not isinstance(said, dict):
            raise TypeError("not a JSON object")
        return tuple(differences(said, found, run)), tuple(beyond_history(said, found))
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        return (f"{RESULTS} is not what a run writes: {error}",), ()


def differences(said: Mapping[str, Any], found: Mapping[str, Any], run: Recorded) -> Iterator[str]:
    """Yields where results.json (`said`) is not what its history shows (`found`)."""
    for name in COMPARED:
        if name == "availability" and run.load_ended_ns is None:
            continue
        if not is_same(said.get(name), found.get(name)):
            yield f"{name} is {describe_difference(said.get(name), found.get(name))}"
    for name, check in found["checks"].items():
        of_run = said["checks"].get(name, {})
        if (of_run.get("valid"), of_run.get("count")) != (check["valid"], check["count"]):
            yield (
                f"check {name} is {of_run.get('valid')} with {of_run.get('count')} found, not {check['valid']} with {check['count']}"
            )
    failed = any(check["valid"] is False for check in said["checks"].values())
    open_ = said["valid"] is None and bool(said.get("unknown"))
    if said["valid"] is not (False if failed else None if open_ else found["valid"]):
        yield f"valid is {said['valid']}, not {found['valid']}"


def beyond_history(said: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    """Yields what a run was found guilty or doubtful of that its history does not show."""
    for name, check in said["checks"].items():
        if name not in found["checks"] and check["valid"] is not True:
            yield f"{name}: {(check.get('examples') or ['not decided'])[0]}"


def describe_difference(said: Any, found: Any) -> str:
    """The two values, or the first members of them that differ."""
    if isinstance(said, dict) and isinstance(found, dict):
        for name in (*said, *found):
            if not is_same(said.get(name), found.get(name)):
                return f"{describe_difference(said.get(name), found.get(name))} ({name})"
    return f"{json.dumps(said)}, not {json.dumps(found)}"


def is_same(said: Any, found: Any) -> bool:
    """Returns True if both are the same."""
    if isinstance(said, dict) and isinstance(found, dict):
        return said.keys() == found.keys() and all(is_same(said[name], found[name]) for name in said)
    if isinstance(said, list) and isinstance(found, list):
        return len(said) == len(found) and all(is_same(one, other) for one, other in zip(said, found, strict=True))
    if isinstance(said, float) or isinstance(found, float):
        numbers = (int, float)
        return isinstance(said, numbers) and isinstance(found, numbers) and math.isclose(said, found, rel_tol=NEAR)
    return bool(said == found)
