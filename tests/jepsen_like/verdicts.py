"""Runs with one known trouble each, through the code that judges a run: only the sound one may be called valid.

Every planted violation of a log and of registers, every trouble that only the run itself knows, and every doubt about its
evidence, each alone, with and without faults that excuse nothing. What is said must agree with the exit status.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs

from jepsen_like.checker.verdict import Engine, Model
from jepsen_like.cli import ExitStatus
from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.port.observations import RoleSeen
from jepsen_like.record.results import RunResults
from jepsen_like.run.command import check_results, print_summary
from jepsen_like.run.exercise import RunPlan
from jepsen_like.run.results import Observed
from jepsen_like.systems.raft.mode import RaftMode
from log.policy import FlushPolicy
from tests.jepsen_like.checker.planted import PLANTS, Base, apply_plant, write_run
from tests.jepsen_like.checker.plants_found import base_of

OPERATIONS = 2000
NODES = (1, 2, 3)
KILLED = {"1": "pid 7 dead"}


def a_kill(begun_ns: int, injected_ns: int) -> FaultRecord:
    """A kill that hit the leader, node 1."""
    return FaultRecord(
        id=1,
        kind="kill",
        target="leader",
        nodes=(1,),
        links=(),
        leader=1,
        term=1,
        intended_ns=begun_ns,
        begun_ns=begun_ns,
        injected_ns=injected_ns,
        ended_ns=injected_ns,
        observed=KILLED,
        healed={"1": "pid 8 state S"},
    )


QUIET = Observed(faults=(), roles=(), unasked_ends=(), nonsense=(), not_recovered=None, is_interrupted=False)
STRUCK = attrs.evolve(
    QUIET,
    faults=(a_kill(0, 10**15),),  # it was about to happen, or happening, whenever something was acknowledged
    roles=(RoleSeen(1, 0, "leader", 1),),
    nodes=NODES,
    kinds=("kill",),
)
TROUBLES = {
    "a node that ended by itself": attrs.evolve(STRUCK, unasked_ends=("node 2 ended with status 1",)),
    "an answer that was none": attrs.evolve(STRUCK, nonsense=("node 2 answered a read with a tail",)),
    "a cluster that did not recover": attrs.evolve(STRUCK, not_recovered="the nodes do not agree"),
    "a kill that killed nobody": attrs.evolve(
        STRUCK, faults=(attrs.evolve(STRUCK.faults[0], observed={"1": "pid 7 state S"}),)
    ),
    "a kill that never came": attrs.evolve(STRUCK, faults=()),
    "a run that was interrupted before its kill": attrs.evolve(STRUCK, faults=(), is_interrupted=True),
    "a node that was not started again": attrs.evolve(
        STRUCK, faults=(attrs.evolve(STRUCK.faults[0], healed={"1": "pid 7 dead"}),)
    ),
}


@attrs.frozen
class Case:
    """A run and whether it may be valid (None: it is open)."""

    name: str
    base: Base
    observed: Observed
    flush: FlushPolicy
    expected: frozenset[bool | None]


def cases(*, both_ways: bool) -> Iterator[Case]:
    """All of them: each plant with and without faults, or one after the other."""
    broken, not_valid = frozenset({False}), frozenset({False, None})
    for model in (Model.LOG, Model.REGISTER):
        base = base_of(model, OPERATIONS)
        for turn, flush in enumerate(FlushPolicy):
            yield Case(f"a sound {model.value}", base, STRUCK, flush, frozenset({True}))
            for number, plant in enumerate(PLANTS, start=turn):
                if plant.model is model:
                    for observed in (QUIET, STRUCK) if both_ways else ((QUIET, STRUCK)[number % 2],):
                        yield Case(f"a {plant.name}", apply_plant(base, plant, seed=3), observed, flush, broken)
        for name, observed in TROUBLES.items():
            yield Case(name, base, observed, FlushPolicy.BEFORE_ACK, not_valid)


def first_wrong(*, both_ways: bool = True) -> tuple[str | None, int]:
    """The first run that is judged wrongly, if any, and how many were judged. See `cases`."""
    tried = 0
    for case in cases(both_ways=both_ways):
        tried += 1
        results = results_of(case)
        if results.valid not in case.expected:
            return f"{case.name} is judged {results.valid}", tried
        status = print_summary(results, Path("report.html"), "the command", as_json=False)
        right = {True: ExitStatus.VALID, False: ExitStatus.VIOLATION, None: ExitStatus.UNKNOWN}[results.valid]
        if status is not right:
            return f"{case.name} is judged {results.valid} and ends with status {status}", tried
    return None, tried


def results_of(case: Case) -> RunResults:
    """Returns the results of a run."""
    plan = RunPlan(
        system="raft",
        replication="raft",
        nodes=len(NODES),
        duration_s=9.0,
        rate=0,
        concurrency=3,
        kinds=tuple(case.observed.kinds),
        workload=case.base.model.value,
        settings=(),
        seed=1,
    )
    with tempfile.TemporaryDirectory() as directory:
        write_run(case.base, Path(directory))
        mode = RaftMode.of([f"flush={case.flush.value}"])
        return check_results(plan, mode, Path(directory), case.observed, Engine.LOCAL)
