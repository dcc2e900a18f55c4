"""Records inside a batch of format 2: written for the brokers' own topics, and read there and for searches by time.

On the data path records stay opaque: `record_walk` reads only their lengths. All numbers of a record except the
attributes are zig-zag varints:

    length, attributes (1 byte, 0), timestamp delta, offset delta, key length (-1 = null), key,
    value length (-1 = null), value, count of headers, and for each: key length, key, value length (-1 = null), value
"""

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from kafka_compat.compression import NONE, USUAL_LEVELS, CannotDecompress, compress, decompress
from kafka_compat.protocol.batch_header import (
    COMPRESSION,
    DELETE_HORIZON,
    HEADER_BYTES,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    InvalidBatch,
    encode_batch_header,
    read_batch_header,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen
from raft.net.decoder import Buffer

DECOMPRESSED_BYTES_MAX: Final = 64 << 20
"""The largest decompressed size of a batch; a larger one is refused before it is made."""
_RECORD_BYTES_MIN: Final = 7
_VARINT_BYTES_MAX: Final = 10


@frozen
class KafkaRecord:
    """One record. `encoded` is the record's bytes in the batch, relative to the batch's base offset and timestamp."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    encoded: memoryview = attrs.field(default=memoryview(b""), eq=False, repr=False)

    @property
    def is_deletion(self) -> bool:
        """True if it deletes its key, in a compacted topic."""
        return self.value is None and self.key is not None


def encode_varint(value: int) -> bytes:
    """Returns a number as a zig-zag varint, 1 to 10 bytes for 64 bits."""
    left = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def read_varint(content: Buffer, position: int, end: int) -> tuple[int, int]:
    """Returns a zig-zag varint and the position after it.

    Raises `InvalidBatch` if it is too long, or not whole before `end`.
    """
    value = shift = 0
    for at in range(position, min(end, position + _VARINT_BYTES_MAX)):
        byte = content[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7
    raise _invalid("a number is not whole, or too long", position)


def encode_records(
    records: Sequence[tuple[bytes | None, bytes | None]],
    timestamps_ms: int | Sequence[int],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer: tuple[int, int] = (-1, -1),
) -> bytes:
    """Returns a batch of at least one record (key, value), without compression.

    With a `producer`, an id and an epoch, it is part of a transaction. Each record has its own offset. `timestamps_ms` is one time for all records, or a sequence with one for each. Raises
    `ValueError` without a record.
    """
    times = [timestamps_ms] * len(records) if isinstance(timestamps_ms, int) else list(timestamps_ms)
    if not records or len(times) != len(records):
        raise ValueError(f"{len(records)} records with {len(times)} timestamps make no batch")
    parts: list[bytes] = []
    for at, ((key, value), time) in enumerate(zip(records, times, strict=True)):
        deltas = encode_varint(time - times[0]) + encode_varint(at)
        content = b"\0" + deltas + _encode_bytes(key) + _encode_bytes(value) + b"\0"
        parts += [encode_varint(len(content)), content]
    attributes = TRANSACTIONAL if producer[0] >= 0 else 0
    last, count = len(records) - 1, len(records)
    header = BatchHeader(
        base_offset, 0, leader_epoch, MAGIC, 0, attributes, last, times[0], max(times), *producer, -1, count
    )
    body = b"".join(parts)
    return encode_batch_header(header, body) + body


def encode_kept(header: BatchHeader, kept: Sequence[KafkaRecord], horizon_ms: int | None = None) -> bytes:
    """Returns the batch with only the records in `kept`, at the same offsets and times, and with the same codec.

    `horizon_ms` is its delete horizon from now on. Without a record the newest time stays.
    """
    attributes, base_ms = header.attributes & ~DELETE_HORIZON, header.base_timestamp
    if horizon_ms is not None:
        attributes, base_ms = attributes | DELETE_HORIZON, horizon_ms
    shift = header.base_timestamp - base_ms
    body: Buffer = b"".join(_shift_time(each.encoded, shift) if shift else each.encoded for each in kept)
    if kept and header.compression != NONE:
        body = compress(header.compression, body, USUAL_LEVELS.get(header.compression, 0))
    else:
        attributes &= ~COMPRESSION
    left = attrs.evolve(
        header,
        attributes=attributes,
        base_timestamp=base_ms,
        max_timestamp=max((each.timestamp_ms for each in kept), default=header.max_timestamp),
        count=len(kept),
    )
    return encode_batch_header(left, body) + bytes(body)


def _shift_time(encoded: memoryview, shift: int) -> bytes:
    """Returns a record whose time is by `shift` more above the base timestamp."""
    end = len(encoded)
    _, start = read_varint(encoded, 0, end)
    delta, at = read_varint(encoded, start + 1, end)
    content = bytes(encoded[start : start + 1]) + encode_varint(delta + shift) + bytes(encoded[at:])
    return encode_varint(len(content)) + content


def read_records(batch: Buffer) -> Iterator[KafkaRecord]:
    """Yields the records of one whole batch, in order.

    Raises `InvalidBatch` for any deviation from the format, also if the number of records differs from the header's, or
    the batch grows beyond `DECOMPRESSED_BYTES_MAX`.
    """
    header = read_batch_header(batch)
    body = _body_of(header, memoryview(batch)[HEADER_BYTES : header.size])
    if not 0 <= header.count <= len(body) // _RECORD_BYTES_MIN:
        raise _invalid(f"{header.count} records in {len(body)} bytes", 0)
    position = 0
    for _ in range(header.count):
        length, start = read_varint(body, position, len(body))
        end = start + length
        if length < 1 or end > len(body):
            raise _invalid(f"a record of {length} bytes, {len(body) - start} left", position)
        yield _read_record(header, body, position, start, end)
        position = end
    if position != len(body):
        raise _invalid(f"{len(body) - position} bytes after the last record", position)


def first_record_since(batch: Buffer, timestamp_ms: int, start_offset: int = 0) -> tuple[int, int] | None:
    """Returns offset and time of the first record at or after `start_offset` and `timestamp_ms`, or None.

    For unreadable records the header counts: the answer is the first offset and the newest timestamp.
    """
    header = read_batch_header(batch)
    first_offset = max(header.base_offset, start_offset)
    if header.max_timestamp < timestamp_ms or header.end_offset <= start_offset or not header.count:
        return None
    if header.has_append_time and header.count == header.last_offset_delta + 1:
        return first_offset, header.max_timestamp
    whole = header.count == header.last_offset_delta + 1 and header.delete_horizon_ms is None
    if whole and header.base_timestamp >= timestamp_ms and first_offset == header.base_offset:
        return first_offset, header.base_timestamp
    try:
        for record in read_records(batch):
            if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                return record.offset, record.timestamp_ms
    except InvalidBatch:
        return first_offset, header.max_timestamp
    return None


def newest_time_since(batch: Buffer, start_offset: int) -> int:
    """Returns the newest time of the records from `start_offset` on, or -1 without one.

    If the records are unreadable, it returns the newest time of the batch.
    """
    try:
        return max((each.timestamp_ms for each in read_records(batch) if each.offset >= start_offset), default=-1)
    except InvalidBatch:
        return read_batch_header(batch).max_timestamp


def _encode_bytes(content: bytes | None) -> bytes:
    return encode_varint(-1) if content is None else encode_varint(len(content)) + content


def _body_of(header: BatchHeader, body: memoryview) -> memoryview:
    if header.compression == NONE:
        return body
    try:
        return memoryview(decompress(header.compression, body, DECOMPRESSED_BYTES_MAX))
    except CannotDecompress as error:
        raise _invalid(str(error), 0) from None


def _read_record(header: BatchHeader, body: memoryview, position: int, start: int, end: int) -> KafkaRecord:
    timestamp_delta, at = read_varint(body, start + 1, end)
    offset_delta, at = read_varint(body, at, end)
    key, at = _read_bytes(body, at, end)
    value, at = _read_bytes(body, at, end)
    headers, at = read_varint(body, at, end)
    for _ in range(headers):
        name, at = _read_bytes(body, at, end)
        if name is None:
            raise _invalid("a header has no key", position)
        _, at = _read_bytes(body, at, end)
    if at != end or headers < 0:
        raise _invalid("a record's length is not that of its fields", position)
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise _invalid(f"offset delta {offset_delta} of {header.last_offset_delta}", position)
    time = header.max_timestamp if header.has_append_time else header.base_timestamp + timestamp_delta
    return KafkaRecord(header.base_offset + offset_delta, time, key, value, body[position:end])


def _read_bytes(body: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    length, start = read_varint(body, position, end)
    if length == -1:
        return None, start
    if not 0 <= length <= end - start:
        raise _invalid(f"{length} bytes, {end - start} left", position)
    return bytes(body[start : start + length]), start + length


def _invalid(detail: str, position: int) -> InvalidBatch:
    return InvalidBatch(KafkaErrorCode.CORRUPT_MESSAGE, detail, HEADER_BYTES + position)
