"""The schedule is decided by the seed, and no seed spares the leader."""

import random
from collections import Counter

import pytest

from jepsen_like.nemesis.schedule import Fault, FaultKind, Target, schedule, select

KINDS = (FaultKind.KILL, FaultKind.PAUSE, FaultKind.PARTITION)
SEEDS = range(200)


def test_a_schedule_is_a_function_of_its_seed() -> None:
    random.seed(1)
    first = [schedule(seed, KINDS, 120) for seed in SEEDS]
    random.seed(2)
    assert [schedule(seed, KINDS, 120) for seed in SEEDS] == first
    assert len(set(first)) == len(SEEDS), "two seeds give the same faults"


@pytest.mark.parametrize(("duration_s", "hits"), [(10, 1), (30, 1), (60, 1), (120, 3), (240, 6)])
def test_every_seed_hits_the_leader_with_every_kind(duration_s: float, hits: int) -> None:
    for seed in SEEDS:
        counts = Counter(fault.kind for fault in schedule(seed, KINDS, duration_s) if fault.target is Target.LEADER)
        assert all(counts[kind] >= hits for kind in KINDS), seed


def test_a_run_cut_short_has_hit_the_leader_with_every_kind_first() -> None:
    for seed in SEEDS:
        opening = schedule(seed, KINDS, 120)[: len(KINDS)]
        assert {fault.kind for fault in opening} == set(KINDS)
        assert {fault.target for fault in opening} == {Target.LEADER}


@pytest.mark.parametrize("duration_s", [10, 30, 120])
def test_every_fault_ends_before_the_next_begins_and_before_the_run_ends(duration_s: float) -> None:
    for seed in SEEDS:
        faults = schedule(seed, KINDS, duration_s)
        begins = [fault.at_s for fault in faults[1:]] + [duration_s]
        assert faults[0].at_s >= 0.1 * min(duration_s, 30)
        for fault, next_begin in zip(faults, begins, strict=True):
            assert fault.at_s + fault.hold_s + 0.5 < next_begin, (seed, fault)


def test_long_runs_meet_every_target() -> None:
    seen = {(fault.kind, fault.target) for seed in SEEDS for fault in schedule(seed, tuple(FaultKind), 120)}
    assert len(seen) == 4 + 4 + 3 + 2 + len(FaultKind)


def test_a_run_too_short_for_its_faults_is_refused() -> None:
    with pytest.raises(ValueError, match="3 kinds of faults need at least 9 s"):
        schedule(1, KINDS, 5)
    assert schedule(1, KINDS, 9)


def test_no_kinds_means_no_faults() -> None:
    assert schedule(1, (), 0.1) == ()


def fault(kind: FaultKind, target: Target, seed: int = 1) -> Fault:
    return Fault(1, kind, target, 0.0, 1.0, seed)


@pytest.mark.parametrize(
    ("target", "count"),
    [(Target.LEADER, 1), (Target.ONE, 1), (Target.MINORITY, 2), (Target.MAJORITY, 3), (Target.ALL, 5)],
)
def test_a_process_target_is_that_many_of_five_nodes(target: Target, count: int) -> None:
    for seed in SEEDS:
        blow = select(fault(FaultKind.KILL, target, seed), range(1, 6), leader=4)
        assert len(set(blow.nodes)) == count
        assert blow.cuts == ()
    assert select(fault(FaultKind.KILL, Target.LEADER), range(1, 6), leader=4).nodes == (4,)


def test_isolation_cuts_the_leader_from_all_others_both_ways() -> None:
    blows = [select(fault(FaultKind.PARTITION, Target.LEADER, seed), [1, 2, 3], leader=2) for seed in SEEDS]
    assert {frozenset(blow.cuts) for blow in blows} == {frozenset({(2, 1), (1, 2), (2, 3), (3, 2)})}
    assert {blow.clients_cut for blow in blows} == {(), (2,)}


def test_two_nodes_have_no_bridge_and_are_cut_in_halves() -> None:
    blow = select(fault(FaultKind.PARTITION, Target.BRIDGE), [1, 2], leader=1)
    assert set(blow.cuts) == {(1, 2), (2, 1)}


def test_one_way_cuts_leave_the_other_way_open() -> None:
    seen = {select(fault(FaultKind.PARTITION, Target.ONE_WAY, seed), [1, 2, 3], leader=2).cuts for seed in SEEDS}
    assert seen == {((2, 1), (2, 3)), ((1, 2), (3, 2))}


@pytest.mark.parametrize(("target", "cut_pairs"), [(Target.HALVES, 2 * 2 * 3), (Target.BRIDGE, 2 * 2 * 2)])
def test_groups_are_cut_from_each_other_and_a_bridge_from_nobody(target: Target, cut_pairs: int) -> None:
    for seed in SEEDS:
        blow = select(fault(FaultKind.PARTITION, target, seed), range(1, 6), leader=1)
        cuts = set(blow.cuts)
        assert len(cuts) == cut_pairs
        assert cuts == {(receiver, sender) for sender, receiver in cuts}
        if target is Target.BRIDGE:
            assert not any(blow.nodes[0] in pair for pair in cuts)
