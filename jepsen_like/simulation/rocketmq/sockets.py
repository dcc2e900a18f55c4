"""Connections over the simulated network: what is sent on one arrives in order and once, or the connection hangs until
an end closes it.

A segment that the network loses is not sent again: what comes after it waits forever, as on a link that is cut.
Connections are numbered over the whole world, so a late segment of one never reaches another.
"""

import enum
from collections.abc import Callable
from typing import Protocol

import attrs

from log.values import frozen
from raft.net.framing import FrameDecoder
from rocketmq_compat.replication.ha_codec import ha_decoder

RESET_NUMBER = -1


class SegmentKind(enum.Enum):
    """The purpose of a segment."""

    DIAL = "dial"
    ACCEPT = "accept"
    DATA = "data"
    END = "end"


@frozen
class StreamSegment:
    """`number` counts the segments of one end, from 0; an END with RESET_NUMBER takes effect at once."""

    connection: int
    number: int
    kind: SegmentKind
    data: bytes = b""


@attrs.define(eq=False)
class Socket:
    """One end of a connection."""

    connection: int
    peer: int
    sent: int = 0
    due: int = 0
    early: dict[int, StreamSegment] = attrs.field(factory=dict)
    decoder: FrameDecoder = attrs.field(factory=ha_decoder)


class SocketHost(Protocol):
    """The process that has the sockets."""

    @property
    def listens(self) -> bool:
        """True if connections are accepted here."""

    def on_accepted(self, connection: int) -> None:
        """Another process has dialed."""

    def on_established(self, connection: int) -> None:
        """A dial was accepted."""

    def on_arrived(self, socket: Socket, data: bytes) -> None:
        """Bytes have come."""

    def on_ended(self, connection: int) -> None:
        """The other end has closed, or does not know the connection."""


class SimulatedSockets:
    """All connections of one process."""

    def __init__(self, host: SocketHost, transmit: Callable[[int, StreamSegment], None]) -> None:
        self.open: dict[int, Socket] = {}
        self._host = host
        self._transmit = transmit
        self._seen: set[int] = set()

    def dial(self, connection: int, to: int) -> None:
        """Connect."""
        socket = self.open[connection] = Socket(connection, to)
        self._send(socket, SegmentKind.DIAL)

    def send(self, connection: int, data: bytes) -> None:
        """Send bytes; on a connection that is closed they go nowhere."""
        socket = self.open.get(connection)
        if socket is not None:
            self._send(socket, SegmentKind.DATA, data)

    def close(self, connection: int) -> None:
        """Close, behind what was sent."""
        socket = self.open.pop(connection, None)
        if socket is not None:
            self._send(socket, SegmentKind.END)

    def close_all(self) -> None:
        """The process was killed: its operating system closes what was open."""
        for connection in list(self.open):
            self.close(connection)

    def reset(self, connection: int) -> None:
        """The connection breaks, and both ends are told; what is on its way is lost."""
        socket = self.open.pop(connection, None)
        if socket is not None:
            self._refuse(socket.peer, connection)
            self._host.on_ended(connection)

    def _send(self, socket: Socket, kind: SegmentKind, data: bytes = b"") -> None:
        number, socket.sent = socket.sent, socket.sent + 1
        self._transmit(socket.peer, StreamSegment(socket.connection, number, kind, data))

    def _refuse(self, to: int, connection: int) -> None:
        self._transmit(to, StreamSegment(connection, RESET_NUMBER, SegmentKind.END))

    def receive(self, sender: int, segment: StreamSegment) -> None:
        """A segment arrives."""
        connection = segment.connection
        if segment.kind is SegmentKind.DIAL:
            self._on_dialed(sender, connection)
            return
        socket = self.open.get(connection)
        if socket is None:
            if segment.kind is not SegmentKind.END:
                self._refuse(sender, connection)
            return
        if segment.number == RESET_NUMBER:
            self._end(socket)
            return
        if segment.number >= socket.due:
            socket.early[segment.number] = segment
        while (ready := socket.early.pop(socket.due, None)) is not None:
            socket.due += 1
            self._take(socket, ready)
            if self.open.get(connection) is not socket:
                return

    def _on_dialed(self, sender: int, connection: int) -> None:
        if connection in self._seen:
            return
        if not self._host.listens:
            self._refuse(sender, connection)
            return
        self._seen.add(connection)
        socket = self.open[connection] = Socket(connection, sender, due=1)
        self._send(socket, SegmentKind.ACCEPT)
        self._host.on_accepted(connection)

    def _take(self, socket: Socket, segment: StreamSegment) -> None:
        match segment.kind:
            case SegmentKind.ACCEPT:
                self._host.on_established(socket.connection)
            case SegmentKind.DATA:
                self._host.on_arrived(socket, segment.data)
            case SegmentKind.END:
                self._end(socket)
            case _:
                raise AssertionError(segment)

    def _end(self, socket: Socket) -> None:
        del self.open[socket.connection]
        self._host.on_ended(socket.connection)
