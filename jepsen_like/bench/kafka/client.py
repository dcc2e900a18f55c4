"""The one client process of a measurement: confluent-kafka, told by lines of JSON what to do (`python -m
jepsen_like.bench.kafka.client`).

Latencies of a stream are sampled, from handing a record over to its acknowledgement: they hold the wait in the
library's own queue, which is full under such a load.
"""

import itertools
import json
import select
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from jepsen_like.bench.workers import say

SAMPLED_EVERY = 50
HANDED_OVER = 200
"""Records between two looks at the clock."""
FLUSH_WITHIN_S = 60.0
QUEUE_BACKOFF_MS = 10
"""A consumer whose queue is full asks again after this time. By default it rests for a second, which hides what brokers do."""
READ_WITHIN_S = 60.0
CHUNK = 10_000
BEAT_S = 0.005
"""Between two records while faults are waited for."""
FAULT_WITHIN_S = 150.0


def main() -> None:
    """Answer every question with one line; whatever the library raises is an answer too."""
    for line in sys.stdin:
        question = json.loads(line)
        try:
            say(WORK[question["ask"]](question))
        except (KafkaException, TimeoutError) as error:
            say({"failed": f"{question['ask']}: {error}"})


@attrs.frozen
class Stopwatch:
    """The time since a load began: on the wall, and on the processor of this process."""

    began_ns: int = attrs.field(factory=time.perf_counter_ns)
    cpu_began_s: float = attrs.field(factory=time.process_time)

    def answer(self, records: int, warm: int, latencies_ns: list[int]) -> dict[str, Any]:
        """Returns the results of a load that has ended now; `warm` are the records before it."""
        return {
            "records": records,
            "warm": warm,
            "lasted_s": (time.perf_counter_ns() - self.began_ns) / 1e9,
            "latencies_ns": latencies_ns,
            "cpu_s": time.process_time() - self.cpu_began_s,
        }


def producer_of(question: Mapping[str, Any]) -> tuple[Producer, int]:
    """Returns a producer, and how many records it has sent: one to each partition, to make all connections."""
    producer = Producer({**question["client"], **question["settings"]})
    for number in range(question["partitions"]):
        producer.produce(
            question["topic"], bytes(question["record_bytes"]), partition=number, on_delivery=note_latency([])
        )
    if producer.flush(FLUSH_WITHIN_S):
        raise TimeoutError(f"the first records are not acknowledged after {FLUSH_WITHIN_S:g} s")
    return producer, question["partitions"]


def stream(question: Mapping[str, Any]) -> dict[str, Any]:
    """Records for so many seconds, and the time until the last of them was acknowledged."""
    producer, warmed = producer_of(question)
    topic, value = question["topic"], bytes(question["record_bytes"])
    latencies: list[int] = []
    clock, watch, count = time.perf_counter_ns, Stopwatch(), 0
    end = watch.began_ns + int(question["seconds"] * 1e9)
    while clock() < end:
        for number in range(HANDED_OVER):
            if number % SAMPLED_EVERY:
                hand_over(producer, topic, value)
            else:
                hand_over(producer, topic, value, on_delivery=note_latency(latencies))
        count += HANDED_OVER
        producer.poll(0)
    if left := producer.flush(FLUSH_WITHIN_S):
        raise TimeoutError(f"{left} records are not acknowledged after {FLUSH_WITHIN_S:g} s")
    return watch.answer(count, warmed, latencies)


def hand_over(producer: Producer, topic: str, value: bytes, **settings: Any) -> None:
    """Give one record to the library; wait while its queue is full."""
    while True:
        try:
            producer.produce(topic, value, **settings)
            return
        except BufferError:
            producer.poll(0.001)


def note_latency(latencies: list[int]) -> Callable[[Any, Any], None]:
    """Returns a callback that notes a record's latency from now on; raises `KafkaException` if it is not written."""
    began = time.perf_counter_ns()

    def on_delivered(error: Any, record: Any) -> None:
        if error is not None:
            raise KafkaException(error)
        latencies.append(time.perf_counter_ns() - began)

    return on_delivered


def one(question: Mapping[str, Any]) -> dict[str, Any]:
    """One record after the other, each acknowledged before the next."""
    producer, warmed = producer_of(question)
    topic, value = question["topic"], bytes(question["record_bytes"])
    latencies: list[int] = []
    clock, watch = time.perf_counter_ns, Stopwatch()
    end = watch.began_ns + int(question["seconds"] * 1e9)
    while clock() < end:
        producer.produce(topic, value, on_delivery=note_latency(latencies))
        if producer.flush(FLUSH_WITHIN_S):
            raise TimeoutError(f"a record is not acknowledged after {FLUSH_WITHIN_S:g} s")
    return watch.answer(len(latencies), warmed, latencies)


