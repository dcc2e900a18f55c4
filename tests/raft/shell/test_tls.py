"""TLS under the native wire: streams of bytes, sockets on a reactor, listeners and dials, and whole nodes."""

import logging
import random
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from jepsen_like.cluster.authority import Authority
from raft.client import Client, Connection, Unreachable
from raft.errors import ProtocolError
from raft.net import certificates
from raft.net.certificates import (
    Certificates,
    ClientCertificates,
    TlsFiles,
    UnusableFiles,
    client_context,
    server_context,
)
from raft.net.connection import CLOSED_BY_OTHER_SIDE, Session, SocketConnection
from raft.net.dialing import dial
from raft.net.framing import Frame, FrameDecoder, encode_frame
from raft.net.listener import TLS_TIMEOUT_S, Listener, ListenerLimits, bind
from raft.net.reactor import Reactor
from raft.net.tls import RECORD_BYTES_MAX, SPEAKS_PLAIN_TEXT, TlsFailed, TlsStream
from raft.net.tls_socket import StreamSocket, TlsSocket
from tests.examples import examples
from tests.raft.shell.nodes import CLUSTER_ID, local_cluster, until

FRAME_BYTES_MAX = 8 * 1024 * 1024


def files_of(authority: Authority, name: str, clients: ClientCertificates = ClientCertificates.NONE) -> TlsFiles:
    issued = authority.files_of(name)
    return TlsFiles(
        certificate=str(issued.certificate), key=str(issued.key), authority=str(authority.certificate), clients=clients
    )


def trusting(authority: Authority) -> TlsFiles:
    """A client without a certificate."""
    return TlsFiles(authority=str(authority.certificate))


# -------------------------------------------------------------------- bytes in, bytes out


@attrs.define
class Streams:
    """Both sides of a connection without a socket; bytes travel in pieces of any size."""

    client: TlsStream
    server: TlsStream
    rng: random.Random

    def shuttle(self) -> tuple[bytes, bytes]:
        """Carry bytes both ways until none are left. Returns the plain text that arrived at the server and the client."""
        arrived = {id(self.client): b"", id(self.server): b""}
        moved = True
        while moved:
            moved = False
            for sender, receiver in ((self.client, self.server), (self.server, self.client)):
                if not sender.is_ready and not receiver.is_ready:
                    sender.shake_hands()
                sealed = sender.output()
                moved = moved or bool(sealed)
                while sealed:
                    size = self.rng.choice((1, 4, 5, 1000, len(sealed)))
                    receiver.feed(sealed[:size])
                    sealed = sealed[size:]
                    place = memoryview(bytearray(64 * 1024))
                    while count := receiver.read_into(place):
                        arrived[id(receiver)] += bytes(place[:count])
        return arrived[id(self.server)], arrived[id(self.client)]


def streams(client: TlsFiles, server: TlsFiles, host: str = "localhost", seed: int = 1) -> Streams:
    return Streams(
        TlsStream(client_context(client), server_side=False, host=host),
        TlsStream(server_context(server), server_side=True),
        random.Random(seed),
    )


@pytest.mark.parametrize("seed", range(3))
def test_what_one_side_seals_the_other_reads_however_it_is_cut_into_pieces(authority: Authority, seed: int) -> None:
    pair = streams(trusting(authority), files_of(authority, "server"), seed=seed)
    pair.shuttle()
    assert pair.client.is_ready
    assert pair.server.is_ready
    sent = random.Random(seed).randbytes(100_000)
    pair.client.seal(sent)
    pair.server.seal(sent[::-1])
    assert pair.shuttle() == (sent, sent[::-1])
    assert pair.client.pending_bytes == pair.server.pending_bytes == 0


def test_a_record_that_has_arrived_in_part_is_pending(authority: Authority) -> None:
    pair = streams(trusting(authority), files_of(authority, "server"))
    pair.shuttle()
    pair.client.seal(b"text")
    sealed = pair.client.output()
    for size in range(1, len(sealed)):
        pair.server.feed(sealed[size - 1 : size])
        assert pair.server.pending_bytes > 0
    pair.server.feed(sealed[-1:])
    assert pair.server.pending_bytes == 0


