"""Delivers delayed messages when they are due: stores each in its real queue, then moves on (`ScheduleMessageService`).

This module handles delay levels, and `timers.py` messages with a time of their own. A message is delivered at least
once: after a crash or a failover, the deliveries of the last seconds are repeated.
"""

import math
from collections.abc import Mapping

from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.puts import MessagePort, PutOutcome, StoredMessages
from rocketmq_compat.broker.timers import TimerMessages, deliver_again
from rocketmq_compat.consumers.delays import DelaySchedule
from rocketmq_compat.consumers.topic_names import SCHEDULE_TOPIC
from rocketmq_compat.storage.dispatch import QueueRun

DELIVERIES_OF_ROUND = 256
"""So many messages are delivered in one round of the reactor; others follow in the next."""


class DelayedMessages:
    """The schedule of one broker. A slave keeps the offsets of its master, and leaves delivery to it."""

    def __init__(self, context: Context, offsets: Mapping[int, int]) -> None:
        self._context = context
        self._has_more = False
        self.timers = TimerMessages(context)
        context.timers_waiting = lambda: self.timers.waiting
        context.delays_from = lambda: self.keeps_from
        self.follow(offsets)

    @property
    def offsets(self) -> Mapping[int, int]:
        """The offset of the next message of each level, and how far timer messages are, as `TimerState` has it."""
        return {**self._schedule.offsets, **self.timers.offsets}

    @property
    def keeps_from(self) -> int | None:
        """The physical offset of the first message that still waits, or None.

        The commit log must not be trimmed beyond it.
        """
        store, waiting = self._context.store, self.timers.waiting_places
        for level, offset in self._schedule.offsets.items():
            key = SCHEDULE_TOPIC, level - 1
            _, end = store.queue(key) or (0, 0)
            if offset < end:
                waiting.append((key, offset))
        places = [place for key, offset in waiting if (place := store.place(key, offset)) is not None]
        return min(places, default=None)

    @property
    def deadline(self) -> float:
        """The time at which `tick` is due, in seconds of the context's clock."""
        if self._context.is_slave:
            return float("inf")
        if self._has_more:
            return self._context.clock()
        due_ms = min(self._schedule.deadline_ms(), self.timers.deadline_ms)
        if due_ms == math.inf:
            return due_ms
        return self._context.clock() + max(0.0, (due_ms - self._context.wall_ms()) / 1000)

    def follow(self, offsets: Mapping[int, int]) -> None:
        """Go on at these offsets, which come from a checkpoint or from the master."""
        context = self._context
        self._schedule = DelaySchedule.starting_at(context.levels, offsets)
        for level in range(1, context.levels.highest + 1):
            start, end = context.store.queue((SCHEDULE_TOPIC, level - 1)) or (0, 0)
            self._schedule.bounds(level, start, end)
        self.timers.follow(offsets)

    def on_arrived(self, runs: list[QueueRun]) -> None:
        """Messages have come; some of them may be delayed ones."""
        for run in runs:
            if run.key[0] == SCHEDULE_TOPIC:
                start, _ = self._context.store.queue(run.key) or (0, 0)
                self._schedule.bounds(run.key[1] + 1, start, run.next)
        self.timers.on_arrived(runs)

    def tick(self, replicated: MessagePort) -> bool:
        """Deliver the messages that are due. Returns True if there were any."""
        self._has_more = False
        if self._context.is_slave:
            return False
        delivered, self._has_more = self.timers.tick(replicated)
        left = DELIVERIES_OF_ROUND
        while left > 0:
            self._look()
            due = self._schedule.due(self._context.wall_ms())
            if not due:
                return delivered or left < DELIVERIES_OF_ROUND
            for level, offset in due:
                self._deliver(replicated, level, offset)
                left -= 1
        self._has_more = True
        return True

    def _look(self) -> None:
        for level, offset in self._schedule.to_look_at():
            stored_ms = self._context.store.store_time((SCHEDULE_TOPIC, level - 1), offset)
            if stored_ms is not None:
                self._schedule.looked_at(self._context.wall_ms(), level, offset, stored_ms)
            else:  # it has left the log
                start, end = self._context.store.queue((SCHEDULE_TOPIC, level - 1)) or (0, 0)
                self._schedule.bounds(level, start, end)

    def _deliver(self, replicated: MessagePort, level: int, offset: int) -> None:
        context = self._context
        found = context.store.read((SCHEDULE_TOPIC, level - 1), offset, count_max=1)
        if not found.records:
            self._schedule.on_delivered(level, offset)
            return
        again = deliver_again(context, found.records[0])
        if again is None:
            context.tell("delayed_message_dropped", level=level, offset=offset, reason="it names no topic and queue")
            self._schedule.on_delivered(level, offset)
            return
        self._schedule.on_started(level, offset)

        def on_outcome(outcome: PutOutcome) -> None:
            if isinstance(outcome, StoredMessages):
                self._schedule.on_delivered(level, offset)
            else:
                self._schedule.on_failed(context.wall_ms(), level, offset)

        replicated.put([again], on_outcome)
