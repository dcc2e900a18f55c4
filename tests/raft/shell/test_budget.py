"""The budget of a process: what all connections hold stays under one total, and who is closed to keep it so."""

import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import attrs
import pytest
import trio

from raft.net.bounded import TAKEN_AT_ONCE
from raft.net.budget import CROWDED_OUT, LITTLE_BYTES, PATIENCE_S, Account, Arrivals, Budget, BudgetLimits, Standing
from raft.net.connection import CONNECTION_BYTES, SocketConnection
from raft.net.decoder import BodyDecoder, Buffer
from raft.net.listener import Listener, ListenerLimits, bind
from raft.net.ordered import OrderedSession, Reply
from raft.net.reactor import RECEIVE_BYTES, Reactor
from raft.net.tls import TlsStream
from raft.net.tls_socket import StreamSocket

MIB = 1024 * 1024
TOTAL = 4 * MIB
OTHERS = 3 * MIB
FRAME_BYTES = 2 * MIB
STRANGER, CLIENT, KNOWN, MEMBER = Standing


@attrs.define(eq=False)
class Held:
    """A connection that holds what a test gives it."""

    budget: Budget
    account: Account
    holds: int = 0
    is_closed: bool = False
    reads: int = 0

    def hold(self, count: int) -> "Held":
        self.holds = count
        self.budget.charge(self, count)
        return self

    def held_bytes(self) -> int:
        return self.holds

    def read_on(self) -> None:
        self.reads += 1

    def close(self, reason: str) -> None:
        assert reason == CROWDED_OUT
        self.is_closed = True
        self.budget.leave(self)


class Crowd:
    """A budget, and its connections in the order in which they came."""

    def __init__(self, total_bytes: int = 1000) -> None:
        self.budget = Budget(BudgetLimits(total_bytes=total_bytes))
        self.all: list[Held] = []

    def join(self, standing: Standing, count: int) -> Held:
        joined = Held(self.budget, Account(0, standing))
        self.budget.join(joined)
        self.all.append(joined)
        return joined.hold(count)

    @property
    def closed(self) -> list[int]:
        return [number for number, each in enumerate(self.all) if each.is_closed]


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


def test_the_others_stop_at_three_quarters_and_members_go_on(crowd: Crowd) -> None:
    client, member = crowd.join(CLIENT, 749), crowd.join(MEMBER, 0)
    assert [crowd.budget.admits(each) for each in (client, member)] == [True, True]
    client.hold(750)
    assert [crowd.budget.admits(each) for each in (client, member)] == [False, True]


@pytest.mark.parametrize("standing", [STRANGER, CLIENT])
def test_those_that_hold_little_go_on_while_others_find_no_room(standing: Standing) -> None:
    crowd = Crowd(8 * MIB)
    crowd.join(CLIENT, 6 * MIB)
    stranger = crowd.join(standing, 10)
    assert crowd.budget.admits(stranger)
    assert not crowd.budget.admits(stranger.hold(LITTLE_BYTES))


def test_reading_goes_on_when_an_eighth_is_free_again(crowd: Crowd) -> None:
    client, other = crowd.join(CLIENT, 700), crowd.join(CLIENT, 60)
    crowd.budget.hold_up(other)
    client.hold(640)
    assert (crowd.budget.is_short, other.reads) == (True, 0)
    client.hold(590)
    assert (crowd.budget.is_short, other.reads) == (False, 1)


def test_who_ends_while_all_is_counted_again_is_charged_no_more(crowd: Crowd) -> None:
    """The end of a shortage may end other connections: a link that is replaced, say."""
    shrinks, ends = crowd.join(CLIENT, 700), crowd.join(CLIENT, 60)

    class Replacing(Held):
        def read_on(self) -> None:
            crowd.budget.leave(ends)

    crowd.budget.hold_up(Replacing(crowd.budget, Account(0, CLIENT)))
    shrinks.holds = 500
    crowd.budget.relieve(1.0)
    assert crowd.budget.held_bytes == 500


