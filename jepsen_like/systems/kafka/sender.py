"""A producer of a run, in a process of its own: messages of one value each, as many under way as it has slots.

A slot sends its next message when the delivery report of the last one has come, and always to the same partition, so
that a partition without a leader holds up its own slots only. Retries within librdkafka belong to the one message.
"""

import functools
import itertools
import random
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from jepsen_like.history.ops import NONE, Outcome
from jepsen_like.systems.kafka.client_config import ClientConfig
from jepsen_like.systems.kafka.outcomes import NOT_QUEUED, outcome_of
from jepsen_like.systems.kafka.worker_plan import WorkerPlan
from jepsen_like.workload.client_process import FINAL, QUIT, STOP, STOPPED, ClientPipe
from jepsen_like.workload.client_rows import SentRow
from jepsen_like.workload.payload import encode_value

POLL_S: Final = 0.01
BACK_OFF_S: Final = 0.05
DRAINED_WITHIN_S: Final = 5.0
"""A producer that failed for good reports its messages under way within this time."""
FINAL_WITHIN_S: Final = 18.0

Report = Callable[[KafkaError | None, Message], None]


class Sender:
    """One worker. `run` returns when the harness tells it to quit."""

    def __init__(self, plan: WorkerPlan, pipe: ClientPipe) -> None:
        self._plan = plan
        self._pipe = pipe
        self._values = itertools.count(1 + plan.index, plan.workers)
        self._rng = random.Random(f"sender {plan.seed} {plan.index}")
        first = plan.index * plan.slots
        self._partition_of = [(first + slot) % plan.partitions for slot in range(plan.slots)]
        self._rng.shuffle(self._partition_of)
        self._free = list(range(plan.slots))
        self._last: dict[int, SentRow] = {}
        """The last message of each slot that has ended."""
        self._has_failed = False
        self._config = ClientConfig(plan)
        self._is_outdated = False
        """The producer does not know the present files of TLS: it takes nothing more, and ends when it is idle."""
        self._producer = self._make_producer()
        self._started = time.monotonic()
        self._tickets = 0

    def _make_producer(self) -> Producer:
        self._is_outdated = False
        return Producer({**self._config.now(), "error_cb": self._on_error})

    def run(self) -> None:
        """Send until told otherwise."""
        stopping = stopped = False
        while True:
            for command, *_ in self._pipe.commands():
                if command == QUIT:
                    return
                stopping |= command == STOP
                if command == FINAL:
                    self._final()
            self._is_outdated |= self._config.is_outdated
            if not (stopping or self._is_outdated):
                self._send_due()
            self._poll()
            is_idle = len(self._free) == self._plan.slots
            if self._has_failed or (self._is_outdated and is_idle):
                self._replace()
            self._pipe.flush(force=is_idle and stopping)
            if stopping and is_idle and not stopped:
                stopped = True
                self._pipe.say(STOPPED)

    # ---------------------------------------------------------------- sending

    def _send_due(self) -> None:
        while self._free and not self._has_failed:
            late_us = -1
            if self._plan.rate:
                due = self._started + self._tickets / self._plan.rate
                late_s = time.monotonic() - due
                if late_s < 0:
                    return
                self._tickets += 1
                late_us = round(late_s * 1e6)
            if not self._send(self._free.pop(0), late_us):
                return

    def _send(self, slot: int, late_us: int = -1) -> bool:
        """Hand a message of a slot to librdkafka. Returns False if it took none."""
        value = self._next_value()
        partition = self._partition_of[slot]
        t_inv = time.monotonic_ns()
        report = functools.partial(self._on_report, slot, value, partition, t_inv, late_us)
        try:
            self._produce(value, partition, report)
        except (BufferError, KafkaException):
            self._end(slot, value, partition, t_inv, late_us, NOT_QUEUED)
            time.sleep(BACK_OFF_S)
            return False
        return True

    def _next_value(self) -> int:
        return next(self._values)

    def _produce(self, value: int, partition: int, report: Report) -> None:
        record = encode_value(value, self._plan.record_bytes)
        self._producer.produce(self._plan.topic, record, partition=partition, on_delivery=report)

    def _on_report(
        self,
        slot: int,
        value: int,
        partition: int,
        t_inv: int,
        late_us: int,
        error: KafkaError | None,
        message: Message,
    ) -> None:
        if error is None:
            self._end(slot, value, partition, t_inv, late_us, 0, message.offset())
        else:
            self._has_failed |= error.fatal()
            self._end(slot, value, partition, t_inv, late_us, error.code())

    def _end(
        self, slot: int, value: int, partition: int, t_inv: int, late_us: int, code: int, offset: int | None = None
    ) -> None:
        ended = outcome_of(code, may_retry=self._plan.may_retry)
        place = NONE if offset is None else max(NONE, offset)
        self._last[slot] = SentRow(slot, value, partition, t_inv, time.monotonic_ns(), *ended, place, late_us)
        self._pipe.report(self._last[slot])
        self._free.append(slot)

    def _poll(self) -> None:
        try:
            self._producer.poll(POLL_S)
        except KafkaException as error:
            self._on_error(error.args[0])
            if not self._has_failed:
                raise

    def _on_error(self, error: KafkaError) -> None:
        """Note an error that is not about one message: their reports follow it; a fatal one ends the producer.

        Such an error is raised by `poll`: an idempotent producer has it after an unclean election, when the new leader
        lacks the records that its sequence numbers follow.
        """
        self._has_failed |= error.fatal() or error.code() == KafkaError._FATAL

    def _replace(self) -> None:
        """A producer that failed for good: report what was under way, and go on with a new one."""
        deadline = time.monotonic() + DRAINED_WITHIN_S
        while len(self._free) < self._plan.slots and time.monotonic() < deadline:
            self._poll()
        if len(self._free) < self._plan.slots:
            self._producer.purge()
            self._producer.flush(DRAINED_WITHIN_S)
        self._pipe.flush(force=True)
        self._pipe.incarnation += 1
        self._has_failed = False
        self._producer = self._make_producer()

    # ---------------------------------------------------------------- the end

    def _final(self) -> None:
        """Send to every partition of this worker until one message of it is acknowledged."""
        deadline = time.monotonic() + FINAL_WITHIN_S
        partitions = set(range(self._plan.index, self._plan.partitions, self._plan.workers))
        while partitions and time.monotonic() < deadline:
            for partition in sorted(partitions):
                slot = self._free.pop(0)
                self._partition_of[slot] = partition
                self._last.pop(slot, None)
                self._send(slot)
                while slot not in self._free and time.monotonic() < deadline:
                    self._poll()
                    if self._has_failed:
                        self._replace()
                last = self._last.get(slot)
                if last is not None and last.outcome == Outcome.OK:
                    partitions.discard(partition)
                self._pipe.flush(force=True)
        while len(self._free) < self._plan.slots:  # until librdkafka has given up on what was under way
            self._poll()
            if self._has_failed:
                self._replace()
        self._pipe.flush(force=True)
        self._pipe.say(FINAL, not partitions, {})
