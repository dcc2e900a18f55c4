"""The classic rebalance protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and the deadlines of members.

It has the semantics of Kafka's classic groups with KIP-394 (a member id before membership), KIP-345 (static members),
KIP-559 (protocol type and name in responses) and KIP-814 (static leaders skip the assignment). A retry replaces the
request before, which is answered REBALANCE_IN_PROGRESS. Members get the group's assignment only once it is written.
"""

from attrs import define, field

from kafka_compat.coordinator.answers import join_error, leave_response
from kafka_compat.coordinator.config import CoordinatorConfig
from kafka_compat.coordinator.events import GroupRequestArrived
from kafka_compat.coordinator.group import NEVER, ClassicGroup, GroupMember, GroupState, WaitingJoin
from kafka_compat.coordinator.record_formats import group_key, group_value
from kafka_compat.coordinator.writes import (
    AssignmentWrite,
    DowngradeWrite,
    EmptyGroupWrite,
    PendingWrite,
    StaticMemberWrite,
    StepOutput,
    client_error,
)
from kafka_compat.protocol.apis.heartbeat import HeartbeatRequest
from kafka_compat.protocol.apis.join_group import JoinGroupMember, JoinGroupRequest, JoinGroupResponse
from kafka_compat.protocol.apis.leave_group import LeaveGroupMember, LeaveGroupRequest, LeaveGroupResponse
from kafka_compat.protocol.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_compat.protocol.error_codes import KafkaErrorCode

NEW_MEMBER_JOIN_TIMEOUT_S = 300.0
"""The time that a new member's first JoinGroup waits (Kafka: five minutes): it sends no heartbeats, and may be gone."""
REJOIN_WAIT_MIN_S = 1.0
"""The least time before a rebalance without joined members is looked at again, at any timeout of its members."""
MEMBER_ID_PREFIX_MAX = 4096
"""Characters of a client id that a member id begins with: a member id has to fit into a string of the protocol."""
MEMBER_ID_REQUIRED_VERSION = 4
SKIP_ASSIGNMENT_VERSION = 9
SYNC_PROTOCOL_VERSION = 5
REBALANCE_TIMEOUT_VERSION = 1


