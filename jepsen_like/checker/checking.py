"""From a place on disk to a verdict (`check_run`): which files belong to which task, and what the final logs say."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.compaction.partition import CompactionTerms
from jepsen_like.checker.compaction.tasks import CompactionCheck, terms_of
from jepsen_like.checker.cycles.levels import STRICT, HeldTo
from jepsen_like.checker.cycles.tasks import CyclesCheck
from jepsen_like.checker.elements.calls_tasks import CallsCheck
from jepsen_like.checker.elements.tasks import ObjectsCheck
from jepsen_like.checker.elements.user_model import VALUES, AnyModel, UserModel
from jepsen_like.checker.engine.job import Job, TaskRunner
from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.engine.scratch import Scratch
from jepsen_like.checker.kafka.tasks import KafkaCheck
from jepsen_like.checker.log.check import LogsCheck
from jepsen_like.checker.log.clocks import clock_errors_of
from jepsen_like.checker.log.retention import RetentionCase, judge_retention
from jepsen_like.checker.mirror.rows import MirrorNames, names_of
from jepsen_like.checker.mirror.tasks import MirrorCheck
from jepsen_like.checker.model import Conclusion, ModelCheck, conclude
from jepsen_like.checker.queue.check import expectations_of
from jepsen_like.checker.queue.rows import QueueExpectations
from jepsen_like.checker.queue.tasks import QueueCheck
from jepsen_like.checker.register.check import RegisterCheck
from jepsen_like.checker.rows.final_logs import DUMP, LOG_OBJECT, ROWS_MANY
from jepsen_like.checker.rows.gather import LIMITS, Limits, rows_in, with_sizes
from jepsen_like.checker.transactions.tasks import TransactionsCheck
from jepsen_like.checker.verdict import LOOKS, NOUNS, SETS, Engine, Findings, Model, Undecided, Verdict
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
RETENTION_ROWS_MAX: Final = 1 << 24
"""A rule of retention is judged for histories of no more rows than this: in this process, with some of their columns."""


@contextlib.contextmanager
def engine_of(
    engine: Engine, master: str | None = None, *, gentle: bool = False, ui: bool = False
) -> Iterator[TaskRunner]:
    """Start an engine and end it afterwards. Spark's packages are imported here and nowhere else.

    `master`, `gentle` and `ui` are those of `SparkEngine`; a master may also be a Connect server (`sc://host:port`).
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
    worker: TaskRunner | None = None,
    allowances: Sequence[Allowance] = (),
    limits: Limits = LIMITS,
) -> Verdict:
    """Check a run directory: `history.parquet/`, for logs and queues `dump.parquet/`, for queues what `test.json` states about them.

    `allowances` are faults that may have cost acknowledged records, `worker` is an engine of kind `engine` that runs.
    `limits` bound each process's memory and searches. Raises `UnreadableHistory`, `EnvironmentMissing` without Spark.
    """
    history = HistoryReader.open(directory / HISTORY)
    if isinstance(model, HeldTo):
        with _job_of(history, engine, worker, limits) as job:
            return _judge(model.model, engine, conclude(CyclesCheck(model.model, model.level), history, job))
    if isinstance(model, UserModel):
        with _job_of(history, engine, worker, limits) as job:
            if not (directory / VALUES).is_file():
                raise UnreadableHistory(
                    directory, "a class of yours judges operation maps, and this is a history of ours"
                )
            return _judge(Model.CUSTOM, engine, conclude(CallsCheck(directory / VALUES, model), history, job))
    dump, kept = dump_parts(directory / DUMP), read_kept(directory / DUMP)
    rule = next((of_log.rule for of_log in kept.values()), KeepRule()) if kept is not None else _rule_of(directory)
    undecided: tuple[Undecided, ...] = ()
    if model is not Model.QUEUE:
        allowances = [allowance for allowance in allowances if allowance.may_cost_records or allowance.other_log]
    if model is Model.LOG:
        if dump and kept is None and rule.may_expire:
            dump = ()
            undecided = (Undecided(LOG_OBJECT, "the dump is not whole: it does not say where the logs begin"),)
        undecided += _missing_final_logs(directory, dump, kept)
    if model in (Model.LOG, Model.QUEUE):
        _require_possible(history, kept)
    match model:
        case Model.LOG:
            check: ModelCheck = LogsCheck(dump, kept, allowances)
        case Model.QUEUE:
            check = QueueCheck(dump, kept, _expectations_of(directory), allowances)
        case Model.TRANSACTIONS:
            check = TransactionsCheck(dump)
        case Model.COMPACTED:
            check = _compaction_check(directory, dump, kept)
        case Model.MIRRORED:
            check = MirrorCheck(dump, _dumped_nodes(kept), _mirror_names(directory))
        case Model.TOTAL_QUEUE:
            check = ObjectsCheck(model, tuple(allowances))
        case _:
            check = _check_of(model)
    with _job_of(history, engine, worker, limits) as job:
        verdict = _judge(model, engine, conclude(check, history, job))
    findings = verdict.findings
    if model is Model.LOG:
        records = _Records(directory, dump, kept, rule)
        findings, open_question = _judge_retention(history, records, verdict, is_lossless=not allowances)
        undecided += open_question
    return attrs.evolve(verdict, findings=attrs.evolve(findings, undecided=findings.undecided + undecided))


