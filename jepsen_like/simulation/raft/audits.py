"""Every promise is checked against the simulated disks at the moment it goes on the wire.

Random schedules alone seldom turn an early promise into a loss: power must fail in the few milliseconds between promise
and fsync, on the right nodes. An audit needs no such luck: the simulator knows what is on each disk *now*.

- A1 a vote or a candidacy on the wire: that (term, vote) is durable at the sender, and it is its only one in that term.
- A2 an accepted append on the wire: the log is durable up to `match_index` and equals that of the term's leader, and
  the sender is still in that term.
- A3 a client receives "committed", or the result of its command: that is right, and its entry is on a majority's disks.
- A4 electability: no node that lacks a committed entry could win a majority of the logs that are durable.
- A5 a restart: the node comes back with what its disk held, no less, no more, and all of it durable; and its log begins
  where its disk has it begin, not before what was trimmed.
- A6 a linearizable read: what it is served from covers all that was committed anywhere when it was asked for, and the
  read index that the core has confirmed; what is shown of the log is committed.
- A7 a node that holds less than before damage cut its log, or whose directory vanished, asks for no vote. It gives none
  to a log below what it held, or may have held, and none while it remembers nothing.
- A8 what leaves a log, and what a follower is told to begin behind, is committed: the place where it ended is that of
  the committed log, and the snapshot that stands for it is what the committed commands make of a state machine.
- A9 each request is answered once, by the process that was asked, unless that process ended.
- A10 a subscriber is given the committed log, entry after entry, and the true leaders.
"""

from collections.abc import Mapping, Sequence

import attrs

from jepsen_like.simulation.raft.durable import EMPTY, DurableLog, DurableStart
from jepsen_like.simulation.raft.holdings import Legacy
from jepsen_like.simulation.raft.invariants import Accuse, copies_of
from jepsen_like.simulation.raft.machine import SimulatedMachine
from jepsen_like.simulation.raft.record import (
    NUMBER_BYTES,
    ClusterRecord,
    LedgerEntry,
    as_recent,
    have_majorities,
    records_of,
    state_in,
)
from raft.effects import Effect, ReadReady
from raft.events import Event, ReadRequest
from raft.messages import AppendAccepted, InstallSnapshot, Message, PreVoteReply, RequestPreVote, RequestVote, VoteReply
from raft.model import NO_INDEX, Entry, LogIndex, LogStart, NodeId, Position, Term, Token
from raft.subscription import CommittedEntry, Delivered, LeaderChanged, ResetToSnapshot


