"""Everything that stands in the way of a verdict after the healing is reported."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from jepsen_like.port.port import NotServing
from jepsen_like.progress import RunProgress
from jepsen_like.run.exercise import AGREE_WITHIN_S, RunPlan, exercise
from jepsen_like.systems.raft import control as control_module
from jepsen_like.systems.raft.system import RaftSystem
from jepsen_like.workload.load import RoutedLoad
from raft.errors import ProtocolError

pytestmark = pytest.mark.cluster

PLAN = RunPlan(
    system="raft",
    replication="raft",
    nodes=1,
    duration_s=0.5,
    rate=0,
    concurrency=1,
    kinds=(),
    workload="log",
    settings=(),
    seed=1,
)


async def test_every_reason_why_it_did_not_recover_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail_reads(load: RoutedLoad) -> bool:
        return False

    async def not_dumped(*_: object) -> None:
        raise ProtocolError("node 1 shows nothing")

    monkeypatch.setattr(RoutedLoad, "final_reads", fail_reads)
    monkeypatch.setattr(control_module, "dump_logs", not_dumped)
    with RunProgress(total_s=1, nodes=[1], console=Console(file=io.StringIO())) as progress:
        observed = await exercise(PLAN, tmp_path, progress)
    assert observed.not_recovered is not None
    questions, dump = observed.not_recovered.split("; ")
    assert questions == "the healed cluster did not take a last write and answer the final reads"
    assert dump.endswith("node 1 shows nothing")


async def test_a_system_that_recovers_slowly_has_longer_to_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def settle(_: object, *, within_s: float) -> None:
        asked.append(within_s)
        raise NotServing("they never agree")

    monkeypatch.setattr(control_module.RaftControl, "settle", settle)
    monkeypatch.setattr(RaftSystem, "recovers_in_s", 25.0)
    with RunProgress(total_s=1, nodes=[1], console=Console(file=io.StringIO())) as progress:
        await exercise(PLAN, tmp_path, progress)
    assert asked == [AGREE_WITHIN_S + 25.0]
