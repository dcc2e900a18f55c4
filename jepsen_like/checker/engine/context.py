"""Spark as a scheduler: tasks go out, each worker reads its own part files, small results come back.

No row of a history passes through the JVM, and no query is planned: a job is a list of tasks, mapped. So Spark brings what it
is good at here, many processes on one machine or many, retries, and one way to run on both, and costs little. (The same
tasks through `range(n).mapInArrow(...)` cost 4 s of CPU more in a session's first job and twice as much in the others.)

Workers of a cluster get our code with the job (`shipping`). They need a Python with the packages of the extra `check`
(PYSPARK_PYTHON names it, as always with Spark) and the history under the same path.
"""

import contextlib
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext

from jepsen_like.checker.engine.attempts import attempt
from jepsen_like.checker.engine.shipping import pack
from jepsen_like.checker.engine.spark_errors import lacking_of, no_executors, require_results, text_of
from jepsen_like.checker.rows.tasks import Task

SLICES_PER_SLOT: Final = 3
"""Slices of a job's tasks per worker slot, so that slots do not idle behind the longest one."""
EXECUTORS_SECONDS_MAX: Final = 60.0
"""So long a job waits for a first executor of a cluster, or for another one when all are lost."""
LOOK_SECONDS: Final = 0.5


class ContextEngine:
    """Runs tasks in an application of Spark, which the caller that made `context` ends. `modules` are files that tasks import."""

    def __init__(self, context: SparkContext, modules: Sequence[Path] = ()) -> None:
        self.context = context
        if modules or not _are_children(context.master):
            archive = pack(Path(context._temp_dir), modules)
            if str(archive) not in context._python_includes:
                context.addPyFile(str(archive))

    @property
    def alone(self) -> bool:
        """Returns whether all tasks run on this machine."""
        return str(self.context.master).startswith("local")

    @property
    def session(self) -> Any:
        """Returns a `SparkSession` of the same application."""
        from pyspark.sql import SparkSession

        return SparkSession(self.context)

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Executes the tasks; returns their results in order. Raises `UnreadableHistory` when a task cannot read its input,
        `EnvironmentMissing` when the master is out of reach, memory ran out or an executor was lost, and `OSError` for a full disk.
        """
        if not tasks:
            return []
        slices = min(len(tasks), SLICES_PER_SLOT * self.context.defaultParallelism)
        deserted = threading.Event()
        try:
            with contextlib.nullcontext() if self.alone else attend(self.context, deserted):
                results = self.context.parallelize(tasks, slices).map(attempt).collect()
        except Exception as error:
            lacking = no_executors(self.context.master) if deserted.is_set() else self._lacking(error)
            if lacking is None:
                raise
            raise lacking from error
        return require_results(results)

    def log_tail(self) -> str:
        """Returns the newest of what the JVM has printed; nothing where it prints elsewhere."""
        return ""

    def _lacking(self, error: Exception) -> Exception | None:
        """Returns what the environment lacked when a job failed; None if it was something else, a bug."""
        stopped = True
        with contextlib.suppress(Exception):  # of a JVM that is gone
            stopped = bool(self.context._jsc.sc().isStopped())
        return lacking_of(f"{text_of(error)}\n{self.log_tail()}", self.context.master, stopped=stopped)


def _are_children(master: str) -> bool:
    """Returns True if the workers of this master are children of this process and import what it does."""
    return master.startswith("local") and not master.startswith("local-cluster")


@contextlib.contextmanager
def attend(context: SparkContext, deserted: threading.Event) -> Iterator[None]:
    """Cancel the job of this thread, and set `deserted`, when the application has had no executor for `EXECUTORS_SECONDS_MAX`."""
    over, tag = threading.Event(), f"quorumlog-{uuid.uuid4()}"

    def attend() -> None:
        waited = 0.0
        while not over.wait(LOOK_SECONDS):
            with contextlib.suppress(Exception):  # of a JVM that is gone: the job tells
                waited = 0.0 if context._jsc.sc().getExecutorMemoryStatus().size() > 1 else waited + LOOK_SECONDS
                if waited >= EXECUTORS_SECONDS_MAX:
                    deserted.set()
                    context.cancelJobsWithTag(tag)  # again next time: it may only now be about to be submitted

    watching = threading.Thread(target=attend, name="executors", daemon=True)
    context.addJobTag(tag)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
        with contextlib.suppress(Exception):  # of a JVM that is gone
            context.removeJobTag(tag)
