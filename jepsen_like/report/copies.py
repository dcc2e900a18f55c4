"""A picture of a broker group over time: each broker's role and epoch, copies, confirmed ends; faults as bands."""

from collections.abc import Iterable, Sequence
from typing import Final

from markupsafe import Markup

from jepsen_like.report.canvas import Scale, element, fit, line, round_off
from jepsen_like.report.copy_states import BrokerCopy, CopyGroup, Points, RoleSpan
from jepsen_like.report.findings import RunFindings
from jepsen_like.report.overview import LEFT, RIGHT, WIDTH, drawn_as, held_spans
from jepsen_like.report.partitions import NAME_WIDTH, TONES, lane_name, picture

ROLE_HEIGHT: Final = 15.0
ROLE_GAP: Final = 4.0
ENDS_HEIGHT: Final = 120.0


def copies_picture(found: RunFindings, group: CopyGroup) -> Markup:
    """The whole group as one SVG."""
    x = Scale(0.0, found.end_s, LEFT, WIDTH - RIGHT)
    top = 10.0
    parts: list[Markup] = []
    for place, copy in enumerate(group.copies):
        covered = [fault.begin_s for fault in found.faults if copy.node in fault.nodes and drawn_as(fault.kind)]
        parts += _roles(copy, place, covered, x, top)
        own = [fault for fault in found.faults if copy.node in fault.nodes]
        parts += held_spans(own, f"n{copy.node}", x, top, ROLE_HEIGHT)
        top += ROLE_HEIGHT + ROLE_GAP
    top += 8
    parts += _ends(group, x, top)
    return picture(
        found, x, top + ENDS_HEIGHT, parts, "Roles of the brokers over time, and how far each copy of the log was"
    )


def _roles(copy: BrokerCopy, place: int, covered: Sequence[float], x: Scale, top: float) -> Iterable[Markup]:
    yield lane_name(f"n{copy.node}", top + 11)
    yield element("rect", class_="lane", x=LEFT, y=top, width=WIDTH - RIGHT - LEFT, height=ROLE_HEIGHT, rx=2)
    for span in copy.roles:
        left, right = max(x(span.begin_s), LEFT), x(x.high if span.end_s is None else span.end_s)
        if right > left:
            seen_until = min((x(begin) for begin in covered if begin > span.begin_s), default=right)
            yield from _role(copy.node, span, place, (left, right, min(seen_until, right)), top)


def _role(node: int, span: RoleSpan, place: int, reach: tuple[float, float, float], top: float) -> Iterable[Markup]:
    """`reach` is where it begins and ends, and up to where a label is not covered by a fault."""
    left, right, seen_until = reach
    role = "master" if span.is_master else "slave"
    story = element("title", f"n{node}: {role} in epoch {span.epoch} from {span.begin_s:.2f} s")
    look = f"copy-role {role} t{place % TONES}"
    yield element("rect", story, class_=look, x=left, y=top, width=max(right - left, 1.0), height=ROLE_HEIGHT)
    if text := fit((f"{role}, epoch {span.epoch}", role), seen_until - left - 8):
        yield element("text", text, class_=f"copy-text {role}", x=left + 4, y=top + 11)


def _ends(group: CopyGroup, x: Scale, top: float) -> Iterable[Markup]:
    y = Scale(0.0, max(float(group.end), 1.0), top + ENDS_HEIGHT - 2, top)
    yield element("rect", class_="lane", x=LEFT, y=top, width=WIDTH - RIGHT - LEFT, height=ENDS_HEIGHT, rx=2)
    yield element(
        "text", f"{round_off(group.end)} B", class_="tick", x=LEFT - NAME_WIDTH, y=top + 10, text_anchor="end"
    )
    for copy in group.copies:
        for points in _held_to_the_end(copy.confirmed, is_held=copy.holds(as_master=True), end_s=x.high):
            story = element(
                "title", f"n{copy.node} as master: confirmed up to {points[-1][1]:,} at {points[-1][0]:.2f} s"
            )
            yield _line(points, x, y, story, "confirmed")
    for place, copy in enumerate(group.copies):
        for points in _held_to_the_end(copy.ends, is_held=copy.holds(), end_s=x.high):
            story = element("title", f"n{copy.node}: log up to {points[-1][1]:,} at {points[-1][0]:.2f} s")
            yield _line(points, x, y, story, f"copy-end t{place % TONES}")
        for at_s, before, after in copy.cuts:
            story = element("title", f"n{copy.node}: at {at_s:.2f} s its log ended at {after:,}, after {before:,}")
            yield element("path", story, class_="culprit-mark", d=f"M{x(at_s):.1f} {y(after):.1f}l-5 -9h10z")


def _line(points: Iterable[tuple[float, int]], x: Scale, y: Scale, story: Markup, look: str) -> Markup:
    return element(
        "path", story, class_=look, d=line((max(x(at_s), LEFT), y(float(offset))) for at_s, offset in points)
    )


def _held_to_the_end(lines: Sequence[Points], *, is_held: bool, end_s: float) -> Sequence[Points]:
    """The last line goes on to the end of the run, if what it shows still held then."""
    if not lines or not is_held or lines[-1][-1][0] >= end_s:
        return lines
    return (*lines[:-1], (*lines[-1], (end_s, lines[-1][-1][1])))
