"""A leader while copies outside of its ISR may lead, and what a replica reports of its log while no one leads."""

from collections.abc import Sequence

import attrs

from kafka_compat.model import NO_LEADER, PartitionState
from kafka_compat.partition.core import PartitionReplica
from kafka_compat.partition.effects import AnswerProduce, Effect, HighWatermarkMoved, SendAlterPartition, TruncateLog
from kafka_compat.partition.events import (
    AlterPartitionAnswered,
    BrokersChanged,
    FetchAnswered,
    PartitionConfigChanged,
    PartitionRemoved,
    PartitionStateChanged,
    Produce,
    TimePassed,
    Truncated,
)
from kafka_compat.partition.model import ComparedLog, EpochEnd, PartitionConfig, RecoveredReplica
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.kafka_compat.partition.test_replica import BATCH, STATE, brokers, fetch, following, leading, of, replica

TWO = PartitionConfig(min_insync_replicas=2, replica_lag_time_s=10.0)
NONE = KafkaErrorCode.NONE


def only_request(effects: Sequence[Effect]) -> SendAlterPartition:
    (request,) = of(effects, SendAlterPartition)
    assert isinstance(request, SendAlterPartition)
    return request


def commit(of_replica: PartitionReplica, /, **changes: object) -> PartitionState:
    state = of_replica.state
    assert state is not None
    return attrs.evolve(state, partition_epoch=state.partition_epoch + 1, **changes)  # type: ignore[arg-type]


def read_compared(of_replica: PartitionReplica) -> ComparedLog | None:
    return of_replica.compared_log


def shrunk(leader: PartitionReplica, *gone: int) -> list[Effect]:
    """The controller has fenced these brokers."""
    before = brokers().brokers
    after = {each: attrs.evolve(one, fenced=each in gone) for each, one in before.items()}
    isr = tuple(each for each in (1, 2, 3) if each not in gone)
    effects = [*leader.step(1.0, BrokersChanged(after))]
    return [*effects, *leader.step(1.0, PartitionStateChanged(commit(leader, isr=isr, elr=gone)))]


def catch_up(config: PartitionConfig = TWO) -> PartitionReplica:
    """Leader 1 with all three in its ISR, everything committed."""
    leader = leading(config)
    for follower in (2, 3):
        leader.step(0.0, fetch(follower, 10))
    assert leader.high_watermark == 10
    return leader


def test_nothing_is_asked_while_nothing_more_could_be_committed() -> None:
    leader = catch_up()
    effects = shrunk(leader, 3)
    assert not of(effects, SendAlterPartition), "an idle partition keeps all its copies eligible"


def test_the_high_watermark_waits_until_the_controller_has_let_go_of_the_eligible() -> None:
    leader = catch_up()
    shrunk(leader, 3)
    leader.step(1.0, Produce(9, -1, BATCH, 5.0))
    request = only_request(leader.step(1.0, fetch(2, 12, last=4)))
    assert ([member for member, _ in request.isr], request.keeps_eligible) == ([1, 2], False)
    assert leader.high_watermark == 10
    effects = leader.step(1.1, AlterPartitionAnswered(request.request, NONE, commit(leader, elr=())))
    assert of(effects, HighWatermarkMoved) == [HighWatermarkMoved(12)]
    (answer,) = of(effects, AnswerProduce)
    assert isinstance(answer, AnswerProduce)
    assert answer.error is NONE


def test_the_answer_that_comes_as_metadata_moves_it_too() -> None:
    leader = leading(isr=(1,), elr=(2, 3))
    assert leader.high_watermark == 6
    leader.step(1.0, PartitionStateChanged(commit(leader, elr=())))
    assert leader.high_watermark == 10


def test_a_new_leader_asks_as_soon_as_it_could_commit_more() -> None:
    leader = replica()
    request = only_request(leader.step(0.0, PartitionStateChanged(attrs.evolve(STATE, isr=(1,), elr=(2, 3)))))
    assert (request.isr, request.keeps_eligible) == (((1, 11),), False)


