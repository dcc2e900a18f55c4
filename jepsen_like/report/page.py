"""One self-contained page about one run: the verdict in words on top, then the picture, then the tables.

The page opens from disk and asks for nothing: style, script and drawings are inline, and its own content policy forbids
any request. Everything from the run is escaped; only what `canvas` built is trusted.
"""

import itertools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import jinja2
from markupsafe import Markup

from jepsen_like.checker.verdict import Model
from jepsen_like.nemesis.kind import Reach
from jepsen_like.nemesis.table import KINDS
from jepsen_like.report.canvas import rounded, seconds
from jepsen_like.report.findings import Check, Fault, Findings, read_findings
from jepsen_like.report.overview import overview, readings, tone
from jepsen_like.report.witness import witness
from log.flusher import FlushPolicy

VIOLATIONS_MAX = 40
"""More would bury the first one; all of them are in results.json."""
EXAMPLES_MAX = 50
OBSERVED_MAX = 2
CHECKS_IN_WORDS: Mapping[str, str] = {
    "linearizable": "one order of all operations explains what each of them saw",
    "lost": "what was acknowledged or read is in the final logs",
    "duplicated": "what was appended once is there once",
    "phantom": "nothing is there that nobody wrote",
    "aborted_read": "nothing is seen that was refused for certain",
    "divergent_offset": "one place of the log holds one value, on every node",
    "order": "what began after another had ended comes after it",
    "stale": "nobody sees an older state after a newer one",
    "lost_update": "no two compare-and-sets replace the same value",
    "gap": "the log is as long as its appends explain",
    "torn": "the records of one append stand together, and nothing sees half of them",
    "epoch": "each record has one epoch, and epochs never fall along a log",
    "nodes": "no node ended by itself",
    "answers": "every answer made sense",
    "recovered": "the healed cluster agreed, took a write and answered again",
    "evidence": "the faults took effect, and the history holds every attempt",
}
"""What holds when a check does."""
SUMMARY = "linearizable"
"""The check that sums up the others: named in the banner only when no closer one is."""
SOFTENED = ("lost", SUMMARY)
"""The checks that a loss which the mode allows would break."""
BUT_FOR_ALLOWED = "holds, but for what this mode allows"
FACES = {True: ("valid", "Valid", "✓", "2a9d63"), False: ("violated", "Violated", "✗", "d1343b")}
UNDECIDED = ("unknown", "Unknown", "?", "d98a00")


@attrs.frozen
class Verdict:
    """The banner: how it looks (`kind`, `sign`) and what it says."""

    kind: str
    word: str
    sign: str
    headline: str
    found: str
    promise: str
    example: str = ""


@attrs.frozen
class Card:
    """One key figure. `tone` is good, bad, warn or empty."""

    figure: str
    name: str
    tone: str = ""
    note: str = ""


def render_report(run_directory: Path) -> Path:
    """Write `report.html` into the run directory and return its path; `UnreadableRun` when it holds no finished run."""
    found = read_findings(run_directory)
    path = run_directory / "report.html"
    path.write_text(page(found, run_directory.resolve().name), encoding="utf-8")
    return path


def page(found: Findings, directory: str) -> str:
    """The page as text."""
    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    face = FACES.get(found.valid, UNDECIDED) if isinstance(found.valid, bool) else UNDECIDED
    is_loss_allowed = count(found.results.get("lost_allowed")) > 0
    return environment.get_template("report.html.jinja").render(
        title=title(found),
        directory=directory,
        icon_colour=face[3],
        style=trusted(here / "report.css"),
        script=trusted(here / "report.js"),
        verdict=verdict(found, face),
        cards=list(cards(found)),
        repro=repro(found),
        violations=[
            {
                "check": words(violation.check),
                "object": violation.object,
                "sentence": violation.sentence,
                "picture": witness(violation) if violation.ops else "",
            }
            for violation in found.violations[:VIOLATIONS_MAX]
        ],
        violations_left_out=max(len(found.violations) - VIOLATIONS_MAX, 0),
        overview=overview(found),
        readings=readings(found),
        faults=list(fault_rows(found.faults)),
        checks=[
            {
                "name": words(check.name),
                "meaning": CHECKS_IN_WORDS.get(check.name, ""),
                "notes": check.notes,
                "count": f"{check.count:,}",
                **outcome(check, is_loss_allowed=is_loss_allowed),
            }
            for check in found.checks
        ],
        is_loss_allowed=is_loss_allowed,
        elections=[
            {
                "at": f"{election.at_s:.2f} s" if election.at_s >= 0 else "before the load",
                "term": election.term,
                "leader": election.leader,
                "took": "" if election.took_s is None else seconds(election.took_s),
            }
            for election in found.elections
        ],
        is_term_reused=is_term_reused(found),
        losses=list(losses(found.results)),
        settings=sorted(flat(found.test)),
    )


