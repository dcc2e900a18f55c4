"""Clients that hoard the memory of a process: what it holds stays under its total, and a healthy client is served.

Three acts, each on connections of its own, on one port: many that say nothing, some that send nearly all of a large frame after a
request that was answered, and some that send requests without end and read no answer.
"""

import contextlib
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs
import msgpack

from raft.net.budget import CROWDED_OUT
from rocketmq_compat.remoting.frame import Command, encode
from tests.fuzz import wire

MIB = 1024 * 1024
SLACK_BYTES = 96 * MIB
"""A process may take so much besides: freed memory that Python keeps, the log, and one read of the kernel."""
SILENT, GREEDY, DEAF = 1500, 60, 40
GREEDY_BYTES = 15 * MIB
ANSWER_S = 60.0


@attrs.frozen
class Wire:
    """One wire: its beginning, a small question, and the beginning of a large request. Answers begin with their length."""

    greeting: bytes
    question: bytes
    large: bytes
    more_bytes: int
    """The bytes of an answer besides its announced length."""


RAFT = Wire(
    wire.frame(wire.HELLO, msgpack.packb([wire.CLUSTER, "client", 0])),
    wire.frame(wire.STATUS, msgpack.packb([1])),
    wire.HEADER.pack(GREEDY_BYTES + 1, 1, 2, wire.header_check(GREEDY_BYTES + 1, 1, 2), 0),
    wire.HEADER.size,
)
KAFKA = Wire(b"", struct.pack(">ihhih", 10, 18, 0, 1, -1), struct.pack(">ihhih", GREEDY_BYTES + 10, 0, 3, 1, -1), 4)
ROCKETMQ = Wire(b"", b"".join(encode(Command(105, 1, {"topic": "none"}))), struct.pack(">I", GREEDY_BYTES + 1), 4)


@attrs.define
class Served:
    """A process that serves a port."""

    process: subprocess.Popen[str]
    port: int

    def memory_bytes(self) -> int:
        """Resident memory now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024


@contextlib.contextmanager
def serving(module: str, port: int, arguments: Sequence[str]) -> Iterator[Served]:
    """Start a process, and stop it at the end, when it must not have failed."""
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=subprocess.DEVNULL, text=True)
    try:
        _await_port(port, process)
        yield Served(process, port)
        assert process.poll() is None, f"it ended with {process.returncode}"
    finally:
        process.terminate()
        process.wait(60)


def _await_port(port: int, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on {port}")


class Healthy:
    """A client that asks on one connection, again and again. `longest_s` is how long an answer took at most."""

    def __init__(self, wire: Wire, port: int) -> None:
        self.longest_s = 0.0
        self.failure = ""
        self.answers = 0
        self._wire = wire
        self._connection = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        if wire.greeting:
            self._ask(wire.greeting)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_over.wait(0.02):
                began = time.monotonic()
                self._ask(self._wire.question)
                self.longest_s = max(self.longest_s, time.monotonic() - began)
                self.answers += 1
        except (OSError, EOFError) as error:
            self.failure = repr(error)

    def _ask(self, question: bytes) -> None:
        self._connection.sendall(question)
        (length,) = struct.unpack(">I", wire.read_exactly(self._connection, 4))
        wire.read_exactly(self._connection, length + self._wire.more_bytes - 4)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._connection.close()


def hoard(wire: Wire, served: Served, total_bytes: int) -> dict[str, float]:
    """Play the acts against a process with this total; what happened. `AssertionError` if it held more."""
    healthy = Healthy(wire, served.port)
    baseline = peak = served.memory_bytes()
    grew: dict[str, int] = {}
    with contextlib.ExitStack() as stack:
        stack.callback(healthy.stop)
        for act in (_stay_silent, _send_large_frames, _read_nothing):
            with contextlib.ExitStack() as clients:
                for _ in act(wire, served.port, clients):
                    peak = max(peak, served.memory_bytes())
                grew[act.__name__] = round((peak - baseline) / MIB)
                assert not healthy.failure, f"{act.__name__}: {healthy.failure}, after {healthy.answers} answers"
    assert peak - baseline < total_bytes + SLACK_BYTES, f"memory grew by MiB: {grew}"
    assert healthy.answers, CROWDED_OUT
    return {"grew_mib": (peak - baseline) / MIB, "answers": healthy.answers, "longest_s": healthy.longest_s}


def _dial(port: int, clients: contextlib.ExitStack, *sent: bytes) -> socket.socket | None:
    try:
        client = clients.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        client.sendall(b"".join(sent))
    except OSError:
        return None
    client.setblocking(False)
    return client


def _stay_silent(wire: Wire, port: int, clients: contextlib.ExitStack) -> Iterator[None]:
    for number in range(SILENT):
        _dial(port, clients, wire.question[: number % 3])
        yield None


def _send_large_frames(wire: Wire, port: int, clients: contextlib.ExitStack) -> Iterator[None]:
    chunk = bytes(MIB)
    greedy = [_dial(port, clients, wire.greeting, wire.question, wire.large) for _ in range(GREEDY)]
    yield from _push([client for client in greedy if client], lambda: chunk, GREEDY_BYTES)


def _read_nothing(wire: Wire, port: int, clients: contextlib.ExitStack) -> Iterator[None]:
    chunk = wire.question * (MIB // 4 // len(wire.question))
    deaf = [_dial(port, clients, wire.greeting) for _ in range(DEAF)]
    yield from _push([client for client in deaf if client], lambda: chunk, 4 * MIB)


def _push(clients: list[socket.socket], chunk: Callable[[], bytes], bytes_max: int) -> Iterator[None]:
    """Send so much by each client, as far as it is taken; until nothing was taken for two seconds, or for half a minute."""
    sent = dict.fromkeys(clients, 0)
    until, moved_at = time.monotonic() + 30, time.monotonic()
    while sent and time.monotonic() < min(until, moved_at + 2):
        _, writable, _ = select.select([], list(sent)[:900], [], 0.1)
        for client in writable:
            moved_at = time.monotonic()
            try:
                sent[client] += client.send(chunk()[: bytes_max - sent[client]])
            except BlockingIOError:
                continue
            except OSError:
                del sent[client]
            else:
                if sent[client] >= bytes_max:
                    del sent[client]
        yield None
