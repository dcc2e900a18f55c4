"""A verdict is computed from figures: a wrong figure turns it, and a missing one leaves none."""

import math

import pytest

from jepsen_like.claims.judgement import (
    NEVER,
    Figure,
    Part,
    Value,
    Worth,
    at_least,
    at_most,
    between,
    exactly,
    expect,
    judge,
)

CLAIM = "C01"
CLAIMED = expect(CLAIM, "lost", exactly(0))
EXCEPTION = expect(CLAIM, "lost_without_flush", at_least(1), Part.EXCEPTION, condition="each copy is flushed")
TODAY = expect(CLAIM, "default", exactly("all"), Part.TODAY)
INSTEAD = expect(CLAIM, "elected_by", exactly("controller"), Part.INSTEAD)
SERVES = expect(CLAIM, "serves", exactly(1))
PRICE = expect(CLAIM, "rto", at_most(1), Part.PRICE)


def figures(**values: Value) -> dict[str, Figure]:
    return {name: Figure(name=name, value=value) for name, value in values.items()}


@pytest.mark.parametrize(
    ("expectations", "measured", "verdict"),
    [
        ((CLAIMED,), {"lost": 0}, Worth.HOLDS),
        ((CLAIMED,), {"lost": 1}, Worth.FALSE),
        ((CLAIMED, SERVES), {"lost": 0, "serves": 0}, Worth.FALSE),
        ((CLAIMED, EXCEPTION), {"lost": 0, "lost_without_flush": 5}, Worth.HOLDS_IF),
        ((CLAIMED, EXCEPTION), {"lost": 0, "lost_without_flush": 0}, Worth.HOLDS),
        ((CLAIMED, EXCEPTION), {"lost": 2, "lost_without_flush": 5}, Worth.FALSE),
        ((CLAIMED, TODAY), {"lost": 0, "default": "all"}, Worth.OUTDATED),
        ((CLAIMED, TODAY), {"lost": 0, "default": "1"}, Worth.HOLDS),
        ((CLAIMED, INSTEAD), {"lost": 3, "elected_by": "controller"}, Worth.FALSE),
        ((CLAIMED, INSTEAD), {"lost": 3, "elected_by": "replicas"}, Worth.NONE),
        ((CLAIMED, PRICE), {"lost": 0, "rto": 9}, Worth.HOLDS),
        ((PRICE,), {"rto": 0.5}, Worth.NONE),
        ((CLAIMED,), {}, Worth.NONE),
        ((), {"lost": 0}, Worth.NONE),
    ],
)
def test_a_verdict_follows_from_the_figures(
    expectations: tuple[object, ...], measured: dict[str, Value], verdict: Worth
) -> None:
    assert judge(expectations, figures(**measured)).verdict is verdict  # type: ignore[arg-type]


def test_a_missing_figure_is_named() -> None:
    assert judge([CLAIMED, EXCEPTION], figures(lost=0)).missing == ("lost_without_flush",)


def test_a_condition_is_told_where_it_decided() -> None:
    assert judge([CLAIMED, EXCEPTION], figures(lost=0, lost_without_flush=1)).condition == "each copy is flushed"
    assert judge([CLAIMED, EXCEPTION], figures(lost=0, lost_without_flush=0)).condition == ""


def test_a_price_is_told_and_decides_nothing() -> None:
    judgement = judge([CLAIMED, PRICE], figures(lost=0, rto=3.5))
    assert (judgement.verdict, judgement.price) == (Worth.HOLDS, "rto 3.5")


@pytest.mark.parametrize(
    ("bound", "met", "unmet"),
    [
        (at_least(1), (1, 2, NEVER), (0.9, "1")),
        (at_most(1), (1, -1), (1.1, NEVER)),
        (between(1, 2), (1, 2), (0.9, 2.1, NEVER, math.nan)),
        (exactly(0), (0,), (1, "0")),
        (exactly(NEVER), (NEVER,), (10**9,)),
        (exactly("all"), ("all",), ("1", 0)),
    ],
)
def test_a_bound_admits_its_values_alone(bound: object, met: tuple[Value, ...], unmet: tuple[Value, ...]) -> None:
    assert all(bound.is_met(value) for value in met)  # type: ignore[attr-defined]
    assert not any(bound.is_met(value) for value in unmet)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0, "records", "0 records"),
        (0.1534, "s", "0.153 s"),
        (NEVER, "s", "never"),
        ("all", "", "all"),
        (2.5, "x", "2.5x"),
    ],
)
def test_a_figure_is_told_with_its_unit(value: Value, unit: str, words: str) -> None:
    assert Figure(name="one", value=value, unit=unit).words == words
