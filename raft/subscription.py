"""Commits and leadership for the program around a node, in order, on every member of the group.

A subscription is a place in the log: the driver reads on from there, at most `PORTION_BYTES` a round, and calls the
subscriber with each entry once it is known to be committed on this node. There is no other queue than the log, so a
slow subscriber costs no memory, but delays the loop it runs in. At a restart its program gives the index.

A subscriber that wants trimmed entries is reset: it gets a `ResetToSnapshot`, and then what the log holds. That happens
where it begins, and later when the log was reset to a leader's snapshot, or was trimmed past it.

Promises: indexes ascend without a gap, except for those that a reset skips; every member is given the same entry at the
same index. Changes of leadership are in order among themselves; of several within a round only the last is given.
"""

from collections.abc import Callable

from log.values import frozen
from raft.core import RaftCore
from raft.model import NO_INDEX, Entry, EntryKind, LogIndex, LogStart, NodeId, Offset, Position, Term
from raft.record_batch import unpack_batches
from raft.storage import RaftStorage

PORTION_BYTES = 1024 * 1024
"""A subscriber is given this much of the log in one round; the rest waits for the next."""


@frozen
class CommittedEntry:
    """One entry, committed for good. `timestamp_ms` is its leader's wall clock when it was proposed (Unix time).

    Of kind RECORDS, `data` holds `span` records with the offsets from `base_offset` on; of kind COMMANDS, commands of
    the state machine; of kind NOOP, nothing: a leader's first entry in its term.
    """

    index: LogIndex
    term: Term
    timestamp_ms: int
    kind: EntryKind
    base_offset: Offset
    span: int
    data: bytes

    def records(self) -> list[bytes]:
        """Returns the records, in order of their offsets; none for an entry of another kind."""
        return unpack_batches(self.data, self.span) if self.kind is EntryKind.RECORDS else []


@frozen
class LeaderChanged:
    """`leader` is the node that leads in `term`, as far as this node knows; None while it knows of none."""

    leader: NodeId | None
    term: Term


@frozen
class ResetToSnapshot:
    """Entries that this subscriber lacks have left the log: `snapshot` stands for all commands up to `applied`.

    What follows begins behind `position`, with the record at `offset`; commands up to `applied` are among it, and known
    already. The snapshot is that of the group's state machine; records that have left the log are gone.
    """

    position: Position
    offset: Offset
    applied: Position
    snapshot: bytes


Delivered = CommittedEntry | LeaderChanged | ResetToSnapshot
Subscriber = Callable[[Delivered], None]
"""Called in the loop of the node, which waits for it.

It may make calls of the group that do not wait, such as `submit`. What it raises ends the node, as an exception of a
state machine does.
"""


class Subscription:
    """One subscriber and how far it is; made by `RaftGroup.subscribe`."""

    def __init__(self, subscriber: Subscriber, after_index: int = NO_INDEX) -> None:
        self.last_index = LogIndex(after_index)
        """The last index that was given to it, or that a reset has skipped."""
        self.is_closed = False
        self._subscriber = subscriber
        self._leadership: LeaderChanged | None = None

    def close(self) -> None:
        """End the subscription: nothing more is delivered."""
        self.is_closed = True

    def lacks(self, core: RaftCore) -> bool:
        """Returns whether there is something to deliver now."""
        if self.is_closed:
            return False
        return self.last_index < core.commit_index or self._leadership != LeaderChanged(core.leader, core.term)

    def advance(self, core: RaftCore, storage: RaftStorage) -> None:
        """Deliver what is new, at most a portion."""
        leadership = LeaderChanged(core.leader, core.term)
        if leadership != self._leadership:
            self._leadership = leadership
            self._subscriber(leadership)
        if self.last_index < core.log.start.index:
            self._reset(core.log.start)
        if self.last_index >= core.commit_index:
            return
        first, commit_index = LogIndex(self.last_index + 1), core.commit_index
        for entry in core.log.cached_entries(first, PORTION_BYTES) or storage.entries(
            first, PORTION_BYTES, commit_index
        ):
            if entry.index > commit_index or self.is_closed:
                return
            self.last_index = entry.index
            self._subscriber(_committed_entry(entry))

    def _reset(self, start: LogStart) -> None:
        self.last_index = start.index
        self._subscriber(ResetToSnapshot(start.position, start.offset, start.applied, start.snapshot))


class Subscriptions:
    """The subscriptions of one node, which share its rounds."""

    def __init__(self, core: RaftCore, storage: RaftStorage) -> None:
        self._core = core
        self._storage = storage
        self.open: list[Subscription] = []
        """Those that were not closed before the last round."""
        self.has_more = False
        """True if something is to be delivered now."""
        self._seen: tuple[object, ...] = ()

    def add(self, subscription: Subscription) -> None:
        """Deliver to `subscription`, from its position on, until it is closed."""
        self.open.append(subscription)
        self.has_more = True

    def deliver(self) -> None:
        """Deliver what is new, at most a portion to each."""
        core = self._core
        seen = core.leader, core.term, core.commit_index, core.log.start.index, len(self.open)
        if seen == self._seen and not self.has_more:
            return
        self._seen = seen
        self.open = [subscription for subscription in self.open if not subscription.is_closed]
        for subscription in tuple(self.open):
            subscription.advance(self._core, self._storage)
        self.has_more = any(subscription.lacks(self._core) for subscription in self.open)


def _committed_entry(entry: Entry) -> CommittedEntry:
    batch = entry.batch
    return CommittedEntry(
        entry.index, entry.term, batch.timestamp_ms, batch.kind, entry.base_offset, batch.span, bytes(batch.data)
    )
