"""The server side of a node's port: its connections, what clients may request, and how much at once.

A connection begins as a `Handshake`, which turns into a `ClientSession` or a `PeerSession` once a HELLO named the right
cluster. Where the cluster has a secret, an `Admission` comes before it, and the HELLO must name whom that has proven. A
peer connection carries that peer's messages one way; the answers travel on the connection this node dials.

Where there is a secret, a client may ask for what the role that it has proven reaches (`raft.trust.ROLES`).

A client's requests are taken in order. They stop being taken, and then being read from its socket, while

- it does not read its answers (the outbound queue is full), or
- `REQUESTS_MAX` of its requests are under way; linearizable reads weigh more, since each may bring a large answer.

So one client holds a bounded amount of memory, and feels it as back-pressure; others do not notice.
"""

import socket
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from raft import client_codec
from raft.admission import Admission, NativeSession
from raft.client_codec import HELLO_BYTES_MAX, PEER, Hello, HelloReply, decode_hello
from raft.codec import decode_message
from raft.driver import RaftDriver
from raft.errors import (
    Busy,
    InvalidRequest,
    InvalidResult,
    NotAllowed,
    ProtocolError,
    RaftError,
    RecordsTrimmed,
    ShuttingDown,
)
from raft.links import Links
from raft.model import NodeId
from raft.net.bounded import REQUEST_BYTES
from raft.net.budget import Standing
from raft.net.certificates import Certificates
from raft.net.connection import CLOSED_BY_OTHER_SIDE, SocketConnection
from raft.net.decoder import Buffer
from raft.net.errors import WireError
from raft.net.framing import Frame, FrameDecoder
from raft.net.listener import Listener, ListenerLimits
from raft.net.reactor import Reactor
from raft.net.tls_socket import StreamSocket
from raft.notices import ConnectionClosed, ConnectionRefused, Notify
from raft.settings import NodeSettings
from raft.trust import ADMIN, ROLES, WRITER, Admitted, Credentials

PEER_CONNECTIONS_MAX = 4
"""Incoming connections of one peer.

Redials overlap with connections not yet known to be dead; more than a few do not.
"""
PEER_PLACES = 2
"""Connections kept free for each peer, because many clients must not cut this node off from its group."""
HELLO_FRAMES = 1
"""Frames of a connection before its first message."""
TRUST_FRAMES = 2
"""Frames before its HELLO, where there is a secret."""
UNGREETED_SHARE = 4
"""Connections without a proof have at most one of so many places, where there is a secret."""
NODE_STOPS = "the node stops"
REQUESTS_MAX = 1024
READ_WEIGHT = 64
FRAME_OVERHEAD_BYTES = 1024
"""The room that a frame may need in addition to the data it carries."""
PEER_FRAME_FACTOR = 4


@attrs.frozen(kw_only=True)
class ServerIdentity:
    """The owner of this port, and the bounds it keeps. Frame sizes are sizes of bodies, in bytes."""

    cluster_id: str
    node_id: NodeId
    peers: frozenset[NodeId]
    frame_bytes_max: int
    read_bytes_max: int
    credentials: Credentials | None = None
    """With them every connection must prove that it knows the cluster's secret; without, all are believed."""

    @property
    def peer_frame_bytes_max(self) -> int:
        """Peers may send more than clients: several client batches make one message."""
        return PEER_FRAME_FACTOR * self.frame_bytes_max


class _NodeSession(NativeSession):
    def on_wire_error(self, error: WireError) -> None:
        """Send the error before the connection is closed."""
        self.connection.write(client_codec.encode_error(0, ProtocolError.of(error)))


