"""A run that does not prove what it did is undecided: faults without effect, histories that forget or cannot be."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from jepsen_like.history.ops import NEVER, Outcome
from jepsen_like.nemesis.contents import CONTENT_KINDS
from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.nemesis.table import KINDS
from jepsen_like.port.observations import RoleSeen
from jepsen_like.port.wires import CLEAR, CUT, Condition, Evidence
from jepsen_like.record import evidence
from jepsen_like.record.attempts import Attempts
from jepsen_like.run.results import Observed, build_results
from tests.jepsen_like.record.test_recovery_time import a_fault, writes
from tests.jepsen_like.run.test_results import QUIET, S, a_verdict, attempts

NODES = (1, 2, 3)
LED = (RoleSeen(1, 1 * S, "leader", 1),)
FULL_CUT = ("1>2", "2>1", "1>3", "3>1")


def results_of(verdict: Mapping[str, Any], found: Attempts, observed: Observed) -> dict[str, Any]:
    """results.json of a run."""
    return build_results(verdict, found, observed).as_json()


def doubts(kind: str = "kill", *, observed: Mapping[str, str], **changes: Any) -> list[str]:
    whole = {"1": "pid 78 state S", **{way: f"carried {way} and back" for way in changes.get("links", ())}}
    fault = attrs.evolve(a_fault(5, 8), **{"kind": kind, "observed": observed, "healed": whole, **changes})
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


@pytest.mark.parametrize("kind", ["kill", "partition"])
def test_a_fault_by_a_command_is_proved_by_the_network(kind: str) -> None:
    gone, back = {"1": "takes no part: silent at h:1: no answer"}, {"1": "takes part"}
    assert doubts(kind, observed=gone, healed=back) == []
    assert "n1 does not run" in doubts(kind, observed=gone, healed=gone)[0]
    both = {**gone, "2": "takes part"}
    of_two = doubts(kind, observed=both, healed={**back, "2": "takes part"}, nodes=(1, 2), target="majority")
    assert "n2 took part all the time" in of_two[0]


@pytest.mark.parametrize("kind", CONTENT_KINDS)
def test_a_touched_disk_is_proved_by_what_it_holds_afterwards(kind: str) -> None:
    def find_doubts(seen: str, state: str = "pid 77 dead") -> list[str]:
        return doubts(kind, observed={"1": f"{state}; copy: logs/log-0 removed", "disk of 1": seen}, harmed=(1,))

    assert find_doubts("n1 seen from outside: gone: logs/log-0/00.log") == []
    assert find_doubts("n1 seen from outside: changed: logs/log-0/00.log") == []
    (as_before,) = find_doubts("n1 seen from outside: as before")
    assert "the disk of n1 was not touched" in as_before
    (running,) = find_doubts("n1 seen from outside: gone: logs/log-0/00.log", "pid 77 state S")
    assert "n1 was not gone: pid 77 state S" in running
    (bare,) = doubts(kind, observed={"1": "pid 77 dead"})
    assert bare.endswith("it touched no disk")


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
    fault = attrs.evolve(
        a_fault(5, 8, nodes=nodes), target=target, observed={str(node): "pid 7 dead" for node in nodes}
    )
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


def test_what_hits_all_nodes_hits_a_leader() -> None:
    died = {str(node): "pid 7 dead" for node in NODES}
    fault = attrs.evolve(a_fault(5, 8, nodes=tuple(NODES)), target="all", observed=died)
    assert evidence.of_faults([fault], LED, NODES, ["kill"]) == []


def test_a_leader_is_one_of_the_scope_that_the_fault_is_about() -> None:
    fault = attrs.evolve(a_fault(5, 8), observed={"1": "pid 7 dead"}, scope="orders/0")
    leads = RoleSeen(fault.leader, 0, "leader", fault.term, "orders/0")
    assert evidence.of_faults([fault], [leads], NODES, []) == []
    elsewhere = attrs.evolve(leads, scope="orders/1")
    assert "never said that it led" in evidence.of_faults([fault], [elsewhere], NODES, [])[0]


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
    results = results_of(a_verdict(), found, idle)
    assert results["valid"] is None
    assert results["checks"]["evidence"]["valid"] is None
    assert any("n1 was not gone" in reason for reason in results["unknown"])
    assert results_of(a_verdict(stale=1), found, idle)["valid"] is False


@pytest.mark.parametrize(
    ("kind", "links", "undone", "said"),
    [
        ("kill", (), {"1": "pid 77 dead"}, "n1 does not run after its end: pid 77 dead"),
        ("pause", (), {"1": "pid 77 state T"}, "n1 does not run after its end: pid 77 state T"),
        ("power", (), {}, "n1 does not run after its end: nothing was seen of it"),
        ("slow", ("1>2",), {"1>2": "not carried: n2 did not answer"}, "1>2 carries nothing after its end: not carried"),
        ("partition", ("client>1",), {}, "client>1 carries nothing after its end: nothing was seen"),
        (
            "clock-jump",
            (),
            {"clock of 1": "n1 healed: told the wall time +60.000 s off"},
            "the clock of n1 is not healed after its end",
        ),
        (
            "clock-drift",
            (),
            {"clock of 1": "n1 healed: told the wall time +0.000 s off, told a time 0.50 times as fast"},
            "the clock of n1 is not healed after its end",
        ),
        (
            "disk-slow",
            (),
            {"disk of 1": "n1 healed: flushes delayed: 1,002"},
            "the disk of n1 is not healed after its end",
        ),
    ],
)
def test_a_fault_that_was_not_undone_is_a_doubt_that_names_it(
    kind: str, links: tuple[str, ...], undone: dict[str, str], said: str
) -> None:
    runs = {} if "1" in undone or kind == "power" else {"1": "pid 78 state S"}
    fault = attrs.evolve(a_fault(5, 8, links=links), kind=kind, target="one", id=4, healed={**runs, **undone})
    found = evidence.of_faults([fault], LED, NODES, [])
    assert any(doubt.startswith(f"fault 4 ({kind} one): {said}") for doubt in found), found


def test_a_cluster_is_not_blamed_for_what_the_harness_has_left_broken(tmp_path: Path) -> None:
    left = attrs.evolve(a_fault(101, 103), observed={"1": "pid 7 dead"}, healed={"1": "pid 7 dead"})
    stuck = attrs.evolve(QUIET, faults=(left,), roles=LED, nodes=NODES, not_recovered="the nodes do not agree")
    results = results_of(a_verdict(), attempts(tmp_path), stuck)
    assert (results["valid"], results["checks"]["recovered"]["valid"]) == (None, None)
    assert "n1 does not run after its end" in results["unknown"][0]
    undone = attrs.evolve(stuck, faults=(attrs.evolve(left, healed={"1": "pid 8 state S"}),))
    assert results_of(a_verdict(), attempts(tmp_path / "again"), undone)["valid"] is False


@pytest.mark.parametrize(
    "told",
    [
        "n1 healed: told the wall time -0.000 s off, told a time 1.00 times as fast",
        "n1 healed: did not ask the time",
        "n1 healed: writes cut short: 0",
    ],
)
def test_a_clock_and_a_disk_that_are_whole_again_are_no_doubt(told: str) -> None:
    healed = {"1": "pid 78 state R", "clock of 1": told, "disk of 1": told}
    assert doubts("clock-jump", observed={}, healed=healed) == []


def test_what_another_fault_had_broken_by_then_need_not_be_whole() -> None:
    seen, way = cut(*FULL_CUT), "1>3"
    healed = {"1": "pid 78 state S", **{each: f"carried {each} and back" for each in FULL_CUT}}
    healed[way] = "not carried: n3 could not be asked: pid 9 dead"
    parting = attrs.evolve(a_fault(5, 8, links=FULL_CUT), kind="partition", observed=seen, healed=healed)
    killing = attrs.evolve(
        a_fault(7, 10, nodes=(3,)), id=2, target="one", observed={"3": "pid 9 dead"}, healed={"3": "pid 10 state S"}
    )
    assert evidence.of_faults([parting, killing], LED, NODES, []) == []
    silent = {**healed, way: "not carried: n3 did not answer: no answer within 5 s; pid 9 state S"}
    assert (
        "1>3 carries nothing" in evidence.of_faults([attrs.evolve(parting, healed=silent), killing], LED, NODES, [])[0]
    )
    stands_on = attrs.evolve(killing, nodes=(1,), observed={"1": "pid 9 dead"}, healed={"1": "pid 10 state S"})
    at_its_end = attrs.evolve(parting, healed={**healed, "1": "pid 9 dead"})
    assert evidence.of_faults([at_its_end, stands_on], LED, NODES, []) == []
    later = attrs.evolve(killing, begun_ns=9 * S)
    assert "1>3 carries nothing" in evidence.of_faults([parting, later], LED, NODES, [])[0]


def test_service_that_stays_away_while_nothing_is_broken_is_a_doubt() -> None:
    fault = attrs.evolve(a_fault(5, 8), kind="pause")
    bound_s = KINDS["pause"].serves_within_s

    def served_after(first_s: float, *others: FaultRecord) -> list[str]:
        steady = [(t / 10, t / 10 + 0.01) for t in range(50)]
        return evidence.of_service([fault, *others], writes(*steady, (5.02, first_s), (first_s, first_s + 0.1)))

    assert served_after(8 + bound_s - 0.5) == []
    assert "fault 1 (pause leader): no write was acknowledged for 22.2 s, 19.2 s of it" in served_after(27.2)[0]
    assert served_after(27.2, attrs.evolve(a_fault(9, 26), kind="kill", id=2)) == []


def test_an_interrupted_run_without_a_fault_that_was_asked_for_is_undecided(tmp_path: Path) -> None:
    short = attrs.evolve(QUIET, kinds=("kill", "pause"), is_interrupted=True)
    results = results_of(a_verdict(), attempts(tmp_path), short)
    assert results["valid"] is None
    assert results["unknown"] == ["interrupted before any kill or pause, which had been asked for"]
    killed = attrs.evolve(a_fault(100.2, 100.4), observed={"1": "pid 7 dead"})
    had_them = attrs.evolve(short, faults=(killed,), roles=LED, nodes=NODES)
    had_one = results_of(a_verdict(), attempts(tmp_path / "again"), had_them)
    assert had_one["valid"] is True
    assert "pause: not tested, it did not happen" in had_one["not_tested"]
    none_asked = attrs.evolve(QUIET, is_interrupted=True)
    assert results_of(a_verdict(), attempts(tmp_path / "quiet"), none_asked)["valid"] is True


def test_a_verdict_names_what_was_not_tested(tmp_path: Path) -> None:
    found = attempts(tmp_path)
    assert results_of(a_verdict(), found, QUIET)["not_tested"] == [
        "faults: none",
        "durability: not tested, no power fault",
        "elections: not tested, no leader was hit",
    ]
    killed = attrs.evolve(QUIET, faults=(a_fault(101, 103),), kinds=("kill", "damage"))
    lacks = {**a_verdict(), "not_tested": ["lost: not tested, no dump"]}
    assert results_of(lacks, found, killed)["not_tested"] == [
        "durability: not tested, no power fault",
        "damage: not tested, it did not happen",
        "lost: not tested, no dump",
    ]
    follower = attrs.evolve(a_fault(101, 103, nodes=(2,)), kind="power", target="one")
    power = attrs.evolve(QUIET, faults=(follower,), kinds=("power",))
    assert results_of(a_verdict(), found, power)["not_tested"] == ["elections: not tested, no leader was hit"]
