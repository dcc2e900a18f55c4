"""The connections of a simulated broker to the other copies, as `HaLinks` wants them: frames over simulated sockets.

A slave's connection has two numbers: its own for the decider, and that of the socket, which is the world's.
"""

import random
from typing import Protocol

import attrs

from jepsen_like.simulation.kernel.sockets import SimulatedSockets, Socket, SocketHost
from raft.net.errors import WireError
from raft.net.framing import FrameDecoder
from rocketmq_compat.replication.events import Connected, Event, HaConnectionClosed, Received
from rocketmq_compat.replication.ha_codec import decode, encode, ha_decoder
from rocketmq_compat.replication.messages import HaMessage, Push, Tables


class LinksHost(SocketHost, Protocol):
    """The process that has the connections."""

    @property
    def listens(self) -> bool:
        """True if connections are accepted here."""

    @property
    def master(self) -> int:
        """The node that a slave dials."""

    def report(self, event: Event) -> None:
        """Give a fact to the decider."""


class SimulatedLinks:
    """See `HaLinks`, which this implements."""

    def __init__(self, host: LinksHost, rng: random.Random, rot: float) -> None:
        """`rot` is the probability that a push leaves with other bytes than its checksum was made of."""
        self.sockets = SimulatedSockets(host)
        self.dials: dict[int, int] = {}
        """The decider's number by the number of a dialed socket."""
        self._host = host
        self._rng = rng
        self._rot = rot
        self._written: list[tuple[int, HaMessage]] = []
        """Messages that leave as the round ends."""

    # ---------------------------------------------------------------- what the decider orders

    def dial(self, connection: int) -> None:
        """See `HaLinks`."""
        socket = self.sockets.dial(self._host.master, link := _Link(self._host, self.sockets, connection))
        link.socket = socket
        self.dials[socket.connection] = connection

    def accept(self, socket: Socket) -> "_Link":
        """Returns the owner of a connection that a slave has dialed."""
        link = _Link(self._host, self.sockets, socket.connection)
        link.socket = socket
        return link

    def send(self, connection: int, message: HaMessage) -> None:
        """See `HaLinks`."""
        if isinstance(message, Push) and self._rot and self._rng.random() < self._rot:
            data = bytearray(message.payload)
            data[-1] ^= 1
            message = attrs.evolve(message, payload=bytes(data))
        self._written.append((self._socket(connection), message))

    def flush(self) -> None:
        """Let everything leave that was sent."""
        written, self._written = self._written, []
        for socket, message in written:
            self.say(socket, message)

    def close(self, connection: int, reason: str) -> None:
        """See `HaLinks`. What was sent before leaves first."""
        self.flush()
        socket = self.sockets.open.get(self._socket(connection))
        if socket is not None:
            self.sockets.close(socket)

    def say(self, connection: int, message: HaMessage) -> None:
        """Put a message on a socket, also one that the decider has not ordered."""
        socket = self.sockets.open.get(connection)
        if socket is not None:
            self.sockets.send(socket, b"".join(encode(message)))

    def _socket(self, connection: int) -> int:
        if self._host.listens:
            return connection
        return next((socket for socket, dialed in self.dials.items() if dialed == connection), 0)


@attrs.define(eq=False)
class _Link:
    """The owner of one connection, which the decider knows by another number if it was dialed here."""

    host: LinksHost
    sockets: SimulatedSockets[LinksHost]
    name: int
    socket: Socket = attrs.field(init=False)
    decoder: FrameDecoder = attrs.field(factory=ha_decoder)

    def on_established(self) -> None:
        """See `Endpoint`."""
        self.host.report(Connected(self.name))

    def on_data(self, data: bytes) -> None:
        """See `Endpoint`: bytes that are no message end the connection."""
        try:
            messages = [_with_bytes(decode(frame)) for frame in self.decoder.feed(data)]
            if self.decoder.failure is not None:
                raise self.decoder.failure
        except WireError:
            self.sockets.close(self.socket)
            self.on_ended(by_peer=False)
            return
        for message in messages:
            self.host.report(Received(self.name, message))

    def on_ended(self, *, by_peer: bool) -> None:
        """See `Endpoint`."""
        self.host.report(HaConnectionClosed(self.name))


def _with_bytes(message: HaMessage) -> HaMessage:
    """Returns the message with bytes of its own, which look the same in every trace."""
    return attrs.evolve(message, payload=bytes(message.payload)) if isinstance(message, Push | Tables) else message
