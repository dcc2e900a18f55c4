"""Messages that no correct peer can have sent: what a node holds against them before it looks at their content.

A peer has proved who it is, and may be broken all the same. `docs/security.md` lists what it may claim. Each rule here
costs a message of normal traffic a comparison or two, and none asks the disk.
"""

from typing import TYPE_CHECKING, assert_never

from raft.messages import (
    AppendAccepted,
    AppendEntries,
    AppendRejected,
    InstallSnapshot,
    Message,
    PreVoteReply,
    RequestPreVote,
    RequestStanding,
    RequestVote,
    SnapshotReceived,
    StandingReply,
    TimeoutNow,
    VoteReply,
)
from raft.model import NO_INDEX, NO_TERM, LogIndex, NodeId, Term
from raft.roles import Follower, Leader

if TYPE_CHECKING:
    from raft.core import RaftCore

TERM_STEP_MAX = 2**20
"""The furthest that one message moves the term: six days of elections without a pause, at one every half a second.

Terms end at 2^62 on the wire. If any term were taken over, one message could leave the group no term to elect in. A
node that is further behind than one step, after years or because the others got such a message, takes one step with
each message. Refusing them would keep it out of its group: a term that was taken over can never be taken back.
"""
TERM_MAX = 2**61
"""No correct node gets here: at one election every ten milliseconds it takes 700 million years.

The other half of the terms that the wire carries is never used. To move a group up to here takes 2^41 messages of one
step each, and each waits for the disk.
"""
INDEX_MAX = 2**61
"""No log gets here, and no count of its records; as with terms, the rest of the wire's numbers stays unused."""


def objection_to(core: "RaftCore", sender: NodeId, message: Message) -> str | None:
    """Returns why no correct peer can have sent `message` to this node, or None if one may have."""
    if _is_next(core, sender, message):
        return None
    if message.term > TERM_MAX:
        return f"no correct node can have reached term {message.term}; this one is in term {core.term}"
    match message:
        case AppendEntries():
            return _objection_to_leader(core, sender, message) or _objection_to_append(core, sender, message)
        case AppendAccepted() | AppendRejected() | SnapshotReceived():
            return _objection_to_answer(core, message)
        case InstallSnapshot():
            return _objection_to_leader(core, sender, message) or _objection_to_snapshot(core, sender, message)
        case RequestVote() | RequestPreVote():
            return _objection_to_candidate(message)
        case TimeoutNow():
            return _objection_to_leader(core, sender, message)
        case PreVoteReply() | VoteReply() | RequestStanding() | StandingReply():
            return None
        case _:
            assert_never(message)


def _is_next(core: "RaftCore", sender: NodeId, message: Message) -> bool:
    """Returns True for most messages, quickly: what follows the log of a follower, and answers about what was sent."""
    if message.term != core.term:
        return False
    role, log = core.role, core.log
    if type(message) is AppendEntries:
        entries = message.entries
        return (
            type(role) is Follower
            and role.leader == sender
            and message.prev_index == log.last_index < INDEX_MAX - len(entries)
            and message.prev_term == log.last_term
            and not (entries and entries[0].base_offset != log.end_offset)
        )
    return (
        type(message) is AppendAccepted
        and type(role) is Leader
        and message.round <= role.round
        and message.match_index <= log.last_index >= message.verified_index
    )


def _objection_to_leader(
    core: "RaftCore", sender: NodeId, message: AppendEntries | InstallSnapshot | TimeoutNow
) -> str | None:
    """A term has one leader (section 5.2), and the first term is 1."""
    if message.term > core.term:
        return None
    if message.term == NO_TERM:
        return "no node leads in term 0"
    if message.term == core.term and (leader := core.leader) is not None and leader != sender:
        return f"node {leader} leads in term {core.term}, and node {sender} says that it does"
    return None


def _objection_to_candidate(request: RequestVote | RequestPreVote) -> str | None:
    """A candidate's term is above that of its last entry."""
    if request.last_term >= request.term or (request.last_index == NO_INDEX) != (request.last_term == NO_TERM):
        return (
            f"no candidate of term {request.term} has a log that ends at index {request.last_index} "
            f"with term {request.last_term}"
        )
    return None


