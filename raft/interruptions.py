"""The rules for what interrupts a node: a connection that breaks, and its own standing still."""

from typing import TYPE_CHECKING, assert_never

from raft.model import LogIndex, NodeId
from raft.roles import Candidate, Follower, Leader, PreCandidate

if TYPE_CHECKING:
    from raft.core import RaftCore


def on_overslept(core: "RaftCore") -> None:
    """This node stood still, and maybe its whole machine did: what it has not received meanwhile proves nothing.

    A follower waits for one more timeout, and a leader for one more check; one each, so a late node acts.
    """
    match core.role:
        case Follower(deadline=deadline, was_spared=False) as follower if (
            len(core.configuration.nodes) > 1 and core.recall is None
        ):
            follower.deadline = max(deadline, core._election_deadline())
            follower.was_spared = True
        case Leader(was_spared=False) as leader:
            leader.quorum_check_due = max(leader.quorum_check_due, core._now + core.config.election_timeout_s_min)
            leader.was_spared = True
        case _:
            pass


def on_disconnected(core: "RaftCore", peer: NodeId) -> None:
    """The connection from or to this peer broke."""
    match core.role:
        case Leader(progress=progress):
            if peer in progress:
                progress[peer].reset(LogIndex(core.log.last_index + 1))
        case Follower(leader=leader) as follower:
            if peer == leader:
                # A closed connection is a sign that the leader has failed, so start an election soon and no longer
                # refuse votes for its sake. If it is alive, the nodes that still receive its heartbeats refuse the
                # pre-vote.
                core._leader_contact_at = None
                look_at = core._now + core._rng.uniform(0, 2 * core.config.heartbeat_s)
                follower.deadline = min(follower.deadline, look_at)
        case PreCandidate() | Candidate():
            pass
        case _:
            assert_never(core.role)
