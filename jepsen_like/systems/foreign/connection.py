"""Connections of a load with programs of others, in Trio."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Final, Generic, Protocol, Self, TypeVar

import attrs
import trio

from jepsen_like.port.wires import Address
from jepsen_like.systems.tls_of import Stream, open_stream
from jepsen_like.workload.load import Ending, LiveConnection
from raft.net.certificates import Certificates

READ_BYTES: Final = 64 * 1024
BROKEN: Final = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)
"""The errors of a stream that does not work."""
ConnectionT = TypeVar("ConnectionT", bound=LiveConnection, covariant=True)


class ForeignConnection:
    """One connection. A request that has no answer leaves it closed, so that no later one gets its answer."""

    def __init__(self, stream: Stream, address: Address) -> None:
        self._stream = stream
        self._address = address
        self._is_closed = False

    @classmethod
    async def connect(cls, address: Address, *, within_s: float, tls: Certificates | None = None) -> Self:
        """Returns a new connection that has begun. Raises one of `BROKEN`, or what `_begin` raises."""
        with trio.fail_after(within_s):
            connection = cls(await open_stream(address, tls), address)
            try:
                await connection._begin()
            except BaseException:
                connection.close()
                raise
        return connection

    @classmethod
    @asynccontextmanager
    async def open(cls, address: Address, *, within_s: float, tls: Certificates | None = None) -> AsyncIterator[Self]:
        """A connection for the time of a block. Entering it raises like `connect`."""
        connection = await cls.connect(address, within_s=within_s, tls=tls)
        with contextlib.closing(connection):
            yield connection

    @property
    def is_open(self) -> bool:
        """Returns True if the other side still expects requests on it."""
        return not self._is_closed

    def close(self) -> None:
        """Close it."""
        self._is_closed = True
        stream = self._stream.transport_stream if isinstance(self._stream, trio.SSLStream) else self._stream
        stream.socket.close()

    async def _begin(self) -> None:
        """Exchange what a connection of this protocol begins with."""
        return

    async def _read(self) -> bytes:
        """Returns what came next. Raises one of `BROKEN`, at its end, too."""
        chunk = await self._stream.receive_some(READ_BYTES)
        if not chunk:
            raise trio.BrokenResourceError("the server closed the connection")
        return bytes(chunk)


class Connect(Protocol[ConnectionT]):
    """Makes a connection."""

    def __call__(self, address: Address, /, *, within_s: float) -> Awaitable[ConnectionT]:
        """Returns a new connection."""


class EndingOf(Protocol):
    """Interprets an error of an operation."""

    def __call__(self, error: Exception, /, *, connection_lost: bool) -> Ending:
        """Returns the meaning of the error."""


@attrs.frozen
class ForeignClients(Generic[ConnectionT]):
    """Connects the clients of a load; `errors` are all of the connection and of its operations."""

    addresses: Mapping[int, Address]
    connects: Connect[ConnectionT]
    errors: tuple[type[Exception], ...]
    interpret: EndingOf

    @property
    def nodes(self) -> tuple[int, ...]:
        """Every node that clients know."""
        return tuple(self.addresses)

    async def connect(self, node: int, *, within_s: float) -> ConnectionT:
        """Returns a new connection. Raises one of `errors`."""
        return await self.connects(self.addresses[node], within_s=within_s)

    def ending_of(self, error: Exception, *, connection_lost: bool) -> Ending:
        """Returns the meaning of an operation's error."""
        return self.interpret(error, connection_lost=connection_lost)
