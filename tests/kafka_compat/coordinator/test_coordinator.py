"""Rules outside of the scripts: deadlines, bounds of memory, unreadable records, and invariants that can fail."""

import math
from collections.abc import Callable

import pytest

from kafka_compat.coordinator import invariants
from kafka_compat.coordinator.config import CoordinatorConfig
from kafka_compat.coordinator.core import GroupCoordinator
from kafka_compat.coordinator.effects import AppendRecords, GroupAnswer
from kafka_compat.coordinator.events import (
    GroupRequestArrived,
    GroupTimePassed,
    LoadFinished,
    RecordsLoaded,
    Resigned,
    WriteFailed,
    Written,
)
from kafka_compat.coordinator.group import NEVER, ClassicGroup, GroupState, WaitingJoin
from kafka_compat.coordinator.record_formats import OffsetCommitValue, group_key, offset_key, offset_value
from kafka_compat.protocol.apis.join_group import JOIN_GROUP, JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from kafka_compat.protocol.apis.offset_commit import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopic,
)
from kafka_compat.protocol.apis.offset_fetch import (
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopic,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.errors import MalformedMessage
from tests.kafka_compat.coordinator.conversation import Conversation

TOPIC_ID = bytes(range(16))


def active(config: CoordinatorConfig | None = None) -> GroupCoordinator:
    coordinator = GroupCoordinator(config)
    coordinator.step(0.0, LoadFinished(0))
    return coordinator


def join(member_id: str = "", **others: object) -> JoinGroupRequest:
    fields: dict[str, object] = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": (JoinGroupProtocol(name="range", metadata=b""),),
    }
    return JoinGroupRequest(**(fields | others))  # type: ignore[arg-type]


def commit(group: str, retention_time_ms: int = -1) -> OffsetCommitRequest:
    partition = OffsetCommitPartition(partition_index=0, committed_offset=5, committed_metadata="")
    topic = OffsetCommitTopic(name="t", partitions=(partition,))
    return OffsetCommitRequest(group_id=group, member_id="", retention_time_ms=retention_time_ms, topics=(topic,))


def test_the_deadline_is_that_of_what_comes_next() -> None:
    loading = GroupCoordinator()
    assert loading.deadline == math.inf
    coordinator = active()
    assert coordinator.deadline == 600.0  # retention is looked at
    coordinator.step(1.0, GroupRequestArrived(1, 3, join(), 0, "c", "/h", "1"))
    assert coordinator.deadline == 4.0  # the first rebalance
    (answer,) = coordinator.step(4.0, GroupTimePassed(0))
    assert isinstance(answer, GroupAnswer)
    assert coordinator.step(4.0, GroupTimePassed(0)) == ()
    assert coordinator.deadline == 14.0  # its session
    coordinator.step(5.0, Resigned())
    assert coordinator.deadline == math.inf


def test_retries_take_no_more_memory_than_one_request() -> None:
    coordinator = active()
    coordinator.step(0.0, GroupRequestArrived(1, 4, join(), 0, "c", "/h", "1"))
    answered: list[int] = []
    for token in range(2, 1002):
        effects = coordinator.step(0.0, GroupRequestArrived(token, 4, join("c-1"), 0, "c", "/h", "x"))
        answered += [each.token for each in effects if isinstance(each, GroupAnswer)]
    assert answered == list(range(2, 1001))
    assert coordinator.groups["g"].joined_count == 1
    assert len(coordinator._due) <= 4


def test_timed_out_commits_take_no_more_memory_than_their_offsets() -> None:
    coordinator = active()
    partition = OffsetCommitPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    request = OffsetCommitRequest(
        group_id="g", member_id="", topics=(OffsetCommitTopic(name="t", partitions=(partition,)),)
    )
    for token in range(1, 100):
        (append,) = coordinator.step(0.0, GroupRequestArrived(token, 8, request, 0))
        assert isinstance(append, AppendRecords)
        coordinator.step(0.0, WriteFailed(append.write_id, KafkaErrorCode.REQUEST_TIMED_OUT))
    assert len(coordinator._out.pending) == 0
    assert len(coordinator.offsets.positions("g")) == 1


