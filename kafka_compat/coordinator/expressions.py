"""Expressions over names of topics: the syntax of RE2 as Apache Kafka takes it (KIP-848), matched without backtracking.

An expression becomes an automaton whose states are all followed at once (Thompson 1968), so one character costs at
most one visit of each state. Sets of states that come again are remembered, so most characters cost one look-up.
Only characters that names of topics have are kept. Case, dots and lines follow RE2's defaults.
"""

import string
import unicodedata
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from attrs import define, field

STATES_MAX: Final = 5_000
"""The largest automaton; an expression with more states is refused."""
NESTING_MAX: Final = 100
REPEAT_MAX: Final = 1_000
"""The largest count of a repetition, as in RE2."""
COUNTS_MAX: Final = len("{1000,1000}")
REMEMBERED_MAX: Final = 100_000
"""States in all sets that are remembered; beyond that all are forgotten."""
WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
NAMES: Final = WORD | frozenset(".-")
"""The characters of names."""

Characters: TypeAlias = frozenset[str]
NOWHERE: Final[Characters] = frozenset()
_PERL: Final = {"d": frozenset(string.digits), "w": WORD, "s": NOWHERE}
_POSIX: Final = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": NAMES,
    "blank": NOWHERE,
    "cntrl": NOWHERE,
    "digit": frozenset(string.digits),
    "graph": NAMES,
    "lower": frozenset(string.ascii_lowercase),
    "print": NAMES,
    "punct": frozenset(".-_"),
    "space": NOWHERE,
    "upper": frozenset(string.ascii_uppercase),
    "word": WORD,
    "xdigit": frozenset(string.hexdigits),
}
OCTAL: Final = frozenset(string.octdigits)
HEX_MAX: Final = 5
_CONTROLS: Final = dict(zip("afnrtv", "\a\f\n\r\t\v", strict=True))
_ASSERTED: Final = {"A": "^", "z": "$", "b": "b", "B": "B"}


class BadExpression(Exception):
    """The text is no expression, or one that is too large; the message has the reason."""


# ------------------------------------------------------------------------ the automaton


@define
class State:
    """One state. With `characters` it takes one of them; else it goes on at once, where `asserts` holds."""

    following: list[int]
    characters: Characters | None = None
    asserts: str = ""


Build: TypeAlias = Callable[["Automaton", int], int]
"""Adds states that lead to a given one, and returns the first of them."""


@define
class Automaton:
    """States by number; 0 is the end of a match."""

    states: list[State] = field(factory=lambda: [State([])])
    built: int = 0

    def add(self, state: State) -> int:
        """Returns the number of a new state."""
        self.states.append(state)
        return len(self.states) - 1

    def count(self) -> None:
        """Counts one part. Raises `BadExpression` beyond the limit."""
        self.built += 1
        if self.built > STATES_MAX:
            raise BadExpression(f"it has more than {STATES_MAX} states")


def _take(characters: Characters) -> Build:
    def build(automaton: Automaton, after: int) -> int:
        automaton.count()
        return automaton.add(State([after], characters))

    return build


def _assert(kind: str) -> Build:
    def build(automaton: Automaton, after: int) -> int:
        automaton.count()
        return automaton.add(State([after], asserts=kind))

    return build


def _in_turn(parts: list[Build]) -> Build:
    def build(automaton: Automaton, after: int) -> int:
        automaton.count()
        for part in reversed(parts):
            after = part(automaton, after)
        return after

    return build


def _one_of(branches: list[Build]) -> Build:
    def build(automaton: Automaton, after: int) -> int:
        automaton.count()
        return automaton.add(State([branch(automaton, after) for branch in branches]))

    return build


def _repeat(part: Build, least: int, most: int | None) -> Build:
    def build(automaton: Automaton, after: int) -> int:
        automaton.count()
        first = after
        if most is None:
            loop = State([])
            first = automaton.add(loop)
            loop.following = [part(automaton, first), after]
        else:
            for _ in range(most - least):
                first = automaton.add(State([part(automaton, first), after]))
        for _ in range(least):
            first = part(automaton, first)
        return first

    return build


# ------------------------------------------------------------------------ the syntax


