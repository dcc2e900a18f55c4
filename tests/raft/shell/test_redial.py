"""An address is dialled again soon after a connection that was up, and ever more seldom while it refuses."""

import random

import attrs
import pytest
import trio
from trio.testing import MockClock

from raft.net.redial import BACKOFF_S_MAX, BACKOFF_S_MIN, Redial


@attrs.define(eq=False)
class Dials:
    """Sessions that fail at once, or last for a second as soon as `lasts`."""

    times: list[float] = attrs.field(factory=list)
    lasts: bool = False

    async def session(self) -> bool:
        self.times.append(trio.current_time())
        lasts = self.lasts
        if lasts:
            await trio.sleep(1)
        return lasts

    def pauses(self) -> list[float]:
        return [after - before for before, after in zip(self.times, self.times[1:], strict=False)]


class Middle(random.Random):
    """Draws no jitter."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


async def run_for(redial: Redial, seconds: float) -> None:
    with trio.move_on_after(seconds):
        await redial.run()


async def test_an_address_that_refuses_is_dialled_ever_more_seldom(autojump_clock: MockClock) -> None:
    dials = Dials()
    await run_for(Redial(dials.session, Middle()), 5)
    doubled = [BACKOFF_S_MIN * 2**each for each in range(5)]
    assert dials.pauses()[:7] == pytest.approx([*doubled, BACKOFF_S_MAX, BACKOFF_S_MAX])


async def test_pauses_differ_from_dial_to_dial_so_that_nodes_do_not_move_in_step(autojump_clock: MockClock) -> None:
    dials = Dials()
    await run_for(Redial(dials.session, random.Random(1)), 60)
    last = dials.pauses()[-50:]
    assert min(last) < 0.7 * BACKOFF_S_MAX < 1.3 * BACKOFF_S_MAX < max(last)


async def test_after_a_connection_that_was_up_the_pauses_begin_again(autojump_clock: MockClock) -> None:
    dials = Dials()
    redial = Redial(dials.session, Middle())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(redial.run)
        await trio.sleep(5)
        dials.lasts = True
        await trio.sleep(1.2)
        dials.times.clear()
        dials.lasts = False
        await trio.sleep(2)
        nursery.cancel_scope.cancel()
    assert dials.pauses()[0] == pytest.approx(2 * BACKOFF_S_MIN)


async def test_one_that_is_known_to_live_is_dialled_without_waiting(autojump_clock: MockClock) -> None:
    dials = Dials()
    redial = Redial(dials.session, Middle())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(redial.run)
        await trio.sleep(5.01)
        before = len(dials.times)
        redial.hurry()
        await trio.sleep(0.001)
        assert len(dials.times) == before + 1
        nursery.cancel_scope.cancel()


async def test_on_demand_nothing_is_dialled_that_is_not_wanted(autojump_clock: MockClock) -> None:
    dials = Dials()
    redial = Redial(dials.session, Middle(), on_demand=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(redial.run)
        await trio.sleep(1)
        assert dials.times == []
        redial.want()
        await trio.sleep(1)
        assert dials.times == [1]
        redial.want()
        redial.want()
        await trio.sleep(1)
        assert dials.times == [1, 2]
        nursery.cancel_scope.cancel()
