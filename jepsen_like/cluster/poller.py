"""One Trio task for all sockets of the harness: a level-triggered epoll object, asked once for all that is ready.

The fault proxies carry every byte of a run through it. It is the harness's own, so that no fault of a product's event
loop can hide in the judge.
"""

import select
from typing import Protocol

import trio

READABLE = select.EPOLLIN
WRITABLE = select.EPOLLOUT
BROKEN = select.EPOLLHUP | select.EPOLLERR
RECEIVE_BYTES = 256 * 1024
"""The most that one socket may bring at a time."""


class ReadySocket(Protocol):
    """Something with a descriptor that can become ready."""

    def fileno(self) -> int:
        """The descriptor, the same while registered."""

    def on_ready(self, events: int) -> None:
        """Called when it is ready for `events`, a union of READABLE, WRITABLE and BROKEN."""


class Poller:
    """Owns the epoll object; everything is called from the one thread that runs Trio."""

    def __init__(self) -> None:
        self.receive_buffer = memoryview(bytearray(RECEIVE_BYTES))
        """Sockets are read into this buffer; its content lives until the next read."""
        self._epoll = select.epoll()
        self._registered: dict[int, ReadySocket] = {}

    def register(self, ready: ReadySocket, events: int) -> None:
        """Call `ready.on_ready` whenever it is ready for `events`."""
        self._epoll.register(ready.fileno(), events)
        self._registered[ready.fileno()] = ready

    def modify(self, ready: ReadySocket, events: int) -> None:
        """Wait for other events; with none, only a broken connection is reported."""
        self._epoll.modify(ready.fileno(), events)

    def unregister(self, ready: ReadySocket) -> None:
        """Forget it; to be called before its descriptor is closed."""
        if self._registered.pop(ready.fileno(), None) is not None:
            self._epoll.unregister(ready.fileno())

    async def run(self) -> None:
        """Serve what is ready, until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            for descriptor, events in self._epoll.poll(0):
                # One socket may have closed another that was ready in the same round.
                ready = self._registered.get(descriptor)
                if ready is not None:
                    ready.on_ready(events)

    def close(self) -> None:
        """Release the epoll object."""
        self._epoll.close()
