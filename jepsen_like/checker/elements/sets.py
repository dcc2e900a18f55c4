"""Sets: elements are added and stay, reads return all of them. Decided by sorting, whatever is repeated.

Of an element v let *known* be when the first acknowledged add of v, or the first read that has it, had ended. A read that
began after that and lacks v is *stale*; v is *lost* if such a read began after all reads that have v had ended, and after an
acknowledged add if there are none. So Jepsen's `set-full` has it, but for what is concurrent: that counts as in order.

`set` holds a history to this: no element is lost, none is twice in one read, and each that was read had been added by an
operation that may have happened and that had begun when the read ended. Stale reads are counted and allowed.

`linearizable-set` allows none. A history is then linearizable exactly when of any two reads one has all that the other has,
and no operation that had ended before another began has the higher position: a read has as position the place of its
content in the order of these contents, an add one between the last content without its element and the first one with
it, one that no read has the last of all. An element that is added again is as one that is added once, from the first beginning to the first
acknowledgement: what is added again changes nothing.

Reads of unknown outcome tell nothing, adds of unknown outcome count when a read has their element.
"""

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
from jepsen_like.checker.rows.columns import Bools, Columns, Ints
from jepsen_like.checker.rows.segments import places_in_groups
from jepsen_like.checker.sentences import describe
from jepsen_like.checker.verdict import Check, Findings, Model
from jepsen_like.history.ops import NEVER, NONE, Action, Outcome

STALE_ALLOWED = "a set may be read as it was"


@attrs.frozen(eq=False)
class Reads:
    """The known reads, dense, by object and then from the newest beginning to the oldest."""

    row: Ints
    """The first row of each."""
    object: Ints
    rank: Ints
    """The number of reads of the same object that are before it here."""
    size: Ints
    """The number of different elements that it has."""
    of_sighting: Ints
    """The read of each sighting."""


def check_sets(rows: Columns, model: Model) -> Findings:
    """Returns everything that is wrong with the sets in `rows`, which hold all operations of each of them."""
    made = Elements.of(rows)
    rows = made.rows
    has = (rows.f == Action.READ) & (rows.type == Outcome.OK)
    seen = SeenElements.of(made, rows.f == Action.ADD, has & (rows.a != NONE))
    reads = _reads(made, seen, has)
    report = Gathering(made)
    report_unwritten(report, made, seen, "set")
    twice = _twice(made, seen, report)
    acked, known = seen.first_acked(rows), np.minimum(seen.first_acked(rows), seen.seen_first(rows))
    last_end = np.full(len(seen.object), -NEVER, np.int64)
    np.maximum.at(last_end, seen.seen_element, rows.t_ret[seen.seen])
    lacking = _newest_without(seen, reads)
    began = np.where(lacking != NONE, rows.t_inv[reads.row[lacking]] if len(reads.row) else 0, -NEVER)
    lost = (began > np.where(seen.times_seen > 0, last_end, acked)) & (seen.possible > 0)
    stale = (began > known) & ~lost & (seen.possible > 0)
    for element in np.flatnonzero(lost).tolist():
        if report.add(Check.LOST, int(seen.object[element])):
            _explain_lost(report, made, seen, element, int(reads.row[lacking[element]]))
    if model is Model.SET:
        some = np.flatnonzero(stale)
        said = ""
        if len(some):
            read = made.op_of(int(reads.row[lacking[some[0]]]))
            said = f"the {describe(read)} lacks {int(seen.value[some[0]])}"
        report.tolerate(Check.STALE, seen.object[some], STALE_ALLOWED, said)
    else:
        for element in np.flatnonzero(stale).tolist():
            if report.add(Check.STALE, int(seen.object[element])):
                _explain_stale(report, made, seen, element, int(reads.row[lacking[element]]))
        _check_order(report, made, seen, reads, acked)
    newest = np.full(len(made.objects), -NEVER, np.int64)
    np.maximum.at(newest, reads.object, rows.t_inv[reads.row])
    added = np.flatnonzero((rows.f == Action.ADD) & (rows.type == Outcome.OK))
    return attrs.evolve(
        report.findings(),
        unexamined=count_unexamined(made, seen, added, reads.object, newest),
        acked=len(added),
        lost_acked=int((lost & (seen.acked > 0)).sum()),
        duplicated=twice,
        recovered=seen.count_recovered(),
        unseen=int(((acked < NEVER) & (seen.times_seen == 0) & (newest[seen.object] <= acked)).sum()),
    )


