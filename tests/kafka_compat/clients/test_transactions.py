"""Transactions of unmodified clients: all of one or nothing, for readers of committed records and for groups."""

from collections.abc import Callable

import confluent_kafka
import pytest

from jepsen_like.bench.kafka.cluster import KafkaCluster
from kafka_compat.coordinator.partitioning import partition_of
from tests.kafka_compat.clients.adapters import PATIENCE_S, until
from tests.kafka_compat.clients.conftest import new_name
from tests.kafka_compat.clients.test_failover import kill, leader_of
from tests.kafka_compat.clients.transactors import Fenced, read, transactor

LIBRARIES = ("confluent-kafka", "kafka-python", "aiokafka")
OTHERS = {"confluent-kafka": "kafka-python", "kafka-python": "aiokafka", "aiokafka": "confluent-kafka"}
"""Another library reads what one has written: the bytes are Kafka's, not a library's."""


def find_committed(bootstrap: str, group: str, topic: str) -> int:
    """The committed offset of partition 0, below zero without one."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], PATIENCE_S)
    consumer.close()
    return int(found.offset)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_committed_transaction_is_read_whole_and_an_aborted_one_not_at_all(
    library: str, bootstrap: str, new_topic: Callable[..., str], group: str
) -> None:
    topic = new_topic(2)
    with transactor(library, bootstrap, new_name("id")) as producer:
        for number, commits in enumerate((True, False, True)):
            producer.begin()
            for partition in (0, 1):
                producer.send(topic, partition, b"%d" % number)
            producer.send_offset(topic, 0, 10 + number, group)
            producer.end(commits=commits)
            assert find_committed(bootstrap, group, topic) == (12 if number == 2 else 10)
    assert read(OTHERS[library], bootstrap, topic, 2, committed=True) == {0: [b"0", b"2"], 1: [b"0", b"2"]}
    assert read(library, bootstrap, topic, 2, committed=False) == {0: [b"0", b"1", b"2"], 1: [b"0", b"1", b"2"]}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_newer_producer_fences_the_one_before_and_aborts_its_transaction(
    library: str, bootstrap: str, topic: str
) -> None:
    name = new_name("id")
    with transactor(library, bootstrap, name) as zombie:
        zombie.begin()
        zombie.send(topic, 0, b"of the zombie")
        with transactor(library, bootstrap, name) as producer:
            with pytest.raises(Fenced):
                zombie.end(commits=True)
            producer.begin()
            producer.send(topic, 0, b"of the newer")
            producer.end(commits=True)
    assert read(library, bootstrap, topic, 1, committed=True) == {0: [b"of the newer"]}


def test_an_open_transaction_hides_what_follows_it(bootstrap: str, topic: str) -> None:
    """Until its end a reader of committed records gets neither it nor what was committed behind it."""
    with (
        transactor("confluent-kafka", bootstrap, new_name("id")) as first,
        transactor("confluent-kafka", bootstrap, new_name("id")) as second,
    ):
        first.begin()
        first.send(topic, 0, b"first")
        second.begin()
        second.send(topic, 0, b"second")
        second.end(commits=True)
        assert read("confluent-kafka", bootstrap, topic, 1, committed=True) == {0: []}
        first.end(commits=True)
    assert read("confluent-kafka", bootstrap, topic, 1, committed=True) == {0: [b"first", b"second"]}


# aiokafka leaves transports of connections that broke to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.campaign
@pytest.mark.parametrize("struck", ["coordinator", "leader"])
@pytest.mark.parametrize("library", ["confluent-kafka", "aiokafka"])
def test_a_transaction_survives_a_killed_coordinator_and_a_killed_leader(
    library: str, struck: str, cluster: KafkaCluster, new_topic: Callable[..., str]
) -> None:
    """The broker ends in the middle of a transaction; the same producer commits it, and goes on.

    kafka-python is not tried: it looks for the dead broker until its own timeout.
    """
    topic, name = new_topic(2), new_name("id")
    with transactor(library, cluster.bootstrap, name) as producer:
        producer.begin()
        producer.send(topic, 0, b"0")
        number = partition_of(name, 4)
        broker = cluster.leader("__transaction_state", number) if struck == "coordinator" else leader_of(cluster, topic)
        assert broker is not None
        with kill(cluster, broker):
            producer.send(topic, 1, b"0")
            producer.end(commits=True)
            producer.begin()
            producer.send(topic, 0, b"1")
            producer.end(commits=False)
        producer.begin()
        producer.send(topic, 0, b"2")
        producer.send(topic, 1, b"2")
        producer.end(commits=True)
    expected = {0: [b"0", b"2"], 1: [b"0", b"2"]}
    until(lambda: read("confluent-kafka", cluster.bootstrap, topic, 2, committed=True) == expected, "committed records")
