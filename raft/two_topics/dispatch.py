"""Holds the messages of a producer between the application, the decider and the clients of both clusters.

Used by one thread. A shell gives attempts to its clients, and their answers back.
"""

import time
from collections.abc import Callable

import attrs

from raft.two_topics.envelope import Envelope
from raft.two_topics.sending import (
    Alternate,
    Answered,
    Event,
    Finish,
    Hedge,
    PairAttempt,
    PairOutbox,
    TimePassed,
    Wanted,
)

OnDone = Callable[[int, int | None], None]
"""Called with the number of a message and the cluster that acknowledged it; None: neither did."""


@attrs.frozen(kw_only=True)
class Outgoing:
    """A message as a client is to send it."""

    number: int
    value: bytes
    key: bytes | None
    headers: dict[str, str]


@attrs.frozen
class _Held:
    value: bytes
    key: bytes | None
    sent_ms: int
    on_done: OnDone | None


class Dispatch:
    """The messages of one producer. `attempt` hands a message to the client of a cluster, and returns at once."""

    def __init__(
        self,
        policy: Alternate | Hedge,
        writer: str,
        attempt: Callable[[int, Outgoing], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._outbox = PairOutbox(policy)
        self._writer = writer
        self._attempt = attempt
        self._clock, self._wall = clock, wall
        self._held: dict[int, _Held] = {}
        self._last = 0

    @property
    def open_messages(self) -> int:
        """The number of messages that have not ended."""
        return len(self._held)

    def is_open(self, number: int) -> bool:
        """Returns True if a message has not ended, so that an attempt is still of use."""
        return number in self._held

    def send(self, value: bytes, key: bytes | None, on_done: OnDone | None) -> int:
        """Take a message, and begin its first attempt. Returns its number."""
        self._last += 1
        self._held[self._last] = _Held(value, key, round(self._wall() * 1e3), on_done)
        self._step(Wanted(self._last, key))
        return self._last

    def answer(self, number: int, side: int, *, is_ok: bool) -> None:
        """An attempt has ended."""
        self._step(Answered(number, side, is_ok))

    def pass_time(self) -> None:
        """Begin what is due."""
        due = self._outbox.wakes_at()
        if due is not None and due <= self._clock():
            self._step(TimePassed())

    def left_s(self, timeout: float) -> float:
        """Returns how long to wait for answers: until something is due, at most this long."""
        due = self._outbox.wakes_at()
        return timeout if due is None else max(0.0, min(timeout, due - self._clock()))

    def _step(self, event: Event) -> None:
        for order in self._outbox.step(self._clock(), event):
            match order:
                case PairAttempt(number, side, epoch):
                    held = self._held[number]
                    marks = Envelope(writer=self._writer, number=number, epoch=epoch, sent_ms=held.sent_ms)
                    self._attempt(
                        side, Outgoing(number=number, value=held.value, key=held.key, headers=marks.headers())
                    )
                case Finish(number, by):
                    held = self._held.pop(number)
                    if held.on_done is not None:
                        held.on_done(number, by)
