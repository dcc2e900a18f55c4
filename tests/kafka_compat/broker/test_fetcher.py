"""The fetcher of a follower against a leader whose answers are scripted."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from kafka_compat.broker.fetcher import PAUSE_AFTER_ERROR_S, FetchLimits, FetchPosition, ReplicaFetcher
from kafka_compat.broker.peers import PeerFailed
from kafka_compat.model import TopicPartition
from kafka_compat.protocol.apis.fetch import FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse
from kafka_compat.protocol.error_codes import KafkaErrorCode

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ID, NEW_ID = b"i" * 16, b"n" * 16
SESSION = 77


@attrs.define
class Leader:
    """Notes requests, the oldest first, until they are answered."""

    waiting: list[tuple[FetchRequest, Callable[[Any], None]]] = attrs.field(factory=list)

    def call(self, api: Any, version: int, request: Any, done: Callable[[Any], None], *, timeout_s: float) -> None:
        self.waiting.append((request, done))

    def answer(self, *partitions: tuple[bytes, int, int], session: int = SESSION, error: int = 0) -> None:
        """Each partition: topic id, number and error."""
        responses = tuple(
            FetchTopicResponse(
                topic_id=topic_id,
                partitions=(
                    FetchPartitionResponse(
                        partition_index=number,
                        error_code=code,
                        high_watermark=0,
                        aborted_transactions=None,
                        records=b"",
                    ),
                ),
            )
            for topic_id, number, code in partitions
        )
        self.waiting.pop(0)[1](FetchResponse(session_id=session, error_code=error, responses=responses))


class World:
    def __init__(self) -> None:
        self.now = 1.0
        self.rest_s = 0.0
        self.leader = Leader()
        self.answers: list[tuple[TopicPartition, FetchPosition, int]] = []
        self.fetcher = ReplicaFetcher(self.leader, 2, lambda: 9, lambda: self.now, self.take, FetchLimits())

    def take(self, partition: TopicPartition, position: FetchPosition, response: FetchPartitionResponse) -> float:
        self.answers.append((partition, position, response.error_code))
        return self.rest_s

    def fetch(self, partition: TopicPartition, offset: int, topic_id: bytes = ID) -> FetchPosition:
        position = FetchPosition(topic_id, offset, 0, -1, 0)
        self.fetcher.fetch(partition, position)
        return position

    def pump(self) -> None:
        self.fetcher.pump(self.now)

    def read_sent(self) -> tuple[dict[tuple[bytes, int], int], set[tuple[bytes, int]], int, int]:
        """Returns the partitions that the newest request added (with offsets) and forgot, and its session."""
        request = self.leader.waiting[-1][0]
        added = {
            (topic.topic_id, partition.partition): partition.fetch_offset
            for topic in request.topics
            for partition in topic.partitions
        }
        forgotten = {(topic.topic_id, each) for topic in request.forgotten_topics_data for each in topic.partitions}
        return added, forgotten, request.session_id, request.session_epoch


@pytest.fixture
def world() -> World:
    return World()


def begin(world: World) -> None:
    """A session with both partitions at 0, and no request under way."""
    world.fetch(A, 0)
    world.fetch(B, 0)
    world.pump()
    world.leader.answer()


def test_it_begins_with_a_full_request_and_then_names_only_what_changed(world: World) -> None:
    begin(world)
    world.fetch(A, 5)
    world.pump()
    assert world.read_sent() == ({(ID, 0): 5}, set(), SESSION, 1)


def test_a_second_request_follows_one_that_waits_and_a_third_does_not(world: World) -> None:
    begin(world)
    world.pump()
    assert world.read_sent() == ({}, set(), SESSION, 1)
    world.fetch(A, 5)
    world.pump()
    assert world.read_sent() == ({(ID, 0): 5}, set(), SESSION, 2)
    world.fetch(B, 6)
    world.pump()
    assert len(world.leader.waiting) == 2


def test_nothing_follows_the_first_request_before_the_session_is_known(world: World) -> None:
    world.fetch(A, 0)
    world.pump()
    world.fetch(B, 0)
    world.pump()
    assert len(world.leader.waiting) == 1


def test_an_answer_belongs_to_the_position_that_its_request_found(world: World) -> None:
    begin(world)
    world.pump()
    new = world.fetch(A, 5)
    world.pump()
    world.leader.answer((ID, 0, 0))
    assert [(partition, position.offset) for partition, position, _ in world.answers] == [(A, 0)]
    world.leader.answer((ID, 0, 0))
    assert world.answers[-1] == (A, new, 0)


def test_a_partition_that_is_throttled_rests_until_its_time_or_until_settings_change(world: World) -> None:
    begin(world)
    world.pump()
    world.rest_s = 3.0
    world.leader.answer((ID, 0, 0))
    world.fetch(A, 5)
    world.now += 2.9
    world.pump()
    added, _, _, _ = world.read_sent()
    assert (ID, 0) not in added
    assert world.fetcher.deadline == pytest.approx(4.0)
    world.fetcher.resume()
    world.pump()
    assert world.read_sent()[0] == {(ID, 0): 5}


def test_what_is_stopped_is_forgotten_and_its_answer_ignored(world: World) -> None:
    begin(world)
    world.pump()
    world.fetcher.stop(A)
    world.leader.answer((ID, 0, 0))
    assert world.answers == []
    world.pump()
    assert world.read_sent() == ({}, {(ID, 0)}, SESSION, 2)


def test_a_topic_made_again_under_its_name_replaces_the_old_one_in_the_session(world: World) -> None:
    """The leader answers for a topic that is gone at once, and with an error: it must not be asked again and again."""
    begin(world)
    world.pump()
    world.fetcher.stop(A)
    world.pump()
    new = world.fetch(A, 0, NEW_ID)
    world.pump()
    assert world.read_sent() == ({(NEW_ID, 0): 0}, {(ID, 0)}, SESSION, 2)
    world.leader.answer((ID, 0, KafkaErrorCode.UNKNOWN_TOPIC_ID))
    assert world.answers == [], "the old topic's error is not the new one's"
    world.leader.answer((NEW_ID, 0, 0))
    assert world.answers == [(A, new, 0)]


def test_a_refused_partition_pauses_and_is_asked_for_again(world: World) -> None:
    begin(world)
    world.pump()
    world.leader.answer((ID, 0, KafkaErrorCode.NOT_LEADER_OR_FOLLOWER))
    world.fetch(A, 0)
    world.pump()
    assert world.read_sent()[:2] == ({}, {(ID, 0)})
    assert world.fetcher.deadline == world.now + PAUSE_AFTER_ERROR_S
    world.now += PAUSE_AFTER_ERROR_S
    world.pump()
    assert world.read_sent()[:2] == ({(ID, 0): 0}, set())
    assert world.fetcher.deadline == float("inf")


@pytest.mark.parametrize("lost", ["connection", "session"])
def test_after_a_break_all_begins_anew_and_late_answers_are_ignored(world: World, lost: str) -> None:
    begin(world)
    world.pump()
    world.fetch(A, 5)
    world.pump()
    late = world.leader.waiting[1][1]
    if lost == "connection":
        world.leader.waiting.pop(0)[1](PeerFailed("gone", was_sent=True))
    else:
        world.leader.answer(error=KafkaErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    late(PeerFailed("gone", was_sent=True))
    world.leader.waiting.clear()
    world.pump()
    assert world.read_sent() == ({(ID, 0): 5, (ID, 1): 0}, set(), 0, 0)
    assert len(world.leader.waiting) == 1


def test_without_a_session_every_request_is_a_full_one(world: World) -> None:
    world.fetch(A, 0)
    world.fetch(B, 0)
    world.pump()
    world.leader.answer((ID, 0, 0), session=0)
    world.fetch(A, 3)
    world.pump()
    assert world.read_sent() == ({(ID, 0): 3, (ID, 1): 0}, set(), 0, 0)


def test_an_answer_for_what_was_never_asked_is_ignored(world: World) -> None:
    begin(world)
    world.pump()
    world.leader.answer((NEW_ID, 0, 0), (ID, 9, 0))
    assert world.answers == []


def test_nothing_is_sent_when_nothing_is_followed(world: World) -> None:
    world.pump()
    assert world.leader.waiting == []
    begin(world)
    world.fetcher.stop(A)
    world.fetcher.stop(B)
    world.pump()
    assert world.read_sent()[1] == {(ID, 0), (ID, 1)}
    world.leader.answer()
    world.pump()
    assert world.leader.waiting == []


def test_a_leader_that_refuses_a_full_request_is_asked_again_after_a_pause(world: World) -> None:
    """Else a leader that refuses all would keep this broker busy with nothing else."""
    world.fetch(A, 3)
    for _ in range(2):
        world.pump()
        assert len(world.leader.waiting) == 1
        world.leader.answer(error=KafkaErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        world.pump()
        assert not world.leader.waiting
        assert world.fetcher.deadline == world.now + PAUSE_AFTER_ERROR_S
        world.now += PAUSE_AFTER_ERROR_S
    world.pump()
    assert world.read_sent() == ({(ID, 0): 3}, set(), 0, 0)


def test_silence_begins_when_an_answer_is_overdue_and_only_an_answer_ends_it(world: World) -> None:
    assert world.fetcher.silent_since == float("inf")
    world.fetch(A, 0)
    world.pump()
    due = world.now + FetchLimits().max_wait_ms / 1000
    assert world.fetcher.silent_since == due
    world.now += 2
    world.leader.waiting.pop(0)[1](PeerFailed("no connection", was_sent=False))
    world.pump()
    assert (len(world.leader.waiting), world.fetcher.silent_since) == (1, due), "a new dial is no word of the leader"
    world.leader.answer((ID, 0, 0))
    assert world.fetcher.silent_since == float("inf")
    world.fetch(A, 1)
    world.pump()
    world.fetch(A, 2)
    world.pump()
    world.now += 3
    world.leader.answer()
    assert world.fetcher.silent_since == world.now + FetchLimits().max_wait_ms / 1000, "of the second request"


def test_who_fetches_nothing_any_more_waits_for_nothing(world: World) -> None:
    begin(world)
    world.pump()
    world.leader.waiting.pop(0)[1](PeerFailed("gone", was_sent=True))
    world.fetcher.stop(A)
    world.fetcher.stop(B)
    world.pump()
    assert (len(world.leader.waiting), world.fetcher.silent_since) == (0, float("inf"))
