"""The plan of capacity: how many brokers the rule demands, and loads that are even before a zone is lost and after."""

from collections import Counter

import pytest

from jepsen_like.capacity.plan import (
    CapacityTrial,
    Limit,
    brokers_needed,
    even_sizes,
    order_sends,
    place_pairs,
    plan_trials,
)
from jepsen_like.port.zones import ZonePlan


@pytest.mark.parametrize(("needs", "zones", "brokers"), [(2, 2, 4), (4, 3, 6), (3, 4, 4), (6, 4, 8), (5, 3, 7.5)])
def test_so_many_brokers_leave_those_that_the_load_needs_when_a_zone_is_lost(
    needs: int, zones: int, brokers: float
) -> None:
    assert brokers_needed(needs, zones) == brokers
    assert brokers * (1 - 1 / zones) == pytest.approx(needs)


def test_for_each_number_of_zones_the_demanded_brokers_and_one_fewer_are_tried_and_uneven_ones_where_as_many_stand() -> (
    None
):
    trials = {trial.name: trial for trial in plan_trials([2, 3, 4])}
    assert list(trials) == ["2+2", "2+1", "2+2+2", "2+2+1", "4+1+1", "2+2+2+2", "2+2+2+1"]
    assert {name: trial.left - trial.needs for name, trial in trials.items() if trial.fits} == {
        "2+2": 0,
        "2+2+2": 0,
        "2+2+2+2": 0,
    }
    assert all(trial.left < trial.needs for trial in trials.values() if not trial.fits)


def test_a_majority_of_all_brokers_is_left_with_as_few_arbiters_as_can_be() -> None:
    for trial in plan_trials([2, 3, 4]):
        voters = trial.brokers + trial.arbiters
        assert 2 * (voters - trial.sizes[0]) > voters
        assert trial.arbiters == 0 or 2 * (voters - 1 - trial.sizes[0]) <= voters - 1


def test_arbiters_stand_in_the_last_zone_and_hold_nothing() -> None:
    trial = CapacityTrial(name="4+1+1", sizes=(4, 1, 1), needs=4, fits=False)
    assert trial.zones == "4+1+1+3"
    stand = ZonePlan.of(trial.zones).settle([tuple(range(1, 10))])
    assert Counter(trial.holders(stand).values()) == {"a": 4, "b": 1, "c": 1}


@pytest.mark.parametrize("sizes", [(2, 2), (2, 1), (2, 2, 2), (2, 2, 1), (4, 1, 1), (2, 2, 2, 1)])
def test_every_broker_leads_as_much_and_every_one_that_is_left_takes_over_as_much(sizes: tuple[int, ...]) -> None:
    zone_of: dict[int, str] = {}
    for zone, size in zip("abcd", sizes, strict=False):
        zone_of |= {len(zone_of) + 1 + number: zone for number in range(size)}
    pairs = place_pairs(zone_of)
    assert all(zone_of[leader] != zone_of[heir] for leader, heir in pairs)
    sends = [pairs[partition] for partition in order_sends(pairs)]
    assert len(set(Counter(leader for leader, _ in sends).values())) == 1
    taken_over = Counter(heir for leader, heir in sends if zone_of[leader] == "a")
    assert taken_over.keys() == {broker for broker, zone in zone_of.items() if zone != "a"}
    assert len(set(taken_over.values())) == 1


def test_leaders_have_their_messages_in_turn() -> None:
    pairs = place_pairs({1: "a", 2: "b", 3: "c"})
    leaders = [pairs[partition][0] for partition in order_sends(pairs)]
    assert all(set(leaders[at : at + 3]) == {1, 2, 3} for at in range(0, len(leaders), 3))


def test_the_narrower_of_two_bounds_limits_a_broker() -> None:
    assert Limit(requests_per_s=40).requests(100) == 40
    assert Limit(requests_per_s=40, bytes_per_s=2000).requests(100) == 20
    assert even_sizes(5, 3) == (2, 2, 1)
