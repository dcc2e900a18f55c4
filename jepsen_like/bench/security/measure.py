"""Each system plain, with a secret and with TLS: started afresh in every repeat, in another order each time."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs
from confluent_kafka import KafkaException

from jepsen_like.bench.conversation import NotAnAnswer
from jepsen_like.bench.figures import Figures, Throughput
from jepsen_like.bench.generator import LoadFailed
from jepsen_like.bench.guard import Protection
from jepsen_like.bench.kafka import measure as kafka
from jepsen_like.bench.kafka.cluster import OWN as KAFKA_SYSTEM
from jepsen_like.bench.kafka.own import own_brokers
from jepsen_like.bench.measurement import Measurement, Turn
from jepsen_like.bench.own_cluster import DURABLE, quorumlog
from jepsen_like.bench.processes import DidNotAnswer
from jepsen_like.bench.rocketmq import measure as rocketmq
from jepsen_like.bench.rocketmq.cluster import OWN as ROCKET_SYSTEM
from jepsen_like.bench.rocketmq.own import own_broker, own_nameserver
from jepsen_like.bench.security.loads import (
    KAFKA,
    KAFKA_OF,
    LOADS,
    MODE,
    PROTECTIONS,
    RAFT,
    RAFT_LOADS,
    ROCKET_OF,
    ROCKETMQ,
    TITLES,
    key,
    protections,
)
from jepsen_like.bench.systems import RecordsMissing
from jepsen_like.bench.throughput import measure_loads

FAILURES = (LoadFailed, DidNotAnswer, NotAnAnswer, RecordsMissing, KafkaException, OSError, TimeoutError)


@attrs.frozen(kw_only=True)
class SecurityPlan:
    """The plan of a measurement, as asked for."""

    systems: Sequence[str]
    before: str | None
    """The interpreter of another installation."""
    repeats: int
    seconds: float
    seed: int
    output: Path | None
    sections: Sequence[str] = ("throughput",)

    def arguments(self) -> str:
        """The flags that say the same."""
        before = "" if self.before is None else " --before PYTHON"
        counts = f"--repeats {self.repeats} --seconds {self.seconds:g} --seed {self.seed}"
        return f"--systems {','.join(self.systems)}{before} {counts}"


class SecurityBench(Measurement[SecurityPlan]):
    """Of our systems under each protection."""

    ours = frozenset(key(system, protection) for system in TITLES for protection in PROTECTIONS)
    failures = FAILURES

    def _steps(self) -> float:
        ways = len(protections(self._plan.before))
        return self._plan.repeats * ways * sum(len(LOADS[system]) for system in self._plan.systems)

    def _measure(self) -> None:
        turns = []
        for system in self._plan.systems:
            for protection in protections(self._plan.before):
                name, title = key(system, protection), f"{TITLES[system]}, {protection.title}"
                self._found.systems[name] = {"title": title, "promise": "", "version": ""}
                turns.append(Turn(name, title, partial(TAKERS[system], protection, self._plan.seconds)))
        self._interleave(turns)

    def _describe(self, figure: Throughput) -> str:
        return (
            f"{figure.records_s:>9,.0f} records/s, p50 {figure.p50_ms:.2f} ms, p99 {figure.p99_ms:.2f} ms, "
            f"{figure.system_us or 0:.1f} us of CPU, client {figure.client_us or 0:.1f}"
        )


def _raft(protection: Protection, seconds: float, home: Path) -> Figures:
    name = key(RAFT, protection)
    system = attrs.evolve(
        DURABLE,
        key=name,
        loads=RAFT_LOADS,
        start=lambda directory, ports: quorumlog(directory, ports, protection=protection),
    )
    yield from measure_loads(system, home, seconds, lambda words: None)


def _kafka(protection: Protection, seconds: float, home: Path) -> Figures:
    start = partial(own_brokers, protection=protection)
    system = attrs.evolve(KAFKA_SYSTEM, key=key(KAFKA, protection), start=start, protection=protection)
    with kafka.drive(system, seconds, home) as driver:
        driver.warm_up(system.warm_up_s)
        for load in KAFKA_OF:
            yield attrs.evolve(driver.figure(load), system=system.key)


def _rocketmq(protection: Protection, seconds: float, home: Path) -> Figures:
    system = attrs.evolve(
        ROCKET_SYSTEM,
        key=key(ROCKETMQ, protection),
        nameserver=partial(own_nameserver, protection=protection),
        broker=partial(own_broker, protection=protection),
        protection=protection,
    )
    with rocketmq.drive(system, MODE, seconds, home) as driver:
        driver.warm_up(system.warm_up_s)
        for load in ROCKET_OF:
            yield attrs.evolve(driver.figure(load), system=system.key)


TAKERS = {RAFT: _raft, KAFKA: _kafka, ROCKETMQ: _rocketmq}
