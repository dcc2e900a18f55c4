"""Reads the part of EDN in which histories are written: nil, booleans, numbers, strings, keywords, symbols, collections.

A tag (`#jepsen.history.Op{...}`) is skipped and what it tags is read as it is; discarded forms and comments are skipped.
Keywords and symbols become strings, vectors and lists become tuples, sets tuples in an order of their own, maps become
dictionaries. Nothing is evaluated.
"""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

import attrs

DEPTH_MAX: Final = 100

_TOKEN = re.compile(
    r"""[\s,]*(?:;[^\n]*[\s,]*)*
    (?:(?P<open>\#\{|[\[({])
      |(?P<close>[\])}])
      |(?P<string>"(?:[^"\\]|\\.)*")
      |(?P<discard>\#_)
      |(?P<tag>\#[A-Za-z][^\s,\[\](){}";]*)
      |\\(?P<char>newline|space|tab|return|.)
      |(?P<atom>[^\s,\[\](){}";]+)
      |(?P<end>\Z))""",
    re.VERBOSE | re.DOTALL,
)
_CLOSED: Final = ("open", "close", "string")
"""Tokens that end with themselves."""
_BLANK = re.compile(r"[\s,]*(?:;[^\n]*[\s,]*)*")
_VALUE = r""":[A-Za-z*!_?<>=.+/-][\w*!?<>=.+/-]*|-?\d+|nil|\[[^][{}()"#;\\]*\]"""
_FLAT = re.compile(rf"[\s,]*\{{((?::[\w*!?<>=.+/-]+ +(?:{_VALUE})(?:, *|(?=\}})))+)\}}")
"""A map as Jepsen writes nearly all of them: read at once, a fifth of the time."""
_PAIR = re.compile(rf":([\w*!?<>=.+/-]+) +({_VALUE})(?:, *)?")
_INTEGER = re.compile(r"[+-]?\d+N?\Z")
_FLOAT = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?\Z")
_CLOSING: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_NAMED: Final[dict[str, Any]] = {"nil": None, "true": True, "false": False}
_CHARS: Final = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r"}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


class EdnSet(tuple[Any, ...]):
    """The elements of a set, in an order that does not depend on how it was written."""

    __slots__ = ()


def written(value: Any) -> str:
    """Returns a text that equal values share, however they were written: neither maps nor sets have an order."""
    match value:
        case dict():
            return f"{{{', '.join(sorted(f'{written(key)}: {written(each)}' for key, each in value.items()))}}}"
        case list() | tuple():
            return f"({', '.join(map(written, value))})"
        case float():
            return repr(value + 0.0)  # there are two zeros
        case _:
            return repr(value)


def _place(element: Any) -> tuple[bool, int, str]:
    return (False, element, "") if type(element) is int else (True, 0, written(element))


