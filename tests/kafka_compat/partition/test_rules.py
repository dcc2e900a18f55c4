"""The rules of leader epochs, producers, waits and byte counts, each alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_compat.model import BrokerRegistration
from kafka_compat.partition.acks import WaitingProduce, WaitingProduces
from kafka_compat.partition.byte_window import APPENDS_KEPT, ByteWindow
from kafka_compat.partition.follower_state import FollowerState
from kafka_compat.partition.isr import AlterOutcome, IsrState, may_join, outcome_of
from kafka_compat.partition.leader_epochs import UNKNOWN_END, LeaderEpochs
from kafka_compat.partition.model import (
    BatchInfo,
    EpochBegin,
    EpochEnd,
    PartitionConfig,
    ProducerSnapshot,
    SequenceRange,
)
from kafka_compat.partition.producer_state import ProducerStates, last_sequence, replay
from kafka_compat.protocol.error_codes import KafkaErrorCode

# ---------------------------------------------------------------- leader epochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochBegin(*entry) for entry in entries)


@pytest.mark.parametrize(
    ("asked", "end"),
    [
        pytest.param(1, EpochEnd(1, 0), id="before all: ends where the first begins"),
        pytest.param(2, EpochEnd(2, 5), id="ends where the next one begins"),
        pytest.param(4, EpochEnd(2, 5), id="unknown: the largest below"),
        pytest.param(5, EpochEnd(5, 9), id="the last ends at the log end"),
        pytest.param(8, EpochEnd(5, 9), id="above all: the last"),
        pytest.param(-1, UNKNOWN_END, id="no epoch"),
    ],
)
def test_the_end_of_an_epoch(asked: int, end: EpochEnd) -> None:
    assert epochs((2, 0), (5, 5)).end_of(asked, 9) == end


def test_an_empty_cache_knows_no_end() -> None:
    assert epochs().end_of(3, 9) == UNKNOWN_END


def test_an_epoch_that_wrote_nothing_leaves_when_the_next_begins() -> None:
    assert epochs((1, 0), (2, 7), (3, 7)).entries() == (EpochBegin(1, 0), EpochBegin(3, 7))


def test_a_truncation_to_the_log_end_removes_an_epoch_that_begins_there() -> None:
    cache = epochs((1, 0), (2, 7))
    cache.truncate(7)
    assert cache.entries() == (EpochBegin(1, 0),)
    assert cache.last == 1


def test_a_trim_moves_the_beginning_of_what_is_left() -> None:
    cache = epochs((1, 0), (2, 7), (3, 9))
    cache.trim(8)
    assert cache.entries() == (EpochBegin(2, 8), EpochBegin(3, 9))
    assert (cache.epoch_below(9), cache.epoch_below(10), cache.epoch_below(8)) == (2, 3, -1)


def test_epochs_do_not_fall() -> None:
    with pytest.raises(ValueError, match=r"^epoch 1 after 2$"):
        epochs((2, 0), (1, 5))


# ---------------------------------------------------------------- producers


def batch(sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0, at: int = 0) -> BatchInfo:
    return BatchInfo(count, 100, producer, epoch, sequence, at)


@pytest.mark.parametrize(("base", "count", "last"), [(0, 1, 0), (2**31 - 1, 1, 2**31 - 1), (2**31 - 2, 4, 1)])
def test_sequences_wrap(base: int, count: int, last: int) -> None:
    assert last_sequence(base, count) == last


@pytest.mark.parametrize(("epoch", "sequence"), [(-1, 0), (0, -1), (0, 2**31)])
def test_a_producer_id_needs_an_epoch_and_a_sequence(epoch: int, sequence: int) -> None:
    assert ProducerStates(9).check(batch(sequence, epoch=epoch)) is KafkaErrorCode.INVALID_RECORD


def test_a_duplicate_is_answered_with_what_was_appended() -> None:
    states = ProducerStates(9)
    states.record(batch(3, 2), 40, 0.0)
    assert states.check(batch(3, 2)) == SequenceRange(3, 4, 40, 42)


def test_the_producer_that_was_idle_longest_is_forgotten_first() -> None:
    states = ProducerStates(2)
    for producer in (1, 2, 1, 3):
        states.record(batch(0, producer=producer), 0, 0.0)
    assert [each.producer_id for each in states.snapshot(0.0)] == [1, 3]


def test_producers_expire_by_their_last_batch() -> None:
    states = ProducerStates(9)
    states.record(batch(0, producer=1), 0, 0.0)
    states.record(batch(0, producer=2), 1, 1.0)
    states.record(batch(1, producer=1), 2, 5.0)
    states.expire(11.0, 10.0)
    assert [each.producer_id for each in states.snapshot(11.0)] == [2, 1]
    states.expire(11.5, 10.0)
    assert [each.producer_id for each in states.snapshot(11.5)] == [1]


def test_a_snapshot_keeps_how_long_a_producer_was_idle() -> None:
    states, restored = ProducerStates(9), ProducerStates(9)
    states.record(batch(0), 0, 100.0)
    restored.restore(states.snapshot(106.0), 1.0)
    restored.expire(5.0, 10.0)
    assert len(restored) == 1
    restored.expire(5.1, 10.0)
    assert len(restored) == 0


def test_a_producer_of_whom_only_a_marker_is_known_begins_at_sequence_0() -> None:
    states = ProducerStates(9)
    states.restore([ProducerSnapshot(7, 1, ())], 0.0)
    assert states.check(batch(1, epoch=1)) is KafkaErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(batch(0, epoch=1)) is KafkaErrorCode.NONE


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 1), st.integers(1, 3)), max_size=20), st.integers(0, 20))
def test_a_replay_from_any_snapshot_gives_the_same_state(writes: list[tuple[int, int, int]], at: int) -> None:
    """A leader has the same state as a replica that restores a snapshot and records the batches behind it."""
    log: list[BatchInfo] = []
    epoch_of: dict[int, int] = {}
    next_of: dict[int, int] = {}
    end = 0
    for producer, rise, count in writes:
        if rise:
            epoch_of[producer], next_of[producer] = epoch_of.get(producer, 0) + 1, 0
        sequence = next_of.get(producer, 0)
        log.append(batch(sequence, count, producer=producer, epoch=epoch_of.get(producer, 0), at=end))
        next_of[producer] = sequence + count
        end += count
    leader = ProducerStates(9)
    for appended in log:
        assert leader.check(appended) is KafkaErrorCode.NONE
        leader.record(appended, appended.base_offset, 0.0)
    before, transactions = replay((), log[:at])
    assert replay(before, log[at:], transactions=transactions)[0] == leader.snapshot(0.0)


# ---------------------------------------------------------------- waits


def test_waiting_produces_are_reached_in_the_order_of_their_ends() -> None:
    waiting = WaitingProduces()
    for token, end in ((1, 5), (2, 8), (3, 5), (4, 9)):
        waiting.add(WaitingProduce(token, end - 1, end, 10.0))
    assert [each.token for each in waiting.take_reached(4)] == []
    assert [each.token for each in waiting.take_reached(8)] == [1, 3, 2]
    assert len(waiting) == 1


def test_expired_produces_leave_the_others_waiting() -> None:
    waiting = WaitingProduces()
    waiting.add(WaitingProduce(1, 0, 1, 5.0))
    waiting.add(WaitingProduce(2, 1, 2, 3.0))
    assert [each.token for each in waiting.take_expired(3.0)] == [2]
    assert [each.token for each in waiting.all()] == [1]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 300)), min_size=1, max_size=30), st.data())
def test_bytes_between_two_offsets(batches: list[tuple[int, int]], data: st.DataObject) -> None:
    window, ends = ByteWindow(100), [100]
    for count, size in batches:
        ends.append(ends[-1] + count)
        window.append(ends[-1], size)
    first = data.draw(st.integers(0, len(batches)))
    last = data.draw(st.integers(first, len(batches)))
    between = sum(size for _, size in batches[first:last])
    assert window.holds(ends[first], ends[last], between)
    assert not window.holds(ends[first], ends[last], between + 1)


def test_what_lies_before_the_window_counts_as_enough() -> None:
    window = ByteWindow(0)
    for end in range(1, 3 * APPENDS_KEPT):
        window.append(end, 1)
    assert window.holds(0, 3 * APPENDS_KEPT, 10**9)
    assert not window.holds(3 * APPENDS_KEPT - 5, 3 * APPENDS_KEPT, 10)


# ---------------------------------------------------------------- followers and ISR


def test_a_follower_is_caught_up_when_it_has_what_the_leader_had_at_its_last_fetch() -> None:
    follower = FollowerState(2)
    follower.record_fetch(0, 0, 12, leader_end=10, now=1.0)
    assert not follower.is_caught_up(10, 1.0, 30.0)
    follower.record_fetch(10, 0, 12, leader_end=15, now=5.0)
    assert follower.caught_up_at == 1.0
    follower.record_fetch(12, 0, 12, leader_end=20, now=9.0)
    assert follower.caught_up_at == 1.0, "it has less than the leader had at 5.0"
    follower.record_fetch(20, 0, 12, leader_end=20, now=12.0)
    assert follower.caught_up_at == 12.0


@pytest.mark.parametrize(
    ("log_end", "log_start", "high_watermark", "epoch_start", "joins"),
    [
        pytest.param(10, 3, 10, 5, True, id="has everything"),
        pytest.param(9, 3, 10, 5, False, id="below the high watermark"),
        pytest.param(10, 3, 5, 11, False, id="below the start of the leader epoch"),
        pytest.param(10, 2, 10, 5, False, id="begins before the leader's log"),
        pytest.param(-1, 3, 3, 0, False, id="not a fetch in this epoch"),
    ],
)
def test_who_may_join(log_end: int, log_start: int, high_watermark: int, epoch_start: int, joins: bool) -> None:
    follower = FollowerState(2, log_end=log_end, log_start=log_start, broker_epoch=12)
    registration = BrokerRegistration(2, 12, bytes(16), "", 1, fenced=False)
    assert (
        may_join(follower, registration, log_start=3, high_watermark=high_watermark, epoch_start=epoch_start) is joins
    )


@pytest.mark.parametrize(
    "registration",
    [
        pytest.param(None, id="unknown"),
        pytest.param(BrokerRegistration(2, 12, bytes(16), "", 1, fenced=True), id="fenced"),
        pytest.param(BrokerRegistration(2, 12, bytes(16), "", 1, fenced=False, shutting_down=True), id="leaving"),
        pytest.param(BrokerRegistration(2, 13, bytes(16), "", 1, fenced=False), id="another process"),
        pytest.param(BrokerRegistration(2, 11, bytes(16), "", 1, fenced=False), id="an earlier process"),
    ],
)
def test_who_is_not_eligible(registration: BrokerRegistration | None) -> None:
    follower = FollowerState(2, log_end=5, log_start=0, broker_epoch=12)
    assert not may_join(follower, registration, log_start=0, high_watermark=0, epoch_start=0)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (KafkaErrorCode.INELIGIBLE_REPLICA, AlterOutcome.ROLLED_BACK),
        (KafkaErrorCode.OPERATION_NOT_ATTEMPTED, AlterOutcome.ROLLED_BACK),
        (KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION, AlterOutcome.AWAITS_METADATA),
        (KafkaErrorCode.UNKNOWN_TOPIC_ID, AlterOutcome.AWAITS_METADATA),
        (KafkaErrorCode.FENCED_LEADER_EPOCH, AlterOutcome.AWAITS_METADATA),
        (KafkaErrorCode.INVALID_UPDATE_VERSION, AlterOutcome.AWAITS_METADATA),
        (KafkaErrorCode.INVALID_REQUEST, AlterOutcome.AWAITS_METADATA),
        (KafkaErrorCode.NEW_LEADER_ELECTED, AlterOutcome.AWAITS_METADATA),
        (KafkaErrorCode.NOT_CONTROLLER, AlterOutcome.UNKNOWN),
        (KafkaErrorCode.REQUEST_TIMED_OUT, AlterOutcome.UNKNOWN),
        (KafkaErrorCode.NETWORK_EXCEPTION, AlterOutcome.UNKNOWN),
        (KafkaErrorCode.STALE_BROKER_EPOCH, AlterOutcome.UNKNOWN),
        (KafkaErrorCode.UNKNOWN_SERVER_ERROR, AlterOutcome.UNKNOWN),
    ],
)
def test_what_an_error_of_the_controller_means(error: KafkaErrorCode, outcome: AlterOutcome) -> None:
    assert outcome_of(error) is outcome


def test_the_maximal_isr_is_the_committed_one_at_first() -> None:
    assert IsrState((1, 2), 1, recovering=False).maximal == {1, 2}


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    "settings",
    [
        {"min_insync_replicas": 0},
        {"replica_lag_time_s": 0.0},
        {"flush": "sometimes"},
        {"max_message_bytes": -1},
        {"producers_max": 0},
        {"fetch_backoff_s": 0.0},
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        PartitionConfig(**settings)  # type: ignore[arg-type]
