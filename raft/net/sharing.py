"""One port for several wires: a connection's first bytes tell which of them it speaks.

A host that serves a protocol of its own and a raft group on one port gives each connection an `UndecidedDecoder`. As soon as
enough bytes have come, its `decide` puts the decoder and the session of that wire into the connection, and decoding goes on there;
for the native wire, `RaftGroup.take_over` does so.
"""

from collections.abc import Callable
from typing import Any

from raft.net.decoder import PREFIX, Buffer, Decoder
from raft.net.errors import WireError
from raft.net.framing import PROTOCOL_VERSION

FIRST_BYTES = PREFIX.size + 1
"""What `decide` is given at least: the length of the first frame, and one byte of what follows it."""


def is_native(first: Buffer) -> bool:
    """Whether a connection that begins with these `FIRST_BYTES` speaks the native wire: the version follows the length.

    A wire can share a port with it if that byte is never `PROTOCOL_VERSION` in the first frame of a connection. In Kafka's it is the
    upper byte of the API key, which is 0.
    """
    return first[PREFIX.size] == PROTOCOL_VERSION


class UndecidedDecoder(Decoder[Any]):
    """Keeps a connection's first bytes until `decide` can tell what it speaks. `decide` is called once, with `FIRST_BYTES` at least.

    It returns the decoder that it has put into the connection.
    """

    def __init__(self, decide: Callable[[Buffer], Decoder[Any]]) -> None:
        self.failure: WireError | None = None
        self._decide = decide
        self.pending_bytes = 0
        self._first = b""

    def feed(self, chunk: Buffer) -> list[Any]:
        """See `Decoder`."""
        first = self._first + bytes(chunk) if self._first else chunk
        if len(first) < FIRST_BYTES:
            self._first = bytes(first)
            self.pending_bytes = len(first)
            return []
        return self._decide(first).feed(first)

    def room(self) -> memoryview | None:
        """See `Decoder`: never, for so few bytes."""
        return None

    def filled(self, count: int) -> list[Any]:
        """See `Decoder`. Never called, because there is no room."""
        raise AssertionError("an undecided decoder has no room")
