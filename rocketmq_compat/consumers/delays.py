"""Delayed messages: finds the level of a message, its waiting place, and the due messages (`ScheduleMessageService`).

A delayed message is stored in the queue of its level in the schedule topic, with its real topic and queue among its
properties. All messages of a level wait equally long, so the first of each level is due first.
"""

import math
import re
from collections.abc import Mapping
from typing import Final

import attrs

from log.values import frozen
from rocketmq_compat.consumers.retry import DELAY_LEVEL
from rocketmq_compat.consumers.topic_names import SCHEDULE_TOPIC

REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE: Final = "REAL_QID"
DEFAULT_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
LEVELS_MAX: Final = 1_000
RETRY_S: Final = 10.0
"""The pause before a failed delivery is tried again."""

_LEVEL: Final = re.compile(r"([0-9]{1,9})([smhd])")
_UNIT_MS: Final[Mapping[str, int]] = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class BadDelayLevels(ValueError):
    """`messageDelayLevel` is not a list of times."""


@frozen
class DelayedPlace:
    """The place where a delayed message waits, and its properties there."""

    topic: str
    queue_id: int
    level: int
    properties: Mapping[str, str]


@frozen
class DelayLevels:
    """The delay of each level, in milliseconds; levels count from 1."""

    delays_ms: tuple[int, ...]

    @classmethod
    def parse(cls, text: str = DEFAULT_LEVELS) -> "DelayLevels":
        """Returns the levels of `messageDelayLevel`: times with the units s, m, h and d, separated by spaces.

        Raises `BadDelayLevels`.
        """
        words = text.split()
        if not 1 <= len(words) <= LEVELS_MAX:
            raise BadDelayLevels(f"messageDelayLevel has 1 to {LEVELS_MAX} levels, not {len(words)}")
        delays = []
        for word in words:
            match = _LEVEL.fullmatch(word)
            if match is None:
                raise BadDelayLevels(f"messageDelayLevel: {word!r} is not a number with one of the units s, m, h, d")
            delays.append(int(match[1]) * _UNIT_MS[match[2]])
        return cls(tuple(delays))

    @property
    def highest(self) -> int:
        """The last level."""
        return len(self.delays_ms)

    def delay_ms(self, level: int) -> int:
        """Returns how long a level waits, in milliseconds."""
        return self.delays_ms[level - 1]

    def level_of(self, properties: Mapping[str, str]) -> int:
        """Returns the level that a message asks for, 0 for none; one that is too high is the highest."""
        text = properties.get(DELAY_LEVEL, "")
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            return 0
        return min(int(text), self.highest)

    def place(self, topic: str, queue_id: int, properties: Mapping[str, str]) -> DelayedPlace | None:
        """Returns the place where a message for this queue waits, or None if it is not delayed."""
        level = self.level_of(properties)
        if not level:
            return None
        kept = {**properties, DELAY_LEVEL: str(level), REAL_TOPIC: topic, REAL_QUEUE: str(queue_id)}
        return DelayedPlace(SCHEDULE_TOPIC, level - 1, level, kept)

    def due_ms(self, level: int, stored_ms: int) -> int:
        """Returns when a message is due that was stored at `stored_ms`, both in milliseconds of the wall clock."""
        return stored_ms + self.delay_ms(level)


def delivered_to(properties: Mapping[str, str]) -> tuple[str, int, Mapping[str, str]] | None:
    """Returns topic, queue and properties of a due delayed message, or None if its properties do not name them.

    The only trace of the delay in its record is its real destination, as in RocketMQ.
    """
    topic, queue = properties.get(REAL_TOPIC, ""), properties.get(REAL_QUEUE, "")
    if not topic or not queue.isascii() or not queue.isdigit() or len(queue) > 9:
        return None
    return topic, int(queue), {name: value for name, value in properties.items() if name != DELAY_LEVEL}


@attrs.define
class _LevelQueue:
    """The progress of delivery of one level."""

    next_offset: int = 0
    """Of the message that is delivered next."""
    end_offset: int = 0
    """The end of the queue, as last reported."""
    head_due_ms: int | None = None
    """The time at which the message at `next_offset` is due; None until it has been looked at."""
    not_before_ms: int = 0
    """After a failure."""
    under_way: bool = False
    """True while the first message is being delivered."""


