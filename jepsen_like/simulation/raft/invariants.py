"""The invariants of the whole cluster after every step (the paper's figure 3, and what follows from it).

- I1 election safety: at most one leader a term, elected by votes that are on the disks of a majority.
- I2 log matching: (index, term) has one content and one predecessor, on every node and at all times.
- I3 leader completeness: a leader holds all that leaders of earlier terms committed.
- I4 state-machine safety: what is committed at an index never differs between nodes and never changes.
- I5 leader append-only: a leader never replaces an entry of its log.
- I6 a leader commits by counting only entries of its own term (section 5.4.2).
- I7 term, vote and commit index only move forward, and an entry's term is never above its node's.
- I8 what a leader believes a follower holds is on that follower's disk.
- I9 what is committed is on the disks of a majority; a copy that damage took away counts while its floor stands for it.
- I10 a pre-vote asked or answered for changes nothing: no term, no vote (section 9.6 of the dissertation).
- I11 a state machine, restored from a snapshot or not, is what the committed log has made: each command once, in order.
- I12 a leader changes the members one at a time, after an entry of its own term is committed, between configurations of
  which each majority of one shares a voter with each of the other.
"""

from collections.abc import Callable, Mapping, Sequence

from jepsen_like.simulation.raft.machine import BeforeStep, SimulatedMachine
from jepsen_like.simulation.raft.record import ClusterRecord, LedgerEntry, content, have_majorities, prefix_holds, same
from raft.events import Event, Receive
from raft.membership import Configuration
from raft.messages import AppendAccepted, RequestPreVote
from raft.model import NO_INDEX, NO_TERM, Entry, EntryKind, LogIndex, NodeId
from raft.roles import Leader


def copies_of(machines: Mapping[NodeId, SimulatedMachine], entry: Entry, members: Configuration) -> list[NodeId]:
    """Returns the nodes that hold the entry in the directories with which they are, or were, `members`."""
    known = members.directory_ids
    return [node for node, machine in machines.items() if machine.held.vouches_for(entry, known.get(node, 0))]


def _are_adjacent(before: Configuration, after: Configuration) -> bool:
    """Returns True if a leader may go from one to the other: one voter changes, or joint consensus begins or ends."""
    if before.outgoing:
        return after.voters == before.voters and not after.outgoing
    if after.outgoing:
        return after.outgoing == before.voters
    one, other = ({(node, each.directory_ids.get(node, 0)) for node in each.voters} for each in (before, after))
    return len(one ^ other) <= 1


Accuse = Callable[[str, SimulatedMachine, str], None]
"""`accuse(oracle, machine, sentence)`: a promise was broken."""


