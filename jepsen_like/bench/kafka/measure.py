"""The order of a measurement: both kinds of broker in every repeat, in another order each time, started afresh; then
faults.
"""

import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from confluent_kafka import Consumer, KafkaException, TopicPartition

from jepsen_like.bench.failover import KILL, PAUSE
from jepsen_like.bench.figures import (
    Failover,
    Throughput,
    middle,
    quantile_ms,
)
from jepsen_like.bench.kafka.cluster import OWN, KafkaCluster, KafkaSystem
from jepsen_like.bench.kafka.loads import KAFKA_LOADS, ONE_AT_A_TIME, STREAMS, KafkaLoad, KafkaWork
from jepsen_like.bench.measurement import Measurement
from jepsen_like.bench.processes import DidNotAnswer, LoadWorker, kernel_cpu_s, kernel_ticks, running, until
from jepsen_like.bench.systems import RecordsMissing

ASK_WITHIN_S = 2.0
COUNTED_WITHIN_S = 30.0
COMPLETE_WITHIN_S = 10.0
FAILURES = (DidNotAnswer, RecordsMissing, KafkaException, OSError, TimeoutError)
SETTLE_S = (0.3, 0.8)
"""Between the first records and the fault; drawn, so that faults do not keep step with heartbeats."""
FILL_S = 2.0
FAULT_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    KILL: {"acks": "all", "enable.idempotence": True, "linger.ms": 0},
    PAUSE: {
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 0,
        "socket.timeout.ms": 3000,
        "request.timeout.ms": 2000,
    },
}
"""Of the producer.

A paused leader keeps its connections open: how long a client waits for an answer would be all that is measured, with
the default of a minute.
"""


@attrs.frozen(kw_only=True)
class KafkaBenchPlan:
    """The plan of a measurement, as asked for."""

    sections: Sequence[str]
    systems: Sequence[KafkaSystem]
    repeats: int
    seconds: float
    kills: int
    pauses: int
    seed: int
    output: Path | None
    loads: Sequence[KafkaLoad] = KAFKA_LOADS

    def arguments(self) -> str:
        """The flags that say the same."""
        named = f"--only {','.join(self.sections)} --systems {','.join(system.key for system in self.systems)}"
        counts = f"--repeats {self.repeats} --seconds {self.seconds:g} --kills {self.kills} --pauses {self.pauses}"
        return f"{named} {counts} --seed {self.seed}"


