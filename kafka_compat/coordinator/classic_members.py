"""Classic members of a group by KIP-848: JoinGroup, SyncGroup, Heartbeat and LeaveGroup while the group is moving over.

The epoch of a member is its generation. A heartbeat tells a member to join again when its next step is due. Its JoinGroup
states the partitions that it has, and is that step. No such member leads: SyncGroup brings it the partitions that the
broker has chosen. (Kafka's `GroupMetadataManager`, its methods for classic groups.)
"""

from attrs import define

from kafka_compat.coordinator.answers import LEAVE_LIST_VERSION, join_error, leave_response
from kafka_compat.coordinator.consumer_group import NEVER, ConsumerGroup, ConsumerMember, MemberState, Wishes
from kafka_compat.coordinator.consumer_requests import ConsumerRequests
from kafka_compat.coordinator.events import GroupRequestArrived
from kafka_compat.coordinator.membership import (
    MEMBER_ID_REQUIRED_VERSION,
    SYNC_PROTOCOL_VERSION,
    Membership,
    make_member_id,
    rebalance_timeout_ms,
)
from kafka_compat.coordinator.migration import assignment_version, classic_part
from kafka_compat.coordinator.subscription import (
    CONSUMER_PROTOCOL_TYPE,
    Subscription,
    known_partitions,
    read_subscription,
    write_assignment,
)
from kafka_compat.coordinator.writes import StepOutput
from kafka_compat.protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_compat.protocol.apis.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_compat.protocol.apis.leave_group import LeaveGroupMember, LeaveGroupRequest
from kafka_compat.protocol.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_compat.protocol.error_codes import KafkaErrorCode

NONE = KafkaErrorCode.NONE


