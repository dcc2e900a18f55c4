"""Measures the time to judge many small runs: in one application, and with a command for each.

    python benchmarks/check_runs.py [--runs 200] [--engine local|spark] [--out FILE]

Makes a short real run of each system, copies them until there are enough, and measures `quorumlog check` of each run alone, one
command after the other, and of all of them in one command. Prints a line of JSON, which `--out FILE` adds to the measurements
in FILE. Status 0 only where all verdicts are the same both ways, and one application takes less than a fifth of the time.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from jepsen_like.history.files import HistoryReader

SYSTEMS = ("raft", "kafka", "rocketmq")
SHARE_MAX = 0.2
QUORUMLOG = (sys.executable, "-m", "jepsen_like.cli")


def make_runs(place: Path, number: int, seconds: float) -> list[Path]:
    """Makes so many runs: one of each system, and copies of them without the directories of their nodes."""
    for system in SYSTEMS:
        command = [*QUORUMLOG, "run", "--system", system, "--quick", "--nemesis", "kill", "--duration", f"{seconds:g}"]
        subprocess.run([*command, "--out", str(place / system)], capture_output=True, check=True)
    real = [(place / system / "latest").resolve() for system in SYSTEMS]
    copies = [place / "runs" / f"{at:03d}-{SYSTEMS[at % len(real)]}" for at in range(number)]
    for at, copy in enumerate(copies):
        shutil.copytree(real[at % len(real)], copy, ignore=shutil.ignore_patterns("nodes", "*.html"))
    return copies


def time_check(engine: str, *runs: Path) -> tuple[float, list[str]]:
    """Returns the seconds that one command took, and its verdicts."""
    began = time.monotonic()
    done = subprocess.run(
        [*QUORUMLOG, "check", "--engine", engine, *map(str, runs)], capture_output=True, text=True, check=False
    )
    return time.monotonic() - began, done.stdout.splitlines()[-len(runs) :]


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Make the runs and check them both ways."""
    with tempfile.TemporaryDirectory(prefix="check-runs-") as place:
        runs = make_runs(Path(place), arguments.runs, arguments.seconds)
        rows = sum(HistoryReader.open(run / "history.parquet").rows() for run in runs)
        load = os.getloadavg()[0]
        together_s, together = time_check(arguments.engine, *runs)
        alone_s, alone = 0.0, list[str]()
        for run in runs:
            spent_s, verdicts = time_check(arguments.engine, run)
            alone_s, alone = alone_s + spent_s, alone + verdicts
    return {
        "engine": arguments.engine,
        "runs": arguments.runs,
        "rows": rows,
        "alone_s": round(alone_s, 1),
        "together_s": round(together_s, 1),
        "share": round(together_s / alone_s, 3),
        "same_verdicts": together == alone and len(alone) == len(runs),
        "cores": os.cpu_count(),
        "load": round(load, 1),
        "machine": platform.machine(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the check of many small runs.")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--engine", choices=["local", "spark"], default="local")
    parser.add_argument("--seconds", type=float, default=4.0, help="How long the load of each run is.")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    line = measure(arguments)
    sys.stdout.write(json.dumps(line) + "\n")
    if arguments.out is not None:
        before = json.loads(arguments.out.read_text()) if arguments.out.exists() else []
        arguments.out.write_text(json.dumps([*before, line], indent=1) + "\n")
    return 0 if line["same_verdicts"] and line["share"] < SHARE_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
