"""Connections between simulated processes: what is sent on one arrives in order and once.

`SimulatedSockets` loses what the network loses: the rest of the connection then waits forever, as on a cut link.
`ResendingSockets` sends a lost segment again later, as TCP does. A killed process's system ends its connections; of one
without power a later sender learns it. Connections are numbered over the world, so late segments reach no other.
"""

import enum
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import attrs

from log.values import frozen

RESET_NUMBER = -1
RESEND_S_MIN, RESEND_S_MAX = 0.05, 0.8


class SegmentKind(enum.Enum):
    """The purpose of a segment."""

    DIAL = "dial"
    ACCEPT = "accept"
    DATA = "data"
    END = "end"


@frozen
class Segment:
    """`number` counts the segments of one end of a connection, from 0; an END with RESET_NUMBER takes effect at once."""

    connection: int
    number: int
    kind: SegmentKind
    data: bytes = b""


class Endpoint(Protocol):
    """The owner of one end."""

    def on_established(self) -> None:
        """The connection is up."""

    def on_data(self, data: bytes) -> None:
        """Bytes have come, as they were sent in one call."""

    def on_ended(self, *, by_peer: bool) -> None:
        """The connection is gone. `by_peer` is true if the other end closed it, or does not know it."""


@attrs.define(eq=False)
class Socket:
    """One end of a connection."""

    connection: int
    peer: int
    owner: Endpoint = attrs.field(init=False)
    sent: int = 0
    due: int = 0
    """The number of the next segment to take."""
    early: dict[int, Segment] = attrs.field(factory=dict)
    unacknowledged: deque[Segment] = attrs.field(factory=deque)
    resend_s: float = RESEND_S_MIN
    is_resending: bool = False


class SocketHost(Protocol):
    """The process that has the sockets."""

    dialed: set[int]
    """The connections that were opened to this machine, in whichever life: a late copy of a dial opens none."""

    def transmit(self, to: int, segment: Segment) -> None:
        """Put a segment on the wire."""

    def accept(self, socket: Socket) -> Endpoint | None:
        """Returns the owner of this end of a connection that another process dials; None refuses it."""

    def take(self, action: Callable[..., None], *arguments: object) -> None:
        """Let something reach the process."""

    def new_connection(self) -> int:
        """Returns a number that no connection has had."""


HostT = TypeVar("HostT", bound=SocketHost)


