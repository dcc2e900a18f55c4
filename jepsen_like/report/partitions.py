"""Pictures of a queue over time: each partition's leader, ISR and high watermark, then owners and commits by group."""

from collections.abc import Iterable, Sequence
from typing import Final

from markupsafe import Markup

from jepsen_like.report.canvas import Scale, element, fit, line, round_off, ticks
from jepsen_like.report.findings import RunFindings
from jepsen_like.report.overview import LEFT, RIGHT, WIDTH, fault_story, tone
from jepsen_like.report.queue_states import GroupLanes, MembersOverTime, OwnedPartition, PartitionLane, QueueStates

NAME_WIDTH: Final = 8.0
LEADER_HEIGHT: Final = 13.0
REPLICA_HEIGHT: Final = 4.0
MARK_HEIGHT: Final = 26.0
LANE_GAP: Final = 14.0
OWNER_HEIGHT: Final = 15.0
COMMIT_HEIGHT: Final = 5.0
TONES: Final = 6
"""Colours of brokers and members; there may be more of them, so each is named as well."""


def partitions_picture(found: RunFindings, states: QueueStates) -> Markup:
    """One lane per partition as one SVG."""
    brokers = states.brokers
    height_of_lane = LEADER_HEIGHT + len(brokers) * REPLICA_HEIGHT + MARK_HEIGHT + 6
    top = 10.0
    parts: list[Markup] = []
    x = Scale(0.0, found.end_s, LEFT, WIDTH - RIGHT)
    for lane in states.partitions:
        parts += _lane(lane, brokers, x, top, height_of_lane)
        top += height_of_lane + LANE_GAP
    return picture(found, x, top, parts, "Leaders, replicas in sync and high watermarks of each partition over time")


def group_picture(found: RunFindings, group: GroupLanes) -> Markup:
    """One row per partition of a group as one SVG: its owners, and its commits below them."""
    x = Scale(0.0, found.end_s, LEFT, WIDTH - RIGHT)
    top = 14.0
    parts: list[Markup] = []
    bottom = top + len(group.partitions) * (OWNER_HEIGHT + COMMIT_HEIGHT + 6)
    for moment in group.rebalances_s:
        at = x(moment)
        story = element("title", f"members were assigned partitions at {moment:.2f} s")
        parts.append(element("line", story, class_="rebalance", x1=at, x2=at, y1=top - 6, y2=bottom))
    for owned in group.partitions:
        parts += _draw_owned(owned, x, top)
        top += OWNER_HEIGHT + COMMIT_HEIGHT + 6
    return picture(found, x, top, parts, f"Who of {group.name} owned each partition over time, and commits")


def picture(found: RunFindings, x: Scale, bottom: float, parts: Sequence[Markup], label: str) -> Markup:
    """The faults, these parts and the time axis as one SVG that ends at `bottom`."""
    return element(
        "svg",
        *_bands(found, x, bottom),
        *parts,
        *_axis(x, bottom),
        class_="queue",
        viewBox=f"0 0 {WIDTH:.0f} {bottom + 22:.0f}",
        role="img",
        aria_label=label,
    )


def _bands(found: RunFindings, x: Scale, bottom: float) -> Iterable[Markup]:
    for fault in found.faults:
        left = x(fault.begin_s)
        width = max(x(x.high if fault.end_s is None else fault.end_s) - left, 1.5)
        body = element("rect", class_="body", x=left, y=2, width=width, height=bottom - 2)
        story = element("title", fault_story(fault))
        yield element("g", body, story, class_=f"band {tone(fault.kind)} {fault.kind}", data_fault=fault.id)


def _axis(x: Scale, bottom: float) -> Iterable[Markup]:
    for value in ticks(x.high, 12):
        yield element("text", f"{value:g} s", class_="tick", x=x(value), y=bottom + 15, text_anchor="middle")


def lane_name(text: str, y: float) -> Markup:
    """Returns what a row is, on its left."""
    return element("text", text, class_="lane-name", x=LEFT - NAME_WIDTH, y=y, text_anchor="end")


