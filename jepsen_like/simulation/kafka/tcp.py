"""Connections between simulated brokers, as TCP keeps them over a network that loses, repeats and delays.

What is sent on a connection arrives in order and once. A segment that the network loses is sent again after a while.
The operating system of a killed process ends its connections; one that loses its power sends nothing, and who sends to
it later learns that the connection is gone. Connections are numbered over the whole world, so a late segment of one
never reaches another.

A `SimulatedPeer` does as `PeerClient`: it dials when it is first used, and a late answer ends the connection and all
its calls. A `ServedConnection` stands for `SocketConnection` under the product's own sessions.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import attrs

from jepsen_like.simulation.kafka.messages import RESET_NUMBER, TcpKind, TcpSegment
from kafka_compat.broker.peers import PeerFailed
from kafka_compat.protocol.api import Api, RequestHeader
from raft.net.connection import CLOSED_BY_OTHER_SIDE, SocketConnection
from raft.net.decoder import Buffer
from raft.net.errors import WireError
from raft.net.ordered import OrderedSession
from raft.net.redial import BACKOFF_S_MAX, BACKOFF_S_MIN

RESEND_S_MIN, RESEND_S_MAX = 0.05, 0.8
SIZE_BYTES = 4
"""Each frame begins with its size."""


class Endpoint(Protocol):
    """One end's owner."""

    def on_established(self) -> None:
        """The dial was accepted."""

    def on_frame(self, frame: bytes) -> None:
        """A frame has come, without its size."""

    def on_ended(self, *, by_peer: bool) -> None:
        """The connection is gone. `by_peer` is true if the other end closed it, or does not know it."""


@attrs.define(eq=False)
class TcpEnd:
    """One end of a connection."""

    connection: int
    peer: int
    owner: Endpoint
    sent: int = 0
    due: int = 0
    """The number of the next segment to take."""
    early: dict[int, TcpSegment] = attrs.field(factory=dict)
    unacknowledged: deque[TcpSegment] = attrs.field(factory=deque)
    resend_s: float = RESEND_S_MIN
    is_resending: bool = False


class TcpHost(Protocol):
    """The process that has the connections."""

    node: int
    process: int

    def transmit(self, to: int, segment: TcpSegment) -> None:
        """Put a segment on the wire."""

    def accept(self, socket: TcpEnd) -> Endpoint:
        """Returns the owner of this end of a connection that another process has dialed."""

    def wait(self, seconds: float, action: Callable[..., None], *arguments: object) -> None:
        """Call `action` after some time, if this process still lives, whether it is paused or not."""

    def now(self) -> float:
        """Returns the world's time."""

    def take(self, action: Callable[..., None], *arguments: object) -> None:
        """Something reaches this process."""

    def count_received(self, peer: int, connection: int) -> int:
        """Returns how many segments of this connection the peer's operating system has received."""

    def new_connection(self) -> int:
        """Returns a number that no connection has had."""


