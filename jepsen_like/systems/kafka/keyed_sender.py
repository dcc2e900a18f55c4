"""A producer of records with keys, in a process of its own.

Some keys are written all the time. The others are written for some seconds and then never again, so that what is left of
each, a value or a deletion, has to outlive many passes of compaction.
"""

import time
from typing import Final

from jepsen_like.history.keyed_values import KEYS_MAX, keyed_value
from jepsen_like.systems.kafka.sender import Report, Sender
from jepsen_like.workload.keyed import encode_keyed

HOT_KEYS: Final = 8
HOT_PART: Final = 0.6
KEYS_PER_S: Final = 4
"""New keys of each partition; each is written for as long as it is among the newest `KEYS_WRITTEN`."""
KEYS_WRITTEN: Final = 6
DELETED_PART: Final = 0.25


class KeyedSender(Sender):
    """One worker. `run` returns when the harness tells it to quit."""

    def _next_value(self) -> int:
        key = self._rng.randrange(HOT_KEYS)
        if self._rng.random() >= HOT_PART:
            newest = int((time.monotonic() - self._started) * KEYS_PER_S)
            key = HOT_KEYS + max(0, newest - self._rng.randrange(KEYS_WRITTEN)) % (KEYS_MAX - HOT_KEYS)
        return keyed_value(super()._next_value(), key, is_deletion=self._rng.random() < DELETED_PART)

    def _produce(self, value: int, partition: int, report: Report) -> None:
        key, content, headers = encode_keyed(value, self._plan.record_bytes)
        about = {"key": key, "headers": headers, "partition": partition, "on_delivery": report}
        self._producer.produce(self._plan.topic, content, **about)
