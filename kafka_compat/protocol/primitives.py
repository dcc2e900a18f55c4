"""Kafka's primitive types as bytes, big endian: reads each at a position of a buffer, and appends each to a list.

A reader takes a memoryview and a position, and returns the value and the position after it. It compares every announced
length with the remaining bytes before it allocates. A reader raises `MalformedMessage`. One that runs over the end of
the buffer may raise `struct.error` or `IndexError` instead, and bad UTF-8 is a `UnicodeDecodeError`. The reader of the
struct around it (`compiler.py`) turns all of them into `MalformedMessage`, so that the common path has no checks.

Compact types (flexible versions, KIP-482) announce their length plus one as an unsigned varint; 0 is null.
"""

import struct
from collections.abc import Callable
from typing import Any

from kafka_compat.protocol.errors import CannotEncode, MalformedMessage
from log.values import frozen
from raft.net.decoder import Buffer

Read = Callable[[memoryview, int], tuple[Any, int]]
Write = Callable[[list[Buffer], Any], None]

STRING_BYTES_MAX = 2**15 - 1
"""The length of a string, in both encodings: Kafka refuses longer compact strings, too."""
UVARINT_BYTES_MAX = 5


@frozen
class Wire:
    """The encoding of one type.

    `least` is the size of the smallest value; `code` is the letter of `struct`, if it has one.
    """

    read: Read
    write: Write
    least: int
    code: str = ""


# ------------------------------------------------------------------- varints


