"""Replicas of partitions that move: what becomes of requests that wait, and of the copy."""

from typing import Any

import attrs

from kafka_compat.broker.metrics import REASSIGNING, UNDER_MIN_ISR, UNDER_REPLICATED, replica_figures
from kafka_compat.model import PartitionState, TopicPartition
from kafka_compat.partition.effects import AnswerProduce
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.kafka_compat.broker.world import OWN, World, world

KEY = TopicPartition("t", 0)


def change(broker: World, **changed: Any) -> PartitionState:
    """The controller's next decision about the partition, handed to the replicas."""
    partitions = broker.image.topics["t"].partitions
    state = attrs.evolve(partitions[0], **{"partition_epoch": partitions[0].partition_epoch + 1, **changed})
    partitions[0] = state
    broker.replicas.update({KEY: state})
    return state


def move_away(broker: World) -> None:
    epoch = broker.image.topics["t"].partitions[0].leader_epoch
    change(broker, replicas=(2,), isr=(2,), leader=2, leader_epoch=epoch + 1)


def test_who_waits_for_a_partition_that_moves_away_is_sent_to_another_leader() -> None:
    with world("min.insync.replicas=1") as broker:
        broker.topic("t", replicas=(OWN, 2))
        answers = broker.produce("t", acks=-1)
        assert answers == []
        move_away(broker)
        (answer,) = answers
        assert isinstance(answer, AnswerProduce)
        assert answer.error is KafkaErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_replica_that_is_to_leave_keeps_its_copy_and_leads_until_it_has_left() -> None:
    with world() as broker:
        broker.topic("t")
        broker.produce("t")
        change(broker, replicas=(2, OWN), adding=(2,), removing=(OWN,))
        assert broker.replicas.hosted[KEY].leads
        broker.replicas.work()
        assert broker.store.logs[KEY].end_offset == 1
        move_away(broker)
        broker.replicas.work()
        assert KEY not in broker.store.logs
        assert KEY not in broker.replicas.hosted


def test_a_replica_that_is_added_again_keeps_what_was_not_deleted_yet() -> None:
    with world() as broker:
        broker.topic("t")
        broker.produce("t")
        broker.replicas._context = attrs.evolve(broker.context, stopwatch=lambda: float("inf"))  # no work is done
        move_away(broker)
        broker.replicas.work()
        change(broker, replicas=(2, OWN), adding=(OWN,))
        broker.replicas._context = broker.context
        while broker.replicas.has_more:
            broker.replicas.work()
        assert broker.store.logs[KEY].end_offset == 1
        assert broker.orders.wanted[KEY][0] == 2


def test_an_older_state_that_comes_after_a_newer_one_removes_no_copy() -> None:
    with world() as broker:
        broker.topic("t")
        broker.produce("t")
        (state,) = broker.image.topics["t"].partitions
        change(broker, leader_epoch=2, partition_epoch=5)
        broker.replicas.update({KEY: attrs.evolve(state, replicas=(2,), isr=(2,), leader=2, partition_epoch=3)})
        broker.replicas.work()
        assert broker.store.logs[KEY].end_offset == 1
        assert broker.replicas.hosted[KEY].leads


def test_a_stray_that_is_kept_outlives_the_news_of_its_partition() -> None:
    with world() as broker:
        topic_id = broker.topic("t", replicas=(2,), leader=2)
        broker.store.create({KEY: topic_id})
        broker.store.keeps_strays = True
        change(broker, isr=(2,))
        broker.replicas.work()
        assert KEY in broker.store.logs


def test_the_min_isr_is_held_to_the_lower_replication_factor_while_a_topic_grows() -> None:
    with world("min.insync.replicas=2") as broker:
        broker.topic("t")
        change(broker, replicas=(OWN, 2), adding=(2,))
        (answer,) = broker.produce("t", acks=-1)
        assert isinstance(answer, AnswerProduce)
        assert answer.error is KafkaErrorCode.NONE
        change(broker, isr=(OWN, 2), adding=())
        change(broker, isr=(OWN,))
        (answer,) = broker.produce("t", acks=-1)
        assert isinstance(answer, AnswerProduce)
        assert answer.error is KafkaErrorCode.NOT_ENOUGH_REPLICAS


def test_a_partition_that_moves_is_no_under_replicated_one() -> None:
    with world("min.insync.replicas=2") as broker:
        broker.topic("t")

        def figures() -> dict[str, float]:
            names = {UNDER_REPLICATED.name, UNDER_MIN_ISR.name, REASSIGNING.name}
            found = replica_figures(broker.replicas.hosted, broker.image)
            return {each.metric.name: each.value for each in found if each.metric.name in names}

        change(broker, replicas=(2, OWN), adding=(2,), removing=(OWN,))
        assert figures() == {UNDER_REPLICATED.name: 0, UNDER_MIN_ISR.name: 0, REASSIGNING.name: 1}
        change(broker, adding=(), removing=())
        assert figures() == {UNDER_REPLICATED.name: 1, UNDER_MIN_ISR.name: 1, REASSIGNING.name: 0}
