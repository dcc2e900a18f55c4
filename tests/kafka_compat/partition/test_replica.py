"""One replica alone: what a shell or a peer may not do, and what it answers where no script shows it."""

from collections.abc import Sequence

import attrs
import pytest

from kafka_compat.model import BrokerRegistration, PartitionState, TopicPartition
from kafka_compat.partition.core import PartitionReplica
from kafka_compat.partition.effects import (
    AnswerFetch,
    AnswerProduce,
    AppendBatches,
    Effect,
    FetchFrom,
    HighWatermarkMoved,
    MoveLogStart,
    PartitionRole,
    PartitionRoleChanged,
    RefusePeer,
    ResetLog,
    SendAlterPartition,
    TruncateLog,
)
from kafka_compat.partition.events import (
    AlterPartitionAnswered,
    BrokersChanged,
    ConsumerFetch,
    FetchAnswered,
    Flushed,
    FollowerFetch,
    LogStartDue,
    PartitionConfigChanged,
    PartitionStateChanged,
    Produce,
    TimePassed,
    Truncated,
)
from kafka_compat.partition.model import (
    BatchInfo,
    EpochBegin,
    EpochEnd,
    PartitionConfig,
    PartitionError,
    RecoveredReplica,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode

STATE = PartitionState(b"t" * 16, (1, 2, 3), (1, 2, 3), 1, 4, 10)
LOG = RecoveredReplica(0, 10, 10, 6, (EpochBegin(1, 0), EpochBegin(3, 5)))
BATCH = BatchInfo(2, 100)


def brokers(**epochs: int) -> BrokersChanged:
    return BrokersChanged(
        {
            broker: BrokerRegistration(broker, epochs.get(f"b{broker}", 10 + broker), bytes(16), "", 1, fenced=False)
            for broker in (1, 2, 3)
        }
    )


def replica(config: PartitionConfig | None = None, recovered: RecoveredReplica = LOG) -> PartitionReplica:
    made = PartitionReplica(1, TopicPartition("t", 0), config or PartitionConfig(), recovered, 0.0)
    made.step(0.0, brokers())
    return made


def leading(config: PartitionConfig | None = None, **changes: object) -> PartitionReplica:
    made = replica(config)
    made.step(0.0, PartitionStateChanged(attrs.evolve(STATE, **changes)))  # type: ignore[arg-type]
    return made


def following() -> PartitionReplica:
    made = replica()
    made.step(0.0, PartitionStateChanged(attrs.evolve(STATE, leader=2)))
    return made


def fetch(
    follower: int, offset: int, *, epoch: int = 4, broker_epoch: int | None = None, last: int = 3
) -> FollowerFetch:
    return FollowerFetch(follower, follower, broker_epoch or 10 + follower, epoch, offset, last, 0, 0.5)


def of(effects: Sequence[Effect], kind: type[Effect]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, kind)]


# ---------------------------------------------------------------- leader


def test_a_new_leader_records_its_epoch_though_it_wrote_nothing() -> None:
    assert leading().leader_epochs[-1] == EpochBegin(4, 10)


def test_a_new_leader_does_not_know_what_its_followers_have() -> None:
    leader = leading()
    leader.step(0.0, fetch(2, 8))
    leader.step(0.0, fetch(3, 10))
    assert leader.high_watermark == 8
    leader.step(0.0, PartitionStateChanged(attrs.evolve(STATE, leader_epoch=5, partition_epoch=11)))
    leader.step(0.0, fetch(2, 10, epoch=5))
    assert leader.high_watermark == 8, "what follower 3 had in epoch 4 is forgotten"
    leader.step(0.0, fetch(3, 9, epoch=5))
    assert leader.high_watermark == 9


