"""Judges one partition by itself, and states what it shows of the transactions that wrote to it.

A *view* is a whole partition as it was in the end: the final read as read_committed, and the final log of each node with the
records of aborted transactions hidden. A record is *visible* in a view that has it. What joins partitions is in `check`.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Bools, Columns, Ints
from jepsen_like.checker.rows.segments import LIFT_MAX
from jepsen_like.checker.verdict import Check, Violation
from jepsen_like.history.ops import NEVER, NONE, READ_COMMITTED, READ_UNCOMMITTED, Action, Op, Outcome

SHOWN_MAX: Final = 10
"""Violations of one check with their operations; all are counted."""


@attrs.frozen(eq=False)
class FinalRecords:
    """The final log of a node, in order: values, and which of them are visible."""

    node: int
    offset: Ints
    value: Ints
    is_visible: Bools

    @classmethod
    def of(cls, node: int, offset: Ints, a: Ints) -> "FinalRecords":
        """From the rows of a dump, where the value of a hidden record lies below `NONE`."""
        order = np.argsort(offset, kind="stable")
        stored = a[order]
        return cls(node, offset[order], np.where(stored < NONE, NONE - stored, stored), stored > NONE)


@attrs.define
class Breaches:
    """Everything that is wrong, all of it counted, the first of each kind with its operations."""

    object: int
    counts: dict[Check, int] = attrs.field(factory=dict)
    violations: list[Violation] = attrs.field(factory=list)

    def add(self, check: Check, found: Ints, shown: Callable[[int], tuple[str, Iterable[Op]]]) -> None:
        """Count all of `found`; `shown` gives the sentence and the operations of one."""
        if not len(found):
            return
        self.counts[check] = self.counts.get(check, 0) + len(found)
        for each in found[:SHOWN_MAX].tolist():
            sentence, ops = shown(each)
            self.violations.append(Violation(check, self.object, f"partition {self.object}: {sentence}", tuple(ops)))


@attrs.frozen(eq=False)
class PartitionFacts:
    """The evidence of one partition about each transaction that wrote to it; arrays of one length, in the order of numbers."""

    partition: int
    number: Ints
    rows: Columns
    """The first record of each."""
    sent: Ints
    least: Ints
    """The number of its records that are visible in the view that has the fewest."""
    most: Ints
    latest: Ints
    """The moment when the last of its records that stand in any final log was sent; `NONE` for none."""
    views: int
    sources: Ints
    """Of the visible records with a source: that source, and below the number of their transaction."""
    made_by: Ints
    inputs: Ints
    """The visible values, and below their offsets."""
    offsets: Ints
    position: int
    """The next input of the group, as it was told last; `NONE`: nothing was committed, or no one asked."""
    is_input: bool
    inits: Columns


@attrs.frozen(eq=False)
class WrittenPartition:
    """The rows of one partition."""

    number: int
    rows: Columns
    logs: tuple[FinalRecords, ...]
    sends: Ints
    """The rows of records, in the order of their values."""
    polls: Ints
    finals: Ints
    """The tails that end a final read."""

    @classmethod
    def of(cls, number: int, rows: Columns, logs: tuple[FinalRecords, ...]) -> "WrittenPartition":
        """Sorts the rows out."""
        sends = np.flatnonzero(rows.f == Action.SEND)
        finals = np.flatnonzero((rows.f == Action.TAIL) & (rows.seen != NONE))
        polls = np.flatnonzero(rows.f == Action.POLL)
        return cls(number, rows, logs, sends[np.argsort(rows.a[sends], kind="stable")], polls, finals)

    def entry(self, values: Ints) -> Ints:
        """Returns which of `sends` wrote each value; `NONE` for none."""
        if not len(self.sends):
            return np.full(len(values), NONE, np.int64)
        known = self.rows.a[self.sends]
        at = np.minimum(np.searchsorted(known, values), len(known) - 1)
        return np.where(known[at] == values, at, np.int64(NONE))

    def final_polls(self, isolation: int) -> list[Ints]:
        """Returns the polls of each final read of this level."""
        mine = self.finals[self.rows.b[self.finals] == isolation]
        return [self.polls[self.rows.process[self.polls] == each] for each in self.rows.process[mine].tolist()]

    def views(self) -> list[tuple[Ints, Ints]]:
        """Returns offsets and values of what is visible in each view."""
        reads = [(self.rows.offset[each], self.rows.a[each]) for each in self.final_polls(READ_COMMITTED)]
        return reads + [(log.offset[log.is_visible], log.value[log.is_visible]) for log in self.logs]

    def log_op(self, log: FinalRecords, place: int) -> Op:
        """Returns a record of a final log as a read at the very end."""
        about: dict[str, Any] = {"offset": int(log.offset[place]), "a": int(log.value[place]), "node": log.node}
        return Op(
            f=Action.READ, type=Outcome.OK, t_inv=NEVER - 1, t_ret=NEVER, object=self.number, process=NONE, **about
        )


def judge_partition(one: WrittenPartition) -> tuple[Breaches, PartitionFacts, int]:
    """Returns what is wrong with a partition, what it shows of transactions, and how many committed records it has lost."""
    found, rows = Breaches(one.number), one.rows
    views = one.views()
    entries = [one.entry(values) for _, values in views]
    visible = np.zeros(len(one.sends), np.bool_)
    for entry in entries:
        visible[entry[entry != NONE]] = True
    numbers, first, of_send = np.unique(rows.epoch[one.sends], return_index=True, return_inverse=True)
    counts = [np.bincount(of_send[entry[entry != NONE]], minlength=len(numbers)) for entry in entries]
    nothing = np.zeros(len(numbers), np.int64)
    least = np.minimum.reduce(counts) if counts else nothing
    most = np.maximum.reduce(counts) if counts else nothing
    _check_origins(one, found)
    check_places(one, found)
    _check_replicas(one, found)
    check_send_order(one, found)
    _check_committed_reads(one, found, of_send, most if counts else None)
    _check_polls(one, found, views)
    _check_stable_ends(one, found)
    _check_positions(one, found)
    stands = np.zeros(len(one.sends), np.bool_)
    for values in [rows.a[each] for each in one.final_polls(READ_UNCOMMITTED)] + [log.value for log in one.logs]:
        entry = one.entry(values)
        stands[entry[entry != NONE]] = True
    latest = np.full(len(numbers), NONE, np.int64)
    np.maximum.at(latest, of_send[stands], rows.t_inv[one.sends[stands]])
    made = np.flatnonzero(visible & (rows.b[one.sends] != NONE))
    offsets, values = views[0] if views else (nothing[:0], nothing[:0])
    told = np.flatnonzero(rows.f == Action.COMMITTED)
    position = int(rows.offset[told[np.argmax(rows.t_inv[told])]]) if len(told) else NONE
    facts = PartitionFacts(
        partition=one.number,
        number=numbers.astype(np.int64),
        rows=rows.where(one.sends[first]),
        sent=np.bincount(of_send, minlength=len(numbers)),
        least=least,
        most=most,
        latest=latest,
        views=len(views),
        sources=rows.b[one.sends[made]],
        made_by=rows.epoch[one.sends[made]].astype(np.int64),
        inputs=values,
        offsets=offsets,
        position=position,
        is_input=len(told) > 0,
        inits=rows.where(rows.f == Action.INIT),
    )
    lost = int((~visible & (rows.type[one.sends] == Outcome.OK)).sum()) if views else 0
    return found, facts, lost


# -------------------------------------------------------------------- one check each


def _check_origins(one: WrittenPartition, found: Breaches) -> None:
    """Everything that is there was written by a transaction."""
    rows = one.rows
    unknown = one.polls[one.entry(rows.a[one.polls]) == NONE]
    found.add(
        Check.PHANTOM,
        unknown,
        lambda row: (
            f"process {rows.process[row]} got {rows.a[row]} at offset {rows.offset[row]}, which no transaction wrote",
            [rows.op(row)],
        ),
    )
    for log in one.logs:
        places = np.flatnonzero(one.entry(log.value) == NONE)

        def show(place: int, log: FinalRecords = log) -> tuple[str, list[Op]]:
            what = f"{log.value[place]} at offset {log.offset[place]}"
            return f"the final log of node {log.node} has {what}, which no transaction wrote", [one.log_op(log, place)]

        found.add(Check.PHANTOM, places, show)


def check_places(one: WrittenPartition, found: Breaches) -> None:
    """Each value stands at one offset, and each offset has one value."""
    rows = one.rows
    acked = one.sends[(rows.type[one.sends] == Outcome.OK) & (rows.offset[one.sends] != NONE)]
    offset = np.concatenate([rows.offset[acked], rows.offset[one.polls], *(log.offset for log in one.logs)])
    value = np.concatenate([rows.a[acked], rows.a[one.polls], *(log.value for log in one.logs)])
    pairs = np.unique(np.stack([offset, value], axis=1), axis=0)
    divergent = np.flatnonzero(pairs[1:, 0] == pairs[:-1, 0])
    found.add(
        Check.DIVERGENT_OFFSET,
        divergent,
        lambda at: (f"offset {pairs[at, 0]} has two values: {pairs[at, 1]} and {pairs[at + 1, 1]}", []),
    )
    by_value = pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))]
    doubled = np.flatnonzero(by_value[1:, 1] == by_value[:-1, 1])

    def show(at: int) -> tuple[str, list[Op]]:
        (entry,) = one.entry(by_value[at : at + 1, 1]).tolist()
        ops = [rows.op(int(one.sends[entry]))] if entry != NONE else []
        return (
            f"{by_value[at, 1]} was written once and stands at offsets {by_value[at, 0]} and {by_value[at + 1, 0]}",
            ops,
        )

    found.add(Check.DUPLICATED, doubled, show)


def _check_replicas(one: WrittenPartition, found: Breaches) -> None:
    """All nodes hold the same, and hide the same."""
    for first, second in zip(one.logs, one.logs[1:], strict=False):
        some = [np.stack([log.offset, log.value, log.is_visible], axis=1) for log in (first, second)]
        rows, times = np.unique(np.concatenate(some), axis=0, return_counts=True)
        places = np.flatnonzero(times == 1)

        def show(at: int, names: str = f"{first.node} and {second.node}", rows: Ints = rows) -> tuple[str, list[Op]]:
            offset, value, is_visible = rows[at].tolist()
            state = "committed" if is_visible else "aborted"
            return f"one of nodes {names} alone has {value} at offset {offset} as {state}", []

        found.add(Check.REPLICAS, places, show)


def check_send_order(one: WrittenPartition, found: Breaches) -> None:
    """Of one producer's records those that were sent later stand behind those that were sent earlier."""
    rows = one.rows
    for log in one.logs[:1]:
        entry = one.entry(log.value)
        known = entry[entry != NONE]
        process, sent = rows.process[one.sends[known]], rows.t_inv[one.sends[known]]
        order = np.argsort(process, kind="stable")
        process, sent, known = process[order], sent[order], known[order]
        wrong = np.flatnonzero((process[1:] == process[:-1]) & (sent[1:] < sent[:-1]))

        def show(at: int, known: Ints = known) -> tuple[str, list[Op]]:
            before, after = (rows.op(int(one.sends[known[each]])) for each in (at, at + 1))
            return f"process {after.process} sent {after.a} before {before.a}, which stands before it", [after, before]

        found.add(Check.SEND_ORDER, wrong, show)