@attrs.define
class EdnError(ValueError):
    """The text is not EDN that this reader knows; `line` counts from 1."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


PIECE_CHARS: Final = 1 << 16
FORM_CHARS_MAX: Final = 1 << 27
"""A longer form than this is refused, whatever follows."""


def top_level(text: str, read: Callable[[int], str]) -> Iterator[tuple[int, Any]]:
    """Returns every form of a text that comes piece by piece, each with the line where it begins, counted from 1.

    `text` is the first piece, `read` returns the next one of about so many characters, and an empty one at the end. What
    stands in a vector or list at the top counts as if it stood there alone. Raises `EdnError` at the first form that
    cannot be read.
    """
    at, line, closing, is_whole = 0, 1, "", False
    while True:
        flat = _FLAT.match(text, at)
        if flat is not None:
            line += text.count("\n", at, flat.start(1) - 1)
            yield line, {key: _simple(value) for key, value in _PAIR.findall(flat[1])}
            line += text.count("\n", flat.start(1), flat.end())
            at = flat.end()
            continue
        reader = _Reader(text, at, is_whole=is_whole)
        try:
            opening = "" if closing else reader.opened()
            if opening:
                line += text.count("\n", at, reader.at)
                at, closing = reader.at, _CLOSING[opening]
                continue
            begin = reader.begin()
            found, value = reader.form(0, closing)
        except _Unfinished:
            more = read(max(PIECE_CHARS, len(text) - at))
            text, at, is_whole = text[at:] + more, 0, not more
            if len(text) > FORM_CHARS_MAX:
                raise EdnError(line, "a form that is too long") from None
            continue
        except EdnError as error:
            raise EdnError(line + error.line - 1 - text.count("\n", 0, at), error.reason) from None
        if found:
            yield line + text.count("\n", at, begin), value
        line += text.count("\n", at, reader.at)
        at = reader.at
        if not found and not closing:
            return
        closing = "" if not found else closing


class _Unfinished(Exception):
    """The text may go on in the next piece."""


def forms(text: str) -> Iterator[Any]:
    """Returns every top-level form, one after the other. Raises `EdnError` at the first that cannot be read."""
    reader = _Reader(text)
    while True:
        found, value = reader.form(0)
        if not found:
            return
        yield value


class _Reader:
    """`is_whole`: the text does not go on behind its end."""

    def __init__(self, text: str, at: int = 0, *, is_whole: bool = True) -> None:
        self._text = text
        self.at = at
        self._is_whole = is_whole

    def _error(self, reason: str) -> EdnError:
        return EdnError(1 + self._text.count("\n", 0, self.at), reason)

    def _next(self) -> tuple[str, str]:
        match = _TOKEN.match(self._text, self.at)
        if not self._is_whole and (
            match is None or (match.end() == len(self._text) and match.lastgroup not in _CLOSED)
        ):
            raise _Unfinished
        if match is None or match.lastgroup is None:
            raise self._error("unreadable text")
        self.at = match.end()
        return match.lastgroup, match[match.lastgroup]

    def opened(self) -> str:
        """Goes behind the bracket of a vector or list if one is next, and returns it."""
        before = self.at
        kind, token = self._next()
        if kind == "open" and token in ("[", "("):
            return token
        self.at = before
        return ""

    def begin(self) -> int:
        """Returns where the next form begins, behind blanks and comments."""
        match = _BLANK.match(self._text, self.at)
        return match.end() if match is not None else self.at

    def form(self, depth: int, closing: str = "") -> tuple[bool, Any]:
        """(True, value), or (False, None) at the end of the text or at the expected closing bracket."""
        if depth > DEPTH_MAX:
            raise self._error("nested too deeply")
        kind, token = self._next()
        while kind in ("discard", "tag"):
            if kind == "discard" and not self.form(depth + 1, closing)[0]:
                raise self._error("nothing to discard")
            kind, token = self._next()
        match kind:
            case "open":
                return True, self._collection(token, depth)
            case "close":
                if token != closing:
                    raise self._error(f"unexpected {token}")
                return False, None
            case "end":
                if closing:
                    raise self._error(f"the text ends before {closing}")
                return False, None
            case "string":
                return True, re.sub(r"\\(.)", lambda one: _ESCAPES.get(one[1], one[1]), token[1:-1], flags=re.DOTALL)
            case "char":
                return True, _CHARS.get(token, token)
            case _:
                return True, _atom(token)

    def _collection(self, opening: str, depth: int) -> Any:
        items = []
        while True:
            found, value = self.form(depth + 1, _CLOSING[opening])
            if not found:
                break
            items.append(value)
        if opening == "#{":
            return EdnSet(sorted(items, key=_place))
        if opening != "{":
            return tuple(items)
        if len(items) % 2:
            raise self._error("a map with a key and no value")
        try:
            return dict(zip(items[::2], items[1::2], strict=True))
        except TypeError as error:
            raise self._error("a map whose key is a map") from error


def _atom(token: str) -> Any:
    if token in _NAMED:
        return _NAMED[token]
    if _INTEGER.match(token):
        return int(token.rstrip("N"))
    if _FLOAT.match(token):
        value = float(token.rstrip("M"))
        # A decimal that no float holds stays as it is written, so that it equals no other.
        return value if token[-1] != "M" or Decimal(repr(value)) == Decimal(token[:-1]) else token
    return token.removeprefix(":")


def _simple(token: str) -> Any:
    """The value of what `_VALUE` matches."""
    if token[0] == ":":
        return token[1:]
    if token[0] == "[":
        return tuple(_atom(each) for each in token[1:-1].replace(",", " ").split())
    return None if token == "nil" else int(token)
