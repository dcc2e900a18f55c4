"""The timer of a participant: a round is asked for when a part is due, once for each time, and never in vain."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from raft.net.reactor import Reactor
from raft.net.rounds import Rounds
from raft.net.running_clock import RunningClock


@attrs.define
class Part:
    """Something that is due at one time."""

    deadline: float = math.inf


@attrs.define(eq=False)
class Asked:
    """Stands for the reactor: notes when rounds were asked for."""

    times: list[float] = attrs.field(factory=list)

    def request_round(self) -> None:
        self.times.append(trio.current_time())


@attrs.define
class Timed:
    """Two parts, their timer, and the rounds that it has asked for."""

    parts: tuple[Part, Part]
    rounds: Rounds
    asked: Asked

    def round(self, *deadlines: float) -> None:
        """A round ends, after which the parts are due at these times."""
        for part, deadline in zip(self.parts, deadlines, strict=True):
            part.deadline = deadline
        self.rounds.arm()


@asynccontextmanager
async def running() -> AsyncIterator[Timed]:
    parts, asked = (Part(), Part()), Asked()
    timed = Timed(parts, Rounds(cast(Reactor, asked), parts), asked)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timed.rounds.run)
        await wait_all_tasks_blocked()
        yield timed
        nursery.cancel_scope.cancel()


async def test_a_round_is_asked_for_when_the_first_part_is_due(autojump_clock: MockClock) -> None:
    async with running() as timed:
        timed.round(5, 3)
        await trio.sleep(4)
        assert timed.asked.times == [3]
        timed.round(5, math.inf)
        await trio.sleep(4)
        assert timed.asked.times == [3, 5]


async def test_nothing_is_asked_for_while_no_part_is_due(autojump_clock: MockClock) -> None:
    async with running() as timed:
        await trio.sleep(100)
        assert timed.asked.times == []


async def test_until_a_round_has_ended_the_same_deadline_asks_for_no_other(autojump_clock: MockClock) -> None:
    async with running() as timed:
        timed.round(1, math.inf)
        await trio.sleep(10)
        assert timed.asked.times == [1], "one round is on its way, however late it is"


async def test_a_deadline_that_moves_forward_is_kept_and_one_that_moves_away_is_not(autojump_clock: MockClock) -> None:
    async with running() as timed:
        timed.round(10, math.inf)
        await trio.sleep(1)
        timed.round(2, math.inf)
        await trio.sleep(2)
        assert timed.asked.times == [2]
        timed.round(5, math.inf)
        await wait_all_tasks_blocked()
        timed.round(20, math.inf)
        await trio.sleep(7)
        assert timed.asked.times == [2]
        await trio.sleep(20)
        assert timed.asked.times == [2, 20]


async def test_a_part_that_is_due_already_is_served_at_once(autojump_clock: MockClock) -> None:
    async with running() as timed:
        timed.round(-math.inf, math.inf)
        await wait_all_tasks_blocked()
        assert timed.asked.times == [0]


async def test_a_stall_is_no_part_of_the_time_in_which_parts_are_due(mock_clock: MockClock) -> None:
    """The timer wakes after twenty seconds in which the process stood still; the part is due in two of its own."""
    part, asked, clock = Part(), Asked(), RunningClock(trio.current_time)
    rounds = Rounds(cast(Reactor, asked), [part], clock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rounds.run)
        await wait_all_tasks_blocked()
        part.deadline = 2
        rounds.arm()
        await wait_all_tasks_blocked()
        mock_clock.jump(20)
        await wait_all_tasks_blocked()
        assert asked.times == [], "the stall counts as half a second"
        for _ in range(3):
            mock_clock.jump(0.5)
            await wait_all_tasks_blocked()
        assert asked.times == [21.5]
        nursery.cancel_scope.cancel()


async def test_a_process_that_waits_does_not_take_its_sleep_for_a_stall(autojump_clock: MockClock) -> None:
    clock = RunningClock(trio.current_time)
    rounds = Rounds(cast(Reactor, Asked()), [Part()], clock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rounds.run)
        await trio.sleep(100)
        assert clock() == trio.current_time()
        nursery.cancel_scope.cancel()
