"""The benchmark of a broker's messages: it measures a few, and its exit status is whether every bound holds."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).parents[3] / "benchmarks" / "message_store.py"


@pytest.fixture
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("message_store_benchmark", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_small_store_is_measured(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(PROGRAM),
        "--messages",
        "200",
        "--queues",
        "30",
        "--directory",
        str(tmp_path / "store"),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert len(ran.stdout.splitlines()) == 11, ran.stderr
    assert ran.returncode == ("FAILED" in ran.stdout)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("broken", range(3))
def test_a_bound_that_does_not_hold_is_named_and_the_status_is_not_zero(
    program: ModuleType, broken: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [program.Line(f"line {at}", 3.0 if at == broken else 1.0, 2.0, "s") for at in range(3)]
    monkeypatch.setattr(program, "measure", lambda directory, messages, queues: lines)
    assert program.main([]) == 1
    assert capsys.readouterr().err == f"failed: line {broken}: 3.000 s, not below 2\n"
