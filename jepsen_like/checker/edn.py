"""Reads the part of EDN in which histories are written: nil, booleans, numbers, strings, keywords, symbols, collections.

A tag (`#jepsen.history.Op{...}`) is skipped and what it tags is read as it is; discarded forms and comments are skipped.
Keywords and symbols become strings, vectors, lists and sets become tuples, maps become dictionaries. Nothing is evaluated.
"""

import re
from collections.abc import Iterator
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
_INTEGER = re.compile(r"[+-]?\d+N?\Z")
_FLOAT = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?\Z")
_CLOSING: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_NAMED: Final[dict[str, Any]] = {"nil": None, "true": True, "false": False}
_CHARS: Final = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r"}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


@attrs.define
class EdnError(ValueError):
    """The text is not EDN that this reader knows; `line` counts from 1."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


def forms(text: str) -> Iterator[Any]:
    """Returns every top-level form, one after the other. Raises `EdnError` at the first that cannot be read."""
    reader = _Reader(text)
    while True:
        found, value = reader.form(0)
        if not found:
            return
        yield value


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def _error(self, reason: str) -> EdnError:
        return EdnError(1 + self._text.count("\n", 0, self._at), reason)

    def _next(self) -> tuple[str, str]:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match.lastgroup is None:
            raise self._error("unreadable text")
        self._at = match.end()
        return match.lastgroup, match[match.lastgroup]

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
        return float(token.rstrip("M"))
    return token.removeprefix(":")
