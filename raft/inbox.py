"""Inbox: the events that wait for the next round, in the order in which they came, and which messages join them.

Messages with entries or a snapshot need room on the disk, and so do those that may change the term or the vote. Nothing is written before the next round, so each needs it in
addition to those that came before it. One without room is dropped before the core sees it, and its leader sends it
again. Of a snapshot in parts the last one waits until the whole is written outside of the loop.
"""

from collections import deque
from typing import Final

from log.errors import NoSpace
from raft.applier import Applier
from raft.core import RaftCore
from raft.environment import Environment
from raft.errors import ProtocolError
from raft.events import Event, Receive
from raft.flush_schedule import FlushSchedule
from raft.full_disk import FullDisk
from raft.messages import (
    AppendEntries,
    InstallSnapshot,
    Message,
    PreVoteReply,
    RequestVote,
    StandingReply,
    TimeoutNow,
    VoteReply,
)
from raft.model import NodeId
from raft.notices import SnapshotTooLarge
from raft.snapshot_work import SnapshotWork
from raft.storage import entries_bytes

OF_ELECTIONS: Final = (PreVoteReply, RequestVote, VoteReply, StandingReply, TimeoutNow)
"""Messages that may change the term or the vote of a node in their own term, too."""


class Inbox:
    """The events that one node's core has yet to process."""

    def __init__(
        self,
        core: RaftCore,
        applier: Applier,
        snapshots: SnapshotWork,
        flushes: FlushSchedule,
        full_disk: FullDisk,
        environment: Environment,
    ) -> None:
        self._core = core
        self._applier = applier
        self._snapshots = snapshots
        self._flushes = flushes
        self.full_disk = full_disk
        self._environment = environment
        self.events: deque[Event] = deque()
        """The events that wait, the oldest first."""
        self._reserved_bytes = 0

    def take(self) -> Event:
        """Returns the oldest event, which waits no more. With the last one, what was reserved for them is at hand again."""
        event = self.events.popleft()
        if not self.events:
            self._reserved_bytes = 0
        return event

    def deliver(self, sender: NodeId, message: Message) -> None:
        """Let a peer's message wait, or drop it, as the network may.

        Raises `ProtocolError` if no correct peer can have sent it, `WrongStateMachine` for a snapshot that the state
        machine cannot take.
        """
        if (objection := self._core.objection(sender, message)) is not None:
            raise ProtocolError(objection)
        may_change_state = message.term > self._core.term or isinstance(message, OF_ELECTIONS)
        if may_change_state and not self.full_disk.has_room_for_state(self._environment.clock()):
            return
        if isinstance(message, AppendEntries) and message.entries:
            if message.prev_index < self._core.log.last_index and message.term >= self._core.term:
                self._require_offset(message)  # an older leader replaces nothing: the core refuses it
            self._deliver_with_room(sender, message, entries_bytes(entry.batch for entry in message.entries))
        elif isinstance(message, InstallSnapshot):
            self._deliver_snapshot(sender, message)
        else:
            self.events.append(Receive(sender, message))

    def _require_offset(self, message: AppendEntries) -> None:
        """Raises `ProtocolError` if entries would be replaced by some that begin elsewhere: the core knows the newest."""
        missing = self._core.log.missing_from(message.entries)
        if missing and self._core.log.matches(message.prev_index, message.prev_term):
            due = self._applier.offset_before(missing[0].index)
            if due != missing[0].base_offset:
                raise ProtocolError(f"the entry at index {missing[0].index} begins at offset {due}")

    def _deliver_snapshot(self, sender: NodeId, message: InstallSnapshot) -> None:
        self._applier.require_snapshots()
        committed_end = self._applier.committed_end
        if message.start.index > self._core.commit_index and message.start.offset < committed_end:
            raise ProtocolError(
                f"a log that begins with offset {message.start.offset} cannot be: here all before {committed_end} is committed"
            )
        if message.total > self._snapshots.bytes_max:
            self._environment.notify(SnapshotTooLarge(message.total, self._snapshots.bytes_max))
        elif message.bytes_left:
            self.events.append(Receive(sender, message))  # kept in memory until the last part is there
        elif not (self._flushes.is_under_way or self._snapshots.is_busy):
            # A log is reset only while neither is under way; otherwise the leader will send the part again.
            if not self._snapshots.is_written:
                self._require_snapshot(message)
            staged = self._snapshots.installing(message, self._core)
            if staged is not None:  # else it is being written; the part that comes again will find it
                self._deliver_with_room(sender, staged, message.total)

    def _require_snapshot(self, last: InstallSnapshot) -> None:
        """Raises `ProtocolError` for one that the state machine cannot be restored from, which would end this node."""
        staged = self._core.staged_with(last)
        if staged is not None and staged.is_whole:
            problem = self._applier.snapshot_problem(staged.join_parts().snapshot)
            if problem is not None:
                raise ProtocolError(f"the state machine takes no such snapshot: {problem[:200]}")

    def _deliver_with_room(self, sender: NodeId, message: Message, needed: int) -> None:
        try:
            self.full_disk.reserve(self._reserved_bytes + needed, self._environment.clock())
        except NoSpace:
            return
        self._reserved_bytes += needed
        self.events.append(Receive(sender, message))
