"""Wires of any kind get a length and a body from `raft.net`, and answers in the order of requests."""

import socket
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.net.connection import SocketConnection
from raft.net.decoder import GROWTH, LARGE_BYTES, PREFIX, BodyDecoder, Buffer
from raft.net.errors import WireError
from raft.net.framing import encode_frame
from raft.net.ordered import OrderedSession, Reply
from raft.net.reactor import Reactor
from raft.net.sharing import CHECKED_BYTES, UndecidedDecoder, native_type

BODY_MAX = 1000


def frame_bodies(*bodies: bytes) -> bytes:
    return b"".join(PREFIX.pack(len(body)) + body for body in bodies)


def pieces_of(stream: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[a:b] for a, b in pairwise(edges)]


@given(st.lists(st.binary(max_size=200), max_size=8), st.lists(st.integers(0, 2000), max_size=12))
def test_bodies_do_not_depend_on_how_the_stream_was_cut(bodies: list[bytes], places: list[int]) -> None:
    decoder = BodyDecoder(BODY_MAX)
    assert [body for piece in pieces_of(frame_bodies(*bodies), places) for body in decoder.feed(piece)] == bodies
    assert (decoder.failure, decoder.pending_bytes) == (None, 0)


@pytest.mark.parametrize("length", [BODY_MAX + 1, 2**31, 2**32 - 1], ids=str)
def test_a_length_over_the_bound_is_refused_on_sight_after_the_bodies_before_it(length: int) -> None:
    decoder = BodyDecoder(BODY_MAX)
    assert decoder.feed(frame_bodies(b"kept") + PREFIX.pack(length)) == [b"kept"]
    assert str(decoder.failure) == f"protocol error: a frame of {length} bytes is over the bound of {BODY_MAX}"
    assert decoder.feed(frame_bodies(b"never")) == []


def test_memory_grows_with_what_has_arrived_and_not_with_what_is_announced() -> None:
    decoder = BodyDecoder(1 << 30)
    decoder.feed(PREFIX.pack(1 << 30))
    assert decoder.room() is None
    decoder.feed(bytes(LARGE_BYTES))
    room = decoder.room()
    assert room is not None
    assert len(room) <= GROWTH * (LARGE_BYTES + PREFIX.size)


class Served:
    """One connection with a session that answers in order; the requests that were taken, and the plain socket of its client."""

    def __init__(self, reactor: Reactor, **bounds: int) -> None:
        near, self.far = socket.socketpair()
        self.far.setblocking(False)
        self.taken: dict[bytes, Reply] = {}
        self.closed: list[str] = []
        session = OrderedSession[Buffer](self.serve, lambda gone, reason: self.closed.append(reason), **bounds)
        session.connection = self.connection = SocketConnection(
            reactor, near, BodyDecoder(BODY_MAX), session, outbound_bytes_max=64 * 1024
        )

    def serve(self, body: Buffer, reply: Reply) -> None:
        if body == b"nonsense":
            raise WireError("nonsense")
        self.taken[bytes(body)] = reply

    def read(self) -> bytes:
        try:
            return self.far.recv(1 << 20)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self.connection.close("the test is over")
        self.far.close()


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    with closing(Reactor()) as reactor:
        yield reactor


@given(st.permutations(range(6)))
def test_whatever_is_done_first_answers_leave_in_the_order_of_requests(order: list[int]) -> None:
    with closing(Reactor()) as reactor, closing(Served(reactor)) as served:
        names = [b"%d" % number for number in range(6)]
        served.far.send(frame_bodies(*names))
        reactor.round()
        assert list(served.taken) == names, "work on all of them overlaps"
        received = b""
        for done in order:
            served.taken[names[done]].send(names[done])
            reactor.round()
            received += served.read()
            assert b"012345".startswith(received)
        assert received == b"012345"


def test_a_request_may_have_no_answer_and_holds_nothing_up(reactor: Reactor) -> None:
    with closing(Served(reactor)) as served:
        served.far.send(frame_bodies(b"a", b"b"))
        reactor.round()
        served.taken[b"b"].send(b"B", b"!")
        served.taken[b"a"].send()
        reactor.round()
        assert served.read() == b"B!"


def test_no_more_requests_are_taken_than_the_bound_until_one_is_answered(reactor: Reactor) -> None:
    with closing(Served(reactor, requests_max=2)) as served:
        served.far.send(frame_bodies(b"a", b"b", b"c", b"d"))
        reactor.round()
        assert list(served.taken) == [b"a", b"b"]
        served.taken[b"b"].send(b"B")  # waits for that to `a`, and so leaves no room
        reactor.round()
        assert list(served.taken) == [b"a", b"b"]
        served.far.send(frame_bodies(b"e"))
        reactor.round()
        assert served.connection.decoder.pending_bytes == 0, "what was sent since stays in the socket"
        served.taken[b"a"].send(b"A")
        reactor.round()
        assert served.read() == b"AB"
        assert list(served.taken) == [b"a", b"b", b"c", b"d"]
        served.taken[b"c"].send(b"C")
        reactor.round()
        reactor.round()
        assert list(served.taken)[-1] == b"e"