def test_the_high_watermark_waits_for_a_follower_about_to_join() -> None:
    leader = leading(isr=(1,))
    assert leader.high_watermark == 10
    leader.step(0.0, PartitionConfigChanged(PartitionConfig(alter_partition_backoff_s=99.0)))
    (asked,) = of(leader.step(0.0, fetch(2, 10)), SendAlterPartition)
    assert isinstance(asked, SendAlterPartition)
    leader.step(0.0, AlterPartitionAnswered(asked.request, KafkaErrorCode.INELIGIBLE_REPLICA))
    leader.step(0.0, Produce(9, -1, BATCH, 5.0))
    assert leader.high_watermark == 10, "it was caught up a moment ago, and would fall behind"
    leader.step(31.0, TimePassed())
    assert leader.high_watermark == 12


def test_while_an_expansion_is_pending_the_high_watermark_waits_for_the_candidate() -> None:
    leader = leading(isr=(1,))
    assert of(leader.step(0.0, fetch(2, 10)), SendAlterPartition)
    leader.step(0.0, Produce(9, -1, BATCH, 99.0))
    leader.step(31.0, TimePassed())
    assert leader.high_watermark == 10, "however late it is, the controller may have it in the ISR already"
    leader.step(31.0, fetch(2, 12, last=4))
    assert leader.high_watermark == 12


def test_a_follower_that_is_not_eligible_holds_nothing_back() -> None:
    leader = leading(isr=(1,))
    leader.step(0.0, fetch(2, 10, broker_epoch=99))
    leader.step(0.0, Produce(9, -1, BATCH, 5.0))
    assert leader.high_watermark == 12


def test_a_fetch_of_an_older_process_than_the_last_one_is_refused() -> None:
    leader = leading()
    leader.step(0.0, fetch(2, 8, broker_epoch=20))
    (answer,) = leader.step(0.0, fetch(2, 10))
    assert isinstance(answer, AnswerFetch)
    assert answer.error is KafkaErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_diverging_fetch_changes_nothing() -> None:
    leader = leading(isr=(1, 2), replicas=(1, 2))
    (answer,) = leader.step(0.0, fetch(2, 10, last=2))
    assert isinstance(answer, AnswerFetch)
    assert answer.diverging == EpochEnd(1, 5)
    assert leader.high_watermark == 6


def test_a_fetch_behind_the_log_end_diverges_in_the_same_epoch() -> None:
    (answer,) = leading().step(0.0, fetch(2, 11))
    assert isinstance(answer, AnswerFetch)
    assert answer.diverging == EpochEnd(3, 10)


def test_a_broker_that_is_no_replica_is_refused() -> None:
    (answer,) = leading(replicas=(1, 2), isr=(1, 2)).step(0.0, fetch(3, 10))
    assert isinstance(answer, AnswerFetch)
    assert answer.error is KafkaErrorCode.UNKNOWN_LEADER_EPOCH


def test_an_answer_of_the_controller_for_another_leader_epoch_is_not_taken() -> None:
    leader = leading(isr=(1,))
    (asked,) = of(leader.step(0.0, fetch(2, 10)), SendAlterPartition)
    assert isinstance(asked, SendAlterPartition)
    assert asked.isr == ((1, 11), (2, 12))
    other = attrs.evolve(STATE, isr=(1, 2), leader_epoch=5, partition_epoch=11)
    leader.step(0.0, AlterPartitionAnswered(asked.request, KafkaErrorCode.NONE, other))
    assert leader.state == attrs.evolve(STATE, isr=(1,))


@pytest.mark.parametrize(("partition_epoch", "leader_epoch"), [(9, 4), (11, 3)])
def test_older_metadata_changes_nothing(partition_epoch: int, leader_epoch: int) -> None:
    leader = leading()
    older = attrs.evolve(STATE, leader=2, partition_epoch=partition_epoch, leader_epoch=leader_epoch)
    assert leader.step(0.0, PartitionStateChanged(older)) == []
    assert leader.is_leader


def test_metadata_of_another_topic_is_a_mistake() -> None:
    with pytest.raises(PartitionError, match="another topic"):
        leading().step(0.0, PartitionStateChanged(attrs.evolve(STATE, topic_id=b"u" * 16, partition_epoch=11)))


def test_retention_stops_at_the_high_watermark() -> None:
    leader = leading()
    assert leader.step(0.0, LogStartDue(9)) == [MoveLogStart(6)]
    assert leader.leader_epochs[0] == EpochBegin(3, 6)


