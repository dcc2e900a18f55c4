"""Accepts connections up to a limit, and closes those that do not complete the handshake in time.

A connection is *greeted* once its session has accepted a handshake. One that is not greeted within `greeting_timeout_s`
is closed, and so is one that leaves a frame unfinished for `frame_timeout_s`, else a silent or very slow client would
hold memory without end. It keeps at most `ungreeted_max` connections that are not greeted, and closes the oldest of
them for a new one: a member is greeted within moments, so a flood of strangers does not keep it out. With TLS, its own
handshake has `TLS_TIMEOUT_S` of that time. A wire whose clients always have something to send may set `idle_timeout_s`
as well.

Members find a place where others find none: `member_places` connections, and the last `MEMBER_DESCRIPTORS` descriptors,
are for those that are not greeted yet and for members. One that turns out to be neither is closed when it is greeted.
How many may come from one address, how fast, and what all may hold is for the reactor's budget (`raft.net.budget`).
"""

import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Generic

import attrs
import trio

from raft.net.budget import LOOK_S, Standing
from raft.net.certificates import Certificates
from raft.net.connection import SocketConnection
from raft.net.decoder import FrameT
from raft.net.reactor import READABLE, Reactor
from raft.net.tls_socket import StreamSocket, TlsSocket

ACCEPTS_PER_ROUND = 64
TLS_TIMEOUT_S = 5.0
"""A connection whose handshake of TLS is not done by then is closed."""
SHORTAGE_PAUSE_S = 0.2
SHORT_OF_DESCRIPTORS = "the process is short of file descriptors"
MEMBER_DESCRIPTORS = 64
"""Descriptors that are left to members, and to those that may turn out to be some; an eighth if there are few."""
DESCRIPTORS_KEPT = 128
"""Descriptors that connections leave to everything else; half of all if there are fewer than twice as many."""


@attrs.define(eq=False)
class _Guest(Generic[FrameT]):
    connection: SocketConnection[FrameT]
    host: str
    since: float
    is_counted: bool = True
    """True if it counts for its address, as none of members does."""
    greeted: bool = False
    unfinished_since: float = 0.0
    unfinished_after: int | None = None
    """The number of frames that had arrived when an unfinished one was first seen."""
    frames_seen: int = 0
    """The number of frames that had arrived at `active_at`, when the last one was noticed."""
    active_at: float = 0.0

    @property
    def tls(self) -> TlsSocket | None:
        """The TLS of the connection; None if it speaks plain text."""
        return connected if isinstance(connected := self.connection.socket, TlsSocket) else None

    @property
    def is_unfinished(self) -> bool:
        """True if a frame, or a record of TLS, has arrived in part."""
        tls = self.tls
        return bool(self.connection.decoder.pending_bytes or (tls is not None and tls.pending_bytes))


@attrs.frozen(kw_only=True)
class ListenerLimits:
    """The bounds of one listening port."""

    connections_max: int = 1024
    member_places: int = 0
    """So many of these are not for clients."""
    greeting_timeout_s: float = 5.0
    frame_timeout_s: float = 60.0
    ungreeted_max: int | None = None
    """Connections at once that are not greeted yet; None: as many as there may be at all."""
    idle_timeout_s: float | None = None
    """A connection by which no frame came for so long is closed, unless it is a member's; None: never."""


