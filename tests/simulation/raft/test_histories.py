"""The checker's kernels judge what simulated clients saw: what they contradict is named, and what is in order is not."""

from collections.abc import Sequence

import pytest

from jepsen_like.simulation.raft.blackbox import ClientRequest, NodeLog, RequestOutcome
from jepsen_like.simulation.raft.histories import check
from jepsen_like.simulation.raft.model import RAFT
from jepsen_like.simulation.raft.world import RaftWorld

OK, FAIL = RequestOutcome.OK, RequestOutcome.FAIL


def append(value: int, at: int, invoked: int, term: int = 1) -> ClientRequest:
    return ClientRequest(1, 1, (value,), invoked, invoked + 1, OK, at, at + 1, term=term)


def read(end: int, last: int, invoked: int) -> ClientRequest:
    return ClientRequest(1, 1, (), invoked, invoked + 1, OK, end_offset=end, last_value=last)


def write(value: int, invoked: int, outcome: RequestOutcome = OK) -> ClientRequest:
    return ClientRequest(1, 1, (value,), invoked, invoked + 1, outcome, 0, 1, key=2)


def swap(expected: int, value: int, found: int, invoked: int) -> ClientRequest:
    return ClientRequest(1, 1, (value,), invoked, invoked + 1, OK, 0, 1, key=2, expected=expected, found=found)


def query(found: int | None, invoked: int) -> ClientRequest:
    return ClientRequest(1, 1, (), invoked, invoked + 1, OK, end_offset=1, key=2, found=found)


def log(node: int, *values: int, first: int = 0) -> NodeLog:
    return NodeLog(node, first, values, [1] * len(values))


APPENDS = [append(7, 0, 1), append(8, 1, 3)]


@pytest.mark.parametrize(
    ("oracle", "history", "logs"),
    [
        pytest.param("C-log", APPENDS, [log(1, 7)], id="an acknowledged record is gone"),
        pytest.param("C-log", APPENDS, [log(1, 7, 8), log(2, 7, 9)], id="two nodes differ"),
        pytest.param("C-log", [*APPENDS, read(1, 7, 5)], [log(1, 7, 8)], id="a read is stale"),
        pytest.param("C-log", [append(7, 0, 1), append(8, 1, 3, term=2)], [log(1, 7, 8)], id="a term is another"),
        pytest.param("C-register", [write(5, 1), write(6, 3), query(5, 5)], [], id="a query is stale"),
        pytest.param("C-register", [write(5, 1), swap(5, 6, 5, 3), swap(5, 7, 5, 5)], [], id="two swaps of one value"),
        pytest.param("C-register", [write(5, 1, FAIL), query(5, 3)], [], id="what was refused is seen"),
    ],
)
def test_a_contradiction_is_named(oracle: str, history: list[ClientRequest], logs: Sequence[NodeLog]) -> None:
    assert oracle in [name for name, _ in check(history, logs)]


@pytest.mark.parametrize(
    ("history", "logs"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([*APPENDS, read(2, 8, 5)], [log(1, 7, 8), log(2, 8, first=1)], id="a log, its beginning gone"),
        pytest.param([write(5, 1), swap(5, 6, 5, 3), swap(5, 7, 6, 5), query(6, 7)], [], id="a swap that lost"),
        pytest.param([query(None, 1), write(5, 3)], [], id="a register with nothing in it"),
    ],
)
def test_what_is_in_order_is_left_alone(history: list[ClientRequest], logs: Sequence[NodeLog]) -> None:
    assert check(history, logs) == []


def test_what_a_world_brings_to_the_checker_is_all_that_its_clients_saw() -> None:
    world = RaftWorld(RAFT.draw(3))
    assert not world.run().violations
    for op in world.clients.history:
        if op.is_read and op.outcome is OK and op.key < 0 and op.end_offset:
            op.end_offset -= 1
    world._stop_at_first = False
    world.judge()
    assert "C-log" in [found.oracle for found in world.violations]
