"""A broker is killed, and clients go on by themselves: acknowledged records stay, without duplicates where that is
promised.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import ElectionType, TopicPartition

from jepsen_like.bench.kafka.cluster import KafkaCluster
from tests.kafka_compat.clients.adapters import (
    PATIENCE_S,
    Client,
    Received,
    number_messages,
    read_some,
    read_until,
    until,
    values,
)
from tests.kafka_compat.clients.by_aiokafka import AiokafkaClient
from tests.kafka_compat.clients.by_confluent import ConfluentClient
from tests.kafka_compat.clients.by_kafka_python import KafkaPythonClient

# aiokafka leaves transports of connections that broke to the garbage collector.
pytestmark = [pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


@pytest.fixture
def killable(cluster: KafkaCluster) -> KafkaCluster:
    if not cluster.members:
        pytest.skip("the cluster that was named is not ours to break")
    return cluster


@contextmanager
def kill(cluster: KafkaCluster, broker: int) -> Iterator[None]:
    """One broker is dead meanwhile; afterwards the three are whole again."""
    process = cluster.members[broker - 1]
    process.kill()
    process.reap()
    try:
        yield
    finally:
        process.start()
        cluster.await_brokers()


def leader_of(cluster: KafkaCluster, topic: str) -> int:
    until(lambda: cluster.leader(topic) is not None, "leader")
    leader = cluster.leader(topic)
    assert leader is not None
    return leader


def test_a_producer_and_a_group_go_on_after_the_leader_was_killed(
    client: Client, killable: KafkaCluster, topic: str, group: str
) -> None:
    """One kill serves both tests: the leader of the only partition.

    The group reads on, although its coordinator may have moved.
    """
    with client.sending(topic) as sender, client.joining(group, topic) as member:
        offsets = [sender.send(f"before {number}".encode()) for number in range(5)]
        read_some(member, 5)
        member.commit(0, 5)
        with kill(killable, leader_of(killable, topic)):
            offsets += [sender.send(f"while it is dead {number}".encode()) for number in range(5)]
            got = read_until(member, lambda got: len(distinct(got)) >= 5, "records after the failover")
            until(lambda: member.fetch_committed(0) == 5, "committed offset after the failover")
            member.commit(0, 10)
            assert distinct(got) == {offset: f"while it is dead {offset - 5}".encode() for offset in range(5, 10)}
        killable.await_in_sync(topic)
        offsets.append(sender.send(b"after"))
    assert offsets == list(range(11))
    assert values(client.consume(topic, 11))[-1] == b"after"


def distinct(received: list[Received]) -> dict[int, bytes | None]:
    """By offset, those after the first five."""
    return {one.offset: one.value for one in received if one.offset >= 5}


@pytest.mark.parametrize(
    "client",
    [
        ConfluentClient,
        *(pytest.param(kind, marks=pytest.mark.campaign) for kind in (KafkaPythonClient, AiokafkaClient)),
    ],
    ids=lambda kind: kind.name,
    indirect=True,
)
def test_records_under_way_when_the_leader_dies_arrive_once_and_in_order(
    client: Client, killable: KafkaCluster, topic: str
) -> None:
    """An idempotent producer repeats what it got no answer for; the new leader knows what it has already."""
    leader = leader_of(killable, topic)
    client.produce(topic, number_messages(1))
    killing = threading.Timer(0.05, killable.members[leader - 1].kill)
    killing.start()
    sent = number_messages(2000, "under way")
    try:
        assert client.produce(topic, sent, idempotent=True) == list(range(1, 2001))
    finally:
        killing.join()
        killable.members[leader - 1].reap()
        killable.members[leader - 1].start()
        killable.await_brokers()
    killable.await_in_sync(topic)
    assert values(client.consume(topic, 2001))[1:] == [message.value for message in sent]


def test_the_preferred_replica_leads_again_once_it_is_asked_for(killable: KafkaCluster, topic: str) -> None:
    preferred = leader_of(killable, topic)
    with kill(killable, preferred):
        until(lambda: killable.leader(topic) not in (None, preferred), "another leader")
    killable.await_in_sync(topic)
    asked = [TopicPartition(topic, 0)]
    (error,) = killable.admin.elect_leaders(ElectionType.PREFERRED, asked).result(PATIENCE_S).values()
    assert error is None
    until(lambda: killable.leader(topic) == preferred, "preferred leader")
