"""Judges the groups of one mirrored partition: what they skipped or read again, and whether their positions were translated right.

A position is translated right if it divides the records of the target as one that the group had committed divides those of
the source: all that was behind it stays behind it, and the next record comes next. Where a translated position is older than the last
commit, a group reads again what it had committed. That is counted, and no violation.
"""

import attrs
import numpy as np

from jepsen_like.checker.mirror.rows import MirroredPartition
from jepsen_like.checker.rows.columns import Bools, Ints
from jepsen_like.checker.transactions.partition import Breaches
from jepsen_like.checker.verdict import Check, MirrorCounts
from jepsen_like.history.ops import NEVER, NONE, Action, Op, Outcome


@attrs.frozen(eq=False)
class ReaderFacts:
    """The evidence of one partition about its groups."""

    counts: MirrorCounts
    unread: tuple[str, ...]
    """A sentence for each group that did not read the last primary to its end."""


def judge_readers(one: MirroredPartition, is_left: Bools, found: Breaches) -> ReaderFacts:
    """Returns what groups read again or skipped. What is wrong goes to `found`."""
    rows = one.rows
    named = np.concatenate(
        [rows.b[one.written.polls], rows.a[rows.f == Action.COMMIT], rows.a[rows.f == Action.ASSIGN]]
    )
    counts, unread = MirrorCounts(), list[str]()
    for group in np.unique(named[named != NONE]).tolist():
        skipped = _check_skipped(one, group, is_left, found)
        again, committed = _count_again(one, group)
        counts = counts.plus(MirrorCounts(skipped=skipped, read_again=again, committed_again=committed))
        if left := _count_unread(one, group):
            whose = (
                f"{one.names.group(group)} did not read the last {left:,} records of {one.names.partition(one.number)}"
            )
            unread.append(f"skips: {whose}")
    _check_translations(one, is_left, found)
    _check_resumed(one, found)
    _check_turn(one, found)
    return ReaderFacts(counts, tuple(unread))


# -------------------------------------------------------------------- what a group got


def _find_reach(one: MirroredPartition, group: int, cluster: int) -> int:
    """Returns the offset up to which a group came in the latest term of a cluster; `NONE` if it was not there."""
    rows = one.rows
    polls = one.polls_of(group)
    places = np.isin(rows.f, (Action.ASSIGN, Action.COMMIT)) & (rows.a == group) & (rows.type == Outcome.OK)
    told = np.concatenate([polls, np.flatnonzero(places)])
    told = told[(rows.node[told] == cluster) & (rows.t_inv[told] >= one.latest_begin(cluster))]
    beyond = np.where(rows.f[told] == Action.POLL, 1, 0)
    return int((rows.offset[told] + beyond).max(initial=NONE))


def _check_skipped(one: MirroredPartition, group: int, is_left: Bools, found: Breaches) -> int:
    """A group gets all that a cluster has before its position. Returns how many records it never got."""
    got = one.written.entry(one.rows.a[one.polls_of(group)])
    was_given = np.zeros(len(one.sends), np.bool_)
    was_given[got[got != NONE]] = True
    passed: dict[int, int] = {}
    for cluster, place in one.place.items():
        before = (place != NONE) & (place < _find_reach(one, group, cluster))
        for entry in np.flatnonzero(before & ~was_given & ~is_left).tolist():
            passed[entry] = cluster

    def show(entry: int) -> tuple[str, list[Op]]:
        op, cluster = one.op(entry), passed[entry]
        said = f"{one.names.group(group)} passed over {op.a} at offset {one.place[cluster][entry]}"
        return f"{said} of {one.names.cluster(cluster)}, and never got it", [op]

    found.add(Check.SKIPPED_POLL, np.array(sorted(passed), np.int64), show)
    return len(passed)


def _count_again(one: MirroredPartition, group: int) -> tuple[int, int]:
    """Returns how many records a group got from both clusters, and how many of them it had committed at the first."""
    rows, polls = one.rows, one.polls_of(group)
    entry = one.written.entry(rows.a[polls])
    polls, entry = polls[entry != NONE], entry[entry != NONE]
    cluster, got = rows.node[polls].astype(np.int64), rows.t_inv[polls]
    order = np.lexsort((got, cluster, entry))
    polls, entry, cluster, got = polls[order], entry[order], cluster[order], got[order]
    first = np.append(True, (entry[1:] != entry[:-1]) | (cluster[1:] != cluster[:-1]))[: len(entry)]
    polls, entry, cluster, got = polls[first], entry[first], cluster[first], got[first]
    order = np.lexsort((got, entry))
    polls, entry, cluster, got = polls[order], entry[order], cluster[order], got[order]
    again = np.flatnonzero(entry[1:] == entry[:-1]) + 1
    committed = 0
    for old in np.unique(cluster[again - 1]).tolist():
        mine = again[cluster[again - 1] == old]
        known = _committed_before(one, group, old, got[mine])
        committed += int((rows.offset[polls[mine - 1]] < known).sum())
    return len(again), committed


def _committed_before(one: MirroredPartition, group: int, cluster: int, times: Ints) -> Ints:
    """Returns the greatest position that a group had committed in a cluster by each of these times."""
    rows = one.rows
    mine = (rows.f == Action.COMMIT) & (rows.a == group) & (rows.node == cluster) & (rows.type == Outcome.OK)
    commits = np.flatnonzero(mine)
    commits = commits[np.argsort(rows.t_ret[commits], kind="stable")]
    if not len(commits):
        return np.full(len(times), NONE, np.int64)
    greatest = np.maximum.accumulate(rows.offset[commits])
    before = np.searchsorted(rows.t_ret[commits], times, side="right")
    return np.where(before > 0, greatest[np.maximum(before - 1, 0)], np.int64(NONE))


