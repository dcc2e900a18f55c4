"""The search for the topics whose names match an expression, in slices that a broker has time for."""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Final

from attrs import define, field

from kafka_compat.coordinator.expressions import BadExpression, Expression, Place

PAUSE_S: Final = 0.01
"""The time that others have between two slices."""
SLICE: Final = 50_000
"""Visits of states at a time: a few milliseconds, and enough for thousands of names by a usual expression."""


@define
class TopicSearch:
    """One expression of a group. New topics are looked at as they come, all of them again after a while."""

    text: str
    _expression: Expression | None = None
    """Kept only during a search."""
    _topics: Mapping[str, object] = field(factory=dict)
    """Those that have been looked at, or wait for it."""
    _found: set[str] = field(factory=set)
    _waiting: list[str] = field(factory=list)
    _may_describe: Callable[[str], bool] | None = None
    _began: float | None = None
    _place: Place | None = None
    """The place within the last name that waits; None at its beginning."""
    _read: int = 0
    """The characters of that name before this place."""

    def begin(
        self, topics: Mapping[str, object], may_describe: Callable[[str], bool] | None, now: float, refresh: float
    ) -> None:
        """Takes up the topics of the cluster, of which only those count that `may_describe` admits.

        All are looked at again if that began `refresh` seconds ago.
        """
        if self._began is None or now >= self._began + refresh:
            self._topics, self._began = {}, now
            self._waiting.clear()
            self._found.clear()
        if topics is self._topics:
            return
        if self._waiting and self._waiting[-1] not in topics:
            self._place, self._read = None, 0
        waiting = [name for name in self._waiting if name in topics]
        fresh = [name for name in topics if name not in self._topics]
        self._waiting = fresh + waiting
        if not waiting:
            self._place, self._read = None, 0
        self._found &= topics.keys()
        self._topics, self._may_describe = topics, may_describe

    @property
    def waits(self) -> bool:
        """True if topics wait to be looked at."""
        return bool(self._waiting)

    def go_on(self) -> frozenset[str] | None:
        """Looks at topics for a slice of time; returns all that match once none waits any more."""
        left = SLICE
        try:
            expression = self._expression = self._expression or Expression(self.text)
        except BadExpression:  # a broker of another version took it
            self._waiting.clear()
            return frozenset()
        while self._waiting and left > 0:
            name = self._waiting[-1]
            place = self._place or expression.start
            while self._read < len(name) and place.states and left > 0:
                place, cost = expression.step(place, name[self._read])
                self._read += 1
                left -= cost
            if self._read < len(name) and place.states:
                self._place = place
                return None
            matches = self._read == len(name) and expression.accepts(place)
            if matches and (self._may_describe is None or self._may_describe(name)):
                self._found.add(name)
            self._waiting.pop()
            self._place, self._read = None, 0
            left -= 1
        if self._waiting:
            return None
        self._may_describe = self._expression = None
        return frozenset(self._found)


@define
class TopicSearches:
    """The expressions of a group."""

    found: dict[str, frozenset[str]] = field(factory=dict)
    """The topics that match each expression, as the last search that ended found them."""
    rewritten: set[str] = field(factory=set)
    """Expressions whose records may differ from those written."""
    due: float = math.inf
    """The time at which a search goes on."""
    _running: dict[str, TopicSearch] = field(factory=dict)

    def of(self, text: str) -> TopicSearch:
        """Returns the search for an expression."""
        return self._running.setdefault(text, TopicSearch(text))

    def keep(self, texts: Collection[str | None]) -> None:
        """Forgets all expressions but these."""
        for text in (self.found.keys() | self._running.keys()) - set(texts):
            self.found.pop(text, None)
            self._running.pop(text, None)
            self.rewritten.add(text)

    def go_on(self, now: float) -> bool:
        """Goes on with all searches that are under way. Returns True if one has ended and found something else."""
        changed = False
        for text, search in self._running.items():
            if not search.waits and text in self.found:
                continue
            names = search.go_on()
            if names is not None and self.found.get(text) != names:
                changed |= self.found.get(text, frozenset()) != names
                self.found[text] = names
                self.rewritten.add(text)
        self.due = now + PAUSE_S if any(each.waits for each in self._running.values()) else math.inf
        return changed
