"""Two clusters of brokers in this process, with clients of librdkafka, and a mirror between them."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from jepsen_like.mirror.ends import MirrorEnded
from jepsen_like.mirror.kafka.mirror import run_mirror
from jepsen_like.mirror.plan import LinkEnd, MirrorPlan
from jepsen_like.testing.kafka.cluster import LocalKafka

TOPIC = "orders"
PATIENCE_S = 20
QUIET = {"log_level": 0}
Seen = tuple[bytes | None, bytes | None, Any, int]


@attrs.define
class TwoClusters:
    """`a` is the source, `b` the target."""

    a: LocalKafka
    b: LocalKafka
    events: list[Mapping[str, Any]] = attrs.field(factory=list)

    @property
    def plan(self) -> MirrorPlan:
        return MirrorPlan(end_of(self.a), end_of(self.b))

    async def mirror_all(self, plan: MirrorPlan | None = None) -> MirrorEnded:
        """Mirror until the target has all."""
        with trio.fail_after(PATIENCE_S):
            return await run_mirror(attrs.evolve(plan or self.plan, until_caught_up=True), self.events.append)

    async def until(self, event: str, times: int = 1) -> None:
        """Wait until the mirrors of this test have reported an event so often."""
        await until(lambda: sum(each["event"] == event for each in self.events) >= times)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds. Raises `TooSlowError`."""
    with trio.fail_after(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - brokers and mirrors change it, and set no event
            await trio.sleep(0.01)


async def until_copied(cluster: LocalKafka, values: Sequence[bytes]) -> None:
    """Wait until a cluster has all these values, in any order, among others."""
    with trio.fail_after(PATIENCE_S):
        while not set(values) <= set(await values_in(cluster)):  # noqa: ASYNC110 - only a reader sees them
            await trio.sleep(0.05)


def end_of(cluster: LocalKafka) -> LinkEnd:
    addresses = (address.rsplit(":", 1) for address in cluster.addresses)
    return LinkEnd(tuple((host, int(port)) for host, port in addresses))


@asynccontextmanager
async def open_two(brokers: int = 1) -> AsyncIterator[TwoClusters]:
    async with LocalKafka.open(brokers=brokers) as a, LocalKafka.open(brokers=brokers) as b:
        yield TwoClusters(a, b)


async def produce(cluster: LocalKafka, values: Sequence[bytes], **settings: Any) -> None:
    """Send values and wait until all are acknowledged."""

    def send() -> None:
        producer = Producer({**QUIET, "bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, **settings})
        for value in values:
            producer.produce(TOPIC, value, key=b"k", headers=[("h", value), ("none", None)], partition=0)
        assert producer.flush(PATIENCE_S) == 0

    await trio.to_thread.run_sync(send)


async def open_transaction(cluster: LocalKafka, values: Sequence[bytes]) -> Producer:
    """Send values in a transaction, and leave it open."""

    def send() -> Producer:
        producer = Producer({**QUIET, "bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "t"})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        for value in values:
            producer.produce(TOPIC, value, partition=0)
        assert producer.flush(PATIENCE_S) == 0
        return producer

    return await trio.to_thread.run_sync(send)


async def end_transaction(producer: Producer, *, commits: bool = True) -> None:
    end = producer.commit_transaction if commits else producer.abort_transaction
    await trio.to_thread.run_sync(end, PATIENCE_S)


async def produce_aborted(cluster: LocalKafka, values: Sequence[bytes], *, commits: bool = False) -> None:
    """Send values in a transaction and end it."""
    await end_transaction(await open_transaction(cluster, values), commits=commits)


async def read(cluster: LocalKafka, topic: str = TOPIC, since: int = OFFSET_BEGINNING) -> list[Seen]:
    """Returns key, value, headers and time of all committed records of partition 0."""

    def consume() -> list[Seen]:
        consumer = Consumer(
            {
                **QUIET,
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(topic, 0, since)])
        found: list[Seen] = []
        try:
            while (message := consumer.poll(PATIENCE_S)) is not None and message.error() is None:
                found.append((message.key(), message.value(), message.headers(), message.timestamp()[1]))
            return found
        finally:
            consumer.close()

    return await trio.to_thread.run_sync(consume)


async def values_in(cluster: LocalKafka, since: int = OFFSET_BEGINNING) -> list[bytes | None]:
    return [value for _, value, _, _ in await read(cluster, since=since)]


async def commit(cluster: LocalKafka, group: str, offset: int) -> None:
    """Commit an offset of a group without members."""

    def send() -> None:
        consumer = Consumer({**QUIET, "bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
        consumer.close()

    await trio.to_thread.run_sync(send)


async def read_committed_offset(cluster: LocalKafka, group: str) -> int:
    """Returns the committed offset of a group; negative if there is none."""

    def ask() -> int:
        consumer = Consumer({**QUIET, "bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
        (found,) = consumer.committed([TopicPartition(TOPIC, 0)], PATIENCE_S)
        consumer.close()
        return int(found.offset)

    return await trio.to_thread.run_sync(ask)
