"""A consumer of compacted partitions, in a process of its own: reads one after the other from begin to end, again and again.

It assigns the partition again for each, which makes librdkafka drop what it had: a record that a scan brings was read after
the scan began.
"""

import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from jepsen_like.systems.kafka.client_config import ClientConfig
from jepsen_like.systems.kafka.worker_plan import WorkerPlan
from jepsen_like.workload.client_process import FINAL, ClientPipe
from jepsen_like.workload.client_rows import EndRow, FoundRow
from jepsen_like.workload.keyed import FINAL_SCAN, SCAN, decode_keyed

POLL_S: Final = 0.05
CHUNK_RECORDS: Final = 1000
SCAN_WITHIN_S: Final = 5.0
"""A scan that takes longer is given up: its partition has no leader, or it has to do with a paused one."""
FINAL_WITHIN_S: Final = 30.0
PAUSE_S: Final = 0.2


class Scanner:
    """One worker. `run` returns when the harness tells it to quit."""

    def __init__(self, plan: WorkerPlan, pipe: ClientPipe) -> None:
        self._plan = plan
        self._pipe = pipe
        self._config = ClientConfig(plan)
        self._scans = 0
        self._consumer = self._make_consumer()

    def _make_consumer(self) -> Consumer:
        return Consumer({**self._config.now(), "enable.partition.eof": True})

    def run(self) -> None:
        """Scan until told otherwise."""
        following = 0
        for works in self._pipe.turns(self._final):
            if self._config.is_outdated:
                self._consumer.close()
                self._consumer = self._make_consumer()
            if works:
                self._scan(following % self._plan.partitions, SCAN, time.monotonic() + SCAN_WITHIN_S)
                following += 1
                self._pipe.flush()
            time.sleep(PAUSE_S)
        self._consumer.close()

    def _scan(self, partition: int, level: int, deadline: float) -> bool:
        """Returns True if the partition was read to its end. What was read is reported in any case."""
        self._scans += 1
        begun_ns = time.monotonic_ns()
        self._consumer.assign([TopicPartition(self._plan.topic, partition, 0)])
        while time.monotonic() < deadline:
            t_inv = time.monotonic_ns()
            try:
                messages = self._consumer.consume(CHUNK_RECORDS, timeout=POLL_S)
            except KafkaException:
                return False
            self._report([each for each in messages if each.error() is None], partition, t_inv)
            for each in messages:
                error = each.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    end, now = each.offset() or 0, time.monotonic_ns()
                    self._pipe.report(EndRow(self._scans, level, partition, 0, end, begun_ns, now))
                    return True
                if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                    return False
        return False

    def _report(self, messages: list[Message], partition: int, t_inv: int) -> None:
        if not messages:
            return
        decoded = [decode_keyed(each.key(), each.value(), each.headers() or []) for each in messages]
        values, offsets = [value for value, _ in decoded], [each.offset() or 0 for each in messages]
        is_whole = all(whole for _, whole in decoded)
        self._pipe.report(FoundRow(self._scans, SCAN, partition, values, offsets, is_whole, t_inv, time.monotonic_ns()))

    def _final(self) -> None:
        """Scan each partition once more."""
        deadline = time.monotonic() + FINAL_WITHIN_S
        all_read = True
        for partition in range(self._plan.partitions):
            is_read = False
            while not is_read and time.monotonic() < deadline:
                is_read = self._scan(partition, FINAL_SCAN, deadline)
                self._pipe.flush()
            all_read &= is_read
        self._pipe.flush(force=True)
        self._pipe.say(FINAL, all_read, {})