class KafkaMeasurement(Measurement[KafkaBenchPlan]):
    """Of our brokers and Apache Kafka's."""

    ours = (OWN.key,)

    def _steps(self) -> float:
        plan = self._plan
        steps = plan.repeats * len(plan.loads) if "throughput" in plan.sections else 0
        steps += plan.kills + plan.pauses if "failover" in plan.sections else 0
        return steps * sum(not system.missing() for system in plan.systems)

    def _measure(self) -> None:
        plan = self._plan
        systems = [system for system in plan.systems if self._takes_part(system, plan.sections)]
        if "throughput" in plan.sections:
            self._throughput(systems)
        if "failover" in plan.sections:
            for system in systems:
                self._failover(system)
            self._keep()

    # ---------------------------------------------------------------- throughput

    def _throughput(self, systems: Sequence[KafkaSystem]) -> None:
        order, shuffled = random.Random(self._plan.seed), list(systems)
        for repeat in range(self._plan.repeats):
            order.shuffle(shuffled)
            for system in shuffled:
                self._display.phase(f"throughput, repeat {repeat + 1} of {self._plan.repeats}: {system.title}")
                os.sync()  # what the one before has left to the operating system is not this one's burden
                try:
                    with self._driven(system) as (cluster, client):
                        driven = KafkaDriver(cluster, client, self._plan.seconds)
                        driven.warm_up(system.warm_up_s)
                        for load in self._plan.loads:
                            self._display.phase(f"{system.title}: {load.title}")
                            self._take(driven.figure(load, system.key, repeat, self._run))
                except FAILURES as error:
                    self._failed("throughput", system.key, error, f"in repeat {repeat + 1}")
            self._keep()

    @contextmanager
    def _driven(self, system: KafkaSystem) -> Iterator[tuple[KafkaCluster, LoadWorker]]:
        """A cluster and its client process."""
        client = LoadWorker("kafka.client", self._home / "client")
        with system.cluster(self._home / system.key) as cluster, running([client]):
            yield cluster, client

    def _take(self, figure: Throughput) -> None:
        self._found.figures.append(figure)
        self._display.step()
        self._display.line(
            f"{figure.system:<10} {figure.load:<22} {figure.records_s:>9,.0f} records/s, {figure.bytes_s / 1e6:>7,.1f} MB/s, "
            f"p50 {figure.p50_ms:.2f} ms, p99 {figure.p99_ms:.2f} ms, {figure.system_us or 0:.1f} us of CPU a record"
        )

    # ---------------------------------------------------------------- faults

    def _failover(self, system: KafkaSystem) -> None:
        plan = self._plan
        chance = random.Random(plan.seed)
        gaps: dict[str, list[float]] = {KILL: [], PAUSE: []}
        try:
            with self._driven(system) as (cluster, client):
                driven = KafkaDriver(cluster, client, plan.seconds)
                driven.warm_up(1.0)
                for fault in [KILL] * plan.kills + [PAUSE] * plan.pauses:
                    gaps[fault].append(driven.gap(fault, chance.uniform(*SETTLE_S)))
                    self._display.phase(f"failover: {system.title}, {fault} {gaps[fault][-1]:.3f} s")
                    self._display.step()
        except FAILURES as error:
            self._failed("failover", system.key, error, f"after {sum(map(len, gaps.values()))} faults")
        for fault, seconds in gaps.items():
            if seconds:
                self._found.figures.append(Failover(system.key, fault, self._run, seconds))
                self._display.line(
                    f"{system.key:<10} {fault} x {len(seconds)}: median {middle(seconds):.3f} s, max {max(seconds):.3f} s"
                )


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

    def figure(self, load: KafkaLoad, key: str, repeat: int, run: str) -> Throughput:
        """One load on a new topic, which is deleted afterwards.

        Raises `RecordsMissing` if it holds less than was acknowledged.
        """
        topic = self._topic(load)
        filled = None
        if load.work is KafkaWork.READ:
            fills = attrs.evolve(STREAMS[0], partitions=load.partitions)
            filled = self._work(fills, topic, min(FILL_S, self._seconds))
        held = self._held(topic, load.partitions)
        cpu_s, kernel = self._cpu_s(), kernel_ticks()
        answer = self._work(load, topic, self._seconds, records=held)
        used_s = self._cpu_s() - cpu_s + kernel_cpu_s(kernel)
        acknowledged = filled if filled is not None else answer
        self._check(topic, load.partitions, acknowledged["records"] + acknowledged["warm"])
        self._cluster.delete(topic)
        count, latencies = answer["records"], answer["latencies_ns"]
        return Throughput(
            system=key,
            load=load.key,
            repeat=repeat,
            run=run,
            requests_s=count / answer["lasted_s"],
            records_s=count / answer["lasted_s"],
            bytes_s=count * load.record_bytes / answer["lasted_s"],
            p50_ms=quantile_ms(latencies, 0.5),
            p99_ms=quantile_ms(latencies, 0.99),
            system_us=used_s / count * 1e6,
            client_us=answer["cpu_s"] / count * 1e6,
        )

    def gap(self, fault: str, settle_s: float) -> float:
        """One fault on the leader of a new topic. Returns the longest time between two acknowledgements, seconds.

        Raises `RecordsMissing` if an acknowledged record is not there afterwards, `DidNotAnswer` if the cluster stays
        broken.
        """
        load = ONE_AT_A_TIME[0]
        topic = self._topic(load)
        leader = self._cluster.leader(topic)
        if leader is None:
            raise DidNotAnswer(f"{topic} has no leader")
        process = self._cluster.members[leader - 1]
        self._client.ask(self._question("gap", load, topic, settings=dict(FAULT_SETTINGS[fault])))
        time.sleep(settle_s)
        if fault == KILL:
            process.kill()
        else:
            process.pause()
        try:
            answer = self._client.ask({"ask": "stop"})
        finally:
            if fault == KILL:
                process.reap()
                process.start()
            else:
                process.resume()
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
            "bootstrap": self._cluster.bootstrap,
            "topic": topic,
            "partitions": load.partitions,
            "record_bytes": load.record_bytes,
            "settings": dict(load.settings),
            **more,
        }

    def _work(self, load: KafkaLoad, topic: str, seconds: float, records: int = 0) -> dict[str, Any]:
        return self._client.ask(self._question(load.work.value, load, topic, seconds=seconds, records=records))

    def _cpu_s(self) -> float:
        return sum(member.cpu_s() for member in self._cluster.members)

    def _held(self, topic: str, partitions: int) -> int:
        """Returns the number of records that a new topic holds, as its brokers report it."""
        consumer = Consumer({"bootstrap.servers": self._cluster.bootstrap, "group.id": "counter", "log_level": 0})
        held = 0

        def counted(number: int) -> bool:
            nonlocal held
            try:
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), ASK_WITHIN_S)
            except KafkaException:  # a broker may not know a new topic yet, or a new leader
                return False
            held += high - low
            return True

        try:
            for number in range(partitions):
                until(lambda number=number: counted(number), f"end of {topic}-{number}", within_s=COUNTED_WITHIN_S)  # type: ignore[misc]
        finally:
            consumer.close()
        return held

    def _check(self, topic: str, partitions: int, acknowledged: int) -> None:
        """Raises `RecordsMissing` if the topic holds less, after a wait: a leader that was paused answers as before
        until it learns of the next.
        """
        held = 0

        def is_complete() -> bool:
            nonlocal held
            held = self._held(topic, partitions)
            return held >= acknowledged

        try:
            until(is_complete, f"complete count of {topic}", within_s=COMPLETE_WITHIN_S, every_s=0.1)
        except DidNotAnswer:
            raise RecordsMissing(f"{acknowledged:,} records were acknowledged, {held:,} are there") from None
