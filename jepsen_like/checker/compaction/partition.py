"""Judges one compacted partition: what every view of it still has of each key.

A *view* is the partition as someone read it whole: a scan by a consumer, under load or when all is over, or the final log of
a node. Of a key, the *newest* record is that of the highest offset below the end of the view. If a view lacks it, there must
be a reason: a record of the key that may stand further on, or it is a deletion, and `delete.retention.ms` have passed.

An age counts from the call that sent the record to the end of the view: it is never less than the age that the broker saw.
Replicas are compacted one by one, so a scan under load may see an older record at one leader, and at the next one no deletion.
"""

from collections.abc import Iterator
from typing import Any, Final

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Bools, Ints
from jepsen_like.checker.transactions.partition import (
    Breaches,
    FinalRecords,
    WrittenPartition,
    check_places,
    check_polls_of,
    check_send_order,
)
from jepsen_like.checker.verdict import Check
from jepsen_like.history.keyed_values import is_deletion, key_of
from jepsen_like.history.ops import NEVER, NONE, Action, Op, Outcome

FINAL_SCAN: Final = 1
"""`b` of the end of a scan that began when all was over."""
SLACK_NS: Final = 20_000_000
"""By so much brokers and clients may differ about an age, on one machine: they count in milliseconds of the wall clock."""


@attrs.frozen
class CompactionTerms:
    """The times that a compacted topic promises, in nanoseconds."""

    min_lag_ns: int = 0
    """No younger record leaves (`min.compaction.lag.ms`)."""
    retention_ns: int = 0
    """No deletion leaves earlier while it is the newest of its key (`delete.retention.ms`)."""
    dumped_ns: int = NEVER
    """The moment by which the final logs had been read."""


@attrs.frozen(eq=False)
class View:
    """A read of a whole partition, by offset."""

    name: str
    offset: Ints
    entry: Ints
    """The sends of these records; `NONE` for a record that no one sent."""
    end: int
    """The offset up to which it was read."""
    begun_ns: int
    seen_ns: int
    is_of_one: bool
    """All of it was read from one replica."""


@attrs.frozen(eq=False)
class KeyedRecords:
    """The sends of a partition as records of keys, and where each stands."""

    partition: WrittenPartition
    offset: Ints
    """`NONE` for one that was not acknowledged, and that no one has seen."""
    key: Ints
    is_deletion: Bools
    may_stand: Bools
    """It did not certainly fail."""
    by_place: Ints
    """Those that have an offset, by key and then by offset."""

    @classmethod
    def of(cls, one: WrittenPartition) -> "KeyedRecords":
        """Places the records of a partition."""
        rows = one.rows
        value, offset = rows.a[one.sends], rows.offset[one.sends].copy()
        seen = [(one.entry(rows.a[one.polls]), rows.offset[one.polls])]
        seen += [(one.entry(log.value), log.offset) for log in one.logs]
        for entry, found in seen:
            known = entry != NONE
            entry, found = entry[known], found[known]
            is_new = offset[entry] == NONE
            offset[entry[is_new]] = found[is_new]
        may_stand = rows.type[one.sends] != Outcome.FAIL
        placed = np.flatnonzero(offset != NONE)
        by_place = placed[np.lexsort((offset[placed], key_of(value[placed])))]
        return cls(one, offset, key_of(value), is_deletion(value) > 0, may_stand, by_place)

    @property
    def sent_ns(self) -> Ints:
        """Returns when each was sent."""
        return self.partition.rows.t_inv[self.partition.sends]

    def newest_below(self, end: int) -> Ints:
        """Returns the newest record of each key below an offset."""
        below = self.by_place[self.offset[self.by_place] < end]
        key = self.key[below]
        return below[np.append(key[1:] != key[:-1], True)] if len(below) else below

    def op(self, entry: int) -> Op:
        """Returns the operation that sent a record."""
        return self.partition.rows.op(int(self.partition.sends[entry]))


@attrs.frozen(kw_only=True)
class KeyedFacts:
    """The evidence of one partition about its compaction."""

    partition: int
    logs: int
    removed: int
    """Acknowledged records that some final log lacks."""
    keys: int
    deleted_keys: int
    """Keys of which no final log has any record: their last one was a deletion."""


