"""The records of `__consumer_offsets`: Kafka's own formats, for its tools, and to replace brokers.

A key begins with a version that also names its kind: 0 and 1 are committed offsets, 2 is a group. A value begins with a
version of its own. All integers are big endian; strings and bytes have the format of the protocol. (Kafka's message
files `OffsetCommitKey`, `OffsetCommitValue`, `GroupMetadataKey`, `GroupMetadataValue`; KIP-915 for versions 4.)
"""

import struct
from typing import Any, TypeAlias

from kafka_compat.protocol.compiler import wire_of
from kafka_compat.protocol.errors import MalformedMessage
from kafka_compat.protocol.primitives import Wire
from kafka_compat.protocol.schema import Message, array, int32, int64, octets, string
from raft.net.decoder import Buffer

TEXT_BYTES_MAX = 2**15 - 1
VERSION = struct.Struct(">h")
OFFSET_KEY_VERSIONS = range(2)
OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
VALUE_VERSIONS = range(5)
FLEXIBLE_VALUE_VERSION = 4
VALUE_VERSION = 3
EXPIRING_OFFSET_VERSION = 1
"""The only version of a committed offset with a time of expiry.

Older clients set one (OffsetCommit up to version 4; KIP-211).
"""
NO_TIMESTAMP = -1


class OffsetCommitKey(Message):
    """Names one committed offset."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Message):
    """A committed offset. Timestamps are milliseconds since 1970; NO_TIMESTAMP where there is none."""

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=NO_TIMESTAMP)


class GroupMetadataKey(Message):
    """Names one group."""

    group: str = string()


class GroupMetadataMember(Message):
    """A member of a group; timeouts are milliseconds, `rebalance_timeout` is -1 in version 0."""

    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32()
    subscription: bytes = octets()
    assignment: bytes = octets()


class GroupMetadataValue(Message):
    """A group in one generation; without members it is empty."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=NO_TIMESTAMP)
    members: tuple[GroupMetadataMember, ...] = array(GroupMetadataMember)


DecodedRecord: TypeAlias = (
    tuple[OffsetCommitKey, OffsetCommitValue | None] | tuple[GroupMetadataKey, GroupMetadataValue | None]
)
"""A key with its value; a value of None is a tombstone."""


def offset_key(group: str, topic: str, partition: int) -> bytes:
    """Returns the key of a committed offset; raises `CannotEncode` for a name that is too long."""
    return _encode(OffsetCommitKey(group=group, topic=topic, partition=partition), OFFSET_KEY_VERSION)


def offset_value(value: OffsetCommitValue) -> bytes:
    """Returns the value of a committed offset: version 3, or 1, without leader epoch, if it has a time of expiry."""
    expires = value.expire_timestamp != NO_TIMESTAMP
    return _encode(value, EXPIRING_OFFSET_VERSION if expires else VALUE_VERSION)


def group_key(group: str) -> bytes:
    """Returns the key of a group; raises `CannotEncode` for a name that is too long."""
    return _encode(GroupMetadataKey(group=group), GROUP_KEY_VERSION)


def group_value(value: GroupMetadataValue) -> bytes:
    """Returns the value of a group in version 3."""
    return _encode(value, VALUE_VERSION)


def decode_record(key: bytes, value: bytes | None) -> DecodedRecord | None:
    """Returns key and value, or None for unknown kinds and versions, which the caller skips.

    Raises `MalformedMessage` for bytes that a known version cannot have.
    """
    key_version = _version(key)
    if key_version in OFFSET_KEY_VERSIONS:
        offset = _decode(OffsetCommitKey, key, flexible=False)
        if value is None:
            return offset, None
        if _version(value) in VALUE_VERSIONS:
            return offset, _decode(OffsetCommitValue, value, flexible=_version(value) == FLEXIBLE_VALUE_VERSION)
    elif key_version == GROUP_KEY_VERSION:
        group = _decode(GroupMetadataKey, key, flexible=False)
        if value is None:
            return group, None
        if _version(value) in VALUE_VERSIONS:
            return group, _decode(GroupMetadataValue, value, flexible=_version(value) == FLEXIBLE_VALUE_VERSION)
    return None


def _encode(record: OffsetCommitKey | OffsetCommitValue | GroupMetadataKey | GroupMetadataValue, version: int) -> bytes:
    out: list[Buffer] = [VERSION.pack(version)]
    _wire(type(record), version, flexible=False).write(out, record)
    return b"".join(out)


def _wire(cls: Any, version: int, *, flexible: bool) -> Wire:
    return wire_of(cls, version, flexible)


def _version(data: bytes) -> int:
    if len(data) < VERSION.size:
        raise MalformedMessage(f"{len(data)} bytes are no record of the offsets topic", "version")
    return int(VERSION.unpack_from(data)[0])


def _decode(cls: type, data: bytes, *, flexible: bool) -> Any:
    value, end = _wire(cls, _version(data), flexible=flexible).read(memoryview(data), VERSION.size)
    if end != len(data):
        raise MalformedMessage(f"{len(data) - end} bytes follow the record", offset=end)
    return value


def fits(*texts: str | None) -> bool:
    """Returns True if a record can hold these texts: their length in UTF-8 has 15 bits there."""
    return all(text is None or len(text.encode()) <= TEXT_BYTES_MAX for text in texts)
