"""Checks of what each consumer got of a partition, and of the groups that share it.

A *tenure* is the time in which a consumer holds a partition and nothing but polling moves its position: from an assignment or a
seek to the next assignment, revocation or seek. The rows of a consumer are in the order in which things happened to it.

Two owners. A member owns a partition from its assignment to its revocation. It is a violation when

- two members were assigned a partition in one known generation;
- a commit was acknowledged to a member that had been replaced when it asked: another member had been assigned the partition
  in a later generation than the commit's, or, where the commit does not tell its generation, since the member's own
  assignment, which it had not given up;
- a member was assigned a partition of another one that had not given it up, sooner after that one's last acknowledged
  commit than anything can expel a member (the shorter of session and rebalance timeout; not applied where they are unknown).

That both *believe* to own it for a while is no violation: an expelled member that is paused or cut off cannot know.

Commits. A read of a group's position, or the first record after an assignment, at `o` goes back when a commit of a higher
offset had been acknowledged before, and no commit of `o` or less can have come after that one. The first record after
an assignment skips when a record that is there lies between it and every offset that the group can have committed.
"""

from collections.abc import Sequence

import attrs
import numpy as np

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.queue.records import SHOWN_MAX, Breach, Shown, Sightings, breach
from jepsen_like.checker.queue.rows import QueueExpectations, QueuePartition
from jepsen_like.checker.rows.columns import Bools, Columns, Ints
from jepsen_like.checker.sentences import describe, who
from jepsen_like.checker.verdict import Check
from jepsen_like.history.ops import NEVER, NONE, Action, Outcome


@attrs.frozen(eq=False)
class Steps:
    """The operations that moved consumers, in their order; those of one consumer follow each other."""

    row: Ints
    after: Bools
    """True if the entry before is of the same consumer."""


def steps_of(rows: Columns) -> Steps:
    """From the rows of one partition."""
    moves = np.flatnonzero(np.isin(rows.f, (Action.POLL, Action.ASSIGN, Action.REVOKE, Action.SEEK)))
    moves = moves[np.argsort(rows.process[moves], kind="stable")]
    process = rows.process[moves]
    return Steps(moves, np.append(np.zeros(min(len(moves), 1), np.bool_), process[1:] == process[:-1]))


def known_offsets(one: QueuePartition, seen: Sightings) -> Ints:
    """Returns the offsets, in order, at which something is known to be: no consumer may pass over them."""
    logs = [log.first + np.flatnonzero(log.values != NONE) for log in one.replicas]
    found = np.unique(np.concatenate([seen.offset, one.finals.offset, *logs]))
    return found[found >= one.finals.start]


def between(known: Ints, low: Ints, high: Ints) -> Bools:
    """Returns True if a known offset lies above `low` and below `high`, both excluded."""
    return np.asarray(np.searchsorted(known, high, side="left") > np.searchsorted(known, low, side="right"))


def check_polls(
    one: QueuePartition, seen: Sightings, allowances: Sequence[Allowance]
) -> tuple[tuple[Breach, ...], frozenset[Check]]:
    """Checks that each consumer's records follow each other: none again, none passed over, within one tenure.

    After a fault that may cost what was read, a consumer may find its position gone: its first step back or over is excused.
    """
    rows, steps = one.rows, steps_of(one.rows)
    is_poll = rows.f[steps.row] == Action.POLL
    pair = np.flatnonzero(steps.after & is_poll & np.append(np.zeros(min(len(is_poll), 1), np.bool_), is_poll[:-1]))
    low, high = steps.row[pair - 1], steps.row[pair]
    back = rows.offset[high] <= rows.offset[low]
    over = ~back & (rows.offset[high] > rows.offset[low] + 1)
    gaps = np.flatnonzero(over)
    if len(gaps):
        over[gaps] = between(known_offsets(one, seen), rows.offset[low[gaps]], rows.offset[high[gaps]])
    excused = _excuse(one, low, high, back | over, allowances)
    back, over = back & ~excused, over & ~excused
    name = Check.NONMONOTONIC_POLL
    found: tuple[Breach, ...] = ()
    for check, bad, what in ((name, back, "went back"), (Check.SKIPPED_POLL, over, "passed over what lies between")):
        at = np.flatnonzero(bad)
        shown = []
        for place in at[:SHOWN_MAX].tolist():
            first, second = rows.op(int(low[place])), rows.op(int(high[place]))
            said = (
                f"{who(second)} {what}: after offset {first.offset} it got offset {second.offset}, without a seek or a new "
                "assignment"
            )
            shown.append(Shown((first, second), said))
        found += breach(check, len(at), shown)
    return found, frozenset([name] if len(pair) else [])


