"""Queues of elements: what went in comes out, found by sorting; queues with repeated elements by search.

An operation takes effect at one moment between its beginning and its end. `dequeue` takes an element, or finds the queue empty;
`drain` takes elements, one at a time in any order, and then finds it empty. A dequeue of unknown outcome may have taken any one element, a
drain of unknown outcome any number; an enqueue of unknown outcome counts when its element was seen.

`unordered-queue`: each element is taken at most once, and a queue that is found empty is empty. With unique elements a history
is linearizable exactly when

1. every element taken was put in by an operation that may have happened, and that began before it had been taken;
2. none is taken twice;
3. every operation that found the queue empty has a *good* moment: one at which no element is there for certain (put in before,
   taken after that moment), and of the elements that no known operation took not more had been put in for certain before it
   than operations of unknown outcome had begun that may have taken one.

(Put each element in as late and take it out as early as possible: then no element is there that need not be, at any moment at
once; and what may have been taken by operations of unknown outcome at a moment, may have been at every later one.)

`fifo-queue`: in addition no a was put in before b for certain and b taken before a for certain (Henzinger, Sezgin, Vafeiadis,
CONCUR 2013), where what was never taken is taken at the end of time. This is exact without dequeues of unknown outcome; queues that would
break a rule and have some are searched.

`total-queue`: each element is taken at least once. Condition 1 holds; what is taken again is counted and allowed; of
condition 3 only the second half: an element may be out for another consumer, and come back. Of an element that was put in again
the latest acknowledged enqueues count as not taken, as many as there are more of them than operations that took it. Jepsen's checker of this name
takes every acknowledged element that was never taken as lost; here the history has to show that the queue was empty after it.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Final, Literal, cast

import attrs
import numpy as np

from jepsen_like.checker.elements.elements import (
    Elements,
    Gathering,
    SeenElements,
    count_unexamined,
    inversions,
    report_unwritten,
)
from jepsen_like.checker.elements.searched import Prepared, decide
from jepsen_like.checker.pending import Sequential
from jepsen_like.checker.rows.columns import Bools, Columns, Ints
from jepsen_like.checker.rows.segments import dense_pairs, places_in_groups
from jepsen_like.checker.search import SearchBounds
from jepsen_like.checker.sentences import describe, unshown
from jepsen_like.checker.verdict import Check, Findings, Model
from jepsen_like.history.ops import NEVER, NONE, Action, ListOp, Op, Outcome

DELIVERED_AGAIN: Final = "elements are delivered at least once"
NOT_ORDERED: Final = "the model promises no order"


@attrs.frozen(eq=False)
class Empties:
    """The operations that found a queue empty: their first rows, objects, and when they may have."""

    row: Ints
    object: Ints
    begin: Ints
    end: Ints


@attrs.frozen(eq=False)
class Stay:
    """Of each element when it may be taken first, and when the first that took it had ended; `NEVER` if nothing did."""

    begin: Ints
    end: Ints


@attrs.frozen(eq=False)
class _Queues:
    """Queues as they are checked: their elements, what was left in them, and when they were found empty."""

    made: Elements
    seen: SeenElements
    empties: Empties
    left: Ints
    stay: Stay
    model: Model


def check_element_queues(rows: Columns, model: Model, bounds: SearchBounds) -> Findings:
    """Returns everything that is wrong with the queues in `rows`, which hold all operations of each of them."""
    made = Elements.of(rows)
    rows = made.rows
    ok = rows.type == Outcome.OK
    takes = (rows.f == Action.DEQUEUE) | (rows.f == Action.DRAIN)
    seen = SeenElements.of(made, rows.f == Action.ENQUEUE, takes & ok & (rows.a != NONE))
    report = Gathering(made)
    report_unwritten(report, made, seen, "queue")
    again = _taken_again(report, made, seen, model)
    searched = np.zeros(len(made.objects), np.bool_)
    if model is not Model.TOTAL_QUEUE:
        searched[seen.object[seen.possible > 1]] = True
    taken = np.full(len(seen.object), NEVER, np.int64)
    np.minimum.at(taken, seen.seen_element, rows.t_inv[seen.seen])
    stay = Stay(taken, seen.seen_first(rows))
    left, empties = _find_left(made, seen), _empties(made, seen)
    queues = _Queues(made, seen, empties, left, stay, model)
    lost = _check_empty(report, queues, ~searched)
    if model is Model.FIFO_QUEUE:
        unknown = np.zeros(len(made.objects), np.bool_)
        unknown[made.number[takes & (rows.type == Outcome.INFO)]] = True
        searched |= _check_turn(report, made, seen, stay, unknown, ~searched)
        scanned = unknown & ~searched & ~report.is_violated()
        bad = _never_empty(queues, scanned, forgiving=False)
        searched[empties.object[bad]] = True
    _check_producers(report, made, seen, stay, model)
    undecided = decide(
        report, made, searched & ~report.is_violated(), "queue", fifo if model is Model.FIFO_QUEUE else bag, bounds
    )
    newest = np.full(len(made.objects), -NEVER, np.int64)
    np.maximum.at(newest, empties.object, empties.begin)
    added = np.flatnonzero(ok & (rows.f == Action.ENQUEUE))
    return attrs.evolve(
        report.findings(),
        unexamined=count_unexamined(made, seen, added, made.number[takes & ok], newest),
        acked=len(added),
        lost_acked=lost,
        duplicated=again,
        recovered=seen.count_recovered(),
        undecided=undecided,
        unseen=int((newest[made.number[left]] <= rows.t_ret[left]).sum()),
    )


def _taken_again(report: Gathering, made: Elements, seen: SeenElements, model: Model) -> int:
    """Elements that were taken more often than they can have been put in; returns how often."""
    more = np.where(seen.possible > 0, np.maximum(seen.times_seen - seen.possible, 0), 0)
    some = np.flatnonzero(more)
    if model is Model.TOTAL_QUEUE:
        said = "" if not len(some) else _said_twice(made, seen, int(some[0]))
        report.tolerate(Check.DUPLICATED, np.repeat(seen.object[some], more[some]), DELIVERED_AGAIN, said)
        return int(more.sum())
    for element in some.tolist():
        if report.add(Check.DUPLICATED, int(seen.object[element]), int(more[element])):
            seers = [made.op_of(row) for row in seen.seers_of(element)]
            puts = [made.op_of(row) for row in seen.puts_of(element) if made.rows.type[row] != Outcome.FAIL]
            report.explain(
                Check.DUPLICATED,
                int(seen.object[element]),
                _said_twice(made, seen, element) + unshown([*puts, *seers]),
                [*seers, *puts],
                "queue",
            )
    return int(more.sum())


def _said_twice(made: Elements, seen: SeenElements, element: int) -> str:
    first, second = (made.op_of(row) for row in seen.seers_of(element)[:2])
    value, times = int(seen.value[element]), int(seen.possible[element])
    put = "once" if times == 1 else f"{times} times"
    taken = (
        f"{describe(first)} and {describe(second)}"
        if seen.times_seen[element] == 2
        else f"{seen.times_seen[element]} times"
    )
    return f"{value} was put in {put} and taken out {'by ' if 'process' in taken else ''}{taken}"


def _find_left(made: Elements, seen: SeenElements) -> Ints:
    """The rows of acknowledged enqueues whose elements were not taken; of an element that was put in again the latest."""
    rows = made.rows
    known = rows.type[seen.put] == Outcome.OK
    put, element = seen.put[known], seen.put_element[known]
    order = np.lexsort((-rows.t_ret[put], element))
    put, element = put[order], element[order]
    found: Ints = put[places_in_groups(element) < seen.acked[element] - seen.times_seen[element]]
    return found


def _empties(made: Elements, seen: SeenElements) -> Empties:
    rows = made.rows
    first = made.first
    ok = rows.type[first] == Outcome.OK
    empty = ok & ((rows.f[first] == Action.DRAIN) | ((rows.f[first] == Action.DEQUEUE) & (rows.a[first] == NONE)))
    begin = np.full(len(first), -NEVER, np.int64)
    # A drain is done when it has its elements, so not before the last of them can have been put in.
    np.maximum.at(begin, made.op[seen.seen], seen.begun[seen.seen_element])
    row = first[empty]
    begin = np.clip(begin[empty], rows.t_inv[row], rows.t_ret[row])
    return Empties(row, made.number[row], begin, rows.t_ret[row])


def _never_empty(queues: _Queues, chosen: Bools, *, forgiving: bool = True) -> Ints:
    """Which of the empties (of the chosen queues) have no good moment; without `forgiving` what is unknown took nothing."""
    made, seen, empties, left, stay = queues.made, queues.seen, queues.empties, queues.left, queues.stay
    rows = made.rows
    asked = np.flatnonzero(chosen[empties.object])
    if not len(asked):
        return asked
    acked = seen.first_acked(rows)
    sure = np.flatnonzero((acked < stay.begin) & (stay.begin < NEVER) & (queues.model is not Model.TOTAL_QUEUE))
    may = np.isin(rows.f, (Action.DEQUEUE, Action.DRAIN)) & (rows.type == Outcome.INFO) & forgiving
    unknown = made.first[may[made.first]]
    moments = [acked[sure], stay.begin[sure], rows.t_ret[left], rows.t_inv[unknown], empties.begin, empties.end]
    distinct, rank = np.unique(np.concatenate(moments), return_inverse=True)
    numbers = [seen.object[sure]] * 2 + [made.number[left], made.number[unknown], empties.object, empties.object]
    codes = np.concatenate(numbers) * len(distinct) + rank.reshape(-1)
    cuts = np.cumsum([len(each) for each in moments])[:-1]
    put, out, stuck, helped, begin, end = np.split(codes, cuts)
    moment = np.unique(np.concatenate([put, out, stuck, helped, end]))
    of_object = moment // len(distinct) * len(distinct)
    there = _count(put, of_object, moment, "left") - _count(out, of_object, moment, "right")
    weight = np.where(rows.f[unknown] == Action.DRAIN, len(rows) + 1, 1)
    absent = _count(stuck, of_object, moment, "left") - _count(helped, of_object, moment, "right", weight)
    good = np.append(0, np.cumsum((there == 0) & (absent <= 0)))
    found = good[np.searchsorted(moment, end[asked], side="right")] - good[np.searchsorted(moment, begin[asked])]
    never: Ints = asked[found <= 0]
    return never


def _count(codes: Ints, since: Ints, until: Ints, side: Literal["left", "right"], weight: Ints | None = None) -> Ints:
    """Returns how many of the codes lie from `since` to `until`, with or without those at the end."""
    order = np.argsort(codes, kind="stable")
    total = np.append(0, np.cumsum(np.ones(len(codes), np.int64) if weight is None else weight[order]))
    codes = codes[order]
    found: Ints = total[np.searchsorted(codes, until, side=side)] - total[np.searchsorted(codes, since, side="left")]
    return found


def _check_empty(report: Gathering, queues: _Queues, chosen: Bools) -> int:
    """Queues that were found empty and were not; returns how many acknowledged elements were lost."""
    made, empties, left = queues.made, queues.empties, queues.left
    rows, lost = made.rows, 0
    bad = _never_empty(queues, chosen)
    unknown = np.flatnonzero(np.isin(rows.f, (Action.DEQUEUE, Action.DRAIN)) & (rows.type == Outcome.INFO))
    for number in np.unique(empties.object[bad]).tolist():
        mine = bad[empties.object[bad] == number]
        stuck = left[made.number[left] == number]
        stuck = stuck[np.argsort(rows.t_ret[stuck], kind="stable")]
        helping = unknown[made.number[unknown] == number]
        missing = []
        for at in mine.tolist():
            before = int(np.searchsorted(rows.t_ret[stuck], empties.begin[at], side="left"))
            helped = helping[rows.t_inv[helping] <= empties.end[at]]
            many = before if (rows.f[helped] == Action.DRAIN).any() else len(helped)
            missing.append(max(before - many, min(before, 1) if queues.model is Model.TOTAL_QUEUE else 0))
        worst = int(np.argmax(missing))
        if missing[worst]:
            lost += missing[worst]
            if report.add(Check.LOST, number, missing[worst]):
                _explain_lost(report, made, number, stuck, helping, int(empties.row[mine[worst]]))
        for at, of_this in zip(mine.tolist(), missing, strict=True):
            if not of_this and report.add(Check.STALE, number):
                _explain_stale(report, queues, number, stuck, int(empties.row[at]))
    return lost


def _explain_lost(report: Gathering, made: Elements, number: int, stuck: Ints, helping: Ints, empty: int) -> None:
    put, found = made.op_of(int(stuck[0])), made.op_of(empty)
    said = f"the {describe(put)} was acknowledged, nothing took {put.a} out, and the {describe(found)} ended with an empty queue"
    if len(helping):
        said += " (more such elements than operations of unknown outcome may have taken)"
    report.explain(Check.LOST, number, said, [put, found], "queue")


def _explain_stale(report: Gathering, queues: _Queues, number: int, stuck: Ints, empty: int) -> None:
    """Elements of which one was there for certain at every moment of an operation that found nothing."""
    made, seen, stay = queues.made, queues.seen, queues.stay
    rows, found = made.rows, made.op_of(empty)
    acked = seen.first_acked(rows)
    mine = np.flatnonzero((seen.object == number) & (acked < stay.begin) & (stay.begin < NEVER))
    moment, ops = found.t_inv, [found]
    while moment <= found.t_ret:
        there = mine[(acked[mine] < moment) & (stay.begin[mine] > moment)]
        if not len(there):
            ops += [made.op_of(int(row)) for row in stuck[rows.t_ret[stuck] < moment][:1]]
            break
        element = int(there[np.argmax(stay.begin[there])])
        put = [row for row in seen.puts_of(element) if rows.type[row] == Outcome.OK]
        ops += [made.op_of(row) for row in (*put[:1], *seen.seers_of(element)[:1])]
        moment = int(stay.begin[element])
    said = f"the {describe(found)} ended with an empty queue, though one of these elements was there at every moment{unshown(ops)}"
    report.explain(Check.STALE, number, said, ops, "queue")


def _find_passed(
    made: Elements, seen: SeenElements, stay: Stay, group: Ints, chosen: Bools
) -> Iterator[tuple[int, int]]:
    """Pairs of elements (of one group) of which the first was put in before the second and taken after it for certain."""
    some = np.flatnonzero(chosen)
    _, rank = np.unique(np.concatenate([stay.begin[some], stay.end[some]]), return_inverse=True)
    high, low = np.split(rank.reshape(-1), 2)
    acked = seen.first_acked(made.rows)[some]
    for early, late in inversions(group[some], high, low, seen.begun[some], acked):
        yield int(some[early]), int(some[late])


def _check_turn(
    report: Gathering, made: Elements, seen: SeenElements, stay: Stay, unknown: Bools, chosen: Bools
) -> Bools:
    """Elements that were passed over; returns the queues for which that may be due to dequeues of unknown outcome."""
    open_to_search = np.zeros(len(made.objects), np.bool_)
    counts = chosen[seen.object] & (seen.possible > 0) & ((seen.acked > 0) | (seen.times_seen > 0))
    possible = made.rows.type[seen.put] != Outcome.FAIL
    producer = np.full(len(seen.object), NONE, np.int64)
    producer[seen.put_element[possible]] = made.rows.process[seen.put[possible]]
    for early, late in _find_passed(made, seen, stay, seen.object, counts):
        number = int(seen.object[early])
        if unknown[number]:
            open_to_search[number] = True
            continue
        check = Check.SEND_ORDER if producer[early] == producer[late] else Check.ORDER
        if report.add(check, number):
            _explain_passed(report, check, made, seen, early, late)
    return open_to_search


def _check_producers(report: Gathering, made: Elements, seen: SeenElements, stay: Stay, model: Model) -> None:
    """Counts the elements of one producer that came out in another order, where the model allows it."""
    if model is Model.FIFO_QUEUE:
        return
    rows = made.rows
    producer = np.zeros(len(seen.object), np.int64)
    producer[seen.put_element] = rows.process[seen.put]
    _, _, group = dense_pairs(seen.object, producer)
    chosen = (seen.possible == 1) & (seen.times_seen > 0)
    pairs = list(_find_passed(made, seen, stay, group, chosen))
    if pairs:
        first, second = (_put_of(made, seen, element) for element in pairs[0])
        said = f"{describe(first)}, then {describe(second)}, and {second.a} was taken out first"
        report.tolerate(Check.SEND_ORDER, seen.object[[early for early, _ in pairs]], NOT_ORDERED, said)


def _put_of(made: Elements, seen: SeenElements, element: int) -> Op:
    puts = [row for row in seen.puts_of(element) if made.rows.type[row] != Outcome.FAIL]
    return made.op_of(min(puts, key=lambda row: int(made.rows.type[row])))


def _explain_passed(report: Gathering, check: Check, made: Elements, seen: SeenElements, early: int, late: int) -> None:
    first, second = (_put_of(made, seen, element) for element in (early, late))
    taken = made.op_of(seen.seers_of(late)[0])
    ops = [first, second, taken]
    said = f"the {describe(first)} had ended before the {describe(second)} began, but {second.a} was taken out by the {describe(taken)}"
    after = seen.seers_of(early)
    if after:
        ops.append(made.op_of(after[0]))
        said += f", which had ended before the {describe(ops[-1])} began"
    else:
        said += f", and {first.a} never"
    report.explain(check, int(seen.object[early]), said, ops, "queue")


ABSORBS_ALL: Final = 2**40


def pieces(ops: Sequence[Op]) -> list[Op]:
    """Returns what a search executes: drains as the dequeues that they are, and what then finds the queue empty.

    Enqueues of unknown outcome whose elements were never taken are left out: they need not have happened.
    """
    taken = {value for op in ops if op.type is Outcome.OK and isinstance(op, ListOp) for value in op.values}
    taken |= {op.a for op in ops if op.type is Outcome.OK and op.f is Action.DEQUEUE}
    found: list[Op] = []
    for number, op in enumerate(ops):
        if isinstance(op, ListOp) and op.type is Outcome.OK:
            piece = Op(
                f=Action.DEQUEUE, type=op.type, t_inv=op.t_inv, t_ret=op.t_ret, process=op.process, parent_op=number
            )
            found += [attrs.evolve(piece, a=value) for value in op.values]
            found.append(attrs.evolve(piece, f=Action.DRAIN, count=len(op.values)))
        elif op.type is Outcome.OK or (op.type is Outcome.INFO and (op.f is not Action.ENQUEUE or op.a in taken)):
            found.append(op)
    return found


_Drains = tuple[tuple[int, int], ...]
_Bag = tuple[tuple[int, ...], int, _Drains]
_Fifo = tuple[tuple[int, ...], _Drains]


def bag(ops: Sequence[Op]) -> Prepared:
    """See `decide`."""
    return SearchedBag(), pieces(ops)


def fifo(ops: Sequence[Op]) -> Prepared:
    """See `decide`. A drain of unknown outcome is as many dequeues as there may be elements."""
    found = pieces(ops)
    puts = sum(op.f is Action.ENQUEUE for op in found)
    several = [op for op in found if op.type is Outcome.INFO and op.f is Action.DRAIN]
    left = [op for op in found if op not in several]
    single = [
        Op(f=Action.DEQUEUE, type=Outcome.INFO, t_inv=op.t_inv, process=op.process)
        for op in several
        for _ in range(puts)
    ]
    return SearchedFifo(), [*left, *single]


class _Searched(Sequential):
    """The part that both models of queues have in common."""

    @staticmethod
    def count_drained(drains: _Drains, op: Op) -> _Drains | None:
        """Returns how many elements each drain has taken, after a piece of one; None if it lacks some and should be done."""
        if op.parent_op == NONE:
            return drains
        so_far = dict(drains)
        if op.f is Action.DRAIN:
            if so_far.pop(op.parent_op, 0) != op.count:
                return None
        else:
            so_far[op.parent_op] = so_far.get(op.parent_op, 0) + 1
        return tuple(sorted(so_far.items()))


class SearchedBag(_Searched):
    """Elements in no order; how many of them operations of unknown outcome may have taken; how far each drain is."""

    initial: Hashable = ((), 0, ())

    def step(self, state: Hashable, op: Op) -> Hashable | None:
        """See `Sequential`."""
        elements, absorbed, drains = cast(_Bag, state)
        if op.type is Outcome.INFO and op.f is not Action.ENQUEUE:
            return elements, absorbed + (ABSORBS_ALL if op.f is Action.DRAIN else 1), drains
        if op.f is Action.ENQUEUE:
            return tuple(sorted((*elements, op.a))), absorbed, drains
        after = self.count_drained(drains, op)
        if after is None:
            return None
        if op.f is Action.DEQUEUE and op.a != NONE:
            if op.a not in elements:
                return None
            at = elements.index(op.a)
            return elements[:at] + elements[at + 1 :], absorbed, after
        return ((), absorbed - len(elements), after) if len(elements) <= absorbed else None


class SearchedFifo(_Searched):
    """Elements in their order, and how far each drain is."""

    initial: Hashable = ((), ())

    def step(self, state: Hashable, op: Op) -> Hashable | None:
        """See `Sequential`."""
        elements, drains = cast(_Fifo, state)
        if op.type is Outcome.INFO and op.f is not Action.ENQUEUE:
            return (elements[1:], drains) if elements else None
        if op.f is Action.ENQUEUE:
            return (*elements, op.a), drains
        after = self.count_drained(drains, op)
        if after is None:
            return None
        if op.f is Action.DEQUEUE and op.a != NONE:
            return (elements[1:], after) if elements[:1] == (op.a,) else None
        return None if elements else ((), after)
