"""The decider of a consumer: each message is given once, and each policy about late messages keeps what it states."""

import pytest

from raft.two_topics import receiving
from raft.two_topics.envelope import Envelope, ForeignMessage
from raft.two_topics.receiving import Compensate, DropLate, DropOldEpochs, PairInbox, Policy, Replay, Take


def letter(number: int, *, epoch: int = 1, sent_ms: int = 0, writer: str = "w") -> Envelope:
    """A message of a writer."""
    return Envelope(writer=writer, number=number, epoch=epoch, sent_ms=sent_ms)


def takes(policy: Policy, *envelopes: Envelope, now_ms: int = 0, key: bytes = b"k") -> list[Take]:
    """Returns what becomes of messages of one key that are read in this order."""
    inbox = PairInbox(policy)
    return [inbox.take(now_ms, envelope, key) for envelope in envelopes]


@pytest.mark.parametrize("policy", [Replay(), DropLate(deadline_s=1.0), DropOldEpochs(), Compensate()])
def test_a_message_is_given_once_whichever_cluster_it_comes_from(policy: Policy) -> None:
    assert takes(policy, letter(1), letter(2), letter(1), letter(2)) == [Take.GIVE] * 2 + [Take.DOUBLE] * 2
    assert takes(policy, letter(1), letter(1, writer="other")) == [Take.GIVE, Take.GIVE]


def test_replay_gives_everything_however_late() -> None:
    assert takes(Replay(), letter(2, epoch=2), letter(1), now_ms=10**9) == [Take.GIVE, Take.GIVE]


def test_a_deadline_drops_what_is_older() -> None:
    old, young = letter(1, sent_ms=999), letter(2, sent_ms=1000)
    assert takes(DropLate(deadline_s=2.0), old, young, now_ms=3000) == [Take.DROP, Take.GIVE]


def test_an_epoch_drops_what_was_written_before_its_writer_had_left_a_cluster_and_something_newer_was_read() -> None:
    assert takes(DropOldEpochs(), letter(1), letter(3, epoch=2), letter(2), letter(4, epoch=2)) == [
        Take.GIVE,
        Take.GIVE,
        Take.DROP,
        Take.GIVE,
    ]
    inbox = PairInbox(DropOldEpochs())
    assert inbox.take(0, letter(3, epoch=2), b"k") is Take.GIVE
    assert inbox.take(0, letter(2), b"another key") is Take.GIVE


def test_what_comes_after_a_newer_message_of_its_key_is_set_apart() -> None:
    assert takes(Compensate(), letter(1), letter(3), letter(2), letter(4)) == [
        Take.GIVE,
        Take.GIVE,
        Take.COMPENSATE,
        Take.GIVE,
    ]
    inbox = PairInbox(Compensate())
    assert [inbox.take(0, letter(3), b"k"), inbox.take(0, letter(2), b"l")] == [Take.GIVE, Take.GIVE]
    assert inbox.take(0, letter(1, writer="other"), b"k") is Take.GIVE


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "NUMBERS_MAX", 3)
    monkeypatch.setattr(receiving, "KEYS_MAX", 2)
    inbox = PairInbox(Compensate())
    assert [inbox.take(0, letter(number), b"k") for number in (2, 3, 4, 5)] == [Take.GIVE] * 4
    assert inbox.take(0, letter(3), b"k") is Take.DOUBLE
    assert inbox.take(0, letter(2), b"k") is Take.COMPENSATE
    for number, key in ((9, b"l"), (10, b"m")):
        inbox.take(0, letter(number), key)
    assert inbox.take(0, letter(1), b"k") is Take.GIVE


def test_marks_travel_as_headers_and_a_message_without_them_is_foreign() -> None:
    envelope = letter(7, epoch=3, sent_ms=12)
    assert Envelope.of(envelope.headers()) == envelope
    for headers in ({}, {**envelope.headers(), "tt-number": "seven"}):
        with pytest.raises(ForeignMessage):
            Envelope.of(headers)


def test_an_old_message_makes_no_other_old_message_new() -> None:
    read = takes(Compensate(), letter(1), letter(5), letter(3), letter(4))
    assert read == [Take.GIVE, Take.GIVE, Take.COMPENSATE, Take.COMPENSATE]
