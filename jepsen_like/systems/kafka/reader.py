"""A consumer of a run, in its own process: reads at places it chooses, each a fetch begun after it was asked for.

librdkafka fetches ahead, so records that a plain poll returns may have been read long before it was called. Here every
read assigns its partition again from its offset, which makes librdkafka drop what it had: a record that is returned was
read between call and return.
"""

import random
import time
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from jepsen_like.history.ops import NONE
from jepsen_like.systems.kafka.client_config import ClientConfig
from jepsen_like.systems.kafka.worker_plan import WorkerPlan
from jepsen_like.workload.client_process import FINAL, ClientPipe
from jepsen_like.workload.client_rows import NoteRow, ReadRow, TailRow
from jepsen_like.workload.payload import decode_value

READ_WITHIN_S: Final = 0.5
RECORDS_MAX: Final = 64
"""Of one read under load."""
CHUNK_RECORDS: Final = 1000
FOLLOW_PART, RECENT_PART = 0.6, 0.25
"""Of the reads: on from where the last one ended, or among the newest; the rest anywhere."""
RECENT_RECORDS: Final = 256
LAST_RECORDS: Final = 32
PAUSE_S: Final = 0.02
FINAL_WITHIN_S: Final = 18.0
ANSWER_WITHIN_S: Final = 3.0


class Reader:
    """One worker. `run` returns when the harness tells it to quit."""

    def __init__(self, plan: WorkerPlan, pipe: ClientPipe) -> None:
        self._plan = plan
        self._pipe = pipe
        self._rng = random.Random(f"reader {plan.seed} {plan.index}")
        self._config = ClientConfig(plan)
        self._consumer = Consumer(self._config.now())
        self._end = dict.fromkeys(range(plan.partitions), 0)
        """One past the last offset seen, by partition."""

    def run(self) -> None:
        """Read until told otherwise."""
        for works in self._pipe.turns(self._final):
            if self._config.is_outdated:
                self._consumer.close()
                self._consumer = Consumer(self._config.now())
            if not works or self._plan.reads_whole:
                time.sleep(PAUSE_S)
                continue
            partition = self._rng.randrange(self._plan.partitions)
            self._read(partition, self._place(partition))
            self._pipe.flush()
            time.sleep(PAUSE_S * self._rng.random())
        self._consumer.close()

    def _place(self, partition: int) -> int:
        draw, end = self._rng.random(), self._end[partition]
        if draw < FOLLOW_PART or not end:
            return end
        if draw < FOLLOW_PART + RECENT_PART:
            return max(0, end - 1 - self._rng.randrange(RECENT_RECORDS))
        return self._rng.randrange(end)

    def _read(self, partition: int, offset: int, count: int = RECORDS_MAX) -> int:
        """One read of at most `count` records, more than `RECORDS_MAX` as they come. Returns how many it brought."""
        t_inv = time.monotonic_ns()
        try:
            self._consumer.assign([TopicPartition(self._plan.topic, partition, offset)])
            first = self._consumer.poll(READ_WITHIN_S)
            messages = (
                [first, *self._consumer.consume(min(count, RECORDS_MAX) - 1, timeout=0)] if first is not None else []
            )
            while RECORDS_MAX <= len(messages) < count:
                more = self._consumer.consume(min(count - len(messages), CHUNK_RECORDS), timeout=READ_WITHIN_S)
                if not more:
                    break
                messages += more
        except KafkaException as error:
            self._pipe.report(NoteRow(f"a consumer could not read partition {partition} at {offset}: {error}"))
            return 0
        t_ret = time.monotonic_ns()
        good = []
        for message in messages:
            if message.error() is not None or message.partition() != partition:
                # The log may end before `offset` after a loss that the mode allows: what is there now is read on from
                # its end.
                self._end[partition] = min(self._end[partition], offset) // 2
                break
            good.append(message)
        self._note_rows(partition, offset, good, t_inv, t_ret)
        return len(good)

    def _note_rows(self, partition: int, offset: int, messages: list[Message], t_inv: int, t_ret: int) -> None:
        """As rows of consecutive records of one epoch."""
        begin = 0
        for number, message in enumerate(messages):
            following = messages[number + 1] if number + 1 < len(messages) else None
            at = message.offset() or 0
            if following is None or following.offset() != at + 1 or following.leader_epoch() != message.leader_epoch():
                self._note_row(partition, messages[begin : number + 1], t_inv, t_ret)
                begin = number + 1
            self._end[partition] = max(self._end[partition], at + 1)
        if messages and messages[0].offset() != offset:
            answer = f"a read of partition {partition} at {offset} was answered from {messages[0].offset()} on"
            self._pipe.report(NoteRow(answer))

    def _note_row(self, partition: int, messages: list[Message], t_inv: int, t_ret: int) -> None:
        decoded = [decode_value(message.value() or b"") for message in messages]
        epoch = messages[0].leader_epoch()
        is_whole = all(is_whole for _, is_whole in decoded)
        values = [value for value, _ in decoded]
        first = messages[0].offset()
        place = NONE if first is None else first
        self._pipe.report(ReadRow(partition, place, values, NONE if epoch is None else epoch, is_whole, t_inv, t_ret))

    # ---------------------------------------------------------------- the end

    def _final(self) -> None:
        """Ask where each partition ends, and read its newest records, or all."""
        deadline = time.monotonic() + FINAL_WITHIN_S
        ends: dict[int, int] = {}
        starts: dict[int, int] = {}
        for partition in range(self._plan.partitions):
            while time.monotonic() < deadline:
                t_inv = time.monotonic_ns()
                try:
                    marks = self._consumer.get_watermark_offsets(
                        TopicPartition(self._plan.topic, partition), timeout=ANSWER_WITHIN_S
                    )
                except KafkaException:
                    continue
                if marks is not None:
                    starts[partition], ends[partition] = marks
                    if self._plan.reads_whole:
                        self._pipe.report(TailRow(partition, marks[0], marks[1], t_inv, time.monotonic_ns()))
                    break
        all_read = len(ends) == self._plan.partitions
        for partition, end in ends.items():
            offset = starts[partition] if self._plan.reads_whole else max(0, end - LAST_RECORDS)
            while offset < end and time.monotonic() < deadline:
                offset += self._read(partition, offset, end - offset if self._plan.reads_whole else RECORDS_MAX)
                self._pipe.flush()
            all_read &= offset >= end
        self._pipe.flush(force=True)
        self._pipe.say(FINAL, all_read, ends)
