"""The rules alone: majority, progress, read rounds, the outbox, settings; and what a core makes of single messages."""

import math
import random
from collections.abc import Callable

import attrs
import pytest

from raft.config import RaftConfig
from raft.core import RaftCore
from raft.effects import Effect, Persist, RoleChanged, Send
from raft.events import Persisted, Receive, Trimmed
from raft.fingerprint import fingerprint, message_fingerprint, persist_fingerprint
from raft.log_view import LogView
from raft.membership import Configuration
from raft.messages import (
    AppendAccepted,
    AppendEntries,
    AppendRejected,
    InstallSnapshot,
    Message,
    PreVoteReply,
    RequestPreVote,
    RequestVote,
    SnapshotReceived,
    VoteReply,
)
from raft.model import (
    NO_INDEX,
    NOOP,
    ORIGIN,
    Entry,
    HardState,
    LogIndex,
    LogStart,
    NodeId,
    Offset,
    Position,
    Term,
    Token,
    WriteId,
)
from raft.objections import TERM_MAX, TERM_STEP_MAX
from raft.outbox import Outbox
from raft.progress import Progress
from raft.quorum import majority, reached_by_majority
from raft.read_index import ReadQueue
from raft.render import render
from raft.roles import Leader
from tests.raft.conversation import Conversation, view_of


@pytest.mark.parametrize(
    ("matched", "reached"),
    [
        pytest.param([7], 7, id="alone"),
        pytest.param([5, 3], 3, id="two need both"),
        pytest.param([9, 4, 2], 4, id="middle of three"),
        pytest.param([9, 9, 1, 1], 1, id="four need three"),
        pytest.param([9, 8, 7, 1, 1], 7, id="three of five"),
    ],
)
def test_what_a_majority_holds_is_what_any_other_majority_must_meet(matched: list[int], reached: int) -> None:
    assert reached_by_majority(matched) == reached
    assert sum(value >= reached for value in matched) >= majority(len(matched))


@pytest.mark.parametrize("voters", range(1, 10))
def test_any_two_majorities_share_a_voter(voters: int) -> None:
    assert 2 * majority(voters) > voters
    assert majority(voters) <= voters


@pytest.mark.parametrize(
    ("mine", "theirs", "may_lead"),
    [
        pytest.param((3, 1), (3, 1), True, id="equal"),
        pytest.param((1, 2), (9, 1), True, id="the later term wins, however short"),
        pytest.param((9, 1), (1, 2), False, id="length does not help against a later term"),
        pytest.param((2, 2), (3, 2), False, id="same term, shorter"),
    ],
)
def test_5_4_1_the_more_up_to_date_log_may_lead(mine: tuple[int, int], theirs: tuple[int, int], may_lead: bool) -> None:
    here = Position(LogIndex(mine[0]), Term(mine[1]))
    assert here.up_to_date_with(Position(LogIndex(theirs[0]), Term(theirs[1]))) is may_lead


def pipelining(next_index: int) -> Progress:
    progress = Progress(LogIndex(next_index), contact_at=0.0)
    progress.note_accepted(LogIndex(next_index - 1))
    assert not progress.probing
    return progress


def test_the_window_is_bounded_in_messages_and_in_bytes() -> None:
    progress = pipelining(5)
    progress.note_sent(LogIndex(6), 100, 1)
    assert progress.has_room(2, 101)
    assert not progress.has_room(1, 101)
    assert not progress.has_room(2, 100)
    progress.note_accepted(LogIndex(6))
    assert progress.has_room(1, 1)


def test_an_entry_is_sent_unasked_only_to_who_lacks_nothing_else_and_is_known_to_follow() -> None:
    progress = pipelining(5)
    assert progress.lacks_only(LogIndex(5))
    assert not progress.lacks_only(LogIndex(4))
    assert not progress.lacks_only(LogIndex(6))
    progress.loading = True
    assert not progress.lacks_only(LogIndex(5))
    progress.loading = False
    progress.probe_from(LogIndex(5))
    assert not progress.lacks_only(LogIndex(5))


