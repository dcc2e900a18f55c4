"""The audits are not blind: each is shown one lie, told by hand, and must name it; and a truth, and must be silent.

A calm world is played first, so that there are disks, a ledger and a leader to lie about.
"""

import ast
import inspect
import random
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from jepsen_like.simulation.raft import audits, invariants
from jepsen_like.simulation.raft.durable import DurableLog, DurableStart
from jepsen_like.simulation.raft.holdings import LOG_DIRECTORY
from jepsen_like.simulation.raft.machine import BeforeStep, SimulatedMachine
from jepsen_like.simulation.raft.record import NUMBER_BYTES, Replica, commands_of
from jepsen_like.simulation.raft.rot import RotKind
from jepsen_like.simulation.raft.swarm import draw
from jepsen_like.simulation.raft.world import RaftWorld
from log.errors import CorruptLog, NoSpace, StorageFailed
from log.segmented_log import LOCK_NAME
from raft.core import RaftCore
from raft.effects import ReadReady
from raft.events import ReadRequest, Receive, Tick
from raft.membership import Configuration
from raft.messages import (
    AppendAccepted,
    AppendEntries,
    AppendRejected,
    InstallSnapshot,
    PreVoteReply,
    RequestPreVote,
    RequestVote,
    VoteReply,
)
from raft.model import (
    NO_INDEX,
    NO_POSITION,
    NO_TERM,
    NO_WRITE,
    Batch,
    Entry,
    EntryKind,
    LogIndex,
    LogStart,
    NodeId,
    Offset,
    Position,
    Term,
    Token,
)
from raft.roles import Candidate, Leader
from raft.subscription import CommittedEntry, LeaderChanged, ResetToSnapshot

pytestmark = pytest.mark.simulation


@pytest.fixture
def world() -> RaftWorld:
    """A world that has healed, converged and found nothing."""
    for seed in range(100, 200):
        knobs = draw(seed)
        if knobs.nodes == 3 and knobs.segment_bytes_max == 4096 and knobs.commands:
            world = RaftWorld(knobs, stop_at_first=False)
            world.run()
            assert not world.violations
            return world
    raise AssertionError("no such seed")


def leader_of(world: RaftWorld) -> SimulatedMachine:
    """The leader of the newest term."""
    machines = [machine for machine in world.machines.values() if machine.core]
    leaders = [machine for machine in machines if machine.core and isinstance(machine.core.role, Leader)]
    return max(leaders, key=lambda machine: machine.core.term if machine.core else 0)


def follower_of(world: RaftWorld) -> SimulatedMachine:
    """Any other node."""
    leader = leader_of(world)
    return next(machine for machine in world.machines.values() if machine is not leader)


def term_of(machine: SimulatedMachine) -> Term:
    assert machine.core is not None
    return machine.core.term


def entry_after(machine: SimulatedMachine, term: int, data: bytes = b"never written") -> Entry:
    """An entry that would come next."""
    last = machine.entries[-1]
    batch = Batch(EntryKind.RECORDS, 1, 0, data, 77)
    return Entry(LogIndex(last.index + 1), Term(term), last.end_offset, batch)


def vote_that_is_not_on_disk(world: RaftWorld) -> None:
    voter = follower_of(world)
    world.on_sent(voter, NodeId(1 + voter.node_id % 3), VoteReply(Term(term_of(voter) + 5), granted=True))


def candidacy_that_is_not_on_disk(world: RaftWorld) -> None:
    node = follower_of(world)
    world.on_sent(node, leader_of(world).node_id, RequestVote(Term(term_of(node) + 5), LogIndex(9), Term(1)))


def second_vote_in_a_term(world: RaftWorld) -> None:
    voter = follower_of(world)
    term = max(voter.held.durable_log().votes)
    other = next(node for node in world.machines if node not in (voter.node_id, voter.held.durable_log().votes[term]))
    world.on_sent(voter, other, VoteReply(term, granted=True))


def acceptance_beyond_the_disk(world: RaftWorld) -> None:
    node = follower_of(world)
    beyond = LogIndex(len(node.entries) + 1)
    world.on_sent(node, leader_of(world).node_id, AppendAccepted(term_of(node), beyond, beyond, 1))


def acceptance_of_what_the_leader_does_not_have(world: RaftWorld) -> None:
    node = follower_of(world)
    end = LogIndex(len(node.entries))
    log = world.record.leader_logs[term_of(leader_of(world))]
    log[end - 1] = attrs.evolve(log[end - 1], batch=attrs.evolve(log[end - 1].batch, crc=1))
    world.on_sent(node, leader_of(world).node_id, AppendAccepted(term_of(node), end, end, 1))


