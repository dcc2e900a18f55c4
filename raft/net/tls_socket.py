"""A socket that speaks TLS: in a connection it takes the place of a plain one, which pays nothing for that.

It has the methods of a non-blocking socket that connections use, with their meaning. `send` counts bytes as sent when
the system has all that they were sealed into; until then its caller repeats it with the same bytes, and more, as it
does for a socket that is full. So a connection that waits to write knows it.

`recv_into` takes so much from the system that all of its plain text fits, so nothing readable is ever left inside
without the system announcing it. The other side's data end with its close_notify, whether it ends the connection or not.
An end without one may have been made by someone between: it is the end of a broken connection, as it is without TLS. No
wire here takes an end for a message: lengths tell which frames are whole, and a request without its answer is unknown. What the protocol itself has to send leaves at once, or with what is written next.
"""

import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Protocol

from raft.net.decoder import Buffer, begins_tls
from raft.net.tls import RECORD_BYTES_MAX, TlsFailed, TlsStream

SEALED_AT_ONCE = 128 * 1024
"""So many bytes are sealed before they are sent."""
SENT_AT_ONCE = 1024 * 1024
"""After so many bytes other connections have their turn."""
UNSENT_BYTES_MAX = 256 * 1024
"""The other side may leave so much of the protocol's own messages unread."""


class StreamSocket(Protocol):
    """A connected, non-blocking stream socket: a `socket.socket` or a `TlsSocket`."""

    def fileno(self) -> int:
        """See `socket.socket`."""

    def send(self, data: Buffer, /) -> int:
        """See `socket.socket`."""

    def sendmsg(self, buffers: Iterable[Buffer], /) -> int:
        """See `socket.socket`."""

    def recv(self, bufsize: int, /) -> bytes:
        """See `socket.socket`."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """See `socket.socket`."""

    def getsockopt(self, level: int, optname: int, /) -> int:
        """See `socket.socket`."""

    def setsockopt(self, level: int, optname: int, value: int, /) -> None:
        """See `socket.socket`."""

    def setblocking(self, flag: bool, /) -> None:
        """See `socket.socket`."""

    def shutdown(self, how: int, /) -> None:
        """See `socket.socket`."""

    def close(self) -> None:
        """See `socket.socket`."""


class TlsSocket:
    """One side of a connection over `plain`; see the module."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, *, host: str | None = None) -> None:
        """The side of a client if `host`, which was dialled, is given; else that of a server."""
        self.stream = TlsStream(context, server_side=host is None, host=host)
        self._plain = plain
        self._unsent: Buffer = b""
        """Sealed bytes that the system has not taken."""
        self._sealed_bytes = 0
        """The plain bytes in `_unsent`, which `send` has not yet counted as sent."""

    # ---------------------------------------------------------------- the handshake

    @property
    def is_ready(self) -> bool:
        """True once the handshake is done."""
        return self.stream.is_ready

    @property
    def pending_bytes(self) -> int:
        """More than 0 if a record has begun and is not complete."""
        return self.stream.pending_bytes

    @property
    def held_bytes(self) -> int:
        """The bytes that it holds beyond one unfinished record: of a handshake, and what the system has not taken."""
        return self.stream.held_bytes + len(self._unsent)

    @property
    def has_unsent(self) -> bool:
        """True if the system has not taken all that was to be sent."""
        return bool(self._unsent)

    def begin(self) -> None:
        """Begin the handshake of a client. Raises `OSError`."""
        self.stream.shake_hands()
        self._push()

    def advance(self) -> None:
        """Go on with the handshake of a client as far as possible. Raises `OSError`."""
        if not self._push():
            return
        with suppress(BlockingIOError):
            arrived = self._plain.recv(RECORD_BYTES_MAX)
            if not arrived:
                raise TlsFailed("the other side ended the connection within the handshake")
            self._feed(arrived)
            self._push()

    # ---------------------------------------------------------------- out

    def send(self, data: Buffer) -> int:
        """See the module. Raises `BlockingIOError` before the handshake is done."""
        size = len(data)
        if self._unsent or self._sealed_bytes or size > SEALED_AT_ONCE or not self.stream.is_ready:
            return self.sendmsg((data,))
        self.stream.seal(data)
        self._sealed_bytes = size
        if not self._push():
            raise BlockingIOError
        self._sealed_bytes = 0
        return size

    def sendmsg(self, buffers: Iterable[Buffer]) -> int:
        """Like `send`, for data in pieces."""
        if not self.stream.is_ready or not self._push():
            raise BlockingIOError
        sent, self._sealed_bytes = self._sealed_bytes, 0
        for part in _parts(buffers, behind=sent):
            self.stream.seal(part)
            self._sealed_bytes += len(part)
            if self._sealed_bytes < SEALED_AT_ONCE:
                continue
            if not self._push() or sent >= SENT_AT_ONCE:
                break
            sent += self._sealed_bytes
            self._sealed_bytes = 0
        if self._sealed_bytes and self._push():
            sent += self._sealed_bytes
            self._sealed_bytes = 0
        if not sent and self._sealed_bytes:
            raise BlockingIOError
        return sent

    def _push(self) -> bool:
        """Send what is to be sent. Returns True if the system took all of it."""
        output = self.stream.output()
        if output:
            self._unsent = b"".join((self._unsent, output)) if self._unsent else output
        while self._unsent:
            try:
                sent = self._plain.send(self._unsent)
            except BlockingIOError:
                return False
            self._unsent = memoryview(self._unsent)[sent:]
        return True

    # ---------------------------------------------------------------- in

    def recv_into(self, buffer: memoryview) -> int:
        """See the module; `buffer` has room for `RECORD_BYTES_MAX` twice at least.

        Returns 0 at the end of the other side's data. Raises `BlockingIOError` as long as no plain text has come.
        """
        arrived = self._plain.recv_into(buffer, len(buffer) - RECORD_BYTES_MAX)
        if not arrived:
            return 0
        self._feed(buffer[:arrived])  # it copies them, so that plain text may take their place
        count = self._read_into(buffer)
        if not self._push() and len(self._unsent) > UNSENT_BYTES_MAX:
            raise TlsFailed("the other side does not read the answers of the protocol")
        if self.stream.is_ended:
            with suppress(OSError):  # it may be broken already
                self._plain.shutdown(socket.SHUT_RD)  # so the system announces an end, which the next call returns
        elif not count:
            raise BlockingIOError
        return count

    def _feed(self, arrived: Buffer) -> None:
        try:
            self.stream.feed(arrived)
        except TlsFailed:
            self._send_alert()
            raise

    def _read_into(self, buffer: memoryview) -> int:
        try:
            return self.stream.read_into(buffer)
        except TlsFailed:
            self._send_alert()
            raise

    def _send_alert(self) -> None:
        with suppress(OSError):  # it is a courtesy
            self._push()

    def recv(self, bufsize: int) -> bytes:
        """Returns what `recv_into` puts into a buffer of this size, or of the least that it needs."""
        buffer = bytearray(max(bufsize, 2 * RECORD_BYTES_MAX))
        count = self.recv_into(memoryview(buffer))
        return bytes(memoryview(buffer)[:count])

    # ---------------------------------------------------------------- as the socket below

    def fileno(self) -> int:
        """See `socket.socket`."""
        return self._plain.fileno()

    def getsockopt(self, level: int, optname: int) -> int:
        """See `socket.socket`."""
        return self._plain.getsockopt(level, optname)

    def setsockopt(self, level: int, optname: int, value: int) -> None:
        """See `socket.socket`."""
        self._plain.setsockopt(level, optname, value)

    def setblocking(self, flag: bool) -> None:
        """See `socket.socket`."""
        self._plain.setblocking(flag)

    def shutdown(self, how: int) -> None:
        """Announce the end of this side's data within TLS, unless something is unsent, and to the system."""
        if self.stream.is_ready and not self._unsent:
            self.stream.end()
            with suppress(BlockingIOError):
                self._push()
        self._plain.shutdown(how)

    def close(self) -> None:
        """See `socket.socket`."""
        self._plain.close()


