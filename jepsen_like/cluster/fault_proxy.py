"""The network between nodes and clients, as TCP forwarders that can be told to fail.

One `Link` stands for one listening port and one destination: every ordered pair of nodes has one ("1>2": dialed by
node 1, ending at node 2), and so has the way from all clients to each node ("client>2"). A link has two ways, forward
(from the dialer) and backward, each with a condition of its own:

- cut: a black hole. Bytes are neither read nor forwarded, so the sender sees its buffers fill; connections stay open,
  new ones hang; neither side is notified. On heal everything that waited goes through, late, as TCP retransmission
  would do.
- swallowing: bytes are read and forgotten, the sender notices nothing; new connections hang or are refused. On heal a
  connection that lost bytes ends with RST on both sides: no byte is ever missing inside a living one.
- slow or throttled: every chunk leaves later than it came, in order; senders are held back by a bound on what waits. On
  heal it leaves at once.
- reset: the open connections end with RST on both sides.

What is open passes everything, and also the end of a connection: a killed process closes its sockets, and the other
side learns it at once (FIN as FIN, RST as RST), as in a real network. Through a cut, not even that passes.

Cost: one Trio task for all links (`Poller`), a chunk from one `recv` to one `send`, nothing per message, and no copy
unless the receiver is slow or a delay is set.
"""

import array
import contextlib
import errno
import fcntl
import math
import random
import socket
import struct
import termios
from collections import deque
from collections.abc import Callable

import attrs
import trio

from jepsen_like.cluster.line import FrameCount, Line
from jepsen_like.cluster.poller import BROKEN, READABLE, RECEIVE_BYTES, WRITABLE, Poller
from jepsen_like.cluster.ports import LOOPBACK, listen_at
from jepsen_like.port.wires import CLEAR, Address, Condition

DELAYED_BYTES_MAX = 4 * 1024 * 1024
"""Bytes that wait for their time in one way of one connection; beyond them the sender is held back."""
PORTION_S = 0.02
PORTION_BYTES_MIN = 1024
HELD_S = 0.1
HELD_BYTES_MIN = 16 * 1024
"""A throttled way takes so much time's worth of bytes at once, and holds so much per connection, but not less."""
BACKLOG = 256
LINGER_RESET = struct.pack("ii", 1, 0)


@attrs.define(eq=False)
class Way:
    """One way through a link: how it is, and what it has passed."""

    rng: random.Random
    """Draws the jitter."""
    condition: Condition = CLEAR
    is_mute: bool = False
    """Cut or swallowing: nothing comes through, not even the end of a connection."""
    is_late: bool = False
    portion_bytes: int = RECEIVE_BYTES
    """The bytes that one read takes."""
    held_bytes_max: int = DELAYED_BYTES_MAX
    """One connection holds this many bytes here before its sender is held back."""
    free_s: float = 0.0
    """The time at which a throttled way has room for the next byte."""
    passed_bytes: int = 0
    delayed_bytes: int = 0
    swallowed_bytes: int = 0
    held_bytes: int = 0
    most_held_bytes: int = 0
    refused: int = 0
    lines: tuple[Line, ...] = ()
    """The lines that it always leads over, one after the other."""

    def lay(self, line: Line) -> None:
        """Lead over this line, too, from now on."""
        self.lines += (line,)
        self.impose(self.condition)

    @property
    def counts_requests(self) -> bool:
        """Returns True if a line takes a number of requests a second."""
        return any(line.requests_per_s for line in self.lines)

    def impose(self, condition: Condition) -> None:
        """Be so from now on. The link has to be told: `Link.refresh`."""
        self.condition = condition
        self.is_mute = condition.is_cut or condition.is_swallowing
        self.is_late = condition.is_late or bool(self.lines)
        self.portion_bytes, self.held_bytes_max, self.free_s = RECEIVE_BYTES, DELAYED_BYTES_MAX, 0.0
        rates = [condition.bytes_per_s, *(line.bytes_per_s for line in self.lines)]
        if narrowest := min(filter(None, rates), default=0.0):
            self.portion_bytes = min(RECEIVE_BYTES, max(PORTION_BYTES_MIN, int(narrowest * PORTION_S)))
            self.held_bytes_max = min(DELAYED_BYTES_MAX, max(HELD_BYTES_MIN, int(narrowest * HELD_S)))

    def due(self, now: float, count: int, requests: int = 0) -> float:
        """Returns the time at which a chunk that comes now, with the ends of so many requests, may leave."""
        condition, passed = self.condition, now
        if condition.bytes_per_s:
            passed = self.free_s = max(self.free_s, now) + count / condition.bytes_per_s
        due = max(passed + condition.delay_s, now + condition.delay_s + self.rng.uniform(0, condition.jitter_s))
        for line in self.lines:
            due = max(due, line.due(now, count, requests) + condition.delay_s) + line.delay_s
        return due

    def hold(self, count: int) -> None:
        """So many bytes more wait for their time; fewer, if negative."""
        self.held_bytes += count
        self.delayed_bytes += max(count, 0)
        self.most_held_bytes = max(self.most_held_bytes, self.held_bytes)


