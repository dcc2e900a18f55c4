"""The schedule is decided by the seed, and no seed spares the leader."""

import random
from collections import Counter
from collections.abc import Iterable

import attrs
import pytest

from jepsen_like.nemesis.schedule import Fault, schedule
from jepsen_like.nemesis.table import KINDS, kinds_named
from jepsen_like.nemesis.targets import Lane, ResolvedTarget, Target

FEW = kinds_named(["kill", "pause", "partition"])
EVERY = tuple(KINDS.values())
SEEDS = range(200)


def make_kind(name: str, lane: Lane, *, is_alone: bool = False) -> "Drawn":
    return Drawn(name, lane, (Target.ONE,), is_alone, takes_down=True)


@attrs.frozen
class Drawn:
    """A kind as far as a schedule knows it."""

    name: str
    lane: Lane
    targets: tuple[Target, ...]
    is_alone: bool
    takes_down: bool
    hits_first: Target = Target.LEADER


def slots(faults: Iterable[Fault]) -> list[Fault]:
    return [fault for fault in faults if not fault.overlaps]


def test_a_schedule_is_a_function_of_its_seed() -> None:
    random.seed(1)
    first = [schedule(seed, FEW, 120) for seed in SEEDS]
    random.seed(2)
    assert [schedule(seed, FEW, 120) for seed in SEEDS] == first
    assert len(set(first)) == len(SEEDS), "two seeds give the same faults"


@pytest.mark.parametrize(("duration_s", "hits"), [(10, 1), (30, 1), (60, 1), (120, 3), (240, 6)])
def test_every_seed_hits_the_leader_with_every_kind(duration_s: float, hits: int) -> None:
    for seed in SEEDS:
        counts = Counter(fault.kind for fault in schedule(seed, FEW, duration_s) if fault.target is Target.LEADER)
        assert all(counts[kind.name] >= hits for kind in FEW), seed


def test_many_kinds_leave_time_for_other_targets_than_the_leader() -> None:
    many = [make_kind(f"kind {number}", list(Lane)[number % 2]) for number in range(17)]
    for seed in SEEDS:
        faults = slots(schedule(seed, many, 300))
        counts = Counter(fault.kind for fault in faults if fault.target is Target.LEADER)
        assert all(counts[kind.name] >= 2 for kind in many)
        assert sum(fault.target is Target.ONE for fault in faults) >= len(faults) // 3


def test_a_run_cut_short_has_hit_the_leader_with_every_kind_first() -> None:
    for seed in SEEDS:
        opening = slots(schedule(seed, EVERY, 120))[: len(EVERY)]
        assert {fault.kind for fault in opening} == set(KINDS)
        assert all(fault.target is KINDS[fault.kind].hits_first for fault in opening)


@pytest.mark.parametrize("duration_s", [10, 30, 120])
def test_every_fault_ends_before_the_next_begins_and_before_the_run_ends(duration_s: float) -> None:
    for seed in SEEDS:
        faults = slots(schedule(seed, FEW, duration_s))
        begins = [fault.at_s for fault in faults[1:]] + [duration_s]
        assert faults[0].at_s >= 0.1 * min(duration_s, 30)
        for fault, next_begin in zip(faults, begins, strict=True):
            assert fault.at_s + fault.hold_s + 0.5 < next_begin, (seed, fault)


def test_a_second_fault_is_of_the_other_lane_and_ends_before_the_first() -> None:
    seen = 0
    for seed in SEEDS:
        by_id = {fault.id: fault for fault in schedule(seed, FEW, 120)}
        assert list(by_id) == list(range(1, len(by_id) + 1))
        assert [fault.at_s for fault in by_id.values()] == sorted(fault.at_s for fault in by_id.values())
        overlapping = [fault for fault in by_id.values() if fault.overlaps]
        assert len({fault.overlaps for fault in overlapping}) == len(overlapping), "three faults at once"
        for fault in overlapping:
            first = by_id[fault.overlaps]
            assert KINDS[fault.kind].lane is not KINDS[first.kind].lane
            assert first.at_s < fault.at_s
            assert fault.at_s + fault.hold_s <= first.at_s + first.hold_s + 0.002
        seen += len(overlapping)
    assert seen > 3 * len(SEEDS)


