"""Single promises of groups by KIP-848, by the requests of members and the writes of a coordinator."""

from typing import Any

import pytest

from kafka_compat.coordinator.assignors import ASSIGNORS, Partitions
from kafka_compat.coordinator.config import CoordinatorConfig
from kafka_compat.coordinator.consumer_group import KnownTopic
from kafka_compat.coordinator.consumer_records import unpack
from kafka_compat.coordinator.core import GroupCoordinator
from kafka_compat.coordinator.effects import AppendRecords, GroupAnswer
from kafka_compat.coordinator.events import (
    GroupRequestArrived,
    GroupTimePassed,
    LoadFinished,
    Record,
    RecordsLoaded,
    TopicsKnown,
    WriteFailed,
    Written,
)
from kafka_compat.protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kafka_compat.protocol.apis.delete_groups import DeleteGroupsRequest
from kafka_compat.protocol.apis.join_group import JoinGroupProtocol, JoinGroupRequest
from kafka_compat.protocol.apis.list_groups import ListGroupsRequest
from kafka_compat.protocol.apis.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import evolve

TOPIC = b"t" * 16
CODE = KafkaErrorCode


class Place:
    """A coordinator with one topic of four partitions, and its answers by token."""

    def __init__(self, records: tuple[Record, ...] = ()) -> None:
        self.now = 0.0
        self.coordinator = GroupCoordinator(CoordinatorConfig())
        self.coordinator.step(0.0, RecordsLoaded(records))
        self.records = list(records)
        self.written: list[tuple[Record, ...]] = []
        self.writes: list[int] = []
        self.answers: dict[int, Any] = {}
        self.token = 0
        self.step(LoadFinished(0))
        self.step(TopicsKnown({"t": KnownTopic(TOPIC, 4)}))

    def step(self, event: Any) -> None:
        for effect in self.coordinator.step(self.now, event):
            if isinstance(effect, AppendRecords):
                self.writes.append(effect.write_id)
                self.records += effect.records
                self.written.append(effect.records)
            else:
                assert isinstance(effect, GroupAnswer)
                self.answers[effect.token] = effect.response

    def send(self, request: Any, version: int = 1) -> int:
        self.token += 1
        self.step(GroupRequestArrived(self.token, version, request, 0, member_suffix="new"))
        return self.token

    def end_writes(self) -> None:
        while self.writes:
            self.step(Written(self.writes.pop(0)))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.step(GroupTimePassed(0))
        self.end_writes()

    def ask(self, request: Any, version: int = 1) -> Any:
        token = self.send(request, version)
        self.end_writes()
        return self.answers[token]

    def beat(self, member: str, epoch: int, owned: set[int] | None = None, **fields: Any) -> Any:
        return self.ask(beat(member, epoch, owned, **fields))


def beat(member: str, epoch: int, owned: set[int] | None = None, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    if epoch == 0:
        owned = owned or set()
        fields = {"subscribed_topic_names": ("t",), "rebalance_timeout_ms": 60_000, **fields}
    if owned is not None:
        one = ConsumerGroupHeartbeatTopicPartitions(topic_id=TOPIC, partitions=tuple(sorted(owned)))
        fields["topic_partitions"] = (one,) if owned else ()
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch, **fields)


def numbers(response: Any) -> set[int] | None:
    if response.assignment is None:
        return None
    return {number for _, number in unpack(response.assignment.topic_partitions)}


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.fixture
def two(place: Place) -> Place:
    """Members a and b, of which a reads 0 and 1 in epoch 2."""
    assert numbers(place.beat("a", 0)) == {0, 1, 2, 3}
    assert numbers(place.beat("b", 0)) == set()
    (kept, lost) = (numbers(place.beat("a", 1)), {0, 1, 2, 3})
    assert kept is not None
    assert len(lost - kept) == 2
    assert place.beat("b", 2).assignment is None
    assert place.beat("a", 1, kept).member_epoch == 2
    assert numbers(place.beat("b", 2)) == lost - kept
    return place


def test_a_heartbeat_is_answered_when_its_epoch_is_written(place: Place) -> None:
    first = place.send(beat("a", 0))
    second = place.send(beat("a", 0))
    assert not place.answers
    place.end_writes()
    assert place.answers.keys() == {first, second}


