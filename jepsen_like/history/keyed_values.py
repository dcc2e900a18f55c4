"""Value ids of records with keys: an id names its record's key, and whether the record deletes it.

So a history needs no column for either, and a final log that holds an id holds both.
"""

from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:  # brokers of a test are there without it
    import numpy as np
    import numpy.typing as npt

KEYS_MAX: Final = 1 << 20
SERIALS_MAX: Final = 1 << 36
"""Ids stay below 2^57, far from those of damaged records."""

Id = TypeVar("Id", int, "npt.NDArray[np.int64]")


def keyed_value(serial: int, key: int, *, is_deletion: bool) -> int:
    """Returns the id of a record; `serial`, from 1, sets it apart from all others."""
    assert 0 < serial < SERIALS_MAX, "a serial is positive"
    assert 0 <= key < KEYS_MAX, "a key is a small number"
    return (serial * KEYS_MAX + key) * 2 + is_deletion


def key_of(value: Id) -> Id:
    """Returns the key of a record, or of each."""
    return value // 2 % KEYS_MAX


def is_deletion(value: Id) -> Id:
    """Returns 1 for a record, or for each, that deletes its key, otherwise 0."""
    return value % 2
