"""Requires a recording that processes can have made: each does one thing at a time, and nothing ends before it begins.

Where a process has two operations under way at once, or an end lies before its beginning, the recording is wrong, and
whatever a check would find in it is no evidence about the system. Operations of unknown outcome have no end and bind no process.
The clients of a queue may do many things at a time; of them each row is judged by itself.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt

from jepsen_like.checker.rows.columns import Columns, Ints
from jepsen_like.history.files import UnreadableHistory
from jepsen_like.history.ops import NEVER, Action, Outcome

_SPAN: Final = ("process", "first", "last")
SHORT_MAX: Final = np.iinfo(np.int16).max
PLACED: Final = (Action.POLL, Action.COMMIT, Action.TAIL)
"""Operations that name an offset whenever they were answered."""


@attrs.frozen(eq=False)
class ProcessSpans:
    """Per process of a piece, sorted: when its first operation began and its last one ended."""

    process: Ints
    first: Ints
    last: Ints


NO_SPANS: Final = ProcessSpans(*(np.zeros(0, np.int64) for _ in range(3)))


def require_made(rows: Columns, path: Path) -> ProcessSpans:
    """Returns when each process was at work. Raises `UnreadableHistory` for rows of `path` that cannot have been recorded so."""
    spans, reason = examine(rows)
    refuse_malformed(path, reason)
    return spans


def refuse_malformed(path: Path, reason: str | None) -> None:
    """Raises `UnreadableHistory` if there is a reason."""
    if reason is not None:
        raise UnreadableHistory(path, f"is malformed: {reason}")


def examine(rows: Columns) -> tuple[ProcessSpans, str | None]:
    """Returns when each process was at work, and in words what these rows cannot be; None for a sound recording."""
    backwards = np.flatnonzero(rows.t_ret < rows.t_inv)
    if len(backwards):
        row = int(backwards[0])
        return NO_SPANS, (
            f"an operation of process {rows.process[row]} ended at {rows.t_ret[row]} ns, before it began at "
            f"{rows.t_inv[row]} ns"
        )
    process, begin, end = _known_by_process(rows)
    if not len(process):
        return NO_SPANS, None
    starts = np.flatnonzero(np.append(True, process[1:] != process[:-1]))
    spans = ProcessSpans(
        process[starts].astype(np.int64), np.minimum.reduceat(begin, starts), np.maximum.reduceat(end, starts)
    )
    # Rows are recorded in the order they ended, so that this finds nothing; else it may be the order alone.
    if not len(_overlapping(process, begin, end)):
        return spans, None
    order = np.lexsort((end, begin, process))
    process, begin, end = process[order], begin[order], end[order]
    overlapping = _overlapping(process, begin, end)
    if not len(overlapping):
        return spans, None
    at = int(overlapping[0])
    return spans, (
        f"process {process[at]} has two operations under way at once: one from {begin[at]} to {end[at]} ns and one from "
        f"{begin[at + 1]} to {end[at + 1]} ns"
    )


def find_malformed(rows: Columns) -> str | None:
    """Returns in words what these rows of a queue cannot be; None for a sound recording."""
    ended = (rows.t_ret < rows.t_inv) & (rows.t_ret < NEVER)
    if ended.any():
        row = int(np.argmax(ended))
        return (
            f"an operation of process {rows.process[row]} ended at {rows.t_ret[row]} ns, before it began at "
            f"{rows.t_inv[row]} ns"
        )
    unnamed = (rows.f == Action.SEND) & (rows.a < 0)
    if unnamed.any():
        return f"a send of process {rows.process[int(np.argmax(unnamed))]} has no value"
    nowhere = np.isin(rows.f, PLACED) & (rows.offset < 0) & (rows.type == Outcome.OK)
    if nowhere.any():
        row = int(np.argmax(nowhere))
        return f"a {Action(int(rows.f[row])).name.lower()} of process {rows.process[row]} has no offset"
    return None


def may_overlap(spans: Sequence[ProcessSpans]) -> bool:
    """Returns whether a process may have been at work in two of these pieces at once. They are in the order of time."""
    process, first, last = (
        np.concatenate([np.zeros(0, np.int64), *(getattr(one, name) for one in spans)]) for name in _SPAN
    )
    order = np.argsort(process, kind="stable")
    process, first, last = process[order], first[order], last[order]
    return bool(((process[1:] == process[:-1]) & (first[1:] < last[:-1])).any())


def meetings(spans: Sequence[ProcessSpans]) -> list[tuple[int, int, Ints]]:
    """Returns which pieces may have a process at work in both at once: their numbers, and those processes."""
    if not may_overlap(spans):
        return []
    piece = np.repeat(np.arange(len(spans)), [len(one.process) for one in spans])
    process, first, last = (np.concatenate([getattr(one, name) for one in spans]) for name in _SPAN)
    order = np.lexsort((first, process))
    found: dict[tuple[int, int], list[int]] = {}
    under_way: list[tuple[int, int]] = []
    before = None
    for at in order.tolist():
        under_way = [one for one in under_way if one[0] > first[at]] if process[at] == before else []
        for _, other in under_way:
            found.setdefault((min(other, int(piece[at])), max(other, int(piece[at]))), []).append(int(process[at]))
        under_way.append((int(last[at]), int(piece[at])))
        before = process[at]
    return [(one, other, np.array(some, np.int64)) for (one, other), some in sorted(found.items())]


def _known_by_process(rows: Columns) -> tuple[npt.NDArray[np.int32], Ints, Ints]:
    """Process, begin and end of the rows whose end is known, by process, else in their order."""
    known = np.flatnonzero(rows.type != Outcome.INFO)
    process = rows.process[known]
    narrow = len(process) > 0 and process.min() >= 0 and process.max() <= SHORT_MAX
    # Of two bytes numpy sorts by counting, many times faster.
    order = np.argsort(process.astype(np.int16) if narrow else process, kind="stable")
    known = known[order]
    return process[order], rows.t_inv[known], rows.t_ret[known]


def _overlapping(process: npt.NDArray[np.int32], begin: Ints, end: Ints) -> Ints:
    """Returns where one row and the next are two operations of one process at the same time. Rows of one batch share both times."""
    other = (begin[1:] != begin[:-1]) | (end[1:] != end[:-1])
    found: Ints = np.flatnonzero((process[1:] == process[:-1]) & other & (begin[1:] < end[:-1]))
    return found
