"""The process of a run is the program itself, and what its watcher sees reaches the harness."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.cluster.process import process_state
from jepsen_like.systems.foreign.launch import Launch
from jepsen_like.systems.foreign.watching import Look

PROGRAM = "import os, time; print('words', flush=True); open('pid', 'w').write(str(os.getpid())); time.sleep(60)"


def look(about: Mapping[str, Any]) -> Look | None:
    """Looks at the file that the program writes."""
    path = Path(about["pid"])
    return Look(True, {"log": ("leader", int(path.read_text()))}) if path.exists() and path.read_text() else None


@pytest.mark.cluster
def test_the_program_has_the_process_and_its_watcher_ends_with_it(tmp_path: Path) -> None:
    launch = Launch(
        argv=[sys.executable, "-c", PROGRAM],
        files={str(tmp_path / "etc" / "config"): "text", str(tmp_path / "data") + "/": ""},
        look=f"{__name__}:look",
        about={"pid": str(tmp_path / "pid")},
        beside=[["sh", "-c", f"echo $$ > {tmp_path / 'beside'}; exec sleep 60"]],
    )
    with (
        (tmp_path / "stderr").open("wb") as stderr,
        subprocess.Popen(
            launch.command(), stdout=subprocess.PIPE, stderr=stderr, cwd=tmp_path, env=with_path_of_tests()
        ) as process,
    ):
        assert process.stdout is not None
        ready, role = (json.loads(process.stdout.readline()) for _ in range(2))
        assert (ready["event"], role["role"], role["epoch"]) == ("ready", "leader", process.pid)
        assert (tmp_path / "etc" / "config").read_text() == "text"
        assert (tmp_path / "data").is_dir()
        companion = int((tmp_path / "beside").read_text())
        os.kill(companion, 0)
        process.kill()
        assert process.stdout.read() == b""  # it ends when the last that holds it has ended
        wait_for_end(companion)
        assert process_state(companion) is None
    assert process.returncode == -signal.SIGKILL
    assert (tmp_path / "stderr").read_text() == "words\n"


def wait_for_end(pid: int) -> None:
    """Waits until a process has ended."""
    watch = os.pidfd_open(pid)
    try:
        select.select([watch], [], [], 10)
    finally:
        os.close(watch)


def with_path_of_tests() -> dict[str, str]:
    """The environment of a process that finds this module."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