def acceptance_in_a_term_that_is_over(world: RaftWorld) -> None:
    node = follower_of(world)
    world.on_sent(node, leader_of(world).node_id, AppendAccepted(Term(term_of(node) - 1), NO_INDEX, NO_INDEX, 1))


def acknowledgement_of_what_one_disk_has(world: RaftWorld) -> None:
    leader = leader_of(world)
    entry = entry_after(leader, term_of(leader))
    leader.entries.append(entry)
    world.on_committed(leader, entry.index)


def last_records(world: RaftWorld) -> Entry:
    """The last committed entry with records."""
    return next(known.entry for known in reversed(world.record.ledger) if known.entry.batch.span)


def acknowledge(world: RaftWorld, entry: Entry, **other: Any) -> None:
    """Acknowledge all records of an entry, as the leader, but for what is different."""
    told: dict[str, Any] = {
        "data": entry.batch.data,
        "base_offset": entry.base_offset,
        "span": entry.batch.span,
        "term": entry.term,
    }
    world._audits.on_acknowledged(leader_of(world), **(told | other))


def acknowledgement_of_other_records(world: RaftWorld) -> None:
    acknowledge(world, last_records(world), data=b"never written")


def acknowledgement_of_more_than_there_is(world: RaftWorld) -> None:
    acknowledge(world, last_records(world), base_offset=1 << 40)


def acknowledgement_in_another_term(world: RaftWorld) -> None:
    acknowledge(world, last_records(world), term=99)


def result_of_another_command(world: RaftWorld) -> None:
    (index, _), (_, other) = world.record.commands()[:2]
    world._audits.on_command_done(leader_of(world), other, index, bytes(NUMBER_BYTES))


def result_of_a_command_of_another_place(world: RaftWorld) -> None:
    index, command = world.record.commands()[0]
    world._audits.on_command_done(leader_of(world), command, LogIndex(index + 1), bytes(NUMBER_BYTES))


def result_after_one_flush(world: RaftWorld) -> None:
    index, command = world.record.commands()[-1]
    for machine in world.machines.values():
        if machine is not leader_of(world):
            del machine.held.durable_log().entries[index - 1 :]
    number = len(world.record.commands()) - 1
    world._audits.on_command_done(leader_of(world), command, index, number.to_bytes(NUMBER_BYTES, "big"))


def second_answer(world: RaftWorld) -> None:
    leader = leader_of(world)
    world._audits.on_asked(leader, 1 << 40, 0.0)
    world._audits.on_answered(leader, 1 << 40)
    world._audits.on_answered(leader, 1 << 40)


def answer_of_another_life(world: RaftWorld) -> None:
    node = follower_of(world)
    world._audits.on_asked(node, 1 << 40, 0.0)
    node.kill()
    node.start()
    world._audits.on_answered(node, 1 << 40)


def request_that_is_never_answered(world: RaftWorld) -> None:
    world._audits.on_asked(leader_of(world), 1 << 40, world.now - 1)
    world._audits.check_owed(world.now)


def build_committed(entry: Entry) -> CommittedEntry:
    """Returns an entry in the form that a subscriber gets."""
    batch = entry.batch
    return CommittedEntry(
        entry.index, entry.term, batch.timestamp_ms, batch.kind, entry.base_offset, batch.span, bytes(batch.data)
    )


def delivery_with_a_gap(world: RaftWorld) -> None:
    node = follower_of(world)
    node.begin_life()
    for known in (world.record.ledger[0], world.record.ledger[2]):
        world.on_delivered(node, build_committed(known.entry))


def delivery_of_another_entry(world: RaftWorld) -> None:
    node = follower_of(world)
    node.begin_life()
    world.on_delivered(node, attrs.evolve(build_committed(world.record.ledger[0].entry), data=b"never written"))


def delivery_before_the_commit(world: RaftWorld) -> None:
    leader = leader_of(world)
    leader.begin_life()
    world._audits._delivered[leader.node_id] = leader.process, leader.entries[-1].index
    world.on_delivered(leader, build_committed(entry_after(leader, 1)))


def delivery_of_a_leader_that_never_led(world: RaftWorld) -> None:
    world.on_delivered(follower_of(world), LeaderChanged(NodeId(99), term_of(leader_of(world))))


def subscriber_reset_to_another_state(world: RaftWorld) -> None:
    start = true_start(world, 3, 5)
    world.on_delivered(follower_of(world), ResetToSnapshot(start.position, start.offset, start.applied, bytes(40)))