def test_both_sides_know_whose_certificate_the_other_one_has(authority: Authority) -> None:
    required = files_of(authority, "server", ClientCertificates.REQUIRED)
    pair = streams(files_of(authority, "alice"), required)
    pair.shuttle()
    assert pair.client.subject == "CN=server,O=quorumlog"
    assert pair.server.subject == "CN=alice,O=quorumlog"
    unnamed = streams(trusting(authority), files_of(authority, "server", ClientCertificates.REQUESTED))
    unnamed.shuttle()
    assert unnamed.server.is_ready
    assert unnamed.server.subject is None


def test_a_client_without_the_certificate_that_is_required_is_refused_with_the_reason_on_both_sides(
    authority: Authority,
) -> None:
    pair = streams(trusting(authority), files_of(authority, "server", ClientCertificates.REQUIRED))
    with pytest.raises(TlsFailed, match="the client has sent no certificate, and one is required"):
        pair.shuttle()
    pair.client.feed(pair.server.output())
    with pytest.raises(TlsFailed, match="the other side requires a certificate of this one"):
        pair.client.read_into(memoryview(bytearray(100)))


def test_a_certificate_that_has_expired_or_is_of_another_authority_or_host_is_refused(
    authority: Authority, tmp_path: Path
) -> None:
    own = Authority.at(tmp_path)
    own.issue_node("expired", days=-1)
    own.issue_node("server")
    for name, client, host, reason in (
        ("expired", trusting(own), "localhost", "certificate has expired"),
        (
            "server",
            trusting(authority),
            "localhost",
            "self-signed certificate in certificate chain|unable to get local issuer|signature failure",
        ),
        ("server", trusting(own), "example.com", "Hostname mismatch"),
    ):
        pair = streams(client, files_of(own, name), host)
        with pytest.raises(TlsFailed, match=f"the handshake failed: the certificate is refused: .*({reason})"):
            pair.shuttle()
        with pytest.raises(TlsFailed, match="the other side"):  # by an alert
            pair.server.feed(pair.client.output())
    unchecked = streams(attrs.evolve(trusting(own), checks_host=False), files_of(own, "server"), "example.com")
    unchecked.shuttle()
    assert unchecked.client.is_ready


def test_earlier_versions_than_tls_1_2_are_refused(authority: Authority) -> None:
    old = client_context(trusting(authority))
    with pytest.warns(DeprecationWarning, match="deprecated"):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    pair = streams(trusting(authority), files_of(authority, "server"))
    pair.client = TlsStream(old, server_side=False, host="localhost")
    with pytest.raises(TlsFailed, match=r"no version of TLS from 1\.2 on"):
        pair.shuttle()


def test_bytes_that_are_no_tls_end_the_stream_and_never_more_than_that(authority: Authority) -> None:
    rng = random.Random(7)
    for hostile in (b"GET / HTTP/1.1\r\n", encode_frame(1, b"hello"), b"\x16\x09", b"\x16\x03\x01\xff\xff"):
        stream = TlsStream(server_context(files_of(authority, "server")), server_side=True)
        with pytest.raises(TlsFailed):
            stream.feed(hostile)
    for number in range(examples(60)):  # damaged handshakes and damaged records
        pair = streams(trusting(authority), files_of(authority, "server"))
        pair.client.shake_hands()
        if number % 2:
            pair.shuttle()
            pair.client.seal(b"x" * 100)
        sealed = bytearray(pair.client.output())
        for _ in range(3):
            sealed[rng.randrange(5, len(sealed))] ^= 1 << rng.randrange(8)
        place = memoryview(bytearray(1000))
        try:
            pair.server.feed(bytes(sealed))
            assert pair.server.read_into(place) == 0  # else a damaged record would have been believed
        except TlsFailed:
            continue


# -------------------------------------------------------------------- sockets on a reactor


class Recorder(Session[Frame]):
    """A session that records its calls, and answers each frame with itself."""

    def __init__(self) -> None:
        self.connection: SocketConnection[Frame]
        self.bodies: list[bytes] = []
        self.closed: list[str] = []
        self.echoes = False

    def on_frames(self, frames: list[Frame]) -> None:
        for message_type, body, _ in frames:
            self.bodies.append(bytes(body))
            if self.echoes:
                self.connection.write(encode_frame(message_type, bytes(body)))

    def on_closed(self, reason: str) -> None:
        self.closed.append(reason)


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    reactor = Reactor()
    yield reactor
    reactor.close()


