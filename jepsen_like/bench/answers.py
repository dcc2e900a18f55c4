"""The answers of the figures: ours compared with each peer and each limit, with the aim set before, met or missed.

Answers are medians over the repeats; their spread stands in the tables of all figures. A figure that is not there is a
dash, never a guess.
"""

from collections.abc import Iterator, Sequence

import attrs

from jepsen_like.bench.conversation import BATCHES, FULL, LARGE, LOADS, ONE
from jepsen_like.bench.figures import (
    Calm,
    Document,
    DocumentTable,
    Failover,
    Memory,
    RestartFigure,
    Throughput,
    describe,
    middle,
    section_of,
)
from jepsen_like.bench.limits import DISK, ECHO, IN_PLACE

OURS = "quorumlog"
TRIMMED = "trimmed"
PAGE_CACHE = "page-cache"
DASH = "–"
BUSY_FROM = 1.0
"""Waiting processes for each core before a run, above which its figures come with a warning."""


@attrs.frozen
class BenchAnswer:
    """One question. `met` is None where no aim was set, or nothing was measured."""

    question: str
    ours: str
    compared: str = ""
    ratio: str = ""
    aim: str = ""
    met: bool | None = None

    def cells(self) -> list[str]:
        """For a table."""
        return [self.question, self.ours, self.compared, self.ratio, self.aim, MET[self.met]]


MET = {True: "yes", False: "no", None: ""}
HEAD = ("question", "quorumlog", "compared with", "ratio", "aim", "met")


def answers(document: Document) -> list[BenchAnswer]:
    """All that can be answered."""
    return [
        *against_peers(document),
        *absolute(document),
        *failovers(document),
        *calm(document),
        *growth_answers(document),
    ]


def median_of(document: Document, system: str, load: str, name: str) -> float | None:
    """Returns the median of one figure; None if it was not taken."""
    values = [value for row in document.throughput(system, load) if (value := getattr(row, name)) is not None]
    return middle(values) if values else None


def title(document: Document, system: str) -> str:
    """A system's name."""
    return document.systems.get(system, {}).get("title", system)


# -------------------------------------------------------------------- throughput


def against_peers(document: Document) -> Iterator[BenchAnswer]:
    """The full load and one connection, compared with each peer."""
    ours = median_of(document, OURS, FULL.key, "requests_s")
    for peer, factor in (
        ("pysyncobj", 3.0),
        ("pysyncobj-batches", 3.0),
        ("etcd", 3.0),
        ("zookeeper", 1.5),
        ("nats", None),
    ):
        theirs = median_of(document, peer, FULL.key, "requests_s")
        if ours is not None and theirs is not None:
            yield BenchAnswer(
                f"durable appends/s, {FULL.title}",
                f"{ours:,.0f}",
                f"{title(document, peer)} {theirs:,.0f}",
                f"{ours / theirs:.2f}",
                "" if factor is None else f">= {factor:g} x",
                None if factor is None else ours >= factor * theirs,
            )


