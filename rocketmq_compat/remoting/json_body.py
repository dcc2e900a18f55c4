"""The language of the tables in `bodies`: a body is a class whose attributes are the members of a JSON object. Pure.

    class LockBatchRequestBody(JsonBody):
        consumer_group: str
        mq_set: frozenset[MessageQueue] = frozenset()

Names on the wire follow from the attributes as in `headers.fields`. What a type means:

| type | read from | written as |
|---|---|---|
| `int` | a number of 64 bits, or a text of one | number |
| `bool` | a boolean, 0 and 1, or a text of these | boolean |
| an `Enum` | the name, or the place among the names (the C++ client) | name |
| `tuple[X, ...]`, `frozenset[X]` | an array, or null | array |
| `Mapping[K, X]` | an object; K is `str`, `int` or a body | object |

A member that is missing or null has its default. Members that the table lacks are ignored.
"""

import enum
import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Final, Self

import attrs

from log.values import ValueType, frozen
from raft.net.decoder import Buffer
from rocketmq_compat.remoting import fastjson
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.headers.fields import WireName, camel_case

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
CLIENT_BODY_BYTES_MAX: Final = 1024 * 1024
"""The bound of a client's body, enough for 10,000 subscriptions.

Reading takes up to 0.5 us a byte, and blocks other work.
"""

Reader = Callable[[Any], Any]
"""Returns the value that some JSON means. Raises `BadBody`."""


class JsonBody(metaclass=ValueType):
    """The base of all bodies."""

    __slots__ = ()
    bytes_max: ClassVar[int | None] = None
    """The largest body that is read; None stands for the room in a frame."""

    @classmethod
    def decode(cls, body: Buffer) -> Self:
        """Returns the content of a command's body.

        Raises `BadBody` if it is not JSON, or too long, or a member is missing or of the wrong kind.
        """
        if cls.bytes_max is not None and len(body) > cls.bytes_max:
            raise BadBody(f"{len(body)} bytes; at most {cls.bytes_max}")
        return cls.of(fastjson.loads(body))

    @classmethod
    def of(cls, value: Any) -> Self:
        """Returns the body in a JSON value that was read before. Raises `BadBody` as `decode` does."""
        if type(value) is not dict:
            raise BadBody("no object")
        values: dict[str, Any] = {}
        for member in _members(cls):
            found = value.get(member.name)
            if found is not None:
                values[member.attribute] = _read(member.read, found, member.name)
            elif member.required:
                raise BadBody("it is missing", member.name)
        return cls(**values)

    def encode(self) -> bytes:
        """Returns the bytes of a command's body."""
        return fastjson.dumps(self).encode()

    def members(self) -> Mapping[str, object]:
        """Returns the members by their names on the wire."""
        return {member.name: getattr(self, member.attribute) for member in _members(type(self))}


@frozen
class _Member:
    attribute: str
    name: str
    read: Reader
    required: bool


@functools.cache
def _members(cls: type[Any]) -> tuple[_Member, ...]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple(
        _Member(
            attribute.name,
            _name(hints[attribute.name], attribute.name),
            _reader(hints[attribute.name]),
            attribute.default is attrs.NOTHING,
        )
        for attribute in attrs.fields(cls)
    )


def _name(hint: Any, attribute: str) -> str:
    if typing.get_origin(hint) is Annotated:
        for extra in typing.get_args(hint)[1:]:
            if isinstance(extra, WireName):
                return extra.name
    return camel_case(attribute)


def _read(read: Reader, value: Any, name: str) -> Any:
    try:
        return read(value)
    except BadBody as error:
        error.within(name)
        raise


def _reader(hint: Any) -> Reader:
    """Returns the reader of members of this type."""
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    arguments = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (each for each in arguments if each is not type(None))
        return _reader(inner)
    if origin in (tuple, frozenset):
        return functools.partial(_items, origin, _reader(arguments[0]))
    if origin is Mapping:
        key, member = arguments
        return functools.partial(_mapping, _key_reader(key), _reader(member))
    if issubclass(hint, JsonBody):
        of: Reader = hint.of
        return of
    if issubclass(hint, enum.Enum):
        return functools.partial(_name_or_place, list(hint))
    return _SCALARS[hint]


def _items(make: Callable[[Any], Any], read: Reader, value: Any) -> Any:
    if type(value) is not list:
        raise BadBody("no array")
    return make(_read(read, each, f"[{number}]") for number, each in enumerate(value))


def _key_reader(hint: Any) -> Reader:
    """Returns the reader of keys of this type; a key that is an object is given as its JSON text."""
    read = _reader(hint)
    return (lambda key: read(fastjson.loads(key.encode()))) if issubclass(hint, JsonBody) else read


def _mapping(read_key: Reader, read: Reader, value: Any) -> dict[Any, Any]:
    if type(value) is not dict:
        raise BadBody("no object")
    found: dict[Any, Any] = {}
    for key, member in value.items():
        place = f"[{key[:60]}]"
        known = _read(read_key, key, place)
        found[known] = _read(read, member, place)
    return found


def _name_or_place(members: list[enum.Enum], value: Any) -> enum.Enum:
    if type(value) is int and 0 <= value < len(members):
        return members[value]
    for member in members:
        if member.name == value:
            return member
    raise BadBody(f"{str(value)[:60]!r} is none of {', '.join(each.name for each in members)}")


def _whole(value: Any) -> int:
    if type(value) is str and len(value) <= 20:
        try:
            value = int(value)
        except ValueError:
            raise BadBody(f"{value!r} is no whole number") from None
    if type(value) is not int or not LONG_MIN <= value <= LONG_MAX:
        raise BadBody("no whole number of 64 bits")
    return value


def _fraction(value: Any) -> float:
    if type(value) not in (int, float):
        raise BadBody("no number")
    try:
        return float(value)
    except OverflowError:
        raise BadBody("a number out of range") from None


def _text(value: Any) -> str:
    if type(value) is not str:
        raise BadBody("no text")
    return value


def _flag(value: Any) -> bool:
    match value:
        case bool():
            return value
        case 0 | "0" | "false":
            return False
        case 1 | "1" | "true":
            return True
        case _:
            raise BadBody("neither true nor false")


_SCALARS: Mapping[Any, Reader] = {int: _whole, float: _fraction, str: _text, bool: _flag}
