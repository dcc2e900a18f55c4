"""Operations on queues of elements, sets and lists: a row for each of their values, brought together, and orders that cannot be.

What these objects have in common: an operation that carries several values is several rows, and where values are unique, what
an operation saw tells how far its object had come. That is its *position*: a number that never falls. A history whose every
operation has a position is then in order exactly when none that had ended before another began has the higher one.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Bools, Columns, Ints, begins_operation, count_operations
from jepsen_like.checker.rows.segments import dense, dense_pairs
from jepsen_like.checker.sentences import describe
from jepsen_like.checker.verdict import Check, Findings, Tolerated, Violation, in_order, in_turn
from jepsen_like.history.ops import NEVER, NONE, Action, ListOp, Op, Outcome

EXPLAINED_MAX: Final = 20
"""Violations of each check that one task explains; the others are counted."""
SEVERAL: Final = (Action.READ, Action.WRITE, Action.DRAIN)
"""Operations that carry any number of values."""


@attrs.frozen(eq=False)
class Elements:
    """The rows of some objects, by object, those of an operation next to each other in their order."""

    rows: Columns
    objects: Ints
    """Sorted; everything else numbers them densely."""
    number: Ints
    """The object of each row."""
    op: Ints
    """The operation of each row, counted from 0."""
    first: Ints
    """The first row of each operation."""

    @classmethod
    def of(cls, rows: Columns) -> "Elements":
        """From all rows of these objects, in the order recorded."""
        rows = rows.where(np.argsort(rows.object, kind="stable"))
        objects, number = dense(rows.object)
        begins = begins_operation(rows.process, rows.t_inv, rows.t_ret)
        begins[1:] |= (number[1:] != number[:-1]) | (rows.f[1:] != rows.f[:-1])
        begins |= ~np.isin(rows.f, SEVERAL)
        _part_instant(begins, rows)
        return cls(rows, objects, number, np.cumsum(begins) - 1, np.flatnonzero(begins))

    def op_of(self, row: int) -> Op:
        """Returns the operation that a row belongs to."""
        op = self.rows.op(row)
        if op.f not in SEVERAL:
            return op
        begin = int(self.first[self.op[row]])
        end = int(np.searchsorted(self.op, self.op[row], side="right"))
        values = tuple(self.rows.a[begin:end].tolist())
        fields = {field.name: getattr(op, field.name) for field in attrs.fields(Op)}
        return ListOp(**{**fields, "a": NONE}, values=() if values == (NONE,) else values)

    def of_object(self, number: int) -> list[Op]:
        """Returns all operations of one object."""
        begin, end = np.searchsorted(self.number, [number, number + 1])
        firsts = self.first[np.searchsorted(self.first, begin) : np.searchsorted(self.first, end)]
        return [self.op_of(row) for row in firsts.tolist()]

    def count(self) -> Findings:
        """Returns how many operations and objects there are."""
        return attrs.evolve(
            count_operations(self.rows.type[self.first]),
            objects=len(self.objects),
            t_first=int(self.rows.t_inv.min()) if len(self.rows) else NEVER,
        )


def _part_instant(begins: Bools, rows: Columns) -> None:
    """Set where operations begin that followed each other within one tick of the clock: each has as many rows as it counts.

    Rows of one operation that each count one are left together.
    """
    first = np.flatnonzero(begins)
    ends = np.append(first[1:], len(rows))
    states = (rows.count > 1) | (rows.a == NONE)
    odd = (ends - first > 1) & (rows.count[first] != ends - first)
    odd[odd] = np.logical_or.reduceat(states, first)[odd] if odd.any() else odd[odd]
    for at, end in zip(first[odd].tolist(), ends[odd].tolist(), strict=True):
        while at < end:
            begins[at] = True
            if states[at]:
                at += max(1, int(rows.count[at]))
            else:
                following = np.flatnonzero(states[at:end])
                at = at + int(following[0]) if len(following) else end


@attrs.frozen(eq=False)
class SeenElements:
    """Elements of objects, dense: the attempts to put each there, and how often it was seen."""

    object: Ints
    value: Ints
    put: Ints
    """The rows that put, or would have put, an element there, and the element of each."""
    put_element: Ints
    seen: Ints
    """The rows of known operations that saw an element, and the element of each."""
    seen_element: Ints
    possible: Ints
    """Of each element: how many attempts may have happened, how many certainly did, and how many operations saw it."""
    acked: Ints
    times_seen: Ints
    refused: Ints
    """The number of attempts that certainly did not happen."""
    begun: Ints
    """The moment when the first attempt that may have happened began (`NEVER`: none); it cannot have been there before."""

    @classmethod
    def of(cls, made: Elements, puts: Bools, sees: Bools) -> "SeenElements":
        """`puts` and `sees` choose rows."""
        rows = made.rows
        put, seen = np.flatnonzero(puts), np.flatnonzero(sees)
        obj, value, position = dense_pairs(
            np.concatenate([made.number[put], made.number[seen]]), np.concatenate([rows.a[put], rows.a[seen]])
        )
        put_element, seen_element = position[: len(put)], position[len(put) :]
        maybe = rows.type[put] != Outcome.FAIL
        begun = np.full(len(obj), NEVER, np.int64)
        np.minimum.at(begun, put_element[maybe], rows.t_inv[put[maybe]])
        known = rows.type[put] == Outcome.OK
        count = len(obj)
        return cls(
            obj,
            value,
            put,
            put_element,
            seen,
            seen_element,
            np.bincount(put_element[maybe], minlength=count),
            np.bincount(put_element[known], minlength=count),
            np.bincount(seen_element, minlength=count),
            np.bincount(put_element[~maybe], minlength=count),
            begun,
        )

    def first_acked(self, rows: Columns) -> Ints:
        """Returns when the first acknowledged attempt of each element had ended, `NEVER` without any."""
        found = np.full(len(self.object), NEVER, np.int64)
        known = rows.type[self.put] == Outcome.OK
        np.minimum.at(found, self.put_element[known], rows.t_ret[self.put[known]])
        return found

    def seen_first(self, rows: Columns) -> Ints:
        """Returns when the first operation that saw each element had ended, `NEVER` without any."""
        found = np.full(len(self.object), NEVER, np.int64)
        np.minimum.at(found, self.seen_element, rows.t_ret[self.seen])
        return found

    def puts_of(self, element: int) -> list[int]:
        """Returns the rows that put an element there, those that happened first."""
        return [int(row) for row in self.put[self.put_element == element]]

    def seers_of(self, element: int) -> list[int]:
        """Returns the rows that saw an element."""
        return [int(row) for row in self.seen[self.seen_element == element]]

    def count_recovered(self) -> int:
        """Returns how many elements of unknown outcome were seen."""
        return int(((self.possible > 0) & (self.acked == 0) & (self.times_seen > 0)).sum())


class Gathering:
    """Violations being gathered: all are counted, some of each check are explained."""

    def __init__(self, made: Elements) -> None:
        self._made = made
        self._counts: dict[Check, int] = {}
        self._explained: dict[Check, list[Violation]] = {}
        self._violated: set[int] = set()
        self._tolerated: list[Tolerated] = []

    def add(self, check: Check, number: int, count: int = 1) -> bool:
        """Count violations of an object (dense); returns whether the first of them should be explained."""
        self._counts[check] = self._counts.get(check, 0) + count
        self._violated.add(int(self._made.objects[number]))
        return len(self._explained.setdefault(check, [])) < EXPLAINED_MAX

    def explain(self, check: Check, number: int, sentence: str, ops: Iterable[Op], noun: str) -> None:
        """Keep a violation that was counted."""
        name = int(self._made.objects[number])
        self._explained[check].append(Violation(check, name, f"{noun} {name}: {sentence}", in_order(list(ops))))

    def keep(self, violation: Violation) -> None:
        """Count and keep a violation that is explained already."""
        at = int(np.searchsorted(self._made.objects, violation.object))
        if self.add(violation.check, at):
            self._explained[violation.check].append(violation)

    def tolerate(self, check: Check, numbers: Ints, because: str, example: str) -> None:
        """Count what the model allows, once for each of `numbers`."""
        if len(numbers):
            name = int(self._made.objects[numbers[0]])
            self._tolerated.append(
                Tolerated(check=check, object=name, count=len(numbers), because=because, example=example)
            )

    def is_violated(self) -> Bools:
        """Returns of each object whether something is wrong with it."""
        return np.isin(self._made.objects, np.array(sorted(self._violated), np.int64))

    def findings(self) -> Findings:
        """Returns all of it, with how many operations and objects there are."""
        of_all = [one for some in self._explained.values() for one in some]
        found = in_turn(of_all, lambda one: one.check, EXPLAINED_MAX)
        return attrs.evolve(
            self._made.count(),
            violated=frozenset(self._violated),
            counts=self._counts,
            violations=tuple(found),
            tolerated=tuple(self._tolerated),
        )


def count_unexamined(made: Elements, seen: SeenElements, changed: Ints, looks: Ints, newest: Ints) -> int:
    """Returns how many objects no operation looked at after something had been put there.

    `changed` are the rows of acknowledged changes, `looks` the objects of known operations that look, `newest` is of each object when the
    last one that may find a loss began.
    """
    examined, put = np.zeros((2, len(made.objects)), np.bool_)
    put[made.number[changed]] = True
    examined[looks] = True
    examined &= ~put  # what was looked at before anything was put there
    examined[seen.object[seen.times_seen > 0]] = True
    examined[made.number[changed[newest[made.number[changed]] > made.rows.t_ret[changed]]]] = True
    return int((~examined).sum())


def report_unwritten(report: Gathering, made: Elements, seen: SeenElements, noun: str) -> None:
    """Elements that were seen, though nothing put them there, and those that were seen before anything did."""
    rows = made.rows
    for element in np.flatnonzero((seen.times_seen > 0) & (seen.possible == 0)).tolist():
        check = Check.ABORTED_READ if seen.refused[element] else Check.PHANTOM
        if report.add(check, int(seen.object[element])):
            refused = seen.puts_of(element)
            seer, value = made.op_of(seen.seers_of(element)[0]), int(seen.value[element])
            ops, reason = [seer], f"but no client ever put {value} there"
            if refused:
                ops.insert(0, made.op_of(refused[0]))
                reason = f"though the {describe(ops[0])} was answered as certainly not done"
            report.explain(check, int(seen.object[element]), f"{describe(seer)} saw {value}, {reason}", ops, noun)
    early = (seen.seen_first(rows) < seen.begun) & (seen.possible > 0)
    for element in np.flatnonzero(early).tolist():
        if report.add(Check.ORDER, int(seen.object[element])):
            seer = made.op_of(min(seen.seers_of(element), key=lambda row: int(rows.t_ret[row])))
            writers = [row for row in seen.puts_of(element) if rows.type[row] != Outcome.FAIL]
            writer = made.op_of(min(writers, key=lambda row: int(rows.t_inv[row])))
            said = (
                f"{describe(seer)}, which saw {int(seen.value[element])}, had ended before the {describe(writer)} began"
            )
            report.explain(Check.ORDER, int(seen.object[element]), said, [seer, writer], noun)


def inversions(obj: Ints, high: Ints, low: Ints, begin: Ints, end: Ints) -> Iterator[tuple[int, int]]:
    """Returns pairs of one object's operations: one ended before the other began, its `high` above the other's `low`.

    Each first one comes once, with the earliest second one. Positions are small and not negative; `high` may be `low`.
    """
    count = len(obj)
    if not count:
        return
    known = np.flatnonzero(end < NEVER)
    which = np.concatenate([np.arange(count), known])
    is_end = np.concatenate([np.zeros(count, np.int64), np.ones(len(known), np.int64)])
    # What begins when something else ends is concurrent with it: beginnings come first.
    order = np.lexsort((is_end, np.concatenate([begin, end[known]]), obj[which]))
    which, is_end = which[order], is_end[order]
    lifted = obj[which] * (int(max(high.max(), low.max())) + 2)
    highest = np.maximum.accumulate(np.where(is_end, high[which] + 1, 0) + lifted)
    late = np.flatnonzero((is_end == 0) & (highest > low[which] + 1 + lifted))
    culprit = np.searchsorted(highest, highest[late], side="left")
    _, earliest = np.unique(culprit, return_index=True)
    for at in earliest.tolist():
        yield int(which[culprit[at]]), int(which[late[at]])
