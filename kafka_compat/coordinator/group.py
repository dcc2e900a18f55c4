"""One classic group: its state, members and votes. `membership` decides the consequences of requests.

A group is Empty until a member joins. It is in PreparingRebalance while members join again, in CompletingRebalance
until the assignment of the group's leader is written, and Stable until something changes. Being deleted, it is Dead.
"""

import enum
import math
from collections.abc import Iterable, Iterator

from attrs import define, field

from kafka_compat.coordinator.record_formats import NO_TIMESTAMP, GroupMetadataMember, GroupMetadataValue
from kafka_compat.coordinator.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from kafka_compat.protocol.apis.join_group import JoinGroupMember, JoinGroupProtocol
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen

NEVER = math.inf


class GroupState(enum.StrEnum):
    """The states of a classic group, by the names that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@frozen
class WaitingJoin:
    """A JoinGroup that is answered when the rebalance completes."""

    token: int
    version: int


@define
class GroupMember:
    """One member. Deadlines are in seconds, as `now`."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[JoinGroupProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    """From its first JoinGroup to the answer: it does not know its id, so it cannot send heartbeats."""
    join: WaitingJoin | None = None
    sync_token: int | None = None
    session_deadline: float = NEVER
    """The time at which a silent member is removed; NEVER while a request of its own waits here."""

    @property
    def waits(self) -> bool:
        """True if a request of this member waits for an answer: it cannot send heartbeats meanwhile."""
        return self.join is not None or self.sync_token is not None

    def metadata(self, protocol: str | None) -> bytes:
        """Returns its metadata for a protocol; empty if it does not support that."""
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")


@define
class ClassicGroup:
    """A group and all its members."""

    id: str
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.EMPTY
    state_time_ms: int = NO_TIMESTAMP
    """The wall-clock time at which the group entered its state."""
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, GroupMember] = field(factory=dict)
    pending_members: dict[str, float] = field(factory=dict)
    """Ids that were given out (MEMBER_ID_REQUIRED), with the time until which they must have joined."""
    pending_syncs: set[str] = field(factory=set)
    """Members of this generation that have not sent SyncGroup."""
    subscribed: frozenset[str] | None = None
    """The topics of all members of this generation; None if unknown."""
    join_deadline: float = NEVER
    sync_deadline: float = NEVER
    initial_delay_ms: int = 0
    initial_remaining_ms: int = 0
    new_member_added: bool = False
    """In a first rebalance: a member came since the delay began, so it is extended."""
    assignment_under_way: bool = False
    """True while the leader's assignment of this generation is being written.

    Another assignment is refused meanwhile.
    """
    recorded: bool = False
    """True if the log may hold a record of this group, which a deletion has to cover."""
    due: float = NEVER
    """A lower bound of all deadlines of this group; the group may have no deadline then."""
    _static: dict[str, str] = field(factory=dict)
    _supporters: dict[str, int] = field(factory=dict)
    """The number of members that support each protocol."""
    joined_count: int = 0
    """The number of waiting JoinGroups."""

    # ------------------------------------------------------------------ members

    def add(self, member: GroupMember) -> None:
        """Takes in a member; the first one leads and decides the protocol type (set by the caller)."""
        assert member.id not in self.members, "a member is added twice"
        self.members[member.id] = member
        self.pending_members.pop(member.id, None)
        if member.instance_id is not None:
            self._static[member.instance_id] = member.id
        self._count(member, 1)
        if self.leader is None:
            self.leader = member.id

    def remove(self, member_id: str) -> None:
        """Forgets a member, or an id that was given out.

        If the member led, the next one leads. It must have no waiting request.
        """
        self.pending_members.pop(member_id, None)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        assert not member.waits, "a member is removed whose request waits"
        self._count(member, -1)
        if member.instance_id is not None and self._static.get(member.instance_id) == member_id:
            del self._static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def rename(self, old_id: str, new_id: str) -> GroupMember:
        """Gives a static member another id, in its place; returns the member."""
        member = self.members[old_id]
        member.id = new_id
        self.members = {each.id: each for each in self.members.values()}
        assert member.instance_id is not None, "only a static member is replaced"
        self._static[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_syncs:
            self.pending_syncs.remove(old_id)
            self.pending_syncs.add(new_id)
        return member

    def update(
        self, member: GroupMember, protocols: tuple[JoinGroupProtocol, ...], rebalance_ms: int, session_ms: int
    ) -> None:
        """Takes over the statements of a member's new JoinGroup; times in milliseconds."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms

    def wait_for_join(self, member: GroupMember, join: WaitingJoin) -> None:
        """Lets the member's JoinGroup wait. The member has no other waiting one."""
        assert member.join is None, "two requests to join wait for one member"
        member.join = join
        self.joined_count += 1

    def take_join(self, member: GroupMember) -> WaitingJoin | None:
        """Returns the JoinGroup that waits, if any; it does not wait any more."""
        join, member.join = member.join, None
        self.joined_count -= join is not None
        return join

    def static_member(self, instance_id: str | None) -> str | None:
        """Returns the id of the static member with this instance id, or None."""
        return None if instance_id is None else self._static.get(instance_id)

    def static_members(self) -> Iterator[tuple[str, str]]:
        """Yields every instance id with the id of its member."""
        yield from self._static.items()

    def member_error(self, member_id: str, instance_id: str | None) -> KafkaErrorCode:
        """Returns NONE if these ids belong to a member, else UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        if instance_id is not None:
            existing = self._static.get(instance_id)
            if existing is None:
                return KafkaErrorCode.UNKNOWN_MEMBER_ID
            if existing != member_id:
                return KafkaErrorCode.FENCED_INSTANCE_ID
        return KafkaErrorCode.NONE if member_id in self.members else KafkaErrorCode.UNKNOWN_MEMBER_ID

    # ---------------------------------------------------------------- rebalance

    @property
    def all_joined(self) -> bool:
        """Returns True if every member has joined again, and every id that was given out is used."""
        return self.joined_count == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def transition(self, state: GroupState, time_ms: int) -> None:
        """Goes over to another state."""
        self.previous_state, self.state = self.state, state
        self.state_time_ms = time_ms

    def elect_joined_leader(self) -> bool:
        """Keeps the leader if it has joined, or takes the first member that has; False if no member has."""
        if self.leader is None:
            return False
        if self.members[self.leader].join is None:
            joined = next((member.id for member in self.members.values() if member.join is not None), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def begin_generation(self, time_ms: int) -> None:
        """Begins the next generation with the members that there are: with a common protocol, or Empty."""
        self.generation += 1
        self.protocol = self.select_protocol() if self.members else None
        self.find_subscribed()
        self.pending_syncs.clear()
        self.assignment_under_way = False
        self.transition(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, time_ms)

    # ---------------------------------------------------------------- protocols

    def supports(self, protocol_type: str, protocols: Iterable[JoinGroupProtocol]) -> bool:
        """Returns True if a member with these protocols can join: all members support one of them."""
        names = {protocol.name for protocol in protocols}
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        return protocol_type == self.protocol_type and any(
            self._supporters.get(name, 0) == len(self.members) for name in names
        )

    def select_protocol(self) -> str:
        """Returns the protocol with most votes; each member votes for its first one that all members support."""
        candidates = {name for name, supporters in self._supporters.items() if supporters == len(self.members)}
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(protocol.name for protocol in member.protocols if protocol.name in candidates)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=votes.__getitem__)

    def subscribes_to(self, topic: str) -> bool:
        """Returns True if a member may be subscribed to a topic.

        An unknown subscription counts as yes in a group of consumers.
        """
        if self.subscribed is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed

    def join_members(self) -> tuple[JoinGroupMember, ...]:
        """Returns all members with their metadata, as the leader receives them."""
        return tuple(
            JoinGroupMember(
                member_id=member.id, group_instance_id=member.instance_id, metadata=member.metadata(self.protocol)
            )
            for member in self.members.values()
        )

    def _count(self, member: GroupMember, sign: int) -> None:
        for name in {protocol.name for protocol in member.protocols}:
            count = self._supporters.get(name, 0) + sign
            if count:
                self._supporters[name] = count
            else:
                del self._supporters[name]

    def find_subscribed(self) -> None:
        """Finds the topics of all members, after a change of the members or of the protocol."""
        self.subscribed = None
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return
        topics: set[str] = set()
        for member in self.members.values():
            subscribed = subscribed_topics(member.metadata(self.protocol))
            if subscribed is None:
                return
            topics |= subscribed
        self.subscribed = frozenset(topics)

    # ---------------------------------------------------------------- deadlines

    def set_session(self, member: GroupMember, deadline: float) -> None:
        """Sets the time by which the member must send something, in seconds."""
        member.session_deadline = deadline
        self.due = min(self.due, deadline)

    def set_pending_member(self, member_id: str, deadline: float) -> None:
        """Adds an id that was given out and must join by this time."""
        self.pending_members[member_id] = deadline
        self.due = min(self.due, deadline)

    def set_join_deadline(self, deadline: float) -> None:
        """Sets the time at which the rebalance completes at the latest."""
        self.join_deadline = deadline
        self.due = min(self.due, deadline)

    def set_sync_deadline(self, deadline: float) -> None:
        """Sets the time by which every member must have sent SyncGroup."""
        self.sync_deadline = deadline
        self.due = min(self.due, deadline)

    def find_due(self) -> None:
        """Makes `due` exact."""
        self.due = min(
            self.join_deadline,
            self.sync_deadline,
            *(member.session_deadline for member in self.members.values()),
            *self.pending_members.values(),
        )

    # ------------------------------------------------------------------ records

    def record(self, assignments: dict[str, bytes]) -> GroupMetadataValue:
        """Returns the group as it is written, with these assignments by member id."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=self.state_time_ms,
            members=tuple(
                GroupMetadataMember(
                    member_id=member.id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol),
                    assignment=assignments.get(member.id, b""),
                )
                for member in self.members.values()
            ),
        )

    @classmethod
    def load(cls, group_id: str, value: GroupMetadataValue) -> "ClassicGroup":
        """Returns the group that a record holds: Stable, or Empty without members.

        Its members have no deadlines yet.
        """
        group = cls(
            id=group_id,
            state=GroupState.STABLE if value.members else GroupState.EMPTY,
            previous_state=GroupState.EMPTY,
            state_time_ms=value.current_state_timestamp,
            generation=value.generation,
            protocol_type=value.protocol_type or None,
            protocol=value.protocol if value.protocol is not None or not value.members else "",
            recorded=True,
        )
        for member in value.members:
            rebalance_ms = member.session_timeout if member.rebalance_timeout < 0 else member.rebalance_timeout
            protocol = JoinGroupProtocol(name=value.protocol or "", metadata=member.subscription)
            group.add(
                GroupMember(
                    id=member.member_id,
                    instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=rebalance_ms,
                    session_timeout_ms=member.session_timeout,
                    protocols=(protocol,),
                    assignment=member.assignment,
                )
            )
        if value.leader is not None and value.leader in group.members:
            group.leader = value.leader
        group.find_subscribed()
        return group
