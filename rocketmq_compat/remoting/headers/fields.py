"""The language of the tables: a header is a class whose attributes are the ext fields of one request or answer.

    class GetMaxOffsetRequestHeader(ExtHeader):
        topic: Name
        queue_id: Count

`queue_id` is `queueId` on the wire, unless the type names it otherwise (`Annotated[str, WireName("clientID")]`). A
field without a default is required; None is not written. Reading accepts the variants of real clients: `1`, `true` and
`True` are true, an empty text is a missing number where a number may be missing, and unknown fields are ignored. It
refuses the rest with `BadHeader`.
"""

import functools
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Self, TypeVar

import attrs

from log.values import ValueType, frozen
from rocketmq_compat.remoting.errors import BadHeader

NAME_CHARACTERS_MAX: Final = 255
_SHOWN_CHARACTERS: Final = 60


@frozen
class NumberRange:
    """A number from `least` to `most`."""

    least: int
    most: int


@frozen
class TextLength:
    """A text of so many characters."""

    least: int
    most: int


@frozen
class WireName:
    """The name of a field on the wire, if it does not follow from its attribute."""

    name: str


Int = Annotated[int, NumberRange(-(2**31), 2**31 - 1)]
Long = Annotated[int, NumberRange(-(2**63), 2**63 - 1)]
Count = Annotated[int, NumberRange(0, 2**31 - 1)]
Offset = Annotated[int, NumberRange(0, 2**63 - 1)]
Name = Annotated[str, TextLength(1, NAME_CHARACTERS_MAX)]
"""Of a topic, a group, a client, a broker: not empty."""

Parser = Callable[[str, str], Any]
"""Returns the value of a field from its name and its text. Raises `BadHeader`."""
HeaderT = TypeVar("HeaderT", bound="ExtHeader")
_WRITERS: Final[Mapping[type, Callable[[Any], str]]] = {bool: {True: "true", False: "false"}.__getitem__}
"""The texts of values; others have that of `str`."""


class ExtHeader(metaclass=ValueType):
    """The base of all headers."""

    __slots__ = ()

    @classmethod
    def read(cls, ext: Mapping[str, str]) -> Self:
        """Returns the header with the values of the ext fields.

        Raises `BadHeader` for a missing field or an invalid value.
        """
        return read_fields(cls, plan(cls), ext)

    def ext(self) -> dict[str, str]:
        """Returns the ext fields, to be sent."""
        return written_fields(self, plan(type(self)))


@frozen
class ExtField:
    """One ext field: the attribute, its name on the wire, how its text is read, and whether it must be there."""

    attribute: str
    name: str
    parse: Parser
    required: bool


def read_fields(cls: type[HeaderT], fields: tuple[ExtField, ...], ext: Mapping[str, str]) -> HeaderT:
    """Returns a header of these fields. Raises `BadHeader` as `ExtHeader.read` does."""
    values: dict[str, Any] = {}
    for field in fields:
        text = ext.get(field.name)
        if text is not None:
            values[field.attribute] = field.parse(field.name, text)
        elif field.required:
            raise BadHeader("it is missing", field.name)
    return cls(**values)


def written_fields(header: ExtHeader, fields: tuple[ExtField, ...]) -> dict[str, str]:
    """Returns the ext fields of a header."""
    ext: dict[str, str] = {}
    for field in fields:
        value = getattr(header, field.attribute)
        if value is not None:
            ext[field.name] = _WRITERS.get(type(value), str)(value)
    return ext


@functools.cache
def plan(cls: type[Any]) -> tuple[ExtField, ...]:
    """Returns the fields of a header class, in the order of its table."""
    hints = typing.get_type_hints(cls, include_extras=True)
    fields: list[ExtField] = []
    for attribute in attrs.fields(cls):
        parse, name = _meaning(hints[attribute.name])
        fields.append(
            ExtField(attribute.name, name or camel_case(attribute.name), parse, attribute.default is attrs.NOTHING)
        )
    return tuple(fields)


def camel_case(attribute: str) -> str:
    """Returns the name on the wire that follows from an attribute: `queue_id` is `queueId`."""
    return re.sub("_([a-z0-9])", lambda match: match[1].upper(), attribute)


def _meaning(hint: Any) -> tuple[Parser, str | None]:
    """Returns the parser of a field of this type, and the field's own name on the wire if it has one."""
    name: str | None = None
    parse: Parser | None = None
    if typing.get_origin(hint) is Annotated:
        hint, *extras = typing.get_args(hint)
        for extra in extras:
            match extra:
                case WireName():
                    name = extra.name
                case NumberRange(least, most):
                    parse = functools.partial(_number, least, most)
                case TextLength(least, most):
                    parse = functools.partial(_text, least, most)
                case _:
                    raise TypeError(f"an ext field knows no {extra}")
        if parse is not None:
            return parse, name
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        (inner,) = (each for each in typing.get_args(hint) if each is not type(None))
        inner_parse, inner_name = _meaning(inner)
        return inner_parse if inner is str else functools.partial(_optional, inner_parse), name or inner_name
    match hint:
        case type() if hint is bool:
            return _flag, name
        case type() if hint is str:
            return _any_text, name
        case _:
            raise TypeError(f"an ext field cannot be of type {hint}")


def _optional(parse: Parser, name: str, text: str) -> Any:
    """Returns the parsed value. An empty text stands for a missing field, as some clients write it."""
    return parse(name, text) if text else None


def _number(least: int, most: int, name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise BadHeader(f"{text[:_SHOWN_CHARACTERS]!r} is no whole number", name) from None
    if not least <= value <= most:
        raise BadHeader(f"{text[:_SHOWN_CHARACTERS]} is not from {least} to {most}", name)
    return value


def _text(least: int, most: int, name: str, text: str) -> str:
    if not least <= len(text) <= most:
        raise BadHeader(f"it has {len(text)} characters, not {least} to {most}", name)
    return text


def _any_text(name: str, text: str) -> str:
    return text


def _flag(name: str, text: str) -> bool:
    match text.lower():
        case "true" | "1":
            return True
        case "false" | "0" | "":
            return False
        case _:
            raise BadHeader(f"{text[:_SHOWN_CHARACTERS]!r} is neither true nor false", name)