def test_a_smaller_min_isr_lets_the_high_watermark_move() -> None:
    leader = leading(PartitionConfig(min_insync_replicas=2), isr=(1,))
    assert leader.high_watermark == 6
    effects = leader.step(0.0, PartitionConfigChanged(PartitionConfig(min_insync_replicas=1)))
    assert effects == [HighWatermarkMoved(10)]


def test_a_leader_that_flushes_acknowledges_what_is_flushed() -> None:
    leader = leading(PartitionConfig(flush="before-ack"), isr=(1,))
    leader.step(0.0, Produce(1, 1, BATCH, 5.0))
    leader.step(0.0, Produce(2, -1, BATCH, 5.0))
    effects = leader.step(0.0, Flushed(12))
    assert of(effects, AnswerProduce) == [AnswerProduce(1, KafkaErrorCode.NONE, 10, 0)]
    assert leader.high_watermark == 12
    effects = leader.step(0.0, Flushed(14))
    assert of(effects, AnswerProduce) == [AnswerProduce(2, KafkaErrorCode.NONE, 12, 0)]


def test_an_empty_batch_is_refused() -> None:
    (answer,) = leading().step(0.0, Produce(1, -1, BatchInfo(0, 61), 5.0))
    assert answer == AnswerProduce(1, KafkaErrorCode.INVALID_RECORD, -1, 0)


# ---------------------------------------------------------------- follower


def answer_with(*batches: BatchInfo, **facts: int) -> FetchAnswered:
    return FetchAnswered(4, facts.pop("fetch_offset", 10), batches=batches, log_start=0, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("batches", "reason"),
    [
        pytest.param([BatchInfo(2, 100, base_offset=9, leader_epoch=4)], "at 9 after a log end of 10", id="overlap"),
        pytest.param([BatchInfo(0, 100, base_offset=10, leader_epoch=4)], "a batch of 0", id="empty"),
        pytest.param([BatchInfo(2, 100, base_offset=10, leader_epoch=2)], "epoch 2 after 3", id="older epoch"),
        pytest.param([BatchInfo(2, 100, base_offset=10, leader_epoch=5)], "epoch 5 after 3", id="later epoch"),
        pytest.param(
            [BatchInfo(2, 100, base_offset=10, leader_epoch=4), BatchInfo(2, 100, base_offset=11, leader_epoch=4)],
            "at 11 after a log end of 12",
            id="overlap within",
        ),
    ],
)
def test_batches_that_cannot_follow_are_refused_whole(batches: list[BatchInfo], reason: str) -> None:
    follower = following()
    (refusal,) = follower.step(0.0, answer_with(*batches, high_watermark=10))
    assert isinstance(refusal, RefusePeer)
    assert reason in refusal.reason
    assert (follower.log_end, follower.high_watermark, follower.deadline) == (10, 6, 1.0)
    assert follower.step(1.0, TimePassed()) == [FetchFrom(2, 4, 10, 3, 0)]


def test_a_gap_that_compaction_left_is_taken() -> None:
    follower = following()
    batches = (BatchInfo(2, 100, base_offset=15, leader_epoch=4),)
    effects = follower.step(0.0, answer_with(*batches, high_watermark=12))
    assert effects == [AppendBatches(15, -1, batches, None), HighWatermarkMoved(12), FetchFrom(2, 4, 17, 4, 0)]


def test_an_empty_log_may_begin_within_a_batch_of_the_leader() -> None:
    follower = following()
    follower.step(0.0, FetchAnswered(4, 10, KafkaErrorCode.OFFSET_OUT_OF_RANGE, log_start=21))
    batches = (BatchInfo(4, 100, base_offset=20, leader_epoch=4),)
    answer = FetchAnswered(4, 21, high_watermark=24, log_start=21, batches=batches)
    effects = follower.step(0.0, answer)
    assert of(effects, ResetLog) == [ResetLog(20)]
    assert of(effects, MoveLogStart) == [MoveLogStart(21)]
    assert (follower.log_start, follower.log_end, follower.high_watermark) == (21, 24, 24)


