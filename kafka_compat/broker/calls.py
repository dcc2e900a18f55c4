"""One request of a client, from its frame to its answer.

Each request that arrives becomes a `ClientCall`, which is answered once, at once or later: with a response, with no
bytes (Produce with acks 0), or by closing the connection. Only valid requests reach the handlers.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from kafka_compat.broker.access import Access
from kafka_compat.broker.caller import Caller, Identity
from kafka_compat.protocol.api import Api, RequestHeader, frame_pieces
from kafka_compat.protocol.apis.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE, SaslAuthenticateRequest
from kafka_compat.protocol.errors import CannotEncode, UnsupportedVersion
from kafka_compat.protocol.registry import APIS, BROKER_APIS, decode_request, encode_unsupported_version, require_size
from raft.disk_thread import DiskThread
from raft.net.budget import Standing
from raft.net.connection import SocketConnection
from raft.net.decoder import Buffer
from raft.net.errors import WireError
from raft.net.ordered import OrderedSession, Reply
from raft.net.tls_socket import TlsSocket

_ALL: Mapping[int, Api[Any, Any]] = {**APIS, **BROKER_APIS}


class ClientCall:
    """A request and the place for its answer."""

    __slots__ = ("_api", "_reply", "caller", "connection", "header", "request")
    access: Access | None = None
    """The caller's rights; None without an authorizer."""

    def __init__(
        self,
        header: RequestHeader,
        request: Any,
        reply: Reply,
        connection: SocketConnection[Any],
        caller: Caller | None = None,
    ) -> None:
        """Without a `caller` the other end of the connection has proven nothing."""
        self.caller = caller or Caller()
        self.header = header
        self.request = request
        self.connection = connection
        self._api = _ALL[header.api_key]
        self._reply = reply

    @property
    def version(self) -> int:
        """The version of the request, and of its response."""
        return self.header.api_version

    @property
    def client_host(self) -> str:
        """The client's address, as Kafka writes it (`/127.0.0.1`)."""
        return "/" + self.connection.name.rpartition(":")[0]

    def answer(self, response: Any) -> None:
        """Send the response, after the responses to earlier requests of the connection."""
        try:
            pieces = self._encode(response)
        except Exception as error:  # noqa: BLE001 - `_not_encoded` raises what ends the process
            self._not_encoded(error)
        else:
            self._reply.send(*pieces)

    def answer_by(self, thread: DiskThread, response: Any) -> None:
        """Send the response as `answer` does, once `thread` has encoded it. `response` must not change meanwhile."""
        pieces: list[Buffer] = []

        def on_encoded(error: BaseException | None) -> None:
            if error is None:
                self._reply.send(*pieces)
            elif isinstance(error, Exception):
                self._not_encoded(error)
            else:
                raise error

        thread.submit(lambda: pieces.extend(self._encode(response)), on_encoded)

    def _encode(self, response: Any) -> list[Buffer]:
        return self._api.encode_response(self.header.api_version, self.header.correlation_id, response)

    def _not_encoded(self, error: Exception) -> None:
        """Close the connection: the client must not wait for an answer that cannot be sent."""
        if isinstance(error, CannotEncode):
            # A value that this version has no place for is our mistake.
            self.connection.close(f"the answer to {self._api.name} cannot be sent: {error}")
        else:
            self.connection.refuse(error)

    def answer_nothing(self) -> None:
        """End a request that has no response."""
        self._reply.send()

    def close(self, reason: str) -> None:
        """Close the connection, which reports an error to a client that expects no answer."""
        self.connection.close(reason)


class GuardedCall(ClientCall):
    """A call from which a guard has taken what the caller may not ask for; `complete` adds that to the answer."""

    __slots__ = ("_complete", "access")

    def __init__(self, call: ClientCall, request: Any, access: Access, complete: Callable[[Any], Any] | None) -> None:
        super().__init__(call.header, request, call._reply, call.connection, call.caller)
        self.access = access
        self._complete = complete

    def answer(self, response: Any) -> None:
        """See `ClientCall.answer`."""
        super().answer(response if self._complete is None else self._complete(response))

    def answer_by(self, thread: DiskThread, response: Any) -> None:
        """See `ClientCall.answer_by`; what was refused is added at once."""
        super().answer_by(thread, response if self._complete is None else self._complete(response))

    def answer_nothing(self) -> None:
        """End the request, or the connection if something was refused: there is no other way to report it."""
        if self._complete is None:
            super().answer_nothing()
        else:
            self.close("the caller is not authorized for all of a request that has no answer")


