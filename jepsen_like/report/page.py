"""One self-contained page about one run: the verdict in words on top, then the picture, then the tables.

The page opens from disk and asks for nothing: style, script and drawings are inline, and its own content policy forbids
any request. Everything from the run is escaped; only what `canvas` built is trusted.
"""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import jinja2
from markupsafe import Markup

from jepsen_like.checker.verdict import Model
from jepsen_like.nemesis.kind import Reach
from jepsen_like.nemesis.table import KINDS
from jepsen_like.record.results import LongestTurn, RecoveryTimes, RunResults, count
from jepsen_like.record.words import allowed_loss, available, things
from jepsen_like.report.canvas import round_off, seconds
from jepsen_like.report.check_words import CHECKS_IN_WORDS
from jepsen_like.report.copies import copies_picture
from jepsen_like.report.findings import LOST, RunFindings, ShownCheck, ShownFault, ShownViolation, read_findings
from jepsen_like.report.overview import loss_class, overview, readings, tone
from jepsen_like.report.partitions import TONES, group_picture, partitions_picture
from jepsen_like.report.queue_states import QueueStates, read_queue_states
from jepsen_like.report.witness import witness

HERE = Path(__file__).parent
VIOLATIONS_MAX = 40
"""More would bury the first one; all of them are in results.json."""
EXAMPLES_MAX = 50
OBSERVED_MAX = 2
SUMMARY = "linearizable"
"""The check that sums up the others: named in the banner only when no closer one is."""
SOFTENED = ("lost", SUMMARY)
"""The checks that a loss which the mode allows would break."""
LONG_TURN_MS = 100
TURN_MEANS = (
    "the longest time in which a node served neither clients nor peers because of its own work, away from faults"
)
OUTAGE_MEANS = "the longest time between two acknowledged writes around a fault"
RTO_MEANS = (
    "from the begin of a fault to the answer of the first write that was asked for after it (an outage begins with the last "
    "write before the fault, and a write that was under way may end it)"
)
BUT_FOR_ALLOWED = "holds, but for what this mode allows"
FACES = {True: ("valid", "Valid", "✓", "2a9d63"), False: ("violated", "Violated", "✗", "d1343b")}
WITH_LOSS = ("allowed", "Valid for this mode, with losses", "!", "d98a00")
WITH_TOLERATED = ("allowed", "Valid for this mode", "!", "d98a00")
UNDECIDED = ("unknown", "Unknown", "?", "d98a00")


@attrs.frozen
class Banner:
    """The banner: its look (`kind`, `sign`) and its text."""

    kind: str
    word: str
    sign: str
    headline: str
    found: str
    promise: str
    example: str = ""
    untested: str = ""


@attrs.frozen
class Card:
    """One key figure. `tone` is good, bad, warn or empty, `meaning` what the figure counts."""

    figure: str
    name: str
    tone: str = ""
    note: str = ""
    meaning: str = ""


def render_report(run_directory: Path) -> Path:
    """Write `report.html` into the run directory and return its path. Raises `UnreadableRun` if it holds no finished run."""
    found = read_findings(run_directory)
    path = run_directory / "report.html"
    states = read_queue_states(run_directory, found.test)
    path.write_text(page(found, run_directory.resolve().name, states), encoding="utf-8")
    return path


