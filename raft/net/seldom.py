"""Limits the reports of repeated events, so that a client in a loop fills no log."""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

import attrs

KEPT_MAX: Final = 1_000
"""Events that are remembered as reported."""
QUIET_S: Final = 60.0
"""The time for which an event that was reported is not reported again."""
REPORTS_MAX: Final = 100
"""Reports within `QUIET_S`, however many different events there are."""


@attrs.define(eq=False)
class Seldom:
    """An event is reported once, and again with its number when `QUIET_S` is over. Keep events short."""

    clock: Callable[[], float]
    _last: OrderedDict[Hashable, tuple[float, int]] = attrs.field(factory=OrderedDict)
    """The time of each report and the number of times since then; the oldest report first."""
    _began_at: float = -math.inf
    _left: int = 0
    """Reports that are left until `QUIET_S` after the beginning."""

    def note(self, event: Hashable) -> int | None:
        """Returns how often the event has happened since its last report if it is to be reported now, else None."""
        now = self.clock()
        reported_at, times = self._last.get(event, (-math.inf, 0))
        if now - reported_at < QUIET_S:
            self._last[event] = (reported_at, times + 1)
            return None
        if now - self._began_at >= QUIET_S:
            self._began_at, self._left = now, REPORTS_MAX
        if not self._left:
            return None
        self._left -= 1
        self._last[event] = (now, 0)
        self._last.move_to_end(event)
        if len(self._last) > KEPT_MAX:
            self._last.popitem(last=False)
        return times + 1
