"""Members by KIP-848 that follow the protocol, answers that are lost, failed writes, time and failovers in any order.

The promises: every heartbeat is answered once, and what its answer states is written. No partition is read by two members
that are in the group. No one keeps for longer than the rebalance timeout what it is to give back. An epoch, a commit or
an instance id that is not the member's is refused. When all is quiet, every partition has one reader.
"""

import re

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_compat.coordinator.assignors import Partitions
from kafka_compat.coordinator.config import CoordinatorConfig
from kafka_compat.coordinator.consumer_group import LEFT_FOR_A_TIME, KnownTopic, MemberState
from kafka_compat.coordinator.consumer_records import (
    CurrentValue,
    RecordKind,
    decode_consumer_record,
    pack,
    record_key,
    unpack,
)
from kafka_compat.coordinator.core import GroupCoordinator
from kafka_compat.coordinator.effects import AppendRecords, GroupAnswer
from kafka_compat.coordinator.events import (
    CoordinatorEvent,
    GroupRequestArrived,
    GroupTimePassed,
    LoadFinished,
    Record,
    RecordsLoaded,
    Resigned,
    TopicsKnown,
    WriteFailed,
    Written,
)
from kafka_compat.protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kafka_compat.protocol.apis.offset_commit import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopic,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.examples import examples

GROUP = "g"
NAMES = ("t", "u")
SESSION_S, REBALANCE_S, BEAT_S = 45.0, 60.0, 5.0
CONFIG = CoordinatorConfig(groups_max=4)
BEGINS_AGAIN = (
    KafkaErrorCode.UNKNOWN_MEMBER_ID,
    KafkaErrorCode.FENCED_MEMBER_EPOCH,
    KafkaErrorCode.GROUP_ID_NOT_FOUND,
    KafkaErrorCode.UNRELEASED_INSTANCE_ID,
)


@attrs.define
class Member:
    """One consumer. It stops reading by itself when it has had no answer for a session."""

    number: int
    instance: str | None
    topics: tuple[str, ...]
    pattern: str = ""
    life: int = 0
    epoch: int = 0
    reads: Partitions = frozenset()
    wanted: Partitions = frozenset()
    """The assignment received last."""
    stated: Partitions | None = None
    """Partitions that it reads, as the last answered heartbeat said."""
    token: int | None = None
    asked: ConsumerGroupHeartbeatRequest | None = None
    heard_at: float = 0.0

    @property
    def id(self) -> str:
        return f"m{self.number}-{self.life}"

    def begin_again(self, *, new_id: bool) -> None:
        self.life += new_id
        self.epoch, self.reads, self.wanted, self.stated = 0, frozenset(), frozenset(), None


