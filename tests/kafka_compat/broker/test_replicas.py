"""The shell around the deciders carries out their orders: logs, answers, files and failures."""

import time

import pytest

from kafka_compat.broker.producers import kept_of, snapshots_of, transactions_of
from kafka_compat.broker.replicas import LOGS_AT_ONCE
from kafka_compat.broker.requests.logs import LogRequests
from kafka_compat.broker.requests.topics import TopicRequests
from kafka_compat.controller.image import TopicImage
from kafka_compat.model import OFFSETS_TOPIC, PartitionState, TopicPartition
from kafka_compat.partition.effects import AnswerProduce, CloseConnection
from kafka_compat.partition.events import LogStartDue, Produce
from kafka_compat.partition.model import (
    AbortedTransaction,
    BatchInfo,
    ProducerSnapshot,
    SequenceRange,
    TransactionsSnapshot,
)
from kafka_compat.protocol.apis.create_topics import CREATE_TOPICS, CreateTopic, CreateTopicsRequest
from kafka_compat.protocol.apis.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafka_compat.protocol.apis.describe_log_dirs import DESCRIBE_LOG_DIRS, DescribeLogDirsRequest
from kafka_compat.protocol.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import encode_records
from log.errors import StorageFailed
from tests.kafka_compat.broker.world import OWN, World, ask, world

T0 = TopicPartition("t", 0)


def flush(broker: World) -> None:
    """A whole flush round."""
    waiting = broker.replicas.take_unflushed()
    round_ = broker.store.begin_round()
    round_.run()
    broker.store.end_round(round_)
    broker.replicas.on_flushed(waiting)


def files(broker: World) -> set[str]:
    return {each for each in broker.disk.list_directory("data/partitions/logs/t-0") if each.endswith(".log")}


def test_deleted_records_leave_the_disk_also_when_nothing_waits_for_flushes() -> None:
    with world("log.segment.bytes=20000") as broker:
        broker.topic("t")
        broker.produce("t", size=5000, count=20)
        assert len(files(broker)) > 3
        assert broker.replicas.take_unflushed() == []
        broker.replicas.step(broker.replicas.hosted[T0], LogStartDue(20))
        assert broker.replicas.has_unflushed
        flush(broker)
        assert len(files(broker)) == 1


def test_before_ack_answers_come_after_the_flush_that_covers_them() -> None:
    with world("flush=before-ack") as broker:
        broker.topic("t")
        answers = broker.produce("t")
        waiting = broker.replicas.take_unflushed()
        late = broker.produce("t")
        assert (len(answers), len(late)) == (0, 0)
        broker.replicas.on_flushed(waiting)
        assert (len(answers), len(late)) == (1, 0)


def test_a_flush_does_not_count_for_what_came_in_the_place_of_what_it_wrote() -> None:
    with world("flush=before-ack") as broker:
        broker.topic("t")
        broker.produce("t")
        waiting = broker.replicas.take_unflushed()
        hosted = broker.replicas.hosted[T0]
        hosted.log.changes += 1
        broker.replicas.on_flushed(waiting)
        assert hosted.decider.log.flushed_end == 0
        assert broker.replicas.has_unflushed


def test_a_step_that_fails_leaves_a_mark_because_its_decider_knows_of_what_is_not_in_the_log() -> None:
    with world() as broker:
        broker.topic("t")
        broker.produce("t", size=5000, count=2)  # with room for some more
        broker.disk.failing = True
        with pytest.raises(StorageFailed):
            broker.produce("t", size=500)
        hosted = broker.replicas.hosted[T0]
        assert hosted.decider.log_end > hosted.log.end_offset
        assert broker.replicas.broken
        broker.disk.failing = False


def test_an_event_within_a_step_waits_for_its_end() -> None:
    with world() as broker:
        broker.topic("t")
        hosted = broker.replicas.hosted[T0]
        order: list[str] = []
        batch = encode_records([(b"k", b"v")], 1)

        def second(answer: object) -> None:
            order.append("second")

        def first(answer: object) -> None:
            token = broker.replicas.token(second)
            broker.replicas.step(hosted, Produce(token, 1, BatchInfo(1, len(batch)), 1.0, (batch,)))
            order.append("first")

        token = broker.replicas.token(first)
        broker.replicas.step(hosted, Produce(token, 1, BatchInfo(1, len(batch)), 1.0, (batch,)))
        assert order == ["first", "second"]
        assert hosted.log.end_offset == 2


def test_a_deleted_topic_answers_what_waits_and_its_log_is_gone() -> None:
    with world() as broker:
        broker.topic("t", replicas=(1, 2))
        answers = broker.produce("t", acks=-1)
        assert answers == []
        broker.replicas.remove(T0)
        (answer,) = answers
        assert isinstance(answer, AnswerProduce)
        assert answer.error is KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broker.replicas.work()
        assert broker.store.logs == {}
        assert not broker.replicas.has_more
        assert [each.partition for each in broker.removed] == [T0]


