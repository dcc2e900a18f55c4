"""Opening connections: plain sockets, connected without blocking the loop."""

import errno
import os
import socket
from contextlib import suppress

import trio


async def dial(host: str, port: int) -> socket.socket:
    """Returns a connected non-blocking socket. Raises `OSError` if no address of `host` takes the connection."""
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


def notice_broken_path(connected: socket.socket, *, unacked_s_max: float, probe_after_s: int | None = None) -> None:
    """Have the system close a connection whose path is cut: bytes are not acknowledged by TCP for `unacked_s_max`
    (TCP_USER_TIMEOUT).

    By default TCP retransmits for a quarter of an hour. With `probe_after_s`, whole seconds, an idle connection is
    probed as well: while an answer is waited for nothing is unacknowledged.
    """
    with suppress(OSError):  # the connection may be gone already
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * unacked_s_max))
        if probe_after_s is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, probe_after_s)
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
