"""Takes the records that a log may have lost out of its history: the rest must be as good as any.

A mode that acknowledges before anything is on a disk may lose what was acknowledged, to a fault that reaches it (a power
cut). After such a loss offsets hold other values, reads differ, lengths fall: one loss shows as many contradictions. So
what a fault explains is taken out first, and the check of everything else is not softened at all.

An *allowance* is a fault and the time that it may reach back. A record is forgiven when

- it was asked for before the fault was over and acknowledged no earlier than the allowance reaches back, and
- nothing acknowledged before the fault at a higher offset has survived: a loss is the end of a log, never a hole, and
- no operation that was asked for when the fault was over has read it: then it had survived this fault.

Where another log may have answered while a fault held (`other_log`: an empty disk in place of a full one), what that acknowledged is forgiven
wherever it lay, and reads that were answered meanwhile are left out if they saw other values than the final ones, or an end.

A forgiven append counts as one of unknown outcome. What else spoke of the lost end of the log before the loss was seen
(reads of lost values, lengths) is left out. That would also hide what was wrong before the fault, so the history up to
each fault is checked once more by itself, as it was then: each that cost something, and where records leave the logs each,
for what it cost may have left them, too.

Of places that have left the logs only what clients were answered about them is known (`_last_said`).
"""

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.log.scan import at_most
from jepsen_like.checker.rows.columns import Bools, Columns, Ints
from jepsen_like.history.ops import NEVER, NONE, Action, Outcome

EXAMPLES_MAX: Final = 5
UNSEEN: Final = -2
"""At a place that has left: a value that was never reported to a client, after another had been there."""


@attrs.frozen(eq=False)
class Forgiven:
    """One log's history without what was forgiven, and the histories up to the faults."""

    rows: Columns
    until: tuple[Columns, ...]
    losses: tuple[AllowedLoss, ...]


def forgive(rows: Columns, content: Ints, allowances: Sequence[Allowance], start: int = 0) -> Forgiven:
    """Take out what `allowances` explain. `content[o]` is the final value, or `NONE`; below `start` a rule took it."""
    if start:
        content = np.concatenate([_last_said(rows, start, allowances), content[start:]])
    ordered = sorted(allowances, key=lambda one: one.begun_ns)
    return _Forgiving(rows, content, ordered, expires=start > 0).forgiven()


def _last_said(rows: Columns, start: int, allowances: Sequence[Allowance]) -> Ints:
    """The content of the places below `start`, which have left the logs, as the history last spoke of it; else `NONE`.

    What was said before a fault after which the log was seen to end at that place or before, or to hold another value there
    or before, is not there any more: `UNSEEN`.
    """
    ok, within = rows.type == Outcome.OK, (rows.offset >= 0) & (rows.offset < start)
    says = np.flatnonzero(ok & within & (rows.a != NONE) & ((rows.f == Action.APPEND) | (rows.f == Action.READ)))
    # Two values of a place have a fault between them: one invoked after it has the later, even if answered first.
    completed = np.sort(np.array([one.injected_ns for one in allowances], np.int64))
    faults_before = np.searchsorted(completed, rows.t_inv[says], side="left")
    says = says[np.lexsort((rows.t_ret[says], faults_before))]
    place, value, asked_ns = rows.offset[says], rows.a[says], rows.t_inv[says]
    last, last_ns = np.full(start, NONE, np.int64), np.full(start, NEVER, np.int64)
    last[place], last_ns[place] = value, asked_ns
    content = last.copy()
    denies = at_most(rows)
    for allowance in allowances:
        # What was asked for while the fault was at work may have come before it or after it.
        for begun_ns, is_before in (
            (allowance.begun_ns, asked_ns < allowance.begun_ns),
            (allowance.injected_ns + 1, asked_ns <= allowance.injected_ns),
        ):
            replaced = is_before & (value != last[place]) & (last_ns[place] >= begun_ns)
            end = min(denies[rows.t_inv >= begun_ns].min(initial=NEVER), place[replaced].min(initial=NEVER))
            content[end:][last_ns[end:] < begun_ns] = UNSEEN
    return content


