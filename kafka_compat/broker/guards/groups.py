"""Guards of the APIs about groups; errors stand at each group and topic, as in Kafka."""

from typing import Any

from kafka_compat.acls import ResourceType
from kafka_compat.broker.access import Access
from kafka_compat.broker.guards.admission import (
    GROUP_FAILED,
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
from kafka_compat.broker.guards.topics import name_of
from kafka_compat.coordinator.answers import FETCH_GROUPS_VERSION, described_error, error_response
from kafka_compat.protocol.apis.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)
from kafka_compat.protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_compat.protocol.apis.delete_groups import DeleteGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kafka_compat.protocol.apis.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_compat.protocol.apis.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FoundCoordinator,
)
from kafka_compat.protocol.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_compat.protocol.apis.offset_commit import (
    OffsetCommitPartitionResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopicResponse,
)
from kafka_compat.protocol.apis.offset_delete import (
    OffsetDeletePartitionResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteTopicResponse,
)
from kafka_compat.protocol.apis.offset_fetch import (
    OffsetFetchGroup,
    OffsetFetchGroupResponse,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopic,
    OffsetFetchTopicResponse,
)
from kafka_compat.protocol.authorized import AclOperation
from log.values import evolve

GROUP, TOPIC, TRANSACTIONAL_ID = ResourceType.GROUP, ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2
KEYS_VERSION = 4
NO_OFFSET = -1


