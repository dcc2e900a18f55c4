"""Clients that follow the protocol, writes that fail or time out, time, restarts and failovers in any order.

The promises: every request is answered once. In one generation one leader sends all assignments, each to one client.
OffsetFetch shows exactly the written offsets. Acknowledged offsets survive any failover.
"""

from collections.abc import Iterable

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_compat.coordinator import invariants
from kafka_compat.coordinator.config import CoordinatorConfig
from kafka_compat.coordinator.core import CoordinatorPhase, GroupCoordinator
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
    TopicsRemoved,
    WriteFailed,
    Written,
)
from kafka_compat.coordinator.record_formats import (
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_record,
    group_key,
    offset_key,
)
from kafka_compat.protocol.apis.delete_groups import DeleteGroupsRequest
from kafka_compat.protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_compat.protocol.apis.join_group import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from kafka_compat.protocol.apis.leave_group import LeaveGroupMember, LeaveGroupRequest
from kafka_compat.protocol.apis.offset_commit import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopic,
)
from kafka_compat.protocol.apis.offset_delete import OffsetDeletePartition, OffsetDeleteRequest, OffsetDeleteTopic
from kafka_compat.protocol.apis.offset_fetch import OffsetFetchGroup, OffsetFetchRequest, OffsetFetchResponse
from kafka_compat.protocol.apis.sync_group import SyncGroupAssignment, SyncGroupRequest, SyncGroupResponse
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.examples import examples
from tests.kafka_compat.coordinator.conversation import subscription

GROUP = "g"
CONFIG = CoordinatorConfig(
    group_initial_rebalance_delay_ms=1000,
    group_max_size=4,
    offsets_retention_ms=40_000,
    offsets_retention_check_interval_ms=15_000,
)
CLIENTS = ("a", "b", "c", "d", "e")
STATIC = {"c": "i1", "d": "i2"}
NONE = KafkaErrorCode.NONE
START_AGAIN = frozenset({KafkaErrorCode.UNKNOWN_MEMBER_ID, KafkaErrorCode.FENCED_INSTANCE_ID})
QUIET_S = 2000.0
"""Longer than all timeouts in a row."""

Position = tuple[str, int]


@attrs.define
class Client:
    """The state of one client."""

    name: str
    member_id: str = ""
    generation: int = -1
    joined: bool = False
    """It has the answer to its JoinGroup, and SyncGroup comes next."""
    members: tuple[str, ...] = ()
    """The members to which it has to assign partitions, if it leads."""
    assigned: bool = False
    protocols: tuple[str, ...] = ("range", "rr")
    life: int = 0
    """Restarts: answers to a former life are not received."""


@attrs.define
class Sent:
    """A request that has not been answered."""

    client: Client
    life: int
    request: GroupRequest


