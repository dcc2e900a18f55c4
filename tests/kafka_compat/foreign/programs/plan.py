"""One program, and what all of them need: brokers that die in turn, records to work on, and what came of them."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from jepsen_like.bench.kafka.apache import BROKERS
from jepsen_like.bench.kafka.cluster import KafkaCluster

PATIENCE_S = 90.0
PAUSE_S = 0.005
"""Between two records, so that some are under way when a broker ends."""


class NotKept(Exception):
    """A program ended well, but its outcome is not the promised one; the message has the difference."""


@attrs.frozen
class ForeignProgram:
    """A program and its promise."""

    name: str
    version: str
    shows: str
    """The promise, in words."""
    prove: Callable[[KafkaCluster, Path], str]
    """Runs it on a new cluster in an empty directory, and returns its figures. Raises `NotKept`, `ClientMissing`,
    `DidNotAnswer`.
    """
    settings: Mapping[str, str] = attrs.Factory(dict)
    """Of the brokers."""


@contextmanager
def struck(cluster: KafkaCluster, broker: int, topics: Sequence[tuple[str, int]]) -> Iterator[None]:
    """One broker is dead meanwhile; afterwards the topics (name, partitions) have all their replicas in sync."""
    process = cluster.members[broker - 1]
    process.kill()
    process.reap()
    try:
        yield
    finally:
        process.start()
        cluster.await_brokers()
    for topic, partitions in topics:
        cluster.await_in_sync(topic, partitions)


def strike_each(cluster: KafkaCluster, topics: Sequence[tuple[str, int]], work: Callable[[int], None]) -> None:
    """Do the work while each broker in turn is dead, and once with all of them before and after: 0 to 6."""
    work(0)
    for broker in range(1, BROKERS + 1):
        with struck(cluster, broker, topics):
            work(2 * broker - 1)
        work(2 * broker)


def send(cluster: KafkaCluster, topic: str, values: Sequence[bytes]) -> None:
    """Send records one after another, and wait until all are acknowledged. Raises `NotKept` if one is not."""
    failed: list[str] = []
    producer = Producer({**cluster.client, "enable.idempotence": True, "linger.ms": 2})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(str(error)) if error else None)
        producer.poll(PAUSE_S)
    left = producer.flush(PATIENCE_S)
    if failed or left:
        raise NotKept(f"{left + len(failed)} of {len(values)} records were not acknowledged: {failed[:1]}")


def read(
    cluster: KafkaCluster, topic: str, partitions: int, whole: Callable[[Sequence[Message]], bool]
) -> list[Message]:
    """Returns the committed records from the beginning until they are whole, and what stands behind them.

    In time they are what is there, whole or not.
    """
    consumer = Consumer(
        {
            **cluster.client,
            "group.id": "foreign-reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    records: list[Message] = []
    end = time.monotonic() + PATIENCE_S
    quiet = False
    while not quiet and time.monotonic() < end:
        found = [each for each in consumer.consume(500, 1.0) if not each.error()]
        records += found
        quiet = not found and whole(records)
    consumer.close()
    return records
