"""The server's side of a connection: requests in, answers out in any order, and requests of the server to its client.

Each request reaches its handler as a `RemotingCall`, which is answered once, at once or when the work is done. A
handler that has to wait answers later and blocks no other request of the connection. One-way requests are answered
likewise, without sending. The bytes written within a round of the reactor leave joined.

The session takes no more requests, and then stops reading from the socket, while

- `calls_max` of them are being worked on, or these hold `taken_bytes_max`, or
- the client does not read its answers (the connection `is_full`).

A call that waits for something to happen (a pull without messages) is put on `hold` and then no longer counts, because
other requests of its client, heartbeats above all, must not wait behind it. At most `held_max` calls are held, with at
most `taken_bytes_max` in addition. So a connection holds a bounded amount of memory.

A malformed frame closes the connection. A request with invalid fields or an invalid body is answered with SYSTEM_ERROR
and the reason, one without a handler with REQUEST_CODE_NOT_SUPPORTED, as RocketMQ does.
"""

from collections.abc import Callable, Mapping
from typing import Final

from raft.net.bounded import REQUEST_BYTES, BoundedSession
from raft.net.budget import Standing
from raft.net.connection import SocketConnection
from raft.net.decoder import Buffer
from raft.trust import Acceptor
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.remoting.errors import BadBody, BadHeader, UnencodableCommand
from rocketmq_compat.remoting.frame import IS_ONEWAY, Command, decode, encode
from rocketmq_compat.remoting.headers.fields import ExtHeader

CALLS_MAX: Final = 256
HELD_MAX: Final = 16_384
TAKEN_BYTES_MAX: Final = 32 * 1024 * 1024

OPAQUE_MASK: Final = 0x7FFFFFFF

Handler = Callable[["RemotingCall"], None]
"""Takes a call, and answers it once. It may raise `BadHeader` or `BadBody` instead; other errors are bugs."""


class RemotingCall:
    """A request and the place for its answer; for the thread of the loop."""

    __slots__ = ("request", "request_bytes", "session", "state")

    WORKING, HELD, ANSWERED = range(3)

    def __init__(self, session: "RemotingSession", request: Command, request_bytes: int) -> None:
        self.request = request
        self.request_bytes = request_bytes
        """The size of the frame, which the session counts until the call is answered."""
        self.state = self.WORKING
        self.session = session
        """The session it came by, for requests to the same client."""

    @property
    def connection(self) -> SocketConnection[Buffer]:
        """The connection it came by, whose `name` is the client's address."""
        return self.session.connection

    def answer(
        self,
        code: int = ResponseCode.SUCCESS,
        header: ExtHeader | None = None,
        *,
        body: Buffer = b"",
        more: tuple[Buffer, ...] = (),
        remark: str | None = None,
    ) -> None:
        """Send the answer, at the end of the round. Call it once.

        It sends nothing for a one-way request, or if the connection has closed.
        """
        assert self.state != self.ANSWERED, "a request is answered once"
        ext = {} if header is None else header.ext()
        self.session.send_answer(self, self.request.answer(code, ext=ext, body=body, more=more, remark=remark))

    def refuse(self, code: int, remark: str) -> None:
        """Answer that the request has no effect, and why."""
        self.answer(code, remark=remark)

    def hold(self) -> bool:
        """Hold the call until something happens. Returns False if it cannot be held: then it must be answered now."""
        assert self.state == self.WORKING, "a call is put on hold once, before its answer"
        return self.session.try_hold(self)


