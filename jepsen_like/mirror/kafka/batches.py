"""The batches of a source become batches of a target: bytes stay, headers and offsets change. Pure.

A dense batch passes whole, with its compression. A batch that compaction has thinned, that a reader enters in its middle, or whose
broker stamped the time is written again record by record; so are small batches, which are joined. Markers and the
records of aborted transactions are left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from jepsen_like.mirror.offset_map import RecordRun
from kafka_compat.compression import NONE, USUAL_LEVELS, compress
from kafka_compat.protocol.apis.fetch import FetchAbortedTransaction
from kafka_compat.protocol.batch_header import (
    COMPRESSION,
    HEADER_BYTES,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    InvalidBatch,
    encode_batch_header,
    read_batch_header,
)
from kafka_compat.records import KafkaRecord, encode_varint, read_records, read_varint
from raft.net.decoder import Buffer

JOINED_BYTES_MAX: Final = 64 << 10
"""The largest size of a batch that is joined from small ones; a batch of half of it passes whole."""
SEQUENCE_END: Final = 2**31


@attrs.frozen
class CopiedBatch:
    """Records for the target, and where they come from: runs whose target counts from the first record of the batch."""

    count: int
    codec: int
    base_timestamp: int
    max_timestamp: int
    body: Buffer = attrs.field(repr=False)
    runs: tuple[RecordRun, ...]
    end: int
    """The source's offset after the batch."""

    @property
    def size(self) -> int:
        """The bytes of the whole batch."""
        return HEADER_BYTES + len(self.body)

    def encode(self, producer: tuple[int, int], sequence: int) -> bytes:
        """Returns the batch as a part of a transaction of this producer (id and epoch)."""
        header = BatchHeader(
            base_offset=0,
            length=0,
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=self.codec | TRANSACTIONAL,
            last_offset_delta=self.count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            count=self.count,
        )
        return encode_batch_header(header, self.body) + bytes(self.body)


@attrs.frozen
class Fetched:
    """The content of a fetch: what to copy, and the offset from which to go on."""

    batches: tuple[CopiedBatch, ...]
    next_offset: int


def next_sequence(sequence: int, count: int) -> int:
    """Returns the sequence number after `count` records, which wraps at 31 bits."""
    return (sequence + count) % SEQUENCE_END


def copy_batches(
    records: Buffer, aborted: Iterable[FetchAbortedTransaction], position: int, joined_bytes_max: int = JOINED_BYTES_MAX
) -> Fetched:
    """Returns what a fetch from `position` at isolation level read_committed brought.

    No batch is joined beyond `joined_bytes_max`, which the target's topic may set. The last batch may be cut off; it is left for the next fetch. Raises `InvalidBatch` if the first one is unreadable.
    """
    made: list[CopiedBatch] = []
    small: list[KafkaRecord] = []
    small_bytes, next_offset = 0, position
    for header, batch in _walk(records, aborted):
        next_offset = max(next_offset, header.end_offset)
        if batch is None or not header.count or header.end_offset <= position:
            continue
        whole = _is_dense(header, position)
        joins = header.compression == NONE and header.size < joined_bytes_max // 2
        if small and (not joins or small_bytes + header.size > joined_bytes_max):
            made.append(_join(small, NONE))
            small, small_bytes = [], 0
        if whole and not joins:
            made.append(_pass_whole(header, batch))
            continue
        found = [record for record in read_records(batch) if record.offset >= position]
        if joins:
            small += found
            small_bytes += header.size
        elif found:
            made.append(_join(found, header.compression))
    if small:
        made.append(_join(small, NONE))
    return Fetched(tuple(made), next_offset)


def _walk(
    records: Buffer, aborted: Iterable[FetchAbortedTransaction]
) -> Iterator[tuple[BatchHeader, memoryview | None]]:
    """Yields each whole batch; None in its place for markers and the records of aborted transactions."""
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    aborting: set[int] = set()
    view, at = memoryview(records), 0
    while at < len(view):
        try:
            header = read_batch_header(view, at)
        except InvalidBatch:
            if at:
                return
            raise
        while waiting and waiting[-1].first_offset <= header.last_offset:
            aborting.add(waiting.pop().producer_id)
        if header.is_control:
            aborting.discard(header.producer_id)
        hidden = header.is_control or (header.is_transactional and header.producer_id in aborting)
        yield header, None if hidden else view[at : at + header.size]
        at += header.size


def _is_dense(header: BatchHeader, position: int) -> bool:
    return (
        header.base_offset >= position
        and header.count == header.last_offset_delta + 1
        and not header.has_append_time
        and header.delete_horizon_ms is None
    )


def _pass_whole(header: BatchHeader, batch: memoryview) -> CopiedBatch:
    return CopiedBatch(
        header.count,
        header.attributes & COMPRESSION,
        header.base_timestamp,
        header.max_timestamp,
        bytes(batch[HEADER_BYTES:]),
        (RecordRun(header.base_offset, 0, header.count),),
        header.end_offset,
    )


def _join(found: Sequence[KafkaRecord], codec: int) -> CopiedBatch:
    base_ms = found[0].timestamp_ms
    body: Buffer = b"".join(
        _encode_again(record, number, record.timestamp_ms - base_ms) for number, record in enumerate(found)
    )
    if codec != NONE:
        body = compress(codec, body, USUAL_LEVELS.get(codec, 0))
    newest_ms = max(record.timestamp_ms for record in found)
    return CopiedBatch(len(found), codec, base_ms, newest_ms, bytes(body), tuple(_runs_of(found)), found[-1].offset + 1)


def _encode_again(record: KafkaRecord, number: int, time_delta: int) -> bytes:
    """Returns the record's bytes at another place of a batch: key, value and headers stay as they are."""
    encoded, end = record.encoded, len(record.encoded)
    _, start = read_varint(encoded, 0, end)
    _, at = read_varint(encoded, start + 1, end)
    _, at = read_varint(encoded, at, end)
    content = b"".join((encoded[start : start + 1], encode_varint(time_delta), encode_varint(number), encoded[at:]))
    return encode_varint(len(content)) + content


def _runs_of(found: Sequence[KafkaRecord]) -> Iterator[RecordRun]:
    first = 0
    for number in range(1, len(found) + 1):
        if number == len(found) or found[number].offset != found[number - 1].offset + 1:
            yield RecordRun(found[first].offset, first, number - first)
            first = number
