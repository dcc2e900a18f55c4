"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: the members of groups by KIP-848, and their deadlines.

A heartbeat is answered once everything that its answer rests on is written. A classic group becomes one by KIP-848 with
its first member there (`migration`).
"""

from collections.abc import Mapping
from typing import Final

from attrs import define, field

from kafka_compat.coordinator import migration
from kafka_compat.coordinator.answers import error_response
from kafka_compat.coordinator.assignors import Partitions
from kafka_compat.coordinator.config import CoordinatorConfig
from kafka_compat.coordinator.consumer_group import (
    LEFT_FOR_A_TIME,
    NEVER,
    ConsumerGroup,
    ConsumerMember,
    KnownTopic,
    MemberState,
)
from kafka_compat.coordinator.consumer_records import DecodedConsumerRecord, RecordKind, by_topic, unpack
from kafka_compat.coordinator.effects import GroupResponse
from kafka_compat.coordinator.events import GroupRequestArrived
from kafka_compat.coordinator.expressions import BadExpression, Expression
from kafka_compat.coordinator.group import ClassicGroup, GroupState
from kafka_compat.coordinator.membership import Membership
from kafka_compat.coordinator.record_formats import group_key
from kafka_compat.coordinator.writes import CleanUp, ConsumerGroupWrite, StepOutput, client_error
from kafka_compat.protocol import authorized
from kafka_compat.protocol.apis.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopicPartitions,
)
from kafka_compat.protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kafka_compat.protocol.apis.leave_group import LeaveGroupMember
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import evolve

LEAVE: Final = -1
MEMBER_ID_VERSION: Final = 1
"""From this version of ConsumerGroupHeartbeat members choose their own ids (KIP-1082)."""
CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1

Refusal = tuple[KafkaErrorCode, str]


@define
class ConsumerRequests:
    """The groups by KIP-848 of one coordinator."""

    config: CoordinatorConfig
    classic: dict[str, ClassicGroup]
    membership: Membership
    out: StepOutput
    groups: dict[str, ConsumerGroup] = field(factory=dict)
    topics: Mapping[str, KnownTopic] = field(factory=dict)

    # ---------------------------------------------------------------- heartbeat

    def heartbeat(self, event: GroupRequestArrived, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroup | None:
        """Answers a heartbeat, or lets the answer wait for a write. Returns the group, if there is one."""
        refusal = _objection(event.version, request) or self._group_objection(request) or self._misreads(request)
        if refusal is not None:
            self._refuse(event.token, refusal)
            return None
        group = self.groups.get(request.group_id) or self._make(request.group_id)
        if request.member_epoch in (LEAVE, LEFT_FOR_A_TIME):
            self._leave(event, request, group)
            return group
        member = self._member(event, request, group)
        if not isinstance(member, ConsumerMember):
            self._refuse(event.token, member)
            if not group.epoch:
                del self.groups[group.id]
            return group if group.epoch else None
        before = member.assigned
        self._update(event, request, group, member)
        self._search(event, group, member)
        self.move_target(group)
        owned = None if request.topic_partitions is None else unpack(request.topic_partitions)
        state, epoch = member.state, member.epoch
        group.reconcile(member, owned)
        self._set_deadlines(group, member, since=(state, epoch))
        asks = request.member_epoch == 0 or (
            request.rebalance_timeout_ms >= 0
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        shown = member.assigned if asks or member.assigned != before else None
        self.flush(group, event, self._response(member, shown))
        return group

    def move_target(self, group: ConsumerGroup) -> None:
        """Makes a new target assignment, if members, their subscriptions or topics have changed."""
        topic_hash = group.hash_of(self.topics)
        if topic_hash != group.metadata_hash:
            group.metadata_hash = topic_hash
            group.epoch = max(group.epoch, group.target_epoch + 1)
        if group.epoch > group.target_epoch:
            group.assign(self.topics, self.config.group_consumer_assignors)

    def _refuse(self, token: int, refusal: Refusal) -> None:
        self.out.answer(token, ConsumerGroupHeartbeatResponse(error_code=refusal[0], error_message=refusal[1]))

    def _response(self, member: ConsumerMember, shown: Partitions | None) -> ConsumerGroupHeartbeatResponse:
        assignment = None
        if shown is not None:
            assignment = ConsumerGroupHeartbeatAssignment(
                topic_partitions=tuple(
                    ConsumerGroupHeartbeatTopicPartitions(topic_id=topic, partitions=numbers)
                    for topic, numbers in by_topic(shown)
                )
            )
        return ConsumerGroupHeartbeatResponse(
            error_code=KafkaErrorCode.NONE,
            member_id=member.id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.config.group_consumer_heartbeat_interval_ms,
            assignment=assignment,
        )

    def _group_objection(self, request: ConsumerGroupHeartbeatRequest) -> Refusal | None:
        name = request.group_id
        if request.server_assignor is not None and request.server_assignor not in self.config.group_consumer_assignors:
            offered = ", ".join(self.config.group_consumer_assignors)
            text = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {offered}."
            return KafkaErrorCode.UNSUPPORTED_ASSIGNOR, text
        if name in self.groups:
            return None
        group = self.classic.get(name)
        if group is not None and group.state is GroupState.DEAD:
            return KafkaErrorCode.COORDINATOR_NOT_AVAILABLE, f"Group {name} is being deleted."
        if group is not None and group.state is not GroupState.EMPTY:
            return self._upgrade_objection(request, group)
        if request.member_epoch != 0:
            return KafkaErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {name} not found."
        if group is None and len(self.groups) + len(self.classic) >= self.config.groups_max:
            return KafkaErrorCode.GROUP_MAX_SIZE_REACHED, f"The coordinator has {self.config.groups_max} groups."
        return None

    def _upgrade_objection(self, request: ConsumerGroupHeartbeatRequest, group: ClassicGroup) -> Refusal | None:
        if request.member_epoch != 0:
            return KafkaErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.id} is not a consumer group."
        if (reason := migration.find_obstacle(group)) is not None:
            text = f"Cannot upgrade classic group {group.id} to consumer group because {reason}."
            return KafkaErrorCode.GROUP_ID_NOT_FOUND, text
        if len(group.members) >= self.config.group_consumer_max_size:
            text = f"The consumer group has reached its maximum capacity of {self.config.group_consumer_max_size}."
            return KafkaErrorCode.GROUP_MAX_SIZE_REACHED, text
        return None

    def _misreads(self, request: ConsumerGroupHeartbeatRequest) -> Refusal | None:
        """Returns the reason to refuse an expression that is new to its group, if it is none."""
        text, group = request.subscribed_topic_regex, self.groups.get(request.group_id)
        if not text or (group is not None and text in group.patterns.found):
            return None
        try:
            Expression(text)
        except BadExpression as error:
            reason = f"SubscribedTopicRegex `{text}` is not a valid regular expression: {error}."
            return KafkaErrorCode.INVALID_REGULAR_EXPRESSION, reason
        return None

    def _search(self, event: GroupRequestArrived, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Hold the topics that are new against the member's expression, by the rights of the caller."""
        group.forget_patterns()
        if member.wishes.pattern is None:
            return
        refresh = self.config.group_consumer_regex_refresh_interval_ms / 1000
        group.patterns.of(member.wishes.pattern).begin(self.topics, event.may_describe, self.out.now, refresh)
        group.search(self.out.now)

    def _make(self, name: str) -> ConsumerGroup:
        """Returns a new group, in the place of a classic one, whose members it has."""
        before = self.classic.pop(name, None)
        if before is None or not before.members:
            group = ConsumerGroup(name)
        else:
            self.membership.release(before, KafkaErrorCode.REBALANCE_IN_PROGRESS)
            group = migration.upgrade(before, self.topics)
            for member in group.members.values():
                self._set_deadlines(group, member, (member.state, member.epoch))
        if before is not None and before.recorded:
            group.owed += (group_key(name), *self.membership.owed.pop(name, ()))
        self.groups[name] = group
        return group

    def _member(
        self, event: GroupRequestArrived, request: ConsumerGroupHeartbeatRequest, group: ConsumerGroup
    ) -> ConsumerMember | Refusal:
        """Returns the member that sends this heartbeat: a known, a new, or a static one that has come back."""
        member = group.members.get(request.member_id)
        static = group.static_member(request.instance_id)
        if request.member_epoch > 0:
            return _find_known(group, request, member, static)
        if member is not None and (request.instance_id is None or static is member):
            return member
        if static is None and len(group.members) >= self.config.group_consumer_max_size:
            text = f"The consumer group has reached its maximum capacity of {self.config.group_consumer_max_size}."
            return KafkaErrorCode.GROUP_MAX_SIZE_REACHED, text
        new = ConsumerMember(request.member_id or event.member_suffix, instance_id=request.instance_id)
        if static is None:
            if member is not None:
                group.remove(member)
        elif static.epoch != LEFT_FOR_A_TIME and static.classic is None:
            text = f"Static member {static.id} with instance id {request.instance_id} is still in the group."
            return KafkaErrorCode.UNRELEASED_INSTANCE_ID, text
        else:
            group.replace(static, new)
            return new
        group.add(new)
        return new

    def _update(
        self,
        event: GroupRequestArrived,
        request: ConsumerGroupHeartbeatRequest,
        group: ConsumerGroup,
        member: ConsumerMember,
    ) -> None:
        """Take over what the member states. A change of its subscription raises the epoch of the group."""
        before = member.record()
        member.classic = None
        member.client_id, member.client_host = event.client_id or "", event.client_host
        if request.rack_id is not None:
            member.rack_id = request.rack_id
        if request.rebalance_timeout_ms >= 0:
            member.rebalance_timeout_ms = request.rebalance_timeout_ms
        wished = member.wishes
        if request.server_assignor is not None:
            member.wishes = evolve(member.wishes, assignor=request.server_assignor)
        if request.subscribed_topic_names is not None:
            member.wishes = evolve(member.wishes, topics=frozenset(request.subscribed_topic_names))
        if request.subscribed_topic_regex is not None:
            member.wishes = evolve(member.wishes, pattern=request.subscribed_topic_regex or None)
        if member.record() != before:
            group.touched.add(member.id)
        if member.wishes != wished or member.id not in group.target:
            group.epoch = max(group.epoch, group.target_epoch + 1)

    def renew(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Gives a member a whole session from now on."""
        classic = member.classic
        session_ms = self.config.group_consumer_session_timeout_ms if classic is None else classic.session_timeout_ms
        member.session_deadline = self.out.now + session_ms / 1000
        group.due = min(group.due, member.session_deadline)

    def _set_deadlines(self, group: ConsumerGroup, member: ConsumerMember, since: tuple[MemberState, int]) -> None:
        self.renew(group, member)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            member.revocation_deadline = NEVER
        elif since[0] is not MemberState.UNREVOKED_PARTITIONS or member.revocation_deadline == NEVER:
            member.revocation_deadline = self.out.now + max(member.rebalance_timeout_ms, 0) / 1000
        group.due = min(group.due, member.revocation_deadline)

    # -------------------------------------------------------------------- leave

    def _leave(self, event: GroupRequestArrived, request: ConsumerGroupHeartbeatRequest, group: ConsumerGroup) -> None:
        static = group.static_member(request.instance_id)
        member = group.members.get(request.member_id) if request.instance_id is None else static
        if member is None:
            self._refuse(event.token, _unknown(request.member_id))
            return
        if member.id != request.member_id:
            self._refuse(event.token, _fenced_instance(request, member))
            return
        response = ConsumerGroupHeartbeatResponse(
            error_code=KafkaErrorCode.NONE, member_id=member.id, member_epoch=request.member_epoch
        )
        if request.member_epoch == LEFT_FOR_A_TIME and member.instance_id is not None:
            group.hold(member, member.assigned, frozenset())
            member.epoch, member.state, member.revocation_deadline = LEFT_FOR_A_TIME, MemberState.STABLE, NEVER
        else:
            self.remove(group, member)
        self.flush(group, event, response)

    def leave(self, name: str, leaving: LeaveGroupMember) -> KafkaErrorCode:
        """Removes a member as an administrator may, by its id or its instance id."""
        group = self.groups[name]
        static = group.static_member(leaving.group_instance_id)
        member = static if leaving.group_instance_id is not None else group.members.get(leaving.member_id)
        if member is None:
            return KafkaErrorCode.UNKNOWN_MEMBER_ID
        if leaving.member_id and leaving.member_id != member.id:
            return KafkaErrorCode.FENCED_INSTANCE_ID
        self.remove(group, member)
        self.flush(group)
        return KafkaErrorCode.NONE

    def remove(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Removes a member: the others get its partitions."""
        group.remove(member)
        group.forget_patterns()
        group.epoch = max(group.epoch, group.target_epoch + 1)

    def expire(self, group: ConsumerGroup) -> None:
        """Removes the members whose session is over, and those that have not given partitions back in time."""
        now = self.out.now
        for member in list(group.members.values()):
            if min(member.session_deadline, member.revocation_deadline) <= now:
                self.remove(group, member)
        if group.patterns.due <= now:
            group.search(now)
        self.flush(group)
        group.find_due()

    def begin(self) -> None:
        """Ends the load: each member has a whole session timeout from now on."""
        for group in list(self.groups.values()):
            group.end_load()
            if not group.epoch and not group.members:
                del self.groups[group.id]
            for member in group.members.values():
                self._set_deadlines(group, member, (member.state, member.epoch))

    # ------------------------------------------------------------------- writes

    def flush(
        self, group: ConsumerGroup, event: GroupRequestArrived | None = None, response: GroupResponse | None = None
    ) -> None:
        """Writes what has changed. An answer waits for this write and those before it."""
        if group.touched or group.patterns.rewritten or group.owed:
            members = frozenset(group.touched)
            if records := tuple(group.changes()):
                self.out.append(records, ConsumerGroupWrite(group, tuple(key for key, _ in records), members, []))
        if event is None or response is None:
            return
        last = next((each for each in reversed(self._writes_of(group))), None)
        if last is None:
            self.out.answer(event.token, response)
        else:
            last.answers.append((event, response))

    def _writes_of(self, group: ConsumerGroup) -> list[ConsumerGroupWrite]:
        return [
            each for each in self.out.pending.values() if isinstance(each, ConsumerGroupWrite) and each.group is group
        ]

    def end(self, write: ConsumerGroupWrite, error: KafkaErrorCode) -> None:
        """Answers the requests that waited for a write. If it failed, so do those that wait for later ones."""
        if error is KafkaErrorCode.NONE:
            for event, response in write.answers:
                self.out.answer(event.token, response)
            return
        write.group.doubt(write.keys, write.members)
        for each in (write, *self._writes_of(write.group)):
            self.refuse_all(each, client_error(error))

    def refuse_all(self, write: ConsumerGroupWrite, error: KafkaErrorCode) -> None:
        """Answers the requests that wait for a write with an error: their members ask again."""
        for event, _ in write.answers:
            if isinstance(event.request, ConsumerGroupHeartbeatRequest):
                self._refuse(event.token, (error, "The state of the group could not be written."))
            else:
                self.out.answer(event.token, error_response(event.version, event.request, error))
        write.answers.clear()

    def release(self, name: str) -> ClassicGroup:
        """Makes an empty group a classic one, which a classic member may join and an administrator delete."""
        group = self.groups.pop(name)
        keys = tuple((key, None) for key in group.written)
        if keys:
            self.out.append(keys, CleanUp(()))
        classic = self.classic[name] = ClassicGroup(name, state_time_ms=self.out.time_ms)
        return classic

    def downgrade(self, group: ConsumerGroup) -> ClassicGroup | None:
        """Makes a group whose members are all classic a classic one, and lets them join again. Returns it, else None."""
        if not group.is_classic or len(group.members) > self.config.group_max_size:
            return None
        del self.groups[group.id]
        classic = migration.downgrade(group, self.topics, self.out.time_ms)
        self.membership.take_over(classic, (*group.owed, *group.written))
        return classic

    # ----------------------------------------------------------------- describe

    def describe(self, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
        """Returns each group with its members."""
        operations = authorized.ON_GROUP if request.include_authorized_operations else authorized.NOT_ASKED
        return ConsumerGroupDescribeResponse(
            groups=tuple(self._describe(each, operations) for each in request.group_ids)
        )

    def _describe(self, name: str, operations: int) -> DescribedConsumerGroup:
        group = self.groups.get(name)
        if group is None:
            known = f"Group {name} is not a consumer group." if name in self.classic else f"Group {name} not found."
            return DescribedConsumerGroup(
                error_code=KafkaErrorCode.GROUP_ID_NOT_FOUND, error_message=known, group_id=name
            )
        names = {topic.id: text for text, topic in self.topics.items()}
        return DescribedConsumerGroup(
            error_code=KafkaErrorCode.NONE,
            group_id=name,
            group_state=group.state,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=group.assignor,
            members=tuple(
                DescribedConsumer(
                    member_id=member.id,
                    instance_id=member.instance_id,
                    rack_id=member.rack_id,
                    member_epoch=member.epoch,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    subscribed_topic_names=tuple(sorted(member.wishes.topics)),
                    subscribed_topic_regex=member.wishes.pattern,
                    assignment=_describe_partitions(names, member.assigned),
                    target_assignment=_describe_partitions(names, group.target.get(member.id, frozenset())),
                    member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
                )
                for member in group.members.values()
            ),
            authorized_operations=operations,
        )

    # ------------------------------------------------------------------ commits

    def commit_refusal(
        self, group: ConsumerGroup, member_id: str | None, instance_id: str | None, epoch: int
    ) -> KafkaErrorCode:
        """Returns the reason to refuse a member that commits or fetches offsets in this epoch, or NONE."""
        if epoch < 0 and not group.members:
            return KafkaErrorCode.NONE
        member = group.members.get(member_id or "")
        if member is None:
            return KafkaErrorCode.UNKNOWN_MEMBER_ID
        if instance_id is not None and member.instance_id != instance_id:
            return KafkaErrorCode.FENCED_INSTANCE_ID
        stale = KafkaErrorCode.STALE_MEMBER_EPOCH if member.classic is None else KafkaErrorCode.ILLEGAL_GENERATION
        return KafkaErrorCode.NONE if member.epoch == epoch else stale

    def load(self, record: DecodedConsumerRecord) -> None:
        """Takes a record of any group, while the log is loaded."""
        kind, name, member_id, value = record
        if kind is RecordKind.GROUP and value is None:
            self.groups.pop(name, None)
            return
        if kind is RecordKind.GROUP:
            self.classic.pop(name, None)
        if value is not None or name in self.groups:
            self.groups.setdefault(name, ConsumerGroup(name)).load(kind, member_id, value)


def _describe_partitions(names: Mapping[bytes, str], partitions: Partitions) -> DescribedAssignment:
    return DescribedAssignment(
        topic_partitions=tuple(
            DescribedTopicPartitions(topic_id=topic, topic_name=names[topic], partitions=numbers)
            for topic, numbers in by_topic(partitions)
            if topic in names
        )
    )


def _objection(version: int, request: ConsumerGroupHeartbeatRequest) -> Refusal | None:
    """Returns the reason why no group takes this request, as Kafka words it, or None."""
    epoch, text = request.member_epoch, ""
    if not request.group_id:
        text = "GroupId can't be empty."
    elif request.instance_id == "" or request.rack_id == "":
        text = f"{'InstanceId' if request.instance_id == '' else 'RackId'} can't be empty."
    elif not request.member_id and (version >= MEMBER_ID_VERSION or epoch != 0):
        text = "MemberId can't be empty."
    elif epoch < LEFT_FOR_A_TIME:
        text = "MemberEpoch is invalid."
    elif epoch == LEFT_FOR_A_TIME and request.instance_id is None:
        text = "InstanceId can't be null."
    elif epoch == 0 and request.rebalance_timeout_ms < 0:
        text = "RebalanceTimeoutMs must be provided in first request."
    elif epoch == 0 and (request.topic_partitions is None or request.topic_partitions):
        text = "TopicPartitions must be empty when (re-)joining."
    elif epoch == 0 and request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        text = "SubscribedTopicNames or SubscribedTopicRegex must be set in first request."
    return (KafkaErrorCode.INVALID_REQUEST, text) if text else None


def _find_known(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    member: ConsumerMember | None,
    static: ConsumerMember | None,
) -> ConsumerMember | Refusal:
    """Returns the member, if it is in the epoch that it states, or has not received the answer that began its epoch."""
    if request.instance_id is not None:
        if static is None:
            return _unknown(request.member_id)
        if static is not member:
            return _fenced_instance(request, static)
    if member is None or member.classic is not None:
        return _unknown(request.member_id)
    owned = unpack(request.topic_partitions or ())
    unanswered = request.member_epoch == member.previous_epoch and owned <= member.assigned
    if request.member_epoch != member.epoch and not unanswered:
        text = f"The member is in epoch {member.epoch}, the request in {request.member_epoch}. It has to join again."
        return KafkaErrorCode.FENCED_MEMBER_EPOCH, text
    return member


def _unknown(member_id: str) -> Refusal:
    return KafkaErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of the group."


def _fenced_instance(request: ConsumerGroupHeartbeatRequest, static: ConsumerMember) -> Refusal:
    text = f"Instance id {request.instance_id} belongs to member {static.id}."
    return KafkaErrorCode.FENCED_INSTANCE_ID, text
