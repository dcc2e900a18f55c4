"""A record's bytes: its value id, hidden by the record's size, and a filler that only this id has; so a reader notices
bytes that were changed, and bytes that are missing.

A damaged record reads as a value that no client can have appended: ids that are drawn stay below `DAMAGED`, so a
checker finds it as a phantom.
"""

import itertools
import struct
import zlib
from collections.abc import Iterator

DAMAGED = 1 << 61
"""Added to the CRC of a record that does not match its id."""
_ID = struct.Struct(">Q")
_ODD = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF


def value_ids() -> Iterator[int]:
    """Unique values for one run, from 1 on."""
    return itertools.count(1)


def encode_value(value: int, size: int) -> bytes:
    """A record of `size` bytes, at least 8."""
    filler = _ID.pack(value * _ODD & _MASK)
    return _ID.pack(value ^ _mark(size)) + (filler * (size // _ID.size))[: size - _ID.size]


def decode_value(record: bytes) -> tuple[int, bool]:
    """Returns the value of a record and whether its bytes are whole; a damaged one has a value above `DAMAGED`."""
    if len(record) >= _ID.size:
        (hidden,) = _ID.unpack_from(record)
        value = hidden ^ _mark(len(record))
        if 0 < value < DAMAGED and record == encode_value(value, len(record)):
            return value, True
    return DAMAGED + zlib.crc32(record), False


def _mark(size: int) -> int:
    """Returns the mask of ids in records of this size: a shorter part has another id, far from all drawn ones."""
    return size * _ODD & _MASK
