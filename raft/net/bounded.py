"""BoundedSession: takes requests from a connection while there is room for their work, and slows its client down else.

Requests that were read and not taken wait, at most what one read of the socket brings. While there is no room, nothing
more is read, so the client feels it as back-pressure. A connection that takes requests of `taken_bytes_max` holds a
bounded amount of memory: one request more than that.
"""

from abc import abstractmethod
from collections import deque
from typing import Generic

from raft.net.connection import Session, SocketConnection
from raft.net.decoder import FrameT

TAKEN_AT_ONCE = 64
"""So many requests of a connection are taken before others have their turn: tiny ones come by ten thousands in one read."""
REQUEST_BYTES = 512
"""The objects of one request take at least so much in addition to its bytes."""


def size_of(frame: object) -> int:
    """Returns the bytes of a frame; 0 for one that is none."""
    return len(frame) if isinstance(frame, bytes | memoryview) else 0


class BoundedSession(Session[FrameT], Generic[FrameT]):
    """The requests of one connection, which is put into `connection` before anything arrives."""

    def __init__(self, taken_bytes_max: int) -> None:
        self.connection: SocketConnection[FrameT]
        self._taken_bytes = 0
        self._taken_bytes_max = taken_bytes_max
        self._backlog: deque[FrameT] = deque()
        self._backlog_bytes = 0
        """Those of the frames that the last read left, as long as any of them waits."""
        self._paused = False
        self._resuming = False

    @abstractmethod
    def _take(self, frame: FrameT) -> None:
        """Begin the work on a request. What it raises closes the connection."""

    @abstractmethod
    def _is_busy(self) -> bool:
        """Returns True if so much work is under way that no more is to be taken."""

    @abstractmethod
    def on_closed(self, reason: str) -> None:
        """See `Session`."""

    def on_frames(self, frames: list[FrameT]) -> None:
        """See `Session`."""
        self._backlog.extend(frames)
        self._work()
        if self._backlog:
            self._backlog_bytes = sum(map(size_of, self._backlog)) + REQUEST_BYTES * len(self._backlog)

    @abstractmethod
    def held_bytes(self) -> int:
        """See `Session`: what waits, `_backlog_bytes` if there is a backlog, and what is worked on."""

    def on_drained(self) -> None:
        """See `Session`."""
        self._resume()

    def _work(self) -> None:
        """Take requests while there is room for their work; after some of them it is the turn of other connections."""
        for _ in range(TAKEN_AT_ONCE):
            if not self._backlog or self._is_full():
                break
            self._take(self._backlog.popleft())
        if self._backlog:
            self._paused = True
            self.connection.pause_reading()
            self._resume()
        elif self._paused:
            self._paused = False
            self.connection.resume_reading()

    def _is_full(self) -> bool:
        return self._is_busy() or self._taken_bytes >= self._taken_bytes_max or self.connection.is_full

    def _resume(self) -> None:
        """Take more requests at the end of the round, not within the answer that makes room: its sender is at work."""
        if self._paused and not self._resuming and not self._is_full():
            self._resuming = True
            self.connection.reactor.flush_later(self, urgent=False)

    def flush(self) -> None:
        """The reactor's call: there is room."""
        self._resuming = False
        if self.connection.is_closed:
            return
        self.connection.reactor.ask_another_round()  # those that work once a round have not seen these requests
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - `refuse` raises what ends the process
            self.connection.refuse(error)
