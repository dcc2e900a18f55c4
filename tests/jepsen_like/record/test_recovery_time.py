"""Recovery times on series made by hand."""

import attrs
import numpy as np
import pytest

from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.port.observations import RoleSeen
from jepsen_like.record.recovery_time import Writes, availability, elections, recovery, unbroken_s

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
        healed={str(node): "pid 77 state S" for node in nodes},
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


def test_a_fault_that_no_client_feels_costs_one_latency() -> None:
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


def test_down_is_every_time_without_an_acknowledged_write_that_is_long() -> None:
    steady = [(t / 100, t / 100 + 0.001) for t in range(1000) if not 200 <= t < 300 and not 700 <= t < 710]
    found = availability(writes(*steady), 0, 10 * S)
    assert found == {
        "share": pytest.approx(0.899),
        "down_s": pytest.approx(1.01),
        "longest_s": pytest.approx(1.01),
        "gap_s": 0.25,
    }


def test_a_load_that_writes_seldom_is_not_down_between_two_writes() -> None:
    seldom = [(t, t + 0.001) for t in range(100)]
    assert availability(writes(*seldom), 0, 100 * S)["down_s"] == 0.0
    assert availability(writes(*seldom), 0, 120 * S) == {
        "share": pytest.approx(0.8249, abs=1e-3),
        "down_s": pytest.approx(21, abs=0.1),
        "longest_s": pytest.approx(21, abs=0.1),
        "gap_s": 10.0,
    }


def test_a_load_without_a_write_was_down_all_the_time() -> None:
    assert availability(writes(), 5 * S, 9 * S) == {"share": 0.0, "down_s": 4.0, "longest_s": 4.0, "gap_s": 0.25}
    assert availability(writes(), 0, 0)["share"] is None


def test_the_time_that_any_fault_held_counts_once() -> None:
    faults = [a_fault(2, 5), a_fault(3, 4), a_fault(4, 6), a_fault(8, 12)]
    assert unbroken_s(1 * S, 10 * S, faults) == 3.0
    assert unbroken_s(3 * S, 5 * S, faults) == 0.0
