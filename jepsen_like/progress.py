"""Shows a person how a cluster runs: a live table on a terminal, plain lines anywhere else.

Everything here is pushed: the caller reports what it knows when it knows it, and nothing polls, sleeps or starts a thread, so the
display cannot disturb the load it describes. Events stay on the screen as a history; the table below them is redrawn
at most `REDRAWS_PER_S` times a second. All of it goes to stderr: stdout belongs to the results.
"""

import enum
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

REDRAWS_PER_S = 4.0
PLAIN_LINE_EVERY_S = 5.0
"""Without a terminal, how often the counts are printed between two events."""
STARTING = "starting"
"""The first phase; what happens in it carries no time."""
SPARK_WIDTH = 40
SPARKS = " ▁▂▃▄▅▆▇█"


class NodeState(enum.Enum):
    """The state that a fault has put a node into, as the one who broke it saw it."""

    UP = "up"
    PAUSED = "paused"
    CUT = "cut"
    DOWN = "down"


STYLE_OF_STATE: Mapping[NodeState, str] = {
    NodeState.UP: "green",
    NodeState.PAUSED: "yellow",
    NodeState.CUT: "magenta",
    NodeState.DOWN: "bold red",
}


@attrs.frozen
class NodeLine:
    """One node now. `role` is the node's own word; `term` is 0 while nothing is known."""

    node: int
    role: str = ""
    term: int = 0
    state: NodeState = NodeState.UP


@attrs.frozen
class OpsLine:
    """The load: totals so far by outcome, and the rate and 99th percentile latency of the last moment."""

    acked: int = 0
    failed: int = 0
    unknown: int = 0
    ops_per_s: float = 0.0
    p99_ms: float | None = None


class RunProgress:
    """The display of one run; use as a context manager, call from the one task that knows.

    `total_s` is how long the phase that is shown will take, `nodes` the ids to expect.
    """

    def __init__(
        self,
        *,
        total_s: float,
        nodes: Sequence[int],
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total_s = total_s
        self._console = console if console is not None else Console(stderr=True, highlight=False)
        self._clock = clock
        self._started = clock()
        self._phase = STARTING
        self._nodes = {node: NodeLine(node) for node in nodes}
        self._ops = OpsLine()
        self._rates: deque[float] = deque(maxlen=SPARK_WIDTH)
        self._faults: tuple[str, ...] = ()
        self._next_draw = 0.0
        self._next_plain = self._started + PLAIN_LINE_EVERY_S
        self._live: Live | None = None

    def __enter__(self) -> "RunProgress":
        if self._console.is_terminal:
            self._live = Live(
                self._picture(),
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,  # results on stdout stay on stdout
            )
            self._live.start(refresh=True)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the moment given to `count_from`, or else since this display was made: what its lines carry."""
        return self._clock() - self._started

    def count_from(self, moment_s: float) -> None:
        """From now on times count from this moment, on the clock of this display."""
        self.total_s -= moment_s - self._started
        self._started = moment_s

    def phase(self, name: str, *, total_s: float | None = None) -> None:
        """Say what goes on now ("load", "healing", "checking"); `total_s` counts from here when given."""
        self._phase = name
        if total_s is not None:
            self.total_s = self.elapsed_s + total_s
        self._draw(force=True)

    def nodes(self, lines: Iterable[NodeLine]) -> None:
        """Replace what is known about these nodes; the others keep their line."""
        self._nodes.update((line.node, line) for line in lines)
        self._draw()

    def ops(self, line: OpsLine, nodes: Iterable[NodeLine] = ()) -> None:
        """Replace the counts of the load, and with them what is known about these nodes: one redraw shows both."""
        self._ops = line
        self._nodes.update((each.node, each) for each in nodes)
        self._rates.append(line.ops_per_s)
        self._draw()
        now = self._clock()
        if self._live is None and now >= self._next_plain:
            self._next_plain = now + PLAIN_LINE_EVERY_S
            self._say(Text(self._counts()), "load")

    def faults(self, active: Iterable[str]) -> None:
        """Replace the list of faults that hold now."""
        self._faults = tuple(active)
        self._draw(force=True)

    def event(self, text: str, *, topic: str = "nemesis", style: str = "") -> None:
        """Print one line that stays, with the time and a topic: `event("kill -9 n1 (leader)")`."""
        self._say(Text(text, style=style), topic)
        self._draw(force=True)

    def _say(self, text: Text, topic: str) -> None:
        # Before the load there is nothing to count from.
        when = "[  start] " if self._phase == STARTING else f"[{self.elapsed_s:6.1f}s] "
        line = Text.assemble((when, "dim"), (f"{topic:<9} ", "cyan"), text)
        self._console.print(line, soft_wrap=True)

    def _draw(self, *, force: bool = False) -> None:
        now = self._clock()
        if self._live is None or (now < self._next_draw and not force):
            return
        self._next_draw = now + 1 / REDRAWS_PER_S
        self._live.update(self._picture(), refresh=True)

    def _picture(self) -> RenderableType:
        rows: list[RenderableType] = [self._head(), self._table()]
        if self._faults:
            rows.append(Text("  faults  " + " · ".join(self._faults), style="bold red"))
        rows.append(Text.assemble("  ", self._counts(), "  ", (sparkline(self._rates), "cyan")))
        return Group(*rows)

    def _head(self) -> Text:
        elapsed = self.elapsed_s
        done = min(elapsed / self.total_s, 1.0) if self.total_s > 0 else 1.0
        filled = round(done * 30)
        left = max(self.total_s - elapsed, 0.0)
        return Text.assemble(
            ("\n  ", ""),
            ("━" * filled, "cyan"),
            ("━" * (30 - filled), "dim"),
            (f"  {self._phase}", "bold"),
            (f"  {elapsed:.0f} s" + (f", {left:.0f} s left" if left >= 0.5 else ""), "dim"),
        )

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2), show_header=False)
        for justify in ("left", "left", "right", "left"):
            table.add_column(justify=justify)
        for line in self._nodes.values():
            leads = line.role == "leader" and line.state is not NodeState.DOWN
            known = line.state is not NodeState.DOWN
            table.add_row(
                Text(f"n{line.node}", style="bold"),
                Text(("★ " if leads else "  ") + (line.role if known else ""), style="bold green" if leads else ""),
                Text(f"term {line.term}" if known and line.term else "", style="dim"),
                Text(f"● {line.state.value}", style=STYLE_OF_STATE[line.state]),
            )
        return table

    def _counts(self) -> str:
        ops = self._ops
        p99 = f"   p99 {ops.p99_ms:.1f} ms" if ops.p99_ms is not None else ""
        return (
            f"acked {ops.acked:,}   failed {ops.failed:,}   unknown {ops.unknown:,}   {ops.ops_per_s:,.0f} ops/s{p99}"
        )


def sparkline(values: Iterable[float]) -> str:
    """Rates as a row of bars, scaled to the largest; empty for none."""
    rates = list(values)
    top = max(rates, default=0.0)
    if top <= 0:
        return ""
    return "".join(SPARKS[round(max(rate, 0.0) / top * (len(SPARKS) - 1))] for rate in rates)
