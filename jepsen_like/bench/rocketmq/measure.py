"""The order of a measurement: in every repeat both kinds of broker under every mode, in another order each time,
started afresh; then faults.
"""

import os
import random
import time
from collections.abc import Sequence
from pathlib import Path

import attrs

from jepsen_like.bench.failover import KILL, PAUSE, failovers
from jepsen_like.bench.figures import Failover, ProducerErrors, Throughput, middle, quantile_ms
from jepsen_like.bench.generator import LoadFailed, Sample
from jepsen_like.bench.measurement import Measurement
from jepsen_like.bench.processes import DidNotAnswer, kernel_cpu_s, kernel_ticks, until
from jepsen_like.bench.rocketmq.cluster import OWN, RocketCluster, RocketSystem
from jepsen_like.bench.rocketmq.loads import (
    DURABLE,
    FILL,
    LOADS,
    NO_DURABLE_DLEDGER,
    PAGE_CACHE,
    TWO_MASTERS,
    RocketBenchMode,
    RocketLoad,
    key_of,
)
from jepsen_like.bench.rocketmq.senders import MovingProducers, WindowedLoad
from jepsen_like.bench.rocketmq.wire import QUEUES, PullConversation, SendConversation
from jepsen_like.bench.systems import RecordsMissing

FAILURES = (DidNotAnswer, RecordsMissing, LoadFailed, OSError)
FILL_S = 1.0
PRODUCERS = 8
RECORD_BYTES = 128
BEFORE_FAULT_S = (0.3, 0.8)
"""Drawn, so that faults do not keep step with anything."""
AFTER_FAULT_S = 4.0
"""Longer than an attempt may wait."""


@attrs.frozen(kw_only=True)
class RocketBenchPlan:
    """The plan of a measurement, as asked for."""

    sections: Sequence[str]
    systems: Sequence[RocketSystem]
    modes: Sequence[RocketBenchMode]
    repeats: int
    seconds: float
    kills: int
    pauses: int
    seed: int
    output: Path | None

    def arguments(self) -> str:
        """The flags that say the same."""
        named = f"--only {','.join(self.sections)} --systems {','.join(system.key for system in self.systems)}"
        named += f" --modes {','.join(mode.key for mode in self.modes)}"
        counts = f"--repeats {self.repeats} --seconds {self.seconds:g} --kills {self.kills} --pauses {self.pauses}"
        return f"{named} {counts} --seed {self.seed}"


class RocketMeasurement(Measurement[RocketBenchPlan]):
    """Of our brokers and Apache RocketMQ's."""

    ours = (OWN.key,)

    def _steps(self) -> float:
        plan = self._plan
        systems = [system for system in plan.systems if not system.missing()]
        steps = 0
        for system in systems:
            if "throughput" in plan.sections:
                steps += plan.repeats * len(LOADS) * sum(system.settings(mode) is not None for mode in plan.modes)
            steps += plan.kills if "producers" in plan.sections else 0
            steps += plan.kills + plan.pauses if "failover" in plan.sections else 0
        return steps

    def _measure(self) -> None:
        plan = self._plan
        systems = [system for system in plan.systems if self._takes_part(system, plan.sections)]
        if "throughput" in plan.sections:
            self._throughput(systems)
        if "producers" in plan.sections:
            for system in systems:
                self._producers(system)
            self._keep()
        if "failover" in plan.sections:
            for system in systems:
                self._failover(system)
            self._keep()

    # ---------------------------------------------------------------- throughput

    def _throughput(self, systems: Sequence[RocketSystem]) -> None:
        plan = self._plan
        for system in systems:
            for mode in plan.modes:
                if system.settings(mode) is None:
                    self._give_up("throughput", system.key, NO_DURABLE_DLEDGER)
        order = random.Random(plan.seed)
        turns = [(mode, system) for mode in plan.modes for system in systems if system.settings(mode) is not None]
        for repeat in range(plan.repeats):
            order.shuffle(turns)
            for mode, system in turns:
                self._display.phase(f"throughput, repeat {repeat + 1} of {plan.repeats}: {system.title}, {mode.title}")
                os.sync()  # what the one before has left to the operating system is not this one's burden
                try:
                    with system.cluster(self._home / system.key, mode) as cluster:
                        driven = RocketDriver(cluster, mode, plan.seconds)
                        driven.warm_up(system.warm_up_s)
                        for load in LOADS:
                            self._display.phase(f"{system.title}, {mode.title}: {load.title}")
                            self._take(driven.figure(load, system.key, repeat, self._run))
                except FAILURES as error:
                    self._failed("throughput", system.key, error, f"{mode.title}, in repeat {repeat + 1}")
            self._keep()

    def _take(self, figure: Throughput) -> None:
        self._found.figures.append(figure)
        self._display.step()
        self._display.line(
            f"{figure.system:<10} {figure.load:<22} {figure.records_s:>9,.0f} messages/s, {figure.bytes_s / 1e6:>7,.1f} MB/s, "
            f"p50 {figure.p50_ms:.2f} ms, p99 {figure.p99_ms:.2f} ms, {figure.system_us or 0:.1f} us of CPU a message"
        )

    # ---------------------------------------------------------------- faults

    def _producers(self, system: RocketSystem) -> None:
        """One of two masters is killed, again and again; each time with new clusters, so that both masters are
        whole.
        """
        plan, chance = self._plan, random.Random(self._plan.seed)
        for number in range(plan.kills):
            self._display.phase(f"producers: {system.title}, kill {number + 1} of {plan.kills}")
            try:
                with system.cluster(self._home / system.key, TWO_MASTERS) as cluster:
                    figure = killed_under_producers(cluster, system.key, self._run, chance.uniform(*BEFORE_FAULT_S))
            except FAILURES as error:
                self._failed("producers", system.key, error, f"after {number} kills")
                return
            self._found.figures.append(figure)
            self._display.step()
            self._display.line(
                f"{system.key:<10} one of two masters killed: {figure.acknowledged:,} sends acknowledged, {figure.failed} failed,"
                f" {figure.unknown} unknown, {figure.moved} moved on, longest {figure.longest_s * 1000:.0f} ms"
            )

    def _failover(self, system: RocketSystem) -> None:
        plan = self._plan
        mode = DURABLE if system.settings(DURABLE) is not None else PAGE_CACHE
        gaps: dict[str, list[float]] = {KILL: [], PAUSE: []}
        try:
            with system.cluster(self._home / system.key, mode) as cluster:
                for fault, took in failovers(cluster, [KILL] * plan.kills + [PAUSE] * plan.pauses, plan.seed):
                    gaps[fault].append(took)
                    self._display.phase(f"failover: {system.title}, {fault} {took:.3f} s")
                    self._display.step()
        except FAILURES as error:
            self._failed("failover", system.key, error, f"after {sum(map(len, gaps.values()))} faults")
        for fault, seconds in gaps.items():
            if seconds:
                self._found.figures.append(Failover(system.key, fault, self._run, seconds))
                self._display.line(
                    f"{system.key:<10} {fault} x {len(seconds)}: median {middle(seconds):.3f} s, max {max(seconds):.3f} s"
                )


