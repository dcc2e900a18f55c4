"""Decides what a claim is worth: its measured figures against the expected ones, both as data. Pure.

An expectation has a part in the verdict. The claim itself (CLAIM) must be met, or it is false. Where the opposite must be
seen for that, it is an INSTEAD. An EXCEPTION shows where the claim ends: met, it holds only on its condition. What software does TODAY makes it outdated.
"""

import enum
import math
from collections.abc import Mapping, Sequence

import attrs

Value = float | str
NEVER = math.inf
"""The figure of a time that did not end in its run."""


class Worth(enum.StrEnum):
    """The worth of a claim, which its figures decide."""

    HOLDS = "holds"
    HOLDS_IF = "holds if"
    OUTDATED = "outdated"
    FALSE = "false"
    NONE = "no verdict"
    NO_EXPERIMENT = "not an experiment"


class Part(enum.StrEnum):
    """The part that an expectation has in a verdict."""

    CLAIM = "claim"
    """The claim itself."""
    EXCEPTION = "exception"
    """It shows where the claim ends: this holds only on the condition that the expectation states."""
    TODAY = "today"
    """It shows that software has changed since the claim was written."""
    INSTEAD = "instead"
    """The opposite of a claim that is false, which has to be seen."""
    PRICE = "price"
    """It states the cost, and decides nothing."""


@attrs.frozen
class Bound:
    """The values that are expected: numbers from `low` to `high`, or a text."""

    low: float = -math.inf
    high: float = math.inf
    text: str | None = None

    def is_met(self, value: Value) -> bool:
        """Returns True if a figure is as expected."""
        if self.text is not None or isinstance(value, str):
            return value == self.text
        return self.low <= value <= self.high

    @property
    def words(self) -> str:
        """As people read it; empty where anything goes."""
        if self.text is not None:
            return self.text
        if self.low == self.high:
            return "never" if self.low == NEVER else f"{self.low:g}"
        if self.low == -math.inf:
            return "" if self.high == math.inf else f"≤ {self.high:g}"
        return f"≥ {self.low:g}" if self.high == math.inf else f"{self.low:g} to {self.high:g}"


ANY = Bound()


def at_least(low: float) -> Bound:
    """This or more; `NEVER` counts as more."""
    return Bound(low=low)


def at_most(high: float) -> Bound:
    """This or less."""
    return Bound(high=high)


def between(low: float, high: float) -> Bound:
    """From one to the other, both included."""
    return Bound(low, high)


def exactly(value: Value) -> Bound:
    """This value alone."""
    return Bound(text=value) if isinstance(value, str) else Bound(value, value)


@attrs.frozen(kw_only=True)
class Expect:
    """The value that a figure has if a claim is worth what its source states."""

    claims: tuple[str, ...]
    figure: str
    """As the experiment names what it measures."""
    bound: Bound = ANY
    part: Part = Part.CLAIM
    condition: str = ""
    """Of an exception: the condition without which the claim does not hold, in words that go on after "holds if"."""


def expect(claims: str, figure: str, bound: Bound = ANY, part: Part = Part.CLAIM, *, condition: str = "") -> Expect:
    """Returns an expectation; `claims` are ids with spaces between them."""
    return Expect(claims=tuple(claims.split()), figure=figure, bound=bound, part=part, condition=condition)


@attrs.frozen(kw_only=True)
class Figure:
    """One measured value. `runs` are the directories it comes from, relative to that of all results."""

    name: str
    value: Value
    unit: str = ""
    runs: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The value with its unit."""
        if isinstance(self.value, str):
            return self.value
        if math.isinf(self.value):
            return "never"
        number = f"{self.value:,.0f}" if self.value == int(self.value) else f"{self.value:,.3g}"
        return f"{number} {self.unit}".rstrip() if self.unit != "x" else f"{number}x"


@attrs.frozen(kw_only=True)
class Comparison:
    """One expectation with the figure that it was compared with."""

    expect: Expect
    figure: Figure
    is_met: bool


@attrs.frozen(kw_only=True)
class Judgement:
    """The worth of a claim, and the comparisons that decided."""

    verdict: Worth
    judged: tuple[Comparison, ...] = ()
    missing: tuple[str, ...] = ()
    """The figures that were not measured."""

    @property
    def condition(self) -> str:
        """The conditions on which it holds; empty without any."""
        if self.verdict is not Worth.HOLDS_IF:
            return ""
        found = (one.expect.condition for one in self.judged if one.expect.part is Part.EXCEPTION)
        return "; ".join(dict.fromkeys(filter(None, found)))

    @property
    def price(self) -> str:
        """The figures that state its price; empty without any."""
        told = (one.figure for one in self.judged if one.expect.part is Part.PRICE)
        return ", ".join(f"{figure.name.replace('_', ' ')} {figure.words}" for figure in told)


def judge(expectations: Sequence[Expect], figures: Mapping[str, Figure]) -> Judgement:
    """Returns what a claim is worth; no verdict if a figure is missing, or if there is nothing to compare."""
    judged = tuple(
        Comparison(expect=one, figure=figures[one.figure], is_met=one.bound.is_met(figures[one.figure].value))
        for one in expectations
        if one.figure in figures
    )
    missing = tuple(dict.fromkeys(one.figure for one in expectations if one.figure not in figures))
    if missing or all(one.part is Part.PRICE for one in expectations):
        return Judgement(verdict=Worth.NONE, judged=judged, missing=missing)
    return Judgement(verdict=_verdict(judged), judged=judged)


def _verdict(judged: Sequence[Comparison]) -> Worth:
    parts: dict[Part, list[bool]] = {part: [] for part in Part}
    for one in judged:
        parts[one.expect.part].append(one.is_met)
    if not all(parts[Part.CLAIM]):
        return Worth.FALSE if all(parts[Part.INSTEAD]) else Worth.NONE
    for part, verdict in ((Part.TODAY, Worth.OUTDATED), (Part.EXCEPTION, Worth.HOLDS_IF)):
        if parts[part] and all(parts[part]):
            return verdict
    return Worth.HOLDS
