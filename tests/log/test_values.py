"""Values: what is equal is one key, what is misspelt is refused, and only the type checker forbids a change."""

import pytest

from log.values import frozen


@frozen
class Place:
    index: int
    epoch: int


def test_equal_values_are_one_key() -> None:
    assert {Place(1, 2): "here"}[Place(1, 2)] == "here"
    assert len({Place(1, 2), Place(1, 2), Place(2, 1)}) == 2


def test_a_value_has_no_room_for_what_it_does_not_declare() -> None:
    with pytest.raises(AttributeError):
        Place(1, 2).indx = 3  # type: ignore[attr-defined] # a slip of the pen


def test_the_type_checker_alone_forbids_a_change() -> None:
    place = Place(1, 2)
    place.index = 3  # type: ignore[misc] # if it allowed this, it would call the comment unused
    assert place == Place(3, 2)
