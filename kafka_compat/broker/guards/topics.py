"""Guards of the APIs about topics and their records; errors stand at each topic or partition, as in Kafka."""

from typing import Any

from kafka_compat.acls import CLUSTER_NAME, ResourceType
from kafka_compat.broker.access import Access
from kafka_compat.broker.guards.admission import (
    TOPIC_FAILED,
    TRANSACTION_FAILED,
    Admission,
    Admitted,
    Denied,
    admit_some,
    appending,
    split,
    with_operations,
)
from kafka_compat.model import INTERNAL_TOPICS
from kafka_compat.protocol.apis.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kafka_compat.protocol.apis.create_topics import CreateTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kafka_compat.protocol.apis.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kafka_compat.protocol.apis.delete_topics import DeleteTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kafka_compat.protocol.apis.describe_topic_partitions import (
    DescribedTopic,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
    DescribeTopicPartitionsResponse,
)
from kafka_compat.protocol.apis.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafka_compat.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataTopic
from kafka_compat.protocol.apis.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from kafka_compat.protocol.apis.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    ProduceTopicResponse,
)
from kafka_compat.protocol.authorized import AclOperation
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.schema import NO_UUID
from log.values import evolve

TOPIC = ResourceType.TOPIC
UNKNOWN = -1
NULL_NAME_VERSION = 12
"""From this version of Metadata a topic that is given by its id has no name in a refusal."""


def name_of(access: Access, topic: Any) -> str | None:
    """Returns the name of a topic that a request names or gives by id; None for an unknown id."""
    if topic.topic_id == NO_UUID:
        name: str | None = topic.name
        return name
    found = access.image.topics_by_id.get(topic.topic_id)
    return None if found is None else found.name


# -------------------------------------------------------------------- records


def guard_produce(access: Access, version: int, request: ProduceRequest) -> Admission:
    """WRITE on each topic, and on the transactional id."""
    identity = request.transactional_id
    error = TOPIC_FAILED
    if identity is None or access.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, identity):
        parts = split(access, AclOperation.WRITE, TOPIC, request.topic_data, lambda each: name_of(access, each))
    else:
        parts, error = ((), request.topic_data), TRANSACTION_FAILED
    allowed, denied = parts
    if request.acks == 0 and denied:
        return Admitted(evolve(request, topic_data=allowed), lambda _: _) if allowed else Denied(None, closes=True)
    refused = tuple(_refuse_produce(topic, error) for topic in denied)
    return admit_some(request, "topic_data", parts, appending("responses", refused), ProduceResponse(responses=()))


def _refuse_produce(topic: ProduceTopic, error: KafkaErrorCode) -> ProduceTopicResponse:
    return ProduceTopicResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=tuple(
            ProducePartitionResponse(index=partition.index, error_code=error, base_offset=UNKNOWN)
            for partition in topic.partition_data
        ),
    )


def guard_list_offsets(access: Access, version: int, request: ListOffsetsRequest) -> Admission:
    """DESCRIBE on each topic."""
    parts = split(access, AclOperation.DESCRIBE, TOPIC, request.topics, lambda topic: topic.name)
    refused = tuple(
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=tuple(
                ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=TOPIC_FAILED)
                for each in topic.partitions
            ),
        )
        for topic in parts[1]
    )
    return admit_some(request, "topics", parts, appending("topics", refused), ListOffsetsResponse(topics=()))


def guard_delete_records(access: Access, version: int, request: DeleteRecordsRequest) -> Admission:
    """DELETE on each topic."""
    parts = split(access, AclOperation.DELETE, TOPIC, request.topics, lambda topic: topic.name)
    refused = tuple(
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=tuple(
                DeleteRecordsPartitionResult(
                    partition_index=each.partition_index, low_watermark=UNKNOWN, error_code=TOPIC_FAILED
                )
                for each in topic.partitions
            ),
        )
        for topic in parts[1]
    )
    return admit_some(request, "topics", parts, appending("topics", refused), DeleteRecordsResponse(topics=()))


