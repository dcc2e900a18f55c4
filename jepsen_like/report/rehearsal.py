"""One page about a rehearsal: the verdict, what the switches cost, and a lane for each cluster over the same time."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
from markupsafe import Markup

from jepsen_like.checker.checking import HISTORY
from jepsen_like.checker.rows.columns import Bools, Columns, Ints
from jepsen_like.history.files import HistoryReader
from jepsen_like.history.ops import Action, Outcome
from jepsen_like.report.canvas import Scale, area, element, round_off, ticks
from jepsen_like.report.findings import read_told
from jepsen_like.report.page import fill

REHEARSAL: Final = "rehearsal.json"
WIDTH, LEFT, RIGHT, LANE, GAP = 1120.0, 70.0, 20.0, 110.0, 44.0
BIN_NS: Final = 250_000_000
FIGURES: Final = {
    "acked": "records that a primary acknowledged before it was left",
    "lag": "of these, behind the fence of the link",
    "lost": "of these, not at the new primary",
    "foreign": "records of the old primary that came to the new one after the switch",
    "late": "records that the old primary acknowledged after the switch",
    "doubled": "records that a cluster has twice",
    "reordered": "records behind one that their producer sent later",
    "skipped": "records that a group passed over and never got",
    "read_again": "records that a group got from both clusters",
    "committed_again": "of these, committed at the first",
    "rto_machine_s": "seconds from the operator's command to the first acknowledgement",
    "rto_s": "seconds from the loss to the first acknowledgement",
    "read_s": "seconds from the operator's command to the first record that a group got",
    "back_s": "seconds without an acknowledgement on the planned way back",
}
BANNERS: Final = {
    "valid": {"kind": "valid", "sign": "✓", "headline": "The loss is the lag, and nothing else went wrong"},
    "INVALID": {"kind": "violated", "sign": "✗", "headline": "A promise was broken"},
    "unknown": {"kind": "unknown", "sign": "?", "headline": "It was not decided what was lost"},
}


@attrs.frozen(eq=False)
class TimedRows:
    """The rows of a history that the picture shows, and its time."""

    rows: Columns
    begin: int
    end: int

    def rates(self, chosen: Bools) -> Ints:
        """Returns how many of these rows ended in each bin, as a rate per second; of unknown outcome those that began."""
        rows = self.rows
        when = np.where(rows.type == Outcome.INFO, rows.t_inv, rows.t_ret)[chosen]
        when = when[when < self.end]
        bins = np.bincount((when - self.begin) // BIN_NS, minlength=(self.end - self.begin) // BIN_NS + 1)
        rate: Ints = bins * (1_000_000_000 // BIN_NS)
        return rate


def render_rehearsal(directory: Path) -> Path:
    """Write a rehearsal's `report.html` and return its path. Raises `UnreadableRun` if one of its files is missing."""
    told, test = read_told(directory / REHEARSAL), read_told(directory / "test.json")
    checks: Mapping[str, Any] = told["result"]["checks"]
    text = fill(
        "rehearsal.html.jinja",
        banner=BANNERS[told["verdict"]],
        seed=told["seed"],
        delay_ms=told["delay_ms"],
        directory=directory.resolve().name,
        figures=[
            (name.replace("_", " "), told[name], what) for name, what in FIGURES.items() if told[name] is not None
        ],
        losses=[loss["says"] for loss in told["result"]["lost_allowed"]],
        found=[
            (name.replace("_", " "), check["count"], check["examples"])
            for name, check in checks.items()
            if check["valid"] is False
        ],
        picture=_picture(
            directory, {int(city): name for city, name in test["mirror"]["clusters"].items()}, told["down_ns"]
        ),
    )
    path = directory / "report.html"
    path.write_text(text, encoding="utf-8")
    return path


