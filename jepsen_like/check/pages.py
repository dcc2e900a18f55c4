"""Writes a page about each history that was checked: its verdict, its load, its faults where they are known, and what went wrong."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from jepsen_like.check.runs import Judged
from jepsen_like.report.findings import UnreadableRun, findings, read_rows
from jepsen_like.report.page import page


def write_pages(directory: Path, found: Sequence[Judged]) -> Iterator[Path]:
    """Yields the page of each path that could be judged. Raises `OSError`."""
    directory.mkdir(parents=True, exist_ok=True)
    taken = set[str]()
    for one in found:
        if one.unreadable is not None:
            continue
        name = page_name(one, taken)
        taken.add(name)
        (directory / name).write_text(draw(one), encoding="utf-8")
        yield directory / name


def page_name(one: Judged, taken: set[str]) -> str:
    """Returns a name that no page has yet: that of the path, with a number if need be."""
    stem = Path(one.path).resolve().name or "history"
    names = (f"{stem}.html" if number == 1 else f"{stem}-{number}.html" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def draw(one: Judged) -> str:
    """The page as text."""
    path = Path(one.path)
    document = {**one.verdict, **one.figures, "series": dict(one.series)}
    test = dict(one.test) or {"system": f"{path.name} ({one.verdict['model']})"}
    try:
        seen = {row.get("id"): row for row in read_rows(path / "nemesis.jsonl")} if path.is_dir() else {}
    except UnreadableRun:
        seen = {}
    return page(findings(document, test, seen), path.name)