class Handshake(_NodeSession):
    """Waits for HELLO; then hands the connection, and what else had arrived, to the session of that role."""

    def __init__(
        self, identity: ServerIdentity, driver: RaftDriver, doorkeeper: "Doorkeeper", admitted: Admitted | None
    ) -> None:
        """The other side has proven to be `admitted`; None where there is no secret."""
        self._identity = identity
        self._driver = driver
        self._doorkeeper = doorkeeper
        self._admitted = admitted

    def on_frames(self, frames: list[Frame]) -> None:
        """The first must be a HELLO that fits."""
        identity = self._identity
        message_type, body, _ = frames[0]
        hello = decode_hello(message_type, body)
        self._check(hello)
        connection = self.connection
        decoder = connection.decoder
        assert isinstance(decoder, FrameDecoder), "it decodes this wire since the first byte"
        if hello.role != PEER and not self._doorkeeper.has_room_for_client():
            connection.send(client_codec.encode_error(0, Busy("all connections for clients are in use")))
            connection.close("all connections for clients are in use")
            return
        if hello.role == PEER:
            peer = NodeId(hello.node_id)
            decoder.body_bytes_max = identity.peer_frame_bytes_max
            decoder.trusted = True
            connection.session = PeerSession(connection, peer, self._driver, self._doorkeeper)
            self._doorkeeper.peer_arrived(peer, connection, hello.address)
        else:
            decoder.body_bytes_max = identity.frame_bytes_max
            role = ADMIN if self._admitted is None else self._admitted.name
            connection.session = ClientSession(connection, identity, self._driver, self._doorkeeper, role)
        known = Standing.CLIENT if self._admitted is None else Standing.KNOWN
        self._doorkeeper.on_greeted(connection, Standing.MEMBER if hello.role == PEER else known)
        reply = HelloReply(identity.node_id, decoder.body_bytes_max)
        connection.write(client_codec.encode_hello_reply(reply))
        if len(frames) > 1:
            connection.session.on_frames(frames[1:])

    def _check(self, hello: Hello) -> None:
        identity = self._identity
        if hello.cluster_id != identity.cluster_id:
            raise ProtocolError(f"this is cluster {identity.cluster_id!r}, not {hello.cluster_id[:64]!r}")
        # Members may be there that this node has not learned of yet: which of them count is the core's decision.
        if hello.role == PEER and hello.node_id in (0, identity.node_id):
            raise ProtocolError(f"node {hello.node_id} is not a peer of node {identity.node_id}")
        if hello.role != PEER and hello.node_id != 0:
            raise ProtocolError("a client has no node id; it sends 0")
        if self._admitted is not None:
            proven, claimed = self._admitted.name, str(hello.node_id) if hello.role == PEER else "client"
            if claimed != ("client" if proven in ROLES else proven):
                raise ProtocolError(f"it has proven to be {proven!r}, and greets as {claimed!r}")

    def on_closed(self, reason: str) -> None:
        """The connection closed before it was greeted."""
        self._doorkeeper.on_closed(self.connection, "stranger", reason)


class PeerSession(_NodeSession):
    """Messages of one peer, to the core."""

    def __init__(
        self, connection: SocketConnection[Frame], peer: NodeId, driver: RaftDriver, doorkeeper: "Doorkeeper"
    ) -> None:
        self.connection = connection
        self._peer = peer
        self._driver = driver
        self._doorkeeper = doorkeeper

    def on_frames(self, frames: list[Frame]) -> None:
        """Each is one message; one that cannot be decoded ends the connection, those before it count."""
        for message_type, body, crc in frames:
            self._driver.deliver(self._peer, decode_message(message_type, body, crc))

    def on_closed(self, reason: str) -> None:
        """The peer died, restarted, was cut off, or sent an invalid message."""
        self._doorkeeper.peer_left(self._peer, self.connection)
        self._doorkeeper.on_closed(self.connection, f"peer {self._peer}", reason)


@attrs.frozen
class _WaitingRead:
    """A linearizable read under way; `answer` takes the client's own request id."""

    request_id: int
    answer: Callable[[int], None]


