"""Pass three over a long log: what values tell that the ranges of its places cannot, each part of the values by itself.

Appends of unknown outcome fill holes whose value is known (`known_holes_filled`); what is left of them may have filled
places of which nothing is known. For these a count is enough. From the latest time down, each spare append fills the
hole that has waited longest: the earliest stay empty. How many wait at the end of a part of time is `max(waiting +
holes - appends, least)`, where `least` is what is left if none waited before: so parts need not be looked at in turn.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.log.long.chunks import FAR, REFUSED, UNKNOWN
from jepsen_like.checker.log.long.parts import SortedRows
from jepsen_like.checker.log.long.ranges import HOLES, MOVED, PLACES, WRONG_KEPT_MAX
from jepsen_like.checker.log.scan import SeenEarly, Unwritten, Wrong, known_holes_filled
from jepsen_like.checker.rows.columns import Bools, Ints
from jepsen_like.checker.rows.tasks import Shared, array
from jepsen_like.checker.verdict import Check

LEFT_WIDTHS: Final = (1,)
"""Kinds of rows that go to parts of time: (begin)."""


@attrs.frozen(eq=False)
class ValueFacts:
    """The answer of a part of the values."""

    wrong: tuple[tuple[Wrong, Check, tuple[int, ...]], ...]
    """The first of each check, with the check and some places of the value that are not in the same range."""
    counts: dict[Check, int]
    duplicated: int
    left: SortedRows


@attrs.frozen
class ValueTask:
    """Match holes whose value is known with appends of unknown outcome."""

    number: int
    parts: int
    chunks: tuple[SortedRows, ...]
    ranges: tuple[SortedRows, ...]
    times: Shared
    directory: Path

    def execute(self) -> ValueFacts:
        """See `Task`."""
        unknown = _join(self.chunks, UNKNOWN, self.number, 2)
        holes = _join(self.ranges, HOLES, self.number, 4)
        places = _join(self.ranges, PLACES, self.number, 2)
        wrong, left = _fill(holes, unknown)
        file = SortedRows(self.directory / f"left-{self.number}", self.parts, LEFT_WIDTHS)
        file.write([(np.searchsorted(array(self.times), left, side="right"), (left,))])
        standing, count = np.unique(places[:, 0], return_counts=True)
        found: list[tuple[Wrong, Check, tuple[int, ...]]] = []
        counts: dict[Check, int] = {}
        named: dict[int, Check] | None = None
        again = set(holes[holes[:, 3] != 0, 0].tolist()) | set(standing[count > 1].tolist()) if wrong else set[int]()
        for violation in wrong:
            if isinstance(violation, SeenEarly):
                check = Check.ORDER
            else:
                assert isinstance(violation, Unwritten)
                if named is None:
                    named = self._name_unwritten(again)
                check = named.get(violation.value, Check.PHANTOM)
            counts[check] = counts.get(check, 0) + 1
            if counts[check] <= WRONG_KEPT_MAX:
                elsewhere = places[places[:, 0] == violation.value, 1][:WRONG_KEPT_MAX]
                found.append((violation, check, tuple(elsewhere.tolist())))
        return ValueFacts(tuple(found), counts, int((count - 1).sum()), file)

    def _name_unwritten(self, again: set[int]) -> dict[int, Check]:
        """Returns the names of values that no append can have put where they stand, and that are no phantoms."""
        moved = [_join(self.ranges, MOVED, self.number, 1), _join(self.chunks, FAR, self.number, 1)]
        refused = _join(self.chunks, REFUSED, self.number, 1)
        return {
            **dict.fromkeys(np.concatenate(moved)[:, 0].tolist(), Check.DIVERGENT_OFFSET),
            **dict.fromkeys(refused[:, 0].tolist(), Check.ABORTED_READ),
            **dict.fromkeys(again, Check.DUPLICATED),
        }


def _fill(holes: Ints, unknown: Ints) -> tuple[list[Wrong], Ints]:
    """Returns what is wrong, and the beginnings of the appends that were not needed."""
    holes = holes[np.lexsort((holes[:, 1], holes[:, 0]))]
    unknown = unknown[np.argsort(unknown[:, 0], kind="stable")]
    # Nearly always there is one hole and one append, which began early enough.
    once_hole, once_append = _once(holes[:, 0]), _once(unknown[:, 0])
    alone, sent = holes[once_hole], unknown[once_append]
    _, at_hole, at_append = np.intersect1d(alone[:, 0], sent[:, 0], assume_unique=True, return_indices=True)
    fits = sent[at_append, 1] <= alone[at_hole, 2]
    done_hole, done_append = np.zeros(len(holes), np.bool_), np.zeros(len(unknown), np.bool_)
    done_hole[np.flatnonzero(once_hole)[at_hole[fits]]] = True
    done_append[np.flatnonzero(once_append)[at_append[fits]]] = True
    holes, unknown = holes[~done_hole], unknown[~done_append]
    idle = ~np.isin(unknown[:, 0], holes[:, 0])
    contested = unknown[~idle]
    wrong, left = known_holes_filled(holes[:, 1], holes[:, 0], holes[:, 2], contested[:, 0], contested[:, 1])
    return wrong, np.sort(np.concatenate([unknown[idle, 1], np.array(left, np.int64)]))


def _once(ordered: Ints) -> Bools:
    """Which of the values, which are in order, are there once."""
    differs = np.append(ordered[1:] != ordered[:-1], True) if len(ordered) else np.zeros(0, np.bool_)
    return differs & np.append(True, differs[:-1]) if len(ordered) else differs


def _join(files: Sequence[SortedRows], kind: int, number: int, width: int) -> Ints:
    found = [file.read(kind, number) for file in files]
    return np.concatenate(found) if found else np.zeros((0, width), np.int64)


@attrs.frozen(eq=False)
class EmptyHoles:
    """The answer of a part of time about holes of which nothing is known, taken from the latest down."""

    net: int
    """Holes without appends that are left over."""
    least: int
    """The number of those that wait at the end if none waited before."""
    first: Ints
    """The holes that must be filled the earliest, as deadlines and places."""


@attrs.frozen
class WaitingTask:
    """Match holes of which nothing is known with appends of unknown outcome that are left over, in a part of the time."""

    number: int
    ranges: tuple[SortedRows, ...]
    values: tuple[SortedRows, ...]

    def execute(self) -> EmptyHoles:
        """See `Task`."""
        holes = _join(self.ranges, 0, self.number, 2)
        left = _join(self.values, 0, self.number, 1)[:, 0]
        due = np.sort(holes[:, 0])[::-1]
        begun = np.sort(left)[::-1]
        # An append that began at the deadline may have filled the hole.
        taken = np.searchsorted(-due, -begun, side="right") - np.arange(1, len(begun) + 1)
        # How many wait is the sum of all steps since it last fell to nothing.
        net = len(due) - len(begun)
        lowest = min(0, int(np.minimum.accumulate(taken)[-1])) if len(taken) else 0
        order = np.lexsort((holes[:, 1], holes[:, 0]))[:WRONG_KEPT_MAX]
        return EmptyHoles(net, net - lowest, holes[order])