@define
class Membership:
    """The groups of one coordinator, and their members."""

    config: CoordinatorConfig
    groups: dict[str, ClassicGroup]
    out: StepOutput
    owed: dict[str, tuple[bytes, ...]] = field(factory=dict)
    """By group: the keys of one by KIP-848 in whose place it came, whose tombstones the log may lack."""

    # --------------------------------------------------------------------- join

    def join(self, event: GroupRequestArrived, request: JoinGroupRequest) -> ClassicGroup | None:
        """Answers, or lets the request wait for the rebalance. Returns the group, if it is known or becomes known."""
        member_id = request.member_id
        error = self.join_refusal(request)
        group = self.groups.get(request.group_id)
        if error is KafkaErrorCode.NONE and group is None:
            if member_id:
                error = KafkaErrorCode.UNKNOWN_MEMBER_ID
            elif len(self.groups) >= self.config.groups_max:
                error = KafkaErrorCode.GROUP_MAX_SIZE_REACHED
            else:
                group = ClassicGroup(request.group_id, state_time_ms=self.out.time_ms)
        if error is not KafkaErrorCode.NONE or group is None:
            self._refuse_join(event, member_id, error)
            return group
        if group.state is GroupState.DEAD:
            self._refuse_join(event, member_id, KafkaErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif not self._accepts(group, member_id):
            self._refuse_join(event, "", KafkaErrorCode.GROUP_MAX_SIZE_REACHED)
            self._forget(group, member_id)
            self._maybe_complete_join(group)
        elif not group.supports(request.protocol_type, request.protocols):
            self._refuse_join(event, member_id, KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif member_id:
            self._join_existing(event, request, group)
        else:
            self._join_new(event, request, group)
        if group.members or group.pending_members:
            self.groups[group.id] = group
        return group

    def join_refusal(self, request: JoinGroupRequest) -> KafkaErrorCode:
        """Returns the reason why no group takes this request, or NONE."""
        config = self.config
        if not request.group_id:
            return KafkaErrorCode.INVALID_GROUP_ID
        timeout = request.session_timeout_ms
        if not config.group_min_session_timeout_ms <= timeout <= config.group_max_session_timeout_ms:
            return KafkaErrorCode.INVALID_SESSION_TIMEOUT
        return KafkaErrorCode.NONE

    def _refuse_join(self, event: GroupRequestArrived, member_id: str, error: KafkaErrorCode) -> None:
        self.out.answer(event.token, join_error(event.version, member_id, error))

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        size_max = self.config.group_max_size
        member = group.members.get(member_id)
        match group.state:
            case GroupState.EMPTY | GroupState.DEAD:
                return True
            case GroupState.PREPARING_REBALANCE:
                # Of a group that is too large already, the last ones to rejoin are left out.
                return (member is not None and member.join is not None) or group.joined_count < size_max
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return member is not None or len(group.members) < size_max

    def _join_new(self, event: GroupRequestArrived, request: JoinGroupRequest, group: ClassicGroup) -> None:
        instance_id, new_id = request.group_instance_id, make_member_id(event, request)
        existing = group.static_member(instance_id)
        if existing is not None:
            self._replace_static(event, request, group, existing, new_id)
        elif instance_id is not None or event.version < MEMBER_ID_REQUIRED_VERSION:
            self._add_member(event, request, group, new_id)
        elif len(group.pending_members) >= self.config.group_max_size:
            self._refuse_join(event, "", KafkaErrorCode.GROUP_MAX_SIZE_REACHED)
        else:
            group.set_pending_member(new_id, self.out.now + request.session_timeout_ms / 1000)
            self._refuse_join(event, new_id, KafkaErrorCode.MEMBER_ID_REQUIRED)

    def _join_existing(self, event: GroupRequestArrived, request: JoinGroupRequest, group: ClassicGroup) -> None:
        member_id = request.member_id
        if member_id in group.pending_members and request.group_instance_id is None:
            self._add_member(event, request, group, member_id)
            return
        error = group.member_error(member_id, request.group_instance_id)
        if error is not KafkaErrorCode.NONE:
            self._refuse_join(event, member_id, error)
            return
        member = group.members[member_id]
        unchanged = member.protocols == request.protocols
        match group.state:
            case GroupState.COMPLETING_REBALANCE if unchanged:
                # It may not have received the answer to its JoinGroup.
                members = group.join_members() if group.leader == member_id else ()
                self.out.answer(event.token, self._build_join_response(group, member_id, group.leader, members))
            case GroupState.STABLE if unchanged and group.leader != member_id:
                self.out.answer(event.token, self._build_join_response(group, member_id, group.leader))
            case GroupState.EMPTY | GroupState.DEAD:
                self._refuse_join(event, member_id, KafkaErrorCode.UNKNOWN_MEMBER_ID)
            case GroupState.PREPARING_REBALANCE | GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                # A leader joins again when topics have changed, which the metadata of members does not show.
                group.update(
                    member, request.protocols, rebalance_timeout_ms(event, request), request.session_timeout_ms
                )
                self._wait_for_join(event, group, member)
                self._rebalance_or_complete(group)

    def _add_member(
        self, event: GroupRequestArrived, request: JoinGroupRequest, group: ClassicGroup, member_id: str
    ) -> None:
        member = GroupMember(
            id=member_id,
            instance_id=request.group_instance_id,
            client_id=event.client_id or "",
            client_host=event.client_host,
            rebalance_timeout_ms=rebalance_timeout_ms(event, request),
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
            is_new=True,
        )
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True
        if not group.members:
            group.protocol_type = request.protocol_type
        group.add(member)
        self._wait_for_join(event, group, member)
        group.set_session(member, self.out.now + NEW_MEMBER_JOIN_TIMEOUT_S)
        self._rebalance_or_complete(group)

    def _replace_static(
        self, event: GroupRequestArrived, request: JoinGroupRequest, group: ClassicGroup, old_id: str, new_id: str
    ) -> None:
        """Give a restarted static member its place under a new id, and fence requests under the old one."""
        old_leader = group.leader
        member = group.members[old_id]
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._end_join(group, member, old_id, KafkaErrorCode.FENCED_INSTANCE_ID)
        self._end_sync(member, KafkaErrorCode.FENCED_INSTANCE_ID)
        group.rename(old_id, new_id)
        group.update(member, request.protocols, rebalance_timeout_ms(event, request), request.session_timeout_ms)
        self._wait_for_join(event, group, member)
        self._renew_session(group, member)
        if group.state is not GroupState.STABLE or group.select_protocol() != group.protocol:
            self._rebalance_or_complete(group)
            return
        assignments = {each.id: each.assignment for each in group.members.values()}
        self._append_group(
            group,
            assignments,
            StaticMemberWrite(group, group.generation, event.token, new_id, old_id, old_leader, *before),
        )

    def static_member_written(self, write: StaticMemberWrite) -> None:
        """Completes the join of a static member under its written new id, unless a rebalance has begun."""
        group, member = write.group, self._find_replaced(write)
        if member is None or (join := group.take_join(member)) is None:
            return
        self._renew_session(group, member)
        if join.version < SKIP_ASSIGNMENT_VERSION:
            # The former leader's id: a leader that recognised itself would assign again, and no member would get it.
            self.out.answer(join.token, self._build_join_response(group, member.id, write.old_leader))
            return
        leads = group.leader == member.id
        members = group.join_members() if leads else ()
        self.out.answer(join.token, self._build_join_response(group, member.id, group.leader, members, skip=leads))

    def static_member_failed(self, write: StaticMemberWrite, error: KafkaErrorCode) -> None:
        """Gives a static member its old id again after a failed write, unless a rebalance has begun."""
        group, member = write.group, self._find_replaced(write)
        if member is None or (join := group.take_join(member)) is None:
            return
        group.update(member, write.old_protocols, write.old_rebalance_timeout_ms, write.old_session_timeout_ms)
        group.rename(member.id, write.old_id)
        self._renew_session(group, member)
        self.out.answer(join.token, join_error(join.version, "", client_error(error)))

    def _find_replaced(self, write: StaticMemberWrite) -> GroupMember | None:
        group = write.group
        member = group.members.get(write.new_id)
        waits = member is not None and member.join is not None and member.join.token == write.token
        goes_on = group.state is GroupState.STABLE and group.generation == write.generation
        return member if waits and goes_on else None

    def _wait_for_join(self, event: GroupRequestArrived, group: ClassicGroup, member: GroupMember) -> None:
        self._end_join(group, member, member.id, KafkaErrorCode.REBALANCE_IN_PROGRESS)
        group.wait_for_join(member, WaitingJoin(event.token, event.version))

    def _end_join(self, group: ClassicGroup, member: GroupMember, answered_id: str, error: KafkaErrorCode) -> None:
        if (join := group.take_join(member)) is not None:
            self.out.answer(join.token, join_error(join.version, answered_id, error))

    def _build_join_response(
        self,
        group: ClassicGroup,
        member_id: str,
        leader: str | None,
        members: tuple[JoinGroupMember, ...] = (),
        *,
        skip: bool = False,
    ) -> JoinGroupResponse:
        return JoinGroupResponse(
            error_code=KafkaErrorCode.NONE,
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=leader or "",
            skip_assignment=skip,
            member_id=member_id,
            members=members,
        )

    # ---------------------------------------------------------------- rebalance

    def prepare_rebalance(self, group: ClassicGroup) -> None:
        """Makes all members join again. An empty group first waits some time for more members."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._reset_assignment(group, KafkaErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        group.sync_deadline = NEVER
        initial = group.state is GroupState.EMPTY
        group.transition(GroupState.PREPARING_REBALANCE, self.out.time_ms)
        if initial:
            delay = self.config.group_initial_rebalance_delay_ms
            group.initial_delay_ms = delay
            group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay, 0)
            group.new_member_added = False
            group.set_join_deadline(self.out.now + delay / 1000)
        elif group.all_joined:
            self._complete_join(group)
        else:
            group.set_join_deadline(self.out.now + group.rebalance_timeout_ms / 1000)

    def _rebalance_or_complete(self, group: ClassicGroup) -> None:
        match group.state:
            case GroupState.EMPTY | GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                self.prepare_rebalance(group)
            case GroupState.PREPARING_REBALANCE | GroupState.DEAD:
                self._maybe_complete_join(group)

    def _maybe_complete_join(self, group: ClassicGroup) -> None:
        preparing = group.state is GroupState.PREPARING_REBALANCE
        if preparing and group.previous_state is not GroupState.EMPTY and group.all_joined:
            self._complete_join(group)

    def _extend_or_complete_join(self, group: ClassicGroup) -> None:
        """Ends the time for joining, or extends it in a first rebalance while members keep coming."""
        initial = group.previous_state is GroupState.EMPTY
        if not initial or not group.new_member_added or not group.initial_remaining_ms:
            self._complete_join(group)
            return
        group.new_member_added = False
        delay = min(self.config.group_initial_rebalance_delay_ms, group.initial_remaining_ms)
        group.initial_remaining_ms = max(group.initial_remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay
        group.set_join_deadline(self.out.now + delay / 1000)

    def _complete_join(self, group: ClassicGroup) -> None:
        """Begins the next generation with the members that have joined, and with all static members."""
        group.join_deadline = NEVER
        for member in list(group.members.values()):
            if member.join is None and member.instance_id is None:
                group.remove(member.id)
        if group.members and not group.elect_joined_leader():
            # Static members alone, none of which is here: wait until one is, or until their sessions end.
            group.set_join_deadline(self.out.now + max(group.rebalance_timeout_ms / 1000, REJOIN_WAIT_MIN_S))
            return
        group.begin_generation(self.out.time_ms)
        if not group.members:
            self._append_group(group, {}, EmptyGroupWrite(group))
            return
        for member in group.members.values():
            member.is_new = False
            group.pending_syncs.add(member.id)
            self._renew_session(group, member)
            if (join := group.take_join(member)) is not None:
                members = group.join_members() if group.leader == member.id else ()
                self.out.answer(join.token, self._build_join_response(group, member.id, group.leader, members))
        group.set_sync_deadline(self.out.now + group.rebalance_timeout_ms / 1000)

    def _append_group(self, group: ClassicGroup, assignments: dict[str, bytes], write: PendingWrite) -> None:
        group.recorded = True
        gone = ((key, None) for key in self.owed.get(group.id, ()))
        self.out.append((*gone, (group_key(group.id), group_value(group.record(assignments)))), write)

    def take_over(self, group: ClassicGroup, keys: tuple[bytes, ...]) -> None:
        """Takes in a group that was one by KIP-848, with these keys: writes it, and makes its members join again."""
        self.groups[group.id], self.owed[group.id] = group, keys
        self.begin_sessions(group)
        assignments = {each.id: each.assignment for each in group.members.values()}
        self._append_group(group, assignments, DowngradeWrite(group))
        if group.state is GroupState.STABLE:
            self.prepare_rebalance(group)

    # --------------------------------------------------------------------- sync

    def sync(self, event: GroupRequestArrived, request: SyncGroupRequest) -> ClassicGroup | None:
        """Answers with the assignment, or lets the request wait until the leader's is written. Returns the group."""
        group = self.groups.get(request.group_id)
        error = self._sync_refusal(event.version, request, group)
        if error is not KafkaErrorCode.NONE or group is None:
            self.out.answer(event.token, SyncGroupResponse(error_code=error, assignment=b""))
            return group
        member = group.members[request.member_id]
        group.pending_syncs.discard(member.id)
        if not group.pending_syncs:
            group.sync_deadline = NEVER
        if group.state is GroupState.STABLE:
            self.out.answer(event.token, self._build_sync_response(group, member))
            return group
        self._end_sync(member, KafkaErrorCode.REBALANCE_IN_PROGRESS)
        member.sync_token = event.token
        if group.leader == member.id and not group.assignment_under_way:
            group.assignment_under_way = True
            given = {each.member_id: each.assignment for each in request.assignments}
            assignments = {each: given.get(each, b"") for each in group.members}
            self._append_group(group, assignments, AssignmentWrite(group, group.generation, assignments))
        return group

    def _sync_refusal(self, version: int, request: SyncGroupRequest, group: ClassicGroup | None) -> KafkaErrorCode:
        type_, name = request.protocol_type, request.protocol_name
        if version >= SYNC_PROTOCOL_VERSION and (type_ is None or name is None):
            return KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if not request.group_id:
            return KafkaErrorCode.INVALID_GROUP_ID
        if group is None or group.state is GroupState.EMPTY:
            return KafkaErrorCode.UNKNOWN_MEMBER_ID
        error = _member_refusal(group, request.member_id, request.group_instance_id, request.generation_id)
        if error is not KafkaErrorCode.NONE:
            return error
        if _differs(type_, group.protocol_type) or _differs(name, group.protocol):
            return KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.PREPARING_REBALANCE:
            return KafkaErrorCode.REBALANCE_IN_PROGRESS
        return KafkaErrorCode.NONE

    def assignment_written(self, write: AssignmentWrite) -> None:
        """Sends every waiting member its written assignment; the group is Stable."""
        group = write.group
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != write.generation:
            return
        for member in group.members.values():
            member.assignment = write.assignments.get(member.id, b"")
            self._end_sync_with(group, member, self._build_sync_response(group, member))
        group.assignment_under_way = False
        group.transition(GroupState.STABLE, self.out.time_ms)

    def assignment_failed(self, write: AssignmentWrite, error: KafkaErrorCode) -> None:
        """Sends the waiting members the error of a failed write; all members join again."""
        group = write.group
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != write.generation:
            return
        self._reset_assignment(group, client_error(error))
        self._rebalance_or_complete(group)

    def _reset_assignment(self, group: ClassicGroup, error: KafkaErrorCode) -> None:
        group.assignment_under_way = False
        for member in group.members.values():
            member.assignment = b""
            self._end_sync_with(group, member, SyncGroupResponse(error_code=error, assignment=b""))

    def _build_sync_response(self, group: ClassicGroup, member: GroupMember) -> SyncGroupResponse:
        return SyncGroupResponse(
            error_code=KafkaErrorCode.NONE,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            assignment=member.assignment,
        )

    def _end_sync_with(self, group: ClassicGroup, member: GroupMember, response: SyncGroupResponse) -> None:
        token, member.sync_token = member.sync_token, None
        if token is not None:
            self.out.answer(token, response)
            self._renew_session(group, member)

    def _end_sync(self, member: GroupMember, error: KafkaErrorCode) -> None:
        token, member.sync_token = member.sync_token, None
        if token is not None:
            self.out.answer(token, SyncGroupResponse(error_code=error, assignment=b""))

    # ------------------------------------------------------ heartbeat and leave

    def heartbeat(self, request: HeartbeatRequest) -> tuple[KafkaErrorCode, ClassicGroup | None]:
        """Renews the member's session; returns the error to answer with, and the group."""
        group = self.groups.get(request.group_id)
        if not request.group_id:
            return KafkaErrorCode.INVALID_GROUP_ID, None
        if group is None:
            return KafkaErrorCode.UNKNOWN_MEMBER_ID, None
        error = _member_refusal(group, request.member_id, request.group_instance_id, request.generation_id)
        if error is KafkaErrorCode.NONE:
            self._renew_session(group, group.members[request.member_id])
            if group.state is GroupState.PREPARING_REBALANCE:
                error = KafkaErrorCode.REBALANCE_IN_PROGRESS
        return error, group

    def renew(self, group: ClassicGroup, member_id: str) -> None:
        """Renews the session of a member that has committed offsets."""
        if (member := group.members.get(member_id)) is not None:
            self._renew_session(group, member)

    def leave(self, event: GroupRequestArrived, request: LeaveGroupRequest) -> ClassicGroup | None:
        """Removes members and answers. Returns the group, if it is known."""
        group = self.groups.get(request.group_id)
        if event.version < 3:
            leaving: tuple[LeaveGroupMember, ...] = (LeaveGroupMember(member_id=request.member_id),)
        else:
            leaving = request.members
        if not request.group_id:
            self.out.answer(event.token, LeaveGroupResponse(error_code=KafkaErrorCode.INVALID_GROUP_ID))
            return None
        if group is not None and group.state is GroupState.DEAD:
            self.out.answer(event.token, LeaveGroupResponse(error_code=KafkaErrorCode.COORDINATOR_NOT_AVAILABLE))
            return group
        members_before = 0 if group is None else len(group.members)
        outcomes = tuple((each, self._leave_one(group, each)) for each in leaving)
        self.out.answer(event.token, leave_response(event.version, outcomes))
        if group is not None:
            self._after_removal(group, members_before)
        return group

    def _leave_one(self, group: ClassicGroup | None, leaving: LeaveGroupMember) -> KafkaErrorCode:
        if group is None:
            return KafkaErrorCode.UNKNOWN_MEMBER_ID
        member_id, instance_id = leaving.member_id, leaving.group_instance_id
        if not member_id:
            # An administrator removes a static member by its instance id alone.
            member_id = group.static_member(instance_id) or ""
        elif member_id in group.pending_members:
            self._forget(group, member_id)
            return KafkaErrorCode.NONE
        error = group.member_error(member_id, instance_id)
        if error is KafkaErrorCode.NONE:
            self._forget(group, member_id)
        return error

    def _forget(self, group: ClassicGroup, member_id: str) -> None:
        """Removes a member or an id.

        A waiting request is answered UNKNOWN_MEMBER_ID, after which a client joins again.
        """
        if (member := group.members.get(member_id)) is not None:
            self._end_join(group, member, "", KafkaErrorCode.UNKNOWN_MEMBER_ID)
            self._end_sync(member, KafkaErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member_id)

    def _after_removal(self, group: ClassicGroup, members_before: int) -> None:
        """Lets the others join again if a member has gone. The removal of an unused id changes nothing for them."""
        went = len(group.members) < members_before
        if went and group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare_rebalance(group)
        else:
            self._maybe_complete_join(group)

    # --------------------------------------------------------------------- time

    def expire(self, group: ClassicGroup) -> None:
        """Carries out everything whose deadline has come: sessions, unused ids, the ends of joining and of syncing."""
        now = self.out.now
        members_before = len(group.members)
        ids_before = len(group.pending_members)
        for member_id in [each for each, deadline in group.pending_members.items() if deadline <= now]:
            self._forget(group, member_id)
        for member in [each for each in group.members.values() if each.session_deadline <= now]:
            if member.waits and not member.is_new:
                # It waits for us. Its session begins again with the answer.
                member.session_deadline = NEVER
            else:
                self._forget(group, member.id)
        if len(group.members) < members_before or len(group.pending_members) < ids_before:
            self._after_removal(group, members_before)
        if group.join_deadline <= now and group.state is GroupState.PREPARING_REBALANCE:
            self._extend_or_complete_join(group)
        if group.sync_deadline <= now:
            self._expire_syncs(group)
        group.find_due()

    def _expire_syncs(self, group: ClassicGroup) -> None:
        """Members that have joined but not sent SyncGroup in time are removed, and the others join again."""
        group.sync_deadline = NEVER
        if not group.pending_syncs or group.state not in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return
        for member_id in list(group.pending_syncs):
            self._forget(group, member_id)
        self.prepare_rebalance(group)

    def begin_sessions(self, group: ClassicGroup) -> None:
        """Gives each member of a loaded group a whole session timeout. A group above its maximal size rebalances."""
        for member in group.members.values():
            self._renew_session(group, member)
        if len(group.members) > self.config.group_max_size:
            self.prepare_rebalance(group)

    def release(self, group: ClassicGroup, error: KafkaErrorCode) -> None:
        """Answers all requests of the group that wait with this error."""
        for member in group.members.values():
            self._end_join(group, member, member.id, error)
            self._end_sync(member, error)

    def _renew_session(self, group: ClassicGroup, member: GroupMember) -> None:
        group.set_session(member, self.out.now + member.session_timeout_ms / 1000)


def make_member_id(event: GroupRequestArrived, request: JoinGroupRequest) -> str:
    """Returns an id for a member that has none."""
    prefix = (event.client_id or "") if request.group_instance_id is None else request.group_instance_id
    return f"{prefix[:MEMBER_ID_PREFIX_MAX]}-{event.member_suffix}"


def rebalance_timeout_ms(event: GroupRequestArrived, request: JoinGroupRequest) -> int:
    """Returns the rebalance timeout of a member; version 0 has none, and the session timeout takes its place."""
    return request.session_timeout_ms if event.version < REBALANCE_TIMEOUT_VERSION else request.rebalance_timeout_ms


def _member_refusal(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> KafkaErrorCode:
    if group.state is GroupState.DEAD:
        return KafkaErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.member_error(member_id, instance_id)
    if error is KafkaErrorCode.NONE and generation != group.generation:
        return KafkaErrorCode.ILLEGAL_GENERATION
    return error


def _differs(stated: str | None, known: str | None) -> bool:
    return stated is not None and known is not None and stated != known
