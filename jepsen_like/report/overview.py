"""The picture people look at first: load, availability, latency and nodes over one time axis, faults as bands across.

One glance should show: here it was broken, here the service stopped, here another node led, here it was back. Every
panel shares the axis, so nothing has to be matched by number.
"""

import math
from collections.abc import Iterable, Sequence

import attrs
from markupsafe import Markup

from jepsen_like.nemesis.table import KINDS
from jepsen_like.port.observations import DOWN
from jepsen_like.report.canvas import LETTER_WIDTH, Scale, area, element, fit, line, round_off, seconds, ticks
from jepsen_like.report.findings import RoleChange, RunFindings, Series, ShownFault, ShownViolation

WIDTH = 1120.0
LEFT = 74.0
RIGHT = 14.0
LABEL_ROWS_MAX = 3
LABEL_HEIGHT = 18.0
RATE_HEIGHT = 150.0
STRIP_HEIGHT = 9.0
LATENCY_HEIGHT = 110.0
LANE_HEIGHT = 22.0
GAP = 32.0
BUCKETS_MAX = 900
"""More buckets than pixels show nothing; this also bounds the file."""


def drawn_as(kind: str) -> str | None:
    """Returns what a fault makes of the nodes it names, as drawn on their lanes."""
    return KINDS[kind].drawn_as if kind in KINDS else None


def tone(kind: str) -> str:
    """The colour of a kind of fault, as a class: those that do similar things look alike."""
    return f"of-{drawn_as(kind) or KINDS[kind].lane.value}" if kind in KINDS else "of-something"


@attrs.frozen
class Layout:
    """The layout of the panels, from top to bottom, in pixels; each field is a panel's top."""

    labels: float
    rate: float
    strip: float
    latency: float
    lanes: float
    zones: float
    axis: float
    height: float

    @classmethod
    def of(cls, label_rows: int, nodes: int, zones: int = 0) -> "Layout":
        """Stack the panels for so many rows of fault labels, so many nodes and so many zones."""
        labels = 4.0
        rate = labels + label_rows * LABEL_HEIGHT + 22
        strip = rate + RATE_HEIGHT + 10
        latency = strip + STRIP_HEIGHT + GAP
        lanes = latency + LATENCY_HEIGHT + GAP
        end = lanes + nodes * LANE_HEIGHT
        below = end + (GAP if zones else 0)
        axis = below + zones * LANE_HEIGHT + 4
        return cls(labels, rate, strip, latency, lanes, below, axis, axis + 22)


def overview(found: RunFindings) -> Markup:
    """The whole picture as one SVG."""
    series = found.series.thin(BUCKETS_MAX)
    x = Scale(0.0, found.end_s, LEFT, WIDTH - RIGHT)
    rows = label_rows(found.faults, x)
    layout = Layout.of(max(rows.values(), default=-1) + 1, len(found.nodes), len(found.zones))
    return element(
        "svg",
        *hatches(loss_class(found)),
        *fault_bands(found.faults, rows, x, layout),
        *time_axis(x, layout),
        *rate_panel(series, found.faults, x, layout, loss_class(found)),
        *availability_strip(found.series, x, layout, loss_class(found)),
        *latency_panel(series, x, layout),
        *lanes(found, x, layout),
        *zone_lanes(found, x, layout),
        *lost_spans(found, x, layout),
        *culprits(found.violations, x, layout),
        element("line", id="cursor", x1=0, x2=0, y1=layout.rate, y2=layout.axis, visibility="hidden"),
        id="overview",
        viewBox=f"0 0 {WIDTH:.0f} {layout.height:.0f}",
        role="img",
        aria_label="Throughput, availability, latency and node roles over time, with the faults as bands",
        data_left=LEFT,
        data_right=WIDTH - RIGHT,
        data_end=str(found.end_s),
    )


def readings(found: RunFindings) -> dict[str, object]:
    """Returns what the cursor tells: the drawn series, rounded, and who led when."""
    series = found.series.thin(BUCKETS_MAX)

    def fewer(values: Iterable[float | None]) -> list[float | None]:
        return [None if value is None else float(f"{value:.4g}") for value in values]

    return {
        "bucket_s": series.bucket_s,
        "ok": fewer(series.ok_s),
        "lost": fewer(series.lost_s),
        "fail": fewer(series.fail_s),
        "info": fewer(series.info_s),
        "p50": fewer(series.p50_ms),
        "p99": fewer(series.p99_ms),
        "leaders": [[change.at_s, change.node, change.term] for change in found.roles if change.role == "leader"],
        "faults": [
            [fault.begin_s, found.end_s if fault.end_s is None else fault.end_s, fault.title] for fault in found.faults
        ],
    }


