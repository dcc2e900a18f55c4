"""The client's side of a connection: from a broker to name servers, from a slave to its master, and from tools.

`ask` dials when it has to, and returns the answer or raises `RemotingFailed`, which states if the request may have been
carried out. Answers are matched by `opaque`, so requests overlap and a late answer is dropped. After a failure the next
request dials again, at once: the caller decides the pace of its attempts.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from raft.net.certificates import Certificates
from raft.net.connection import Session, SocketConnection
from raft.net.decoder import BodyDecoder, Buffer
from raft.net.dialing import dial, notice_broken_path
from raft.net.reactor import Reactor
from raft.net.tls_socket import StreamSocket
from raft.trust import Dialer, Untrusted
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import ANSWER_HEADER_BYTES_MAX, FRAME_BYTES_MAX, IS_ONEWAY, Command, decode, encode
from rocketmq_compat.remoting.session import OPAQUE_MASK

OUTBOUND_BYTES_MAX: Final = 64 * 1024 * 1024
CLOSED_ON_PURPOSE: Final = "closed by this side"

Address = tuple[str, int]
OnRequest = Callable[[Command], Command | None]
"""Takes a request of the server and returns the answer to send, unless the request is one-way."""
Sign = Callable[[Command], Command]


@attrs.define
class RemotingFailed(Exception):
    """There is no answer.

    If it is `definite`, the request was certainly not carried out; otherwise it may have been.
    """

    reason: str
    definite: bool

    def __str__(self) -> str:
        return f"{self.reason}; the request {'was not sent' if self.definite else 'may have been carried out'}"


@attrs.define
class _Waiting:
    """A request that was sent."""

    ended: trio.Event = attrs.field(factory=trio.Event)
    answer: Command | None = None
    failure: str = ""


class RemotingClient(Session[Buffer]):
    """Requests to one address, over one connection at a time."""

    def __init__(
        self,
        reactor: Reactor,
        address: Address,
        *,
        on_request: OnRequest | None = None,
        proof: Callable[[], Dialer] | None = None,
        tls: Certificates | None = None,
        sign: Sign | None = None,
    ) -> None:
        """With `proof` both sides of each connection prove who they are before the first request.

        `sign` is applied to every request, as `Credentials.sign` of an account.
        """
        self._proof = proof
        self.address = address
        self._sign: Sign = sign or (lambda request: request)
        self._reactor = reactor
        self._on_request = on_request
        self._tls = tls
        self._connection: SocketConnection[Buffer] | None = None
        self._dialling = trio.Lock()
        self._waiting: dict[int, _Waiting] = {}
        self._last_opaque = 0
        self._closed = False

    # ---------------------------------------------------------------- requests

    async def ask(self, request: Command, *, timeout_s: float) -> Command:
        """Returns the answer with any code.

        Raises `RemotingFailed`, and `UnencodableCommand` if the request cannot be sent. The connection replaces the
        `opaque` of the request by its own.
        """
        opaque = self._last_opaque = (self._last_opaque + 1) & OPAQUE_MASK
        frame = encode(self._sign(attrs.evolve(request, opaque=opaque)))
        waiting: _Waiting | None = None
        try:
            with trio.move_on_after(timeout_s):
                connection = await self._connect()
                waiting = self._waiting[opaque] = _Waiting()
                connection.write_pieces(frame)
                await waiting.ended.wait()
        finally:
            self._waiting.pop(opaque, None)
        if waiting is None:
            raise RemotingFailed(f"no connection to {self._name} within {timeout_s:g} s", definite=True)
        if waiting.answer is not None:
            return waiting.answer
        reason = waiting.failure or f"no answer from {self._name} within {timeout_s:g} s"
        raise RemotingFailed(reason, definite=False)

    async def send_oneway(self, request: Command, *, timeout_s: float) -> None:
        """Send a request that has no answer.

        Raises `RemotingFailed` without a connection. The arrival stays unknown.
        """
        self._last_opaque = (self._last_opaque + 1) & OPAQUE_MASK
        frame = encode(self._sign(attrs.evolve(request, opaque=self._last_opaque, flag=request.flag | IS_ONEWAY)))
        with trio.move_on_after(timeout_s):
            connection = await self._connect()
            connection.write_pieces(frame)
            return
        raise RemotingFailed(f"no connection to {self._name} within {timeout_s:g} s", definite=True)

    # ---------------------------------------------------------------- the connection

    @property
    def is_connected(self) -> bool:
        """True while there is a connection."""
        return self._connection is not None

    @property
    def _name(self) -> str:
        return "{}:{}".format(*self.address)

    async def _connect(self) -> SocketConnection[Buffer]:
        async with self._dialling:
            self._require_open()
            if self._connection is None:
                try:
                    connected = await dial(*self.address, self._tls)
                except OSError as error:
                    reason = f"no connection to {self._name}: {error.strerror or error}"
                    raise RemotingFailed(reason, definite=True) from None
                try:
                    self._require_open()  # it was perhaps closed meanwhile
                except RemotingFailed:
                    connected.close()
                    raise
                connection = self._open(connected)
                if self._proof is not None:
                    await self._prove(self._proof(), connection)
            if self._connection is None:
                raise RemotingFailed(f"the connection to {self._name} ended", definite=True)
            return self._connection

    def _require_open(self) -> None:
        if self._closed:
            raise RemotingFailed(CLOSED_ON_PURPOSE, definite=True)

    async def _prove(self, dialer: Dialer, connection: SocketConnection[Buffer]) -> None:
        """Let both sides prove who they are; closes the connection if that does not succeed."""
        try:
            message = dialer.opening
            while message:
                answer = await self._exchange(connection, Command(RequestCode.PROVE_MEMBERSHIP, body=message))
                message = dialer.step(bytes(answer.body)).reply
        except BaseException as error:
            connection.close("the other side has not proven who it is")
            if isinstance(error, Untrusted):
                raise RemotingFailed(f"{self._name}: {error}", definite=True) from None
            raise

    async def _exchange(self, connection: SocketConnection[Buffer], request: Command) -> Command:
        opaque = self._last_opaque = (self._last_opaque + 1) & OPAQUE_MASK
        waiting = self._waiting[opaque] = _Waiting()
        try:
            connection.write_pieces(encode(attrs.evolve(request, opaque=opaque)))
            await waiting.ended.wait()
        finally:
            self._waiting.pop(opaque, None)
        answer = waiting.answer
        if answer is None:
            raise RemotingFailed(waiting.failure, definite=True)
        if answer.code != ResponseCode.SUCCESS:
            raise RemotingFailed(f"{self._name} does not admit this process: {answer.remark}", definite=True)
        return answer

    def _open(self, connected: StreamSocket) -> SocketConnection[Buffer]:
        notice_broken_path(connected, awaits_answers=True)
        decoder = BodyDecoder(FRAME_BYTES_MAX)
        decoder.trusted = True
        self._connection = SocketConnection(
            self._reactor, connected, decoder, self, outbound_bytes_max=OUTBOUND_BYTES_MAX, name=f"to {self._name}"
        )
        return self._connection

    def close(self) -> None:
        """End the connection; waiting requests fail, and all later ones."""
        self._closed = True
        if self._connection is not None:
            self._connection.close(CLOSED_ON_PURPOSE)

    # ---------------------------------------------------------------- the session

    def on_frames(self, frames: list[Buffer]) -> None:
        """Answers, in any order, and requests of the server."""
        for frame in frames:
            command = decode(frame, ANSWER_HEADER_BYTES_MAX)
            if command.is_response:
                waiting = self._waiting.get(command.opaque)
                if waiting is not None:
                    waiting.answer = command
                    waiting.ended.set()
            elif self._on_request is not None:
                answer = self._on_request(command)
                if answer is not None and not command.is_oneway and self._connection is not None:
                    self._connection.write_pieces(encode(answer))

    def on_closed(self, reason: str) -> None:
        """End all requests of a connection that is gone."""
        self._connection = None
        waiting, self._waiting = self._waiting, {}
        for call in waiting.values():
            if call.answer is None:
                call.failure = f"the connection to {self._name} ended ({reason})"
                call.ended.set()


@asynccontextmanager
async def connected_client(
    address: Address,
    *,
    on_request: OnRequest | None = None,
    proof: Callable[[], Dialer] | None = None,
    tls: Certificates | None = None,
    sign: Sign | None = None,
) -> AsyncIterator[RemotingClient]:
    """Yields a client with a loop of its own, for tools and tests.

    It dials with the first request, and closes at the end of the block.
    """
    reactor = Reactor()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reactor.run)
            client = RemotingClient(reactor, address, on_request=on_request, proof=proof, tls=tls, sign=sign)
            try:
                yield client
            finally:
                client.close()
                nursery.cancel_scope.cancel()
    finally:
        reactor.close()
