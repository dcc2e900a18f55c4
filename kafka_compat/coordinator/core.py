"""The group coordinator: the only dispatch. It decides; the shell appends, answers and keeps the time.

Each leadership of a partition of `__consumer_offsets` has one. It loads the partition's records, serves, and ends with
`Resigned`. Everything that a client may rely on is written before it is answered.
"""

import enum
import heapq
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import assert_never

from kafka_compat.coordinator import invariants
from kafka_compat.coordinator.answers import error_response
from kafka_compat.coordinator.classic_members import ClassicMembers
from kafka_compat.coordinator.config import CoordinatorConfig
from kafka_compat.coordinator.consumer_group import ConsumerGroup, KnownTopic
from kafka_compat.coordinator.consumer_records import decode_consumer_record
from kafka_compat.coordinator.consumer_requests import ConsumerRequests
from kafka_compat.coordinator.effects import CoordinatorEffect, GroupResponse
from kafka_compat.coordinator.events import (
    NO_PRODUCER,
    CoordinatorEvent,
    GroupRequest,
    GroupRequestArrived,
    GroupTimePassed,
    LoadFinished,
    Record,
    RecordsLoaded,
    Resigned,
    TopicsKnown,
    TopicsRemoved,
    TransactionEnded,
    WriteFailed,
    Written,
)
from kafka_compat.coordinator.group import ClassicGroup, GroupState
from kafka_compat.coordinator.group_requests import GroupRequests
from kafka_compat.coordinator.membership import Membership
from kafka_compat.coordinator.offset_requests import OffsetRequests
from kafka_compat.coordinator.offsets import OffsetChange, OffsetStore
from kafka_compat.coordinator.record_formats import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_record,
    fits,
)
from kafka_compat.coordinator.writes import (
    UNKNOWN_OUTCOMES,
    AssignmentWrite,
    CleanUp,
    CommitWrite,
    ConsumerGroupWrite,
    DowngradeWrite,
    EmptyGroupWrite,
    GroupDeletion,
    OffsetDeletion,
    PendingWrite,
    StaticMemberWrite,
    StepOutput,
    TransactionCommitWrite,
    client_error,
)
from kafka_compat.protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_compat.protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_compat.protocol.apis.delete_groups import DeleteGroupsRequest
from kafka_compat.protocol.apis.describe_groups import DescribeGroupsRequest
from kafka_compat.protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_compat.protocol.apis.join_group import JoinGroupRequest
from kafka_compat.protocol.apis.leave_group import LeaveGroupRequest
from kafka_compat.protocol.apis.list_groups import ListGroupsRequest
from kafka_compat.protocol.apis.offset_commit import OffsetCommitRequest
from kafka_compat.protocol.apis.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafka_compat.protocol.apis.offset_fetch import OffsetFetchRequest
from kafka_compat.protocol.apis.sync_group import SyncGroupRequest
from kafka_compat.protocol.apis.transactions import TxnOffsetCommitRequest
from kafka_compat.protocol.error_codes import KafkaErrorCode


class CoordinatorPhase(enum.Enum):
    """The phase of a coordinator in its leadership."""

    LOADING = "loading"
    ACTIVE = "active"
    RESIGNED = "resigned"


