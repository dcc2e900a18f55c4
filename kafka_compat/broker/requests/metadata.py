"""Requests about the cluster: ApiVersions, Metadata, DescribeCluster and DescribeTopicPartitions."""

import re

from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.context import Context
from kafka_compat.broker.topic_creation import TopicCreation
from kafka_compat.broker.turns import Steps
from kafka_compat.controller.image import TopicImage
from kafka_compat.model import INTERNAL_TOPICS, NO_LEADER, PartitionState
from kafka_compat.protocol import authorized
from kafka_compat.protocol.api import API_VERSIONS_KEY
from kafka_compat.protocol.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_compat.protocol.apis.describe_cluster import (
    DESCRIBE_CLUSTER,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kafka_compat.protocol.apis.describe_topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS,
    DescribedTopic,
    DescribedTopicPartition,
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kafka_compat.protocol.apis.metadata import (
    METADATA,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataTopic,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.features import features
from kafka_compat.protocol.registry import list_advertised
from kafka_compat.protocol.schema import NO_UUID
from kafka_compat.topic_names import is_valid_topic_name
from log.values import evolve
from raft.net.handlers import serves

BROKERS, CONTROLLERS = 1, 2
"""The endpoint types of DescribeCluster."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
NULL_NAME_VERSION = 12
"""From this version of Metadata a topic of unknown id has no name."""
PARTITIONS_MAX = 2000
"""The most partitions in one answer to DescribeTopicPartitions (`max.request.partition.size.limit`)."""


class MetadataRequests:
    """The handlers of one broker."""

    def __init__(self, context: Context, creation: TopicCreation) -> None:
        self._context = context
        self._image = context.image
        self._creation = creation

    @serves(API_VERSIONS_KEY)
    def api_versions(self, call: ClientCall) -> None:
        """Answer with the APIs that this broker supports.

        From version 3 on a request must name its software, in letters, digits, dots and hyphens (KIP-511).
        """
        request: ApiVersionsRequest = call.request
        named = (request.client_software_name, request.client_software_version)
        if call.version >= 3 and not all(map(_SOFTWARE.fullmatch, named)):
            call.answer(ApiVersionsResponse(error_code=KafkaErrorCode.INVALID_REQUEST, api_keys=()))
            return
        supported, finalized = features(call.version, eligible=self._context.eligible)
        call.answer(
            ApiVersionsResponse(
                error_code=KafkaErrorCode.NONE,
                api_keys=list_advertised(),
                supported_features=supported,
                finalized_features_epoch=self._image.index,
                finalized_features=finalized,
            )
        )

    # ---------------------------------------------------------------- Metadata

    @serves(METADATA.key)
    def metadata(self, call: ClientCall) -> None:
        """Brokers and topics. Topics that are asked for and do not exist are made first, where that is allowed."""
        request: MetadataRequest = call.request
        asks_all = request.topics is None or (call.version == 0 and not request.topics)
        missing = () if asks_all else self._to_create(request)
        if missing:
            self._creation.create(missing, lambda: self._answer_metadata(call, request.topics))
        else:
            self._answer_metadata(call, None if asks_all else request.topics)

    def _to_create(self, request: MetadataRequest) -> tuple[str, ...]:
        if not request.allow_auto_topic_creation or not self._context.settings.flag("auto.create.topics.enable"):
            return ()
        names = [each.name for each in request.topics or () if each.name is not None and each.topic_id == NO_UUID]
        return tuple(
            name for name in dict.fromkeys(names) if name not in self._image.topics and is_valid_topic_name(name)
        )

    def _answer_metadata(self, call: ClientCall, asked: tuple[MetadataRequestTopic, ...] | None) -> None:
        wanted = tuple(self._image.topics.values()) if asked is None else tuple(dict.fromkeys(asked))
        self._context.turns.run(call, self._metadata_steps(call, wanted))

    def _metadata_steps(self, call: ClientCall, wanted: tuple[TopicImage | MetadataRequestTopic, ...]) -> Steps:
        context = self._context
        request: MetadataRequest = call.request
        operations = authorized.ON_TOPIC if request.include_topic_authorized_operations else authorized.NOT_ASKED
        topics: list[MetadataTopic] = []
        for topic in wanted:
            if isinstance(topic, TopicImage):
                topics.append(self._topic(topic, operations))
            else:
                topics.append(self._asked_topic(call.version, topic, operations))
            yield 1 + len(topics[-1].partitions)
        asks = request.include_cluster_authorized_operations
        response = MetadataResponse(
            brokers=tuple(
                MetadataBroker(node_id=broker.id, host=address[0], port=address[1], rack=broker.rack)
                for broker in context.live_brokers()
                if (address := broker.address_at(call.caller.listener)) is not None
            ),
            cluster_id=context.cluster_id,
            controller_id=context.controller_id(),
            topics=tuple(topics),
            cluster_authorized_operations=authorized.ON_CLUSTER if asks else authorized.NOT_ASKED,
        )
        context.turns.answer(call, response, len(topics) + sum(len(topic.partitions) for topic in topics))

    def _asked_topic(self, version: int, asked: MetadataRequestTopic, operations: int) -> MetadataTopic:
        if asked.name is None or asked.topic_id != NO_UUID:
            found = self._image.topics_by_id.get(asked.topic_id)
            if found is None:
                name = None if version >= NULL_NAME_VERSION else ""
                return _unknown_topic(KafkaErrorCode.UNKNOWN_TOPIC_ID, name, asked.topic_id)
            return self._topic(found, operations)
        found = self._image.topics.get(asked.name)
        if found is not None:
            return self._topic(found, operations)
        if not is_valid_topic_name(asked.name):
            return _unknown_topic(KafkaErrorCode.INVALID_TOPIC_EXCEPTION, asked.name)
        unknown = _unknown_topic(KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION, asked.name)
        return evolve(unknown, topic_authorized_operations=operations)

    def _topic(self, topic: TopicImage, operations: int) -> MetadataTopic:
        return MetadataTopic(
            error_code=KafkaErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=tuple(
                MetadataPartition(
                    error_code=_leader_error(state),
                    partition_index=index,
                    leader_id=state.leader,
                    leader_epoch=state.leader_epoch,
                    replica_nodes=state.replicas,
                    isr_nodes=state.isr,
                    offline_replicas=self._offline(state),
                )
                for index, state in enumerate(topic.partitions)
            ),
            topic_authorized_operations=operations,
        )

    def _offline(self, state: PartitionState) -> tuple[int, ...]:
        brokers = self._image.brokers
        return tuple(each for each in state.replicas if each not in brokers or brokers[each].fenced)

    # ---------------------------------------------------------------- the others

    @serves(DESCRIBE_CLUSTER.key)
    def describe_cluster(self, call: ClientCall) -> None:
        """Answer with the brokers, from version 2 on with the fenced ones on request."""
        request: DescribeClusterRequest = call.request
        context = self._context
        if request.endpoint_type != BROKERS:
            is_other = request.endpoint_type == CONTROLLERS
            call.answer(
                DescribeClusterResponse(
                    error_code=KafkaErrorCode.MISMATCHED_ENDPOINT_TYPE
                    if is_other
                    else KafkaErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                    error_message="this port serves brokers; ask for endpoint type 1",
                    cluster_id=context.cluster_id,
                    brokers=(),
                )
            )
            return
        brokers = sorted(self._image.brokers.values(), key=lambda each: each.id)
        asks = request.include_cluster_authorized_operations
        call.answer(
            DescribeClusterResponse(
                error_code=KafkaErrorCode.NONE,
                cluster_id=context.cluster_id,
                controller_id=context.controller_id(),
                brokers=tuple(
                    DescribeClusterBroker(
                        broker_id=broker.id, host=address[0], port=address[1], rack=broker.rack, is_fenced=broker.fenced
                    )
                    for broker in brokers
                    if request.include_fenced_brokers or not broker.fenced
                    if (address := broker.address_at(call.caller.listener)) is not None
                ),
                cluster_authorized_operations=authorized.ON_CLUSTER if asks else authorized.NOT_ASKED,
            )
        )

    @serves(DESCRIBE_TOPIC_PARTITIONS.key)
    def describe_topic_partitions(self, call: ClientCall) -> None:
        """Topics in the order of their names, in parts of at most `response_partition_limit` partitions."""
        request: DescribeTopicPartitionsRequest = call.request
        room = min(request.response_partition_limit, PARTITIONS_MAX)
        if room < 1:
            call.close(f"a part of {request.response_partition_limit} partitions was asked for")
            return
        cursor = request.cursor
        if cursor is not None and cursor.partition_index < 0:
            call.close(f"a part that begins at partition {cursor.partition_index} was asked for")
            return
        names = sorted({each.name for each in request.topics} or set(self._image.topics))
        if cursor is not None:
            names = [each for each in names if each >= cursor.topic_name]
        topics: list[DescribedTopic] = []
        following: DescribeTopicPartitionsCursor | None = None
        for name in names:
            topic = self._image.topics.get(name)
            if topic is None:
                valid = is_valid_topic_name(name)
                code = KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else KafkaErrorCode.INVALID_TOPIC_EXCEPTION
                topics.append(
                    DescribedTopic(
                        error_code=code,
                        name=name,
                        topic_id=NO_UUID,
                        partitions=(),
                        topic_authorized_operations=authorized.ON_TOPIC,
                    )
                )
                continue
            first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
            first = min(first, len(topic.partitions))
            end = min(len(topic.partitions), first + room)
            if room <= 0:
                following = DescribeTopicPartitionsCursor(topic_name=name, partition_index=0)
                break
            topics.append(self._describe(topic, range(first, end)))
            room -= end - first
            if end < len(topic.partitions):
                following = DescribeTopicPartitionsCursor(topic_name=name, partition_index=end)
                break
        call.answer(DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=following))

    def _describe(self, topic: TopicImage, indexes: range) -> DescribedTopic:
        return DescribedTopic(
            error_code=KafkaErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=tuple(
                DescribedTopicPartition(
                    error_code=_leader_error(topic.partitions[index]),
                    partition_index=index,
                    leader_id=topic.partitions[index].leader,
                    leader_epoch=topic.partitions[index].leader_epoch,
                    replica_nodes=topic.partitions[index].replicas,
                    isr_nodes=topic.partitions[index].isr,
                    eligible_leader_replicas=topic.partitions[index].elr,
                    last_known_elr=topic.partitions[index].suspects,
                    offline_replicas=self._offline(topic.partitions[index]),
                )
                for index in indexes
            ),
            topic_authorized_operations=authorized.ON_TOPIC,
        )


def _leader_error(state: PartitionState) -> KafkaErrorCode:
    return KafkaErrorCode.LEADER_NOT_AVAILABLE if state.leader == NO_LEADER else KafkaErrorCode.NONE


def _unknown_topic(code: KafkaErrorCode, name: str | None, topic_id: bytes = NO_UUID) -> MetadataTopic:
    return MetadataTopic(error_code=code, name=name, topic_id=topic_id, partitions=())
