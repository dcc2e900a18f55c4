"""Opening connections: plain sockets, connected without blocking the loop."""

import errno
import os
import socket

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
