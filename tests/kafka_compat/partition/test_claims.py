"""Brokers claim to followers and leaders what no correct one does: it counts for nothing."""

from collections.abc import Sequence

import attrs
import pytest

from kafka_compat.model import NO_EPOCH
from kafka_compat.partition.core import PartitionReplica
from kafka_compat.partition.effects import AnswerFetch, Effect, RefusePeer, SendAlterPartition
from kafka_compat.partition.events import FetchAnswered, FollowerFetch, PartitionStateChanged, Produce, TimePassed
from kafka_compat.partition.follower import OFFSET_MAX
from kafka_compat.partition.model import BatchInfo, EpochEnd, PartitionConfig, RecoveredReplica
from kafka_compat.protocol.error_codes import KafkaErrorCode, known_error
from tests.kafka_compat.partition.test_replica import BATCH, STATE, fetch, following, leading, replica

# ---------------------------------------------------------------- of a leader


def batch(base: int, count: int = 2, epoch: int = 4) -> BatchInfo:
    return BatchInfo(count, 100, base_offset=base, leader_epoch=epoch)


def answer(at: int, *batches: BatchInfo, hw: int = 6, start: int = 0) -> FetchAnswered:
    return FetchAnswered(4, at, high_watermark=hw, log_start=start, batches=batches, payload=tuple(batches))


def diverging(epoch: int, end: int) -> FetchAnswered:
    return FetchAnswered(4, 10, high_watermark=6, log_start=0, diverging=EpochEnd(epoch, end))


def trim(start: int) -> FetchAnswered:
    return FetchAnswered(4, 10, KafkaErrorCode.OFFSET_OUT_OF_RANGE, log_start=start)


CLAIMS = {
    "a batch before the end": answer(10, batch(9)),
    "a batch of nothing": answer(10, batch(10, 0)),
    "a batch of an epoch to come": answer(10, batch(10, epoch=5)),
    "a batch of an epoch before the last": answer(10, batch(10, epoch=2)),
    "batches that overlap": answer(10, batch(10), batch(11)),
    "a batch at the end of all offsets": answer(10, batch(OFFSET_MAX)),
    "to begin behind what is committed": answer(10, hw=6, start=7),
    "to begin at the end of all offsets": answer(10, hw=OFFSET_MAX + 1, start=OFFSET_MAX + 1),
    "to have trimmed what it still has": trim(7),
    "to have trimmed up to the end of all offsets": trim(OFFSET_MAX + 1),
    "an end that does not diverge": diverging(3, 11),
    "an end before all": diverging(3, -1),
    "an end of no epoch": diverging(-5, 3),
}


def state_of(made: PartitionReplica) -> tuple[int, int, int, object]:
    return made.log_start, made.log_end, made.high_watermark, made.leader_epochs


def of_kind(effects: Sequence[Effect], kind: type[Effect]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, kind)]


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_leader_that_claims_the_impossible_is_noted_and_its_answer_dropped(claim: str) -> None:
    follower = following()
    before = state_of(follower)
    effects = follower.step(0.0, CLAIMS[claim])
    assert [type(effect) for effect in effects] == [RefusePeer]
    assert state_of(follower) == before
    assert follower.deadline < 9.0, "it asks again"


@pytest.mark.parametrize(
    "claimed",
    [answer(0, batch(-5, 10), hw=0), answer(0, batch(0, epoch=NO_EPOCH), hw=0)],
    ids=["a batch before the first offset", "a batch of no epoch"],
)
def test_an_empty_log_takes_nothing_that_no_log_has(claimed: FetchAnswered) -> None:
    """Its store would refuse the batch, and end the broker."""
    follower = replica(recovered=RecoveredReplica(0, 0, 0, 0, ()))
    follower.step(0.0, PartitionStateChanged(attrs.evolve(STATE, leader=2)))
    assert [type(effect) for effect in follower.step(0.0, claimed)] == [RefusePeer]
    assert state_of(follower) == (0, 0, 0, ())


def test_a_high_watermark_above_the_own_log_counts_up_to_its_end() -> None:
    follower = following()
    follower.step(0.0, answer(10, hw=OFFSET_MAX))
    assert follower.high_watermark == 10


def test_an_error_that_is_none_of_the_protocol_is_one_of_the_leader() -> None:
    """Else the partition would wait without end for an answer that has come."""
    assert known_error(7777) is KafkaErrorCode.UNKNOWN_SERVER_ERROR
    assert known_error(6) is KafkaErrorCode.NOT_LEADER_OR_FOLLOWER


# ---------------------------------------------------------------- of a follower


@pytest.mark.parametrize(
    "claimed",
    [
        fetch(2, 13, last=4),
        fetch(2, 2**62, last=4),
        fetch(2, 13, last=NO_EPOCH),
        fetch(2, 10, last=2**31 - 1),
        fetch(2, 10, epoch=5),
        fetch(9, 10),
    ],
    ids=["beyond the end", "far beyond", "beyond without an epoch", "an epoch to come", "a later leader", "no replica"],
)
def test_a_follower_that_claims_what_is_not_there_acknowledges_nothing(claimed: FollowerFetch) -> None:
    leader = leading(PartitionConfig(min_insync_replicas=2), isr=(1, 2), replicas=(1, 2))
    leader.step(0.0, Produce(7, -1, BATCH, 5.0))
    before = leader.high_watermark
    effects = leader.step(0.0, claimed)
    assert [type(effect) for effect in effects] == [AnswerFetch]
    assert leader.high_watermark == before


def test_a_follower_with_an_epoch_that_never_was_stops_no_change_of_the_others() -> None:
    leader = leading()
    leader.step(0.0, fetch(2, 10, broker_epoch=2**62))
    leader.step(40.0, fetch(2, 10, broker_epoch=2**62))
    (asked,) = of_kind(leader.step(60.0, TimePassed()), SendAlterPartition)
    assert isinstance(asked, SendAlterPartition)
    assert asked.isr == ((1, 11), (2, 12))