def commit_that_a_majority_could_unmake(world: RaftWorld) -> None:
    """One disk forgets all: with a vote from a second one that forgot, the committed log could be lost."""
    for machine in list(world.machines.values())[:2]:
        del machine.held.durable.entries[1:]
        machine.held.durable.position = attrs.evolve(machine.held.durable.position, index=LogIndex(1))
    world.on_synced(leader_of(world))


def restart_that_forgets_its_vote(world: RaftWorld) -> None:
    node = follower_of(world)
    node.kill()
    node.start()
    assert node.core is not None
    node.core.vote = None
    world.on_restarted(node)


def restart_that_lost_durable_entries(world: RaftWorld) -> None:
    node = follower_of(world)
    node.kill()
    assert node.held.legacy is not None
    extra = attrs.evolve(node.held.legacy.durable.entries[-1], crc=5)
    node.held.legacy.durable.entries.append(extra)
    node.held.legacy.entries.append(entry_after(node, extra.term))
    node.start()


def _damage_follower(world: RaftWorld) -> SimulatedMachine:
    """Damages and repairs a follower, so that it holds less than it did; returns it."""
    node = follower_of(world)
    node.kill()
    assert node.held.spoil(RotKind.LAST, random.Random(2))
    node.start()
    assert node.held.held_before is not None
    return node


def repair_of_a_sound_disk(world: RaftWorld) -> None:
    node = _damage_follower(world)
    node.held.came_up_spoilt = False
    world.on_restarted(node)


def second_repair_of_what_was_damaged_once(world: RaftWorld) -> None:
    node = _damage_follower(world)
    repaired = node.held.rot
    node.kill()
    assert node.held.spoil(RotKind.LAST, random.Random(2))
    node.held.rot = repaired
    node.start()


def damage_met_after_its_repair(world: RaftWorld) -> None:
    world.on_died(_damage_follower(world), CorruptLog("log/1", 0, "made up"))


def start_refused_after_the_repair(world: RaftWorld) -> None:
    node = _damage_follower(world)
    node.cut_power()
    world._on_refused(node, CorruptLog("log/1", 0, "made up"))


def restart_that_forgets_its_floor(world: RaftWorld) -> None:
    node = _damage_follower(world)
    assert node.core is not None
    node.core.floor = NO_POSITION
    world.on_restarted(node)


def candidacy_below_the_floor(world: RaftWorld) -> None:
    node = _damage_follower(world)
    last = node.entries[-1]
    world.on_sent(node, leader_of(world).node_id, RequestPreVote(Term(term_of(node) + 1), last.index, last.term))


def _blank(world: RaftWorld) -> SimulatedMachine:
    """A follower whose directory has vanished, and that no other has answered yet."""
    node = follower_of(world)
    node.kill()
    node.vanish()
    node.start()
    assert node.held.is_blank
    return node


def candidacy_without_memory(world: RaftWorld) -> None:
    world.on_sent(_blank(world), leader_of(world).node_id, RequestPreVote(Term(1), NO_INDEX, NO_TERM))


def vote_without_memory(world: RaftWorld) -> None:
    world.on_sent(_blank(world), leader_of(world).node_id, PreVoteReply(Term(9), granted=True))


def vote_for_less_than_the_floor(world: RaftWorld) -> None:
    node = _damage_follower(world)
    other = next(machine for machine in world.machines.values() if machine is not node)
    term = Term(term_of(node) + 1)
    world.on_sent(other, node.node_id, RequestPreVote(term, LogIndex(1), Term(1)))
    world.on_sent(node, other.node_id, PreVoteReply(term, granted=True))


def read_behind_what_was_committed(world: RaftWorld) -> None:
    world._audits.on_readable(leader_of(world), LogIndex(3), LogIndex(4))


def read_that_the_core_has_not_confirmed(world: RaftWorld) -> None:
    world._audits.on_served(leader_of(world), 1 << 40, LogIndex(3))


def read_before_its_index(world: RaftWorld) -> None:
    leader = leader_of(world)
    world._audits.on_read(leader, 1 << 40)
    world._audits.on_stepped(leader, ReadRequest(Token(9)), [ReadReady(Token(9), LogIndex(4))])
    world._audits.on_served(leader, 1 << 40, LogIndex(3))


def end_of_what_is_not_committed(world: RaftWorld) -> None:
    leader = leader_of(world)
    world._audits.on_end_shown(leader, leader.entries[-1].end_offset + 1)


def command_of_another_number(world: RaftWorld) -> None:
    index, command = world.record.commands()[0]
    world.on_command(follower_of(world), index, command)


