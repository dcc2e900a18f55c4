"""A client in a process of its own, as the harness holds it, and the process's side of the pipe between them.

They say msgpack arrays to each other, one after the other, over the process's standard streams. To the process: first
its plan (the fields of an attrs class), then commands `[word]`; the end of the stream means `QUIT`. What it tells is
the affair of each system's workers.
"""

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import IO, Any, Final

import attrs
import msgpack
import trio

from jepsen_like.cluster.process import die_with_parent
from jepsen_like.port.port import NotServing

STOP, FINAL, QUIT = "stop", "final", "quit"
"""Commands: start nothing new; the last writes or reads, on a healed cluster; end."""
QUIT_WITHIN_S: Final = 2.0
STDERR_TAIL_BYTES: Final = 2000
CHUNK_BYTES: Final = 64 * 1024


@attrs.define(eq=False)
class ClientProcess:
    """The harness's side."""

    plan: Any
    popen: "subprocess.Popen[bytes]"
    stdout: trio.lowlevel.FdStream
    stderr: IO[bytes]
    unpacker: msgpack.Unpacker = attrs.field(factory=lambda: msgpack.Unpacker(strict_map_key=False))

    @classmethod
    def start(
        cls, module: str, plan: Any, *, stopped: bool = False, environment: Mapping[str, str] | None = None
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
        """Returns the messages since the last call; waits for one at least.

        Raises `NotServing` if the process has ended.
        """
        chunk = await self.stdout.receive_some()
        if not chunk:
            self.popen.wait()
            self.stderr.seek(0)
            told = self.stderr.read()[-STDERR_TAIL_BYTES:].decode(errors="replace").strip()
            raise NotServing(f"a client process ended with status {self.popen.returncode}: {told}")
        self.unpacker.feed(chunk)
        return list(self.unpacker)

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

    def fields(self) -> Mapping[str, Any]:
        """Wait for the plan."""
        while True:
            self.wait(None)
            found = self.commands()
            if found:
                self._waiting = found[1:]  # it may be told to stop before it has begun
                fields: Mapping[str, Any] = found[0]
                return fields

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

    def say(self, *message: Any) -> None:
        """Write one message; waits while the harness does not read."""
        data = memoryview(msgpack.packb(message))
        while data:
            data = data[os.write(self._out, data) :]