@define
class ClassicMembers:
    """The requests of classic members to the groups by KIP-848 of one coordinator."""

    consumers: ConsumerRequests
    membership: Membership
    out: StepOutput

    # --------------------------------------------------------------------- join

    def join(self, event: GroupRequestArrived, request: JoinGroupRequest, group: ConsumerGroup) -> bool:
        """Answers, or lets the answer wait for a write. Returns False if the group is classic now, and is to be asked."""
        subscription = read_subscription(request.protocols[0].metadata) if request.protocols else None
        error = self.membership.join_refusal(request)
        if error is NONE and (subscription is None or not _supports(group, request)):
            error = KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL
        static = group.static_member(request.group_instance_id)
        if error is NONE:
            error = self._member_objection(request, group, static)
        if error is not NONE or subscription is None:
            self.out.answer(event.token, join_error(event.version, request.member_id, error))
            return True
        asks_for_id = not request.member_id and request.group_instance_id is None
        if asks_for_id and event.version >= MEMBER_ID_REQUIRED_VERSION:
            required = KafkaErrorCode.MEMBER_ID_REQUIRED
            self.out.answer(event.token, join_error(event.version, make_member_id(event, request), required))
            return True
        if static is not None and static.classic is None:
            others = [each for each in group.members.values() if each is not static]
            if all(each.classic is not None for each in others):
                self._leave_to_classic(group, static)
                return False
        member = self._find(event, request, group, static)
        self._take_step(event, request, group, member, subscription)
        response = JoinGroupResponse(
            error_code=NONE,
            generation_id=member.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=request.protocols[0].name,
            leader="",
            member_id=member.id,
            members=(),
        )
        self.consumers.flush(group, event, response)
        return True

    def _member_objection(
        self, request: JoinGroupRequest, group: ConsumerGroup, static: ConsumerMember | None
    ) -> KafkaErrorCode:
        if request.group_instance_id is not None and request.member_id:
            if static is None:
                return KafkaErrorCode.UNKNOWN_MEMBER_ID
            if static.id != request.member_id:
                return KafkaErrorCode.FENCED_INSTANCE_ID
        is_known = static is not None or request.member_id in group.members
        is_full = len(group.members) >= self.consumers.config.group_consumer_max_size
        return NONE if is_known or not is_full else KafkaErrorCode.GROUP_MAX_SIZE_REACHED

    def _leave_to_classic(self, group: ConsumerGroup, static: ConsumerMember) -> None:
        """The last member by KIP-848 comes back as a classic one: it leaves, and joins the classic group."""
        self.consumers.remove(group, static)
        if group.members:
            self.consumers.downgrade(group)
        else:
            self.consumers.release(group.id)

    def _find(
        self, event: GroupRequestArrived, request: JoinGroupRequest, group: ConsumerGroup, static: ConsumerMember | None
    ) -> ConsumerMember:
        """Returns the member that joins: a known one, a static one in its former place, or a new one."""
        known = group.members.get(request.member_id)
        if known is not None:
            return known
        new = ConsumerMember(request.member_id or make_member_id(event, request), request.group_instance_id)
        if static is None:
            group.add(new)
        else:
            group.replace(static, new)
        return new

    def _take_step(
        self,
        event: GroupRequestArrived,
        request: JoinGroupRequest,
        group: ConsumerGroup,
        member: ConsumerMember,
        subscription: Subscription,
    ) -> None:
        """Takes over what the member states, and goes on with its way to the target."""
        before, wished = member.record(), member.wishes
        member.client_id, member.client_host = event.client_id or "", event.client_host
        member.rack_id = subscription.rack_id
        member.rebalance_timeout_ms = rebalance_timeout_ms(event, request)
        member.wishes = Wishes(frozenset(subscription.topics))
        member.classic = classic_part(request.session_timeout_ms, request.protocols)
        if member.record() != before:
            group.touched.add(member.id)
        if member.wishes != wished or member.id not in group.target:
            group.epoch = max(group.epoch, group.target_epoch + 1)
        group.forget_patterns()
        self.consumers.move_target(group)
        group.reconcile(member, known_partitions(subscription.owned, self.consumers.topics))
        self.consumers.renew(group, member)
        self._set_step_deadline(group, member)

    def _set_step_deadline(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        member.revocation_deadline = self.out.now + max(member.rebalance_timeout_ms, 0) / 1000
        group.due = min(group.due, member.revocation_deadline)

    # ------------------------------------------------------- sync and heartbeat

    def sync(self, event: GroupRequestArrived, request: SyncGroupRequest, group: ConsumerGroup) -> None:
        """Answers with the partitions of the member, or tells it to join again."""
        type_, name = request.protocol_type, request.protocol_name
        member = group.members.get(request.member_id)
        error = _objection(group, request)
        if event.version >= SYNC_PROTOCOL_VERSION and (type_ is None or name is None):
            error = KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error is not NONE or member is None or member.classic is None:
            self.out.answer(event.token, SyncGroupResponse(error_code=error, assignment=b""))
            return
        names = {each.name for each in member.classic.protocols}
        if (type_ is not None and type_ != CONSUMER_PROTOCOL_TYPE) or (name is not None and name not in names):
            error = KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL
        elif group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            error = KafkaErrorCode.REBALANCE_IN_PROGRESS
        if error is not NONE:
            self.out.answer(event.token, SyncGroupResponse(error_code=error, assignment=b""))
            return
        self.consumers.renew(group, member)
        if not group.has_to_join(member):
            member.revocation_deadline = NEVER
        version = assignment_version(member.classic)
        response = SyncGroupResponse(
            error_code=NONE,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=name or member.classic.protocols[0].name,
            assignment=write_assignment(member.assigned, self.consumers.topics, version),
        )
        self.consumers.flush(group, event, response)

    def beat(self, event: GroupRequestArrived, request: HeartbeatRequest, group: ConsumerGroup) -> None:
        """Renews the member's session, and tells it if it is to join again."""
        member = group.members.get(request.member_id)
        error = _objection(group, request)
        if error is NONE and member is not None:
            self.consumers.renew(group, member)
            if group.has_to_join(member):
                error = KafkaErrorCode.REBALANCE_IN_PROGRESS
                if member.revocation_deadline == NEVER:
                    self._set_step_deadline(group, member)
        self.out.answer(event.token, HeartbeatResponse(error_code=error))

    def leave(self, event: GroupRequestArrived, request: LeaveGroupRequest, group: ConsumerGroup) -> None:
        """Removes members and answers."""
        leaving: tuple[LeaveGroupMember, ...] = request.members
        if event.version < LEAVE_LIST_VERSION:
            leaving = (LeaveGroupMember(member_id=request.member_id),)
        outcomes = tuple((each, self.consumers.leave(group.id, each)) for each in leaving)
        self.out.answer(event.token, leave_response(event.version, outcomes))


def _supports(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    names = [each.name for each in request.protocols]
    return request.protocol_type == CONSUMER_PROTOCOL_TYPE and group.supports(names, request.member_id)


def _objection(group: ConsumerGroup, request: SyncGroupRequest | HeartbeatRequest) -> KafkaErrorCode:
    """Returns the reason to refuse a request of a member, or NONE."""
    static = group.static_member(request.group_instance_id)
    member = group.members.get(request.member_id)
    if request.group_instance_id is not None and static is not None and static is not member:
        return KafkaErrorCode.FENCED_INSTANCE_ID
    if member is None or member.classic is None or (request.group_instance_id is not None and static is None):
        return KafkaErrorCode.UNKNOWN_MEMBER_ID
    return NONE if request.generation_id == member.epoch else KafkaErrorCode.ILLEGAL_GENERATION
