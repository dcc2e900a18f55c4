"""The report states the verdict in words, shows every fault and violation, and is one file that needs nothing else."""

import html.parser
import itertools
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jepsen_like.checker.verdict import Check
from jepsen_like.cli import ExitStatus, execute
from jepsen_like.nemesis.table import KINDS
from jepsen_like.report import render_report
from jepsen_like.report.canvas import Scale, round_off, seconds, ticks
from jepsen_like.report.check_words import CHECKS_IN_WORDS
from jepsen_like.report.findings import Series, ShownOp, UnreadableRun, read_findings
from jepsen_like.report.overview import overview
from jepsen_like.report.witness import axis_places, witness
from tests.jepsen_like.report.made_up_runs import VIOLATIONS, change_results, made_up_run, op, violated_run, write

MIB = 1024 * 1024


def text_of(run: Path) -> str:
    return render_report(run).read_text()


def strip_tags(page: str) -> str:
    """Returns the page as a reader sees it: without tags, with single blanks."""
    body = re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def test_a_valid_run_says_so_in_words(tmp_path: Path) -> None:
    page = strip_tags(text_of(made_up_run(tmp_path)))
    assert "Every promise was kept" in page
    assert "60,803 acknowledged through 8 faults: none lost" in page
    assert "quorumlog run --seed 7" in page


def test_what_was_acknowledged_is_a_part_of_what_was_tried_and_the_unknown_of_all_operations(tmp_path: Path) -> None:
    run = made_up_run(tmp_path)
    page = strip_tags(text_of(run))
    assert "60,803 acknowledged of 61,790 records tried" in page
    assert "412 outcome unknown 0.44 % of 92,927 operations" in page
    assert "60,803 acknowledged of 61,790 writes and swaps tried" in strip_tags(
        text_of(change_results(run, model="register"))
    )
    assert "60,803 acknowledged 0" in strip_tags(text_of(change_results(run, attempted=None)))


def test_a_violated_run_says_what_was_broken_first(tmp_path: Path) -> None:
    page = strip_tags(text_of(violated_run(tmp_path)))
    assert "A promise was broken" in page
    assert "lost: 3 found; stale: 1 found. 60,803 acknowledged through 8 faults." in page
    assert page.index("A promise was broken") < page.index("What happened") < page.index("What went wrong")


def test_an_undecided_run_says_why(tmp_path: Path) -> None:
    unknown = ["object 7: more than 2^20 configurations after 12 of 40 operations"]
    page = strip_tags(text_of(change_results(made_up_run(tmp_path), valid=None, unknown=unknown)))
    assert "No verdict" in page
    assert "object 7: more than 2^20 configurations" in page


def test_a_run_that_was_ended_early_says_so(tmp_path: Path) -> None:
    run = made_up_run(tmp_path)
    assert "interrupted" not in strip_tags(text_of(run))
    assert "seed 7 · interrupted" in strip_tags(text_of(change_results(run, is_interrupted=True)))


def test_what_has_left_the_logs_has_a_figure_of_its_own(tmp_path: Path) -> None:
    run = made_up_run(tmp_path)
    assert "expired" not in strip_tags(text_of(run))
    page = strip_tags(text_of(change_results(run, expired=12345, retention={"trims": 9, "snapshots": 2})))
    assert "12,345 acknowledged, expired 2 snapshots installed" in " ".join(page.split())


def test_a_node_that_ended_by_itself_is_told(tmp_path: Path) -> None:
    checks = {"nodes": {"valid": False, "count": 1, "examples": ["n2 ended with status 1: broken invariant"]}}
    page = strip_tags(text_of(change_results(made_up_run(tmp_path), valid=False, checks=checks)))
    assert "nodes: 1 found" in page
    assert "no node ended by itself" in page
    assert "n2 ended with status 1: broken invariant" in page


def test_every_check_is_said_in_words() -> None:
    assert {str(check) for check in Check} <= set(CHECKS_IN_WORDS)


def test_the_summary_is_not_named_next_to_what_it_sums_up(tmp_path: Path) -> None:
    broken = {"valid": False, "count": 1, "examples": []}
    page = strip_tags(
        text_of(change_results(made_up_run(tmp_path), valid=False, checks={"linearizable": broken, "stale": broken}))
    )
    assert "stale: 1 found" in page
    assert "linearizable: 1 found" not in page


