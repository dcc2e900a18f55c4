"""One page about an experiment that is no run of the usual kind: what came of it, a picture, and tables of its figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
from markupsafe import Markup

from jepsen_like.report.page import fill

REPORT: Final = "report.html"


@attrs.frozen(kw_only=True)
class FigureTable:
    """A table; the first cell of each row names it."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def lines(self) -> list[str]:
        """As Markdown, for a terminal and for documents."""
        bar = ["---", *("--:" for _ in self.head[1:])]
        return [f"| {' | '.join(cells)} |" for cells in (self.head, bar, *self.rows)]


@attrs.frozen(kw_only=True)
class ExperimentPage:
    """The content of the page. `missing` are the reasons why it did not come about, if it did not."""

    name: str
    headline: str
    story: str
    command: str
    tables: Sequence[FigureTable]
    missing: Sequence[str] = ()
    picture: Markup | None = None
    caption: str = ""


def render_experiment(directory: Path, page: ExperimentPage) -> Path:
    """Write the page into the directory of an experiment, and return its path."""
    kind, sign = ("unknown", "?") if page.missing else ("valid", "✓")
    path = directory / REPORT
    text = fill("experiment.html.jinja", page=page, kind=kind, sign=sign, directory=directory.resolve().name)
    path.write_text(text, encoding="utf-8")
    return path
