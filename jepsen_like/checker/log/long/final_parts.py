"""The final logs of a long log, read from the part files of the dump a range of places at a time.

A dump has the records of each node in the order of their places, so that few part files have records of a range. Which
have, and where the log of each node begins and ends, one look at all of them tells (`DumpCensusTask`).
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np

from jepsen_like.checker.log.long.parts import buckets_of
from jepsen_like.checker.rows.columns import Ints
from jepsen_like.checker.rows.final_logs import DUMP, FinalLog, log_between, require_span
from jepsen_like.history.files import Kept, UnreadableHistory, read_dump_part
from jepsen_like.history.ops import NEVER, NONE


@attrs.frozen
class DumpPart:
    """The records of one node in a part file: where they lie, and how many they are."""

    path: Path
    node: int
    rows: int
    first: int
    last: int
    """Inclusive."""
    buckets: tuple[tuple[int, Ints | None], ...] = attrs.field(eq=False)
    """By range, the buckets of the values there."""


@attrs.frozen
class DumpCensusTask:
    """Look at which records of a log some part files of a dump have."""

    object: int
    paths: tuple[Path, ...]
    starts: Mapping[int, int]
    """The place where the log of a node begins; records before that do not count."""
    places: int
    """In each range."""

    def execute(self) -> list[DumpPart]:
        """See `Task`."""
        found = []
        for path in self.paths:
            node, offset, _, value = _records(path, self.object, self.starts)
            if len(node) and int(node.min()) < 0:
                raise UnreadableHistory(Path(DUMP), "has records of no node")
            for number in np.flatnonzero(np.bincount(node)).tolist():
                mine = node == number
                there = offset[mine]
                of_ranges = self._by_range(there, value[mine])
                found.append(DumpPart(path, number, len(there), int(there.min()), int(there.max()), of_ranges))
        return found

    def _by_range(self, offset: Ints, value: Ints) -> tuple[tuple[int, Ints | None], ...]:
        number = offset // self.places
        order = np.argsort(number, kind="stable")
        numbers, begins = np.unique(number[order], return_index=True)
        ends = np.append(begins[1:], len(order)).tolist()
        return tuple(
            (one, buckets_of(value[order[begin:end]]))
            for one, begin, end in zip(numbers.tolist(), begins.tolist(), ends, strict=True)
        )


@attrs.frozen
class FinalParts:
    """The final logs of all nodes in files."""

    object: int
    parts: tuple[DumpPart, ...]
    nodes: Mapping[int, tuple[int, int]]
    """Per node: its first offset and its end."""
    starts: Mapping[int, int]
    expires: bool

    @classmethod
    def of(cls, obj: int, parts: Iterable[DumpPart], kept: Kept | None, *, expires: bool) -> "FinalParts":
        """From what was found in all part files. Raises `UnreadableHistory` if that is not a whole log of each node."""
        by_node: dict[int, list[DumpPart]] = {}
        every = tuple(parts)
        for part in every:
            by_node.setdefault(part.node, []).append(part)
        starts = dict(kept.starts) if kept is not None else {}
        nodes = {}
        for node in sorted({*by_node, *starts}):
            mine = by_node.get(node, [])
            least, last = min((one.first for one in mine), default=NEVER), max((one.last for one in mine), default=NONE)
            nodes[node] = require_span(node, sum(one.rows for one in mine), least, last, kept)
        return cls(obj, every, nodes, starts, expires)

    @property
    def end(self) -> int:
        """Returns the end of the longest."""
        return max((end for _, end in self.nodes.values()), default=0)

    def within(self, begin: int, end: int) -> "FinalParts":
        """Returns the same with the part files only that have records of these places."""
        return attrs.evolve(self, parts=tuple(one for one in self.parts if one.first < end and one.last >= begin))

    def read(self, begin: int, end: int) -> list[FinalLog]:
        """Returns the records of these places, which are counted from `begin` on. Raises `UnreadableHistory`."""
        found: dict[int, list[Sequence[Ints]]] = {}
        for path in dict.fromkeys(one.path for one in self.parts):
            of_node, *columns = _records(path, self.object, self.starts)
            for number in self.nodes:
                mine = np.flatnonzero((of_node == number) & (columns[0] >= begin) & (columns[0] < end))
                if len(mine):
                    found.setdefault(number, []).append([column[mine] for column in columns])
        logs = []
        for node, (first, its_end) in self.nodes.items():
            first, its_end = max(first, begin), min(its_end, end)
            if first >= its_end:
                continue
            log = log_between(node, first, its_end, found.get(node, ()))
            logs.append(attrs.evolve(log, first=first - begin))
        return logs


def _records(path: Path, obj: int, starts: Mapping[int, int]) -> tuple[Ints, Ints, Ints, Ints]:
    """Node, offset, epoch and value of the records of a log in a part file."""
    table = read_dump_part(path)
    objects, node, offset, epoch, value = (
        table.column(name).to_numpy() for name in ("object", "node", "offset", "epoch", "a")
    )
    mine = objects == obj
    for number, start in starts.items():
        if start:
            mine &= (node != number) | (offset >= start)
    if not mine.all():
        node, offset, epoch, value = node[mine], offset[mine], epoch[mine], value[mine]
    return node.astype(np.int64), offset, epoch.astype(np.int64), value