def guard_member(access: Access, version: int, request: Any) -> Admission:
    """READ on the group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""
    if access.may(AclOperation.READ, GROUP, request.group_id):
        return Admitted(request)
    return Denied(error_response(version, request, GROUP_FAILED))


def guard_consumer_heartbeat(access: Access, version: int, request: ConsumerGroupHeartbeatRequest) -> Admission:
    """READ on the group, and DESCRIBE on each topic that the member subscribes to."""
    if not access.may(AclOperation.READ, GROUP, request.group_id):
        return Denied(error_response(version, request, GROUP_FAILED))
    for name in request.subscribed_topic_names or ():
        if not access.may(AclOperation.DESCRIBE, TOPIC, name):
            return Denied(error_response(version, request, TOPIC_FAILED))
    return Admitted(request)


# -------------------------------------------------------------------- coordinators


def guard_find_coordinator(access: Access, version: int, request: FindCoordinatorRequest) -> Admission:
    """DESCRIBE on each group or transactional id."""
    kind = {GROUP_KEY: GROUP, TRANSACTION_KEY: TRANSACTIONAL_ID}.get(request.key_type)
    if kind is None:
        return Admitted(request)
    error = GROUP_FAILED if kind is GROUP else TRANSACTION_FAILED
    if version < KEYS_VERSION:
        if access.may(AclOperation.DESCRIBE, kind, request.key):
            return Admitted(request)
        return Denied(FindCoordinatorResponse(error_code=error, node_id=-1, host="", port=-1))
    parts = split(access, AclOperation.DESCRIBE, kind, request.coordinator_keys, lambda key: key)
    refused = tuple(
        FoundCoordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=None)
        for key in parts[1]
    )
    return admit_some(request, "coordinator_keys", parts, appending("coordinators", refused), FindCoordinatorResponse())


# -------------------------------------------------------------------- groups


def guard_describe_groups(access: Access, version: int, request: DescribeGroupsRequest) -> Admission:
    """DESCRIBE on each group."""
    groups, denied = split(access, AclOperation.DESCRIBE, GROUP, request.groups, lambda group: group)
    refused = tuple(described_error(group, GROUP_FAILED) for group in denied)

    def complete(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
        described = (
            evolve(
                each, authorized_operations=with_operations(access, GROUP, each.group_id, each.authorized_operations)
            )
            for each in response.groups
        )
        return evolve(response, groups=(*described, *refused))

    if denied and not groups:
        return Denied(DescribeGroupsResponse(groups=refused))
    return Admitted(evolve(request, groups=groups), complete)


def guard_describe_consumers(access: Access, version: int, request: ConsumerGroupDescribeRequest) -> Admission:
    """DESCRIBE on each group, and on each topic that its members read."""
    groups, denied = split(access, AclOperation.DESCRIBE, GROUP, request.group_ids, lambda group: group)
    refused = tuple(DescribedConsumerGroup(error_code=GROUP_FAILED, group_id=group) for group in denied)

    def show(group: DescribedConsumerGroup) -> DescribedConsumerGroup:
        names = {name for member in group.members for name in member.subscribed_topic_names}
        if not all(access.may(AclOperation.DESCRIBE, TOPIC, name, quiet=True) for name in sorted(names)):
            text = "The group has described topic(s) that the client is not authorized to describe."
            return DescribedConsumerGroup(error_code=TOPIC_FAILED, error_message=text, group_id=group.group_id)
        operations = with_operations(access, GROUP, group.group_id, group.authorized_operations)
        return evolve(group, authorized_operations=operations)

    def complete(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
        return evolve(response, groups=(*map(show, response.groups), *refused))

    if denied and not groups:
        return Denied(ConsumerGroupDescribeResponse(groups=refused))
    return Admitted(evolve(request, group_ids=groups), complete)


def guard_list_groups(access: Access, version: int, request: ListGroupsRequest) -> Admission:
    """DESCRIBE on the cluster shows all groups, DESCRIBE on some of them these."""
    if access.may(AclOperation.DESCRIBE, ResourceType.CLUSTER, quiet=True):
        return Admitted(request)

    def complete(response: ListGroupsResponse) -> ListGroupsResponse:
        shown = (
            each for each in response.groups if access.may(AclOperation.DESCRIBE, GROUP, each.group_id, quiet=True)
        )
        return evolve(response, groups=tuple(shown))

    return Admitted(request, complete)


def guard_delete_groups(access: Access, version: int, request: DeleteGroupsRequest) -> Admission:
    """DELETE on each group."""
    parts = split(access, AclOperation.DELETE, GROUP, request.groups_names, lambda group: group)
    refused = tuple(DeleteGroupResult(group_id=group, error_code=GROUP_FAILED) for group in parts[1])
    return admit_some(request, "groups_names", parts, appending("results", refused), DeleteGroupsResponse(results=()))


# -------------------------------------------------------------------- offsets


def guard_offset_commit(access: Access, version: int, request: OffsetCommitRequest) -> Admission:
    """READ on the group and on each topic."""
    if not access.may(AclOperation.READ, GROUP, request.group_id):
        return Denied(error_response(version, request, GROUP_FAILED))
    parts = split(access, AclOperation.READ, TOPIC, request.topics, lambda topic: name_of(access, topic))
    refused = tuple(
        OffsetCommitTopicResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                OffsetCommitPartitionResponse(partition_index=each.partition_index, error_code=TOPIC_FAILED)
                for each in topic.partitions
            ),
        )
        for topic in parts[1]
    )
    return admit_some(request, "topics", parts, appending("topics", refused), OffsetCommitResponse(topics=()))


def guard_offset_delete(access: Access, version: int, request: OffsetDeleteRequest) -> Admission:
    """DELETE on the group, and READ on each topic."""
    if not access.may(AclOperation.DELETE, GROUP, request.group_id):
        return Denied(error_response(version, request, GROUP_FAILED))
    parts = split(access, AclOperation.READ, TOPIC, request.topics, lambda topic: topic.name)
    refused = tuple(
        OffsetDeleteTopicResponse(
            name=topic.name,
            partitions=tuple(
                OffsetDeletePartitionResponse(partition_index=each.partition_index, error_code=TOPIC_FAILED)
                for each in topic.partitions
            ),
        )
        for topic in parts[1]
    )
    nothing = OffsetDeleteResponse(error_code=0, topics=())
    return admit_some(request, "topics", parts, appending("topics", refused), nothing)


def guard_offset_fetch(access: Access, version: int, request: OffsetFetchRequest) -> Admission:
    """DESCRIBE on each group and each topic; a request for all topics is answered with those that are allowed."""
    if version < FETCH_GROUPS_VERSION:
        return _guard_one_group(access, version, request)
    groups, denied = split(access, AclOperation.DESCRIBE, GROUP, request.groups, lambda group: group.group_id)
    refused = tuple(
        OffsetFetchGroupResponse(group_id=group.group_id, topics=(), error_code=GROUP_FAILED) for group in denied
    )
    admitted: list[OffsetFetchGroup] = []
    refused_topics: dict[str, tuple[OffsetFetchTopicResponse, ...]] = {}
    open_groups: set[str] = set()
    for group in groups:
        if group.topics is None:
            open_groups.add(group.group_id)
            admitted.append(group)
            continue
        allowed, topics = _split_topics(access, group.topics)
        if topics:
            refused_topics[group.group_id] = _refuse_topics(topics)
        admitted.append(evolve(group, topics=allowed))

    def complete_group(group: OffsetFetchGroupResponse) -> OffsetFetchGroupResponse:
        topics = group.topics
        if group.group_id in open_groups:
            topics = tuple(each for each in topics if _may_describe(access, each))
        added = () if group.error_code else refused_topics.get(group.group_id, ())
        return evolve(group, topics=(*topics, *added))

    def complete(response: OffsetFetchResponse) -> OffsetFetchResponse:
        return evolve(response, groups=(*map(complete_group, response.groups), *refused))

    if denied and not groups:
        return Denied(OffsetFetchResponse(groups=refused))
    return Admitted(evolve(request, groups=tuple(admitted)), complete)


def _guard_one_group(access: Access, version: int, request: OffsetFetchRequest) -> Admission:
    if not access.may(AclOperation.DESCRIBE, GROUP, request.group_id):
        return Denied(error_response(version, request, GROUP_FAILED))
    if request.topics is None:

        def keep_allowed(response: OffsetFetchResponse) -> OffsetFetchResponse:
            return evolve(response, topics=tuple(each for each in response.topics if _may_describe(access, each)))

        return Admitted(request, keep_allowed)
    parts = _split_topics(access, request.topics)
    merge = appending("topics", _refuse_topics(parts[1]))

    def complete(response: OffsetFetchResponse) -> OffsetFetchResponse:
        merged: OffsetFetchResponse = response if response.error_code else merge(response)
        return merged

    return admit_some(request, "topics", parts, complete, OffsetFetchResponse(topics=()))


def _may_describe(access: Access, topic: OffsetFetchTopicResponse) -> bool:
    name = name_of(access, topic)
    return name is not None and access.may(AclOperation.DESCRIBE, TOPIC, name, quiet=True)


def _split_topics(
    access: Access, topics: tuple[OffsetFetchTopic, ...]
) -> tuple[tuple[OffsetFetchTopic, ...], tuple[OffsetFetchTopic, ...]]:
    return split(access, AclOperation.DESCRIBE, TOPIC, topics, lambda topic: name_of(access, topic))


def _refuse_topics(topics: tuple[OffsetFetchTopic, ...]) -> tuple[OffsetFetchTopicResponse, ...]:
    return tuple(
        OffsetFetchTopicResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                OffsetFetchPartitionResponse(
                    partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=TOPIC_FAILED
                )
                for index in topic.partition_indexes
            ),
        )
        for topic in topics
    )