def test_an_answer_to_an_older_round_says_nothing_about_a_loss() -> None:
    progress = pipelining(5)
    progress.note_sent(LogIndex(6), 100, 3)
    assert not progress.lost_before(3, LogIndex(4))
    assert not progress.lost_before(4, LogIndex(6))
    assert progress.lost_before(4, LogIndex(4))


def test_a_loss_is_seen_by_the_oldest_message_in_flight() -> None:
    progress = pipelining(5)
    progress.note_sent(LogIndex(6), 100, 3)
    progress.note_sent(LogIndex(8), 100, 5)
    assert progress.lost_before(4, LogIndex(4))
    assert not progress.lost_before(4, LogIndex(6))


def test_probing_goes_on_until_an_answer_reaches_the_place_that_was_asked_about() -> None:
    progress = Progress(LogIndex(5), contact_at=0.0)
    assert progress.note_accepted(LogIndex(3))
    assert progress.probing
    assert progress.note_accepted(LogIndex(4))
    assert not progress.probing


def test_who_has_come_back_with_less_has_proved_nothing_and_may_be_sent_a_snapshot_at_once() -> None:
    progress = pipelining(9)
    progress.install_due = 3.0
    progress.reset(LogIndex(9))
    assert (progress.match_index, progress.next_index, progress.install_due) == (NO_INDEX, 9, -math.inf)


def test_a_new_probe_begins_with_an_empty_window_and_never_below_what_is_proven() -> None:
    progress = pipelining(9)
    progress.note_sent(LogIndex(12), 100, 1)
    progress.probe_from(LogIndex(3))
    assert (progress.next_index, progress.inflight_bytes, len(progress.inflight)) == (9, 0, 0)
    assert progress.probing
    assert not progress.probe_sent


def test_a_late_acknowledgement_never_moves_progress_back() -> None:
    progress = pipelining(9)
    assert not progress.note_accepted(LogIndex(3))
    assert (progress.match_index, progress.next_index) == (8, 9)


def test_reads_that_arrive_during_a_round_wait_for_the_next() -> None:
    reads = ReadQueue()
    reads.add(Token(1))
    reads.begin(7, LogIndex(3))
    reads.add(Token(2))
    assert not reads.can_begin()
    assert reads.confirm(6) is None
    done = reads.confirm(7)
    assert done is not None
    assert (done.tokens, done.read_index) == ((Token(1),), 3)
    assert reads.can_begin()
    assert reads.drain() == (Token(2),)


def send(after: int, term: int = 1) -> Send:
    return Send(NodeId(2), VoteReply(Term(term), granted=True), after=WriteId(after))


def test_p13_a_message_waits_for_its_own_write_and_no_other() -> None:
    outbox = Outbox()
    assert outbox.hold(send(after=2))
    assert outbox.hold(send(after=1))
    assert not outbox.hold(send(after=0))
    assert outbox.release(WriteId(1), Term(1)) == [send(after=1)]
    assert not outbox.hold(send(after=1))
    assert outbox.release(WriteId(2), Term(1)) == [send(after=2)]


def reply(after: int, round_: int, *, match: int = 5, term: int = 1, to: int = 2) -> Send:
    accepted = AppendAccepted(Term(term), LogIndex(match), LogIndex(5), round_)
    return Send(NodeId(to), accepted, after=WriteId(after))


def test_of_answers_that_wait_for_the_same_write_only_the_last_is_kept() -> None:
    outbox = Outbox()
    for round_ in range(1000):
        assert outbox.hold(reply(1, round_))
    assert outbox.release(WriteId(1), Term(1)) == [reply(1, 999)]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(reply(2, 8), id="waits for another write"),
        pytest.param(reply(1, 8, to=3), id="goes to another node"),
        pytest.param(reply(1, 8, term=2), id="speaks of another term"),
        pytest.param(reply(1, 8, match=4), id="proves less"),
        pytest.param(reply(1, 6), id="answers an older round"),
    ],
)
def test_an_answer_that_another_does_not_repeat_is_kept(other: Send) -> None:
    outbox = Outbox()
    outbox.hold(reply(1, 7))
    outbox.hold(other)
    assert outbox.release(WriteId(2), Term(1)) == [reply(1, 7), other]


