"""Runs of programs of others, as a user starts them: a verdict each, with the faults that were asked for."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.cli import ExitStatus
from jepsen_like.port.registry import system_named

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(300)]
SAFEST = {
    "nats": "sync_interval=always",
    "etcd": "unsafe_no_fsync=false",
    "zookeeper": "forceSync=yes",
    "rabbitmq": "queue_type=quorum",
}
"""By system, the setting with which nothing may be lost."""


def run(out: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit status and results.json."""
    command = [
        sys.executable,
        "-c",
        "from jepsen_like.cli import main; main()",
        "run",
        "--quick",
        "--seed",
        "1",
        "--out",
        str(out),
        *words,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    found = out / "latest" / "results.json"
    assert found.exists(), ended.stderr
    return ended.returncode, json.loads(found.read_text())


@pytest.mark.parametrize("system", SAFEST)
def test_the_safest_setting_keeps_all_while_leaders_are_killed_paused_and_cut_off(system: str, tmp_path: Path) -> None:
    if (lack := system_named(system).lacking()) is not None:
        pytest.skip(lack)
    words = ("--system", system, "--set", SAFEST[system], "--duration", "30", "--nemesis", "kill,pause,partition")
    status, results = run(tmp_path, *words)
    assert status == ExitStatus.VALID, results["violations"]
    assert {fault["kind"] for fault in results["faults"] if fault["target"] == "leader"} == {
        "kill",
        "pause",
        "partition",
    }
    assert results["acked"] > 500
