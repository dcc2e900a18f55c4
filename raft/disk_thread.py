"""Slow work, done by one thread while the loop goes on: flush rounds, checkpoints, the encoding of large answers.

The end of a piece of work makes a descriptor of the reactor readable, as flushes of `raft.flusher` do, because a trip
through Trio's thread pool costs three times as much and may wait for the loop's turn.
"""

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable

from raft.net.reactor import READABLE, Reactor

Work = Callable[[], None]
Done = Callable[[BaseException | None], None]


class DiskThread:
    """Carries out work in the order in which it was submitted, one piece at a time; the first starts the thread."""

    def __init__(self, reactor: Reactor, *, name: str = "disk") -> None:
        self._reactor = reactor
        self._work: queue.SimpleQueue[tuple[Work, Done] | None] = queue.SimpleQueue()
        self._ended: deque[tuple[Done, BaseException | None]] = deque()
        self._closed = False
        self.works = 0
        """The pieces of work that have ended."""
        self.seconds = 0.0
        """The time that they took."""
        self._done_fd = -1
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def fileno(self) -> int:
        """Readable when work has ended."""
        return self._done_fd

    def submit(self, work: Work, done: Done) -> None:
        """Have `work` called in the thread, then `done` in the loop, with what `work` raised or None."""
        if self._done_fd < 0 and not self._closed:
            self._done_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._thread.start()
            self._reactor.register(self, READABLE)
        self._work.put((work, done))

    def on_ready(self, events: int) -> None:
        """The reactor's call."""
        os.eventfd_read(self._done_fd)
        self._tell()

    def _tell(self) -> None:
        while self._ended:
            done, error = self._ended.popleft()
            done(error)

    def _run(self) -> None:
        while (task := self._work.get()) is not None:
            work, done = task
            began = time.perf_counter()
            error: BaseException | None = None
            try:
                work()
            except BaseException as raised:  # noqa: BLE001 - given to `done` in the loop, which decides
                error = raised
            self.seconds += time.perf_counter() - began
            self.works += 1
            self._ended.append((done, error))
            os.eventfd_write(self._done_fd, 1)

    def close(self) -> None:
        """Wait for all submitted work, and tell of its end. Closing twice is harmless."""
        if self._closed:
            return
        self._closed = True
        if self._done_fd >= 0:
            self._work.put(None)
            self._thread.join()
            self._reactor.unregister(self)
            os.close(self._done_fd)
            self._tell()
