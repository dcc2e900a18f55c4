"""A server in a thread of its own, with a Trio loop of its own.

That is what lets one server of a process stand still as SIGSTOP does: its thread waits, so that none of its tasks,
timers and sockets goes on, while connections stay open and the kernel takes what others send. The rest goes on.
"""

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Generic, TypeVar

import trio

from raft.errors import ShuttingDown
from raft.loop_thread import LoopThread, Opener

ServerT_co = TypeVar("ServerT_co", covariant=True)
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


class ServerThread(Generic[ServerT_co]):
    """One server from its start to its end; everything is called from the loop of the cluster."""

    def __init__(self, opener: Opener[ServerT_co]) -> None:
        self.is_paused = False
        self._goes_on = threading.Event()
        self._loop: LoopThread[ServerT_co] = LoopThread(opener, ShuttingDown, block="a server's")

    async def open(self) -> None:
        """Start it, until it listens. Raises what opening it does."""
        opened = self._loop.open()
        try:
            await outcome(opened)
        except BaseException:
            opened.cancel()
            self._loop.close()
            raise

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

        async def stand_still(_: object) -> None:
            _run_soon(token, stands.set)
            goes_on.wait()

        self._loop.submit(stand_still).add_done_callback(lambda _: _run_soon(token, stands.set))
        await stands.wait()

    def resume(self) -> None:
        """Let it go on; it finds its timers late and its sockets full."""
        self.is_paused = False
        self._goes_on.set()

    async def shut_down(self, leave: Callable[[ServerT_co], Awaitable[None]]) -> None:
        """End it as SIGTERM does: first it takes leave of the others."""
        self.resume()
        with suppress(ShuttingDown):
            await outcome(self._loop.submit(leave))
        await self.end()

    async def end(self) -> None:
        """End it without a question, and wait for its thread. An error with which it ended by itself is in `ended`."""
        self.resume()
        ended = self._loop.close()
        if not ended.done():
            done, token = trio.Event(), trio.lowlevel.current_trio_token()
            ended.add_done_callback(lambda _: _run_soon(token, done.set))
            with trio.CancelScope(shield=True):
                await done.wait()
        self._loop.join()