def test_a_partition_is_given_on_when_it_was_given_back(two: Place) -> None:
    group = two.coordinator.consumer_groups["g"]
    assert [each.epoch for each in group.members.values()] == [2, 2]
    assert group.state == "Stable"


def test_answers_behind_a_failed_write_are_errors_and_the_next_heartbeat_writes_again(place: Place) -> None:
    first = place.send(beat("a", 0))
    place.records.clear()
    tokens = first, place.send(beat("b", 0))
    place.step(WriteFailed(place.writes.pop(0), CODE.NOT_ENOUGH_REPLICAS))
    place.end_writes()
    assert {place.answers[each].error_code for each in tokens} == {CODE.COORDINATOR_NOT_AVAILABLE}
    assert place.beat("b", 0).error_code == CODE.NONE
    assert Place(tuple(place.records)).coordinator.consumer_groups["g"].members.keys() == {"a", "b"}


@pytest.mark.parametrize("lost", range(6))
def test_a_log_that_lost_any_one_write_is_led_and_its_partitions_read_once(lost: int) -> None:
    place = Place()
    for member, epoch, owned in (("a", 0, None), ("b", 0, None), ("a", 1, {2, 3}), ("b", 2, None), ("a", -1, None)):
        place.send(beat(member, epoch, owned))
    place.send(beat("c", 0))
    place.send(beat("b", 3))
    place.send(beat("b", 3, {0, 1}))
    assert len(place.written) == 6
    log = [record for number, each in enumerate(place.written) if number != lost for record in each]
    after = Place(tuple(log))
    read: dict[str, set[int]] = {"b": set(), "c": set()}
    epochs = dict.fromkeys(read, 0)
    for _ in range(5):
        for member in read:
            response = after.beat(member, epochs[member], read[member] if epochs[member] else None)
            assert response.error_code == CODE.NONE
            epochs[member] = response.member_epoch
            given = numbers(response)
            read[member] = read[member] if given is None else given
        after.pass_time(20)  # a member whose leaving was lost is silent
    assert sorted(number for each in read.values() for number in each) == [0, 1, 2, 3]


def test_the_next_coordinator_goes_on_with_epochs_and_partitions(two: Place) -> None:
    before = two.coordinator.consumer_groups["g"]
    after = Place(tuple(two.records)).coordinator.consumer_groups["g"]
    assert (after.epoch, after.target_epoch, after.target, after.owners) == (
        before.epoch,
        before.target_epoch,
        before.target,
        before.owners,
    )


@pytest.mark.parametrize(
    ("epoch", "owned", "error"),
    [
        (2, None, CODE.NONE),
        (1, set(), CODE.NONE),
        (1, {0, 1, 2, 3}, CODE.FENCED_MEMBER_EPOCH),
        (3, None, CODE.FENCED_MEMBER_EPOCH),
    ],
)
def test_an_epoch_is_the_members_or_the_one_before_with_nothing_to_give_back(
    two: Place, epoch: int, owned: set[int] | None, error: KafkaErrorCode
) -> None:
    assert two.beat("a", epoch, owned).error_code == error


def test_a_member_that_does_not_give_back_in_time_is_fenced_and_its_partitions_are_free(place: Place) -> None:
    place.beat("a", 0)
    place.beat("b", 0)
    place.beat("a", 1)
    for _ in range(4):
        place.now += 20
        place.beat("a", 1)
        place.beat("b", 2)
        place.step(GroupTimePassed(0))
        place.end_writes()
    assert place.beat("a", 1).error_code == CODE.UNKNOWN_MEMBER_ID
    assert place.coordinator.consumer_groups["g"].members.keys() == {"b"}
    assert {number for _, number in place.coordinator.consumer_groups["g"].owners} == {0, 1, 2, 3}


def test_a_static_member_comes_back_to_its_partitions(place: Place) -> None:
    place.beat("a", 0, instance_id="i")
    assert place.beat("b", 0, instance_id="i").error_code == CODE.UNRELEASED_INSTANCE_ID
    assert place.beat("a", -2, instance_id="i").member_epoch == -2
    back = place.beat("b", 0, instance_id="i")
    assert (back.member_epoch, numbers(back)) == (1, {0, 1, 2, 3})
    assert place.beat("a", 1, instance_id="i").error_code == CODE.FENCED_INSTANCE_ID


