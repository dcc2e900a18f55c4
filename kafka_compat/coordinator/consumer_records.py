"""The records of groups by KIP-848 in `__consumer_offsets`, in Kafka's own formats.

The first two bytes of a key name its kind. (Kafka's message files `ConsumerGroupMetadataKey` and the like.) Values have
version 0 and are flexible, keys are not.
"""

import enum
import struct
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from kafka_compat.coordinator.assignors import Partitions
from kafka_compat.protocol.compiler import wire_of
from kafka_compat.protocol.errors import MalformedMessage
from kafka_compat.protocol.schema import (
    INT32,
    STRING,
    Message,
    array,
    int8,
    int32,
    int64,
    octets,
    string,
    submessage,
    uuid,
)
from raft.net.decoder import Buffer

VERSION = struct.Struct(">h")


class RecordKind(enum.IntEnum):
    """The kinds of records, by the number with which their keys begin."""

    GROUP = 3
    MEMBER = 5
    TARGET = 6
    TARGET_MEMBER = 7
    CURRENT = 8
    PATTERN = 16


class GroupKey(Message):
    """Names one group."""

    group: str = string()


class MemberKey(Message):
    """Names one member, or one expression."""

    group: str = string()
    member: str = string()


class GroupValue(Message):
    """The epoch of a group, and a hash of the topics that it reads."""

    epoch: int = int32()
    metadata_hash: int = int64(default=0, tag=0)


class ClassicProtocol(Message):
    """A protocol of JoinGroup that a classic member supports, with its subscription."""

    name: str = string()
    metadata: bytes = octets()


class ClassicValue(Message):
    """The part of a member that only a classic one has."""

    session_timeout_ms: int = int32()
    protocols: tuple[ClassicProtocol, ...] = array(ClassicProtocol)


class MemberValue(Message):
    """A member as it describes itself."""

    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: tuple[str, ...] = array(STRING)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+", default=None)
    classic: ClassicValue | None = submessage(ClassicValue, nullable="0+", default=None, tag=0)


class TargetValue(Message):
    """The epoch of the target assignment."""

    assignment_epoch: int = int32()


class TopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: tuple[int, ...] = array(INT32)


class TargetMemberValue(Message):
    """The partitions that a member is to get."""

    topic_partitions: tuple[TopicPartitions, ...] = array(TopicPartitions)


class CurrentValue(Message):
    """The partitions that a member has, and those that it has to give back."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned: tuple[TopicPartitions, ...] = array(TopicPartitions)
    revoking: tuple[TopicPartitions, ...] = array(TopicPartitions)


class PatternValue(Message):
    """The topics whose names match an expression, when the group looked last; `version` is Kafka's offset of metadata."""

    topics: tuple[str, ...] = array(STRING)
    version: int = int64(default=0)
    timestamp: int = int64(default=0)


ConsumerValue: TypeAlias = GroupValue | MemberValue | TargetValue | TargetMemberValue | CurrentValue | PatternValue
VALUES: Final[dict[RecordKind, type[ConsumerValue]]] = {
    RecordKind.GROUP: GroupValue,
    RecordKind.MEMBER: MemberValue,
    RecordKind.TARGET: TargetValue,
    RecordKind.TARGET_MEMBER: TargetMemberValue,
    RecordKind.CURRENT: CurrentValue,
    RecordKind.PATTERN: PatternValue,
}
OF_GROUP: Final = (RecordKind.GROUP, RecordKind.TARGET)
OF_MEMBER: Final = (RecordKind.MEMBER, RecordKind.TARGET_MEMBER, RecordKind.CURRENT)
DecodedConsumerRecord: TypeAlias = tuple[RecordKind, str, str, ConsumerValue | None]
"""Kind, group, member or expression (empty for the group's own) and value; a value of None is a tombstone."""


def record_key(kind: RecordKind, group: str, member: str = "") -> bytes:
    """Returns the key of a record. Raises `CannotEncode` for a name that is too long."""
    key: GroupKey | MemberKey = GroupKey(group=group) if kind in OF_GROUP else MemberKey(group=group, member=member)
    return _encode(key, int(kind), flexible=False)


def record_value(value: ConsumerValue) -> bytes:
    """Returns the value of a record."""
    return _encode(value, 0, flexible=True)


def decode_consumer_record(key: bytes, value: bytes | None) -> DecodedConsumerRecord | None:
    """Returns the parts of a record, or None for other kinds and versions, which the caller skips.

    Raises `MalformedMessage` for bytes that a known version cannot have.
    """
    number = _version(key)
    if number not in VALUES:
        return None
    kind = RecordKind(number)
    named: Any = _decode(GroupKey if kind in OF_GROUP else MemberKey, key, flexible=False)
    member = "" if kind in OF_GROUP else named.member
    if value is None:
        return kind, named.group, member, None
    if _version(value) != 0:
        return None
    return kind, named.group, member, _decode(VALUES[kind], value, flexible=True)


def by_topic(partitions: Iterable[tuple[bytes, int]]) -> tuple[tuple[bytes, tuple[int, ...]], ...]:
    """Returns partitions by topic id, all in order."""
    found: dict[bytes, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return tuple((topic, tuple(numbers)) for topic, numbers in found.items())


def pack(partitions: Partitions) -> tuple[TopicPartitions, ...]:
    """Returns partitions as records have them."""
    return tuple(TopicPartitions(topic_id=topic, partitions=numbers) for topic, numbers in by_topic(partitions))


def unpack(topics: Iterable[Any]) -> Partitions:
    """Returns the partitions of a record or a request."""
    return frozenset((topic.topic_id, number) for topic in topics for number in topic.partitions)


def _encode(record: Message, version: int, *, flexible: bool) -> bytes:
    out: list[Buffer] = [VERSION.pack(version)]
    wire_of(type(record), 0, flexible).write(out, record)
    return b"".join(out)


def _version(data: bytes) -> int:
    if len(data) < VERSION.size:
        raise MalformedMessage(f"{len(data)} bytes are no record of the offsets topic", "version")
    return int(VERSION.unpack_from(data)[0])


def _decode(cls: type, data: bytes, *, flexible: bool) -> Any:
    value, end = wire_of(cls, 0, flexible).read(memoryview(data), VERSION.size)
    if end != len(data):
        raise MalformedMessage(f"{len(data) - end} bytes follow the record", offset=end)
    return value
