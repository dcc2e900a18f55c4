"""A client in a process of its own, as the harness holds it, and the process's side of the pipe between them.

They say msgpack arrays to each other, one after the other, over the process's standard streams. To the process: first
its plan (the fields of a `ClientPlan`), then commands `[word]`; the end of the stream means `QUIT`. From the process:
- `[ROWS, incarnation, rows]`, gathered over some milliseconds: each the name of a class of `client_rows`, and its fields;
- `[STOPPED]`: nothing is under way any more;
- `[FINAL, answered, ends]`: whether all was answered, and the end of each object that the client was told.
"""

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, Final, TypeVar

import attrs
import msgpack
import trio

from jepsen_like.cluster.process import die_with_parent
from jepsen_like.port.port import NotServing
from jepsen_like.workload.client_rows import ROW_TYPES, ClientPlan, Row

STOP, FINAL, QUIT = "stop", "final", "quit"
"""Commands: start nothing new; the last writes or reads, on a healed cluster; end."""
ROWS, STOPPED = "rows", "stopped"
FLUSH_EVERY_S: Final = 0.02
ROWS_MAX: Final = 512
QUIT_WITHIN_S: Final = 2.0
STDERR_TAIL_BYTES: Final = 2000
CHUNK_BYTES: Final = 64 * 1024
PlanT = TypeVar("PlanT", bound=ClientPlan)


@attrs.define(eq=False)
class ClientProcess:
    """The harness's side."""

    plan: ClientPlan
    popen: "subprocess.Popen[bytes]"
    stdout: trio.lowlevel.FdStream
    stderr: IO[bytes]
    unpacker: msgpack.Unpacker = attrs.field(factory=lambda: msgpack.Unpacker(strict_map_key=False))

    @classmethod
    def start(
        cls, module: str, plan: ClientPlan, *, stopped: bool = False, environment: Mapping[str, str] | None = None
    ) -> "ClientProcess":
        """Start `python -m module`; it begins at once, unless it is `stopped` before."""
        stderr = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        popen = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
            process_group=0,
            preexec_fn=die_with_parent(),
            env={**os.environ, **(environment or {})},
        )
        assert popen.stdout is not None
        stdout = trio.lowlevel.FdStream(os.dup(popen.stdout.fileno()))
        popen.stdout.close()
        process = cls(plan, popen, stdout, stderr)
        # In one piece: a command that came later could find the worker at work.
        process._write(attrs.asdict(plan), *([[STOP]] if stopped else []))
        return process

    def tell(self, command: str) -> None:
        """A command; one that has ended is told nothing."""
        try:
            self._write([command])
        except OSError:
            return

    def _write(self, *messages: Any) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(b"".join(map(msgpack.packb, messages)))

    async def messages(self) -> list[Any]:
        """Returns the messages since the last call, one at least. Raises `NotServing` if the process has ended."""
        chunk = await self.stdout.receive_some()
        if not chunk:
            self.popen.wait()
            self.stderr.seek(0)
            told = self.stderr.read()[-STDERR_TAIL_BYTES:].decode(errors="replace").strip()
            raise NotServing(f"a client process ended with status {self.popen.returncode}: {told}")
        self.unpacker.feed(chunk)
        return list(self.unpacker)

    async def listen(self, until: str, take: Callable[[ClientPlan, int, Row], None]) -> list[Any]:
        """Hand over reports until this word. Returns the rest of that message. Raises `NotServing` if it has ended."""
        while True:
            for word, *content in await self.messages():
                if word == until:
                    return list(content)
                if word == ROWS:
                    incarnation, rows = content
                    for kind, *fields in rows:
                        take(self.plan, incarnation, ROW_TYPES[kind](*fields))

    async def end(self) -> None:
        """Let it end, or end it."""
        self.tell(QUIT)
        deadline = trio.current_time() + QUIT_WITHIN_S
        while self.popen.poll() is None and trio.current_time() < deadline:  # noqa: ASYNC110 - only the kernel knows
            await trio.sleep(0.01)
        self.kill()

    def kill(self) -> None:
        """End it now."""
        self.popen.kill()
        self.popen.wait()
        if self.popen.stdin is not None:
            self.popen.stdin.close()
        self.stdout.close()
        self.stderr.close()


class ClientPipe:
    """The process's side: commands without waiting, what it tells in whole messages."""

    def __init__(self) -> None:
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        os.set_blocking(self._in, False)
        self._unpacker = msgpack.Unpacker()
        self._waiting: list[Any] = []
        self._rows: list[Row] = []
        self._flushed_ns = time.monotonic_ns()
        self.incarnation = 0
        """Of the client that the rows are about."""

    def plan(self, kind: type[PlanT]) -> PlanT:
        """Wait for the plan."""
        while True:
            self.wait(None)
            found = self.commands()
            if found:
                self._waiting = found[1:]  # it may be told to stop before it has begun
                plan = kind(**found[0])
                self.incarnation = plan.incarnation
                return plan

    def wait(self, timeout_s: float | None) -> None:
        """Until there may be a command, or for so long."""
        if not self._waiting:
            select.select([self._in], [], [], timeout_s)

    def commands(self) -> list[Any]:
        """Returns the commands since the last call; `["quit"]` at the end of the stream."""
        waiting, self._waiting = self._waiting, []
        try:
            chunk = os.read(self._in, CHUNK_BYTES)
        except BlockingIOError:
            return waiting
        if not chunk:
            return [*waiting, [QUIT]]
        self._unpacker.feed(chunk)
        return [*waiting, *self._unpacker]

    def turns(self, final: Callable[[], None]) -> Iterator[bool]:
        """Yields before each turn of a client that has nothing under way then: True while it has to work.

        Between turns this obeys the harness, by `final` in the end, and ends when that lets the client end.
        """
        stopping = False
        while True:
            for command, *_ in self.commands():
                if command == QUIT:
                    return
                if command == STOP and not stopping:
                    stopping = True
                    self.flush(force=True)
                    self.say(STOPPED)
                if command == FINAL:
                    final()
            yield not stopping

    def say(self, *message: Any) -> None:
        """Write one message; waits while the harness does not read."""
        data = memoryview(msgpack.packb(message))
        while data:
            data = data[os.write(self._out, data) :]

    def report(self, row: Row) -> None:
        """Keep a row for the next flush. Any thread may call this."""
        self._rows.append(row)

    def flush(self, *, force: bool = False) -> None:
        """Write the rows if they are many, or the last were written some time ago."""
        now, count = time.monotonic_ns(), len(self._rows)
        if count and (force or count >= ROWS_MAX or now - self._flushed_ns >= FLUSH_EVERY_S * 1e9):
            self.say(ROWS, self.incarnation, [(type(row).__name__, *row) for row in self._rows[:count]])
            del self._rows[:count]
            self._flushed_ns = now
