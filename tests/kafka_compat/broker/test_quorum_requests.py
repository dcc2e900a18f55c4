"""Requests of `kafka-metadata-quorum`, `kafka-configs` and `kafka-client-metrics`, at each of three brokers."""

from kafka_compat.protocol.apis.client_quotas import (
    ALTER_CLIENT_QUOTAS,
    DESCRIBE_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    QuotaAlteration,
    QuotaEntity,
    QuotaFilter,
    QuotaOperation,
)
from kafka_compat.protocol.apis.describe_configs import (
    DESCRIBE_CONFIGS,
    GROUP_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafka_compat.protocol.apis.describe_quorum import (
    DESCRIBE_QUORUM,
    DescribeQuorumRequest,
    QuorumPartition,
    QuorumTopic,
)
from kafka_compat.protocol.apis.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from kafka_compat.protocol.apis.list_config_resources import LIST_CONFIG_RESOURCES, ListConfigResourcesRequest
from kafka_compat.protocol.apis.list_groups import LIST_GROUPS, ListGroupsRequest
from kafka_compat.protocol.apis.unregister_broker import UNREGISTER_BROKER, UnregisterBrokerRequest
from kafka_compat.protocol.apis.update_features import UPDATE_FEATURES, FeatureUpdate, UpdateFeaturesRequest
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.kafka_compat.broker.cluster import Client, cluster

NONE = KafkaErrorCode.NONE


async def list_resources(client: Client, version: int, *kinds: int) -> tuple[int, list[tuple[int, str]]]:
    answer = await client.ask(LIST_CONFIG_RESOURCES, version, ListConfigResourcesRequest(resource_types=kinds))
    return answer.error_code, [(each.resource_type, each.resource_name) for each in answer.config_resources]


async def check_group_settings(client: Client) -> None:
    """Groups have the brokers' settings, with their synonyms; others are refused with the reason."""
    asked = DescribeConfigsResource(resource_type=GROUP_RESOURCE, resource_name="g", configuration_keys=None)
    request = DescribeConfigsRequest(resources=(asked,), include_synonyms=True)
    (described,) = (await client.ask(DESCRIBE_CONFIGS, 4, request)).results
    assert described.error_code == NONE
    found = {each.name: (each.value, each.read_only, [one.name for one in each.synonyms]) for each in described.configs}
    assert found == {
        "consumer.heartbeat.interval.ms": ("5000", True, ["group.consumer.heartbeat.interval.ms"]),
        "consumer.session.timeout.ms": ("45000", True, ["group.consumer.session.timeout.ms"]),
    }
    no = KafkaErrorCode.INVALID_CONFIG
    for name, value, operation, error, why in (
        ("consumer.session.timeout.ms", "45000", 0, NONE, None),
        ("consumer.session.timeout.ms", None, 1, NONE, None),
        ("consumer.session.timeout.ms", "6000", 0, no, "give group.consumer.session.timeout.ms when the brokers start"),
        ("share.session.timeout.ms", "6000", 0, no, "is no setting of groups here"),
        ("consumer.session.timeout.ms", "1", 2, no, "is not a list"),
    ):
        change = IncrementalAlterConfig(name=name, config_operation=operation, value=value)
        resource = IncrementalAlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name="g", configs=(change,))
        altered = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        (answer,) = (await client.ask(INCREMENTAL_ALTER_CONFIGS, 1, altered)).responses
        assert answer.error_code == error
        assert (why or "") in (answer.error_message or "")


