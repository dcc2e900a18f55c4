"""The network between nodes and clients, as TCP forwarders that can be told to fail.

One `Link` stands for one listening port and one destination: every ordered pair of nodes has one ("1>2": dialed by
node 1, ending at node 2), and so has the way from all clients to each node ("client>2"). A link has two ways, forward
(from the dialer) and backward, which fail one by one:

- cut: a black hole. Bytes are neither read nor forwarded, so the sender sees its buffers fill; connections stay open,
  new ones hang; nobody is told. On heal everything that waited goes through, late, as TCP retransmission would do.
- delay: every chunk leaves a fixed time after it came.
- reset: the open connections end with RST on both sides.

What is open passes everything, and also the end of a connection: a killed process closes its sockets, and the other
side learns it at once (FIN as FIN, RST as RST), because that is information a real network carries. Through a cut, not
even that passes.

Cost: one Trio task for all links (`Reactor`), a chunk from one `recv` to one `send`, nothing per message, and no copy
unless the receiver is slow or a delay is set.
"""

import array
import contextlib
import errno
import fcntl
import socket
import struct
import termios
import time
from collections import deque
from collections.abc import Iterable, Mapping

import attrs
import trio

from jepsen_like.cluster.ports import LOOPBACK
from raft.net.reactor import BROKEN, READABLE, WRITABLE, Reactor

DELAYED_BYTES_MAX = 4 * 1024 * 1024
"""Bytes that wait for their time in one way of one connection; beyond them the sender is held back."""
BACKLOG = 256
LINGER_RESET = struct.pack("ii", 1, 0)

Pair = tuple[int, int]
"""From this node to that one."""


@attrs.define(eq=False)
class Way:
    """One way through a link: whether it passes, how late, and what it has passed."""

    is_cut: bool = False
    delay_s: float = 0.0
    passed_bytes: int = 0
    passed_at_cut: int = 0

    @property
    def passed_since_cut(self) -> int:
        """Bytes that went through since the cut: 0, or the cut is a lie."""
        return self.passed_bytes - self.passed_at_cut

    def cut(self) -> None:
        """Pass nothing from now on. The link has to be told: `Link.refresh`."""
        if not self.is_cut:
            self.is_cut = True
            self.passed_at_cut = self.passed_bytes

    def heal(self) -> None:
        """Pass everything again, at once."""
        self.is_cut = False
        self.delay_s = 0.0