def trusted(path: Path) -> Markup:
    """A file of this package, to go into the page as it is."""
    return Markup(path.read_text(encoding="utf-8"))


def words(name: str) -> str:
    """A name from the results as words."""
    return name.replace("_", " ").replace("-", " ")


def title(found: Findings) -> str:
    """Which run this is, in one line: system, size, faults, duration, seed, and whether it was ended early."""
    test = found.test
    nodes = f"{len(found.nodes)} nodes" if found.nodes else ""
    nemesis = test.get("nemesis")
    faults = ", ".join(str(kind) for kind in nemesis) if isinstance(nemesis, list | tuple) else str(nemesis or "")
    duration = f"{test['duration_s']:g} s" if isinstance(test.get("duration_s"), int | float) else ""
    seed = f"seed {test['seed']}" if "seed" in test else ""
    ended = "interrupted" if found.results.get("is_interrupted") else ""
    parts = (str(test.get("system") or "quorumlog"), nodes, faults, duration, seed, ended)
    return " · ".join(part for part in parts if part)


def verdict(found: Findings, face: tuple[str, str, str, str]) -> Verdict:
    """The banner in words: what was promised and what was found."""
    kind, word, sign, _ = face
    results = found.results
    acked = int(results.get("acked") or 0)
    through = f"through {len(found.faults)} faults" if len(found.faults) != 1 else "through one fault"
    promise = str(results.get("promise") or found.test.get("promise") or "")
    if found.valid is True:
        allowed = count(results.get("lost_allowed"))
        lost = f"{allowed:,} lost, as this mode allows" if allowed else "none lost"
        headline = "Every promise was kept"
        told = f"{acked:,} acknowledged {through}: {lost}, none contradicted by any read."
    elif found.valid is False:
        headline = "A promise was broken"
        broken = [check for check in found.checks if check.valid is False]
        closer = [check for check in broken if check.name != SUMMARY] or broken
        told = (
            "; ".join(f"{words(check.name)}: {check.count:,} found" for check in closer) or "Something does not add up"
        )
        told += f". {acked:,} acknowledged {through}."
    else:
        headline = "No verdict"
        unknown = results.get("unknown")
        reasons = [str(reason) for reason in unknown] if isinstance(unknown, list) else []
        reasons += [
            f"{words(check.name)}: {note}" for check in found.checks if check.valid is None for note in check.notes
        ]
        told = f"It could not be decided: {'; '.join(reasons[:3]) or 'the run ended before the check did'}."
    example = found.violations[0].sentence if found.violations else ""
    return Verdict(kind, word, sign, headline, told, promise, example)


def count(value: Any) -> int:
    """How many: of a number, of a list's members, of a list's counted members."""
    if isinstance(value, list):
        return sum(int(row.get("records") or row.get("count") or 1) if isinstance(row, Mapping) else 1 for row in value)
    return int(value or 0)


def cards(found: Findings) -> Iterable[Card]:
    """The key figures."""
    results = found.results
    ops = results.get("ops") or {}
    total = sum(int(ops.get(name) or 0) for name in ("ok", "fail", "info"))
    attempted = int(results.get("attempted") or 0)
    things = "writes and swaps" if results.get("model") == Model.REGISTER.value else "records"
    tried = f"of {attempted:,} {things} tried" if attempted else ""
    yield Card(f"{int(results.get('acked') or 0):,}", "acknowledged", note=tried)
    lost = count(results.get("lost_acked"))
    rpo = results.get("rpo") or {}
    lag = f" over {seconds(float(rpo['s']))}" if rpo.get("s") else ""
    note = f"RPO {int(rpo['records']):,} records{lag}" if rpo.get("records") is not None else ""
    is_allowed = lost == count(results.get("lost_allowed"))
    yield Card(f"{lost:,}", "acknowledged, lost", ("" if is_allowed else "bad") if lost else "good", note)
    if expired := count(results.get("expired")):
        snapshots = count((results.get("retention") or {}).get("snapshots"))
        note = f"{snapshots:,} snapshot{'s' * (snapshots != 1)} installed" if snapshots else ""
        yield Card(f"{expired:,}", "acknowledged, expired", note=note)
    unknown = int(ops.get("info") or 0)
    share = f"{100 * unknown / total:.2f} % of {total:,} operations" if total else ""
    yield Card(f"{unknown:,}", "outcome unknown", note=share)
    duplicated = results.get("duplicated")
    if duplicated is not None:
        yield Card(f"{count(duplicated):,}", "duplicated", "bad" if count(duplicated) else "")
    yield from outage(results.get("rto_s") or {})
    if found.elections:
        yield Card(f"{len(found.elections):,}", "elections")
    if results.get("throughput_ops_s") is not None:
        yield Card(rounded(float(results["throughput_ops_s"])), "ops per second")
    latency = results.get("latency_ms") or {}
    if latency.get("p99") is not None:
        yield Card(
            seconds(float(latency["p99"]) / 1e3),
            "p99 latency",
            note=f"p50 {seconds(float(latency.get('p50') or 0) / 1e3)}",
        )


