"""The oracles have a rule of their own for which of two logs is the more recent, and name nodes that follow another."""

import itertools

import attrs
import pytest

from jepsen_like.simulation.raft.durable import DurableLog, Flip
from jepsen_like.simulation.raft.explorer import RaftExplorer
from jepsen_like.simulation.raft.record import as_recent
from jepsen_like.simulation.raft.rot import Rot
from jepsen_like.simulation.raft.scope import Scope
from jepsen_like.simulation.raft.swarm import CALM
from jepsen_like.simulation.raft.world import RaftWorld
from raft.messages import PreVoteReply, RequestPreVote
from raft.model import LogIndex, NodeId, Position, Term

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize(
    ("index", "term", "other_index", "other_term", "holds"),
    [
        pytest.param(3, 2, 3, 2, True, id="the same end"),
        pytest.param(4, 2, 3, 2, True, id="longer in the same term"),
        pytest.param(2, 2, 3, 2, False, id="shorter in the same term"),
        pytest.param(1, 3, 9, 2, True, id="shorter, of a later term"),
        pytest.param(9, 2, 1, 3, False, id="longer, of an earlier term"),
        pytest.param(0, 0, 0, 0, True, id="both empty"),
    ],
)
def test_the_later_term_counts_first_and_then_the_length(
    index: int, term: int, other_index: int, other_term: int, holds: bool
) -> None:
    assert as_recent(at(index, term), at(other_index, other_term)) is holds


def test_of_two_different_logs_exactly_one_is_the_more_recent() -> None:
    positions = [at(index, term) for index in range(4) for term in range(4)]
    for one, other in itertools.combinations(positions, 2):
        assert as_recent(one, other) is not as_recent(other, one)


@pytest.fixture
def product_compares_lengths_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake in the rule of the product, which the core follows, and so would all that asks it."""

    def longer(position: Position, other: Position) -> bool:
        return (position.index, position.term) >= (other.index, other.term)

    monkeypatch.setattr(Position, "up_to_date_with", longer)


@pytest.mark.usefixtures("product_compares_lengths_first")
def test_the_search_finds_a_leader_that_only_the_mistaken_rule_admits() -> None:
    scope = Scope(timeouts=1, entries=0, crashes=0, damages=1, logs=((1, 1, 1), (2,), (2,)))
    explored = RaftExplorer(scope).explore(states_max=50_000)
    assert explored.found is not None
    assert explored.found.sentence == "leader completeness: n1 leads in term 3 without the committed 1@2"


@pytest.mark.usefixtures("product_compares_lengths_first")
def test_an_audit_names_a_vote_that_only_the_mistaken_rule_allows() -> None:
    world = RaftWorld(attrs.evolve(CALM, safety_s=1.0), stop_at_first=False)
    world.run()
    voter, candidate = world.machines[NodeId(1)], world.machines[NodeId(2)]
    held = DurableLog("log", position=at(1, 2))
    voter.held.rot = Rot(Flip("log/1", 0), found=True, held=held)
    asks = RequestPreVote(Term(9), LogIndex(3), Term(1))
    world.on_sent(candidate, voter.node_id, asks)
    world.on_sent(voter, candidate.node_id, PreVoteReply(Term(9), granted=True))
    assert [violation.oracle for violation in world.violations] == ["A7"]


def at(index: int, term: int) -> Position:
    return Position(LogIndex(index), Term(term))