def loss_class(found: RunFindings) -> str:
    """Returns how a loss looks: amber where the mode allows all of it, else red."""
    return "allowed" if found.is_loss_allowed else "not-allowed"


def hatches(loss: str) -> list[Markup]:
    """Line patterns for nodes that cannot take part and for what was lost, so that colour is never the only sign."""
    shapes = {
        "paused": "M0 0V8M4 0V8",
        "cut": "M0 8L8 0",
        "down": "M0 0L8 8M0 8L8 0",
        f"lost {loss}": "M-2 2L2 -2M0 8L8 0M6 10L10 6",
    }
    return [
        element(
            "defs",
            *(
                element(
                    "pattern",
                    element("path", d=shape, class_=f"hatch {name}"),
                    id=f"hatch-{name.partition(' ')[0]}",
                    width=8,
                    height=8,
                    patternUnits="userSpaceOnUse",
                )
                for name, shape in shapes.items()
            ),
        )
    ]


def label_text(fault: ShownFault) -> str:
    """The label above a band: its number in the table, what it did, to whom; a star when that was the leader."""
    whom = "".join(f"n{node}" for node in fault.nodes) if len(fault.nodes) == 1 else fault.target
    return f"{fault.id} {fault.kind} {whom}{' ★' if fault.hit_leader else ''}"


def label_rows(faults: Sequence[ShownFault], x: Scale) -> dict[int, int]:
    """Give each label a row in which it does not touch its left neighbour; those that find none go without."""
    ends = [-math.inf] * LABEL_ROWS_MAX
    rows: dict[int, int] = {}
    for fault in sorted(faults, key=lambda fault: fault.begin_s):
        left = label_left(fault, x)
        row = next((row for row, end in enumerate(ends) if end <= left), None)
        if row is not None:
            rows[fault.id] = row
            ends[row] = left + len(label_text(fault)) * LETTER_WIDTH + 14
    return rows


def label_left(fault: ShownFault, x: Scale) -> float:
    """Returns where a label starts: at its band, or further left where it would leave the picture."""
    return min(x(fault.begin_s), WIDTH - RIGHT - len(label_text(fault)) * LETTER_WIDTH - 12)


def fault_bands(faults: Sequence[ShownFault], rows: dict[int, int], x: Scale, layout: Layout) -> Iterable[Markup]:
    """A band across all panels for each fault, with its label on top."""
    for fault in faults:
        left = x(fault.begin_s)
        width = max(x(x.high if fault.end_s is None else fault.end_s) - left, 1.5)
        parts = [element("title", fault_story(fault))]
        row = rows.get(fault.id)
        top = layout.rate - 4
        if row is not None:
            top = layout.labels + row * LABEL_HEIGHT
            text = label_text(fault)
            start = label_left(fault, x)
            parts += [
                element("line", class_="stem", x1=left, x2=left, y1=top, y2=layout.axis),
                element("rect", class_="chip", x=start, y=top, width=len(text) * LETTER_WIDTH + 10, height=15, rx=3),
                element("text", text, class_="chip-text", x=start + 5, y=top + 11),
            ]
        body = element("rect", class_="body", x=left, y=layout.rate - 4, width=width, height=layout.axis - layout.rate)
        yield element("g", body, *parts, class_=f"band {tone(fault.kind)} {fault.kind}", data_fault=fault.id)


def fault_story(fault: ShownFault) -> str:
    """The fault in one line, for the pointer that rests on it."""
    lasted = "until the end" if fault.end_s is None else f"for {seconds(fault.end_s - fault.begin_s)}"
    back = "" if fault.rto_s is None else f", served again after {seconds(fault.rto_s)}"
    never = "" if fault.recovered else ", not served any more after its end"
    return f"#{fault.id} {fault.title} at {fault.begin_s:.1f} s {lasted}{back}{never}"


