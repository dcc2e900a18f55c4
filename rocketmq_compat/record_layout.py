"""The fields of a stored record and their places (RocketMQ's `MessageDecoder` and `CommitLog`, big-endian). Pure.

    offset  bytes  field
         0      4  total size
         4      4  magic: `MAGIC_V1`, or `MAGIC_V2` with a topic length of 2 bytes instead of 1
         8      4  CRC-32 of the body
        12      4  queue id
        16      4  flag
        20      8  queue offset
        28      8  physical offset
        36      4  system flag
        40      8  time of birth in ms
        48      8  host of birth: 4 bytes of address, 4 of port; 20 bytes with `BORN_HOST_V6`
        56      8  store time in ms
        64      8  store host, likewise; 20 bytes with `STORE_HOST_V6`
        72      4  times consumed again
        76      8  offset of the prepared transaction
        84      4  size of the body
        88      -  body; size of the topic, topic; size of the properties in 2 bytes, properties

Properties are `name 0x01 value 0x02`, one after the other; the last 0x02 may be missing.
"""

import struct
from typing import Final

from log.frame import Buffer

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
RECORD_BYTES_MIN: Final = 88 + 1 + 1 + 2
"""The size of a record with a topic of one character and without body and properties.

In any record, these bytes hold the store time.
"""
BORN_HOST_V6: Final = 16
STORE_HOST_V6: Final = 32
TRANSACTION_MASK: Final = 12
"""The bits of the system flag for the role of a message in a transaction: 0 without one, or one of the following."""
PREPARED: Final = 4
COMMITTED: Final = 8
ROLLED_BACK: Final = 12

OFFSETS: Final = struct.Struct(">QQ")
"""Queue offset and physical offset, at `OFFSETS_AT`."""
OFFSETS_AT: Final = 20
SHORT: Final = struct.Struct(">H")
_STORE_TIME = struct.Struct(">Q")


def _head(born_host: int, store_host: int) -> struct.Struct:
    return struct.Struct(f">II4xi4xQQI8x{born_host}xQ{store_host}x4x8xI")


HEADS: Final = {
    0: _head(8, 8),
    BORN_HOST_V6: _head(20, 8),
    STORE_HOST_V6: _head(8, 20),
    BORN_HOST_V6 | STORE_HOST_V6: _head(20, 20),
}
"""By the system flag's host bits: size, magic, queue id, queue and physical offset, flag, store time, body size."""


def record_size(start: Buffer, physical: int) -> int | None:
    """Returns the size of the record at `physical` that begins with these bytes, or None without a record.

    Needs at least `RECORD_BYTES_MIN` bytes.
    """
    if len(start) < RECORD_BYTES_MIN:
        return None
    size, magic, _, _, place, *_ = HEADS[0].unpack_from(start)
    return int(size) if magic in (MAGIC_V1, MAGIC_V2) and place == physical and size >= RECORD_BYTES_MIN else None


def store_time(start: Buffer) -> int:
    """Returns the store time of the record that begins with `RECORD_BYTES_MIN` bytes or more, in ms."""
    *_, flags, store_ms, _ = HEADS[0].unpack_from(start)
    hosts = flags & (BORN_HOST_V6 | STORE_HOST_V6)
    return int(_STORE_TIME.unpack_from(start, 68 if hosts & BORN_HOST_V6 else 56)[0]) if hosts else int(store_ms)


def java_hash(text: str) -> int:
    """Returns Java's `String.hashCode`: 32 bits, signed, over the UTF-16 code units."""
    units = text.encode("utf-16-be", errors="surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