class End:
    """One socket of a carried connection. What is read here travels `way` to `peer`; what waits in `outbound` goes out
    here and has come the opposite way.
    """

    __slots__ = ("_mask", "at_end", "carried", "is_gone", "late", "late_bytes", "outbound", "peer", "socket", "way")

    def __init__(self, carried: "Carried", connected: socket.socket, way: Way) -> None:
        self.carried = carried
        self.socket = connected
        self.way = way
        self.peer: End | None = None
        self.outbound = b""
        self.late: deque[tuple[float, bytes]] = deque()
        self.late_bytes = 0
        self.at_end = False
        self.is_gone = False
        self._mask: int | None = None

    def fileno(self) -> int:
        """The descriptor, for the reactor."""
        return self.socket.fileno()

    def on_ready(self, events: int) -> None:
        """The reactor's call: move what can be moved."""
        if not self.carried.is_connected:
            self.carried.on_dialed()
            return
        if events & WRITABLE:
            self.send(b"")
        if self.carried.is_closed:
            return
        if events & READABLE and self._may_read():
            self._receive()
        elif events & BROKEN:
            self._on_broken()

    def _may_read(self) -> bool:
        peer = self.peer
        return (
            peer is not None
            and not (self.way.is_cut or self.at_end or peer.outbound)
            and self.late_bytes < DELAYED_BYTES_MAX
        )

    def _receive(self) -> None:
        assert self.peer is not None
        buffer = self.carried.link.reactor.receive_buffer
        try:
            count = self.socket.recv_into(buffer)
        except BlockingIOError:
            return
        except OSError:
            self.carried.close(reset=True)
            return
        sent = 0
        if count and self.way.delay_s == 0.0 and not self.late:
            # The common case, without a look at anything that has not changed.
            with contextlib.suppress(OSError):
                sent = self.peer.socket.send(buffer[:count])
                self.way.passed_bytes += sent
                if sent == count:
                    return
        self.at_end = count == 0
        if self.way.delay_s > 0.0 or self.late:
            self.late.append((trio.current_time() + self.way.delay_s, bytes(buffer[:count])))
            self.late_bytes += count
            self.carried.link.on_late()
        elif count:
            self.peer.send(buffer[sent:count])
        else:
            self.peer.finish()
        if not self.carried.is_closed:
            self.refresh()

    def release(self, now: float) -> float:
        """Pass on what was delayed and is due; when the next chunk is due, or infinity."""
        peer = self.peer
        while self.late and peer is not None and not (self.carried.is_closed or self.way.is_cut or peer.outbound):
            due, chunk = self.late[0]
            if due > now:
                return due
            self.late.popleft()
            self.late_bytes -= len(chunk)
            if chunk:
                peer.send(chunk)
            else:
                peer.finish()
        if not self.carried.is_closed:
            self.refresh()
        return float("inf")

    def send(self, chunk: "memoryview | bytes") -> None:
        """Let `chunk` out here, behind what still waits; keep what the socket does not take."""
        assert self.peer is not None
        whole: memoryview | bytes = self.outbound + bytes(chunk) if self.outbound else chunk
        try:
            sent = self.socket.send(whole) if whole else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self._on_gone()
            return
        self.peer.way.passed_bytes += sent
        self.outbound = bytes(whole[sent:])
        self.refresh()
        if not self.outbound:
            if self.peer.late:
                self.carried.link.on_late()
            self.peer.refresh()

    def finish(self) -> None:
        """The other side will send no more: say so here."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
        assert self.peer is not None
        if self.at_end and self.peer.at_end and not self.late and not self.peer.late:
            self.carried.close(reset=False)

    def _on_broken(self) -> None:
        """The kernel has bad news of a socket that is not being read."""
        if self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._on_gone()
        else:
            self._watch(None)  # both sides have said goodbye; what is left to read can wait

    def _on_gone(self) -> None:
        """This side was reset or killed. That news travels `way`, and not through a cut."""
        if not self.way.is_cut:
            self.carried.close(reset=True)
            return
        self.is_gone = True
        self.outbound = b""
        self._watch(None)

    def refresh(self) -> None:
        """Watch for what may happen on this socket now."""
        if self.carried.is_closed or not self.carried.is_connected:
            return
        if self.is_gone:
            if not self.way.is_cut:
                self.carried.close(reset=True)
            return
        assert self.peer is not None
        mask = READABLE if self._may_read() else 0
        if self.outbound and not self.peer.way.is_cut:
            mask |= WRITABLE
        # With an empty mask the kernel still tells of a reset, which is wanted, except through a cut.
        self._watch(None if not mask and self.way.is_cut else mask)

    def _watch(self, mask: int | None) -> None:
        if mask == self._mask:
            return
        reactor = self.carried.link.reactor
        if mask is None:
            reactor.unregister(self)
        elif self._mask is None:
            reactor.register(self, mask)
        else:
            reactor.modify(self, mask)
        self._mask = mask

    def watch_dialing(self) -> None:
        """Wait for the connection to be made or refused."""
        self._watch(WRITABLE)

    def close(self, *, reset: bool) -> None:
        """Close the socket."""
        self._watch(None)
        with contextlib.suppress(OSError):
            if reset:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        self.socket.close()


class Carried:
    """One connection through a link: `near` is the dialer's end, `far` the destination's once it has been dialed."""

    def __init__(self, link: "Link", accepted: socket.socket) -> None:
        accepted.setblocking(False)
        _send_at_once(accepted)
        self.link = link
        self.near = End(self, accepted, link.forward)
        self.far: End | None = None
        self.is_connected = False
        self.is_closed = False

    def dial(self) -> None:
        """Begin to connect, unless the link is cut: then the dialer hangs, as its SYN would."""
        if self.far is not None or self.is_closed or self.link.forward.is_cut or self.link.backward.is_cut:
            return
        socket_ = socket.socket()
        socket_.setblocking(False)
        _send_at_once(socket_)
        self.far = End(self, socket_, self.link.backward)
        self.far.peer, self.near.peer = self.near, self.far
        if socket_.connect_ex(self.link.destination) not in (0, errno.EINPROGRESS):
            self.close(reset=True)
            return
        self.far.watch_dialing()

    def on_dialed(self) -> None:
        """The connection was made, or refused."""
        assert self.far is not None
        if self.far.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            if self.link.forward.is_cut or self.link.backward.is_cut:
                self.far.close(reset=True)
                self.far = None  # the refusal does not come through; dial again after the cut
            else:
                self.close(reset=True)  # to the dialer, who was accepted here, a reset says the same as a refusal
            return
        self.is_connected = True
        self.refresh()

    def refresh(self) -> None:
        """The link has changed: look again at what may pass."""
        if self.far is None:
            self.dial()
        elif self.is_connected:
            self.near.refresh()
            self.far.refresh()

    def close(self, *, reset: bool) -> None:
        """End both sides."""
        if self.is_closed:
            return
        self.is_closed = True
        self.link.carried.discard(self)
        self.near.close(reset=reset)
        if self.far is not None:
            self.far.close(reset=reset)


class Link:
    """One listening port and the way to one destination behind it."""

    def __init__(self, reactor: Reactor, name: str, destination: tuple[str, int]) -> None:
        self.reactor = reactor
        self.name = name
        self.destination = destination
        self.forward = Way()
        self.backward = Way()
        self.carried: set[Carried] = set()
        self.has_late = trio.Event()
        self._listener = socket.create_server((LOOPBACK, 0), backlog=BACKLOG)
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        reactor.register(self, READABLE)

    def fileno(self) -> int:
        """The listening descriptor, for the reactor."""
        return self._listener.fileno()

    def on_ready(self, events: int) -> None:
        """The reactor's call: somebody dials."""
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            accepted, _ = self._listener.accept()
            carried = Carried(self, accepted)
            self.carried.add(carried)
            carried.dial()

    @property
    def connections(self) -> int:
        """Connections open now, hanging ones included."""
        return len(self.carried)

    def cut(self) -> None:
        """Cut both ways."""
        self.forward.cut()
        self.backward.cut()
        self.refresh()

    def heal(self) -> None:
        """Open both ways and take the delays away."""
        self.forward.heal()
        self.backward.heal()
        self.refresh()

    def delay(self, seconds: float) -> None:
        """Let every chunk leave this much later, both ways; 0 takes the delay away."""
        self.forward.delay_s = self.backward.delay_s = seconds

    def reset(self) -> int:
        """End every open connection with RST on both sides; returns how many there were. New ones are welcome."""
        ended = tuple(self.carried)
        for carried in ended:
            carried.close(reset=True)
        return len(ended)

    def refresh(self) -> None:
        """A way was cut or healed."""
        for carried in tuple(self.carried):
            carried.refresh()
        self.on_late()

    def on_late(self) -> None:
        """Something waits for its time."""
        self.has_late.set()

    async def release_late(self) -> None:
        """Pass delayed chunks on in time, until cancelled."""
        while True:
            self.has_late = trio.Event()
            now = trio.current_time()
            ends = [end for carried in self.carried for end in (carried.near, carried.far) if end is not None]
            due = min((end.release(now) for end in ends), default=float("inf"))
            with trio.move_on_at(due):
                await self.has_late.wait()

    def waiting_bytes(self) -> int:
        """Bytes that stand before a cut in this moment, seen in the kernel's receive buffers."""
        total = 0
        for carried in self.carried:
            if self.forward.is_cut:
                total += _unread_bytes(carried.near.socket)
            if self.backward.is_cut and carried.far is not None:
                total += _unread_bytes(carried.far.socket)
        return total

    def close(self) -> None:
        """Close the port and every connection."""
        self.reactor.unregister(self)
        self._listener.close()
        for carried in tuple(self.carried):
            carried.close(reset=True)


