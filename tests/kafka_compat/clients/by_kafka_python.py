"""kafka-python: threads and sockets in Python."""

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.kafka_compat.clients.adapters import PATIENCE_S, Acks, Client, Member, Message, Received, Sender

with warnings.catch_warnings():  # it reads its schemas by a way that Python has deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

__all__ = ["KafkaAdminClient", "KafkaPythonClient", "TopicPartition"]

ACKS = {"0": 0, "1": 1, "all": "all"}


def convert_records(polled: dict[Any, list[Any]]) -> list[Received]:
    return [
        Received(record.partition, record.offset, record.value, record.key, tuple(record.headers), record.timestamp)
        for records in polled.values()
        for record in records
    ]


class KafkaPythonSender(Sender):
    def __init__(self, producer: Any, topic: str) -> None:
        self._producer = producer
        self._topic = topic

    def send(self, value: bytes) -> int:
        return int(self._producer.send(self._topic, value, partition=0).get(2 * PATIENCE_S).offset)


class KafkaPythonMember(Member):
    def __init__(self, consumer: Any, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic

    def poll(self) -> list[Received]:
        return convert_records(self._consumer.poll(timeout_ms=100))

    def assignment(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self, partition: int, offset: int, metadata: str = "") -> None:
        self._consumer.commit({TopicPartition(self._topic, partition): OffsetAndMetadata(offset, metadata, -1)})

    def fetch_committed(self, partition: int) -> int | None:
        found: int | None = self._consumer.committed(TopicPartition(self._topic, partition))
        return found


class KafkaPythonClient(Client):
    name = "kafka-python"
    codecs = ("none", "gzip")

    @contextmanager
    def _producer(self, **settings: Any) -> Iterator[Any]:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, **settings)
        try:
            yield producer
        finally:
            producer.close(PATIENCE_S)

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        acks: Acks = "all",
        codec: str = "none",
        idempotent: bool = False,
    ) -> list[int]:
        with self._producer(
            acks=ACKS[acks],
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=50,
        ) as producer:
            sent = [
                producer.send(
                    topic,
                    message.value,
                    key=message.key,
                    partition=partition,
                    headers=list(message.headers),
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            producer.flush(PATIENCE_S)
            return [each.get(PATIENCE_S).offset for each in sent]

    @contextmanager
    def _consumer(self, *topics: str, **settings: Any) -> Iterator[Any]:
        consumer = KafkaConsumer(
            *topics,
            bootstrap_servers=self.bootstrap,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **settings,
        )
        try:
            yield consumer
        finally:
            consumer.close()

    def consume(self, topic: str, count: int, *, start: int = 0, partition: int = 0) -> list[Received]:
        found: list[Received] = []
        at = TopicPartition(topic, partition)
        with self._consumer() as consumer:
            consumer.assign([at])
            consumer.seek(at, start)
            end = time.monotonic() + PATIENCE_S
            while len(found) < count and time.monotonic() < end:
                found += convert_records(consumer.poll(timeout_ms=100, max_records=count - len(found)))
        return found

    def bounds(self, topic: str, partition: int = 0) -> tuple[int, int]:
        at = TopicPartition(topic, partition)
        with self._consumer() as consumer:
            return consumer.beginning_offsets([at])[at], consumer.end_offsets([at])[at]

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        at = TopicPartition(topic, partition)
        with self._consumer() as consumer:
            found = consumer.offsets_for_times({at: timestamp_ms})[at]
        return None if found is None else int(found.offset)

    @contextmanager
    def sending(self, topic: str, *, idempotent: bool = True) -> Iterator[Sender]:
        with self._producer(acks="all", enable_idempotence=idempotent) as producer:
            yield KafkaPythonSender(producer, topic)

    @contextmanager
    def joining(self, group: str, topic: str, *, instance: str | None = None) -> Iterator[Member]:
        with self._consumer(
            topic, group_id=group, group_instance_id=instance, heartbeat_interval_ms=200, session_timeout_ms=6_000
        ) as consumer:
            consumer.partitions_for_topic(topic)  # a leader without metadata assigns nothing, and may leave it at that
            yield KafkaPythonMember(consumer, topic)
