"""A clock that counts only the time in which this process ran.

A process that judges the silence of others must not count its own. While it was stopped, swapped out or starved it
could not read what they sent, and on a crowded machine they often stood still with it. So a stall of any length counts
as one pulse; sessions, lags and timeouts go on from there, and what arrived meanwhile is read first.

A raft core needs no such clock: it learns of a stall by an event of its own (`Overslept`).
"""

import math
from collections.abc import Callable

PULSE_S = 0.5
"""`Rounds` reads the clock at least this often."""


class RunningClock:
    """Call it for the time in seconds; readings never fall.

    It must be read at least once in `pulse_s`. A gap of more than twice that is a stall, and counts as one pulse.
    """

    __slots__ = ("_clock", "_read_at", "held_up_at", "on_stall", "pulse_s", "stalled_s")

    def __init__(self, clock: Callable[[], float], pulse_s: float = PULSE_S) -> None:
        self.pulse_s = pulse_s
        self.on_stall: Callable[[], None] = lambda: None
        """Called once for each stall, by the reading that notices it."""
        self.stalled_s = 0.0
        """The time that is not counted, in all."""
        self.held_up_at = -math.inf
        """The reading that noticed last that it was late by half a pulse or more: then this process judges no one."""
        self._clock = clock
        self._read_at = clock()

    def __call__(self) -> float:
        """Returns the time, and notices a stall since the last call."""
        now = self._clock()
        gap = now - self._read_at
        self._read_at = now
        if gap < 1.5 * self.pulse_s:
            return now - self.stalled_s
        is_stall = gap > 2 * self.pulse_s
        if is_stall:
            self.stalled_s += gap - self.pulse_s
        self.held_up_at = now - self.stalled_s
        if is_stall:
            self.on_stall()
        return self.held_up_at

    def when(self, reading: float) -> float:
        """Returns the time on the underlying clock at which this one reads so, if no stall comes between."""
        return reading + self.stalled_s
