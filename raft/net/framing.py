"""Cuts a byte stream into the frames of the native wire, and refuses other bytes.

A frame is a header of 12 bytes (body length, protocol version, message type, check of these three, CRC-32C of the body;
big endian) and the body. A header is believed only after its own check. Otherwise a damaged length would swallow the
frames behind it, and silently hold up the connection until as many bytes had come; and a damaged type would make
another message of the same body. All else is as `LengthPrefixedDecoder` promises. Other wires bring a `Decoder` of
their own; connection, reactor and listener take any.
"""

import functools
import struct
from collections.abc import Sequence

import crc32c

from raft.net.decoder import Buffer, LengthPrefixedDecoder, refusal_of
from raft.net.errors import WireError

PROTOCOL_VERSION = 1
HEADER = struct.Struct("!IBBHI")
CHECKED = struct.Struct("!IBB")

Frame = tuple[int, Buffer, int]
"""Message type, body, and the CRC-32C of the body."""


def encode_frame(message_type: int, body: bytes) -> bytes:
    """Returns one frame, ready to send."""
    length = len(body)
    check = header_check(length, PROTOCOL_VERSION, message_type)
    return HEADER.pack(length, PROTOCOL_VERSION, message_type, check, crc32c.crc32c(body)) + body


def encode_frame_in_pieces(message_type: int, pieces: Sequence[Buffer], crc: int) -> tuple[Buffer, ...]:
    """Returns the pieces of one frame, for a body in pieces of which only the first is copied.

    `crc` is the CRC-32C of the body.
    """
    length = sum(map(len, pieces))
    check = header_check(length, PROTOCOL_VERSION, message_type)
    header = HEADER.pack(length, PROTOCOL_VERSION, message_type, check, crc)
    return b"".join((header, pieces[0])), *pieces[1:]


@functools.lru_cache(maxsize=1024)
def header_check(length: int, version: int, message_type: int) -> int:
    """Returns the check of a header: the lower 16 bits of the CRC-32C of its other fields.

    Cached, because most headers are alike.
    """
    check: int = crc32c.crc32c(CHECKED.pack(length, version, message_type)) & 0xFFFF
    return check


class FrameDecoder(LengthPrefixedDecoder[Frame]):
    """The `Decoder` of the native wire."""

    __slots__ = ()

    def __init__(self, body_bytes_max: int) -> None:
        super().__init__(body_bytes_max, HEADER.size)

    def _decode(self, arrived: Buffer, *, is_kept: bool) -> list[Frame]:
        frames: list[Frame] = []
        position = 0
        needed = HEADER.size
        while len(arrived) - position >= HEADER.size:
            length, version, message_type, check, crc = HEADER.unpack_from(arrived, position)
            checked = header_check(length, version, message_type)
            if length > self.body_bytes_max or version != PROTOCOL_VERSION or check != checked:
                self.failure = refusal_of(arrived[position:], self._refusal(length, version, check == checked))
                return frames
            start = position + HEADER.size
            if start + length > len(arrived):
                needed = HEADER.size + length
                break
            body = arrived[start : start + length]
            if type(body) is not bytes and not (is_kept and self._is_view_enough(len(arrived), length)):
                body = bytes(body)
            if crc32c.crc32c(body) != crc:
                self.failure = WireError(f"the CRC of a frame of type {message_type} is wrong")
                return frames
            frames.append((message_type, body, crc))
            position = start + length
        self._keep(arrived[position:], needed)
        return frames

    def _refusal(self, length: int, version: int, is_sound: bool) -> str:
        if version != PROTOCOL_VERSION:
            return f"protocol version {version} is unknown; this side speaks {PROTOCOL_VERSION}"
        if not is_sound:
            return "the check of a header is wrong"
        return f"a frame of {length} bytes is over the bound of {self.body_bytes_max}"
