"""One partition as its clients saw it: which record stands where, who sent it, and what each check finds in that.

Nothing but the clients is asked. A record is known to be there if its producer was told so, or if any poll had it; polls of
transactions that came to nothing count too, because consumers never get what is not committed. A *place* counts the known
offsets from 0, so that the markers of transactions leave no gaps. The rules are those of Jepsen's workload for Kafka.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.cycles.graph import Edge, Kind, Nodes
from jepsen_like.checker.found import Found
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.sentences import describe
from jepsen_like.checker.verdict import Check
from jepsen_like.history.ops import NONE, Action, Op, Outcome

SHOWN_MAX: Final = 3
"""Values that a sentence lists."""
INTERLEAVES: Final = "Kafka's transactions write side by side"
REBALANCES: Final = "a consumer that subscribes may be given other partitions between two polls"


@attrs.frozen(eq=False)
class KnownLog:
    """The rows of one partition as lists, in the order recorded, and what they tell about its log."""

    number: int
    rows: Columns
    f: list[int]
    type: list[int]
    value: list[int]
    offset: list[int]
    process: list[int]
    txn: list[int]
    group: list[int]
    sent: Mapping[int, int]
    """By value the row of the attempt that is most likely to have sent it."""
    log: Mapping[int, Sequence[int]]
    """By offset the values that stand there, which should be one."""
    places: Mapping[int, int]
    """The place of each known offset."""
    offsets: Mapping[int, Sequence[int]]
    """By value its known offsets, in order."""
    polled: frozenset[int]
    """The values that polls brought which certainly happened."""
    committed: frozenset[int]
    """The transactions of unknown outcome that certainly committed."""

    @classmethod
    def of(cls, number: int, rows: Columns, committed: frozenset[int]) -> "KnownLog":
        """From all rows of the partition; `committed` are transactions of unknown outcome of which a record was polled."""
        f, outcome, value = rows.f.tolist(), rows.type.tolist(), rows.a.tolist()
        offset, txn = rows.offset.tolist(), rows.epoch.tolist()
        sent = dict[int, int]()
        log = dict[int, list[int]]()
        for row, action in enumerate(f):
            if action == Action.SEND:
                other = sent.get(value[row])
                if other is None or _likelihood(outcome[row]) > _likelihood(outcome[other]):
                    sent[value[row]] = row
            is_there = action == Action.POLL or (
                action == Action.SEND
                and (outcome[row] == Outcome.OK or (outcome[row] == Outcome.INFO and txn[row] in committed))
            )
            if is_there and offset[row] != NONE and value[row] not in log.setdefault(offset[row], []):
                log[offset[row]].append(value[row])
        offsets = dict[int, list[int]]()
        for at in sorted(log):
            for each in log[at]:
                offsets.setdefault(each, []).append(at)
        return cls(
            number,
            rows,
            f,
            outcome,
            value,
            offset,
            rows.process.tolist(),
            txn,
            rows.b.tolist(),
            sent=sent,
            log=log,
            places={at: place for place, at in enumerate(sorted(log))},
            offsets=offsets,
            polled=polled_values(rows),
            committed=committed,
        )

    def rows_of(self, *actions: Action) -> list[int]:
        """Returns the rows of these operations, in order."""
        return [row for row, action in enumerate(self.f) if action in actions]

    def did_happen(self, row: int) -> bool:
        """Returns whether the transaction of a send certainly committed."""
        return self.type[row] == Outcome.OK or (self.type[row] == Outcome.INFO and self.txn[row] in self.committed)

    def place(self, row: int) -> int | None:
        """Returns the place of a record: that of its own offset, else of the first where its value stands. None: not known."""
        if self.offset[row] != NONE and self.offset[row] in self.places:
            return self.places[self.offset[row]]
        known = self.offsets.get(self.value[row])
        return self.places[known[0]] if known else None

    def between(self, first: int, last: int) -> list[int]:
        """Returns the values between two places, one for each."""
        at = sorted(self.log)
        return [self.log[at[place]][0] for place in range(first + 1, last)]

    def senders(self, value: int) -> list[Op]:
        """Returns the attempt that sent a value, if there is any."""
        return [self.rows.op(self.sent[value])] if value in self.sent else []


def polled_values(rows: Columns) -> frozenset[int]:
    """Returns the values that polls brought which certainly happened."""
    return frozenset(rows.a[(rows.f == Action.POLL) & (rows.type == Outcome.OK)].tolist())


def _likelihood(outcome: int) -> int:
    return {Outcome.OK: 2, Outcome.INFO: 1}.get(Outcome(outcome), 0)


def check_places(one: KnownLog, found: Found) -> None:
    """Each offset has one value, and each value one offset."""
    tellers = dict[tuple[int, int], int]()
    for row in one.rows_of(Action.SEND, Action.POLL):
        tellers.setdefault((one.offset[row], one.value[row]), row)
    for at in sorted(one.log):
        if len(values := one.log[at]) > 1:
            ops = [one.rows.op(tellers[at, value]) for value in values[:SHOWN_MAX]]
            found.add(Check.DIVERGENT_OFFSET, f"offset {at} has {len(values)} values: {_list(values)}", ops)
    for value, at_offsets in one.offsets.items():
        if len(at_offsets) > 1:
            ops = [one.rows.op(tellers[at, value]) for at in at_offsets[:SHOWN_MAX]]
            where = f"{len(at_offsets)} offsets: {_list(at_offsets)}"
            found.add(Check.DUPLICATED, f"{value} was sent once, and stands at {where}", ops)


def check_origins(one: KnownLog, found: Found) -> None:
    """A record that is polled was sent by an attempt that may have happened, in another transaction."""
    own = {(one.txn[row], one.value[row]) for row in one.rows_of(Action.SEND)}
    for row in one.rows_of(Action.POLL):
        value, poll = one.value[row], one.rows.op(row)
        if value not in one.sent:
            found.add(Check.PHANTOM, f"the {describe(poll)} has what no client sent", [poll])
        elif one.type[row] == Outcome.OK and one.type[one.sent[value]] == Outcome.FAIL:
            said = f"the {describe(poll)} has what was refused for certain"
            found.add(Check.ABORTED_READ, said, [*one.senders(value), poll])
        if one.txn[row] != NONE and (one.txn[row], value) in own:
            said = f"process {poll.process} polled {value} in the transaction that sent it, which had not committed"
            found.add(Check.PRECOMMITTED_READ, said, [*one.senders(value), poll])


def check_losses(one: KnownLog, found: Found) -> tuple[int, int]:
    """A record that certainly committed, before one that was polled, was polled too. Returns how many are lost, and unseen."""
    reached = max((one.places[one.offsets[value][0]] for value in one.polled if value in one.offsets), default=-1)
    lost = [
        value
        for value, offsets in one.offsets.items()
        if one.places[offsets[-1]] <= reached
        and value not in one.polled
        and value in one.sent
        and one.did_happen(one.sent[value])
    ]
    farthest = next(
        (
            row
            for row in one.rows_of(Action.POLL)
            if one.type[row] == Outcome.OK and one.places.get(one.offset[row], -1) >= reached
        ),
        None,
    )
    polls = [] if farthest is None else [one.rows.op(farthest)]
    for value in lost:
        behind = f", though the {describe(polls[0])} lies behind it" if polls else ""
        (send,) = one.senders(value)
        said = f"the {describe(send)} took effect for certain, and no poll had it{behind}"
        found.add(Check.LOST, said, [send, *polls])
    gone = set(lost)
    acked = {value for value, row in one.sent.items() if one.type[row] == Outcome.OK}
    return len(acked & gone), len(acked - one.polled - gone)


def check_internal(one: KnownLog, found: Found) -> None:
    """Within one transaction, polls and sends of a partition go on from each other."""
    for before, after in _pairs(one, one.rows_of(Action.POLL)):
        if one.rows.seen[after] != NONE:  # the partition came or went while the transaction ran
            continue
        step, ops = _step(one, before, after), [one.rows.op(before), one.rows.op(after)]
        said = f"one transaction of process {ops[1].process} polled {ops[1].a} after {ops[0].a}"
        if step > 1:
            found.add(Check.INTERNAL_POLL_SKIP, f"{said}, and passed over {_name_skipped(one, before, after)}", ops)
        elif step < 1:
            found.add(Check.INTERNAL_NONMONOTONIC_POLL, f"{said}, which does not lie before it", ops)
    for before, after in _pairs(one, one.rows_of(Action.SEND)):
        step, ops = _step(one, before, after), [one.rows.op(before), one.rows.op(after)]
        said = f"one transaction of process {ops[1].process} sent {ops[0].a} and then {ops[1].a}"
        if step > 1:
            found.tolerate(
                Check.INTERNAL_SEND_SKIP,
                INTERLEAVES,
                f"{said}; between them stands {_name_skipped(one, before, after)}",
            )
        elif step < 1:
            found.add(Check.INTERNAL_SEND_ORDER, f"{said}, which does not stand behind it", ops)


def check_polls(one: KnownLog, found: Found) -> None:
    """A process polls a partition on from where its last transaction left it, as long as it keeps the partition."""
    last = dict[int, int]()
    for first, final in _runs(one, Action.POLL):
        process = one.process[first]
        if one.f[first] == Action.REVOKE:
            last.pop(process, None)
            continue
        before = last.get(process)
        if before is not None and (step := _step(one, before, first)) != 1:
            ops = [one.rows.op(before), one.rows.op(first)]
            check = Check.SKIPPED_POLL if step > 1 else Check.NONMONOTONIC_POLL
            said = f"process {process} polled {ops[1].a} at offset {ops[1].offset} after {ops[0].a} at offset {ops[0].offset}"
            said += f", and passed over {_name_skipped(one, before, first)}" if step > 1 else ""
            if one.rows.node[first] != NONE:
                found.tolerate(check, REBALANCES, said)
            else:
                found.add(check, said, ops)
        if one.type[final] == Outcome.OK:
            last[process] = final


def check_sends(one: KnownLog, found: Found) -> None:
    """A process sends each record behind those that it has sent before."""
    last = dict[int, int]()
    for first, final in _runs(one, Action.SEND):
        process = one.process[first]
        if one.f[first] == Action.REVOKE:
            last.pop(process, None)
            continue
        if one.type[first] == Outcome.FAIL:
            continue
        before = last.get(process)
        in_turn = before is not None and one.rows.t_ret[before] < one.rows.t_inv[first]
        if before is not None and (in_turn or one.txn[first] != NONE) and _step(one, before, first) < 1:
            ops = [one.rows.op(before), one.rows.op(first)]
            said = f"process {process} sent {ops[1].a} after {ops[0].a}, which does not stand before it"
            found.add(Check.SEND_ORDER, said, ops)
        last[process] = final


def check_positions(one: KnownLog, found: Found) -> None:
    """A group's position never goes back, and every record between its positions was given to a member."""
    commits = dict[int, list[int]]()
    for row in one.rows_of(Action.COMMIT):
        if one.type[row] == Outcome.OK:
            commits.setdefault(one.value[row], []).append(row)
    for group, rows in commits.items():
        given = [one.offset[row] for row in one.rows_of(Action.POLL) if one.group[row] == group]
        for before, after in itertools.pairwise(rows):
            if one.offset[after] < one.offset[before]:
                said = f"group {group} committed {one.offset[before]}, and later {one.offset[after]}"
                found.add(Check.COMMIT_REGRESS, said, [one.rows.op(before), one.rows.op(after)])
        if not given:  # nothing tells what its members got
            continue
        top = max(rows, key=lambda row: one.offset[row])
        start = min([*given, *(one.offset[row] for row in rows)])
        there = set(given)
        for at in sorted(one.log):
            if start <= at < one.offset[top] and at not in there:
                value = one.log[at][0]
                said = f"group {group} committed {one.offset[top]}, and no member was given {value} at offset {at}"
                found.add(Check.SKIPPED_POLL, said, [*one.senders(value), one.rows.op(top)])


