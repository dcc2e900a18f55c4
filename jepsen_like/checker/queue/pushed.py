"""Checks of a partition whose messages clients push to the members of groups, at least once, and commit as they are consumed.

RocketMQ's clients do so. Which partitions a member has they do not tell; a history has what each member was given, from the begin of its
listener to the end, when members joined and left, and the group's position as the broker told it now and then.

- `undelivered`: a message that is there in the end was never given to the group.
- `commit_ahead`: when a position was told, a message before it had not been given to any member: a member that took over there would have
  passed it over.
- `commit_regress`: a position lies before an earlier one, and no member had begun there shortly before (a member that takes a partition over
  begins at the position, and commits from there, although its predecessor may have committed more in the meantime); or a member began before
  every position that was told from when it joined on. A fault may cost what was committed shortly before it, as `Allowance.rewinds_ns` states;
  that is told as tolerated.
- `two_owners` (orderly): two members had a message of the partition at once. Where clients give a lock up without waiting for their listener
  (`unlocks_early`), the one message that is under way at a handover is tolerated. Where brokers forget locks in a fault, it is tolerated for
  `Allowance.unlocks_ns`.

That a message is given again is counted and no violation.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.queue.records import SHOWN_MAX, Breach, Shown, breach
from jepsen_like.checker.queue.rows import Fate, QueueExpectations, QueuePartition
from jepsen_like.checker.rows.columns import Bools, Columns, Ints
from jepsen_like.checker.sentences import describe, who
from jepsen_like.checker.verdict import Check, Tolerated
from jepsen_like.history.ops import NEVER, NONE, Action, Op

COMMITTED_WITHIN_NS: Final = 15 * 10**9
"""So long after it has begun a member has committed: clients do every 5 s."""
REBALANCED_WITHIN_NS: Final = 60 * 10**9
"""So long after a fault every client has learnt of it and has committed: heartbeats of 30 s, rebalances of 20 s, commits of 5 s."""
GIVEN_UP_FOR_NS: Final = 10**9
"""An owner that begins no message for so long has given its partition up, under any load that is worth a check."""
UNLOCKS_EARLY: Final = "its client gives a lock up while its listener has a message"
Cause = Allowance | str | None
"""The cause that excuses a deviation: a fault of the run, or a sentence that always holds. None: nothing does."""


@attrs.frozen
class PushedFindings:
    """The findings about one partition."""

    breaches: tuple[Breach, ...] = ()
    shown: frozenset[Check] = frozenset()
    tolerated: tuple[Tolerated, ...] = ()
    given: int = 0
    again: int = 0


def check_pushed(
    one: QueuePartition,
    fate: Fate,
    is_forgiven: Bools,
    expectations: QueueExpectations,
    allowances: Sequence[Allowance],
) -> PushedFindings:
    """Returns what is wrong with what the groups were given of a partition."""
    breaches: list[Breach] = []
    tolerated: list[Tolerated] = []
    shown = {Check.UNDELIVERED}
    given = again = 0
    for group in expectations.groups:
        first = first_given(one, group)
        rows = deliveries(one, group)
        distinct = int((first < NEVER).sum())
        given, again = given + distinct, again + len(rows) - distinct
        breaches += _find_undelivered(one, fate, first, group, expectations)
        looks = positions(one, group)
        if len(looks):
            shown.add(Check.COMMIT_AHEAD)
            if not is_forgiven.any() and not len(fate.lost):  # else offsets mean one message before, and another after
                breaches += _ahead(one, first, looks, group, expectations)
        back, excused, could = _back(one, rows, looks, group, expectations, allowances)
        breaches += back
        tolerated += excused
        shown |= {Check.COMMIT_REGRESS} if could else set()
        if expectations.is_orderly:
            both, excused, could = _owners(one, rows, group, expectations, allowances)
            breaches += both
            tolerated += excused
            shown |= {Check.TWO_OWNERS} if could else set()
    return PushedFindings(tuple(breaches), frozenset(shown), tuple(tolerated), given, again)


def deliveries(one: QueuePartition, group: int) -> Ints:
    """Rows of what a group was given, by the begin of its listener."""
    rows = one.rows
    mine = np.flatnonzero((rows.f == Action.POLL) & (rows.b == group) & (rows.a != NONE))
    return mine[np.argsort(rows.t_inv[mine], kind="stable")]


def positions(one: QueuePartition, group: int) -> Ints:
    """Rows of a group's positions, by when they were told."""
    rows = one.rows
    mine = np.flatnonzero((rows.f == Action.COMMITTED) & (rows.a == group) & (rows.offset != NONE))
    return mine[np.argsort(rows.t_ret[mine], kind="stable")]


def first_given(one: QueuePartition, group: int) -> Ints:
    """For each entry of `Sent`, when a member was first given it; `NEVER` for never."""
    rows = deliveries(one, group)
    entry = one.sent.find(one.rows.a[rows])
    first = np.full(len(one.sent.value), NEVER, np.int64)
    known = entry != NONE
    np.minimum.at(first, entry[known], one.rows.t_inv[rows[known]])
    return first


