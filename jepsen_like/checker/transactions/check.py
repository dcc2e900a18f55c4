"""Findings about transactions over all partitions: all or nothing, each input once, nothing of a fenced producer."""

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Bools, Columns, Ints
from jepsen_like.checker.transactions.partition import Breaches, PartitionFacts
from jepsen_like.checker.verdict import Check, Findings, TransactionCounts, in_order
from jepsen_like.history.ops import NEVER, NONE, Op, Outcome

NO_TAKEOVER: Final = "fencing: no transactional id was taken from a producer"
NO_INPUT: Final = "exactly once: no transaction committed the position of an input"
OF_ALL: Final = -1


@attrs.frozen(eq=False)
class Transactions:
    """All transactions of a history, one entry each."""

    number: Ints
    outcome: Ints
    sent: Ints
    size: Ints
    is_whole: Bools
    """All of it is visible in every view."""
    is_absent: Bools
    """Nothing of it is visible in any view."""
    fenced_ns: Ints
    """The moment when its producer was fenced; `NEVER`: it was not."""
    is_fenced: Bools
    """It was ended, or a record of it was written, after that."""
    partition: Ints
    """The first of its partitions, and below the place of the transaction there."""
    place: Ints


def join(facts: Sequence[PartitionFacts]) -> tuple[Findings, TransactionCounts]:
    """Returns what is wrong with the transactions of these partitions, which are all that there are, and how they ended."""
    inits = Columns.join([one.inits for one in facts])
    all_of = _gather(facts, inits)
    findings = Findings()
    counts = TransactionCounts(
        committed=int((all_of.outcome == Outcome.OK).sum()),
        aborted=int((all_of.outcome == Outcome.FAIL).sum()),
        unknown=int((all_of.outcome == Outcome.INFO).sum()),
        takeovers=int(len(inits) - len(np.unique(inits.a))),
    )
    by_partition = {one.partition: Breaches(one.partition) for one in facts}

    def report(check: Check, wrong: Bools, words: str) -> None:
        for number in np.unique(all_of.partition[wrong]).tolist():
            mine = np.flatnonzero(wrong & (all_of.partition == number))
            by_partition[number].add(check, mine, lambda at: (_tell(facts, all_of, at, words), _ops(facts, all_of, at)))

    may_be_there = all_of.outcome != Outcome.FAIL
    report(Check.TORN, may_be_there & ~all_of.is_whole & ~all_of.is_absent, "is there in part")
    report(Check.LOST, (all_of.outcome == Outcome.OK) & all_of.is_absent, "was committed, and nothing of it is there")
    report(Check.ABORTED_READ, ~may_be_there & ~all_of.is_absent, "certainly did not commit, and is there")
    report(Check.FENCED, all_of.is_fenced, "went on after another producer had taken its transactional id")
    _check_once(facts, by_partition)
    for one in by_partition.values():
        wrong = frozenset([one.object] if one.counts else [])
        found = Findings(counts=one.counts, violations=tuple(one.violations), violated=wrong)
        findings = findings.plus(found)
    shown = [NO_TAKEOVER] if not counts.takeovers else []
    shown += [NO_INPUT] if not any(one.is_input and one.position > 0 for one in facts) else []
    return attrs.evolve(findings, unjudged=frozenset(shown)), counts


def _gather(facts: Sequence[PartitionFacts], inits: Columns) -> Transactions:
    """Returns all transactions, of what each partition shows of them."""
    number = np.concatenate([one.number for one in facts])
    partition = np.concatenate([np.full(len(one.number), one.partition) for one in facts])
    place = np.concatenate([np.arange(len(one.number)) for one in facts])
    rows = Columns.join([one.rows for one in facts])
    sent, least, most, latest = (
        np.concatenate([getattr(one, name) for one in facts]) for name in ("sent", "least", "most", "latest")
    )
    # Of a partition without a view nothing is known, and nothing is held against a transaction.
    has_views = np.concatenate([np.full(len(one.number), one.views > 0) for one in facts])
    whole, absent = ~has_views | (least == sent), ~has_views | (most == 0)
    numbers, first, at = np.unique(number, return_index=True, return_inverse=True)

    def over(values: Ints, how: np.ufunc, start: int) -> Ints:
        found = np.full(len(numbers), start, np.int64)
        how.at(found, at, values)
        return found

    fenced_ns = _fenced_at(rows.where(first), inits)
    asked = rows.seen[first]
    is_absent = over(absent, np.minimum, 1) > 0
    is_late = (asked != NONE) & (asked > fenced_ns) & (~is_absent | (rows.type[first] == Outcome.OK))
    return Transactions(
        number=numbers,
        outcome=rows.type[first].astype(np.int64),
        sent=over(sent, np.add, 0),
        size=rows.count[first].astype(np.int64),
        is_whole=over(whole, np.minimum, 1) > 0,
        is_absent=is_absent,
        fenced_ns=fenced_ns,
        is_fenced=is_late | (over(latest, np.maximum, NONE) > fenced_ns),
        partition=partition[first],
        place=place[first],
    )