def bind(host: str, port: int) -> socket.socket:
    """Returns a listening socket.

    Raises `OSError` if the address cannot be bound. A port just left can be bound at once (SO_REUSEADDR).
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=1024)
    listening.setblocking(False)
    return listening


def _descriptors_for_connections() -> int:
    """The bound for the descriptors of connections: the lowest free number comes first, so it bounds the count."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return 2**31
    return limit - min(DESCRIPTORS_KEPT, limit // 2)


def _descriptors_for_others() -> int:
    """The same for connections that are none of members."""
    limit = _descriptors_for_connections()
    return limit - min(MEMBER_DESCRIPTORS, limit // 8)


class Listener(Generic[FrameT]):
    """Accepts connections on one socket.

    `open_connection` makes the connection for an accepted socket. `on_refused` is called with the address and the
    reason when one was refused. With `tls` connections speak TLS; with `takes_plain` as well those that begin so.
    """

    def __init__(
        self,
        reactor: Reactor,
        listening: socket.socket,
        open_connection: Callable[[StreamSocket, str], SocketConnection[FrameT]],
        *,
        limits: ListenerLimits,
        on_refused: Callable[[str, str], None],
        tls: Certificates | None = None,
        takes_plain: bool = False,
    ) -> None:
        self._reactor = reactor
        self._budget = reactor.budget
        self._socket = listening
        self._open_connection = open_connection
        self._limits = limits
        self._on_refused = on_refused
        self._tls = tls
        self._takes_plain = takes_plain
        self._guests: dict[SocketConnection[FrameT], _Guest[FrameT]] = {}
        self._ungreeted: dict[SocketConnection[FrameT], None] = {}
        """The oldest first."""
        self._others = 0
        """Those that are greeted and no members."""
        self._accepting = True
        self._closed = False
        self._woken = trio.Event()
        reactor.register(self, READABLE)

    def fileno(self) -> int:
        """The listening descriptor."""
        return self._socket.fileno()

    @property
    def address(self) -> tuple[str, int]:
        """The address it listens on, with the port that the system chose for port 0."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._guests)

    def on_greeted(self, connection: SocketConnection[FrameT], standing: Standing = Standing.CLIENT) -> None:
        """The handshake is done; the greeting deadline no longer applies.

        Called again when more is known of the other end. A connection for which there is no place is closed.
        """
        guest = self._guests.get(connection)
        self._ungreeted.pop(connection, None)
        if guest is None:
            return  # it has closed
        if not guest.greeted:
            guest.greeted = True
            self._others += 1
            if standing < Standing.MEMBER and (reason := self._lack_of_places(connection)):
                self._on_refused(connection.name, reason)
                connection.close(reason)
                return
        connection.become(standing)
        if standing is Standing.MEMBER and guest.is_counted:
            self._uncount(guest)

    def _lack_of_places(self, connection: SocketConnection[FrameT]) -> str:
        most = self._limits.connections_max - self._limits.member_places
        if self._others > most:
            return f"all {most} connections are in use"
        return SHORT_OF_DESCRIPTORS if connection.fileno() >= _descriptors_for_others() else ""

    def _uncount(self, guest: _Guest[FrameT]) -> None:
        """It has turned out to be a member, or has closed."""
        if guest.is_counted:
            guest.is_counted = False
            self._budget.arrivals.uncount(guest.host)
            self._others -= guest.greeted

    def forget(self, connection: SocketConnection[FrameT]) -> None:
        """A connection has closed. Called by its session."""
        self._ungreeted.pop(connection, None)
        guest = self._guests.pop(connection, None)
        if guest is not None:
            self._uncount(guest)

    def on_ready(self, events: int) -> None:
        """Called by the reactor when connections wait to be accepted."""
        for _ in range(ACCEPTS_PER_ROUND):
            if not self._budget.arrivals.may_accept(trio.current_time()):
                self._look_away()
                return
            try:
                accepted, address = self._socket.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue  # gone before we looked
            except OSError as error:
                # Out of descriptors or memory: the ready socket would wake us again at once, so look away for a while.
                self._on_refused("", f"cannot accept: {error.strerror}")
                self._look_away()
                return
            self._budget.arrivals.note_accept()
            self._take_in(accepted, address[0], f"{address[0]}:{address[1]}")

    def _look_away(self) -> None:
        self._accepting = False
        self._reactor.unregister(self)
        self._wake()

    def _take_in(self, accepted: socket.socket, host: str, name: str) -> None:
        most = self._limits.ungreeted_max
        if not self._budget.arrivals.has_place_for(host):
            self._refuse(
                accepted, name, f"{host} has all {self._budget.arrivals.per_address_max} connections of an address"
            )
            return
        if most is not None and len(self._ungreeted) >= most:
            self._replace_oldest()
        if len(self._guests) >= self._limits.connections_max and not self._replace_oldest():
            self._refuse(accepted, name, f"all {self._limits.connections_max} connections are in use")
            return
        if accepted.fileno() >= _descriptors_for_connections():
            # A caller can wait; a log that cannot open its next file ends its node.
            if not self._replace_oldest():
                self._refuse(accepted, name, SHORT_OF_DESCRIPTORS)
                return
            high, accepted = accepted, accepted.dup()  # takes the number that has become free
            high.close()
        with suppress(OSError):  # a matter of speed alone, and the connection may be gone already
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        accepted.setblocking(False)
        sealed = accepted if self._tls is None else self._tls.accept(accepted, either=self._takes_plain)
        connection = self._open_connection(sealed, name)
        connection.become(Standing.STRANGER)
        self._budget.arrivals.count(host)
        self._guests[connection] = _Guest(connection, host, trio.current_time())
        self._ungreeted[connection] = None

    def _replace_oldest(self) -> bool:
        """Close the oldest connection that is not greeted. Returns False if there is none."""
        oldest = next(iter(self._ungreeted), None)
        if oldest is not None:
            oldest.close("replaced by newer connections that have not completed the handshake")
        return oldest is not None

    def _refuse(self, accepted: socket.socket, name: str, reason: str) -> None:
        accepted.close()
        self._on_refused(name, reason)

    async def run(self) -> None:
        """Close connections whose time is up, until cancelled or closed."""
        limits = self._limits
        handshake_s = TLS_TIMEOUT_S if self._tls is not None else None
        timeouts = (handshake_s, limits.greeting_timeout_s, limits.frame_timeout_s, limits.idle_timeout_s)
        period_s = min(each for each in timeouts if each is not None) / 4
        self._budget.on_short.append(self._wake)
        while True:
            self._woken = trio.Event()
            if self._accepting and not self._budget.is_short:
                with trio.move_on_after(period_s):
                    await self._woken.wait()
                    continue
            else:
                await trio.sleep(LOOK_S if self._accepting else SHORTAGE_PAUSE_S)
            if self._closed:
                return
            if not self._accepting:
                self._accepting = True
                self._reactor.register(self, READABLE)
            self._budget.relieve(trio.current_time())
            self._sweep(trio.current_time())

    def _wake(self) -> None:
        self._woken.set()

    def _sweep(self, now: float) -> None:
        for guest in list(self._guests.values()):
            if not guest.greeted and now - guest.since > self._limits.greeting_timeout_s:
                guest.connection.close(f"no handshake within {self._limits.greeting_timeout_s:g} s")
            elif (tls := guest.tls) is not None and not tls.is_ready and now - guest.since > TLS_TIMEOUT_S:
                guest.connection.close(f"no handshake of TLS within {TLS_TIMEOUT_S:g} s")
            elif self._is_idle(guest, now):
                guest.connection.close(f"idle for {self._limits.idle_timeout_s:g} s")
            elif not guest.is_unfinished:
                guest.unfinished_after = None
            elif guest.unfinished_after != guest.connection.frames_in:
                guest.unfinished_after = guest.connection.frames_in
                guest.unfinished_since = now
            elif now - guest.unfinished_since > self._limits.frame_timeout_s:
                guest.connection.close(f"a frame was not finished within {self._limits.frame_timeout_s:g} s")

    def _is_idle(self, guest: _Guest[FrameT], now: float) -> bool:
        if guest.frames_seen != guest.connection.frames_in or not guest.active_at:
            guest.frames_seen = guest.connection.frames_in
            guest.active_at = now
        if guest.connection.standing is Standing.MEMBER:
            return False
        return self._limits.idle_timeout_s is not None and now - guest.active_at > self._limits.idle_timeout_s

    def close(self, reason: str) -> None:
        """Stop listening and close every connection."""
        self._closed = True
        if self._accepting:
            self._reactor.unregister(self)
            self._accepting = False
        self._socket.close()
        for connection in list(self._guests):
            connection.close(reason)
