"""Whole brokers in one Trio test: disks in memory, real sockets, and a small client of the wire."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from kafka_compat.broker.broker import Broker, BrokerPlan
from kafka_compat.broker.peers import PeerClient, PeerFailed, Proof
from kafka_compat.config import Settings
from kafka_compat.model import PartitionState
from kafka_compat.protocol.apis.create_topics import CREATE_TOPICS, CreateTopic, CreateTopicConfig, CreateTopicsRequest
from kafka_compat.protocol.apis.delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from kafka_compat.protocol.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from kafka_compat.protocol.apis.produce import PRODUCE, ProducePartition, ProduceRequest, ProduceTopic
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import encode_records, read_records
from log.memory_disk import MemoryDisk
from raft.net.certificates import Certificates
from raft.net.running_clock import RunningClock
from raft.trust import Secret
from tests.ports import free_addresses

QUICK = {
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "1000",
    "replica.lag.time.max.ms": "1500",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "2",
}
SECRET = Secret("what the brokers of these tests share and strangers lack")
Address = tuple[str, int]


@attrs.define(eq=False)
class Running:
    """One broker that runs until `stop`."""

    broker: Broker
    scope: trio.CancelScope
    ended: trio.Event

    async def kill(self) -> None:
        """End without leave of the controller."""
        self.scope.cancel()
        await self.ended.wait()


class Cluster:
    """Brokers by id, with their disks."""

    def __init__(
        self, nursery: trio.Nursery, count: int, settings: dict[str, str], secret: Secret | None = SECRET
    ) -> None:
        self.secret = secret
        self.nursery = nursery
        self.addresses = dict(enumerate(free_addresses(count), 1))
        self.disks = {each: MemoryDisk(random.Random(each)) for each in self.addresses}
        self.settings = {**QUICK, "default.replication.factor": str(count), **settings}
        self.running: dict[int, Running] = {}
        self.joined: dict[int, dict[int, Address]] = {}
        """By broker that joined: the brokers whose addresses it was given."""
        self.events: list[tuple[int, str, dict[str, Any]]] = []
        self._starts = 0

    async def start(self, broker: int) -> None:
        """Start a broker; returns when it listens."""
        await self.nursery.start(self._run, broker)

    async def join(self, broker: int) -> str:
        """Start a broker of which the others know nothing. Returns its address."""
        self.joined[broker] = {each: self.addresses[each] for each in self.running}
        self.disks[broker] = MemoryDisk(random.Random(broker))
        (self.addresses[broker],) = free_addresses(1)
        await self.start(broker)
        return "{}:{}".format(*self.addresses[broker])

    async def _run(self, number: int, task_status: trio.TaskStatus[None]) -> None:
        founders = {each: address for each, address in self.addresses.items() if each not in self.joined}
        peers = self.joined.get(number, founders)
        given = [f"{name}={value.replace('{broker}', str(number))}" for name, value in self.settings.items()]
        plan = BrokerPlan(
            cluster_id="c",
            broker_id=number,
            listen=self.addresses[number],
            data="data",
            peers={each: address for each, address in peers.items() if each != number},
            joins=number in self.joined,
            settings=Settings.from_assignments(given),
            secret=self.secret,
        )
        ended = trio.Event()
        self._starts += 1  # each process draws an incarnation of its own
        rng = random.Random(1000 * self._starts + number)

        def tell(event: str, **fields: Any) -> None:
            self.events.append((number, event, fields))

        try:
            with trio.CancelScope() as scope:
                async with Broker.open(plan, tell=tell, disk=self.disks[number], rng=rng) as broker:
                    self.running[number] = Running(broker, scope, ended)
                    task_status.started()
                    await trio.sleep_forever()
        finally:
            self.running.pop(number, None)
            ended.set()

    async def kill(self, broker: int) -> None:
        await self.running[broker].kill()

    def image(self) -> Any:
        """Returns the image of the broker that has applied the most commands."""
        return max((each.broker.image for each in self.running.values()), key=lambda image: image.index)

    def knows(self, topic: str) -> bool:
        """Returns True if some broker knows the topic."""
        return topic in self.image().topics

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        """Returns the newest state that a broker has of an existing partition."""
        found: PartitionState = self.image().topics[topic].partitions[partition]
        return found

    def leads(self, broker: int, topic: str) -> bool:
        """Returns True if a broker believes that it leads."""
        hosted = self.running[broker].broker._parts.replicas.by_name(topic, 0)
        return hosted is not None and hosted.leads

    async def until(self, condition: Any, within_s: float = 15.0) -> None:
        """Wait until a condition about the brokers holds; looks after every few rounds of theirs."""
        with trio.fail_after(within_s):
            while not condition():  # noqa: ASYNC110 - a broker has no event for what it learns
                await trio.sleep(0.01)

    @asynccontextmanager
    async def client(
        self, broker: int, proof: Proof | None = None, *, tls: Certificates | None = None, listener: str | None = None
    ) -> AsyncIterator["Client"]:
        """Requests to a broker; with `proof` those of whom it proves."""
        async with trio.open_nursery() as nursery:
            running = self.running[broker].broker
            address = running.address if listener is None else running.address_of(listener)
            clock = RunningClock(trio.current_time)
            peer = PeerClient(running._reactor, address, "client", clock, random.Random(5), proof, tls)
            nursery.start_soon(peer.run)
            yield Client(peer)
            peer.close()
            nursery.cancel_scope.cancel()


@attrs.define
class Client:
    """Requests to one broker."""

    peer: PeerClient

    async def ask(self, api: Any, version: int, request: Any, timeout_s: float = 15.0) -> Any:
        answer = await self.peer.ask(api, version, request, timeout_s=timeout_s)
        assert not isinstance(answer, PeerFailed), answer
        return answer

    async def create(self, name: str, replicas: int, partitions: int = 1, **configs: str) -> KafkaErrorCode:
        topic = CreateTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=(),
            configs=tuple(CreateTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()),
        )
        answer = await self.ask(CREATE_TOPICS, 7, CreateTopicsRequest(topics=(topic,), timeout_ms=10_000))
        return KafkaErrorCode(answer.topics[0].error_code)

    async def delete(self, name: str) -> KafkaErrorCode:
        answer = await self.ask(DELETE_TOPICS, 3, DeleteTopicsRequest(topic_names=(name,), timeout_ms=5000))
        return KafkaErrorCode(answer.responses[0].error_code)

    async def produce(self, topic: str, *values: bytes, acks: int = -1) -> tuple[KafkaErrorCode, int]:
        """Returns the outcome and the base offset."""
        batch = encode_records([(None, each) for each in values], 1)
        partition = ProducePartition(index=0, records=batch)
        request = ProduceRequest(
            acks=acks, timeout_ms=5000, topic_data=(ProduceTopic(name=topic, partition_data=(partition,)),)
        )
        answer = (await self.ask(PRODUCE, 9, request)).responses[0].partition_responses[0]
        return KafkaErrorCode(answer.error_code), answer.base_offset

    async def values(self, topic: str) -> list[bytes]:
        """Everything that consumers may read."""
        found: list[bytes] = []
        offset = 0
        while True:
            partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
            request = FetchRequest(
                max_wait_ms=0, min_bytes=1, topics=(FetchTopic(topic=topic, partitions=(partition,)),)
            )
            answer = (await self.ask(FETCH, 12, request)).responses[0].partitions[0]
            assert answer.error_code == KafkaErrorCode.NONE, answer
            if not answer.records:
                return found
            records = list(read_records(answer.records))
            found += [each.value or b"" for each in records]
            offset = records[-1].offset + 1


@asynccontextmanager
async def cluster(count: int = 3, **settings: str) -> AsyncIterator[Cluster]:
    """A cluster whose brokers all serve. `{broker}` in a setting is the id of each."""
    async with trio.open_nursery() as nursery:
        made = Cluster(nursery, count, {name.replace("_", "."): value for name, value in settings.items()})
        for broker in made.addresses:
            await made.start(broker)
        with trio.fail_after(20):
            for running in list(made.running.values()):
                await running.broker.serving.wait()
        yield made
        for running in list(made.running.values()):
            await running.kill()
