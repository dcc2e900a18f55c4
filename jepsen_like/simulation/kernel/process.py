"""One process of a simulated node: its life, its clock, and the order in which things reach it.

Whatever reaches a process begins a round, as in the reactor's loop: the action, `end_round`, the wait for a deadline.
One that stands still gets all when it goes on; what an earlier life planned, or was to get, never happens.
"""

import abc
from collections.abc import Callable
from typing import ClassVar, Protocol

from jepsen_like.simulation.kernel.clock import SimulatedClock
from jepsen_like.simulation.kernel.findings import NODE_ERRORS


class ProcessHost(Protocol):
    """The world as a process needs it."""

    now: float

    def schedule(self, at: float, action: Callable[..., None], *arguments: object) -> None:
        """Call `action(*arguments)` at time `at`."""


class SimulatedProcess(abc.ABC):
    """One node; `process` names its present life, or its last one, and is never used again."""

    ERRORS: ClassVar[tuple[type[Exception], ...]] = NODE_ERRORS
    """Errors that end the process, and are judged by the world."""
    ROUND_S: ClassVar[float] = 1e-6
    """A deadline is served this long after it at the latest: clocks round."""

    def __init__(self, host: ProcessHost, node: int) -> None:
        self.node = node
        self.clock = SimulatedClock()
        self.up = self.paused = False
        self.lives = self.process = 0
        self.slowness = 1.0
        """A flush takes this many times its usual time."""
        self.dialed: set[int] = set()
        """The connections that were opened to this machine, in whichever life."""
        self._timer = host
        self._inbox: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        self._armed_at = float("inf")

    @property
    @abc.abstractmethod
    def deadline(self) -> float:
        """The next time on its own clock at which it has something to do; -inf for at once, inf for never."""

    def serve_deadline(self) -> None:  # noqa: B027 - a round is enough for most
        """Begin a round for what is due, which `end_round` does."""

    @abc.abstractmethod
    def end_round(self) -> None:
        """Do what follows everything that reaches the process."""

    @abc.abstractmethod
    def crash(self, error: Exception) -> None:
        """Let the world judge an error that ends the process."""

    def begin_life(self) -> None:
        """A new process runs, and nothing has reached it."""
        self.lives += 1
        self.process = self.lives * 100 + self.node
        self.up, self.paused = True, False
        self._inbox.clear()
        self._armed_at = float("inf")

    def end_life(self) -> None:
        """The process is gone, with everything that waited for it."""
        self.up = self.paused = False
        self._inbox.clear()

    def lives_as(self, process: int) -> bool:
        """Returns True if this very process runs; one that stands still does."""
        return self.up and self.process == process

    def reading(self) -> float:
        """Returns the time on its clock."""
        return self.clock.at(self._timer.now)

    def later(self, seconds: float, action: Callable[..., None], *arguments: object) -> None:
        """Let `action(*arguments)` reach this process after so many seconds, if it still lives."""
        self._timer.schedule(self._timer.now + seconds, self.reach, self.process, action, arguments)

    def reach(self, process: int, action: Callable[..., None], arguments: tuple[object, ...]) -> None:
        """Let `action(*arguments)` reach this life of the process, and no later one."""
        if process == self.process:
            self.take(action, *arguments)

    def take(self, action: Callable[..., None], *arguments: object) -> None:
        """Let `action(*arguments)` reach this process: now, or when it goes on after a pause."""
        if not self.up:
            return
        if self.paused:
            self._inbox.append((action, arguments))
            return
        process = self.process
        try:
            action(*arguments)
            if self.lives_as(process):
                self.end_round()
        except self.ERRORS as error:
            self.crash(error)
            return
        if self.lives_as(process):
            self._arm()

    def resume(self) -> None:
        """It goes on after a pause, with all that has come meanwhile."""
        self.paused = False
        process, inbox = self.process, self._inbox
        self._inbox = []
        for action, arguments in inbox:
            if self.lives_as(process):
                self.take(action, *arguments)

    def clock_jumped(self) -> None:
        """Deadlines are nearer than they were."""
        self._armed_at = float("inf")
        if self.up:
            self._arm()

    def _arm(self) -> None:
        due = self.deadline
        if due == float("inf"):
            return
        now = self._timer.now
        at = (now if due == float("-inf") else max(self.clock.when(due), now)) + self.ROUND_S
        if at < self._armed_at:
            self._armed_at = at
            self._timer.schedule(at, self._wake, self.process, at)

    def _wake(self, process: int, armed_at: float) -> None:
        """Begin a round, unless the deadline has moved since, or the process is gone."""
        if process != self.process or armed_at != self._armed_at or not self.up:
            return
        self._armed_at = float("inf")
        if self.paused or self.deadline <= self.reading():
            self.take(self.serve_deadline)
        else:
            self._arm()