def _send_at_once(connected: socket.socket) -> None:
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _unread_bytes(end: socket.socket) -> int:
    count = array.array("i", [0])
    with contextlib.suppress(OSError, ValueError):
        fcntl.ioctl(end.fileno(), termios.FIONREAD, count)
    return count[0]


@attrs.frozen
class CutEvidence:
    """What a cut link shows: the ways that pass nothing, and what has gathered before them."""

    link: str
    ways: str
    passed_bytes: int
    waiting_bytes: int
    connections: int
    for_s: float

    def __str__(self) -> str:
        return (
            f"cut {self.link} ({self.ways}): {self.passed_bytes} bytes passed in {self.for_s:.1f} s, "
            f"{self.waiting_bytes} waiting on {self.connections} connections"
        )


class FaultNetwork:
    """All links of a cluster. Cuts are named by the nodes; what they mean for each link is worked out here."""

    def __init__(self, addresses: Mapping[int, tuple[str, int]]) -> None:
        self._reactor = Reactor()
        self.between: dict[Pair, Link] = {
            (dialer, node): Link(self._reactor, f"{dialer}>{node}", address)
            for node, address in addresses.items()
            for dialer in addresses
            if dialer != node
        }
        self.clients: dict[int, Link] = {
            node: Link(self._reactor, f"client>{node}", address) for node, address in addresses.items()
        }
        self._cut_since: dict[str, int] = {}

    @property
    def links(self) -> list[Link]:
        """Every link, nodes first."""
        return [*self.between.values(), *self.clients.values()]

    async def serve(self) -> None:
        """Carry everything until cancelled; then every port and connection is closed."""
        try:
            async with trio.open_nursery() as nursery:
                for link in self.links:
                    nursery.start_soon(link.release_late)
                await self._reactor.run()
        finally:
            for link in self.links:
                link.close()
            self._reactor.close()

    def cut(self, pairs: Iterable[Pair], clients: Iterable[int] = ()) -> None:
        """Let nothing pass from the first of each pair to the second, and nothing between clients and `clients`.

        A pair concerns two links: what the first sends on connections it dialed, and what it answers on those that
        the second dialed. The opposite pair stays as it is.
        """
        now = time.monotonic_ns()
        for sender, receiver in pairs:
            self.between[sender, receiver].forward.cut()
            self.between[receiver, sender].backward.cut()
        for node in clients:
            self.clients[node].cut()
        for link in self.links:
            if link.forward.is_cut or link.backward.is_cut:
                link.refresh()
                self._cut_since.setdefault(link.name, now)

    def heal(self) -> None:
        """Open every link and take all delays away."""
        for link in self.links:
            link.heal()
        self._cut_since.clear()

    def evidence(self) -> list[CutEvidence]:
        """What every cut link shows in this moment."""
        now = time.monotonic_ns()
        return [
            CutEvidence(
                link.name,
                "both ways"
                if link.forward.is_cut and link.backward.is_cut
                else ("forward" if link.forward.is_cut else "backward"),
                sum(way.passed_since_cut for way in (link.forward, link.backward) if way.is_cut),
                link.waiting_bytes(),
                link.connections,
                (now - self._cut_since[link.name]) / 1e9,
            )
            for link in self.links
            if link.name in self._cut_since
        ]
