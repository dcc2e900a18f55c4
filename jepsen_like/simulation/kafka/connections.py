"""The owners of connections between simulated Kafka brokers.

A `SimulatedPeer` does as `PeerClient`: it dials when it is first used, and a late answer ends the connection and all
its calls. A `ServedConnection` stands for `SocketConnection` under the product's own sessions.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import attrs

from jepsen_like.simulation.kernel.sockets import ResendingSockets, Socket
from kafka_compat.broker.peers import PeerFailed
from kafka_compat.protocol.api import Api, RequestHeader
from raft.net.connection import CLOSED_BY_OTHER_SIDE, SocketConnection
from raft.net.decoder import Buffer
from raft.net.errors import WireError
from raft.net.ordered import OrderedSession
from raft.net.redial import BACKOFF_S_MAX, BACKOFF_S_MIN

if TYPE_CHECKING:
    from jepsen_like.simulation.kafka.broker import SimulatedBroker

SIZE_BYTES = 4
"""Each frame begins with its size."""


# -------------------------------------------------------------------- the end that answers


class ServedConnection:
    """Stands for the `SocketConnection` of a session that answers another broker."""

    is_full = False
    is_short = False

    def __init__(self, tcp: ResendingSockets, socket: Socket, session: OrderedSession[Buffer]) -> None:
        self.name = f"127.0.0.{socket.peer}:{socket.connection}"
        self.is_closed = False
        self.ended_by_peer = False
        self._tcp = tcp
        self._socket = socket
        self._session = session
        session.connection = cast("SocketConnection[Buffer]", cast(Any, self))

    def write_pieces(self, pieces: Sequence[Buffer]) -> bool:
        """See `SocketConnection`."""
        self._tcp.send(self._socket, b"".join(pieces))
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
        """See `Endpoint`."""

    def on_data(self, data: bytes) -> None:
        """See `Endpoint`."""
        if self.is_closed:
            return
        try:
            self._session.on_frames([data[SIZE_BYTES:]])
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

    def __init__(
        self, host: "SimulatedBroker", tcp: ResendingSockets, to: int, rng: random.Random, *, dial_timeout_s: float
    ) -> None:
        self._host = host
        self._tcp = tcp
        self._to = to
        self._rng = rng
        self._dial_timeout_s = dial_timeout_s
        self._calls: deque[_Call] = deque()
        self._waiting: list[tuple[_Call, Sequence[Buffer], float]] = []
        """Calls made before the connection is up, with their frames and how long they may take."""
        self._socket: Socket | None = None
        self._timed: Socket | None = None
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

    def _give_up_dialing(self, socket: Socket) -> None:
        if self._socket is socket and not self._is_up:
            self._host.take(self._close)

    def _send(self, call: _Call, frame: Sequence[Buffer], timeout_s: float) -> None:
        assert self._socket is not None, "it is connected"
        self._calls.append(call)
        self._tcp.send(self._socket, b"".join(frame))
        call.deadline = self._host.now() + timeout_s
        if self._timed is not self._socket:
            self._timed = self._socket
            self._host.wait(timeout_s, self._give_up, self._socket)

    def _give_up(self, socket: Socket) -> None:
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

    def on_data(self, data: bytes) -> None:
        """See `Endpoint`: the answer to the oldest call."""
        call = self._calls[0]
        number, response = call.api.decode_response(data[SIZE_BYTES:], call.version)
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
