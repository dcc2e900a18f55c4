"""The benchmark of a store: it measures a small one, and its exit status is whether every bound holds."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "log_store.py"


@pytest.fixture
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("log_store_benchmark", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_small_store_is_measured_and_every_bound_holds(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), "--logs", "20", "--directory", str(tmp_path / "store")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [line.split()[-1] for line in ran.stdout.splitlines()[1:]] == ["ok"] * 4
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("broken", range(4))
def test_a_bound_that_does_not_hold_is_named_and_the_status_is_not_zero(
    program: ModuleType, broken: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [program.Line(f"line {at}", 3.0 if at == broken else 1.0, 2.0, "s") for at in range(4)]
    monkeypatch.setattr(program, "measure", lambda directory, logs: lines)
    assert program.main([]) == 1
    assert capsys.readouterr().err == f"failed: line {broken}: 3.000 s, not below 2\n"