def test_a_broker_that_begins_has_every_replica_before_it_reports_its_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    # A copy that is not there yet would be left out of the reports, and count as whole.
    monkeypatch.setattr("kafka_compat.broker.replicas.WORK_S", -1.0)  # a round has no time to make any
    with world() as broker:
        topic_id = broker.context.new_id()
        state = PartitionState(topic_id, (OWN, 2), (2,), 2, 0, 0)
        states = {TopicPartition("t", number): state for number in range(3 * LOGS_AT_ONCE)}
        broker.image.topics["t"] = broker.image.topics_by_id[topic_id] = TopicImage(
            "t", topic_id, [state] * len(states), {}
        )
        broker.replicas.update(states)
        broker.replicas.make_all()
        assert set(broker.replicas.hosted) == set(states)
        assert not broker.replicas.has_more


def test_a_topic_made_again_begins_empty() -> None:
    with world() as broker:
        broker.topic("t")
        broker.produce("t", count=3)
        broker.topic("t")
        assert broker.replicas.hosted[T0].log.end_offset == 0


def test_a_waiting_produce_ends_in_time() -> None:
    with world() as broker:
        broker.topic("t", replicas=(1, 2))
        answers = broker.produce("t", acks=-1)
        while not answers:
            due = broker.replicas.deadline
            assert due <= 110.0
            broker.now = max(due, broker.now)
            broker.replicas.tick(broker.now)
        (answer,) = answers
        assert isinstance(answer, AnswerProduce)
        assert answer.error is KafkaErrorCode.REQUEST_TIMED_OUT


def test_a_refused_produce_without_acks_closes_the_connection() -> None:
    with world("min.insync.replicas=1", "message.max.bytes=100") as broker:
        broker.topic("t")
        answers = broker.produce("t", size=1000, acks=0)
        assert [type(each) for each in answers] == [CloseConnection]


def test_producers_survive_the_way_to_the_disk_and_back() -> None:
    known = (ProducerSnapshot(5, 1, (SequenceRange(2**31 - 2, 1, 10, 14),), 3.0, 2),)
    transactions = TransactionsSnapshot(((5, 10),), ((2, 3),), (AbortedTransaction(5, 2, 3),))
    kept = kept_of(known, transactions, 1_000_000)
    assert (snapshots_of(kept, 1_000_000), transactions_of(kept)) == (known, transactions)


def test_records_of_the_offsets_topic_are_not_deleted_for_a_client() -> None:
    with world() as broker:
        broker.topic(OFFSETS_TOPIC)
        topics = (
            DeleteRecordsTopic(name=OFFSETS_TOPIC, partitions=(DeleteRecordsPartition(partition_index=0, offset=0),)),
        )
        request = DeleteRecordsRequest(topics=topics, timeout_ms=1000)
        handler = LogRequests(broker.context, broker.replicas).delete_records
        answer = ask(handler, DELETE_RECORDS, 2, request).answer
        assert answer.topics[0].partitions[0].error_code == KafkaErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("version", "error"), [(4, KafkaErrorCode.LEADER_NOT_AVAILABLE), (5, KafkaErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_an_offset_that_is_not_known_yet_is_asked_for_again(version: int, error: KafkaErrorCode) -> None:
    """A new leader does not know the high watermark before its followers have fetched."""
    with world() as broker:
        broker.topic("t", replicas=(1, 2))
        broker.produce("t")
        state = broker.image.topics["t"].partitions[0]
        again = type(state)(state.topic_id, (1, 2), (1, 2), 1, 1, 1)
        broker.replicas.update({T0: again})
        partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=(partition,)),))
        handler = LogRequests(broker.context, broker.replicas).list_offsets
        answer = ask(handler, LIST_OFFSETS, version, request).answer
        assert answer.topics[0].partitions[0].error_code == error


def test_log_dirs_of_a_disk_in_memory_have_no_known_space() -> None:
    with world() as broker:
        broker.topic("t")
        handler = LogRequests(broker.context, broker.replicas).describe_log_dirs
        answer = ask(handler, DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None)).answer
        assert (answer.results[0].total_bytes, answer.results[0].usable_bytes) == (-1, -1)


def test_topics_named_twice_are_refused_in_time_that_grows_with_their_number_only() -> None:
    """Twenty times as many names cost some twenty times the CPU time, and not four hundred times."""

    def least_cost(names: int) -> float:
        topics = [
            CreateTopic(name=f"t{at}", num_partitions=1, replication_factor=1, assignments=(), configs=())
            for at in range(names)
        ]
        request = CreateTopicsRequest(topics=(*topics, *topics), timeout_ms=1000)
        costs = []
        for _ in range(3):
            begun = time.process_time()
            asked = ask(TopicRequests(broker.context).create_topics, CREATE_TOPICS, 7, request)
            costs.append(time.process_time() - begun)
            assert {each.error_code for each in asked.answer.topics} == {KafkaErrorCode.INVALID_REQUEST}
            assert len(asked.answer.topics) == names
        return min(costs)

    with world() as broker:
        assert least_cost(10_000) < 60 * least_cost(500)