def _fenced_at(sends: Columns, inits: Columns) -> Ints:
    """Returns when the producer of each record had surely lost its transactional id; `NEVER` if it kept it."""
    found = np.full(len(sends), NEVER, np.int64)
    for number in np.unique(inits.a).tolist():
        mine = np.flatnonzero(inits.a == number)
        order = mine[np.argsort(inits.t_inv[mine], kind="stable")]
        # The earliest end of those that began at this place or later.
        ends = np.minimum.accumulate(inits.t_ret[order][::-1])[::-1]
        following = np.searchsorted(inits.t_inv[order], inits.t_ret[order], side="right")
        lost = np.where(following < len(order), ends[np.minimum(following, len(order) - 1)], NEVER)
        for process, fenced_ns in zip(inits.process[order].tolist(), lost.tolist(), strict=True):
            found[sends.process == process] = fenced_ns
    return found


def _tell(facts: Sequence[PartitionFacts], all_of: Transactions, at: int, words: str) -> str:
    """Returns a sentence about a transaction, with what each partition shows of it."""
    outcome = {Outcome.OK: "committed", Outcome.FAIL: "aborted", Outcome.INFO: "of unknown outcome"}
    parts = []
    for one in facts:
        for place in np.flatnonzero(one.number == all_of.number[at]).tolist():
            least, most = int(one.least[place]), int(one.most[place])
            many = f"{least}" if least == most else f"{least} to {most}"
            parts.append(f"partition {one.partition} shows {many} of {one.sent[place]}")
    state = outcome[Outcome(int(all_of.outcome[at]))]
    return f"transaction {all_of.number[at]} of {all_of.sent[at]} records, {state}, {words}: {'; '.join(parts)}"


def _ops(facts: Sequence[PartitionFacts], all_of: Transactions, at: int) -> tuple[Op, ...]:
    """Returns the first record of a transaction in each partition."""
    found = []
    for one in facts:
        found += [one.rows.op(place) for place in np.flatnonzero(one.number == all_of.number[at]).tolist()]
    return in_order(found)


def _check_once(facts: Sequence[PartitionFacts], found: dict[int, Breaches]) -> None:
    """Each input before the committed position has one visible output, and each input behind it none."""
    sources = np.sort(np.concatenate([one.sources for one in facts]))
    made, times = np.unique(sources, return_counts=True)
    for one in facts:
        if not one.is_input:
            continue
        at = np.minimum(np.searchsorted(made, one.inputs), max(0, len(made) - 1))
        outputs = np.where(made[at] == one.inputs, times[at], 0) if len(made) else np.zeros(len(one.inputs), np.int64)
        is_done = one.offsets < max(0, one.position)

        def show(at: int, words: str, one: PartitionFacts = one) -> tuple[str, tuple[Op, ...]]:
            where = (
                f"the input {one.inputs[at]} at offset {one.offsets[at]}, with the position at {max(0, one.position)}"
            )
            return f"{where}, {words}", _ops_of_source(facts, int(one.inputs[at]))

        mine = found[one.partition]
        mine.add(Check.LOST, np.flatnonzero(is_done & (outputs == 0)), lambda at: show(at, "has no output"))
        mine.add(Check.DUPLICATED, np.flatnonzero(outputs > 1), lambda at: show(at, "has two outputs"))
        early = np.flatnonzero(~is_done & (outputs > 0))
        mine.add(Check.TORN, early, lambda at: show(at, "has an output, whose transaction did not move the position"))


def _ops_of_source(facts: Sequence[PartitionFacts], source: int) -> tuple[Op, ...]:
    """Returns the first records of the transactions that made something visible of an input."""
    found = []
    for one in facts:
        for number in one.made_by[one.sources == source].tolist():
            found += [one.rows.op(place) for place in np.flatnonzero(one.number == number).tolist()]
    return in_order(found)
