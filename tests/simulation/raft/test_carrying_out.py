"""The simulator runs the product's own driver: nothing in it steps a core, or carries out what a core orders.

Orders come out of `RaftCore.step` alone. So a module that never calls it, and writes, sends and answers nothing of a node by
itself, can only look on. The exhaustive search is no copy of the driver either: its nodes are values that it forks,
and all they share with a driver is the core and the outbox.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutants.mutant import ROOT

SIMULATOR = ROOT / "jepsen_like" / "simulation" / "raft"
SEARCH = "explorer.py"
CARRIES_OUT = frozenset({"persist", "load", "reserve", "trim", "trim_with", "end_flush", "stage_trim", "stage_reset"})
"""The calls by which a driver carries orders out on its storage."""
HOLDS = frozenset({"hold", "release"})
"""Those on its outbox."""


def complaints(name: str, source: str) -> Iterator[str]:
    """Yields each call of a module that only a driver makes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called, on = node.func.attr, ast.unparse(node.func.value)
            is_step = called == "step" and on != "super()" and name != SEARCH
            is_held = called in HOLDS and name != SEARCH
            if is_step or is_held or called in CARRIES_OUT:
                yield f"{name}:{node.lineno} calls {on}.{called}"


def test_only_the_driver_obeys_a_core() -> None:
    modules = sorted(SIMULATOR.glob("*.py"))
    assert SEARCH in [path.name for path in modules]
    assert [each for path in modules for each in complaints(path.name, path.read_text())] == []


@pytest.mark.parametrize(
    "line",
    [
        "for effect in core.step(now, event): pass",
        "self.storage.persist(effect)",
        "self.outbox.hold(effect)",
        "loaded = self.storage.load(effect)",
    ],
)
def test_a_copy_of_the_driver_would_be_seen(line: str) -> None:
    assert list(complaints("machine.py", line))


def test_looking_on_is_allowed() -> None:
    assert not list(complaints("machine.py", "effects = super().step(now, event)"))


def test_each_machine_runs_the_driver_of_the_product() -> None:
    source = Path(SIMULATOR, "machine.py").read_text()
    assert "from raft.driver import DriverConfig, RaftDriver" in source
    assert "return RaftDriver(" in source
