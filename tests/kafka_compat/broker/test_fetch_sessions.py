"""Fetch sessions and waiting fetches, on real replicas."""

from collections.abc import Iterator

import pytest

from kafka_compat.broker.replicas import LocalReplica
from kafka_compat.broker.requests.fetch import FOLLOWER_SESSIONS_MAX
from kafka_compat.model import PartitionState, TopicPartition
from kafka_compat.partition.events import PartitionStateChanged
from kafka_compat.protocol.apis.fetch import FetchPartition, FetchReplicaState, FetchRequest, FetchResponse, FetchTopic
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.kafka_compat.broker.world import OWN, Connection, World, records_of, world

MIB = 1 << 20


@pytest.fixture
def broker() -> Iterator[World]:
    with world() as made:
        yield made


def asking(topic_id: bytes, offsets: dict[int, int], **fields: object) -> FetchRequest:
    given: dict[str, object] = {"max_wait_ms": 500, "min_bytes": 1, "session_epoch": 0, "max_bytes": MIB}
    partitions = tuple(
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=MIB)
        for number, offset in offsets.items()
    )
    topics = (FetchTopic(topic_id=topic_id, partitions=partitions),) if offsets else ()
    return FetchRequest(**given | {"topics": topics} | fields)  # type: ignore[arg-type]


def test_a_partition_for_which_there_was_no_room_comes_with_the_next_request(broker: World) -> None:
    """It has no news in between, and its client does not name it again."""
    topic = broker.topic("t", 3)
    for number in range(3):
        broker.produce("t", number, size=5000)
    answer = broker.fetch(asking(topic, {0: 0, 1: 0, 2: 0}, max_bytes=6000)).answer
    (first,) = records_of(answer)
    seen = [first]
    for epoch in (1, 2):
        following = asking(topic, {seen[-1]: 1}, max_bytes=6000, session_id=answer.session_id, session_epoch=epoch)
        seen.extend(records_of(broker.fetch(following).answer))
    assert sorted(seen) == [0, 1, 2]


def test_a_waiting_fetch_ends_when_its_partition_grows(broker: World) -> None:
    topic = broker.topic("t", 2)
    asked = broker.fetch(asking(topic, {0: 0, 1: 0}))
    broker.pump()
    assert not asked.is_answered
    broker.produce("t", 1)
    broker.pump()
    assert 1 in records_of(asked.answer)


class AppendsNext:
    """Appends a record when it sees one committed, as a coordinator does."""

    def __init__(self, broker: World, partition: int) -> None:
        self.broker, self.partition, self.has_appended = broker, partition, False

    def on_moved(self, hosted: LocalReplica) -> None:
        if not self.has_appended:
            self.has_appended = True
            self.broker.produce("t", self.partition)

    def on_appended(self, hosted: LocalReplica) -> None:
        """It waits for commits."""

    def on_changed(self, hosted: LocalReplica) -> None:
        """It waits for commits."""


def copying(topic_id: bytes, offsets: dict[int, int], **fields: object) -> FetchRequest:
    """Returns the fetch of the follower 2."""
    partitions = tuple(
        FetchPartition(partition=number, current_leader_epoch=0, fetch_offset=offset, partition_max_bytes=MIB)
        for number, offset in offsets.items()
    )
    topics = (FetchTopic(topic_id=topic_id, partitions=partitions),) if offsets else ()
    return asking(topic_id, {}, topics=topics, replica_state=FetchReplicaState(replica_id=2, replica_epoch=2), **fields)


@pytest.mark.parametrize("partition", [0, 1])
def test_a_fetch_that_commits_a_record_gets_the_one_that_is_appended_for_it(broker: World, partition: int) -> None:
    topic = broker.topic("t", 2, (OWN, 2))
    broker.produce("t")
    answer = broker.fetch(copying(topic, {0: 0, 1: 0})).answer
    assert list(records_of(answer)) == [0]
    appends = AppendsNext(broker, partition)
    broker.replicas.hosted[TopicPartition("t", 0)].watchers[appends] = None
    asked = broker.fetch(copying(topic, {0: 1}, session_id=answer.session_id, session_epoch=1))
    assert appends.has_appended
    broker.pump()
    assert list(records_of(asked.answer)) == [partition]


