"""Requests about the controllers' raft group and what it knows, and about settings of clients that no broker here has:
DescribeQuorum, UnregisterBroker, UpdateFeatures, ListConfigResources, DescribeClientQuotas and AlterClientQuotas.
"""

from collections.abc import Mapping
from typing import Any

from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import CommandFailed
from kafka_compat.broker.peers import PeerFailed
from kafka_compat.controller.commands import Acknowledged, CommandResult, ResourceKind, UnregisterBroker
from kafka_compat.protocol.apis.client_quotas import (
    ALTER_CLIENT_QUOTAS,
    DESCRIBE_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuota,
    DescribeClientQuotasResponse,
)
from kafka_compat.protocol.apis.describe_configs import GROUP_RESOURCE
from kafka_compat.protocol.apis.describe_quorum import (
    DESCRIBE_QUORUM,
    METADATA_TOPIC,
    DescribedQuorumPartition,
    DescribedQuorumTopic,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumListener,
    QuorumNode,
    QuorumReplica,
    QuorumTopic,
)
from kafka_compat.protocol.apis.list_config_resources import (
    CLIENT_METRICS,
    LIST_CONFIG_RESOURCES,
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kafka_compat.protocol.apis.unregister_broker import (
    UNREGISTER_BROKER,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from kafka_compat.protocol.apis.update_features import (
    UPDATE_FEATURES,
    FeatureUpdate,
    UpdatedFeature,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.features import ELIGIBLE, levels_of
from raft.net.handlers import serves

BROKER_LOGGER = 8
KINDS = (ResourceKind.TOPIC, ResourceKind.BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP_RESOURCE)
"""The kinds of resources that Kafka lists. Here no logger, client or group has settings of its own."""
NO_QUOTAS = "quotas are not implemented: no user and no client is limited"


class QuorumRequests:
    """The handlers of one broker."""

    def __init__(self, context: Context) -> None:
        self._context = context

    # ---------------------------------------------------------------- DescribeQuorum

    @serves(DESCRIBE_QUORUM.key)
    def describe(self, call: ClientCall) -> None:
        """Answer as the controller, or have it answer; a member that asks has been sent here, and is sent no further."""
        request: DescribeQuorumRequest = call.request
        status = self._context.controller.status()
        leader = status.get("leader", 0)
        if leader and leader == self._context.broker_id:
            topics = tuple(self._describe_topic(each, status) for each in request.topics)
            call.answer(DescribeQuorumResponse(error_code=KafkaErrorCode.NONE, topics=topics, nodes=_nodes_of(status)))
            return

        def on_answer(answer: Any | PeerFailed) -> None:
            if isinstance(answer, PeerFailed):
                answer = DescribeQuorumResponse(
                    error_code=KafkaErrorCode.NOT_LEADER_OR_FOLLOWER,
                    error_message=f"the controller cannot be asked: {answer.reason}",
                )
            call.answer(answer)

        if call.caller.member is not None:
            on_answer(PeerFailed("another broker leads", was_sent=False))
        else:
            self._context.controller.ask(DESCRIBE_QUORUM, call.version, request, on_answer)

    def _describe_topic(self, topic: QuorumTopic, status: Mapping[str, Any]) -> DescribedQuorumTopic:
        partitions = tuple(
            self._describe_group(status)
            if (topic.topic_name, each.partition_index) == (METADATA_TOPIC, 0)
            else DescribedQuorumPartition(
                partition_index=each.partition_index,
                error_code=KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message=f"{METADATA_TOPIC} with partition 0 is the controllers' log",
            )
            for each in topic.partitions
        )
        return DescribedQuorumTopic(topic_name=topic.topic_name, partitions=partitions)

    def _describe_group(self, status: Mapping[str, Any]) -> DescribedQuorumPartition:
        voters = sorted({*status["voters"], *status["outgoing"]})
        return DescribedQuorumPartition(
            partition_index=0,
            error_code=KafkaErrorCode.NONE,
            leader_id=status["leader"],
            leader_epoch=status["term"],
            high_watermark=status["commit_index"] + 1,
            current_voters=tuple(self._replica(each, status) for each in voters),
            observers=tuple(self._replica(each, status) for each in status["learners"]),
        )

    def _replica(self, node: int, status: Mapping[str, Any]) -> QuorumReplica:
        now_ms, last = self._context.wall_ms(), status["last_index"]
        known = status["followers"].get(str(node))
        if node == status["leader"]:
            match, heard_ms = last, now_ms
        elif known is None:
            match, heard_ms = -1, -1
        else:
            match, heard_ms = known["match_index"], now_ms - round(known["silent_s"] * 1000)
        directory = status["directory_ids"].get(str(node), 0)
        return QuorumReplica(
            replica_id=node,
            replica_directory_id=directory.to_bytes(16, "big"),
            log_end_offset=match + 1,
            last_fetch_timestamp=heard_ms,
            last_caught_up_timestamp=heard_ms if match >= status["commit_index"] else -1,
        )

    # ---------------------------------------------------------------- settings of clients

    @serves(LIST_CONFIG_RESOURCES.key)
    def list_resources(self, call: ClientCall) -> None:
        """Answer with the topics and brokers; nothing else has settings of its own."""
        request: ListConfigResourcesRequest = call.request
        kinds = request.resource_types or (KINDS if call.version else (CLIENT_METRICS,))
        if not set(kinds) <= set(KINDS):
            call.answer(ListConfigResourcesResponse(error_code=KafkaErrorCode.UNSUPPORTED_VERSION))
            return
        image = self._context.image
        names = {
            ResourceKind.TOPIC: sorted(image.topics),
            ResourceKind.BROKER: [str(each) for each in sorted(image.brokers)],
            BROKER_LOGGER: [str(each) for each in sorted(image.brokers)],
        }
        found = tuple(
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in dict.fromkeys(kinds)
            for name in names.get(kind, ())
        )
        call.answer(ListConfigResourcesResponse(error_code=KafkaErrorCode.NONE, config_resources=found))

    @serves(DESCRIBE_CLIENT_QUOTAS.key)
    def describe_quotas(self, call: ClientCall) -> None:
        """Answer that there are none."""
        call.answer(DescribeClientQuotasResponse(error_code=KafkaErrorCode.NONE, entries=()))

    @serves(ALTER_CLIENT_QUOTAS.key)
    def alter_quotas(self, call: ClientCall) -> None:
        """Refuse each with the reason: a limit that is taken and not held is a false promise."""
        request: AlterClientQuotasRequest = call.request
        refused = KafkaErrorCode.INVALID_REQUEST
        entries = (
            AlteredQuota(error_code=refused, error_message=NO_QUOTAS, entity=each.entity) for each in request.entries
        )
        call.answer(AlterClientQuotasResponse(entries=tuple(entries)))

    # ---------------------------------------------------------------- brokers and features

    @serves(UNREGISTER_BROKER.key)
    def unregister(self, call: ClientCall) -> None:
        """Have the controller forget a broker that is stopped and has no copies."""
        request: UnregisterBrokerRequest = call.request

        def on_result(result: CommandResult | CommandFailed) -> None:
            error, message = KafkaErrorCode.UNKNOWN_SERVER_ERROR, "another answer"
            if isinstance(result, CommandFailed):
                error, message = result.error, result.reason
            elif isinstance(result, Acknowledged):
                error, message = result.error, result.message
            call.answer(UnregisterBrokerResponse(error_code=error, error_message=message or None))

        if request.broker_id < 0:
            on_result(Acknowledged(KafkaErrorCode.BROKER_ID_NOT_REGISTERED, "the id of a broker is not negative"))
        else:
            self._context.controller.send(UnregisterBroker(request.broker_id), on_result)

    @serves(UPDATE_FEATURES.key)
    def update_features(self, call: ClientCall) -> None:
        """Take the levels that are in force, and refuse others with the reason: none can be had while brokers run."""
        request: UpdateFeaturesRequest = call.request
        levels = levels_of(eligible=self._context.eligible)
        results = [_update(each, levels) for each in request.feature_updates]
        refused = next((each for each in results if each.error_code), None)
        if call.version < 2:
            response = UpdateFeaturesResponse(error_code=KafkaErrorCode.NONE, results=tuple(results))
        elif refused is None:
            response = UpdateFeaturesResponse(error_code=KafkaErrorCode.NONE)
        else:
            response = UpdateFeaturesResponse(error_code=refused.error_code, error_message=refused.error_message)
        call.answer(response)


def _update(wanted: FeatureUpdate, levels: Mapping[str, int]) -> UpdatedFeature:
    level, name = wanted.max_version_level, wanted.feature
    if level == levels.get(name):
        return UpdatedFeature(feature=name, error_code=KafkaErrorCode.NONE)
    if name not in levels:
        message = f"there is no such feature here, but {', '.join(sorted(levels))}"
    elif name == ELIGIBLE:
        message = f"{name} is {levels[name]} by the brokers' setting of that name: start them with another one"
    else:
        message = f"{name} is at level {levels[name]}, and these brokers have no other"
    return UpdatedFeature(feature=name, error_code=KafkaErrorCode.INVALID_UPDATE_VERSION, error_message=message)


def _nodes_of(status: Mapping[str, Any]) -> tuple[QuorumNode, ...]:
    nodes: list[QuorumNode] = []
    for node, address in sorted(status["addresses"].items(), key=lambda each: int(each[0])):
        host, _, port = address.rpartition(":")
        listener = QuorumListener(name="CONTROLLER", host=host, port=int(port))
        nodes.append(QuorumNode(node_id=int(node), listeners=(listener,)))
    return tuple(nodes)