def _find_undelivered(
    one: QueuePartition, fate: Fate, first: Ints, group: int, expectations: QueueExpectations
) -> tuple[Breach, ...]:
    missing = np.flatnonzero(fate.is_there & np.isin(one.sent.value, one.finals.held) & (first == NEVER))
    rows = one.rows
    shown = []
    for entry in missing[:SHOWN_MAX].tolist():
        send = rows.op(int(np.flatnonzero((rows.f == Action.SEND) & (rows.a == one.sent.value[entry]))[0]))
        shown.append(
            Shown((send,), f"group {expectations.group(group)} was never given {describe(send)}, which is there")
        )
    return breach(Check.UNDELIVERED, len(missing), shown)


def _ahead(
    one: QueuePartition, first: Ints, looks: Ints, group: int, expectations: QueueExpectations
) -> tuple[Breach, ...]:
    rows = one.rows
    log = max(one.replicas, key=lambda log: log.end, default=None)
    if log is None:
        return ()
    entry = one.sent.find(log.values)
    since = np.where(entry == NONE, -NEVER, first[entry] if len(first) else np.int64(-NEVER))
    latest = np.maximum.accumulate(np.concatenate([[-NEVER], since]))
    before = np.clip(rows.offset[looks] - log.first, 0, len(log.values))
    bad = np.flatnonzero(latest[before] > rows.t_ret[looks])
    shown = []
    for at in bad[:SHOWN_MAX].tolist():
        look = rows.op(int(looks[at]))
        place = int(np.argmax(since[: before[at]] > look.t_ret))
        message = one.held_op(one.replicas.index(log), place, one.end_of_time)
        said = (
            f"group {expectations.group(group)}: {describe(look)}, and no member had been given offset {message.offset} "
            f"({message.a}) by then"
        )
        shown.append(Shown((look, message), said))
    return breach(Check.COMMIT_AHEAD, len(bad), shown)


# -------------------------------------------------------------------- positions that go back


def _back(
    one: QueuePartition,
    given: Ints,
    looks: Ints,
    group: int,
    expectations: QueueExpectations,
    allowances: Sequence[Allowance],
) -> tuple[tuple[Breach, ...], list[Tolerated], bool]:
    rows = one.rows
    if not len(looks):
        return (), [], False
    offset, t_inv, t_ret = rows.offset[looks], rows.t_inv[looks], rows.t_ret[looks]
    positions = _Positions(one.number, offset, t_ret)
    name = expectations.group(group)
    tally = _Tally(Check.COMMIT_REGRESS, one.number)
    begins = _begins(rows, given)
    # Only where it falls: a position that stays low after that is the same event.
    for at in (1 + np.flatnonzero(offset[1:] < offset[:-1])).tolist():
        recent = begins[(rows.t_inv[begins] <= t_ret[at]) & (rows.t_inv[begins] >= t_inv[at - 1] - COMMITTED_WITHIN_NS)]
        if (rows.offset[recent] <= offset[at]).any():
            continue
        cause = _rewound_by(positions, allowances, int(offset[at]), int(t_inv[at - 1]), int(t_ret[at]))
        if tally.counts(cause):
            pair = (rows.op(int(looks[at - 1])), rows.op(int(looks[at])))
            said = f"group {name} went back from {pair[0].offset} to {pair[1].offset}: {describe(pair[1])}, and no member had begun there"
            tally.tell(cause, pair, said)
    joined = _join_times(rows, group)
    could = len(offset) > 1
    for begin in begins.tolist():
        since = joined.get(int(rows.process[begin]))
        if since is None:
            continue
        joined.pop(int(rows.process[begin]))  # how it came to have the partition again is not told
        first = int(np.searchsorted(t_ret, since, side="left")) - 1
        last = int(np.searchsorted(t_ret, rows.t_inv[begin], side="left"))
        if first < 0:
            continue
        could = True
        floor = int(offset[first:last].min())
        if rows.offset[begin] >= floor:
            continue
        cause = _rewound_by(positions, allowances, int(rows.offset[begin]), int(t_inv[first]), int(rows.t_ret[begin]))
        if tally.counts(cause):
            pair = (rows.op(int(looks[first])), rows.op(begin))
            said = (
                f"group {name} was at {floor} when {who(pair[1])} joined, and it began before that: {describe(pair[1])}"
            )
            tally.tell(cause, pair, said)
    return tally.breach(), tally.list_tolerated(), could


def _begins(rows: Columns, given: Ints) -> Ints:
    """Returns where members began: their first message of the partition, and every one before one that they had been given."""
    found = []
    for process in np.unique(rows.process[given]).tolist():
        mine = given[rows.process[given] == process]
        highest = np.concatenate([[np.int64(NEVER)], np.maximum.accumulate(rows.offset[mine])[:-1]])
        found.append(mine[rows.offset[mine] < highest])
    begins = np.concatenate(found) if found else given
    return begins[np.argsort(rows.t_inv[begins], kind="stable")]