def judge_partition(one: WrittenPartition, terms: CompactionTerms) -> tuple[Breaches, KeyedFacts, int]:
    """Returns everything that is wrong with a partition, what its compaction did, and how many keys lost their last value."""
    found = Breaches(one.number)
    records = KeyedRecords.of(one)
    check_places(one, found)
    check_send_order(one, found)
    _check_origins(records, found)
    for polls in _polls_by_client(one).values():
        check_polls_of(one, found, polls)
    for view in views_of(records, terms):
        _check_newest(records, view, terms, found)
        _check_lag(records, view, terms, found)
    acked = np.flatnonzero((one.rows.type[one.sends] == Outcome.OK) & (records.offset != NONE))
    kept = np.unique(np.concatenate([acked[:0], *(one.entry(log.value) for log in one.logs)]))
    in_all = [np.isin(acked, one.entry(log.value)) for log in one.logs]
    keys, left = np.unique(records.key[records.by_place]), np.unique(records.key[kept[kept != NONE]])
    facts = KeyedFacts(
        partition=one.number,
        logs=len(one.logs),
        removed=int((~np.logical_and.reduce(in_all)).sum()) if in_all else 0,
        keys=len(keys),
        deleted_keys=len(np.setdiff1d(keys, left)) if in_all else 0,
    )
    return found, facts, found.counts.get(Check.LOST, 0)


def views_of(records: KeyedRecords, terms: CompactionTerms) -> Iterator[View]:
    """Yields the scans that came to an end, and the final logs."""
    one = records.partition
    rows, by_client = one.rows, _polls_by_client(one)
    for tail in np.flatnonzero(rows.f == Action.TAIL).tolist():
        polls = by_client.get(int(rows.process[tail]), one.polls[:0])
        yield View(
            name=f"the scan by process {rows.process[tail]}",
            offset=rows.offset[polls],
            entry=one.entry(rows.a[polls]),
            end=int(rows.offset[tail]),
            begun_ns=int(rows.t_inv[tail]),
            seen_ns=int(rows.t_ret[tail]),
            is_of_one=bool(rows.b[tail] == FINAL_SCAN),
        )
    for log in one.logs:
        about: dict[str, Any] = {"begun_ns": terms.dumped_ns, "seen_ns": terms.dumped_ns, "is_of_one": True}
        yield View(f"the final log of node {log.node}", log.offset, one.entry(log.value), NEVER, **about)


def _polls_by_client(one: WrittenPartition) -> dict[int, Ints]:
    process = one.rows.process[one.polls]
    polls = one.polls[np.argsort(process, kind="stable")]
    process = one.rows.process[polls]
    parts = np.split(polls, np.flatnonzero(process[1:] != process[:-1]) + 1) if len(polls) else []
    return {int(one.rows.process[part[0]]): part for part in parts}


def _check_origins(records: KeyedRecords, found: Breaches) -> None:
    """Everything that is there was sent, and did not certainly fail."""
    one = records.partition
    rows = one.rows
    entry = one.entry(rows.a[one.polls])
    said = "process {0} got {1} at offset {2}"

    def show(row: int) -> tuple[str, list[Op]]:
        words = said.format(rows.process[row], rows.a[row], rows.offset[row])
        return f"{words}, which no one sent, or not as it is", [rows.op(row)]

    found.add(Check.PHANTOM, one.polls[entry == NONE], show)
    refused = _find_refused(records, entry)

    def show_refused(at: int) -> tuple[str, list[Op]]:
        poll = rows.op(int(one.polls[at]))
        words = said.format(poll.process, poll.a, poll.offset)
        return f"{words}, which its producer was told is not there", [records.op(int(entry[at])), poll]

    found.add(Check.ABORTED_READ, refused, show_refused)
    for log in one.logs:
        _check_origins_of(records, log, found)


def _check_origins_of(records: KeyedRecords, log: FinalRecords, found: Breaches) -> None:
    one, held = records.partition, records.partition.entry(log.value)
    said = "the final log of node {0} has {1} at offset {2}"

    def show(at: int) -> tuple[str, list[Op]]:
        words = said.format(log.node, log.value[at], log.offset[at])
        return f"{words}, which no one sent, or not as it is", [one.log_op(log, at)]

    found.add(Check.PHANTOM, np.flatnonzero(held == NONE), show)

    def show_refused(at: int) -> tuple[str, list[Op]]:
        words = said.format(log.node, log.value[at], log.offset[at])
        ops = [records.op(int(held[at])), one.log_op(log, at)]
        return f"{words}, which its producer was told is not there", ops

    found.add(Check.ABORTED_READ, _find_refused(records, held), show_refused)