def test_a_log_of_which_the_leader_has_nothing_any_more_begins_anew_within_its_batch() -> None:
    # The leader's log start lies within a batch that begins before the end of this log.
    # The answer to a fetch from there has this batch.
    follower = following()
    batches = (BatchInfo(4, 100, base_offset=8, leader_epoch=4),)
    effects = follower.step(0.0, FetchAnswered(4, 10, high_watermark=12, log_start=10, batches=batches))
    assert of(effects, ResetLog) == [ResetLog(8)]
    assert of(effects, MoveLogStart) == [MoveLogStart(10)]
    assert (follower.log_start, follower.log_end, follower.high_watermark) == (10, 12, 12)


def test_an_empty_log_without_an_epoch_begins_where_the_leaders_does() -> None:
    # Retention had emptied this log; all copies were lost, and the leader's begins at 0 again.
    follower = replica(recovered=RecoveredReplica(10, 10, 10, 10, ()))
    follower.step(0.0, PartitionStateChanged(attrs.evolve(STATE, leader=2)))
    effects = follower.step(0.0, FetchAnswered(4, 10, high_watermark=10, log_start=0))
    assert of(effects, ResetLog) == [ResetLog(0)]
    assert effects[-1] == FetchFrom(2, 4, 0, -1, 0)


@pytest.mark.parametrize("end", [EpochEnd(3, 10), EpochEnd(-1, -1), EpochEnd(3, 12)])
def test_a_diverging_epoch_that_does_not_diverge_is_refused(end: EpochEnd) -> None:
    (refusal,) = following().step(0.0, FetchAnswered(4, 10, diverging=end, high_watermark=9, log_start=0))
    assert isinstance(refusal, RefusePeer)


def test_a_diverging_epoch_truncates_and_moves_no_high_watermark() -> None:
    follower = following()
    diverging = FetchAnswered(4, 10, diverging=EpochEnd(3, 8), high_watermark=8, log_start=0)
    assert follower.step(0.0, diverging) == [TruncateLog(8)]
    assert follower.high_watermark == 6
    assert follower.step(0.0, diverging) == [], "nothing was asked since"
    assert follower.step(0.0, Truncated(7, ())) == [FetchFrom(2, 4, 7, 3, 0)]


def test_an_epoch_that_only_the_leader_has_truncates_to_the_end_of_the_largest_below() -> None:
    assert following().step(0.0, FetchAnswered(4, 10, diverging=EpochEnd(2, 8))) == [TruncateLog(5)]


def test_a_truncation_below_the_log_start_resets_the_log() -> None:
    follower = replica(recovered=RecoveredReplica(5, 10, 10, 6, (EpochBegin(3, 5),)))
    follower.step(0.0, PartitionStateChanged(attrs.evolve(STATE, leader=2)))
    effects = follower.step(0.0, FetchAnswered(4, 10, diverging=EpochEnd(2, 3), log_start=0))
    assert effects == [ResetLog(0), HighWatermarkMoved(0), FetchFrom(2, 4, 0, -1, 0)], "nothing of it is the leader's"
    follower = replica(recovered=RecoveredReplica(5, 10, 10, 6, (EpochBegin(3, 5),)))
    follower.step(0.0, PartitionStateChanged(attrs.evolve(STATE, leader=2)))
    effects = follower.step(0.0, FetchAnswered(4, 10, diverging=EpochEnd(2, 3), log_start=4))
    assert effects == [ResetLog(3), HighWatermarkMoved(3), FetchFrom(2, 4, 3, -1, 3)], (
        "the leader tells its log start next"
    )


@pytest.mark.parametrize(
    ("leader_epoch", "fetch_offset"), [pytest.param(3, 10, id="another epoch"), pytest.param(4, 9, id="another offset")]
)
def test_a_late_answer_is_dropped(leader_epoch: int, fetch_offset: int) -> None:
    follower = following()
    batches = (BatchInfo(2, 100, base_offset=10, leader_epoch=3),)
    assert follower.step(0.0, FetchAnswered(leader_epoch, fetch_offset, batches=batches, high_watermark=12)) == []
    assert follower.log_end == 10


