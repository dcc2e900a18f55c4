"""How the native wire cuts a byte stream into frames, and how it refuses what is not one.

A frame is a header of 12 bytes (body length, protocol version, message type, check of these three, CRC-32C of the body; big
endian) and the body. The decoder takes the stream in whatever pieces it arrives and gives whole frames back:

- a header is believed only after its own check: a damaged length would else swallow the frames behind it, and hold the
  connection up, silently, until as many bytes had come; and a damaged type would make another message of the same body;
- a length above the bound is refused on sight of the header; below it, memory grows only with bytes that really arrived, at
  most `GROWTH` times as much;
- frames and failure do not depend on how the stream was cut into pieces;
- the bytes of a large frame are spared copies: the first that come are put where the frame grows, the socket is read into that
  place from then on (`room`), and the body is a view of it; the frame of a `trusted` sender has its whole place by then, if
  that is at most `TRUSTED_BYTES`;
- after a failure nothing more is decoded: the stream has lost its place, only closing helps.

Other wires bring a `Decoder` of their own; connection, reactor and listener take any.
"""

import functools
import struct
from collections.abc import Sequence
from typing import Protocol, TypeVar

import crc32c

from raft.errors import ProtocolError

PROTOCOL_VERSION = 1
HEADER = struct.Struct("!IBBHI")
CHECKED = struct.Struct("!IBB")

LARGE_BYTES = 64 * 1024
"""From here on a copy costs more than the care it takes to spare it."""

GROWTH = 4
"""The place of a large frame is so many times larger than what has arrived of it: seldom does one need another."""

TRUSTED_BYTES = 4 * 1024 * 1024
"""The place of a frame that a trusted sender has merely announced: no less than entries of joined appends need."""

SLACK = 8
"""A body that is a view keeps at most a part in so many beside it: views are kept long, and counted by their length alone."""

Buffer = bytes | memoryview
Frame = tuple[int, Buffer, int]
"""Message type, body, and the CRC-32C of the body."""

FrameT = TypeVar("FrameT")


class Decoder(Protocol[FrameT]):
    """Cuts one connection's stream into frames."""

    failure: ProtocolError | None
    """Why nothing more will be decoded; the frames before the fault have all been given back."""

    pending_bytes: int
    """Bytes of a frame that has not arrived whole."""

    def feed(self, chunk: Buffer) -> list[FrameT]:
        """The frames that `chunk` completes, in order; it may be written over afterwards."""

    def room(self) -> memoryview | None:
        """Where the next bytes of the stream are wanted, instead of being fed; None if that is anywhere, as it is where no bytes
        are pending."""

    def filled(self, count: int) -> list[FrameT]:
        """Like `feed`, when `count` bytes have been put at the beginning of `room`."""


def encode_frame(message_type: int, body: bytes) -> bytes:
    """One frame, ready to send."""
    length = len(body)
    check = header_check(length, PROTOCOL_VERSION, message_type)
    return HEADER.pack(length, PROTOCOL_VERSION, message_type, check, crc32c.crc32c(body)) + body


def encode_frame_in_pieces(message_type: int, pieces: Sequence[Buffer], crc: int) -> tuple[Buffer, ...]:
    """Like `encode_frame`, for a body in pieces, of which all but the first are spared a copy; `crc` is that of the body."""
    length = sum(map(len, pieces))
    check = header_check(length, PROTOCOL_VERSION, message_type)
    header = HEADER.pack(length, PROTOCOL_VERSION, message_type, check, crc)
    return b"".join((header, pieces[0])), *pieces[1:]


@functools.lru_cache(maxsize=1024)
def header_check(length: int, version: int, message_type: int) -> int:
    """The 16 bits that vouch for the rest of a header: the lower half of its CRC-32C. Kept, since most headers are alike."""
    check: int = crc32c.crc32c(CHECKED.pack(length, version, message_type)) & 0xFFFF
    return check


class FrameDecoder:
    """The `Decoder` of the native wire. `body_bytes_max` and `trusted` may change while the connection lives (after a handshake)."""

    __slots__ = ("_growing", "_needed", "body_bytes_max", "failure", "pending_bytes", "trusted")

    def __init__(self, body_bytes_max: int) -> None:
        self.body_bytes_max = body_bytes_max
        self.failure: ProtocolError | None = None
        self.pending_bytes = 0
        self.trusted = False
        """Whether the sender may have `TRUSTED_BYTES` of memory for what it announces, once `LARGE_BYTES` have arrived."""
        self._growing = bytearray()
        """Begins with `pending_bytes` of a frame; what lies behind is room for its rest."""
        self._needed = HEADER.size

    def feed(self, chunk: Buffer) -> list[Frame]:
        """The frames that `chunk` completes, in order; sets `failure` at the first bytes that are no frame."""
        if self.failure is not None:
            return []
        if not self.pending_bytes:
            return self._decode(chunk, is_kept=False)
        del self._growing[self.pending_bytes :]
        self._growing += chunk
        return self.filled(len(chunk))

    def room(self) -> memoryview | None:
        """The place for what is missing of a frame, if that is much, and much has arrived."""
        if self.pending_bytes == len(self._growing):
            if not self._is_worth_a_place():
                return None
            self._growing = self._place_for(self._growing)
        return memoryview(self._growing)[self.pending_bytes :]

    def _is_worth_a_place(self) -> bool:
        return min(self.pending_bytes, self._needed - self.pending_bytes) >= LARGE_BYTES

    def _place_for(self, arrived: Buffer | bytearray) -> bytearray:
        """Begins with what has arrived of a frame, and has room for much more of it, if not for all."""
        ahead = TRUSTED_BYTES if self.trusted else 0
        place = bytearray(min(self._needed, max(ahead, GROWTH * len(arrived))))
        memoryview(place)[: len(arrived)] = arrived
        return place

    def filled(self, count: int) -> list[Frame]:
        """The frame, if `count` bytes at the beginning of `room` complete it."""
        self.pending_bytes += count
        if self.pending_bytes < self._needed:
            return []
        grown, self._growing = memoryview(self._growing)[: self.pending_bytes], bytearray()
        self.pending_bytes = 0
        return self._decode(grown, is_kept=True)

    def _decode(self, arrived: Buffer, *, is_kept: bool) -> list[Frame]:
        """The frames in `arrived`; if it `is_kept`, the body that is nearly all of it is a view of it, and all others are copies."""
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
            body = arrived[start : start + length]
            if type(body) is not bytes and not (is_kept and SLACK * (len(arrived) - length) <= length):
                body = bytes(body)
            if crc32c.crc32c(body) != crc:
                self.failure = ProtocolError(f"the CRC of a frame of type {message_type} is wrong")
                return frames
            frames.append((message_type, body, crc))
            position = start + length
        self.pending_bytes = len(arrived) - position
        if self.pending_bytes:
            rest = arrived[position:]
            self._growing = self._place_for(rest) if self._is_worth_a_place() else bytearray(rest)
        return frames

    def _refusal(self, length: int, version: int, is_sound: bool) -> ProtocolError:
        if version != PROTOCOL_VERSION:
            return ProtocolError(f"protocol version {version} is unknown; this side speaks {PROTOCOL_VERSION}")
        if not is_sound:
            return ProtocolError("the check of a header is wrong")
        return ProtocolError(f"a frame of {length} bytes is over the bound of {self.body_bytes_max}")