class GroupCoordinator:
    """Groups and offsets of one partition of the offsets topic, for one leadership."""

    def __init__(self, config: CoordinatorConfig | None = None) -> None:
        self.config = config or CoordinatorConfig()
        self.phase = CoordinatorPhase.LOADING
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = OffsetStore()
        self._out = StepOutput()
        self._membership = Membership(self.config, self.groups, self._out)
        self._consumers = ConsumerRequests(self.config, self.groups, self._membership, self._out)
        self._classic_members = ClassicMembers(self._consumers, self._membership, self._out)
        self._group_requests = GroupRequests(self.groups, self._consumers, self.offsets, self._out)
        self._offset_requests = OffsetRequests(
            self.config, self.groups, self.offsets, self._membership, self._consumers, self._out
        )
        self._due: list[tuple[float, str]] = []
        """A heap of times and group ids.

        Its first entry is the earliest deadline of any group, or earlier; entries may be stale.
        """
        self._scheduled: dict[str, float] = {}
        """The first entry of each group."""
        self._next_check = math.inf
        self._deleted_topics: list[str] = []
        """While loading."""

    @property
    def consumer_groups(self) -> Mapping[str, ConsumerGroup]:
        """The groups by KIP-848."""
        return self._consumers.groups

    @property
    def topics(self) -> Mapping[str, KnownTopic]:
        """The topics of the last `TopicsKnown`."""
        return self._consumers.topics

    @property
    def deadline(self) -> float:
        """The time at which `GroupTimePassed` is due next, in seconds of `now`; infinite if nothing waits for time."""
        return min(self._next_check, self._due[0][0] if self._due else math.inf)

    def step(self, now: float, event: CoordinatorEvent) -> tuple[CoordinatorEffect, ...]:
        """Takes one event; returns the effects in the order in which they are to be carried out.

        `now` is monotonic, in seconds. Raises `MalformedMessage` for unreadable records (then the partition cannot be
        led), and `AssertionError` for a broken invariant.
        """
        self._out.now = now
        match event:
            case GroupRequestArrived():
                self._out.time_ms = event.time_ms
                self._on_arrived(event)
            case Written(write_id=write_id):
                self._on_written(write_id)
            case WriteFailed(write_id=write_id, error=error):
                self._on_failed(write_id, error)
            case RecordsLoaded(records=records, producer_id=producer_id):
                self._load(records, producer_id)
            case TransactionEnded(producer_id=producer_id, commits=commits):
                self._end_transaction(producer_id, commits)
            case LoadFinished(time_ms=time_ms):
                self._out.time_ms = time_ms
                self._begin()
            case TopicsRemoved(topics=topics):
                if self.phase is CoordinatorPhase.LOADING:
                    self._deleted_topics.extend(topics)
                elif self.phase is CoordinatorPhase.ACTIVE:
                    self._offset_requests.delete_topics(topics)
            case TopicsKnown(topics=known):
                self._consumers.topics = known
            case Resigned():
                self._resign()
            case GroupTimePassed(time_ms=time_ms):
                self._out.time_ms = time_ms
                self._expire()
            case _:
                assert_never(event)
        return self._out.drain()

    # ----------------------------------------------------------------- requests

    def _on_arrived(self, event: GroupRequestArrived) -> None:
        match self.phase:
            case CoordinatorPhase.LOADING:
                self._out.answer(event.token, _while_loading(event.version, event.request))
            case CoordinatorPhase.RESIGNED:
                self._refuse(event, KafkaErrorCode.NOT_COORDINATOR)
            case CoordinatorPhase.ACTIVE:
                error = _not_recordable(event.request)
                if error is KafkaErrorCode.NONE:
                    self._serve(event, event.request)
                else:
                    self._refuse(event, error)

    def _serve(self, event: GroupRequestArrived, request: GroupRequest) -> None:
        if (
            isinstance(request, JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest)
            and request.group_id in self._consumers.groups
            and self._serve_classic(event, request)
        ):
            return
        match request:
            case ConsumerGroupHeartbeatRequest():
                self._on_consumers_changed(self._consumers.heartbeat(event, request))
            case ConsumerGroupDescribeRequest():
                self._out.answer(event.token, self._consumers.describe(request))
            case JoinGroupRequest():
                self._on_changed(self._membership.join(event, request))
            case SyncGroupRequest():
                self._on_changed(self._membership.sync(event, request))
            case HeartbeatRequest():
                error, group = self._membership.heartbeat(request)
                self._out.answer(event.token, HeartbeatResponse(error_code=error))
                if group is not None:
                    self._schedule(group)
            case LeaveGroupRequest():
                self._on_changed(self._membership.leave(event, request))
            case OffsetCommitRequest():
                if (group := self._offset_requests.commit(event, request)) is not None:
                    self._schedule(group)
            case TxnOffsetCommitRequest():
                if (group := self._offset_requests.commit_in_transaction(event, request)) is not None:
                    self._schedule(group)
            case OffsetFetchRequest():
                self._out.answer(event.token, self._offset_requests.fetch(event.version, request))
            case OffsetDeleteRequest():
                self._offset_requests.delete(event, request)
            case DescribeGroupsRequest():
                self._out.answer(event.token, self._group_requests.describe(event.version, request))
            case ListGroupsRequest():
                self._out.answer(event.token, self._group_requests.list(request))
            case DeleteGroupsRequest():
                self._group_requests.delete(event, request)
            case _:
                assert_never(request)

    def _serve_classic(
        self,
        event: GroupRequestArrived,
        request: JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest,
    ) -> bool:
        """Answer a request of a classic member about a group by KIP-848. Returns False if the group is classic now."""
        group = self._consumers.groups[request.group_id]
        if not group.members and not isinstance(request, LeaveGroupRequest | JoinGroupRequest):
            self._refuse(event, KafkaErrorCode.UNKNOWN_MEMBER_ID)
            return True
        match request:
            case JoinGroupRequest():
                if not group.members:
                    self._consumers.release(group.id)
                    return False
                if not self._classic_members.join(event, request, group):
                    return False
            case SyncGroupRequest():
                self._classic_members.sync(event, request, group)
            case HeartbeatRequest():
                self._classic_members.beat(event, request, group)
            case LeaveGroupRequest():
                self._classic_members.leave(event, request, group)
            case _:
                assert_never(request)
        self._on_consumers_changed(group)
        return True

    def _refuse(self, event: GroupRequestArrived, error: KafkaErrorCode) -> None:
        self._out.answer(event.token, error_response(event.version, event.request, error))

    # ------------------------------------------------------------------- writes

    def _on_written(self, write_id: int) -> None:
        """Ends this write and all before it: the log has no holes."""
        pending = self._out.pending
        while pending and (first := next(iter(pending))) <= write_id:
            write = pending.pop(first)
            self.offsets.on_written(first)
            self._end(write, KafkaErrorCode.NONE)

    def _on_failed(self, write_id: int, error: KafkaErrorCode) -> None:
        write = self._out.pending.pop(write_id, None)
        if write is not None:
            is_first = all(write_id < each for each in itertools.islice(self._out.pending, 1))
            self.offsets.on_failed(write_id, unknown=error in UNKNOWN_OUTCOMES, is_first=is_first)
            self._end(write, error)

    def _end(self, write: PendingWrite, error: KafkaErrorCode) -> None:
        failed = error is not KafkaErrorCode.NONE
        if not failed and isinstance(write, AssignmentWrite | StaticMemberWrite | EmptyGroupWrite | DowngradeWrite):
            self._membership.owed.pop(write.group.id, None)
        match write:
            case CommitWrite(token=token, request=request):
                if not failed:
                    self._know(request.group_id)
                self._out.answer(token, self._offset_requests.build_response(request, client_error(error)))
            case TransactionCommitWrite(token=token, request=txn_request):
                if not failed:
                    self._know(txn_request.group_id)
                done = self._offset_requests.build_transaction_response(txn_request, client_error(error))
                self._out.answer(token, done)
            case AssignmentWrite(group=group):
                if failed:
                    self._membership.assignment_failed(write, error)
                else:
                    self._membership.assignment_written(write)
                self._on_changed(group)
            case StaticMemberWrite(group=group):
                if failed:
                    self._membership.static_member_failed(write, error)
                else:
                    self._membership.static_member_written(write)
                self._on_changed(group)
            case EmptyGroupWrite() | DowngradeWrite():
                pass
            case GroupDeletion():
                self._group_requests.deletion_ended(write, client_error(error))
            case OffsetDeletion(token=token, response=response):
                answer = OffsetDeleteResponse(error_code=client_error(error), topics=()) if failed else response
                self._out.answer(token, answer)
            case CleanUp(groups=groups):
                self._group_requests.bury(groups, error)
            case ConsumerGroupWrite():
                self._consumers.end(write, error)
            case _:
                assert_never(write)

    def _know(self, group_id: str) -> None:
        """A group that has offsets only is a classic one."""
        if group_id not in self.groups and group_id not in self._consumers.groups:
            self.groups[group_id] = ClassicGroup(group_id, state_time_ms=self._out.time_ms)

    # ---------------------------------------------------------------- leadership

    def _end_transaction(self, producer_id: int, commits: bool) -> None:
        if self.phase is CoordinatorPhase.RESIGNED:
            return
        for group_id in self.offsets.end_transaction(producer_id, commits=commits):
            if self.phase is CoordinatorPhase.ACTIVE:
                self._know(group_id)

    def _load(self, records: Iterable[Record], producer_id: int) -> None:
        """Later records take the place of earlier ones, as compaction would."""
        if self.phase is not CoordinatorPhase.LOADING:
            return
        for key, value in records:
            decoded = decode_record(key, value)
            if decoded is None:
                if (consumers := decode_consumer_record(key, value)) is not None:
                    self._consumers.load(consumers)
                continue
            match decoded[0]:
                case OffsetCommitKey(group=group, topic=topic, partition=partition):
                    offset = decoded[1]
                    assert not isinstance(offset, GroupMetadataValue)
                    if producer_id != NO_PRODUCER:
                        self.offsets.load_in_transaction(producer_id, OffsetChange(group, topic, partition, offset))
                    else:
                        self.offsets.load(group, topic, partition, offset)
                case GroupMetadataKey(group=group):
                    metadata = decoded[1]
                    assert not isinstance(metadata, OffsetCommitValue)
                    self.groups.pop(group, None)
                    if metadata is not None:
                        self._consumers.groups.pop(group, None)
                        self.groups[group] = ClassicGroup.load(group, metadata)

    def _begin(self) -> None:
        if self.phase is not CoordinatorPhase.LOADING:
            return
        self.phase = CoordinatorPhase.ACTIVE
        self._consumers.begin()
        for consumers in list(self._consumers.groups.values()):
            self._on_consumers_changed(consumers)
        for group_id in self.offsets.groups():
            if group_id not in self.groups and group_id not in self._consumers.groups:
                self.groups[group_id] = ClassicGroup(group_id)
        for group in list(self.groups.values()):
            self._membership.begin_sessions(group)
            self._on_changed(group)
        self._schedule_check()
        if self._deleted_topics:
            self._offset_requests.delete_topics(self._deleted_topics)
            self._deleted_topics.clear()

    def _resign(self) -> None:
        """Answers all waiting requests. The next leader may still commit the writes under way."""
        if self.phase is CoordinatorPhase.RESIGNED:
            return
        self.phase = CoordinatorPhase.RESIGNED
        for group in self.groups.values():
            self._membership.release(group, KafkaErrorCode.NOT_COORDINATOR)
        for write in self._out.pending.values():
            match write:
                case CommitWrite(token=token, request=request):
                    self._out.answer(
                        token, self._offset_requests.build_response(request, KafkaErrorCode.NOT_COORDINATOR)
                    )
                case TransactionCommitWrite(token=token, request=txn_request):
                    self._out.answer(
                        token,
                        self._offset_requests.build_transaction_response(txn_request, KafkaErrorCode.NOT_COORDINATOR),
                    )
                case GroupDeletion():
                    self._group_requests.deletion_ended(write, KafkaErrorCode.NOT_COORDINATOR)
                case OffsetDeletion(token=token):
                    self._out.answer(token, OffsetDeleteResponse(error_code=KafkaErrorCode.NOT_COORDINATOR, topics=()))
                case ConsumerGroupWrite():
                    self._consumers.refuse_all(write, KafkaErrorCode.NOT_COORDINATOR)
                case AssignmentWrite() | StaticMemberWrite() | EmptyGroupWrite() | DowngradeWrite() | CleanUp():
                    pass
                case _:
                    assert_never(write)
        self._out.pending.clear()
        self.groups.clear()
        self._consumers.groups.clear()
        self._membership.owed.clear()
        self._due.clear()
        self._scheduled.clear()
        self._next_check = math.inf

    # --------------------------------------------------------------------- time

    def _expire(self) -> None:
        if self.phase is not CoordinatorPhase.ACTIVE:
            return
        now = self._out.now
        due_groups: list[ClassicGroup] = []
        due_consumers: list[ConsumerGroup] = []
        while self._due and self._due[0][0] <= now:
            due, group_id = heapq.heappop(self._due)
            if self._scheduled.get(group_id) == due:
                del self._scheduled[group_id]
                if (consumers := self._consumers.groups.get(group_id)) is not None:
                    due_consumers.append(consumers)
                elif (group := self.groups.get(group_id)) is not None and group.state is not GroupState.DEAD:
                    due_groups.append(group)
        for each in due_consumers:
            self._consumers.expire(each)
            self._on_consumers_changed(each)
        for group in due_groups:
            self._membership.expire(group)
            self._on_changed(group)
        if self._next_check <= now:
            self._offset_requests.expire()
            self._schedule_check()

    def _schedule_check(self) -> None:
        self._next_check = self._out.now + self.config.offsets_retention_check_interval_ms / 1000

    def _on_changed(self, group: ClassicGroup | None) -> None:
        """Checks a group, and when it is due; one that never had anything is forgotten."""
        if group is None or self.groups.get(group.id) is not group:
            return
        invariants.check(group)
        unused = group.state is GroupState.EMPTY and not group.pending_members and not group.recorded
        if unused and not self.offsets.positions(group.id):
            del self.groups[group.id]
        else:
            self._schedule(group)

    def _on_consumers_changed(self, group: ConsumerGroup | None) -> None:
        """Checks a group, and when it is due; one without a member by KIP-848 becomes classic."""
        if group is None:
            return
        invariants.check_consumers(group)
        if (classic := self._consumers.downgrade(group)) is not None:
            self._on_changed(classic)
        else:
            self._schedule(group)

    def _schedule(self, group: ClassicGroup | ConsumerGroup) -> None:
        if group.due < self._scheduled.get(group.id, math.inf):
            self._scheduled[group.id] = group.due
            heapq.heappush(self._due, (group.due, group.id))