def guard_leader_epochs(access: Access, version: int, request: OffsetForLeaderEpochRequest) -> Admission:
    """CLUSTER_ACTION on the cluster, as brokers have it, or DESCRIBE on each topic."""
    if access.may(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, quiet=True):
        return Admitted(request)
    parts = split(access, AclOperation.DESCRIBE, TOPIC, request.topics, lambda topic: topic.topic)
    refused = tuple(
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=tuple(
                OffsetForLeaderPartitionResult(error_code=TOPIC_FAILED, partition=each.partition)
                for each in topic.partitions
            ),
        )
        for topic in parts[1]
    )
    return admit_some(request, "topics", parts, appending("topics", refused), OffsetForLeaderEpochResponse(topics=()))


# -------------------------------------------------------------------- what there is


def guard_metadata(access: Access, version: int, request: MetadataRequest) -> Admission:
    """DESCRIBE on each topic, and CREATE, on the cluster or the topic, of one that the request would make.

    A request for all topics is answered with those that the caller may describe.
    """

    def complete(response: MetadataResponse) -> MetadataResponse:
        told = response.cluster_authorized_operations
        topics = response.topics
        if asks_all:
            topics = tuple(
                each for each in topics if access.may(AclOperation.DESCRIBE, TOPIC, each.name or "", quiet=True)
            )
        if request.include_topic_authorized_operations:
            topics = tuple(
                evolve(
                    each,
                    topic_authorized_operations=with_operations(
                        access, TOPIC, each.name, each.topic_authorized_operations
                    ),
                )
                for each in topics
            )
        return evolve(
            response, topics=(*topics, *refused), cluster_authorized_operations=operations_on_cluster(access, told)
        )

    refused: tuple[MetadataTopic, ...] = ()
    asks_all = request.topics is None or (version == 0 and not request.topics)
    if asks_all:
        return Admitted(request, complete)
    assert request.topics is not None, "some were named"
    allowed, denied = split(access, AclOperation.DESCRIBE, TOPIC, request.topics, lambda each: name_of(access, each))
    left: list[MetadataRequestTopic] = []
    unmade: list[MetadataRequestTopic] = []
    for topic in allowed:
        (left if _may_create(access, request, topic) else unmade).append(topic)
    refused = tuple(_refuse_metadata(version, each) for each in (*denied, *unmade))
    if not left and version == 0:
        # An empty request of this version would ask for all topics: ask for one that cannot be instead.
        left = [MetadataRequestTopic(name="")]
        real = complete
        return Admitted(evolve(request, topics=tuple(left)), lambda response: real(evolve(response, topics=())))
    return Admitted(evolve(request, topics=tuple(left)) if refused else request, complete)


def _may_create(access: Access, request: MetadataRequest, topic: MetadataRequestTopic) -> bool:
    if topic.name is None or topic.topic_id != NO_UUID or topic.name in access.image.topics:
        return True
    if not request.allow_auto_topic_creation or not access.settings.flag("auto.create.topics.enable"):
        return True
    if topic.name in INTERNAL_TOPICS:
        return True
    on_cluster = access.may(AclOperation.CREATE, ResourceType.CLUSTER, quiet=True)
    return on_cluster or access.may(AclOperation.CREATE, TOPIC, topic.name)


def _refuse_metadata(version: int, topic: MetadataRequestTopic) -> MetadataTopic:
    name = topic.name if topic.topic_id == NO_UUID else None if version >= NULL_NAME_VERSION else ""
    return MetadataTopic(error_code=TOPIC_FAILED, name=name, topic_id=topic.topic_id, partitions=())


def operations_on_cluster(access: Access, told: int) -> int:
    """Returns what the caller may do with the cluster, or 0 if he may not describe it."""
    may = with_operations(access, ResourceType.CLUSTER, CLUSTER_NAME, told)
    return may if told < 0 or may >> AclOperation.DESCRIBE & 1 else 0