def test_a_retention_without_end_is_kept_as_the_last_time_there_is() -> None:
    coordinator = active()
    effects = coordinator.step(0.0, GroupRequestArrived(1, 2, commit("g", retention_time_ms=2**63 - 1), 1_000))
    (append,) = (each for each in effects if isinstance(each, AppendRecords))
    assert len(append.records) == 1


LONG = "é" * 2**14
"""One byte more than a text in a record may have (2^15 - 1)."""


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (commit(LONG), KafkaErrorCode.INVALID_GROUP_ID),
        (join(group_id=LONG), KafkaErrorCode.INVALID_GROUP_ID),
        (join(group_instance_id=LONG), KafkaErrorCode.INVALID_REQUEST),
        (join(protocol_type=LONG), KafkaErrorCode.INVALID_REQUEST),
        (join(protocols=(JoinGroupProtocol(name=LONG, metadata=b""),)), KafkaErrorCode.INVALID_REQUEST),
    ],
    ids=["commit", "group", "instance", "type", "protocol"],
)
def test_texts_that_no_record_has_room_for_are_refused(
    asked: JoinGroupRequest | OffsetCommitRequest, error: KafkaErrorCode
) -> None:
    coordinator = active()
    (answer,) = coordinator.step(0.0, GroupRequestArrived(1, 9, asked, 1_000))
    assert isinstance(answer, GroupAnswer)
    if isinstance(answer.response, JoinGroupResponse):
        assert answer.response.error_code == error
    else:
        assert isinstance(answer.response, OffsetCommitResponse)
        assert answer.response.topics[0].partitions[0].error_code == error


def test_a_record_that_cannot_be_read_is_an_error_and_an_unknown_one_is_not() -> None:
    coordinator = GroupCoordinator()
    known = offset_key("g", "t", 0), offset_value(OffsetCommitValue(offset=1, metadata="", commit_timestamp=0))
    coordinator.step(0.0, RecordsLoaded(((b"\0\x63of the future", b"x"), known)))
    with pytest.raises(MalformedMessage):
        coordinator.step(0.0, RecordsLoaded(((group_key("g"), b"\0\3\0"),)))
    coordinator.step(0.0, LoadFinished(0))
    assert coordinator.groups["g"].state is GroupState.EMPTY


def test_reports_of_writes_that_are_not_known_change_nothing() -> None:
    coordinator = active()
    assert coordinator.step(0.0, Written(7)) == ()
    assert coordinator.step(0.0, WriteFailed(7, KafkaErrorCode.REQUEST_TIMED_OUT)) == ()
    coordinator.step(0.0, Resigned())
    assert coordinator.step(0.0, Written(1)) == ()
    assert coordinator.step(0.0, LoadFinished(0)) == ()
    assert coordinator.step(0.0, GroupTimePassed(0)) == ()


@pytest.mark.parametrize("version", JOIN_GROUP.versions)
def test_answers_to_join_can_be_encoded_in_every_version(version: int) -> None:
    coordinator = active(CoordinatorConfig(group_initial_rebalance_delay_ms=0))
    effects = list(coordinator.step(0.0, GroupRequestArrived(1, version, join(), 0, None, "/h", "1")))
    effects += coordinator.step(0.0, GroupRequestArrived(2, version, join("-1"), 0, None, "/h", "2"))
    effects += coordinator.step(0.0, GroupTimePassed(0))
    effects += coordinator.step(0.0, GroupRequestArrived(3, version, join("other"), 0, None, "/h", "3"))
    answers = [each.response for each in effects if isinstance(each, GroupAnswer)]
    assert len(answers) == 3
    for answer in answers:
        assert isinstance(answer, JoinGroupResponse)
        JOIN_GROUP.encode_response(version, 1, answer)


def test_a_member_id_fits_into_the_protocol_whatever_the_client_id() -> None:
    coordinator = active(CoordinatorConfig(group_initial_rebalance_delay_ms=0))
    coordinator.step(0.0, GroupRequestArrived(1, 3, join(), 0, "\u20ac" * 10_900, "/h", "1"))
    (answer,) = coordinator.step(0.0, GroupTimePassed(0))
    assert isinstance(answer, GroupAnswer)
    assert isinstance(answer.response, JoinGroupResponse)
    JOIN_GROUP.encode_response(3, 1, answer.response)


