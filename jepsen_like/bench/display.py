"""Shows a measurement to a person: a line for each result, a bar for the load under way, tables at the end.

Nothing is drawn while a load runs: the bar is redrawn between two loads, only by the caller. All of that goes to
stderr; the tables go to stdout.
"""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from jepsen_like.bench.figures import DocumentTable

WIDTH_MIN = 160


class Display:
    """One measurement's face; use as a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console if console is not None else Console(stderr=True, highlight=False)
        self._progress = Progress(
            BarColumn(bar_width=30),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=self._console,
            auto_refresh=False,
            transient=True,
            disable=not self._console.is_terminal,
            redirect_stdout=False,
        )
        self._task = self._progress.add_task("starting", total=None)

    def __enter__(self) -> "Display":
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def steps(self, total: float) -> None:
        """Set the number of steps."""
        self._progress.update(self._task, total=total, refresh=True)

    def step(self, count: float = 1) -> None:
        """So many are done."""
        self._progress.update(self._task, advance=count, refresh=True)

    def phase(self, text: str) -> None:
        """Name the present phase."""
        self._progress.update(self._task, description=text, refresh=True)

    def line(self, text: str) -> None:
        """Something that stays."""
        self._console.print(text, soft_wrap=True, markup=False)

    def tables(self, tables: Iterable[DocumentTable], remarks: Iterable[str]) -> None:
        """Everything, on stdout; a table without rows is left out."""
        self._progress.stop()
        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = max(console.width, WIDTH_MIN)
        for title, head, rows in tables:
            if rows:
                show(console, title, head, rows)
        for remark in remarks:
            console.print(remark, soft_wrap=True, markup=False)


def show(console: Console, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One table."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), show_edge=False)
    for number, name in enumerate(head):
        table.add_column(name, justify="left" if number == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print()