class ClientSession(_NodeSession):
    """Requests of one client, and the driver's answers to them."""

    def __init__(
        self,
        connection: SocketConnection[Frame],
        identity: ServerIdentity,
        driver: RaftDriver,
        doorkeeper: "Doorkeeper",
        role: str,
    ) -> None:
        self.connection = connection
        self._role = role
        self._may_write = ROLES.index(role) >= ROLES.index(WRITER)
        self._identity = identity
        self._driver = driver
        self._doorkeeper = doorkeeper
        self._backlog: deque[Frame] = deque()
        self._backlog_bytes = 0
        """Those of the requests that the last read left, as long as any of them waits."""
        self._under_way = 0
        self._reads: dict[int, _WaitingRead] = {}
        self._last_read = 0
        self._held_back = False
        self._working = False

    # ---------------------------------------------------------------- connection

    def on_frames(self, frames: list[Frame]) -> None:
        """Requests arrived."""
        self._backlog.extend(frames)
        self._work()
        if self._backlog:
            self._backlog_bytes = sum(REQUEST_BYTES + len(body) for _, body, _ in self._backlog)

    def held_bytes(self) -> int:
        """See `Session`; what the driver has taken is bounded by `pending_bytes_max`."""
        return self._backlog_bytes if self._backlog else 0

    def on_drained(self) -> None:
        """The client reads its answers again."""
        self._resume()

    def on_closed(self, reason: str) -> None:
        """Requests under way go on; their answers are dropped."""
        self._backlog.clear()
        self._doorkeeper.on_closed(self.connection, "client", reason)

    # ---------------------------------------------------------------- taking requests

    def _work(self) -> None:
        """Take requests while there is room for their answers."""
        if self._working:
            return
        self._working = True
        try:
            while self._backlog:
                if self._under_way >= REQUESTS_MAX or self.connection.is_full:
                    self._held_back = True
                    self.connection.pause_reading()
                    return
                message_type, body, crc = self._backlog.popleft()
                if message_type == client_codec.APPEND:
                    self._on_append(body, crc)
                    continue
                take = _REQUESTS.get(message_type)
                if take is None:
                    raise ProtocolError(f"message type {message_type} is not a request")
                take(self, body)
        finally:
            self._working = False
        if self._held_back:
            self._held_back = False
            self.connection.resume_reading()

    def _resume(self) -> None:
        if self._held_back:
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 - `refuse` raises what ends the process
                self.connection.refuse(error)

    def _on_append(self, body: Buffer, crc: int) -> None:
        request_id, records, span, records_crc = client_codec.decode_append(body, crc)
        if len(records) > self._identity.frame_bytes_max - FRAME_OVERHEAD_BYTES:
            # What is stored must fit a reply.
            self._answer_error(request_id, InvalidRequest(f"a batch of {len(records)} bytes is too large"))
            return
        if not self._may_write and self._is_barred(request_id, WRITER):
            return
        self._under_way += 1
        self._driver.append(self, request_id, records, span, records_crc)

    def _on_read(self, body: Buffer) -> None:
        request_id, offset, bytes_max = client_codec.decode_read(body)
        bytes_max = min(bytes_max, self._identity.read_bytes_max)
        if offset < self._driver.committed_end:
            self._answer_records(request_id, offset, bytes_max)
        else:
            self._wait_to_read(request_id, lambda request_id: self._answer_records(request_id, offset, bytes_max))

    def _on_tail(self, body: Buffer) -> None:
        self._wait_to_read(client_codec.decode_bare(body), self._answer_tail)

    def _on_apply(self, body: Buffer) -> None:
        request_id, command, read_only = client_codec.decode_apply(body)
        if not read_only:
            if self._is_barred(request_id, WRITER):
                return
            self._under_way += 1
            self._driver.apply(self, request_id, command)
            return
        try:
            self._driver.check_query(command)
        except InvalidRequest as error:
            self._answer_error(request_id, error)
        else:
            self._wait_to_read(request_id, lambda request_id: self._answer_query(request_id, command), after_apply=True)

    def _on_status(self, body: Buffer) -> None:
        request_id = client_codec.decode_bare(body)
        self.connection.write(client_codec.encode_status_reply(request_id, self._driver.status()))

    def _on_change(self, body: Buffer) -> None:
        request_id, change = client_codec.decode_change(body)
        if self._is_barred(request_id, ADMIN):
            return
        self._under_way += 1
        if isinstance(change, int):
            self._driver.transfer_leadership(self, request_id, change)
        else:
            self._driver.change_members(self, request_id, change)

    def _is_barred(self, request_id: int, needed: str) -> bool:
        """Returns True, and has refused the request, if the client's role is below the one that it needs."""
        if ROLES.index(self._role) >= ROLES.index(needed):
            return False
        self._answer_error(request_id, NotAllowed.of(self._role, needed))
        return True

    def _wait_to_read(self, request_id: int, answer: Callable[[int], None], *, after_apply: bool = False) -> None:
        # A client may repeat a request id; numbers of our own, below zero, keep its reads apart and from other
        # requests.
        self._last_read -= 1
        self._reads[self._last_read] = _WaitingRead(request_id, answer)
        self._under_way += READ_WEIGHT
        self._driver.read(self, self._last_read, after_apply=after_apply)

    # ---------------------------------------------------------------- answering

    def on_appended(self, request_id: int, base_offset: int, span: int, term: int) -> None:
        """See `Caller`."""
        self.connection.write(client_codec.encode_appended(request_id, base_offset, span, term))
        self._finish(1)

    def on_applied(self, request_id: int, index: int, result: bytes) -> None:
        """See `Caller`."""
        self.connection.write(client_codec.encode_applied(request_id, index, result))
        self._finish(1)

    def on_readable(self, request_id: int) -> None:
        """See `Caller`."""
        read = self._reads.pop(request_id)
        read.answer(read.request_id)
        self._finish(READ_WEIGHT)

    def on_refused(self, request_id: int, error: RaftError) -> None:
        """See `Caller`."""
        read = self._reads.pop(request_id, None)
        if read is not None:
            self._answer_error(read.request_id, error)
            self._finish(READ_WEIGHT)
        else:
            self._answer_error(request_id, error)
            self._finish(1)

    def _answer_error(self, request_id: int, error: RaftError) -> None:
        self.connection.write(client_codec.encode_error(request_id, error))

    def _answer_records(self, request_id: int, offset: int, bytes_max: int) -> None:
        if self.connection.is_short:
            self._answer_error(request_id, Busy("there is no room for an answer"))
            return
        try:
            batches = self._driver.read_committed(offset, bytes_max)
        except (RecordsTrimmed, ShuttingDown) as error:
            self._answer_error(request_id, error)
            return
        self.connection.write(client_codec.encode_records(request_id, self._driver.committed_end, batches))

    def _answer_tail(self, request_id: int) -> None:
        reply = client_codec.encode_tail_reply(request_id, self._driver.committed_end, self._driver.core.term)
        self.connection.write(reply)

    def _answer_query(self, request_id: int, command: bytes) -> None:
        try:
            result = self._driver.query(command)
        except (InvalidRequest, InvalidResult) as error:
            self._answer_error(request_id, error)
            return
        self.connection.write(client_codec.encode_applied(request_id, self._driver.applied_index, result))

    def _finish(self, weight: int) -> None:
        self._under_way -= weight
        self._resume()


