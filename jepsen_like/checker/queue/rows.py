"""One partition of a queue as arrays: what was sent, what was polled, and what was there in the end.

A *sighting* is a value at an offset that a client knows of: an acknowledged send, a polled record; where no client read the
partition at the end, a record of a final log as well. A *final read* is one consumer's read of a whole partition after the
load; see `workload.queue_recorder`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Bools, Columns, Ints
from jepsen_like.checker.rows.final_logs import FinalLog
from jepsen_like.history.ops import NEVER, NONE, Action, Op, Outcome

NOTHING: Final = np.zeros(0, np.int64)
FINAL_READ: Final = 1
"""`b` of the tail that begins a final read."""


@attrs.frozen(kw_only=True)
class QueueExpectations:
    """The promises that a run of a queue is held to in addition to those of every queue, and the names of its numbers."""

    acks: str = "all"
    """The moment when a send is acknowledged: "all", "1" or "0"."""
    ordered_sends: bool = False
    """True if a producer's messages to one partition keep their order: with idempotence, or one request in flight."""
    may_duplicate: bool = False
    """True if a retry may store a message twice: without idempotence."""
    session_timeout_ns: int = 0
    """The time for which a member may be silent before it is expelled; 0: not known."""
    rebalance_timeout_ns: int = 0
    """The time that a member may take to rejoin before it is expelled; 0: not known."""
    is_pushed: bool = False
    """True if clients give messages to consumers at least once, and commit what was consumed, as RocketMQ's do; see `queue_pushed`."""
    is_orderly: bool = False
    """True if one member at a time consumes a partition, a message at a time."""
    unlocks_early: bool = False
    """True if a client may give its lock of a partition up while its listener still has a message of it."""
    keys: int = 0
    """With sharding keys: how many. A message's key is the remainder of its value; 0: there are none."""
    keys_move: bool = False
    """True if the messages of a key go to another partition while its own cannot be written to."""
    partitions: Mapping[int, str] = attrs.field(factory=dict)
    groups: Mapping[int, str] = attrs.field(factory=dict)

    def partition(self, number: int) -> str:
        """Returns the name of a partition."""
        return self.partitions.get(number, f"partition {number}")

    def group(self, number: int) -> str:
        """Returns the name of a group."""
        return self.groups.get(number, str(number))

    @property
    def expelled_after_ns(self) -> int:
        """Returns the shortest time after a sign of life in which a member can be expelled; 0: not known."""
        known = [one for one in (self.session_timeout_ns, self.rebalance_timeout_ns) if one]
        return min(known) if len(known) == 2 else 0


@attrs.frozen(eq=False)
class Sent:
    """The messages sent, one entry per value, in the order of values."""

    value: Ints
    ok_row: Ints
    """The row of its acknowledgement; `NONE` if it has none."""
    is_refused: Bools
    """True if every attempt was refused for certain."""
    first_inv: Ints
    """The moment when it was first sent."""

    @classmethod
    def of(cls, rows: Columns) -> "Sent":
        """From the rows of one partition."""
        sends = np.flatnonzero((rows.f == Action.SEND) & (rows.a != NONE))
        if not len(sends):
            return cls(NOTHING, NOTHING, np.zeros(0, np.bool_), NOTHING)
        sends = sends[np.argsort(rows.a[sends], kind="stable")]
        value = rows.a[sends]
        starts = np.flatnonzero(np.append(True, value[1:] != value[:-1]))
        if len(starts) < len(sends):  # some value was sent again: its attempts by outcome
            sends = sends[np.lexsort((rows.type[sends], rows.a[sends]))]
        ends = np.append(starts[1:], len(sends)) - 1
        first = sends[starts]
        return cls(
            value=value[starts],
            ok_row=np.where(rows.type[first] == Outcome.OK, first, np.int64(NONE)),
            is_refused=(rows.type[first] == Outcome.FAIL) & (rows.type[sends[ends]] == Outcome.FAIL),
            first_inv=np.minimum.reduceat(rows.t_inv[sends], starts),
        )

    def find(self, values: Ints) -> Ints:
        """Returns the entry of each value; `NONE` where it was not sent."""
        if not len(self.value):
            return np.full(len(values), NONE, np.int64)
        at = np.minimum(np.searchsorted(self.value, values), len(self.value) - 1)
        return np.where(self.value[at] == values, at, np.int64(NONE))


