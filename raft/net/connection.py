"""One connection: bytes in through a decoder, bytes out through a bounded queue; its end is reported exactly once.

Any code of the node may write at any time; what is written within a round leaves joined in one send, that of `urgent`
connections before that of others (each peer waits for its disk before any client is answered). A connection that
cannot send keeps its bytes up to `outbound_bytes_max`, and then does one of two things:

- a `lossy` one (to a peer, whose protocol expects loss) drops the newest frame;
- any other takes the frame, and its owner must stop reading requests while it `is_full`, until `on_drained`. The owner
  bounds its answers to the requests that it has already taken.

What it holds is charged to the reactor's budget (`raft.net.budget`) after each chunk and each flush. While the budget is
short of room it is not read.

Isolation: a broken socket, and any error of decoder or session, closes this connection with a reason and nothing else.
A `WireError` blames the other side; any other error is ours and is logged with its traceback. Only `ENDS_PROCESS` (the
disk, a broken invariant) is raised out of the round. A half-closed connection counts as closed.
"""

import errno
import logging
import os
import socket
import struct
import traceback
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Generic, Protocol

from raft.net.budget import LITTLE_BYTES, Account, Standing
from raft.net.decoder import LARGE_BYTES, Buffer, Decoder, FrameT
from raft.net.errors import ENDS_PROCESS, WireError
from raft.net.reactor import BROKEN, READABLE, WRITABLE, Reactor
from raft.net.tls import TlsFailed
from raft.net.tls_socket import StreamSocket, TlsSocket

logger = logging.getLogger(__name__)

JOIN_BYTES = 128 * 1024
"""Frames are joined into sends of about this size."""
PIECES_MAX = 16
"""A batch too large to be joined is sent in groups of so many pieces."""

CONNECTION_BYTES = 4 * 1024
"""The memory that an open connection costs by itself: its objects and those of its session."""
TLS_BYTES = 64 * 1024
"""The same for one with TLS, in addition: the state of OpenSSL, and a record that is not whole."""
CHARGED_LATER_BYTES = 64 * 1024
"""So much may be written before it is charged; a flush charges the rest."""

CLOSED_BY_OTHER_SIDE = "closed by the other side"
_ENDED_BY_PEER = frozenset({0, errno.ECONNRESET, errno.EPIPE})
"""Errors of a socket that the other side's kernel sends for a process that has ended; 0 is a plain end."""


class Session(Protocol[FrameT]):
    """The meaning of a connection's frames."""

    def on_frames(self, frames: list[FrameT]) -> None:
        """Frames arrived. Raises `WireError` to have the connection closed."""

    def on_drained(self) -> None:
        """The outbound queue, which had been full, is empty again, or the process has room again."""
        return

    def on_wire_error(self, error: WireError) -> None:
        """The connection is about to be closed because of `error`; the session may still write an answer."""
        return

    def on_closed(self, reason: str) -> None:
        """The connection is closed. Called once, whichever side closed it."""

    def held_bytes(self) -> int:
        """Returns the bytes of frames that it has taken and not answered, and of answers that it holds back."""
        return 0


_TRAFFIC = struct.Struct("=QQ")
_TRAFFIC_AT = 120
"""The place of tcpi_bytes_acked and tcpi_bytes_received in Linux' tcp_info (RFC 4898)."""
_TCP_INFO_BYTES = _TRAFFIC_AT + _TRAFFIC.size


class _Over(Session[Any]):
    """The session of a closed connection: ignores all calls.

    It replaces the real session to break the reference cycle between connection and session, so that both are freed at
    once, without a garbage collection.
    """

    def on_frames(self, frames: list[Any]) -> None:
        """Ignored: the connection is closed."""

    def on_closed(self, reason: str) -> None:
        """Ignored: the close was reported already."""


_OVER = _Over()