def _find_refused(records: KeyedRecords, entry: Ints) -> Ints:
    """Returns the places of records that certainly failed."""
    known = np.flatnonzero(entry != NONE)
    return known[~records.may_stand[entry[known]]]


def _check_newest(records: KeyedRecords, view: View, terms: CompactionTerms, found: Breaches) -> None:
    """The newest record of each key is there, or has left as it may; and without it no older one is there."""
    newest = records.newest_below(view.end)
    lacking = newest[~np.isin(newest, view.entry)]
    if not len(lacking):
        return
    lacking = lacking[~np.isin(records.key[lacking], records.key[_further(records, view, terms)])]
    seen = view.entry[view.entry != NONE]
    has_older = np.isin(records.key[lacking], records.key[seen])
    is_old = records.is_deletion[lacking] & _is_aged(records, lacking, view, terms.retention_ns)
    # Who reads for so long meets what is there at the begin, and at the end not what deleted it.
    is_quick = view.is_of_one and view.seen_ns - view.begun_ns < terms.retention_ns
    wrong = ~is_old | (has_older & is_quick)

    def show(at: int) -> tuple[str, list[Op]]:
        entry = int(lacking[at])
        what = "deletion" if records.is_deletion[entry] else "record"
        mine = seen[records.key[seen] == records.key[entry]]
        told = f"{view.name} lacks the newest {what} of key {records.key[entry]}, at offset {records.offset[entry]}"
        if not len(mine):
            return told, [records.op(entry)]
        older = int(mine[np.argmax(records.offset[mine])])
        return f"{told}, and has an older one, at offset {records.offset[older]}", [
            records.op(older),
            records.op(entry),
        ]

    found.add(Check.RESURRECTED, np.flatnonzero(wrong & has_older), show)
    found.add(Check.DELETION_GONE, np.flatnonzero(wrong & ~has_older & records.is_deletion[lacking]), show)
    found.add(Check.LOST, np.flatnonzero(wrong & ~has_older & ~records.is_deletion[lacking]), show)


def _further(records: KeyedRecords, view: View, terms: CompactionTerms) -> Ints:
    """Returns the records that may have taken the place of what a view lacks, without being in it."""
    unseen = np.flatnonzero(records.may_stand & (records.offset == NONE))
    if view.end == NEVER:
        # All that is there was seen. So it can only have been a deletion, and have left since.
        unseen = unseen[records.is_deletion[unseen]]
        return unseen[_is_aged(records, unseen, view, terms.retention_ns)]
    further = np.concatenate([unseen, np.flatnonzero(records.may_stand & (records.offset >= view.end))])
    earlier: Ints = further[records.sent_ns[further] < view.seen_ns]
    return earlier


def _check_lag(records: KeyedRecords, view: View, terms: CompactionTerms, found: Breaches) -> None:
    """No record leaves while it is younger than `min.compaction.lag.ms`."""
    placed = records.by_place[records.offset[records.by_place] < view.end]
    young = placed[~_is_aged(records, placed, view, terms.min_lag_ns - SLACK_NS)]
    gone = young[~np.isin(young, view.entry)]

    def show(entry: int) -> tuple[str, list[Op]]:
        age_ms = (view.seen_ns - int(records.sent_ns[entry])) // 1_000_000
        words = f"{view.name} lacks the record at offset {records.offset[entry]}, {age_ms} ms after it was sent"
        return f"{words}: min.compaction.lag.ms is {terms.min_lag_ns // 1_000_000}", [records.op(entry)]

    found.add(Check.COMPACTED_EARLY, gone, show)


def _is_aged(records: KeyedRecords, entries: Ints, view: View, age_ns: int) -> Bools:
    """Returns which of these records may be older than an age at the end of a view."""
    old: Bools = view.seen_ns - records.sent_ns[entries] >= age_ns
    return old
