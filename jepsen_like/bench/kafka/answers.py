"""The answers of the figures: ours compared with Apache Kafka under every load and fault. Medians over the repeats."""

from collections.abc import Iterator

from jepsen_like.bench.answers import DASH, median_of, titled
from jepsen_like.bench.failover import KILL, PAUSE
from jepsen_like.bench.figures import Document, DocumentTable, Failover, describe, middle
from jepsen_like.bench.kafka.loads import KAFKA_LOADS, KafkaLoad, KafkaWork

OURS, THEIRS = "quorumlog", "apache"
LOADS_TITLE = "Three brokers, one client process of confluent-kafka, acks=all, three replicas"
FAULTS_TITLE = "Longest time between two acknowledgements, s"


def loads_head(document: Document) -> list[str]:
    """A column for each system, the ratio, and details of each."""
    names = [titled(about) for _, about in sorted(document.systems.items(), key=lambda item: item[0] != OURS)]
    return [
        "",
        "unit",
        *names,
        "ratio",
        *(f"{name}: least–most" for name in names),
        *(f"{name}: CPU us/record" for name in names),
    ]


def systems_of(document: Document) -> list[str]:
    """Ours first."""
    return sorted(document.systems, key=lambda system: system != OURS)


def loads(document: Document) -> list[list[str]]:
    """A row for each figure of each load."""
    return [row for load in KAFKA_LOADS for row in rows_of(document, load)]


def rows_of(document: Document, load: KafkaLoad) -> Iterator[list[str]]:
    """Megabytes for a stream, latencies and operations for single records."""
    if not any(document.throughput(system, load.key) for system in document.systems):
        return
    if load.work is KafkaWork.ONE:
        yield row(document, load, "p50_ms", "p50 ms", 1.0, 2)
        yield row(document, load, "p99_ms", "p99 ms", 1.0, 2)
        yield row(document, load, "records_s", "records/s", 1.0, 0)
    else:
        yield row(document, load, "bytes_s", "MB/s", 1e6, 1)


def row(document: Document, load: KafkaLoad, name: str, unit: str, divisor: float, digits: int) -> list[str]:
    """One figure of every system."""
    systems = systems_of(document)
    medians = {system: median_of(document, system, load.key, name) for system in systems}
    ours, theirs = medians.get(OURS), medians.get(THEIRS)
    ratio = DASH if ours is None or theirs is None or not theirs else f"{ours / theirs:.2f}"

    def spread(system: str) -> str:
        values = [getattr(figure, name) / divisor for figure in document.throughput(system, load.key)]
        return f"{min(values):,.{digits}f}–{max(values):,.{digits}f}" if values else DASH

    return [
        load.title,
        unit,
        *(cell(medians[system], divisor, digits) for system in systems),
        ratio,
        *(spread(system) for system in systems),
        *(cell(median_of(document, system, load.key, "system_us"), 1.0, 1) for system in systems),
    ]


def cell(value: float | None, divisor: float, digits: int) -> str:
    """A figure, or a dash where there is none."""
    return DASH if value is None else f"{value / divisor:,.{digits}f}"


FAULTS_HEAD = ("", "system", "median", "least–most", "faults")


def faults(document: Document) -> list[list[str]]:
    """A row for each fault and system."""
    rows = []
    for fault, words in (
        (KILL, "leader killed (kill -9), client's defaults"),
        (PAUSE, "leader paused, client waits 3 s for an answer"),
    ):
        for system in systems_of(document):
            for figure in document.of(Failover, system):
                if figure.fault == fault:
                    seconds = figure.seconds
                    least_most = f"{min(seconds):.2f}–{max(seconds):.2f}"
                    rows.append(
                        [
                            words,
                            titled(document.systems[system]),
                            f"{middle(seconds):.2f}",
                            least_most,
                            f"{len(seconds)}",
                        ]
                    )
    return rows


def tables(document: Document) -> list[DocumentTable]:
    """Returns every table; some may have no rows."""
    return [
        (LOADS_TITLE, loads_head(document), loads(document)),
        (FAULTS_TITLE, FAULTS_HEAD, faults(document)),
    ]


def remarks(document: Document) -> list[str]:
    """Returns what the tables need to be read: the machine and other load on it, and what was not measured."""
    loads = ", ".join(f"{run.load_average:.1f}" for run in document.runs)
    return [
        f"Machine: {describe(document.machine)}. Load average before: {loads}. Brokers and client share the cores over loopback.",
        *(f"Not measured, {one.section} of {one.system}: {one.why}" for one in document.not_measured),
    ]