def page(found: RunFindings, directory: str, states: QueueStates | None = None) -> str:
    """The page as text; `states` of a run of a queue."""
    face = face_of(found)
    is_loss_allowed = count(found.results.lost_allowed) > 0
    shown, left_out = gather_violations(found)
    return fill(
        "report.html.jinja",
        title=title(found),
        directory=directory,
        icon_colour=face[3],
        script=trust("report.js"),
        verdict=verdict(found, face),
        cards=list(cards(found)),
        repro=repro(found),
        violations=shown,
        violations_left_out=left_out,
        figures=figures(found),
        loss=loss_class(found) if found.series.lost_spans else "",
        overview=overview(found),
        readings=readings(found),
        partitions=partitions_picture(found, states) if states is not None and states.partitions else "",
        partitions_left_out=states.left_out if states is not None else 0,
        copies=[
            {
                "picture": copies_picture(found, group),
                "brokers": [(copy.node, at % TONES) for at, copy in enumerate(group.copies)],
            }
            for group in (states.copies if states is not None else ())
        ],
        brokers=[(broker, at % TONES) for at, broker in enumerate(states.brokers)] if states is not None else [],
        groups=[
            {"name": group.name, "picture": group_picture(found, group)}
            for group in (states.groups if states is not None else ())
        ],
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


def face_of(found: RunFindings) -> tuple[str, str, str, str]:
    """Returns how the verdict looks: kind, word, sign and colour."""
    if found.valid is True and count(found.results.lost_allowed) > 0:
        return WITH_LOSS
    if found.valid is True and found.results.tolerated:
        return WITH_TOLERATED
    return FACES.get(found.valid, UNDECIDED) if isinstance(found.valid, bool) else UNDECIDED


def fill(template: str, **values: object) -> str:
    """Returns a page: a template of this package with these values and the style of all pages."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    return environment.get_template(template).render(style=trust("report.css"), **values)


def trust(name: str) -> Markup:
    """A file of this package, to go into the page as it is."""
    return Markup((HERE / name).read_text(encoding="utf-8"))


def words(name: str) -> str:
    """A name from the results as words."""
    return name.replace("_", " ").replace("-", " ")


def title(found: RunFindings) -> str:
    """Which run this is, in one line: system, size, faults, duration, seed, and whether it was ended early."""
    test = found.test
    nodes = f"{len(found.nodes)} nodes" if found.nodes else ""
    nemesis = test.get("nemesis")
    faults = ", ".join(str(kind) for kind in nemesis) if isinstance(nemesis, list | tuple) else str(nemesis or "")
    duration = f"{test['duration_s']:g} s" if isinstance(test.get("duration_s"), int | float) else ""
    seed = f"seed {test['seed']}" if "seed" in test else ""
    ended = "interrupted" if found.results.is_interrupted else ""
    client = f"client={test['client']}" if "client" in test else ""
    parts = (str(test.get("system") or "quorumlog"), client, nodes, faults, duration, seed, ended)
    return " · ".join(part for part in parts if part)


def verdict(found: RunFindings, face: tuple[str, str, str, str]) -> Banner:
    """The banner in words: what was promised and what was found."""
    kind, word, sign, _ = face
    results = found.results
    acked = results.acked
    through = f"through {len(found.faults)} faults" if len(found.faults) != 1 else "through one fault"
    promise = str(results.promise or found.test.get("promise") or "")
    if found.valid is True:
        loss = allowed_loss(results)
        tolerated = sum(row["count"] for row in results.tolerated or ())
        but = loss or (f"with {tolerated:,} deviations that it allows" if tolerated else "")
        headline = f"Valid for this mode, but {but}" if but else "Every promise was kept"
        lost = "all else that was acknowledged is there" if loss else "none lost"
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
        reasons = [str(reason) for reason in results.unknown]
        reasons += [
            f"{words(check.name)}: {note}" for check in found.checks if check.valid is None for note in check.notes
        ]
        told = f"It could not be decided: {'; '.join(reasons[:3]) or 'the run ended before the check did'}."
    if found.valid is not True and (loss := allowed_loss(results)) is not None:
        told += f" Also, {loss}."
    example = found.violations[0].sentence if found.violations else ""
    lacks = "; ".join(map(without, results.not_tested))
    return Banner(kind, word, sign, headline, told, promise, example, lacks)


def without(line: object) -> str:
    """A line of `not_tested` for a place that has "not tested" in front: `durability (no power fault)`."""
    what, _, why = str(line).partition(": not tested, ")
    return f"{what} ({why})" if why else what


def gather_violations(found: RunFindings) -> tuple[list[dict[str, Any]], int]:
    """The violations as the page shows them, and how many kinds of them are left out.

    Those of one check about one object at consecutive offsets are one, with a picture of the first. Of each violated check
    there is at least one: first one of each, then the second ones. A check that names no operations has its examples.
    """
    groups: dict[str, list[list[ShownViolation]]] = {}
    for violation in sorted(
        found.violations, key=lambda one: (one.check, one.object, -1 if one.offset is None else one.offset)
    ):
        of_check = groups.setdefault(violation.check, [])
        if of_check and is_next(of_check[-1][-1], violation):
            of_check[-1].append(violation)
        else:
            of_check.append([violation])
    of_rows = [[article(found, group) for group in of_check] for of_check in groups.values()]
    of_rows += [
        [
            {
                "check": words(check.name),
                "object": "",
                "sentence": note,
                "picture": "",
                "more": "",
                "fault": None,
                "blame": "",
            }
        ]
        for check in found.checks
        if check.valid is False and check.name not in groups and check.name != SUMMARY
        for note in check.notes[:1] or (f"{check.count:,} found, none of them with its operations.",)
    ]
    rounds = itertools.chain.from_iterable(itertools.zip_longest(*of_rows))
    shown = [row for row in rounds if row is not None]
    return shown[:VIOLATIONS_MAX], max(len(shown) - VIOLATIONS_MAX, 0)


def is_next(one: ShownViolation, other: ShownViolation) -> bool:
    """Returns True if `other` is like `one`, at the same place of the log or the next."""
    if (one.check, one.object) != (other.check, other.object) or one.offset is None or other.offset is None:
        return False
    return other.offset - one.offset in (0, 1)


def article(found: RunFindings, group: Sequence[ShownViolation]) -> dict[str, Any]:
    """A violation as the page shows it, with those that are like it."""
    first = group[0]
    blamed = found.blame(first)
    more = (
        f"And {len(group) - 1:,} more like it, at offsets {first.offset:,} to {group[-1].offset:,}."
        if len(group) > 1
        else ""
    )
    if blamed is None:
        blame = "No fault of this run explains it." if first.culprit is not None else ""
    else:
        when = f"{blamed.begin_s:.1f} s to " + ("the end" if blamed.end_s is None else f"{blamed.end_s:.1f} s")
        word = "Next fault after it" if first.check == LOST else "Last fault before it"
        blame = f"{word}: #{blamed.id} {blamed.title}, {when}."
    return {
        "check": words(first.check),
        "object": first.object,
        "sentence": first.sentence,
        "picture": witness(first) if first.ops else "",
        "more": more,
        "fault": None if blamed is None else blamed.id,
        "blame": blame,
    }


def figures(found: RunFindings) -> list[str]:
    """Returns what the key figures count, one sentence each."""
    sentences = []
    if found.results.rto is not None:
        sentences.append(f"Longest outage: {OUTAGE_MEANS}. RTO: {RTO_MEANS}.")
    if available(found.results.availability) is not None:
        sentences.append(f"Available: {available_means(found.results.availability)}.")
    return [*sentences, "All times count from the first operation of the load, here and on the terminal."]


def available_means(availability: Mapping[str, float | None]) -> str:
    """Returns what the share of availability is a share of."""
    gap = seconds(float(availability.get("gap_s") or 0.0))
    return (
        f"the share of the load's time in which writes were acknowledged; down is any time of {gap} or more without one"
    )


def cards(found: RunFindings) -> Iterable[Card]:
    """The key figures."""
    results = found.results
    ops = results.ops
    tried = f"of {results.attempted:,} {things(results)} tried" if results.attempted else ""
    yield Card(f"{results.acked:,}", "acknowledged", note=tried)
    lost, rpo = results.lost_acked, results.rpo
    lag = f" over {seconds(float(rpo.s))}" if rpo.s else ""
    note = f"RPO {rpo.records:,} records{lag}" if rpo.records is not None else ""
    tone = ("warn" if found.is_loss_allowed else "bad") if lost else "good"
    yield Card(f"{lost:,}", "acknowledged, lost" + (" (allowed)" if found.is_loss_allowed else ""), tone, note)
    if results.expired:
        snapshots = results.retention.snapshots if results.retention is not None else 0
        note = f"{snapshots:,} snapshot{'s' * (snapshots != 1)} installed" if snapshots else ""
        yield Card(f"{results.expired:,}", "acknowledged, expired", note=note)
    share = f"{100 * ops.info / ops.total:.2f} % of {ops.total:,} operations" if ops.total else ""
    yield Card(f"{ops.info:,}", "outcome unknown", note=share)
    if (duplicated := results.duplicated) is not None:
        is_allowed = results.model == Model.QUEUE.value and results.checks["duplicated"].valid is not False
        tone = ("warn" if is_allowed else "bad") if duplicated else ""
        yield Card(f"{duplicated:,}", "duplicated", tone, "retries may, in this mode" if tone == "warn" else "")
    if (counts := results.objects.get("transactions")) is not None:
        yield from transaction_cards(counts)
    if given := results.given:
        yield Card(f"{given.again:,}", "given again", note=f"of {given.messages:,} messages")
    if results.unseen:
        yield Card(f"{results.unseen:,}", "acknowledged, not reached", "warn")
    yield from outage(results.rto or RecoveryTimes())
    if (of_clients := results.rto_client) is not None:
        told = "to the end" if of_clients.max is None else seconds(float(of_clients.max))
        yield Card(told, "RTO as clients saw it", note=f"client={results.client}", meaning=RTO_MEANS)
    if (up := available(results.availability)) is not None:
        share, down = up
        note = f"{down} down in all" if results.availability["down_s"] else "never down"
        yield Card(share, "of the time available", note=note, meaning=available_means(results.availability))
    if found.elections:
        yield Card(f"{len(found.elections):,}", "elections")
    if results.measures_turns:
        yield longest_turn(results.longest_turn)
    if results.throughput_ops_s is not None:
        yield Card(round_off(float(results.throughput_ops_s)), "ops per second")
    latency = results.latency_ms
    if (p99 := latency.get("p99")) is not None:
        yield Card(
            seconds(float(p99) / 1e3), "p99 latency", note=f"p50 {seconds(float(latency.get('p50') or 0) / 1e3)}"
        )


def transaction_cards(counts: Mapping[str, int]) -> Iterable[Card]:
    """The transactions by their ends, and what was wrong with them."""
    note = f"{counts['aborted']:,} aborted, {counts['unknown']:,} of unknown outcome, {counts['takeovers']:,} producers fenced"
    yield Card(f"{counts['committed']:,}", "transactions committed", note=note)
    wrong = counts["torn"] + counts["aborted_reads"] + counts["duplicates"]
    note = f"{counts['torn']:,} torn, {counts['aborted_reads']:,} aborted reads, {counts['duplicates']:,} duplicates"
    yield Card(f"{wrong:,}", "transactions broken", "bad" if wrong else "good", note)


def longest_turn(turn: LongestTurn | None) -> Card:
    """The longest time in which a node's loop served no one without a fault, with its cause where it deserves a warning."""
    if turn is None:
        return Card(f"< {LONG_TURN_MS} ms", "longest turn of a node", meaning=TURN_MEANS)
    note = f"n{turn.node}: {turn.cause}, {int(turn.processor_ms):,} ms of it computing"
    return Card(seconds(float(turn.ms) / 1e3), "longest turn of a node", "warn", note, TURN_MEANS)


def outage(rto: RecoveryTimes) -> Iterable[Card]:
    """The longest time without service, if it was measured: the greatest gap, which sees a recovery that did not last."""
    worst = rto.max
    if unrecovered := rto.unrecovered:
        note = f"no write acknowledged any more after {unrecovered:,} of the faults"
        yield Card("to the end", "longest outage", "bad", note, OUTAGE_MEANS)
    elif worst is not None:
        longest = max(float(worst), float(rto.gap_max or 0.0))
        note = f"RTO {seconds(float(worst))}, worst of all faults"
        yield Card(seconds(longest), "longest outage", note=note, meaning=f"{OUTAGE_MEANS}; RTO: {RTO_MEANS}")


def repro(found: RunFindings) -> str:
    """The command that makes this run again."""
    command = found.results.repro or found.test.get("command")
    if isinstance(command, list):
        return " ".join(str(part) for part in command)
    return str(command) if command else f"quorumlog run --seed {found.test['seed']}" if "seed" in found.test else ""


def outcome(check: ShownCheck, *, is_loss_allowed: bool) -> dict[str, str]:
    """Returns how the verdict of one check looks and reads."""
    kind, _, _, _ = FACES.get(check.valid, UNDECIDED) if isinstance(check.valid, bool) else UNDECIDED
    is_softened = check.valid is True and (check.is_tolerated or (is_loss_allowed and check.name in SOFTENED))
    holds = BUT_FOR_ALLOWED if is_softened else "holds"
    return {
        "kind": "allowed" if is_softened else kind,
        "word": {"valid": holds, "violated": "violated", "unknown": "unknown"}[kind],
    }


def is_term_reused(found: RunFindings) -> bool:
    """Returns True if a term was elected in twice with a fault between that may cost a node what it had not flushed, its vote too."""
    if found.test.get("acks_are_durable", True):
        return False
    forgotten = [fault.begin_s for fault in found.faults if reach_of(fault.kind) is Reach.UNFLUSHED]
    return any(
        one.term == later.term and any(one.at_s <= at_s <= later.at_s for at_s in forgotten)
        for one, later in itertools.combinations(found.elections, 2)
    )


def reach_of(kind: str) -> Reach | None:
    """Returns how far a kind of fault can reach; None for one of another day."""
    return KINDS[kind].reach if kind in KINDS else None


def fault_rows(faults: Iterable[ShownFault]) -> Iterable[dict[str, Any]]:
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


def losses(results: RunResults) -> Iterable[dict[str, str]]:
    """Examples of what was lost or doubled, when there are any."""
    for rows, name, note in (
        (results.lost, "Lost records", "Acknowledged, and on no node at the end. The first of them:"),
        (results.lost_allowed, "Losses this mode allows", "Each with the event and the setting that allow it:"),
    ):
        if rows:
            text = "\n".join(describe_loss(row) for row in rows[:EXAMPLES_MAX])
            yield {"name": name, "note": note, "text": text}


def describe_loss(row: Any) -> str:
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