def test_requests_without_an_answer_are_bounded_in_bytes(reactor: Reactor) -> None:
    with closing(Served(reactor, taken_bytes_max=4)) as served:
        served.far.send(frame_bodies(b"aaa", b"bbb", b"ccc"))
        reactor.round()
        assert list(served.taken) == [b"aaa", b"bbb"], "the one that reaches the bound is still taken"
        served.taken[b"bbb"].send(b"B")
        reactor.round()
        assert list(served.taken) == [b"aaa", b"bbb", b"ccc"], (
            "an answer that waits for an earlier one is counted apart"
        )


def test_answers_that_wait_for_an_earlier_one_are_bounded_in_bytes(reactor: Reactor) -> None:
    with closing(Served(reactor, held_bytes_max=10)) as served:
        served.far.send(frame_bodies(b"a", b"b"))
        reactor.round()
        served.taken[b"b"].send(b"0123456789")
        served.far.send(frame_bodies(b"c"))
        reactor.round()
        assert b"c" not in served.taken
        served.taken[b"a"].send(b"A")
        reactor.round()
        assert served.read() == b"A0123456789"
        assert b"c" in served.taken


def test_a_client_that_does_not_read_is_read_no_more_until_it_does(reactor: Reactor) -> None:
    with closing(Served(reactor)) as served:
        served.far.send(frame_bodies(b"a"))
        reactor.round()
        served.taken[b"a"].send(bytes(1 << 20))
        reactor.round()
        served.far.send(frame_bodies(b"b"))
        reactor.round()
        assert b"b" not in served.taken
        received = 0
        while received < 1 << 20:
            received += len(served.read())
            reactor.round()
        reactor.round()
        assert b"b" in served.taken


def test_nonsense_closes_the_connection_and_late_answers_are_ignored(reactor: Reactor) -> None:
    with closing(Served(reactor)) as served:
        served.far.send(frame_bodies(b"a", b"nonsense", b"c"))
        reactor.round()
        assert served.closed == ["protocol error: nonsense"]
        assert list(served.taken) == [b"a"]
        served.taken[b"a"].send(b"A")
        assert served.read() == b""


def test_a_request_is_answered_once(reactor: Reactor) -> None:
    with closing(Served(reactor)) as served:
        served.far.send(frame_bodies(b"a"))
        reactor.round()
        served.taken[b"a"].send(b"A")
        with pytest.raises(AssertionError, match="once"):
            served.taken[b"a"].send(b"A")


def test_no_request_is_taken_within_the_answer_that_makes_room_for_it(reactor: Reactor) -> None:
    """The server answers in the middle of its work: a request served there would find it half done."""
    with closing(Served(reactor, requests_max=1)) as served:
        served.far.send(frame_bodies(b"a", b"b"))
        reactor.round()
        assert list(served.taken) == [b"a"]
        served.taken[b"a"].send(b"answer")
        assert list(served.taken) == [b"a"]
        reactor.round()
        assert list(served.taken) == [b"a", b"b"]
        assert reactor.has_more(), "those that work once a round are called for it"


@given(st.integers(0, 255), st.binary(max_size=20))
def test_a_native_frame_is_known_by_its_first_bytes(message_type: int, body: bytes) -> None:
    assert native_type(encode_frame(message_type, body)[:CHECKED_BYTES]) == message_type


@given(st.integers(0, 2**24), st.integers(0, 2**16), st.sampled_from([0, 1]))
def test_no_frame_of_rocketmq_is_taken_for_a_native_one(body_bytes: int, header_bytes: int, serialization: int) -> None:
    """The sixth byte is 0 in a header of less than 64 KiB, and no native wire begins with that type."""
    first = PREFIX.pack(4 + header_bytes + body_bytes) + PREFIX.pack(serialization << 24 | min(header_bytes, 2**16 - 1))
    assert native_type(first) in (None, 0)


@given(st.binary(min_size=CHECKED_BYTES, max_size=30), st.lists(st.integers(0, 40), max_size=6))
def test_a_wire_is_decided_once_and_sees_every_byte(stream: bytes, places: list[int]) -> None:
    seen: list[bytes] = []

    class Rest(BodyDecoder):
        def feed(self, chunk: Buffer) -> list[Buffer]:
            seen.append(bytes(chunk))
            return []

    decided: list[bytes] = []

    def decide(first: Buffer) -> BodyDecoder:
        decided.append(bytes(first))
        return Rest(BODY_MAX)

    undecided: UndecidedDecoder | BodyDecoder = UndecidedDecoder(decide, CHECKED_BYTES)
    for piece in pieces_of(stream, places):
        if decided:  # the connection has the new decoder by now
            seen.append(piece)
        else:
            undecided.feed(piece)
    assert b"".join(seen) == stream
    assert len(decided) == 1 and len(decided[0]) >= CHECKED_BYTES
