"""The records of `__transaction_state`: Kafka's own formats, for its tools, and to replace brokers.

Key and value begin with a version (Kafka's message files `TransactionLogKey`, `TransactionLogValue`). A value of
version 1 has tagged fields, which version 2 of transactions needs. An idle id has no list of partitions.
"""

import struct
from typing import Any

from kafka_compat.model import TopicPartition
from kafka_compat.protocol.compiler import wire_of
from kafka_compat.protocol.errors import MalformedMessage
from kafka_compat.protocol.schema import INT32, Message, array, int8, int16, int32, int64, string
from kafka_compat.transactions.model import TransactionData, TransactionState
from raft.net.decoder import Buffer

TEXT_BYTES_MAX = 2**15 - 1
_VERSION = struct.Struct(">h")
_KEY_VERSION = 0
_VALUE_VERSIONS = range(2)
_VALUE_VERSION = 1
_FLEXIBLE = 1


class TransactionLogKey(Message):
    """Names one transactional id."""

    transactional_id: str = string()


class TransactionLogPartitions(Message):
    """The partitions of one topic."""

    topic: str = string()
    partition_ids: tuple[int, ...] = array(INT32)


class TransactionLogValue(Message):
    """The state of a transactional id. Timestamps are milliseconds since 1970."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: tuple[TransactionLogPartitions, ...] | None = array(TransactionLogPartitions, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    previous_producer_id: int = int64("1+", default=-1, tag=0)
    next_producer_id: int = int64("1+", default=-1, tag=1)
    client_transaction_version: int = int16("1+", default=0, tag=2)


def encode_key(transactional_id: str) -> bytes:
    """Returns the key of a transactional id; raises `CannotEncode` for a name that is too long."""
    return _encode(TransactionLogKey(transactional_id=transactional_id), _KEY_VERSION)


def encode_value(data: TransactionData) -> bytes:
    """Returns the value of a transactional id in version 1."""
    by_topic: dict[str, list[int]] = {}
    for partition in sorted(data.partitions):
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    topics = tuple(
        TransactionLogPartitions(topic=topic, partition_ids=tuple(numbers)) for topic, numbers in by_topic.items()
    )
    value = TransactionLogValue(
        producer_id=data.producer_id,
        producer_epoch=data.producer_epoch,
        transaction_timeout_ms=data.timeout_ms,
        transaction_status=data.state,
        transaction_partitions=None if data.state is TransactionState.EMPTY else topics,
        transaction_last_update_timestamp_ms=data.updated_ms,
        transaction_start_timestamp_ms=data.start_ms,
        previous_producer_id=data.previous_producer_id,
        next_producer_id=data.next_producer_id,
        client_transaction_version=data.version,
    )
    return _encode(value, _VALUE_VERSION)


def decode_record(key: bytes, value: bytes | None) -> tuple[str, TransactionData | None] | None:
    """Returns the transactional id and its state, None for a tombstone; None for unknown versions, which are skipped.

    Raises `MalformedMessage` for bytes that a known version cannot have.
    """
    if _version(key) != _KEY_VERSION:
        return None
    name: str = _decode(TransactionLogKey, key).transactional_id
    if value is None:
        return name, None
    if _version(value) not in _VALUE_VERSIONS:
        return None
    found: TransactionLogValue = _decode(TransactionLogValue, value)
    try:
        state = TransactionState(found.transaction_status)
    except ValueError:
        raise MalformedMessage(f"{found.transaction_status} is no state of a transaction", "status") from None
    return name, TransactionData(
        found.producer_id,
        found.producer_epoch,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        timeout_ms=found.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, number)
            for topic in found.transaction_partitions or ()
            for number in topic.partition_ids
        ),
        start_ms=found.transaction_start_timestamp_ms,
        updated_ms=found.transaction_last_update_timestamp_ms,
        version=found.client_transaction_version,
    )


def fits(transactional_id: str) -> bool:
    """Returns True if a record can hold this name."""
    return len(transactional_id.encode()) <= TEXT_BYTES_MAX


def _encode(record: Any, version: int) -> bytes:
    kind: Any = type(record)
    out: list[Buffer] = [_VERSION.pack(version)]
    wire_of(kind, version, version >= _FLEXIBLE).write(out, record)
    return b"".join(out)


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise MalformedMessage(f"{len(data)} bytes are no record of the transactions topic", "version")
    return int(_VERSION.unpack_from(data)[0])


def _decode(cls: type, data: bytes) -> Any:
    version = _version(data)
    value, end = wire_of(cls, version, version >= _FLEXIBLE).read(memoryview(data), _VERSION.size)
    if end != len(data):
        raise MalformedMessage(f"{len(data) - end} bytes follow the record", offset=end)
    return value
