"""From a place on disk to a verdict: which files belong to which task, and what the final logs say.

`check_run` is what both `quorumlog run` and `quorumlog check` call, the latter once it has made a run directory of what it got.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs
import numpy as np

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.elements.calls_tasks import check_many_calls
from jepsen_like.checker.elements.tasks import check_many_objects
from jepsen_like.checker.elements.user_model import VALUES, AnyModel, UserModel
from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.engine.scratch import Scratch
from jepsen_like.checker.log.check import check_many_logs
from jepsen_like.checker.log.clocks import clock_errors_of
from jepsen_like.checker.log.explain import check_logs
from jepsen_like.checker.log.retention import judge_retention
from jepsen_like.checker.log.tasks import forgiving
from jepsen_like.checker.queue.check import expectations_of
from jepsen_like.checker.queue.rows import QueueExpectations
from jepsen_like.checker.queue.tasks import check_many_queues
from jepsen_like.checker.register.check import check_many_registers
from jepsen_like.checker.rows.columns import Ints
from jepsen_like.checker.rows.final_logs import DUMP, LOG_OBJECT, ROWS_MANY, final_logs_of
from jepsen_like.checker.rows.gather import LIMITS, Limits, rows_in, sized
from jepsen_like.checker.rows.tasks import Shared, Task
from jepsen_like.checker.search import SearchBounds
from jepsen_like.checker.verdict import LOOKS, NOUNS, SETS, Check, Engine, Findings, Model, Undecided, Verdict
from jepsen_like.history.files import (
    FINAL_LOGS,
    HistoryReader,
    KeepRule,
    Kept,
    UnreadableHistory,
    dump_parts,
    limits_of,
    read_dump_part,
    read_kept,
    read_part,
)
from jepsen_like.history.ops import DUMP_COLUMNS, NONE, ErrorCode

if TYPE_CHECKING:
    from jepsen_like.checker.engine.connect import ConnectEngine
    from jepsen_like.checker.engine.context import ContextEngine

HISTORY: Final = "history.parquet"
TEST: Final = "test.json"
NO_MORE_EXPECTED: Final = QueueExpectations()


Share = Callable[[Ints], Shared]
LOGS_DIRECT_MAX: Final = 8
"""A history of more logs than this is sorted out by log first: its part files have rows of each."""

RETENTION_ROWS_MAX: Final = 1 << 24
"""A rule of retention is judged for histories of no more rows than this: in this process, with some of their columns."""


class TaskRunner(Protocol):
    """What an engine does."""

    @property
    def alone(self) -> bool:
        """Returns whether all tasks run on this machine."""
        ...

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Executes the tasks; returns their results in the same order."""
        ...


@contextlib.contextmanager
def engine_of(
    engine: Engine, master: str | None = None, *, gentle: bool = False, ui: bool = False
) -> Iterator[TaskRunner]:
    """Start an engine and end it afterwards. Spark's packages are imported here and nowhere else.

    `master` is a Spark master, or a Connect server (`sc://host:port`). `gentle` gives Spark the lowest priority: for an engine
    that starts while a load is still being measured. `ui`: see `SparkEngine`.
    """
    match engine:
        case Engine.LOCAL:
            yield LocalEngine()
        case Engine.SPARK:
            with spark_engine_of(master, gentle=gentle, ui=ui) as spark:
                yield spark


@contextlib.contextmanager
def spark_engine_of(
    master: str | None = None, *, gentle: bool = False, ui: bool = False
) -> Iterator["ConnectEngine | ContextEngine"]:
    """Start an engine of Spark and end it afterwards; see `engine_of`."""
    if master is not None and master.startswith("sc://"):
        from jepsen_like.checker.engine.connect import ConnectedEngine

        with ConnectedEngine(master) as connected:
            yield connected
        return
    from jepsen_like.checker.engine.spark import SparkEngine

    with SparkEngine(master, gentle=gentle, ui=ui) as spark:
        yield spark


