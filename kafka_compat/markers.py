"""Markers of transactions: the control batches that end a transaction in one partition, and a batch as deciders see it.

A control batch has one record. Its key is a version and a type, its value a version and the epoch of the coordinator
that wrote it (Kafka's `ControlRecordType` and `EndTransactionMarker`). Keys of an unknown type are skipped by readers.
"""

import struct

from kafka_compat.partition.model import BatchInfo, BatchKind
from kafka_compat.protocol.batch_header import (
    CONTROL,
    HEADER_BYTES,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    InvalidBatch,
    encode_batch_header,
)
from kafka_compat.records import encode_varint, read_records
from log.values import frozen
from raft.net.decoder import Buffer

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VERSION = 0
_ABORT, _COMMIT = 0, 1
NO_SEQUENCE = -1


@frozen
class Marker:
    """The end of a producer's transaction in one partition."""

    producer_id: int
    producer_epoch: int
    commits: bool
    coordinator_epoch: int


def encode_marker(marker: Marker, time_ms: int) -> bytes:
    """Returns the control batch of a marker."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.commits else _ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    content = b"\0\0\0" + encode_varint(len(key)) + key + encode_varint(len(value)) + value + b"\0"
    body = encode_varint(len(content)) + content
    header = BatchHeader(
        0,
        0,
        -1,
        MAGIC,
        0,
        TRANSACTIONAL | CONTROL,
        0,
        time_ms,
        time_ms,
        marker.producer_id,
        marker.producer_epoch,
        NO_SEQUENCE,
        1,
    )
    return encode_batch_header(header, body) + body


def read_marker(header: BatchHeader, batch: Buffer) -> Marker | None:
    """Returns the marker in a control batch, or None if it holds something else."""
    try:
        record = next(read_records(batch), None)
    except InvalidBatch:
        return None
    if record is None or record.key is None or record.value is None:
        return None
    if len(record.key) < _KEY.size or len(record.value) < _VALUE.size:
        return None
    _, kind = _KEY.unpack_from(record.key)
    if kind not in (_ABORT, _COMMIT):
        return None
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return Marker(header.producer_id, header.producer_epoch, kind == _COMMIT, coordinator_epoch)


def marker_info(marker: Marker) -> BatchInfo:
    """Returns a decider's view of a marker that is to be written."""
    kind = BatchKind.COMMIT if marker.commits else BatchKind.ABORT
    return BatchInfo(
        1,
        HEADER_BYTES,
        marker.producer_id,
        marker.producer_epoch,
        NO_SEQUENCE,
        kind=kind,
        coordinator_epoch=marker.coordinator_epoch,
    )


def batch_info(header: BatchHeader, batch: Buffer) -> BatchInfo:
    """Returns a decider's view of a batch; only of a control batch the records are read."""
    kind, coordinator_epoch = BatchKind.PLAIN, -1
    if header.attributes & (TRANSACTIONAL | CONTROL):
        kind = BatchKind.TRANSACTIONAL if header.is_transactional and not header.is_control else BatchKind.PLAIN
        marker = read_marker(header, batch) if header.is_control else None
        if marker is not None:
            kind = BatchKind.COMMIT if marker.commits else BatchKind.ABORT
            coordinator_epoch = marker.coordinator_epoch
    return BatchInfo(
        header.last_offset_delta + 1,
        header.size,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.base_offset,
        header.leader_epoch,
        kind,
        coordinator_epoch,
    )