def second_vote_that_is_on_disk(world: RaftWorld) -> None:
    voter = follower_of(world)
    votes = voter.held.durable_log().votes
    term = max(votes)
    votes[term] = next(node for node in world.machines if node not in (voter.node_id, votes[term]))
    world.on_sent(voter, votes[term], VoteReply(term, granted=True))


def acknowledgement_after_one_flush(world: RaftWorld) -> None:
    entry = last_records(world)
    for machine in world.machines.values():
        if machine is not leader_of(world):
            del machine.held.durable_log().entries[entry.index - 1 :]
    acknowledge(world, entry)


def acknowledgement_at_another_offset(world: RaftWorld) -> None:
    entry = last_records(world)
    acknowledge(world, entry, base_offset=entry.base_offset - 1)


def commit_after_one_flush(world: RaftWorld) -> None:
    leader = leader_of(world)
    leave_only_on(world, leader)
    world.record.ledger.pop()
    world.on_committed(leader, LogIndex(len(leader.entries)))


def leave_only_on(world: RaftWorld, machine: SimulatedMachine) -> None:
    """All other disks lose their last entry."""
    for other in world.machines.values():
        if other is not machine:
            other.held.durable_log().entries.pop()


def leader_that_counts_what_is_not_there(world: RaftWorld) -> None:
    leader = leader_of(world)
    assert leader.core is not None
    assert isinstance(leader.core.role, Leader)
    end, progress = LogIndex(len(leader.entries)), leader.core.role.progress
    peer = next(world.machines[node] for node, of_node in progress.items() if of_node.match_index == end)
    leave_only_on(world, leader)
    accepted = AppendAccepted(term_of(leader), end, end, 1)
    world.on_stepped(leader, as_it_was(leader), Receive(peer.node_id, accepted), ())


def leader_that_rewrites_its_log(world: RaftWorld) -> None:
    leader = leader_of(world)
    world.on_appended(leader, [leader.entries[-1]])


def entry_of_a_term_to_come(world: RaftWorld) -> None:
    node = follower_of(world)
    world.on_appended(node, [entry_after(node, term_of(node) + 1)])


def leader_that_few_have_voted_for(world: RaftWorld) -> None:
    leader = leader_of(world)
    for machine in world.machines.values():
        machine.held.durable_log().votes.pop(term_of(leader), None)
    world.on_decided(leader, as_it_was(leader)._replace(led=False))


def leader_that_is_gone_in_the_step_that_made_it(world: RaftWorld) -> None:
    leader, peer = leader_of(world), follower_of(world)
    assert leader.core is not None
    for machine in world.machines.values():
        machine.held.durable_log().votes.pop(term_of(leader), None)
    leader.core.role = Candidate(0.0, NO_WRITE, {leader.node_id})
    leader.traps.after_send = AppendEntries
    leader.receive(peer.node_id, VoteReply(term_of(leader), granted=True))
    assert not leader.up


def as_it_was(machine: SimulatedMachine) -> BeforeStep:
    """A step that changed nothing."""
    assert machine.core is not None
    core = machine.core
    return BeforeStep(core.term, core.vote, core.commit_index, isinstance(core.role, Leader))


NOTHING = Tick()


def term_that_fell(world: RaftWorld) -> None:
    node = follower_of(world)
    world.on_stepped(node, as_it_was(node)._replace(term=Term(term_of(node) + 1)), NOTHING, ())


def vote_that_moved(world: RaftWorld) -> None:
    node = follower_of(world)
    assert node.core is not None
    before = as_it_was(node)
    node.core.vote = NodeId(9)
    world.on_stepped(node, before._replace(vote=NodeId(8)), NOTHING, ())


def commit_that_fell(world: RaftWorld) -> None:
    node = follower_of(world)
    before = as_it_was(node)
    world.on_stepped(node, before._replace(commit_index=LogIndex(before.commit_index + 1)), NOTHING, ())


def view_that_is_not_the_log(world: RaftWorld) -> None:
    node = follower_of(world)
    node.entries.pop()
    world.on_stepped(node, as_it_was(node), NOTHING, ())


def pre_vote_that_moved_the_term(world: RaftWorld) -> None:
    node = follower_of(world)
    before = as_it_was(node)._replace(term=Term(term_of(node) - 1), vote=None)
    world.on_stepped(node, before, Receive(NodeId(1), RequestPreVote(Term(1), NO_INDEX, NO_TERM)), ())


def commit_beyond_the_log(world: RaftWorld) -> None:
    leader = leader_of(world)
    world.on_committed(leader, LogIndex(len(leader.entries) + 1))


