"""Checks of a partition's records: each value at one offset, each offset with one value, nothing that no client sent.

The kernels look at whole columns; only what is shown of a violation becomes operations and words, `SHOWN_MAX` of each kind.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.queue.rows import NOTHING, Fate, QueueExpectations, QueuePartition
from jepsen_like.checker.rows.columns import Bools, Ints
from jepsen_like.checker.sentences import describe, who
from jepsen_like.checker.verdict import Check
from jepsen_like.history.ops import NONE, Action, Op, Outcome

SHOWN_MAX: Final = 20


@attrs.frozen
class Shown:
    """One violation: the operations that show it, and a sentence."""

    ops: tuple[Op, ...]
    sentence: str


@attrs.frozen
class Breach:
    """All violations of one check in a partition, the first of them with their operations."""

    check: Check
    count: int
    shown: tuple[Shown, ...]


def breach(check: Check, count: int, shown: Iterable[Shown]) -> tuple[Breach, ...]:
    """Returns one breach, or nothing if the count is 0."""
    return (Breach(check, count, tuple(shown)),) if count else ()


@attrs.frozen(eq=False)
class Sightings:
    """Values at offsets; see `queue_rows`. `row` counts rows of the partition first, then records of final logs."""

    offset: Ints
    value: Ints
    row: Ints
    replica: Ints
    """Of the records of final logs: which of `QueuePartition.replicas`."""
    place: Ints
    """And at which place there."""
    rows: int

    @classmethod
    def of(cls, one: QueuePartition, is_lost: Bools, is_forgiven: Bools) -> "Sightings":
        """Returns what clients were told. `is_lost`: entries of `Sent` whose acknowledgement tells nothing any more; `is_forgiven`: that
        may have been read before they were lost."""
        rows = one.rows
        acked, polled = one.find_acked(is_lost), one.polled
        if is_forgiven.any():
            entry = one.sent.find(rows.a[polled])
            polled = polled[~((entry != NONE) & is_forgiven[entry])]
        mine = np.concatenate([acked, polled])
        replica, place, offset, value = _records_held(one) if one.finals.process == NONE else (NOTHING,) * 4
        return cls(
            offset=np.concatenate([rows.offset[mine], offset]),
            value=np.concatenate([rows.a[mine], value]),
            row=np.concatenate([mine, len(rows) + np.arange(len(place))]),
            replica=replica,
            place=place,
            rows=len(rows),
        )

    def op(self, one: QueuePartition, at: int) -> Op:
        """The operation of a sighting."""
        row = int(self.row[at])
        if row < self.rows:
            return one.rows.op(row)
        return one.held_op(int(self.replica[row - self.rows]), int(self.place[row - self.rows]), one.end_of_time)


def _records_held(one: QueuePartition) -> tuple[Ints, Ints, Ints, Ints]:
    """Replica, place, offset and value of what final logs contain, each offset once: of the first that has it."""
    found: list[tuple[Ints, Ints, Ints, Ints]] = []
    covered = np.zeros(max((log.end for log in one.replicas), default=0), np.bool_)
    for number, log in enumerate(one.replicas):
        place = np.flatnonzero(~covered[log.first : log.end] & (log.values != NONE))
        covered[log.first + place] = True
        found.append((np.full(len(place), number, np.int64), place, log.first + place, log.values[place]))
    if not found:
        return (NOTHING,) * 4
    replica, place, offset, value = (np.concatenate(list(of)) for of in zip(*found, strict=True))
    return replica, place, offset, value


def check_sightings(
    one: QueuePartition, seen: Sightings, expectations: QueueExpectations
) -> tuple[tuple[Breach, ...], int]:
    """Returns what is wrong with values and offsets, and how many values stand at several offsets."""
    divergent = _groups_with_two(seen.offset, seen.value)
    duplicate = _groups_with_two(seen.value, seen.offset)

    def differs(pair: tuple[int, int]) -> Shown:
        first, second = (seen.op(one, at) for at in pair)
        said = f"offset {first.offset} has two values: {describe(first)}, and {describe(second)}"
        return Shown((first, second), said)

    def show_doubled(pair: tuple[int, int]) -> Shown:
        first, second = (seen.op(one, at) for at in pair)
        said = (
            f"{first.a} was sent once and stands at offsets {first.offset} and {second.offset}: "
            f"{describe(first)}, and {describe(second)}"
        )
        return Shown((first, second), said)

    found = breach(Check.DIVERGENT_OFFSET, len(divergent), map(differs, divergent[:SHOWN_MAX]))
    if not expectations.may_duplicate:
        found += breach(Check.DUPLICATED, len(duplicate), map(show_doubled, duplicate[:SHOWN_MAX]))
    return found, len(duplicate)


def _groups_with_two(major: Ints, minor: Ints) -> list[tuple[int, int]]:
    """For each `major` with two `minor`: the positions of one of each, in the order of `major`."""
    order = np.argsort(major, kind="stable")
    same = major[order[1:]] == major[order[:-1]]
    if not (same & (minor[order[1:]] != minor[order[:-1]])).any():
        return []
    bad = np.unique(major[order[1:]][same & (minor[order[1:]] != minor[order[:-1]])])
    chosen = np.flatnonzero(np.isin(major, bad))
    chosen = chosen[np.lexsort((chosen, minor[chosen], major[chosen]))]
    starts = np.flatnonzero(np.append(True, major[chosen][1:] != major[chosen][:-1]))
    turns = np.flatnonzero(
        np.append(False, (major[chosen][1:] == major[chosen][:-1]) & (minor[chosen][1:] != minor[chosen][:-1]))
    )
    second = turns[np.searchsorted(turns, starts)]
    return [(int(chosen[low]), int(chosen[high])) for low, high in zip(starts, second, strict=True)]


def check_origins(one: QueuePartition) -> tuple[Breach, ...]:
    """Returns breaches: values seen though never sent, refused or sent later; offsets of records that are no values."""
    rows, sent, polled = one.rows, one.sent, one.polled
    value, first = np.unique(rows.a[polled], return_index=True)
    row = polled[first]
    entry = sent.find(value)
    held = one.finals.held[~np.isin(one.finals.held, value)]
    held_entry = sent.find(held)
    damaged = np.flatnonzero((rows.f == Action.POLL) & (rows.a == NONE))
    places, first_damaged = np.unique(rows.offset[damaged], return_index=True)

    phantom = row[entry == NONE]
    held_phantom = held[held_entry == NONE]
    shown = [Shown((op,), f"{describe(op)} was sent by no client") for op in _ops(one, phantom)]
    shown += [
        Shown((op,), f"{describe(op)} was sent by no client")
        for op in (_held_value(one, int(value)) for value in held_phantom[:SHOWN_MAX])
    ]
    shown += [Shown((op,), f"{describe(op)}: no message was sent so") for op in _ops(one, damaged[first_damaged])]
    found = breach(Check.PHANTOM, len(phantom) + len(held_phantom) + len(places), shown[:SHOWN_MAX])

    was_sent = entry != NONE
    refused = row[was_sent & sent.is_refused[entry]] if len(sent.value) else NOTHING
    held_refused = held[(held_entry != NONE) & sent.is_refused[held_entry]] if len(sent.value) else NOTHING
    seen = [*_ops(one, refused), *(_held_value(one, int(value)) for value in held_refused[:SHOWN_MAX])]
    aborted = [
        Shown((send, op), f"{describe(send)}: not stored, its producer was told; but {describe(op)}")
        for op in seen[:SHOWN_MAX]
        for send in [_send_of(one, op.a)]
    ]
    found += breach(Check.ABORTED_READ, len(refused) + len(held_refused), aborted)
    return found


def _ops(one: QueuePartition, rows: Ints) -> list[Op]:
    return [one.rows.op(int(row)) for row in rows[:SHOWN_MAX]]


def _send_of(one: QueuePartition, value: int) -> Op:
    sends = np.flatnonzero((one.rows.f == Action.SEND) & (one.rows.a == value))
    return one.rows.op(int(sends[0]))


def _held_value(one: QueuePartition, value: int) -> Op:
    for number, log in enumerate(one.replicas):
        place = np.flatnonzero(log.values == value)
        if len(place):
            return one.held_op(number, int(place[0]), one.end_of_time)
    raise ValueError(f"no final log contains {value}")


def check_times(one: QueuePartition, is_lost: Bools, is_forgiven: Bools) -> tuple[Breach, ...]:
    """Checks that what was sent after something was there came behind it, and nothing was seen before it was sent.

    A log only grows: an offset that a producer or a consumer knew before a send began is lower than that of the send.
    """
    rows, sent = one.rows, one.sent
    acked, polled = one.find_acked(is_lost), one.polled
    entry = sent.find(rows.a[polled])
    is_known = entry != NONE
    early = np.flatnonzero(is_known & (rows.t_ret[polled] < (sent.first_inv[entry] if len(sent.value) else 0)))
    values, first = np.unique(rows.a[polled[early]], return_index=True)
    shown = [
        Shown((op, send), f"{describe(op)} had ended when {describe(send)} began")
        for op in _ops(one, polled[early][first])
        for send in [_send_of(one, op.a)]
    ]
    if is_known.any():
        gone = np.zeros(len(polled), np.bool_)
        gone[is_known] = (is_lost | is_forgiven)[entry[is_known]]
        polled = polled[~gone]
    facts = np.concatenate([acked, polled])
    count = len(values)
    if len(facts) and len(acked):
        facts = facts[np.argsort(rows.t_ret[facts], kind="stable")]
        running = np.maximum.accumulate(rows.offset[facts])
        before = np.searchsorted(rows.t_ret[facts], rows.t_inv[acked], side="left") - 1
        known = np.where(before >= 0, running[np.maximum(before, 0)], np.int64(NONE))
        late = np.flatnonzero(known > rows.offset[acked])
        count += len(late)
        for place in late[: SHOWN_MAX - len(shown)].tolist():
            of_known = facts[: before[place] + 1]
            other = rows.op(int(of_known[np.argmax(rows.offset[of_known] == known[place])]))
            send = rows.op(int(acked[place]))
            shown.append(
                Shown((other, send), f"{describe(send)} began after {describe(other)} had ended, and stands before it")
            )
    return breach(Check.ORDER, count, shown)


def check_send_order(one: QueuePartition, is_lost: Bools) -> tuple[tuple[Breach, ...], bool]:
    """Checks that each producer's messages stand in the order in which it sent them; returns also whether any two of one could show it."""
    rows, acked = one.rows, one.find_acked(is_lost)
    if len(acked) < 2:
        return (), False
    acked = acked[np.lexsort((rows.offset[acked], rows.t_inv[acked], rows.process[acked]))]
    process, offset, t_inv = rows.process[acked].astype(np.int64), rows.offset[acked], rows.t_inv[acked]
    lift = np.cumsum(np.append(0, process[1:] != process[:-1])) * (int(offset.max()) + 2)
    running = np.maximum.accumulate(offset + lift)
    # The greatest offset among those of the same producer that were sent strictly before.
    begins = np.append(True, (process[1:] != process[:-1]) | (t_inv[1:] != t_inv[:-1]))
    first = np.flatnonzero(begins)[np.cumsum(begins) - 1]
    before = np.where(first > 0, running[np.maximum(first - 1, 0)], np.int64(NONE))
    late = np.flatnonzero(before > offset + lift)
    shown = []
    for at in late[:SHOWN_MAX].tolist():
        of_earlier = np.flatnonzero((running[: first[at]] == before[at]) & (process[: first[at]] == process[at]))
        other, send = rows.op(int(acked[of_earlier[0]])), rows.op(int(acked[at]))
        shown.append(Shown((other, send), f"{describe(send)} was sent after {describe(other)}, and stands before it"))
    is_shown = bool((process[1:] == process[:-1]).any())
    return breach(Check.SEND_ORDER, len(late), shown), is_shown


