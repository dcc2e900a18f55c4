"""Live progress: plain lines without a terminal, a table on one, and nothing that outlives it."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from jepsen_like.progress import NodeLine, NodeState, OpsLine, RunProgress, sparkline


class Clock:
    """Time that moves when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Screen:
    """A console that is read afterwards."""

    def __init__(self, *, terminal: bool) -> None:
        self.file = io.StringIO()
        self.console = Console(file=self.file, force_terminal=terminal, width=110, color_system=None)

    @property
    def text(self) -> str:
        return self.file.getvalue()


def test_without_a_terminal_events_are_plain_lines_with_their_time() -> None:
    screen, clock = Screen(terminal=False), Clock()
    with RunProgress(total_s=30, nodes=[1, 2, 3], console=screen.console, clock=clock) as progress:
        progress.phase("load")
        clock.now += 9.4
        progress.event("kill -9 n1 (leader)")
    assert screen.text == "[   9.4s] nemesis   kill -9 n1 (leader)\n"


def test_times_count_from_the_first_operation_and_what_came_before_has_none() -> None:
    screen, clock = Screen(terminal=False), Clock()
    with RunProgress(total_s=30, nodes=[1], console=screen.console, clock=clock) as progress:
        clock.now += 1.4
        progress.event("n1 leads", topic="cluster")
        progress.phase("load", total_s=30)
        clock.now += 0.5
        progress.count_from(101.5)
        assert progress.elapsed_s == pytest.approx(0.4)
        assert progress.total_s == pytest.approx(29.9)
        progress.event("kill n1")
    assert screen.text == "[  start] cluster   n1 leads\n[   0.4s] nemesis   kill n1\n"


def test_one_redraw_shows_the_counts_and_the_nodes() -> None:
    screen, clock = Screen(terminal=True), Clock()
    with RunProgress(total_s=30, nodes=[1], console=screen.console, clock=clock) as progress:
        clock.now += 1
        before = len(screen.text)
        progress.ops(OpsLine(acked=7), [NodeLine(1, "leader", 5, NodeState.DOWN)])
        drawn = screen.text[before:]
    assert drawn.count("acked 7") == 1
    assert "● down" in drawn


def test_without_a_terminal_the_counts_come_every_five_seconds() -> None:
    screen, clock = Screen(terminal=False), Clock()
    with RunProgress(total_s=30, nodes=[1], console=screen.console, clock=clock) as progress:
        progress.phase("load")
        for tenth in range(120):
            clock.now = 100 + tenth / 10
            progress.ops(OpsLine(acked=tenth, failed=2, unknown=3, ops_per_s=10.0, p99_ms=4.5))
    assert screen.text.splitlines() == [
        "[   5.0s] load      acked 50   failed 2   unknown 3   10 ops/s   p99 4.5 ms",
        "[  10.0s] load      acked 100   failed 2   unknown 3   10 ops/s   p99 4.5 ms",
    ]


def test_on_a_terminal_every_node_is_shown_with_its_role_and_state() -> None:
    screen, clock = Screen(terminal=True), Clock()
    with RunProgress(total_s=30, nodes=[1, 2, 3, 4], console=screen.console, clock=clock) as progress:
        progress.nodes(
            [
                NodeLine(1, "leader", 5),
                NodeLine(2, "follower", 5, NodeState.PAUSED),
                NodeLine(3, "follower", 4, NodeState.CUT),
                NodeLine(4, "leader", 4, NodeState.DOWN),
            ]
        )
        progress.phase("load")
        progress.faults(["pause n2"])
        last = screen.text.rpartition("load")[2]
    lines = {
        line.split()[0]: line for line in last.splitlines() if line.split()[:1] and line.split()[0].startswith("n")
    }
    assert "★ leader" in lines["n1"] and "term 5" in lines["n1"]
    assert lines["n2"].rstrip().endswith("● paused")
    assert lines["n3"].rstrip().endswith("● cut")
    assert "leader" not in lines["n4"] and lines["n4"].rstrip().endswith("● down")
    assert "faults  pause n2" in last


def test_redraws_are_bounded_however_often_it_is_told() -> None:
    screen, clock = Screen(terminal=True), Clock()
    with RunProgress(total_s=30, nodes=[1], console=screen.console, clock=clock) as progress:
        before = len(screen.text)
        for millisecond in range(1000):
            clock.now = 100 + millisecond / 1000
            progress.ops(OpsLine(acked=millisecond))
        drawn = screen.text[before:].count("acked")
    assert 1 <= drawn <= 5


def test_an_error_leaves_the_terminal_usable() -> None:
    screen = Screen(terminal=True)
    with pytest.raises(RuntimeError), RunProgress(total_s=30, nodes=[1], console=screen.console):
        raise RuntimeError("a bug elsewhere")
    assert screen.text.rindex("\x1b[?25h") > screen.text.rindex("\x1b[?25l")


def test_a_phase_counts_its_own_time() -> None:
    screen, clock = Screen(terminal=True), Clock()
    with RunProgress(total_s=30, nodes=[1], console=screen.console, clock=clock) as progress:
        clock.now += 40
        progress.phase("checking", total_s=20)
        assert "checking  40 s, 20 s left" in screen.text


@given(st.lists(st.floats(min_value=0, max_value=1e9), max_size=40))
def test_a_sparkline_has_one_bar_a_value_or_nothing(rates: list[float]) -> None:
    assert len(sparkline(rates)) in (0, len(rates))


def test_the_tallest_bar_is_the_largest_rate() -> None:
    assert sparkline([0.0, 50.0, 100.0]) == " ▄█"
