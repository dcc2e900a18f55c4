"""The price of a secret and of TLS: each load of each system, compared with the plain cluster of the same run."""

from collections.abc import Sequence

from jepsen_like.bench.answers import DASH, median_of
from jepsen_like.bench.broker_tables import cell
from jepsen_like.bench.figures import Document, DocumentTable, describe
from jepsen_like.bench.guard import PLAIN, Protection
from jepsen_like.bench.security.loads import BEFORE, LOADS, PROTECTIONS, SYSTEMS, TITLES, key

QUIET = 1.5
"""The most load before a run whose figures are to be compared."""
HEAD = (
    "load",
    "protection",
    "records/s",
    "least–most",
    "of plain",
    "p50 ms",
    "p99 ms",
    "CPU us/record",
    "client's CPU us/record",
)


def tables(document: Document) -> list[DocumentTable]:
    """Returns a table for each system that was measured."""
    return [(TITLES[system], HEAD, rows) for system in SYSTEMS if (rows := rows_of(document, system))]


def rows_of(document: Document, system: str) -> list[Sequence[str]]:
    """A row for each load under each protection."""
    ways = (Protection(BEFORE, "plain, the installation before"), *PROTECTIONS)
    return [
        row
        for load, title in LOADS[system]
        for way in ways
        if (row := _row(document, system, load, title, way)) is not None
    ]


def _row(document: Document, system: str, load: str, title: str, way: Protection) -> list[str] | None:
    name = key(system, way)
    rates = [figure.records_s for figure in document.throughput(name, load)]
    rate, plain = (median_of(document, each, load, "records_s") for each in (name, key(system, PLAIN)))
    if rate is None:
        return None
    share = DASH if not plain else f"{rate / plain:.2f}"
    spread = f"{min(rates):,.0f}–{max(rates):,.0f}"
    rest = [
        cell(median_of(document, name, load, measure), 1.0, digits)
        for measure, digits in (("p50_ms", 2), ("p99_ms", 2), ("system_us", 1), ("client_us", 1))
    ]
    return [title, way.title, f"{rate:,.0f}", spread, share, *rest]


def remarks(document: Document) -> list[str]:
    """Returns what the tables need to be read."""
    loads = ", ".join(f"{run.load_average:.1f}" for run in document.runs)
    if any(run.load_average > QUIET for run in document.runs):
        loads += " (a machine that did other work: these figures are preliminary)"
    return [
        f"Machine: {describe(document.machine)}. Load average before: {loads}. Clients speak TLS too, on the same cores.",
        *(f"Not measured, {one.section} of {one.system}: {one.why}" for one in document.not_measured),
    ]
