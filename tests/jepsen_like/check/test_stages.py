"""A check tells its stages on stderr: how far each is, and afterwards how long it took."""

import io
from pathlib import Path

import attrs
import pytest
from rich.console import Console

from jepsen_like.bench.processes import until
from jepsen_like.check.stages import WORDS, Stages, poll_jobs, word_of
from jepsen_like.checker.checking import check_run
from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.engine.spark import SparkEngine
from jepsen_like.checker.register.tasks import RegistersTask
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.gather import Limits
from jepsen_like.checker.search import SearchBounds
from jepsen_like.checker.verdict import Engine, Model
from jepsen_like.history.ops import Action, Op, Outcome
from tests.jepsen_like.check.test_runs import a_run
from tests.jepsen_like.checker.rows.test_gather import write_run as of_many_objects


@attrs.frozen
class Awaiting:
    """Ends when a file is there."""

    file: Path | None

    def execute(self) -> bool:
        """See `Task`. Raises `DidNotAnswer` after a minute."""
        if self.file is not None:
            until(self.file.exists, "progress")
        return True


def display(*, is_terminal: bool, step_s: float = 3.0) -> tuple[Stages, io.StringIO]:
    """A display whose clock goes on by so much each time that it is read."""
    out = io.StringIO()
    moments = iter(number * step_s for number in range(1000))
    console = Console(file=out, force_terminal=is_terminal, width=100)
    return Stages(console, clock=lambda: next(moments)), out


def writes(count: int) -> RegistersTask:
    ops = [Op(f=Action.WRITE, type=Outcome.OK, a=at, t_inv=2 * at, t_ret=2 * at + 1) for at in range(count)]
    return RegistersTask((Columns.of_ops(ops),), SearchBounds())


def test_every_stage_has_words() -> None:
    assert word_of(writes(1)) == "checking registers"
    assert word_of(Awaiting(None)) == "ends when a file is there"


def test_a_stage_that_took_long_is_a_line_and_others_are_silent() -> None:
    for step_s, told in ((3.0, "checking registers: 30 rows in 3.0 s, 10/s\n"), (1.0, "")):
        stages, out = display(is_terminal=False, step_s=step_s)
        with stages:
            found = stages.through(LocalEngine()).run([writes(10), writes(20)])
        assert [one.ok for one in found] == [10, 20]
        assert out.getvalue() == told


def test_on_a_terminal_a_stage_is_drawn_and_leaves_nothing() -> None:
    stages, out = display(is_terminal=True)
    with stages:
        stages.through(LocalEngine()).run([writes(10)])
    assert "checking registers" in out.getvalue()
    assert "in 3.0 s" not in out.getvalue()


def test_rows_are_counted_before_they_are_read(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    parts = tuple(sorted(run.glob("history.parquet/*/*.parquet")))
    stages, _ = display(is_terminal=False)
    assert len(parts) > 1
    assert stages.rows_of(RegistersTask(parts, SearchBounds())) == 100


@pytest.mark.parametrize(
    ("model", "limits"),
    [
        (Model.REGISTER, Limits(direct=0, task=1, chunk=7, piece=7)),
        pytest.param(Model.LOG, Limits(direct=0, task=3, chunk=7), marks=pytest.mark.campaign),
        (Model.LOG, Limits(direct=0, task=1000, chunk=1000)),
    ],
)
def test_every_stage_of_a_check_in_parts_is_shown(model: Model, limits: Limits, tmp_path: Path) -> None:
    run = of_many_objects(tmp_path, model, 1)
    stages, out = display(is_terminal=False)
    with stages:
        shown = check_run(run, model, Engine.LOCAL, worker=stages.through(LocalEngine()), limits=limits)
    assert shown == check_run(run, model, Engine.LOCAL, limits=limits)
    assert {line.partition(":")[0] for line in out.getvalue().splitlines()} <= set(WORDS.values())


@pytest.mark.spark
def test_spark_is_asked_how_far_it_is(tmp_path: Path, spark: SparkEngine) -> None:
    told = tmp_path / "told"

    def note(share: float) -> None:
        if 0 < share < 1:
            told.touch()

    with poll_jobs(spark.context, note):
        found = spark.run([*[Awaiting(None)] * (3 * spark.context.defaultParallelism - 1), Awaiting(told)])
    assert all(found)
    stages, _ = display(is_terminal=False)
    with stages:
        assert stages.through(spark).run([Awaiting(None)]) == [True]
