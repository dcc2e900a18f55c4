"""confluent-kafka: librdkafka."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Delivered

from tests.kafka_compat.clients.adapters import CODECS, PATIENCE_S, Acks, Client, Member, Message, Received, Sender


def convert_record(record: Delivered) -> Received:
    if record.error() is not None:
        raise KafkaException(record.error())
    partition, offset = record.partition(), record.offset()
    assert partition is not None and offset is not None
    headers: Any = record.headers() or []
    return Received(
        partition,
        offset,
        record.value(),
        record.key(),
        tuple((name, value) for name, value in headers),
        record.timestamp()[1],
    )


class ConfluentSender(Sender):
    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic

    def send(self, value: bytes) -> int:
        done: list[tuple[Any, Any]] = []
        self._producer.produce(self._topic, value, partition=0, on_delivery=lambda *report: done.append(report))
        self._producer.flush(2 * PATIENCE_S)
        ((error, delivered),) = done
        if error is not None:
            raise KafkaException(error)
        return int(delivered.offset())


class ConfluentMember(Member):
    def __init__(self, consumer: Consumer, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic

    def poll(self) -> list[Received]:
        return [convert_record(record) for record in self._consumer.consume(100, 0.1)]

    def assignment(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self, partition: int, offset: int, metadata: str = "") -> None:
        at = TopicPartition(self._topic, partition, offset, metadata)
        answered = self._consumer.commit(offsets=[at], asynchronous=False)
        assert answered is not None
        for result in answered:
            if result.error is not None:
                raise KafkaException(result.error)

    def fetch_committed(self, partition: int) -> int | None:
        (found,) = self._consumer.committed([TopicPartition(self._topic, partition)], PATIENCE_S)
        return found.offset if found.offset >= 0 else None


class ConfluentClient(Client):
    name = "confluent-kafka"
    codecs = CODECS

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
        done: list[tuple[Any, Any]] = []
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": acks,
                "compression.type": codec,
                "enable.idempotence": idempotent,
                "linger.ms": 50,
            }
        )
        for message in messages:
            producer.produce(
                topic,
                message.value,
                key=message.key,
                partition=partition,
                headers=list(message.headers),
                timestamp=message.timestamp_ms or 0,
                on_delivery=lambda *report: done.append(report),
            )
        assert producer.flush(PATIENCE_S) == 0
        for error, _ in done:
            if error is not None:
                raise KafkaException(error)
        return [delivered.offset() for _, delivered in done]

    @contextmanager
    def _consumer(self, group: str, **settings: Any) -> Iterator[Consumer]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **settings,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    def consume(self, topic: str, count: int, *, start: int = 0, partition: int = 0) -> list[Received]:
        found: list[Received] = []
        with self._consumer("unused") as consumer:
            consumer.assign([TopicPartition(topic, partition, start)])
            end = time.monotonic() + PATIENCE_S
            while len(found) < count and time.monotonic() < end:
                found += [convert_record(record) for record in consumer.consume(count - len(found), 0.1)]
        return found

    def bounds(self, topic: str, partition: int = 0) -> tuple[int, int]:
        with self._consumer("unused") as consumer:
            found: tuple[int, int] | None
            found = consumer.get_watermark_offsets(TopicPartition(topic, partition), PATIENCE_S)
        assert found is not None
        return found

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        with self._consumer("unused") as consumer:
            (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp_ms)], PATIENCE_S)
        if found.error is not None:
            raise KafkaException(found.error)
        return found.offset if found.offset >= 0 else None

    @contextmanager
    def sending(self, topic: str, *, idempotent: bool = True) -> Iterator[Sender]:
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": idempotent, "acks": "all"})
        yield ConfluentSender(producer, topic)
        producer.flush(PATIENCE_S)

    @contextmanager
    def joining(self, group: str, topic: str, *, instance: str | None = None) -> Iterator[Member]:
        settings = {} if instance is None else {"group.instance.id": instance}
        with self._consumer(
            group, **{"session.timeout.ms": 6_000, "heartbeat.interval.ms": 200, **settings}
        ) as consumer:
            consumer.subscribe([topic])
            yield ConfluentMember(consumer, topic)
