"""One group by KIP-848: members with epochs, a target assignment, and the way of each member to it.

A group has an epoch, which a change of members, subscriptions or topics raises. The target assignment is made for an
epoch of the group. A member goes there in steps: it gives back what it is to lose, then takes the new epoch, then gets
each partition that no other member has. So a partition never belongs to two members.
"""

import enum
import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field

from kafka_compat.coordinator.assignors import ASSIGNORS, NOTHING, Partition, Partitions
from kafka_compat.coordinator.consumer_records import (
    ClassicValue,
    ConsumerValue,
    CurrentValue,
    GroupValue,
    MemberValue,
    PatternValue,
    RecordKind,
    TargetMemberValue,
    TargetValue,
    decode_consumer_record,
    pack,
    record_key,
    record_value,
    unpack,
)
from kafka_compat.coordinator.topic_search import TopicSearches
from log.values import frozen

NEVER = math.inf
LEFT_FOR_A_TIME = -2
"""The epoch of a static member that will come back."""
UNKNOWN_RECORD = b""
"""Stands for a record whose write failed: the log may have it, or the one before."""


@frozen
class KnownTopic:
    """A topic of the cluster."""

    id: bytes
    partitions: int


class MemberState(enum.IntEnum):
    """The states of a member on its way to the target assignment, by their numbers in records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ConsumerGroupState(enum.StrEnum):
    """The states of a group, by the names that operators see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@frozen
class Wishes:
    """The wishes of a member: a change of them raises the epoch of its group."""

    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    """An expression: the member reads the topics that match, too."""
    assignor: str | None = None


@define
class ConsumerMember:
    """One member. Deadlines are in seconds, as `now`."""

    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    wishes: Wishes = field(factory=Wishes)
    rebalance_timeout_ms: int = -1
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NOTHING
    revoking: Partitions = NOTHING
    """Partitions that the member may still read, although it is to give them back."""
    classic: ClassicValue | None = None
    """A member by JoinGroup and SyncGroup, in a group that is moving from one protocol to the other; else None."""
    session_deadline: float = NEVER
    revocation_deadline: float = NEVER
    """The time by which the member has to give back its partitions; a classic one: to join again, or to sync."""

    @property
    def held(self) -> Partitions:
        """All partitions that no other member may have."""
        return self.assigned | self.revoking

    def record(self) -> MemberValue:
        """Returns the member as it is written."""
        return MemberValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=tuple(sorted(self.wishes.topics)),
            subscribed_topic_regex=self.wishes.pattern,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.wishes.assignor,
            classic=self.classic,
        )

    def load(self, value: MemberValue) -> None:
        """Takes over what a record holds."""
        self.instance_id, self.rack_id = value.instance_id, value.rack_id
        self.client_id, self.client_host = value.client_id, value.client_host
        topics = frozenset(value.subscribed_topic_names)
        self.wishes = Wishes(topics, value.subscribed_topic_regex or None, value.server_assignor)
        self.rebalance_timeout_ms, self.classic = value.rebalance_timeout_ms, value.classic

    def current(self) -> CurrentValue:
        """Returns the epoch and partitions of the member as they are written."""
        return CurrentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=int(self.state),
            assigned=pack(self.assigned),
            revoking=pack(self.revoking),
        )