def _count_unread(one: MirroredPartition, group: int) -> int:
    """Returns how many records the last primary has behind what a group reached there."""
    place = one.place.get(one.primary)
    return 0 if place is None else int((place >= max(0, _find_reach(one, group, one.primary))).sum())


# -------------------------------------------------------------------- where a group went on


def _check_translations(one: MirroredPartition, is_left: Bools, found: Breaches) -> None:
    """A translated position divides the records of the target as a position of the group divides those of the source."""
    rows = one.rows
    for row in np.flatnonzero((rows.f == Action.TRANSLATE) & (rows.type == Outcome.OK)).tolist():
        op = rows.op(row)
        if op.node not in one.logs:
            continue
        place, position = one.place[op.node], one.position(op.b, op.t_inv)
        is_there = (place != NONE) & ~is_left
        is_behind, is_known = place < op.offset, position != NONE
        newest = int(position[is_there & is_known & is_behind].max(initial=NONE))
        oldest = int(position[is_there & is_known & ~is_behind].min(initial=NEVER))
        passed = is_there & is_behind & _is_new(one, op)
        had = _positions(one, op.a, op.b)
        if not passed.any() and ((had > newest) & (had <= oldest)).any():
            continue

        def show(row: int, between: str = _between(newest, oldest)) -> tuple[str, list[Op]]:
            op = rows.op(row)
            said = f"{one.names.group(op.a)} was moved to offset {op.offset} of {one.names.cluster(op.node)}"
            return f"{said}, where it had no position {between} of {one.names.cluster(op.b)}", [op]

        found.add(Check.TRANSLATION, np.array([row]), show)


def _between(newest: int, oldest: int) -> str:
    after = "from the begin" if newest == NONE else f"after offset {newest}"
    return after if oldest == NEVER else f"{after} up to {oldest}"


def _is_new(one: MirroredPartition, moved: Op) -> Bools:
    """Returns which entries were sent to the target of a translation since the switch that it belongs to."""
    begun = [switch.begun_ns for switch in one.switches if switch.target == moved.node]
    since = max((ns for ns in begun if ns <= moved.t_inv), default=NEVER)
    rows = one.rows
    return np.asarray((rows.node[one.sends] == moved.node) & (rows.t_inv[one.sends] >= since))


def _positions(one: MirroredPartition, group: int, cluster: int) -> Ints:
    """Returns the positions that a group may have committed in a cluster, or got there by an earlier translation."""
    rows = one.rows
    about = (rows.a == group) & (rows.node == cluster) & (rows.type != Outcome.FAIL)
    mine: Ints = rows.offset[np.isin(rows.f, (Action.COMMIT, Action.TRANSLATE)) & about]
    return mine


def _check_resumed(one: MirroredPartition, found: Breaches) -> None:
    """A group goes on at the other cluster from its translated position."""
    rows = one.rows
    moved = np.flatnonzero((rows.f == Action.TRANSLATE) & (rows.type == Outcome.OK))
    for row in moved.tolist():
        group, cluster = rows.a[row], rows.node[row]
        mine = (rows.a == group) & (rows.node == cluster) & (rows.t_inv >= rows.t_ret[row])
        later = rows.t_inv[moved[mine[moved]]].min(initial=NEVER)
        commits = rows.t_inv[mine & (rows.f == Action.COMMIT)].min(initial=NEVER)
        begun = np.flatnonzero(mine & (rows.f == Action.ASSIGN) & (rows.t_inv < min(later, commits)))
        wrong = begun[rows.offset[begun] != rows.offset[row]]

        def show(at: int, row: int = row) -> tuple[str, list[Op]]:
            moved_to, op = rows.op(row), rows.op(at)
            said = f"{one.names.group(op.a)} went on from offset {op.offset} of {one.names.cluster(op.node)}"
            return f"{said}, and its translated position was {moved_to.offset}", [moved_to, op]

        found.add(Check.TRANSLATION, wrong, show)


def _check_turn(one: MirroredPartition, found: Breaches) -> None:
    """A consumer gets the records of a cluster in their order, as long as it is not assigned again."""
    rows, polls = one.rows, one.written.polls
    order = polls[np.lexsort((polls, rows.node[polls], rows.process[polls]))]
    before, after = order[:-1], order[1:]
    is_same = (rows.process[before] == rows.process[after]) & (rows.node[before] == rows.node[after])
    wrong = np.flatnonzero(is_same & (rows.offset[after] <= rows.offset[before]))
    assigned = np.flatnonzero(rows.f == Action.ASSIGN)
    is_new = np.zeros(len(wrong), np.bool_)
    for number, at in enumerate(wrong.tolist()):
        between = assigned[(assigned > before[at]) & (assigned < after[at])]
        is_new[number] = bool((rows.process[between] == rows.process[after[at]]).any())

    def show(at: int) -> tuple[str, list[Op]]:
        earlier, later = rows.op(int(before[at])), rows.op(int(after[at]))
        return f"process {later.process} got offset {later.offset} after {earlier.offset}", [earlier, later]

    found.add(Check.NONMONOTONIC_POLL, wrong[~is_new], show)
