"""Flushes that run concurrently with the loop: in the kernel where possible, otherwise in one thread.

Most flushes are one sync of one file. The kernel carries out such a flush and signals its end (`KernelSync`), so no
thread has to be woken or has to wait for the interpreter. All others (a new file, a sealed one, files to be removed) go
to a thread, and so do all where the kernel has no AIO. Either way the end of a flush makes a descriptor of the reactor
readable, which costs a third of what a trip through Trio's thread pool does.
"""

import os
import queue
import threading
import time
from collections.abc import Callable

from log.flush import Flush
from raft.kernel_sync import KernelSync
from raft.net.reactor import READABLE, Reactor


class Flusher:
    """Carries out one flush at a time.

    `on_done` is called by the reactor after each; `submit` or the reactor raises an error of a flush.
    """

    def __init__(self, reactor: Reactor, on_done: Callable[[], None]) -> None:
        self._reactor = reactor
        self._on_done = on_done
        self._work: queue.SimpleQueue[Flush | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._closed = False
        self.flushes = 0
        """The flushes that have ended."""
        self.seconds = 0.0
        """The time that they took."""
        self._began = 0.0
        self._done_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="flush", daemon=True)
        self._thread.start()
        self._kernel = KernelSync.open(self._done_fd)
        self._in_kernel: Flush | None = None
        reactor.register(self, READABLE)

    def fileno(self) -> int:
        """Readable when a flush has ended."""
        return self._done_fd

    def submit(self, flush: Flush) -> None:
        """Begin to carry out `flush`. There must be no other under way."""
        self._began = time.perf_counter()
        descriptor = None if self._kernel is None else flush.start()
        if self._kernel is not None and descriptor is not None and self._kernel.begin(descriptor):
            self._in_kernel = flush
        else:
            self._work.put(flush)

    def on_ready(self, events: int) -> None:
        """The reactor's call: a flush has ended."""
        os.eventfd_read(self._done_fd)
        self._take_from_kernel()
        self.flushes += 1
        self.seconds += time.perf_counter() - self._began
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        self._on_done()

    def _take_from_kernel(self) -> None:
        """Wait for the sync in the kernel and process its result."""
        if self._kernel is not None and self._in_kernel is not None:
            flush, self._in_kernel = self._in_kernel, None
            flush.finish(self._kernel.end())

    def _run(self) -> None:
        while (flush := self._work.get()) is not None:
            try:
                flush.run()
            except BaseException as error:  # noqa: BLE001 - carried over to the loop, which ends the process
                self._error = error
            os.eventfd_write(self._done_fd, 1)

    def close(self) -> None:
        """Wait for the flush under way, which cannot be interrupted, and end the thread.

        Raises what the flush raised.
        """
        if self._closed:
            return
        self._closed = True
        self._work.put(None)
        self._thread.join()
        self._reactor.unregister(self)
        try:
            self._take_from_kernel()
        finally:
            if self._kernel is not None:
                self._kernel.close()
            os.close(self._done_fd)
        if self._error is not None:
            raise self._error
