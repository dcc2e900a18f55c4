"""The answers of the figures: ours compared with Apache RocketMQ under every mode, load and fault."""

from collections.abc import Sequence

from jepsen_like.bench.answers import title_of
from jepsen_like.bench.broker_tables import MEGABYTES, P50, P99, BrokerTables, LoadRows, Measure, systems_of
from jepsen_like.bench.failover import KILL, PAUSE
from jepsen_like.bench.figures import Document, DocumentTable, ProducerErrors, describe, middle
from jepsen_like.bench.rocketmq.loads import LOADS, MODES, RocketLoad, key_of

PRODUCERS_TITLE = "Eight producers, two masters with a slave each, one master killed (kill -9); each sends again where a send certainly failed"
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
COUNTS = ("acknowledged", "failed", "unknown", "moved")
RATE = Measure("records_s", "messages/s")


def measures_of(load: RocketLoad) -> tuple[Measure, ...]:
    """Latencies where one request is under way, messages and megabytes where there are many."""
    return (*((P50, P99) if load.is_single else ()), MEGABYTES if load.batch > 1 or load.reads else RATE)


def producers(document: Document) -> list[list[str]]:
    """A row for each system: sums over the kills."""
    rows = []
    for system in systems_of(document):
        figures: Sequence[ProducerErrors] = document.of(ProducerErrors, system)
        if figures:
            longest_ms = [figure.longest_s * 1000 for figure in figures]
            rows.append(
                [
                    title_of(document.systems[system]),
                    f"{len(figures)}",
                    *(f"{sum(getattr(figure, name) for figure in figures):,}" for name in COUNTS),
                    f"{middle(longest_ms):,.0f}",
                    f"{max(longest_ms):,.0f}",
                ]
            )
    return rows


def producers_table(document: Document) -> list[DocumentTable]:
    """The table about producers that lose a master."""
    return [(PRODUCERS_TITLE, PRODUCERS_HEAD, producers(document))]


def remarks(document: Document) -> list[str]:
    """Returns the notes of the tables: the machine and its other load, SEND_OK's meaning, what was not measured."""
    loads = ", ".join(f"{run.load_average:.1f}" for run in document.runs)
    if len(document.runs) > 1 or document.runs[0].load_average > QUIET:
        loads += " (several runs, or a machine that did other work: these figures are preliminary)"
    promises = "; ".join(f"{mode.title}: {mode.promise}" for mode in MODES)
    return [
        f"Machine: {describe(document.machine)}. Load average before: {loads}. Brokers and load generator share the cores over loopback.",
        f"What an acknowledged message is: {promises}.",
        *(f"Not measured, {one.section} of {one.system}: {one.why}." for one in document.not_measured),
    ]


TABLES = BrokerTables(
    loads_title="One load generator, 4 queues, ASYNC_FLUSH",
    titles_head=("mode", "load"),
    unit="message",
    rows=[
        LoadRows([mode.title, load.title], key_of(mode, load), measures_of(load)) for mode in MODES for load in LOADS
    ],
    others=producers_table,
    faults_title="From a fault on the master of a DLedger group of three to the next acknowledged send, s",
    faults_words={KILL: "master killed (kill -9)", PAUSE: "master paused"},
    remarks=remarks,
)
