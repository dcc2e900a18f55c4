"""Pausable: tasks that can stand still and go on, as those of a process do at SIGSTOP and SIGCONT."""

from collections.abc import Awaitable, Callable

import trio


class Pausable:
    """Some tasks of one node."""

    def __init__(self) -> None:
        self._scope = trio.CancelScope()
        self._goes_on = trio.Event()
        self._goes_on.set()

    async def run(self, *tasks: Callable[[], Awaitable[None]]) -> None:
        """Run the tasks until cancelled: from their beginning again after each pause."""
        while True:
            while not self._goes_on.is_set():  # it may have been paused again before this task ran
                await self._goes_on.wait()
            async with trio.open_nursery() as nursery:
                self._scope = nursery.cancel_scope
                for task in tasks:
                    nursery.start_soon(task)

    def pause(self) -> None:
        """Cancel the tasks until `resume`."""
        if self._goes_on.is_set():
            self._goes_on = trio.Event()
        self._scope.cancel()

    def resume(self) -> None:
        """Go on; does nothing if the tasks run."""
        self._goes_on.set()
