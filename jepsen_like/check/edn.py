r"""Reads EDN as Clojure's reader does, into the values of `edn_values`.

    nil true false   1 1N 0xff 017 2r101 +5   1/2   1.5 1e3 ##Inf ##NaN   1.5M   "text\n\u0041\101"   \a \newline \u0041 \o101
    :keyword :ns/keyword symbol   [vector] (list) #{set} {map} #:ns{map of keys in ns}   #inst #uuid #any/tag value   #_discarded ^meta

At the top of a text tags are skipped, such as `#jepsen.history.Op{...}`: operation maps are records. What Clojure refuses is refused
with its line and the reason. Nothing is evaluated.
"""

import datetime
import functools
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import attrs

from jepsen_like.checker.edn_values import (
    CHARACTERS,
    Character,
    EdnList,
    EdnMap,
    EdnSet,
    Keyword,
    Symbol,
    Tagged,
    canonical,
    cut,
    name_of,
)

DEPTH_MAX: Final = 100

_REST = r"""[^\s,\[\](){}";\\]"""
_TOKEN = re.compile(
    rf"""[\s,]*+(?:;[^\n]*+[\s,]*+)*+
    (?:(?P<open>\#\{{|[\[({{])
      |(?P<close>[\])}}])
      |(?P<string>"(?:[^"\\]++|\\.)*+")
      |(?P<discard>\#_)
      |\#\#(?P<symbolic>{_REST}*)
      |\#:(?P<prefix>{_REST}+)
      |\#(?P<tag>[A-Za-z*!_?=.+$%&-]{_REST}*)
      |(?P<wrong>\#.?)
      |(?P<meta>\^)
      |\\(?P<char>.{_REST}*)
      |(?P<atom>{_REST}+)
      |(?P<end>\Z))""",
    re.VERBOSE | re.DOTALL,
)
_CLOSED: Final = ("open", "close", "string")
"""Tokens that end with themselves."""
_BLANK = re.compile(r"[\s,]*+(?:;[^\n]*+[\s,]*+)*+")
_VALUE = r""":[A-Za-z*!_?<>=.+-][\w*!?<>=.+-]*|-?(?:0|[1-9]\d{0,99})|nil|\[[^][{}()"#;\\^]*\]"""
_FLAT = re.compile(rf"[\s,]*\{{((?::[\w*!?<>=.+-]+ +(?:{_VALUE})(?:, *|(?=\}})))+)\}}", re.ASCII)
"""A map as Jepsen writes nearly all of them: read at once, a fifth of the time."""
_PAIR = re.compile(rf":([\w*!?<>=.+-]+) +({_VALUE})(?:, *)?", re.ASCII)
_INTEGER = re.compile(
    r"([-+]?)(?:(?P<decimal>0|[1-9][0-9]*)|0[xX](?P<hex>[0-9A-Fa-f]+)|0(?P<octal>[0-7]+)"
    r"|(?P<radix>[1-9][0-9]?)[rR](?P<digits>[0-9A-Za-z]+))N?\Z"
)
_OCTAL = re.compile(r"[-+]?0[0-9]+N?\Z")
_RATIO = re.compile(r"([-+]?[0-9]+)/([0-9]+)\Z")
_FLOAT = re.compile(r"([-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)(M?)\Z")
_NUMBER = re.compile(r"[-+]?[0-9]")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_CLOSING: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_NAMED: Final[dict[str, Any]] = {"nil": None, "true": True, "false": False}
_SYMBOLIC: Final = {"Inf": float("inf"), "-Inf": float("-inf"), "NaN": float("nan")}
_NAMES: Final = ("type", "f")
"""Fields of an operation map that are names, however they were written."""
DIGITS_MAX: Final = 4000
"""Of a number."""
OCTAL_MAX: Final = 0o377


def _place(element: Any) -> tuple[bool, int, str]:
    return (False, element, "") if type(element) is int else (True, 0, canonical(element))


