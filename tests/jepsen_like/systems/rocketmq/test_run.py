"""A run on real brokers: masters are hit, even lose their disks, and nothing that was acknowledged is lost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jepsen_like.cli import ExitStatus

RUN = [sys.executable, "-m", "jepsen_like.cli", "run", "--quick", "--json", "--system", "rocketmq"]


@pytest.mark.cluster
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("--replication sync-slave --nodes 4 --set pairs=2 --nemesis kill,wipe-master", id="pairs"),
        pytest.param("--replication raft --nodes 3 --nemesis kill,pause", id="raft"),
    ],
)
def test_nothing_is_lost_when_masters_are_hit(arguments: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [*RUN, *arguments.split(), "--duration", "8", "--seed", "3", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == ExitStatus.VALID, ended.stderr
    results = json.loads(ended.stdout.splitlines()[-1])
    assert results["acked"] > 100
    assert results["lost_acked"] == 0
    assert len({*results["silences"]["scopes_s"], None}) == 1 + (2 if "pairs" in arguments else 1)
