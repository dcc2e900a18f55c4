"""The handshake of `raft.trust` on raft's native wire: TRUST frames before HELLO, at either end of a connection.

What does not prove that it knows the secret is refused with always the same frame, whatever it sent.
"""

from collections.abc import Callable
from typing import Final

import trio

from raft import client_codec
from raft.client_codec import TRUST, Hello, HelloReply
from raft.errors import NotAdmitted, ProtocolError
from raft.net.connection import Session, SocketConnection
from raft.net.errors import WireError
from raft.net.framing import Frame
from raft.trust import ROLES, Admitted, Credentials, Dialer, Untrusted

WIRE: Final = "raft"
REFUSAL: Final = client_codec.encode_error(0, NotAdmitted())


class NativeSession(Session[Frame]):
    """A session that is put on its `connection` before anything arrives."""

    connection: SocketConnection[Frame]


class Admission(NativeSession):
    """Waits for the proof of whom dialled; then hands the connection, and what else had arrived, to `greet`'s session."""

    def __init__(
        self,
        credentials: Credentials,
        greet: Callable[[Admitted], NativeSession],
        on_closed: Callable[[SocketConnection[Frame], str], None],
    ) -> None:
        self._acceptor = credentials.accept(WIRE, trio.current_time(), ROLES)
        self._greet = greet
        self._on_closed = on_closed

    def on_frames(self, frames: list[Frame]) -> None:
        """Messages of the handshake, one after the other."""
        for number, (message_type, body, _) in enumerate(frames, start=1):
            if message_type != TRUST:
                raise Untrusted(f"it does not prove that it is of this cluster: message type {message_type}")
            step = self._acceptor.step(trio.current_time(), bytes(body))
            self.connection.write(client_codec.encode_trust_reply(step.reply))
            if step.admitted is not None:
                session = self.connection.session = self._greet(step.admitted)
                session.connection = self.connection
                if len(frames) > number:
                    session.on_frames(frames[number:])
                return

    def on_wire_error(self, error: WireError) -> None:
        """Refuse, without a reason."""
        self.connection.write(REFUSAL)

    def on_closed(self, reason: str) -> None:
        """The connection closed before its proof."""
        self._on_closed(self.connection, reason)


class Greeting:
    """The dialer's beginning of connections: its proof, where there is a secret, and then its HELLO."""

    def __init__(self, hello: Callable[[], Hello], to: str, credentials: Credentials | None) -> None:
        """`hello` is asked at each beginning; `to` is the name of the node that is dialled, or `ANY`."""
        self._hello = hello
        self._to = to
        self._credentials = credentials
        self._dialer: Dialer | None = None

    def begin(self) -> bytes:
        """Returns the first bytes of a new connection."""
        if self._credentials is None:
            return client_codec.encode_hello(self._hello())
        self._dialer = self._credentials.dial(WIRE, self._to)
        return client_codec.encode_trust(self._dialer.opening)

    def answer(self, frame: Frame) -> bytes | HelloReply:
        """Returns the next bytes to send, or the answer to HELLO, with which the connection is greeted.

        Raises `ProtocolError`, or the error with which the other side refused.
        """
        message_type, body, _ = frame
        if self._dialer is None:
            return client_codec.decode_hello_reply(message_type, body)
        try:
            step = self._dialer.step(client_codec.decode_trust_reply(message_type, body))
        except Untrusted as error:
            raise ProtocolError.of(error) from None
        if step.admitted is not None:
            self._dialer = None
            return client_codec.encode_hello(self._hello())
        return client_codec.encode_trust(step.reply)
