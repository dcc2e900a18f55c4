"""The way of a group with members from one protocol to the other, as Kafka 4 goes it (KIP-848).

The first member by KIP-848 makes a classic group of consumers one by KIP-848. The classic members stay in it with their
partitions, and go on with JoinGroup, SyncGroup and Heartbeat (`classic_members`). When the last member by KIP-848 has
gone, the group is classic again, and its members join again.
"""

from collections.abc import Mapping

from kafka_compat.coordinator.assignors import Partitions
from kafka_compat.coordinator.consumer_group import ConsumerGroup, ConsumerMember, KnownTopic, MemberState, Wishes
from kafka_compat.coordinator.consumer_records import ClassicProtocol, ClassicValue
from kafka_compat.coordinator.group import ClassicGroup, GroupMember, GroupState
from kafka_compat.coordinator.subscription import (
    CONSUMER_PROTOCOL_TYPE,
    Subscription,
    known_partitions,
    read_assignment,
    read_subscription,
    subscription_version,
    write_assignment,
)
from kafka_compat.protocol.apis.join_group import JoinGroupProtocol


def find_obstacle(group: ClassicGroup) -> str | None:
    """Returns the reason why a classic group with members cannot become one by KIP-848, or None."""
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return "the group does not use the consumer embedded protocol"
    if any(_subscription_of(group, member) is None for member in group.members.values()):
        return "the embedded consumer protocol is malformed"
    return None


def upgrade(group: ClassicGroup, topics: Mapping[str, KnownTopic]) -> ConsumerGroup:
    """Returns a classic group without obstacles as one by KIP-848. Its members keep their assignments.

    What a cooperative member had when it joined, and was not assigned again, it may still read: it gives that back first.
    """
    made = ConsumerGroup(group.id, epoch=group.generation, target_epoch=group.generation)
    owned: dict[str, Partitions] = {}
    for member in group.members.values():
        subscription = _subscription_of(group, member)
        assert subscription is not None, "a group is upgraded in spite of an obstacle"
        # A leader may have given a partition to two members: the first one has it.
        held = read_assignment(member.assignment, topics) - made.owners.keys()
        made.target[member.id] = held
        made.add(
            ConsumerMember(
                member.id,
                member.instance_id,
                subscription.rack_id,
                member.client_id,
                member.client_host,
                Wishes(frozenset(subscription.topics)),
                member.rebalance_timeout_ms,
                epoch=group.generation,
                previous_epoch=group.generation,
                assigned=held,
                classic=classic_part(member.session_timeout_ms, member.protocols),
            )
        )
        owned[member.id] = known_partitions(subscription.owned, topics)
    for consumer in made.members.values():
        if revoking := owned[consumer.id] - made.owners.keys():
            made.hold(consumer, consumer.assigned, revoking)
            consumer.state = MemberState.UNREVOKED_PARTITIONS
    return made


def downgrade(group: ConsumerGroup, topics: Mapping[str, KnownTopic], time_ms: int) -> ClassicGroup:
    """Returns a group whose members are all classic as a classic one, Stable with the partitions that they may read.

    Its generation is the newest epoch of any member: so their heartbeats report the rebalance, and they keep their partitions.
    """
    made = ClassicGroup(
        group.id,
        state=GroupState.STABLE,
        state_time_ms=time_ms,
        generation=group.target_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
    )
    for member in group.members.values():
        classic = member.classic
        assert classic is not None, "a group is downgraded under a member of the newer protocol"
        made.add(
            GroupMember(
                id=member.id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=classic.session_timeout_ms,
                protocols=tuple(
                    JoinGroupProtocol(name=each.name, metadata=each.metadata) for each in classic.protocols
                ),
                assignment=write_assignment(member.held, topics, assignment_version(classic)),
            )
        )
    made.protocol = made.select_protocol()
    made.find_subscribed()
    return made


def classic_part(session_timeout_ms: int, protocols: tuple[JoinGroupProtocol, ...]) -> ClassicValue:
    """Returns the part of a member that a record has only for a classic one."""
    return ClassicValue(
        session_timeout_ms=session_timeout_ms,
        protocols=tuple(ClassicProtocol(name=each.name, metadata=each.metadata) for each in protocols),
    )


def assignment_version(classic: ClassicValue) -> int:
    """Returns the version in which a classic member reads its assignment: that of its subscription."""
    return subscription_version(classic.protocols[0].metadata) if classic.protocols else 0


def _subscription_of(group: ClassicGroup, member: GroupMember) -> Subscription | None:
    first = member.protocols[0].metadata if member.protocols else b""
    return read_subscription(member.metadata(group.protocol) or first)