class Door:
    """A listener with TLS whose sessions are recorded."""

    def __init__(self, reactor: Reactor, tls: Certificates | None, *, takes_plain: bool = False) -> None:
        self.reactor = reactor
        self.sessions: list[Recorder] = []
        self.accepted: list[Recorder] = []
        """Of these, those whose connections were accepted."""
        self.listener: Listener[Frame] = Listener(
            reactor,
            bind("127.0.0.1", 0),
            self._open,
            limits=ListenerLimits(greeting_timeout_s=100.0, frame_timeout_s=20.0),
            on_refused=lambda name, reason: None,
            tls=tls,
            takes_plain=takes_plain,
        )

    def _open(self, accepted: StreamSocket, name: str) -> SocketConnection[Frame]:
        session = self.record(accepted)
        session.echoes = True
        self.accepted.append(session)
        return session.connection

    def record(self, connected: StreamSocket) -> Recorder:
        session = Recorder()
        session.connection = SocketConnection(
            self.reactor, connected, FrameDecoder(FRAME_BYTES_MAX), session, outbound_bytes_max=FRAME_BYTES_MAX
        )
        self.sessions.append(session)
        return session


@asynccontextmanager
async def open_door(reactor: Reactor, tls: Certificates | None, *, takes_plain: bool = False) -> AsyncIterator[Door]:
    """A door whose reactor and listener run."""
    door = Door(reactor, tls, takes_plain=takes_plain)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reactor.run)
            nursery.start_soon(door.listener.run)
            yield door
            nursery.cancel_scope.cancel()
    door.listener.close("the test is over")
    for session in door.sessions:
        session.connection.close("the test is over")


async def test_frames_of_any_size_pass_in_both_directions_at_once(reactor: Reactor, authority: Authority) -> None:
    rng = random.Random(3)
    sent = [rng.randbytes(size) for size in (0, 1, 100, 16_384, 200_000, 5_000_000, 3, 1_000_000)]
    async with open_door(reactor, Certificates(files_of(authority, "server"))) as door:
        session = door.record(await dial(*door.listener.address, Certificates(trusting(authority))))
        for body in sent:
            session.connection.write(encode_frame(1, body))
        await until(lambda: len(session.bodies) == len(sent))
        assert session.bodies == sent
        assert session.connection.outbound_bytes == 0
        session.connection.close("done")
        await until(lambda: door.accepted[0].closed)
        assert door.accepted[0].closed == [CLOSED_BY_OTHER_SIDE]


async def test_close_notify_alone_ends_a_connection_after_what_came_before_it(
    reactor: Reactor, authority: Authority
) -> None:
    async with open_door(reactor, Certificates(files_of(authority, "server"))) as door:
        for body in (b"last", None):
            dialled = await dial(*door.listener.address, Certificates(trusting(authority)))
            assert isinstance(dialled, TlsSocket)
            if body is not None:
                dialled.stream.seal(encode_frame(1, body))
            dialled.stream.end()
            with suppress(BlockingIOError):
                dialled.send(b"")  # in one piece with the frame, and without an end of TCP
            await until(lambda: door.accepted and door.accepted[-1].closed)
            assert door.accepted[-1].closed == [CLOSED_BY_OTHER_SIDE]
            assert door.accepted[-1].bodies == ([] if body is None else [body])
            dialled.close()


async def test_an_end_of_tcp_alone_ends_a_connection_and_completes_no_frame(
    reactor: Reactor, authority: Authority
) -> None:
    async with open_door(reactor, Certificates(files_of(authority, "server"))) as door:
        dialled = await dial(*door.listener.address, Certificates(trusting(authority)))
        assert isinstance(dialled, TlsSocket)
        whole = encode_frame(1, b"whole")
        dialled.send(whole + encode_frame(1, b"cut off")[:-1])
        await until(lambda: door.accepted and door.accepted[-1].bodies)
        dialled._plain.shutdown(socket.SHUT_WR)
        await until(lambda: door.accepted[-1].closed)
        assert (door.accepted[-1].bodies, door.accepted[-1].closed) == ([b"whole"], [CLOSED_BY_OTHER_SIDE])
        dialled.close()


async def test_a_connection_that_its_peer_does_not_read_waits_with_its_bytes_and_sends_them_in_order(
    reactor: Reactor, authority: Authority
) -> None:
    async with open_door(reactor, Certificates(files_of(authority, "server"))) as door:
        session = door.record(await dial(*door.listener.address, Certificates(trusting(authority))))
        await until(lambda: door.accepted)
        server = door.accepted[0]
        server.echoes = False
        server.connection.pause_reading()
        bodies = [bytes([number]) * 100_000 for number in range(60)]
        for body in bodies:
            session.connection.write(encode_frame(1, body))
        await until(lambda: session.connection.outbound_bytes < 6_000_000)
        assert session.connection.outbound_bytes > 0  # the system takes only so much
        assert not server.bodies
        server.connection.resume_reading()
        await until(lambda: len(server.bodies) == 60)
        assert server.bodies == bodies


