"""A system that the harness has never seen is broken, judged and drawn through the port alone."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.port.registry import SYSTEMS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]
ROOT = Path(__file__).resolve().parents[3]
REGISTERED = (
    "from jepsen_like.port.registry import SYSTEMS; SYSTEMS['toy'] = 'tests.jepsen_like.systems.toy:ToySystem'; "
    "from jepsen_like.cli import main; main()"
)
"""The command line, with one more system."""


@pytest.fixture(autouse=True)
def register_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds the toy to the systems of this process."""
    monkeypatch.setitem(SYSTEMS, "toy", "tests.jepsen_like.systems.toy:ToySystem")


def command(out: Path, *words: str) -> list[str]:
    return ["run", "--system", "toy", "--seed", "4", "--out", str(out), *words]


def run(out: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """The exit status, results.json and the report of one run."""
    status = execute(command(out, *words))
    return status, *read_written(out)


def read_written(out: Path) -> tuple[dict[str, Any], str]:
    results = json.loads((out / "latest" / "results.json").read_text())
    return results, (out / "latest" / "report.html").read_text()


@pytest.mark.campaign
@pytest.mark.spark
def test_an_honest_toy_is_valid_on_spark_through_kill_pause_and_partition(tmp_path: Path) -> None:
    words = command(tmp_path, "--duration", "12", "--nemesis", "kill,pause,partition")
    ended = subprocess.run([sys.executable, "-c", REGISTERED, *words], cwd=ROOT, capture_output=True, check=False)
    assert ended.returncode == ExitStatus.VALID, ended.stderr
    results, report = read_written(tmp_path)
    assert (results["valid"], results["lost_acked"]) == (True, 0)
    assert {fault["kind"] for fault in results["faults"]} == {"kill", "pause", "partition"}
    assert all(fault["target"] == "leader" for fault in results["faults"][:3])
    assert results["acked"] > 500
    assert "nothing that was acknowledged is lost while the machine has power" in report


def test_records_acknowledged_from_a_buffer_are_found_lost_named_and_drawn(tmp_path: Path) -> None:
    words = ("--quick", "--duration", "3", "--rate", "100", "--nemesis", "kill", "--set", "switch=lose")
    status, results, report = run(tmp_path, *words)
    assert status == ExitStatus.VIOLATION
    assert results["lost_acked"] > 0
    assert results["lost_allowed"] == []
    (loss, *_) = (violation for violation in results["violations"] if violation["check"] == "lost")
    assert loss["sentence"] in report
    assert "<svg" in report.split('<article class="violation"')[1], "the loss is not drawn"


@pytest.mark.campaign
def test_a_stale_read_is_found_named_and_drawn(tmp_path: Path) -> None:
    words = ("--quick", "--duration", "6", "--nemesis", "kill", "--set", "switch=stale")
    status, results, report = run(tmp_path, *words)
    assert status == ExitStatus.VIOLATION
    assert results["checks"]["stale"]["valid"] is False
    (stale, *_) = (violation for violation in results["violations"] if violation["check"] == "stale")
    assert stale["sentence"] in report


def test_a_setting_that_the_toy_does_not_have_is_refused_in_its_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(command(tmp_path, "--set", "flush=none")) == ExitStatus.USAGE
    assert "the toy has one setting, switch" in capsys.readouterr().err