def test_nothing_is_broken_together_with_a_kind_that_has_to_be_alone() -> None:
    kinds = [make_kind("alone", Lane.MACHINE, is_alone=True), make_kind("cut", Lane.NETWORK)]
    assert not any(fault.overlaps for seed in SEEDS for fault in schedule(seed, kinds, 120))


def test_short_slots_hold_one_fault_only() -> None:
    assert not any(fault.overlaps for seed in SEEDS for fault in schedule(seed, FEW, 10))


def test_long_runs_meet_every_target() -> None:
    seen = {(fault.kind, fault.target) for seed in SEEDS for fault in schedule(seed, EVERY, 240)}
    assert seen == {(kind.name, target) for kind in EVERY for target in (*kind.targets, kind.hits_first)}


def test_a_run_too_short_for_its_faults_is_refused() -> None:
    with pytest.raises(ValueError, match="3 kinds of faults need at least 9 s"):
        schedule(1, FEW, 5)
    assert schedule(1, FEW, 9)


def test_no_kinds_means_no_faults() -> None:
    assert schedule(1, (), 0.1) == ()


def resolve_target(kind: str, target: Target, nodes: Iterable[int], *, leader: int, seed: int = 1) -> ResolvedTarget:
    return KINDS[kind].select(random.Random(seed), target, tuple(nodes), leader)


@pytest.mark.parametrize(
    ("target", "count"),
    [(Target.LEADER, 1), (Target.ONE, 1), (Target.MINORITY, 2), (Target.MAJORITY, 3), (Target.ALL, 5)],
)
def test_a_process_target_is_that_many_of_five_nodes(target: Target, count: int) -> None:
    for seed in SEEDS:
        found = resolve_target("kill", target, range(1, 6), leader=4, seed=seed)
        assert len(set(found.nodes)) == count
        assert found.pairs == ()
        assert KINDS["kill"].stops_service(len(found.nodes), 2) == (target in (Target.MAJORITY, Target.ALL))
    assert resolve_target("kill", Target.LEADER, range(1, 6), leader=4).nodes == (4,)


def test_isolation_cuts_the_leader_from_all_others_both_ways() -> None:
    found = [resolve_target("partition", Target.LEADER, [1, 2, 3], leader=2, seed=seed) for seed in SEEDS]
    assert {frozenset(each.pairs) for each in found} == {frozenset({(2, 1), (1, 2), (2, 3), (3, 2)})}
    assert {each.clients for each in found} == {(), (2,)}


def test_two_nodes_have_no_bridge_and_are_cut_in_halves() -> None:
    assert set(resolve_target("partition", Target.BRIDGE, [1, 2], leader=1).pairs) == {(1, 2), (2, 1)}


def test_one_way_cuts_leave_the_other_way_open() -> None:
    seen = {resolve_target("partition", Target.ONE_WAY, [1, 2, 3], leader=2, seed=seed).pairs for seed in SEEDS}
    assert seen == {((2, 1), (2, 3)), ((1, 2), (3, 2))}


@pytest.mark.parametrize(("target", "cut_pairs"), [(Target.HALVES, 2 * 2 * 3), (Target.BRIDGE, 2 * 2 * 2)])
def test_groups_are_cut_from_each_other_and_a_bridge_from_none(target: Target, cut_pairs: int) -> None:
    for seed in SEEDS:
        found = resolve_target("partition", target, range(1, 6), leader=1, seed=seed)
        cuts = set(found.pairs)
        assert len(cuts) == cut_pairs
        assert cuts == {(receiver, sender) for sender, receiver in cuts}
        if target is Target.BRIDGE:
            assert not any(found.nodes[0] in pair for pair in cuts)


@pytest.mark.parametrize("count", [5, 7, 9])
def test_in_a_ring_everybody_sees_a_majority_and_no_two_the_same(count: int) -> None:
    nodes = range(1, count + 1)
    for seed in SEEDS:
        cuts = set(resolve_target("partition", Target.RING, nodes, leader=1, seed=seed).pairs)
        assert cuts == {(receiver, sender) for sender, receiver in cuts}
        sees = {frozenset(other for other in nodes if (node, other) not in cuts) for node in nodes}
        assert len(sees) == count
        assert all(count // 2 + 1 <= len(each) < count for each in sees)
