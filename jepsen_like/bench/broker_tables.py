"""The tables of brokers' figures: ours compared with Apache's, load by load and fault by fault. Medians over the repeats."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import attrs

from jepsen_like.bench.answers import DASH, median_of, title_of
from jepsen_like.bench.figures import Document, DocumentTable, Failover, middle

OURS, THEIRS = "quorumlog", "apache"
FAULTS_HEAD = ("", "system", "median", "least–most", "faults")


class Measure(NamedTuple):
    """A figure of throughput as a table shows it."""

    name: str
    unit: str
    divisor: float = 1.0
    digits: int = 0


P50, P99 = Measure("p50_ms", "p50 ms", digits=2), Measure("p99_ms", "p99 ms", digits=2)
MEGABYTES = Measure("bytes_s", "MB/s", 1e6, 1)


class LoadRows(NamedTuple):
    """The rows of one load: what they begin with, the key of its figures, and which of them are shown."""

    titles: Sequence[str]
    key: str
    measures: Sequence[Measure]


@attrs.frozen(kw_only=True)
class BrokerTables:
    """The tables about one protocol."""

    loads_title: str
    titles_head: Sequence[str]
    """The columns of `LoadRows.titles`."""
    unit: str
    """The word for a record."""
    rows: Sequence[LoadRows]
    faults_title: str
    faults_words: Mapping[str, str]
    remarks: Callable[[Document], Sequence[str]]
    """Sentences below the tables that explain them."""
    others: Callable[[Document], Sequence[DocumentTable]] = lambda document: ()
    """Tables between those of loads and faults."""

    def tables(self, document: Document) -> list[DocumentTable]:
        """Returns every table; some may have no rows."""
        return [
            (self.loads_title, self.loads_head(document), self.loads(document)),
            *self.others(document),
            (self.faults_title, FAULTS_HEAD, self.faults(document)),
        ]

    def loads_head(self, document: Document) -> list[str]:
        """A column for each system, the ratio, and details of each."""
        names = [title_of(document.systems[system]) for system in systems_of(document)]
        spreads, costs = (f"{name}: least–most" for name in names), (f"{name}: CPU us/{self.unit}" for name in names)
        return [*self.titles_head, "unit", *names, "ratio", *spreads, *costs]

    def loads(self, document: Document) -> list[list[str]]:
        """A row for each figure of each load that was measured."""
        return [
            [*rows.titles, *cells_of(document, rows.key, measure)]
            for rows in self.rows
            if any(document.throughput(system, rows.key) for system in document.systems)
            for measure in rows.measures
        ]

    def faults(self, document: Document) -> list[list[str]]:
        """A row for each fault and system."""
        return [
            [
                words,
                title_of(document.systems[system]),
                f"{middle(figure.seconds):.2f}",
                f"{min(figure.seconds):.2f}–{max(figure.seconds):.2f}",
                f"{len(figure.seconds)}",
            ]
            for fault, words in self.faults_words.items()
            for system in systems_of(document)
            for figure in document.of(Failover, system)
            if figure.fault == fault
        ]


def systems_of(document: Document) -> list[str]:
    """Ours first."""
    return sorted(document.systems, key=lambda system: system != OURS)


def cells_of(document: Document, key: str, measure: Measure) -> Iterator[str]:
    """One figure of every system: its unit, medians, ratio, spreads and CPU time."""
    name, unit, divisor, digits = measure
    systems = systems_of(document)
    medians = {system: median_of(document, system, key, name) for system in systems}
    ours, theirs = medians.get(OURS), medians.get(THEIRS)
    yield unit
    yield from (cell(medians[system], divisor, digits) for system in systems)
    yield DASH if ours is None or not theirs else f"{ours / theirs:.2f}"
    for system in systems:
        values = [getattr(figure, name) / divisor for figure in document.throughput(system, key)]
        yield f"{min(values):,.{digits}f}–{max(values):,.{digits}f}" if values else DASH
    yield from (cell(median_of(document, system, key, "system_us"), 1.0, 1) for system in systems)


def cell(value: float | None, divisor: float, digits: int) -> str:
    """A figure, or a dash where there is none."""
    return DASH if value is None else f"{value / divisor:,.{digits}f}"
