"""The exhaustive search: it is clean where the core is sound, and finds what is planted."""

import contextlib
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from click.testing import CliRunner

from jepsen_like.simulation.command import sim
from jepsen_like.simulation.kernel.explorer import BrokenPromise
from jepsen_like.simulation.raft.explorer import ExplorerNode, RaftExplorer, State
from jepsen_like.simulation.raft.scope import PARTED, Scope, read_scope
from raft.core import RaftCore
from raft.effects import Send
from raft.fingerprint import fingerprint, persist_fingerprint, start_fingerprint
from raft.messages import AppendAccepted, AppendEntries, InstallSnapshot, RequestVote, TimeoutNow, VoteReply
from raft.model import NO_POSITION, NO_WRITE, HardState, LogIndex, LogStart, NodeId, Position, Term, WriteId
from raft.progress import Progress
from raft.quorum import reached_by_majority
from raft.roles import Candidate, Leader, PreCandidate

NOTHING = ((), (), ())
FIGURE_8 = Scope(timeouts=1, entries=0, crashes=0, logs=PARTED)
BEATING = attrs.evolve(FIGURE_8, heartbeats=1)
TRIMMED = Scope(timeouts=1, entries=0, crashes=0, trims=1, logs=PARTED)
DAMAGED = Scope(timeouts=1, entries=0, crashes=0, damages=1, logs=((1,), (1,), ()))
SMALL = Scope(timeouts=1, logs=NOTHING)


class VotesTwice(RaftCore):
    """Votes for every candidate that asks, in a term in which it has voted."""

    def _on_request_vote(self, sender: NodeId, request: RequestVote) -> None:
        if request.term == self.term and self.vote not in (None, sender):
            self._persist(hard_state=HardState(self.term, sender))
            self._effects.append(Send(sender, VoteReply(self.term, granted=True), after=self._hard_state_write))
        else:
            super()._on_request_vote(sender, request)


class ElectsItself(RaftCore):
    """One vote is enough for it."""

    def _become_pre_candidate(self) -> None:
        super()._become_pre_candidate()
        if isinstance(self.role, PreCandidate):
            self._become_candidate()

    def _on_persisted(self, write_id: WriteId) -> None:
        super()._on_persisted(write_id)
        if isinstance(self.role, Candidate) and self.role.granted:
            self._become_leader()


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
    """Acknowledges entries before they are on disk."""

    def _write_covering(self, index: LogIndex) -> WriteId:
        return NO_WRITE


class CountsItselfEarly(RaftCore):
    """A leader that counts its own copy before its own disk has it."""

    def _commit_by_majority(self, leader: Leader) -> None:
        matched = [progress.match_index for progress in leader.progress.values()]
        reached = LogIndex(reached_by_majority([*matched, self.log.last_index]))
        if reached > self.commit_index and self.log.term_at(reached) == self.term:
            self._commit(reached)


class CommitsAllItVerified(RaftCore):
    """A follower that takes for committed whatever it knows to be its leader's."""

    def _on_append_entries(self, sender: NodeId, request: AppendEntries) -> None:
        upto = LogIndex(request.prev_index + len(request.entries))
        super()._on_append_entries(sender, attrs.evolve(request, commit_index=upto))


class AnswersHeartbeatsWithAllItHas(RaftCore):
    """Acknowledges its whole durable log to the leader, when only a part of it was compared."""

    def _on_append_entries(self, sender: NodeId, request: AppendEntries) -> None:
        at = len(self._effects)
        super()._on_append_entries(sender, request)
        for place, effect in enumerate(self._effects[at:], start=at):
            if not request.entries and isinstance(effect, Send) and isinstance(effect.message, AppendAccepted):
                accepted = attrs.evolve(effect.message, match_index=self.log.durable_index)
                self._effects[place] = attrs.evolve(effect, message=accepted)


class VotesBelowItsFloor(RaftCore):
    """Compares candidates with what damage has left of its log, not with what it once held."""

    def _may_lead(self, last_index: LogIndex, last_term: Term) -> bool:
        return Position(last_index, last_term).up_to_date_with(self.log.position)


class CampaignsBelowItsFloor(RaftCore):
    """Asks for votes though it lacks what it once held."""

    def _on_tick(self) -> None:
        if not isinstance(self.role, Leader):
            self.floor = NO_POSITION
        super()._on_tick()


class SendsWhatIsNotCommitted(RaftCore):
    """Tells a follower to begin where its own log ends."""

    def _probe(self, leader: Leader, peer: NodeId, progress: Progress) -> None:
        at = len(self._effects)
        super()._probe(leader, peer, progress)
        end = LogStart(self.log.position, self.log.end_offset, self.log.position)
        for place, effect in enumerate(self._effects[at:], start=at):
            if isinstance(effect, Send) and isinstance(effect.message, InstallSnapshot):
                self._effects[place] = attrs.evolve(effect, message=attrs.evolve(effect.message, start=end))


