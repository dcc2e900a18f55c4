"""Changes whose outcome is unknown count in the order of the log, in whichever order their writes were given up."""

import pytest

from kafka_compat.coordinator.offsets import OffsetChange, OffsetStore
from kafka_compat.coordinator.record_formats import OffsetCommitValue


def change(offset: int) -> tuple[OffsetChange, ...]:
    return (OffsetChange("g", "t", 0, OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0)),)


def store_of(*write_ids: int) -> OffsetStore:
    """A store with a change of the same offset to each write id under way."""
    store = OffsetStore()
    for write_id in write_ids:
        store.begin(write_id, change(write_id))
    return store


def offset_in(store: OffsetStore) -> int | None:
    found = store.get("g", "t", 0)
    return None if found is None else found.offset


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_the_last_change_in_the_log_counts_and_not_the_one_that_was_given_up_last(order: tuple[int, ...]) -> None:
    store = store_of(1, 2)
    for write_id in order:
        store.on_failed(write_id, unknown=True, is_first=write_id == min(store._under_way))
    assert offset_in(store) is None
    assert [value.offset for value in store.latest("g").values() if value is not None] == [2]
    store.begin(3, ())
    store.on_written(3)
    assert offset_in(store) == 2
    assert list(store.latest("g").values()) == [store.get("g", "t", 0)]


def test_a_write_between_two_of_unknown_outcome_makes_only_the_earlier_one_count() -> None:
    store = store_of(1, 3)
    store.begin(2, ())
    store.on_failed(3, unknown=True, is_first=False)
    store.on_failed(1, unknown=True, is_first=True)
    store.on_written(2)
    assert offset_in(store) == 1
    store.begin(4, ())
    store.on_written(4)
    assert offset_in(store) == 3


def test_changes_that_were_given_up_in_order_leave_one_for_each_offset() -> None:
    store = store_of(*range(1, 50))
    for write_id in range(1, 50):
        store.on_failed(write_id, unknown=True, is_first=True)
    assert [len(each) for each in store._unknown.values()] == [1]
