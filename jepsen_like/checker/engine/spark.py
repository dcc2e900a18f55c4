"""An application of Spark of our own: its JVM is started, kept quiet, and ended with all that came of it."""

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
from typing import Any, Final, Self

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from jepsen_like.checker.engine import vector_sorts
from jepsen_like.checker.engine.context import ContextEngine
from jepsen_like.checker.engine.java import find_java, spark_java_home
from jepsen_like.checker.engine.spark_errors import DRIVER_MEMORY, lacking_of, require_listener, text_of
from jepsen_like.cli import EnvironmentMissing

LOG_TAIL_BYTES: Final = 4000
GATEWAY_GIVEN: Final = "PYSPARK_GATEWAY_PORT"
JVM_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
"""Short jobs on few cores: the JVM should start quickly and not compete with the workers."""


class SparkEngine(ContextEngine):
    """One Spark application; runs tasks. Use as a context manager.

    `master` is a Spark master URL, by default this machine with a worker per core; a named one keeps Spark's
    configuration (SPARK_HOME, SPARK_CONF_DIR, PYSPARK_PYTHON). `gentle` gives the JVM and its workers the lowest
    priority. `ui` serves Spark's page (`context.uiWebUrl`) on this machine; a named master's configuration decides
    instead. `modules` are a user's files or packages for tasks. The JVM writes to `spark.log` in its scratch directory.
    """

    def __init__(
        self, master: str | None = None, *, gentle: bool = False, ui: bool = False, modules: Sequence[Path] = ()
    ) -> None:
        self._ui = ui
        self._stack = contextlib.ExitStack()
        self.scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="quorumlog-spark-")))
        self._stack.enter_context(_py4j_silent())
        try:
            super().__init__(self._start(master or f"local[{os.cpu_count() or 1}]", gentle), modules)
        except BaseException:
            self._stack.close()
            raise

    def log_tail(self) -> str:
        """See `ContextEngine`."""
        log = self.scratch / "spark.log"
        return log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if log.exists() else ""

    def close(self) -> None:
        """Stop Spark and its JVM."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _start(self, master: str, gentle: bool) -> SparkContext:
        require_listener(master)
        environment: dict[str, str] = {}
        if master.startswith("local"):
            environment["PYSPARK_PYTHON"] = sys.executable
            environment["SPARK_LOCAL_IP"] = "127.0.0.1"
            environment |= {name: value for name, value in vector_sorts.settings().items() if name not in os.environ}
            # Another Spark that happens to be configured on this machine is not the one that pyspark belongs to.
            environment["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
        with _interrupts_held():
            gateway = None
            if GATEWAY_GIVEN not in os.environ:  # else spark-submit has started the JVM, and ends it
                environment["JAVA_HOME"] = str(spark_java_home(find_java(), gentle=gentle))
                with _environment(environment):
                    gateway = self._gateway(self._settings(master))
                self._stack.callback(_end_gateway, gateway)
                self._stack.callback(_forget_session)
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
        if master.startswith("local"):
            for name, value in {
                "spark.ui.enabled": str(self._ui).lower(),
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
            told = [line for line in self.log_tail().strip().splitlines() if not line.lstrip().startswith("at ")]
            reason = told[-1] if told else str(error)
            raise EnvironmentMissing(f"Spark's JVM did not start: {reason}; run: quorumlog doctor") from error

    def _not_started(self, master: str, error: Exception) -> Exception:
        """Returns what to tell of an application that did not start."""
        lacking = lacking_of(f"{text_of(error)}\n{self.log_tail()}", master, stopped=False)
        reason = next((line for line in text_of(error).splitlines() if "Exception: " in line), text_of(error))
        return lacking or EnvironmentMissing(f"the application did not start on {master}: {reason.strip()}")


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


def _end_gateway(gateway: Any) -> None:
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


def _forget_session() -> None:
    """Let a later engine of this process start a JVM of its own instead of looking for the one that ended."""
    SparkContext._gateway = None
    SparkContext._jvm = None