@attrs.frozen(eq=False)
class Finals:
    """The final read of a partition, and its final logs."""

    process: int
    """The consumer of the final read; `NONE`: there was none."""
    t_ns: int
    """The moment when the final read began; `NEVER` without one."""
    start: int
    """The place where the log begins; what lies before it has left by a rule of retention."""
    end: int
    """The end that consumers were told; `NONE` without a final read."""
    passed: int
    """Everything below was read at the end, `NONE` for nothing."""
    offset: Ints
    value: Ints
    """The records of the final read, by offset."""
    row: Ints
    held: Ints
    """All values in final logs, each once, in order."""
    ends: Ints
    """The place where the final logs end."""

    @property
    def are_known(self) -> bool:
        """Returns True if anything tells what was lost."""
        return self.process != NONE or len(self.ends) > 0

    @property
    def is_cut_short(self) -> bool:
        """Returns True if the final read ended before the end."""
        return self.process != NONE and self.passed < self.end

    def at(self, offset: int) -> int | None:
        """Returns the row of the final read at an offset; None for none."""
        place = int(np.searchsorted(self.offset, offset))
        return int(self.row[place]) if place < len(self.offset) and int(self.offset[place]) == offset else None


def finals_of(rows: Columns, replicas: Sequence[FinalLog]) -> Finals:
    """From the last final read of a partition and its final logs. Several final reads: the one that began last counts."""
    tails = np.flatnonzero((rows.f == Action.TAIL) & (rows.type == Outcome.OK) & (rows.b == FINAL_READ))
    held = np.unique(np.concatenate([NOTHING, *(log.values for log in replicas)]))
    held = held[held != NONE]
    ends = np.array([log.end for log in replicas], np.int64)
    if not len(tails):
        start = min((log.first for log in replicas), default=0)
        return Finals(NONE, NEVER, start, NONE, NONE, NOTHING, NOTHING, NOTHING, held, ends)
    tail = tails[np.argmax(rows.t_inv[tails])]
    process, start, end = int(rows.process[tail]), int(rows.seen[tail]), int(rows.offset[tail])
    read = np.flatnonzero((rows.f == Action.POLL) & (rows.process == process))
    read = read[np.argsort(rows.offset[read], kind="stable")]
    passed = int(rows.offset[read[-1]]) + 1 if len(read) else start
    t_ns = int(rows.t_inv[tail])
    return Finals(process, t_ns, max(start, 0), end, passed, rows.offset[read], rows.a[read], read, held, ends)


@attrs.frozen(eq=False)
class QueuePartition:
    """Everything about one partition. `rows` are in the order recorded."""

    number: int
    rows: Columns
    replicas: Sequence[FinalLog]
    sent: Sent
    finals: Finals

    @classmethod
    def of(cls, number: int, rows: Columns, replicas: Sequence[FinalLog]) -> "QueuePartition":
        """From its rows and final logs."""
        ordered = tuple(sorted(replicas, key=lambda log: log.node))
        return cls(number, rows, ordered, Sent.of(rows), finals_of(rows, ordered))

    def find_acked(self, is_lost: Bools) -> Ints:
        """Returns the rows of acknowledged sends that say where, but for those of which the entry of `Sent` is lost."""
        rows = self.rows
        acked = np.flatnonzero((rows.f == Action.SEND) & (rows.type == Outcome.OK) & (rows.offset >= 0))
        return acked[~is_lost[self.sent.find(rows.a[acked])]]

    @property
    def polled(self) -> Ints:
        """Returns the rows of records that are values, the final read's as well."""
        return np.flatnonzero((self.rows.f == Action.POLL) & (self.rows.a != NONE))

    def held_op(self, node_at: int, place: int, t_ns: int) -> Op:
        """A record of a final log (`replicas[node_at]`) as a read after everything else, at `t_ns`."""
        log = self.replicas[node_at]
        return Op(
            f=Action.READ,
            type=Outcome.OK,
            t_inv=t_ns,
            t_ret=t_ns,
            object=self.number,
            process=NONE,
            a=int(log.values[place]),
            offset=log.first + place,
            epoch=int(log.epochs[place]),
            node=log.node,
        )

    @property
    def end_of_time(self) -> int:
        """Returns a moment after everything in the history."""
        ended = self.rows.t_ret[self.rows.t_ret < NEVER]
        return 1 + max(int(self.rows.t_inv.max(initial=0)), int(ended.max(initial=0)))


