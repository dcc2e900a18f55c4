"""Members claim on raft's wire what no correct one does: each claim changes nothing, and ends its link."""

import random
from collections.abc import Callable

import crc32c
import msgpack
import pytest

from raft.applier import _unpack_commands
from raft.codec import decode_message, encode_message
from raft.core import RaftCore
from raft.errors import ProtocolError
from raft.events import Receive
from raft.fingerprint import fingerprint
from raft.membership import MEMBERS_MAX, AddLearner, Configuration, ConfigurationEntry, Membership, make_change
from raft.messages import (
    AppendAccepted,
    AppendEntries,
    AppendRejected,
    InstallSnapshot,
    Message,
    RequestPreVote,
    RequestVote,
    SnapshotReceived,
    StandingReply,
    TimeoutNow,
)
from raft.model import NO_TERM, Batch, Entry, EntryKind, LogIndex, LogStart, NodeId, Offset, Position, Term
from raft.net.framing import FrameDecoder
from raft.objections import INDEX_MAX, TERM_MAX, TERM_STEP_MAX
from raft.recall import Recall
from tests.raft.conversation import Conversation

NAMES = {NodeId(node): NodeId(node) for node in (1, 2, 3)}


def group_of_three(*commands: str) -> Conversation:
    """Node 1 leads in term 1; its log has entries 1 to 3, all committed, and entry 4, which is its own alone."""
    group = Conversation()
    for command in ("nodes 3", "elect 1", "propose 1 a", "propose 1 b", "stabilize", *commands):
        group.command(command)
    return group


def leader() -> RaftCore:
    return group_of_three("propose 1 c").nodes[1].core


def follower() -> RaftCore:
    """Node 2, which has entry 4 of its leader, too, and does not know it to be committed."""
    core = group_of_three().nodes[2].core
    core.step(1.0, Receive(NodeId(1), append(3, 1, record(4, 1, 2), commit=3)))
    assert (core.commit_index, core.log.last_index, core.term, core.leader) == (3, 4, 1, 1)
    return core


def record(index: int, term: int, offset: int) -> Entry:
    batch = Batch(EntryKind.RECORDS, 1, 0, b"x", crc32c.crc32c(b"x"))
    return Entry(LogIndex(index), Term(term), Offset(offset), batch)


def append(prev_index: int, prev_term: int, *entries: Entry, term: int = 1, commit: int = 0) -> AppendEntries:
    return AppendEntries(Term(term), LogIndex(prev_index), Term(prev_term), LogIndex(commit), 0, entries)


def snapshot(index: int, term: int, offset: int = 3, *, sent_in: int = 1) -> InstallSnapshot:
    position = Position(LogIndex(index), Term(term))
    return InstallSnapshot(Term(sent_in), LogStart(position, Offset(offset), position, b""), 0)


def acceptance(match: int, verified: int | None = None, round_: int = 0) -> AppendAccepted:
    return AppendAccepted(Term(1), LogIndex(match), LogIndex(match if verified is None else verified), round_)


def rejection(prev: int, hint: int, round_: int = 0) -> AppendRejected:
    return AppendRejected(Term(1), LogIndex(prev), LogIndex(hint), Term(1), round_)


