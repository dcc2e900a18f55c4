"""The whole command in short: our brokers alone, one mode with fixed roles and one raft group."""

import shutil
from pathlib import Path

import pytest

from jepsen_like.bench import figures
from jepsen_like.bench.figures import Failover, ProducerErrors, Throughput
from jepsen_like.bench.rocketmq import measure
from jepsen_like.bench.rocketmq.loads import DURABLE, LOADS, SYNC, key_of
from jepsen_like.cli import ExitStatus, execute

pytestmark = pytest.mark.cluster


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_a_short_run_measures_ours_and_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(measure, "FILL_S", 0.1)
    monkeypatch.setattr(measure, "AFTER_FAULT_S", 0.5)  # a killed master hangs up at once
    output, data = tmp_path / "rocketmq.json", tmp_path / "data"
    arguments = ["bench", "rocketmq", "--repeats", "1", "--seconds", "0.1", "--kills", "1", "--pauses", "1"]
    arguments += ["--modes", f"{SYNC.key},{DURABLE.key}"]
    assert execute([*arguments, "--directory", str(data), "--output", str(output)]) == ExitStatus.VALID
    said = capsys.readouterr()
    assert "apache not measured" in said.err
    assert "One load generator" in said.out
    found = figures.load(output)
    rows = [figure for figure in found.figures if isinstance(figure, Throughput)]
    assert {row.load for row in rows} == {key_of(mode, load) for mode in (SYNC, DURABLE) for load in LOADS}
    assert all(row.records_s > 0 and 0 < row.p50_ms <= row.p99_ms for row in rows)
    faults = [figure for figure in found.figures if isinstance(figure, Failover)]
    assert [(figure.fault, len(figure.seconds)) for figure in faults] == [("kill", 1), ("pause", 1)]
    (errors,) = [figure for figure in found.figures if isinstance(figure, ProducerErrors)]
    assert errors.acknowledged > errors.moved > 0
    assert errors.failed == 0
    assert list(data.iterdir()) == []
