"""A check on a cluster: workers that share one directory with this process, and can see nothing else of it."""

import contextlib
import importlib.util
import random
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest

from jepsen_like.bench.processes import until
from jepsen_like.check import command
from jepsen_like.check import runs as many
from jepsen_like.checker.checking import HISTORY, check_run, engine_of
from jepsen_like.checker.engine import context as context_engine
from jepsen_like.checker.engine.context import ContextEngine
from jepsen_like.checker.engine.job import TaskRunner
from jepsen_like.checker.engine.spark import SparkEngine
from jepsen_like.checker.rows.tasks import Task
from jepsen_like.checker.verdict import Engine, Model, Verdict
from jepsen_like.cli import ExitStatus, main
from jepsen_like.history.files import HistoryWriter
from tests.jepsen_like.check.phantom_registers import write_registers
from tests.jepsen_like.checker.engine.spark_cluster import CHECKOUT, SparkCluster, require_namespaces
from tests.jepsen_like.checker.log.test_several_logs import run_of
from tests.jepsen_like.checker.queue import small_queues

pytestmark = pytest.mark.spark
LOST = "log 3: the append of 4004 at offset 4"


@pytest.fixture(scope="module")
def shared_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a directory that this process and the workers reach, with a run of each model in which something is wrong."""
    place = tmp_path_factory.mktemp("shared")
    run_of(place / "log", missing=(3, 4))
    run_of(place / "log2")
    write_registers(place / "register")
    with HistoryWriter(place / "queue" / "history.parquet") as history:
        for op in small_queues.make_damaged(random.Random(2)).ops:
            history.record(op)
    return place


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, shared_directory: Path) -> Iterator[SparkCluster]:
    require_namespaces()
    with (
        pytest.MonkeyPatch.context() as patch,
        SparkCluster(tmp_path_factory.mktemp("cluster"), shared_directory) as running,
    ):
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        yield running


@pytest.fixture(scope="module")
def tasks() -> Iterator[ModuleType]:
    """`held_tasks` as a module of a user's: outside of all packages."""
    path = Path(__file__).with_name("held_tasks.py")
    spec = importlib.util.spec_from_file_location("held_tasks", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "held_tasks", module)
        spec.loader.exec_module(module)
        yield module


def judge_model(shared_directory: Path, model: Model, worker: TaskRunner | None = None) -> Verdict:
    return check_run(shared_directory / model.value, model, Engine.SPARK if worker else Engine.LOCAL, worker=worker)


@attrs.frozen
class Held:
    """An engine whose jobs wait in their middle."""

    engine: ContextEngine
    tasks: ModuleType
    directory: Path
    alone = False

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        return self.engine.run([self.tasks.Held(task, number, self.directory) for number, task in enumerate(tasks)])


@pytest.fixture(scope="class")
def engine(cluster: SparkCluster) -> Iterator[SparkEngine]:
    """One application of all that is asked of the master: it begins without executors, as long as there are no workers."""
    cluster.workers(0)
    with engine_of(Engine.SPARK, cluster.url) as running:
        assert isinstance(running, SparkEngine)
        yield running


@pytest.fixture
def checked_there(engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """`quorumlog check --master` takes the application that runs already."""

    def take_engine(*asked: object, ui: bool) -> contextlib.nullcontext[SparkEngine]:
        assert (asked, ui) == ((Engine.SPARK, engine.context.master), False)
        return contextlib.nullcontext(engine)

    monkeypatch.setattr(command, "engine_of", take_engine)


@pytest.mark.campaign
class TestByItsMaster:
    """In this order: a master without workers, with two, and with one that is killed."""

    @pytest.mark.usefixtures("checked_there")
    def test_a_master_without_executors_is_named(
        self,
        shared_directory: Path,
        cluster: SparkCluster,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        cluster.workers(0)
        monkeypatch.setattr(context_engine, "EXECUTORS_SECONDS_MAX", 1.0)
        with pytest.raises(SystemExit) as ended:
            main(["check", str(shared_directory / "log"), "--model", "log", "--master", cluster.url])
        told, complained = capsys.readouterr()
        assert (ended.value.code, told) == (ExitStatus.ENVIRONMENT, "")
        assert f"the Spark master {cluster.url} has no executor for the check" in complained
        assert complained.count("\n") == 1

    @pytest.mark.campaign
    @pytest.mark.usefixtures("checked_there")
    def test_check_takes_a_cluster_by_its_url(
        self, shared_directory: Path, cluster: SparkCluster, capsys: pytest.CaptureFixture[str]
    ) -> None:
        cluster.workers(2)
        lost, whole = str(shared_directory / "log"), str(shared_directory / "log2")
        assert run_check(capsys, "--master", cluster.url, lost, whole) == [f"{lost}\tfalse", f"{whole}\ttrue"]

    def test_workers_that_see_nothing_of_the_checkout_find_what_this_process_finds_though_one_is_killed(
        self, shared_directory: Path, cluster: SparkCluster, engine: SparkEngine, tasks: ModuleType
    ) -> None:
        cluster.workers(2)
        there = ContextEngine(engine.context, [Path(str(tasks.__file__))])
        for package, seen in there.run([tasks.Surroundings(CHECKOUT)] * 4):
            assert ".zip" in package
            assert "jepsen_like" not in seen
        for model in (Model.LOG, Model.REGISTER, Model.QUEUE):
            here = judge_model(shared_directory, model)
            assert here.violations
            assert judge_model(shared_directory, model, there).findings == here.findings
        alone = many.judge(shared_directory / "log" / HISTORY, Model.LOG, Engine.SPARK, there, measures=False)
        assert (alone.unreadable, alone.valid) == (None, False)
        assert [one for one in shared_directory.rglob(".*") if one.is_dir()] == []

        place = shared_directory / "held"
        place.mkdir()
        verdicts: list[Verdict] = []
        checking = threading.Thread(
            target=lambda: verdicts.append(judge_model(shared_directory, Model.REGISTER, Held(there, tasks, place)))
        )
        checking.start()
        until(lambda: len(list_started(place)) == 2, "task on each of two workers")
        killed = list_started(place)[0]
        pid = int(killed.name.rpartition("-")[2])
        cluster.kill_worker(cluster.worker_of(pid))
        until(lambda: not Path(f"/proc/{pid}").exists(), "end of the killed worker's process")
        (place / "go").touch()
        checking.join()
        assert len(list(place.glob(f"started-{killed.name.split('-')[1]}-*"))) == 2  # it was done again
        (found,) = verdicts
        assert found.violations
        assert found.findings == judge_model(shared_directory, Model.REGISTER).findings


def list_started(place: Path) -> list[Path]:
    return sorted(place.glob("started-*"))


@pytest.mark.campaign
@pytest.mark.timeout(300)  # of a server that is started, and two checks
def test_check_takes_a_connect_server_by_its_url(
    shared_directory: Path, cluster: SparkCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.workers(2)
    server, lost = cluster.connect_server(), str(shared_directory / "log")
    for history in (lost, f"file://{lost}"):
        assert run_check(capsys, "--connect", server, history) == [f"{history}\tfalse"]


def run_check(capsys: pytest.CaptureFixture[str], option: str, url: str, *paths: str) -> list[str]:
    """Checks logs of which at least one is invalid; returns the verdicts that it prints."""
    with pytest.raises(SystemExit) as ended:
        main(["check", *paths, "--model", "log", option, url])
    told, complained = capsys.readouterr()
    assert "quorumlog" not in complained, complained  # only how far it is
    assert ended.value.code == ExitStatus.VIOLATION
    assert LOST in told
    return told.splitlines()[-len(paths) :]
