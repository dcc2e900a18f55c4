"""The black box against histories made by hand: each broken promise is named, and what is merely odd is not."""

import pytest

from jepsen_like.simulation.raft.blackbox import NEVER, ClientRequest, RequestOutcome, check, without_lost


def append(values: tuple[int, ...], at: int, invoked: int, returned: int) -> ClientRequest:
    """An acknowledged append."""
    return ClientRequest(1, 1, values, invoked, returned, RequestOutcome.OK, at, at + len(values))


def append_without_place(
    values: tuple[int, ...], invoked: int, outcome: RequestOutcome = RequestOutcome.UNKNOWN
) -> ClientRequest:
    """An append without a place."""
    return ClientRequest(1, 1, values, invoked, NEVER if outcome is RequestOutcome.UNKNOWN else invoked + 1, outcome)


def read(end: int, last: int, invoked: int, returned: int) -> ClientRequest:
    """A read that saw the log end at `end`, behind `last`."""
    return ClientRequest(1, 1, (), invoked, returned, RequestOutcome.OK, end_offset=end, last_value=last)


@pytest.mark.parametrize(
    ("oracle", "history", "final"),
    [
        pytest.param("B-lost", [append((7,), 0, 1, 2)], [], id="an acknowledged value is gone"),
        pytest.param(
            "B-moved", [append((7,), 0, 1, 2), append_without_place((8,), 1)], [8, 7], id="it stands elsewhere"
        ),
        pytest.param("B-duplicate", [append((7,), 0, 1, 2)], [7, 7], id="it stands twice"),
        pytest.param(
            "B-phantom", [append_without_place((7,), 1, RequestOutcome.FAIL)], [7], id="a refused value stands"
        ),
        pytest.param("B-phantom", [], [9], id="a value that nobody sent stands"),
        pytest.param(
            "B-order", [append((7,), 1, 1, 2), append((8,), 0, 3, 4)], [8, 7], id="a later append went before"
        ),
        pytest.param("B-stale", [append((7,), 0, 1, 2), read(0, 0, 3, 4)], [7], id="a later read missed it"),
        pytest.param(
            "B-stale",
            [append((7, 8), 0, 1, 9), read(2, 8, 2, 3), read(1, 7, 4, 5)],
            [7, 8],
            id="a later read saw less than an earlier one",
        ),
        pytest.param(
            "B-order",
            [append_without_place((7,), 1), read(1, 7, 2, 3), append((8,), 0, 4, 5)],
            [8, 7],
            id="an append went below what was read",
        ),
        pytest.param("B-moved", [append((7,), 0, 1, 2), read(1, 5, 3, 4)], [7], id="a read saw another value"),
        pytest.param(
            "B-lost", [read(2, 8, 1, 2), append_without_place((7,), 0)], [7], id="a read saw more than is left"
        ),
        pytest.param("B-future", [read(1, 7, 1, 2), append((7,), 0, 3, 4)], [7], id="seen before it was sent"),
    ],
)
def test_a_broken_promise_is_named(oracle: str, history: list[ClientRequest], final: list[int]) -> None:
    assert oracle in [name for name, _ in check(history, final)]


@pytest.mark.parametrize(
    ("history", "final"),
    [
        pytest.param([], [], id="nothing happened"),
        pytest.param([append_without_place((7,), 1)], [7], id="an unknown append took place"),
        pytest.param([append_without_place((7,), 1)], [], id="an unknown append did not take place"),
        pytest.param([append((7,), 1, 1, 4), append((8,), 0, 2, 3)], [8, 7], id="overlapping appends in any order"),
        pytest.param([append((7,), 0, 1, 4), read(0, 0, 2, 3)], [7], id="a read during an append misses it"),
        pytest.param([append((7,), 0, 1, 4), read(1, 7, 2, 3)], [7], id="a read during an append sees it"),
        pytest.param(
            [append((7, 8), 0, 1, 2), read(2, 8, 3, 4), append((9,), 2, 5, 6)], [7, 8, 9], id="one after the other"
        ),
    ],
)
def test_what_can_be_true_is_believed(history: list[ClientRequest], final: list[int]) -> None:
    assert check(history, final) == []


ACKNOWLEDGED = [append((7,), 0, 1, 2), append((8,), 1, 3, 4)]


@pytest.mark.parametrize(("taken", "found"), [({8}, []), ({7, 8}, []), ({7}, ["B-lost"]), (set(), ["B-lost"])])
def test_only_what_a_power_cut_took_may_be_gone(taken: set[int], found: list[str]) -> None:
    assert [name for name, _ in check(without_lost(ACKNOWLEDGED, {7}, taken, 9), [7])] == found


def test_what_a_power_cut_took_and_the_group_kept_must_be_where_it_was_promised() -> None:
    faults = check(without_lost(ACKNOWLEDGED, {7, 8}, {7, 8}, 9), [8, 7])
    assert "B-moved" in [name for name, _ in faults]


def test_what_was_read_after_the_last_fault_is_there_for_good() -> None:
    history = [*ACKNOWLEDGED, read(2, 8, 5, 6)]
    assert check(without_lost(history, {7}, {8}, healed=5), [7]) == []
    assert [name for name, _ in check(without_lost(history, {7}, {8}, healed=4), [7])] == ["B-lost"]
