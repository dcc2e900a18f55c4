"""One port for several wires: a connection's first bytes tell which of them it speaks.

A host that serves a protocol of its own and a raft group on one port gives each connection an `UndecidedDecoder`. As
soon as enough bytes have come, its `decide` puts the decoder and the session of that wire into the connection, and
decoding goes on there; for the native wire, `RaftGroup.take_over` does so. How many bytes are enough depends on the
wires: where one byte does not tell them apart, `native_type` looks at the check of the native header as well.
"""

import struct
from collections.abc import Callable
from typing import Any

from raft.net.decoder import PREFIX, Buffer, Decoder
from raft.net.errors import WireError
from raft.net.framing import PROTOCOL_VERSION, header_check

FIRST_BYTES = PREFIX.size + 1
"""The bytes that `is_native` needs: the length of the first frame, and the byte that follows it."""
_CHECKED_HEADER = struct.Struct("!IBBH")
CHECKED_BYTES = _CHECKED_HEADER.size
"""The bytes that `native_type` needs."""


def is_native(first: Buffer) -> bool:
    """Returns True if a connection that begins with these `FIRST_BYTES` speaks the native wire.

    A wire can share a port with it if that byte is never `PROTOCOL_VERSION` in the first frame of a connection. In
    Kafka's frames it is the upper byte of the API key, which is 0.
    """
    return first[PREFIX.size] == PROTOCOL_VERSION


def native_type(first: Buffer) -> int | None:
    """Returns the message type of the native frame that these `CHECKED_BYTES` begin; None if they begin none.

    For wires whose fifth byte may be `PROTOCOL_VERSION`, as RocketMQ's with a binary header: the check of the native
    header tells them apart, and where it fits by chance, the type, which is the sixth byte: there the upper one of a
    header's length, 0 but for huge ones.
    """
    length, version, message_type, check = _CHECKED_HEADER.unpack_from(first)
    return (
        message_type if version == PROTOCOL_VERSION and check == header_check(length, version, message_type) else None
    )


class UndecidedDecoder(Decoder[Any]):
    """Keeps a connection's first bytes until `decide` can tell what it speaks.

    `decide` is called once, with `first_bytes` at least.

    It returns the decoder that it has put into the connection.
    """

    def __init__(self, decide: Callable[[Buffer], Decoder[Any]], first_bytes: int = FIRST_BYTES) -> None:
        self.failure: WireError | None = None
        self._decide = decide
        self._first_bytes = first_bytes
        self.pending_bytes = 0
        self._first = b""

    @property
    def held_bytes(self) -> int:
        """See `Decoder`."""
        return self.pending_bytes

    def feed(self, chunk: Buffer) -> list[Any]:
        """See `Decoder`."""
        first = self._first + bytes(chunk) if self._first else chunk
        if len(first) < self._first_bytes:
            self._first = bytes(first)
            self.pending_bytes = len(first)
            return []
        return self._decide(first).feed(first)

    def room(self) -> memoryview | None:
        """See `Decoder`: never, for so few bytes."""
        return None

    def fill(self, count: int) -> list[Any]:
        """See `Decoder`. Never called, because there is no room."""
        raise AssertionError("an undecided decoder has no room")
