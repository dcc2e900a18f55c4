"""The invariants of a group, checked after every step that touched it, in production too.

A broken rule becomes a crash instead of two consumers of one partition. These rules need only one group. That the
members' assignments are the leader's decision involves the clients, too; tests and simulation check that.
"""

from kafka_compat.coordinator.consumer_group import ConsumerGroup, MemberState
from kafka_compat.coordinator.group import NEVER, ClassicGroup, GroupState

REBALANCING = (GroupState.PREPARING_REBALANCE, GroupState.STABLE)
"""The states in which a JoinGroup may wait; in a Stable group it waits for a static member's new record."""


def check(group: ClassicGroup) -> None:
    """Raises `AssertionError` if the group is in a state that no sequence of events leads to."""
    state, members = group.state, group.members
    waiting = [member for member in members.values() if member.join is not None]
    syncing = [member for member in members.values() if member.sync_token is not None]
    assert len(waiting) == group.joined_count, "the count of requests to join that wait is wrong"
    assert not waiting or state in REBALANCING, f"a request to join waits in state {state}"
    assert not syncing or state is GroupState.COMPLETING_REBALANCE, f"a request to sync waits in state {state}"
    assert all(member.join is None for member in syncing), "two requests of one member wait"
    if state in (GroupState.EMPTY, GroupState.DEAD):
        assert not members, f"a group in state {state} has members"
    if state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        assert members, f"a group in state {state} has no members"
        assert group.protocol is not None, "a generation without a protocol"
    if state is GroupState.PREPARING_REBALANCE:
        assert group.join_deadline < NEVER, "a rebalance without an end"
    if state is GroupState.COMPLETING_REBALANCE:
        assert group.assignment_under_way or group.sync_deadline < NEVER, "a leader may never send the assignment"
    assert (group.leader in members) if members else group.leader is None, "the leader is not a member"
    assert group.pending_syncs <= members.keys(), "a member that has left is waited for"
    assert not group.pending_syncs or group.sync_deadline < NEVER, "a member that never syncs is kept without end"
    assert not group.pending_members.keys() & members.keys(), "an id is given out, and a member"
    for member_id, member in members.items():
        assert member.id == member_id, "a member is kept under another id"
        assert member.waits or member.session_deadline < NEVER, "a member that is silent is kept without end"
    static = dict(group.static_members())
    assert static == {each.instance_id: each.id for each in members.values() if each.instance_id is not None}, (
        "two members, or none, for one instance id"
    )


def check_consumers(group: ConsumerGroup) -> None:
    """Raises `AssertionError` if a group by KIP-848 is in a state that no sequence of events leads to."""
    held = [partition for member in group.members.values() for partition in member.held]
    assert len(held) == len(group.owners), "a partition belongs to two members"
    for member in group.members.values():
        assert all(group.owners.get(each) == member.id for each in member.held), "a partition has another owner"
        assert member.epoch <= group.target_epoch, "a member is ahead of the target assignment"
        assert not member.assigned & member.revoking, "a partition is given back and kept"
        waits = member.state is MemberState.UNREVOKED_PARTITIONS
        assert not waits or member.revocation_deadline < NEVER, "a member may never give its partitions back"
        assert member.session_deadline < NEVER, "a member that is silent is kept without end"
    assert group.target_epoch <= group.epoch, "the target assignment is ahead of its group"
    assert group.target.keys() <= group.members.keys(), "a member that has left has a target"
