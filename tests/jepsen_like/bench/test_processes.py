"""Processor time is charged to the processes and threads that spend it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from jepsen_like.bench import processes, throughput
from jepsen_like.bench.conversation import FULL, LoadShape
from jepsen_like.bench.generator import Sample
from jepsen_like.bench.processes import PF_KTHREAD, TICKS_PER_S, kernel_cpu_s, kernel_ticks
from jepsen_like.bench.systems import BenchCluster


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
    before = kernel_ticks()
    assert before == {2: 3, 17: 41}
    shutil.rmtree(tmp_path / "17")  # a worker has ended, which takes nothing back
    shutil.rmtree(tmp_path / "2")
    put(tmp_path, 2, "kthreadd", PF_KTHREAD | 64, 0, 5)
    put(tmp_path, 18, "kworker/0:2", PF_KTHREAD, 2, 7)
    assert kernel_cpu_s(before) == 11 / TICKS_PER_S


class TwoMembers:
    """A cluster in which each load costs the leader 2 s, the other member 1 s and the kernel 0.5 s."""

    def __init__(self) -> None:
        self.loads = 0
        self.members = [
            SimpleNamespace(cpu_s=lambda: 1.0 * self.loads),
            SimpleNamespace(cpu_s=lambda: 2.0 * self.loads),
        ]

    def led_by(self) -> int:
        return 1

    @contextmanager
    def driving(self, load: LoadShape) -> Iterator["TwoMembers"]:
        yield self

    def run(self, seconds: float) -> Sample:
        self.loads += 1
        return Sample(latencies_ns=[1000] * 10, lasted_s=seconds, client_cpu_s=0.25)


def test_a_request_is_charged_with_all_that_was_done_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = TwoMembers()
    monkeypatch.setattr(throughput, "kernel_ticks", lambda: {2: cluster.loads})
    monkeypatch.setattr(throughput, "kernel_cpu_s", lambda before: 0.5 * (cluster.loads - before[2]))
    records, figure = throughput.under(cast("BenchCluster", cluster), "it", FULL, 1.0)
    assert records == 20
    assert (figure.leader_us, figure.system_us, figure.client_us) == (200_000, 350_000, 25_000)