class SimulatedTcp:
    """All connections of one process."""

    def __init__(self, host: TcpHost) -> None:
        self.open: dict[int, TcpEnd] = {}
        self.resent = 0
        self._host = host
        self._seen: set[int] = set()

    def dial(self, to: int, owner: Endpoint) -> TcpEnd:
        """Begin to connect to another broker."""
        connection = self._host.new_connection()
        socket = self.open[connection] = TcpEnd(connection, to, owner)
        self._send(socket, TcpKind.DIAL)
        return socket

    def send(self, socket: TcpEnd, pieces: Sequence[Buffer]) -> None:
        """Send a frame; on a connection that is closed it goes nowhere."""
        if self.open.get(socket.connection) is socket:
            self._send(socket, TcpKind.DATA, b"".join(pieces))

    def close(self, socket: TcpEnd) -> None:
        """Close this end, behind what was sent."""
        if self.open.pop(socket.connection, None) is not None:
            self._send(socket, TcpKind.END)

    def close_all(self) -> None:
        """End all connections, as the operating system does for a process that was killed."""
        for socket in list(self.open.values()):
            self.close(socket)

    def reset(self, peer: int) -> None:
        """Break all connections with this peer; both ends see it, and what is on its way is lost."""
        for socket in [each for each in self.open.values() if each.peer == peer]:
            del self.open[socket.connection]
            self._host.transmit(peer, TcpSegment(socket.connection, RESET_NUMBER, TcpKind.END))
            self._host.take(lambda owner: owner.on_ended(by_peer=True), socket.owner)

    # ---------------------------------------------------------------- sending

    def _send(self, socket: TcpEnd, kind: TcpKind, frame: bytes = b"") -> None:
        segment = TcpSegment(socket.connection, socket.sent, kind, frame)
        socket.sent += 1
        socket.unacknowledged.append(segment)
        self._host.transmit(socket.peer, segment)
        if not socket.is_resending and kind is not TcpKind.END:
            socket.is_resending = True
            self._host.wait(socket.resend_s, self._resend, socket)

    def _resend(self, socket: TcpEnd) -> None:
        """Send the oldest segment again that has not arrived."""
        if self.open.get(socket.connection) is not socket:
            return
        received = self._host.count_received(socket.peer, socket.connection)
        oldest = socket.unacknowledged[0].number
        while socket.unacknowledged and socket.unacknowledged[0].number < received:
            socket.unacknowledged.popleft()
        if not socket.unacknowledged:
            socket.is_resending, socket.resend_s = False, RESEND_S_MIN
            return
        if socket.unacknowledged[0].number == oldest:
            self.resent += 1
            self._host.transmit(socket.peer, socket.unacknowledged[0])
            socket.resend_s = min(2 * socket.resend_s, RESEND_S_MAX)
        self._host.wait(socket.resend_s, self._resend, socket)

    # ---------------------------------------------------------------- receiving

    def receive(self, sender: int, segment: TcpSegment) -> None:
        """A segment arrives at the operating system, which gives the process what is in order."""
        connection = segment.connection
        socket = self.open.get(connection)
        if segment.kind is TcpKind.DIAL and connection not in self._seen:
            self._seen.add(connection)
            socket = self.open[connection] = TcpEnd(connection, sender, _NO_ONE, due=1)
            socket.owner = self._host.accept(socket)
            self._send(socket, TcpKind.ACCEPT)
        elif socket is None:
            if segment.kind is not TcpKind.END:
                self._host.transmit(sender, segment.refusal())
        elif segment.number == RESET_NUMBER:
            del self.open[connection]
            self._host.take(lambda: socket.owner.on_ended(by_peer=True))
        elif segment.number >= socket.due:
            socket.early[segment.number] = segment
            while (ready := socket.early.pop(socket.due, None)) is not None and connection in self.open:
                socket.due += 1
                self._take(socket, ready)

    def _take(self, socket: TcpEnd, segment: TcpSegment) -> None:
        match segment.kind:
            case TcpKind.ACCEPT:
                self._host.take(self._establish, socket)
            case TcpKind.DATA:
                self._host.take(self._deliver, socket, segment.frame[SIZE_BYTES:])
            case TcpKind.END:
                self._host.take(self._end, socket)
            case TcpKind.DIAL:
                raise AssertionError("a connection is dialed once")

    def _establish(self, socket: TcpEnd) -> None:
        if self.open.get(socket.connection) is socket:
            socket.owner.on_established()

    def _deliver(self, socket: TcpEnd, frame: bytes) -> None:
        if self.open.get(socket.connection) is socket:
            socket.owner.on_frame(frame)

    def _end(self, socket: TcpEnd) -> None:
        if self.open.pop(socket.connection, None) is socket:
            socket.owner.on_ended(by_peer=True)


class _NoOne:
    """Owns an end until its process has accepted it."""

    def on_established(self) -> None:
        """See `Endpoint`."""

    def on_frame(self, frame: bytes) -> None:
        """See `Endpoint`."""

    def on_ended(self, *, by_peer: bool) -> None:
        """See `Endpoint`."""


_NO_ONE = _NoOne()


def decode_answer(api: Api[Any, Any], version: int, pieces: Sequence[Buffer]) -> Any:
    """Returns the answer in a frame."""
    return api.decode_response(b"".join(pieces)[SIZE_BYTES:], version)[1]


# -------------------------------------------------------------------- the end that answers


class ServedConnection:
    """Stands for the `SocketConnection` of a session that answers another broker."""

    is_full = False

    def __init__(self, tcp: SimulatedTcp, socket: TcpEnd, session: OrderedSession[Buffer]) -> None:
        self.name = f"127.0.0.{socket.peer}:{socket.connection}"
        self.is_closed = False
        self.ended_by_peer = False
        self._tcp = tcp
        self._socket = socket
        self._session = session
        session.connection = cast("SocketConnection[Buffer]", cast(Any, self))

    def write_pieces(self, pieces: Sequence[Buffer]) -> bool:
        """See `SocketConnection`."""
        self._tcp.send(self._socket, pieces)
        return not self.is_closed

    def close(self, reason: str) -> None:
        """See `SocketConnection`."""
        if not self.is_closed:
            self.is_closed = True
            self._tcp.close(self._socket)
            self._session.on_closed(reason)

    def refuse(self, error: Exception) -> None:
        """See `SocketConnection`; an error that is no `WireError` is a bug here."""
        if not isinstance(error, WireError):
            raise error
        self.close(str(error))

    def on_established(self) -> None:
        """See `Endpoint`: the other end dials."""
        raise AssertionError("an accepted connection was not dialed")

    def on_frame(self, frame: bytes) -> None:
        """See `Endpoint`."""
        if self.is_closed:
            return
        try:
            self._session.on_frames([frame])
        except WireError as error:
            self.refuse(error)

    def on_ended(self, *, by_peer: bool) -> None:
        """See `Endpoint`."""
        if not self.is_closed:
            self.is_closed, self.ended_by_peer = True, by_peer
            self._session.on_closed(CLOSED_BY_OTHER_SIDE)


