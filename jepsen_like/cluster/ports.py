"""Ports that stay ours: a node that was killed finds its port free when it comes back.

A port is kept by a socket that is bound and never listens. The kernel then gives it to no other process, not even as
the source port of an outgoing connection (which, on a dead node's port, could even connect to itself), while a node
that binds with SO_REUSEADDR, as every server does, may listen there again and again.
"""

import contextlib
import resource
import socket

LOOPBACK = "127.0.0.1"
NO_LIMIT = 2**31


class CannotListen(Exception):
    """An address at which no socket can listen; the text states it and the reason."""


def listen_at(host: str, port: int, *, backlog: int) -> socket.socket:
    """Returns a socket that listens there; port 0 stands for any free one. Raises `CannotListen`."""
    try:
        return socket.create_server((host, port), backlog=backlog)
    except (OSError, OverflowError) as error:
        raise CannotListen(f"cannot listen at {host}:{port}: {error}") from error


def raise_descriptor_limit() -> int:
    """Let this process open as many files and connections as it may; returns how many, `NO_LIMIT` for no bound."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # it then has fewer
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return NO_LIMIT if soft == resource.RLIM_INFINITY else soft


class ReservedPorts:
    """Loopback ports kept from everybody but our own nodes, until closed."""

    def __init__(self, count: int) -> None:
        self._sockets: list[socket.socket] = []
        for _ in range(count):
            holder = socket.socket()
            self._sockets.append(holder)
            holder.bind((LOOPBACK, 0))
            # Only now: a bind with this flag set could share the port with another run that keeps it the same way.
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.ports: tuple[int, ...] = tuple(int(holder.getsockname()[1]) for holder in self._sockets)

    def __enter__(self) -> "ReservedPorts":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the ports back."""
        for holder in self._sockets:
            holder.close()
