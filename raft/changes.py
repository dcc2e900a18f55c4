"""Changes of the members, and of the leader, as the leader carries them out (dissertation chapter 4, section 3.10).

- No change before an entry of the leader's own term is committed: before that an earlier leader's configuration may
  still be there that the leader does not know of, and the two may have disjoint majorities (Ongaro's correction of 2015).
- One uncommitted configuration at a time, so that all that are in force anywhere are adjacent ones.
- No change to voters of which too few answer: it could not be committed, nor undone.
- A node is promoted when it keeps up: it has been sent all that is committed, and lacks a window at most.
- When a joint configuration is committed, its end is appended, by the node that leads then.
- Nodes that leave get entries until the configuration without them is committed, so that they learn of it. A leader
  that leaves leads until then; then it steps down, and asks the one who holds most to campaign at once.
- To hand over, a leader takes no proposals until its target has the whole log, and has asked it to campaign. It gives up
  after an election timeout.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from raft.effects import Answer, Committed, HandedOver, Refusal, Rejected, Send, Unknown
from raft.membership import AddLearner, Change, Configuration, InvalidConfiguration, make_change, without_outgoing
from raft.messages import RequestVote, TimeoutNow
from raft.model import FIRST_OFFSET, NO_INDEX, Entry, LogIndex, NodeId, Token, entry_bytes
from raft.progress import Progress
from raft.quorum import is_quorum
from raft.roles import Follower, Group, Leader, Pending, Transfer

if TYPE_CHECKING:
    from raft.core import RaftCore


def on_change(core: "RaftCore", token: Token, change: Change) -> None:
    """Append the configuration that `change` makes, or refuse."""
    leader = core.role
    if not isinstance(leader, Leader):
        _refuse(core, token, Refusal.NOT_LEADER)
        return
    if not _may_change(core, leader):
        _refuse(core, token, Refusal.CHANGING)
        return
    present = core.configuration
    directories = {node: progress.directory_id for node, progress in leader.progress.items()}
    try:
        configuration = make_change(present, change, directories)
    except InvalidConfiguration as error:
        _refuse(core, token, Refusal.INVALID, str(error))
        return
    if configuration == present:
        known = core.membership.known[-1]
        core._effects.append(Answer(token, Committed(known.index, known.term, FIRST_OFFSET)))
    elif not all(_keeps_up(core, leader, node) for node in sorted(configuration.voters - present.voters)):
        _refuse(core, token, Refusal.LAGGING)
    elif not _is_answered(core, leader, configuration):
        _refuse(core, token, Refusal.SILENT)
    else:
        _append(core, leader, configuration, token)


def _may_change(core: "RaftCore", leader: Leader) -> bool:
    has_committed = leader.first_index <= core.commit_index
    return has_committed and not core.membership.is_moving and leader.transfer is None


def _keeps_up(core: "RaftCore", leader: Leader, node: NodeId) -> bool:
    progress = leader.progress.get(node)
    return progress is not None and not progress.probing and progress.next_index > core.commit_index


def _is_answered(core: "RaftCore", leader: Leader, configuration: Configuration) -> bool:
    """Returns True if a majority of each of its groups has answered lately, with the directories that count."""
    since = core._now - core.config.election_timeout_s_max
    answering = {
        node
        for node, progress in leader.progress.items()
        if progress.contact_at >= since and configuration.counts(node, progress.directory_id)
    }
    return is_quorum(answering | {core.node_id}, configuration.groups)


def _refuse(core: "RaftCore", token: Token, reason: Refusal, detail: str = "") -> None:
    core._effects.append(Answer(token, Rejected(reason, core.leader, detail)))


def _append(core: "RaftCore", leader: Leader, configuration: Configuration, token: Token | None) -> None:
    """The configuration is in force as soon as its entry is in this log: its first message goes to its nodes."""
    log, batch = core.log, configuration.to_batch()
    entry = Entry(LogIndex(log.last_index + 1), core.term, log.end_offset, batch)
    if not configuration.is_joint and token is not None:
        leader.pending.append(Pending(entry.index, token, log.end_offset, entry_bytes(batch)))
        leader.pending_bytes += entry_bytes(batch)
    else:
        leader.joint_token = token
    core.membership.append((entry,))
    core._persist(hard_state=core.hard_state())
    core.adopt()
    core._append_own(leader, batch)
    core._confirm_reads(leader)  # the answers that are there may be enough now, and no other may come


def adopt(core: "RaftCore", leader: Leader) -> None:
    """The configuration in force is another one: replicate to its nodes, and count its voters."""
    configuration = core.configuration
    for node in configuration.others(core.node_id):
        if node not in leader.progress:
            directory_id = configuration.directory_ids.get(node, 0)
            next_index = LogIndex(core.log.last_index + 1)
            leader.progress[node] = Progress(next_index, contact_at=core._now, directory_id=directory_id)
    regroup(core, leader)


def regroup(core: "RaftCore", leader: Leader) -> None:
    """Choose whose answers count: those of the voters, from the directories with which they became voters."""
    configuration, progress = core.configuration, leader.progress
    groups: list[Group] = []
    for group in configuration.groups:
        peers = [node for node in sorted(group) if node != core.node_id]
        others = [progress[node] for node in peers if configuration.counts(node, progress[node].directory_id)]
        has_self = core.node_id in group and configuration.counts(core.node_id, core.directory_id)
        groups.append(Group(tuple(others), has_self, len(group) - len(others) - has_self))
    leader.groups = tuple(groups)


def note_directory(core: "RaftCore", leader: Leader, peer: NodeId, directory_id: int) -> None:
    """A peer answers from another directory than before: nothing is known of that one's log."""
    progress = leader.progress[peer]
    progress.directory_id = directory_id
    progress.reset(LogIndex(core.log.last_index + 1))
    progress.acked_round = progress.accepted_round = 0
    regroup(core, leader)
    _demote_forgotten(core, leader)