def _while_loading(version: int, request: GroupRequest) -> GroupResponse:
    """Kafka's answers during the load: heartbeats are trusted, and a rebalance that was under way begins again."""
    if isinstance(request, HeartbeatRequest):
        return HeartbeatResponse(error_code=KafkaErrorCode.NONE)
    if isinstance(request, SyncGroupRequest):
        return error_response(version, request, KafkaErrorCode.REBALANCE_IN_PROGRESS)
    return error_response(version, request, KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _not_recordable(request: GroupRequest) -> KafkaErrorCode:
    """Returns the error of a request whose record could not hold its texts, or NONE."""
    recorded = JoinGroupRequest | OffsetCommitRequest | TxnOffsetCommitRequest | ConsumerGroupHeartbeatRequest
    if isinstance(request, recorded) and not fits(request.group_id):
        return KafkaErrorCode.INVALID_GROUP_ID
    if isinstance(request, ConsumerGroupHeartbeatRequest) and not fits(
        request.member_id, request.subscribed_topic_regex
    ):
        return KafkaErrorCode.INVALID_REQUEST
    if isinstance(request, JoinGroupRequest):
        names = (each.name for each in request.protocols)
        if not fits(request.group_instance_id, request.protocol_type, *names):
            return KafkaErrorCode.INVALID_REQUEST
    return KafkaErrorCode.NONE