def _check_committed_reads(one: WrittenPartition, found: Breaches, of_send: Ints, most: Ints | None) -> None:
    """A read_committed consumer gets nothing of an aborted transaction, and nothing of an open one."""
    rows = one.rows
    polls = one.polls[rows.b[one.polls] == READ_COMMITTED]
    entry = one.entry(rows.a[polls])
    polls, entry = polls[entry != NONE], entry[entry != NONE]
    sends = one.sends[entry]
    is_aborted = rows.type[sends] == Outcome.FAIL
    if most is not None:
        is_aborted |= (rows.type[sends] == Outcome.INFO) & (most[of_send[entry]] == 0)

    def show(at: int, word: str) -> tuple[str, list[Op]]:
        poll, send = rows.op(int(polls[at])), rows.op(int(sends[at]))
        said = (
            f"process {poll.process} (read_committed) got {poll.a} at offset {poll.offset} of transaction {send.epoch}"
        )
        return f"{said}, {word}", [send, poll]

    found.add(Check.ABORTED_READ, np.flatnonzero(is_aborted), lambda at: show(at, "which did not commit"))
    is_dirty = ~is_aborted & (rows.seen[sends] != NONE) & (rows.t_ret[polls] < rows.seen[sends])
    found.add(Check.DIRTY_READ, np.flatnonzero(is_dirty), lambda at: show(at, "whose commit was asked for only later"))


