"""Compares the behaviour of two systems under the same load and faults, figure by figure, each within a stated tolerance.

Faults hit the present leader, and elections take their time. So times and shares may differ by what one machine and one draw make of them. A
promise may not: what one run has at all the other one must have, too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from jepsen_like.record.behaviour import (
    ENDS,
    EPOCHS,
    OFFSETS,
    RECORDS,
    RECOVERY,
    REDELIVERY,
    SPEED,
    VERDICT,
    Trait,
    Value,
)

SHARE_MAX: Final = 0.05
"""Shares may differ by this much."""
SHARE_SEEN: Final = 0.01
"""An end that is this frequent in one run has to be seen in the other."""
RECOVERY_S: Final = 2.0
EPOCHS_MAX: Final = 2.0
NOT_DONE: Final = "not done"
"""In place of the recovery from a fault that only the other run had."""
TIMES: Final = 2.0
"""Times and epochs may differ by this factor."""


@attrs.frozen
class Tolerance:
    """The distance that two figures of an aspect may have, in words and as a rule."""

    words: str
    exceeds: Callable[[Value, Value], bool]
    absent: Value = None
    """The value of a figure that only the other run has."""


@attrs.frozen
class Compared:
    """One figure of both runs."""

    aspect: str
    name: str
    first: Value
    beside: Value
    differs: bool


def _number(value: Value) -> float:
    assert not isinstance(value, str)
    return 0.0 if value is None else value


def _one_alone(first: Value, beside: Value) -> bool:
    """Only one run has any."""
    return (_number(first) > 0) is not (_number(beside) > 0)


def _ends_apart(first: Value, beside: Value) -> bool:
    one, other = sorted((_number(first), _number(beside)))
    return other - one > SHARE_MAX or (one == 0 and other >= SHARE_SEEN)


def _shares_apart(first: Value, beside: Value) -> bool:
    return abs(_number(first) - _number(beside)) > SHARE_MAX


def _times_apart(first: Value, beside: Value) -> bool:
    if first is None or beside is None or NOT_DONE in (first, beside):
        return first != beside
    one, other = sorted((_number(first), _number(beside)))
    return other - one > RECOVERY_S and other > TIMES * one


def _epochs_apart(first: Value, beside: Value) -> bool:
    one, other = sorted((_number(first), _number(beside)))
    return other - one > EPOCHS_MAX and other > TIMES * one


TOLERANCES: Final[Mapping[str, Tolerance]] = {
    VERDICT: Tolerance("the same", lambda first, beside: first != beside),
    RECORDS: Tolerance("both none, or both some", _one_alone),
    ENDS: Tolerance(
        f"{SHARE_MAX:.0%} of the action; what is {SHARE_SEEN:.0%} or more in one is in both", _ends_apart, absent=0.0
    ),
    OFFSETS: Tolerance("both none, or both some", _one_alone),
    EPOCHS: Tolerance(f"{EPOCHS_MAX:g}, or the factor {TIMES:g}", _epochs_apart),
    REDELIVERY: Tolerance(f"{SHARE_MAX:.0%} of what groups were given", _shares_apart),
    RECOVERY: Tolerance(f"{RECOVERY_S:g} s, or the factor {TIMES:g}; both recover, or neither", _times_apart, NOT_DONE),
    SPEED: Tolerance("any: the systems are built differently", lambda first, beside: False),
}
"""By aspect, in the order in which people read them."""


def _action(key: tuple[str, str]) -> tuple[str, str]:
    aspect, name = key
    return aspect, name.partition(" ")[0]


def compare(first: Sequence[Trait], beside: Sequence[Trait]) -> list[Compared]:
    """Returns the figures of both by aspect, those of the first run in its order, then what only the other one has.

    The ends of an action that one run has no figures of, as it was rare there, are left out.
    """
    values = {(each.aspect, each.name): each.value for each in first}
    others = {(each.aspect, each.name): each.value for each in beside}
    common = {_action(key) for key in values} & {_action(key) for key in others}
    found = []
    for aspect, tolerance in TOLERANCES.items():
        for key in (key for key in {**values, **others} if key[0] == aspect):
            if aspect == ENDS and _action(key) not in common:
                continue
            one, other = values.get(key, tolerance.absent), others.get(key, tolerance.absent)
            found.append(Compared(*key, one, other, tolerance.exceeds(one, other)))
    return found