def commit_of_another_entry(world: RaftWorld) -> None:
    leader = leader_of(world)
    known = world.record.ledger[-1]
    batch = attrs.evolve(known.entry.batch, crc=4)
    world.record.ledger[-1] = attrs.evolve(known, entry=attrs.evolve(known.entry, batch=batch))
    world.on_committed(leader, LogIndex(len(world.record.ledger)))


def restart_behind_its_disk(world: RaftWorld) -> None:
    node = follower_of(world)
    node.kill()
    node.start()
    node.held.durable_log().position = attrs.evolve(node.held.durable_log().position, term=Term(99))
    world.on_restarted(node)


def restart_with_what_none_wrote(world: RaftWorld) -> None:
    node = follower_of(world)
    world.record.entries.clear()
    node.kill()
    node.start()


def restart_with_an_older_term(world: RaftWorld) -> None:
    node = follower_of(world)
    node.kill()
    assert node.held.legacy is not None
    node.held.legacy.durable.term = Term(node.held.legacy.durable.term + 1)
    node.start()


def restart_after_a_kill_that_lost_the_page_cache(world: RaftWorld) -> None:
    node = follower_of(world)
    node.kill()
    assert node.held.legacy is not None
    node.held.legacy.entries.append(entry_after(node, 1))
    node.start()


def acceptance_of_a_term_its_disk_does_not_know(world: RaftWorld) -> None:
    node = follower_of(world)
    world.on_sent(node, leader_of(world).node_id, AppendAccepted(Term(term_of(node) + 1), NO_INDEX, NO_INDEX, 1))


def two_leaders_in_a_term(world: RaftWorld) -> None:
    leader = leader_of(world)
    world.record.leaders[term_of(leader)] = NodeId(99)
    world.on_decided(leader, BeforeStep(NO_TERM, None, NO_INDEX, False))


def one_place_two_contents(world: RaftWorld) -> None:
    leader = leader_of(world)
    world.on_appended(leader, [entry_after(leader, term_of(leader), b"one")])
    other = entry_after(leader, term_of(leader))
    world.on_appended(leader, [attrs.evolve(other, batch=attrs.evolve(other.batch, crc=78))])


def committed_entry_replaced(world: RaftWorld) -> None:
    node = follower_of(world)
    first = node.entries[0]
    world.on_appended(node, [attrs.evolve(first, batch=attrs.evolve(first.batch, crc=3))])


def leader_that_lacks_what_was_committed(world: RaftWorld) -> None:
    leader = leader_of(world)
    world.record.ledger[-1] = attrs.evolve(world.record.ledger[-1], leader_term=NO_TERM)
    leader.entries.pop()
    world.on_decided(leader, BeforeStep(NO_TERM, None, NO_INDEX, False))


def commit_by_count_of_an_older_term(world: RaftWorld) -> None:
    leader = leader_of(world)
    assert leader.core is not None
    leader.core.term = Term(leader.core.term + 1)
    leader.entries.append(entry_after(leader, leader.core.term - 1))
    world.on_committed(leader, LogIndex(len(leader.entries)))


def failure_of_a_disk_that_was_asked_for_none(world: RaftWorld) -> None:
    world.on_died(follower_of(world), StorageFailed("sync", "log/1", "made up"))


def full_disk_that_has_room(world: RaftWorld) -> None:
    world.on_died(follower_of(world), NoSpace("open", "log/1"))


def start_that_fails_on_a_sound_disk(world: RaftWorld) -> None:
    node = follower_of(world)
    node.kill()
    node.held.disk.lock(f"{LOG_DIRECTORY}/{LOCK_NAME}")
    world._restart(node, node.lives)


def true_start(world: RaftWorld, index: int, applied: int) -> LogStart:
    """Returns a start at which the log could truly begin."""
    entries = [known.entry for known in world.record.ledger[:applied]]
    last, replica = entries[index - 1], Replica(3)
    for entry in entries:
        for command in commands_of(entry):
            replica.apply(entry.index, command)
    position, reached = Position(last.index, last.term), Position(entries[-1].index, entries[-1].term)
    return LogStart(position, last.end_offset, reached, replica.snapshot())


def start_behind_what_is_not_committed(world: RaftWorld) -> None:
    start = true_start(world, 3, 3)
    beyond = attrs.evolve(start, position=Position(LogIndex(len(world.record.ledger) + 1), Term(1)))
    world.on_trimmed(follower_of(world), beyond)


