"""The figures of a measurement as values, and the file they are kept in.

Sections can be taken one at a time into the same file. What was measured again replaces what was there, and every
figure names its run: figures of different runs are compared only with a mark.
"""

import json
import os
import platform
import statistics
import tempfile
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

FORMAT = 1
MACHINE = frozenset(("cpu", "cores", "memory", "kernel", "disk", "python"))
SECTIONS = ("throughput", "failover", "calm", "restart", "memory")
PRODUCERS = "producers"
"""A section of systems with several masters."""


@attrs.frozen
class Throughput:
    """One system under one load, once. Latencies in ms, CPU in microseconds a request, all threads included."""

    system: str
    load: str
    repeat: int
    run: str
    requests_s: float
    records_s: float
    bytes_s: float
    p50_ms: float
    p99_ms: float
    system_us: float | None = None
    """All processes of the system, and the kernel's own threads, which do a part of its work."""
    leader_us: float | None = None
    client_us: float | None = None
    """The load generator."""


Figures = Generator[Throughput]
"""The figures of one system under load, one after the other."""


@attrs.frozen
class Failover:
    """Seconds from each fault on the leader to the next success."""

    system: str
    fault: str
    run: str
    seconds: Sequence[float]


@attrs.frozen
class Calm:
    """Full load together with other work on the machine: elections although nothing failed."""

    system: str
    run: str
    minutes: float
    elections: int
    interruptions: int
    """The load had to start again this often, because the leader had changed or a connection broke."""
    requests_s: float
    p99_ms_worst: float
    """Of the worst ten seconds."""


@attrs.frozen
class RestartFigure:
    """Seconds from starting a killed node again until it answers, and until it has all that was committed."""

    system: str
    run: str
    log_bytes: int
    serving_s: Sequence[float]
    caught_up_s: Sequence[float]


@attrs.frozen
class Memory:
    """Resident bytes of each node, before and after so many appends; the leader first."""

    system: str
    run: str
    appends: int
    before: Sequence[int]
    after: Sequence[int]


@attrs.frozen
class ProducerErrors:
    """Sends of several producers around one fault on one of several masters."""

    system: str
    fault: str
    run: str
    acknowledged: int
    failed: int
    unknown: int
    """Without an answer, so that the message may be stored."""
    moved: int
    """Acknowledged by another master than the first that was tried."""
    longest_s: float


@attrs.frozen
class NotMeasured:
    """Something that was asked for and is not here, and why."""

    section: str
    system: str
    run: str
    why: str


Figure = Throughput | Failover | Calm | RestartFigure | Memory | ProducerErrors
KINDS: Mapping[str, type[Figure]] = dict(
    zip((*SECTIONS, PRODUCERS), (Throughput, Failover, Calm, RestartFigure, Memory, ProducerErrors), strict=True)
)


@attrs.frozen
class Run:
    """One call of the command."""

    id: str
    arguments: str
    load_average: float
    """Of the machine, before it began."""


@attrs.define
class Document:
    """Everything that is known about one machine."""

    machine: dict[str, str]
    runs: list[Run] = attrs.field(factory=list)
    systems: dict[str, dict[str, str]] = attrs.field(factory=dict)
    """By key: title, promise, version."""
    figures: list[Figure] = attrs.field(factory=list)
    not_measured: list[NotMeasured] = attrs.field(factory=list)

    def of(self, kind: type[Any], system: str) -> list[Any]:
        """The figures of one kind and system."""
        return [figure for figure in self.figures if isinstance(figure, kind) and figure.system == system]

    def throughput(self, system: str, load: str) -> list[Throughput]:
        """Every repeat of one load."""
        return [figure for figure in self.of(Throughput, system) if figure.load == load]

    def replace(self, newer: "Document") -> "Document":
        """Returns this document with the sections of `newer` instead. Raises `ValueError` for another machine."""
        if self.machine != newer.machine:
            raise ValueError(f"its figures are of another machine, name another file: {describe(self.machine)}")
        again = {(type(figure), figure.system) for figure in newer.figures}
        again_by_name = {(section_of(figure), figure.system) for figure in newer.figures}
        again_by_name |= {(one.section, one.system) for one in newer.not_measured}
        figures = [one for one in self.figures if (type(one), one.system) not in again] + newer.figures
        notes = [one for one in self.not_measured if (one.section, one.system) not in again_by_name]
        used = {figure.run for figure in figures}
        runs = [run for run in self.runs if run.id in used] + newer.runs
        return Document(self.machine, runs, {**self.systems, **newer.systems}, figures, [*notes, *newer.not_measured])


