"""The one on-disk frame: a header that can be trusted alone, then an opaque payload.

    offset  bytes  field
         0      4  magic `QLOG`
         4      1  format version
         5      1  kind
         6      1  tag: the owner's, opaque here
         7      1  reserved, 0
         8      8  log_id
        16      8  address of this frame in the whole stream
        24      8  epoch
        32      8  index
        40      8  base_offset
        48      8  timestamp_ms
        56      8  durable_end: the address below which all was durable when this frame was written
        64      4  span: offsets taken
        68      4  payload_bytes
        72      4  payload_crc: CRC-32C of the payload
        76      4  header_crc: CRC-32C of bytes 0 to 75
        80      -  payload

All integers are little-endian. The header has a checksum of its own, so with a damaged payload it is still known which
frame it was and where the next one begins. The address in the header distinguishes a frame that belongs here from a
copy of it that a payload may carry, or that a disk put in the wrong place. Every format version keeps the magic, the
version byte, the header's size and the place of `header_crc`, so that it is told from damage.

Every frame names the end of the log after it: RECORDS and CONTROL by their own index and offsets; STATE and TRUNCATE by
the last index, its epoch and the end offset that hold after them. So one frame is enough to know where a log ends.
"""

import enum
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple, NewType, Self

import attrs
from crc32c import crc32c

from log.values import frozen

Address = NewType("Address", int)
"""A byte position in the whole stream of a log, across its segment files."""

Buffer = bytes | bytearray | memoryview
"""Bytes that can be written: anything flat; a memoryview has format `B`."""

checksum: Callable[[Buffer], int] = crc32c
"""CRC-32C (Castagnoli)."""

MAGIC = b"QLOG"
FORMAT_VERSION = 1
HEADER_BYTES = 80

_FIELDS = struct.Struct("<4sBBBBQQQQQQQIII")
_HEADER = struct.Struct("<4sBBBBQQQQQQQIIII")
_ADDRESS = struct.Struct("<Q")
_BLANK = bytes(HEADER_BYTES)
_pack = _FIELDS.pack
_new_header = tuple.__new__  # without the detour of `_make`, which counts the fields


class Pieces:
    """Bytes in several buffers, which can be written and sent like joined ones without the copy."""

    __slots__ = ("_size", "buffers")

    def __init__(self, buffers: Sequence[bytes | memoryview]) -> None:
        self.buffers = buffers
        self._size = sum(map(len, buffers))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.buffers)


Payload = bytes | memoryview | Pieces


def buffers_of(payload: Payload) -> Sequence[bytes | memoryview]:
    """Returns the buffers of a payload, in order."""
    return payload.buffers if isinstance(payload, Pieces) else (payload,)


class FrameKind(enum.IntEnum):
    """The meaning of a frame to the log itself."""

    RECORDS = 1
    """Indexed; takes `span` offsets."""
    CONTROL = 2
    """Indexed; takes no offsets."""
    STATE = 3
    """Not indexed: the owner's newest state."""
    TRUNCATE = 4
    """Not indexed: everything above `index` is cut."""


_KINDS = {int(kind): kind for kind in FrameKind}


@frozen
class Frame:
    """One position of a log, as the owner appends and reads it.

    `payload_crc` is the CRC-32C of `payload`, computed once where the bytes arrived. A payload that was read is a view
    of a larger buffer, which it keeps alive.
    """

    kind: FrameKind
    tag: int
    epoch: int
    index: int
    base_offset: int
    span: int
    timestamp_ms: int
    payload: Payload
    payload_crc: int

    @classmethod
    def of(
        cls,
        payload: bytes | memoryview,
        *,
        index: int,
        epoch: int,
        base_offset: int,
        span: int,
        kind: FrameKind = FrameKind.RECORDS,
        tag: int = 0,
        timestamp_ms: int = 0,
    ) -> Self:
        """Returns a frame whose payload checksum is computed here."""
        return cls(kind, tag, epoch, index, base_offset, span, timestamp_ms, payload, checksum(payload))

    @property
    def end_offset(self) -> int:
        """The first offset after this frame."""
        return self.base_offset + self.span


