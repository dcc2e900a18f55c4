"""Turns values into msgpack and back, strictly: any bytes give a value of the right types and bounds, or a clear error.

A *shape* is a pair of functions. It packs arrays, integers, strings, binaries, booleans and nil, but no maps, floats or
extension types. The first byte of every packed value is the version of its format, which tells later ones.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgpack
from attrs import frozen

from kafka_compat.model import Endpoint, ScramCredential, ScramMechanism
from raft import codec
from raft.codec import NUMBER_MAX
from raft.errors import InvalidRequest, ProtocolError

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
STRING_MAX = 32_767
"""The longest string of Kafka's older string type; bounds names and texts of errors."""
VALUE_MAX = 2**20
"""The longest value of a config."""
ELEMENTS_MAX = 1_000_000
"""Elements in one array, at most; arrays are no longer than the bytes that hold them either."""


@frozen
class Shape:
    """One kind of value on the wire."""

    pack: Callable[[Any], Any]
    """Turns the value into the form that msgpack packs."""
    read: Callable[[Any, str], Any]
    """Turns the unpacked msgpack into the value; the second argument is the name of the place in error texts.

    Raises `ProtocolError`.
    """


def encode(version: int, shape: Shape, value: object) -> bytes:
    """Returns the version byte and the packed value."""
    packed: bytes = msgpack.packb(shape.pack(value))
    return bytes((version,)) + packed


def decode(version: int, shape: Shape, data: bytes, name: str) -> Any:
    """Returns the value in `data`; `name` is its name in error texts. Raises `InvalidRequest` for malformed bytes."""
    if type(data) is not bytes or not data:
        raise InvalidRequest(f"{name} must be bytes that begin with a version")
    if data[0] != version:
        raise InvalidRequest(f"{name} has version {data[0]}; only {version} is known here")
    try:
        return shape.read(codec.unpack(memoryview(data)[1:], array_max=ELEMENTS_MAX), name)
    except ProtocolError as error:
        raise InvalidRequest(f"{name}: {error.detail}") from None


def _same(value: Any) -> Any:
    return value


def integer(low: int, high: int) -> Shape:
    """Returns the shape of an integer within bounds, both inclusive; booleans are refused."""

    def read(value: Any, name: str) -> int:
        return value if type(value) is int and low <= value <= high else codec.integer(value, name, low, high)

    return Shape(int, read)


def text(length_max: int = STRING_MAX) -> Shape:
    """Returns the shape of a string of at most `length_max` characters."""
    return Shape(_same, lambda value, name: codec.text(value, name, length_max))


def cut_text(length_max: int) -> Shape:
    """Returns the shape of a string for people, cut to `length_max` characters."""
    whole = text(length_max)
    return Shape(lambda value: value[:length_max], whole.read)


def binary(length: int) -> Shape:
    """Bytes of exactly this length."""

    def read(value: Any, name: str) -> bytes:
        if type(value) is not bytes or len(value) != length:
            raise ProtocolError(f"{name} must be binary of {length}, not {codec.kind_of(value)}")
        return value

    return Shape(_same, read)


def octets(length_max: int) -> Shape:
    """Bytes of at most this length."""

    def read(value: Any, name: str) -> bytes:
        if type(value) is not bytes or len(value) > length_max:
            raise ProtocolError(f"{name} must be binary of at most {length_max}, not {codec.kind_of(value)}")
        return value

    return Shape(_same, read)


def enumeration(kind: type[Any]) -> Shape:
    """Returns the shape of a member of an `IntEnum`, packed as its number."""
    members = {int(member): member for member in kind}

    def read(value: Any, name: str) -> Any:
        if type(value) is not int or value not in members:
            raise ProtocolError(f"{name} must be the number of a {kind.__name__}, not {codec.kind_of(value)}")
        return members[value]

    return Shape(int, read)


def optional(shape: Shape) -> Shape:
    """Returns the shape of an optional value, with nil for None."""
    return Shape(
        lambda value: None if value is None else shape.pack(value),
        lambda value, name: None if value is None else shape.read(value, name),
    )


