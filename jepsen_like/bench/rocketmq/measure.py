"""Our RocketMQ-style brokers and Apache RocketMQ's under load, in every mode, and under faults."""

import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import attrs

from jepsen_like.bench.brokers import BrokerBench
from jepsen_like.bench.failover import KILL, fail_over
from jepsen_like.bench.figures import ProducerErrors, Throughput
from jepsen_like.bench.generator import LoadFailed, Sample
from jepsen_like.bench.measurement import Turn
from jepsen_like.bench.processes import DidNotAnswer, kernel_cpu_s, kernel_ticks, until
from jepsen_like.bench.rocketmq.cluster import RocketCluster, RocketSystem
from jepsen_like.bench.rocketmq.loads import (
    DURABLE,
    FILL,
    LOADS,
    MODES,
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
from jepsen_like.bench.throughput import figure_of

FILL_S = 1.0
PRODUCERS = 8
RECORD_BYTES = 128
BEFORE_FAULT_S = (0.3, 0.8)
"""Drawn, so that faults do not keep step with anything."""
AFTER_FAULT_S = 4.0
"""Longer than an attempt may wait."""


class RocketBench(BrokerBench[RocketSystem]):
    """Of our brokers and Apache RocketMQ's."""

    failures = (DidNotAnswer, RecordsMissing, LoadFailed, OSError)
    loads = LOADS
    unit = "message"

    def _sections(self) -> Mapping[str, tuple[Callable[[RocketSystem], None], int]]:
        return {"producers": (self._producers, self._plan.kills), **super()._sections()}

    def _turns(self, systems: Sequence[RocketSystem]) -> Sequence[Turn]:
        return [
            self._turn(system, partial(drive, system, mode, self._plan.seconds), mode.title)
            for mode in MODES
            for system in systems
            if mode.key in self._plan.modes and system.settings(mode) is not None
        ]

    def _throughput(self, systems: Sequence[RocketSystem]) -> None:
        for system in systems:
            for mode in MODES:
                if mode.key in self._plan.modes and system.settings(mode) is None:
                    self._give_up("throughput", system.key, NO_DURABLE_DLEDGER)
        super()._throughput(systems)

    def _fault(self, system: RocketSystem, faults: Sequence[str]) -> Generator[tuple[str, float]]:
        mode = DURABLE if system.settings(DURABLE) is not None else PAGE_CACHE
        return fail_over(system.cluster(self._home / system.key, mode), faults, self._plan.seed)

    def _producers(self, system: RocketSystem) -> None:
        """One of two masters is killed, again and again; each time of a new cluster, so that both are whole."""
        plan, chance = self._plan, random.Random(self._plan.seed)
        for number in range(plan.kills):
            self._display.phase(f"producers: {system.title}, kill {number + 1} of {plan.kills}")
            try:
                with system.cluster(self._home / system.key, TWO_MASTERS) as cluster:
                    figure = killed_under_producers(cluster, system.key, self._run, chance.uniform(*BEFORE_FAULT_S))
            except self.failures as error:
                self._note_failure("producers", system.key, error, f"after {number} kills")
                return
            self._found.figures.append(figure)
            self._display.step()
            self._display.line(
                f"{system.key:<10} one of two masters killed: {figure.acknowledged:,} sends acknowledged, {figure.failed} failed,"
                f" {figure.unknown} unknown, {figure.moved} moved on, longest {figure.longest_s * 1000:.0f} ms"
            )


def killed_under_producers(cluster: RocketCluster, key: str, run: str, settle_s: float) -> ProducerErrors:
    """Returns the producers' errors at the first master's kill. Raises `RecordsMissing` for acknowledged losses."""
    producers = MovingProducers(
        [cluster.ports[place] for place in cluster.masters], cluster.topic, RECORD_BYTES, PRODUCERS
    )
    before = cluster.count_written()
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
    return ProducerErrors(system=key, fault=KILL, run=run, **attrs.asdict(found))


@contextmanager
def drive(system: RocketSystem, mode: RocketBenchMode, seconds: float, home: Path) -> Iterator["RocketDriver"]:
    """Start a cluster."""
    with system.cluster(home, mode) as cluster:
        yield RocketDriver(cluster, mode, seconds)


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

    def figure(self, load: RocketLoad) -> Throughput:
        """See `BrokerDriver`. Raises `LoadFailed`, too."""
        self._next_topic()
        if load.reads:
            self._run(FILL, FILL_S)
        held = self._cluster.count_written()
        cpu_s, kernel = self._cluster.cpu_s(), kernel_ticks()
        sample, count = self._run(load, self._seconds)
        used_s = self._cluster.cpu_s() - cpu_s + kernel_cpu_s(kernel)
        if not load.reads:
            self._cluster.check_holds(held + count)
        return figure_of(
            key_of(self._mode, load),
            sample,
            count,
            load.record_bytes,
            requests=len(sample.latencies_ns),
            each_of=count,
            system_s=used_s,
        )

    def _next_topic(self) -> None:
        """It is made by the first messages, one for each queue."""
        self._topics += 1
        self._cluster.topic = f"load-{self._topics}"
        self._cluster.led_by()

    def _run(self, load: RocketLoad, seconds: float) -> tuple[Sample, int]:
        """Returns what the load brought, and how many messages went through."""
        topic, lanes = self._cluster.topic, range(load.connections)
        consumers = [PullConversation(topic, lane % QUEUES) for lane in lanes if load.reads]
        producers = [SendConversation(topic, load.record_bytes, load.batch, lane) for lane in lanes if not load.reads]
        with WindowedLoad(self._port, [*consumers, *producers], load.window, self._cluster.tls) as windowed:
            sample = windowed.run(seconds)
        messages = sum(each.messages for each in consumers)
        return sample, messages if load.reads else len(sample.latencies_ns) * load.batch