class RemotingSession(BoundedSession[Buffer]):
    """The calls of one connection, which is put into `connection` before any bytes arrive.

    `on_greeted` is called when the first request was understood, and again when more is known of the other end;
    `on_closed` once, at the end, when the session has forgotten all calls. Work under way goes on, and its
    answers are ignored.
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        on_greeted: Callable[[SocketConnection[Buffer], Standing], None],
        on_closed: Callable[["RemotingSession", str], None],
        *,
        calls_max: int = CALLS_MAX,
        held_max: int = HELD_MAX,
        taken_bytes_max: int = TAKEN_BYTES_MAX,
    ) -> None:
        super().__init__(taken_bytes_max)
        self._handlers = handlers
        self._on_greeted = on_greeted
        self._on_closed = on_closed
        self._calls_max = calls_max
        self._held_max = held_max
        self._working = 0
        self._held = 0
        self._held_bytes = 0
        self._asked: dict[int, Callable[[Command], None]] = {}
        """Requests to the client that wait for their answers."""
        self._last_opaque = 0
        self.member: str | None = None
        """The process of the cluster that the other end has proven to be."""
        self.acceptor: Acceptor | None = None
        """Set once it has begun to prove that."""
        self.standing = Standing.CLIENT
        """That of the other end, from its first request or the end of its proof on."""
        self._greeted_as: Standing | None = None

    # ---------------------------------------------------------------- requests to the client

    def notify(self, request: Command) -> bool:
        """Send a request without an answer. Returns True if it was sent: a client that does not read gets none."""
        if self.connection.is_closed or self.connection.is_full:
            return False
        return self._send(request, request.flag | IS_ONEWAY)

    def ask(self, request: Command, done: Callable[[Command], None]) -> Callable[[], None] | None:
        """Send a request; `done` is called with the answer, if one comes.

        Returns a callable that makes the session forget it, or None if it was not sent.
        """
        if self.connection.is_closed or self.connection.is_full or not self._send(request, request.flag):
            return None
        opaque = self._last_opaque
        self._asked[opaque] = done
        return lambda: self._forget(opaque)

    def _send(self, request: Command, flag: int) -> bool:
        self._last_opaque = (self._last_opaque + 1) & OPAQUE_MASK
        sent = Command(
            request.code,
            self._last_opaque,
            request.ext,
            request.body,
            request.remark,
            flag,
            serialization=request.serialization,
            more=request.more,
        )
        return self.connection.write_pieces(encode(sent))

    def _forget(self, opaque: int) -> None:
        self._asked.pop(opaque, None)

    # ---------------------------------------------------------------- calls

    def send_answer(self, call: RemotingCall, answer: Command) -> None:
        """Send the answer of a call."""
        self._release(call)
        call.state = call.ANSWERED
        if self.connection.is_closed:
            return
        if not call.request.is_oneway:
            self.connection.write_pieces(_encode(answer))
        self._resume()

    def try_hold(self, call: RemotingCall) -> bool:
        """Put a call on hold. Returns False if there is no room for it."""
        if self._held >= self._held_max or self._held_bytes + call.request_bytes > self._taken_bytes_max:
            return False
        self._release(call)
        call.state = call.HELD
        self._held += 1
        self._held_bytes += call.request_bytes
        self._resume()
        return True

    def _release(self, call: RemotingCall) -> None:
        if call.state == call.HELD:
            self._held -= 1
            self._held_bytes -= call.request_bytes
        else:
            self._working -= 1
            self._taken_bytes -= call.request_bytes

    # ---------------------------------------------------------------- the session

    def on_closed(self, reason: str) -> None:
        """See `Session`."""
        self._backlog.clear()
        self._asked.clear()
        self._on_closed(self, reason)

    def held_bytes(self) -> int:
        """See `Session`."""
        waiting = self._backlog_bytes if self._backlog else 0
        return waiting + self._taken_bytes + self._held_bytes + REQUEST_BYTES * (self._working + self._held)

    def _take(self, frame: Buffer) -> None:
        command = decode(frame)
        if command.is_response:
            done = self._asked.pop(command.opaque, None)
            if done is not None:  # an answer that comes too late is dropped
                done(command)
        else:
            self._serve(command, len(frame))

    def _serve(self, command: Command, frame_bytes: int) -> None:
        call = RemotingCall(self, command, frame_bytes)
        self._working += 1
        self._taken_bytes += frame_bytes
        handler = self._handlers.get(command.code, _not_supported)
        try:
            handler(call)
        except (BadHeader, BadBody) as error:
            call.refuse(ResponseCode.SYSTEM_ERROR, str(error))
        if self._greeted_as is self.standing:
            return
        is_proving = self.acceptor is not None and self.member is None
        if not is_proving and not self.connection.is_closed:
            # The protocol has no handshake: a connection counts once its first request was understood, or once it has
            # proven what it began to prove.
            self._greeted_as = self.standing
            self._on_greeted(self.connection, self.standing)

    def _is_busy(self) -> bool:
        return self._working >= self._calls_max


def _not_supported(call: RemotingCall) -> None:
    call.refuse(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"request type {call.request.code} is not supported")


def _encode(answer: Command) -> list[Buffer]:
    """Returns the frame of an answer, or of the reason why it cannot be encoded: the client must not wait."""
    try:
        return encode(answer)
    except UnencodableCommand as error:
        remark = str(error).encode(errors="replace").decode()
        return encode(
            Command(
                ResponseCode.SYSTEM_ERROR,
                answer.opaque,
                remark=remark,
                flag=answer.flag,
                serialization=answer.serialization,
            )
        )
