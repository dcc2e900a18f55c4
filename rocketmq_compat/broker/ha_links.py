"""The connections between a master and its slaves, as sockets: they carry out the orders of `replicated_log.HaLinks`.

A master listens on `haListenPort`, and also takes slaves on the port of its clients (`take_over`). A slave dials the
configured address, or the one from the name servers. The decider interprets the messages; this module has frames,
numbers of connections, and their ends. Where there is a secret, it learns of a connection once both sides have proven
who they are (`raft.trust`).
"""

import socket
from collections.abc import Callable
from typing import Any, Final

import trio

from raft.net.budget import Standing
from raft.net.connection import Session, SocketConnection
from raft.net.dialing import dial_within
from raft.net.errors import WireError
from raft.net.framing import Frame, FrameDecoder, encode_frame
from raft.net.listener import Listener, ListenerLimits
from raft.net.reactor import Reactor
from raft.net.tls import TlsFailed
from raft.net.tls_socket import StreamSocket
from raft.trust import MESSAGE_BYTES_MAX, Acceptor, Dialer, Untrusted
from rocketmq_compat.membership import HA, BrokerCredentials, broker_named
from rocketmq_compat.remoting.server import Tell
from rocketmq_compat.replication.events import Connected, Event, HaConnectionClosed, Received
from rocketmq_compat.replication.ha_codec import (
    FRAME_BYTES_MAX,
    HANDSHAKE,
    PROOF,
    PROOF_REFUSED,
    decode,
    encode,
    ha_decoder,
)
from rocketmq_compat.replication.messages import HaMessage, Handshake
from rocketmq_compat.tls import Tls

OUTBOUND_BYTES_MAX: Final = 64 * 1024 * 1024
"""More than the pushes that may be on their way to one slave."""
SLAVES_MAX: Final = 64
UNGREETED_MAX: Final = 16
"""Connections at once that have not proven who they are."""
GREETING_TIMEOUT_S: Final = 20.0
DIAL_S_MAX: Final = 5.0
CLOSED_HERE: Final = "closed by this side"

Address = tuple[str, int]


class _HaSession(Session[Frame]):
    """One connection."""

    def __init__(
        self, links: "SocketLinks", number: int, listener: Listener[Any] | None, proof: Acceptor | Dialer | None
    ) -> None:
        self.connection: SocketConnection[Any]
        self.number = number
        self.is_known = False
        """True once the decider has learned of it."""
        self.settled = trio.Event()
        """Set when the decider has learned of it, or it has ended before."""
        self._proof = proof
        """The rest of the proof; None where none is needed any more."""
        self._slave: str | None = None
        """The broker that the other end has proven to be."""
        self.listener = listener
        """The listener that accepted the connection; None if this side dialled."""
        self._links = links
        self._is_greeted = False

    def on_frames(self, frames: list[Frame]) -> None:
        """See `Session`."""
        for frame in frames:
            if self._proof is not None:
                self._prove(self._proof, frame)
                continue
            message = decode(frame)
            if isinstance(message, Handshake) and self._slave is not None:
                self._require(message, self._slave)
            if self.listener is not None and not self._is_greeted:
                self._is_greeted = True
                self.listener.on_greeted(self.connection, Standing.MEMBER)
            self._links.report(Received(self.number, message))

    def _prove(self, proof: Acceptor | Dialer, frame: Frame) -> None:
        kind, body, _ = frame
        if kind != PROOF:
            raise Untrusted("the other side does not prove that it is of this cluster")
        message = bytes(body)
        step = proof.step(message) if isinstance(proof, Dialer) else proof.step(trio.current_time(), message)
        if step.reply:
            self.connection.write(encode_frame(PROOF, step.reply))
        if step.admitted is not None:
            self._proof = None
            decoder = self.connection.decoder
            assert isinstance(decoder, FrameDecoder), "it decodes the HA stream"
            decoder.body_bytes_max = FRAME_BYTES_MAX
            self._slave = step.admitted.name if self.listener is not None else None
            self._links.make_known(self)

    @staticmethod
    def _require(message: Handshake, slave: str) -> None:
        claimed = broker_named(message.broker_name, message.slave_id, None)
        if claimed != slave:
            raise WireError(f"{slave!r} speaks for {claimed[:300]!r}")

    def on_wire_error(self, error: WireError) -> None:
        """See `Session`: without a reason for one that has proven nothing."""
        if isinstance(self._proof, Acceptor):
            self.connection.write(encode_frame(PROOF_REFUSED, b""))

    def on_closed(self, reason: str) -> None:
        """See `Session`."""
        self._links.on_closed(self, reason)
        self.settled.set()