def check_run(
    directory: Path,
    model: AnyModel,
    engine: Engine,
    *,
    master: str | None = None,
    bounds: SearchBounds | None = None,
    worker: TaskRunner | None = None,
    allowances: Sequence[Allowance] = (),
    limits: Limits = LIMITS,
) -> Verdict:
    """Check a run directory: `history.parquet/`, for logs and queues `dump.parquet/`, for queues what `test.json` states about them.

    `allowances` are the faults of the run that may have cost acknowledged records. `worker` is an engine that runs already
    (of kind `engine`); otherwise one is started and ended. `limits` bound the memory of each process. Raises
    `UnreadableHistory`, and `EnvironmentMissing` when Spark cannot start.
    """
    history = HistoryReader.open(directory / HISTORY)
    bounds = bounds or SearchBounds(clock=time.process_time)
    if isinstance(model, UserModel):
        with contextlib.ExitStack() as stack:
            active = worker if worker is not None else stack.enter_context(engine_of(engine, master))
            return _check_calls(directory, history, model, engine, active, bounds, limits)
    dump, kept = dump_parts(directory / DUMP), read_kept(directory / DUMP)
    rule = next((one.rule for one in kept.values()), KeepRule()) if kept is not None else _rule_of(directory)
    undecided: tuple[Undecided, ...] = ()
    if model is not Model.QUEUE:
        allowances = [one for one in allowances if one.may_cost_records or one.other_log]
    if model is Model.LOG:
        if dump and kept is None and rule.may_expire:
            dump = ()
            undecided = (Undecided(LOG_OBJECT, "the dump is not whole: it does not say where the logs begin"),)
        undecided += _missing_final_logs(directory, dump, kept)
    if model in (Model.LOG, Model.QUEUE):
        _require_possible(history, kept)
    expectations = _expectations_of(directory) if model is Model.QUEUE else NO_MORE_EXPECTED
    with contextlib.ExitStack() as stack:
        active = worker if worker is not None else stack.enter_context(engine_of(engine, master))
        verdict = _checked(history, dump, model, engine, active, bounds, allowances, kept, expectations, limits)
    findings = verdict.findings
    if model is Model.LOG and rule.may_expire and (rows := history.rows()) > RETENTION_ROWS_MAX:
        reason = f"whether logs let go only what they may is judged in memory, and {rows:,} rows are too many for that"
        undecided += (Undecided(LOG_OBJECT, reason),)
    elif model is Model.LOG and ((trimmed := _trimmed_logs(history)) or rule.may_expire):
        held = [read_dump_part(path).column("a").to_numpy() for path in dump] if rule.retention_bytes else []
        for obj in sorted({*(kept if kept is not None else (LOG_OBJECT,)), *trimmed}):
            findings = findings.plus(
                judge_retention(
                    history,
                    rule,
                    (kept or {}).get(obj),
                    verdict.findings,
                    verdict.losses,
                    is_lossless=not allowances,
                    clocks=clock_errors_of(directory),
                    held=np.concatenate(held) if held else None,
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
    limits: Limits = LIMITS,
) -> Verdict:
    """Check a history alone (`bucket=<k>/` directories), without final logs: what was lost in the end cannot be seen."""
    history = HistoryReader.open(directory)
    with contextlib.ExitStack() as stack:
        active = worker if worker is not None else stack.enter_context(engine_of(engine, master))
        searched = bounds or SearchBounds(clock=time.process_time)
        return _checked(history, (), model, engine, active, searched, limits=limits)


def _check_calls(
    directory: Path,
    history: HistoryReader,
    of_class: UserModel,
    engine: Engine,
    worker: TaskRunner,
    bounds: SearchBounds,
    limits: Limits,
) -> Verdict:
    if not (directory / VALUES).is_file():
        raise UnreadableHistory(directory, "a class of yours judges operation maps, and this is a history of ours")
    with Scratch(history.directory.resolve().parent, alone=worker.alone) as scratch:
        findings = check_many_calls(history, directory / VALUES, of_class, bounds, worker.run, scratch, limits)
    return Verdict(model=Model.CUSTOM, engine=engine, findings=concluded(findings, Model.CUSTOM))


def _checked(
    history: HistoryReader,
    dump: Sequence[Path],
    model: Model,
    engine: Engine,
    worker: TaskRunner,
    bounds: SearchBounds,
    allowances: Sequence[Allowance] = (),
    kept: Mapping[int, Kept] | None = None,
    expectations: QueueExpectations = NO_MORE_EXPECTED,
    limits: Limits = LIMITS,
) -> Verdict:
    with Scratch(history.directory.resolve().parent, alone=worker.alone) as scratch:
        share = worker.share if isinstance(worker, LocalEngine) else scratch.share
        return _checked_in(
            scratch, share, history, dump, model, engine, worker, bounds, allowances, kept, expectations, limits
        )


def _checked_in(
    scratch: Scratch,
    share: Share,
    history: HistoryReader,
    dump: Sequence[Path],
    model: Model,
    engine: Engine,
    worker: TaskRunner,
    bounds: SearchBounds,
    allowances: Sequence[Allowance],
    kept: Mapping[int, Kept] | None,
    expectations: QueueExpectations,
    limits: Limits,
) -> Verdict:
    findings = Findings()
    expires = any(one.rule.may_expire for one in (kept or {}).values())
    losses: tuple[AllowedLoss, ...] = ()
    unchecked: frozenset[Check] = frozenset()
    match model:
        case Model.REGISTER:
            findings = check_many_registers(history, bounds, worker.run, scratch, limits)
        case Model.LOG:
            rows, records = rows_in(sized(history.files())), rows_in(sized(dump))
            # What faults explain is found with all of a log in memory.
            is_large = rows > limits.direct or records > limits.direct * (2 if allowances else 1)
            if is_large or _logs_at_least(history) > LOGS_DIRECT_MAX:
                findings, losses = check_many_logs(
                    history, dump or None, kept, allowances, worker.run, scratch, limits, expires=expires
                )
            else:
                final = final_logs_of(_table(dump), kept) if dump else None
                if allowances and final is not None and history.files():
                    findings, losses = forgiving(history.files(), final, allowances, expires=expires)
                else:
                    findings = check_logs(history.files(), worker.run, share, final, expires=expires)
            unchecked = frozenset() if dump and not findings.unread else frozenset([Check.LOST])
        case Model.QUEUE:
            findings, losses = check_many_queues(
                history, dump, kept, expectations, allowances, worker.run, scratch, limits
            )
            unchecked = frozenset([Check.LOST]) if findings.unread else frozenset()
        case _:
            findings = check_many_objects(history, model, bounds, worker.run, scratch, limits)
            unchecked = frozenset([Check.LOST]) if findings.unseen else frozenset()
    return Verdict(model=model, engine=engine, findings=concluded(findings, model), unchecked=unchecked, losses=losses)


def concluded(findings: Findings, model: Model) -> Findings:
    """Returns the findings about all of a history: undecided where it proves nothing.

    A set that was never read is undecided alone, as for Jepsen's `set` and `set-full`; of registers, queues and keys one that was
    looked at speaks for the others, which `not_tested` counts.
    """
    if not findings.objects:
        return attrs.evolve(findings, undecided=(Undecided(NONE, "the history holds no operations"),))
    if not findings.ok:
        reason = "no operation of the history is known to have happened, so nothing was tested"
        return attrs.evolve(findings, undecided=(*findings.undecided, Undecided(NONE, reason)))
    if findings.acked and findings.unexamined and (model in SETS or findings.unexamined == findings.objects):
        noun = NOUNS.get(model, model.value)
        whose = f"of {findings.unexamined:,} of {findings.objects:,} {noun}s no" if findings.objects > 1 else "no"
        reason = f"{whose} {LOOKS[model]} that returned could have found what was acknowledged, so nothing was tested"
        return attrs.evolve(findings, undecided=(*findings.undecided, Undecided(NONE, reason)))
    return findings


def _table(dump: Sequence[Path]) -> Any:
    import pyarrow as pa

    return pa.concat_tables([read_dump_part(path) for path in dump]).combine_chunks()


def _expectations_of(directory: Path) -> QueueExpectations:
    """Returns what `test.json` states about the queue of a run; what is true of every queue without it."""
    try:
        test = json.loads((directory / TEST).read_text())
        return expectations_of(test)
    except FileNotFoundError:
        return NO_MORE_EXPECTED
    except (OSError, ValueError, AttributeError) as error:
        raise UnreadableHistory(directory / TEST, f"does not say what the queue is held to ({error})") from error


def _require_possible(history: HistoryReader, kept: Mapping[int, Kept] | None) -> None:
    """Raises `UnreadableHistory` if a log ends far beyond all that was asked for: such a log cannot be checked in memory."""
    most = 2 * history.rows() + ROWS_MANY if kept else 0
    for of_object in (kept or {}).values():
        for node, end in of_object.ends.items():
            if end > most:
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


def _logs_at_least(history: HistoryReader) -> int:
    """How many logs the first part file of each bucket is about."""
    first = [parts[0] for parts in history.parts if parts]
    return sum(len(read_part(path, ("object",)).column("object").unique()) for path in first)


def _trimmed_logs(history: HistoryReader) -> set[int]:
    """The logs of which any read was answered that its record had left them."""
    found = set[int]()
    for path in history.files():
        if any(_reaches(one.get("err"), ErrorCode.TRIMMED) for one in limits_of(path, ("err",))):
            rows = read_part(path, ("object", "err"))
            trimmed = rows.column("err").to_numpy() == ErrorCode.TRIMMED
            found |= set(rows.column("object").to_numpy()[trimmed].tolist())
    return found


def _reaches(limits: tuple[int, int] | None, value: int) -> bool:
    return limits is None or limits[0] <= value <= limits[1]


def _missing_final_logs(
    directory: Path, dump: Sequence[Path], kept: Mapping[int, Kept] | None
) -> tuple[Undecided, ...]:
    """Why losses cannot be ruled out: too few nodes could be asked for their final logs."""
    nodes = _nodes_of(directory)
    if nodes is None:
        return ()
    empty = {node for one in (kept or {}).values() for node in one.starts}
    if dump and not rows_in(sized(dump)):
        return ()
    holding = (read_part(path, ("node",), of=DUMP_COLUMNS).column("node").unique().to_pylist() for path in dump)
    dumped = len({node for some in holding for node in some} | empty) if dump else 0
    if 2 * dumped > nodes:
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