def test_p9_a_message_of_an_older_term_is_dropped_when_its_write_completes() -> None:
    outbox = Outbox()
    outbox.hold(send(after=1, term=1))
    outbox.hold(send(after=2, term=2))
    assert outbox.release(WriteId(2), Term(2)) == [send(after=2, term=2)]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"heartbeat_s": 0.8}, id="heartbeat too slow for the timeout"),
        pytest.param({"election_timeout_s_min": 2.0}, id="minimum above maximum"),
        pytest.param({"heartbeat_s": 0.0}, id="no heartbeat"),
        pytest.param({"append_bytes_max": 2**30}, id="one message larger than the window"),
    ],
)
def test_settings_that_do_not_fit_each_other_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"need|must be"):
        RaftConfig(**settings)  # type: ignore[arg-type]  # the point of the test


def test_a_configuration_has_voters_with_positive_ids() -> None:
    with pytest.raises(ValueError, match="at least one voter"):
        Configuration(frozenset())
    with pytest.raises(ValueError, match="at least one voter"):
        Configuration(frozenset({NodeId(0)}))
    assert Configuration(frozenset({NodeId(3), NodeId(1), NodeId(2)})).peers(NodeId(2)) == (1, 3)


def entry(index: int, term: int) -> Entry:
    return Entry(LogIndex(index), Term(term), Offset(0), NOOP)


def follower(*terms: int) -> RaftCore:
    """Node 1 of three; its log has entries of these terms, all durable."""
    log = [entry(at, term) for at, term in enumerate(terms, start=1)]
    return RaftCore(
        node_id=NodeId(1),
        configuration=Configuration(frozenset({NodeId(1), NodeId(2), NodeId(3)})),
        config=RaftConfig(),
        log=LogView.of(log, cache_bytes_max=10_000),
        hard_state=HardState(Term(terms[-1])),
        rng=random.Random(1),
        now=0.0,
    )


def receives(core: RaftCore, sender: int, message: Message, now: float = 0.1) -> list[Effect]:
    return core.step(now, Receive(NodeId(sender), message))


def append(prev: Position, *entries: Entry) -> AppendEntries:
    """A message of the leader of the last entry's term."""
    return AppendEntries(entries[-1].term, prev.index, prev.term, LogIndex(0), 0, entries)


def find_write(effects: list[Effect]) -> tuple[WriteId, list[Entry]]:
    """Returns the one write of entries among the effects."""
    ((write_id, entries),) = [
        (each.write_id, list(each.entries)) for each in effects if isinstance(each, Persist) and each.entries
    ]
    return write_id, entries


def test_p9_an_old_write_proves_what_was_not_replaced_and_nothing_beyond() -> None:
    core = follower(1)
    kept, _ = find_write(receives(core, 2, append(Position(LogIndex(1), Term(1)), entry(2, 1))))
    replaced, _ = find_write(receives(core, 2, append(Position(LogIndex(2), Term(1)), entry(3, 1))))
    newer, entries = find_write(receives(core, 3, append(Position(LogIndex(2), Term(1)), entry(3, 2), entry(4, 2))))
    assert entries == [entry(3, 2), entry(4, 2)]
    core.step(0.2, Persisted(kept))
    assert core.log.durable_index == 2
    core.step(0.3, Persisted(replaced))
    assert core.log.durable_index == 2
    core.step(0.4, Persisted(newer))
    assert core.log.durable_index == 4


def test_p9_one_old_write_of_several_entries_proves_those_that_were_not_replaced() -> None:
    core = follower(1)
    old, _ = find_write(receives(core, 2, append(Position(LogIndex(1), Term(1)), entry(2, 1), entry(3, 1))))
    receives(core, 3, append(Position(LogIndex(2), Term(1)), entry(3, 2), entry(4, 2)))
    core.step(0.2, Persisted(old))
    assert core.log.durable_index == 2