def check_history(
    directory: Path, model: Model, engine: Engine, *, worker: TaskRunner | None = None, limits: Limits = LIMITS
) -> Verdict:
    """Check a history alone (`bucket=<k>/` directories), without final logs: what was lost in the end cannot be seen."""
    history = HistoryReader.open(directory)
    with _job_of(history, engine, worker, limits) as job:
        return _judge(model, engine, conclude(_check_of(model), history, job))


@contextlib.contextmanager
def _job_of(history: HistoryReader, engine: Engine, worker: TaskRunner | None, limits: Limits) -> Iterator[Job]:
    """Start a job, with an engine of its own unless one runs already, and end it afterwards."""
    with contextlib.ExitStack() as stack:
        running = worker if worker is not None else stack.enter_context(engine_of(engine))
        scratch = stack.enter_context(Scratch(history.directory.resolve().parent, alone=running.alone))
        yield Job(running, scratch, limits)


def _check_of(model: Model) -> ModelCheck:
    """Returns the check of a history of which nothing else is known."""
    match model:
        case Model.REGISTER:
            return RegisterCheck()
        case Model.LOG:
            return LogsCheck((), None, ())
        case Model.QUEUE:
            return QueueCheck((), None, NO_MORE_EXPECTED, ())
        case Model.TRANSACTIONS:
            return TransactionsCheck(())
        case Model.COMPACTED:
            return CompactionCheck((), {}, CompactionTerms())
        case Model.MIRRORED:
            return MirrorCheck((), {}, MirrorNames())
        case Model.KAFKA:
            return KafkaCheck()
        case Model.LIST_APPEND | Model.RW_REGISTER:
            return CyclesCheck(model, STRICT)
        case _:
            return ObjectsCheck(model)


def _judge(model: Model, engine: Engine, found: Conclusion) -> Verdict:
    """Returns what a model concluded as a verdict."""
    findings = require_evidence(found.findings, model)
    return Verdict(
        model=model,
        engine=engine,
        findings=findings,
        unchecked=found.unchecked,
        losses=found.losses,
        transactions=found.transactions,
        compaction=found.compaction,
        mirror=found.mirror,
    )


@attrs.frozen
class _Records:
    """The final logs of a run, and the rule by which records may leave them."""

    directory: Path
    dump: Sequence[Path]
    kept: Mapping[int, Kept] | None
    rule: KeepRule


def _judge_retention(
    history: HistoryReader, records: _Records, verdict: Verdict, *, is_lossless: bool
) -> tuple[Findings, tuple[Undecided, ...]]:
    """Returns the findings with what nodes let go that their rule keeps, and what of that cannot be judged."""
    findings, rule, kept = verdict.findings, records.rule, records.kept
    if rule.may_expire and (rows := history.rows()) > RETENTION_ROWS_MAX:
        reason = f"whether logs let go only what they may is judged in memory, and {rows:,} rows are too many for that"
        return findings, (Undecided(LOG_OBJECT, reason),)
    if not ((trimmed := _trimmed_logs(history)) or rule.may_expire):
        return findings, ()
    held = [read_dump_part(path).column("a").to_numpy() for path in records.dump] if rule.retention_bytes else []
    for obj in sorted({*(kept if kept is not None else (LOG_OBJECT,)), *trimmed}):
        case = RetentionCase(
            rule=rule,
            kept=(kept or {}).get(obj),
            losses=verdict.losses,
            is_lossless=is_lossless,
            clocks=clock_errors_of(records.directory),
            held=np.concatenate(held) if held else None,
        )
        findings = findings.plus(judge_retention(history, case, verdict.findings, obj))
    return findings, ()


def require_evidence(findings: Findings, model: Model) -> Findings:
    """Returns the findings about all of a history: undecided where it proves nothing.

    A set never read is undecided alone, as in Jepsen; of other objects one looked at speaks for all (`not_tested`).
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


def _compaction_check(directory: Path, dump: Sequence[Path], kept: Mapping[int, Kept] | None) -> CompactionCheck:
    """Returns the check of compacted partitions, by what `test.json` states about their topic."""
    nodes = _dumped_nodes(kept)
    dumped_ns = max((one.dumped_ns for one in (kept or {}).values()), default=0)
    try:
        test = json.loads((directory / TEST).read_text())
        return CompactionCheck(dump, nodes, terms_of(test, dumped_ns))
    except (OSError, ValueError, AttributeError) as error:
        raise UnreadableHistory(directory / TEST, f"does not say what compaction is held to ({error})") from error


def _dumped_nodes(kept: Mapping[int, Kept] | None) -> dict[int, tuple[int, ...]]:
    """Returns by partition the nodes, or clusters, whose final logs were read."""
    return {number: tuple(sorted(one.starts)) for number, one in (kept or {}).items()}


def _mirror_names(directory: Path) -> MirrorNames:
    """Returns the names of clusters, partitions and groups in `test.json`; numbers without it."""
    try:
        return names_of(json.loads((directory / TEST).read_text()))
    except FileNotFoundError:
        return MirrorNames()
    except (OSError, ValueError, AttributeError) as error:
        raise UnreadableHistory(directory / TEST, f"does not name the clusters ({error})") from error


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
    """Returns what the settings of a run say that may leave its logs; nothing if they say nothing."""
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
    if dump and not rows_in(with_sizes(dump)):
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
