"""A verdict in words for people: one verdict in lines, many in a table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jepsen_like.checker.verdict import NOUNS, Verdict
from jepsen_like.record.results import count
from jepsen_like.record.words import available, faults_words, mode_words

if TYPE_CHECKING:
    from jepsen_like.check.runs import Judged

SHOWN_MAX: Final = 10
FOUND_MAX: Final = 3
"""Lines about each run that is not as it should be, below the table."""
WORD: Final = {True: "true", False: "false", None: "unknown"}
WIDTH_MAX: Final = 1000
RIGHT: Final = ("acked", "lost", "RTO", "RPO", "rate", "available")


def summary(verdict: Verdict) -> Iterator[str]:
    """Returns what was found, for people."""
    found = verdict.findings
    total = found.ok + found.fail + found.info
    thing = NOUNS.get(verdict.model, verdict.model.value)
    objects = f"{found.objects:,} {thing}{'s' * (found.objects != 1)}"
    yield f"{total:,} operations ({found.info:,} of unknown outcome) on {objects}"
    for violation in verdict.violations[:SHOWN_MAX]:
        yield f"{violation.check}: {violation.sentence}"
    hidden = sum(found.counts.values()) - min(len(verdict.violations), SHOWN_MAX)
    if hidden:
        yield f"... and {hidden} more violations"
    if found.expired:
        yield f"{found.expired:,} of {found.acked:,} acknowledged records have left the logs, as their retention allows"
    for loss in verdict.losses:
        yield f"lost, as the mode of the run allows: {loss.says}"
    for deviation in found.tolerated:
        yield f"{deviation.check}, as allowed: {deviation.count:,}; {deviation.because}: {deviation.example}"
    for reason in verdict.reasons[:SHOWN_MAX]:
        yield f"undecided: {reason}"
    for line in verdict.not_tested:
        yield f"not tested: {line}"


def print_table(found: "Sequence[Judged]") -> None:
    """Print many verdicts: as wide as a terminal is, as wide as the table is anywhere else."""
    console, table = Console(highlight=False), table_of(found)
    if not console.is_terminal:
        whole = console.measure(table, options=console.options.update(max_width=WIDTH_MAX)).maximum
        console = Console(highlight=False, width=whole)
    console.print(table)


def table_of(found: "Sequence[Judged]") -> Table:
    """Many verdicts with their figures, one row each."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("run", "system", "mode", "faults", "verdict"):
        table.add_column(name, overflow="fold")
    for name in RIGHT:
        table.add_column(name, justify="right", no_wrap=True)
    for judged in found:
        test, figures = judged.test, judged.figures
        word, style = verdict_of(judged)
        system = " ".join(str(test[name]) for name in ("system", "workload") if name in test)
        cells = [judged.run, system, mode_words(test), faults_words(figures["faults"]) if figures else ""]
        table.add_row(*cells, Text(word, style=style), *(figures_of(judged) if figures else [""] * len(RIGHT)))
    return table


def verdict_of(one: "Judged") -> tuple[str, str]:
    """A verdict in a word, and its style: what was lost, or is doubted beyond its history, is never green."""
    if one.unreadable is not None:
        return "unreadable", "bold red"
    word = WORD[one.valid]
    if one.valid is not True:
        return word, "bold red" if one.valid is False else "bold yellow"
    if count(one.verdict["lost_acked"]):
        return f"{word}, with allowed losses", "bold yellow"
    if one.verdict.get("tolerated") or one.beyond:
        return f"{word}, but", "bold yellow"
    return word, "bold green"


def figures_of(one: "Judged") -> list[str]:
    """The figures of a row, as `RIGHT` names them."""
    verdict, figures = one.verdict, one.figures
    rto, up = figures["rto_s"], available(figures["availability"])
    away = "never back" if rto["unrecovered"] else seconds(rto["max"])
    return [
        f"{verdict['acked']:,}",
        f"{verdict['lost_acked']:,}",
        away,
        seconds(figures["rpo"]["s"]),
        f"{figures['throughput_ops_s']:,.0f}/s",
        up[0] if up else "-",
    ]


def seconds(value: Any) -> str:
    """A time, or a dash for none."""
    return "-" if value is None else f"{value:.2f} s"


def notes(found: "Sequence[Judged]") -> Iterator[str]:
    """Yields what the table does not say, a line each: why runs are not as they should be, and where their results.json differs."""
    for judged in found:
        if judged.unreadable is not None:
            yield judged.unreadable
            continue
        verdict = judged.verdict
        lines = [f"{row['check']}: {row['sentence']}" for row in verdict["violations"]]
        lines += [f"undecided: {reason}" for reason in verdict["unknown"]]
        lines += [f"lost, as the mode of the run allows: {loss['says']}" for loss in verdict["lost_allowed"]]
        lines += [describe_tolerated(row) for row in verdict.get("tolerated", ())]
        lines += [f"beyond its history: {line}" for line in judged.beyond]
        yield from (f"{judged.run}: {line}" for line in lines[:FOUND_MAX])
        if len(lines) > FOUND_MAX:
            yield f"{judged.run}: ... and {len(lines) - FOUND_MAX} more"
        yield from (f"{judged.run}: its results.json differs: {line}" for line in judged.differs)


def describe_tolerated(row: Mapping[str, Any]) -> str:
    """Returns what a mode allows besides losses."""
    return f"{row['check']}, as this mode allows: {row['count']:,}; {row['because']}"