# -------------------------------------------------------------------- the end that asks


@attrs.define
class _Call:
    api: Api[Any, Any]
    version: int
    number: int
    done: Callable[[Any | PeerFailed], None]
    deadline: float = 0.0


class SimulatedPeer:
    """Calls to one other broker; see `Peer`."""

    def __init__(self, host: TcpHost, tcp: SimulatedTcp, to: int, rng: random.Random, *, dial_timeout_s: float) -> None:
        self._host = host
        self._tcp = tcp
        self._to = to
        self._rng = rng
        self._dial_timeout_s = dial_timeout_s
        self._calls: deque[_Call] = deque()
        self._waiting: list[tuple[_Call, Sequence[Buffer], float]] = []
        """Calls made before the connection is up, with their frames and how long they may take."""
        self._socket: TcpEnd | None = None
        self._timed: TcpEnd | None = None
        """The connection whose oldest call a timer looks after."""
        self._is_up = False
        self._rests = False
        self._backoff_s = 0.0
        self._last_number = 0

    def call(
        self,
        api: Api[Any, Any],
        version: int,
        request: object,
        done: Callable[[Any | PeerFailed], None],
        *,
        timeout_s: float,
    ) -> None:
        """See `PeerClient`."""
        self._last_number += 1
        frame = api.encode_request(RequestHeader(api.key, version, self._last_number, f"b{self._host.node}"), request)
        call = _Call(api, version, self._last_number, done)
        if self._is_up:
            self._send(call, frame, timeout_s)
            return
        self._waiting.append((call, frame, timeout_s))
        if self._socket is None and not self._rests:
            self._dial()

    def _dial(self) -> None:
        socket = self._socket = self._tcp.dial(self._to, self)
        self._host.wait(self._dial_timeout_s, self._give_up_dialing, socket)

    def _give_up_dialing(self, socket: TcpEnd) -> None:
        if self._socket is socket and not self._is_up:
            self._host.take(self._close)

    def _send(self, call: _Call, frame: Sequence[Buffer], timeout_s: float) -> None:
        assert self._socket is not None, "it is connected"
        self._calls.append(call)
        self._tcp.send(self._socket, frame)
        call.deadline = self._host.now() + timeout_s
        if self._timed is not self._socket:
            self._timed = self._socket
            self._host.wait(timeout_s, self._give_up, self._socket)

    def _give_up(self, socket: TcpEnd) -> None:
        """Close a connection whose oldest call has waited for too long."""
        if self._socket is not socket:
            return
        left_s = self._calls[0].deadline - self._host.now() if self._calls else 0.0
        if left_s > 0:
            self._host.wait(left_s, self._give_up, socket)
        elif self._calls:
            self._host.take(self._close)
        else:
            self._timed = None

    def _close(self) -> None:
        if self._socket is not None:
            self._tcp.close(self._socket)
            self.on_ended(by_peer=False)

    def on_established(self) -> None:
        """See `Endpoint`."""
        self._is_up = True
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._send(*each)

    def on_frame(self, frame: bytes) -> None:
        """See `Endpoint`: the answer to the oldest call."""
        call = self._calls[0]
        number, response = call.api.decode_response(frame, call.version)
        assert number == call.number, "answers come in the order of their calls"
        self._calls.popleft()
        call.done(response)

    def on_ended(self, *, by_peer: bool) -> None:
        """See `Endpoint`."""
        was_up, self._is_up, self._socket = self._is_up, False, None
        calls, self._calls = self._calls, deque()
        waiting, self._waiting = self._waiting, []
        reason = "the connection ended" if was_up else "no connection"
        self._backoff_s = BACKOFF_S_MIN if was_up else min(max(2 * self._backoff_s, BACKOFF_S_MIN), BACKOFF_S_MAX)
        self._rests = True
        self._host.wait(self._backoff_s * self._rng.uniform(0.5, 1.5), self._end_rest)
        for call in calls:
            call.done(PeerFailed(reason, was_sent=True))
        for call, _, _ in waiting:
            call.done(PeerFailed(reason, was_sent=False))

    def _end_rest(self) -> None:
        self._rests = False
        if self._waiting:
            self._host.take(self._dial)