class ConsumerMachine(RuleBasedStateMachine):
    """`base` has the records that the coordinator loaded, `appended` its own writes in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.counts = {"t": 3, "u": 2}
        self.members = [
            Member(number, f"i{number}" if number == 2 else None, NAMES if number else ("t",)) for number in range(3)
        ]
        self.tokens = 0
        self.base: list[Record] = []
        self.appended: dict[int, tuple[Record, ...]] = {}
        self.under_way: list[int] = []
        self.failed: list[int] = []
        """Writes that failed and are in the log: they count with the next."""
        self.durable: dict[bytes, bytes | None] = {}
        self.giving_since: dict[str, float] = {}
        self.commits: dict[int, bool] = {}
        """By token: True if the commit may pass."""
        self.coordinator = GroupCoordinator(CONFIG)
        self.step(LoadFinished(0))

    # ---------------------------------------------------------------- the coordinator

    def step(self, event: CoordinatorEvent) -> None:
        for effect in self.coordinator.step(self.now, event):
            if isinstance(effect, AppendRecords):
                self.appended[effect.write_id] = effect.records
                self.under_way.append(effect.write_id)
            else:
                assert isinstance(effect, GroupAnswer)
                self.deliver(effect)

    def deliver(self, effect: GroupAnswer) -> None:
        if isinstance(effect.response, OffsetCommitResponse):
            error = KafkaErrorCode(effect.response.topics[0].partitions[0].error_code)
            assert self.commits.pop(effect.token) or error is not KafkaErrorCode.NONE, (
                "a commit of another epoch counts"
            )
            return
        assert isinstance(effect.response, ConsumerGroupHeartbeatResponse)
        for member in self.members:
            if member.token == effect.token:
                member.token = None
                self.take(member, effect.response)

    def take(self, member: Member, response: ConsumerGroupHeartbeatResponse) -> None:
        error = KafkaErrorCode(response.error_code)
        if error in BEGINS_AGAIN:
            member.begin_again(new_id=error is KafkaErrorCode.UNRELEASED_INSTANCE_ID)
            return
        if error is not KafkaErrorCode.NONE:
            member.stated = None
            return
        assert member.asked is not None
        self.check_written(member, response)
        member.heard_at = self.now
        member.epoch = response.member_epoch
        if member.asked.topic_partitions is not None:
            member.stated = unpack(member.asked.topic_partitions)
        if response.assignment is not None:
            member.wanted = unpack(response.assignment.topic_partitions)
            member.reads |= member.wanted

    def check_written(self, member: Member, response: ConsumerGroupHeartbeatResponse) -> None:
        """The next coordinator would know the epoch and the partitions of an answer."""
        key = record_key(RecordKind.CURRENT, GROUP, member.id)
        decoded = decode_consumer_record(key, self.durable.get(key))
        assert decoded is not None
        current = decoded[3]
        assert isinstance(current, CurrentValue), "an answer comes before its member is written"
        assert current.member_epoch == response.member_epoch, "an answer comes before its epoch is written"
        if response.assignment is not None:
            given = unpack(response.assignment.topic_partitions)
            assert given == unpack(current.assigned), "an answer comes before its partitions are written"

    def ids(self) -> dict[str, KnownTopic]:
        return {name: KnownTopic(name.encode() * 16, count) for name, count in self.counts.items()}

    # ---------------------------------------------------------------- members

    @initialize()
    def everyone_is_in(self) -> None:
        for _ in range(4):
            for member in self.members:
                self.beat(member.number, lost=False, gives_up=True, written=True)

    @rule(
        number=st.integers(0, 2),
        lost=st.sampled_from([False, False, False, True]),
        gives_up=st.booleans(),
        written=st.sampled_from([True, True, False]),
    )
    def beat(self, number: int, lost: bool, gives_up: bool, written: bool) -> None:
        """A lost request has effects, but no answer."""
        member = self.members[number]
        if gives_up:
            member.reads &= member.wanted
        self._beat(member, lost)
        while written and self.under_way:
            self.write()

    def _beat(self, member: Member, lost: bool) -> None:
        if member.token is not None:
            return
        states = member.reads if member.stated != member.reads else None
        topics = None
        if states is not None:
            topics = tuple(
                ConsumerGroupHeartbeatTopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                for each in pack(states)
            )
        member.asked = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member.id,
            member_epoch=member.epoch,
            instance_id=member.instance,
            rebalance_timeout_ms=round(REBALANCE_S * 1000) if states is not None else -1,
            subscribed_topic_names=member.topics if states is not None else None,
            subscribed_topic_regex=member.pattern if states is not None else None,
            topic_partitions=topics,
        )
        self.send(member, member.asked)
        if lost:
            member.token, member.stated = None, None

    def send(self, member: Member, request: ConsumerGroupHeartbeatRequest) -> None:
        self.tokens += 1
        member.token = self.tokens
        self.step(TopicsKnown(self.ids()))
        self.step(GroupRequestArrived(self.tokens, 1, request, round(self.now * 1000)))

    @rule(number=st.integers(0, 2))
    def leave(self, number: int) -> None:
        member = self.members[number]
        if member.epoch == 0 or member.token is not None:
            return
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member.id,
            member_epoch=-1 if member.instance is None else -2,
            instance_id=member.instance,
        )
        member.begin_again(new_id=True)
        self.send(member, request)
        member.token = None

    @rule(
        number=st.integers(0, 2),
        wanted=st.sampled_from([(("t",), ""), (("u",), ""), (NAMES, ""), ((), "t|u"), ((), "[^u]"), (("u",), "t")]),
    )
    def subscribe(self, number: int, wanted: tuple[tuple[str, ...], str]) -> None:
        member = self.members[number]
        (member.topics, member.pattern), member.stated = wanted, None

    @rule(number=st.integers(0, 2), ahead=st.sampled_from([-2, -1, 0, 1]), named=st.booleans())
    def commit(self, number: int, ahead: int, named: bool) -> None:
        member = self.members[number]
        group = self.coordinator.consumer_groups.get(GROUP)
        known = group.members.get(member.id) if group is not None else None
        epoch = member.epoch + ahead
        if epoch < 0:
            return
        self.tokens += 1
        self.commits[self.tokens] = known is not None and named and known.epoch == epoch
        partition = OffsetCommitPartition(partition_index=0, committed_offset=1, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=epoch,
            member_id=member.id if named else "someone",
            topics=(OffsetCommitTopic(name="t", partitions=(partition,)),),
        )
        if group is not None and group.members:
            self.step(GroupRequestArrived(self.tokens, 9, request, round(self.now * 1000)))
        else:
            del self.commits[self.tokens]

    @rule(number=st.integers(0, 2), ahead=st.sampled_from([-3, -2, 1]))
    def ghost(self, number: int, ahead: int) -> None:
        """Someone with the id of a member is in an epoch that is neither its own nor the one before."""
        member = self.members[number]
        group = self.coordinator.consumer_groups.get(GROUP)
        known = group.members.get(member.id) if group is not None else None
        if known is None or known.epoch + ahead <= 0 or known.epoch + ahead == known.previous_epoch:
            return
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=member.id, member_epoch=known.epoch + ahead, instance_id=member.instance
        )
        assert self.ask_aside(request) is KafkaErrorCode.FENCED_MEMBER_EPOCH, "an epoch fences no one"

    @rule()
    def impostor(self) -> None:
        """A second member with the instance id of one that is there."""
        group = self.coordinator.consumer_groups.get(GROUP)
        static = group.static_member("i2") if group is not None else None
        if static is None or static.epoch == LEFT_FOR_A_TIME:
            return
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="impostor",
            member_epoch=0,
            instance_id="i2",
            rebalance_timeout_ms=round(REBALANCE_S * 1000),
            subscribed_topic_names=NAMES,
            topic_partitions=(),
        )
        assert self.ask_aside(request) is KafkaErrorCode.UNRELEASED_INSTANCE_ID, "an instance id is taken over"

    def ask_aside(self, request: ConsumerGroupHeartbeatRequest) -> KafkaErrorCode:
        """The error of a request that is refused at once, by one that is no member."""
        self.tokens += 1
        event = GroupRequestArrived(self.tokens, 1, request, round(self.now * 1000))
        effects = self.coordinator.step(self.now, event)
        assert effects, "what should be refused waits for a write"
        answer = effects[0]
        assert isinstance(answer, GroupAnswer), "what should be refused is written"
        assert isinstance(answer.response, ConsumerGroupHeartbeatResponse)
        return KafkaErrorCode(answer.response.error_code)

    @rule(number=st.integers(0, 2))
    def hold_on(self, number: int) -> None:
        """A member goes on with its heartbeats, and gives nothing back."""
        for _ in range(14):
            for member in self.members:
                self.beat(member.number, lost=False, gives_up=member.number != number, written=True)
            self.wait(BEAT_S)

    @rule()
    def grow(self) -> None:
        if self.counts["t"] < 5:
            self.counts["t"] += 1

    # ---------------------------------------------------------------- writes, time and failovers

    @precondition(lambda self: self.under_way)
    @rule()
    def write(self) -> None:
        write_id = self.under_way.pop(0)
        for each in (*self.failed, write_id):
            self.durable.update(self.appended[each])
        self.failed.clear()
        self.step(Written(write_id))

    @precondition(lambda self: self.under_way)
    @rule(kept=st.booleans())
    def fail(self, kept: bool) -> None:
        write_id = self.under_way.pop(0)
        error = KafkaErrorCode.REQUEST_TIMED_OUT if kept else KafkaErrorCode.NOT_ENOUGH_REPLICAS
        if kept:
            self.failed.append(write_id)
        else:
            del self.appended[write_id]
        self.step(WriteFailed(write_id, error))

    @rule(seconds=st.sampled_from([1.0, 1.0, 20.0, 50.0]))
    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while self.coordinator.deadline <= end:
            self.now = max(self.now, self.coordinator.deadline)
            self.step(GroupTimePassed(round(self.now * 1000)))
        self.now = end
        for member in self.members:
            if member.reads and self.now - member.heard_at >= SESSION_S:
                member.reads, member.stated = frozenset(), None

    @rule(lost=st.integers(0, 2))
    def fail_over(self, lost: int) -> None:
        """The newest writes under way may be lost with the leader."""
        kept = self.under_way[: max(0, len(self.under_way) - lost)]
        gone = set(self.under_way) - set(kept)
        self.base += (record for number, each in self.appended.items() if number not in gone for record in each)
        self.step(Resigned())
        self.appended, self.under_way = {}, []
        self.failed.clear()
        self.commits.clear()
        self.giving_since.clear()
        self.durable = dict(self.base)
        self.coordinator = GroupCoordinator(CONFIG)
        self.step(RecordsLoaded(tuple(self.base)))
        self.step(LoadFinished(round(self.now * 1000)))

    # ---------------------------------------------------------------- promises

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        """A member whose rebalance timeout is over is out of the group; it learns that with its next heartbeat."""
        group = self.coordinator.consumer_groups.get(GROUP)
        present = [each for each in self.members if group is not None and each.id in group.members]
        read = [partition for member in present for partition in member.reads]
        assert len(read) == len(set(read)), "two members read one partition"

    @invariant()
    def no_one_gives_back_without_end(self) -> None:
        group = self.coordinator.consumer_groups.get(GROUP)
        giving = {
            f"{member.id} {member.epoch} {sorted(member.revoking)}"
            for member in (group.members.values() if group is not None else ())
            if member.state is MemberState.UNREVOKED_PARTITIONS
        }
        self.giving_since = {each: self.giving_since.get(each, self.now) for each in giving}
        longest = max((self.now - since for since in self.giving_since.values()), default=0.0)
        assert longest <= REBALANCE_S, "a member keeps what it is to give back"

    def teardown(self) -> None:
        """Without faults, every partition of a subscribed topic gets one reader. A member whose answer does not come states all."""
        for _ in range(100):
            for member in self.members:
                if member.token is not None:
                    member.token, member.stated = None, None
                self.beat(member.number, lost=False, gives_up=True, written=True)
            self.wait(1.0)
        names = {
            name
            for member in self.members
            for name in NAMES
            if name in member.topics or (member.pattern and re.fullmatch(member.pattern, name))
        }
        topics = self.ids()
        everything = {(topics[name].id, number) for name in names for number in range(topics[name].partitions)}
        read = [partition for member in self.members for partition in member.reads]
        assert sorted(read) == sorted(everything), "a partition has no reader, or two"


ConsumerMachine.TestCase.settings = settings(max_examples=examples(24), stateful_step_count=40, deadline=None)
test_members_share_every_partition_through_faults = ConsumerMachine.TestCase
