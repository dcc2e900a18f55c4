"""The live display shows a struck node at once, and counts from the first operation of the load, as the report does."""

import io
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio.testing
from rich.console import Console

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.history.files import HistoryWriter
from jepsen_like.history.ops import Action
from jepsen_like.nemesis.nemesis import FaultNews
from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.targets import ResolvedTarget, Target
from jepsen_like.port.observations import Reports, RoleSeen
from jepsen_like.progress import RunProgress
from jepsen_like.run.display import SHOW_EVERY_S, FaultNewsLines, show
from jepsen_like.workload.model import Request, Seen
from jepsen_like.workload.recorder import Recorder

MS = 1_000_000


class Stands:
    """A cluster of which nothing is asked but how its nodes are."""

    def __init__(self) -> None:
        self.nodes = {node: SimpleNamespace(is_running=True, is_paused=False) for node in (1, 2)}
        self.reports = Reports(roles=[RoleSeen(1, 0, "leader", 1), RoleSeen(2, 0, "follower", 1)])


def screen(*, terminal: bool, clock: Any = time.monotonic) -> tuple[io.StringIO, RunProgress]:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=110, color_system=None)
    return file, RunProgress(total_s=30, nodes=[1, 2], console=console, clock=clock)


def test_a_struck_node_is_shown_with_the_news_of_its_fault() -> None:
    cluster = Stands()
    file, progress = screen(terminal=True, clock=lambda: 7.0)  # no time passes, so that nothing but the news is drawn
    with progress:
        news = FaultNewsLines(progress, cast("Cluster", cluster))
        progress.phase("load")
        cluster.nodes[1].is_running = False
        before = len(file.getvalue())
        news.tell(
            FaultNews(Fault(1, "kill", Target.LEADER, 0.0, 1.0, 1), ResolvedTarget((1,)), leader=1, has_ended=False)
        )
        assert "● down" in file.getvalue()[before:]


async def test_the_first_operation_is_where_the_terminal_counts_from(
    autojump_clock: trio.testing.MockClock, tmp_path: Any
) -> None:
    cluster = Stands()
    file, progress = screen(terminal=False)
    with HistoryWriter(tmp_path) as history, progress:
        recorder = Recorder(history)
        progress.event("n1 leads", topic="cluster")
        progress.phase("load", total_s=30)
        begun_ns = time.monotonic_ns() - 1500 * MS
        late, early = (begun_ns + 700 * MS, begun_ns)  # the first to end is not the first to begin
        async with show(
            progress, cast("Cluster", cluster), recorder, FaultNewsLines(progress, cast("Cluster", cluster))
        ):
            for t_inv in (late, early):
                recorder.ok(a_write(), Seen((7,)), process=1, node=1, t_inv=t_inv, t_ret=t_inv + MS)
                await trio.sleep(2 * SHOW_EVERY_S)
        assert recorder.began_ns == begun_ns
        assert progress.elapsed_s == pytest.approx((time.monotonic_ns() - begun_ns) / 1e9, abs=0.1)
    lines = file.getvalue().splitlines()
    assert lines[0] == "[  start] cluster   n1 leads"
    assert [
        line for line in lines if "times count from the first operation of the load, as in the report" in line
    ] == lines[1:2]


async def never_asked(connection: Any) -> Any:
    raise AssertionError("only the answer matters here")


def a_write() -> Request:
    return Request(Action.APPEND, never_asked, a=7, values=(7,))
