"""Recovery times on series made by hand."""

import attrs
import numpy as np
import pytest

from jepsen_like.cluster.observations import RoleSeen
from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.run.recovery_time import Writes, elections, recovery

S = 1_000_000_000


def a_fault(
    begun_s: float, ended_s: float, *, nodes: tuple[int, ...] = (1,), links: tuple[str, ...] = ()
) -> FaultRecord:
    return FaultRecord(
        id=1,
        kind="kill",
        target="leader",
        nodes=nodes,
        links=links,
        leader=1,
        term=1,
        intended_ns=int(begun_s * S),
        begun_ns=int(begun_s * S),
        injected_ns=int((begun_s + 0.01) * S),
        ended_ns=int(ended_s * S),
        observed={},
        healed={},
    )


def writes(*intervals_s: tuple[float, float]) -> Writes:
    both = np.array(intervals_s, dtype=np.float64).reshape(-1, 2) * S
    return Writes.of(both[:, 0].astype(np.int64), both[:, 1].astype(np.int64))


def test_recovery_is_the_first_write_invoked_after_the_fault() -> None:
    steady = [(t / 10, t / 10 + 0.02) for t in range(100)]
    outage = [(inv, ret) for inv, ret in steady if not 4.99 < inv < 5.7]
    found = recovery(a_fault(5.0, 8.0), writes(*outage))
    assert found.first_success_s == pytest.approx(0.72)
    assert found.longest_gap_s == pytest.approx(0.8)
    assert found.acked_before == 10


def test_a_write_under_way_at_the_fault_is_no_recovery() -> None:
    found = recovery(a_fault(5.0, 8.0), writes((4.0, 4.1), (4.995, 5.3), (5.005, 5.4), (6.0, 6.5), (9.0, 9.1)))
    assert found.first_success_s == pytest.approx(1.5)


def test_a_fault_that_nobody_feels_costs_one_latency() -> None:
    found = recovery(a_fault(5.0, 8.0), writes(*[(t / 100, t / 100 + 0.004) for t in range(1000)]))
    assert found.first_success_s == pytest.approx(0.024, abs=0.001)
    assert found.longest_gap_s == pytest.approx(0.01)


def test_recovery_that_comes_back_is_seen_as_the_longest_gap() -> None:
    found = recovery(a_fault(5.0, 8.0), writes((4.9, 5.0), (5.1, 5.2), (7.4, 7.5), (8.1, 8.2)))
    assert found.first_success_s == pytest.approx(0.2)
    assert found.longest_gap_s == pytest.approx(2.3)


def test_without_a_later_write_there_is_no_number() -> None:
    found = recovery(a_fault(5.0, 8.0), writes((1.0, 1.1), (4.0, 4.1)))
    assert (found.first_success_s, found.longest_gap_s, found.acked_before) == (None, None, 1)
    assert recovery(a_fault(5.0, 8.0), writes()).acked_before == 0


def test_a_fault_is_recovered_from_only_by_a_write_after_its_end() -> None:
    served_while_it_held = [(4.9, 5.0), (5.1, 5.2), (7.4, 7.5)]
    found = recovery(a_fault(5.0, 8.0), writes(*served_while_it_held))
    assert (found.first_success_s, found.has_recovered) == (0.2, False)
    assert recovery(a_fault(5.0, 8.0), writes(*served_while_it_held, (8.1, 8.2))).has_recovered
    assert not recovery(a_fault(5.0, 8.0), writes()).has_recovered


def test_an_election_takes_from_the_fault_that_made_it_necessary() -> None:
    roles = [
        RoleSeen(1, 0, "leader", 1),
        RoleSeen(2, int(5.4 * S), "leader", 2),
        RoleSeen(1, int(9.9 * S), "follower", 2),
    ]
    roles += [RoleSeen(3, int(30 * S), "leader", 3)]
    found = elections(roles, [a_fault(5.0, 8.0)])
    assert [(each.node, each.term, each.took_s) for each in found] == [(1, 1, None), (2, 2, 0.4), (3, 3, None)]


def test_an_election_that_had_to_wait_for_a_majority_takes_from_its_return() -> None:
    fault = attrs.evolve(a_fault(5.0, 8.0), stops_service=True)
    assert elections([RoleSeen(2, int(8.4 * S), "leader", 2)], [fault])[0].took_s == 0.4
    assert elections([RoleSeen(2, int(7.9 * S), "leader", 2)], [fault])[0].took_s is None


def test_a_fault_that_leaves_the_leader_alone_explains_no_election() -> None:
    roles = [RoleSeen(2, int(5.4 * S), "leader", 2)]
    assert elections(roles, [a_fault(5.0, 8.0, nodes=(3,))])[0].took_s is None
    assert elections(roles, [a_fault(5.0, 8.0, nodes=(3,), links=("3>1",))])[0].took_s == 0.4