class GroupMachine(RuleBasedStateMachine):
    """`base` has the records that the coordinator loaded, `appended` its own writes; `frontier` is the last write
    reported as written.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.tokens = 0
        self.suffixes = 0
        self.open: dict[int, Sent] = {}
        self.clients = [Client(name) for name in CLIENTS]
        self.base: list[Record] = []
        self.appended: dict[int, tuple[Record, ...]] = {}
        self.frontier = 0
        self.under_way: set[int] = set()
        self.next_offset = 1
        self.deletions = 0
        self.sent_in: dict[int, tuple[int, int]] = {}
        """The generation of each leader's assignment; they begin again when the group is deleted."""
        self.chosen: dict[tuple[int, int], int] = {}
        self.owners: dict[bytes, str] = {}
        self.coordinator = GroupCoordinator(CONFIG)

    @initialize()
    def begin(self) -> None:
        self.step(LoadFinished(self.time_ms))

    @property
    def time_ms(self) -> int:
        return 1_000_000 + round(self.now * 1000)

    # -------------------------------------------------------------------- steps

    def step(self, event: CoordinatorEvent) -> None:
        for effect in self.coordinator.step(self.now, event):
            match effect:
                case AppendRecords(write_id=write_id, records=records):
                    assert write_id == max(self.appended, default=0) + 1 or write_id > self.frontier
                    assert records
                    self.appended[write_id] = records
                    self.deletions += any(key == group_key(GROUP) and value is None for key, value in records)
                    self.under_way.add(write_id)
                case GroupAnswer(token=token, response=response):
                    self.check_answer(self.open.pop(token), token, response)

    def ask(self, client: Client, version: int, request: GroupRequest) -> None:
        self.tokens += 1
        self.suffixes += 1
        self.open[self.tokens] = Sent(client, client.life, request)
        event = GroupRequestArrived(
            token=self.tokens,
            version=version,
            request=request,
            time_ms=self.time_ms,
            client_id=client.name,
            member_suffix=str(self.suffixes),
        )
        if isinstance(request, SyncGroupRequest) and request.assignments:
            self.sent_in[self.tokens] = self.deletions, request.generation_id
        self.step(event)

    def check_answer(self, sent: Sent, token: int, response: GroupResponse) -> None:
        client = sent.client
        match response:
            case OffsetCommitResponse(topics=topics):
                if topics[0].partitions[0].error_code == NONE:
                    self.acknowledge(sent.request)
            case SyncGroupResponse(error_code=error, assignment=assignment):
                if error == NONE:
                    self.check_assignment(sent, assignment)
            case _:
                pass
        if sent.life == client.life:
            self.receive(client, response)

    def receive(self, client: Client, response: GroupResponse) -> None:
        match response:
            case JoinGroupResponse(error_code=error):
                if error in (NONE, KafkaErrorCode.MEMBER_ID_REQUIRED):
                    client.member_id = response.member_id
                    client.joined = error == NONE
                if error == NONE:
                    client.generation = response.generation_id
                    leads = response.leader == response.member_id and not response.skip_assignment
                    client.members = tuple(each.member_id for each in response.members) if leads else ()
            case SyncGroupResponse(error_code=error):
                client.assigned, client.joined = error == NONE, False
            case HeartbeatResponse(error_code=error):
                client.assigned = client.assigned and error == NONE
            case _:
                return
        if response.error_code in START_AGAIN or response.error_code == KafkaErrorCode.GROUP_MAX_SIZE_REACHED:
            self.forget(client)

    def forget(self, client: Client) -> None:
        client.member_id, client.generation, client.joined, client.assigned = "", -1, False, False

    def check_assignment(self, sent: Sent, assignment: bytes) -> None:
        """In one generation there is one leader's assignment, and each part of it has one owner."""
        request = sent.request
        assert isinstance(request, SyncGroupRequest)
        if not assignment:
            return
        token = int(assignment.partition(b":")[0])
        generation = self.sent_in[token]
        assert generation[1] == request.generation_id, "an assignment of another generation"
        assert self.chosen.setdefault(generation, token) == token, "two assignments in one generation"
        assert self.owners.setdefault(assignment, sent.client.name) == sent.client.name, "two owners"

    def acknowledge(self, request: GroupRequest) -> None:
        """Assert that acknowledged offsets are below the high watermark, so that every later leader has them."""
        assert isinstance(request, OffsetCommitRequest)
        (topic,) = request.topics
        written = {(key, value and offset_in(key, value)) for key, value in self.records()}
        for partition in topic.partitions:
            key = offset_key(GROUP, topic.name, partition.partition_index)
            assert (key, partition.committed_offset) in written, "acknowledged before it was written"

    def records(self) -> Iterable[Record]:
        yield from self.base
        for write_id, records in sorted(self.appended.items()):
            if write_id <= self.frontier:
                yield from records

    def written_offsets(self) -> dict[Position, int]:
        return offsets_of(self.records())

    # ------------------------------------------------------------------ clients

    @rule(number=st.integers(0, len(CLIENTS) - 1), version=st.sampled_from([3, 5, 9]))
    def goes_on(self, number: int, version: int) -> None:
        """A client does what the protocol has it do next; if it waits, it tries again."""
        client = self.clients[number]
        static = STATIC.get(client.name)
        if client.joined:
            token = self.tokens + 1
            assignments = tuple(
                SyncGroupAssignment(member_id=member, assignment=f"{token}:{place}".encode())
                for place, member in enumerate(client.members)
            )
            self.ask(
                client,
                3,
                SyncGroupRequest(
                    group_id=GROUP,
                    generation_id=client.generation,
                    member_id=client.member_id,
                    group_instance_id=static,
                    assignments=assignments,
                ),
            )
        elif client.assigned:
            self.ask(
                client,
                3,
                HeartbeatRequest(
                    group_id=GROUP,
                    generation_id=client.generation,
                    member_id=client.member_id,
                    group_instance_id=static,
                ),
            )
        else:
            self.join(client, version)

    @rule(
        count=st.integers(1, len(CLIENTS)),
        rounds=st.integers(2, 6),
        version=st.sampled_from([3, 5, 9]),
        written=st.booleans(),
    )
    def some_go_on_together(self, count: int, rounds: int, version: int, written: bool) -> None:
        """Several clients do what comes next, again and again, as in a rebalance: most of them get an assignment."""
        for _ in range(rounds):
            waiting = {sent.client.name for sent in self.open.values() if sent.life == sent.client.life}
            for number in range(count):
                if self.clients[number].name not in waiting:
                    self.goes_on(number, version)
            while written and self.under_way:
                self.is_written(0)
            self.pass_time(self.now + 1.0)

    def join(self, client: Client, version: int) -> None:
        self.ask(
            client,
            version,
            JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=8_000,
                member_id=client.member_id,
                group_instance_id=STATIC.get(client.name),
                protocol_type="consumer",
                protocols=tuple(JoinGroupProtocol(name=name, metadata=subscription("t")) for name in client.protocols),
            ),
        )

    @rule(number=st.integers(0, len(CLIENTS) - 1), version=st.sampled_from([3, 5, 9]))
    def joins_again(self, number: int, version: int) -> None:
        client = self.clients[number]
        client.joined = client.assigned = False
        self.join(client, version)

    @rule(number=st.integers(0, len(CLIENTS) - 1), turned=st.booleans())
    def restarts(self, number: int, turned: bool) -> None:
        client = self.clients[number]
        self.forget(client)
        client.life += 1
        client.protocols = ("rr", "range") if turned else ("range", "rr")

    @rule(number=st.integers(0, len(CLIENTS) - 1))
    def leaves(self, number: int) -> None:
        client = self.clients[number]
        static = STATIC.get(client.name)
        if client.member_id or static:
            leaving = LeaveGroupMember(member_id=client.member_id, group_instance_id=static)
            self.ask(client, 3, LeaveGroupRequest(group_id=GROUP, members=(leaving,)))
            self.forget(client)

    @rule(number=st.integers(0, len(CLIENTS) - 1), topic=st.sampled_from("tu"), simple=st.booleans())
    def commits(self, number: int, topic: str, simple: bool) -> None:
        client = self.clients[number]
        if not simple and not client.assigned:
            return
        partitions = tuple(
            OffsetCommitPartition(partition_index=partition, committed_offset=self.next_offset, committed_metadata=None)
            for partition in range(2)
        )
        self.next_offset += 1
        self.ask(
            client,
            8,
            OffsetCommitRequest(
                group_id=GROUP,
                generation_id_or_member_epoch=-1 if simple else client.generation,
                member_id="" if simple else client.member_id,
                group_instance_id=None if simple else STATIC.get(client.name),
                topics=(OffsetCommitTopic(name=topic, partitions=partitions),),
            ),
        )

    # -------------------------------------------------------------------- others

    @rule(what=st.sampled_from(["group", "offset", "topic"]))
    def is_deleted(self, what: str) -> None:
        client = Client("operator")
        if what == "group":
            self.ask(client, 2, DeleteGroupsRequest(groups_names=(GROUP,)))
        elif what == "offset":
            topic = OffsetDeleteTopic(name="u", partitions=(OffsetDeletePartition(partition_index=0),))
            self.ask(client, 0, OffsetDeleteRequest(group_id=GROUP, topics=(topic,)))
        else:
            self.step(TopicsRemoved(("u",)))

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0, 9.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.pass_time(self.now + seconds)

    def pass_time(self, end: float, *, written: bool = False) -> None:
        while (due := self.coordinator.deadline) <= end:
            self.now = max(self.now, due)
            self.step(GroupTimePassed(self.time_ms))
            while written and self.under_way:
                self.is_written(0)
        self.now = end

    @precondition(lambda self: self.under_way)
    @rule(place=st.integers(0, 3))
    def is_written(self, place: int) -> None:
        write_id = sorted(self.under_way)[place % len(self.under_way)]
        self.under_way = {each for each in self.under_way if each > write_id}
        self.frontier = write_id
        self.step(Written(write_id))

    @precondition(lambda self: self.under_way)
    @rule(place=st.integers(0, 3), unknown=st.booleans())
    def fails(self, place: int, unknown: bool) -> None:
        write_id = sorted(self.under_way)[place % len(self.under_way)]
        self.under_way.remove(write_id)
        if not unknown:
            del self.appended[write_id]
        error = KafkaErrorCode.REQUEST_TIMED_OUT if unknown else KafkaErrorCode.NOT_ENOUGH_REPLICAS
        self.step(WriteFailed(write_id, error))

    @rule(kept=st.integers(0, 3), batch=st.integers(1, 5))
    def another_broker_leads(self, kept: int, batch: int) -> None:
        """Let a broker lead that has all written records, and some later ones."""
        self.step(Resigned())
        assert not self.open, "a request waits for no one"
        before = self.written_offsets()
        follow = sorted(each for each in self.appended if each > self.frontier)[:kept]
        self.base = [*self.records(), *(record for each in follow for record in self.appended[each])]
        self.appended, self.under_way, self.frontier = {}, set(), 0
        if not follow:
            assert offsets_of(self.base) == before
        self.coordinator = GroupCoordinator(CONFIG)
        for first in range(0, len(self.base), batch):
            self.step(RecordsLoaded(tuple(self.base[first : first + batch])))
        self.step(LoadFinished(self.time_ms))
        last = last_group(self.base)
        if last is not None:
            group = self.coordinator.groups[GROUP]
            assert group.generation == last.generation
            assert {each.id: each.assignment for each in group.members.values()} == {
                member.member_id: member.assignment for member in last.members
            }

    # --------------------------------------------------------------------- rules

    @invariant()
    def what_is_written_is_fetched(self) -> None:
        if self.coordinator.phase is not CoordinatorPhase.ACTIVE:
            return
        self.tokens += 1
        fetch = OffsetFetchRequest(groups=(OffsetFetchGroup(group_id=GROUP, topics=None),))
        (answer,) = self.coordinator.step(self.now, GroupRequestArrived(self.tokens, 8, fetch, self.time_ms))
        assert isinstance(answer, GroupAnswer)
        assert isinstance(answer.response, OffsetFetchResponse)
        found = {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in answer.response.groups[0].topics
            for partition in topic.partitions
        }
        assert found == self.written_offsets()

    @invariant()
    def every_group_is_sound(self) -> None:
        for group in self.coordinator.groups.values():
            invariants.check(group)
            assert group.joined_count <= len(group.members)
        assert len(self.open) <= 2 * len(CLIENTS) + len(self.under_way), "more waits than members and writes"

    def teardown(self) -> None:
        while self.under_way:
            self.is_written(0)
        if self.coordinator.phase is CoordinatorPhase.ACTIVE:
            self.pass_time(self.now + QUIET_S, written=True)
        assert not self.open, f"never answered: {self.open}"
        assert not self.coordinator.groups, "a group outlives its members and offsets"


def offsets_of(records: Iterable[Record]) -> dict[Position, int]:
    found: dict[Position, int] = {}
    for key, value in records:
        decoded = decode_record(key, value)
        assert decoded is not None
        if isinstance(decoded[0], OffsetCommitKey):
            position = decoded[0].topic, decoded[0].partition
            found.pop(position, None)
            if isinstance(decoded[1], OffsetCommitValue):
                found[position] = decoded[1].offset
    return found


def offset_in(key: bytes, value: bytes) -> int | None:
    decoded = decode_record(key, value)
    assert decoded is not None
    return decoded[1].offset if isinstance(decoded[1], OffsetCommitValue) else None


def last_group(records: Iterable[Record]) -> GroupMetadataValue | None:
    last: GroupMetadataValue | None = None
    for key, value in records:
        decoded = decode_record(key, value)
        assert decoded is not None
        if not isinstance(decoded[0], OffsetCommitKey):
            assert not isinstance(decoded[1], OffsetCommitValue)
            last = decoded[1]
    return last


TestGroups = GroupMachine.TestCase
TestGroups.settings = settings(max_examples=examples(36), stateful_step_count=50)
