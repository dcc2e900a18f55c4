"""Records: messages as a broker stores them and consumers pull them. Encoded, and read without copying the body. Pure.

`record_layout` has the fields and their places. A record is encoded once, on the broker that takes the message. From
there to disks, slaves and consumers its bytes stay as they are, but for two offsets that appending writes into it.

This module also has the properties of a message, its id (its place), and the messages inside of a batch
(SEND_BATCH_MESSAGE). A producer joins these as size 4, magic 4, CRC 4, flag 4, body size 4, body, properties size 2,
properties (MessageDecoder.encodeMessage).
"""

import functools
import ipaddress
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from log.values import frozen
from raft.net.decoder import Buffer
from rocketmq_compat.record_layout import BORN_HOST_V6, MAGIC_V1, MAGIC_V2, SHORT, STORE_HOST_V6

TOPIC_BYTES_MAX: Final = 255
TOPIC_BYTES_V1: Final = 127
"""The longest topic whose length fits one byte, which Java reads as a signed one.

A longer one needs the second layout.
"""
PROPERTIES_BYTES_MAX: Final = 32_767
MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""The largest body, unless the broker's `maxMessageSize` sets another bound."""
BATCH_MESSAGES_MAX: Final = 65_536

_NAME_END, _VALUE_END = "\x01", "\x02"
_PORT = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_INNER = struct.Struct(">iIIiI")
"""Of a message in a batch: size, magic, CRC, flag, body size. Only the sizes and the flag mean something."""
_V4_BYTES: Final = 8
_V6_BYTES: Final = 20


def _fixed_layout(born_bytes: int, store_bytes: int) -> struct.Struct:
    return struct.Struct(f">IIIiiqqiq{born_bytes}sq{store_bytes}siqI")


_FIXED: Final = {
    0: _fixed_layout(_V4_BYTES, _V4_BYTES),
    BORN_HOST_V6: _fixed_layout(_V6_BYTES, _V4_BYTES),
    STORE_HOST_V6: _fixed_layout(_V4_BYTES, _V6_BYTES),
    BORN_HOST_V6 | STORE_HOST_V6: _fixed_layout(_V6_BYTES, _V6_BYTES),
}
"""All fields before the body, by the bits of the system flag about hosts."""
_V6_BITS: Final = BORN_HOST_V6 | STORE_HOST_V6


@attrs.define
class IllegalMessage(ValueError):
    """A message that cannot be stored (MESSAGE_ILLEGAL): a part of it is too large, or a batch is malformed."""

    detail: str

    def __str__(self) -> str:
        return f"illegal message: {self.detail}"


@attrs.define
class MalformedRecord(ValueError):
    """The bytes are no record."""

    detail: str

    def __str__(self) -> str:
        return f"no record: {self.detail}"


@attrs.define
class BadMessageId(ValueError):
    """A text is no id of a stored message."""

    text: str

    def __str__(self) -> str:
        return f"{self.text[:80]!r} is no message id"


# Hosts


@functools.lru_cache(maxsize=4096)
def encode_host(host: str, port: int) -> bytes:
    """Returns an address in the format of records: 4 or 16 bytes, and the port in 4.

    Raises `ValueError` unless the host is an IP address.
    """
    return ipaddress.ip_address(host).packed + _PORT.pack(port)


def read_host(encoded: bytes) -> tuple[str, int]:
    """Returns host and port of a result of `encode_host`."""
    return str(ipaddress.ip_address(encoded[:-4])), _PORT.unpack(encoded[-4:])[0]


# Message ids


def message_id(store_host: bytes, physical_offset: int) -> str:
    """Returns the id of a stored message: store host and physical offset, in hex (MessageDecoder.createMessageId)."""
    return (store_host + _OFFSET.pack(physical_offset)).hex().upper()


def read_message_id(text: str) -> tuple[str, int, int]:
    """Returns host, port and physical offset. Raises `BadMessageId` for anything else than `message_id` returns."""
    try:
        content = bytes.fromhex(text)
        if len(text) != 2 * len(content) or len(content) - _OFFSET.size not in (_V4_BYTES, _V6_BYTES):
            raise ValueError
    except ValueError:
        raise BadMessageId(text) from None
    host, port = read_host(content[: -_OFFSET.size])
    return host, port, _OFFSET.unpack(content[-_OFFSET.size :])[0]