def transactions(question: Mapping[str, Any]) -> dict[str, Any]:
    """Transactions of so many records over all partitions, one after the other. Latencies: of each commit."""
    producer = Producer({**question["client"], **question["settings"]})
    topic, value, size = question["topic"], bytes(question["record_bytes"]), question["transaction_records"]
    places = [number % question["partitions"] for number in range(size)]
    producer.init_transactions(FLUSH_WITHIN_S)
    commit(producer, topic, value, places)  # makes all connections
    latencies = []
    clock, watch = time.perf_counter_ns, Stopwatch()
    end = watch.began_ns + int(question["seconds"] * 1e9)
    while clock() < end:
        latencies.append(commit(producer, topic, value, places))
    return watch.answer(len(latencies) * size, size, latencies)


def commit(producer: Producer, topic: str, value: bytes, places: Sequence[int]) -> int:
    """One transaction with a record for each of these partitions. Returns the time that its commit took, ns.

    Every record is acknowledged before the commit begins, so that its time is the coordinator's and the markers' alone.
    """
    producer.begin_transaction()
    for partition in places:
        producer.produce(topic, value, partition=partition)
    if left := producer.flush(FLUSH_WITHIN_S):
        raise TimeoutError(f"{left} records are not acknowledged after {FLUSH_WITHIN_S:g} s")
    began = time.perf_counter_ns()
    producer.commit_transaction(FLUSH_WITHIN_S)
    return time.perf_counter_ns() - began


def read(question: Mapping[str, Any]) -> dict[str, Any]:
    """All of a topic from the beginning, again until the seconds are over. Latencies: of each whole reading."""
    ours = {"group.id": "reader", "enable.auto.commit": False, "fetch.queue.backoff.ms": QUEUE_BACKOFF_MS}
    consumer = Consumer({**question["client"], **ours})
    places = [TopicPartition(question["topic"], number, 0) for number in range(question["partitions"])]
    total, count = question["records"], 0
    latencies: list[int] = []
    try:
        whole_reading(consumer, places, min(total, CHUNK))
        watch = Stopwatch()
        end = watch.began_ns + int(question["seconds"] * 1e9)
        while (started := time.perf_counter_ns()) < end:
            whole_reading(consumer, places, total)
            latencies.append(time.perf_counter_ns() - started)
            count += total
        return watch.answer(count, 0, latencies)
    finally:
        consumer.close()


def whole_reading(consumer: Consumer, places: list[TopicPartition], total: int) -> None:
    """From the beginning, so many records. Raises `TimeoutError` if they do not come."""
    consumer.assign(places)
    left, end = total, time.monotonic() + READ_WITHIN_S
    while left > 0:
        for record in consumer.consume(min(left, CHUNK), 0.1):
            if record.error() is not None:
                raise KafkaException(record.error())
            left -= 1
        if time.monotonic() > end:
            raise TimeoutError(f"{left} of {total} records were not read within {READ_WITHIN_S:g} s")


def gap(question: Mapping[str, Any]) -> dict[str, Any]:
    """A record every `BEAT_S` until a line comes, which is after a fault, and one handed over after it is acknowledged.

    Returns the longest time between two acknowledgements, and how many records were acknowledged and how many failed.
    """
    producer, warmed = producer_of(question)
    topic, value = question["topic"], bytes(question["record_bytes"])
    acknowledged: list[int] = []
    failed: list[str] = []
    say({"ready": True})
    after: list[bool] = []
    told, end = False, time.monotonic() + FAULT_WITHIN_S
    while not any(after):
        if time.monotonic() > end:
            raise TimeoutError(f"nothing was acknowledged within {FAULT_WITHIN_S:g} s of a fault")
        if not told and select.select([sys.stdin], [], [], 0)[0]:
            told = bool(sys.stdin.readline())
        hand_over(producer, topic, value, on_delivery=noting(acknowledged, failed, after, is_after=told))
        producer.poll(BEAT_S)
    left = producer.flush(FLUSH_WITHIN_S)
    longest = max((after - before for before, after in itertools.pairwise(acknowledged)), default=0)
    return {
        "acknowledged": len(acknowledged) + warmed,
        "unacknowledged": len(failed) + left,
        "longest_s": longest / 1e9,
    }


def noting(
    acknowledged: list[int], failed: list[str], after: list[bool], *, is_after: bool
) -> Callable[[Any, Any], None]:
    """Returns a callback that notes the time of a record's acknowledgement, or failure, and its place."""

    def on_delivered(error: Any, record: Any) -> None:
        if error is None:
            acknowledged.append(time.perf_counter_ns())
            after.append(is_after)
        else:
            failed.append(str(error))

    return on_delivered


WORK = {work.__name__: work for work in (stream, one, transactions, read, gap)}

if __name__ == "__main__":
    main()
