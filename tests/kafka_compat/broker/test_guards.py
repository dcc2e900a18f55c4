"""Every API asks for the operations of its row in the table, refuses each item for itself with Kafka's error, and
changes nothing for a caller who may do everything.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from attrs import define, field

from kafka_compat.acls import CLUSTER_NAME, Acl, AclTable, Authorizer, PatternType, Permission, ResourceType
from kafka_compat.broker.access import Access, Refusals
from kafka_compat.broker.caller import ANONYMOUS, Caller
from kafka_compat.broker.guards.admission import Admitted, Denied
from kafka_compat.broker.guards.table import GUARDS
from kafka_compat.protocol.api import Api
from kafka_compat.protocol.apis import acls as acl_api
from kafka_compat.protocol.apis import (
    alter_configs,
    client_quotas,
    consumer_group_describe,
    consumer_group_heartbeat,
    controller,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    scram_credentials,
    sync_group,
    transactions,
    txn_markers,
    unregister_broker,
    update_features,
)
from kafka_compat.protocol.apis import partition_reassignments as moves
from kafka_compat.protocol.authorized import ON_CLUSTER, ON_GROUP, ON_TOPIC, AclOperation
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.registry import APIS, BROKER_APIS
from kafka_compat.protocol.required import REQUIRED
from kafka_compat.protocol.schema import NO_UUID
from log.values import evolve
from raft.net.seldom import QUIET_S, Seldom
from tests.kafka_compat.broker.world import World, world

TOPIC_FAILED = KafkaErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_FAILED = KafkaErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_FAILED = KafkaErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION_FAILED = KafkaErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
UNKNOWN_ID = bytes(range(16))
ALICE = "User:alice"
ALL: dict[int, Api[Any, Any]] = {**APIS, **BROKER_APIS}


@define
class Rights:
    """A caller whose ACLs the test writes, and what was asked and told about him."""

    broker: World
    table: AclTable = field(factory=AclTable)
    events: list[dict[str, Any]] = field(factory=list)

    def allow(self, operation: AclOperation, kind: ResourceType, *names: str) -> None:
        for name in names or (CLUSTER_NAME,):
            self.table.add(Acl(kind, name, PatternType.LITERAL, ALICE, "*", operation, Permission.ALLOW))

    def access(self, kind: type[Access] = Access, **changes: Any) -> Access:
        refusals = Refusals(lambda event, **fields: self.events.append(fields), Seldom(lambda: self.broker.now))
        settings = self.broker.context.settings
        made = kind(Authorizer(self.table), ALICE, "::1", False, self.broker.image, settings, refusals)
        return evolve(made, **changes)

    def guard(self, api: Api[Any, Any], version: int, request: Any) -> Admitted | Denied:
        return GUARDS[api.key](self.access(), version, request)

    def refuse(self, api: Api[Any, Any], version: int, request: Any) -> Any:
        """The answer of a guard that does not ask the handler; as the client reads it."""
        admission = self.guard(api, version, request)
        assert isinstance(admission, Denied)
        frame = b"".join(map(bytes, api.encode_response(version, 7, admission.response)))
        return api.decode_response(frame[4:], version)[1]

    def complete(self, api: Api[Any, Any], version: int, request: Any, response: Any) -> tuple[Any, Any]:
        """The request that the handler gets, and the whole answer if it answers with `response`."""
        admission = self.guard(api, version, request)
        assert isinstance(admission, Admitted)
        return admission.request, response if admission.complete is None else admission.complete(response)


@pytest.fixture
def rights() -> Iterator[Rights]:
    with world() as broker:
        for name in ("may", "not"):
            broker.topic(name)
        yield Rights(broker)


R, W, D = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


def produce_to(*names: str, acks: int = -1, **more: Any) -> produce.ProduceRequest:
    partition = produce.ProducePartition(index=0, records=b"")
    topics = tuple(produce.ProduceTopic(name=name, partition_data=(partition,)) for name in names)
    return produce.ProduceRequest(acks=acks, timeout_ms=1, topic_data=topics, **more)


def configs_of(*resources: tuple[int, str]) -> tuple[describe_configs.DescribeConfigsResource, ...]:
    return tuple(
        describe_configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name in resources
    )


def alter_of(*resources: tuple[int, str]) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=tuple(
            incremental_alter_configs.IncrementalAlterConfigsResource(
                resource_type=kind, resource_name=name, configs=()
            )
            for kind, name in resources
        ),
        validate_only=False,
    )


def replace_of(*resources: tuple[int, str]) -> alter_configs.AlterConfigsRequest:
    return alter_configs.AlterConfigsRequest(
        resources=tuple(
            alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=())
            for kind, name in resources
        ),
        validate_only=False,
    )


def commit_of(*names: str) -> offset_commit.OffsetCommitRequest:
    partition = offset_commit.OffsetCommitPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    topics = tuple(offset_commit.OffsetCommitTopic(name=name, partitions=(partition,)) for name in names)
    return offset_commit.OffsetCommitRequest(group_id="g", member_id="", topics=topics)


def fetch_of(*groups: tuple[str, tuple[str, ...] | None]) -> offset_fetch.OffsetFetchRequest:
    return offset_fetch.OffsetFetchRequest(
        groups=tuple(
            offset_fetch.OffsetFetchGroup(
                group_id=group,
                topics=None
                if names is None
                else tuple(offset_fetch.OffsetFetchTopic(name=name, partition_indexes=(0, 1)) for name in names),
            )
            for group, names in groups
        )
    )


def create_of(*names: str) -> create_topics.CreateTopicsRequest:
    topics = (
        create_topics.CreateTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
        for name in names
    )
    return create_topics.CreateTopicsRequest(topics=tuple(topics))


def metadata_of(*names: str, **more: Any) -> metadata.MetadataRequest:
    return metadata.MetadataRequest(
        topics=tuple(metadata.MetadataRequestTopic(name=name) for name in names),
        include_topic_authorized_operations=True,
        **more,
    )


ELECT = elect_leaders.ElectLeadersRequest(
    topic_partitions=(elect_leaders.ElectLeadersTopic(topic="t", partitions=(0, 1)),)
)
MOVES = moves.AlterPartitionReassignmentsRequest(
    topics=(moves.ReassignableTopic(name="t", partitions=(moves.ReassignablePartition(partition_index=0),)),)
)
LIST_ALL = list_groups.ListGroupsRequest()
COORDINATOR = find_coordinator.FindCoordinatorRequest(key="g", coordinator_keys=("g", "h"))
TRANSACTION = find_coordinator.FindCoordinatorRequest(key_type=1, key="x", coordinator_keys=("x",))
INIT = init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
JOIN = join_group.JoinGroupRequest(
    group_id="g", session_timeout_ms=1, member_id="m", protocol_type="consumer", protocols=()
)
SYNC = sync_group.SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=())
BEAT = heartbeat.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
LEAVE = leave_group.LeaveGroupRequest(group_id="g", member_id="m")
CONSUMER_BEAT = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
    group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=("may", "not")
)
CONSUMERS = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=("g",), include_authorized_operations=True)
DESCRIBE_GROUP = describe_groups.DescribeGroupsRequest(groups=("g", "h"), include_authorized_operations=True)
ABOUT_CLUSTER = describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
LOG_DIRS = describe_log_dirs.DescribeLogDirsRequest(topics=None)
OFFSETS = list_offsets.ListOffsetsRequest(
    replica_id=-1,
    topics=tuple(
        list_offsets.ListOffsetsTopic(
            name=name, partitions=(list_offsets.ListOffsetsPartition(partition_index=3, timestamp=-1),)
        )
        for name in ("may", "not")
    ),
)
EPOCHS = offset_for_leader_epoch.OffsetForLeaderEpochRequest(
    topics=tuple(
        offset_for_leader_epoch.OffsetForLeaderTopic(
            topic=name, partitions=(offset_for_leader_epoch.OffsetForLeaderPartition(partition=3, leader_epoch=0),)
        )
        for name in ("may", "not")
    )
)
RECORDS = delete_records.DeleteRecordsRequest(
    topics=tuple(
        delete_records.DeleteRecordsTopic(
            name=name, partitions=(delete_records.DeleteRecordsPartition(partition_index=3, offset=1),)
        )
        for name in ("may", "not")
    ),
    timeout_ms=1,
)
PARTITIONS = create_partitions.CreatePartitionsRequest(
    topics=tuple(
        create_partitions.CreatePartitionsTopic(name=name, count=2, assignments=None) for name in ("may", "not")
    ),
    timeout_ms=1,
    validate_only=False,
)
OFFSET_DELETE_REQUEST = offset_delete.OffsetDeleteRequest(
    group_id="g",
    topics=tuple(
        offset_delete.OffsetDeleteTopic(name=name, partitions=(offset_delete.OffsetDeletePartition(partition_index=3),))
        for name in ("may", "not")
    ),
)
DESCRIBE_TOPICS = describe_topic_partitions.DescribeTopicPartitionsRequest(
    topics=tuple(describe_topic_partitions.DescribeTopicPartitionsRequestTopic(name=name) for name in ("may", "not"))
)
CREATION = acl_api.AclCreation(
    resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
)
ACL_FILTER: dict[str, Any] = dict.fromkeys(("resource_type_filter", "operation", "permission_type"), 1) | dict.fromkeys(
    ("resource_name_filter", "principal_filter", "host_filter")
)
BROKER_COMMAND = controller.ControllerCommandRequest(cluster_id="c", command=b"")
BROKER_BEAT = controller.BrokerHeartbeatRequest(cluster_id="c", broker_id=1, broker_epoch=1, applied_index=1)
DELETE_BY_NAME = delete_topics.DeleteTopicsRequest(topic_names=("may", "not"), timeout_ms=1)

ALTER_USERS = scram_credentials.AlterUserScramCredentialsRequest(
    deletions=(scram_credentials.ScramCredentialDeletion(name="u", mechanism=1),), upsertions=()
)

ADDED = tuple(transactions.AddPartitionsTopic(name=name, partitions=(0,)) for name in ("may", "not"))
ADD = transactions.AddPartitionsToTxnRequest(v3_and_below_transactional_id="x", v3_and_below_topics=ADDED)
ADD_OFFSETS = transactions.AddOffsetsToTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, group_id="g")
END = transactions.EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, committed=True)
MARKED = tuple(txn_markers.TxnMarkerTopic(name=name, partition_indexes=(0,)) for name in ("may", "not"))
MARKERS = txn_markers.WriteTxnMarkersRequest(
    markers=(
        txn_markers.TxnMarker(
            producer_id=1, producer_epoch=0, transaction_result=True, topics=MARKED, coordinator_epoch=0
        ),
    )
)
TRANSACTION_COMMIT = transactions.TxnOffsetCommitRequest(
    transactional_id="x",
    group_id="g",
    producer_id=1,
    producer_epoch=0,
    topics=tuple(
        transactions.TxnOffsetCommitTopic(
            name=name,
            partitions=(
                transactions.TxnOffsetCommitPartition(partition_index=0, committed_offset=1, committed_metadata=None),
            ),
        )
        for name in ("may", "not")
    ),
)
PRODUCERS = describe_transactions.DescribeProducersRequest(
    topics=tuple(
        describe_transactions.DescribeProducersTopic(name=name, partition_indexes=(0,)) for name in ("may", "not")
    )
)
DESCRIBED = describe_transactions.DescribeTransactionsRequest(transactional_ids=("x", "y"))
LISTED = describe_transactions.ListTransactionsRequest(state_filters=(), producer_id_filters=())

REQUESTS: list[tuple[Api[Any, Any], int, Any]] = [
    (produce.PRODUCE, 9, produce_to("may", "not")),
    (produce.PRODUCE, 9, produce_to("may", transactional_id="x")),
    (list_offsets.LIST_OFFSETS, 6, OFFSETS),
    (metadata.METADATA, 9, metadata_of("may", "absent")),
    (offset_commit.OFFSET_COMMIT, 8, commit_of("may", "not")),
    (offset_fetch.OFFSET_FETCH, 8, fetch_of(("g", ("may", "not")))),
    (offset_fetch.OFFSET_FETCH, 5, offset_fetch.OffsetFetchRequest(group_id="g", topics=(offset_fetch.OffsetFetchTopic(name="may", partition_indexes=(0,)),))),
    (find_coordinator.FIND_COORDINATOR, 4, COORDINATOR),
    (find_coordinator.FIND_COORDINATOR, 3, TRANSACTION),
    (join_group.JOIN_GROUP, 5, JOIN),
    (sync_group.SYNC_GROUP, 3, SYNC),
    (heartbeat.HEARTBEAT, 3, BEAT),
    (leave_group.LEAVE_GROUP, 2, LEAVE),
    (describe_groups.DESCRIBE_GROUPS, 5, DESCRIBE_GROUP),
    (list_groups.LIST_GROUPS, 4, LIST_ALL),
    (consumer_group_heartbeat.CONSUMER_GROUP_HEARTBEAT, 1, CONSUMER_BEAT),
    (consumer_group_describe.CONSUMER_GROUP_DESCRIBE, 1, CONSUMERS),
    (create_topics.CREATE_TOPICS, 7, create_of("may", "not")),
    (delete_topics.DELETE_TOPICS, 5, DELETE_BY_NAME),
    (delete_records.DELETE_RECORDS, 2, RECORDS),
    (init_producer_id.INIT_PRODUCER_ID, 4, INIT),
    (init_producer_id.INIT_PRODUCER_ID, 4, evolve(INIT, transactional_id="x")),
    (offset_for_leader_epoch.OFFSET_FOR_LEADER_EPOCH, 4, EPOCHS),
    (transactions.ADD_PARTITIONS_TO_TXN, 3, ADD),
    (transactions.ADD_PARTITIONS_TO_TXN, 5, transactions.AddPartitionsToTxnRequest()),
    (transactions.ADD_OFFSETS_TO_TXN, 3, ADD_OFFSETS),
    (transactions.END_TXN, 5, END),
    (txn_markers.WRITE_TXN_MARKERS, 1, MARKERS),
    (transactions.TXN_OFFSET_COMMIT, 3, TRANSACTION_COMMIT),
    (describe_transactions.DESCRIBE_PRODUCERS, 0, PRODUCERS),
    (describe_transactions.DESCRIBE_TRANSACTIONS, 0, DESCRIBED),
    (describe_transactions.LIST_TRANSACTIONS, 1, LISTED),
    (acl_api.DESCRIBE_ACLS, 3, acl_api.DescribeAclsRequest(**ACL_FILTER)),
    (acl_api.CREATE_ACLS, 3, acl_api.CreateAclsRequest(creations=(CREATION, CREATION))),
    (acl_api.DELETE_ACLS, 3, acl_api.DeleteAclsRequest(filters=(acl_api.DeleteAclsFilter(**ACL_FILTER),))),
    (describe_configs.DESCRIBE_CONFIGS, 4, describe_configs.DescribeConfigsRequest(resources=configs_of((2, "may"), (4, "1"), (32, "may")))),
    (describe_log_dirs.DESCRIBE_LOG_DIRS, 4, LOG_DIRS),
    (create_partitions.CREATE_PARTITIONS, 3, PARTITIONS),
    (delete_groups.DELETE_GROUPS, 2, delete_groups.DeleteGroupsRequest(groups_names=("g", "h"))),
    (elect_leaders.ELECT_LEADERS, 2, ELECT),
    (moves.ALTER_PARTITION_REASSIGNMENTS, 1, MOVES),
    (moves.LIST_PARTITION_REASSIGNMENTS, 0, moves.ListPartitionReassignmentsRequest()),
    (alter_configs.ALTER_CONFIGS, 2, replace_of((2, "may"), (4, ""), (32, "may"))),
    (incremental_alter_configs.INCREMENTAL_ALTER_CONFIGS, 1, alter_of((2, "may"), (4, ""), (32, "may"))),
    (offset_delete.OFFSET_DELETE, 0, OFFSET_DELETE_REQUEST),
    (describe_cluster.DESCRIBE_CLUSTER, 1, ABOUT_CLUSTER),
    (describe_topic_partitions.DESCRIBE_TOPIC_PARTITIONS, 0, DESCRIBE_TOPICS),
    (scram_credentials.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, scram_credentials.DescribeUserScramCredentialsRequest()),
    (scram_credentials.ALTER_USER_SCRAM_CREDENTIALS, 0, ALTER_USERS),
    (client_quotas.DESCRIBE_CLIENT_QUOTAS, 1, client_quotas.DescribeClientQuotasRequest(components=(), strict=False)),
    (client_quotas.ALTER_CLIENT_QUOTAS, 1, client_quotas.AlterClientQuotasRequest(entries=(), validate_only=False)),
    (describe_quorum.DESCRIBE_QUORUM, 2, describe_quorum.DescribeQuorumRequest(topics=())),
    (update_features.UPDATE_FEATURES, 2, update_features.UpdateFeaturesRequest(feature_updates=())),
    (unregister_broker.UNREGISTER_BROKER, 0, unregister_broker.UnregisterBrokerRequest(broker_id=9)),
    (list_config_resources.LIST_CONFIG_RESOURCES, 1, list_config_resources.ListConfigResourcesRequest()),
    (controller.CONTROLLER_COMMAND, 0, BROKER_COMMAND),
    (controller.BROKER_HEARTBEAT, 0, BROKER_BEAT),
]  # fmt: skip
OPEN = {17, 18, 36, 1}
"""SASL, ApiVersions, and Fetch, which judges partition by partition."""


def test_every_api_has_a_guard_a_row_and_a_request_here() -> None:
    assert GUARDS.keys() == ALL.keys() == REQUIRED.keys()
    assert {api.key for api, _, _ in REQUESTS} | OPEN == ALL.keys()


@define(eq=False)
class Asking(Access):
    """Remembers what was asked. Grants what it is told to."""

    grants: frozenset[tuple[AclOperation, ResourceType]] = frozenset()
    asked: set[tuple[AclOperation, ResourceType]] = field(factory=set)

    def may(self, operation: AclOperation, kind: ResourceType, name: str = "", *, quiet: bool = False) -> bool:
        self.asked.add((operation, kind))
        return (operation, kind) in self.grants

    def operations(self, kind: ResourceType, name: str = "") -> int:
        self.asked.add((AclOperation.DESCRIBE, kind))
        return 0

    def may_some(self, operation: AclOperation, kind: ResourceType) -> bool:
        return self.may(operation, kind)


@pytest.mark.parametrize("key", sorted(REQUIRED.keys() - OPEN))
def test_a_guard_asks_for_the_operations_of_its_row_and_for_no_others(rights: Rights, key: int) -> None:
    needed = {(each.operation, each.kind) for each in REQUIRED[key]}
    asked: set[tuple[AclOperation, ResourceType]] = set()
    for api, version, request in REQUESTS:
        if api.key != key:
            continue
        for granted in (frozenset(), *(frozenset({each}) for each in needed), frozenset(needed)):
            access = rights.access(Asking, grants=granted)
            assert isinstance(access, Asking)
            admission = GUARDS[key](access, version, request)
            if isinstance(admission, Admitted) and admission.complete is not None:
                admission.complete(answer_to(api, request))
            asked |= access.asked
    described = {(D, kind) for _, kind in asked} if key in (3, 15, 60, 69, 75) else set()
    if key == 20:
        asked.add((D, TOPIC))  # only for one that is given by id: see below
    assert needed <= asked <= needed | described


def answer_to(api: Api[Any, Any], request: Any) -> Any:
    """A response of the handler, with something in it where guards look."""
    match api.key:
        case 3:
            topic = metadata.MetadataTopic(
                error_code=0, name="may", partitions=(), topic_authorized_operations=ON_TOPIC
            )
            return metadata.MetadataResponse(brokers=(), controller_id=1, cluster_id="c", topics=(topic,))
        case 16:
            group = list_groups.ListedGroup(group_id="g", protocol_type="consumer")
            return list_groups.ListGroupsResponse(error_code=0, groups=(group,))
        case 69:
            assignment = consumer_group_describe.DescribedAssignment(topic_partitions=())
            member = consumer_group_describe.DescribedConsumer(
                member_id="m",
                member_epoch=1,
                client_id="",
                client_host="",
                subscribed_topic_names=("may",),
                assignment=assignment,
                target_assignment=assignment,
            )
            consumers = consumer_group_describe.DescribedConsumerGroup(
                error_code=0, group_id="g", members=(member,), authorized_operations=ON_GROUP
            )
            return consumer_group_describe.ConsumerGroupDescribeResponse(groups=(consumers,))
        case 19:
            return create_topics.CreateTopicsResponse(
                topics=tuple(
                    create_topics.CreateTopicResult(
                        name=topic.name, error_code=0, error_message=None, num_partitions=1, replication_factor=1
                    )
                    for topic in request.topics
                )
            )
        case 60:
            return describe_cluster.DescribeClusterResponse(
                error_code=0, cluster_id="c", brokers=(), cluster_authorized_operations=ON_CLUSTER
            )
        case 47:
            return offset_delete.OffsetDeleteResponse(error_code=0, topics=())
        case 24:
            return transactions.AddPartitionsToTxnResponse()
        case 25 | 26:
            return api.response(error_code=0)
        case 27:
            return txn_markers.WriteTxnMarkersResponse(markers=())
        case 65:
            named = describe_transactions.DescribedTransactionTopic(topic="may", partitions=(0,))
            state = describe_transactions.DescribedTransaction(error_code=0, transactional_id="x", topics=(named,))
            return describe_transactions.DescribeTransactionsResponse(transaction_states=(state,))
        case 66:
            listed = describe_transactions.ListedTransaction(
                transactional_id="x", producer_id=1, transaction_state="Empty"
            )
            return describe_transactions.ListTransactionsResponse(error_code=0, transaction_states=(listed,))
        case _:
            pass
    names = {0: "responses", 1: "responses", 9: "groups", 10: "coordinators", 15: "groups", 20: "responses"}
    names |= {32: "results", 33: "responses", 37: "results", 42: "results", 44: "responses"}
    return api.response(**{names.get(api.key, "topics"): ()})


@pytest.mark.parametrize(
    ("api", "version", "request_"), REQUESTS, ids=[f"{a.name}-{v}-{n}" for n, (a, v, _) in enumerate(REQUESTS)]
)
def test_who_may_do_everything_has_the_request_served_as_it_is(
    rights: Rights, api: Api[Any, Any], version: int, request_: Any
) -> None:
    for access in (rights.access(is_member=True), rights.access(authorizer=Authorizer(AclTable(), frozenset({ALICE})))):
        admission = GUARDS[api.key](access, version, request_)
        assert isinstance(admission, Admitted)
        assert admission.request == request_
        if admission.complete is not None:
            answer = answer_to(api, request_)
            assert admission.complete(answer) == answer
    assert rights.events == []


def codes(answer: Any) -> list[int]:
    """Every error code in a response, in order."""
    if isinstance(answer, tuple):
        return [code for each in answer for code in codes(each)]
    if not hasattr(answer, "__attrs_attrs__"):
        return []
    found = [answer.error_code] if hasattr(answer, "error_code") else []
    found += [answer.partition_error_code] if hasattr(answer, "partition_error_code") else []
    for each in answer.__attrs_attrs__:
        found += codes(getattr(answer, each.name))
    return found


REFUSALS = {
    0: {TOPIC_FAILED, TRANSACTION_FAILED}, 2: {TOPIC_FAILED}, 3: {TOPIC_FAILED}, 8: {GROUP_FAILED}, 9: {GROUP_FAILED},
    10: {GROUP_FAILED, TRANSACTION_FAILED}, 11: {GROUP_FAILED}, 12: {GROUP_FAILED}, 13: {GROUP_FAILED},
    14: {GROUP_FAILED}, 15: {GROUP_FAILED}, 19: {TOPIC_FAILED}, 20: {TOPIC_FAILED}, 21: {TOPIC_FAILED},
    22: {CLUSTER_FAILED, TRANSACTION_FAILED}, 23: {TOPIC_FAILED}, 24: {CLUSTER_FAILED, TRANSACTION_FAILED},
    25: {TRANSACTION_FAILED}, 26: {TRANSACTION_FAILED}, 27: {CLUSTER_FAILED}, 28: {TRANSACTION_FAILED},
    61: {TOPIC_FAILED}, 65: {TRANSACTION_FAILED}, 29: {CLUSTER_FAILED}, 30: {CLUSTER_FAILED},
    31: {CLUSTER_FAILED}, 32: {TOPIC_FAILED, GROUP_FAILED, CLUSTER_FAILED}, 35: {CLUSTER_FAILED}, 37: {TOPIC_FAILED},
    42: {GROUP_FAILED}, 43: {CLUSTER_FAILED}, 44: {TOPIC_FAILED, GROUP_FAILED, CLUSTER_FAILED}, 47: {GROUP_FAILED},
    50: {CLUSTER_FAILED}, 51: {CLUSTER_FAILED}, 75: {TOPIC_FAILED}, 20001: {CLUSTER_FAILED}, 20002: {CLUSTER_FAILED},
}  # fmt: skip
SHOWS_NOTHING = {3, 16, 60, 66}
"""Their handlers are asked, and the answer shows what is allowed."""


@pytest.mark.parametrize("key", sorted(REFUSALS.keys() - SHOWS_NOTHING))
def test_who_may_do_nothing_is_refused_with_kafkas_errors_before_the_handler(rights: Rights, key: int) -> None:
    found: set[int] = set()
    for api, version, request in REQUESTS:
        if api.key == key:
            found |= set(codes(rights.refuse(api, version, request))) - {0}
    assert found == REFUSALS[key]
    assert rights.events, "an operator sees the refusal"
    assert {each["principal"] for each in rights.events} == {ALICE}


@pytest.mark.parametrize("key", sorted(REQUIRED.keys() - OPEN))
def test_a_refusal_can_be_sent_in_every_version(rights: Rights, key: int) -> None:
    by_id = metadata.MetadataRequestTopic(topic_id=rights.broker.image.topics["not"].topic_id, name=None)
    for api, _, request in REQUESTS:
        for version in api.versions if api.key == key else ():
            asked = evolve(request, topics=(*request.topics, by_id)) if key == 3 and version >= 10 else request
            admission = rights.guard(api, version, asked)
            if isinstance(admission, Denied):
                api.encode_response(version, 7, admission.response)
            elif admission.complete is not None:
                api.encode_response(version, 7, admission.complete(answer_to(api, asked)))


# ---------------------------------------------------------------- each item for itself


def test_a_topic_that_may_not_be_written_is_refused_and_the_others_are_served(rights: Rights) -> None:
    rights.allow(W, TOPIC, "may")
    response = produce.ProduceResponse(responses=(produce.ProduceTopicResponse(name="may", partition_responses=()),))
    request, answer = rights.complete(produce.PRODUCE, 9, produce_to("may", "not"), response)
    assert [topic.name for topic in request.topic_data] == ["may"]
    assert [(topic.name, codes(topic)) for topic in answer.responses] == [("may", []), ("not", [TOPIC_FAILED])]
    by_id = produce.ProduceTopic(
        topic_id=rights.broker.image.topics["not"].topic_id,
        partition_data=(produce.ProducePartition(index=4, records=b""),),
    )
    unknown = evolve(by_id, topic_id=UNKNOWN_ID)
    request, answer = rights.complete(
        produce.PRODUCE, 13, evolve(produce_to(), topic_data=(by_id, unknown)), produce.ProduceResponse(responses=())
    )
    assert request.topic_data == (unknown,), "the handler refuses it as unknown"
    assert [topic.topic_id for topic in answer.responses] == [by_id.topic_id]
    assert answer.responses[0].partition_responses[0].base_offset == -1


def test_a_refused_produce_without_an_answer_closes_its_connection(rights: Rights) -> None:
    admission = rights.guard(produce.PRODUCE, 9, produce_to("not", acks=0))
    assert isinstance(admission, Denied)
    assert admission.closes
    rights.allow(W, TOPIC, "may")
    admission = rights.guard(produce.PRODUCE, 9, produce_to("may", "not", acks=0))
    assert isinstance(admission, Admitted)
    assert admission.complete is not None, "which is how the call knows"
    admission = rights.guard(produce.PRODUCE, 9, produce_to("may", acks=0))
    assert isinstance(admission, Admitted)
    assert admission.complete is None


def test_topics_that_may_not_be_described_vanish_from_the_list_of_all(rights: Rights) -> None:
    rights.allow(D, TOPIC, "may")
    rights.allow(R, TOPIC, "may")
    topics = tuple(
        metadata.MetadataTopic(error_code=0, name=name, partitions=(), topic_authorized_operations=ON_TOPIC)
        for name in ("may", "not")
    )
    told = metadata.MetadataResponse(
        brokers=(), cluster_id="c", controller_id=1, topics=topics, cluster_authorized_operations=ON_CLUSTER
    )
    asked = metadata.MetadataRequest(topics=None, include_topic_authorized_operations=True)
    for version, request in ((0, evolve(asked, topics=())), (9, asked)):
        _, answer = rights.complete(metadata.METADATA, version, request, told)
        assert [topic.name for topic in answer.topics] == ["may"]
    _, answer = rights.complete(metadata.METADATA, 9, asked, told)
    assert answer.topics[0].topic_authorized_operations == 1 << R | 1 << D
    assert answer.cluster_authorized_operations == 0, "he may not describe the cluster"
    rights.allow(D, CLUSTER)
    rights.allow(AclOperation.ALTER, CLUSTER)
    _, answer = rights.complete(metadata.METADATA, 9, asked, told)
    assert answer.cluster_authorized_operations == 1 << D | 1 << AclOperation.ALTER
    assert rights.events == [], "that topic was not asked for"


def test_a_named_topic_is_refused_whether_it_exists_or_not(rights: Rights) -> None:
    nothing = metadata.MetadataResponse(brokers=(), cluster_id="c", controller_id=1, topics=())
    request, answer = rights.complete(metadata.METADATA, 9, metadata_of("not", "absent"), nothing)
    assert request.topics == ()
    assert [(each.name, each.error_code, each.topic_id) for each in answer.topics] == [
        ("not", TOPIC_FAILED, NO_UUID),
        ("absent", TOPIC_FAILED, NO_UUID),
    ]
    topic_id = rights.broker.image.topics["not"].topic_id
    by_id = metadata.MetadataRequest(topics=(metadata.MetadataRequestTopic(topic_id=topic_id, name=None),))
    _, answer = rights.complete(metadata.METADATA, 12, by_id, nothing)
    assert [(each.name, each.topic_id) for each in answer.topics] == [(None, topic_id)]
    request, answer = rights.complete(metadata.METADATA, 0, metadata_of("not"), evolve(nothing, topics=("x",)))
    assert request.topics, "an empty request of version 0 would be one for all topics"
    assert [each.name for each in answer.topics] == ["not"]


def test_a_missing_topic_is_made_only_for_who_may_create_it(rights: Rights) -> None:
    rights.allow(D, TOPIC, "absent", "may")
    nothing = metadata.MetadataResponse(brokers=(), cluster_id="c", controller_id=1, topics=())
    request, answer = rights.complete(metadata.METADATA, 9, metadata_of("may", "absent"), nothing)
    assert [each.name for each in request.topics] == ["may"]
    assert codes(answer.topics) == [TOPIC_FAILED]
    request, _ = rights.complete(metadata.METADATA, 9, metadata_of("absent", allow_auto_topic_creation=False), nothing)
    assert [each.name for each in request.topics] == ["absent"], "it is unknown"
    rights.allow(AclOperation.CREATE, TOPIC, "absent")
    request, answer = rights.complete(metadata.METADATA, 9, metadata_of("may", "absent"), nothing)
    assert len(request.topics) == 2
    assert answer.topics == ()


def test_parts_of_all_topics_are_parts_of_those_that_may_be_described(rights: Rights) -> None:
    api, none = describe_topic_partitions.DESCRIBE_TOPIC_PARTITIONS, evolve(DESCRIBE_TOPICS, topics=())
    empty = describe_topic_partitions.DescribeTopicPartitionsResponse(topics=())
    assert rights.refuse(api, 0, none) == empty
    rights.allow(D, TOPIC, "may")
    request, _ = rights.complete(api, 0, none, empty)
    assert [topic.name for topic in request.topics] == ["may"]
    described = describe_topic_partitions.DescribedTopic(
        error_code=0, name="may", topic_id=NO_UUID, partitions=(), topic_authorized_operations=ON_TOPIC
    )
    request, answer = rights.complete(api, 0, DESCRIBE_TOPICS, evolve(empty, topics=(described,)))
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("may", 0), ("not", TOPIC_FAILED)]
    assert answer.topics[0].topic_authorized_operations == 1 << D


def test_offsets_are_committed_and_fetched_for_the_allowed_topics_of_the_allowed_groups(rights: Rights) -> None:
    rights.allow(R, GROUP, "g")
    rights.allow(R, TOPIC, "may")
    request, answer = rights.complete(
        offset_commit.OFFSET_COMMIT, 8, commit_of("may", "not"), offset_commit.OffsetCommitResponse(topics=())
    )
    assert [topic.name for topic in request.topics] == ["may"]
    assert [(topic.name, codes(topic)) for topic in answer.topics] == [("not", [TOPIC_FAILED])]

    found = offset_fetch.OffsetFetchResponse(
        groups=(
            offset_fetch.OffsetFetchGroupResponse(
                group_id="g",
                topics=tuple(
                    offset_fetch.OffsetFetchTopicResponse(name=name, partitions=()) for name in ("may", "not")
                ),
            ),
        )
    )
    request, answer = rights.complete(offset_fetch.OFFSET_FETCH, 8, fetch_of(("g", None), ("h", None)), found)
    assert [group.group_id for group in request.groups] == ["g"]
    assert [(each.group_id, each.error_code, len(each.topics)) for each in answer.groups] == [
        ("g", 0, 1),
        ("h", GROUP_FAILED, 0),
    ]
    only = evolve(found, groups=(evolve(found.groups[0], topics=found.groups[0].topics[:1]),))
    request, answer = rights.complete(offset_fetch.OFFSET_FETCH, 8, fetch_of(("g", ("may", "not"))), only)
    assert [topic.name for topic in request.groups[0].topics] == ["may"]
    assert [(topic.name, codes(topic)) for topic in answer.groups[0].topics] == [
        ("may", []),
        ("not", [TOPIC_FAILED, TOPIC_FAILED]),
    ]
    old = offset_fetch.OffsetFetchRequest(group_id="g", topics=None)
    _, answer = rights.complete(
        offset_fetch.OFFSET_FETCH, 5, old, offset_fetch.OffsetFetchResponse(topics=found.groups[0].topics)
    )
    assert [topic.name for topic in answer.topics] == ["may"]


def test_groups_are_listed_described_and_deleted_each_for_itself(rights: Rights) -> None:
    rights.allow(D, GROUP, "g")
    listed = list_groups.ListGroupsResponse(
        error_code=0,
        groups=tuple(list_groups.ListedGroup(group_id=each, protocol_type="consumer") for each in ("g", "h")),
    )
    _, answer = rights.complete(list_groups.LIST_GROUPS, 4, LIST_ALL, listed)
    assert [each.group_id for each in answer.groups] == ["g"]
    described = describe_groups.DescribeGroupsResponse(
        groups=(
            describe_groups.DescribedGroup(
                error_code=0, group_id="g", group_state="Empty", protocol_type="", protocol_data="", members=(),
                authorized_operations=ON_GROUP,
            ),
        )
    )  # fmt: skip
    request, answer = rights.complete(describe_groups.DESCRIBE_GROUPS, 5, DESCRIBE_GROUP, described)
    assert request.groups == ("g",)
    assert [(each.group_id, each.error_code) for each in answer.groups] == [("g", 0), ("h", GROUP_FAILED)]
    assert answer.groups[0].authorized_operations == 1 << D
    rights.allow(AclOperation.DELETE, GROUP, "h")
    request, answer = rights.complete(
        delete_groups.DELETE_GROUPS, 2, delete_groups.DeleteGroupsRequest(groups_names=("g", "h")),
        delete_groups.DeleteGroupsResponse(results=()),
    )  # fmt: skip
    assert request.groups_names == ("h",)
    assert [(each.group_id, each.error_code) for each in answer.results] == [("g", GROUP_FAILED)]


def test_topics_are_created_by_the_right_to_all_or_to_each(rights: Rights) -> None:
    rights.allow(AclOperation.CREATE, TOPIC, "may")
    made = answer_to(create_topics.CREATE_TOPICS, create_of("may"))
    request, answer = rights.complete(create_topics.CREATE_TOPICS, 7, create_of("may", "not"), made)
    assert [topic.name for topic in request.topics] == ["may"]
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("may", 0), ("not", TOPIC_FAILED)]
    shown = answer.topics[0]
    assert (shown.topic_config_error_code, shown.num_partitions, shown.configs) == (TOPIC_FAILED, -1, None)
    rights.allow(AclOperation.CREATE, CLUSTER)
    rights.allow(AclOperation.DESCRIBE_CONFIGS, TOPIC, "may", "not")
    made = answer_to(create_topics.CREATE_TOPICS, create_of("may", "not"))
    assert rights.complete(create_topics.CREATE_TOPICS, 7, create_of("may", "not"), made) == (
        create_of("may", "not"),
        made,
    )


def test_the_name_of_a_topic_given_by_id_is_shown_to_those_who_may_describe_it(rights: Rights) -> None:
    topic_id = rights.broker.image.topics["not"].topic_id
    topics = tuple(delete_topics.DeleteTopic(topic_id=each) for each in (topic_id, UNKNOWN_ID))
    asked = delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=1)
    nothing = delete_topics.DeleteTopicsResponse(responses=())
    request, answer = rights.complete(delete_topics.DELETE_TOPICS, 6, asked, nothing)
    assert request.topics == topics[1:]
    assert [(each.name, each.topic_id) for each in answer.responses] == [(None, topic_id)]
    rights.allow(D, TOPIC, "not")
    _, answer = rights.complete(delete_topics.DELETE_TOPICS, 6, asked, nothing)
    assert [(each.name, each.error_code) for each in answer.responses] == [("not", TOPIC_FAILED)]


def test_an_idempotent_producer_needs_a_topic_that_it_may_write(rights: Rights) -> None:
    api = init_producer_id.INIT_PRODUCER_ID
    assert rights.refuse(api, 4, INIT).producer_epoch == -1
    rights.allow(W, TOPIC, "may")
    assert isinstance(rights.guard(api, 4, INIT), Admitted)
    assert isinstance(rights.guard(api, 4, evolve(INIT, transactional_id="x")), Denied)


# ---------------------------------------------------------------- reports


def test_a_refusal_is_reported_once_and_again_with_its_number_later(rights: Rights) -> None:
    access = rights.access()
    for _ in range(5):
        assert not access.may(R, TOPIC, "not")
    assert rights.events == [{"principal": ALICE, "host": "::1", "operation": "READ", "resource": "TOPIC not"}]
    rights.broker.now += QUIET_S
    assert not access.may(R, TOPIC, "not")
    assert rights.events[1]["times"] == 5
    long = "t" * 40_000
    assert not access.may(R, TOPIC, long)
    assert len(rights.events[-1]["resource"]) < 400


def test_a_connection_that_has_proven_nothing_is_anonymous() -> None:
    assert Caller().principal == ANONYMOUS == "User:ANONYMOUS"
    assert Caller().member is None
