"""Broker processes that are replaced by others, one after another, under load and kills: no acknowledged record is lost."""

import random
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio
from confluent_kafka.admin import AdminClient, NewTopic

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.operate.members import Operator
from jepsen_like.systems.kafka.control import KafkaControl
from jepsen_like.testing.kafka.agreement import read_replica
from jepsen_like.testing.kafka.ledger import KafkaVerdict, RecordLedger
from jepsen_like.testing.kafka.producer import WitnessedProducer
from tests.ports import free_ports
from tests.raft.shell.nodes import until
from tests.raft.shell.replaced import Processes
from tests.raft.shell.test_node import ROOT, flags

PARTITIONS = 3
TOPIC = "log"
SETTINGS = (
    "broker.session.timeout.ms=2000",
    "broker.heartbeat.interval.ms=300",
    "controller.quorum.election.timeout.ms=300",
    "min.insync.replicas=2",
    "replica.lag.time.max.ms=3000",
)
SECONDS_MAX = 400


@attrs.define
class Brokers(Processes):
    """Processes of brokers, on whose ports the controllers' group is, too."""

    def command(self, node_id: int, members: Sequence[int], *, joins: bool) -> list[str]:
        ports = {member: self.ports[member] for member in members}
        settings = [f"--set={setting}" for setting in SETTINGS]
        return ["kafka_compat.process", *flags(node_id, ports, self.directory, *settings, *["--joins"] * joins)]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    @property
    def control(self) -> KafkaControl:
        return KafkaControl(self.cluster_id, {broker: ("127.0.0.1", self.ports[broker]) for broker in self.commands})

    def start(self, node_id: int) -> None:
        with (self.directory / f"{node_id}.txt").open("ab") as written:
            self.running[node_id] = subprocess.Popen(self.commands[node_id], cwd=ROOT, stdout=written, stderr=written)

    async def serves(self, node_id: int) -> bool:
        return node_id in (await self.control.view()).brokers

    async def until_kills(self, count: int) -> None:
        while self.kills < count:  # noqa: ASYNC110 - a task counts them
            await trio.sleep(0.05)

    async def until_serving(self) -> None:
        while (await self.control.view()).brokers != self.commands.keys():  # noqa: ASYNC110 - other processes
            await trio.sleep(0.05)

    async def move(self, *words: str) -> None:
        """Carry a move out; one of which the outcome is unknown, or that takes longer, is asked for again."""

        def ask() -> int:
            return execute(["topics", "reassign", *words, "--execute", "--within", "10", "--cluster", self.bootstrap])

        while await trio.to_thread.run_sync(ask) != ExitStatus.VALID:
            pass


class Load(threading.Thread):
    """Produces with acks=all until it is stopped, and writes down what is acknowledged."""

    def __init__(self, bootstrap: str, ledger: RecordLedger) -> None:
        super().__init__()
        self.stopped = threading.Event()
        settings = {"acks": "all", "linger.ms": 5, "message.timeout.ms": 120_000, "metadata.max.age.ms": 5_000}
        self._producer = WitnessedProducer(
            {"bootstrap.servers": bootstrap, "log_level": 0, **settings},
            lambda topic, at, offset, value, key: ledger.on_acknowledged(topic, at, offset, (key, value)),
        )

    def run(self) -> None:
        number = 0
        while not self.stopped.is_set():
            self._producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
            number += 1
            self._producer.poll(0.002)
        assert self._producer.flush(120) == 0


async def judge(control: KafkaControl, ledger: RecordLedger) -> KafkaVerdict:
    """Compare all copies, once they end alike, with each other and with what was acknowledged."""
    ends = await control.settle(within_s=120)
    states = (await control.view()).of_topic(TOPIC)
    return ledger.verdict(
        {
            name: {node: await read_replica(control, node, name, ends[name.partition]) for node in state.replica_nodes}
            for name, state in states.items()
        }
    )


@pytest.mark.campaign
@pytest.mark.cluster
@pytest.mark.timeout(SECONDS_MAX)
@pytest.mark.parametrize("seed", range(2))
async def test_no_acknowledged_record_is_lost_while_all_brokers_are_replaced_under_load_and_kills(
    tmp_path: Path, seed: int
) -> None:
    brokers = Brokers(tmp_path, dict(enumerate(free_ports(6), 1)), random.Random(seed), calm_s=1.0)
    ledger = RecordLedger()
    load = None
    try:
        for broker in (1, 2, 3):
            brokers.first_start(broker, [each for each in (1, 2, 3) if each != broker], joins=False)
        with trio.fail_after(SECONDS_MAX):
            await brokers.until_serving()
            admin = AdminClient({"bootstrap.servers": brokers.bootstrap, "log_level": 0})
            made = admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
            await trio.to_thread.run_sync(lambda: made[TOPIC].result(60))
            load = Load(brokers.bootstrap, ledger)
            load.start()
            await until(lambda: ledger.acknowledged > 100)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(brokers.kill_now_and_then)
                for old, new in ((1, 4), (2, 5), (3, 6)):
                    brokers.first_start(new, sorted(brokers.commands), joins=True)
                    await brokers.operate(Operator.add, new, ("127.0.0.1", brokers.ports[new]), counts=True)
                    await brokers.until_kills(brokers.kills + 2)
                    await brokers.move("--replace", f"{old}={new}")
                    await brokers.operate(Operator.remove, old)
                    brokers.remove(old)
                nursery.cancel_scope.cancel()
            for broker in set(brokers.commands) - set(brokers.running):
                brokers.start(broker)
            load.stopped.set()
            await trio.to_thread.run_sync(load.join)
            verdict = await judge(brokers.control, ledger)
            states = (await brokers.control.view()).of_topic(TOPIC)
    finally:
        if load is not None:
            load.stopped.set()
        for broker in list(brokers.running):
            brokers.kill(broker)
    assert verdict.valid, str(verdict)
    assert verdict.acknowledged > 1000, str(verdict)
    assert brokers.kills > 5
    assert {tuple(sorted(state.replica_nodes)) for state in states.values()} == {(4, 5, 6)}