class End:
    """A socket of a carried connection: bytes read travel `way` to `peer`; `outbound` came the opposite way."""

    __slots__ = (
        *("_frames", "_mask", "at_end", "carried", "is_gone", "late", "late_bytes"),
        *("outbound", "peer", "socket", "way"),
    )

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
        self._frames = FrameCount()

    def fileno(self) -> int:
        """The descriptor, for the poller."""
        return self.socket.fileno()

    def on_ready(self, events: int) -> None:
        """The poller's call: move what can be moved."""
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
            and not (self.way.condition.is_cut or self.at_end or (peer.outbound and not self.way.is_mute))
            and self.late_bytes < self.way.held_bytes_max
        )

    def _receive(self) -> None:
        assert self.peer is not None
        way, buffer = self.way, self.carried.link.poller.receive_buffer
        try:
            count = self.socket.recv_into(buffer, way.portion_bytes)
        except BlockingIOError:
            return
        except OSError:
            self._on_gone()
            return
        if way.is_mute:
            self._swallow(count)
            return
        sent = 0
        if count and not (way.is_late or self.late):
            # The common case, without a look at anything that has not changed.
            with contextlib.suppress(OSError):
                sent = self.peer.socket.send(buffer[:count])
                way.passed_bytes += sent
                if sent == count:
                    return
        self.at_end = count == 0
        if way.is_late or self.late:
            self._delay(bytes(buffer[:count]))
        elif count:
            self.peer.send(buffer[sent:count])
        else:
            self.peer.finish()
        if not self.carried.is_closed:
            self.refresh()

    def _delay(self, chunk: bytes) -> None:
        requests = self._frames.take(chunk) if self.way.counts_requests else 0
        due = self.way.due(trio.current_time(), len(chunk), requests)
        if self.late:
            due = max(due, self.late[-1][0])  # a stream keeps its order
        self.late.append((due, chunk))
        self.late_bytes += len(chunk)
        self.way.hold(len(chunk))
        self.carried.link.on_late()

    def _swallow(self, count: int) -> None:
        """Bytes, or the stream's end if there are none, are lost for good: this connection cannot go on after it."""
        self.way.swallowed_bytes += count
        self.carried.is_torn = True
        if not count:
            self._on_gone()

    def release(self, now: float) -> float:
        """Pass on what was delayed and is due. Returns when the next chunk is due, or infinity."""
        peer, next_due = self.peer, math.inf
        while self.late and peer is not None and not (self.carried.is_closed or self.way.is_mute or peer.outbound):
            due, chunk = self.late[0]
            if due > now and self.way.is_late:
                next_due = due
                break
            self.late.popleft()
            self.late_bytes -= len(chunk)
            self.way.hold(-len(chunk))
            if chunk:
                peer.send(chunk)
            else:
                peer.finish()
        if not self.carried.is_closed:
            self.refresh()
        return next_due

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
        """This side was reset or killed. That news travels `way`, unless that is mute."""
        if not self.way.is_mute:
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
            if not self.way.is_mute:
                self.carried.close(reset=True)
            return
        assert self.peer is not None
        mask = READABLE if self._may_read() else 0
        if self.outbound and not self.peer.way.is_mute:
            mask |= WRITABLE
        # With an empty mask the kernel still tells of a reset, which is wanted, except through a cut.
        self._watch(None if not mask and self.way.is_mute else mask)

    def _watch(self, mask: int | None) -> None:
        if mask == self._mask:
            return
        poller = self.carried.link.poller
        if mask is None:
            poller.unregister(self)
        elif self._mask is None:
            poller.register(self, mask)
        else:
            poller.modify(self, mask)
        self._mask = mask

    def watch_dialing(self) -> None:
        """Wait for the connection to be made or refused."""
        self._watch(WRITABLE)

    def close(self, *, reset: bool) -> None:
        """Close the socket."""
        self._watch(None)
        self.way.hold(-self.late_bytes)
        self.late.clear()
        self.late_bytes = 0
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
        self.is_torn = False
        """Bytes of it were swallowed: it ends when the way is clear, as with a peer that knows it no longer."""

    def dial(self) -> None:
        """Begin to connect, unless the link is mute: then the dialer hangs, as its SYN would."""
        if self.far is not None or self.is_closed or self.link.is_mute:
            return
        socket_ = self.link.make_socket()
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
            if self.link.is_mute:
                self.far.close(reset=True)
                self.far = None  # the refusal does not come through; dial again afterwards
            else:
                self.close(reset=True)  # the dialer was accepted here, so a reset stands for the refusal
            return
        self.is_connected = True
        self.refresh()

    def refresh(self) -> None:
        """The link has changed: look again at what may pass."""
        if self.is_torn and not self.link.is_mute:
            self.close(reset=True)
        elif self.far is None:
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

    def __init__(
        self,
        poller: Poller,
        name: str,
        destination: Address,
        make_socket: Callable[[], socket.socket] = socket.socket,
        at: Address = (LOOPBACK, 0),
    ) -> None:
        """Listens `at` an address. Raises `CannotListen`."""
        self.poller = poller
        self.name = name
        self.destination = destination
        self.make_socket = make_socket
        self.forward = Way(random.Random(f"forward {name}"))
        self.backward = Way(random.Random(f"backward {name}"))
        self.carried: set[Carried] = set()
        self.has_late = trio.Event()
        self._listener = listen_at(*at, backlog=BACKLOG)
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self.address: Address = (at[0], self.port)
        poller.register(self, READABLE)

    def fileno(self) -> int:
        """The listening descriptor, for the poller."""
        return self._listener.fileno()

    def on_ready(self, events: int) -> None:
        """Called by the poller when a client connects."""
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            accepted, _ = self._listener.accept()
            carried = Carried(self, accepted)
            if self.forward.condition.refuses or self.backward.condition.refuses:
                self.forward.refused += 1
                carried.close(reset=True)  # the dialer was accepted here, so a reset stands for a refusal
                return
            self.carried.add(carried)
            carried.dial()

    @property
    def is_mute(self) -> bool:
        """True if one way lets nothing through, so that no connection can be made."""
        return self.forward.is_mute or self.backward.is_mute

    @property
    def connections(self) -> int:
        """Connections open now, hanging ones included."""
        return len(self.carried)

    def reset(self) -> int:
        """End every open connection with RST on both sides; returns how many there were. New ones are welcome."""
        ended = tuple(self.carried)
        for carried in ended:
            carried.close(reset=True)
        return len(ended)

    def refresh(self) -> None:
        """A way has changed."""
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
            due = min([end.release(now) for end in ends], default=math.inf)
            with trio.move_on_at(due):
                await self.has_late.wait()

    def waiting_bytes(self, way: Way) -> int:
        """Bytes that stand before one of the ways in this moment, seen in the kernel's receive buffers."""
        ends = [end for carried in self.carried for end in (carried.near, carried.far) if end is not None]
        return sum(_unread_bytes(end.socket) for end in ends if end.way is way)

    def close(self) -> None:
        """Close the port and every connection."""
        self.poller.unregister(self)
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
