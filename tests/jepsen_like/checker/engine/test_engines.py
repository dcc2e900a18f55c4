"""Both engines do the same work, and a machine without a Java of its own can run Spark too."""

import contextlib
import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from jepsen_like.bench.processes import until
from jepsen_like.checker.checking import check_history
from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.engine.spark import SparkEngine
from jepsen_like.checker.engine.spark_errors import lacking_of
from jepsen_like.checker.register.tasks import RegistersTask
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.gather import Limits
from jepsen_like.checker.search import SearchBounds
from jepsen_like.checker.verdict import Engine, Model
from jepsen_like.cli import EnvironmentMissing, ExitStatus, is_full_disk
from jepsen_like.history.files import HistoryWriter, UnreadableHistory
from jepsen_like.history.ops import Action, Op, Outcome
from tests.jepsen_like.check.test_command import run_directory


def write_unsettled(place: Path) -> Path:
    """Writes a history of a stale register, one of which too much is unknown, and a fine one."""
    ops = [Op(f=Action.WRITE, type=Outcome.OK, t_inv=0, t_ret=100, a=1 + at % 5, object=1) for at in range(18)]
    ops += [Op(f=Action.READ, type=Outcome.OK, t_inv=40, t_ret=60, a=1, object=1)]
    ops += [Op(f=Action.WRITE, type=Outcome.OK, t_inv=1, t_ret=2, a=value, object=value) for value in (2, 3)]
    ops += [Op(f=Action.READ, type=Outcome.OK, t_inv=3, t_ret=4, a=-1, object=2)]
    with HistoryWriter(place) as writer:
        for process, op in enumerate(ops):
            writer.record(attrs.evolve(op, process=process))
    return place


@pytest.mark.spark
def test_spark_says_the_same_of_what_it_cannot_decide(tmp_path: Path, spark: SparkEngine) -> None:
    limits = Limits(search=SearchBounds(memory_mib=0.04))
    history = write_unsettled(tmp_path)
    here = check_history(history, Model.REGISTER, Engine.LOCAL, limits=limits)
    assert check_history(history, Model.REGISTER, Engine.SPARK, limits=limits, worker=spark).findings == here.findings


@pytest.mark.spark
def test_an_unreadable_file_is_named_by_both_engines(tmp_path: Path, spark: SparkEngine) -> None:
    torn = tmp_path / "part-0.parquet"
    torn.write_bytes(b"PAR1 nothing more")
    task = RegistersTask((torn,), SearchBounds())
    for engine in (LocalEngine(), spark):
        with pytest.raises(UnreadableHistory, match=r"part-0\.parquet: not a readable Parquet file"):
            engine.run([task])


@pytest.mark.spark
def test_an_engine_without_work_returns_nothing(spark: SparkEngine) -> None:
    assert spark.run([]) == []


def without_java(place: Path) -> dict[str, str]:
    """An environment with everything on PATH but Java."""
    place.mkdir()
    for folder in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if not program.name.startswith("java"):
                (place / program.name).unlink(missing_ok=True)
                (place / program.name).symlink_to(program)
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return kept | {"PATH": str(place)}


@pytest.mark.spark
@pytest.mark.campaign
def test_spark_runs_on_the_java_that_pip_brings_and_nothing_but_the_verdict_is_printed(tmp_path: Path) -> None:
    run = run_directory(tmp_path / "run")
    command = [sys.executable, "-m", "jepsen_like.cli", "check", str(run), "--model", "log", "--engine", "spark"]
    done = subprocess.run(
        command, env=without_java(tmp_path / "bin"), capture_output=True, text=True, timeout=110, check=False
    )
    # A stage that took long, as on a busy machine, is told in a line.
    stage = re.compile(r"[a-z ]+: \d+ rows in [\d.]+ s, [\d,]+/s")
    assert [line for line in done.stderr.splitlines() if not stage.fullmatch(line)] == []
    assert done.stdout.splitlines()[-1] == f"{run}\ttrue"
    assert done.returncode == 0


@pytest.mark.spark
@pytest.mark.parametrize(
    "sign",
    [
        pytest.param("spark.log", id="while its JVM starts", marks=pytest.mark.campaign),
        pytest.param("blockmgr-*", id="at work"),
    ],
)
def test_a_ctrl_c_ends_spark_in_one_line_and_leaves_nothing(sign: str, tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    run = run_directory(tmp_path / "run")
    command = [sys.executable, "-m", "jepsen_like.cli", "check", str(run), "--model", "log", "--engine", "spark"]
    with subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(scratch)}, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as checking:
        until(lambda: any(scratch.glob(f"quorumlog-spark-*/{sign}")), f"sign of Spark {sign}")
        os.killpg(checking.pid, signal.SIGINT)
        _, stderr = checking.communicate(timeout=60)
    assert (stderr, checking.returncode) == ("\nquorumlog: interrupted\n", ExitStatus.INTERRUPTED)
    assert list(scratch.iterdir()) == []
    assert [line for line in command_lines() if str(scratch) in line] == []


def command_lines() -> Iterator[str]:
    """Of all processes."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it may just have ended
            yield place.read_bytes().decode(errors="replace")


@pytest.mark.parametrize(
    ("text", "master", "stopped", "expected"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", "local[2]", True, "JVM has no memory left"),
        ("SparkException: Python worker exited unexpectedly (crashed)", "local[2]", False, "Python worker of Spark was killed"),
        ("ExecutorLostFailure (executor 1 exited)", "spark://h:7077", False, "lost an executor"),
        ("java.io.IOException: No space left on device", "local[2]", False, "no room"),
        ("", "spark://h:7077", True, "no answer from the Spark master spark://h:7077"),
        ("", "local[2]", True, "JVM ended before the check did"),
    ],
)  # fmt: skip
def test_what_spark_lacked_is_named_as_what_it_is(text: str, master: str, stopped: bool, expected: str) -> None:
    lacking = lacking_of(text, master, stopped=stopped)
    assert lacking is not None
    assert expected in str(lacking)
    assert isinstance(lacking, EnvironmentMissing) or is_full_disk(lacking)


def test_what_is_no_lack_is_a_bug() -> None:
    assert lacking_of("ValueError: rows in memory come as one piece", "local[2]", stopped=False) is None


@attrs.frozen
class Breaks:
    """A task that meets what a machine may lack."""

    error: BaseException | None

    def execute(self) -> None:
        if self.error is None:
            os._exit(9)  # as one that the kernel has chosen
        raise self.error


@pytest.mark.spark
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(MemoryError("Unable to allocate 9 GiB"), "no memory left", id="memory"),
        pytest.param(OSError(errno.ENOSPC, "No space left on device"), "No space left", id="disk"),
        pytest.param(None, "Python worker of Spark was killed", id="killed"),
    ],
)
def test_a_worker_that_lacks_something_ends_the_check_as_a_lack_of_the_machine(
    error: BaseException | None, expected: str, spark: SparkEngine
) -> None:
    with pytest.raises((EnvironmentMissing, OSError), match=expected) as raised:
        spark.run([Breaks(error)])
    assert isinstance(raised.value, EnvironmentMissing) or is_full_disk(raised.value)
    assert len(spark.run([RegistersTask((Columns.of_ops(()),), SearchBounds())])) == 1
