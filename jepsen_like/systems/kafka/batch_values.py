"""The records in the batches of a broker's log, for the final check: uncompressed, as the load of a run writes them."""

from collections.abc import Iterator
from typing import NamedTuple

from kafka_compat.protocol.batch_header import HEADER_BYTES, BatchHeader, InvalidBatch, read_batch_header
from kafka_compat.protocol.error_codes import KafkaErrorCode


def whole_batches(records: bytes | memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Yields position and header of each batch that is whole; what a broker cut off at the end is left out.

    Raises `InvalidBatch` for the first batch if not even that is whole, or for one of another format.
    """
    position = 0
    while position < len(records):
        try:
            header = read_batch_header(records, position)
        except InvalidBatch as error:
            if position and error.code == KafkaErrorCode.CORRUPT_MESSAGE:
                return
            raise
        yield position, header
        position += header.size


Headers = list[tuple[str, bytes | None]]


class BatchRecord(NamedTuple):
    """One record of a batch."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def records_of(records: bytes | memoryview, position: int, header: BatchHeader) -> Iterator[BatchRecord]:
    """Yields the records of a batch; none for a control batch.

    Raises `InvalidBatch` for a compressed one, and for records that are not as long as they say.
    """
    if header.is_control:
        return
    if header.compression:
        raise InvalidBatch(KafkaErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "a compressed batch", position)
    at, end = position + HEADER_BYTES, position + header.size
    try:
        for _ in range(header.count):
            length, at = _varint(records, at)
            following = at + length
            if length < 0 or following > end:
                raise IndexError
            _, at = _varint(records, at + 1)  # after the attributes: the time
            delta, at = _varint(records, at)
            key, at = _bytes(records, at)
            value, at = _bytes(records, at)
            headers: Headers = []
            count, at = _varint(records, at)
            for _ in range(count):
                name, at = _bytes(records, at)
                content, at = _bytes(records, at)
                headers.append(((name or b"").decode(errors="replace"), content))
            yield BatchRecord(header.base_offset + delta, key, value, headers)
            at = following
    except IndexError:
        raise InvalidBatch(KafkaErrorCode.CORRUPT_MESSAGE, "records end beyond their batch", position) from None


def _bytes(data: bytes | memoryview, at: int) -> tuple[bytes | None, int]:
    """Returns bytes with their length before them, or None, and the position after them."""
    length, at = _varint(data, at)
    return (None, at) if length < 0 else (bytes(data[at : at + length]), at + length)


def _varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Returns a zigzag number and the position after it."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), at
        shift += 7