def test_a_commit_in_another_epoch_is_stale(two: Place) -> None:
    def commit(epoch: int, member: str = "a") -> int:
        partition = OffsetCommitPartition(partition_index=0, committed_offset=3, committed_metadata="")
        request = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=epoch,
            member_id=member,
            topics=(OffsetCommitTopic(name="t", partitions=(partition,)),),
        )
        return int(two.ask(request, 9).topics[0].partitions[0].error_code)

    codes = [commit(2), commit(1), commit(2, "z"), commit(-1, "")]
    assert codes == [CODE.NONE, CODE.STALE_MEMBER_EPOCH, CODE.UNKNOWN_MEMBER_ID, CODE.UNKNOWN_MEMBER_ID]


def test_a_group_without_members_takes_either_protocol(place: Place) -> None:
    def join() -> int:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=(JoinGroupProtocol(name="range", metadata=b""),),
        )
        return int(place.ask(request, 5).error_code)

    place.beat("a", 0)
    assert join() == CODE.INCONSISTENT_GROUP_PROTOCOL
    listed = place.ask(ListGroupsRequest(types_filter=("Consumer",)), 5).groups
    assert [(each.group_id, each.group_state) for each in listed] == [("g", "Stable")]
    assert place.ask(DeleteGroupsRequest(groups_names=("g",))).results[0].error_code == CODE.NON_EMPTY_GROUP
    place.beat("a", -1)
    assert join() == CODE.MEMBER_ID_REQUIRED
    assert not place.coordinator.consumer_groups
    assert numbers(place.beat("a", 0)) == {0, 1, 2, 3}
    assert Place(tuple(place.records)).coordinator.consumer_groups.keys() == {"g"}


def test_a_deleted_group_leaves_no_record(place: Place) -> None:
    place.beat("a", 0)
    place.beat("a", -1)
    assert place.ask(DeleteGroupsRequest(groups_names=("g",))).results[0].error_code == CODE.NONE
    left = dict(place.records)
    assert set(left.values()) == {None}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_epoch": -3}, CODE.INVALID_REQUEST),
        ({"member_id": ""}, CODE.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, CODE.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, CODE.INVALID_REQUEST),
        ({"server_assignor": "other"}, CODE.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "a("}, CODE.INVALID_REGULAR_EXPRESSION),
        ({"member_epoch": 1}, CODE.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_request_that_no_group_takes_is_refused_in_words(
    place: Place, fields: dict[str, Any], error: KafkaErrorCode
) -> None:
    answer = place.ask(evolve(beat("a", 0), **fields))
    assert (answer.error_code, bool(answer.error_message)) == (error, True)


@pytest.mark.parametrize("name", ASSIGNORS)
def test_every_partition_has_one_subscriber(name: str) -> None:
    other = b"u" * 16
    subscriptions = {"a": frozenset({TOPIC}), "b": frozenset({TOPIC, other}), "c": frozenset({other})}
    counts = {TOPIC: 5, other: 3}
    before: dict[str, Partitions] = {"a": frozenset({(other, 0)}), "c": frozenset({(other, 1)})}
    found = ASSIGNORS[name](subscriptions, counts, before)
    given = [each for partitions in found.values() for each in partitions]
    assert sorted(given) == sorted((topic, number) for topic, count in counts.items() for number in range(count))
    assert all(topic in subscriptions[member] for member, partitions in found.items() for topic, _ in partitions)


def test_uniform_moves_no_more_than_balance_takes() -> None:
    everyone = dict.fromkeys("abc", frozenset({TOPIC}))
    first = ASSIGNORS["uniform"](everyone, {TOPIC: 9}, {})
    assert sorted(map(len, first.values())) == [3, 3, 3]
    after = ASSIGNORS["uniform"]({each: everyone[each] for each in "ab"}, {TOPIC: 9}, first)
    assert first["a"] <= after["a"]
    assert first["b"] <= after["b"]