async def test_plain_text_at_a_port_with_tls_and_tls_at_a_plain_port_end_with_a_clear_reason(
    reactor: Reactor, authority: Authority
) -> None:
    async with open_door(reactor, Certificates(files_of(authority, "server"))) as door:
        plain = door.record(await dial(*door.listener.address))
        plain.connection.write(encode_frame(1, b"hello"))
        await until(lambda: plain.closed)
        assert door.accepted[0].closed == [f"TLS: {SPEAKS_PLAIN_TEXT}"]
    async with open_door(reactor, None) as door:
        with pytest.raises(OSError, match=r"TLS: .*(ended the connection within the handshake|plain text)|reset"):
            await dial(*door.listener.address, Certificates(trusting(authority)))
        assert door.accepted[0].closed == ["protocol error: the other side speaks TLS, and this side plain text"]


async def test_a_port_may_take_both_and_each_client_gets_what_it_speaks(reactor: Reactor, authority: Authority) -> None:
    async with open_door(reactor, Certificates(files_of(authority, "server")), takes_plain=True) as door:
        host, port = door.listener.address
        plain = door.record(await dial(host, port))
        sealed = door.record(await dial(host, port, Certificates(trusting(authority))))
        for session in (plain, sealed):
            session.connection.write(encode_frame(1, b"x" * 500_000))
        await until(lambda: plain.bodies and sealed.bodies)
        assert plain.bodies == sealed.bodies == [b"x" * 500_000]


async def test_a_handshake_that_is_not_finished_in_time_is_ended(
    reactor: Reactor, authority: Authority, autojump_clock: MockClock
) -> None:
    tls = Certificates(files_of(authority, "server"))
    door = Door(reactor, tls)
    with (
        closing(socket.create_connection(door.listener.address, timeout=5)) as silent,
        closing(socket.create_connection(door.listener.address, timeout=5)) as slow,
    ):
        slow.send(b"\x16\x03\x01\x02")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(door.listener.run)
            for _ in range(3):
                reactor.round()
            assert door.listener.connections == 2  # both count
            await trio.sleep(2 * TLS_TIMEOUT_S)
            nursery.cancel_scope.cancel()
        assert silent.recv(10) == b""
        assert [session.closed for session in door.accepted] == [
            [f"no handshake of TLS within {TLS_TIMEOUT_S:g} s"]
        ] * 2
    door.listener.close("the test is over")


async def test_a_record_that_is_not_finished_in_time_ends_its_connection(
    reactor: Reactor, authority: Authority, autojump_clock: MockClock
) -> None:
    door = Door(reactor, Certificates(files_of(authority, "server")))
    with closing(socket.create_connection(door.listener.address, timeout=5)) as far:
        client = TlsStream(client_context(trusting(authority)), server_side=False, host="127.0.0.1")
        client.shake_hands()
        while not (client.is_ready and door.accepted[0].connection.socket.is_ready):  # type: ignore[attr-defined]
            far.sendall(client.output())
            for _ in range(3):
                reactor.round()
            client.feed(far.recv(100_000)) if not client.is_ready else None
        door.listener.on_greeted(door.accepted[0].connection)
        client.seal(b"x" * 1000)
        far.sendall(client.output()[:500])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(door.listener.run)
            for _ in range(3):
                reactor.round()
            await trio.sleep(60)
            nursery.cancel_scope.cancel()
        assert door.accepted[0].closed == ["a frame was not finished within 20 s"]
    door.listener.close("the test is over")


async def test_a_dial_that_fails_for_tls_names_the_reason(
    reactor: Reactor, authority: Authority, tmp_path: Path
) -> None:
    foreign = Authority.at(tmp_path)
    async with open_door(reactor, Certificates(files_of(authority, "server"))) as door:
        with pytest.raises(TlsFailed, match="the certificate is refused"):
            await dial(*door.listener.address, Certificates(trusting(foreign)))
        await until(lambda: door.accepted[0].closed)
        assert "the other side" in door.accepted[0].closed[0]


# -------------------------------------------------------------------- files