def _join_times(rows: Columns, group: int) -> dict[int, int]:
    """Returns when each member joined."""
    mine = np.flatnonzero((rows.f == Action.ASSIGN) & (rows.a == group))
    return dict(zip(rows.process[mine].tolist(), rows.t_inv[mine].tolist(), strict=True))


@attrs.frozen(eq=False)
class _Positions:
    """The positions of a group in one partition, and when each was known."""

    number: int
    offset: Ints
    t_ret: Ints


def _rewound_by(
    positions: _Positions, allowances: Sequence[Allowance], low: int, since: int, until: int
) -> Allowance | None:
    """Returns the fault that may have cost the commits behind `low`: it held, or ended not long before, when the position fell."""
    for allowance in allowances:
        if allowance.rewinds_ns == NONE or not allowance.reaches(positions.number):
            continue
        if not (allowance.begun_ns <= until and since <= allowance.injected_ns + REBALANCED_WITHIN_NS):
            continue
        kept = positions.offset[positions.t_ret < allowance.begun_ns - allowance.rewinds_ns]
        if low >= int(kept.max(initial=0)):
            return allowance
    return None


# -------------------------------------------------------------------- two owners


def _owners(
    one: QueuePartition, given: Ints, group: int, expectations: QueueExpectations, allowances: Sequence[Allowance]
) -> tuple[tuple[Breach, ...], list[Tolerated], bool]:
    rows = one.rows
    process, begin, end = rows.process[given].astype(np.int64), rows.t_inv[given], rows.t_ret[given]
    tally = _Tally(Check.TWO_OWNERS, one.number)
    for first, second in _overlaps(process, begin, end):
        cause: Cause = next(
            (
                each
                for each in allowances
                if each.unlocks_ns != NONE
                and each.reaches(one.number)
                and each.begun_ns <= begin[second] <= each.injected_ns + each.unlocks_ns
            ),
            None,
        )
        if cause is None and expectations.unlocks_early and _has_given_up(process, begin, first, second):
            cause = UNLOCKS_EARLY
        if tally.counts(cause):
            pair = (rows.op(int(given[first])), rows.op(int(given[second])))
            said = (
                f"group {expectations.group(group)}: {who(pair[1])} was given offset {pair[1].offset} of "
                f"{expectations.partition(one.number)} while {who(pair[0])} had offset {pair[0].offset}"
            )
            tally.tell(cause, pair, said)
    return tally.breach(), tally.list_tolerated(), len(np.unique(process)) > 1


def _overlaps(process: Ints, begin: Ints, end: Ints) -> Iterator[tuple[int, int]]:
    """Each message that a member was given while another member had one, with that one. In the order of `begin`."""
    latest: dict[int, int] = {}
    for at, (who_, since) in enumerate(zip(process.tolist(), begin.tolist(), strict=True)):
        other = next((place for member, place in latest.items() if member != who_ and end[place] > since), None)
        if other is not None:
            yield other, at
        if who_ not in latest or end[at] > end[latest[who_]]:
            latest[who_] = at


def _has_given_up(process: Ints, begin: Ints, first: int, second: int) -> bool:
    """Returns True if the earlier owner began no other message for a while: the overlap is the end of its last one."""
    after = slice(second, int(np.searchsorted(begin, begin[second] + GIVEN_UP_FOR_NS)))
    return not bool((process[after] == process[first]).any())


@attrs.define
class _Tally:
    """The findings of one check in a partition, by cause: all are counted, and no more put into words than is shown."""

    check: Check
    number: int
    found: dict[Cause, int] = attrs.field(factory=dict)
    shown: dict[Cause, list[Shown]] = attrs.field(factory=dict)

    def counts(self, cause: Cause) -> bool:
        """Count one more; returns whether it should be told."""
        self.found[cause] = self.found.get(cause, 0) + 1
        return len(self.shown.setdefault(cause, [])) < (SHOWN_MAX if cause is None else 1)

    def tell(self, cause: Cause, ops: tuple[Op, ...], sentence: str) -> None:
        """Keep one that was counted."""
        self.shown[cause].append(Shown(ops, sentence))

    def breach(self) -> tuple[Breach, ...]:
        """Returns what nothing excuses."""
        return breach(self.check, self.found.get(None, 0), self.shown.get(None, ()))

    def list_tolerated(self) -> list[Tolerated]:
        """Returns what something excuses."""
        return [
            Tolerated(
                check=self.check,
                object=self.number,
                count=count,
                because=cause if isinstance(cause, str) else f"fault {cause.fault} ({cause.kind}): {cause.promise}",
                fault=NONE if isinstance(cause, str) else cause.fault,
                example=self.shown[cause][0].sentence,
            )
            for cause, count in self.found.items()
            if cause is not None
        ]