# Properties


def read_properties(text: str) -> dict[str, str]:
    """Returns the properties. Pairs without a name or a value are left out, as Java's clients do."""
    found: dict[str, str] = {}
    for pair in text.split(_VALUE_END):
        name, separator, value = pair.partition(_NAME_END)
        if separator and _NAME_END not in value:
            found[name] = value
    return found


def write_properties(properties: Mapping[str, str]) -> str:
    """Returns the text of properties. Raises `IllegalMessage` for a name or a value that contains a separator."""
    for name, value in properties.items():
        if _NAME_END in name or _VALUE_END in name or _NAME_END in value or _VALUE_END in value:
            raise IllegalMessage(f"the property {name[:40]!r} contains a separator")
    return "".join(f"{name}{_NAME_END}{value}{_VALUE_END}" for name, value in properties.items())


# Encoding


def encode_record(
    *,
    topic: str,
    body: Buffer,
    properties: str,
    queue_id: int,
    born_ms: int,
    born_host: bytes,
    store_ms: int,
    store_host: bytes,
    flag: int = 0,
    sys_flag: int = 0,
    reconsume_times: int = 0,
    prepared_offset: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
    body_bytes_max: int = MESSAGE_BYTES_MAX,
) -> bytes:
    """Returns one record.

    The hosts are results of `encode_host`, times are in ms; the bits of `sys_flag` about hosts are optional. Raises
    `IllegalMessage` if topic, body or properties are too large, or a number does not fit its field.
    """
    name, encoded = topic.encode(), properties.encode()
    if not 0 < len(name) <= TOPIC_BYTES_MAX:
        raise IllegalMessage(f"a topic has 1 to {TOPIC_BYTES_MAX} bytes, not {len(name)}")
    if len(encoded) > PROPERTIES_BYTES_MAX:
        raise IllegalMessage(f"its properties have {len(encoded)} bytes; at most {PROPERTIES_BYTES_MAX}")
    if len(body) > body_bytes_max:
        raise IllegalMessage(f"its body has {len(body)} bytes; at most {body_bytes_max}")
    hosts = (BORN_HOST_V6 if len(born_host) == _V6_BYTES else 0) | (
        STORE_HOST_V6 if len(store_host) == _V6_BYTES else 0
    )
    fixed = _FIXED[hosts]
    is_v1 = len(name) <= TOPIC_BYTES_V1
    topic_part = (bytes((len(name),)) if is_v1 else SHORT.pack(len(name))) + name
    try:
        head = fixed.pack(
            fixed.size + len(body) + len(topic_part) + SHORT.size + len(encoded),
            MAGIC_V1 if is_v1 else MAGIC_V2,
            body_crc(body),
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            sys_flag & ~_V6_BITS | hosts,
            born_ms,
            born_host,
            store_ms,
            store_host,
            reconsume_times,
            prepared_offset,
            len(body),
        )
    except struct.error as error:
        raise IllegalMessage(f"a number has no place in a record: {error}") from None
    return b"".join((head, body, topic_part, SHORT.pack(len(encoded)), encoded))


def body_crc(body: Buffer) -> int:
    """Returns the CRC-32 of a body as records hold it, without the highest bit (UtilAll.crc32)."""
    return zlib.crc32(body) & 0x7FFFFFFF


# Reading


@frozen
class RecordHead:
    """All of a record but its body of `body_bytes` bytes, which lies at `body_start` from the record's start."""

    size: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    store_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_offset: int
    body_start: int
    body_bytes: int
    topic: str
    properties: str

    @property
    def message_id(self) -> str:
        """The id of the message."""
        return message_id(self.store_host, self.physical_offset)

    def body(self, record: Buffer) -> Buffer:
        """Returns the part of the record that is its body."""
        return record[self.body_start : self.body_start + self.body_bytes]

    def is_sound(self, record: Buffer) -> bool:
        """Returns True if the body has the checksum in the record."""
        return body_crc(self.body(record)) == self.body_crc