_REQUESTS: Mapping[int, Callable[[ClientSession, Buffer], None]] = {
    client_codec.READ: ClientSession._on_read,
    client_codec.TAIL: ClientSession._on_tail,
    client_codec.APPLY: ClientSession._on_apply,
    client_codec.STATUS: ClientSession._on_status,
    client_codec.CHANGE: ClientSession._on_change,
}


class Doorkeeper:
    """Decides which connections a node's port keeps: places for peers, one connection in use for each of them.

    `port` is a bound socket, or the listener of a host that hands connections of this wire over. `peers` learn of each
    greeted connection of a peer, and of the end of its last one.
    """

    def __init__(
        self,
        reactor: Reactor,
        port: socket.socket | Listener[Any],
        identity: ServerIdentity,
        settings: NodeSettings,
        driver: RaftDriver,
        notify: Notify,
        peers: Links,
        tls: Certificates | None = None,
    ) -> None:
        self._reactor = reactor
        self._identity = identity
        self._settings = settings
        self._driver = driver
        self._notify = notify
        self._peers = peers
        self._incoming: dict[NodeId, list[SocketConnection[Frame]]] = {}
        self._greeting_frames = HELLO_FRAMES if identity.credentials is None else HELLO_FRAMES + TRUST_FRAMES
        self.owns_listener = not isinstance(port, Listener)
        self.listener: Listener[Any] = port if isinstance(port, Listener) else self._listen_on(port, tls)

    def _listen_on(self, listening: socket.socket, tls: Certificates | None) -> Listener[Frame]:
        settings, open_to_all = self._settings, self._identity.credentials is None
        return Listener(
            self._reactor,
            listening,
            self._open_connection,
            limits=ListenerLimits(
                connections_max=settings.connections.connections_max,
                greeting_timeout_s=settings.connections.greeting_timeout_s,
                idle_timeout_s=settings.connections.idle_timeout_s,
                ungreeted_max=None if open_to_all else max(settings.connections.connections_max // UNGREETED_SHARE, 2),
            ),
            on_refused=lambda name, reason: self._notify(ConnectionRefused(name, reason)),
            tls=tls,
        )

    def _open_connection(self, accepted: StreamSocket, name: str) -> SocketConnection[Frame]:
        session = self._first_session()
        session.connection = SocketConnection(
            self._reactor,
            accepted,
            FrameDecoder(HELLO_BYTES_MAX),
            session,
            outbound_bytes_max=self._settings.outbound_bytes_max,
            name=name,
        )
        return session.connection

    def _first_session(self) -> Handshake | Admission:
        credentials = self._identity.credentials
        return self._greet(None) if credentials is None else Admission(credentials, self._greet, self._stranger_left)

    def _greet(self, admitted: Admitted | None) -> Handshake:
        return Handshake(self._identity, self._driver, self, admitted)

    def _stranger_left(self, connection: SocketConnection[Frame], reason: str) -> None:
        self.on_closed(connection, "stranger", reason)

    def take_over(self, connection: SocketConnection[Any]) -> FrameDecoder:
        """Serve a connection of the host's listener, from its first byte on. Returns its decoder, which is in place."""
        decoder = connection.decoder = FrameDecoder(HELLO_BYTES_MAX)
        connection.outbound_bytes_max = self._settings.outbound_bytes_max
        session = connection.session = self._first_session()
        session.connection = connection
        return decoder

    def has_room_for_client(self) -> bool:
        """Returns True if there is room for one more client; the last connections are kept for peers."""
        bound = self._settings.connections.connections_max
        return self.listener.connections <= bound - min(PEER_PLACES * len(self._identity.peers), bound // 2)

    def on_greeted(self, connection: SocketConnection[Frame], standing: Standing) -> None:
        """The handshake is done."""
        self.listener.on_greeted(connection, standing)

    def peer_arrived(self, peer: NodeId, connection: SocketConnection[Frame], address: str) -> None:
        """A peer's connection was greeted; the peer may have told its `address`."""
        incoming = self._incoming.setdefault(peer, [])
        incoming.append(connection)
        if len(incoming) > PEER_CONNECTIONS_MAX:
            incoming[0].close("replaced by newer connections of the same peer")
        self._peers.meet(peer, address)

    def peer_left(self, peer: NodeId, connection: SocketConnection[Frame]) -> None:
        """A peer's connection closed.

        Reported to the core only if the connection was in use; the end of older or unused ones means nothing.
        """
        incoming = self._incoming[peer]
        # A peer sends on one connection at a time. An older one that still seems open was left by a broken network.
        in_use = next((each for each in reversed(incoming) if each.frames_in > self._greeting_frames), incoming[-1])
        incoming.remove(connection)
        if not incoming:
            del self._incoming[peer]
            self._peers.part(peer)
        if connection is in_use:
            self._driver.on_disconnected(peer)

    def on_closed(self, connection: SocketConnection[Frame], role: str, reason: str) -> None:
        """A connection closed, whatever its role."""
        self.listener.forget(connection)
        if reason not in (CLOSED_BY_OTHER_SIDE, NODE_STOPS):
            self._notify(ConnectionClosed(connection.name, role, reason))

    def close(self) -> None:
        """Close the port and all connections, unless they belong to the host."""
        if self.owns_listener:
            self.listener.close(NODE_STOPS)
