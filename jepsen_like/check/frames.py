"""Histories that Spark reads: at any URL that it knows (file:, hdfs:, s3a:, ...), or a DataFrame with the columns of a history.

The rows of whole objects are brought together by Spark's own shuffle, each with the final records of its log, and in the order in
which they were recorded. A task then puts its rows as part files on the disk of its executor and checks them there, as a run
is checked anywhere. So no directory need be shared, and a task holds as little as the check of a run does; but every row goes
through the JVM and once more to disk, and one hot object is the work of one task. A path that all workers reach is therefore
given to tasks as a path: to read so takes a twentieth of the time, and to check a tenth (`benchmarks/results/check_reading.json`).
"""

import json
import pickle
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.checking import HISTORY, TEST, check_run, require_evidence
from jepsen_like.checker.engine.attempts import attempt
from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.engine.spark_errors import lacking_of, require_results, text_of
from jepsen_like.checker.log.clocks import NEMESIS
from jepsen_like.checker.queue.check import expectations_of
from jepsen_like.checker.rows.columns import begins_operation
from jepsen_like.checker.rows.final_logs import DUMP
from jepsen_like.checker.verdict import Check, Engine, Findings, Model, Verdict
from jepsen_like.cli import EnvironmentMissing
from jepsen_like.history.files import KEPT, UnreadableHistory, schema, write_part
from jepsen_like.history.ops import COLUMNS, DUMP_COLUMNS, NONE, Action
from jepsen_like.history.partition_states import FILE

TYPES: Final = {"q": "bigint", "i": "int", "h": "smallint", "b": "tinyint"}
FINAL_RECORD: Final = -1
"""In the column `f`: a row that is no operation but a record of a final log."""
ROWS_PER_TASK: Final = 1 << 21
TASKS_MIN: Final = 4
PART_ROWS: Final = 1 << 17
WHOLE: Final = (Model.KAFKA, Model.LIST_APPEND, Model.RW_REGISTER)
ORDER: Final = ("_file", "_row")
"""The place where a row was read, which is the order recorded: the rows of one operation follow each other in one file."""
SMALL_FILES: Final = (TEST, NEMESIS, FILE)
"""The files of a run directory that a check needs besides its rows."""
FINDINGS: Final = "findings binary"
_NO_CLIENT: Final = re.compile(
    r'ClassNotFoundException: Class org\.apache\.hadoop\.fs\.\S+ not found|No FileSystem for scheme "[^"]*"'
)
_UNREACHABLE: Final = re.compile(
    r"(?:Connect|UnknownHost|NoRouteToHost|SocketTimeout|ConnectTimeout)Exception: [^;\n]*"
)


@attrs.frozen
class Frames:
    """A history as DataFrames, with what else is known of its run."""

    rows: Any
    """A DataFrame with the columns of a history and `ORDER`."""
    name: str
    final: Any = None
    """A DataFrame of the final records, with the columns of a dump and `ORDER`; None without final logs."""
    kept: bytes | None = None
    """The content of the dump's `kept.json`."""
    recorded: Mapping[str, bytes] = attrs.field(factory=dict)
    """The files in which the run wrote down what it was, as far as they are there: see `SMALL_FILES`."""
    is_run: bool = True
    """True if the run was named; else its history alone, of which what it wrote down tells the model, and excuses nothing."""

    def began_ns(self) -> int:
        """Returns when the load began; see `HistoryReader.began_ns`. Raises what `check_frames` does."""
        functions = functions_of(self.rows)
        sent = functions.min(functions.when(functions.col("f") == int(Action.SEND), functions.col("t_inv")))
        try:
            row = self.rows.agg(sent.alias("sent"), functions.min("t_inv").alias("any")).collect()[0]
        except Exception as error:
            raise _translate(error, self.name) from error
        return int(row.sent if row.sent is not None else row.any or 0)

    def copy_recorded(self, directory: Path) -> None:
        """Write what the run wrote down of itself into a directory."""
        for name, content in self.recorded.items():
            (directory / name).write_bytes(content)


def functions_of(origin: Any) -> Any:
    """Returns the module of functions that goes with a session or a DataFrame: a client of Connect has its own."""
    if type(origin).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect import functions as of_connect

        return of_connect
    from pyspark.sql import functions

    return functions


def read_frames(session: Any, url: str) -> Frames:
    """Returns the history at a URL: that of a run directory, or of a `history.parquet` itself. Raises `UnreadableHistory`."""
    url = url.rstrip("/")
    run = url.removesuffix(f"/{HISTORY}")
    rows = _table(session, f"{run}/{HISTORY}", COLUMNS) if run == url else None
    if rows is None:
        rows = _table(session, url, COLUMNS)
    if rows is None:
        raise UnreadableHistory(url, "Spark finds no Parquet files there")
    final = _table(session, f"{run}/{DUMP}", DUMP_COLUMNS)
    kept = _bytes(session, f"{run}/{DUMP}/{KEPT}") if final is not None else None
    found = {name: _bytes(session, f"{run}/{name}") for name in SMALL_FILES}
    recorded = {name: content for name, content in found.items() if content is not None}
    return Frames(rows, url, final, kept, recorded, is_run=run == url)


