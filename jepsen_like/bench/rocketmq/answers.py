"""The answers of the figures: ours compared with Apache RocketMQ under every mode, load and fault.

Medians over the repeats.
"""

from collections.abc import Iterator, Sequence

from jepsen_like.bench.answers import DASH, median_of, titled
from jepsen_like.bench.failover import KILL, PAUSE
from jepsen_like.bench.figures import Document, DocumentTable, Failover, ProducerErrors, describe, middle
from jepsen_like.bench.rocketmq.loads import LOADS, MODES, RocketBenchMode, RocketLoad, key_of

OURS, THEIRS = "quorumlog", "apache"
LOADS_TITLE = "One load generator, 4 queues, ASYNC_FLUSH"
PRODUCERS_TITLE = "Eight producers, two masters with a slave each, one master killed (kill -9); each sends again where a send certainly failed"
FAULTS_TITLE = "From a fault on the master of a DLedger group of three to the next acknowledged send, s"
QUIET = 1.5
"""The most load before a run whose figures are to be compared."""
PRODUCERS_HEAD = (
    "system",
    "kills",
    "sends acknowledged",
    "failed",
    "unknown",
    "moved on to the other master",
    "longest send, ms: median",
    "most",
)
FAULTS_HEAD = ("", "system", "median", "least–most", "faults")


def systems_of(document: Document) -> list[str]:
    """Ours first."""
    return sorted(document.systems, key=lambda system: system != OURS)


def loads_head(document: Document) -> list[str]:
    """A column for each system, the ratio, and details of each."""
    names = [titled(document.systems[system]) for system in systems_of(document)]
    return [
        "mode",
        "load",
        "unit",
        *names,
        "ratio",
        *(f"{name}: least–most" for name in names),
        *(f"{name}: CPU us/message" for name in names),
    ]


def loads(document: Document) -> list[list[str]]:
    """A row for each figure of each load."""
    return [row for mode in MODES for load in LOADS for row in rows_of(document, mode, load)]


def rows_of(document: Document, mode: RocketBenchMode, load: RocketLoad) -> Iterator[list[str]]:
    """Latencies where one request is under way, messages and megabytes where there are many."""
    key = key_of(mode, load)
    if not any(document.throughput(system, key) for system in document.systems):
        return
    if load.is_single:
        yield row(document, mode, load, "p50_ms", "p50 ms", 1.0, 2)
        yield row(document, mode, load, "p99_ms", "p99 ms", 1.0, 2)
    if load.batch > 1 or load.reads:
        yield row(document, mode, load, "bytes_s", "MB/s", 1e6, 1)
    else:
        yield row(document, mode, load, "records_s", "messages/s", 1.0, 0)


def row(
    document: Document, mode: RocketBenchMode, load: RocketLoad, name: str, unit: str, divisor: float, digits: int
) -> list[str]:
    """One figure of every system."""
    systems, key = systems_of(document), key_of(mode, load)
    medians = {system: median_of(document, system, key, name) for system in systems}
    ours, theirs = medians.get(OURS), medians.get(THEIRS)
    ratio = DASH if ours is None or theirs is None or not theirs else f"{ours / theirs:.2f}"

    def spread(system: str) -> str:
        values = [getattr(figure, name) / divisor for figure in document.throughput(system, key)]
        return f"{min(values):,.{digits}f}–{max(values):,.{digits}f}" if values else DASH

    return [
        mode.title,
        load.title,
        unit,
        *(cell(medians[system], divisor, digits) for system in systems),
        ratio,
        *(spread(system) for system in systems),
        *(cell(median_of(document, system, key, "system_us"), 1.0, 1) for system in systems),
    ]


def cell(value: float | None, divisor: float, digits: int) -> str:
    """A figure, or a dash where there is none."""
    return DASH if value is None else f"{value / divisor:,.{digits}f}"


def producers(document: Document) -> list[list[str]]:
    """A row for each system: sums over the kills."""
    rows = []
    for system in systems_of(document):
        figures: Sequence[ProducerErrors] = document.of(ProducerErrors, system)
        if figures:
            longest_ms = [figure.longest_s * 1000 for figure in figures]
            rows.append(
                [
                    titled(document.systems[system]),
                    f"{len(figures)}",
                    f"{sum(figure.acknowledged for figure in figures):,}",
                    f"{sum(figure.failed for figure in figures):,}",
                    f"{sum(figure.unknown for figure in figures):,}",
                    f"{sum(figure.moved for figure in figures):,}",
                    f"{middle(longest_ms):,.0f}",
                    f"{max(longest_ms):,.0f}",
                ]
            )
    return rows


def faults(document: Document) -> list[list[str]]:
    """A row for each fault and system."""
    rows = []
    for fault, words in ((KILL, "master killed (kill -9)"), (PAUSE, "master paused")):
        for system in systems_of(document):
            for figure in document.of(Failover, system):
                if figure.fault == fault:
                    seconds = figure.seconds
                    rows.append(
                        [
                            words,
                            titled(document.systems[system]),
                            f"{middle(seconds):.2f}",
                            f"{min(seconds):.2f}–{max(seconds):.2f}",
                            f"{len(seconds)}",
                        ]
                    )
    return rows


def tables(document: Document) -> list[DocumentTable]:
    """Returns every table; some may have no rows."""
    return [
        (LOADS_TITLE, loads_head(document), loads(document)),
        (PRODUCERS_TITLE, PRODUCERS_HEAD, producers(document)),
        (FAULTS_TITLE, FAULTS_HEAD, faults(document)),
    ]


def remarks(document: Document) -> list[str]:
    """Returns what the tables need to be read: the machine and other load on it, what SEND_OK means, and what was not
    measured.
    """
    loads = ", ".join(f"{run.load_average:.1f}" for run in document.runs)
    if len(document.runs) > 1 or document.runs[0].load_average > QUIET:
        loads += " (several runs, or a machine that did other work: these figures are preliminary)"
    promises = "; ".join(f"{mode.title}: {mode.promise}" for mode in MODES)
    return [
        f"Machine: {describe(document.machine)}. Load average before: {loads}. Brokers and load generator share the cores over loopback.",
        f"What an acknowledged message is: {promises}.",
        *(f"Not measured, {one.section} of {one.system}: {one.why}." for one in document.not_measured),
    ]
