"""Values of EDN that JSON does not have, equal exactly where Clojure's `=` calls them equal.

Integers, strings, booleans and nil are Python's. `1/2` is a `Fraction`, `1.5M` a `Decimal`. Vectors are tuples, and a list is a
tuple too (`EdnList`): Clojure's `[1]` and `(1)` are equal. Keywords, symbols, characters, sets and tagged values have types of
their own. A map is a dictionary (`EdnMap`), where text finds a keyword of that name: `value["from"]` is the value of `:from`.

Python calls 1, 1.0, 1M and True equal, Clojure does not; `canonical` keeps them apart wherever the checker compares values.
Records and other tagged values are equal if their tags and what they tag are. A NaN counts as equal to itself.
"""

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import attrs

SHOWN_CHARS_MAX: Final = 120
"""A longer value is cut where it is told in a sentence."""


@attrs.frozen(repr=False)
class Keyword:
    """`:name`, with its namespace as in `:db/id`."""

    name: str

    def __repr__(self) -> str:
        return f":{self.name}"


@attrs.frozen(repr=False)
class Symbol:
    """A bare name."""

    name: str

    def __repr__(self) -> str:
        return self.name


@attrs.frozen(repr=False)
class Character:
    r"""One character, such as `\a` or `\newline`."""

    char: str

    def __repr__(self) -> str:
        return (
            f"\\{_NAME_OF_CHAR.get(self.char) or (self.char if self.char.isprintable() else f'u{ord(self.char):04x}')}"
        )


CHARACTERS: Final = {
    "newline": "\n", "space": " ", "tab": "\t", "return": "\r", "backspace": "\b", "formfeed": "\f",
}  # fmt: skip
_NAME_OF_CHAR: Final = {char: name for name, char in CHARACTERS.items()}


@attrs.frozen(repr=False)
class Tagged:
    """A value with a tag, such as a record or an instant, as it was written."""

    tag: str
    value: Any = attrs.field(eq=False)
    same: Any = attrs.field(default=None, eq=lambda same: canonical(same))
    """The part of the value that decides equality: of an instant its milliseconds, of others the value."""

    @classmethod
    def of(cls, tag: str, value: Any) -> "Tagged":
        """Returns a tagged value that is equal to those with an equal value."""
        return cls(tag, value, value)

    def __repr__(self) -> str:
        return f"#{self.tag} {as_edn(self.value)}"


class EdnList(tuple[Any, ...]):
    """A list, equal to a vector of the same elements."""

    __slots__ = ()


class EdnSet(tuple[Any, ...]):
    """The elements of a set, in an order that does not depend on how it was written. Equal to sets, never to a vector."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, EdnSet):
            return canonical(self) == canonical(other)
        return frozenset(self) == other if isinstance(other, set | frozenset) else False

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(frozenset(self))

    def __repr__(self) -> str:
        return as_edn(self)


@attrs.frozen(repr=False)
class Apart:
    """A key that Python calls equal to another one of the same map, and Clojure does not: 1.0 next to 1."""

    value: Any = attrs.field(eq=lambda value: canonical(value))

    def __repr__(self) -> str:
        return as_edn(self.value)


class EdnMap(dict[Any, Any]):
    """A map. Text finds a keyword of that name where it is no key itself."""

    @classmethod
    def of(cls, pairs: list[tuple[Any, Any]]) -> "EdnMap":
        """Returns the map of these pairs. Raises `KeyError` for a key that comes twice."""
        made, keys = cls(), set[str]()
        for key, value in pairs:
            text = canonical(key)
            if text in keys:
                raise KeyError(text)
            keys.add(text)
            made[Apart(key) if dict.__contains__(made, key) else key] = value
        return made

    def __missing__(self, key: Any) -> Any:
        if isinstance(key, str) and dict.__contains__(self, keyword := Keyword(key)):
            return self[keyword]
        raise KeyError(key)

    def get(self, key: Any, default: Any = None) -> Any:
        """Returns the value of a key, or of the keyword that a text names."""
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or (isinstance(key, str) and dict.__contains__(self, Keyword(key)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and canonical(self) == canonical(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:  # type: ignore[override]  # nothing changes a map that was read
        return hash(canonical(self))

    def __repr__(self) -> str:
        return as_edn(self)


def name_of(value: Any) -> Any:
    """Returns the name of a keyword or symbol as text, any other value as it is."""
    return value.name if isinstance(value, Keyword | Symbol) else value


def bare(value: Any) -> Any:
    """Returns what a tag stands before, where that is a collection: the tag of a pair leaves its parts as they are."""
    while isinstance(value, Tagged) and isinstance(value.value, tuple | dict | Tagged):
        value = value.value
    return value


def canonical(value: Any) -> str:
    """Returns a text that two values share exactly if they are equal, however they were written: neither maps nor sets have an order."""
    match value:
        case str():
            return repr(value)
        case bool() | int() | None:
            return str(value)
        case float():
            return repr(value + 0.0)  # there are two zeros
        case EdnSet():
            return f"#{{{', '.join(sorted(map(canonical, value)))}}}"
        case list() | tuple():
            return f"({', '.join(map(canonical, value))})"
        case dict():
            return f"{{{', '.join(sorted(f'{canonical(key)}: {canonical(each)}' for key, each in value.items()))}}}"
        case Apart():
            return canonical(value.value)
        case Keyword():
            return f":{value.name}"
        case Symbol():
            return f"symbol:{value.name}"
        case Character():
            return f"\\{ord(value.char):x}"
        case Decimal():
            return f"{_decimal(value)}M"
        case Fraction():
            return f"{value.numerator}/{value.denominator}"
        case Tagged():
            return f"#{value.tag} {canonical(value.same)}"
        case _:
            return repr(value)


def _decimal(value: Decimal) -> str:
    """1M and 1.00M are equal, as Clojure compares them."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    short = text.rstrip("0")
    return f"{'-' * sign}{short}e{exponent + len(text) - len(short)}" if short else "0"


def as_edn(value: Any) -> str:
    """Returns a value as EDN has it; lists and dictionaries of JSON as JSON has them."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case None:
            return "nil"
        case bool():
            return str(value).lower()
        case float() if not math.isfinite(value):
            return "##NaN" if math.isnan(value) else "##Inf" if value > 0 else "##-Inf"
        case Decimal():
            return f"{value}M"
        case Fraction():
            return f"{value.numerator}/{value.denominator}"
        case EdnSet():
            return f"#{{{' '.join(map(as_edn, value))}}}"
        case EdnList():
            return f"({' '.join(map(as_edn, value))})"
        case tuple():
            return f"[{' '.join(map(as_edn, value))}]"
        case EdnMap():
            return f"{{{', '.join(f'{as_edn(key)} {as_edn(each)}' for key, each in value.items())}}}"
        case list() | dict():
            return _as_json(value)
        case _:
            return repr(value)


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError:  # a map of a program's whose keys are no text
        return repr(value)


def text_of(value: Any) -> str:
    """Returns a value as it was given: of a JSON history as JSON, of an EDN history as EDN."""
    # JSON can hold halves of characters, which no terminal takes.
    text = "null" if value is None else as_edn(value)
    return text.encode(errors="backslashreplace").decode()


def cut(text: str, chars_max: int = SHOWN_CHARS_MAX) -> str:
    """Returns a text, a long one with its beginning and how long it is."""
    return text if len(text) <= chars_max else f"{text[:chars_max]}... ({len(text):,} characters)"


def quote(value: Any) -> str:
    """Returns a value for a sentence: in quotation marks if it is text, cut if it is long."""
    return cut(repr(value) if isinstance(value, str) else text_of(value))