def test_a_write_tells_states_apart_until_it_is_durable() -> None:
    """Else the exhaustive search would never come to an end, or would leave states out."""
    names = {NodeId(node): NodeId(node) for node in (1, 2, 3)}
    was_there, written_now = follower(1, 2), follower(1)
    receives(was_there, 2, AppendEntries(Term(2), LogIndex(2), Term(2), LogIndex(0), 0))
    write, _ = find_write(receives(written_now, 2, append(Position(LogIndex(1), Term(1)), entry(2, 2))))
    assert fingerprint(written_now, names) != fingerprint(was_there, names)
    written_now.step(0.2, Persisted(write))
    assert fingerprint(written_now, names) == fingerprint(was_there, names)


def test_every_word_of_its_leader_puts_a_followers_election_off() -> None:
    core = follower(1)
    for contact_at in (0.4, 0.8, 1.2, 1.6):
        receives(core, 2, AppendEntries(Term(1), LogIndex(1), Term(1), LogIndex(0), 0), now=contact_at)
        assert contact_at + core.config.election_timeout_s_min <= core.deadline
        assert core.deadline <= contact_at + core.config.election_timeout_s_max


def leading(*commands: str) -> tuple[Conversation, RaftCore]:
    """Three nodes after these commands; the first one leads."""
    group = Conversation()
    for command in ("nodes 3", *commands):
        group.command(command)
    assert group.nodes[1].core.leader == 1
    return group, group.nodes[1].core


def test_an_acknowledgement_of_more_than_was_written_counts_for_nothing() -> None:
    group, leader = leading("elect 1")
    receives(leader, 2, AppendAccepted(Term(1), LogIndex(9), LogIndex(9), 0), now=group.now)
    said = group.command("propose 1 x")
    assert "n1 →n2 AppendEntries t1 prev=1@1 commit=1 r0 2@1:x" in said
    assert group.command("persist 1") == []
    assert leader.commit_index == 1


def test_a_refusal_of_the_place_where_all_logs_begin_causes_no_new_probe() -> None:
    """It can only be an answer to an older leader, of a node that had seen this term already."""
    group, leader = leading("cut 2", "elect 1")
    assert receives(leader, 2, AppendRejected(Term(1), LogIndex(0), LogIndex(0), Term(0), round=0), now=group.now) == []


def place(index: int, term: int) -> LogStart:
    position = Position(LogIndex(index), Term(term))
    return LogStart(position, Offset(0), position, b"")


def make_trimmed_core(start: LogStart, *terms: int) -> RaftCore:
    """Returns node 1 of three after a restart: its log begins at `start`, with entries of these terms behind it."""
    log = [entry(start.index + at, term) for at, term in enumerate(terms, start=1)]
    return RaftCore(
        node_id=NodeId(1),
        configuration=Configuration(frozenset({NodeId(1), NodeId(2), NodeId(3)})),
        config=RaftConfig(),
        log=view_of(log, start, cache_bytes_max=10_000),
        hard_state=HardState(Term(9)),
        rng=random.Random(1),
        now=0.0,
    )


def snapshot(start: LogStart, term: int = 9) -> InstallSnapshot:
    return InstallSnapshot(Term(term), start, 0)


def resets(effects: list[Effect]) -> list[LogStart]:
    """Returns the starts that the log was reset to."""
    return [each.start for each in effects if isinstance(each, Persist) and each.start is not None]


def test_after_a_restart_all_that_has_left_is_committed() -> None:
    core = make_trimmed_core(place(4, 2), 2, 3)
    assert (core.commit_index, core.log.last_index, core.log.durable_index) == (4, 6, 6)
    assert make_trimmed_core(place(4, 2)).log.position == Position(LogIndex(4), Term(2))


