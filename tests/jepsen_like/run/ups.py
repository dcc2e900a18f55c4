"""Clusters that `quorumlog up --http` keeps, as tests ask them."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from jepsen_like.cli import ExitStatus

LINE_WITHIN_S = 60.0


@attrs.frozen
class Up:
    """A cluster that is up."""

    data: Path
    url: str
    """Of the HTTP API."""
    line: str
    """It has the addresses for clients."""


@contextlib.contextmanager
def up(data: Path, *words: str, environment: Mapping[str, str] | None = None) -> Iterator[Up]:
    """A cluster with its HTTP API at any port; ended by Ctrl-C."""
    command = [sys.executable, "-m", "jepsen_like.cli", "up", *words, "--data", str(data), "--http", "0"]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
    )
    try:
        assert running.stdout is not None
        assert running.stderr is not None
        first = running.stderr.readline()
        at = re.search(r"HTTP API at (http://[\d.:]+)", first)
        assert at, (first, running.stderr.read())
        readable, _, _ = select.select([running.stdout], [], [], LINE_WITHIN_S)
        line = running.stdout.readline().strip() if readable else ""
        assert line, running.poll()
        yield Up(data, at[1], line)
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=30)
        assert running.returncode == ExitStatus.VALID, told
        assert "Traceback" not in told
    finally:
        running.kill()
        running.communicate()
