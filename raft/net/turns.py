"""Measures the turns of a loop, and names the slowest lap of each.

A turn is the time from taking events to the next wait. Within it nothing else is served, no heartbeat is sent and no
deadline is kept. So the longest turn bounds how late this process answers, however fast its disk and its peers are.
Each turn is divided into laps; the name of its longest lap is its cause. A lap costs one look at the clock.

The clock is wall-clock time, because a waiting peer experiences nothing else. On a crowded machine a turn can be long
although this process did little in it, so the processor time of a long turn is known, too, to within `SAMPLE_S`.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

LONG_S = 0.1
"""A longer turn is worth a warning."""
WARN_EVERY_S = 10.0
"""One warning is given in this time at most."""
SAMPLE_S = 0.005
"""The age limit of the sample that a turn's processor time is counted from; taking a sample is a system call."""


class Turn(NamedTuple):
    """One turn: its seconds, those of its longest lap with that lap's name, and its thread's processor time."""

    seconds: float = 0.0
    cause: str = ""
    cause_seconds: float = 0.0
    processor_seconds: float = 0.0


class TurnMeter:
    """Measures the turns of one loop; all methods are for its thread.

    `on_long` is called with each turn that took longer than `LONG_S`, once in `WARN_EVERY_S`. It must not raise.
    """

    __slots__ = (
        "_began",
        "_clock",
        "_lap_began",
        "_longest_lap",
        "_longest_lap_s",
        "_processor_clock",
        "_sampled_at",
        "_sampled_s",
        "_warned_at",
        "longest",
        "on_long",
    )

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, processor_clock: Callable[[], float] = time.thread_time
    ) -> None:
        self.longest = Turn()
        """The longest so far."""
        self.on_long: Callable[[Turn], None] | None = None
        self._clock = clock
        self._processor_clock = processor_clock
        self._began = self._lap_began = clock()
        self._longest_lap: object = ""
        self._longest_lap_s = 0.0
        self._sampled_at = -SAMPLE_S
        self._sampled_s = 0.0
        self._warned_at = -WARN_EVERY_S

    def begin(self) -> None:
        """A turn begins: events have been taken."""
        now = self._began = self._lap_began = self._clock()
        self._longest_lap_s = 0.0
        if now > self._sampled_at + SAMPLE_S:
            self._sampled_at, self._sampled_s = now, self._processor_clock()

    def lap(self, cause: object) -> None:
        """Attribute the time since the last lap to `cause`: a text, or an object with a text or type."""
        now = self._clock()
        took = now - self._lap_began
        if took > self._longest_lap_s:
            self._longest_lap_s, self._longest_lap = took, cause
        self._lap_began = now

    def end(self) -> None:
        """The turn ends: the loop is about to wait, or to look for new events."""
        took = self._lap_began - self._began
        if took > LONG_S or took > self.longest.seconds:
            self._note(took)

    def _note(self, took: float) -> None:
        processor_s = min(max(self._processor_clock() - self._sampled_s, 0.0), took)
        turn = Turn(took, _name(self._longest_lap), self._longest_lap_s, processor_s)
        if took > self.longest.seconds:
            self.longest = turn
        if took > LONG_S and self.on_long is not None and self._lap_began >= self._warned_at + WARN_EVERY_S:
            self._warned_at = self._lap_began
            self.on_long(turn)

    def figures(self) -> dict[str, object]:
        """Returns the longest turn so far in whole milliseconds, as a status reports it."""
        longest = self.longest
        return {
            "longest_turn_ms": round(longest.seconds * 1000),
            "longest_turn_cause": longest.cause,
            "longest_turn_processor_ms": round(longest.processor_seconds * 1000),
        }


def _name(cause: object) -> str:
    if isinstance(cause, str):
        return cause
    return type(cause).__name__ if type(cause).__str__ is object.__str__ else str(cause)