def _demote_forgotten(core: "RaftCore", leader: Leader) -> None:
    """Make a learner of a voter that has lost its directory: the group must not wait for what it does not count.

    Each heartbeat tries again, since a leader learns of it before it may change the members.
    """
    present = core.configuration
    for peer, progress in leader.progress.items():
        if peer in present.voters and not present.counts(peer, progress.directory_id) and _may_change(core, leader):
            _append(core, leader, make_change(present, AddLearner(peer), {}), None)
            return


def on_settled(core: "RaftCore", leader: Leader) -> None:
    """An entry is committed while the configuration is not quiet: end what can be ended."""
    membership, configuration = core.membership, core.configuration
    if not membership.is_settled:
        return
    if configuration.is_joint:
        token, leader.joint_token = leader.joint_token, None
        _append(core, leader, without_outgoing(configuration), token)
        return
    for peer in [peer for peer in leader.progress if peer not in configuration.nodes]:
        core._send_entries(leader, peer, anchor_of(core, leader.progress[peer]))
        del leader.progress[peer]
    if not configuration.counts(core.node_id, core.directory_id):
        successor = max(configuration.peers(core.node_id), key=lambda node: leader.progress[node].match_index)
        core._effects.append(Send(successor, TimeoutNow(core.term)))
        core._become_follower(core.term, leader=None)


def anchor_of(core: "RaftCore", progress: Progress) -> LogIndex:
    """Returns the index at which a heartbeat asks: where the follower is known to match, so no disk delays its answer."""
    return progress.match_index if progress.match_index >= core.log.start.index else NO_INDEX


def append_as_follower(core: "RaftCore", entries: Sequence[Entry]) -> None:
    """Append what changes the configuration in force.

    A configuration is durable before the log has its entry, and one that is replaced until the log has it no more.
    """
    replaced = core.membership.append(entries)
    core._persist(hard_state=core.hard_state(replaced))
    core._put(entries)
    if replaced:
        core._persist(hard_state=core.hard_state())
    core.adopt()


# -------------------------------------------------------------------- leadership transfer


def is_disruptive(core: "RaftCore", request: RequestVote) -> bool:
    """Returns True if this node trusts a leader and has no reason to believe that it hands over.

    The target of a transfer has all that its leader has. A removed or broken node that only claims to be one, with less,
    moves no term (section 4.2.3).
    """
    is_transfer = request.is_transfer and core._may_lead(request.last_index, request.last_term)
    return core._trusts_a_leader() and not is_transfer


def on_timeout_now(core: "RaftCore", sender: NodeId, message: TimeoutNow) -> None:
    """Campaign at once: the leader has asked for it, so no pre-vote is needed."""
    role = core.role
    if message.term == core.term and isinstance(role, Follower) and role.leader == sender and core.may_campaign():
        core._leader_contact_at = None
        core._become_candidate(is_transfer=True)


def on_transfer(core: "RaftCore", token: Token, target: NodeId) -> None:
    """Begin to hand over to `target`, or refuse."""
    leader = core.role
    if not isinstance(leader, Leader):
        _refuse(core, token, Refusal.NOT_LEADER)
    elif target == core.node_id:
        core._effects.append(Answer(token, HandedOver(target)))
    elif leader.transfer is not None:
        _refuse(core, token, Refusal.BUSY)
    elif target not in leader.progress or not core.configuration.counts(target, leader.progress[target].directory_id):
        _refuse(core, token, Refusal.INVALID, f"node {target} is no voter")
    elif not _keeps_up(core, leader, target):
        _refuse(core, token, Refusal.LAGGING)
    else:
        leader.transfer = Transfer(token, target, core._now + core.config.election_timeout_s_min)
        hand_over(core, leader, leader.transfer)


def hand_over(core: "RaftCore", leader: Leader, transfer: Transfer) -> None:
    """Have the target campaign once it has all that this leader has."""
    progress = leader.progress.get(transfer.target)
    if not transfer.was_sent and progress is not None and progress.match_index == core.log.last_index:
        transfer.was_sent = True
        core._effects.append(Send(transfer.target, TimeoutNow(core.term)))


def on_heartbeat(core: "RaftCore", leader: Leader) -> None:
    """Try again what is still to be done: exclude voters that have forgotten, and hand over."""
    if any(group.silent for group in leader.groups):
        _demote_forgotten(core, leader)
    if leader.transfer is not None:
        _hand_over_again(core, leader, leader.transfer)


def _hand_over_again(core: "RaftCore", leader: Leader, transfer: Transfer) -> None:
    """Ask again, for the message may have been lost; or give up, and take proposals again."""
    if core._now >= transfer.until:
        leader.transfer = None
        core._effects.append(Answer(transfer.token, Unknown(NO_INDEX, core.node_id)))
    else:
        transfer.was_sent = False
        hand_over(core, leader, transfer)


def end(core: "RaftCore", leader: Leader, successor: NodeId | None, *, is_replaced: bool) -> None:
    """The leadership has ended; `is_replaced` by a newer term."""
    transfer = leader.transfer
    if transfer is not None:
        was_done = is_replaced and transfer.was_sent
        outcome = HandedOver(transfer.target) if was_done else Unknown(NO_INDEX, successor)
        core._effects.append(Answer(transfer.token, outcome))
    if leader.joint_token is not None:
        core._effects.append(Answer(leader.joint_token, Unknown(core.membership.last_index, successor)))