class TokenCall(ClientCall):
    """A message of a mechanism that came without a header. Its answer has none, and an error has no answer."""

    __slots__ = ()

    def __init__(self, token: Buffer, reply: Reply, connection: SocketConnection[Any], caller: Caller) -> None:
        header = RequestHeader(SASL_AUTHENTICATE.key, SASL_AUTHENTICATE.version_max, 0)
        super().__init__(header, SaslAuthenticateRequest(auth_bytes=bytes(token)), reply, connection, caller)

    def answer(self, response: Any) -> None:
        """See `ClientCall.answer`."""
        if response.error_code:
            self.answer_nothing()
        else:
            self._reply.send(*frame_pieces([response.auth_bytes]))


Handler = Callable[[ClientCall], None]
_NOT_GREETED: Final = object()
_AT_ONCE: Final = frozenset((*BROKER_APIS, SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key))
"""The APIs by which brokers learn the cluster."""


class Gate:
    """Keeps the calls of clients until this broker knows the cluster.

    Earlier it would answer that there are no brokers and no topics, and a client would believe it. Requests between
    brokers are served at once, because brokers learn the cluster through them.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._waiting: list[tuple[Handler, ClientCall]] = []

    def admit(self, handler: Handler, call: ClientCall) -> None:
        """Give the call to its handler, now or when the gate opens."""
        if self.is_open or call.header.api_key in _AT_ONCE:
            handler(call)
        else:
            self.keep(handler, call)

    def keep(self, handler: Handler, call: ClientCall) -> None:
        """Keep the call until the gate opens."""
        self._waiting.append((handler, call))

    def open(self) -> None:
        """Serve the waiting calls, and from now on all calls. Opening twice is harmless."""
        self.is_open = True
        waiting, self._waiting = self._waiting, []
        for handler, call in waiting:
            if call.connection.is_closed:
                continue
            try:
                handler(call)
            except Exception as error:  # noqa: BLE001 - `refuse` raises what ends the process
                call.connection.refuse(error)

    def forget(self, connection: SocketConnection[Any]) -> None:
        """Drop the calls of a connection that has ended."""
        if self._waiting:
            self._waiting = [each for each in self._waiting if each[1].connection is not connection]


class Requests:
    """Takes the frames of one connection, makes calls of them and gives each to the handler of its API."""

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        gate: Gate,
        on_closed: Callable[[SocketConnection[Any], str], None],
        on_greeted: Callable[[SocketConnection[Any], Standing], None],
        caller: Caller | None = None,
        refusal: Callable[[Caller, int], str | None] = lambda caller, api_key: None,
    ) -> None:
        """`on_greeted` is called once the other end counts, and again when it has proven who it is.

        `refusal` returns why a caller that has to prove who it is may not use an API now.
        """
        self.caller = caller or Caller()
        self._refusal = refusal
        self._handlers = handlers
        self._gate = gate
        self._on_greeted = on_greeted
        self._greeted_as: object = _NOT_GREETED
        """The identity with which it was greeted last."""
        self.session: OrderedSession[Buffer] = OrderedSession(self._serve, on_closed)

    def _serve(self, body: Buffer, reply: Reply) -> None:
        connection = self.session.connection
        if self._greeted_as is _NOT_GREETED:
            self._read_certificate(connection)
        if self.caller.sends_tokens and self.caller.exchange is not None:
            self._handlers[SASL_AUTHENTICATE.key](TokenCall(body, reply, connection, self.caller))
        else:
            self._serve_request(body, reply, connection)
        if self._greeted_as is not self.caller.identity and not self.caller.is_proving:
            # Kafka's protocol has no handshake: a connection counts once its first request was understood, or once it
            # has proven what it began to prove.
            self._greeted_as = self.caller.identity
            if not connection.is_closed:
                self._on_greeted(connection, self.caller.standing)

    def _serve_request(self, body: Buffer, reply: Reply, connection: SocketConnection[Any]) -> None:
        try:
            require_size(body)
            request = decode_request(body)
        except UnsupportedVersion as error:
            frame = encode_unsupported_version(error)
            if frame is None:
                raise
            reply.send(*frame)
        else:
            handler = self._handlers.get(request.header.api_key)
            if handler is None:
                raise WireError(f"API {request.header.api_key} is not served on this port")
            if self.caller.offered and (reason := self._refusal(self.caller, request.header.api_key)) is not None:
                raise WireError(reason)
            self._gate.admit(handler, ClientCall(request.header, request.body, reply, connection, self.caller))

    def _read_certificate(self, connection: SocketConnection[Any]) -> None:
        """Take the name in a client's certificate for its principal, unless it proves another one by SASL."""
        if self.caller.offered or self.caller.identity is not None or not isinstance(connection.socket, TlsSocket):
            return
        subject = connection.socket.stream.subject
        if subject is not None:
            self.caller.identity = Identity(principal=f"User:{subject}")