class Audits:
    """The wire tap and the disk tap."""

    def __init__(self, record: ClusterRecord, machines: Mapping[NodeId, SimulatedMachine], accuse: Accuse) -> None:
        self._record = record
        self._machines = machines
        self._accuse = accuse
        self._votes: dict[tuple[NodeId, int, Term], tuple[NodeId, int]] = {}
        self._asked: dict[tuple[NodeId, Term], Position] = {}
        self._owed: dict[int, tuple[SimulatedMachine, int, float]] = {}
        """The process that owes a request an answer, and since when."""
        self._new_reads: dict[int, list[int]] = {}
        """By process: the reads that its core has not been asked for yet."""
        self._reads_asked: dict[tuple[int, Token], list[int]] = {}
        self._confirmed: dict[int, LogIndex] = {}
        """The read index of each read that a core has confirmed."""
        self._delivered: dict[NodeId, tuple[int, LogIndex]] = {}
        """The process of a node, and the last index that its subscriber was given or that a reset has skipped."""

    def on_sent(self, machine: SimulatedMachine, to: NodeId, message: Message) -> None:
        """A1, A2, A7 and A8: `message` goes on the wire now."""
        match message:
            case RequestVote(term=term, last_index=index, last_term=last_term):
                self._check_vote(machine, term, machine.node_id, "asks for votes")
                self._note_candidacy(machine, term, Position(index, last_term))
            case RequestPreVote(term=term, last_index=index, last_term=last_term):
                self._note_candidacy(machine, term, Position(index, last_term))
            case VoteReply(term=term, granted=True):
                self._check_vote(machine, term, to, f"votes for n{to}")
                self._check_floor(machine, term, to)
            case PreVoteReply(term=term, granted=True):
                self._check_floor(machine, term, to)
            case AppendAccepted(term=term, match_index=match_index):
                self._check_accepted(machine, term, match_index)
            case InstallSnapshot():
                self._check_part(machine, message)
            case _:
                pass

    def _check_vote(self, machine: SimulatedMachine, term: Term, candidate: NodeId, deed: str) -> None:
        voted = machine.held.durable_log().votes.get(term)
        if voted != candidate:
            kept = f"a vote for n{voted}" if voted else "no vote"
            self._accuse("A1", machine, f"{deed} in term {term}; its disk has {kept} in that term")
        place = (machine.node_id, machine.held.durable_log().directory_id, term)
        given, losses = self._votes.setdefault(place, (candidate, machine.held.losses))
        if given == machine.node_id and losses < machine.held.losses:
            # A candidacy that ended with its directory: who has won one is remembered by those who voted for it (I1).
            given, _ = self._votes[place] = (candidate, machine.held.losses)
        if given != candidate:
            self._accuse("A1", machine, f"{deed} in term {term}, in which it voted for n{given}")

    def _note_candidacy(self, machine: SimulatedMachine, term: Term, position: Position) -> None:
        if machine.held.is_blank:
            self._accuse("A7", machine, "campaigns, though it remembers nothing")
        held = machine.held.held_before or machine.held.guard
        if held is not None and held.index:
            self._accuse("A7", machine, f"campaigns with a log to {position}; it held one to {held}")
        asked = self._asked.setdefault((machine.node_id, term), position)
        if as_recent(position, asked):
            self._asked[(machine.node_id, term)] = position

    def _check_floor(self, machine: SimulatedMachine, term: Term, candidate: NodeId) -> None:
        if machine.held.is_blank:
            self._accuse("A7", machine, f"votes for n{candidate}, though it remembers nothing")
        held, asked = machine.held.held_before or machine.held.guard, self._asked.get((candidate, term))
        if held is not None and asked is not None and not as_recent(asked, held):
            self._accuse("A7", machine, f"votes for n{candidate}, whose log ends at {asked}; it held one to {held}")

    def _check_accepted(self, machine: SimulatedMachine, term: Term, match_index: LogIndex) -> None:
        log, core = machine.held.promised_log(), machine.core
        if core is not None and core.term > term:
            self._accuse("A2", machine, f"accepts in term {term}, though it has gone on to term {core.term}")
        if (known := machine.held.durable_log().term) < term:
            self._accuse("A2", machine, f"accepts in term {term}; its disk knows only term {known}")
        if match_index == 0:
            return
        if match_index > log.position.index:
            self._accuse("A2", machine, f"accepts up to {match_index}; its disk ends at {log.position.index}")
            return
        leader_log = self._record.leader_logs.get(term, [])
        if match_index > len(leader_log) or not log.has(leader_log[match_index - 1]):
            self._accuse("A2", machine, f"accepts up to {match_index}, where it differs from the leader of term {term}")

    def on_trimmed(self, machine: SimulatedMachine, start: LogStart) -> None:
        """A8: the log begins at `start` from now on, in memory at least."""
        self._check_left(machine, start, "lets its log begin")

    def check_start(self, machine: SimulatedMachine) -> None:
        """A8: where the log begins, by the disk."""
        start = machine.held.durable_log().start
        if start.index:
            self._check_left(machine, start, "has a log on its disk that begins")

    def _check_part(self, machine: SimulatedMachine, message: InstallSnapshot) -> None:
        """A part counts as the whole that it is a part of: the one with which the sender's log begins."""
        start = message.start
        if message.total > len(start.snapshot):
            assert machine.core is not None
            whole = machine.core.log.start.snapshot
            if whole[message.offset : len(whole) - message.bytes_left] != start.snapshot:
                self._accuse("A8", machine, f"sends what is no part of its snapshot, from {message.offset} on")
            start = attrs.evolve(start, snapshot=whole)
        self._check_left(machine, start, "sends a snapshot")

    def _check_left(self, machine: SimulatedMachine, start: LogStart | DurableStart, deed: str) -> None:
        record, end, applied = self._record, start.position, start.applied
        known = record.ledger[end.index - 1].entry if 0 < end.index <= record.committed_index else None
        if known is None or (known.term, known.end_offset) != (end.term, start.offset):
            self._accuse("A8", machine, f"{deed} behind {end}, offset {start.offset}, which is no committed place")
        true = (record.state_at(applied.index), record.term_of(applied.index))
        if applied.index < end.index or (state_in(start.snapshot), applied.term) != true:
            self._accuse("A8", machine, f"{deed} with a snapshot that is not what was committed up to {applied}")

    def on_asked(self, machine: SimulatedMachine, request_id: int, now: float) -> None:
        """A9: a request has reached `machine`, which owes it an answer."""
        self._owed[request_id] = machine, machine.process, now

    def on_answered(self, machine: SimulatedMachine, request_id: int) -> None:
        """A9: a request is answered, in one way or another."""
        owed = self._owed.pop(request_id, None)
        if owed is None or owed[:2] != (machine, machine.process):
            self._accuse("A9", machine, f"answers request {request_id}, which it does not owe an answer")

    def check_owed(self, before: float) -> None:
        """A9: every request that was asked before this time is answered, unless its process has ended."""
        for request_id, (machine, process, asked_at) in self._owed.items():
            if asked_at < before and machine.lives_as(process):
                self._accuse("A9", machine, f"has not answered request {request_id} of {asked_at:.4f} s")

    def on_acknowledged(self, machine: SimulatedMachine, data: bytes, base_offset: int, span: int, term: int) -> None:
        """A3: a client learns that its records are committed from `base_offset` on."""
        entry = self._record.entry_at(base_offset)
        if entry is None or records_of(entry, base_offset - entry.base_offset, span) != data or entry.term != term:
            self._accuse("A3", machine, f"answers that records of term {term} are at {base_offset}, which they are not")
            return
        machine.counts["answered_jointly"] += entry.batch.span > span
        self._check_copies(machine, self._record.ledger[entry.index - 1])

    def on_command_done(self, machine: SimulatedMachine, command: bytes, index: LogIndex, result: bytes) -> None:
        """A3: a client learns the result of its command, which is committed at `index`."""
        number, commands = int.from_bytes(result[:NUMBER_BYTES], "big"), self._record.commands()
        if number >= len(commands) or commands[number] != (index, command):
            self._accuse("A3", machine, f"answers with the result of command {number} at {index}, which is another")
            return
        self._check_copies(machine, self._record.ledger[index - 1])

    def _check_copies(self, machine: SimulatedMachine, known: LedgerEntry) -> None:
        entry = known.entry
        copies = copies_of(self._machines, entry, known.members)
        if not have_majorities(copies, known.members) and not self._record.may_be_lost(entry.index):
            self._accuse("A3", machine, f"acknowledges entry {entry.index}, durable only on {copies}")

    def on_delivered(self, machine: SimulatedMachine, delivered: Delivered) -> None:
        """A10: a subscriber at `machine` is given this."""
        process, last_index = self._delivered.get(machine.node_id, (0, NO_INDEX))
        if process != machine.process:
            last_index = NO_INDEX
        match delivered:
            case CommittedEntry(index=index):
                known = self._record.ledger[index - 1].entry if index <= self._record.committed_index else None
                is_same = known is not None and (known.term, known.base_offset, bytes(known.batch.data)) == (
                    delivered.term,
                    delivered.base_offset,
                    delivered.data,
                )
                if (index != last_index + 1 or not is_same) and not self._record.may_be_lost(index):
                    self._accuse(
                        "A10", machine, f"delivers entry {index} behind {last_index}, or another than was committed"
                    )
                last_index = index
            case ResetToSnapshot(position=position, offset=offset, applied=applied, snapshot=snapshot):
                self._check_left(machine, LogStart(position, offset, applied, snapshot), "resets a subscriber")
                last_index = position.index
            case LeaderChanged(leader=leader, term=term):
                if leader is not None and self._record.leaders.get(term) != leader:
                    self._accuse("A10", machine, f"says that n{leader} leads in term {term}, which it does not")
        self._delivered[machine.node_id] = machine.process, last_index

    def check_electability(self, machine: SimulatedMachine) -> None:
        """A4, after `machine` changed what is durable or what is committed."""
        committed = self._record.committed_position
        if not committed.index:
            return
        if self._record.may_be_lost(committed.index):
            return
        logs = [(other, other.held.promised_log()) for other in self._machines.values()]
        for other, log in logs:
            if log.holds(committed) or other.held.held_before is not None or other.held.vanished is not None:
                continue
            members = self._record.members_in(log.entries) if self._record.configurations else self._record.initial
            known = members.directory_ids
            votes = [
                node.node_id
                for node, voter in logs
                if not node.held.is_blank
                and voter.directory_id == known.get(node.node_id, 0) not in node.held.buried
                and as_recent(log.position, voter.position)
                and as_recent(log.position, node.held.held_before or node.held.guard or EMPTY)
            ]
            if have_majorities(votes, members):
                self._accuse("A4", machine, f"n{other.node_id} could be elected without entry {committed.index}")

    def on_restarted(self, machine: SimulatedMachine) -> None:
        """A5: what recovery made of the disk, the disk itself, and what the node left when it died must agree."""
        core = machine.core
        assert core is not None
        durable = machine.held.durable_log()
        if (core.term, core.vote) != (durable.term, durable.vote):
            found = f"its disk says {(durable.term, durable.vote)}"
            self._accuse("A5", machine, f"restarts with term and vote {(core.term, core.vote)}; {found}")
        if core.log.position != durable.position:
            self._accuse("A5", machine, f"restarts with a log to {core.log.position}; its disk has {durable.position}")
        start = core.log.start
        found_start = (start.position, start.offset, start.applied, start.snapshot)
        if found_start != (durable.start.position, durable.start.offset, durable.start.applied, durable.start.snapshot):
            said = f"its disk says {durable.start.position}"
            self._accuse("A5", machine, f"restarts with a log that begins behind {start.position}; {said}")
        self.check_start(machine)
        machine.entries = self._entries_on(machine, durable)
        self._check_members(machine)
        self._check_repair(machine)
        if machine.held.legacy is not None:
            self._check_legacy(machine, machine.held.legacy, durable)

    def _check_members(self, machine: SimulatedMachine) -> None:
        """The members are those of the last configuration in the log, or of a later one that is committed."""
        core, record = machine.core, self._record
        assert core is not None
        if core.directory_id != machine.held.durable_log().directory_id:
            self._accuse("A5", machine, f"restarts with the directory {core.directory_id}; its disk has another one")
        in_force, index = core.configuration, core.membership.last_index
        expected = record.members_in(machine.entries)
        if index > len(machine.entries):
            expected = record.members_in([known.entry for known in record.ledger[:index]])
        if in_force != expected:
            self._accuse("A5", machine, f"restarts with the members {in_force}; its log has {expected}")

    def _check_repair(self, machine: SimulatedMachine) -> None:
        """Only damage is repaired; and until it holds as much again, the node knows how much it held."""
        core, storage = machine.core, machine.storage
        assert core is not None
        assert storage is not None
        if storage.log.recovery.repaired is not None and not machine.held.came_up_spoilt:
            self._accuse("A5", machine, f"repairs a disk that has no damage: {storage.log.recovery.repaired}")
        held = machine.held.held_before
        if held is not None and not (as_recent(core.log.position, held) or as_recent(core.floor, held)):
            self._accuse("A5", machine, f"has forgotten that its log reached {held}; its floor is {core.floor}")

    def _entries_on(self, machine: SimulatedMachine, durable: DurableLog) -> list[Entry]:
        """The entries that the disk holds, as they were first written."""
        known = self._record.entries
        entries: list[Entry] = []
        for index, stored in enumerate(durable.entries, start=1):
            entry = known.get((LogIndex(index), stored.term))
            if entry is None or not durable.has(entry):
                self._accuse("A5", machine, f"its disk holds an entry {index} of term {stored.term} that none wrote")
                break
            entries.append(entry)
        return entries

    def _check_legacy(self, machine: SimulatedMachine, legacy: Legacy, durable: DurableLog) -> None:
        """Accuse a machine that lost durable data without a replacement, or written data in a plain kill."""
        before = legacy.durable
        if durable.term < before.term or (durable.term == before.term and before.vote not in (None, durable.vote)):
            lost = f"term and vote {(before.term, before.vote)} were durable"
            self._accuse("A5", machine, f"{lost}, {(durable.term, durable.vote)} came back")
        if durable.start.index < before.start.index:
            self._accuse("A5", machine, f"begins behind {durable.start.position}; {before.start.position} had left")
        if (
            machine.held.came_up_spoilt
            and machine.storage is not None
            and machine.storage.log.recovery.repaired is not None
        ):
            return  # what it held is guarded by its floor now
        for index, stored in enumerate(before.entries, start=1):
            kept = durable.entries[index - 1] if index <= len(durable.entries) else None
            was_replaced = index > len(legacy.entries) or legacy.entries[index - 1].term != stored.term
            if kept != stored and not was_replaced:
                self._accuse("A5", machine, f"entry {index} of term {stored.term} was durable and did not come back")
                return
        if legacy.complete and [(e.index, e.term) for e in legacy.entries] != [
            (e.index, e.term) for e in machine.entries
        ]:
            self._accuse("A5", machine, f"was killed with {len(legacy.entries)} entries, has {len(machine.entries)}")

    def on_end_shown(self, machine: SimulatedMachine, end_offset: int) -> None:
        """A6: a read is about to be shown that the committed log ends at `end_offset`, as this node knows it."""
        index, record = machine.commit_index, self._record
        if record.may_be_lost(index):
            return
        known = record.ledger[index - 1].entry.end_offset if index else 0
        if end_offset != known:
            self._accuse("A6", machine, f"shows a log to {end_offset}; up to entry {index} it ends at {known}")

    def on_read(self, machine: SimulatedMachine, request_id: int) -> None:
        """A6: a read has reached `machine`; its driver asks the core for all that have come with the next request."""
        self._new_reads.setdefault(machine.process, []).append(request_id)

    def on_stepped(self, machine: SimulatedMachine, event: Event, effects: Sequence[Effect]) -> None:
        """A6: a core is asked for reads, or confirms them."""
        if isinstance(event, ReadRequest):
            self._reads_asked[machine.process, event.token] = self._new_reads.pop(machine.process, [])
        for effect in effects if self._reads_asked else ():
            if isinstance(effect, ReadReady):
                for request_id in self._reads_asked.pop((machine.process, effect.token)):
                    self._confirmed[request_id] = effect.read_index

    def on_served(self, machine: SimulatedMachine, request_id: int, index: LogIndex) -> None:
        """A6: a read is about to be served, from a state that holds all up to `index`."""
        confirmed = self._confirmed.pop(request_id, None)
        if confirmed is None or index < confirmed:
            self._accuse("A6", machine, f"serves a read at {index}; its core has confirmed {confirmed or 'nothing'}")

    def on_readable(self, machine: SimulatedMachine, index: LogIndex, committed_when_asked: LogIndex) -> None:
        """A6: a read is about to be served, from a state that holds all up to `index`."""
        if index < committed_when_asked and not self._record.may_be_lost(committed_when_asked):
            self._accuse("A6", machine, f"reads at {index}; {committed_when_asked} was committed before it asked")