@define
class Reader:
    """Reads the text of an expression from left to right."""

    text: str
    at: int = 0
    depth: int = 0
    folds: bool = False
    """True where upper and lower case are the same."""

    def peek(self, token: str) -> bool:
        """Returns True if `token` comes next."""
        return self.text.startswith(token, self.at)

    def skip(self, token: str) -> bool:
        """Reads `token` if it comes next."""
        found = self.peek(token)
        self.at += len(token) if found else 0
        return found

    def next(self, missing: str) -> str:
        """Reads one character. Raises `BadExpression` at the end."""
        if self.at >= len(self.text):
            raise BadExpression(missing)
        self.at += 1
        return self.text[self.at - 1]

    def until(self, end: str, missing: str) -> str:
        """Reads up to `end` and over it. Raises `BadExpression` without one."""
        found = self.text.find(end, self.at)
        if found < 0:
            raise BadExpression(missing)
        read, self.at = self.text[self.at : found], found + len(end)
        return read

    def fold(self, characters: Iterable[str]) -> Characters:
        """Returns the characters of names among these, in both cases if case is ignored."""
        found = frozenset(characters)
        return (found | {each.swapcase() for each in found} if self.folds else found) & NAMES

    # ------------------------------------------------------------- structure

    def whole(self) -> Build:
        """Reads the whole text."""
        build = self.branches()
        if self.at < len(self.text):
            raise BadExpression("unexpected )")
        return build

    def branches(self) -> Build:
        """Reads alternatives up to the end or a closing parenthesis."""
        folds = self.folds
        branches = [self.sequence()]
        while self.skip("|"):
            branches.append(self.sequence())
        self.folds = folds
        return branches[0] if len(branches) == 1 else _one_of(branches)

    def sequence(self) -> Build:
        """Reads what follows each other."""
        parts: list[Build] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            if self.skip("\\Q"):
                end = self.text.find("\\E", self.at)
                quoted = self.text[self.at :] if end < 0 else self.text[self.at : end]
                self.at = len(self.text) if end < 0 else end + 2
                parts += (_take(self.fold(each)) for each in quoted[:-1])
                if not quoted:
                    continue
                part: Build | None = _take(self.fold(quoted[-1]))
            else:
                part = self.atom()
            if part is not None:
                parts.append(self.repeat(part))
        return _in_turn(parts)

    def repeat(self, part: Build) -> Build:
        """Reads the repetition that follows a part, if any."""
        counts = self.counts()
        if counts is None:
            return part
        self.skip("?")
        begin = self.at
        if self.counts() is not None:
            raise BadExpression(f"invalid nested repetition operator: {self.text[begin : self.at]}")
        return _repeat(part, *counts)

    def counts(self) -> tuple[int, int | None] | None:
        """Reads a repetition; None if no such comes next."""
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.skip(sign):
                return counts
        end = self.text.find("}", self.at, self.at + COUNTS_MAX)
        if not self.peek("{") or end < 0:
            return None
        least, comma, most = self.text[self.at + 1 : end].partition(",")
        if not _is_count(least) or not (most == "" or _is_count(most)):
            return None
        self.at = end + 1
        first = int(least)
        last = first if not comma else int(most) if most else None
        if first > REPEAT_MAX or (last is not None and not first <= last <= REPEAT_MAX):
            raise BadExpression(f"invalid repeat count: {{{least}{comma}{most}}}")
        return first, last

    def atom(self) -> Build | None:
        """Reads one part; None for flags, which are none."""
        begin = self.at
        if self.counts() is not None:
            raise BadExpression(f"missing argument to repetition operator: {self.text[begin : self.at]}")
        match character := self.next("nothing follows"):
            case "(":
                return self.group()
            case "[":
                return _take(self.brackets())
            case ".":
                return _take(NAMES)
            case "^" | "$":
                return _assert(character)
            case "\\":
                escaped = self.next("trailing \\")
                if escaped in _ASSERTED:
                    return _assert(_ASSERTED[escaped])
                return _take(self.escape(escaped))
            case _:
                return _take(self.fold(character))

    def group(self) -> Build | None:
        """Reads a group whose parenthesis is read."""
        folds = self.folds
        if self.skip("?"):
            if self.skip("P<") or (self.peek("<") and not self.peek("<=") and not self.peek("<!") and self.skip("<")):
                name = self.until(">", "invalid named capture")
                if not name or not set(name) <= WORD:
                    raise BadExpression("invalid named capture")
            elif not self.flags():
                return None
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise BadExpression(f"it nests more than {NESTING_MAX} deep")
        build = self.branches()
        self.depth -= 1
        if not self.skip(")"):
            raise BadExpression("missing closing )")
        self.folds = folds
        return build

    def flags(self) -> bool:
        """Reads flags. Returns True if a group with them follows, False if they hold from here on."""
        sets, seen = True, 0
        while True:
            character = self.next("missing closing )")
            if character in ":)" and (sets or seen):
                return character == ":"
            if character == "-" and sets:
                sets, seen = False, 0
            elif character in "imsU":
                seen += 1
                self.folds = sets if character == "i" else self.folds
            else:
                raise BadExpression("invalid or unsupported Perl syntax")

    # ------------------------------------------------------------- characters

    def escape(self, escaped: str) -> Characters:
        """Reads the rest of an escape that stands for characters."""
        if escaped.lower() in _PERL:
            found = _PERL[escaped.lower()]
            return found if escaped.islower() else NAMES - found
        if escaped in "pP":
            return self.category(negates=escaped == "P")
        return self.fold(self.character(escaped))

    def character(self, escaped: str) -> str:
        """Reads the rest of an escape that stands for one character."""
        if escaped in _CONTROLS:
            return _CONTROLS[escaped]
        if escaped.isascii() and not escaped.isalnum():
            return escaped
        wrong = f"invalid escape sequence: \\{escaped}"
        if escaped == "x":
            digits = self.until("}", wrong) if self.skip("{") else self.next(wrong) + self.next(wrong)
            if digits and len(digits) <= HEX_MAX and set(digits) <= set(string.hexdigits):
                return chr(int(digits, 16))
        elif escaped in OCTAL and (escaped == "0" or self.octal_follows()):
            digits = escaped
            while len(digits) < 3 and self.octal_follows():
                digits += self.next(wrong)
            return chr(int(digits, 8))
        raise BadExpression(wrong)

    def octal_follows(self) -> bool:
        """Returns True if an octal digit comes next."""
        return self.text[self.at : self.at + 1] in OCTAL

    def category(self, *, negates: bool) -> Characters:
        """Reads the name of a general category of Unicode."""
        name = self.until("}", "invalid character class range: \\p") if self.skip("{") else self.next("trailing \\p")
        if name.startswith("^"):
            name, negates = name[1:], not negates
        if not name.isascii() or len(name) not in (1, 2) or name[0] not in "CLMNPSZ":
            raise BadExpression(f"invalid character class range: \\p{{{name}}}")
        found = self.fold(each for each in NAMES if unicodedata.category(each).startswith(name))
        return NAMES - found if negates else found

    def brackets(self) -> Characters:
        """Reads the characters within brackets, the first of which is read."""
        negates, found, missing = self.skip("^"), set[str](), "missing closing ]"
        first = True
        while first or not self.peek("]"):
            first = False
            if self.skip("[:"):
                name = self.until(":]", missing)
                posix = _POSIX.get(name.removeprefix("^"))
                if posix is None:
                    raise BadExpression(f"invalid character class range: [:{name}:]")
                found |= NAMES - posix if name.startswith("^") else self.fold(posix)
                continue
            low = self.next(missing)
            if low == "\\":
                low = self.next(missing)
                if low.lower() in _PERL or low in "pP":
                    found |= self.escape(low)
                    continue
                low = self.character(low)
            high = low
            if self.peek("-") and not self.peek("-]"):
                self.skip("-")
                high = self.next(missing)
                high = self.character(self.next(missing)) if high == "\\" else high
                if high < low:
                    raise BadExpression(f"invalid character class range: {low}-{high}")
            found |= self.fold(each for each in NAMES | {low} if low <= each <= high)
        self.skip("]")
        return NAMES - found if negates else frozenset(found)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(REPEAT_MAX))


