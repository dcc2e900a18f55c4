"""Real processes: all controllers are replaced by those of brokers that join, while clients produce and brokers are killed."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from jepsen_like.operate.members import Operator
from tests.ports import free_ports
from tests.raft.shell.replaced import Processes

SETTINGS = (
    "controller.quorum.election.timeout.ms=300",
    "broker.heartbeat.interval.ms=100",
    "broker.session.timeout.ms=1500",
    "min.insync.replicas=2",
    "default.replication.factor=3",
)
PARTITIONS = 3
SECONDS_MAX = 240


@attrs.define
class Brokers(Processes):
    """Broker processes."""

    def command(self, node_id: int, members: Sequence[int], *, joins: bool) -> list[str]:
        at = {member: f"127.0.0.1:{self.ports[member]}" for member in members}
        peers = [f"--peer={member}={address}" for member, address in at.items() if member != node_id]
        own = ["--id", f"{node_id}", "--listen", at[node_id], "--data", f"{self.directory / str(node_id)}"]
        more = ["--joins"] if joins else []
        settings = [f"--set={setting}" for setting in SETTINGS]
        return ["kafka_compat.process", "--cluster-id", self.cluster_id, *own, *peers, *more, *settings]

    @property
    def servers(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses)


async def create(brokers: Brokers, topic: str, replicas: int) -> None:
    """Make a topic; one that is there already was made by an attempt before."""
    while True:
        admin = AdminClient({"bootstrap.servers": brokers.servers})
        made = admin.create_topics([NewTopic(topic, PARTITIONS, replicas)], operation_timeout=5, request_timeout=5)[
            topic
        ]
        try:
            await trio.to_thread.run_sync(made.result)
        except KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                await trio.sleep(0.2)
                continue
        return


@attrs.define
class Load:
    """One producer with acks=all; it ends when `stops` is set."""

    acknowledged: set[bytes] = attrs.field(factory=set)
    stops: bool = False

    def run(self, servers: str) -> None:
        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})

        def on_delivery(error: Any, message: Any) -> None:
            if error is None:
                self.acknowledged.add(message.value())

        number = 0
        while not self.stops:
            number += 1
            producer.produce("log", b"%d" % number, partition=number % PARTITIONS, on_delivery=on_delivery)
            producer.poll(0.01)
        producer.flush(60)


def read_all(servers: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        ends = {each: consumer.get_watermark_offsets(TopicPartition("log", each), 30)[1] for each in range(PARTITIONS)}
        consumer.assign([TopicPartition("log", each, 0) for each in range(PARTITIONS)])
        found: list[bytes] = []
        while len(found) < sum(ends.values()):
            found += [message.value() for message in consumer.consume(1000, 1.0) if message.error() is None]
        return found
    finally:
        consumer.close()


@pytest.mark.campaign
@pytest.mark.cluster
@pytest.mark.parametrize(("seed", "calm_s"), [(0, 2.0), (1, 0.5)])
async def test_no_acknowledged_record_is_lost_while_all_controllers_are_replaced_under_load_and_kills(
    tmp_path: Path, seed: int, calm_s: float
) -> None:
    brokers = Brokers(tmp_path, dict(enumerate(free_ports(6), 1)), random.Random(seed), calm_s)
    load = Load()
    try:
        for node_id in (1, 2, 3):
            brokers.first_start(node_id, [each for each in (1, 2, 3) if each != node_id], joins=False)
        with trio.fail_after(SECONDS_MAX):
            await create(brokers, "log", 3)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, load.run, brokers.servers)
                while len(load.acknowledged) < 100:  # noqa: ASYNC110 - another thread
                    await trio.sleep(0.05)
                async with trio.open_nursery() as killing:
                    killing.start_soon(brokers.kill_now_and_then)
                    for old, new in ((1, 4), (2, 5), (3, 6)):
                        brokers.first_start(new, [each for each in brokers.commands if each != new], joins=True)
                        at = ("127.0.0.1", brokers.ports[new])
                        await brokers.operate(Operator.add, new, at, counts=True)
                        await brokers.operate(Operator.demote, old)
                        await create(brokers, f"after{old}", 3)
                    killing.cancel_scope.cancel()
                for node_id in set(brokers.commands) - set(brokers.running):
                    brokers.start(node_id)
                await create(brokers, "everywhere", 6)
                load.stops = True
            stored = await trio.to_thread.run_sync(read_all, brokers.servers)
            await brokers.operate(Operator.transfer, 5)
            async with brokers.client() as client:
                status = await client.status()
    finally:
        load.stops = True
        for node_id in list(brokers.running):
            brokers.kill(node_id)
    assert brokers.kills > 2
    assert (status["voters"], status["learners"]) == ([4, 5, 6], [1, 2, 3])
    assert load.acknowledged <= set(stored), "lost"
    assert len(stored) == len(set(stored)), "twice"
