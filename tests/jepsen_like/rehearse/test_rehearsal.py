"""A rehearsal on real clusters: with a fence the loss is the lag and nothing else goes wrong, without one records flow over."""

from pathlib import Path

import pytest
import trio

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.verdict import Check, Engine, Model
from jepsen_like.rehearse.rehearsal import RehearsalPlan, rehearse

SECONDS = 180


@pytest.mark.campaign
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("recreates", [False, True])
def test_with_a_fence_the_loss_is_the_lag_of_the_mirror(recreates: bool, tmp_path: Path) -> None:
    plan = RehearsalPlan(seed=1, delay_s=0.1, nodes=1, recreates=recreates)
    figures = trio.run(rehearse, plan, tmp_path)
    verdict = check_run(tmp_path, Model.MIRRORED, Engine.LOCAL)
    assert [one.sentence for one in verdict.violations] == []
    assert verdict.valid is True
    assert verdict.not_tested == ()
    assert verdict.mirror is not None
    assert (verdict.mirror.lost, verdict.mirror.foreign, verdict.mirror.skipped) == (verdict.mirror.lag, 0, 0)
    assert verdict.mirror.acked > 1000
    assert figures["old_mirror"] == 5
    assert 0 < figures["rto_machine_s"] < figures["rto_s"]


@pytest.mark.campaign
@pytest.mark.timeout(SECONDS)
def test_without_a_fence_the_lag_flows_into_the_new_primary(tmp_path: Path) -> None:
    trio.run(rehearse, RehearsalPlan(seed=2, delay_s=0.1, nodes=1, rate=400, fences=False), tmp_path)
    verdict = check_run(tmp_path, Model.MIRRORED, Engine.LOCAL)
    assert verdict.valid is False
    assert verdict.mirror is not None
    assert verdict.mirror.foreign == verdict.findings.counts[Check.FOREIGN] > 0