def of_frame(rows: Any, name: str = "history") -> Frames:
    """Returns a history that is a DataFrame already. Its rows must come as they were recorded. Raises `UnreadableHistory`."""
    functions = functions_of(rows)
    _require_columns(rows, name, COLUMNS)
    chosen = [*(column for column, _ in COLUMNS), functions.lit("").alias(ORDER[0])]
    return Frames(rows.select(*chosen, functions.monotonically_increasing_id().alias(ORDER[1])), name)


def check_frames(frames: Frames, model: Model, allowances: tuple[Allowance, ...] = ()) -> Verdict:
    """Check a history that Spark reads. Raises `UnreadableHistory`, and what the environment lacks as `ContextEngine.run` does."""
    functions = functions_of(frames.rows)
    try:
        tasks = max(TASKS_MIN, -(-frames.rows.count() // ROWS_PER_TASK))
        if model in WHOLE:
            tasks = 1  # transactions join keys, or partitions
        if model is Model.QUEUE and TEST in frames.recorded and expectations_of(json.loads(frames.recorded[TEST])).keys:
            tasks = 1  # the order of a key's messages is that over all partitions
        rows = frames.rows
        if frames.final is not None:
            rows = rows.unionByName(_as_rows(frames.final, functions))
        together = rows.repartition(tasks, "object").sortWithinPartitions(*ORDER)
        judging = _judging(frames, model, allowances)
        found = [row.findings for row in together.mapInArrow(judging, FINDINGS).collect()]
    except Exception as error:
        raise _translate(error, frames.name) from error
    verdicts: list[Verdict] = require_results([pickle.loads(one) for one in found])  # noqa: S301 - made by `_judging`
    findings, losses, unchecked = Findings(), list[AllowedLoss](), set[Check]()
    for verdict in verdicts:
        of_objects = tuple(open_ for open_ in verdict.findings.undecided if open_.object != NONE)
        findings = findings.plus(attrs.evolve(verdict.findings, undecided=of_objects))
        losses += verdict.losses
        unchecked |= verdict.unchecked
    return Verdict(
        model=model,
        engine=Engine.SPARK,
        findings=require_evidence(findings, model),
        unchecked=frozenset(unchecked),
        losses=tuple(sorted(losses, key=lambda loss: (loss.allowance.begun_ns, loss.object))),
    )


@attrs.frozen
class _JudgeTask:
    """Put the rows of some objects on the disk of this executor, as a run directory, and check that."""

    batches: Iterable[Any]
    model: Model
    allowances: tuple[Allowance, ...]
    recorded: Mapping[str, bytes]
    kept: bytes | None
    has_final: bool

    def execute(self) -> Verdict | None:
        """See `Task`; None without any rows."""
        with tempfile.TemporaryDirectory(prefix="quorumlog-check-") as scratch:
            run = Path(scratch)
            objects = _spool(self.batches, run, has_final=self.has_final)
            if not objects:
                return None
            for name, content in self.recorded.items():
                (run / name).write_bytes(content)
            if self.kept is not None:
                known = json.loads(self.kept)
                if "objects" in known:
                    known["objects"] = {name: of for name, of in known["objects"].items() if int(name) in objects}
                (run / DUMP / KEPT).write_text(json.dumps(known))
            return check_run(run, self.model, Engine.LOCAL, worker=LocalEngine(), allowances=self.allowances)


def _judging(
    frames: Frames, model: Model, allowances: tuple[Allowance, ...]
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Yields the result of a worker for the rows of its objects."""
    known = model, allowances, frames.recorded, frames.kept, frames.final is not None

    def judge(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        found = attempt(_JudgeTask(batches, *known))
        if found is not None:
            yield pa.RecordBatch.from_pydict({"findings": pa.array([pickle.dumps(found)], pa.binary())})

    return judge


def _spool(batches: Iterable[Any], run: Path, *, has_final: bool) -> set[int]:
    """Write rows into part files of a run directory as they come; returns the objects that have operations or final records.

    The rows of one operation lie in one file. Raises `UnreadableHistory` for rows that are none of a history.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    places = {False: (run / HISTORY / "bucket=0", COLUMNS), True: (run / DUMP, DUMP_COLUMNS)}
    for is_final, (place, _) in places.items():
        if has_final or not is_final:
            place.mkdir(parents=True)
    held: dict[bool, list[Any]] = {False: [], True: []}
    written = 0
    objects = set[int]()

    def write(is_final: bool, *, until: int | None = None) -> None:
        nonlocal written
        place, columns = places[is_final]
        rows = pa.Table.from_batches(held[is_final])
        try:
            part = rows.slice(0, until).select([name for name, _ in columns]).cast(schema(columns))
        except ValueError as error:
            raise UnreadableHistory(Path("history"), f"has rows without a value ({error})") from error
        write_part(part, place / f"part-0-{written:06d}.parquet")
        written += 1
        held[is_final] = [] if until is None else rows.slice(until).to_batches()

    for batch in batches:
        if batch.column("f").null_count:
            raise UnreadableHistory(Path("history"), "has rows without a value in column f")
        final = pc.equal(batch.column("f"), FINAL_RECORD)
        if not has_final and pc.any(final).as_py():
            raise UnreadableHistory(Path("history"), f"has {FINAL_RECORD} in its column f, which stands for nothing")
        for is_final, mask in ((False, pc.invert(final)), (True, final)):
            some = batch.filter(mask)
            if some.num_rows:
                held[is_final].append(some)
                objects.update(pc.unique(some.column("object")).to_pylist())
                if sum(one.num_rows for one in held[is_final]) >= PART_ROWS:
                    until = None if is_final else _last_begin(held[is_final])
                    if until != 0:
                        write(is_final, until=until)
    for is_final in (False, True):
        if held[is_final]:
            write(is_final)
    if has_final and not list((run / DUMP).glob("*.parquet")):
        write_part(schema(DUMP_COLUMNS).empty_table(), run / DUMP / "part-0.parquet")
    return objects


def _last_begin(batches: Sequence[Any]) -> int:
    """Returns where the last operation of these rows begins: the next ones may go on with it."""
    import pyarrow as pa

    rows = pa.Table.from_batches(batches)
    process, t_inv, t_ret = (rows.column(name).to_numpy() for name in ("process", "t_inv", "t_ret"))
    return int(np.flatnonzero(begins_operation(process, t_inv, t_ret))[-1])


def _as_rows(final: Any, functions: Any) -> Any:
    """Final records with the columns of a history."""
    known = {name for name, _ in DUMP_COLUMNS}
    made = [
        functions.lit(FINAL_RECORD if name == "f" else 0).cast(TYPES[code]).alias(name)
        for name, code in COLUMNS
        if name not in known
    ]
    return final.select(*known, *made, *ORDER)


def _table(session: Any, url: str, columns: tuple[tuple[str, str], ...]) -> Any:
    """The Parquet files at a URL, with where each row lies; None where there are none."""
    functions = functions_of(session)
    try:
        found = session.read.option("pathGlobFilter", "*.parquet").parquet(url)
        _require_columns(found, url, columns)
    except UnreadableHistory:
        raise
    except Exception as error:
        if "PATH_NOT_FOUND" in text_of(error) or "UNABLE_TO_INFER_SCHEMA" in text_of(error):
            return None
        raise _translate(error, url) from error
    place = [functions.col("_metadata.file_path").alias(ORDER[0]), functions.col("_metadata.row_index").alias(ORDER[1])]
    return found.select(*(name for name, _ in columns), *place)


def _require_columns(frame: Any, name: str, columns: tuple[tuple[str, str], ...]) -> None:
    types: Mapping[str, str] = dict(frame.dtypes)
    wrong = [column for column, code in columns if types.get(column) != TYPES[code]]
    if wrong:
        has = ", ".join(f"{column} {kind}" for column, kind in types.items())
        raise UnreadableHistory(name, f"its columns are {has}: {' and '.join(wrong)} of a history is not among them")


def _bytes(session: Any, url: str) -> bytes | None:
    """A whole file; None where there is none."""
    try:
        rows = session.read.format("binaryFile").load(url).collect()
    except Exception as error:
        if "PATH_NOT_FOUND" in text_of(error):
            return None
        raise _translate(error, url) from error
    return bytes(rows[0].content) if rows else None


def _translate(error: Exception, name: str) -> Exception:
    """Returns what to raise in place of what Spark does."""
    text = text_of(error)
    if "CANNOT_READ_FILE_FOOTER" in text or "FAILED_READ_FILE" in text or "is not a Parquet file" in text:
        reason = next((line for line in text.splitlines() if "is not a Parquet" in line), text.splitlines()[0])
        return UnreadableHistory(name, f"not a readable Parquet file ({reason.strip()})")
    if (lacking := lacking_of(text, "of this session", stopped=False)) is not None:
        return lacking  # first: a lost executor does not answer either
    if (client := _NO_CLIENT.search(text)) is not None:
        return EnvironmentMissing(
            f"Spark here cannot read {name} ({client[0]}): name a client for it in spark-defaults.conf, under "
            "spark.jars.packages; see docs/cluster.md"
        )
    if (unreachable := _UNREACHABLE.search(text)) is not None:
        return EnvironmentMissing(f"the store of {name} does not answer ({unreachable[0]})")
    return error