def absolute(document: Document) -> Iterator[BenchAnswer]:
    """Yields the answers that compare ours with a number or a limit."""
    ours = median_of(document, OURS, FULL.key, "requests_s")
    limits = () if ours is None else beside(document, FULL.key, "requests_s", ours, (DISK, IN_PLACE, ECHO))
    if ours is not None and any(limits):
        yield BenchAnswer(f"durable appends/s, {FULL.title}", f"{ours:,.0f}", *limits)
    one = median_of(document, OURS, ONE.key, "p50_ms")
    disk = median_of(document, DISK, ONE.key, "p50_ms")
    trip = median_of(document, ECHO, ONE.key, "p50_ms")
    if one is not None and disk is not None and trip is not None:
        limit = disk + 2 * trip
        yield BenchAnswer(
            f"p50 ms, {ONE.title}",
            f"{one:.2f}",
            f"flush + 2 round trips {limit:.2f}",
            f"{one / limit:.2f}",
            "<= 1.5 x",
            one <= 1.5 * limit,
        )
    batches = median_of(document, OURS, BATCHES.key, "records_s")
    if batches is not None:
        yield BenchAnswer(
            f"durable records/s, {BATCHES.title}",
            f"{batches:,.0f}",
            *beside(document, BATCHES.key, "records_s", batches, ("nats", DISK, ECHO)),
            ">= 250,000",
            batches >= 250_000,
        )
    for system, bound, aim in ((OURS, DISK, None), (TRIMMED, IN_PLACE, 500e6)):
        large = median_of(document, system, LARGE.key, "bytes_s")
        if large is not None:
            files = "files that grow" if aim is None else "files used again"
            yield BenchAnswer(
                f"durable MB/s, {LARGE.title}, {files}",
                f"{large / 1e6:,.0f}",
                *beside(document, LARGE.key, "bytes_s", large, (bound,), 1e6),
                "" if aim is None else f">= {aim / 1e6:,.0f}",
                None if aim is None else large >= aim,
            )
    cached = median_of(document, PAGE_CACHE, FULL.key, "requests_s")
    if cached is not None:
        yield BenchAnswer(
            f"appends/s from the page cache, {FULL.title}",
            f"{cached:,.0f}",
            *beside(document, FULL.key, "requests_s", cached, ("nats", ECHO)),
        )


def beside(
    document: Document, load: str, name: str, ours: float, systems: Sequence[str], unit: float = 1.0
) -> tuple[str, str]:
    """The same figure of others, and the ratios to them."""
    found = [(system, value) for system in systems if (value := median_of(document, system, load, name)) is not None]
    return (
        "; ".join(f"{title(document, system)} {value / unit:,.0f}" for system, value in found),
        "; ".join(f"{ours / value:.2f}" for _, value in found),
    )


# -------------------------------------------------------------------- the other sections


def failovers(document: Document) -> Iterator[BenchAnswer]:
    """Both faults, ours compared with the peers that were measured too."""
    for fault, words, median_aim, max_aim in (
        ("kill", "leader killed", 0.4, 1.0),
        ("pause", "leader paused", 1.2, None),
    ):
        times = {
            figure.system: figure.seconds
            for figure in document.figures
            if isinstance(figure, Failover) and figure.fault == fault
        }
        ours = times.pop(OURS, None)
        if ours is None:
            continue
        for what, of, aim in (("median", middle, median_aim), ("max", max, max_aim)):
            value = of(ours)
            yield BenchAnswer(
                f"s to the next success, {words}, {what} of {len(ours)}",
                f"{value:.2f}",
                "; ".join(
                    f"{title(document, peer)} {of(theirs):.2f} (of {len(theirs)})" for peer, theirs in times.items()
                ),
                "; ".join(f"{value / of(theirs):.2f}" for theirs in times.values()),
                "" if aim is None else f"< {aim:g}",
                None if aim is None else value < aim,
            )


def calm(document: Document) -> Iterator[BenchAnswer]:
    """No election that nothing called for."""
    for figure in document.of(Calm, OURS):
        yield BenchAnswer(
            f"elections in {figure.minutes:.1f} min of full load beside other work",
            f"{figure.elections}",
            f"{figure.requests_s:,.0f} appends/s meanwhile",
            "",
            "0",
            figure.elections == 0,
        )


def growth_answers(document: Document) -> Iterator[BenchAnswer]:
    """Restart and memory: stated, no aim was set."""
    for figure in document.of(RestartFigure, OURS):
        yield BenchAnswer(
            f"s until a node with a log of {figure.log_bytes / 2**30:.2f} GiB serves again; has all again",
            f"{middle(figure.serving_s):.2f}; {middle(figure.caught_up_s):.2f}",
        )
    for figure in document.of(Memory, OURS):
        yield BenchAnswer(
            f"MiB resident after {figure.appends:,} appends: leader; followers",
            "; ".join(f"{size / 2**20:,.0f}" for size in figure.after),
            f"before: {'; '.join(f'{size / 2**20:,.0f}' for size in figure.before)}",
        )