def test_a_record_appended_while_another_is_sent_comes_with_the_next_answer(broker: World) -> None:
    topic = broker.topic("t", 2, (OWN, 2))
    broker.produce("t")
    session = broker.fetch(copying(topic, {0: 0, 1: 0})).answer.session_id
    broker.produce("t")
    broker.replicas.hosted[TopicPartition("t", 0)].watchers[AppendsNext(broker, 1)] = None
    sent = broker.fetch(copying(topic, {0: 1}, session_id=session, session_epoch=1))
    assert list(records_of(sent.answer)) == [0]
    asked = broker.fetch(copying(topic, {}, session_id=session, session_epoch=2))
    assert 1 in records_of(asked.answer)


def test_a_waiting_fetch_ends_in_time_with_nothing(broker: World) -> None:
    topic = broker.topic("t")
    asked = broker.fetch(asking(topic, {0: 0}))
    assert broker.fetches.deadline == broker.now + 0.5
    broker.now += 0.5
    broker.pump()
    assert asked.is_answered
    assert records_of(asked.answer) == {}
    assert broker.fetches.deadline == float("inf")


def test_min_bytes_are_waited_for(broker: World) -> None:
    topic = broker.topic("t")
    asked = broker.fetch(asking(topic, {0: 0}, min_bytes=1000))
    broker.produce("t", size=10)
    broker.pump()
    assert not asked.is_answered
    broker.produce("t", size=1000)
    broker.pump()
    assert asked.is_answered


@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_connection_that_ends_leaves_nothing_behind(broker: World, session_epoch: int) -> None:
    topic = broker.topic("t")
    connection = Connection()
    asked = broker.fetch(asking(topic, {0: 0}, session_epoch=session_epoch), connection)
    hosted = broker.replicas.hosted[TopicPartition("t", 0)]
    assert len(hosted.watchers) == 1
    broker.fetches.connection_closed(connection)  # type: ignore[arg-type]
    assert not hosted.watchers
    assert broker.fetches.deadline == float("inf")
    broker.produce("t")
    broker.pump()
    assert not asked.is_answered


def test_a_session_may_go_on_by_another_connection(broker: World) -> None:
    topic = broker.topic("t")
    broker.produce("t")
    old, new = Connection(), Connection()
    session = broker.fetch(asking(topic, {0: 0}), old).answer.session_id
    broker.fetch(asking(topic, {0: 1}, session_id=session, session_epoch=1, max_wait_ms=0), new)
    broker.fetches.connection_closed(old)  # type: ignore[arg-type]
    last = broker.fetch(asking(topic, {}, session_id=session, session_epoch=2, max_wait_ms=0), new)
    assert last.answer.error_code == KafkaErrorCode.NONE


def test_wrong_ids_and_epochs_of_sessions_are_refused(broker: World) -> None:
    topic = broker.topic("t")
    session = broker.fetch(asking(topic, {0: 0}, max_wait_ms=0)).answer.session_id
    wrong_epoch = broker.fetch(asking(topic, {}, session_id=session, session_epoch=5)).answer
    wrong_id = broker.fetch(asking(topic, {}, session_id=session ^ 1, session_epoch=1)).answer
    assert wrong_epoch.error_code == KafkaErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert wrong_id.error_code == KafkaErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_follower_gets_a_session_when_consumers_have_all() -> None:
    with world("max.incremental.fetch.session.cache.slots=1") as broker:
        topic = broker.topic("t", replicas=(1, 2))
        assert broker.fetch(asking(topic, {0: 0}, max_wait_ms=0)).answer.session_id
        assert not broker.fetch(asking(topic, {0: 0}, max_wait_ms=0)).answer.session_id
        follower = FetchReplicaState(replica_id=2, replica_epoch=2)
        assert broker.fetch(asking(topic, {0: 0}, max_wait_ms=0, replica_state=follower)).answer.session_id


def test_a_topic_made_again_is_another_topic(broker: World) -> None:
    old = broker.topic("t")
    session = broker.fetch(asking(old, {0: 0}, max_wait_ms=0)).answer.session_id
    new = broker.topic("t")
    broker.produce("t")
    (refused,) = broker.fetch(asking(old, {}, session_id=session, session_epoch=1)).answer.responses[0].partitions
    assert refused.error_code == KafkaErrorCode.UNKNOWN_TOPIC_ID
    assert records_of(broker.fetch(asking(new, {0: 0})).answer)


