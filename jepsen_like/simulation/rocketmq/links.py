"""The connections of a simulated broker to the other copies, as `HaLinks` wants them: frames over simulated sockets.

A slave's connection has two numbers: its own for the decider, and that of the socket, which is the world's.
"""

import random
from typing import Protocol

import attrs

from jepsen_like.simulation.rocketmq.sockets import SimulatedSockets, Socket, StreamSegment
from raft.net.errors import WireError
from rocketmq_compat.replication.events import Connected, Event, HaConnectionClosed, Received
from rocketmq_compat.replication.ha_codec import decode, encode
from rocketmq_compat.replication.messages import HaMessage, Push, Tables


class LinksHost(Protocol):
    """The process that has the connections."""

    node: int

    @property
    def listens(self) -> bool:
        """True if connections are accepted here."""

    def transmit(self, to: int, segment: StreamSegment) -> None:
        """Put a segment on the wire."""

    def next_connection(self) -> tuple[int, int]:
        """Returns the number of a new socket, and the node of the master."""

    def report(self, event: Event) -> None:
        """Give a fact to the decider."""


class SimulatedLinks:
    """See `HaLinks`, which this implements, and `SocketHost`, which it is to its sockets."""

    def __init__(self, host: LinksHost, rng: random.Random, rot: float) -> None:
        """`rot` is the probability that a push leaves with other bytes than its checksum was made of."""
        self.sockets = SimulatedSockets(self, host.transmit)
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
        socket, master = self._host.next_connection()
        self.dials[socket] = connection
        self.sockets.dial(socket, master)

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
        self.sockets.close(self._socket(connection))

    def say(self, socket: int, message: HaMessage) -> None:
        """Put a message on a socket, also one that the decider has not ordered."""
        self.sockets.send(socket, b"".join(encode(message)))

    def _socket(self, connection: int) -> int:
        if self._host.listens:
            return connection
        return next((socket for socket, dialed in self.dials.items() if dialed == connection), 0)

    def name_of(self, socket: int) -> int:
        """Returns the decider's number of a socket."""
        return self.dials.get(socket, socket)

    # ---------------------------------------------------------------- what arrives

    @property
    def listens(self) -> bool:
        """See `SocketHost`."""
        return self._host.listens

    def on_accepted(self, connection: int) -> None:
        """See `SocketHost`."""
        self._host.report(Connected(connection))

    def on_established(self, connection: int) -> None:
        """See `SocketHost`."""
        self._host.report(Connected(self.dials[connection]))

    def on_arrived(self, socket: Socket, data: bytes) -> None:
        """See `SocketHost`: bytes that are no message end the connection."""
        name = self.name_of(socket.connection)
        try:
            messages = [_with_bytes(decode(frame)) for frame in socket.decoder.feed(data)]
            if socket.decoder.failure is not None:
                raise socket.decoder.failure
        except WireError:
            self.sockets.close(socket.connection)
            self._host.report(HaConnectionClosed(name))
            return
        for message in messages:
            self._host.report(Received(name, message))

    def on_ended(self, connection: int) -> None:
        """See `SocketHost`."""
        self._host.report(HaConnectionClosed(self.name_of(connection)))


def _with_bytes(message: HaMessage) -> HaMessage:
    """Returns the message with bytes of its own, which look the same in every trace."""
    return attrs.evolve(message, payload=bytes(message.payload)) if isinstance(message, Push | Tables) else message
