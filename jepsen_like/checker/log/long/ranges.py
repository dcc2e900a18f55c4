"""Pass two over a long log: each range of its places by itself, with all that any chunk said of them.

What is at a place and at no other decides almost everything. A length was known when the first operation ended that knew it
or a greater one: so of the ranges behind this one only the earliest such end is needed (`later_ns`). Epochs fall within a
range, or between the last place of one that has an epoch and the first of the next. Batches lie across the borders of
ranges: so a range is looked at together with a margin on both sides, and tells of its own places only.

Places that no acknowledged append fills (holes) go on to the part of their value, and those of which nothing is known to
the part of the time by which they must have been filled. So do values that may stand in two ranges.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.log.batches import joined_spans, whole_lengths
from jepsen_like.checker.log.explain import NodesDiffer, join_logs
from jepsen_like.checker.log.long.chunks import APPENDS, BATCHES, DENIES, KNOWS, READS, TAILS, WIDTHS, DenseFile
from jepsen_like.checker.log.long.final_parts import FinalParts
from jepsen_like.checker.log.long.parts import BUCKET_BITS, LogDivision, SortedRows
from jepsen_like.checker.log.scan import (
    EMPTY,
    EXAMPLES_MAX,
    EpochFalls,
    FinalLogs,
    LostValue,
    Wrong,
    epochs_differ,
    epochs_fall,
    judged_values,
)
from jepsen_like.checker.rows.columns import Bools, Ints
from jepsen_like.checker.rows.tasks import Shared, array
from jepsen_like.history.ops import NEVER, NONE

HOLES, PLACES, MOVED = range(3)
"""Kinds of rows that go to parts of values.

