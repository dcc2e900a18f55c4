"""Guards of the APIs about transactions; errors stand at each partition, topic and transactional id, as in Kafka."""

from kafka_compat.acls import ResourceType
from kafka_compat.broker.access import Access
from kafka_compat.broker.guards.admission import (
    CLUSTER_FAILED,
    GROUP_FAILED,
    TOPIC_FAILED,
    TRANSACTION_FAILED,
    Admission,
    Admitted,
    Denied,
    admit_some,
    appending,
    split,
)
from kafka_compat.coordinator.answers import transaction_commit_response
from kafka_compat.protocol.apis.describe_transactions import (
    DescribedProducersPartition,
    DescribedProducersTopic,
    DescribedTransaction,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka_compat.protocol.apis.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsPartitionResult,
    AddPartitionsTopic,
    AddPartitionsTopicResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafka_compat.protocol.apis.txn_markers import (
    TxnMarkerPartitionResult,
    TxnMarkerResult,
    TxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafka_compat.protocol.authorized import AclOperation
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import evolve

CLUSTER, GROUP, TOPIC = ResourceType.CLUSTER, ResourceType.GROUP, ResourceType.TOPIC
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
BROKERS_VERSION = 4
"""From this version on AddPartitionsToTxn is for brokers."""


def _may_write(access: Access, transactional_id: str) -> bool:
    return access.may(AclOperation.WRITE, TRANSACTIONAL_ID, transactional_id)


def _results(topics: tuple[AddPartitionsTopic, ...], error: KafkaErrorCode) -> tuple[AddPartitionsTopicResult, ...]:
    return tuple(
        AddPartitionsTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                AddPartitionsPartitionResult(partition_index=number, partition_error_code=error)
                for number in topic.partitions
            ),
        )
        for topic in topics
    )


def guard_add_partitions(access: Access, version: int, request: AddPartitionsToTxnRequest) -> Admission:
    """WRITE on the transactional id and on each topic: all are added or none. CLUSTER_ACTION for brokers."""
    if version >= BROKERS_VERSION:
        if access.may(AclOperation.CLUSTER_ACTION, CLUSTER):
            return Admitted(request)
        return Denied(AddPartitionsToTxnResponse(error_code=CLUSTER_FAILED))
    if not _may_write(access, request.v3_and_below_transactional_id):
        refused = _results(request.v3_and_below_topics, TRANSACTION_FAILED)
        return Denied(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=refused))
    allowed, denied = split(access, AclOperation.WRITE, TOPIC, request.v3_and_below_topics, lambda topic: topic.name)
    if not denied:
        return Admitted(request)
    others = _results(allowed, KafkaErrorCode.OPERATION_NOT_ATTEMPTED)
    refused = (*others, *_results(denied, TOPIC_FAILED))
    return Denied(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=refused))


def guard_add_offsets(access: Access, version: int, request: AddOffsetsToTxnRequest) -> Admission:
    """WRITE on the transactional id, and READ on the group."""
    if not _may_write(access, request.transactional_id):
        return Denied(AddOffsetsToTxnResponse(error_code=TRANSACTION_FAILED))
    if not access.may(AclOperation.READ, GROUP, request.group_id):
        return Denied(AddOffsetsToTxnResponse(error_code=GROUP_FAILED))
    return Admitted(request)


def guard_end(access: Access, version: int, request: EndTxnRequest) -> Admission:
    """WRITE on the transactional id."""
    if _may_write(access, request.transactional_id):
        return Admitted(request)
    return Denied(EndTxnResponse(error_code=TRANSACTION_FAILED))


def guard_offset_commit(access: Access, version: int, request: TxnOffsetCommitRequest) -> Admission:
    """WRITE on the transactional id, READ on the group, and READ on each topic."""
    if not _may_write(access, request.transactional_id):
        return Denied(transaction_commit_response(request, TRANSACTION_FAILED))
    if not access.may(AclOperation.READ, GROUP, request.group_id):
        return Denied(transaction_commit_response(request, GROUP_FAILED))
    parts = split(access, AclOperation.READ, TOPIC, request.topics, lambda topic: topic.name)
    refused = transaction_commit_response(evolve(request, topics=parts[1]), TOPIC_FAILED).topics
    return admit_some(request, "topics", parts, appending("topics", refused), TxnOffsetCommitResponse(topics=()))


def guard_markers(access: Access, version: int, request: WriteTxnMarkersRequest) -> Admission:
    """ALTER on the cluster, as operators have it who end a hanging transaction, or CLUSTER_ACTION, as brokers do."""
    if access.may(AclOperation.ALTER, CLUSTER, quiet=True) or access.may(AclOperation.CLUSTER_ACTION, CLUSTER):
        return Admitted(request)
    return Denied(
        WriteTxnMarkersResponse(
            markers=tuple(
                TxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=tuple(
                        TxnMarkerTopicResult(
                            name=topic.name,
                            partitions=tuple(
                                TxnMarkerPartitionResult(partition_index=number, error_code=CLUSTER_FAILED)
                                for number in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker in request.markers
            )
        )
    )


def guard_producers(access: Access, version: int, request: DescribeProducersRequest) -> Admission:
    """READ on each topic."""
    parts = split(access, AclOperation.READ, TOPIC, request.topics, lambda topic: topic.name)
    refused = tuple(
        DescribedProducersTopic(
            name=topic.name,
            partitions=tuple(
                DescribedProducersPartition(partition_index=number, error_code=TOPIC_FAILED)
                for number in topic.partition_indexes
            ),
        )
        for topic in parts[1]
    )
    return admit_some(request, "topics", parts, appending("topics", refused), DescribeProducersResponse(topics=()))


def guard_describe(access: Access, version: int, request: DescribeTransactionsRequest) -> Admission:
    """DESCRIBE on each transactional id, and DESCRIBE on the topics that are shown."""

    def complete(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        states = tuple(
            evolve(
                state,
                topics=tuple(
                    topic for topic in state.topics if access.may(AclOperation.DESCRIBE, TOPIC, topic.topic, quiet=True)
                ),
            )
            for state in response.transaction_states
        )
        return evolve(response, transaction_states=(*states, *refused))

    allowed, denied = split(
        access, AclOperation.DESCRIBE, TRANSACTIONAL_ID, request.transactional_ids, lambda name: name
    )
    refused = tuple(DescribedTransaction(error_code=TRANSACTION_FAILED, transactional_id=name) for name in denied)
    if denied and not allowed:
        return Denied(DescribeTransactionsResponse(transaction_states=refused))
    return Admitted(evolve(request, transactional_ids=allowed), complete)


def guard_list(access: Access, version: int, request: ListTransactionsRequest) -> Admission:
    """The transactional ids that the caller may DESCRIBE are listed."""

    def complete(response: ListTransactionsResponse) -> ListTransactionsResponse:
        return evolve(
            response,
            transaction_states=tuple(
                state
                for state in response.transaction_states
                if access.may(AclOperation.DESCRIBE, TRANSACTIONAL_ID, state.transactional_id, quiet=True)
            ),
        )

    return Admitted(request, complete)