def outage(rto: Mapping[str, Any]) -> Iterable[Card]:
    """The longest time without service, if it was measured: the greatest gap, which sees a recovery that did not last."""
    worst = rto.get("max")
    if unrecovered := count(rto.get("unrecovered")):
        note = f"no write acknowledged any more after {unrecovered:,} of the faults"
        yield Card("to the end", "longest outage", "bad", note)
    elif worst is not None:
        longest = max(float(worst), float(rto.get("gap_max") or 0.0))
        yield Card(seconds(longest), "longest outage", note=f"RTO {seconds(float(worst))}, worst of all faults")


def repro(found: Findings) -> str:
    """The command that makes this run again."""
    command = found.results.get("repro") or found.test.get("command")
    if isinstance(command, list):
        return " ".join(str(part) for part in command)
    return str(command) if command else f"quorumlog run --seed {found.test['seed']}" if "seed" in found.test else ""


def outcome(check: Check, *, is_loss_allowed: bool) -> dict[str, str]:
    """How the verdict of one check looks and reads."""
    kind, _, _, _ = FACES.get(check.valid, UNDECIDED) if isinstance(check.valid, bool) else UNDECIDED
    holds = BUT_FOR_ALLOWED if is_loss_allowed and check.name in SOFTENED else "holds"
    return {"kind": kind, "word": {"valid": holds, "violated": "violated", "unknown": "unknown"}[kind]}


def is_term_reused(found: Findings) -> bool:
    """Whether a term was elected in twice with a fault between that may cost a node what it had not flushed, its vote too."""
    flush = (found.test.get("settings") or {}).get("flush")
    if flush not in (FlushPolicy.INTERVAL.value, FlushPolicy.NONE.value):
        return False
    forgotten = [fault.begin_s for fault in found.faults if reach_of(fault.kind) is Reach.UNFLUSHED]
    return any(
        one.term == later.term and any(one.at_s <= at_s <= later.at_s for at_s in forgotten)
        for one, later in itertools.combinations(found.elections, 2)
    )


def reach_of(kind: str) -> Reach | None:
    """How far a kind of fault can reach; None for one of another day."""
    return KINDS[kind].reach if kind in KINDS else None


def fault_rows(faults: Iterable[Fault]) -> Iterable[dict[str, Any]]:
    """The table of faults; the bars are scaled to the slowest recovery."""
    rows = list(faults)
    worst = max((fault.rto_s for fault in rows if fault.rto_s is not None), default=0.0) or 1.0
    for fault in rows:
        yield {
            "id": fault.id,
            "kind": fault.kind,
            "tone": tone(fault.kind),
            "whom": fault.whom,
            "at": f"{fault.begin_s:.1f} s",
            "lasted": "to the end" if fault.end_s is None else seconds(fault.end_s - fault.begin_s),
            "observed": fault.observed[:OBSERVED_MAX],
            "observed_more": len(fault.observed[OBSERVED_MAX:]),
            "gap": "" if fault.gap_s is None else seconds(fault.gap_s),
            "acked_before": "" if fault.acked_before is None else f"{fault.acked_before:,}",
            "rto": "" if fault.rto_s is None else seconds(fault.rto_s),
            "never": "" if fault.recovered else "no more after its end",
            "share": 0 if fault.rto_s is None else round(100 * fault.rto_s / worst, 1),
        }


def losses(results: Mapping[str, Any]) -> Iterable[dict[str, str]]:
    """Examples of what was lost or doubled, when there are any."""
    for key, name, note in (
        ("lost", "Lost records", "Acknowledged, and on no node at the end. The first of them:"),
        ("lost_allowed", "Losses this mode allows", "Each with the event and the setting that allow it:"),
    ):
        rows = results.get(key)
        if isinstance(rows, list) and rows:
            text = "\n".join(said(row) for row in rows[:EXAMPLES_MAX])
            yield {"name": name, "note": note, "text": text}


def said(row: Any) -> str:
    """A row of losses in words, as far as it has any."""
    words = row.get("says") if isinstance(row, Mapping) else row
    return words if isinstance(words, str) else json.dumps(row, sort_keys=True)


def flat(settings: Mapping[str, Any], above: str = "") -> Iterable[tuple[str, str]]:
    """Nested settings as dotted names with their values."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value if isinstance(value, str) else json.dumps(value)
