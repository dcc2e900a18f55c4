"""Reports the movement of a broker's copy of the commit log to its log and to a test harness, as `copy_moved`.

Its fields: the name of the group, the role, the epoch, `end` of the log, and `confirmed`, the end that the master has
confirmed. In a raft group, `confirmed` is the end of the records that are committed and applied here. It reports
changes alone, at most a few times a second.
"""

from typing import Final, Protocol

import attrs

from rocketmq_compat.broker.context import Context

TELL_EVERY_S: Final = 0.25


class CopyFacts(Protocol):
    """The broker's log, in either mode."""

    @property
    def epoch(self) -> int:
        """The newest epoch in it."""

    @property
    def confirmed(self) -> int:
        """Up to where it is confirmed."""


@attrs.frozen
class _Position:
    role: str
    epoch: int
    end: int
    confirmed: int


class Reporter:
    """Reports the position of one copy. Call `tick` once a round."""

    def __init__(self, context: Context, log: CopyFacts) -> None:
        self._context = context
        self._log = log
        self._told: _Position | None = None
        self._has_moved = False
        self._next_at = 0.0

    @property
    def deadline(self) -> float:
        """The time at which `tick` is due."""
        return self._next_at if self._has_moved else float("inf")

    def tick(self, now: float) -> None:
        """Report the position if it has changed, and it is time."""
        if self._has_moved and now < self._next_at:
            return
        context, log = self._context, self._log
        role = "slave" if context.is_slave else "master"
        position = _Position(role, log.epoch, context.store.log.end_offset, log.confirmed)
        self._has_moved = position != self._told
        if not self._has_moved or now < self._next_at:
            return
        self._told, self._has_moved = position, False
        self._next_at = now + TELL_EVERY_S
        context.tell("copy_moved", group=context.broker_name, **attrs.asdict(position))
