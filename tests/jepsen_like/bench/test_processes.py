"""What processes are charged with."""

from pathlib import Path

import pytest

from jepsen_like.bench import processes
from jepsen_like.bench.processes import PF_KTHREAD, TICKS_PER_S, kernel_cpu_s


def put(proc: Path, number: int, name: str, flags: int, user: int, kernel: int) -> None:
    (proc / str(number)).mkdir()
    before = f"{number} ({name}) S 2 0 0 0 -1 {flags} 1 2 3 4 {user} {kernel} 0 0"
    (proc / str(number) / "stat").write_text(before)


def test_the_kernel_is_charged_with_its_own_threads_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, 2, "kthreadd", PF_KTHREAD | 64, 0, 3)
    put(tmp_path, 17, "kworker/0:1 (a) b", PF_KTHREAD, 1, 40)
    put(tmp_path, 300, "python", 64, 1000, 1000)
    (tmp_path / "301").mkdir()  # it has ended meanwhile
    (tmp_path / "stat").write_text("cpu 1 2 3")
    monkeypatch.setattr(processes, "PROC", tmp_path)
    assert kernel_cpu_s() == 44 / TICKS_PER_S