def check_replicas(one: QueuePartition) -> tuple[Breach, ...]:
    """Checks that the final logs are the same, and the same as what was read at the end; and epochs never fall along one.

    Counts offsets at which two differ, logs that end before another (they are read up to one common end), and offsets at which an
    epoch falls or is not that of the acknowledgement.
    """
    finals = one.finals
    end = max((log.end for log in one.replicas), default=0)
    t_ns = one.end_of_time
    differ: dict[int, tuple[int, int]] = {}
    content, epochs, holder = (np.full(end, NONE, np.int64) for _ in range(3))
    for number, log in enumerate(one.replicas):
        span = slice(log.first, log.end)
        other = (holder[span] != NONE) & ((content[span] != log.values) | (epochs[span] != log.epochs))
        for place in np.flatnonzero(other).tolist():
            differ.setdefault(log.first + place, (int(holder[log.first + place]), number))
        vacant = log.first + np.flatnonzero(holder[span] == NONE)
        content[vacant], epochs[vacant] = log.values[vacant - log.first], log.epochs[vacant - log.first]
        holder[vacant] = number
    shown = []
    for offset, pair in sorted(differ.items())[:SHOWN_MAX]:
        first, second = (one.held_op(at, offset - one.replicas[at].first, t_ns) for at in pair)
        said = f"{describe(first)} in epoch {first.epoch}, and {describe(second)} in {second.epoch}"
        shown.append(Shown((first, second), said))
    read = finals.row[finals.offset < len(holder)]
    read_at = one.rows.offset[read]
    unlike = read[(holder[read_at] != NONE) & (content[read_at] != one.rows.a[read])]
    unlike = unlike[~np.isin(one.rows.offset[unlike], np.array([*differ], np.int64))] if differ else unlike
    for row in unlike[:SHOWN_MAX].tolist():
        op = one.rows.op(row)
        number = int(holder[op.offset])
        other_op = one.held_op(number, op.offset - one.replicas[number].first, t_ns)
        said = f"the final read had {op.a} at offset {op.offset}, and {who(other_op)} has {other_op.a}"
        shown.append(Shown((op, other_op), said))
    short = [log for log in one.replicas if log.end < end]
    shown += [
        Shown((), f"the final log of node {log.node} ends at offset {log.end}, that of another at {end}")
        for log in short[:SHOWN_MAX]
    ]
    count = len(differ) + len(np.unique(one.rows.offset[unlike])) + len(short)
    return breach(Check.REPLICAS, count, shown[:SHOWN_MAX]) + _check_epochs(one, content, epochs)