async def test_each_broker_describes_the_quorum_as_the_controller_knows_it() -> None:
    topics = (QuorumTopic(topic_name="__cluster_metadata", partitions=(QuorumPartition(partition_index=0),)),)
    async with cluster() as brokers:
        async with brokers.client(1) as client:
            assert await client.create("t", 3) is NONE
        await brokers.until(lambda: brokers.knows("t"))
        described = []
        for broker in (1, 2, 3):
            async with brokers.client(broker) as client:
                answers = [
                    await client.ask(DESCRIBE_QUORUM, each, DescribeQuorumRequest(topics=topics)) for each in (0, 2)
                ]
                for answer in answers:
                    assert answer.error_code == NONE
                    ((group,),) = [each.partitions for each in answer.topics]
                    assert [each.replica_id for each in group.current_voters] == [1, 2, 3]
                    assert all(each.log_end_offset > 0 for each in group.current_voters)
                    described.append((group.leader_id, group.leader_epoch, group.observers))
                assert [each.node_id for each in answers[1].nodes] == [1, 2, 3]
                ports = [each.listeners[0].port for each in answers[1].nodes]
                assert ports == [brokers.addresses[each][1] for each in (1, 2, 3)]
                other = (QuorumTopic(topic_name="t", partitions=(QuorumPartition(partition_index=0),)),)
                answer = await client.ask(DESCRIBE_QUORUM, 2, DescribeQuorumRequest(topics=other))
                assert answer.topics[0].partitions[0].error_code == KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert len(set(described)) == 1
        async with brokers.client(1) as client:
            brokers_of = [(4, "1"), (4, "2"), (4, "3")]
            assert await list_resources(client, 0) == (NONE, [])
            assert await list_resources(client, 1, 4) == (NONE, brokers_of)
            assert await list_resources(client, 1, 16, 32) == (NONE, [])
            assert set((await list_resources(client, 1))[1]) >= {(2, "t"), *brokers_of}
            assert await list_resources(client, 1, 3) == (KafkaErrorCode.UNSUPPORTED_VERSION, [])
            groups = await client.ask(LIST_GROUPS, 5, ListGroupsRequest())
            assert (groups.error_code, groups.groups) == (NONE, ())  # before the first group, too
            quotas = DescribeClientQuotasRequest(
                components=(QuotaFilter(entity_type="user", match_type=2),), strict=False
            )
            for version in (0, 1):
                answer = await client.ask(DESCRIBE_CLIENT_QUOTAS, version, quotas)
                assert (answer.error_code, answer.entries) == (NONE, ())
            wanted = QuotaAlteration(
                entity=(QuotaEntity(entity_type="user", entity_name="ann"),),
                ops=(QuotaOperation(key="producer_byte_rate", value=1024.5, remove=False),),
            )
            request = AlterClientQuotasRequest(entries=(wanted,), validate_only=False)
            (refused,) = (await client.ask(ALTER_CLIENT_QUOTAS, 1, request)).entries
            assert refused.error_code == KafkaErrorCode.INVALID_REQUEST
            assert refused.error_message == "quotas are not implemented: no user and no client is limited"
            assert refused.entity[0].entity_name == "ann"
            await check_group_settings(client)
            wanted_levels = (("transaction.version", 2), ("group.version", 0), ("kraft.version", 1))
            updates = tuple(FeatureUpdate(feature=name, max_version_level=level) for name, level in wanted_levels)
            found = await client.ask(UPDATE_FEATURES, 1, UpdateFeaturesRequest(feature_updates=updates))
            no = KafkaErrorCode.INVALID_UPDATE_VERSION
            assert [each.error_code for each in found.results] == [NONE, no, no]
            assert found.results[1].error_message == "group.version is at level 1, and these brokers have no other"
            assert "transaction.version" in (found.results[2].error_message or "")
            for named, error in ((updates[:1], NONE), (updates, no)):
                found = await client.ask(UPDATE_FEATURES, 2, UpdateFeaturesRequest(feature_updates=named))
                assert found.error_code == error
            for broker, error, why in (
                (7, KafkaErrorCode.BROKER_ID_NOT_REGISTERED, "not currently registered"),
                (-1, KafkaErrorCode.BROKER_ID_NOT_REGISTERED, "not negative"),
                (2, KafkaErrorCode.INVALID_REQUEST, "stop it first"),
            ):
                answer = await client.ask(UNREGISTER_BROKER, 0, UnregisterBrokerRequest(broker_id=broker))
                assert answer.error_code == error
                assert why in (answer.error_message or "")