def test_a_follower_that_knows_more_waits_until_this_broker_knows_it_too(broker: World) -> None:
    """An error would make it pause, and every new topic would begin with that pause."""
    known = broker.topic("known", replicas=(1, 2))
    new = broker.topic("t", replicas=(1, 2))
    image = broker.image.topics["t"]
    broker.replicas.remove(TopicPartition("t", 0))
    del broker.image.topics["t"], broker.image.topics_by_id[new]
    follower = FetchReplicaState(replica_id=2, replica_epoch=2)
    partition = FetchPartition(partition=0, current_leader_epoch=0, fetch_offset=0, partition_max_bytes=MIB)
    topics = tuple(FetchTopic(topic_id=each, partitions=(partition,)) for each in (new, known))
    asked = broker.fetch(asking(known, {}, replica_state=follower, topics=topics))
    broker.pump()
    assert not asked.is_answered
    broker.image.topics["t"] = broker.image.topics_by_id[new] = image
    broker.replicas.update({TopicPartition("t", 0): image.partitions[0]})
    broker.produce("t")
    broker.fetches.role_changed()
    broker.pump()
    assert list(records_of(asked.answer)) == [0]
    assert [topic.topic_id for topic in asked.answer.responses if topic.partitions[0].records] == [new]


def test_a_follower_is_told_in_time_that_a_topic_is_gone(broker: World) -> None:
    follower = FetchReplicaState(replica_id=2, replica_epoch=2)
    asked = broker.fetch(asking(bytes(15) + b"x", {0: 0}, replica_state=follower))
    broker.pump()
    assert not asked.is_answered
    broker.now += 0.5
    broker.pump()
    assert asked.answer.responses[0].partitions[0].error_code == KafkaErrorCode.UNKNOWN_TOPIC_ID


def test_a_large_first_batch_is_sent_whole_and_only_the_first(broker: World) -> None:
    topic = broker.topic("t", 2)
    broker.produce("t", 0, size=5000)
    broker.produce("t", 1, size=5000)
    assert len(records_of(broker.fetch(asking(topic, {0: 0, 1: 0}, max_bytes=1)).answer)) == 1


def follow(
    topic_id: bytes, epoch: int, last_epoch: int, offset: int, session_id: int = 0, number: int = 0
) -> FetchRequest:
    """Returns the request of broker 2, which follows partition 0."""
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=0,
        partition_max_bytes=MIB,
    )
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=MIB,
        session_id=session_id,
        session_epoch=number,
        topics=(FetchTopic(topic_id=topic_id, partitions=(partition,)),),
        replica_state=FetchReplicaState(replica_id=2, replica_epoch=2),
    )


def bounds_in(response: FetchResponse) -> list[tuple[int, int]]:
    return [(each.high_watermark, each.log_start_offset) for topic in response.responses for each in topic.partitions]


def test_a_follower_that_diverges_learns_high_watermark_and_log_start_with_the_answer_after(broker: World) -> None:
    """It takes neither from the answer that makes it truncate; without them it could never join the ISR."""
    topic = broker.topic("t", replicas=(OWN, 2), isr=(OWN,), leader_epoch=3)
    broker.produce("t", count=2)
    first = broker.fetch(follow(topic, 3, 2, 5)).answer
    (partition,) = first.responses[0].partitions
    assert partition.diverging_epoch.end_offset == 0
    known = bounds_in(first)
    following = broker.fetch(follow(topic, 3, -1, 2, first.session_id, 1)).answer
    assert bounds_in(following) == known


def test_a_follower_that_asks_again_in_another_epoch_learns_high_watermark_and_log_start_anew(broker: World) -> None:
    """The answer to what it had asked before was too late for it."""
    topic = broker.topic("t", replicas=(OWN, 2), isr=(OWN,), leader_epoch=3)
    broker.produce("t", count=2)
    first = broker.fetch(follow(topic, 3, 3, 2)).answer
    assert len(bounds_in(first)) == 1
    again = broker.fetch(follow(topic, 3, 3, 2, first.session_id, 1)).answer
    assert bounds_in(again) == []
    hosted = broker.replicas.hosted[TopicPartition("t", 0)]
    state = PartitionState(topic, (OWN, 2), (OWN,), OWN, 4, 1)
    broker.replicas.step(hosted, PartitionStateChanged(state))
    anew = broker.fetch(follow(topic, 4, 3, 2, first.session_id, 2)).answer
    assert bounds_in(anew) == bounds_in(first)


def test_a_follower_that_opens_sessions_without_end_keeps_its_newest(broker: World) -> None:
    topic = broker.topic("t")
    follower = FetchReplicaState(replica_id=OWN + 1, replica_epoch=1)
    opened = [
        broker.fetch(asking(topic, {0: 0}, max_wait_ms=0, replica_state=follower)).answer.session_id
        for _ in range(3 * FOLLOWER_SESSIONS_MAX)
    ]
    assert list(broker.fetches._sessions) == opened[-FOLLOWER_SESSIONS_MAX:]
