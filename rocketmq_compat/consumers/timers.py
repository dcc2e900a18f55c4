"""Timer messages of RocketMQ 5 (`TimerMessageStore`): they wait for a time of their own. Pure.

A timer message is stored in the one queue of `TIMER_TOPIC`, in the order of arrival, with its real topic and queue and
the time at which it is due among its properties. `TimerSchedule` reads the queue once, and keeps the time and the
offset of each message that waits.

Only three numbers last (`TimerState`), so that a restart, a promotion or another master of a group goes on at the same
point. Every message before `decided_end` that was due at `decided_ms` or earlier is delivered, all other messages wait,
and none of them lies before `waits_from`. Messages are delivered in the order of their times, so these numbers follow
closely. They stand still while the queue is being read, and while a message waits that came after its time: a crash
then repeats deliveries, and loses none.
"""

import heapq
import math
import re
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from log.values import frozen
from rocketmq_compat.consumers.delays import REAL_QUEUE, REAL_TOPIC, RETRY_S, DelayedPlace, DelayLevels
from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.consumers.topic_names import TIMER_TOPIC
from rocketmq_compat.remoting.codes import ResponseCode

DELAY_S: Final = "TIMER_DELAY_SEC"
DELAY_MS: Final = "TIMER_DELAY_MS"
DELIVER_MS: Final = "TIMER_DELIVER_MS"
OUT_MS: Final = "TIMER_OUT_MS"
"""The time at which a message is due, in its record; a message with it has waited already."""
CANCELS: Final = "TIMER_DEL_UNIQKEY"
TIMER_PREFIX: Final = "TIMER_"
"""All of these names begin with it."""
WAITING_MAX: Final = 500_000
"""Timer messages that wait at one broker; each takes some 200 bytes of memory."""
UNDER_WAY_MAX: Final = 256
"""Messages that are being delivered, or wait because that failed."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_STATE_LEVELS: Final = (-1, -2, -3)
"""Under which numbers the state lasts among the offsets of delay levels."""


@frozen
class TimerRule:
    """The limits of a broker: `timerWheelEnable`, and `timerMaxDelaySec` in ms."""

    is_enabled: bool
    delay_ms_max: int

    def place(
        self, now_ms: int, topic: str, queue_id: int, properties: Mapping[str, str], *, waiting: int
    ) -> DelayedPlace | None:
        """Returns the place where a message for this queue waits, or None if it is due at once, or asks for no time.

        `waiting` other messages wait already. Raises `RequestRefused` as RocketMQ does: MESSAGE_ILLEGAL for a time that
        is malformed or too far ahead, SYSTEM_ERROR if timers are disabled or too many wait. A message that cancels
        another is refused with MESSAGE_ILLEGAL: cancelling is not served.
        """
        if CANCELS in properties:
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, f"{CANCELS}: cancelling a timer message is not served")
        asked = next((name for name in (DELAY_S, DELAY_MS, DELIVER_MS) if name in properties), None)
        if asked is None or OUT_MS in properties:
            return None
        if not self.is_enabled:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, "accurate timer message is not enabled, timerWheelEnable is false"
            )
        text = properties[asked]
        if _NUMBER.fullmatch(text) is None:
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL, f"timer message illegal: {asked}={text[:40]} is no number"
            )
        value = int(text)
        due_ms = {DELAY_S: now_ms + value * 1000, DELAY_MS: now_ms + value, DELIVER_MS: value}[asked]
        if due_ms <= now_ms:
            return None
        if due_ms - now_ms > self.delay_ms_max:
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"timer message illegal, the delay time should not be bigger than the max delay {self.delay_ms_max}ms",
            )
        if waiting >= WAITING_MAX:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"timer message is under flow control, max num limit is {WAITING_MAX}"
            )
        kept = {**properties, OUT_MS: str(due_ms), REAL_TOPIC: topic, REAL_QUEUE: str(queue_id)}
        return DelayedPlace(TIMER_TOPIC, 0, 0, kept)


def waiting_place(
    levels: DelayLevels,
    timers: TimerRule,
    now_ms: int,
    topic: str,
    queue_id: int,
    properties: Mapping[str, str],
    *,
    waiting: int,
) -> DelayedPlace | None:
    """Returns the place where a message waits, by its delay level or else until its time, or None if it does not wait.

    Raises `RequestRefused` as `TimerRule.place` does.
    """
    if levels.level_of(properties):
        rest = {name: value for name, value in properties.items() if name not in (DELAY_S, DELAY_MS, DELIVER_MS)}
        return levels.place(topic, queue_id, rest)
    return timers.place(now_ms, topic, queue_id, properties, waiting=waiting)


def due_ms_of(properties: Mapping[str, str]) -> int | None:
    """Returns the time at which a stored timer message is due, or None if its properties lack it."""
    text = properties.get(OUT_MS, "")
    return int(text) if _NUMBER.fullmatch(text) else None


@frozen
class TimerState:
    """The state that lasts (see the module). Offsets belong to the timer queue."""

    decided_ms: int = 0
    decided_end: int = 0
    waits_from: int = 0

    @classmethod
    def among(cls, offsets: Mapping[int, int]) -> "TimerState":
        """Returns the state that lasts among the offsets of delay levels; the first one if there is none."""
        return cls(*(max(offsets.get(level, 0), 0) for level in _STATE_LEVELS))

    def as_offsets(self) -> Mapping[int, int]:
        """Returns the offsets that keep this state; empty for the first state."""
        if self == TimerState():
            return {}
        return dict(zip(_STATE_LEVELS, attrs.astuple(self), strict=True))


@attrs.define
class TimerSchedule:
    """The messages that wait. The shell reads the queue, delivers and reports."""

    state: TimerState
    _end: int = 0
    """The end of the queue, as last reported."""
    _read_end: int = 0
    """Up to where the queue was read."""
    _times: dict[int, int] = attrs.field(factory=dict)
    """The time at which each undelivered message is due, by offset."""
    _offsets: deque[int] = attrs.field(factory=deque)
    """Their offsets in order, with some that are delivered."""
    _next: list[tuple[int, int]] = attrs.field(factory=list)
    """A heap of time and offset of all messages except those under way."""
    _under_way: dict[int, int | None] = attrs.field(factory=dict)
    """By offset, None while a message is being delivered; else when it is tried again."""
    _delivered_ms: int = 0
    """The latest time of a message that was delivered."""
    _has_news: bool = False
    """True if a message was delivered since the state moved on."""

    @classmethod
    def starting_at(cls, state: TimerState, start: int, end: int) -> "TimerSchedule":
        """Returns the schedule of a queue that holds these offsets; the queue has not been read yet."""
        schedule = cls(state, end, state.waits_from, delivered_ms=state.decided_ms)
        schedule.bounds(start, end)
        return schedule

    @property
    def waiting(self) -> int:
        """The number of undelivered messages in the part of the queue that was read."""
        return len(self._times)

    @property
    def waits_from(self) -> int | None:
        """The offset of the first waiting message or earlier, or None without a waiting message."""
        return self.state.waits_from if self.state.waits_from < self._end else None

    def bounds(self, start: int, end: int) -> None:
        """Take the bounds of the queue at the start, after arrivals, and after a trim or a cut."""
        self._end = max(start, end)
        if self.state.waits_from < start or self._read_end > self._end or self.state.decided_end > self._end:
            self._drop([offset for offset in self._times if not start <= offset < self._end])
            self._read_end = min(max(self._read_end, start), self._end)
            self.state = TimerState(
                self.state.decided_ms,
                min(self.state.decided_end, self._end),
                min(max(self.state.waits_from, start), self._end),
            )
        self._read_end = max(self._read_end, start)

    def _drop(self, offsets: Iterable[int]) -> None:
        gone = set(offsets)
        if gone:
            self._times = {offset: due_ms for offset, due_ms in self._times.items() if offset not in gone}
            self._offsets = deque(offset for offset in self._offsets if offset not in gone)
            self._next = [each for each in self._next if each[1] not in gone]
            heapq.heapify(self._next)
            for offset in gone:
                self._under_way.pop(offset, None)

    # ---------------------------------------------------------------- reading the queue

    def to_read(self) -> int | None:
        """Returns the offset from which to read on, or None if the whole queue was read."""
        return self._read_end if self._read_end < self._end else None

    def read(self, offset: int, due_ms: int | None) -> None:
        """Take the time of the message at this offset, the first unread one; None if it is not a timer message."""
        self._read_end = offset + 1
        is_decided = offset < self.state.decided_end and due_ms is not None and due_ms <= self.state.decided_ms
        if due_ms is not None and not is_decided:
            self._times[offset] = due_ms
            self._offsets.append(offset)
            heapq.heappush(self._next, (due_ms, offset))

    def pass_over(self, offset: int) -> None:
        """Skip the offsets before this one, which hold no messages any more."""
        self._read_end = max(self._read_end, min(offset, self._end))

    # ---------------------------------------------------------------- delivering

    def take_due(self, now_ms: int) -> list[int]:
        """Returns the offsets of due messages, in the order of their times.

        They are under way until `on_delivered` or `on_failed`.
        """
        if not self._times:
            return []
        taken = [offset for offset, again_ms in self._under_way.items() if again_ms is not None and again_ms <= now_ms]
        room = UNDER_WAY_MAX - len(self._under_way)
        while room > 0 and self._next and self._next[0][0] <= now_ms:
            taken.append(heapq.heappop(self._next)[1])
            room -= 1
        self._under_way.update(dict.fromkeys(taken))
        return taken

    def on_delivered(self, offset: int) -> None:
        """Remove a message that is stored in its real queue, or that cannot be delivered."""
        if offset in self._under_way:
            del self._under_way[offset]
            self._delivered_ms = max(self._delivered_ms, self._times.pop(offset))
            self._has_news = True

    def on_failed(self, now_ms: int, offset: int) -> None:
        """Note that the message could not be stored: it is due again later."""
        if offset in self._under_way:
            self._under_way[offset] = now_ms + round(RETRY_S * 1000)

    def decide(self) -> TimerState:
        """Returns the state, advanced as the deliveries allow."""
        if not self._has_news or self._read_end < self._end:
            return self.state
        while self._offsets and self._offsets[0] not in self._times:
            self._offsets.popleft()
        first_ms = min((self._times[offset] for offset in self._under_way), default=None)
        if self._next and (first_ms is None or self._next[0][0] < first_ms):
            first_ms = self._next[0][0]
        if first_ms is None or first_ms > self.state.decided_ms:
            decided_ms = self._delivered_ms if first_ms is None else min(self._delivered_ms, first_ms - 1)
            waits_from = self._offsets[0] if self._offsets else self._end
            self.state = TimerState(max(decided_ms, self.state.decided_ms), self._end, waits_from)
            self._has_news = False
        return self.state

    def deadline_ms(self) -> float:
        """Returns when a message is due next; infinity if none waits."""
        if not self._times:
            return math.inf
        retries = [again_ms for again_ms in self._under_way.values() if again_ms is not None]
        has_room = len(self._under_way) < UNDER_WAY_MAX
        return min(self._next[0][0] if self._next and has_room else math.inf, min(retries, default=math.inf))
