"""A port that speaks the remoting protocol: accepts connections, gives each a session, and tells why connections end.

A name server has one, a broker two (clients of old send to `listenPort` - 2).
"""

import socket
from collections.abc import Callable, Mapping
from typing import Final

from raft.net.connection import CLOSED_BY_OTHER_SIDE, SocketConnection
from raft.net.decoder import BodyDecoder, Buffer
from raft.net.listener import Listener, ListenerLimits
from raft.net.reactor import Reactor
from rocketmq_compat.remoting.frame import FRAME_BYTES_MAX
from rocketmq_compat.remoting.session import Handler, RemotingSession

OUTBOUND_BYTES_MAX: Final = 4 * 1024 * 1024
"""Answers that wait for a client to read them; above, nothing more is read from it."""

Tell = Callable[..., None]
"""Called with the name of an event and its fields."""


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
    ) -> None:
        """Serve with `handlers`, by request code. `tell` is called for each connection that is refused or ends for a reason, and
        `on_closed` for every one that ends."""
        self._reactor = reactor
        self._handlers = handlers
        self._tell = tell
        self._on_closed = on_closed
        self._is_closing = False
        self._listener: Listener[Buffer] = Listener(
            reactor, listening, self._open_connection, limits=limits, on_refused=self._refused
        )

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return self._listener.address

    @property
    def connections(self) -> int:
        """How many are open."""
        return self._listener.connections

    async def run(self) -> None:
        """Close connections whose time is up, until cancelled."""
        await self._listener.run()

    def close(self, reason: str) -> None:
        """Stop listening and close every connection. A second call does nothing."""
        if not self._is_closing:
            self._is_closing = True
            self._listener.close(reason)

    def _open_connection(self, accepted: socket.socket, name: str) -> SocketConnection[Buffer]:
        session = RemotingSession(self._handlers, self._listener.greeted, self._closed)
        session.connection = SocketConnection(
            self._reactor,
            accepted,
            BodyDecoder(FRAME_BYTES_MAX),
            session,
            outbound_bytes_max=OUTBOUND_BYTES_MAX,
            name=name,
        )
        return session.connection

    def _refused(self, name: str, reason: str) -> None:
        self._tell("connection_refused", peer=name, reason=reason)

    def _closed(self, session: RemotingSession, reason: str) -> None:
        self._listener.forget(session.connection)
        if reason != CLOSED_BY_OTHER_SIDE and not self._is_closing:
            self._tell("connection_closed", peer=session.connection.name, reason=reason)
        self._on_closed(session)
