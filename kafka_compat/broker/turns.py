"""Requests about very many things are answered a part a turn, so that no client waits long for another one's answer.

A handler whose work grows with its request gives an iterator to `LongWork.run`. It yields after each thing the work
that this thing took, counted in partitions. The first part runs at once, and a small request ends in it. The rest
continues in later rounds, in turn with other connections. A thread encodes large answers. Answers still leave in the
order of requests, because the session keeps their places.

Salting a password takes milliseconds, which no part can divide: another thread does it, so that guesses keep
only each other waiting.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from kafka_compat.broker.calls import ClientCall
from raft.disk_thread import DiskThread

PART_S: Final = 0.01
"""The seconds that one request may work in one round."""
ROUND_S: Final = 0.03
"""The seconds that all requests together may work in one round."""
WORK_BETWEEN_LOOKS: Final = 16
"""Work between two looks at the clock."""
ITEMS_ENCODED_AT_ONCE: Final = 2_000
"""An answer about more things is encoded by the thread."""

Steps = Iterator[int]
T = TypeVar("T")


class LongWork:
    """The long work of one broker. `pump` is to be called once a round."""

    def __init__(self, thread: Callable[[], DiskThread], stopwatch: Callable[[], float] = time.perf_counter) -> None:
        """`thread` makes a thread: the encoder when the first large answer is due, and one for what is done apart."""
        self._start_thread = thread
        self._stopwatch = stopwatch
        self._waiting: deque[tuple[ClientCall | None, Steps]] = deque()
        self._thread: DiskThread | None = None
        self._apart: DiskThread | None = None

    def run(self, call: ClientCall, steps: Steps) -> None:
        """Carry out the steps of a call, the first of them now. What they raise closes the call's connection."""
        if not self._advance(steps):
            self._waiting.append((call, steps))

    def run_later(self, steps: Steps) -> None:
        """Carry out steps that no client waits for, from the next round on. What they raise is raised by `pump`."""
        self._waiting.append((None, steps))

    @property
    def has_more(self) -> bool:
        """True if work waits for the next round."""
        return bool(self._waiting)

    def pump(self) -> None:
        """Continue the work under way; work of closed connections is dropped."""
        if not self._waiting:
            return
        until = self._stopwatch() + ROUND_S
        for _ in range(len(self._waiting)):
            call, steps = self._waiting.popleft()
            if call is not None and call.connection.is_closed:
                continue
            try:
                if not self._advance(steps):
                    self._waiting.append((call, steps))
            except Exception as error:
                if call is None:
                    raise
                call.connection.refuse(error)  # raises what ends the process
            if self._stopwatch() > until:
                return

    def answer(self, call: ClientCall, response: Any, items: int) -> None:
        """Answer a call with a response about so many things."""
        if items <= ITEMS_ENCODED_AT_ONCE:
            call.answer(response)
            return
        if self._thread is None:
            self._thread = self._start_thread()
        call.answer_by(self._thread, response)

    def do_apart(self, call: ClientCall, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Have a thread do the work of a call, then call `done` with what it returned, unless the call's connection has
        closed. What either raises closes that.
        """
        returned: list[T] = []

        def on_done(error: BaseException | None) -> None:
            if call.connection.is_closed:
                return
            try:
                if error is not None:
                    raise error
                done(returned[0])
            except Exception as raised:  # noqa: BLE001 - `refuse` raises what ends the process
                call.connection.refuse(raised)

        if self._apart is None:
            self._apart = self._start_thread()
        self._apart.submit(lambda: returned.append(work()), on_done)

    def close(self) -> None:
        """End the threads. Answers that were not made are dropped."""
        self._waiting.clear()
        for thread in (self._thread, self._apart):
            if thread is not None:
                thread.close()

    def _advance(self, steps: Steps) -> bool:
        """Work for `PART_S` at most. Returns True if the work has ended."""
        until = self._stopwatch() + PART_S
        unseen = 0
        for work in steps:
            unseen += work
            if unseen >= WORK_BETWEEN_LOOKS:
                unseen = 0
                if self._stopwatch() > until:
                    return False
        return True
