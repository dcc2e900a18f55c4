"""Transactional producers of three libraries behind one face, and what readers of committed records get."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.errors import ProducerFenced
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.kafka_compat.clients.adapters import PATIENCE_S
from tests.kafka_compat.clients.by_aiokafka import LoopThread


class Fenced(Exception):
    """A newer producer with the same transactional id has begun."""


class Transactor(ABC):
    """One transactional producer."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def send(self, topic: str, partition: int, value: bytes) -> None:
        """Send a record in the transaction, and wait until it is taken."""

    @abstractmethod
    def send_offset(self, topic: str, partition: int, offset: int, group: str) -> None:
        """Commit the offset of a group with the transaction."""

    @abstractmethod
    def end(self, *, commits: bool) -> None:
        """Commit or abort. Raises `Fenced`."""


class ConfluentTransactor(Transactor):
    """librdkafka: EndTxn 1, which keeps the epoch."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._bootstrap = bootstrap
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "log_level": 0,
                "linger.ms": 0,
            }
        )
        self._producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.produce(topic, value, partition=partition)
        self._producer.flush(PATIENCE_S)

    def send_offset(self, topic: str, partition: int, offset: int, group: str) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "group.id": group, "log_level": 0}
        consumer = confluent_kafka.Consumer(settings)
        try:
            at = confluent_kafka.TopicPartition(topic, partition, offset)
            self._producer.send_offsets_to_transaction([at], consumer.consumer_group_metadata(), PATIENCE_S)
        finally:
            consumer.close()

    def end(self, *, commits: bool) -> None:
        try:
            end = self._producer.commit_transaction if commits else self._producer.abort_transaction
            end(PATIENCE_S)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() == confluent_kafka.KafkaError._FENCED:
                raise Fenced from error
            raise


class KafkaPythonTransactor(Transactor):
    """kafka-python: EndTxn 3."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.send(topic, value, partition=partition).get(PATIENCE_S)

    def send_offset(self, topic: str, partition: int, offset: int, group: str) -> None:
        at = {kafka.TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(at, group)

    def end(self, *, commits: bool) -> None:
        try:
            if commits:
                self._producer.commit_transaction()
            else:
                self._producer.abort_transaction()
        except KafkaError as error:
            raise Fenced from error


class AiokafkaTransactor(Transactor):
    """aiokafka: EndTxn 0, in which a fenced producer has an invalid epoch."""

    def __init__(self, runner: LoopThread, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._runner = runner

        async def make() -> Any:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            )
            await producer.start()
            return producer

        self.producer = runner.run(make())

    def begin(self) -> None:
        self._runner.run(self.producer.begin_transaction())

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._runner.run(self.producer.send_and_wait(topic, value, partition=partition))

    def send_offset(self, topic: str, partition: int, offset: int, group: str) -> None:
        at = {AiokafkaPartition(topic, partition): offset}
        self._runner.run(self.producer.send_offsets_to_transaction(at, group))

    def end(self, *, commits: bool) -> None:
        try:
            end = self.producer.commit_transaction if commits else self.producer.abort_transaction
            self._runner.run(end())
        except ProducerFenced as error:
            raise Fenced from error


@contextmanager
def transactor(library: str, bootstrap: str, transactional_id: str, timeout_ms: int = 30_000) -> Iterator[Transactor]:
    """A producer of this library that has begun, and fenced the ones before it."""
    if library == "confluent-kafka":
        yield ConfluentTransactor(bootstrap, transactional_id, timeout_ms)
    elif library == "kafka-python":
        made = KafkaPythonTransactor(bootstrap, transactional_id, timeout_ms)
        try:
            yield made
        finally:
            made._producer.close(timeout=5)
    else:
        with LoopThread() as runner:
            begun = AiokafkaTransactor(runner, bootstrap, transactional_id, timeout_ms)
            try:
                yield begun
            finally:
                runner.run(begun.producer.client.close())


def read(library: str, bootstrap: str, topic: str, partitions: int, *, committed: bool) -> dict[int, list[bytes]]:
    """Returns the values that a reader of this library finds up to the end that it is given, by partition."""
    level = "read_committed" if committed else "read_uncommitted"
    reader = {"confluent-kafka": _read_by_confluent, "kafka-python": _read_by_python}.get(library, _read_by_aiokafka)
    return reader(bootstrap, topic, partitions, level)


def _read_by_confluent(bootstrap: str, topic: str, partitions: int, level: str) -> dict[int, list[bytes]]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "isolation.level": level,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in range(partitions)])
    found: dict[int, list[bytes]] = {each: [] for each in range(partitions)}
    ends: set[int] = set()
    while len(ends) < partitions:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "the end was not reached"
        if message.error() is None:
            found[message.partition()].append(message.value())
        else:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            ends.add(message.partition())
    consumer.close()
    return found


def _read_by_python(bootstrap: str, topic: str, partitions: int, level: str) -> dict[int, list[bytes]]:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=level, group_id=None)
    all_ = [kafka.TopicPartition(topic, each) for each in range(partitions)]
    consumer.assign(all_)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(all_)
    found: dict[int, list[bytes]] = {each: [] for each in range(partitions)}
    while any(consumer.position(each) < ends[each] for each in all_):
        for at, records in consumer.poll(timeout_ms=500).items():
            found[at.partition] += [each.value for each in records]
    consumer.close()
    return found


def _read_by_aiokafka(bootstrap: str, topic: str, partitions: int, level: str) -> dict[int, list[bytes]]:
    async def run() -> dict[int, list[bytes]]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=level, group_id=None)
        await consumer.start()
        try:
            all_ = [AiokafkaPartition(topic, each) for each in range(partitions)]
            consumer.assign(all_)
            await consumer.seek_to_beginning()
            ends = await consumer.end_offsets(all_)
            found: dict[int, list[bytes]] = {each: [] for each in range(partitions)}
            while any([await consumer.position(each) < ends[each] for each in all_]):
                for at, records in (await consumer.getmany(timeout_ms=500)).items():
                    found[at.partition] += [each.value for each in records]
            return found
        finally:
            await consumer.stop()

    with LoopThread() as runner:
        return runner.run(run())
