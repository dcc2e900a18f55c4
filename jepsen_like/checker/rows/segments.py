"""Running maxima over many short sequences at once, without a Python loop over them.

A sequence is lifted above all earlier ones by adding a multiple of one span to its values; then one running maximum over
everything is a running maximum of each. Times are first made small: subtracted, or ranked where even that is too wide.
"""

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Ints
from jepsen_like.history.ops import NEVER

LIFT_MAX = 2**62
PACKED_BITS = 63
TABLE_SPAN_MAX = 1 << 16
"""Values that lie no further apart than this are counted in a table."""


@attrs.frozen(eq=False)
class SmallTimes:
    """Starts and ends in the same order as before, all in `[1, span - 2]`; `NEVER` became `span - 2`.

    0 is left for "before everything", `span - 1` for "after everything". Equal stays equal.
    """

    start: Ints
    end: Ints
    span: int
    first: int = 1
    """The moments that became 1."""
    moments: Ints | None = None
    """The place where times were ranked: the moments, of which the first became 1."""

    def below(self, moment: int) -> int:
        """Returns a small time that lies below all that became of times after `moment`, and not below the others."""
        if self.moments is not None:
            return int(np.searchsorted(self.moments, moment, side="right"))
        return min(max(moment - (self.first - 1), 0), self.span - 3)

    def above(self, moment: int) -> int:
        """Returns a small time that lies above all that became of times before `moment`, and not above the others."""
        if self.moments is not None:
            return min(int(np.searchsorted(self.moments, moment, side="left")) + 1, self.span - 2)
        return min(max(moment - (self.first - 1), 0), self.span - 2)


def places_in_groups(keys: Ints) -> Ints:
    """Returns for each row how many rows before it have its key; equal keys are next to each other."""
    begins = group_starts(keys)
    return np.arange(len(keys)) - np.repeat(begins, np.diff(np.append(begins, len(keys))))


def small_times(t_inv: Ints, t_ret: Ints, sequences: int) -> SmallTimes:
    """Make times small enough that `sequences` of them can be lifted."""
    if not len(t_inv):
        return SmallTimes(t_inv, t_ret, 3)
    unended = t_ret >= NEVER
    first = int(min(t_inv.min(), t_ret.min()))
    last = int(max(t_inv.max(), np.where(unended, first, t_ret).max()))
    span = last - first + 4
    if span * (sequences + 1) < LIFT_MAX:
        start = t_inv - (first - 1)
        return SmallTimes(start, np.where(unended, span - 2, t_ret - (first - 1)), span, first)
    moments, ranks = dense(np.concatenate([t_inv, np.where(unended, last + 1, t_ret)]))
    ranks += 1
    span = len(moments) + (2 if unended.any() else 3)
    return SmallTimes(ranks[: len(t_inv)], ranks[len(t_inv) :], span, moments=moments)


def distinct(values: Ints) -> Ints:
    """Returns the distinct values, sorted. (numpy's own `unique` hashes them, which is many times slower.)"""
    ordered_values = np.sort(values)
    return ordered_values[group_starts(ordered_values)]


def ordering(keys: Ints) -> Ints:
    """Returns the stable order of the keys; where key and position fit one number, vector instructions sort it."""
    if not len(keys):
        return np.zeros(0, np.int64)
    low, bits = int(keys.min()), len(keys).bit_length()
    if (int(keys.max()) - low).bit_length() + bits > PACKED_BITS:
        return np.argsort(keys, kind="stable")
    packed = ((keys - low) << bits) | np.arange(len(keys))
    packed.sort()
    packed &= (1 << bits) - 1
    return packed


def dense(values: Ints) -> tuple[Ints, Ints]:
    """Returns the distinct values, sorted, and for each element the position of its value among them."""
    if not len(values):
        return values, np.zeros(0, np.int64)
    low = int(values.min())
    span = int(values.max()) - low + 1
    if span <= TABLE_SPAN_MAX:
        there = np.zeros(span, np.bool_)
        there[values - low] = True
        return np.flatnonzero(there) + low, (np.cumsum(there) - 1)[values - low]
    order = ordering(values)
    in_order = values[order]
    begins = group_starts(in_order)
    position = np.empty(len(values), np.int64)
    position[order] = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(values))))
    return in_order[begins], position


def count_values(values: Ints) -> tuple[Ints, Ints]:
    """Returns the distinct values, sorted, and how often each is there."""
    if len(values) and int(values.max()) - (low := int(values.min())) < TABLE_SPAN_MAX:
        times = np.bincount(values - low)
        there = np.flatnonzero(times)
        return there + low, times[there]
    in_order = np.sort(values)
    begins = group_starts(in_order)
    return in_order[begins], np.diff(np.append(begins, len(values)))


def positions(values: Ints, among: Ints) -> Ints:
    """Returns the position of each value in `among`, which is sorted; -1 for those that are not there."""
    if not len(among):
        return np.full(len(values), -1)
    low, high = int(among[0]), int(among[-1])
    if high - low < TABLE_SPAN_MAX:
        table = np.full(high - low + 3, -1)
        table[among - low + 1] = np.arange(len(among))
        return table[np.clip(values, low - 1, high + 1) - (low - 1)]
    at = np.minimum(np.searchsorted(among, values), len(among) - 1)
    return np.where(among[at] == values, at, -1)


def dense_pairs(major: Ints, minor: Ints) -> tuple[Ints, Ints, Ints]:
    """`dense` for pairs by (dense) major, then minor: the distinct ones as two arrays, and each element's position."""
    if not len(minor):
        return major, minor, major
    low = int(minor.min())
    width = int(minor.max()) - low + 1
    if width * (int(major.max()) + 1) < LIFT_MAX:
        code, position = dense(major * width + (minor - low))
        return code // width, code % width + low, position
    values, rank = dense(minor)
    code, position = dense(major * len(values) + rank)
    return code // len(values), values[code % len(values)], position


def group_starts(sorted_keys: Ints) -> Ints:
    """Returns where each run of equal keys begins."""
    if not len(sorted_keys):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.concatenate([[True], sorted_keys[1:] != sorted_keys[:-1]])).astype(np.int64)


def lifted_maximum_before(values: Ints, sequence: Ints, span: int) -> tuple[Ints, Ints]:
    """Returns for each element, sorted by sequence, the largest lifted value up to and with it, and that before it.

    Compare both with `other + sequence * span`: what an earlier sequence left is below everything of a later one.
    """
    running = sequence * span
    running += values
    np.maximum.accumulate(running, out=running)
    before = np.concatenate([np.full(1, -1, np.int64), running[:-1]])
    return running, before
