"""The objects of a group in packs, so that a task holds no more rows at once than it can.

Groups come from inexact counts without final records, so a group's task counts again: mostly its objects are one pack.
An object larger than a pack is left out: its operations are counted, and it is undecided.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Columns, Ints, begins_operation, count_operations
from jepsen_like.checker.rows.segments import count_values
from jepsen_like.checker.rows.tasks import Gathered, Source, load
from jepsen_like.checker.verdict import Findings, Undecided
from jepsen_like.history.files import read_part
from jepsen_like.history.ops import NEVER, Action, Outcome

OF_SEVERAL_ROWS: Final = (Action.POLL, Action.READ, Action.WRITE, Action.DRAIN)
CHANGES: Final = (Action.SEND, Action.ENQUEUE, Action.ADD, Action.APPEND, Action.WRITE, Action.CALL)


@attrs.frozen(eq=False)
class Packs:
    """Which objects of a group are checked together, sorted, and the rows of those that are too many for a task."""

    packs: tuple[Ints, ...]
    large: Mapping[int, int]
    rows_max: int

    @classmethod
    def of(cls, sources: Sequence[Source], rows_max: int) -> "Packs":
        """From all rows of these objects, a source at a time; a pack has no more than `rows_max` of them."""
        objects, rows = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for source in sources:
            some, times = count_values(_objects_in(source))
            both = np.concatenate([rows, times])
            objects, at = np.unique(np.concatenate([objects, some]), return_inverse=True)
            rows = np.bincount(at.reshape(-1), weights=both, minlength=len(objects)).astype(np.int64)
        is_large = rows > rows_max
        large = dict(zip(objects[is_large].tolist(), rows[is_large].tolist(), strict=True))
        objects, rows = objects[~is_large], rows[~is_large]
        packs = list[Ints]()
        while len(objects):
            count = int(np.searchsorted(np.cumsum(rows), rows_max, side="right"))
            packs.append(objects[:count])
            objects, rows = objects[count:], rows[count:]
        return cls(tuple(packs), large, rows_max)

    def rows(self, sources: Sequence[Source]) -> Iterator[tuple[Ints, Columns]]:
        """Returns the objects and the rows of each pack."""
        for pack in self.packs:
            if len(self.packs) == 1 and not self.large:
                yield pack, load(sources)
            else:
                parts = (load([one]) for one in sources)
                yield pack, Columns.join([rows.where(np.isin(rows.object, pack)) for rows in parts])

    def report_large(self, sources: Sequence[Source], name_of: Callable[[int], str]) -> Findings:
        """Returns how many operations the objects have that are left out, and that they are undecided."""
        findings = Findings()
        for obj, rows in self.large.items():
            parts = (load([one]) for one in sources)
            of_object = Findings()
            for of_part in (part.where(part.object == obj) for part in parts):
                of_object = of_object.plus(_operations(of_part))
            if of_object.ok + of_object.fail + of_object.info:  # else it has final records only, and is not checked
                reason = (
                    f"{name_of(obj)} has {rows:,} rows, which have to be in memory together, and a task holds {self.rows_max:,}: "
                    "it was not checked"
                )
                undecided = (Undecided(obj, reason),)
                findings = findings.plus(attrs.evolve(of_object, objects=1, undecided=undecided))
        return findings


def _objects_in(source: Source) -> Ints:
    match source:
        case Path():
            table = read_part(source, ("object",))
        case Gathered():
            table = source.table((0,))
        case _:
            return source.object
    objects: Ints = table.column("object").to_numpy()
    return objects


def _operations(rows: Columns) -> Findings:
    begins = begins_operation(rows.process, rows.t_inv, rows.t_ret) | ~np.isin(rows.f, OF_SEVERAL_ROWS)
    changes = np.isin(rows.f, CHANGES)
    return attrs.evolve(
        count_operations(rows.type[begins]),
        acked=int((begins & changes & (rows.type == Outcome.OK)).sum()),
        t_first=int(rows.t_inv[changes].min(initial=NEVER)),
    )