@attrs.frozen(eq=False)
class Fate:
    """The fate of the acknowledged messages, and of those that were read."""

    lost: Ints
    """Entries of `Sent`: acknowledged, and not there."""
    read_lost: Ints
    """Entries of `Sent`: without an acknowledgement, but read by a consumer, and not there."""
    unseen: int
    """Acknowledged, and neither read at the end nor certainly lost."""
    expired: int
    """Acknowledged, and before the beginning of the log."""
    was_read: Bools
    """For each entry of `Sent` whether a consumer other than that of the final read got it."""
    is_there: Bools
    """For each entry of `Sent` whether it was there at the end, as far as anything tells."""


def fate_of(one: QueuePartition, expectations: QueueExpectations) -> Fate:
    """Returns what was lost of a partition.

    A message is there if the final read has its value or, where that did not pass its offset, a final log has it. It is lost if it is
    not there, and the final read passed its offset; or there are final logs; or, where sends wait for all replicas, it lies at or behind the end that consumers were told. Before the beginning of the log it is expired. What was
    acknowledged after the final read had begun is lost only if that passed it.
    """
    rows, sent, finals = one.rows, one.sent, one.finals
    polled = one.polled
    entry = sent.find(rows.a[polled])
    by_others = (rows.process[polled] != finals.process) & (entry != NONE)
    was_read = np.zeros(len(sent.value), np.bool_)
    was_read[entry[by_others]] = True
    nothing = np.zeros(0, np.int64)
    if not finals.are_known:
        return Fate(nothing, nothing, 0, 0, was_read, np.ones(len(sent.value), np.bool_))
    read_offset = np.full(len(sent.value), NONE, np.int64)
    read_ret = np.full(len(sent.value), NEVER, np.int64)
    others = polled[by_others][::-1]  # so that what was read first counts
    read_offset[entry[by_others][::-1]], read_ret[entry[by_others][::-1]] = rows.offset[others], rows.t_ret[others]
    is_acked = sent.ok_row != NONE
    offset = np.where(is_acked, rows.offset[sent.ok_row], read_offset)
    is_before = np.where(is_acked, rows.t_ret[sent.ok_row], read_ret) <= finals.t_ns
    has_final_read = finals.process != NONE
    in_logs = np.isin(sent.value, finals.held)
    is_passed = has_final_read & (offset >= 0) & (offset < finals.passed)
    is_there = np.isin(sent.value, finals.value) | (in_logs & ~is_passed)
    is_expired = ~is_there & (offset >= 0) & (offset < finals.start)
    behind = has_final_read & (offset >= finals.end) & (expectations.acks == "all")
    # Of a message whose place is not known, a final read of everything shows as much as one that passed it.
    unplaced = (offset < 0) & has_final_read & (not finals.is_cut_short)
    is_gone = is_passed | (is_before & ((len(finals.ends) > 0) | behind | unplaced))
    missing = ~is_there & ~is_expired
    return Fate(
        lost=np.flatnonzero(missing & is_acked & is_gone),
        read_lost=np.flatnonzero(missing & ~is_acked & was_read & ~sent.is_refused & is_gone),
        unseen=int((missing & is_acked & ~is_gone).sum()),
        expired=int((is_expired & is_acked).sum()),
        was_read=was_read,
        is_there=is_there,
    )
