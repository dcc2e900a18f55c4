"""The operations of a log that explanations are made of: which are wanted, and which rows they are."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.log.scan import EXAMPLES_MAX, at_most
from jepsen_like.checker.rows.columns import Columns, Ints
from jepsen_like.history.ops import NEVER, NONE, Action, Op, Outcome

FETCHED_MAX: Final = 200
"""Operations of one part of a log that explanations get."""


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
    tails: frozenset[int] = frozenset()
    denied: tuple[Denied, ...] = ()

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
        return np.concatenate([chosen, *(_deniers(rows, one) for one in self.denied)])

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


def _deniers(rows: Columns, wanted: Denied) -> Ints:
    least = at_most(rows)
    found = np.flatnonzero((least >= wanted.first) & (least < wanted.end) & (rows.t_inv > wanted.after_ns))
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
