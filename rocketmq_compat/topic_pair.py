"""A producer and a listener of one topic in each of two RocketMQ clusters, around clients that you bring.

RocketMQ's clients send in the thread of the caller, so each cluster has some threads here. `poll` and `flush` are called
from one thread, and callbacks come within them; a listener is called by the threads of its push consumer. Which attempts
are made, and what becomes of what is read, is decided in `raft.two_topics`.
"""

import collections
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from raft.two_topics.dispatch import Dispatch, OnDone, Outgoing
from raft.two_topics.envelope import Envelope
from raft.two_topics.receiving import PairInbox, Policy, Take
from raft.two_topics.sending import SIDES, Alternate, Hedge

Send = Callable[[bytes, bytes | None, Mapping[str, str]], None]
"""Sends a body with keys and properties to one cluster. Returns once it is stored, raises if that is not known."""
THREADS: Final = 8
"""Messages that one cluster may have under way."""


class TwoTopicsProducer:
    """Sends each message to one of two clusters, or to both, as its policy decides. Close it in the end.

    With the C++ client a `Send` makes a `Message`, calls `send_sync`, and raises unless the status is `SendStatus.OK`.
    """

    def __init__(
        self, sends: Sequence[Send], policy: Alternate | Hedge, *, writer: str, threads: int = THREADS
    ) -> None:
        if len(sends) != len(SIDES):
            raise ValueError(f"two clusters need two senders, not {len(sends)}")
        self._sends = tuple(sends)
        self._threads = [ThreadPoolExecutor(threads, f"two-topics-{side}") for side in SIDES]
        self._answers: queue.SimpleQueue[tuple[int, int, bool]] = queue.SimpleQueue()
        self._dispatch = Dispatch(policy, writer, self._attempt)

    def send(self, body: bytes, *, keys: bytes | None = None, on_done: OnDone | None = None) -> int:
        """Send a message. Returns its number; `on_done` is called with that and the cluster that has it, or None."""
        return self._dispatch.send(body, keys, on_done)

    def poll(self, timeout: float = 0.0) -> int:
        """Wait for answers, at most so long, and move on where they fail. Returns how many messages have not ended."""
        end = time.monotonic() + timeout
        while True:
            self._take_answers(self._dispatch.left_s(max(0.0, end - time.monotonic())))
            self._dispatch.pass_time()
            left = self._dispatch.open_messages
            if not left or time.monotonic() >= end:
                return left

    def flush(self, timeout: float) -> int:
        """Wait until all messages have ended, at most so long. Returns how many have not."""
        return self.poll(timeout)

    def close(self) -> None:
        """Begin nothing more. An attempt under way ends by itself."""
        for threads in self._threads:
            threads.shutdown(wait=False, cancel_futures=True)

    def _take_answers(self, timeout: float) -> None:
        try:
            answer = self._answers.get(timeout=timeout) if timeout else self._answers.get_nowait()
            while True:
                number, side, is_ok = answer
                self._dispatch.answer(number, side, is_ok=is_ok)
                answer = self._answers.get_nowait()
        except queue.Empty:
            return

    def _attempt(self, side: int, message: Outgoing) -> None:
        def send() -> None:
            if not self._dispatch.is_open(message.number):
                return  # the other cluster has it, and this one was too busy to begin
            is_ok = False
            try:
                self._sends[side](message.value, message.key, message.headers)
                is_ok = True
            finally:
                self._answers.put((message.number, side, is_ok))

        self._threads[side].submit(send)


class TwoTopicsListener:
    """Decides about what the push consumers of both clusters are given. Any thread may call it."""

    def __init__(self, policy: Policy, *, wall: Callable[[], float] = time.time) -> None:
        self.counts: collections.Counter[Take] = collections.Counter()
        """All messages so far, by what has become of them."""
        self._inbox = PairInbox(policy)
        self._wall = wall
        self._lock = threading.Lock()

    def take(self, properties: Mapping[str, str], keys: bytes | None) -> Take:
        """Returns what becomes of a message: work on `Take.GIVE`, make up for `Take.COMPENSATE`.

        Raises `ForeignMessage` for one that no `TwoTopicsProducer` wrote.
        """
        envelope = Envelope.of(properties)
        with self._lock:
            take = self._inbox.take(round(self._wall() * 1e3), envelope, keys)
            self.counts[take] += 1
        return take
