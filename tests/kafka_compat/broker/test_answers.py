"""Answers of one broker, field by field, where clients act on them: features, operations, epochs, settings,
transactions.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_compat.broker.requests.configs import ConfigRequests
from kafka_compat.broker.requests.logs import LogRequests
from kafka_compat.broker.requests.metadata import MetadataRequests
from kafka_compat.broker.topic_creation import TopicCreation
from kafka_compat.protocol import authorized
from kafka_compat.protocol.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from kafka_compat.protocol.apis.describe_cluster import DESCRIBE_CLUSTER, DescribeClusterRequest
from kafka_compat.protocol.apis.describe_configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafka_compat.protocol.apis.describe_topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
)
from kafka_compat.protocol.apis.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from kafka_compat.protocol.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafka_compat.protocol.apis.metadata import METADATA, MetadataRequest, MetadataRequestTopic
from kafka_compat.protocol.apis.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.kafka_compat.broker.world import World, ask, world

NOT_ASKED = -(2**31)
TOPIC, BROKER = 2, 4


@pytest.fixture
def broker() -> Iterator[World]:
    with world() as made:
        made.topic("t", partitions=2)
        yield made


def metadata_of(broker: World) -> MetadataRequests:
    return MetadataRequests(broker.context, TopicCreation(broker.context))


# ---------------------------------------------------------------- ApiVersions


@pytest.mark.parametrize(
    ("name", "number", "taken"),
    [
        ("librdkafka", "2.6.0", True),
        ("confluent-kafka-python", "2.6.0-rdkafka-2.6.0", True),
        ("a.b", "1", True),
        ("!!", "1", False),
        ("a", "", False),
        ("", "1", False),
        ("a-", "1", False),
        ("-a", "1", False),
        ("a b", "1", False),
        ("a", "1_0", False),
        ("a", "1\n", False),
    ],
)
@pytest.mark.parametrize("version", [3, 4])
def test_software_has_a_name_and_a_version_in_plain_letters(
    broker: World, version: int, name: str, number: str, taken: bool
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=number)
    answer = ask(metadata_of(broker).api_versions, API_VERSIONS, version, request).answer
    assert answer.error_code == (KafkaErrorCode.NONE if taken else KafkaErrorCode.INVALID_REQUEST)
    assert bool(answer.api_keys) == taken


def features(broker: World, version: int) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    answer = ask(metadata_of(broker).api_versions, API_VERSIONS, version, request).answer
    return (
        {each.name: (each.min_version, each.max_version) for each in answer.supported_features},
        {each.name: each.max_version_level for each in answer.finalized_features},
    )


def test_features_are_those_that_these_brokers_have(broker: World) -> None:
    elr = "eligible.leader.replicas.version"
    supported, finalized = features(broker, 4)
    assert supported == {
        "group.version": (0, 1),
        "metadata.version": (30, 30),
        "transaction.version": (0, 2),
        elr: (0, 1),
    }
    assert finalized == {"group.version": 1, "metadata.version": 30, "transaction.version": 2, elr: 1}
    # Clients of version 3 cannot read a lowest level of 0.
    assert features(broker, 3) == ({"metadata.version": (30, 30)}, finalized)


def test_a_feature_that_is_off_is_not_in_force() -> None:
    with world("eligible.leader.replicas.version=0") as made:
        assert features(made, 4)[1] == {"group.version": 1, "metadata.version": 30, "transaction.version": 2}


# ---------------------------------------------------------------- KIP-430


def test_operations_are_those_of_kafka_without_access_lists() -> None:
    assert (authorized.ON_TOPIC, authorized.ON_CLUSTER, authorized.ON_GROUP) == (3576, 8096, 3400)


@pytest.mark.parametrize("asks", [False, True])
def test_operations_are_answered_to_who_asks(broker: World, asks: bool) -> None:
    handlers = metadata_of(broker)
    topics = tuple(MetadataRequestTopic(name=each) for each in ("t", "nowhere"))
    request = MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=asks,
        include_topic_authorized_operations=asks,
    )
    answer = ask(handlers.metadata, METADATA, 10, request).answer
    assert [each.topic_authorized_operations for each in answer.topics] == [3576 if asks else NOT_ASKED] * 2
    assert answer.cluster_authorized_operations == (8096 if asks else NOT_ASKED)
    described = DescribeClusterRequest(include_cluster_authorized_operations=asks)
    found = ask(handlers.describe_cluster, DESCRIBE_CLUSTER, 2, described).answer
    assert found.cluster_authorized_operations == (8096 if asks else NOT_ASKED)


def test_described_partitions_always_have_the_operations_of_their_topic(broker: World) -> None:
    topics = tuple(DescribeTopicPartitionsRequestTopic(name=each) for each in ("t", "nowhere"))
    request = DescribeTopicPartitionsRequest(topics=topics)
    answer = ask(metadata_of(broker).describe_topic_partitions, DESCRIBE_TOPIC_PARTITIONS, 0, request).answer
    assert [each.topic_authorized_operations for each in answer.topics] == [3576, 3576]


# ---------------------------------------------------------------- the cluster


@pytest.mark.parametrize(("kind", "error"), [(2, "MISMATCHED_ENDPOINT_TYPE"), (3, "UNSUPPORTED_ENDPOINT_TYPE")])
def test_only_endpoints_of_brokers_are_described(broker: World, kind: int, error: str) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=kind)
    answer = ask(metadata_of(broker).describe_cluster, DESCRIBE_CLUSTER, 1, request).answer
    assert KafkaErrorCode(answer.error_code).name == error


@pytest.mark.parametrize(("version", "name"), [(10, ""), (11, ""), (12, None), (13, None)])
def test_a_topic_of_unknown_id_has_no_name(broker: World, version: int, name: str | None) -> None:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=None, topic_id=b"0123456789abcdef"),))
    (topic,) = ask(metadata_of(broker).metadata, METADATA, version, request).answer.topics
    assert (topic.error_code, topic.name) == (KafkaErrorCode.UNKNOWN_TOPIC_ID, name)


# ---------------------------------------------------------------- logs


@pytest.mark.parametrize(
    ("epoch", "current", "expected"),
    [
        (0, -1, (0, 0, 3)),
        (0, 0, (0, 0, 3)),
        (1, -1, (0, -1, -1)),
        (7, 0, (0, -1, -1)),
        (2**31 - 1, -1, (0, -1, -1)),
        (-1, -1, (0, -1, -1)),
        (0, 1, (75, -1, -1)),
    ],
)
def test_an_epoch_that_is_to_come_has_no_end(broker: World, epoch: int, current: int, expected: Any) -> None:
    broker.produce("t", count=3)
    one = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic="t", partitions=(one,)),))
    handler = LogRequests(broker.context, broker.replicas).offset_for_leader_epoch
    (found,) = ask(handler, OFFSET_FOR_LEADER_EPOCH, 3, request).answer.topics[0].partitions
    assert (found.error_code, found.leader_epoch, found.end_offset) == expected


@pytest.mark.parametrize(("timestamp", "first"), [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 12)])
def test_a_timestamp_with_a_meaning_is_taken_from_the_version_that_gave_it_one(
    broker: World, timestamp: int, first: int
) -> None:
    handler = LogRequests(broker.context, broker.replicas).list_offsets
    for version in LIST_OFFSETS.versions:
        one = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=(one,)),))
        (found,) = ask(handler, LIST_OFFSETS, version, request).answer.topics[0].partitions
        expected = KafkaErrorCode.NONE if version >= first else KafkaErrorCode.UNSUPPORTED_VERSION
        assert found.error_code == expected, version


# ---------------------------------------------------------------- settings


def describe(broker: World, kind: int, name: str, *keys: str) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys or None)
    request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True)
    return ask(ConfigRequests(broker.context).describe, DESCRIBE_CONFIGS, 4, request).answer.results[0]


def test_synonyms_are_described_under_their_own_name_with_their_own_value() -> None:
    with world("log.retention.hours=2", "log.roll.hours=3") as made:
        made.topic("t")
        rows = {each.name: each for each in describe(made, TOPIC, "t", "retention.ms", "segment.ms").configs}
    assert {name: row.value for name, row in rows.items()} == {"retention.ms": "7200000", "segment.ms": "10800000"}
    synonyms = {name: [(each.name, each.value) for each in row.synonyms] for name, row in rows.items()}
    assert synonyms == {
        "retention.ms": [("log.retention.hours", "2"), ("log.retention.hours", "168")],
        "segment.ms": [("log.roll.hours", "3"), ("log.roll.hours", "168")],
    }


def test_without_keys_everything_is_described(broker: World) -> None:
    for keys in ((), None):
        resource = DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=keys)
        request = DescribeConfigsRequest(resources=(resource,))
        answer = ask(ConfigRequests(broker.context).describe, DESCRIBE_CONFIGS, 4, request).answer
        assert len(answer.results[0].configs) > 30


@pytest.mark.parametrize(
    ("kind", "name", "error", "message"),
    [
        (TOPIC, "t", "NONE", ""),
        (TOPIC, "nowhere", "UNKNOWN_TOPIC_OR_PARTITION", "there is no topic 'nowhere'"),
        (TOPIC, "a b", "INVALID_TOPIC_EXCEPTION", "'a b' is no name of a topic"),
        (BROKER, "2", "INVALID_REQUEST", "this is broker 1: ask broker 2 itself"),
    ],
)
def test_what_cannot_be_described_is_said_so(broker: World, kind: int, name: str, error: str, message: str) -> None:
    answer = describe(broker, kind, name)
    assert (KafkaErrorCode(answer.error_code).name, answer.error_message) == (error, message)


@pytest.mark.parametrize(
    ("kind", "key", "operation", "value", "error"),
    [
        (TOPIC, "retention.ms", 0, None, "INVALID_REQUEST"),
        (TOPIC, "retention.ms", 0, "x", "INVALID_CONFIG"),
        (TOPIC, "retention.ms", 9, "1", "INVALID_REQUEST"),
        (BROKER, "num.partitions", 0, "5", "INVALID_REQUEST"),
        (BROKER, "no.such", 0, "5", "INVALID_CONFIG"),
    ],
)
def test_settings_that_no_value_would_change_are_another_error_than_wrong_values(
    broker: World, kind: int, key: str, operation: int, value: str | None, error: str
) -> None:
    change = IncrementalAlterConfig(name=key, config_operation=operation, value=value)
    resource = IncrementalAlterConfigsResource(
        resource_type=kind, resource_name="t" if kind == TOPIC else "1", configs=(change,)
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=True)
    answer = ask(ConfigRequests(broker.context).alter, INCREMENTAL_ALTER_CONFIGS, 1, request).answer
    assert KafkaErrorCode(answer.responses[0].error_code).name == error
