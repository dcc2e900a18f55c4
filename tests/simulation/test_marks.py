"""The marks are every way out of every decision, and a mark that is never visited is reported."""

import subprocess
import sys
from types import FunctionType
from typing import Any

import pytest

from tests.mutants.mutant import ROOT
from tests.simulation.marks import (
    COUNTERS,
    MODULES,
    UNVISITED,
    Visits,
    failings,
    insert_marks,
    instrument_module,
    reason,
)

pytestmark = pytest.mark.simulation

SOURCE = """
def judge(n):
    for _ in range(n):
        n -= 1 if n > 5 else 2
    if n == 1:
        return "one"
    elif n > 1:
        return "many"
    match n:
        case 0:
            return "none"
        case _:
            pass
    while n < 0:
        n += 1
    return "less"
"""


def visits(*arguments: int) -> dict[str, int]:
    tree, names = insert_marks("some.module", SOURCE)
    counters = [0] * len(names)
    namespace: dict[str, Any] = {COUNTERS: counters}
    FunctionType(compile(tree, "module", "exec"), namespace)()
    for argument in arguments:
        namespace["judge"](argument)
    return dict(zip(names, counters, strict=True))


def test_every_way_out_of_a_decision_is_counted() -> None:
    assert visits(1, 0, 6) == {
        "module.judge: for _ in range(n): runs": 7,
        "module.judge: n > 5: yes": 1,
        "module.judge: n > 5: no": 6,
        "module.judge: n == 1: yes": 0,
        "module.judge: n == 1: no": 3,
        "module.judge: n > 1: yes": 0,
        "module.judge: n > 1: no": 3,
        "module.judge: n: is 0": 1,
        "module.judge: n: is _": 2,
        "module.judge: while n < 0: runs": 6,
    }


def test_a_mark_that_is_never_visited_fails_and_so_does_a_vain_excuse() -> None:
    table = {"core.step: a: yes": Visits(3, 0), "core.step: a: no": Visits(), "core.tick: b: yes": Visits(1, 2)}
    assert failings(table, {}) == ["never visited: core.step: a: no"]
    assert failings(table, {"core.step: a: no": "cannot be"}) == []
    assert failings(table, {"core.step: a: no": "", "core.tick": "no clock", "core.gone": "old"}) == [
        "never visited: core.step: a: no",
        "excused, and visited: core.tick: b: yes",
        "excused, and not in the source: core.gone",
    ]


def test_marks_have_names_of_their_own_and_excuses_have_marks() -> None:
    names = [name for module in MODULES for name in instrument_module(module).names]
    assert len(set(names)) == len(names) > 200
    assert all(any(reason(name, {excused: why}) for name in names) for excused, why in UNVISITED.items())


@pytest.mark.campaign
def test_seeds_come_by_every_mark_that_is_not_excused() -> None:
    command = [sys.executable, "-m", "tests.simulation.marks", "--until-visited"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert "marks visited by " in done.stdout
