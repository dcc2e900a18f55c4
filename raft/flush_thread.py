"""One thread that waits for the disk, so that the loop need not.

A flush is handed over and its end comes back as a readable descriptor of the reactor: a third of what a trip through
Trio's thread pool costs, once for every flush. The thread runs no other Python code, and one flush at a time.
"""

import os
import queue
import threading
from collections.abc import Callable

from raft.net.reactor import READABLE, Reactor


class FlushThread:
    """`on_done` is called by the reactor after each flush; what a flush raised climbs out of the reactor instead."""

    def __init__(self, reactor: Reactor, on_done: Callable[[], None]) -> None:
        self._reactor = reactor
        self._on_done = on_done
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._closed = False
        self._done_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="flush", daemon=True)
        self._thread.start()
        reactor.register(self, READABLE)

    def fileno(self) -> int:
        """Readable when a flush has ended."""
        return self._done_fd

    def submit(self, work: Callable[[], None]) -> None:
        """Run it in the thread; the caller keeps to one at a time."""
        self._work.put(work)

    def on_ready(self, events: int) -> None:
        """The reactor's call: a flush has ended."""
        os.eventfd_read(self._done_fd)
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        self._on_done()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - carried over to the loop, which ends the process
                self._error = error
            os.eventfd_write(self._done_fd, 1)

    def close(self) -> None:
        """Wait for the flush under way, which cannot be interrupted, and end the thread; raises what the flush raised."""
        if self._closed:
            return
        self._closed = True
        self._work.put(None)
        self._thread.join()
        self._reactor.unregister(self)
        os.close(self._done_fd)
        if self._error is not None:
            raise self._error
