"""Administration by the clients that are written in Python: what they ask differently than librdkafka."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from jepsen_like.bench.kafka.cluster import KafkaCluster
from tests.kafka_compat.clients.adapters import Client, number_messages, read_some, until
from tests.kafka_compat.clients.by_aiokafka import LoopThread
from tests.kafka_compat.clients.by_kafka_python import KafkaAdminClient, KafkaPythonClient, TopicPartition
from tests.kafka_compat.clients.conftest import new_name
from tests.kafka_compat.clients.log_dirs import stored_bytes

pytestmark = [pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")]


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Any]:
    made = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield made
    made.close()


@pytest.fixture
def kafka_python(bootstrap: str) -> Client:
    return KafkaPythonClient(bootstrap)


def ask_until_known(ask: Callable[[], Sequence[Any]]) -> Sequence[Any]:
    """Returns the topics from a broker that knows them all.

    The client asks any broker, and metadata reaches one after the other.
    """
    answers: list[Sequence[Any]] = []

    def all_known() -> bool:
        answers.append(ask())
        return all(topic["partitions"] for topic in answers[-1])

    until(all_known, "broker that knows the topics")
    return answers[-1]


def test_kafka_python_makes_and_removes_topics_and_partitions(admin: Any) -> None:
    name = new_name("topic")
    admin.create_topics({name: {"num_partitions": 2, "replication_factor": 3, "configs": {"retention.ms": "1000000"}}})
    admin.wait_for_topics([name])
    assert name in admin.list_topics()
    admin.create_partitions({name: 4})
    until(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 4, "four partitions")
    admin.delete_topics([name])
    until(lambda: name not in admin.list_topics(), "topic out of metadata")


def test_kafka_python_moves_a_partition_and_sees_it_arrive(admin: Any) -> None:
    name = new_name("topic")
    admin.create_topics({name: {"num_partitions": 1, "replication_factor": 2}})
    admin.wait_for_topics([name])
    at = TopicPartition(name, 0)

    def replicas() -> list[int]:
        found: list[int] = admin.describe_topics([name])[0]["partitions"][0]["replica_nodes"]
        return found

    before = replicas()
    (spare,) = {1, 2, 3}.difference(before)
    assert admin.alter_partition_reassignments({at: [spare, before[0]]}) == {at: None}
    until(lambda: not admin.list_partition_reassignments([at]), "end of the move")
    until(lambda: replicas() == [spare, before[0]], "partition on its new brokers")
    (refused,) = admin.alter_partition_reassignments({at: None}).values()
    assert refused.__name__ == "NoReassignmentInProgressError"


def test_kafka_python_leaves_counts_to_the_broker(admin: Any) -> None:
    """Minus one for both: the broker's `num.partitions` and `default.replication.factor`."""
    name = new_name("topic")
    admin.create_topics([name])
    admin.wait_for_topics([name])
    (found,) = ask_until_known(lambda: admin.describe_topics([name]))
    assert len(found["partitions"][0]["replica_nodes"]) == 3


def test_kafka_python_places_replicas_by_hand(admin: Any) -> None:
    name = new_name("topic")
    admin.create_topics({name: {"assignments": {0: [3, 1], 1: [2, 3]}}})
    admin.wait_for_topics([name])
    (found,) = ask_until_known(lambda: admin.describe_topics([name]))
    placed = {each["partition_index"]: each["replica_nodes"] for each in found["partitions"]}
    assert placed == {0: [3, 1], 1: [2, 3]}


def test_kafka_python_describes_the_cluster_and_its_disks(admin: Any, kafka_python: Client, topic: str) -> None:
    found = admin.describe_cluster()
    assert sorted(broker["broker_id"] for broker in found["brokers"]) == [1, 2, 3]
    kafka_python.produce(topic, number_messages(20))
    sizes = stored_bytes(kafka_python.bootstrap, topic)
    assert len(sizes) == 3
    assert len(set(sizes)) == 1


def test_kafka_python_describes_partitions_page_by_page(admin: Any) -> None:
    """DescribeTopicPartitions with a limit and a cursor (KIP-966)."""
    names = sorted(new_name("topic") for _ in range(2))
    admin.create_topics({name: {"num_partitions": 3, "replication_factor": 3} for name in names})
    admin.wait_for_topics(names)
    pages: list[Any] = []

    def first_page() -> Sequence[Any]:
        pages.append(admin.describe_topic_partitions(names, response_partition_limit=4))
        topics: Sequence[Any] = pages[-1]["topics"]
        return topics

    found = [(each["name"], len(each["partitions"])) for each in ask_until_known(first_page)]
    assert found == [(names[0], 3), (names[1], 1)]
    assert pages[-1]["next_cursor"]["topic_name"] == names[1]
    assert pages[-1]["next_cursor"]["partition_index"] == 1


def test_kafka_python_lists_groups_and_removes_offsets(
    admin: Any, kafka_python: Client, topic: str, group: str
) -> None:
    kafka_python.produce(topic, number_messages(3))
    with kafka_python.joining(group, topic) as member:
        read_some(member)
        member.commit(0, 2)
        listed = {each["group_id"]: each for each in admin.list_groups()}
        assert listed[group]["protocol_type"] == "consumer"
        assert admin.describe_groups([group])[group]["group_state"] == "Stable"
    at = TopicPartition(topic, 0)
    assert admin.list_group_offsets({group: [at]})[group][at].offset == 2
    admin.delete_group_offsets(group, [at])
    assert at not in admin.list_group_offsets(group)[group]
    admin.delete_groups([group])
    assert group not in {each["group_id"] for each in admin.list_groups()}


@contextmanager
def aiokafka_admin(bootstrap: str) -> Iterator[tuple[LoopThread, Any]]:
    from aiokafka.admin import AIOKafkaAdminClient

    async def make() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        return admin

    with LoopThread() as loop:
        admin = loop.run(make())
        try:
            yield loop, admin
        finally:
            loop.run(admin.close())


def test_aiokafka_makes_changes_and_removes_topics(cluster: KafkaCluster) -> None:
    from aiokafka.admin import NewPartitions, NewTopic
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    name = new_name("topic")
    with aiokafka_admin(cluster.bootstrap) as (loop, admin):
        loop.run(admin.create_topics([NewTopic(name, 2, 3)]))
        cluster.await_in_sync(name, 2)
        loop.run(admin.create_partitions({name: NewPartitions(3)}))
        cluster.await_in_sync(name, 3)
        described = loop.run(admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)]))
        settings = {entry[0]: entry[1] for entry in described[0].resources[0][4]}
        assert settings["min.insync.replicas"] == "2"
        loop.run(admin.delete_topics([name]))
        until(lambda: name not in loop.run(admin.list_topics()), "topic out of metadata")
        assert len(loop.run(admin.describe_cluster())["brokers"]) == 3
