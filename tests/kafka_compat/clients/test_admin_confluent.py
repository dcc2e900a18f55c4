"""Administration by confluent-kafka: topics, partitions, settings, groups, offsets, leaders, each with its errors."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ElectionType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from jepsen_like.bench.kafka.cluster import KafkaCluster
from tests.kafka_compat.clients.adapters import PATIENCE_S, Message, number_messages, read_some, until
from tests.kafka_compat.clients.by_confluent import ConfluentClient
from tests.kafka_compat.clients.conftest import new_name

SPEC: Any = OffsetSpec
"""Its functions have no types."""


@pytest.fixture
def admin(cluster: KafkaCluster) -> AdminClient:
    return cluster.admin


@pytest.fixture
def confluent(bootstrap: str) -> ConfluentClient:
    return ConfluentClient(bootstrap)


def only(answers: dict[Any, Any]) -> Any:
    """The result of the one thing that was asked for."""
    (answer,) = answers.values()
    return answer.result(PATIENCE_S)


def refusal_code(answers: dict[Any, Any]) -> int:
    """The error code of the one thing that was asked for."""
    with pytest.raises(KafkaException) as error:
        only(answers)
    code: int = error.value.args[0].code()
    return code


def settings_of(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    found: dict[str, ConfigEntry] = only(admin.describe_configs([ConfigResource(kind, name)]))
    return found


def alter(
    admin: AdminClient, kind: ResourceType, name: str, *changes: tuple[str, str | None, AlterConfigOpType]
) -> Any:
    entries = [ConfigEntry(key, value, incremental_operation=operation) for key, value, operation in changes]
    return admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)])


# -------------------------------------------------------------------- topics


def test_a_topic_is_there_once_it_was_created_and_gone_once_it_was_deleted(admin: AdminClient) -> None:
    name = new_name("topic")
    only(admin.create_topics([NewTopic(name, 3, 3)]))
    until(lambda: name in admin.list_topics(timeout=PATIENCE_S).topics, "topic in metadata")
    found = only(admin.describe_topics(TopicCollection([name])))
    assert [each.id for each in found.partitions] == [0, 1, 2]
    assert all(sorted(broker.id for broker in each.replicas) == [1, 2, 3] for each in found.partitions)
    assert len({each.leader.id for each in found.partitions}) == 3, "leaders are spread"
    assert refusal_code(admin.create_topics([NewTopic(name, 1, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS
    only(admin.delete_topics([name]))
    until(lambda: name not in admin.list_topics(timeout=PATIENCE_S).topics, "topic out of metadata")
    assert refusal_code(admin.delete_topics([name])) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_created_again_has_another_id_and_no_records(
    admin: AdminClient, confluent: ConfluentClient, cluster: KafkaCluster, topic: str
) -> None:
    confluent.produce(topic, number_messages(5))
    before = only(admin.describe_topics(TopicCollection([topic]))).topic_id
    only(admin.delete_topics([topic]))
    until(lambda: topic not in admin.list_topics(timeout=PATIENCE_S).topics, "topic out of metadata")
    cluster.create(topic)
    assert str(only(admin.describe_topics(TopicCollection([topic]))).topic_id) != str(before)
    confluent.produce(topic, number_messages(2))
    assert confluent.bounds(topic) == (0, 2)


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "settings", "code"),
    [
        pytest.param("no/such", 1, 1, {}, KafkaError.TOPIC_EXCEPTION, id="name"),
        pytest.param("refused", 1, 4, {}, KafkaError.INVALID_REPLICATION_FACTOR, id="more replicas than brokers"),
        pytest.param("refused", 1, 1, {"no.such.setting": "1"}, KafkaError.INVALID_CONFIG, id="unknown setting"),
        pytest.param("refused", 1, 1, {"retention.ms": "soon"}, KafkaError.INVALID_CONFIG, id="value of a setting"),
    ],
)
def test_what_cannot_be_created_is_refused_with_kafkas_code(
    admin: AdminClient, name: str, partitions: int, replicas: int, settings: dict[str, str], code: int
) -> None:
    assert refusal_code(admin.create_topics([NewTopic(name, partitions, replicas, config=settings)])) == code
    assert name not in admin.list_topics(timeout=PATIENCE_S).topics


def test_validation_alone_creates_nothing(admin: AdminClient) -> None:
    name = new_name("topic")
    only(admin.create_topics([NewTopic(name, 1, 3)], validate_only=True))
    only(admin.create_topics([NewTopic(name, 1, 3)]))


def test_partitions_can_be_added_and_never_taken(admin: AdminClient, confluent: ConfluentClient, topic: str) -> None:
    only(admin.create_partitions([NewPartitions(topic, 3)]))
    until(lambda: try_write(confluent, topic, 2), "third partition on the broker that the producer asked")
    assert confluent.bounds(topic, 2) == (0, 2)
    assert refusal_code(admin.create_partitions([NewPartitions(topic, 2)])) == KafkaError.INVALID_PARTITIONS
    assert refusal_code(admin.create_partitions([NewPartitions("absent", 2)])) == KafkaError.UNKNOWN_TOPIC_OR_PART


def try_write(client: ConfluentClient, topic: str, partition: int) -> bool:
    """Returns True once two records are written: a broker may learn about a partition later than the one that created
    it.
    """
    try:
        client.produce(topic, number_messages(2), partition=partition)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
            raise
        return False
    return True


def test_the_cluster_names_its_brokers_and_a_controller(admin: AdminClient) -> None:
    found = admin.describe_cluster().result(PATIENCE_S)
    assert sorted(node.id for node in found.nodes) == [1, 2, 3]
    assert found.controller.id in (1, 2, 3)
    assert found.cluster_id
    assert found.cluster_id == admin.list_topics(timeout=PATIENCE_S).cluster_id


def test_a_topic_that_is_not_there_is_unknown_and_not_made(admin: AdminClient) -> None:
    assert refusal_code(admin.describe_topics(TopicCollection(["absent"]))) == KafkaError.UNKNOWN_TOPIC_OR_PART
    error = admin.list_topics("absent", timeout=PATIENCE_S).topics["absent"].error
    assert error is not None
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert "absent" not in admin.list_topics(timeout=PATIENCE_S).topics


# -------------------------------------------------------------------- settings


def test_settings_of_a_topic_can_be_changed_one_by_one(admin: AdminClient, new_topic: Callable[..., str]) -> None:
    topic = new_topic(retention_ms="60000")
    before = settings_of(admin, ResourceType.TOPIC, topic)
    assert before["retention.ms"].value == "60000"
    assert not before["retention.ms"].is_default
    assert before["cleanup.policy"].value == "delete"
    assert before["min.insync.replicas"].value == "2"
    assert before["max.message.bytes"].is_default
    only(
        alter(
            admin,
            ResourceType.TOPIC,
            topic,
            ("segment.bytes", "2097152", AlterConfigOpType.SET),
            ("retention.ms", None, AlterConfigOpType.DELETE),
        )
    )
    until(
        lambda: settings_of(admin, ResourceType.TOPIC, topic)["segment.bytes"].value == "2097152", "the setting changed"
    )
    after = settings_of(admin, ResourceType.TOPIC, topic)
    assert after["retention.ms"].value == "604800000"
    assert after["retention.ms"].is_default


def test_settings_that_do_not_exist_or_fit_are_refused_and_change_nothing(admin: AdminClient, topic: str) -> None:
    unknown = alter(admin, ResourceType.TOPIC, topic, ("no.such.setting", "1", AlterConfigOpType.SET))
    assert refusal_code(unknown) == KafkaError.INVALID_CONFIG
    bad = alter(
        admin,
        ResourceType.TOPIC,
        topic,
        ("segment.bytes", "2097152", AlterConfigOpType.SET),
        ("retention.ms", "soon", AlterConfigOpType.SET),
    )
    assert refusal_code(bad) == KafkaError.INVALID_CONFIG
    assert settings_of(admin, ResourceType.TOPIC, topic)["segment.bytes"].is_default
    absent = alter(admin, ResourceType.TOPIC, "absent", ("retention.ms", "1", AlterConfigOpType.SET))
    assert refusal_code(absent) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_broker_describes_its_settings(admin: AdminClient) -> None:
    found = settings_of(admin, ResourceType.BROKER, "1")
    assert found["min.insync.replicas"].value == "2"
    assert found["default.replication.factor"].value == "3"
    assert found["default.replication.factor"].is_read_only


def test_a_limit_on_records_holds_as_soon_as_it_is_set(
    admin: AdminClient, confluent: ConfluentClient, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(max_message_bytes="2000")
    confluent.produce(topic, [Message(b"x" * 100)])
    with pytest.raises(KafkaException) as error:
        confluent.produce(topic, [Message(b"x" * 10_000)])
    assert error.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert confluent.bounds(topic) == (0, 1)


# -------------------------------------------------------------------- offsets and records


def test_offsets_are_listed_by_kind_and_by_time(
    admin: AdminClient, confluent: ConfluentClient, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(retention_ms="-1")
    for number, time_ms in enumerate((1000, 3000, 2000)):
        confluent.produce(topic, [Message(f"{number}".encode(), timestamp_ms=1_700_000_000_000 + time_ms)])

    def list_offset(spec: OffsetSpec) -> int:
        offset: int = only(
            admin.list_offsets({TopicPartition(topic, 0): spec}, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        ).offset
        return offset

    assert list_offset(SPEC.earliest()) == 0
    assert list_offset(SPEC.latest()) == 3
    assert list_offset(SPEC.max_timestamp()) == 1
    assert list_offset(SPEC.for_timestamp(1_700_000_001_500)) == 1
    assert list_offset(SPEC.for_timestamp(1_700_000_004_000)) == -1


def test_deleted_records_are_gone_on_every_replica_and_the_rest_is_there(
    admin: AdminClient, confluent: ConfluentClient, topic: str
) -> None:
    for part in range(4):
        confluent.produce(topic, number_messages(5, f"part {part}"))
    assert only(admin.delete_records([TopicPartition(topic, 0, 7)])).low_watermark == 7
    assert confluent.bounds(topic) == (7, 20)
    assert [one.offset for one in confluent.consume(topic, 13, start=7)] == list(range(7, 20))
    assert [one.offset for one in confluent.consume(topic, 13, start=3)] == list(range(7, 20)), "by auto.offset.reset"
    assert refusal_code(admin.delete_records([TopicPartition(topic, 0, 21)])) == KafkaError.OFFSET_OUT_OF_RANGE
    assert only(admin.delete_records([TopicPartition(topic, 0, -1)])).low_watermark == 20
    assert confluent.bounds(topic) == (20, 20)


# -------------------------------------------------------------------- groups


def test_groups_are_listed_described_and_deleted(
    admin: AdminClient, confluent: ConfluentClient, topic: str, group: str
) -> None:
    confluent.produce(topic, number_messages(3))
    with confluent.joining(group, topic) as member:
        read_some(member)
        member.commit(0, 2)
        listed = {each.group_id: each for each in admin.list_consumer_groups().result(PATIENCE_S).valid}
        assert listed[group].state == ConsumerGroupState.STABLE
        described = only(admin.describe_consumer_groups([group]))
        assert described.state == ConsumerGroupState.STABLE
        assert described.partition_assignor == "range"
        assert described.coordinator.id in (1, 2, 3)
        (one,) = described.members
        assert one.client_id == "rdkafka"
        assert [(each.topic, each.partition) for each in one.assignment.topic_partitions] == [(topic, 0)]
        assert refusal_code(admin.delete_consumer_groups([group])) == KafkaError.NON_EMPTY_GROUP
    assert only(admin.describe_consumer_groups([group])).state == ConsumerGroupState.EMPTY
    (offset,) = only(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])).topic_partitions
    assert (offset.topic, offset.partition, offset.offset) == (topic, 0, 2)
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])
    only(admin.alter_consumer_group_offsets([moved]))
    (offset,) = only(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])).topic_partitions
    assert offset.offset == 1
    only(admin.delete_consumer_groups([group]))
    assert group not in {each.group_id for each in admin.list_consumer_groups().result(PATIENCE_S).valid}
    assert refusal_code(admin.delete_consumer_groups([group])) == KafkaError.GROUP_ID_NOT_FOUND


def test_a_group_that_never_was_is_dead_and_has_no_offsets(admin: AdminClient, topic: str, group: str) -> None:
    described = only(admin.describe_consumer_groups([group]))
    assert described.state == ConsumerGroupState.DEAD
    assert described.members == []
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    (offset,) = only(admin.list_consumer_group_offsets([asked])).topic_partitions
    assert offset.offset < 0


# -------------------------------------------------------------------- leaders


def test_a_preferred_election_is_not_needed_where_the_preferred_replica_leads(admin: AdminClient, topic: str) -> None:
    asked = [TopicPartition(topic, 0)]
    (answer,) = admin.elect_leaders(ElectionType.PREFERRED, asked).result(PATIENCE_S).values()
    assert answer is not None and answer.code() == KafkaError.ELECTION_NOT_NEEDED
    (answer,) = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition("absent", 0)]).result(PATIENCE_S).values()
    assert answer is not None and answer.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