def time_axis(x: Scale, layout: Layout) -> Iterable[Markup]:
    """Seconds along the bottom, with faint lines up through every panel."""
    for value in ticks(x.high, 12):
        at = x(value)
        yield element("line", class_="grid", x1=at, x2=at, y1=layout.rate, y2=layout.axis)
        yield element("text", f"{value:g} s", class_="tick", x=at, y=layout.axis + 15, text_anchor="middle")


def panel_title(text: str, top: float) -> Markup:
    """The name of a panel, above its left edge."""
    return element("text", text, class_="panel", x=LEFT, y=top - 7)


def rate_panel(series: Series, faults: Sequence[ShownFault], x: Scale, layout: Layout, loss: str) -> Iterable[Markup]:
    """Operations per second, stacked: kept, acknowledged and lost, unknown, refused; above, how long outages were."""
    yield panel_title("operations per second", layout.rate)
    totals = [sum(rates) for rates in zip(series.ok_s, series.fail_s, series.info_s, strict=True)]
    high = max([1.0, *totals]) * 1.1
    y = Scale(0.0, high, layout.rate + RATE_HEIGHT, layout.rate + 14)
    for value in ticks(high, 4):
        yield element("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y(value), y2=y(value))
        yield element("text", round_off(value), class_="tick", x=LEFT - 8, y=y(value) + 4, text_anchor="end")
    unknown_and_ok = [ok + info for ok, info in zip(series.ok_s, series.info_s, strict=True)]
    for name, heights in (("fail", totals), ("info", unknown_and_ok)):
        yield element("path", class_=f"rate {name}", d=area(steps(series, heights, x, y), y(0.0)))
    if series.lost_spans:
        shape = area(steps(series, series.ok_s, x, y), y(0.0))
        yield element("path", class_=f"rate lost {loss}", d=shape)
        yield element("path", class_="hatched", fill="url(#hatch-lost)", d=shape)
    yield element("path", class_="rate ok", d=area(steps(series, series.kept_s, x, y), y(0.0)))
    yield from outages(faults, x, layout)


def outages(faults: Sequence[ShownFault], x: Scale, layout: Layout) -> Iterable[Markup]:
    """A bracket from each fault to the next acknowledged write, with how long that took on its right, or else on its left.

    A label that finds room on neither side goes below the brackets, so that no outage is without a figure.
    """
    away = sorted((fault for fault in faults if fault.rto_s), key=lambda fault: fault.begin_s)
    spans = [(x(fault.begin_s), x(fault.begin_s + (fault.rto_s or 0.0))) for fault in away]
    taken: list[list[tuple[float, float]]] = [list(spans), [], []]
    for fault, (start, end) in zip(away, spans, strict=True):
        at = layout.rate + 7
        yield element("path", class_="outage", d=f"M{start:.1f} {at - 4:.1f}v8M{start:.1f} {at:.1f}H{end:.1f}m0 -4v8")
        text = seconds(fault.rto_s or 0.0)
        row, left, anchor = label_place(start, end, len(text) * LETTER_WIDTH, taken)
        edge = left if anchor == "start" else left + len(text) * LETTER_WIDTH
        yield element("text", text, class_="outage-text", x=edge, y=at + 4 + 11 * row, text_anchor=anchor)


def label_place(
    start: float, end: float, width: float, taken: list[list[tuple[float, float]]]
) -> tuple[int, float, str]:
    """The row, the left edge and the anchor of an outage's label; what it takes of its row is added to `taken`.

    Its bracket ends in pixels at `start` and `end`. Right of it comes first, then left of it, then the same one row below.
    """
    sides = [(end + 4, "start"), (start - 4 - width, "end")]
    inside = [(left, anchor) for left, anchor in sides if left >= LEFT and left + width <= WIDTH - RIGHT]
    for row, others in enumerate(taken):
        for left, anchor in inside:
            if all(left + width <= begin or left >= until for begin, until in others):
                others.append((left, left + width))
                return row, left, anchor
    left, anchor = (inside or sides)[-1]
    return len(taken) - 1, left, anchor


def lost_spans(found: RunFindings, x: Scale, layout: Layout) -> Iterable[Markup]:
    """On the time axis, hatched: when what was acknowledged was lost later; with how much it was in all."""
    spans = found.series.lost_spans
    lost = found.results.lost_acked
    for begin, end in spans:
        left, width = x(begin), max(x(end) - x(begin), 2.0)
        story = element("title", f"acknowledged from {begin:.2f} s to {end:.2f} s, and lost in part or whole")
        shape = {"x": left, "y": layout.axis - 3, "width": width, "height": 9.0}
        yield element("rect", story, class_=f"lost-span {loss_class(found)}", **shape)
        yield element("rect", class_="hatched", fill="url(#hatch-lost)", **shape)
    if spans:
        text = f"{lost:,} acknowledged, lost" + (" (allowed)" if found.is_loss_allowed else "")
        begin, end = max(spans, key=lambda span: span[1] - span[0])
        half = len(text) * LETTER_WIDTH / 2 + 4
        middle = min(max((x(begin) + x(end)) / 2, LEFT + half), WIDTH - RIGHT - half)
        y = layout.rate + RATE_HEIGHT * 0.62
        yield element("text", text, class_=f"lost-text {loss_class(found)}", x=middle, y=y, text_anchor="middle")


def culprits(violations: Sequence[ShownViolation], x: Scale, layout: Layout) -> Iterable[Markup]:
    """On the time axis: a red mark at each operation that cannot be."""
    seen = set[str]()
    for violation in violations:
        culprit = violation.culprit
        if culprit is None:
            continue
        at = x(culprit.t_inv_s)
        mark = f"M{at:.1f} {layout.axis - 4:.1f}l-5 -9h10z"
        if mark not in seen:
            seen.add(mark)
            yield element("path", element("title", violation.sentence), class_="culprit-mark", d=mark)


def steps(series: Series, heights: Sequence[float], x: Scale, y: Scale) -> list[tuple[float, float]]:
    """The corners of a step line: each bucket is flat."""
    corners: list[tuple[float, float]] = []
    for t, height in zip(series.t_s, heights, strict=True):
        corners += [(x(t), y(height)), (x(t + series.bucket_s), y(height))]
    return corners


def availability_strip(series: Series, x: Scale, layout: Layout, loss: str) -> Iterable[Markup]:
    """One line that answers "did it serve?": green yes, amber partly, red no answer at all; hatched what was lost later.

    Takes the series as measured: of the buckets that share a pixel the worst is shown. Equal neighbours are merged.
    """
    yield element("text", "serving", class_="tick", x=LEFT - 8, y=layout.strip + 8, text_anchor="end")
    worst_first = ("none", f"lost {loss}", "part", "full")
    states = [
        0 if ok <= 0 else 1 if lost > 0 else 2 if fail + info > ok else 3
        for ok, lost, fail, info in zip(series.ok_s, series.lost_s, series.fail_s, series.info_s, strict=True)
    ]
    step = max(math.ceil(len(states) / BUCKETS_MAX), 1)
    runs: list[tuple[int, float, float]] = []
    for at in range(0, len(states), step):
        state = min(states[at : at + step])
        begin = runs.pop()[1] if runs and runs[-1][0] == state else series.t_s[at]
        runs.append((state, begin, series.t_s[at] + step * series.bucket_s))
    for state, begin, end in runs:
        left = x(begin)
        width = x(end) - left
        name = f"serving {worst_first[state]}"
        shape = {"x": left, "y": layout.strip, "width": width, "height": STRIP_HEIGHT}
        yield element("rect", class_=name, **shape)
        if state == 1:
            yield element("rect", class_="hatched", fill="url(#hatch-lost)", **shape)


def latency_panel(series: Series, x: Scale, layout: Layout) -> Iterable[Markup]:
    """Median and 99th percentile of acknowledged operations, by decades."""
    yield panel_title("latency, p50 and p99", layout.latency)
    known = [value for value in (*series.p50_ms, *series.p99_ms) if value is not None and value > 0]
    low = 10.0 ** math.floor(math.log10(min(known, default=1.0)))
    high = max(10.0 ** math.ceil(math.log10(max(known, default=10.0))), low * 10)
    y = Scale(low, high, layout.latency + LATENCY_HEIGHT, layout.latency + 4, log=True)
    for exponent in range(round(math.log10(low)), round(math.log10(high)) + 1):
        at = y(10.0**exponent)
        yield element("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at)
        yield element("text", seconds(10.0**exponent / 1e3), class_="tick", x=LEFT - 8, y=at + 4, text_anchor="end")
    for name, values in (("p99", series.p99_ms), ("p50", series.p50_ms)):
        points = (
            None if value is None or value <= 0 else (x(t + series.bucket_s / 2), y(value))
            for t, value in zip(series.t_s, values, strict=True)
        )
        yield element("path", class_=f"latency {name}", d=line(points))


def lanes(found: RunFindings, x: Scale, layout: Layout) -> Iterable[Markup]:
    """A lane for each node: its role in colour, leaders with their term, and what a fault made of it as a hatch."""
    if found.nodes:
        yield panel_title("nodes: role, term, and what was done to them", layout.lanes)
    for place, node in enumerate(found.nodes):
        top = layout.lanes + place * LANE_HEIGHT
        height = LANE_HEIGHT - 5
        yield element("text", f"n{node}", class_="lane-name", x=LEFT - 8, y=top + 13, text_anchor="end")
        yield element("rect", class_="lane", x=LEFT, y=top, width=WIDTH - RIGHT - LEFT, height=height, rx=2)
        own = [change for change in found.roles if change.node == node]
        ends = [*(later.at_s for later in own[1:]), x.high]
        for change, until in zip(own, ends[: len(own)], strict=True):
            held = (fault.begin_s for fault in found.faults if node in fault.nodes and fault.begin_s > change.at_s)
            seen_until = min(min(held, default=until), until)
            yield from role_span(change, until, seen_until, x, top, height)
        yield from held_spans([fault for fault in found.faults if node in fault.nodes], f"n{node}", x, top, height)


def zone_lanes(found: RunFindings, x: Scale, layout: Layout) -> Iterable[Markup]:
    """A lane for each zone: when one of its nodes led, and as a hatch what a fault made of all that stands in it."""
    if found.zones:
        yield panel_title("zones: where the leader stood, and what was done to them", layout.zones)
    ends_s = {node: [change.at_s for change in found.roles if change.node == node] for node in found.nodes}
    for place, (zone, members) in enumerate(found.zones.items()):
        top = layout.zones + place * LANE_HEIGHT
        height = LANE_HEIGHT - 5
        yield element("text", f"zone {zone}", class_="lane-name", x=LEFT - 8, y=top + 13, text_anchor="end")
        names = ", ".join(f"n{node}" for node in members) or "no node"
        lane = {"x": LEFT, "y": top, "width": WIDTH - RIGHT - LEFT, "height": height}
        yield element("rect", element("title", f"zone {zone}: {names}"), class_="lane", rx=2, **lane)
        for change in found.roles:
            if change.node in members and change.role == "leader":
                until = min((at for at in ends_s[change.node] if at > change.at_s), default=x.high)
                yield from role_span(change, until, until, x, top, height)
        whole = [fault for fault in found.faults if members and set(members) <= set(fault.nodes)]
        yield from held_spans(whole, f"zone {zone}", x, top, height)


def held_spans(faults: Iterable[ShownFault], whom: str, x: Scale, top: float, height: float) -> Iterable[Markup]:
    """Yields what these faults made of a node or a zone, as hatches over its lane: down, paused, cut off."""
    for fault in faults:
        state = drawn_as(fault.kind)
        if state is not None:
            left = x(fault.begin_s)
            width = max(x(x.high if fault.end_s is None else fault.end_s) - left, 2.0)
            shape = {"x": left, "y": top, "width": width, "height": height}
            yield element(
                "rect", element("title", f"{whom} {state}: {fault_story(fault)}"), class_=f"held {state}", **shape
            )
            yield element("rect", class_="hatched", fill=f"url(#hatch-{state})", **shape)
            if width > (len(state) + 1) * LETTER_WIDTH:
                yield element("text", state, class_="held-text", x=left + width / 2, y=top + 12, text_anchor="middle")


def role_span(
    change: RoleChange, until: float, seen_until: float, x: Scale, top: float, height: float
) -> Iterable[Markup]:
    """One role from its beginning to the next change; its label must fit before `seen_until`, where a fault covers it."""
    left = x(change.at_s)
    width = x(until) - left
    if width <= 0 or change.role == DOWN:
        return
    story = element("title", f"n{change.node}: {change.role} in term {change.term} from {change.at_s:.2f} s")
    yield element("rect", story, class_=f"role {change.role}", x=left, y=top, width=max(width, 1.0), height=height)
    if change.role == "leader" and (
        text := fit((f"★ term {change.term}", f"★{change.term}"), x(seen_until) - left - 8)
    ):
        yield element("text", text, class_="role-text", x=left + 5, y=top + 12)