def test_an_election_before_the_first_operation_is_in_the_picture(tmp_path: Path) -> None:
    roles = [{"node": 1, "at_s": -0.4, "role": "leader", "term": 1}]
    elections = [{"at_s": -0.4, "term": 1, "leader": 1, "took_s": None}]
    page = strip_tags(text_of(change_results(made_up_run(tmp_path), roles=roles, elections=elections, faults=[])))
    assert "before the load" in page
    assert "★ term 1" in page


def test_a_node_that_was_down_has_no_role_until_it_says_one(tmp_path: Path) -> None:
    said = ((1.0, "leader", 1), (4.0, "down", 0), (6.5, "follower", 2))
    roles = [{"node": 1, "at_s": at_s, "role": role, "term": term} for at_s, role, term in said]
    faults = [{"id": 1, "kind": "power", "target": "one", "nodes": [1], "begin_s": 3.9, "end_s": 6.0}]
    run = change_results(made_up_run(tmp_path, nodes=1, duration_s=8.0), roles=roles, faults=faults, elections=[])
    drawing = ElementTree.fromstring(overview(read_findings(run)))
    spans = [rect for rect in drawing.iter("rect") if rect.get("class", "").startswith("role ")]
    assert [span.get("class") for span in spans] == ["role leader", "role follower"]
    ended, says = (float(spans[0].get("x", 0)) + float(spans[0].get("width", 0)), float(spans[1].get("x", 0)))
    second = (says - ended) / 2.5
    assert ended == pytest.approx(float(spans[0].get("x", 0)) + 3 * second, abs=1)


def test_a_zone_has_a_lane_with_its_leaders_and_what_hit_all_of_it(tmp_path: Path) -> None:
    faults = [
        {"id": 1, "kind": "zone-down", "target": "zone", "nodes": [1, 3], "begin_s": 2.0, "end_s": 4.0},
        {"id": 2, "kind": "kill", "target": "one", "nodes": [3], "begin_s": 5.0, "end_s": 6.0},
    ]
    roles = [{"node": 2, "at_s": 1.0, "role": "leader", "term": 1}]
    run = change_results(made_up_run(tmp_path, nodes=3, duration_s=8.0), roles=roles, faults=faults, elections=[])
    test = json.loads((run / "test.json").read_text())
    (run / "test.json").write_text(json.dumps({**test, "zones": {"members": {"a": [1, 3], "b": [2]}}}))
    drawing = ElementTree.fromstring(overview(read_findings(run)))
    named = {text.text: float(text.get("y", 0)) - 13 for text in drawing.iter("text") if text.text}
    tops = {name: named[name] for name in ("zone a", "zone b")}
    drawn = [
        (name, rect.get("class"))
        for rect in drawing.iter("rect")
        for name, top in tops.items()
        if float(rect.get("y", 0)) == top and rect.get("class") in ("held down", "role leader")
    ]
    assert sorted(drawn) == [("zone a", "held down"), ("zone b", "role leader")]


@pytest.mark.parametrize(
    ("flush", "kind", "terms", "is_said"),
    [
        ("none", "power", (1, 1), True),
        ("interval", "power", (1, 1), True),
        ("none", "damage", (1, 1), True),
        ("none", "power", (1, 2), False),
        ("before-ack", "power", (1, 1), False),
        ("none", "kill", (1, 1), False),
        ("none", "of-another-day", (1, 1), False),
    ],
)
def test_a_term_that_a_power_cut_made_nodes_forget_is_reported_as_used_again(
    flush: str, kind: str, terms: tuple[int, int], is_said: bool, tmp_path: Path
) -> None:
    run = made_up_run(tmp_path)
    (run / "test.json").write_text(
        json.dumps({"nodes": 3, "settings": {"flush": flush}, "acks_are_durable": flush == "before-ack"})
    )
    faults = [{"id": 1, "kind": kind, "target": "all", "nodes": [1, 2, 3], "begin_s": 5.0, "end_s": 9.0}]
    elections = [
        {"at_s": at_s, "term": term, "leader": leader, "took_s": None}
        for at_s, term, leader in zip((-0.1, 9.3), terms, (3, 1), strict=True)
    ]
    page = strip_tags(text_of(change_results(run, faults=faults, elections=elections)))
    assert ("was used anew: in this mode a power cut also takes terms and votes" in page) == is_said


