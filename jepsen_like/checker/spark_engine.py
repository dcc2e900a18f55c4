"""Spark as a scheduler: tasks go out, each worker reads its own part files, small results come back.

No row of a history passes through the JVM, and no query is planned: a job is a list of tasks, mapped. So Spark brings what it
is good at here, many processes on one machine or many, retries, and one way to run on both, and costs little. (The same
tasks through `range(n).mapInArrow(...)` cost 4 s of CPU more in a session's first job and twice as much in the others.)

The workers need this package and, on a cluster, the same paths.
"""

import contextlib
import errno
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import attrs
import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from jepsen_like.checker.java import find_java, spark_java_home
from jepsen_like.checker.tasks import Task
from jepsen_like.cli import EnvironmentMissing, is_full_disk
from jepsen_like.history.files import UnreadableHistory

SLICES_PER_SLOT: Final = 3
"""Slices of a job's tasks per worker slot, so that slots do not idle behind the longest one."""
LOG_TAIL_BYTES: Final = 4000
DRIVER_MEMORY: Final = "1g"
"""The heap of the JVM, through which results pass: they do not grow with the history."""

JVM_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
"""Short jobs on few cores: the JVM should start quickly and not compete with the workers."""


class SparkEngine:
    """One Spark application; runs tasks. Use as a context manager.

    `master` is a Spark master URL, by default this machine with a worker per core. `gentle` gives the JVM and its
    workers the lowest priority. What the JVM has to say goes to `spark.log` in a scratch directory that ends with it.
    """

    def __init__(self, master: str | None = None, *, gentle: bool = False) -> None:
        self._stack = contextlib.ExitStack()
        self.scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="quorumlog-spark-")))
        self._stack.enter_context(_py4j_silent())
        try:
            self.master = master or f"local[{os.cpu_count() or 1}]"
            self.context = self._started(self.master, gentle)
        except BaseException:
            self._stack.close()
            raise

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Executes the tasks; returns their results in order. Raises `UnreadableHistory` when a task cannot read its input,
        `EnvironmentMissing` when the master is out of reach, memory ran out or an executor was lost, and `OSError` for a full disk.
        """
        if not tasks:
            return []
        slices = min(len(tasks), SLICES_PER_SLOT * self.context.defaultParallelism)
        try:
            results = self.context.parallelize(tasks, slices).map(attempted).collect()
        except Exception as error:
            lacking = self._lacking(error)
            if lacking is None:
                raise
            raise lacking from error
        for result in results:
            if isinstance(result, Unreadable):
                raise UnreadableHistory(result.path, result.reason)
            if isinstance(result, Lacking):
                raise OSError(errno.ENOSPC, result.reason) if result.full_disk else EnvironmentMissing(result.reason)
        return list(results)

    @property
    def alone(self) -> bool:
        """Returns whether all tasks run on this machine."""
        return self.master.startswith("local")

    def _lacking(self, error: Exception) -> Exception | None:
        """What the environment lacked when a job failed; None if it was something else, a bug."""
        stopped = True
        with contextlib.suppress(Exception):  # of a JVM that is gone
            stopped = bool(self.context._jsc.sc().isStopped())
        log = (self.scratch / "spark.log").read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
        return lacking_of(f"{_text_of(error)}\n{log}", self.master, stopped=stopped)

    def close(self) -> None:
        """Stop Spark and its JVM."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _started(self, master: str, gentle: bool) -> SparkContext:
        java = find_java()
        log_path = self.scratch / "spark.log"
        log = self._stack.enter_context(log_path.open("wb"))
        environment = {"JAVA_HOME": str(spark_java_home(java, gentle=gentle)), "PYSPARK_PYTHON": sys.executable}
        if master.startswith("local"):
            environment["SPARK_LOCAL_IP"] = "127.0.0.1"
            # Another Spark that happens to be configured on this machine is not the one that pyspark belongs to.
            environment["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
        with _environment(environment):
            with _interrupts_held():
                gateway = self._gateway(self._settings(master), log, log_path)
                self._stack.callback(_ended, gateway)
            self._stack.callback(_forgotten)
            on_interrupt = signal.getsignal(signal.SIGINT)
            context = SparkContext(gateway=gateway, conf=self._settings(master))
        self._stack.callback(context.stop)
        if threading.current_thread() is threading.main_thread():
            # Its handler talks to the JVM in the midst of whatever was being said; the stop that follows ends all jobs anyway.
            signal.signal(signal.SIGINT, on_interrupt)
        return context

    def _settings(self, master: str) -> SparkConf:
        settings = SparkConf(loadDefaults=False).setMaster(master).setAppName("quorumlog check")
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": DRIVER_MEMORY,
            "spark.driver.extraJavaOptions": f'{JVM_OPTIONS} "-Djava.io.tmpdir={self.scratch}"',
            "spark.local.dir": str(self.scratch),
        }.items():
            settings.set(name, value)
        if master.startswith("local"):
            settings.set("spark.driver.bindAddress", "127.0.0.1").set("spark.driver.host", "127.0.0.1")
        return settings

    def _gateway(self, settings: SparkConf, log: IO[bytes], log_path: Path) -> Any:
        try:
            return launch_gateway(settings, {"stdout": log, "stderr": subprocess.STDOUT})
        except Exception as error:
            tail = log_path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip().splitlines()
            told = [line for line in tail if not line.lstrip().startswith("at ")]
            reason = told[-1] if told else str(error)
            raise EnvironmentMissing(f"Spark's JVM did not start: {reason}; run: quorumlog doctor") from error


