"""The exhaustive search: it is clean where the core is sound, and finds what is planted."""

import attrs
import pytest
from click.testing import CliRunner

from jepsen_like.simulation.command import ScopeType, scope_words, sim
from jepsen_like.simulation.explorer import Explored, Explorer, Scope
from raft.core import Leader, RaftCore
from raft.effects import Send
from raft.messages import AppendEntries, RequestVote, VoteReply
from raft.model import NO_WRITE, HardState, LogIndex, NodeId, WriteId
from raft.quorum import reached_by_majority

FIGURE_8 = Scope(timeouts=1, entries=0, crashes=0, logs=((1, 2), (1,), (1, 3)))
PARTED = Scope(timeouts=1, entries=0, crashes=0, logs=((1, 3), (1, 2), (1,)))


def quietly(_: Explored) -> None:
    pass


class VotesTwice(RaftCore):
    """Votes for whoever asks, in a term in which it has voted."""

    def _on_request_vote(self, sender: NodeId, request: RequestVote) -> None:
        if request.term == self.term and self.vote not in (None, sender):
            self._persist(hard_state=HardState(self.term, sender))
            self._effects.append(Send(sender, VoteReply(self.term, granted=True), after=self._hard_state_write))
        else:
            super()._on_request_vote(sender, request)


class VotesInMemory(RaftCore):
    """Its vote leaves before it is on disk."""

    def _on_request_vote(self, sender: NodeId, request: RequestVote) -> None:
        at = len(self._effects)
        super()._on_request_vote(sender, request)
        self._effects[at:] = [
            Send(effect.to, effect.message) if isinstance(effect, Send) else effect for effect in self._effects[at:]
        ]


class CommitsOldTerms(RaftCore):
    """Counts copies of entries of any term (figure 8)."""

    def _commit_by_majority(self, leader: Leader) -> None:
        matched = [progress.match_index for progress in leader.progress.values()]
        self._commit(LogIndex(reached_by_majority([*matched, self.log.durable_index])))


class IgnoresPreviousTerm(RaftCore):
    """Takes entries wherever its log is long enough."""

    def _on_append_entries(self, sender: NodeId, request: AppendEntries) -> None:
        if request.prev_index <= self.log.last_index:
            request = attrs.evolve(request, prev_term=self.log.term_at(request.prev_index))
        super()._on_append_entries(sender, request)


class AcknowledgesFromMemory(RaftCore):
    """Says that entries are on disk before they are."""

    def _write_covering(self, index: LogIndex) -> WriteId:
        return NO_WRITE


class CountsItselfEarly(RaftCore):
    """A leader that counts its own copy before its own disk has it."""

    def _commit_by_majority(self, leader: Leader) -> None:
        matched = [progress.match_index for progress in leader.progress.values()]
        reached = LogIndex(reached_by_majority([*matched, self.log.last_index]))
        if reached > self.commit_index and self.log.term_at(reached) == self.term:
            self._commit(reached)


def test_a_small_scope_is_exhausted_and_clean() -> None:
    explored = Explorer(Scope(nodes=3, timeouts=1, entries=1, crashes=1)).explore(on_level=quietly)
    assert explored.found is None
    assert explored.exhausted
    assert explored.states > 10_000


def test_the_command_says_how_much_it_has_seen() -> None:
    result = CliRunner().invoke(sim, ["--explore", "--scope", "timeouts=1,entries=0,crashes=0"])
    assert result.exit_code == 0
    assert "distinct states" in result.output
    assert "the scope is exhausted" in result.output


@pytest.mark.parametrize("scope", [FIGURE_8, PARTED], ids=["figure 8", "parted"])
def test_logs_that_have_parted_come_together(scope: Scope) -> None:
    explored = Explorer(scope).explore(on_level=quietly)
    assert explored.found is None
    assert explored.exhausted


def test_a_scope_is_told_as_it_is_typed() -> None:
    typed = ScopeType().convert("nodes=3,timeouts=1,logs=1.2/1/1.3", None, None)
    assert typed == Scope(timeouts=1, logs=FIGURE_8.logs)
    assert ScopeType().convert(scope_words(typed), None, None) == typed


def test_a_scope_that_names_nothing_is_refused() -> None:
    result = CliRunner().invoke(sim, ["--explore", "--scope", "timeouts=1,lunches=2"])
    assert result.exit_code == 2
    assert "lunches=2" in result.output


def test_the_same_scope_has_the_same_states_each_time() -> None:
    once, again = (Explorer(Scope(timeouts=1, entries=1, crashes=0)).explore(on_level=quietly) for _ in range(2))
    assert (once.states, once.transitions, once.depth) == (again.states, again.transitions, again.depth)


@pytest.mark.parametrize(
    ("bug", "scope", "oracle"),
    [
        pytest.param(VotesTwice, Scope(timeouts=2, entries=0, crashes=0), "election safety", id="votes twice"),
        pytest.param(VotesInMemory, Scope(timeouts=1, entries=0, crashes=0), "A1", id="vote not persisted"),
        pytest.param(AcknowledgesFromMemory, Scope(timeouts=1, entries=0, crashes=0), "A2", id="ack before flush"),
        pytest.param(CountsItselfEarly, Scope(timeouts=1, entries=1, crashes=0), "A3", id="leader counts itself early"),
        pytest.param(CommitsOldTerms, FIGURE_8, "A4", id="commit of an older term by count"),
        pytest.param(IgnoresPreviousTerm, PARTED, "log matching", id="no check of the previous term"),
    ],
)
def test_a_planted_bug_is_found(bug: type[RaftCore], scope: Scope, oracle: str) -> None:
    explored = Explorer(scope, make_core=bug).explore(states_max=200_000, on_level=quietly)
    assert explored.found is not None
    assert explored.found.sentence.startswith(oracle)
    assert explored.found.path