@pytest.mark.parametrize(
    ("index", "term"), [(4, 3), (4, 1), (3, 3), (5, 1), (9, 1)], ids=["newer", "older", "gone", "next", "far"]
)
def test_p5_a_snapshot_that_contradicts_what_is_committed_is_objected_to_and_changes_nothing(
    index: int, term: int
) -> None:
    core = make_trimmed_core(place(4, 2))
    names = {NodeId(node): NodeId(node) for node in (1, 2, 3)}
    before = fingerprint(core, names)
    forged = snapshot(place(index, term))
    assert f"entry {index} cannot be of term {term}" in (core.objection(NodeId(2), forged) or "")
    assert receives(core, 2, forged) == []
    assert fingerprint(core, names) == before


@pytest.mark.parametrize(("index", "term"), [(4, 2), (3, 2), (3, 1), (5, 2), (9, 4)])
def test_a_snapshot_that_may_be_a_leaders_is_not_objected_to(index: int, term: int) -> None:
    assert make_trimmed_core(place(4, 2)).objection(NodeId(2), snapshot(place(index, term))) is None


TEACHING: dict[str, Callable[[Term], Message]] = {
    "a refused pre-vote": lambda term: PreVoteReply(term, granted=False),
    "a candidate": lambda term: RequestVote(term, LogIndex(9), Term(9)),
    "a vote": lambda term: VoteReply(term, granted=True),
    "a refused vote": lambda term: VoteReply(term, granted=False),
    "a heartbeat": lambda term: AppendEntries(term, NO_INDEX, Term(0), NO_INDEX, 0),
    "an acknowledgement": lambda term: AppendAccepted(term, NO_INDEX, NO_INDEX, 0),
    "a rejection": lambda term: AppendRejected(term, NO_INDEX, NO_INDEX, Term(0), 0),
    "a snapshot": lambda term: snapshot(place(3, 2), term),
}
"""Messages from which a node takes over a newer term."""
ASKING: dict[str, Callable[[Term], Message]] = {
    "a pre-vote": lambda term: RequestPreVote(term, LogIndex(9), Term(9)),
    "a granted pre-vote": lambda term: PreVoteReply(term, granted=True),
}
"""And those from which it never does."""


@pytest.mark.parametrize("kind", [*TEACHING, *ASKING])
def test_a_term_near_the_end_of_all_terms_changes_nothing(kind: str) -> None:
    for term in (Term(TERM_MAX + 1), Term(2**62)):
        core, message = follower(2), (TEACHING | ASKING)[kind](term)
        names = {NodeId(node): NodeId(node) for node in (1, 2, 3)}
        before = fingerprint(core, names)
        assert f"no correct node can have reached term {term}" in (core.objection(NodeId(2), message) or "")
        assert receives(core, 2, message) == []
        assert fingerprint(core, names) == before


@pytest.mark.parametrize("kind", TEACHING)
def test_no_message_moves_the_term_by_more_than_a_step_and_each_moves_it_by_one(kind: str) -> None:
    core, message = follower(2), TEACHING[kind](Term(TERM_MAX))
    assert core.objection(NodeId(2), message) is None
    for number in (1, 2):
        effects = receives(core, 2, message)
        assert core.term == 2 + number * TERM_STEP_MAX
        assert [type(effect) for effect in effects] == [Persist, RoleChanged]
    assert (core.leader, core.vote, core.log.last_index) == (None, None, 1)


@pytest.mark.parametrize("kind", ASKING)
def test_what_teaches_no_term_does_not_move_it_either_if_its_term_is_far_ahead(kind: str) -> None:
    core = follower(2)
    receives(core, 2, ASKING[kind](Term(TERM_MAX)))
    assert core.term == 2


def test_a_candidate_far_ahead_gets_its_pre_vote_and_comes_nearer_with_each_request_for_votes() -> None:
    core = follower(2)
    (reply,) = receives(core, 2, RequestPreVote(Term(3 * TERM_STEP_MAX), LogIndex(9), Term(9)))
    assert reply == Send(NodeId(2), PreVoteReply(Term(3 * TERM_STEP_MAX), granted=True))
    for number in range(3):
        receives(core, 2, RequestVote(Term(3 * TERM_STEP_MAX + number), LogIndex(9), Term(9)))
    assert (core.term, core.vote) == (3 * TERM_STEP_MAX + 2, 2)