def test_topic_ids_come_back_in_answers() -> None:
    coordinator = active()
    partition = OffsetCommitPartition(partition_index=0, committed_offset=5, committed_metadata=None)
    topic = OffsetCommitTopic(name="t", topic_id=TOPIC_ID, partitions=(partition,))
    commit = OffsetCommitRequest(group_id="g", member_id="", topics=(topic,))
    coordinator.step(0.0, GroupRequestArrived(1, 10, commit, 0))
    (answer,) = coordinator.step(0.0, Written(1))
    assert isinstance(answer, GroupAnswer)
    assert isinstance(answer.response, OffsetCommitResponse)
    assert answer.response.topics[0].topic_id == TOPIC_ID
    wanted = OffsetFetchTopic(name="t", topic_id=TOPIC_ID, partition_indexes=(0, 1))
    response = fetch(coordinator, 10, OffsetFetchRequest(groups=(OffsetFetchGroup(group_id="g", topics=(wanted,)),)))
    (found,) = response.groups[0].topics
    assert found.topic_id == TOPIC_ID
    assert [each.committed_offset for each in found.partitions] == [5, -1]


def test_old_versions_of_offset_fetch_ask_for_one_group() -> None:
    coordinator = active()
    partition = OffsetCommitPartition(partition_index=0, committed_offset=5, committed_metadata="m")
    commit = OffsetCommitRequest(
        group_id="g", member_id="", topics=(OffsetCommitTopic(name="t", partitions=(partition,)),)
    )
    coordinator.step(0.0, GroupRequestArrived(1, 8, commit, 0))
    coordinator.step(0.0, Written(1))
    everything = fetch(coordinator, 5, OffsetFetchRequest(group_id="g", topics=None))
    assert [(each.name, each.partitions[0].committed_offset) for each in everything.topics] == [("t", 5)]
    some = OffsetFetchRequest(group_id="g", topics=(OffsetFetchTopic(name="u", partition_indexes=(0,)),))
    assert fetch(coordinator, 5, some).topics[0].partitions[0].committed_offset == -1


def fetch(coordinator: GroupCoordinator, version: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
    (answer,) = coordinator.step(0.0, GroupRequestArrived(99, version, request, 0))
    assert isinstance(answer, GroupAnswer)
    assert isinstance(answer.response, OffsetFetchResponse)
    return answer.response


def stable_group() -> ClassicGroup:
    conversation = Conversation()
    for command in ("join a v=3", "join b static=i", "wait 6", "sync a a:P0", "sync b static=i", "written 1"):
        conversation.say(command)
    return conversation.coordinator.groups["g"]


def a_second_place(group: ClassicGroup) -> None:
    group.members["x"] = group.members["a-1"]


def an_unknown_instance(group: ClassicGroup) -> None:
    group._static["j"] = "a-1"


def a_silent_member(group: ClassicGroup) -> None:
    group.members["a-1"].session_deadline = NEVER


def a_sync_that_waits(group: ClassicGroup) -> None:
    group.members["a-1"].sync_token = 9


def a_join_that_waits(group: ClassicGroup) -> None:
    group.members["a-1"].join = WaitingJoin(9, 5)


def an_unknown_leader(group: ClassicGroup) -> None:
    group.leader = "x"


def an_empty_group_with_members(group: ClassicGroup) -> None:
    group.state = GroupState.EMPTY


def a_rebalance_without_end(group: ClassicGroup) -> None:
    group.state = GroupState.PREPARING_REBALANCE


def a_member_that_left_is_waited_for(group: ClassicGroup) -> None:
    group.pending_syncs.add("x")


def no_protocol(group: ClassicGroup) -> None:
    group.protocol = None


def an_id_given_out_twice(group: ClassicGroup) -> None:
    group.pending_members["a-1"] = 9.0


@pytest.mark.parametrize(
    "damage",
    [
        a_second_place,
        an_unknown_instance,
        a_silent_member,
        a_sync_that_waits,
        a_join_that_waits,
        an_unknown_leader,
        an_empty_group_with_members,
        a_rebalance_without_end,
        a_member_that_left_is_waited_for,
        no_protocol,
        an_id_given_out_twice,
    ],
)
def test_the_invariants_can_fail(damage: Callable[[ClassicGroup], None]) -> None:
    group = stable_group()
    invariants.check(group)
    damage(group)
    with pytest.raises(AssertionError):
        invariants.check(group)