def _picture(directory: Path, clusters: Mapping[int, str], down_ns: list[int]) -> Markup:
    rows = Columns.of_parts(HistoryReader.open(directory / HISTORY).files())
    begin, end = int(rows.t_inv.min()), int(rows.t_ret[rows.type == Outcome.OK].max()) + 1
    timed, x = TimedRows(rows, begin, end), Scale(begin, end, LEFT, WIDTH - RIGHT)
    height = len(clusters) * (LANE + GAP) + 30
    parts = list[Markup]()
    for place, (cluster, name) in enumerate(sorted(clusters.items())):
        top = GAP / 2 + place * (LANE + GAP)
        parts += _lane(timed, cluster, f"city {name}", top, x)
        if place == 0 and down_ns:
            parts += _down(x(down_ns[0]), x(down_ns[1]), top)
    parts += _switches(rows, x, height - 30)
    parts += [
        element("text", f"{second:g} s", class_="tick", x=x(begin + second * 1e9), y=height - 8, text_anchor="middle")
        for second in ticks((end - begin) / 1e9, 10)
    ]
    return element("svg", *parts, viewBox=f"0 0 {WIDTH:g} {height:g}", role="img", aria_label="both cities over time")


def _lane(timed: TimedRows, cluster: int, name: str, top: float, x: Scale) -> Iterator[Markup]:
    """The rates of one cluster: acknowledged, of unknown outcome, and read by all groups."""
    rows = timed.rows
    mine = rows.node == cluster
    sends, polls = mine & (rows.f == Action.SEND), mine & (rows.f == Action.POLL)
    ok, unknown = (timed.rates(sends & (rows.type == outcome)) for outcome in (Outcome.OK, Outcome.INFO))
    read = timed.rates(polls)
    y = Scale(0, float(max(1, int((ok + unknown).max()))), top + LANE, top)
    yield element("rect", class_="lane", x=LEFT, y=top, width=WIDTH - RIGHT - LEFT, height=LANE, rx=2)
    yield element("text", name, class_="lane-name", x=LEFT - 8, y=top + 14, text_anchor="end")
    yield element("text", f"{round_off(y.high)}/s", class_="tick", x=LEFT - 8, y=top + 30, text_anchor="end")
    for class_, rate in (("rate info", ok + unknown), ("rate ok", ok)):
        yield element("path", class_=class_, d=area(_steps(rate, timed.begin, x, y), y(0)))
    if read.max():
        shown = Scale(0, float(np.percentile(read[read > 0], 95)), top + LANE, top)
        points = " ".join(f"{at:.1f},{height:.1f}" for at, height in _steps(read, timed.begin, x, shown))
        yield element("polyline", class_="latency p50", points=points)


def _steps(rate: Ints, begin: int, x: Scale, y: Scale) -> list[tuple[float, float]]:
    found = list[tuple[float, float]]()
    for number, value in enumerate(rate.tolist()):
        found += [(x(begin + number * BIN_NS), y(value)), (x(begin + (number + 1) * BIN_NS), y(value))]
    return found


def _down(left: float, right: float, top: float) -> Iterator[Markup]:
    body = element("rect", class_="body", x=left, y=top, width=right - left, height=LANE)
    text = element("text", "lost", class_="chip-text", x=left + 6, y=top + 14)
    yield element("g", body, text, class_="band of-down")


def _switches(rows: Columns, x: Scale, bottom: float) -> Iterator[Markup]:
    """A band from each command of the operator to its end."""
    times = {(int(rows.t_inv[row]), int(rows.t_ret[row])) for row in np.flatnonzero(rows.f == Action.SWITCH).tolist()}
    for number, begun in enumerate(sorted({begun for begun, _ in times}), 1):
        left, right = x(begun), x(max(ended for other, ended in times if other == begun))
        body = element("rect", class_="body", x=left, y=8, width=max(2.0, right - left), height=bottom - 8)
        text = element("text", f"switch {number}", class_="chip-text", x=left, y=16)
        yield element("g", body, text, class_="band of-cut")
