"""A member that lies: it runs as any other, and claims in between what no correct member can know or have.

The others refuse each claim, and keep every promise: the oracles of the world are as they always were. The liar knows the
state of the node that it lies to, since a claim that might be true proves nothing.
"""

from collections.abc import Iterator

import crc32c

from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.raft.machine import SimulatedMachine
from jepsen_like.simulation.raft.world import RaftWorld
from raft.core import RaftCore
from raft.errors import ProtocolError
from raft.messages import (
    AppendAccepted,
    AppendEntries,
    AppendRejected,
    InstallSnapshot,
    Message,
    RequestPreVote,
    RequestVote,
    SnapshotReceived,
    TimeoutNow,
    VoteReply,
)
from raft.model import NO_INDEX, NO_TERM, Batch, Entry, EntryKind, LogIndex, LogStart, NodeId, Offset, Position, Term
from raft.objections import INDEX_MAX, TERM_MAX
from raft.roles import Leader

LIES_PER_TIMEOUT = 4.0
"""Claims in the time of one election timeout, about."""
_RECORD = Batch(EntryKind.RECORDS, 1, 0, b"lie", crc32c.crc32c(b"lie"))


class LyingWorld(RaftWorld):
    """A world in which one member lies until the faults end."""

    def begin(self) -> None:
        """Start as ever, with the lies."""
        super().begin()
        self._rng = stream(self.knobs.seed, "lies")
        self.liar = self._rng.choice(list(self.machines))
        if len(self.machines) > 1:
            self._wait()

    def _wait(self) -> None:
        pause_s = self.knobs.patience_s / LIES_PER_TIMEOUT * self._rng.uniform(0.2, 2.0)
        self.schedule(self.now + pause_s, self._lie)

    def _lie(self) -> None:
        if self.healed:
            return
        victim = self.machines[self._rng.choice([node for node in self.machines if node != self.liar])]
        if victim.up and not victim.paused and victim.core is not None:
            claim = self._rng.choice(list(claims(victim.core, self.liar)))
            self.counts["lies"] += 1
            self.note(f"node {self.liar} claims {claim}", victim.node_id)
            victim.receive(self.liar, claim)
        self._wait()

    def on_objection(self, machine: SimulatedMachine, sender: NodeId, error: ProtocolError) -> None:
        """End the link of the liar, and of no other."""
        if sender != self.liar:
            super().on_objection(machine, sender, error)
        self.counts["lies_refused"] += 1
        self.reset((sender, machine.node_id))


def claims(core: RaftCore, liar: NodeId) -> Iterator[Message]:
    """Yields messages that no correct member can send to the node with this core."""
    term, later, log, commit = core.term, Term(core.term + 1), core.log, core.commit_index
    yield VoteReply(Term(TERM_MAX + 1), granted=True)
    if core.recall is not None:
        return  # it knows nothing that a claim could contradict
    beyond = LogIndex(log.last_index + 5)
    yield RequestVote(later, beyond, later)
    yield RequestPreVote(later, beyond, NO_TERM)
    yield AppendEntries(later, LogIndex(INDEX_MAX + 1), term, commit, 1)
    gap = Entry(LogIndex(log.last_index + 1), later, Offset(log.end_offset + 7), _RECORD)
    yield AppendEntries(later, log.last_index, log.last_term, commit, 1, (gap,))
    if commit > log.start.index:
        yield AppendEntries(later, commit, later, commit, 1)
        before = LogIndex(commit - 1)
        replacing = Entry(commit, later, Offset(0), _RECORD)
        yield AppendEntries(later, before, log.term_at(before), commit, 1, (replacing,))
        place = Position(commit, later)
        yield InstallSnapshot(later, LogStart(place, log.end_offset, place), 1)
    if core.leader not in (None, liar):
        yield AppendEntries(term, NO_INDEX, NO_TERM, commit, 1)
        yield TimeoutNow(term)
    if isinstance(core.role, Leader):
        round_ = core.role.round
        yield AppendAccepted(term, beyond, beyond, round_)
        yield AppendAccepted(term, NO_INDEX, NO_INDEX, round_ + 1)
        yield AppendRejected(term, NO_INDEX, commit if commit else beyond, term, round_)
        yield SnapshotReceived(term, LogIndex(log.start.index + 1), 0, round_)
