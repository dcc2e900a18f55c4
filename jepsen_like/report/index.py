"""One page about all runs of a directory: a table to sort and filter, and two of them side by side.

Runs are found in the directory and one level below, where matrices and scenarios keep theirs. What a row tells is what the run's
`results.json` and `test.json` tell; a run that has not finished has a row, too, with the reason.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from jepsen_like.record.results import RecoveryTimes
from jepsen_like.record.words import available, faults_words, mode_words
from jepsen_like.report.canvas import seconds
from jepsen_like.report.findings import RunFindings, ShownFault, UnreadableRun, read_findings
from jepsen_like.report.page import face_of, fill, trust

INDEX: Final = "index.html"
TEST: Final = "test.json"
REPORT: Final = "report.html"
UNFINISHED: Final = ("unknown", "Not finished", "?")
OF_TEST: Final = (
    *("replication", "nodes", "workload", "duration_s", "rate"),
    *("concurrency", "nemesis", "network", "seed", "promise"),
)
COLUMNS: Final = (
    *((name, False) for name in ("run", "system", "mode", "faults", "verdict")),
    *((name, True) for name in ("acked", "lost", "RTO", "RPO", "rate", "available", "p50", "p99")),
)
"""The columns of the table, and whether they hold numbers."""
BANNERS: Final = (
    ("violated", "✗", "violated a promise"),
    ("unknown", "?", "undecided or not finished"),
    ("allowed", "!", "valid, with what their modes allow"),
    ("valid", "✓", "valid, and lost nothing"),
)
"""The worst comes first."""


@attrs.frozen(kw_only=True)
class IndexedRun:
    """A row. `cells` are (text, what to sort by); `told` is what the comparison shows, by section and name."""

    name: str
    href: str
    kind: str
    word: str
    system: str
    mode: str
    cells: tuple[tuple[str, str | float], ...]
    told: Mapping[str, Mapping[str, str]]


def render_index(directory: Path) -> Path:
    """Write `index.html` into a directory of runs and return its path. Raises `UnreadableRun` if it holds no run."""
    runs = list(index_runs(directory))
    if not runs:
        raise UnreadableRun(directory, f"holds no run directories (none with {TEST})")
    counts = [(kind, sign, sum(run.kind == kind for run in runs), words) for kind, sign, words in BANNERS]
    worst = next((kind, sign) for kind, sign, number, _ in counts if number)
    text = fill(
        "index.html.jinja",
        kind=worst[0],
        sign=worst[1],
        headline=f"{len(runs)} run{'s' * (len(runs) != 1)}",
        counts=[(kind, f"{number} {words}") for kind, _, number, words in counts if number],
        directory=directory.resolve().name,
        script=trust("index.js"),
        columns=COLUMNS,
        runs=runs,
        systems=sorted({run.system for run in runs}),
        modes=sorted({run.mode for run in runs}),
        told=[
            {"name": run.name, "href": run.href, "kind": run.kind, "word": run.word, "told": run.told} for run in runs
        ],
    )
    path = directory / INDEX
    path.write_text(text, encoding="utf-8")
    return path


def index_runs(directory: Path) -> Iterator[IndexedRun]:
    """Every run of a directory, the newest first; links such as `latest` are left out."""
    places = [place for pattern in ("*", "*/*") for place in directory.glob(f"{pattern}/{TEST}")]
    for test in sorted(places, reverse=True):
        place = test.parent
        if not any(one.is_symlink() for one in (place, place.parent) if one != directory):
            yield row_of(place, place.relative_to(directory).as_posix())


def row_of(place: Path, name: str) -> IndexedRun:
    """Returns what is known of one run."""
    try:
        found = read_findings(place)
    except UnreadableRun as error:
        kind, word, _ = UNFINISHED
        cells = ((name, name), ("", ""), ("", ""), ("", ""), (word, word), *((("", -1.0),) * 8))
        told = {"verdict": {"verdict": word, "why": error.reason}}
        return IndexedRun(name=name, href="", kind=kind, word=word, system="", mode="", cells=cells, told=told)
    kind, word, _, _ = face_of(found)
    if kind == "valid" and found.results.lost_acked:
        kind = "allowed"  # what was lost is never green
    href = f"{name}/{REPORT}" if (place / REPORT).is_file() else ""
    figures = dict(figures_of(found))
    system = " ".join(str(found.test[part]) for part in ("system", "workload") if part in found.test)
    mode, faults = mode_words(found.test), faults_words(found.results.faults)
    words = ((name, name), (system, system), (mode, mode), (faults, faults), (word, word))
    return IndexedRun(
        name=name,
        href=href,
        kind=kind,
        word=word,
        system=system,
        mode=mode,
        cells=(*words, *figures.values()),
        told={
            "verdict": {"verdict": word, **{name: told for name, (told, _) in figures.items()}, **reasons_of(found)},
            "faults": {f"{at}": told_of(fault) for at, fault in enumerate(found.faults, 1)},
            "settings": settings_of(found.test),
        },
    )


def figures_of(found: RunFindings) -> Iterator[tuple[str, tuple[str, float]]]:
    """The figures of a row by their column: in words, and to sort by (-1: not measured, and never back: longer than anything)."""
    results = found.results
    rto, up = results.rto or RecoveryTimes(), available(results.availability)
    latency, rate, lost = results.latency_ms, results.throughput_ops_s, results.lost_acked
    yield "acked", (f"{results.acked:,}", results.acked)
    yield "lost", (f"{lost:,}", lost)
    yield "RTO", ("never back", 1e9) if rto.unrecovered else _format_time(rto.max)
    yield "RPO", _format_time(results.rpo.s)
    yield "rate", (f"{rate:,.0f}/s", rate) if rate is not None else ("-", -1.0)
    yield "available", (up[0], float(up[0].split()[0])) if up else ("-", -1.0)
    for name in ("p50", "p99"):
        value = latency.get(name)
        yield name, (f"{value:.1f} ms", value) if value is not None else ("-", -1.0)


def _format_time(value: float | None) -> tuple[str, float]:
    return ("-", -1.0) if value is None else (seconds(value) if value else "0", value)


def reasons_of(found: RunFindings) -> dict[str, str]:
    """Why a run is not simply valid, by check."""
    bad = {f"why {check.name}": check.notes[0] for check in found.checks if check.valid is not True and check.notes}
    unknown = found.results.unknown
    return {**bad, **({"undecided": str(unknown[0])} if unknown else {})}


def told_of(fault: ShownFault) -> str:
    """A fault in one line."""
    held = "until the end" if fault.end_s is None else f"for {seconds(fault.end_s - fault.begin_s)}"
    back = "" if fault.rto_s is None else f", served again after {seconds(fault.rto_s)}"
    return f"{fault.title} at {fault.begin_s:.1f} s {held}{back}{'' if fault.recovered else ', never back'}"


def settings_of(test: Mapping[str, Any]) -> dict[str, str]:
    """Everything that was decided before a run."""
    of_run = {name: test[name] for name in OF_TEST if name in test}
    version = (test.get("versions") or {}).get("quorumlog")
    every = {"system": test.get("system"), **of_run, **(test.get("settings") or {}), "quorumlog": version}
    return {name: _words(value) for name, value in every.items() if value is not None}


def _words(value: Any) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
