"""OffsetCommit, OffsetFetch and OffsetDelete, and the deletion of offsets whose retention is over.

Offsets need no members. A program that manages its partitions itself commits with generation -1 to a group that is
Empty, or that the commit creates. Retention follows KIP-211. It begins when a group loses its last member. In a group
of consumers, for a topic without a subscriber, it begins with the last commit.
"""

from collections.abc import Iterable, Iterator

from attrs import define

from kafka_compat.coordinator.answers import (
    FETCH_GROUPS_VERSION,
    NO_OFFSET,
    commit_response,
    transaction_commit_response,
)
from kafka_compat.coordinator.config import CoordinatorConfig
from kafka_compat.coordinator.consumer_group import ConsumerGroup
from kafka_compat.coordinator.consumer_requests import ConsumerRequests
from kafka_compat.coordinator.events import GroupRequestArrived
from kafka_compat.coordinator.group import ClassicGroup, GroupState
from kafka_compat.coordinator.membership import Membership
from kafka_compat.coordinator.offsets import OffsetChange, OffsetStore, Position, has_expired
from kafka_compat.coordinator.record_formats import NO_TIMESTAMP, OffsetCommitValue, group_key
from kafka_compat.coordinator.subscription import CONSUMER_PROTOCOL_TYPE
from kafka_compat.coordinator.writes import CleanUp, CommitWrite, OffsetDeletion, StepOutput, TransactionCommitWrite
from kafka_compat.protocol.apis.offset_commit import OffsetCommitRequest, OffsetCommitResponse
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
from kafka_compat.protocol.apis.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.schema import NO_UUID

TIMESTAMP_MAX = 2**63 - 1
MEMBER_EPOCH_VERSION = 9
"""From this version of OffsetCommit a member by KIP-848 may commit."""
GROUP_NOT_FOUND_VERSION = 9
"""From this version of OffsetCommit an unknown group is GROUP_ID_NOT_FOUND; before, ILLEGAL_GENERATION."""
CLEAN_UP_RECORDS_MAX = 1000
"""Tombstones in one write: a batch has to stay below the topic's largest message."""
NO_COMMIT = OffsetCommitValue(offset=NO_OFFSET, metadata="", commit_timestamp=NO_TIMESTAMP)


