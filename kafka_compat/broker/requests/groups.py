"""Groups: finds the coordinator of a group, and gives requests to the coordinators of this broker.

A request about several groups is split among the partitions of the offsets topic, and its answers are joined. Topic ids
in requests become names here, and names in answers become ids.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

from kafka_compat.acls import ResourceType
from kafka_compat.broker.calls import ClientCall, GuardedCall
from kafka_compat.broker.context import Context
from kafka_compat.broker.coordinators import Coordinators
from kafka_compat.broker.topic_creation import TopicCreation
from kafka_compat.coordinator.answers import error_response
from kafka_compat.coordinator.effects import GroupResponse
from kafka_compat.coordinator.events import GroupRequest, GroupRequestArrived
from kafka_compat.coordinator.partitioning import join_responses, partition_of, split_request
from kafka_compat.model import NO_LEADER, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_compat.protocol.apis.consumer_group_describe import CONSUMER_GROUP_DESCRIBE
from kafka_compat.protocol.apis.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from kafka_compat.protocol.apis.delete_groups import DELETE_GROUPS
from kafka_compat.protocol.apis.describe_groups import DESCRIBE_GROUPS
from kafka_compat.protocol.apis.find_coordinator import (
    FIND_COORDINATOR,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FoundCoordinator,
)
from kafka_compat.protocol.apis.heartbeat import HEARTBEAT
from kafka_compat.protocol.apis.join_group import JOIN_GROUP
from kafka_compat.protocol.apis.leave_group import LEAVE_GROUP
from kafka_compat.protocol.apis.list_groups import LIST_GROUPS, ListGroupsRequest
from kafka_compat.protocol.apis.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitPartitionResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopic,
    OffsetCommitTopicResponse,
)
from kafka_compat.protocol.apis.offset_delete import (
    OFFSET_DELETE,
    OffsetDeletePartitionResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteTopicResponse,
)
from kafka_compat.protocol.apis.offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchGroup,
    OffsetFetchGroupResponse,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopic,
    OffsetFetchTopicResponse,
)
from kafka_compat.protocol.apis.sync_group import SYNC_GROUP
from kafka_compat.protocol.authorized import AclOperation
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.schema import NO_UUID
from log.values import evolve
from raft.net.handlers import serves

_TOPICS = {0: OFFSETS_TOPIC, 1: TRANSACTIONS_TOPIC}
"""By the type of a key: a group, or a transactional id."""
KEYS_VERSION = 4
"""From this version of FindCoordinator a request names several keys."""
TOPIC_ID_VERSION = 10
"""From this version OffsetCommit and OffsetFetch name topics by id."""
_WITH_TOPICS = (CONSUMER_GROUP_HEARTBEAT.key, CONSUMER_GROUP_DESCRIBE.key)
"""APIs whose coordinators need to know the topics of the cluster."""
Respond = Callable[[GroupResponse], None]


class GroupApiRequests:
    """The handlers of one broker."""

    def __init__(self, context: Context, coordinators: Coordinators, creation: TopicCreation) -> None:
        self._context = context
        self._coordinators = coordinators
        self._creation = creation

    # ---------------------------------------------------------------- FindCoordinator

    @serves(FIND_COORDINATOR.key)
    def find_coordinator(self, call: ClientCall) -> None:
        """Answer with the leader of the partition of a group or a transactional id. The first request makes the topic."""
        request: FindCoordinatorRequest = call.request
        topic = _TOPICS.get(request.key_type)
        if topic is None or topic in self._context.image.topics:
            self._answer_find(call)
        else:
            self._creation.create([topic], lambda: self._answer_find(call))

    def _answer_find(self, call: ClientCall) -> None:
        request: FindCoordinatorRequest = call.request
        if call.version >= KEYS_VERSION:
            found = tuple(self._find(call, key, "") for key in request.coordinator_keys)
            call.answer(FindCoordinatorResponse(coordinators=found))
            return
        one = self._find(call, request.key, KafkaErrorCode.NONE.name)
        call.answer(
            FindCoordinatorResponse(
                error_code=one.error_code,
                error_message=one.error_message,
                node_id=one.node_id,
                host=one.host,
                port=one.port,
            )
        )

    def _find(self, call: ClientCall, key: str, no_error: str) -> FoundCoordinator:
        """Returns the coordinator of a key.

        `no_error` is the message of a successful answer, which Apache Kafka words by version.
        """
        key_type = call.request.key_type
        name = _TOPICS.get(key_type)
        if name is None:
            return _not_found(key, KafkaErrorCode.INVALID_REQUEST, f"there are no coordinators of type {key_type} here")
        image = self._context.image
        topic = image.topics.get(name)
        if topic is None:
            return _not_found(key, KafkaErrorCode.COORDINATOR_NOT_AVAILABLE, f"{name} could not be made yet")
        leader = topic.partitions[partition_of(key, len(topic.partitions))].leader
        broker = None if leader == NO_LEADER else image.brokers.get(leader)
        if broker is None or broker.fenced:
            return _not_found(key, KafkaErrorCode.COORDINATOR_NOT_AVAILABLE, f"the partition of {name} has no leader")
        address = broker.address_at(call.caller.listener)
        if address is None:
            detail = f"broker {broker.id} has no listener {call.caller.listener}"
            return _not_found(key, KafkaErrorCode.COORDINATOR_NOT_AVAILABLE, detail)
        return FoundCoordinator(
            key=key,
            node_id=broker.id,
            host=address[0],
            port=address[1],
            error_code=KafkaErrorCode.NONE,
            error_message=no_error,
        )

    # ---------------------------------------------------------------- requests of groups

    @serves(
        JOIN_GROUP.key,
        SYNC_GROUP.key,
        HEARTBEAT.key,
        LEAVE_GROUP.key,
        DESCRIBE_GROUPS.key,
        LIST_GROUPS.key,
        DELETE_GROUPS.key,
        CONSUMER_GROUP_HEARTBEAT.key,
        CONSUMER_GROUP_DESCRIBE.key,
    )
    def ask(self, call: ClientCall) -> None:
        """Give the request to the coordinators that answer it."""
        self._ask(call, call.request, call.answer)

    def ask_coordinator(self, call: ClientCall, request: GroupRequest, respond: Respond, guard: int) -> None:
        """Give a request in a transaction to the coordinator of its group; `guard` is that of its verification."""
        self._ask(call, request, respond, guard)

    def _ask(self, call: ClientCall, request: GroupRequest, respond: Respond, guard: int = 0) -> None:
        topic = self._context.image.topics.get(OFFSETS_TOPIC)
        if topic is None and isinstance(request, ListGroupsRequest):
            respond(join_responses(request, ()))  # no group was ever made
            return
        if topic is None or (isinstance(request, OffsetFetchRequest) and not self._may_answer(request)):
            respond(self._without_topic(call.version, request))
            return
        parts = split_request(request, call.version, len(topic.partitions), self._coordinators.led)
        if call.header.api_key in _WITH_TOPICS:
            self._coordinators.topics_known(parts)
        responses: list[GroupResponse] = []
        if not parts:
            respond(join_responses(request, ()))
            return

        def on_response(response: GroupResponse) -> None:
            responses.append(response)
            if len(responses) == len(parts):
                respond(join_responses(request, responses))

        for partition, part in parts.items():
            if not self._coordinators.request(partition, self._make_arrival(call, part, guard), on_response):
                on_response(error_response(call.version, part, KafkaErrorCode.NOT_COORDINATOR))

    def _may_answer(self, request: OffsetFetchRequest) -> bool:
        """Returns False if the newest commit may be with another coordinator, for readers whom an old one would mislead.

        Who transforms in transactions (KIP-447) goes on from what is answered here, and would do the same work twice.
        """
        return not request.require_stable or self._context.is_confirmed()

    @staticmethod
    def _without_topic(version: int, request: GroupRequest) -> GroupResponse:
        """Refuse a request without a coordinator that may answer: the client should look for it first."""
        return error_response(version, request, KafkaErrorCode.NOT_COORDINATOR)

    def _make_arrival(
        self, call: ClientCall, request: GroupRequest, guard: int
    ) -> Callable[[int], GroupRequestArrived]:
        context = self._context
        identity = context.new_id().hex()
        suffix = "-".join((identity[:8], identity[8:12], identity[12:16], identity[16:20], identity[20:]))
        access = call.access if isinstance(call, GuardedCall) else None
        may = None if access is None else partial(access.may, AclOperation.DESCRIBE, ResourceType.TOPIC, quiet=True)
        return lambda token: GroupRequestArrived(
            token,
            call.version,
            request,
            context.wall_ms(),
            call.header.client_id or "",
            call.client_host,
            suffix,
            guard,
            may,
        )

    # ---------------------------------------------------------------- topics by name, by id, and unknown ones

    @serves(OFFSET_COMMIT.key)
    def offset_commit(self, call: ClientCall) -> None:
        """Offsets of partitions that do not exist are refused one by one."""
        request: OffsetCommitRequest = call.request
        known: list[OffsetCommitTopic] = []
        unknown: list[OffsetCommitTopicResponse] = []
        image = self._context.image
        for topic in request.topics:
            by_id = call.version >= TOPIC_ID_VERSION
            found = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)
            count = len(found.partitions) if found is not None else 0
            inside = tuple(each for each in topic.partitions if 0 <= each.partition_index < count)
            outside = tuple(each for each in topic.partitions if not 0 <= each.partition_index < count)
            if inside and found is not None:
                known.append(evolve(topic, name=found.name, partitions=inside))
            if outside:
                error = KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if by_id and found is None:
                    error = KafkaErrorCode.UNKNOWN_TOPIC_ID
                unknown.append(
                    OffsetCommitTopicResponse(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partitions=tuple(
                            OffsetCommitPartitionResponse(partition_index=partition.partition_index, error_code=error)
                            for partition in outside
                        ),
                    )
                )
        if not known and unknown:
            call.answer(OffsetCommitResponse(topics=tuple(unknown)))
            return

        def respond(response: GroupResponse) -> None:
            assert isinstance(response, OffsetCommitResponse), "a commit is answered as one"
            call.answer(evolve(response, topics=(*response.topics, *unknown)))

        self._ask(call, evolve(request, topics=tuple(known)), respond)

    @serves(OFFSET_DELETE.key)
    def offset_delete(self, call: ClientCall) -> None:
        """Delete offsets. Unknown partitions are answered here, because they have no offsets."""
        request: OffsetDeleteRequest = call.request
        counts = {each.name: 0 for each in request.topics}
        for name in counts:
            found = self._context.image.topics.get(name)
            counts[name] = len(found.partitions) if found is not None else 0
        unknown = tuple(
            OffsetDeleteTopicResponse(
                name=topic.name,
                partitions=tuple(
                    OffsetDeletePartitionResponse(
                        partition_index=partition.partition_index, error_code=KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    )
                    for partition in topic.partitions
                    if not 0 <= partition.partition_index < counts[topic.name]
                ),
            )
            for topic in request.topics
        )
        known = tuple(
            evolve(
                topic,
                partitions=tuple(each for each in topic.partitions if 0 <= each.partition_index < counts[topic.name]),
            )
            for topic in request.topics
        )

        def respond(response: GroupResponse) -> None:
            assert isinstance(response, OffsetDeleteResponse), "a deletion of offsets is answered as one"
            if not response.error_code:
                found = [each for each in (*response.topics, *unknown) if each.partitions]
                response = evolve(response, topics=tuple(found))
            call.answer(response)

        self._ask(call, evolve(request, topics=known), respond)

    @serves(OFFSET_FETCH.key)
    def offset_fetch(self, call: ClientCall) -> None:
        """From version 10 on topics are named by id.

        A group that is named several times is answered as often, in the order of the request.
        """
        request: OffsetFetchRequest = call.request
        if call.version < TOPIC_ID_VERSION:
            self.ask(call)
            return
        unknown: defaultdict[str, deque[list[OffsetFetchTopicResponse]]] = defaultdict(deque)
        groups: list[OffsetFetchGroup] = []
        for group in request.groups:
            unknown[group.group_id].append([])
            groups.append(self._fill_names(group, unknown[group.group_id][-1]))

        def respond(response: GroupResponse) -> None:
            assert isinstance(response, OffsetFetchResponse), "a fetch of offsets is answered as one"
            answered = tuple(self._fill_ids(each, unknown[each.group_id].popleft()) for each in response.groups)
            call.answer(evolve(response, groups=answered))

        self._ask(call, evolve(request, groups=tuple(groups)), respond)

    def _fill_names(self, group: OffsetFetchGroup, unknown: list[OffsetFetchTopicResponse]) -> OffsetFetchGroup:
        if group.topics is None:
            return group
        topics: list[OffsetFetchTopic] = []
        for topic in group.topics:
            found = self._context.image.topics_by_id.get(topic.topic_id)
            if found is not None:
                topics.append(evolve(topic, name=found.name))
                continue
            unknown.append(
                OffsetFetchTopicResponse(
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        OffsetFetchPartitionResponse(
                            partition_index=index,
                            committed_offset=-1,
                            metadata="",
                            error_code=KafkaErrorCode.UNKNOWN_TOPIC_ID,
                        )
                        for index in topic.partition_indexes
                    ),
                )
            )
        return evolve(group, topics=tuple(topics))

    def _fill_ids(
        self, group: OffsetFetchGroupResponse, unknown: list[OffsetFetchTopicResponse]
    ) -> OffsetFetchGroupResponse:
        topics: list[Any] = []
        for topic in group.topics:
            found = self._context.image.topics.get(topic.name)
            if topic.topic_id != NO_UUID:
                topics.append(topic)
            elif found is not None:
                topics.append(evolve(topic, topic_id=found.topic_id))
        return evolve(group, topics=(*topics, *unknown))


def _not_found(key: str, error: KafkaErrorCode, message: str) -> FoundCoordinator:
    return FoundCoordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
