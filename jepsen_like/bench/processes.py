"""Processes of a system under measurement: started in a directory, faulted by their id, read in /proc, never left.

The kernel ends them if the measurement itself is killed. Their output goes to files next to their data.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jepsen_like.cluster.process import die_with_parent, process_state

STOP_WITHIN_S = 15.0
PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
FLAGS, USER_TICKS, KERNEL_TICKS = 6, 11, 12
"""Fields of /proc/PID/stat, counted from behind the name of the command (proc(5))."""
PF_KTHREAD = 0x00200000


class DidNotAnswer(Exception):
    """A process did not start, answer or end in time; the message names it and the file with its output."""


class BenchProcess:
    """One process of a system, which can be killed and started again in the same place."""

    answers = False
    """True if it reads and writes lines of JSON."""

    def __init__(self, command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._popen: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, with a process group of its own: Ctrl-C reaches the measurement alone."""
        with (self.directory / "output.log").open("ab") as output:
            self._popen = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE if self.answers else subprocess.DEVNULL,
                stdout=subprocess.PIPE if self.answers else output,
                stderr=output,
                cwd=self.directory,
                env=self._environment,
                process_group=0,
                preexec_fn=die_with_parent(),
            )

    @property
    def pid(self) -> int:
        """The newest process's id."""
        assert self._popen is not None
        return self._popen.pid

    def check(self) -> None:
        """Raises `DidNotAnswer` if the process has ended."""
        if self._popen is not None and self._popen.poll() is not None:
            lines = (self.directory / "output.log").read_text(errors="replace").splitlines()
            name = Path(self.command[0]).name
            raise DidNotAnswer(f"{name} ended with {self._popen.returncode}: {' '.join(lines[-1:])}")

    def kill(self) -> None:
        """SIGKILL. Returns at once: `reap` waits."""
        os.kill(self.pid, signal.SIGKILL)

    def reap(self) -> None:
        """Wait until a killed process is gone."""
        assert self._popen is not None
        self._popen.wait(STOP_WITHIN_S)

    def pause(self) -> None:
        """Send SIGSTOP, and wait until the kernel reports the process as stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        until(lambda: process_state(self.pid) == "T", "a stopped process", every_s=0.0002)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    @contextlib.contextmanager
    def under_fault(self, *, killed: bool) -> Iterator[None]:
        """Kill or pause the process; afterwards it runs again, in the same place."""
        if killed:
            self.kill()
        else:
            self.pause()
        try:
            yield
        finally:
            if killed:
                self.reap()
                self.start()
            else:
                self.resume()

    def stop(self) -> None:
        """SIGTERM, then SIGKILL for one that takes too long."""
        if self._popen is None or self._popen.poll() is not None:
            return
        self.resume()
        self._popen.terminate()
        try:
            self._popen.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()

    def cpu_s(self) -> float:
        """CPU seconds that it has used, all threads, user and kernel mode; to 10 ms."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[USER_TICKS]) + int(fields[KERNEL_TICKS])) / TICKS_PER_S

    def resident_bytes(self) -> int:
        """Returns the bytes that it holds in memory now."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise DidNotAnswer(f"process {self.pid} has no memory: it is gone")


def kernel_ticks() -> Mapping[int, int]:
    """The time used by each of the kernel's own threads, which do a part of a process's work (syncs); in ticks."""
    ticks: dict[int, int] = {}
    for stat in PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[FLAGS]) & PF_KTHREAD:
                ticks[int(stat.parent.name)] = int(fields[USER_TICKS]) + int(fields[KERNEL_TICKS])
    return ticks


def kernel_cpu_s(since: Mapping[int, int]) -> float:
    """CPU seconds of the kernel's threads since an earlier `kernel_ticks`, to 10 ms; ended threads do not count."""
    return sum(max(0, ticks - since.get(thread, 0)) for thread, ticks in kernel_ticks().items()) / TICKS_PER_S


class LoadWorker(BenchProcess):
    """A module of this package, or a Python file, that answers questions, a line of JSON each."""

    answers = True

    def __init__(self, program: str | Path, directory: Path, *arguments: str) -> None:
        words = ["-m", f"jepsen_like.bench.{program}"] if isinstance(program, str) else [str(program)]
        super().__init__([sys.executable, *words, *arguments], directory)

    def tell(self, question: Mapping[str, object]) -> None:
        """Ask without waiting."""
        assert self._popen is not None
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps(question).encode() + b"\n")
        self._popen.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Returns the next answer. Raises `DidNotAnswer` if the process ended or reports that it failed."""
        assert self._popen is not None
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        if not line:
            self._popen.wait(STOP_WITHIN_S)
            self.check()
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise DidNotAnswer(answer["failed"])
        return answer

    def ask(self, question: Mapping[str, object]) -> dict[str, Any]:
        """Ask and wait."""
        self.tell(question)
        return self.answer()

    def stop(self) -> None:
        """See `BenchProcess`; and close its pipes."""
        super().stop()
        if self._popen is not None:
            for pipe in (self._popen.stdin, self._popen.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()


@contextlib.contextmanager
def running(members: Sequence[BenchProcess]) -> Iterator[None]:
    """Start all; at the end ask all to stop at once, then insist."""
    try:
        for member in members:
            member.start()
        yield
    finally:
        for member in members:
            with contextlib.suppress(AssertionError, ProcessLookupError):
                os.kill(member.pid, signal.SIGCONT)
                os.kill(member.pid, signal.SIGTERM)
        for member in members:
            member.stop()


def until(
    holds: Callable[[], bool],
    what: str,
    *,
    within_s: float = 60.0,
    every_s: float = 0.02,
    members: Sequence[BenchProcess] = (),
) -> None:
    """Wait until a condition holds. Raises `DidNotAnswer` if it does not in time, or one of `members` has ended."""
    end = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end:
            raise DidNotAnswer(f"no {what} within {within_s:g} s")
        for member in members:
            member.check()
        time.sleep(every_s)
