"""Finds messages and history that an exhaustive search may leave out, because they can matter no more.

Leaving a message undelivered is always allowed, so a message is *spent*, and is taken out of the network, when
delivering it at any later moment would change nothing at its receiver and draw at most an answer that is spent as well.
Two bounds on all that can follow make that a question about the present state alone:

- The *floor* of a node: the term on its disk, or in its memory once no crash can take that away. A node's term never
  falls below its floor: terms only rise, disks get them in order, and a crash gives back what the disk has.
- The *ceiling*: no node will ever be in a higher term. A new term comes into being only where a pre-candidate becomes a
  candidate in its term + 1; each timeout left makes one pre-candidate, which becomes one candidate at most; every other
  change of term copies one that a node or a message has. So the largest of these plus the timeouts left never rises.
  A leader that hands over, asked to or because it leaves, makes one candidate more: at most one for each change of the
  scope, and one for each heartbeat, which asks again.

The proofs stand at the rules below. They use no more of the core than that older terms are ignored or refused and who
may become what. That is a promise of the core like any other, so a search does not take it on trust: it delivers each
spent message once, and the receiver must not change (`RaftExplorer._prove_spent`). A test compares the searches with
and without these rules, and `tests/mutants` shows that they hide none of its bugs. Three nodes with two timeouts have
3,550,751 states without them and 26,047 with them, in which nodes and disks are in the same 4,066 combinations.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, assert_never

from raft.core import RaftCore
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
from raft.model import NO_TERM, HardState, Term
from raft.roles import Candidate, Leader, PreCandidate


class NodeView(Protocol):
    """One node: its core, and the term and vote on its disk."""

    core: RaftCore
    hard_state: HardState


class Prospects(NamedTuple):
    """The events that may still come."""

    ceiling: Term
    timeouts: int
    crashes: int

    def floor(self, node: NodeView) -> Term:
        """The term below which `node` never falls."""
        return node.hard_state.term if self.crashes else node.core.term


def attainable_by(core: RaftCore) -> Term:
    """The highest term that this node can be in without another timeout or a message."""
    return Term(core.term + isinstance(core.role, PreCandidate))


def told_by(message: Message) -> Term:
    """The term that a receiver may copy from it, even if its sender lost it since; a mere question has none."""
    if isinstance(message, RequestPreVote | RequestStanding) or (isinstance(message, PreVoteReply) and message.granted):
        return NO_TERM
    return Term(message.term + 1) if isinstance(message, TimeoutNow) else message.term


def is_spent(message: Message, sender: NodeView, receiver: NodeView, prospects: Prospects) -> bool:
    """Returns True, and forever, if `message` can matter no more: floors never fall, ceiling and budgets never rise."""
    floor = prospects.floor(receiver)
    match message:
        case AppendAccepted(term=term) | AppendRejected(term=term) | SnapshotReceived(term=term):
            # Listened to in its own term by that term's leader. Only a candidate of a term becomes its leader, and no
            # node becomes a candidate of a term that it has reached.
            return floor > term or (floor == term and not isinstance(receiver.core.role, Leader | Candidate))
        case VoteReply(term=term, granted=granted):
            counts = granted and isinstance(receiver.core.role, Candidate)
            return floor > term or (floor == term and not counts)
        case PreVoteReply(term=term, granted=True):
            return _grant_is_void(receiver, term, prospects)
        case PreVoteReply(term=term):
            return floor >= term  # a refusal teaches a newer term, and does nothing else
        case RequestPreVote(term=term):
            # Changes nothing at the receiver; the answer is a grant or teaches a term not above the ceiling.
            return prospects.floor(sender) >= prospects.ceiling and _grant_is_void(sender, term, prospects)
        case RequestVote(term=term):
            # Refused, without a change at the receiver, once that is in a later term. (So it is once the vote of this
            # term is given away; but that is the rule whose breach the search looks for.)
            return floor > term and prospects.floor(sender) >= prospects.ceiling
        case AppendEntries(term=term) | InstallSnapshot(term=term):
            # Refused as being of an older term, both alike. The refusal is ignored below the ceiling, and in that term
            # by all but its leader, or the candidate who may become that.
            deaf = not isinstance(sender.core.role, Leader | Candidate)
            return floor > term and prospects.floor(sender) >= prospects.ceiling and deaf
        case RequestStanding() | StandingReply() | TimeoutNow():
            return False
        case _:
            assert_never(message)


def _grant_is_void(asker: NodeView, term: Term, prospects: Prospects) -> bool:
    """A granted pre-vote counts for a pre-candidate one term before; none goes back, only a timeout makes one."""
    if prospects.floor(asker) >= term:
        return True
    asks = isinstance(asker.core.role, PreCandidate) and asker.core.term == term - 1
    return not prospects.timeouts and not asks


def leaderships_that_matter(
    leaderships: Sequence[tuple[int, int]], nodes: Sequence[NodeView], prospects: Prospects
) -> tuple[tuple[int, int], ...]:
    """Of all (term, leader) so far, those whose term can still get a leader: a second one would be a violation.

    Only a candidate of a term becomes its leader, and no node becomes a candidate of a term that it has reached: when
    every floor is at or above a term that has no candidate now, it never gets a leader again.
    """
    lowest = min(prospects.floor(node) for node in nodes)
    campaigns = {node.core.term for node in nodes if isinstance(node.core.role, Candidate)}
    return tuple(leadership for leadership in leaderships if leadership[0] > lowest or leadership[0] in campaigns)
