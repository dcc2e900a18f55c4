"""Shows a person how far a check is: each stage with its speed and the time that is left, on stderr.

A stage is one call of an engine with tasks of one kind. On a terminal it is a line that is redrawn; elsewhere a line when it has ended, if it took
longer than `PLAIN_S`, so that a short check is silent. The in-process engine reports each task; of an application of Spark a thread
asks how many slices of the job have ended; one behind Spark Connect tells when a stage has ended.
"""

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Task as Bar
from rich.text import Text

from jepsen_like.checker.engine.job import TaskRunner
from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.gather import PartSlice
from jepsen_like.checker.rows.tasks import Task
from jepsen_like.history.files import UnreadableHistory, part_rows

PLAIN_S: Final = 2.0
ASKED_EVERY_S: Final = 0.5
WORDS: Final[Mapping[str, str]] = {
    "CensusTask": "counting objects",
    "ChunkTask": "reading a long log",
    "CyclesTask": "looking for cycles",
    "DumpCensusTask": "counting final logs",
    "GatherTask": "sorting rows by object",
    "KafkaCyclesTask": "looking for cycles",
    "KafkaTask": "checking partitions",
    "KeysOfTransactionsTask": "checking keys",
    "KeysTask": "comparing values",
    "LastTask": "finishing large registers",
    "LogsTask": "checking logs",
    "MeetingTask": "comparing processes",
    "ObjectsTask": "checking objects",
    "QueueTask": "checking partitions",
    "RangeTask": "checking ranges of a long log",
    "ReduceTask": "reducing large registers",
    "RegistersTask": "checking registers",
    "RunTask": "judging runs",
    "SettleTask": "settling unknown outcomes",
    "SortDumpTask": "sorting final logs",
    "SortTask": "sorting rows by log",
    "SpansTask": "comparing processes",
    "SpeakTask": "fetching evidence",
    "ValueTask": "checking values of a long log",
    "WaitingTask": "checking what waited",
}
"""A stage in words, by the kind of its tasks; others are told as what their docstring begins with."""
INPUTS: Final = ("sources", "source", "chunk", "chunks", "parts")
"""The fields of a task that name its rows."""


class Speed(ProgressColumn):
    """Rows per second, or tasks where their rows are not known."""

    def render(self, task: Bar) -> Text:
        """See `ProgressColumn`."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} {task.fields['unit']}/s", style="dim")


class Stages:
    """The display of one check; use as a context manager, and run its tasks through `through`."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console if console is not None else Console(stderr=True, highlight=False)
        self._clock = clock
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), Speed(), TimeRemainingColumn())
        self._bars = Progress(
            *columns,
            console=self._console,
            transient=True,
            redirect_stdout=False,
            disable=not self._console.is_terminal,
        )
        self._rows: dict[Path, tuple[int, ...]] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bars.stop()

    def through(self, engine: TaskRunner) -> TaskRunner:
        """The same engine, whose stages are shown."""
        return _Told(self) if isinstance(engine, LocalEngine) else _ToldOfSpark(self, engine)

    @contextlib.contextmanager
    def stage(self, tasks: Sequence[Task]) -> Iterator[Callable[[float], None]]:
        """Show a stage while it lasts; the caller is given what to call with the number of tasks that have ended."""
        word = word_of(tasks[0])
        rows, unit = [self.rows_of(task) for task in tasks], "rows"
        if not all(rows):
            rows, unit = [1] * len(tasks), "tasks"
        ends = [0]
        for number in rows:
            ends.append(ends[-1] + (number or 0))
        began = self._clock()
        bar = self._bars.add_task(word, total=ends[-1], unit=unit)

        def advance(count: float) -> None:
            whole = min(int(count), len(tasks))
            part = (count - whole) * (ends[min(whole + 1, len(tasks))] - ends[whole])
            self._bars.update(bar, completed=ends[whole] + part)

        try:
            yield advance
        finally:
            self._bars.remove_task(bar)
        took_s = self._clock() - began
        if not self._console.is_terminal and took_s >= PLAIN_S:
            self._console.print(
                f"{word}: {ends[-1]:,} {unit} in {took_s:.1f} s, {ends[-1] / took_s:,.0f}/s", soft_wrap=True
            )

    def rows_of(self, task: Task) -> int | None:
        """Returns how many rows a task is about; None where that is not known before they are read."""
        if isinstance(rows := getattr(task, "rows", None), int):
            return rows
        named = [getattr(task, name) for name in INPUTS if hasattr(task, name)]
        return self._count(named) if named else None

    def _count(self, source: Any) -> int | None:
        if isinstance(source, Columns):
            return len(source)
        if isinstance(source, PartSlice):
            return sum(self._groups(source.path)[number] for number in source.groups)
        if isinstance(source, Path):
            return sum(self._groups(source)) if source.suffix == ".parquet" else None
        if isinstance(source, tuple | list):
            counts = [self._count(one) for one in source]
            return None if None in counts else sum(count or 0 for count in counts)
        return None

    def _groups(self, path: Path) -> tuple[int, ...]:
        if path not in self._rows:
            try:
                self._rows[path] = part_rows(path)
            except UnreadableHistory:
                return (0,) * 1000  # the task tells what is wrong with it
        return self._rows[path]


def word_of(task: Task) -> str:
    """A stage in words."""
    kind = type(task)
    return WORDS.get(kind.__name__) or re.split(r"[.:,]", kind.__doc__ or "checking")[0].lower()


class _Told(LocalEngine):
    """The in-process engine, task by task."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """See `LocalEngine`."""
        if not tasks:
            return []
        found = []
        with self._stages.stage(tasks) as ended:
            for number, task in enumerate(tasks, 1):
                found += super().run([task])
                ended(number)
        return found


class _ToldOfSpark:
    """An engine of Spark, which is asked how far it is."""

    def __init__(self, stages: Stages, engine: TaskRunner) -> None:
        self._stages = stages
        self._engine = engine

    @property
    def alone(self) -> bool:
        """See `TaskRunner`."""
        return self._engine.alone

    @property
    def context(self) -> Any:
        """The application's; None for a client of Connect."""
        return getattr(self._engine, "context", None)

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """See `TaskRunner`."""
        if not tasks:
            return []
        with self._stages.stage(tasks) as ended, poll_jobs(self.context, lambda share: ended(share * len(tasks))):
            return self._engine.run(tasks)


@contextlib.contextmanager
def poll_jobs(context: Any, tell: Callable[[float], None]) -> Iterator[None]:
    """Tell, now and then, which share of the running jobs has ended."""
    over = threading.Event()

    def ask() -> None:
        tracker = context.statusTracker()
        while not over.wait(ASKED_EVERY_S):
            with contextlib.suppress(Exception):  # of a JVM that is gone: the job tells
                jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
                found = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
                stages = [stage for stage in found if stage is not None]
                if all_ := sum(stage.numTasks for stage in stages):
                    tell(sum(stage.numCompletedTasks for stage in stages) / all_)

    if context is None:
        yield
        return
    asking = threading.Thread(target=ask, name="progress", daemon=True)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()