class Invariants:
    """The cluster-wide rules; the world tells it of every append, commit and step."""

    def __init__(self, record: ClusterRecord, machines: Mapping[NodeId, SimulatedMachine], accuse: Accuse) -> None:
        self._record = record
        self._machines = machines
        self._accuse = accuse

    def on_appended(self, machine: SimulatedMachine, entries: Sequence[Entry]) -> None:
        """I2, I4, I5, before `entries` replace the tail of the machine's log."""
        core = machine.core
        assert core is not None
        first = entries[0]
        if isinstance(core.role, Leader) and first.index <= len(machine.entries):
            self._accuse("I5", machine, f"a leader replaces its entry {first.index}")
        self._check_overwritten(machine, entries)
        for entry in entries:
            if entry.batch.kind is EntryKind.CONFIGURATION:
                self._note_members(machine, entry)
        contents = self._record.contents
        previous = machine.entries[first.index - 2].term if first.index > 1 else NO_TERM
        for entry in entries:
            found = content(entry, previous)
            self._record.entries.setdefault((entry.index, entry.term), entry)
            if contents.setdefault((entry.index, entry.term), found) != found:
                self._accuse("I2", machine, f"entry {entry.index} of term {entry.term} has two contents")
            if entry.term > core.term:
                self._accuse("I7", machine, f"entry {entry.index} is of term {entry.term}, the node of {core.term}")
            previous = entry.term
        if isinstance(core.role, Leader):
            log = self._record.leader_logs.setdefault(core.term, [])
            log.extend(entries if log else [*machine.entries[: first.index - 1], *entries])

    def _note_members(self, machine: SimulatedMachine, entry: Entry) -> None:
        """I12, if a leader appends this configuration."""
        core, log, record = machine.core, machine.entries, self._record
        assert core is not None
        configuration = Configuration.decode(bytes(entry.batch.data))
        record.configurations.setdefault((entry.index, entry.term), configuration)
        if not isinstance(core.role, Leader):
            return
        machine.counts["joint_changes"] += configuration.is_joint
        committed = machine.commit_index
        if not committed or log[committed - 1].term != core.term:
            self._accuse("I12", machine, "changes the members before an entry of its own term is committed")
        if any(each.batch.kind is EntryKind.CONFIGURATION for each in log[committed : entry.index - 1]):
            self._accuse("I12", machine, "changes the members before the last change is committed")
        before = record.members_in(log[: entry.index - 1])
        if not _are_adjacent(before, configuration):
            self._accuse("I12", machine, f"goes from the members {before} to {configuration} at once")

    def _check_overwritten(self, machine: SimulatedMachine, entries: Sequence[Entry]) -> None:
        """I4: an append that reaches down into the committed log must find itself there."""
        first, committed = entries[0].index, machine.commit_index
        if first <= len(machine.entries):
            machine.counts["truncations"] += 1
            replaced = machine.entries[first - 1 :] if self._record.configurations else ()
            if any(each.batch.kind is EntryKind.CONFIGURATION for each in replaced):
                machine.counts["configurations_undone"] += 1
        if first > committed:
            return
        for entry in entries:
            if entry.index <= committed and not same(entry, machine.entries[entry.index - 1]):
                self._accuse("I4", machine, f"the committed entry {entry.index} is replaced")
        if entries[-1].index < committed:
            self._accuse("I4", machine, f"committed entries above {entries[-1].index} are cut")

    def on_committed(self, machine: SimulatedMachine, index: LogIndex) -> None:
        """I4, I6, I9 for everything that `machine` now considers committed."""
        core, record = machine.core, self._record
        assert core is not None
        if index > len(machine.entries):
            self._accuse("I4", machine, f"commits {index}, its log ends at {len(machine.entries)}")
            return
        known = LogIndex(min(index, record.committed_index))
        if known and not same(machine.entries[known - 1], record.ledger[known - 1].entry):
            while known and not same(machine.entries[known - 1], record.ledger[known - 1].entry):
                known = LogIndex(known - 1)
            if not record.may_be_lost(LogIndex(known + 1)):
                self._accuse("I4", machine, f"commits another entry {known + 1} than was committed before")
                return
            record.roll_back(LogIndex(known))
        if index == known:
            return
        newest = machine.entries[index - 1]
        if isinstance(core.role, Leader) and newest.term != core.term:
            self._accuse("I6", machine, f"a leader of term {core.term} commits an entry of term {newest.term} by count")
        members = record.members_in(machine.entries) if record.configurations else record.initial
        record.ledger.extend(LedgerEntry(entry, core.term, members) for entry in machine.entries[known:index])
        self._check_durable_quorum(machine, newest, members)

    def _check_durable_quorum(self, machine: SimulatedMachine, entry: Entry, members: Configuration) -> None:
        """I9; by log matching, who has the newest entry has the rest."""
        copies = copies_of(self._machines, entry, members)
        if not have_majorities(copies, members) and not self._record.may_be_lost(entry.index):
            self._accuse("I9", machine, f"entry {entry.index} is committed, but durable only on {copies}")

    def on_command(self, machine: SimulatedMachine, index: LogIndex, command: bytes) -> None:
        """I11, before `machine` applies the command at `index`."""
        number, commands = machine.replica.applied, self._record.commands()
        is_next = number < len(commands) and commands[number] == (index, command)
        if not is_next and not self._record.may_be_lost(index):
            self._accuse(
                "I11", machine, f"applies a command at {index} as the one of number {number}, which is another"
            )

    def on_applied(self, machine: SimulatedMachine) -> None:
        """I11, after `machine` gave more to its state machine or restored it."""
        assert machine.driver is not None
        replica, index = machine.replica, machine.driver.applied_index
        if (replica.applied, replica.digest) != self._record.state_at(index) and not self._record.may_be_lost(index):
            self._accuse(
                "I11", machine, f"has applied {replica.applied} commands, not the committed ones up to {index}"
            )

    def on_decided(self, machine: SimulatedMachine, before: BeforeStep) -> None:
        """I1, I3 before a step's effects are carried out: a leader that is gone by then has led all the same."""
        core = machine.core
        assert core is not None
        if isinstance(core.role, Leader) and (not before.led or core.term != before.term):
            self._check_new_leader(machine)

    def on_stepped(self, machine: SimulatedMachine, before: BeforeStep, event: Event) -> None:
        """I7, I8 once a step's effects are carried out."""
        core = machine.core
        assert core is not None
        self._check_monotone(machine, before)
        if isinstance(event, Receive) and isinstance(event.message, RequestPreVote) and core.term != before.term:
            self._accuse("I10", machine, f"a pre-vote moved its term from {before.term} to {core.term}")
        if isinstance(event, Receive) and isinstance(event.message, AppendAccepted):
            self._check_match(machine, event.sender)

    def _check_monotone(self, machine: SimulatedMachine, before: BeforeStep) -> None:
        core = machine.core
        assert core is not None
        if core.term < before.term:
            self._accuse("I7", machine, f"the term fell from {before.term} to {core.term}")
        if core.term == before.term and before.vote is not None and core.vote != before.vote:
            self._accuse("I7", machine, f"the vote in term {core.term} moved from {before.vote} to {core.vote}")
        if core.commit_index < before.commit_index:
            self._accuse("I7", machine, f"the commit index fell from {before.commit_index} to {core.commit_index}")
        if core.log.last_index != len(machine.entries):
            self._accuse(
                "I2", machine, f"the log view ends at {core.log.last_index}, the log at {len(machine.entries)}"
            )

    def _check_new_leader(self, machine: SimulatedMachine) -> None:
        core, record = machine.core, self._record
        assert core is not None
        machine.counts["leader_changes"] += 1
        other = record.leaders.setdefault(core.term, machine.node_id)
        if other != machine.node_id:
            self._accuse("I1", machine, f"leads term {core.term}, as n{other} did")
        members, known = record.members_in(machine.entries), core.configuration.directory_ids
        votes = [
            voter.node_id
            for voter in self._machines.values()
            if voter.held.voted_for(machine.node_id, core.term, known.get(voter.node_id, 0))
        ]
        if not have_majorities(votes, members):
            self._accuse("I1", machine, f"leads term {core.term}, but only the disks of {votes} have a vote for it")
        must_hold = record.committed_before(core.term)
        is_excused = must_hold is not None and record.may_be_lost(must_hold.index)
        if must_hold is not None and not prefix_holds(machine.entries, must_hold) and not is_excused:
            self._accuse("I3", machine, f"leads term {core.term} without the committed entry {must_hold.index}")

    def _check_match(self, machine: SimulatedMachine, peer: NodeId) -> None:
        """I8, unless the follower has let a later term in: a later leader may overwrite what was matched."""
        core = machine.core
        assert core is not None
        if not isinstance(core.role, Leader):
            return
        progress = core.role.progress.get(peer)
        match = NO_INDEX if progress is None else progress.match_index
        held = self._machines[peer].held
        if progress is None or not match or self._record.may_be_lost(match):
            return
        if held.durable_log().term > core.term:
            return
        if not held.vouches_for(machine.entries[match - 1], progress.directory_id):
            self._accuse("I8", machine, f"counts n{peer} as holding entry {match}, which its disk does not")