def _parts(buffers: Iterable[Buffer], behind: int) -> Iterator[memoryview]:
    """Yields the bytes behind the first ones, in parts that together make whole `SEALED_AT_ONCE`s."""
    room = SEALED_AT_ONCE
    for piece in buffers:
        view = memoryview(piece)
        skipped = min(behind, len(view))
        behind -= skipped
        view = view[skipped:]
        while view:
            yield view[:room]
            taken = min(room, len(view))
            view = view[taken:]
            room = room - taken or SEALED_AT_ONCE


class EitherSocket(TlsSocket):
    """The server's side of a connection that speaks TLS if its first byte does, and plain text otherwise."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        super().__init__(plain, context)
        self._is_decided = False
        self._is_plain = False

    @property
    def is_ready(self) -> bool:
        """True once the handshake is done, or none is to be."""
        return self._is_plain or self.stream.is_ready

    def recv_into(self, buffer: memoryview) -> int:
        """See `TlsSocket`."""
        if not self._is_decided:
            first = self._plain.recv(1, socket.MSG_PEEK)
            self._is_decided = bool(first)
            if first and not begins_tls(first):
                self._is_plain = True
                plain = self._plain
                # From here on nothing lies between: these hide the methods of the class.
                vars(self).update(
                    send=plain.send, sendmsg=plain.sendmsg, recv=plain.recv, recv_into=plain.recv_into,
                    shutdown=plain.shutdown,
                )  # fmt: skip
                return plain.recv_into(buffer)
        return super().recv_into(buffer)
