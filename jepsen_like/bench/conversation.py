"""The interface between a load generator and a wire protocol, and the definition of a load.

A `Conversation` is one connection's side of a protocol without its socket: bytes in, bytes out, and how many requests
the bytes completed. It counts an acknowledgement only when its last byte is there, however the stream was cut. Every
system has one of its own, encoded beforehand as far as its protocol allows, so the client costs the same with each.
"""

from typing import Protocol

import attrs


class NotAnAnswer(Exception):
    """A server sent bytes that its protocol does not allow, so no figure of this load can be trusted."""


@attrs.frozen
class LoadShape:
    """Closed loop: each connection has one request under way, of `batch` records of `record_bytes`."""

    connections: int
    record_bytes: int
    batch: int = 1

    @property
    def key(self) -> str:
        """Short and unique: `64x100`, `64x16x100`, `8x524288`."""
        middle = f"{self.batch}x" if self.batch > 1 else ""
        return f"{self.connections}x{middle}{self.record_bytes}"

    @property
    def title(self) -> str:
        """For people."""
        size = f"{self.record_bytes} B" if self.record_bytes < 1024 else f"{self.record_bytes // 1024} KiB"
        many = "connection" if self.connections == 1 else "connections"
        return f"{self.connections} {many} x {f'{self.batch} x ' if self.batch > 1 else ''}{size}"


FULL = LoadShape(64, 100)
"""The load that the aims speak of."""
LARGE = LoadShape(8, 512 * 1024)
ONE = LoadShape(1, 100)
BATCHES = LoadShape(64, 100, 16)
LOADS = (ONE, LoadShape(8, 100), FULL, LoadShape(1, 1024), LoadShape(8, 1024), LoadShape(64, 1024), BATCHES, LARGE)


class Conversation(Protocol):
    """One connection; the caller sends `owed` and clears it: the protocol's own bytes (flow control, pongs)."""

    greeted: bool
    """The handshake is done; requests may follow."""
    owed: bytes
    refusal: str
    """The server's last refusal; empty as long as it refused nothing."""

    def hello(self) -> bytes:
        """Returns the bytes that open a new connection."""

    def request(self) -> bytes:
        """One more write. What flow control holds back follows in `owed`."""

    def take(self, chunk: bytes) -> int:
        """Returns how many requests these bytes completed. Raises `NotAnAnswer` for bytes outside of the protocol."""


def payload(size: int, number: int = 0) -> bytes:
    """Bytes that do not compress, different for each number."""
    state = (0x9E3779B97F4A7C15 * (number + 1)) & (2**64 - 1)
    words = bytearray()
    while len(words) < size:
        state ^= (state << 13) & (2**64 - 1)
        state ^= state >> 7
        state ^= (state << 17) & (2**64 - 1)
        words += state.to_bytes(8, "big")
    return bytes(words[:size])
