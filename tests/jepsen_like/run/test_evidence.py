"""A run that does not prove what it did is undecided: faults without effect, histories that forget or cannot be."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from jepsen_like.cluster.observations import RoleSeen
from jepsen_like.cluster.wires import CLEAR, CUT, Condition, Evidence
from jepsen_like.history.ops import NEVER, Outcome
from jepsen_like.run import evidence
from jepsen_like.run.results import Attempts, merged
from tests.jepsen_like.run.test_recovery_time import a_fault
from tests.jepsen_like.run.test_results import QUIET, S, a_verdict, attempts

NODES = (1, 2, 3)
LED = (RoleSeen(1, 1 * S, "leader", 1),)
FULL_CUT = ("1>2", "2>1", "1>3", "3>1")


def doubts(kind: str = "kill", *, observed: Mapping[str, str], **changes: Any) -> list[str]:
    fault = attrs.evolve(a_fault(5, 8), kind=kind, observed=observed, **changes)
    return evidence.of_faults([fault], LED, NODES, [kind])


def cut(*ways: str) -> dict[str, str]:
    return {way: f"cut {way}: 0 bytes passed in 2.0 s, 310 bytes waiting" for way in ways}


@pytest.mark.parametrize(
    ("kind", "proof", "lie"),
    [
        ("kill", "pid 77 dead", "pid 77 state S"),
        ("restart", "pid 77 dead", "pid 77 state R"),
        ("pause", "pid 77 state T", "pid 77 state R"),
        ("power", "pid 77 dead, its files held 1,234 bytes", "pid 77 state S, its files held 1,234 bytes"),
    ],
)
def test_a_process_fault_is_proved_by_the_kernel(kind: str, proof: str, lie: str) -> None:
    assert doubts(kind, observed={"1": proof}) == []
    assert lie in doubts(kind, observed={"1": lie})[0]
    assert "nothing was seen" in doubts(kind, observed={})[0]


def test_a_partition_is_proved_way_by_way() -> None:
    assert doubts("partition", observed=cut(*FULL_CUT), links=FULL_CUT) == []
    leak = {**cut(*FULL_CUT), "1>3": "cut 1>3: 12 bytes passed in 2.0 s"}
    assert "1>3 was not cut" in doubts("partition", observed=leak, links=FULL_CUT)[0]
    forgets = {**cut(*FULL_CUT), "1>3": "cut 1>3: 0 bytes passed in 2.0 s, 12 bytes swallowed"}
    assert "1>3 was not cut" in doubts("partition", observed=forgets, links=FULL_CUT)[0]
    assert doubts("partition", observed={}, links=()) == ["fault 1 (partition leader): it cut no way"]
    half = ("1>2", "1>3")
    assert "2>1 was open" in doubts("partition", observed=cut(*half), links=half)[0]
    assert (
        doubts("partition", observed=cut(*half), links=half, target="one-way", id=2)[0] == "no partition hit a leader"
    )
    around_one = ("1>2", "2>1")
    assert "1>3 was open" in doubts("partition", observed=cut(*around_one), links=around_one)[0]


@pytest.mark.parametrize(
    ("target", "nodes", "is_hit"),
    [
        ("leader", (1,), True),
        ("leader", (2,), False),
        ("one", (2,), True),
        ("one", (), False),
        ("minority", (3,), True),
        ("minority", (2, 3), False),
        ("majority", (2, 3), True),
        ("majority", (2,), False),
        ("all", (1, 2, 3), True),
        ("all", (1, 2), False),
    ],
)
def test_a_fault_hits_what_its_target_means(target: str, nodes: tuple[int, ...], is_hit: bool) -> None:
    fault = attrs.evolve(a_fault(5, 8), target=target, nodes=nodes, observed={str(n): "pid 7 dead" for n in nodes})
    assert (evidence.of_faults([fault], LED, NODES, []) == []) is is_hit


def test_a_leader_is_one_by_its_own_word() -> None:
    fault = attrs.evolve(a_fault(5, 8), observed={"1": "pid 7 dead"})
    for roles in ((), (RoleSeen(2, 1, "leader", 1),), (RoleSeen(1, 6 * S, "leader", 1),)):
        assert "never said that it led" in evidence.of_faults([fault], roles, NODES, [])[0]
    assert evidence.of_faults([fault], LED, NODES, ["kill"]) == []
    assert evidence.of_faults([], LED, NODES, ["kill", "partition"]) == [
        "no kill hit a leader",
        "no partition hit a leader",
    ]


@pytest.mark.parametrize(
    ("kind", "condition"),
    [
        ("flapping", CUT),
        ("slow", Condition(delay_s=0.01, jitter_s=0.02)),
        ("throttle", Condition(bytes_per_s=50_000)),
        ("half-open", Condition(is_swallowing=True, refuses=True)),
        ("reset", CLEAR),
        ("loss", Condition(loss=0.1)),
        ("duplicate", Condition(duplicate=0.1)),
        ("reorder", Condition(reorder=0.1, delay_s=0.01)),
        ("corrupt", Condition(corrupt=0.01)),
    ],
)
def test_a_fault_of_links_is_told_by_every_way_that_it_concerns(kind: str, condition: Condition) -> None:
    told = {way: str(Evidence(way, condition, 2.0, 0)) for way in FULL_CUT}
    assert doubts(kind, observed=told, links=FULL_CUT) == []
    assert "2>1 was as always" in doubts(kind, observed={**told, "2>1": "clear 2>1: 9 bytes"}, links=FULL_CUT)[0]
    assert "nothing was seen of it" in doubts(kind, observed={}, links=FULL_CUT)[0]
    assert doubts(kind, observed=told, links=()) == [f"fault 1 ({kind} leader): it concerned no way"]


def test_other_kinds_are_not_judged_here() -> None:
    assert doubts("clock-jump", observed={}) == []


def a_history(*operations: tuple[int, Outcome, int, int]) -> Attempts:
    process, outcome, t_inv, t_ret = (np.array(column, dtype=np.int64) for column in zip(*operations, strict=True))
    nothing = np.zeros(len(process), np.int64)
    return Attempts(nothing, outcome, t_inv, t_ret, process, nothing + 1)


def test_a_process_does_one_thing_at_a_time() -> None:
    fine = a_history((1, Outcome.OK, 0, 5), (2, Outcome.OK, 3, 4), (1, Outcome.FAIL, 5, 9), (2, Outcome.INFO, 4, NEVER))
    assert evidence.of_history(fine, {Outcome.OK: 2, Outcome.FAIL: 1, Outcome.INFO: 1}) == []
    both = a_history((1, Outcome.OK, 0, 5), (1, Outcome.OK, 4, 6))
    assert "process 1 began" in evidence.of_history(both, {})[0]
    after = a_history((3, Outcome.INFO, 0, NEVER), (3, Outcome.OK, 4, 6))
    assert "process 3 began" in evidence.of_history(after, {})[0]
    backwards = a_history((4, Outcome.OK, 6, 5))
    assert "process 4 ended" in evidence.of_history(backwards, {})[0]


def test_every_operation_that_ended_is_in_the_history() -> None:
    found = a_history((1, Outcome.OK, 0, 5), (1, Outcome.OK, 6, 7))
    assert evidence.of_history(found, {Outcome.OK: 3, Outcome.FAIL: 0}) == [
        "the history holds 2 operations that ended as ok, not 3"
    ]


def test_a_run_that_proves_nothing_is_undecided_and_a_broken_promise_stays_one(tmp_path: Path) -> None:
    found = attempts(tmp_path)
    idle = attrs.evolve(QUIET, faults=(attrs.evolve(a_fault(101, 103), observed={"1": "pid 9 state S"}),), nodes=NODES)
    results = merged(a_verdict(), found, idle)
    assert results["valid"] is None
    assert results["checks"]["evidence"]["valid"] is None
    assert any("n1 was not gone" in reason for reason in results["unknown"])
    assert merged(a_verdict(stale=1), found, idle)["valid"] is False


def test_a_run_that_was_cut_short_need_not_have_had_every_fault(tmp_path: Path) -> None:
    short = attrs.evolve(QUIET, kinds=("kill",), is_interrupted=True)
    assert merged(a_verdict(), attempts(tmp_path), short)["valid"] is True