def test_strangers_go_at_once_and_clients_only_when_waiting_is_of_no_use(crowd: Crowd) -> None:
    for standing in (KNOWN, CLIENT, STRANGER, CLIENT, STRANGER):
        crowd.join(standing, 200)
    crowd.budget.relieve(1.0)
    assert crowd.closed == [2, 4]
    crowd = Crowd()
    for standing in (KNOWN, CLIENT, KNOWN, CLIENT):
        crowd.join(standing, 200)
    crowd.budget.relieve(1.0)
    assert crowd.closed == []
    crowd.budget.relieve(1.0 + PATIENCE_S)
    assert crowd.closed == [3]


def test_the_youngest_goes_first_and_who_holds_little_stays(crowd: Crowd) -> None:
    for count in (300, 10, 300, 200, 10):
        crowd.join(CLIENT, count)
    crowd.budget.relieve(1.0)
    crowd.budget.relieve(1.0 + PATIENCE_S)
    assert crowd.closed == [3]


def test_a_member_that_fills_the_total_is_held_up_and_then_closed_and_no_other(crowd: Crowd) -> None:
    broken, healthy, client = crowd.join(MEMBER, 900), crowd.join(MEMBER, 50), crowd.join(CLIENT, 50)
    assert [crowd.budget.admits(each) for each in (broken, healthy, client)] == [False, True, False]
    crowd.budget.relieve(1.0)
    assert crowd.closed == []
    crowd.budget.relieve(1.0 + PATIENCE_S)
    assert crowd.closed == [0]
    assert not crowd.budget.is_short


def test_a_client_that_proves_to_be_a_member_counts_as_one(crowd: Crowd) -> None:
    client = crowd.join(STRANGER, 600)
    crowd.budget.promote(client, MEMBER)
    assert (crowd.budget.others_bytes, crowd.budget.members_bytes) == (0, 600)


def test_so_many_connections_are_accepted_in_a_second() -> None:
    arrivals = Arrivals(BudgetLimits(total_bytes=TOTAL, accepts_per_s=3))

    def accept(now: float) -> bool:
        if arrivals.may_accept(now):
            arrivals.note_accept()
            return True
        return False

    assert [accept(10.0) for _ in range(4)] == [True, True, True, False]
    assert [accept(10.5) for _ in range(2)] == [True, False]


# -------------------------------------------------------------------- a server


class Server:
    """Answers each request with `answer`, unless it begins with a zero: that one has no answer yet."""

    def __init__(self, *, limits: BudgetLimits | None = None, ports: ListenerLimits | None = None) -> None:
        self.reactor = Reactor(limits=limits or BudgetLimits(total_bytes=TOTAL))
        self.budget = self.reactor.budget
        self.answer = b"fine"
        self.served = 0
        self.refused: list[str] = []
        self.connections: list[SocketConnection[Buffer]] = []
        self.closed: list[str] = []
        self.listener: Listener[Buffer] = Listener(
            self.reactor,
            bind("127.0.0.1", 0),
            self._open,
            limits=ports or ListenerLimits(),
            on_refused=lambda name, reason: self.refused.append(reason),
        )
        self.dialled = ExitStack()
        self.peak_bytes = 0
        """The most that was really there after a round, of unfinished frames and of answers."""
        self.all_came = trio.Event()
        """Four connections were accepted."""

    def _open(self, accepted: StreamSocket, name: str) -> SocketConnection[Buffer]:
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
        session = OrderedSession[Buffer](lambda frame, reply: self._serve(connection, frame, reply), self._on_closed)
        connection = session.connection = SocketConnection(
            self.reactor, accepted, BodyDecoder(FRAME_BYTES), session, outbound_bytes_max=64 * 1024, name=name
        )
        self.connections.append(connection)
        if len(self.connections) == 4:
            self.all_came.set()
        return connection

    def _serve(self, connection: SocketConnection[Buffer], frame: Buffer, reply: Reply) -> None:
        if connection.standing is STRANGER:
            self.listener.on_greeted(connection, MEMBER if frame == b"member" else CLIENT)
        self.served += 1
        if frame[:1] != b"\0" and not connection.is_closed:
            reply.send(self.answer)

    def _on_closed(self, connection: SocketConnection[Buffer], reason: str) -> None:
        self.closed.append(reason)
        self.listener.forget(connection)

    def dial(self, *requests: bytes) -> socket.socket:
        """A client that has sent these requests."""
        client = self.dialled.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)  # what is not read stays with the server
        client.connect(self.listener.address)
        client.setblocking(False)
        self.reactor.round()
        self.reactor.round()
        for request in requests:
            self.send(client, frame_of(request))
        return client

    def send(self, client: socket.socket, data: bytes) -> int:
        """Send as much as the server takes. Returns the number of bytes."""
        sent = 0
        for _ in range(200):
            try:
                while sent < len(data):
                    sent += client.send(data[sent : sent + RECEIVE_BYTES])
            except BlockingIOError:
                pass
            except OSError:
                return sent
            self.rounds(1)
            if sent == len(data):
                return sent
        return sent

    def rounds(self, count: int) -> None:
        for _ in range(count):
            self.reactor.round()
            held = 0
            for each in self.connections:
                held += each.decoder.pending_bytes + sum(map(len, each._outbound))
            self.peak_bytes = max(self.peak_bytes, held)

    def close(self) -> None:
        self.dialled.close()
        self.listener.close("the test is over")
        self.reactor.close()


