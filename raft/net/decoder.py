"""Cuts a byte stream into frames, for any wire: the port, and the decoder of frames that begin with their length.

A `LengthPrefixedDecoder` takes the stream in whatever pieces it arrives and gives whole frames back:

- a length above the bound is refused when the four bytes that give it have come; below it, memory grows only with bytes
  that really arrived, at most `GROWTH` times as much;
- frames and failure do not depend on how the stream was cut into pieces;
- the bytes of a large frame are spared copies: the first that come are put where the frame grows, the socket is read
  into that place from then on (`room`), and the body is a view of it; the frame of a `trusted` sender has its whole
  place by then, if that is at most `TRUSTED_BYTES`;
- after a failure it decodes nothing more: the stream has lost its place, and only closing helps.

`BodyDecoder` serves wires whose frame is a length of four bytes and a body, such as Kafka's and RocketMQ's.
"""

import struct
from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from raft.net.errors import WireError

PREFIX = struct.Struct("!I")

LARGE_BYTES = 64 * 1024
"""From here on a copy costs more than the care it takes to spare it."""

GROWTH = 4
"""The place of a large frame is so many times larger than what has arrived of it: seldom does one need another."""

TRUSTED_BYTES = 4 * 1024 * 1024
"""The place of a frame that a trusted sender has merely announced: no less than entries of joined appends need."""

SLACK = 8
"""A body that is a view keeps alive at most 1/`SLACK` of its own size in other bytes, because views are kept long and
are counted by their length alone.
"""

TLS_HANDSHAKE = 22
"""The type of the record that begins every TLS connection, and so its first byte."""

Buffer = bytes | memoryview

FrameT = TypeVar("FrameT")


def begins_tls(first: Buffer) -> bool:
    """Returns True if a connection that begins with these bytes speaks TLS: its first byte is enough.

    In wires whose frames begin with a length of four bytes it would announce 352 MiB and more.
    """
    return first[0] == TLS_HANDSHAKE and bytes(first[1:2]) in (b"", b"\3")


def refusal_of(arrived: Buffer, detail: str) -> WireError:
    """Returns the error for bytes that begin no frame: `detail`, unless the other side evidently speaks TLS."""
    return WireError("the other side speaks TLS, and this side plain text" if begins_tls(arrived) else detail)


class Decoder(Protocol[FrameT]):
    """Cuts one connection's stream into frames."""

    failure: WireError | None
    """Why decoding has stopped, None while it has not; all frames before the fault have been returned."""

    pending_bytes: int
    """The number of bytes that have arrived of an incomplete frame."""

    @property
    def held_bytes(self) -> int:
        """The memory that it has taken for an incomplete frame."""

    def feed(self, chunk: Buffer) -> list[FrameT]:
        """Returns the frames that `chunk` completes, in order; the caller may overwrite `chunk` afterwards."""

    def room(self) -> memoryview | None:
        """Returns the buffer that the next bytes should be read into, to be followed by `fill`.

        Returns None if they should be given to `feed` instead, as is the case while no bytes are pending.
        """

    def fill(self, count: int) -> list[FrameT]:
        """Returns the frames that are whole after `count` bytes were read into `room`, as `feed` does."""


