"""Two systems are alike within what is tolerated, and each figure beyond that is named."""

import pytest

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
from jepsen_like.record.beside import NOT_DONE, compare


@pytest.mark.parametrize(
    ("aspect", "first", "beside", "differs"),
    [
        (VERDICT, "valid", "valid", False),
        (VERDICT, "valid", "INVALID", True),
        (RECORDS, 3.0, 400.0, False),
        (RECORDS, 0.0, 1.0, True),
        (ENDS, 0.95, 0.91, False),
        (ENDS, 0.95, 0.89, True),
        (ENDS, 0.0, 0.011, True),
        (ENDS, 0.0, 0.009, False),
        (OFFSETS, 0.0, 0.0, False),
        (OFFSETS, 0.0, 2.0, True),
        (EPOCHS, 1.0, 3.0, False),
        (EPOCHS, 1.0, 3.5, True),
        (EPOCHS, 6.0, 11.0, False),
        (REDELIVERY, 0.02, 0.06, False),
        (REDELIVERY, 0.02, 0.08, True),
        (RECOVERY, 0.5, 2.4, False),
        (RECOVERY, 0.5, 2.6, True),
        (RECOVERY, 9.0, 15.0, False),
        (RECOVERY, None, None, False),
        (RECOVERY, 0.5, None, True),
        (RECOVERY, 0.5, NOT_DONE, True),
        (SPEED, 1.0, 100.0, False),
    ],
)
def test_what_is_beyond_its_tolerance_differs(aspect: str, first: Value, beside: Value, differs: bool) -> None:
    for one, other in ((first, beside), (beside, first)):
        (row,) = compare([Trait(aspect, "a", one)], [Trait(aspect, "a", other)])
        assert row.differs is differs


def test_what_only_one_run_has_is_compared_too() -> None:
    first = [Trait(RECOVERY, "1 kill leader", 1.0), Trait(ENDS, "write ok", 1.0)]
    beside = [Trait(ENDS, "write ok", 0.98), Trait(ENDS, "write failed, not leader", 0.02)]
    rows = compare(first, beside)
    assert [(row.name, row.first, row.beside, row.differs) for row in rows] == [
        ("write ok", 1.0, 0.98, False),
        ("write failed, not leader", 0.0, 0.02, True),
        ("1 kill leader", 1.0, NOT_DONE, True),
    ]


def test_the_ends_of_an_action_that_was_rare_in_one_run_are_left_out() -> None:
    wrote = [Trait(ENDS, "write ok", 1.0)]
    found = compare(wrote, [*wrote, Trait(ENDS, "read ok", 1.0)])
    assert [each.name for each in found] == ["write ok"]
    found = compare(wrote, [Trait(ENDS, "write ok", 0.9), Trait(ENDS, "write failed, busy", 0.1)])
    assert [each.differs for each in found] == [True, True]