def _check_polls(one: WrittenPartition, found: Breaches, views: list[tuple[Ints, Ints]]) -> None:
    """A consumer gets records in their order, and a read_committed one passes over none that is visible."""
    rows = one.rows
    offsets = np.unique(np.concatenate([offset for offset, _ in views])) if views else None
    polls = one.polls[np.argsort(rows.process[one.polls], kind="stable")]
    process = rows.process[polls]
    for mine in np.split(polls, np.flatnonzero(process[1:] != process[:-1]) + 1) if len(polls) else []:
        check_polls_of(one, found, mine)
        if offsets is not None and rows.b[mine[0]] == READ_COMMITTED:
            _check_passed(one, found, mine, offsets)


def check_polls_of(one: WrittenPartition, found: Breaches, mine: Ints) -> None:
    """One consumer gets records in their order."""
    rows = one.rows
    got = rows.offset[mine]

    def show(at: int) -> tuple[str, list[Op]]:
        before, after = (rows.op(int(mine[each])) for each in (at, at + 1))
        return f"process {after.process} got offset {after.offset} after {before.offset}", [before, after]

    found.add(Check.NONMONOTONIC_POLL, np.flatnonzero(got[1:] <= got[:-1]), show)


def _check_passed(one: WrittenPartition, found: Breaches, mine: Ints, offsets: Ints) -> None:
    rows = one.rows
    got = rows.offset[mine]
    low, high = np.searchsorted(offsets, (got.min(), got.max()))

    def show(offset: int) -> tuple[str, list[Op]]:
        ops = [rows.op(int(mine[np.flatnonzero(got < offset)[-1]])), rows.op(int(mine[np.argmax(got > offset)]))]
        return f"process {ops[0].process} (read_committed) passed over the committed record at offset {offset}", ops

    found.add(Check.SKIPPED_POLL, np.setdiff1d(offsets[low:high], got), show)


