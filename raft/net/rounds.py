"""Rounds: sees to it that a round of the reactor begins whenever a part of the process is due.

The parts do their work in the round, so messages that arrived meanwhile are processed before what is due. What fails
there is raised by the reactor, where the owner of the reactor expects it.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import trio

from raft.net.reactor import Reactor
from raft.net.running_clock import RunningClock


class Part(Protocol):
    """Something that has work to do in some round."""

    @property
    def deadline(self) -> float:
        """The time at which its next work is due; in the past if it is due now, infinite for none."""


class Rounds:
    """The timer of all parts of one participant. `arm` is called at the end of each round.

    Deadlines are times of `clock`, which is read once in each of its pulses; without one they are times of Trio's.
    """

    def __init__(self, reactor: Reactor, parts: Sequence[Part], clock: RunningClock | None = None) -> None:
        self._reactor = reactor
        self._parts = parts
        self._clock = clock
        self._armed_for = 0.0
        self._moved = trio.Event()

    @property
    def deadline(self) -> float:
        """The earliest deadline of all parts."""
        return min([part.deadline for part in self._parts])

    def arm(self) -> None:
        """Let the timer know of a deadline that has moved forward."""
        for part in self._parts:
            if part.deadline < self._armed_for:
                self._moved.set()

    async def run(self) -> None:
        """Request a round whenever a part is due, until cancelled."""
        while True:
            self._armed_for = self.deadline
            self._moved = trio.Event()
            with trio.move_on_at(self._wakes_at()):
                await self._moved.wait()
            if (trio.current_time() if self._clock is None else self._clock()) >= self.deadline:
                self._armed_for = math.inf
                self._moved = trio.Event()
                self._reactor.request_round()
                await self._moved.wait()

    def _wakes_at(self) -> float:
        clock = self._clock
        if clock is None:
            return self._armed_for
        return min(clock.when(self._armed_for), trio.current_time() + clock.pulse_s)
