"""Explains in words what is wrong with a long log: by the plan of the few places that matter, and the operations that speak of them.

Row groups that cannot have such an operation are left out by the least and greatest values that their files state.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np

from jepsen_like.checker.log.passes import FETCHED_MAX
from jepsen_like.checker.log.scan import EXAMPLES_MAX, LogPlan
from jepsen_like.checker.rows.columns import Bools, Columns, Ints
from jepsen_like.checker.rows.gather import Chunk, PartSlice, columns_of
from jepsen_like.checker.rows.tasks import Gathered, load
from jepsen_like.history.files import limits_of
from jepsen_like.history.ops import NEVER, NONE, Action, Op, Outcome

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
class FewPlacesPlan(LogPlan):
    """The plan of a log of which a few places are known."""

    standing: Mapping[int, tuple[int, ...]]
    """Places of values, in their order."""

    def places(self, value: int) -> list[int]:
        """Returns where a value stands."""
        return list(self.standing.get(value, ()))


@attrs.frozen
class Denied:
    """Wanted: operations that began after `after_ns` and deny a record at a place from `first` on, before `end`."""

    first: int
    end: int
    after_ns: int


@attrs.frozen
class Wanted:
    """Operations that speak of these values or places, ended then, said that the log ended there, or deny those."""

    values: frozenset[int]
    offsets: frozenset[int]
    ends: frozenset[int]
    tails: frozenset[int]
    denied: tuple[Denied, ...]

    def rows(self, rows: Columns) -> Ints:
        """Returns which rows are wanted, the first of each kind."""
        ok = rows.type == Outcome.OK
        is_tail = rows.f == Action.TAIL
        of_values = ~is_tail & np.isin(rows.a, list(self.values))
        of_offsets = ~is_tail & ok & np.isin(rows.offset, list(self.offsets))
        known_then = ok & np.isin(rows.t_ret, list(self.ends)) & (rows.t_ret < NEVER)
        ends_there = ok & is_tail & np.isin(rows.offset, list(self.tails))
        chosen = np.flatnonzero(of_values | of_offsets | known_then | ends_there)
        # The appends first: an explanation can do without a read more easily.
        chosen = chosen[np.argsort(rows.f[chosen] != Action.APPEND, kind="stable")][:FETCHED_MAX]
        denies = ok & ((rows.f != Action.READ) | (rows.a == NONE))
        return np.concatenate([chosen, *(_deniers(rows, denies, one) for one in self.denied)])

    def may_be_in(self, limits: Mapping[str, tuple[int, int]]) -> bool:
        """Returns True if any may be among rows whose columns are within these limits."""
        spans = [(one.first, one.end - 1) for one in self.denied]
        spans += [(one, one) for one in self.offsets | self.tails]
        wanted = (
            ("a", [(one, one) for one in self.values]),
            ("offset", spans),
            ("t_ret", [(one, one) for one in self.ends]),
        )
        return any(_meets(limits.get(name), some) for name, some in wanted)


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


def _deniers(rows: Columns, denies: Bools, wanted: Denied) -> Ints:
    within = (rows.offset >= wanted.first) & (rows.offset < wanted.end) & (rows.t_inv > wanted.after_ns)
    found = np.flatnonzero(denies & within)
    # An append is the better example: it was put in the wrong place itself.
    return found[np.argsort(rows.f[found] != Action.APPEND, kind="stable")][:EXAMPLES_MAX]


def _meets(limits: tuple[int, int] | None, spans: Iterable[tuple[int, int]]) -> bool:
    return limits is None or any(first <= limits[1] and last >= limits[0] for first, last in spans)


def first_denier(ops: Sequence[Op], wanted: Denied) -> Op | None:
    """Returns an operation that is wanted; an append if there is one."""
    found = [
        op
        for op in ops
        if op.type is Outcome.OK
        and wanted.first <= op.offset < wanted.end
        and op.t_inv > wanted.after_ns
        and (op.f is not Action.READ or op.a == NONE)
    ]
    return min(found, key=lambda op: (op.f is not Action.APPEND, op.t_inv), default=None)