def _excuse(one: QueuePartition, low: Ints, high: Ints, bad: Bools, allowances: Sequence[Allowance]) -> Bools:
    """Which steps a fault that costs what was read explains: of each consumer the first after it."""
    excused = np.zeros(len(bad), np.bool_)
    for allowance in allowances:
        if not (allowance.may_cost_read and allowance.reaches(one.number)):
            continue
        at = np.flatnonzero(bad & ~excused & (one.rows.t_ret[high] >= allowance.begun_ns))
        _, first = np.unique(one.rows.process[high[at]], return_index=True)
        excused[at[first]] = True
    return excused


# -------------------------------------------------------------------- groups


@attrs.frozen(eq=False)
class Group:
    """The operations of one group with one partition: rows of commits, reads of its position, assignments and first polls after them."""

    number: int
    commits: Ints
    reads: Ints
    assigned: Ints
    first_polls: Ints
    """Rows of the first record after an assignment, without a seek between."""
    given: Ints
    """The row of the assignment before each of them."""


def groups_of(rows: Columns) -> list[Group]:
    """From the rows of one partition, by group."""
    of_group = np.isin(rows.f, (Action.COMMIT, Action.COMMITTED, Action.ASSIGN)) & (rows.a != NONE)
    numbers = np.unique(rows.a[of_group])
    if not len(numbers):
        return []
    steps = steps_of(rows)
    f = rows.f[steps.row]
    at = np.flatnonzero(steps.after & (f == Action.POLL) & np.append(False, f[:-1] == Action.ASSIGN))
    given, first = steps.row[at - 1], steps.row[at]

    def which(number: int, action: Action) -> Ints:
        return np.flatnonzero(of_group & (rows.f == action) & (rows.a == number))

    found = []
    for number in numbers.tolist():
        mine = rows.a[given] == number
        found.append(
            Group(
                number,
                which(number, Action.COMMIT),
                which(number, Action.COMMITTED),
                which(number, Action.ASSIGN),
                first[mine],
                given[mine],
            )
        )
    return found


def check_groups(
    one: QueuePartition, seen: Sightings, expectations: QueueExpectations, allowances: Sequence[Allowance]
) -> tuple[tuple[Breach, ...], frozenset[Check]]:
    """Returns what is wrong with the groups that share a partition, and which checks something of them could have failed."""
    found: list[Breach] = []
    can_fail: set[Check] = set()
    for group in groups_of(one.rows):
        back, could_go_back = _commits_go_back(one, group, expectations, allowances)
        found += back
        found += _find_passed_over(one, seen, group, expectations, allowances)
        found += _never_committed(one, group, expectations)
        owners, had_owners = _two_owners(one, group, expectations)
        found += owners
        can_fail |= {Check.COMMIT_REGRESS} if could_go_back else set()
        can_fail |= {Check.TWO_OWNERS} if had_owners else set()
    return tuple(found), frozenset(can_fail)