def _check_stable_ends(one: WrittenPartition, found: Breaches) -> None:
    """The end that read_committed reads to never goes back."""
    rows = one.rows
    tails = np.flatnonzero((rows.f == Action.TAIL) & (rows.b == READ_COMMITTED))
    _check_never_back(one, found, tails, Check.STABLE_END, "the last stable offset was {0}, and then {1}")


def _check_positions(one: WrittenPartition, found: Breaches) -> None:
    """The position of a group never goes back."""
    told = np.flatnonzero(one.rows.f == Action.COMMITTED)
    _check_never_back(one, found, told, Check.COMMIT_REGRESS, "the group was told position {0}, and then {1}")


def _check_never_back(one: WrittenPartition, found: Breaches, asked: Ints, check: Check, words: str) -> None:
    """An answer to a question that began after another was answered is no smaller."""
    rows = one.rows
    by_end = asked[np.argsort(rows.t_ret[asked], kind="stable")]
    highest = np.maximum.accumulate(rows.offset[by_end]) if len(by_end) else by_end
    before = np.searchsorted(rows.t_ret[by_end], rows.t_inv[asked], side="left")
    known = np.where(before > 0, highest[np.maximum(before - 1, 0)] if len(by_end) else before, -LIFT_MAX)
    wrong = np.flatnonzero(known > rows.offset[asked])

    def show(at: int) -> tuple[str, list[Op]]:
        earlier = by_end[: before[at]]
        top = int(earlier[np.argmax(rows.offset[earlier])])
        return words.format(rows.offset[top], rows.offset[asked[at]]), [rows.op(top), rows.op(int(asked[at]))]

    found.add(check, wrong, show)