@attrs.define
class DelaySchedule:
    """Decides what to deliver next, level by level.

    The shell reads, stores and reports; offsets move when a message is stored.
    """

    levels: DelayLevels
    _queues: dict[int, _LevelQueue] = attrs.field(factory=dict)
    _deadline_ms: float | None = None
    """None if something has changed since `deadline_ms` found it: it is asked for in every round."""
    _has_news: bool = True
    """True if a first message may have an unknown time."""
    _asked_ms: int = 0
    """The time at which `due` was asked last."""

    @classmethod
    def starting_at(cls, levels: DelayLevels, offsets: Mapping[int, int]) -> "DelaySchedule":
        """Returns a schedule that goes on at these offsets of a checkpoint; a level without one begins at 0."""
        schedule = cls(levels)
        for level in range(1, levels.highest + 1):
            start = max(offsets.get(level, 0), 0)
            schedule._queues[level] = _LevelQueue(start, start)
        return schedule

    @property
    def offsets(self) -> Mapping[int, int]:
        """The offset of the next message of each level, to be kept across restarts."""
        return {level: queue.next_offset for level, queue in self._queues.items()}

    def bounds(self, level: int, start_offset: int, end_offset: int) -> None:
        """Take the bounds of a level's queue: at the start, when messages arrive, and when its oldest have left."""
        queue = self._queues.get(level)
        if queue is None:
            return
        self._deadline_ms, self._has_news = None, True
        queue.end_offset = max(end_offset, start_offset)
        if queue.next_offset < start_offset:
            queue.next_offset, queue.head_due_ms, queue.under_way = start_offset, None, False
        elif queue.next_offset > queue.end_offset:
            # The queue was truncated: what was delivered of it is gone, too.
            queue.next_offset, queue.head_due_ms, queue.under_way = queue.end_offset, None, False

    def to_look_at(self) -> list[tuple[int, int]]:
        """Returns level and offset of each first message with an unknown time; the shell answers with `looked_at`."""
        if not self._has_news:
            return []
        heads = [
            (level, queue.next_offset)
            for level, queue in self._queues.items()
            if queue.head_due_ms is None and queue.next_offset < queue.end_offset
        ]
        self._has_news = bool(heads)
        return heads

    def looked_at(self, now_ms: int, level: int, offset: int, stored_ms: int) -> None:
        """Take the time at which the message at this offset was stored.

        If it seems to wait longer than its level, because the clock was set back, it is due at once.
        """
        queue = self._queues[level]
        if queue.next_offset == offset:
            due_ms = self.levels.due_ms(level, stored_ms)
            queue.head_due_ms = due_ms if due_ms <= now_ms + self.levels.delay_ms(level) else now_ms
            self._deadline_ms = None

    def due(self, now_ms: int) -> list[tuple[int, int]]:
        """Returns level and offset of each first message that is due."""
        if now_ms < self._asked_ms:
            self._set_back(now_ms)
        self._asked_ms = now_ms
        if self.deadline_ms() > now_ms:
            return []
        return [(level, queue.next_offset) for level, queue in self._queues.items() if self._due_ms(queue) <= now_ms]

    def _set_back(self, now_ms: int) -> None:
        """The clock was set back: no message that has been looked at waits longer than its level, or its pause."""
        self._deadline_ms = None
        for level, queue in self._queues.items():
            queue.not_before_ms = min(queue.not_before_ms, now_ms + round(RETRY_S * 1000))
            if queue.head_due_ms is not None:
                queue.head_due_ms = min(queue.head_due_ms, now_ms + self.levels.delay_ms(level))

    def on_started(self, level: int, offset: int) -> None:
        """Note that the message is being stored: it is not due until `on_delivered` or `on_failed`."""
        queue = self._queues[level]
        if queue.next_offset == offset:
            queue.under_way = True
            self._deadline_ms = None

    def on_delivered(self, level: int, offset: int) -> None:
        """Move on to the next message. This one is stored in its real queue, or cannot be delivered."""
        queue = self._queues[level]
        if queue.next_offset == offset:
            queue.next_offset, queue.head_due_ms, queue.not_before_ms = offset + 1, None, 0
            queue.under_way = False
            self._deadline_ms, self._has_news = None, True

    def on_failed(self, now_ms: int, level: int, offset: int) -> None:
        """Note that the message could not be stored: it is due again later."""
        queue = self._queues[level]
        if queue.next_offset == offset:
            queue.not_before_ms = now_ms + round(RETRY_S * 1000)
            queue.under_way = False
            self._deadline_ms = None

    def deadline_ms(self) -> float:
        """Returns the time at which the next known message is due; infinity without one."""
        if self._deadline_ms is None:
            self._deadline_ms = min(map(self._due_ms, self._queues.values()), default=math.inf)
        return self._deadline_ms

    @staticmethod
    def _due_ms(queue: _LevelQueue) -> float:
        if queue.under_way or queue.head_due_ms is None or queue.next_offset >= queue.end_offset:
            return math.inf
        return max(queue.head_due_ms, queue.not_before_ms)
