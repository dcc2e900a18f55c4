"""JSON as RocketMQ's Java programs write it with fastjson.

It reads all of that, and writes standard JSON if possible. Pure. fastjson writes keys of maps by their type: numbers
without quotes (`{0:"a"}`), and objects (`{{"queueId":1}:{...}}`). Both are read. A key that is an object is returned as
its JSON text. Numbers are written as quoted keys, which all clients accept; a key that is an object can only be written
as fastjson does.
"""

import enum
import json
import re
from collections.abc import Mapping, Set
from typing import Any, Final

from raft.net.decoder import Buffer
from rocketmq_compat.remoting.errors import BadBody

DEPTH_MAX: Final = 64
LENIENT_BYTES_MAX: Final = 256 * 1024
"""The largest text that is read if it is not standard JSON: reading takes up to 1 us a byte, and blocks other work."""
_BLANKS = re.compile(r"[ \t\r\n]*")
_BARE = re.compile(r"[\w$.+-]+")
_decoder = json.JSONDecoder()
_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


# Reading


def loads(content: Buffer) -> Any:
    """Returns the value. Raises `BadBody` for text that is neither JSON nor fastjson's dialect of it."""
    try:
        text = bytes(content).decode()
    except UnicodeDecodeError as error:
        raise BadBody(f"it is not UTF-8: {error.reason} at byte {error.start}") from None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        if len(content) > LENIENT_BYTES_MAX:
            raise BadBody(f"{len(content)} bytes that are not standard JSON") from None
        value = _Lenient(text).whole()
    if "\\ud" in text or "\\uD" in text:
        _require_unicode(value)
    return value


def _require_unicode(value: Any) -> None:
    """Half of a surrogate pair can be written in JSON, but not in UTF-8."""
    try:
        _dump(value).encode()
    except UnicodeEncodeError:
        raise BadBody("a text with half of a surrogate pair") from None
    except RecursionError:
        raise BadBody("it is nested too deep") from None


class _Lenient:
    """Reads one text of fastjson's dialect."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Any:
        value = self._value(0)
        if self._next():
            raise self._wrong("the text goes on")
        return value

    def _wrong(self, detail: str) -> BadBody:
        return BadBody(f"it is no JSON: {detail} at character {self._at}")

    def _next(self) -> str:
        """Returns the next character that is not a blank and makes it the place; empty at the end."""
        match = _BLANKS.match(self._text, self._at)
        assert match is not None, "blanks may be none"
        self._at = match.end()
        return self._text[self._at : self._at + 1]

    def _value(self, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise self._wrong("nested too deep")
        match self._next():
            case "{":
                return self._object(depth)
            case "[":
                return self._array(depth)
            case '"':
                return self._string()
            case _:
                return self._literal()

    def _string(self) -> str:
        try:
            value, self._at = _decoder.raw_decode(self._text, self._at)
        except ValueError as error:
            raise self._wrong(str(error)) from None
        return str(value)

    def _bare(self) -> str:
        match = _BARE.match(self._text, self._at)
        if match is None:
            raise self._wrong("no value")
        self._at = match.end()
        return match[0]

    def _literal(self) -> Any:
        word = self._bare()
        try:
            return json.loads(word)
        except ValueError:
            raise self._wrong(f"{word[:20]!r} is no value") from None

    def _array(self, depth: int) -> list[Any]:
        self._at += 1
        values: list[Any] = []
        while self._next() != "]":
            if values:
                self._take(",")
            values.append(self._value(depth + 1))
        self._at += 1
        return values

    def _object(self, depth: int) -> dict[str, Any]:
        self._at += 1
        values: dict[str, Any] = {}
        first = True
        while self._next() != "}":
            if not first:
                self._take(",")
            first = False
            key = self._key(depth)
            self._take(":")
            values[key] = self._value(depth + 1)
        self._at += 1
        return values

    def _key(self, depth: int) -> str:
        match self._next():
            case '"':
                return self._string()
            case "{" | "[":
                return _dump(self._value(depth + 1))
            case _:
                return self._bare()

    def _take(self, wanted: str) -> None:
        if self._next() != wanted:
            raise self._wrong(f"no {wanted!r}")
        self._at += 1


# Writing


class JsonText(str):
    """JSON that was written before, and is put into a longer text as it is."""

    __slots__ = ()


def dumps(value: object) -> str:
    """Returns the text of a value of mappings, sequences, texts, numbers and None.

    A key that is a mapping is written as an object. Members whose value is None are left out, as fastjson does.
    """
    match value:
        case None:
            return "null"
        case enum.Enum():
            return _dump(value.name)
        case JsonText():
            return str(value)
        case str() | bool() | int() | float():
            return _dump(value)
        case Mapping():
            members = ((key, dumps(member)) for key, member in value.items() if member is not None)
            return "{" + ",".join(f"{_key_text(key)}:{member}" for key, member in members) + "}"
        case list() | tuple() | Set():
            return "[" + ",".join(map(dumps, value)) + "]"
        case _:
            return dumps(value.members())  # type: ignore[attr-defined]  # a body; anything else is a mistake


def _key_text(key: object) -> str:
    match key:
        case str():
            return _dump(key)
        case int():
            return f'"{int(key)}"'
        case _:
            return dumps(key)
