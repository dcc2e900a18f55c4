"""One connection of the harness with a broker: one request at a time, its outcome exact."""

import struct
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

import attrs
import trio

from jepsen_like.operate.access import OPEN, AccessKeys, BrokerAccess
from jepsen_like.port.wires import Address
from jepsen_like.systems.tls_of import Stream, open_stream
from raft.net.reactor import Reactor
from raft.trust import Dialer
from rocketmq_compat.acls import Credentials
from rocketmq_compat.remoting.bodies import KVTable
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import MalformedFrame
from rocketmq_compat.remoting.frame import FRAME_BYTES_MAX, Command, decode, encode
from rocketmq_compat.remoting.headers.fields import ExtHeader

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


@asynccontextmanager
async def running_reactor() -> AsyncIterator[Reactor]:
    """A loop of connections, which ends with the block."""
    reactor = Reactor()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reactor.run)
            try:
                yield reactor
            finally:
                nursery.cancel_scope.cancel()
    finally:
        reactor.close()


class RemotingConnection:
    """One request at a time; after a failure or a cancelled request it is closed."""

    def __init__(self, stream: Stream, keys: AccessKeys | None = None) -> None:
        """With `keys` requests are signed by that account."""
        self._stream = stream
        self._account = None if keys is None else Credentials(keys.access_key, keys.secret_key)
        self._opaque = 0
        self._buffered = bytearray()
        self.is_open = True

    @classmethod
    async def connect(cls, address: Address, *, within_s: float, access: BrokerAccess = OPEN) -> Self:
        """Raises `NoConnection`."""
        try:
            with trio.fail_after(within_s):
                return cls(await open_stream(address, access.tls), access.keys)
        except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
            raise NoConnection(str(error) or f"no connection within {within_s:g} s") from error

    @classmethod
    @asynccontextmanager
    async def open(cls, address: Address, *, within_s: float, access: BrokerAccess = OPEN) -> AsyncIterator[Self]:
        """A connection that is closed afterwards. Raises `NoConnection`."""
        connection = await cls.connect(address, within_s=within_s, access=access)
        try:
            yield connection
        finally:
            connection.close()

    async def require(
        self, code: RequestCode, header: ExtHeader | None = None, *, also: Collection[int] = (), **parts: Any
    ) -> Command:
        """Returns a success or a code of `also`; `parts`: the request's. Raises `BrokerRefused`, `NoBrokerAnswer`."""
        answer = await self.ask(Command(code, **{"ext": header.ext() if header is not None else {}, **parts}))
        if answer.code != ResponseCode.SUCCESS and answer.code not in also:
            raise BrokerRefused(answer.code, answer.remark or "")
        return answer

    async def prove(self, dialer: Dialer) -> None:
        """Let both sides prove who they are. Raises `Untrusted`, `BrokerRefused` and `NoBrokerAnswer`."""
        message = dialer.opening
        while message:
            answer = await self.require(RequestCode.PROVE_MEMBERSHIP, body=message)
            message = dialer.step(bytes(answer.body)).reply

    async def runtime_info(self) -> Mapping[str, str]:
        """Returns what a broker reports of itself. Raises `BadBody`, `BrokerRefused` and `NoBrokerAnswer`."""
        return KVTable.decode((await self.require(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table

    async def ask(self, request: Command) -> Command:
        """Returns the answer, whatever its code. Raises `NoBrokerAnswer`."""
        self._opaque += 1
        signed = request if self._account is None else self._account.sign(request)
        try:
            await self._stream.send_all(b"".join(encode(attrs.evolve(signed, opaque=self._opaque))))
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
        stream = self._stream
        (stream if isinstance(stream, trio.SocketStream) else stream.transport_stream).socket.close()
