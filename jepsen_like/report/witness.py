"""A violation, drawn: each operation a bar from its call to its answer, next to it what it did and what it saw.

The axis keeps order and tells distances but is not to scale: a witness may join a write of the first second with a read
of the last, and both must be seen. What overlaps was concurrent; what does not, happened before.
"""

import itertools
import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from jepsen_like.report.canvas import element, seconds
from jepsen_like.report.findings import ShownOp, ShownViolation

WIDTH = 1060.0
LEFT = 270.0
RIGHT = 290.0
ROW = 34.0
TOP = 8.0
NOTHING = -1
CLOCK_S = 1e-9
"""No two instants of one clock are closer than this."""
OUTCOME = {"ok": "", "fail": "refused", "info": "no answer: it may have happened"}


def witness(violation: ShownViolation) -> Markup:
    """One violation as an SVG; the sentence stands above it in the page."""
    ops = violation.ops
    places = axis_places(ops)
    height = TOP + len(ops) * ROW + 30
    rows = [part for number, op in enumerate(ops) for part in operation(op, number, places, op is violation.culprit)]
    return element(
        "svg",
        *guides(places, TOP, TOP + len(ops) * ROW),
        *rows,
        *distances(places, TOP + len(ops) * ROW + 16),
        class_="witness",
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        role="img",
        aria_label=violation.sentence,
    )


def axis_places(ops: Sequence[ShownOp]) -> dict[float, float]:
    """A pixel for every instant that matters: in order, gaps compressed so that the smallest and the largest show."""
    instants = sorted({instant for op in ops for instant in (op.t_inv_s, op.t_ret_s) if instant is not None})
    gaps = [later - earlier for earlier, later in itertools.pairwise(instants)]
    smallest = max(min(gaps, default=1.0), CLOCK_S)
    weights = [1.0 + math.log10(max(gap / smallest, 1.0)) for gap in gaps]
    unit = (WIDTH - LEFT - RIGHT - 40) / (sum(weights) or 1.0)
    places: dict[float, float] = {}
    at = LEFT + 10
    for instant, weight in zip(instants, [*weights, 0.0], strict=True):
        places[instant] = at
        at += weight * unit
    return places


def guides(places: dict[float, float], top: float, bottom: float) -> Iterable[Markup]:
    """Faint verticals at every instant: what lies left of one happened before it."""
    for at in places.values():
        yield element("line", class_="grid", x1=at, x2=at, y1=top, y2=bottom)


def distances(places: dict[float, float], y: float) -> Iterable[Markup]:
    """Yields how long each gap really was, where there is room to say it."""
    instants = list(places)
    for earlier, later in itertools.pairwise(instants):
        text = seconds(later - earlier)
        if places[later] - places[earlier] > len(text) * 5.6 + 4:
            middle = (places[earlier] + places[later]) / 2
            yield element("text", text, class_="tick", x=middle, y=y, text_anchor="middle")


def operation(op: ShownOp, number: int, places: dict[float, float], is_culprit: bool) -> Iterable[Markup]:
    """One row: who called what, the bar, what came back. The operation that cannot be is red."""
    y = TOP + number * ROW
    left = places[op.t_inv_s]
    right = WIDTH - RIGHT if op.t_ret_s is None else max(places[op.t_ret_s], left + 4)
    yield element("text", call(op), class_="call", x=LEFT - 8, y=y + 14, text_anchor="end")
    yield element("text", who_and_when(op), class_="when", x=LEFT - 8, y=y + 27, text_anchor="end")
    mark = " culprit" if is_culprit else ""
    yield element("rect", class_=f"bar {op.type}{mark}", x=left, y=y + 6, width=right - left, height=18, rx=3)
    if op.t_ret_s is None:
        yield element("path", class_="ongoing", d=f"M{right:.1f} {y + 6:.1f}l9 9l-9 9z")
    yield element("text", answer(op), class_=f"answer{mark}", x=max(right, LEFT) + 16, y=y + 19)


def who_and_when(op: ShownOp) -> str:
    """Which client asked which node, and when; a row without a client is what the nodes held at the end."""
    if op.process == NOTHING:
        return f"the final log of n{op.node}" if op.node not in (None, NOTHING) else "the final logs"
    who = f"p{op.process}" if op.process is not None else "a client"
    where = f" via n{op.node}" if op.node not in (None, NOTHING, 0) else ""
    took = "" if op.t_ret_s is None else f", took {seconds(op.t_ret_s - op.t_inv_s)}"
    return f"{who}{where} at {op.t_inv_s:.3f} s{took}"


def value(number: int | str | None) -> str:
    """A value id as text."""
    return "?" if number is None else "nothing" if number == NOTHING else str(number)


def call(op: ShownOp) -> str:
    """Returns what was asked."""
    if op.words:
        return op.words
    match op.f:
        case "send" | "enqueue" | "add":
            return f"{op.f} {value(op.a)}"
        case "append" | "write":
            return f"{op.f} {value(op.a)}"
        case "cas":
            return f"cas {value(op.a)} → {value(op.b)}"
        case "read" if op.offset is not None and op.offset != NOTHING:
            return f"offset {op.offset}" if op.process == NOTHING else f"read offset {op.offset}"
        case _:
            return op.f


def answer(op: ShownOp) -> str:
    """Returns what came back."""
    if op.type != "ok":
        return OUTCOME.get(op.type, op.type)
    if op.words:
        return ""
    term = "" if op.epoch is None or op.epoch < 0 else f", term {op.epoch}"
    match op.f:
        case "append":
            return f"→ offset {value(op.offset)}{term}"
        case "read":
            return f"→ {'holds' if op.process == NOTHING else 'saw'} {value(op.a)}{term}"
        case "poll" | "dequeue":
            return f"→ got {value(op.a)}{f' at offset {op.offset}' if op.offset not in (None, NOTHING) else ''}"
        case "tail":
            return f"→ the end is {value(op.offset)}"
        case "cas":
            return f"→ saw {value(op.seen)}, {'swapped' if op.seen == op.a else 'did not swap'}"
        case _:
            return "→ done"