@attrs.define
class EdnError(ValueError):
    """The text is not EDN that this reader knows; `line` counts from 1."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


PIECE_CHARS: Final = 1 << 16
FORM_CHARS_MAX: Final = 1 << 26
"""A longer form than this is refused, whatever follows."""


def top_level(text: str, read: Callable[[int], str]) -> Iterator[tuple[int, Any]]:
    """Returns every form of a text that comes piece by piece, each with the line where it begins, counted from 1.

    `text` is the first piece, `read` returns the next of about so many characters, at last an empty one. Members of a
    vector or list at the top count as if alone; maps have text keys. Raises `EdnError` at the first bad form.
    """
    at, line, closing, is_whole = 0, 1, "", False
    while True:
        flat = _FLAT.match(text, at)
        if flat is not None:
            line += text.count("\n", at, flat.start(1) - 1)
            yield line, _flat_map(line, _PAIR.findall(flat[1]))
            line += text.count("\n", flat.start(1), flat.end())
            at = flat.end()
            continue
        reader = _Reader(text, at, is_whole=is_whole)
        try:
            opening = "" if closing else reader.open_array()
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
                raise EdnError(line, f"a form of more than {FORM_CHARS_MAX:,} characters") from None
            continue
        except EdnError as error:
            raise EdnError(line + error.line - 1 - text.count("\n", 0, at), error.reason) from None
        if found:
            yield line + text.count("\n", at, begin), _operation_map(value)
        line += text.count("\n", at, reader.at)
        at = reader.at
        if not found and not closing:
            return
        closing = "" if not found else closing


def _flat_map(line: int, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    try:
        fields = {key: value[1:] if key in _NAMES and value[0] == ":" else _simple(value) for key, value in pairs}
    except (ValueError, ArithmeticError) as error:
        raise EdnError(line, str(error)) from None
    if len(fields) < len(pairs):
        raise EdnError(line, "a map that has a key twice")
    return fields


def _operation_map(value: Any) -> Any:
    """The fields of a record or a map by their names; anything else as it is."""
    while isinstance(value, Tagged):
        value = value.value
    if not isinstance(value, EdnMap):
        return value
    fields = {str(name_of(key)): each for key, each in value.items()}
    return {**fields, **{name: name_of(fields[name]) for name in _NAMES if name in fields}}


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

    def open_array(self) -> str:
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
        while kind in ("discard", "meta"):
            self._need(depth, closing, "nothing to discard" if kind == "discard" else "metadata of nothing")
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
            case "prefix":
                return True, self._prefix_form(token, depth)
            case _:
                return True, self._value(kind, token, depth, closing)

    def _need(self, depth: int, closing: str, otherwise: str) -> Any:
        found, value = self.form(depth + 1, closing)
        if not found:
            raise self._error(otherwise)
        return value

    def _value(self, kind: str, token: str, depth: int, closing: str) -> Any:
        """A value that is no collection, or has a tag. Raises `EdnError`."""
        value: Any = None
        if kind == "tag":
            value = self._need(depth, closing, f"nothing follows the tag #{cut(token)}")
        try:
            match kind:
                case "tag":
                    return _tag(token, value)
                case "string":
                    return _unescape(token[1:-1])
                case "char":
                    return _character(token)
                case "symbolic":
                    return _SYMBOLIC[token]
                case "wrong":
                    raise ValueError(f"{token} begins nothing that EDN has")
                case _:
                    return _atom(token)
        except KeyError:
            raise self._error(f"##{cut(token)} is no number") from None
        except (ValueError, ArithmeticError) as error:
            raise self._error(str(error)) from None

    def _prefix_form(self, prefix: str, depth: int) -> Any:
        """A map whose keys have a namespace in common."""
        kind, token = self._next()
        if prefix.startswith(":") or (kind, token) != ("open", "{"):
            raise self._error(f"a namespace and a map expected, not #:{cut(prefix)}")
        return self._map([(_in_namespace(prefix, key), value) for key, value in self._pairs(depth)])

    def _items(self, opening: str, depth: int) -> list[Any]:
        items: list[Any] = []
        while True:
            found, value = self.form(depth + 1, _CLOSING[opening])
            if not found:
                return items
            items.append(value)

    def _pairs(self, depth: int) -> list[tuple[Any, Any]]:
        items = self._items("{", depth)
        if len(items) % 2:
            raise self._error("a map with a key and no value")
        return list(zip(items[::2], items[1::2], strict=True))

    def _map(self, pairs: list[tuple[Any, Any]]) -> EdnMap:
        try:
            return EdnMap.of(pairs)
        except KeyError:
            raise self._error("a map that has a key twice") from None

    def _collection(self, opening: str, depth: int) -> Any:
        match opening:
            case "{":
                return self._map(self._pairs(depth))
            case "#{":
                return EdnSet(sorted(self._items(opening, depth), key=_place))
            case "(":
                return EdnList(self._items(opening, depth))
            case _:
                return tuple(self._items(opening, depth))


def _in_namespace(prefix: str, key: Any) -> Any:
    if not isinstance(key, Keyword | Symbol):
        return key
    namespace, slash, name = key.name.partition("/")
    if not slash or not namespace:
        return type(key)(f"{prefix}/{key.name}")
    return type(key)(name) if namespace == "_" else key


def _atom(token: str) -> Any:
    if token in _NAMED:
        return _NAMED[token]
    if _NUMBER.match(token):
        return _number(token)
    return _keyword(token) if token[0] == ":" else _symbol(token)


@functools.lru_cache(1 << 12)
def _keyword(token: str) -> Keyword:
    name = token[1:]
    if not name or name[0] == ":" or name[-1] == ":":
        raise ValueError(f"{cut(token)} is no keyword")
    return Keyword(name)


def _symbol(token: str) -> Symbol:
    if token[-1] == ":":
        raise ValueError(f"{cut(token)} is no symbol")
    return Symbol(token)


def _number(token: str) -> Any:
    """Returns the number that Clojure reads. Raises `ValueError` for what it does not read."""
    if len(token) > DIGITS_MAX:
        raise ValueError(f"a number of more than {DIGITS_MAX:,} digits")
    if (match := _INTEGER.match(token)) is not None:
        bases = 10, 16, 8, int(match["radix"] or 0)
        texts = match["decimal"], match["hex"], match["octal"], match["digits"]
        value = next(int(text, base) for base, text in zip(bases, texts, strict=True) if text is not None)
        return -value if match[1] == "-" else value
    if (match := _RATIO.match(token)) is not None:
        ratio = Fraction(int(match[1]), int(match[2]))
        return ratio.numerator if ratio.denominator == 1 else ratio
    if not _OCTAL.match(token) and (match := _FLOAT.match(token)) is not None:
        return Decimal(match[1]) if match[2] else float(match[1])
    raise ValueError(f"{cut(token)} is no number")


def _unescape(text: str) -> str:
    """Returns a string without its escapes. Raises `ValueError` for one that Clojure does not know."""
    return _join(_ESCAPE.sub(_escape, text)) if "\\" in text else text


def _escape(match: re.Match[str]) -> str:
    if match[1] is not None:
        return chr(int(match[1], 16))
    if match[2] is not None:
        return _octal(match[2])
    if match[3] not in _ESCAPES:
        raise ValueError(f"a string with \\{match[3]}, which is no escape of EDN")
    return _ESCAPES[match[3]]


def _join(text: str) -> str:
    """Two halves of a character as the character."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def _octal(digits: str) -> str:
    if int(digits, 8) > OCTAL_MAX:
        raise ValueError(f"the octal escape {digits} is above 377")
    return chr(int(digits, 8))


