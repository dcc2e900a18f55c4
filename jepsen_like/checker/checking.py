"""From a place on disk to a verdict: which files belong to which task, and what the final logs say.

`check_run` is what both `quorumlog run` and `quorumlog check` call, the latter once it has made a run directory of what it got.
"""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import attrs
import numpy as np

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.clocks import clock_errors_of
from jepsen_like.checker.columns import Columns, Ints, begins_operation
from jepsen_like.checker.forgiveness import forgive
from jepsen_like.checker.local_engine import LocalEngine
from jepsen_like.checker.log_check import FinalLog, check_logs, joined
from jepsen_like.checker.queue_check import expectations_of
from jepsen_like.checker.queue_keys import check_keys
from jepsen_like.checker.queue_rows import QueueExpectations
from jepsen_like.checker.queue_tasks import QueueTask, SharedLog
from jepsen_like.checker.register_check import SearchBounds
from jepsen_like.checker.retention import judge_retention
from jepsen_like.checker.tasks import RegistersTask, Shared, Task, loaded, of_model
from jepsen_like.checker.verdict import Check, Engine, Findings, Model, Undecided, Verdict
from jepsen_like.history.files import (
    HistoryReader,
    KeepRule,
    Kept,
    UnreadableHistory,
    bucket_of,
    read_dump,
    read_kept,
)
from jepsen_like.history.ops import NONE, Action, Outcome

HISTORY: Final = "history.parquet"
DUMP: Final = "dump.parquet"
TEST: Final = "test.json"
FINAL_LOGS: Final = "final_logs"
"""In test.json: how many nodes leave a final log, if a system does not promise that all of them hold the same."""
ROWS_MANY: Final = 1_000_000
"""So many places of a log are no burden, though nothing lies there."""
NO_MORE_EXPECTED: Final = QueueExpectations()
LOG_OBJECT: Final = 0
"""The object that a run without a dump is about."""