def start_at_another_offset(world: RaftWorld) -> None:
    start = true_start(world, 3, 5)
    world.on_trimmed(follower_of(world), attrs.evolve(start, offset=Offset(start.offset + 1)))


def start_of_another_term(world: RaftWorld) -> None:
    start = true_start(world, 3, 5)
    world.on_trimmed(follower_of(world), attrs.evolve(start, position=Position(start.index, Term(99))))


def snapshot_of_another_moment(world: RaftWorld) -> None:
    index, _ = world.record.commands()[-1]
    start = attrs.evolve(true_start(world, 3, index), snapshot=true_start(world, 3, index - 1).snapshot)
    message = InstallSnapshot(Term(1), start, 1)
    world.on_sent(leader_of(world), follower_of(world).node_id, message)


def part_of_another_snapshot(world: RaftWorld) -> None:
    start = attrs.evolve(true_start(world, 3, 5), snapshot=b"another")
    world.on_sent(leader_of(world), follower_of(world).node_id, InstallSnapshot(Term(1), start, 1, bytes_left=9))


def snapshot_of_less_than_what_left(world: RaftWorld) -> None:
    applied = true_start(world, 3, 3)
    start = attrs.evolve(true_start(world, 5, 5), applied=applied.applied, snapshot=applied.snapshot)
    node = follower_of(world)
    node.held.durable_log().start = DurableStart(0, start.position, start.offset, start.applied, start.snapshot)
    world.on_synced(node)


def restart_that_begins_elsewhere(world: RaftWorld) -> None:
    node = follower_of(world)
    node.kill()
    node.start()
    node.held.durable_log().start = DurableStart(7, *attrs.astuple(true_start(world, 3, 3), recurse=False))
    world.on_restarted(node)


def restart_that_brings_back_what_had_left(world: RaftWorld) -> None:
    node = follower_of(world)
    node.kill()
    assert node.held.legacy is not None
    beyond = Position(LogIndex(len(node.entries)), Term(1))
    node.held.legacy.durable.start = DurableStart(7, beyond)
    node.start()


def command_applied_twice(world: RaftWorld) -> None:
    node = follower_of(world)
    node.apply_all()
    node.replica.apply(*world.record.commands()[-1])
    world.on_applied(node)


def command_skipped(world: RaftWorld) -> None:
    node = follower_of(world)
    node.apply_all()
    node.replica.restore(true_start(world, 3, world.record.commands()[-1][0] - 1).snapshot)
    node.replica.applied = len(world.record.commands())
    world.on_applied(node)


def members_entry(machine: SimulatedMachine, *voters: int) -> Entry:
    """An entry that would come next, with other voters."""
    batch = Configuration([NodeId(voter) for voter in voters]).to_batch()
    return attrs.evolve(entry_after(machine, term_of(machine)), batch=batch)


def change_before_an_entry_of_the_term(world: RaftWorld) -> None:
    leader = leader_of(world)
    assert leader.core is not None
    leader.core.term = Term(leader.core.term + 1)
    world.on_appended(leader, [members_entry(leader, 1, 2)])


def change_before_the_last_one_is_committed(world: RaftWorld) -> None:
    leader = leader_of(world)
    leader.entries.append(members_entry(leader, 1, 2))
    world.on_appended(leader, [members_entry(leader, 1, 2, 3)])


def change_of_two_voters_at_once(world: RaftWorld) -> None:
    leader = leader_of(world)
    world.on_appended(leader, [members_entry(leader, 1, 2, 3, 4, 5)])


def restart_with_another_directory(world: RaftWorld) -> None:
    node = follower_of(world)
    assert node.core is not None
    node.core.directory_id += 1
    world.on_restarted(node)


def restart_with_members_that_its_log_lacks(world: RaftWorld) -> None:
    node = follower_of(world)
    assert node.core is not None
    node.core.membership.append([members_entry(node, 1, 2)])
    world.on_restarted(node)


