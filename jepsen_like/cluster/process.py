"""One node as an operating-system process: started, killed, stopped and resumed by its id, and read in /proc.

A node never outlives the harness: it asks the kernel for SIGKILL at its parent's death, which also reaches a node that
is stopped. It has a process group of its own, so that Ctrl-C in the terminal reaches the harness alone.

Its standard output is JSON lines, one event each; they are kept as they are in `events.jsonl` and handed on parsed. Its
standard error goes to `stderr.log`.
"""

import collections
import contextlib
import ctypes
import functools
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol, assert_never

import attrs
import trio

from jepsen_like.cluster.machine import Machine
from jepsen_like.port.file_damage import LogFiles
from jepsen_like.port.observations import LogBegins, Observation, OwnEnd, Ready, RoleReported, Served, TurnReported

PR_SET_PDEATHSIG = 1
AGAIN_WITHIN_S = 30.0
SHELL_STATUS = 128
"""Plus the number of a signal: the exit status that stands for an end by it."""
READ_BYTES = 64 * 1024
STDERR_TAIL_LINES = 12
LINE_BYTES_MAX = 1024 * 1024

Event = Mapping[str, Any]
"""One JSON line of a process: `t_ns` on the monotonic clock, `event`, and what belongs to it."""


@attrs.frozen
class Ended:
    """The process has ended and its output is read to the end."""


Seen = Observation | Ended
OnSeen = Callable[[int, int, Seen], None]
"""Called with the node, the time on the monotonic clock as the process told it, and what was observed."""


class Speech(Protocol):
    """The meaning of a system's process output: a part of `port.System`."""

    files: ClassVar[LogFiles]

    def observe(self, event: Event) -> Observation | None:
        """Returns the meaning of a JSON line. Raises `KeyError` or `ValueError` for a line of another form."""


@attrs.define
class NodeDidNotStart(Exception):
    """A node process ended, or said nothing, before it was ready."""

    node: int
    reason: str
    stderr: str

    def __str__(self) -> str:
        tail = f": {self.stderr}" if self.stderr else ""
        return f"node {self.node} did not start, {self.reason}{tail}"