def array(shape: Shape, length_max: int = ELEMENTS_MAX) -> Shape:
    """Returns the shape of a tuple of values of one shape."""

    pack_one, read_one = shape.pack, shape.read

    def pack(values: Iterable[Any]) -> list[Any]:
        return [pack_one(value) for value in values]

    def read(value: Any, name: str) -> tuple[Any, ...]:
        if type(value) is not list or len(value) > length_max:
            raise ProtocolError(f"{name} must be an array of at most {length_max}, not {codec.kind_of(value)}")
        return tuple([read_one(each, name) for each in value])

    return Shape(pack, read)


def tuple_of(*shapes: Shape, added: tuple[Any, ...] = (), names: Sequence[str] = ()) -> Shape:
    """Returns the shape of a tuple with one value for each shape.

    Trailing values may be missing if they equal the values of `added`: an earlier release wrote none. `names` are the
    names of the values in error texts.
    """
    least = len(shapes) - len(added)
    count = str(least) if not added else f"{least} to {len(shapes)}"
    packs, reads = [shape.pack for shape in shapes], [shape.read for shape in shapes]

    def pack(values: Sequence[Any]) -> list[Any]:
        written = _without_defaults(values, added) if added else values
        return [pack_one(value) for pack_one, value in zip(packs, written, strict=False)]

    def read(value: Any, name: str) -> tuple[Any, ...]:
        if type(value) is not list or not least <= len(value) <= len(shapes):
            raise ProtocolError(f"{name} must be an array of {count}, not {codec.kind_of(value)}")
        places = names or [name] * len(value)
        given = [read_one(each, place) for read_one, each, place in zip(reads, value, places, strict=False)]
        return (*given, *added[len(given) - least :])

    return Shape(pack, read)


def record(kind: type[Any], *shapes: Shape, added: int = 0) -> Shape:
    """Returns the shape of a class: the array of its fields, one shape for each, in order.

    The last `added` fields may be missing, and have their defaults then: an earlier release wrote none.
    """
    fields = list(inspect.signature(kind).parameters.values())
    names = [field.name for field in fields]
    assert len(names) == len(shapes), kind
    defaults = tuple([field.default for field in fields[len(fields) - added :]])
    row = tuple_of(*shapes, added=defaults, names=[f"{kind.__name__}.{name}" for name in names])
    pack, read, described = row.pack, row.read, f", a {kind.__name__},"
    return Shape(
        lambda value: pack([getattr(value, name) for name in names]),
        lambda value, name: kind(*read(value, name + described)),
    )


def _without_defaults(values: Sequence[Any], defaults: tuple[Any, ...]) -> Sequence[Any]:
    """Returns the values up to the last that differs from its default."""
    length = len(values)
    for default in reversed(defaults):
        if values[length - 1] != default:
            break
        length -= 1
    return values[:length]


def one_of(tagged: dict[int, tuple[type[Any], Shape]]) -> Shape:
    """Returns the shape of a value of one of several classes: an array of the number of its class and its own array."""
    numbers = {kind: (number, shape) for number, (kind, shape) in tagged.items()}

    def pack(value: Any) -> list[Any]:
        number, shape = numbers[type(value)]
        return [number, shape.pack(value)]

    def read(value: Any, name: str) -> Any:
        if type(value) is not list or len(value) != 2 or type(value[0]) is not int:
            raise ProtocolError(f"{name} must be an array of a number and an array, not {codec.kind_of(value)}")
        if value[0] not in tagged:
            raise ProtocolError(f"{name} has the unknown number {value[0]}")
        return tagged[value[0]][1].read(value[1], name)

    return Shape(pack, read)


BOOLEAN = Shape(bool, codec.boolean)
INT32 = integer(INT32_MIN, INT32_MAX)
NUMBER = integer(0, NUMBER_MAX)
NUMBER_OR_NONE = integer(-1, NUMBER_MAX)
"""With -1 for NO_EPOCH and the like."""
BROKER_ID = integer(0, INT32_MAX)
TEXT = text()
UUID = binary(16)
SCRAM_MECHANISM = enumeration(ScramMechanism)
SCRAM_CREDENTIAL = record(ScramCredential, octets(256), octets(64), octets(64), integer(1, INT32_MAX))
ENDPOINTS = array(record(Endpoint, TEXT, TEXT, integer(0, 65_535)), 64)
