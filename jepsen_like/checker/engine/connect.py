"""Tasks in an application of Spark behind Spark Connect: they go out as rows of a DataFrame and come back as rows.

A client of Connect has no SparkContext, so a job is `range(n).mapInArrow`: see `context` for what that costs.
"""

import contextlib
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

from jepsen_like.checker.engine.attempts import attempt
from jepsen_like.checker.engine.shipping import pack
from jepsen_like.checker.engine.spark_errors import lacking_of, require_listener, require_results, text_of
from jepsen_like.checker.rows.tasks import Task
from jepsen_like.cli import EnvironmentMissing

SLICES_MAX: Final = 64
"""Slices of a job's tasks: a client is not told how many slots a server has."""
PACKAGES_MISSING: Final = "Spark Connect needs more packages ({}); run: pip install 'quorumlog[connect]'"
SCHEMA: Final = "number bigint, result binary"


class ConnectEngine:
    """Runs tasks in a session of Spark Connect, which the caller that made it ends. `modules` are files that tasks import."""

    alone = False

    def __init__(self, session: Any, modules: Sequence[Path] = ()) -> None:
        self.session = session
        with tempfile.TemporaryDirectory(prefix="quorumlog-connect-") as directory, self._translate_errors():
            session.addArtifacts(str(pack(Path(directory), modules)), pyfile=True)

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Executes the tasks; returns their results in order. Raises what `ContextEngine.run` does."""
        if not tasks:
            return []
        with self._translate_errors():
            numbers = self.session.range(0, len(tasks), 1, min(len(tasks), SLICES_MAX))
            rows = numbers.mapInArrow(_executing([pickle.dumps(task) for task in tasks]), SCHEMA).collect()
        rows.sort(key=lambda row: row.number)
        return require_results([pickle.loads(row.result) for row in rows])  # noqa: S301 - made by our own code

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raises what the environment lacked in place of what the client of Connect raises."""
        try:
            yield
        except Exception as error:
            text = text_of(error)
            lacking = lacking_of(text, "behind Spark Connect", stopped=_is_unavailable(text))
            if lacking is None:
                raise
            raise lacking from error


class ConnectedEngine(ConnectEngine):
    """A `ConnectEngine` with a session of its own, at an address such as sc://host:15002. Use as a context manager."""

    def __init__(self, url: str, modules: Sequence[Path] = ()) -> None:
        require_listener(url)
        try:
            from pyspark.sql.connect.session import SparkSession
        except ImportError as error:
            raise EnvironmentMissing(PACKAGES_MISSING.format(error)) from error
        try:
            session = SparkSession.builder.remote(url).create()
        except Exception as error:
            raise EnvironmentMissing(f"no session of Spark Connect at {url}: {_first_line(error)}") from error
        self._stop: Callable[[], None] = session.stop
        try:
            super().__init__(session, modules)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the session."""
        with contextlib.suppress(Exception):  # of a server that is gone
            self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _executing(tasks: Sequence[bytes]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Yields the results of a worker for the numbers of its tasks."""

    def execute(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                task: Task = pickle.loads(tasks[number])  # noqa: S301 - made by `run`
                result = pickle.dumps(attempt(task))
                yield pa.RecordBatch.from_pydict(
                    {"number": pa.array([number], pa.int64()), "result": pa.array([result], pa.binary())}
                )

    return execute


def _is_unavailable(text: str) -> bool:
    return "StatusCode.UNAVAILABLE" in text or "failed to connect" in text


def _first_line(error: Exception) -> str:
    return (text_of(error).strip().splitlines() or [type(error).__name__])[0]