class Header(NamedTuple):
    """A decoded header. A tuple and not an attrs value, because one is made for each frame that is read or scanned.

    `log_index` is the frame's index; a tuple has a method of that name.
    """

    magic: bytes
    version: int
    kind: int
    tag: int
    reserved: int
    log_id: int
    address: int
    epoch: int
    log_index: int
    base_offset: int
    timestamp_ms: int
    durable_end: int
    span: int
    payload_bytes: int
    payload_crc: int
    header_crc: int

    @property
    def frame_bytes(self) -> int:
        """Bytes of header and payload together."""
        return HEADER_BYTES + self.payload_bytes

    @property
    def end_offset(self) -> int:
        """The end offset of a log that ends with this frame; the span of STATE and TRUNCATE is 0."""
        return self.base_offset + self.span

    @property
    def indexed(self) -> bool:
        """True if this frame is a position of the log."""
        return self.kind <= FrameKind.CONTROL

    def frame(self, payload: memoryview) -> Frame:
        """Returns this header and its payload as a `Frame`."""
        return Frame(
            _KINDS[self.kind],
            self.tag,
            self.epoch,
            self.log_index,
            self.base_offset,
            self.span,
            self.timestamp_ms,
            payload,
            self.payload_crc,
        )


@attrs.define
class DamagedFrame(Exception):
    """The bytes at this place are not a whole frame; recovery decides whether that is a torn tail or corruption."""

    reason: str
    header: Header | None = None


@attrs.define
class ForeignFrame(Exception):
    """A whole header of another log, or of a newer format version. Never cut."""

    reason: str


def encode_header(
    kind: int,
    tag: int,
    log_id: int,
    address: int,
    epoch: int,
    index: int,
    base_offset: int,
    timestamp_ms: int,
    durable_end: int,
    span: int,
    payload_bytes: int,
    payload_crc: int,
) -> bytes:
    """Returns the 80 bytes before a payload."""
    fields = _pack(
        MAGIC,
        FORMAT_VERSION,
        kind,
        tag,
        0,
        log_id,
        address,
        epoch,
        index,
        base_offset,
        timestamp_ms,
        durable_end,
        span,
        payload_bytes,
        payload_crc,
    )
    return fields + checksum(fields).to_bytes(4, "little")


def written_for(view: memoryview, position: int) -> int:
    """Returns the address in what may be a header at `position`, unchecked; -1 if the view ends before it."""
    return _ADDRESS.unpack_from(view, position + 16)[0] if len(view) - position >= 24 else -1


def decode_header(view: memoryview, position: int, *, log_id: int, address: int) -> Header:
    """Returns the header at `position` of `view`, which must be that of the frame at `address` of log `log_id`.

    Raises `DamagedFrame` unless it is whole and belongs at this address, `ForeignFrame` if it is whole but of another
    log or version.
    """
    if len(view) - position < HEADER_BYTES:
        raise DamagedFrame("the file ends inside a frame header")
    header = _new_header(Header, _HEADER.unpack_from(view, position))
    if header.magic != MAGIC:
        blank = view[position : position + HEADER_BYTES] == _BLANK
        raise DamagedFrame("zeros where a frame should begin" if blank else "no frame begins here")
    if checksum(view[position : position + _FIELDS.size]) != header.header_crc:
        raise DamagedFrame("the checksum of the frame header does not match")
    if header.version != FORMAT_VERSION:
        raise ForeignFrame(f"format version {header.version} is not supported, only {FORMAT_VERSION}")
    if header.address != address:
        raise DamagedFrame(f"the frame was written for address {header.address}, not for {address}")
    if header.log_id != log_id:
        raise ForeignFrame(f"the frame belongs to log {header.log_id}, not to log {log_id}")
    if header.kind not in _KINDS or header.durable_end > address:
        raise DamagedFrame("the frame header contradicts itself")
    return header
