"""The page of Q004 states what was measured: sides that differ in a promise are not called equal."""

from types import SimpleNamespace
from typing import Any

import pytest

from jepsen_like.claims.experiments.equal_to_dledger import answers, equal_rows
from jepsen_like.claims.experiments.kafka_wrong_answers import CANDIDATES, Tried


def side(lost: int = 0, **writes: int) -> Any:
    """A side that took so many writes with one, two and three dead."""
    taken = {
        "leader dead": writes.get("one", 9),
        "two dead": writes.get("two", 9),
        "three dead": writes.get("three", 0),
    }
    return SimpleNamespace(kept=SimpleNamespace(lost=lost, acked=100), writes_at_end=taken.__getitem__)


def attempt(with_one_dead: int = 9, with_two_dead: int = 9, lost: int = 0) -> Tried:
    kept: Any = None
    return Tried(
        candidate=CANDIDATES[0], with_one_dead=with_one_dead, with_two_dead=with_two_dead, lost=lost, kept=kept
    )


def test_sides_that_keep_the_same_promises_are_equal() -> None:
    assert {row[3] for row in equal_rows(side(), side())} == {"equal"}
    assert " equals a DLedger group" in answers(side(), side(), [attempt(), attempt(0, 0)])[0]


@pytest.mark.parametrize("other", [side(one=0), side(two=0), side(three=5), side(lost=3)])
def test_sides_that_differ_in_a_promise_are_not(other: Any) -> None:
    assert [row[3] for row in equal_rows(side(), other)].count("DIFFERENT") == 1
    assert "DID NOT EQUAL" in answers(side(), other, [attempt()])[0]


def test_an_answer_that_a_fault_rejects_is_none() -> None:
    assert "DID NOT EQUAL" in answers(side(), side(), [attempt(lost=1)])[0]


def test_wrong_answers_are_counted_by_what_rejected_them() -> None:
    wrong = [attempt(0, 0), attempt(9, 0), attempt(9, 9, 4), attempt()]
    assert answers(side(), side(), [attempt(), *wrong])[2].startswith("3 of 4 other settings were rejected")
