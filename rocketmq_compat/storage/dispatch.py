"""Turns the bytes of records into units of consume queues and entries of the key index. Pure.

A *unit* is the place of one message of a queue (RocketMQ's `ConsumeQueue`): physical offset, size, and the hash of its
tag, in `UNIT.size` bytes. Prepared and rolled-back messages of transactions take no place in their queue
(`CommitLogDispatcherBuildConsumeQueue`).

The same walk assigns offsets to records when they are first appended, and reads these offsets on every other copy.
"""

import re
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

import attrs

from log.frame import Buffer, checksum
from rocketmq_compat.record_layout import (
    BORN_HOST_V6,
    COMMITTED,
    HEADS,
    MAGIC_V1,
    MAGIC_V2,
    OFFSETS,
    OFFSETS_AT,
    RECORD_BYTES_MIN,
    ROLLED_BACK,
    SHORT,
    STORE_HOST_V6,
    TRANSACTION_MASK,
    java_hash,
)

QueueKey = tuple[str, int]
"""Topic and queue id."""
UNIT: Final = struct.Struct(">QIq")
TOPIC_CHARACTERS_MAX: Final = 255
QUEUE_OFFSET_MAX: Final = 1 << 48
"""A number far above any queue's length; a larger one is damage."""

_HOSTS_V6: Final = BORN_HOST_V6 | STORE_HOST_V6
_TOPIC = re.compile(rb"[%|A-Za-z0-9_-]+")
_HEAD = HEADS[0]
_UNITS_IN: Final = (0, COMMITTED)
_TAGS, _KEYS, _UNIQUE_KEY = b"\2TAGS\1", b"\2KEYS\1", b"\2UNIQ_KEY\1"


class BadRecord(ValueError):
    """The bytes at `physical` are no record that may lie there."""

    def __init__(self, physical: int, reason: str) -> None:
        super().__init__(physical, reason)
        self.physical = physical
        self.reason = reason

    def __str__(self) -> str:
        return f"no record at physical offset {self.physical}: {self.reason}"


class QueueRun:
    """Consecutive units of one queue, from the queue offset `first` up to `next`, exclusive."""

    __slots__ = ("first", "key", "next", "units")

    def __init__(self, key: QueueKey, first: int) -> None:
        self.key = key
        self.first = self.next = first
        self.units = bytearray()


@attrs.frozen
class Walk:
    """The content of the records from the physical offset `start` up to `end`, exclusive.

    `newest_ms` is their newest store time.
    """

    start: int
    end: int
    newest_ms: int
    runs: list[QueueRun]
    """In the order of their first units; a queue has several if its offsets do not follow each other."""
    keys: list[tuple[int, int, int]]
    """Entries of the key index, in the order of the records: hash of the key, physical offset, store time in ms."""
    physical_offsets: list[int]
    """One for each record."""
    queue_offsets: list[int]
    """One for each record; 0 for records that take no place in their queue."""


def opaque(start: int, end: int) -> Walk:
    """Returns the empty walk over bytes that are known not to be records."""
    return Walk(start, end, 0, [], [], [], [])


def walk(payload: Buffer, physical: int, next_of: Callable[[QueueKey], int] | None = None) -> Walk:
    """Returns the walk over whole records at `physical`. Raises `BadRecord` for other bytes.

    With `next_of` the records have no offsets yet. The walk writes queue and physical offsets into `payload`, a
    bytearray; `next_of` returns the next offset of each queue.
    """
    runs: list[QueueRun] = []
    latest: dict[QueueKey, QueueRun] = {}
    keys: list[tuple[int, int, int]] = []
    places: list[int] = []
    queue_offsets: list[int] = []
    newest_ms, start, size = 0, 0, len(payload)
    while start < size:
        at = physical + start
        total, key, queue_offset, place, transaction, store_ms, properties = _read(payload, start, at)
        run = latest.get(key)
        if next_of is not None:
            queue_offset = 0
            if transaction in _UNITS_IN:
                queue_offset = run.next if run is not None else next_of(key)
            OFFSETS.pack_into(payload, start + OFFSETS_AT, queue_offset, at)
        elif place != at or queue_offset > QUEUE_OFFSET_MAX:
            raise BadRecord(at, f"it belongs at {place}, queue offset {queue_offset}")
        if transaction in _UNITS_IN:
            if run is None or run.next != queue_offset:
                run = latest[key] = QueueRun(key, queue_offset)
                runs.append(run)
            tags = _property(properties, _TAGS)
            run.units += UNIT.pack(at, total, tag_hash(tags) if tags else 0)
            run.next = queue_offset + 1
        if transaction != ROLLED_BACK:
            keys += [(key_hash(key[0], name), at, store_ms) for name in _names(properties)]
        places.append(at)
        queue_offsets.append(queue_offset)
        newest_ms = max(newest_ms, store_ms)
        start += total
    return Walk(physical, physical + size, newest_ms, runs, keys, places, queue_offsets)


