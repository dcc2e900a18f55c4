"""A cluster that was started by hand, as an owner would: with scripts that start, kill and stop each of its processes.

`quorumlog run --target` knows nothing of them but an address, and these scripts as commands.
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from jepsen_like.cli import execute

START = """#!/bin/sh
cd {home} && {{ setsid {command} >> output.log 2>&1 < /dev/null & echo $! > pid; }}
"""


@attrs.frozen
class HandCluster:
    """The processes, by their directory and the addresses of their clients."""

    directory: Path
    servers: str
    kind: str
    """The name of each process is this and its number."""

    def home(self, number: int) -> Path:
        """Returns the directory of a process."""
        return self.directory / f"{self.kind}-{number}"

    def hooks(self) -> list[str]:
        """The options of two faults."""
        home = f"{self.directory}/{self.kind}-{{node}}"
        commands = {
            "--fault-command": (f"kill=kill -9 $(cat {home}/pid)", f"pause=kill -STOP $(cat {home}/pid)"),
            "--undo-command": (f"kill=sh {home}/start", f"pause=kill -CONT $(cat {home}/pid)"),
        }
        return [word for option, given in commands.items() for one in given for word in (option, one)]

    def start(self, number: int) -> None:
        """Start a process by its script."""
        subprocess.run(["sh", str(self.home(number) / "start")], check=True)

    def kill(self) -> None:
        """Kill the processes that were started last."""
        for path in sorted(self.directory.glob(f"{self.kind}-*/pid")):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.read_text()), signal.SIGKILL)

    def run(self, target: str, out: Path, *words: str, hooked: bool = True) -> tuple[int, dict[str, Any]]:
        """Returns the status and the results of a run."""
        options = ["--target", target, "--bootstrap-servers", self.servers, "--quick", "--out", str(out)]
        status = execute(["run", *options, *(self.hooks() if hooked else []), *words])
        return status, json.loads((out / "latest" / "results.json").read_text())


@contextmanager
def run_by_hand(
    directory: Path, servers: str, commands: Sequence[Sequence[str]], kind: str = "node"
) -> Iterator[HandCluster]:
    """Write the scripts, and start all processes; in the end kill what runs of them."""
    cluster = HandCluster(directory, servers, kind)
    try:
        for number, command in enumerate(commands, 1):
            home = cluster.home(number)
            home.mkdir(parents=True, exist_ok=True)
            (home / "start").write_text(START.format(home=home, command=shlex.join(command)))
            cluster.start(number)
        yield cluster
    finally:
        cluster.kill()