def read_head(content: Buffer, start: int = 0) -> RecordHead:
    """Returns the head of the record at `start`. Raises `MalformedRecord` if there is no whole record."""
    try:
        fields = _FIXED[0].unpack_from(content, start)
        fixed = _FIXED[fields[7] & _V6_BITS]
        if fixed is not _FIXED[0]:
            fields = fixed.unpack_from(content, start)
        size, magic, *_, body_bytes = fields
        if magic not in (MAGIC_V1, MAGIC_V2):
            raise MalformedRecord(f"the magic is {magic:#x}")
        body_start = fixed.size
        at = start + body_start + body_bytes
        topic_bytes = content[at] if magic == MAGIC_V1 else SHORT.unpack_from(content, at)[0]
        topic_at = at + (1 if magic == MAGIC_V1 else SHORT.size)
        properties_at = topic_at + topic_bytes + SHORT.size
        (properties_bytes,) = SHORT.unpack_from(content, properties_at - SHORT.size)
    except (IndexError, struct.error):
        raise MalformedRecord("it ends early") from None
    end = properties_at + properties_bytes
    if end != start + size or end > len(content):
        raise MalformedRecord(f"its parts do not add up to {size} bytes, or it ends early")
    try:
        topic = bytes(content[topic_at : topic_at + topic_bytes]).decode()
        properties = bytes(content[properties_at:end]).decode()
    except UnicodeDecodeError:
        raise MalformedRecord("topic or properties are not UTF-8") from None
    known: tuple[Any, ...] = (size, *fields[2:-1], body_start, body_bytes, topic, properties)
    return RecordHead(*known)


def read_heads(content: Buffer) -> Iterator[tuple[int, RecordHead]]:
    """Yields the start and the head of each record of a run of whole records.

    Raises `MalformedRecord` at a broken one.
    """
    start = 0
    while start < len(content):
        head = read_head(content, start)
        yield start, head
        start += head.size


# Batches


@frozen
class InnerMessage:
    """One message of a batch; the body is a view of it."""

    flag: int
    body: Buffer
    properties: str


def inner_messages(batch: Buffer) -> list[InnerMessage]:
    """Returns the messages, at least one, of a SEND_BATCH_MESSAGE's body. Raises `IllegalMessage` for other bytes."""
    messages: list[InnerMessage] = []
    view = memoryview(batch)
    start = 0
    while start < len(view):
        if len(messages) == BATCH_MESSAGES_MAX:
            raise IllegalMessage(f"a batch of more than {BATCH_MESSAGES_MAX} messages")
        try:
            size, _, _, flag, body_bytes = _INNER.unpack_from(view, start)
            body_at = start + _INNER.size
            properties_at = body_at + body_bytes + SHORT.size
            (properties_bytes,) = SHORT.unpack_from(view, properties_at - SHORT.size)
        except struct.error:
            raise IllegalMessage(f"message {len(messages)} of the batch ends early") from None
        end = properties_at + properties_bytes
        if end != start + size or end > len(view):
            raise IllegalMessage(f"the parts of message {len(messages)} of the batch do not add up to {size} bytes")
        try:
            properties = bytes(view[properties_at:end]).decode()
        except UnicodeDecodeError:
            raise IllegalMessage(f"the properties of message {len(messages)} of the batch are not UTF-8") from None
        messages.append(InnerMessage(flag, view[body_at : body_at + body_bytes], properties))
        start = end
    if not messages:
        raise IllegalMessage("a batch without a message")
    return messages


def join_messages(messages: Iterable[InnerMessage]) -> bytes:
    """Returns the body of SEND_BATCH_MESSAGE with these messages.

    Raises `IllegalMessage` if properties are too large.
    """
    pieces: list[Buffer] = []
    for message in messages:
        encoded = message.properties.encode()
        if len(encoded) > PROPERTIES_BYTES_MAX:
            raise IllegalMessage(
                f"the properties of a message have {len(encoded)} bytes; at most {PROPERTIES_BYTES_MAX}"
            )
        size = _INNER.size + len(message.body) + SHORT.size + len(encoded)
        pieces += (
            _INNER.pack(size, 0, 0, message.flag, len(message.body)),
            message.body,
            SHORT.pack(len(encoded)),
            encoded,
        )
    return b"".join(pieces)