def _commits_go_back(
    one: QueuePartition, group: Group, expectations: QueueExpectations, allowances: Sequence[Allowance]
) -> tuple[tuple[Breach, ...], bool]:
    rows = one.rows
    acked = group.commits[rows.type[group.commits] == Outcome.OK]
    acked = acked[~_costs_commits(one, rows, acked, allowances)]
    started = group.commits[rows.type[group.commits] != Outcome.FAIL]
    looks = np.concatenate([group.reads, group.first_polls])
    since = np.concatenate([rows.t_inv[group.reads], rows.t_inv[group.given]])
    until = rows.t_ret[looks]
    if len(group.first_polls) and any(one_.may_cost_read and one_.reaches(one.number) for one_ in allowances):
        # A committed offset that has left the log with its records sends a consumer back by its reset rule.
        kept = np.append(np.ones(len(group.reads), np.bool_), np.zeros(len(group.first_polls), np.bool_))
        looks, since, until = looks[kept], since[kept], until[kept]
    if not len(acked) or not len(looks):
        return (), False
    acked = acked[np.argsort(rows.t_ret[acked], kind="stable")]
    highest = np.maximum.accumulate(rows.offset[acked])
    before = np.searchsorted(rows.t_ret[acked], since, side="left") - 1
    could = bool((before >= 0).any())
    suspicious = np.flatnonzero((before >= 0) & (highest[np.maximum(before, 0)] > rows.offset[looks]))
    bad: list[tuple[int, int]] = []
    for at in suspicious.tolist():
        offset = int(rows.offset[looks[at]])
        lower = started[(rows.offset[started] <= offset) & (rows.t_inv[started] <= until[at])]
        newest = int(rows.t_ret[lower].max(initial=-NEVER))
        higher = acked[: before[at] + 1]
        higher = higher[(rows.offset[higher] > offset) & (rows.t_inv[higher] > newest)]
        if len(higher):
            bad.append((int(higher[-1]), int(looks[at])))
    shown = []
    for commit, look in bad[:SHOWN_MAX]:
        earlier, later = rows.op(commit), rows.op(look)
        what = "started there again" if later.f is Action.POLL else "found less"
        said = (
            f"group {expectations.group(group.number)} went back: {describe(earlier)} was acknowledged, and then {who(later)} "
            f"{what}: {describe(later)}"
        )
        shown.append(Shown((earlier, later), said))
    return breach(Check.COMMIT_REGRESS, len(bad), shown), could


def _costs_commits(one: QueuePartition, rows: Columns, acked: Ints, allowances: Sequence[Allowance]) -> Bools:
    """Which commits a fault may have cost."""
    lost = np.zeros(len(acked), np.bool_)
    for allowance in allowances:
        if allowance.may_cost_commits:
            lost |= (rows.t_inv[acked] <= allowance.injected_ns) & (rows.t_ret[acked] >= allowance.since_ns)
    return lost


def _never_committed(one: QueuePartition, group: Group, expectations: QueueExpectations) -> tuple[Breach, ...]:
    """Positions that were read though no client wrote them."""
    rows = one.rows
    started = group.commits[rows.type[group.commits] != Outcome.FAIL]
    reads = group.reads[rows.offset[group.reads] != NONE]
    order = started[np.lexsort((rows.t_inv[started], rows.offset[started]))]
    offsets, first = np.unique(rows.offset[order], return_index=True)
    if len(offsets):
        at = np.minimum(np.searchsorted(offsets, rows.offset[reads]), len(offsets) - 1)
        written = (offsets[at] == rows.offset[reads]) & (rows.t_inv[order[first[at]]] <= rows.t_ret[reads])
    else:
        written = np.zeros(len(reads), np.bool_)
    bad = reads[~written]
    name = expectations.group(group.number)
    shown = [
        Shown((op,), f"group {name}: {describe(op)}, which no client had committed")
        for op in map(rows.op, bad[:SHOWN_MAX].tolist())
    ]
    return breach(Check.PHANTOM, len(bad), shown)