def test_below_the_min_isr_no_one_is_let_go_of() -> None:
    leader = catch_up()
    shrunk(leader, 2, 3)
    effects = leader.step(1.0, Produce(9, 1, BATCH, 5.0))
    assert not of(effects, SendAlterPartition)
    assert not of(leader.step(1.0, PartitionConfigChanged(attrs.evolve(TWO, strict_min_isr=False))), SendAlterPartition)
    assert leader.high_watermark == 10


def test_a_lower_min_isr_lets_go_of_them() -> None:
    leader = catch_up()
    shrunk(leader, 2, 3)
    leader.step(1.0, Produce(9, 1, BATCH, 5.0))
    request = only_request(leader.step(1.0, PartitionConfigChanged(attrs.evolve(TWO, min_insync_replicas=1))))
    assert not request.keeps_eligible


def test_a_refusal_is_asked_again_after_a_while_though_nothing_else_happens() -> None:
    leader = replica()
    request = only_request(leader.step(0.0, PartitionStateChanged(attrs.evolve(STATE, isr=(1,), elr=(2,)))))
    leader.step(1.0, AlterPartitionAnswered(request.request, KafkaErrorCode.INELIGIBLE_REPLICA))
    assert leader.deadline < 1.1
    assert only_request(leader.step(leader.deadline, TimePassed())).request != request.request


def test_whoever_joins_leaves_the_others_eligible() -> None:
    leader = catch_up()
    shrunk(leader, 2, 3)
    request = only_request(leader.step(1.0, brokers()))
    assert ([member for member, _ in request.isr], request.keeps_eligible) == ([1, 2], True)


def test_a_member_that_falls_behind_is_eligible_only_below_the_min_isr() -> None:
    for min_isr, keeps in ((2, False), (3, True)):
        leader = catch_up(attrs.evolve(TWO, min_insync_replicas=min_isr))
        leader.step(1.0, Produce(9, 1, BATCH, 5.0))
        leader.step(20.0, fetch(2, 12, last=4))
        request = only_request(leader.step(20.0, TimePassed()))
        assert ([member for member, _ in request.isr], request.keeps_eligible) == ([1, 2], keeps)


def test_without_the_feature_no_one_is_kept_eligible() -> None:
    leader = catch_up(attrs.evolve(TWO, min_insync_replicas=3, eligible_leaders=False))
    leader.step(1.0, Produce(9, 1, BATCH, 5.0))
    leader.step(20.0, fetch(2, 12, last=4))
    assert not only_request(leader.step(20.0, TimePassed())).keeps_eligible


# ---------------------------------------------------------------- the report of a log


def test_a_log_is_reported_only_while_no_one_leads() -> None:
    follower = following()
    assert read_compared(follower) is None
    follower.step(1.0, PartitionStateChanged(commit(follower, leader=NO_LEADER, leader_epoch=5)))
    assert read_compared(follower) == ComparedLog(5, 3, 10)
    follower.step(1.0, PartitionStateChanged(commit(follower, leader=3, leader_epoch=6)))
    assert read_compared(follower) is None
    follower.step(1.0, PartitionRemoved())
    assert read_compared(follower) is None


def test_an_empty_log_is_reported_without_an_epoch() -> None:
    follower = replica(recovered=RecoveredReplica())
    assert read_compared(follower) is None, "it has seen no metadata"
    follower.step(0.0, PartitionStateChanged(attrs.evolve(STATE, leader=NO_LEADER, isr=(), suspects=(1,))))
    assert read_compared(follower) == ComparedLog(4, -1, 0)


def test_a_log_that_is_being_truncated_is_not_reported_before_it_has_its_end() -> None:
    follower = following()
    effects = follower.step(1.0, FetchAnswered(4, 10, diverging=EpochEnd(1, 5), high_watermark=6, log_start=0))
    assert of(effects, TruncateLog) == [TruncateLog(5)]
    follower.step(1.0, PartitionStateChanged(commit(follower, leader=NO_LEADER, leader_epoch=5)))
    assert read_compared(follower) is None
    follower.step(1.0, Truncated(4, ()))
    assert read_compared(follower) == ComparedLog(5, 1, 4)
