"""A connection of the load generator over TLS, with the methods of a socket that it uses."""

import socket
import ssl
from typing import Final

from jepsen_like.cluster.ports import LOOPBACK

RECORD_BYTES: Final = 16 * 1024
"""At most so many bytes of a record are plain text."""


class SealedStream:
    """A connected socket within TLS. Methods raise `BlockingIOError` where a plain socket would."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        """Shake hands. Raises `OSError`."""
        self._sealed = context.wrap_socket(plain, server_hostname=LOOPBACK)

    def fileno(self) -> int:
        """See `socket.socket`."""
        return self._sealed.fileno()

    def setblocking(self, flag: bool) -> None:
        """See `socket.socket`."""
        self._sealed.setblocking(flag)

    def settimeout(self, within_s: float | None) -> None:
        """See `socket.socket`."""
        self._sealed.settimeout(within_s)

    def sendall(self, data: bytes) -> None:
        """See `socket.socket`; for a blocking one."""
        self._sealed.sendall(data)

    def send(self, data: bytes) -> int:
        """See `socket.socket`."""
        try:
            return self._sealed.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def recv(self, size: int) -> bytes:
        """Returns all of the records that have been read from the system, so that it announces whatever is left."""
        try:
            chunk = self._sealed.recv(min(size, RECORD_BYTES))
            while pending := self._sealed.pending():
                chunk += self._sealed.recv(pending)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        return chunk

    def close(self) -> None:
        """See `socket.socket`."""
        self._sealed.close()


Stream = socket.socket | SealedStream


def connect(port: int, tls: ssl.SSLContext | None, within_s: float) -> Stream:
    """Returns a blocking connection to a process of this machine. Raises `OSError`."""
    plain = socket.create_connection((LOOPBACK, port), timeout=within_s)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain if tls is None else SealedStream(plain, tls)
    except BaseException:
        plain.close()
        raise
