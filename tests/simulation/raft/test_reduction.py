"""A message that an exhaustive search leaves out is delivered all the same, once, and must change nothing.

The reduction drops messages because old terms are ignored, which is a rule of the core like any other: a core that breaks it
must be found by the search that believes in it.
"""

import attrs
import pytest

from jepsen_like.simulation.raft import explorer
from jepsen_like.simulation.raft.explorer import RaftExplorer
from jepsen_like.simulation.raft.reduction import NodeView, Prospects, is_spent
from jepsen_like.simulation.raft.scope import PARTED, Scope
from raft.core import RaftCore
from raft.messages import AppendAccepted, AppendEntries, AppendRejected, Message, PreVoteReply, RequestVote, VoteReply
from raft.model import NodeId
from raft.roles import Candidate, Leader

pytestmark = pytest.mark.simulation

NOTHING = ((), (), ())
TWO_TIMEOUTS = Scope(timeouts=2, entries=0, crashes=0, logs=NOTHING)
SMALL = Scope(timeouts=1, logs=NOTHING)


class CountsVotesOfOlderTerms(RaftCore):
    """A vote that arrives late counts for the term that its candidate has gone on to."""

    def _on_vote_reply(self, sender: NodeId, reply: VoteReply) -> None:
        if reply.granted and reply.term < self.term and isinstance(self.role, Candidate):
            reply = attrs.evolve(reply, term=self.term)
        super()._on_vote_reply(sender, reply)


class FollowsOlderLeaders(RaftCore):
    """Takes entries of a leader whose term is over."""

    def _on_append_entries(self, sender: NodeId, request: AppendEntries) -> None:
        if request.term < self.term and not isinstance(self.role, Leader):
            request = attrs.evolve(request, term=self.term)
        super()._on_append_entries(sender, request)


class Trusting(RaftExplorer):
    """Takes it on trust that what is left out changes nothing."""

    def _prove_spent(self, posted: int, sender: int, receiver: int, prospects: Prospects) -> None:
        pass


@pytest.mark.parametrize("bug", [CountsVotesOfOlderTerms, FollowsOlderLeaders])
def test_a_core_that_does_not_ignore_older_terms_is_found(bug: type[RaftCore]) -> None:
    explored = RaftExplorer(TWO_TIMEOUTS, make_core=bug).explore()
    assert explored.found is not None
    assert explored.found.sentence.startswith("reduction: deliver ")
    assert explored.found.sentence.endswith("was left out, and changes its receiver")


@pytest.mark.campaign
def test_a_search_that_trusts_its_own_rule_would_miss_that() -> None:
    explored = Trusting(TWO_TIMEOUTS, make_core=CountsVotesOfOlderTerms).explore()
    assert (explored.exhausted, explored.found) == (True, None)


@pytest.mark.parametrize(
    "kind",
    [VoteReply, PreVoteReply, RequestVote, AppendEntries, AppendAccepted, AppendRejected],
    ids=lambda kind: kind.__name__,
)
def test_a_reduction_that_drops_what_matters_is_found(kind: type[Message], monkeypatch: pytest.MonkeyPatch) -> None:
    def eager(message: Message, sender: NodeView, receiver: NodeView, prospects: Prospects) -> bool:
        return isinstance(message, kind) or is_spent(message, sender, receiver, prospects)

    monkeypatch.setattr(explorer, "is_spent", eager)
    explored = RaftExplorer(Scope(timeouts=1, entries=0, crashes=0, logs=PARTED)).explore()
    assert explored.found is not None
    assert explored.found.sentence.startswith("reduction: deliver ")


class Counting(RaftExplorer):
    """Counts what is delivered though it is left out."""

    proofs = 0

    def _prove_spent(self, posted: int, sender: int, receiver: int, prospects: Prospects) -> None:
        self.proofs += 1
        super()._prove_spent(posted, sender, receiver, prospects)


@pytest.mark.parametrize("scope", [SMALL, pytest.param(TWO_TIMEOUTS, marks=pytest.mark.campaign)], ids=str)
def test_everything_that_is_left_out_is_delivered_once(scope: Scope) -> None:
    search = Counting(scope)
    explored = search.explore()
    assert (explored.exhausted, explored.found) == (True, None)
    assert search.proofs == sum(search._spent.values()) > 300
