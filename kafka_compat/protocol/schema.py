"""The language of the schema tables: a message is a class whose fields state their type on the wire and their versions.

    class TopicProduceData(Message):
        name: str = string("0-12", default="")
        topic_id: bytes = uuid("13+", default=NO_UUID)
        partition_data: tuple[PartitionProduceData, ...] = array(PartitionProduceData)

Fields stand in the order of the wire; tagged ones come last, by tag. The first argument is the range of versions, by
default all versions of the API. One class serves them all: decoding gives a field that the version lacks its `default`,
and encoding omits it, with any value. To the type checker a message is a frozen value made with keyword arguments, in
which fields without a `default` must be given.
"""

from collections.abc import Callable
from typing import Any, Protocol, dataclass_transform

import attrs

from kafka_compat.protocol import primitives
from kafka_compat.protocol.primitives import Wire
from log.values import frozen

NO_UUID = bytes(16)
"""The topic id of no topic."""
VERSIONS_END = 2**15
ALWAYS = range(VERSIONS_END)
NEVER = range(0)
METADATA_KEY = "kafka_field"


@frozen
class Kind:
    """A type of the protocol: `wire(compact, nullable)` returns its encoding, `zero` is its default."""

    wire: Callable[[bool, bool], Wire]
    zero: Any


def _number(wire: Wire, zero: int | float = 0) -> Kind:
    return Kind(lambda compact, nullable: wire, zero)


BOOL = _number(primitives.BOOLEAN, False)
INT8 = _number(primitives.INT8_WIRE)
INT16 = _number(primitives.INT16_WIRE)
INT32 = _number(primitives.INT32_WIRE)
INT64 = _number(primitives.INT64_WIRE)
UINT16 = _number(primitives.number_wire("H"))
FLOAT64 = _number(primitives.number_wire("d"), 0.0)
UUID = Kind(lambda compact, nullable: primitives.UUID_WIRE, NO_UUID)
STRING = Kind(lambda compact, nullable: primitives.string(compact=compact, nullable=nullable), "")
BYTES = Kind(lambda compact, nullable: primitives.octets(compact=compact, nullable=nullable, copied=True), b"")
RECORDS = Kind(lambda compact, nullable: primitives.octets(compact=compact, nullable=nullable, copied=False), b"")


@frozen
class Field:
    """One row of a table.

    `of` is a `Kind` or the class of a nested message; `tag` is None unless the field is tagged.
    """

    of: Kind | type
    versions: range
    nullable: range
    default: Any
    tag: int | None
    is_array: bool


@frozen
class NamedField:
    """A row with the name that its class gives it."""

    name: str
    field: Field


def version_range(text: str) -> range:
    """Returns the versions of `3+`, `0-12` or `4`."""
    first, dash, last = text.removesuffix("+").partition("-")
    if text.endswith("+"):
        return range(int(first), VERSIONS_END)
    return range(int(first), int(last if dash else first) + 1)


def _field(of: Kind | type, versions: str, nullable: str, default: Any, tag: int | None, *, is_array: bool) -> Any:
    if default is attrs.NOTHING:
        default = () if is_array else of.zero if isinstance(of, Kind) else of()
    return Field(
        of,
        version_range(versions) if versions else ALWAYS,
        version_range(nullable) if nullable else NEVER,
        default,
        tag,
        is_array,
    )


class _Declare(Protocol):
    def __call__(
        self, versions: str = "", *, nullable: str = "", default: Any = attrs.NOTHING, tag: int | None = None
    ) -> Any: ...


def _declares(of: Kind) -> _Declare:
    return lambda versions="", *, nullable="", default=attrs.NOTHING, tag=None: _field(
        of, versions, nullable, default, tag, is_array=False
    )


boolean = _declares(BOOL)
"""Declares a field of one byte, 0 or 1."""
int8 = _declares(INT8)
int16 = _declares(INT16)
int32 = _declares(INT32)
int64 = _declares(INT64)
uint16 = _declares(UINT16)
float64 = _declares(FLOAT64)
uuid = _declares(UUID)
"""Declares a field of 16 bytes, kept as `bytes`."""
string = _declares(STRING)
"""Declares a field of UTF-8 text."""
octets = _declares(BYTES)
"""Declares a field of bytes, copied out of the frame when decoded."""
records = _declares(RECORDS)
"""Declares a field of record batches: a view of the frame when decoded, a piece of its own when encoded."""


def submessage(
    of: type, versions: str = "", *, nullable: str = "", default: Any = attrs.NOTHING, tag: int | None = None
) -> Any:
    """Declares a field that is a message. A nullable one begins with a byte that states if it is null (KIP-893)."""
    return _field(of, versions, nullable, default, tag, is_array=False)


def array(
    of: Kind | type, versions: str = "", *, nullable: str = "", default: Any = attrs.NOTHING, tag: int | None = None
) -> Any:
    """Declares a field of many values or messages, kept as a tuple."""
    return _field(of, versions, nullable, default, tag, is_array=True)


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(boolean, int8, int16, int32, int64, uuid, string, octets, records, submessage, array),
)
class MessageType(type):
    """Makes a value of each class of messages: slots, equality, keyword arguments.

    Raises `TypeError` for a table in which tagged fields do not come last and ascend. As elsewhere (`log.values`) only
    the type checker forbids changes. Here it is also the only check for fields without a default, because a check at
    run time would cost more than decoding.
    """

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        """Returns the class. Raises `TypeError` as above."""
        cls = super().__new__(mcs, name, bases, namespace)
        # attrs makes the class again for its slots, by this metaclass too.
        return cls if not bases or "__attrs_attrs__" in namespace else _value_of(cls)


class Message(metaclass=MessageType):
    """The base of all messages."""

    __slots__ = ()


def _value_of(cls: type) -> type:
    names = [name for name in cls.__annotations__ if isinstance(cls.__dict__.get(name), Field)]
    tags = [-1 if (tag := cls.__dict__[name].tag) is None else tag for name in names]
    rising = tags[next((number for number, tag in enumerate(tags) if tag >= 0), len(tags)) :]
    if rising != sorted(set(rising)) or -1 in rising:
        raise TypeError(f"{cls.__name__}: tagged fields come last, in the order of their tags")
    for name in names:
        row: Field = cls.__dict__[name]
        setattr(cls, name, attrs.field(default=row.default, metadata={METADATA_KEY: row}))
    return attrs.define(cls, unsafe_hash=True)


def rows(cls: type) -> tuple[NamedField, ...]:
    """Returns the table of a message class, in the order of the wire."""
    return tuple(NamedField(each.name, each.metadata[METADATA_KEY]) for each in attrs.fields(cls))
