"""Spark as a scheduler: tasks go out, each worker reads its own part files, small results come back.

No row of a history passes through the JVM, and no query is planned: a job is a list of tasks, mapped. So Spark brings what it
is good at here, many processes on one machine or many, retries, and one way to run on both, and costs little. (The same
tasks through `range(n).mapInArrow(...)` cost 4 s of CPU more in a session's first job and twice as much in the others.)

Workers of a cluster get our code with the job (`shipping`). They need a Python with the packages of the extra `check`
(PYSPARK_PYTHON names it, as always with Spark) and the history under the same path.
"""

import contextlib
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
from typing import Any, Final, Self

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from jepsen_like.checker.attempts import attempted
from jepsen_like.checker.java import find_java, spark_java_home
from jepsen_like.checker.shipping import packed
from jepsen_like.checker.spark_lacks import (
    DRIVER_MEMORY,
    lacking_of,
    no_executors,
    require_listener,
    require_results,
    text_of,
)
from jepsen_like.checker.tasks import Task
from jepsen_like.cli import EnvironmentMissing

SLICES_PER_SLOT: Final = 3
"""Slices of a job's tasks per worker slot, so that slots do not idle behind the longest one."""
LOG_TAIL_BYTES: Final = 4000
EXECUTORS_SECONDS_MAX: Final = 60.0
"""So long a job waits for a first executor of a cluster, or for another one when all are lost."""
LOOK_SECONDS: Final = 0.5

GATEWAY_GIVEN: Final = "PYSPARK_GATEWAY_PORT"
JVM_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
"""Short jobs on few cores: the JVM should start quickly and not compete with the workers."""


class SparkEngine:
    """One Spark application; runs tasks. Use as a context manager.

    `master` is a Spark master URL, by default this machine with a worker per core; one that is named keeps what Spark's own
    configuration says (SPARK_HOME, SPARK_CONF_DIR, PYSPARK_PYTHON). `gentle` gives the JVM and its workers the lowest priority.
    `modules` are a user's own files or packages that tasks import. What the JVM has to say goes to `spark.log` in a scratch
    directory that ends with it.
    """

    def __init__(self, master: str | None = None, *, gentle: bool = False, modules: Sequence[Path] = ()) -> None:
        self._stack = contextlib.ExitStack()
        self.scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="quorumlog-spark-")))
        self._stack.enter_context(_py4j_silent())
        try:
            self.master = master or f"local[{os.cpu_count() or 1}]"
            self.context = self._started(self.master, gentle)
            if not self._is_this_process_tree or modules:
                self.context.addPyFile(str(packed(self.scratch, modules)))
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
        deserted = threading.Event()
        try:
            with contextlib.nullcontext() if self.alone else attended(self.context, deserted):
                results = self.context.parallelize(tasks, slices).map(attempted).collect()
        except Exception as error:
            lacking = no_executors(self.master) if deserted.is_set() else self._lacking(error)
            if lacking is None:
                raise
            raise lacking from error
        return require_results(results)

    @property
    def alone(self) -> bool:
        """Returns whether all tasks run on this machine."""
        return self.master.startswith("local")

    @property
    def _is_this_process_tree(self) -> bool:
        """Whether workers are children of this process and import what it does."""
        return self.alone and not self.master.startswith("local-cluster")

    def _lacking(self, error: Exception) -> Exception | None:
        """What the environment lacked when a job failed; None if it was something else, a bug."""
        stopped = True
        with contextlib.suppress(Exception):  # of a JVM that is gone
            stopped = bool(self.context._jsc.sc().isStopped())
        return lacking_of(f"{text_of(error)}\n{self._log_tail()}", self.master, stopped=stopped)

    def _log_tail(self) -> str:
        log = self.scratch / "spark.log"
        return log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if log.exists() else ""

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
        require_listener(master)
        environment: dict[str, str] = {}
        if self.alone:
            environment["PYSPARK_PYTHON"] = sys.executable
            environment["SPARK_LOCAL_IP"] = "127.0.0.1"
            # Another Spark that happens to be configured on this machine is not the one that pyspark belongs to.
            environment["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
        with _interrupts_held():
            gateway = None
            if GATEWAY_GIVEN not in os.environ:  # else spark-submit has started the JVM, and ends it
                environment["JAVA_HOME"] = str(spark_java_home(find_java(), gentle=gentle))
                with _environment(environment):
                    gateway = self._gateway(self._settings(master))
                self._stack.callback(_ended, gateway)
                self._stack.callback(_forgotten)
        with _environment(environment):
            on_interrupt = signal.getsignal(signal.SIGINT)
            try:
                context = SparkContext(gateway=gateway, conf=self._settings(master))
            except Exception as error:
                raise self._not_started(master, error) from error
        self._stack.callback(context.stop)
        if threading.current_thread() is threading.main_thread():
            # Its handler talks to the JVM in the midst of whatever was being said; the stop that follows ends all jobs anyway.
            signal.signal(signal.SIGINT, on_interrupt)
        return context

    def _settings(self, master: str) -> SparkConf:
        settings = SparkConf(loadDefaults=False).setMaster(master).setAppName("quorumlog check")
        settings.set("spark.ui.showConsoleProgress", "false")
        if self.alone:
            for name, value in {
                "spark.ui.enabled": "false",
                "spark.driver.memory": DRIVER_MEMORY,
                "spark.driver.extraJavaOptions": f'{JVM_OPTIONS} "-Djava.io.tmpdir={self.scratch}"',
                "spark.local.dir": str(self.scratch),
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.host": "127.0.0.1",
            }.items():
                settings.set(name, value)
        return settings

    def _gateway(self, settings: SparkConf) -> Any:
        log = self._stack.enter_context((self.scratch / "spark.log").open("wb"))
        try:
            return launch_gateway(settings, {"stdout": log, "stderr": subprocess.STDOUT})
        except Exception as error:
            told = [line for line in self._log_tail().strip().splitlines() if not line.lstrip().startswith("at ")]
            reason = told[-1] if told else str(error)
            raise EnvironmentMissing(f"Spark's JVM did not start: {reason}; run: quorumlog doctor") from error

    def _not_started(self, master: str, error: Exception) -> Exception:
        """What to tell of an application that did not start."""
        lacking = lacking_of(f"{text_of(error)}\n{self._log_tail()}", master, stopped=False)
        reason = next((line for line in text_of(error).splitlines() if "Exception: " in line), text_of(error))
        return lacking or EnvironmentMissing(f"the application did not start on {master}: {reason.strip()}")


@contextlib.contextmanager
def attended(context: SparkContext, deserted: threading.Event) -> Iterator[None]:
    """Cancel the job under way, and set `deserted`, when the application has had no executor for `EXECUTORS_SECONDS_MAX`."""
    over = threading.Event()

    def attend() -> None:
        waited = 0.0
        while not over.wait(LOOK_SECONDS):
            with contextlib.suppress(Exception):  # of a JVM that is gone: the job tells
                waited = 0.0 if context._jsc.sc().getExecutorMemoryStatus().size() > 1 else waited + LOOK_SECONDS
            if waited >= EXECUTORS_SECONDS_MAX:
                deserted.set()
                context.cancelAllJobs()
                return

    watching = threading.Thread(target=attend, name="executors", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


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
