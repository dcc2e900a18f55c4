"""Plans of moves: what is asked for, what changes, and the JSON that Kafka's own tool reads and writes."""

import json
from typing import Any, cast

import attrs
import pytest

from jepsen_like.operate.administration import Administration
from jepsen_like.operate.options import Printer
from jepsen_like.operate.reassignment import MovePlan, UnusablePlan, read_plan, replace, spread, write_plan
from jepsen_like.operate.topics import Move, carry_out

NOW = {("a", 0): (1, 2, 3), ("a", 1): (2, 3, 1), ("b", 0): (1, 2)}


def test_a_broker_is_replaced_in_its_place() -> None:
    wanted = replace(NOW, [(1, 4)])
    assert wanted == {("a", 0): (4, 2, 3), ("a", 1): (2, 3, 4), ("b", 0): (4, 2)}
    assert [(row["adds"], row["removes"]) for row in MovePlan.of(NOW, wanted).rows()] == [([4], [1])] * 3


def test_two_brokers_are_replaced_at_once_and_may_change_places() -> None:
    assert replace(NOW, [(1, 2), (2, 1)])["b", 0] == (2, 1)


def test_a_broker_that_has_a_copy_already_takes_no_second_one() -> None:
    with pytest.raises(UnusablePlan, match="broker 3 has a copy of a-0 already"):
        replace(NOW, [(1, 3)])


def test_leaders_take_turns_where_partitions_are_spread() -> None:
    assert spread({("a", 0): (1,), ("a", 1): (1,), ("a", 2): (1,)}, (4, 5)) == {
        ("a", 0): (4, 5),
        ("a", 1): (5, 4),
        ("a", 2): (4, 5),
    }


def test_a_plan_leaves_out_what_stays() -> None:
    plan = MovePlan.of(NOW, {("a", 0): (1, 2, 3), ("a", 1): (3, 2, 1)})
    assert plan.wanted == {("a", 1): (3, 2, 1)}
    assert plan.rows() == [
        {"topic": "a", "partition": 1, "replicas": [2, 3, 1], "to": [3, 2, 1], "adds": [], "removes": []}
    ]


def test_a_plan_for_a_partition_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnusablePlan, match="no partition c-7"):
        MovePlan.of(NOW, {("c", 7): (1,)})


def test_a_plan_is_the_same_after_its_json() -> None:
    assert read_plan(write_plan(NOW)) == NOW


def test_the_json_of_kafkas_tool_is_read_with_its_directories() -> None:
    row = {"topic": "a", "partition": 0, "replicas": [5, 6], "log_dirs": ["any", "any"]}
    assert read_plan(json.dumps({"version": 1, "partitions": [row]})) == {("a", 0): (5, 6)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version":2,"partitions":[]}',
        '{"partitions":[{"topic":"a","partition":0}]}',
        '{"partitions":[{"topic":"a","partition":0,"replicas":["1"]}]}',
        '{"partitions":[{"topic":"a","partition":-1,"replicas":[1]}]}',
        '{"partitions":[{"topic":"a","partition":0,"replicas":[1]},{"topic":"a","partition":0,"replicas":[2]}]}',
    ],
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(UnusablePlan):
        read_plan(text)


@attrs.define
class Cluster:
    """One partition that takes a while to arrive."""

    brokers: tuple[int, ...]
    looks: int
    ordered: list[object] = attrs.field(factory=list)

    async def assignment(self) -> dict[tuple[str, int], tuple[int, ...]]:
        return {("a", 0): self.brokers}

    async def moving(self) -> list[dict[str, object]]:
        self.looks -= 1
        return [{"topic": "a", "partition": 0}] * (self.looks >= 0)

    async def reassign(self, wanted: dict[tuple[str, int], tuple[int, ...]]) -> None:
        self.ordered.append(wanted)
        self.brokers = wanted["a", 0]


@pytest.mark.parametrize("brokers", [(1, 2), (4, 2)], ids=["first", "repeated"])
async def test_an_order_is_done_when_the_partition_has_arrived_also_if_it_was_on_its_way(
    brokers: tuple[int, ...], autojump_clock: Any
) -> None:
    cluster = Cluster(brokers, looks=3)
    order = Move("a", (), ((1, 4),), None, executes=True, cancels=False)
    await carry_out(cast(Administration, cluster), order, Printer(as_json=True), 60.0, "--cluster x")
    assert (cluster.brokers, cluster.looks) == ((4, 2), -1)
    assert len(cluster.ordered) == (brokers == (1, 2))