def test_what_the_final_logs_hold_is_told_from_what_a_client_read(tmp_path: Path) -> None:
    rows = [op("append", "ok", 1.0, 1.1, a=5, offset=2), op("read", "ok", 9.0, 9.0, a=6, offset=2, process=-1, node=3)]
    violation = {"check": "divergent_offset", "object": 0, "sentence": "Two values at offset 2.", "ops": rows}
    page = strip_tags(text_of(change_results(made_up_run(tmp_path), valid=False, violations=[violation])))
    assert "the final log of n3" in page
    assert "→ holds 6" in page


def test_an_allowed_loss_is_named_next_to_a_valid_verdict(tmp_path: Path) -> None:
    allowed = [{"records": 12, "event": "power cut of n1", "mode": "async-slave"}]
    page = strip_tags(text_of(change_results(made_up_run(tmp_path), lost_allowed=allowed)))
    assert "Every promise was kept" not in page
    assert "Valid for this mode, but 12 of 60,803 acknowledged records were lost, as this mode allows" in page
    assert "power cut of n1" in page
    promise = "raft, flush=none: what a majority had not flushed yet may be lost"
    page = strip_tags(text_of(change_results(tmp_path, lost_allowed=[{"records": 12, "promise": promise}])))
    assert "but 12 of 60,803 acknowledged records were lost, as flush=none allows" in page
    open_question = strip_tags(text_of(change_results(tmp_path, valid=None, unknown=["too hard"])))
    assert "It could not be decided: too hard. Also, 12 of 60,803 acknowledged records were lost" in open_question


def with_a_loss(directory: Path, *, is_allowed: bool) -> Path:
    """A run of 60 s that lost what it acknowledged from 10 s to 20 s."""
    run = made_up_run(directory)
    series = json.loads((run / "results.json").read_text())["series"]
    series["lost_s"] = [ok * 0.7 if 10 <= t < 20 else 0.0 for t, ok in zip(series["t_s"], series["ok_s"], strict=True)]
    allowed = [{"records": 12_600, "promise": "raft, flush=none: much may be lost"}] if is_allowed else []
    return change_results(run, valid=is_allowed, series=series, lost_acked=12_600, lost_allowed=allowed)


def draw_overview(run: Path) -> ElementTree.Element:
    return ElementTree.fromstring(overview(read_findings(run)))