CLAIMS: dict[str, tuple[Callable[[], RaftCore], int, Message, str]] = {
    "to lead beside a leader": (follower, 3, append(4, 1), "node 1 leads in term 1, and node 3 says"),
    "to lead beside this leader": (leader, 2, append(4, 1), "node 1 leads in term 1, and node 2 says"),
    "to hand over for another leader": (follower, 3, TimeoutNow(Term(1)), "node 1 leads in term 1"),
    "to lead before the first term": (follower, 1, append(0, 0, term=0), "no node leads in term 0"),
    "a term near the end of all terms": (follower, 1, append(4, 1, term=TERM_MAX + 1), "no correct node can have"),
    "another entry where one is committed": (follower, 3, append(2, 1, record(3, 2, 1), term=2), "entry 3 cannot"),
    "another past than is committed": (follower, 3, append(3, 2, term=2), "entry 3 cannot be of term 2"),
    "another entry than it sent before": (follower, 1, append(3, 1, record(4, 0, 2)), "entry 4 cannot be of term 0"),
    "another past than it sent before": (follower, 1, append(4, 0), "entry 4 cannot be of term 0"),
    "a gap between records": (
        follower,
        1,
        append(4, 1, record(5, 1, 9)),
        "entry at index 5 begins at offset 3, not at 9",
    ),
    "a gap where entries are replaced": (
        follower,
        3,
        append(3, 1, record(4, 2, 7), term=2),
        "entry at index 4 begins at offset 2, not at 7",
    ),
    "more entries than a log has": (follower, 1, append(INDEX_MAX, 1, record(5, 1, 3)), "no log has"),
    "a snapshot beside a leader": (follower, 3, snapshot(9, 1), "node 1 leads in term 1"),
    "a snapshot against what is committed": (follower, 3, snapshot(3, 2, sent_in=2), "entry 3 cannot be of term 2"),
    "a snapshot against what it sent before": (follower, 1, snapshot(4, 0), "entry 4 cannot be of term 0"),
    "a snapshot whose terms fall": (follower, 3, snapshot(9, 0, sent_in=2), "entry 9 cannot be of term 0"),
    "a snapshot at the end of all indexes": (follower, 1, snapshot(INDEX_MAX + 1, 1), "no log has"),
    "a snapshot at the end of all offsets": (follower, 1, snapshot(9, 1, INDEX_MAX + 1), "no log has"),
    "to have what was not sent": (leader, 2, acceptance(5), "answer about index 5, and this leader has sent up to 4"),
    "to have verified what was not sent": (leader, 2, acceptance(4, 5), "answer about index 5"),
    "an answer to a round to come": (leader, 2, acceptance(3, round_=9), "answer to round 9"),
    "to refuse in a round to come": (leader, 2, rejection(3, 3, 9), "answer to round 9"),
    "to refuse with a place ahead": (leader, 2, rejection(3, 4), "refusal of index 3 points ahead, to 4"),
    "to have parts of another snapshot": (
        leader,
        2,
        SnapshotReceived(Term(1), LogIndex(2), 5, 0),
        "answer about index 2, and this leader has sent up to 0",
    ),
    "a last entry of its own term": (follower, 3, RequestVote(Term(2), LogIndex(9), Term(2)), "no candidate of term 2"),
    "a last entry without a term": (follower, 3, RequestPreVote(Term(2), LogIndex(9), Term(0)), "no candidate of"),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_member_that_claims_the_impossible_is_objected_to_and_changes_nothing(claim: str) -> None:
    make, sender, message, words = CLAIMS[claim]
    core = make()
    before = fingerprint(core, NAMES)
    assert words in (core.objection(NodeId(sender), message) or "")
    assert core.step(2.0, Receive(NodeId(sender), message)) == []
    assert fingerprint(core, NAMES) == before


POSSIBLE: dict[str, tuple[Callable[[], RaftCore], int, Message]] = {
    "a late message of its leader": (follower, 1, append(1, 1, record(2, 1, 0), record(3, 1, 1))),
    "what overlaps": (follower, 1, append(3, 1, record(4, 1, 2), record(5, 1, 3), commit=9)),
    "a place that is not here": (follower, 1, append(9, 1, record(10, 1, 40))),
    "a newer leader that replaces": (follower, 3, append(3, 1, record(4, 2, 2), term=2)),
    "a newer leader with a gap to us": (follower, 3, append(4, 2, record(5, 2, 77), term=2)),
    "to hand over in a newer term": (follower, 3, TimeoutNow(Term(2))),
    "a snapshot ahead": (follower, 1, snapshot(9, 1)),
    "a refusal from before, of a longer log": (leader, 2, rejection(9, 4, 0)),
    "all that was sent": (leader, 2, acceptance(4)),
}


@pytest.mark.parametrize("claim", POSSIBLE)
def test_what_a_correct_member_may_claim_is_not_objected_to(claim: str) -> None:
    make, sender, message = POSSIBLE[claim]
    assert make().objection(NodeId(sender), message) is None


# -------------------------------------------------------------------- members that a node asks when it remembers nothing


def tell(recall: Recall, sender: int, term: int, last_index: int = 1) -> None:
    recall.receive(NodeId(sender), StandingReply(Term(term), recall.question, LogIndex(last_index), Term(1)))


def recalling(*, joins: bool = False) -> Recall:
    return Recall.of(random.Random(1), (NodeId(2), NodeId(3)), was_member=False, joins=joins)


def test_one_member_cannot_give_a_node_that_remembers_nothing_a_term_out_of_reach() -> None:
    recall = recalling()
    tell(recall, 2, 2**50)
    tell(recall, 3, 5)
    assert not recall.may_end
    assert recall.missing == (2,)
    tell(recall, 2, 5 + TERM_STEP_MAX)
    assert recall.conclusion(NodeId(1), 2).term == 5 + TERM_STEP_MAX


def test_one_member_cannot_give_a_new_node_a_term_out_of_reach() -> None:
    recall = recalling(joins=True)
    recall.receive(NodeId(3), append(0, 0, term=2**50))
    assert recall.conclusion(NodeId(1), 2).term == NO_TERM + TERM_STEP_MAX
    tell(recall, 2, 7)
    assert recall.conclusion(NodeId(1), 2).term == 7 + TERM_STEP_MAX


# -------------------------------------------------------------------- what a decoder can refuse


def decode_again(message: Message) -> Message:
    ((message_type, body, crc),) = FrameDecoder(1 << 20).feed(b"".join(map(bytes, encode_message(message))))
    return decode_message(message_type, body, crc)


def at_address(address: str) -> Configuration:
    return Configuration(frozenset(NAMES), addresses={NodeId(1): address})


def test_a_configuration_with_a_place_that_cannot_be_dialled_is_refused() -> None:
    """It would be in force as soon as it is appended, and end each node that dials."""
    entries = [Entry(LogIndex(5), Term(1), Offset(3), at_address(each).to_batch()) for each in ("n1:4001", "nowhere")]
    assert decode_again(append(4, 1, entries[0])) == append(4, 1, entries[0])
    with pytest.raises(ProtocolError, match="no HOST:PORT"):
        decode_again(append(4, 1, entries[1]))


@pytest.mark.parametrize(
    ("index", "term", "address", "words"),
    [(2**63, 1, "", "the index of a configuration"), (4, 2, "", "the term of"), (4, 1, "nowhere", "no HOST:PORT")],
)
def test_a_snapshot_with_a_configuration_that_cannot_be_is_refused(
    index: int, term: int, address: str, words: str
) -> None:
    known = Membership([ConfigurationEntry(LogIndex(index), Term(term), at_address(address))])
    message = InstallSnapshot(Term(1), snapshot(5, 1).start, 0, configuration=known.snapshot())
    with pytest.raises(ProtocolError, match=words):
        decode_again(message)


@pytest.mark.parametrize("tail", [b"\xc1", msgpack.packb(7), msgpack.packb("text"), b"\xa1\xff", b"\xc4\x09short"])
def test_what_is_no_command_ends_its_entry_and_no_member(tail: bytes) -> None:
    data = msgpack.packb(b"one") + msgpack.packb(b"two")
    assert list(_unpack_commands(data + tail + msgpack.packb(b"three")))[:2] == [b"one", b"two"]


def test_a_member_that_lost_its_directory_can_be_taken_out_of_a_group_of_the_greatest_size() -> None:
    full = Configuration(frozenset(NodeId(node) for node in range(1, MEMBERS_MAX + 1)))
    assert NodeId(2) in make_change(full, AddLearner(2), {}).learners
