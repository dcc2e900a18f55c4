"""A port that speaks the remoting protocol: gives each connection a session, and reports its end.

A name server has one, a broker two (clients of old send to `listenPort` - 2). Brokers speak the native wire among
themselves, on the same port: the `PortSharer` of a connection's first frame type takes it over.
"""

import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from raft.net.budget import BudgetLimits
from raft.net.connection import CLOSED_BY_OTHER_SIDE, SocketConnection
from raft.net.decoder import BodyDecoder, Buffer, Decoder
from raft.net.listener import Listener, ListenerLimits
from raft.net.memory import default_total_bytes
from raft.net.reactor import Reactor
from raft.net.sharing import CHECKED_BYTES, UndecidedDecoder, native_type
from raft.net.tls_socket import StreamSocket
from rocketmq_compat.config import InvalidProperty, Properties
from rocketmq_compat.remoting.frame import FRAME_BYTES_MAX
from rocketmq_compat.remoting.session import Handler, RemotingSession
from rocketmq_compat.tls import Tls

OUTBOUND_BYTES_MAX: Final = 4 * 1024 * 1024
"""The bound of answers that wait for a client; above it, the server stops reading the client's requests."""

MEMBER_PLACES: Final = 64
"""Connections of a port that are not for clients, but for brokers, and for those that may turn out to be some."""

Tell = Callable[..., None]
"""Called with the name of an event and its fields."""

PortSharer = Callable[[SocketConnection[Any], Listener[Any]], Decoder[Any]]
"""Takes over a connection from its first byte on: puts its session and its decoder into it, and returns the decoder.

It reports to the listener when the connection is greeted, and when it has closed.
"""


class RemotingServer:
    """Serves one listening socket, which it closes at the end. `run` must run as long as it is open."""

    def __init__(
        self,
        reactor: Reactor,
        listening: socket.socket,
        handlers: Mapping[int, Handler],
        *,
        limits: ListenerLimits,
        tell: Tell,
        on_closed: Callable[[RemotingSession], None],
        sharers: Mapping[int, PortSharer] | None = None,
        tls: Tls | None = None,
    ) -> None:
        """Serve with `handlers`, by request code.

        `tell` is called for each connection that is refused or ends for a reason, and `on_closed` for every one that
        ends. `sharers` are given by the type of the native frame that begins their connections.
        """
        self._reactor = reactor
        self._handlers = handlers
        self._tell = tell
        self._on_closed = on_closed
        self._sharers = sharers or {}
        self._is_closing = False
        self.listener: Listener[Any] = Listener(
            reactor,
            listening,
            self._open_connection,
            limits=limits,
            on_refused=self._on_refused,
            tls=None if tls is None else tls.server,
            takes_plain=tls is not None and tls.takes_plain,
        )

    @property
    def address(self) -> tuple[str, int]:
        """The address on which it listens."""
        return self.listener.address

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return self.listener.connections

    async def run(self) -> None:
        """Close connections whose time is up, until cancelled."""
        await self.listener.run()

    def close(self, reason: str) -> None:
        """Stop listening and close every connection. A second call is harmless."""
        if not self._is_closing:
            self._is_closing = True
            self.listener.close(reason)

    def _open_connection(self, accepted: StreamSocket, name: str) -> SocketConnection[Buffer]:
        session = RemotingSession(self._handlers, self.listener.on_greeted, self._on_connection_closed)
        decoder: Decoder[Any] = BodyDecoder(FRAME_BYTES_MAX)
        if self._sharers:
            decoder = UndecidedDecoder(lambda first: self._decide(session, first), CHECKED_BYTES)
        session.connection = SocketConnection(
            self._reactor, accepted, decoder, session, outbound_bytes_max=OUTBOUND_BYTES_MAX, name=name
        )
        return session.connection

    def _decide(self, session: RemotingSession, first: Buffer) -> Decoder[Any]:
        sharer = self._sharers.get(native_type(first) or 0)
        if sharer is not None:
            return sharer(session.connection, self.listener)
        session.connection.decoder = BodyDecoder(FRAME_BYTES_MAX)
        return session.connection.decoder

    def _on_refused(self, name: str, reason: str) -> None:
        self._tell("connection_refused", peer=name, reason=reason)

    def _on_connection_closed(self, session: RemotingSession, reason: str) -> None:
        self.listener.forget(session.connection)
        if reason != CLOSED_BY_OTHER_SIDE and not self._is_closing:
            self._tell("connection_closed", peer=session.connection.name, reason=reason)
        self._on_closed(session)


def budget_of(properties: Properties) -> BudgetLimits:
    """Returns the bounds of all connections of a process. Raises `InvalidProperty` if large frames do not fit."""
    name, least = "heldBytesMax", 4 * FRAME_BYTES_MAX
    total = properties.number(name)
    if 0 < total < least:
        raise InvalidProperty(name, f"{name}={total} is too little: it can be 0, or {least} and more.")
    return BudgetLimits(
        total_bytes=total or default_total_bytes(),
        per_address_max=properties.number("connectionsPerAddressMax"),
        accepts_per_s=properties.number("acceptsPerSecond"),
    )
