"""The header of a record batch, format 2 (magic 2): 61 bytes before the records, which stay opaque.

The CRC-32C covers everything from the attributes to the batch's end. Base offset and leader epoch lie before it, so a
leader writes both into a batch in place. It also mends the newest time if a client set it wrong (`with_newest_time`),
and stores the batch in the form that its topic asks for (`stored_form.py`). `length` counts the bytes after itself. A broker checks a batch with `check_batch`, and its
records with `record_walk`, before it appends it. Batches from its own log need no second check.
"""

import struct
from collections.abc import Iterator
from operator import attrgetter

import attrs
import crc32c

from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen
from raft.net.decoder import Buffer

LAYOUT = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = LAYOUT.size
LENGTH_END = 12
"""The size of base offset and length, which `length` does not count."""
MAGIC = 2
MAGIC_AT = 16
CRC_AT = 17
CHECKED_AT = 21
"""The position at which the CRC-32C begins: at the attributes."""
MAX_TIMESTAMP_AT = 35

_LEADER_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_TIME = struct.Struct(">q")
_PREFIX = struct.Struct(">qi")

COMPRESSION = 0b111
TIMESTAMP_TYPE = 1 << 3
TRANSACTIONAL = 1 << 4
CONTROL = 1 << 5
DELETE_HORIZON = 1 << 6


@attrs.define
class InvalidBatch(Exception):
    """Bytes that are not a valid batch.

    It concerns one partition of a request, which is refused with `code`; the connection stays. `position` counts the
    bytes of the record set before the batch. `record` is the number of a single wrong record, from 0.
    """

    code: KafkaErrorCode
    detail: str
    position: int = 0
    record: int | None = None

    def __str__(self) -> str:
        return f"invalid batch at byte {self.position}: {self.detail}"


@frozen
class BatchHeader:
    """A batch's header.

    Times are in ms since 1970. Producer id, producer epoch and base sequence are -1 without a producer id.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def size(self) -> int:
        """The bytes of the whole batch."""
        return LENGTH_END + self.length

    @property
    def last_offset(self) -> int:
        """The offset of the last record, inclusive."""
        return self.base_offset + self.last_offset_delta

    @property
    def end_offset(self) -> int:
        """The first offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & COMPRESSION

    @property
    def has_append_time(self) -> bool:
        """True if the broker, not the producer, stamped the records.

        `max_timestamp` is then the time of all of them.
        """
        return bool(self.attributes & TIMESTAMP_TYPE)

    @property
    def is_transactional(self) -> bool:
        """True if the records belong to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """True if the batch holds markers of transactions instead of records."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time until which the deletions in the batch stay, once compaction has found them (KIP-534).

        It takes the place of the base timestamp, to which the times of the records are relative.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    def encode(self) -> bytes:
        """Returns the 61 bytes, with `crc` as it is."""
        return LAYOUT.pack(*_FIELDS(self))


_FIELDS = attrgetter(*(field.name for field in attrs.fields(BatchHeader)))


def read_batch_header(records: Buffer, position: int = 0) -> BatchHeader:
    """Returns the header of the batch that begins at `position`.

    Raises `InvalidBatch` unless the batch is whole within `records` and of magic 2. The CRC is not checked.
    """
    left = len(records) - position
    if left < MAGIC_AT + 1:
        raise InvalidBatch(KafkaErrorCode.CORRUPT_MESSAGE, f"{left} bytes are no batch", position)
    if records[position + MAGIC_AT] != MAGIC:
        magic = records[position + MAGIC_AT]
        code = KafkaErrorCode.INVALID_RECORD if magic < MAGIC else KafkaErrorCode.CORRUPT_MESSAGE
        raise InvalidBatch(code, f"magic {magic} is not supported, only {MAGIC}", position)
    if left < HEADER_BYTES:
        raise InvalidBatch(KafkaErrorCode.CORRUPT_MESSAGE, f"{left} bytes are shorter than a batch header", position)
    header = BatchHeader(*LAYOUT.unpack_from(records, position))
    if header.length < HEADER_BYTES - LENGTH_END:
        raise InvalidBatch(KafkaErrorCode.CORRUPT_MESSAGE, f"length {header.length} is shorter than a header", position)
    if header.size > left:
        raise InvalidBatch(KafkaErrorCode.CORRUPT_MESSAGE, f"a batch of {header.size} bytes, {left} left", position)
    return header


def check_batch(records: Buffer, position: int = 0) -> BatchHeader:
    """Returns the header of the batch that begins at `position`, after a check of its CRC and counts.

    Raises `InvalidBatch` also for a wrong CRC and for counts that do not fit: a client's batch has as many records as
    offsets, and at least one. (A batch that was compacted may have fewer.)
    """
    header = read_batch_header(records, position)
    with memoryview(records) as view:
        crc = crc32c.crc32c(view[position + CHECKED_AT : position + header.size])
    if crc != header.crc:
        raise InvalidBatch(
            KafkaErrorCode.CORRUPT_MESSAGE, f"CRC-32C {header.crc:08x}, the bytes have {crc:08x}", position
        )
    if header.count < 1 or header.last_offset_delta != header.count - 1:
        raise InvalidBatch(
            KafkaErrorCode.INVALID_RECORD,
            f"{header.count} records, last offset delta {header.last_offset_delta}",
            position,
        )
    return header


def batch_headers(records: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yields each batch of a record set: its position and header.

    Raises `InvalidBatch` at the first that is not whole, or not of magic 2. CRCs are not checked.
    """
    position = 0
    while position < len(records):
        header = read_batch_header(records, position)
        yield position, header
        position += header.size


def assigned_start(length: int, base_offset: int, leader_epoch: int) -> bytes:
    """Returns the first 16 bytes of a batch with `length`, for batches in `bytes`: the rest follows from byte 16."""
    return _PREFIX.pack(base_offset, length) + _LEADER_EPOCH.pack(leader_epoch)


def with_newest_time(batch: Buffer, newest_ms: int) -> memoryview:
    """Returns a copy of the one batch in `batch` whose header has this newest time, with its CRC."""
    written = bytearray(batch)
    _TIME.pack_into(written, MAX_TIMESTAMP_AT, newest_ms)
    with memoryview(written) as view:
        crc = crc32c.crc32c(view[CHECKED_AT:])
    _CRC.pack_into(written, CRC_AT, crc)
    return memoryview(written).toreadonly()


def encode_batch_header(header: BatchHeader, body: Buffer) -> bytes:
    """Returns the header of a batch with this body (the records after it), with the length and the CRC of both.

    For batches that a broker writes itself, and for tests.
    """
    written = bytearray(header.encode())
    _PREFIX.pack_into(written, 0, header.base_offset, HEADER_BYTES - LENGTH_END + len(body))
    _CRC.pack_into(written, CRC_AT, crc32c.crc32c(body, crc32c.crc32c(written[CHECKED_AT:])))
    return bytes(written)