DocumentTable = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""A title, the names of the columns, and the rows."""


def section_of(figure: Figure) -> str:
    """The section that brings such figures."""
    return next(section for section, kind in KINDS.items() if kind is type(figure))


def middle(values: Sequence[float]) -> float:
    """The median."""
    return float(statistics.median(values))


def quantile_ms(latencies_ns: Sequence[int], share: float) -> float:
    """A quantile in milliseconds."""
    ordered = sorted(latencies_ns)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] / 1e6


# -------------------------------------------------------------------- the file


def save(document: Document, path: Path) -> None:
    """Write the document; the old one stays until the new one is whole. Where `path` is a link it stays one."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[Any]] = {"runs": [attrs.asdict(run) for run in document.runs]}
    for section, kind in KINDS.items():
        rows[section] = [round_all(attrs.asdict(figure)) for figure in document.figures if type(figure) is kind]
    rows["not_measured"] = [attrs.asdict(one) for one in document.not_measured]
    parts = [
        f'"format": {FORMAT}',
        f'"machine": {json.dumps(document.machine)}',
        f'"systems": {json.dumps(document.systems)}',
    ]
    parts += [f'"{name}": [\n{_lines(section)}\n]' for name, section in rows.items()]
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        whole = Path(scratch) / path.name
        whole.write_text("{\n" + ",\n".join(parts) + "\n}\n")
        whole.replace(path)


def _lines(rows: Sequence[Any]) -> str:
    """A line for each, so that a change of one figure is a change of one line."""
    return ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


def round_all(value: Any) -> Any:
    """Five digits say more than any of this can be repeated to."""
    match value:
        case float():
            return float(f"{value:.5g}")
        case dict():
            return {name: round_all(part) for name, part in value.items()}
        case tuple() | list():
            return [round_all(part) for part in value]
        case _:
            return value


def load(path: Path) -> Document:
    """Read a document. Raises `ValueError` if the file is not one."""
    whole = json.loads(path.read_text())
    if not isinstance(whole, dict) or whole.get("format") != FORMAT or not _is_of_form(whole):
        raise ValueError("it does not hold figures of this format")
    return Document(
        whole["machine"],
        [Run(**run) for run in whole["runs"]],
        whole["systems"],
        [kind(**figure) for section, kind in KINDS.items() for figure in _rows(whole, section)],
        [NotMeasured(**one) for one in whole["not_measured"]],
    )


def _rows(whole: Mapping[str, Any], section: str) -> Any:
    """Files of systems with one master were written before there was a section for several."""
    return whole.get(section, ()) if section == PRODUCERS else whole[section]


def _is_of_form(whole: Mapping[str, Any]) -> bool:
    """Returns True if it names a machine and systems; rows of another form are met when they are read."""
    of, systems = whole.get("machine"), whole.get("systems")
    return isinstance(of, dict) and of.keys() >= MACHINE and isinstance(systems, dict)


# -------------------------------------------------------------------- the machine


def machine(directory: Path) -> dict[str, str]:
    """Returns the machine under the figures: processor, cores, memory, kernel, the disk under `directory`, Python."""
    return {
        "cpu": _line_of("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "kernel": f"Linux {platform.release().partition('-')[0]}",
        "disk": disk_of(directory.absolute()),
        "python": platform.python_version(),
    }


def describe(of: Mapping[str, str]) -> str:
    """In one line."""
    return f"{of['cpu']}, {of['cores']} cores, {of['memory']}, {of['kernel']}, {of['disk']}, Python {of['python']}"


def _line_of(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return ""


def disk_of(directory: Path) -> str:
    """The file system that holds a directory, and what it lies on."""
    best = (0, "unknown disk")
    for line in Path("/proc/mounts").read_text().splitlines():
        device, place, kind, *_ = line.split()
        if directory.is_relative_to(place) and len(place) >= best[0]:
            on = "a virtual disk" if Path(device).name.startswith("vd") else Path(device).name
            best = (len(place), f"{kind} on {on}")
    return best[1]