class SocketLinks:
    """The connections of one copy; `report` is the decider's ear, set before anything begins."""

    def __init__(
        self, reactor: Reactor, tell: Tell, tls: Tls, broker_name: str = "", trust: BrokerCredentials | None = None
    ) -> None:
        """With `trust` both sides of each connection prove who they are: a master and a slave of `broker_name`."""
        self._broker_name = broker_name
        self._trust = trust
        self.report: Callable[[Event], None] = lambda event: None
        self._reactor = reactor
        self._tell = tell
        self._tls = tls
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

    def _take(
        self,
        connected: StreamSocket,
        number: int,
        name: str,
        listener: Listener[Any] | None,
        proof: Acceptor | Dialer | None,
    ) -> _HaSession:
        session = _HaSession(self, number, listener, proof)
        session.connection = SocketConnection(
            self._reactor, connected, self._decoder(), session, outbound_bytes_max=OUTBOUND_BYTES_MAX, name=name
        )
        self._sessions[number] = session
        return session

    def _decoder(self) -> FrameDecoder:
        return ha_decoder() if self._trust is None else FrameDecoder(MESSAGE_BYTES_MAX)

    @property
    def first_type(self) -> int:
        """The type of the frame that begins the connection of a slave."""
        return HANDSHAKE if self._trust is None else PROOF

    def _acceptor(self) -> Acceptor | None:
        return None if self._trust is None else self._trust.credentials.accept(HA, trio.current_time())

    def make_known(self, session: _HaSession) -> None:
        """Report a connection to the decider."""
        session.is_known = True
        session.settled.set()
        self.report(Connected(session.number))

    def on_closed(self, session: _HaSession, reason: str) -> None:
        """Forget a connection that has ended, and report it."""
        if session.listener is not None:
            session.listener.forget(session.connection)
        if self._sessions.pop(session.number, None) is not None and not self._is_closing:
            self._tell("ha_connection_lost", peer=session.connection.name, reason=reason)
            if session.is_known or session.listener is None:  # the decider waits for the end of what it dialled
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
        limits = ListenerLimits(
            connections_max=SLAVES_MAX,
            greeting_timeout_s=GREETING_TIMEOUT_S,
            ungreeted_max=None if self._trust is None else UNGREETED_MAX,
        )
        self._listener = Listener(
            self._reactor,
            listening,
            self._accept,
            limits=limits,
            on_refused=lambda name, reason: self._tell("ha_connection_refused", peer=name, reason=reason),
            tls=self._tls.server,
            takes_plain=self._tls.takes_plain,
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

    def _accept(self, accepted: StreamSocket, name: str) -> SocketConnection[Frame]:
        self._accepted += 1
        session = self._take(accepted, self._accepted, name, self._listener, self._acceptor())
        if self._trust is None:
            self.make_known(session)
        return session.connection

    def take_over(self, connection: SocketConnection[Any], listener: Listener[Any]) -> FrameDecoder:
        """Serve a slave that connected to the port of clients (see `remoting.server.PortSharer`).

        A slave above the limit stays with the port, and is refused.
        """
        decoder = self._decoder()
        if len(self._sessions) >= SLAVES_MAX:
            decoder.failure = WireError(f"all {SLAVES_MAX} connections of slaves are in use")
            connection.decoder = decoder
            return decoder
        self._accepted += 1
        session = _HaSession(self, self._accepted, listener, self._acceptor())
        session.connection = connection
        connection.session, connection.decoder = session, decoder
        connection.outbound_bytes_max = OUTBOUND_BYTES_MAX
        self._sessions[session.number] = session
        if self._trust is None:
            self.make_known(session)
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
                await self._meet_master(connected, number)
            self._reactor.request_round()

    async def _meet_master(self, connected: StreamSocket, number: int) -> None:
        """Report the connection, once the master has proven who it is."""
        dialer = None if self._trust is None else self._trust.to_master(self._broker_name)
        session = self._take(connected, number, "master", None, dialer)
        if dialer is None:
            self.make_known(session)
            return
        session.connection.write(encode_frame(PROOF, dialer.opening))
        with trio.move_on_after(DIAL_S_MAX):
            await session.settled.wait()
        if not session.settled.is_set():
            session.connection.close("the master has not proven who it is")

    async def _connect(self) -> StreamSocket | None:
        with trio.move_on_after(DIAL_S_MAX):
            await self._master_known.wait()
            if self._master is not None:
                try:
                    return await dial_within(self._master, DIAL_S_MAX, tls=self._tls.client)
                except TlsFailed as error:
                    self._tell("ha_connection_lost", peer="master", reason=str(error))
        return None