class LengthPrefixedDecoder(ABC, Generic[FrameT]):
    """Keeps what has arrived of a frame; how they lie in bytes is `_decode`'s, one for each wire.

    `body_bytes_max` and `trusted` may change while the connection lives (after a handshake).
    """

    __slots__ = ("_growing", "_header_bytes", "_needed", "body_bytes_max", "failure", "pending_bytes", "trusted")

    def __init__(self, body_bytes_max: int, header_bytes: int = PREFIX.size) -> None:
        self.body_bytes_max = body_bytes_max
        self.failure: WireError | None = None
        self.pending_bytes = 0
        self.trusted = False
        """True if the sender may have `TRUSTED_BYTES` of memory for a frame of which `LARGE_BYTES` have arrived."""
        self._growing = bytearray()
        """Begins with `pending_bytes` of a frame; what lies behind is room for its rest."""
        self._header_bytes = header_bytes
        self._needed = header_bytes

    @property
    def held_bytes(self) -> int:
        """See `Decoder`: Python fills a new place with zeros, so all of it is there at once."""
        return len(self._growing)

    def feed(self, chunk: Buffer) -> list[FrameT]:
        """Returns the frames that `chunk` completes, in order; sets `failure` at the first bytes that are no frame."""
        if self.failure is not None:
            return []
        if not self.pending_bytes:
            return self._decode(chunk, is_kept=False)
        size, room = len(chunk), len(self._growing) - self.pending_bytes
        if not room:
            self._growing += chunk
            return self.fill(size)
        fitting = chunk if size <= room else memoryview(chunk)[:room]
        self._growing[self.pending_bytes : self.pending_bytes + len(fitting)] = fitting
        frames = self.fill(len(fitting))
        return frames if size <= room else frames + self.feed(memoryview(chunk)[room:])

    def room(self) -> memoryview | None:
        """Returns the buffer for the rest of a frame if both the rest and what has arrived are large, else None."""
        if self.pending_bytes == len(self._growing):
            if not self._is_worth_a_place():
                return None
            self._growing = self._place_for(self._growing)
        return memoryview(self._growing)[self.pending_bytes :]

    def fill(self, count: int) -> list[FrameT]:
        """Returns the frame if `count` bytes at the beginning of `room` complete it, else an empty list."""
        self.pending_bytes += count
        if self.pending_bytes < self._needed:
            return []
        grown, self._growing = memoryview(self._growing)[: self.pending_bytes], bytearray()
        self.pending_bytes = 0
        return self._decode(grown, is_kept=True)

    @abstractmethod
    def _decode(self, arrived: Buffer, *, is_kept: bool) -> list[FrameT]:
        """The frames in `arrived`, with `_keep` called for what is behind the last; or `failure` set.

        If `arrived` `is_kept`, a body that is nearly all of it may be a view (`_is_view_enough`); others are copies.
        """

    def _keep(self, rest: Buffer, needed: int) -> None:
        """The last step of `_decode`: `rest` begins a frame of `needed` bytes, header and all, as far as is known."""
        self._needed = needed
        self.pending_bytes = len(rest)
        if self.pending_bytes:
            self._growing = self._place_for(rest) if self._is_worth_a_place() else bytearray(rest)

    @staticmethod
    def _is_view_enough(arrived_bytes: int, body_bytes: int) -> bool:
        """Returns True if a view of the body keeps little other memory alive."""
        return SLACK * (arrived_bytes - body_bytes) <= body_bytes

    def _is_worth_a_place(self) -> bool:
        return min(self.pending_bytes, self._needed - self.pending_bytes) >= LARGE_BYTES

    def _place_for(self, arrived: Buffer | bytearray) -> bytearray:
        """Begins with what has arrived of a frame, and has room for much more of it, if not for all."""
        ahead = TRUSTED_BYTES if self.trusted else 0
        place = bytearray(min(self._needed, max(ahead, GROWTH * len(arrived))))
        memoryview(place)[: len(arrived)] = arrived
        return place


class BodyDecoder(LengthPrefixedDecoder[Buffer]):
    """Frames that are a length of four bytes, big endian, which does not count itself, and a body; gives the bodies."""

    __slots__ = ()

    def _decode(self, arrived: Buffer, *, is_kept: bool) -> list[Buffer]:
        bodies: list[Buffer] = []
        position = 0
        needed = PREFIX.size
        while len(arrived) - position >= PREFIX.size:
            (length,) = PREFIX.unpack_from(arrived, position)
            if length > self.body_bytes_max:
                detail = f"a frame of {length} bytes is over the bound of {self.body_bytes_max}"
                self.failure = refusal_of(arrived[position:], detail)
                return bodies
            start = position + PREFIX.size
            if start + length > len(arrived):
                needed = PREFIX.size + length
                break
            body = arrived[start : start + length]
            if type(body) is not bytes and not (is_kept and self._is_view_enough(len(arrived), length)):
                body = bytes(body)
            bodies.append(body)
            position = start + length
        self._keep(arrived[position:], needed)
        return bodies
