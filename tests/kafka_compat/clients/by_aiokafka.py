"""aiokafka: asyncio.

Each producer and consumer has a thread with an event loop, so that heartbeats continue between calls.
"""

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, OffsetAndMetadata, TopicPartition

from tests.kafka_compat.clients.adapters import PATIENCE_S, Acks, Client, Member, Message, Received, Sender

Result = TypeVar("Result")
ACKS: dict[str, int | str] = {"0": 0, "1": 1, "all": "all"}


def convert_records(polled: dict[Any, Any]) -> list[Received]:
    return [
        Received(record.partition, record.offset, record.value, record.key, tuple(record.headers), record.timestamp)
        for records in polled.values()
        for record in records
    ]


class LoopThread:
    """An event loop that runs until the end of a `with`."""

    def __enter__(self) -> "LoopThread":
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, task: Coroutine[Any, Any, Result]) -> Result:
        """Wait for what it returns or raises."""
        return asyncio.run_coroutine_threadsafe(task, self._loop).result(4 * PATIENCE_S)


class AiokafkaSender(Sender):
    def __init__(self, runner: LoopThread, producer: Any, topic: str) -> None:
        self._runner = runner
        self._producer = producer
        self._topic = topic

    def send(self, value: bytes) -> int:
        return int(self._runner.run(self._producer.send_and_wait(self._topic, value, partition=0)).offset)


class AiokafkaMember(Member):
    def __init__(self, runner: LoopThread, consumer: Any, topic: str) -> None:
        self._runner = runner
        self._consumer = consumer
        self._topic = topic

    def poll(self) -> list[Received]:
        return convert_records(self._runner.run(self._consumer.getmany(timeout_ms=100)))

    def assignment(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self, partition: int, offset: int, metadata: str = "") -> None:
        at = TopicPartition(self._topic, partition)
        self._runner.run(self._consumer.commit({at: OffsetAndMetadata(offset, metadata)}))

    def fetch_committed(self, partition: int) -> int | None:
        found: int | None = self._runner.run(self._consumer.committed(TopicPartition(self._topic, partition)))
        return found


class AiokafkaClient(Client):
    name = "aiokafka"
    codecs = ("none", "gzip")

    @contextmanager
    def _producer(self, **settings: Any) -> Iterator[tuple[LoopThread, Any]]:
        with LoopThread() as runner:
            producer = runner.run(self._make(AIOKafkaProducer, **settings))
            try:
                yield runner, producer
            finally:
                runner.run(producer.stop())

    @contextmanager
    def _consumer(self, *topics: str, **settings: Any) -> Iterator[tuple[LoopThread, Any]]:
        with LoopThread() as runner:
            consumer = runner.run(
                self._make(
                    AIOKafkaConsumer, *topics, auto_offset_reset="earliest", enable_auto_commit=False, **settings
                )
            )
            try:
                yield runner, consumer
            finally:
                runner.run(consumer.stop())

    async def _make(self, kind: Any, *topics: str, **settings: Any) -> Any:
        """Its constructors need a loop that runs."""
        made = kind(*topics, bootstrap_servers=self.bootstrap, **settings)
        try:
            await made.start()
        except BaseException:
            await made.stop()
            raise
        return made

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
        async def send_all(producer: Any) -> list[Any]:
            sent = [
                await producer.send(
                    topic,
                    message.value,
                    key=message.key,
                    partition=partition,
                    headers=list(message.headers),
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            return await asyncio.gather(*sent)

        with self._producer(
            acks=ACKS[acks],
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=50,
        ) as (runner, producer):
            done = runner.run(send_all(producer))
        return [-1 if each is None else each.offset for each in done]

    def consume(self, topic: str, count: int, *, start: int = 0, partition: int = 0) -> list[Received]:
        at = TopicPartition(topic, partition)

        async def read(consumer: Any) -> list[Received]:
            found: list[Received] = []
            consumer.assign([at])
            consumer.seek(at, start)
            end = time.monotonic() + PATIENCE_S
            while len(found) < count and time.monotonic() < end:
                found += convert_records(await consumer.getmany(at, timeout_ms=100, max_records=count - len(found)))
            return found

        with self._consumer() as (runner, consumer):
            return runner.run(read(consumer))

    def bounds(self, topic: str, partition: int = 0) -> tuple[int, int]:
        at = TopicPartition(topic, partition)
        with self._consumer() as (runner, consumer):
            first = runner.run(consumer.beginning_offsets([at]))[at]
            return first, runner.run(consumer.end_offsets([at]))[at]

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        at = TopicPartition(topic, partition)
        with self._consumer() as (runner, consumer):
            found = runner.run(consumer.offsets_for_times({at: timestamp_ms}))[at]
        return None if found is None else int(found.offset)

    @contextmanager
    def sending(self, topic: str, *, idempotent: bool = True) -> Iterator[Sender]:
        with self._producer(acks="all", enable_idempotence=idempotent) as (runner, producer):
            yield AiokafkaSender(runner, producer, topic)

    @contextmanager
    def joining(self, group: str, topic: str, *, instance: str | None = None) -> Iterator[Member]:
        with self._consumer(
            topic, group_id=group, group_instance_id=instance, heartbeat_interval_ms=200, session_timeout_ms=6_000
        ) as (runner, consumer):
            yield AiokafkaMember(runner, consumer, topic)