def _lane(lane: PartitionLane, brokers: Sequence[int], x: Scale, top: float, height: float) -> Iterable[Markup]:
    """Leader above, a thin line for each replica in sync, the high watermark below."""
    yield lane_name(lane.name, top + 10)
    yield element("rect", class_="lane", x=LEFT, y=top, width=WIDTH - RIGHT - LEFT, height=height, rx=2)
    for span in lane.leaders:
        left, right = x(span.begin_s), x(x.high if span.end_s is None else span.end_s)
        if right <= left and span.end_s is not None:
            continue
        story = element("title", f"{lane.name}: n{span.broker} leads in epoch {span.epoch} from {span.begin_s:.2f} s")
        look = f"of-broker t{brokers.index(span.broker) % TONES}"
        yield element("rect", story, class_=look, x=left, y=top, width=max(right - left, 1.0), height=LEADER_HEIGHT)
        if text := fit((f"n{span.broker} epoch {span.epoch}", f"n{span.broker}"), right - left - 8):
            yield element("text", text, class_="role-text", x=left + 4, y=top + 10)
    yield from _replicas(lane.name, lane.in_sync, "in sync", "in-sync", brokers, x, top + LEADER_HEIGHT + 2)
    yield from _replicas(lane.name, lane.eligible, "eligible to lead", "eligible", brokers, x, top + LEADER_HEIGHT + 2)
    yield from _marks(lane, x, top + height - MARK_HEIGHT, MARK_HEIGHT - 2)
    for moment in lane.unclean_s:
        at = x(moment)
        story = element("title", f"{lane.name}: at {moment:.2f} s a replica was elected that was not in sync")
        yield element("path", story, class_="culprit-mark", d=f"M{at:.1f} {top + LEADER_HEIGHT:.1f}l-5 -9h10z")


def _replicas(
    name: str, sets: MembersOverTime, state: str, look: str, brokers: Sequence[int], x: Scale, top: float
) -> Iterable[Markup]:
    """A thin line for each broker while it is a member."""
    ends = [*(later for later, _ in sets[1:]), x.high]
    for place, broker in enumerate(brokers):
        y = top + place * REPLICA_HEIGHT
        begin: float | None = None
        for (at_s, members), until in zip(sets, ends[: len(sets)], strict=True):
            if broker in members and begin is None:
                begin = at_s
            if begin is not None and (broker not in members or until >= x.high):
                end = until if broker in members else at_s
                story = element("title", f"{name}: n{broker} {state} from {begin:.2f} s to {end:.2f} s")
                shape = {"x": x(begin), "y": y, "width": max(x(end) - x(begin), 1.0), "height": REPLICA_HEIGHT - 1}
                yield element("rect", story, class_=f"of-broker t{place % TONES} {look}", **shape)
                begin = None


def _marks(lane: PartitionLane, x: Scale, top: float, height: float) -> Iterable[Markup]:
    if not lane.high_watermarks:
        return
    high = max(value for _, value in lane.high_watermarks)
    y = Scale(0.0, max(float(high), 1.0), top + height, top)
    yield element("path", class_="watermark", d=line((x(at), y(float(value))) for at, value in lane.high_watermarks))
    yield element("text", round_off(high), class_="tick", x=LEFT - NAME_WIDTH, y=top + 10, text_anchor="end")


def _draw_owned(owned: OwnedPartition, x: Scale, top: float) -> Iterable[Markup]:
    yield lane_name(owned.name, top + 11)
    yield element("rect", class_="lane", x=LEFT, y=top, width=WIDTH - RIGHT - LEFT, height=OWNER_HEIGHT, rx=2)
    for number, span in enumerate(owned.owners):
        end = x.high if span.end_s is None else span.end_s
        left, right = x(span.begin_s), x(end)
        together = any(
            other.begin_s < end and (other.end_s is None or other.end_s > span.begin_s)
            for at, other in enumerate(owned.owners)
            if at != number and other.member != span.member
        )
        generation = f" in generation {span.generation}" if span.generation >= 0 else ""
        until = ", which it lost" if span.was_lost else ""
        story = element(
            "title", f"{owned.name}: member {span.member}{generation} from {span.begin_s:.2f} s to {end:.2f} s{until}"
        )
        look = f"owner t{span.member % TONES}{' together' if together else ''}{' was-lost' if span.was_lost else ''}"
        yield element("rect", story, class_=look, x=left, y=top, width=max(right - left, 1.5), height=OWNER_HEIGHT)
        if text := fit((f"m{span.member}",), right - left - 6):
            yield element("text", text, class_="role-text", x=left + 3, y=top + 11)
    for at_s, offset, is_acked in _by_pixel(owned, x):
        at = x(at_s)
        how = "was acknowledged" if is_acked else "was not acknowledged"
        story = element("title", f"{owned.name}: a commit of {offset:,} at {at_s:.2f} s {how}")
        look, begin = "commit" if is_acked else "commit failed", top + OWNER_HEIGHT + 1
        yield element("line", story, class_=look, x1=at, x2=at, y1=begin, y2=begin + COMMIT_HEIGHT)


def _by_pixel(owned: OwnedPartition, x: Scale) -> Iterable[tuple[float, int, bool]]:
    """Of the commits that share a pixel the last, those without an acknowledgement first of all."""
    kept = {(round(x(at_s)), is_acked): (at_s, offset, is_acked) for at_s, offset, is_acked in owned.commits}
    return sorted(kept.values())
