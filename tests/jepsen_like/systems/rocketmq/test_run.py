"""A run on real brokers: the master is hit, its slave follows, and nothing that was acknowledged is lost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jepsen_like.cli import ExitStatus

RUN = [sys.executable, "-m", "jepsen_like.cli", "run", "--quick", "--json", "--system", "rocketmq"]


@pytest.mark.cluster
@pytest.mark.parametrize("replication", ["sync-slave", "raft"])
def test_a_group_loses_nothing_when_its_master_is_killed_and_paused(replication: str, tmp_path: Path) -> None:
    arguments = [
        "--replication",
        replication,
        "--nodes",
        "3",
        "--duration",
        "8",
        "--nemesis",
        "kill,pause",
        "--seed",
        "3",
    ]
    ended = subprocess.run(
        [*RUN, *arguments, "--out", str(tmp_path)], capture_output=True, text=True, timeout=100, check=False
    )
    assert ended.returncode == ExitStatus.VALID, ended.stderr
    results = json.loads(ended.stdout.splitlines()[-1])
    assert results["acked"] > 100
    assert results["lost_acked"] == 0