def _check_epochs(one: QueuePartition, content: Ints, epochs: Ints) -> tuple[Breach, ...]:
    shown: list[Shown] = []
    t_ns = one.end_of_time
    falls: dict[int, int] = {}
    for number, log in enumerate(one.replicas):
        for place in (np.flatnonzero(log.epochs[1:] < log.epochs[:-1]) + 1).tolist():
            falls.setdefault(log.first + place, number)
    for offset, number in sorted(falls.items())[:SHOWN_MAX]:
        place = offset - one.replicas[number].first
        pair = tuple(one.held_op(number, at, t_ns) for at in (place - 1, place))
        shown.append(
            Shown(pair, f"{describe(pair[1])} is of epoch {pair[1].epoch}, and the record before it of {pair[0].epoch}")
        )
    rows = one.rows
    told_epoch = np.flatnonzero((rows.f == Action.SEND) & (rows.type == Outcome.OK) & (rows.epoch != NONE))
    told_epoch = told_epoch[(rows.offset[told_epoch] >= 0) & (rows.offset[told_epoch] < len(content))]
    told_at = rows.offset[told_epoch]
    known = (content[told_at] == rows.a[told_epoch]) & (epochs[told_at] != NONE)
    other = told_epoch[known & (epochs[told_at] != rows.epoch[told_epoch])]
    for row in other[: SHOWN_MAX - len(shown)].tolist():
        op = rows.op(row)
        said = f"{describe(op)} was acknowledged in epoch {op.epoch}, and stands there in {int(epochs[op.offset])}"
        shown.append(Shown((op,), said))
    return breach(Check.EPOCH, len(falls) + len(np.unique(rows.offset[other])), shown)


