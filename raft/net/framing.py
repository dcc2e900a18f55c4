"""How the native wire cuts a byte stream into frames, and how it refuses what is not one.

A frame is a header of 12 bytes (body length, protocol version, message type, check of these three, CRC-32C of the body; big
endian) and the body. The decoder takes the stream in whatever pieces it arrives and gives whole frames back:

- a header is believed only after its own check: a damaged length would else swallow the frames behind it, and hold the
  connection up, silently, until as many bytes had come; and a damaged type would make another message of the same body;
- a length above the bound is refused on sight of the header: memory grows only with bytes that really arrived;
- frames and failure do not depend on how the stream was cut into pieces;
- after a failure nothing more is decoded: the stream has lost its place, only closing helps.

Other wires bring a `Decoder` of their own; connection, reactor and listener take any.
"""

import functools
import struct
from typing import Protocol, TypeVar

import crc32c

from raft.errors import ProtocolError

PROTOCOL_VERSION = 1
HEADER = struct.Struct("!IBBHI")
CHECKED = struct.Struct("!IBB")

Frame = tuple[int, bytes]
"""Message type and body."""

FrameT = TypeVar("FrameT")


class Decoder(Protocol[FrameT]):
    """Cuts one connection's stream into frames."""

    failure: ProtocolError | None
    """Why nothing more will be decoded; the frames before the fault have all been given back."""

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that has not arrived whole."""

    def feed(self, chunk: bytes) -> list[FrameT]:
        """The frames that `chunk` completes, in order."""


def encode_frame(message_type: int, body: bytes) -> bytes:
    """One frame, ready to send."""
    length = len(body)
    check = header_check(length, PROTOCOL_VERSION, message_type)
    return HEADER.pack(length, PROTOCOL_VERSION, message_type, check, crc32c.crc32c(body)) + body


@functools.lru_cache(maxsize=1024)
def header_check(length: int, version: int, message_type: int) -> int:
    """The 16 bits that vouch for the rest of a header: the lower half of its CRC-32C. Kept, since most headers are alike."""
    check: int = crc32c.crc32c(CHECKED.pack(length, version, message_type)) & 0xFFFF
    return check


class FrameDecoder:
    """The `Decoder` of the native wire. `body_bytes_max` may be moved while the connection lives (after a handshake)."""

    __slots__ = ("_buffer", "_needed", "body_bytes_max", "failure")

    def __init__(self, body_bytes_max: int) -> None:
        self.body_bytes_max = body_bytes_max
        self.failure: ProtocolError | None = None
        self._buffer = bytearray()
        self._needed = HEADER.size

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that has not arrived whole."""
        return len(self._buffer)

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that `chunk` completes, in order; sets `failure` at the first bytes that are no frame."""
        if self.failure is not None:
            return []
        if self._buffer:
            self._buffer += chunk
            if len(self._buffer) < self._needed:
                return []
            arrived: bytes | memoryview = memoryview(self._buffer)
            self._buffer = bytearray()
        else:
            arrived = chunk
        frames: list[Frame] = []
        position = 0
        self._needed = HEADER.size
        while len(arrived) - position >= HEADER.size:
            length, version, message_type, check, crc = HEADER.unpack_from(arrived, position)
            checked = header_check(length, version, message_type)
            if length > self.body_bytes_max or version != PROTOCOL_VERSION or check != checked:
                self.failure = self._refusal(length, version, check == checked)
                return frames
            start = position + HEADER.size
            if start + length > len(arrived):
                self._needed = HEADER.size + length
                break
            body = bytes(arrived[start : start + length])
            if crc32c.crc32c(body) != crc:
                self.failure = ProtocolError(f"the CRC of a frame of type {message_type} is wrong")
                return frames
            frames.append((message_type, body))
            position = start + length
        if position < len(arrived):
            self._buffer += arrived[position:]
        return frames

    def _refusal(self, length: int, version: int, is_sound: bool) -> ProtocolError:
        if version != PROTOCOL_VERSION:
            return ProtocolError(f"protocol version {version} is unknown; this side speaks {PROTOCOL_VERSION}")
        if not is_sound:
            return ProtocolError("the check of a header is wrong")
        return ProtocolError(f"a frame of {length} bytes is over the bound of {self.body_bytes_max}")