class TaskRunner(Protocol):
    """What an engine does."""

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Executes the tasks; returns their results in the same order."""
        ...

    def share(self, array: Ints) -> Shared:
        """Make an array reachable for tasks."""
        ...


@contextlib.contextmanager
def engine_of(engine: Engine, master: str | None = None, *, gentle: bool = False) -> Iterator[TaskRunner]:
    """Start an engine and end it afterwards. Spark's packages are imported here and nowhere else.

    `gentle` gives Spark the lowest priority: for an engine that starts while a load is still being measured.
    """
    match engine:
        case Engine.LOCAL:
            yield LocalEngine()
        case Engine.SPARK:
            from jepsen_like.checker.spark_engine import SparkEngine

            with SparkEngine(master, gentle=gentle) as spark:
                yield spark


def check_run(
    directory: Path,
    model: Model,
    engine: Engine,
    *,
    master: str | None = None,
    bounds: SearchBounds | None = None,
    worker: TaskRunner | None = None,
    allowances: Sequence[Allowance] = (),
) -> Verdict:
    """Check a run directory: `history.parquet/`, for logs and queues `dump.parquet/`, for queues what `test.json` states about them.

    `allowances` are the faults of the run that may have cost acknowledged records. `worker` is an engine that runs already
    (of kind `engine`); otherwise one is started and ended. Raises `UnreadableHistory`, and `EnvironmentMissing` when Spark
    cannot start.
    """
    history = HistoryReader.open(directory / HISTORY)
    dump, kept = read_dump(directory / DUMP), read_kept(directory / DUMP)
    rule = next((one.rule for one in kept.values()), KeepRule()) if kept is not None else _rule_of(directory)
    undecided: tuple[Undecided, ...] = ()
    if model is not Model.QUEUE:
        allowances = [one for one in allowances if one.may_cost_records or one.other_log]
    if model is Model.LOG:
        if dump is not None and kept is None and rule.may_expire:
            dump = None
            undecided = (Undecided(LOG_OBJECT, "the dump is not whole: it does not say where the logs begin"),)
        undecided += _missing_final_logs(directory, dump, kept)
    if model is not Model.REGISTER:
        _require_possible(history, kept)
    expectations = _expectations_of(directory) if model is Model.QUEUE else NO_MORE_EXPECTED
    with contextlib.ExitStack() as stack:
        active = worker if worker is not None else stack.enter_context(engine_of(engine, master))
        verdict = _checked(
            history,
            dump,
            model,
            engine,
            active,
            bounds or SearchBounds(clock=time.process_time),
            allowances,
            kept,
            expectations,
        )
    findings = verdict.findings
    if model is Model.LOG:
        for obj in kept if kept is not None else (LOG_OBJECT,):
            findings = findings.plus(
                judge_retention(
                    history,
                    rule,
                    kept[obj] if kept is not None else None,
                    verdict.findings,
                    verdict.losses,
                    is_lossless=not allowances,
                    clocks=clock_errors_of(directory),
                    held=dump.column("a").to_numpy() if dump is not None and rule.retention_bytes else None,
                    obj=obj,
                )
            )
    return attrs.evolve(verdict, findings=attrs.evolve(findings, undecided=findings.undecided + undecided))


def check_history(
    directory: Path,
    model: Model,
    engine: Engine,
    *,
    master: str | None = None,
    bounds: SearchBounds | None = None,
    worker: TaskRunner | None = None,
) -> Verdict:
    """Check a history alone (`bucket=<k>/` directories), without final logs: what was lost in the end cannot be seen."""
    history = HistoryReader.open(directory)
    with contextlib.ExitStack() as stack:
        active = worker if worker is not None else stack.enter_context(engine_of(engine, master))
        return _checked(history, None, model, engine, active, bounds or SearchBounds(clock=time.process_time))


def _checked(
    history: HistoryReader,
    dump: Any,
    model: Model,
    engine: Engine,
    worker: TaskRunner,
    bounds: SearchBounds,
    allowances: Sequence[Allowance] = (),
    kept: Mapping[int, Kept] | None = None,
    expectations: QueueExpectations = NO_MORE_EXPECTED,
) -> Verdict:
    findings = Findings()
    expires = any(one.rule.may_expire for one in (kept or {}).values())
    losses: tuple[AllowedLoss, ...] = ()
    unchecked: frozenset[Check] = frozenset()
    match model:
        case Model.REGISTER:
            for bucket in worker.run([RegistersTask(parts, bounds) for parts in history.parts if parts]):
                findings = findings.plus(bucket)
        case Model.LOG:
            final = final_logs_of(dump, kept) if dump is not None else None
            if allowances and final is not None and history.files():
                findings, losses = _forgiving(history, final, allowances, expires=expires)
            else:
                findings = check_logs(history.files(), worker.run, worker.share, final, expires=expires)
            unchecked = frozenset([Check.LOST]) if final is None else frozenset()
        case Model.QUEUE:
            logs = final_logs_of(dump, kept) if dump is not None else {}
            findings, losses = _checked_queue(history, logs, worker, allowances, expectations)
            unchecked = frozenset([Check.LOST]) if findings.unread else frozenset()
    if not findings.objects:
        findings = attrs.evolve(findings, undecided=(Undecided(NONE, "the history holds no operations"),))
    elif not findings.ok:
        reason = "no operation of the history is known to have happened, so nothing was tested"
        findings = attrs.evolve(findings, undecided=(*findings.undecided, Undecided(NONE, reason)))
    return Verdict(model=model, engine=engine, findings=findings, unchecked=unchecked, losses=losses)


def _checked_queue(
    history: HistoryReader,
    logs: Mapping[int, Sequence[FinalLog]],
    worker: TaskRunner,
    allowances: Sequence[Allowance],
    expectations: QueueExpectations,
) -> tuple[Findings, tuple[AllowedLoss, ...]]:
    """Every bucket by itself: all of a partition lies in one."""
    tasks = []
    for bucket, parts in enumerate(history.parts):
        if not parts:
            continue
        mine = tuple(
            (number, tuple(_shared(log, worker) for log in of_partition))
            for number, of_partition in logs.items()
            if bucket_of(number, len(history.parts)) == bucket
        )
        tasks.append(QueueTask(parts, expectations, mine, tuple(allowances)))
    findings, losses = Findings(), list[AllowedLoss]()
    for found, lost in worker.run(tasks):
        findings = findings.plus(found)
        losses += lost
    if expectations.keys:
        findings = findings.plus(
            check_keys(of_model(loaded(history.files()), history.files()[0], Model.QUEUE), expectations)
        )
    findings = attrs.evolve(findings, t_first=history.began_ns())
    losses = [attrs.evolve(loss, origin_ns=findings.t_first) for loss in losses]
    return findings, tuple(sorted(losses, key=lambda loss: (loss.allowance.begun_ns, loss.object)))


def _shared(log: FinalLog, worker: TaskRunner) -> SharedLog:
    return SharedLog(log.node, log.first, worker.share(log.values), worker.share(log.epochs))


def _expectations_of(directory: Path) -> QueueExpectations:
    """Returns what `test.json` states about the queue of a run; what is true of every queue without it."""
    try:
        test = json.loads((directory / TEST).read_text())
        return expectations_of(test)
    except FileNotFoundError:
        return NO_MORE_EXPECTED
    except (OSError, ValueError, AttributeError) as error:
        raise UnreadableHistory(directory / TEST, f"does not say what the queue is held to ({error})") from error


def _forgiving(
    history: HistoryReader, final: Mapping[int, Sequence[FinalLog]], allowances: Sequence[Allowance], *, expires: bool
) -> tuple[Findings, tuple[AllowedLoss, ...]]:
    """The findings about the logs of a run in which acknowledged records may have been lost; see `forgiveness`.

    In this process and in memory: what is taken out is decided from the whole history at once.
    """
    rows = of_model(loaded(history.files()), history.files()[0], Model.LOG)
    findings, losses = Findings(), list[AllowedLoss]()
    for obj in np.unique(rows.object).tolist():
        of_log = rows.where(rows.object == obj)
        if obj in final:
            of_object = [one for one in allowances if one.reaches(obj)]
            found, lost = _forgiving_log(of_log, obj, final[obj], of_object, expires=expires)
            losses += lost
        else:
            local = LocalEngine()
            found = check_logs([of_log], local.run, local.share, expires=expires)
        findings = findings.plus(found)
    return findings, tuple(losses)


def _forgiving_log(
    rows: Columns, obj: int, logs: Sequence[FinalLog], allowances: Sequence[Allowance], *, expires: bool
) -> tuple[Findings, tuple[AllowedLoss, ...]]:
    local = LocalEngine()
    final, _ = joined(logs)
    forgiven = forgive(rows, final.content, allowances, final.start if expires else 0)
    findings = check_logs([forgiven.rows], local.run, local.share, {obj: logs}, expires=expires)
    for until in forgiven.until:
        if findings.counts:
            break  # one broken promise is enough, and the same one would be found again
        before = check_logs([until], local.run, local.share)
        findings = attrs.evolve(findings, counts=before.counts, violations=before.violations, violated=before.violated)
    first = begins_operation(rows.process, rows.t_inv, rows.t_ret)
    happened = np.bincount(rows.type[first], minlength=len(Outcome) + 1)
    return attrs.evolve(
        findings,
        ok=int(happened[Outcome.OK]),
        fail=int(happened[Outcome.FAIL]),
        info=int(happened[Outcome.INFO]),
        acked=int(((rows.type == Outcome.OK) & (rows.f == Action.APPEND)).sum()),
        lost_acked=findings.lost_acked + sum(loss.records for loss in forgiven.losses),
    ), forgiven.losses


def final_logs_of(dump: Any, kept: Mapping[int, Kept] | None = None) -> dict[int, tuple[FinalLog, ...]]:
    """Returns the final logs of each object in a dump table, one for each node.

    A log begins and ends where `kept` states, if that was recorded: it may be empty, and rows below had left the log before
    it was read to its end. Raises `UnreadableHistory` if it has other rows than that, or two records of a node at one offset.
    """
    columns = {name: np.asarray(dump.column(name).to_numpy()) for name in ("object", "node", "offset", "epoch", "a")}
    objects = {*np.unique(columns["object"]).tolist(), *(kept or {})} or {LOG_OBJECT}
    found = {}
    for obj in sorted(objects):
        mine = columns["object"] == obj
        of_object = {name: column[mine] for name, column in columns.items()}
        if kept is not None and obj not in kept:
            raise UnreadableHistory(Path(DUMP), f"has records of log {obj}, and does not say where it begins")
        found[obj] = _logs_of_nodes(of_object, kept[obj] if kept is not None else None)
    return found


def _logs_of_nodes(columns: Mapping[str, Ints], kept: Kept | None) -> tuple[FinalLog, ...]:
    node, offset, epoch, value = (columns[name] for name in ("node", "offset", "epoch", "a"))
    if len(node) and int(node.min()) < 0:
        raise UnreadableHistory(Path(DUMP), "has records of no node")
    logs = []
    starts = kept.starts if kept is not None else {}
    for one in sorted({*np.flatnonzero(np.bincount(node)).tolist(), *starts}):
        mine = np.flatnonzero((node == one) & (offset >= starts.get(one, 0)))
        if kept is not None:
            _require_whole(one, offset[mine], kept)
        if not len(mine):
            logs.append(FinalLog(one, starts.get(one, 0), np.empty(0, np.int64), np.empty(0, np.int64)))
            continue
        first, end = starts.get(one, int(offset[mine].min())), int(offset[mine].max()) + 1
        if first < 0 or end - first > 2 * len(mine) + ROWS_MANY:
            raise UnreadableHistory(
                Path(DUMP), f"node {one} has records from offset {first} to {end - 1}, but not between"
            )
        values, epochs = np.full(end - first, NONE, np.int64), np.full(end - first, NONE, np.int64)
        values[offset[mine] - first] = value[mine]
        epochs[offset[mine] - first] = epoch[mine]
        if int((values != NONE).sum()) != len(mine):
            raise UnreadableHistory(Path(DUMP), f"node {one} has two records at one offset")
        logs.append(FinalLog(one, first, values, epochs))
    return tuple(logs)


def _require_whole(node: int, offsets: Ints, kept: Kept) -> None:
    """Raises `UnreadableHistory` unless these are all offsets from where the log begins to where it ends."""
    start, end = kept.starts.get(node), kept.ends.get(node)
    if start is None or end is None:
        raise UnreadableHistory(Path(DUMP), f"has records of node {node}, and does not say where its log begins")
    expected = np.arange(start, end) if end - start == len(offsets) else None
    if expected is not None and (np.sort(offsets) == expected).all():
        return
    if len(np.unique(offsets)) < len(offsets):
        raise UnreadableHistory(Path(DUMP), f"node {node} has two records at one offset")
    raise UnreadableHistory(
        Path(DUMP), f"node {node} has {len(offsets)} records, not those from offset {start} to {end}, exclusive"
    )


def _require_possible(history: HistoryReader, kept: Mapping[int, Kept] | None) -> None:
    """Raises `UnreadableHistory` if a log ends far beyond all that was asked for: such a log cannot be checked in memory."""
    for of_object in (kept or {}).values():
        for node, end in of_object.ends.items():
            if end > ROWS_MANY and end > 2 * history.rows() + ROWS_MANY:
                raise UnreadableHistory(
                    Path(DUMP), f"the log of node {node} is said to end at {end}, of a shorter history"
                )


def _rule_of(directory: Path) -> KeepRule:
    """What the settings of a run say that may leave its logs; nothing if they say nothing."""
    try:
        settings = json.loads((directory / TEST).read_text())["settings"]
        return KeepRule(
            retention_bytes=settings["retention_bytes"],
            retention_s=settings["retention_s"],
            judges_age=False,
            starts_stay=False,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return KeepRule()


def _missing_final_logs(directory: Path, dump: Any, kept: Mapping[int, Kept] | None) -> tuple[Undecided, ...]:
    """Why losses cannot be ruled out: too few nodes could be asked for their final logs."""
    nodes = _nodes_of(directory)
    if nodes is None:
        return ()
    empty = {node for one in (kept or {}).values() for node in one.starts}
    dumped = 0 if dump is None else len({*dump.column("node").unique().to_pylist(), *empty})
    if 2 * dumped > nodes or (dump is not None and not dump.num_rows):
        return ()
    return (
        Undecided(LOG_OBJECT, f"only {dumped} of {nodes} nodes left a final log, so that losses cannot be ruled out"),
    )


def _nodes_of(directory: Path) -> int | None:
    """Returns how many nodes of the run were to leave a final log, or None if it does not record that."""
    try:
        test = json.loads((directory / TEST).read_text())
        nodes = test.get(FINAL_LOGS, test.get("nodes"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError) as error:
        raise UnreadableHistory(directory / TEST, f"not a JSON object ({error})") from error
    return nodes if isinstance(nodes, int) else len(nodes) if isinstance(nodes, list) else None