def guard_topic_partitions(access: Access, version: int, request: DescribeTopicPartitionsRequest) -> Admission:
    """DESCRIBE on each topic; a request for all is one for those that the caller may describe."""
    refused: tuple[DescribedTopic, ...] = ()
    if request.topics:
        topics, denied = split(access, AclOperation.DESCRIBE, TOPIC, request.topics, lambda topic: topic.name)
        refused = tuple(
            DescribedTopic(error_code=TOPIC_FAILED, name=topic.name, topic_id=NO_UUID, partitions=())
            for topic in denied
        )
    else:
        topics = tuple(
            DescribeTopicPartitionsRequestTopic(name=name)
            for name in access.image.topics
            if access.may(AclOperation.DESCRIBE, TOPIC, name, quiet=True)
        )

    def complete(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        described = (
            evolve(
                each,
                topic_authorized_operations=with_operations(access, TOPIC, each.name, each.topic_authorized_operations),
            )
            for each in response.topics
        )
        return evolve(response, topics=(*described, *refused))

    if not topics:
        return Denied(complete(DescribeTopicPartitionsResponse(topics=())))
    return Admitted(evolve(request, topics=topics), complete)


# -------------------------------------------------------------------- changes


def guard_create_topics(access: Access, version: int, request: CreateTopicsRequest) -> Admission:
    """CREATE on the cluster or on each topic. Who may not describe the settings of his topic is not shown them."""
    if access.may(AclOperation.CREATE, ResourceType.CLUSTER, quiet=True):
        parts: tuple[tuple[Any, ...], tuple[Any, ...]] = (request.topics, ())
    else:
        parts = split(access, AclOperation.CREATE, TOPIC, request.topics, lambda topic: topic.name)
    refused = tuple(
        CreateTopicResult(name=name, error_code=TOPIC_FAILED, error_message="Authorization failed.", configs=())
        for name in dict.fromkeys(topic.name for topic in parts[1])
    )

    def complete(response: CreateTopicsResponse) -> CreateTopicsResponse:
        return evolve(response, topics=(*(_without_configs(access, each) for each in response.topics), *refused))

    if not parts[0] and parts[1]:
        return Denied(CreateTopicsResponse(topics=refused))
    return Admitted(evolve(request, topics=parts[0]) if refused else request, complete)


def _without_configs(access: Access, result: CreateTopicResult) -> CreateTopicResult:
    if result.error_code or access.may(AclOperation.DESCRIBE_CONFIGS, TOPIC, result.name, quiet=True):
        return result
    return evolve(
        result, configs=None, topic_config_error_code=TOPIC_FAILED, num_partitions=UNKNOWN, replication_factor=UNKNOWN
    )


def guard_delete_topics(access: Access, version: int, request: DeleteTopicsRequest) -> Admission:
    """DELETE on each topic. A topic given by id is named in a refusal only to those who may describe it."""
    names, denied_names = split(access, AclOperation.DELETE, TOPIC, request.topic_names, lambda name: name)
    topics, denied = split(access, AclOperation.DELETE, TOPIC, request.topics, lambda each: name_of(access, each))
    refused = [DeleteTopicResult(name=name, error_code=TOPIC_FAILED) for name in denied_names]
    for topic in denied:
        name = name_of(access, topic)
        assert name is not None, "one without a name is let through"
        shown = topic.name is not None or access.may(AclOperation.DESCRIBE, TOPIC, name, quiet=True)
        refused.append(
            DeleteTopicResult(name=name if shown else None, topic_id=topic.topic_id, error_code=TOPIC_FAILED)
        )
    if not refused:
        return Admitted(request)
    merge = appending("responses", tuple(refused))
    if not names and not topics:
        return Denied(merge(DeleteTopicsResponse(responses=())))
    return Admitted(evolve(request, topic_names=names, topics=topics), merge)


def guard_create_partitions(access: Access, version: int, request: CreatePartitionsRequest) -> Admission:
    """ALTER on each topic."""
    parts = split(access, AclOperation.ALTER, TOPIC, request.topics, lambda topic: topic.name)
    refused = tuple(
        CreatePartitionsTopicResult(name=name, error_code=TOPIC_FAILED)
        for name in dict.fromkeys(topic.name for topic in parts[1])
    )
    return admit_some(request, "topics", parts, appending("results", refused), CreatePartitionsResponse(results=()))
