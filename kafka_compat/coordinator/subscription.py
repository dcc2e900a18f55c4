"""Reads and writes the embedded protocol of consumers: the subscriptions and assignments inside JoinGroup and SyncGroup.

Both begin with a version of two bytes. Later versions of a subscription add fields at the end, and the rest is ignored.
(Kafka's message files `ConsumerProtocolSubscription` and `ConsumerProtocolAssignment`.)
"""

import struct
from collections.abc import Mapping
from typing import Final

from kafka_compat.coordinator.assignors import NOTHING, Partitions
from kafka_compat.coordinator.consumer_group import KnownTopic
from kafka_compat.coordinator.consumer_records import by_topic
from kafka_compat.protocol import primitives
from kafka_compat.protocol.compiler import wire_of
from kafka_compat.protocol.errors import MalformedMessage
from kafka_compat.protocol.schema import INT32, STRING, Message, array, int32, octets, string
from raft.net.decoder import Buffer

CONSUMER_PROTOCOL_TYPE = "consumer"
VERSION: Final = struct.Struct(">h")
NEWEST: Final = 3
"""The newest version of a subscription with fields that are known here."""


class EmbeddedPartitions(Message):
    """Partitions of one topic."""

    topic: str = string()
    partitions: tuple[int, ...] = array(INT32)


class Subscription(Message):
    """The topics that a member reads, and the partitions that it has when it joins."""

    topics: tuple[str, ...] = array(STRING)
    user_data: bytes | None = octets(nullable="0+", default=None)
    owned: tuple[EmbeddedPartitions, ...] = array(EmbeddedPartitions, "1+")
    generation: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


class Assignment(Message):
    """The partitions that a member gets."""

    assigned: tuple[EmbeddedPartitions, ...] = array(EmbeddedPartitions)
    user_data: bytes | None = octets(nullable="0+", default=None)


_TOPICS: Final = primitives.array(primitives.string(compact=False, nullable=False), compact=False, nullable=False)
_ASSIGNMENT: Final = wire_of(Assignment, 0, False)


def subscription_version(metadata: bytes) -> int:
    """Returns the version of a subscription, -1 for bytes that are none."""
    return VERSION.unpack_from(metadata)[0] if len(metadata) >= VERSION.size else -1


def read_subscription(metadata: bytes) -> Subscription | None:
    """Returns a subscription, or None if the bytes are none."""
    version = subscription_version(metadata)
    if version < 0:
        return None
    try:
        found: Subscription = wire_of(Subscription, min(version, NEWEST), False).read(
            memoryview(metadata), VERSION.size
        )[0]
    except (MalformedMessage, struct.error, IndexError, UnicodeDecodeError):
        return None
    return found


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Returns the topics, whatever follows them, or None if the bytes are not a subscription."""
    if subscription_version(metadata) < 0:
        return None
    try:
        return frozenset(_TOPICS.read(memoryview(metadata), VERSION.size)[0])
    except (MalformedMessage, struct.error, IndexError, UnicodeDecodeError):
        return None


def read_assignment(assignment: bytes, topics: Mapping[str, KnownTopic]) -> Partitions:
    """Returns the partitions of an assignment that there are; none for bytes that are no assignment."""
    if len(assignment) < VERSION.size:
        return NOTHING
    try:
        found: Assignment = _ASSIGNMENT.read(memoryview(assignment), VERSION.size)[0]
    except (MalformedMessage, struct.error, IndexError, UnicodeDecodeError):
        return NOTHING
    return known_partitions(found.assigned, topics)


def known_partitions(named: tuple[EmbeddedPartitions, ...], topics: Mapping[str, KnownTopic]) -> Partitions:
    """Returns those of the named partitions that there are."""
    return frozenset(
        (topics[each.topic].id, number)
        for each in named
        if each.topic in topics
        for number in each.partitions
        if 0 <= number < topics[each.topic].partitions
    )


def write_assignment(partitions: Partitions, topics: Mapping[str, KnownTopic], version: int) -> bytes:
    """Returns an assignment in this version; topics that are gone are left out."""
    wanted = {topic for topic, _ in partitions}
    names = {topic.id: name for name, topic in topics.items() if topic.id in wanted} if wanted else {}
    assigned = tuple(
        EmbeddedPartitions(topic=names[topic], partitions=numbers)
        for topic, numbers in by_topic(partitions)
        if topic in names
    )
    out: list[Buffer] = [VERSION.pack(max(version, 0))]
    _ASSIGNMENT.write(out, Assignment(assigned=assigned))
    return b"".join(out)