class _Forgiving:
    def __init__(self, rows: Columns, content: Ints, allowances: Sequence[Allowance], *, expires: bool) -> None:
        self._rows = rows
        self._expires = expires
        self._allowances = allowances
        ok, placed = rows.type == Outcome.OK, rows.offset >= 0
        within = placed & (rows.offset < len(content))
        there = content[np.where(within, rows.offset, 0)] if len(content) else np.full(len(rows), NONE, np.int64)
        self._append = ok & (rows.f == Action.APPEND) & placed
        self._agrees = within & (there == rows.a)
        self._lost = self._append & ~self._agrees & ~(within & (there == NONE))
        saw = ok & (rows.f == Action.READ) & (rows.a != NONE) & placed
        self._saw_lost = saw & ~self._agrees & ~(within & (there == NONE))
        self._tail = ok & (rows.f == Action.TAIL)
        self._denies = at_most(rows)
        self._survivors = [self._survivor(one) for one in allowances]

    def forgiven(self) -> Forgiven:
        explained = [self._explain(number) for number in range(len(self._allowances))]
        blamed = self._blame(explained)
        costly = [number for number in range(len(self._allowances)) if (blamed == number).any()]
        return Forgiven(
            rows=self._without(explained, len(self._allowances)),
            until=tuple(
                self._until(self._without(explained, number), one)
                for number, one in enumerate(self._allowances)
                if number in costly or self._expires
            ),
            losses=tuple(self._loss(number, np.flatnonzero(blamed == number)) for number in costly),
        )

    def _survivor(self, allowance: Allowance) -> int:
        """The highest offset acknowledged before the fault whose record is still there; -1 for none."""
        kept = self._rows.offset[self._append & self._agrees & (self._rows.t_ret < allowance.begun_ns)]
        return int(kept.max()) if len(kept) else NONE

    def _explain(self, number: int) -> Bools:
        """The lost records that this fault may have cost."""
        rows, one = self._rows, self._allowances[number]
        in_time = (rows.t_inv <= one.injected_ns) & (rows.t_ret >= one.since_ns)
        behind = rows.offset > self._survivors[number]
        if one.other_log:
            behind |= rows.t_ret >= one.begun_ns
        explained = np.flatnonzero(self._lost & in_time & behind & one.may_cost_records)
        read_after = np.flatnonzero(self._saw_lost & (rows.t_inv > one.injected_ns))
        if len(read_after):
            seen = set(zip(rows.offset[read_after].tolist(), rows.a[read_after].tolist(), strict=True))
            is_gone = [(int(rows.offset[row]), int(rows.a[row])) not in seen for row in explained]
            explained = explained[np.array(is_gone, np.bool_)]
        found = np.zeros(len(rows), np.bool_)
        found[explained] = True
        return found

    def _blame(self, explained: Sequence[Bools]) -> Ints:
        """For each lost record the number of the fault that is said to have cost it, -1 for none.

        Of several it is the first after which the log was seen to end before the record, or else the first of all.
        """
        rows = self._rows
        blamed = np.full(len(rows), NONE, np.int64)
        ends = [one.begun_ns for one in self._allowances[1:]] + [NEVER]
        for number, allowance in enumerate(self._allowances):
            after = (rows.t_inv >= allowance.begun_ns) & (rows.t_inv < ends[number])
            seen_end = self._denies[after].min() if after.any() else NEVER
            blamed[explained[number] & (blamed == NONE) & (rows.offset >= seen_end)] = number
        for number in range(len(self._allowances)):
            blamed[explained[number] & (blamed == NONE)] = number
        return blamed

    def _without(self, explained: Sequence[Bools], count: int) -> Columns:
        """The history without what the first `count` faults may have cost."""
        rows = self._rows
        forgiven = np.zeros(len(rows), np.bool_)
        for number in range(count):
            forgiven |= explained[number]
        may_be_lost = np.concatenate(
            [rows.a[forgiven], rows.a[(rows.f == Action.APPEND) & (rows.type == Outcome.INFO)]]
        )
        of_lost = self._saw_lost & np.isin(rows.a, may_be_lost)
        left_out = np.zeros(len(rows), np.bool_)
        ok_reads = (rows.type == Outcome.OK) & np.isin(rows.f, (Action.READ, Action.TAIL))
        for number, allowance in enumerate(self._allowances[:count]):
            survivor = self._survivors[number]
            unseen = (rows.t_inv <= self._seen_ns(number, explained[number])) & (rows.t_ret >= allowance.since_ns)
            left_out |= unseen & of_lost & (rows.offset > survivor)
            left_out |= unseen & self._tail & (rows.offset > survivor + 1)
            if allowance.other_log:
                while_it_held = (rows.t_inv <= allowance.injected_ns) & (rows.t_ret >= allowance.begun_ns)
                ends = ok_reads & ((rows.f == Action.TAIL) | (rows.a == NONE))
                left_out |= while_it_held & (self._saw_lost | ends)
        return _with_unknown(rows, forgiven).where(~left_out)

    def _seen_ns(self, number: int, explained: Bools) -> int:
        """Returns when the loss was first seen: until then the lost end of the log may still have been there to be read."""
        one = self._allowances[number]
        if not explained.any():
            return one.injected_ns
        lost_last = int(self._rows.offset[explained].max())
        sees = (self._rows.t_inv >= one.begun_ns) & (self._denies <= lost_last) & ~explained
        return int(self._rows.t_ret[sees].min()) if sees.any() else NEVER

    @staticmethod
    def _until(rows: Columns, allowance: Allowance) -> Columns:
        """The history as it was when the fault began: what had not ended then has an unknown outcome."""
        begun = rows.t_inv < allowance.begun_ns
        open_still = rows.t_ret >= allowance.begun_ns
        is_append = rows.f == Action.APPEND
        return _with_unknown(rows, open_still & is_append).where(begun & (is_append | ~open_still))

    def _loss(self, number: int, at: Ints) -> AllowedLoss:
        rows = self._rows
        order = at[np.argsort(rows.t_ret[at], kind="stable")]
        return AllowedLoss(
            allowance=self._allowances[number],
            records=len(at),
            first_offset=int(rows.offset[at].min()),
            last_offset=int(rows.offset[at].max()),
            first_acked_ns=int(rows.t_ret[order[0]]),
            last_acked_ns=int(rows.t_ret[order[-1]]),
            examples=tuple(int(value) for value in rows.a[order[:EXAMPLES_MAX]]),
        )


def _with_unknown(rows: Columns, chosen: Bools) -> Columns:
    """The chosen appends as ones of unknown outcome."""
    return attrs.evolve(
        rows,
        type=np.where(chosen & (rows.type == Outcome.OK), np.int8(Outcome.INFO), rows.type).astype(np.int8),
        t_ret=np.where(chosen, NEVER, rows.t_ret),
        offset=np.where(chosen, NONE, rows.offset),
    )