def test_a_request_for_votes_from_far_ahead_unseats_no_leader_in_contact() -> None:
    core = follower(2)
    receives(core, 3, AppendEntries(Term(2), NO_INDEX, Term(0), NO_INDEX, 1))
    assert receives(core, 2, RequestVote(Term(TERM_MAX), LogIndex(9), Term(9))) == []
    assert (core.term, core.leader) == (2, 3)


def test_a_node_that_was_away_for_ten_years_of_elections_follows_within_a_thousand_heartbeats() -> None:
    core = follower(2)
    term = 2 + 2 * 10 * 366 * 24 * 3600
    heartbeat = AppendEntries(Term(term), NO_INDEX, Term(0), NO_INDEX, 1)
    needed = 0
    while core.leader is None:
        receives(core, 2, heartbeat)
        needed += 1
    assert (core.term, core.leader) == (term, 2)
    assert needed < 1000


def test_a_node_whose_log_keeps_everything_refuses_a_snapshot_until_its_log_was_trimmed_itself() -> None:
    core = RaftCore(
        node_id=NodeId(1),
        configuration=Configuration(frozenset({NodeId(1), NodeId(2), NodeId(3)})),
        config=RaftConfig(),
        log=view_of([entry(at, 2) for at in (1, 2, 3)], ORIGIN, cache_bytes_max=10_000),
        hard_state=HardState(Term(9)),
        rng=random.Random(1),
        now=0.0,
        takes_snapshots=False,
    )
    forged = snapshot(place(1_000_000, 9))
    assert "retention_bytes or retention_s" in (core.objection(NodeId(2), forged) or "")
    assert receives(core, 2, forged) == []
    assert (core.log.last_index, core.leader) == (3, None)
    core.commit_index = LogIndex(2)
    core.step(0.1, Trimmed(place(2, 2)))
    assert resets(receives(core, 2, forged)) == [place(1_000_000, 9)]


@pytest.mark.parametrize("terms", [(3, 3), (1, 3)], ids=["before the entries", "among the entries"])
def test_p5_a_leader_that_holds_something_newer_where_all_has_left_is_objected_to(terms: tuple[int, int]) -> None:
    core = make_trimmed_core(place(4, 2))
    message = AppendEntries(Term(9), LogIndex(1), Term(terms[0]), LogIndex(0), 0, (entry(2, terms[1]),))
    assert "(P5)" in (core.objection(NodeId(2), message) or "")
    assert receives(core, 2, message) == []


def test_a_snapshot_from_before_where_the_log_begins_changes_nothing() -> None:
    core = make_trimmed_core(place(4, 2), 3)
    assert resets(receives(core, 2, snapshot(place(3, 2)))) == []
    assert (core.log.start.index, core.log.last_index) == (4, 5)


def test_a_snapshot_within_the_log_keeps_what_follows_it_and_commits_what_precedes_it() -> None:
    core = make_trimmed_core(ORIGIN, 1, 1, 2, 2)
    assert resets(receives(core, 2, snapshot(place(3, 2)))) == []
    assert (core.log.start.index, core.log.last_index, core.commit_index) == (0, 4, 3)


def test_a_snapshot_in_place_of_what_conflicts_with_it_drops_all_of_the_log() -> None:
    core = make_trimmed_core(ORIGIN, 1, 1, 1, 1)
    assert resets(receives(core, 2, snapshot(place(3, 2)))) == [place(3, 2)]
    assert (core.log.position, core.log.durable_index, core.commit_index) == (place(3, 2).position, 0, 3)


def test_a_snapshot_is_as_good_as_a_heartbeat() -> None:
    core = make_trimmed_core(ORIGIN, 1)
    receives(core, 2, snapshot(place(3, 2)), now=0.4)
    assert core.leader == 2
    assert 0.4 + core.config.election_timeout_s_min <= core.deadline


def test_only_what_is_committed_may_leave() -> None:
    core = make_trimmed_core(ORIGIN, 1, 1)
    with pytest.raises(AssertionError, match="only what is committed"):
        core.step(0.1, Trimmed(place(1, 1)))