def frame_of(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def is_served(server: Server, client: socket.socket) -> bool:
    """Returns True if the client gets an answer to a small request."""
    server.send(client, frame_of(b"ping"))
    server.rounds(3)
    try:
        return client.recv(1 << 20).endswith(b"fine")
    except BlockingIOError:
        return False


@pytest.fixture
def server() -> Iterator[Server]:
    with closing(Server()) as server:
        yield server


def _read(client: socket.socket) -> None:
    with suppress(BlockingIOError):
        while client.recv(1 << 20):
            pass


def _relieve(server: Server, *times: float) -> None:
    for now in times:
        server.budget.relieve(now)
        server.rounds(2)


async def test_what_a_chunk_leaves_behind_is_charged_when_its_round_ends(server: Server) -> None:
    """A request without an answer next to one that has it; and an answer that the client does not read."""
    client = server.dial(b"hello")
    server.send(client, frame_of(b"ping") + frame_of(b"\0" * 1000))
    (connection,) = server.connections
    assert server.budget.held_bytes == connection.held_bytes() > CONNECTION_BYTES + 1000
    reader = server.dial(b"hello")
    server.answer = bytes(30 * 1024)
    while not (unread := server.connections[1].outbound_bytes):
        server.send(reader, frame_of(b"ping"))
    assert server.budget.held_bytes == connection.held_bytes() + CONNECTION_BYTES + unread


async def test_frames_that_are_never_finished_stay_under_the_total_and_a_client_is_served(server: Server) -> None:
    healthy = server.dial(b"hello")
    for number in range(20):
        slow = server.dial(b"hello") if number % 2 else server.dial()
        server.send(slow, frame_of(bytes(FRAME_BYTES))[: FRAME_BYTES // 2])
    assert server.peak_bytes <= server.budget.peak_bytes <= TOTAL
    _relieve(server, 1.0, 1.1 + PATIENCE_S)
    assert is_served(server, healthy)


async def test_answers_that_nobody_reads_stay_under_the_total_and_a_client_is_served(server: Server) -> None:
    healthy = server.dial(b"hello")
    server.answer = bytes(512 * 1024)
    clients = [server.dial(*[b"more"] * 30) for _ in range(30)]
    assert OTHERS // 2 <= server.peak_bytes <= server.budget.peak_bytes <= TOTAL
    for _ in range(40):  # what they read makes room for more answers to each
        for client in clients:
            _read(client)
        server.rounds(1)
    assert server.peak_bytes <= TOTAL
    server.answer = b"fine"
    _relieve(server, 1.0, 1.1 + PATIENCE_S)
    assert is_served(server, healthy)


async def test_requests_that_wait_for_their_answers_stay_under_the_total(server: Server) -> None:
    for _ in range(30):
        server.dial(*[bytes(100_000)] * 30)
    assert OTHERS <= server.budget.peak_bytes <= TOTAL
    assert server.budget.shortages


async def test_a_member_is_served_while_clients_fill_their_part(server: Server) -> None:
    for _ in range(4):
        server.dial(*[bytes(100_000)] * 10)
    assert server.budget.is_short
    member = server.dial(b"member")
    assert is_served(server, member)
    assert server.budget.members_bytes


async def test_what_has_ended_is_held_no_more(server: Server) -> None:
    client = server.dial(*[bytes(100_000)] * 40)
    assert server.budget.is_short
    client.close()
    _relieve(server, 1.0, 1.1 + PATIENCE_S)
    server.rounds(2)
    assert (server.budget.held_bytes, server.budget.is_short) == (0, False)


async def test_a_closed_connection_keeps_nothing_of_a_frame_that_had_begun(server: Server) -> None:
    client = server.dial(b"hello")
    server.send(client, frame_of(bytes(FRAME_BYTES))[:MIB])
    server.rounds(8)
    (connection,) = server.connections
    assert connection.decoder.held_bytes >= MIB
    connection.close("the test is over")
    assert connection.decoder.held_bytes == 0


async def test_tiny_requests_by_the_thousand_leave_their_turn_to_others(server: Server) -> None:
    client = server.dial(b"hello")
    server.rounds(2)
    client.setblocking(True)
    client.send(frame_of(b"x") * 3000)
    before, taken = 0, list[int]()
    while before < 3000:
        server.rounds(1)
        taken.append(server.served - 1 - before)
        before += taken[-1]
        client.recv(1 << 20)
    assert max(taken) <= 2 * TAKEN_AT_ONCE


async def test_a_connection_costs_something_by_itself(server: Server) -> None:
    server.dial()
    assert server.budget.others_bytes == CONNECTION_BYTES


def test_what_arrives_of_a_handshake_is_counted() -> None:
    stream = TlsStream(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), server_side=True)
    for _ in range(3):
        stream.feed(b"\x16\x03\x01\x10\x00" + b"\x01\x00\xff\xff" + bytes(0x1000 - 4))  # a ClientHello of 65,535 bytes
    assert stream.held_bytes >= 3 * 0x1000


async def test_one_address_has_so_many_connections_and_members_are_not_counted() -> None:
    limits = BudgetLimits(total_bytes=TOTAL, per_address_max=2)
    with closing(Server(limits=limits)) as server:
        member, client = server.dial(b"member"), server.dial(b"hello")
        server.dial(b"hello")
        assert not server.refused
        server.dial()
        assert server.refused == ["127.0.0.1 has all 2 connections of an address"]
        client.close()
        server.rounds(2)
        assert is_served(server, server.dial())
        assert is_served(server, member)


async def test_a_member_finds_a_place_where_clients_find_none() -> None:
    with closing(Server(ports=ListenerLimits(connections_max=4, member_places=2))) as server:
        clients = [server.dial(b"hello") for _ in range(3)]
        assert server.closed == ["all 2 connections are in use"]
        for _ in range(3):
            server.dial()  # those that say nothing make room for those that come
        assert is_served(server, server.dial(b"member"))
        assert is_served(server, clients[0])


async def test_a_member_finds_a_descriptor_where_clients_find_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Server()) as server:
        limit = 2 * (server.dial(b"hello").fileno() + 10)
        monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
        client = server.dial(b"hello")
        while not server.refused:
            client = server.dial(b"hello")
        client.close()
        assert set(server.refused) == {"the process is short of file descriptors"}
        assert is_served(server, server.dial(b"member"))


async def test_what_comes_too_fast_waits_to_be_accepted() -> None:
    with closing(Server(limits=BudgetLimits(total_bytes=TOTAL, accepts_per_s=2))) as server:
        for _ in range(4):
            server.dial()
        assert server.listener.connections == 2
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.reactor.run)
            nursery.start_soon(server.listener.run)
            with trio.fail_after(10):
                await server.all_came.wait()
            nursery.cancel_scope.cancel()
