"""The cluster under test: ours, Apache Kafka with `QUORUMLOG_KAFKA=apache`, or a running one at
`QUORUMLOG_KAFKA_BOOTSTRAP`.

The tests were written against Apache Kafka, and promise its behaviour.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jepsen_like.bench.kafka.cluster import KAFKA_SYSTEMS, KafkaCluster
from tests.kafka_compat.clients.adapters import Client
from tests.kafka_compat.clients.by_aiokafka import AiokafkaClient
from tests.kafka_compat.clients.by_confluent import ConfluentClient
from tests.kafka_compat.clients.by_kafka_python import KafkaPythonClient

CLIENTS: tuple[type[Client], ...] = (ConfluentClient, KafkaPythonClient, AiokafkaClient)
CHOICE, RUNNING = "QUORUMLOG_KAFKA", "QUORUMLOG_KAFKA_BOOTSTRAP"
QUICK = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "auto.create.topics.enable": "false",
    "replica.lag.time.max.ms": "5000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""Kafka's own names: a test should wait for nothing but what it is about."""
NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def _foreign(foreign_sockets: None) -> None:
    """Every test here runs a foreign client, and the brokers are other processes."""


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three brokers whose processes the tests may kill; none of them if a running cluster was named.

    They end with the last test of this package, since even idle ones take time from the tests that follow.
    """
    running = os.environ.get(RUNNING)
    if running:
        yield KafkaCluster(running)
        return
    system = KAFKA_SYSTEMS[os.environ.get(CHOICE, "quorumlog")]
    # Apache Kafka bounds the interval from below.
    quick = QUICK if CHOICE in os.environ else {**QUICK, "group.consumer.heartbeat.interval.ms": "200"}
    with system.cluster(Path(tmp_path_factory.mktemp("kafka")) / "cluster", quick) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def bootstrap(cluster: KafkaCluster) -> str:
    return cluster.bootstrap


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.name)
def client(request: pytest.FixtureRequest, bootstrap: str) -> Client:
    kind: type[Client] = request.param
    return kind(bootstrap)


@pytest.fixture
def new_topic(cluster: KafkaCluster) -> Callable[..., str]:
    """Makes topics, each with a name of its own, all replicas in sync."""

    def make(partitions: int = 1, **settings: str) -> str:
        name = new_name("topic")
        cluster.create(name, partitions, {key.replace("_", "."): value for key, value in settings.items()})
        return name

    return make


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """One partition, three replicas."""
    return new_topic()


@pytest.fixture
def group() -> str:
    return new_name("group")


def new_name(kind: str) -> str:
    """Not used before, also not by another run against the same cluster."""
    return f"{kind}-{os.getpid()}-{next(NUMBERS)}"
