"""Redial: keeps one connection to an address, and leaves one that refuses it alone for a while.

After a dial that failed the next one waits, from `BACKOFF_S_MIN` doubling up to `BACKOFF_S_MAX`, with jitter. After a
connection that was up it waits `BACKOFF_S_MIN`.
"""

import random
from collections.abc import Awaitable, Callable

import trio

BACKOFF_S_MIN = 0.02
BACKOFF_S_MAX = 0.5


class Redial:
    """The pace of one side's dials.

    `session` is one connection from dial to end, and returns True if it was up. With `on_demand` it is called once a
    connection is wanted, otherwise again and again.
    """

    def __init__(self, session: Callable[[], Awaitable[bool]], rng: random.Random, *, on_demand: bool = False) -> None:
        self._session = session
        self._rng = rng
        self._on_demand = on_demand
        self._wanted = trio.Event()
        self._hurried = trio.Event()

    def want(self) -> None:
        """Have a connection dialled, after the pause that is due."""
        self._wanted.set()

    def hurry(self) -> None:
        """End the pause before the next dial: the other side is evidently alive."""
        self._hurried.set()

    async def run(self) -> None:
        """Dial, stay, redial, until cancelled."""
        pause_s = 0.0
        while True:
            if self._on_demand:
                await self._wanted.wait()
                self._wanted = trio.Event()
            self._hurried = trio.Event()
            was_up = await self._session()
            pause_s = BACKOFF_S_MIN if was_up else min(max(2 * pause_s, BACKOFF_S_MIN), BACKOFF_S_MAX)
            with trio.move_on_after(pause_s * self._rng.uniform(0.5, 1.5)):
                await self._hurried.wait()