def _character(token: str) -> Character:
    if len(token) == 1:
        return Character(token)
    if token in CHARACTERS:
        return Character(CHARACTERS[token])
    if re.fullmatch(r"u[0-9A-Fa-f]{4}", token) and not 0xD800 <= int(token[1:], 16) <= 0xDFFF:
        return Character(chr(int(token[1:], 16)))
    if re.fullmatch(r"o[0-7]{1,3}", token):
        return Character(_octal(token[1:]))
    raise ValueError(f"\\{cut(token)} is no character")


_INSTANT = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?)?)?)?(?:Z|([-+])(\d\d):(\d\d))?",
    re.ASCII,
)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - the zone is taken off by hand


def _tag(tag: str, value: Any) -> Tagged:
    """Returns a value with its tag. Raises `ValueError` for an instant or UUID that is none."""
    if tag == "inst":
        return Tagged(tag, value, _instant(value))
    if tag == "uuid":
        if not isinstance(value, str) or not _UUID.fullmatch(value.lower()):
            raise ValueError(f"#uuid {cut(canonical(value))} is no UUID")
        return Tagged(tag, value, value.lower())
    return Tagged.of(tag, value)


def _instant(value: Any) -> int:
    """Returns the milliseconds since 1970 of an instant (RFC 3339, where what is left out at the end is its beginning)."""
    match = _INSTANT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"#inst {cut(canonical(value))} is no instant")
    year, month, day, hour, minute, second = (int(match[at] or (at in (2, 3))) for at in range(1, 7))
    # A leap second is the beginning of the next one, as Clojure's calendar has it.
    is_leap = (minute, second) == (59, 60)
    try:
        begin = datetime.datetime(year, month, day, hour, minute, second - is_leap)  # noqa: DTZ001
    except ValueError:
        raise ValueError(f"#inst {cut(canonical(value))} is no instant") from None
    millis = (begin - _EPOCH) // datetime.timedelta(milliseconds=1) + 1000 * is_leap
    offset = int(match[9] or 0) * 60 + int(match[10] or 0)
    millis -= (-offset if match[8] == "-" else offset) * 60_000
    return millis + int((match[7] or "0")[:3].ljust(3, "0"))


def _simple(token: str) -> Any:
    """The value of what `_VALUE` matches."""
    if token[0] == ":":
        return _keyword(token)
    if token[0] == "[":
        return tuple(_atom(each) for each in token[1:-1].replace(",", " ").split())
    return None if token == "nil" else int(token)
