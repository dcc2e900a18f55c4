"""The operators' requests: DescribeGroups, ListGroups and DeleteGroups."""

from attrs import define

from kafka_compat.coordinator.answers import described_error
from kafka_compat.coordinator.consumer_requests import ConsumerRequests
from kafka_compat.coordinator.events import GroupRequestArrived
from kafka_compat.coordinator.group import ClassicGroup, GroupState
from kafka_compat.coordinator.offsets import OffsetChange, OffsetStore
from kafka_compat.coordinator.record_formats import group_key
from kafka_compat.coordinator.writes import GroupDeletion, StepOutput
from kafka_compat.protocol import authorized
from kafka_compat.protocol.apis.delete_groups import DeleteGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kafka_compat.protocol.apis.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka_compat.protocol.apis.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import evolve

CLASSIC_TYPE, CONSUMER_TYPE = "classic", "consumer"
NOT_FOUND_VERSION = 6
"""From this version of DescribeGroups an unknown group is an error; before, a group in state Dead."""


@define
class GroupRequests:
    """The requests about the groups of one coordinator as a whole."""

    groups: dict[str, ClassicGroup]
    consumers: ConsumerRequests
    offsets: OffsetStore
    out: StepOutput

    def describe(self, version: int, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        """Returns each group. Only Stable groups have subscriptions and assignments."""
        operations = authorized.ON_GROUP if request.include_authorized_operations else authorized.NOT_ASKED
        return DescribeGroupsResponse(
            groups=tuple(self._describe(version, group_id, operations) for group_id in request.groups)
        )

    def _describe(self, version: int, group_id: str, operations: int) -> DescribedGroup:
        group = self.groups.get(group_id)
        if group is None:
            if version >= NOT_FOUND_VERSION:
                known = group_id in self.consumers.groups
                text = f"Group {group_id} is not a classic group." if known else f"Group {group_id} not found."
                return described_error(group_id, KafkaErrorCode.GROUP_ID_NOT_FOUND, text, GroupState.DEAD)
            dead = described_error(group_id, KafkaErrorCode.NONE, state=GroupState.DEAD)
            return evolve(dead, authorized_operations=operations)
        stable = group.state is GroupState.STABLE
        return DescribedGroup(
            error_code=KafkaErrorCode.NONE,
            group_id=group_id,
            group_state=group.state,
            protocol_type=group.protocol_type or "",
            protocol_data=(group.protocol or "") if stable else "",
            members=tuple(
                DescribedGroupMember(
                    member_id=member.id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(group.protocol) if stable else b"",
                    member_assignment=member.assignment if stable else b"",
                )
                for member in group.members.values()
            ),
            authorized_operations=operations,
        )

    def list(self, request: ListGroupsRequest) -> ListGroupsResponse:
        """Returns the groups that pass both filters, which ignore case."""
        states = {state.lower() for state in request.states_filter}
        types = {type_.lower() for type_ in request.types_filter}
        listed = [
            ListedGroup(
                group_id=group.id,
                protocol_type=group.protocol_type or "",
                group_state=group.state,
                group_type=CLASSIC_TYPE,
            )
            for group in self.groups.values()
        ]
        listed += (
            ListedGroup(group_id=each.id, protocol_type=CONSUMER_TYPE, group_state=each.state, group_type=CONSUMER_TYPE)
            for each in self.consumers.groups.values()
        )
        passed = (
            each
            for each in listed
            if (not states or each.group_state.lower() in states) and (not types or each.group_type in types)
        )
        return ListGroupsResponse(error_code=KafkaErrorCode.NONE, groups=tuple(passed))

    def delete(self, event: GroupRequestArrived, request: DeleteGroupsRequest) -> None:
        """Writes the tombstones of all Empty groups, which are Dead from now on. Answers when they are written."""
        deleted: list[ClassicGroup] = []
        others: list[DeleteGroupResult] = []
        for group_id in dict.fromkeys(request.groups_names):
            consumers = self.consumers.groups.get(group_id)
            if consumers is not None and not consumers.members:
                self.consumers.release(group_id)
            group = self.groups.get(group_id)
            if consumers is not None and consumers.members:
                others.append(DeleteGroupResult(group_id=group_id, error_code=KafkaErrorCode.NON_EMPTY_GROUP))
            elif group is None or group.state is GroupState.DEAD:
                others.append(DeleteGroupResult(group_id=group_id, error_code=KafkaErrorCode.GROUP_ID_NOT_FOUND))
            elif group.state is GroupState.EMPTY:
                deleted.append(group)
            else:
                others.append(DeleteGroupResult(group_id=group_id, error_code=KafkaErrorCode.NON_EMPTY_GROUP))
        if not deleted:
            self.out.answer(event.token, DeleteGroupsResponse(results=tuple(others)))
            return
        changes: list[OffsetChange] = []
        for group in deleted:
            group.transition(GroupState.DEAD, self.out.time_ms)
            group.pending_members.clear()
            changes += (OffsetChange(group.id, *position, None) for position in self.offsets.positions(group.id))
        records = (*(change.record() for change in changes), *((group_key(group.id), None) for group in deleted))
        write_id = self.out.append(records, GroupDeletion(event.token, tuple(deleted), tuple(others)))
        self.offsets.begin(write_id, tuple(changes))

    def deletion_ended(self, write: GroupDeletion, error: KafkaErrorCode) -> None:
        """Answers a deletion: the groups are gone, or, with an error, Empty as before."""
        self.bury(write.groups, error)
        results = (DeleteGroupResult(group_id=group.id, error_code=error) for group in write.groups)
        self.out.answer(write.token, DeleteGroupsResponse(results=(*results, *write.others)))

    def bury(self, groups: tuple[ClassicGroup, ...], error: KafkaErrorCode) -> None:
        """Forgets groups whose tombstones are written.

        After an error, or while offsets remain, they are Empty again.
        """
        for group in groups:
            if error is KafkaErrorCode.NONE and not self.offsets.positions(group.id):
                del self.groups[group.id]
            else:
                since = group.state_time_ms
                group.transition(GroupState.EMPTY, since)