class CommitsLessThanItBeginsBehind(RaftCore):
    """Is reset to a snapshot, and does not take for committed what that stands for."""

    def _on_install_snapshot(self, sender: NodeId, request: InstallSnapshot) -> None:
        before = self.commit_index
        super()._on_install_snapshot(sender, request)
        self.commit_index = before


class CountsWritesOfTheLogItForgot(RaftCore):
    """An older write's durable end counts for the log that began since."""

    def _discount(self, kept: LogIndex) -> None:
        if kept:
            super()._discount(kept)


class ComesBackWithAllCommitted(RaftCore):
    """Takes all that it finds behind a start for committed."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        if self.log.start.index:
            self.commit_index = self.log.last_index


def test_a_small_scope_is_exhausted_and_clean() -> None:
    explored = RaftExplorer(SMALL).explore()
    assert explored.found is None
    assert explored.exhausted
    assert explored.states > 4_000


def test_damage_to_any_one_disk_unmakes_nothing_that_was_committed() -> None:
    explored = RaftExplorer(DAMAGED).explore()
    assert explored.found is None
    assert explored.exhausted
    assert explored.states > 40_000


@pytest.mark.parametrize(
    "scope",
    [
        pytest.param(attrs.evolve(TRIMMED, crashes=1), id="logs that diverge, a crash"),
        pytest.param(
            Scope(timeouts=1, entries=0, crashes=0, heartbeats=1, trims=1, logs=NOTHING),
            id="a heartbeat",
            marks=pytest.mark.campaign,
        ),
    ],
)
def test_what_has_left_a_log_is_committed_and_missed_by_no_node(scope: Scope) -> None:
    explorer = RaftExplorer(scope)
    explored = explorer.explore()
    assert explored.found is None
    assert explored.exhausted
    assert any(isinstance(posted.message, InstallSnapshot) for posted in explorer._posted)
    assert any(write.start is not None for node in explorer._views for write in node.writes)


class Witness(RaftExplorer):
    """Remembers what the nodes are and have on disk in every state that it comes to."""

    def __init__(self, scope: Scope, *, reduced: bool) -> None:
        super().__init__(scope, reduced=reduced)
        self._met: set[tuple[int, ...]] = set()

    def key(self, state: State) -> int:
        self._met.add(state.locals_)
        return super().key(state)

    def expand_met(self) -> set[frozenset[Any]]:
        """Returns each state that was met, under all names of the nodes."""
        named = [[core_and_disk(node, rename) for node in self._views] for rename in self._renamings]
        return {frozenset(frozenset(names[local] for local in locals_) for names in named) for locals_ in self._met}


def core_and_disk(node: ExplorerNode, rename: Mapping[NodeId, NodeId]) -> tuple[Any, ...]:
    vote = node.hard_state.vote
    log = (start_fingerprint(node.start), tuple((entry.term, entry.batch.data) for entry in node.log))
    disk = (node.hard_state.term, vote and rename[vote], log)
    return fingerprint(node.core, rename), disk, tuple(persist_fingerprint(write, rename) for write in node.writes)


@pytest.mark.parametrize(
    "scope",
    [
        pytest.param(SMALL, id="an entry, a crash", marks=pytest.mark.campaign),
        pytest.param(Scope(nodes=2, timeouts=2), id="two nodes, two timeouts", marks=pytest.mark.campaign),
        pytest.param(FIGURE_8, id="parted", marks=pytest.mark.campaign),
        pytest.param(TRIMMED, id="a trim", marks=pytest.mark.campaign),
        pytest.param(
            Scope(timeouts=1, entries=0, crashes=0, heartbeats=1, logs=NOTHING),
            id="a heartbeat",
            marks=pytest.mark.campaign,
        ),
        pytest.param(Scope(nodes=2, timeouts=1, heartbeats=1), id="two nodes, a heartbeat"),
        pytest.param(
            Scope(nodes=2, timeouts=1, entries=0, crashes=0, changes=1), id="two nodes, a change of the members"
        ),
    ],
)
def test_what_is_left_out_hides_no_state_of_any_node(scope: Scope) -> None:
    whole, reduced = Witness(scope, reduced=False), Witness(scope, reduced=True)
    seen, seen_reduced = whole.explore(), reduced.explore()
    assert (seen.exhausted, seen_reduced.exhausted) == (True, True)
    assert whole.expand_met() == reduced.expand_met()
    assert seen_reduced.states < seen.states


@pytest.mark.campaign
def test_two_nodes_keep_every_promise_while_they_change_who_is_a_member_and_who_leads() -> None:
    explorer = RaftExplorer(Scope(nodes=2, timeouts=1, entries=0, crashes=0, changes=2))
    explored = explorer.explore()
    assert explored.found is None
    assert explored.exhausted
    assert {len(node.core.configuration.voters) for node in explorer._views} == {1, 2}
    assert any(isinstance(posted.message, TimeoutNow) for posted in explorer._posted)


def test_the_command_says_how_much_it_has_seen() -> None:
    result = CliRunner().invoke(sim, ["--explore", "--scope", "timeouts=1,entries=0,crashes=0"])
    assert result.exit_code == 0
    assert result.output.splitlines()[0].endswith(", for at most 15 minutes")
    assert "distinct states" in result.output
    assert "the scope is exhausted" in result.output


def test_logs_that_have_parted_come_together() -> None:
    explored = RaftExplorer(FIGURE_8).explore()
    assert explored.found is None
    assert explored.exhausted


def test_a_scope_is_told_as_it_is_typed() -> None:
    typed = read_scope("nodes=3,timeouts=1,heartbeats=1,logs=1.2/1/1.3")
    assert typed == Scope(timeouts=1, heartbeats=1, logs=FIGURE_8.logs)
    assert read_scope(str(typed)) == typed


def test_a_scope_that_names_nothing_is_refused() -> None:
    result = CliRunner().invoke(sim, ["--explore", "--scope", "timeouts=1,lunches=2"])
    assert result.exit_code == 2
    assert "lunches=2" in result.output


def test_the_same_scope_has_the_same_states_each_time() -> None:
    once, again = (RaftExplorer(SMALL).explore() for _ in range(2))
    assert (once.states, once.transitions, once.depth) == (again.states, again.transitions, again.depth)


@pytest.mark.parametrize(
    ("bug", "scope", "oracle"),
    [
        pytest.param(VotesTwice, Scope(timeouts=2, entries=0, crashes=0), "A1", id="votes twice"),
        pytest.param(ElectsItself, Scope(timeouts=2, entries=0, crashes=0), "election safety", id="elects itself"),
        pytest.param(VotesInMemory, Scope(timeouts=1, entries=0, crashes=0), "A1", id="vote not persisted"),
        pytest.param(AcknowledgesFromMemory, Scope(timeouts=1, entries=0, crashes=0), "A2", id="ack before flush"),
        pytest.param(CountsItselfEarly, Scope(timeouts=1, entries=1, crashes=0), "A3", id="leader counts itself early"),
        pytest.param(CommitsOldTerms, FIGURE_8, "A4", id="commit of an older term by count"),
        pytest.param(IgnoresPreviousTerm, FIGURE_8, "log matching", id="no check of the previous term"),
        pytest.param(CommitsAllItVerified, SMALL, "state-machine safety", id="a follower commits all it verified"),
        pytest.param(AnswersHeartbeatsWithAllItHas, BEATING, "A2", id="a heartbeat is answered with the whole log"),
        pytest.param(
            SendsWhatIsNotCommitted,
            attrs.evolve(TRIMMED, entries=1),
            "state-machine safety",
            id="a start that is not committed",
            marks=pytest.mark.campaign,
        ),
        pytest.param(CommitsLessThanItBeginsBehind, TRIMMED, "invariant", id="a start commits nothing"),
        pytest.param(CountsWritesOfTheLogItForgot, TRIMMED, "A2", id="writes of the log before count"),
        pytest.param(
            ComesBackWithAllCommitted,
            attrs.evolve(TRIMMED, crashes=1),
            "state-machine safety",
            id="all is committed after a restart",
            marks=pytest.mark.campaign,
        ),
        pytest.param(VotesBelowItsFloor, DAMAGED, "leader completeness", id="votes below its floor"),
        pytest.param(CampaignsBelowItsFloor, DAMAGED, "A4", id="campaigns below its floor"),
    ],
)
def test_a_planted_bug_is_found(bug: type[RaftCore], scope: Scope, oracle: str) -> None:
    explored = RaftExplorer(scope, make_core=bug).explore(states_max=200_000)
    assert explored.found is not None
    assert explored.found.sentence.startswith(oracle)
    assert explored.found.path


@pytest.mark.parametrize(("committed", "holds"), [(((1, 1, 1), (2, 2, 2)), True), (((1, 1, 1), (2, 3, 3)), False)])
def test_what_a_node_has_committed_is_compared_with_what_was_committed_before(
    committed: tuple[tuple[int, int, int], ...], holds: bool
) -> None:
    explorer = RaftExplorer(FIGURE_8)
    core = explorer._views[explorer._first_state(PARTED).locals_[0]].core
    with contextlib.nullcontext() if holds else pytest.raises(BrokenPromise, match="another entry than 2@3"):
        explorer._check_settled(committed, core, 2)


def test_a_search_begins_from_nothing_and_from_logs_that_have_parted() -> None:
    assert Scope().starts == (NOTHING, PARTED)
    assert Scope(nodes=2).starts == (((), ()),)
    assert FIGURE_8.starts == (PARTED,)
