"""A producer in open loop: a message is sent when it is due, whatever became of those before it.

Messages go to partitions in a given order, again and again. A partition has a short queue: where that is full, the message
is refused at once, so that an overloaded broker does no work for messages that are given up before it ends.
"""

import collections
import time
from typing import Final

from jepsen_like.systems.kafka.outcomes import NOT_QUEUED
from jepsen_like.systems.kafka.sender import Sender
from jepsen_like.systems.kafka.worker_plan import WorkerPlan
from jepsen_like.workload.client_process import ClientPipe

QUEUE_MAX: Final = 3
"""Messages of a partition that may wait for their acknowledgement."""


class PacedSender(Sender):
    """One worker. It has enough slots for all queues, so that one is always free."""

    def __init__(self, plan: WorkerPlan, pipe: ClientPipe) -> None:
        super().__init__(plan, pipe)
        self._waiting: collections.Counter[int] = collections.Counter()

    def _send_due(self) -> None:
        while not self._has_failed:
            due = self._started + self._tickets / self._plan.rate
            late_s = time.monotonic() - due
            if late_s < 0:
                return
            partition = self._plan.order[self._tickets % len(self._plan.order)]
            self._tickets += 1
            slot = self._free.pop(0)
            self._partition_of[slot] = partition
            self._waiting[partition] += 1
            if self._waiting[partition] > QUEUE_MAX:
                self._end(slot, self._next_value(), partition, time.monotonic_ns(), round(late_s * 1e6), NOT_QUEUED)
            else:
                self._send(slot, round(late_s * 1e6))

    def _end(
        self, slot: int, value: int, partition: int, t_inv: int, late_us: int, code: int, offset: int | None = None
    ) -> None:
        self._waiting[partition] -= 1
        super()._end(slot, value, partition, t_inv, late_us, code, offset)
