"""The records of `__quorumlog_links`, where a target keeps its links: their status, positions and offset maps. Pure.

The topic is compacted. A link has one status. Each partition has one record for each stretch of the source's offsets, so what
compaction leaves is a coarser map, and always the newest position.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from jepsen_like.mirror.link import LinkStage, LinkStatus
from jepsen_like.mirror.offset_map import OffsetMap, RecordRun

LINKS_TOPIC: Final = "__quorumlog_links"
STRETCH: Final = 10_000
"""The offsets of the source that share a record of the map, once compacted."""
RUNS_IN_POINT_MAX: Final = 2_000
_STATUS_START: Final = b'["status",'
Partition = tuple[str, int]
KeyAndValue = tuple[bytes, bytes | None]


@attrs.frozen
class Point:
    """The progress of one transaction in one partition: up to `position` all is copied, and where it stands."""

    epoch: int
    position: int
    runs: tuple[RecordRun, ...] = ()
    begins: bool = False
    """True where the direction opens this partition; with `is_fresh` the copy begins from nothing."""
    is_fresh: bool = False


@attrs.define
class KeptLink:
    """One link as its target keeps it."""

    status: LinkStatus | None = None
    points: dict[Partition, list[Point]] = attrs.field(factory=dict)

    def position(self, partition: Partition) -> int | None:
        """Returns the source's offset up to which this partition is copied; None if it was never begun."""
        points = self.points.get(partition)
        return points[-1].position if points else None

    def copied_end(self, partition: Partition) -> int | None:
        """Returns the target's offset after the newest copied record; None if the partition was never begun."""
        since = self.fresh_epoch(partition)
        points = [point for point in self.points.get(partition, ()) if point.epoch >= since]
        return max((run.target_end for point in points for run in point.runs), default=None)

    def fresh_epoch(self, partition: Partition) -> int:
        """Returns the newest epoch in which the copy began from nothing; older correspondences are void."""
        return max((point.epoch for point in self.points.get(partition, ()) if point.is_fresh), default=0)


def fresh_point(epoch: int, source_start: int) -> Point:
    """Returns the beginning of a copy into an empty partition."""
    return Point(epoch, source_start, (RecordRun(source_start, 0, 0),), begins=True, is_fresh=True)


def point_of_return(epoch: int, other: KeptLink, partition: Partition, end: int | None = None) -> Point:
    """Returns the beginning of the way back: behind what the other direction copied, on both sides.

    With `end` the target's partition holds records of its own behind that, up to there, and they stay.
    """
    copied_end, position = other.copied_end(partition), other.position(partition)
    assert copied_end is not None, "a partition that was begun has runs"
    assert position is not None, "a partition that was begun has a position"
    run = RecordRun(copied_end, position if end is None else end, 0)
    return Point(epoch, copied_end, (run,), begins=True)


def map_of(partition: Partition, own: KeptLink, other: KeptLink) -> OffsetMap:
    """Returns the map of a partition: what this direction copied, and, seen the other way, what the other one did."""
    since = max(own.fresh_epoch(partition), other.fresh_epoch(partition))
    there = [run for each in own.points.get(partition, ()) if each.epoch >= since for run in each.runs]
    back = [run.inverse() for each in other.points.get(partition, ()) if each.epoch >= since for run in each.runs]
    return OffsetMap.of(there + back)


def encode_status(link: str, status: LinkStatus | None) -> KeyAndValue:
    """Returns the record of a link's status; without a status the record deletes it."""
    key = _text(["status", link])
    if status is None:
        return key, None
    return key, _text(
        {"epoch": status.epoch, "state": status.state.value, "holder": status.holder, "topics": list(status.topics)}
    )


def encode_point(link: str, partition: Partition, point: Point) -> KeyAndValue:
    """Returns the record of a partition's progress."""
    at: int | str = f"begin-{point.epoch}" if point.begins else point.position // STRETCH
    runs = point.runs if len(point.runs) <= RUNS_IN_POINT_MAX else (*point.runs[:: _step(point.runs)], point.runs[-1])
    return _text(["point", link, *partition, at]), _text(
        {
            "epoch": point.epoch,
            "position": point.position,
            "runs": [[run.source, run.target, run.count] for run in runs],
            **({"begins": True, "fresh": point.is_fresh} if point.begins else {}),
        }
    )


def _step(runs: tuple[RecordRun, ...]) -> int:
    return -(-len(runs) // RUNS_IN_POINT_MAX)


def decode_links(records: Iterable[tuple[bytes | None, bytes | None]]) -> Mapping[str, KeptLink]:
    """Returns the links that the records of the topic describe, in their order; the newest of a key counts.

    Raises `ValueError` for a record that none of these functions has written.
    """
    links: dict[str, KeptLink] = {}
    for key, value in records:
        kind, name, *rest = json.loads(key or b"null")
        link = links.setdefault(name, KeptLink())
        found: dict[str, Any] | None = None if value is None else json.loads(value)
        if kind == "status":
            link.status = None if found is None else _status(found)
        elif kind == "point" and found is not None:
            topic, number, _ = rest
            link.points.setdefault((topic, number), []).append(_point(found))
    return links


def is_status(key: bytes | None) -> bool:
    """Returns True for the key of a link's status."""
    return key is not None and key.startswith(_STATUS_START)


def _status(found: Mapping[str, Any]) -> LinkStatus:
    return LinkStatus(found["epoch"], LinkStage(found["state"]), found["holder"], tuple(found["topics"]))


def _point(found: Mapping[str, Any]) -> Point:
    runs = tuple(RecordRun(*run) for run in found["runs"])
    return Point(found["epoch"], found["position"], runs, found.get("begins", False), found.get("fresh", False))


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
