"""A consumer of transactions, in a process of its own: follows all partitions as read_committed, and asks how far it may read.

In the end it reads every partition from begin to end in both isolation levels, once no transaction is open any more.
"""

import random
import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from jepsen_like.history.ops import NONE, READ_COMMITTED, READ_UNCOMMITTED
from jepsen_like.systems.kafka.client_config import ClientConfig
from jepsen_like.systems.kafka.worker_plan import WorkerPlan
from jepsen_like.workload.client_process import FINAL, ClientPipe
from jepsen_like.workload.client_rows import EndRow, FoundRow
from jepsen_like.workload.payload import decode_value

POLL_S: Final = 0.05
RECORDS_MAX: Final = 200
CHUNK_RECORDS: Final = 1000
ASK_CHANCE: Final = 0.5
ANSWER_WITHIN_S: Final = 3.0
FINAL_WITHIN_S: Final = 30.0
PAUSE_S: Final = 0.02
LEVELS: Final = {READ_COMMITTED: "read_committed", READ_UNCOMMITTED: "read_uncommitted"}


class StableReader:
    """One worker. `run` returns when the harness tells it to quit."""

    def __init__(self, plan: WorkerPlan, pipe: ClientPipe) -> None:
        self._plan = plan
        self._pipe = pipe
        self._rng = random.Random(f"stable reader {plan.seed}")
        self._config = ClientConfig(plan)
        self._life = 0
        self._next = dict.fromkeys(range(plan.partitions), 0)
        self._consumer = self._follow()

    def run(self) -> None:
        """Read until told otherwise."""
        for works in self._pipe.turns(self._final):
            if not works:
                time.sleep(PAUSE_S)
                continue
            if self._config.is_outdated:
                self._consumer.close()
                self._consumer = self._follow()
            self._read()
            if self._rng.random() < ASK_CHANCE:
                self._ask(self._consumer, READ_COMMITTED, self._rng.randrange(self._plan.partitions))
            self._pipe.flush()
        self._consumer.close()

    def _make(self, isolation: int, **more: Any) -> Consumer:
        return Consumer({**self._config.now(), "isolation.level": LEVELS[isolation], **more})

    def _follow(self) -> Consumer:
        """Returns a consumer that goes on where the last one was."""
        self._life += 1
        consumer = self._make(READ_COMMITTED)
        consumer.assign([TopicPartition(self._plan.topic, *place) for place in self._next.items()])
        return consumer

    def _read(self) -> None:
        t_inv = time.monotonic_ns()
        messages = self._consumer.consume(RECORDS_MAX, timeout=POLL_S)
        self._write(messages, READ_COMMITTED, self._life, t_inv)
        if any(each.error() is not None and each.error().code() == KafkaError._AUTO_OFFSET_RESET for each in messages):
            self._consumer.close()
            self._consumer = self._follow()

    def _write(self, messages: list[Message], isolation: int, life: int, t_inv: int) -> None:
        """Report what a poll brought, by partition."""
        t_ret = time.monotonic_ns()
        found: dict[int, list[Message]] = {}
        for message in messages:
            if message.error() is None:
                found.setdefault(message.partition() or 0, []).append(message)
        for partition, mine in found.items():
            decoded = [decode_value(message.value() or b"") for message in mine]
            offsets = [message.offset() or 0 for message in mine]
            values, is_whole = [value for value, _ in decoded], all(whole for _, whole in decoded)
            self._pipe.report(FoundRow(life, isolation, partition, values, offsets, is_whole, t_inv, t_ret))
            if life == self._life:
                self._next[partition] = offsets[-1] + 1

    def _ask(self, consumer: Consumer, isolation: int, partition: int) -> tuple[int, int] | None:
        """Returns where a partition begins and ends for this level; None without an answer."""
        t_inv = time.monotonic_ns()
        try:
            place = TopicPartition(self._plan.topic, partition)
            marks: tuple[int, int] | None = consumer.get_watermark_offsets(place, timeout=ANSWER_WITHIN_S)
        except KafkaException:
            return None
        if marks is not None:
            times = (t_inv, time.monotonic_ns())
            self._pipe.report(EndRow(self._life, isolation, partition, NONE, marks[1], *times))
        return marks

    # ---------------------------------------------------------------- the end

    def _final(self) -> None:
        """Read all of every partition in both levels. All was answered if both end at the same place."""
        deadline = time.monotonic() + FINAL_WITHIN_S
        consumers = {isolation: self._make(isolation, **{"enable.partition.eof": True}) for isolation in LEVELS}
        all_read = True
        for partition in range(self._plan.partitions):
            while True:
                marks = {isolation: self._ask(each, isolation, partition) for isolation, each in consumers.items()}
                if len(set(marks.values())) == 1 and None not in marks.values():
                    break
                if time.monotonic() > deadline:
                    all_read = False
                    break
                time.sleep(PAUSE_S)
            for isolation, consumer in consumers.items():
                of_level = marks[isolation]
                if of_level is not None:
                    all_read &= self._read_whole(consumer, isolation, partition, *of_level, deadline)
        for consumer in consumers.values():
            consumer.close()
        self._pipe.flush(force=True)
        self._pipe.say(FINAL, all_read, {})

    def _read_whole(
        self, consumer: Consumer, isolation: int, partition: int, start: int, end: int, deadline: float
    ) -> bool:
        """Returns True if the partition was read to its end."""
        life = -(partition * len(LEVELS) + isolation)
        consumer.assign([TopicPartition(self._plan.topic, partition, start)])
        is_ended = start == end
        while not is_ended and time.monotonic() < deadline:
            t_inv = time.monotonic_ns()
            messages = consumer.consume(CHUNK_RECORDS, timeout=POLL_S)
            self._write(messages, isolation, life, t_inv)
            ends = [each for each in messages if each.error() is not None]
            is_ended = any(each.error().code() == KafkaError._PARTITION_EOF for each in ends)
            self._pipe.flush()
        if is_ended:
            now = time.monotonic_ns()
            self._pipe.report(EndRow(life, isolation, partition, start, end, now, now))
        return is_ended
