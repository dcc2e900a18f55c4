"""Keys whose values are lists: `append` puts a value at the end, `put` replaces the list, `get` returns it. Linearizable key by key.

A key that is only appended to, each value once, is decided by sorting: it is linearizable exactly when

1. of any two lists that were got, one is the beginning of the other, no value is in a list twice, and each was appended by an
   operation that may have happened;
2. no operation that had ended before another began has the higher position: a get of n values has the position n, the append
   of what the longest list has at place n (from 0) lies between n and n + 1, acknowledged appends that no get saw come last.

Gets of unknown outcome tell nothing, appends of unknown outcome count when a get saw their value.

Other keys are searched, guided by what was got: of the state no more is kept than how far it is the beginning of a list that some
get returned. A list that is the beginning of none can be got by none until the next put, and all such are one state.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, cast

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
from jepsen_like.checker.search import SearchBounds
from jepsen_like.checker.sentences import describe
from jepsen_like.checker.verdict import Check, Findings
from jepsen_like.history.ops import NEVER, NONE, Action, ListOp, Op, Outcome


@attrs.frozen(eq=False)
class Gets:
    """The known gets, by object: their first rows, objects and lengths."""

    row: Ints
    object: Ints
    length: Ints


def check_key_values(rows: Columns, bounds: SearchBounds) -> Findings:
    """Returns everything that is wrong with the keys in `rows`, which hold all operations of each of them."""
    made = Elements.of(rows)
    rows = made.rows
    ok = rows.type == Outcome.OK
    sees = (rows.f == Action.READ) & ok & (rows.a != NONE)
    puts = np.isin(rows.f, (Action.APPEND, Action.WRITE)) & (rows.a != NONE)
    seen = SeenElements.of(made, puts, sees)
    report = Gathering(made)
    report_unwritten(report, made, seen, "key")
    searched = np.zeros(len(made.objects), np.bool_)
    searched[made.number[(rows.f == Action.WRITE) & (rows.type != Outcome.FAIL)]] = True
    searched[seen.object[seen.possible > 1]] = True
    gets = _gets(made, ok)
    twice, in_order = _check_lists(report, made, seen, gets, ~searched)
    lost = _check_times(report, made, seen, gets, in_order)
    undecided = decide(report, made, searched & ~report.is_violated(), "key", prefixes, bounds)
    newest = np.full(len(made.objects), -NEVER, np.int64)
    np.maximum.at(newest, gets.object, rows.t_inv[gets.row])
    changes = np.isin(rows.f, (Action.APPEND, Action.WRITE)) & ok
    changed = made.first[changes[made.first]]
    return attrs.evolve(
        report.findings(),
        unexamined=count_unexamined(made, seen, changed, gets.object, newest),
        acked=len(changed),
        lost_acked=lost,
        duplicated=twice,
        recovered=seen.count_recovered(),
        undecided=undecided,
        unseen=int((newest[made.number[changed]] <= rows.t_ret[changed]).sum()),
    )


def _gets(made: Elements, ok: Bools) -> Gets:
    rows = made.rows
    ends = np.append(made.first[1:], len(rows))
    is_get = (rows.f[made.first] == Action.READ) & ok[made.first]
    row = made.first[is_get]
    length = np.where(rows.a[row] == NONE, 0, ends[is_get] - row)
    return Gets(row, made.number[row], length)


def _last_of(made: Elements, gets: Gets, by: Ints) -> Ints:
    """Of each object the get with the highest value of `by`, `NONE` without any."""
    found = np.full(len(made.objects), NONE, np.int64)
    order = np.argsort(by, kind="stable")
    found[gets.object[order]] = order
    return found


def _check_lists(report: Gathering, made: Elements, seen: SeenElements, gets: Gets, chosen: Bools) -> tuple[int, Bools]:
    """Condition 1; returns how many values are in a list twice, and the keys that fulfil it but for values never appended."""
    rows, in_order = made.rows, chosen.copy()
    longest = _last_of(made, gets, gets.length)
    base = np.where(longest != NONE, gets.row[longest] if len(gets.row) else 0, 0)
    of_row = np.searchsorted(gets.row, seen.seen, side="right") - 1
    place = seen.seen - gets.row[of_row] if len(gets.row) else seen.seen
    number = made.number[seen.seen]
    differs = (rows.a[seen.seen] != rows.a[base[number] + place]) & chosen[number]
    for at in np.flatnonzero(differs)[np.unique(of_row[differs], return_index=True)[1]].tolist():
        obj = int(number[at])
        in_order[obj] = False
        if report.add(Check.DIVERGENT_OFFSET, obj):
            one, other = made.op_of(int(gets.row[of_row[at]])), made.op_of(int(base[obj]))
            where = int(place[at])
            values = [cast(ListOp, op).values[where] for op in (one, other)]
            said = f"place {where} of the list is {values[0]} in the {describe(one)} and {values[1]} in the {describe(other)}"
            report.explain(Check.DIVERGENT_OFFSET, obj, said, [one, other], "key")
    order = np.lexsort((seen.seen_element, made.op[seen.seen]))
    element, op = seen.seen_element[order], made.op[seen.seen][order]
    again = np.flatnonzero((element[1:] == element[:-1]) & (op[1:] == op[:-1]) & chosen[seen.object[element[1:]]])
    _, first = np.unique(element[again], return_index=True)
    for at in again[first].tolist():
        obj = int(seen.object[element[at]])
        in_order[obj] = False
        if report.add(Check.DUPLICATED, obj):
            get = made.op_of(int(seen.seen[order[at]]))
            writer = [made.op_of(row) for row in seen.puts_of(int(element[at])) if rows.type[row] != Outcome.FAIL]
            said = f"{int(seen.value[element[at]])} was appended once and is there twice: {describe(get)}"
            report.explain(Check.DUPLICATED, obj, said, [*writer, get], "key")
    return len(first), in_order


def _check_times(report: Gathering, made: Elements, seen: SeenElements, gets: Gets, chosen: Bools) -> int:
    """Condition 2; returns how many acknowledged values are in no list of a get that began after them."""
    rows = made.rows
    acked = seen.first_acked(rows)
    get = np.flatnonzero(chosen[gets.object])
    longest = _last_of(made, gets, gets.length)
    of_row = np.searchsorted(gets.row, seen.seen, side="right") - 1
    place = np.full(len(seen.object), NONE, np.int64)
    if len(gets.row):
        whole = of_row == longest[made.number[seen.seen]]
        place[seen.seen_element[whole]] = seen.seen[whole] - gets.row[of_row[whole]]
    last = int(gets.length.max(initial=0)) + 1
    element = np.flatnonzero(chosen[seen.object] & (seen.possible > 0) & ((place != NONE) | (seen.acked > 0)))
    level = np.where(place[element] != NONE, 2 * place[element] + 1, 2 * last + 1)
    position = np.concatenate([level, 2 * gets.length[get]])
    writer = np.full(len(seen.object), NONE, np.int64)
    possible = rows.type[seen.put] != Outcome.FAIL
    writer[seen.put_element[possible]] = seen.put[possible]
    row = np.concatenate([writer[element], gets.row[get]])
    newest = _last_of(made, gets, rows.t_inv[gets.row])
    began = np.append(rows.t_inv[gets.row], -NEVER)[newest]
    is_lost = np.zeros(len(seen.object), np.bool_)
    is_lost[element] = (place[element] == NONE) & (acked[element] < began[seen.object[element]])
    for lost in np.flatnonzero(is_lost).tolist():
        number = int(seen.object[lost])
        if report.add(Check.LOST, number):
            append, get_after = made.op_of(int(writer[lost])), made.op_of(int(gets.row[newest[number]]))
            said = f"the {describe(append)} was acknowledged, but the {describe(get_after)} that began afterwards lacks it, and no get has it"
            report.explain(Check.LOST, number, said, [append, get_after], "key")
    for early, late in inversions(
        np.concatenate([seen.object[element], gets.object[get]]),
        position,
        position,
        rows.t_inv[row],
        np.concatenate([acked[element], rows.t_ret[gets.row[get]]]),
    ):
        number = int(made.number[row[early]])
        reads = rows.f[row[early]] == Action.READ, rows.f[row[late]] == Action.READ
        # What is lost is told already, and so is a value that was seen before it was appended.
        if reads == (True, False) or (not reads[0] and is_lost[element[early]]):
            continue
        check = Check.STALE if reads[1] else Check.ORDER
        if not report.add(check, number):
            continue
        first, second = made.op_of(int(row[early])), made.op_of(int(row[late]))
        ops = [first, second]
        if reads == (False, True):
            said = f"the {describe(first)} was acknowledged, but the {describe(second)} that began afterwards lacks it"
        elif reads[0]:
            said = f"the {describe(first)} had ended before the shorter {describe(second)} began"
        else:
            holder = made.op_of(int(gets.row[longest[number]]))
            ops.append(holder)
            said = f"the {describe(first)} had ended before the {describe(second)} began, but the {describe(holder)} does not have them in this order"
        report.explain(check, number, said, ops, "key")
    return int(is_lost.sum())


def prefixes(ops: Sequence[Op]) -> Prepared:
    """See `decide`. Unknown appends of values that no get has are left out: they need not have happened."""
    model = Prefixes(
        op.values for op in ops if isinstance(op, ListOp) and op.f is Action.READ and op.type is Outcome.OK
    )
    relevant = [
        op
        for op in ops
        if op.type is not Outcome.FAIL
        and not (
            op.type is Outcome.INFO and (op.f is Action.READ or (op.f is Action.APPEND and op.a not in model.values))
        )
    ]
    return model, relevant


DEAD: Final = -1


class Prefixes(Sequential):
    """A list as the place where it ends in the tree of all lists that were got; `DEAD` if it is the beginning of none."""

    initial: Hashable = 0

    def __init__(self, lists: Iterable[tuple[int, ...]]) -> None:
        self._next: dict[tuple[int, int], int] = {}
        self.values: set[int] = set()
        for of_read in lists:
            self.values.update(of_read)
            at = 0
            for value in of_read:
                at = self._next.setdefault((at, value), len(self._next) + 1)

    def _end(self, values: Sequence[int], at: int = 0) -> int:
        for value in values:
            at = self._next.get((at, value), DEAD)
        return at

    def step(self, state: Hashable, op: Op) -> Hashable | None:
        """See `Sequential`."""
        at = cast(int, state)
        match op.f:
            case Action.APPEND:
                after = self._next.get((at, op.a), DEAD)
            case Action.WRITE:
                after = self._end(cast(ListOp, op).values)
            case Action.READ:
                return at if at == self._end(cast(ListOp, op).values) else None
            case _:
                raise ValueError(f"{op.f.name} is no operation of a list")
        # Where none can get it, something of unknown outcome rather has not happened.
        return None if op.type is Outcome.INFO and after == DEAD else after

    def changes(self, op: Op) -> bool:
        """See `Sequential`."""
        return op.f is not Action.READ

    def effect(self, op: Op) -> Hashable:
        """See `Sequential`."""
        return op.f, op.a, op.values if isinstance(op, ListOp) else ()
