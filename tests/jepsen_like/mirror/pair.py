"""A model of two clusters and a link: logs in memory, and the mirror's own decider, map and records between them.

A log is a list of places. A place holds a value that readers of committed records see, or None for what they do not: a
marker, an aborted record, a gap of compaction. Values are unique, so lost, doubled and skipped records show.
"""

import random
from collections.abc import Iterator

import attrs

from jepsen_like.mirror.core import (
    AppendRecords,
    CommitProgress,
    Effect,
    GroupsFetched,
    MirrorCore,
    RecordsAppended,
    RecordsFetched,
    TransactionCommitted,
)
from jepsen_like.mirror.kept import (
    KeptLink,
    decode_links,
    encode_point,
    encode_status,
    fresh_point,
    map_of,
    point_of_return,
)
from jepsen_like.mirror.link import LinkStage, LinkStatus, opening_epoch, switching_epoch
from jepsen_like.mirror.offset_map import RecordRun

LINK = "l"
AT = ("t", 0)
Value = int | None


@attrs.frozen
class SourceBatch:
    """Values from a log, with where they stand."""

    values: tuple[int, ...]
    runs: tuple[RecordRun, ...]
    end: int

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def size(self) -> int:
        return 1 << 18


@attrs.define
class ModelCluster:
    """One cluster: a partition, the topic of links, and a group's position."""

    log: list[Value] = attrs.field(factory=list)
    links: list[tuple[bytes, bytes | None]] = attrs.field(factory=list)
    position: int = 0
    """The committed offset of the one group."""

    def read_links(self) -> KeptLink:
        return decode_links(self.links).get(LINK, KeptLink())

    def compact_links(self) -> None:
        """Leave the newest record of each key, in its place."""
        newest = {key: at for at, (key, _) in enumerate(self.links)}
        self.links = [record for at, record in enumerate(self.links) if newest[record[0]] == at]

    def visible(self, since: int = 0) -> list[int]:
        return [value for value in self.log[since:] if value is not None]


@attrs.define
class ModelMirror:
    """A mirror of one direction: what it has sent in its open transaction is in the target's log, undecided."""

    source: ModelCluster
    target: ModelCluster
    core: MirrorCore
    orders: list[Effect] = attrs.field(factory=list)
    undecided: dict[int, int] = attrs.field(factory=dict)
    knows_group: bool = False

    def fetch(self, count: int) -> None:
        """Read some places of the source."""
        offset = self.core.offset_to_fetch(AT)
        if offset is None:
            return
        taken = list(enumerate(self.source.log[offset : offset + count], offset))
        batches = []
        for chunk in (taken[at : at + 3] for at in range(0, len(taken), 3)):
            seen = [(place, value) for place, value in chunk if value is not None]
            if seen:
                runs = tuple(RecordRun(place, number, 1) for number, (place, _) in enumerate(seen))
                batches.append(SourceBatch(tuple(value for _, value in seen), runs, seen[-1][0] + 1))
        event = RecordsFetched(AT, tuple(batches), offset + len(taken), len(self.source.log))
        self.orders += self.core.step(event)

    def read_group(self) -> None:
        self.knows_group = True
        self.orders += self.core.step(GroupsFetched({"g": {AT: self.source.position}}))

    def carry_out(self) -> None:
        """Do the next order; each leaves the target as a real transaction would."""
        if not self.orders:
            return
        match self.orders.pop(0):
            case AppendRecords(batches=batches):
                bases: list[int] = []
                for batch in batches.get(AT, ()):
                    assert isinstance(batch, SourceBatch)
                    bases.append(len(self.target.log))
                    for value in batch.values:
                        self.undecided[len(self.target.log)] = value
                        self.target.log.append(None)
                self.orders += self.core.step(RecordsAppended({AT: tuple(bases)} if bases else {}))
            case CommitProgress(points=points, offsets=offsets):
                if self.undecided:
                    self.target.log.append(None)  # the marker
                for place, value in self.undecided.items():
                    self.target.log[place] = value
                self.undecided = {}
                for at, point in points.items():
                    self.target.links.append(encode_point(LINK, at, point))
                if "g" in offsets:
                    self.target.position = offsets["g"][AT]
                self.orders += self.core.step(TransactionCommitted())

    def die(self) -> None:
        """End; the next holder aborts the open transaction, whose records stay as places that no one sees."""
        if self.undecided:
            self.target.log.append(None)
        self.undecided = {}


def open_model(source: ModelCluster, target: ModelCluster, holder: str) -> ModelMirror:
    """Returns a mirror. Raises `LinkRefused`."""
    own, other = target.read_links(), source.read_links()
    epoch = opening_epoch(LINK, own.status, other.status)
    if own.status is None or own.status.state is LinkStage.CUT:
        returns = other.status is not None and AT in other.points
        point = point_of_return(epoch, other, AT) if returns else fresh_point(epoch, 0)
        own.points.setdefault(AT, []).append(point)
        target.links.append(encode_point(LINK, AT, point))
    target.links.append(encode_status(LINK, LinkStatus(epoch, LinkStage.OPEN, holder, ("t",))))
    position = own.position(AT)
    assert position is not None
    return ModelMirror(source, target, MirrorCore(epoch, {AT: (position, map_of(AT, own, other))}))


def cut_model(target: ModelCluster) -> None:
    """Cut the link. Raises `LinkRefused`."""
    epoch = switching_epoch(LINK, target.read_links().status)
    target.links.append(encode_status(LINK, LinkStatus(epoch, LinkStage.CUT, "switch", ("t",))))


def write_values(cluster: ModelCluster, values: Iterator[int], rng: random.Random, count: int) -> None:
    """A client writes records, some of which readers never see."""
    for _ in range(count):
        cluster.log.append(None if rng.random() < 0.3 else next(values))