@attrs.frozen
class Unreadable:
    """In place of a result: the input that could not be read."""

    path: Path
    reason: str


@attrs.frozen
class Lacking:
    """In place of a result: what the machine that did the work ran out of."""

    reason: str
    full_disk: bool = False


def attempted(task: Task) -> Any:
    """Returns a task's result, `Unreadable` or `Lacking`: what a user can cause crosses processes as a value, not as an exception."""
    try:
        return task.execute()
    except UnreadableHistory as error:
        return Unreadable(error.path, error.reason)
    except MemoryError as error:
        return Lacking(f"a worker of the check has no memory left ({error})")
    except OSError as error:
        if not is_full_disk(error):
            raise
        return Lacking(str(error), full_disk=True)


def lacking_of(text: str, master: str, *, stopped: bool) -> Exception | None:
    """What a failed job lacked, by what was printed of it; `stopped` if Spark itself has ended. None: nothing of the environment."""
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return OSError(errno.ENOSPC, "Spark found no room on its disk")
    if "java.lang.OutOfMemoryError" in text:
        return EnvironmentMissing(f"Spark's JVM has no memory left; it may take {DRIVER_MEMORY} here")
    if "Python worker exited unexpectedly" in text:
        return EnvironmentMissing("a Python worker of Spark was killed; the machine may have no memory left")
    if "ExecutorLostFailure" in text or "SparkExitCode" in text:
        return EnvironmentMissing(f"Spark lost an executor, and its work could not be done elsewhere (master {master})")
    if not stopped:
        return None
    if master.startswith("local"):
        return EnvironmentMissing("Spark's JVM ended before the check did; the machine may have no memory left")
    return EnvironmentMissing(f"no answer from the Spark master {master}: without --master this machine does the work")


def _text_of(error: Exception) -> str:
    """Returns the text of an exception of py4j, of which not even that is certain once its JVM has gone."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - py4j asks the JVM for the text
        return repr(type(error))


@contextlib.contextmanager
def _py4j_silent() -> Iterator[None]:
    """It logs what it raises, a Ctrl-C too, as an error with its traceback: in part by its own loggers, in part by the root."""
    own, root = logging.getLogger("py4j"), logging.getLogger()
    level = own.level
    own.setLevel(logging.CRITICAL)
    root.addFilter(_is_not_of_py4j)
    try:
        yield
    finally:
        own.setLevel(level)
        root.removeFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let a Ctrl-C wait until this is over: a JVM that cannot report its port would run on unnoticed."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if pressed:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process for a while: pyspark takes its settings from nowhere else."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _ended(gateway: Any) -> None:
    """Close the connection to the JVM and wait until it is gone: it ends when its standard input does."""
    with contextlib.suppress(Exception):
        gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _forgotten() -> None:
    """Let a later engine of this process start a JVM of its own instead of looking for the one that ended."""
    SparkContext._gateway = None
    SparkContext._jvm = None