def _reads(made: Elements, seen: SeenElements, has: Bools) -> Reads:
    """Returns the reads, and the read of each sighting."""
    rows = made.rows
    first = made.first[has[made.first]]
    order = np.lexsort((-rows.t_inv[first], made.number[first]))
    first = first[order]
    obj = made.number[first]
    rank = places_in_groups(obj)
    of_op = np.full(len(made.first), NONE, np.int64)
    of_op[made.op[first]] = np.arange(len(first))
    of_sighting = of_op[made.op[seen.seen]]
    pairs = np.unique(of_sighting * len(seen.object) + seen.seen_element)
    size = np.bincount(pairs // max(1, len(seen.object)), minlength=len(first))
    return Reads(first, obj, rank, size, of_sighting)


def _twice(made: Elements, seen: SeenElements, report: Gathering) -> int:
    """Elements that are twice in one read."""
    order = np.lexsort((seen.seen_element, made.op[seen.seen]))
    element, op = seen.seen_element[order], made.op[seen.seen][order]
    again = np.flatnonzero((element[1:] == element[:-1]) & (op[1:] == op[:-1]))
    for at in again.tolist():
        number = int(seen.object[element[at]])
        if report.add(Check.DUPLICATED, number):
            read = made.op_of(int(seen.seen[order[at]]))
            said = f"{describe(read)}, which has {int(seen.value[element[at]])} twice"
            report.explain(Check.DUPLICATED, number, said, [read], "set")
    return len(again)


def _newest_without(seen: SeenElements, reads: Reads) -> Ints:
    """Of each element the read with the newest beginning that lacks it; `NONE` if all have it."""
    count = len(seen.object)
    pairs = np.unique(seen.seen_element * max(1, len(reads.row)) + reads.of_sighting)
    element, read = pairs // max(1, len(reads.row)), pairs % max(1, len(reads.row))
    place = places_in_groups(element)
    # Ranks rise; as long as they follow the places, no read is missing.
    in_turn = np.bincount(element[reads.rank[read] == place], minlength=count)
    first = np.searchsorted(reads.object, seen.object, side="left")
    of_object = np.searchsorted(reads.object, seen.object, side="right") - first
    return np.where(in_turn < of_object, first + in_turn, NONE)


def _explain_lost(report: Gathering, made: Elements, seen: SeenElements, element: int, lacking: int) -> None:
    number, value = int(seen.object[element]), int(seen.value[element])
    read = made.op_of(lacking)
    seers, adds = seen.seers_of(element), seen.puts_of(element)
    shown = [made.op_of(max(seers, key=lambda row: int(made.rows.t_ret[row])))] if seers else []
    writers = [made.op_of(row) for row in adds if made.rows.type[row] != Outcome.FAIL]
    writers.sort(key=lambda op: (op.type, op.t_ret))
    if shown:
        said = f"the {describe(shown[0])} has {value}, but the {describe(read)} that began afterwards lacks it, and so does every later one"
    else:
        said = f"the {describe(writers[0])} was acknowledged, but the {describe(read)} that began afterwards lacks it, and no read has it"
    report.explain(Check.LOST, number, said, [*writers[:1], *shown, read], "set")


def _explain_stale(report: Gathering, made: Elements, seen: SeenElements, element: int, lacking: int) -> None:
    number, value = int(seen.object[element]), int(seen.value[element])
    rows, read = made.rows, made.op_of(lacking)
    ended = [row for row in seen.puts_of(element) if rows.type[row] == Outcome.OK] + seen.seers_of(element)
    before = made.op_of(min(ended, key=lambda row: int(rows.t_ret[row])))
    writers = [made.op_of(row) for row in seen.puts_of(element) if rows.type[row] != Outcome.FAIL]
    said = f"the {describe(before)} had ended before the {describe(read)} began, which lacks {value}"
    report.explain(Check.STALE, number, said, [before, read, *writers[:1]], "set")


def _check_order(report: Gathering, made: Elements, seen: SeenElements, reads: Reads, acked: Ints) -> None:
    """Reports what is wrong with the order of sets of which each element is sound by itself."""
    rows = made.rows
    sound = ~report.is_violated()
    order = np.lexsort((reads.size, reads.object))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    count = len(seen.object)
    first = np.full(count, NEVER, np.int64)
    np.minimum.at(first, seen.seen_element, place[reads.of_sighting])
    distinct = len(np.unique(seen.seen_element * max(1, len(order)) + reads.of_sighting))
    assert distinct == int(reads.size.sum())
    have = np.bincount(
        np.unique(seen.seen_element * max(1, len(order)) + reads.of_sighting) // max(1, len(order)), minlength=count
    )
    ends = np.searchsorted(reads.object, seen.object, side="right")
    gaps = (seen.times_seen > 0) & (have < ends - first) & sound[seen.object]
    _, of_object = np.unique(seen.object[gaps], return_index=True)
    for element in np.flatnonzero(gaps)[of_object].tolist():
        number = int(seen.object[element])
        if report.add(Check.LINEARIZABLE, number):
            _explain_apart(report, made, seen, element, reads, order)
    sound = ~report.is_violated()
    # Contents of one size are one content by now: the first read of each stands for its place.
    begins = (
        np.flatnonzero(
            np.append(True, (reads.object[order][1:] != reads.object[order][:-1]) | (np.diff(reads.size[order]) != 0))
        )
        if len(order)
        else np.zeros(0, np.int64)
    )
    version = np.zeros(len(order), np.int64)
    version[order] = np.searchsorted(begins, np.arange(len(order)), side="right") - 1
    # An empty content is the version before all elements, whether it was read or not.
    of_reads = 2 * version + 2
    level = np.where(first < NEVER, 0, 2 * len(order) + 3)
    there = first < NEVER
    level[there] = 2 * version[order[first[there]]] + 1
    counts = ((seen.times_seen > 0) | (acked < NEVER)) & (seen.possible > 0) & sound[seen.object]
    chosen, read = np.flatnonzero(counts), np.flatnonzero(sound[reads.object])
    position = np.concatenate([level[chosen], of_reads[read]])
    for early, late in inversions(
        np.concatenate([seen.object[chosen], reads.object[read]]),
        position,
        position,
        np.concatenate([seen.begun[chosen], rows.t_inv[reads.row[read]]]),
        np.concatenate([acked[chosen], rows.t_ret[reads.row[read]]]),
    ):
        # What an operation other than these two would show has been reported: two adds, and a read between them.
        one, other = int(chosen[early]), int(chosen[late])
        number = int(seen.object[one])
        if report.add(Check.ORDER, number):
            _explain_added(report, made, seen, one, other, reads)


def _explain_apart(
    report: Gathering, made: Elements, seen: SeenElements, element: int, reads: Reads, order: Ints
) -> None:
    """Two reads of which neither has all that the other has."""
    number, value = int(seen.object[element]), int(seen.value[element])
    having = set(reads.of_sighting[seen.seen_element == element].tolist())
    first = int(np.flatnonzero(np.isin(order, list(having)))[0])
    lacking = next(int(read) for read in order[first:] if int(read) not in having)
    one, other = made.op_of(int(reads.row[order[first]])), made.op_of(int(reads.row[lacking]))
    said = f"the {describe(one)} has {value}, which the {describe(other)} lacks, and that has what the former lacks"
    report.explain(Check.LINEARIZABLE, number, said, [one, other], "set")


def _explain_added(report: Gathering, made: Elements, seen: SeenElements, one: int, other: int, reads: Reads) -> None:
    """An add that had ended before another began, and a read that has only the element of the later one."""
    rows = made.rows
    known = [row for row in seen.puts_of(one) if rows.type[row] == Outcome.OK]
    early = made.op_of(min(known, key=lambda row: int(rows.t_ret[row])))
    later = [row for row in seen.puts_of(other) if rows.type[row] != Outcome.FAIL]
    late = made.op_of(min(later, key=lambda row: int(rows.t_inv[row])))
    having = set(reads.of_sighting[seen.seen_element == one].tolist())
    read = next(at for at in reads.of_sighting[seen.seen_element == other].tolist() if at not in having)
    seer = made.op_of(int(reads.row[read]))
    said = f"the {describe(early)} had ended before the {describe(late)} began, but the {describe(seer)} has only the latter"
    report.explain(Check.ORDER, int(seen.object[one]), said, [early, late, seer], "set")
