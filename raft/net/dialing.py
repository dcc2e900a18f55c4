"""Opening connections: sockets, plain or with TLS, connected without blocking the loop."""

import errno
import os
import socket
from contextlib import suppress

import trio

from raft.net.certificates import Certificates
from raft.net.tls import TlsFailed
from raft.net.tls_socket import StreamSocket, TlsSocket

UNACKED_S_MAX = 5.0
"""A connection whose bytes are not acknowledged by TCP for so long is closed (TCP_USER_TIMEOUT).

TCP retransmits at last every two minutes, so it would notice late that a network heals, a new dial at once.
"""
PROBE_AFTER_S = 2
"""A connection on which answers are waited for is probed when it was idle for so long."""


async def dial_within(
    address: tuple[str, int], timeout_s: float, *, awaits_answers: bool = False, tls: Certificates | None = None
) -> StreamSocket | None:
    """Returns a connected socket that notices a broken path; None if there is no connection within `timeout_s`.

    Raises `TlsFailed` if both sides do not agree on TLS.
    """
    with trio.move_on_after(timeout_s):
        try:
            connected = await dial(*address, tls)
        except TlsFailed:
            raise
        except OSError:
            return None
        notice_broken_path(connected, awaits_answers=awaits_answers)
        return connected
    return None


async def dial(host: str, port: int, tls: Certificates | None = None) -> StreamSocket:
    """Returns a connected non-blocking socket, with `tls` after the handshake.

    Raises `OSError` if no address of `host` takes the connection, `TlsFailed` if the handshake fails.
    """
    connected = await _dial_plain(host, port)
    if tls is None:
        return connected
    try:
        wrapped = tls.wrap(connected, host)
        await _shake_hands(wrapped)
    except BaseException:
        connected.close()
        raise
    return wrapped


async def _shake_hands(wrapped: TlsSocket) -> None:
    """Carry out a client's handshake. Raises `OSError`. No plain text comes before the client has spoken."""
    wrapped.begin()
    while wrapped.has_unsent or not wrapped.is_ready:
        if wrapped.has_unsent:
            await trio.lowlevel.wait_writable(wrapped)
        else:
            await trio.lowlevel.wait_readable(wrapped)
        wrapped.advance()


async def _dial_plain(host: str, port: int) -> socket.socket:
    refused: OSError | None = None
    for family, kind, protocol, _, address in await _resolve(host, port):
        connecting = socket.socket(family, kind, protocol)
        try:
            await _connect(connecting, address)
        except OSError as error:
            connecting.close()
            refused = error
        except BaseException:
            connecting.close()
            raise
        else:
            return connecting
    raise refused or OSError(errno.EADDRNOTAVAIL, f"{host} has no address")


def notice_broken_path(connected: StreamSocket, *, awaits_answers: bool) -> None:
    """Have the system close a connection whose path is cut, by default for bytes that stay unacknowledged.

    By default TCP retransmits for a quarter of an hour. With `awaits_answers` an idle connection is probed as well:
    while an answer is waited for nothing is unacknowledged.
    """
    with suppress(OSError):  # the connection may be gone already
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * UNACKED_S_MAX))
        if awaits_answers:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_AFTER_S)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)


_Resolved = list[tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]]


async def _resolve(host: str, port: int) -> "_Resolved":
    resolved: _Resolved = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)  # type: ignore[assignment]
    return resolved


async def _connect(connecting: socket.socket, address: object) -> None:
    connecting.setblocking(False)
    connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    code = connecting.connect_ex(address)  # type: ignore[arg-type]
    if code == errno.EINPROGRESS:
        await trio.lowlevel.wait_writable(connecting)
        code = connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))
