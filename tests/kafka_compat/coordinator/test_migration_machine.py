"""Members of both protocols in one group, that come, go, are replaced, and lose their coordinator, in any order.

The promises: a classic member is in the group by a generation that it was given. No partition is read by two members that
are in the group, while members of both protocols are. When all is quiet, every partition has one reader, in a group of
either protocol.
"""

from collections.abc import Mapping

from attrs import define, field
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_compat.coordinator.config import CoordinatorConfig
from kafka_compat.coordinator.consumer_group import KnownTopic
from kafka_compat.coordinator.core import GroupCoordinator
from kafka_compat.coordinator.effects import AppendRecords, GroupAnswer, GroupResponse
from kafka_compat.coordinator.events import (
    CoordinatorEvent,
    GroupRequest,
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
from kafka_compat.coordinator.subscription import (
    Assignment,
    EmbeddedPartitions,
    Subscription,
    known_partitions,
    read_assignment,
    read_subscription,
)
from kafka_compat.protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kafka_compat.protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_compat.protocol.apis.join_group import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from kafka_compat.protocol.apis.leave_group import LeaveGroupMember, LeaveGroupRequest
from kafka_compat.protocol.apis.sync_group import SyncGroupAssignment, SyncGroupRequest, SyncGroupResponse
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.examples import examples
from tests.kafka_compat.coordinator.consumer_words import encode_embedded

GROUP, TOPIC, PARTITIONS, MEMBERS = "g", "t", 9, 3
TOPICS = {TOPIC: KnownTopic(b"t" * 16, PARTITIONS)}
SESSION_S, REBALANCE_S = 45.0, 60.0
CONFIG = CoordinatorConfig(group_initial_rebalance_delay_ms=0)


@define
class Member:
    """One program, started again with either protocol. A cooperative one keeps what it reads when it joins."""

    number: int
    is_classic: bool = True
    is_cooperative: bool = False
    life: int = 0
    id: str = ""
    epoch: int = 0
    """Its epoch or generation; 0: it has to join."""
    reads: frozenset[int] = frozenset()
    wanted: frozenset[int] = frozenset()
    """The partitions that it was given last; it gives up what else it reads before its next request."""
    token: int | None = None
    joins: bool = True
    others: Mapping[str, frozenset[int]] = field(factory=dict)
    """Those to assign for, if it leads a classic group, with the partitions that they keep while they join."""

    def begin(self, *, classic: bool) -> None:
        self.life += 1
        self.is_classic = classic
        self.drop()
        self.id = "" if classic else f"c{self.number}-{self.life}"

    def drop(self) -> None:
        self.epoch, self.reads, self.wanted, self.token, self.joins = 0, frozenset(), frozenset(), None, True

    def get(self, partitions: frozenset[int]) -> None:
        self.wanted = partitions
        self.reads |= partitions


def _read_owned(metadata: bytes) -> frozenset[int]:
    subscription = read_subscription(metadata)
    assert subscription is not None
    return frozenset(number for _, number in known_partitions(subscription.owned, TOPICS))


class MigrationMachine(RuleBasedStateMachine):
    """`base` has the records that the coordinator loaded, `appended` its own writes in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.tokens = 0
        self.members = [Member(number, is_cooperative=number == 1) for number in range(MEMBERS)]
        self.base: list[Record] = []
        self.appended: dict[int, tuple[Record, ...]] = {}
        self.under_way: list[int] = []
        self.load()

    def load(self) -> None:
        self.coordinator = GroupCoordinator(CONFIG)
        self.step(RecordsLoaded(tuple(self.base)))
        self.step(TopicsKnown(TOPICS))
        self.step(LoadFinished(round(self.now * 1000)))

    # ---------------------------------------------------------------- the coordinator

    def step(self, event: CoordinatorEvent) -> None:
        for effect in self.coordinator.step(self.now, event):
            if isinstance(effect, AppendRecords):
                self.appended[effect.write_id] = effect.records
                self.under_way.append(effect.write_id)
            else:
                assert isinstance(effect, GroupAnswer)
                for member in self.members:
                    if member.token == effect.token:
                        member.token = None
                        self.take(member, effect.response)

    def ask(self, member: Member, version: int, request: GroupRequest) -> None:
        self.tokens += 1
        member.token = self.tokens
        suffix = f"{member.number}-{member.life}-{self.tokens}"
        self.step(GroupRequestArrived(self.tokens, version, request, round(self.now * 1000), member_suffix=suffix))

    def take(self, member: Member, response: GroupResponse) -> None:
        match response:
            case ConsumerGroupHeartbeatResponse(error_code=KafkaErrorCode.NONE):
                member.epoch = response.member_epoch
                if response.assignment is not None:
                    given = response.assignment.topic_partitions
                    member.get(frozenset(number for topic in given for number in topic.partitions))
            case JoinGroupResponse(error_code=KafkaErrorCode.NONE):
                member.id, member.epoch, member.joins = response.member_id, response.generation_id, False
                member.others = {each.member_id: _read_owned(each.metadata) for each in response.members}
                self.sync(member)
            case JoinGroupResponse(error_code=KafkaErrorCode.MEMBER_ID_REQUIRED):
                member.id = response.member_id
            case SyncGroupResponse(error_code=KafkaErrorCode.NONE):
                member.get(frozenset(number for _, number in read_assignment(response.assignment, TOPICS)))
                member.joins = member.reads != member.wanted  # and states by that what it has given up
            case HeartbeatResponse(error_code=KafkaErrorCode.NONE):
                pass
            case (
                HeartbeatResponse(error_code=KafkaErrorCode.REBALANCE_IN_PROGRESS)
                | SyncGroupResponse(error_code=KafkaErrorCode.REBALANCE_IN_PROGRESS)
            ):
                member.joins = True
            case _:
                code = KafkaErrorCode(response.error_code)  # type: ignore[union-attr]
                if code in (KafkaErrorCode.COORDINATOR_NOT_AVAILABLE, KafkaErrorCode.REBALANCE_IN_PROGRESS):
                    member.joins = member.is_classic
                elif code is not KafkaErrorCode.NOT_COORDINATOR:
                    keeps_id = code is KafkaErrorCode.ILLEGAL_GENERATION or not member.is_classic
                    member.drop()
                    member.id = member.id if keeps_id else ""

    # ---------------------------------------------------------------- members

    @initialize(newer=st.sampled_from([(), (), (2,), (0, 1, 2)]))
    def everyone_is_in(self, newer: tuple[int, ...]) -> None:
        for number in newer:
            self.members[number].begin(classic=False)
        for _ in range(4):
            self.all_go_on()

    @rule()
    def all_go_on(self) -> None:
        for member in self.members:
            self.go_on(member.number, True)
        self.wait(1.0)

    @rule(number=st.integers(0, MEMBERS - 1), written=st.sampled_from([True, True, False]))
    def go_on(self, number: int, written: bool) -> None:
        member = self.members[number]
        if member.token is None:
            member.reads &= member.wanted
            if not member.is_classic:
                self.beat_newer(member)
            elif member.joins:
                self.join(member)
            else:
                request = HeartbeatRequest(group_id=GROUP, generation_id=member.epoch, member_id=member.id)
                self.ask(member, 3, request)
        while written and self.under_way:
            self.write()
        self.no_partition_has_two_readers()

    def beat_newer(self, member: Member) -> None:
        topics = (ConsumerGroupHeartbeatTopicPartitions(topic_id=TOPICS[TOPIC].id, partitions=tuple(member.reads)),)
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member.id,
            member_epoch=member.epoch,
            rebalance_timeout_ms=round(REBALANCE_S * 1000),
            subscribed_topic_names=(TOPIC,),
            topic_partitions=topics if member.reads else (),
        )
        self.ask(member, 1, request)

    def join(self, member: Member) -> None:
        if not member.is_cooperative:
            member.reads = frozenset()
        owned = (EmbeddedPartitions(topic=TOPIC, partitions=tuple(member.reads)),) if member.reads else ()
        metadata = encode_embedded(Subscription(topics=(TOPIC,), owned=owned), 1)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=round(SESSION_S * 1000),
            rebalance_timeout_ms=round(REBALANCE_S * 1000),
            member_id=member.id,
            protocol_type="consumer",
            protocols=(JoinGroupProtocol(name="range", metadata=metadata),),
        )
        self.ask(member, 5, request)

    def sync(self, member: Member) -> None:
        shares = {name: frozenset(range(PARTITIONS)[at :: len(member.others)]) for at, name in enumerate(member.others)}
        kept = [(name, number) for name, owned in member.others.items() for number in owned]
        assigned: dict[str, Assignment] = {}
        for name, share in shares.items():  # what another one keeps is given on when it joins again, without it
            free = tuple(share - {number for other, number in kept if other != name})
            assigned[name] = Assignment(assigned=(EmbeddedPartitions(topic=TOPIC, partitions=free),))
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=member.epoch,
            member_id=member.id,
            assignments=tuple(
                SyncGroupAssignment(member_id=name, assignment=encode_embedded(each, 0))
                for name, each in assigned.items()
            ),
        )
        self.ask(member, 3, request)

    @rule(
        number=st.integers(0, MEMBERS - 1),
        classic=st.booleans(),
        leaves=st.booleans(),
        rounds=st.sampled_from([0, 0, 1, 3]),
    )
    def replace(self, number: int, classic: bool, leaves: bool, rounds: int) -> None:
        """The program ends, with or without a word, and comes back with either protocol."""
        member = self.members[number]
        if leaves and member.id and member.token is None:
            if member.is_classic:
                leaving = (LeaveGroupMember(member_id=member.id),)
                self.ask(member, 3, LeaveGroupRequest(group_id=GROUP, members=leaving))
            else:
                quits = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member.id, member_epoch=-1)
                self.ask(member, 1, quits)
        member.begin(classic=classic)
        for _ in range(rounds):
            self.go_on(number, True)
            self.all_go_on()

    # ---------------------------------------------------------------- writes, time and failovers

    @precondition(lambda self: self.under_way)
    @rule()
    def write(self) -> None:
        self.step(Written(self.under_way.pop(0)))

    @precondition(lambda self: self.under_way)
    @rule()
    def fail(self) -> None:
        write_id = self.under_way.pop(0)
        del self.appended[write_id]
        self.step(WriteFailed(write_id, KafkaErrorCode.NOT_ENOUGH_REPLICAS))

    @rule(seconds=st.sampled_from([1.0, 1.0, 20.0]))
    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while self.coordinator.deadline <= end:
            self.now = max(self.now, self.coordinator.deadline)
            self.step(GroupTimePassed(round(self.now * 1000)))
        self.now = end

    @rule(lost=st.integers(0, 2))
    def fail_over(self, lost: int) -> None:
        kept = self.under_way[: max(0, len(self.under_way) - lost)]
        gone = set(self.under_way) - set(kept)
        self.base += (record for number, each in self.appended.items() if number not in gone for record in each)
        self.step(Resigned())
        self.appended, self.under_way = {}, []
        self.load()

    # ---------------------------------------------------------------- promises

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        """In a group by KIP-848. Classic members alone are told by their leader, and give up late."""
        group = self.coordinator.consumer_groups.get(GROUP)
        if group is None:
            return
        present = [each for each in self.members if each.id in group.members and each.epoch]
        read = [number for member in present for number in member.reads]
        assert len(read) == len(set(read)), "two members read one partition"

    def teardown(self) -> None:
        """Without faults, every partition gets one reader. A classic member whose answer does not come joins again."""
        for member in self.members:
            if member.token is not None:
                member.token, member.joins = None, True
        for _ in range(60):
            for member in self.members:
                self.go_on(member.number, True)
            self.wait(2.0)
        read = sorted(number for member in self.members for number in member.reads)
        assert read == list(range(PARTITIONS)), f"a partition has no reader, or two: {read}"
        group = self.coordinator.consumer_groups.get(GROUP)
        is_classic = all(each.is_classic for each in self.members)
        assert (group is None) == is_classic, "the group has not moved to the protocol of its members"


MigrationMachine.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=30, deadline=None)
test_groups_move_between_protocols_through_faults = MigrationMachine.TestCase