LIES: list[tuple[str, Callable[[RaftWorld], None]]] = [
    ("A1", vote_that_is_not_on_disk),
    ("A1", candidacy_that_is_not_on_disk),
    ("A1", second_vote_in_a_term),
    ("A2", acceptance_beyond_the_disk),
    ("A2", acceptance_of_what_the_leader_does_not_have),
    ("A2", acceptance_in_a_term_that_is_over),
    ("I9", acknowledgement_of_what_one_disk_has),
    ("A3", acknowledgement_of_other_records),
    ("A3", acknowledgement_of_more_than_there_is),
    ("A3", acknowledgement_in_another_term),
    ("A3", result_of_another_command),
    ("A3", result_of_a_command_of_another_place),
    ("A3", result_after_one_flush),
    ("A9", second_answer),
    ("A9", answer_of_another_life),
    ("A9", request_that_is_never_answered),
    ("A6", read_that_the_core_has_not_confirmed),
    ("A6", read_before_its_index),
    ("A6", end_of_what_is_not_committed),
    ("I11", command_of_another_number),
    ("A10", delivery_with_a_gap),
    ("A10", delivery_of_another_entry),
    ("A10", delivery_before_the_commit),
    ("A10", delivery_of_a_leader_that_never_led),
    ("A8", subscriber_reset_to_another_state),
    ("A4", commit_that_a_majority_could_unmake),
    ("A5", restart_that_forgets_its_vote),
    ("A5", restart_that_lost_durable_entries),
    ("A5", repair_of_a_sound_disk),
    ("A5", second_repair_of_what_was_damaged_once),
    ("A5", damage_met_after_its_repair),
    ("A5", start_refused_after_the_repair),
    ("A5", restart_that_forgets_its_floor),
    ("A6", read_behind_what_was_committed),
    ("A7", candidacy_below_the_floor),
    ("A7", vote_for_less_than_the_floor),
    ("I1", two_leaders_in_a_term),
    ("I2", one_place_two_contents),
    ("I3", leader_that_lacks_what_was_committed),
    ("I4", committed_entry_replaced),
    ("I6", commit_by_count_of_an_older_term),
    ("A1", second_vote_that_is_on_disk),
    ("A2", acceptance_of_a_term_its_disk_does_not_know),
    ("A3", acknowledgement_after_one_flush),
    ("A3", acknowledgement_at_another_offset),
    ("A5", restart_behind_its_disk),
    ("A5", restart_with_what_none_wrote),
    ("A5", restart_with_an_older_term),
    ("A5", restart_after_a_kill_that_lost_the_page_cache),
    ("I1", leader_that_few_have_voted_for),
    ("I1", leader_that_is_gone_in_the_step_that_made_it),
    ("I2", view_that_is_not_the_log),
    ("I4", commit_beyond_the_log),
    ("I4", commit_of_another_entry),
    ("I5", leader_that_rewrites_its_log),
    ("I7", entry_of_a_term_to_come),
    ("I7", term_that_fell),
    ("I7", vote_that_moved),
    ("I7", commit_that_fell),
    ("A7", candidacy_without_memory),
    ("A7", vote_without_memory),
    ("I8", leader_that_counts_what_is_not_there),
    ("I9", commit_after_one_flush),
    ("I10", pre_vote_that_moved_the_term),
    ("A5", restart_that_begins_elsewhere),
    ("A5", restart_that_brings_back_what_had_left),
    ("A8", start_behind_what_is_not_committed),
    ("A8", start_at_another_offset),
    ("A8", start_of_another_term),
    ("A8", snapshot_of_another_moment),
    ("A8", part_of_another_snapshot),
    ("A8", snapshot_of_less_than_what_left),
    ("I11", command_applied_twice),
    ("I11", command_skipped),
    ("A5", failure_of_a_disk_that_was_asked_for_none),
    ("A5", full_disk_that_has_room),
    ("A5", start_that_fails_on_a_sound_disk),
    ("I12", change_before_an_entry_of_the_term),
    ("I12", change_before_the_last_one_is_committed),
    ("I12", change_of_two_voters_at_once),
    ("A5", restart_with_another_directory),
    ("A5", restart_with_members_that_its_log_lacks),
]


@pytest.mark.parametrize(("oracle", "lie"), LIES, ids=lambda value: value if isinstance(value, str) else value.__name__)
def test_a_lie_is_caught(world: RaftWorld, oracle: str, lie: Callable[[RaftWorld], None]) -> None:
    lie(world)
    assert oracle in [violation.oracle for violation in world.violations]


ACCUSERS = (audits, invariants)


def test_every_accusation_is_made_by_some_lie(world: RaftWorld) -> None:
    """Each place that can accuse is reached, so that none of them can fall silent unnoticed."""
    places = {
        (module.__file__, node.lineno)
        for module in ACCUSERS
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "_accuse"
    }
    heard: set[tuple[str | None, int]] = set()

    def hear(oracle: str, machine: SimulatedMachine, sentence: str) -> None:
        caller = inspect.currentframe()
        assert caller is not None
        assert caller.f_back is not None
        heard.add((caller.f_back.f_code.co_filename, caller.f_back.f_lineno))

    for _, lie in LIES:
        again = RaftWorld(world.knobs, stop_at_first=False)
        again.run()
        again._audits._accuse = again._invariants._accuse = hear
        lie(again)
    silent = {place for place in places if place not in heard}
    assert not silent, sorted(f"{path}:{line}" for path, line in silent)


