"""One connection of the harness with a broker: one request at a time, its outcome exact."""

import struct
from typing import Final, Self

import attrs
import trio

from jepsen_like.port.wires import Address
from rocketmq_compat.remoting.errors import MalformedFrame
from rocketmq_compat.remoting.frame import FRAME_BYTES_MAX, Command, decode, encode

RECEIVE_BYTES: Final = 256 * 1024
_LENGTH: Final = struct.Struct(">i")


class NoConnection(Exception):
    """The request was certainly not sent."""


class NoBrokerAnswer(Exception):
    """The request may have been carried out."""


@attrs.define
class BrokerRefused(Exception):
    """The broker answered with a code other than success."""

    code: int
    remark: str

    def __str__(self) -> str:
        return f"code {self.code}: {self.remark}"


class RemotingConnection:
    """One request at a time; after a failure or a cancelled request it is closed."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._opaque = 0
        self._buffered = bytearray()
        self.is_open = True

    @classmethod
    async def connect(cls, address: Address, *, within_s: float) -> Self:
        """Raises `NoConnection`."""
        try:
            with trio.fail_after(within_s):
                return cls(await trio.open_tcp_stream(*address))
        except (OSError, trio.TooSlowError) as error:
            raise NoConnection(str(error) or f"no connection within {within_s:g} s") from error

    async def ask(self, request: Command) -> Command:
        """Returns the answer, whatever its code. Raises `NoBrokerAnswer`."""
        self._opaque += 1
        try:
            await self._stream.send_all(b"".join(encode(attrs.evolve(request, opaque=self._opaque))))
            while True:
                answer = decode(await self._frame())
                if answer.is_response and answer.opaque == self._opaque:
                    return answer
        except (trio.BrokenResourceError, trio.ClosedResourceError, MalformedFrame) as error:
            self.close()
            raise NoBrokerAnswer(str(error) or "the connection broke") from error
        except trio.Cancelled:
            self.close()
            raise

    async def _frame(self) -> bytes:
        size = _LENGTH.unpack(await self._receive(_LENGTH.size))[0]
        if not 0 <= size <= FRAME_BYTES_MAX:
            raise MalformedFrame(f"a frame of {size} bytes")
        return await self._receive(size)

    async def _receive(self, size: int) -> bytes:
        while len(self._buffered) < size:
            data = await self._stream.receive_some(RECEIVE_BYTES)
            if not data:
                raise trio.BrokenResourceError("the broker closed the connection")
            self._buffered += data
        taken = bytes(self._buffered[:size])
        del self._buffered[:size]
        return taken

    def close(self) -> None:
        """At once."""
        self.is_open = False
        self._stream.socket.close()