def _find_passed_over(
    one: QueuePartition, seen: Sightings, group: Group, expectations: QueueExpectations, allowances: Sequence[Allowance]
) -> tuple[Breach, ...]:
    """First records after an assignment behind everything that the group can have committed, with records between."""
    rows = one.rows
    started = group.commits[rows.type[group.commits] != Outcome.FAIL]
    if not len(started) or not len(group.first_polls):
        return ()
    if any(one_.may_cost_read and one_.reaches(one.number) for one_ in allowances):
        return ()
    started = started[np.argsort(rows.t_inv[started], kind="stable")]
    highest = np.maximum.accumulate(rows.offset[started])
    firsts = group.first_polls
    before = np.searchsorted(rows.t_inv[started], rows.t_ret[firsts], side="right") - 1
    committed = np.where(before >= 0, highest[np.maximum(before, 0)], np.int64(NEVER))
    over = np.flatnonzero(between(known_offsets(one, seen), committed - 1, rows.offset[firsts]))
    shown = []
    for at in over[:SHOWN_MAX].tolist():
        row = int(started[: before[at] + 1][np.argmax(rows.offset[started[: before[at] + 1]])])
        commit, poll = rows.op(row), rows.op(int(firsts[at]))
        said = (
            f"group {expectations.group(group.number)} passed over records: it had committed {commit.offset} at most, and the "
            f"first after an assignment was {describe(poll)}"
        )
        shown.append(Shown((commit, poll), said))
    return breach(Check.SKIPPED_POLL, len(over), shown)


@attrs.frozen
class _Tenure:
    """A member owns a partition from `start` to `end`, by the assignment in `row`."""

    row: int
    process: int
    generation: int
    start: int
    end: int


def _tenures(rows: Columns, group: Group) -> list[_Tenure]:
    """Of all members, in the order in which they began. Something happens here once per assignment, not per record."""
    moves = np.flatnonzero(
        np.isin(rows.f, (Action.ASSIGN, Action.REVOKE)) & np.isin(rows.process, rows.process[group.assigned])
    )
    found: list[_Tenure] = []
    moves = moves[np.argsort(rows.process[moves], kind="stable")]
    for at, row in enumerate(moves.tolist()):
        if rows.f[row] != Action.ASSIGN or rows.a[row] != group.number:
            continue
        follows = at + 1 < len(moves) and rows.process[moves[at + 1]] == rows.process[row]
        end = int(rows.t_inv[moves[at + 1]]) if follows else NEVER
        found.append(_Tenure(row, int(rows.process[row]), int(rows.b[row]), int(rows.t_inv[row]), end))
    return sorted(found, key=lambda tenure: (tenure.start, tenure.row))


def _two_owners(one: QueuePartition, group: Group, expectations: QueueExpectations) -> tuple[tuple[Breach, ...], bool]:
    rows = one.rows
    tenures = _tenures(rows, group)
    acked = group.commits[rows.type[group.commits] == Outcome.OK]
    name, partition = expectations.group(group.number), expectations.partition(one.number)
    count, shown = 0, list[Shown]()
    for first, second in _of_one_generation(tenures):
        count += 1
        pair = (rows.op(first.row), rows.op(second.row))
        said = (
            f"group {name} gave {partition} to two members in generation {first.generation}: "
            f"{who(pair[0])} and {who(pair[1])}"
        )
        shown.append(Shown(pair, said))
    replaced = _commits_of_replaced(rows, tenures, acked)
    count += len(replaced)
    for commit, successor in replaced[:SHOWN_MAX]:
        op, other = rows.op(commit), rows.op(successor)
        said = f"{describe(op)} was acknowledged, though {partition} belonged to {who(other)} when it began"
        shown.append(Shown((other, op), said))
    for tenure, successor_, alive in _moved_early(rows, tenures, acked, expectations.expelled_after_ns):
        count += 1
        ops = (rows.op(alive), rows.op(successor_.row))
        after_s = (successor_.start - int(rows.t_inv[alive])) / 1e9
        said = (
            f"group {name} gave {partition} to {who(ops[1])} while process {tenure.process} owned it, "
            f"{after_s:.3f} s after a commit of that one: it could not have been expelled yet"
        )
        shown.append(Shown(ops, said))
    processes = {tenure.process for tenure in tenures}
    return breach(Check.TWO_OWNERS, count, shown[:SHOWN_MAX]), len(processes) > 1