def check_lost(one: QueuePartition, fate: Fate, kept: Sequence[Ints]) -> tuple[Breach, ...]:
    """Returns what was lost and may not have been. `kept`: of the acknowledged and of the read entries, those that nothing forgives."""
    acked, read = kept
    shown = [_show_lost(one, int(entry), int(one.sent.ok_row[entry])) for entry in acked[:SHOWN_MAX]]
    rows, polled = one.rows, one.polled
    for entry in read[:SHOWN_MAX].tolist():
        row = polled[np.argmax(rows.a[polled] == one.sent.value[entry])]
        shown.append(_show_lost(one, entry, int(row)))
    return breach(Check.LOST, len(acked) + len(read), shown[:SHOWN_MAX])


def _show_lost(one: QueuePartition, entry: int, row: int) -> Shown:
    op = one.rows.op(row)
    how = "was acknowledged" if op.f is Action.SEND else "was read"
    finals = one.finals
    if finals.process != NONE:
        last = finals.at(op.offset)
        if last is not None:
            there = one.rows.op(last)
            return Shown((op, there), f"{describe(op)} {how}, and is gone: the final read had {there.a} there")
        if op.offset >= finals.end:
            return Shown((op,), f"{describe(op)} {how}, and is gone: the partition ends at offset {finals.end}")
        return Shown((op,), f"{describe(op)} {how}, and the final read of the partition did not have it")
    return Shown((op,), f"{describe(op)} {how}, and no final log of the partition has it")
