"""Connections on a reactor: bounded queues, and failures that stay where they belong."""

import os
import random
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace

import pytest
import trio
from trio.testing import MockClock

from log.errors import StorageFailed
from raft.errors import ProtocolError
from raft.net.budget import Standing
from raft.net.connection import CLOSED_BY_OTHER_SIDE, JOIN_BYTES, Session, SocketConnection
from raft.net.decoder import Buffer, Decoder
from raft.net.errors import WireError
from raft.net.framing import Frame, FrameDecoder, encode_frame
from raft.net.listener import Listener, ListenerLimits, bind
from raft.net.reactor import READABLE, SLEEPS_S, SPIN_S, Reactor
from raft.net.sharing import UndecidedDecoder
from raft.net.tls_socket import StreamSocket

QUEUE_BYTES = 64 * 1024


class Recorder(Session[Frame]):
    """A session that records its calls; type 99 is an invalid frame, type 98 a broken invariant, type 97 a bug."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, Buffer]] = []
        self.drained = 0
        self.errors: list[str] = []
        self.closed: list[str] = []

    def on_frames(self, frames: list[Frame]) -> None:
        for frame in frames:
            if frame[0] == 99:
                raise ProtocolError("type 99")
            assert frame[0] != 98, "an invariant"
            if frame[0] == 97:
                raise KeyError("a bug")
            self.frames.append(frame[:2])

    def on_drained(self) -> None:
        self.drained += 1

    def on_wire_error(self, error: WireError) -> None:
        self.errors.append(str(error))

    def on_closed(self, reason: str) -> None:
        self.closed.append(reason)


class Ends:
    """A connection and the plain socket at its other end."""

    def __init__(self, reactor: Reactor, *, lossy: bool = False) -> None:
        near, self.far = socket.socketpair()
        self.far.setblocking(False)
        self.session = Recorder()
        self.connection = SocketConnection(
            reactor, near, FrameDecoder(1000), self.session, outbound_bytes_max=QUEUE_BYTES, lossy=lossy
        )

    def read_all(self) -> bytes:
        received = b""
        while True:
            try:
                chunk = self.far.recv(1024 * 1024)
            except BlockingIOError:
                return received
            if not chunk:
                return received
            received += chunk

    def close(self) -> None:
        self.connection.close("the test is over")
        self.far.close()


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    reactor = Reactor()
    yield reactor
    reactor.close()


def test_what_is_written_within_a_round_leaves_joined_and_in_order(reactor: Reactor) -> None:
    with closing(Ends(reactor)) as ends:
        ends.connection.write(b"one ")
        ends.connection.write(b"two")
        assert ends.read_all() == b""
        reactor.round()
        assert ends.read_all() == b"one two"


def test_what_is_sent_leaves_at_once_behind_what_was_written(reactor: Reactor) -> None:
    with closing(Ends(reactor)) as ends:
        ends.connection.write(b"one ")
        ends.connection.send(b"two")
        assert ends.read_all() == b"one two"


def test_a_frame_of_nonsense_closes_its_own_connection_with_one_reason(reactor: Reactor) -> None:
    with closing(Ends(reactor)) as bad, closing(Ends(reactor)) as good:
        bad.far.send(encode_frame(5, b"kept") + encode_frame(99, b"") + encode_frame(6, b"never seen"))
        good.far.send(encode_frame(7, b"fine"))
        reactor.round()
        assert bad.session.frames == [(5, b"kept")]
        assert bad.session.errors == bad.session.closed == ["protocol error: type 99"]
        assert good.session.frames == [(7, b"fine")]
        assert not good.connection.is_closed


def test_bytes_that_are_no_frame_close_the_connection_after_the_frames_before_them(reactor: Reactor) -> None:
    with closing(Ends(reactor)) as ends:
        ends.far.send(encode_frame(5, b"kept") + b"\xff" * 12)
        reactor.round()
        assert ends.session.frames == [(5, b"kept")]
        assert len(ends.session.closed) == 1


def test_a_broken_invariant_and_a_failed_disk_climb_out_of_the_round(reactor: Reactor) -> None:
    with closing(Ends(reactor)) as ends:
        ends.far.send(encode_frame(98, b""))
        with pytest.raises(AssertionError, match="an invariant"):
            reactor.round()
        with pytest.raises(StorageFailed):
            ends.connection.refuse(StorageFailed("write", "file", "I/O error"))
        assert not ends.connection.is_closed


def test_any_other_error_of_a_session_closes_its_own_connection_and_is_logged(
    reactor: Reactor, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(Ends(reactor)) as bad, closing(Ends(reactor)) as good:
        bad.far.send(encode_frame(97, b""))
        good.far.send(encode_frame(7, b"fine"))
        reactor.round()
        assert bad.session.closed == ["protocol error: this process failed to handle what was sent (KeyError)"]
        assert good.session.frames == [(7, b"fine")]
    assert "a bug" in caplog.text


@pytest.mark.parametrize("error", [ProtocolError, KeyError])
def test_an_error_of_who_decides_the_wire_closes_that_connection_alone(
    reactor: Reactor, error: type[Exception]
) -> None:
    def decide(first: Buffer) -> Decoder[Frame]:
        raise error("no such group")

    with closing(Ends(reactor)) as bad, closing(Ends(reactor)) as good:
        bad.connection.decoder = UndecidedDecoder(decide)
        bad.far.send(b"whatever")
        good.far.send(encode_frame(7, b"fine"))
        reactor.round()
        assert len(bad.session.closed) == 1
        assert good.session.frames == [(7, b"fine")]


def test_the_end_is_told_once_when_the_other_side_closes(reactor: Reactor) -> None:
    with closing(Ends(reactor)) as ends:
        ends.far.close()
        reactor.round()
        ends.connection.close("again")
        assert ends.session.closed == [CLOSED_BY_OTHER_SIDE]


def test_a_connection_that_is_written_to_after_its_end_drops_it(reactor: Reactor) -> None:
    with closing(Ends(reactor)) as ends:
        ends.connection.close("over")
        assert not ends.connection.write(b"x")
        reactor.round()


def test_a_paused_connection_leaves_bytes_in_the_socket_until_it_resumes(reactor: Reactor) -> None:
    with closing(Ends(reactor)) as ends:
        ends.connection.pause_reading()
        ends.far.send(encode_frame(5, b""))
        reactor.round()
        assert ends.session.frames == []
        ends.connection.resume_reading()
        reactor.round()
        assert ends.session.frames == [(5, b"")]


def test_a_full_connection_says_so_until_its_queue_has_drained(reactor: Reactor) -> None:
    with closing(Ends(reactor)) as ends:
        sent = b""
        while not ends.connection.is_full:
            piece = bytes([len(sent) % 251]) * 9973
            ends.connection.send(piece)
            sent += piece
        received = b""
        while len(received) < len(sent):
            received += ends.read_all()
            reactor.round()
        assert received == sent
        assert ends.session.drained == 1
        assert not ends.connection.is_full


def test_a_lossy_connection_drops_whole_new_frames_when_full_and_goes_on(reactor: Reactor) -> None:
    with closing(Ends(reactor, lossy=True)) as ends:
        piece = encode_frame(1, b"p" * 1000)
        taken = [ends.connection.send(piece) for _ in range(2000)]
        assert ends.connection.outbound_bytes <= QUEUE_BYTES
        assert not taken[-1]
        received = b""
        while ends.connection.outbound_bytes:
            received += ends.read_all()
            reactor.round()
        received += ends.read_all()
        assert received == piece * sum(taken)
        assert ends.connection.send(piece)


SIZES = (1, 40, 3000, JOIN_BYTES - 1, JOIN_BYTES, JOIN_BYTES + 1, 3 * JOIN_BYTES)


@pytest.mark.parametrize("seed", range(20))
def test_pieces_of_all_sizes_arrive_in_order_however_little_the_socket_takes(reactor: Reactor, seed: int) -> None:
    rng = random.Random(seed)
    with closing(Ends(reactor)) as ends:
        ends.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, rng.choice([4096, 300_000]))
        sent, received = b"", b""
        for _ in range(12):
            pieces = [rng.randbytes(rng.choice(SIZES)) for _ in range(rng.randint(1, 4))]
            ends.connection.write_pieces(pieces)
            sent += b"".join(pieces)
            assert ends.connection.outbound_bytes == len(sent) - len(received)
            reactor.round()
            received += ends.read_all()
        while len(received) < len(sent):
            reactor.round()
            received += ends.read_all()
        assert received == sent
        assert not ends.connection.outbound_bytes


def test_a_lossy_connection_drops_all_pieces_of_a_frame_or_none(reactor: Reactor) -> None:
    with closing(Ends(reactor, lossy=True)) as ends:
        assert ends.connection.write_pieces([b"a" * 10, b"b" * (QUEUE_BYTES - 20)])
        assert not ends.connection.write_pieces([b"c" * 10, b"d"])
        assert ends.connection.write_pieces([b"e" * 9, b"f"])
        reactor.round()
        assert ends.read_all() == b"a" * 10 + b"b" * (QUEUE_BYTES - 20) + b"e" * 9 + b"f"


def test_a_lossy_connection_takes_one_frame_above_its_bound_when_empty(reactor: Reactor) -> None:
    with closing(Ends(reactor, lossy=True)) as ends:
        assert ends.connection.write(b"x" * (QUEUE_BYTES + 1))


class Greedy(Recorder):
    """A session that writes more whenever its queue is empty."""

    connection: SocketConnection[Frame]

    def on_drained(self) -> None:
        super().on_drained()
        self.fill()

    def fill(self) -> None:
        while not self.connection.is_full:
            self.connection.write(b"x" * QUEUE_BYTES)


def test_somebody_who_takes_all_there_is_does_not_hold_up_a_round(reactor: Reactor) -> None:
    with closing(Ends(reactor)) as ends:
        greedy = Greedy()
        greedy.connection, ends.connection.session = ends.connection, greedy
        ends.far.setblocking(True)
        reader = threading.Thread(target=lambda: [None for _ in iter(lambda: ends.far.recv(1 << 20), b"")])
        reader.start()
        greedy.fill()
        while greedy.drained < 3:
            before = greedy.drained
            reactor.round()
            assert greedy.drained <= before + 1
        ends.connection.close("enough")
        reader.join()


class Guest(Recorder):
    """A session that reports its end to its listener."""

    connection: SocketConnection[Frame]

    def __init__(self, door: "Door") -> None:
        super().__init__()
        self._door = door

    def on_closed(self, reason: str) -> None:
        super().on_closed(reason)
        self._door.listener.forget(self.connection)


class Door:
    """A listener whose connections are recorded."""

    def __init__(self, reactor: Reactor, **limits: float) -> None:
        self.reactor = reactor
        self.sessions: list[Recorder] = []
        self.connections: list[SocketConnection[Frame]] = []
        self.refused: list[str] = []
        self.listener: Listener[Frame] = Listener(
            reactor,
            bind("127.0.0.1", 0),
            self._open,
            limits=ListenerLimits(**limits),  # type: ignore[arg-type]
            on_refused=lambda name, reason: self.refused.append(reason),
        )

    def _open(self, accepted: StreamSocket, name: str) -> SocketConnection[Frame]:
        session = Guest(self)
        self.sessions.append(session)
        session.connection = SocketConnection(
            self.reactor, accepted, FrameDecoder(1000), session, outbound_bytes_max=1000, name=name
        )
        self.connections.append(session.connection)
        return session.connection

    def dial(self) -> socket.socket:
        dialled = socket.create_connection(self.listener.address)
        self.reactor.round()
        return dialled


async def test_a_connection_by_which_nothing_comes_is_closed_where_that_is_wanted(
    reactor: Reactor, autojump_clock: MockClock
) -> None:
    door = Door(reactor, idle_timeout_s=10.0)
    with closing(door.dial()) as silent, closing(door.dial()) as busy:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(door.listener.run)
            for connection in door.connections:
                door.listener.on_greeted(connection)
            for _ in range(4):
                busy.send(encode_frame(1, b"alive"))
                reactor.round()
                await trio.sleep(4)
            nursery.cancel_scope.cancel()
        assert [session.closed for session in door.sessions] == [["idle for 10 s"], []]
        assert silent.recv(1) == b""
        door.connections[1].close("the test is over")
    door.listener.close("the test is over")


async def test_connections_above_the_bound_are_sent_away(reactor: Reactor) -> None:
    door = Door(reactor, connections_max=2)
    with closing(door.dial()), closing(door.dial()):
        for connection in door.connections:
            door.listener.on_greeted(connection)
        with closing(door.dial()) as third:
            assert third.recv(1) == b""
        assert door.refused == ["all 2 connections are in use"]
        door.connections[0].close("leaves")
        with closing(door.dial()):
            assert len(door.connections) == 3
        door.listener.close("over")
    assert door.sessions[1].closed == ["over"]


async def test_connections_leave_descriptors_to_the_rest_of_the_process(
    reactor: Reactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Door(reactor)
    with closing(door.dial()) as first:
        limit = 2 * (first.fileno() + 3)
        monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
        with closing(door.dial()), closing(door.dial()):
            for connection in door.connections:
                door.listener.on_greeted(connection, Standing.MEMBER)
            with closing(door.dial()) as last:
                assert last.recv(1) == b""
        assert door.refused[-1] == "the process is short of file descriptors"
        door.listener.close("over")


class FakeEpoll:
    """An epoll, and its clock. `waits` is how long nothing is ready, one wait after the other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, waits: list[float]) -> None:
        self.now = 0.0
        self.yields_for_s = 1e-6
        self.slept = 0.0
        self._waits = iter(waits)
        self._ready_at = 0.0
        monkeypatch.setattr("raft.net.reactor.select", SimpleNamespace(epoll=lambda: self))
        monkeypatch.setattr("raft.net.reactor.time", SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr(os, "sched_yield", self._yield)

    def register(self, descriptor: int, events: int) -> None:
        """The reactor's own wake-up, which is not used here."""

    def close(self) -> None:
        """Nothing to release."""

    def poll(self, timeout_s: float) -> list[tuple[int, int]]:
        self.now += 1e-6
        asleep_s = min(timeout_s, max(0.0, self._ready_at - self.now))
        self.slept += asleep_s
        self.now += asleep_s
        return [(-1, READABLE)] if self.now >= self._ready_at else []

    def _yield(self) -> None:
        self.now += self.yields_for_s

    def slept_in_next_round(self, reactor: Reactor) -> float:
        self._ready_at = self.now + next(self._waits)
        self.slept = 0.0
        assert reactor.round(0.004) == 1
        return self.slept


BRIEF, LONG = 0.6 * SPIN_S, 4 * SPIN_S


def test_a_reactor_sleeps_unless_its_last_wait_was_brief(monkeypatch: pytest.MonkeyPatch) -> None:
    epoll = FakeEpoll(monkeypatch, [BRIEF, BRIEF, BRIEF, LONG, LONG, BRIEF, BRIEF])
    with closing(Reactor(owns_thread=True)) as reactor:
        slept = [round(epoll.slept_in_next_round(reactor) / SPIN_S, 1) for _ in range(7)]
    assert slept == [0.6, 0, 0, 3.0, 4.0, 0.6, 0]


def test_a_reactor_that_shares_its_processor_sleeps_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    epoll = FakeEpoll(monkeypatch, [BRIEF] * 6)
    with closing(Reactor(owns_thread=True)) as reactor:
        assert epoll.slept_in_next_round(reactor)
        assert not epoll.slept_in_next_round(reactor)
        epoll.yields_for_s = 0.003
        assert not epoll.slept_in_next_round(reactor), "that it is crowded is learnt by giving way"
        epoll.yields_for_s = 1e-6
        assert epoll.slept_in_next_round(reactor), "the last wait was not brief"
        assert epoll.slept_in_next_round(reactor), "the last wait was, but not long ago it was crowded"
        epoll.now += SLEEPS_S
        assert not epoll.slept_in_next_round(reactor)


async def test_a_reactor_that_owns_its_thread_lets_others_run_however_busy_its_sockets_are() -> None:
    reactor = Reactor(owns_thread=True)
    with closing(reactor):
        ends = Ends(reactor)
        rounds = 0

        class Busy:
            def on_round_end(self) -> None:
                nonlocal rounds
                rounds += 1
                ends.far.send(encode_frame(1, b"x"))

            def on_urgent_sent(self) -> None: ...

            def on_all_sent(self) -> None: ...

            def on_failed(self) -> None: ...

        reactor.attach(Busy())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reactor.run)
            reactor.request_round()
            with trio.fail_after(30):
                while rounds < 1000:
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        ends.close()
    assert len(ends.session.frames) > 900, "the sockets were served meanwhile"