# -------------------------------------------------------------------- all figures


def spread(values: Sequence[float]) -> str:
    """The smallest and the largest."""
    return f"{min(values):,.0f}{DASH}{max(values):,.0f}" if values else DASH


FULL_TITLE = f"{FULL.title}, one request under way on each"
LOADS_TITLE = "Records per second under every load"
FULL_HEAD = (
    "",
    "what an acknowledgement means",
    "ops/s",
    "least–most",
    "p50 ms",
    "p99 ms",
    "CPU us/op: leader",
    "all and the kernel's own",
    "client",
)


def full_load(document: Document) -> list[list[str]]:
    """The full load in every detail, a row for each system and limit."""
    rows = []
    for system, about in document.systems.items():
        found = document.throughput(system, FULL.key)
        if not found:
            continue

        def cell(name: str, digits: int = 0, system: str = system) -> str:
            value = median_of(document, system, FULL.key, name)
            return DASH if value is None else f"{value:,.{digits}f}"

        rows.append(
            [
                title_of(about),
                about["promise"],
                cell("requests_s"),
                spread([row.requests_s for row in found]),
                cell("p50_ms", 2),
                cell("p99_ms", 2),
                cell("leader_us"),
                cell("system_us"),
                cell("client_us"),
            ]
        )
    return rows


def title_of(about: dict[str, str]) -> str:
    """A system's name and version."""
    return f"{about['title']} {about['version']}".strip()


def loads_head(document: Document) -> list[str]:
    """The systems that took a load."""
    return ["", *(about["title"] for _, about in find_loaded(document))]


def find_loaded(document: Document) -> list[tuple[str, dict[str, str]]]:
    """Every system with figures of throughput."""
    having = {figure.system for figure in document.figures if isinstance(figure, Throughput)}
    return [(system, about) for system, about in document.systems.items() if system in having]


def all_loads(document: Document) -> list[list[str]]:
    """Records per second of every system under every load; MB/s for the large ones."""
    rows = []
    for load in LOADS:
        row = [load.title + (" (MB/s)" if load is LARGE else "")]
        for system, _ in find_loaded(document):
            value = median_of(document, system, load.key, "bytes_s" if load is LARGE else "records_s")
            row.append(DASH if value is None else f"{value / (1e6 if load is LARGE else 1):,.0f}")
        if any(cell != DASH for cell in row[1:]):
            rows.append(row)
    return rows


def tables(document: Document) -> list[DocumentTable]:
    """Returns every table; some may have no rows."""
    return [
        (FULL_TITLE, FULL_HEAD, full_load(document)),
        (LOADS_TITLE, loads_head(document), all_loads(document)),
        ("Answers", HEAD, [answer.cells() for answer in answers(document)]),
    ]


def remarks(document: Document) -> list[str]:
    """Returns the notes that the tables need: the machine, other load on it, and figures of different runs."""
    found = [f"Machine: {describe(document.machine)}."]
    if document.runs:
        loads = [run.load_average for run in document.runs]
        found.append(
            f"Load average before: {', '.join(f'{load:.1f}' for load in loads)}. "
            "Nodes, peers and the load generator share the cores over loopback."
        )
        if max(loads) > BUSY_FROM * int(document.machine["cores"]):
            found.append("THE MACHINE HAD OTHER WORK: rates and latencies are its, CPU per request holds better.")
    if len(document.runs) > 1:
        found.append(
            "Not from one run: " + "; ".join(f"{parts} from {run}" for run, parts in parts_by_run(document)) + "."
        )
    found += [
        f"Not measured, {one.section} of {title(document, one.system)}: {one.why}" for one in document.not_measured
    ]
    return found


def parts_by_run(document: Document) -> Iterator[tuple[str, str]]:
    """Which sections each run brought, or a part of."""
    for run in document.runs:
        parts = {section_of(figure): None for figure in document.figures if figure.run == run.id}
        yield run.id, " and ".join(parts)