@pytest.mark.parametrize("last_gone", [1, 2, 3])
def test_what_was_loaded_before_the_log_was_trimmed_is_not_sent(last_gone: int) -> None:
    behind = ("set cache_bytes_max 1", "cut 3", "elect 1", "propose 1 a", "propose 1 b", "stabilize", "slow 1", "heal")
    group, leader = leading(*behind, "timeout 1", "stabilize")
    assert render(leader).endswith("3:0→1}"), "the log is being loaded from its first entry on"
    group.command(f"trim 1 {last_gone}")
    assert group.command("loaded 1") == []


def test_where_a_log_begins_tells_states_apart_and_is_rendered() -> None:
    names = {NodeId(node): NodeId(node) for node in (1, 2, 3)}
    whole, cut = make_trimmed_core(place(1, 2), 2, 2), make_trimmed_core(place(2, 2), 2)
    assert whole.log.position == cut.log.position
    assert fingerprint(whole, names) != fingerprint(cut, names)
    assert render(cut) == "n1@9 follower() start=2@2 last=3@2 durable=3 commit=2"
    assert "start" not in render(make_trimmed_core(ORIGIN, 2))
    whole.commit_index = LogIndex(2)
    whole.step(0.1, Trimmed(place(2, 2)))
    assert fingerprint(whole, names) == fingerprint(cut, names)


def test_the_search_tells_snapshots_apart_by_all_that_a_step_looks_at() -> None:
    names = {NodeId(1): NodeId(1)}
    messages = [snapshot(place(2, 2)), snapshot(place(3, 2)), snapshot(place(2, 1)), snapshot(place(2, 2), term=10)]
    assert len({message_fingerprint(each) for each in messages}) == len(messages)
    writes = [Persist(WriteId(1), None, (), start) for start in (None, place(2, 2), place(3, 2), place(2, 1))]
    assert len({persist_fingerprint(each, names) for each in writes}) == len(writes)


LAGGING = ("cut 3", "elect 1", "propose 1 a", "propose 1 b", "stabilize", "timeout 1", "stabilize", "trim 1 3", "heal")


def refusal(prev: int, hint: int, round_: int = 9) -> AppendRejected:
    return AppendRejected(Term(1), LogIndex(prev), LogIndex(hint), Term(0), round=round_)


def advance(leader: RaftCore, round_: int) -> None:
    """It has sent heartbeats up to this round."""
    assert isinstance(leader.role, Leader)
    leader.role.round = round_


def test_the_search_tells_parts_of_snapshots_apart() -> None:
    names = {NodeId(node): NodeId(node) for node in (1, 2, 3)}
    whole = snapshot(attrs.evolve(place(3, 2), snapshot=b"abcdef"))
    part = snapshot(attrs.evolve(place(3, 2), snapshot=b"abc"))
    parts = [whole, attrs.evolve(part, bytes_left=3), attrs.evolve(part, bytes_left=4), attrs.evolve(part, offset=3)]
    answers: list[Message] = [SnapshotReceived(Term(9), LogIndex(3), received, 1) for received in (0, 3)]
    assert len({message_fingerprint(each) for each in [*parts, *answers]}) == 6
    core, other = make_trimmed_core(ORIGIN, 1), make_trimmed_core(ORIGIN, 1)
    receives(core, 2, attrs.evolve(part, bytes_left=3))
    receives(other, 2, attrs.evolve(part, bytes_left=3, offset=1))
    assert fingerprint(core, names) != fingerprint(other, names)


def test_a_part_that_is_not_the_next_is_not_taken() -> None:
    core = make_trimmed_core(ORIGIN, 1)
    part = snapshot(attrs.evolve(place(3, 2), snapshot=b"abc"))
    for offset, received in ((3, 0), (0, 3), (0, 3), (6, 3), (3, 6)):
        effects = receives(core, 2, attrs.evolve(part, offset=offset, bytes_left=9 - offset))
        assert [each.message for each in effects if isinstance(each, Send)] == [
            SnapshotReceived(Term(9), LogIndex(3), received, 0)
        ]
    receives(core, 2, attrs.evolve(part, offset=6, bytes_left=3))
    (written,) = resets(receives(core, 2, attrs.evolve(part, offset=9)))
    assert written.snapshot == b"abc" * 4