def test_a_disk_that_fails_or_is_full_as_asked_ends_its_node_without_blame(world: RaftWorld) -> None:
    node = follower_of(world)
    node.held.disk.fail_call(1)
    with pytest.raises(StorageFailed) as failed:
        node.held.disk.exists(LOG_DIRECTORY)
    world.on_died(node, failed.value)
    node.held.disk.capacity_bytes = 0
    world._start_failed(node, NoSpace("open", LOG_DIRECTORY))
    assert not world.violations


@pytest.fixture
def trimmed_world() -> RaftWorld:
    """A world that found nothing, and in which every log has lost its beginning."""
    for seed in range(300):
        if draw(seed).retention_bytes is not None:
            world = RaftWorld(draw(seed), stop_at_first=False)
            world.run()
            starts = [machine.held.durable_log().start.index for machine in world.machines.values()]
            if not world.violations and len(starts) > 2 and min(starts) > 10:
                return world
    raise AssertionError("no such seed")


def test_a_trimmed_disk_read_at_once_is_what_was_read_bit_by_bit(trimmed_world: RaftWorld) -> None:
    for machine in trimmed_world.machines.values():
        grown = machine.held.durable_log()
        afresh = DurableLog(LOG_DIRECTORY, trimmed_world.record.ledger)
        afresh.refresh(machine.held.disk)
        assert (afresh.entries, afresh.start) == (grown.entries, grown.start)
        assert (afresh.term, afresh.vote, afresh.position) == (grown.term, grown.vote, grown.position)
        assert len(afresh.entries) == len(machine.entries)


def test_what_left_a_disk_counts_only_if_its_end_is_the_committed_one(trimmed_world: RaftWorld) -> None:
    machine, ledger = leader_of(trimmed_world), list(trimmed_world.record.ledger)
    end = machine.held.durable_log().start.index
    first, last = ledger[0].entry, ledger[-1].entry
    batch = attrs.evolve(ledger[end - 1].entry.batch, span=77)
    for known, counts in (
        (ledger, True),
        (ledger[: end - 1], False),
        ([*ledger[: end - 1], attrs.evolve(ledger[end - 1], entry=attrs.evolve(first, batch=batch))], False),
    ):
        log = DurableLog(LOG_DIRECTORY, known)
        log.refresh(machine.held.disk)
        assert (log.has(first), log.has(last)) == (counts, True)


def test_a_trimmed_node_comes_back_as_it_was(trimmed_world: RaftWorld) -> None:
    for machine in trimmed_world.machines.values():
        index = machine.core.log.start.index if machine.core else 0
        machine.kill()
        machine.start()
        machine.cut_power()
        machine.start()
        assert machine.core is not None
        assert machine.core.log.start.index == index > 0
        assert machine.driver is not None
        assert machine.driver.applied_index == machine.core.log.start.applied.index
    assert not trimmed_world.violations


def test_the_truth_is_left_alone(world: RaftWorld) -> None:
    node, leader = follower_of(world), leader_of(world)
    start = true_start(world, 3, 5)
    world.on_trimmed(node, start)
    world.on_sent(leader, node.node_id, InstallSnapshot(term_of(leader), start, 1))
    node.apply_all()
    end = LogIndex(len(node.entries))
    world.on_sent(node, leader.node_id, AppendAccepted(term_of(node), end, end, 1))
    voted_in = max(node.held.durable_log().votes)
    if node.held.durable_log().votes[voted_in] != node.node_id:
        world.on_sent(node, node.held.durable_log().votes[voted_in], VoteReply(voted_in, granted=True))
    node.kill()
    node.start()
    node.cut_power()
    node.start()
    assert not world.violations


def test_a_leader_that_meets_every_answer_with_another_message_is_a_storm(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = RaftCore._on_append_reply

    def restless(core: RaftCore, sender: NodeId, reply: AppendAccepted | AppendRejected) -> None:
        sound(core, sender, reply)
        if isinstance(core.role, Leader):
            core._heartbeat(core.role)

    knobs = draw(0)
    assert not RaftWorld(knobs).run().violations
    monkeypatch.setattr(RaftCore, "_on_append_reply", restless)
    world = RaftWorld(knobs)
    (violation,) = world.run().violations
    assert violation.oracle == "V-storm"
    assert world.steps == 10_000 + 40 * world.requests + 1