@attrs.frozen
class AssignedBatch:
    """Records with their offsets, one after the other in `payload`, and the walk over them."""

    payload: bytearray
    found: Walk


def assign(records: Sequence[Buffer], physical: int, next_of: Callable[[QueueKey], int]) -> AssignedBatch:
    """Returns these whole records with their offsets at `physical`; `next_of` returns the next offset of each queue.

    The given records stay unchanged, and their own offsets are ignored. Raises `BadRecord` for a malformed record.
    """
    payload = bytearray().join(records)
    found = walk(payload, physical, next_of)
    if found.physical_offsets != list(accumulate(map(len, records[:-1]), initial=physical if records else None)):
        raise BadRecord(physical, "a buffer holds more or less than one record")
    return AssignedBatch(payload, found)


def split(payload: Buffer, bytes_max: int) -> list[memoryview]:
    """Returns the records of `payload` in parts of up to so many bytes, or of one longer record.

    The last part holds malformed bytes.
    """
    view = memoryview(payload)
    parts: list[memoryview] = []
    begin = at = 0
    while at < len(view):
        size = int.from_bytes(view[at : at + 4], "big")
        if size < RECORD_BYTES_MIN:
            break
        if at > begin and at + size - begin > bytes_max:
            parts.append(view[begin:at])
            begin = at
        at += size
    return [*parts, view[begin:]] if begin < len(view) else parts


def has_key(record: Buffer, topic: str, name: bytes) -> bool:
    """Returns True if this record belongs to the topic and has the key, or the unique key.

    Raises `BadRecord` if it is malformed.
    """
    _, (found, _), *_, properties = _read(record, 0, 0)
    return found == topic and name in _names(properties)


def key_hash(topic: str, name: bytes) -> int:
    """Returns the key index's hash of a key of a topic, 32 bits."""
    return checksum(b"%b#%b" % (topic.encode(), name))


@lru_cache(4096)
def tag_hash(tag: bytes) -> int:
    """Returns the hash of a tag in units, which is Java's `String.hashCode`."""
    return java_hash(tag.decode(errors="replace"))


@lru_cache(65536)
def topic_of(name: bytes) -> str | None:
    """Returns the topic of this name, or None for an illegal name (RocketMQ's `TopicValidator`)."""
    return name.decode() if len(name) <= TOPIC_CHARACTERS_MAX and _TOPIC.fullmatch(name) else None


def _read(payload: Buffer, start: int, at: int) -> tuple[int, QueueKey, int, int, int, int, bytes]:
    """Returns the record at `start`: size, queue, both offsets, transaction bits, store time, properties."""
    try:
        total, magic, queue_id, queue_offset, place, flags, store_ms, body = _HEAD.unpack_from(payload, start)
        topic_at = start + _HEAD.size + body
        if flags & _HOSTS_V6:
            head = HEADS[flags & _HOSTS_V6]
            store_ms, body = head.unpack_from(payload, start)[6:]
            topic_at = start + head.size + body
        if magic == MAGIC_V1:
            topic_bytes = payload[topic_at]
            topic_at += 1
        elif magic == MAGIC_V2:
            (topic_bytes,) = SHORT.unpack_from(payload, topic_at)
            topic_at += 2
        else:
            raise BadRecord(at, f"the magic is {magic:#x}")
        properties_at = topic_at + topic_bytes + 2
        (properties_bytes,) = SHORT.unpack_from(payload, properties_at - 2)
    except (IndexError, struct.error):
        raise BadRecord(at, "it ends early") from None
    end = properties_at + properties_bytes
    if end != start + total or end > len(payload):
        raise BadRecord(at, f"its parts do not add up to {total} bytes, or it ends early")
    name = bytes(payload[topic_at : topic_at + topic_bytes])
    topic = topic_of(name)
    if topic is None or queue_id < 0:
        raise BadRecord(at, f"topic {name!r}, queue {queue_id}")
    return (
        total,
        (topic, queue_id),
        queue_offset,
        place,
        flags & TRANSACTION_MASK,
        store_ms,
        bytes(payload[properties_at:end]),
    )


def _names(properties: bytes) -> list[bytes]:
    """Returns the keys under which a message is found: its unique key, and its keys, which blanks separate."""
    unique, several = _property(properties, _UNIQUE_KEY), _property(properties, _KEYS)
    names = [each for each in several.split(b" ") if each] if several else []
    return [unique, *names] if unique else names


def _property(properties: bytes, name: bytes) -> bytes:
    """Returns the value of a property; `name` stands between its separators. Empty for a missing one."""
    at = properties.rfind(name)
    if at >= 0:
        at += len(name)
    elif properties.startswith(name[1:]):
        at = len(name) - 1
    else:
        return b""
    end = properties.find(b"\2", at)
    return properties[at:end] if end >= 0 else properties[at:]
