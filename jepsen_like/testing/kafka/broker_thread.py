"""A broker in a thread of its own, with a Trio loop of its own.

That is what lets one broker of a process stand still as SIGSTOP does: its thread waits, so that none of its tasks, timers and sockets
goes on, while connections stay open and the kernel takes what others send. The rest of the process is not concerned.
"""

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

import trio

from kafka_compat.broker.broker import Broker, BrokerPlan
from kafka_compat.broker.reporter import Tell
from log.disk import Disk
from raft.errors import ShuttingDown
from raft.loop_thread import LoopThread

T = TypeVar("T")


async def outcome(future: "Future[T]") -> T:
    """Returns in Trio what `future` comes to hold, or raises it. Cancelled, it leaves the future to itself."""
    token, done = trio.lowlevel.current_trio_token(), trio.Event()
    future.add_done_callback(lambda _: _run_soon(token, done.set))
    await done.wait()
    return future.result()


def _run_soon(token: trio.lowlevel.TrioToken, call: Callable[[], object]) -> None:
    try:
        token.run_sync_soon(call)
    except trio.RunFinishedError:
        return


class BrokerThread:
    """One broker from its start to its end; everything is called from the loop of the cluster."""

    def __init__(self, plan: BrokerPlan, disk: Disk, rng: random.Random, tell: Tell) -> None:
        self.is_paused = False
        self._goes_on = threading.Event()
        self._loop: LoopThread[Broker] = LoopThread(
            lambda: Broker.open(plan, tell=tell, disk=disk, rng=rng), ShuttingDown, block="a broker's"
        )

    async def open(self) -> None:
        """Start it, until it listens. Raises what `Broker.open` does."""
        opened = self._loop.open()
        try:
            await outcome(opened)
        except BaseException:
            opened.cancel()
            self._loop.close()
            raise

    async def serving(self) -> None:
        """Wait until clients can use it for the first time. Raises `ShuttingDown` if it ends before."""
        await outcome(self._loop.submit(lambda broker: broker.serving.wait()))

    @property
    def ended(self) -> "Future[None]":
        """Done when it is gone; holds the error with which it ended by itself."""
        return self._loop.ended

    async def pause(self) -> None:
        """Let it stand still, at once; nothing that it has not sent by then is sent before `resume`."""
        if self.is_paused:
            return
        self.is_paused = True
        self._goes_on = goes_on = threading.Event()
        token, stands = trio.lowlevel.current_trio_token(), trio.Event()

        async def stand_still(_: Broker) -> None:
            _run_soon(token, stands.set)
            goes_on.wait()

        self._loop.submit(stand_still).add_done_callback(lambda _: _run_soon(token, stands.set))
        await stands.wait()

    def resume(self) -> None:
        """Let it go on; it finds its timers late and its sockets full."""
        self.is_paused = False
        self._goes_on.set()

    async def shut_down(self) -> None:
        """End it as SIGTERM does: it asks for leave first, so that others lead."""
        self.resume()
        with suppress(ShuttingDown):
            await outcome(self._loop.submit(lambda broker: broker.shut_down()))
        await self.end()

    async def end(self) -> None:
        """End it without asking anybody, and wait for its thread. An error with which it ended by itself is left in `ended`."""
        self.resume()
        ended = self._loop.close()
        if not ended.done():
            done, token = trio.Event(), trio.lowlevel.current_trio_token()
            ended.add_done_callback(lambda _: _run_soon(token, done.set))
            with trio.CancelScope(shield=True):
                await done.wait()
        self._loop.join()