def of_class(drawing: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [each for each in drawing.iter() if name in each.get("class", "").split()]


@pytest.mark.parametrize(("is_allowed", "tone", "face"), [(True, "warn", "allowed"), (False, "bad", "violated")])
def test_what_was_lost_is_never_green(is_allowed: bool, tone: str, face: str, tmp_path: Path) -> None:
    run = with_a_loss(tmp_path, is_allowed=is_allowed)
    page = text_of(run)
    assert f'<header class="verdict {face}">' in page
    assert f'<div class="card {tone}"><b>12,600</b>' in page
    drawing = draw_overview(run)
    colour = "allowed" if is_allowed else "not-allowed"
    left, right = (float(drawing.get(name, 0)) for name in ("data-left", "data-right"))
    end = float(drawing.get("data-end", 0))
    second = (right - left) / end
    spans = of_class(drawing, "lost-span")
    covered = {(round(float(s.get("x", 0))), round(float(s.get("width", 0)))) for s in spans}
    lost = [
        (t, rate)
        for t, rate in zip(read_findings(run).series.t_s, read_findings(run).series.lost_s, strict=True)
        if rate
    ]
    assert sum(width for _, width in covered) == pytest.approx(len(lost) * 0.25 * second, abs=5)
    assert all(colour in span.get("class", "").split() for span in spans)
    greens = [each for each in of_class(drawing, "serving") if "full" in each.get("class", "")]
    for begin, width in ((float(g.get("x", 0)), float(g.get("width", 0))) for g in greens):
        assert begin + width <= left + 10 * second + 1 or begin >= left + 20 * second - 1
    assert [each.get("class") for each in of_class(drawing, "rate")] == [
        "rate fail",
        "rate info",
        f"rate lost {colour}",
        "rate ok",
    ]
    assert "12,600 acknowledged, lost" in strip_tags(str(overview(read_findings(run))))


def test_where_nothing_was_lost_nothing_is_drawn_as_lost(tmp_path: Path) -> None:
    run = made_up_run(tmp_path)
    assert [each.get("class") for each in of_class(draw_overview(run), "lost")] == ["hatch lost not-allowed"]
    assert not of_class(draw_overview(run), "lost-span")
    assert "and lost" not in strip_tags(text_of(run))
    assert '<div class="card good"><b>0</b>' in text_of(run)


def test_the_acknowledged_are_drawn_as_kept_and_lost(tmp_path: Path) -> None:
    series = read_findings(with_a_loss(tmp_path, is_allowed=True)).series
    assert series.kept_s == tuple(ok - lost for ok, lost in zip(series.ok_s, series.lost_s, strict=True))
    assert sum(series.thin(40).lost_s) / 40 == pytest.approx(sum(series.lost_s) / len(series.lost_s))
    assert min(begin for begin, _ in series.lost_spans) == 10.0
    assert max(end for _, end in series.lost_spans) == 20.0


def test_every_outage_has_a_figure_on_its_right_or_on_its_left(tmp_path: Path) -> None:
    run = made_up_run(tmp_path, duration_s=30.0)
    spans = ((2.0, 0.4), (10.0, 1.0), (11.05, 3.0), (14.1, 1.5), (18.0, 11.9))
    faults = [
        {"id": number, "kind": "kill", "target": "one", "nodes": [1], "begin_s": begin_s, "end_s": begin_s + s}
        for number, (begin_s, s) in enumerate(spans, 1)
    ]
    rto = {"max": 11.9, "faults": [{"id": number, "s": s} for number, (_, s) in enumerate(spans, 1)]}
    drawing = draw_overview(change_results(run, faults=faults, rto_s=rto))
    labels = of_class(drawing, "outage-text")
    assert [label.text for label in labels] == [seconds(s) for _, s in spans]
    assert [label.get("text-anchor") for label in labels] == ["start", "end", "start", "start", "end"]
    boxes = []
    for label in labels:
        x, y, width = float(label.get("x", 0)), float(label.get("y", 0)), len(label.text or "") * 6.1
        boxes.append((x if label.get("text-anchor") == "start" else x - width, y, width))
    for one, other in itertools.combinations(boxes, 2):
        assert one[1] != other[1] or one[0] + one[2] <= other[0] or other[0] + other[2] <= one[0]
    assert all(left >= 74 and left + width <= 1106 for left, _, width in boxes)


def losses_at(*offsets: int) -> list[dict[str, Any]]:
    return [
        {
            "check": "lost",
            "object": 0,
            "sentence": f"Offset {offset} is lost.",
            "ops": [
                op("append", "ok", 3.0, 3.1, a=offset, offset=offset),
                op("read", "ok", 58.0, 58.0, a=7, offset=offset, process=-1),
            ],
        }
        for offset in offsets
    ]


def test_each_violated_check_has_a_picture_and_repeats_are_one(tmp_path: Path) -> None:
    stale = {**VIOLATIONS[1], "object": 0}
    order = {**VIOLATIONS[1], "check": "order", "sentence": "Out of order."}
    broken = [*losses_at(*range(42, 80), 90), *[losses_at(1000 + 2 * n)[0] for n in range(60)], stale, order]
    checks = {
        **{name: {"valid": False, "count": 1, "examples": []} for name in ("lost", "stale", "order")},
        "nodes": {"valid": False, "count": 1, "examples": ["n2 ended with status 1"]},
    }
    page = text_of(change_results(made_up_run(tmp_path), valid=False, violations=broken, checks=checks))
    tags = re.findall(r'<h3><span class="tag">(\w+)</span>', page)
    assert tags[:4] == ["lost", "order", "stale", "nodes"]
    assert len(tags) == 40
    assert page.count('<svg class="witness"') == 39
    assert "And 37 more like it, at offsets 42 to 79." in strip_tags(page)
    assert "Offset 90 is lost." in strip_tags(page) and "Offset 43 is lost." not in strip_tags(page)
    assert "n2 ended with status 1" in strip_tags(page)


def test_the_culprit_is_red_and_the_fault_that_is_blamed_is_named(tmp_path: Path) -> None:
    faults = [
        {"id": 1, "kind": "kill", "target": "leader", "nodes": [2], "begin_s": 1.0, "end_s": 2.0},
        {"id": 2, "kind": "power", "target": "all", "nodes": [1, 2, 3], "begin_s": 8.0, "end_s": 9.0},
        {"id": 3, "kind": "pause", "target": "one", "nodes": [1], "begin_s": 30.0, "end_s": 31.0},
    ]
    run = change_results(made_up_run(tmp_path), valid=False, faults=faults, violations=[*losses_at(42), VIOLATIONS[1]])
    page = text_of(run)
    assert "Next fault after it: #2 power n1, n2, n3 (all), 8.0 s to 9.0 s." in strip_tags(page)
    assert "Last fault before it: #2 power" in strip_tags(page)
    assert page.count('<article class="violation" data-fault="2">') == 2
    lost, stale = (ElementTree.fromstring(witness(each)) for each in read_findings(run).violations)
    assert [bar.get("class") for bar in of_class(lost, "bar")] == ["bar ok culprit", "bar ok"]
    assert [bar.get("class") for bar in of_class(stale, "bar")][-1] == "bar ok culprit"
    assert len(of_class(stale, "culprit")) == 2
    marks = of_class(draw_overview(run), "culprit-mark")
    assert len(marks) == 2
    none = change_results(run, faults=[])
    assert "No fault of this run explains it." in strip_tags(text_of(none))


def test_availability_stands_with_the_longest_outage_and_both_are_explained(tmp_path: Path) -> None:
    run = made_up_run(tmp_path)
    assert "available" not in strip_tags(text_of(run))
    up = {"share": 0.9312, "down_s": 4.13, "longest_s": 1.5, "gap_s": 0.25}
    page = strip_tags(text_of(change_results(run, availability=up)))
    assert "93.12 % of the time available 4.13 s down in all" in page
    assert "in which writes were acknowledged; down is any time of 0.25 s or more without one." in page
    assert "RTO: from the begin of a fault to the answer of the first write" in page
    assert "All times count from the first operation of the load, here and on the terminal." in page


def test_what_was_not_tested_is_said_next_to_the_verdict(tmp_path: Path) -> None:
    run = made_up_run(tmp_path)
    assert "Not tested" not in strip_tags(text_of(run))
    page = strip_tags(
        text_of(change_results(run, not_tested=["faults: none", "durability: not tested, no power fault"]))
    )
    assert "Not tested: faults: none; durability (no power fault)" in page
    assert page.index("Not tested") < page.index("acknowledged of")


def test_what_holds_but_for_an_allowed_loss_is_not_said_to_hold_outright(tmp_path: Path) -> None:
    run = made_up_run(tmp_path)
    assert "but for what this mode allows" not in strip_tags(text_of(run))
    assert "taken out of the history" not in strip_tags(text_of(run))
    reason = "12 lost in addition, as the promise of this mode allows"
    checks = {
        "linearizable": {"valid": True, "count": 0, "examples": []},
        "lost": {"valid": True, "count": 0, "examples": [], "reason": reason},
        "phantom": {"valid": True, "count": 0, "examples": []},
    }
    page = strip_tags(text_of(change_results(run, lost_acked=12, lost_allowed=[{"records": 12}], checks=checks)))
    meaning = CHECKS_IN_WORDS["lost"]
    assert f"lost {meaning} {reason} holds, but for what this mode allows 0" in page
    assert f"{CHECKS_IN_WORDS['linearizable']} holds, but for what this mode allows 0" in page
    assert f"{CHECKS_IN_WORDS['phantom']} holds 0" in page
    assert "taken out of the history first" in page


def test_a_check_that_an_unallowed_loss_broke_is_violated_next_to_an_allowed_one(tmp_path: Path) -> None:
    checks = {"lost": {"valid": False, "count": 2, "examples": []}}
    run = change_results(
        made_up_run(tmp_path), valid=False, lost_acked=14, lost_allowed=[{"records": 12}], checks=checks
    )
    assert f"{CHECKS_IN_WORDS['lost']} violated 2" in strip_tags(text_of(run))


def test_the_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    page = text_of(violated_run(tmp_path))
    assert not re.findall(r"""(?:src|href)=["']?(?!data:)[^"'> ]+""", page)
    assert "default-src 'none'" in page
    assert "url(http" not in page
    assert "@import" not in page


def test_an_hour_of_faults_stays_under_a_megabyte(tmp_path: Path) -> None:
    run = made_up_run(tmp_path, duration_s=3600, fault_every_s=8)
    page = render_report(run)
    assert len(read_findings(run).faults) > 400
    assert page.stat().st_size < MIB


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    faults = [{"id": 1, "kind": "kill", "target": evil, "nodes": [1], "begin_s": 1.0, "end_s": 2.0}]
    violation = {"check": evil, "object": evil, "sentence": evil, "ops": [op(evil, "ok", 1.0, 2.0, a=1)]}
    run = change_results(violated_run(tmp_path), faults=faults, violations=[violation], lost=[evil])
    (run / "test.json").write_text(json.dumps({"system": evil, "seed": 1, evil: evil}))
    page = text_of(run)
    assert "<script>alert" not in page
    assert "<img" not in page
    assert page.count("</script>") == 2


def test_every_fault_is_a_band_and_a_row(tmp_path: Path) -> None:
    page = text_of(made_up_run(tmp_path))
    for number in range(1, 9):
        assert len(re.findall(rf'data-fault="{number}"', page)) == 2


def test_the_wide_table_of_faults_scrolls_in_a_box_of_its_own(tmp_path: Path) -> None:
    page = text_of(made_up_run(tmp_path))
    assert re.search(r'<div class="scroll">\s*<table class="faults">.*?</table>\s*</div>', page, flags=re.DOTALL)
    assert re.search(r"\.scroll \{[^}]*overflow-x: auto", page)


def test_every_violation_is_drawn_with_all_its_operations(tmp_path: Path) -> None:
    run = violated_run(tmp_path)
    for violation, wanted in zip(read_findings(run).violations, VIOLATIONS, strict=True):
        drawing = ElementTree.fromstring(witness(violation))
        bars = [rect for rect in drawing.iter("rect") if rect.get("class", "").startswith("bar")]
        assert len(bars) == len(list(wanted["ops"]))
    page = strip_tags(text_of(run))
    for words in (
        "append 4711",
        "→ offset 42, term 3",
        "cas 12 → 14",
        "→ saw 13, did not swap",
        "no answer",
        "refused",
    ):
        assert words in page


def test_the_page_is_well_formed(tmp_path: Path) -> None:
    class Balance(html.parser.HTMLParser):
        VOID = frozenset({"meta", "link", "br", "img"})

        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag not in self.VOID:
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    parser = Balance()
    parser.feed(text_of(violated_run(tmp_path)))
    parser.close()
    assert parser.open == []
    ElementTree.fromstring(overview(read_findings(tmp_path)))


def test_a_run_that_measured_almost_nothing_still_has_a_report(tmp_path: Path) -> None:
    page = strip_tags(text_of(write(tmp_path, {"valid": None}, {"seed": 3}, [])))
    assert "No verdict" in page
    assert "the run ended before the check did" in page


def test_a_fault_that_never_ended_reaches_the_right_edge(tmp_path: Path) -> None:
    faults = [{"id": 1, "kind": "partition", "target": "halves", "nodes": [1, 2], "begin_s": 50.0, "end_s": None}]
    page = strip_tags(text_of(change_results(made_up_run(tmp_path), faults=faults, rto_s={"max": None, "faults": []})))
    assert "to the end" in page
    assert "not measured" in page


def test_the_longest_outage_is_the_longest_gap_and_an_outage_without_an_end_is_said(tmp_path: Path) -> None:
    run = made_up_run(tmp_path)
    rto = json.loads((run / "results.json").read_text())["rto_s"]
    assert "9.50 s longest outage RTO 1.20 s, worst" in strip_tags(
        text_of(change_results(run, rto_s={**rto, "max": 1.2, "gap_max": 9.5}))
    )
    row = {**rto["faults"][0], "s": None, "recovered": False}
    page = strip_tags(
        text_of(change_results(run, rto_s={"max": None, "unrecovered": 1, "faults": [row, *rto["faults"][1:]]}))
    )
    assert "to the end longest outage no write acknowledged any more after 1 of the faults" in page
    assert page.count("no more after its end") == 1
    assert "not measured" not in page


@pytest.mark.parametrize("kind", [*KINDS, "of-another-day"])
def test_every_kind_of_fault_has_a_named_band_in_a_colour_of_the_page(tmp_path: Path, kind: str) -> None:
    faults = [{"id": 1, "kind": kind, "target": "leader", "nodes": [1], "begin_s": 5.0, "end_s": 9.0}]
    page = text_of(change_results(made_up_run(tmp_path), faults=faults, rto_s={"max": None, "faults": []}))
    (band,) = re.findall(rf'class="band (of-\w+) {kind}"', page)
    assert (band == "of-something") == (kind not in KINDS)
    assert kind not in KINDS or f".{band} {{ --tone:" in page
    assert f"1 {kind} n1" in strip_tags(page)


@pytest.mark.parametrize("name", ["results.json", "test.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    run = made_up_run(tmp_path)
    (run / name).unlink()
    with pytest.raises(UnreadableRun, match=name):
        render_report(run)


@pytest.mark.parametrize(
    "content", ["", "[1]", "{", '{"faults": [{"id": "x"}]}', '{"series": {"t_s": [0, 1], "ok_s": [1]}}']
)
def test_a_damaged_file_is_named_and_not_drawn(tmp_path: Path, content: str) -> None:
    run = made_up_run(tmp_path)
    (run / "results.json").write_text(content)
    with pytest.raises(UnreadableRun, match=r"results\.json"):
        render_report(run)


@pytest.mark.parametrize("content", [b"\xff\n", b"{\n"])
def test_damaged_faults_are_named_and_not_drawn(tmp_path: Path, content: bytes) -> None:
    run = made_up_run(tmp_path)
    (run / "nemesis.jsonl").write_bytes(content)
    with pytest.raises(UnreadableRun, match=r"nemesis\.jsonl"):
        render_report(run)


def test_the_command_prints_where_the_report_lies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_up_run(tmp_path)
    assert execute(["report", str(run)]) == ExitStatus.VALID
    assert capsys.readouterr().out == f"{run / 'report.html'}\n"


def test_the_command_refuses_what_is_no_run_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["report", str(tmp_path / "nowhere")]) == ExitStatus.USAGE
    error = capsys.readouterr().err
    assert "no such directory" in error
    assert error.count("\n") == 1


instants = st.floats(min_value=0, max_value=1e4, allow_nan=False)


@given(st.lists(st.tuples(instants, st.one_of(st.none(), instants)), min_size=1, max_size=6))
def test_the_axis_of_a_witness_keeps_the_order_of_all_instants(pairs: list[tuple[float, float | None]]) -> None:
    ops = [ShownOp("read", "ok", 1, 1, begin, None if took is None else begin + took) for begin, took in pairs]
    places = axis_places(ops)
    assert list(places) == sorted(places)
    pixels = list(places.values())
    assert all(left < right for left, right in itertools.pairwise(pixels))


@given(st.lists(st.floats(min_value=0, max_value=1e5), min_size=1, max_size=500), st.integers(1, 60))
def test_thinning_hides_no_peak(p99: list[float], buckets_max: int) -> None:
    zeros = (0.0,) * len(p99)
    series = Series(tuple(at / 4 for at in range(len(p99))), zeros, zeros, zeros, zeros, tuple(p99))
    thin = series.thin(buckets_max)
    assert len(thin.t_s) <= buckets_max
    assert max(value for value in thin.p99_ms if value is not None) == max(p99)


def test_an_outage_between_two_pixels_still_shows_red(tmp_path: Path) -> None:
    run = made_up_run(tmp_path, duration_s=3600, fault_every_s=1e9)
    results = json.loads((run / "results.json").read_text())
    results["series"]["ok_s"] = [1000.0] * len(results["series"]["t_s"])
    results["series"]["ok_s"][7000] = 0.0
    drawn = overview(read_findings(change_results(run, series=results["series"])))
    assert drawn.count('class="serving none"') == 1


@given(st.floats(min_value=1e-3, max_value=1e9), st.integers(2, 15))
def test_ticks_are_few_and_reach_nearly_to_the_top(high: float, about: int) -> None:
    found = ticks(high, about)
    assert found[0] == 0
    assert len(found) <= about + 1
    assert high / 3 <= found[-1] + (found[1] if len(found) > 1 else high) and found[-1] <= high * 1.0001


def test_scales_end_at_their_borders() -> None:
    scale = Scale(1.0, 1000.0, 0.0, 300.0, log=True)
    assert [round(scale(value)) for value in (0.5, 1, 10, 100, 1e6)] == [0, 0, 100, 200, 300]


@pytest.mark.parametrize(
    ("value", "text"), [(0.0002, "200 µs"), (0.001, "1.0 ms"), (0.63, "0.63 s"), (12.34, "12.3 s"), (125, "2 min 05 s")]
)
def test_durations_read_as_people_say_them(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1820, "1,820"), (12_500, "12.5k"), (3_000_000, "3M"), (2.5, "2.5")]
)
def test_rates_read_as_people_say_them(value: float, text: str) -> None:
    assert round_off(value) == text
