"""While one group of nodes has no leader, clients turn to the other groups, and come back."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from jepsen_like.history.files import HistoryWriter
from jepsen_like.history.ops import Action, ErrorCode, Outcome
from jepsen_like.workload.load import Ending, LoadPlan, RoutedLoad
from jepsen_like.workload.model import Request, Seen
from jepsen_like.workload.recorder import Recorder

GROUPS = ((1, 2), (3, 4))
TAKES_S = 0.01


class Down(Exception):
    pass


@attrs.define
class Node:
    """One connection; each node of the first of a group leads it."""

    number: int
    world: "World"
    is_open: bool = True

    async def ask(self) -> int:
        await trio.sleep(TAKES_S)
        if self.number in self.world.down or self.number not in (1, 3):
            raise Down
        return self.number

    def close(self) -> None:
        self.is_open = False


@attrs.define
class World:
    """Both the nodes and what clients ask of them."""

    down: set[int] = attrs.field(factory=set)
    asked: list[tuple[float, int]] = attrs.field(factory=list)
    """The time, and the group."""
    finals: list[int] = attrs.field(factory=list)
    nodes: Sequence[int] = (1, 2, 3, 4)
    errors: tuple[type[Exception], ...] = (Down,)
    name: str = "made up"

    async def connect(self, node: int, *, within_s: float) -> Node:
        if node in self.down:
            raise Down
        return Node(node, self)

    def ending_of(self, error: Exception, *, connection_lost: bool) -> Ending:
        return Ending(Outcome.FAIL, ErrorCode.NOT_LEADER)

    def request(self, rng: random.Random) -> Request:
        return Request(Action.APPEND, lambda on: on.ask(), values=(1,), group=rng.randrange(2))

    write = request

    def probe(self, rng: random.Random) -> Request:
        return Request(Action.READ, lambda on: on.ask(), group=rng.randrange(2))

    def final_reads(self) -> Sequence[Request]:
        return [Request(Action.TAIL, lambda on: on.ask(), group=group) for group in (1, 0)]

    def interpret(self, request: Request, answer: Any) -> Seen:
        if request.f is Action.TAIL:
            self.finals.append(answer)
        assert answer in GROUPS[request.group], "it was asked of the other group"
        if request.is_write:
            self.asked.append((trio.current_time(), request.group))
        return Seen((1,), 0)

    def claimed_ends(self) -> Mapping[int, int]:
        return {}

    def on_trimmed(self, request: Request, start_offset: int) -> None:
        raise AssertionError

    def rate(self, group: int, since_s: float, until_s: float) -> float:
        return sum(one == group and since_s <= at < until_s for at, one in self.asked) / (until_s - since_s)


@pytest.mark.parametrize("rate", [0.0, 100.0])
async def test_operations_go_to_another_group_while_one_has_no_leader_and_come_back(
    rate: float, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    world = World()
    with HistoryWriter(tmp_path) as history:
        load = RoutedLoad(world, Recorder(history), world, LoadPlan(concurrency=4, rate=rate, seed=1), GROUPS)
        begun_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(load.run)
            await trio.sleep(3)
            world.down.add(1)
            await trio.sleep(3)
            world.down.clear()
            await trio.sleep(3)
            load.stop()
        assert await load.final_reads()
    before, during, after = (
        [world.rate(group, begun_s + at, begun_s + at + 2) for group in (0, 1)] for at in (0.5, 3.5, 6.5)
    )
    whole = sum(before)
    assert during[0] == 0
    assert during[1] > 0.9 * whole, "the load moves, it does not halve"
    assert min(*before, *after) > 0.3 * whole
    assert world.finals == [3, 1]
