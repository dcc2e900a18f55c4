"""The clients of a trial on Kafka: confluent-kafka within the wrappers that users have, a thread each.

What they do is kept in memory, in the order of the time, and written into a history in the end.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from jepsen_like.history.files import HistoryWriter
from jepsen_like.history.ops import NONE, ErrorCode, Outcome
from jepsen_like.systems.kafka.load import COMMON
from jepsen_like.two_clusters.figures import KEYS, TAKES
from jepsen_like.two_clusters.plan import TwoTopicsTrial
from jepsen_like.workload.payload import encode_value
from jepsen_like.workload.queue_recorder import QueueRecorder
from kafka_compat.topic_pair import TwoTopicsConsumer, TwoTopicsProducer

RECORD_BYTES: Final = 100
PARTITIONS: Final = 2
RATE: Final = 200.0
BEAT_S: Final = 0.002
SENT_WITHIN_S: Final = 10.0
QUIET_S: Final = 1.5
"""Everything has been read once no message has come for this long."""
READ_WITHIN_S: Final = 15.0


@attrs.frozen
class SendNote:
    """A message: its number, from the call to its end, and the cluster that has it."""

    number: int
    t_inv: int
    t_ret: int
    side: int | None


@attrs.frozen
class ReadNote:
    """A message that was read, and what became of it."""

    number: int
    partition: int
    offset: int
    side: int
    take: int
    t_inv: int
    t_ret: int


class Gate:
    """A consumer that reads nothing while its gate is shut, as one that is slow. What it had fetched ahead is forgotten."""

    def __init__(self, consumer: Consumer) -> None:
        self.is_open = threading.Event()
        self.is_open.set()
        self._consumer = consumer
        self._is_paused = False

    def poll(self, timeout: float) -> Any:
        """The next message."""
        if self._is_paused == self.is_open.is_set():
            self._is_paused = not self._is_paused
            change = self._consumer.pause if self._is_paused else self._consumer.resume
            change(self._consumer.assignment())
        return self._consumer.poll(timeout)


@attrs.define(eq=False)
class TwoTopicsClients:
    """The producer and the consumer of a trial. `run_sender` and `run_reader` block, in threads of their own."""

    trial: TwoTopicsTrial
    servers: Sequence[str]
    topic: str
    sent: list[SendNote] = attrs.field(factory=list)
    read: list[ReadNote] = attrs.field(factory=list)
    stopping: threading.Event = attrs.field(factory=threading.Event)
    has_sent: threading.Event = attrs.field(factory=threading.Event)
    """Set once all messages have ended."""
    gates: list[Gate] = attrs.field(factory=list)

    def run_sender(self) -> None:
        """Send at `RATE` until told to stop, then wait for the last answers."""
        producers = [Producer(_producer_config(servers)) for servers in self.servers]
        producer = TwoTopicsProducer(
            producers, self.topic, self.trial.sending, writer="w", refusals=(BufferError, KafkaException)
        )
        began, number = time.monotonic(), 0
        begun_ns: dict[int, int] = {}

        def on_done(number: int, side: int | None) -> None:
            self.sent.append(SendNote(number, begun_ns[number], time.monotonic_ns(), side))

        try:
            while not self.stopping.is_set():
                while time.monotonic() >= began + number / RATE:
                    number += 1
                    begun_ns[number] = time.monotonic_ns()
                    value = encode_value(number, RECORD_BYTES)
                    producer.send(value, key=b"key-%d" % (number % KEYS), on_done=on_done)
                producer.poll(BEAT_S)
            producer.flush(SENT_WITHIN_S)
        finally:
            self.has_sent.set()

    def run_reader(self) -> None:
        """Read both clusters until all is sent, and no more comes."""
        consumers = [Consumer(_consumer_config(servers)) for servers in self.servers]
        try:
            for consumer in consumers:
                consumer.assign([TopicPartition(self.topic, number, 0) for number in range(PARTITIONS)])
            self.gates += [Gate(consumer) for consumer in consumers]
            reader = TwoTopicsConsumer(self.gates, self.trial.receiving)
            last, deadline = time.monotonic(), float("inf")
            while time.monotonic() < min(deadline, last + QUIET_S if self.has_sent.is_set() else deadline):
                if self.has_sent.is_set():
                    deadline = min(deadline, time.monotonic() + READ_WITHIN_S)
                t_inv = time.monotonic_ns()
                received = reader.poll(BEAT_S)
                if received is None:
                    continue
                last = time.monotonic()
                self._note(received, t_inv)
        finally:
            for consumer in consumers:
                consumer.close()

    def _note(self, received: Any, t_inv: int) -> None:
        message = received.message
        headers = dict(message.headers())
        place = message.partition(), message.offset(), received.side, TAKES.index(received.take) + 1
        self.read.append(ReadNote(int(headers["tt-number"]), *place, t_inv, time.monotonic_ns()))

    def write(self, history: HistoryWriter) -> None:
        """Write what happened: `node` is the cluster, 1 or 2, and `b` of what was read is what became of it."""
        recorder = QueueRecorder(history)
        sender, reader = recorder.new_process(), recorder.new_process()
        for sent in sorted(self.sent, key=lambda sent: sent.t_inv):
            about = {"partition": 0, "process": sender, "t_inv": sent.t_inv, "t_ret": sent.t_ret}
            if sent.side is None:
                recorder.not_sent(sent.number, Outcome.INFO, ErrorCode.TIMEOUT, **about)
            else:
                recorder.record_send(sent.number, offset=NONE, node=sent.side + 1, **about)
        for read in self.read:
            recorder.record_poll(
                [read.number],
                [read.offset],
                group=read.take,
                partition=read.partition,
                process=reader,
                node=read.side + 1,
                t_inv=read.t_inv,
                t_ret=read.t_ret,
            )


def _producer_config(servers: str) -> Mapping[str, Any]:
    return {
        **COMMON,
        "bootstrap.servers": servers,
        "acks": "all",
        "linger.ms": 0,
        "retries": 0,
        "message.timeout.ms": 1000,
    }


def _consumer_config(servers: str) -> Mapping[str, Any]:
    return {
        **COMMON,
        "bootstrap.servers": servers,
        "group.id": "two-topics",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 50,
        "fetch.error.backoff.ms": 50,
    }