def _settled_index(core: "RaftCore", sender: NodeId, term: Term) -> LogIndex:
    """Returns up to where the log of a leader of `term` must equal this one: what is committed, and what it has sent."""
    role = core.role
    if term == core.term and isinstance(role, Follower) and role.leader == sender:
        return max(core.commit_index, role.verified_index)
    return core.commit_index


def _objection_to_append(core: "RaftCore", sender: NodeId, request: AppendEntries) -> str | None:
    if request.term < core.term:
        return None  # of an older leader, which learns the newer term from the answer
    log, entries, prev_index = core.log, request.entries, request.prev_index
    if prev_index + len(entries) > INDEX_MAX:
        return f"no log has {INDEX_MAX} entries"
    settled = _settled_index(core, sender, request.term)
    if prev_index > log.last_index:
        return None
    if not log.matches(prev_index, request.prev_term):
        return _contradiction(prev_index, request.prev_term, settled) if prev_index <= settled else None
    if prev_index < settled and (wrong := log.missing_from(entries[: settled - prev_index])):
        return _contradiction(wrong[0].index, wrong[0].term, settled)
    if not entries:
        return None
    missing = entries if prev_index == log.last_index else log.missing_from(entries)
    if missing and (due := log.offset_before(missing[0].index)) not in (None, missing[0].base_offset):
        return f"the entry at index {missing[0].index} begins at offset {due}, not at {missing[0].base_offset}"
    return None


def _contradiction(index: int, term: int, settled: int) -> str:
    return (
        f"entry {index} cannot be of term {term}: this node knows {settled} to be committed, or to be of this leader "
        "(P5). If a power cut took it where flush is interval or none, restart this node"
    )


def _objection_to_answer(core: "RaftCore", reply: AppendAccepted | AppendRejected | SnapshotReceived) -> str | None:
    """Answers echo what this leader has sent, so none is ahead of it."""
    leader = core.role
    if reply.term != core.term or not isinstance(leader, Leader):
        return None
    if reply.round > leader.round:
        return f"an answer to round {reply.round}, and this leader is at {leader.round}"
    last_index = core.log.last_index
    match reply:
        case AppendAccepted(match_index=match_index, verified_index=verified_index):
            claimed = max(match_index, verified_index)
        case AppendRejected(prev_index=prev_index, hint_index=hint_index, round=answered_round):
            if hint_index > prev_index:
                return f"a refusal of index {prev_index} points ahead, to {hint_index}"
            claimed = prev_index if answered_round else NO_INDEX  # in round 0 it may be of an older leadership
        case SnapshotReceived(start_index=start_index):
            claimed, last_index = start_index, core.log.start.index
        case _:
            assert_never(reply)
    if claimed > last_index:
        return f"an answer about index {claimed}, and this leader has sent up to {last_index}"
    return None


def _objection_to_snapshot(core: "RaftCore", sender: NodeId, request: InstallSnapshot) -> str | None:
    start = request.start
    if not core._takes_snapshots and core.log.start.index == NO_INDEX:
        return (
            f"a log that begins behind index {start.index} cannot be: by the settings of this node nothing leaves a log. "
            "If the other nodes run with retention_bytes or retention_s, or did so before, set one of them here, too"
        )
    if request.term < core.term:
        return None  # of an older leader, which learns the newer term from the answer
    if max(start.index, start.applied.index, start.offset) > INDEX_MAX:
        return f"no log has {INDEX_MAX} entries or records"
    settled = _settled_index(core, sender, request.term)
    if start.index <= settled:
        # Not needed any more, but it may have been on its way for long; then it agrees with what is settled here.
        is_possible = core.log.matches(start.index, start.position.term)
    else:
        is_possible = start.position.term >= core.log.term_at(settled)  # terms never fall along a log
    return None if is_possible else _contradiction(start.index, start.position.term, settled)