def killed_under_producers(cluster: RocketCluster, key: str, run: str, settle_s: float) -> ProducerErrors:
    """Returns what producers met when the first master was killed.

    Raises `RecordsMissing` if an acknowledged message is not there.
    """
    producers = MovingProducers(
        [cluster.ports[place] for place in cluster.masters], cluster.topic, RECORD_BYTES, PRODUCERS
    )
    before = cluster.written()
    killed = cluster.members[cluster.masters[0]]
    producers.start()
    try:
        time.sleep(settle_s)
        killed.kill()
        time.sleep(AFTER_FAULT_S)
    finally:
        found = producers.stop()
    killed.reap()
    killed.start()
    until(cluster.ready, "whole cluster after a fault", members=cluster.members)
    cluster.check_holds(before + found.acknowledged)
    return ProducerErrors(
        system=key,
        fault=KILL,
        run=run,
        acknowledged=found.acknowledged,
        failed=found.failed,
        unknown=found.unknown,
        moved=found.moved,
        longest_s=found.longest_s,
    )


class RocketDriver:
    """Loads for a started cluster."""

    def __init__(self, cluster: RocketCluster, mode: RocketBenchMode, seconds: float) -> None:
        self._cluster = cluster
        self._mode = mode
        self._seconds = seconds
        self._port = cluster.ports[cluster.led_by()]
        self._topics = 0

    def warm_up(self, seconds: float) -> None:
        """All kinds of load, for so long together: a JVM compiles what it does."""
        for load in LOADS:
            self._next_topic()
            self._run(load, seconds / len(LOADS))

    def figure(self, load: RocketLoad, key: str, repeat: int, run: str) -> Throughput:
        """One load on a new topic.

        Raises `LoadFailed`, and `RecordsMissing` if the topic holds less than was acknowledged.
        """
        self._next_topic()
        if load.reads:
            self._run(FILL, FILL_S)
        held = self._cluster.written()
        cpu_s, kernel = self._cluster.cpu_s(), kernel_ticks()
        sample, count = self._run(load, self._seconds)
        used_s = self._cluster.cpu_s() - cpu_s + kernel_cpu_s(kernel)
        if not load.reads:
            self._cluster.check_holds(held + count)
        return Throughput(
            system=key,
            load=key_of(self._mode, load),
            repeat=repeat,
            run=run,
            requests_s=len(sample.latencies_ns) / sample.lasted_s,
            records_s=count / sample.lasted_s,
            bytes_s=count * load.record_bytes / sample.lasted_s,
            p50_ms=quantile_ms(sample.latencies_ns, 0.5),
            p99_ms=quantile_ms(sample.latencies_ns, 0.99),
            system_us=used_s / count * 1e6,
            client_us=sample.client_cpu_s / count * 1e6,
        )

    def _next_topic(self) -> None:
        """It is made by the first messages, one for each queue."""
        self._topics += 1
        self._cluster.topic = f"load-{self._topics}"
        self._cluster.led_by()

    def _run(self, load: RocketLoad, seconds: float) -> tuple[Sample, int]:
        """Returns what the load brought, and how many messages went through."""
        topic = self._cluster.topic
        lanes = range(load.connections)
        if load.reads:
            consumers = [PullConversation(topic, lane % QUEUES) for lane in lanes]
            with WindowedLoad(self._port, consumers, load.window) as windowed:
                sample = windowed.run(seconds)
            return sample, sum(each.messages for each in consumers)
        producers = [SendConversation(topic, load.record_bytes, load.batch, lane) for lane in lanes]
        with WindowedLoad(self._port, producers, load.window) as windowed:
            sample = windowed.run(seconds)
        return sample, len(sample.latencies_ns) * load.batch
