"""Parts of one broker without sockets: real replicas on a disk in memory, a clock that stands still, and scripted
neighbours.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import ControllerLink
from kafka_compat.broker.coordination import Coordination
from kafka_compat.broker.fetcher import FetchPosition
from kafka_compat.broker.replicas import Answer, LocalReplica, Replicas
from kafka_compat.broker.requests.fetch import FetchRequests
from kafka_compat.broker.turns import LongWork
from kafka_compat.config import Settings
from kafka_compat.controller.image import ClusterImage, TopicImage
from kafka_compat.model import BrokerRegistration, PartitionState, TopicPartition
from kafka_compat.partition.effects import PartitionRoleChanged
from kafka_compat.partition.events import Produce
from kafka_compat.partition.model import BatchInfo
from kafka_compat.protocol.api import RequestHeader
from kafka_compat.protocol.apis.fetch import FETCH, FetchRequest, FetchResponse
from kafka_compat.protocol.registry import APIS
from kafka_compat.records import encode_records
from kafka_compat.storage.broker_store import BrokerStore
from log.memory_disk import MemoryDisk
from raft.disk_thread import DiskThread

OWN = 1
FETCH_VERSION = 17


@attrs.define(eq=False)
class Connection:
    """Stands for a client's connection."""

    name: str = "127.0.0.1:5"
    is_closed: bool = False
    is_short: bool = False
    reason: str = ""

    def close(self, reason: str) -> None:
        self.is_closed, self.reason = True, reason


@attrs.define
class Replying:
    """Keeps the bytes of the answer."""

    pieces: tuple[Any, ...] | None = None

    def send(self, *pieces: Any) -> None:
        assert self.pieces is None, "a request is answered once"
        self.pieces = pieces


@attrs.define
class Asked:
    """One request that was given to a handler."""

    reply: Replying
    api: Any
    version: int

    @property
    def is_answered(self) -> bool:
        return self.reply.pieces is not None

    @property
    def answer(self) -> Any:
        """Returns the decoded answer."""
        assert self.reply.pieces is not None, "it waits"
        frame = b"".join(map(bytes, self.reply.pieces))
        return self.api.decode_response(frame[4:], self.version)[1]


@attrs.define
class Orders:
    """Records the fetch orders of followers."""

    wanted: dict[TopicPartition, tuple[int, FetchPosition]] = attrs.field(factory=dict)

    def fetch(self, leader: int, partition: TopicPartition, position: FetchPosition) -> None:
        self.wanted[partition] = leader, position

    def stop(self, partition: TopicPartition) -> None:
        self.wanted.pop(partition, None)


def ask(handler: Callable[[ClientCall], None], api: Any, version: int, request: Any, connection: Any = None) -> Asked:
    assert api is APIS[api.key]
    asked = Asked(Replying(), api, version)
    header = RequestHeader(api.key, version, 7, "test")
    handler(ClientCall(header, request, asked.reply, connection or Connection()))  # type: ignore[arg-type]
    return asked


def no_thread() -> DiskThread:
    raise AssertionError("nothing here is so large that a thread encodes it")


class World:
    """Broker 1 of a cluster with broker 2."""

    def __init__(self, disk: MemoryDisk, store: BrokerStore, *assignments: str) -> None:
        self.now = 100.0
        self.disk, self.store = disk, store
        self.image = ClusterImage()
        self.link = ControllerLink("c", OWN, {}, {}, lambda: self.now)
        self.context = Context(
            cluster_id="c",
            broker_id=OWN,
            address=("127.0.0.1", 9092),
            data="data/partitions",
            image=self.image,
            controller=self.link,
            settings=Settings.from_assignments(assignments),
            clock=lambda: self.now,
            wall_ms=lambda: 1_000_000 + int(self.now * 1000),
            rng=random.Random(1),
            turns=LongWork(no_thread),
            broker_epoch=1,
        )
        self.orders = Orders()
        self.told: list[Any] = []
        self.removed: list[LocalReplica] = []
        self.replicas = Replicas(
            self.context,
            store,
            self.orders,
            lambda hosted, news: self.told.append(news),
            self._on_role,
            self.removed.append,
        )
        self.coordinators = Coordination(self.context, lambda: self.replicas, {}, lambda event, **fields: None)
        self.fetches = FetchRequests(self.context, self.replicas, lambda *_, **__: None)
        for broker in (1, 2):
            self.image.brokers[broker] = BrokerRegistration(broker, broker, bytes(16), "h", 9092, fenced=False)

    def _on_role(self, hosted: LocalReplica, news: PartitionRoleChanged) -> None:
        self.coordinators.role_changed(hosted, news)

    def topic(self, name: str, partitions: int = 1, replicas: tuple[int, ...] = (OWN,), **state: Any) -> bytes:
        """Make a topic that this broker leads. Returns its id."""
        topic_id = self.context.new_id()
        given: dict[str, Any] = {"isr": replicas, "leader": OWN, "leader_epoch": 0, "partition_epoch": 0} | state
        states = [PartitionState(topic_id, replicas, **given) for _ in range(partitions)]
        old = self.image.topics.get(name)
        if old is not None:
            del self.image.topics_by_id[old.topic_id]
        topic = TopicImage(name, topic_id, states, {})
        self.image.topics[name] = self.image.topics_by_id[topic_id] = topic
        self.replicas.update({TopicPartition(name, number): state for number, state in enumerate(states)})
        while self.replicas.has_more:
            self.replicas.work()
        return topic_id

    def produce(self, name: str, partition: int = 0, *, size: int = 10, count: int = 1, acks: int = 1) -> list[Answer]:
        """Append `count` batches of one record. Returns their answers."""
        answers: list[Answer] = []
        for _ in range(count):
            batch = encode_records([(b"k", bytes(size))], 1)
            hosted = self.replicas.hosted[TopicPartition(name, partition)]
            token = self.replicas.token(answers.append)
            self.replicas.step(hosted, Produce(token, acks, BatchInfo(1, len(batch)), 10.0, (batch,)))
        return answers

    def fetch(self, request: FetchRequest, connection: Any = None) -> Asked:
        return ask(self.fetches.fetch, FETCH, FETCH_VERSION, request, connection)

    def pump(self) -> None:
        self.fetches.pump(self.now)


@contextmanager
def world(*assignments: str, disk: MemoryDisk | None = None) -> Iterator[World]:
    used = disk or MemoryDisk(random.Random(1))
    store = BrokerStore.open(used, "data/partitions", cluster_id="c", broker_id=OWN)
    store.open_all()
    try:
        yield World(used, store, *assignments)
    finally:
        store.close()


def records_of(response: FetchResponse) -> dict[int, int]:
    """Returns the bytes of records by partition, without empty partitions."""
    return {
        partition.partition_index: len(partition.records)
        for topic in response.responses
        for partition in topic.partitions
        if partition.records
    }