@pytest.mark.parametrize(
    ("start_index", "received"), [(3, 10), (3, 99), (2, 4)], ids=["all", "more than all", "of another log"]
)
def test_an_answer_that_no_follower_gives_changes_nothing(start_index: int, received: int) -> None:
    behind = ("set snapshot_part_bytes_max 4", *LAGGING[:-2], "trim 1 3 abcdefghij", "heal", "disconnect 1 3")
    group, leader = leading(*behind)
    advance(leader, 9)
    receives(leader, 3, refusal(3, 0), now=group.now)
    names = {NodeId(node): NodeId(node) for node in (1, 2, 3)}
    receives(leader, 3, SnapshotReceived(Term(1), LogIndex(3), 0, 1), now=group.now)
    before = fingerprint(leader, names)
    assert receives(leader, 3, SnapshotReceived(Term(1), LogIndex(start_index), received, 1), now=group.now) == []
    assert fingerprint(leader, names) == before
    (sent,) = receives(leader, 3, SnapshotReceived(Term(1), LogIndex(3), 4, 1), now=group.now)
    assert isinstance(sent, Send)
    assert isinstance(sent.message, InstallSnapshot)
    assert (sent.message.offset, sent.message.start.snapshot, sent.message.bytes_left) == (4, b"efgh", 2)


def test_while_a_snapshot_is_on_its_way_no_refusal_brings_another() -> None:
    group, leader = leading(*LAGGING, "disconnect 1 3")
    assert "n1 →n3 AppendEntries t1 prev=3@1 commit=3 r1 4@1:c" in group.command("propose 1 c")
    advance(leader, 9)
    (sent,) = receives(leader, 3, refusal(3, 0), now=group.now)
    assert isinstance(sent, Send)
    assert isinstance(sent.message, InstallSnapshot)
    names = {NodeId(node): NodeId(node) for node in (1, 2, 3)}
    before = fingerprint(leader, names)
    for prev in (3, 1, 3):
        assert receives(leader, 3, refusal(prev, 0, round_=1), now=group.now) == []
    assert fingerprint(leader, names) == before


def test_a_snapshot_that_got_lost_is_asked_for_by_a_refusal_of_what_was_sent_after_it() -> None:
    group, leader = leading(*LAGGING, "disconnect 1 3", "propose 1 c", "drop 1>3")
    advance(leader, 9)
    receives(leader, 3, refusal(3, 0), now=group.now)
    advance(leader, 10)
    (again,) = receives(leader, 3, AppendAccepted(Term(1), LogIndex(0), LogIndex(0), 10), now=group.now)
    assert isinstance(again, Send)
    assert isinstance(again.message, AppendEntries)
    assert again.message.prev_index == 3
    advance(leader, 11)
    assert receives(leader, 3, refusal(3, 0, round_=10), now=group.now) == []
    due = group.now + leader.config.election_timeout_s_min
    (sent,) = receives(leader, 3, AppendAccepted(Term(1), LogIndex(0), LogIndex(0), 11), now=due)
    assert isinstance(sent, Send)
    assert isinstance(sent.message, InstallSnapshot)


def test_heartbeats_to_who_lacks_what_has_left_speak_of_the_place_where_all_logs_begin() -> None:
    group, _ = leading(*LAGGING)
    assert "n1 →n3 AppendEntries t1 prev=0@0 commit=3 r2" in group.command("timeout 1")


def test_heartbeats_to_who_ends_where_the_log_begins_speak_of_that_place() -> None:
    group, _ = leading("elect 1", "propose 1 a", "stabilize", "trim 1 2")
    assert "n1 →n3 AppendEntries t1 prev=2@1 commit=2 r1" in group.command("timeout 1")
