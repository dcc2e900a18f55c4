"""A transformation between a connection's socket and its frames, such as TLS: bytes into bytes, without a socket of its
own.

A connection without one sends and receives its bytes as they are, at no price. With one, every received piece is copied
once more, and everything written within a round becomes one piece for the socket.
"""

from collections.abc import Iterable
from typing import Protocol

from raft.net.decoder import Buffer


class Transform(Protocol):
    """The state of one connection's transformation, both ways.

    Holds no more than one unfinished unit of its protocol, but for what was written before its handshake was over.
    """

    def receive(self, data: bytes) -> bytes:
        """Returns the plain bytes that `data`, the next from the socket, completes; none while a handshake goes on.

        Raises `WireError` for what the other side cannot have meant; the connection is then closed.
        """

    def to_send(self, plain: Iterable[Buffer]) -> bytes:
        """Returns the next bytes for the socket: what it has to send itself (a handshake), then what carries `plain`.

        Called with nothing when the connection is made and after every `receive`. Plain bytes that cannot leave before
        the handshake is over are kept, and leave with a later call.
        """
