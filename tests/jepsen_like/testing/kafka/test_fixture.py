"""The fixtures for Kafka, used as a user's test would use them, with unmodified clients."""

import asyncio
import re
import sys
import threading
import warnings
from collections.abc import Callable

import pytest
import trio
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer

from jepsen_like.testing.faulty import WaitedTooLong
from jepsen_like.testing.kafka.ledger import RecordLedger, ReplicaRecords
from jepsen_like.testing.kafka.sync import LocalKafka, ProcessKafka
from kafka_compat.model import TopicPartition
from kafka_compat.records import encode_records

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore", DeprecationWarning
    )  # kafka-python reads its resources by a call that Python will drop
    from kafka import KafkaProducer

NAME = TopicPartition("orders", 0)
QUIET = {"log_level": 0}


def send(cluster: LocalKafka | ProcessKafka, *values: bytes) -> None:
    producer = cluster.producer(QUIET)
    for value in values:
        producer.produce("orders", value)
    assert producer.flush(30) == 0


def consume_messages(cluster: LocalKafka, count: int) -> list[bytes]:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "log_level": 0})
    consumer.subscribe(["orders"])
    found: list[bytes] = []
    try:
        for _ in range(300):
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append(message.value())
            if len(found) == count:
                break
    finally:
        consumer.close()
    return found


def by_kill(cluster: LocalKafka, broker: int) -> None:
    cluster.kill(broker)


def by_pause(cluster: LocalKafka, broker: int) -> None:
    cluster.pause(broker)


def by_power(cluster: LocalKafka, broker: int) -> None:
    cluster.power(broker)


def by_wipe(cluster: LocalKafka, broker: int) -> None:
    cluster.wipe(broker)


def by_isolation(cluster: LocalKafka, broker: int) -> None:
    cluster.isolate(broker)


def by_stop(cluster: LocalKafka, broker: int) -> None:
    cluster.stop(broker)


@pytest.mark.parametrize("fault", [by_kill, by_pause, by_power, by_wipe, by_isolation, by_stop])
def test_clients_go_on_with_another_leader(kafka_cluster: LocalKafka, fault: Callable[[LocalKafka, int], None]) -> None:
    send(kafka_cluster, b"one")
    leader = kafka_cluster.leader("orders", 0)
    fault(kafka_cluster, leader)
    assert kafka_cluster.leader("orders", 0) != leader
    send(kafka_cluster, b"two")
    verdict = kafka_cluster.check()
    assert (verdict.valid, verdict.acknowledged) == (True, 2), str(verdict)
    assert consume_messages(kafka_cluster, 2) == [b"one", b"two"]


def test_a_producer_without_its_package_states_the_command_that_installs_it(
    kafka_cluster: LocalKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "jepsen_like.testing.kafka.producer", raising=False)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'quorumlog[kafka]'")):
        kafka_cluster.producer()


def test_a_topic_without_records_has_no_leader_because_it_does_not_exist(kafka_cluster: LocalKafka) -> None:
    with pytest.raises(WaitedTooLong, match="nosuch-0 did not exist within"):
        kafka_cluster.leader("nosuch", 0, within_s=0.05)


@pytest.mark.usefixtures("foreign_sockets")
def test_asyncio_and_kafka_python(kafka_cluster: LocalKafka) -> None:
    async def main() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, acks="all")
        await producer.start()
        try:
            sent = await producer.send_and_wait("orders", b"one")
            kafka_cluster.note_acknowledged(sent.topic, sent.partition, sent.offset, b"one")
            await asyncio.to_thread(kafka_cluster.leader, "orders", 0)
        finally:
            await producer.stop()

    asyncio.run(main())
    other = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, acks="all")
    told = other.send("orders", b"two").get(20)
    kafka_cluster.note_acknowledged(told.topic, told.partition, told.offset, b"two")
    other.close()
    assert kafka_cluster.check().acknowledged == 2


async def test_trio(kafka_cluster: LocalKafka) -> None:
    await trio.to_thread.run_sync(send, kafka_cluster, b"one")
    assert await trio.to_thread.run_sync(kafka_cluster.leader, "orders", 0) in kafka_cluster.nodes


def test_a_factory_makes_clusters_that_are_set_up(kafka_cluster_factory: Callable[..., LocalKafka]) -> None:
    cluster = kafka_cluster_factory(brokers=1, settings={"flush": "before-ack"})
    send(cluster, b"one")
    cluster.power(1)
    assert cluster.check().valid


@pytest.mark.kafka_cluster(check=False)
def test_what_all_lost_with_the_page_cache_is_named(kafka_cluster: LocalKafka) -> None:
    send(kafka_cluster, b"one")
    kafka_cluster.power(*kafka_cluster.nodes)
    assert "orders-0: offset 0, b'one', is lost on broker 1" in str(kafka_cluster.check())


@pytest.mark.cluster
def test_processes_can_be_killed(kafka_processes: ProcessKafka) -> None:
    send(kafka_processes, b"one")
    kafka_processes.kill(kafka_processes.leader("orders"))
    send(kafka_processes, b"two")


def batch(offset: int, value: bytes) -> bytes:
    return encode_records([(None, value)], 1, base_offset=offset, leader_epoch=0)


def test_a_replica_that_differs_is_told_with_its_place() -> None:
    right = ReplicaRecords(0, {0: batch(0, b"a"), 1: batch(1, b"b")})
    wrong = ReplicaRecords(0, {0: batch(0, b"a"), 1: batch(1, b"x")})
    ledger = RecordLedger()
    ledger.on_acknowledged("orders", 0, 1, (None, b"b"))
    verdict = ledger.verdict({NAME: {1: right, 2: wrong, 3: right}})
    assert verdict.broken == (
        "orders-0: the logs of brokers 1 and 2 differ at offset 1",
        "orders-0: offset 1 was b'b' and is b'x' on broker 2",
    )


@pytest.mark.campaign
def test_two_workers_have_clusters_of_their_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.mark.parametrize("number", range(2))
        def test_own(kafka_cluster, number):
            producer = kafka_cluster.producer()
            producer.produce("orders", b"one")
            assert producer.flush(30) == 0
    """)
    pytester.runpytest_subprocess("-n", "2").assert_outcomes(passed=2)


def test_nothing_is_left_behind() -> None:
    before = {thread.name for thread in threading.enumerate()}
    with LocalKafka.open() as cluster:
        cluster.pause(1)
    assert {thread.name for thread in threading.enumerate()} <= before


def test_acks_that_promise_nothing_are_refused(kafka_cluster: LocalKafka) -> None:
    with pytest.raises(ValueError, match="acks=1 promises nothing"):
        kafka_cluster.producer({"acks": 1})


@pytest.mark.kafka_cluster(tls=True)
def test_a_cluster_with_tls_survives_its_leader_and_gives_clients_what_they_need(kafka_cluster: LocalKafka) -> None:
    cluster = kafka_cluster
    send(cluster, b"one")
    cluster.kill(cluster.leader("orders"))
    send(cluster, b"two")
    assert cluster.tls is not None
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(cluster.tls.authority),
            "group.id": "g",
            "auto.offset.reset": "earliest",
            **QUIET,
        }
    )
    consumer.subscribe(["orders"])
    try:
        found = [message.value() for message in consumer.consume(2, 30)]
    finally:
        consumer.close()
    assert found == [b"one", b"two"]
