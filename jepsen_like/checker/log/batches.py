"""Batches of one log: all records of an append stand one after the other in their order, or none of them does.

Nothing sees half of a batch: the length of the log goes from its first place to behind its last one at once. So an operation
that saw one record of a batch knows a length behind all of it, and one that saw a place of it empty denies all of it.

Which batches were acknowledged, and where, their rows tell. A batch of unknown outcome is found by its values at places that
no acknowledged append fills; of values that other appends of unknown outcome sent as well it is not told whose they are.
"""

from collections.abc import Sequence

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Bools, Columns, Ints
from jepsen_like.history.ops import NONE, Action, Outcome


@attrs.frozen(eq=False)
class BatchRows:
    """The batches of a piece of a history, and those acknowledged at places that do not follow each other."""

    batch: Ints
    """For each row the first row of its batch, `NONE` for a record that was sent alone or whose batch is not whole here."""
    starts: Ints
    ends: Ints
    """The place where the acknowledged ones stand."""
    scattered: Ints
    """First rows of acknowledged batches whose places do not follow each other."""


def batches_of(rows: Columns, begins: Bools) -> BatchRows:
    """Returns the batches among the appends of `rows`; `begins` is true where a row is the first of its operation."""
    batch = np.full(len(rows), NONE, np.int64)
    nothing = np.zeros(0, np.int64)
    sent_together = (rows.f == Action.APPEND) & (rows.count > 1) & (rows.type != Outcome.FAIL)
    first = np.flatnonzero(begins & sent_together)
    if not len(first):
        return BatchRows(batch, nothing, nothing, nothing)
    next_first = np.append(np.flatnonzero(begins), len(rows))
    size = next_first[np.searchsorted(next_first, first, side="right")] - first
    whole = size == rows.count[first]
    first, size = first[whole], size[whole]
    own = np.repeat(first, size)
    members = own + np.arange(len(own)) - np.repeat(np.cumsum(size) - size, size)
    batch[members] = own
    acked = rows.type[first] == Outcome.OK
    apart = (rows.type[members] == Outcome.OK) & (rows.offset[members] - rows.offset[own] != members - own)
    scattered = np.unique(own[apart])
    sound = acked & ~np.isin(first, scattered)
    starts = rows.offset[first[sound]]
    return BatchRows(batch, starts, starts + size[sound], scattered)


@attrs.frozen(eq=False)
class TornBatch:
    """A batch of unknown outcome of which not all records stand one after the other in their order: one that does, and where."""

    offset: int
    value: int
    values: tuple[int, ...]
    """All of the batch, in their order."""


def placed_batches(
    batch: Ints, value: Ints, content: Ints, holes: Ints, known_from: int | None
) -> tuple[list[TornBatch], Ints, Ints]:
    """Returns where batches of unknown outcome stand: the torn ones, and starts and ends of the others.

    `batch` and `value` are columns of all appends of unknown outcome, the records of a batch in their order. `content[o]` is
    the value at a place and `NONE` where nothing is known; from `known_from` on everything is (None: nowhere), so that a
    record which is not there is nowhere. Fills in what is known to stand between others of a batch.
    """
    of_batch = np.flatnonzero(batch != NONE)
    nothing = np.zeros(0, np.int64)
    if not len(of_batch):
        return [], nothing, nothing
    place = _places(value, content, holes)
    _, inverse, times = np.unique(value, return_inverse=True, return_counts=True)
    seen = (place[of_batch] != NONE) & (times[inverse[of_batch]] == 1)
    begins = np.flatnonzero(np.append(True, np.diff(batch[of_batch]) != 0))
    ends = np.append(begins[1:], len(of_batch))
    base = place[of_batch] - (np.arange(len(of_batch)) - np.repeat(begins, ends - begins))
    torn: list[TornBatch] = []
    spans: list[tuple[int, int]] = []
    for number in np.flatnonzero(np.logical_or.reduceat(seen, begins)).tolist():
        mine = slice(begins[number], ends[number])
        members, of_clear = of_batch[mine], base[mine][seen[mine]]
        start, values = int(of_clear[0]), value[members]
        if start < 0 or (of_clear != start).any() or _is_refuted(start, values, content, holes, known_from):
            at = members[np.flatnonzero(seen[mine])[0]]
            torn.append(TornBatch(int(place[at]), int(value[at]), tuple(values.tolist())))
            continue
        there = content[start : start + len(values)]
        there[:] = values[: len(there)]
        spans.append((start, start + len(values)))
    found = np.array(spans, np.int64).reshape(-1, 2)
    return torn, found[:, 0], found[:, 1]


def _is_refuted(start: int, values: Ints, content: Ints, holes: Ints, known_from: int | None) -> bool:
    """Returns True if a batch cannot stand at `start`: an acknowledged append or another value does, or nothing."""
    there = content[start : start + len(values)]
    vacated = np.searchsorted(holes, start + len(there)) - np.searchsorted(holes, start)
    if vacated < len(there):
        return True
    vacant = there == NONE
    if (~vacant & (there != values[: len(there)])).any():
        return True
    places = np.arange(start, start + len(values))
    empty = np.append(vacant, np.ones(len(values) - len(there), np.bool_))
    return known_from is not None and bool((places[empty] >= known_from).any())


def _places(value: Ints, content: Ints, holes: Ints) -> Ints:
    """At which hole each value stands (the first of them), `NONE` if at none."""
    standing = content[holes]
    order = np.argsort(standing, kind="stable")
    at = np.searchsorted(standing[order], value)
    within = at < len(order)
    found = np.full(len(value), NONE, np.int64)
    found[within] = np.where(standing[order[at[within]]] == value[within], holes[order[at[within]]], np.int64(NONE))
    return found


def joined_spans(starts: Sequence[Ints], ends: Sequence[Ints]) -> Ints:
    """Returns the batches of a log in the order of their places: row 0 where they start, row 1 where they end.

    Those that share a place are left out: which of them stands there, and that the other does not, is for others to tell.
    """
    spans = np.stack([np.concatenate(list(starts)), np.concatenate(list(ends))])
    spans = spans[:, np.argsort(spans[0], kind="stable")]
    if not spans.shape[1]:
        return spans
    apart = np.append(np.maximum.accumulate(spans[1])[:-1] <= spans[0, 1:], True)
    apart[1:] &= apart[:-1]
    return spans[:, apart]


def whole_lengths(lengths: Ints, spans: Ints) -> tuple[Ints, Ints]:
    """Returns each length as it was before and after the batch that it ends in; twice itself where it ends in none."""
    if not spans.shape[1]:
        return lengths, lengths
    at = np.searchsorted(spans[0], lengths, side="left") - 1
    inside = (at >= 0) & (lengths < spans[1][at])
    return np.where(inside, spans[0][at], lengths), np.where(inside, spans[1][at], lengths)