class SimulatedSockets(Generic[HostT]):
    """All connections of one process."""

    def __init__(self, host: HostT) -> None:
        self.open: dict[int, Socket] = {}
        self._host = host

    def dial(self, to: int, owner: Endpoint) -> Socket:
        """Begin to connect to another process."""
        socket = self._add(Socket(self._host.new_connection(), to), owner)
        self._send(socket, SegmentKind.DIAL)
        return socket

    def send(self, socket: Socket, data: bytes) -> None:
        """Send bytes; on a connection that is closed they go nowhere."""
        if self._has(socket):
            self._send(socket, SegmentKind.DATA, data)

    def close(self, socket: Socket) -> None:
        """Close this end, behind what was sent."""
        if self.open.pop(socket.connection, None) is not None:
            self._send(socket, SegmentKind.END)

    def close_all(self) -> None:
        """End all connections, as the operating system does for a process that was killed."""
        for socket in list(self.open.values()):
            self.close(socket)

    def reset(self, peer: int | None = None) -> int:
        """Break all connections, or this peer's: both ends see it, and all under way is lost. Returns their number."""
        broken = [each for each in self.open.values() if peer in (None, each.peer)]
        for socket in broken:
            self._refuse(socket.peer, socket.connection)
            self._host.take(self._end, socket)
        return len(broken)

    def receive(self, sender: int, segment: Segment) -> None:
        """A segment arrives at the operating system, which gives the process what is in order."""
        connection = segment.connection
        socket = self.open.get(connection)
        if segment.kind is SegmentKind.DIAL and connection not in self._host.dialed:
            self._on_dialed(Socket(connection, sender, due=1))
        elif socket is None:
            if segment.kind is not SegmentKind.END:
                self._refuse(sender, connection)
        elif segment.number == RESET_NUMBER:
            self._host.take(self._end, socket)
        elif segment.number >= socket.due:
            socket.early[segment.number] = segment
            ready: list[Segment] = []
            while (following := socket.early.pop(socket.due, None)) is not None:
                socket.due += 1
                ready.append(following)
            if ready:
                self._host.take(self._take, socket, ready)

    def _on_dialed(self, socket: Socket) -> None:
        owner = self._host.accept(socket)
        if owner is None:
            self._refuse(socket.peer, socket.connection)
            return
        self._host.dialed.add(socket.connection)
        self._send(self._add(socket, owner), SegmentKind.ACCEPT)
        self._host.take(owner.on_established)

    def _take(self, socket: Socket, segments: Sequence[Segment]) -> None:
        for segment in segments:
            if segment.kind is SegmentKind.END:
                self._end(socket)
            elif self._has(socket):
                assert segment.kind is not SegmentKind.DIAL, "a connection is dialed once"
                if segment.kind is SegmentKind.DATA:
                    socket.owner.on_data(segment.data)
                else:
                    socket.owner.on_established()

    def _end(self, socket: Socket) -> None:
        if self.open.pop(socket.connection, None) is socket:
            socket.owner.on_ended(by_peer=True)

    def _has(self, socket: Socket) -> bool:
        return self.open.get(socket.connection) is socket

    def _add(self, socket: Socket, owner: Endpoint) -> Socket:
        self.open[socket.connection] = socket
        socket.owner = owner
        return socket

    def _send(self, socket: Socket, kind: SegmentKind, data: bytes = b"") -> Segment:
        segment = Segment(socket.connection, socket.sent, kind, data)
        socket.sent += 1
        self._host.transmit(socket.peer, segment)
        return segment

    def _refuse(self, to: int, connection: int) -> None:
        self._host.transmit(to, refusal(connection))


def refusal(connection: int) -> Segment:
    """Returns what an operating system answers for a connection that it does not know."""
    return Segment(connection, RESET_NUMBER, SegmentKind.END)


class ResendingHost(SocketHost, Protocol):
    """The process, with its operating system and that of its peers."""

    def wait(self, seconds: float, action: Callable[..., None], *arguments: object) -> None:
        """Call `action` after some time, if this process still lives, whether it is paused or not."""

    def count_received(self, peer: int, connection: int) -> int:
        """Returns how many segments of this connection the peer's operating system has received."""


class ResendingSockets(SimulatedSockets[ResendingHost]):
    """Connections that lose nothing while both ends live and the link is not cut for good."""

    def _send(self, socket: Socket, kind: SegmentKind, data: bytes = b"") -> Segment:
        segment = super()._send(socket, kind, data)
        socket.unacknowledged.append(segment)
        if not socket.is_resending and kind is not SegmentKind.END:
            socket.is_resending = True
            self._host.wait(socket.resend_s, self._resend, socket)
        return segment

    def _resend(self, socket: Socket) -> None:
        """Send the oldest segment again that has not arrived."""
        if not self._has(socket):
            return
        received = self._host.count_received(socket.peer, socket.connection)
        oldest = socket.unacknowledged[0].number
        while socket.unacknowledged and socket.unacknowledged[0].number < received:
            socket.unacknowledged.popleft()
        if not socket.unacknowledged:
            socket.is_resending, socket.resend_s = False, RESEND_S_MIN
            return
        if socket.unacknowledged[0].number == oldest:
            self._host.transmit(socket.peer, socket.unacknowledged[0])
            socket.resend_s = min(2 * socket.resend_s, RESEND_S_MAX)
        self._host.wait(socket.resend_s, self._resend, socket)