def test_a_truncation_that_was_not_ordered_is_a_mistake() -> None:
    with pytest.raises(PartitionError, match="was not told"):
        following().step(0.0, Truncated(5, ()))


@pytest.mark.parametrize(
    ("event", "mistake"),
    [(Truncated(9, ()), "to 9 instead of 8"), (Truncated(7, None), "no producers were read again")],
)
def test_a_truncation_that_was_carried_out_wrongly_is_a_mistake(event: Truncated, mistake: str) -> None:
    follower = following()
    follower.step(0.0, FetchAnswered(4, 10, diverging=EpochEnd(3, 8)))
    with pytest.raises(PartitionError, match=mistake):
        follower.step(0.0, event)


def test_without_a_leader_nothing_is_fetched() -> None:
    effects = following().step(
        0.0, PartitionStateChanged(attrs.evolve(STATE, leader=-1, leader_epoch=5, partition_epoch=11))
    )
    assert not of(effects, FetchFrom)
    assert of(effects, PartitionRoleChanged) == [PartitionRoleChanged(PartitionRole.FOLLOWER, -1, 5)]


def test_metadata_of_the_same_leader_epoch_leaves_the_fetch_alone() -> None:
    changed = PartitionStateChanged(attrs.evolve(STATE, leader=2, isr=(2, 3), partition_epoch=11))
    assert following().step(0.0, changed) == []


def test_a_follower_keeps_to_its_own_retention() -> None:
    assert following().step(0.0, LogStartDue(5)) == [MoveLogStart(5)]


def test_a_log_out_of_order_is_refused() -> None:
    with pytest.raises(ValueError, match="a log from 5 to 3"):
        replica(recovered=RecoveredReplica(5, 3))


# ---------------------------------------------------------------- consumers of followers (KIP-392)


@pytest.mark.parametrize(
    ("offset", "fields", "error", "end"),
    [
        pytest.param(0, {}, KafkaErrorCode.NONE, 6, id="up to the high watermark that it knows"),
        pytest.param(8, {}, KafkaErrorCode.NONE, 8, id="nothing above it"),
        pytest.param(11, {}, KafkaErrorCode.OFFSET_OUT_OF_RANGE, -1, id="beyond the log"),
        pytest.param(0, {"leader_epoch": 3}, KafkaErrorCode.FENCED_LEADER_EPOCH, -1, id="an older epoch"),
        pytest.param(0, {"leader_epoch": 5}, KafkaErrorCode.UNKNOWN_LEADER_EPOCH, -1, id="an epoch to come"),
        pytest.param(0, {"follower_answers": False}, KafkaErrorCode.NOT_LEADER_OR_FOLLOWER, -1, id="an older client"),
    ],
)
def test_a_follower_answers_consumers_with_what_it_knows_to_be_committed(
    offset: int, fields: dict[str, object], error: KafkaErrorCode, end: int
) -> None:
    event = ConsumerFetch(1, offset, 0.0, **{"follower_answers": True, **fields})  # type: ignore[arg-type]
    (answer,) = following().step(0.0, event)
    assert isinstance(answer, AnswerFetch)
    assert (answer.error, answer.end) == (error, end)


def test_a_follower_says_where_a_consumer_left_its_log() -> None:
    event = ConsumerFetch(1, 8, 0.0, last_fetched_epoch=2, follower_answers=True)
    (answer,) = following().step(0.0, event)
    assert isinstance(answer, AnswerFetch)
    assert answer.diverging == EpochEnd(1, 5)


def test_consumers_are_sent_to_members_of_the_isr_that_have_their_offset() -> None:
    leader = leading(isr=(1, 2))
    leader.step(0.0, fetch(2, 9))
    leader.step(0.0, fetch(3, 9))
    near = frozenset({2, 3})
    assert [leader.nearest_replica(near, offset) for offset in (9, 10)] == [2, 1]
    assert leader.nearest_replica(frozenset({1, 2}), 9) == 1
    assert leader.nearest_replica(frozenset({3}), 9) == 1, "it is not in sync"
    assert following().nearest_replica(near, 9) is None