def dependencies(one: KnownLog) -> Iterator[Edge]:
    """Yields which transactions read what others sent (`wr`), and whose records follow each other (`ww`)."""

    def sender(value: int) -> int:
        row = one.sent.get(value)
        return NONE if row is None or not one.did_happen(row) else one.txn[row]

    told = set[tuple[int, int]]()
    for row in one.rows_of(Action.POLL):
        pair = sender(one.value[row]), one.txn[row]
        if NONE not in pair and pair[0] != pair[1] and one.type[row] == Outcome.OK and pair not in told:
            told.add(pair)
            yield Edge(*pair, Kind.WR, one.number, one.value[row], one.value[row])
    values = [one.log[at][0] for at in sorted(one.log)]
    for before, after in itertools.pairwise(values):
        pair = sender(before), sender(after)
        if NONE not in pair and pair[0] != pair[1]:
            yield Edge(*pair, Kind.WW, one.number, before, after)


def nodes(one: KnownLog) -> Nodes:
    """Returns the transactions that certainly happened."""
    happened = [row for row in one.rows_of(Action.SEND, Action.POLL) if one.txn[row] != NONE and one.did_happen(row)]
    mine = one.rows.where(np.array(happened, np.int64))
    first = np.unique(mine.epoch, return_index=True)[1]
    columns = (mine.epoch, mine.process, mine.type, mine.t_inv, mine.t_ret)
    return Nodes(*(column[first].astype(np.int64) for column in columns))


