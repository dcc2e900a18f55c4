"""Explains in words what is wrong with a long log: by the plan of the few places that matter, and the operations that speak of them.

Row groups that cannot have such an operation are left out by the least and greatest values that their files state.
"""

from collections.abc import Mapping
from typing import Any, Final

import attrs
import numpy as np

from jepsen_like.checker.log.scan import LogContent
from jepsen_like.checker.log.witnesses import FETCHED_MAX, Wanted
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.gather import Chunk, PartSlice, columns_of
from jepsen_like.checker.rows.tasks import Gathered, load
from jepsen_like.history.files import limits_of
from jepsen_like.history.ops import NONE, Op

SPAN_MAX: Final = 64


class FewPlaces:
    """A column of a log of which a few places are known: as an array, as far as explanations use one."""

    def __init__(self, known: Mapping[int, int], size: int) -> None:
        self._known = known
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            begin, end, _ = place.indices(self._size)
            return np.array([self[one] for one in range(begin, min(end, begin + SPAN_MAX))], np.int64)
        return np.int64(self._known.get(int(place), NONE))


@attrs.frozen(eq=False, kw_only=True)
class FewPlacesContent(LogContent):
    """The content of a log of which a few places are known."""

    standing: Mapping[int, tuple[int, ...]]
    """Places of values, in their order."""

    def places(self, value: int) -> list[int]:
        """Returns where a value stands."""
        return list(self.standing.get(value, ()))


@attrs.frozen
class SpeakTask:
    """Bring what is wanted of one chunk of a log."""

    source: Chunk | Gathered | Columns
    wanted: Wanted

    def execute(self) -> list[Op]:
        """See `Task`."""
        if isinstance(self.source, Gathered | Columns):
            return self._find(load([self.source]))
        kept = [one for part in self.source if (one := self._prune(part)) is not None]
        return [op for one in kept for op in self._find(columns_of((one,)))][: 2 * FETCHED_MAX]

    def _find(self, rows: Columns) -> list[Op]:
        return [rows.op(row) for row in dict.fromkeys(self.wanted.rows(rows).tolist())]

    def _prune(self, part: PartSlice) -> PartSlice | None:
        """The row groups of a part file that may have something wanted."""
        limits = limits_of(part.path, ("a", "offset", "t_ret"))
        groups = tuple(number for number in part.groups if self.wanted.may_be_in(limits[number]))
        return attrs.evolve(part, groups=groups) if groups else None