@define
class ConsumerGroup:
    """A group and all its members."""

    id: str
    epoch: int = 0
    target_epoch: int = 0
    metadata_hash: int = 0
    """Of the subscribed topics, as the epoch of the group knows them."""
    members: dict[str, ConsumerMember] = field(factory=dict)
    target: dict[str, Partitions] = field(factory=dict)
    owners: dict[Partition, str] = field(factory=dict)
    """The member that has each partition."""
    assignor: str = next(iter(ASSIGNORS))
    """Of the target assignment."""
    due: float = NEVER
    """A lower bound of all deadlines of this group."""
    written: dict[bytes, bytes] = field(factory=dict)
    """The records that the log has, or will have by the writes under way."""
    touched: set[str] = field(factory=set)
    """Members whose records may differ from those."""
    patterns: TopicSearches = field(factory=TopicSearches)
    owed: list[bytes] = field(factory=list)
    """Keys of a classic group in whose place this one came: their tombstones are still to be written."""

    # ------------------------------------------------------------------ members

    @property
    def state(self) -> ConsumerGroupState:
        """The state as operators see it."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        done = (each.epoch == self.target_epoch and each.state is MemberState.STABLE for each in self.members.values())
        return ConsumerGroupState.STABLE if all(done) else ConsumerGroupState.RECONCILING

    @property
    def is_classic(self) -> bool:
        """True if it has members, and all are classic ones."""
        return bool(self.members) and all(each.classic is not None for each in self.members.values())

    def supports(self, names: Iterable[str], joins: str) -> bool:
        """Returns True if every classic member but the one that joins supports one of these protocols."""
        supported = [
            {protocol.name for protocol in each.classic.protocols}
            for each in self.members.values()
            if each.classic is not None and each.id != joins
        ]
        return any(all(name in each for each in supported) for name in names)

    def has_to_join(self, member: ConsumerMember) -> bool:
        """Returns True if a classic member's next step begins with JoinGroup, which its heartbeats tell it."""
        if member.epoch < self.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
            return True
        missing = self.target.get(member.id, NOTHING) - member.assigned
        waits = member.state is MemberState.UNRELEASED_PARTITIONS
        return waits and not any(partition in self.owners for partition in missing)

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Returns the member with this instance id, or None."""
        if instance_id is None:
            return None
        return next((each for each in self.members.values() if each.instance_id == instance_id), None)

    def add(self, member: ConsumerMember) -> None:
        """Takes in a member."""
        self.members[member.id] = member
        self.touched.add(member.id)
        for partition in member.held:
            self.owners[partition] = member.id

    def remove(self, member: ConsumerMember) -> None:
        """Forgets a member; its partitions are free at once."""
        self.hold(member, NOTHING, NOTHING)
        del self.members[member.id]
        self.target.pop(member.id, None)
        self.touched.add(member.id)

    def replace(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """Gives a static member's place, with its subscription and its partitions, to another one."""
        new.wishes, new.rack_id, new.rebalance_timeout_ms = old.wishes, old.rack_id, old.rebalance_timeout_ms
        assigned, target = old.assigned, self.target.get(old.id, old.assigned)
        self.remove(old)
        new.assigned, self.target[new.id] = assigned, target
        self.add(new)

    def hold(self, member: ConsumerMember, assigned: Partitions, revoking: Partitions) -> None:
        """Sets the partitions that a member has."""
        for partition in member.held - assigned - revoking:
            if self.owners.get(partition) == member.id:
                del self.owners[partition]
        member.assigned, member.revoking = assigned, revoking
        for partition in member.held:
            self.owners[partition] = member.id
        self.touched.add(member.id)

    def subscribes_to(self, topic: str) -> bool:
        """Returns True if a member is subscribed to a topic."""
        return any(topic in self.topics_of(member) for member in self.members.values())

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Returns the names of all topics that a member reads; some may not exist."""
        topics, pattern = member.wishes.topics, member.wishes.pattern
        return topics if pattern is None else topics | self.patterns.found.get(pattern, frozenset())

    def forget_patterns(self) -> None:
        """Forgets the expressions that no member has any more."""
        self.patterns.keep({each.wishes.pattern for each in self.members.values()})

    def search(self, now: float) -> None:
        """Goes on with the searches for topics. What they find in the end raises the group's epoch."""
        if self.patterns.go_on(now):
            self.epoch = max(self.epoch, self.target_epoch + 1)
        self.due = min(self.due, self.patterns.due)

    # ---------------------------------------------------------------- assignment

    def hash_of(self, topics: Mapping[str, KnownTopic]) -> int:
        """Returns a hash of the subscribed topics that there are; 0 without any."""
        read = {name for member in self.members.values() for name in member.wishes.topics}
        names = {name for name in read.union(*self.patterns.found.values()) if name in topics}
        if not names:
            return 0
        text = repr([(name, topics[name].id, topics[name].partitions) for name in sorted(names)])
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)

    def assign(self, topics: Mapping[str, KnownTopic], allowed: tuple[str, ...]) -> None:
        """Makes the target assignment of the group's epoch, by the assignor that most members want."""
        votes = [each.wishes.assignor for each in self.members.values() if each.wishes.assignor in allowed]
        self.assignor = max(allowed, key=votes.count)
        read = {each.id: self.topics_of(each) for each in self.members.values()}
        found = {name: topics[name] for names in read.values() for name in names if name in topics}
        ordered = sorted(
            self.members.values(), key=lambda each: (each.instance_id is None, each.instance_id or each.id)
        )
        target = ASSIGNORS[self.assignor](
            {each.id: frozenset(found[name].id for name in read[each.id] if name in found) for each in ordered},
            {each.id: each.partitions for each in found.values()},
            self.target,
        )
        for member_id, partitions in target.items():
            if self.target.get(member_id) != partitions:
                self.touched.add(member_id)
        self.target, self.target_epoch = target, self.epoch

    def reconcile(self, member: ConsumerMember, owned: Partitions | None) -> None:
        """Takes the next step of a member to its target; `owned` is what it states to have, None if it does not."""
        if member.state is MemberState.STABLE and member.epoch == self.target_epoch:
            return
        if member.state is MemberState.UNREVOKED_PARTITIONS and _may_own(owned, member.revoking):
            return
        target = self.target.get(member.id, NOTHING)
        kept, lost = member.assigned & target, member.assigned - target
        if lost and _may_own(owned, lost):
            self.hold(member, kept, lost)
            member.state = MemberState.UNREVOKED_PARTITIONS
            return
        self.hold(member, kept, NOTHING)
        free = frozenset(each for each in target if each not in self.owners)
        self.hold(member, kept | free, NOTHING)
        waits = member.assigned != target
        member.state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
        if member.epoch != self.target_epoch:
            member.previous_epoch, member.epoch = member.epoch, self.target_epoch

    # ---------------------------------------------------------------- deadlines

    def find_due(self) -> None:
        """Makes `due` exact."""
        deadlines = (min(each.session_deadline, each.revocation_deadline) for each in self.members.values())
        self.due = min(self.patterns.due, min(deadlines, default=NEVER))

    # ------------------------------------------------------------------ records

    def changes(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yields the records to write, after which the log has this state."""
        for key in self.owed:
            yield key, None
        self.owed.clear()
        values: dict[bytes, ConsumerValue] = {
            record_key(RecordKind.GROUP, self.id): GroupValue(epoch=self.epoch, metadata_hash=self.metadata_hash),
            record_key(RecordKind.TARGET, self.id): TargetValue(assignment_epoch=self.target_epoch),
        }
        gone: list[bytes] = []
        for member_id in sorted(self.touched):
            keys = member_keys(self.id, member_id)
            if (member := self.members.get(member_id)) is None:
                gone += keys
                continue
            target = TargetMemberValue(topic_partitions=pack(self.target.get(member_id, NOTHING)))
            values.update(zip(keys, (member.record(), target, member.current()), strict=True))
        self.touched.clear()
        for text in sorted(self.patterns.rewritten):
            key = record_key(RecordKind.PATTERN, self.id, text)
            if text in self.patterns.found:
                values[key] = PatternValue(topics=tuple(sorted(self.patterns.found[text])))
            else:
                gone.append(key)
        self.patterns.rewritten.clear()
        for key in gone:
            if self.written.pop(key, None) is not None:
                yield key, None
        for key, value in values.items():
            encoded = record_value(value)
            if self.written.get(key) != encoded:
                self.written[key] = encoded
                yield key, encoded

    def doubt(self, keys: tuple[bytes, ...], members: frozenset[str]) -> None:
        """The write of these records of these members failed: they are written again with the next change."""
        for key in keys:
            self.written[key] = UNKNOWN_RECORD
            record = decode_consumer_record(key, None)
            if record is not None and record[0] is RecordKind.PATTERN:
                self.patterns.rewritten.add(record[2])
        self.touched |= members

    def load(self, kind: RecordKind, member_id: str, value: ConsumerValue | None) -> None:
        """Takes a record of this group. Later ones take the place of earlier ones, as compaction would."""
        key = record_key(kind, self.id, member_id)
        if value is None:
            self.written.pop(key, None)
        else:
            self.written[key] = record_value(value)
        match value:
            case GroupValue():
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case TargetValue():
                self.target_epoch = value.assignment_epoch
            case TargetMemberValue():
                self.target[member_id] = unpack(value.topic_partitions)
            case MemberValue():
                self.members.setdefault(member_id, ConsumerMember(member_id)).load(value)
            case CurrentValue():
                member = self.members.pop(member_id, None) or ConsumerMember(member_id)
                self.members[member_id] = member  # the last one: see `end_load`
                member.epoch, member.previous_epoch = value.member_epoch, value.previous_member_epoch
                member.state = MemberState(value.state) if value.state in set(MemberState) else MemberState.STABLE
                member.assigned, member.revoking = unpack(value.assigned), unpack(value.revoking)
            case PatternValue():
                self.patterns.found[member_id] = frozenset(value.topics)
            case None if kind is RecordKind.PATTERN:
                self.patterns.found.pop(member_id, None)
            case None if kind is RecordKind.TARGET_MEMBER:
                self.target.pop(member_id, None)
            case None if kind is RecordKind.MEMBER:
                self.members.pop(member_id, None)
            case None:
                pass

    def end_load(self) -> None:
        """Mends what a failed write leaves out of the log, which may have later writes.

        A partition belongs to the member whose record was written last: an earlier one gave it back in the lost write.
        Without the newest epoch of the group or its target, the next heartbeat makes a target for a newer one.
        """
        for member_id in [each for each in self.target if each not in self.members]:
            del self.target[member_id]
        for member in reversed(self.members.values()):
            taken = frozenset(each for each in member.held if each in self.owners)
            self.hold(member, member.assigned - taken, member.revoking - taken)
        newest = max((each.epoch for each in self.members.values()), default=0)
        if newest > self.target_epoch or self.target_epoch > self.epoch:
            self.target_epoch = max(self.target_epoch, newest)
            self.epoch = max(self.epoch, self.target_epoch + 1)


def member_keys(group: str, member: str) -> list[bytes]:
    """Returns the keys of all records of a member."""
    return [
        record_key(kind, group, member) for kind in (RecordKind.MEMBER, RecordKind.TARGET_MEMBER, RecordKind.CURRENT)
    ]


def _may_own(owned: Partitions | None, partitions: Partitions) -> bool:
    return owned is None or bool(owned & partitions)
