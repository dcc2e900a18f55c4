"""Delivers timer messages at their time: reads the timer queue, and stores due messages in their real queues.

It never delivers before the time by this broker's clock, and delivers at least once, like other delayed messages.
"""

from collections.abc import Mapping

from raft.net.decoder import Buffer
from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.puts import MessagePort, PutOutcome, StoredMessages
from rocketmq_compat.consumers.delays import delivered_to
from rocketmq_compat.consumers.timers import TimerSchedule, TimerState, due_ms_of
from rocketmq_compat.consumers.topic_names import TIMER_TOPIC
from rocketmq_compat.records import encode_record, read_head, read_properties, write_properties
from rocketmq_compat.storage.dispatch import QueueKey, QueueRun

TIMER_QUEUE: QueueKey = (TIMER_TOPIC, 0)
READ_OF_ROUND = 256
"""So many messages of the timer queue are read in one round of the reactor; others follow in the next."""


class TimerMessages:
    """The timer messages of one broker. A slave keeps the state of its master, and leaves delivery to it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._schedule = TimerSchedule.starting_at(TimerState(), 0, 0)

    @property
    def offsets(self) -> Mapping[int, int]:
        """The progress of delivery, to be kept among the offsets of delay levels."""
        return self._schedule.decide().as_offsets()

    @property
    def waiting(self) -> int:
        """The number of waiting messages in the part of the queue that was read."""
        return self._schedule.waiting

    @property
    def waiting_places(self) -> list[tuple[QueueKey, int]]:
        """Returns the queue and the offset from which messages wait; empty without a waiting one."""
        waits_from = self._schedule.waits_from
        return [] if waits_from is None else [(TIMER_QUEUE, waits_from)]

    @property
    def deadline_ms(self) -> float:
        """The time at which `tick` is due, in ms of the wall clock."""
        return 0.0 if self._schedule.to_read() is not None else self._schedule.deadline_ms()

    def follow(self, offsets: Mapping[int, int]) -> None:
        """Go on at these offsets, which come from a checkpoint or from the master."""
        start, end = self._context.store.queue(TIMER_QUEUE) or (0, 0)
        self._schedule = TimerSchedule.starting_at(TimerState.among(offsets), start, end)

    def on_arrived(self, runs: list[QueueRun]) -> None:
        """Messages have come; some of them may be timer messages."""
        for run in runs:
            if run.key == TIMER_QUEUE:
                start, _ = self._context.store.queue(TIMER_QUEUE) or (0, 0)
                self._schedule.bounds(start, run.next)

    def tick(self, replicated: MessagePort) -> tuple[bool, bool]:
        """Read new messages, and deliver those that are due.

        Returns whether there were any, and whether there is more to do at once.
        """
        self._read()
        schedule = self._schedule
        due = schedule.take_due(self._context.wall_ms())
        for offset in due:
            self._deliver(replicated, schedule, offset)
        return bool(due), schedule.to_read() is not None

    def _read(self) -> None:
        schedule, offset = self._schedule, self._schedule.to_read()
        if offset is None:
            return
        found = self._context.store.read(TIMER_QUEUE, offset, count_max=READ_OF_ROUND)
        for record in found.records:
            head = read_head(record)
            schedule.pass_over(head.queue_offset)
            schedule.read(head.queue_offset, due_ms_of(read_properties(head.properties)))
        schedule.pass_over(found.next_offset)

    def _deliver(self, replicated: MessagePort, schedule: TimerSchedule, offset: int) -> None:
        context = self._context
        found = context.store.read(TIMER_QUEUE, offset, count_max=1)
        again = deliver_again(context, found.records[0]) if found.records else None
        if again is None:
            reason = "it names no topic and queue" if found.records else "it has left the log"
            context.tell("timer_message_dropped", offset=offset, reason=reason)
            schedule.on_delivered(offset)
            return

        def on_outcome(outcome: PutOutcome) -> None:
            if isinstance(outcome, StoredMessages):
                schedule.on_delivered(offset)
            else:
                schedule.on_failed(context.wall_ms(), offset)

        replicated.put([again], on_outcome)


def deliver_again(context: Context, record: Buffer) -> bytes | None:
    """Returns the record of a due delayed message for its real queue, or None if it does not name one."""
    head = read_head(record)
    real = delivered_to(read_properties(head.properties))
    if real is None:
        return None
    topic, queue_id, properties = real
    if not context.is_raft:
        # The message may have created its topic, which has no queue and no table yet. A group has agreed on it before.
        context.topics.for_delivery(context.wall_ms(), topic, queue_id)
    return encode_record(
        topic=topic,
        body=head.body(record),
        properties=write_properties(properties),
        queue_id=queue_id,
        born_ms=head.born_ms,
        born_host=head.born_host,
        store_ms=context.wall_ms(),
        store_host=context.store_host,
        flag=head.flag,
        sys_flag=head.sys_flag,
        reconsume_times=head.reconsume_times,
    )
