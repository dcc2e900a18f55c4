"""Every state that a small system can reach, breadth first: the search, which knows no system.

A model gives the states to begin from, what can happen in each, the state after that, and a number for each state and
all that differ from it in names only. What is visited is kept as those numbers, the way to it as two integers. The
first broken promise ends the search, and is found with one of the shortest ways to it.
"""

import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

import attrs

PROGRESS_EVERY_S = 0.5

S = TypeVar("S")
"""A state of the whole system."""
A = TypeVar("A", bound=Hashable)
"""One thing that can happen to it."""


@attrs.frozen
class BrokenPath:
    """A broken promise, and the shortest way to it."""

    sentence: str
    path: tuple[str, ...]


@attrs.define
class Explored:
    """The result of a search: sizes, the depth of the last level begun, and whether it saw every state."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    exhausted: bool = False
    seconds: float = 0.0
    found: BrokenPath | None = None


class BrokenPromise(Exception):
    """A promise does not hold."""


def _ignore(_: Explored) -> None:
    pass


class Explorer(ABC, Generic[S, A]):
    """One search of one scope."""

    scope: Any
    """The bounds of the search: an attrs class, whose `str` is what `--scope` takes."""

    def __init__(self) -> None:
        self._actions: list[A] = []
        self._action_ids: dict[A, int] = {}

    @abstractmethod
    def starts(self) -> Iterable[S]:
        """The states to begin from."""

    @abstractmethod
    def possible(self, state: S) -> Iterable[A]:
        """Every single thing that can happen next."""

    @abstractmethod
    def after(self, state: S, action: A) -> S:
        """The state after `action`, or `state` if it need not be seen. Raises `BrokenPromise` where a check fails."""

    @abstractmethod
    def key(self, state: S) -> int:
        """The same number for the same state and its namesakes; another one for others, but for chance in 64 bits."""

    @abstractmethod
    def words(self, action: A) -> str:
        """The action as a line of a path."""

    # ---------------------------------------------------------------- the search

    def explore(
        self,
        *,
        seconds_max: float | None = None,
        states_max: int | None = None,
        on_level: Callable[[Explored], None] = _ignore,
        on_progress: Callable[[Explored], None] = _ignore,
    ) -> Explored:
        """Search level by level until everything was seen, a bound is reached or a promise is broken.

        `on_level` is called after each level, `on_progress` every `PROGRESS_EVERY_S` on the way.
        """
        began = told = time.monotonic()
        explored = Explored()
        seen: set[int] = set()
        parents, steps = array("q"), array("q")
        level: list[tuple[int, S]] = []
        for first in self.starts():
            seen.add(self.key(first))
            level.append((len(parents), first))
            parents.append(-1)
            steps.append(-1)
        explored.states = len(seen)
        while level:
            following: list[tuple[int, S]] = []
            for number, state in level:
                for action in self.possible(state):
                    explored.transitions += 1
                    try:
                        successor = self.after(state, action)
                    except BrokenPromise as broken:
                        path = (*self._path(parents, steps, number), self.words(action))
                        explored.found = BrokenPath(str(broken), path)
                    else:
                        if successor is state or (key := self.key(successor)) in seen:
                            continue
                        seen.add(key)
                        following.append((len(parents), successor))
                        parents.append(number)
                        steps.append(self._action_id(action))
                    if explored.found is not None:
                        break
                now = time.monotonic()
                explored.seconds = now - began
                explored.states = len(seen)
                if now - told >= PROGRESS_EVERY_S:
                    told = now
                    on_progress(explored)
                over = seconds_max is not None and explored.seconds > seconds_max
                if explored.found is not None or over or (states_max is not None and len(seen) >= states_max):
                    return explored
            level = following
            if level:
                explored.depth += 1
            on_level(explored)
        explored.exhausted = True
        return explored

    def _path(self, parents: "array[int]", steps: "array[int]", number: int) -> list[str]:
        path: list[str] = []
        while parents[number] >= 0:
            path.append(self.words(self._actions[steps[number]]))
            number = parents[number]
        return path[::-1]

    def _action_id(self, action: A) -> int:
        known = self._action_ids.get(action)
        if known is None:
            known = self._action_ids[action] = len(self._actions)
            self._actions.append(action)
        return known
