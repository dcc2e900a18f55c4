"""The placement of the replicas of new partitions."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_compat.controller.placement import SeededDraws, place
from kafka_compat.controller.refusal import Refused
from kafka_compat.model import BrokerRegistration
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.examples import examples

SEEDS = range(40)


def broker(number: int, rack: str | None = None, *, fenced: bool = False, leaving: bool = False) -> BrokerRegistration:
    return BrokerRegistration(number, number, bytes(16), "h", 1, rack, fenced, leaving)


RACKS = [broker(number, "abc"[number % 3]) for number in range(1, 10)]


def test_the_draws_from_a_seed_never_change() -> None:
    # Brokers of different releases have to draw the same; these are the numbers that others publish for this seed.
    draws = SeededDraws(1234567)
    assert [draws.below(1000) for _ in range(6)] == [317, 973, 423, 431, 821, 54]


def test_a_placement_from_a_seed_never_changes() -> None:
    assert place(RACKS[:5], 4, 3, seed=7) == [(4, 5, 3), (2, 3, 1), (3, 4, 5), (1, 2, 3)]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_replicas_of_a_partition_lie_on_different_brokers_and_as_many_racks_as_possible(seed: int) -> None:
    rack_of = {each.id: each.rack for each in RACKS}
    for replicas in place(RACKS, 20, 5, seed):
        assert len(set(replicas)) == 5
        assert len({rack_of[replica] for replica in replicas[:3]}) == 3
        assert max(Counter(rack_of[replica] for replica in replicas).values()) <= 2


@pytest.mark.parametrize("seed", SEEDS)
def test_as_many_partitions_as_brokers_are_led_by_each_broker_once(seed: int) -> None:
    without_racks = [broker(number) for number in range(1, 6)]
    assert sorted(replicas[0] for replicas in place(without_racks, 5, 3, seed)) == [1, 2, 3, 4, 5]
    assert Counter(replica for replicas in place(without_racks, 5, 3, seed) for replica in replicas) == dict.fromkeys(
        range(1, 6), 3
    )


def test_different_seeds_begin_at_different_brokers() -> None:
    assert {place(RACKS, 1, 1, seed)[0][0] for seed in SEEDS} >= set(range(1, 9))


def test_after_a_round_the_sets_of_replicas_change() -> None:
    sets = {frozenset(replicas) for replicas in place([broker(number) for number in range(6)], 60, 2, 1)}
    assert len(sets) > 6


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fenced_broker_never_leads_and_comes_last(seed: int) -> None:
    brokers = [broker(1, fenced=True), broker(2), broker(3), broker(4, fenced=True), broker(5)]
    for replicas in place(brokers, 12, 4, seed):
        assert replicas[0] not in (1, 4)
        assert {2, 3, 5} <= set(replicas)
    for replicas in place(brokers, 12, 3, seed):
        assert set(replicas) == {2, 3, 5}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rack_whose_brokers_are_all_fenced_does_not_lead(seed: int) -> None:
    brokers = [broker(1, "a", fenced=True), broker(2, "b"), broker(3, "c")]
    for replicas in place(brokers, 7, 3, seed):
        assert replicas[0] != 1
        assert set(replicas) == {1, 2, 3}


@pytest.mark.parametrize(
    ("brokers", "factor", "text"),
    [
        ([broker(1), broker(2)], 3, "only 2 broker"),
        ([broker(1), broker(2, leaving=True)], 2, "only 1 broker"),
        ([broker(1, fenced=True)], 1, "All brokers are currently fenced"),
        ([], 1, "only 0 broker"),
        ([broker(1)], 0, "must be positive"),
    ],
)
def test_a_replication_factor_out_of_reach_is_refused(
    brokers: list[BrokerRegistration], factor: int, text: str
) -> None:
    with pytest.raises(Refused, match=text) as caught:
        place(brokers, 1, factor, 0)
    assert caught.value.code is KafkaErrorCode.INVALID_REPLICATION_FACTOR


def test_new_partitions_of_a_topic_go_on_where_the_last_one_was() -> None:
    brokers = [broker(number) for number in range(4)]
    for seed in SEEDS:
        ((first, second),) = place(brokers, 1, 2, seed, existing=[(0, 1), (1, 2)])
        assert (first, second) == (2, 3)


def test_new_partitions_can_follow_partitions_on_brokers_that_are_gone() -> None:
    brokers = [broker(1, "a"), broker(2, "b", fenced=True), broker(3, "b")]
    for seed in SEEDS:
        assert {*place(brokers, 1, 2, seed, existing=[(2, 9)])[0]} == {1, 3}
        assert {*place(brokers, 1, 2, seed, existing=[(9, 8)])[0]} == {1, 3}


@st.composite
def clusters(draw: st.DrawFn) -> list[BrokerRegistration]:
    count = draw(st.integers(1, 8))
    racks = st.sampled_from([None, "a", "b"])
    return [
        broker(
            number, draw(racks), fenced=number > 1 and draw(st.booleans()), leaving=number > 1 and draw(st.booleans())
        )
        for number in range(1, count + 1)
    ]


@settings(max_examples=examples(36), deadline=None)
@given(clusters(), st.integers(1, 20), st.integers(0, 2**62), st.data())
def test_any_placement_that_is_possible_is_found(
    brokers: list[BrokerRegistration], partitions: int, seed: int, data: st.DataObject
) -> None:
    usable = {each.id for each in brokers if not each.shutting_down}
    unfenced = {each.id for each in brokers if each.active}
    factor = data.draw(st.integers(1, len(usable)))
    placed = place(brokers, partitions, factor, seed)
    assert placed == place(list(reversed(brokers)), partitions, factor, seed)
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= usable
        assert replicas[0] in unfenced