# ------------------------------------------------------------------------ matching


@define(eq=False)
class Place:
    """All states in which an automaton may be before its next character."""

    states: frozenset[int]
    before: str
    """The character before; empty at the beginning."""
    following: dict[str, "Place"] = field(factory=dict)
    accepts: bool | None = None
    """True if a name may end here; None before that was asked."""


class Expression:
    """One expression. Raises `BadExpression` for a text that is none."""

    def __init__(self, text: str) -> None:
        automaton = Automaton()
        first = Reader(text).whole()(automaton, 0)
        self._states = automaton.states
        self._first = frozenset({first})
        self._places: dict[tuple[frozenset[int], str], Place] = {}
        self._remembered = 0
        self.start = Place(self._first, "")

    def matches(self, name: str) -> bool:
        """Returns True if the whole name matches."""
        place = self.start
        for character in name:
            place, _ = self.step(place, character)
        return self.accepts(place)

    def step(self, place: Place, character: str) -> tuple[Place, int]:
        """Returns the place after one character of a name, and the number of states that this took to visit."""
        known = place.following.get(character)
        if known is not None:
            return known, 1
        reached = self._close(place, character)
        states = frozenset(
            following
            for number in reached
            if character in (self._states[number].characters or NOWHERE)
            for following in self._states[number].following
        )
        key = states, "w" if character in WORD else "-"
        found = self._places.get(key)
        if found is None:
            self._remembered += len(states) + 1
            if self._remembered > REMEMBERED_MAX:
                self._places.clear()
                self._remembered = 0
                self.start = Place(self._first, "")
            found = self._places[key] = Place(*key)
        place.following[character] = found
        return found, len(reached) + 1

    def accepts(self, place: Place) -> bool:
        """Returns True if a name that ends here matches."""
        if place.accepts is None:
            place.accepts = 0 in self._close(place, "")
        return place.accepts

    def _close(self, place: Place, character: str) -> set[int]:
        """Return all states that are reached before the next character, which is empty at the end."""
        reached: set[int] = set()
        waiting = list(place.states)
        while waiting:
            number = waiting.pop()
            if number in reached:
                continue
            reached.add(number)
            state = self._states[number]
            if state.characters is None and _holds(state.asserts, place.before, character):
                waiting += state.following
        return reached


def _holds(asserted: str, before: str, after: str) -> bool:
    match asserted:
        case "^":
            return not before
        case "$":
            return not after
        case "b" | "B":
            return ((before in WORD) != (after in WORD)) == (asserted == "b")
        case _:
            return True