(value, place, deadline, whether it stands elsewhere in the range), (value, place), and (value) of what does not stand where it
was acknowledged.
"""
HOLE_WIDTHS: Final = (4, 2, 1)
UNSEEN_WIDTHS: Final = (2,)
"""Kinds of rows that go to parts of time: (deadline, place)."""
WRONG_KEPT_MAX: Final = 20
"""Of each kind, for explanations."""


@attrs.frozen(eq=False, kw_only=True)
class PlacesKnown:
    """The facts about some places, for explanations."""

    places: Ints
    content: Ints
    final: Ints
    epochs: Ints
    batches: Ints
    standing: dict[int, tuple[int, ...]]
    """Places in the range of the values that were asked for, the first few."""


@attrs.frozen(eq=False, kw_only=True)
class RangeFacts:
    """The answer of a range."""

    wrong: tuple[Wrong, ...]
    """The first of each kind."""
    counts: dict[type, int]
    """The number of violations of each kind."""
    lost_acked: int
    expired: int
    duplicated: int
    holes: SortedRows
    unseen: SortedRows
    early: tuple[tuple[int, int], ...]
    """Contradictions, the first few: when it was known that a place had a record, which later was denied."""
    half_seen: tuple[int, ...]
    """Ends of the log that lie inside of batches, the first few."""
    first_epoch: tuple[int, int] | None
    """The first place that has an epoch, and the epoch; and the last one."""
    last_epoch: tuple[int, int] | None
    differ: tuple[NodesDiffer, ...]
    is_lost: bool
    """True if the last place that anyone knew of is told as lost."""
    around: PlacesKnown


@attrs.frozen(kw_only=True)
class RangeTask:
    """Judge a range of places."""

    division: LogDivision
    number: int
    margin: int
    end: int
    """Of the whole log."""
    longest: int
    """The greatest length that anyone knew."""
    later_ns: int
    dense: tuple[DenseFile, ...]
    rows: tuple[SortedRows, ...]
    final: FinalParts | None
    exchanged: Shared | None
    """The buckets of values that are touched by several ranges; None: all."""
    times: Shared
    """The place where the parts of time begin, but the first."""
    directory: Path
    asked: tuple[int, ...] = ()
    """Places to tell about, and values."""
    asked_values: tuple[int, ...] = ()

    def execute(self) -> RangeFacts:
        """See `Task`."""
        return _Range(self).facts()


class _Range:
    """A range with its margin; places are counted from the beginning of the margin."""

    def __init__(self, task: RangeTask) -> None:
        self._task = task
        places = task.division.places
        own = task.number * places
        self._begin = max(0, own - task.margin)
        self._size = own + places + task.margin - self._begin
        self._own = slice(own - self._begin, own - self._begin + places)
        reach = -(-task.margin // places)
        self._near = max(0, task.number - reach), min(task.division.ranges - 1, task.number + reach)
        self._known_ns = np.full(self._size, NEVER, np.int64)
        self._denied_ns = np.full(self._size, -NEVER, np.int64)
        self._merge_times()

    def facts(self) -> RangeFacts:
        task = self._task
        end = min(max(0, task.end - self._begin), self._size)
        acked, epochs, more = self._collect_acked(end)
        final, differ = self._final(end)
        reads = self._columns(READS)
        if final is None:
            # What was said in several ways is judged again.
            places = np.unique(np.concatenate([more[0], reads[0]]))
            places = places[places < end]
            places = places[acked[places] != NONE]
            more = [np.concatenate(some) for some in zip(more, (places, acked[places], epochs[places]), strict=True)]
            acked[places] = epochs[places] = NONE
            content, filled, appends, twice = acked, acked != NONE, more[:2], EMPTY
        else:
            content = final.content.copy()
            filled = (acked == content) & (acked != NONE)
            odd = np.flatnonzero((acked != NONE) & ~filled)
            twice, appends = _beyond(more[:2], content, filled)
            appends = [np.append(appends[0], odd), np.append(appends[1], acked[odd])]
            odd = np.flatnonzero((acked != NONE) & (~filled | ((epochs != NONE) & (epochs != final.epochs))))
            more = [np.concatenate(some) for some in zip(more, (odd, acked[odd], epochs[odd]), strict=True)]
            epochs = final.epochs.copy()
        judged = judged_values(content, filled, twice, appends, reads[:2], final)
        claims = [np.concatenate(some) for some in zip(more, reads, strict=True)]
        wrong = [
            *judged.wrong,
            *epochs_differ(epochs, content, [column[claims[2] != NONE] for column in claims]),
            *self._falls(epochs),
        ]
        starts, ends = self._rows(BATCHES).T
        batches = joined_spans([starts - self._begin], [ends - self._begin])
        deadlines = self._deadlines(batches)
        moved = [_move(one, self._begin) for one in wrong if self._is_own(one.offset)]
        holes, duplicated = self._send(content, filled, deadlines, judged.moved)
        lost_place = task.longest - 1
        counts: dict[type, int] = {}
        kept: list[Wrong] = []
        for violation in moved:
            counts[type(violation)] = counts.get(type(violation), 0) + 1
            if counts[type(violation)] <= WRONG_KEPT_MAX:
                kept.append(violation)
        return RangeFacts(
            wrong=tuple(kept),
            counts=counts,
            lost_acked=self._count_own(judged.lost),
            expired=self._count_own(judged.expired),
            duplicated=duplicated,
            holes=holes[0],
            unseen=holes[1],
            early=self._early(deadlines),
            half_seen=self._half_seen(batches),
            first_epoch=self._epoch_at(epochs, 0),
            last_epoch=self._epoch_at(epochs, -1),
            differ=tuple(attrs.evolve(one, offset=one.offset + self._begin) for one in differ),
            is_lost=any(isinstance(one, LostValue) and one.offset == lost_place for one in moved),
            around=self._around(content, final, batches),
        )

    # ------------------------------------------------------------ what chunks said

    def _merge_times(self) -> None:
        for file in self._task.dense:
            dense = file.read(self._begin, self._begin + self._size)
            if dense is not None:
                at = slice(dense.first - self._begin, dense.first - self._begin + len(dense))
                np.minimum(self._known_ns[at], dense.known_ns, out=self._known_ns[at])
                np.maximum(self._denied_ns[at], dense.denied_ns, out=self._denied_ns[at])
        for kind, times, merge in ((KNOWS, self._known_ns, np.minimum), (DENIES, self._denied_ns, np.maximum)):
            place, time = self._columns(kind)
            merge.at(times, place, time)

    def _collect_acked(self, end: int) -> tuple[Ints, Ints, list[Ints]]:
        """Returns what was acknowledged at each place and with which epoch, and appends, as places, values and epochs, beyond that."""
        value, epoch = np.full(end, NONE, np.int64), np.full(end, NONE, np.int64)
        more = [self._columns(APPENDS)]
        for file in self._task.dense:
            dense = file.read(self._begin, self._begin + self._size)
            if dense is None:
                continue
            first = dense.first - self._begin
            size = max(0, min(len(dense), end - first))
            there = value[first : first + size]
            said, of_epoch = dense.value[:size], dense.epoch[:size].astype(np.int64)
            known = said != NONE
            clash = known & (there != NONE)
            if clash.any():
                at = np.flatnonzero(clash)
                more.append([at + first, said[at], of_epoch[at]])
                known &= ~clash
            np.copyto(there, said, where=known)
            np.copyto(epoch[first : first + size], of_epoch, where=known)
            beyond = np.flatnonzero(dense.value[size:] != NONE) + size
            if len(beyond):
                more.append([beyond + first, dense.value[beyond], dense.epoch[beyond].astype(np.int64)])
        return value, epoch, [np.concatenate(some) for some in zip(*more, strict=True)]

    def _rows(self, kind: int) -> Ints:
        """Rows of this range and its margin."""
        found = [file.read(kind, *self._near) for file in self._task.rows]
        return np.concatenate(found) if found else np.zeros((0, WIDTHS[kind]), np.int64)

    def _columns(self, kind: int) -> list[Ints]:
        """Their columns, with places counted from here."""
        rows = self._rows(kind)
        rows = rows[(rows[:, 0] >= self._begin) & (rows[:, 0] < self._begin + self._size)]
        return [rows[:, 0] - self._begin, *rows[:, 1:].T]

    def _final(self, end: int) -> tuple[FinalLogs | None, list[NodesDiffer]]:
        task = self._task
        if task.final is None:
            return None, []
        logs = task.final.read(self._begin, self._begin + self._size)
        found, differ = join_logs(logs, expires=task.final.expires)
        content, epochs = np.full(end, NONE, np.int64), np.full(end, NONE, np.int64)
        content[: found.end], epochs[: found.end] = found.content, found.epochs
        nodes = {node: (first - self._begin, its - self._begin) for node, (first, its) in task.final.nodes.items()}
        own = [one for one in differ if isinstance(one, NodesDiffer) and self._is_own(one.offset)]
        return FinalLogs(content, end, nodes, task.final.expires, epochs), own

    # ------------------------------------------------------------ what is wrong

    def _falls(self, epochs: Ints) -> list[Wrong]:
        """Returns where epochs fall within the range."""
        falls = (one for one in epochs_fall(epochs[self._own]) if isinstance(one, EpochFalls))
        return [_move(one, self._own.start) for one in falls]

    def _epoch_at(self, epochs: Ints, which: int) -> tuple[int, int] | None:
        """The first or the last place of the range that has an epoch, and the epoch."""
        places = np.flatnonzero(epochs[self._own] != NONE) + self._own.start
        return (int(places[which]) + self._begin, int(epochs[places[which]])) if len(places) else None

    def _deadlines(self, batches: Ints) -> Ints:
        """By when each place is known to have a record."""
        known_ns, denied_ns = self._known_ns, self._denied_ns
        first, last = np.clip(batches, 0, self._size)
        spans = np.flatnonzero(first < last)
        first, last = first[spans], last[spans]
        if len(first):
            # One who knew a part of a batch knew all of it; one who denied a part denied all.
            at = np.stack([first, last], axis=1).ravel()
            padded = np.append(known_ns, NEVER), np.append(denied_ns, -NEVER)
            known_ns[last - 1] = np.minimum.reduceat(padded[0], at)[::2]
            denied_ns[first] = np.maximum.reduceat(padded[1], at)[::2]
        before = np.minimum.accumulate(known_ns[: self._own.stop][::-1])[::-1]
        return np.minimum(before, self._task.later_ns)

    def _early(self, deadlines: Ints) -> tuple[tuple[int, int], ...]:
        """Contradictions, each once for the one that knew a length which others denied later."""
        bad = np.flatnonzero(deadlines[self._own] < self._denied_ns[self._own]) + self._own.start
        known_ns, first = np.unique(deadlines[bad], return_index=True)
        places = bad[first] + self._begin
        return tuple(zip(known_ns.tolist(), places.tolist(), strict=True))[:EXAMPLES_MAX]

    def _half_seen(self, batches: Ints) -> tuple[int, ...]:
        if not batches.shape[1]:
            return ()
        (length,) = self._columns(TAILS)
        length = length[(length >= self._own.start) & (length < self._own.stop)]
        inside = length[np.not_equal(*whole_lengths(length, batches))]
        return tuple((inside + self._begin).tolist()[:EXAMPLES_MAX])

    # ------------------------------------------------------------ what others have to decide

    def _send(
        self, content: Ints, filled: Bools, deadlines: Ints, elsewhere: Ints
    ) -> tuple[tuple[SortedRows, SortedRows], int]:
        task, shift = self._task, self._own.start + self._begin
        own = content[self._own]
        there = np.flatnonzero(own != NONE)
        value = own[there]
        if task.exchanged is None:
            leaves = np.ones(len(there), np.bool_)
        else:
            buckets = array(task.exchanged)
            bucket = value >> BUCKET_BITS
            at = np.searchsorted(buckets, bucket)
            leaves = np.append(buckets, -1)[at] == bucket
        stays = np.sort(value[~leaves])
        again = stays[1:][stays[1:] == stays[:-1]]
        holes = np.flatnonzero(~filled[self._own])
        due = deadlines[self._own][holes]
        seen = own[holes] != NONE
        known, unseen = holes[seen], holes[~seen]
        holes_file = SortedRows(task.directory / f"holes-{task.number}", task.division.parts, HOLE_WIDTHS)
        of_known, places = own[known], there[leaves]
        holes_file.write(
            [
                (
                    task.division.part_of(of_known),
                    (of_known, known + shift, due[seen], np.isin(of_known, again).astype(np.int64)),
                ),
                (task.division.part_of(value[leaves]), (value[leaves], places + shift)),
                (task.division.part_of(elsewhere), (elsewhere,)),
            ]
        )
        unseen_file = SortedRows(task.directory / f"unseen-{task.number}", task.division.parts, UNSEEN_WIDTHS)
        part = np.searchsorted(array(task.times), due[~seen], side="right")
        unseen_file.write([(part, (due[~seen], unseen + shift))])
        return (holes_file, unseen_file), len(again)

    def _around(self, content: Ints, final: FinalLogs | None, batches: Ints) -> PlacesKnown:
        places = np.array([one - self._begin for one in self._task.asked], np.int64)
        places = places[(places >= 0) & (places < self._size)]
        shift = self._own.start + self._begin
        touching = np.zeros(batches.shape[1], np.bool_)
        for place in places.tolist():
            touching |= (batches[0] <= place + 1) & (batches[1] >= place)
        places = places[places < len(content)]
        none = np.full(len(places), NONE, np.int64)
        return PlacesKnown(
            places=places + self._begin,
            content=content[places],
            final=none if final is None else final.content[places],
            epochs=none if final is None else final.epochs[places],
            batches=batches[:, touching] + self._begin,
            standing={
                value: tuple((np.flatnonzero(content[self._own] == value)[:WRONG_KEPT_MAX] + shift).tolist())
                for value in self._task.asked_values
            },
        )

    def _is_own(self, place: int) -> bool:
        return self._own.start <= place < self._own.stop

    def _count_own(self, places: Ints) -> int:
        return int(((places >= self._own.start) & (places < self._own.stop)).sum())


def _beyond(appends: Sequence[Ints], content: Ints, filled: Bools) -> tuple[Ints, list[Ints]]:
    """Of appends other than those that fill places: the places that several fill, and those of another value than is there."""
    offset, value = appends
    same = offset < len(content)
    there = content[offset[same]]
    same[same] = (there == value[same]) & (there != NONE)
    places, count = np.unique(offset[same], return_counts=True)
    twice: Ints = places[(count > 1) | filled[places]]
    filled[places] = True
    return twice, [offset[~same], value[~same]]


def _move(wrong: Wrong, by: int) -> Wrong:
    """The same, with places counted from the beginning of the log."""
    if isinstance(wrong, EpochFalls):
        return attrs.evolve(wrong, offset=wrong.offset + by, earlier=wrong.earlier + by)
    return attrs.evolve(wrong, offset=wrong.offset + by)