class NodeProcess:
    """A node that can be started again and again in the same directory.

    `on_seen` is called for every line that means something, in order, and after the last one with `Ended`, from the
    nursery given to `start`. `machine` is what it runs on; `enter` runs in the child between fork and exec.
    """

    def __init__(
        self,
        node: int,
        command: Sequence[str],
        directory: Path,
        speech: Speech,
        on_seen: OnSeen,
        machine: Machine | None = None,
        enter: Callable[[], None] = lambda: None,
    ) -> None:
        self.node = node
        self.command = list(command)
        self.directory = directory
        self.machine = machine or Machine(directory / "data")
        self._speech = speech
        self._on_seen = on_seen
        self._enter = enter
        self._popen: subprocess.Popen[bytes] | None = None
        self._ended = trio.Event()
        self._ready = trio.Event()
        self.is_paused = False
        self.unasked_ends: list[str] = []
        """One line for every time the process ended without being asked to, or otherwise than it was asked to."""
        self.unmet_damages = 0
        """The number of damages to its files that it has not met.

        The process may end itself when it meets a damage, and is then started again, as a supervisor would. A damage
        that was met is cut off, so each excuses one end.
        """
        self.ends_of_damage = 0
        self._may_end = False
        self._signals: set[int] = set()
        self._own_status: int | None = None
        self._own_words = ""
        self._stderr_begin = 0

    @property
    def pid(self) -> int:
        """The newest process's id; 0 before the first start."""
        return self._popen.pid if self._popen is not None else 0

    @property
    def is_running(self) -> bool:
        """True if the process has not ended (it may be stopped by a signal)."""
        return self._popen is not None and not self._ended.is_set()

    @property
    def is_ready(self) -> bool:
        """True if it runs and has reported that it serves."""
        return self.is_running and self._ready.is_set()

    async def start(self, nursery: trio.Nursery, *, within_s: float) -> None:
        """Start it and wait until it listens. Raises `NodeDidNotStart`, the process gone, if it ends or is too late."""
        assert not self.is_running
        self.directory.mkdir(parents=True, exist_ok=True)
        ended, ready = self._ended, self._ready = (
            trio.Event(),
            trio.Event(),
        )  # one that ends at once may be started again meanwhile
        self._may_end = self.is_paused = False
        self._signals, self._own_status, self._own_words = set(), None, ""
        self.machine.boot()
        with (self.directory / "stderr.log").open("ab") as stderr:
            self._stderr_begin = stderr.tell()
            # Started from this thread and not from a worker: the kernel ties the death signal to the starting thread.
            self._popen = subprocess.Popen(  # noqa: ASYNC220
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                process_group=0,
                env={**os.environ, **self.machine.environment()},
                preexec_fn=die_with_parent(self._enter),
            )
        nursery.start_soon(self._follow, self._popen, nursery)
        with trio.move_on_after(within_s):
            async with trio.open_nursery() as waiting:
                for event in (ready, ended):
                    waiting.start_soon(_first, event, waiting.cancel_scope)
        if not ready.is_set():
            has_ended = ended.is_set()
            await self.kill()
            reason = (
                f"it ended with {_ending(self._popen.returncode)}" if has_ended else f"not ready after {within_s:g} s"
            )
            if not has_ended:
                self.unasked_ends.append(f"node {self.node} was {reason} and had to be killed")
            raise NodeDidNotStart(self.node, reason, self.stderr_tail())

    def strike(self) -> None:
        """SIGKILL, without waiting for the end."""
        self._signal(signal.SIGKILL)

    async def kill(self) -> None:
        """SIGKILL, and wait until the process is gone. Nothing to do for one that is."""
        self.strike()
        await self._ended.wait()

    def expect_end(self, is_expected: bool = True) -> None:
        """From now on the process may end by itself, or may not."""
        self._may_end = is_expected

    async def ends(self, *, within_s: float) -> bool:
        """Wait for the end of the process. Returns False if it takes longer."""
        with trio.move_on_after(within_s):
            await self._ended.wait()
        return not self.is_running

    @property
    def ending(self) -> str:
        """The way in which the newest process ended: a signal or a status."""
        return _ending(self._popen.returncode if self._popen is not None else None)

    async def stop(self, *, within_s: float, must_end: bool = True) -> None:
        """SIGTERM for a clean end; SIGKILL for one that takes longer than `within_s`, which is noted of one that must end."""
        self.resume()
        self._signal(signal.SIGTERM)
        with trio.move_on_after(within_s):
            await self._ended.wait()
        if self.is_running:
            if must_end:
                self.unasked_ends.append(f"node {self.node} did not stop within {within_s:g} s of SIGTERM")
            await self.kill()

    async def pause(self) -> None:
        """Send SIGSTOP, and wait until the kernel reports the stop: the process keeps its sockets and its state."""
        if not self.is_running:
            return
        os.kill(self.pid, signal.SIGSTOP)
        self.is_paused = True
        while process_state(self.pid) not in ("T", None):  # noqa: ASYNC110  only /proc tells
            await trio.sleep(0.001)

    def resume(self) -> None:
        """SIGCONT, if it was paused."""
        if self.is_running and self.is_paused:
            os.kill(self.pid, signal.SIGCONT)
        self.is_paused = False

    def observe(self) -> str:
        """Returns what the kernel reports of the process now: "pid 123 dead" or "pid 123 state T"."""
        state = process_state(self.pid)
        return f"pid {self.pid} dead" if state is None else f"pid {self.pid} state {state}"

    def stderr_tail(self) -> str:
        """Returns the last lines of the node's standard error since its start, as one line; empty if there are none."""
        try:
            with (self.directory / "stderr.log").open("rb") as stderr:
                stderr.seek(self._stderr_begin)
                lines = collections.deque(stderr, STDERR_TAIL_LINES)
                return " | ".join(line.decode(errors="replace").rstrip() for line in lines).strip()
        except FileNotFoundError:
            return ""

    def _signal(self, number: signal.Signals) -> None:
        if self.is_running:
            self._signals.add(number)
            os.kill(self.pid, number)

    async def _follow(self, popen: subprocess.Popen[bytes], nursery: trio.Nursery) -> None:
        """Read the node's events to the end and reap it. A cancelled harness leaves no process behind."""
        assert popen.stdout is not None
        try:
            with (self.directory / "events.jsonl").open("ab") as kept:
                await self._read_events(popen.stdout, kept)
            # Its output is closed; what is left is to end.
            await _wait_for_exit(popen.pid)
        finally:
            if popen.poll() is None:
                popen.kill()
                popen.wait()
            popen.stdout.close()
            self._ended.set()
        self._on_seen(self.node, time.monotonic_ns(), Ended())
        # A node that said how it would end and was killed before it had is judged by what it said.
        code = popen.returncode if self._own_status is None else self._own_status
        if self._is_as_asked(code):
            return
        if self._has_met_damage(code):
            self.unmet_damages -= 1
            self.ends_of_damage += 1
            if not self._signals:
                nursery.start_soon(self._start_again, nursery)
        else:
            words = self.stderr_tail() or self._own_words
            self.unasked_ends.append(f"node {self.node} (pid {popen.pid}) ended with {_ending(code)}: {words}")

    def _is_as_asked(self, code: int) -> bool:
        """It may end anyhow; or it ended by a signal that it was sent, or cleanly when it was sent SIGTERM.

        Also SIGTERM itself may end it, while its interpreter begins or has nothing left to do. Java ends with the status
        by which shells tell that.
        """
        asked = {0, SHELL_STATUS + signal.SIGTERM} if signal.SIGTERM in self._signals else set()
        return self._may_end or -code in self._signals or code in asked

    def _has_met_damage(self, code: int) -> bool:
        files = self._speech.files
        has_said = files.damage_words in self._own_words or files.damage_words in self.stderr_tail()
        return self.unmet_damages > 0 and self._ready.is_set() and code == files.damage_status and has_said

    async def _start_again(self, nursery: trio.Nursery) -> None:
        if not self.is_running:
            with contextlib.suppress(NodeDidNotStart):
                await self.start(nursery, within_s=AGAIN_WITHIN_S)

    async def _read_events(self, stdout: IO[bytes], kept: IO[bytes]) -> None:
        os.set_blocking(stdout.fileno(), False)
        rest = b""
        while True:
            await trio.lowlevel.wait_readable(stdout)
            try:
                chunk = os.read(stdout.fileno(), READ_BYTES)
            except BlockingIOError:
                continue
            if not chunk:
                return
            kept.write(chunk)
            kept.flush()
            *lines, rest = (rest + chunk)[-LINE_BYTES_MAX:].split(b"\n")
            for line in lines:
                self._observe(line)

    def _observe(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            if not isinstance(event, dict):
                return
            seen = self._speech.observe(event)
            t_ns = int(event.get("t_ns", time.monotonic_ns()))
        except (ValueError, KeyError, TypeError):
            return  # kept in events.jsonl for a person to see; a torn line at a kill is normal
        match seen:
            case None:
                return
            case Ready():
                self._ready.set()
            case OwnEnd(status, reason):
                self._own_status, self._own_words = status, reason
            case RoleReported() | LogBegins() | TurnReported() | Served():
                pass
            case _:
                assert_never(seen)
        self._on_seen(self.node, t_ns, seen)


def process_state(pid: int) -> str | None:
    """Returns the state letter of /proc/PID/stat (R, S, D, T, ...); None for a process that is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state = stat.rpartition(")")[2].split()[0]  # the name in front may hold spaces and parentheses
    return None if state in "ZX" else state


async def _first(event: trio.Event, others: trio.CancelScope) -> None:
    await event.wait()
    others.cancel()


async def _wait_for_exit(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        watch = os.pidfd_open(pid)
        try:
            await trio.lowlevel.wait_readable(watch)
        finally:
            trio.lowlevel.notify_closing(watch)
            os.close(watch)


def _ending(code: int | None) -> str:
    if code is None:
        return "no status"
    return signal.Signals(-code).name if code < 0 else f"status {code}"


@functools.cache
def _prctl() -> Callable[[int, int], int]:
    function: Callable[[int, int], int] = ctypes.CDLL(None, use_errno=True).prctl
    return function


def die_with_parent(also: Callable[[], None] = lambda: None) -> Callable[[], None]:
    """Returns a step of a child between fork and exec: ask for SIGKILL at this thread's death, then `also`."""
    return functools.partial(_die_with_parent, _prctl(), os.getpid(), also)


def _die_with_parent(prctl: Callable[[int, int], int], parent: int, also: Callable[[], None]) -> None:
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the request was made
        os._exit(1)
    also()