def _pairs(one: KnownLog, rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Returns rows of one transaction that follow each other."""
    last = dict[int, int]()
    for row in rows:
        txn = one.txn[row]
        if txn == NONE:
            continue
        if txn in last:
            yield last[txn], row
        last[txn] = row


def _runs(one: KnownLog, action: Action) -> Iterator[tuple[int, int]]:
    """Returns the first and the last row of each transaction with operations of one kind, and what ends an assignment between them."""
    chosen = one.rows_of(action, Action.REVOKE)
    for _, rows in itertools.groupby(chosen, lambda row: (one.txn[row], row if one.txn[row] == NONE else NONE)):
        some = list(rows)
        yield some[0], some[-1]


def _step(one: KnownLog, before: int, after: int) -> int:
    """Returns how many places one record stands behind another; 1 where that is not known."""
    first, second = one.place(before), one.place(after)
    return 1 if first is None or second is None else second - first


def _name_skipped(one: KnownLog, before: int, after: int) -> str:
    first, second = one.place(before), one.place(after)
    assert first is not None
    assert second is not None
    return _list(one.between(first, second))


def _list(values: Sequence[int]) -> str:
    shown = " and ".join(str(value) for value in values[:SHOWN_MAX])
    return shown if len(values) <= SHOWN_MAX else f"{shown} and {len(values) - SHOWN_MAX:,} more"