class _Ended(Decoder[Any]):
    """The decoder of a closed connection: it holds nothing, while others may still hold the connection."""

    failure = None
    pending_bytes = 0
    held_bytes = 0

    def feed(self, chunk: Buffer) -> list[Any]:
        """See `Decoder`: nothing comes of it."""
        return []

    def room(self) -> memoryview | None:
        """See `Decoder`."""
        return None

    def fill(self, count: int) -> list[Any]:
        """See `Decoder`."""
        return []


_ENDED = _Ended()


class SocketConnection(Generic[FrameT]):
    """A connected non-blocking socket, registered with the reactor for as long as it is open."""

    __slots__ = (
        "_events",
        "_flush_asked",
        "_outbound",
        "_was_full",
        "account",
        "decoder",
        "ended_by_peer",
        "frames_in",
        "is_closed",
        "lossy",
        "name",
        "outbound_bytes",
        "outbound_bytes_max",
        "reactor",
        "session",
        "socket",
        "urgent",
    )

    def __init__(
        self,
        reactor: Reactor,
        connected: StreamSocket,
        decoder: Decoder[FrameT],
        session: Session[FrameT],
        *,
        outbound_bytes_max: int,
        lossy: bool = False,
        urgent: bool = False,
        name: str = "",
    ) -> None:
        connected.setblocking(False)
        self.reactor = reactor
        self.socket = connected
        self.decoder = decoder
        self.session = session
        self.outbound_bytes_max = outbound_bytes_max
        self.lossy = lossy
        self.urgent = urgent
        self.name = name
        self.outbound_bytes = 0
        self.frames_in = 0
        self.is_closed = False
        self.ended_by_peer = False
        """True once the other side has closed or reset the connection, as the kernel does for a process that has ended.

        A time-out is no such sign.
        """
        self._outbound: deque[Buffer] = deque()
        self._flush_asked = False
        self._was_full = False
        self._events = READABLE
        own_bytes = CONNECTION_BYTES + (TLS_BYTES if isinstance(connected, TlsSocket) else 0)
        self.account = Account(own_bytes)
        """That of a member, until a listener has accepted it."""
        reactor.register(self, READABLE)
        reactor.budget.join(self)

    def __str__(self) -> str:
        return f"{type(self.session).__name__} of {self.name}" if self.name else type(self.session).__name__

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self.socket.fileno()

    # ---------------------------------------------------------------- what it holds

    def held_bytes(self) -> int:
        """Returns the memory that this connection takes, as far as it is counted."""
        held = self.account.own_bytes + self.outbound_bytes + self.session.held_bytes()
        if self.decoder.pending_bytes:
            held += self.decoder.held_bytes
        return held + self.socket.held_bytes if isinstance(self.socket, TlsSocket) else held

    def _charge(self) -> None:
        held = self.held_bytes()
        if held != self.account.charged and not self.is_closed:
            self.reactor.budget.charge(self, held)

    @property
    def is_short(self) -> bool:
        """True while the process has no room for more on this connection; it is not read, until `on_drained`."""
        budget = self.reactor.budget
        if not budget.is_short or budget.admits(self):
            return False
        self.account.has_room = False
        budget.hold_up(self)
        self._watch()
        return True

    @property
    def standing(self) -> Standing:
        """The other end, as far as it is known."""
        return self.account.standing

    def become(self, standing: Standing) -> None:
        """More is known of the other end."""
        if standing is not self.account.standing and not self.is_closed:
            self.reactor.budget.promote(self, standing)

    def read_on(self) -> None:
        """See `Holder`: there is room again."""
        self.account.has_room = True
        self._watch()
        self.session.on_drained()

    # ---------------------------------------------------------------- out

    @property
    def is_full(self) -> bool:
        """True while the queue is at its bound, or the process is short of room; then the owner should take no more work
        from it until `on_drained`.
        """
        if self.outbound_bytes < self.outbound_bytes_max:
            return self.reactor.budget.is_short and self.is_short
        self._was_full = True
        return True

    def write(self, data: bytes) -> bool:
        """Queue `data`, to be sent at the end of the round.

        Returns whether it was taken: a lossy connection that is full drops it, and so does one that is closed.
        """
        if self.is_closed or (self.lossy and self._lacks_room(len(data))):
            return False
        self._outbound.append(data)
        self.outbound_bytes += len(data)
        if self.outbound_bytes > self.account.charged + CHARGED_LATER_BYTES:
            self._charge()
        if not self._flush_asked:
            self._ask_flush()
        return True

    def write_pieces(self, pieces: Sequence[Buffer]) -> bool:
        """Like `write`, for data in pieces, of which all or none are sent.

        Large pieces are not copied. Returns whether they were taken.
        """
        size = sum(map(len, pieces))
        if self.is_closed or (self.lossy and self._lacks_room(size)):
            return False
        self._outbound.extend(pieces)
        self.outbound_bytes += size
        if self.outbound_bytes > self.account.charged + CHARGED_LATER_BYTES:
            self._charge()
        if not self._flush_asked:
            self._ask_flush()
        return True

    def _lacks_room(self, size: int) -> bool:
        return bool(self.outbound_bytes) and self.outbound_bytes + size > self.outbound_bytes_max

    def _ask_flush(self) -> None:
        self._flush_asked = True
        self.reactor.flush_later(self, urgent=self.urgent)

    def send(self, data: bytes) -> bool:
        """Like `write`, but sends at once, after what was written before. Returns whether it was taken."""
        written = self.write(data)
        self.flush()
        return written

    def flush(self) -> None:
        """Send what the socket takes; the rest is sent when the socket is writable again."""
        self._flush_asked = False
        outbound = self._outbound
        while outbound:
            if len(outbound) > 1:
                self._join_first()
            first = outbound[0]
            try:
                # A piece too large to be joined is sent with those before it, because the receiver is then woken only
                # once.
                alone = len(outbound) == 1
                sent = self.socket.send(first) if alone else self.socket.sendmsg(islice(outbound, PIECES_MAX))
            except BlockingIOError:
                break
            except OSError as error:
                self._break(error)
                return
            self.outbound_bytes -= sent
            while outbound and sent >= len(outbound[0]):
                sent -= len(outbound.popleft())
            if sent:
                outbound[0] = memoryview(outbound[0])[sent:]
                break
        if outbound or self._events != READABLE:
            self._watch()
        if self._was_full and not outbound:
            self._was_full = False
            self.reactor.ask_another_round()
            self.session.on_drained()
        if outbound or self.account.charged != CONNECTION_BYTES:  # else it holds nothing, as before
            self._charge()

    def _join_first(self) -> None:
        """Join the small pieces at the head of the queue into one."""
        outbound = self._outbound
        pieces = [outbound.popleft()]
        size = len(pieces[0])
        while outbound and size + len(outbound[0]) <= JOIN_BYTES:
            size += len(outbound[0])
            pieces.append(outbound.popleft())
        outbound.appendleft(b"".join(pieces) if len(pieces) > 1 else pieces[0])

    # ---------------------------------------------------------------- in

    def pause_reading(self) -> None:
        """Stop reading from the socket, so that its sender is slowed down by TCP (back-pressure)."""
        self.account.is_wanted = False
        self._watch()

    def resume_reading(self) -> None:
        """Read again."""
        self.account.is_wanted = True
        self._watch()

    def on_ready(self, events: int) -> None:
        """The reactor's call."""
        if events & WRITABLE:
            self.flush()
        if self.is_closed:
            return
        if events & READABLE and self.account.is_wanted and self.account.has_room:
            if self.reactor.budget.is_short and self.is_short:
                return
            self._receive()
            # What is only written is charged by the flush, as far as the socket does not take it.
            has_held = not self._flush_asked and self.account.charged != CONNECTION_BYTES
            if has_held or self.decoder.pending_bytes or self.session.held_bytes():
                self._charge()
        elif events & BROKEN:
            number = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            self._break(OSError(number, os.strerror(number)))

    def _receive(self) -> None:
        decoder = self.decoder
        # TLS has the socket read into a place that every record fits.
        room = decoder.room() if decoder.pending_bytes and isinstance(self.socket, socket.socket) else None
        buffer = self.reactor.receive_buffer if room is None else room
        if self.reactor.budget.is_short and self.account.standing is not Standing.MEMBER:
            buffer = buffer[:LITTLE_BYTES]
        try:
            count = self.socket.recv_into(buffer)
        except BlockingIOError:
            return
        except OSError as error:
            self._break(error)
            return
        if count == 0:
            self.ended_by_peer = True
            self.close(CLOSED_BY_OTHER_SIDE)
            return
        try:
            frames = self._decode(buffer[:count], in_place=room is not None)
            self.frames_in += len(frames)
            if frames:
                self.session.on_frames(frames)
        except Exception as error:  # noqa: BLE001 - `refuse` raises what ends the process
            self.refuse(error)
        else:
            if self.decoder.failure is not None:
                self.refuse(self.decoder.failure)

    def _decode(self, received: memoryview, *, in_place: bool) -> list[FrameT]:
        """Returns the frames that `received` completes; with `in_place` the bytes lie in the decoder's own room."""
        decoder = self.decoder
        if in_place:
            return decoder.fill(len(received))
        # Bytes of its own are cheaper to take apart than a view.
        return decoder.feed(bytes(received) if len(received) < LARGE_BYTES else received)

    # ---------------------------------------------------------------- the end

    def traffic(self) -> tuple[int, int]:
        """Returns the bytes received and those that the other side has acknowledged, as the kernel counts them."""
        try:
            with socket.socket(fileno=os.dup(self.socket.fileno())) as plain:  # whatever lies over it
                facts = plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        except OSError:
            return 0, 0
        if len(facts) < _TCP_INFO_BYTES:
            return 0, 0  # an older kernel
        acked, received = _TRAFFIC.unpack_from(facts, _TRAFFIC_AT)
        return received, acked

    def refuse(self, error: Exception) -> None:
        """Close the connection because of `error`, after the session has had the chance to answer
        (`Session.on_wire_error`).

        An error that is no `WireError` is logged with its traceback. Raises `error` itself if it is one of
        `ENDS_PROCESS`.
        """
        if isinstance(error, ENDS_PROCESS):
            raise error
        if self.is_closed:
            return
        if not isinstance(error, WireError):
            # As text: a log record that is kept must not keep the connection.
            text = "".join(traceback.format_exception(error))
            logger.error("connection %s is closed because handling its bytes failed\n%s", self.name, text)
            error = WireError(f"this process failed to handle what was sent ({type(error).__name__})")
        self.session.on_wire_error(error)
        self.flush()
        self.close(str(error))

    def _break(self, error: OSError) -> None:
        """Close because the socket is broken: by the other side, or since the path to it gives no answer."""
        if isinstance(error, TlsFailed):
            self.close(str(error))
            return
        self.ended_by_peer = error.errno in _ENDED_BY_PEER
        self.close(f"broken: {error.strerror or error}" if error.errno else CLOSED_BY_OTHER_SIDE)

    def close(self, reason: str) -> None:
        """Close now; unsent bytes are dropped. A second call does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        self.reactor.unregister(self)
        self.reactor.note_traffic(self.traffic())
        with suppress(OSError):  # it may be broken already
            self.socket.shutdown(socket.SHUT_WR)
        self.socket.close()
        self._outbound.clear()
        self.outbound_bytes = 0
        self.decoder = _ENDED
        self.reactor.budget.leave(self)
        self.reactor.ask_another_round()
        session, self.session = self.session, _OVER
        session.on_closed(reason)

    def _watch(self) -> None:
        events = (READABLE if self.account.is_wanted and self.account.has_room else 0) | (
            WRITABLE if self._outbound else 0
        )
        if events != self._events and not self.is_closed:
            self._events = events
            self.reactor.modify(self, events)