def _of_one_generation(tenures: Sequence[_Tenure]) -> list[tuple[_Tenure, _Tenure]]:
    """Of each known generation every further member that was assigned the partition, with the first one."""
    owner: dict[int, _Tenure] = {}
    counted: set[tuple[int, int]] = set()
    found = []
    for tenure in tenures:
        if tenure.generation == NONE:
            continue
        first = owner.setdefault(tenure.generation, tenure)
        key = (tenure.generation, tenure.process)
        if first.process != tenure.process and key not in counted:
            counted.add(key)
            found.append((first, tenure))
    return found


def _commits_of_replaced(rows: Columns, tenures: Sequence[_Tenure], acked: Ints) -> list[tuple[int, int]]:
    """Acknowledged commits of members that had been replaced, each with the assignment that replaced them."""
    starts = np.array([tenure.start for tenure in tenures], np.int64)
    found: dict[int, int] = {}
    told_generation = acked[rows.b[acked] != NONE]
    if len(told_generation) and len(tenures):
        generations = np.array([tenure.generation for tenure in tenures], np.int64)
        newest = np.maximum.accumulate(generations)
        before = np.searchsorted(starts, rows.t_inv[told_generation], side="left") - 1
        known = np.where(before >= 0, newest[np.maximum(before, 0)], np.int64(NONE))
        for at in np.flatnonzero(known > rows.b[told_generation]).tolist():
            row = int(told_generation[at])
            others = [
                tenure
                for tenure in tenures[: before[at] + 1]
                if tenure.generation > rows.b[row] and tenure.process != rows.process[row]
            ]
            if others:
                found[row] = others[0].row
    silent = acked[rows.b[acked] == NONE]
    silent = silent[np.lexsort((rows.t_inv[silent], rows.process[silent]))]
    for tenure in tenures if len(silent) else ():
        successor = _successor(tenures, tenure, starts)
        if successor is None:
            continue
        mine = silent[
            np.searchsorted(rows.process[silent], tenure.process) : np.searchsorted(
                rows.process[silent], tenure.process, side="right"
            )
        ]
        late = mine[(rows.t_inv[mine] > successor.start) & (rows.t_inv[mine] < tenure.end)]
        found |= {int(row): successor.row for row in late if int(row) not in found}
    return sorted(found.items())


def _successor(tenures: Sequence[_Tenure], tenure: _Tenure, starts: Ints) -> _Tenure | None:
    """The first assignment to another member after this one began and before it ended."""
    for other in tenures[int(np.searchsorted(starts, tenure.start, side="right")) :]:
        if other.start >= tenure.end:
            return None
        if other.process != tenure.process:
            return other
    return None


def _moved_early(
    rows: Columns, tenures: Sequence[_Tenure], acked: Ints, expelled_after_ns: int
) -> list[tuple[_Tenure, _Tenure, int]]:
    """Tenures that another member ended too soon: with that one's, and the last commit that shows the first alive."""
    found = []
    starts = np.array([tenure.start for tenure in tenures], np.int64)
    for tenure in tenures if expelled_after_ns else ():
        successor = _successor(tenures, tenure, starts)
        if successor is None:
            continue
        mine = acked[rows.process[acked] == tenure.process]
        mine = mine[(rows.t_inv[mine] >= tenure.start) & (rows.t_inv[mine] <= successor.start)]
        if not len(mine):
            continue
        alive = int(mine[np.argmax(rows.t_inv[mine])])
        if successor.start - int(rows.t_inv[alive]) < expelled_after_ns:
            found.append((tenure, successor, alive))
    return found
