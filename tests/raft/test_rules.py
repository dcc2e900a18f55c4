"""The rules alone: majority, progress, read rounds, the outbox, settings."""

import pytest

from raft.config import RaftConfig
from raft.effects import Send
from raft.membership import Configuration
from raft.messages import VoteReply
from raft.model import LogIndex, NodeId, Position, Term, Token, WriteId
from raft.outbox import Outbox
from raft.progress import Progress
from raft.quorum import majority, reached_by_majority
from raft.read_index import ReadQueue


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
    progress = Progress(LogIndex(next_index), heard_at=0.0)
    progress.accepted(LogIndex(next_index - 1))
    assert not progress.probing
    return progress


def test_the_window_is_bounded_in_messages_and_in_bytes() -> None:
    progress = pipelining(5)
    progress.sent(LogIndex(6), 100, 1)
    assert progress.has_room(2, 101)
    assert not progress.has_room(1, 101)
    assert not progress.has_room(2, 100)
    progress.accepted(LogIndex(6))
    assert progress.has_room(1, 1)


def test_an_answer_to_an_older_round_says_nothing_about_a_loss() -> None:
    progress = pipelining(5)
    progress.sent(LogIndex(6), 100, 3)
    assert not progress.lost_before(3, LogIndex(4))
    assert not progress.lost_before(4, LogIndex(6))
    assert progress.lost_before(4, LogIndex(4))


def test_a_loss_is_seen_by_the_oldest_message_in_flight() -> None:
    progress = pipelining(5)
    progress.sent(LogIndex(6), 100, 3)
    progress.sent(LogIndex(8), 100, 5)
    assert progress.lost_before(4, LogIndex(4))
    assert not progress.lost_before(4, LogIndex(6))


def test_probing_goes_on_until_an_answer_reaches_the_place_that_was_asked_about() -> None:
    progress = Progress(LogIndex(5), heard_at=0.0)
    assert progress.accepted(LogIndex(3))
    assert progress.probing
    assert progress.accepted(LogIndex(4))
    assert not progress.probing


def test_a_new_probe_begins_with_an_empty_window_and_never_below_what_is_proven() -> None:
    progress = pipelining(9)
    progress.sent(LogIndex(12), 100, 1)
    progress.probe_from(LogIndex(3))
    assert (progress.next_index, progress.inflight_bytes, len(progress.inflight)) == (9, 0, 0)
    assert progress.probing
    assert not progress.probe_sent


def test_a_late_acknowledgement_never_moves_progress_back() -> None:
    progress = pipelining(9)
    assert not progress.accepted(LogIndex(3))
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


def test_p9_a_message_of_an_older_term_is_dropped_when_its_write_completes() -> None:
    outbox = Outbox()
    outbox.hold(send(after=1, term=1))
    outbox.hold(send(after=2, term=2))
    assert outbox.release(WriteId(2), Term(2)) == [send(after=2, term=2)]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"heartbeat_s": 0.4}, id="heartbeat too slow for the timeout"),
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