@define
class OffsetRequests:
    """The effects of clients and time on the offsets of one coordinator."""

    config: CoordinatorConfig
    groups: dict[str, ClassicGroup]
    offsets: OffsetStore
    membership: Membership
    consumers: ConsumerRequests
    out: StepOutput

    # ------------------------------------------------------------------- commit

    def commit(self, event: GroupRequestArrived, request: OffsetCommitRequest) -> ClassicGroup | None:
        """Answers a commit that is refused, and writes any other. Returns the group, if it is known."""
        group = self.groups.get(request.group_id)
        consumers = self.consumers.groups.get(request.group_id)
        if consumers is not None:
            member_id, epoch = request.member_id, request.generation_id_or_member_epoch
            error = self.consumers.commit_refusal(consumers, member_id, request.group_instance_id, epoch)
            if event.version < MEMBER_EPOCH_VERSION and error is KafkaErrorCode.STALE_MEMBER_EPOCH:
                error = KafkaErrorCode.UNSUPPORTED_VERSION
        else:
            error = _commit_refusal(event.version, request, group)
        known = group is not None or consumers is not None
        if not known and error is KafkaErrorCode.NONE and len(self.groups) >= self.config.groups_max:
            error = KafkaErrorCode.GROUP_MAX_SIZE_REACHED
        if error is not KafkaErrorCode.NONE:
            self.out.answer(event.token, commit_response(request, error))
            return group
        if group is not None and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            self.membership.renew(group, request.member_id)
        changes = tuple(self._changes(request))
        if changes:
            self._append(changes, CommitWrite(event.token, request))
        else:
            self.out.answer(event.token, self.build_response(request, KafkaErrorCode.NONE))
        return group

    def commit_in_transaction(self, event: GroupRequestArrived, request: TxnOffsetCommitRequest) -> ClassicGroup | None:
        """Answers a commit in a transaction that is refused, and writes any other. Returns the group, if it is known.

        A member that names its generation is fenced like any other (KIP-447). Producers that know no members commit
        to a group in any state.
        """
        group = self.groups.get(request.group_id)
        consumers = self.consumers.groups.get(request.group_id)
        if consumers is None:
            error = _transaction_refusal(request, group)
        else:
            error = self._member_refusal_in_transaction(request, consumers)
        if error is not KafkaErrorCode.NONE:
            self.out.answer(event.token, transaction_commit_response(request, error))
            return group
        changes = tuple(self._transaction_changes(request))
        if not changes:
            self.out.answer(event.token, self.build_transaction_response(request, KafkaErrorCode.NONE))
            return group
        write = TransactionCommitWrite(event.token, request)
        producer = request.producer_id, request.producer_epoch
        write_id = self.out.append(tuple(change.record() for change in changes), write, producer, event.guard)
        self.offsets.begin(write_id, changes, request.producer_id)
        return group

    def _member_refusal_in_transaction(self, request: TxnOffsetCommitRequest, group: ConsumerGroup) -> KafkaErrorCode:
        if request.generation_id < 0 and not request.member_id and request.group_instance_id is None:
            return KafkaErrorCode.NONE
        error = self.consumers.commit_refusal(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        stale = error is KafkaErrorCode.STALE_MEMBER_EPOCH
        return KafkaErrorCode.ILLEGAL_GENERATION if stale else error

    def build_transaction_response(
        self, request: TxnOffsetCommitRequest, error: KafkaErrorCode
    ) -> TxnOffsetCommitResponse:
        """Returns the response to a commit in a transaction whose write has ended, with this error or NONE."""
        return transaction_commit_response(request, error, self.config.offset_metadata_max_bytes)

    def _transaction_changes(self, request: TxnOffsetCommitRequest) -> Iterator[OffsetChange]:
        for topic in request.topics:
            for partition in topic.partitions:
                metadata = partition.committed_metadata or ""
                if len(metadata) <= self.config.offset_metadata_max_bytes:
                    value = OffsetCommitValue(
                        offset=partition.committed_offset,
                        leader_epoch=partition.committed_leader_epoch,
                        metadata=metadata,
                        commit_timestamp=self.out.time_ms,
                    )
                    yield OffsetChange(request.group_id, topic.name, partition.partition_index, value)

    def build_response(self, request: OffsetCommitRequest, error: KafkaErrorCode) -> OffsetCommitResponse:
        """Returns the response to a commit whose write has ended, with this error or NONE."""
        return commit_response(request, error, self.config.offset_metadata_max_bytes)

    def _changes(self, request: OffsetCommitRequest) -> Iterator[OffsetChange]:
        time_ms, retention_ms = self.out.time_ms, request.retention_time_ms
        expires = NO_TIMESTAMP if retention_ms < 0 else min(time_ms + retention_ms, TIMESTAMP_MAX)
        for topic in request.topics:
            for partition in topic.partitions:
                metadata = partition.committed_metadata or ""
                if len(metadata) <= self.config.offset_metadata_max_bytes:
                    value = OffsetCommitValue(
                        offset=partition.committed_offset,
                        leader_epoch=partition.committed_leader_epoch,
                        metadata=metadata,
                        commit_timestamp=time_ms,
                        expire_timestamp=expires,
                    )
                    yield OffsetChange(request.group_id, topic.name, partition.partition_index, value)

    def _append(self, changes: tuple[OffsetChange, ...], write: CommitWrite | OffsetDeletion) -> None:
        write_id = self.out.append(tuple(change.record() for change in changes), write)
        self.offsets.begin(write_id, changes)

    # -------------------------------------------------------------------- fetch

    def fetch(self, version: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """Returns the written offsets in any state of the group; -1 for missing ones."""
        if version >= FETCH_GROUPS_VERSION:
            stable = request.require_stable
            return OffsetFetchResponse(groups=tuple(self._fetch_group(group, stable) for group in request.groups))
        return OffsetFetchResponse(topics=self._fetch_topics(request.group_id, request.topics, request.require_stable))

    def _fetch_group(self, request: OffsetFetchGroup, stable: bool) -> OffsetFetchGroupResponse:
        consumers = self.consumers.groups.get(request.group_id)
        names_member = request.member_id is not None or request.member_epoch >= 0
        if consumers is not None and names_member:
            error = self.consumers.commit_refusal(consumers, request.member_id, None, request.member_epoch)
            if error is not KafkaErrorCode.NONE:
                return OffsetFetchGroupResponse(group_id=request.group_id, topics=(), error_code=error)
        topics = self._fetch_topics(request.group_id, request.topics, stable)
        return OffsetFetchGroupResponse(group_id=request.group_id, topics=topics)

    def _fetch_topics(
        self, group: str, topics: tuple[OffsetFetchTopic, ...] | None, stable: bool
    ) -> tuple[OffsetFetchTopicResponse, ...]:
        if topics is None:
            positions = self.offsets.positions(group) if stable else self.offsets.of_group(group)
            found = [(name, NO_UUID, indexes) for name, indexes in _by_topic(positions).items()]
        else:
            found = [(topic.name, topic.topic_id, topic.partition_indexes) for topic in topics]
        return tuple(
            OffsetFetchTopicResponse(
                name=topic,
                topic_id=topic_id,
                partitions=tuple(
                    OffsetFetchPartitionResponse(
                        partition_index=partition,
                        committed_offset=value.offset,
                        committed_leader_epoch=value.leader_epoch,
                        metadata=value.metadata,
                        error_code=error,
                    )
                    for partition, value, error in self._values(group, topic, partitions, stable)
                ),
            )
            for topic, topic_id, partitions in found
        )

    def _values(
        self, group: str, topic: str, partitions: Iterable[int], stable: bool
    ) -> Iterator[tuple[int, OffsetCommitValue, KafkaErrorCode]]:
        for partition in partitions:
            if stable and self.offsets.is_unstable(group, (topic, partition)):
                yield partition, NO_COMMIT, KafkaErrorCode.UNSTABLE_OFFSET_COMMIT
            else:
                yield partition, self.offsets.get(group, topic, partition) or NO_COMMIT, KafkaErrorCode.NONE

    # ------------------------------------------------------------------- delete

    def delete(self, event: GroupRequestArrived, request: OffsetDeleteRequest) -> None:
        """Writes tombstones for the offsets of topics that no member subscribes to, then answers."""
        consumers = self.consumers.groups.get(request.group_id)
        group = consumers or self.groups.get(request.group_id)
        error = (
            KafkaErrorCode.NONE
            if consumers is not None
            else _delete_refusal(request, self.groups.get(request.group_id))
        )
        if error is not KafkaErrorCode.NONE or group is None:
            self.out.answer(event.token, OffsetDeleteResponse(error_code=error, topics=()))
            return
        positions = set(self.offsets.positions(group.id))
        changes = tuple(
            OffsetChange(group.id, topic.name, partition.partition_index, None)
            for topic in request.topics
            if not group.subscribes_to(topic.name)
            for partition in topic.partitions
            if (topic.name, partition.partition_index) in positions
        )
        response = OffsetDeleteResponse(
            error_code=KafkaErrorCode.NONE,
            topics=tuple(
                OffsetDeleteTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        OffsetDeletePartitionResponse(
                            partition_index=partition.partition_index,
                            error_code=KafkaErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                            if group.subscribes_to(topic.name)
                            else KafkaErrorCode.NONE,
                        )
                        for partition in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
        )
        if changes:
            self._append(changes, OffsetDeletion(event.token, response))
        else:
            self.out.answer(event.token, response)

    # ---------------------------------------------------------------- retention

    def delete_topics(self, topics: Iterable[str]) -> None:
        """Writes tombstones for all offsets of these topics."""
        gone = frozenset(topics)
        changes = [
            OffsetChange(group, *position, None)
            for group in dict.fromkeys(self.offsets.changing_groups())
            for position in self.offsets.positions(group)
            if position[0] in gone
        ]
        self._clean_up(changes, [])

    def expire(self) -> None:
        """Writes tombstones for offsets past their retention, and for groups without offsets.

        These groups are Dead from now on.
        """
        changes: list[OffsetChange] = []
        emptied: list[ClassicGroup] = []
        for consumers in list(self.consumers.groups.values()):
            past = list(self._find_unread(consumers))
            changes += (OffsetChange(consumers.id, *position, None) for position in past)
            if not consumers.members and set(self.offsets.positions(consumers.id)) == set(past):
                emptied.append(self.consumers.release(consumers.id))
        for group_id in self.offsets.changing_groups():
            if (
                group_id not in self.groups and group_id not in self.consumers.groups
            ):  # a commit to a new group may have been written, although it timed out
                self.groups[group_id] = ClassicGroup(group_id, state_time_ms=self.out.time_ms)
        for group in [each for each in self.groups.values() if each not in emptied]:
            expired = list(self._find_expired(group))
            changes += (OffsetChange(group.id, *position, None) for position in expired)
            idle = group.state is GroupState.EMPTY and not group.pending_members
            if idle and set(self.offsets.positions(group.id)) == set(expired):
                if group.recorded or expired:
                    emptied.append(group)
                else:
                    del self.groups[group.id]
        self._clean_up(changes, emptied)

    def _find_expired(self, group: ClassicGroup) -> Iterator[Position]:
        empty, stable = group.state is GroupState.EMPTY, group.state is GroupState.STABLE
        simple = group.protocol_type is None
        if not (simple or empty or (stable and group.protocol_type == CONSUMER_PROTOCOL_TYPE)):
            return
        emptied_ms = group.state_time_ms if empty and not simple else NO_TIMESTAMP
        for position, value in self.offsets.latest(group.id).items():
            if group.subscribes_to(position[0]) or self.offsets.is_under_way(group.id, position):
                continue
            if self.offsets.is_unstable(group.id, position):
                continue
            if value is None:
                yield position
                continue
            base_ms = value.commit_timestamp if emptied_ms == NO_TIMESTAMP else emptied_ms
            if has_expired(value, base_ms, self.out.time_ms, self.config.offsets_retention_ms):
                yield position

    def _find_unread(self, group: ConsumerGroup) -> Iterator[Position]:
        """Yields the offsets past their retention of topics that no member subscribes to."""
        for position, value in self.offsets.latest(group.id).items():
            if group.subscribes_to(position[0]) or self.offsets.is_under_way(group.id, position):
                continue
            if self.offsets.is_unstable(group.id, position):
                continue
            retention_ms, now_ms = self.config.offsets_retention_ms, self.out.time_ms
            if value is None or has_expired(value, value.commit_timestamp, now_ms, retention_ms):
                yield position

    def _clean_up(self, changes: list[OffsetChange], emptied: list[ClassicGroup]) -> None:
        """Offsets go first: a group whose tombstone is written has none left."""
        for first in range(0, len(changes), CLEAN_UP_RECORDS_MAX):
            part = tuple(changes[first : first + CLEAN_UP_RECORDS_MAX])
            self.offsets.begin(self.out.append(tuple(change.record() for change in part), CleanUp(())), part)
        for first in range(0, len(emptied), CLEAN_UP_RECORDS_MAX):
            groups = tuple(emptied[first : first + CLEAN_UP_RECORDS_MAX])
            for group in groups:
                group.transition(GroupState.DEAD, self.out.time_ms)
            self.out.append(tuple((group_key(group.id), None) for group in groups), CleanUp(groups))


def _commit_refusal(version: int, request: OffsetCommitRequest, group: ClassicGroup | None) -> KafkaErrorCode:
    """Returns the reason to refuse a commit (Kafka's `ClassicGroup.validateOffsetCommit`), or NONE."""
    generation, member_id = request.generation_id_or_member_epoch, request.member_id
    if group is None:
        if generation < 0:
            return KafkaErrorCode.NONE
        unknown = version >= GROUP_NOT_FOUND_VERSION
        return KafkaErrorCode.GROUP_ID_NOT_FOUND if unknown else KafkaErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.DEAD:
        return KafkaErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.state is GroupState.EMPTY:
        return KafkaErrorCode.NONE
    error = group.member_error(member_id, request.group_instance_id)
    if error is KafkaErrorCode.NONE and generation != group.generation:
        return KafkaErrorCode.ILLEGAL_GENERATION
    if error is KafkaErrorCode.NONE and group.state is GroupState.COMPLETING_REBALANCE:
        return KafkaErrorCode.REBALANCE_IN_PROGRESS
    return error


def _transaction_refusal(request: TxnOffsetCommitRequest, group: ClassicGroup | None) -> KafkaErrorCode:
    """Returns the reason to refuse a commit in a transaction, or NONE."""
    names_member = request.generation_id >= 0 or bool(request.member_id) or request.group_instance_id is not None
    if group is None:
        return KafkaErrorCode.ILLEGAL_GENERATION if request.generation_id >= 0 else KafkaErrorCode.NONE
    if group.state is GroupState.DEAD:
        return KafkaErrorCode.COORDINATOR_NOT_AVAILABLE
    if not names_member or (request.generation_id < 0 and group.state is GroupState.EMPTY):
        return KafkaErrorCode.NONE
    error = group.member_error(request.member_id, request.group_instance_id)
    if error is KafkaErrorCode.NONE and request.generation_id != group.generation:
        return KafkaErrorCode.ILLEGAL_GENERATION
    return error


def _delete_refusal(request: OffsetDeleteRequest, group: ClassicGroup | None) -> KafkaErrorCode:
    if not request.group_id:
        return KafkaErrorCode.INVALID_GROUP_ID
    if group is None or group.state is GroupState.DEAD:
        return KafkaErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return KafkaErrorCode.NON_EMPTY_GROUP
    return KafkaErrorCode.NONE


def _by_topic(positions: Iterable[Position]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for topic, partition in positions:
        found.setdefault(topic, []).append(partition)
    return {topic: tuple(partitions) for topic, partitions in found.items()}