@attrs.define
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def subject_of_server(own: Certificates, client: Certificates) -> str | None:
    """Returns the subject of the certificate that a new connection is shown."""
    near, far = socket.socketpair()
    for end in (near, far):
        end.setblocking(False)
    with closing(own.accept(near)) as server, closing(client.wrap(far, "localhost")) as dialled:
        dialled.begin()
        place = memoryview(bytearray(8 * RECORD_BYTES_MAX))
        while not dialled.is_ready:
            with pytest.raises(BlockingIOError):
                server.recv_into(place)
            dialled.advance()
        return dialled.stream.subject


def test_new_certificates_are_used_for_new_connections_and_damaged_ones_are_not(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority.issue_node("other")
    first, other = authority.files_of("server"), authority.files_of("other")
    files = TlsFiles(
        certificate=str(tmp_path / "c.pem"), key=str(tmp_path / "c.key"), authority=str(authority.certificate)
    )
    assert files.certificate is not None
    assert files.key is not None
    shutil.copy(first.certificate, files.certificate)
    shutil.copy(first.key, files.key)
    clock = Clock()
    own, client = Certificates(files, clock=clock), Certificates(trusting(authority))

    def shown_later() -> str | None:
        clock.now += 1.0
        return subject_of_server(own, client)

    assert shown_later() == "CN=server,O=quorumlog"
    with caplog.at_level(logging.WARNING, certificates.logger.name):
        Path(files.certificate).write_text("damaged")
        assert shown_later() == shown_later() == "CN=server,O=quorumlog"
        assert [record.levelname for record in caplog.records] == ["ERROR"]  # once
        Path(files.certificate).unlink()
        shutil.copy(other.certificate, files.certificate)  # and the key is still the first one's
        assert shown_later() == "CN=server,O=quorumlog"
        shutil.copy(other.key, files.key)
        assert shown_later() == "CN=other,O=quorumlog"
        assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "WARNING"]
        assert "key values mismatch" in caplog.records[1].getMessage()


def test_files_that_cannot_be_used_at_the_start_are_refused_with_their_name(
    authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "bad.pem").write_text("nothing")
    missing = str(tmp_path / "missing.pem")
    for files, reason in (
        (TlsFiles(certificate=missing), "missing.pem: No such file"),
        (TlsFiles(authority=str(tmp_path / "bad.pem")), r"bad\.pem: "),
        (attrs.evolve(files_of(authority, "server"), key=str(authority.files_of("alice").key)), "key values mismatch"),
    ):
        with pytest.raises(UnusableFiles, match=reason):
            Certificates(files)


# -------------------------------------------------------------------- nodes


async def test_a_group_and_its_clients_work_over_tls_and_a_stranger_gets_no_word(
    authority: Authority, tmp_path: Path
) -> None:
    tls = Certificates(files_of(authority, "server", ClientCertificates.REQUIRED))
    async with local_cluster(tmp_path, 3, tls=tls) as cluster:
        leader = await cluster.leader()
        host, port = leader.address
        alice = Certificates(files_of(authority, "alice"))
        async with Client([f"{host}:{port}"], CLUSTER_ID, tls=alice) as client:
            body = random.Random(1).randbytes(700_000)
            async with trio.open_nursery() as nursery:
                for number in range(8):
                    nursery.start_soon(client.append, [body, bytes([number])])
            assert (await client.tail()).committed_end == 16
            assert (await client.read(0)).batches[0].records()[0] == body
        for stranger, reason in (
            (None, "closed it|reset"),
            (Certificates(trusting(authority)), "requires a certificate|reset|closed it"),
        ):
            with pytest.raises((Unreachable, ProtocolError), match=reason):
                await Connection.connect(host, port, CLUSTER_ID, tls=stranger)
        reasons = [fields["reason"] for fields in cluster.notices("connection_closed")]
        assert f"TLS: {SPEAKS_PLAIN_TEXT}" in reasons
        assert any("sent no certificate" in reason for reason in reasons)


async def test_a_link_names_the_reason_for_which_tls_fails(authority: Authority, tmp_path: Path) -> None:
    foreign = Authority.at(tmp_path / "foreign")
    foreign.issue_node("server")
    own, other = (Certificates(files_of(each, "server")) for each in (authority, foreign))
    async with local_cluster(tmp_path, 2, start=[], tls=own) as cluster:
        await cluster.start(1)
        cluster.tls = other
        await cluster.start(2)
        await until(lambda: cluster.notices("link_refused"))
        assert "TLS: the handshake failed: the certificate is refused" in cluster.notices("link_refused")[0]["reason"]
