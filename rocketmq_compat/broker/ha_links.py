"""The connections between a master and its slaves, as sockets: they carry out the orders of `replicated_log.HaLinks`.

A master listens on `haListenPort`, and also takes slaves on the port of its clients (`take_over`). A slave dials the
configured address, or the one from the name servers. The decider interprets the messages; this module has frames,
numbers of connections, and their ends.
"""

import socket
from collections.abc import Callable
from typing import Any, Final

import trio

from raft.net.connection import Session, SocketConnection
from raft.net.dialing import dial_within
from raft.net.errors import WireError
from raft.net.framing import Frame, FrameDecoder
from raft.net.listener import Listener, ListenerLimits
from raft.net.reactor import Reactor
from rocketmq_compat.remoting.server import Tell
from rocketmq_compat.replication.events import Connected, Event, HaConnectionClosed, Received
from rocketmq_compat.replication.ha_codec import decode, encode, ha_decoder
from rocketmq_compat.replication.messages import HaMessage

OUTBOUND_BYTES_MAX: Final = 64 * 1024 * 1024
"""More than the pushes that may be on their way to one slave."""
SLAVES_MAX: Final = 64
GREETING_TIMEOUT_S: Final = 20.0
DIAL_S_MAX: Final = 5.0
CLOSED_HERE: Final = "closed by this side"

Address = tuple[str, int]


class _HaSession(Session[Frame]):
    """One connection."""

    def __init__(self, links: "SocketLinks", number: int, listener: Listener[Any] | None) -> None:
        self.connection: SocketConnection[Any]
        self.number = number
        self.listener = listener
        """The listener that accepted the connection; None if this side dialled."""
        self._links = links
        self._is_greeted = False

    def on_frames(self, frames: list[Frame]) -> None:
        """See `Session`."""
        for frame in frames:
            message = decode(frame)
            if self.listener is not None and not self._is_greeted:
                self._is_greeted = True
                self.listener.on_greeted(self.connection)
            self._links.report(Received(self.number, message))

    def on_closed(self, reason: str) -> None:
        """See `Session`."""
        self._links.on_closed(self, reason)


class SocketLinks:
    """The connections of one copy; `report` is the decider's ear, set before anything begins."""

    def __init__(self, reactor: Reactor, tell: Tell) -> None:
        self.report: Callable[[Event], None] = lambda event: None
        self._reactor = reactor
        self._tell = tell
        self._sessions: dict[int, _HaSession] = {}
        self._listener: Listener[Frame] | None = None
        self._accepted = 0
        self._master: Address | None = None
        self._master_known = trio.Event()
        self._dial: int | None = None
        self._dial_ordered = trio.Event()
        self._is_closing = False

    # ---------------------------------------------------------------- what the decider orders

    def dial(self, connection: int) -> None:
        """See `HaLinks`."""
        self._dial = connection
        self._dial_ordered.set()

    def send(self, connection: int, message: HaMessage) -> None:
        """See `HaLinks`."""
        session = self._sessions.get(connection)
        if session is not None:
            session.connection.write_pieces(encode(message))

    def close(self, connection: int, reason: str) -> None:
        """See `HaLinks`. Tries to send bytes written before."""
        if self._dial == connection:
            self._dial = None
        session = self._sessions.pop(connection, None)
        if session is not None:
            session.connection.flush()
            session.connection.close(CLOSED_HERE)

    # ---------------------------------------------------------------- both sides

    def _take(self, connected: socket.socket, number: int, name: str, listener: Listener[Any] | None) -> _HaSession:
        session = _HaSession(self, number, listener)
        session.connection = SocketConnection(
            self._reactor, connected, ha_decoder(), session, outbound_bytes_max=OUTBOUND_BYTES_MAX, name=name
        )
        self._sessions[number] = session
        return session

    def on_closed(self, session: _HaSession, reason: str) -> None:
        """Forget a connection that has ended, and report it."""
        if session.listener is not None:
            session.listener.forget(session.connection)
        if self._sessions.pop(session.number, None) is not None and not self._is_closing:
            self._tell("ha_connection_lost", peer=session.connection.name, reason=reason)
            self.report(HaConnectionClosed(session.number))

    def stop(self, reason: str) -> None:
        """Close everything, without further reports."""
        self._is_closing = True
        if self._listener is not None:
            self._listener.close(reason)
        for session in list(self._sessions.values()):
            session.connection.close(reason)

    # ---------------------------------------------------------------- the master's side

    def listen(self, listening: socket.socket) -> None:
        """Accept slaves from now on; `run_listener` must run."""
        limits = ListenerLimits(connections_max=SLAVES_MAX, greeting_timeout_s=GREETING_TIMEOUT_S)
        self._listener = Listener(
            self._reactor,
            listening,
            self._accept,
            limits=limits,
            on_refused=lambda name, reason: self._tell("ha_connection_refused", peer=name, reason=reason),
        )

    async def run_listener(self) -> None:
        """Close connections that do not identify themselves in time, until cancelled."""
        assert self._listener is not None, "a master listens"
        await self._listener.run()

    @property
    def address(self) -> Address:
        """The address to which slaves connect."""
        assert self._listener is not None, "a master listens"
        return self._listener.address

    def _accept(self, accepted: socket.socket, name: str) -> SocketConnection[Frame]:
        self._accepted += 1
        session = self._take(accepted, self._accepted, name, self._listener)
        self.report(Connected(session.number))
        return session.connection

    def take_over(self, connection: SocketConnection[Any], listener: Listener[Any]) -> FrameDecoder:
        """Serve a slave that connected to the port of clients (see `remoting.server.PortSharer`).

        A slave above the limit stays with the port, and is refused.
        """
        decoder = ha_decoder()
        if len(self._sessions) >= SLAVES_MAX:
            decoder.failure = WireError(f"all {SLAVES_MAX} connections of slaves are in use")
            connection.decoder = decoder
            return decoder
        self._accepted += 1
        session = _HaSession(self, self._accepted, listener)
        session.connection = connection
        connection.session, connection.decoder = session, decoder
        connection.outbound_bytes_max = OUTBOUND_BYTES_MAX
        self._sessions[session.number] = session
        self.report(Connected(session.number))
        return decoder

    # ---------------------------------------------------------------- the slave's side

    def set_master(self, address: Address | None) -> None:
        """Set the address for the next dial, also for one that waits for an address."""
        self._master = address
        if address is not None:
            self._master_known.set()

    async def run_dials(self) -> None:
        """Dial whenever the decider orders it, until cancelled."""
        while True:
            await self._dial_ordered.wait()
            self._dial_ordered = trio.Event()
            number = self._dial
            if number is None:
                continue
            connected = await self._connect()
            if self._dial != number:  # it was closed, and perhaps another one ordered, meanwhile
                if connected is not None:
                    connected.close()
                continue
            self._dial = None
            if connected is None:
                self.report(HaConnectionClosed(number))
            else:
                self._take(connected, number, "master", None)
                self.report(Connected(number))
            self._reactor.request_round()

    async def _connect(self) -> socket.socket | None:
        with trio.move_on_after(DIAL_S_MAX):
            await self._master_known.wait()
            if self._master is not None:
                return await dial_within(self._master, DIAL_S_MAX)
        return None
