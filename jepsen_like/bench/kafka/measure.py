"""Our Kafka-style brokers and Apache Kafka's under load and faults."""

import random
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from confluent_kafka import Consumer, KafkaException, TopicPartition

from jepsen_like.bench.brokers import BrokerBench
from jepsen_like.bench.failover import KILL, PAUSE
from jepsen_like.bench.figures import Throughput
from jepsen_like.bench.generator import Sample
from jepsen_like.bench.kafka.cluster import KafkaCluster, KafkaSystem
from jepsen_like.bench.kafka.loads import KAFKA_LOADS, ONE_AT_A_TIME, STREAMS, TRANSACTION_RECORDS, KafkaLoad, KafkaWork
from jepsen_like.bench.measurement import Turn
from jepsen_like.bench.processes import DidNotAnswer, LoadWorker, kernel_cpu_s, kernel_ticks, running, until
from jepsen_like.bench.systems import RecordsMissing, require_held
from jepsen_like.bench.throughput import figure_of

ASK_WITHIN_S = 2.0
COUNTED_WITHIN_S = 30.0
SETTLE_S = (0.3, 0.8)
"""Between the first records and the fault; drawn, so that faults do not keep step with heartbeats."""
FILL_S = 2.0
SAFE: Mapping[str, Any] = {"acks": "all", "enable.idempotence": True, "linger.ms": 0}
FAULT_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    KILL: SAFE,
    PAUSE: {**SAFE, "socket.timeout.ms": 3000, "request.timeout.ms": 2000},
}
"""Of the producer: a paused leader keeps connections open, so only the default timeout, a minute, would be measured."""


class KafkaBench(BrokerBench[KafkaSystem]):
    """Of our brokers and Apache Kafka's."""

    failures = (DidNotAnswer, RecordsMissing, KafkaException, OSError, TimeoutError)
    loads = KAFKA_LOADS
    unit = "record"

    def _turns(self, systems: Sequence[KafkaSystem]) -> Sequence[Turn]:
        return [self._turn(system, partial(drive, system, self._plan.seconds)) for system in systems]

    def _fault(self, system: KafkaSystem, faults: Sequence[str]) -> Generator[tuple[str, float]]:
        chance = random.Random(self._plan.seed)
        with drive(system, self._plan.seconds, self._home / system.key) as driver:
            driver.warm_up(1.0)
            for fault in faults:
                yield fault, driver.gap(fault, chance.uniform(*SETTLE_S))


@contextmanager
def drive(system: KafkaSystem, seconds: float, home: Path) -> Iterator["KafkaDriver"]:
    """Start a cluster and its client process."""
    client = LoadWorker("kafka.client", home.with_name("client"))
    with system.cluster(home) as cluster, running([client]):
        yield KafkaDriver(cluster, client, seconds)


class KafkaDriver:
    """A started cluster and the client process that drives it."""

    def __init__(self, cluster: KafkaCluster, client: LoadWorker, seconds: float) -> None:
        self._cluster = cluster
        self._client = client
        self._seconds = seconds
        self._topics = 0

    def warm_up(self, seconds: float) -> None:
        """A stream of large batches, then of single records: a JVM compiles both ways."""
        for load in (STREAMS[0], ONE_AT_A_TIME[0]):
            topic = self._topic(load)
            self._work(load, topic, seconds / 2)
            self._cluster.delete(topic)

    def figure(self, load: KafkaLoad) -> Throughput:
        """See `BrokerDriver`; the topic is deleted afterwards."""
        topic = self._topic(load)
        filled = None
        if load.work is KafkaWork.READ:
            fills = attrs.evolve(STREAMS[0], partitions=load.partitions)
            filled = self._work(fills, topic, min(FILL_S, self._seconds))
        held = self._count_held(topic, load.partitions)
        cpu_s, kernel = self._cpu_s(), kernel_ticks()
        answer = self._work(load, topic, self._seconds, records=held)
        used_s = self._cpu_s() - cpu_s + kernel_cpu_s(kernel)
        acknowledged = filled if filled is not None else answer
        self._check(topic, load.partitions, acknowledged["records"] + acknowledged["warm"])
        self._cluster.delete(topic)
        count = answer["records"]
        sample = Sample(answer["latencies_ns"], answer["lasted_s"], answer["cpu_s"])
        requests = len(sample.latencies_ns) if load.work is KafkaWork.TRANSACTIONS else count
        return figure_of(load.key, sample, count, load.record_bytes, requests=requests, each_of=count, system_s=used_s)

    def gap(self, fault: str, settle_s: float) -> float:
        """One fault on the leader of a new topic. Returns the longest time between two acknowledgements, seconds.

        Raises `RecordsMissing` if an acknowledged record is gone, `DidNotAnswer` if the cluster stays broken.
        """
        load = ONE_AT_A_TIME[0]
        topic = self._topic(load)
        leader = self._cluster.leader(topic)
        if leader is None:
            raise DidNotAnswer(f"{topic} has no leader")
        process = self._cluster.members[leader - 1]
        self._client.ask(self._question("gap", load, topic, settings=dict(FAULT_SETTINGS[fault])))
        time.sleep(settle_s)
        with process.under_fault(killed=fault == KILL):
            answer = self._client.ask({"ask": "stop"})
        self._cluster.await_brokers()
        self._cluster.await_in_sync(topic)
        self._check(topic, load.partitions, answer["acknowledged"])
        self._cluster.delete(topic)
        return float(answer["longest_s"])

    def _topic(self, load: KafkaLoad) -> str:
        """A new one for a load."""
        self._topics += 1
        topic = f"load-{self._topics}"
        self._cluster.create(topic, load.partitions)
        return topic

    def _question(self, ask: str, load: KafkaLoad, topic: str, **more: Any) -> dict[str, Any]:
        return {
            "ask": ask,
            "client": self._cluster.client,
            "topic": topic,
            "partitions": load.partitions,
            "record_bytes": load.record_bytes,
            "settings": dict(load.settings),
            "transaction_records": TRANSACTION_RECORDS,
            **more,
        }

    def _work(self, load: KafkaLoad, topic: str, seconds: float, records: int = 0) -> dict[str, Any]:
        return self._client.ask(self._question(load.work.value, load, topic, seconds=seconds, records=records))

    def _cpu_s(self) -> float:
        return sum(member.cpu_s() for member in self._cluster.members)

    def _count_held(self, topic: str, partitions: int) -> int:
        """Returns the number of records that a new topic holds, as its brokers report it."""
        consumer = Consumer({**self._cluster.client, "group.id": "counter"})
        held = 0

        def count_partition(number: int) -> bool:
            nonlocal held
            try:
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), ASK_WITHIN_S)
            except KafkaException:  # a broker may not know a new topic yet, or a new leader
                return False
            held += high - low
            return True

        try:
            for number in range(partitions):
                until(partial(count_partition, number), f"end of {topic}-{number}", within_s=COUNTED_WITHIN_S)
        finally:
            consumer.close()
        return held

    def _check(self, topic: str, partitions: int, acknowledged: int) -> None:
        """Raises `RecordsMissing` if less is held: a paused leader answers as before until it learns of the next."""
        require_held(acknowledged, lambda: self._count_held(topic, partitions))