def read_uvarint(buffer: memoryview, position: int) -> tuple[int, int]:
    """Reads an unsigned varint of at most 32 bits.

    Returns the value and the position after it. Raises `MalformedMessage` above 32 bits, `IndexError` at the end.
    """
    byte = buffer[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for number in range(1, UVARINT_BYTES_MAX):
        byte = buffer[position + number]
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            if value >= 2**32:
                break
            return value, position + number + 1
    raise MalformedMessage("a varint of more than 32 bits", offset=position)


def encoded_uvarint(value: int) -> bytes:
    """Returns the unsigned varint, of any size; raises `CannotEncode` below 0."""
    if 0 <= value < 0x80:
        return _SHORT[value]
    if value < 0:
        raise CannotEncode(f"{value} as an unsigned varint")
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_SHORT = tuple(bytes((value,)) for value in range(0x80))


# ---------------------------------------------------------------- fixed size


def number_wire(code: str) -> Wire:
    """Returns the wire of a number or boolean, by its letter of `struct`."""
    layout = struct.Struct(f">{code}")
    size, unpack_from, pack = layout.size, layout.unpack_from, layout.pack

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        return unpack_from(buffer, position)[0], position + size

    def write(out: list[Buffer], value: Any) -> None:
        out.append(pack(value))

    return Wire(read, write, size, code)


UUID_BYTES = 16


def _read_uuid(buffer: memoryview, position: int) -> tuple[bytes, int]:
    end = position + UUID_BYTES
    if end > len(buffer):
        raise too_long(UUID_BYTES, len(buffer) - position, position)
    return bytes(buffer[position:end]), end


def _write_uuid(out: list[Buffer], value: bytes) -> None:
    if len(value) != UUID_BYTES:
        raise CannotEncode(f"a uuid of {len(value)} bytes")
    out.append(value)


BOOLEAN = number_wire("?")
INT8_WIRE = number_wire("b")
INT16_WIRE = number_wire("h")
INT32_WIRE = number_wire("i")
INT64_WIRE = number_wire("q")
UUID_WIRE = Wire(_read_uuid, _write_uuid, UUID_BYTES)


# ------------------------------------------------- strings, bytes and records


def too_long(announced: int, left: int, position: int) -> MalformedMessage:
    """Returns the error of a length that the rest of the buffer cannot hold."""
    return MalformedMessage(f"{announced} bytes announced, {left} left", offset=position)


def _read_compact_length(buffer: memoryview, position: int) -> tuple[int, int]:
    byte = buffer[position]
    if byte < 0x80:
        return byte - 1, position + 1
    length, position = read_uvarint(buffer, position)
    return length - 1, position


_COMPACT: tuple[Read, Callable[[int], bytes]] = (_read_compact_length, lambda length: encoded_uvarint(length + 1))
_SHORT_LENGTH = (INT16_WIRE.read, struct.Struct(">h").pack)
_LENGTH = (INT32_WIRE.read, struct.Struct(">i").pack)
"""Reads and encodes a length."""


def _as_text(view: memoryview) -> str:
    return str(view, "utf-8")


def _text_bytes(value: str) -> bytes:
    encoded = value.encode()
    if len(encoded) > STRING_BYTES_MAX:
        raise CannotEncode(f"a string of {len(encoded)} bytes")
    return encoded


def _make_sized(
    read_length: Read,
    encode_length: Callable[[int], bytes],
    make: Callable[[memoryview], Any],
    length_max: int,
    *,
    nullable: bool,
) -> tuple[Read, Callable[[list[Buffer]], None]]:
    """Returns a reader of a length and so many bytes, and the writer of a null."""

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        length, start = read_length(buffer, position)
        end = start + length
        if length < 0:
            if length == -1 and nullable:
                return None, start
            raise MalformedMessage("null is not allowed here" if length == -1 else f"length {length}", offset=position)
        if end > len(buffer):
            raise too_long(length, len(buffer) - start, position)
        if length > length_max:
            raise MalformedMessage(f"{length} bytes are over the bound of {length_max}", offset=position)
        return make(buffer[start:end]), end

    def write_null(out: list[Buffer]) -> None:
        if not nullable:
            raise CannotEncode("null is not allowed in this version")
        out.append(encode_length(-1))

    return read, write_null


def string(*, compact: bool, nullable: bool) -> Wire:
    """Returns the wire of a `str`."""
    read_length, encode_length = _COMPACT if compact else _SHORT_LENGTH
    read, write_null = _make_sized(read_length, encode_length, _as_text, STRING_BYTES_MAX, nullable=nullable)

    def write(out: list[Buffer], value: str | None) -> None:
        if value is None:
            write_null(out)
        else:
            encoded = _text_bytes(value)
            out.append(encode_length(len(encoded)) + encoded)

    return Wire(read, write, 1 if compact else 2)


def octets(*, compact: bool, nullable: bool, copied: bool) -> Wire:
    """Returns the wire of bytes: `copied`, or read as a view of the frame, as records are.

    It also writes a tuple of pieces.
    """
    read_length, encode_length = _COMPACT if compact else _LENGTH
    make: Callable[[memoryview], Any] = bytes if copied else lambda view: view
    read, write_null = _make_sized(read_length, encode_length, make, 2**31 - 1, nullable=nullable)

    def write(out: list[Buffer], value: Buffer | tuple[Buffer, ...] | None) -> None:
        if value is None:
            write_null(out)
        elif isinstance(value, tuple):
            out.append(encode_length(sum(map(len, value))))
            out.extend(value)
        else:
            out.append(encode_length(len(value)))
            out.append(value)

    return Wire(read, write, 1 if compact else 4)


# -------------------------------------------------------------------- arrays


def array(element: Wire, *, compact: bool, nullable: bool) -> Wire:
    """Returns the wire of a tuple of elements; raises `TypeError` for elements without bytes.

    Counts of more elements than the bytes that are left can hold are refused before the first is read.
    """
    if not element.least:
        raise TypeError("elements without bytes: nothing would bound their number")
    read_length, encode_length = _COMPACT if compact else _LENGTH
    read_element, write_element, least, code = element.read, element.write, element.least, element.code

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        count, start = read_length(buffer, position)
        if count < 0:
            if count == -1 and nullable:
                return None, start
            raise MalformedMessage("null is not allowed here" if count == -1 else f"{count} elements", offset=position)
        left = len(buffer) - start
        if count * least > left:
            raise MalformedMessage(
                f"{count} elements of at least {least} bytes announced, {left} bytes left", offset=position
            )
        if code:
            return struct.unpack_from(f">{count}{code}", buffer, start), start + count * least
        elements: list[Any] = []
        position = start
        try:
            for _ in range(count):
                value, position = read_element(buffer, position)
                elements.append(value)
        except MalformedMessage as error:
            error.within(f"[{len(elements)}]")
            raise
        return tuple(elements), position

    def write(out: list[Buffer], values: Any) -> None:
        if values is None:
            if not nullable:
                raise CannotEncode("null is not allowed in this version")
            out.append(encode_length(-1))
            return
        out.append(encode_length(len(values)))
        number = 0
        try:
            for number, value in enumerate(values):  # noqa: B007 - for the error
                write_element(out, value)
        except CannotEncode as error:
            error.within(f"[{number}]")
            raise

    return Wire(read, write, 1 if compact else 4)
