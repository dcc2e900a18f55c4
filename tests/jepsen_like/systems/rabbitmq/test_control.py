"""Nodes are one cluster when each sees all, and the queue is whole when each has a copy of what one of them leads."""

import json
from typing import Any

import attrs
import pytest

from jepsen_like.systems.foreign.exchange import NotAnswered
from jepsen_like.systems.foreign.watching import Look
from jepsen_like.systems.rabbitmq.control import RabbitNode, are_one, are_whole
from jepsen_like.systems.rabbitmq.processes import SCOPE, roles_in, state_in

ALL = ["rabbit@n1", "rabbit@n2", "rabbit@n3"]
ANSWER: dict[str, Any] = {
    "serves": True,
    "running": ALL,
    "role": "follower",
    "term": 4,
    "index": 90,
    "messages": 3,
    "copies": ALL,
}
FOLLOWER = RabbitNode.of(ANSWER)
LEADER = attrs.evolve(FOLLOWER, role="leader")


def test_a_node_without_the_queue_has_no_role() -> None:
    bare = {"serves": False, "running": []}
    assert RabbitNode.of(bare) == RabbitNode(serves=False, running=frozenset())
    assert list(roles_in(bare)) == []
    assert Look(True, dict(roles_in(ANSWER))).roles == {SCOPE: ("follower", 4)}


@pytest.mark.parametrize(
    ("third", "one", "whole"),
    [
        (LEADER, True, True),
        (FOLLOWER, True, False),
        (attrs.evolve(LEADER, copies=frozenset(ALL[:2])), True, False),
        (attrs.evolve(LEADER, running=frozenset(ALL[:2])), False, False),
        (attrs.evolve(LEADER, serves=False), False, False),
        (RabbitNode(serves=True, running=frozenset(ALL)), True, False),
        (attrs.evolve(FOLLOWER, term=5), True, False),
    ],
)
def test_all_nodes_see_all_and_one_leads(third: RabbitNode, one: bool, whole: bool) -> None:
    states = {1: FOLLOWER, 2: FOLLOWER, 3: third}
    assert are_one(states, 3) is one
    assert are_whole(states, 3) is whole


def test_a_node_that_does_not_answer_is_missed() -> None:
    assert not are_one({1: FOLLOWER, 2: LEADER}, 3)


@pytest.mark.parametrize("answer", [b"", b"words", b"[1]"])
def test_what_is_no_state_is_no_answer(answer: bytes) -> None:
    with pytest.raises(NotAnswered):
        state_in(answer)
    assert state_in(json.dumps(ANSWER).encode()) == ANSWER
